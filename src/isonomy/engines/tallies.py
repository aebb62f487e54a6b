"""What one chunk adds to the dual, to its grid error and to the lower side, as exact sums.

For a multiplier ``lambda`` everybody is judged by one of their points (cost, value): the one with the largest
``value - lambda cost``. Three sets of points are of interest:

* ``"near"``: the profile, people of a cell at its near end; the sum is the dual's upper bound
  (:func:`isonomy.certificates.dual.evaluate`);
* ``"far"``: the same with people at the far end, which tells what the grid of radii has cost;
* ``"found"``: what was attained; the sum is the value and the cost of a transport plan.

**Soundness.** ``near``: costs are rounded down, heights and their products with weights up. ``found``: values are
rounded down, costs up. Sums have no rounding at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.certificates.dual import power_lower, power_upper
from isonomy.engines.parts import Part
from isonomy_verify.arithmetic import TINY, U, down, exact_sum, products_down, products_up, rounded_up, up

Kind = Literal["near", "far", "found"]


@dataclass(frozen=True)
class At:
    """Where a sum is taken: at a multiplier, or, where none is needed, over all points within a radius."""

    kind: Kind
    multiplier: float | None = None
    radius: float | None = None


@dataclass(frozen=True)
class Tally:
    """Sums over individuals with a positive weight, in units of ``2^-SHIFT``.

    ``total``: weight times the height ``value - multiplier cost``, for ``"found"`` weight times the value alone;
    ``cost``: weight times the cost of the chosen point; ``highest``: the largest height or value.
    """

    total: int
    cost: int
    highest: float

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.total + other.total, self.cost + other.cost, max(self.highest, other.highest))

    def mean_up(self, weight: int) -> float:
        """The mean height over the whole weight, an exact quotient rounded up once."""
        return min(rounded_up(Fraction(self.total, weight)), self.highest)


def tallies(part: Part, order: float, places: Iterable[At]) -> dict[At, Tally]:
    """The sums of one part at each of the places."""
    counted = part.weights > 0
    weights, profile = part.weights[counted], part.profile[:, counted]
    values = np.concatenate([profile, np.full((1, len(weights)), part.largest)])
    near = np.concatenate([[0.0], part.radii])
    # In the tail somebody is as near as the last radius: what it costs is the missing profile, not the grid.
    far = np.append(part.radii, part.radii[-1])
    attained, distance = part.value[:, counted], part.cost[:, counted]
    sums = {}
    for place in places:
        if place.kind == "found":
            sums[place] = _found(attained, distance, weights, order, place)
        else:
            sums[place] = _cells(values, near if place.kind == "near" else far, weights, order, place)
    return sums


def _cells(values: FloatArray, radii: FloatArray, weights: FloatArray, order: float, place: At) -> Tally:
    height, cost = np.zeros(len(weights)), np.zeros(len(weights))  # values are not negative
    if place.multiplier is None:
        assert place.radius is not None
        # The first cell is the individual; the others are open at their near end and closed at the far one.
        reached = radii < place.radius
        if place.kind == "far":
            reached[:-1] = radii[:-1] <= place.radius
        reached[0] = True
        height = values[reached].max(axis=0, initial=0.0)
    else:
        costs = power_lower(radii, order)
        price = max(0.0, float(down(place.multiplier * (1 - 8 * U))))
        with np.errstate(over="ignore", under="ignore"):
            for value, spent in zip(values, costs.tolist(), strict=True):
                gain = value - price * spent
                better = gain > height
                np.copyto(height, gain, where=better)
                np.copyto(cost, spent, where=better)
        if place.multiplier:  # nothing was rounded for multiplier 0
            height = up(height) + TINY
    total, spent_in_all = (exact_sum(products_up(weights, some)) for some in (height, cost))
    return Tally(total, spent_in_all, float(height.max(initial=0.0)))


def _found(values: FloatArray, distances: FloatArray, weights: FloatArray, order: float, place: At) -> Tally:
    value, cost = np.zeros(len(weights)), np.zeros(len(weights))
    if place.multiplier is None:
        assert place.radius is not None
        value = np.where(distances <= place.radius, values, 0.0).max(axis=0, initial=0.0)
    else:
        costs, best = power_upper(distances, order), np.full(len(weights), -math.inf)
        with np.errstate(over="ignore", under="ignore"):
            for some, spent in zip(values, costs, strict=True):
                gain = some - place.multiplier * spent
                better = gain > best
                for held, new in ((best, gain), (value, some), (cost, spent)):
                    np.copyto(held, new, where=better)
    return Tally(
        exact_sum(products_down(weights, value)), exact_sum(products_up(weights, cost)), float(value.max(initial=0.0))
    )
