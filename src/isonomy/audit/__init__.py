"""The main job: people and a network in, what was proved and what was found out.

:class:`Plan` says what to audit (from options or an ``audit.toml``), :func:`run` does it, :func:`write` puts the
report, the certificate and the files for machines into one directory.
"""

from isonomy.audit.job import run
from isonomy.audit.output import write
from isonomy.audit.plan import Plan

__all__ = ["Plan", "run", "write"]
