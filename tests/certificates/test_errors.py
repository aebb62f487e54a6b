"""Each mistake gets one clear sentence that names the row, column or parameter and says what is right."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from isonomy import certify, certify_local, check_predictions, load_network, load_population
from isonomy.errors import DataError, FileError, IsonomyError, MetricError, NetworkError, ParameterError
from isonomy.networks.network import Network
from isonomy.population import Population
from isonomy.similarity import Counterparts, Mahalanobis, SensitiveSubspace, WeightedLp

from .judge import SCHEMA, WIDTH, people, perceptron

NETWORK = perceptron(np.random.default_rng(0), 3, 2)
METRIC = Mahalanobis(np.eye(3))
X = np.zeros((4, 3))


def message(error: type[IsonomyError], *arguments: Any, **options: Any) -> str:
    """The one sentence that a mistake gets."""
    with pytest.raises(error) as caught:
        certify_local(*arguments, **options)
    text = str(caught.value)
    assert text.endswith(".") and "\n" not in text
    return text


@pytest.mark.parametrize("delta", [-0.1, math.nan, math.inf, "0.1", None, True])
def test_bad_delta(delta: Any) -> None:
    assert message(ParameterError, NETWORK, X, METRIC, delta) == f"'delta' must be a finite number >= 0. Got {delta!r}."


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_cells_that_are_not_finite(value: float) -> None:
    x = X.copy()
    x[2, 1] = value
    text = message(DataError, NETWORK, x, METRIC, 0.1)
    assert "Row 2" in text and "'x1'" in text and str(value) in text


def test_a_cell_of_a_frame_that_is_not_finite() -> None:
    frame = people(4).frame.copy()
    frame.loc[2, "income"] = np.nan
    with pytest.raises(DataError, match=r"income.*2|2.*income"):
        Population.from_frame(frame, SCHEMA)


def test_values_outside_the_range() -> None:
    frame = people(4).frame.copy()
    frame.loc[3, "income"] = 1e6
    with pytest.raises(DataError, match=r"income") as caught:
        Population.from_frame(frame, SCHEMA)
    assert "1000000" in str(caught.value).replace(",", "").replace("1e+06", "1000000") and "100" in str(caught.value)
    population, x = people(4), people(4).x.copy()
    x[1, 0] = 7.0
    network = perceptron(np.random.default_rng(0), WIDTH, 2)
    text = message(DataError, network, x, WeightedLp(np.ones(WIDTH)), 0.1, domain=population.domain)
    assert "Row 1" in text and "'income'" in text and "7" in text


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [("sex=f", 0.5, "'sex=f'"), ("age", 1.234567, "'age'"), ("hours=missing", 0.5, "'hours=missing'")],
)
def test_rows_that_are_nobody(column: str, value: float, said: str) -> None:
    population, x = people(4), people(4).x.copy()
    x[3, SCHEMA.coordinate_names.index(column)] = value
    network = perceptron(np.random.default_rng(0), WIDTH, 2)
    text = message(DataError, network, x, Counterparts.of(SCHEMA), 1.0, domain=population.domain)
    assert "Row 3" in text and said in text and "realizable" in text


def test_unknown_categories() -> None:
    frame = people(4).frame.copy()
    frame.loc[1, "job"] = "astronaut"
    with pytest.raises(DataError, match="job") as caught:
        Population.from_frame(frame, SCHEMA)
    assert "astronaut" in str(caught.value)


def test_a_singular_metric_on_the_unbounded_domain() -> None:
    singular = Mahalanobis(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    assert "singular" in message(MetricError, NETWORK, X, singular, 0.1)
    nearly = Mahalanobis.from_root([[1.0, 1.0, 0.0], [1.0, 1.0 + 1e-16, 0.0], [0.0, 0.0, 1.0]])
    assert "singular" in message(MetricError, NETWORK, X, nearly, 0.1)
    free = WeightedLp([1.0, 0.0, 1.0])
    assert "'x1'" in message(MetricError, NETWORK, X, free, 0.1)
    sensitive = SensitiveSubspace(np.array([[1.0, 1.0, 0.0]]))
    assert "singular" in message(MetricError, NETWORK, X, sensitive, 0.1)
    population = people(3)
    network = perceptron(np.random.default_rng(0), WIDTH, 2)
    text = message(MetricError, network, population, Counterparts.of(SCHEMA), 1.0, domain="unbounded")
    assert "'sex=f'" in text
    assert "'sex=f'" in message(MetricError, network, population, Counterparts.of(SCHEMA), 1.0, tier="paper")


def test_widths_that_do_not_fit() -> None:
    assert "reads 3 numbers" in message(NetworkError, NETWORK, np.zeros((4, 5)), Mahalanobis(np.eye(5)), 0.1)
    text = message(MetricError, NETWORK, X, Mahalanobis(np.eye(2)), 0.1)
    assert "2 coordinates" in text and "3" in text
    network = perceptron(np.random.default_rng(0), 4, 2)
    assert "reads 4 numbers" in message(NetworkError, network, people(3), Counterparts.of(SCHEMA), 1.0)
    wrong = people(3).domain
    assert "coordinates" in message(NetworkError, NETWORK, X, METRIC, 0.1, domain=wrong)


def test_empty_tables() -> None:
    assert "empty" in message(DataError, NETWORK, np.zeros((0, 3)), METRIC, 0.1)
    with pytest.raises(DataError):
        Population.from_frame(people(3).frame[:0], SCHEMA)
    assert "people" in message(ParameterError, NETWORK, np.zeros(3), METRIC, 0.1)


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [
        ("tier", "linear", "interval"),
        ("arithmetic", "float16", "float32"),
        ("domain", "finite", "unbounded"),
        ("domain", "realizable", "unbounded"),
    ],
)
def test_unknown_choices_list_what_there_is(option: str, value: str, known: str) -> None:
    text = message(ParameterError, NETWORK, X, METRIC, 0.1, **{option: value})
    assert f"'{option}'" in text and known in text and value in text


@pytest.mark.parametrize("domain", ["relaxed", "realizable", people(3).domain, "finite"])
def test_the_papers_tier_takes_no_bounded_domain(domain: Any) -> None:
    network = perceptron(np.random.default_rng(0), WIDTH, 2)
    metric = WeightedLp(np.ones(WIDTH))
    text = message(ParameterError, network, people(3), metric, 0.1, domain=domain, tier="paper")
    assert "'domain'" in text and "unbounded" in text and "tier='paper'" in text
    found = [
        certify_local(network, people(3), metric, 0.1, tier="paper", attack=False, **given)
        for given in ({}, {"domain": "unbounded"}, {"domain": SCHEMA.domain("unbounded")})
    ]
    for one in found:
        assert one.problem.domain.kind == "unbounded"
        assert (one.upper == found[0].upper).all()


def test_unknown_domain_of_a_population() -> None:
    network = perceptron(np.random.default_rng(0), WIDTH, 2)
    assert "'domain'" in message(ParameterError, network, people(3), Counterparts.of(SCHEMA), 1.0, domain="finite")


def test_missing_files_and_names() -> None:
    with pytest.raises(FileError, match=r"nothing\.onnx"):
        load_network("nothing.onnx")
    with pytest.raises(IsonomyError, match="german"):
        load_population("nothing")


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_bad_epsilon(epsilon: float) -> None:
    found = certify_local(NETWORK, X, METRIC, 0.1, attack=False)
    with pytest.raises(ParameterError, match="'epsilon'"):
        found.verdict(epsilon)


def test_a_domain_without_ranges_names_the_coordinate() -> None:
    from isonomy.population import Feature, Schema

    schema = Schema("open", (Feature("a", low=0.0, high=1.0), Feature("b")))
    population = Population.from_frame(pd.DataFrame({"a": [0.5], "b": [3.0]}), schema)
    network = Network.from_layers([np.eye(2)], [np.zeros(2)])
    assert "'b'" in message(MetricError, network, population, WeightedLp([1.0, 1.0]), 0.1)


def test_a_schema_that_contradicts_the_population() -> None:
    population, network = people(4), perceptron(np.random.default_rng(0), WIDTH, 2)
    other = replace(SCHEMA, features=(replace(SCHEMA.features[0], immutable=True), *SCHEMA.features[1:]))
    for call in (
        lambda: certify(network, population, Counterparts.of(SCHEMA), 1.0, 0.1, schema=other),
        lambda: check_predictions(network, population, [0.5] * 4, schema=other),
    ):
        with pytest.raises(ParameterError, match=f"'schema' says something else than the schema '{SCHEMA.name}'"):
            call()


def test_a_threshold_that_is_no_number() -> None:
    message(ParameterError, NETWORK, X, METRIC, 0.1, threshold="0.5")


def test_a_table_of_words() -> None:
    message(DataError, NETWORK, [["a", "b", "c"]], METRIC, 0.1)


@pytest.mark.parametrize("judge", [certify, certify_local])
def test_a_table_without_a_schema_is_refused(judge: Any) -> None:
    """Columns of numbers are no coordinates of the unbounded domain; an array of them is."""
    quiet = {"attack": False, "progress": None}
    for table in (pd.DataFrame(X), pa.table({"a": [0.0], "b": [0.0], "c": [1.0]})):
        with pytest.raises(
            ParameterError, match=r"^'schema' must be given beside 'people', a \w+: it says what the col"
        ):
            judge(NETWORK, table, METRIC, 0.1, **quiet)
    with pytest.raises(ParameterError, match=r"^'people' must be a Population, a table"):
        judge(NETWORK, X, METRIC, 0.1, schema=SCHEMA, **quiet)
    assert len(judge(NETWORK, pd.DataFrame(X).to_numpy(), METRIC, 0.1, **quiet).x) == len(X)


def test_both_doors_take_tables_with_a_schema_and_delta_of_the_metric() -> None:
    everybody, network = people(6), perceptron(np.random.default_rng(1), WIDTH, 2)
    metric, quiet = Counterparts.of(SCHEMA), {"attack": False, "progress": None}
    expected = certify_local(network, everybody, metric, 1.0, **quiet)
    for table in (everybody.frame, pa.Table.from_pandas(everybody.frame, preserve_index=False)):
        found = certify_local(network, table, metric, schema=SCHEMA, **quiet)
        whole = certify(network, table, metric, schema=SCHEMA, **quiet)
        assert found.upper.tolist() == expected.upper.tolist() == whole.local.upper.tolist()
        assert found.problem.domain.kind == whole.problem.domain.kind == "realizable"
