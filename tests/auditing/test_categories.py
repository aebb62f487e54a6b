"""Columns that look like numbers, or like notes, and that the model encodes category by category."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from isonomy.auditing.plan import Roles
from isonomy.auditing.proposal import propose
from isonomy.networks.load import load_network
from isonomy.networks.preprocessing import Number, as_choice, schema_columns
from isonomy.population import Population, Schema

N = 200
RNG = np.random.default_rng(0)
ZIPS = np.array([10115, 10117, 20095, 50667, 80331, 80333])


def people(**columns: Any) -> pd.DataFrame:
    frame = pd.DataFrame(
        {"zip": RNG.choice(ZIPS[:5], N), "age": RNG.integers(18, 80, N), "floor": RNG.integers(0, 4, N)}
    )
    frame = frame.assign(**columns)
    return frame.assign(good=np.where(frame["age"] + RNG.normal(0, 9, N) > 45, "yes", "no"))


def fitted(frame: pd.DataFrame, *encoded: str, encoder: Any = None) -> Any:
    encoder = encoder or OneHotEncoder(handle_unknown="ignore")
    rest = [name for name in frame if name not in (*encoded, "good", "id")]
    columns = make_column_transformer((encoder, list(encoded)), (StandardScaler(), rest))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(columns, LogisticRegression()).fit(frame.drop(columns="good"), frame["good"])


def proposed(frame: pd.DataFrame, model: Any, folder: Path, kind: str = "skops", **roles: Any) -> tuple[Any, Schema]:
    frame.to_csv(folder / "people.csv", index=False)
    path = folder / f"model.{kind}"
    if kind == "onnx":
        import skl2onnx

        path.write_bytes(skl2onnx.to_onnx(model, frame.drop(columns="good")[:1]).SerializeToString())
    else:
        skops.io.dump(model, path)
    proposal = propose(folder / "people.csv", path, Roles(label="good", **roles), folder)
    return proposal, Schema.from_toml(proposal.schema)


@pytest.mark.parametrize("kind", ["skops", "onnx"])
@pytest.mark.parametrize("protected", [(), ("zip",)])  # few whole numbers are codes already where they are protected
def test_a_postal_code_that_is_one_hot_encoded_has_the_categories_of_the_encoder(
    kind: str, protected: tuple[str, ...], tmp_path: Path
) -> None:
    frame = people()
    model = fitted(frame.assign(zip=np.where(np.arange(N) == 0, ZIPS[5], frame["zip"])), "zip")  # one more than here
    proposal, schema = proposed(frame, model, tmp_path, kind, protected=protected)
    assert proposal.ready, proposal.notes
    assert schema["zip"].categories == tuple(map(str, ZIPS)) and schema.protected == protected
    assert (schema["age"].kind, schema["floor"].kind) == ("integer", "integer")
    assert "# guess: the 6 categories that the model knows." in proposal.schema
    network = load_network(tmp_path / f"model.{kind}", schema)
    read = Population.from_file(tmp_path / "people.csv", schema)
    np.testing.assert_allclose(network(read.x), model.predict_proba(frame.drop(columns="good")), atol=1e-5)


def test_several_columns_at_once_and_one_with_gaps(tmp_path: Path) -> None:
    frame = people(area=np.where(np.arange(N) % 7 == 0, np.nan, RNG.choice([3.0, 5.0, 11.0], N)))
    proposal, schema = proposed(frame, fitted(frame, "zip", "floor", "area"), tmp_path)
    assert proposal.ready, proposal.notes
    assert [schema[name].kind for name in ("zip", "floor", "area", "age")] == ["categorical"] * 3 + ["integer"]
    assert schema["area"].categories == ("3", "5", "11") and schema["area"].missing == "category"
    assert list(schema.slices) == ["zip", "age", "floor", "area"]


def test_texts_that_are_too_many_to_guess_are_known_to_the_model(tmp_path: Path) -> None:
    towns = [f"town {i:02d}" for i in range(70)]
    frame = people(town=[towns[i % 70] for i in range(N)])
    model = fitted(frame, "town")
    proposal, schema = proposed(frame, model, tmp_path)
    assert proposal.ready and schema["town"].categories == tuple(towns)
    assert "left out" not in " ".join(proposal.notes)
    proposal, schema = proposed(frame, model, tmp_path, ignore=("town",))
    assert not proposal.ready and "town" not in schema.slices, "what is left out as asked stays out"


def test_values_that_the_encoder_refuses_are_said(tmp_path: Path) -> None:
    frame = people()
    model = fitted(frame, "zip", encoder=OneHotEncoder())
    more = frame.assign(zip=np.where(np.arange(N) < 3, 99999, frame["zip"]))
    proposal, schema = proposed(more, model, tmp_path)
    assert proposal.ready and "99999" not in schema["zip"].categories
    assert "1 values of this table are not among them" in proposal.schema
    assert any("3 rows do not fit" in note for note in proposal.notes)


def test_numbers_that_stay_numbers(tmp_path: Path) -> None:
    """A code that is a number in equal steps has no need of categories, nor what is scaled before it is encoded."""
    frame = people()
    scaled = make_pipeline(StandardScaler(), OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1))
    _, schema = proposed(frame, fitted(frame, "floor", encoder=scaled), tmp_path)
    assert schema["floor"].kind == "integer"
    assert isinstance(schema_columns(schema)["floor"], Number) and as_choice(schema_columns(schema)["floor"]).rank


@pytest.mark.parametrize("codes", [("01067", "10115", "80331"), ("01067", "02625", "04103")])
@pytest.mark.parametrize("protected", [(), ("zip",)])
def test_codes_that_begin_with_a_zero(tmp_path: Path, codes: tuple[str, ...], protected: tuple[str, ...]) -> None:
    """The table shows them as numbers, which have lost it; the people who have them are judged all the same."""
    frame = people(zip=RNG.choice(codes, N))
    model = fitted(frame, "zip")
    proposal, schema = proposed(frame, model, tmp_path, protected=protected)
    assert set(codes) <= set(schema["zip"].categories)
    assert not any("do not fit" in note for note in proposal.notes) and "are not among them" not in proposal.schema
    right = float(np.mean(model.predict(frame.drop(columns="good")) == frame["good"]))
    assert any(f"accuracy on this table is {right:.3f}" in note for note in proposal.notes)
    network = load_network(tmp_path / "model.skops", schema)
    given = network(Population.from_file(tmp_path / "people.csv", schema).x)
    assert np.allclose(given, model.predict_proba(frame.drop(columns="good")))
