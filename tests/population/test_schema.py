from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.population.strategies import Case, cases, patient

from isonomy.errors import DataError, ParameterError, SchemaError
from isonomy.population import Feature, Label, Schema, Split

KINDS = ("unbounded", "relaxed", "realizable")


@patient
@given(cases())
def test_every_encoded_row_is_a_member_bit_for_bit(case: Case) -> None:
    x = case.schema.encode(case.frame).x
    assert x.shape == (len(case.frame), case.schema.width)
    for kind in KINDS:
        assert case.schema.domain(kind).contains(x).all()


@patient
@given(cases())
def test_decoding_gives_the_raw_values_back(case: Case) -> None:
    decoded = case.schema.decode(case.schema.encode(case.frame).x)
    for feature in case.schema.features:
        for raw, shown in zip(case.frame[feature.name], decoded[feature.name], strict=True):
            if pd.isna(raw):
                assert shown == feature.missing_label if feature.categories else pd.isna(shown)
            elif feature.kind == "numeric":
                room = 8e-16 * (abs(raw) + abs(feature.origin)) + 1e-300
                assert abs(raw - shown) <= room
                assert feature.low <= shown <= feature.high
            else:
                assert raw == shown


@patient
@given(cases())
def test_encoding_what_was_decoded_gives_the_coordinates_back(case: Case) -> None:
    x = case.schema.encode(case.frame).x
    again = case.schema.encode(case.schema.decode(x)).x
    exact = np.concatenate([np.full(f.width, f.kind != "numeric") for f in case.schema.features])
    assert np.array_equal(x[:, exact], again[:, exact])
    room = np.concatenate([np.full(f.width, 1e-15 * (1 + abs(f.origin / f.unit))) for f in case.schema.features])
    assert (np.abs(x - again) <= room * (1 + np.abs(x))).all()


def test_rounding_does_not_push_the_ends_of_a_range_out_of_it() -> None:
    schema = Schema("s", (Feature("a", low=-7.5, high=0.0, origin=5.2, unit=2.2),))
    x = schema.encode(pd.DataFrame({"a": [0.0]})).x
    assert x[0, 0] * 2.2 + 5.2 > 0.0  # rounding, so decoding has to mind the range
    assert schema.decode(x)["a"][0] == 0.0


@patient
@given(cases(), st.data())
def test_relaxed_points_can_be_shown(case: Case, data: st.DataObject) -> None:
    x = case.schema.encode(case.frame).x
    share = data.draw(st.floats(0, 1))
    decoded = case.schema.decode(share * x[:1] + (1 - share) * x[-1:])
    assert list(decoded.columns) == [feature.name for feature in case.schema.features]


def test_mixtures_are_spelled_out() -> None:
    schema = Schema(
        "s",
        (
            Feature("sex", "categorical", categories=("f", "m"), labels={"f": "female", "m": "male"}),
            Feature("rank", "ordinal", categories=("low", "middle", "high")),
            Feature("pay", low=0, high=10, fill=5),
        ),
    )
    decoded = schema.decode([[0.7, 0.3, 0.75, 0.5, 0.25], [0, 1, 0.5, 1, 0]], words=True)
    assert decoded["sex"].tolist() == ["female 0.70 / male 0.30", "male"]
    assert decoded["rank"].tolist() == ["between middle and high (1.50)", "middle"]
    assert decoded["pay"].tolist() == ["5 (missing 0.25)", 10.0]


@patient
@given(cases())
def test_toml_round_trip(case: Case) -> None:
    again = Schema.from_toml(case.schema.to_toml())
    assert again == case.schema
    assert again.hash() == case.schema.hash()


def test_masks_and_slices_cover_flags_and_blocks() -> None:
    schema = Schema(
        "s",
        (
            Feature("age", "integer", low=18, high=98, fill=30, protected=True),
            Feature("job", "categorical", categories=("a", "b"), missing="category", seen=False),
            Feature("only", "categorical", categories=("one",)),
        ),
    )
    assert schema.coordinate_names == ("age", "age=missing", "job=a", "job=b", "job=missing", "only=one")
    assert schema.slices == {"age": slice(0, 2), "job": slice(2, 5), "only": slice(5, 6)}
    assert schema.protected == ("age",) and schema.proxies == ()
    assert schema.protected_coordinates.tolist() == [True, True, False, False, False, False]
    assert schema.seen_coordinates.tolist() == [True, True, False, False, False, True]
    domain = schema.domain()
    assert domain.blocks == ((1, 2), (2, 5))
    assert domain.fills == ((1, 0, 0.15),)
    assert domain.integer.tolist() == [True, False, False, False, False, False]
    assert domain.low.tolist() == [0, 0, 0, 0, 0, 1] and domain.high.tolist() == [1] * 6
    x = schema.encode(pd.DataFrame({"age": [18, None], "job": ["b", None], "only": "one"})).x
    assert x.tolist() == [[0, 0, 0, 1, 0, 1], [0.15, 1, 0, 0, 1, 1]]


LOANS = Schema(
    "loans",
    (
        Feature("age", "integer", low=18, high=100),
        Feature("pay", low=0, high=1e6),
        Feature("sex", "categorical", categories=("female", "male")),
    ),
    label=Label("repaid", ("no", "yes")),
)
GOOD = {"age": [30, 40, 50], "pay": [1.5, 2.5, 3.5], "sex": ["male", "female", "male"]}


@pytest.mark.parametrize(
    ("column", "cells", "words"),
    [
        ("age", [30, 140, 50], ["'age'", "row b", "140", "a whole number from 18 to 100"]),
        ("age", [30, 40, 40.5], ["'age'", "row c", "40.5", "whole number"]),
        ("pay", [1.5, np.nan, 2], ["'pay'", "row b", "a missing value", "from 0 to 1000000", "'fill'"]),
        ("pay", [np.inf, 1, np.inf], ["'pay'", "row a", "inf", "1 more row"]),
        ("pay", ["1", "many", "2"], ["'pay'", "row b", "'many'", "finite number"]),
        ("pay", pd.to_datetime(["2020-01-01"] * 3), ["'pay'", "row a", "finite number"]),
        ("sex", ["male", "femal", "male"], ["'sex'", "row b", "'femal'", "did you mean 'female'?"]),
        ("sex", ["male", None, "male"], ["'sex'", "row b", "a missing value", "'female', 'male'"]),
    ],
)
def test_a_bad_cell_is_named_or_excluded(column: str, cells: object, words: list[str]) -> None:
    frame = pd.DataFrame(GOOD | {column: cells}, index=list("abc"))
    with pytest.raises(DataError) as caught:
        LOANS.encode(frame)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    encoded = LOANS.encode(frame, unknown="exclude") if column != "pay" or cells[1] != cells[0] else None
    if encoded is not None:
        assert encoded.excluded == (~encoded.kept).sum() >= 1
        assert len(encoded.x) == encoded.kept.sum()
        assert LOANS.domain().contains(encoded.x).all()


def test_tables_that_cannot_be_used() -> None:
    frame = pd.DataFrame(GOOD)
    with pytest.raises(DataError, match="no column 'pay'; it has 'age', 'sex'"):
        LOANS.encode(frame.drop(columns="pay"))
    with pytest.raises(DataError, match="empty: it has 3 columns and no row"):
        LOANS.encode(frame.iloc[:0])
    with pytest.raises(DataError, match=r"Not one row fits.*'age', row 0: 3 is not"):
        LOANS.encode(frame.assign(age=3), unknown="exclude")
    with pytest.raises(DataError, match="two columns called 'age'"):
        LOANS.encode(pd.concat([frame, frame], axis=1))
    with pytest.raises(DataError, match="Got list"):
        LOANS.encode([[1, 2, 3]])
    with pytest.raises(ParameterError, match=r"'unknown' must be 'error' or 'exclude'\. Got 'drop'"):
        LOANS.encode(frame, unknown="drop")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="rows of 4 coordinates"):
        LOANS.decode(np.zeros((2, 3)))
    with pytest.raises(ParameterError, match="one of 'age', 'pay', 'sex'"):
        LOANS["income"]


def test_the_callers_table_is_left_alone() -> None:
    frame = pd.DataFrame(GOOD)
    before = frame.copy(deep=True)
    LOANS.encode(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_codes_may_be_written_as_numbers_floats_or_text() -> None:
    schema = Schema("s", (Feature("race", "categorical", categories=("1", "2", "9")),))
    for cells in ([1, 9, 2], [1.0, 9.0, 2.0], ["1", "9", "2"], pd.Categorical([1, 9, 2])):
        assert schema.encode(pd.DataFrame({"race": cells})).x.argmax(axis=1).tolist() == [0, 2, 1]


def test_missing_values_listed_in_the_schema() -> None:
    schema = Schema("s", (Feature("hours", "integer", low=0, high=99, fill=40, missing_values=("?", "-1")),))
    x = schema.encode(pd.DataFrame({"hours": ["40", "?", "-1", 99, None]})).x
    assert x[:, 1].tolist() == [0, 1, 1, 0, 1]
    assert x[:, 0].tolist() == [40 / 99, 40 / 99, 40 / 99, 1, 40 / 99]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Feature("a", "number"), "'kind' must be one of"),  # type: ignore[arg-type]
        (lambda: Feature("a", "categorical"), "needs 'categories'"),
        (lambda: Feature("a", "categorical", categories=("x", "x")), "must differ"),
        (lambda: Feature("a", "categorical", categories=("x", "y"), low=1), "have no 'low'"),
        (lambda: Feature("a", categories=("x",)), "not numeric"),
        (lambda: Feature("a", low=2, high=1), "'low' must be at most 'high'"),
        (lambda: Feature("a", unit=0), "'unit' must be a positive number. Got 0"),
        (lambda: Feature("a", unit=-1), "'unit' must be a positive number"),
        (lambda: Feature("a", "integer", low=0.5, high=3), "whole number. Got 0.5"),
        (lambda: Feature("a", "integer", high=1e20), "size at most"),
        (lambda: Feature("a", low=0, high=1, fill=2), "'fill' must lie between"),
        (lambda: Feature("a", "integer", low=0, high=9, fill=2.5), "'fill' of an integer"),
        (lambda: Feature("a", missing="category"), "give a 'fill' value instead"),
        (lambda: Feature("a", missing_values=("?",)), "'missing_values' need a 'fill'"),
        (lambda: Feature("a", tolerance=-1), "'tolerance' must be a finite number >= 0. Got -1"),
        (lambda: Feature("a", tolerance=1, relative_tolerance=0.1), "not both"),
        (lambda: Feature("a", "ordinal", categories=("x", "y"), fill="z"), "one of the levels. Got 'z'"),
        (lambda: Feature("a", "categorical", categories=("x", "y"), labels={"z": "?"}), "keyed by categories"),
        (lambda: Schema("s", ()), "has no features"),
        (lambda: Schema("s", (Feature("a"), Feature("a"))), "column 'a' has two roles"),
        (lambda: Schema("s", (Feature("a"),), weight="a"), "column 'a' has two roles"),
        (lambda: Label("y", ("one",)), "two or more names"),
        (lambda: Split("s", "x", "x"), "must differ"),
    ],
)
def test_schemas_that_make_no_sense(make: object, words: str) -> None:
    with pytest.raises(SchemaError) as caught:
        make()  # type: ignore[operator]
    assert words in str(caught.value)


def test_hash_follows_meaning_not_words() -> None:
    plain = Schema("s", (Feature("a", low=0, high=1),))
    assert plain.hash() == Schema("s", (Feature("a", low=0, high=1, description="words"),)).hash()
    assert plain.hash() != Schema("s", (Feature("a", low=0, high=2),)).hash()
