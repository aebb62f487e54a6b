"""Guesses about columns that a colleague would make."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import isonomy
from isonomy.auditing.guess import guess_schema
from isonomy.auditing.plan import Roles
from isonomy.auditing.proposal import draft, propose
from isonomy.errors import NetworkError

N = 120


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    recid = rng.integers(0, 2, N)
    years = pd.Series(rng.integers(0, 30, N).astype(float))
    years[5] = np.nan
    return pd.DataFrame(
        {
            "age": rng.integers(18, 71, N),
            "born": [f"{1 + i % 28:02d}/{1 + i % 12:02d}/{1950 + i % 40}" for i in range(N)],
            "seen": pd.date_range("2020-01-01", periods=N),
            "zip_code": rng.integers(10000, 99999, N),
            "years": years,
            "income": [f"${i},{rng.integers(100, 999)}" for i in range(N)],
            "share": np.round(rng.random(N), 3),
            "citizen": rng.integers(0, 2, N).astype(bool),
            "town": [*rng.choice(["York", "Hull"], N - 1).tolist(), "Leeds"],
            "is_recid": np.where(np.arange(N) < 4, 1 - recid, recid),
            "employed_years": rng.integers(0, 2, N),
            "two_year_recid": recid,
        }
    )


def test_columns_are_what_they_look_like(table: pd.DataFrame) -> None:
    guess = guess_schema(table, {}, "t", Roles(label="two_year_recid", protected=("age",)))
    features = {each.name: each for each in guess.schema.features}
    assert (features["age"].low, features["age"].high) == (table["age"].min(), table["age"].max())
    assert features["years"].kind == "integer" and features["years"].fill == round(table["years"].median())
    assert features["share"].kind == "numeric" and features["share"].high >= table["share"].max()
    assert features["citizen"].categories == ("False", "True")
    for name, words in (
        ("born", "it holds dates, such as '01/01/1950'"),
        ("income", "numbers written as texts, such as '$0,"),
        ("seen", "datetime64"),
        ("is_recid", "another outcome: 'recid' is in its name, too, and it agrees with 'two_year_recid' in 97 %"),
    ):
        assert words in guess.left_out[name] and name not in features
    assert "employed_years" in features  # named alike in a common word, and no outcome
    assert "looks like a code" in guess.remarks["zip_code"] and "whole numbers" in guess.remarks["years"]
    assert "1 missing, as a person's may be" in guess.remarks["years"] and "Rare: 'Leeds' (1)." in guess.remarks["town"]
    assert "widened" not in guess.remarks["age"]


def test_a_model_that_reads_a_further_outcome_keeps_it(table: pd.DataFrame) -> None:
    roles, y = Roles(label="two_year_recid"), table["two_year_recid"]
    for columns, kept in ((["age", "is_recid"], True), (["age"], False)):
        made = draft(table, {}, "t", LogisticRegression().fit(table[columns], y), roles)
        assert made.ready and ("is_recid" in made.schema.slices) == kept
        base = max(y.mean(), 1 - y.mean())
        assert any(f"always saying the most frequent class is right for {base:.3f}" in note for note in made.notes)


def test_bands_and_copies_of_a_number_are_further_outcomes() -> None:
    rng = np.random.default_rng(0)
    years, grade = rng.integers(0, 40, 300), rng.integers(0, 20, 300)
    salary = 20000.0 + 900 * years + 700 * grade + rng.normal(0, 3000, 300).round()
    bands = np.array(["low", "mid", "high"])[np.digitize(salary, [30000, 48000])]
    frame = {"years": years, "salary_grade": grade, "salary_band": bands, "salary_net": salary * 0.7, "salary": salary}
    guess = guess_schema(pd.DataFrame(frame), {}, "t", Roles(label="salary"), numbers=True)
    assert set(guess.left_out) == {"salary_band", "salary_net"}, "a grade with noise between it and pay is an input"
    assert "says most of what 'salary' does" in guess.left_out["salary_band"]


@pytest.mark.parametrize("live", [True, False])
def test_a_grade_is_a_number_for_a_model_of_numbers(live: bool, table: pd.DataFrame, tmp_path: Path) -> None:
    """0 to 20 points, in whole numbers, look like classes otherwise."""
    some = table[["age", "share"]].assign(grade=np.arange(N) % 18)
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(some[["age", "share"]], some["grade"])
    roles: Any = Roles(label="grade")
    if live:
        made = draft(some, {}, "t", model, roles)
        assert made.schema.label is not None and made.schema.label.regression and made.ready
        assert made.reading.r2 is not None and math.isfinite(made.reading.r2)
        return
    skops = pytest.importorskip("skops.io")
    some.to_csv(tmp_path / "people.csv", index=False)
    skops.dump(model, tmp_path / "model.skops")
    proposal = propose(tmp_path / "people.csv", tmp_path / "model.skops", roles, tmp_path)
    assert (
        proposal.ready and "classes" not in proposal.schema.split("[label]")[1].split("[features")[0].split("\n", 2)[2]
    )


def test_months_are_dates_and_versions_are_not() -> None:
    months = [f"{1 + i % 12:02d}/{2000 + i % 20}" for i in range(60)]
    table = pd.DataFrame({"month": months, "iso": [f"20{10 + i % 9}-0{1 + i % 9}" for i in range(60)], "x": range(60)})
    table = table.assign(code=[f"{i % 7}/{i % 5}" for i in range(60)], y=[i % 2 for i in range(60)])
    guess = guess_schema(table, {}, "t", Roles(label="y"))
    assert "it holds dates, such as '01/2000'" in guess.left_out["month"] and "iso" in guess.left_out
    assert "code" in {each.name for each in guess.schema.features}


def test_a_category_that_the_encoder_refuses_is_named(table: pd.DataFrame) -> None:
    """In one call, which can neither read the model nor ask it about such people."""
    table = table[["age", "town", "two_year_recid"]]
    known = table[table["town"] != "Leeds"]
    steps = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["town"]))
    model = make_pipeline(steps, LogisticRegression()).fit(known[["age", "town"]], known["two_year_recid"])
    words = (
        "neither be read nor asked.*unknown categories .'Leeds'.*'Leeds' of column 'town' is in the schema but unknown"
    )
    with pytest.raises(NetworkError, match=words):
        isonomy.audit(model, table, label="two_year_recid", quiet=True, progress=None)
    audit = isonomy.audit(model, known, label="two_year_recid", protected="town", quiet=True, progress=None)
    assert audit.certificate.problem.model.kind == "network"


def test_missing_values_may_be_anybodys(table: pd.DataFrame) -> None:
    table = table.assign(town=[None, *table["town"][1:]])
    guess = guess_schema(table, {}, "t", Roles(label="two_year_recid"))
    town, years = (guess.schema[name] for name in ("town", "years"))
    assert town.missing == "category" and years.flagged
    assert all("1 missing, as a person's may be" in guess.remarks[name] for name in ("town", "years"))
    assert "Rare: 'Leeds' (1)" in guess.remarks["town"]
