"""Which coordinates a network reads at all: those from which a path of non-zero weights leads to an output."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Select
from isonomy.networks.network import Network
from isonomy.population.schema import Schema

BoolArray = NDArray[np.bool_]


def read_coordinates(graph: Graph) -> BoolArray:
    """Return for each input (m,) whether it may influence an output.

    **Soundness.** From the outputs back, a number is marked where an operation that reads it may depend on it; of an
    affine layer that is where the largest exact weight that its slacks allow is not 0. What is not marked influences
    no output, in real arithmetic and in any run. A marked input may still cancel out.
    """
    marked = [np.zeros(width, dtype=bool) for width in graph.widths]
    marked[-1][:] = True
    for place in range(len(graph.nodes) - 1, 0, -1):
        node, needed = graph.nodes[place], marked[place]
        match node.op:
            case Affine():
                marked[node.inputs[0]] |= (node.op.magnitudes()[0][needed] != 0).any(axis=0)
            case Activation():
                marked[node.inputs[0]] |= needed
            case Add():
                for each in node.inputs:
                    marked[each] |= needed
            case Concat():
                ends = np.cumsum([graph.widths[each] for each in node.inputs])[:-1]
                for each, some in zip(node.inputs, np.split(needed, ends), strict=True):
                    marked[each] |= some
            case Select(index=index):
                marked[node.inputs[0]][np.asarray(index)[needed]] = True
    return marked[0]


def read_features(network: Network, schema: Schema) -> tuple[str, ...]:
    """Return the names of the features that may influence a prediction; ``network`` reads all coordinates."""
    marked = read_coordinates(network.graph)
    return tuple(name for name, place in schema.slices.items() if marked[place].any())
