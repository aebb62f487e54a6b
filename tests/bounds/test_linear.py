"""The linear tier: lines hold, outputs at similar points never leave the enclosure, and it is never worse."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy.bounds.activations import CURVATURE, curvature
from isonomy.bounds.ends import margins, margins_at
from isonomy.bounds.interval import Interval
from isonomy.bounds.linear import Linear
from isonomy.bounds.relaxations import lean, lines
from isonomy.errors import NotANumberError
from isonomy.networks.graph import Activation
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.sets import Shape
from isonomy.similarity import Mahalanobis
from isonomy.similarity.regions import Similarity
from isonomy_verify.activations import Activation as Judged
from isonomy_verify.activations import slope_range

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
MODES = ("chord", "adaptive", "flat", "steep")


def check(
    network: Network, centre: np.ndarray, others: np.ndarray, sets: Shape, largest: float = 0.0, **options: bool
) -> None:
    """``largest``: the size of numbers inside the network, which moves in float32 hold to about eight digits."""
    found = Linear(network.margins, **options).enclose(torch.from_numpy(centre), sets, MODES)
    low, high = margins(found)
    assert not torch.isnan(low).any() and not torch.isnan(high).any()
    plain = Interval(network.margins, **options).enclose(torch.from_numpy(centre), sets)
    # Moves in float32 are widened by a few parts in 10⁵ whenever they are written down again.
    slack = 1e-4 * (plain.high - plain.low).nan_to_num(0.0, 0.0, 0.0) + 1e-12 * (1 + plain.point.abs())
    slack = slack + 1e-8 * largest
    assert (found.high <= plain.high + slack).all() and (found.low >= plain.low - slack).all()
    at_low, at_high = margins_at(found)
    with mpmath.workprec(BITS):
        for row in range(len(centre)):
            for i, value in enumerate(exact_margins(network, centre[row])):
                assert enclosed(at_low[row, i], value, at_high[row, i]), ("centre", row, i)
            for other in others[row]:
                for i, value in enumerate(exact_margins(network, other)):
                    assert enclosed(low[row, i], value, high[row, i]), (row, i, other)


@steady
@given(seed=seeds, mode=st.sampled_from(MODES), size=st.sampled_from([0.0, 1e-12, 1e-3, 1.0, 30.0]))
def test_lines_lie_above_and_below(seed: int, mode: str, size: float) -> None:
    rng = np.random.default_rng(seed)
    width = 4
    op = activation(rng, width)
    z = torch.from_numpy(rng.normal(size=(1, width)) * rng.choice([0.01, 1.0, 20.0]))
    low, high = (torch.from_numpy(size * rng.normal(size=(1, width))) for _ in range(2))
    low, high = torch.minimum(low, high), torch.maximum(low, high)
    value = op(z)
    known = lean(lines(op, z, value, low, high, 2.0**-53), op, z, value, mode)
    with mpmath.workprec(300):
        for i in range(width):
            parameters = op.parameters[i : i + 1] if op.kind == "prelu" else op.parameters
            ends = mpf(float(low[0, i])), mpf(float(high[0, i]))
            for share in (0.0, 1.0, *rng.random(6)):
                move = ends[0] + mpf(float(share)) * (ends[1] - ends[0])
                truth = exact_activation(op.kind, mpf(float(z[0, i])) + move, parameters) - mpf(float(value[0, i]))
                above = mpf(float(known.slope_above[0, i])) * move + mpf(float(known.above[0, i]))
                below = mpf(float(known.slope_below[0, i])) * move + mpf(float(known.below[0, i]))
                assert below <= truth <= above, (op, float(z[0, i]), float(move))


@steady
@given(seed=seeds, size=st.sampled_from([0.0, 1e-9, 1e-2, 1.0, 30.0]))
def test_slopes_hold_for_every_chord(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    op = activation(rng, 3)
    low = torch.from_numpy(rng.normal(size=(1, 3)) * rng.choice([0.1, 2.0]))
    high = low + size * torch.from_numpy(rng.random(size=(1, 3)))
    least, most = slope_range(Judged(op.kind, op.parameters), low.numpy(), high.numpy())
    with mpmath.workprec(300):
        for i in range(3):
            parameters = op.parameters[i : i + 1] if op.kind == "prelu" else op.parameters
            for _ in range(6):
                first, last = np.sort(rng.random(2))
                a, b = (mpf(float(low[0, i])) + mpf(s) * mpf(float(high[0, i] - low[0, i])) for s in (first, last))
                if a < b and b <= mpf(float(high[0, i])):
                    rise = exact_activation(op.kind, b, parameters) - exact_activation(op.kind, a, parameters)
                    assert mpf(float(least[0, i])) * (b - a) <= rise <= mpf(float(most[0, i])) * (b - a), (op, a, b)


@pytest.mark.parametrize("kind", [*CURVATURE, "softplus", "elu"])
def test_curvature_is_nowhere_exceeded(kind: str) -> None:
    parameters = {"softplus": (1.7,), "elu": (1.3,)}.get(kind, ())
    limit = curvature(Activation(kind, parameters))
    with mpmath.workprec(200):
        for t in np.concatenate([np.linspace(-12, 12, 481), np.linspace(-2, 2, 401)]):
            if kind == "elu" and t >= -1e-3:
                continue
            second = mpmath.diff(lambda x: exact_activation(kind, x, parameters), mpf(float(t)), 2, h=mpf("1e-12"))
            assert abs(second) <= limit, t


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
    try:
        check(network, centre, others, box_around(centre, others), largest=max(scales) * size)
    except NotANumberError:
        assert max(scales) > 1e20


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
    found = Linear(network.margins).enclose(torch.from_numpy(centre), piece.sets)
    row = (weights[1][1] - weights[1][0]) @ weights[0]
    assert found.high.numpy() == pytest.approx(delta * np.linalg.norm(row), rel=1e-9)
