"""Who is selected, and who should have been: one yes or no each, from whatever a model gives.

Selected means: the predicted class is a favourable one, or the predicted number reaches the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from isonomy.errors import DataError, NetworkError, ParameterError, template
from isonomy.given import FINITE, instance, number
from isonomy.networks.network import Network
from isonomy.population import Population
from isonomy.population.feature import Label
from isonomy.population.outcome import decided

BoolArray = NDArray[np.bool_]


def decide(
    given: Network | npt.ArrayLike, people: Population, threshold: float | None, favourable: str | Sequence[str] | None
) -> tuple[BoolArray, BoolArray | None]:
    """Who is selected, and whose outcome is favourable; the latter is None without labels."""
    label, right = people.schema.label, f"a Network, or predictions of {len(people)} individuals"
    if isinstance(given, Network):
        predictions, regression = _run(given, people), given.head == "regression"
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
    _check_threshold(threshold, regression)
    if predictions.dtype.kind == "f" and not np.isfinite(predictions).all():
        row = int(np.flatnonzero(~np.isfinite(predictions.reshape(len(people), -1)).all(axis=1))[0])
        raise DataError(f"Row {row}: the prediction is not finite.")
    if regression and threshold is not None:
        return _numbers(predictions, people, threshold, favourable)
    names = label.classes if label is not None else ()
    classes = _classes(predictions, names, threshold, favourable)
    count = predictions.shape[1] if predictions.ndim == 2 else len(names) or 2
    good = _favourable(favourable, names, count)
    return np.isin(classes, good), None if people.y is None else np.isin(people.y, good)


def scores(network: Network, people: Population, outcome: Label | None = None) -> dict[str, float]:
    """Return how well predictions agree with outcomes, weighted: of ``outcome``, by default the schema's label.

    - ``accuracy``: the share of people whose decision (:func:`isonomy.population.outcome.decided`) is their outcome; of
      several classes, whose most probable class it is. In a regression with a threshold, whose number and outcome are
      on the same side of it.
    - ``balanced_accuracy``: the mean of the accuracies of the classes that occur. ``classes``: how many are given.
    - ``auc``, of two classes that both occur: the chance that of two people with different outcomes the more
      probable one is right; ties count half. ``log_loss``: the mean of −log of the probability of the outcome, clipped
      at 1e-15; independent sigmoids have none.
    - ``mean_absolute_error`` and ``r2`` (outcomes that differ) of a regression.

    Empty where outcomes are not known, or are not what the network gives.
    """
    label, weights, y = outcome or people.schema.label, people.weights, people.y
    regression = network.head == "regression"
    if y is None or label is None or label.regression != regression or not weights.sum() > 0:
        return {}
    given = _run(network, people)
    if given.shape[1] != (len(label.classes) or 1):
        return {}
    weights = weights / weights.max()  # sums of the largest ones must be finite
    decision = decided(given, label, regression=regression)
    actual = decided(np.asarray(y, dtype=np.float64)[:, None], label, regression=True) if regression else y
    right = decision == actual
    found = {} if regression and label.threshold is None else {"accuracy": float(np.average(right, weights=weights))}
    if regression:
        error, spread = given[:, 0] - y, y - np.average(y, weights=weights)
        found["mean_absolute_error"] = float(np.average(np.abs(error), weights=weights))
        total = float(np.average(spread**2, weights=weights))
        return found | ({"r2": 1 - float(np.average(error**2, weights=weights)) / total} if total > 0 else {})
    classes = [y == c for c in np.unique(y[weights > 0])]
    found["balanced_accuracy"] = float(np.mean([np.average(right[own], weights=weights[own]) for own in classes]))
    found["classes"] = len(np.unique(decision))
    if given.shape[1] == 2 and len(classes) == 2:
        found["auc"] = _auc(given[:, 1], y == 1, weights)
    if network.head == "softmax" or network.classes == 1:
        own = np.clip(given[np.arange(len(y)), y.astype(np.int64)], 1e-15, 1 - 1e-15)
        found["log_loss"] = float(np.average(-np.log(own), weights=weights))
    return found


def _auc(score: npt.NDArray[np.float64], positive: BoolArray, weights: npt.NDArray[np.float64]) -> float:
    """Return the share of pairs of a positive and a negative that ``score`` orders rightly; ties count half."""
    _, place = np.unique(score, return_inverse=True)
    above, below = (np.bincount(place, weights * own, place.max() + 1) for own in (positive, ~positive))
    return float(above @ (np.cumsum(below) - below / 2) / (above.sum() * below.sum()))


def _run(network: Network, people: Population) -> npt.NDArray[np.float64]:
    """The network's outputs; features that the model does not see are dropped in front of it."""
    seen = people.schema.seen_coordinates
    if network.input_width == people.schema.width:
        return network(people.x)
    if network.input_width == int(seen.sum()):
        return network(people.x[:, seen])
    raise NetworkError(
        f"'{network.name}' reads {network.input_width} numbers, but the schema '{people.schema.name}' has "
        f"{people.schema.width} coordinates of which the model sees {int(seen.sum())}."
    )


def _check_threshold(threshold: float | None, regression: bool) -> None:
    if threshold is None and regression:
        raise ParameterError("'threshold' must be given for a regression: selected is who reaches it.")
    if threshold is not None:
        number("threshold", threshold, "a finite number", -FINITE, FINITE)
        if not regression:
            number("threshold", threshold, "a probability strictly between 0 and 1", 0.0, 1.0, strict=True)


def _numbers(
    predictions: npt.NDArray[Any], people: Population, threshold: float, favourable: str | Sequence[str] | None
) -> tuple[BoolArray, BoolArray | None]:
    if favourable is not None:
        raise ParameterError("'favourable' names classes, and a regression has none: use 'threshold'.")
    if predictions.dtype.kind not in "iuf" or (predictions.ndim == 2 and predictions.shape[1] != 1):
        right = "one number for each individual of a regression"
        raise ParameterError(template("predictions", right, f"{predictions.dtype} of shape {predictions.shape}"))
    selected: BoolArray = predictions.reshape(-1) >= threshold
    return selected, None if people.y is None else people.y >= threshold


def _classes(
    predictions: npt.NDArray[Any], names: tuple[str, ...], threshold: float | None, favourable: Any
) -> npt.NDArray[np.int64]:
    """The predicted class of everybody, as its place among the schema's classes."""
    kind, last = predictions.dtype.kind, max(len(names), 2) - 1
    if predictions.ndim == 2:
        count = predictions.shape[1]
        if kind != "f" or count < 2 or (names and count != len(names)):
            right = f"probabilities of {len(names) or 'two or more'} classes for each individual"
            raise ParameterError(template("predictions", right, f"{predictions.dtype} of shape {predictions.shape}"))
        if threshold is None:
            return np.asarray(np.argmax(predictions, axis=1), dtype=np.int64)
        if count > 2:
            raise ParameterError(f"'threshold' needs two classes or one number; there are {count} outputs.")
        return np.asarray(predictions[:, 1] >= threshold, dtype=np.int64)
    if kind == "f":
        if threshold is None or last > 1:
            raise ParameterError(
                "'predictions' that are one fraction each are read as probabilities of the second of two classes, and "
                "need a 'threshold'."
            )
        return np.asarray(predictions >= threshold, dtype=np.int64)
    if threshold is not None:
        raise ParameterError("'threshold' is of no use here: 'predictions' are decided already.")
    if kind == "b" and favourable is not None:
        raise ParameterError("'favourable' is of no use here: true and false already say who is selected.")
    if kind == "b":  # selected or not, whatever the classes: the favourable class by default is the last one
        return np.where(predictions, last, 0)
    if kind in "iu":
        places, right = predictions.astype(np.int64), f"places of classes, 0 to {last}"
    else:
        known = {name: place for place, name in enumerate(names)}
        values, back = np.unique(predictions.astype(str), return_inverse=True)
        places = np.array([known.get(value, -1) for value in values.tolist()], dtype=np.int64)[back]
        right = f"classes: {', '.join(map(repr, names)) or 'the schema has none'}"
    outside = (places < 0) | (places > last)
    if outside.any():
        raise ParameterError(template("predictions", right, predictions[outside][0].item()))
    return places


def _favourable(favourable: str | Sequence[str] | None, names: tuple[str, ...], count: int) -> list[int]:
    """The places of the favourable classes: by default the last one."""
    if favourable is None:
        return [count - 1]
    instance("favourable", favourable, Sequence, "a class, or a list of classes")
    chosen = [favourable] if isinstance(favourable, str) else list(favourable)
    if not chosen or not set(chosen) <= set(names) or len(set(chosen)) == len(names):
        right = f"one or more, not all, of the classes {', '.join(map(repr, names)) or '(the schema has none)'}"
        raise ParameterError(template("favourable", right, favourable))
    return [names.index(name) for name in chosen]
