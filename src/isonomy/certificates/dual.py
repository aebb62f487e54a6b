"""The distributional bound: the best multiplier for what the kernel proves, and what a population attains.

The problem is ``sup { E_Q[I] : W_p(P, Q) <= gamma }`` with ``P`` the individuals and their weights; the kernel
(:mod:`isonomy_verify.dual`) bounds it for any multiplier, from cells that cover all possible people. The best
multiplier for every gamma at once, and the inverse, come from the upper concave hulls of the points
``(near^p, value)`` of all individuals, with their slopes merged and sorted.

**Soundness.** Whatever is called ``upper`` is the kernel's, which is right for every multiplier. A badly rounded hull
gives a worse multiplier, never a wrong bound. :func:`allocate` promises the reverse: masses within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.brief import brief
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy_verify import dual as kernel
from isonomy_verify.arithmetic import down, mean_up, power_down, products_up, up

IntArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]


class Cells(kernel.Cells):
    """The kernel's cover of all possible people, from arrays of any type."""

    __repr__ = brief

    def __post_init__(self) -> None:
        types = {"owner": np.intp, "near": float, "far": float, "value": float, "open_": bool, "weights": float}
        for name, dtype in types.items():
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=dtype))
        try:
            super().__post_init__()
        except ValueError as error:
            raise ParameterError(str(error)) from None
        if not self.weights.max() <= kernel.HUGE or not 1 / kernel.HUGE <= self.total_weight <= kernel.HUGE:
            raise ParameterError("'cells.weights' must have a sum that neither vanishes nor overflows.")

    @classmethod
    def from_profiles(
        cls, radii: npt.ArrayLike, values: npt.ArrayLike, largest: float, weights: npt.ArrayLike | None = None
    ) -> Cells:
        """Cells of profiles ``values[i, k]``, valid for all people within ``radii[k]`` (or ``radii[i, k]``) of ``i``.

        The first radius is 0. A bound for a larger radius also holds for a smaller one, so profiles are made monotone;
        beyond the last radius only ``largest`` is known.
        """
        value = np.minimum(np.atleast_2d(np.asarray(values, dtype=np.float64)), largest)
        radius = np.broadcast_to(np.asarray(radii, dtype=np.float64), value.shape)
        if value.shape[1] == 0 or (radius[:, 0] != 0).any() or not (np.diff(radius, axis=1) > 0).all():
            raise ParameterError(template("radii", "increasing numbers that begin with 0", radii))
        n, count = value.shape
        column = np.zeros((n, 1))
        value = np.minimum.accumulate(value[:, ::-1], axis=1)[:, ::-1]
        return cls(
            owner=np.repeat(np.arange(n), count + 1),
            near=np.hstack([column, radius]).ravel(),
            far=np.hstack([radius, column + math.inf]).ravel(),
            value=np.hstack([value, column + largest]).ravel(),
            open_=np.tile(np.arange(count + 1) > 0, n),
            weights=np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64),
        )

    @property
    def total_weight(self) -> float:
        """The sum of the weights, correctly rounded."""
        return math.fsum(self.weights.tolist())

    def take(self, individuals: IntArray) -> Cells:
        """The cells of some individuals, numbered anew in the order given (no repetitions)."""
        number = np.full(len(self.weights), -1, dtype=np.intp)
        number[individuals] = np.arange(len(individuals))
        kept = number[self.owner] >= 0
        near, far, value, open_ = self.near[kept], self.far[kept], self.value[kept], self.open_[kept]
        return Cells(number[self.owner[kept]], near, far, value, open_, self.weights[individuals])


@dataclass(frozen=True)
class Bound:
    """No population within gamma exceeds ``upper``; :func:`evaluate` with the multiplier gives it again.

    The multiplier is None where none is needed: gamma 0 and order infinity.
    """

    gamma: float
    upper: float
    multiplier: float | None


def evaluate(cells: Cells, order: float, gamma: float, multiplier: float | None) -> float:
    """The kernel's bound for one multiplier, in one pass: this is how anyone checks a certificate."""
    check_radius(order, gamma)
    try:
        return kernel.bound(cells, order, gamma, multiplier)
    except ValueError as error:
        raise ParameterError(str(error)) from None


@dataclass(frozen=True, eq=False)
class Dual:
    """The bound for all gammas of one order. Whatever it returns as ``upper`` is the kernel's."""

    cells: Cells
    order: float

    def __post_init__(self) -> None:
        check_radius(self.order, 0.0)

    def bound(self, gamma: float) -> Bound:
        """The bound with the best multiplier."""
        return self.curve([gamma])[0]

    def curve(self, gammas: Iterable[float]) -> list[Bound]:
        """One bound for each gamma. Gammas that share a multiplier share the pass over the cells."""
        means: dict[float, float] = {}
        bounds = []
        for gamma in gammas:
            multiplier = self.multiplier(gamma)
            if multiplier is None:
                bounds.append(Bound(gamma, evaluate(self.cells, self.order, gamma, None), None))
                continue
            if multiplier not in means:
                means[multiplier] = self._mean(gamma, multiplier)
            upper = kernel.together(kernel.price(self.order, gamma, multiplier), means[multiplier])
            # Rounding must not push a bound above what holds for every gamma.
            bounds.append(Bound(gamma, upper, multiplier) if upper < self._flat else Bound(gamma, self._flat, 0.0))
        return bounds

    def multiplier(self, gamma: float) -> float | None:
        """The multiplier that makes the bound smallest, up to rounding."""
        check_radius(self.order, gamma)
        if kernel.plain(self.order, gamma):
            return None
        slopes = self._slopes
        at = int(np.searchsorted(slopes.cost, _power(gamma, self.order)))
        return float(slopes.slope[at]) if at < len(slopes.slope) else 0.0

    def largest_gamma(self, epsilon: float) -> float | None:
        """The largest gamma whose bound is at most epsilon: "fair up to a shift of gamma".

        None when not even gamma 0 is; infinity when every gamma is. Up to rounding this is the largest such gamma,
        and it never over-claims: ``bound(gamma).upper <= epsilon`` has been evaluated for what is returned.
        """
        number("epsilon", epsilon, "a number >= 0")
        if self.bound(0.0).upper > epsilon:
            return None
        if self.bound(math.inf).upper <= epsilon:
            return math.inf
        if self.order == math.inf:
            return self._largest_step(epsilon)
        slopes = self._slopes
        at = int(np.searchsorted(slopes.value, epsilon, side="right"))  # slopes.value[at - 1] <= epsilon
        if epsilon < slopes.base or not len(slopes.slope):
            return 0.0
        value, budget = (slopes.value[at - 1], slopes.cost[at - 1]) if at else (slopes.base, 0.0)
        if at < len(slopes.slope):
            budget += (epsilon - value) / slopes.slope[at]
        gamma = _power(budget, 1 / self.order)
        for attempt in range(53):
            if self.bound(gamma).upper <= epsilon:
                return gamma
            gamma *= 1.0 - 2.0 ** (attempt - 52)
        return 0.0

    def grid_error(self, gamma: float) -> float:
        """What the grid may have cost: the bound, minus the bound when values are attained only at ``far``.

        Unbounded cells keep ``near``: what they cost is the missing profile, not the grid. A report, not a certificate.
        """
        return max(0.0, self.bound(gamma).upper - self._far.bound(gamma).upper)

    def grid_errors(self, gamma: float) -> FloatArray:
        """Each individual's share of the grid error at the multiplier of gamma: whose cells are worth refining."""
        multiplier = self.multiplier(gamma)
        lost = self._heights(gamma, multiplier) - self._far._heights(gamma, multiplier)
        return np.maximum(0.0, lost) * self.cells.weights / self.cells.total_weight

    def active(self, gamma: float, tolerance: float = 1e-9) -> IntArray:
        """The cells that attain, within a tolerance, the maximum of an individual with a positive weight."""
        multiplier = self.multiplier(gamma)
        owner, gains = self.cells.owner, kernel.gains(self.cells, self.order, gamma, multiplier)
        highest = self._heights(gamma, multiplier)[owner]
        return np.flatnonzero((gains >= highest - tolerance) & (self.cells.weights[owner] > 0))

    @cached_property
    def _flat(self) -> float:
        """The mean of the largest values: the bound with multiplier 0."""
        return self._mean(math.inf, 0.0)

    @cached_property
    def _slopes(self) -> _Slopes:
        cells = self.cells
        costs = power_down(cells.near, self.order)
        return _Slopes.of(cells.owner, costs, cells.value, cells.weights / cells.total_weight)

    @cached_property
    def _far(self) -> Dual:
        """The same cells with all people at their far end; at cost 0 the violation is at least 0."""
        cells, n = self.cells, len(self.cells.weights)
        tail = cells.far == math.inf
        at_far = Cells(
            owner=np.concatenate([cells.owner, np.arange(n)]),
            near=np.concatenate([np.where(tail, cells.near, cells.far), np.zeros(n)]),
            far=np.concatenate([cells.far, np.zeros(n)]),
            value=np.concatenate([cells.value, np.zeros(n)]),
            open_=np.concatenate([cells.open_ & tail, np.zeros(n, dtype=bool)]),
            weights=cells.weights,
        )
        return Dual(at_far, self.order)

    def _heights(self, gamma: float, multiplier: float | None) -> FloatArray:
        return kernel.heights(self.cells, self.order, gamma, multiplier)

    def _mean(self, gamma: float, multiplier: float | None) -> float:
        return mean_up(self._heights(gamma, multiplier), self.cells.weights)

    def _largest_step(self, epsilon: float) -> float:
        """Order infinity: a staircase, whose steps are at the near ends, or right after them where these are open."""
        near = np.unique(self.cells.near)
        steps = np.unique(np.concatenate([near, np.maximum(0.0, down(near))]))
        low, high = 0, len(steps)  # steps[0] = 0 is fine, and the bound never falls
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.bound(steps[middle]).upper <= epsilon else (low, middle)
        return float(steps[low])


def allocate(
    owner: npt.ArrayLike, cost: npt.ArrayLike, value: npt.ArrayLike, weights: npt.ArrayLike, budget: float
) -> FloatArray:
    """The primal: masses on attainable points that maximise ``sum mass value`` within the budget.

    Point ``j`` belongs to ``owner[j]``; its ``cost`` is a distance to the power p already, rounded up. Everybody has a
    point of cost 0. Subject to ``sum of i's masses = weights[i]`` and ``sum mass cost <= budget sum weights``, with
    ``budget`` a lower bound of ``gamma^p`` (the kernel's ``power_down``). Greedy along the merged hulls: at most one
    individual is split.

    **Soundness.** Both constraints hold for the returned floats in exact arithmetic: the split mass is a multiple of
    the last place of its weight, so that the rest is exact too, and the cost is summed with upward rounding. A sceptic
    re-checks with ``fractions.Fraction`` of masses, costs, weights and budget. Rounding only costs optimality.
    """
    who, costs, values = np.asarray(owner, dtype=np.intp), np.asarray(cost, float), np.asarray(value, float)
    weight = np.asarray(weights, dtype=np.float64)
    if not budget >= 0:
        raise ParameterError(template("budget", "a number >= 0", budget))
    if not (np.isfinite(costs) & (costs >= 0)).all() or not np.isfinite(values).all():
        raise ParameterError("'cost' and 'value' must be finite numbers, costs not negative.")
    missing = np.flatnonzero(np.bincount(who[costs == 0], minlength=len(weight)) == 0)
    if len(missing):
        raise ParameterError(f"Individual {missing[0]} has no point of cost 0 where its mass could stay.")
    vertex, slope = _hulls(who, costs, values, len(weight))
    holder = who[vertex]
    steps = np.flatnonzero((slope < math.inf) & (weight[holder] > 0))
    steps = steps[np.argsort(-slope[steps], kind="stable")]
    with np.errstate(over="ignore"):
        limit = max(0.0, float(down(down(math.fsum(weight.tolist())) * budget)))

    def standing(taken: int) -> IntArray:
        """The point of everybody after the steepest steps."""
        place = np.searchsorted(holder, np.arange(len(weight)))
        np.maximum.at(place, holder[steps[:taken]], steps[:taken])
        return vertex[place]

    rises = weight[holder[steps]] * (costs[vertex[steps]] - costs[vertex[steps - 1]])
    taken = int(np.searchsorted(np.cumsum(rises), limit, side="right"))
    at = standing(taken)
    while taken and _spent_upper(weight, costs[at]) > limit:  # the cumulated sum was rounded
        taken -= 1
        at = standing(taken)
    masses = np.zeros(len(who))
    masses[at] = weight
    if taken == len(steps):
        return masses
    there = vertex[steps[taken]]
    here, split = at[who[there]], float(weight[who[there]])
    room = (limit - _spent_upper(weight, costs[at])) / (costs[there] - costs[here])
    unit = math.ulp(split)
    moved, back = math.floor(min(room, split) / unit) * unit, 0.0
    while True:
        moved = max(0.0, moved - back)
        masses[there], masses[here] = moved, split - moved
        if moved == 0 or _spent_upper(masses, costs) <= limit:
            return masses
        back = max(unit, 2 * back)


def check_radius(order: float, gamma: float) -> None:
    """Refuse an order below 1 and a radius that is not a non-negative number."""
    number("order", order, "a number >= 1, or infinity", 1.0)
    number("gamma", gamma, "a number >= 0, or infinity")


@dataclass(frozen=True, eq=False)
class _Slopes:
    """The hulls of all individuals merged: steepest first, with budget and mean value up to the end of each segment."""

    slope: FloatArray
    cost: FloatArray
    value: FloatArray
    base: float

    @classmethod
    def of(cls, owner: IntArray, cost: FloatArray, value: FloatArray, share: FloatArray) -> _Slopes:
        vertex, slope = _hulls(owner, cost, value, len(share))
        weight = share[owner[vertex]]
        first = slope == math.inf
        base = float(weight[first] @ value[vertex[first]])
        steps = np.flatnonzero(~first & (weight > 0))
        steps = steps[np.argsort(-slope[steps], kind="stable")]
        end, start = vertex[steps], vertex[steps - 1]
        climbed = np.cumsum(weight[steps] * (value[end] - value[start]))
        return cls(slope[steps], np.cumsum(weight[steps] * (cost[end] - cost[start])), base + climbed, base)


def _hulls(owner: IntArray, cost: FloatArray, value: FloatArray, n: int) -> tuple[IntArray, FloatArray]:
    """The vertices of everybody's increasing upper concave hull, by owner and cost, and the slopes that lead to them.

    The first vertex of an individual has slope infinity, the others a finite one. Andrew's monotone chain runs for all
    individuals at the same time, one point of each after the other, their stacks side by side in one array: every point
    is pushed and popped at most once, so the work is linear after sorting.
    """
    later = np.diff(owner)
    if ((later > 0) | ((later == 0) & (np.diff(cost) >= 0))).all():  # sorting costs more than all the rest
        ordered = np.arange(len(owner))
    else:
        ordered = np.lexsort((cost, owner))
    x, y = cost[ordered], value[ordered]
    count = np.bincount(owner, minlength=n)
    start = np.cumsum(count) - count
    stack = np.zeros(len(owner), dtype=np.intp)
    slope = np.full(len(owner), math.inf)  # into the point at the same place of the stack
    stack[start] = start
    top, individuals = start.copy(), np.arange(n)
    for k in range(1, int(count.max())):
        individuals = individuals[count[individuals] > k]
        new = start[individuals] + k
        rises = y[new] > y[stack[top[individuals]]]
        who, new = individuals[rises], new[rises]
        replaces = (top[who] == start[who]) & (x[new] == x[stack[top[who]]])  # the same cost as the first, for more
        stack[start[who[replaces]]] = new[replaces]
        who, new = who[~replaces], new[~replaces]
        into, popping = np.empty(len(who)), np.arange(len(who))
        while len(popping):
            last, point = stack[top[who[popping]]], new[popping]
            with np.errstate(over="ignore", divide="ignore"):
                steep = np.minimum((y[point] - y[last]) / (x[point] - x[last]), np.finfo(np.float64).max)
            into[popping] = steep
            popping = popping[steep >= slope[top[who[popping]]]]
            top[who[popping]] -= 1
        top[who] += 1
        stack[top[who]], slope[top[who]] = new, into
    kept = np.arange(len(owner)) <= np.repeat(top, count)
    return ordered[stack[kept]], slope[kept]


def _spent_upper(masses: FloatArray, costs: FloatArray) -> float:
    """An upper bound of ``sum mass cost``."""
    products = products_up(masses[masses > 0], costs[masses > 0])
    total = math.fsum(products.tolist())
    return float(up(total)) if total else 0.0


def _power(base: float, order: float) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.power(np.float64(base), order))
