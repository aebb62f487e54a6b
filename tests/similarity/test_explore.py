from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.contracts.metric import MetricContract, exact_gauge

from isonomy.errors import DataError, ParameterError
from isonomy.similarity import Explore
from isonomy.similarity.explore import _objective

from .people import people


def answers(truth: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs, and what people who follow the model with the precision `truth` would say."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.normal(size=(2, n, len(truth)))
    squared = np.einsum("ki,ij,kj->k", x1 - x2, truth, x1 - x2)
    return x1, x2, rng.random(n) < 2 / (1 + np.exp(squared))


@cache
def learned() -> tuple[Explore, ...]:
    return tuple(
        Explore.fit(*answers(np.diag(np.linspace(0, 2, m)), 20, seed), steps=30) for m in (1, 2, 4) for seed in (0, 1)
    )


class TestExplore(MetricContract):
    @staticmethod
    def metrics() -> st.SearchStrategy[Explore]:
        return st.sampled_from(learned())

    @staticmethod
    def exact(metric: Explore, x: np.ndarray, y: np.ndarray) -> Any:
        return exact_gauge(metric, x, y)  # the root is the definition


def test_recovers_the_metric_behind_the_answers() -> None:
    truth = np.array([[0.6, 0.3, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0]])
    metric = Explore.fit(*answers(truth, 20000), regularisation=0.0)
    assert metric.precision == pytest.approx(truth, abs=0.05)
    assert metric.fitted_on.startswith("20000 pairs, ")


def test_is_a_minimum_and_deterministic() -> None:
    """No direction that keeps the matrix positive semi-definite leads down."""
    x1, x2, said = answers(np.diag([0.5, 0.2, 0.0]), 500)
    metric = Explore.fit(x1, x2, said, regularisation=0.01)
    least, gradient = _objective(metric.precision, x1 - x2, said, 0.01)
    rng = np.random.default_rng(3)
    for _ in range(50):
        factor = rng.normal(size=(3, 3))
        towards = factor.T @ factor - metric.precision
        assert _objective(metric.precision + 1e-3 * towards, x1 - x2, said, 0.01)[0] >= least - 1e-9
    assert np.linalg.eigvalsh(gradient).min() >= -1e-4
    assert Explore.fit(x1, x2, said, regularisation=0.01).root.tobytes() == metric.root.tobytes()


def test_gradient_is_the_derivative() -> None:
    x1, x2, said = answers(np.eye(3) * 0.4, 30)
    at = np.eye(3) * 0.3
    _, gradient = _objective(at, x1 - x2, said, 0.1)
    for i in range(3):
        step = np.zeros((3, 3))
        step[i, i] = 1e-6
        ahead, behind = (_objective(at + s * step, x1 - x2, said, 0.1)[0] for s in (1, -1))
        assert gradient[i, i] == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_stays_finite_when_the_answers_can_be_separated() -> None:
    x1 = np.zeros((4, 2))
    x2 = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    metric = Explore.fit(x1, x2, [True, True, False, False])  # the last pair: equal, yet not comparable
    assert metric.distance([0, 0], [1, 0]) < 1e-2 < 1 < metric.distance([0, 0], [0, 1]) < 100


def test_protected_coordinates_of_a_population_are_free() -> None:
    population = people(n=60)
    metric = Explore.fit(population[:30], population[30:], np.arange(30) % 2, population=population, steps=50)
    assert metric.free[population.schema.protected_coordinates].all()
    assert metric.names == population.schema.coordinate_names


def test_bad_pairs_are_named() -> None:
    x = np.zeros((3, 2))
    with pytest.raises(ParameterError, match="'comparable' must be 3 answers"):
        Explore.fit(x, x, [1, 0, 2])
    with pytest.raises(ParameterError, match="'x2' must be as many rows"):
        Explore.fit(x, x[:2], [1, 0, 1])
    with pytest.raises(ParameterError, match="'regularisation'"):
        Explore.fit(x, x, [1, 0, 1], regularisation=-1)
    x[1, 1] = np.nan
    with pytest.raises(DataError, match="'x1' must be finite: row 1"):
        Explore.fit(x, np.zeros((3, 2)), [1, 0, 1])
