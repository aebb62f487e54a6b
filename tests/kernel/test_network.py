"""Normal forms of graphs against the same graphs in exact rationals."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array
from isonomy_verify.enclosure import Prepared
from isonomy_verify.network import Layer, Network, Node, normal_form
from isonomy_verify.regions import BallBox
from isonomy_verify.tiers import Tier, enclose, enclose_at

from .graphs import draw
from .truth import exact

Expression = tuple[dict[int, Any], Any]  # weights by source, bias: fractions


def expressions(nodes: Sequence[Node]) -> list[Expression]:
    """What every layer of the normal form should be, in the order of the activations and then the outputs."""
    found: list[Expression] = []
    known: dict[tuple[int, Activation], int] = {}
    values: list[Expression] = []
    for node in nodes:
        read = [values[j] for j in node.inputs]
        match node.kind:
            case "input":
                values.append(_source(0, node.width))
            case "affine":
                values.append(_mapped(exact(node.weight), exact(node.bias), read[0]))
            case "activation":
                assert node.activation is not None
                key = (node.inputs[0], node.activation)
                if key not in known:
                    found.append(read[0])
                    known[key] = len(found)
                values.append(_source(known[key], len(read[0][1])))
            case "add":
                values.append(_sum(read))
            case "concat":
                values.append(_stacked(read))
            case "select":
                index = list(node.columns)
                values.append(({s: w[index] for s, w in read[0][0].items()}, read[0][1][index]))
    return [*found, values[-1]]


def _source(number: int, width: int) -> Expression:
    return {number: exact(np.eye(width))}, exact(np.zeros(width))


def _mapped(weight: Any, bias: Any, read: Expression) -> Expression:
    return {s: weight @ w for s, w in read[0].items()}, weight @ read[1] + bias


def _sum(read: Sequence[Expression]) -> Expression:
    total: dict[int, Any] = {}
    for weights, _ in read:
        for s, w in weights.items():
            total[s] = total[s] + w if s in total else w
    return total, sum((bias for _, bias in read[1:]), read[0][1])


def _stacked(read: Sequence[Expression]) -> Expression:
    widths = {s: w.shape[1] for weights, _ in read for s, w in weights.items()}
    none = {(i, s): exact(np.zeros((len(b), k))) for i, (_, b) in enumerate(read) for s, k in widths.items()}
    whole = {s: np.concatenate([w.get(s, none[i, s]) for i, (w, _) in enumerate(read)]) for s in widths}
    return whole, np.concatenate([bias for _, bias in read])


def off(layer: Layer, true: Expression, tops: dict[int, Array]) -> Any:
    """How far the layer may be from the exact one for sources of these sizes, exactly (width,)."""
    weights, bias = true
    total = abs(bias - exact(layer.bias))
    for block in layer.blocks:
        total = total + abs(weights[block.source] - exact(block.weight)) @ exact(tops[block.source])
    return total


def check(network: Network, true: Sequence[Expression], rng: np.random.Generator) -> None:
    """Every layer is within its own claims of the exact one, for small and large sources and along its rows."""
    assert len(network.layers) == len(true)
    for layer, (weights, bias) in zip(network.layers, true, strict=True):
        read = {block.source for block in layer.blocks}
        assert all(not w.any() for s, w in weights.items() if s not in read), "a source is not read"
        unit = Fraction(layer.unit)
        for block in layer.blocks:
            size, weight = exact(block.size), weights[block.source]
            assert (abs(weight - exact(block.weight)) <= unit * size).all()
            assert (abs(weight) <= size).all()
        one = {block.source: np.ones(block.weight.shape[1]) for block in layer.blocks}
        along = {b.source: b.size[0] / np.maximum((b.size**2).sum(0), 1e-200) for b in layer.blocks}
        for scale in (0.0, 1e-9, 1.0, 1e6):
            for tops in (one, along, {s: np.abs(rng.normal(size=len(t))) for s, t in one.items()}):
                tops = {s: t * scale for s, t in tops.items()}
                if not all(np.isfinite(t).all() for t in tops.values()):
                    continue
                with np.errstate(over="ignore"):
                    eta = float(layer.eta([tops[b.source][None] for b in layer.blocks])[0])
                if not np.isfinite(eta):
                    continue
                room = exact(layer.rho) * Fraction(eta) + Fraction(2.0**-1000)
                assert (off(layer, (weights, bias), tops) <= unit * room + exact(layer.slack)).all()
                reached = abs(bias) + sum(abs(weights[s]) @ exact(t) for s, t in tops.items())
                assert (reached <= room * (1 + Fraction(1, 10**9))).all()


@pytest.mark.parametrize("seed", range(30))
def test_random_graphs(seed: int) -> None:
    rng = np.random.default_rng([seed, 10])
    nodes = draw(rng)
    check(normal_form(nodes), expressions(nodes), rng)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [1e-200, 1e-163, 1e-80, 1e75])
def test_products_that_underflow_or_are_huge(seed: int, scale: float) -> None:
    rng = np.random.default_rng([seed, 11])
    nodes = [Node("input", width=3)]
    for _ in range(2):
        nodes.append(_affine(rng, len(nodes) - 1, 3, 3, scale))
    nodes.append(Node("add", (1, 2)))
    check(normal_form(nodes), expressions(nodes), rng)


def _affine(rng: np.random.Generator, read: int, width: int, out: int, scale: float = 1.0) -> Node:
    weight = rng.normal(size=(out, width)) * scale
    return Node("affine", (read,), weight=weight, bias=rng.normal(size=out) * scale)


@pytest.mark.parametrize("seed", range(10))
def test_weights_that_cancel(seed: int) -> None:
    """The merged weight is all rounding: what it lost is within the claim, and not because the claim is wide."""
    rng = np.random.default_rng([seed, 12])
    first = rng.normal(size=(6, 2))
    last = rng.normal(size=(1, 6))
    last[0, 5] = -(last[0, :5] @ first[:5, 0]) / first[5, 0]
    nodes = [
        Node("input", width=2),
        Node("affine", (0,), weight=first, bias=rng.normal(size=6)),
        Node("affine", (1,), weight=last, bias=np.zeros(1)),
    ]
    network = normal_form(nodes)
    check(network, expressions(nodes), rng)
    assert network.outputs.blocks[0].size[0, 0] <= 1.01 * (np.abs(last) @ np.abs(first))[0, 0]


@pytest.mark.parametrize("seed", range(20))
def test_weights_that_are_known_within_errors(seed: int) -> None:
    """Any graph whose weights are that close to the floats is within the claims."""
    rng = np.random.default_rng([seed, 13])
    said, true = [Node("input", width=2)], [Node("input", width=2)]
    for i in range(3):
        node = _affine(rng, i, 2, 2)
        kind = rng.integers(3)
        each = np.abs(rng.normal(size=(2, 2))) * 10.0 ** rng.integers(-18, -2)
        error = each if kind else each.sum(1)
        bias_error = np.abs(rng.normal(size=2)) * 1e-7 if kind == 1 else None
        said.append(node._replace(weight_error=error, bias_error=bias_error))
        assert node.weight is not None and node.bias is not None
        moved = exact(node.weight) + exact(each) * rng.choice([-1, 1], (2, 2))
        bias = exact(node.bias) + (0 if bias_error is None else exact(bias_error) * rng.choice([-1, 1], 2))
        true.append(node._replace(weight=moved, bias=bias))
    for join in ([], [Node("add", (2, 3))], [Node("concat", (3, 1))]):  # also where errors of several ways meet
        check(normal_form(said + join), expressions(true + join), rng)


@pytest.mark.parametrize("tier", ["at", "interval", "quick", "tight"])
@pytest.mark.parametrize("width", [1, 2, 60])
def test_errors_of_weights_reach_the_outputs(tier: str, width: int) -> None:
    """A weight of 1 that may be 1.001 gives at 1 up to 1.001, by every way."""
    weight, one = np.ones((1, width)), np.ones((1, 1))
    nodes = [
        Node("input", width=width),
        Node("affine", (0,), weight=weight, bias=np.zeros(1), weight_error=np.full((1, width), 1e-3)),
        Node("activation", (1,), activation=Activation("relu")),
        Node("affine", (2,), weight=one, bias=np.zeros(1), bias_error=np.array([1e-3])),
    ]
    prepared, x = Prepared(normal_form(nodes)), np.ones((1, width))
    still = np.zeros((1, width))
    found = enclose_at(prepared, x) if tier == "at" else enclose(prepared, x, tier, BallBox(still, still))
    truth = width * 1.001 + 1e-3
    assert found.high[0, 0] >= truth - 1e-12 and found.low[0, 0] <= 2 * width - truth + 1e-12
    assert found.high[0, 0] <= width + 40 * (truth - width)


def test_what_a_run_multiplies_by_nothing_is_touched() -> None:
    """Infinity times 0 is no number; what selects, or rounds nothing, leaves the rest alone."""
    whole, part = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    read = Node("affine", (1,), weight=whole, bias=np.zeros(1))
    for chosen, expected in (
        (Node("select", (0,), columns=(1, 0)), [True, True, False]),
        (Node("select", (0,), columns=(1, 1)), [False, True, False]),
        (Node("affine", (0,), weight=part, bias=np.zeros(2), roundings=0), [True, True, False]),
        (Node("affine", (0,), weight=part, bias=np.zeros(2), roundings=1), [True, True, True]),
    ):
        nodes = [Node("input", width=3), chosen, read]
        for after in ([], [Node("select", (2,), columns=(0, 0))], [Node("add", (2, 2))], [Node("concat", (2, 2))]):
            assert normal_form([*nodes, *after]).outputs.touched[0].tolist() == expected


def test_what_a_bias_may_be_off_is_no_matter_of_the_unit() -> None:
    """A softplus that is linear beyond 20 is off by 2e-9: float32 runs of it are not off by 2e-9 / U."""
    one, error = np.ones((1, 1)), np.full(1, 4e-9)
    nodes = [Node("input", width=1)]
    for _ in range(3):
        nodes.append(Node("activation", (len(nodes) - 1,), activation=Activation("softplus", (1.0,))))
        nodes.append(Node("affine", (len(nodes) - 1,), weight=one, bias=np.zeros(1), bias_error=error, roundings=0))
    for run_unit, wide in ((False, 1e-7), (True, 1e-4)):
        prepared, x = Prepared(normal_form(nodes), float32_run=run_unit), np.zeros((1, 1))
        tiers: tuple[Tier, ...] = ("interval", "quick", "tight")
        for low, high in (enclose_at(prepared, x), *(enclose(prepared, x, t, BallBox(x, x)) for t in tiers)):
            assert 8e-9 <= high[0, 0] - low[0, 0] <= wide


def test_a_given_size_counts() -> None:
    weight, size = np.array([[1.0, -2.0]]), np.array([[0.5, 7.0]])
    nodes = [
        Node("input", width=2),
        Node("affine", (0,), weight=weight, bias=np.array([1.0]), size=size, bias_size=np.array([9.0]), roundings=5),
    ]
    plain = normal_form([nodes[0], nodes[1]._replace(size=None, bias_size=None, roundings=0)])
    given = normal_form(nodes)
    assert np.allclose(given.outputs.blocks[0].size, [[1.0, 7.0]], rtol=1e-12)
    assert given.outputs.unit > plain.outputs.unit
    room = given.outputs.rho * given.outputs.eta([np.zeros((1, 2))])
    assert room[0] >= 9.0
    itself = normal_form([nodes[0], nodes[1]._replace(size=np.abs(weight), bias_size=None, roundings=0)])
    assert itself.outputs.unit == plain.outputs.unit, "a size that is nothing but the weights says nothing"


def test_one_activation_read_twice_is_one_layer() -> None:
    relu = Activation("relu")
    one = Node("affine", (0,), weight=np.eye(2), bias=np.zeros(2))
    nodes = [
        Node("input", width=2),
        one,
        Node("activation", (1,), activation=relu),
        Node("activation", (1,), activation=relu),
        Node("activation", (1,), activation=Activation("tanh")),
        Node("activation", (2,), activation=relu),
        Node("concat", (2, 3, 4, 5, 0)),
        Node("select", (6,), columns=(9, 0, 0, 2, 5, 7)),
        Node("add", (7, 7, 7)),
    ]
    network = normal_form(nodes)
    assert network.depth == 3 and [block.source for block in network.outputs.blocks] == [0, 1, 2, 3]
    check(network, expressions(nodes), np.random.default_rng(0))


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("seed", range(8))
def test_runs_in_any_order_are_within_the_run_unit(seed: int, order: str) -> None:
    """A float64 run of the original operations, summed forward or backward, is off by at most the claim."""
    rng = np.random.default_rng([seed, 14])
    width = int(rng.choice([2, 9, 16]))
    nodes = [Node("input", width=width), _affine(rng, 0, width, width), _affine(rng, 1, width, 3)]
    x = rng.normal(size=width) * 10.0 ** rng.integers(-6, 6)
    layer, true = normal_form(nodes).outputs, expressions(nodes)[-1]
    h = x
    for node in nodes[1:]:
        assert node.weight is not None and node.bias is not None
        products = node.weight * h
        steps = range(products.shape[1]) if order == "forward" else range(products.shape[1] - 1, -1, -1)
        h = np.zeros(len(products))
        for j in steps:
            h = h + products[:, j]
        h = h + node.bias
    room = Fraction(float(layer.eta([np.abs(x)[None]])[0])) * exact(layer.rho) * Fraction(layer.unit)
    assert (abs(exact(h) - (true[0][0] @ exact(x) + true[1])) <= room).all()


def test_margins_become_outputs() -> None:
    weight = np.array([[3.0, 1.0], [5.0, 7.0]])
    nodes = [Node("input", width=2), Node("affine", (0,), weight=weight, bias=np.array([1.0, 2.0]))]
    network = normal_form(nodes, np.array([[-1.0, 1.0]]))
    assert network.outputs.blocks[0].weight.tolist() == [[2.0, 6.0]] and network.outputs.bias.tolist() == [1.0]


ONE = np.ones((1, 1))
ZERO = np.zeros(1)
AFFINE = Node("affine", (0,), weight=ONE, bias=ZERO)
START = Node("input", width=1)
MALFORMED: list[list[Node]] = [
    [],
    [AFFINE],
    [Node("input", width=0)],
    [START, START],
    [START, AFFINE._replace(inputs=(1,))],
    [START, AFFINE._replace(inputs=(-1,))],
    [START, AFFINE._replace(inputs=(0, 0))],
    [START, AFFINE._replace(inputs=())],
    [START, AFFINE._replace(weight=None)],
    [START, AFFINE._replace(bias=None)],
    [START, AFFINE._replace(weight=np.ones((1, 2)))],
    [START, AFFINE._replace(weight=np.ones((2, 1)))],
    [START, AFFINE._replace(weight=np.ones(1))],
    [START, AFFINE._replace(weight=np.zeros((0, 1)), bias=np.zeros(0))],
    [START, AFFINE._replace(bias=np.zeros((1, 1)))],
    [START, AFFINE._replace(bias=np.zeros(()))],
    [Node("input", width=2), Node("affine", (0,), weight=np.ones((2, 2)), bias=np.zeros((2, 1)))],
    [START, AFFINE._replace(weight=ONE * np.nan)],
    [START, AFFINE._replace(weight=ONE * np.inf)],
    [START, AFFINE._replace(weight=ONE.astype(np.float32))],
    [START, AFFINE._replace(weight=np.ones((1, 1), dtype=np.int64))],
    [START, AFFINE._replace(bias=ZERO + np.nan)],
    [START, AFFINE._replace(weight_error=-ONE)],
    [START, AFFINE._replace(weight_error=ONE * np.nan)],
    [START, AFFINE._replace(weight_error=np.ones((1, 2)))],
    [START, AFFINE._replace(bias_error=-np.ones(1))],
    [START, AFFINE._replace(bias_error=np.ones(2))],
    [START, AFFINE._replace(size=-ONE)],
    [START, AFFINE._replace(size=ONE * np.inf)],
    [START, AFFINE._replace(bias_size=-np.ones(1))],
    [START, AFFINE._replace(roundings=-1)],
    [START, Node("activation", (0,))],
    [START, Node("activation", (), activation=Activation("relu"))],
    [START, Node("activation", (0,), activation=Activation("prelu", (0.1, 0.2)))],
    [START, Node("add", ())],
    [START, Node("concat", ())],
    [START, AFFINE, Node("affine", (1,), weight=np.ones((2, 1)), bias=np.zeros(2)), Node("add", (1, 2))],
    [START, Node("select", (0,), columns=())],
    [START, Node("select", (0,), columns=(1,))],
    [START, Node("select", (0,), columns=(-1,))],
    [START, Node("max", (0,))],
    [Node("input", width=2**29)],
]


@pytest.mark.parametrize("nodes", MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_graphs_are_refused_in_one_sentence(nodes: list[Node]) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        normal_form(nodes)


def test_matrices_that_would_not_fit_are_refused() -> None:
    wide = 2**15
    nodes = [
        Node("input", width=wide),
        Node("affine", (0,), weight=np.zeros((1, wide)), bias=ZERO),
        Node("affine", (1,), weight=np.zeros((wide, 1)), bias=np.zeros(wide)),
    ]
    with pytest.raises(ValueError, match="needs a matrix"):
        normal_form(nodes)


@pytest.mark.parametrize("rows", [np.array([[np.nan, 1.0]]), np.array([[1, -1]]), np.ones((1, 3))])
def test_margins_of_other_things_are_refused(rows: Array) -> None:
    nodes = [Node("input", width=2), Node("affine", (0,), weight=np.eye(2), bias=np.zeros(2))]
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        normal_form(nodes, rows)


def test_what_cancels_is_read() -> None:
    """``(x_0 + x_1) − x_1`` is read of both, since a run rounds; nothing reads ``x_2``."""
    nodes = [
        Node("input", width=3),
        Node("affine", (0,), weight=np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]), bias=np.zeros(2)),
        Node("affine", (1,), weight=np.array([[1.0, -1.0]]), bias=np.zeros(1)),
        Node("activation", (2,), activation=Activation("relu")),
        Node("affine", (3,), weight=np.ones((5, 1)), bias=np.zeros(5)),
    ]
    network = normal_form(nodes)
    assert ((network.reads > 0) == [True, True, False]).all()
    assert network.layers[0].blocks[0].weight[0, 1] == 0.0
    assert network.widest == 5
    assert (normal_form(nodes[:1]).reads > 0).all()
