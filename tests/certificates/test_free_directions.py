"""The same person but for age: what a metric ignores is searched whatever δ is, and a grid says what there is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from isonomy import Mahalanobis, SensitiveSubspace, WeightedLp, certify, certify_everywhere, certify_local
from isonomy.attacks import AttackBudget, attack
from isonomy.bounds.kernel import head_of
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import Similarity

WIDTH, FREE = 4, 0
METRICS = ["l1", "l2", "linf", "sensr", "mahalanobis"]
DELTAS = [0.0, 1e-9, 1e-3]
AGES = np.linspace(-1, 1, 401)  # every fortieth, and both ends, are whole numbers of the realizable domain


def domain(kind: str) -> Domain:
    """Three numbers from -1 to 1 and a flag; the first is whole in units of a tenth."""
    whole = np.arange(WIDTH) == FREE
    low = np.array([-1.0, -1.0, -1.0, 0.0])
    unit = np.where(whole, 10.0, 1.0)
    names = ("age", "a", "b", "flag")
    still = np.zeros(WIDTH, dtype=bool)
    return Domain(kind, low, np.ones(WIDTH), ((3, 4),), whole, np.zeros(WIDTH), unit, still, names)


def metric_of(name: str, rng: np.random.Generator) -> Metric:
    """A metric that ignores the first coordinate alone."""
    if name == "sensr":
        return SensitiveSubspace(np.eye(WIDTH)[:1])
    if name == "mahalanobis":
        root = np.insert(rng.normal(size=(3, 3)) + np.eye(3), FREE, 0.0, axis=1)
        return Mahalanobis(root.T @ root)
    weights = np.insert(rng.uniform(0.3, 3, WIDTH - 1), FREE, 0.0)
    return WeightedLp(weights, {"l1": 1, "l2": 2, "linf": math.inf}[name])


def network_of(rng: np.random.Generator) -> Network:
    weights = [rng.normal(size=(6, WIDTH)) * 1.5, rng.normal(size=(2, 6))]
    return Network.from_layers(weights, [0.7 * rng.normal(size=6), rng.normal(size=2)])


def case(seed: int, kind: str, name: str) -> tuple[Network, Metric, Domain, np.ndarray, np.ndarray]:
    """A network, a metric, a domain, people (n, m), and the change (n,) that the best age of a grid attains."""
    rng = np.random.default_rng(seed)
    metric, net, where = metric_of(name, rng), network_of(rng), domain(kind)
    x = rng.uniform(-1, 1, (3, WIDTH))
    x[:, 3] = rng.integers(2, size=3)
    x = where.snap(x)
    people = np.repeat(x[:, None], len(AGES), 1)
    people[:, :, FREE] = AGES if kind == "relaxed" else where.snap(np.outer(AGES, np.eye(WIDTH)[FREE]))[:, FREE]
    change = np.abs(net(people.reshape(-1, WIDTH)).reshape(3, len(AGES), 2) - net(x)[:, None])
    return net, metric, where, x, change.max((1, 2))


@pytest.mark.parametrize("kind", ["relaxed", "realizable"])
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", METRICS)
def test_the_attack_attains_the_grid(name: str, delta: float, kind: str) -> None:
    for seed in range(4):
        net, metric, where, x, best = case(seed, kind, name)
        found = attack(net, head_of(net), Similarity(metric, delta, where), x, AttackBudget())
        assert (found.lower >= best - 1e-3).all()
        assert (metric.distance_upper(x, found.counterpart) <= delta).all()


@example(490, "relaxed", "l1", 0.0)  # the output falls by more than it would have to rise for another decision
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["relaxed", "realizable"]),
    name=st.sampled_from(METRICS),
    delta=st.sampled_from(DELTAS),
)
def test_the_exact_tier_settles_and_bounds_keep_their_order(seed: int, kind: str, name: str, delta: float) -> None:
    net, metric, where, x, best = case(seed, kind, name)
    usual = certify_local(net, x, metric, delta, domain=where, progress=None)
    exact = certify_local(net, x, metric, delta, domain=where, tier="exact", progress=None)
    for found in (usual, exact):
        assert (found.lower <= found.upper).all() and (best <= found.upper + 1e-12).all()
    assert (exact.upper - exact.lower <= 1e-5).all() and (exact.lower >= best - 1e-5).all()
    assert (exact.decision != "undecided").all()


@pytest.mark.parametrize("name", METRICS)
def test_populations_and_everybody_too(name: str) -> None:
    net, metric, where, x, best = case(7, "relaxed", name)
    certificate = certify(net, x, metric, 0.0, gamma=0.0, domain=where, progress=None)
    assert best.mean() - 1e-3 <= certificate.lower <= certificate.upper
    everywhere = certify_everywhere(net, metric, 0.0, where, time_limit=None, max_nodes=400, progress=None)
    assert best.max() - 1e-3 <= everywhere.lower <= everywhere.upper


@pytest.mark.parametrize("delta", DELTAS[1:])
def test_moves_without_length_that_are_no_axes(delta: float) -> None:
    """Age and ``a`` change together: the line through a person on which nothing is paid, as far as the box goes."""
    direction = np.array([0.8, -0.6, 0.0, 0.0])
    for seed in range(4):
        net, _, where, x, _ = case(seed, "relaxed", "l2")
        x[:, 3] = 0.5
        found = attack(
            net, head_of(net), Similarity(SensitiveSubspace(direction[None]), delta, where), x, AttackBudget()
        )
        line = x[:, None] + np.linspace(-4, 4, 3201)[:, None] * direction
        inside = ((line >= where.low) & (line <= where.high)).all(2)
        change = np.abs(net(line.reshape(-1, WIDTH)).reshape(3, -1, 2) - net(x)[:, None]).max(2)
        assert (found.lower >= 0.99 * np.where(inside, change, 0.0).max(1) - 1e-3).all()


def test_a_free_coordinate_without_end_is_searched() -> None:
    net = Network.from_layers([[[1e-3, 1.0]]], [[0.0]], head="sigmoid")
    similarity = Similarity(WeightedLp(np.array([0.0, 1.0]), 2), 0.0, Domain.unbounded(2))
    found = attack(net, head_of(net), similarity, np.zeros((1, 2)), AttackBudget())
    assert found.lower == pytest.approx([0.5], abs=1e-6)
