"""How far two populations are apart at least, with confidence.

A *witness* is a pair of functions with ``φ(x) + ψ(y) ≤ c(x, y)^q`` for **all** ``x`` and ``y``; by weak duality

    E_P φ + E_Q ψ ≤ W_q(P, Q)^q ≤ W_p(P, Q)^q   for every order p ≥ q.

Both kinds here are feasible on all of ``R^m`` by construction, whatever numbers they were fitted to, and bounded,
whatever the domain. Each has a ``name`` for reports, the ``order`` ``q``, the ``unit`` in which the cost is measured,
the proved ``ranges`` (low and high) of both functions, and these themselves, rounded down: ``one`` (``φ``) and
``other`` (``ψ``). Each table is split in three: on the first part witnesses are *fitted*, on the second the most
promising one is *chosen*, on the third, which neither has seen, its two means are bounded, each at half the risk.

**Soundness.** Given the first two parts, the witness is one fixed feasible and bounded pair ``(φ, ψ)``, and the third
parts are independent draws: with probability at least ``1 − α/2`` each, ``E_P φ ≥ A`` and ``E_Q ψ ≥ B``, hence
with probability at least ``1 − α`` both, and ``A + B ≤ E_P φ + E_Q ψ ≤ W_p^q``. No individual of the third parts may
be related to those that the witness was fitted on, in the other table either: the tables are independent of each other,
or their rows are pairs, in which case, being of one length, they are split alike. Nothing depends on a transport
problem having been solved well. Sampling weights are divided by the largest that can occur, which is known beforehand;
see :mod:`isonomy.confidence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.confidence import mean_lower
from isonomy.shift.transport import GroundCost, solve
from isonomy_verify.arithmetic import down, gamma

IntArray = NDArray[np.int64]

FEWEST = 8
"""Individuals in each table below which nothing is tried."""

NO_PROOF = "nothing"
"""How the evidence of a proof begins that proves nothing."""

_CHOOSING = 5_000  # individuals at most of each table to choose on
_JUDGED = 20_000  # individuals at most of each table to evaluate on
_ON_A_LINE = 1_000  # individuals at most of each table to fit potentials on along one direction: more tell little
_REACHES = (1.0, 0.75)  # shares of the moved mass's costs below which costs are not cut off
_HIGH_ORDER = 8.0  # stands for the order ∞
_CHUNK = 4_000_000  # entries of a matrix of costs in memory


@dataclass(frozen=True, eq=False)
class Rows:
    """Individuals and their weights, all positive, at most 1."""

    x: FloatArray
    weights: FloatArray

    def __getitem__(self, rows: slice | IntArray) -> Rows:
        return Rows(self.x[rows], self.weights[rows])

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shares(self) -> FloatArray:
        """Return the weights divided by their sum."""
        return np.asarray(self.weights / self.weights.sum())


def lower_bound(
    one: Rows, other: Rows, cost: GroundCost, order: float, sample: int, alpha: float, rng: np.random.Generator
) -> tuple[float, str]:
    """Return a lower confidence bound of ``W_order``, and its witness's name; 0 without a witness."""
    if min(len(one), len(other)) < FEWEST:
        return 0.0, f"{NO_PROOF}, since it takes {FEWEST} individuals of each population"
    mixed = rng.permutation(len(one))
    again = mixed if len(other) == len(one) else rng.permutation(len(other))
    parts = _three_parts(one, mixed, sample), _three_parts(other, again, sample)
    fitted, chosen, judged = zip(*parts, strict=True)
    witnesses = fit_witnesses(fitted[0], fitted[1], cost, order)
    if not witnesses:
        return 0.0, f"{NO_PROOF}, since no witness was found"
    sizes = (_effective_size(judged[0]), _effective_size(judged[1]))
    best = max(witnesses, key=lambda witness: _expected_bound(witness, chosen[0], chosen[1], sizes, alpha))
    return evaluate(best, judged[0], judged[1], alpha), best.name


def evaluate(witness: Witness, one: Rows, other: Rows, alpha: float) -> float:
    """Return the lower bound of W_p that a witness proves from individuals that it was not fitted on; 0 if none."""
    first, second = witness.ranges
    total = mean_lower(witness.one(one.x), one.weights, *first, alpha / 2.0)
    total += mean_lower(witness.other(other.x), other.weights, *second, alpha / 2.0)
    # The sum rounds by less than 2 units of its larger term.
    total = total - 2.0**-51 * max(abs(end) for ends in (first, second) for end in ends)
    if total <= 0.0:
        return 0.0
    return float(down(witness.unit * total ** (1.0 / witness.order) * (1.0 - 2.0**-42)))


def fit_witnesses(one: Rows, other: Rows, cost: GroundCost, order: float) -> list[Witness]:
    """Fit candidates: potentials of order 1 and of the order itself, under the cost and along the shift of the mean.

    In many dimensions potentials fit noise, and a single direction tells more than all of them together.
    """
    orders = sorted({1.0, _HIGH_ORDER if order == math.inf else order})
    witnesses: list[Witness] = [witness for q in orders for witness in _fit_potentials(one, other, cost, q)]
    left, right = cost.places(one.x), cost.places(other.x)
    direction = mean_direction(cost, left, right, (one.shares, other.shares))
    if direction is not None:
        line = cost.along(direction)
        along = np.concatenate([left, right]) @ direction
        witnesses.append(Slope(line, float(along.min()), float(along.max())))
        few = slice(0, _ON_A_LINE)
        witnesses += [witness for q in orders for witness in _fit_potentials(one[few], other[few], line, q)]
    return witnesses


def _fit_potentials(one: Rows, other: Rows, cost: GroundCost, order: float) -> list[Potentials]:
    """Fit potentials of the transport problem between the samples, with costs cut off at several reaches."""
    points = cost.places(one.x)
    costs = cost.between(points, cost.places(other.x))
    largest = float(cost.sizes(one.x).max())
    coupling = solve(costs, one.weights, other.weights, order)
    fitted = []
    for share in _REACHES:
        reach = float(np.quantile(coupling.moved, share)) if coupling.moved.size else 0.0
        if reach <= 0.0:
            break
        near = np.minimum(costs / reach, 1.0)
        if share == 1.0:  # costs beyond carry no mass: the potentials at hand will do
            potential = coupling.potential * (float(costs.max()) / reach) ** order
        else:
            potential = solve(near, one.weights, other.weights, order).potential
        heights = (near**order - potential).min(axis=1)  # the c-transform on the sample
        if np.isfinite(heights).all():
            fitted.append(Potentials(cost, points, heights - heights.max(), reach, order, largest))
    return fitted


def _three_parts(rows: Rows, mixed: IntArray, sample: int) -> tuple[Rows, Rows, Rows]:
    """Split rows to fit (three eighths), to choose (one eighth) and to judge (half), each up to a size."""
    n = len(rows)
    ends = (3 * n // 8, n // 2)
    return (
        rows[mixed[: min(sample, ends[0])]],
        rows[mixed[ends[0] : min(ends[0] + _CHOOSING, ends[1])]],
        rows[mixed[ends[1] : ends[1] + _JUDGED]],
    )


def _expected_bound(witness: Witness, one: Rows, other: Rows, sizes: tuple[float, float], alpha: float) -> float:
    """Estimate what the witness will prove, by other individuals than it was fitted on."""
    log, total = math.log(2.0 / alpha), 0.0
    values = (witness.one(one.x), witness.other(other.x))
    for value, rows, size, (low, high) in zip(values, (one, other), sizes, witness.ranges, strict=True):
        mean = float(rows.shares @ value)
        spread = math.sqrt(float(rows.shares @ (value - mean) ** 2))
        total += mean - spread * math.sqrt(2.0 * log / size) - (high - low) * log / size
    return float(witness.unit * math.copysign(abs(total) ** (1.0 / witness.order), total))


def _effective_size(rows: Rows) -> float:
    return float(rows.weights.sum() ** 2 / (rows.weights**2).sum())


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
    unit: float  # the reach
    order: float
    largest: float  # size among the points, for rounding

    @property
    def name(self) -> str:
        """Return the words for reports."""
        where = "" if self.cost.direction is None else " along the shift of the mean"
        return f"transport potentials of order {self.order:g}{where}, costs cut off at {self.unit:.4g}"

    @property
    def ranges(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return low and high of ``φ`` and of ``ψ``, each 1 apart but for rounding, which is added."""
        top = float(self.heights.max())
        error = gamma(8) * (1.0 + abs(top))
        return (top - 1.0 - error, top + error), (-top - error, 1.0 - top + error)

    def one(self, x: FloatArray) -> FloatArray:
        """Return ``φ``, rounded down."""
        return self._over(x, lambda near: (self.heights - 1.0 + (1.0 - near) ** self.order).max(axis=1))

    def other(self, y: FloatArray) -> FloatArray:
        """Return ``ψ``, rounded down."""
        return self._over(y, lambda near: (near**self.order - self.heights).min(axis=1))

    def _over(self, x: FloatArray, value: Callable[[FloatArray], FloatArray]) -> FloatArray:
        rows = max(1, _CHUNK // len(self.points))
        values = np.empty(len(x))
        for start in range(0, len(x), rows):
            chunk = slice(start, start + rows)
            costs = self.cost.between(self.cost.places(x[chunk]), self.points)
            values[chunk] = value(np.minimum(costs / self.unit, 1.0))
        # Both functions change by at most q times the change of s; powers and sums round a few times.
        moved = self.order * self.cost.error(self.cost.sizes(x), self.largest) / self.unit
        rounded = gamma(64 + 4 * math.ceil(self.order)) * (1.0 + float(np.abs(self.heights).max()))
        return np.asarray(values - (moved * (1.0 + 2.0**-40) + rounded))


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
        """Return low and high of ``φ`` and of ``ψ``."""
        return (-self.high, -self.low), (self.low, self.high)

    def one(self, x: FloatArray) -> FloatArray:
        """Return ``φ``, rounded down."""
        return np.asarray(-self._clipped(x) - self.cost.error(self.cost.sizes(x), 0.0))

    def other(self, y: FloatArray) -> FloatArray:
        """Return ``ψ``, rounded down."""
        return np.asarray(self._clipped(y) - self.cost.error(self.cost.sizes(y), 0.0))

    def _clipped(self, x: FloatArray) -> FloatArray:
        return np.clip(self.cost.places(x)[:, 0], self.low, self.high)


Witness = Potentials | Slope


def mean_direction(
    cost: GroundCost, one: FloatArray, other: FloatArray, shares: tuple[FloatArray, FloatArray]
) -> FloatArray | None:
    """Return the direction of the dual unit ball along which the means differ most, noise left out; None without any.

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
