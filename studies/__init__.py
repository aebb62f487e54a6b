"""The paper's experiments, each one command: ``isonomy reproduce NAME``.

An experiment is a module with ``run(setting, store)``. It asks the store for every number that takes time, seeds
outermost, and makes a :class:`Result` of whatever is there; :func:`write` puts that on paper.
"""

from isonomy.reproduce.page import Result, write
from isonomy.reproduce.setting import Setting
from isonomy.reproduce.store import Store

__all__ = ["Result", "Setting", "Store", "write"]
