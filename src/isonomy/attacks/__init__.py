"""Attacks: similar pairs with different outputs of a network.

A search (:mod:`~isonomy.attacks.search`) proposes candidates, a judge (:mod:`~isonomy.attacks.judge`) checks them.
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
