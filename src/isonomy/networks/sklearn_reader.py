"""Read a fitted scikit-learn estimator, alone or behind its preprocessing, as a network on fair coordinates.

The pipeline itself says how raw rows become features, so the adapter is taken from it and the certificate is about raw
rows: coordinates -> raw cells -> features, all affine (:mod:`isonomy.networks.sklearn_rules`), then the estimator.

**Soundness.** An estimator is read by its exact type. Its outputs are put into the order of the schema's classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn import discriminant_analysis, linear_model, neural_network, pipeline, svm
from sklearn.base import BaseEstimator

from isonomy.errors import NetworkError, ParameterError, UnsupportedOperationError, template
from isonomy.networks.columns import Column, cell_of, settled
from isonomy.networks.exact_affine import affine_of
from isonomy.networks.graph import Activation, Affine, Graph, Head, Input, Node, Operation, Read
from isonomy.networks.inputs import Reads, class_order, model_columns
from isonomy.networks.reading import reading
from isonomy.networks.sklearn_rules import transformed
from isonomy.population.schema import Schema


def read_sklearn(
    estimator: Any, schema: Schema | None, *, head: Head | Literal["auto"] = "auto", reads: Reads = "auto"
) -> Read:
    """The graph of a fitted estimator or pipeline up to its raw outputs, and its head."""
    if not isinstance(estimator, BaseEstimator):
        raise ParameterError(template("estimator", "a fitted scikit-learn estimator or pipeline", type(estimator)))
    with reading(type(estimator).__name__, absent="is not fitted, or not as expected"):
        steps, last = _taken_apart(estimator)
        core = _core(last, head)
        if schema is None:
            if steps:
                raise NetworkError("a pipeline reads raw rows: give the schema that describes them.")
            nodes = _nodes(int(last.n_features_in_), None, core.operations)
        else:
            first = steps[0] if steps else last
            names = getattr(first, "feature_names_in_", None)
            width = int(getattr(first, "n_features_in_", 0)) or None
            columns: list[Column] = list(
                model_columns(schema, names=None if names is None else list(map(str, names)), width=width, reads=reads)
            )
            for step in steps:
                columns = transformed(step, columns)
            adapter = affine_of(settled(columns), schema.width)
            if adapter.width_out != last.n_features_in_:
                raise NetworkError(f"it reads {last.n_features_in_} features, but {adapter.width_out} arrive.")
            nodes = _nodes(schema.width, adapter, [*core.operations, *class_order(schema, core.classes, core.head)])
        return Read(Graph(nodes), core.head)


@dataclass(frozen=True)
class _Core:
    """An estimator behind its preprocessing: operations up to the raw outputs, and what they mean."""

    operations: Sequence[Operation]
    head: Head
    classes: tuple[str, ...] = ()


def _taken_apart(estimator: Any) -> tuple[list[Any], Any]:
    """The preprocessing steps, and the estimator at the end."""
    if type(estimator) is pipeline.Pipeline:
        *before, (_, last) = estimator.steps
        inner, core = _taken_apart(last)
        return [step for _, step in before] + inner, core
    best = getattr(estimator, "best_estimator_", None)  # a search over parameters predicts with its best
    return ([], estimator) if best is None else _taken_apart(best)


def _core(estimator: Any, head: Head | Literal["auto"]) -> _Core:
    rule = _ESTIMATORS.get(type(estimator))
    if rule is None:
        known = ", ".join(sorted(kind.__name__ for kind in _ESTIMATORS))
        raise UnsupportedOperationError(
            f"the estimator {type(estimator).__name__} cannot be read: supported are neural networks and linear "
            f"models, by name {known}."
        )
    if not any(hasattr(estimator, attribute) for attribute in ("coef_", "coefs_")):
        raise NetworkError(f"{type(estimator).__name__} is not fitted.")
    core = rule(estimator, head)
    if head not in ("auto", core.head):
        raise NetworkError(f"{type(estimator).__name__} has the head '{core.head}', so head='{head}' cannot be.")
    return core


def _perceptron(estimator: Any, head: Any) -> _Core:
    operations: list[Operation] = []
    kind = {"logistic": "sigmoid", "identity": None}.get(estimator.activation, estimator.activation)
    for weight, bias in zip(estimator.coefs_, estimator.intercepts_, strict=True):
        if operations and kind:
            operations.append(Activation(kind))
        operations.append(Affine.of(weight.T, bias))
    last = estimator.out_activation_
    heads: dict[str, Head] = {"softmax": "softmax", "logistic": "sigmoid", "identity": "regression"}
    if last not in heads:
        raise UnsupportedOperationError(f"an output activation '{last}' is not supported.")
    several = last == "logistic" and estimator.n_outputs_ > 1  # independent answers, not classes
    return _Core(operations, heads[last], () if several else _classes(estimator))


def _probabilities(estimator: Any, head: Any) -> _Core:
    """A linear model whose probabilities are the sigmoid or the softmax of its decision."""
    weight, bias = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)
    if hasattr(estimator, "loss") and estimator.loss != "log_loss":
        return _decision(estimator, head)
    ovr = getattr(estimator, "multi_class", "") == "ovr" or getattr(estimator, "solver", "") == "liblinear"
    if len(weight) > 1 and (ovr or isinstance(estimator, linear_model.SGDClassifier)):
        raise UnsupportedOperationError("several classes, one against the rest, divided by their sum: not a softmax.")
    if np.size(bias) != len(weight):
        bias = np.full(len(weight), float(bias[0]))
    if len(weight) == 1 and getattr(estimator, "multi_class", "") == "multinomial":
        weight, bias = 2 * weight, 2 * bias  # older versions: the softmax of minus and plus the decision
    return _Core([Affine.of(weight, bias)], "sigmoid" if len(weight) == 1 else "softmax", _classes(estimator))


def _decision(estimator: Any, head: Any) -> _Core:
    """A linear classifier without probabilities: only the number that it decides by."""
    if head != "regression":
        raise UnsupportedOperationError(
            f"{type(estimator).__name__} gives no probabilities: say head='regression' to certify its decision value."
        )
    return _number(estimator, head)


def _number(estimator: Any, head: Any) -> _Core:
    weight = np.atleast_2d(estimator.coef_)
    bias = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64).reshape(-1), (len(weight),))
    return _Core([Affine.of(weight, bias)], "regression")


def _classes(estimator: Any) -> tuple[str, ...]:
    found = getattr(estimator, "classes_", ())
    return tuple(str(cell_of(each)) for each in found) if np.ndim(found) == 1 else ()


def _nodes(width: int, adapter: Affine | None, operations: Sequence[Operation]) -> tuple[Node, ...]:
    nodes = [Node(Input(width), (), "input")]
    for op in ([adapter] if adapter is not None else []) + list(operations):
        label = "adapter" if op is adapter else f"{type(op).__name__.lower()}{len(nodes)}"
        nodes.append(Node(op, (len(nodes) - 1,), label))
    return tuple(nodes)


_ESTIMATORS: dict[type, Callable[[Any, Any], _Core]] = {
    **dict.fromkeys((neural_network.MLPClassifier, neural_network.MLPRegressor), _perceptron),
    **dict.fromkeys((linear_model.LogisticRegression, linear_model.LogisticRegressionCV), _probabilities),
    **dict.fromkeys((linear_model.SGDClassifier, discriminant_analysis.LinearDiscriminantAnalysis), _probabilities),
    **dict.fromkeys((svm.LinearSVC, linear_model.RidgeClassifier, linear_model.RidgeClassifierCV), _decision),
    **dict.fromkeys((linear_model.Perceptron,), _decision),
    **dict.fromkeys((linear_model.LinearRegression, linear_model.Ridge, linear_model.RidgeCV), _number),
    **dict.fromkeys((linear_model.Lasso, linear_model.LassoCV, linear_model.LassoLars, linear_model.Lars), _number),
    **dict.fromkeys((linear_model.ElasticNet, linear_model.ElasticNetCV, linear_model.BayesianRidge), _number),
    **dict.fromkeys((linear_model.HuberRegressor, linear_model.SGDRegressor, svm.LinearSVR), _number),
    **dict.fromkeys((linear_model.QuantileRegressor, linear_model.TheilSenRegressor), _number),
}
