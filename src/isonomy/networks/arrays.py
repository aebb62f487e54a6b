"""Graphs as plain arrays, a form that any program can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.model import Arrays
from isonomy.networks.graph import Activation, Graph, Node
from isonomy_verify.evidence import read_nodes

# The arrays of an affine node, by their names in a record; the last two may be None.
_AFFINE = {
    **{"weight": "weight", "bias": "bias", "weight_slack": "weight_error", "bias_slack": "bias_error"},
    **{"magnitude": "size", "magnitude_bias": "bias_size"},
}


def kinds_of(graph: Graph) -> list[str]:
    """Return the kind of every node."""
    return [node.activation.kind if node.activation else node.kind for node in graph.nodes]


def graph_arrays(graph: Graph) -> Arrays:
    """Return every node of a graph as arrays: its inputs, its numbers."""
    arrays: Arrays = {}
    for i, node in enumerate(graph.nodes):
        arrays[f"{i}.inputs"] = np.array(node.inputs, dtype=np.int64)
        match node:
            case Node(kind="input"):
                arrays[f"{i}.width"] = np.array(node.width)
            case Node(kind="affine"):
                for part, name in _AFFINE.items():
                    if (array := getattr(node, name)) is not None:
                        arrays[f"{i}.{part}"] = array.astype(np.float64)
                arrays[f"{i}.roundings"] = np.array(node.roundings)
            case Node(activation=Activation(parameters=parameters)):
                arrays[f"{i}.parameters"] = np.array(parameters, dtype=np.float64)
            case Node(kind="select"):
                arrays[f"{i}.index"] = np.array(node.columns, dtype=np.int64)
    return arrays


def graph_of(kinds: Sequence[str], names: Sequence[str], arrays: Mapping[str, NDArray[Any]]) -> Graph:
    """Make the graph of the kinds and names of nodes, and of the arrays of :func:`graph_arrays`."""
    nodes, _ = read_nodes(arrays, kinds)
    return Graph(tuple(nodes), tuple(names))
