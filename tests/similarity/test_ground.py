from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.similarity.people import people

from isonomy.errors import MetricError, ParameterError
from isonomy.similarity import Counterparts, Explore, Mahalanobis, Metric, SensitiveSubspace, WeightedLp
from isonomy.similarity.ground import ground_metric, ground_root


@pytest.mark.parametrize(("name", "order"), [("l1", 1), ("l2", 2), ("linf", math.inf)])
def test_names_are_plain_norms(name: Any, order: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 7, 4))
    metric = ground_metric(name, 4, ("a", "b", "c", "d"))
    assert metric.names == ("a", "b", "c", "d")
    assert np.allclose(metric.distance(x, y), np.linalg.norm(x - y, ord=order, axis=1), rtol=1e-14)


def accepted() -> list[Metric]:
    population = people()
    width = population.schema.width
    root = np.random.default_rng(3).normal(size=(4, width))
    return [
        WeightedLp(np.arange(width), 1.0),
        WeightedLp(np.arange(width) / 3, 2.0),
        WeightedLp(np.arange(width) / 7, math.inf),
        WeightedLp.fit(population),
        Mahalanobis.fit(population),
        SensitiveSubspace.fit(population),
        Explore.from_root(root),
        Counterparts(np.full(width, 0.3), free=np.arange(width) < 3),
    ]


@pytest.mark.parametrize("metric", accepted(), ids=lambda metric: metric.describe())
@given(seed=st.integers(0, 10_000))
def test_a_metric_is_its_root(metric: Metric, seed: int) -> None:
    """The root gives the same distances as the metric, returned as it is; they do not depend on the place."""
    assert ground_metric(metric, metric.width) is metric
    x, y, move = np.random.default_rng(seed).normal(size=(3, 5, metric.width))
    root, order = ground_root(metric)
    found = np.linalg.norm((x - y) @ root.T, ord=order, axis=1)
    assert np.allclose(found, metric.distance(x, y), rtol=1e-12)
    assert np.allclose(found, metric.distance(y, x), rtol=1e-12)
    assert np.allclose(found, metric.distance(x + move, y + move), rtol=1e-9)


def test_what_depends_on_the_individual_is_refused() -> None:
    with pytest.raises(MetricError, match="'income' has a relative tolerance, which depends on the individual"):
        ground_metric(Counterparts.of(people().schema), people().schema.width)
    with pytest.raises(MetricError, match="coordinate 1 has no tolerance"):
        ground_metric(Counterparts([0.1, 0.0]), 2)
    with pytest.raises(MetricError, match="coordinate 1 has no tolerance"):
        ground_root(Counterparts([0.1, 0.0]))
    assert ground_metric(Counterparts([0.1, 0.0], free=[False, True]), 2).width == 2


def test_an_unknown_box_is_refused() -> None:
    class Own(Mahalanobis):
        kind = "own"

        @property
        def boxed(self) -> bool:
            return True

    with pytest.raises(MetricError, match="kind 'own' has a box part"):
        ground_metric(Own(np.eye(2)), 2)


@pytest.mark.parametrize("ground", ["l3", "L2", 2, None, [1.0, 2.0]])
def test_anything_else_is_an_error_that_says_what_is_right(ground: Any) -> None:
    with pytest.raises(ParameterError, match="'ground' must be 'l1', 'l2', 'linf' or a metric"):
        ground_metric(ground, 2)


def test_the_width_is_checked() -> None:
    with pytest.raises(ParameterError, match=r"'ground' must be a metric on 3 coordinates.*Got '2 coordinates'"):
        ground_metric(WeightedLp([1.0, 1.0]), 3)
