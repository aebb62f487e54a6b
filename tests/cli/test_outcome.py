"""One outcome in every command: the favourable class and its cut-off, from options, audit.toml or the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.auditing import Plan
from isonomy.auditing import run as audited
from isonomy.population import Population, Schema
from isonomy.population.outcome import decided, named
from isonomy.records import read

Run, Answered = Callable[..., Any], Callable[..., Any]
QUICK = ("--limit", "12", "--gamma", "0")


@pytest.fixture
def plan(files: Path, run: Run) -> str:
    run("init", files / "people.csv", files / "pipeline.onnx", "--label", "approved", "--protected", "sex")
    return "audit.toml"


def test_an_audit_is_asked_about_the_class_that_is_named(plan: str, run: Run, answered: Answered) -> None:
    """Record, its schema and its checker, explain and compare: all of them say and use the same."""
    assert answered("audit", plan, *QUICK, "--out", "plain")[0] == 0
    words = ("--favourable", "no", "--threshold", "0.3")
    status, facts = answered("audit", plan, *QUICK, *words, "--out", "asked")
    assert status == 0 and set(facts["four_fifths"]) == {"sex"}
    record, plain = read(Path("asked")), read(Path("plain"))
    assert (record.problem.outcome.favourable, record.problem.outcome.threshold) == (("no",), 0.3)
    assert record.schema.label == record.problem.outcome and record.problem.schema == record.schema
    assert plain.problem.outcome.favourable == () and plain.problem.outcome.threshold is None
    status, found = answered("verify", Path("asked") / "certificate.json")
    assert status == 0 and 'favourable "no"' in found["question"]["outcome"]
    assert "threshold 0.3" in found["question"]["outcome"]
    status, found = answered("compare", "plain", "asked")
    assert found["question"] == {"favourable": [[], ["no"]], "threshold": [None, 0.3]} and not found["comparable"]
    page = run("compare", "plain", "asked")[1]
    assert "different questions" in page and "| threshold | none | 0.3 |" in page
    # Between the two cut-offs the same person is decided otherwise.
    given = record.problem.model(record.people.x)
    for place in (*np.flatnonzero((given[:, 0] >= 0.3) & (given[:, 0] < 0.5))[:1].tolist(), 0):
        row, expected = (
            str(record.people.rows[place]),
            named(decided(given[[place]], record.problem.outcome), record.problem.outcome),
        )
        folder = answered("explain", "asked", "--row", row)[1]
        planned = answered("explain", plan, *words, "--row", row)[1]
        assert [(each["outcome"], each["favourable"]) for each in (folder, planned)] == expected * 2
        assert folder["decision"] == planned["decision"] and folder["decided"] == planned["decided"]
        page = run("explain", "asked", "--row", row)[1]
        assert f"Given is {expected[0][0]!r}. Decided is 'no' from a probability of 0.3 on" in page
        other = answered("explain", "plain", "--row", row)[1]
        assert other["outcome"] == ("yes" if given[place, 0] <= 0.5 else "no") and other["favourable"] is None


def test_the_keys_of_a_file_are_the_options(plan: str, answered: Answered) -> None:
    text = Path(plan).read_text()
    for line in ('favourable = "no"', 'favourable = ["no"]'):
        Path(plan).write_text(f"{line}\nthreshold = 0.3\n{text}")
        asked = Plan.of({}, plan)
        assert asked.favourable == ("no",) and asked.threshold == 0.3
        assert "--favourable no --threshold 0.3" in asked.command()
    answered("audit", plan, *QUICK, "--out", "asked")
    question = json.loads(Path("asked/certificate.json").read_text())["predicate"]["question"]
    assert (question["classes"], question["favourable"], question["threshold"]) == (["no", "yes"], ["no"], 0.3)
    status, told = answered("audit", plan, *QUICK, "--favourable", "maybe", "--threshold", "0.3", "--out", "x")
    assert status == 2 and "'favourable' must be one or more, not all, of 'no', 'yes'. Got" in told["error"]["message"]
    status, told = answered("audit", plan, *QUICK, "--threshold", "1", "--out", "x")
    assert status == 2 and "'threshold' must be a probability strictly between 0 and 1" in told["error"]["message"]


def test_another_outcome_does_not_go_on_from_finished_parts(plan: str) -> None:
    """A stopped audit goes on from its parts; of another class or cut-off nothing that was finished is used."""
    work = Path("work")
    asked = Plan.of({"limit": 12, "gamma": 0.0}, plan)
    first = audited(asked, None, work=work)
    assert first.certificate.computed == 1 and audited(asked, None, work=work).certificate.computed == 0
    for more in ({"favourable": ("no",)}, {"favourable": ("yes",), "threshold": 0.3}, {"threshold": 0.3}):
        other = audited(Plan.of({"limit": 12, "gamma": 0.0, **more}, plan), None, work=work / str(len(str(more))))
        again = audited(Plan.of({"limit": 12, "gamma": 0.0, **more}, plan), None, work=work)
        assert again.certificate.computed == 1
        assert np.array_equal(again.certificate.local.decision, other.certificate.local.decision)
        assert again.certificate.upper == first.certificate.upper


def test_groups_are_about_the_class_that_is_named(plan: str, table: pd.DataFrame) -> None:
    rates = {}
    for name in ("no", "yes"):
        found = audited(Plan.of({"limit": 60, "gamma": 0.0, "no_search": True, "favourable": (name,)}, plan), None)
        assert found.group is not None and found.group.favourable == (name,)
        rates[name] = found.group.groups["selection_rate"].to_numpy()
    np.testing.assert_allclose(rates["no"] + rates["yes"], 1.0)
    nothing = audited(Plan.of({"limit": 60, "gamma": 0.0, "no_search": True}, plan), None)
    assert nothing.group is None
    people = Population.from_frame(table, Schema.from_toml(Path("schema.toml")))
    assert people.schema.label is not None and people.schema.label.favourable == ()
