"""The paper's experiments and others about the library, each one command: ``python -m studies NAME``.

A study is a module with ``run(setting, store)``. It asks the store for every number that takes time, seeds outermost,
and makes a :class:`Result` of whatever is there; :func:`write` puts that on paper.
"""

from studies.page import Result, write
from studies.steps import Setting
from studies.store import Store

__all__ = ["Result", "Setting", "Store", "write"]
