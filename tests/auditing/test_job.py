"""An audit from plan to directory: the numbers are those of certify, the directory is there whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from tests.written import array_of

import isonomy_verify
from isonomy.auditing import Plan, output, run, write
from isonomy.auditing.inputs import Inputs, read_inputs
from isonomy.certificates import certify, certify_local
from isonomy.errors import FileError, IsonomyError
from isonomy.report import Findings
from isonomy.report.facts import facts_of
from isonomy.report.text import to_json, to_junit, to_markdown
from isonomy.similarity import Counterparts

PLAN = Plan(data="moons", limit=10, gamma=0.02, epsilon=0.3)


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return read_inputs(PLAN)


@pytest.fixture(scope="module")
def findings(inputs: Inputs) -> Findings:
    return run(PLAN, None, inputs=inputs)


def test_the_numbers_are_those_of_certify(findings: Findings, inputs: Inputs) -> None:
    people = inputs.people
    assert people.split == "test" and len(people) == 10
    direct = certify(
        inputs.model, people, Counterparts.of(people.schema), 1.0, 0.02, confidence=0.95, decide=True, progress=None
    )  # fmt: skip
    found = findings.certificate
    assert (found.upper, found.lower) == (direct.upper, direct.lower)
    assert np.array_equal(found.local.upper, direct.local.upper)
    assert np.array_equal(found.local.decision, direct.local.decision)
    assert found.lower <= found.upper and found.verdict in ("certified", "violated", "undecided")
    given = inputs.model(people.x).argmax(axis=1)
    assert findings.scores["accuracy"] == pytest.approx(float(np.mean(given == people.y)))


def test_a_run_that_stops_anywhere_goes_on_to_the_same_certificate(
    findings: Findings, inputs: Inputs, tmp_path: Path
) -> None:
    """Stopped before each stage in turn, every finished chunk is taken up again, bit for bit."""

    class StopError(Exception):
        pass

    def stop_at(name: str) -> None:
        def announce(stage: str) -> None:
            if stage == name:
                raise StopError

        with pytest.raises(StopError):
            run(PLAN, None, work=tmp_path / "work", inputs=inputs, announce=announce)

    for name in ("Reading people", "Bounding people and populations", "Groups and distances"):
        stop_at(name)
    again = run(PLAN, None, work=tmp_path / "work", inputs=inputs)
    assert again.certificate.computed == 0 and findings.certificate.computed == 1
    assert again.certificate.upper == findings.certificate.upper
    assert again.certificate.lower == findings.certificate.lower
    assert again.certificate.profiles.value.tobytes() == findings.certificate.profiles.value.tobytes()
    assert again.certificate.points.person.tobytes() == findings.certificate.points.person.tobytes()
    same = replace(again, created=findings.created)
    one, other = write(findings, tmp_path / "one"), write(same, tmp_path / "other")
    assert (one / "certificate.json").read_bytes() == (other / "certificate.json").read_bytes()


def test_without_a_folder_nothing_is_written(inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(replace(PLAN, gamma=0.0), None, inputs=inputs)
    assert not list(tmp_path.iterdir())


def test_small_chunks_say_the_same_of_everybody(inputs: Inputs) -> None:
    """Many small chunks give everybody what one gives, up to the last bits of larger products."""
    parts = (inputs.model, inputs.people, inputs.metric, 1.0)
    chunks = certify(*parts, 0.0, attack=False, progress=None, chunk=5)
    whole = certify_local(*parts, attack=False, progress=None)
    assert chunks.computed == 2
    assert chunks.local.upper == pytest.approx(whole.upper, rel=1e-12)
    assert np.array_equal(chunks.local.decision, whole.decision)


def test_a_kept_chunk_knows_every_option_but_words(inputs: Inputs, tmp_path: Path) -> None:
    base = replace(PLAN, gamma=0.0, no_search=True, tier="interval")

    def computed(plan: Plan, inputs: Inputs = inputs) -> int:
        return run(plan, None, work=tmp_path / "work", inputs=inputs).certificate.computed

    assert computed(base) == 1
    assert computed(replace(base, name="other", out="x", epsilon=0.2)) == 0
    for changed in (replace(base, delta=0.9), replace(base, gamma=0.03), replace(base, order=2.0)):
        assert computed(changed) == 1
    assert computed(base, replace(inputs, people=inputs.people[:-1])) == 1


def test_the_directory_holds_everything(findings: Findings, tmp_path: Path) -> None:
    target = write(findings, tmp_path / "out")
    assert {each.name for each in target.iterdir()} == output.AUDIT_FILES - {
        *output.RESUMABLE,
        output.QUESTION,
        "certificate.dsse.json",
    }
    assert [each.name for each in tmp_path.iterdir()] == ["out"], "nothing is left beside it"
    table = pd.read_parquet(target / "individuals.parquet")
    assert table["upper"].to_numpy() == pytest.approx(findings.certificate.local.upper, abs=0)
    assert (table["row"] == findings.people.rows).all()
    raw = findings.people.schema.decode(findings.certificate.local.witnesses.counterpart)
    assert np.array_equal(table["counterpart: vertical"], raw["vertical"])
    moved = table["vertical"] != table["counterpart: vertical"]
    assert (table["differs"].str.contains("vertical") == moved).all()
    spread = [each for each in table.columns if each.startswith("probability")]
    change = (table[spread].to_numpy() - table[[f"counterpart: {name}" for name in spread]].to_numpy()).max(axis=1)
    assert (np.abs(change) >= table["lower"] - 1e-12).all(), "the counterpart attains what is claimed"


def test_an_earlier_audit_is_replaced_and_anything_else_is_not(findings: Findings, tmp_path: Path) -> None:
    target = write(findings, tmp_path / "out")
    (target / "report.html").write_text("old")
    write(findings, target)
    assert (target / "report.html").read_text() != "old"
    (target / "notes.txt").write_text("mine")
    with pytest.raises(FileError, match=r"notes\.txt"):
        write(findings, target)
    assert (target / "notes.txt").read_text() == "mine"
    with pytest.raises(FileError, match="which is a file"):
        write(findings, target / "notes.txt")


@pytest.mark.parametrize("fails", ["individuals", "to_html", "to_markdown", "to_junit"])
def test_a_failure_leaves_nothing_half_written(
    findings: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = write(findings, tmp_path / "out")
    content = {each.name: each.stat().st_mtime_ns for each in before.iterdir()}
    monkeypatch.setattr(output, fails, broken)
    for target in (tmp_path / "out", tmp_path / "new"):
        with pytest.raises(FileError, match="No space left"):
            write(findings, target)
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert {each.name: each.stat().st_mtime_ns for each in before.iterdir()} == content


def test_a_redacted_audit_holds_nobody(findings: Findings, tmp_path: Path) -> None:
    """No coordinate or raw value of anybody is found in any byte that is written."""
    target = write(replace(findings, redacted=True), tmp_path / "out")
    table = pd.read_parquet(target / "individuals.parquet")
    assert list(table.columns) == ["row", "upper", "lower", "decision", "verdict"]
    assert not (target / "evidence" / "people.x.bin").exists()
    people = findings.people
    numbers = {f"{value:.5f}"[:-1] for value in people.schema.decode(people.x).to_numpy().ravel() if abs(value) > 0.01}
    texts = "".join(
        (target / name).read_text() for name in ("report.html", "summary.md", "junit.xml", "certificate.json")
    )
    assert not [number for number in numbers if number in texts]
    x = set(people.x.ravel().tolist()) - {0.0, 1.0}
    for file in (target / "evidence").glob("*.bin"):
        array = array_of(target, file.name.removesuffix(".bin"))
        if array.dtype.kind == "f":
            assert not x & set(array.ravel().tolist()), file.name


def test_summary_and_junit_say_the_verdict(findings: Findings) -> None:
    facts = to_json(facts_of(findings))
    json.dumps(facts, allow_nan=False)
    assert facts["verdict"] == findings.certificate.verdict and sum(facts["verdicts"].values()) == 10
    page = to_markdown(facts_of(findings))
    assert facts["sentence"] in page and facts["printed"]["upper"] in page
    cases = str(1 + len(facts["populations"]))
    for epsilon, failures, errors in ((10.0, "0", "0"), (0.0, cases, "0")):
        certificate = replace(findings.certificate, epsilon=epsilon)
        judged = replace(findings, certificate=certificate, shifts_asked=True)
        suite = ElementTree.fromstring(to_junit(facts_of(judged)))
        failures = suite.get("tests") or "" if failures != "0" else failures
        assert (suite.get("failures"), suite.get("errors")) == (failures, errors)
        assert len(suite.findall("testcase/failure")) == int(failures)


def test_against_is_read_before_anything_is_computed(inputs: Inputs, tmp_path: Path) -> None:
    with pytest.raises(IsonomyError, match="no such file"):
        read_inputs(replace(PLAN, against=(str(tmp_path / "other.csv"),)))
    others = replace(inputs, others=(("moons", inputs.people),))
    found = run(replace(PLAN, gamma=0.0), None, inputs=others)
    assert found.shifts[0].name == "moons" and found.shifts[0].distance.estimate >= 0


def test_all_rows_of_a_table_say_nothing_of_the_population_unless_held_out() -> None:
    base = replace(PLAN, gamma=0.0, limit=40, split="all", confidence=0.95)
    refused, held = (run(plan, None).certificate for plan in (base, replace(base, held_out=True)))
    assert (
        "of the table as given, on which" in refused.refusal and "people." not in refused.refusal and not held.refusal
    )
    assert held.population_upper >= held.upper


def test_everything_written_says_who_was_audited(findings: Findings, inputs: Inputs, tmp_path: Path) -> None:
    whole = inputs.people.selection.pool
    words = f"10 of {whole} people, drawn at random (seed 0) from the test part of the table ("
    target = write(findings, tmp_path / "out")
    for name in ("summary.md", "junit.xml", "report.html"):
        assert words in (target / name).read_text(encoding="utf-8"), name
    assert isonomy_verify.verify(target).question["people"].startswith(words)  # made from its numbers
    assert "the table as given" not in (target / "report.html").read_text(encoding="utf-8")
    selection = to_json(facts_of(findings))["selection"]
    assert selection["words"].startswith(words)
    assert (selection["people"], selection["pool"], selection["how"], selection["seed"]) == (10, whole, "random", 0)
    assert np.diff(inputs.people.rows).max() > 1  # not the first rows


def test_held_out_rows_are_not_called_a_test_part() -> None:
    people = read_inputs(replace(PLAN, split="all", limit=40, held_out=True)).people
    assert people.split == "all" and "from the table as given; said to be held out" in people.selection.words()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"delta": 1e308}, {"delta": 1e20}, {"gamma": 1e308}])
def test_extreme_questions_have_a_report(options: dict[str, float], tmp_path: Path) -> None:
    """Numbers beyond what a figure can count, or a sentence say, are no reason to lose an audit."""
    asked = replace(PLAN, data="german", limit=3, **options)
    write(run(asked, None, inputs=read_inputs(asked)), tmp_path / "out")
    assert (tmp_path / "out" / "report.html").exists()
