"""Degenerate questions: nobody moves, nothing changes, everything is far too large or far too small.

Truth comes from ball arithmetic (300 bits) at the counterparts that the attack found and at drawn ones, each of which
must be similar by an independent judge.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy import AttackBudget, LocalCertificate, Mahalanobis, Metric, SoundnessError, WeightedLp, certify_local
from isonomy.certificates.consistency import Counterexamples
from isonomy.networks.graph import Activation, Head
from isonomy.networks.network import Network
from isonomy.population import Domain, Population

from .judge import SCHEMA, WIDTH, is_similar, metrics, people, perceptron
from .neighbours import possible

ROUNDING = 1e-11
"""What is left of a bound where nothing can change."""

TIERS = ["interval", "quick", "tight"]
DOMAINS = ["unbounded", "relaxed", "realizable"]
KINDS: list[tuple[str, tuple[float, ...]]] = [
    ("relu", ()),
    ("leaky_relu", (0.1,)),
    ("leaky_relu", (-0.5,)),
    ("prelu", (0.2, -0.1, 1.5, 0.0, 0.3)),
    ("clip", (-0.3, 0.7)),
    ("sigmoid", ()),
    ("tanh", ()),
    ("erf", ()),
    ("softplus", (1.0,)),
    ("elu", (1.5,)),
    ("gelu", ()),
    ("gelu_tanh", ()),
    ("silu", ()),
]
FIRST = ("relu", "prelu", "clip", "tanh", "gelu")
EACH_KIND = [kind if kind[0] in FIRST else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
CASES: list[tuple[Head, int]] = [("softmax", 2), ("softmax", 3), ("sigmoid", 1), ("regression", 1)]
LARGE = [1e6, 1e12, 1e300]
QUICK = AttackBudget(steps=4, restarts=0, branches=4)
steady = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
tiers = st.sampled_from(["interval", "tight"])


def certified(network: Network, x: Any, metric: Metric, delta: float, tier: Any, **options: Any) -> LocalCertificate:
    """A certificate that is at least a sensible number for everybody."""
    found = certify_local(network, x, metric, delta, tier=tier, **({"attack": QUICK, "progress": None} | options))
    assert not np.isnan(found.upper).any() and not np.isnan(found.lower).any()
    assert (found.lower >= 0).all() and (found.lower <= found.upper).all()
    if network.head != "regression":
        assert (found.upper <= 1).all()
    return found


def true_metrics(rng: np.random.Generator, width: int) -> list[Metric]:
    weights = rng.uniform(0.2, 2, width)
    root = rng.normal(size=(width, width)) / 3 + np.eye(width)
    return [Mahalanobis.from_root(root), *(WeightedLp(weights, order) for order in (1, 2, math.inf))]


def mlp(
    rng: np.random.Generator,
    width: int,
    outputs: int = 2,
    kind: tuple[str, tuple[float, ...]] = ("relu", ()),
    head: Head = "softmax",
    sizes: tuple[float, float] = (1.0, 1.0),
    bias: float = 0.3,
) -> Network:
    """Two hidden layers of five; ``sizes`` are those of the first and of the later weights."""
    shapes = [(5, width), (5, 5), (outputs, 5)]
    weights = [rng.normal(size=s) * (sizes[min(i, 1)] / s[1] ** 0.5) for i, s in enumerate(shapes)]
    return Network.from_layers(weights, [bias * rng.normal(size=s[0]) for s in shapes], Activation(*kind), head)


# -- truth ----------------------------------------------------------------------------------------------------------


def exact(network: Network, x: np.ndarray) -> list[Any]:
    """What each class receives, for perceptrons of ReLU or tanh; call inside ``ctx.workprec``."""
    values = [arb(float(v)) for v in x]
    for node in network.graph.nodes[1:]:
        if node.activation is not None:
            values = [v.max(arb(0)) if node.activation.kind == "relu" else v.tanh() for v in values]
            assert node.activation.kind in ("relu", "tanh")
        else:
            rows = zip(node.weight.tolist(), node.bias.tolist(), strict=True)
            values = [sum((arb(w) * v for w, v in zip(row, values, strict=True)), arb(b)) for row, b in rows]
    if network.head == "regression":
        return values
    if network.head == "sigmoid":
        return [1 / (1 + (-v).exp()) for v in values]
    return [1 / sum(((v - own).exp() for v in values), arb(0)) for own in values]


def sound(network: Network, x: np.ndarray, found: LocalCertificate, metric: Metric, more: list[np.ndarray]) -> None:
    """No counterpart, found or drawn, is treated more differently than ``upper``, nor the found one less than said."""
    with ctx.workprec(300):
        for row, own in enumerate(x):
            here = exact(network, own)
            seen = 0
            for k, y in enumerate([found.witnesses.counterpart[row], *(part[row] for part in more)]):
                if not is_similar(metric, own, y, found.delta):
                    assert k > 0, "the attack's own find must be similar"
                    continue
                seen += 1
                change = [abs(a - b) for a, b in zip(here, exact(network, y), strict=True)]
                assert not any(arb(float(found.upper[row])) < c for c in change), (row, k)
                if k == 0:
                    assert any(not arb(float(found.lower[row])) > c for c in change), row
            assert seen > 1 or not more


def drawn(rng: np.random.Generator, metric: Metric, x: np.ndarray, delta: float, count: int = 6) -> list[np.ndarray]:
    """Similar individuals on all of R^m, most of them just inside the edge."""
    root, order = metric.gauge()
    if isinstance(metric, WeightedLp):
        order = metric.order
        root = np.diag(metric.weights ** (0.5 if order == 2 else 1.0))
    found = []
    for k in range(count):
        way = rng.choice([-1.0, 1.0], x.shape) if order == math.inf else rng.normal(size=x.shape)
        if order == 1:
            way = np.eye(x.shape[1])[rng.integers(x.shape[1], size=len(x))] * rng.choice([-1.0, 1.0], (len(x), 1))
        step = np.linalg.solve(root, way.T).T
        length = np.linalg.norm(step @ root.T, order, axis=1, keepdims=True)
        found.append(x + step * (delta * (1 - 1e-6) / length) * (rng.random() if k == 0 else 1.0))
    return found


# -- nobody moves ---------------------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_delta_zero_with_a_true_metric(tier: str, domain: str) -> None:
    """Only the individual itself is similar: what is left is rounding."""
    rng = np.random.default_rng(0)
    population = people(6, 1, domain)
    for which, metric in enumerate(true_metrics(rng, WIDTH)):
        outputs, head = [(2, "softmax"), (3, "softmax"), (1, "sigmoid"), (1, "regression")][which]
        found = certified(perceptron(rng, WIDTH, outputs, head=head), population, metric, 0.0, tier)
        assert (found.upper <= ROUNDING).all(), (metric.kind, found.upper)


@pytest.mark.some(4)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", EACH_KIND)
def test_delta_zero_for_every_activation(tier: str, kind: tuple[str, tuple[float, ...]]) -> None:
    rng = np.random.default_rng(1)
    for metric in true_metrics(rng, 3):
        network = mlp(rng, 3, outputs=3, kind=kind)
        assert (certified(network, rng.normal(size=(3, 3)), metric, 0.0, tier).upper <= ROUNDING).all()


@pytest.mark.parametrize("tier", TIERS)
def test_everything_is_immutable(tier: str) -> None:
    """A large ball in which nothing may change."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(4, 3))
    frozen = replace(Domain.unbounded(3), immutable=np.ones(3, dtype=bool))
    for metric in true_metrics(rng, 3):
        assert (certified(mlp(rng, 3), x, metric, 10.0, tier, domain=frozen).upper <= ROUNDING).all()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", EACH_KIND)
def test_neurons_that_read_nothing_that_moves(tier: str, kind: tuple[str, tuple[float, ...]]) -> None:
    """Pre-activations of zero width: the bound is that of the one neuron that does move, as if the rest were biases."""
    rng = np.random.default_rng(3)
    first = rng.normal(size=(5, 3))
    first[1:, 0] = 0.0  # only neuron 0 reads coordinate 0, the only one that moves
    last = rng.normal(size=(2, 5))
    network = Network.from_layers([first, last], [rng.normal(size=5), rng.normal(size=2)], Activation(*kind))
    frozen = replace(Domain.unbounded(3), immutable=np.array([False, True, True]))
    x, delta = rng.normal(size=(4, 3)), 0.4
    upper = certified(network, x, WeightedLp(np.ones(3), math.inf), delta, tier, domain=frozen).upper
    steps = np.linspace(-delta, delta, 2001)
    for row in range(4):
        line = np.repeat(x[row][None], len(steps), axis=0)
        line[:, 0] += steps
        truth = np.abs(network(line)[:, 1] - network(x[row][None])[0, 1]).max()
        assert truth - 1e-9 <= upper[row] <= truth * (1 + 1e-3) + 1e-9


@pytest.mark.parametrize("tier", TIERS)
def test_only_unread_coordinates_move(tier: str) -> None:
    rng = np.random.default_rng(4)
    network = mlp(rng, 3)
    weights = [n.weight.copy() for n in network.graph.nodes if n.weight is not None]
    weights[0][:, 1] = 0.0
    blind = Network.from_layers(weights, [np.ones(len(w)) for w in weights])
    frozen = replace(Domain.unbounded(3), immutable=np.array([True, False, True]))
    x = rng.normal(size=(3, 3))
    for metric in true_metrics(rng, 3):
        assert (certified(blind, x, metric, 5.0, tier, domain=frozen).upper <= ROUNDING).all()


# -- nothing changes ------------------------------------------------------------------------------------------------


@pytest.mark.some(4)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize(
    "which",
    [
        "last layer",
        "dead neurons",
        *(pytest.param(which, marks=pytest.mark.slow) for which in ("all weights", "equal rows")),
    ],
)
def test_a_constant_network(tier: str, domain: str, which: str) -> None:
    head, outputs = CASES[DOMAINS.index(domain) + (which == "last layer")]
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(4, WIDTH)), rng.normal(size=(4, 4)), rng.normal(size=(outputs, 4))]
    biases = [rng.normal(size=4), rng.normal(size=4), rng.normal(size=outputs)]
    if which == "all weights":
        weights = [0 * w for w in weights]
    elif which == "last layer":
        weights[-1] = 0 * weights[-1]
    elif which == "dead neurons":
        biases[1] = np.full(4, -100.0)
    elif head == "softmax":
        weights[-1][:] = weights[-1][0]
    else:
        weights[-1] = 0 * weights[-1]
    network = Network.from_layers(weights, biases, head=head)
    rng = np.random.default_rng(6)
    for metric in true_metrics(rng, WIDTH)[:2]:
        found = certified(network, people(3, 2, domain), metric, 0.1, tier)
        assert (found.upper <= ROUNDING).all(), found.upper
        assert (found.lower == 0).all()
        if head != "regression" and which != "equal rows":
            assert (found.decision == "certified").all()


@pytest.mark.parametrize("tier", TIERS)
def test_a_constant_network_however_far_people_move(tier: str) -> None:
    """Zero times a move is zero, also when the move is 1e300."""
    weights = [np.ones((4, 3)), np.zeros((4, 4)), np.ones((2, 4))]
    network = Network.from_layers(weights, [np.ones(4), np.ones(4), np.array([0.0, 0.5])], "tanh")
    x = np.zeros((2, 3))
    for delta in (1.0, 1e6, 1e12, 1e100):
        assert (certified(network, x, Mahalanobis(np.eye(3)), delta, tier).upper <= ROUNDING).all(), delta


# -- far too large ----------------------------------------------------------------------------------------------------


@pytest.mark.some(4)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("kind", EACH_KIND)
def test_a_very_large_delta(tier: str, kind: tuple[str, tuple[float, ...]]) -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(2, 3))
    for delta in LARGE:
        for case, metric in zip(CASES, true_metrics(rng, 3), strict=True):
            found = certified(mlp(rng, 3, case[1], kind, case[0]), x, metric, delta, tier, attack=False)
            assert case[0] == "regression" or np.isfinite(found.upper).all()


@pytest.mark.some(1)
@pytest.mark.parametrize("delta", [1e6, 1e12, 1e160, 1e300])
def test_an_attack_with_a_very_large_delta(delta: float) -> None:
    rng = np.random.default_rng(14)
    x = rng.normal(size=(2, 3))
    for case, metric in zip(CASES, true_metrics(rng, 3), strict=True):
        network = mlp(rng, 3, case[1], head=case[0])
        found = certified(network, x, metric, delta, "tight")
        sound(network, x, found, metric, [])


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("domain", ["relaxed", "realizable"])
def test_a_very_large_delta_reaches_the_whole_domain(tier: str, domain: str) -> None:
    """Beyond the diameter of the domain nothing is gained: all those bounds are of one and the same set."""
    rng = np.random.default_rng(8)
    network, population = perceptron(rng, WIDTH, 2), people(4, 3, domain)
    for metric in (true_metrics(rng, WIDTH)[0], metrics(rng)[4]):
        uppers = [certified(network, population, metric, delta, tier, attack=False).upper for delta in LARGE]
        for upper in uppers:
            assert np.isfinite(upper).all()
        others = people(40, 9, domain).x
        here, there = network(population.x), network(others)
        immutable = SCHEMA.slices["born"]
        for row, own in enumerate(population.x):
            alike = (others[:, immutable] == own[immutable]).all(axis=1)
            worst = np.abs(there[alike] - here[row]).max()
            assert all(worst <= upper[row] + 1e-12 for upper in uppers)


@steady
@given(
    seed=seeds,
    tier=tiers,
    sizes=st.sampled_from([(1e6, 1.0), (1e6, 1e6), (1e-12, 1.0), (1e-12, 1e-12), (1e-12, 1e6), (1e6, 1e-12)]),
    bias=st.sampled_from([0.0, 1.0, 1e8]),
    case=st.sampled_from(CASES),
    delta=st.sampled_from([1e-9, 1e-3, 1.0]),
)
def test_extreme_weights(
    seed: int, tier: str, sizes: tuple[float, float], bias: float, case: tuple[Head, int], delta: float
) -> None:
    rng = np.random.default_rng(seed)
    network = mlp(rng, 3, case[1], ("relu", ()) if seed % 3 else ("tanh", ()), case[0], sizes, bias)
    metric = true_metrics(rng, 3)[seed % 4]
    x = rng.normal(size=(2, 3))
    found = certified(network, x, metric, delta, tier)
    sound(network, x, found, metric, drawn(rng, metric, x, delta))


@steady
@given(seed=seeds, tier=tiers, delta=st.sampled_from([1e-10, 1e-8, 1e-6]), kind=st.sampled_from(["relu", "tanh"]))
def test_huge_biases_and_tiny_moves(seed: int, tier: str, delta: float, kind: str) -> None:
    """The difference of two numbers near 1e8 is all rounding; the bound must hold nevertheless."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=(5, 3)), rng.normal(size=(5, 5)), rng.normal(size=(2, 5))]
    biases = [1e8 * rng.normal(size=5), -weights[1] @ (1e8 * rng.random(5)), rng.normal(size=2)]
    network = Network.from_layers(weights, biases, kind, head="regression")
    metric, x = true_metrics(rng, 3)[seed % 4], rng.normal(size=(2, 3))
    found = certified(network, x, metric, delta, tier)
    sound(network, x, found, metric, drawn(rng, metric, x, delta))
    assert (found.upper <= 1e3 * delta + 1e-3).all()  # rounding of 1e8, not 1e8


# -- far too small ----------------------------------------------------------------------------------------------------


@pytest.mark.some(3)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200, 1e-160])
def test_subnormal_weights(tier: str, size: float) -> None:
    rng = np.random.default_rng(10)
    weights = [size * rng.integers(1, 4, size=(4, 3)).astype(float), rng.normal(size=(1, 4)) * 1e300]
    for kind in ("relu", "tanh"):
        network = Network.from_layers(weights, [np.zeros(4), np.zeros(1)], kind, head="regression")
        for metric in true_metrics(rng, 3):
            x = rng.normal(size=(2, 3))
            found = certified(network, x, metric, 0.5, tier)
            sound(network, x, found, metric, drawn(rng, metric, x, 0.5))


@pytest.mark.some(3)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-200, 1e-30])
def test_subnormal_delta(tier: str, delta: float) -> None:
    """Nobody but the individual itself is that similar, unless it stands at zero."""
    rng = np.random.default_rng(11)
    weights = [rng.normal(size=(4, 2)), rng.normal(size=(2, 4))]
    network = Network.from_layers(weights, [np.zeros(4), np.zeros(2)], "relu", head="regression")
    for metric in true_metrics(rng, 2):
        x = np.zeros((1, 2))
        found = certified(network, x, metric, delta, tier)
        sound(network, x, found, metric, [x + np.array([[0.25 * delta, -0.25 * delta]])])
        assert (found.upper <= 1e-13 + 100 * delta).all()


# -- small networks and tables ----------------------------------------------------------------------------------------


@steady
@given(seed=seeds, tier=tiers, layers=st.integers(0, 4), head=st.sampled_from(["sigmoid", "regression", "softmax"]))
def test_layers_of_one_neuron(seed: int, tier: str, layers: int, head: Head) -> None:
    """One coordinate, one neuron: monotone, so the ends of the interval are the worst; also without hidden layers."""
    rng = np.random.default_rng(seed)
    outputs = 2 if head == "softmax" else 1
    weights = [rng.normal(size=(1, 1)) + 1 for _ in range(layers)] + [rng.normal(size=(outputs, 1))]
    biases = [rng.normal(size=len(w)) for w in weights]
    network = Network.from_layers(weights, biases, str(rng.choice(["relu", "tanh"])), head=head)
    x, delta = rng.normal(size=(3, 1)), float(rng.choice([1e-3, 0.3, 2.0]))
    metric = WeightedLp(np.ones(1), [1, 2, math.inf][seed % 3])
    upper = certified(network, x, metric, delta, tier).upper
    truth = np.maximum(*(np.abs(network(x + d) - network(x)).max(axis=1) for d in (delta, -delta)))
    assert (upper >= truth - 1e-12).all()
    if tier == "interval":  # the chain is monotone: intervals are exact
        assert upper == pytest.approx(truth, rel=1e-9, abs=1e-9)


@pytest.mark.some(2)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_one_individual_and_the_same_one_often(tier: str, domain: str) -> None:
    rng = np.random.default_rng(12)
    network, population = perceptron(rng, WIDTH, 2), people(3, 4, domain)
    for metric in true_metrics(rng, WIDTH)[:2]:
        together = certified(network, population, metric, 0.05, tier, attack=False).upper
        alone = np.array(
            [certified(network, _rows(population, [i]), metric, 0.05, tier, attack=False).upper[0] for i in range(3)]
        )
        assert alone == pytest.approx(together, rel=1e-6, abs=1e-12)
        again = certified(network, _rows(population, [2] * 7), metric, 0.05, tier, attack=False).upper
        assert again == pytest.approx(np.full(7, together[2]), rel=1e-6, abs=1e-12)


def _rows(population: Population, rows: list[int]) -> Population:
    return population[np.array(rows)]


@pytest.mark.some(2)
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("classes", [2, 3, *(pytest.param(many, marks=pytest.mark.slow) for many in (4, 5))])
def test_classes_with_the_same_logits(tier: str, classes: int) -> None:
    """All classes alike: each has the share 1/k wherever people go. Some alike: still sound, and never decided."""
    rng = np.random.default_rng(classes)
    x = rng.normal(size=(3, 3))
    row = rng.normal(size=(1, 5))
    for metric in true_metrics(rng, 3):
        same = Network.from_layers(
            [rng.normal(size=(5, 3)), np.repeat(row, classes, axis=0)], [np.ones(5), np.zeros(classes)]
        )
        found = certified(same, x, metric, 0.5, tier)
        assert (found.upper <= ROUNDING).all() and (found.decision == "undecided").all()
        last = np.repeat(row, classes, axis=0)
        last[-1] = -row
        some = Network.from_layers([rng.normal(size=(5, 3)), last], [np.ones(5), np.zeros(classes)])
        found = certified(some, x, metric, 0.5, tier)
        sound(some, x, found, metric, drawn(rng, metric, x, 0.5))


@pytest.mark.parametrize("tier", TIERS)
def test_the_pair_that_exceeds_a_smaller_bound_is_seen(tier: str) -> None:
    """The judge of this file objects to a certificate that claims a thousandth less than is attained."""
    rng = np.random.default_rng(13)
    network, x = mlp(rng, 3), rng.normal(size=(2, 3))
    metric = true_metrics(rng, 3)[0]
    found = certified(network, x, metric, 0.5, tier)
    sound(network, x, found, metric, drawn(rng, metric, x, 0.5))
    with pytest.raises(SoundnessError):  # no such certificate can be made
        replace(found, upper=0.999 * found.lower, counterexamples=Counterexamples(None))
    object.__setattr__(found, "upper", 0.999 * found.lower)
    with pytest.raises(AssertionError):
        sound(network, x, found, metric, [])


@pytest.mark.parametrize(
    ("metric", "delta", "y"),
    [
        (Mahalanobis.from_root(np.diag([1e160, 1e160, 1.0])), 1e161, [0.0, 1.0, 1.0]),
        (WeightedLp([1e308, 1e308, 1.0], 1), 1.0, [1.0, 0.0, 0.875]),
        (WeightedLp([1.0, 1.0, 1e-310], 1), 1.0, [1.0, 0.0, 1.0]),
        (Mahalanobis.from_root(np.diag([1e-170, 1e-170, 1e-170])), 1.1e-170, [1.0, 0.0, 1.0]),
    ],
)
@pytest.mark.parametrize("tier", TIERS)
def test_metrics_whose_squares_are_no_numbers(metric: Metric, delta: float, y: list[float], tier: str) -> None:
    """Where nobody was found similar, bounds were 0."""
    domain = possible("realizable", [0, 0, 0], [1, 1, 1], [(0, 2)])
    network = Network.from_layers([[[1.0, 2.0, 3.0]]], [[0.0]], head="regression")
    x, other = np.array([[1.0, 0.0, 0.0]]), np.array([y])
    assert metric.distance_upper(x, other) <= delta
    found = certified(network, x, metric, delta, tier, domain=domain)
    assert found.upper[0] >= abs(network(other) - network(x)).item()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e-200, 1e160, 1e300])
@pytest.mark.parametrize("kind", ["relaxed", "realizable"])
def test_metrics_whose_squares_overflow_are_searched_as_well(size: float, kind: Any) -> None:
    """Splits between ball and box are hints: where they overflow there is none, and no error."""
    root, x = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, -1.0]]) * size, np.array([[0.2, -0.1, 0.4]])
    domain, metric = possible(kind, [-1, -1, -1], [1, 1, 1], []), Mahalanobis.from_root(root)
    hidden = [[1.0, 2.0, 1.0], [-1.0, 1.0, 0.5], [0.3, -1.0, 2.0], [1.0, 1.0, 1.0]]
    network = Network.from_layers([hidden, [[1.0, -1.0, 0.5, -0.7]]], [np.zeros(4), [-0.1]], "relu", "sigmoid")
    for tier in ("tight", "exact"):
        found = certified(network, x, metric, 0.3 * size, tier, domain=domain, decide=True, max_nodes=50)
        assert 0.1 < found.upper[0] < 0.9
