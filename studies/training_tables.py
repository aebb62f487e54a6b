"""What the training experiment trains: tables of people, models, and what chooses their parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DELTA, GAMMA, RIDGE = 0.05, 0.1, 1.0
CERTIFIED = 1000
"""People whose certificates are averaged, drawn once."""

Line = dict[str, Any]
"""What one training found, as it is kept."""


@dataclass(frozen=True)
class Model:
    """One line of a table: how it is trained, and what chooses its alpha (or its learning rate)."""

    name: str
    parameters: dict[str, Any]
    alphas: tuple[float, ...] = ()
    goal: tuple[str, float] | None = None  # "local" or "shifted", and the upper bound wanted
    rates: tuple[float, ...] = ()
    family: str = ""  # models of one family are the same training with other goals, and share their trials

    @property
    def tried_as(self) -> str:
        """The name under which trials are kept."""
        return self.family or self.name

    def options(self) -> list[dict[str, float]]:
        """What is chosen from, in the order of trial."""
        return [{"alpha": a} for a in self.alphas] or [{"learning_rate": r} for r in self.rates] or [{}]


@dataclass(frozen=True)
class Table:
    """People, and the models trained on them."""

    name: str
    title: str
    load: dict[str, Any] = field(default_factory=dict)
    models: tuple[Model, ...] = ()
    epochs: int | None = 12
    repaired: tuple[float, ...] = ()  # epsilons to which the plain network is repaired
    frontier: tuple[float, ...] = ()  # alphas of the trade-off
    realizable: tuple[str, ...] = ()  # models that are certified on the realizable domain as well, which takes longer


PLAIN = Model("plain", {"method": "sgd"}, rates=(1e-3, 2e-3))
ALPHAS = (0.5, 2.0)
U_DIF = (0.3, 0.5, 0.65, 0.8, 1.0, 1.25)
OTHERS = (
    PLAIN,
    Model("f-ibp", {"method": "f-ibp"}, ALPHAS),
    Model("u-dif", {"method": "u-dif"}, ALPHAS),
)
BOX = Model("f-ibp, box form", {"method": "f-ibp", "bound": "paper"}, ALPHAS)
TABLES = (
    Table(
        "acs-income",
        "ACS Income, California 2018, the paper's columns",
        {"states": ["CA"], "years": [2018], "encoding": "paper"},
        (
            PLAIN,
            Model("f-ibp", {"method": "f-ibp"}, (1.4, 1.8, 2.3, 3.0), ("local", 0.0125)),
            Model("u-dif, goal 0.058", {"method": "u-dif"}, U_DIF, ("shifted", 0.058), family="u-dif"),
            Model("u-dif, goal 0.03", {"method": "u-dif"}, U_DIF, ("shifted", 0.03), family="u-dif"),
            Model("f-ibp, box form", {"method": "f-ibp", "bound": "paper"}, (0.3, 0.6, 1.0, 2.0), ("local", 0.0125)),
            Model("sensr", {"method": "sensr"}),
            Model("l-dif", {"method": "l-dif"}, (0.5, 1.0, 2.0), ("shifted", 0.058)),
        ),
        repaired=(0.02, 0.0125),
        realizable=("plain", "u-dif, goal 0.03"),
    ),
    Table("german", "German credit", {}, (*OTHERS, BOX), None, (0.1, 0.03, 0.01), (0.0, 0.3, 1.0, 3.0)),
    Table("adult", "Adult", {}, OTHERS, epochs=6),
    Table("credit", "Credit card clients", {}, OTHERS, epochs=8),
    Table("acs-employment", "ACS Employment, Massachusetts", {"states": ["MA"]}, OTHERS, epochs=4),
    Table("acs-coverage", "ACS PublicCoverage, California", {"states": ["CA"], "years": [2018]}, OTHERS, epochs=5),
)
