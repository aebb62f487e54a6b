"""The certificate: for the people we have seen and for every population close to them.

It bounds ``sup { E_Q[I(z, δ)] : W_p(P, Q) ≤ γ }``, ``P`` the (weighted) individuals: from above by profiles of bounds
with a moving centre and weak duality (:mod:`isonomy.certificates.dual`), from below by a distribution within γ
(:mod:`isonomy.certificates.worst_case`).

**Soundness.** ``upper`` is one outward-rounded pass over the profiles with some multiplier, valid for every multiplier;
``lower`` is the mean of checked violations over a distribution whose transport cost is at most γ. Neither depends on an
optimiser having converged. The statement about the population behind the sample is refused where the individuals are
known to have been used for fitting, or to be no independent draws.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most
from isonomy.brief import brief
from isonomy.certificates.consistency import compare_means, compare_points, described
from isonomy.certificates.dual import Cells, Dual, Mixture, check_radius
from isonomy.certificates.finite_sample import Clusters, PopulationBound, population_upper
from isonomy.certificates.local import LocalCertificate
from isonomy.certificates.profiles import CellBlocks, Profiles, Schedule, covered
from isonomy.certificates.question import Question
from isonomy.certificates.worst_case import Points, WorstCase
from isonomy.errors import DataError, ParameterError, template
from isonomy.population import Population
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.metric import Metric

Verdict = Literal["certified", "violated", "undecided"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was proved of, and found in, the populations within γ of the individuals."""

    gamma: float
    order: float
    ground: Metric
    delta: float
    epsilon: float | None
    confidence: float | None
    tier: str
    arithmetic: str
    local: LocalCertificate
    profiles: Profiles
    points: Points
    refusal: str  # why nothing is said of the population behind the sample; "" when something is
    question: Question = field(repr=False)
    people: Population | None = field(repr=False)  # None where individuals came as plain numbers
    schedule: Schedule = field(repr=False)
    seed: int = 0
    clusters: Clusters | None = None
    sources: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # files of the people, and their SHA-256
    computed: int = field(default=0, repr=False)  # chunks that this run computed; others were kept
    output_range: tuple[float, float] | None = None  # that the outputs of a regression are declared to keep to
    _mixtures: dict[float, Mixture] = field(default_factory=dict, init=False, repr=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        points, asked = self.points, {"gamma": self.gamma, "order": self.order, "tier": self.tier}
        asked |= {"arithmetic": self.arithmetic}

        def evidence(at: int) -> dict[str, Any]:
            pair = {"individual": self.question.x[points.owner[at]].tolist(), "person": points.person[at].tolist()}
            pair["counterpart"] = points.counterpart[at].tolist()
            return described(self.question) | asked | {"ground": metric_to_text(self.ground)} | pair

        compare_points(points.owner, points.cost, points.value, self.profiles, evidence)
        self._compare(self.gamma, self.lower, self.upper)

    def _compare(self, gamma: float, lower: float, upper: float) -> None:
        asked = {"gamma": gamma, "order": self.order, "tier": self.tier, "arithmetic": self.arithmetic}
        what = f"Within {gamma:g} of the individuals a population's mean output"
        compare_means(what, lower, upper, self.question, **asked)

    def __len__(self) -> int:
        return len(self.question.x)

    @property
    def upper(self) -> float:
        """No population within γ has a mean violation above this."""
        return self.dual.bound(self.gamma).upper

    @property
    def multiplier(self) -> float | None:
        """The multiplier with which one pass over the profiles gives ``upper`` again."""
        return self.dual.bound(self.gamma).multiplier

    @property
    def lower(self) -> float:
        """The mean violation of ``worst_case``."""
        return self.attained(self.gamma)

    def attained(self, gamma: float) -> float:
        """The mean violation of an explicit population within another γ."""
        if gamma not in self._mixtures:
            self._mixtures[gamma] = self.points.mixture(self.question.weights, gamma, self.order)
        return self._mixtures[gamma].value

    @property
    def mixture(self) -> Mixture:
        """Which points the worst case stands on."""
        self.attained(self.gamma)
        return self._mixtures[self.gamma]

    @cached_property
    def worst_case(self) -> WorstCase:
        """The distribution behind ``lower``: atoms, masses, transport cost."""
        return self.points.worst(self.question, self.gamma, self.order)

    @property
    def grid_error(self) -> float:
        """How much of ``upper`` the grid of radii may have cost."""
        return self.dual.grid_error(self.gamma)

    @property
    def verdict(self) -> Verdict:
        """Against the certificate's own ε."""
        if self.epsilon is None:
            raise ParameterError(template("epsilon", "given to certify() for a verdict", None))
        return judge(self.lower, self.upper, self.epsilon)

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Upper and lower for other γ, without new bounding work; tightest around the certificate's own."""
        gammas = list(gammas)
        for gamma in gammas:
            check_radius(self.order, gamma)
        upper = [bound.upper for bound in self.dual.curve(gammas)]
        lower = [self.attained(gamma) for gamma in gammas]
        for row in zip(gammas, lower, upper, strict=True):
            self._compare(*row)
        return pd.DataFrame({"gamma": gammas, "upper": upper, "lower": lower})

    def largest_gamma(self, epsilon: float) -> float | None:
        """Up to which shift no population exceeds ε, as far as the profiles show; None if even these people do."""
        return self.dual.largest_gamma(epsilon)

    @cached_property
    def population(self) -> PopulationBound:
        """The bound for populations within γ of the one that the individuals were drawn from."""
        if self.refusal:
            raise DataError(self.refusal)
        assert self.confidence is not None
        return population_upper(
            self.cells, self.order, self.gamma, self.profiles.largest, self.confidence,
            adapted_across=True, seed=self.seed, clusters=self.clusters,
        )  # fmt: skip

    @property
    def population_upper(self) -> float:
        """With the stated confidence no population within γ of the true one has a mean violation above this."""
        return self.population.upper

    @property
    def population_verdict(self) -> Verdict:
        """Certified or undecided for the true population; a sample cannot show a violation of it here."""
        if self.epsilon is None:
            raise ParameterError(template("epsilon", "given to certify() for a verdict", None))
        return "certified" if self.population_upper <= self.epsilon else "undecided"

    @property
    def cells(self) -> Cells:
        """The cover of everybody that the dual works on."""
        return covered(self.profiles, self.question.weights, np.arange(len(self)))

    @cached_property
    def dual(self) -> Dual:
        """The dual of the transport problem over the profiles."""
        return Dual(CellBlocks(self.profiles, self.question.weights), self.order)

    def __str__(self) -> str:
        shift = f"within {self.gamma:g} of these {len(self):,} individuals"
        found = f"an explicit one reaches {at_least(self.lower)}" if self.lower > 0 else "none was found to be unequal"
        return f"No population {shift} has a mean violation above {at_most(self.upper)}; {found}."


def judge(lower: float, upper: float, epsilon: float) -> Verdict:
    """What two bounds say about ε."""
    if upper <= epsilon:
        return "certified"
    return "violated" if lower > epsilon else "undecided"
