"""Estimators of scikit-learn that are made of others: calibrated, voting, bagged, and with a scaled outcome.

Each rule reads the members by the function that it is given, and puts their outputs together. What they give is a
probability by itself (head "probability"), unless a single sigmoid is left at the end.

**Soundness.** Members are read on the same columns; a mean is a sum of nodes and one quotient, a Platt curve an affine
map in front of a sigmoid, an isotonic one a sum of clips, each exactly the function up to slacks of its roundings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from sklearn import ensemble
from sklearn import preprocessing as scalers
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.frozen import FrozenEstimator

from isonomy.errors import UnsupportedOperationError
from isonomy.networks.builder import Builder, Value
from isonomy.networks.graph import Head
from isonomy.networks.preprocessing import ExactAffine, Table, affine_of, exact

Result = tuple[Value, Head]  # the raw outputs, and what they mean
Read = Callable[..., Result]  # of columns and an estimator, with a head if it has no probabilities


NOISE, NEGLIGIBLE = Fraction(1, 2**44), Fraction(1, 10**6)
"""How far a run's score may be from the exact one, relative to its size, and what a curve may make of that."""


def _calibrated(builder: Builder, source: Value | Table, estimator: Any, read: Read) -> Result:
    """Read classifiers of two classes, each behind its fitted curve, of which the mean is taken."""
    if len(estimator.classes_) != 2:
        raise UnsupportedOperationError("several classes, each behind a curve, divided by their sum.")
    curves: list[Result] = []
    for member in estimator.calibrated_classifiers_:
        if member.method not in _CURVES or len(member.calibrators) != 1 or len(member.estimator.classes_) != 2:
            raise UnsupportedOperationError(f"a calibration by method={member.method!r} is not read.")
        score = _score(builder, source, member.estimator, read)
        curves.append(_CURVES[member.method](builder, score, member.calibrators[0]))
    return curves[0] if len(curves) == 1 else _mean(builder, curves)


def _score(builder: Builder, source: Value | Table, estimator: Any, read: Read) -> Value:
    """Return the number by which a calibration asks a classifier: its decision, or else the probability of the second
    class."""
    decides = hasattr(estimator, "decision_function")
    value, head = read(source, estimator, "regression" if not hasattr(estimator, "predict_proba") else "auto")
    doubled = getattr(_last(estimator), "multi_class", "") == "multinomial"  # older versions: not the decision itself
    if value.width != 1 or doubled or (decides and head == "probability"):
        raise UnsupportedOperationError(f"the score of {type(estimator).__name__} is not read.")
    return value if decides else _probability(builder, (value, head))


def _last(estimator: Any) -> Any:
    """Return the estimator that decides, at the end of pipelines and searches."""
    if hasattr(estimator, "steps"):
        return _last(estimator.steps[-1][1])
    inner = getattr(estimator, "best_estimator_", None)
    inner = estimator.estimator if inner is None and isinstance(estimator, FrozenEstimator) else inner
    return estimator if inner is None else _last(inner)


def _probability(builder: Builder, output: Result) -> Value:
    """Return the probability of the second of two classes."""
    value, head = output
    if value.width != 1 or head not in ("sigmoid", "probability"):
        raise UnsupportedOperationError("an average of probabilities of several classes is not read.")
    return builder.activation(value, "sigmoid") if head == "sigmoid" else value


def _platt(builder: Builder, score: Value, curve: Any) -> Result:
    return builder.add(builder.multiply(score, -float(curve.a_)), np.array([-float(curve.b_)])), "sigmoid"


def _isotonic(builder: Builder, score: Value, curve: Any) -> Result:
    """Return the straight pieces between the thresholds, each rising or falling from 0 to its own share."""
    if curve.out_of_bounds != "clip":
        raise UnsupportedOperationError(f"out_of_bounds={curve.out_of_bounds!r} is no probability beyond the curve.")
    at, heights = ([exact(each, "a threshold") for each in part] for part in (curve.X_thresholds_, curve.y_thresholds_))
    pieces = [i for i in range(1, len(at)) if heights[i] != heights[i - 1]]
    first = ExactAffine.of(heights[0])
    noise = NOISE * max(Fraction(1), -at[0], at[-1])
    if any(noise * abs(heights[i] - heights[i - 1]) > NEGLIGIBLE * (at[i] - at[i - 1]) for i in pieces):
        raise UnsupportedOperationError(
            "thresholds of its isotonic curve are so close that the rounding of a score decides: there it is a step, "
            "which has no slope."
        )
    if not pieces:
        return builder.apply(affine_of([first], 1, builder.allowance), score), "probability"
    place = ExactAffine.coordinate(0)
    inner = [place.plus(-at[i - 1]).times(1 / (at[i] - at[i - 1])) for i in pieces]
    ramps = builder.apply(affine_of(inner, 1, builder.allowance), score, shape=(len(pieces),))
    ramps = builder.activation(ramps, "clip", 0.0, 1.0)
    for k, i in enumerate(pieces):
        first = first.plus(ExactAffine.coordinate(k).times(heights[i] - heights[i - 1]))
    return builder.apply(affine_of([first], len(pieces), builder.allowance), ramps, shape=(1,)), "probability"


_CURVES: dict[str, Callable[[Builder, Value, Any], Result]] = {"sigmoid": _platt, "isotonic": _isotonic}


def _mean(builder: Builder, members: Sequence[Result], weights: Sequence[Any] | None = None) -> Result:
    """Return the weighted mean of numbers, or of probabilities of the second of two classes."""
    numbers = all(head == "regression" for _, head in members)
    parts = [value if numbers else _probability(builder, (value, head)) for value, head in members]
    shares = [Fraction(1)] * len(parts) if weights is None else [exact(each, "a weight") for each in weights]
    total = ExactAffine.of(Fraction(0))
    for i, share in enumerate(shares):
        total = total.plus(ExactAffine.coordinate(i).times(share / sum(shares)))
    joined = builder.concat(parts, 1)
    return builder.apply(affine_of([total], len(parts), builder.allowance), joined, shape=(1,)), (
        "regression" if numbers else "probability"
    )


def _voting(builder: Builder, source: Value | Table, estimator: Any, read: Read) -> Result:
    """Read a soft vote of classifiers, or the mean of regressions."""
    if getattr(estimator, "voting", "soft") != "soft":
        raise UnsupportedOperationError("a hard vote counts decisions, which are steps; fit it with voting='soft'.")
    return _mean(builder, [read(source, each) for each in estimator.estimators_], estimator._weights_not_none)


def _bagged(builder: Builder, source: Value | Table, estimator: Any, read: Read) -> Result:
    """Read the mean of members, each on its own columns."""
    members = []
    for each, places in zip(estimator.estimators_, estimator.estimators_features_, strict=True):
        chosen = [int(i) for i in places]
        if isinstance(source, Table):
            own: Any = Table(tuple(source.columns[i] for i in chosen), (len(chosen),))
        else:
            own = builder.place(source, partial(np.take, indices=chosen, axis=1))
        if len(getattr(each, "classes_", ())) != len(getattr(estimator, "classes_", ())):
            raise UnsupportedOperationError("a member has not met all classes.")
        members.append(read(own, each))
    return _mean(builder, members)


def _scaled_outcome(builder: Builder, source: Value | Table, estimator: Any, read: Read) -> Result:
    """Read a regression whose outcome was scaled, back in the outcome's own units."""
    scaler = estimator.transformer_
    kind, number = type(scaler), ExactAffine.coordinate(0)
    if kind not in _SCALERS or getattr(scaler, "inverse_func", None) is not None:
        what = getattr(getattr(scaler, "inverse_func", None), "__name__", kind.__name__)
        raise UnsupportedOperationError(
            f"the outcome is turned back by {what}, which is not affine; audit its 'regressor_', whose outcome is the "
            "transformed column."
        )
    value, head = read(source, estimator.regressor_)
    if head != "regression" or value.width != 1:
        raise UnsupportedOperationError("several outcomes are not turned back.")
    minus, over, times, plus = (getattr(scaler, part, None) if part else None for part in _SCALERS[kind])
    if not getattr(scaler, "with_mean", True):
        minus = None  # it is stored all the same
    for part, back in ((plus, "minus"), (times, "over"), (over, "times"), (minus, "plus")):
        if part is None:
            continue
        constant = exact(np.ravel(part)[0], "a scale of the outcome")
        if back in ("over", "times"):
            number = number.times(1 / constant if back == "over" else constant)
        else:
            number = number.plus(-constant if back == "minus" else constant)
    return builder.apply(affine_of([number], 1, builder.allowance), value, shape=(1,)), "regression"


# scaler of an outcome -> the attributes of (value - minus) / over * times + plus
_SCALERS: dict[type, tuple[str, str, str, str]] = {
    scalers.StandardScaler: ("mean_", "scale_", "", ""),
    scalers.RobustScaler: ("center_", "scale_", "", ""),
    scalers.MaxAbsScaler: ("", "scale_", "", ""),
    scalers.MinMaxScaler: ("", "", "scale_", "min_"),
    scalers.FunctionTransformer: ("", "", "", ""),  # without functions: what the regressor's outcome is as it is
}

COMBINED: dict[type, Callable[[Builder, Value | Table, Any, Read], Result]] = {
    CalibratedClassifierCV: _calibrated,
    **dict.fromkeys((ensemble.VotingClassifier, ensemble.VotingRegressor), _voting),
    **dict.fromkeys((ensemble.BaggingClassifier, ensemble.BaggingRegressor), _bagged),
    TransformedTargetRegressor: _scaled_outcome,
}
"""How estimators that are made of others are read."""
