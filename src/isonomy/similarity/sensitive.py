"""The sensitive subspace (SenSR): directions that predict a protected attribute are free.

Yurochkin, Bower, Sun: "Training individually fair ML models with sensitive subspace robustness" (ICLR
2020). Regress each protected attribute on the other coordinates; moving along a coefficient vector changes
how, say, male a person looks, and should not matter. With ``A`` all these vectors and the protected
coordinates' own axes,

    M = I − P_ran(A) + ridge · I.

With ``ridge = 0``, the default, moves inside the subspace are free and only the domain bounds them: the
metric of SenSR itself. ``ridge = 1`` is kept for comparison with the code published with "Certification of
Distributional Individual Fairness"; it nearly removes the metric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.linear_model import LogisticRegression, Ridge

from isonomy.arithmetic import FloatArray
from isonomy.errors import ParameterError, template
from isonomy.similarity.mahalanobis import RootMetric, matrix
from isonomy.similarity.metric import BoolArray, checked_number, fitting_basis

if TYPE_CHECKING:
    from isonomy.population.population import Population

_DEPENDENT = 1e-9  # a direction this close to the span of the others adds nothing


@dataclass(frozen=True, init=False, eq=False, repr=False)
class SensitiveSubspace(RootMetric):
    """``d(x, y) = sqrt((x − y)ᵀ (I − P + ridge I) (x − y))``, ``P`` the projector on the sensitive subspace.

    ``directions`` spans it, one direction in each row. A row along a coordinate's own axis makes that
    coordinate free, exactly (its column of the root is 0 when ``ridge = 0``).
    """

    kind: ClassVar[str] = "sensitive-subspace"
    parts: ClassVar[tuple[str, ...]] = ("ridge", "root")
    defined_by: ClassVar[tuple[str, ...]] = ("directions", "root")
    ridge: float = 0.0

    def __init__(
        self, directions: ArrayLike, ridge: float = 0.0, fitted_on: str = "", names: tuple[str, ...] = ()
    ) -> None:
        ridge = checked_number("ridge", ridge)
        self._set_root(_subspace_root(matrix("directions", directions), ridge), fitted_on, names, ridge=ridge)

    @classmethod
    def fit(cls, population: Population, ridge: float = 0.0, regularisation: float = 1.0) -> Self:
        """Learn the sensitive directions from a ``population`` (its sampling weights are respected).

        A protected category is predicted by (multinomial) logistic regression, a protected number or level
        by ridge regression where it is not missing, a missing-value flag by logistic regression.
        ``regularisation`` is the factor of ``½‖coefficients‖²`` in the logistic loss and of
        ``‖coefficients‖²`` in the squared loss.
        """
        if checked_number("regularisation", regularisation) == 0.0:
            raise ParameterError(template("regularisation", "above 0", regularisation))
        protected, fitted_on, names = fitting_basis(population)
        axes = np.eye(protected.size)[protected]
        learned = _learned_directions(population, protected, regularisation)
        return cls(np.concatenate([axes, learned]), ridge, fitted_on, names)

    def describe(self) -> str:
        """Return one sentence for people."""
        free = self.width - self.root.shape[0] if self.ridge == 0.0 else 0
        return (
            f"sensitive subspace (SenSR) on {self.width} coordinates, ridge {self.ridge:g}: "
            f"{free} directions and {self.free.sum()} coordinates are free"
        )

    @classmethod
    def from_root(cls, root: ArrayLike, fitted_on: str = "", names: tuple[str, ...] = (), ridge: float = 0.0) -> Self:
        """Return the metric of a ``root``, with ``fitted_on``, ``names`` and the ``ridge`` that it was made with."""
        metric = super().from_root(root, fitted_on, names)
        object.__setattr__(metric, "ridge", checked_number("ridge", ridge))
        return metric


def _subspace_root(directions: FloatArray, ridge: float) -> FloatArray:
    """Return orthonormal rows: ``√(1 + ridge)`` times those across the subspace, ``√ridge`` times those along it."""
    width = directions.shape[1]
    axis = np.count_nonzero(directions, axis=1) == 1
    own = (directions[axis] != 0.0).any(axis=0)  # coordinates whose own axis is sensitive
    rest = directions[~axis][:, ~own]
    rest = rest[rest.any(axis=1)]
    # By powers of two, which change no digit, so that squares neither overflow nor vanish.
    rest = np.ldexp(rest, -np.frexp(np.abs(rest).max(axis=1, initial=0.0))[1][:, None])
    rest = rest / np.linalg.norm(rest, axis=1, keepdims=True)
    basis = np.eye(width - own.sum())
    rank = 0
    if len(rest):
        basis, values, _ = np.linalg.svd(rest.T, full_matrices=True)
        rank = int((values > _DEPENDENT * values[0]).sum())
    across, along = np.zeros((basis.shape[0] - rank, width)), np.zeros((rank, width))
    across[:, ~own], along[:, ~own] = basis[:, rank:].T, basis[:, :rank].T
    if ridge == 0.0:
        return across
    sensitive = np.concatenate([along, np.eye(width)[own]])
    return np.concatenate([math.sqrt(1.0 + ridge) * across, math.sqrt(ridge) * sensitive])


def _learned_directions(population: Population, protected: BoolArray, regularisation: float) -> FloatArray:
    """Return coefficient vectors of every protected attribute on the coordinates that are not protected, as rows."""
    x, weights, schema = population.x, population.weights, population.schema
    seen = x[:, ~protected]
    coefficients = [np.zeros((0, seen.shape[1]))]
    for feature in schema.features:
        if not feature.protected:
            continue
        own = x[:, schema.slices[feature.name]]
        if feature.kind == "categorical":
            coefficients.append(_logistic(seen, own.argmax(axis=1), weights, regularisation))
            continue
        known = np.ones(len(x), dtype=bool)
        if own.shape[1] == 2:  # a value and its missing-value flag
            coefficients.append(_logistic(seen, own[:, 1] > 0.5, weights, regularisation))
            known = own[:, 1] <= 0.5
        if len(np.unique(own[known, 0])) > 1:
            model = Ridge(alpha=regularisation).fit(seen[known], own[known, 0], sample_weight=weights[known])
            coefficients.append(np.atleast_2d(model.coef_))
    learned = np.concatenate(coefficients)
    directions = np.zeros((len(learned), protected.size))
    directions[:, ~protected] = learned
    return directions


def _logistic(x: FloatArray, target: Any, weights: FloatArray, regularisation: float) -> FloatArray:
    """Return coefficient vectors of a (multinomial) logistic regression; none when only one class occurs."""
    classes = len(np.unique(target))
    if classes < 2:
        return np.zeros((0, x.shape[1]))
    # Newton's method is exact and quick as long as its Hessian is small.
    solver = "newton-cholesky" if classes * x.shape[1] <= 2000 else "lbfgs"
    model = LogisticRegression(C=1.0 / regularisation, solver=solver, tol=1e-8, max_iter=5000)
    return np.asarray(model.fit(x, target, sample_weight=weights).coef_, dtype=np.float64)
