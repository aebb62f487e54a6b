"""Explore: a metric learned from pairs that people called comparable, or not.

Mukherjee, Yurochkin, Banerjee, Sun: "Two simple ways to learn individual fairness metrics from data" (ICML
2020). A pair with squared distance ``q = (x − y)ᵀ M (x − y)`` is called comparable with probability
``2 sigmoid(−q)``. The likelihood is largest over positive semi-definite ``M`` where

    mean over pairs of {log((1 + e^q) / 2) if comparable, else −log tanh(q / 2)}  +  regularisation · trace M

is least, which is convex in ``M``. The trace keeps ``M`` finite when the answers can be separated, and its
rank low.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, ParameterError, template
from isonomy.similarity.mahalanobis import RootMetric, semidefinite_root
from isonomy.similarity.metric import BoolArray, checked_number

if TYPE_CHECKING:
    from isonomy.population.population import Population

_SMALLEST = 1e-12  # of q: an incomparable pair at distance 0 has an infinite loss


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Explore(RootMetric):
    """A Mahalanobis metric learned from labelled pairs: ``Explore.fit(x1, x2, comparable)``."""

    kind: ClassVar[str] = "explore"

    @classmethod
    def fit(
        cls,
        x1: ArrayLike | Population,
        x2: ArrayLike | Population,
        comparable: ArrayLike,
        *,
        population: Population | None = None,
        regularisation: float = 1e-3,
        steps: int = 2000,
        tolerance: float = 1e-6,
    ) -> Self:
        """Fit to the pairs ``(x1[k], x2[k])`` with the answers ``comparable[k]``, true or false.

        With ``population`` its protected coordinates weigh 0, as in every other fit, and its names are
        kept. The pairs may come as two populations. ``regularisation`` is the factor of the trace. Accelerated
        projected gradient on all pairs, with restarts: no randomness, so no seed. It stops after ``steps`` steps, or
        once the projected gradient is below ``tolerance``.
        """
        regularisation = checked_number("regularisation", regularisation)
        difference, answers = _pairs(x1, x2, comparable)
        width = difference.shape[1]
        counts = np.ones(width, dtype=bool)
        if population is not None:
            counts = ~np.asarray(population.schema.protected_coordinates, dtype=bool)
            if counts.size != width:
                raise ParameterError(template("x1", f"rows of the population's {counts.size} coordinates", width))
        precision = np.zeros((width, width))
        precision[np.ix_(counts, counts)] = _minimise(difference[:, counts], answers, regularisation, steps, tolerance)
        names = () if population is None else population.schema.coordinate_names
        fitted_on = f"{len(answers)} pairs, {int(answers.sum())} comparable"
        return cls.from_root(semidefinite_root(precision), fitted_on, names)


def _pairs(
    x1: ArrayLike | Population, x2: ArrayLike | Population, comparable: ArrayLike
) -> tuple[FloatArray, BoolArray]:
    """Return the differences of the pairs, and the answers."""
    left, right = (np.asarray(getattr(x, "x", x), dtype=np.float64) for x in (x1, x2))
    if left.ndim != 2 or left.shape != right.shape or 0 in left.shape:
        raise ParameterError(template("x2", f"as many rows as 'x1' has, shape {left.shape}", f"shape {right.shape}"))
    for parameter, rows in (("x1", left), ("x2", right)):
        if not np.isfinite(rows).all():
            raise DataError(f"'{parameter}' must be finite: row {np.argwhere(~np.isfinite(rows))[0, 0]} is not.")
    answers = np.asarray(comparable)
    if answers.shape != left.shape[:1] or not np.isin(answers, (0, 1)).all():
        raise ParameterError(template("comparable", f"{len(left)} answers, each true or false", comparable))
    return left - right, answers.astype(bool)


def _minimise(
    difference: FloatArray, comparable: BoolArray, regularisation: float, steps: int, tolerance: float
) -> FloatArray:
    """Minimise by FISTA with backtracking, restarted whenever the objective rises."""
    width = difference.shape[1]
    scale = np.square(difference).sum(axis=1).mean()
    current = np.eye(width) / (scale if scale > 0 else 1.0)
    value, _ = _objective(current, difference, comparable, regularisation)
    ahead, momentum, step = current, 1.0, 1.0
    for _ in range(steps):
        base, gradient = _objective(ahead, difference, comparable, regularisation)
        while True:
            candidate = _project(ahead - step * gradient)
            move = candidate - ahead
            attained, _ = _objective(candidate, difference, comparable, regularisation)
            if attained <= base + (gradient * move).sum() + np.square(move).sum() / (2.0 * step) + 1e-15 * abs(base):
                break
            step /= 2.0
        if attained > value:
            if ahead is current:
                break
            ahead, momentum = current, 1.0
            continue
        following = (1.0 + math.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        ahead = candidate + (momentum - 1.0) / following * (candidate - current)
        current, value, momentum = candidate, attained, following
        if np.abs(move).max() <= tolerance * step:  # the projected gradient vanishes
            break
        step *= 1.2
    return current


def _objective(
    precision: FloatArray, difference: FloatArray, comparable: BoolArray, regularisation: float
) -> tuple[float, FloatArray]:
    """Return the penalised mean loss, and its gradient in ``M``."""
    squared = np.maximum(np.einsum("ki,ij,kj->k", difference, precision, difference, optimize=True), _SMALLEST)
    same = np.logaddexp(0.0, squared) - math.log(2.0)
    other = np.log1p(np.exp(-squared)) - np.log(-np.expm1(-squared))  # −log tanh(q/2)
    loss = np.where(comparable, same, other).mean() + regularisation * np.trace(precision)
    with np.errstate(over="ignore"):
        slope = np.where(comparable, 1.0 / (1.0 + np.exp(-squared)), -1.0 / np.sinh(squared))
    gradient = (difference * slope[:, None]).T @ difference / len(slope)
    return float(loss), gradient + regularisation * np.eye(len(precision))


def _project(symmetric: FloatArray) -> FloatArray:
    """Return the nearest positive semi-definite matrix."""
    values, vectors = np.linalg.eigh((symmetric + symmetric.T) / 2.0)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
