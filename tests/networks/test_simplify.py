from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Node, Select
from isonomy.networks.simplify import simplify

from .exact import encloses, evaluate
from .strategies import graphs


@settings(max_examples=200, deadline=None)
@given(graphs(), st.integers(0, 1000))
def test_values_stay(graph: Graph, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(6, graph.input_width))
    simple = simplify(graph)
    before, after = graph.evaluate(x), simple.evaluate(x)
    scale = 1 + np.abs(before).max() + max(_reach(graph) * np.abs(x).max(), 1.0)
    assert np.allclose(before, after, rtol=1e-9, atol=1e-11 * float(scale))


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_the_form_is_simple(graph: Graph) -> None:
    simple = simplify(graph)
    assert len(simplify(simple).nodes) == len(simple.nodes)
    read = simple.consumers
    for i, node in enumerate(simple.nodes):
        assert i == len(simple.nodes) - 1 or read[i]  # nothing is dead
        under = [simple.nodes[j].op for j in node.inputs]
        match node.op:
            case Affine():
                merged_with_input = isinstance(under[0], Affine) and simple.nodes[node.inputs[0]].inputs == (0,)
                assert not merged_with_input
                assert not (isinstance(under[0], Affine | Select) and len(read[node.inputs[0]]) == 1)
            case Select():
                assert node.inputs != (0,)
                assert not (isinstance(under[0], Affine | Select) and len(read[node.inputs[0]]) == 1)
            case Add():
                assert len(set(node.inputs)) == len(node.inputs)


@settings(max_examples=150, deadline=None)
@given(graphs(activations=False))
def test_affine_graphs_become_one_rigorous_layer(graph: Graph) -> None:
    simple = simplify(graph)
    assert len(simple.nodes) <= 2
    width = graph.input_width
    bias = evaluate(graph, [Fraction(0)] * width)
    columns = [evaluate(graph, [Fraction(int(i == j)) for i in range(width)]) for j in range(width)]
    weight = [[columns[j][i] - bias[i] for j in range(width)] for i in range(len(bias))]
    if len(simple.nodes) == 1:
        assert weight == [[int(i == j) for j in range(width)] for i in range(width)]
        assert not any(bias)
    else:
        layer = simple.nodes[1].op
        assert isinstance(layer, Affine)
        assert encloses(layer, weight, bias)


def _reach(graph: Graph) -> float:
    """A crude size of what flows through a graph, for a tolerance."""
    reach = 1.0
    for node in graph.nodes:
        if isinstance(node.op, Affine):
            reach = reach * (1 + np.abs(node.op.weight).sum(1).max() + np.abs(node.op.bias).max())
        elif isinstance(node.op, Add):
            reach = reach * len(node.inputs)
    return reach


def layer(out: int, read: int, seed: int = 0) -> Affine:
    rng = np.random.default_rng(seed)
    return Affine.of(rng.normal(size=(out, read)), rng.normal(size=out))


def test_shared_layers_are_kept_and_selections_move() -> None:
    graph = Graph(
        (
            Node(Input(3), (), "x"),
            Node(Select((2, 1, 0)), (0,), "turned"),
            Node(layer(4, 3), (1,), "first"),
            Node(Activation("relu"), (2,), "relu"),
            Node(Select((3, 2, 1, 0)), (3,), "back"),
            Node(layer(4, 4, 1), (4,), "second"),
            Node(Activation("tanh"), (5,), "tanh"),
            Node(Add(), (5, 6), "residual"),
            Node(Concat(), (7, 1), "joined"),
            Node(Activation("relu"), (2,), "dead"),
            Node(layer(2, 7, 2), (8,), "last"),
        )
    )
    simple = simplify(graph)
    kinds = [type(node.op).__name__ for node in simple.nodes]
    assert "dead" not in [node.name for node in simple.nodes]
    assert "Select" not in kinds
    assert kinds[:5] == ["Input", "Affine", "Activation", "Affine", "Activation"]
    x = np.random.default_rng(0).normal(size=(5, 3))
    assert np.allclose(graph.evaluate(x), simple.evaluate(x), atol=1e-12)


def test_a_slope_stays_with_its_element() -> None:
    graph = Graph(
        (
            Node(Input(2), (), "x"),
            Node(Activation("tanh"), (0,), "tanh"),
            Node(Select((1, 0)), (1,), "turned"),
            Node(Activation("prelu", (0.5, -3.0)), (2,), "prelu"),
        )
    )
    x = np.array([[-1.0, -2.0], [-0.3, 0.4]])
    assert np.allclose(graph.evaluate(x), simplify(graph).evaluate(x), atol=1e-14)


def test_a_layer_that_two_layers_read_is_computed_once() -> None:
    graph = Graph(
        (
            Node(Input(3), (), "x"),
            Node(Activation("relu"), (0,), "relu"),
            Node(layer(2, 3), (1,), "shared"),
            Node(layer(4, 2, 1), (2,), "left"),
            Node(Activation("tanh"), (3,), "tanh"),
            Node(layer(4, 2, 2), (2,), "right"),
            Node(Activation("sigmoid"), (5,), "sigmoid"),
            Node(Add(), (4, 6), "sum"),
        )
    )
    simple = simplify(graph)
    assert [node.name for node in simple.nodes if node.name == "shared"] == ["shared"]
    assert [len(node.inputs) for node in simple.nodes] == [len(node.inputs) for node in graph.nodes]
