"""Tables of other customs mean the same people as plain ones."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isonomy.auditing.guess import guess_schema, read_unknown
from isonomy.auditing.inputs import read_people
from isonomy.auditing.plan import Roles
from isonomy.auditing.proposal import propose
from isonomy.errors import DataError, FileError, IsonomyError, ParameterError
from isonomy.population import Dialect, Population, Schema
from isonomy.similarity import Counterparts

SCHEMA = Schema.from_toml(
    """
name = "towns"
[features.town]
categories = ["Köln", "Bonn; West"]
[features.income]
low = 0
high = 10
[features.years]
kind = "integer"
low = 0
high = 9
fill = 3
missing_values = ["?"]
"""
)
FRAME = pd.DataFrame({"town": ["Köln", "Bonn; West"], "income": [1.5, 2.0], "years": ["4", "?"]})


def test_separator_encoding_and_decimal_mark(tmp_path: Path) -> None:
    plain, other, packed = tmp_path / "plain.csv", tmp_path / "other.csv", tmp_path / "packed.csv.gz"
    FRAME.to_csv(plain, index=False)
    FRAME.to_csv(other, index=False, sep=";", decimal=",", encoding="latin-1")
    packed.write_bytes(gzip.compress(other.read_bytes()))
    expected = Population.from_frame(FRAME, SCHEMA).x
    assert np.array_equal(read_people(str(plain), SCHEMA).x, expected)
    dialect = Dialect(";", "latin-1", ",")
    for file in (other, packed):
        assert np.array_equal(read_people(str(file), SCHEMA, dialect=dialect).x, expected)
        assert read_unknown(file)[1] == dialect


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("dialect", [Dialect(), Dialect(encoding="latin-1", decimal=",")])
def test_tabs_are_told_by_name_and_header(tmp_path: Path, separator: str, dialect: Dialect) -> None:
    file = tmp_path / "t.tsv"
    FRAME.to_csv(file, index=False, sep=separator, decimal=dialect.decimal, encoding=dialect.encoding)
    assert np.array_equal(read_people(str(file), SCHEMA, dialect=dialect).x, Population.from_frame(FRAME, SCHEMA).x)


def test_cells_that_are_not_of_the_encoding(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(FileError, match=r"t\.csv cannot be read as CSV in ascii: ") as caught:
        read_people(str(tmp_path / "t.csv"), SCHEMA, dialect=Dialect(encoding="ascii"))
    assert "\n" not in str(caught.value)


def test_a_thousands_mark_is_an_error_not_another_number(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text('town;income;years\nKöln;"0.001,5";4\n', encoding="utf-8")
    with pytest.raises(DataError, match="'income', row 0"):
        read_people(str(file), SCHEMA, dialect=Dialect(";", "utf-8", ","))


@pytest.mark.parametrize(
    ("source", "dialect", "words"),
    [
        ("t.csv", Dialect(";", "klingon"), "'encoding' must be"),
        ("t.csv", Dialect("|"), "has no column 'town'"),
        ("missing.csv", Dialect(";"), "there is no such file"),
        ("t.xlsx", Dialect(), "its name must end in"),
        ("nothing", Dialect(), "one of the catalogue"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dialect: Dialect, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("t.csv", index=False)
    FRAME.to_csv("t.xlsx", index=False)
    with pytest.raises(IsonomyError, match=words) as caught:
        read_people(source, SCHEMA, dialect=dialect)
    assert "\n" not in str(caught.value) and "isonomy-" not in str(caught.value), "no temporary names"


def test_a_table_without_a_schema_needs_one(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="isonomy init"):
        read_people(str(tmp_path / "t.csv"), None)


def test_guesses_of_a_messy_table(tmp_path: Path) -> None:
    n = 60
    table = pd.DataFrame(
        {
            "id": np.arange(n),
            "KundenNr": np.arange(n),
            "account": 9_007_199_254_740_993 + np.arange(n),
            "nanoseconds": 160_000_000_000_000 + np.arange(n) // 2,
            "age": [str(20 + i % 40) for i in range(n)],
            "score": ["?" if i == 3 else f"{i / 7:.2f}" for i in range(n)],
            "town": ["" if i == 5 else ("Köln", "Bonn")[i % 2] for i in range(n)],
            "note": [f"note {i}" for i in range(n)],
            "good": [("no", "yes")[i % 3 == 0] for i in range(n)],
        }
    )
    file = tmp_path / "messy.csv"
    table.to_csv(file, index=False, sep=";")
    frame, dialect, marks = read_unknown(file)
    guess = guess_schema(frame, marks, "messy", Roles(label="good", protected=("town",)))
    kinds = {feature.name: feature.kind for feature in guess.schema.features}
    assert dialect == Dialect(";") and marks == {"score": ("?",)}
    assert kinds == {"age": "integer", "score": "numeric", "town": "categorical"}
    assert guess.schema.id == "id"
    assert set(guess.left_out) == {"KundenNr", "account", "nanoseconds", "note"}
    assert guess.schema["score"].missing_values == ("?",) and guess.schema["score"].fill is not None
    assert guess.schema["town"].missing == "category" and guess.schema["town"].protected
    again = read_people(str(file), guess.schema, dialect=dialect)
    assert np.array_equal(again.x, Population.from_frame(frame, guess.schema).x), "what init saw is what audit reads"


def test_a_model_without_a_place_for_missing_cells(tmp_path: Path) -> None:
    """What is wrong is the gap, not that no schema was given."""
    import skops.io
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    table = pd.DataFrame({"age": np.arange(20.0, 60.0), "score": np.arange(40) % 7.0, "good": ["no", "yes"] * 20})
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(table[["age", "score"]], table["good"])
    skops.io.dump(model, tmp_path / "model.skops")
    table.loc[3, "score"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    proposal = propose(tmp_path / "t.csv", tmp_path / "model.skops", Roles(label="good"))
    assert any("column 'score' may be missing, but nothing in the model fills it" in note for note in proposal.notes)
    assert not proposal.ready and "TO DO" in proposal.schema and "columns = " not in proposal.schema


def test_what_init_writes_takes_a_relative_tolerance(tmp_path: Path) -> None:
    """As the remark above every such file says, also for a column that begins at 0."""
    import skops.io
    from sklearn.linear_model import LogisticRegression

    table = pd.DataFrame({"income": np.arange(40.0) * 700, "debt": np.arange(40) % 7, "good": ["no", "yes"] * 20})
    skops.io.dump(LogisticRegression().fit(table[["income", "debt"]], table["good"]), tmp_path / "model.skops")
    table.to_csv(tmp_path / "t.csv", index=False)
    proposal = propose(tmp_path / "t.csv", tmp_path / "model.skops", Roles(label="good"))
    assert "relative_tolerance = 0.05" in proposal.schema
    schema = Schema.from_toml(re.sub(r"\nlow = ", r"\nrelative_tolerance = 0.05\nlow = ", proposal.schema))
    assert [(each.low, each.relative_tolerance) for each in schema.features] == [(0, 0.05), (0, 0.05)]
    assert (Counterparts.of(schema).relative > 0).all()


def test_a_role_for_a_column_that_is_not_there(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    frame, _, marks = read_unknown(tmp_path / "t.csv")
    with pytest.raises(DataError, match="no column 'sexx'"):
        guess_schema(frame, marks, "t", Roles(protected=("sexx",)))


@pytest.mark.parametrize("content", [b"", b"a,b\n"])
def test_a_table_without_rows(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises((FileError, DataError)):
        read_unknown(tmp_path / "t.csv")


def test_a_column_of_grouped_numbers_is_left_out_for_that_reason(tmp_path: Path) -> None:
    """Not as so many different texts: who reads that does not know what to change."""
    rows = "".join(f"{n}.{100 + n},50;{n};note {n}\n" for n in range(1, 61))
    (tmp_path / "t.csv").write_text(f"income;age;remark\n{rows}?;7;none\n")
    frame, _, marks = read_unknown(tmp_path / "t.csv")
    left_out = guess_schema(frame, marks, "t", Roles()).left_out
    assert left_out["income"].startswith("its cells look like numbers with thousands separators, such as '10.110,50'")
    assert left_out["remark"] == "it has 61 different texts"


@pytest.mark.parametrize(("factor", "words"), [(1.0, "R² on this table is 1.000"), (-1.0, "R² on this table is -")])
def test_init_says_how_well_a_regression_is_read(tmp_path: Path, factor: float, words: str) -> None:
    import skops.io
    from sklearn.linear_model import LinearRegression

    frame = pd.DataFrame({"age": np.arange(60.0) + 0.5})
    skops.io.dump(LinearRegression().fit(frame, factor * frame["age"]), tmp_path / "m.skops")
    frame.assign(wage=frame["age"]).to_csv(tmp_path / "t.csv", index=False)
    notes = propose(tmp_path / "t.csv", tmp_path / "m.skops", Roles(label="wage"), tmp_path).notes
    assert any(words in note for note in notes)
    assert any("no better than always saying the mean" in note for note in notes) == (factor < 0)
