"""Moving centres: pairs (z, y) with z in a ball and y similar to z never exceed what the kernel proves.

Pairs are drawn, put into corners, and pushed along gradients of the violation; each is scaled back into its sets by
what the test itself computes, and judged with 1,200 bits at ``centre + v`` and ``centre + v + d``, added exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy.networks.graph import Activation, Affine, Head
from isonomy.networks.network import Network
from isonomy_verify.sets import ConvexSets

from .asked import compare
from .reference import (
    BITS,
    KINDS,
    RATIONAL,
    differentiable,
    enclosed,
    exact_margins,
    exact_values,
    margins,
    mpf,
    random_network,
)

steady = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
EXACT = [kind for kind in KINDS if kind[0] in RATIONAL]
balls = st.sampled_from(["l1", "l2", "linf"])
similar_sets = st.sampled_from(["box", "l1", "l2", "linf", "mahalanobis", "flip", "flip ball"])
ORDERS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
STEPS = 12
INSIDE = 1 - 2.0**-40
"""Members are scaled to this share of their radius: float64 cannot round them out of their sets again."""


@dataclass
class Moves:
    """A set of moves: ours, and the nearest-in-direction member to any proposal, written again in plain numpy.

    ``low ≤ v ≤ high`` and ``‖root (v − start)‖ ≤ radius``.
    """

    sets: ConvexSets
    low: np.ndarray
    high: np.ndarray
    start: np.ndarray
    root: np.ndarray
    order: float
    radius: float

    def member(self, proposal: np.ndarray) -> np.ndarray:
        """Proposals (k, m) moved towards a known inner point until they belong."""
        v = np.clip(proposal, self.low, self.high)
        if not len(self.root):
            return v
        away = v - self.start
        length = np.linalg.norm(away @ self.root.T, self.order, axis=1)
        share = np.minimum(1.0, self.radius * INSIDE / np.maximum(length, 1e-300))
        return self.start + share[:, None] * away

    def outermost(self, direction: np.ndarray) -> np.ndarray:
        """Members far out along some directions."""
        if not len(self.root):
            return np.where(direction > 0, self.high, self.low)
        inverse = np.linalg.inv(self.root)
        turned = direction @ inverse
        if self.order == math.inf:
            turned = np.sign(turned)
        elif self.order == 1.0:
            best = np.abs(turned) == np.abs(turned).max(axis=1, keepdims=True)
            turned = np.where(best, np.sign(turned), 0.0)
        size = np.maximum(np.linalg.norm(turned, self.order, axis=1, keepdims=True), 1e-300)
        return self.member(self.start + self.radius * (turned / size) @ inverse.T)


def ball_of(rng: np.random.Generator, kind: str, width: int, radius: float) -> Moves:
    scale = rng.uniform(0.5, 2.0, width)
    sets = ConvexSets.of_ball(scale, ORDERS[kind], radius)
    wide = np.full(width, np.inf)
    return Moves(sets, -wide, wide, np.zeros(width), np.diag(scale), ORDERS[kind], radius)


def box_of(low: np.ndarray, high: np.ndarray) -> Moves:
    sets = ConvexSets.of_box(low[None], high[None])
    return Moves(sets, low, high, (low + high) / 2, np.zeros((0, len(low))), 2.0, 0.0)


def similar_of(rng: np.random.Generator, kind: str, width: int, delta: float) -> Moves:
    """Who is similar: symmetric balls and boxes, and flips after which nobody stands still."""
    if kind in ORDERS:
        return ball_of(rng, kind, width, delta)
    if kind == "box":
        high = delta * rng.random(width) * rng.choice([0.0, 1.0, 1.0], width)
        return box_of(-delta * rng.random(width), high)
    flipped = rng.choice([-1.0, 0.3, 1.0]) * (rng.random(width) < 0.5)
    flipped[0] = 1.0
    if kind == "flip":
        return box_of(flipped - delta * rng.random(width), flipped + delta * rng.random(width))
    root = rng.normal(size=(width, width)) + 2 * np.eye(width)
    start = flipped if kind == "flip ball" else np.zeros(width)
    # ‖root (v − start)‖ ≤ δ, with the offset rounded: what the test calls a member keeps clear of the edge.
    offset = -root @ start
    reach = 1.01 * np.linalg.norm(np.linalg.inv(root), axis=1) * delta + 1e-12
    sets = ConvexSets(
        root=root,
        order=2.0,
        radius=np.array([delta]),
        offset=offset[None],
        low=(start - reach)[None],
        high=(start + reach)[None],
        blocks=(),
        base=np.zeros((1, width)),
        inverse=np.linalg.inv(root),
    )
    wide = np.full(width, np.inf)
    radius = max(0.0, delta - 1e-13 * float(np.abs(root).sum()))  # the offset is rounded
    return Moves(sets, -wide, wide, start, root, 2.0, radius)


def attacked(
    network: Network, centre: np.ndarray, near: Moves, between: Moves, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of moves (near, between): random, outermost, and after sign-of-gradient steps for some class up or down."""
    width, graph = len(centre), margins(network)
    first, second = (part.outermost(rng.normal(size=(6, width))) for part in (near, between))
    inner = near.member(near.start + rng.random((6, 1)) * (first - near.start))
    pairs = [(first, second), (inner, second)]
    v, d = inner, between.member(between.start + 0.5 * (second - between.start))
    outputs = graph.widths[-1]
    want = np.zeros((6, outputs))
    want[np.arange(6), rng.integers(outputs, size=6)] = rng.choice([-1.0, 1.0], 6)
    goal = torch.from_numpy(want)
    for _ in range(STEPS):
        one, two = (torch.from_numpy(part.copy()).requires_grad_() for part in (v, d))
        z = torch.from_numpy(centre) + one
        if network.head == "regression":
            change = differentiable(graph, z + two) - differentiable(graph, z)
        else:
            change = torch.sigmoid(differentiable(graph, z + two)) - torch.sigmoid(differentiable(graph, z))
        slopes = torch.autograd.grad((goal * change).sum(), (one, two))
        step, other = (s.nan_to_num(0.0).numpy() for s in slopes)
        v = near.member(0.5 * v + 0.5 * near.outermost(step))
        d = between.outermost(other + 1e-300)
        pairs.append((v, d))
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def check(network: Network, centre: np.ndarray, near: Moves, between: Moves, rng: np.random.Generator) -> float:
    """No pair exceeds the gap, the violation of the two ranges, or any bound of the margins' difference."""
    (found,) = compare(network, centre[None], near.sets, between.sets)
    one, other, gap, apart = found.near, found.far, float(found.gap[0]), float(found.apart[0])
    assert not math.isnan(gap) and gap <= apart
    moves, steps = attacked(network, centre, near, between, rng)
    start = centre + moves
    change = margins(network).evaluate(start + steps) - margins(network).evaluate(start)
    whole = summed(network)
    worst = set(change.argmax(0).tolist()) | set(change.argmin(0).tolist()) | {0, 7}
    with mpmath.workprec(BITS):
        for k in sorted(worst):
            z, y = (np.concatenate([centre, moves[k], step]) for step in (0 * steps[k], steps[k]))
            pairs = zip(exact_margins(whole, z), exact_margins(whole, y), strict=True)
            for i, (own, theirs) in enumerate(pairs):
                low, high = mpf(float(found.low[0, i])), mpf(float(found.high[0, i]))
                assert low <= theirs - own <= high, (i, moves[k], steps[k])
                assert mpf(float(one[0][0, i])) <= own <= mpf(float(one[1][0, i])), ("near", i)
                assert mpf(float(other[0][0, i])) <= theirs <= mpf(float(other[1][0, i])), ("far", i)
            values = zip(exact_values(whole, z), exact_values(whole, y), strict=True)
            assert max(abs(a - b) for a, b in values) <= mpf(gap), (moves[k], steps[k])
    return gap


def summed(network: Network) -> Network:
    """The network of ``centre + v + d`` as a function of all three, so that the reference adds them exactly."""
    eye = np.eye(network.input_width)
    return network.adapted(Affine.of(np.hstack([eye, eye, eye])))


def near_of(rng: np.random.Generator, kind: str, width: int, radius: float) -> Moves:
    if kind == "box":
        return box_of(-radius * rng.random(width), radius * rng.random(width))
    return ball_of(rng, kind, width, radius)


@steady
@given(
    seed=seeds,
    near=st.sampled_from(["l1", "l2", "linf", "box"]),
    similar=similar_sets,
    radius=st.sampled_from([0.0, 1e-7, 0.02, 0.3, 3.0]),
    delta=st.sampled_from([1e-6, 1e-2, 0.5]),
)
def test_pairs_of_every_shape(seed: int, near: str, similar: str, radius: float, delta: float) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 6))
    network = random_network(rng, width)
    centre = rng.normal(size=width) * float(rng.choice([0.1, 1.0, 10.0]))
    check(network, centre, near_of(rng, near, width, radius), similar_of(rng, similar, width, delta), rng)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "kind", [i if i % 2 == 0 else pytest.param(i, marks=pytest.mark.slow) for i in range(len(KINDS))]
)
def test_pairs_of_every_activation(kind: int) -> None:
    """Two layers of one activation, with sums and concatenations around them."""
    for seed in range(4):
        rng = np.random.default_rng([kind, seed])
        network = random_network(rng, 3, kinds=[KINDS[kind]], scales=(1.0, 3.0))
        near = ball_of(rng, ["l1", "l2", "linf"][seed % 3], 3, [1e-3, 0.1, 1.0, 5.0][seed])
        similar = similar_of(rng, ["mahalanobis", "flip", "box", "flip ball"][seed], 3, [0.3, 0.05, 1.0, 0.1][seed])
        check(network, rng.normal(size=3), near, similar, rng)


@steady
@given(
    seed=seeds,
    similar=similar_sets,
    scales=st.sampled_from([(1e6,), (1e-12,), (1.0, 1e6, 1e-12)]),
    biases=st.sampled_from([(0.0,), (1.0,), (1e8, 1.0)]),
    radius=st.sampled_from([0.0, 1e-6, 0.1]),
)
def test_pairs_with_extreme_weights(
    seed: int, similar: str, scales: tuple[float, ...], biases: tuple[float, ...], radius: float
) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    network = random_network(rng, width, kinds=EXACT, scales=scales, biases=biases)
    near = ball_of(rng, "l2", width, radius)
    check(network, rng.normal(size=width), near, similar_of(rng, similar, width, 1e-3), rng)


@steady
@given(seed=seeds, outputs=st.integers(2, 5), similar=similar_sets, radius=st.sampled_from([1e-4, 0.1, 1.0]))
def test_pairs_of_many_classes(seed: int, outputs: int, similar: str, radius: float) -> None:
    """Classes of equal, nearly equal and very different margins."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    weights = [rng.normal(size=(5, width)), rng.normal(size=(outputs, 5)) * float(rng.choice([1.0, 10.0, 100.0]))]
    if rng.random() < 0.5:
        weights[1][1] = weights[1][0]
    network = Network.from_layers(weights, [rng.normal(size=5), rng.normal(size=outputs)], "relu")
    near = ball_of(rng, "linf", width, radius)
    check(network, rng.normal(size=width), near, similar_of(rng, similar, width, 0.05), rng)


@steady
@given(seed=seeds, order=balls, radius=st.sampled_from([1e-6, 0.05, 0.5]), delta=st.sampled_from([1e-5, 0.1, 0.5]))
def test_pairs_in_a_domain(seed: int, order: str, radius: float, delta: float) -> None:
    """Several people at different places of a box of possible individuals, some at its very edge."""
    rng = np.random.default_rng(seed)
    n, width = 3, int(rng.integers(1, 5))
    network = random_network(rng, width)
    centre = rng.choice([0.0, 0.25, 0.5, 1.0], (n, width))
    low, high = -centre, 1 - centre  # exact
    shift, similar = ball_of(rng, order, width, radius), ball_of(rng, "l2", width, delta)
    reach = shift.sets.extent
    near = replace(shift.sets, low=np.maximum(low, -reach), high=np.minimum(high, reach))
    (found,) = compare(network, centre, near, similar.sets, ConvexSets.of_box(low, high))
    gap = found.gap
    whole = summed(network)
    with mpmath.workprec(BITS):
        for row in range(n):
            way = rng.normal(size=(2, 4, width)) * 3
            # Clipping towards no move at all keeps both inside their balls.
            moves = np.clip(shift.outermost(way[0]), low[row], high[row])
            steps = similar.outermost(way[1])
            steps = np.where(moves + steps > high[row], np.maximum(0, high[row] - moves) * INSIDE, steps)
            steps = np.where(moves + steps < low[row], np.minimum(0, low[row] - moves) * INSIDE, steps)
            for v, d in zip(moves, steps, strict=True):
                z, y = (np.concatenate([centre[row], v, step]) for step in (0 * d, d))
                pairs = zip(exact_margins(whole, z), exact_margins(whole, y), strict=True)
                for i, (own, theirs) in enumerate(pairs):
                    assert enclosed(found.low[row, i], theirs - own, found.high[row, i]), (row, i)
                values = zip(exact_values(whole, z), exact_values(whole, y), strict=True)
                assert max(abs(a - b) for a, b in values) <= mpf(float(gap[row])), (row, v, d)


def test_a_gap_is_met_where_nothing_bends() -> None:
    """An affine network: the largest difference is the support function of the differences, however far z moves."""
    rng = np.random.default_rng(5)
    for kind in ("box", "l1", "l2", "linf", "mahalanobis", "flip", "flip ball"):
        network = Network.from_layers([rng.normal(size=(1, 3))], [[0.3]], head="regression")
        between = similar_of(rng, kind, 3, 0.1)
        gap = check(network, rng.normal(size=3), ball_of(rng, "l2", 3, 2.0), between, rng)
        row = network.graph.nodes[-1].op.weight
        ends = [abs(float((row @ between.outermost(sign * row).T).item())) for sign in (1.0, -1.0)]
        assert gap == pytest.approx(max(ends), rel=1e-9), kind


def test_nobody_moves() -> None:
    """A centre that stands still and differences of nothing: only rounding is left."""
    rng = np.random.default_rng(2)
    zero = np.zeros(3)
    for kind, parameters in KINDS:
        chosen = Activation(kind, tuple(rng.normal(size=4).tolist()) if parameters is None else parameters)
        network = Network.from_layers(
            [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], [zero[:1].repeat(4), zero[:2]], chosen
        )
        gap = check(network, rng.normal(size=3), box_of(zero, zero), box_of(zero, zero), rng)
        assert gap <= 1e-12, kind


@pytest.mark.parametrize("head", ["regression", "sigmoid"])
@pytest.mark.parametrize("kind", ["relu", "tanh", "gelu", "gelu_tanh", "silu"])
def test_numbers_that_overflow_never_make_a_gap_of_nan(kind: str, head: Head) -> None:
    weights = [np.full((3, 2), 1e160), np.full((3, 3), 1e160), np.ones((1, 3))]
    network = Network.from_layers(weights, [np.zeros(3), np.zeros(3), np.zeros(1)], kind, head)
    ball = ConvexSets.of_ball(np.ones(2), 2.0, 0.1)
    (found,) = compare(network, np.zeros((1, 2)), ball, ball)
    gap = float(found.gap[0])
    assert gap >= 0.4, gap  # saturated, or nothing known
