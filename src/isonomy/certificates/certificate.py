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

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray, at_least, at_most, decimals_of_bound, reached, these, weighted
from isonomy.brief import brief
from isonomy.certificates.consistency import compare_means, compare_points, describe
from isonomy.certificates.dual import cells_of
from isonomy.certificates.finite_sample import Clusters, PopulationBound, population_upper
from isonomy.certificates.local import LocalCertificate
from isonomy.certificates.profiles import Schedule
from isonomy.certificates.protocol import MassPlan, MovedClaims, Shift, ShiftDual, tier_for
from isonomy.certificates.reweighting import Behind, Reweighting, ShiftBounds
from isonomy.certificates.worst_case import NO_POINTS, Points, WorstCase
from isonomy.errors import DataError, ParameterError, template
from isonomy.given import number
from isonomy.population import Population
from isonomy.problem import Problem
from isonomy.similarity.metric import Metric
from isonomy_verify.behind import Turned, decision_heights, decision_profiles, moved, turned_behind
from isonomy_verify.claims import Profiles, inward, outward
from isonomy_verify.composed import Composed
from isonomy_verify.dual import Cells
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE, Individuals
from isonomy_verify.reweighting import Hints, sample_of
from isonomy_verify.sampling import risk_of
from isonomy_verify.shifts import Movement

Verdict = Literal["certified", "violated", "undecided"]


class Claimed(NamedTuple):
    """Bounds of the mean as a record claims them, with a margin for other machines, and how much could hide."""

    lower: float
    upper: float
    hidden: float


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
    shifts: tuple[Reweighting, ...] = ()  # further ones, in which no individual moves
    steady: FloatArray | None = field(default=None, repr=False)  # radii within which decisions stand; None: of no one
    alone: Individuals | None = field(default=None, repr=False)  # claims of a record; None where the checker has none
    turned: Points = NO_POINTS  # of value 1, where a decision is turned after a move, at most one of each individual
    _mixtures: dict[float | None, MassPlan] = field(default_factory=dict, init=False, repr=False)
    _answers: dict[str, ShiftBounds] = field(default_factory=dict, init=False, repr=False)

    __repr__ = brief

    def __post_init__(self) -> None:
        points = self.points

        def evidence(at: int) -> dict[str, Any]:
            pair = {"individual": self.x[points.owner[at]].tolist(), "person": points.person[at].tolist()}
            pair["counterpart"] = points.counterpart[at].tolist()
            return describe(self.problem) | self._parameters(self.shift.size) | pair

        compare_points(points.owner, points.cost, points.value, self.profiles, evidence, self.local.counterexamples)
        self._compare(self.shift.size, self.lower, self.upper)
        for shift in self.shifts:
            self.under(shift)

    def _compare(self, gamma: float | None, lower: float, upper: float) -> None:
        shift, people = self.shift if gamma is None else self.shift.resized(gamma), (self.x, self.weights)
        compare_means(
            f"{shift.place} mean output", lower, upper, self.problem, people, self.local.counterexamples,
            **self._parameters(gamma),
        )  # fmt: skip

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
        return self.under(self.shift).upper if self._still else self.dual.bound(self.shift.size).upper

    @property
    def multiplier(self) -> float | None:
        """Return the multiplier with which one pass over the profiles gives ``upper`` again; None where no individual
        moves, and :meth:`under` has the multipliers."""
        return None if self._still else self.dual.bound(self.shift.size).multiplier

    @property
    def lower(self) -> float:
        """Return the mean violation of ``worst_case``."""
        return self.under(self.shift).lower if self._still else self.mixture.value

    @property
    def _still(self) -> bool:
        return isinstance(self.shift, Reweighting)

    def under(self, shift: Shift) -> ShiftBounds:
        """Return the bounds for a shift in which no individual moves, of the mean violation and of the share of
        decisions that can change, without new bounding work."""
        if not isinstance(shift, Reweighting):
            raise shift.unsupported("moves, for which certify() is to be asked")
        shift = shift.resolved(self.x, self.problem.schema, self.weights)
        key = shift.fingerprint()
        if key not in self._answers:
            local, groups = self.local, shift.groups(self.x, self.problem.schema)
            largest, risk = self.profiles.largest, self.risk_behind
            answer = shift.answer(local.upper, local.lower, self.weights, groups, largest, risk)
            asked = {"tier": self.tier, "arithmetic": self.arithmetic, **shift.evidence()}
            people = self.x, self.weights
            compare_means(f"{shift.place} mean output", answer.lower, answer.upper, self.problem, people, **asked)
            if "none" not in local.decision_counts:
                sides = (local.decided != CERTIFIED).astype(float), (local.decided == FLIPPABLE).astype(float)
                changes = shift.answer(*sides, self.weights, groups, 1.0, risk, counts=True)
                answer = replace(answer, changes=changes)
                words = f"{shift.place} share of decisions that can change"
                compare_means(words, changes.lower, changes.upper, self.problem, people, **asked)
            self._answers[key] = answer
        return self._answers[key]

    @property
    def risk_behind(self) -> float | None:
        """Return the probability with which a statement about the population behind the individuals may fail; None
        where there is none."""
        several = len(self) > 1 and self.clusters is None
        return risk_of(self.confidence) if several and not self.refusal and self.confidence is not None else None

    @property
    def changes(self) -> ShiftBounds | None:
        """Return the bounds of the share of decisions that can change, in populations of the shift; None without
        decisions."""
        if self._still:
            return self.under(self.shift).changes
        if (claim := self.change_claims) is None:
            return None
        sides = [None if each is None else _hinted(each["multiplier"]) for each in (claim, claim["behind"])]
        behind = None if sides[1] is None else Behind(claim["behind"]["upper"], sides[1], claim["behind"]["lower"])
        return ShiftBounds(self.shift, claim["upper"], claim["lower"], Hints(sides[0] or ()), None, behind)

    @property
    def radii(self) -> FloatArray:
        """Return radii (n,) within which no one has a decision that can change, as a record claims them."""
        radii = np.zeros(len(self)) if self.steady is None else np.asarray(self.steady)
        return np.where(self.individuals.decision == CERTIFIED, radii, 0.0)

    @property
    def change_claims(self) -> dict[str, Any] | None:
        """Return the claim about the share of decisions that can change where individuals move; None without
        decisions, and where none moves."""
        return None if self._changes is None else self._changes[0]

    @property
    def turned_masses(self) -> Turned | None:
        """Return those whose decision is turned in the population that has the claimed share; None without such."""
        return None if self._changes is None else self._changes[1]

    @cached_property
    def _changes(self) -> tuple[dict[str, Any], Turned] | None:
        if self._still or self.alone is None or not self.alone.decision.any():
            return None
        decision, kernel = self.alone.decision, cast("Movement | Composed", self.shift.kernel)
        norm = tier_for(self.problem, self.tier).reach(self.ground).is_norm
        profiles = decision_profiles(decision, self.radii, norm)
        groups = self.shift.groups(self.x, self.problem.schema)
        dual, ways = self.shift.dual(profiles, self.weights, groups), self._ways
        multiplier = dual.bound(self.shift.size).multiplier
        plan, hints = dual.claims(ways, self.weights, self.shift.size, decision_heights)[2:]
        some = ways.value > 0
        turned = Turned(ways.owner[some], ways.cost[some], plan.masses(self.weights, len(some))[some])
        claim = moved(kernel, profiles, self.weights, turned, multiplier, hints or Hints(), groups) | {"behind": None}
        people = (self.x, self.weights)
        words = f"{self.shift.place} share of decisions that can change"
        compare_means(words, claim["lower"], claim["upper"], self.problem, people, **self._parameters(self.shift.size))
        if self.risk_behind is None or hints is not None:
            return claim, turned
        cells, risk = cells_of(profiles, np.arange(len(self)), self.weights), self.risk_behind / 2
        bound = population_upper(cells, self.order, self.gamma, 1.0, 1 - risk)
        least = turned_behind(cast(Movement, kernel), turned, len(self), risk)
        sides = {"upper": outward(min(1.0, bound.upper + 1e-6)), "lower": inward(least)}
        return claim | {"behind": {**sides, "multiplier": bound.multiplier}}, turned

    @cached_property
    def turned_away(self) -> Points:
        """Return the points at which a decision is turned after a move, of individuals whose own is not turned."""
        return self.turned[self.individuals.decision[self.turned.owner] != FLIPPABLE]

    @property
    def _ways(self) -> Points:
        """Return what the decision of each individual can come to, as they are and after a move: 1 where turned."""
        n, away = len(self), self.turned_away
        owner, cost = np.append(np.arange(n), away.owner), np.append(np.zeros(n), away.cost)
        value, none = np.append(self.individuals.decision == FLIPPABLE, away.value), np.empty((len(owner), 0))
        return Points(owner, none, none, cost, value)[np.lexsort((cost, owner))]

    def attained(self, gamma: float | None) -> MassPlan:
        """Return the best mixture of the attained points, for a shift of another size."""
        if gamma not in self._mixtures:
            self._mixtures[gamma] = self.dual.attained(self.points, self.weights, gamma)
        return self._mixtures[gamma]

    @property
    def mixture(self) -> MassPlan:
        """Return the mixture of points that is the worst case."""
        return self.attained(self.shift.size)

    @cached_property
    def worst_case(self) -> WorstCase:
        """Return the distribution behind ``lower``: atoms, masses, transport cost."""
        if not isinstance(self.shift, Reweighting):
            masses = self.mixture.masses(self.weights, len(self.points.owner))
            return self.points.population(masses, self.shift, self.problem)
        shift = self.shift.resolved(self.x, self.problem.schema, self.weights)
        groups, masses = shift.groups(self.x, self.problem.schema), np.zeros(len(self))
        people = sample_of(self.local.upper, self.local.lower, self.weights, groups)
        masses[self.weights > 0] = shift.masses(people, self.under(shift).hints)
        if shift.strangers and shift.kernel.free_strangers:  # they are the one who is treated worst
            total, worst = math.fsum(masses.tolist()), int(np.argmax(np.where(self.weights > 0, self.local.lower, -1)))
            masses *= 1 - shift.strangers
            masses[worst] += shift.strangers * total
        return self.points.population(masses[self.points.owner], shift, self.problem)

    @property
    def grid_error(self) -> float:
        """Return how much of ``upper`` the grid of radii may have cost."""
        return 0.0 if self._still else self.dual.grid_error(self.shift.size)

    @property
    def individuals(self) -> Individuals:
        """Return the claims about everybody alone, which a record has."""
        if self.alone is None:
            raise self.problem.model.unsupported("record: the checker does not know it")
        return self.alone

    @cached_property
    def shift_claims(self) -> list[dict[str, Any]]:
        """Return the claims about shifts in which no individual moves, the certificate's own first."""
        x, schema, weights = self.x, self.problem.schema, self.weights
        still = [each for each in (self.shift, *self.shifts) if isinstance(each, Reweighting)]
        return [shift.claim(self.individuals, weights, shift.groups(x, schema), self.risk_behind) for shift in still]

    @cached_property
    def moved_claims(self) -> MovedClaims:
        """Return what a record claims of a shift in which individuals move."""
        return self.dual.claims(self.points, self.weights, self.shift.size)

    @property
    def claimed(self) -> Claimed:
        """Return the bounds of the mean that the evidence implies, as a record claims them."""
        if self._still:
            return Claimed(*(self.shift_claims[0][name] for name in Claimed._fields))
        moved = self.moved_claims
        return Claimed(inward(min(self.lower, moved.plan.value)), outward(moved.upper), outward(moved.hidden))

    @property
    def verdict(self) -> Verdict:
        """Return the verdict against the certificate's own ε."""
        return judge(self.lower, self.upper, self._required_epsilon())

    def curve(self, gammas: Iterable[float]) -> pd.DataFrame:
        """Return upper and lower for other sizes of the shift, ``gammas`` of a :class:`Transport` and shares of a
        :class:`Part`, without new bounding work; tightest around the certificate's own."""
        gammas = list(gammas)
        if self._still:
            answers = [self.under(self.shift.resized(size)) for size in gammas]
            upper, lower = [each.upper for each in answers], [each.lower for each in answers]
            return pd.DataFrame({self.shift.size_name: gammas, "upper": upper, "lower": lower})
        upper = [bound.upper for bound in self.dual.curve(gammas)]
        lower = [self.attained(gamma).value for gamma in gammas]
        for row in zip(gammas, lower, upper, strict=True):
            self._compare(*row)
        return pd.DataFrame({self.shift.size_name: gammas, "upper": upper, "lower": lower})

    def largest_gamma(self, epsilon: float) -> float | None:
        """Return the γ up to which the profiles show that no population exceeds ε; None if the individuals do."""
        self.shift.number("gamma")  # refuses a shift without one
        return self.largest_radius(epsilon)

    def largest_radius(self, epsilon: float) -> float | None:
        """Return the size of the shift, everything else of it as it is, up to which it is shown that no population
        exceeds ε: γ, κ, a residual, how many times a drift, the strangers of a mix; of a part, the least share. None if
        not even the fewest populations keep to ε. A search for it may end a little short of it, never beyond."""
        if not isinstance(shift := self.shift, Reweighting):
            return self.dual.largest_gamma(epsilon)
        epsilon = number("epsilon", epsilon, "a number >= 0")
        shift, local = shift.resolved(self.x, self.problem.schema, self.weights), self.local
        groups, largest = shift.groups(self.x, self.problem.schema), self.profiles.largest

        def keeps(size: float) -> bool:
            resized = shift.resized(size)
            return resized.answer(local.upper, local.lower, self.weights, groups, largest).upper <= epsilon

        return shift.furthest(keeps)

    @cached_property
    def population(self) -> PopulationBound:
        """Return the bound for the populations of the shift around the one that the individuals were drawn from."""
        if self.refusal:
            raise DataError(self.refusal)
        assert self.confidence is not None
        if self._still and self.clusters is None:
            behind = self.under(self.shift).behind
            if behind is None:
                raise DataError("A bound for the population needs at least two individuals.")
            return PopulationBound(behind.upper, self.confidence, self.shift.kind, None, len(self))
        order, gamma = (1.0, 0.0) if self._still else (self.order, self.gamma)  # else these individuals alone
        largest = self.profiles.largest
        return population_upper(self.cells, order, gamma, largest, self.confidence, clusters=self.clusters)

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
    def dual(self) -> ShiftDual:
        """Return the dual of the transport problem over the profiles."""
        groups = self.shift.groups(self.x, self.problem.schema)
        return self.shift.dual(self.profiles, self.weights, groups)

    def __str__(self) -> str:
        decimals = decimals_of_bound(self.upper, self.problem.model.head == "regression")
        lower = at_least(self.lower, decimals) if self.lower > 0 else None
        return self.headline(at_most(self.upper, decimals), lower)

    def headline(self, upper: str, lower: str | None, unit: str = "") -> str:
        """Return the result in a sentence: ``upper`` and ``lower`` are rounded already, ``lower`` is None where no
        violation is attained; ``unit`` is what they are measured in."""
        who = these(len(self)) + weighted(self.weights)
        return self.problem.model.conditional(headline(self.shift, who, upper, lower, unit, self.searched))


def headline(
    shift: Shift, who: str, upper: str, lower: str | None, unit: str = "", searched: bool | None = None
) -> str:
    """Return the sentence about the populations of the shift, or about the individuals (``who``) where it has no other.

    ``searched`` says whether violations were searched for; None: it is not known.
    """
    most = f"{upper} ({unit})" if unit else upper
    if not shift.alone:
        text = f"No {shift.words(who)} has an average largest change above {most}"
        who_reaches = f"an explicit {shift.noun} reaches"
    else:
        text, who_reaches = (
            f"The average largest change over {who} is at most {most}",
            "counterparts that were found reach",
        )
    none = {True: "a search found no change", False: "no change was searched for", None: "no change is known"}
    attained = f"{who_reaches} {reached(lower)}" if lower else none[searched]
    return f"{text}; {attained}."


def _hinted(multiplier: float | None) -> tuple[float, ...]:
    return () if multiplier is None else (multiplier,)


def judge(lower: float, upper: float, epsilon: float) -> Verdict:
    """Return the verdict of two bounds against ε."""
    if upper <= epsilon:
        return "certified"
    return "violated" if lower > epsilon else "undecided"
