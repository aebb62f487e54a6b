"""Estimators that are made of others, and clips: read as what they predict, with bounds that nobody exceeds."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from sklearn import linear_model as lm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, VotingClassifier, VotingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import LinearSVC

import isonomy
from isonomy.certificates import certify_local
from isonomy.errors import NetworkError
from isonomy.networks import Network, load_network
from isonomy.networks.preprocessing import Number, clipped, schema_columns
from isonomy.problem import Problem
from isonomy.similarity import Counterparts
from isonomy_verify import verify

from .people import outcome, rows, schema
from .test_sklearn_reader import encoder, numbers, split

COLUMNS = ["age", "income"]


def columns(step: Any = None) -> Any:
    return split(("n", numbers(step or StandardScaler()), COLUMNS), ("c", encoder(sparse_output=False), ["sex", "job"]))


def mlp(seed: int = 0) -> MLPClassifier:
    return MLPClassifier((6,), max_iter=60, random_state=seed)


def calibrated(model: Any, **options: Any) -> Any:
    return make_pipeline(columns(), CalibratedClassifierCV(model, cv=3, **options))


def frozen() -> Any:
    frame = rows(150)
    inner = make_pipeline(columns(), mlp()).fit(frame, outcome(frame))
    return CalibratedClassifierCV(FrozenEstimator(inner), method="isotonic")


PROBABLE: dict[str, Any] = {
    "clip": lambda: make_pipeline(columns(MinMaxScaler((-1, 2), clip=True)), mlp()),
    "clip then scale": lambda: make_pipeline(
        columns(make_pipeline(MinMaxScaler(clip=True), StandardScaler())), lm.LogisticRegression()
    ),
    "clips for bins": lambda: make_pipeline(
        split(
            ("b", KBinsDiscretizer(5, quantile_method="linear"), ["age"]),
            ("n", numbers(StandardScaler()), ["income"]),
            ("g", OneHotEncoder(), ["grade"]),
            ("c", encoder(sparse_output=False), ["sex"]),
        ),
        mlp(),
    ),
    "clips and logarithms": lambda: make_pipeline(
        columns(make_pipeline(FunctionTransformer(np.log1p), StandardScaler())), mlp()
    ),
    "platt of a line": lambda: calibrated(lm.LogisticRegression(), ensemble=False),
    "platt of a margin": lambda: calibrated(LinearSVC(), ensemble=False),
    "platt of a network": lambda: calibrated(mlp(), ensemble=False),
    "mean of platts": lambda: calibrated(lm.LogisticRegression()),
    "isotonic of a line": lambda: calibrated(lm.LogisticRegression(), method="isotonic", ensemble=False),
    "isotonic of networks": lambda: calibrated(mlp(), method="isotonic"),
    "isotonic, frozen pipeline": frozen,
    "vote": lambda: make_pipeline(
        columns(), VotingClassifier([("a", lm.LogisticRegression()), ("b", mlp())], voting="soft", weights=[1, 2.5])
    ),
    "vote of pipelines": lambda: VotingClassifier(
        [
            ("a", make_pipeline(columns(), mlp())),
            ("b", make_pipeline(columns(RobustScaler()), lm.LogisticRegression())),
        ],
        voting="soft",
    ),
    "bag": lambda: make_pipeline(
        columns(), BaggingClassifier(lm.LogisticRegression(), 3, max_features=0.7, random_state=0)
    ),
}

NUMBERS: dict[str, Any] = {
    "mean": lambda: VotingRegressor([("a", lm.Ridge()), ("b", lm.LinearRegression())], weights=[3, 1]),
    "bag": lambda: BaggingRegressor(lm.Ridge(), 3, random_state=0),
    **{
        f"outcome {type(scaler).__name__}": lambda scaler=scaler: TransformedTargetRegressor(
            lm.Ridge(), transformer=scaler
        )
        for scaler in (StandardScaler(), MinMaxScaler((1, 3)), RobustScaler())
    },
    **{
        f"outcome {scaler}": lambda scaler=scaler: TransformedTargetRegressor(lm.Ridge(), transformer=scaler)
        for scaler in (StandardScaler(with_mean=False), StandardScaler(with_std=False))
    },
    "outcome as it is": lambda: TransformedTargetRegressor(lm.Ridge()),
}


def fitted(model: Any, y: Any = None) -> Any:
    frame = rows(150)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(frame, outcome(frame) if y is None else y)


@pytest.mark.parametrize("turned", [False, True], ids=["order", "turned"])
@pytest.mark.parametrize("name", PROBABLE)
def test_probabilities_are_those_of_the_original(name: str, turned: bool) -> None:
    model, people = fitted(PROBABLE[name]()), schema()
    if turned:
        people = isonomy.Schema.from_toml(people.to_toml().replace('["no", "yes"]', '["yes", "no"]'))
    frame = rows(600, seed=1)
    network = Network.from_sklearn(model, people)
    own = model.predict_proba(frame)[:, ::-1] if turned else model.predict_proba(frame)
    assert np.abs(network(people.encode(frame).x) - own).max() < 1e-9
    assert network.head == ("sigmoid" if name.startswith(("clip", "platt")) else "probability")


@pytest.mark.parametrize("name", PROBABLE)
def test_a_skops_file_is_read_the_same(name: str, tmp_path: Any) -> None:
    model, people = fitted(PROBABLE[name]()), schema()
    skops.io.dump(model, tmp_path / "model.skops")
    assert load_network(tmp_path / "model.skops", people).hash() == Network.from_sklearn(model, people).hash()


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_those_of_the_original(name: str) -> None:
    frame = rows(150)
    y = 100 + 3 * frame["age"] + 20 * (frame["sex"] == "male")
    model, people, others = fitted(make_pipeline(columns(), NUMBERS[name]()), y), schema(), rows(600, seed=1)
    given = Network.from_sklearn(model, people)(people.encode(others).x)[:, 0]
    assert np.abs(given - model.predict(others)).max() < 1e-9 * np.abs(given).max()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "clip",
        "clips for bins",
        "clips and logarithms",
        "platt of a network",
        "isotonic of a line",
        "isotonic of networks",
        "vote",
    ],
)
def test_nobody_similar_exceeds_the_bounds(name: str) -> None:
    """People drawn among the similar, as raw rows that the original model predicts itself."""
    model, people = fitted(PROBABLE[name]()), schema()
    people = tolerant(people)
    frame = rows(12, seed=2, gaps=False)
    x = people.encode(frame).x
    problem = Problem.of(
        Network.from_sklearn(model, people), Counterparts.of(people), 1.0, people.domain("realizable"), people
    )
    local = certify_local(problem, x, progress=None)
    rng, own, most = np.random.default_rng(3), model.predict_proba(frame)[:, 1], np.zeros(len(frame))
    for _ in range(150):
        near = frame.copy()
        near["age"] = np.clip(near["age"] + rng.integers(-3, 4, len(near)), 18, 90)
        near["income"] = np.clip(near["income"] + rng.choice([-20, 20, 0, 7.25, -11.5], len(near)), 0, 300)
        near["sex"] = rng.choice(["female", "male"], len(near))
        most = np.maximum(most, np.abs(model.predict_proba(near)[:, 1] - own))
    assert (most <= local.upper + 1e-9).all() and most.max() > 0.02
    assert (local.lower <= local.upper).all() and (local.upper - local.lower).mean() < 0.05
    assert (local.lower >= most - 0.02).mean() > 0.8


def tolerant(people: isonomy.Schema) -> isonomy.Schema:
    text = people.to_toml().replace("[features.age]", "[features.age]\ntolerance = 3")
    return isonomy.Schema.from_toml(text.replace("[features.income]", "[features.income]\ntolerance = 20"))


def test_a_certificate_of_probabilities_is_derived_again(tmp_path: Any) -> None:
    frame = rows(60, gaps=False).drop(columns="union")
    table = frame.assign(outcome=outcome(frame))
    model = VotingClassifier([("a", lm.LogisticRegression()), ("b", mlp())], voting="soft")
    model = make_pipeline(split(("n", StandardScaler(), COLUMNS), ("c", encoder(), ["sex"])), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, table["outcome"])
    asked: dict[str, Any] = {"label": "outcome", "protected": "sex", "similar": {"age": 2, "income": "5%"}}
    audit = isonomy.audit(model, table, **asked, progress=None, quiet=True)
    problem = audit.certificate.problem
    assert (problem.model.kind, problem.model.head) == ("network", "probability")
    report = audit.verify()
    assert report.accepted and "one probability" in str(report) + str(audit.report())
    written = audit.save(tmp_path / "audit")
    assert verify(written / "certificate.json").accepted


def test_clips_are_exact_where_a_cell_is_missing() -> None:
    """A missing cell reads the fill of the pipeline, whatever the clip did to the one of the schema."""
    column = schema_columns(schema())["income"]
    assert isinstance(column, Number) and column.flag is not None
    (made,) = clipped([column], 0.0, 30.0)
    assert isinstance(made, Number) and made.filled == 30
    model = make_pipeline(
        split(("n", make_pipeline(MinMaxScaler(clip=True), SimpleImputer()), COLUMNS)), lm.LogisticRegression()
    )
    model, frame = fitted(model), rows(400, seed=4)
    network = Network.from_sklearn(model, schema())
    assert frame["income"].isna().any()
    assert np.abs(network(schema().encode(frame).x) - model.predict_proba(frame)).max() < 1e-12


REFUSED: dict[str, tuple[Any, str]] = {
    "bayes": (lambda: calibrated(GaussianNB(), ensemble=False), "GaussianNB cannot be read"),
    "temperature": (lambda: calibrated(lm.LogisticRegression(), method="temperature"), "method='temperature'"),
    "hard": (
        lambda: make_pipeline(columns(), VotingClassifier([("a", mlp()), ("b", lm.LogisticRegression())])),
        "a hard vote counts decisions, which are steps; fit it with voting='soft'",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_say_why(kind: str) -> None:
    if kind == "temperature" and sklearn.__version__ < "1.8":
        pytest.skip("this scikit-learn calibrates by no temperature")
    make, reason = REFUSED[kind]
    with pytest.raises(NetworkError, match=reason):
        Network.from_sklearn(fitted(make()), schema())


def test_several_classes_and_other_outcomes_are_refused() -> None:
    frame = rows(150)
    model = calibrated(lm.LogisticRegression(), ensemble=False).fit(frame, outcome(frame, ("a", "b", "c")))
    with pytest.raises(NetworkError, match="several classes"):
        Network.from_sklearn(model, schema())
    logs = TransformedTargetRegressor(lm.Ridge(), func=np.log, inverse_func=np.exp)
    model = make_pipeline(columns(), logs).fit(frame, frame["age"])
    with pytest.raises(NetworkError, match="turned back by exp, which is not affine; audit its 'regressor_'"):
        Network.from_sklearn(model, schema())
    table = frame.drop(columns=["job", "grade", "union"]).dropna().assign(pay=lambda each: each["age"] * 10.0 + 5)
    steps = split(("n", StandardScaler(), COLUMNS), ("c", encoder(), ["sex"]))
    model = make_pipeline(steps, logs).fit(table.drop(columns="pay"), table["pay"])
    with pytest.raises(NetworkError, match=r"no largest change is known.*turned back by exp.*output_range"):
        isonomy.audit(model, table, label="pay", protected="sex", quiet=True, progress=None)
    hinge = FunctionTransformer(np.square)
    with pytest.raises(NetworkError, match="square is not affine"):
        Network.from_sklearn(fitted(make_pipeline(columns(hinge), lm.LogisticRegression())), schema())


def test_a_curve_that_is_flat_gives_one_probability() -> None:
    """An isotonic curve of people whose outcomes say nothing."""
    frame = rows(150)
    inner = make_pipeline(columns(), lm.LogisticRegression()).fit(frame, outcome(frame))
    falling = pd.Series(inner.predict(frame)).map({"no": "yes", "yes": "no"}).to_numpy()
    model = CalibratedClassifierCV(FrozenEstimator(inner), method="isotonic").fit(frame, falling)
    given = Network.from_sklearn(model, schema())(schema().encode(frame).x)
    assert np.abs(given - model.predict_proba(frame)).max() < 1e-12


@pytest.mark.parametrize(
    "wrap", [lambda each: each, make_pipeline, FrozenEstimator], ids=["alone", "pipeline", "frozen"]
)
def test_a_curve_of_a_multinomial_decision_is_refused(wrap: Any) -> None:
    """Of older versions, whose probabilities are those of twice the decision, which is what the curve is asked."""
    inner = wrap(lm.LogisticRegression())
    if wrap is FrozenEstimator:
        inner.estimator.fit(columns().fit_transform(rows(150)), outcome(rows(150)))
    model = fitted(make_pipeline(columns(), CalibratedClassifierCV(inner, ensemble=False)))
    last: Any = model[-1].calibrated_classifiers_[0].estimator
    last = last if wrap is not make_pipeline else last[-1]
    (last.estimator if wrap is FrozenEstimator else last).multi_class = "multinomial"
    with pytest.raises(NetworkError, match="the score of"):
        Network.from_sklearn(model, schema())


def test_a_curve_that_jumps_is_refused() -> None:
    """Of people alike scores differ by roundings, which an isotonic curve may tell apart."""
    model = fitted(PROBABLE["isotonic of a line"]())
    curve = model[-1].calibrated_classifiers_[0].calibrators[0]
    network = Network.from_sklearn(model, schema())
    at = int(np.argmax(np.diff(curve.y_thresholds_)))
    curve.X_thresholds_[at + 1] = curve.X_thresholds_[at] + 1e-13
    with pytest.raises(NetworkError, match="so close that the rounding of a score decides"):
        Network.from_sklearn(model, schema())
    assert network.classes == 1
