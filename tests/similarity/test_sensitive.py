from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge
from tests.contracts.metric import MetricContract, exact_gauge

from isonomy.errors import MetricError, ParameterError
from isonomy.population import Population
from isonomy.similarity import SensitiveSubspace

from .people import people


@st.composite
def subspaces(draw: st.DrawFn) -> SensitiveSubspace:
    m = draw(st.integers(1, 5))
    count = draw(st.integers(0, 3))
    entries = draw(st.lists(st.integers(-3, 3), min_size=count * m, max_size=count * m))
    axes = np.eye(m)[draw(st.lists(st.integers(0, m - 1), max_size=2))]
    directions = np.concatenate([np.array(entries, dtype=float).reshape(count, m), axes])
    return SensitiveSubspace(directions, draw(st.sampled_from([0.0, 0.01, 1.0])))


class TestSensitiveSubspace(MetricContract):
    @staticmethod
    def metrics() -> st.SearchStrategy[SensitiveSubspace]:
        return subspaces()

    @staticmethod
    def exact(metric: SensitiveSubspace, x: np.ndarray, y: np.ndarray) -> Any:
        return exact_gauge(metric, x, y)  # the root is the definition


def projector(rows: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(rows, rcond=1e-9) @ rows


@pytest.mark.parametrize("ridge", [0.0, 0.5, 1.0])
def test_precision_is_the_complement_of_the_projector(ridge: float) -> None:
    rng = np.random.default_rng(1)
    directions = np.concatenate([rng.normal(size=(2, 6)), np.eye(6)[[1, 4]]])
    directions = np.concatenate([directions, directions[:1] * 3.0, np.zeros((1, 6))])  # adds nothing
    metric = SensitiveSubspace(directions, ridge)
    expected = np.eye(6) - projector(directions) + ridge * np.eye(6)
    assert metric.precision == pytest.approx(expected, abs=1e-12)
    assert metric.free.tolist() == [ridge == 0.0 and i in (1, 4) for i in range(6)]
    if ridge == 0.0:
        assert metric.gauge()[0].shape == (2, 6)
        assert metric.distance(np.zeros(6), directions[0]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("size", [1e300, 1e160, 1e-170, 1e-310])
def test_a_direction_is_free_however_long_it_is(size: float) -> None:
    """Squares of such lengths overflow or vanish, and the direction with them: the metric was stricter than said."""
    direction = np.array([3.0, -4.0, 1.0])
    for others in (np.zeros((0, 3)), [[1.0, 1.0, 0.0]]):
        metric = SensitiveSubspace(np.concatenate([others, [direction * size]]))
        assert metric.distance(direction, np.zeros(3)) < 1e-9 < 0.1 < metric.distance([1.0, 1.0, 1.0], np.zeros(3))
    assert (SensitiveSubspace([direction * 2.0**40]).root == SensitiveSubspace([direction]).root).all()


def test_fit_frees_what_predicts_the_protected_attributes() -> None:
    population = people(weighted=True)
    schema, protected = population.schema, population.schema.protected_coordinates
    x, weights = population.x[:, ~protected], population.weights
    sex = population.x[:, schema.slices["sex"]].argmax(axis=1)
    age = population.x[:, schema.slices["age"].start]
    logistic = LogisticRegression(C=0.5, tol=1e-8, max_iter=9999).fit(x, sex, sample_weight=weights)
    ridge = Ridge(alpha=2.0).fit(x, age, sample_weight=weights)
    learned = np.concatenate([logistic.coef_, ridge.coef_[None]])
    assert np.linalg.matrix_rank(learned, tol=1e-6) == 3  # the classes add up to 0
    metric = SensitiveSubspace.fit(population, regularisation=2.0)
    assert (metric.free == protected).all()
    inner = metric.precision[np.ix_(~protected, ~protected)]
    assert inner == pytest.approx(np.eye(len(inner)) - projector(learned), abs=1e-4)
    assert metric.gauge()[0].shape == (len(inner) - 3, protected.size)


def test_fit_leaves_missing_values_to_their_flag() -> None:
    """Filled values say nothing about hours, so changing the fill in missing rows changes nothing."""
    population = people(protected=("hours",))
    where = population.schema.slices["hours"]
    x = population.x.copy()
    x[x[:, where.start + 1] == 1, where.start] = 77.0
    changed = Population(**{**vars(population), "x": x})
    one, other = SensitiveSubspace.fit(population), SensitiveSubspace.fit(changed)
    assert one.gauge()[0].tobytes() == other.gauge()[0].tobytes()
    assert np.flatnonzero(one.free).tolist() == [where.start, where.start + 1]


def test_fit_is_deterministic_and_survives_a_single_class() -> None:
    population = people()
    assert SensitiveSubspace.fit(population).root.tobytes() == SensitiveSubspace.fit(population).root.tobytes()
    women = population[population.frame["sex"].eq("female").to_numpy()]
    metric = SensitiveSubspace.fit(women)
    assert (metric.free == women.schema.protected_coordinates).all()


@pytest.mark.parametrize("ridge", [-1.0, math.nan, math.inf])
def test_bad_ridge_is_named(ridge: float) -> None:
    with pytest.raises(ParameterError, match="'ridge' must be a finite number >= 0"):
        SensitiveSubspace([[1.0]], ridge)


def test_fit_says_what_is_missing() -> None:
    with pytest.raises(ParameterError, match="'regularisation'"):
        SensitiveSubspace.fit(people(), regularisation=0.0)
    with pytest.raises(MetricError, match="declares no protected feature"):
        SensitiveSubspace.fit(people(protected=()))
    with pytest.raises(MetricError, match="'directions'"):
        SensitiveSubspace([1.0, 2.0])
