"""Selection (n,) and favourable outcome (n,), true or false for each individual, from any form of predictions.

An individual is selected whose decision, by the rule of :mod:`isonomy.population.outcome`, is a favourable one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from isonomy.errors import DataError, NetworkError, ParameterError, template
from isonomy.model import Model
from isonomy.population import Population
from isonomy.population.feature import Label
from isonomy.population.outcome import decided, favourable_places, outcome_of
from isonomy.problem import resolve_outcome

BoolArray = NDArray[np.bool_]

SCORES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auc": "AUC", "log_loss": "log-loss",
    "mean_absolute_error": "mean absolute error", "r2": "R²",
}  # fmt: skip
"""The :func:`scores` that are shown, in words."""


def decide(
    given: Model | npt.ArrayLike, people: Population, threshold: float | None, favourable: str | Sequence[str] | None
) -> tuple[BoolArray, BoolArray | None, Label]:
    """Return selection (n,), favourable outcome (n,) or None without labels, and the label that is decided."""
    label, right = people.schema.label, f"a Network, or predictions of {len(people)} individuals"
    if isinstance(given, Model):
        predictions, regression = _predict(given, people), given.head == "regression"
        if label is not None and label.regression != regression:
            kind, other = ("numbers", "classes") if regression else ("classes", "numbers")
            raise NetworkError(f"'{given.name}' predicts {kind}, but the label {label.column!r} holds {other}.")
    else:
        if isinstance(given, str) or not hasattr(given, "__len__") or callable(given):
            raise ParameterError(template("model", right, given))
        predictions = np.asarray(given)
        if predictions.dtype.kind == "c":
            raise ParameterError(template("model", "real numbers", str(predictions.dtype)))
        regression = label is not None and label.regression
    if len(predictions.shape) not in (1, 2) or len(predictions) != len(people):
        raise ParameterError(template("model", right, f"shape {predictions.shape}"))
    if predictions.dtype.kind == "f" and not np.isfinite(predictions).all():
        row = int(np.flatnonzero(~np.isfinite(predictions.reshape(len(people), -1)).all(axis=1))[0])
        raise DataError(f"Row {row}: the prediction is not finite.")
    if isinstance(given, Model):
        outcome = resolve_outcome(given, people.schema, favourable, threshold)
    else:
        outcome = outcome_of(label, _class_count(predictions, label, regression), favourable, threshold)
    if not outcome.favourable:
        known = ", ".join(map(repr, outcome.classes or ("high", "low")))
        raise ParameterError(
            f"'favourable' must be given: which of {known} people hope for. Or name it once, in the schema: "
            'favourable = "CLASS" in [label].'
        )
    good = favourable_places(outcome)
    if predictions.dtype.kind == "b" and not regression:
        selected = _selected_by_flag(predictions, outcome, threshold)
    else:
        selected = np.isin(_decisions(predictions, outcome, threshold), good)
    if people.y is None:
        return selected, None, outcome
    actual = decided(_as_column(people.y), outcome, regression=True) if regression else people.y
    return selected, np.isin(actual, good), outcome


def scores(model: Model, people: Population, outcome: Label | None = None) -> dict[str, float]:
    """Return weighted scores of predictions against outcomes: of ``outcome``, by default the schema's label.

    - ``accuracy``: the share of people whose decision (:func:`isonomy.population.outcome.decided`) is their outcome; of
      several classes, whose most probable class it is. In a regression with a threshold, whose number and outcome are
      on the same side of it.
    - ``balanced_accuracy``: the mean of the accuracies of the classes that occur. ``classes``: how many are decided.
    - ``auc``, of two classes that both occur: the chance that of two people with different outcomes the more
      probable one is right; ties count half. ``log_loss``: the mean of −log of the probability of the outcome, clipped
      at 1e-15; independent sigmoids have none.
    - ``mean_absolute_error`` and ``r2`` (outcomes that differ) of a regression.

    Empty where outcomes are not known, or are not what the model gives.
    """
    label, weights, y = outcome or people.schema.label, people.weights, people.y
    regression = model.head == "regression"
    if y is None or label is None or label.regression != regression or not weights.sum() > 0:
        return {}
    given = _predict(model, people)
    if given.shape[1] != (len(label.classes) or 1):
        return {}
    weights = weights / weights.max()  # sums of the largest ones must be finite
    decision = decided(given, label, regression=regression)
    actual = decided(_as_column(y), label, regression=True) if regression else y
    right = decision == actual
    if regression:
        scored = {} if label.threshold is None else {"accuracy": float(np.average(right, weights=weights))}
        error, spread = given[:, 0] - y, y - np.average(y, weights=weights)
        scored["mean_absolute_error"] = float(np.average(np.abs(error), weights=weights))
        total = float(np.average(spread**2, weights=weights))
        return scored | ({"r2": 1 - float(np.average(error**2, weights=weights)) / total} if total > 0 else {})
    accuracy, balanced = accuracies(right, y, weights)
    scored = {"accuracy": accuracy, "balanced_accuracy": balanced, "classes": len(np.unique(decision))}
    if given.shape[1] == 2 and len(np.unique(y[weights > 0])) == 2:
        scored["auc"] = auc(given[:, 1], y == 1, weights)
    if model.exclusive:
        own = np.clip(given[np.arange(len(y)), y.astype(np.int64)], 1e-15, 1 - 1e-15)
        scored["log_loss"] = float(np.average(-np.log(own), weights=weights))
    return scored


def accuracies(right: BoolArray, y: npt.NDArray[Any], weights: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return accuracy and balanced accuracy, weighted; the latter over the classes of people who count."""
    classes = [y == c for c in np.unique(y[weights > 0])]
    balanced = np.mean([np.average(right[own], weights=weights[own]) for own in classes])
    return float(np.average(right, weights=weights)), float(balanced)


def auc(score: npt.NDArray[np.float64], positive: BoolArray, weights: npt.NDArray[np.float64]) -> float:
    """Return the share of pairs of a positive and a negative that ``score`` orders rightly; ties count half."""
    _, place = np.unique(score, return_inverse=True)
    above, below = (np.bincount(place, weights * own, place.max() + 1) for own in (positive, ~positive))
    return float(above @ (np.cumsum(below) - below / 2) / (above.sum() * below.sum()))


def _predict(model: Model, people: Population) -> npt.NDArray[np.float64]:
    """Return the model's outputs (n, k); features that it does not see are dropped in front of it."""
    whole = model.on(people.schema)
    if whole.input_width != people.schema.width:
        raise whole.of_other_width(people.schema)
    return whole(people.x)


def _as_column(given: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return numbers of a regression (n,) as a column (n, 1)."""
    return np.asarray(given, dtype=np.float64).reshape(-1, 1)


def _class_count(predictions: npt.NDArray[Any], label: Label | None, regression: bool) -> int:
    """Return the number of classes that predictions are about: 0 for a regression."""
    names = () if label is None else label.classes
    if regression or predictions.ndim == 1:
        return 0 if regression else len(names) or 2
    count = int(predictions.shape[1])
    if predictions.dtype.kind != "f" or count < 2 or (names and count != len(names)):
        right = f"probabilities of {len(names) or 'two or more'} classes for each individual"
        raise ParameterError(template("predictions", right, f"{predictions.dtype} of shape {predictions.shape}"))
    return count


def _selected_by_flag(predictions: npt.NDArray[Any], outcome: Label, threshold: float | None) -> BoolArray:
    """Return selection (n,) from predictions that are true and false; refuse them where a class is named so."""
    if threshold is not None:
        raise ParameterError("'threshold' is of no use here: 'predictions' are decided already.")
    if "false" in map(str.casefold, outcome.favourable):
        raise _ambiguous("true and false", "the class of that name, or a favourable one and another", outcome)
    return predictions.astype(bool)


def _decisions(predictions: npt.NDArray[Any], outcome: Label, threshold: float | None) -> npt.NDArray[np.int64]:
    """Return decisions (n,) as places among the outcome's classes, or low (0) and high (1)."""
    kind, names = predictions.dtype.kind, outcome.classes
    if outcome.regression:
        if outcome.threshold is None:
            raise ParameterError("'threshold' must be given for a regression: selected is who is on one side of it.")
        if kind not in "iuf" or (predictions.ndim == 2 and predictions.shape[1] != 1):
            right = "one number for each individual of a regression"
            raise ParameterError(template("predictions", right, f"{predictions.dtype} of shape {predictions.shape}"))
        return decided(_as_column(predictions), outcome, regression=True)
    if predictions.ndim == 2:
        return decided(predictions, outcome)
    if kind == "f":
        if outcome.threshold is None or len(names) > 2:
            raise ParameterError(
                "'predictions' that are one fraction each are read as probabilities of the second of two classes, and "
                "need a 'threshold'."
            )
        return decided(np.stack([1 - predictions, predictions], axis=1), outcome)
    if threshold is not None:
        raise ParameterError("'threshold' is of no use here: 'predictions' are decided already.")
    known = {name: place for place, name in enumerate(names)}
    values, inverse = np.unique(predictions.astype(str), return_inverse=True)
    places = np.array([known.get(value, -1) for value in values.tolist()], dtype=np.int64)[inverse]
    right = f"classes: {', '.join(map(repr, names))}"
    if kind in "iu":
        numbers, named = predictions.astype(np.int64), bool((places >= 0).all())
        in_range = bool(((numbers >= 0) & (numbers < len(names))).all())
        if named and in_range and (places != numbers).any():
            raise _ambiguous("numbers", "names of classes, or their places", outcome)
        places = places if named else numbers
        right = f"places of classes, 0 to {len(names) - 1}, or classes: {', '.join(map(repr, names))}"
    outside = (places < 0) | (places >= len(names))
    if outside.any():
        raise ParameterError(template("predictions", right, predictions[outside][0].item()))
    return places


def _ambiguous(what: str, ways: str, outcome: Label) -> ParameterError:
    known = ", ".join(map(repr, outcome.classes))
    return ParameterError(
        f"'predictions' that are {what} can be read in two ways here, {ways}: give the names as texts, of {known} "
        "(predictions.astype(str))."
    )
