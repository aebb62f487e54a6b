"""Objects of a skops archive as descriptions: kind and attributes, and nothing is constructed but numbers and texts.

So a forest can be read from an archive whose types are not trusted: none of them is imported. Live objects are looked
at through the same two functions, :func:`kind_of` and :func:`state_of`.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.errors import FileError
from isonomy.networks.limits import Allowance, open_archive, read_member

_TEXT = 2**28  # bytes of the description of an archive


@dataclass(frozen=True)
class Described:
    """An object by its kind, ``module.Class``, and its attributes."""

    kind: str
    state: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.state:
            raise AttributeError(f"{self.kind} has no attribute {name!r}")
        return self.state[name]


def kind_of(thing: Any) -> str:
    """Return ``module.Class`` of a live or described object."""
    return thing.kind if isinstance(thing, Described) else f"{type(thing).__module__}.{type(thing).__qualname__}"


def state_of(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object that keeps them behind its own methods (a tree of scikit-learn)."""
    return thing.state if isinstance(thing, Described) else thing.__getstate__()


def read_skops(path: Path, allowance: Allowance) -> Any:
    """Return the description of the object in an archive."""
    with open_archive(path, allowance) as archive:
        schema = json.loads(read_member(archive, "schema.json", _TEXT))
        return _Archive(archive, allowance.unpacked).value(schema, 0)


class _Archive:
    """The parts of one archive, each made once."""

    def __init__(self, archive: zipfile.ZipFile, left: int) -> None:
        self.archive, self.made, self.left = archive, dict[int, Any](), left

    def value(self, node: Any, depth: int) -> Any:
        """Return what a node of the description says."""
        if depth > 100 or not isinstance(node, dict):
            raise FileError("The archive's description is nested too deeply or not one of skops.")
        identity, loader = node.get("__id__"), node.get("__loader__")
        if loader == "CachedNode" or (identity in self.made and loader not in ("JsonNode", "TypeNode")):
            return self.made[int(str(identity))]
        made = self._made(node, str(loader), depth + 1)
        if isinstance(identity, int):
            self.made[identity] = made
        return made

    def _made(self, node: dict[str, Any], loader: str, depth: int) -> Any:
        content = node.get("content")
        if loader == "JsonNode":
            return json.loads(str(content))
        if loader == "DictNode" and isinstance(content, dict):
            return {key: self.value(each, depth) for key, each in content.items()}
        if loader in ("ListNode", "TupleNode") and isinstance(content, list):
            return [self.value(each, depth) for each in content]
        if loader == "NdArrayNode":
            return self._array(node, depth)
        kind = f"{node.get('__module__')}.{node.get('__class__')}"
        state = self.value(content, depth) if isinstance(content, dict) and "__loader__" in content else {}
        return Described(kind, state if isinstance(state, dict) else {})

    def _array(self, node: dict[str, Any], depth: int) -> Any:
        if node.get("type") == "numpy":
            data = read_member(self.archive, str(node["file"]), self.left)
            self.left -= len(data)
            file = io.BytesIO(data)
            version = np.lib.format.read_magic(file)
            header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = header(file)
            if dtype.hasobject or math.prod(shape) * dtype.itemsize > len(data):
                raise FileError("An array of the archive is a pickle, or larger than its file.")
            return np.load(io.BytesIO(data), allow_pickle=False)
        cells = [self.value(each, depth) for each in node.get("content", [])]
        shape = self.value(node["shape"], depth)
        for _ in shape[1:]:  # rows are lists of their own
            cells = [each for row in cells for each in row]
        array = np.empty(len(cells), dtype=object)
        array[:] = cells
        return array.reshape(shape)
