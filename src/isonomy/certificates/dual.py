"""The distributional bound: the best multiplier for ``upper``, and the best population of attained points.

The problem is ``sup { E_Q[I] : Q in the shift }``, for :class:`Transport` ``W_p(P, Q) <= gamma``, ``P`` the individuals
and their weights. A shift bounds it for any multiplier (:mod:`isonomy_verify.dual` for the ball), from cells that cover
all possible people. Over the multiplier the bound ``F(λ) = λ b + Σ π_i max_j (value_j − λ cost_j)`` (``b = γ^p``) is
convex and piecewise linear, and a sum over blocks of individuals: a pass over the blocks gives ``F`` and its slope at
some multipliers, ``F`` lies above the tangents there, and where the two tangents around the minimum meet is the next
multiplier to try. The same search over the points that were attained gives the lower side: a mixture of the two plans
around the minimum spends the budget.

**Soundness.** Every ``upper`` is the shift's bound at one multiplier, with sums that have no rounding, and valid for
every multiplier: a search that ends early gives a worse multiplier, never a wrong bound. A
:class:`Mixture` keeps within the budget in exact arithmetic: costs are rounded up, values down, and its share is a
quotient of whole numbers.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray, power
from isonomy.certificates.protocol import Shift
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy.parallel import in_parallel
from isonomy_verify import claims
from isonomy_verify import dual as kernel
from isonomy_verify.arithmetic import down, exact_sum, mean_of_sums, products_down, products_up, rounded_down
from isonomy_verify.dual import Cells

IntArray = npt.NDArray[np.intp]
Given = TypeVar("Given")
Made = TypeVar("Made")

ACCURACY = 1e-13
"""The share of the bound that a better multiplier could save at most, where the search is not cut short."""

STEPS = 60
"""The most passes over the blocks for one request."""

FAR = 1e300
"""Costs and multipliers beyond it are those."""


def cells_of(profiles: claims.Profiles, rows: IntArray, weights: FloatArray | None = None) -> Cells:
    """Return the kernel's cover of all possible people, seen from some individuals."""
    if weights is not None and not weights[rows].max() <= kernel.HUGE:
        # Only from above: small weights may be all there are.
        raise ParameterError(template("weights", f"at most {kernel.HUGE:.0e}", weights[rows].max()))
    return profiles.cells(rows, weights=weights)


def cells_of_table(
    radii: npt.ArrayLike, values: npt.ArrayLike, largest: float, weights: npt.ArrayLike | None = None
) -> Cells:
    """Return the cells of profiles ``values[i, k]``, valid for people within ``radii[k]`` or ``radii[i, k]`` of ``i``.

    The first radius is 0. A bound for a larger radius also holds for a smaller one, so profiles are made monotone;
    beyond the last radius only ``largest`` is known.
    """
    value = np.minimum(np.atleast_2d(np.asarray(values, dtype=np.float64)), largest)
    radius = np.broadcast_to(np.asarray(radii, dtype=np.float64), value.shape)
    if value.shape[1] == 0 or (radius[:, 0] != 0).any() or not (np.diff(radius, axis=1) > 0).all():
        raise ParameterError(template("radii", "increasing numbers that begin with 0", radii))
    value = np.minimum.accumulate(value[:, ::-1], axis=1)[:, ::-1]
    start, given = np.arange(0, value.size + 1, value.shape[1]), None
    if weights is not None:
        given = np.asarray(weights, dtype=np.float64)
    return cells_of(claims.Profiles(start, radius.ravel(), value.ravel(), largest), np.arange(len(value)), given)


def at_far_ends(cells: Cells) -> Cells:
    """Return the same cells with everybody at the far end; at cost 0 the violation is at least 0.

    Unbounded cells keep ``near``: what they cost is the missing profile, not the grid of radii.
    """
    n, tail = len(cells.weights), cells.far == math.inf
    return Cells(
        owner=np.concatenate([cells.owner, np.arange(n)]),
        near=np.concatenate([np.where(tail, cells.near, cells.far), np.zeros(n)]),
        far=np.concatenate([cells.far, np.zeros(n)]),
        value=np.concatenate([cells.value, np.zeros(n)]),
        open_=np.concatenate([cells.open_ & tail, np.zeros(n, dtype=bool)]),
        weights=cells.weights,
    )


@dataclass(frozen=True)
class Bound:
    """No population of a shift of this size (None: it has none) exceeds ``upper``, as its multiplier shows.

    The multiplier is None where none is needed: gamma 0 and order infinity. Another one could save ``tolerance``.
    """

    gamma: float | None
    upper: float
    multiplier: float | None
    tolerance: float = 0.0


@dataclass(frozen=True, eq=False)
class Dual:
    """The bound for all sizes of a shift, over ``blocks`` of individuals, one of which is in memory at a time."""

    blocks: Sequence[Cells]
    shift: Shift
    _bounds: dict[float | None, Bound] = field(default_factory=dict, init=False, repr=False)
    _means: dict[tuple[float | None, float | None], float] = field(default_factory=dict, init=False, repr=False)

    def bound(self, gamma: float | None) -> Bound:
        """Return the bound with the best multiplier, for a size of the shift."""
        return self.curve([gamma])[0]

    def curve(self, gammas: Iterable[float | None]) -> list[Bound]:
        """Return one bound for each size, by the same passes over the blocks."""
        gammas = list(gammas)
        shifts = {gamma: self._sized(gamma) for gamma in gammas if gamma not in self._bounds}
        priced = [gamma for gamma, shift in shifts.items() if not shift.free]
        brackets = dict(zip(priced, self._minimum.brackets([shifts[g].budget for g in priced]), strict=True))
        for gamma, shift in shifts.items():
            if gamma not in brackets:
                self._bounds[gamma] = Bound(gamma, self._mean(gamma, None), None)
                continue
            best = brackets[gamma].best
            upper, most = (shift.bound_up(each, self._mean(None, each)) for each in (best, 0.0))
            if not upper < most:  # rounding must not push it above what holds for every gamma
                upper, best = most, 0.0
            least = brackets[gamma].meeting
            self._bounds[gamma] = Bound(gamma, upper, best, max(0.0, upper - least))
        return [self._bounds[gamma] for gamma in gammas]

    def _sized(self, gamma: float | None) -> Shift:
        return self.shift if gamma is None else self.shift.resized(gamma)

    def largest_gamma(self, epsilon: float) -> float | None:
        """Return the largest gamma whose bound is at most epsilon: "fair up to a shift of gamma".

        None when not even gamma 0 is; infinity when every gamma is. Up to rounding this is the largest such gamma,
        and it never over-claims: ``bound(gamma).upper <= epsilon`` has been evaluated for what is returned.
        """
        epsilon = number("epsilon", epsilon, "a number >= 0")
        if self.bound(0.0).upper > epsilon:
            return None
        if self.bound(math.inf).upper <= epsilon:
            return math.inf
        order = self.shift.number("order")
        if order == math.inf:
            return self._largest_step(epsilon)
        gamma = 0.0
        for _ in range(STEPS):  # with any multiplier epsilon is not reached before (epsilon − D) / multiplier
            further = power(self._minimum.affordable(epsilon), 1 / order)
            if not further > gamma * (1 + 1e-12):
                break
            gamma = further
            self.bound(gamma)
        for attempt in range(53):
            if self.bound(gamma).upper <= epsilon:
                return gamma
            gamma *= 1.0 - 2.0 ** (attempt - 52)
        return 0.0

    def grid_error(self, gamma: float | None) -> float:
        """Return what the grid may have cost: the bound, minus the bound when values are attained only at ``far``.

        A report, not a certificate.
        """
        return max(0.0, self.bound(gamma).upper - self._far.bound(gamma).upper)

    @cached_property
    def _far(self) -> Dual:
        return Dual(Each(self.blocks, at_far_ends), self.shift)

    @cached_property
    def _minimum(self) -> _Minimum:
        return _Minimum(Each(self.blocks, lambda cells: _Choices.of(*self.shift.items(cells), cells.weights)))

    def _mean(self, gamma: float | None, multiplier: float | None) -> float:
        """Return the mean of heights: exact sums over exact weights, rounded up once."""
        if (gamma, multiplier) not in self._means:
            total, weight, highest, shift = 0, 0, 0.0, self._sized(gamma)
            for cells in self.blocks:
                height = shift.heights_up(cells, multiplier)
                counted = cells.weights > 0
                total += exact_sum(products_up(cells.weights[counted], height[counted]))
                weight += exact_sum(cells.weights)
                highest = max(highest, float(height[counted].max(initial=0.0)))
            self._means[gamma, multiplier] = mean_of_sums(total, weight, highest)
        return self._means[gamma, multiplier]

    def _largest_step(self, epsilon: float) -> float:
        """Return the same for order infinity, where the bound is a staircase with steps at the near ends, or right
        after them where these are open."""
        near = np.unique(np.concatenate([np.unique(cells.near) for cells in self.blocks]))
        steps = np.unique(np.concatenate([near, np.maximum(0.0, down(near))]))
        low, high = 0, len(steps)  # steps[0] = 0 is fine, and the bound never falls
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bound(float(steps[middle])).upper <= epsilon else (low, middle)
        return float(steps[low])


@dataclass(frozen=True, eq=False)
class Mixture:
    """A plan within the budget: the ``share`` of each individual's mass is at point ``dear``, the rest at ``cheap``.

    ``value`` is its mean, rounded down.
    """

    dear: IntArray
    cheap: IntArray
    share: Fraction
    value: float

    def masses(self, weights: FloatArray, points: int) -> FloatArray:
        """Return the mass on each point: exactly the weight in total for each individual, and within the budget.

        The moved mass is rounded down to a multiple of the last place of the weight, so that the rest is exact.
        """
        unit = np.spacing(weights)
        moved = np.floor(np.maximum(0.0, down(rounded_down(self.share) * (weights / unit)))) * unit
        masses = np.zeros(points)
        np.add.at(masses, self.cheap, weights - moved)
        split = self.dear != self.cheap
        masses[self.cheap[~split]] = weights[~split]
        np.add.at(masses, self.dear[split], moved[split])
        return masses


def best_mixture(shift: Shift, owner: IntArray, cost: FloatArray, value: FloatArray, weights: FloatArray) -> Mixture:
    """Return the best population of a shift on attained points.

    Point ``j``, of individual ``owner[j]`` (ascending), has a ``cost`` that was rounded up and a ``value`` that was
    rounded down. Every individual has a point of cost 0.
    """
    (owner, costs, value), most = shift.attainable(owner, cost, value)
    n, free = len(weights), np.unique(owner[costs == 0])
    if len(free) < n:
        raise ParameterError(
            f"Individual {np.setdiff1d(np.arange(n), free)[0]} has no point of cost 0 where its mass could stay."
        )
    total = exact_sum(weights)
    with np.errstate(over="ignore"):
        finite = np.isfinite(products_up(weights[owner], costs))  # who is further away costs more than any budget
    kept = np.flatnonzero(finite)
    choices = _Choices.of(owner[kept], costs[kept], value[kept], weights)

    def plan(multiplier: float) -> tuple[IntArray, Fraction, Fraction]:
        """Return each individual's point, their mean value and mean cost."""
        at = kept[choices.taken(multiplier)]
        paid = Fraction(exact_sum(products_up(weights, costs[at])), total)
        return at, Fraction(exact_sum(products_down(weights, value[at])), total), paid

    at, mean, paid = plan(0.0)
    if most == math.inf or paid <= Fraction(most):
        return Mixture(at, at, Fraction(1), max(0.0, rounded_down(mean)))
    budget, minimum = Fraction(most), _Minimum([choices])
    minimum.brackets([most])
    dear = cheap = (at, mean, paid)
    for multiplier in sorted(minimum.known):
        some = plan(multiplier)
        if some[2] <= budget:
            cheap = some
            break
        dear = some
    else:  # all stay at points of cost 0
        cheap = plan(math.inf)
    # A little less than the budget: a sum over the atoms rounds the cost of each.
    left = max(Fraction(0), budget * (1 - Fraction(1, 2**48)) - cheap[2])
    share = left / (dear[2] - cheap[2]) if dear[1] > cheap[1] else Fraction(0)
    mean = share * dear[1] + (1 - share) * cheap[1]
    return Mixture(dear[0], cheap[0], share, max(0.0, rounded_down(mean)))


@dataclass(frozen=True, eq=False)
class _Choices:
    """The choices of some individuals: ``start[i]`` is the first choice of individual ``i``."""

    start: IntArray
    cost: FloatArray
    value: FloatArray
    weights: FloatArray
    sorted_: IntArray | None  # places of the choices as they were given

    @classmethod
    def of(cls, owner: IntArray, cost: FloatArray, value: FloatArray, weights: FloatArray) -> _Choices:
        ordered = None if (np.diff(owner) >= 0).all() else np.argsort(owner, kind="stable")
        if ordered is not None:
            owner, cost, value = owner[ordered], cost[ordered], value[ordered]
        return cls(np.searchsorted(owner, np.arange(len(weights))), np.minimum(cost, FAR), value, weights, ordered)

    def taken(self, multiplier: float) -> IntArray:
        """Return each individual's best choice (n,), the cheapest of equally good ones; with an infinite multiplier
        among those of cost 0."""
        _, cost, least = self._best(multiplier)
        best = np.where(cost <= np.repeat(least, self._counts), np.arange(len(cost)), len(cost))
        at: IntArray = np.minimum.reduceat(best, self.start)
        return at if self.sorted_ is None else self.sorted_[at]

    def sums(self, multiplier: float, total: float) -> tuple[float, float]:
        """Return their parts of the mean best ``value − multiplier cost``, and of the mean cost of that choice."""
        top, _, least = self._best(multiplier)
        shares = self.weights / total
        return float(shares @ top), float(shares @ least)

    @cached_property
    def _counts(self) -> IntArray:
        return np.diff(self.start, append=len(self.cost))

    @np.errstate(over="ignore", invalid="ignore")
    def _best(self, multiplier: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the largest gains (n,), the costs of choices that have them (else infinite), and the least of
        these."""
        free = math.isinf(multiplier)
        gain = np.where(self.cost == 0, self.value, -math.inf) if free else self.value - multiplier * self.cost
        top = np.maximum.reduceat(gain, self.start)
        cost = np.where(gain >= np.repeat(top, self._counts), self.cost, math.inf)
        return top, cost, np.minimum.reduceat(cost, self.start)


class _Bracket(NamedTuple):
    """Two multipliers around the minimum; the tangents meet at ``crossing``, with the value ``meeting``."""

    left: float
    right: float
    crossing: float
    meeting: float
    best: float  # the multiplier with the smallest value known
    gap: float  # what it is above the meeting point

    def inside(self) -> list[float]:
        """Return the multipliers to try next: the crossing, and one that shortens the bracket where it is long."""
        if self.gap <= ACCURACY * abs(self.meeting) + 1e-300:
            return []
        some = [self.crossing]
        if self.right > 16 * self.left:
            some.append(math.sqrt(self.left) * math.sqrt(self.right) if self.left else self.right * 2.0**-20)
        return [value for value in some if self.left < value < self.right]


class _Minimum:
    """The minimum over λ of ``λ b + Σ π max (value − λ cost)``, for any budget ``b``, in plain arithmetic."""

    def __init__(self, blocks: Sequence[_Choices]) -> None:
        self.blocks = blocks
        self.known: dict[float, tuple[float, float]] = {}  # multiplier: mean height, mean cost

    def brackets(self, budgets: Sequence[float]) -> list[_Bracket]:
        """Return the minimum for each budget, by the same passes; the same bits whatever was computed before."""
        tried = [[0.0, self._whole[1]] for _ in budgets]
        brackets: list[_Bracket] = []
        for _ in range(STEPS):
            self._learn([multiplier for some in tried for multiplier in some])
            brackets = [self._bracket(budget, some) for budget, some in zip(budgets, tried, strict=True)]
            more = [
                [value for value in each.inside() if value not in some]
                for each, some in zip(brackets, tried, strict=True)
            ]
            if not any(more):
                break
            tried = [sorted({*some, *new}) for some, new in zip(tried, more, strict=True)]
        return brackets

    def affordable(self, epsilon: float) -> float:
        """Return the largest budget, as far as is known, whose bound is at most epsilon."""
        budgets = [(epsilon - mean) / multiplier for multiplier, (mean, _) in self.known.items() if multiplier]
        return max(0.0, *budgets) if budgets else 0.0

    @cached_property
    def _whole(self) -> tuple[float, float]:
        """Return the total weight, and an upper end for the multiplier, with which no individual gains by a move."""
        weights, nearest, largest = [], math.inf, 0.0
        for block in self.blocks:
            weights.append(float(block.weights.sum()))
            nearest = min(nearest, float(block.cost[block.cost > 0].min(initial=math.inf)))
            largest = max(largest, float(block.value.max(initial=0.0)))
        return math.fsum(weights), min(FAR, 2 * largest / max(nearest, 1 / FAR)) or 1.0

    def _learn(self, multipliers: Sequence[float]) -> None:
        new = [value for value in dict.fromkeys(multipliers) if value not in self.known]
        if new:
            total = self._whole[0]

            def sums(at: int) -> list[tuple[float, float]]:
                block = self.blocks[at]
                return [block.sums(value, total) for value in new]

            totals = np.array(list(in_parallel(sums, range(len(self.blocks))))).sum(axis=0)
            self.known |= dict(zip(new, map(tuple, totals.tolist()), strict=True))

    def _bracket(self, budget: float, places: Sequence[float]) -> _Bracket:
        at = bisect.bisect_left(places, True, key=lambda value: self.known[value][1] <= budget)
        at = min(at, len(places) - 1)
        right = places[at]
        value = self._value(right, budget)
        if at == 0:  # all best choices are affordable
            return _Bracket(right, right, right, value, right, 0.0)
        left = places[at - 1]
        # The tangents have the slopes budget − cost; at left + step they meet.
        falls, rises = budget - self.known[left][1], budget - self.known[right][1]
        if falls == rises:  # a cost so small that no multiplier outweighs it
            return _Bracket(left, right, right, value, right, 0.0)
        step = (self._value(left, budget) - value + rises * (right - left)) / (rises - falls)
        meeting = self._value(left, budget) + falls * step
        best = min((left, right), key=lambda place: self._value(place, budget))
        return _Bracket(left, right, left + step, meeting, best, self._value(best, budget) - meeting)

    def _value(self, multiplier: float, budget: float) -> float:
        return self.known[multiplier][0] + (multiplier * budget if multiplier else 0.0)


class Each(Sequence[Made], Generic[Given, Made]):
    """``make`` of every block on access; where there is only one block, it is made once."""

    def __init__(self, blocks: Sequence[Given], make: Callable[[Given], Made]) -> None:
        self.blocks, self.make = blocks, make
        self.only = make(blocks[0]) if len(blocks) == 1 else None

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, at: Any) -> Any:
        if not 0 <= at < len(self.blocks):
            raise IndexError(at)
        return self.make(self.blocks[at]) if self.only is None else self.only
