"""What one chunk adds to the dual, to its grid error and to the lower side, as exact sums.

For a multiplier ``lambda`` everybody is judged by one of their points (cost, value): the one with the largest
``value - lambda cost``. Three sets of points are of interest:

* ``"near"``: the profile, people of a cell at its near end; the sum is the mean of the kernel's upper bound
  (:mod:`isonomy_verify.dual`);
* ``"far"``: the same with people at the far end, which tells what the grid of radii has cost;
* ``"found"``: what was attained; the sum is the value and the cost of a transport plan.

**Soundness.** ``near``: heights are the kernel's, their products with weights are rounded up. ``found``: values are
rounded down, costs up. Sums have no rounding at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.certificates.dual import Cells
from isonomy.engines.parts import Part
from isonomy.given import FINITE
from isonomy_verify.arithmetic import exact_sum, mean_of_sums, power_down, power_up, products_down, products_up
from isonomy_verify.dual import gains, heights

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
        return mean_of_sums(self.total, weight, self.highest)


def tallies(part: Part, order: float, places: Iterable[At]) -> dict[At, Tally]:
    """The sums of one part at each of the places."""
    counted = part.weights > 0
    if not counted.any():
        return {place: Tally(0, 0, 0.0) for place in places}
    weights, found = part.weights[counted], (part.value[:, counted], part.cost[:, counted])
    near = Cells.from_profiles(part.radii, part.profile[:, counted].T, part.largest, weights)
    # In the tail somebody is as near as the last radius: what it costs is the missing profile, not the grid.
    tail = near.far == math.inf
    far = replace(near, near=np.where(tail, near.near, near.far), open_=tail)
    return {
        place: _found(*found, weights, order, place)
        if place.kind == "found"
        else _cells(near if place.kind == "near" else far, order, place)
        for place in places
    }


def _cells(cells: Cells, order: float, place: At) -> Tally:
    n = len(cells.weights)
    if place.multiplier is None:
        assert place.radius is not None
        height, cost = heights(cells, math.inf, place.radius, None), np.zeros(n)
    else:
        height = heights(cells, order, math.inf, place.multiplier)
        best = gains(cells, order, math.inf, place.multiplier).reshape(n, -1).argmax(axis=1)  # one after the other
        cost = power_down(cells.near.reshape(n, -1)[np.arange(n), best], order)
    spent = np.minimum(products_up(cells.weights, cost), FINITE)  # where the next multiplier is looked for: a hint
    return Tally(exact_sum(products_up(cells.weights, height)), exact_sum(spent), float(height.max()))


def _found(values: FloatArray, distances: FloatArray, weights: FloatArray, order: float, place: At) -> Tally:
    value, cost = np.zeros(len(weights)), np.zeros(len(weights))
    if place.multiplier is None:
        assert place.radius is not None
        value = np.where(distances <= place.radius, values, 0.0).max(axis=0, initial=0.0)
    else:
        costs, best = power_up(distances, order), np.full(len(weights), -math.inf)
        costs = np.where(np.isfinite(products_up(weights, costs)), costs, math.inf)  # nobody is sent that far
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for some, spent in zip(values, costs, strict=True):
                gain = some - place.multiplier * spent
                better = gain > best
                for held, new in ((best, gain), (value, some), (cost, spent)):
                    np.copyto(held, new, where=better)
    return Tally(
        exact_sum(products_down(weights, value)), exact_sum(products_up(weights, cost)), float(value.max(initial=0.0))
    )
