"""AUC of single inputs against an independent count of pairs; intervals that hold as often as they say."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest

from isonomy.fairness.groups import make_groupings
from isonomy.fairness.proxies import auc_interval, cross_fitted_auc, proxies
from isonomy.population import Feature, Population, Schema


def crowd(n: int = 120) -> Population:
    rng = np.random.default_rng(3)
    sex = rng.choice(["f", "m"], n)
    frame = pd.DataFrame(
        {
            "sex": sex,
            "height": np.where(rng.random(n) < 0.2, np.nan, (rng.normal(0, 1, n) + 1.5 * (sex == "m")).round(2)),
            "noise": rng.integers(0, 9, n),
            "town": np.where(rng.random(n) < 0.8, np.where(sex == "m", "A", "B"), "C"),
            "weight": rng.integers(1, 4, n),
        }
    )
    features = (
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("height", low=-9, high=9, fill=0.0),
        Feature("noise", "integer", low=0, high=9),
        Feature("town", "categorical", categories=("A", "B", "C")),
    )
    return Population.from_frame(frame, Schema("crowd", features, weight="weight"))


def measured(people: Population) -> pd.DataFrame:
    groupings, _ = make_groupings(people, ["sex"], None)
    return proxies(people, {"height", "noise", "town"}, groupings).set_index("input")


def test_the_auc_of_a_number_is_the_share_of_pairs_in_order() -> None:
    people = crowd()
    frame, w = people.frame, people.weights
    own, others = (np.flatnonzero((frame["sex"] == sex) & frame["height"].notna()) for sex in "fm")
    right = total = 0.0
    for i, j in product(own, others):
        mass = w[i] * w[j]
        a, b = frame["height"].iloc[i], frame["height"].iloc[j]
        right, total = right + mass * (1.0 if a < b else 0.5 if a == b else 0.0), total + mass
    row = measured(people).loc["height"]
    assert row["auc"] == pytest.approx(right / total, abs=1e-12) and row["auc"] > 0.7
    assert row["low"] < row["auc"] < row["high"] and row["against"] == "m"


def test_missing_values_are_an_input_of_their_own_and_the_attribute_is_none() -> None:
    table = measured(crowd())
    assert set(table.index) == {"height", "height is missing", "noise", "town"}
    assert table.loc["height is missing", "low"] < 0.55 < table.loc["town", "low"]


def test_categories_that_say_nothing_are_not_flattered() -> None:
    rng = np.random.default_rng(0)
    inside, codes = np.arange(200) < 60, rng.integers(0, 40, (30, 200))
    values = [cross_fitted_auc(each, inside, np.ones(200)) for each in codes]
    assert 0.46 < np.mean(values) < 0.54


def test_the_interval_solves_its_equation_and_has_a_width_at_its_ends() -> None:
    z = NormalDist().inv_cdf(0.975)
    low, high = auc_interval(0.8, 30, 90, 0.95)
    for end in (low, high):
        spread = 1 + 59 * (1 - end) / (2 - end) + 59 * end / (1 + end)
        assert abs(0.8 - end) == pytest.approx(z * math.sqrt(end * (1 - end) * spread / 2700), abs=1e-9)
    assert 0.5 < auc_interval(1.0, 12, 30, 0.95)[0] < 0.95 and auc_interval(1.0, 12, 30, 0.95)[1] == 1.0


def test_few_people_are_not_estimated() -> None:
    people = crowd(12)
    table = measured(people)
    assert table["auc"].isna().all() and table["note"].str.contains("fewer than 10").all()
