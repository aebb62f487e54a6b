"""``--shift`` and the default audit: populations from one set of bounds, and whether a certificate still holds."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from isonomy import Marginals, Mix, Part, Stability, load_population, records
from isonomy.auditing.indices import indices
from isonomy.certificates.indices import NewPeople
from isonomy.certificates.shifts import parsed_shift
from isonomy.cli import main
from isonomy.errors import IsonomyError, ParameterError

SCHEMA = load_population("german").schema


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("shifts") / "out"
    assert main(["audit", "--limit", "40", "--epsilon", "0.35", "--out", str(out)]) in (0, 1, 3)
    return out


def test_an_audit_that_names_nothing_moves_no_one(audit: Path) -> None:
    record = records.read(audit)
    mix = Mix(["personal_status", "foreign_worker"])
    assert record.shift == Part(1.0) and record.ground is None
    assert record.shifts == (Part(0.25), Part(0.1), mix, Stability(0.1), Stability(0.25))
    for said in record.answers:
        assert 0 < said["lower"] <= said["upper"] <= 1.03 * said["lower"]
        assert 0 <= said["changes"]["lower"] <= said["changes"]["upper"] <= 1


def test_every_rendering_has_them_and_what_they_do_not_say(audit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("report.html", "summary.md"):
        text = (audit / name).read_text(encoding="utf-8")
        assert "stability index of at most 0.25" in text and "not who they are" in text
        assert "Each per cent of unknown people" in text
    suite = ElementTree.parse(audit / "junit.xml").getroot()
    assert len(suite.findall("testcase")) == 7 == int(suite.get("tests") or 0)
    failed = sum(int(suite.get(name) or 0) for name in ("failures", "errors"))
    assert failed == len(suite.findall("testcase/failure")) + len(suite.findall("testcase/error"))
    assert main(["verify", str(audit)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("│ shift │ recomputed") == 6 and "decisions that can change from" in shown
    assert main(["compare", str(audit), str(audit)]) == 0 and main(["explain", str(audit)]) == 0


def test_what_was_not_asked_about_fails_no_test(tmp_path: Path) -> None:
    """JUnit says the same as the exit status: of the audit's own choice of populations, and of those that are named."""
    for words, status, failures in (([], 0, 0), (["--shift", "part:100%", "--shift", "part:5%"], 1, 1)):
        out = tmp_path / f"out{status}"
        given = ["--limit", "40", "--epsilon", "0.45", "--out", str(out), *words]
        assert main(["audit", *given]) == status
        suite = ElementTree.parse(out / "junit.xml").getroot()
        assert (suite.get("failures"), suite.get("errors")) == (str(failures), "0")
        skipped = suite.findall("testcase/skipped")
        assert len(skipped) == int(suite.get("skipped") or 0) and bool(skipped) == (not words)
        assert all("violated, not asked about" in (each.get("message") or "") for each in skipped)


def test_named_shifts_are_those_that_are_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--shift", "stability:0.1+2%", "--shift", "part:50%", "--limit", "12", "--out", str(tmp_path / "a")]
    assert main(["audit", *words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["shift"]["kind"] for each in document["populations"]] == ["stability", "part"]
    assert document["kappa"] == 0.1 and document["strangers"] == 0.02 and "gamma" not in document
    record = records.read(tmp_path / "a")
    assert record.shift == Stability(0.1, strangers=0.02) and record.shifts == (Part(0.5),)
    assert main(["verify", str(tmp_path / "a")]) == 0
    file = tmp_path / "audit.toml"
    file.write_text('shift = ["part:50%"]\nlimit = 5\nno_search = true\n')
    assert main(["audit", str(file), "--out", str(tmp_path / "b")]) == 0
    assert records.read(tmp_path / "b").shift == Part(0.5)
    capsys.readouterr()


@pytest.mark.parametrize("text", ["part", "part:", "part:x", "part:0", "part:101%", "stability:-1", "mixture",
                                  "mix:nothing",
                                  "part:25%+200%", "transport:0.1", ""])  # fmt: skip
def test_texts_that_are_no_shift_are_refused(text: str) -> None:
    with pytest.raises(ParameterError):
        shift = parsed_shift(text, SCHEMA)
        shift.groups(np.zeros((1, SCHEMA.width)), SCHEMA)


def test_texts_mean_their_shifts() -> None:
    assert parsed_shift("part:25%", SCHEMA) == parsed_shift("part:0.25", SCHEMA) == Part(0.25)
    assert parsed_shift("stability:0.25+5%", SCHEMA) == Stability(0.25, strangers=0.05)
    assert parsed_shift("mix:housing, job", SCHEMA) == Mix(["housing", "job"])
    assert parsed_shift("mix", SCHEMA) == Mix(["personal_status", "foreign_worker"])


def test_the_same_people_keep_to_it_and_others_do_not(audit: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = records.read(audit)
    assert record.people is not None
    same = NewPeople(np.repeat(record.people.x, 200, axis=0), np.repeat(record.alone.upper, 200),
                     np.repeat(record.alone.decision, 200))  # fmt: skip
    for each in indices(record, same, 0.95):
        assert each.state in ("holds", "not known") and each.lower <= each.estimate + 1e-12 <= each.upper + 1e-9
        if "stability" in each.quantity:
            assert each.estimate == pytest.approx(0, abs=1e-12) and each.state == "holds"
    worst = np.full(400, int(np.argmax(record.alone.upper)))
    other = NewPeople(record.people.x[worst], record.alone.upper[worst], record.alone.decision[worst])
    states = {(each.quantity, each.radius): each.state for each in indices(record, other, 0.95)}
    assert states["stability index of the violation", 0.25] == "expired"
    assert states["largest share of the audited people that they can be", 0.25] == "expired"
    beyond = NewPeople(record.people.x[worst], np.ones(400), record.alone.decision[worst])
    assert indices(record, beyond, 0.95)[0].state == "expired"
    assert main(["shift", "german", "german", "--certificate", str(audit), "--json"]) in (0, 1)
    measured = json.loads(capsys.readouterr().out)["indices"]
    assert {each["state"] for each in measured} <= {"expired", "holds", "not known"} and len(measured) == 8


def test_margins_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = load_population("german").train.frame[["housing", "age", "job"]]
    people[people["housing"] != "A153"].head(300).to_csv(tmp_path / "tomorrow+1.csv", index=False)
    file = tmp_path / "audit.toml"
    file.write_text('shift = ["marginals:tomorrow+1.csv,residual=0.2,tolerance=0.03+2%", "part:50%"]\nlimit = 60\n')
    assert main(["audit", str(file), "--epsilon", "0.4", "--out", str(tmp_path / "a")]) in (0, 1, 3)
    record = records.read(tmp_path / "a")
    shift = record.shift
    assert isinstance(shift, Marginals) and (shift.residual, shift.tolerance, shift.strangers) == (0.2, 0.03, 0.02)
    assert [each.feature for each in shift.kernel.margins] == ["age", "housing", "job"]
    page, brief = ((tmp_path / "a" / name).read_text(encoding="utf-8") for name in ("report.html", "summary.md"))
    assert "known margins of" in page and "known margins of" in brief and "Margins are taken as given" in page
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "a")]) == 0 and "reweighted to the certificate's" in capsys.readouterr().out
    assert (
        main(["compare", str(tmp_path / "a"), str(tmp_path / "a")]) == 0 and main(["explain", str(tmp_path / "a")]) == 0
    )
    capsys.readouterr()
    assert main(["shift", "german", "german", "--certificate", str(tmp_path / "a"), "--json"]) == 1
    measured = {each["quantity"]: each for each in json.loads(capsys.readouterr().out)["indices"]}
    assert measured["largest error of a margin"]["state"] == "expired"
    assert measured["divergence of the violation from the reweighted people's"]["state"] == "not known"
    for wrong in ("marginals:nowhere.csv", "marginals", f"marginals:{tmp_path}/tomorrow+1.csv,more=1",
                  f"marginals:{tmp_path}/tomorrow+1.csv,residual", f"marginals:{tmp_path}/audit.toml"):  # fmt: skip
        with pytest.raises(IsonomyError):
            parsed_shift(wrong, SCHEMA)
