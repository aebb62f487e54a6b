"""Networks, metrics and domains as plain arrays, a form that any program can read.

The arrays of a metric are all that a bound needs, whatever its kind: ``d(x, y)`` is the larger of
``|root (x - y)|_order`` and a part by single coordinates: ``free``, or within a ``tolerance``, or within a ratio
``1 + relative`` of the raw values ``x unit + origin``. The kind is in the metric's own file beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import NetworkError
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Node, Operation, Select
from isonomy.networks.network import Network
from isonomy_verify import domain as kernel

Arrays = dict[str, NDArray[Any]]

_AFFINE = ("weight", "bias", "weight_slack", "bias_slack", "magnitude", "magnitude_bias")  # the last two may be None


def network_arrays(network: Network) -> Arrays:
    """Return every node of a network as arrays: its kind, its inputs, its numbers."""
    nodes = network.graph.nodes
    arrays: Arrays = {
        "kinds": np.array([getattr(node.op, "kind", type(node.op).__name__.lower()) for node in nodes]),
        "names": np.array([node.name for node in nodes]),
        "head": np.array(network.head),
    }
    for i, node in enumerate(nodes):
        arrays[f"{i}.inputs"] = np.array(node.inputs, dtype=np.int64)
        match node.op:
            case Input(width=width):
                arrays[f"{i}.width"] = np.array(width)
            case Affine():
                for part in _AFFINE:
                    if (array := getattr(node.op, part)) is not None:
                        arrays[f"{i}.{part}"] = array.astype(np.float64)
                arrays[f"{i}.roundings"] = np.array(node.op.roundings)
            case Activation(parameters=parameters):
                arrays[f"{i}.parameters"] = np.array(parameters, dtype=np.float64)
            case Select(index=index):
                arrays[f"{i}.index"] = np.array(index, dtype=np.int64)
    return arrays


def network_of(arrays: Mapping[str, NDArray[Any]], name: str) -> Network:
    """Make the network of the arrays of :func:`network_arrays`."""
    nodes = []
    for i, (kind, label) in enumerate(zip(arrays["kinds"].tolist(), arrays["names"].tolist(), strict=True)):
        inputs = tuple(int(j) for j in arrays[f"{i}.inputs"])
        nodes.append(Node(_operation(arrays, i, kind), inputs, label))
    head = str(arrays["head"])
    if head not in ("softmax", "sigmoid", "regression"):
        raise NetworkError(f"A network has no head '{head}'.")
    return Network(Graph(tuple(nodes)), head, name)  # type: ignore[arg-type]


def domain_arrays(domain: kernel.Domain) -> Arrays:
    """Return a domain, without the names of its coordinates, as arrays."""
    arrays: Arrays = {
        "kind": np.array(domain.kind),
        "blocks": np.array(domain.blocks, dtype=np.int64).reshape(-1, 2),
        "fills": np.array(domain.fills, dtype=np.float64).reshape(-1, 3),
    }
    parts = ("low", "high", "integer", "origin", "unit", "immutable")
    return arrays | {part: np.array(getattr(domain, part)) for part in parts}


def _operation(arrays: Mapping[str, NDArray[Any]], i: int, kind: str) -> Operation:
    match kind:
        case "input":
            return Input(int(arrays[f"{i}.width"]))
        case "affine":
            numbers = {part: np.array(arrays[f"{i}.{part}"]) for part in _AFFINE if f"{i}.{part}" in arrays}
            return Affine(**numbers, roundings=int(arrays[f"{i}.roundings"]))
        case "add":
            return Add()
        case "concat":
            return Concat()
        case "select":
            return Select(tuple(int(j) for j in arrays[f"{i}.index"]))
    return Activation(kind, tuple(float(p) for p in arrays[f"{i}.parameters"]))
