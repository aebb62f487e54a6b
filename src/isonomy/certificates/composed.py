"""Composition: the individuals are reweighted first, and then they move."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import AttackBudget
from isonomy.certificates.displacement import Displacement
from isonomy.certificates.dual import Bound, best_mixture
from isonomy.certificates.indices import DriftColumn
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import BLOCK, Schedule
from isonomy.certificates.protocol import Derived, MovedClaims, Shift, register_composition
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.worst_case import Points
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy.population import Domain, Population, Schema
from isonomy.similarity.metric import Metric
from isonomy_verify import composed as kernel
from isonomy_verify.arithmetic import TINY
from isonomy_verify.claims import POINTS, Profiles, claimed_heights, inflated
from isonomy_verify.reweighting import Composable, Hints, Sample, sample_of

GRID, STEPS = 14, 48
"""Multipliers tried: powers of four downwards from the largest of use, and then so many around the best."""

SPARE = 1e-12
"""The share of every mass that the population of the lower bound leaves unused, for roundings."""

WORTH = (0.0, 0.1, 0.5, 0.9)
"""Of those prices, as quantiles of what points are worth for what they cost."""

NEAR = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the best multiplier by which individuals are chosen for the lower bound."""


@dataclass(frozen=True)
class Composed(Shift):
    """Populations of a reweighting, ``first``, whose individuals ``then`` move; ``A & B`` makes one.

    The individuals are reweighted first, whatever the order in which both were written. A stability index is that of
    the violation after the moves.
    """

    kind: ClassVar[str] = "composed"
    covered: ClassVar[str] = "populations that were reweighted and then moved"
    infers: ClassVar[bool] = False
    never: ClassVar[str] = (
        "Which people were reweighted, and which moved, cannot be told from samples, so that a composition is never "
        "shown to hold of new people."
    )

    first: Reweighting
    then: Displacement

    @property
    def size_name(self) -> str:  # type: ignore[override]
        """Return that of the movement."""
        return self.then.size_name

    @property
    def curve_words(self) -> tuple[str, str, str]:  # type: ignore[override]
        """Return those of the movement, in general."""
        return ("Larger and smaller moves", self.then.curve_words[1] if self.then.size_name == "times" else "γ",
                "The certificate is about these people, reweighted and then moved; no distance to other people is "
                "measured.")  # fmt: skip

    @property
    def size(self) -> float:
        """Return the size of the movement."""
        return self.then.size

    @property
    def gamma(self) -> float:
        """Return the radius of the movement."""
        return self.then.radius

    @property
    def times(self) -> float:
        """Return the radius of the movement."""
        return self.then.radius

    @property
    def order(self) -> float:
        """Return the order of the movement."""
        return self.then.exponent

    @property
    def free(self) -> bool:
        """Return whether no multiplier is needed."""
        return self.then.free

    @property
    def alone(self) -> bool:
        """Return whether these very individuals are its only population."""
        return self.first.alone and self.then.alone

    def resized(self, size: float) -> Self:
        """Return the same with another size of the movement."""
        return replace(self, then=self.then.resized(size))

    def sizes(self) -> list[float]:
        """Return those of the movement."""
        return self.then.sizes()

    def on(self, domain: Domain, schema: Schema | None = None) -> Self:
        """Return the shift on the coordinates of a domain."""
        return replace(self, then=self.then.on(domain, schema))

    def resolved(self, x: FloatArray, schema: Schema | None, weights: FloatArray) -> Self:
        """Return the shift of these individuals."""
        return replace(self, first=self.first.resolved(x, schema, weights))

    def groups(self, x: FloatArray, schema: Schema | None) -> NDArray[np.intp] | None:
        """Return the groups (n,) of the individuals, where the reweighting tells them apart."""
        return self.first.groups(x, schema)

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """Return the features that tell groups apart."""
        return self.first.kernel.grouped_by

    @property
    def ground_cost(self) -> Metric | None:
        """Return that of the movement."""
        return self.then.ground_cost

    @property
    def point_cost(self) -> Metric | None:
        """Return that of the movement."""
        return self.then.point_cost

    def columns(self, people: Population, x: FloatArray) -> list[DriftColumn]:
        """Return those of the movement, where no individual counts without limit before."""
        return self.then.columns(people, x) if math.isfinite(self.first.densest) else []

    @property
    def reweighted(self) -> tuple[float, float]:
        """Return those of the reweighting."""
        return self.first.densest, self.first.strangers

    @property
    def ground_file(self) -> Metric | None:
        """Return that of the movement."""
        return self.then.ground_file

    def schedule(
        self, moving: Moving, upper: FloatArray, largest: float, tight: bool, tick: Callable[[int], None]
    ) -> Schedule:
        """Return that of the movement."""
        return self.then.schedule(moving, upper, largest, tight, tick)

    def passes(self, moving: Moving, tight: bool, rounds: int, schedule: Schedule) -> int:
        """Return those of the movement."""
        return self.then.passes(moving, tight, rounds, schedule)

    def profiles(
        self,
        moving: Moving,
        upper: FloatArray,
        largest: float,
        tight: bool,
        rounds: int,
        schedule: Schedule,
        tick: Callable[[int], None],
    ) -> Profiles:
        """Return those of the movement."""
        return self.then.profiles(moving, upper, largest, tight, rounds, schedule, tick)

    def search(
        self, moving: Moving, points: Points, profiles: Profiles, budget: AttackBudget, tick: Callable[[int], None]
    ) -> tuple[Points, Points]:
        """Return the points of the movement."""
        return self.then.search(moving, points, profiles, budget, tick)

    def dual(self, profiles: Profiles, weights: FloatArray, groups: NDArray[np.intp] | None = None) -> ComposedDual:
        """Return the dual over the profiles."""
        return ComposedDual(self, profiles, weights, groups)

    @property
    def kernel(self) -> kernel.Composed:
        """Return both as the checker knows them."""
        return kernel.Composed(cast(Composable, self.first.kernel), self.then.kernel)

    def section(self) -> dict[str, Any]:
        """Return both sections."""
        return {"kind": self.kind, "first": self.first.section(), "then": self.then.section()}

    def fingerprint(self) -> str:
        """Return what both depend on."""
        return f"{self.kind} {self.first.fingerprint()} then {self.then.fingerprint()}"

    def evidence(self) -> dict[str, Any]:
        """Return both sections."""
        return {"first": self.first.evidence(), "then": self.then.evidence()}

    def words(self, who: str) -> str:
        """Return "population of the reweighting of the individuals, whose people then move"."""
        return f"{self.first.before_moves(who)} ({self.then.afterwards})"

    @property
    def noun(self) -> str:  # type: ignore[override]
        """Return a population in a word."""
        return self.first.noun

    @property
    def place(self) -> str:
        """Return "after a reweighting and a movement of the individuals a population's"."""
        return "After reweighting and moving the individuals a population's"

    @property
    def mean_words(self) -> str:
        """Return the mean after both."""
        return "Average largest change after reweighting and moving"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return the terms of both."""
        return [*self.first.terms(), *self.then.terms()]

    def assumption(self) -> tuple[str, str]:
        """Return which populations the proof covers."""
        one, other = self.first.assumption(), self.then.assumption()
        return (
            "Reweighted, then moved",
            f"First: {one[1]}{self.first.moved_note} Then, in place of these people: {other[1]}",
        )

    def limit(self, outside: str) -> tuple[str, str]:
        """Return what is not proved of other populations."""
        return "Only in this order", (
            "People move after they were reweighted. Populations that move first, that move further or that are "
            "reweighted more may be treated worse."
        )


def composed(one: Shift, other: Shift) -> Composed:
    """Return the composition of two shifts, the one that reweights first; refuse two of a kind."""
    for each in (one, other):
        if not isinstance(each, Shift):
            raise ParameterError(template("shift", "shifts on both sides of '&'", type(each).__name__))
    first, then = (one, other) if isinstance(one, Reweighting) else (other, one)
    if isinstance(then, Reweighting):
        raise ParameterError(
            f"Two shifts in which no individual moves cannot be composed, '{one.kind}' and '{other.kind}': give them "
            "as a list, each with an answer of its own."
        )
    if isinstance(first, Reweighting) and first.uncomposed:
        raise ParameterError(first.uncomposed)
    if not isinstance(first, Reweighting) or not isinstance(then, Displacement):
        raise ParameterError(
            f"Two shifts in which individuals move cannot be composed, '{one.kind}' and '{other.kind}': compose one of "
            "them with a part, a mix or a stability index."
        )
    return Composed(first, then)


register_composition(composed)


class Attained(NamedTuple):
    """A population of a composition on points: masses (k,) in units of the weights, hints that show it, its mean."""

    mass: FloatArray
    hints: Hints
    value: float

    def masses(self, weights: FloatArray, points: int) -> FloatArray:
        """Return the mass on each point."""
        return self.mass


class ComposedDual:
    """The dual of a composition over profiles: for each multiplier the reweighting's bound of the heights."""

    def __init__(
        self,
        shift: Composed,
        profiles: Profiles,
        weights: FloatArray,
        groups: NDArray[np.intp] | None,
        derive: Derived | None = None,
    ) -> None:
        self.shift, self.profiles, self.weights, self.groups, self.derive = shift, profiles, weights, groups, derive
        self.largest = float(inflated(profiles.largest)) if derive is claimed_heights else profiles.largest
        self._known: dict[float, float] = {}
        self._bounds: dict[float | None, Bound] = {}

    def heights(self, multiplier: float | None, size: float) -> FloatArray:
        """Return the heights (n,) of everybody with a multiplier; without one, within the radius ``size``."""
        then = self.shift.then.resized(size)
        parts = []
        for start in range(0, len(self.weights), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(self.weights)))
            if self.derive is not None:
                parts.append(self.derive(self.profiles, rows, then.kernel, multiplier))
            else:
                parts.append(then.heights_up(self.profiles.cells(rows), multiplier))
        return np.concatenate(parts)

    def people(self, multiplier: float | None, size: float, low: FloatArray | None = None) -> Sample:
        """Return the individuals who count, with their heights, and what they attain (n,)."""
        high = self.heights(multiplier, size)
        return sample_of(high, np.zeros(len(high)) if low is None else low, self.weights, self.groups)

    def bound(self, size: float | None) -> Bound:
        """Return the bound for a size of the movement, with its multiplier."""
        if size not in self._bounds:
            assert size is not None
            self._bounds[size] = self._bound(size)
        return self._bounds[size]

    def curve(self, sizes: Iterable[float]) -> list[Bound]:
        """Return the bounds for several sizes."""
        return [self.bound(size) for size in sizes]

    def grid_error(self, size: float | None) -> float:
        """Return how much the grid of radii may have cost: nothing is known of it."""
        return 0.0

    def largest_gamma(self, epsilon: float) -> float | None:
        """Return about the largest size whose bound is at most ε; None where that of size 0 is above it."""
        epsilon = number("epsilon", epsilon, "a number >= 0")
        if self.bound(0.0).upper > epsilon:
            return None
        low, high = 0.0, max(self.shift.size, 1e-6)
        while high < 1e12 and self.bound(high).upper <= epsilon:
            low, high = high, 4 * high
        if high >= 1e12:
            return math.inf
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if self.bound(middle).upper <= epsilon else (low, middle)
        return low

    def value(self, multiplier: float | None, size: float) -> float:
        """Return the bound with a multiplier."""
        return self.shown(multiplier, size)[0]

    def shown(self, multiplier: float | None, size: float) -> tuple[float, Hints]:
        """Return the bound with a multiplier, and the hints that show it."""
        people = self.people(multiplier, size)
        hints = self.shift.first.hints(people)
        return self.shift.resized(size).kernel.bound(multiplier, people, hints, self.largest), hints

    def _bound(self, size: float) -> Bound:
        then = self.shift.then.resized(size)
        if then.free:
            return Bound(size, self.value(None, size), None)
        budget = then.budget
        if not 0 < budget < math.inf:
            return Bound(size, self.value(0.0, size), 0.0)

        def value(multiplier: float) -> float:
            """Return the bound; that of the mean of heights does not depend on the size, and is kept."""
            if multiplier not in self._known:
                people = self.people(multiplier, size)
                hints = self.shift.first.hints(people)
                self._known[multiplier] = float(self.shift.first.kernel.upper(people, hints))
            return self._known[multiplier] + multiplier * budget

        most = 2.0 ** math.ceil(math.log2(max(self.largest, 1e-300) / budget))
        grid = [0.0, *(most * 4.0**-step for step in range(GRID - 1, -1, -1))]
        at = min(range(len(grid)), key=lambda place: value(grid[place]))
        best = _golden(value, grid[max(0, at - 1)], grid[min(len(grid) - 1, at + 1)], grid[at])
        return Bound(size, self.value(best, size), best)

    def attained(self, points: Points, weights: FloatArray, size: float | None) -> Attained:
        """Return the best population on attained points: individuals are chosen by what they attain less the price of
        their moves, for a few prices, and then the budget is spent on those who were chosen."""
        return self._attained(points, size, self.bound(size).multiplier)

    def claims(
        self, points: Points, weights: FloatArray, size: float | None, derive: Derived = claimed_heights
    ) -> MovedClaims:
        """Return what a record claims, with the multiplier of the bound, by the claims about everybody."""
        assert size is not None
        claimed = ComposedDual(self.shift, self.profiles, self.weights, self.groups, derive)
        multiplier = self.bound(size).multiplier
        plan, settled = claimed._attained(points, size, multiplier), self.shift.resized(size).kernel
        people = claimed.people(multiplier, size)
        upper = settled.bound(multiplier, people, plan.hints, claimed.largest)
        margin = POINTS if len(plan.hints.multipliers) > 1 else 0.0  # other machines compute other logarithms
        return MovedClaims(upper + margin, settled.hidden(people, plan.hints, claimed.largest), plan, plan.hints)

    def _attained(self, points: Points, size: float | None, multiplier: float | None) -> Attained:
        assert size is not None
        shift, high = self.shift.resized(size), self.heights(multiplier, size)
        prices = {0.0} if shift.free else {math.inf, *((multiplier or 0.0) * factor for factor in NEAR)}
        far = (points.cost > 0) & (points.value > 0)
        if far.any() and not shift.free:  # and what points themselves are worth for what they cost
            (_, costs, values), _ = shift.then.attainable(points.owner, points.cost, points.value)
            prices |= set(np.quantile(values[far] / np.maximum(costs[far], TINY), WORTH).tolist())
        options = [self._chosen(points, shift, high, price) for price in sorted(prices)]
        return max(options, key=lambda option: option.value)

    def _chosen(self, points: Points, shift: Composed, high: FloatArray, price: float) -> Attained:
        """Return the population for one price of moves."""
        (owner, costs, values), _ = shift.then.attainable(points.owner, points.cost, points.value)
        with np.errstate(invalid="ignore", over="ignore"):
            gain = values - np.where(costs > 0, price * costs, 0.0)
        if shift.then.free:
            gain = np.where(costs == 0, values, 0.0)
        low = np.zeros(len(self.weights))
        np.maximum.at(low, owner, np.where(np.isfinite(gain), gain, 0.0))
        people, some = sample_of(high, low, self.weights, self.groups), np.flatnonzero(self.weights > 0)
        hints, held = shift.first.hints(people), np.zeros(len(self.weights))
        masses = shift.first.masses(people, hints)
        total = math.fsum(people.weights.tolist())
        held[some] = masses * (total / math.fsum(masses.tolist()) * (1 - SPARE))
        mass = best_mixture(shift.then, points.owner, points.cost, points.value, held).masses(held, len(points.owner))
        used = np.flatnonzero(mass > 0)
        counted = np.searchsorted(some, points.owner[used])
        value = shift.kernel.attained(people, hints, counted, mass[used], points.cost[used], points.value[used])
        return Attained(mass if value is not None else np.zeros(len(mass)), hints, value or 0.0)


def _golden(value: Callable[[float], float], low: float, high: float, best: float) -> float:
    """Return about where a convex function is least between two places; never worse than ``best``."""
    ratio = (math.sqrt(5) - 1) / 2
    one, other = high - ratio * (high - low), low + ratio * (high - low)
    for _ in range(STEPS):
        if value(one) <= value(other):
            high, other = other, one
            one = high - ratio * (high - low)
        else:
            low, one = one, other
            other = low + ratio * (high - low)
    return min((one, other, low, high, best), key=value)
