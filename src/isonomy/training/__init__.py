"""Fair models that can be proved fair: scorecards, and networks, whose training and repair need ``isonomy[torch]``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isonomy.errors import needed
from isonomy.training.collapse import CollapsedModelWarning
from isonomy.training.estimators import FairClassifier, FairRegressor
from isonomy.training.frontier import Frontier, frontier

if TYPE_CHECKING:
    from isonomy.training.repairing import FineTuning as FineTuning
    from isonomy.training.repairing import Repair as Repair
    from isonomy.training.repairing import repair as repair

_OF_NETWORKS = ("FineTuning", "Repair", "repair")

__all__ = ["CollapsedModelWarning", "FairClassifier", "FairRegressor", "Frontier", "frontier", *_OF_NETWORKS]


def __getattr__(name: str) -> Any:
    if name in _OF_NETWORKS:
        needed("torch", "torch", "Repair")
        globals()[name] = value = getattr(import_module("isonomy.training.repairing"), name)
        return value
    raise AttributeError(f"module 'isonomy.training' has no attribute {name!r}")
