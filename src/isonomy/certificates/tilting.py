"""Tilts of individuals: the closest reweighting with shares of cells within limits, and the worst one near it.

Everything here is a search in floats, whose numbers are hints or the name of a population; nothing rests on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, brentq, linprog, minimize
from scipy.sparse import csr_matrix, hstack, identity, vstack

from isonomy.arithmetic import FloatArray

STEPS = 500
"""The most steps of a search for tilts."""

ACCURACY = 1e-9
"""Of the logarithm of the multiplier of the divergence."""


class Tilt(NamedTuple):
    """Exponents (k,) of cells, the shares (n,) of individuals that they give, and the logarithm of what shares over
    exponentials add up to."""

    exponents: FloatArray
    shares: FloatArray
    log: float


class Worst(NamedTuple):
    """The multiplier of the divergence, those (k,) of cells, and the shares (n,) of individuals."""

    slope: float
    theta: FloatArray
    shares: FloatArray


@dataclass(frozen=True, eq=False)
class Tilting:
    """Individuals in ``cells`` (n, f), numbered through up to ``count``, whose shares are to keep to limits."""

    cells: NDArray[np.intp]
    low: FloatArray  # (k,)
    high: FloatArray  # (k,)

    @property
    def count(self) -> int:
        """Return the number of cells."""
        return len(self.low)

    def shares_of(self, shares: FloatArray) -> FloatArray:
        """Return the shares (k,) of cells, from those (n,) of individuals."""
        total = np.zeros(self.count + 1)
        for column in self.cells.T:
            total += np.bincount(column, shares, self.count + 1)
        return total[:-1]

    def exponents(self, each: FloatArray) -> FloatArray:
        """Return the sums (n,) of an individual's cells' numbers ``each`` (k,)."""
        table, total = np.append(each, 0.0), np.zeros(len(self.cells))
        for column in self.cells.T:
            total += table[column]
        return total

    def squeezed(self, kept: float) -> Tilting:
        """Return the same with limits nearer to each other, of whose distance a share is kept; 0 and 1 stay."""
        less = (1 - kept) / 2 * (self.high - self.low)
        low, high = np.where(self.low > 0, self.low + less, 0.0), np.where(self.high < 1, self.high - less, 1.0)
        return Tilting(self.cells, low, high)

    def excess(self, shares: FloatArray) -> float:
        """Return by how much a share of a cell misses its limits at most."""
        held = self.shares_of(shares)
        return float(np.maximum(held - self.high, self.low - held).max())

    def closest(self, base: FloatArray, start: FloatArray | None = None) -> Tilt:
        """Return the reweighting of shares ``exp(base)`` with the least divergence that keeps to the limits.

        The dual: ``min ln Σ exp(base + a·ψ − b·ψ) − a·low + b·high`` over ``a, b ≥ 0``.
        """
        k = self.count
        own = np.zeros(k) if start is None else start
        given = np.concatenate([np.maximum(own, 0.0), np.maximum(-own, 0.0)])

        def dual(both: FloatArray) -> tuple[float, FloatArray]:
            exponents = base + self.exponents(both[:k] - both[k:])
            top = exponents.max()
            shares = np.exp(exponents - top)
            total = shares.sum()
            held = self.shares_of(shares / total)
            value = top + math.log(total) - both[:k] @ self.low + both[k:] @ self.high
            return float(value), np.concatenate([held - self.low, self.high - held])

        options: Any = {"maxiter": STEPS, "maxfun": 2 * STEPS, "maxcor": 30, "ftol": 1e-15, "gtol": 1e-9}
        best = minimize(dual, given, jac=True, method="L-BFGS-B", bounds=Bounds(0.0, np.inf), options=options)
        tilt = best.x[:k] - best.x[k:]
        exponents = base + self.exponents(tilt)
        top = exponents.max()
        shares = np.exp(exponents - top)
        return Tilt(tilt, shares / shares.sum(), float(top + math.log(shares.sum())))

    def worst(self, values: FloatArray, base: FloatArray, residual: float) -> Worst:
        """Return multipliers and shares that solve ``max q @ values`` with cells within the limits, and a divergence of
        ``residual`` at most from shares ``exp(base)``.

        For a multiplier ``λ`` the best shares are the closest ones to ``exp(base + values / λ)``; their divergence
        falls with ``λ``: a root.
        """
        spread = float(np.ptp(values))
        if spread == 0 or residual == 0:
            tilt = self.closest(base)
            return Worst(max(1e-9 * float(np.abs(values).max()), 1e-12), np.zeros(self.count), tilt.shares)
        slope, tilt = spread, self.closest(base + values / spread)

        def excess(size: float) -> float:
            nonlocal slope, tilt
            now = math.exp(size)
            tilt, slope = self.closest(base + values / now, tilt.exponents * (slope / now)), now
            return float(tilt.shares @ (values / slope + self.exponents(tilt.exponents) - tilt.log)) - residual

        low = high = math.log(spread)
        while high < 40 and excess(high) > 0:
            low, high = high, high + 1.5
        while low > math.log(spread) - 14 and (enough := excess(low)) < 0:
            low, high = low - 1.5, min(low, high)
        if enough > 0 > excess(high):
            brentq(excess, low, high, xtol=ACCURACY, rtol=ACCURACY)
        return Worst(slope, -slope * tilt.exponents, tilt.shares)

    def missing(self) -> FloatArray:
        """Return by how much shares of cells (k,) have to miss their limits at least, by a linear program over
        the kinds of individuals that there are."""
        kinds = np.unique(self.cells, axis=0)
        n, k = len(kinds), self.count
        rows = np.append(kinds, np.full((n, 1), k), axis=1).ravel()
        matrix = csr_matrix((np.ones(len(rows)), (rows, np.repeat(np.arange(n), kinds.shape[1] + 1))), (k + 1, n))[:k]
        slack, limits = identity(k, format="csr"), np.append(self.high, -self.low)
        both: Any = vstack([hstack([matrix, -slack]), hstack([-matrix, -slack])], format="csr")
        whole, price = np.append(np.ones(n), np.zeros(k)), np.append(np.zeros(n), np.ones(k))
        solved: Any = linprog(price, A_ub=both, b_ub=limits, A_eq=whole.reshape(1, -1), b_eq=[1.0], method="highs")
        return np.asarray(solved.x[n:])
