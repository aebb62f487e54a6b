from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.contracts.metric import MetricContract, exact_norm, mpf

from isonomy.errors import MetricError, ParameterError
from isonomy.similarity import WeightedLp

from .people import people

weights = st.one_of(st.just(0.0), st.floats(0.01, 100), st.sampled_from([1.0, 4.0]), st.floats(1e-300, 1e300))


class TestWeightedLp(MetricContract):
    @staticmethod
    def metrics() -> st.SearchStrategy[WeightedLp]:
        lists = st.lists(weights, min_size=1, max_size=5)
        return st.builds(WeightedLp, lists, st.sampled_from([1, 2, math.inf]), st.sampled_from(["", "by hand"]))

    @staticmethod
    def exact(metric: WeightedLp, x: np.ndarray, y: np.ndarray) -> Any:
        size = [abs(mpf(a) - mpf(b)) for a, b in zip(x, y, strict=True)]
        if metric.order == 2:
            return exact_norm([mpf(w).sqrt() * s for w, s in zip(metric.weights, size, strict=True)], 2)
        return exact_norm([mpf(w) * s for w, s in zip(metric.weights, size, strict=True)], metric.order)

    @staticmethod
    def exact_box(metric: WeightedLp, x: np.ndarray, y: np.ndarray) -> Any:
        return TestWeightedLp.exact(metric, x, y) if metric.order == math.inf else mpf(0)


@pytest.mark.parametrize(("order", "expected"), [(1, 11.0), (2, 5.0), (math.inf, 8.0)])
def test_is_the_distance_of_the_definition(order: float, expected: float) -> None:
    assert WeightedLp([1, 0, 4], order).distance([0, 0, 0], [3, 9, 2]) == expected


def test_half_width_has_the_inverse_power_of_the_weight() -> None:
    for order in (1, 2):
        reach = 0.5 * 4.0 ** (-1 / order)
        assert WeightedLp([4.0], order).distance([0], [reach]) == 0.5
    assert WeightedLp([4.0], math.inf).box([0.0], 0.5)[1] == pytest.approx(0.125)


def test_fit_weighs_by_the_strongest_correlation_and_frees_protected_coordinates() -> None:
    population = people()
    metric = WeightedLp.fit(population, order=1, cap=50.0)
    protected = population.schema.protected_coordinates
    assert (metric.free == protected).all()
    rho = np.abs(np.corrcoef(population.x.T))  # ones as sampling weights
    for i in np.flatnonzero(~protected):
        assert metric.weights[i] == pytest.approx(min(1 / rho[i, protected].max(), 50.0), rel=1e-9)
    assert metric.fitted_on == "people (all), 400 individuals"
    assert metric.names == population.schema.coordinate_names


def test_fit_respects_sampling_weights_and_caps_constant_columns() -> None:
    population = people(weighted=True)
    metric = WeightedLp.fit(population)
    twice = people(weighted=True, repeated=True)  # the weights 0, 1, 2 as that many copies
    assert metric.weights == pytest.approx(WeightedLp.fit(twice).weights, rel=1e-9)
    assert metric.weights[list(metric.names).index("constant")] == 100.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, -1],), "'weights' must be a list of finite numbers >= 0. Got -1.0. Its position is 1."),
        (([[1]],), "'weights'"),
        (([],), "'weights'"),
        ((["a"],), "'weights'"),
        (([1, math.inf],), "position is 1"),
        (([1], 3), "'order' must be 1, 2 or infinity. Got 3."),
        (([1], 2, "", ("a", "b")), "'names' must be a list of 1 coordinate names"),
    ],
)
def test_bad_definitions_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((MetricError, ParameterError), match=message.replace("[", r"\[")):
        WeightedLp(*arguments)


def test_fit_says_what_is_missing() -> None:
    with pytest.raises(ParameterError, match="'cap'"):
        WeightedLp.fit(people(), cap=0.5)
    with pytest.raises(MetricError, match="declares no protected feature"):
        WeightedLp.fit(people(protected=()))
