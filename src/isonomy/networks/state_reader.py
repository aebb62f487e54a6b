"""Read a plain torch state dict of a multi-layer perceptron: weights by name, the activation given by the user.

**Safety.** The file must be a zip archive of tensors and is opened with ``weights_only=True``, which executes
nothing.
**Soundness.** A state dict does not say what happens between its layers. Layers are taken in the order of their names
(or of the file, where the names do not fit together), and what could stand at more than one place, such as a
normalisation, is refused. A module that is kept under two names is in the file twice, and so is one that is applied
twice: equal layers count once or more often as their widths demand, and are refused where these leave a choice.
"""

from __future__ import annotations

import math
import pickle
import re
import zipfile
from collections.abc import Sequence
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import torch

from isonomy.arithmetic import FloatArray
from isonomy.errors import FileError, NetworkError
from isonomy.given import as_array
from isonomy.networks.builder import Builder, ReadModel
from isonomy.networks.graph import HeadChoice
from isonomy.networks.inputs import ReaderContext
from isonomy.networks.limits import Allowance, open_archive, read_member
from isonomy.population.toml import TEXT

_ADVICE = "save its parameters with torch.save(model.state_dict(), path), or export it to ONNX"
_NESTED = ("state_dict", "model_state_dict", "model")
_SAFE = (2, 6)  # the first torch whose weights_only reading has no known hole


def read_state(path: Path, given: ReaderContext, activation: str | None, head: HeadChoice) -> ReadModel:
    """Return the graph of a state dict up to its raw outputs, and its head."""
    layers = _layers(_tensors(path, given.allowance))
    if len(layers) > 1 and activation is None:
        raise NetworkError("a state dict does not say what stands between its layers: say activation='relu', for one.")
    kind, *parameters = _named(activation or "relu")
    builder = Builder((layers[0][1].shape[1],), allowance=given.allowance)
    value = builder.input
    for place, (name, weight, bias) in enumerate(layers):
        builder.at = name
        if place:
            value = builder.activation(value, str(kind), *map(float, parameters))
        value = builder.matmul(value, weight.T, bias)
    return builder.finish(value, head)


def _tensors(path: Path, allowance: Allowance) -> dict[str, FloatArray]:
    """Return the named tensors of a file, read without executing anything."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _SAFE:
        raise FileError(f"'{path}' is not read: reading it safely needs torch 2.6 or newer.")
    if not zipfile.is_zipfile(path):
        raise FileError(f"'{path}' is damaged, or a pickle, which is a program and never opened; {_ADVICE}.")
    with open_archive(path, allowance) as archive:
        if any(name.endswith("constants.pkl") for name in archive.namelist()):
            raise FileError(f"'{path}' holds more than parameters, a TorchScript program; {_ADVICE}.")
        for name in archive.namelist():
            if name.endswith(".pkl") and b"bytearray" in read_member(archive, name, TEXT):  # of any length, for nothing
                raise FileError(f"'{path}' holds more than parameters, an array of bytes; {_ADVICE}.")
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, AttributeError) as error:
        raise FileError(f"'{path}' holds more than parameters, or is damaged; {_ADVICE}.") from error
    while isinstance(content, dict) and any(isinstance(content.get(key), dict) for key in _NESTED):
        states = [key for key, each in content.items() if _is_state(each)]  # as training checkpoints keep it
        if len(states) > 1:
            raise NetworkError(
                f"it holds several state dicts ({', '.join(map(repr, states))}): save the one in use alone."
            )
        content = next(content[key] for key in _NESTED if isinstance(content.get(key), dict))
    if not _is_state(content):
        raise FileError(f"'{path}' is not a state dict, names with their tensors; {_ADVICE}.")
    if any(each.is_complex() or each.is_quantized or each.layout is not torch.strided for each in content.values()):
        raise NetworkError("its parameters must be plain real numbers.")
    for name, each in content.items():  # a large tensor can be one number, repeated
        allowance.reserve(each.numel(), f"'{name}'")
    return {str(name): as_array(each) for name, each in content.items()}


def _is_state(content: Any) -> bool:
    """Say whether it is names with their tensors."""
    return isinstance(content, dict) and bool(content) and all(map(torch.is_tensor, content.values()))


_Layer = tuple[str, FloatArray, FloatArray | None]


def _layers(tensors: dict[str, FloatArray]) -> list[_Layer]:
    """Return the dense layers in their order."""
    dense: list[_Layer] = []
    for name, weight in tensors.items():
        stem, _, leaf = name.rpartition(".")
        if leaf == "weight" and weight.ndim == 2:
            dense.append((stem, weight, tensors.get(f"{stem}.bias" if stem else "bias")))
    used = {f"{stem}.{leaf}".lstrip(".") for stem, *_ in dense for leaf in ("weight", "bias")}
    other = next((name for name in tensors if name not in used), None)
    if other is not None:
        raise NetworkError(
            f"'{other}' belongs to no dense layer, and a state dict does not say what it does: use ONNX."
        )
    if not dense:
        raise NetworkError("it holds no dense layer.")
    # Numbers count as numbers, ``layer2`` before ``layer10``: texts and numbers alternate.
    parts = {stem: re.split(r"(\d+)", stem) for stem, *_ in dense}
    named = sorted(dense, key=lambda layer: [int(part) if part.isdigit() else part for part in parts[layer[0]]])
    same = _same(dense)
    if math.prod(2 ** len(names) - 1 for names in same) > _CHOICES:
        raise NetworkError(_AMBIGUOUS.format(" and ".join(f"'{name}'" for name in max(same, key=len))))
    # Of equal layers at least one counts.
    some = [[part for size in range(1, len(names) + 1) for part in combinations(names, size)] for names in same]
    readings: dict[tuple[int, ...], list[_Layer]] = {}
    for counted in product(*some):
        for order in (named, dense):
            layers = [layer for layer in order if any(layer[0] in names for names in counted)]
            if _chained(layers):
                readings[tuple(i for layer in layers for i, names in enumerate(same) if layer[0] in names)] = layers
    if not readings:
        shapes = ", ".join(f"'{name}' {weight.shape[1]} to {weight.shape[0]}" for name, weight, _ in named)
        raise NetworkError(f"its layers do not follow on one another: {shapes}.")
    if len(readings) > 1:
        equal = next((names for names in same if len(names) > 1), None)
        if equal is None:
            raise NetworkError("its layers fit together in the order of their names and in that of the file: use ONNX.")
        raise NetworkError(_AMBIGUOUS.format(" and ".join(f"'{name}'" for name in equal)))
    return next(iter(readings.values()))


_AMBIGUOUS = (
    "{} hold the same parameters, and the widths of its layers do not tell whether they are one layer or several: "
    "use ONNX."
)
_CHOICES = 1024  # ways to count equal layers; files of real modules have a handful


def _same(layers: Sequence[_Layer]) -> list[list[str]]:
    """Return the names of the layers, those with equal weights and biases together."""
    groups: dict[Any, list[str]] = {}
    for name, weight, bias in layers:
        key = (weight.shape, weight.tobytes(), None if bias is None else bias.tobytes())
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _chained(layers: Sequence[_Layer]) -> bool:
    return all(first[1].shape[0] == second[1].shape[1] for first, second in pairwise(layers)) and all(
        bias is None or bias.shape == weight.shape[:1] for _, weight, bias in layers
    )


def _named(activation: str) -> list[str]:
    """Parse ``"relu"``, or with parameters ``"leaky_relu(0.1)"``; common parameters may be left out."""
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", activation) if isinstance(activation, str) else None
    if match is None:
        raise NetworkError(f"activation must be a name such as 'relu' or 'leaky_relu(0.1)'. Got {activation!r}.")
    usual = {"leaky_relu": ["0.01"], "elu": ["1"], "softplus": ["1"]}
    given = [part.strip() for part in (match[2] or "").split(",") if part.strip()]
    return [match[1], *(given or usual.get(match[1], []))]
