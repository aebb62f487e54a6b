"""What a network is said not to read has no influence, through whatever path."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from isonomy.networks import Network
from isonomy.networks.graph import Activation, Graph, Node, affine
from isonomy.networks.influence import read_coordinates
from isonomy.population import Feature, Label, Population, Schema


def layer(weight: object, read: int) -> Node:
    return affine(weight)._replace(inputs=(read,))  # type: ignore[arg-type]


def test_a_column_of_zeros_is_not_read() -> None:
    weight = np.random.default_rng(0).normal(size=(5, 4))
    weight[:, 2] = 0.0
    network = Network.from_layers([weight, np.ones((2, 5))], [np.zeros(5), np.zeros(2)])
    assert read_coordinates(network.graph).tolist() == [True, True, False, True]


def test_a_neuron_that_no_output_reads_does_not_count() -> None:
    network = Network.from_layers([np.eye(2), [[1.0, 0.0]]], [np.zeros(2), np.zeros(1)], head="sigmoid")
    assert read_coordinates(network.graph).tolist() == [True, False]


@pytest.mark.parametrize("path", ["sum", "concatenation", "selection", "slack"])
def test_a_coordinate_that_is_read_through_any_path_is_read(path: str) -> None:
    """A first layer that is blind to it, and a way past that layer."""
    blind = layer([[1.0, 0.0]], 0)
    past: dict[str, list[Node]] = {
        "sum": [
            blind,
            Node("select", (0,), columns=(1,)),
            Node("activation", (2,), activation=Activation("relu")),
            Node("add", (1, 3)),
        ],
        "concatenation": [blind, Node("concat", (1, 0)), layer([[1.0, 0.0, 1e-300]], 2)],
        "selection": [Node("select", (0,), columns=(0, 1, 0)), layer([[1.0, 1.0, 0.0]], 1)],
        "slack": [affine([[1.0, 0.0]], weight_error=[1e-12])._replace(inputs=(0,))],
    }
    assert read_coordinates(Graph((Node("input", width=2), *past[path]))).tolist() == [True, True]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_not_marked_changes_nothing(seed: int) -> None:
    """Sparse random networks: moving all unread coordinates at once leaves every output bit for bit as it was."""
    rng = np.random.default_rng(seed)
    sizes = [6, 5, 4, 2]
    weights = [rng.normal(size=(b, a)) * (rng.random((b, a)) < 0.3) for a, b in pairwise(sizes)]
    network = Network.from_layers(weights, [rng.normal(size=len(each)) for each in weights])
    marked = read_coordinates(network.graph)
    x = rng.normal(size=(50, 6))
    moved = np.where(marked, x, rng.normal(size=x.shape) * 100)
    assert np.array_equal(network(x), network(moved))


def test_features_that_a_schema_hides_are_not_read() -> None:
    sex = Feature("sex", "categorical", categories=("f", "m"), protected=True, seen=False)
    schema = Schema("people", (sex, Feature("income", low=0, high=1)))
    network = Network.from_layers([[[1.0]]], [[0.0]], head="sigmoid").on(schema)
    assert network.read_features(schema) == ("income",)


@pytest.mark.parametrize("seed", range(12))
def test_pipelines_keep_what_they_are_said_not_to_read(seed: int) -> None:
    """Imputed, scaled, encoded and dropped columns, weights of 0 and of 1e-310, dead neurons: whatever value a feature
    that is not read takes, the estimator itself and its network give the same, bit for bit."""
    rng, n = np.random.default_rng(seed), 60
    frame = pd.DataFrame(
        {"pay": rng.uniform(-2, 2, n), "age": rng.integers(0, 6, n), "town": [*"uvw"] * 20, "sex": [*"fm"] * 30}
    )
    frame.loc[rng.random(n) < 0.2, "pay"] = np.nan
    imputed = make_pipeline(SimpleImputer(add_indicator=bool(seed % 2)), [StandardScaler(), MinMaxScaler()][seed % 2])
    encoder = OneHotEncoder(drop=[None, "first", "if_binary"][seed % 3])
    parts = ColumnTransformer([("n", imputed, ["pay", "age"]), ("c", encoder, ["town", "sex"][: 1 + seed % 2])])
    last = MLPClassifier((4,), max_iter=2, random_state=0) if seed % 4 else LogisticRegression()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(parts, last).fit(frame, np.where(rng.random(n) < 0.5, "yes", "no"))
    weight = last.coefs_[0] if seed % 4 else last.coef_.T
    weight[rng.random(len(weight)) < 0.5] = 0.0
    weight *= [1.0, 1e-310][int(seed % 5 == 0)]
    if seed % 4:
        last.intercepts_[0][0] = -1e6  # never active, and read all the same
    features = (
        Feature("pay", low=-2, high=2, fill=0.5), Feature("age", "integer", low=0, high=5),
        Feature("town", "categorical", categories=(*"uvw",)), Feature("sex", "categorical", categories=(*"fm",)),
    )  # fmt: skip
    schema = Schema("people", features, Label("y", ("no", "yes")))
    network = Network.from_sklearn(model, schema).on(schema)
    read = network.read_features(schema)
    values = {"pay": [-2.0, 0.77, np.nan], "age": [0, 3, 5], "town": [*"uvw"], "sex": [*"fm"]}
    for name in values.keys() - set(read):
        tables = [frame.assign(**{name: value, "y": "no"}) for value in values[name]]
        given = [model.predict_proba(table) for table in tables]
        own = [network(Population.from_frame(table, schema).x) for table in tables]
        assert all(np.array_equal(each, given[0]) for each in given)
        assert all(np.array_equal(each, own[0]) for each in own)
