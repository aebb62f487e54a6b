"""Hostile hints: whatever steers a backward pass, no member of the region leaves its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from isonomy_verify import differences, majorant, tiers
from isonomy_verify import lines as line_module
from isonomy_verify import prepared as preparation
from isonomy_verify.activations import Activation, Curve
from isonomy_verify.arithmetic import U32, Array
from isonomy_verify.lines import Sides, parallel, touching
from isonomy_verify.network import Node, normal_form
from isonomy_verify.prepared import Prepared
from isonomy_verify.regions import Ball, BallBox, Region
from isonomy_verify.steering import steer
from isonomy_verify.sweep import Sweep

from .graphs import chain
from .truth import ACTIVATIONS, apply, escapes, run

EACH = pytest.mark.parametrize(
    "kind", [a for a in ACTIVATIONS if a.kind != "prelu"], ids=lambda a: f"{a.kind}{a.parameters}"
)
RADIUS = 0.4


def hostile(rng: np.random.Generator, shape: tuple[int, ...]) -> list[Array]:
    """Numbers (float32) that no search should return."""
    some = rng.normal(size=shape)
    mixed = np.where(rng.random(shape) < 0.3, np.nan, some * 1e30)
    return [
        np.asarray(a, dtype=np.float32)
        for a in (np.full(shape, np.nan), np.full(shape, np.inf), np.full(shape, -np.inf), some * 1e38, some, mixed)
    ]


# -- lines --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.kind}{a.parameters}")
def test_lines_hold_wherever_they_are_asked_to_touch(activation: Activation) -> None:
    """``low_slope z + low ≤ f(z) ≤ slope z + above`` over the whole range, up to the rounding that a pass pays for."""
    rng = np.random.default_rng(80)
    low = rng.normal(size=(8, 3)) * 2
    high = low + np.abs(rng.normal(size=(8, 3))) * 3
    low[0], high[0] = -1.0, 1.0
    high[1] = low[1]
    lines = parallel(activation, low, high, 0.0)
    steepest = activation.shape.steepest * (1 + 1e-12)
    room = arb(1e-14) * (1 + activation.shape.at_zero)
    none = np.zeros_like(lines.above)
    below = none if lines.below is None else lines.below
    found = [Sides(lines.slope, lines.above, lines.slope, below)]
    with np.errstate(all="ignore"):
        found += [touching(activation, lines, low, high, at, 0.0) for at in [*hostile(rng, low.shape), None]]  # type: ignore[arg-type]
    with ctx.workprec(200):
        for sides in found:
            assert (np.abs(sides.slope) <= steepest).all() and (np.abs(sides.low_slope) <= steepest).all()
            least = none if sides.low is None else sides.low
            for i, j in np.ndindex(low.shape):
                for z in (low[i, j], high[i, j], *rng.uniform(low[i, j], high[i, j], 4), *activation.shape.kinks):
                    if not low[i, j] <= z <= high[i, j]:
                        continue
                    value, at = apply(activation, arb(float(z)), j), arb(float(z))
                    slack = room * (1 + abs(at))
                    assert not value > arb(float(sides.slope[i, j])) * at + arb(float(sides.above[i, j])) + slack
                    assert not value < arb(float(sides.low_slope[i, j])) * at + arb(float(least[i, j])) - slack


def test_tangents_come_closer_where_they_touch() -> None:
    for kind in ("tanh", "sigmoid", "gelu", "softplus"):
        activation = Activation(kind, (1.0,) if kind == "softplus" else ())
        low, high = np.full((1, 3), -2.0), np.full((1, 3), 3.0)
        lines, at = parallel(activation, low, high, 0.0), np.full((1, 3), 2.5, dtype=np.float32)
        sides = touching(activation, lines, low, high, at, 0.0)
        assert (sides.slope * 2.5 + sides.above <= lines.slope * 2.5 + lines.above).all()


def test_lines_that_meet_at_an_end_of_a_range_do_not_hang_on_last_bits() -> None:
    """The chord of a convex activation meets other lines there, and is the best line everywhere else.

    Which of them was chosen hung on last bits, so that what was certified on one machine was refused by another.
    """
    activation = Activation("leaky_relu", (0.1,))
    rng = np.random.default_rng(0)
    low, high = -rng.uniform(0.5, 6, (200, 3)), rng.uniform(0.5, 3, (200, 3))
    for at in (np.full(low.shape, 9.0), np.full(low.shape, -9.0)):
        for share in (-(2.0**-50), 0.0, 2.0**-50):
            upper = high * (1 + share)
            lines = parallel(activation, low, upper, 0.0)
            sides = touching(activation, lines, low, upper, at, 0.0)
            np.testing.assert_array_equal(sides.slope, lines.slope)


# -- ranges -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "scale"), [("relu", 1.0), ("relu", 1e-12), ("relu", 1e8), ("relu", 1e38), ("tanh", 1.0)]
)
def test_ranges_around_a_run_hold_the_extremes_of_exact_sums(kind: str, scale: float) -> None:
    """Moves from the run are multiplied in float32; beyond its numbers, in float64."""
    rng = np.random.default_rng(84)
    nodes = chain(rng, [3, 80, 66, 1], Activation(kind))
    nodes[1] = nodes[1]._replace(weight=nodes[1].weight * scale, bias=nodes[1].bias * scale)
    x = rng.normal(size=(3, 3))
    found = Sweep(Prepared(normal_form(nodes), Ball(np.eye(3), 2.0, RADIUS)), x)
    with np.errstate(all="ignore"):
        found.run()
        found.enclose(0)
        low, high = (np.array(each) for each in found.values(1))
        found.enclose(1)
    layer = found.network.layers[1]
    assert layer.single[0] is not None
    weight = layer.blocks[0].weight
    for i in range(len(x)):
        for j in range(layer.width):
            up, down = (
                sum((Fraction(w) * Fraction(e) for w, e in zip(weight[j], ends, strict=True)), Fraction(layer.bias[j]))
                for ends in (np.where(weight[j] > 0, high[i], low[i]), np.where(weight[j] > 0, low[i], high[i]))
            )
            assert Fraction(found.low[1][i, j]) <= down <= up <= Fraction(found.high[1][i, j])
            assert found.high[1][i, j] - float(up) <= 1e-4 * (float(up - down) + 1e-7 * float(abs(up)))


# -- passes -------------------------------------------------------------------------------------------------------


def prepared_sweep(nodes: list[Node], x: Array, shared: bool) -> tuple[Sweep, Any]:
    """Ranges and lines of all layers, as the tight tier has them before its last passes."""
    m = x.shape[1]
    prepared = Prepared(normal_form(nodes), Ball(np.eye(m), 2.0, RADIUS) if shared else None)
    box = BallBox(np.full(x.shape, -RADIUS / m), np.full(x.shape, RADIUS / m))
    found = Sweep(prepared, x, None if shared else box)
    at = found.run()
    for k in range(found.network.depth):
        found.enclose(k)
        found.relax(k)
        if k:
            found.tighten(k, 0.0)
    found.enclose(found.network.depth)
    return found, at


def members(rng: np.random.Generator, m: int) -> Array:
    """Of the box, which lies in the ball."""
    return np.concatenate([rng.choice([-RADIUS / m, RADIUS / m], (4, m)), np.zeros((1, m))])


def exceeded(nodes: list[Node], x: Array, moves: Array, bound: Array, output: int, sign: float) -> bool:
    """Does somebody's ``sign`` times output exceed the bound of the row?"""
    with ctx.workprec(300):
        for row, each in zip(x, bound.tolist(), strict=True):
            for v in moves:
                if not math.isnan(each) and sign * run(nodes, row, v)[output] > arb(each):
                    return True
    return False


@EACH
@pytest.mark.parametrize("shared", [True, False])
def test_passes_hold_whatever_moves_steer_them(kind: Activation, shared: bool) -> None:
    rng = np.random.default_rng(81)
    nodes = chain(rng, [2, 4, 4, 1], kind)
    x = rng.normal(size=(2, 2))
    with np.errstate(all="ignore"):
        found, at = prepared_sweep(nodes, x, shared)
        for which in range(6):
            moves = [hostile(rng, (2, 4))[which] for _ in range(2)]
            for sign in (1.0, -1.0):
                bound = found.side(0, sign, found.sides(at, moves, sign))
                assert not np.isnan(bound).any()
                assert not exceeded(nodes, x, members(rng, 2), bound, 0, sign)


def hidden(nodes: list[Node], row: Array, v: Array) -> list[list[Any]]:
    """Exact pre-activations of a chain, layer by layer."""
    return [run(nodes[: i + 1], row, v) for i, node in enumerate(nodes) if node.kind == "affine"]


def spoilt_ball(m: int, spoil: float, rng: np.random.Generator) -> Ball:
    """A ball whose inverse is off, so that much of a layer is left to the loss."""
    return Ball(np.eye(m), 2.0, RADIUS, np.eye(m) + spoil * rng.uniform(-1, 1, (m, m)))


@pytest.mark.parametrize("way", ["intervals", "majorants", "passes"])
@pytest.mark.parametrize("spoil", [0.0, 0.1])
@pytest.mark.parametrize("kind", [Activation("relu"), Activation("tanh"), Activation("leaky_relu", (0.3,))], ids=str)
def test_ranges_of_hidden_neurons_hold(way: str, spoil: float, kind: Activation) -> None:
    """Every exact value lies in its range; in the first layer up to what rounding and the inverse leave open."""
    rng = np.random.default_rng(87)
    nodes = chain(rng, [3, 5, 5, 5, 1], kind)
    x = rng.normal(size=(2, 3)) * 0.1
    prepared = Prepared(normal_form(nodes), spoilt_ball(3, spoil, rng))
    found = Sweep(prepared, x)
    with np.errstate(all="ignore"):
        for k in range(found.network.depth):
            if way == "majorants" and k:
                assert prepared.dense[k] is not None
                found.enclose_densely(k)
            else:
                found.enclose(k)
            found.relax(k)
            if way == "passes" and k:
                found.tighten(k, 0.0)
        found.enclose(found.network.depth)
    directions = rng.normal(size=(12, 3))
    weight = nodes[1].weight
    assert weight is not None
    directions = np.concatenate([directions, weight, -weight])  # where single neurons are largest
    moves = directions / np.linalg.norm(directions, axis=1, keepdims=True) * (RADIUS * (1 - 1e-14))
    with ctx.workprec(200):
        for row in range(2):
            for v in moves:
                for k, values in enumerate(hidden(nodes, x[row], v)):
                    open_ = prepared.loose[k] + found.eta[k][row] * prepared.noise[k] * prepared.network.layers[k].rho
                    room = open_ if k == 0 else np.zeros_like(open_)
                    low, high = found.low[k][row] - room, found.high[k][row] + room
                    assert all(
                        arb(float(a)) <= z and z <= arb(float(b)) for a, z, b in zip(low, values, high, strict=True)
                    )


@pytest.mark.parametrize("way", ["intervals", "majorants", "passes"])
@pytest.mark.parametrize("kind", [Activation("relu"), Activation("leaky_relu", (0.0,))], ids=str)
def test_what_lines_leave_open_is_carried_through_all_layers(way: str, kind: Activation) -> None:
    """Absolute values: the directions cancel in the second layer, and all that is left is what the lines leave open."""
    one, both = np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0], [0.5, 0.5]])
    nodes = [Node("input", width=1)]
    for weight in (one, both, np.array([[1.0, 0.0], [0.0, -3.0]]), both, both, np.ones((1, 2))):
        bias = np.zeros(len(weight)) if len(nodes) == 1 else np.full(len(weight), 2.0)
        nodes.append(Node("affine", (len(nodes) - 1,), weight=weight, bias=bias))
        if len(weight) > 1:
            nodes.append(Node("activation", (len(nodes) - 1,), activation=kind))
    for radius, centre in ((1.0, 0.0), (0.3, 0.1)):
        found = Sweep(Prepared(normal_form(nodes), Ball(np.eye(1), 2.0, radius)), np.full((1, 1), centre))
        for k in range(found.network.depth):
            found.enclose_densely(k) if way == "majorants" and k else found.enclose(k)
            found.relax(k)
            if way == "passes" and k:
                found.tighten(k, 0.0)
        with ctx.workprec(200):
            for v in np.linspace(-radius, radius, 21):
                for k, values in enumerate(hidden(nodes, np.array([centre]), np.array([v]))[1:-1], start=1):
                    ends = zip(found.low[k][0].tolist(), values, found.high[k][0].tolist(), strict=True)
                    assert all(arb(low) <= z and z <= arb(high) for low, z, high in ends), (k, v)


@pytest.mark.parametrize("shared", [True, False])
def test_passes_of_neurons_pay_for_every_term(shared: bool) -> None:
    """Straight lines through open neurons: a backward pass has nothing to spare, so that a term left out shows."""
    rng = np.random.default_rng(88)
    for spoil in (0.0, 0.05):
        weight = rng.normal(size=(4, 2))
        nodes = chain(rng, [2, 4, 3, 1])
        first = nodes[1]._replace(weight=weight, bias=np.full(4, 9.0))  # always active: the line is the function
        nodes = [nodes[0], first, *nodes[2:]]
        x = np.zeros((1, 2))
        ball = spoilt_ball(2, spoil, rng) if shared else None
        box = BallBox(np.full((1, 2), -1.0), np.ones((1, 2)), np.eye(2), 2.0, np.full(1, RADIUS))
        found = Sweep(Prepared(normal_form(nodes), ball), x, None if shared else box)
        for k in range(2):
            found.enclose(k)
            found.relax(k)
        row, column = np.zeros(3, dtype=np.int64), np.arange(3)
        low, high = found._both(1, row, column)
        second = nodes[3].weight
        assert second is not None
        for j in column.tolist():
            direction = second[j] @ weight
            v = direction / np.linalg.norm(direction) * (RADIUS * (1 - 1e-14))
            with ctx.workprec(200):
                assert hidden(nodes, x[0], v)[1][j] <= arb(float(high[j]))
                assert hidden(nodes, x[0], -v)[1][j] >= arb(float(low[j]))
            if not spoil:
                reach = RADIUS * np.linalg.norm(direction)
                assert high[j] - low[j] <= 2 * reach * (1 + 1e-9) + 1e-9


def test_passes_hold_for_slopes_of_chance_between_the_lines() -> None:
    """A ReLU takes any lower slope in [0, 1] and any line above that holds."""
    rng = np.random.default_rng(82)
    nodes = chain(rng, [2, 6, 6, 2])
    x = rng.normal(size=(3, 2))
    found, _ = prepared_sweep(nodes, x, True)
    for _ in range(6):
        sides = [Sides(line.slope, line.above, rng.random(line.slope.shape), None) for line in found.lines[:-1]]
        for output in (0, 1):
            for sign in (1.0, -1.0):
                bound = found.side(output, sign, sides)
                assert not exceeded(nodes, x, members(rng, 2), bound, output, sign)


GARBAGE: dict[str, Callable[[pytest.MonkeyPatch, np.random.Generator], None]] = {}


def hint(change: Callable[[pytest.MonkeyPatch, np.random.Generator], None]) -> None:
    GARBAGE[change.__name__] = change


@hint
def steering(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    def wrong(sweep: Sweep, output: int) -> list[Array]:
        which = int(rng.integers(6))
        return [hostile(rng, move.shape)[which] for move in steer(sweep, output)]

    for module in (tiers, differences):
        patch.setattr(module, "steer", wrong)


@hint
def places_that_are_largest(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    for region in (Ball, BallBox):
        patch.setattr(region, "maximiser", lambda self, t, owner: hostile(rng, t.shape)[int(rng.integers(6))])


@hint
def weights_in_float32(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    right = preparation._Single.of.__func__  # type: ignore[attr-defined]

    def wrong(cls: type, prepared: Prepared) -> Any:
        single = right(cls, prepared)
        spoilt = [[tuple(hostile(rng, a.shape)[3] for a in both) for both in layer] for layer in single.weights]
        return single._replace(weights=spoilt)

    patch.setattr(preparation._Single, "of", classmethod(wrong))


@hint
def weights_of_columns(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    right = preparation._column_weights
    patch.setattr(
        preparation,
        "_column_weights",
        lambda net, source: right(net, source) * rng.choice([-1.0, np.nan, np.inf, 1e300]),
    )


@hint
def majorants(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    right = majorant._search

    def wrong(*given: Any) -> Any:
        directions, diagonal, factor, size = right(*given)
        spoilt = factor + 0.3 * rng.normal(size=factor.shape)
        return directions * rng.choice([0.0, 1.0, 3.0]), diagonal * rng.random(), spoilt, size * rng.random(len(size))

    patch.setattr(majorant, "_search", wrong)


@hint
def chords(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    def wrong(self: Any) -> Array:
        steepest = self.shape.steepest
        return np.asarray(rng.uniform(-steepest, steepest, self.low.shape))

    patch.setattr(Curve, "chord", wrong)


@hint
def slopes_of_tangents(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    def wrong(activation: Activation, at: Array) -> list[Array]:
        steepest = activation.shape.steepest
        return [rng.uniform(-steepest, steepest, at.shape), np.full(at.shape, np.nan)]

    patch.setattr(line_module, "tangents", wrong)


@hint
def where_lines_by_shape_are_tried(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    patch.setattr(tiers, "OPEN", -1.0)


@hint
def inverses(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    right = np.linalg.pinv
    patch.setattr(np.linalg, "pinv", lambda a: right(a) * (1 + 0.1 * rng.normal(size=a.T.shape)))


@pytest.mark.parametrize("name", list(GARBAGE))
@pytest.mark.parametrize(
    "kind", [Activation("relu"), Activation("tanh"), Activation("hardswish")], ids=lambda a: a.kind
)
def test_every_hint_may_be_garbage(name: str, kind: Activation, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(83)
    GARBAGE[name](monkeypatch, rng)
    nodes = chain(rng, [2, 4, 4, 4, 2], kind)
    x = rng.normal(size=(2, 2))
    regions: list[tuple[Ball | None, Region | None]] = [
        (Ball(np.eye(2), 2.0, RADIUS), None),
        (None, BallBox(np.full(x.shape, -1.0), np.ones(x.shape), np.eye(2), 2.0, np.full(2, RADIUS))),
    ]
    for ball, region in regions:
        with np.errstate(all="ignore"):
            prepared = Prepared(normal_form(nodes), ball)
        for rows in (None, 0.0):
            found = tiers.enclose(prepared, x, "tight", region, rows).over
            for row in range(2):
                for v in members(rng, 2):
                    assert not escapes(nodes, found.low[row], found.high[row], x[row], v)


def test_a_majorant_of_nothing_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "majorant", lambda *_: None)
    rng = np.random.default_rng(84)
    nodes, x = chain(rng, [2, 4, 4, 1]), rng.normal(size=(2, 2))
    prepared = Prepared(normal_form(nodes), Ball(np.eye(2), 2.0, RADIUS))
    assert prepared.dense == [None] * 3
    found = tiers.enclose(prepared, x).over
    for v in members(rng, 2):
        assert not escapes(nodes, found.low[0], found.high[0], x[0], v)


def test_lines_cover_float32_runs() -> None:
    rng = np.random.default_rng(85)
    for activation in ACTIVATIONS:
        if activation.kind == "erf" or activation.kind == "prelu":
            continue
        low = rng.normal(size=(200, 1)).astype(np.float32).astype(np.float64)
        high = low + 0.5
        lines = parallel(activation, low, high, U32)
        z = np.clip(low + 0.2, low, high).astype(np.float32)
        value = np.asarray(activation.shape.value(z), dtype=np.float64)
        below = 0.0 if lines.below is None else lines.below
        room = 4 * U32 * (1 + np.abs(z) + np.abs(value)) * (activation.kind in ("relu", "clip"))
        assert (value <= lines.slope * z + lines.above + room + 1e-12).all(), activation
        assert (value >= lines.slope * z + below - room - 1e-12).all(), activation


def test_a_sweep_needs_a_region() -> None:
    with pytest.raises(ValueError, match="region"):
        Sweep(Prepared(normal_form(chain(np.random.default_rng(86), [2, 3, 1]))), np.zeros((1, 2)))


def test_buffers_are_used_again_and_belong_to_one_name() -> None:
    buffers = preparation.Buffers()
    first = buffers("a", 4, 3)
    first[:] = 1.0
    assert np.shares_memory(buffers("a", 2, 5), first) and not np.shares_memory(buffers("b", 4, 3), first)
    assert buffers("a", 9, 9).shape == (9, 9) and buffers.single("a", 1, 2).dtype == np.float32
