"""What readers of trees are known to get wrong, each by its name, against the library itself."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import DataError, FileError, NetworkError, UnsupportedOperationError
from isonomy.population import Feature, Label, Schema
from isonomy.trees import TreeModel, read_trees
from isonomy.trees.forest import ZERO


def people(rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows) * 1e4})
    return frame, (frame["a"] + frame["b"] / 1e4 + rng.normal(size=rows) / 3 > 0).astype(int).to_numpy()


def categories(rows: int = 600, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"c": pd.Categorical(rng.choice(list("bcdefg"), rows)), "v": rng.normal(size=rows)})
    return frame, (frame["c"].cat.codes % 2).to_numpy()


# -- XGBoost


@pytest.fixture(name="xgb")
def _xgb() -> Any:
    return pytest.importorskip("xgboost", reason="XGBoost is not installed")


def test_xgboost_compares_float32_with_less(xgb: Any) -> None:
    frame, y = people()
    model = xgb.XGBClassifier(n_estimators=3, max_depth=3, n_jobs=1).fit(frame, y)
    forest = read_trees(model)
    split = float(
        json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"][0][
            "split_conditions"
        ][0]
    )
    split = float(np.float32(split))
    limit = forest.threshold[0]
    assert limit < split and np.float32(limit) < np.float32(split) <= np.float32(np.nextafter(limit, np.inf))
    name = forest.columns[forest.feature[0]].name
    rows = pd.DataFrame([frame.iloc[0]] * 3)
    rows[name] = [limit, np.nextafter(limit, np.inf), split]
    assert np.array_equal(forest.leaves(rows), model.apply(rows))
    assert (forest.leaves(rows)[0] != forest.leaves(rows)[1]).any()


def test_xgboost_lists_of_categories_go_right(xgb: Any) -> None:
    frame, y = categories()
    for few in (1, 100):
        model = xgb.XGBClassifier(n_estimators=3, enable_categorical=True, max_cat_to_onehot=few, n_jobs=1).fit(
            frame, y
        )
        assert np.array_equal(read_trees(model).leaves(frame), model.apply(frame))


@pytest.mark.parametrize("text", ["[5E-1]", "5E-1", "0.5", "[0.5]"])
def test_xgboost_base_score_is_a_list_in_a_text(xgb: Any, text: str, tmp_path: Path) -> None:
    frame, y = people()
    model = xgb.XGBClassifier(n_estimators=2, base_score=0.5, n_jobs=1).fit(frame, y)
    content = json.loads(model.get_booster().save_raw("json"))
    assert content["learner"]["learner_model_param"]["base_score"] == "[5E-1]"
    content["learner"]["learner_model_param"]["base_score"] = text
    path = tmp_path / "m.json"
    path.write_text(json.dumps(content))
    assert read_trees(path).hash() == read_trees(model).hash()
    assert read_trees(path).base.tolist() == [0.0]


def test_xgboost_3_scores_an_unseen_category_as_its_successor(xgb: Any) -> None:
    if tuple(map(int, xgb.__version__.split(".")[:2])) not in ((3, 1), (3, 2)):
        pytest.skip("only XGBoost 3.1 and 3.2 do so")
    frame, y = categories()
    model = xgb.XGBClassifier(n_estimators=3, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1).fit(frame, y)
    forest = read_trees(model)
    for unseen in ("a", "bb", "cc", "dx"):
        row = pd.DataFrame({"c": pd.Categorical([unseen], categories=[unseen]), "v": [0.0]})
        assert np.array_equal(forest.leaves(row), model.apply(row)), unseen
    last = pd.DataFrame({"c": pd.Categorical(["z"], categories=["z"]), "v": [0.0]})
    with pytest.raises(xgb.core.XGBoostError, match="not in the training set"):
        model.apply(last)
    with pytest.raises(DataError, match="Column 'c': the model does not know 'z'"):
        forest.leaves(last)


def test_an_unseen_text_that_is_a_number_has_the_successor_of_the_text(xgb: Any) -> None:
    """A number would come before all texts, and have another one."""
    if tuple(map(int, xgb.__version__.split(".")[:2])) not in ((3, 1), (3, 2)):
        pytest.skip("only XGBoost 3.1 and 3.2 do so")
    rng = np.random.default_rng(0)
    known = ["b", "2", "+"]
    frame = pd.DataFrame({"c": pd.Categorical(rng.choice(known, 300), categories=known)})
    y = (frame["c"] == "+").astype(int)
    model = xgb.XGBClassifier(n_estimators=3, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1).fit(frame, y)
    levels = ("1", "True", *known)
    schema = Schema("s", (Feature("c", "categorical", categories=levels),), label=Label("y", ("0", "1")))
    rows = pd.DataFrame({"c": pd.Categorical(levels, categories=[*known, "1", "True"])})
    given = TreeModel.of(read_trees(model), schema)(schema.encode(rows).x)
    assert np.abs(given - model.predict_proba(rows)).max() < 1e-6


def test_xgboost_codes_without_names(xgb: Any) -> None:
    """A category beyond the lists, a negative one and half a one, as numbers in a matrix."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 6, 500), rng.normal(size=500)]).astype(float)
    y = (x[:, 0] % 2).astype(int)
    data = xgb.DMatrix(x, y, feature_types=["c", "q"], enable_categorical=True)
    booster = xgb.train({"objective": "binary:logistic", "max_cat_to_onehot": 1, "nthread": 1}, data, 3)
    forest = read_trees(booster)
    assert forest.columns[0].coding == "code"
    x[:200, 0] = rng.choice([0.5, 1.999999999, 2.5, 99, -1, -0.5, 70000, np.nan], 200)
    rows = xgb.DMatrix(x, feature_types=["c", "q"], enable_categorical=True)
    assert np.array_equal(forest.leaves(x), booster.predict(rows, pred_leaf=True).reshape(len(x), -1))


@pytest.mark.parametrize("booster", ["dart", "gblinear"])
def test_xgboost_dart_and_gblinear_are_refused_by_name(xgb: Any, booster: str, tmp_path: Path) -> None:
    frame, y = people()
    model = xgb.XGBClassifier(booster=booster, n_estimators=2, n_jobs=1).fit(frame, y)
    model.save_model(tmp_path / "m.json")
    for source in (model, tmp_path / "m.json"):
        with pytest.raises(UnsupportedOperationError, match=f"the booster '{booster}' cannot be read"):
            read_trees(source)


def test_xgboost_early_stopping_is_asked_for(xgb: Any, tmp_path: Path) -> None:
    frame, y = people()
    model = xgb.XGBClassifier(n_estimators=60, early_stopping_rounds=3, max_depth=3, n_jobs=1)
    model.fit(frame[:200], y[:200], eval_set=[(frame[200:], y[200:])], verbose=False)
    stored, best = model.get_booster().num_boosted_rounds(), model.best_iteration + 1
    assert stored > best
    model.save_model(tmp_path / "m.ubj")
    for source in (model, tmp_path / "m.ubj"):
        with pytest.raises(NetworkError, match=rf"holds {stored} rounds, and the best one is round {best},"):
            read_trees(source)
        kept = read_trees(source, trees="best")
        assert (
            np.abs(kept.margins(frame)[:, 0] - model.predict(frame, output_margin=True)).max() <= kept.run_error().max()
        )
        assert len(read_trees(source, trees="all").root) == stored and len(read_trees(source, trees=2).root) == 2
    with pytest.raises(NetworkError, match=f"'trees' must be from 1 to {stored}"):
        read_trees(model, trees=stored + 1)


def test_xgboost_json_and_ubj_say_the_same(xgb: Any, tmp_path: Path) -> None:
    frame, y = categories()
    model = xgb.XGBClassifier(n_estimators=5, enable_categorical=True, max_cat_to_onehot=1, n_jobs=1).fit(frame, y)
    for name in ("m.json", "m.ubj"):
        model.save_model(tmp_path / name)
    odd = tmp_path / "model.dat"  # content counts, not the name
    odd.write_bytes((tmp_path / "m.ubj").read_bytes())
    assert read_trees(tmp_path / "m.json").hash() == read_trees(odd).hash() == read_trees(model).hash()


def test_xgboost_missing_number_is_refused(xgb: Any) -> None:
    frame, y = people()
    model = xgb.XGBClassifier(n_estimators=2, missing=-999.0, n_jobs=1).fit(frame, y)
    with pytest.raises(UnsupportedOperationError, match=r"missing=-999\.0 makes a number count as missing"):
        read_trees(model)


# -- LightGBM


@pytest.fixture(name="lgb")
def _lgb() -> Any:
    return pytest.importorskip("lightgbm", reason="LightGBM is not installed")


QUIET = {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 2, "objective": "binary"}


def zeros(rows: int = 900, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.choice([0.0, 0.0, 1.0, -1.0, 2.0, 1e-3], rows), rng.normal(size=rows)])
    return x, ((x[:, 0] > 0) ^ (x[:, 1] > 0)).astype(int)


def test_lightgbm_takes_tiny_numbers_as_zero(lgb: Any) -> None:
    x, y = zeros()
    model = lgb.train(QUIET, lgb.Dataset(x, y), 4)
    forest = read_trees(model)
    tiny = [0.0, -0.0, 1e-36, -1e-36, ZERO, -ZERO, np.nextafter(ZERO, 1), np.nextafter(-ZERO, -1), 1e-34, -1e-34]
    rows = np.column_stack([np.tile(tiny, 5), np.repeat([-1.0, -1e-36, 0.0, 1e-36, 1.0], len(tiny))])
    assert np.array_equal(forest.leaves(rows), model.predict(rows, pred_leaf=True))
    assert (forest.leaves(rows[:1]) != forest.leaves([[-1e-34, -1.0]])).any()


def test_lightgbm_missing_type_none_takes_nan_as_zero(lgb: Any) -> None:
    """Whatever the bit of the default direction says."""
    x, y = zeros()
    model = lgb.train(QUIET | {"use_missing": False}, lgb.Dataset(x, y), 4)
    text = model.model_to_string()
    flip = str.maketrans("02", "20")
    flipped = re.sub(r"^decision_type=.*$", lambda line: line[0].translate(flip), text, flags=re.MULTILINE)
    assert flipped != text
    for each in (text, flipped):
        booster = lgb.Booster(model_str=each)
        rows = np.array([[np.nan, 0.3], [0.0, 0.3], [np.nan, np.nan], [0.0, 0.0]])
        leaves = read_trees(booster).leaves(rows)
        assert np.array_equal(leaves[::2], leaves[1::2])
        assert np.array_equal(leaves, booster.predict(rows, pred_leaf=True))


def test_lightgbm_zero_as_missing(lgb: Any) -> None:
    x, y = zeros()
    model = lgb.train(QUIET | {"zero_as_missing": True}, lgb.Dataset(x, y), 6)
    forest = read_trees(model)
    assert 2 in forest.kind
    rng = np.random.default_rng(1)
    rows = rng.choice([0.0, np.nan, 1e-36, -1e-36, 1.0, -1.0, 2.0, 1e-3], (2000, 2))
    assert np.array_equal(forest.leaves(rows), model.predict(rows, pred_leaf=True))


def test_lightgbm_missing_and_unseen_categories_go_right(lgb: Any) -> None:
    frame, y = categories()
    model = lgb.train(QUIET, lgb.Dataset(frame, y), 5)
    forest = read_trees(model)
    assert forest.columns[0].categories == tuple("bcdefg")  # pandas_categorical
    cells = pd.Categorical(["b", None, "new", "g", "new"], categories=["new", *"bcdefg"])
    rows = pd.DataFrame({"c": cells, "v": [0.0] * 5})
    assert np.array_equal(forest.leaves(rows), model.predict(rows, pred_leaf=True))
    x = np.column_stack([frame["c"].cat.codes, frame["v"]]).astype(float)
    model = lgb.train(QUIET, lgb.Dataset(x, y, categorical_feature=[0]), 5)
    x[:300, 0] = np.random.default_rng(0).choice([np.nan, -1, -0.5, 2.7, 99, 1e6], 300)
    assert np.array_equal(read_trees(model).leaves(x), model.predict(x, pred_leaf=True))


def test_lightgbm_linear_trees_are_refused(lgb: Any) -> None:
    frame, y = people()
    model = lgb.train(QUIET | {"linear_tree": True, "objective": "regression"}, lgb.Dataset(frame, y), 2)
    with pytest.raises(UnsupportedOperationError, match="linear trees cannot be read"):
        read_trees(model)


def test_lightgbm_early_stopping_is_asked_for(lgb: Any, tmp_path: Path) -> None:
    frame, y = people()
    test = lgb.Dataset(frame[200:], y[200:])
    model = lgb.train(
        QUIET,
        lgb.Dataset(frame[:200], y[:200]),
        80,
        keep_training_booster=True,
        valid_sets=[test],
        callbacks=[lgb.early_stopping(3, verbose=False)],
    )
    stored, best = model.num_trees(), model.best_iteration
    assert stored > best
    with pytest.raises(NetworkError, match=rf"holds {stored} rounds, and the best one is round {best},"):
        read_trees(model)
    kept = read_trees(model, trees="best")
    assert np.array_equal(kept.leaves(frame), model.predict(frame, pred_leaf=True))
    model.save_model(tmp_path / "m.txt")  # the library itself writes the best rounds only
    assert read_trees(tmp_path / "m.txt").hash() == kept.hash()
    with pytest.raises(NetworkError, match="does not say which round was best"):
        read_trees(tmp_path / "m.txt", trees="best")


def test_lightgbm_sigmoid_and_random_forest(lgb: Any) -> None:
    frame, y = people()
    options = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "sigmoid": 2.0}
    model = lgb.train(QUIET | options, lgb.Dataset(frame, y), 7)
    forest = read_trees(model)
    assert forest.divisor == 7 and forest.link_scale == 2
    assert (np.abs(forest.outputs(frame)[:, 1] - model.predict(frame)) <= forest.output_error(frame)[:, 1]).all()


# -- scikit-learn


def test_sklearn_forests_cast_to_float32() -> None:
    from sklearn.ensemble import RandomForestClassifier

    frame, y = people()
    model = RandomForestClassifier(5, random_state=0).fit(frame, y)
    forest = read_trees(model)
    read, tree = forest.threshold[: forest.root[1]], model.estimators_[0].tree_
    inner = tree.feature >= 0
    assert (read[inner] != tree.threshold[inner]).any()
    rows = []
    for node in np.flatnonzero(inner):
        for value in (read[node], np.nextafter(read[node], np.inf), tree.threshold[node]):
            row = frame.to_numpy()[node % 400].copy()
            row[tree.feature[node]] = value
            rows.append(row)
    table = pd.DataFrame(rows, columns=frame.columns)
    assert np.array_equal(forest.leaves(table), model.apply(table))


def test_histogram_boosting_puts_categories_first() -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame, y = categories()
    frame = frame[["v", "c"]].assign(w=np.arange(len(frame)) % 7.0)
    model = HistGradientBoostingClassifier(max_iter=4, categorical_features=["c"]).fit(frame, y)
    forest = read_trees(model)
    assert [each.coding for each in forest.columns] == ["number", "label", "number"]
    frame["c"] = pd.Categorical(
        frame["c"].astype(object).where(frame.index % 5 > 0, "new"), categories=[*"bcdefg", "new"]
    )
    assert np.abs(forest.outputs(frame) - model.predict_proba(frame)).max() < 1e-12


# -- CatBoost


@pytest.fixture(name="cat")
def _cat() -> Any:
    return pytest.importorskip("catboost", reason="CatBoost is not installed")


OFF = {"verbose": 0, "thread_count": 1, "allow_writing_files": False, "random_seed": 0}


def texts() -> tuple[pd.DataFrame, np.ndarray]:
    frame, y = categories()
    return frame.assign(c=frame["c"].astype(str)), y


def test_catboost_statistics_of_categories_are_refused_with_advice(cat: Any) -> None:
    frame, y = texts()
    model = cat.CatBoostClassifier(iterations=5, one_hot_max_size=2, **OFF).fit(frame, y, cat_features=["c"])
    with pytest.raises(UnsupportedOperationError, match="one_hot_max_size at least as large"):
        read_trees(model)


@pytest.mark.parametrize("mode", ["Min", "Max"])
def test_catboost_nan_mode(cat: Any, mode: str) -> None:
    frame, y = people()
    frame.loc[::5, "a"] = np.nan
    model = cat.CatBoostClassifier(iterations=5, nan_mode=mode, **OFF).fit(frame, y)
    assert np.array_equal(read_trees(model).leaves(frame), model.calc_leaf_indexes(frame))


@pytest.mark.parametrize("policy", ["Depthwise", "Lossguide"])
def test_catboost_categories_in_trees_that_are_not_symmetric(cat: Any, policy: str) -> None:
    frame, y = texts()
    model = cat.CatBoostClassifier(iterations=5, grow_policy=policy, one_hot_max_size=20, **OFF)
    model.fit(frame, y, cat_features=["c"])
    forest = read_trees(model)
    frame.loc[::7, "c"] = "new"
    raw = model.predict(frame, prediction_type="RawFormulaVal")
    assert (np.abs(forest.margins(frame)[:, 0] - raw) <= forest.run_error(frame)[:, 0]).all()


def test_catboost_empty_trees(cat: Any, tmp_path: Path) -> None:
    frame, y = people()
    cat.CatBoostRegressor(iterations=3, **OFF).fit(frame, y).save_model(str(tmp_path / "m.json"), format="json")
    content = json.loads((tmp_path / "m.json").read_text())
    content["oblivious_trees"][1] = {"leaf_values": [0.25], "leaf_weights": [400], "splits": None}
    (tmp_path / "m.json").write_text(json.dumps(content))
    model = cat.CatBoostRegressor().load_model(str(tmp_path / "m.json"), format="json")
    forest = read_trees(tmp_path / "m.json")
    assert (np.abs(forest.margins(frame)[:, 0] - model.predict(frame)) <= forest.run_error(frame)[:, 0]).all()


def test_catboost_binary_is_refused_with_advice(cat: Any, tmp_path: Path) -> None:
    frame, y = people()
    cat.CatBoostClassifier(iterations=2, **OFF).fit(frame, y).save_model(str(tmp_path / "m.cbm"))
    with pytest.raises(FileError, match="format='json'"):
        read_trees(tmp_path / "m.cbm")


# -- other files


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.json"])
def test_pickles_are_refused_whatever_their_name(name: str, tmp_path: Path) -> None:
    import pickle

    (tmp_path / name).write_bytes(pickle.dumps({"learner": 1}))
    with pytest.raises(FileError, match="a pickle is a program"):
        read_trees(tmp_path / name)
