"""Group fairness beside the individual certificates: do groups of people fare alike?"""

from isonomy.fairness.blind import blind_scores
from isonomy.fairness.decisions import scores
from isonomy.fairness.group import GroupFairness, group_fairness

__all__ = ["GroupFairness", "blind_scores", "group_fairness", "scores"]
