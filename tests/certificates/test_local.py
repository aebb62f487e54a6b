"""``certify_local`` against closed forms, against an independent judge, and against itself in other batches."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy import AttackBudget, certify_local
from isonomy.certificates.local import Tier
from isonomy.networks.graph import Activation, Graph, Node, selection
from isonomy.networks.network import Network
from isonomy.population import Domain
from isonomy.similarity import Counterparts, Mahalanobis, Metric, WeightedLp

from .judge import SCHEMA, WIDTH, is_similar, is_somebody, metrics, people, perceptron, predicted

steady = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
TIERS = [tier for tier in ("interval", "tight") if tier in get_args(Tier)]
QUICK = AttackBudget(steps=6, restarts=1, branches=4)


def sigma(t: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-t))


# -- closed forms -----------------------------------------------------------------------------------------------


def ball(rng: np.random.Generator, kind: str, width: int, delta: float) -> tuple[Metric, object]:
    """A metric on all of R^m, and the support function of its ball."""
    if kind == "mahalanobis":
        root = rng.normal(size=(width, width)) + 2 * np.eye(width)
        return Mahalanobis.from_root(root), lambda w: delta * np.linalg.norm(np.linalg.solve(root.T, w))
    weights, order = rng.uniform(0.3, 4, width), {"l1": 1, "l2": 2, "linf": math.inf}[kind]
    scale = weights ** (1 / order) if order < math.inf else weights
    dual = {1: math.inf, 2: 2, math.inf: 1}[order]
    return WeightedLp(weights, order), lambda w: delta * np.linalg.norm(w / scale, dual)


kinds = st.sampled_from(["mahalanobis", "l1", "l2", "linf"])
heads = st.sampled_from(["softmax", "sigmoid", "regression"])


@steady
@given(seed=seeds, kind=kinds, head=heads, delta=st.sampled_from([0.0, 1e-4, 0.1, 1.0, 20.0]))
def test_affine_models_meet_their_closed_form(seed: int, kind: str, head: str, delta: float) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 6))
    outputs = 2 if head == "softmax" else 1
    weight, bias = rng.normal(size=(outputs, width)), rng.normal(size=outputs)
    network = Network.from_layers([weight], [bias], head=head)
    x = rng.normal(size=(3, width))
    metric, support = ball(rng, kind, width, delta)
    found = certify_local(network, x, metric, delta, attack=QUICK)
    w = weight[1] - weight[0] if head == "softmax" else weight[0]
    t = x @ w + (bias[1] - bias[0] if head == "softmax" else bias[0])
    h = support(w)
    exact = np.full(3, h) if head == "regression" else np.maximum(sigma(t + h) - sigma(t), sigma(t) - sigma(t - h))
    assert found.upper == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert (found.lower <= exact + 1e-12).all() and (found.lower <= found.upper).all()
    assert (found.lower >= 0.5 * exact - 1e-9).all()
    if head != "regression":
        kept = np.abs(t) > h * (1 + 1e-9) + 1e-9
        assert (found.decision[kept] == "certified").all()
        flips = np.abs(t) < 0.5 * h - 1e-6
        assert (found.decision[flips] == "flippable").all()


@steady
@given(
    seed=seeds, kind=kinds, activation=st.sampled_from(["relu", "tanh", "sigmoid", "softplus", "elu", "leaky", "clip"])
)
def test_one_neuron_meets_its_closed_form(seed: int, kind: str, activation: str) -> None:
    rng = np.random.default_rng(seed)
    width, delta = int(rng.integers(1, 5)), float(rng.choice([0.01, 0.5]))
    given_parameters = {"softplus": (1.0,), "elu": (1.5,), "leaky_relu": (0.2,), "clip": (-0.4, 0.5)}
    name = "leaky_relu" if activation == "leaky" else activation
    between = Activation(name, given_parameters.get(name, ()))
    w, b, out = rng.normal(size=(1, width)), rng.normal(size=1), rng.normal(size=(2, 1))
    network = Network.from_layers([w, out], [b, np.zeros(2)], between)
    metric, support = ball(rng, kind, width, delta)
    x = rng.normal(size=(3, width))
    found = certify_local(network, x, metric, delta, attack=QUICK)
    t, h = x @ w[0] + b[0], support(w[0])
    slope = float(out[1, 0] - out[0, 0])
    at, up, down = (sigma(slope * between.shape.value(v)) for v in (t, t + h, t - h))
    exact = np.maximum(np.abs(up - at), np.abs(at - down))
    assert found.upper == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert (found.lower <= found.upper).all()


def test_realizable_counterparts_of_an_affine_model_meet_brute_force() -> None:
    """Every box of numbers times every category: the exact maximum is a sum over features."""
    rng = np.random.default_rng(3)
    population = people(15)
    w, b = rng.normal(size=WIDTH), 0.1
    network = Network.from_layers([w[None]], [[b]], head="regression")
    found = certify_local(network, population, Counterparts.of(SCHEMA), 1.0, attack=QUICK)
    for row, x in enumerate(population.x):
        reach = np.zeros(2)
        for feature in SCHEMA.features:
            where = SCHEMA.slices[feature.name]
            if feature.immutable:
                continue
            if feature.protected or feature.proxy:
                moves = w[where] - w[where] @ x[where]
            elif feature.kind == "categorical":
                continue
            else:
                i = where.start
                raw = x[i] * feature.unit + feature.origin
                if feature.relative_tolerance:
                    ends = [raw / (1 + feature.relative_tolerance), raw * (1 + feature.relative_tolerance)]
                else:
                    ends = [raw - feature.tolerance, raw + feature.tolerance]
                ends = np.clip(ends, feature.low, feature.high)
                moves = w[i] * ((ends - feature.origin) / feature.unit - x[i])
            reach += [np.max(moves), np.min(moves)]
        missing = x[SCHEMA.slices["hours"]][1] == 1.0  # the fill value stays, but regions do not use it
        exact = max(reach[0], -reach[1])
        assert found.upper[row] >= exact - 1e-9 or missing
        if not missing:
            assert found.upper[row] == pytest.approx(exact, rel=1e-6)
            assert found.lower[row] == pytest.approx(exact, rel=0.05)


# -- soundness --------------------------------------------------------------------------------------------------


@pytest.mark.some(3)
@pytest.mark.parametrize("kind", ["realizable", "relaxed"])
@pytest.mark.parametrize("which", [0, 2, 4, *(pytest.param(which, marks=pytest.mark.slow) for which in (1, 3, 5))])
def test_bounds_and_witnesses_on_domains(kind: str, which: int) -> None:
    """Witnesses pass an independent judge; sampled similar individuals never exceed ``upper`` or flip a decision."""
    for seed, (outputs, head) in enumerate([(2, "softmax"), (3, "softmax"), (1, "sigmoid")]):
        rng = np.random.default_rng([which, seed])
        metric = metrics(rng)[which]
        delta = float(rng.choice([0.3, 1.0]))
        population = people(12, seed, kind)
        network = perceptron(rng, WIDTH, outputs, head=head)
        found = certify_local(network, population, metric, delta, attack=QUICK, tier=TIERS[seed % len(TIERS)])
        x = population.x
        assert (found.lower <= found.upper).all()
        assert (found.lower >= 0).all() and (found.upper <= 1).all()
        judge(network, metric, delta, kind, found, x)
        sample(network, metric, delta, population.domain, found, x, rng)


def judge(network: Network, metric: Metric, delta: float, kind: str, found: object, x: np.ndarray) -> None:
    here = predicted(network, x)
    there = predicted(network, found.witnesses.counterpart)
    change = np.abs(here - there).max(axis=1)
    assert (found.lower <= change + 1e-15).all() and found.lower == pytest.approx(change.astype(float), abs=1e-10)
    flips = predicted(network, found.witnesses.flip_counterpart)
    for row in range(len(x)):
        for y in (found.witnesses.counterpart[row], found.witnesses.flip_counterpart[row]):
            assert is_somebody(kind, y), y
            assert is_similar(metric, x[row], y, delta)
            if kind != "unbounded":
                assert (y[SCHEMA.slices["born"]] == x[row][SCHEMA.slices["born"]]).all()
        if found.decision[row] == "flippable":
            assert decide(here[row]) != decide(flips[row])
        assert (found.decision[row] == "flippable") <= bool(found.witnesses.flips[row])


def decide(p: np.ndarray) -> int:
    return int(p[0] > 0.5) if len(p) == 1 else int(p.argmax())


def sample(
    network: Network,
    metric: Metric,
    delta: float,
    domain: Domain,
    found: object,
    x: np.ndarray,
    rng: np.random.Generator,
) -> None:
    here = predicted(network, x)
    seen = 0
    for row, own in enumerate(x):
        pool = people(60, int(rng.integers(1000))).x
        near = own + np.concatenate([rng.normal(size=(40, WIDTH)) * 0.05, rng.normal(size=(20, WIDTH)) * 0.5])
        keep = rng.random(pool.shape) < 0.6
        mixed = np.where(domain.numeric & keep, near, pool)
        mixed[:, ~domain.numeric] = pool[:, ~domain.numeric]
        back = own + 0.15 * (near - own)
        back[:, ~domain.numeric] = own[~domain.numeric]
        back[:, SCHEMA.slices["sex"]] = pool[:, SCHEMA.slices["sex"]]
        blend = own + rng.random((60, 1)) * (pool - own)
        others = np.concatenate([mixed, back, blend])
        others[:, SCHEMA.slices["born"]] = own[SCHEMA.slices["born"]]
        others = np.clip(others, domain.low, domain.high)
        others = domain.snap(others)
        missing = others[:, SCHEMA.slices["hours"].start + 1] == 1
        others[missing, SCHEMA.slices["hours"].start] = 40 / 60
        allowed = domain.allows(np.broadcast_to(own, others.shape), others) & (
            metric.distance_upper(own, others) <= delta
        )
        if not allowed.any():
            continue
        seen += int(allowed.sum())
        there = predicted(network, others[allowed])
        assert np.abs(there - here[row]).max() <= found.upper[row]
        if found.decision[row] == "certified":
            assert {decide(p) for p in there} == {decide(here[row])}
    assert seen > 0


@steady
@given(
    seed=seeds,
    kind=kinds,
    threshold=st.none() | st.floats(0.2, 0.8),
    arithmetic=st.sampled_from(["float64", "float32"]),
)
def test_the_unbounded_domain(seed: int, kind: str, threshold: float | None, arithmetic: str) -> None:
    rng = np.random.default_rng(seed)
    network = perceptron(rng, 4, 2)
    delta = float(rng.choice([0.0, 0.05, 0.5]))
    metric, _ = ball(rng, kind, 4, delta)
    x = rng.normal(size=(4, 4)) * float(rng.choice([1.0, 1e4]))
    tier = TIERS[seed % len(TIERS)]
    found = certify_local(
        network, x, metric, delta, tier=tier, threshold=threshold, arithmetic=arithmetic, attack=QUICK
    )
    assert (found.lower <= found.upper).all()
    here = predicted(network, x)
    cut = 0.5 if threshold is None else threshold
    for row in range(4):
        y = found.witnesses.counterpart[row]
        assert is_similar(metric, x[row], y, delta)
        others = np.concatenate([x[row] + share * (y - x[row]) * np.array([[1.0], [-1.0]]) for share in (1.0, 0.7)])
        others = others[[is_similar(metric, x[row], other, delta) for other in others]]
        there = predicted(network, np.concatenate([others, x[row : row + 1]]))
        assert np.abs(there - here[row]).max() <= found.upper[row]
        if found.decision[row] == "certified":
            assert len({bool(p[1] > cut) for p in (*there, here[row])}) == 1
        if found.decision[row] == "flippable":
            flip = predicted(network, found.witnesses.flip_counterpart[row : row + 1])[0]
            assert bool(flip[1] > cut) != bool(here[row, 1] > cut)


@steady
@given(seed=seeds, kind=kinds, outputs=st.sampled_from([2, 3]))
def test_interval_is_never_worse_than_the_papers_box(seed: int, kind: str, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    network = perceptron(rng, 5, outputs)
    metric, _ = ball(rng, kind, 5, 0.1)
    x = rng.normal(size=(5, 5))
    ours, paper = (
        certify_local(network, x, metric, 0.1, tier=tier, attack=False).upper for tier in ("interval", "paper")
    )
    assert (ours <= paper * (1 + 1e-9) + 1e-12).all()


def test_branches_that_overflow_fall_back_to_larger_bounds() -> None:
    """A cap of a few branches never lowers a bound, and witnesses stay below it."""
    population = people(15)
    rng = np.random.default_rng(0)
    network = perceptron(rng, WIDTH, 2)
    for metric in (Counterparts.of(SCHEMA), Mahalanobis.from_root(rng.normal(size=(WIDTH, WIDTH)) / 8)):
        full = certify_local(network, population, metric, 1.0, attack=QUICK)
        for cap in (0, 1, 2, 5):
            few = certify_local(network, population, metric, 1.0, max_branches=cap, attack=False)
            assert (few.upper >= full.lower).all()
            assert (few.upper >= full.upper * (1 - 1e-6)).all()


@pytest.mark.slow
@settings(steady, max_examples=60)
@given(seed=seeds, kind=st.sampled_from(["realizable", "relaxed"]), which=st.integers(0, 5))
def test_bounds_and_witnesses_on_many_domains(seed: int, kind: str, which: int) -> None:
    rng = np.random.default_rng(seed)
    metric, delta = metrics(rng)[which], float(rng.choice([0.1, 0.5, 1.0, 2.0]))
    population = people(6, seed % 1000, kind)
    network = perceptron(rng, WIDTH, int(rng.integers(2, 4)))
    found = certify_local(network, population, metric, delta, attack=QUICK, tier=TIERS[seed % len(TIERS)])
    assert (found.lower <= found.upper).all()
    judge(network, metric, delta, kind, found, population.x)
    sample(network, metric, delta, population.domain, found, population.x, rng)


# -- entry points -------------------------------------------------------------------------------------------------


def test_a_population_and_its_array_give_the_same() -> None:
    population = people(20)
    rng = np.random.default_rng(1)
    network, metric = perceptron(rng, WIDTH, 2), metrics(rng)[2]
    one = certify_local(network, population, metric, 0.3, attack=False)
    two = certify_local(network, population.x, metric, 0.3, domain=population.domain, attack=False)
    assert (one.upper == two.upper).all()
    named = certify_local(network, population, metric, 0.3, domain="relaxed", attack=False)
    assert (named.upper >= one.upper * (1 - 1e-9)).all()


def test_a_protected_feature_that_the_model_does_not_see() -> None:
    """Features with ``seen = false`` are dropped in front of the network, and cannot matter by themselves."""
    from dataclasses import replace

    import pandas as pd

    from isonomy.population import Feature, Population, Schema

    schema = Schema("blind", (Feature("a", low=0.0, high=1.0), replace(SCHEMA["sex"], seen=False)))
    population = Population.from_frame(pd.DataFrame({"a": [0.2, 0.8], "sex": ["f", "m"]}), schema)
    network = Network.from_layers([[[1.0], [-1.0]]], [[0.0, 0.0]])
    free = WeightedLp([1.0, 0.0, 0.0])
    assert (certify_local(network, population, free, 0.0).upper <= 1e-12).all()
    assert (certify_local(network, population, free, 0.1).upper > 0.02).all()


def test_an_unseen_free_feature_on_the_unbounded_domain() -> None:
    network = Network.from_layers([[[1.0], [-1.0]]], [[0.0, 0.0]]).adapted(selection([0], 3))
    found = certify_local(network, np.zeros((1, 3)), WeightedLp([1.0, 0.0, 0.0]), 0.1)
    assert found.upper[0] == pytest.approx(sigma(0.2) - 0.5, rel=1e-9)


@pytest.mark.parametrize("which", range(6))
def test_rows_do_not_depend_on_their_chunk(which: int) -> None:
    rng = np.random.default_rng(which)
    metric, network = metrics(rng)[which], perceptron(rng, WIDTH, 2)
    population = people(1100)
    whole = certify_local(network, population, metric, 0.3, attack=False)
    rows = rng.permutation(1100)[:40]
    alone = certify_local(network, population[rows], metric, 0.3, attack=False)
    assert alone.upper == pytest.approx(whole.upper[rows], rel=1e-6)
    assert (alone.decision == whole.decision[rows]).all()


def test_chunks_of_the_unbounded_domain() -> None:
    rng = np.random.default_rng(0)
    network, x = perceptron(rng, 4, 2, hidden=70), rng.normal(size=(1500, 4)) * rng.choice([1.0, 100.0], (1500, 1))
    metric = Mahalanobis(np.eye(4))
    whole = certify_local(network, x, metric, 0.05, attack=False).upper
    rows = rng.permutation(1500)[:50]
    assert certify_local(network, x[rows], metric, 0.05, attack=False).upper == pytest.approx(whole[rows], rel=1e-6)


def test_an_outlier_does_not_spoil_its_chunk() -> None:
    rng = np.random.default_rng(0)
    network, x = perceptron(rng, 3, 2), rng.normal(size=(5, 3))
    metric = Mahalanobis(np.eye(3))
    crowd = np.vstack([x, [[1e9, 0, 0]]])
    alone = certify_local(network, x, metric, 1e-3, attack=False, tier="interval").upper
    crowd = certify_local(network, crowd, metric, 1e-3, attack=False, tier="interval").upper[:5]
    assert crowd == pytest.approx(alone, rel=1e-6)


def test_nothing_of_the_callers_is_changed() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 4))
    weights = [rng.normal(size=(5, 4)), rng.normal(size=(2, 5))]
    biases, precision = [rng.normal(size=5), rng.normal(size=2)], np.eye(4)
    before = [a.copy() for a in (x, *weights, *biases, precision)]
    seeds_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    x.flags.writeable = False
    found = certify_local(Network.from_layers(weights, biases), x, Mahalanobis(precision), 0.1)
    assert all((a == b).all() for a, b in zip(before, (x, *weights, *biases, precision), strict=True))
    assert (torch.random.get_rng_state() == seeds_before[0]).all()
    assert (np.random.get_state()[1] == seeds_before[1]).all()  # noqa: NPY002
    again = certify_local(Network.from_layers(weights, biases), x, Mahalanobis(precision), 0.1)
    assert (again.lower == found.lower).all() and (again.upper == found.upper).all()


def test_attack_can_be_left_out() -> None:
    population, rng = people(8), np.random.default_rng(0)
    network, metric = perceptron(rng, WIDTH, 2), Counterparts.of(SCHEMA)
    calls = []
    found = certify_local(
        network, population, metric, 1.0, attack=False, progress=lambda done, of: calls.append((done, of))
    )
    assert (found.lower == 0).all() and not found.witnesses.flips.any()
    assert set(found.decision) <= {"certified", "undecided"}
    assert (found.witnesses.counterpart == population.x).all()
    assert calls == [(8, 8)]
    assert found.upper == pytest.approx(certify_local(network, population, metric, 1.0).upper)


def test_verdicts_means_and_printing() -> None:
    population, rng = people(8), np.random.default_rng(0)
    found = certify_local(perceptron(rng, WIDTH, 2), population, Counterparts.of(SCHEMA), 1.0)
    assert set(found.verdict(1.0)) == {"certified"}
    middle = float((found.lower[0] + found.upper[0]) / 2)
    assert found.verdict(middle)[0] == "undecided"
    assert (found.verdict(0.0)[found.lower > 0] == "violated").all()
    assert found.mean_lower <= found.mean_upper
    row = int(found.lower.argmax())
    frame = found.witnesses.frame(row)
    assert list(frame.columns) == ["individual", "counterpart", "differs"]
    assert set(frame.loc["sex", ["individual", "counterpart"]]) <= {"f", "m"}
    said = float(found.witnesses[row].split()[1])
    assert found.lower[row] - 1e-6 <= said <= found.lower[row]
    moves = found.movement()
    assert moves.loc["sex", "moves"] == 1.0 and moves.loc["sex", "categories"] == 1.0
    assert moves.loc["job", "categories"] == 2.0
    assert moves.loc["home", "moves"] == 0.0 and moves.loc["born", "moves"] == 0.0
    assert moves.loc["rate", "most"] == pytest.approx(0.05, rel=1e-6)
    assert moves.loc["age", "most"] == pytest.approx(3.0, rel=1e-6)


def test_regressions_have_no_decision_without_a_cut_off() -> None:
    network = Network.from_layers([[[1.0, 0.0]]], [[0.0]], head="regression")
    x = np.array([[0.0, 0.0], [5.0, 0.0]])
    found = certify_local(network, x, Mahalanobis(np.eye(2)), 0.5)
    assert list(found.decision) == ["none", "none"]
    cut = certify_local(network, x, Mahalanobis(np.eye(2)), 0.5, threshold=0.1)
    assert list(cut.decision) == ["flippable", "certified"]
    many = Network(Graph((Node("input", width=2),)), "regression")
    assert certify_local(many, x, WeightedLp([1.0, 2.0], math.inf), 0.5).upper == pytest.approx([0.5, 0.5])


# -- too large numbers ----------------------------------------------------------------------------------------------


def overflowing(size: float, activation: str) -> Network:
    weights = [np.full((4, 3), size), np.full((4, 4), size), np.outer([1.0, -1.0], np.ones(4))]
    return Network.from_layers(weights, [np.zeros(4), np.zeros(4), np.zeros(2)], activation)


@pytest.mark.parametrize("size", [1e30, 1e100, 1e150])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_overflow_gives_the_trivial_bound(size: float, activation: str) -> None:
    network = overflowing(size, activation)
    found = certify_local(network, np.zeros((2, 3)), Mahalanobis(np.eye(3)), 0.1, attack=False, tier="interval")
    assert ((found.upper >= 0.49) & (found.upper <= 1)).all()
    assert (found.decision == "undecided").all()


@pytest.mark.skipif("tight" not in TIERS, reason="there is no such tier")
@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_overflow_gives_the_trivial_bound_with_linear_bounds(activation: str) -> None:
    network = overflowing(1e100, activation)
    found = certify_local(network, np.zeros((2, 3)), Mahalanobis(np.eye(3)), 0.1, attack=False, tier="tight")
    assert ((found.upper >= 0.49) & (found.upper <= 1)).all()


def test_a_candidate_that_overflows_costs_the_find_only() -> None:
    weights = [np.full((4, 3), 1e160), np.full((4, 4), 1e160), np.outer([1.0, -1.0], np.ones(4))]
    network = Network.from_layers(weights, [np.zeros(4), np.zeros(4), np.zeros(2)])
    found = certify_local(network, np.zeros((2, 3)), Mahalanobis(np.eye(3)), 0.1)
    assert (found.lower <= found.upper).all()


@pytest.mark.parametrize("seed", range(4))
def test_mean_bounds_hold_for_rational_means(seed: int) -> None:
    """``mean_upper`` is proved, so it is at least the exact weighted mean of the bounds; ``mean_lower`` at most."""
    rng = np.random.default_rng(seed)
    population = people(20, seed)
    population = replace(population, weights=rng.uniform(0.1, 3, len(population)))
    local = certify_local(perceptron(rng, WIDTH, 2), population, metrics(rng)[0], 1.0, attack=QUICK, tier="interval")
    weights = local.weights
    exact = [sum(Fraction(v) * Fraction(w) for v, w in zip(side, weights, strict=True)) / sum(map(Fraction, weights))
             for side in (local.lower, local.upper)]  # fmt: skip
    assert Fraction(local.mean_lower) <= exact[0] <= exact[1] <= Fraction(local.mean_upper)
    assert local.mean_upper == pytest.approx(float(exact[1]), rel=1e-14)
