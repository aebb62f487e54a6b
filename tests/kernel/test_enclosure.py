"""Hostile hints: whatever steers a backward pass, no member of the region leaves its bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from isonomy_verify import lines as line_module
from isonomy_verify import tiers
from isonomy_verify.activations import Activation, Curve
from isonomy_verify.arithmetic import U32, Array
from isonomy_verify.enclosure import Prepared, Run
from isonomy_verify.lines import parallel, touching
from isonomy_verify.network import Node, normal_form
from isonomy_verify.regions import Ball, BallBox, Region

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
    found = [lines]
    with np.errstate(all="ignore"):
        found += [touching(activation, low, high, at, 0.0) for at in [*hostile(rng, low.shape), None]]  # type: ignore[arg-type]
    with ctx.workprec(200):
        for sides in found:
            assert (np.abs(sides.slope) <= steepest).all() and (np.abs(sides.low_slope) <= steepest).all()
            for i, j in np.ndindex(low.shape):
                for z in (low[i, j], high[i, j], *rng.uniform(low[i, j], high[i, j], 4), *activation.shape.kinks):
                    if not low[i, j] <= z <= high[i, j]:
                        continue
                    value, at = apply(activation, arb(float(z)), j), arb(float(z))
                    slack = room * (1 + abs(at))
                    assert not value > arb(float(sides.slope[i, j])) * at + arb(float(sides.above[i, j])) + slack
                    assert not value < arb(float(sides.low_slope[i, j])) * at + arb(float(sides.below[i, j])) - slack


def test_tangents_come_closer_where_they_touch() -> None:
    for kind in ("tanh", "sigmoid", "gelu", "softplus"):
        activation = Activation(kind, (1.0,) if kind == "softplus" else ())
        low, high = np.full((1, 3), -2.0), np.full((1, 3), 3.0)
        lines, at = parallel(activation, low, high, 0.0), np.full((1, 3), 2.5, dtype=np.float32)
        sides = touching(activation, low, high, at, 0.0)
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
            sides = touching(activation, low, upper, at, 0.0)
            np.testing.assert_array_equal(sides.slope, lines.slope)


# -- passes -------------------------------------------------------------------------------------------------------


def enclosed(nodes: list[Node], x: Array, shared: bool) -> Run:
    """Ranges and lines of all layers, as the tight tier has them before its last passes."""
    m = x.shape[1]
    prepared = Prepared(normal_form(nodes), Ball(np.eye(m), 2.0, RADIUS) if shared else None)
    box = BallBox(np.full(x.shape, -RADIUS / m), np.full(x.shape, RADIUS / m))
    return Run(prepared, x, None if shared else box).forward()


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
        found = enclosed(nodes, x, shared)
        for which in range(6):
            lines = [found.touched(k, hostile(rng, (2, 4))[which]) for k in range(2)]
            for sign in (1.0, -1.0):
                _, (bound,) = found.side(0, sign, lines)
                assert not np.isnan(bound).any()
                assert not exceeded(nodes, x, members(rng, 2), bound, 0, sign)


def hidden(nodes: list[Node], row: Array, v: Array) -> list[list[Any]]:
    """Exact pre-activations of a chain, layer by layer."""
    return [run(nodes[: i + 1], row, v) for i, node in enumerate(nodes) if node.kind == "affine"]


def spoilt_ball(m: int, spoil: float, rng: np.random.Generator) -> Ball:
    """A ball whose inverse is off, so that much of a layer is left to the loss."""
    return Ball(np.eye(m), 2.0, RADIUS, np.eye(m) + spoil * rng.uniform(-1, 1, (m, m)))


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("spoil", [0.0, 0.1])
@pytest.mark.parametrize("kind", [Activation("relu"), Activation("tanh"), Activation("leaky_relu", (0.3,))], ids=str)
def test_ranges_of_hidden_neurons_hold(passes: bool, spoil: float, kind: Activation) -> None:
    """Every exact value lies in its range, where single neurons are largest too."""
    rng = np.random.default_rng(87)
    nodes = chain(rng, [3, 5, 5, 5, 1], kind)
    x = rng.normal(size=(2, 3)) * 0.1
    with np.errstate(all="ignore"):
        found = Run(Prepared(normal_form(nodes), spoilt_ball(3, spoil, rng)), x).forward(passes)
    weight = nodes[1].weight
    assert weight is not None
    directions = np.concatenate([rng.normal(size=(12, 3)), weight, -weight])
    moves = directions / np.linalg.norm(directions, axis=1, keepdims=True) * (RADIUS * (1 - 1e-14))
    with ctx.workprec(200):
        for row in range(2):
            for v in moves:
                for (low, high), values in zip(found.range, hidden(nodes, x[row], v), strict=True):
                    ends = zip(low[row].tolist(), values, high[row].tolist(), strict=True)
                    assert all(arb(a) <= z and z <= arb(b) for a, z, b in ends)


@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("kind", [Activation("relu"), Activation("leaky_relu", (0.0,))], ids=str)
def test_what_lines_leave_open_is_carried_through_all_layers(passes: bool, kind: Activation) -> None:
    """Absolute values: the directions cancel in the second layer, and all that is left is what the lines leave open."""
    one, both = np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0], [0.5, 0.5]])
    nodes = [Node("input", width=1)]
    for weight in (one, both, np.array([[1.0, 0.0], [0.0, -3.0]]), both, both, np.ones((1, 2))):
        bias = np.zeros(len(weight)) if len(nodes) == 1 else np.full(len(weight), 2.0)
        nodes.append(Node("affine", (len(nodes) - 1,), weight=weight, bias=bias))
        if len(weight) > 1:
            nodes.append(Node("activation", (len(nodes) - 1,), activation=kind))
    for radius, centre in ((1.0, 0.0), (0.3, 0.1)):
        ball = Ball(np.eye(1), 2.0, radius)
        found = Run(Prepared(normal_form(nodes), ball), np.full((1, 1), centre)).forward(passes)
        with ctx.workprec(200):
            for v in np.linspace(-radius, radius, 21):
                values = hidden(nodes, np.array([centre]), np.array([v]))
                for (low, high), mine in zip(found.range, values, strict=True):
                    ends = zip(low[0].tolist(), mine, high[0].tolist(), strict=True)
                    assert all(arb(a) <= z and z <= arb(b) for a, z, b in ends), v


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
        found = Run(Prepared(normal_form(nodes), ball), x, None if shared else box).forward(passes=False)
        row, column = np.zeros(3, dtype=np.int64), np.arange(3)
        low, high = found.neurons(1, row, column)
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
    found = enclosed(nodes, x, True)
    for _ in range(6):
        lines = [line._replace(low_slope=rng.random(line.slope.shape)) for line in found.lines]
        for output in (0, 1):
            for sign in (1.0, -1.0):
                _, (bound,) = found.side(output, sign, lines)
                assert not exceeded(nodes, x, members(rng, 2), bound, output, sign)


GARBAGE: dict[str, Callable[[pytest.MonkeyPatch, np.random.Generator], None]] = {}


def hint(change: Callable[[pytest.MonkeyPatch, np.random.Generator], None]) -> None:
    GARBAGE[change.__name__] = change


@hint
def points_where_lines_touch(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    right = Run.touched

    def wrong(self: Run, k: int, z: Any) -> Any:
        return right(self, k, hostile(rng, (self.n, self.layers[k].width))[int(rng.integers(6))])

    patch.setattr(Run, "touched", wrong)


@hint
def places_that_are_largest(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    for region in (Ball, BallBox):
        patch.setattr(region, "maximiser", lambda self, t, owner: hostile(rng, t.shape)[int(rng.integers(6))])


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
def neurons_that_are_open(patch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    right = Run.open
    patch.setattr(Run, "open", lambda self, k: right(self, k) & (rng.random((self.n, self.layers[k].width)) < 0.5))


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
        found = tiers.enclose(prepared, x, "tight", region)
        for row in range(2):
            for v in members(rng, 2):
                assert not escapes(nodes, found.low[row], found.high[row], x[row], v)


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
        room = 4 * U32 * (1 + np.abs(z) + np.abs(value)) * (activation.kind in ("relu", "clip"))
        assert (value <= lines.slope * z + lines.above + room + 1e-12).all(), activation
        assert (value >= lines.slope * z + lines.below - room - 1e-12).all(), activation


def test_an_enclosure_needs_a_region() -> None:
    with pytest.raises(ValueError, match="region"):
        Run(Prepared(normal_form(chain(np.random.default_rng(86), [2, 3, 1]))), np.zeros((1, 2)))
