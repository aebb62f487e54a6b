"""Bins, thresholds and rising functions in front of trees and of linear models, and Platt curves behind trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn import ensemble, linear_model
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    StandardScaler,
)
from tests.trees.test_pipelines import agree, edges, people

import isonomy
from isonomy.errors import DataError, NetworkError
from isonomy.loading import is_trees
from isonomy.trees import TreeModel, read_trees
from isonomy.trees import bins as bins_module

NUMBERS = ["age", "income"]


def bins(count: int = 5, **options: Any) -> KBinsDiscretizer:
    return KBinsDiscretizer(count, quantile_method="linear", **options)


STEPS: dict[str, Any] = {
    "ordinal": bins(encode="ordinal"),
    "one-hot": bins(encode="onehot-dense"),
    "sparse": bins(),
    "two bins": bins(2, encode="onehot-dense"),
    "uniform": bins(encode="onehot-dense", strategy="uniform"),
    "binarizer": Binarizer(threshold=40.5),
    "log1p": FunctionTransformer(np.log1p),
    "root": make_pipeline(FunctionTransformer(np.sqrt), StandardScaler()),
    "log of ten": FunctionTransformer(np.log10),
    "arctan": make_pipeline(StandardScaler(), FunctionTransformer(np.arctan)),
    "scaled bins": make_pipeline(StandardScaler(), bins(encode="onehot-dense"), MinMaxScaler((-1, 3))),
    "filled": make_pipeline(SimpleImputer(), bins(encode="onehot-dense")),
}


@pytest.mark.parametrize("model", ["forest", "boosted"])
@pytest.mark.parametrize("name", STEPS)
def test_every_row_reaches_its_leaf(name: str, model: str) -> None:
    """At and around every raw threshold, as the pipeline itself says."""
    frame, y = people()
    kind = ensemble.RandomForestClassifier if model == "forest" else ensemble.GradientBoostingClassifier
    pipeline = make_pipeline(STEPS[name], kind(n_estimators=6, random_state=0)).fit(frame[NUMBERS], y)
    forest = read_trees(pipeline)
    assert [each.name for each in forest.columns] == NUMBERS and is_trees(pipeline)
    agree(pipeline, forest, edges(frame[NUMBERS], forest))
    rows, _ = people(2000, seed=1)
    agree(pipeline, forest, rows[NUMBERS])


def test_missing_cells() -> None:
    """Filled before the bins they have one; without a fill a discretizer refuses them, and so does the forest."""
    frame, y = people()
    gaps = frame[NUMBERS].mask(np.random.default_rng(0).random((len(frame), 2)) < 0.2)
    for encode in ("ordinal", "onehot-dense"):
        steps = make_pipeline(SimpleImputer(), bins(encode=encode))
        pipeline = make_pipeline(steps, ensemble.RandomForestClassifier(5, random_state=0)).fit(gaps, y)
        agree(pipeline, read_trees(pipeline), gaps)
        pipeline = make_pipeline(bins(encode=encode), ensemble.RandomForestClassifier(5, random_state=0))
        with pytest.raises(DataError, match="takes no missing value"):
            read_trees(pipeline.fit(frame[NUMBERS], y)).outputs(gaps)


@pytest.mark.parametrize("kept", [[0], [0, 1], [1, 2, 4, 5], [3], [2, 1, 0, 0]], ids=str)
def test_bins_of_which_a_pipeline_keeps_some(kept: list[int]) -> None:
    """A bin whose column is dropped is still one, and no other."""
    frame, y = people()
    steps = (bins(4, encode="onehot-dense"), ColumnTransformer([("kept", "passthrough", kept)]))
    pipeline = make_pipeline(*steps, ensemble.RandomForestClassifier(6, random_state=0)).fit(frame[NUMBERS], y)
    agree(pipeline, read_trees(pipeline), edges(frame[NUMBERS], read_trees(pipeline)))


@pytest.mark.parametrize("limit", [0.5, 2, 3, -1])
@pytest.mark.parametrize("fill", [1e4, 1e5, 20.0])
def test_missing_cells_of_bins_that_a_threshold_makes_alike(limit: float, fill: float) -> None:
    """What says nothing of a bin does not say that a filled cell is in it."""
    frame, y = people()
    gaps = frame[NUMBERS].mask(np.random.default_rng(0).random((len(frame), 2)) < 0.2)
    steps = (
        SimpleImputer(strategy="constant", fill_value=fill), bins(4, encode="onehot-dense", strategy="uniform"),
        StandardScaler(), Binarizer(threshold=limit),
    )  # fmt: skip
    pipeline = make_pipeline(*steps, ensemble.RandomForestClassifier(6, random_state=0)).fit(gaps, y)
    agree(pipeline, read_trees(pipeline), gaps)


@pytest.mark.parametrize("limit", [40.2, np.float64(40.2), np.float32(40.2)], ids=["float", "64", "32"])
def test_a_threshold_of_float32_numbers(limit: Any) -> None:
    """A float is rounded to the type of the numbers; a number of numpy has a type of its own."""
    frame, y = people()
    frame = frame[NUMBERS].astype(np.float32)
    frame.iloc[:60] = [np.float32(40.2), np.float32(np.nextafter(np.float32(40.2), np.float32(0)))]
    frame.iloc[60:120] = np.float32(np.nextafter(np.float32(40.2), np.float32(99)))
    y = (frame["age"] >= np.float32(40.2)).astype(int).to_numpy()
    model = ensemble.RandomForestClassifier(6, random_state=0)
    pipeline = make_pipeline(Binarizer(threshold=limit), model).fit(frame, y)
    agree(pipeline, read_trees(pipeline, dtype="float32"), frame)


def test_a_table_of_float32_behind_steps_is_refused() -> None:
    """There a pipeline computes in float32, and puts numbers at the edges into other bins."""
    frame, y = people()
    frame = frame[NUMBERS].astype(np.float32)
    steps = (StandardScaler(), bins(encode="onehot-dense"), ensemble.RandomForestClassifier(4, random_state=0))
    pipeline = make_pipeline(*steps).fit(frame, y)
    asked: dict[str, Any] = {"label": "y", "similar": {"age": 3, "income": 10}, "progress": None, "quiet": True}
    with pytest.raises(DataError, match=r"'age' holds float32 numbers.*frame.astype"):
        isonomy.audit(pipeline, frame.assign(y=y)[:30], **asked)
    assert isonomy.audit(pipeline, frame.astype(np.float64).assign(y=y)[:30], **asked).certificate
    assert isonomy.audit(pipeline[-1].fit(frame, y), frame.assign(y=y)[:30], **asked).certificate


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "Int8"])
def test_a_function_of_narrow_whole_numbers_is_refused(kind: str) -> None:
    """Of int8 a logarithm is a float16, of int16 a float32: other numbers than a file with the same rows gives."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": pd.Series(rng.integers(0, 120, 200)).astype(kind)})  # type: ignore[call-overload]
    y = (frame["age"] % 7 > 3).astype(int)
    asked: dict[str, Any] = {"label": "y", "similar": {"age": 3}, "progress": None, "quiet": True}
    model = ensemble.RandomForestClassifier(3, random_state=0)
    pipeline = make_pipeline(FunctionTransformer(np.log1p), model).fit(frame, y)
    with pytest.raises(DataError, match=rf"'age' holds {kind.lower()} numbers.*frame.astype"):
        isonomy.audit(pipeline, frame.assign(y=y)[:30], **asked)
    assert isonomy.audit(pipeline, frame.astype("int64").assign(y=y)[:30], **asked).certificate
    pipeline = make_pipeline(StandardScaler(), model).fit(frame, y)
    assert isonomy.audit(pipeline, frame.assign(y=y)[:30], **asked).certificate


def test_a_function_of_booleans_is_refused() -> None:
    frame, y = people()
    rows = pd.DataFrame({"old": frame["age"] > 50, "age": frame["age"]})
    pipeline = make_pipeline(FunctionTransformer(np.tanh), ensemble.RandomForestClassifier(3)).fit(rows, y)
    schema = isonomy.Schema.infer(rows.assign(y=y), name="t", label="y")
    with pytest.raises(NetworkError, match="'old' is false or true, of which a function"):
        TreeModel.of(read_trees(pipeline), schema)
    pipeline = make_pipeline(FunctionTransformer(np.tanh), ensemble.RandomForestClassifier(3)).fit(
        rows.astype(float), y
    )
    zeros = isonomy.Schema.infer(rows.astype(int).assign(y=y), name="t", label="y")
    assert TreeModel.of(read_trees(pipeline), zeros)(zeros.encode(rows.astype(int)).x).shape == (len(rows), 2)


def test_single_bins_as_categories() -> None:
    frame, y = people()
    model = ensemble.HistGradientBoostingClassifier(max_iter=3, categorical_features=[0, 1, 2])
    pipeline = make_pipeline(bins(4, encode="onehot-dense"), model).fit(frame[NUMBERS], y)
    with pytest.raises(NetworkError, match="single bins that are categories"):
        read_trees(pipeline)


def test_numbers_without_a_logarithm() -> None:
    """The forest refuses them by row, and a schema that allows them by name."""
    frame, y = people()
    frame = frame[NUMBERS].assign(income=frame["income"].round(2))
    pipeline = make_pipeline(FunctionTransformer(np.log1p), ensemble.RandomForestClassifier(3, random_state=0))
    forest = read_trees(pipeline.fit(frame, y))
    with pytest.raises(DataError, match=r"'income', row 1: the pipeline gives no result for -1.0"):
        forest.outputs(frame.assign(income=[5.0, *[-1.0] * (len(frame) - 1)]))
    schema = isonomy.Schema.infer(frame.assign(y=y), name="t", label="y")
    TreeModel.of(forest, schema)
    wide = isonomy.Schema.from_toml(schema.to_toml().replace("low = 0\n", "low = -5\n", 1))
    assert wide != schema
    with pytest.raises(NetworkError, match=r"'income' may be -5 by the schema.*say 'low', above -1"):
        TreeModel.of(forest, wide)


@pytest.mark.parametrize("name", ["ordinal", "one-hot", "sparse", "binarizer", "log1p", "root"])
def test_a_skops_file_is_read_the_same(name: str, tmp_path: Path) -> None:
    frame, y = people()
    model = make_pipeline(STEPS[name], ensemble.RandomForestClassifier(3, random_state=0)).fit(frame[NUMBERS], y)
    skops.io.dump(model, tmp_path / "model.skops")
    assert read_trees(tmp_path / "model.skops").hash() == read_trees(model).hash()


@pytest.mark.parametrize("function", [np.square, np.abs, lambda x: x], ids=["square", "abs", "lambda"])
def test_other_functions_are_refused(function: Any) -> None:
    frame, y = people()
    pipeline = make_pipeline(FunctionTransformer(function), ensemble.RandomForestClassifier(2)).fit(frame[NUMBERS], y)
    with pytest.raises(NetworkError, match=r"of columns is not read .log1p, log,"):
        read_trees(pipeline)


def test_a_function_that_wavers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that falls in its last bits has no threshold."""

    def wavering(x: Any) -> Any:
        odd = np.asarray(x, dtype=np.float64).view(np.uint64) % 2 == 1
        return np.asarray(x) * (1 - 1e-13 * odd)

    from isonomy.trees import pipelines

    monkeypatch.setattr(pipelines, "_RISING", ((wavering, -np.inf),))
    frame, y = people()
    pipeline = make_pipeline(FunctionTransformer(wavering), ensemble.RandomForestClassifier(2)).fit(frame[NUMBERS], y)
    with pytest.raises(NetworkError, match="its steps waver around"):
        read_trees(pipeline)


def test_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, y = people()
    pipeline = make_pipeline(bins(30, encode="onehot-dense"), ensemble.RandomForestClassifier(3)).fit(frame[NUMBERS], y)
    monkeypatch.setattr(bins_module, "GROWTH", 0)
    with pytest.raises(NetworkError, match="more nodes than can be read; use encode='ordinal'"):
        read_trees(pipeline)


def mixed(step: Any) -> Any:
    return ColumnTransformer([("n", step, NUMBERS), ("j", OneHotEncoder(drop="first"), ["job"])])


@pytest.mark.parametrize("step", ["ordinal", "one-hot", "sparse", "binarizer", "scaled bins"])
@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_linear_models_of_bins_are_sums_of_steps(kind: str, step: str) -> None:
    """A scorecard: its own numbers, at every edge, and exact bounds."""
    frame, y = people()
    frame = frame.drop(columns="grade")
    model = linear_model.LogisticRegression() if kind == "logistic" else linear_model.Ridge()
    pipeline = make_pipeline(mixed(STEPS[step]), model).fit(frame, y)
    forest = read_trees(pipeline)
    rows = edges(frame, forest)
    own = pipeline.predict_proba(rows) if kind == "logistic" else pipeline.predict(rows)[:, None]
    given = forest.outputs(rows)
    assert np.abs(given - own).max() < 1e-12
    table = frame.round({"income": 1}).assign(y=y)[:40]
    asked: dict[str, Any] = {"label": "y", "protected": "job", "similar": {"age": 3, "income": "10%"}}
    audit = isonomy.audit(pipeline, table, **asked, progress=None, quiet=True)
    local = audit.certificate.local
    assert audit.certificate.problem.model.kind == "trees" and (local.upper - local.lower).max() < 1e-9
    assert local.upper.max() > 0.01
    if step == "one-hot" and kind == "logistic":
        assert audit.verify().accepted


def test_a_linear_model_of_numbers_and_bins_is_no_sum_of_steps() -> None:
    frame, y = people()
    steps = ColumnTransformer([("b", bins(encode="ordinal"), ["age"]), ("n", StandardScaler(), ["income"])])
    pipeline = make_pipeline(steps, linear_model.LogisticRegression()).fit(frame, y)
    assert not is_trees(pipeline)
    with pytest.raises(NetworkError, match="no bins"):
        read_trees(pipeline)


MODELS: dict[str, Any] = {
    "forest": lambda: ensemble.RandomForestClassifier(5, max_depth=4, random_state=0),
    "extra": lambda: ensemble.ExtraTreesClassifier(5, max_depth=4, random_state=0),
    "boosted": lambda: ensemble.GradientBoostingClassifier(n_estimators=6, random_state=0),
    "exponential": lambda: ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=6, random_state=0),
    "histogram": lambda: ensemble.HistGradientBoostingClassifier(max_iter=6, random_state=0),
}


@pytest.mark.parametrize("labels", [("no", "yes"), ("yes", "no")], ids=["order", "turned"])
@pytest.mark.parametrize("name", MODELS)
def test_platt_curves_behind_trees(name: str, labels: tuple[str, str]) -> None:
    frame, y = people()
    inner = make_pipeline(mixed(StandardScaler()), MODELS[name]()) if name != "histogram" else MODELS[name]()
    frame = frame[NUMBERS] if name == "histogram" else frame.drop(columns="grade")
    model = CalibratedClassifierCV(FrozenEstimator(inner.fit(frame, np.array(labels)[y]))).fit(
        frame, np.array(labels)[y]
    )
    rows = people(1000, seed=1)[0][list(frame.columns)]
    forest = read_trees(model)
    own, given = model.predict_proba(rows), forest.outputs(rows)
    assert np.abs(given - own).max() <= forest.output_error(rows).max() < 1e-9
    assert is_trees(model)
    table = frame.round({"income": 1}).assign(y=np.array(labels)[y])[:40]
    asked: dict[str, Any] = {"label": "y", "similar": {"age": 3, "income": "10%"}, "progress": None, "quiet": True}
    audit = isonomy.audit(model, table, **asked)
    local = audit.certificate.local
    assert audit.certificate.problem.model.kind == "trees" and (local.upper - local.lower).max() < 1e-9
    one = audit.certificate.problem.raw(local.x)
    other = audit.certificate.problem.raw(local.witnesses.counterpart)
    gives, gets = (model.predict_proba(each[list(frame.columns)])[:, 1] for each in (one, other))
    assert np.abs(np.abs(gives - gets) - local.lower).max() < 1e-9


def test_other_calibrations_of_trees_are_asked() -> None:
    """Several, isotonic ones, and curves behind probabilities that are no sums."""
    frame, y = people()
    forest = ensemble.RandomForestClassifier(3, max_depth=3, random_state=0)
    for model in (
        CalibratedClassifierCV(forest, cv=2),
        CalibratedClassifierCV(forest, method="isotonic", ensemble=False),
    ):
        model.fit(frame[NUMBERS], y)
        assert not is_trees(model)
        table = frame[NUMBERS].round(0).astype(int).assign(y=y)[:30]
        audit = isonomy.audit(model, table, label="y", similar={"age": 3}, progress=None, quiet=True)
        assert audit.certificate.problem.model.kind == "enumeration"
        assert any("it is made of trees" in note for note in audit.notes)
