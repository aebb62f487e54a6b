"""Read a ``torch.export`` archive (``.pt2``) without torch's own loader.

``torch.export.load`` unpickles parts of the archive, which can run a program hidden there. The graph, however, is
stored as JSON and plain parameters as raw bytes; only these are read, and an archive that needs a pickle is refused.

**Soundness.** The operations are those of :mod:`isonomy.networks.torch_rules`, by their name in ATen.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from isonomy.errors import FileError, NetworkError, UnsupportedOperationError
from isonomy.networks.build import LARGEST, Builder, Value
from isonomy.networks.graph import Head, Read
from isonomy.networks.torch_rules import FUNCTIONS

_LARGEST = 2**30
_BATCH = 3
_ADVICE = "export the model to ONNX instead"
_KINDS = {6: torch.float16, 7: torch.float32, 8: torch.float64, 5: torch.int64, 4: torch.int32, 13: torch.bfloat16}


def read_pt2(path: Path, head: Head | Literal["auto"] = "auto") -> Read:
    """The graph of an exported program up to its raw outputs, and its head."""
    with zipfile.ZipFile(path) as archive:
        members = {name.partition("/")[2]: name for name in archive.namelist()}
        if "models/model.json" not in members:
            raise FileError(f"'{path}' is not an archive of a recent torch.export with one model; {_ADVICE}.")

        def member(name: str) -> bytes:
            if name not in members or archive.getinfo(members[name]).file_size > _LARGEST:
                raise FileError(f"'{path}' lacks '{name}', or it is too large.")
            return archive.read(members[name])

        program = json.loads(member("models/model.json"))["graph_module"]
        tensors: dict[str, Tensor] = {}
        for part in ("weights", "constants"):
            if f"data/{part}/model_{part}_config.json" in members:
                listed = json.loads(member(f"data/{part}/model_{part}_config.json"))["config"]
                tensors |= {name: _tensor(name, entry, member, part) for name, entry in listed.items()}
    graph, signature = program["graph"], program["signature"]
    known: dict[str, Any] = {}
    inputs: list[str] = []
    for spec in signature["input_specs"]:
        ((kind, entry),) = spec.items()
        argument = entry["arg"]
        argument = argument.get("as_tensor", argument)
        if kind == "user_input":
            inputs.append(argument["name"])
        else:
            source = entry.get("parameter_name") or entry.get("buffer_name") or entry.get("tensor_constant_name")
            if source not in tensors:
                raise NetworkError(f"its parameter '{source}' is not stored.")
            known[argument["name"]] = tensors[source]
    if len(inputs) != 1:
        raise NetworkError(f"one input, a table of individuals, is expected; there are {len(inputs)}.")
    sizes = [_size(each) for each in graph["tensor_values"][inputs[0]]["sizes"]]
    if len(sizes) < 2 or min(sizes[1:]) < 1:
        raise NetworkError("its input must have two axes, individuals and features.")
    builder = Builder(sizes[1:], sizes[0] if sizes[0] > 1 else _BATCH, inputs[0])
    known[inputs[0]] = builder.input
    for node in graph["nodes"]:
        _step(builder, node, known)
    ends = [_argument(each, known) for each in graph["outputs"]]
    if len(ends) != 1 or not isinstance(ends[0], Value):
        raise NetworkError("one output that depends on the input is expected.")
    return builder.finish(ends[0], head)


def _step(builder: Builder, node: Mapping[str, Any], known: dict[str, Any]) -> None:
    """One operation of the graph."""
    target, outputs = str(node["target"]), node["outputs"]
    name = target.removeprefix("torch.ops.aten.").partition(".")[0]
    builder.at = next(iter(_names(outputs)), name)
    arguments = {each["name"]: _argument(each["arg"], known) for each in node["inputs"]}
    try:
        if target.startswith("torch.ops.aten.sym_size"):
            value = arguments["self"]
            result: Any = (builder.batch, *value.shape)[arguments["dim"]]
        elif not target.startswith("torch.ops.aten.") or name not in {**_RULES, **_MOVES}:
            known_names = ", ".join(sorted({**_RULES, **_MOVES}))
            raise UnsupportedOperationError(f"{target} is not among the supported: {known_names}.")
        elif name in _MOVES:
            result = _moved(builder, name, arguments)
        else:
            result = _RULES[name](builder, **arguments)
    except NetworkError as error:
        raise type(error)(f"node '{builder.at}' ({name}): {error}") from None
    except (TypeError, KeyError, IndexError, ValueError, RuntimeError) as error:
        raise NetworkError(f"node '{builder.at}' ({name}) cannot be read: {error}.") from error
    results = result if isinstance(result, tuple) else (result,)
    known |= dict(zip(_names(outputs), results, strict=False))


def _moved(builder: Builder, name: str, arguments: dict[str, Any]) -> Any:
    """Let torch move an array of positions."""
    value = arguments.pop("self")
    if isinstance(value, Tensor):
        return _MOVES[name](value, **arguments)
    if not isinstance(value, Value) or any(isinstance(each, Value) for each in arguments.values()):
        raise NetworkError("only its data may depend on the individual.")
    result = _MOVES[name](torch.from_numpy(builder.positions(value)), **arguments)
    if isinstance(result, Tensor) and result.numel() > LARGEST:
        raise NetworkError("the tensor that it asks for is larger than the supported size.")
    if isinstance(result, Tensor):
        return builder.placed(value, result.numpy())
    return tuple(builder.placed(value, each.numpy()) for each in result)


def _argument(entry: Any, known: Mapping[str, Any]) -> Any:
    """The value of an argument, written as ``{"as_int": 3}`` and the like."""
    ((kind, value),) = entry.items()
    if kind == "as_none":
        return None
    if kind in ("as_tensor", "as_optional_tensor"):
        return _argument(value, known) if "name" not in value else known[value["name"]]
    if kind in ("as_tensors", "as_optional_tensors"):
        return [known[each["name"]] if "name" in each else _argument(each, known) for each in value]
    if kind in ("as_int", "as_bool", "as_string", "as_ints", "as_bools"):
        return value
    if kind in ("as_float", "as_floats"):
        return [float(each) for each in value] if isinstance(value, list) else float(value)
    if kind in ("as_sym_int", "as_sym_bool"):
        return _argument(value, known)
    if kind == "as_sym_ints":
        return [_argument(each, known) for each in value]
    if kind == "as_name":
        return known[value]
    return value  # types and devices, which no rule reads


def _names(outputs: Any) -> list[str]:
    found = []
    for entry in outputs:
        (value,) = entry.values()
        parts = value if isinstance(value, list) else [value]
        found += [str(each.get("name", each.get("as_name"))) for each in parts if isinstance(each, Mapping)]
    return found


def _size(entry: Mapping[str, Any]) -> int:
    return int(entry["as_int"]) if "as_int" in entry else 0


def _tensor(name: str, entry: Mapping[str, Any], member: Callable[[str], bytes], part: str) -> Tensor:
    """A tensor from its raw bytes."""
    meta = entry.get("tensor_meta")
    if entry.get("use_pickle", True) or not meta or meta["dtype"] not in _KINDS:
        raise FileError(
            f"Its parameter '{name}' is stored as a pickle or in an unknown type, which is not read; {_ADVICE}."
        )
    data = bytearray(member(f"data/{part}/{entry['path_name']}"))
    shape, strides = ([_size(each) for each in meta[key]] for key in ("sizes", "strides"))
    offset = _size(meta["storage_offset"])
    flat = torch.frombuffer(data, dtype=_KINDS[meta["dtype"]]) if data else torch.empty(0, dtype=_KINDS[meta["dtype"]])
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if shape else offset
    if math.prod(shape) > LARGEST:
        raise NetworkError(f"its parameter '{name}' is larger than the supported size.")
    if min([*shape, *strides, offset], default=0) < 0 or (all(shape) and last >= len(flat)):
        raise FileError(f"Its parameter '{name}' is cut short.")
    return torch.as_strided(flat, shape, strides, offset)


def _torch(key: Any, **renamed: str) -> Callable[..., Any]:
    """A rule of the torch reader; ATen calls some arguments by other names."""
    rule = FUNCTIONS[key]

    def call(builder: Builder, **arguments: Any) -> Any:
        tensors = [arguments.pop(each) for each in ("self", "input") if each in arguments]
        ignored = ("dtype", "memory_format", "cudnn_enabled", "layout", "device", "pin_memory", "non_blocking")
        kept = {renamed.get(k, k): v for k, v in arguments.items() if k not in ignored}
        return rule(builder, *tensors, **kept)

    return call


def _two(key: Any) -> Callable[..., Any]:
    """A rule of two operands, the second called ``other`` or ``mat2``."""
    rule = FUNCTIONS[key]

    def call(builder: Builder, **arguments: Any) -> Any:
        first = arguments.pop("self")
        second = arguments.pop("other") if "other" in arguments else arguments.pop("mat2")
        if not isinstance(first, Value) and not isinstance(second, Value):
            raise UnsupportedOperationError("an operation on constants alone is not supported.")
        return rule(builder, first, second, **{k: v for k, v in arguments.items() if k == "alpha"})

    return call


_RULES: dict[str, Callable[..., Any]] = {
    "linear": _torch(functional.linear),
    **dict.fromkeys(("matmul", "mm"), _two(torch.matmul)),
    "addmm": lambda builder, self, mat1, mat2, **scales: FUNCTIONS[torch.addmm](builder, self, mat1, mat2, **scales),
    "add": _two(torch.add),
    "add_": _two(torch.add),
    "sub": _two(torch.sub),
    "mul": _two(torch.mul),
    "div": _two(torch.div),
    "rsub": lambda builder, self, other, alpha=1: builder.add_scaled(builder.scaled(self, -alpha), other, 1.0),
    "pow": lambda builder, self, exponent: FUNCTIONS[torch.pow](builder, self, exponent),
    "stack": lambda builder, tensors, dim=0: FUNCTIONS[torch.stack](builder, tensors, dim),
    "neg": _torch(torch.neg),
    "relu": _torch(torch.relu),
    "relu_": _torch(torch.relu),
    "sigmoid": _torch(torch.sigmoid),
    "tanh": _torch(torch.tanh),
    "erf": _torch(torch.erf),
    "silu": _torch(functional.silu),
    "hardswish": _torch(functional.hardswish),
    "gelu": _torch(functional.gelu),
    "selu": _torch(functional.selu),
    "softplus": _torch(functional.softplus),
    "leaky_relu": _torch(functional.leaky_relu),
    "elu": lambda builder, self, alpha=1.0, **_: builder.activation(self, "elu", alpha),
    "prelu": _torch(functional.prelu),
    "clamp": _torch(torch.clamp),
    "hardtanh": _torch(functional.hardtanh),
    "relu6": _torch(functional.relu6),
    **dict.fromkeys(("softmax", "_softmax"), lambda builder, self, dim, **_: builder.softmax(self, dim)),
    "log_softmax": lambda builder, self, dim, **_: builder.softmax(self, dim, "log_softmax"),
    "dropout": lambda builder, input, p, train: FUNCTIONS[functional.dropout](builder, input, p, train),
    "batch_norm": _torch(torch.batch_norm, running_mean="mean", running_var="variance"),
    "cat": lambda builder, tensors, dim=0: builder.concat(tensors, dim),
    **dict.fromkeys(
        ("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "detach_"), lambda builder, self, **_: self
    ),
}

_MOVES: dict[str, Callable[..., Any]] = {
    "view": lambda x, size: x.reshape(size),
    "reshape": lambda x, shape: x.reshape(shape),
    "flatten": torch.flatten,
    "transpose": lambda x, dim0, dim1: x.transpose(dim0, dim1),
    "permute": lambda x, dims: x.permute(dims),
    "squeeze": lambda x, dim=None: x.squeeze() if dim is None else x.squeeze(dim),
    "unsqueeze": lambda x, dim: x.unsqueeze(dim),
    "expand": lambda x, size, implicit=False: x.expand(size),
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[
        (slice(None),) * (dim % x.ndim) + (slice(start, end, step),)
    ],
    "select": lambda x, dim, index: x.select(dim, index),
    "split": lambda x, split_size, dim=0: x.split(split_size, dim),
    "t": lambda x: x.t(),
    "unflatten": lambda x, dim, sizes: x.unflatten(dim, sizes),
    "index_select": lambda x, dim, index: x.index_select(dim, index),
    "chunk": lambda x, chunks, dim=0: x.chunk(chunks, dim),
}
