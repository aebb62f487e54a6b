"""The tables of people: who is trained on, and with which parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from isonomy.population import Population
from studies import paper
from studies.methods import ALPHA, Way
from studies.surveys import describe, load_population


@dataclass(frozen=True)
class Dataset:
    """A table, who of it is trained on, and with which parameters.

    ``blind`` says that no network of this encoding sees the protected attribute, so that FTU is SGD. ``others`` are
    populations that the network was not trained on; ``favourable`` is the class that people hope for. ``epochs`` may be
    left to the estimator. As in the paper everybody counts the same, unless the table is ``weighted``.
    """

    name: str
    title: str
    source: str
    load: Mapping[str, Any]
    words: str
    delta: float = paper.DELTA
    gamma: float = paper.GAMMA
    epochs: int | None = 10
    learning_rate: float = 1e-3
    alphas: Mapping[Way, float] = field(default_factory=dict)
    blind: bool = False
    sex: str = "SEX"
    favourable: str = "1"
    shifted: bool = False
    weighted: bool = False

    def alpha(self, way: Way) -> float | None:
        """The weight of the bound; None where there is none."""
        return self.alphas.get(way, ALPHA) if way.bounded else None

    def people(self) -> Population:
        """Everybody of the table, in the domain of the paper."""
        people = load_population(self.source, **self.load, domain="unbounded")
        return people if self.weighted else replace(people, weights=np.ones(len(people)))

    def others(self) -> Iterator[tuple[str, Callable[[], Population]]]:
        """The other states and years on this machine, by name."""
        own = {f"{state} {year}" for state in self.load["states"] for year in self.load["years"]}
        for place in describe(self.source).here if self.shifted else ():
            if place not in own:
                state, year = place.split()
                load = {**self.load, "states": [state], "years": [int(year)]}
                yield place, replace(self, load=load).people


def _survey(source: str, state: str) -> dict[str, Any]:
    return {"source": source, "load": {"states": [state], "years": [2018], "encoding": "paper"}}


INCOME = Dataset(
    "income", "Income", **_survey("acs-income", "CA"), words="California 2018", epochs=12, blind=True, shifted=True,
    alphas={Way("f-ibp"): 1.8, Way("u-dif"): 0.8, Way("f-ibp", box=True): 0.3},
)  # fmt: skip
EMPLOY = Dataset(
    "employ", "Employ", **_survey("acs-employment", "MA"), words="Massachusetts 2018", blind=True, shifted=True
)
COVERAGE = Dataset(
    "coverage", "Coverage", **_survey("acs-coverage", "CA"), words="California 2018", blind=True, shifted=True
)
SURVEYS = (INCOME, EMPLOY, COVERAGE)


def _small(name: str, **options: Any) -> Dataset:
    told = paper.PARAMETERS[name]
    return Dataset(
        name, name.capitalize(), name, delta=told.delta, gamma=told.gamma, epochs=told.epochs,
        learning_rate=told.learning_rate, **options,
    )  # fmt: skip


ADULT = _small("adult", load={}, words="the UCI table's own split", sex="sex", favourable=">50K")
CREDIT = _small("credit", load={"encoding": "paper"}, words="clients of a bank, 2005", blind=True, favourable="0")
GERMAN = _small(
    "german", load={}, words="loan applicants", sex="personal_status",
    alphas={Way("f-ibp"): 2.0, Way("u-dif"): 2.0, Way("f-ibp", box=True): 0.5},
)  # fmt: skip
UCI = (GERMAN, CREDIT, ADULT)  # the smallest first
