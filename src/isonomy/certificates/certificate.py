"""The certificate: for given individuals and for every population close to them.

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

from isonomy.arithmetic import FloatArray, at_least, at_most, decimals_of_bound, reached, these, weighted
from isonomy.brief import brief
from isonomy.certificates.consistency import compare_means, compare_points, describe
from isonomy.certificates.dual import Dual, Mixture, cells_of
from isonomy.certificates.finite_sample import Clusters, PopulationBound, population_upper
from isonomy.certificates.local import LocalCertificate
from isonomy.certificates.profiles import CellBlocks, Schedule
from isonomy.certificates.protocol import Shift
from isonomy.certificates.worst_case import Points, WorstCase
from isonomy.errors import DataError, ParameterError, template
from isonomy.population import Population
from isonomy.problem import Problem
from isonomy.similarity.metric import Metric
from isonomy_verify.claims import Profiles
from isonomy_verify.dual import Cells

Verdict = Literal["certified", "violated", "undecided"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """Bounds, proved and attained, for the populations of a shift: those within γ of the individuals."""

    shift: Shift
    epsilon: float | None
    confidence: float | None
    local: LocalCertificate
    profiles: Profiles
    points: Points
    refusal: str  # why there is no bound for the population behind the sample; "" where there is one
    people: Population | None = field(repr=False)  # None where individuals came as an array
    schedule: Schedule = field(repr=False)
    clusters: Clusters | None = None
    sources: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # files of the people, and their SHA-256
    computed: int = field(default=0, repr=False)  # chunks that this run computed; others were saved before
    output_range: tuple[float, float] | None = None  # declared range of a regression's outputs
    searched: bool = True  # whether counterparts and populations were searched; else ``lower`` is 0
    _mixtures: dict[float | None, Mixture] = field(default_factory=dict, init=False, repr=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        points = self.points

        def evidence(at: int) -> dict[str, Any]:
            pair = {"individual": self.x[points.owner[at]].tolist(), "person": points.person[at].tolist()}
            pair["counterpart"] = points.counterpart[at].tolist()
            return describe(self.problem) | self._parameters(self.shift.size) | pair

        compare_points(points.owner, points.cost, points.value, self.profiles, evidence)
        self._compare(self.shift.size, self.lower, self.upper)

    def _compare(self, gamma: float | None, lower: float, upper: float) -> None:
        shift, people = self.shift if gamma is None else self.shift.resized(gamma), (self.x, self.weights)
        compare_means(f"{shift.place} mean output", lower, upper, self.problem, people, **self._parameters(gamma))

    def _parameters(self, gamma: float | None) -> dict[str, Any]:
        shift = self.shift if gamma is None else self.shift.resized(gamma)
        return {"tier": self.tier, "arithmetic": self.arithmetic, **shift.evidence()}

    @property
    def problem(self) -> Problem:
        """Return the problem that the certificate answers."""
        return self.local.problem

    @property
    def x(self) -> FloatArray:
        """Return the individuals (n, m)."""
        return self.local.x

    @property
    def weights(self) -> FloatArray:
        """Return the weights (n,) of the individuals."""
        return self.local.weights

    @property
    def delta(self) -> float:
        """Return the largest distance of similar people."""
        return self.problem.delta

    @property
    def tier(self) -> str:
        """Return the tier of the bounds."""
        return self.local.tier

    @property
    def arithmetic(self) -> str:
        """Return the arithmetic of the runs that the bounds cover."""
        return self.local.arithmetic

    @property
    def gamma(self) -> float:
        """Return the radius γ of the shift, where that is a :class:`Transport`."""
        return self.shift.number("gamma")

    @property
    def order(self) -> float:
        """Return the order of the Wasserstein distance."""
        return self.shift.number("order")

    @property
    def ground(self) -> Metric:
        """Return the ground cost of a move."""
        if self.shift.ground_cost is None:
            raise self.shift.unsupported("no 'ground': no individual moves")
        return self.shift.ground_cost

    def __len__(self) -> int:
        return len(self.local)

    @property
    def favourable(self) -> tuple[str, ...]:
        """Return the names of the favourable outcomes, if any."""
        return self.problem.outcome.favourable

    @property
    def threshold(self) -> float | None:
        """Return the cut-off of decisions, if there is one: of the favourable class, or of a regression's number."""
        return self.problem.outcome.threshold

    @property
    def upper(self) -> float:
        """Return an upper bound of the mean violation of every population within γ."""
        return self.dual.bound(self.shift.size).upper

    @property
    def multiplier(self) -> float | None:
        """Return the multiplier with which one pass over the profiles gives ``upper`` again."""
        return self.dual.bound(self.shift.size).multiplier

    @property
    def lower(self) -> float:
        """Return the mean violation of ``worst_case``."""
        return self.mixture.value

    def attained(self, gamma: float | None) -> Mixture:
        """Return the best mixture of the attained points, for a shift of another size."""
        if gamma not in self._mixtures:
            shift = self.shift if gamma is None else self.shift.resized(gamma)
            self._mixtures[gamma] = self.points.mixture(self.weights, shift)
        return self._mixtures[gamma]

    @property
    def mixture(self) -> Mixture:
        """Return the mixture of points that is the worst case."""
        return self.attained(self.shift.size)

    @cached_property
    def worst_case(self) -> WorstCase:
        """Return the distribution behind ``lower``: atoms, masses, transport cost."""
        return self.points.worst(self.problem, self.weights, self.shift)

    @property
    def grid_error(self) -> float:
        """Return how much of ``upper`` the grid of radii may have cost."""
        return self.dual.grid_error(self.shift.size)

    @property
    def verdict(self) -> Verdict:
        """Return the verdict against the certificate's own ε."""
        return judge(self.lower, self.upper, self._required_epsilon())

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Return upper and lower for other sizes of the shift, ``gammas`` of a :class:`Transport` and shares of a
        :class:`Part`, without new bounding work; tightest around the certificate's own."""
        gammas = list(gammas)
        upper = [bound.upper for bound in self.dual.curve(gammas)]
        lower = [self.attained(gamma).value for gamma in gammas]
        for row in zip(gammas, lower, upper, strict=True):
            self._compare(*row)
        return pd.DataFrame({self.shift.size_name: gammas, "upper": upper, "lower": lower})

    def largest_gamma(self, epsilon: float) -> float | None:
        """Return the γ up to which the profiles show that no population exceeds ε; None if the individuals do."""
        self.shift.number("gamma")  # refuses a shift without one
        return self.dual.largest_gamma(epsilon)

    @cached_property
    def population(self) -> PopulationBound:
        """Return the bound for populations within γ of the one that the individuals were drawn from."""
        if self.refusal:
            raise DataError(self.refusal)
        assert self.confidence is not None
        largest = self.profiles.largest
        return population_upper(self.cells, self.order, self.gamma, largest, self.confidence, clusters=self.clusters)

    @property
    def population_upper(self) -> float:
        """Return an upper bound, with the stated confidence, for every population within γ of the true one."""
        return self.population.upper

    @property
    def population_verdict(self) -> Verdict:
        """Return certified or undecided for the true population; a sample cannot show a violation of it here."""
        return "certified" if self.population_upper <= self._required_epsilon() else "undecided"

    def _required_epsilon(self) -> float:
        """Return ε, or raise where it was not given."""
        if self.epsilon is None:
            raise ParameterError(template("epsilon", "given to certify() for a verdict", None))
        return self.epsilon

    @property
    def cells(self) -> Cells:
        """Return the cells of all individuals, on which the dual works."""
        return cells_of(self.profiles, np.arange(len(self)), self.weights)

    @cached_property
    def dual(self) -> Dual:
        """Return the dual of the transport problem over the profiles."""
        return Dual(CellBlocks(self.profiles, self.weights), self.shift)

    def __str__(self) -> str:
        decimals = decimals_of_bound(self.upper, self.problem.model.head == "regression")
        lower = at_least(self.lower, decimals) if self.lower > 0 else None
        return self.headline(at_most(self.upper, decimals), lower)

    def headline(self, upper: str, lower: str | None, unit: str = "") -> str:
        """Return the result in a sentence: ``upper`` and ``lower`` are rounded already, ``lower`` is None where no
        violation is attained; ``unit`` is what they are measured in."""
        who = these(len(self)) + weighted(self.weights)
        return headline(self.shift, who, upper, lower, unit, self.searched)


def headline(
    shift: Shift, who: str, upper: str, lower: str | None, unit: str = "", searched: bool | None = None
) -> str:
    """Return the sentence about the populations of the shift, or about the individuals (``who``) where it has no other.

    ``searched`` says whether violations were searched for; None: it is not known.
    """
    most = f"{upper} ({unit})" if unit else upper
    if not shift.alone:
        text = f"No {shift.words(who)} has a mean violation above {most}"
        who_reaches = f"an explicit {shift.noun} reaches"
    else:
        text, who_reaches = f"The mean violation over {who} is at most {most}", "counterparts that were found reach"
    none = {True: "a search found no violation", False: "no violation was searched for", None: "no violation is known"}
    attained = f"{who_reaches} {reached(lower)}" if lower else none[searched]
    return f"{text}; {attained}."


def judge(lower: float, upper: float, epsilon: float) -> Verdict:
    """Return the verdict of two bounds against ε."""
    if upper <= epsilon:
        return "certified"
    return "violated" if lower > epsilon else "undecided"
