"""Shifts in which individuals move, at a ground cost, within a radius: the dual, the profiles and the search of all.

A member gives the radius and the order of the Wasserstein distance, the cost that bounds keep to (:attr:`ground_cost`)
and, where that is another one, the cost that checked points pay (:attr:`point_cost`), which is never smaller.

**Soundness.** Populations of the shift are within the radius of the ground cost, and all within the radius of the cost
of points are populations of the shift. No move costs more than :attr:`furthest`, so that nothing is beyond it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, power
from isonomy.attacks import AttackBudget
from isonomy.certificates.dual import Bound, Dual, Mixture
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import CellBlocks, Schedule, make_schedule, most_passes, profiles
from isonomy.certificates.protocol import Derived, Items, MovedClaims, Shift
from isonomy.certificates.worst_case import Points, search
from isonomy_verify import dual as kernel
from isonomy_verify.arithmetic import power_down, power_up
from isonomy_verify.claims import Profiles, claimed_heights, claimed_upper
from isonomy_verify.shifts import Movement

STEADY = range(-4, 12)
"""Half octaves around γ at which it is asked whether decisions stand."""


@dataclass(frozen=True, eq=False)
class Moves:
    """The bounds of a movement over profiles, and the best populations of points."""

    dual: Dual
    profiles: Profiles
    shift: Displacement

    def bound(self, size: float | None) -> Bound:
        """Return the best bound for a size."""
        return self.dual.bound(size)

    def curve(self, sizes: Iterable[float]) -> Sequence[Bound]:
        """Return the bounds for several sizes."""
        return self.dual.curve(sizes)

    def largest_gamma(self, epsilon: float) -> float | None:
        """Return the largest size whose bound is at most ε; None where that of size 0 is above it."""
        return self.dual.largest_gamma(epsilon)

    def grid_error(self, size: float | None) -> float:
        """Return how much the grid of radii may have cost."""
        return self.dual.grid_error(size)

    def attained(self, points: Points, weights: FloatArray, size: float | None) -> Mixture:
        """Return the best population of points for a size."""
        return points.mixture(weights, self.shift if size is None else self.shift.resized(size))

    def claims(
        self, points: Points, weights: FloatArray, size: float | None, derive: Derived = claimed_heights
    ) -> MovedClaims:
        """Return what a record claims: the bound that claims about everybody imply, and the population."""
        shift = self.shift if size is None else self.shift.resized(size)
        upper, hidden = claimed_upper(self.profiles, weights, shift.kernel, self.dual.bound(size).multiplier)
        return MovedClaims(upper, hidden, self.attained(points, weights, size))


class Displacement(Shift):
    """A shift in which individuals move, within a radius ``gamma`` of an ``order``."""

    @property
    @abstractmethod
    def radius(self) -> float:
        """Return the radius γ."""

    @property
    @abstractmethod
    def exponent(self) -> float:
        """Return the order p of the Wasserstein distance."""

    @property
    def furthest(self) -> float:
        """Return an upper bound of what a move can cost."""
        return math.inf

    @property
    def size(self) -> float:
        """Return γ."""
        return self.radius

    @property
    def free(self) -> bool:
        """Return whether no individual moves, or none further than γ."""
        return kernel.plain(self.exponent, self.radius)

    @property
    def budget(self) -> float:
        """Return ``γ^p``."""
        return power(self.radius, self.exponent)

    def bound_up(self, multiplier: float | None, mean: float) -> float:
        """Return an upper bound of ``λ γ^p`` plus the mean."""
        return kernel.together(kernel.price(self.exponent, self.radius, multiplier), mean)

    def heights_up(self, cells: kernel.Cells, multiplier: float | None) -> FloatArray:
        """Return the kernel's heights (n,), which depend on γ only where there is no multiplier."""
        most = self.radius if multiplier is None else math.inf
        return kernel.heights(kernel.confined(cells, self.furthest), self.exponent, most, multiplier)

    def items(self, cells: kernel.Cells) -> Items:
        """Return the cells with their least costs."""
        cells = kernel.confined(cells, self.furthest)
        return cells.owner, power_down(cells.near, self.exponent), cells.value

    def attainable(self, owner: NDArray[np.intp], cost: FloatArray, value: FloatArray) -> tuple[Items, float]:
        """Return the points within γ, or with the budget ``γ^p``."""
        if self.free:
            return (owner, np.where(cost <= self.radius, 0.0, math.inf), value), math.inf
        most = math.inf if self.radius == math.inf else float(power_down(self.radius, self.exponent))
        with np.errstate(over="ignore"):
            return (owner, power_up(cost, self.exponent), value), most

    def dual(self, profiles: Profiles, weights: FloatArray, groups: NDArray[np.intp] | None = None) -> Moves:
        """Return the dual over the profiles."""
        return Moves(Dual(CellBlocks(profiles, weights), self), profiles, self)

    @property
    @abstractmethod
    def afterwards(self) -> str:
        """Return "then moving", and how far."""

    @property
    @abstractmethod
    def kernel(self) -> Movement:
        """Return the shift as the checker knows it."""

    def sizes(self) -> list[float]:
        """Return twenty-one γ from 0 to twice its own, or to 1."""
        widest = 2 * self.radius if 0 < self.radius < math.inf else 1.0
        return [widest * step / 20 for step in range(21)]

    def schedule(
        self, moving: Moving, upper: FloatArray, largest: float, tight: bool, tick: Callable[[int], None]
    ) -> Schedule:
        """Return the ladder of radii around γ that a pilot group shows to be worth a pass."""
        return make_schedule(moving, upper, self, largest, tight, tick)

    def passes(self, moving: Moving, tight: bool, rounds: int, schedule: Schedule) -> int:
        """Return the most passes of an individual."""
        return most_passes(moving, self, tight, rounds, schedule)

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
        """Return profiles, tightest for radii around γ."""
        return profiles(moving, upper, self, largest, tight, rounds, schedule, tick)

    def search(
        self, moving: Moving, points: Points, profiles: Profiles, budget: AttackBudget, tick: Callable[[int], None]
    ) -> tuple[Points, Points]:
        """Return points at radii about γ and larger ones, and those at which a decision is turned."""
        return search(moving, points, self, profiles, budget, tick)

    def steady(self, moving: Moving, certified: NDArray[np.bool_]) -> FloatArray:
        """Return the largest radii of a ladder around γ at which that is proved, by bisection."""
        radii, last = np.zeros(len(certified)), min(moving.first_flip * (1 - 1e-9), moving.diameter)
        if self.radius == 0 or math.isinf(self.radius):  # no individual moves, or every one to any point
            return radii
        steps = (0,) if math.isinf(self.exponent) else STEADY
        ladder = np.array([radius for k in steps if (radius := self.radius * 2.0 ** (k / 2)) < last or k == 0])
        low, high = np.full(len(radii), -1), np.where(certified, len(ladder) - 1, -1)
        while (open_ := low < high).any():
            middle = (low + high + 1) // 2
            for step in np.unique(middle[open_]):
                rows = np.flatnonzero(open_ & (middle == step))
                stands = moving.stands(rows, float(ladder[step]))
                low[rows[stands]], high[rows[~stands]] = step, step - 1
        radii[low >= 0] = ladder[low[low >= 0]]
        return radii

    @property
    def alone(self) -> bool:
        """Return whether γ is 0."""
        return self.radius == 0
