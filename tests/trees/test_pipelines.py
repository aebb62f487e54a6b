"""Preprocessing in front of trees becomes part of their tests, at and around every raw threshold."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    RobustScaler,
    StandardScaler,
)
from tests.trees.originals import neighbours

from isonomy.errors import DataError, FileError, NetworkError, UnsupportedOperationError
from isonomy.population import Schema
from isonomy.trees import Forest, TreeModel, read_trees


def people(rows: int = 500, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, rows).astype(float),
            "income": rng.lognormal(10, 1, rows),
            "job": rng.choice(["clerk", "cook", "driver", "nurse"], rows),
            "grade": rng.choice([1, 2, 3], rows),
        }
    )
    score = frame["age"] / 30 - np.log(frame["income"]) / 2 + (frame["job"] == "cook") + frame["grade"] / 2
    return frame, (score > score.median()).astype(int).to_numpy()


SCALERS = [StandardScaler(), MinMaxScaler((-1, 2)), RobustScaler(), MaxAbsScaler(), MinMaxScaler(clip=True)]


def edges(frame: pd.DataFrame, forest: Forest, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = {}
    for j, column in enumerate(forest.columns):
        if column.coding == "number":
            limits = np.unique(forest.threshold[forest.feature == j])
            values[column.name] = neighbours(limits[np.isfinite(limits)])
    count = max(1000, *(len(each) for each in values.values()))
    rows = frame.iloc[rng.integers(0, len(frame), count)].reset_index(drop=True)
    for name, each in values.items():
        rows.loc[rng.choice(count, len(each), replace=False), name] = each
    return rows


def agree(pipeline: Any, forest: Forest, rows: pd.DataFrame) -> None:
    model = pipeline[-1]
    assert np.array_equal(forest.leaves(rows), model.apply(pipeline[:-1].transform(rows)).reshape(len(rows), -1))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scaler", SCALERS, ids=str)
def test_scalers_become_thresholds(scaler: Any, dtype: Any) -> None:
    frame, y = people()
    numbers = frame[["age", "income"]].astype(dtype)
    model = ensemble.RandomForestClassifier(4, random_state=0)
    pipeline = make_pipeline(scaler, StandardScaler(), model).fit(numbers, y)
    forest = read_trees(pipeline, dtype=dtype)
    rows = edges(numbers.astype(float), forest).astype(dtype)
    assert [each.name for each in forest.columns] == ["age", "income"]
    agree(pipeline, forest, rows)


def mixed(model: Any, encoder: Any, **options: Any) -> Any:
    number = make_pipeline(SimpleImputer(add_indicator=True, strategy="median"), StandardScaler())
    steps = [("numbers", number, ["age", "income"]), ("words", encoder, ["job", "grade"])]
    return Pipeline([("columns", ColumnTransformer(steps, **options)), ("model", model)])


ENCODERS = [
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(handle_unknown="ignore", sparse_output=False, drop="first"),
    OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.26),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda each: str(each)[:60])
def test_encoders_become_sets_of_categories(encoder: Any, tmp_path: Path) -> None:
    files = pytest.importorskip("skops.io", reason="skops is not installed")
    frame, y = people()
    frame.loc[::11, "age"] = np.nan
    pipeline = mixed(ensemble.RandomForestClassifier(5, random_state=0), encoder).fit(frame, y)
    forest = read_trees(pipeline)
    assert forest.columns[2].categories == ("clerk", "cook", "driver", "nurse")
    assert forest.columns[3].categories == (1.0, 2.0, 3.0)
    rows = edges(frame, forest)
    rows.loc[::9, "job"], rows.loc[::10, "grade"] = "pilot", 7
    rows.loc[::13, "income"] = np.nan
    agree(pipeline, forest, rows)
    files.dump(pipeline, tmp_path / "p.skops")
    assert read_trees(tmp_path / "p.skops").hash() == forest.hash()


@pytest.mark.parametrize("sparse", [True, False])
def test_xgboost_takes_zeros_of_sparse_rows_as_missing(sparse: bool) -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
    frame, y = people()
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
    steps = ColumnTransformer([("words", encoder, ["job", "grade"])], sparse_threshold=1.0)
    pipeline = make_pipeline(steps, xgboost.XGBClassifier(n_estimators=5, n_jobs=1)).fit(frame, y)
    assert bool(pipeline[0].sparse_output_) == sparse
    rows = frame.assign(job=frame["job"].where(frame.index % 7 > 0, "pilot"))
    agree(pipeline, read_trees(pipeline), rows)


@pytest.mark.parametrize("name", ["lightgbm", "catboost"])
def test_other_libraries_behind_a_pipeline(name: str) -> None:
    library = pytest.importorskip(name, reason=f"{name} is not installed")
    frame, y = people()
    if name == "lightgbm":
        model = library.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1)
    else:
        model = library.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False, thread_count=1)
    pipeline = mixed(model, OneHotEncoder(sparse_output=False), sparse_threshold=0).fit(frame, y)
    forest = read_trees(pipeline)
    rows = edges(frame, forest)
    own = pipeline.predict_proba(rows)
    assert (np.abs(forest.outputs(rows) - own) <= forest.output_error(rows)).all()
    with pytest.raises(DataError, match="Column 'job': the model does not know 'pilot'"):
        forest.leaves(rows.assign(job="pilot"))


def test_what_is_not_monotone_in_one_column_is_refused_by_name() -> None:
    frame, y = people()
    numbers = frame[["age", "income"]]
    model = ensemble.RandomForestClassifier(2)
    for step in (PCA(), PowerTransformer()):
        with pytest.raises(UnsupportedOperationError, match=f"the transformer {type(step).__name__} in front of trees"):
            read_trees(make_pipeline(step, model).fit(numbers, y))


def test_a_number_that_means_missing_is_refused() -> None:
    frame, y = people()
    pipeline = make_pipeline(SimpleImputer(missing_values=-1), ensemble.RandomForestClassifier(2))
    with pytest.raises(NetworkError, match="SimpleImputer: it fills cells that hold -1"):
        read_trees(pipeline.fit(frame[["age"]], y))


def test_nan_without_a_place_is_refused_in_evaluation() -> None:
    frame, y = people()
    forest = read_trees(
        make_pipeline(StandardScaler(), ensemble.GradientBoostingClassifier(n_estimators=2)).fit(frame[["age"]], y)
    )
    with pytest.raises(DataError, match="Column 'age', row 1: the model takes no missing value"):
        forest.leaves({"age": np.array([1.0, np.nan])})


def test_float32_tables_through_imputers() -> None:
    frame, y = people()
    numbers = frame[["age", "income"]].astype(np.float32)
    numbers.loc[::7, "age"] = np.nan
    model = ensemble.RandomForestClassifier(4, random_state=0)
    pipeline = make_pipeline(SimpleImputer(), StandardScaler(), model).fit(numbers, y)
    forest = read_trees(pipeline, dtype="float32")
    agree(pipeline, forest, edges(numbers.astype(float), forest).astype(np.float32))


def test_an_archive_with_a_pickle_inside_is_refused(tmp_path: Path) -> None:
    files = pytest.importorskip("skops.io", reason="skops is not installed")
    frame, y = people()
    files.dump(ensemble.RandomForestClassifier(2, random_state=0).fit(frame[["age"]], y), tmp_path / "m.skops")
    ran = tmp_path / "ran"

    class Program:
        def __reduce__(self) -> Any:
            return Path.touch, (ran,)

    with zipfile.ZipFile(tmp_path / "m.skops") as old, zipfile.ZipFile(tmp_path / "bad.skops", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(".npy"):
                buffer = io.BytesIO()
                np.save(buffer, np.array([Program()], dtype=object), allow_pickle=True)
                data = buffer.getvalue()
            new.writestr(name, data)
    with pytest.raises(FileError, match="is a pickle"):
        read_trees(tmp_path / "bad.skops")
    assert not ran.exists()


def gaps(frame: pd.DataFrame, **others: Any) -> pd.DataFrame:
    """Rows with missing cells, some of them replaced by ``others``."""
    rng, rows = np.random.default_rng(5), frame.astype(object)
    for name in rows:
        rows.loc[rng.random(len(rows)) < 0.2, name] = others.get(str(name), np.nan)
    return rows


ORDERED = {"handle_unknown": "use_encoded_value", "unknown_value": np.nan}


@pytest.mark.parametrize(
    "steps",
    [
        (OrdinalEncoder(**ORDERED), SimpleImputer()),
        (OrdinalEncoder(**ORDERED), SimpleImputer(strategy="constant", fill_value=1.3), StandardScaler()),
        (OrdinalEncoder(encoded_missing_value=-2), SimpleImputer()),
    ],
    ids=["unseen filled", "unseen filled and scaled", "coded"],
)
@pytest.mark.parametrize("gap", [np.nan, None], ids=str)
def test_what_an_encoder_makes_of_gaps_is_filled(steps: Any, gap: Any) -> None:
    """Also that of an unseen category; None has a place among the categories, which NaN has not."""
    frame, y = people()
    words = gaps(frame[["job"]], job=gap)
    pipeline = make_pipeline(*steps, ensemble.RandomForestClassifier(5, random_state=0)).fit(words, y)
    rows = words if pipeline[0].handle_unknown == "error" else gaps(words, job="pilot")
    agree(pipeline, read_trees(pipeline), rows)


def test_two_kinds_of_gaps_are_refused() -> None:
    frame, y = people()
    words = pd.DataFrame({"job": [None, np.nan, *frame["job"][2:]]}, dtype=object)
    pipeline = make_pipeline(OneHotEncoder(), ensemble.RandomForestClassifier(2)).fit(words, y)
    with pytest.raises(UnsupportedOperationError, match="None and NaN are two categories"):
        read_trees(pipeline)


@pytest.mark.parametrize("fill", [1, 3, 7])
def test_a_fill_in_front_of_trees_of_categories(fill: int) -> None:
    """A missing cell goes where its fill goes, whatever trees that never met one would do with it."""
    frame, y = people()
    model = ensemble.HistGradientBoostingClassifier(max_iter=5, categorical_features=[0], min_samples_leaf=3)
    filled = SimpleImputer(strategy="constant", fill_value=fill)
    pipeline = make_pipeline(filled, model).fit(frame[["grade"]], (frame["grade"] == 3) ^ (y == 1))
    rows = gaps(frame[["grade"]]).astype(float)
    assert np.abs(read_trees(pipeline).outputs(rows) - pipeline.predict_proba(rows)).max() < 1e-12


def test_an_indicator_of_a_number_is_refused() -> None:
    frame, y = people()
    steps = ColumnTransformer([("marks", MissingIndicator(missing_values=2, features="all"), ["grade"])])
    pipeline = make_pipeline(steps, ensemble.RandomForestClassifier(2)).fit(frame, y)
    with pytest.raises(NetworkError, match="MissingIndicator: it marks cells that hold 2"):
        read_trees(pipeline)


@pytest.mark.parametrize("nothing", ["passthrough", None])
def test_steps_that_do_nothing(nothing: Any) -> None:
    frame, y = people()
    inner = Pipeline([("first", nothing), ("scaler", StandardScaler())])
    pipeline = Pipeline([("first", nothing), ("next", inner), ("model", ensemble.ExtraTreesClassifier(3))])
    rows = frame[["age", "income"]]
    agree(pipeline.fit(rows, y), read_trees(pipeline), rows)


@pytest.mark.parametrize("encoder", ["one-hot", "ordinal", "none"])
def test_booleans_are_the_categories_of_their_names(encoder: str) -> None:
    frame, y = people()
    rows = pd.DataFrame({"owner": frame["age"] > 50, "age": frame["age"]})
    step: Any = {"one-hot": OneHotEncoder(handle_unknown="ignore"), "ordinal": OrdinalEncoder()}.get(encoder)
    steps = ColumnTransformer([("owner", step or "passthrough", ["owner"])], remainder="passthrough")
    model = ensemble.RandomForestClassifier(3, max_depth=3, random_state=0)
    pipeline = make_pipeline(steps, model).fit(rows, (y == 1) ^ rows["owner"])
    schema = Schema.infer(rows.assign(y=y), name="t", label="y")
    assert schema["owner"].levels == ("False", "True")
    given = TreeModel.of(read_trees(pipeline), schema)(schema.encode(rows).x)
    assert np.abs(given - pipeline.predict_proba(rows)).max() < 1e-12


def test_categories_that_no_tree_asks_for() -> None:
    """An encoder refuses an unseen category, also where the trees do not look at it."""
    frame, y = people()
    frame["job"] = "cook"
    steps = ColumnTransformer([("job", OneHotEncoder(), ["job"])], remainder="passthrough")
    pipeline = make_pipeline(steps, ensemble.RandomForestClassifier(3)).fit(frame[["age", "job"]], y)
    more = frame[["age", "job"]].assign(y=y, job=["nurse", *frame["job"][1:]])
    with pytest.raises(NetworkError, match="The category 'nurse' of the schema cannot be read"):
        TreeModel.of(read_trees(pipeline), Schema.infer(more, name="t", label="y"))
