"""All neurons together: ellipsoids, eigenvalues and slacks against plain numpy and brute force."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.bounds.kernel import nodes_of
from isonomy.networks.network import Network
from isonomy_verify import differences
from isonomy_verify.arithmetic import spectral_up
from isonomy_verify.differences import Differences, Pairs
from isonomy_verify.joint import SQUARES, Joint, Weights, largest_up
from isonomy_verify.network import normal_form
from isonomy_verify.regions import Ball
from isonomy_verify.sets import ConvexSets, region_of
from isonomy_verify.sweep import Sweep

from .asked import compare
from .reference import margins

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=30, deadline=None)


@few
@given(seed=seeds, size=st.integers(1, 24), scale=st.sampled_from([1e-17, 1e-12, 1.0, 1e9]), single=st.booleans())
def test_the_largest_eigenvalue_is_not_underestimated(seed: int, size: int, scale: float, single: bool) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(5, rng.integers(1, 30), size)) * scale
    gram = (factor.transpose(0, 2, 1) @ factor).astype(np.float32 if single else np.float64)
    truth = np.linalg.eigvalsh(gram.astype(np.float64))[:, -1]
    found = largest_up(gram)
    assert (found >= truth).all()
    assert (found <= truth * size ** (0.5**SQUARES) * (1.001 if single else 1 + 1e-9)).all()


def test_what_is_no_number_has_no_largest_eigenvalue() -> None:
    gram = np.zeros((3, 2, 2))
    gram[1, 0, 0], gram[2, 0, 1] = np.nan, np.inf
    with np.errstate(all="ignore"):
        found = largest_up(gram)
    assert found[0] == 0 and not np.isfinite(found[1:]).any()


@few
@given(seed=seeds)
def test_the_norm_of_a_matrix_is_not_underestimated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=rng.integers(1, 20, 2)) * 10.0 ** rng.integers(-9, 9)
    truth, found = np.linalg.norm(weight, 2), spectral_up(weight)
    assert truth <= found * (1 + 1e-14) and found <= truth * 20 ** (1 / 16) + 1e-300


def sets_of(rng: np.random.Generator, kind: str, m: int) -> tuple[ConvexSets, np.ndarray]:
    """A set of moves, and members of it."""
    if kind == "flip":  # a change of category: the first coordinate has one value, not 0, and costs nothing
        ball, v = sets_of(rng, "l2", m)
        root, low, high = ball.root.copy(), ball.low.copy(), ball.high.copy()
        root[:, 0] = 0.0
        low[:, 0] = high[:, 0] = v[:, 0] = float(rng.normal())
        return replace(ball, root=root, low=low, high=high, clipped=True), v
    scale, radius, order = rng.uniform(0.3, 3, m), rng.uniform(0.01, 2), {"l1": 1.0, "l2": 2.0, "linf": math.inf}[kind]
    u = rng.normal(size=(200, m))
    u *= radius / np.linalg.norm(u, order, axis=1, keepdims=True)
    return ConvexSets.of_ball(scale, order, radius), u / scale * (1 - 1e-12)


@few
@given(seed=seeds, kind=st.sampled_from(["flip", "l1", "l2", "linf"]))
def test_ellipsoids_hold_every_member(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    sets, members = sets_of(rng, kind, int(rng.integers(1, 6)))
    weight = rng.normal(size=(7, members.shape[1]))
    cover = region_of(sets).ellipsoid(weight, np.abs(weight))
    if cover is None:
        assert kind == "flip" and members.shape[1] == 1
        return
    factor, seen = cover.matrix * cover.radius[0], (members @ weight.T - cover.middle[0]).T
    u = np.linalg.pinv(factor) @ seen
    assert (np.linalg.norm(u, axis=0) <= 1 + 1e-9).all()
    assert (np.abs(seen - factor @ u) <= cover.loss[0][:, None] + 1e-12).all()
    if kind != "flip":
        scale = np.diag(sets.root)
        shared = Ball(np.diag(scale), sets.order, float(sets.radius[0])).ellipsoid(weight, np.abs(weight))
        assert shared is not None and shared.radius[0] == pytest.approx(cover.radius[0])
        assert shared.matrix == pytest.approx(cover.matrix) and not shared.middle.any()


def test_nothing_is_said_of_boxes() -> None:
    wide = np.array([[1.0, 2.0]])
    assert region_of(ConvexSets.of_box(-wide, wide)).ellipsoid(np.eye(2), np.eye(2)) is None


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
    between, differences_ = sets_of(rng, similar, m)
    x = rng.normal(size=(1, m))
    radii = [0.3, 1.0, 2.0]
    balls = [ConvexSets.of_ball(np.ones(m), 2.0, radius) for radius in radii]
    with mock.patch.object(differences, "CROWDED", -1.0):  # all together, and where that is not possible one by one
        gaps = compare(judged, x, balls[-1], between, within=balls[:-1])
        gaps += [compare(judged, x, ball, between)[0] for ball in balls]
    for radius, gap in zip([radii[-1], *radii[:-1], *radii], gaps, strict=True):
        v = rng.normal(size=differences_.shape)
        v *= radius * rng.uniform(0.9, 1, (len(v), 1)) / np.linalg.norm(v, axis=1, keepdims=True)
        at_z, at_y = (margins(judged).evaluate(p) for p in (x + v, x + v + differences_))
        for (low, high), point in ((gap.near, at_z), (gap.far, at_y), (gap.move, at_y - at_z)):
            assert (low <= point + 1e-9).all() and (point <= high + 1e-9).all()


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
    ball, between = (ConvexSets.of_ball(np.ones(3), 2.0, radius) for radius in (1.0, 0.1))
    x = rng.normal(size=(4, 3))
    (found,) = compare(judged, x, ball, between)
    v, d = (rng.normal(size=(500, 4, 3)) for _ in range(2))
    v, d = v / np.linalg.norm(v, axis=2, keepdims=True), 0.1 * d / np.linalg.norm(d, axis=2, keepdims=True)
    at_z, at_y = (margins(judged).evaluate((x + move).reshape(-1, 3)) for move in (v, v + d))
    change = (at_y - at_z).reshape(500, 4, 1)
    size = 1e-9 * (np.abs(at_y).max() + np.abs(at_z).max())
    assert not (np.isnan(found.low) | np.isnan(found.high)).any()
    assert (found.low - size <= change).all() and (change <= found.high + size).all()


def test_a_slack_is_not_less_than_what_one_difference_can_do() -> None:
    """Σ |c_i| t_i |w_i·d| over the ball, by many directions; and less than the sum of maxima."""
    rng = np.random.default_rng(0)
    layers = normal_form(nodes_of(network(rng, 4, "relu").graph))
    weight, ball = layers.layers[0].blocks[0].weight, Ball(np.eye(4), 2.0, 0.7)
    pairs, joint = Pairs(layers, False, ball, ball), Joint.of(Weights(layers), ball)
    near, far = (Sweep(each, np.zeros((1, 4))) for each in (pairs.near, pairs.far))
    near.enclose(0)
    far.enclose(0)
    sweep = Differences(pairs.between, near, far, None, joint)
    sweep.enclose(0)
    c = rng.normal(size=(1, len(weight)))
    most = np.linalg.norm(weight, axis=1)[None] * 0.7
    found = float(joint.slack(sweep, 0, np.abs(c) * 0.5)[0])
    d = rng.normal(size=(20_000, 4))
    d *= 0.7 / np.linalg.norm(d, axis=1, keepdims=True)
    reached = (np.abs(c) * 0.5 * np.abs(d @ weight.T)).sum(1).max()
    assert reached <= found <= 0.8 * float((np.abs(c) * 0.5 * most).sum())
