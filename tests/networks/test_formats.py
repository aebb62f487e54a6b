"""Every kind of file: what it predicts, what it must not do, and what a damaged one says."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import re
import warnings
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from isonomy.errors import FileError, IsonomyError, NetworkError, UnsupportedOperationError
from isonomy.networks import Network, load_network
from isonomy.networks.graph import Affine
from isonomy.population.schema import Schema

from .architectures import WIDTH, Written, modules

FILES = Path(__file__).parent / "files"
X = 2 * np.random.default_rng(3).standard_normal((30, 5))


def mlp(*widths: int) -> nn.Sequential:
    torch.manual_seed(1)
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


# -- Keras


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


EMBEDDED = """
[features.age]
kind = "integer"
low = 18
high = 90
[features.sex]
categories = ["female", "male"]
[features.job]
categories = ["clerk", "cook", "judge", "nurse"]
[model.inputs.job]
encode = "index"
categories = ["nurse", "cook", "clerk", "judge"]
"""


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


# -- .nnet


def nnet(path: Path, low: str = "-1,-1,-2,-3,-1", high: str = "1,2,2,3,4") -> tuple[Path, Any]:
    draw = np.random.default_rng(4)
    weights = [draw.standard_normal((6, 5)).round(4), draw.standard_normal((2, 6)).round(4)]
    biases = [draw.standard_normal(6).round(4), draw.standard_normal(2).round(4)]
    mean, span = np.array([0.1, 0.2, 0, -0.5, 1.0, 0.7]), np.array([2.0, 3.0, 4.0, 1.5, 1.0, 1.3])
    lines = ["// a network by hand", "2,5,2,6,", "5,6,2,", "0,", low + ",", high + ","]
    lines += [",".join(map(str, each)) + "," for each in (mean, span)]
    for weight, bias in zip(weights, biases, strict=True):
        lines += [",".join(map(str, row)) + "," for row in weight] + [f"{each}," for each in bias]
    path.write_text("\n".join(lines) + "\n")

    def evaluate(x: Any) -> Any:
        inside = np.clip(x, np.array(low.split(","), dtype=float), np.array(high.split(","), dtype=float))
        hidden = np.maximum((inside - mean[:-1]) / span[:-1] @ weights[0].T + biases[0], 0)
        return (hidden @ weights[1].T + biases[1]) * span[-1] + mean[-1]

    return path, evaluate


@pytest.mark.parametrize("low", ["-1,-1,-2,-3,-1", "-1e38,-1,-2,-1e38,-1", "-inf,-inf,-inf,-inf,-inf"])
def test_nnet_files(low: str, tmp_path: Path) -> None:
    highs = ["1e38" if part in ("-1e38", "-inf") else "2.5" for part in low.split(",")]
    path, evaluate = nnet(tmp_path / "a.nnet", low, ",".join(highs))
    network = load_network(path, head="regression")
    np.testing.assert_allclose(network(X), evaluate(X), atol=1e-9)
    assert load_network(path).head == "softmax"


# -- torch


@pytest.mark.parametrize("prefix", ["", "body."])
def test_state_dicts(prefix: str, tmp_path: Path) -> None:
    module = mlp(5, 7, 6, 2)
    torch.save({prefix + name: each for name, each in module.state_dict().items()}, tmp_path / "m.pt")
    network = load_network(tmp_path / "m.pt", activation="relu")
    np.testing.assert_allclose(network(X), Network.from_torch(module)(X), atol=1e-12)
    torch.save({"state_dict": module.state_dict(), "epoch": 3}, tmp_path / "m.pth")
    np.testing.assert_allclose(load_network(tmp_path / "m.pth", activation="relu")(X), network(X), atol=0)
    with pytest.raises(NetworkError, match="say activation="):
        load_network(tmp_path / "m.pt")
    with pytest.raises(NetworkError, match="activation 'rellu'"):
        load_network(tmp_path / "m.pt", activation="rellu")


def test_layers_go_by_name_and_must_fit(tmp_path: Path) -> None:
    path, draw = tmp_path / "m.pt", np.random.default_rng(0)
    sizes = {"layer2": (6, 7), "layer10": (2, 6), "layer1": (7, 5)}
    state = {f"{name}.weight": torch.from_numpy(draw.standard_normal(size)) for name, size in sizes.items()}
    torch.save(state, path)
    hidden = X
    for name in ("layer1", "layer2", "layer10"):
        hidden = (np.tanh(hidden) if name != "layer1" else hidden) @ state[f"{name}.weight"].numpy().T
    given = load_network(path, activation="tanh").logits(X)
    np.testing.assert_allclose(given, hidden, atol=1e-12)
    torch.save({f"{name}.weight": torch.randn(3, 3) for name in "acb"}, path)
    with pytest.raises(NetworkError, match="in the order of their names and in that of the file"):
        load_network(path, activation="relu")
    torch.save({"a.weight": torch.randn(3, 2), "b.weight": torch.randn(3, 2)}, path)
    with pytest.raises(NetworkError, match="do not follow"):
        load_network(path, activation="relu")
    torch.save(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).state_dict(), path)
    with pytest.raises(NetworkError, match=r"'1\.weight' belongs to no dense layer"):
        load_network(path, activation="relu")


class Aliased(nn.Module):
    """As the code published with the paper has it: the first and the last layer have a name of their own besides."""

    def __init__(self, *widths: int, last_first: bool = False) -> None:
        super().__init__()
        layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
        if last_first:
            self.lf = layers[-1]
        self.l1 = layers[0]
        if not last_first:
            self.lf = layers[-1]
        self.lays = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.lays[:-1]:
            x = torch.relu(layer(x))
        return self.lf(x)


@pytest.mark.parametrize("cloned", [False, True])
@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize("widths", [(5, 7, 2), (5, 7, 7, 2), (5, 7, 7, 7, 7, 2), (5, 7, 6, 1), (5, 2), (5, 7, 5, 7, 2)])
def test_layers_that_have_two_names(widths: tuple[int, ...], last_first: bool, cloned: bool, tmp_path: Path) -> None:
    module, path = Aliased(*widths, last_first=last_first), tmp_path / "m.pt"
    torch.save({name: each.clone() if cloned else each for name, each in module.state_dict().items()}, path)
    head: Any = "regression"
    found = load_network(path, activation="relu", head=head)
    np.testing.assert_allclose(found(X), Network.from_torch(module, head=head)(X), atol=1e-12)
    assert sum(isinstance(node.op, Affine) for node in found.graph.nodes) == len(widths) - 1


def _ambiguous() -> dict[str, nn.Module]:
    twice, identity = nn.Linear(5, 5), nn.Linear(7, 7)
    nn.init.eye_(identity.weight)
    nn.init.zeros_(identity.bias)
    return {
        "a first layer as wide as its input": Aliased(5, 5, 2),
        "a last layer as wide as its input": Aliased(5, 2, 2),
        "a layer that is applied twice": nn.Sequential(twice, nn.ReLU(), twice, nn.ReLU(), nn.Linear(5, 2)),
        "two identities": nn.Sequential(
            nn.Linear(5, 7), nn.ReLU(), identity, nn.ReLU(), copy.deepcopy(identity), nn.ReLU(), nn.Linear(7, 2)
        ),
    }


@pytest.mark.parametrize("name", _ambiguous())
def test_equal_layers_that_may_be_one_or_two(name: str, tmp_path: Path) -> None:
    torch.save(_ambiguous()[name].state_dict(), tmp_path / "m.pt")
    with pytest.raises(NetworkError, match=r"^m\.pt: '.*' and '.*' hold the same parameters, .* use ONNX\.$"):
        load_network(tmp_path / "m.pt", activation="relu")


def test_equal_biases_or_weights_alone_make_no_equal_layers(tmp_path: Path) -> None:
    module = mlp(5, 7, 7, 7, 2)
    with torch.no_grad():
        for layer in (module[2], module[4]):
            layer.bias.zero_()
    torch.save(module.state_dict(), tmp_path / "m.pt")
    found = load_network(tmp_path / "m.pt", activation="relu")
    np.testing.assert_allclose(found(X), Network.from_torch(module)(X), atol=1e-12)
    with torch.no_grad():
        module[4].weight.copy_(module[2].weight)
        module[4].bias[3] = 1.0
    torch.save(module.state_dict(), tmp_path / "m.pt")
    found = load_network(tmp_path / "m.pt", activation="relu")
    np.testing.assert_allclose(found(X), Network.from_torch(module)(X), atol=1e-12)


PT2 = list(modules())


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "name", [name if i % 4 == 0 else pytest.param(name, marks=pytest.mark.slow) for i, name in enumerate(PT2)]
)
def test_exported_programs(name: str, tmp_path: Path) -> None:
    module = modules()[name].eval()
    kind = next(module.parameters()).dtype
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dynamic = ({0: torch.export.Dim("n")},)
        program = torch.export.export(module, (torch.randn(3, WIDTH, dtype=kind),), dynamic_shapes=dynamic)
        torch.export.save(program, tmp_path / "m.pt2")
    x = np.random.default_rng(0).standard_normal((20, WIDTH))
    network = load_network(tmp_path / "m.pt2", head=head_of(module))
    np.testing.assert_allclose(network(x), Network.from_torch(module, width=WIDTH, head=head_of(module))(x), atol=1e-9)


def head_of(module: nn.Module) -> Any:
    try:
        return Network.from_torch(module, width=WIDTH).head
    except NetworkError:
        return "regression"


def test_archives_are_refused_by_layer_and_variant(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    normed = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 2)).eval()
    torch.export.save(torch.export.export(normed, (torch.randn(3, 5),)), path)
    with pytest.raises(UnsupportedOperationError, match=r"m\.pt2: node '1' \(LayerNorm\) is not supported"):
        load_network(path)
    flat = nn.Sequential(nn.Flatten(), nn.Linear(5, 2)).eval()
    torch.export.save(torch.export.export(flat, (torch.randn(3, 5),)), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, re.sub(rb"aten\.(flatten|view|reshape)\.\w+", rb"aten.\1.__init__", content))
    with pytest.raises(UnsupportedOperationError, match="no variant '__init__'"):
        load_network(path)


def test_arguments_that_no_rule_reads_are_refused(tmp_path: Path) -> None:
    """A SELU that torch wrote out is an ELU with a scale; an ELU may also scale its input."""
    path, x = tmp_path / "m.pt2", torch.randn(20, 5)
    module = nn.Sequential(nn.Linear(5, 4), nn.SELU(), nn.Linear(4, 2)).eval()
    torch.export.save(torch.export.export(module, (x,)).run_decompositions(), path)
    np.testing.assert_allclose(load_network(path, head="softmax").logits(x), module(x).detach(), atol=1e-5)
    scaled = Written(lambda self, x: torch.ops.aten.elu(self.first(x), 1.0, 1.0, 0.5)).eval()
    torch.export.save(torch.export.export(scaled, (torch.randn(3, WIDTH),)), path)
    with pytest.raises(UnsupportedOperationError, match="its option 'input_scale' is not supported"):
        load_network(path)


def test_an_archive_that_computes_with_parameters_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    module = Written(lambda self, x: self.first(x) * torch.relu(self.factor)).eval()
    torch.export.save(torch.export.export(module, (torch.randn(3, WIDTH),)), path)
    with pytest.raises(UnsupportedOperationError, match=r"node 'relu' \(relu\): an operation on constants alone"):
        load_network(path)
    assert Network.from_torch(module, width=WIDTH, head="softmax").classes == 6  # torch computes it


# -- skops


@pytest.mark.slow
def test_skops_files(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io", reason="skops files are read with skops")
    schema = Schema.from_toml("[features.a]\nlow = 0\nhigh = 10\n[features.b]\nlow = -5\nhigh = 5\n")
    table = pd.DataFrame(np.random.default_rng(0).uniform([0, -5], [10, 5], (60, 2)), columns=["a", "b"])
    for last in (LogisticRegression(), MLPClassifier((4,), max_iter=5), MLPClassifier((4,), solver="sgd", max_iter=5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make_pipeline(StandardScaler(), last).fit(table, table["a"] > table["b"])
        skops.dump(model, tmp_path / "m.skops")
        network = load_network(tmp_path / "m.skops", schema)
        np.testing.assert_allclose(network(schema.encode(table).x), model.predict_proba(table), atol=1e-9)
    strange = make_pipeline(FunctionTransformer(os.getcwd), LogisticRegression())
    skops.dump(strange, tmp_path / "m.skops")
    with pytest.raises(FileError, match=r"asks for .*getcwd"):
        load_network(tmp_path / "m.skops", schema)


# -- nothing in a file is ever executed


class Malicious:
    """A pickle that leaves a trace when it is opened."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return (Path.touch, (self.trace,))


ENDINGS = (
    *(".onnx", ".h5", ".hdf5", ".keras", ".nnet", ".pt", ".pth", ".pt2", ".skops"),
    *(".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".sav", ".p"),
)


def disguises(trace: Path) -> dict[str, bytes]:
    """One program in many wrappings."""
    program = pickle.dumps(Malicious(trace))
    with_torch, legacy = io.BytesIO(), io.BytesIO()
    torch.save({"a.weight": Malicious(trace)}, with_torch)
    torch.save({"a.weight": Malicious(trace)}, legacy, _use_new_zipfile_serialization=False)
    wrapped = {"plain": program, "torch": with_torch.getvalue(), "legacy": legacy.getvalue()}
    array = io.BytesIO()
    np.save(array, np.array([Malicious(trace)], dtype=object), allow_pickle=True)
    entry = {"path_name": "weight_0", "is_param": True, "use_pickle": True, "tensor_meta": None}
    members = {
        "model.weights.h5": program,
        "config.json": b'{"class_name": "Sequential", "config": {"layers": []}}',
        "schema.json": json.dumps(
            {
                "__class__": "ndarray",
                "__module__": "numpy",
                "__loader__": "NdArrayNode",
                "type": "numpy",
                "file": "a.npy",
                "protocol": 1,
                "_skops_version": "0.16.0",
            }
        ).encode(),
        "a.npy": array.getvalue(),
        "m/models/model.json": b'{"graph_module": {"graph": {}, "signature": {"input_specs": []}}}',
        "m/data/weights/model_weights_config.json": json.dumps({"config": {"a": entry}}).encode(),
        "m/data/weights/weight_0": with_torch.getvalue(),
        "m/data/constants/model_constants_config.json": b'{"config": {}}',
        "m/data/sample_inputs/model.pt": with_torch.getvalue(),
        "data.pkl": program,
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return wrapped | {"archive": archive.getvalue()}


@pytest.mark.some(5)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_in_a_file_is_not_executed(ending: str, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        for name, content in disguises(trace).items():
            path = tmp_path / f"{name}{ending}"
            path.write_bytes(content)
            for schema in (None, Schema.from_toml(EMBEDDED)):
                with pytest.raises(IsonomyError) as caught:
                    load_network(path, schema, activation="relu")
                assert "\n" not in str(caught.value)
    assert not trace.exists()
    pickle.loads(disguises(trace)["plain"])  # the trap works
    assert trace.exists()


def test_pickles_are_refused_with_advice(tmp_path: Path) -> None:
    for ending in (".pkl", ".joblib"):
        with pytest.raises(FileError, match=r"a pickle is a program.*skops"):
            load_network(tmp_path / f"m{ending}")
    torch.save(mlp(5, 3, 2), tmp_path / "m.pt")
    with pytest.raises(FileError, match=r"more than parameters.*state_dict"):
        load_network(tmp_path / "m.pt", activation="relu")
    torch.jit.script(mlp(5, 3, 2)).save(str(tmp_path / "m.pt"))
    with pytest.raises(FileError, match=r"m\.pt"):
        load_network(tmp_path / "m.pt", activation="relu")


# -- damaged files


def sound(ending: str, folder: Path) -> Path:
    path = folder / f"sound{ending}"
    if ending in (".h5", ".keras"):
        pytest.importorskip("h5py", reason="Keras files are read with h5py")
        path.write_bytes((FILES / f"sequential{ending}").read_bytes())
    elif ending == ".nnet":
        nnet(path)
    elif ending == ".pt":
        torch.save(mlp(5, 4, 2).state_dict(), path)
    elif ending == ".pt2":
        torch.export.save(torch.export.export(mlp(5, 4, 2), (torch.randn(3, 5),)), path)
    elif ending == ".skops":
        skops = pytest.importorskip("skops.io", reason="skops files are read with skops")
        skops.dump(LogisticRegression().fit(X, X[:, 0] > 0), path)
    return path


@pytest.mark.some(5)
@pytest.mark.parametrize(
    "ending", [".keras", ".nnet", ".pt", ".pt2", ".skops", pytest.param(".h5", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_say_one_sentence(ending: str, tmp_path: Path) -> None:
    whole = sound(ending, tmp_path).read_bytes()
    load_network(tmp_path / f"sound{ending}", activation="relu")
    draw, path = np.random.default_rng(0), tmp_path / f"broken{ending}"
    cuts = [whole[: int(part * len(whole))] for part in (0, 0.01, 0.1, 0.5, 0.9, 0.99)]
    spoilt = []
    own_process = ending in (".h5", ".keras")  # slower, one process per file
    for _ in range(8 if own_process else 60):
        data = np.frombuffer(whole, dtype=np.uint8).copy()
        at = draw.integers(0, len(data), draw.integers(1, 30))
        data[at] = draw.integers(0, 256, len(at))
        spoilt.append(data.tobytes())
    if zipfile.is_zipfile(tmp_path / f"sound{ending}"):
        spoilt += rezipped(tmp_path / f"sound{ending}", draw)[:: 2 if own_process else 1]
    for content in (*cuts, *spoilt, b"", b"\0" * 64, b"{}", whole[::-1]):
        path.write_bytes(content)
        try:
            load_network(path, activation="relu")
        except IsonomyError as error:
            assert "\n" not in str(error)
            assert "broken" in str(error)


def rezipped(path: Path, draw: np.random.Generator) -> list[bytes]:
    """Archives whose checksums are right, but whose members are not."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    results = []
    for target in list(members) * 3:
        data = np.frombuffer(members[target], dtype=np.uint8).copy()
        if not data.size:
            continue
        at = draw.integers(0, len(data), max(1, min(8, len(data) // 20)))
        data[at] = draw.integers(32, 127, len(at))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, data.tobytes() if name == target else content)
        results.append(buffer.getvalue())
    return results


def test_unknown_endings_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"these are: \.h5, .*\.onnx"):
        load_network(tmp_path / "model.txt")
    with pytest.raises(FileError, match="There is no file"):
        load_network(tmp_path / "model.keras")
    with pytest.raises(FileError, match="boosted trees"):
        load_network(tmp_path / "model.ubj")


@pytest.mark.parametrize("names", [("state_dict", "model"), ("state_dict", "state_dict_ema"), ("model", "ema")])
def test_a_checkpoint_of_two_networks_does_not_say_which(names: tuple[str, str], tmp_path: Path) -> None:
    state = nn.Linear(3, 2).state_dict()
    rest = {"epoch": 3, "optimizer": {"state": {}, "param_groups": []}}
    torch.save({names[0]: state, **rest}, tmp_path / "m.pt")
    assert load_network(tmp_path / "m.pt", head="softmax").input_width == 3
    torch.save({names[0]: state, names[1]: nn.Linear(3, 2).state_dict(), **rest}, tmp_path / "m.pt")
    with pytest.raises(NetworkError, match=f"several state dicts \\('{names[0]}', '{names[1]}'\\)"):
        load_network(tmp_path / "m.pt", head="softmax")


class _ByRows(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * x.shape[0]


def test_an_archive_that_computes_with_the_number_of_rows_is_refused(tmp_path: Path) -> None:
    free = ({0: torch.export.Dim("rows")},)
    torch.export.save(torch.export.export(_ByRows(3, 2), (torch.ones(4, 3),), dynamic_shapes=free), tmp_path / "m.pt2")
    with pytest.raises(NetworkError, match="node 'mul' computes with the number of individuals"):
        load_network(tmp_path / "m.pt2", head="softmax")
