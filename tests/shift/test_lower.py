"""The lower bound: feasible everywhere, in its range, and not above the truth more often than it may be."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.confidence import mean_lower
from isonomy.shift.distance import wasserstein
from isonomy.shift.lower import Potentials, Rows, Slope, evaluate, fit_witnesses
from isonomy.shift.transport import GroundCost
from isonomy.similarity import Mahalanobis, Metric, WeightedLp
from isonomy.similarity.ground import ground_metric

Array = np.ndarray[Any, np.dtype[np.float64]]
GROUNDS: dict[str, Metric] = {
    "l1": ground_metric("l1", 3),
    "l2": ground_metric("l2", 3),
    "linf": ground_metric("linf", 3),
    "singular": Mahalanobis.from_root([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]]),
    "weighted": WeightedLp([0.0, 3.0, 0.2], 1.0),
}


def rows(x: Array) -> Rows:
    return Rows(x, np.ones(len(x)))


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("order", [1.0, 1.7, 2.0, 6.0, math.inf])
@given(seed=st.integers(0, 10_000), wide=st.sampled_from([0.1, 1.0, 5.0, 50.0]))
@settings(max_examples=6, deadline=None)
def test_witnesses_are_feasible_everywhere(ground: str, order: float, seed: int, wide: float) -> None:
    """φ(x) + ψ(y) ≤ c(x, y)^q at points that the fit has never seen, near and far; and both stay in their range."""
    rng = np.random.default_rng(seed)
    metric = GROUNDS[ground]
    fitted = rng.normal(size=(8, 3)), rng.normal(size=(9, 3)) + rng.normal(size=3) * 2
    x = np.concatenate([*fitted, wide * rng.normal(size=(20, 3))])
    y = np.concatenate([*fitted, wide * rng.normal(size=(20, 3)), x + 1e-9])
    costs = np.array([metric.distance(person, y) for person in x])
    witnesses = fit_witnesses(rows(fitted[0]), rows(fitted[1]), GroundCost.of(metric), order)
    assert any(isinstance(witness, Potentials) for witness in witnesses)
    for witness in witnesses:
        assert 1.0 <= witness.order <= order
        one, other = witness.one(x), witness.other(y)
        together = one[:, None] + other[None, :]
        assert (together <= (costs / witness.unit) ** witness.order * (1 + 1e-12) + 1e-15).all()
        for values, (low, high) in zip((one, other), witness.ranges, strict=True):
            assert (values >= low - 1e-9).all() and (values <= high).all()


@given(seed=st.integers(0, 10_000), order=st.sampled_from([1.0, 1.3, 2.0, 5.0]))
@settings(max_examples=40, deadline=None)
def test_any_heights_are_feasible(seed: int, order: float) -> None:
    """Nothing depends on the transport problem having been solved."""
    rng = np.random.default_rng(seed)
    cost = GroundCost.of(ground_metric("l2", 2))
    points = rng.normal(size=(6, 2))
    witness = Potentials(cost, points, rng.normal(size=6), float(rng.exponential() + 0.1), order, 10.0)
    x, y = rng.normal(size=(2, 60, 2)) * 2
    costs = np.linalg.norm(x[:, None] - y[None], axis=2)
    assert (witness.one(x)[:, None] + witness.other(y) <= (costs / witness.unit) ** order + 1e-12).all()


def test_a_slope_is_clipped() -> None:
    cost = GroundCost.of(ground_metric("l2", 1)).along(np.array([1.0]))
    slope = Slope(cost, -1.0, 2.0)
    assert np.allclose(slope.other(np.array([[-5.0], [0.5], [9.0]])), [-1.0, 0.5, 2.0])
    assert np.allclose(slope.one(np.array([[-5.0], [0.5], [9.0]])), [1.0, -0.5, -2.0])


def test_a_witness_proves_what_it_can() -> None:
    """Two atoms at distance 5, all the mass moved: with many individuals the bound comes close to 5."""
    one, other = np.zeros((4000, 2)), np.tile([3.0, 4.0], (4000, 1))
    for order in (1.0, 2.0, math.inf):
        witnesses = fit_witnesses(rows(one[:50]), rows(other[:50]), GroundCost.of(ground_metric("l2", 2)), order)
        proved = [evaluate(witness, rows(one), rows(other), 0.05) for witness in witnesses]
        assert 4.9 < max(proved) <= 5.0


@pytest.mark.some(2)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.9, pytest.param(0.3, marks=pytest.mark.slow)])
def test_the_mean_is_above_its_lower_bound(share: float, weighted: bool) -> None:
    """600 samples of yes and no; the bound may fail in 10 % of them; 14 % is three standard errors more."""
    rng = np.random.default_rng(0)
    failures, found = 0, []
    for _ in range(600):
        values = (rng.random(300) < share).astype(float)
        weights = np.where(values == 1.0, 0.5, 1.0) if weighted else np.ones(300)
        truth = share * 0.5 / (share * 0.5 + 1 - share) if weighted else share
        found.append(mean_lower(3.0 * values - 1.0, weights, -1.0, 2.0, 0.1))
        failures += found[-1] > 3.0 * truth - 1.0
    assert failures <= 84
    assert np.mean(found) > 3.0 * (truth - 0.25 * math.sqrt(share)) - 1.0  # and it is not trivial


def test_the_mean_of_nothing_or_of_a_constant() -> None:
    assert mean_lower(np.zeros(0), np.zeros(0), -1.0, 1.0, 0.05) == -1.0
    assert mean_lower(np.zeros(5), np.ones(5), 0.0, 0.0, 0.05) == 0.0
    assert 0.99 < mean_lower(np.ones(2000), np.ones(2000), 0.0, 1.0, 0.05) <= 1.0


def simulate(kind: str, order: float, n: int, rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Two populations whose distance is known."""
    if kind == "same":
        return rng.normal(size=(n, 2)), rng.normal(size=(n, 2)), 0.0
    if kind == "translation":
        return rng.normal(size=(n, 2)), rng.normal((0.3, 0.4), size=(n, 2)), 0.5
    # Two atoms, where W_p is far above W_1: 0.2 of the mass crosses a distance of 1.
    one, other = (rng.random((n, 1)) < share for share in (0.1, 0.3))
    return one.astype(float), other.astype(float), 0.2 ** (1 / order)


def failures(kind: str, order: float, confidence: float, repetitions: int) -> tuple[int, float]:
    rng = np.random.default_rng(12)
    count, found = 0, []
    for seed in range(repetitions):
        one, other, truth = simulate(kind, order, 160, rng)
        result = wasserstein(one, other, order=order, sample=60, repeats=1, confidence=confidence, seed=seed)
        count += result.lower > truth
        found.append(result.lower)
    return count, float(np.mean(found))


@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize("kind", ["same", "translation", "atoms"])
def test_lower_is_rarely_above_the_truth(kind: str, order: float) -> None:
    """At confidence 0.8 in 25 repetitions: more than 12 failures have a probability below one in a thousand."""
    assert failures(kind, order, 0.8, 25)[0] <= 12


def test_pairs_are_split_alike() -> None:
    """Everybody mirrored, of a symmetric population: nobody may be judged whose pair the witness was fitted on."""
    rng, alarms = np.random.default_rng(0), 0
    for seed in range(12):
        x = rng.choice([-1.0, 1.0], size=(100, 1000))
        alarms += wasserstein(x, -x, ground="l1", repeats=1, confidence=0.8, seed=seed).lower > 0.0
    assert alarms <= 7


@pytest.mark.slow
@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("kind", ["same", "translation", "atoms"])
def test_lower_holds_with_its_confidence(kind: str, order: float) -> None:
    """At confidence 0.8 in 400 repetitions, a failure rate of 0.2 would show 0.26 only by three standard errors."""
    count, _ = failures(kind, order, 0.8, 400)
    assert count <= 0.26 * 400
    assert failures(kind, order, 0.95, 400)[0] <= 0.083 * 400
