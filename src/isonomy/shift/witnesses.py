"""Witnesses of a distance: functions that prove two populations to be apart.

By weak duality, whenever ``φ(x) + ψ(y) ≤ c(x, y)^q`` for **all** ``x`` and ``y``,

    E_P φ + E_Q ψ ≤ W_q(P, Q)^q ≤ W_p(P, Q)^q   for every order p ≥ q.

Both kinds of witness here are feasible on all of ``R^m`` by construction, whatever numbers they were fitted to, and
bounded, whatever the domain; so the two means can be bounded from a sample that the fit has not seen. Each has a
``name`` for reports, the ``order`` ``q`` of the cost below which it stays, the ``unit`` in which that cost is measured,
the proved ``ranges`` (low and high) of both functions, and these themselves, rounded down: ``one`` is ``φ`` of
individuals of the one population, ``other`` is ``ψ``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.shift.cost import GroundCost
from isonomy_verify.arithmetic import gamma

_CHUNK = 4_000_000  # entries of a matrix of costs in memory


@dataclass(frozen=True, eq=False)
class Potentials:
    """Kantorovich potentials, extended from the points ``x_i`` they were fitted on to everywhere.

    With the cost cut off at the reach ``R``, ``s(x, y) = min(c(x, y), R) / R``, and any numbers ``a_i``,

        ψ(y) = min_i [ s(x_i, y)^q − a_i ],      φ(x) = max_i [ a_i − 1 + (1 − s(x_i, x))^q ].

    **Soundness.** ``s`` is a pseudometric with values in [0, 1], so with ``t = s(x, y)`` and ``u = s(x_i, x)``:
    ``s(x_i, y)^q − t^q ≤ min(1, t + u)^q − t^q ≤ 1 − (1 − u)^q``, since the middle increases in ``t`` up to
    ``t = 1 − u`` and decreases beyond (q ≥ 1). Hence for the ``i`` that attains ``φ(x)``,
    ``φ(x) + ψ(y) ≤ (1 − u)^q − 1 + s(x_i, y)^q ≤ t^q ≤ (c(x, y) / R)^q``. For ``q = 1`` this is ``φ = −ψ``, the
    c-transform itself. With ``A = max a_i``: ``ψ`` lies in ``[−A, 1 − A]`` and ``φ`` in ``[A − 1, A]``.
    """

    cost: GroundCost
    points: FloatArray  # places
    heights: FloatArray  # the numbers a_i
    reach: float
    order: float
    largest: float  # size among the points, for rounding

    @property
    def name(self) -> str:
        """In words, for reports."""
        where = "" if self.cost.direction is None else " along the shift of the mean"
        return f"transport potentials of order {self.order:g}{where}, costs cut off at {self.reach:.4g}"

    @property
    def unit(self) -> float:
        """The reach."""
        return self.reach

    @property
    def ranges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Low and high of ``φ`` and of ``ψ``, each 1 apart but for rounding, which is added."""
        top = float(self.heights.max())
        error = gamma(8) * (1.0 + abs(top))
        return (top - 1.0 - error, top + error), (-top - error, 1.0 - top + error)

    def one(self, x: FloatArray) -> FloatArray:
        """``φ``, rounded down."""
        return self._over(x, lambda near: (self.heights - 1.0 + (1.0 - near) ** self.order).max(axis=1))

    def other(self, y: FloatArray) -> FloatArray:
        """``ψ``, rounded down."""
        return self._over(y, lambda near: (near**self.order - self.heights).min(axis=1))

    def _over(self, x: FloatArray, value: Callable[[FloatArray], FloatArray]) -> FloatArray:
        rows = max(1, _CHUNK // len(self.points))
        found = np.empty(len(x))
        for start in range(0, len(x), rows):
            some = slice(start, start + rows)
            costs = self.cost.between(self.cost.places(x[some]), self.points)
            found[some] = value(np.minimum(costs / self.reach, 1.0))
        # Both functions change by at most q times the change of s; powers and sums round a few times.
        moved = self.order * self.cost.error(self.cost.sizes(x), self.largest) / self.reach
        rounded = gamma(64 + 4 * math.ceil(self.order)) * (1.0 + float(np.abs(self.heights).max()))
        return np.asarray(found - (moved * (1.0 + 2.0**-40) + rounded))


@dataclass(frozen=True, eq=False)
class Slope:
    """The place along a direction: ``ψ(y) = clip(v · R y, low, high)`` and ``φ = −ψ``, of order 1.

    **Soundness.** With the dual norm of ``v`` at most 1, ``|v · R (y − x)| ≤ c(x, y)``, and clipping brings two
    numbers no further apart: ``ψ(y) − ψ(x) ≤ c(x, y)``.
    """

    cost: GroundCost  # along a direction
    low: float
    high: float
    name: str = "shift of the mean"
    order: float = 1.0
    unit: float = 1.0

    @property
    def ranges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Low and high of ``φ`` and of ``ψ``."""
        return (-self.high, -self.low), (self.low, self.high)

    def one(self, x: FloatArray) -> FloatArray:
        """``φ``, rounded down."""
        return np.asarray(-self._clipped(x) - self.cost.error(self.cost.sizes(x), 0.0))

    def other(self, y: FloatArray) -> FloatArray:
        """``ψ``, rounded down."""
        return np.asarray(self._clipped(y) - self.cost.error(self.cost.sizes(y), 0.0))

    def _clipped(self, x: FloatArray) -> FloatArray:
        return np.clip(self.cost.places(x)[:, 0], self.low, self.high)


Witness = Potentials | Slope


def mean_direction(
    cost: GroundCost, one: FloatArray, other: FloatArray, shares: tuple[FloatArray, FloatArray]
) -> FloatArray | None:
    """The direction of the dual unit ball along which the means differ most, noise left out; None without any.

    ``one`` and ``other`` are places, ``shares`` their weights with sum 1. A coordinate counts where its difference
    is above two standard errors.
    """
    means = [share @ rows for share, rows in zip(shares, (one, other), strict=True)]
    noise = [(share**2) @ (rows - mean) ** 2 for share, rows, mean in zip(shares, (one, other), means, strict=True)]
    difference = means[1] - means[0]
    difference = np.where(np.abs(difference) > 2.0 * np.sqrt(noise[0] + noise[1]), difference, 0.0)
    if not difference.any():
        return None
    if cost.norm == 1.0:
        return np.sign(difference)
    if cost.norm == 2.0:
        # A little shorter than 1, so that it is not longer once rounded.
        scaled = difference / np.abs(difference).max()
        return np.asarray(scaled / np.linalg.norm(scaled) * (1.0 - gamma(len(difference) + 16)))
    return np.where(np.arange(len(difference)) == np.abs(difference).argmax(), np.sign(difference), 0.0)
