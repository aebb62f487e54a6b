"""Read dense Keras networks, ``.h5`` and ``.keras``, without Keras or TensorFlow.

Both formats hold a description of the layers (JSON) and their weights (HDF5). The description is interpreted from the
inputs to one output by the table :data:`LAYERS`; with a schema an embedding reads a raw column.

**Safety.** Nothing in the file is executed: a ``Lambda`` layer or a custom one is refused by its name, and weights
that HDF5 would fetch from another file are refused.
**Soundness.** A layer is read by its name and its whole meaning: an option that changes it and is not known here is
refused.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isonomy.errors import FileError, NetworkError, UnsupportedOperationError
from isonomy.networks.builder import Value
from isonomy.networks.graph import Head, Read
from isonomy.networks.hdf5 import Stored, read_hdf5
from isonomy.networks.inputs import Reads
from isonomy.networks.keras_layers import LAYERS, KerasLayer
from isonomy.networks.limits import read_json, unpacked
from isonomy.networks.preprocessing import embedded
from isonomy.networks.reading import member, reading
from isonomy.networks.tables import Table, feed, numeric
from isonomy.population.schema import Schema
from isonomy.population.toml import TEXT


def read_keras(
    path: Path,
    *,
    schema: Schema | None = None,
    head: Head | Literal["auto"] = "auto",
    output: str | None = None,
    reads: Reads = "auto",
) -> Read:
    """The graph of a Keras file up to its raw outputs, and its head."""
    if path.suffix.lower() == ".keras":
        with zipfile.ZipFile(path) as archive:
            config = read_json(member(archive, "config.json", TEXT), "description")
            stored = read_hdf5(member(archive, "model.weights.h5", unpacked()))
        layers = _weights_by_class(stored, _described(config))
    else:
        stored = read_hdf5(path)
        written = stored.text("", "model_config")
        if not isinstance(written, str):
            raise FileError(f"'{path}' holds weights without their network; save the model with model.save(path).")
        config = read_json(written, "description")
        layers = [_weighted_by_name(stored, layer) for layer in _described(config)]
    model = _Model(config, layers, schema, reads)
    return model.builder.finish(model.output(output), head)


class _Model:
    """Layers by name, and the tensors that they give."""

    def __init__(
        self, config: Mapping[str, Any], layers: list[KerasLayer], schema: Schema | None, reads: Reads
    ) -> None:
        self.layers = {layer.name: layer for layer in layers}
        self.waiting = set[tuple[str, int]]()
        inner = config["config"] if isinstance(config["config"], Mapping) else {}
        self.ends = [(layers[-1].name, 0)]
        inputs = layers[:1]
        if config["class_name"] != "Sequential":
            self.ends = _histories(inner.get("output_layers", []))
            chosen = [name for name, _ in _histories(inner.get("input_layers") or [])]
            inputs = [layer for layer in layers if layer.kind == "InputLayer" and layer.name in (chosen or self.layers)]
        shapes = {layer.name: _input_shape(layer, layers) for layer in inputs}
        self.builder, fed = feed(shapes, schema, reads)
        self.known = {(name, 0): operand for name, operand in fed.items()}

    def output(self, wanted: str | None) -> Value:
        """The tensor of the last layer, or of the output that is asked for."""
        named = {name: (name, node) for name, node in self.ends}
        if len(self.ends) > 1 and wanted not in named:
            raise NetworkError(f"there are several outputs; say output= one of {', '.join(map(repr, named))}.")
        if not self.ends or (wanted is not None and wanted not in named):
            raise NetworkError(f"there is no output '{wanted}'." if wanted else "it has no output.")
        result: Value = numeric(self.builder, self._value(*(named[wanted] if wanted else self.ends[0])))
        return result

    def _value(self, name: str, node: int) -> Value | Table:
        """The tensor that a layer gives at one of its uses."""
        key = (name, node)
        if key not in self.known:
            layer = self.layers.get(name)
            if layer is None or key in self.waiting or not 0 <= node < len(layer.inbound):
                raise NetworkError(f"its layers are not connected: '{name}' cannot be reached.")
            self.waiting.add(key)
            self.known[key] = self._applied(layer, [self._value(*each) for each in layer.inbound[node]])
        return self.known[key]

    def _applied(self, layer: KerasLayer, read: list[Value | Table]) -> Value | Table:
        self.builder.at = layer.name
        weights = layer.weights
        with reading(f"layer '{layer.name}' ({layer.kind})"):
            if layer.kind == "Embedding":
                if len(read) != 1 or not isinstance(read[0], Table) or len(weights) != 1:
                    raise NetworkError("it reads a raw column: give the schema that describes it.")
                return read[0].encoded(weights[0].shape[-1], lambda column: embedded(column, weights[0]))
            rule = LAYERS.get(layer.kind)
            if rule is None:
                known = ", ".join(sorted([*LAYERS, "Embedding"]))
                raise UnsupportedOperationError(f"{layer.kind} is not among the supported: {known}.")
            return rule(self.builder, layer, *(numeric(self.builder, each) for each in read))


def _input_shape(layer: KerasLayer, layers: Iterable[KerasLayer]) -> tuple[int, ...]:
    """The shape of the features that an input reads; 0 where it is not said."""
    full = layer.config.get("batch_shape") or layer.config.get("batch_input_shape")
    if not full:  # a sequential model that begins with its first layer
        kernel = next((each for part in layers for each in part.weights), np.empty((0,)))
        full = [None, kernel.shape[0]]
    return tuple(int(size or 0) for size in full[1:])


def _described(config: Any) -> list[KerasLayer]:
    """The layers of a functional model, or of a sequential one, each of which reads the one before it."""
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
        inbound = [_histories(node) for node in each.get("inbound_nodes", [])]
        layers.append(KerasLayer(str(name), kind, each["config"], tuple(map(tuple, inbound))))
    if not layers or len({layer.name for layer in layers}) != len(layers):
        raise FileError("The description of its layers is empty or names a layer twice.")
    if config["class_name"] != "Sequential":
        return layers
    if layers[0].kind != "InputLayer":
        layers.insert(0, KerasLayer(f"{layers[0].name}_input", "InputLayer", layers[0].config))
    return layers[:1] + [replace(layer, inbound=(((before.name, 0),),)) for before, layer in pairwise(layers)]


def _histories(tree: Any) -> list[tuple[str, int]]:
    """Every reference to a tensor, ``[layer, node, tensor]``, in the nested lists of either version of the format.

    Whatever else is passed to a layer (a number, ``training=True``) could change what it does, so it is refused.
    """
    if isinstance(tree, Mapping):
        if "keras_history" in tree.get("config", {}):
            return _histories(tree["config"]["keras_history"])
        if "args" in tree and set(tree) == {"args", "kwargs"}:
            _harmless(tree["kwargs"])
            return _histories(tree["args"])
    elif isinstance(tree, list):
        if len(tree) >= 3 and isinstance(tree[0], str) and all(type(each) is int for each in tree[1:3]):
            _harmless(tree[3] if len(tree) > 3 else {})
            return [(tree[0], tree[1])]
        return [found for part in tree for found in _histories(part)]
    raise UnsupportedOperationError(f"a layer is called with {tree!r}, which is no tensor.")


def _harmless(arguments: Mapping[str, Any]) -> None:
    for name, value in arguments.items():
        if value not in (None, False):
            raise UnsupportedOperationError(f"a layer is called with {name}={value!r}, which is not supported.")


def _weights_by_class(stored: Stored, layers: list[KerasLayer]) -> list[KerasLayer]:
    """Layers of a ``.keras`` archive: weights are in groups named by class, counted in the order of the layers."""
    root = "/layers" if "/layers" in stored else "/_layer_checkpoint_dependencies"
    counts: Counter[str] = Counter()
    known = (*stored.attributes, *stored.strangers)
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


def _weighted_by_name(stored: Stored, layer: KerasLayer) -> KerasLayer:
    """A layer of an ``.h5`` file: a group named by it lists its weights."""
    group = f"/model_weights/{layer.name}"
    names = stored.text(group, "weight_names") or []
    return replace(layer, weights=tuple(stored.array(f"{group}/{name}") for name in names))
