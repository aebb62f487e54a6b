"""The tight tier: outputs at similar points never leave the enclosure, and it is never worse."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity import Mahalanobis
from isonomy.similarity.regions import Similarity
from isonomy_verify import tiers
from isonomy_verify.activations import Activation as Judged
from isonomy_verify.activations import slope_range
from isonomy_verify.sets import ConvexSets
from isonomy_verify.sweep import Sweep

from .asked import enclose
from .reference import (
    BITS,
    KINDS,
    RATIONAL,
    activation,
    box_around,
    corners,
    enclosed,
    exact_activation,
    exact_margins,
    mpf,
    random_network,
)

steady = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
EXACT = [kind for kind in KINDS if kind[0] in RATIONAL]


def check(
    network: Network, centre: np.ndarray, others: np.ndarray, sets: ConvexSets, largest: float = 0.0, **options: bool
) -> None:
    """``largest``: the size of numbers inside the network, which moves in float32 hold to about eight digits."""
    found, plain = (enclose(network, centre, sets, tier, **options) for tier in ("tight", "interval"))
    (low, high), (at_low, at_high) = found.over, found.at
    assert not np.isnan(low).any() and not np.isnan(high).any()
    wide = np.nan_to_num(plain.over[1] - plain.over[0], nan=0.0, posinf=0.0, neginf=0.0)
    slack = 1e-4 * wide + 1e-12 * (1 + np.abs(at_low)) + 1e-8 * largest
    assert (high <= plain.over[1] + slack).all() and (low >= plain.over[0] - slack).all()
    with mpmath.workprec(BITS):
        for row in range(len(centre)):
            for i, value in enumerate(exact_margins(network, centre[row])):
                assert enclosed(at_low[row, i], value, at_high[row, i]), ("centre", row, i)
            for other in others[row]:
                for i, value in enumerate(exact_margins(network, other)):
                    assert enclosed(low[row, i], value, high[row, i]), (row, i, other)


@steady
@given(seed=seeds, size=st.sampled_from([0.0, 1e-9, 1e-2, 1.0, 30.0]))
def test_slopes_hold_for_every_chord(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    op = activation(rng, 3)
    low = rng.normal(size=(1, 3)) * rng.choice([0.1, 2.0])
    high = low + size * rng.random(size=(1, 3))
    least, most = slope_range(Judged(op.kind, op.parameters), low, high)
    with mpmath.workprec(300):
        for i in range(3):
            parameters = op.parameters[i : i + 1] if op.kind == "prelu" else op.parameters
            for _ in range(6):
                first, last = np.sort(rng.random(2))
                a, b = (mpf(float(low[0, i])) + mpf(s) * mpf(float(high[0, i] - low[0, i])) for s in (first, last))
                if a < b and b <= mpf(float(high[0, i])):
                    rise = exact_activation(op.kind, b, parameters) - exact_activation(op.kind, a, parameters)
                    assert mpf(float(least[0, i])) * (b - a) <= rise <= mpf(float(most[0, i])) * (b - a), (op, a, b)


@steady
@given(seed=seeds, radius=st.sampled_from([0.0, 1e-9, 1e-3, 0.5, 10.0]))
def test_networks_of_every_operation(seed: int, radius: float) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    network = random_network(rng, width)
    centre = rng.normal(size=(2, width))
    others = corners(centre, np.full((2, width), radius) * rng.choice([0.0, 1.0, 1.0], (2, width)), rng, 5)
    check(network, centre, others, box_around(centre, others))


@steady
@given(
    seed=seeds,
    scales=st.sampled_from([(1e6,), (1e-12,), (1.0, 1e6, 1e-12), (1e30, 1.0)]),
    biases=st.sampled_from([(1.0,), (1e8,), (0.0, 1e8)]),
    size=st.sampled_from([1.0, 1e6, 1e-6]),
)
def test_extreme_weights_biases_and_inputs(
    seed: int, scales: tuple[float, ...], biases: tuple[float, ...], size: float
) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    network = random_network(rng, width, kinds=EXACT, scales=scales, biases=biases)
    centre = rng.normal(size=(2, width)) * size
    others = corners(centre, np.full((2, width), 0.1 * size), rng, 4)
    check(network, centre, others, box_around(centre, others), largest=max(scales) * size)


@steady
@given(seed=seeds, delta=st.sampled_from([0.0, 1e-6, 0.1, 2.0]))
def test_shared_balls(seed: int, delta: float) -> None:
    """One Mahalanobis ball for everybody; members at the very edge."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    network = random_network(rng, width, kinds=EXACT)
    root = rng.normal(size=(width, width)) + 2 * np.eye(width)
    metric = Mahalanobis.from_root(root)
    centre = rng.normal(size=(2, width))
    (piece,) = Similarity(metric, delta, Domain.unbounded(width)).regions(centre)
    steps = np.linalg.solve(root, rng.normal(size=(width, 8))).T.reshape(2, 4, width)
    lengths = np.linalg.norm(steps @ root.T, axis=2, keepdims=True)
    others = centre[:, None] + steps * (delta * (1 - 1e-13) / lengths)
    check(network, centre, others, piece.sets)


@settings(steady, max_examples=8)
@given(seed=seeds)
def test_wide_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [5, 70, 66, 3]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    network = Network.from_layers(weights, [rng.normal(size=b) for b in sizes[1:]], "relu")
    centre = rng.normal(size=(2, 5))
    others = corners(centre, np.full((2, 5), float(rng.choice([1e-9, 1e-3, 0.2]))), rng, 3)
    check(network, centre, others, box_around(centre, others))
    check(network, centre, others, box_around(centre, others), float32_run=True)


def test_a_straight_network_is_met_exactly() -> None:
    """All neurons active: the network is affine, and only rounding separates bound and truth."""
    rng = np.random.default_rng(0)
    weights = [np.abs(rng.normal(size=(6, 3))), rng.normal(size=(2, 6))]
    network = Network.from_layers(weights, [np.full(6, 50.0), np.zeros(2)])
    centre, delta = rng.normal(size=(4, 3)), 0.3
    (piece,) = Similarity(Mahalanobis(np.eye(3)), delta, Domain.unbounded(3)).regions(centre)
    found = enclose(network, centre, piece.sets)
    row = (weights[1][1] - weights[1][0]) @ weights[0]
    assert found.rise == pytest.approx(delta * np.linalg.norm(row), rel=1e-9)


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("radius", [0.2, 1e38])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_batch_is_gone_with_its_bounds(
    no_collector: None, monkeypatch: pytest.MonkeyPatch, activation: str, radius: float
) -> None:
    """No cycle that would keep a batch in memory."""
    made: list[weakref.ref[Sweep]] = []

    class Seen(Sweep):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(weakref.ref(self))

    monkeypatch.setattr(tiers, "Sweep", Seen)
    rng, sizes = np.random.default_rng(0), [6, 70, 70, 3]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    network = Network.from_layers(weights, [rng.normal(size=b) * 0.1 for b in sizes[1:]], activation=activation)
    wide = np.full((3, 6), radius)
    enclose(network, np.zeros((3, 6)), ConvexSets.of_box(-wide, wide))
    assert made and all(each() is None for each in made)
