"""Which coordinates a network reads at all: those from which a path of non-zero weights leads to an output."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isonomy.networks.graph import Graph, sizes

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
        match node.kind:
            case "affine":
                marked[node.inputs[0]] |= (sizes(node)[0][needed] != 0).any(axis=0)
            case "concat":
                ends = np.cumsum([graph.widths[each] for each in node.inputs])[:-1]
                for each, some in zip(node.inputs, np.split(needed, ends), strict=True):
                    marked[each] |= some
            case "select":
                marked[node.inputs[0]][np.asarray(node.columns)[needed]] = True
            case _:
                for each in node.inputs:
                    marked[each] |= needed
    return marked[0]
