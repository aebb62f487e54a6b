from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.population.strategies import Case, cases, patient

from isonomy.errors import DataError, ParameterError
from isonomy.population import Feature, Label, Population, Schema, Split
from isonomy.population.tables import Dialect

SCHEMA = Schema(
    "loans",
    (Feature("age", "integer", low=18, high=98, protected=True), Feature("pay", low=0, high=10)),
    label=Label("repaid", ("no", "yes")),
    weight="w",
)


def table(n: int = 200) -> pd.DataFrame:
    numbers = np.arange(n)
    return pd.DataFrame(
        {
            "age": 18 + numbers % 80,
            "pay": numbers / n,
            "repaid": np.where(numbers % 3 == 0, "yes", "no"),
            "w": 1.0 + numbers,
            "part": np.where(numbers % 4 == 0, "b", "a"),
        }
    )


def test_a_population_holds_everything_side_by_side() -> None:
    people = Population.from_frame(table(), SCHEMA)
    assert len(people) == 200 and people.x.shape == (200, 2) and people.split == "all"
    assert people.y is not None and people.y.dtype == np.int64 and people.y[:4].tolist() == [1, 0, 0, 1]
    assert people.weights[:2].tolist() == [1, 2]
    assert people.protected.columns.tolist() == ["age"]
    assert people.domain.kind == "realizable"
    assert people.with_domain("unbounded").domain.kind == "unbounded"
    assert "200 people, the table as given" in repr(people)
    with pytest.raises(ValueError, match="read-only"):
        people.x[0, 0] = 1


def test_labels_may_be_absent_and_regressions_are_numbers() -> None:
    assert Population.from_frame(table().drop(columns="repaid"), SCHEMA).y is None
    schema = Schema("s", (Feature("age", "integer"),), label=Label("pay"))
    people = Population.from_frame(table(), schema)
    assert people.y is not None and people.y.dtype == np.float64 and people.y[1] == 1 / 200
    assert people.weights.tolist() == [1.0] * 200


def test_train_and_test_share_out_the_rows_and_subsets_agree() -> None:
    people = Population.from_frame(table(2000), SCHEMA)
    train, test = people.train, people.test
    assert sorted([*train.rows, *test.rows]) == list(range(2000))
    assert 0.66 < len(train) / 2000 < 0.74
    assert train.train is train and test.test is test and (train.split, test.split) == ("train", "test")
    with pytest.raises(ParameterError, match="is the train part and has no test part"):
        _ = train.test
    some = people[np.arange(2000) % 2 == 0]
    assert set(some.train.rows) == set(train.rows[train.rows % 2 == 0])
    assert [i in set(test.rows) for i in range(2000)] == [splitmix64(i) / 2**64 >= 0.7 for i in range(2000)]


def splitmix64(i: int) -> int:
    """Output i of the published generator started at 0."""
    z = (i + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_the_reference_split_is_splitmix64() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # the published first output for seed 0


def test_a_split_column_decides() -> None:
    schema = Schema("s", SCHEMA.features, split=Split("part", "a", "b"))
    people = Population.from_frame(table(), schema)
    assert (people.test.rows % 4 == 0).all() and len(people.train) == 150
    with pytest.raises(DataError, match="no column 'part'"):
        _ = Population.from_frame(table().drop(columns="part"), schema).train
    with pytest.raises(DataError, match="test part of 's' is empty"):
        _ = Population.from_frame(table().assign(part="a"), schema).test


def test_rows_that_do_not_fit_are_named_or_counted() -> None:
    frame = table()
    frame.loc[3, "repaid"], frame.loc[5, "w"], frame.loc[7, "age"] = "perhaps", -1.0, 17
    with pytest.raises(DataError, match="'age', row 7: 17 is not"):
        Population.from_frame(frame, SCHEMA)
    people = Population.from_frame(frame, SCHEMA, unknown="exclude")
    assert people.excluded == 3 and len(people) == 197
    assert not {3, 5, 7} & set(people.rows)
    assert len(people.frame) == len(people.weights) == 197
    with pytest.raises(DataError, match=r"'repaid', row 3: 'perhaps'.*'no', 'yes'"):
        Population.from_frame(frame.drop(index=[5, 7]), SCHEMA)
    with pytest.raises(DataError, match=r"'w', row 5: -1\.0"):
        Population.from_frame(frame.drop(index=[3, 7]), SCHEMA)
    with pytest.raises(DataError, match="no column 'w'"):
        Population.from_frame(table().drop(columns="w"), SCHEMA)
    with pytest.raises(DataError, match="'w': all sampling weights are zero"):
        Population.from_frame(table().assign(w=0), SCHEMA)


@patient
@given(cases(most_rows=8), st.data())
def test_choosing_rows_keeps_everything_together(case: Case, data: st.DataObject) -> None:
    people = Population.from_frame(case.frame, case.schema)
    chosen = data.draw(st.lists(st.integers(0, len(people) - 1), min_size=1))
    part = people[chosen]
    assert np.array_equal(part.x, people.x[chosen])
    assert part.rows.tolist() == chosen
    assert np.array_equal(case.schema.encode(part.frame).x, part.x)


def test_choosing_rows_by_slice_mask_and_sample() -> None:
    people = Population.from_frame(table(), SCHEMA)
    assert people[:5].rows.tolist() == [0, 1, 2, 3, 4]
    assert people[people.x[:, 0] == 0].frame["age"].unique().tolist() == [18]
    assert people.sample(20, seed=1).rows.tolist() == people.sample(20, seed=1).rows.tolist()
    assert len(people.sample(20)) == 20 and len(people.sample(10**6)) == 200
    for bad in ([], [200], np.zeros(200, dtype=bool), np.zeros(3, dtype=bool)):
        with pytest.raises(ParameterError):
            people[bad]
    with pytest.raises(ParameterError, match="'n' must be a whole number >= 1"):
        people.sample(0)


def test_polars_tables_are_read() -> None:
    polars = pytest.importorskip("polars")
    frame = table()
    expected = Population.from_frame(frame, SCHEMA).x
    assert np.array_equal(Population.from_frame(polars.from_pandas(frame), SCHEMA).x, expected)
    assert np.array_equal(Population.from_frame(polars.from_pandas(frame).lazy(), SCHEMA).x, expected)


def test_missing_arrow_cells_count_as_missing() -> None:
    schema = Schema(
        "s",
        (
            Feature("hours", "integer", low=0, high=100, fill=40),
            Feature("job", "categorical", categories=("a", "b"), missing="category"),
        ),
    )
    cells = pa.table({"hours": pa.array([50, None]), "job": pa.array([None, "b"]).dictionary_encode()})
    assert Population.from_frame(cells, schema).x.tolist() == [[0.5, 0, 0, 0, 1], [0.4, 1, 0, 1, 0]]


def test_a_row_that_occurs_twice_is_told_from_people_who_are_alike() -> None:
    """By its place in the table, or by the label that it had there: coordinates do not tell."""
    schema = Schema("line", (Feature("a"),))
    whole = Population.from_frame(pd.DataFrame({"a": [1.0, 2.0, 2.0, 3.0, 3.0, 3.0]}), schema)
    assert not whole.repeated and not whole[[5, 0, 2]].repeated
    assert whole[[0, 0, 1]].repeated and whole[[2, 4, 2]].repeated
    drawn = Population.from_frame(whole.frame.sample(6, replace=True, random_state=0), schema)
    assert drawn.frame.index.has_duplicates and drawn.repeated
    assert not Population.from_frame(pd.concat([whole.frame] * 2, ignore_index=True), schema).repeated
    # Two tables, one under the other, each with labels of its own from 0.
    other = pd.DataFrame({"a": [1.0, 7.0, 2.0]})
    assert not Population.from_frame(pd.concat([whole.frame, other]), schema).repeated


def frame_of(*cells: object) -> pd.DataFrame:
    return pd.DataFrame({"v": pd.Series(cells, dtype="object")})


@pytest.mark.parametrize("kind", ["numeric", "integer"])
@pytest.mark.parametrize("cell", [10**400, -(10**400), 1 + 1j, 2 + 0j, np.complex64(1)], ids=lambda _: "")
def test_numbers_that_no_float_stands_for_are_refused(kind: str, cell: object) -> None:
    schema = Schema("s", (Feature("v", kind, low=0, high=5),))
    with pytest.raises(DataError, match=r"Column 'v', row 1: .* is not a"):
        Population.from_frame(frame_of(1, cell, "2"), schema)
    kept = Population.from_frame(frame_of(1, cell, "2"), schema, unknown="exclude")
    assert kept.excluded == 1 and kept.frame["v"].tolist() == [1, "2"]


def test_codes_too_long_for_floats_are_never_taken_for_each_other(tmp_path: Path) -> None:
    """2^53 + 1 is no float: beside an empty cell Arrow and pandas make 2^53 of it."""
    code, other = 2**53 + 1, 2**53
    schema = Schema("s", (Feature("v", "categorical", categories=(str(other), str(other + 2)), missing="category"),))
    known = Schema("s", (Feature("v", "categorical", categories=(str(code), str(other)), missing="category"),))
    (tmp_path / "t.csv").write_text(f"v\n{code}\n{code}.0\n\n")
    pd.DataFrame({"v": pd.array([code, None], dtype="Int64")}).to_parquet(tmp_path / "t.parquet")
    for file in ("t.csv", "t.parquet"):
        with pytest.raises(DataError, match="is not one of the categories"):
            Population.from_file(tmp_path / file, schema)
    with pytest.raises(DataError, match="is not one of the categories"):
        Population.from_frame(pd.DataFrame({"v": [float(code), np.nan]}), schema)
    with pytest.raises(DataError, match="is not one of the categories"):
        Population.from_file(tmp_path / "t.parquet", known)  # its reader has lost the last digit
    (tmp_path / "t.csv").write_text(f"v\n{code}\n{other}\n")
    assert Population.from_file(tmp_path / "t.csv", known).x.tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("cell", ["1_0", "\u0661\u0660", "\uff11\uff10", "1__0"])
def test_texts_that_only_python_reads_as_numbers_are_no_codes(tmp_path: Path, cell: str) -> None:
    (tmp_path / "t.csv").write_text(f"v\n10.0\n{cell}\n", encoding="utf-8")
    schema = Schema("s", (Feature("v", "categorical", categories=("1", "10")),))
    with pytest.raises(DataError, match=f"row 1: '{cell}' is not one of the categories"):
        Population.from_file(tmp_path / "t.csv", schema)


@pytest.mark.parametrize("declared", ["-9", "-9.0", "-9.00"])
def test_a_number_that_stands_for_missing_does_so_however_it_is_written(tmp_path: Path, declared: str) -> None:
    schema = Schema("s", (Feature("v", low=-20, high=10, fill=1, missing_values=(declared, "refused")),))
    for cells in ([-9, 2], [-9.0, 2.0], ["-9", "2"], ["-9.0", 2], ["refused", 2], [np.float32(-9), 2]):
        assert Population.from_frame(frame_of(*cells), schema).x[:, 1].tolist() == [1, 0]
        (tmp_path / "t.csv").write_text("v\n" + "".join(f"{cell}\n" for cell in cells))
        assert Population.from_file(tmp_path / "t.csv", schema).x[:, 1].tolist() == [1, 0]


def test_a_point_is_no_decimal_mark_where_commas_are(tmp_path: Path) -> None:
    """``1.234`` is a thousand and more where it is written so; read as 1.234 it would be somebody else."""
    comma = Dialect(";", "utf-8", ",")
    plain = Schema("s", (Feature("v", low=0, high=5000),))
    marked = Schema("s", (Feature("v", low=0, high=5000, fill=0, missing_values=("n.a.", "1,5")),))
    (tmp_path / "t.csv").write_text("v\n2,5\n1.234\n1.234,5\n")
    for schema in (plain, marked):
        with pytest.raises(DataError, match=r"row 1: '1\.234 \(a point, where .* is not a .*; 1 more row"):
            Population.from_file(tmp_path / "t.csv", schema, dialect=comma)
        assert Population.from_file(tmp_path / "t.csv", schema, dialect=comma, unknown="exclude").excluded == 2
    (tmp_path / "t.csv").write_text("v\n2,5\n n.a.\n1,5\n1,50\n")
    found = Population.from_file(tmp_path / "t.csv", marked, dialect=comma)
    assert found.x.tolist() == [[2.5 / 5000, 0], [0, 1], [0, 1], [1.5 / 5000, 0]]
