from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.population.strategies import names, patient

from isonomy.errors import DataError, SchemaError
from isonomy.population import Population, Schema
from isonomy.population.inference import widen

numbers = st.floats(-1e140, 1e140)
COLUMNS: dict[str, tuple[st.SearchStrategy[Any], str]] = {
    "float64": (numbers | st.just(np.nan), "float64"),
    "float32": (st.floats(width=32, allow_nan=True, allow_infinity=False), "float32"),
    "int64": (st.integers(-(2**45), 2**45), "int64"),
    "uint8": (st.integers(0, 255), "uint8"),
    "Int64": (st.integers(-1000, 1000) | st.none(), "Int64"),
    "bool": (st.booleans(), "bool"),
    "boolean": (st.booleans() | st.none(), "boolean"),
    "text": (names | st.none(), "object"),
    "category": (st.sampled_from(["a", "b", "missing", None]), "category"),
    "objects": (st.integers(0, 9) | st.none(), "object"),
    "mixed": (st.integers(0, 9) | names | st.none() | st.booleans(), "object"),
}


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(1, 8))
    chosen = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))
    columns = {}
    for i, key in enumerate(chosen):
        cells, dtype = COLUMNS[key]
        columns[f"{key} {i}"] = pd.Series(draw(st.lists(cells, min_size=rows, max_size=rows)), dtype=dtype)
    return pd.DataFrame(columns)


@patient
@given(frames(), st.booleans())
def test_a_guessed_schema_fits_its_table_and_survives_its_file(frame: pd.DataFrame, protect: bool) -> None:
    try:
        schema = Schema.infer(frame, protected=frame.columns[: int(protect)])
    except SchemaError as error:
        empty = [column for column in frame if frame[column].isna().all()]
        assert empty and "holds no value" in str(error)
        return
    people = Population.from_frame(frame, schema)
    assert people.excluded == 0
    assert people.domain.contains(people.x).all()
    assert Schema.from_toml(schema.to_toml()) == schema
    assert len(schema.protected) == protect


@patient
@given(numbers, numbers, st.booleans())
def test_widened_ranges(a: float, b: float, integer: bool) -> None:
    if integer:
        a, b = float(round(a % 1e12)), float(round(b % 1e12))
    low, high = widen(min(a, b), max(a, b), integer)
    assert low <= min(a, b) <= max(a, b) <= high and low < high
    assert low >= 0 or min(a, b) < 0
    assert not integer or (low == round(low) and high == round(high))


def test_round_numbers() -> None:
    assert widen(17, 90, True) == (10, 90)
    assert widen(0.013, 0.97, False) == (0, 1)
    assert widen(250, 18424, True) == (0, 20000)
    assert widen(0, 0, True) == (0, 1)
    assert widen(3, 3, True) == (3, 4)
    assert widen(6.8, 7.67, False)[0] == 6.8  # 68 steps of 0.1 are 6.800000000000001
    tiny = Schema.infer(pd.DataFrame({"x": [0.0, 2e-259]}))["x"]  # no unit of that size can be used
    assert tiny.low == 0 and 2e-259 < tiny.high < 1e-99


def test_kinds_follow_types() -> None:
    frame = pd.DataFrame(
        {
            "age": [20, 61],
            "race": [1, 2],
            "pay": [1.0, None],
            "job": ["clerk", None],
            "size": pd.Categorical(["S", "L"], ["S", "M", "L"], ordered=True),
            "y": ["no", "yes"],
            "w": [1.0, 2.0],
        }
    )
    schema = Schema.infer(frame, label="y", weight="w", protected=["race"], immutable=["age"], proxies=["job"])
    kinds = {feature.name: feature.kind for feature in schema.features}
    assert kinds == {"age": "integer", "race": "categorical", "pay": "numeric", "job": "categorical", "size": "ordinal"}
    assert schema["size"].categories == ("S", "M", "L")
    assert schema["job"].levels == ("clerk", "missing") and schema["job"].proxy
    assert schema["pay"].fill == 1.0 and schema["age"].immutable
    assert schema.label is not None and schema.label.classes == ("no", "yes")
    numbers = frame.assign(y=[0.5, 1.5]).iloc[[0, 1] * 15].assign(y=np.arange(30) / 7)
    label = Schema.infer(numbers, label="y").label
    assert label is not None and label.regression


def test_columns_that_cannot_be_guessed() -> None:
    many = pd.DataFrame({"note": [f"person {i}" for i in range(60)], "x": 1.0})
    with pytest.raises(SchemaError, match=r"'note' has 60 categories, more than max_categories=50.*'ignore'"):
        Schema.infer(many)
    assert [f.name for f in Schema.infer(many, ignore=["note"]).features] == ["x"]
    with pytest.raises(SchemaError, match="'day' holds datetime"):
        Schema.infer(pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}))
    with pytest.raises(SchemaError, match=r"'x', row 1: .*inf"):
        Schema.infer(pd.DataFrame({"x": [1.0, np.inf]}))
    with pytest.raises(DataError, match="no column 'sex'; it has 'note', 'x'"):
        Schema.infer(many, protected=["sex"])


def test_an_identifier_is_no_feature() -> None:
    """As for ``isonomy init``: what is called an identifier and differs in every row names people."""
    names = [f"person {i}" for i in range(60)]
    many = pd.DataFrame({"Unnamed: 0": range(60), "customer_id": names, "KundenNr": range(60), "x": 1.0})
    schema = Schema.infer(many)
    assert (schema.id, [f.name for f in schema.features]) == ("customer_id", ["x"])
    assert Schema.infer(many, ignore=["customer_id"]).id == "KundenNr"
    assert Schema.infer(many[["Unnamed: 0", "x"]]).id == "Unnamed: 0"
    protected = Schema.infer(many, protected=["KundenNr"])
    assert (protected.id, [f.name for f in protected.features]) == ("customer_id", ["KundenNr", "x"])
    twice = many[["KundenNr", "x"]].assign(KundenNr=np.arange(60) // 2)
    assert (Schema.infer(twice).id, len(Schema.infer(twice).features)) == (None, 2)
    amounts = many[["x"]].assign(no=np.linspace(0, 1, 60))
    assert (Schema.infer(amounts).id, len(Schema.infer(amounts).features)) == (None, 2)


def test_names_made_of_digits_are_no_numbers() -> None:
    frame = pd.DataFrame({"account": [1, 9_007_199_254_740_993]}, index=[7, 7])
    with pytest.raises(SchemaError, match=r"row 7: 9007199254740993 is not a number .*'ignore' the column"):
        Schema.infer(frame)


@pytest.mark.parametrize("kind", ["int64", "Int64", "float64", "uint16"])
def test_a_label_of_many_numbers_is_no_class_each(kind: str) -> None:
    """A credit limit in whole euros is a number: as classes it would have hundreds, each of one person."""
    frame = pd.DataFrame({"age": range(60), "limit": pd.Series(range(1000, 1060), dtype=kind)})
    few = frame.assign(limit=frame["limit"] % 3)
    many, grade = Schema.infer(frame, label="limit").label, Schema.infer(few, label="limit").label
    assert many is not None and many.regression
    assert grade is not None and len(grade.classes) == 3
