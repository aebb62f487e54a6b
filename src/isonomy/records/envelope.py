"""A bound for every gamma, from sums that were made for some multipliers only.

For **every** multiplier ``lambda >= 0`` and every gamma, no population within gamma has a mean violation above

    lambda gamma^p + D(lambda),

where ``D`` is the mean of everybody's largest ``value - lambda near^p`` (:mod:`isonomy.certificates.dual`). ``D`` does
not depend on gamma: once it is known at some multipliers, each of them gives a line over ``gamma^p`` that lies above
the curve everywhere, and the smallest of the lines is a bound wherever it is asked for. (The curve is concave in
``gamma^p``: straight lines *between* two of its points would lie below it.) Gamma 0 and order infinity need no
multiplier: there nobody moves further than gamma, and the mean of the largest values within a radius is a bound for
every gamma up to that radius.

**Soundness.** Means are exact sums over exact weights, rounded up once; prices are rounded up, and so is their sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.certificates.dual import check_radius
from isonomy.certificates.forms import Arrays
from isonomy.errors import DataError
from isonomy_verify.dual import plain, price, together

if TYPE_CHECKING:
    from isonomy.engines.dual import StreamedDual

_PARTS = ("multipliers", "means", "radii", "within")


@dataclass(frozen=True, eq=False)
class Envelope:
    """``means[j]`` is ``D(multipliers[j])``; ``within[k]`` the mean of the largest violations within ``radii[k]``."""

    order: float
    multipliers: FloatArray
    means: FloatArray
    radii: FloatArray
    within: FloatArray

    def __post_init__(self) -> None:
        check_radius(self.order, 0.0)
        for x, y in ((self.multipliers, self.means), (self.radii, self.within)):
            if x.ndim != 1 or x.shape != y.shape or not ((x >= 0).all() and (y >= 0).all() and (np.diff(x) > 0).all()):
                raise DataError("The sums behind a curve must be numbers >= 0, in the order of their multipliers.")
        if np.isinf(self.multipliers).any():
            raise DataError("The multipliers behind a curve must be finite.")

    @classmethod
    def of(cls, dual: StreamedDual) -> Envelope:
        """What is known without another pass over the parts."""
        near = {place: tally.mean_up(dual.weight) for place, tally in dual.known.items() if place.kind == "near"}
        lines = sorted((place.multiplier, mean) for place, mean in near.items() if place.multiplier is not None)
        steps = sorted((place.radius, mean) for place, mean in near.items() if place.radius is not None)
        columns = [np.array(column) for pairs in (lines, steps) for column in np.array(pairs).reshape(-1, 2).T]
        return cls(dual.order, *columns)

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Envelope:
        """What :meth:`arrays` gave."""
        return cls(float(arrays["order"]), *(np.asarray(arrays[name], dtype=np.float64) for name in _PARTS))

    def arrays(self) -> Arrays:
        """The numbers, to be written."""
        return {"order": np.array(self.order)} | {name: getattr(self, name) for name in _PARTS}

    def upper(self, gamma: float) -> float:
        """No population within gamma has a mean violation above this; infinite where nothing is known."""
        check_radius(self.order, gamma)
        bounds = [math.inf]
        if plain(self.order, gamma):  # else some people may move further than gamma
            bounds += self.within[np.searchsorted(self.radii, gamma) :][:1].tolist()
        if self.order < math.inf:
            for multiplier, mean in zip(self.multipliers.tolist(), self.means.tolist(), strict=True):
                bounds.append(together(price(self.order, gamma, multiplier), mean))
        return min(bounds)

    def curve(self, gammas: Iterable[float]) -> list[float]:
        """A bound for each gamma."""
        return [self.upper(float(gamma)) for gamma in gammas]
