"""Group fairness, next to the individual certificates: rates of groups and the gaps between them."""

from isonomy.fairness.blind import blind_scores
from isonomy.fairness.decisions import SCORES, scores
from isonomy.fairness.group import Bootstrap, GroupFairness, group_fairness

__all__ = ["SCORES", "Bootstrap", "GroupFairness", "blind_scores", "group_fairness", "scores"]
