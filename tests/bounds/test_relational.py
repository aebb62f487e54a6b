"""Differences of two runs: two people, one near the centre, the other similar to the first."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy.bounds.kernel import head_of
from isonomy.networks.network import Network
from isonomy_verify.sets import ConvexSets
from isonomy_verify.tiers import Enclosure

from .asked import compare
from .reference import BITS, KINDS, RATIONAL, corners, enclosed, exact_margins, exact_values, mpf, random_network

steady = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
EXACT = [kind for kind in KINDS if kind[0] in RATIONAL]


def box(low: np.ndarray, high: np.ndarray) -> ConvexSets:
    return ConvexSets.of_box(np.nextafter(low, -np.inf), np.nextafter(high, np.inf))


def check(network: Network, centre: np.ndarray, near: np.ndarray, far: np.ndarray, **options: bool) -> np.ndarray:
    """``near`` and ``far`` (n, k, m) are pairs; the boxes are the smallest that hold them and their differences."""
    moves, others, apart = near - centre[:, None], far - centre[:, None], far - near
    shapes = [box(part.min(axis=1), part.max(axis=1)) for part in (moves, others, apart)]
    (found,) = compare(network, centre, shapes[0], shapes[2], shapes[1], **options)
    gap = found.gap
    assert not np.isnan(gap).any()
    with mpmath.workprec(BITS):
        for row in range(len(centre)):
            for z, y in zip(near[row], far[row], strict=True):
                pairs = zip(exact_margins(network, z), exact_margins(network, y), strict=True)
                for i, (own, other) in enumerate(pairs):
                    assert enclosed(found.low[row, i], other - own, found.high[row, i]), (row, i)
                received = zip(exact_values(network, z), exact_values(network, y), strict=True)
                change = max(abs(a - b) for a, b in received)
                assert change <= mpf(float(gap[row])), (row, z, y)
    return gap


@steady
@given(seed=seeds, radius=st.sampled_from([0.0, 1e-6, 0.1, 2.0]), delta=st.sampled_from([1e-9, 1e-2, 0.5]))
def test_networks_of_every_operation(seed: int, radius: float, delta: float) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    network = random_network(rng, width)
    centre = rng.normal(size=(2, width))
    near = corners(centre, np.full((2, width), radius), rng, 5)
    far = near + delta * rng.choice([-1.0, 0.0, 1.0, 0.4], near.shape)
    check(network, centre, near, far)


@steady
@given(seed=seeds, offset=st.sampled_from([0.3, 1.0, -1.0]))
def test_differences_that_are_all_to_one_side(seed: int, offset: float) -> None:
    """A protected flip: nobody stands still, and the differences are not symmetric."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    network = random_network(rng, width)
    centre = rng.normal(size=(2, width))
    near = corners(centre, np.full((2, width), 0.2), rng, 4)
    far = near + 0.05 * rng.normal(size=near.shape)
    far[..., 0] = near[..., 0] + offset
    check(network, centre, near, far)


@steady
@given(
    seed=seeds,
    scales=st.sampled_from([(1e6,), (1e-12,), (1.0, 1e6, 1e-12)]),
    biases=st.sampled_from([(1.0,), (1e8,)]),
)
def test_extreme_weights_and_biases(seed: int, scales: tuple[float, ...], biases: tuple[float, ...]) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    network = random_network(rng, width, kinds=EXACT, scales=scales, biases=biases)
    centre = rng.normal(size=(2, width))
    near = corners(centre, np.full((2, width), 0.3), rng, 4)
    check(network, centre, near, near + 0.01 * rng.normal(size=near.shape))


@settings(steady, max_examples=6)
@given(seed=seeds, float32_run=st.booleans())
def test_wide_networks(seed: int, float32_run: bool) -> None:
    rng = np.random.default_rng(seed)
    sizes = [4, 66, 64, 3]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    network = Network.from_layers(weights, [rng.normal(size=b) for b in sizes[1:]], "relu")
    centre = rng.normal(size=(2, 4))
    near = corners(centre, np.full((2, 4), 0.1), rng, 3)
    check(network, centre, near, near + 0.01 * rng.normal(size=near.shape), float32_run=float32_run)


def test_the_gap_scales_with_the_similar_set_not_with_the_shift() -> None:
    """Where the whole neighbourhood is active the difference does not notice the shift at all."""
    rng = np.random.default_rng(1)
    weights = [np.abs(rng.normal(size=(6, 3))), rng.normal(size=(2, 6)) / 10]
    network = Network.from_layers(weights, [np.full(6, 50.0), np.zeros(2)])
    zero = np.zeros((1, 3))
    shapes = [box(zero - r, zero + r) for r in (1.0, 1.01, 0.01)]
    (found,) = compare(network, zero, shapes[0], shapes[2], shapes[1])
    row = (weights[1][1] - weights[1][0]) @ weights[0]
    assert found.high.item() == pytest.approx(0.01 * np.abs(row).sum(), rel=1e-9)
    assert found.gap[0] < 0.1 * found.apart[0]


@given(
    z=st.tuples(st.floats(-30, 30), st.floats(0, 5)),
    y=st.tuples(st.floats(-30, 30), st.floats(0, 5)),
    move=st.tuples(st.floats(-8, 8), st.floats(0, 5)),
    places=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=8, max_size=8),
)
@settings(max_examples=300, deadline=None)
def test_gap_of_probabilities(
    z: tuple[float, float], y: tuple[float, float], move: tuple[float, float], places: list[tuple[float, float]]
) -> None:
    network = Network.from_layers([[[0.0], [1.0]]], [[0.0, 0.0]])
    near, far, apart = (Enclosure(np.array([[a]]), np.array([[a + b]])) for a, b in (z, y, move))
    gap = head_of(network).gap(near, far, apart).item()
    for first, second in places:
        t, d = near[0].item() + first * z[1], apart[0].item() + second * move[1]
        if near[1].item() >= t and far[0].item() <= t + d <= far[1].item() and d <= apart[1].item():
            change = mpmath.mpf(1) / (1 + mpmath.exp(-mpmath.mpf(t + d))) - mpmath.mpf(1) / (
                1 + mpmath.exp(-mpmath.mpf(t))
            )
            assert abs(change) <= gap + 1e-15 * math.fabs(gap)
