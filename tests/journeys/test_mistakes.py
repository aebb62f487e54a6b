"""The mistakes that newcomers make: one sentence, which says what would be right, and exit status 2."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from tests.journeys import tables
from tests.journeys.models import fit
from tests.journeys.test_journeys import LOANS, SALARIES

from isonomy.cli import main

ASKED = "audit people.csv model.skops --label approved --protected sex"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("newcomer")
    frame = tables.loans(60)
    fitted = fit("logistic regression", LOANS.inputs(frame), frame["approved"])
    assert fitted.save is not None
    fitted.save(folder)
    for name in ("model.pkl", "renamed.json"):
        (folder / name).write_bytes(pickle.dumps(fitted.model))
    frame.to_csv(folder / "people.csv", index=False)
    frame.drop(columns="income").to_csv(folder / "short.csv", index=False)
    frame.assign(income=[f"EUR {each}" for each in range(60)]).to_csv(folder / "texts.csv", index=False)
    (folder / "people.xlsx").write_bytes(b"PK")
    return folder


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (ASKED.replace("--label approved", "--label aproved"), "no column 'aproved'; it has 'application_id'"),
        (ASKED.replace("--protected sex", "--protected gender"), "no column 'gender'; it has 'application_id'"),
        (ASKED.replace("--protected sex", "--protected sex,age"), "one at a time, by an option each"),
        (ASKED.replace("people.csv", "peeple.csv"), "Table peeple.csv cannot be read: there is no such file"),
        (ASKED.replace("model.skops", "model.skop"), "There is no file 'model.skop'"),
        (ASKED.replace("model.skops", ""), "A model must be given with the table people.csv"),
        ("audit people.csv", "A model must be given with the table people.csv"),
        (ASKED.replace("model.skops", "model.pkl"), "skops.io.dump"),
        (ASKED.replace("model.skops", "renamed.json"), "a pickle is a program"),
        (ASKED.replace("model.skops", "people.xlsx"), "trees: .json or .ubj of XGBoost, .txt of LightGBM"),
        (ASKED.replace("people.csv", "people.xlsx"), "its name must end in .parquet"),
        (ASKED.replace("people.csv", "short.csv"), "'income'"),
        (ASKED.replace("people.csv", "texts.csv"), "column 'income' was left out, it has 60 different texts"),
        (f"{ASKED} --epsilon ten", "'ten' is no number such as 0.1 (10 % is 0.1)"),
        (f"{ASKED} --epsilon 10%", "'10%' is no number such as 0.1"),
        (f"{ASKED} --epsilon 5", "0.05 is 5 points of 100"),
        (f"{ASKED} --threshold 50 --favourable yes", "strictly between 0 and 1"),
        (f"{ASKED} --similar age", "'similar' must be NAME=2, NAME=5% or NAME=any"),
        (f"{ASKED} --favourable YES", "one or more, not all, of 'no', 'yes'"),
        (f"{ASKED} --favorable yes", "--favourable"),
        ("verify nothing", "nothing"),
        ("explain nothing", "nothing"),
    ],
)
def test_a_mistake_is_one_sentence(
    command: str, words: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main([*command.split(), "--out", "o"] if command.startswith("audit") else command.split()) == 2
    said = capsys.readouterr()
    error = said.err.splitlines()[-1]
    assert error.startswith("Error: ") and words in error and ".." not in error and said.out == ""
    assert not (folder / "o").exists()


def test_without_protected_the_first_lines_say_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["audit", "people.csv", "model.skops", "--label", "approved", "--no-search", "--out", "alone"]) == 0
    assert "no feature is protected: say which with --protected" in capsys.readouterr().err


def test_the_call_that_is_shown_can_be_made_again() -> None:
    import isonomy

    frame = tables.loans(40, gaps=False)
    model = fit("logistic regression", LOANS.inputs(frame), frame["approved"]).model
    audit = isonomy.audit(model, frame, **LOANS.asked, limit=5, no_search=True, progress=None, quiet=True)
    assert "'similar'" not in audit.findings.command and "similar={'age': '2'}" in audit.findings.command
    again = eval(audit.findings.command.split("  #")[0], {"isonomy": isonomy, "model": model, "frame": frame})
    assert (again.certificate.local.upper == audit.certificate.local.upper).all()


def test_a_number_of_an_employee_names_them_and_printing_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    import isonomy

    frame = tables.salaries(40)
    schema = isonomy.Schema.infer(frame.drop(columns="hired"), label="salary", protected=["gender"])
    assert schema.id == "employee_number"
    model = fit("regression", SALARIES.inputs(frame), frame["salary"]).model
    audit = isonomy.audit(model, frame, label="salary", protected="gender", no_search=True, quiet=True, progress=None)
    print(audit)
    assert len(capsys.readouterr().out.splitlines()) == 3 and "employee_number" in audit.people
