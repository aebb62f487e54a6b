"""The files that the pages speak of, as a reader would bring them."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with people.csv, model.onnx (a whole pipeline) and model.keras (on columns that are scaled already)."""
    folder = tmp_path_factory.mktemp("reader")
    people, approved = table()
    people.assign(approved=approved).to_csv(folder / "people.csv", index=False)
    (folder / "model.onnx").write_bytes(pipeline_file(people, approved))
    write_keras(folder / "model.keras", width=7)
    return folder


def table(n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "age": rng.integers(18, 75, n),
            "sex": rng.choice(["female", "male"], n),
            "income": np.round(rng.gamma(4, 9000, n), 2),
            "town": rng.choice(["Leeds", "York", "Hull"], n),
        }
    )
    score = (people["age"] - 40) / 20 + (people["income"] - 36000) / 20000 + 0.7 * (people["sex"] == "male")
    return people, np.where(score + rng.normal(0, 0.5, n) > 0.3, "yes", "no")


def pipeline_file(people: pd.DataFrame, approved: np.ndarray) -> bytes:
    from skl2onnx import to_onnx

    columns = make_column_transformer((StandardScaler(), ["age", "income"]), (OneHotEncoder(), ["sex", "town"]))
    model = make_pipeline(columns, MLPClassifier((6,), max_iter=100, learning_rate_init=0.02, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(people, approved)
    onnx: Any = to_onnx(model, people[:1], options={"zipmap": False})
    return bytes(onnx.SerializeToString())


def write_keras(path: Path, width: int) -> None:
    """What Keras 3 writes for Dense(4, relu), Dense(1, sigmoid), without Keras."""
    import h5py

    rng = np.random.default_rng(0)

    def dense(name: str, units: int, activation: str) -> dict[str, Any]:
        config = {"name": name, "trainable": True, "units": units, "activation": activation, "use_bias": True}
        return {"module": "keras.layers", "class_name": "Dense", "config": config, "registered_name": None}

    start = {"class_name": "InputLayer", "config": {"batch_shape": [None, width], "name": "start"}}
    layers = [start, dense("dense", 4, "relu"), dense("dense_1", 1, "sigmoid")]
    config = {"module": "keras", "class_name": "Sequential", "config": {"name": "model", "layers": layers}}
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        for name, shape in (("dense", (width, 4)), ("dense_1", (4, 1))):
            file[f"layers/{name}/vars/0"] = rng.standard_normal(shape).astype(np.float32)
            file[f"layers/{name}/vars/1"] = rng.standard_normal(shape[1]).astype(np.float32)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.5.0"}))
        archive.writestr("model.weights.h5", weights.getvalue())
