"""Read a fitted scikit-learn estimator, alone or behind its preprocessing, as a network on fair coordinates.

The pipeline itself says how raw rows become features, so the adapter is taken from it and the certificate is about raw
rows: coordinates -> raw cells -> features, all affine (:mod:`isonomy.networks.sklearn_rules`), then the estimator.

**Soundness.** An estimator is read by its exact type. Its outputs are put into the order of the schema's classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from sklearn import discriminant_analysis, linear_model, neural_network, pipeline, svm
from sklearn.base import BaseEstimator

from isonomy.errors import NetworkError, ParameterError, UnsupportedOperationError, template
from isonomy.networks.builder import Builder, Value
from isonomy.networks.columns import cell_of, settled
from isonomy.networks.exact_affine import affine_of
from isonomy.networks.graph import Affine, Head, Read
from isonomy.networks.inputs import Reads, in_class_order, model_columns
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
        rule = _rule(last)
        if schema is None:
            if steps:
                raise NetworkError("a pipeline reads raw rows: give the schema that describes them.")
            builder = Builder((int(last.n_features_in_),))
            value = builder.input
        else:
            first = steps[0] if steps else last
            names = getattr(first, "feature_names_in_", None)
            width = int(getattr(first, "n_features_in_", 0)) or None
            columns = model_columns(
                schema, names=None if names is None else list(map(str, names)), width=width, reads=reads
            )
            for step in steps:
                columns = transformed(step, columns)
            builder = Builder((schema.width,))
            builder.at = "adapter"
            value = builder.affine(builder.input, affine_of(settled(columns), schema.width), (len(columns),))
        if value.width != last.n_features_in_:
            raise NetworkError(f"it reads {last.n_features_in_} features, but {value.width} arrive.")
        builder.at = type(last).__name__
        output, own = rule(builder, value, last, head)
        if head not in ("auto", own):
            raise NetworkError(f"{type(last).__name__} has the head '{own}', so head='{head}' cannot be.")
        independent = own == "sigmoid" and output.width > 1  # answers of their own, not classes
        return in_class_order(builder.finish(output, own), schema, () if independent else _classes(last))


def _taken_apart(estimator: Any) -> tuple[list[Any], Any]:
    """The preprocessing steps, and the estimator at the end."""
    if type(estimator) is pipeline.Pipeline:
        *before, (_, last) = estimator.steps
        inner, core = _taken_apart(last)
        return [step for _, step in before] + inner, core
    best = getattr(estimator, "best_estimator_", None)  # a search over parameters predicts with its best
    return ([], estimator) if best is None else _taken_apart(best)


_Result = tuple[Value, Head]  # the raw outputs, and what they mean


def _rule(estimator: Any) -> Callable[[Builder, Value, Any, Any], _Result]:
    rule = _ESTIMATORS.get(type(estimator))
    if rule is None:
        known = ", ".join(sorted(kind.__name__ for kind in _ESTIMATORS))
        raise UnsupportedOperationError(
            f"the estimator {type(estimator).__name__} cannot be read: supported are neural networks and linear "
            f"models, by name {known}."
        )
    if not any(hasattr(estimator, attribute) for attribute in ("coef_", "coefs_")):
        raise NetworkError(f"{type(estimator).__name__} is not fitted.")
    return rule


def _perceptron(builder: Builder, x: Value, estimator: Any, head: Any) -> _Result:
    kind = {"logistic": "sigmoid", "identity": None}.get(estimator.activation, estimator.activation)
    for layer, (weight, bias) in enumerate(zip(estimator.coefs_, estimator.intercepts_, strict=True)):
        x = _affine(builder, builder.activation(x, kind) if layer and kind else x, weight.T, bias)
    heads: dict[str, Head] = {"softmax": "softmax", "logistic": "sigmoid", "identity": "regression"}
    if estimator.out_activation_ not in heads:
        raise UnsupportedOperationError(f"an output activation '{estimator.out_activation_}' is not supported.")
    return x, heads[estimator.out_activation_]


def _probabilities(builder: Builder, x: Value, estimator: Any, head: Any) -> _Result:
    """A linear model whose probabilities are the sigmoid or the softmax of its decision."""
    weight, bias = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)
    if hasattr(estimator, "loss") and estimator.loss != "log_loss":
        return _decision(builder, x, estimator, head)
    ovr = getattr(estimator, "multi_class", "") == "ovr" or getattr(estimator, "solver", "") == "liblinear"
    if len(weight) > 1 and (ovr or isinstance(estimator, linear_model.SGDClassifier)):
        raise UnsupportedOperationError("several classes, one against the rest, divided by their sum: not a softmax.")
    if len(weight) == 1 and getattr(estimator, "multi_class", "") == "multinomial":
        weight, bias = 2 * weight, 2 * bias  # older versions: the softmax of minus and plus the decision
    return _affine(builder, x, weight, bias), "sigmoid" if len(weight) == 1 else "softmax"


def _decision(builder: Builder, x: Value, estimator: Any, head: Any) -> _Result:
    """A linear classifier without probabilities: only the number that it decides by."""
    if head != "regression":
        raise UnsupportedOperationError(
            f"{type(estimator).__name__} gives no probabilities: say head='regression' to certify its decision value."
        )
    return _number(builder, x, estimator, head)


def _number(builder: Builder, x: Value, estimator: Any, head: Any) -> _Result:
    return _affine(builder, x, np.atleast_2d(estimator.coef_), estimator.intercept_), "regression"


def _affine(builder: Builder, x: Value, weight: Any, bias: Any) -> Value:
    """A layer; one bias may serve all rows."""
    offset = np.broadcast_to(np.asarray(bias, dtype=np.float64).reshape(-1), (len(weight),))
    return builder.affine(x, Affine.of(weight, offset), (len(weight),))


def _classes(estimator: Any) -> tuple[str, ...]:
    found = getattr(estimator, "classes_", ())
    return tuple(str(cell_of(each)) for each in found) if np.ndim(found) == 1 else ()


_ESTIMATORS: dict[type, Callable[[Builder, Value, Any, Any], _Result]] = {
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
