"""Random affine maps and graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Node, Operation, Select

KINDS = [
    Activation("relu"), Activation("leaky_relu", (-0.3,)), Activation("sigmoid"), Activation("tanh"),
    Activation("softplus", (1.5,)), Activation("elu", (0.7,)), Activation("gelu"), Activation("gelu_tanh"),
    Activation("silu"), Activation("hardswish"), Activation("erf"), Activation("clip", (-0.5, 1.0)),
]  # fmt: skip

# Ordinary numbers, exact zeros and ones, and numbers whose products underflow.
numbers = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.1, 2.0, 1e-200, 3e-308]), st.floats(-100, 100, allow_subnormal=True)
)


@st.composite
def affines(draw: st.DrawFn, rows: int, columns: int, slack: bool = False) -> Affine:
    def tensor(count: int, values: st.SearchStrategy[float] = numbers) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=count, max_size=count)), dtype=np.float64)

    small = st.sampled_from([0.0, 1e-9, 0.3])
    return Affine.of(
        tensor(rows * columns).reshape(rows, columns),
        tensor(rows),
        weight_slack=tensor(rows, small) if slack else None,
        bias_slack=tensor(rows, small) if slack else None,
    )


@st.composite
def graphs(draw: st.DrawFn, activations: bool = True) -> Graph:
    widths = [draw(st.integers(1, 4))]
    nodes = [Node(Input(widths[0]), (), "input")]
    kinds = ["affine", "select", "add", "concat"] + ["activation"] * activations
    for i in range(1, draw(st.integers(1, 10)) + 1):
        kind, read = draw(st.sampled_from(kinds)), draw(st.integers(max(0, i - 3), i - 1))
        op: Operation
        inputs: tuple[int, ...] = (read,)
        match kind:
            case "affine":
                op = draw(affines(draw(st.integers(1, 4)), widths[read]))
                width = op.width_out
            case "select":
                index = st.integers(0, widths[read] - 1)
                chosen = draw(st.one_of(st.permutations(range(widths[read])), st.lists(index, min_size=1, max_size=5)))
                op, width = Select(tuple(chosen)), len(chosen)
            case "activation":
                slopes = Activation("prelu", tuple(0.1 * j - 0.2 for j in range(widths[read])))
                op, width = draw(st.sampled_from([*KINDS, slopes])), widths[read]
            case "add":
                fitting = [j for j in range(i) if widths[j] == widths[read]]
                inputs = (read, *draw(st.lists(st.sampled_from(fitting), min_size=1, max_size=2)))
                op, width = Add(), widths[read]
            case _:
                inputs = tuple(draw(st.lists(st.integers(0, i - 1), min_size=1, max_size=3)))
                op, width = Concat(), sum(widths[j] for j in inputs)
        nodes.append(Node(op, inputs, f"{kind}{i}"))
        widths.append(width)
    return Graph(tuple(nodes))
