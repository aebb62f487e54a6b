"""Train the original of a configuration, and say what the library itself makes of rows: leaves and outputs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from tests.trees.configurations import Configuration

ROWS = 10_000
LABELS = ["ash", "birch", "cedar", "elm", "fir", "oak", "a pine of more than sixteen letters"]


def table(rows: int, seed: int, configuration: Configuration) -> pd.DataFrame:
    """Two real numbers of different size, one with many zeros, a whole one, and perhaps categories."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "real": rng.normal(size=rows),
            "large": rng.lognormal(10, 2, rows),
            "zeros": np.where(rng.random(rows) < 0.4, 0.0, rng.normal(size=rows) * 1e-3),
            "whole": rng.integers(0, 80, rows).astype(float),
        }
    )
    if configuration.dtype == "float32":
        frame = frame.astype(np.float32)
    if configuration.missing not in ("none", "zero_as_missing"):
        for name in ("real", "whole"):
            frame.loc[rng.random(rows) < 0.15, name] = np.nan
    if configuration.categories != "none":
        frame["label"] = rng.choice(LABELS, rows)
        frame["code"] = rng.integers(0, 9, rows)
        if configuration.library != "catboost":
            frame["label"] = pd.Categorical(frame["label"], categories=LABELS)
            frame["code"] = pd.Categorical(frame["code"], categories=range(9))
    return frame


def target(frame: pd.DataFrame, kind: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed + 1)
    score = np.nan_to_num(frame["real"].to_numpy(float), nan=1.5) + np.log(frame["large"].to_numpy(float)) / 4 - 2.5
    score = score + (frame["zeros"].to_numpy(float) > 0) - np.nan_to_num(frame["whole"].to_numpy(float), nan=90) / 50
    if "label" in frame:
        score = score + frame["label"].astype(str).str.len().to_numpy() % 3 - (frame["code"].astype(int).to_numpy() % 4)
    score = score + rng.normal(size=len(frame)) / 2
    if kind == "number":
        return score
    cuts = np.quantile(score, [0.5] if kind == "two" else [0.3, 0.7] if kind == "three" else np.arange(0.1, 1, 0.1))
    return np.searchsorted(cuts, score)


class Original:
    """A trained model of a library; ``leaves`` may be numbered anew where ``renumbered``."""

    renumbered = False
    outcome: ClassVar[dict[str, str]] = {
        "binary:logistic": "two",
        "multi:softprob": "three",
        "binary": "two",
        "multiclass": "three",
    }
    outcome |= {"multiclassova": "three", "Logloss": "two", "MultiClass": "three", "two classes": "two"}
    outcome |= {"three classes": "three", "count:poisson": "count", "poisson": "count"}

    def __init__(self, configuration: Configuration) -> None:
        self.asked = configuration
        self.frame = table(600, 0, configuration)
        self.y = target(self.frame, self.outcome.get(configuration.objective, "number"), 0)
        self.fit()

    def fit(self) -> None:
        raise NotImplementedError

    def source(self) -> Any:
        return self.model

    def rows(self, forest: Any) -> pd.DataFrame:
        """Rows of which every threshold (the library's and the reader's) and its neighbours in both widths are some."""
        values = self.values(forest)
        count = max(ROWS, 2 * max((len(each) for each in values.values()), default=0))
        frame = table(count, 7, self.asked)
        rng = np.random.default_rng(3)
        for name, each in values.items():
            frame[name] = frame[name].astype(np.float64)
            frame.loc[rng.choice(count, len(each), replace=False), name] = each
        if self.asked.missing != "none":
            for name in ("large", "zeros"):
                frame.loc[rng.random(count) < 0.03, name] = np.nan
        if self.asked.dtype == "float32":
            frame = frame.astype(dict.fromkeys(values, np.float32))
        return frame

    def values(self, forest: Any) -> dict[str, np.ndarray]:
        own = self.thresholds()
        found = {}
        for j, column in enumerate(forest.columns):
            if column.coding == "number":
                read = forest.threshold[forest.feature == j]
                single = np.unique(np.concatenate([read, np.asarray(own.get(column.name, []), dtype=float)]))
                found[column.name] = neighbours(single[np.isfinite(single)])
        return found

    def thresholds(self) -> dict[str, Any]:
        return {}


def neighbours(points: np.ndarray) -> np.ndarray:
    single = points[np.abs(points) < 1e38].astype(np.float32)
    around = [np.nextafter(single, np.float32(side)) for side in (-np.inf, np.inf)]
    double = [points, *(np.nextafter(points, side) for side in (-np.inf, np.inf))]
    return np.unique(np.concatenate([*double, single.astype(float), *(each.astype(float) for each in around)]))


class XGBoost(Original):
    def fit(self) -> None:
        xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed")
        kind = xgboost.XGBRegressor if self.asked.objective.startswith(("reg", "count")) else xgboost.XGBClassifier
        few = {"one-hot": 100, "partition": 1}.get(self.asked.categories, 4)
        self.model = kind(
            objective=self.asked.objective, n_estimators=12, max_depth=self.asked.depth, enable_categorical=few != 4,
            max_cat_to_onehot=few, n_jobs=1, learning_rate=0.4, tree_method="hist" if few != 4 else "exact",
        ).fit(self.frame, self.y)  # fmt: skip

    def thresholds(self) -> dict[str, Any]:
        dump = self.model.get_booster().trees_to_dataframe()
        return {name: each["Split"].dropna().to_numpy() for name, each in dump.groupby("Feature")}

    def leaves(self, rows: pd.DataFrame) -> Any:
        return self.model.apply(rows).reshape(len(rows), -1)

    def margins(self, rows: pd.DataFrame) -> Any:
        return self.model.predict(rows, output_margin=True).reshape(len(rows), -1)

    def outputs(self, rows: pd.DataFrame) -> Any:
        predict = getattr(self.model, "predict_proba", self.model.predict)
        return predict(rows).reshape(len(rows), -1)


class LightGBM(Original):
    def fit(self) -> None:
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        options = {"zero_as_missing": {"zero_as_missing": True}, "use_missing=false": {"use_missing": False}}
        several = {"num_class": 3} if self.asked.objective.startswith("multi") else {}
        self.model = lightgbm.train(
            {"objective": self.asked.objective, "max_depth": self.asked.depth, "num_leaves": 31, "min_data_in_leaf": 3,
             "verbose": -1, "num_threads": 1, "min_data_per_group": 5, "seed": 0, "deterministic": True}
            | several | options.get(self.asked.missing, {}),
            lightgbm.Dataset(self.frame, self.y), 12,
        )  # fmt: skip

    def rows(self, forest: Any) -> pd.DataFrame:
        rows = super().rows(forest)
        tiny = [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, *(np.float32(each) for each in (1e-35, -1e-35))]
        rows.loc[: 3 * len(tiny) - 1, "zeros"] = np.repeat(np.array(tiny, dtype=float), 3)
        if "label" in rows:
            known = pd.Categorical(rows["label"].astype(object), categories=[*LABELS, "new"])
            known[::17], known[::13] = "new", np.nan
            rows["label"] = known
        return rows

    def thresholds(self) -> dict[str, Any]:
        dump = self.model.trees_to_dataframe()
        splits = dump[dump["decision_type"] == "<="]
        return {name: each["threshold"].astype(float).to_numpy() for name, each in splits.groupby("split_feature")}

    def leaves(self, rows: pd.DataFrame) -> Any:
        return self.model.predict(rows, pred_leaf=True).reshape(len(rows), -1)

    def margins(self, rows: pd.DataFrame) -> Any:
        return self.model.predict(rows, raw_score=True).reshape(len(rows), -1)

    def outputs(self, rows: pd.DataFrame) -> Any:
        found = self.model.predict(rows).reshape(len(rows), -1)
        return np.column_stack([1 - found, found]) if self.asked.objective == "binary" else found


class CatBoost(Original):
    def fit(self) -> None:
        catboost = pytest.importorskip("catboost", reason="CatBoost is not installed")
        kind = catboost.CatBoostRegressor if self.asked.objective == "RMSE" else catboost.CatBoostClassifier
        self.renumbered = self.asked.model != "SymmetricTree"
        self.model = kind(
            iterations=12, depth=self.asked.depth, one_hot_max_size=20, verbose=0, thread_count=1, random_seed=0,
            allow_writing_files=False, grow_policy=self.asked.model, loss_function=self.asked.objective,
            nan_mode={"none": "Min"}.get(self.asked.missing, self.asked.missing),
        ).fit(self.frame, self.y, cat_features=["label", "code"] if "label" in self.frame else None)  # fmt: skip

    def rows(self, forest: Any) -> pd.DataFrame:
        rows = super().rows(forest)
        if "label" in rows:
            rows.loc[::17, "label"] = "new"
        return rows

    def thresholds(self) -> dict[str, Any]:
        return {self.frame.columns[i]: borders for i, borders in self.model.get_borders().items()}

    def leaves(self, rows: pd.DataFrame) -> Any:
        return self.model.calc_leaf_indexes(rows)

    def margins(self, rows: pd.DataFrame) -> Any:
        return np.asarray(self.model.predict(rows, prediction_type="RawFormulaVal")).reshape(len(rows), -1)

    def outputs(self, rows: pd.DataFrame) -> Any:
        predict = getattr(self.model, "predict_proba", self.model.predict)
        return predict(rows).reshape(len(rows), -1)


class Sklearn(Original):
    def fit(self) -> None:
        from sklearn import ensemble, tree

        kind = "Regressor" if self.asked.objective in ("number", "poisson") else "Classifier"
        options: dict[str, Any] = {"max_depth": self.asked.depth, "random_state": 0}
        if self.asked.model in ("RandomForest", "ExtraTrees"):
            options |= {"n_estimators": 6}
        elif self.asked.model == "GradientBoosting":
            options |= {"n_estimators": 8}
        elif self.asked.model == "HistGradientBoosting":
            options |= {"max_iter": 8, "min_samples_leaf": 4}
            options |= {"loss": "poisson"} if self.asked.objective == "poisson" else {}
            options |= {"categorical_features": ["label", "code"]} if "label" in self.frame else {}
        name = f"{self.asked.model}{kind}"
        self.model = getattr(ensemble, name, None) or getattr(tree, name)
        self.model = self.model(**options).fit(self.frame, self.y)

    def rows(self, forest: Any) -> pd.DataFrame:
        rows = super().rows(forest)
        if "label" in rows:
            known = pd.Categorical(rows["label"].astype(object), categories=[*LABELS, "new"])
            known[::17], known[::13] = "new", np.nan
            rows["label"] = known
        return rows

    def thresholds(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        members = getattr(self.model, "estimators_", [self.model])
        for member in np.ravel(members):
            if hasattr(member, "tree_"):
                for i, name in enumerate(self.frame):
                    found.setdefault(name, []).extend(member.tree_.threshold[member.tree_.feature == i])
        return found

    def leaves(self, rows: pd.DataFrame) -> Any:
        if not hasattr(self.model, "apply"):
            return None
        return np.asarray(self.model.apply(rows)).reshape(len(rows), -1)

    def tree_values(self, rows: pd.DataFrame) -> Any:
        """Of histogram boosting, which numbers no leaves, the value of each tree."""
        encoded = self.model._preprocess_X(rows, reset=False)
        known, places = self.model._bin_mapper.make_known_categories_bitsets()
        return np.column_stack(
            [each.predict(encoded, known, places, 1) for row in self.model._predictors for each in row]
        )

    def margins(self, rows: pd.DataFrame) -> Any:
        return None

    def outputs(self, rows: pd.DataFrame) -> Any:
        predict = getattr(self.model, "predict_proba", self.model.predict)
        return predict(rows).reshape(len(rows), -1)


def original(configuration: Configuration) -> Any:
    if configuration.library == "onnx":
        from tests.trees.onnx_originals import Onnx

        return Onnx(configuration)
    kinds = {"xgboost": XGBoost, "lightgbm": LightGBM, "catboost": CatBoost, "sklearn": Sklearn}
    return kinds[configuration.library](configuration)
