"""Linear models that read nothing but bins and categories, as scorecards do: a small tree for each column.

A step has no place in a network, whose bounds need slopes. A sum of steps, each of one column, is a sum of leaves, and
so an ensemble of trees, whose bounds are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from isonomy.errors import NetworkError
from isonomy.trees.assembly import Tree, assemble
from isonomy.trees.described import kind_of
from isonomy.trees.forest import Column, Forest, Link, cell_key
from isonomy.trees.source import Source

_LOGISTIC = ("LogisticRegression", "LogisticRegressionCV")
_NUMBERS = ("LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "ElasticNet", "ElasticNetCV")
LARGEST = 2**16
"""Results of one column."""


def is_linear(model: Any) -> bool:
    """Return whether a model is linear, of two classes or of one number."""
    kind, coefficients = kind_of(model), np.shape(getattr(model, "coef_", ()))
    name = kind.rpartition(".")[2] if kind.startswith("sklearn.linear_model.") else ""
    one = len(coefficients) == 1 or (len(coefficients) == 2 and coefficients[0] == 1)
    plain = getattr(model, "multi_class", "") != "multinomial"
    return one and plain and (name in _NUMBERS or (name in _LOGISTIC and len(model.classes_) == 2))


def is_stepwise(sources: Sequence[Source]) -> bool:
    """Return whether all columns have finitely many results, some of them steps of numbers."""
    steps = any(each.place is not None or each.levels for each in sources)
    return steps and all(0 < len(each.results) <= LARGEST for each in sources)


def read_stepwise(model: Any, sources: Sequence[Source], version: str) -> Forest:
    """Return a fitted linear model over columns of finitely many results as trees, one for each column."""
    weights = np.asarray(model.coef_, dtype=np.float64).reshape(-1)
    if len(weights) != len(sources):
        raise NetworkError(f"it reads {len(weights)} columns, but {len(sources)} arrive.")
    logistic = kind_of(model).rpartition(".")[2] in _LOGISTIC
    link: Link = "logistic" if logistic else "identity"
    classes = tuple("" if (key := cell_key(each)) is None else key for each in getattr(model, "classes_", ()))
    return assemble(
        [
            _tree(j, float(weight), source.results)
            for j, (weight, source) in enumerate(zip(weights, sources, strict=True))
        ],
        [Column(f"f{j}", missing=False) for j in range(len(sources))],
        base=np.asarray(model.intercept_, dtype=np.float64).reshape(-1)[:1] + np.zeros(1),
        link=link,
        classes=classes,
        library=f"scikit-learn {kind_of(model).rpartition('.')[2]} of bins",
        version=version,
    )


def _tree(column: int, weight: float, results: Sequence[float]) -> Tree:
    """Return a chain of tests between neighbouring results, each with its weight at a leaf.

    **Soundness.** A product is rounded as the library rounds its own.
    """
    count, ends = len(results), [low / 2 + high / 2 for low, high in pairwise(results)]
    size = 2 * count - 1
    left, right, threshold, value = -np.ones(size, int), -np.ones(size, int), np.zeros(size), np.zeros(size)
    for i, end in enumerate(ends):  # inner nodes are even, their leaves follow them
        left[2 * i], right[2 * i], threshold[2 * i] = 2 * i + 1, 2 * i + 2, end
        value[2 * i + 1] = weight * results[i]
    value[size - 1] = weight * results[-1]
    return Tree(np.where(left >= 0, column, -1), threshold, left, right, value, np.zeros(size, bool), output=0)
