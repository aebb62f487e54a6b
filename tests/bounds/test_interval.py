"""Outputs at similar points never leave the enclosures of the quicker tiers; the reference has 1,200 bits, so the last
unit counts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Node, Select
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity import Mahalanobis, WeightedLp
from isonomy.similarity.regions import Similarity
from isonomy_verify.sets import ConvexSets

from .asked import enclose
from .reference import (
    BITS,
    KINDS,
    RATIONAL,
    activation,
    affine,
    box_around,
    corners,
    enclosed,
    exact_margins,
    exact_outputs,
    random_network,
)

steady = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
products = st.booleans()
EXACT = [kind for kind in KINDS if kind[0] in RATIONAL]


def check(network: Network, centre: np.ndarray, others: np.ndarray, sets: ConvexSets, **options: Any) -> None:
    """Every other (n, k, m) stays within the enclosure of its row, and the centre within its own."""
    truth = [[exact_at(network, x) for x in [centre[row], *others[row]]] for row in range(len(centre))]
    for tier in ("interval", "quick"):
        found = enclose(network, centre, sets, tier, **options)
        (low, high), (at_low, at_high) = found.over, found.at
        assert not np.isnan(low).any() and not np.isnan(high).any()
        with mpmath.workprec(BITS):
            for row, (own, *rest) in enumerate(truth):
                for i, value in enumerate(own):
                    assert enclosed(at_low[row, i], value, at_high[row, i]), (tier, "centre", row, i)
                for other, values in zip(others[row], rest, strict=True):
                    for i, value in enumerate(values):
                        assert enclosed(low[row, i], value, high[row, i]), (tier, row, i, other)


def exact_at(network: Network, x: np.ndarray) -> list[Any]:
    with mpmath.workprec(BITS):
        return exact_margins(network, x)


@steady
@given(seed=seeds, float32_products=products, radius=st.sampled_from([0.0, 1e-9, 1e-3, 0.5, 10.0]))
def test_networks_of_every_operation(seed: int, float32_products: bool, radius: float) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    network = random_network(rng, width)
    centre = rng.normal(size=(2, width))
    others = corners(centre, np.full((2, width), radius) * rng.choice([0.0, 1.0, 1.0], (2, width)), rng, 5)
    check(network, centre, others, box_around(centre, others), float32_products=float32_products)


@steady
@given(
    seed=seeds,
    float32_products=st.sampled_from([None, False, True]),
    scales=st.sampled_from([(1e6,), (1e-12,), (1.0, 1e6, 1e-12), (1e30, 1.0), (1e-30, 1e30)]),
    biases=st.sampled_from([(1.0,), (1e8,), (0.0, 1e8), (1e-12,)]),
    size=st.sampled_from([1.0, 1e6, 1e-6]),
)
def test_extreme_weights_biases_and_inputs(
    seed: int, float32_products: bool | None, scales: tuple[float, ...], biases: tuple[float, ...], size: float
) -> None:
    """Piecewise linear networks, so that nothing saturates and every error shows."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 4))
    network = random_network(rng, width, kinds=EXACT, scales=scales, biases=biases)
    centre = rng.normal(size=(2, width)) * size
    others = corners(centre, np.full((2, width), 0.1 * size), rng, 4)
    check(network, centre, others, box_around(centre, others), float32_products=float32_products)


@steady
@given(seed=seeds, float32_products=products, size=st.sampled_from([1e3, 1e8, 1e12]))
def test_cancellation(seed: int, float32_products: bool, size: float) -> None:
    """A bias of ``size`` is added and taken away again; weights ``±size`` meet nearly equal coordinates."""
    rng = np.random.default_rng(seed)
    width = 3
    up, back = rng.normal(size=(4, width)), rng.normal(size=(2, 4))
    hidden = rng.normal(size=4) + size
    network = Network.from_layers([up, back], [hidden, -(back @ hidden)], rng.choice(["relu", "tanh", "gelu"]))
    centre = rng.normal(size=(2, width))
    others = corners(centre, np.full((2, width), 0.1), rng, 4)
    check(network, centre, others, box_around(centre, others), float32_products=float32_products)
    twin = Network.from_layers([[[size, -size, 1.0]], [[1.0], [-1.0]]], [[0.0], [0.0, 0.0]])
    centre[:, 1] = centre[:, 0] * (1 + 1e-15)
    sets = box_around(centre, np.concatenate([others, centre[:, None]], axis=1))
    check(twin, centre, others, sets, float32_products=float32_products)


@settings(steady, max_examples=8)
@given(seed=seeds, kind=st.sampled_from(["relu", "tanh", "leaky"]))
def test_wide_networks_carry_moves_in_float32(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    sizes = [5, 70, 66, 2]
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    biases = [rng.normal(size=b) for b in sizes[1:]]
    between = Activation("leaky_relu", (-0.2,)) if kind == "leaky" else kind
    network = Network.from_layers(weights, biases, between)
    centre = rng.normal(size=(2, 5))
    radius = float(rng.choice([1e-12, 1e-4, 0.1]))
    others = corners(centre, np.full((2, 5), radius), rng, 3)
    check(network, centre, others, box_around(centre, others))
    sets = box_around(centre, others)
    both = [enclose(network, centre, sets, "interval", float32_products=single) for single in (None, False)]
    assert both[0].rise == pytest.approx(both[1].rise, rel=1e-3, abs=1e-12)


@steady
@given(seed=seeds, delta=st.sampled_from([0.0, 1e-6, 0.1, 2.0]), kind=st.integers(0, 4))
def test_balls_of_metrics(seed: int, delta: float, kind: int) -> None:
    """The unbounded domain: one set shared by all rows (Mahalanobis) or not (weights); members at its very edge."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    network = random_network(rng, width, kinds=EXACT)
    root = rng.normal(size=(width + int(rng.integers(0, 2)), width))
    if kind == 1 and width > 1:
        root[-1] = root[0] + 1e-5 * root[-1]
    metric = (
        Mahalanobis.from_root(root) if kind <= 1 else WeightedLp(rng.uniform(0.1, 5, width), [1, 2, math.inf][kind - 2])
    )
    centre = rng.normal(size=(3, width))
    try:
        (piece,) = Similarity(metric, delta, Domain.unbounded(width)).regions(centre)
    except Exception as error:
        assert "singular" in str(error)
        return
    others = np.repeat(centre[:, None], 4, axis=1)
    for row in range(3):
        for k in range(4):
            step = rng.normal(size=width)
            if k % 2 and kind <= 1:
                step = np.linalg.pinv(root) @ rng.normal(size=len(root))
            with np.errstate(divide="ignore", invalid="ignore"):
                step = step * (delta / metric.distance(np.zeros(width), step))
            for share in (1.0, 1 - 1e-15, 1 - 1e-13, 1 - 1e-9):
                y = centre[row] + share * step
                if np.isfinite(y).all() and metric.distance_upper(centre[row], y) <= delta:
                    others[row, k] = y
                    break
    check(network, centre, others, piece.sets)


@steady
@given(seed=seeds, float32_products=products)
def test_slack_covers_the_exact_weights(seed: int, float32_products: bool) -> None:
    """Layers known up to their slack (a batch norm, say): the exact layer is anywhere within it."""
    rng = np.random.default_rng(seed)
    width, hidden = 3, 4
    size = float(rng.choice([1e-16, 1e-9, 1e-3]))

    def pair(width_in: int, width_out: int) -> tuple[Affine, Affine]:
        base = affine(rng, width_in, width_out)
        slack = rng.random(width_out) * size
        shares = rng.dirichlet(np.full(width_in, 0.3), size=width_out) * rng.choice([-1, 1], (width_out, width_in))
        true = Affine.of(base.weight + 0.999 * slack[:, None] * shares, base.bias - 0.999 * slack)
        off = [
            np.abs(true.weight - base.weight).sum(1),
            np.abs(true.bias - base.bias),
        ]  # rounded weights may be further off
        both = [np.maximum(slack, part * (1 + 1e-12)) for part in off]
        return Affine.of(base.weight, base.bias, weight_slack=both[0], bias_slack=both[1]), true

    first, second = pair(width, hidden), pair(hidden, 2)
    between = [activation(rng, hidden), activation(rng, 2)]

    def graph(which: int) -> Graph:
        nodes = [
            Node(Input(width)),
            Node(first[which], (0,)),
            Node(between[0], (1,)),
            Node(second[which], (2,)),
            Node(between[1], (3,)),
        ]
        return Graph(tuple(nodes))

    centre = rng.normal(size=(2, width)) * float(rng.choice([1.0, 1e3]))
    others = corners(centre, np.full((2, width), float(rng.choice([0.0, 0.2]))), rng, 3)
    known = Network(graph(0), "regression")
    found = enclose(known, centre, box_around(centre, others), "interval", float32_products=float32_products)
    (low, high), (at_low, at_high) = found.over, found.at
    with mpmath.workprec(BITS):
        for row in range(2):
            for i, value in enumerate(exact_outputs(graph(1), centre[row])):
                assert enclosed(at_low[row, i], value, at_high[row, i])
            for other in others[row]:
                for i, value in enumerate(exact_outputs(graph(1), other)):
                    assert enclosed(low[row, i], value, high[row, i])


@pytest.mark.some(10)
@pytest.mark.parametrize("float32_products", [False, True])
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_each_activation_at_the_input_and_the_output(kind: int, float32_products: bool) -> None:
    """Activation of the raw coordinates, then of a layer, as the very last node; intervals across every kink."""
    rng = np.random.default_rng(kind)
    for width in (1, 3):
        first, last = activation(rng, width, [KINDS[kind]]), activation(rng, width, [KINDS[kind]])
        layer = affine(rng, width, width)
        nodes = (Node(Input(width)), Node(first, (0,)), Node(layer, (1,)), Node(last, (2,)))
        network = Network(Graph(nodes), "regression")
        centre = rng.normal(size=(3, width)) * np.array([[0.3], [1.0], [5.0]])
        for radius in (0.0, 1e-8, 0.4, 8.0):
            others = corners(centre, np.full(centre.shape, radius), rng, 5)
            check(network, centre, others, box_around(centre, others), float32_products=float32_products)


@pytest.mark.parametrize("float32_products", [False, True])
def test_identity_and_pure_selections(float32_products: bool) -> None:
    centre = np.array([[1.0, -2.0, 1e6]])
    others = centre[:, None] + np.array([[[0.1, 0, 0], [0, 0.1, -0.1]]])
    sets = box_around(centre, others)
    for extra in ([], [Node(Select((2, 2, 0)), (0,))], [Node(Concat(), (0, 0))], [Node(Add(), (0, 0))]):
        network = Network(Graph((Node(Input(3)), *extra)), "regression")
        check(network, centre, others, sets, float32_products=float32_products)


@pytest.mark.parametrize("float32_products", [False, True])
def test_sums_that_cancel(float32_products: bool) -> None:
    """1e16 + 1 − 1e16 is computed as 0."""
    parts = [Node(Select((j,)), (0,)) for j in range(3)]
    graph = Graph((Node(Input(3)), *parts, Node(Add(), (1, 2, 3))))
    network, centre = Network(graph, "regression"), np.array([[1e16, 1.0, -1e16]])
    for sets in (None, ConvexSets.of_box(np.zeros((1, 3)), np.zeros((1, 3)))):
        found = enclose(network, centre, sets, "interval", float32_products=float32_products)
        for low, high in (found.over, found.at):
            assert low.item() <= 1.0 <= high.item()


def test_coordinates_that_the_network_does_not_read_may_be_unbounded() -> None:
    sets = ConvexSets.of_box(np.array([[-0.1, -math.inf]]), np.array([[0.1, math.inf]]))
    network = Network.from_layers([[[2.0, 0.0]]], [[1.0]], head="regression")
    found = enclose(network, np.array([[0.5, 7.0]]), sets, "interval")
    assert found.rise.item() == pytest.approx(0.2, rel=1e-6)
    reads = Network.from_layers([[[2.0, 1e-300]]], [[1.0]], head="regression")
    found = enclose(reads, np.array([[0.5, 7.0]]), sets, "interval")
    assert found.rise.item() > 1e300 and found.fall.item() < -1e300


def test_moves_that_overflow_are_infinite_not_nan() -> None:
    weights = [np.full((3, 2), 1e200), np.full((3, 3), 1e150), np.array([[1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]])]
    for kind in ("relu", "leaky", "tanh", "sigmoid", "gelu"):
        between = Activation("leaky_relu", (0.1,)) if kind == "leaky" else kind
        network = Network.from_layers(weights, [np.zeros(3), np.zeros(3), np.zeros(2)], between)
        sets = ConvexSets.of_box(-np.ones((1, 2)), np.ones((1, 2)))
        low, high = enclose(network, np.zeros((2, 2)), sets, "interval").over
        assert not np.isnan(low).any() and not np.isnan(high).any()
        if kind in ("relu", "leaky"):
            assert (high > 1e307).all()


def test_infinite_moves_stay_infinite() -> None:
    network = Network.from_layers(
        [[[1e200]], [[1e200]]], [[0.0], [0.0]], Activation("leaky_relu", (0.5,)), head="regression"
    )
    sets = ConvexSets.of_box(np.array([[-1.0]]), np.array([[1.0]]))
    assert math.isinf(enclose(network, np.zeros((1, 1)), sets, "interval").over[1].item())


@steady
@given(seed=seeds, plain=st.booleans(), float32_run=st.booleans())
def test_the_run_alone_is_that_of_the_enclosure(seed: int, plain: bool, float32_run: bool) -> None:
    """The run and its error are the same, bit for bit, whether or not anybody moves."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    network = random_network(rng, width)
    if plain:
        sizes = [width, *rng.integers(1, 6, rng.integers(1, 4)), 2]
        pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
        network = Network.from_layers([rng.normal(size=pair) for pair in pairs], [rng.normal(size=n) for n, _ in pairs])
    centre = rng.normal(size=(3, width)) * rng.choice([1e-3, 1.0, 1e5])
    alone = enclose(network, centre, None, float32_run=float32_run)
    whole = enclose(network, centre, box_around(centre, centre[:, None] + 0.1), "interval", float32_run=float32_run)
    assert np.array_equal(alone.at, whole.at)


def test_of_a_run_that_overflows_nothing_is_claimed() -> None:
    network = Network.from_layers([[[1e200]], [[1e200]]], [[0.0], [0.0]], head="regression")
    centre = np.array([[0.0], [1.0]])
    for sets in (None, box_around(centre, centre[:, None])):
        for low, high in enclose(network, centre, sets, "interval")[:2]:
            assert high[1].item() == math.inf and low[1].item() <= np.finfo(float).max
            assert low[0].item() <= 0.0 <= high[0].item()


@steady
@given(seed=seeds)
def test_one_neuron_is_met_exactly(seed: int) -> None:
    """One activation of one affine function of a box: the enclosure is tight to rounding."""
    rng = np.random.default_rng(seed)
    kind = activation(rng, 1, [k for k in KINDS if k[0] != "prelu"])
    layer = affine(rng, 3, 1)
    network = Network(Graph((Node(Input(3)), Node(layer, (0,)), Node(kind, (1,)))), "regression")
    centre = rng.normal(size=(1, 3))
    radius = rng.random(3)
    sets = ConvexSets.of_box(-radius[None], radius[None])
    low, high = enclose(network, centre, sets, "interval").over
    w, b = layer.weight[0], float(layer.bias[0])
    middle, reach = float(w @ centre[0] + b), float(np.abs(w) @ radius)
    line = np.linspace(middle - reach, middle + reach, 20001)
    values = kind(line)
    assert (
        low.item() == pytest.approx(values.min().item(), abs=reach / 3000 + 1e-9)
        and low.item() <= values.min().item() + 1e-12
    )
    assert high.item() == pytest.approx(values.max().item(), abs=1e-9) and high.item() >= values.max().item() - 1e-12


def test_short_moves_beyond_a_distant_hinge() -> None:
    """Regions that do not hold their centre, and a ReLU that they barely reach: 0 must not come out positive."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        point = -(10.0 ** rng.uniform(-3, 60))
        high = -point * (1 + 2.0**-40 * rng.random())
        low = high * rng.uniform(0.1, 1)
        weight = np.ones((1, 1))
        network = Network.from_layers([weight, weight], [np.zeros(1)] * 2, head="regression")
        sets = ConvexSets.of_box(np.array([[low]]), np.array([[high]]))
        bottom, top = enclose(network, np.array([[point]]), sets, "interval").over
        assert bottom.item() <= 0.0 <= top.item()
