"""An audit: from people and a network to findings, a report and a certificate.

:class:`Plan` says what to audit (from options or an ``audit.toml``), :func:`run` audits it, :func:`write` puts the
report, the certificate and the files for machines into one directory. Names are imported when they are first used: the
command line reads the options of a plan for its help, and help has to be immediate.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isonomy.auditing.call import audit
    from isonomy.auditing.output import write
    from isonomy.auditing.pipeline import run
    from isonomy.auditing.plan import Plan
    from isonomy.auditing.result import Audit

__all__ = ["Audit", "Plan", "audit", "run", "write"]
_MODULES = {"Audit": "result", "audit": "call", "Plan": "plan", "run": "pipeline", "write": "output"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"isonomy.auditing.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'isonomy.auditing' has no attribute {name!r}")
