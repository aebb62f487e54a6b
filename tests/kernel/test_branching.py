"""Branch and bound: no member of a region leaves the bound of the part it is in, whatever is cut or hinted."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array
from isonomy_verify.branching import Found, Hints, Leaves
from isonomy_verify.domain import Domain
from isonomy_verify.enclosure import Prepared
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.hints.ascent import improve
from isonomy_verify.hints.splitting import Splitting
from isonomy_verify.local import LocalBounds
from isonomy_verify.network import Node, normal_form
from isonomy_verify.preparations import Preparations
from isonomy_verify.regions import Ball, BallBox
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import Enclosure

from .graphs import chain, draw
from .test_enclosure import RADIUS, hidden, hostile, members
from .truth import ACTIVATIONS, run

KINDS = [a for a in ACTIVATIONS if a.kind != "prelu"]
ONE = np.zeros(1, dtype=np.int64)


def leaves_of(nodes: list[Node], x: Array, shared: bool, sign: float, run_unit: bool = False) -> Leaves:
    m = x.shape[1]
    prepared = Prepared(normal_form(nodes), Ball(np.eye(m), 2.0, RADIUS) if shared else None, run_unit)
    box = None
    if not shared:
        reach = np.full(x.shape, RADIUS / m)
        box = BallBox(-reach, reach, np.eye(m), 2.0, np.full(len(x), RADIUS), np.zeros((len(x), m)))
    n = len(x)
    return Leaves(prepared, x, box, np.zeros(n, dtype=np.int64), np.full(n, sign), np.full(n, np.inf))


Path = list[tuple[int, int, float, bool]]


def inside(path: Path, values: list[list[Any]], v: Array) -> bool:
    """Is a member certainly in a part? Layer −1 is the move itself."""
    for layer, column, cut, above in path:
        z = arb(float(v[column])) if layer < 0 else values[layer][column]
        if not (z >= arb(cut) if above else z <= arb(cut)):
            return False
    return True


@pytest.mark.parametrize("shared", [True, False])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_member_keeps_to_the_bound_of_its_part(shared: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = KINDS[int(rng.integers(len(KINDS)))]
    nodes = chain(rng, [2, *rng.integers(2, 5, int(rng.integers(1, 4))).tolist(), 1], kind, gain=1.5)
    x, sign = rng.normal(size=(1, 2)), float(rng.choice([-1.0, 1.0]))
    leaves = leaves_of(nodes, x, shared, sign)
    moves = members(rng, 2)
    with ctx.workprec(200):
        exact = [hidden(nodes, x[0], v) for v in moves]
    paths: dict[int, Path] = {0: []}
    for _ in range(int(rng.integers(1, 8))):
        rows = np.flatnonzero(leaves.open)
        some = rng.permutation(rows)[: int(rng.integers(1, len(rows) + 1))]
        if rng.random() < 0.3:  # hostile hints
            for k, width in enumerate(leaves.widths):
                for name in ("slope", "multiplier"):
                    leaves._kept[f"{name}{k}"][some] = hostile(rng, (len(some), width))[int(rng.integers(6))]
        found = improve(leaves, some, np.full(len(some), -np.inf), int(rng.integers(0, 5)))
        row = np.array([int(rng.integers(len(some)))])
        layer, column, cut = found.layer[row], found.column[row], found.value[row]
        if rng.random() < 0.5 or layer[0] < 0:  # anywhere, best of all where somebody stands
            k = int(rng.integers(-1 if not shared else 0, len(leaves.widths)))
            j, who = int(rng.integers(2 if k < 0 else leaves.widths[k])), int(rng.integers(len(moves)))
            at = float(moves[who][j]) if k < 0 else float(exact[who][k][j].mid())
            layer, column, cut = np.array([k]), np.array([j]), np.array([at])
        (fresh,) = leaves.split(some[row], layer, column, cut)
        old = paths[int(some[row[0]])]
        ends = int(layer[0]), int(column[0]), float(cut[0])
        paths[int(some[row[0]])], paths[int(fresh)] = [*old, (*ends, False)], [*old, (*ends, True)]
    rows = np.flatnonzero(leaves.open)
    improve(leaves, rows, np.full(len(rows), -np.inf), 2)
    with ctx.workprec(200):
        for v, values in zip(moves, exact, strict=True):
            held = [row for row in rows.tolist() if inside(paths[row], values, v)]
            assert held
            for row in held:
                assert not sign * values[-1][0] > arb(float(leaves.bound[row])), paths[row]
            assert not sign * values[-1][0] > arb(float(leaves.upper()[0]))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["relu", "tanh", "hardswish"])
def test_no_hint_makes_a_bound_false(kind: str, seed: int) -> None:
    """Slopes, places, multipliers and splits of any size, infinite or no numbers: lines are the kernel's own."""
    rng = np.random.default_rng(seed)
    nodes = chain(rng, [2, *rng.integers(2, 5, 2).tolist(), 1], Activation(kind), gain=1.5)
    x, sign, moves = rng.normal(size=(1, 2)), float(rng.choice([-1.0, 1.0])), members(rng, 2)
    leaves = leaves_of(nodes, x, False, sign)
    with ctx.workprec(200):
        most = max((sign * run(nodes, x[0], v)[0] for v in moves), key=lambda value: float(value.mid()))

    def drawn(calm: float) -> list[Array]:
        """Mostly numbers of a usual size, some of them beyond what is allowed."""
        usual = [rng.uniform(-2, 3, (1, width)) for width in leaves.widths]
        wild = [hostile(rng, each.shape)[int(rng.integers(6))].astype(np.float64) for each in usual]
        return usual if rng.random() < calm else wild

    for _ in range(20):
        multipliers = drawn(0.7) if rng.random() < 0.3 else None
        split = hostile(rng, (1, 2))[int(rng.integers(6))].astype(np.float64)
        leaves.derive(leaves.enclose(ONE), Hints(drawn(0.8), drawn(0.8), multipliers, split))
    assert not most > arb(float(leaves.upper()[0]))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_graphs_that_branch_are_searched_to_the_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, sign = draw(rng, outputs=1), float(rng.choice([-1.0, 1.0]))
    m = nodes[0].width
    x = rng.normal(size=(1, m))
    leaves = leaves_of(nodes, x, False, sign)
    for _ in range(6):
        rows = np.flatnonzero(leaves.open)
        found = improve(leaves, rows, np.full(len(rows), -np.inf))
        some = found.layer >= 0
        leaves.close(rows[~some])
        leaves.split(rows[some], found.layer[some], found.column[some], found.value[some])
    upper = float(leaves.upper()[0])
    with ctx.workprec(200):
        assert not any(sign * run(nodes, x[0], v)[0] > arb(upper) for v in members(rng, m))


def test_parts_come_closer_and_end_at_the_truth() -> None:
    """A network of absolute values, whose largest output over a box is known."""
    weight = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    nodes = [
        Node("input", width=2),
        Node("affine", (0,), weight=weight, bias=np.zeros(4)),
        Node("activation", (1,), activation=Activation("relu")),
        Node("affine", (2,), weight=-np.ones((1, 4)), bias=np.zeros(1)),
    ]
    leaves = leaves_of(nodes, np.zeros((1, 2)), False, 1.0)
    first = math.inf
    for _ in range(4):
        rows = np.flatnonzero(leaves.open)
        found = improve(leaves, rows, np.full(len(rows), -1e-9))
        first = min(first, float(leaves.upper()[0]))
        some = (found.layer >= 0) & (leaves.bound[rows] > 1e-9)
        leaves.close(rows[~some])
        leaves.split(rows[some], found.layer[some], found.column[some], found.value[some])
    assert 0 <= leaves.upper()[0] <= 1e-7  # −|a| − |b| is largest at 0


def test_a_part_that_holds_nobody_is_bounded_by_nothing() -> None:
    rng = np.random.default_rng(3)
    nodes = chain(rng, [2, 3, 3, 1])
    leaves = leaves_of(nodes, rng.normal(size=(1, 2)), True, 1.0)
    low, high = leaves.ranges(1, ONE)
    (fresh,) = leaves.split(ONE, np.array([1]), np.array([0]), high[:, 0] + 1.0)
    assert leaves.bound[0] == leaves.bound[fresh]
    improve(leaves, np.array([0, fresh]), np.full(2, -np.inf))
    assert math.isfinite(leaves.bound[0])
    # A cut beyond a range that was proved: the upper half keeps a range of one point, which is sound for nobody.
    assert leaves.ranges(1, np.array([fresh]))[0][0, 0] >= low[0, 0]


def test_a_cut_must_be_a_number() -> None:
    leaves = leaves_of(chain(np.random.default_rng(0), [2, 3, 1]), np.zeros((1, 2)), True, 1.0)
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            leaves.split(ONE, ONE, ONE, np.array([value]))


# -- regions ------------------------------------------------------------------------------------------------------


def clipped(rng: np.random.Generator, order: float, m: int = 6) -> BallBox:
    """A ball, cut by a box and the simplices of two blocks."""
    shares = np.zeros((3, m))
    shares[:, :3], shares[:, 3:5] = rng.dirichlet(np.ones(3), 3), rng.dirichlet(np.ones(2), 3)
    low, high = -rng.uniform(0.1, 0.6, (3, m)), rng.uniform(0.1, 0.6, (3, m))
    low[:, :5], high[:, :5] = np.maximum(low[:, :5], -shares[:, :5]), np.minimum(high[:, :5], 1 - shares[:, :5])
    root = np.eye(m) + 0.3 * rng.normal(size=(m, m))
    radius, offset = rng.uniform(0.2, 0.6, 3), 0.05 * rng.normal(size=(3, m))
    return BallBox(low, high, root, order, radius, offset, blocks=((0, 3), (3, 5)), shares=shares)


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_splits_are_hints_and_good_ones_come_close(order: float) -> None:
    rng = np.random.default_rng(11)
    for _ in range(8):
        region = clipped(rng, order)
        t = rng.normal(size=(3, 6))
        splitting = Splitting(region)
        for _ in range(60):
            place, split = splitting.step(t, 10)
        plain, good = region.support(t, slice(None)), region.support(t, slice(None), split)
        # Members: the place itself, led into the box and its sums.
        reached = np.vecdot(t, place)
        assert (good <= plain).all() and (good >= reached - 1e-6).all()
        assert (good - reached <= 2e-3 * (1 + np.abs(reached))).all()
        for bad in hostile(rng, split.shape):
            hinted = region.support(t, slice(None), bad.astype(np.float64))
            assert (hinted >= reached - 1e-6).all() and (hinted <= plain).all()


# -- heads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5])
def test_scores_are_the_logits_of_probabilities(k: int) -> None:
    rng, head = np.random.default_rng(k), Head("softmax", k)
    nodes = [Node("input", width=k), *head.scores(0)]
    with ctx.workprec(200):
        for z in rng.normal(size=(20, k)) * rng.choice([0.1, 3.0, 40.0], (20, 1)):
            scores, whole = run(nodes, z), sum(arb(float(v)).exp() for v in z)
            for c in range(1, 2) if k == 2 else range(k):
                score = scores[0] if k == 2 else scores[c]
                share = arb(float(z[c])).exp() / whole
                assert abs(1 / (1 + (-score).exp()) - share) < arb("1e-40")


@pytest.mark.parametrize(
    "head",
    [Head("softmax", 2), Head("softmax", 2, 0.3), Head("softmax", 4), Head("sigmoid", 1), Head("sigmoid", 1, 0.9),
     Head("regression", 1, -0.4), Head("softmax", 2, 0.5, True)],
    ids=str,
)  # fmt: skip
def test_excluded_contests_leave_the_decision(head: Head) -> None:
    rng = np.random.default_rng(5)
    width = max(len(head.pairs), 1)
    middle = rng.normal(size=(500, width)) * 2
    half = np.abs(rng.normal(size=(500, width))) * rng.choice([0.0, 1e-9, 0.5], (500, 1))
    over, at = Enclosure(middle - half, middle + half), Enclosure(middle, middle)
    decision = head.decision(at)
    contests = head.contests(decision)
    bound = np.where(
        contests.sign > 0, over.high[contests.row, contests.margin], -over.low[contests.row, contests.margin]
    )
    stands = decision >= 0
    stands[contests.row[~head.excluded(contests.sign, bound)]] = False
    known = np.zeros(500, dtype=bool)
    known[contests.row] = True
    assert (known == (decision >= 0)).all() and stands.any() and not stands.all()
    assert ((head.decision(over) == decision)[decision >= 0] == stands[decision >= 0]).all()
    needed = head.needed(contests.sign)
    assert head.excluded(contests.sign, needed).all()
    assert not head.excluded(contests.sign, needed + 1e-4 * (1 + np.abs(needed))).any()


@pytest.mark.parametrize("head", [Head("softmax", 3), Head("sigmoid", 2), Head("regression", 2)], ids=str)
def test_changes_hold_what_a_bound_allows(head: Head) -> None:
    rng = np.random.default_rng(6)
    n, k = 200, head.outputs
    t, there = rng.normal(size=(n, k)) * 3, rng.normal(size=(n, k)) * 3
    sigmoid = (lambda v: v) if head.kind == "regression" else (lambda v: 1 / (1 + np.exp(-v)))
    at = Enclosure(sigmoid(t) - 1e-12, sigmoid(t) + 1e-12)
    for sign in (1.0, -1.0):
        output, signs = rng.integers(0, k, n), np.full(n, sign)
        mine, other = t[np.arange(n), output], there[np.arange(n), output]
        bound = sign * other
        change = head.change(at, output, signs, bound)
        true = sign * (sigmoid(other) - sigmoid(mine))
        assert (change >= true).all() and (change <= np.maximum(true, 0) + 1e-9).all()
        again = head.change(at, output, signs, head.aim(at, output, signs, np.maximum(change, 0.01)))
        assert (again <= np.maximum(change, 0.01) + 1e-12).all()


def test_decisions_stand_by_a_good_search_and_by_no_search_without_reason() -> None:
    rng = np.random.default_rng(3)
    sizes = (2, 12, 12, 1)
    nodes = [Node("input", width=2)]
    for k, (a, b) in enumerate(pairwise(sizes)):
        nodes.append(Node("affine", (len(nodes) - 1,), weight=rng.normal(size=(b, a)), bias=rng.normal(size=b)))
        if k < 2:
            nodes.append(Node("activation", (len(nodes) - 1,), activation=Activation("relu")))
    form = Form(np.eye(2), 2.0, np.ones(2, dtype=bool), np.zeros(2), np.zeros(2), np.zeros(2), np.ones(2))
    sets, network, x = Similarity(form, 0.3, Domain.unbounded(2)), normal_form(nodes), rng.normal(size=(80, 2))

    def wild(leaves: Leaves, rows: Array, target: Array) -> Found:
        parts, n = leaves.enclose(rows), len(rows)
        hints = [rng.normal(size=(n, 12)) * scale for scale in (5, 5, 100, 100)]
        leaves.derive(parts, Hints(hints[:2], [None, None], hints[2:]))
        return Found(np.zeros((n, 2)), rng.integers(-1, 2, n), rng.integers(0, 2, n), rng.normal(size=n))

    stands = {}
    for name, search in (("none", None), ("good", improve), ("wild", wild)):
        bounds = LocalBounds(Preparations(network), Head("sigmoid", 1), sets, "interval", improve=search)
        known = bounds.chunk(x)
        stands[name] = bounds.proved_decisions(x, known, np.ones(80, dtype=bool), 64)
    around = rng.normal(size=(2000, 2))
    around *= 0.3 * rng.random((2000, 1)) / np.linalg.norm(around, axis=1, keepdims=True)
    signs = network.run((x[:, None] + around).reshape(-1, 2))[-1].reshape(80, -1) > 0
    flips = (signs != (network.run(x)[-1] > 0)).any(1)
    assert (stands["none"] <= stands["good"]).all() and stands["good"].sum() > stands["none"].sum()
    assert not any((stands[name] & flips).any() for name in stands)
