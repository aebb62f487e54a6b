"""Keras files: what they predict, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import FileError, NetworkError, UnsupportedOperationError
from isonomy.networks import load_network
from isonomy.population.schema import Schema

from .stored import EMBEDDED, FILES, X


@pytest.fixture
def h5py() -> Any:
    return pytest.importorskip("h5py", reason="Keras files are read with h5py")


@pytest.mark.parametrize("kind", ["sequential", "functional"])
@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_keras_files(kind: str, ending: str, h5py: Any) -> None:
    stored = np.load(FILES / "keras.npz")
    network = load_network(FILES / f"{kind}.{ending}")
    given, expected = network(stored["x"]), stored[kind]
    assert network.head == ("softmax" if kind == "sequential" else "sigmoid")
    np.testing.assert_allclose(given[:, -expected.shape[1] :], expected, atol=1e-6)


@pytest.mark.parametrize("ending", ["h5", "keras"])
def test_keras_embeddings_read_raw_columns(ending: str, h5py: Any) -> None:
    stored, schema = np.load(FILES / "keras.npz"), Schema.from_toml(EMBEDDED)
    frame = pd.DataFrame(
        {
            "age": stored["age"][:, 0].astype(int),
            "sex": np.array(["female", "male"])[stored["sex"][:, 0]],
            "job": np.array(["nurse", "cook", "clerk", "judge"])[stored["job"][:, 0]],
        }
    )
    network = load_network(FILES / f"embedded.{ending}", schema)
    np.testing.assert_allclose(network(schema.encode(frame).x), stored["embedded"], atol=1e-6)
    with pytest.raises(NetworkError, match="several inputs"):
        load_network(FILES / f"embedded.{ending}")


def keras_two(h5py: Any, path: Path, layers: list[Any], weights: dict[str, list[Any]]) -> Path:
    """A file as Keras 2 writes it: names end in ``:0``, and texts are bytes."""
    with h5py.File(path, "w") as file:
        for layer in layers:
            layer["config"]["trainable"] = True
        config = {"class_name": "Sequential", "config": {"name": "model", "layers": layers}}
        file.attrs["model_config"] = json.dumps(config).encode()
        file.attrs["keras_version"] = b"2.11.0"
        root = file.create_group("model_weights")
        root.attrs["layer_names"] = [layer["config"]["name"].encode() for layer in layers]
        for layer in layers:
            name = layer["config"]["name"]
            group = root.create_group(name)
            names = ("kernel:0", "bias:0", "moving_mean:0", "moving_variance:0")
            full = [f"{name}/{leaf}" for leaf in names][: len(weights.get(name, []))]
            group.attrs["weight_names"] = np.array([each.encode() for each in full])
            for each, array in zip(full, weights.get(name, []), strict=True):
                group.create_dataset(each, data=array)
    return path


def dense(name: str, units: int, activation: str = "linear", **options: Any) -> dict[str, Any]:
    return {"class_name": "Dense", "config": {"name": name, "units": units, "activation": activation} | options}


def test_keras_two_files(tmp_path: Path, h5py: Any) -> None:
    draw = np.random.default_rng(0)
    w = [draw.standard_normal(shape).astype(np.float32) for shape in ((5, 4), (4,), (4, 3), (3,))]
    statistics = [draw.random(4).astype(np.float32) + 0.5 for _ in range(4)]
    layers = [
        dense("a", 4, batch_input_shape=[None, 5]),
        {"class_name": "BatchNormalization", "config": {"name": "norm", "axis": [1], "epsilon": 0.001}},
        {"class_name": "LeakyReLU", "config": {"name": "leaky", "alpha": 0.25}},
        {"class_name": "Dropout", "config": {"name": "drop", "rate": 0.5}},
        dense("b", 3),
        {"class_name": "Activation", "config": {"name": "act", "activation": "softmax"}},
    ]
    path = keras_two(h5py, tmp_path / "two.h5", layers, {"a": w[:2], "norm": statistics, "b": w[2:]})
    hidden = X @ w[0] + w[1]
    hidden = (hidden - statistics[2]) / np.sqrt(statistics[3] + 0.001) * statistics[0] + statistics[1]
    logits = np.where(hidden > 0, hidden, 0.25 * hidden) @ w[2] + w[3]
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(load_network(path)(X), expected, atol=1e-6)


def test_keras_options_that_change_a_layer(tmp_path: Path, h5py: Any) -> None:
    """``channels_first`` turns what it flattens; what is not known may do anything."""
    shape = {"class_name": "Reshape", "config": {"name": "shape", "target_shape": [2, 2]}}
    flat = {"class_name": "Flatten", "config": {"name": "flat", "data_format": "channels_first"}}
    path = tmp_path / "two.h5"
    first, weights = dense("a", 4, batch_input_shape=[None, 5]), [np.ones((5, 4)), np.ones(4)]
    keras_two(h5py, path, [first, shape, flat], {"a": weights})
    with pytest.raises(UnsupportedOperationError, match="channels_last"):
        load_network(path)
    keras_two(h5py, path, [first | {"config": first["config"] | {"twist": 2}}], {"a": weights})
    with pytest.raises(UnsupportedOperationError, match=r"layer 'a' \(Dense\): its option 'twist' is not supported"):
        load_network(path)


@pytest.mark.parametrize(
    ("kind", "options", "weights"),
    [
        ("Dense", {"lora_rank": 4}, [np.ones((4, 2)), np.ones(2)]),
        ("Dense", {"quantization_config": {"mode": 8}}, [np.ones((4, 2)), np.ones(2)]),
        ("BatchNormalization", {"renorm": True}, [np.ones(4)] * 4),
        ("Normalization", {"invert": True, "mean": [0.0], "variance": [1.0]}, []),
        ("ReLU", {"threshold": 1.0}, []),
        ("Activation", {"threshold": 1.0}, []),  # by the record of a layer
    ],
)
def test_keras_options_that_no_rule_reads(
    tmp_path: Path, h5py: Any, kind: str, options: dict[str, Any], weights: list[Any]
) -> None:
    name, record = next(iter(options)), {"class_name": "ReLU", "config": options}
    config = {"name": "b"} | ({"activation": record} if kind == "Activation" else options)
    layers = [dense("a", 4, batch_input_shape=[None, 5]), {"class_name": kind, "config": config}]
    keras_two(h5py, tmp_path / "two.h5", layers, {"a": [np.ones((5, 4)), np.ones(4)], "b": weights})
    with pytest.raises(UnsupportedOperationError, match=rf"layer 'b' .*: its option '{name}' is not supported"):
        load_network(tmp_path / "two.h5")


def functional(h5py: Any, path: Path, call: Any, **options: Any) -> Path:
    """A dense layer, then a sum that is called in some way."""
    keras_two(h5py, path, [dense("a", 2)], {"a": [np.ones((5, 2)), np.ones(2)]})
    tensor = {"class_name": "__keras_tensor__", "config": {"keras_history": ["a", 0, 0]}}
    start = {"class_name": "__keras_tensor__", "config": {"keras_history": ["in", 0, 0]}}
    layers = [
        {"class_name": "InputLayer", "config": {"name": "in", "batch_shape": [None, 5]}, "inbound_nodes": []},
        dense("a", 2, trainable=True) | {"inbound_nodes": [{"args": [start], "kwargs": {}}]},
        {"class_name": "Add", "config": {"name": "sum", "trainable": True}, "inbound_nodes": [call(tensor)]} | options,
    ]
    config = {"layers": layers, "input_layers": [["in", 0, 0]], "output_layers": [["sum", 0, 0]]}
    with h5py.File(path, "a") as file:
        file.attrs["model_config"] = json.dumps({"class_name": "Functional", "config": config})
    return path


def test_keras_calls_that_hide_something(tmp_path: Path, h5py: Any) -> None:
    path = tmp_path / "f.h5"
    given = load_network(functional(h5py, path, lambda t: {"args": [[t, t]], "kwargs": {}})).logits(X)
    np.testing.assert_allclose(given, 2 * (X.sum(1, keepdims=True) + 1) * np.ones((1, 2)), atol=1e-12)
    for call in (
        lambda t: {"args": [t, 2.0], "kwargs": {}},
        lambda t: {"args": [[t, t]], "kwargs": {"training": True}},
        lambda t: {"args": [t], "kwargs": {}},
    ):
        with pytest.raises(NetworkError, match=r"is called with|needs two tensors"):
            load_network(functional(h5py, path, call))
    plain = {"args": [[], []], "kwargs": {}}
    for options in ({"module": "other.layers"}, {"registered_name": "Custom>Add"}, {"config": {"name": "sum"}}):
        with pytest.raises(UnsupportedOperationError, match=r"not a layer"):
            load_network(functional(h5py, path, lambda t: plain, **options))


def test_keras_refusals(tmp_path: Path, h5py: Any) -> None:
    code = {"class_name": "Lambda", "config": {"name": "run", "function": "4wEAAAA="}}
    weights = {"a": [np.ones((5, 2)), np.ones(2)]}
    start = dense("a", 2, batch_input_shape=[None, 5])
    with pytest.raises(UnsupportedOperationError, match=r"layer 'run' \(Lambda\).*Dense"):
        load_network(keras_two(h5py, tmp_path / "x.h5", [start, code], weights))
    strange = dense("a", 2, "mish", batch_input_shape=[None, 5])
    with pytest.raises(UnsupportedOperationError, match="activation 'mish'"):
        load_network(keras_two(h5py, tmp_path / "x.h5", [strange], weights))
    path = keras_two(h5py, tmp_path / "x.h5", [start], weights)
    with h5py.File(path, "a") as file:
        del file["model_weights/a/a/kernel:0"]
        file["model_weights/a/a/kernel:0"] = h5py.ExternalLink("other.h5", "secret")
    with pytest.raises(FileError, match=r"x\.h5: .* is a link"):
        load_network(path)
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.create_group("layers")
    with pytest.raises(FileError, match="weights without their network"):
        load_network(tmp_path / "w.h5")
