"""Bounds of whole networks: no member of a region leaves them, by any tier, on any thread."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from flint import ctx

from isonomy_verify import tiers
from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array
from isonomy_verify.enclosure import Prepared, Run
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.regions import Ball, BallBox
from isonomy_verify.sets import ConvexSets
from isonomy_verify.tiers import Enclosure, Tier, enclose, enclose_at

from .graphs import activation, chain, draw
from .truth import ACTIVATIONS, escapes

TIERS: tuple[Tier, ...] = get_args(Tier)
EACH = pytest.mark.parametrize("tier", TIERS)


def vertices(rng: np.random.Generator, m: int, radius: float, few: int = 6) -> Array:
    """Members of the ball of order infinity with this radius, exactly."""
    corners = rng.choice([-radius, radius], (few, m))
    return np.concatenate([corners, np.zeros((1, m)), corners[:2] * rng.random((2, m))])


def member_of_ball(rng: np.random.Generator, m: int, order: float, radius: float) -> Array:
    """Members of a plain ball, pulled in by more than their own rounding."""
    v = rng.normal(size=(6, m))
    v[0] = np.eye(m)[0]
    v /= np.linalg.norm(v, order, axis=1, keepdims=True) * (1 + 1e-14)
    return np.concatenate([v * radius, np.zeros((1, m))])


@pytest.mark.parametrize("seed", range(9))
def test_random_graphs_over_boxes(seed: int) -> None:
    rng = np.random.default_rng([seed, 60])
    nodes = draw(rng)
    x = rng.normal(size=(2, nodes[0].width)) * float(rng.choice([0.0, 1.0, 1e3]))
    radius = float(rng.choice([0.0, 1e-12, 1e-3, 0.5, 20.0]))
    region = BallBox(np.full(x.shape, -radius), np.full(x.shape, radius))
    prepared = Prepared(normal_form(nodes))
    moves, at = vertices(rng, x.shape[1], radius), enclose_at(prepared, x)
    for tier in TIERS:
        found = enclose(prepared, x, tier, region)
        for row in range(2):
            assert not escapes(nodes, at.low[row], at.high[row], x[row])
            for v in moves:
                assert not escapes(nodes, found.low[row], found.high[row], x[row], v), tier


@pytest.mark.parametrize("seed", range(9))
def test_random_graphs_over_a_shared_ball(seed: int) -> None:
    rng = np.random.default_rng([seed, 61])
    nodes = draw(rng)
    m, order = nodes[0].width, float(rng.choice([1.0, 2.0, 2.0, math.inf]))
    x = rng.normal(size=(2, m)) * float(rng.choice([0.0, 1.0, 1e3]))
    radius = float(rng.choice([0.0, 1e-12, 1e-3, 0.5, 20.0]))
    prepared = Prepared(normal_form(nodes), Ball(np.eye(m), order, radius))
    moves = member_of_ball(rng, m, order, radius)
    for tier in TIERS:
        found = enclose(prepared, x, tier)
        for row in range(2):
            for v in moves:
                assert not escapes(nodes, found.low[row], found.high[row], x[row], v), tier


@pytest.mark.parametrize("kind", [a for a in ACTIVATIONS if a.kind != "prelu"], ids=lambda a: f"{a.kind}{a.parameters}")
def test_deep_chains_of_every_activation(kind: Activation) -> None:
    rng = np.random.default_rng(62)
    nodes = chain(rng, [3, 5, 5, 5, 2], kind)
    x = rng.normal(size=(2, 3))
    prepared = Prepared(normal_form(nodes), Ball(np.eye(3), 2.0, 0.4))
    for tier in TIERS:
        found = enclose(prepared, x, tier)
        assert np.isfinite(found.low).all() and np.isfinite(found.high).all()
        for row in range(2):
            for v in member_of_ball(rng, 3, 2.0, 0.4)[:5]:
                assert not escapes(nodes, found.low[row], found.high[row], x[row], v)


@EACH
def test_a_linear_network_is_bounded_as_it_is(tier: Tier) -> None:
    """Nothing is relaxed: the support of its weights, up to rounding."""
    rng = np.random.default_rng(63)
    weight, bias = rng.normal(size=(2, 3)), rng.normal(size=2)
    nodes = [Node("input", width=3), Node("affine", (0,), weight=weight, bias=bias)]
    x = rng.normal(size=(4, 3))
    found = enclose(Prepared(normal_form(nodes), Ball(np.eye(3), 2.0, 0.3)), x, tier)
    norm = 0.3 * np.linalg.norm(weight, axis=1)
    assert np.allclose(found.high, x @ weight.T + bias + norm, atol=1e-12)
    assert np.allclose(found.low, x @ weight.T + bias - norm, atol=1e-12)


@EACH
@pytest.mark.parametrize("shared", [True, False])
def test_a_region_of_one_point(tier: Tier, shared: bool) -> None:
    rng = np.random.default_rng(64)
    nodes = chain(rng, [3, 6, 6, 2])
    x, still = rng.normal(size=(3, 3)), np.zeros((3, 3))
    prepared = Prepared(normal_form(nodes), Ball(np.eye(3), 2.0, 0.0) if shared else None)
    found = enclose(prepared, x, tier, None if shared else BallBox(still, still))
    for row in range(3):
        assert not escapes(nodes, found.low[row], found.high[row], x[row])
    at = enclose_at(prepared, x)
    assert (found.high - found.low <= 1e-10).all() and (at.high - at.low <= 1e-10).all()


@EACH
def test_nobody(tier: Tier) -> None:
    nodes = chain(np.random.default_rng(65), [3, 4, 2])
    network, none = normal_form(nodes), np.zeros((0, 3))
    for prepared, region in (
        (Prepared(network, Ball(np.eye(3), 2.0, 0.1)), None),
        (Prepared(network), BallBox(none, none)),
    ):
        found = enclose(prepared, none, tier, region)
        assert found.low.shape == found.high.shape == (0, 2)
    assert enclose_at(Prepared(network), none).low.shape == (0, 2)


@EACH
def test_one_person_is_bounded_as_in_a_batch(tier: Tier) -> None:
    rng = np.random.default_rng(66)
    nodes = chain(rng, [3, 8, 8, 2])
    prepared, x = Prepared(normal_form(nodes), Ball(np.eye(3), 2.0, 0.2)), rng.normal(size=(300, 3))
    region = BallBox(-np.abs(rng.normal(size=x.shape)) * 0.1, np.abs(rng.normal(size=x.shape)) * 0.1)
    whole, boxed = enclose(prepared, x, tier), enclose(prepared, x, tier, region)
    for row in (0, 149, 150, 299):
        part = slice(row, row + 1)
        for all_, one in (
            (whole, enclose(prepared, x[part], tier)),
            (boxed, enclose(prepared, x[part], tier, region[part])),
        ):
            assert np.allclose(all_.low[part], one.low, atol=1e-9)
            assert np.allclose(all_.high[part], one.high, atol=1e-9)


def test_inputs_are_not_changed() -> None:
    rng = np.random.default_rng(67)
    nodes = chain(rng, [3, 8, 2])
    x = rng.normal(size=(5, 3))
    low, high, before = -np.ones((5, 3)), np.ones((5, 3)), x.copy()
    prepared = Prepared(normal_form(nodes))
    first = enclose(prepared, x, "tight", BallBox(low, high))
    kept = [np.array(a) for a in first]
    enclose(prepared, x + 1, "tight", BallBox(low, high))
    assert np.array_equal(x, before) and (low == -1).all() and (high == 1).all()
    assert all(np.array_equal(a, b) for a, b in zip(kept, first, strict=True))


def test_the_tiers_come_closer() -> None:
    """On an easy network tight is within quick, and quick within interval."""
    rng = np.random.default_rng(68)
    nodes = chain(rng, [4, 16, 16, 1])
    prepared, x = Prepared(normal_form(nodes), Ball(np.eye(4), 2.0, 0.1)), rng.normal(size=(50, 4))
    widths = [float((b := enclose(prepared, x, tier)).high.sum() - b.low.sum()) for tier in TIERS]
    assert widths[2] < widths[1] < widths[0]


@pytest.mark.parametrize("region", ["ball", "box"])
def test_two_threads_share_what_is_prepared(region: str) -> None:
    """Bit for bit what one thread finds, whatever the other does at the same time."""
    rng = np.random.default_rng(69)
    nodes = chain(rng, [4, 20, 20, 20, 2], Activation("relu"))
    network = normal_form(nodes)
    x = [rng.normal(size=(n, 4)) for n in (300, 40)]
    boxes = [BallBox(-np.abs(rng.normal(size=a.shape)) * 0.1, np.abs(rng.normal(size=a.shape)) * 0.1) for a in x]

    def bounds(prepared: Prepared, which: int) -> Enclosure:
        return enclose(prepared, x[which], "tight", None if region == "ball" else boxes[which])

    ball = Ball(np.eye(4), 2.0, 0.2) if region == "ball" else None
    alone = [bounds(Prepared(network, ball), i) for i in range(2)]
    shared = Prepared(network, ball)
    found: list[list[Enclosure]] = [[], []]
    start = threading.Barrier(2)

    def work(which: int) -> None:
        start.wait()
        found[which] = [bounds(shared, which) for _ in range(4 if which else 1)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for which in range(2):
        assert found[which]
        for one in found[which]:
            assert all(np.array_equal(a, b) for a, b in zip(one, alone[which], strict=True))


@EACH
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["relu", "tanh", "clip"])
def test_float32_runs_at_every_move_are_covered(tier: Tier, shared: bool, kind: str) -> None:
    """Also where the centre is 0 and all that is rounded comes from the move."""
    rng = np.random.default_rng(70)
    for _ in range(4):
        chosen = Activation(kind, (-0.1, 0.3)) if kind == "clip" else Activation(kind)
        nodes = [_single(node) for node in chain(rng, [2, 3, 1], chosen)]
        x = np.zeros((1, 2))
        ball = Ball(np.eye(2), math.inf, 0.5) if shared else None
        box = None if shared else BallBox(np.full((1, 2), -0.5), np.full((1, 2), 0.5))
        found = enclose(Prepared(normal_form(nodes), ball, float32_run=True), x, tier, box)
        for move in vertices(rng, 2, 0.5):
            assert found.low[0, 0] <= _run32(nodes, move) <= found.high[0, 0]


@EACH
@pytest.mark.parametrize("shared", [True, False])
def test_float32_runs_of_a_linear_network_are_covered(tier: Tier, shared: bool) -> None:
    """Nothing is relaxed here that could hide a rounding which is not paid for."""
    rng = np.random.default_rng(71)
    for _ in range(20):
        nodes = [_single(node) for node in chain(rng, [3, 1], bias=0.0)]
        ball = Ball(np.eye(3), math.inf, 0.5) if shared else None
        box = None if shared else BallBox(np.full((1, 3), -0.5), np.full((1, 3), 0.5))
        found = enclose(Prepared(normal_form(nodes), ball, float32_run=True), np.zeros((1, 3)), tier, box)
        weight = nodes[1].weight
        assert weight is not None
        for sign in (1.0, -1.0):
            assert found.low[0, 0] <= _run32(nodes, sign * 0.5 * np.sign(weight[0])) <= found.high[0, 0]


def _single(node: Node) -> Node:
    """Its weights as float32 has them."""
    if node.weight is None or node.bias is None:
        return node
    return node._replace(
        weight=node.weight.astype(np.float32).astype(np.float64), bias=node.bias.astype(np.float32).astype(np.float64)
    )


def _run32(nodes: list[Node], x: Array) -> float:
    h = x.astype(np.float32)
    for node in nodes[1:]:
        if node.kind == "affine":
            assert node.weight is not None and node.bias is not None
            total = np.zeros(len(node.bias), dtype=np.float32)
            for j in range(len(h)):
                total = total + node.weight[:, j].astype(np.float32) * h[j]
            h = total + node.bias.astype(np.float32)
        else:
            assert node.activation is not None
            h = np.asarray(node.activation.shape.value(h), dtype=np.float32)
    return float(h[0])


@pytest.mark.parametrize("scale", [1e-200, 1e-163, 1e-80, 1e80])
@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
@EACH
def test_numbers_that_underflow_or_are_huge(tier: Tier, order: float, scale: float) -> None:
    """Layers that shrink and grow by the same factor: what is lost in between is paid for."""
    rng = np.random.default_rng(72)
    for _ in range(2):
        nodes = chain(rng, [2, 3, 3, 1], bias=0.0)
        factors = iter((scale, scale, 1 / scale))
        nodes = [n if n.weight is None else n._replace(weight=n.weight * next(factors)) for n in nodes]
        x = rng.normal(size=(1, 2)) * float(rng.choice([1.0, 1e-200]))
        with np.errstate(all="ignore"):
            prepared = Prepared(normal_form(nodes), Ball(np.eye(2), order, 0.1))
            found = enclose(prepared, x, tier)
            alone = enclose_at(prepared, x)
        with ctx.workprec(4000):
            assert not escapes(nodes, alone.low[0], alone.high[0], x[0])
            for v in member_of_ball(rng, 2, order, 0.1):
                assert not escapes(nodes, found.low[0], found.high[0], x[0], v)


@pytest.mark.parametrize("kind", ["relu", "tanh"])
def test_runs_that_cancel_are_enclosed(kind: str) -> None:
    """1e16 + 1 - 1e16: a float run may give 0 or 1, and both ways of enclosing a point hold what is exact."""
    for order in ((0, 1, 2), (1, 0, 2), (0, 2, 1)):
        weight = np.array([[1e16, 1.0, -1e16]])[:, list(order)]
        one = np.ones((1, 1))
        nodes = [
            Node("input", width=3),
            Node("affine", (0,), weight=weight, bias=np.zeros(1)),
            Node("activation", (1,), activation=Activation(kind)),
            Node("affine", (2,), weight=one, bias=np.zeros(1)),
        ]
        prepared, x, still = Prepared(normal_form(nodes)), np.ones((1, 3)), np.zeros((1, 3))
        for found in (enclose_at(prepared, x), *(enclose(prepared, x, t, BallBox(still, still)) for t in TIERS)):
            assert not escapes(nodes, found.low[0], found.high[0], x[0])


def test_points_of_deep_networks_are_enclosed_by_passes() -> None:
    """Where ranges from ranges are coarse backward passes take over, at both ends."""
    rng = np.random.default_rng(77)
    nodes = chain(rng, [10] * 25 + [2], gain=1.3)
    prepared, x = Prepared(normal_form(nodes)), rng.normal(size=(3, 10))
    coarse = enclose(prepared, x, "interval", BallBox(np.zeros((1, 10)), np.zeros((1, 10))))
    fine = enclose_at(prepared, x)
    assert (fine.low > coarse.low).all() and (fine.high < coarse.high).all()
    assert ((fine.high - fine.low) < 0.2 * (coarse.high - coarse.low)).all()
    for row in range(3):
        assert not escapes(nodes, fine.low[row], fine.high[row], x[row])
        assert not escapes(nodes, coarse.low[row], coarse.high[row], x[row])


def test_people_of_another_kind_are_refused() -> None:
    prepared = Prepared(normal_form(chain(np.random.default_rng(73), [2, 3, 1])), Ball(np.eye(2), 2.0, 0.1))
    bad = [
        np.zeros((1, 3)),
        np.zeros(2),
        np.full((1, 2), np.nan),
        np.full((1, 2), np.inf),
        np.zeros((1, 2), np.float32),
    ]
    for x in [*bad, np.zeros((1, 2), np.int64), np.zeros((1, 1, 2))]:
        with pytest.raises(ValueError, match="People"):
            enclose(prepared, x)
        with pytest.raises(ValueError, match="People"):
            enclose_at(prepared, x)
    with pytest.raises(ValueError, match="region"):
        enclose(Prepared(prepared.network), np.zeros((1, 2)))


def test_very_deep_networks_with_connections_past_many_layers() -> None:
    """Arrays that are used again belong to one layer and source each, also where their numbers have several digits."""
    relu, nodes = Activation("relu"), [Node("input", width=1)]
    first = None
    for k in range(113):
        read = len(nodes) - 1
        if k == 111:  # layer 111 reads the activation of layer 0 too
            assert first is not None
            nodes.append(Node("add", (read, first)))
            read = len(nodes) - 1
        one = np.ones((1, 1))
        nodes.append(Node("affine", (read,), weight=one * {111: 3.0, 50: 0.5}.get(k, 1.0), bias=np.zeros(1)))
        nodes.append(Node("activation", (len(nodes) - 1,), activation=relu))
        first = len(nodes) - 1 if k == 0 else first
    nodes.append(Node("affine", (len(nodes) - 1,), weight=np.ones((1, 1)), bias=np.zeros(1)))
    prepared = Prepared(normal_form(nodes), Ball(np.eye(1), 2.0, 1.0))
    for tier in TIERS:
        found = enclose(prepared, np.full((1, 1), 2.0), tier)
        assert not escapes(nodes, found.low[0], found.high[0], np.array([3.0]))
        assert not escapes(nodes, found.low[0], found.high[0], np.array([1.0]))
        assert np.allclose(found.high, 13.5, atol=1e-6) and np.allclose(found.low, 4.5, atol=1e-6)


def test_what_is_not_a_number_says_nothing() -> None:
    nodes = chain(np.random.default_rng(74), [2, 3, 1])
    huge = [n if n.weight is None else n._replace(weight=n.weight * 1e200) for n in nodes]
    with np.errstate(all="ignore"):
        prepared = Prepared(normal_form(huge), Ball(np.eye(2), 2.0, 1e150))
        for tier in TIERS:
            found: Enclosure = enclose(prepared, np.full((2, 2), 1e300), tier)
            assert (found.low == -math.inf).all() and (found.high == math.inf).all()


def test_activations_of_single_elements() -> None:
    rng = np.random.default_rng(75)
    for _ in range(6):
        nodes = chain(rng, [2, 4, 4, 1], Activation("prelu", tuple(rng.normal(size=4).tolist())))
        x = rng.normal(size=(1, 2))
        for prepared, region in (
            (Prepared(normal_form(nodes), Ball(np.eye(2), math.inf, 0.7)), None),
            (Prepared(normal_form(nodes)), BallBox(np.full((1, 2), -0.7), np.full((1, 2), 0.7))),
        ):
            for tier in TIERS:
                found = enclose(prepared, x, tier, region)
                for v in vertices(rng, 2, 0.7):
                    assert not escapes(nodes, found.low[0], found.high[0], x[0], v)


def test_any_activation_can_be_drawn() -> None:
    rng = np.random.default_rng(76)
    assert len({activation(rng, 2).kind for _ in range(400)}) == len({a.kind for a in ACTIVATIONS})


@pytest.mark.parametrize("tier", ["interval", "quick", "tight"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("centre", "radius"), [(1e10, 1e-3), (0.0, 1e10)])
def test_where_a_float32_run_may_overflow_nothing_is_claimed(
    tier: Tier, shared: bool, centre: float, radius: float
) -> None:
    """1e30 times 1e10 is no float32 number, though another source of the layer stays small."""
    rows = np.array([[1.0, 0.0]])
    nodes = [
        Node("input", width=2),
        Node("affine", (0,), weight=rows * 1e-12, bias=np.zeros(1)),
        Node("activation", (1,), activation=Activation("tanh")),
        Node("concat", (2, 0)),
        Node("affine", (3,), weight=np.array([[1.0, 1e30, 1.0]]), bias=np.zeros(1)),
    ]
    x, sides = np.array([[centre, 0.0], [0.0, 0.0]]), np.full((2, 2), radius)
    ball = Ball(np.eye(2), 2.0, radius)
    for float32 in (True, False):
        prepared = Prepared(normal_form(nodes), ball if shared else None, float32)
        low, high = enclose(prepared, x, tier, None if shared else BallBox(-sides, sides))
        assert np.isinf(high[0, 0]) == np.isinf(low[0, 0]) == float32
        assert np.isinf(high[1, 0]) == (float32 and radius > 1e9)


def test_a_preparation_is_for_balls_of_one_order() -> None:
    """Balls with the same root and radius, one after the other."""
    nodes = [Node("input", width=2), Node("affine", (0,), weight=np.ones((1, 2)), bias=np.zeros(1))]
    ready, x, ball = Preparations(normal_form(nodes)), np.zeros((1, 2)), ConvexSets.of_ball(np.ones(2), 1.0, 1.0)
    for order, largest in ((1.0, 1.0), (2.0, math.sqrt(2)), (math.inf, 2.0)):
        sets = replace(ball, order=order)
        assert ready.enclose(x, sets, "tight").high[0, 0] == pytest.approx(largest)
        assert ready.compare(x, sets, sets)[0].between.high[0, 0] == pytest.approx(largest)


@EACH
def test_short_moves_beyond_a_distant_hinge(tier: Tier) -> None:
    """Regions that do not hold their centre, and a ReLU that they barely reach: 0 must not come out positive."""
    rng = np.random.default_rng(0)
    one, none = np.ones((1, 1)), np.zeros(1)
    nodes = [
        Node("input", width=1), Node("affine", (0,), weight=one, bias=none),
        Node("activation", (1,), activation=Activation("relu")), Node("affine", (2,), weight=one, bias=none),
    ]  # fmt: skip
    x = -(10.0 ** rng.uniform(-3, 60, (300, 1)))
    high = -x * (1 + 2.0**-40 * rng.random((300, 1)))
    found = enclose(Prepared(normal_form(nodes)), x, tier, BallBox(high * rng.uniform(0.1, 1, (300, 1)), high))
    assert (found.low <= 0).all() and (found.high >= 0).all()


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("radius", [0.2, 1e38])
@pytest.mark.parametrize("kind", ["relu", "tanh"])
def test_a_batch_is_gone_with_its_bounds(
    no_collector: None, monkeypatch: pytest.MonkeyPatch, kind: str, radius: float
) -> None:
    """No cycle that would keep a batch in memory."""
    made: list[weakref.ref[Run]] = []

    class Seen(Run):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(weakref.ref(self))

    monkeypatch.setattr(tiers, "Run", Seen)
    nodes, wide = chain(np.random.default_rng(0), [6, 70, 70, 3], Activation(kind)), np.full((3, 6), radius)
    enclose(Prepared(normal_form(nodes)), np.zeros((3, 6)), "tight", BallBox(-wide, wide))
    assert made and all(each() is None for each in made)
