"""Mahalanobis distances: ``d(x, y) = sqrt((x − y)ᵀ M (x − y))`` with ``M`` positive semi-definite.

A float64 matrix is hardly ever *exactly* positive semi-definite, and a bound that needs ``M`` to be would
prove something about another metric. Therefore a metric of this family **is** its root:
``d = ‖R (x − y)‖₂`` with ``R`` in float64, so that ``M = RᵀR`` is positive semi-definite exactly. ``R`` is
computed once, and stored in the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from isonomy.arithmetic import FloatArray
from isonomy.errors import MetricError, ParameterError, template
from isonomy.given import numbers
from isonomy.similarity.lp import covariance
from isonomy.similarity.metric import Metric, fitting_basis, form_of, frozen
from isonomy_verify.forms import Form

if TYPE_CHECKING:
    from isonomy.population.population import Population


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RootMetric(Metric):
    """``d(x, y) = ‖R (x − y)‖₂``, what the Mahalanobis family has; directions with ``R v = 0`` are free."""

    parts: ClassVar[tuple[str, ...]] = ("root",)
    defined_by: ClassVar[tuple[str, ...]] = ("root",)
    root: FloatArray

    @classmethod
    def from_root(cls, root: ArrayLike, fitted_on: str = "", names: tuple[str, ...] = ()) -> Self:
        """Return the metric of a ``root`` ``R``, shape ``(r, m)``, kept exactly, with ``fitted_on`` and ``names``."""
        metric = cls.__new__(cls)
        metric._set_root(matrix("root", root), fitted_on, names)
        return metric

    def _set_root(self, root: FloatArray, fitted_on: str, names: tuple[str, ...], **parts: Any) -> None:
        self._set(root.shape[1], fitted_on, names, root=frozen(root), **parts)

    @cached_property
    def form(self) -> Form:
        """Return the form: the root, and no box."""
        return form_of(self.root)

    @property
    def precision(self) -> FloatArray:
        """Return ``M = RᵀR``, rounded."""
        return np.asarray(self.root.T @ self.root)

    def describe(self) -> str:
        """Return one sentence for people."""
        rank, width = self.root.shape
        return f"{self.kind} metric of rank {rank} on {width} coordinates, of which {self.free.sum()} are free"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Mahalanobis(RootMetric):
    """``d(x, y) = sqrt((x − y)ᵀ M (x − y))`` for a given ``precision`` matrix ``M`` (the paper's ``S⁻¹``)."""

    kind: ClassVar[str] = "mahalanobis"
    defined_by: ClassVar[tuple[str, ...]] = ("precision", "root")

    def __init__(self, precision: ArrayLike, fitted_on: str = "", names: tuple[str, ...] = ()) -> None:
        self._set_root(semidefinite_root(precision), fitted_on, names)

    @classmethod
    def fit(cls, population: Population, shrinkage: float = 0.1) -> Self:
        """Fit the inverse covariance ``Σ⁻¹`` of the coordinates of a ``population`` that are not protected.

        Protected ones weigh 0. ``Σ`` is shrunk to ``(1 − s) Σ + s v I`` by the ``shrinkage`` ``s``, ``v`` the mean
        variance, since the columns of a category add up to 1 and make it singular. Sampling weights are respected.
        """
        if not 0.0 < shrinkage <= 1.0:
            raise ParameterError(template("shrinkage", "a number above 0, at most 1", shrinkage))
        protected, fitted_on, names = fitting_basis(population)
        counts = ~protected
        scatter = covariance(population.x[:, counts], population.weights)
        variance = np.trace(scatter) / len(scatter)
        if variance == 0.0:
            raise MetricError(
                "A Mahalanobis metric cannot be fitted: no unprotected coordinate varies in the population."
            )
        shrunk = (1.0 - shrinkage) * scatter + shrinkage * variance * np.eye(len(scatter))
        precision = np.zeros((counts.size, counts.size))
        inverse = np.linalg.inv(shrunk)
        precision[np.ix_(counts, counts)] = (inverse + inverse.T) / 2.0
        return cls(precision, fitted_on, names)


def matrix(parameter: str, values: ArrayLike) -> FloatArray:
    """Return a finite float64 matrix with at least one column."""
    array = numbers(parameter, values, "a matrix of numbers, all rows equally long", MetricError)
    if array.ndim != 2 or array.shape[1] == 0:
        raise MetricError(template(parameter, "a matrix with at least one column", f"shape {array.shape}"))
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        value = float(array[row, column])
        raise MetricError(template(parameter, "a matrix of finite numbers", value) + f" Row {row}, column {column}.")
    return array


def semidefinite_root(precision: ArrayLike) -> FloatArray:
    """Return ``R`` with ``RᵀR ≈ M``, by one eigen-decomposition for each group of coordinates tied by ``M``.

    Groups that ``M`` keeps apart stay apart exactly, so a coordinate with a zero row has a zero column in
    ``R``. Within a group of size ``k``, eigenvalues up to ``k · eps · largest`` count as 0, and their
    directions as free; negative ones beyond that are an error.
    """
    given = matrix("precision", precision)
    if given.shape[0] != given.shape[1]:
        raise MetricError(template("precision", "a square matrix", f"shape {given.shape}"))
    largest = np.abs(given).max()
    if np.abs(given - given.T).max() > 1e-9 * largest:
        row, column = np.unravel_index(np.abs(given - given.T).argmax(), given.shape)
        raise MetricError(
            f"'precision' must be a symmetric matrix. It has {given[row, column]:g} in row {row}, column "
            f"{column}, but {given[column, row]:g} across the diagonal."
        )
    symmetric = given / 2.0 + given.T / 2.0
    groups, group = connected_components(csr_array(symmetric != 0.0), directed=False)
    rows = [_group_root(symmetric, np.flatnonzero(group == label)) for label in range(groups)]
    return np.concatenate(rows)


def _group_root(symmetric: FloatArray, members: np.ndarray[Any, np.dtype[np.intp]]) -> FloatArray:
    values, vectors = np.linalg.eigh(symmetric[np.ix_(members, members)])
    negligible = len(members) * np.finfo(np.float64).eps * np.abs(values).max()
    if values.min() < -negligible:
        raise MetricError(
            f"'precision' must be positive semi-definite. It has the eigenvalue {values.min():g} on the "
            f"coordinates {', '.join(map(str, members[:6]))}{', …' if len(members) > 6 else ''}."
        )
    positive = values > negligible
    root = np.zeros((int(positive.sum()), len(symmetric)))
    root[:, members] = (vectors[:, positive] * np.sqrt(values[positive])).T
    return root
