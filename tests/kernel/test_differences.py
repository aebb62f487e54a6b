"""Two runs at once: no pair of people leaves what is said of either, of their difference or of the change."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

from isonomy_verify import joint
from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array, dual_order
from isonomy_verify.differences import Difference, Gap, Pairs, compare, relu_rise
from isonomy_verify.domain import Domain
from isonomy_verify.enclosure import Prepared, Run
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.reach import Reach
from isonomy_verify.regions import Ball, BallBox, Sum
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import Enclosure, enclose

from .graphs import chain, draw
from .truth import ACTIVATIONS, BITS, apply, escapes, run

INSIDE = 1 - 2.0**-40
ORDERS = (1.0, 2.0, math.inf)


def members(rng: np.random.Generator, root: Array, order: float, radius: float, count: int) -> Array:
    """Moves of length just below the radius, some much shorter."""
    u = rng.normal(size=(count, len(root)))
    if order == math.inf:
        u = np.sign(u)
    u *= radius * INSIDE * rng.choice([1.0, 1.0, 0.3, 0.0], (count, 1)) / np.linalg.norm(u, order, axis=1)[:, None]
    return np.asarray(np.linalg.solve(root, u.T).T)


def judged(nodes: list[Node], gap: Gap, row: int, x: Array, v: Array, d: Array) -> None:
    """One pair, in ball arithmetic at the exact sums."""
    assert not escapes(nodes, gap.near.low[row], gap.near.high[row], x, v), "near"
    assert not escapes(nodes, gap.far.low[row], gap.far.high[row], x, v, d), "far"
    with ctx.workprec(4 * BITS):
        moved = [b - a for a, b in zip(run(nodes, x, v), run(nodes, x, v, d), strict=True)]
        for i, move in enumerate(moved):
            assert not move > arb(float(gap.between.high[row, i])), ("difference", i)
            assert not move < arb(float(gap.between.low[row, i])), ("difference", i)


def both(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    """Neurons all together besides, or one by one alone."""
    if not together:
        monkeypatch.setattr(joint.Joint, "of", lambda *_: None)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("seed", range(24))
def test_pairs_in_balls_that_all_share(monkeypatch: pytest.MonkeyPatch, seed: int, together: bool) -> None:
    rng = np.random.default_rng([1, seed])
    nodes = draw(rng) if seed % 3 else chain(rng, [3, 6, 5, 2], ACTIVATIONS[(seed // 3) % 4], gain=1.5)
    m, n = nodes[0].width, 3
    x = rng.normal(size=(n, m)) * float(rng.choice([0.1, 1.0, 30.0]))
    roots = [rng.normal(size=(m, m)) + 2 * np.eye(m) for _ in range(2)]
    orders = [float(rng.choice(ORDERS)) for _ in range(2)]
    radii = [float(10.0 ** rng.uniform(-9, 0.3)) for _ in range(2)]
    near, between = (Ball(*each) for each in zip(roots, orders, radii, strict=True))
    both(monkeypatch, together)
    smaller = Ball(roots[0], orders[0], radii[0] / 3)
    gaps = compare(Pairs(normal_form(nodes), False, near, between), x, near, between, within=[smaller])
    for gap, radius in zip(gaps, (radii[0], radii[0] / 3), strict=True):
        moves = members(rng, roots[0], orders[0], radius, 2 * n)
        steps = members(rng, roots[1], orders[1], radii[1], 2 * n)
        for k, (v, d) in enumerate(zip(moves, steps, strict=True)):
            judged(nodes, gap, k % n, x[k % n], v, d)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("tight", [True, False])
@pytest.mark.parametrize("skip", [True, False])
def test_float32_runs_of_pairs_far_from_the_centre(
    monkeypatch: pytest.MonkeyPatch, together: bool, tight: bool, skip: bool
) -> None:
    """Two coordinates that only move together cancel: rounding is all that is left, and all of it comes from moves."""
    rng, root = np.random.default_rng(25), np.array([[1.0, 1.0], [1e9, -1e9]]) / 2
    less = Node("affine", (0,), weight=np.array([[1.0, -1.0]]), bias=np.zeros(1))
    nodes = [Node("input", width=2), less, Node("activation", (1,), activation=Activation("relu"))]
    if skip:  # the last layer reads the input itself
        nodes += [less, Node("add", (2, 3))]
    near, between = Ball(root, 2.0, 1.0), Ball(root, 2.0, 1e-6)
    both(monkeypatch, together)
    (gap,) = compare(Pairs(normal_form(nodes), True, near, between), np.zeros((1, 2)), near, between, tight=tight)

    def single(y: Array) -> float:
        z = y[0].astype(np.float32) - y[1].astype(np.float32)
        return float(np.maximum(z, np.float32(0)) + (z if skip else np.float32(0)))

    largest = 0.0
    for _ in range(100):
        middle = float(np.float32(rng.uniform(0.5, 0.9))) + 2.0**-25  # between two numbers of float32
        v = middle + np.array([1e-10, -1e-10])
        d = np.full(2, rng.uniform(-5e-7, 5e-7))
        moved = single(v + d) - single(v)
        assert gap.between.low[0, 0] <= moved <= gap.between.high[0, 0]
        largest = max(largest, abs(moved))
    assert largest > 1e-8


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("seed", range(24))
def test_pairs_in_sets_of_their_own(monkeypatch: pytest.MonkeyPatch, seed: int, together: bool) -> None:
    """Balls with offsets in boxes, limits, and changes of category: nobody is compared with themselves."""
    rng = np.random.default_rng([2, seed])
    nodes = draw(rng) if seed % 3 else chain(rng, [3, 6, 5, 2], gain=1.5)
    m, n = nodes[0].width, 3
    x, flip = rng.normal(size=(n, m)), rng.normal(size=(n, m)) * (seed % 2)
    root, order = rng.normal(size=(m, m)) + 2 * np.eye(m), float(rng.choice(ORDERS))
    radius, delta = rng.uniform(0.01, 0.8, n), rng.uniform(1e-6, 0.5, n)
    wide = 4 * np.abs(np.linalg.inv(root)).sum(1)
    inverse = rng.normal(size=(m, m)) if seed % 4 == 3 else None  # a hint that is none
    near = BallBox(-wide * radius[:, None], wide * radius[:, None], root, order, radius, inverse=inverse)
    start = np.where(rng.random(m) < 0.4, 0.0, flip)
    low, high = start - wide * delta[:, None], start + wide * delta[:, None]
    between = BallBox(low, high, root, order, delta * (1 + 1e-9), -(start @ root.T), inverse=inverse)
    limits = BallBox(near.low + low, near.high + high) if seed % 2 else None
    both(monkeypatch, together)
    part = BallBox(near.low, near.high, root, order, radius / 4, inverse=inverse)
    gaps = compare(Pairs(normal_form(nodes)), x, near, between, limits, [part])
    for gap, scale in zip(gaps, (1.0, 0.25), strict=True):
        for row in range(n):
            moves = members(rng, root, order, scale * radius[row], 3)
            steps = members(rng, root, order, delta[row], 3) + start[row]
            for v, d in zip(moves, steps, strict=True):
                judged(nodes, gap, row, x[row], v, d)


@pytest.mark.parametrize("seed", range(6))
def test_hostile_scalings_of_all_together(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """``d`` is a hint."""
    rng = np.random.default_rng([3, seed])
    nodes, x = chain(rng, [3, 12, 10, 2], gain=2.0), rng.normal(size=(2, 3))
    near, between = Ball(np.eye(3), 2.0, 0.6), Ball(rng.normal(size=(3, 3)) + 2 * np.eye(3), 2.0, 0.4)
    monkeypatch.setattr(joint, "_scale", lambda absolute: np.exp(4 * rng.normal(size=len(absolute))))
    (gap,) = compare(Pairs(normal_form(nodes), False, near, between), x, near, between)
    for k in range(12):
        v, d = members(rng, near.root, 2.0, 0.6, 1)[0], members(rng, between.root, 2.0, 0.4, 1)[0]
        judged(nodes, gap, k % 2, x[k % 2], v, d)


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: f"{a.kind}{a.parameters}")
def test_lines_hold_for_every_pair(activation: Activation) -> None:
    """``low_slope D + low ≤ f(z + D) − f(z) ≤ slope D + above`` wherever both runs can be, and the range behind it."""
    rng = np.random.default_rng(4)
    width, n = 3, 6
    nodes = [Node("input", width=width), Node("activation", (0,), activation=activation)]
    nodes.append(Node("affine", (1,), weight=np.ones((1, width)), bias=np.zeros(1)))
    pairs = Pairs(normal_form(nodes))
    low = rng.normal(size=(n, width))
    near = BallBox(low, low + np.abs(rng.normal(size=(n, width))))
    low = rng.normal(size=(n, width)) * rng.choice([1e-9, 0.1, 1.0], (n, 1)) - np.abs(rng.normal(size=(n, 1))) * 0.1
    between = BallBox(low, low + np.abs(rng.normal(size=(n, width))) * 0.3)
    x = np.zeros((n, width))
    one, other = Run(pairs.near, x, near), Run(pairs.far, x, Sum(between, near))
    difference = Difference(pairs.between, one, other, between)
    for each in (one, other, difference):
        each.step(0)
    first, last = difference.values[1]
    with ctx.workprec(200):
        for sides in (difference.sided[0], difference.lines[0]):
            for i, j in np.ndindex(n, width):
                for s, t in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), *rng.random((4, 2))]:
                    z = arb(near.low[i, j]) + arb(s) * (arb(near.high[i, j]) - arb(near.low[i, j]))
                    d = arb(between.low[i, j]) + arb(t) * (arb(between.high[i, j]) - arb(between.low[i, j]))
                    moved = apply(activation, z + d, j) - apply(activation, z, j)
                    room = arb(1e-14) * abs(d) + arb(1e-300)  # which a pass pays for
                    assert not moved > arb(sides.slope[i, j]) * d + arb(sides.above[i, j]) + room
                    assert not moved < arb(sides.low_slope[i, j]) * d + arb(sides.below[i, j]) - room
                    assert not moved > arb(last[i, j]) and not moved < arb(first[i, j])


@pytest.mark.parametrize("order", ORDERS)
def test_a_difference_is_met_where_nothing_bends(order: float) -> None:
    """An affine network: the largest difference is the support function of the differences, however far one moves."""
    rng = np.random.default_rng(5)
    root, weight = rng.normal(size=(3, 3)) + 2 * np.eye(3), rng.normal(size=(1, 3))
    nodes = [Node("input", width=3), Node("affine", (0,), weight=weight, bias=np.ones(1))]
    near, between, x = Ball(np.eye(3), 2.0, 2.0), Ball(root, order, 0.1), rng.normal(size=(2, 3))
    (gap,) = compare(Pairs(normal_form(nodes), False, near, between), x, near, between)
    reach = 0.1 * np.linalg.norm(np.linalg.solve(root.T, weight[0]), dual_order(order))
    assert gap.between.high == pytest.approx(reach, rel=1e-9) and gap.between.low == pytest.approx(-reach, rel=1e-9)


def test_a_rise_of_relu_is_not_lost_in_cancellation() -> None:
    move, at = np.array([1e-20, -1e-20, 1e-20, 3.0, -3.0]), np.array([1.0, 1.0, -1.0, -1.0, 1.0])
    assert relu_rise(move, at, at).tolist() == [1e-20, -1e-20, 0.0, 2.0, -1.0]


def test_what_is_charged_scales_with_the_difference() -> None:
    """However large values and biases are, a tiny similar set makes a tiny difference."""
    rng = np.random.default_rng(5)
    nodes = chain(rng, [4, 30, 30, 1], bias=1e6)
    near = Ball(np.eye(4), 2.0, 0.1)
    found = []
    for delta in (1e-3, 1e-9):
        between = Ball(np.eye(4), 2.0, delta)
        (gap,) = compare(Pairs(normal_form(nodes), False, near, between), rng.normal(size=(3, 4)), near, between)
        found.append(gap.between.high / delta)
    assert found[1] == pytest.approx(found[0], rel=1e-3)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("together", [True, False])
def test_a_function_that_is_nearly_another_is_not_off_by_the_same_in_two_runs(
    monkeypatch: pytest.MonkeyPatch, shared: bool, together: bool
) -> None:
    """A softplus that is linear beyond 20 jumps there by 2e-9, however near two people are."""
    both(monkeypatch, together)
    one, error, move = np.ones((1, 1)), np.full(1, 2 * math.exp(-20)), 1e-12
    nodes = [
        Node("input", width=1), Node("activation", (0,), activation=Activation("softplus", (1.0,))),
        Node("affine", (1,), weight=one, bias=np.zeros(1), bias_error=error, roundings=0),
        Node("activation", (2,), activation=Activation("relu")), Node("affine", (3,), weight=one, bias=np.zeros(1)),
    ]  # fmt: skip
    x, still, box = np.full((1, 1), 20.0), np.zeros((1, 1)), np.full((1, 1), move)
    if shared:
        near, between = Ball(one, 2.0, 1e-13), Ball(one, 2.0, move)
        gap = compare(Pairs(normal_form(nodes), False, near, between), x, near, between)[0]
    else:
        gap = compare(Pairs(normal_form(nodes)), x, BallBox(still, still), BallBox(-box, box))[0]
    assert gap.between.low[0, 0] <= move - math.exp(-20) * 0.9


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("behind", [True, False])
def test_weights_that_cancel_when_they_are_merged(
    monkeypatch: pytest.MonkeyPatch, behind: bool, together: bool
) -> None:
    """Two affine maps become one matrix, off by far more than its own rounding: behind the activation or before it.

    All neurons are active, so that nothing else is between the bound and the truth.
    """
    both(monkeypatch, together)
    for seed in range(12):
        rng = np.random.default_rng([10, seed])
        first = rng.normal(size=(1, 4))
        cancel = (
            np.concatenate([first, first + 10.0 ** rng.integers(-12, -8) * rng.normal(size=(1, 4))]),
            1e8 * np.array([[1.0, -1.0]]),
        )
        tables = [np.eye(4), *cancel] if behind else [*cancel, np.array([[1.0]])]
        nodes, bent = [Node("input", width=4)], 1 if behind else 2
        for i, table in enumerate(tables):
            bias = np.full(len(table), 50.0 if i + 1 == bent else 0.0)
            nodes.append(Node("affine", (len(nodes) - 1,), weight=table, bias=bias))
            if i + 1 == bent:
                nodes.append(Node("activation", (len(nodes) - 1,), activation=Activation("relu")))
        exact = cancel[1] @ (cancel[0] - cancel[0][:1])  # without cancellation
        x, ball = np.zeros((1, 4)), Ball(np.eye(4), 2.0, 0.1)
        (gap,) = compare(Pairs(normal_form(nodes), False, ball, ball), x, ball, ball)
        for d in 0.1 * (1 - 1e-15) * exact / np.linalg.norm(exact) * np.array([[1.0], [-1.0]]):
            judged(nodes, gap, 0, x[0], np.zeros(4), d)


@pytest.mark.parametrize("where", ["weights", "matrix"])
def test_what_float32_cannot_tell_apart(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """Factors whose parts cancel: in float32 nothing of them is left, or far too much."""
    both(monkeypatch, True)
    for seed in range(8):
        rng = np.random.default_rng([11, seed])
        row, other = np.round(rng.normal(size=(2, 3)) * 8) + 0.5, rng.normal(size=3)
        last = np.array([[1e4, -1e4]])
        if where == "weights":
            first, last = np.stack([row[0], row[0]]), last + 1e-5 * rng.random((1, 2))
        else:
            first = np.stack([row[0], row[0] + 1e-8 * other])
        nodes = [Node("input", width=3), Node("affine", (0,), weight=first, bias=np.full(2, 50.0))]
        nodes.append(Node("activation", (1,), activation=Activation("relu")))
        nodes.append(Node("affine", (2,), weight=last, bias=-(last @ np.full(2, 50.0))))
        nodes.append(Node("activation", (3,), activation=Activation("relu")))
        nodes.append(Node("affine", (4,), weight=np.ones((1, 1)), bias=np.zeros(1)))
        x, near, between = np.zeros((1, 3)), Ball(np.eye(3), 2.0, 0.7), Ball(np.eye(3), 2.0, 0.3)
        (gap,) = compare(Pairs(normal_form(nodes), False, near, between), x, near, between)
        way = (last @ first)[0] / np.linalg.norm(last @ first)
        for sign in (1.0, -1.0):
            judged(nodes, gap, 0, x[0], sign * 0.7 * INSIDE * way, sign * 0.3 * INSIDE * way)


def test_rounding_of_values_is_part_of_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody moves, and a neuron stands on its kink by rounding alone."""
    both(monkeypatch, True)
    for seed in range(8):
        rng = np.random.default_rng([12, seed])
        x, first, last = rng.normal(size=(1, 3)), rng.normal(size=(5, 3)), 1e9 * rng.normal(size=(1, 5))
        bias = rng.random(5) * 5
        nodes = [Node("input", width=3), Node("affine", (0,), weight=first, bias=bias)]
        nodes.append(Node("activation", (1,), activation=Activation("relu")))
        there = -(np.maximum(x @ first.T + bias, 0) @ last.T)[0]
        nodes.append(Node("affine", (2,), weight=last, bias=there))
        nodes.append(Node("activation", (3,), activation=Activation("relu")))
        nodes.append(Node("affine", (4,), weight=np.ones((1, 1)), bias=np.zeros(1)))
        near, between = Ball(np.eye(3), 2.0, 0.0), Ball(np.eye(3), 2.0, 1e-16)
        (gap,) = compare(Pairs(normal_form(nodes), False, near, between), x, near, between)
        for d in members(rng, np.eye(3), 2.0, 1e-16, 3):
            judged(nodes, gap, 0, x[0], np.zeros(3), d)


def test_a_protected_flip_is_not_taken_for_standing_still() -> None:
    """One pass for both people would claim that nothing changes."""
    nodes = [Node("input", width=1), Node("affine", (0,), weight=np.array([[1.0]]), bias=np.zeros(1))]
    nodes += [Node("activation", (1,), activation=Activation("relu"))]
    nodes += [Node("affine", (2,), weight=np.array([[1.0]]), bias=np.zeros(1))]
    still, flip = np.zeros((1, 1)), np.ones((1, 1))
    (gap,) = compare(Pairs(normal_form(nodes)), still - 0.5, BallBox(still, still), BallBox(flip, flip))
    assert gap.near.high[0, 0] <= 1e-9 and gap.far.low[0, 0] >= 0.5 - 1e-9
    assert (
        gap.between.low[0, 0] == pytest.approx(0.5)
        and Head("sigmoid", 1).gap(*gap)[0] >= 1 / (1 + math.exp(-0.5)) - 0.5
    )


def test_limits_clip_the_sum_and_not_its_parts() -> None:
    """``e = (−4, 4)`` and ``b = (4, 3)``: their first coordinates cancel, so pinning it must not shrink the parts."""
    wide = np.full((2, 2), 9.0)
    similar = BallBox(-wide, wide, np.array([[1.0, 1.0]]), 2.0, np.array([0.1, 0.1]), inverse=np.array([[0.0], [1.0]]))
    ball = BallBox(-wide, wide, np.eye(2), 2.0, np.array([5.0]))
    pinned = np.array([[0.0, 9.0]] * 2)
    sets = Sum(similar, ball, BallBox(-pinned, pinned))
    linear_image = sets.linear_image(np.eye(2), np.eye(2))
    assert sets.support(np.array([[0.0, 1.0]]) @ linear_image.matrix, np.zeros(1, dtype=np.int64))[0] >= 7.0
    assert (linear_image.high[:, 0] <= 1e-12).all() and (linear_image.high[:, 1] >= 7.0).all()
    assert (sets.extent[:, 0] == 0).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_sum_reaches_as_far_as_its_parts(order: float) -> None:
    rng = np.random.default_rng(6)
    roots = [rng.normal(size=(3, 3)) + 2 * np.eye(3) for _ in range(2)]
    one, other = Ball(roots[0], order, 0.3), Ball(roots[1], 2.0, 0.7)
    sets, weight = Sum(one, other), rng.normal(size=(5, 3))
    linear_image = sets.linear_image(weight, np.abs(weight))
    for _ in range(50):
        v = members(rng, roots[0], order, 0.3, 1)[0] + members(rng, roots[1], 2.0, 0.7, 1)[0]
        c = rng.normal(size=(1, 5))
        assert (c @ weight @ v)[0] <= sets.support(c @ linear_image.matrix, slice(None))[0] + (
            np.abs(c) @ linear_image.loss
        )[0]
        assert (linear_image.low[0] <= weight @ v).all() and (weight @ v <= linear_image.high[0]).all()
    nodes = chain(rng, [3, 8, 1])
    x = rng.normal(size=(2, 3))
    found = enclose(Prepared(normal_form(nodes), sets), x)
    for _ in range(20):
        v, d = members(rng, roots[0], order, 0.3, 1)[0], members(rng, roots[1], 2.0, 0.7, 1)[0]
        assert not escapes(nodes, found.low[0], found.high[0], x[0], v, d)


def test_parts_of_sets_are_no_larger() -> None:
    ball = Ball(np.eye(2), 2.0, 1.0)
    assert ball.within(Ball(np.eye(2), 2.0, 5.0)).radius == 1.0 and ball.within(Ball(np.eye(2), 2.0, 0.5)).radius == 0.5
    with pytest.raises(ValueError, match="same shape"):
        ball.within(Ball(2 * np.eye(2), 2.0, 0.5))
    wide = np.ones((1, 2))
    box = BallBox(-wide, wide, np.eye(2), 2.0, np.array([1.0]))
    other = BallBox(-3 * wide, 0.5 * wide, 2 * np.eye(2), 2.0, np.array([0.1]))
    part = box.within(other)  # of another shape: its box alone
    assert part.radius[0] == 1.0 and (part.low == -1).all() and (part.high == 0.5).all()
    assert box.within(BallBox(-wide, wide, np.eye(2), 2.0, np.array([0.25]))).radius[0] == 0.25


def test_pairs_of_other_sets_are_refused() -> None:
    nodes, x = chain(np.random.default_rng(7), [2, 3, 1]), np.zeros((1, 2))
    ball, other = Ball(np.eye(2), 2.0, 0.1), Ball(np.eye(2), 2.0, 0.2)
    pairs = Pairs(normal_form(nodes), False, ball, ball)
    with pytest.raises(ValueError, match="other balls"):
        compare(pairs, x, other, ball)
    with pytest.raises(ValueError, match="need boxes"):
        compare(Pairs(normal_form(nodes)), x, ball, ball)
    with pytest.raises(ValueError, match="both balls or none"):
        Pairs(normal_form(nodes), False, ball)
    with pytest.raises(ValueError, match="finite float64"):
        compare(pairs, x * np.nan, ball, ball)
    assert [len(gap.near.low) for gap in compare(pairs, x[:0], ball, ball)] == [0]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e25, 1e160])
def test_what_overflows_or_underflows_only_makes_bounds_larger(
    monkeypatch: pytest.MonkeyPatch, scale: float, together: bool
) -> None:
    rng = np.random.default_rng(8)
    nodes = [node._replace(weight=node.weight * scale) if node.weight is not None else node
             for node in chain(rng, [3, 8, 8, 1])]  # fmt: skip
    near, between = Ball(np.eye(3), 2.0, 0.5), Ball(np.eye(3), 2.0, 0.2)
    x = rng.normal(size=(2, 3))
    both(monkeypatch, together)
    (gap,) = compare(Pairs(normal_form(nodes), False, near, between), x, near, between)
    for k in range(10):
        v, d = members(rng, np.eye(3), 2.0, 0.5, 1)[0], members(rng, np.eye(3), 2.0, 0.2, 1)[0]
        judged(nodes, gap, k % 2, x[k % 2], v, d)


# -- heads --------------------------------------------------------------------------------------------------------


def received(head: Head, margins: Any) -> list[Any]:
    """Probabilities by their definition, of raw outputs."""
    if head.kind == "regression":
        return list(margins)
    if head.kind == "sigmoid":
        return [1 / (1 + (-t).exp()) for t in margins]
    return [1 / sum(((other - own).exp() for other in margins), arb(0)) for own in margins]


@pytest.mark.parametrize("kind", ["sigmoid", "softmax", "regression"])
@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_no_change_exceeds_the_gap(kind: Any, outputs: int) -> None:
    """Margins of two people and their difference, each known within an interval that is as small as it can be."""
    if kind == "softmax" and outputs == 1:
        return
    rng, head = np.random.default_rng([9, outputs]), Head(kind, outputs)
    rows = np.eye(outputs) if head.rows is None else head.rows
    for _ in range(60):
        z = rng.normal(size=(6, outputs)) * float(rng.choice([0.1, 2.0, 40.0]))
        y = z + rng.normal(size=(6, outputs)) * float(rng.choice([1e-9, 0.1, 3.0]))
        sides = [Enclosure(m.min(0)[None] - room, m.max(0)[None] + room)
                 for m in (z @ rows.T, y @ rows.T, (y - z) @ rows.T)
                 for room in [1e-12 * (1 + np.abs(z).max() + np.abs(y).max())]]  # fmt: skip
        gap = head.gap(*sides)[0]
        with ctx.workprec(200):
            for a, b in zip(z, y, strict=True):
                one, other = (received(head, [arb(float(t)) for t in point]) for point in (a, b))
                assert not any(abs(p - q) > arb(float(gap)) for p, q in zip(one, other, strict=True))
        assert gap <= head.violation(*sides[:2])[0]


def test_a_gap_of_which_nothing_is_known() -> None:
    none = Enclosure(np.full((1, 1), -np.inf), np.full((1, 1), np.inf))
    strange = Enclosure(np.full((1, 1), np.nan), np.full((1, 1), np.nan))
    for sides in ((none, none, none), (strange, strange, strange), (none, none, strange)):
        assert Head("sigmoid", 1).gap(*sides)[0] == 1.0
        assert Head("regression", 1).gap(*sides)[0] == math.inf
    small = Enclosure(np.full((1, 1), -0.1), np.full((1, 1), 0.1))
    assert Head("sigmoid", 1).gap(none, none, small)[0] == pytest.approx(math.tanh(0.025), rel=1e-6)
    assert Head("regression", 1).gap(none, none, small)[0] == pytest.approx(0.1)


# -- wide networks ------------------------------------------------------------------------------------------------


def test_spectral_norms_of_wide_matrices() -> None:
    v = np.random.default_rng(5).normal(size=2100)
    gram = np.outer(v, v)[None]
    found, true = float(joint.largest_up(gram)[0]), float(v @ v)
    assert true <= found <= true * 1.05


@pytest.mark.parametrize("scale", [1e-17, 1e-12, 1.0, 1e9])
def test_the_largest_eigenvalue_is_not_underestimated(scale: float) -> None:
    rng = np.random.default_rng(8)
    for size in (1, 2, 9, 24):
        factor = rng.normal(size=(5, rng.integers(1, 30), size)) * scale
        gram = factor.transpose(0, 2, 1) @ factor
        truth, found = np.linalg.eigvalsh(gram)[:, -1], joint.largest_up(gram)
        assert (found >= truth).all()
        assert (found <= truth * size ** (0.5**joint.SQUARES) * (1 + 1e-9)).all()


def test_what_is_no_number_has_no_largest_eigenvalue() -> None:
    gram = np.zeros((3, 2, 2))
    gram[1, 0, 0], gram[2, 0, 1] = np.nan, np.inf
    with np.errstate(all="ignore"):
        found = joint.largest_up(gram)
    assert found[0] == 0 and not np.isfinite(found[1:]).any()


def test_a_slack_is_not_less_than_what_one_difference_can_do() -> None:
    """Σ |c_i| t_i |w_i·d| over the ball, by many directions; and less than the sum of maxima."""
    rng = np.random.default_rng(0)
    layers = normal_form(chain(rng, [4, 24, 20, 3]))
    weight, ball = layers.layers[0].blocks[0].weight, Ball(np.eye(4), 2.0, 0.7)
    pairs, together = Pairs(layers, False, ball, ball), joint.Joint.of(layers, ball)
    near, far = (Run(each, np.zeros((1, 4))) for each in (pairs.near, pairs.far))
    near.step(0)
    far.step(0)
    assert together is not None
    difference = Difference(pairs.between, near, far, None, together)
    difference.step(0)
    c = 0.5 * np.abs(rng.normal(size=(1, len(weight))))
    found = float(together.slack(difference, 0, c)[0])
    d = rng.normal(size=(20_000, 4))
    d *= 0.7 / np.linalg.norm(d, axis=1, keepdims=True)
    reached = (c * np.abs(d @ weight.T)).sum(1).max()
    assert reached <= found <= 0.8 * float((c * np.linalg.norm(weight, axis=1) * 0.7).sum())


def test_open_rows_and_columns_are_weighed_together() -> None:
    rng, n = np.random.default_rng(6), 600
    scaled, weight, bent = rng.normal(size=(n, n)), np.zeros((1, n)), np.zeros((1, n), dtype=bool)
    weight[0, :30], bent[0, 5:25] = rng.random(30), True
    found = float(joint._spectral(scaled, weight, bent)[0])
    part = np.sqrt(weight[0, :30, None]) * scaled[:30, 5:25]
    true = math.sqrt(weight.sum()) * np.linalg.norm(part, 2)
    assert true <= found <= 1.3 * true


@pytest.mark.parametrize("most", [0, 2**25])
def test_products_of_columns_are_kept_or_formed_anew(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """The same bound, up to rounding, whichever way its matrices are formed."""
    both(monkeypatch, together=True)
    rng = np.random.default_rng(7)
    nodes, x = chain(rng, [3, 12, 12, 1]), rng.normal(size=(4, 3))
    near, between = Ball(np.eye(3), 2.0, 0.2), Ball(np.eye(3), 2.0, 0.1)
    pairs = Pairs(normal_form(nodes), False, near, between)
    usual = compare(pairs, x, near, between)[0].between
    monkeypatch.setattr(joint, "OUTER", most)
    (found,) = compare(pairs, x, near, between)
    assert np.allclose(found.between.high, usual.high, rtol=1e-4) and np.allclose(
        found.between.low, usual.low, rtol=1e-4
    )


@pytest.mark.parametrize("tight", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_smaller_radii_are_those_of_the_same_person(size: int, tight: bool) -> None:
    """Whose reach is a share of their own number; more people than are bounded at a time."""
    none, one, no = np.zeros(1), np.ones(1), np.zeros(1, dtype=bool)
    domain = Domain("unbounded", none - math.inf, none + math.inf, (), no, none, one, no, ("number",))
    near = Form(np.zeros((0, 1)), 2.0, no, none, one / 10, none, one)
    alike = Form(np.zeros((0, 1)), 2.0, no, one, none, none, one)
    nodes = [
        Node("input", width=1),
        Node("affine", (0,), weight=np.ones((1, 1)), bias=np.array([-105.0])),
        Node("activation", (1,), activation=Activation("relu")),
        Node("affine", (2,), weight=np.ones((1, 1)), bias=none),
    ]
    head, x = Head("regression", 1, None, False), np.array([[1.0], [100.0], [2.0]])
    reach = Reach(Preparations(normal_form(nodes, head.rows)), head, Similarity(alike, 1.0, domain), near)
    found = reach.bound(x, [1.0, 2.0], tight, size)
    assert (found[1] >= 1).all()  # 100 moves to 108, where 109 is treated by 1 differently
    assert (found[[0, 2]] < 1e-9).all()
