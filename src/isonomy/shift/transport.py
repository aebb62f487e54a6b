"""Optimal transport between two weighted samples: the ground cost, exact and bottleneck (order ∞) distances.

``W_p(P, Q)^p = min Σ_ij π_ij c(x_i, y_j)^p`` over plans ``π ≥ 0`` with the weights of ``P`` and ``Q`` as margins;
``W_∞`` is the smallest ``t`` for which some plan moves no individual further than ``t``. POT is imported when it is
first needed, for it takes seconds.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial.distance import cdist

from isonomy.arithmetic import FloatArray
from isonomy.errors import NotANumberError
from isonomy.similarity.ground import ground_root
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import TINY, gamma, norm_up

_NAMES: dict[float, Literal["cityblock", "euclidean", "chebyshev"]] = {
    1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev",
}  # fmt: skip
_STEPS = 100_000_000
_MASS = 1e-9  # of the plan may move further than the bottleneck: weights do not add up to exactly 1
_ACCURACY = 1e-6  # of a distance, as a share of the largest cost


@dataclass(frozen=True, eq=False)
class GroundCost:
    """``c(x, z) = ‖R x − R z‖_norm`` with ``root`` ``R`` and ``norm`` 1, 2 or ∞.

    Individuals are mapped by the root once, and their *places* ``R x`` are compared.

    With a ``direction`` ``v`` it is ``|v · R (x − z)|``; the dual norm of ``v`` is at most 1, so that the cost along a
    direction is at most the cost itself.
    """

    root: FloatArray
    norm: float
    direction: FloatArray | None = None

    @classmethod
    def of(cls, metric: Metric) -> GroundCost:
        """Return the cost of a ground metric; a root without rows (everything free) gets one of zeros."""
        root, norm = ground_root(metric)
        return cls(root if len(root) else np.zeros((1, metric.width)), norm)

    def along(self, direction: FloatArray) -> GroundCost:
        """Return the cost along a direction of the dual unit ball."""
        return replace(self, direction=direction)

    def places(self, x: FloatArray) -> FloatArray:
        """Return ``R x`` of every individual, or ``v · R x`` as a single column."""
        places = np.asarray(x @ self.root.T, dtype=np.float64)
        return places if self.direction is None else np.asarray(places @ self.direction[:, None])

    def sizes(self, x: FloatArray) -> FloatArray:
        """Return ``‖ |R| |x| ‖`` of every individual, to which rounding errors are proportional."""
        return norm_up(np.abs(x) @ np.abs(self.root).T, self.norm)

    def between(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the matrix of costs between two sets of places."""
        return np.asarray(cdist(left, right, _NAMES[self.norm]), dtype=np.float64)

    def error(self, sizes: FloatArray, other: float) -> FloatArray:
        """Bound the rounding error of the cost between an individual and a given *place*, by their sizes.

        ``R x`` is off by ``γ_m |R| |x|`` in every entry, hence by ``γ_m`` times the size in norm; the product with a
        direction by ``γ_r |v| |R x|``, at most ``γ_r`` times the size; the norm of the difference by ``γ_{r+3}``
        times its value, which is at most the sum of the sizes; the rest is for the rounding of the sizes.
        """
        rows, width = self.root.shape
        return np.asarray(2.0 * gamma(width + 2 * rows + 16) * (sizes + other) + (rows * width + 16) * 2.0 * TINY**0.5)


@dataclass(frozen=True, eq=False)
class Coupling:
    """The solver's result, good enough to fit a witness on even where it stopped early; ``trouble`` says why."""

    value: float  # W_p
    moved: FloatArray  # the costs along which mass flows
    potential: FloatArray  # the second dual potential, in units of the largest cost to the power p
    trouble: str | None = None


def exact(costs: FloatArray, one: FloatArray, other: FloatArray, order: float) -> float:
    """Return ``W_order`` of two samples given the matrix of costs and their weights."""
    if order == math.inf:
        return bottleneck(costs, one, other)
    coupling = solve(costs, one, other, order)
    if coupling.trouble is not None or not math.isfinite(coupling.value):
        raise NotANumberError(
            f"The transport problem could not be solved: {coupling.trouble} Take a smaller 'sample', a lower 'order', "
            "or the order infinity."
        )
    return coupling.value


def solve(costs: FloatArray, one: FloatArray, other: FloatArray, order: float) -> Coupling:
    """Return the optimal plan of finite order, by the network simplex.

    Costs are divided by the largest one before they are raised to the power, so that no order overflows.
    """
    scale = float(costs.max())
    if scale == 0.0:
        return Coupling(0.0, np.zeros(1), np.zeros(costs.shape[1]))
    powers = (costs / scale) ** order
    plan, log = _simplex(one, other, powers)
    value = float((plan * powers).sum())
    # The solver stops where powers of costs are below its tolerance, far from the optimum for high orders. A feasible
    # dual solution tells: the optimum is between its value and the plan's.
    dual = float(_shares(one) @ (powers - log["v"]).min(axis=1) + _shares(other) @ log["v"])
    upper, lower = (max(end, 0.0) ** (1.0 / order) for end in (value, dual))
    trouble = log["warning"]
    if trouble is None and not upper - lower <= _ACCURACY:
        trouble = f"at order {order:g} it is somewhere between {scale * lower:.4g} and {scale * upper:.4g}."
    return Coupling(scale * upper, costs[plan > 0.0], np.asarray(log["v"]), trouble)


def bottleneck(costs: FloatArray, one: FloatArray, other: FloatArray) -> float:
    """Return ``W_∞``, by bisection over the costs that occur."""
    # Every individual moves: the answer is at least the largest of the nearest costs.
    least = max(costs.min(axis=1).max(), costs.min(axis=0).max())
    levels = np.unique(costs[costs >= least])
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        if _is_feasible(costs <= levels[middle], one, other):
            high = middle
        else:
            low = middle + 1
    return float(levels[low])


def _is_feasible(allowed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], one: FloatArray, other: FloatArray) -> bool:
    if len(one) == len(other) and np.ptp(one) == 0.0 == np.ptp(other):
        return bool((maximum_bipartite_matching(csr_array(allowed), perm_type="column") >= 0).all())
    plan, log = _simplex(one, other, (~allowed).astype(np.float64))
    if log["warning"] is not None:
        raise NotANumberError(f"The bottleneck could not be found: {log['warning']} Take a smaller 'sample'.")
    return bool(plan[~allowed].sum() <= _MASS)


def _simplex(one: FloatArray, other: FloatArray, costs: FloatArray) -> tuple[FloatArray, dict[str, Any]]:
    """Return the plan (one, other) that the network simplex of POT finds, and its log, where its warnings are."""
    import ot

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan, log = ot.emd(_shares(one), _shares(other), costs, numItermax=_STEPS, log=True)
    return plan, log


def _shares(weights: FloatArray) -> FloatArray:
    return np.asarray(weights / weights.sum(), dtype=np.float64)
