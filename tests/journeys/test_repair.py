"""What a stranger does about a finding: repair the model, or train a scorecard, and audit it again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.journeys.models import fit
from tests.journeys.test_journeys import CASES, LOANS, tables, truth_of

import isonomy
from isonomy.cli import main
from isonomy.population import Schema

REPAIRED = [
    pytest.param("loans", "XGBoost"), pytest.param("recidivism", "random forest", marks=pytest.mark.slow),
    pytest.param("loans", "LightGBM", marks=pytest.mark.slow), pytest.param("loans", "MLP", marks=pytest.mark.slow),
    pytest.param("recidivism", "ONNX", marks=pytest.mark.slow),
]  # fmt: skip


def answered(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    capsys.readouterr()
    status = main([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("table", "kind"), REPAIRED)
def test_a_repaired_model_is_audited_again(
    table: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[table]
    frame = case.make()
    fitted = fit(kind, case.inputs(frame), frame[case.label])
    assert fitted.save is not None
    frame.to_csv("people.csv", index=False)
    words = ["people.csv", fitted.save(tmp_path).name, *case.words, "--limit", "12"]
    trees = kind not in ("MLP", "ONNX")
    limits = ["--gamma", "0", "--epsilon", "0.5" if trees else "0.1"]
    assert main(["audit", *words, *limits, "--out", "before"]) in (0, 1)
    new = "new.json" if trees else "new.onnx"
    asked = ["before/question/audit.toml", *limits]
    status, _ = answered(capsys, "repair", *asked, "--out", new)
    assert status in (0, 3) and Path(new).is_file()
    reads = [] if trees else ["--reads", "coordinates"]
    judged, facts = answered(capsys, "audit", *asked, "--model", new, *reads, "--out", "after")
    assert judged == status, "the audit of the file says what the repair says"
    if trees:
        assert "changing" in str(facts["sentence"]) and "alone changes nothing" in str(facts["sentence"])
    else:
        upper = facts["upper"]
        assert isinstance(upper, float) and upper <= 0.1
    status, compared = answered(capsys, "compare", "before", "after")
    assert status == 0 and compared["comparable"]
    assert main(["verify", "after/certificate.json", "--model", new]) == 0


def test_a_scorecard_is_certified_and_reads_nothing_protected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a table alone; what is promised of it is what its own predictions give."""
    monkeypatch.chdir(tmp_path)
    frame = tables.loans(120, gaps=False)
    frame.to_csv("people.csv", index=False)
    schema = Schema.infer(frame.drop(columns=["application_id", "applied_on"]), label="approved", protected=["sex"])
    schema.save("schema.toml")
    people = isonomy.Population.from_frame(frame, schema)
    card = isonomy.FairClassifier(epsilon=0.05, progress=None).fit(people)
    card.to_onnx("card.onnx")
    words = ["--data", "people.csv", "--schema", "schema.toml", "--model", "card.onnx", "--reads", "coordinates"]
    status, facts = answered(
        capsys,
        "audit",
        *words,
        "--gamma",
        "0",
        "--epsilon",
        "0.05",
        "--limit",
        "12",
        "--favourable",
        "yes",
        "--out",
        "o",
    )
    local = pd.read_parquet("o/individuals.parquet")
    swapped = frame.iloc[local["row"]].assign(sex=lambda rows: np.where(rows["sex"] == "male", "female", "male"))
    own, other = (
        card.predict_proba(isonomy.Population.from_frame(each, schema).x)
        for each in (frame.iloc[local["row"]], swapped)
    )
    assert (own == other).all() and status == 0 and facts["verdict"] == "certified"


def test_a_network_without_its_scaler_is_a_guess_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Where gaps were filled before scaling, a guess from the table cannot know it; the scaler itself can be named."""
    frame = tables.loans()
    fitted = fit("torch", LOANS.inputs(frame), frame["approved"])
    audit = isonomy.audit(fitted.model, frame, **LOANS.asked, limit=8, no_search=True, progress=None)
    assert "the numbers of its scaler are those of this table, a guess too" in capsys.readouterr().out
    text = audit.findings.question["schema.toml"]
    filled = LOANS.inputs(frame).fillna(LOANS.inputs(frame).median(numeric_only=True))
    for name in ("income", "years_employed"):
        mean, std, middle = filled[name].mean(), filled[name].std(ddof=0), LOANS.inputs(frame)[name].median()
        lines = [line for line in text.splitlines() if line.startswith(f"{name} = {{")]
        own = f'{name} = {{ scale = "standard", mean = {mean!r}, std = {std!r}, missing = {middle!r} }}'
        text = text.replace(lines[0], own.replace("np.float64(", "").replace(")", ""))
    schema = Schema.from_toml(text)
    named = isonomy.audit(fitted.model, frame, schema=schema, limit=8, quiet=True, progress=None)
    rows = LOANS.inputs(frame.iloc[named.people["row"]])
    truth = truth_of(LOANS, fitted, rows, schema)
    local = named.certificate.local
    assert np.abs(local.upper - truth.change).max() < 1e-4 and np.abs(local.lower - truth.change).max() < 1e-4
