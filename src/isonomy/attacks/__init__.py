"""What is attainable: similar pairs that a network treats differently.

A search (:mod:`~isonomy.attacks.search`) proposes, a judge (:mod:`~isonomy.attacks.judge`) checks.
"""

from isonomy.attacks.field import Field
from isonomy.attacks.judge import Finds, Judge
from isonomy.attacks.places import as_individuals, find_anchors, project_to_region
from isonomy.attacks.search import AttackBudget, attack, attack_budget
from isonomy_verify.local import Known

__all__ = [
    "AttackBudget",
    "Field",
    "Finds",
    "Judge",
    "Known",
    "as_individuals",
    "attack",
    "attack_budget",
    "find_anchors",
    "project_to_region",
]
