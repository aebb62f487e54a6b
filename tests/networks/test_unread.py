"""Models that cannot be read are refused by what they are, whatever the name of their file."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
    StackingClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from isonomy.errors import FileError, UnsupportedOperationError
from isonomy.networks import Network, load_model, load_network

X = np.random.default_rng(0).standard_normal((60, 3))
Y = (X[:, 0] > 0).astype(int)


def key(name: str) -> bytes:
    """A key of a UBJ object, as XGBoost writes it: the length as a big-endian number of eight bytes."""
    return b"L" + struct.pack(">q", len(name)) + name.encode()


BOOSTED = {
    "XGBoost JSON": b'{"learner":{"attributes":{},"feature_names":[],"gradient_booster":{"model":{"trees":[]}}}}',
    "XGBoost UBJ": b"{" + key("learner") + b"{" + key("gradient_booster") + b"{}}}",
    "XGBoost's old binary format": b"binf" + bytes(200),
    "LightGBM text": b"tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nTree=0\n",
    "LightGBM JSON": b'{\n  "name": "tree",\n  "version": "v4",\n  "tree_info": []\n}',
    "CatBoost binary": b"CBM1" + struct.pack("<I", 40) + bytes(40),
    "CatBoost JSON": b'{\n"features_info": {"float_features": []},\n"model_info": {},\n"oblivious_trees": [{"s": []}]}',
}
ENDINGS = ("json", "ubj", "txt", "model", "bin", "cbm", "lgb", "xgb", "onnx", "pt")


@pytest.mark.parametrize("kind", BOOSTED)
@pytest.mark.parametrize("ending", ENDINGS)
def test_files_of_boosted_trees_are_named(kind: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"model.{ending}"
    path.write_bytes(BOOSTED[kind])
    with pytest.raises(FileError) as error:
        load_network(path)
    said = str(error.value)
    assert said.count(".") >= 1 and "\n" not in said
    assert f"is a gradient-boosted tree ensemble ({kind}): trees are no network: isonomy.load_model(source" in said


def test_a_linear_booster_is_not_called_a_tree(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(b'{"learner":{"gradient_booster":{"model":{"weights":[1.0]},"name":"gblinear"}}}')
    with pytest.raises(FileError, match=r"linear booster.*gblinear") as error:
        load_network(path)
    assert "tree" not in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"layers": []}', b"tree", b"\x08\x07", b'{"trees": "oak"}'])
def test_other_files_are_called_nothing(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(content)
    with pytest.raises(FileError, match="not a kind of network file"):
        load_network(path)


def test_a_file_that_may_not_be_opened_is_left_to_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(b"{}")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(FileError, match="not a kind of network file"):
        load_network(path)


TREES: dict[str, Any] = {
    "tree": DecisionTreeClassifier(),
    "forest": RandomForestRegressor(2),
    "boosted": GradientBoostingClassifier(n_estimators=2),
    "histograms": HistGradientBoostingClassifier(max_iter=2),
}
OTHERS: dict[str, tuple[Any, str]] = {
    "stacked": (StackingClassifier([("a", LogisticRegression())]), "give one of its members"),
    "boosted": (AdaBoostClassifier(LogisticRegression(), n_estimators=2), "give one of its members"),
    "neighbours": (KNeighborsClassifier(algorithm="brute"), "neural networks"),
}


@pytest.mark.parametrize("kind", TREES)
@pytest.mark.parametrize("door", ["live", "pipeline", "skops"])
def test_estimators_of_trees_are_named(kind: str, door: str, tmp_path: Path) -> None:
    model = make_pipeline(StandardScaler(), TREES[kind]) if door == "pipeline" else TREES[kind]
    model.fit(X, Y)
    with pytest.raises((FileError, UnsupportedOperationError), match="made of trees, and trees are no network"):
        if door == "skops":
            skops.io.dump(model, tmp_path / "model.skops")
            load_network(tmp_path / "model.skops")
        else:
            Network.from_sklearn(model, None)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("door", ["live", "skops"])
def test_other_estimators_are_not_called_trees(kind: str, door: str, tmp_path: Path) -> None:
    model, advice = OTHERS[kind]
    model.fit(X, Y)
    with pytest.raises((FileError, UnsupportedOperationError)) as error:
        if door == "skops":
            skops.io.dump(model, tmp_path / "model.skops")
            load_network(tmp_path / "model.skops")
        else:
            Network.from_sklearn(model)
    assert "tree" not in str(error.value)
    assert advice in str(error.value) or door == "skops"  # which may name a part that is no estimator


@pytest.mark.parametrize("module", ["xgboost.sklearn", "xgboost.core", "lightgbm.sklearn", "catboost.core"])
@pytest.mark.parametrize("derived", [False, True])
def test_estimators_of_other_libraries_are_named(module: str, derived: bool) -> None:
    """The libraries are not needed for it: their names are enough, also behind a class of the user's own."""
    own = type("Model", (), {"predict": lambda self, x: x, "__module__": module})
    kind = type("Mine", (own,), {}) if derived else own
    with pytest.raises(UnsupportedOperationError, match="gradient-boosted model, and trees are no network"):
        load_model(kind())
