"""Weighted ℓp distances: every coordinate counts on its own, by its weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from isonomy.arithmetic import FloatArray
from isonomy.errors import ParameterError, template
from isonomy.similarity.metric import Metric, checked_number, fitting_basis, form_of, vector
from isonomy_verify.arithmetic import up
from isonomy_verify.definitions import inverse_up, root_down
from isonomy_verify.forms import Form, difference_upper

if TYPE_CHECKING:
    from isonomy.population.population import Population


@dataclass(frozen=True, init=False, eq=False, repr=False)
class WeightedLp(Metric):
    """``d(x, y) = (Σ w_i |x_i − y_i|^p)^(1/p)``, and ``max w_i |x_i − y_i|`` for ``p = ∞``.

    ``w`` are the ``weights`` and ``p`` the ``order``. A coordinate of weight 0 is free. The half-width of the ball
    along axis ``i`` is ``δ w_i^(−1/p)``.

    **Soundness.** The root ``w^(1/2)`` of the order 2 is rounded *down* and the tolerance ``1/w`` of the order ∞ *up*,
    so the sets built from them hold every similar individual; ``distance_upper`` makes up for it.
    """

    kind: ClassVar[str] = "weighted-lp"
    parts: ClassVar[tuple[str, ...]] = ("order", "weights")
    defined_by: ClassVar[tuple[str, ...]] = ("weights",)
    weights: FloatArray
    order: float = 2.0

    def __init__(
        self, weights: ArrayLike, order: float = 2.0, fitted_on: str = "", names: tuple[str, ...] = ()
    ) -> None:
        checked = vector("weights", weights)
        if isinstance(order, bool) or order not in (1, 2, math.inf):
            raise ParameterError(template("order", "1, 2 or infinity", order))
        self._set(checked.size, fitted_on, names, weights=checked, order=float(order))

    @classmethod
    def fit(cls, population: Population, order: float = 2.0, cap: float = 100.0) -> Self:
        """Fit weights ``1/|ρ_i|`` for an ``order``, ρ the correlation of coordinate ``i`` with protected attributes.

        It is Pearson's, in a ``population``; the strongest counts when there are several protected coordinates (a
        category has one for each of its values). ``cap`` is the largest weight, taken where ρ is near 0 or undefined.
        Protected coordinates weigh 0. Sampling weights are respected.
        """
        cap = checked_number("cap", cap, low=1.0)  # as 1/|ρ| is
        protected, fitted_on, names = fitting_basis(population)
        strongest = _correlations(population.x, population.weights)[:, protected].max(axis=1)
        weights = np.where(strongest > 1.0 / cap, 1.0 / np.maximum(strongest, 1.0 / cap), cap)
        return cls(np.where(protected, 0.0, weights), order, fitted_on, names)

    @cached_property
    def form(self) -> Form:
        """Return the form: a box for order ∞, a root for the others."""
        if self.order == math.inf:
            tolerance = np.array([inverse_up(float(w)) if w else 0.0 for w in self.weights])
            return form_of(np.zeros((0, tolerance.size)), free=self.weights == 0.0, tolerance=tolerance)
        scale = self.weights if self.order == 1 else np.array([root_down(float(w)) for w in self.weights])
        return form_of(np.diag(scale), self.order)

    def describe(self) -> str:
        """Return one sentence for people."""
        order = "∞" if self.order == math.inf else f"{self.order:g}"
        return f"weighted ℓ{order} distance; {self.free.sum()} of {self.width} coordinates are free"

    def _root_roundings(self) -> int:
        return 4 if self.order == 2 else 0

    def _box_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        if not self.boxed:
            return super()._box_distance(x, y)
        return np.asarray((self.weights * np.abs(x - y)).max(axis=-1))

    def _box_distance_upper(self, x: FloatArray, y: FloatArray) -> FloatArray:
        if not self.boxed:
            return super()._box_distance_upper(x, y)
        size = difference_upper(x, y)
        product = np.where((size == 0.0) | self.free, 0.0, up(self.weights * size))
        return np.asarray(product.max(axis=-1))


def covariance(x: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weighted covariance of the columns; exactly 0 for a column that is constant up to rounding."""
    share = weights / weights.sum()
    deviation = x - share @ x
    constant = np.ptp(x, axis=0) <= 1e-12 * np.abs(x).max(axis=0)
    deviation[:, constant] = 0.0
    return np.asarray((deviation * share[:, None]).T @ deviation)


def _correlations(x: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``|ρ|`` of every pair of columns; 0 where it is undefined, so that the cap applies."""
    scatter = covariance(x, weights)
    deviation = np.sqrt(np.diag(scatter))
    scale = np.outer(deviation, deviation)
    size = np.divide(np.abs(scatter), scale, out=np.zeros_like(scale), where=scale > 0)
    return np.asarray(np.minimum(size, 1.0))
