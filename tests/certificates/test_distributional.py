"""``certify`` against closed answers, linear programs over discretised supports, and explicit populations."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.datasets.data_folder import FOLDER, needs_data

from isonomy.attacks import AttackBudget
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.certify import certify
from isonomy.certificates.profiles import table_of_profiles
from isonomy.errors import DataError, IsonomyError, ParameterError
from isonomy.networks.network import Network
from isonomy.population import Domain, Feature, Population, Schema, Split
from isonomy.similarity import Counterparts, Mahalanobis, SensitiveSubspace, WeightedLp
from studies import solvers

from .judge import SCHEMA, WIDTH, is_similar, is_somebody, metrics, people, perceptron, predicted
from .neighbours import mlp, neighbours, possible, slope, worst_pair

steady = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
orders = st.sampled_from([1.0, 1.5, 2.0, math.inf])
QUICK = AttackBudget(steps=8, restarts=0, branches=4)
COUNTERPARTS = Counterparts.of(SCHEMA)


def quietly(*arguments: object, **options: object) -> Certificate:
    return certify(*arguments, **{"progress": None, "attack": QUICK, **options})


def plainly(*arguments: object, **options: object) -> Certificate:
    """The upper side only, by a forward pass."""
    return quietly(*arguments, **{"attack": False, "tier": "interval", **options})


# -- closed answers ----------------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize(("order", "kind"), [(1.0, "l2"), (1.5, "l1"), (2.0, "linf"), (math.inf, "l2")])
def test_where_nothing_bends_no_shift_helps(order: float, kind: str) -> None:
    """An affine regression treats everybody equally unequally: δ‖w‖, wherever people move."""
    rng = np.random.default_rng(3)
    w, delta, gamma = rng.normal(size=2), 0.1, 0.2
    p, dual = {"l1": (1, math.inf), "l2": (2, 2), "linf": (math.inf, 1)}[kind]
    exact = delta * float(np.linalg.norm(w, dual))
    network = Network.from_layers([[w]], [[0.3]], head="regression")
    x = rng.uniform(-1, 1, (5, 2))
    found = quietly(
        network, x, WeightedLp([1, 1], p), delta, gamma, order=order, domain=possible("relaxed", [-2, -2], [2, 2])
    )
    assert found.upper == pytest.approx(exact, abs=1e-9) and found.upper >= exact - 1e-12
    assert found.lower == pytest.approx(exact, rel=1e-3) and found.lower <= exact
    wide = quietly(network, x, WeightedLp([1, 1], p), delta, gamma, order=order, output_range=(-5.0, 5.0), attack=False)
    # Of people beyond a distance of a million only the declared range is known.
    assert exact - 1e-12 <= wide.upper <= exact + 10 * gamma / 1e6 + 1e-9


def kink(a: float, delta: float, order: float, gamma: float) -> tuple[Network, Domain, np.ndarray, float]:
    """``relu`` on [−2, 2]: below −δ nobody is treated unequally, above 0 everybody by δ; and the exact answer.

    Half of the people stand at ``−δ − a``, half at 1. With ``a ≥ δ`` mass goes all the way, to 0, or not at all.
    """
    network = Network.from_layers([[[1.0]], [[1.0]]], [[0.0], [0.0]], "relu", "regression")
    cost = a + delta
    moved = (0.5 if cost <= gamma else 0.0) if math.isinf(order) else min(0.5, (gamma / cost) ** order)
    x = np.array([[-delta - a], [1.0]])
    return network, possible("relaxed", [-2], [2]), x, delta * (0.5 + moved)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "order", [1.0, math.inf, *(pytest.param(order, marks=pytest.mark.slow) for order in (1.5, 2.0))]
)
@pytest.mark.parametrize("gamma", [0.02, 0.6])
def test_two_atoms_and_a_kink(order: float, gamma: float) -> None:
    network, domain, x, exact = kink(0.5, 0.2, order, gamma)
    found = quietly(network, x, WeightedLp([1.0], 2), 0.2, gamma, order=order, domain=domain, attack=False)
    if math.isinf(order) and gamma == 0.6:
        exact = 0.15  # 0.1 further than the plateau's edge: half of the climb
    assert exact - 1e-12 <= found.upper <= 0.2 + 1e-9
    assert found.upper - 0.1 <= 2.5 * 2 ** (0 if math.isinf(order) else order) * (exact - 0.1) + 1e-9


def sigmoid_violation(z: np.ndarray, w: float, b: float, delta: float) -> np.ndarray:
    def s(t: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-t))

    t, h = w * z + b, abs(w) * delta
    return np.maximum(s(t + h) - s(t), s(t) - s(t - h))


def transported(
    x: np.ndarray, masses: np.ndarray, z: np.ndarray, value: np.ndarray, order: float, gamma: float
) -> float:
    """The best mean value of a population on the points ``z`` (shared by all) within γ: a linear program."""
    cost = np.abs(x[:, None] - z[None])
    if math.isinf(order):
        return float(masses @ np.where(cost <= gamma, value, -math.inf).max(axis=1))
    rows = np.kron(np.eye(len(x)), np.ones(len(z)))
    found = linprog(
        -np.tile(value, len(x)),
        A_ub=(cost**order).reshape(1, -1),
        b_ub=[gamma**order],
        A_eq=rows,
        b_eq=masses,
        method="highs",
    )
    assert found.status == 0
    return -float(found.fun)


@steady
@given(seed=seeds, order=orders, gamma=st.sampled_from([0.01, 0.1, 0.5, 2.0]), delta=st.sampled_from([0.02, 0.3]))
@example(seed=32850120, order=1.0, gamma=0.01, delta=0.02)
def test_a_sigmoid_on_a_line_against_a_linear_program(seed: int, order: float, gamma: float, delta: float) -> None:
    rng = np.random.default_rng(seed)
    w, b = float(rng.choice([-6.0, 1.0, 3.0])), float(rng.normal())
    n = int(rng.integers(1, 5))
    x = rng.normal(size=n)
    network = Network.from_layers([[[w]]], [[b]], head="sigmoid")
    found = quietly(network, x[:, None], WeightedLp([1.0], 2), delta, gamma, order=order)
    step = 0.01
    z = np.concatenate([x, np.arange(-6, 6, step)])
    value = sigmoid_violation(z, w, b, delta)
    masses = np.full(n, 1 / n)
    best = transported(x, masses, z, value, order, gamma)
    assert best <= found.upper + 1e-9
    # Whatever is attained is attained on the grid, when people may go half a step further.
    nearly = transported(x, masses, z, value, order, gamma + step / 2)
    assert found.lower <= nearly + abs(w) / 4 * step + 1e-9
    assert found.lower <= found.upper
    assert found.lower >= 0.6 * best
    assert found.upper - found.grid_error <= 1.6 * best + 1e-6  # one person on the tail may cost more than that


@pytest.mark.slow
def test_no_shift_is_the_mean_of_local_bounds_and_weights_are_repetitions() -> None:
    features = (
        Feature("rate", low=0.0, high=1.0, tolerance=0.05),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
    )
    frame = pd.DataFrame({"rate": [0.1, 0.4, 0.8, 0.5], "sex": ["f", "m", "m", "f"], "w": [3.0, 1.0, 2.0, 1.0]})
    weighted = Population.from_frame(frame, Schema("w", features, weight="w"))
    repeated = Population.from_frame(frame.loc[[0, 0, 0, 1, 2, 2, 3]].reset_index(drop=True), Schema("r", features))
    network = perceptron(np.random.default_rng(0), 3, 2)
    metric = Counterparts.of(weighted.schema)
    for gamma, order in ((0.0, 1.0), (0.0, math.inf), (0.1, 1.0), (0.1, 2.0), (0.3, math.inf)):
        one, other = (quietly(network, some, metric, 1.0, gamma, order=order) for some in (weighted, repeated))
        assert one.upper == pytest.approx(other.upper, rel=1e-9), (gamma, order)
        # Whoever stands there several times is searched as often.
        assert one.lower == pytest.approx(other.lower, rel=1e-4), (gamma, order)
        if gamma == 0:
            assert one.upper == pytest.approx(np.average(one.local.upper, weights=[3, 1, 2, 1]), rel=1e-12)
            assert one.lower == pytest.approx(np.average(one.local.lower, weights=[3, 1, 2, 1]), rel=1e-12)


def test_a_ground_cost_that_ignores_something_moves_people_for_nothing() -> None:
    """The flag is immutable for a pair, but a population without a flag is at distance 0 of one with it."""
    domain = possible("realizable", [0, 0], [1, 1], [(1, 2)], immutable=[False, True])
    network = Network.from_layers([[[10.0, -10.0]], [[1.0]]], [[0.0], [0.0]], "relu", "regression")
    metric, x = WeightedLp([1.0, 0.0], 2), np.array([[0.5, 1.0]])
    flat = quietly(network, x, metric, 0.1, 0.0, ground=metric, domain=domain)
    assert flat.upper >= 1.0 - 1e-9  # at (0.5, 0), where 10 · 0.1 is the violation
    assert flat.largest_gamma(0.5) is None
    some = quietly(network, x, metric, 0.1, 0.01, ground=metric, domain=domain)
    assert (some.curve([0.0, 0.01]).upper >= 1.0 - 1e-9).all() and some.lower > 0.9
    inf = quietly(network, x, metric, 0.1, 0.0, ground=metric, domain=domain, order=math.inf)
    assert inf.upper >= 1.0 - 1e-9
    assert quietly(network, x, metric, 0.1, 0.0, domain=domain).upper < 1e-9  # with l2 the flag costs 1


def test_a_ground_cost_whose_diagonal_is_free() -> None:
    """Nothing is said of the largest distance by the corners of the domain alone."""
    network = Network.from_layers([[[1.0, 2.0]]], [[0.0]], head="sigmoid")
    domain = possible("relaxed", [0, 0], [1, 1])
    for root in ([[1.0, -1.0]], [[1.0, -1.0], [0.0, 1e-3]]):
        found = quietly(
            network, [[0.5, 1.0]], WeightedLp([1, 1], 2), 0.1, 0.1, ground=Mahalanobis.from_root(root), domain=domain
        )
        # Free moves along the diagonal lead to (0, 0.5), where t = 1.
        exact = float(sigmoid_violation(np.array([1.0]), 1.0, 0.0, 0.1 * math.sqrt(5)).item())
        assert found.upper >= exact - 1e-9 and max(found.schedule.rungs) > 0.02


# -- the whole of it on people -------------------------------------------------------------------------------------


def check_worst_case(found: Certificate, network: Network, kind: str) -> None:
    """Atoms, masses, cost and value, all again."""
    worst, problem = found.worst_case, found.problem
    points, weights = worst.points, found.weights
    assert all(is_somebody(kind, z) for z in points.person)
    for i, weight in enumerate(weights):
        parts = [Fraction(float(m)) for m in worst.masses[points.owner == i]]
        assert sum(parts, Fraction(0)) == Fraction(float(weight))
    root, p = found.ground.gauge()
    move = points.person.astype(object) - found.x[points.owner].astype(object)
    with mpmath.workdps(60):
        total, costs = mpmath.fsum(map(mpmath.mpf, weights.tolist())), []
        for x, z in zip(found.x[points.owner], points.person, strict=True):
            v = [mpmath.mpf(float(b)) - mpmath.mpf(float(a)) for a, b in zip(x, z, strict=True)]
            image = [mpmath.fsum(mpmath.mpf(float(r)) * s for r, s in zip(row, v, strict=True)) for row in root]
            if not len(root):  # ℓ∞ with unit weights
                image, p = v, math.inf
            costs.append(mpmath.norm(image, mpmath.inf if math.isinf(p) else p) if any(image) else mpmath.mpf(0))
        if math.isinf(found.order):
            assert max(costs) <= mpmath.mpf(found.gamma)
        else:
            spent = mpmath.fsum(mpmath.mpf(float(m)) * c**found.order for m, c in zip(worst.masses, costs, strict=True))
            assert spent <= total * mpmath.mpf(found.gamma) ** found.order
    assert len(move) == len(worst)
    for z, y in zip(points.person, points.counterpart, strict=True):
        assert is_somebody(kind, y) and is_similar(problem.metric, z, y, problem.delta)
        if kind != "unbounded":
            assert (z[SCHEMA.slices["born"]] == y[SCHEMA.slices["born"]]).all()
    value = np.abs(predicted(network, points.person) - predicted(network, points.counterpart)).max(axis=1)
    mean = float((worst.masses.astype(np.longdouble) @ value) / weights.sum())
    assert mean >= found.lower - 1e-12
    assert 0 <= found.lower <= found.upper + 1e-15
    assert worst.transport <= found.gamma * (1 + 1e-9) + 1e-15


def explicit_transport(found: Certificate, rng: np.random.Generator, count: int = 12) -> float:
    """The best mean violation of a population put together from people found by trial, a linear program."""
    problem, order, gamma = found.problem, found.order, found.gamma
    free = replace(problem.domain, immutable=np.zeros(problem.domain.width, dtype=bool))
    owner, cost, value = [], [], []
    for i, x in enumerate(found.x):
        radii = [gamma] if math.isinf(order) else [gamma / 2, gamma, 3 * gamma, 10 * gamma + 1]
        for radius in [0.0, *radii]:
            near = neighbours(rng, free, found.ground, radius, x, count, slope(problem.model, x))
            for z in near[rng.permutation(len(near))[: count // 2]]:
                owner.append(i)
                cost.append(float(found.ground.distance_upper(x, z)))
                value.append(
                    worst_pair(rng, problem.model, problem.domain, problem.metric, problem.delta, z[None], 15)[0]
                )
    who, masses = np.array(owner), found.weights / found.weights.sum()
    if math.isinf(order):
        return float(sum(m * max(v for v, o in zip(value, owner, strict=True) if o == i) for i, m in enumerate(masses)))
    rows = (who[None] == np.arange(len(masses))[:, None]).astype(float)
    best = linprog(
        -np.array(value), A_ub=[np.array(cost) ** order], b_ub=[gamma**order], A_eq=rows, b_eq=masses, method="highs"
    )
    assert best.status == 0
    return -float(best.fun)


@settings(steady, max_examples=8)
@given(
    seed=seeds,
    kind=st.sampled_from(["realizable", "realizable", "relaxed", "unbounded"]),
    which=st.integers(0, 5),
    ground=st.sampled_from(["l1", "l2", "linf", "metric"]),
    order=orders,
    gamma=st.sampled_from([0.02, 0.3, 1.2]),
    tier=st.sampled_from(["tight", "tight", "interval"]),
)
def test_people_their_worst_case_and_explicit_populations(
    seed: int, kind: str, which: int, ground: str, order: float, gamma: float, tier: str
) -> None:
    rng = np.random.default_rng(seed)
    metric = metrics(rng)[5 if kind == "unbounded" else which]
    cost = metric if ground == "metric" and which else ("l2" if ground == "metric" else ground)
    population = people(3, seed % 1000, kind)
    network = perceptron(rng, WIDTH, 2)
    found = quietly(
        network, population, metric, float(rng.choice([0.05, 0.5])), gamma, order=order, ground=cost, tier=tier
    )
    if found.ground.gauge()[0].size or cost == "linf":
        check_worst_case(found, network, kind)
    assert explicit_transport(found, rng) <= found.upper + 1e-9


@pytest.mark.slow
@settings(steady, max_examples=3)
@given(seed=seeds, order=orders)
def test_every_activation_and_head(seed: int, order: float) -> None:
    rng = np.random.default_rng(seed)
    network = mlp(rng, 3)
    x, metric = rng.uniform(-1, 1, (3, 3)), Mahalanobis.from_root(rng.normal(size=(3, 3)) + 2 * np.eye(3))
    domain = possible("relaxed", [-2] * 3, [2] * 3)
    found = quietly(network, x, metric, 0.2, 0.3, order=order, domain=domain)
    rough = quietly(network, x, metric, 0.2, 0.3, order=order, domain=domain, tier="interval", attack=False)
    assert explicit_transport(found, rng) <= min(found.upper, rough.upper) + 1e-9
    assert found.lower <= found.upper
    assert found.upper <= rough.upper * 1.01  # the radii that are worth bounding differ between tiers
    assert rough.lower == 0 or rough.lower <= rough.upper


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    rng = np.random.default_rng(5)
    return quietly(perceptron(rng, WIDTH, 2), people(12, 5), COUNTERPARTS, 1.0, 0.1, epsilon=0.2)


def test_the_curve(certificate: Certificate) -> None:
    gammas = [0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 2.0, 100.0]
    curve = certificate.curve(gammas)
    assert curve.gamma.tolist() == gammas
    assert (np.diff(curve.upper) >= -1e-12).all() and (np.diff(curve.lower) >= -1e-12).all()
    assert (curve.lower <= curve.upper).all()
    assert curve.upper[3] == certificate.upper and curve.lower[3] == certificate.lower
    assert curve.upper[0] <= certificate.local.upper.mean() * (1 + 1e-12)
    assert curve.upper.iloc[-1] <= certificate.profiles.largest + 1e-12
    assert certificate.grid_error >= 0
    with pytest.raises(ParameterError, match="'gamma'"):
        certificate.curve([-1.0])


def test_fair_up_to_a_shift(certificate: Certificate) -> None:
    base, top = certificate.curve([0.0, 1e9]).upper
    assert certificate.largest_gamma(base * 0.9) is None
    assert certificate.largest_gamma(top + 1e-9) == math.inf
    for share in (0.2, 0.5, 0.9):
        epsilon = base + share * (top - base)
        gamma = certificate.largest_gamma(epsilon)
        assert gamma is not None
        assert (
            certificate.curve([gamma]).upper[0] <= epsilon < certificate.curve([gamma * 1.001 + 1e-9]).upper[0] + 1e-9
        )
    assert certificate.largest_gamma(certificate.upper) >= certificate.gamma * (1 - 1e-9)


def test_verdicts() -> None:
    rng = np.random.default_rng(5)
    network, some = perceptron(rng, WIDTH, 2), people(3, 5)
    plain = quietly(network, some, COUNTERPARTS, 1.0, 0.1)
    assert 0 < plain.lower < plain.upper
    with pytest.raises(ParameterError, match="'epsilon' must be given"):
        _ = plain.verdict
    middle = (plain.lower + plain.upper) / 2
    for epsilon, verdict in ((plain.upper, "certified"), (middle, "undecided"), (plain.lower * 0.9, "violated")):
        again = replace(plain, epsilon=epsilon)
        assert (again.upper, again.lower, again.verdict) == (plain.upper, plain.lower, verdict)
    said = [float(number) for number in re.findall(r"0\.\d{4}", str(plain))]
    assert plain.upper <= said[0] <= plain.upper + 1e-4 and plain.lower - 1e-4 <= said[1] <= plain.lower
    table = plain.worst_case.frame()
    assert table["mass"].sum() == pytest.approx(1) and set(table["individual"]) == set(range(3))
    assert float(table["mass"] @ table["violation"]) == pytest.approx(plain.lower)


def test_a_certificate_says_the_sentence_of_the_report() -> None:
    """Of a shift by its very number, of nobody but the individuals at γ = 0, and that nobody was searched."""
    network, some = perceptron(np.random.default_rng(5), WIDTH, 2), people(3, 5)
    found = quietly(network, some, COUNTERPARTS, 1.0, 0.12345678)
    assert str(found).startswith(
        "No population within 0.12345678 of these 3 individuals has an average largest change above 0."
    )
    assert "; an explicit population reaches 0." in str(found)
    assert found.headline("0.0001", "0.0000").endswith("above 0.0001; an explicit population reaches less than 0.0001.")
    assert found.headline("1", None).endswith("above 1; a search found no change.")
    assert replace(found, searched=False).headline("1", None).endswith("above 1; no change was searched for.")
    still = replace(found, shift=found.shift.resized(0.0))
    assert str(still).startswith("The average largest change over these 3 individuals is at most 0.")
    assert "; counterparts that were found reach 0." in str(still)


def test_a_weighted_mean_is_not_called_the_mean() -> None:
    """The worst treated of three may weigh nothing: then their plain mean is above the bound."""
    network, some = perceptron(np.random.default_rng(5), WIDTH, 2), people(3, 5)
    plain = quietly(network, some, COUNTERPARTS, 1.0, 0.0)
    assert "(weighted)" not in f"{plain}{plain.local}"
    weights = np.where(plain.local.lower == plain.local.lower.max(), 0.0, 1.0)
    found = quietly(network, replace(some, weights=weights), COUNTERPARTS, 1.0, 0.0)
    assert found.upper < plain.lower
    assert str(found).startswith("The average largest change over these 3 individuals (weighted) is at most 0.")
    moved = replace(found, shift=found.shift.resized(0.1))
    assert str(moved).startswith(
        "No population within 0.1 of these 3 individuals (weighted) has an average largest change"
    )
    assert "3 individuals (weighted): average largest change at most" in str(found.local)


@pytest.mark.slow
def test_float32_runs_are_covered_too() -> None:
    rng = np.random.default_rng(8)
    network, some = perceptron(rng, WIDTH, 2), people(3, 8)
    one, other = (
        quietly(network, some, COUNTERPARTS, 1.0, 0.1, arithmetic=a, attack=False) for a in ("float64", "float32")
    )
    assert one.upper <= other.upper <= one.upper + 1e-3


# -- the population behind the sample --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_population_is_only_judged_by_people_that_nothing_was_fitted_on() -> None:
    network, whole = perceptron(np.random.default_rng(1), WIDTH, 2), people(400, 1)
    for some, name in ((whole, "table as given"), (whole.train, "training part of the table")):
        found = plainly(network, some[:3], COUNTERPARTS, 1.0, 0.05, confidence=0.9)
        with pytest.raises(DataError, match=f"of the {name}"):
            _ = found.population_upper
    learned = Mahalanobis.fit(whole.test)
    with pytest.raises(DataError, match=r"metric was fitted on people \(test\).*fit it on the training part"):
        _ = plainly(network, whole.test.sample(3), learned, 0.1, 0.05, confidence=0.9).population_upper
    with pytest.raises(DataError, match="give 'confidence'"):
        _ = plainly(network, whole.test.sample(3), COUNTERPARTS, 1.0, 0.05).population_upper
    fitted = plainly(
        network, whole.test.sample(100), Mahalanobis.fit(whole.train), 0.1, 0.05, confidence=0.9, epsilon=1.0
    )
    assert fitted.upper < fitted.population_upper <= fitted.profiles.largest
    assert fitted.population_verdict == "certified"


def test_a_population_is_judged_by_a_random_draw_and_not_by_chosen_people() -> None:
    network, whole = perceptron(np.random.default_rng(1), WIDTH, 2), people(400, 1)

    def refusal(some: Population) -> str:
        return plainly(network, some, COUNTERPARTS, 1.0, 0.0, confidence=0.9).refusal

    assert not refusal(whole.test.sample(5)) and not refusal(whole.sample(40).test) and not refusal(whole.test[:])
    assert "chosen by hand" in refusal(whole.test[:5])
    assert "chosen by hand" in refusal(whole.test[np.flatnonzero(whole.test.x[:, 0] > 0)].sample(2))
    assert "of the table as given, on which" in refusal(whole.sample(5))
    assert "of the training part of the table, on which" in refusal(whole.train)
    assert not refusal(whole.sample(5).held_out()) and not refusal(whole.held_out().sample(5))
    assert refusal(whole.held_out()[:5])  # what was said of everybody is not said of those picked out afterwards


def test_weights_that_are_alike_by_chance_say_nothing_of_heavier_people() -> None:
    """One in ten thousand may weigh as much as all others together: a sample without them would be the one to speak."""
    network, whole = perceptron(np.random.default_rng(1), WIDTH, 2), people(60, 1)
    for limit, good in ((None, False), (500.0, False), (2.0, True)):
        schema = replace(whole.schema, weight="w", max_weight=limit)
        some = Population.from_frame(whole.frame.assign(w=2.0), schema).test.sample(5)
        refusal = plainly(network, some, COUNTERPARTS, 1.0, 0.0, confidence=0.9).refusal
        assert refusal == "" if good else "weigh more than all of them" in refusal


def test_a_ground_metric_counts_as_fitted_too() -> None:
    network, whole = perceptron(np.random.default_rng(1), WIDTH, 2), people(400, 1)
    for fitted, good in ((whole.test, False), (whole.train, True)):
        ground = Mahalanobis.fit(fitted)
        found = plainly(network, whole.test.sample(3), COUNTERPARTS, 1.0, 0.05, ground=ground, confidence=0.9)
        assert good == (found.refusal == "")
        assert good or "The ground metric was fitted on people" in found.refusal


def test_the_same_row_twice_is_not_two_draws() -> None:
    network, some = perceptron(np.random.default_rng(1), WIDTH, 2), people(40, 1).test
    for chosen, good in ((some.sample(2), True), (some[[0, 0]], False)):
        refusal = plainly(network, chosen, COUNTERPARTS, 1.0, 0.05, confidence=0.9).refusal
        assert refusal == "" if good else "more than once" in refusal


@pytest.mark.slow
def test_households() -> None:
    network, whole = perceptron(np.random.default_rng(1), WIDTH, 2), people(60, 1)
    table = whole.frame.assign(door=np.arange(60) // 3, part=np.where(np.arange(60) // 3 % 2, "train", "test"))
    apart = Population.from_frame(table, replace(whole.schema, split=Split("part"))).test
    ask = {"confidence": 0.9, "max_cluster": 4}
    found = plainly(network, apart, COUNTERPARTS, 1.0, 0.05, cluster="door", **ask)
    alone = plainly(network, apart, COUNTERPARTS, 1.0, 0.05, confidence=0.9)
    assert alone.population_upper < found.population_upper <= found.profiles.largest
    assert (found.population.individuals, found.population.clusters) == (len(apart), apart.frame["door"].nunique())
    given = plainly(network, apart, COUNTERPARTS, 1.0, 0.05, cluster=apart.frame["door"].to_list(), **ask)
    assert given.population_upper == found.population_upper
    each = plainly(
        network, apart, COUNTERPARTS, 1.0, 0.05, confidence=0.9, cluster=np.arange(len(apart)), max_cluster=1
    )
    assert each.population_upper == alone.population_upper
    torn = plainly(network, whole.test, COUNTERPARTS, 1.0, 0.05, cluster=np.zeros(len(whole.test)), confidence=0.9,
                   max_cluster=100)  # fmt: skip
    assert "row by row" in torn.refusal and "[split]" in torn.refusal
    thinned = plainly(network, apart.sample(20), COUNTERPARTS, 1.0, 0.05, cluster="door", **ask)
    assert "drawn one by one" in thinned.refusal


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cluster": [1, 1, 2]}, "'max_cluster' must be the most people"),
        ({"cluster": [1, 1, 2], "max_cluster": 1}, "at least 2, the most here"),
        ({"cluster": [1, 1, 2], "max_cluster": 2.5}, "'max_cluster' must be"),
        ({"cluster": [1, 2], "max_cluster": 2}, "'cluster' must be a label for each of 3 individuals"),
        ({"cluster": [1, None, 2], "max_cluster": 2}, "no label for individual 1"),
        ({"cluster": "nowhere", "max_cluster": 2}, "no column 'nowhere'"),
        ({"max_cluster": 2}, "give that too"),
    ],
)
def test_clusters_that_are_none(options: dict[str, Any], said: str) -> None:
    network = perceptron(np.random.default_rng(1), WIDTH, 2)
    with pytest.raises(IsonomyError, match=re.escape(said)):
        plainly(network, people(3, 1), COUNTERPARTS, 1.0, 0.05, confidence=0.9, **options)


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gamma": -0.1}, "'gamma' must be"),
        ({"gamma": math.nan}, "'gamma' must be"),
        ({"order": 0.5}, "'order' must be"),
        ({"order": math.nan}, "'order' must be"),
        ({"epsilon": -1.0}, "'epsilon' must be"),
        ({"epsilon": math.nan}, "'epsilon' must be"),
        ({"confidence": 0.0}, "'confidence' must be"),
        ({"confidence": 1.0}, "'confidence' must be"),
        ({"tier": "exact"}, "'tier' must be"),
        ({"ground": "l3"}, "'ground' must be"),
        ({"ground": WeightedLp([1.0], 2)}, "'ground' must be"),
        ({"delta": -1.0}, "'delta' must be"),
    ],
)
def test_wrong_parameters_are_named(options: dict[str, object], said: str) -> None:
    network = Network.from_layers([[[1.0, 2.0]]], [[0.0]], head="sigmoid")
    arguments = {"metric": WeightedLp([1, 1], 2), "delta": 0.1, "gamma": 0.1, **options}
    with pytest.raises(IsonomyError, match=said) as error:
        quietly(network, [[0.0, 1.0]], **arguments)
    assert str(error.value).count("\n") == 0 and len(str(error.value)) < 300


def test_an_unlimited_regression_needs_a_range() -> None:
    network = Network.from_layers([[[1.0]], [[1.0]]], [[0.0], [0.0]], "relu", "regression")
    metric = WeightedLp([1.0], 2)
    with pytest.raises(ParameterError, match="output_range"):
        quietly(network, [[0.0]], metric, 0.1, 0.1)
    for wrong in ((1.0, 0.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(ParameterError, match="'output_range' must be None or two finite numbers"):
            quietly(network, [[0.0]], metric, 0.1, 0.1, output_range=wrong)
    assert quietly(network, [[0.0]], metric, 0.1, 0.1, output_range=(0.0, 3.0)).upper <= 3.0


def test_the_arrays_of_the_caller_stay_as_they_are() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    before = x.copy()
    quietly(mlp(np.random.default_rng(2), 3), x, WeightedLp([1, 1, 1], 2), 0.1, 0.1, output_range=(-9.0, 9.0))
    assert (x == before).all()


# -- why not as in the paper -------------------------------------------------------------------------------------------


def test_an_ascent_stops_below_what_an_explicit_population_reaches() -> None:
    """Half of the people stand on a plateau: an ascent sees no slope there; a few of them sent across it reach more."""
    delta, gamma = 0.2, 0.05
    network, domain, x, exact = kink(0.5, delta, 1.0, gamma)
    found = quietly(network, x, WeightedLp([1.0], 2), delta, gamma, domain=domain)
    radii, values = table_of_profiles(found.profiles)
    values = np.minimum.accumulate(np.minimum(values, found.profiles.largest)[:, ::-1], axis=1)[:, ::-1]
    profile = solvers.interpolated(radii, values)
    ascents = [solvers.quasi_subgradient(profile, 2, gamma, step=s).value for s in (0.01, 0.1)]
    ascents.append(solvers.rescaled_gradient(profile, 2, gamma, step=0.1).value)
    # An explicit population: a share of the first person's mass moves from −0.7 to 0, at a cost of 0.7.
    share = gamma / (0.5 + delta)
    violation = [abs(float(network([[z]]).item() - network([[z + delta]]).item())) for z in (x[0, 0], 0.0, x[1, 0])]
    reached = (0.5 - share) * violation[0] + share * violation[1] + 0.5 * violation[2]
    assert reached == pytest.approx(exact)
    assert max(ascents) < reached - 1e-3 <= found.upper - 1e-3
    assert found.lower <= reached + 1e-12


# -- a real table ------------------------------------------------------------------------------------------------------


@needs_data
@pytest.mark.slow
def test_income_in_california(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plainly trained network with 2 × 256 neurons: what the paper's boxes leave at 1.0."""
    from studies.surveys import load_population

    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))
    whole = load_population("acs-income", encoding="paper", states=["CA"], years=[2018], download=False)
    train, test = whole.train, whole.test
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(whole.x.shape[1], 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 2),
    )
    x, y = torch.tensor(train.x, dtype=torch.float32), torch.tensor(np.asarray(train.y))
    optimiser, epochs = torch.optim.Adam(module.parameters(), lr=1e-3), 6
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * (1 - epoch / epochs)
        for batch in torch.randperm(len(x)).split(512):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
    network = Network.from_torch(module.double())
    assert (network(test.x).argmax(axis=1) == np.asarray(test.y)).mean() >= 0.80
    metric = SensitiveSubspace.fit(train, ridge=1.0)
    some = test.sample(1000, seed=0)
    for kind, target in (("unbounded", 0.28), ("realizable", 0.08)):
        found = certify(network, some, metric, 0.05, 0.1, domain=kind, progress=None)
        assert 0 < found.lower <= found.upper <= target, (kind, found.lower, found.upper)
