"""How far two populations are apart at least, with confidence.

Each table is split in three: on the first part witnesses are *fitted*, on the second the most promising one is
*chosen*, on the third, which neither has seen, the two means of that one are bounded, each at half the risk.

**Soundness.** Given the first two parts, the witness is one fixed feasible and bounded pair ``(φ, ψ)``, and the third
parts are independent draws: with probability at least ``1 − α/2`` each, ``E_P φ ≥ A`` and ``E_Q ψ ≥ B``, hence
with probability at least ``1 − α`` both, and ``A + B ≤ E_P φ + E_Q ψ ≤ W_p^q``. The two tables need not be
independent of each other. Nothing depends on a transport problem having been solved well. Sampling
weights are divided by the largest that can occur, which is known beforehand; see :mod:`isonomy.confidence`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.confidence import mean_lower
from isonomy.shift.cost import GroundCost
from isonomy.shift.transport import solve
from isonomy.shift.witnesses import Potentials, Slope, Witness, mean_direction
from isonomy_verify.arithmetic import down

FEWEST = 8
"""Individuals in each table below which nothing is tried."""

NOTHING = "nothing"
"""How the evidence of a proof begins that proves nothing."""

_CHOOSING = 5_000  # individuals at most of each table to choose on
_JUDGED = 20_000  # individuals at most of each table to evaluate on
_ON_A_LINE = 1_000  # individuals at most of each table to fit potentials on along one direction: more tell little
_REACHES = (1.0, 0.75)  # shares of the moved mass's costs below which costs are not cut off
_HIGH_ORDER = 8.0  # stands for the order ∞


@dataclass(frozen=True, eq=False)
class Rows:
    """Individuals and their weights, all positive, at most 1."""

    x: FloatArray
    weights: FloatArray

    def __getitem__(self, some: slice | np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Rows:
        return Rows(self.x[some], self.weights[some])

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shares(self) -> FloatArray:
        """Weights that sum to 1."""
        return np.asarray(self.weights / self.weights.sum())


def lower_bound(
    one: Rows, other: Rows, cost: GroundCost, order: float, sample: int, alpha: float, rng: np.random.Generator
) -> tuple[float, str]:
    """A lower confidence bound of ``W_order``, and by what; 0 when no witness tells the populations apart."""
    if min(len(one), len(other)) < FEWEST:
        return 0.0, f"{NOTHING}, since it takes {FEWEST} individuals of each population"
    fitted, chosen, judged = zip(*(_three_parts(rows, sample, rng) for rows in (one, other)), strict=True)
    witnesses = fit_witnesses(fitted[0], fitted[1], cost, order)
    if not witnesses:
        return 0.0, f"{NOTHING}, since no witness was found"
    sizes = (_effective(judged[0]), _effective(judged[1]))
    best = max(witnesses, key=lambda witness: _promise(witness, chosen[0], chosen[1], sizes, alpha))
    return evaluate(best, judged[0], judged[1], alpha), best.name


def evaluate(witness: Witness, one: Rows, other: Rows, alpha: float) -> float:
    """What a witness proves about W_p from individuals that it was not fitted on; 0 if nothing."""
    first, second = witness.ranges
    total = mean_lower(witness.one(one.x), one.weights, *first, alpha / 2.0)
    total += mean_lower(witness.other(other.x), other.weights, *second, alpha / 2.0)
    # The sum rounds by less than 2 units of its larger term.
    total = total - 2.0**-51 * max(abs(end) for ends in (first, second) for end in ends)
    if total <= 0.0:
        return 0.0
    return float(down(witness.unit * total ** (1.0 / witness.order) * (1.0 - 2.0**-42)))


def fit_witnesses(one: Rows, other: Rows, cost: GroundCost, order: float) -> list[Witness]:
    """Candidates: potentials of order 1 and of the order itself, under the cost and along the shift of the mean.

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
    """Potentials of the transport problem between the samples, with costs cut off at several reaches."""
    points = cost.places(one.x)
    costs = cost.between(points, cost.places(other.x))
    largest = float(cost.sizes(one.x).max())
    coupling = solve(costs, one.weights, other.weights, order)
    found = []
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
            found.append(Potentials(cost, points, heights - heights.max(), reach, order, largest))
    return found


def _three_parts(rows: Rows, sample: int, rng: np.random.Generator) -> tuple[Rows, Rows, Rows]:
    """To fit (three eighths), to choose (one eighth) and to judge (half), each up to a size."""
    n = len(rows)
    mixed = rng.permutation(n)
    ends = (3 * n // 8, n // 2)
    return (
        rows[mixed[: min(sample, ends[0])]],
        rows[mixed[ends[0] : min(ends[0] + _CHOOSING, ends[1])]],
        rows[mixed[ends[1] : ends[1] + _JUDGED]],
    )


def _promise(witness: Witness, one: Rows, other: Rows, sizes: tuple[float, float], alpha: float) -> float:
    """About what the witness will prove, judged by other individuals than it was fitted on."""
    log, total = math.log(2.0 / alpha), 0.0
    values = (witness.one(one.x), witness.other(other.x))
    for value, rows, size, (low, high) in zip(values, (one, other), sizes, witness.ranges, strict=True):
        mean = float(rows.shares @ value)
        spread = math.sqrt(float(rows.shares @ (value - mean) ** 2))
        total += mean - spread * math.sqrt(2.0 * log / size) - (high - low) * log / size
    return float(witness.unit * math.copysign(abs(total) ** (1.0 / witness.order), total))


def _effective(rows: Rows) -> float:
    return float(rows.weights.sum() ** 2 / (rows.weights**2).sum())
