"""What a δ allows, feature by feature, against what the metric and the schema say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy import Counterparts, Mahalanobis, Network, Population, Schema
from isonomy.certificates.movement import _extremes
from isonomy.problem import Problem

TOML = """
name = "loans"
[features.age]
kind = "integer"
low = 18
high = 100
origin = 18
unit = 82
tolerance = 2
[features.income]
kind = "numeric"
low = 0
high = 1000
origin = 0
unit = 100
tolerance = 5
[features.sex]
kind = "categorical"
categories = ["female", "male"]
protected = true
[features.job]
kind = "categorical"
categories = ["a", "b", "c"]
"""


@pytest.fixture(scope="module")
def people() -> Population:
    frame = pd.DataFrame(
        {"age": [18, 40, 77], "income": [0.0, 500.0, 998.0], "sex": ["male", "female", "male"], "job": list("abc")}
    )
    return Population.from_frame(frame, Schema.from_toml(TOML))


def network(width: int) -> Network:
    rng = np.random.default_rng(0)
    return Network.from_layers([rng.normal(size=(2, width))], [np.zeros(2)])


def test_counterparts_move_what_the_schema_lets_them(people: Population) -> None:
    found = isonomy.certify_local(network(people.schema.width), people, Counterparts.of(people.schema), 1.0)
    table = found.movement()
    assert table.loc["sex", "role"] == "protected"
    assert table.loc["sex", ["moves", "categories"]].tolist() == [1.0, 1.0]
    assert table.loc["job", ["moves", "categories"]].tolist() == [0.0, 0.0]
    assert table.loc["age", ["least", "most"]].tolist() == pytest.approx([-2, 2])
    # Nobody moves below 0 or above 1000, and the tolerance is 5 either way.
    assert table.loc["income", ["least", "most"]].tolist() == pytest.approx([-5, 5])


def test_a_small_ball_moves_no_whole_number_and_no_category(people: Population) -> None:
    metric = Mahalanobis(np.eye(people.schema.width))
    table = isonomy.certify_local(network(people.schema.width), people, metric, 0.005).movement()
    assert table.loc[["age", "sex", "job"], "moves"].tolist() == [0.0, 0.0, 0.0]
    assert table.loc["income", ["least", "most"]].tolist() == pytest.approx([-0.5, 0.5])


def test_without_a_schema_coordinates_are_listed(people: Population) -> None:
    x = np.random.default_rng(1).normal(size=(4, 3))
    table = isonomy.certify_local(network(3), x, Mahalanobis(4 * np.eye(3)), 0.1).movement()
    assert table["most"].tolist() == pytest.approx([0.05] * 3)
    assert table["least"].tolist() == pytest.approx([-0.05] * 3)


@pytest.mark.parametrize("name", ["german", "adult"])
def test_products_move_as_far_as_their_regions_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without listing what is similar, the same extremes."""
    people = isonomy.load_population(name)
    x, schema = np.array(people.test.sample(12).x), people.schema
    network = isonomy.Network.from_layers([np.ones((2, schema.width))], [np.zeros(2)])
    problem = Problem.of(network, isonomy.Counterparts.of(schema), 1.0, schema.domain("realizable"), schema)
    assert problem.similarity.product(x) is not None
    ends = _extremes(problem, x)
    monkeypatch.setattr(type(problem.similarity), "product", lambda *_: None)
    for end, listed in zip(ends, _extremes(problem, x), strict=True):
        np.testing.assert_allclose(end, listed, rtol=0, atol=1e-12)
