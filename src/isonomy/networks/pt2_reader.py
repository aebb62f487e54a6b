"""Read a ``torch.export`` archive (``.pt2``) without torch's own loader.

``torch.export.load`` unpickles parts of the archive, which can run a program hidden there. The graph, however, is
stored as JSON and plain parameters as raw bytes; only these are read, and an archive that needs a pickle is refused.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from isonomy.errors import FileError, NetworkError
from isonomy.networks.aten import ADVICE, Program
from isonomy.networks.builder import BATCH, Builder
from isonomy.networks.graph import Head, Read
from isonomy.networks.limits import MATRIX, check_archive, read_json
from isonomy.networks.reading import member

_LARGEST = 2**30  # bytes of one member of an archive
_KINDS = {6: torch.float16, 7: torch.float32, 8: torch.float64, 5: torch.int64, 4: torch.int32, 13: torch.bfloat16}


def read_pt2(path: Path, head: Head | Literal["auto"] = "auto") -> Read:
    """The graph of an exported program up to its raw outputs, and its head."""
    with zipfile.ZipFile(path) as archive:
        check_archive(archive)
        members = {name.partition("/")[2]: name for name in archive.namelist()}
        if "models/model.json" not in members:
            raise FileError(f"'{path}' is not an archive of a recent torch.export with one model; {ADVICE}.")

        def content(name: str) -> bytes:
            return member(archive, members.get(name, name), _LARGEST)

        stored = read_json(content("models/model.json"), "graph")["graph_module"]
        tensors: dict[str, Tensor] = {}
        for part in ("weights", "constants"):
            if f"data/{part}/model_{part}_config.json" in members:
                listed = read_json(content(f"data/{part}/model_{part}_config.json"), f"list of {part}")["config"]
                tensors |= {name: _tensor(name, entry, content, part) for name, entry in listed.items()}
    graph = stored["graph"]
    inputs: list[str] = []
    known: dict[str, Any] = {}
    for spec in stored["signature"]["input_specs"]:
        ((kind, entry),) = spec.items()
        name = entry["arg"].get("as_tensor", entry["arg"])["name"]
        if kind == "user_input":
            inputs.append(name)
        else:
            source = entry.get("parameter_name") or entry.get("buffer_name") or entry.get("tensor_constant_name")
            if source not in tensors:
                raise NetworkError(f"its parameter '{source}' is not stored.")
            known[name] = tensors[source]
    if len(inputs) != 1:
        raise NetworkError(f"one input, a table of individuals, is expected; there are {len(inputs)}.")
    sizes = [_size(each) for each in graph["tensor_values"][inputs[0]]["sizes"]]
    if len(sizes) < 2 or min(sizes[1:]) < 1:
        raise NetworkError("its input must have two axes, individuals and features.")
    program = Program(Builder(sizes[1:], sizes[0] if sizes[0] > 1 else BATCH, inputs[0]), trusted=False)
    program.known = known | {inputs[0]: program.builder.input}
    for node in graph["nodes"]:
        operands: list[str] = []
        arguments = {each["name"]: _argument(each["arg"], program, operands) for each in node["inputs"]}
        stack = str(node.get("metadata", {}).get("nn_module_stack", "")).split(";")[-1].split(",")
        layer = (stack[1], stack[2]) if len(stack) == 3 else ("", "")
        program.step(str(node["target"]), arguments, _names(node["outputs"]), operands, layer)
    return program.finish([_argument(each, program, []) for each in graph["outputs"]], head)


def _argument(entry: Any, program: Program, operands: list[str]) -> Any:
    """The value of an argument, written as ``{"as_int": 3}`` and the like; names of tensors join ``operands``."""
    if "name" in entry:
        entry = {"as_name": entry["name"]}
    ((kind, value),) = entry.items()
    match kind:
        case "as_none":
            return None
        case "as_name":
            operands.append(str(value))
            return program.get(str(value))
        case "as_tensor" | "as_optional_tensor" | "as_sym_int" | "as_sym_bool":
            return _argument(value, program, operands)
        case "as_tensors" | "as_optional_tensors" | "as_sym_ints":
            return [_argument(each, program, operands) for each in value]
        case "as_float" | "as_floats":
            return [float(each) for each in value] if isinstance(value, list) else float(value)
        case "as_scalar_type":
            return _KINDS.get(value, f"type {value}")
    return value  # plain numbers and texts; and layouts and devices, which no rule reads


def _names(outputs: Any) -> list[str]:
    found = []
    for entry in outputs:
        (value,) = entry.values()
        parts = value if isinstance(value, list) else [value]
        found += [str(each.get("name", each.get("as_name"))) for each in parts if isinstance(each, Mapping)]
    return found


def _size(entry: Mapping[str, Any]) -> int:
    return int(entry["as_int"]) if "as_int" in entry else 0


def _tensor(name: str, entry: Mapping[str, Any], content: Callable[[str], bytes], part: str) -> Tensor:
    """A tensor from its raw bytes."""
    meta = entry.get("tensor_meta")
    if entry.get("use_pickle", True) or not meta or meta["dtype"] not in _KINDS:
        raise FileError(
            f"Its parameter '{name}' is stored as a pickle or in an unknown type, which is not read; {ADVICE}."
        )
    data = bytearray(content(f"data/{part}/{entry['path_name']}"))
    shape, strides = ([_size(each) for each in meta[key]] for key in ("sizes", "strides"))
    offset = _size(meta["storage_offset"])
    flat = torch.frombuffer(data, dtype=_KINDS[meta["dtype"]]) if data else torch.empty(0, dtype=_KINDS[meta["dtype"]])
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if shape else offset
    if math.prod(shape) > MATRIX:
        raise NetworkError(f"its parameter '{name}' is larger than the supported size.")
    if min([*shape, *strides, offset], default=0) < 0 or (all(shape) and last >= len(flat)):
        raise FileError(f"Its parameter '{name}' is cut short.")
    return torch.as_strided(flat, shape, strides, offset)
