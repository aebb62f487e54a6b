"""What the first review of local bounds on the kernel broke, kept as it was found."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from isonomy import Counterparts, Explore, Network, WeightedLp, certify_local
from isonomy.errors import MetricError
from isonomy.networks.graph import Activation, Graph, Node, affine
from isonomy_verify.regions import BallBox

TIERS = pytest.mark.parametrize("tier", ["interval", "quick", "tight", "exact"])
ONE = WeightedLp(np.ones(1))


def asked(network: Network, x: list[float], delta: float, tier: str, **options: object) -> object:
    return certify_local(network, np.array([x]), ONE, delta, tier=tier, progress=None, **options)  # type: ignore[arg-type]


@TIERS
def test_what_underflows_in_float32_counts(tier: str) -> None:
    """Numbers of float32 all the way, but their product is not: 1.25 becomes 1, 1.5 becomes 2."""
    weights = [np.array([[2.0**power]]) for power in (-75, -74, 75, 74)]
    network = Network.from_layers(weights, [np.zeros(1)] * 4, head="regression")

    def run(value: float) -> float:
        return float(network.graph.evaluate(np.array([[value]]), np.float32)[0, 0])

    found = asked(network, [1.25], 0.3, tier, arithmetic="float32", attack=False, threshold=1.6)
    assert run(1.5) - run(1.25) == 1.0 <= found.upper[0] and found.decision[0] == "undecided"  # type: ignore[attr-defined]
    assert asked(network, [1.25], 0.3, tier, attack=False).upper[0] < 0.31  # type: ignore[attr-defined]


@TIERS
def test_what_overflows_in_float32_has_no_bound(tier: str) -> None:
    """2^53 times 2^89 is no number of float32, whatever makes it small again."""
    weights = [np.array([[2.0**power]]) for power in (53, 89, -71, -71)]
    network = Network.from_layers(weights, [np.zeros(1)] * 4, head="regression")
    assert asked(network, [1.0], 0.3, tier, arithmetic="float32", attack=False).upper[0] == np.inf  # type: ignore[attr-defined]
    assert asked(network, [1.0], 0.3, tier, attack=False).upper[0] < 0.31  # type: ignore[attr-defined]


@TIERS
def test_what_overflows_in_float32_has_no_bound_as_a_probability_either(tier: str) -> None:
    weights = [np.array([[2.0**power]]) for power in (53, 89, -71, -71)]
    network = Network.from_layers(weights, [np.zeros(1)] * 4, head="sigmoid")
    found = asked(network, [0.01], 0.3, tier, arithmetic="float32", attack=False)
    assert found.upper[0] > 0.49 and found.decision[0] == "undecided"  # type: ignore[attr-defined]
    assert asked(network, [0.01], 0.3, tier, attack=False).upper[0] < 0.08  # type: ignore[attr-defined]


@TIERS
def test_weights_that_float32_rounds_count_in_every_layer(tier: str) -> None:
    """A chain of affine operations whose weights and products all round upward."""
    rng, single = np.random.default_rng(0), np.float32
    value = single(1 + 2**-12)
    start, weights, bias = float(value), [], -0.499 * 2.0**-23
    for _ in range(200):
        tried = [1 + int(j) * 2.0**-23 - 0.499 * 2.0**-23 for j in rng.integers(2, 6000, 200)]
        gains = [float(value * single(w)) - float(value) * float(single(w)) for w in tried]
        weights.append(tried[int(np.argmax(gains))])
        value = value * single(weights[-1])
    network = Network(Graph.chain([affine([[weight]], [bias]) for weight in weights]), "regression")

    def run(value: float) -> Fraction:
        now = single(value)
        for weight in weights:
            now = single(single(now * single(weight)) + single(bias))
        return Fraction(float(now))

    found = asked(network, [0.0], start, tier, arithmetic="float32", attack=False)
    assert run(start) - run(0.0) <= Fraction(found.upper[0])  # type: ignore[attr-defined]


@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
@TIERS
def test_sigmoids_that_saturate_leave_a_decision_open(tier: str, arithmetic: str) -> None:
    """Two outputs that both become 1: whichever is first wins."""
    top = 18.0 if arithmetic == "float32" else 38.0
    weight, bias = np.array([[1.0], [0.0]]), np.array([0.0, top])
    network = Network(Graph.chain([affine(weight, bias)]), "sigmoid")
    found = asked(network, [top - 8.0], 7.5, tier, arithmetic=arithmetic, attack=False)
    assert found.decision[0] == "undecided"  # type: ignore[attr-defined]


def test_a_coordinate_without_bounds_meets_a_subnormal_weight() -> None:
    region = BallBox(np.array([[-np.inf, -1.0]]), np.array([[np.inf, 1.0]]))
    low, high = region._ranges(np.array([[1e-320, 1.0]]))
    assert low[0, 0] == -np.inf and high[0, 0] == np.inf


def test_metrics_that_are_all_but_singular_are_answered_or_refused_in_a_sentence() -> None:
    answered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        left, right = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
        root = left @ np.diag([1.0, 1.0, 10.0 ** rng.uniform(-16, -10)]) @ right
        network = Network.from_layers([rng.normal(size=(4, 3)), rng.normal(size=(1, 4))], [np.zeros(4), np.zeros(1)],
                                      head="sigmoid")  # fmt: skip
        try:
            found = certify_local(
                network, rng.normal(size=(2, 3)), Explore.from_root(root), 0.1, attack=False, progress=None
            )
        except MetricError:
            continue
        answered += 1
        assert (found.upper <= 1).all()
    assert answered


def test_a_network_that_is_its_input_and_a_free_coordinate() -> None:
    network = Network(Graph((Node("input", width=2),)), "regression")
    with pytest.raises(MetricError, match="leaves 'x1' free, which the network reads"):
        certify_local(network, np.zeros((1, 2)), WeightedLp(np.array([1.0, 0.0])), 0.1, tier="tight", progress=None)


def test_the_tight_tier_of_other_activations_is_no_looser_than_the_quick_one() -> None:
    rng = np.random.default_rng(0)
    for kind in ("tanh", "sigmoid", "elu", "gelu", "silu", "softplus"):
        activation = Activation(kind, {"elu": (1.0,), "softplus": (1.0,)}.get(kind, ()))
        network = Network.from_layers(
            [rng.normal(size=(6, 3)), rng.normal(size=(6, 6)), rng.normal(size=(1, 6))],
            [rng.normal(size=6), rng.normal(size=6), np.zeros(1)], activation, head="regression",
        )  # fmt: skip
        x = rng.normal(size=(10, 3))
        quick, tight = (
            certify_local(network, x, WeightedLp(np.ones(3), 2), 0.5, tier=tier, attack=False, progress=None).upper
            for tier in ("quick", "tight")
        )
        assert (tight <= quick * (1 + 1e-9)).all()


UNBOUNDED = {
    "an infinite tolerance": (WeightedLp(np.array([1.0, 1e-320]), np.inf), 0.01),
    "tolerance times delta": (Counterparts(np.array([1e-12, 1e300]), [False, False], [0, 0], [0, 0], [1, 1]), 1e9),
    "a ratio to a large power": (Counterparts([1e-6, 0.0], [False, False], [0.0, 0.5], [0.0, 100.0], [1, 1]), 1e4),
}


@TIERS
@pytest.mark.parametrize("case", UNBOUNDED)
def test_paths_that_cancel_are_read(case: str, tier: str) -> None:
    """1e16 + 1 − 1e16 is 0 in floats and 1 in truth, and nothing bounds the coordinate that it multiplies."""
    first = np.array([[1.0, 1e16], [0.0, 1.0], [0.0, -1e16]])
    graph = Graph.chain([affine(first, np.zeros(3)), affine(np.ones((1, 3)), np.zeros(1))])
    network = Network(graph, "sigmoid")
    metric, delta = UNBOUNDED[case]
    x, y = np.array([[1.0, 0.0]]), np.array([[1.0, -50.0]])
    assert metric.distance_upper(x, y)[0] <= delta
    found = certify_local(network, x, metric, delta, tier=tier, attack=False, progress=None, max_nodes=8)  # type: ignore[arg-type]
    assert found.upper[0] >= 1 / (1 + np.exp(-1.0)) - 1e-9 and found.decision[0] == "undecided"


@TIERS
@pytest.mark.parametrize("order", [1, 2, np.inf])
def test_inputs_that_overflow_in_float32_have_no_bound(order: float, tier: str) -> None:
    """A ball that everybody shares reaches 1e39, which float32 has no number for."""
    network = Network.from_layers(
        [np.array([[1e-30]]), np.array([[-1e-10]])], [np.zeros(1), np.array([0.5])], head="sigmoid"
    )
    found = certify_local(
        network, np.ones((1, 1)), WeightedLp(np.ones(1), order), 1e39, tier=tier, arithmetic="float32", attack=False,
        progress=None, max_nodes=8,
    )  # type: ignore[arg-type]  # fmt: skip
    assert found.upper[0] > 0.622 and found.decision[0] == "undecided"
