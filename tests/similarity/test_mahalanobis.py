from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.contracts.metric import MetricContract, at_most, exact_gauge

from isonomy.errors import MetricError, ParameterError
from isonomy.similarity import Mahalanobis

from .people import people


@st.composite
def precisions(draw: st.DrawFn) -> np.ndarray:
    """Positive semi-definite matrices of any rank, some with coordinates that nothing touches."""
    m = draw(st.integers(1, 5))
    rank = draw(st.integers(0, m))
    entries = draw(st.lists(st.floats(-3, 3), min_size=rank * m, max_size=rank * m))
    factor = np.array(entries).reshape(rank, m) * 10.0 ** draw(st.integers(-100, 100))
    factor[:, draw(st.lists(st.integers(0, m - 1), max_size=2))] = 0.0
    return factor.T @ factor


class TestMahalanobis(MetricContract):
    @staticmethod
    def metrics() -> st.SearchStrategy[Mahalanobis]:
        return st.builds(Mahalanobis, precisions())

    @staticmethod
    def exact(metric: Mahalanobis, x: np.ndarray, y: np.ndarray) -> Any:
        return exact_gauge(metric, x, y)  # the root is the definition


def test_root_is_a_root_of_the_precision() -> None:
    rng = np.random.default_rng(0)
    for rank in range(7):
        factor = rng.normal(size=(rank, 6))
        metric = Mahalanobis(factor.T @ factor)
        assert metric.gauge()[0].shape == (rank, 6)
        assert metric.precision == pytest.approx(factor.T @ factor, abs=1e-12)
        x, y = rng.normal(size=(2, 6))
        assert metric.distance(x, y) == pytest.approx(np.linalg.norm(factor @ (x - y)), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-320, 1e-160, 1.0, 1e300])
def test_upper_covers_long_sums_and_underflow(scale: float) -> None:
    rng = np.random.default_rng(5)
    for width in (1, 40, 300):
        metric = Mahalanobis.from_root(rng.normal(size=(3, width)))
        x, y = np.zeros(width), rng.normal(size=width) * scale
        assert at_most(exact_gauge(metric, x, y), metric.distance_upper(x, y))
        assert at_most(exact_gauge(metric, x, x - 5e-324), metric.distance_upper(x, x - 5e-324))


def test_coordinates_that_the_precision_keeps_apart_stay_apart() -> None:
    metric = Mahalanobis([[2, 0, 1, 0], [0, 0, 0, 0], [1, 0, 2, 0], [0, 0, 0, 1e-30]])
    root = metric.gauge()[0]
    assert metric.free.tolist() == [False, True, False, False]
    assert ((root[:, [0, 2]] != 0).any(axis=1) != (root[:, 3] != 0)).all()
    assert metric.distance(np.zeros(4), [0, 5, 0, 1]) == 1e-15  # however small beside the others


@pytest.mark.parametrize(
    ("precision", "message"),
    [
        ([[1, 2], [2, 1]], "positive semi-definite. It has the eigenvalue -1 on the coordinates 0, 1"),
        ([[1, 2], [0, 1]], "symmetric matrix. It has 2 in row 0, column 1, but 0 across"),
        ([[1, 2]], "'precision' must be a square matrix"),
        ([[1, np.nan], [0, 1]], "finite numbers. Got nan. Row 0, column 1"),
        ([1, 2], "at least one column"),
        ([[1], [1, 2]], "equally long"),
        (np.zeros((0, 0)), "at least one column"),
    ],
)
def test_bad_precisions_are_named(precision: Any, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        Mahalanobis(precision)


def test_rounding_below_zero_is_forgiven() -> None:
    metric = Mahalanobis([[1.0, 1.0], [1.0, 1.0 - 1e-16]])
    assert metric.gauge()[0].shape == (1, 2)


def test_fit_is_the_inverse_covariance_of_unprotected_coordinates() -> None:
    population = people(weighted=True)
    metric = Mahalanobis.fit(population, shrinkage=0.2)
    counts = ~population.schema.protected_coordinates
    assert (metric.free == ~counts).all()
    scatter = np.cov(population.x[:, counts].T, aweights=population.weights, ddof=0)
    target = 0.8 * scatter + 0.2 * np.trace(scatter) / counts.sum() * np.eye(counts.sum())
    assert metric.precision[np.ix_(counts, counts)] @ target == pytest.approx(np.eye(counts.sum()), abs=1e-9)


def test_fit_says_what_is_wrong() -> None:
    with pytest.raises(ParameterError, match="'shrinkage'"):
        Mahalanobis.fit(people(), shrinkage=0.0)
    with pytest.raises(MetricError, match="no unprotected coordinate varies"):
        Mahalanobis.fit(people(n=1))
