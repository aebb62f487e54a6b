"""Ten kinds of models as their users fit and export them: the live object, its file, and what it predicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

KINDS = [
    "logistic regression", "random forest", "HistGradientBoosting", "XGBoost", "LightGBM", "CatBoost", "MLP", "ONNX",
    "torch", "anything",
]  # fmt: skip


@dataclass(frozen=True)
class Fitted:
    """A fitted model: the object, what it predicts for rows of the raw table, and its file where it has one."""

    model: Any
    predict: Callable[[pd.DataFrame], np.ndarray]
    save: Callable[[Path], Path] | None


def texts_of(x: pd.DataFrame) -> list[str]:
    return [name for name in x.columns if not pd.api.types.is_numeric_dtype(x[name])]


def columns_of(x: pd.DataFrame) -> Any:
    """Impute and scale numbers, one-hot encode texts: the first half of most pipelines."""
    texts = texts_of(x)
    numbers = [name for name in x.columns if name not in texts]
    scaled = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    return make_column_transformer((scaled, numbers), (OneHotEncoder(handle_unknown="ignore"), texts))


def fit(kind: str, x: pd.DataFrame, y: pd.Series) -> Fitted:
    """Fit a model of a kind; ``predict`` gives the probability of the second class, or the number."""
    makers = {
        "logistic regression": lambda: make_pipeline(columns_of(x), LogisticRegression()),
        "random forest": lambda: make_pipeline(columns_of(x), RandomForestClassifier(8, max_depth=4, random_state=0)),
        "MLP": lambda: make_pipeline(columns_of(x), _perceptron()),
        "ONNX": lambda: make_pipeline(columns_of(x), _perceptron()),
        "regression": lambda: make_pipeline(columns_of(x), Ridge()),
    }
    if kind in makers:
        model = makers[kind]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x, y)
        score = model.predict if kind == "regression" else lambda rows: model.predict_proba(rows)[:, 1]
        save = (lambda folder: _onnx(model, x, folder)) if kind == "ONNX" else lambda folder: _skops(model, folder)
        return Fitted(model, lambda rows: score(rows[list(x.columns)]), save)
    return {"torch": _torch, "anything": _anything}.get(kind, lambda x, y: _boosted(kind, x, y))(x, y)


def _perceptron() -> Any:
    return MLPClassifier((6,), max_iter=60, learning_rate_init=0.02, random_state=0)


def _boosted(kind: str, x: pd.DataFrame, y: pd.Series) -> Fitted:
    texts = texts_of(x)
    levels = {name: pd.CategoricalDtype(sorted(x[name].unique())) for name in texts}
    typed = {} if kind == "CatBoost" else levels
    if kind == "HistGradientBoosting":
        model = HistGradientBoostingClassifier(max_iter=12, max_leaf_nodes=6, categorical_features="from_dtype")
        save = lambda folder: _skops(model, folder)  # noqa: E731
    elif kind == "XGBoost":
        model = pytest.importorskip("xgboost").XGBClassifier(
            n_estimators=12, max_depth=3, enable_categorical=True, n_jobs=1
        )
        y = y == sorted(y.unique())[1]  # XGBoost takes numbers
        save = lambda folder: _saved(model.save_model, folder / "model.json")  # noqa: E731
    elif kind == "LightGBM":
        model = pytest.importorskip("lightgbm").LGBMClassifier(n_estimators=12, num_leaves=6, verbose=-1, n_jobs=1)
        save = lambda folder: _saved(model.booster_.save_model, folder / "model.txt")  # noqa: E731
    else:
        model = pytest.importorskip("catboost").CatBoostClassifier(
            iterations=12, depth=3, one_hot_max_size=255, cat_features=texts, verbose=0, thread_count=1,
            allow_writing_files=False,
        )  # fmt: skip
        save = lambda folder: _saved(lambda p: model.save_model(p, format="json"), folder / "model.json")  # noqa: E731
    model.fit(x.astype(typed), y)
    return Fitted(model, lambda rows: model.predict_proba(rows[list(x.columns)].astype(typed))[:, 1], save)


def _torch(x: pd.DataFrame, y: pd.Series) -> Fitted:
    """A network on columns that were scaled and encoded before: the weights of a perceptron, exported for others."""
    torch = pytest.importorskip("torch")
    columns = columns_of(x)
    encoded = torch.tensor(np.asarray(columns.fit_transform(x), dtype=np.float32))
    wanted = torch.tensor((y == sorted(y.unique())[1]).to_numpy(dtype=np.float32))
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(encoded.shape[1], 6), torch.nn.ReLU(), torch.nn.Linear(6, 1), torch.nn.Sigmoid()
    )
    steps = torch.optim.Adam(module.parameters(), lr=0.03)
    for _ in range(60):
        steps.zero_grad()
        torch.nn.functional.binary_cross_entropy(module(encoded)[:, 0], wanted).backward()
        steps.step()

    def predict(rows: pd.DataFrame) -> np.ndarray:
        with torch.no_grad():
            given = np.asarray(columns.transform(rows[list(x.columns)]), dtype=np.float32)
            return np.asarray(module(torch.tensor(given))[:, 0])

    def save(folder: Path) -> Path:
        rows = torch.export.Dim("rows")
        exported = torch.export.export(module, (encoded[:2],), dynamic_shapes=({0: rows},))
        return _saved(lambda path: torch.export.save(exported, path), folder / "model.pt2")

    return Fitted(module, predict, save)


class Points:
    """A model of which nothing is known but that it predicts: points of a credit desk, on raw rows."""

    def __init__(self, names: list[str], classes: list[Any]) -> None:
        self.feature_names_in_, self.classes_ = np.array(names, dtype=object), np.array(classes)

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        points = np.zeros(len(rows))
        for name in self.feature_names_in_:
            column = rows[name]
            if pd.api.types.is_numeric_dtype(column):
                points += np.nan_to_num(column.to_numpy(dtype=float)) / 100 ** (len(str(name)) % 2)
            else:
                points += np.array([3.0 * (len(str(value)) % 2) for value in column])
        yes = 1 / (1 + np.exp(-(points - 40) / 12))
        return np.column_stack([1 - yes, yes])


def _anything(x: pd.DataFrame, y: pd.Series) -> Fitted:
    model = Points(list(x.columns), sorted(y.unique()))
    return Fitted(model, lambda rows: model.predict_proba(rows)[:, 1], None)


def _skops(model: Any, folder: Path) -> Path:
    import skops.io

    return _saved(lambda path: skops.io.dump(model, path), folder / "model.skops")


def _onnx(model: Any, x: pd.DataFrame, folder: Path) -> Path:
    from skl2onnx import to_onnx

    numbers = dict.fromkeys(x.columns.difference(texts_of(x)), float)  # its imputer takes columns of one type
    onnx: Any = to_onnx(model, x[:1].astype(numbers), options={"zipmap": False})
    return _saved(lambda path: Path(path).write_bytes(onnx.SerializeToString()), folder / "model.onnx")


def _saved(write: Callable[[str], Any], path: Path) -> Path:
    write(str(path))
    return path
