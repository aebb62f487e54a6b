"""The solvers of the paper, for comparison only: nothing here certifies anything.

The paper bounds the distributional violation by the *global* maximum of

    (1/n) sum_i g_i(phi_i)    subject to    phi >= 0,  (1/n) sum_i phi_i^p <= gamma^p                        (P)

and looks for it by ascent on ``phi``. A sum of monotone functions is not quasi-concave in general, and every iterate is
a feasible point, so what an ascent returns is a *lower* bound of the number that would be a certificate:

- :func:`quasi_subgradient`: normalised steps and a projection, after Hu et al. (2020);
- :func:`rescaled_gradient`: plain gradient steps, rescaled onto the budget whenever they leave it;
- :func:`knapsack` and :func:`knapsack_even`: its "numerical optimum" on a grid of radii, which it enumerates, solved
  exactly as a multiple-choice knapsack.

Each ascent returns the best point that it visited, which flatters it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
Profile = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Radii of all individuals to their ``g_i`` and the slopes ``g_i'``."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """The best feasible point of an ascent, and the mean violation after every step."""

    value: float
    phi: FloatArray
    history: FloatArray


@dataclass(frozen=True, eq=False)
class Assignment:
    """The best choice of one radius for each individual: the mean of its values, and the columns chosen."""

    value: float
    choice: IntArray


def interpolated(radii: FloatArray, values: FloatArray) -> Profile:
    """Profiles ``values[i, k]`` at ``radii[k]``, linear in between and constant beyond the last radius."""
    slopes = np.diff(values, axis=1) / np.diff(radii)
    rows = np.arange(len(values))

    def profile(phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        inside = np.minimum(phi, radii[-1])
        at = np.clip(np.searchsorted(radii, inside, side="right") - 1, 0, len(radii) - 2)
        slope = slopes[rows, at]
        return values[rows, at] + slope * (inside - radii[at]), np.where(phi < radii[-1], slope, 0.0)

    return profile


def quasi_subgradient(
    profile: Profile, n: int, gamma: float, order: float = 1, steps: int = 500, step: float = 1.0, decay: float = 0.5
) -> Ascent:
    """``phi <- project(phi + a_t grad / |grad|)`` with ``a_t = step / (t + 1)^decay``, from an even use of the budget.

    The projection onto the budget is exact for orders 1 and 2, the only ones that are implemented.
    """

    def move(phi: FloatArray, slope: FloatArray, t: int) -> FloatArray:
        length = float(np.linalg.norm(slope))
        if length == 0:
            return phi
        return _project(np.maximum(phi + step / (t + 1) ** decay * slope / length, 0.0), gamma, order)

    if order not in (1, 2):
        raise ValueError(f"'order' must be 1 or 2. Got {order!r}.")
    return _ascend(profile, np.full(n, gamma), steps, move)


def rescaled_gradient(
    profile: Profile, n: int, gamma: float, order: float = 1, steps: int = 500, step: float = 1.0
) -> Ascent:
    """``phi <- phi + step grad``, shrunk by one factor onto the budget whenever it is exceeded."""

    def move(phi: FloatArray, slope: FloatArray, t: int) -> FloatArray:
        return _rescale(np.maximum(phi + step * slope, 0.0), gamma, order)

    return _ascend(profile, np.full(n, gamma), steps, move)


def knapsack(costs: FloatArray, values: FloatArray, budget: float) -> Assignment:
    """The best choice of one column for each row with ``mean cost <= budget``, by mixed-integer programming (HiGHS).

    ``costs`` are radii to the power p: one row for all individuals, or one for each. HiGHS may exceed a budget by its
    tolerance; then the budget is reduced by as much until the choice is feasible.
    """
    n, count = values.shape
    cost = np.broadcast_to(costs, values.shape)
    one_each = sparse.kron(sparse.eye_array(n), np.ones((1, count)))
    allowed = limit = n * budget
    for _ in range(10):
        found = milp(
            -values.ravel(),
            integrality=np.ones(n * count),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(one_each, 1, 1), LinearConstraint(cost.reshape(1, -1), -np.inf, allowed)],
            options={"mip_rel_gap": 0.0},
        )
        if not found.success:
            raise RuntimeError(f"The knapsack was not solved: {found.message}")
        choice = found.x.reshape(n, count).argmax(axis=1)
        spent = math.fsum(cost[np.arange(n), choice])
        if spent <= limit:
            return Assignment(float(values[np.arange(n), choice].mean()), choice)
        allowed -= 2 * (spent - limit)
    raise RuntimeError("The knapsack was not solved: no feasible choice was found.")


def knapsack_even(values: FloatArray, spacing: float, gamma: float) -> Assignment:
    """The same for order 1 and radii ``0, spacing, 2 spacing, …``, by dynamic programming over whole multiples.

    Exact: the budget ``n gamma`` is counted in multiples of the spacing with rational numbers.
    """
    n, count = values.shape
    capacity = min(math.floor(n * Fraction(gamma) / Fraction(spacing)), n * (count - 1))
    best = np.zeros(capacity + 1)  # the largest sum so far, for each number of multiples left to spend
    choices = np.zeros((n, capacity + 1), dtype=np.intp)
    for i in range(n):
        improved = np.full(capacity + 1, -np.inf)
        for k in range(min(count - 1, capacity) + 1):
            candidate = best[: capacity + 1 - k] + values[i, k]
            better = candidate > improved[k:]
            improved[k:][better] = candidate[better]
            choices[i, k:][better] = k
        best = improved
    left, choice = capacity, np.zeros(n, dtype=np.intp)
    for i in reversed(range(n)):
        choice[i] = choices[i, left]
        left -= choice[i]
    return Assignment(float(values[np.arange(n), choice].mean()), choice)


def _ascend(
    profile: Profile, phi: FloatArray, steps: int, move: Callable[[FloatArray, FloatArray, int], FloatArray]
) -> Ascent:
    history = np.empty(steps + 1)
    best_value, best_phi = -math.inf, phi
    for t in range(steps + 1):
        value, slope = profile(phi)
        history[t] = value.mean()
        if history[t] > best_value:
            best_value, best_phi = float(history[t]), phi
        phi = move(phi, slope, t)
    return Ascent(best_value, best_phi, history)


def _rescale(phi: FloatArray, gamma: float, order: float) -> FloatArray:
    used = float(np.mean(phi**order)) ** (1 / order)
    return phi if used <= gamma else phi * (gamma / used)


def _project(phi: FloatArray, gamma: float, order: float) -> FloatArray:
    """The nearest point with ``mean phi^p <= gamma^p``, for ``phi >= 0`` and order 1 or 2."""
    if order == 2 or phi.mean() <= gamma:
        return _rescale(phi, gamma, order)
    falling = np.sort(phi)[::-1]
    excess = (np.cumsum(falling) - len(phi) * gamma) / np.arange(1, len(phi) + 1)
    threshold = excess[np.flatnonzero(falling > excess)[-1]]
    return _rescale(np.maximum(phi - threshold, 0.0), gamma, order)
