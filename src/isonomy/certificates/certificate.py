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

from isonomy.arithmetic import at_least, at_most, decimals_of_bound, reached, these, weighted
from isonomy.brief import brief
from isonomy.certificates.consistency import compare_means, compare_points, describe
from isonomy.certificates.dual import Cells, Dual, Mixture
from isonomy.certificates.finite_sample import Clusters, PopulationBound, population_upper
from isonomy.certificates.local import LocalCertificate
from isonomy.certificates.profiles import CellBlocks, Profiles, Schedule
from isonomy.certificates.protocol import Shift
from isonomy.certificates.question import Question
from isonomy.certificates.transport import Transport
from isonomy.certificates.worst_case import Points, WorstCase
from isonomy.errors import DataError, ParameterError, UnsupportedOperationError, template
from isonomy.population import Population
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.metric import Metric

Verdict = Literal["certified", "violated", "undecided"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """What was proved of, and found in, the populations of a shift: those within γ of the individuals."""

    shift: Shift
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
    clusters: Clusters | None = None
    sources: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # files of the people, and their SHA-256
    computed: int = field(default=0, repr=False)  # chunks that this run computed; others were kept
    output_range: tuple[float, float] | None = None  # that the outputs of a regression are declared to keep to
    searched: bool = True  # for counterparts and populations; else ``lower`` is 0 and says nothing
    _mixtures: dict[float | None, Mixture] = field(default_factory=dict, init=False, repr=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        points = self.points

        def evidence(at: int) -> dict[str, Any]:
            pair = {"individual": self.question.x[points.owner[at]].tolist(), "person": points.person[at].tolist()}
            pair["counterpart"] = points.counterpart[at].tolist()
            return describe(self.question) | self._parameters(self.shift.size) | pair

        compare_points(points.owner, points.cost, points.value, self.profiles, evidence)
        self._compare(self.shift.size, self.lower, self.upper)

    def _compare(self, gamma: float | None, lower: float, upper: float) -> None:
        where = "In the shift" if gamma is None else f"Within {gamma:g}"
        what = f"{where} of the individuals a population's mean output"
        compare_means(what, lower, upper, self.question, **self._parameters(gamma))

    def _parameters(self, gamma: float | None) -> dict[str, Any]:
        asked: dict[str, Any] = {"gamma": gamma, "tier": self.tier, "arithmetic": self.arithmetic}
        if isinstance(self.shift, Transport):
            return asked | {"order": self.order, "ground": metric_to_text(self.ground)}
        return asked | {"shift": self.shift.fingerprint()}

    @property
    def transport(self) -> Transport:
        """The shift, for whatever knows no other notion: records, reports, γ."""
        if isinstance(self.shift, Transport):
            return self.shift
        raise UnsupportedOperationError(
            f"This certificate is about a shift of kind '{self.shift.kind}': records, reports and gamma are known of "
            "'transport' only."
        )

    @property
    def gamma(self) -> float:
        """How far populations may be."""
        return self.transport.gamma

    @property
    def order(self) -> float:
        """Of the Wasserstein distance."""
        return self.transport.order

    @property
    def ground(self) -> Metric:
        """What moving somebody costs."""
        return self.transport.metric

    def __len__(self) -> int:
        return len(self.question.x)

    @property
    def favourable(self) -> tuple[str, ...]:
        """The outcomes that people hope for, as they were named; none where none is."""
        return self.question.outcome.favourable

    @property
    def threshold(self) -> float | None:
        """The cut-off of decisions, if there is one: of the favourable class, or of a regression's number."""
        return self.question.outcome.threshold

    @property
    def upper(self) -> float:
        """No population within γ has a mean violation above this."""
        return self.dual.bound(self.shift.size).upper

    @property
    def multiplier(self) -> float | None:
        """The multiplier with which one pass over the profiles gives ``upper`` again."""
        return self.dual.bound(self.shift.size).multiplier

    @property
    def lower(self) -> float:
        """The mean violation of ``worst_case``."""
        return self.mixture.value

    def attained(self, gamma: float | None) -> Mixture:
        """The best use of the points that were found, for a shift of another size."""
        if gamma not in self._mixtures:
            shift = self.shift if gamma is None else self.shift.resized(gamma)
            self._mixtures[gamma] = self.points.mixture(self.question.weights, shift)
        return self._mixtures[gamma]

    @property
    def mixture(self) -> Mixture:
        """Which points the worst case stands on."""
        return self.attained(self.shift.size)

    @cached_property
    def worst_case(self) -> WorstCase:
        """The distribution behind ``lower``: atoms, masses, transport cost."""
        return self.points.worst(self.question, self.shift)

    @property
    def grid_error(self) -> float:
        """How much of ``upper`` the grid of radii may have cost."""
        return self.dual.grid_error(self.shift.size)

    @property
    def verdict(self) -> Verdict:
        """Against the certificate's own ε."""
        return judge(self.lower, self.upper, self._required_epsilon())

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Upper and lower for other γ, without new bounding work; tightest around the certificate's own."""
        gammas = list(gammas)
        upper = [bound.upper for bound in self.dual.curve(gammas)]
        lower = [self.attained(gamma).value for gamma in gammas]
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
        largest = self.profiles.largest
        return population_upper(self.cells, self.order, self.gamma, largest, self.confidence, clusters=self.clusters)

    @property
    def population_upper(self) -> float:
        """With the stated confidence no population within γ of the true one has a mean violation above this."""
        return self.population.upper

    @property
    def population_verdict(self) -> Verdict:
        """Certified or undecided for the true population; a sample cannot show a violation of it here."""
        return "certified" if self.population_upper <= self._required_epsilon() else "undecided"

    def _required_epsilon(self) -> float:
        if self.epsilon is None:
            raise ParameterError(template("epsilon", "given to certify() for a verdict", None))
        return self.epsilon

    @property
    def cells(self) -> Cells:
        """The cover of everybody that the dual works on."""
        return Cells.of(self.profiles, np.arange(len(self)), self.question.weights)

    @cached_property
    def dual(self) -> Dual:
        """The dual of the transport problem over the profiles."""
        return Dual(CellBlocks(self.profiles, self.question.weights), self.shift)

    def __str__(self) -> str:
        decimals = decimals_of_bound(self.upper, self.question.model.head == "regression")
        lower = at_least(self.lower, decimals) if self.lower > 0 else None
        return self.headline(at_most(self.upper, decimals), lower)

    def headline(self, upper: str, lower: str | None, unit: str = "") -> str:
        """All of it in a sentence: ``upper`` and ``lower`` are rounded already, and ``lower`` is None where nothing
        was found; ``unit`` is what they are measured in."""
        mean = weighted(self.question.weights)
        populations = "" if self.shift.size == 0 else self.shift.words(len(self)) + mean
        return headline(populations, these(len(self)) + mean, upper, lower, unit, self.searched)


def headline(
    populations: str, who: str, upper: str, lower: str | None, unit: str = "", searched: bool | None = None
) -> str:
    """The sentence about the ``populations`` near somebody, or about them (``who``) alone, where these are none.

    ``searched`` says whether a search was made for violations; None: it is not known.
    """
    most = f"{upper} ({unit})" if unit else upper
    if populations:
        text = f"No population {populations} has a mean violation above {most}"
        who_reaches = "an explicit population reaches"
    else:
        text, who_reaches = f"The mean violation over {who} is at most {most}", "counterparts that were found reach"
    none = {True: "a search found no violation", False: "no violation was searched for", None: "no violation is known"}
    found = f"{who_reaches} {reached(lower)}" if lower else none[searched]
    return f"{text}; {found}."


def judge(lower: float, upper: float, epsilon: float) -> Verdict:
    """What two bounds say about ε."""
    if upper <= epsilon:
        return "certified"
    return "violated" if lower > epsilon else "undecided"
