"""What rounding costs, and that it is paid.

At a radius of 1e-12 bounds by passes are at most 1e-9 (1 + largest margin) wide on hard networks, and ranges from
ranges at most half wider than in real arithmetic, in which 50 layers widen them by 1e30. Networks in which large
numbers cancel on the way forward and on the way back show what a pass owes: the layers beside them owe nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Literal

import numpy as np
import pytest

from isonomy_verify.activations import SHAPES, Activation
from isonomy_verify.arithmetic import Array, Float32, U
from isonomy_verify.enclosure import Prepared
from isonomy_verify.network import Network, Node, normal_form
from isonomy_verify.regions import Ball, BallBox
from isonomy_verify.tiers import Enclosure, Tier, enclose, enclose_at

from .graphs import chain
from .truth import escapes

RADIUS, TARGET = 1e-12, 1e-9
Drawn = tuple[list[Node], Array]
Way = Tier | Literal["at"]
WAYS: tuple[Way, ...] = ("interval", "quick", "tight", "at")


def deep(rng: np.random.Generator) -> Drawn:
    """50 layers of 50 neurons, as He initialises them."""
    return chain(rng, [50] * 51 + [1], bias=0.0), rng.normal(size=(2, 50))


def deep_with_biases(rng: np.random.Generator) -> Drawn:
    """The same with small biases."""
    return chain(rng, [50] * 51 + [1], bias=0.1), rng.normal(size=(2, 50))


def large_inputs(rng: np.random.Generator) -> Drawn:
    """Inputs of size 1e5."""
    return chain(rng, [20, 50, 50, 1]), rng.normal(size=(2, 20)) * 1e5


def many_scales(rng: np.random.Generator) -> Drawn:
    """Weights over ten orders of magnitude."""
    nodes = chain(rng, [20, 50, 50, 1])
    spread = [n if n.weight is None else _spread(n, n.weight, rng) for n in nodes]
    return spread, rng.normal(size=(2, 20))


def _spread(node: Node, weight: Array, rng: np.random.Generator) -> Node:
    return node._replace(weight=weight * 10.0 ** rng.uniform(-5, 5, weight.shape))


@cache
def network(draw: Callable[[np.random.Generator], Drawn], seed: int) -> tuple[Network, Array]:
    nodes, x = draw(np.random.default_rng(seed))
    return normal_form(nodes), x


def questions() -> Iterator[Any]:
    for draw in (deep, deep_with_biases, large_inputs, many_scales):
        for tier in WAYS:
            if draw in (deep, deep_with_biases) and tier in ("interval", "quick"):
                continue  # widths that no arithmetic can help
            for shared in (True, False):
                slow = draw is deep_with_biases or (draw is deep and not (shared and tier == "tight"))
                name = f"{draw.__name__}-{tier}-{'ball' if shared else 'box'}"
                yield pytest.param(draw, tier, shared, id=name, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("draw", "tier", "shared"), list(questions()))
def test_bounds_of_nearly_nothing_are_nearly_points(
    draw: Callable[[np.random.Generator], Drawn], tier: Way, shared: bool
) -> None:
    layers, x = network(draw, 0)
    m = x.shape[1]
    prepared = Prepared(layers, Ball(np.eye(m), 2.0, RADIUS) if shared else None)
    box = BallBox(np.full(x.shape, -RADIUS), np.full(x.shape, RADIUS))
    low, high = enclose_at(prepared, x) if tier == "at" else enclose(prepared, x, tier, None if shared else box)
    assert ((high - low) <= TARGET * (1 + np.maximum(np.abs(low), np.abs(high)))).all()


@pytest.mark.slow
@pytest.mark.parametrize("draw", [deep, deep_with_biases])
@pytest.mark.parametrize("tier", ["interval", "quick"])
@pytest.mark.parametrize("shared", [True, False])
def test_ranges_from_ranges_are_at_most_half_wider_than_without_rounding(draw: Any, tier: Tier, shared: bool) -> None:
    """Their ends are computed again without a charge; the radius is some 1e4 times a layer's rounding."""
    layers, x = network(draw, 0)
    prepared = Prepared(layers, Ball(np.eye(x.shape[1]), 2.0, RADIUS) if shared else None)
    box = BallBox(np.full(x.shape, -RADIUS), np.full(x.shape, RADIUS))
    low, high = enclose(prepared, x, tier, None if shared else box)
    first, *others = layers.layers
    centre = x @ first.blocks[0].weight.T + first.bias
    reach = np.linalg.norm(first.blocks[0].weight, 2 if shared else 1, axis=1) * RADIUS
    below, above = centre - reach, centre + reach
    for layer in others:
        below, above, weight = np.maximum(below, 0), np.maximum(above, 0), layer.blocks[0].weight
        middle, half = (below + above) / 2 @ weight.T + layer.bias, (above - below) / 2 @ np.abs(weight).T
        below, above = middle - half, middle + half
    assert (above - below > 1e9).all() and ((high - low) <= 1.5 * (above - below)).all()


STEEP = Activation("leaky_relu", (1.0,))
"""Straight, and of either sign."""


def cancelling(rng: np.random.Generator) -> Drawn:
    """Two neurons that are differences of large numbers and small themselves, read so that what is carried back to
    what they read is small again."""
    x, large, first = rng.uniform(1, 2, 2), rng.uniform(1e6, 2e6, 2), rng.uniform(1, 2)
    x, large = (a.astype(np.float32).astype(np.float64) for a in (x, large))
    middle = np.stack([large, -(large * x[0] - 1) / x[1]], axis=1)
    last = np.array([[first, -first * large[0] / large[1]]])
    return [
        Node("input", width=2), Node("activation", (0,), activation=Activation("relu")),
        Node("affine", (1,), weight=middle, bias=np.zeros(2)), Node("activation", (2,), activation=STEEP),
        Node("affine", (3,), weight=last, bias=np.zeros(1)),
    ], x[None]  # fmt: skip


@pytest.mark.parametrize("tier", WAYS)
@pytest.mark.parametrize("run_unit", [False, True])
def test_a_layer_pays_for_its_own_rounding(tier: Way, run_unit: bool) -> None:
    """In float64 for that of the pass through it, besides for that of a float32 run of it."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        nodes, x = cancelling(rng)
        low, high = point(Prepared(normal_form(nodes), float32_run=run_unit), x, tier)
        assert not escapes(nodes, low[0], high[0], x[0])
        if run_unit:
            middle, last, h = (np.asarray(a, dtype=np.float32) for a in (nodes[2].weight, nodes[4].weight, x[0]))
            z = middle[:, 0] * h[0] + middle[:, 1] * h[1]
            assert low[0, 0] <= float(last[0, 0] * z[0] + last[0, 1] * z[1]) <= high[0, 0]


def test_layers_that_read_one_source_pay_for_the_sum_over_them() -> None:
    """To the coefficient of one number a layer adds a large one, hundreds add less than its last place, each of which
    is lost, and one takes the large one away again."""
    nodes, large = [Node("input", width=1)], 2.0**20

    def put(kind: str, *read: int, **what: Any) -> int:
        nodes.append(Node(kind, read, **what))
        return len(nodes) - 1

    def affine(read: int, *weight: float) -> int:
        return put("affine", read, weight=np.array([weight]), bias=np.zeros(1))

    source = put("activation", 0, activation=STEEP)
    away = put("activation", affine(source, -large), activation=Activation("relu"))
    small = put("activation", affine(source, -(2.0**-33)), activation=Activation("relu"))
    for _ in range(380):
        lost = affine(put("concat", source, small), -0.499 * 2.0**-32, 1.0)
        small = put("activation", lost, activation=Activation("relu"))
    affine(put("concat", source, away, small), large, 1.0, -1.0)
    x = np.array([[-1.0]])
    low, high = enclose_at(Prepared(normal_form(nodes)), x)
    assert not escapes(nodes, low[0], high[0], x[0])


def point(prepared: Prepared, x: Array, tier: Way) -> tuple[Array, Array]:
    """Outputs at ``x``, by a tier over nothing else."""
    if tier == "at":
        return enclose_at(prepared, x)
    return enclose(prepared, x, tier, BallBox(np.zeros(x.shape), np.zeros(x.shape)))


def single(nodes: list[Node], x: Array) -> Float32:
    """A float32 run of a chain at one point, products summed in order."""
    zero = np.float32(0)
    with np.errstate(all="ignore"):
        h = x.astype(np.float32)
        for node in nodes[1:]:
            if node.weight is not None and node.bias is not None:
                products = node.weight.astype(np.float32) * h
                h = np.cumsum(products, axis=1, dtype=np.float32)[:, -1] + node.bias.astype(np.float32)
                continue
            assert node.activation is not None
            kind, (first, *rest) = node.activation.kind, np.array(node.activation.parameters or (0,), dtype=np.float32)
            if kind == "hardswish":
                h = h * np.clip(h + np.float32(3), zero, np.float32(6)) / np.float32(6)
            elif kind == "softplus":
                h = np.logaddexp(first * h, zero) / first
            elif kind == "elu":
                h = np.where(h >= 0, h, first * np.expm1(h))
            elif kind == "clip":
                h = np.clip(h, first, rest[0])
            else:  # ReLU, or a slope below 0
                h = np.where(h >= 0, h, first * h)
    return h


def plain(weight: list[list[float]], bias: float = 0.0) -> Node:
    """A map of what the node before gives, to be numbered by :func:`following`."""
    return Node("affine", weight=np.array(weight), bias=np.full(len(weight), bias))


def following(width: int, *after: Node | Activation) -> list[Node]:
    """A chain."""
    nodes = [Node("input", width=width)]
    for each in after:
        node = Node("activation", activation=each) if isinstance(each, Activation) else each
        nodes.append(node._replace(inputs=(len(nodes) - 1,)))
    return nodes


@pytest.mark.parametrize("tier", WAYS)
@pytest.mark.parametrize("shared", [True, False])
def test_what_rounding_alone_makes_too_large_for_float32(tier: Way, shared: bool) -> None:
    """Exactly a layer gives 0 and in float64 nearly that; in float32 it gives 1e23, so that the next one has
    infinity less infinity."""
    middle = plain([[1e30, -1e30]] * 2, -1e20)
    nodes = following(2, middle, Activation("relu"), plain([[1e20, -1e20]]), Activation("clip", (0.25, 0.75)))
    x = np.array([[1 + 2.0**-24 + 2.0**-40, 1 + 2.0**-24 - 2.0**-40]])
    assert np.isnan(single(nodes, x[0])).all()
    prepared = Prepared(normal_form(nodes), Ball(np.eye(2), 2.0, 1e-14) if shared else None, float32_run=True)
    enclosures = [Enclosure(*point(prepared, x, tier))]
    if tier != "at" and shared:
        enclosures += [enclose(prepared, x, tier), enclose_at(prepared, x)]
    for low, high in enclosures:
        assert np.isinf(low).all() and np.isinf(high).all()


TOO_LARGE = [
    (Activation("hardswish"), 7e37), (Activation("leaky_relu", (1e39,)), -1e-5), (Activation("elu", (1e39,)), -1e-5),
    (Activation("prelu", (-1e39,)), -1e-5), (Activation("softplus", (1e39,)), 0.0),
    (Activation("softplus", (1e-60,)), 0.0), (Activation("softplus", (1e30,)), 1e10),
]  # fmt: skip


@pytest.mark.parametrize(("activation", "at"), TOO_LARGE)
def test_activations_that_overflow_inside(activation: Activation, at: float) -> None:
    """Of small results, and with parameters that float32 has no number for."""
    nodes = following(1, plain([[1.0]]), activation, plain([[1e-30]]))
    assert not np.isfinite(single(nodes, np.array([at]))).all()
    network = normal_form(nodes)
    for tier in WAYS:
        for run_unit in (True, False):
            low, high = point(Prepared(network, float32_run=run_unit), np.array([[at]]), tier)
            assert np.isfinite([low, high]).all() != run_unit


@pytest.mark.parametrize("tier", WAYS)
def test_a_sum_of_millions_in_float32_is_larger_than_its_terms(tier: Way) -> None:
    """Each addition rounds up by 6%: an operation that adds so many equal numbers, one after the other."""
    many, each = 2**21, 1 + 2.0**-4 + 2.0**-20
    size = np.array([[many * each]])
    nodes = [
        Node("input", width=1), Node("affine", (0,), weight=size, bias=np.zeros(1), size=size, roundings=many),
    ]  # fmt: skip
    total = float(np.cumsum(np.full(many, each, np.float32), dtype=np.float32)[-1])
    assert total > 1.02 * many * each
    low, high = point(Prepared(normal_form(nodes), float32_run=True), np.ones((1, 1)), tier)
    assert low[0, 0] <= total <= high[0, 0] and not escapes(nodes, low[0], high[0], np.ones(1))


@pytest.mark.parametrize("tier", WAYS)
def test_limits_cost_what_is_reached_of_them(tier: Way) -> None:
    """Those that exporters write for "none" cost nothing; those of runs are rounded."""
    for low, high, at in ((0.0, 3.4e38, 3.0), (-3e38, 0.1, 2.0), (-0.1, 5e38, -2.0), (0.1, 0.1, 1.0)):
        nodes = following(1, plain([[1.0]]), Activation("clip", (low, high)), plain([[1.0]]))
        x = np.array([[at]])
        found = Enclosure(*point(Prepared(normal_form(nodes), float32_run=True), x, tier))
        assert (found.high - found.low < 1e-4).all()
        assert found.low[0, 0] <= float(single(nodes, x[0])[0]) <= found.high[0, 0]
        assert not escapes(nodes, found.low[0], found.high[0], x[0])


@pytest.mark.parametrize("run_unit", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_infinity_times_nothing_is_no_number(run_unit: bool, shared: bool) -> None:
    """A coordinate that nothing bounds and that is read with weight 0, unless it is left out before."""
    reading = following(2, plain([[1.0, 0.0]]), Activation("relu"), plain([[1.0]]))
    assert np.isnan(single(reading, np.array([1.0, 1e39]))).all()
    leaving = following(2, Node("select", columns=(0,)), plain([[1.0]]), Activation("relu"), plain([[1.0]]))
    x, far = np.ones((1, 2)), np.array([[0.1, np.inf]])
    for nodes in (reading, leaving):
        prepared = Prepared(normal_form(nodes), Ball(np.diag([1.0, 0.0]), 2.0, 0.1) if shared else None, run_unit)
        for tier in ("interval", "quick", "tight"):
            low, high = enclose(prepared, x, tier, None if shared else BallBox(-far, far))
            assert np.isinf([low, high]).all() == (run_unit and nodes is reading)
            assert np.isfinite([low, high]).all() == (not run_unit or nodes is leaving)


@pytest.mark.parametrize("tier", WAYS)
def test_slopes_that_are_small_for_float32(tier: Way) -> None:
    """Large numbers times a slope of few bits, or of none."""
    for slope in (2e-45, 1e-46):
        leaky = Activation("leaky_relu", (slope,))
        nodes = following(1, plain([[1.0]]), Activation("relu"), plain([[-1.0]]), leaky, plain([[1.0]]))
        x = np.array([[1e37]])
        low, high = point(Prepared(normal_form(nodes), float32_run=True), x, tier)
        assert low[0, 0] <= float(single(nodes, x[0])[0]) <= high[0, 0]
        assert not escapes(nodes, low[0], high[0], x[0])


@pytest.mark.parametrize("tier", WAYS)
@pytest.mark.parametrize("steepness", [1.0, 3.0])
def test_what_a_layer_may_be_off_behind_an_activation(
    tier: Way, steepness: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what a file says of its bias, and by the error that a library's own function may make: a float64 run shows
    neither of them."""
    slack, off = 1e-3, 20 * U
    leaky = Activation("leaky_relu", (steepness,))
    nodes = following(1, plain([[1.0]])._replace(bias_error=np.array([slack])), leaky, plain([[2.0]]))
    low, high = point(Prepared(normal_form(nodes)), np.array([[-1.0]]), tier)
    assert low[0, 0] <= -2 * steepness * (1 + slack) and high[0, 0] >= -2 * steepness * (1 - slack)
    tanh = SHAPES["tanh"]()
    monkeypatch.setitem(SHAPES, "tanh", lambda: tanh._replace(value=lambda t: np.tanh(t) + off * (1 + np.abs(t))))
    nodes = following(1, plain([[1.0]]), Activation("tanh"), plain([[1.0]]))
    low, high = point(Prepared(normal_form(nodes)), np.array([[1e-9]]), tier)
    assert low[0, 0] <= 1e-9 <= high[0, 0]
