"""The layers of Keras that can be read: one table from the class to its rule, one from the activation to its rule.

A rule gets the builder, the layer with its weights, and the tensors that it reads.

**Soundness.** A rule gives exactly the layer's function at prediction time, in real arithmetic; options that would
change it are read or refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks import operations
from isonomy.networks.builder import Builder, Constant, Value


@dataclass(frozen=True)
class KerasLayer:
    """A layer's name, class and options, and for each of its uses the tensors ``(layer, use)`` that it reads."""

    name: str
    kind: str
    config: Mapping[str, Any]
    inbound: tuple[tuple[tuple[str, int], ...], ...] = ()
    weights: tuple[Constant, ...] = ()  # in the order of the file

    def __call__(self, option: str, default: Any) -> Any:
        """An option, or its default; None counts as left out."""
        found = self.config.get(option)
        return default if found is None else found


def activated(builder: Builder, value: Value, activation: Any) -> Value:
    """An activation by its name, or by the record of an activation layer; a function of the user's is neither."""
    if isinstance(activation, Mapping):
        kind, config = activation.get("class_name"), activation.get("config")
        if kind not in ("ReLU", "LeakyReLU", "ELU", "Softmax") or not isinstance(config, Mapping):
            raise UnsupportedOperationError("an activation that is a function of the user's own is not supported.")
        return LAYERS[str(kind)](builder, KerasLayer(str(kind), str(kind), config), value)
    name = "linear" if activation is None else activation
    if not isinstance(name, str) or name not in ACTIVATIONS:
        known = ", ".join(sorted(ACTIVATIONS))
        raise UnsupportedOperationError(f"the activation '{name}' is not among the supported: {known}.")
    return ACTIVATIONS[name](builder, value)


ACTIVATIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "linear": lambda builder, value: value,
    "relu": operations.elementwise("relu"),
    "relu6": operations.elementwise("clip", 0.0, 6.0),
    "leaky_relu": operations.elementwise("leaky_relu", 0.2),
    "sigmoid": operations.elementwise("sigmoid"),
    "tanh": operations.elementwise("tanh"),
    "softplus": operations.softplus,
    "elu": operations.elementwise("elu", 1.0),
    "selu": operations.selu,
    "gelu": operations.gelu,
    **dict.fromkeys(("silu", "swish"), operations.elementwise("silu")),
    **dict.fromkeys(("hard_silu", "hard_swish"), operations.elementwise("hardswish")),
    "softmax": lambda builder, value: builder.softmax(value, -1),
    "log_softmax": lambda builder, value: builder.softmax(value, -1, "log_softmax"),
}


def _dense(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    biased = bool(layer("use_bias", True))
    if layer.config.get("lora_rank") or layer.config.get("quantization_config") or len(layer.weights) != 1 + biased:
        raise NetworkError(f"it should have {1 + biased} plain weights; there are {len(layer.weights)}.")
    if biased and layer.weights[1].shape != layer.weights[0].shape[1:]:
        raise NetworkError("its bias does not fit its kernel.")
    value = builder.matmul(x, layer.weights[0], layer.weights[1] if biased else None)
    return activated(builder, value, layer.config.get("activation"))


def _batch_norm(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    axis = layer("axis", -1)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    scaled, centred = bool(layer("scale", True)), bool(layer("center", True))
    if axis not in (-1, 1) or len(x.shape) != 1 or len(layer.weights) != 2 + scaled + centred or layer("renorm", False):
        raise UnsupportedOperationError("only a normalisation of flat features by stored statistics is supported.")
    *learned, mean, variance = layer.weights
    gamma, beta = learned[0] if scaled else None, learned[-1] if centred else None
    return builder.normalise(x, mean, variance, gamma, beta, epsilon=float(layer("epsilon", 1e-3)))


def _normalization(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    """``(x - mean) / max(sqrt(variance), 1e-7)``, given as options or adapted to data."""
    mean, variance = layer.config.get("mean"), layer.config.get("variance")
    if mean is None and len(layer.weights) >= 2:
        mean, variance = layer.weights[0], layer.weights[1]
    if mean is None or variance is None or layer("invert", False) or len(x.shape) != 1:
        raise UnsupportedOperationError("only a fitted normalisation of flat features is supported.")
    parts = [np.broadcast_to(np.asarray(each, dtype=np.float64).reshape(-1), (x.width,)) for each in (mean, variance)]
    if not (parts[1] > 1e-12).all():
        raise UnsupportedOperationError("a feature without any variance is not supported.")
    return builder.normalise(x, *parts, epsilon=0.0)


def _relu(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    slope, top = float(layer("negative_slope", 0.0)), layer.config.get("max_value")
    if float(layer("threshold", 0.0)) or (top is not None and slope):
        raise UnsupportedOperationError("a threshold, or a slope together with a largest value, is not supported.")
    return builder.activation(x, "leaky_relu", slope) if top is None else builder.activation(x, "clip", 0.0, float(top))


def _leaky(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    return builder.activation(x, "leaky_relu", float(layer("negative_slope", layer("alpha", 0.3))))


def _softmax(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    axis = layer("axis", -1)
    return builder.softmax(x, axis[0] if isinstance(axis, list) and len(axis) == 1 else axis)


def _reshape(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    shape = [int(size) for size in layer.config["target_shape"]]
    return builder.place(x, lambda positions: positions.reshape(builder.batch, *shape))


def _rescaling(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    return builder.add(builder.multiply(x, np.array(layer("scale", 1.0))), np.array(layer("offset", 0.0)))


def _sum(builder: Builder, layer: KerasLayer, first: Value, *others: Value) -> Value:
    if not others:
        raise NetworkError("a sum needs two tensors.")
    return operations.total(builder, first, *others)  # type: ignore[no-any-return]


def _same(builder: Builder, layer: KerasLayer, x: Value) -> Value:
    return x


LAYERS: dict[str, Callable[..., Value]] = {
    "Dense": _dense,
    "BatchNormalization": _batch_norm,
    "Normalization": _normalization,
    "Activation": lambda builder, layer, x: activated(builder, x, layer.config["activation"]),
    "ReLU": _relu,
    "LeakyReLU": _leaky,
    "PReLU": lambda builder, layer, x: operations.prelu(builder, x, layer.weights[0]),
    "ELU": lambda builder, layer, x: builder.activation(x, "elu", float(layer("alpha", 1.0))),
    "Softmax": _softmax,
    "Flatten": lambda builder, layer, x: builder.place(x, lambda p: p.reshape(builder.batch, -1)),
    "Reshape": _reshape,
    "Rescaling": _rescaling,
    "Add": _sum,
    "Subtract": lambda builder, layer, x, y: builder.subtract(x, y),
    "Concatenate": lambda builder, layer, *read: builder.concat(read, int(layer("axis", -1))),
    **dict.fromkeys(("Dropout", "AlphaDropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D"), _same),
    **dict.fromkeys(("ActivityRegularization", "Identity", "InputLayer"), _same),
}
