"""All neurons together: ellipsoids, eigenvalues and slacks against plain numpy and brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.bounds.activations import chord_slopes
from isonomy.bounds.crowd import Crowd, crowded
from isonomy.bounds.interval import Interval
from isonomy.bounds.joint import Cover, Joint, spectral_norm, top
from isonomy.bounds.relational import Relational
from isonomy.networks.graph import Activation
from isonomy.networks.network import Network
from isonomy.sets import ConvexSets, SumOfSets

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=30, deadline=None)


@few
@given(seed=seeds, size=st.integers(1, 24), scale=st.sampled_from([1e-17, 1e-12, 1.0, 1e9]), single=st.booleans())
def test_the_largest_eigenvalue_is_not_underestimated(seed: int, size: int, scale: float, single: bool) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(5, rng.integers(1, 30), size)) * scale
    kind = torch.float32 if single else torch.float64
    gram = torch.from_numpy(factor.transpose(0, 2, 1) @ factor).to(kind)
    truth = np.linalg.eigvalsh(gram.double().numpy())[:, -1]
    found = top(gram).numpy()
    floor = 2.0**-105 if single else 0.0
    assert (found >= truth).all()
    assert (found <= truth * size ** (1 / 16) * (1.001 if single else 1 + 1e-9) + floor).all()


@few
@given(seed=seeds)
def test_the_norm_of_a_matrix_is_not_underestimated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=rng.integers(1, 20, 2)) * 10.0 ** rng.integers(-9, 9)
    truth, found = np.linalg.norm(weight, 2), float(spectral_norm(torch.from_numpy(weight)))
    assert truth <= found * (1 + 1e-14) and found <= truth * 20 ** (1 / 16) + 1e-300


def sets_of(rng: np.random.Generator, kind: str, m: int) -> tuple[ConvexSets, np.ndarray]:
    """A set of moves, and members of it."""
    if kind == "flip":  # a change of category: the first coordinate has one value, not 0, and costs nothing
        ball, v = sets_of(rng, "l2", m)
        root, low, high = ball.root.clone(), ball.low.clone(), ball.high.clone()
        root[:, 0] = 0.0
        low[:, 0] = high[:, 0] = v[:, 0] = float(rng.normal())
        return replace(ball, root=root, low=low, high=high), v
    scale, radius, order = rng.uniform(0.3, 3, m), rng.uniform(0.01, 2), {"l1": 1.0, "l2": 2.0, "linf": math.inf}[kind]
    u = rng.normal(size=(200, m))
    u *= radius / np.linalg.norm(u, order, axis=1, keepdims=True)
    return ConvexSets.of_ball(torch.from_numpy(scale), order, radius), u / scale * (1 - 1e-12)


@few
@given(seed=seeds, kind=st.sampled_from(["flip", "l1", "l2", "linf"]))
def test_ellipsoids_hold_every_member(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    sets, members = sets_of(rng, kind, int(rng.integers(1, 6)))
    cover = Cover.of(sets)
    if cover is None:
        assert kind == "flip" and members.shape[1] == 1
        return
    factor = (cover.factor[0] * cover.size[0]).numpy()
    u = np.linalg.pinv(factor) @ (members - cover.middle[0].numpy()).T
    rest = members.T - cover.middle[0].numpy()[:, None] - factor @ u
    assert (np.linalg.norm(u, axis=0) <= 1 + 1e-9).all()
    assert (np.linalg.norm(rest, axis=0) <= float(cover.error[0]) + 1e-12).all()


def test_nothing_is_said_of_boxes() -> None:
    wide = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    assert Cover.of(ConvexSets.of_box(-wide, wide)) is None


@few
@given(seed=seeds, error=st.sampled_from([0.0, 1e-3]))
def test_slopes_of_chords_from_a_known_point(seed: int, error: float) -> None:
    rng = np.random.default_rng(seed)
    ends = rng.normal(size=(2, 40))  # moves to one side only, too
    point, low, high = rng.normal(size=40), ends.min(0), ends.max(0)
    sides = (torch.from_numpy(side)[None] for side in (point, low, high))
    at, down, up = sides
    least, most = chord_slopes(Activation("relu"), at, torch.full((1, 1), error, dtype=torch.float64), down, up)
    for _ in range(50):
        start = point + rng.uniform(-error, error, 40)
        end = point + rng.uniform(low, high)
        slope = (np.maximum(end, 0) - np.maximum(start, 0)) / (end - start)
        assert (slope >= least[0].numpy() - 1e-12).all() and (slope <= most[0].numpy() + 1e-12).all()
    stable = (np.minimum(point + low, point) > 2 * error) | (np.maximum(point + high, point) < -2 * error)
    assert (least[0].numpy() == most[0].numpy())[stable].all()


def network(rng: np.random.Generator, m: int, kind: str) -> Network:
    sizes = [m, 24, 20, 3]
    torch.manual_seed(int(rng.integers(2**31)))
    activation = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "leaky": torch.nn.LeakyReLU}[kind]
    layers: list[torch.nn.Module] = []
    for one, other in pairwise(sizes):
        layers += [torch.nn.Linear(one, other), activation()]
    return Network.from_torch(torch.nn.Sequential(*layers[:-1]).double(), head="regression")


@few
@given(seed=seeds, kind=st.sampled_from(["relu", "tanh", "leaky"]), similar=st.sampled_from(["flip", "l2", "linf"]))
def test_pairs_over_wide_regions(seed: int, kind: str, similar: str) -> None:
    """Somebody near, somebody similar to them: outputs and their difference stay within, at every radius."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    judged = network(rng, m, kind)
    between, differences = sets_of(rng, similar, m)
    x = rng.normal(size=(1, m))
    radii = [0.3, 1.0, 2.0]
    balls = [ConvexSets.of_ball(torch.ones(m, dtype=torch.float64), 2.0, radius) for radius in radii]
    fars = [SumOfSets(between, ball, None) for ball in balls]
    interval = Interval(judged.margins)
    norms = {
        i: spectral_norm(node.op.weight) for i, node in enumerate(judged.margins.nodes) if hasattr(node.op, "weight")
    }
    covers = Cover.of(balls[-1]), Cover.of(between)
    assert covers[0] is not None
    if covers[1] is None:
        return
    crowd = Crowd(interval, norms, torch.from_numpy(x), (balls[-1], covers[0]), fars[-1], (between, covers[1]))
    gaps = crowd.gaps(list(zip(balls[:-1], fars[:-1], strict=True)))
    for radius, gap in zip([radii[-1], *radii[:-1]], gaps, strict=True):
        v = rng.normal(size=differences.shape)
        v *= radius * rng.uniform(0.9, 1, (len(v), 1)) / np.linalg.norm(v, axis=1, keepdims=True)
        at_z, at_y = (judged.margins.evaluate(torch.from_numpy(p)) for p in (x + v, x + v + differences))
        for seen, point in ((gap.near, at_z), (gap.far, at_y)):
            assert (seen.point + seen.low <= point + 1e-9).all() and (point <= seen.point + seen.high + 1e-9).all()
        assert (gap.low <= at_y - at_z + 1e-9).all() and (at_y - at_z <= gap.high + 1e-9).all()


@pytest.mark.parametrize("kind", ["relu", "clip"])
@pytest.mark.parametrize("scale", [1e-30, 1e25, 1e45])
def test_what_overflows_says_nothing(kind: str, scale: float) -> None:
    """Factors beyond float32: bounds may be infinite, but they are numbers, and they hold."""
    rng = np.random.default_rng(5)
    torch.manual_seed(5)
    middle = torch.nn.ReLU() if kind == "relu" else torch.nn.Hardtanh()
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 80), middle, torch.nn.Linear(80, 80), middle, torch.nn.Linear(80, 1)
    )
    module = module.double()
    with torch.no_grad():
        module[0].weight.mul_(scale)
        module[2].weight.mul_(scale)
    judged = Network.from_torch(module, head="regression")
    ball, between = (ConvexSets.of_ball(torch.ones(3, dtype=torch.float64), 2.0, radius) for radius in (1.0, 0.1))
    x = rng.normal(size=(4, 3))
    found = Relational(judged.margins).compare(torch.from_numpy(x), ball, SumOfSets(between, ball, None), between)
    v, d = (rng.normal(size=(500, 4, 3)) for _ in range(2))
    v, d = v / np.linalg.norm(v, axis=2, keepdims=True), 0.1 * d / np.linalg.norm(d, axis=2, keepdims=True)
    at_z, at_y = (judged.margins.evaluate(torch.from_numpy((x + move).reshape(-1, 3))) for move in (v, v + d))
    change = (at_y - at_z).reshape(500, 4, 1)
    size = 1e-9 * (at_y.abs().max() + at_z.abs().max())
    assert not (found.low.isnan() | found.high.isnan()).any()
    assert (found.low - size <= change).all() and (change <= found.high + size).all()


def test_a_slack_is_not_less_than_what_one_difference_can_do() -> None:
    """Σ |c_i| t_i |w_i·d| over the ball, by many directions; and less than the sum of maxima."""
    rng = np.random.default_rng(0)
    judged = network(rng, 4, "relu")
    graph = judged.margins
    first = next(i for i, node in enumerate(graph.nodes) if hasattr(node.op, "weight"))
    weight = graph.nodes[first].op.weight.numpy()  # type: ignore[union-attr]
    ball = ConvexSets.of_ball(torch.ones(4, dtype=torch.float64), 2.0, 0.7)
    cover = Cover.of(ball)
    assert cover is not None
    joint, none = Joint(graph, cover, 1), torch.zeros(1, dtype=torch.float64)
    joint.step(0, None, none)
    joint.step(first, spectral_norm(torch.from_numpy(weight)), none)
    zero, one = torch.zeros(1, len(weight), dtype=torch.float64), torch.ones(1, len(weight), dtype=torch.float64)
    joint.step(first + 1, None, none, (zero, one))
    c = rng.normal(size=(1, len(weight)))
    most = torch.from_numpy(np.linalg.norm(weight, axis=1)[None] * 0.7)
    found = float(joint.slack(first + 1, torch.from_numpy(c), slice(0, 1), most)[0])
    d = rng.normal(size=(20_000, 4))
    d *= 0.7 / np.linalg.norm(d, axis=1, keepdims=True)
    reached = (np.abs(c) * 0.5 * np.abs(d @ weight.T)).sum(1).max()
    assert reached <= found <= 0.8 * float((np.abs(c) * 0.5 * most.numpy()).sum())


@pytest.mark.parametrize(("radius", "many"), [(1e-6, False), (5.0, True)])
def test_whether_many_neurons_are_unstable(radius: float, many: bool) -> None:
    rng = np.random.default_rng(1)
    judged = network(rng, 4, "relu")
    ball = ConvexSets.of_ball(torch.ones(4, dtype=torch.float64), 2.0, radius)
    assert crowded(Interval(judged.margins), torch.from_numpy(rng.normal(size=(5, 4))), ball) == many
