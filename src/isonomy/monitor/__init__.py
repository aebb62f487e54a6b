"""Has the population moved: is a certificate still about the people of today?"""

from isonomy.monitor.evaluation import Evaluation, MeanViolation, Observed, Reference, RefusedShare, State, evaluate
from isonomy.monitor.monitor import GroupViolation, Guarantee, Monitor, by_group

__all__ = [
    "Evaluation",
    "GroupViolation",
    "Guarantee",
    "MeanViolation",
    "Monitor",
    "Observed",
    "Reference",
    "RefusedShare",
    "State",
    "by_group",
    "evaluate",
]
