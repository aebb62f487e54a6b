"""An audit larger than memory, from plan to directory."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from isonomy.audit.large import open_work, run_large, work_of
from isonomy.audit.large_cost import estimate_large
from isonomy.audit.large_output import write_large
from tests.engines.people import METRIC, SCHEMA, network, stamps, table

from isonomy.audit import Plan, large_sample
from isonomy.certificates import certify
from isonomy.certificates.local import certify_local
from isonomy.errors import FileError, ParameterError
from isonomy.population import Population
from isonomy.records import read_large, write

from .large import CHUNK, FILES, ROWS, plan, same, write_files

PARTS = FILES * math.ceil(ROWS / CHUNK)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("large"))


def audited(asked: Plan) -> tuple[Path, dict[str, Any]]:
    out = Path(str(asked.out))
    write_large(run_large(asked, out, None), out)
    return out, json.loads((out / "certificate.json").read_text())


@pytest.fixture(scope="module")
def written(folder: Path) -> tuple[Path, dict[str, Any]]:
    return audited(plan(folder, out=str(folder / "written"), no_search=False))


@pytest.fixture(scope="module")
def quick(folder: Path) -> tuple[Path, dict[str, Any]]:
    """One without a search."""
    return audited(plan(folder, out=str(folder / "quick")))


@pytest.fixture
def copied(quick: tuple[Path, dict[str, Any]], tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    return shutil.copytree(quick[0], tmp_path / "out"), quick[1]


def everybody() -> Population:
    frame = pd.concat([table(ROWS, seed=number) for number in range(FILES)], ignore_index=True)
    return Population.from_frame(frame, SCHEMA, domain="unbounded")


def test_the_bounds_are_sound_and_near_those_of_the_audit_in_memory(written: tuple[Path, dict[str, Any]]) -> None:
    _, large = written
    small = certify(network(), everybody(), METRIC, 0.1, 0.05, tier="interval", progress=None)
    assert small.lower <= large["upper"] and large["lower"] <= small.upper  # both enclose one truth
    assert large["upper"] == pytest.approx(small.upper, rel=0.15)
    assert 0 < large["lower"] <= large["upper"] and large["individuals"] == FILES * ROWS
    assert large["verdict"] == "certified" and large["upper"] <= 0.4 < large["curve"][-1]["upper"]
    assert 0.05 <= large["largest_gamma"] < 0.1


def test_everybody_has_the_bounds_of_the_library(written: tuple[Path, dict[str, Any]]) -> None:
    out, facts = written
    people, found = everybody(), pd.read_parquet(out / "individuals")
    local = certify_local(network(), people, METRIC, 0.1, tier="interval", progress=None, attack=False)
    assert found["row"].tolist() == list(range(len(people))) and np.array_equal(found["weight"], people.weights)
    np.testing.assert_allclose(found["upper"], local.upper, rtol=1e-9)
    assert (found["lower"] <= local.upper).all() and found["lower"].max() == facts["largest"]["lower"] > 0
    assert found["upper"].max() == facts["largest"]["upper"]
    assert found["verdict"].value_counts().to_dict() == facts["verdicts"]
    assert (found["verdict"] == np.where(found["upper"] <= 0.4, "certified", "undecided")).all()


def test_the_mean_is_that_of_the_individuals(written: tuple[Path, dict[str, Any]]) -> None:
    out, facts = written
    found, here = pd.read_parquet(out / "individuals"), facts["curve"][0]
    assert here["gamma"] == 0.0
    assert here["upper"] == pytest.approx(np.average(found["upper"], weights=found["weight"]), rel=1e-12)
    assert here["lower"] == pytest.approx(np.average(found["lower"], weights=found["weight"]), rel=1e-12)
    curve = pd.DataFrame(facts["curve"])
    assert (np.diff(curve["upper"]) >= 0).all() and (np.diff(curve["lower"]) >= 0).all()


def test_hashes_name_what_is_there(written: tuple[Path, dict[str, Any]], folder: Path) -> None:
    import hashlib

    def digest(path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest()

    out, facts = written
    assert len(facts["parts"]) == PARTS and sum(part["rows"] for part in facts["parts"]) == FILES * ROWS
    assert all(digest(out / part["file"]) == part["sha256"] for part in facts["parts"])
    for name in ("schema.toml", "model.pt", "metric.toml"):
        assert facts["sources"][name] == digest(folder / name)
    assert facts["sources"]["1.parquet"] == digest(folder / "data" / "1.parquet")


def test_what_is_for_people_and_for_ci(written: tuple[Path, dict[str, Any]]) -> None:
    out, _ = written
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "0")
    page, notes = (out / "report.html").read_text(), (out / "summary.md").read_text()
    for text in (page, notes):
        assert "No population within 0.05 of these 60 individuals" in text and "--engine local" in text
    assert "At most 4,096 of them, drawn at random, are kept in evidence/people.npz" in page
    assert "What was not proved" in page and "population that these people were drawn from" in page
    assert "<script" not in page and "http://" not in page.replace("http://www.w3.org", "")
    assert "✅ certified" in notes
    assert {each.name for each in out.iterdir()} == {
        "certificate.json", "report.html", "summary.md", "junit.xml", "individuals", "parts", "plan.json", "evidence",
    }  # fmt: skip


def test_again_with_the_same_name_nothing_is_computed(folder: Path, copied: tuple[Path, dict[str, Any]]) -> None:
    out, first = copied
    before = stamps(out)
    found = run_large(plan(folder, out=str(out), epsilon=0.1), out, None)
    assert found.certificate.computed == 0
    write_large(found, out)
    assert stamps(out) == before and not work_of(out).exists()
    again = json.loads((out / "certificate.json").read_text())
    assert (again["upper"], again["created"]) == (first["upper"], first["created"]) and again["epsilon"] == 0.1


def test_parts_of_another_question_are_computed_again(folder: Path, copied: tuple[Path, dict[str, Any]]) -> None:
    out, first = copied
    found = run_large(plan(folder, out=str(out), gamma=0.1), out, None)
    assert found.certificate.computed == PARTS and found.certificate.upper > first["upper"]
    # Until that one is written the earlier audit stands as it was.
    assert json.loads((out / "certificate.json").read_text()) == first
    assert all((out / part["file"]).exists() for part in first["parts"])


@pytest.mark.slow
def test_stopped_anywhere_while_writing_it_goes_on(
    folder: Path, quick: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isonomy.audit import large_output

    asked, out = plan(folder, out=str(tmp_path / "out")), tmp_path / "out"
    for stop in ("_certificate", "render_large", "junit_of", "_tidy", "take_place"):
        with monkeypatch.context() as patch:

            def stopped(*_: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(large_output, stop, stopped)
            with pytest.raises(KeyboardInterrupt):
                write_large(run_large(asked, out, None), out)
        assert not out.exists()
    found = run_large(asked, out, None)
    assert found.certificate.computed == 0
    write_large(found, out)
    text = (out / "certificate.json").read_text()
    assert same(text) == same(json.dumps(quick[1], indent=1)) and not work_of(out).exists()


def test_redacted(folder: Path, tmp_path: Path) -> None:
    out, facts = audited(plan(folder, out=str(tmp_path / "out"), redact=True))
    assert "parts" not in facts and not (out / "parts").exists() and not (out / "plan.json").exists()
    assert list(pd.read_parquet(out / "individuals").columns) == ["row", "upper", "lower", "verdict"]
    assert "people" not in facts["evidence"] and not (out / "evidence" / "people.npz").exists()


def test_a_redacted_run_removes_the_people_of_one_that_was_not(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isonomy.audit import large_output

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(large_output, "take_place", stopped)
        audited(plan(folder, out=str(tmp_path / "out")))
    assert list(tmp_path.rglob("people.npz"))
    out, _ = audited(plan(folder, out=str(tmp_path / "out"), redact=True))
    assert not list(out.rglob("people.npz")) and (out / "evidence" / "network.npz").exists()


@pytest.mark.parametrize(
    "options",
    [{"chunk": 7}, *(pytest.param(some, marks=pytest.mark.slow) for some in ({"split": "test"}, {"csv": True}))],
)
def test_a_sample_of_the_people_is_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(large_sample, "SAMPLE", 12)
    frame = pd.concat([table(ROWS, seed=number) for number in range(FILES)], ignore_index=True)
    if options == {"csv": True}:
        frame.to_csv(tmp_path / "people.csv", index=False)
        options = {"data": str(tmp_path / "people.csv")}
    out, facts = audited(plan(folder, out=str(tmp_path / "out"), **options))
    kept, people = np.load(out / "evidence" / "people.npz"), everybody()
    rows = kept["rows"]
    assert len(set(rows.tolist())) == 12 and (np.diff(rows) > 0).all()
    assert np.array_equal(kept["x"], people.x[rows]) and np.array_equal(kept["weights"], people.weights[rows])
    assert (kept["weights"] > 0).all()
    possible = np.flatnonzero(people.weights > 0)
    if facts["split"] == "test":
        possible = np.flatnonzero((people.weights > 0) & (frame["part"] == "new"))
    # Who is chosen follows from the number of people alone, not from how they are cut into chunks.
    drawn = np.random.default_rng(0).choice(len(possible), 12, replace=False)
    assert rows.tolist() == sorted(possible[drawn].tolist())
    found = read_large(out)
    assert found.people is not None and not found.everybody and found.counted == len(possible)


def test_a_dataset_that_changes_before_the_sample_is_drawn(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    shutil.copytree(folder / "data", data)
    found = run_large(plan(folder, data=str(data), out=str(tmp_path / "out")), tmp_path / "out", None)
    table(ROWS, seed=5).to_parquet(data / "1.parquet")
    with pytest.raises(FileError, match="was changed during the run"):
        write_large(found, tmp_path / "out")


def test_the_evidence_is_that_of_an_audit_in_memory(quick: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """File by file, so that audits of either kind can be compared."""
    small = certify(network(), everybody(), METRIC, 0.1, 0.05, tier="interval", progress=None, attack=False)
    write(tmp_path, small, network(), everybody())
    for name in ("metric.toml", "ground.toml", "schema.toml", "domain.npz"):
        assert (quick[0] / "evidence" / name).read_bytes() == (tmp_path / "evidence" / name).read_bytes()
    found = read_large(quick[0])
    assert np.array_equal(found.network(everybody().x), network()(everybody().x))
    assert found.everybody and found.envelope.upper(0.05) == pytest.approx(quick[1]["upper"], rel=1e-12)


def test_a_csv_file_leaves_no_copy_of_people(folder: Path, tmp_path: Path) -> None:
    table(30).to_csv(tmp_path / "people.csv", index=False)
    out, facts = audited(plan(folder, data=str(tmp_path / "people.csv"), out=str(tmp_path / "out"), epsilon=None))
    assert facts["individuals"] == 30 and "people.csv" in facts["sources"] and facts["verdict"] is None
    assert not list(out.rglob("people-*"))


def test_order_infinity_and_gamma_zero(folder: Path, tmp_path: Path) -> None:
    out, facts = audited(plan(folder, out=str(tmp_path / "out"), order=math.inf, gamma=0.0))
    assert facts["order"] == "inf" and len(facts["curve"]) == 1 and facts["multiplier"] is None
    assert "no curve to draw" in (out / "report.html").read_text()


def test_the_estimate_counts_all_rows(folder: Path) -> None:
    cost = estimate_large(plan(folder))
    assert cost.rows == FILES * ROWS and cost.sampled == ROWS and cost.seconds > cost.sampled_seconds
    assert "60 rows: about" in str(cost) and cost.disk_megabytes > 0
    with pytest.raises(FileError, match="no such file"):
        estimate_large(plan(folder, data=str(folder / "nowhere")))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data": "german"}, "'data' must be a Parquet file, a folder of them or a CSV file"),
        ({"schema": None}, "'schema' must be given"),
        ({"model": None}, "'model' must be given"),
        ({"data": "people.csv", "redact": True}, "'redact' must be left out for a CSV file"),
    ],
)
def test_refusals(folder: Path, tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        run_large(plan(folder, **options), tmp_path / "out", None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "spark"}, "'engine' must be one of local, dask"),
        ({"engine": "local", "scheduler": "tcp://a:1"}, "'scheduler' must be left out unless 'engine' is dask"),
        ({"engine": "local", "limit": 3}, "'limit' must be left out when 'engine' is given"),
        ({"engine": "dask", "against": ("a.csv",)}, "'against' must be left out"),
        ({"engine": "local", "key": "a.pem"}, "'key' must be left out"),
        ({"chunk": 3}, "'chunk' must be left out unless 'engine' is given"),
        ({"no_search": True}, "'no_search' must be left out unless"),
        ({"engine": "local", "chunk": 0}, "'chunk' must be a whole number >= 1"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Plan(**options)


def test_the_work_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    work = work_of(tmp_path / "out")
    work.mkdir()
    (work / "thesis.txt").write_text("mine")
    with pytest.raises(FileError, match=r"holds 'thesis\.txt', which no audit writes"):
        open_work(tmp_path / "out")
    assert (work / "thesis.txt").read_text() == "mine"


def test_without_links_parts_are_copied(
    folder: Path, copied: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = copied[0]

    def refused(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    assert run_large(plan(folder, out=str(out)), out, None).certificate.computed == 0
