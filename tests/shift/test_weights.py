"""Sampling weights: what is proved with a limit known beforehand, and that nothing is without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.confidence import mean_lower
from isonomy.errors import DataError, ParameterError, SchemaError
from isonomy.population import Feature, Population, Schema
from isonomy.shift import Distance, wasserstein

Array = np.ndarray[Any, np.dtype[np.float64]]
HEAVY = 500.0


def people(x: Array, weights: Array, max_weight: float | None = None) -> Population:
    schema = Schema("line", (Feature("a"),), weight="w", max_weight=max_weight)
    return Population.from_frame(pd.DataFrame({"a": x, "w": weights}), schema, domain="unbounded")


def rare_and_heavy(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """One in 500 stands for 500 others, at 0, the rest for themselves, at 1: half of the population is at 0."""
    rare = rng.random(n) < 1.0 / HEAVY
    return np.where(rare, 0.0, 1.0), np.where(rare, HEAVY, 1.0)


HALF = 1.0 / (1.0 + HEAVY / (HEAVY - 1.0))  # the share of the population at 1, exactly


def alarms(limit: float | None, repeats: int, n: int = 400) -> int:
    """How often two samples of one population, one of them weighted, are said to come from different ones."""
    rng = np.random.default_rng(0)
    count = 0
    for seed in range(repeats):
        one = people(*rare_and_heavy(n, rng), limit)
        other = people((rng.random(n) < HALF).astype(float), np.ones(n), limit)
        count += wasserstein(one, other, sample=60, repeats=1, seed=seed).lower > 0.0
    return count


def test_without_a_limit_nothing_is_proved() -> None:
    """Most samples show nobody who is heavy: divided by the largest weight seen, they prove what is false."""
    assert alarms(None, 12) == 0
    rng = np.random.default_rng(1)
    found = wasserstein(people(*rare_and_heavy(100, rng)), people(*rare_and_heavy(100, rng)), repeats=1)
    assert found.lower == 0.0 and "'max_weight'" in found.evidence and "'max_weight'" in str(found)
    assert "at least" not in str(found)


@pytest.mark.slow
def test_with_a_limit_alarms_are_as_rare_as_promised() -> None:
    """At 5 %, 20 of 200 would be three standard errors too many."""
    assert alarms(HEAVY, 200) <= 20


@pytest.mark.parametrize("tail", [1.05, 1.5, 3.0])
def test_the_mean_under_weights_without_end(tail: float) -> None:
    """Pareto weights cut at a limit, light people at 1 and heavy ones at 0; 10 % of 400 and three standard errors."""
    rng = np.random.default_rng(2)
    limit, edge = 1000.0, 8.0

    def below(t: float) -> float:  # E[w; w <= t]
        return tail / (tail - 1.0) * (1.0 - t ** (1.0 - tail))

    truth = below(edge) / (below(limit) + limit ** (1.0 - tail))
    wrong = 0
    for _ in range(400):
        weights = np.minimum(rng.random(300) ** (-1.0 / tail), limit)
        wrong += mean_lower((weights <= edge).astype(float), weights / limit, 0.0, 1.0, 0.1) > truth
    assert wrong <= 58


def test_with_a_limit_a_clear_difference_is_still_proved() -> None:
    rng = np.random.default_rng(3)
    weights = rng.uniform(1.0, 3.0, (2, 600))
    one, other = people(rng.normal(size=600), weights[0]), people(rng.normal(size=600) + 2.0, weights[1])
    found = wasserstein(one, other, sample=200, repeats=1, max_weight=3.0)
    assert 1.0 < found.lower <= 2.0
    stated = [people(p.x[:, 0], p.weights, 3.0) for p in (one, other)]
    assert wasserstein(stated[0], stated[1], sample=200, repeats=1) == found
    looser = wasserstein(one, other, sample=200, repeats=1, max_weight=30.0)
    assert looser.lower < found.lower and looser.estimate == pytest.approx(found.estimate)


def test_people_without_weights_need_no_limit() -> None:
    rng = np.random.default_rng(4)
    found: Distance = wasserstein(rng.normal(size=(300, 1)), rng.normal(size=(300, 1)) + 3.0, repeats=1)
    assert found.lower > 1.0


def test_a_limit_that_is_not_one() -> None:
    one = people(np.arange(10.0), np.full(10, 4.0))
    with pytest.raises(ParameterError, match="'max_weight' must be at least 4, a weight of 'one'"):
        wasserstein(one, one, max_weight=3.0)
    with pytest.raises(ParameterError, match="'max_weight' must be a positive number"):
        wasserstein(one, one, max_weight=0.0)
    with pytest.raises(DataError, match=r"Column 'w', row 1: the weight 7 is above the schema's max_weight = 5"):
        people(np.zeros(3), np.array([1.0, 7.0, 9.0]), 5.0)
    with pytest.raises(SchemaError, match="'max_weight' must be a positive number beside a 'weight'"):
        Schema("line", (Feature("a"),), max_weight=5.0)


def test_a_schema_keeps_its_limit_in_a_file_and_coordinates_mean_the_same() -> None:
    schema = Schema("line", (Feature("a"),), weight="w", max_weight=12.5)
    assert Schema.from_toml(schema.to_toml()) == schema
    assert schema.hash() == Schema("line", (Feature("a"),), weight="w").hash()
