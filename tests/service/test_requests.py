"""Reading a request: the same coordinates as the library, and every column that does not fit is named."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.errors import DataError
from isonomy.population import Feature, Schema
from isonomy.population.encoding import Coding
from isonomy.service import Settings
from isonomy.service.requests import BadRequestError, Reader, column_schema

from .example import SCHEMA, rows

READER = Reader(SCHEMA, Settings(max_batch=100, max_budget_ms=1000.0))
GOOD: dict[str, Any] = rows(1, seed=3)[0]


def coordinates(people: Any, reader: Reader = READER) -> Any:
    return reader(json.dumps({"individuals": people}).encode()).x


CELLS = {
    "age": st.integers(18, 90) | st.integers(18, 90).map(float),
    "income": st.none() | st.floats(0, 200) | st.integers(0, 200) | st.sampled_from(["?", "-9", -9, -9.0]),
    "rate": st.floats(0.5, 9.5),
    "sex": st.sampled_from(["female", "male"]),
    "job": st.sampled_from(["1", "2", 1, 2.0, "other", "missing", None]),
    "school": st.sampled_from(["none", "some", "much", "missing", None]),
}
ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**310, 10**320)
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.none(), max_size=1)
)


@given(st.lists(st.fixed_dictionaries(CELLS), min_size=1, max_size=8))
@settings(deadline=None)
def test_coordinates_are_those_of_the_library(people: list[dict[str, Any]]) -> None:
    expected = SCHEMA.encode(pd.DataFrame(people, dtype=object)).x
    found = coordinates(people)
    assert found.dtype == np.float64
    assert np.array_equal(found, expected)
    assert SCHEMA.domain("realizable").contains(found).all()


@given(cell=ANYTHING, column=st.sampled_from(list(CELLS)), place=st.integers(0, 2))
@settings(max_examples=300, deadline=None)
def test_any_cell_is_read_as_the_library_does_or_refused_by_name(cell: Any, column: str, place: int) -> None:
    """Stricter than the library, never laxer."""
    people = [dict(GOOD) for _ in range(3)]
    people[place][column] = cell
    try:
        found = coordinates(people)
    except BadRequestError as error:
        assert error.details[0]["loc"] == ["body", "individuals", place, column]
        assert f"'{column}'" in error.details[0]["msg"]
        assert len(error.details[0]["msg"]) < 300
    else:
        assert np.array_equal(found, SCHEMA.encode(pd.DataFrame(people, dtype=object)).x)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("age", "40"), ("age", True), ("age", 40.5), ("age", 17), ("age", 91), ("age", None), ("age", math.nan),
        ("age", math.inf), ("age", 10**400), ("age", [40]), ("rate", 1e300), ("rate", "1"), ("rate", False),
        ("income", math.nan), ("income", -1), ("income", "much"), ("sex", "Female"), ("sex", 1), ("sex", None),
        ("sex", {}), ("job", True), ("job", math.nan), ("school", 1), ("school", "x" * 10_000),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(column: str, cell: Any) -> None:
    with pytest.raises(BadRequestError) as caught:
        READER(json.dumps({"individual": {**GOOD, column: cell}}).encode())
    assert [detail["loc"] for detail in caught.value.details] == [["body", "individual", column]]


def test_columns_too_many_and_too_few_are_named() -> None:
    wrong = {**GOOD, "shoe": 44}
    del wrong["rate"]
    with pytest.raises(BadRequestError) as caught:
        coordinates([GOOD, wrong])
    assert {detail["loc"][-1] for detail in caught.value.details} == {"shoe", "rate"}
    with pytest.raises(BadRequestError, match="'shoe'"):
        coordinates([{**GOOD, "shoe": 44}])
    with pytest.raises(BadRequestError, match="should be an object"):
        coordinates([GOOD, [1, 2, 3, 4, 5, 6]])
    with pytest.raises(BadRequestError, match="should be an object"):
        coordinates(["abcdef"])


def test_a_single_column_is_read_too() -> None:
    reader = Reader(Schema("one", (Feature("age", low=0.0, high=10.0),)), Settings())
    assert coordinates([{"age": 5}, {"age": 10}], reader).tolist() == [[0.5], [1.0]]
    with pytest.raises(BadRequestError):
        coordinates([{"age": 11}], reader)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe\xfa", b"[" * 100_000, b'{"a": }', b"\x00", b"nul"])
def test_bodies_that_are_no_json(body: bytes) -> None:
    with pytest.raises(DataError):
        READER(body)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    body = '{"individual": ' + json.dumps(GOOD).replace(str(GOOD["age"]), "9" * 6000, 1) + "}"
    with pytest.raises(BadRequestError, match="number out of range"):
        READER(body.encode())


@pytest.mark.parametrize(
    "document",
    [
        None, [], "x", {}, {"individual": GOOD, "individuals": [GOOD]}, {"individuals": []}, {"individuals": GOOD},
        {"individuals": [GOOD] * 101}, {"individual": GOOD, "tiers": 1}, {"individual": GOOD, "tier": "exact"},
        {"individual": GOOD, "tier": ["tight"]}, {"individual": GOOD, "budget_ms": -1},
        {"individual": GOOD, "budget_ms": math.nan}, {"individual": GOOD, "budget_ms": True},
        {"individual": GOOD, "budget_ms": 1001}, {"individual": GOOD, "counterpart": 1},
    ],
)  # fmt: skip
def test_requests_that_cannot_be_used(document: Any) -> None:
    with pytest.raises(BadRequestError):
        READER(json.dumps(document).encode())


def test_the_schema_of_a_column_says_what_is_read() -> None:
    """Every value that the JSON Schema lists is read, and no code is left out of it."""
    for feature in SCHEMA.features:
        described = column_schema(Coding(feature))
        listed = described.get("enum", [])
        for part in described.get("anyOf", []):
            listed = [*listed, *part.get("enum", [])]
        for cell in listed:
            coordinates([{**GOOD, feature.name: cell}])
    assert column_schema(Coding(SCHEMA["job"]))["enum"] == ["1", "2", "other", "missing", 1, 2, None]
    assert column_schema(Coding(SCHEMA["age"])) == {"type": "integer", "minimum": 18, "maximum": 90}
