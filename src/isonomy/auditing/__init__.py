"""The main job: people and a network in, what was proved and what was found out.

:class:`Plan` says what to audit (from options or an ``audit.toml``), :func:`run` does it, :func:`write` puts the
report, the certificate and the files for machines into one directory. Names are imported when they are first used: the
command line reads the options of a plan for its help, and help has to be immediate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isonomy.auditing.call import Audit, audit, run
    from isonomy.auditing.output import write
    from isonomy.auditing.plan import Plan

__all__ = ["Audit", "Plan", "audit", "run", "write"]
_WHERE = {"Audit": "call", "audit": "call", "Plan": "plan", "run": "call", "write": "output"}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"isonomy.auditing.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'isonomy.auditing' has no attribute {name!r}")
