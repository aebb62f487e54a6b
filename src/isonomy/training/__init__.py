"""Certified training: networks that keep their accuracy and can be proved fair."""

from isonomy.training.collapse import CollapsedModelWarning
from isonomy.training.estimators import FairClassifier, FairRegressor
from isonomy.training.frontier import Frontier, frontier
from isonomy.training.repair import Repair, repair

__all__ = ["CollapsedModelWarning", "FairClassifier", "FairRegressor", "Frontier", "Repair", "frontier", "repair"]
