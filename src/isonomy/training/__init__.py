"""Certified training: networks that keep their accuracy and can be proved fair. It needs ``isonomy[torch]``."""

from isonomy.errors import needed

try:
    from isonomy.training.collapse import CollapsedModelWarning
    from isonomy.training.estimators import FairClassifier, FairRegressor
    from isonomy.training.frontier import Frontier, frontier
    from isonomy.training.repair import FineTuning, Repair, repair
except ModuleNotFoundError:
    needed("torch", "torch", "Training")
    raise

__all__ = [
    "CollapsedModelWarning", "FairClassifier", "FairRegressor", "FineTuning", "Frontier", "Repair", "frontier",
    "repair",
]  # fmt: skip
