"""What a certificate claims, as numbers that its evidence implies: written and checked by these functions alone.

A claim has a margin over what was derived, so that another machine, whose products differ in the last bits, derives no
more than was claimed: every bound of a profile is claimed as :func:`inflated`, and what follows from these is rounded
outward to six decimals. Then ``derived <= claim`` is compared without a tolerance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array, exact_sum, mean_of_sums, products_up, up
from isonomy_verify.dual import Cells
from isonomy_verify.reweighting import Groups, Sample, sample_of
from isonomy_verify.shifts import Movement

SHARE, MARGIN = 1e-6, 1e-8
"""By which share, and by how much besides, a claim is above what was derived.

Directions and multipliers are looked for in float32, so that they, and a little of the bound, hang on last bits: by up
to 2e-7 on other BLAS kernels and in other batches, as ``tests/verify/test_honest.py`` derives certificates again.
"""

POINTS = 1e-9
"""The same below violations at single pairs, which are runs and nothing else."""

CLAIM_ROWS = 16_384
"""Individuals looked at at a time."""


@dataclass(frozen=True, eq=False)
class Profiles:
    """Everybody's profile, one after the other: no violation within ``radius[j]`` of individual ``i`` is above
    ``value[j]``, for ``start[i] <= j < start[i + 1]``; radii ascend from 0. Every individual keeps to ``largest``.
    ``source[j]`` is the radius of the pass that proved ``value[j]``, 0 for the
    individual alone: a hint, empty where there is none.
    """

    start: NDArray[np.int64]
    radius: Array
    value: Array
    largest: float
    source: Array = field(default_factory=lambda: np.empty(0))

    def __repr__(self) -> str:
        return f"Profiles({len(self)} individuals, {len(self.radius)} radii, largest={self.largest:g})"

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many bounds each individual has, shape (n,)."""
        return np.diff(self.start)

    def __len__(self) -> int:
        return len(self.start) - 1

    def check(self) -> None:
        """Refuse what is no profile of an individual."""
        first, count = self.start[:-1], self.counts
        if not (count > 0).all() or not self.radius.shape == self.value.shape == (int(self.start[-1]),):
            raise ValueError("somebody has no profile")
        later = np.ones(len(self.radius), dtype=bool)
        later[first] = False
        if (self.radius[first] != 0).any() or not (np.diff(self.radius)[later[1:]] > 0).all():
            raise ValueError("the radii of a profile do not ascend from 0")
        if not (np.isfinite(self.value) & (self.value >= 0)).all() or not 0 <= self.largest < math.inf:
            raise ValueError("a bound of a profile is no number >= 0")

    def within(self, owner: NDArray[np.intp], cost: Array) -> Array:
        """The least of the bounds (k,) that hold within a distance ``cost`` (k,) of individuals ``owner`` (k,)."""
        places, count = self.places(owner), self.counts[owner]
        row = np.repeat(np.arange(len(owner)), count)
        column = np.arange(len(places)) - np.repeat(np.cumsum(count) - count, count)
        radius = np.full((len(owner), int(count.max(initial=0)) + 1), math.inf)
        value = np.full(radius.shape, self.largest)
        radius[row, column], value[row, column] = self.radius[places], self.value[places]
        least = np.minimum.accumulate(value[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(least[np.arange(len(owner)), (radius < cost[:, None]).sum(axis=1)])

    def places(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Where the bounds of some individuals stand."""
        first, count = self.start[rows], self.start[rows + 1] - self.start[rows]
        return np.asarray(np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count - first, count))

    def cells(self, rows: NDArray[np.intp], value: Array | None = None, weights: Array | None = None) -> Cells:
        """The cover of all possible people, seen from some individuals, with other bounds or weights where these are
        given."""
        places, count = self.places(rows), self.start[rows + 1] - self.start[rows]
        ends = np.cumsum(count + 1)
        bounded = np.ones(len(places) + len(rows), dtype=bool)
        bounded[ends - 1] = False
        far, high = np.full(len(bounded), math.inf), np.full(len(bounded), self.largest)
        far[bounded] = self.radius[places]
        high[bounded] = np.minimum(self.value[places] if value is None else value, self.largest)
        near, open_ = np.append(0.0, far[:-1]), np.ones(len(bounded), dtype=bool)
        near[ends - 1 - count], open_[ends - 1 - count] = 0.0, False
        own = np.ones(len(rows)) if weights is None else np.array(weights[rows])
        return Cells(np.repeat(np.arange(len(rows)), count + 1), near, far, high, open_, own)


def inflated(value: Array | float) -> Array:
    """At least ``value (1 + SHARE) + MARGIN``."""
    return np.asarray(up(up(value * (1 + SHARE)) + MARGIN))


def claimed_heights(profiles: Profiles, rows: NDArray[np.intp], shift: Movement, multiplier: float | None) -> Array:
    """What is claimed of individuals with the multiplier: the kernel's heights of their inflated profiles."""
    high = replace(profiles, largest=float(inflated(profiles.largest)))
    cells = high.cells(rows, inflated(profiles.value[profiles.places(rows)]))
    return shift.heights(cells, multiplier)


def claimed_people(
    profiles: Profiles, weights: Array, then: Movement, multiplier: float | None, groups: Groups | None
) -> Sample:
    """Individuals who count, with what is claimed of each of them with the multiplier in the place of own bounds."""
    starts = range(0, len(weights), CLAIM_ROWS)
    rows = [np.arange(start, min(start + CLAIM_ROWS, len(weights))) for start in starts]
    high = np.concatenate([claimed_heights(profiles, some, then, multiplier) for some in rows])
    return sample_of(high, np.zeros(len(high)), weights, groups)


def claimed_upper(profiles: Profiles, weights: Array, shift: Movement, multiplier: float | None) -> tuple[float, float]:
    """The bound that the claims of all individuals imply, and how much all of them together could hide.

    The shift's bound at the mean ``Σ w c / Σ w``, sums without rounding; and what it could be more with the mean
    ``Σ w (G − c) / Σ w`` added, ``G`` the claimed largest violation.
    """
    total = hidden = weight = 0
    highest, largest = 0.0, float(inflated(profiles.largest))
    for start in range(0, len(weights), CLAIM_ROWS):
        rows = np.arange(start, min(start + CLAIM_ROWS, len(weights)))
        rows = rows[weights[rows] > 0]
        if not len(rows):
            continue
        own = np.array(weights[rows])
        claimed = claimed_heights(profiles, rows, shift, multiplier)
        total += exact_sum(products_up(own, claimed))
        hidden += exact_sum(products_up(own, np.maximum(0.0, up(largest - claimed))))
        weight += exact_sum(own)
        highest = max(highest, float(claimed.max()))
    upper = shift.bound(multiplier, mean_of_sums(total, weight, highest))
    return upper, mean_of_sums(hidden, weight, largest)


def outward(value: float, places: int = 6) -> float:
    """The smallest number of this many decimals that is at least the value, as a float that is at least the value."""
    return _decimal(value, places, ROUND_CEILING)


def inward(value: float, places: int = 6) -> float:
    """The largest number of this many decimals that is at most the value less the margin, not below 0."""
    return downward(value * (1 - POINTS) - POINTS, places)


def downward(value: float, places: int = 6) -> float:
    """The largest number of this many decimals that is at most the value, not below 0."""
    return max(0.0, _decimal(value, places, ROUND_FLOOR))


def _decimal(value: float, places: int, rounding: str) -> float:
    if not abs(value) < 1e15:  # there floats have no such decimals
        return value
    step = Decimal(1).scaleb(-places)
    found = Decimal(value).quantize(step, rounding)
    up_ = rounding == ROUND_CEILING
    while (float(found) < value) if up_ else (float(found) > value):
        found = found + step if up_ else found - step
    return float(found)


def verdict(lower: float, upper: float, epsilon: float | None) -> str | None:
    """What the claims say about ε."""
    if epsilon is None:
        return None
    return "certified" if upper <= epsilon else "violated" if lower > epsilon else "undecided"
