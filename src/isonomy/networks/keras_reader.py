"""Read dense Keras networks, ``.h5`` and ``.keras``, without Keras or TensorFlow.

Both formats hold a description of the layers (JSON) and their weights (HDF5). The description is interpreted from the
inputs to one output by the table ``_LAYERS``; with a schema an embedding reads a raw column.

**Safety.** Nothing in the file is executed: a ``Lambda`` layer or a custom one is refused by its name, and weights
that HDF5 would fetch from another file are refused. The HDF5 library runs in a process of its own, with a time limit.
**Soundness.** A layer is read by its name and its whole meaning, exactly its function at prediction time in real
arithmetic: an option that changes it and is not known here is refused.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.errors import FileError, NetworkError, UnsupportedOperationError
from isonomy.networks import operations
from isonomy.networks.builder import Builder, ReadModel, Value
from isonomy.networks.graph import Constant, HeadChoice
from isonomy.networks.inputs import ReaderContext, feed
from isonomy.networks.limits import read_member, reading
from isonomy.networks.operations import Call, Rule, elementwise, identity, rule
from isonomy.networks.preprocessing import Table
from isonomy.population.toml import TEXT, read_json

_SECONDS = 60  # for the HDF5 library

# Options that say how a layer is called, made or trained, not what it does.
_TRAINING = ("_initializer", "_regularizer", "_constraint", "_shape")
_HARMLESS = (
    *("name", "trainable", "dtype", "optional", "ragged", "sparse", "seed", "rate", "stddev", "l1", "l2"),
    *("units", "momentum", "fused", "synchronized", "input_dim", "output_dim", "input_length", "mask_zero"),
    *("renorm_momentum", "renorm_clipping", "virtual_batch_size", "shared_axes"),
)


def read_keras(path: Path, given: ReaderContext, head: HeadChoice, output: str | None) -> ReadModel:
    """Return the graph of a Keras file up to its raw outputs, and its head."""
    limit = given.allowance.unpacked
    if path.suffix.lower() == ".keras":
        with zipfile.ZipFile(path) as archive:
            config = read_json(read_member(archive, "config.json", TEXT), "Its description")
            stored = _read_hdf5(read_member(archive, "model.weights.h5", limit), limit)
        layers = _weights_by_class(stored, _read_layers(config))
    else:
        stored = _read_hdf5(path, limit)
        written = stored.text("", "model_config")
        if not isinstance(written, str):
            raise FileError(f"'{path}' holds weights without their network; save the model with model.save(path).")
        config = read_json(written, "Its description")
        layers = [_weighted_by_name(stored, layer) for layer in _read_layers(config)]
    model = _Model(config, layers, given)
    return model.builder.finish(model.output(output), head)


@dataclass(frozen=True)
class _Layer:
    """A layer's name, class and options, and for each of its uses the tensors ``(layer, use)`` that it reads."""

    name: str
    kind: str
    config: Mapping[str, Any]
    inbound: tuple[tuple[tuple[str, int], ...], ...] = ()
    weights: tuple[Constant, ...] = ()  # in the order of the file


class _Model:
    """Layers by name, and the tensors that they give."""

    def __init__(self, config: Mapping[str, Any], layers: list[_Layer], given: ReaderContext) -> None:
        self.layers = {layer.name: layer for layer in layers}
        self.waiting = set[tuple[str, int]]()
        inner = config["config"] if isinstance(config["config"], Mapping) else {}
        self.ends = [(layers[-1].name, 0)]
        inputs = layers[:1]
        if config["class_name"] != "Sequential":
            self.ends = _tensor_references(inner.get("output_layers", []))
            chosen = [name for name, _ in _tensor_references(inner.get("input_layers") or [])]
            inputs = [layer for layer in layers if layer.kind == "InputLayer" and layer.name in (chosen or self.layers)]
        shapes = {layer.name: _input_shape(layer, layers) for layer in inputs}
        self.builder, fed = feed(shapes, given)
        self.known = {(name, 0): operand for name, operand in fed.items()}

    def output(self, wanted: str | None) -> Value:
        """Return the tensor of the last layer, or of the ``wanted`` output."""
        named = {name: (name, node) for name, node in self.ends}
        if len(self.ends) > 1 and wanted not in named:
            raise NetworkError(f"there are several outputs; say output= one of {', '.join(map(repr, named))}.")
        if not self.ends or (wanted is not None and wanted not in named):
            raise NetworkError(f"there is no output '{wanted}'." if wanted else "it has no output.")
        result: Value = self.builder.numeric(self._value(*(named[wanted] if wanted else self.ends[0])))
        return result

    def _value(self, name: str, node: int) -> Value | Table:
        """Return the tensor that a layer gives at one of its uses."""
        key = (name, node)
        if key not in self.known:
            layer = self.layers.get(name)
            if layer is None or key in self.waiting or not 0 <= node < len(layer.inbound):
                raise NetworkError(f"its layers are not connected: '{name}' cannot be reached.")
            self.waiting.add(key)
            self.known[key] = self._applied(layer, [self._value(*each) for each in layer.inbound[node]])
        return self.known[key]

    def _applied(self, layer: _Layer, read: list[Value | Table]) -> Any:
        self.builder.at = layer.name
        with reading(f"layer '{layer.name}' ({layer.kind})"):
            if layer.kind not in _LAYERS:
                known = ", ".join(sorted(_LAYERS))
                raise UnsupportedOperationError(f"{layer.kind} is not among the supported: {known}.")
            operands = read if layer.kind == "Embedding" else [self.builder.numeric(each) for each in read]
            return _apply_layer(layer.kind, Call(self.builder, layer.config, layer.weights), *operands)


def _input_shape(layer: _Layer, layers: Iterable[_Layer]) -> tuple[int, ...]:
    """Return the shape of the features that an input reads; 0 where it is unknown."""
    full = layer.config.get("batch_shape") or layer.config.get("batch_input_shape")
    if not full:  # a sequential model that begins with its first layer
        kernel = next((each for part in layers for each in part.weights), np.empty((0,)))
        full = [None, kernel.shape[0]]
    return tuple(int(size or 0) for size in full[1:])


def _read_layers(config: Any) -> list[_Layer]:
    """Return the layers of a functional model, or of a sequential one, each of which reads the one before it."""
    if not isinstance(config, Mapping) or config.get("class_name") not in ("Sequential", "Functional", "Model"):
        kind = config.get("class_name") if isinstance(config, Mapping) else type(config).__name__
        raise UnsupportedOperationError(f"only sequential and functional models can be read, not {kind}: use ONNX.")
    inner = config["config"]
    layers = []
    for each in inner["layers"] if isinstance(inner, Mapping) else inner:
        kind, name = str(each["class_name"]), each.get("name", each["config"].get("name"))
        origin, registered = str(each.get("module") or "keras.layers"), each.get("registered_name")
        if origin.split(".")[0] != "keras" or "layers" not in origin.split(".") or registered not in (None, kind):
            raise UnsupportedOperationError(f"'{name}' ({origin}.{kind}) is not a layer of Keras itself.")
        if kind != "InputLayer" and "trainable" not in each["config"]:  # every layer has this option, no operation has
            raise UnsupportedOperationError(f"'{name}' ({kind}) is an operation, not a layer; use a layer, or ONNX.")
        inbound = [_tensor_references(node) for node in each.get("inbound_nodes", [])]
        layers.append(_Layer(str(name), kind, each["config"], tuple(map(tuple, inbound))))
    if not layers or len({layer.name for layer in layers}) != len(layers):
        raise FileError("The description of its layers is empty or names a layer twice.")
    if config["class_name"] != "Sequential":
        return layers
    if layers[0].kind != "InputLayer":
        layers.insert(0, _Layer(f"{layers[0].name}_input", "InputLayer", layers[0].config))
    return layers[:1] + [replace(layer, inbound=(((before.name, 0),),)) for before, layer in pairwise(layers)]


def _tensor_references(tree: Any) -> list[tuple[str, int]]:
    """Return every reference to a tensor, ``[layer, node, tensor]``, in nested lists of either version of the format.

    Whatever else is passed to a layer (a number, ``training=True``) could change what it does, so it is refused.
    """
    if isinstance(tree, Mapping):
        if "keras_history" in tree.get("config", {}):
            return _tensor_references(tree["config"]["keras_history"])
        if "args" in tree and set(tree) == {"args", "kwargs"}:
            _refuse_arguments(tree["kwargs"])
            return _tensor_references(tree["args"])
    elif isinstance(tree, list):
        if len(tree) >= 3 and isinstance(tree[0], str) and all(type(each) is int for each in tree[1:3]):
            _refuse_arguments(tree[3] if len(tree) > 3 else {})
            return [(tree[0], tree[1])]
        return [reference for part in tree for reference in _tensor_references(part)]
    raise UnsupportedOperationError(f"a layer is called with {tree!r}, which is no tensor.")


def _refuse_arguments(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if value not in (None, False):
            raise UnsupportedOperationError(f"a layer is called with {name}={value!r}, which is not supported.")


# -- what layers do


def _apply_layer(kind: str, call: Call, *operands: Value | Table) -> Any:
    """Apply a kind of layer; an option that changes its function and that its rule does not read is refused."""
    result = _LAYERS[kind](call, *operands)
    training = [name for name in call.options if name.endswith(_TRAINING)]
    call.refuse_unread(dict.fromkeys(call.options, False), {*training, *_HARMLESS})
    return result


def _apply_activation(call: Call, x: Value, activation: Any) -> Any:
    """Apply an activation by its name, or by the record of an activation layer; a function of the user's is neither."""
    if isinstance(activation, Mapping):
        kind, config = activation.get("class_name"), activation.get("config")
        if kind not in ("ReLU", "LeakyReLU", "ELU", "Softmax") or not isinstance(config, Mapping):
            raise UnsupportedOperationError("an activation that is a function of the user's own is not supported.")
        return _apply_layer(kind, Call(call.builder, config), x)
    name = "linear" if activation is None else activation
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        known = ", ".join(sorted(_ACTIVATIONS))
        raise UnsupportedOperationError(f"the activation '{name}' is not among the supported: {known}.")
    return _ACTIVATIONS[name](Call(call.builder, {}), x)


def _dense(call: Call, x: Value) -> Any:
    biased = bool(call("use_bias", True))
    if len(call.weights) != 1 + biased:
        raise NetworkError(f"it should have {1 + biased} plain weights; there are {len(call.weights)}.")
    if biased and call.weights[1].shape != call.weights[0].shape[1:]:
        raise NetworkError("its bias does not fit its kernel.")
    value = call.builder.matmul(x, call.weights[0], call.weights[1] if biased else None)
    return _apply_activation(call, value, call("activation"))


def _batch_norm(call: Call, x: Value) -> Value:
    scaled, centred = bool(call("scale", True)), bool(call("center", True))
    flat = call("axis", -1) in (-1, 1, [-1], [1]) and len(x.shape) == 1
    if not flat or len(call.weights) != 2 + scaled + centred:
        raise UnsupportedOperationError("only a normalisation of flat features by stored statistics is supported.")
    *learned, mean, variance = call.weights
    gamma, beta = learned[0] if scaled else None, learned[-1] if centred else None
    return call.builder.normalise(x, mean, variance, gamma, beta, epsilon=float(call("epsilon", 1e-3)))


def _normalization(call: Call, x: Value) -> Value:
    """Return ``(x - mean) / max(sqrt(variance), 1e-7)``, given as options or adapted to data."""
    mean, variance = call("mean"), call("variance")
    if mean is None and len(call.weights) >= 2:
        mean, variance = call.weights[:2]
    flat = call("axis", -1) in (-1, 1, [-1], [1]) and len(x.shape) == 1
    if mean is None or variance is None or not flat:
        raise UnsupportedOperationError("only a fitted normalisation of flat features is supported.")
    parts = [np.broadcast_to(np.asarray(each, dtype=np.float64).reshape(-1), (x.width,)) for each in (mean, variance)]
    if not (parts[1] > 1e-12).all():
        raise UnsupportedOperationError("a feature without any variance is not supported.")
    return call.builder.normalise(x, *parts, epsilon=0.0)


def _embedding(call: Call, *read: Value | Table) -> Table:
    if len(read) != 1 or not isinstance(read[0], Table) or len(call.weights) != 1:
        raise NetworkError("it reads a raw column: give the schema that describes it.")
    return read[0].looked_up(call.weights[0])


def _relu(call: Call, x: Value) -> Value:
    slope, top = float(call("negative_slope", 0.0)), call("max_value")
    if top is not None and slope:
        raise UnsupportedOperationError("a slope together with a largest value is not supported.")
    if top is None:
        return call.builder.activation(x, "leaky_relu", slope)
    return call.builder.activation(x, "clip", 0.0, float(top))


def _flatten(call: Call, x: Value) -> Value:
    if call("data_format") == "channels_first" and len(x.shape) > 1:
        raise UnsupportedOperationError("only data_format='channels_last' is supported.")
    return call.builder.place(x, lambda positions: positions.reshape(call.builder.batch, -1))


def _rescaling(call: Call, x: Value) -> Value:
    return call.builder.add(call.builder.multiply(x, np.array(call("scale", 1.0))), np.array(call("offset", 0.0)))


def _sum(call: Call, first: Value, *others: Value) -> Any:
    if not others:
        raise NetworkError("a sum needs two tensors.")
    return operations.total(call.builder, first, *others)


_ACTIVATIONS: dict[str, Rule] = {
    "linear": identity,
    **{kind: each for kind, each in operations.ACTIVATIONS.items() if kind not in ("hardswish", "erf")},
    "swish": elementwise("silu"),
    **dict.fromkeys(("hard_silu", "hard_swish"), elementwise("hardswish")),
    "leaky_relu": elementwise("leaky_relu", slope=0.2),
    "softplus": rule(operations.softplus),
    "softmax": rule(operations.softmax),
    "log_softmax": rule(operations.log_softmax),
}

_LAYERS: dict[str, Rule] = {
    "Dense": _dense,
    "Embedding": _embedding,
    "BatchNormalization": _batch_norm,
    "Normalization": _normalization,
    "Activation": lambda call, x: _apply_activation(call, x, call("activation")),
    "ReLU": _relu,
    "LeakyReLU": lambda call, x: call.builder.activation(x, "leaky_relu", call("negative_slope", call("alpha", 0.3))),
    "PReLU": lambda call, x: operations.prelu(call.builder, x, call.weights[0]),
    "ELU": elementwise("elu", alpha=1.0),
    "Softmax": rule(operations.softmax, axis=("axis", -1)),
    "Flatten": _flatten,
    "Reshape": lambda call, x: call.builder.place(x, lambda each: each.reshape(len(each), *call("target_shape"))),
    "Rescaling": _rescaling,
    "Add": _sum,
    "Subtract": rule(Builder.subtract),
    "Concatenate": lambda call, *read: call.builder.concat(read, int(call("axis", -1))),
    **dict.fromkeys(("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D"), identity),
    **dict.fromkeys(("ActivityRegularization", "Identity", "InputLayer"), identity),
}


# -- where weights are kept


def _weights_by_class(stored: _Stored, layers: list[_Layer]) -> list[_Layer]:
    """Return layers of a ``.keras`` archive: weights are in groups named by class and counted in order."""
    root = "/layers" if "/layers" in stored else "/_layer_checkpoint_dependencies"
    counts: Counter[str] = Counter()
    known = (*stored.attributes, *stored.outside)
    weighted = []
    for layer in layers:
        base = re.sub(r"([a-z])([A-Z])", r"\1_\2", re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", layer.kind)).lower()
        group = f"{root}/{base}" + (f"_{counts[base]}" if counts[base] else "") + "/vars"
        counts[base] += 1
        own = stored.text(group, "name") or layer.name
        if own != layer.name:
            raise FileError(
                f"Its weights are not in the order of its layers: '{own}' stands where '{layer.name}' should."
            )
        places = [f"{group}/{i}" for i in range(8)]
        weighted.append(replace(layer, weights=tuple(stored.array(each) for each in places if each in known)))
    return weighted


def _weighted_by_name(stored: _Stored, layer: _Layer) -> _Layer:
    """Return a layer of an ``.h5`` file: a group named by it lists its weights."""
    group = f"/model_weights/{layer.name}"
    names = stored.text(group, "weight_names") or []
    return replace(layer, weights=tuple(stored.array(f"{group}/{name}") for name in names))


@dataclass(frozen=True)
class _Stored:
    """The arrays of a file by their path, and the texts attached to groups."""

    arrays: Mapping[str, Constant]
    attributes: Mapping[str, Mapping[str, Any]]
    outside: tuple[str, ...]

    def __contains__(self, path: str) -> bool:
        return path in self.attributes

    def array(self, path: str) -> Constant:
        """Return an array of numbers that the file itself holds."""
        if any(path == each or path.startswith(f"{each}/") for each in self.outside):
            raise FileError(f"Its '{path}' is a link, kept elsewhere, or no numbers, and is not read.")
        if path not in self.arrays:
            raise FileError(f"Its array '{path}' is missing.")
        return self.arrays[path]

    def text(self, path: str, name: str) -> Any:
        """Return a text, or list of texts, attached to a group; None when there is none."""
        return self.attributes.get(path, {}).get(name)


def _read_hdf5(source: Path | bytes, limit: int) -> _Stored:
    """Read a file, or a file in memory, of arrays of at most ``limit`` bytes, in another process."""
    if importlib.util.find_spec("h5py") is None:
        raise FileError("It needs the package h5py: pip install isonomy[keras].")
    script = str(Path(__file__).with_name("hdf5_dump.py"))
    name = "-" if isinstance(source, bytes) else str(source.resolve())
    # -P: the folder of the script, whose files have common names, is not searched for modules.
    command = [sys.executable, "-P", script, name, str(limit), str(TEXT)]
    try:
        done = subprocess.run(
            command,
            input=source if isinstance(source, bytes) else b"",
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # threads' stacks would count as memory
        )
    except subprocess.TimeoutExpired:
        raise FileError(f"It is damaged: the HDF5 library did not finish within {_SECONDS} seconds.") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        if lines and lines[-1].endswith("than the supported size"):
            raise FileError("Its arrays or texts are larger than the supported size.")
        raise FileError(f"It is damaged or not an HDF5 file ({lines[-1] if lines else 'the library crashed'}).")
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as content:
        texts = json.loads(str(content["texts"]))
        arrays = {path: content[f"arr_{i}"] for i, path in enumerate(texts["names"])}
    return _Stored(arrays, texts["attributes"], tuple(texts["outside"]))
