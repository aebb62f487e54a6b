"""An audit larger than memory, from plan to directory: the same files as of one in memory."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from tests.certificates.people import METRIC, SCHEMA, network, stamps, table
from tests.written import digest, hashes_of, predicate_of

from isonomy.auditing import Plan, output, run
from isonomy.auditing.inputs import read_inputs
from isonomy.auditing.output import AUDIT_FILES, RESUMABLE, open_work, work_of, write
from isonomy.auditing.pipeline import estimate
from isonomy.certificates import certify
from isonomy.certificates.local import certify_local
from isonomy.errors import FileError, ParameterError
from isonomy.population import Population
from isonomy.records import read
from isonomy.records.writing import WITHHELD

from .streamed import CHUNK, FILES, ROWS, audited, plan, same, write_files

PARTS = FILES * math.ceil(ROWS / CHUNK)
Audited = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("streamed"))


@pytest.fixture(scope="module")
def written(folder: Path) -> Audited:
    return audited(plan(folder, out=str(folder / "written"), no_search=False))


@pytest.fixture(scope="module")
def quick(folder: Path) -> Audited:
    """One without a search."""
    return audited(plan(folder, out=str(folder / "quick")))


@pytest.fixture
def copied(quick: Audited, tmp_path: Path) -> Audited:
    return shutil.copytree(quick[0], tmp_path / "out"), quick[1]


def everybody() -> Population:
    frame = pd.concat([table(ROWS, seed=number) for number in range(FILES)], ignore_index=True)
    return Population.from_frame(frame, SCHEMA, domain="unbounded")


# -- what is proved ----------------------------------------------------------------------------------------------


def test_the_bounds_are_sound_and_near_those_of_the_audit_in_memory(written: Audited) -> None:
    out, streamed = written
    small = certify(network(), everybody(), METRIC, 0.1, 0.05, tier="interval", progress=None)
    assert small.lower <= streamed["upper"] and streamed["lower"] <= small.upper  # both enclose one truth
    assert streamed["upper"] == pytest.approx(small.upper, rel=0.15)
    assert 0 < streamed["lower"] <= streamed["upper"] and streamed["individuals"] == FILES * ROWS
    curve = read(out).curve([0.0, 0.05, 0.2])
    assert streamed["verdict"] == "certified" and streamed["upper"] <= 0.4 < curve["upper"].iloc[-1]
    assert 0.05 <= streamed["largest_gamma"] < 0.2
    assert (np.diff(curve["upper"]) >= 0).all() and (np.diff(curve["lower"]) >= 0).all()


def test_everybody_has_the_bounds_of_the_library(written: Audited) -> None:
    out, facts = written
    people, found = everybody(), pd.read_parquet(out / "individuals.parquet")
    local = certify_local(network(), people, METRIC, 0.1, tier="interval", progress=None, attack=False)
    assert found["row"].tolist() == list(range(len(people))) and np.array_equal(found["weight"], people.weights)
    np.testing.assert_allclose(found["upper"], local.upper, rtol=1e-9)
    assert (found["lower"] <= local.upper).all() and found["lower"].max() > 0
    assert found["verdict"].value_counts().to_dict() == facts["verdicts"]
    assert (found["verdict"] == np.where(found["upper"] <= 0.4, "certified", "undecided")).all()
    assert found["decision"].value_counts().to_dict() == facts["decisions"]


@pytest.mark.parametrize("split", ["all", "test"])
def test_with_and_without_the_engine_the_same_is_written(folder: Path, tmp_path: Path, split: str) -> None:
    """One file of people, in memory or by the engine: not a number, not a word is different."""
    data, found = str(folder / "data" / "0.parquet"), []
    for name, engine in (("one", None), ("other", "local")):
        asked = plan(folder, data=data, split=split, chunk=None, engine=engine, out=str(tmp_path / name))
        found.append(audited(replace(asked, no_search=False)))
    (one, facts), (other, streamed) = found
    assert {each.name for each in other.iterdir()} - {each.name for each in one.iterdir()} == set(RESUMABLE)
    names = sorted(each.name for each in (one / "evidence").iterdir())
    assert names == sorted(each.name for each in (other / "evidence").iterdir()) and "people.x.bin" in names
    for name in names:
        assert (one / "evidence" / name).read_bytes() == (other / "evidence" / name).read_bytes(), name
    tables = [pd.read_parquet(out / "individuals.parquet") for out in (one, other)]
    assert tables[0].equals(tables[1])
    apart = {name for name in facts if facts[name] != streamed[name]}
    assert apart == {"out", "command", "created"} or apart == {"out", "command"}
    documents = [predicate_of(out) for out in (one, other)]
    assert same(json.dumps(documents[0])) == same(json.dumps(documents[1]))


def test_hashes_name_what_is_there(written: Audited, folder: Path) -> None:
    out, facts = written
    for name in ("schema.toml", "model.pt", "metric.toml"):
        assert facts["sources"][name] == digest(folder / name)
    assert facts["sources"]["1.parquet"] == digest(folder / "data" / "1.parquet")
    assert predicate_of(out)["remarks"]["sources"] == facts["sources"]
    assert all(digest(out / name) == sha256 for name, sha256 in hashes_of(out).items())
    assert {"report.html", "individuals.parquet", "evidence/people.x.bin"} <= set(hashes_of(out))


def test_what_is_for_people_and_for_ci(written: Audited) -> None:
    out, _ = written
    suite = ElementTree.parse(out / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("0", "0", "0")
    assert datetime.fromisoformat(suite.get("timestamp") or "")
    page, notes = (out / "report.html").read_text(), (out / "summary.md").read_text()
    assert "In any population within 0.05 of these people" in notes and "60 people" in page
    assert "--engine local" in notes and "--engine local" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "✅ Average within the limit." in notes
    assert {each.name for each in out.iterdir()} == AUDIT_FILES - {"certificate.dsse.json", "question"}
    assert not work_of(out).exists()


def test_groups_decisions_and_the_population(folder: Path, tmp_path: Path) -> None:
    """What only audits in memory had: groups, decisions that can turn, and who stands behind the sample."""
    schema = tmp_path / "schema.toml"
    schema.write_text(replace(SCHEMA, weight=None, max_weight=None).to_toml(), encoding="utf-8")
    more = {"out": str(tmp_path / "out"), "favourable": ("1",)}  # there is no label: by its place
    asked = plan(folder, schema=str(schema), split="test", no_search=False, **more)
    out, facts = audited(asked)
    people = everybody()
    test = pd.concat([table(ROWS, seed=number) for number in range(FILES)])["part"].to_numpy() == "new"
    assert facts["split"] == "test" and facts["individuals"] == test.sum() and "refusal" not in facts["population"]
    assert facts["upper"] <= facts["population"]["upper"] <= 1 and facts["population"]["confidence"] == 0.95
    assert set(facts["four_fifths"]) == {"sex"} and sum(facts["decisions"].values()) == test.sum()
    found = pd.read_parquet(out / "individuals.parquet")
    assert found["row"].tolist() == np.flatnonzero(test).tolist()
    certificate = read(out)
    assert certificate.people is not None and np.array_equal(certificate.people.x, people.x[test])
    claims = certificate.document["claims"]
    told = facts["population"]["upper"]
    assert told <= claims["population"]["upper"] <= told * (1 + 2e-3) + 3e-6
    assert "“1”" in (out / "report.html").read_text() or "'1'" in (out / "report.html").read_text()


# -- what is kept ------------------------------------------------------------------------------------------------


def test_individuals_are_written_some_at_a_time(
    folder: Path, written: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of any size make the same table, also where a column of the first piece is empty."""
    monkeypatch.setattr(output, "ROWS", 7)
    out, _ = audited(plan(folder, out=str(tmp_path / "out"), no_search=False))
    assert pq.ParquetFile(out / "individuals.parquet").num_row_groups == math.ceil(FILES * ROWS / 7)
    one, other = (pd.read_parquet(each / "individuals.parquet") for each in (out, written[0]))
    assert one.equals(other)


def test_again_with_the_same_name_nothing_is_computed(folder: Path, copied: Audited) -> None:
    out, first = copied
    before = stamps(out)
    assert len(before) == PARTS == first["computed"]
    _, again = audited(plan(folder, out=str(out), epsilon=0.1))
    assert again["computed"] == 0
    assert {name: time for name, (time, _) in stamps(out).items()} == {name: time for name, (time, _) in before.items()}
    assert not work_of(out).exists()
    assert (again["upper"], again["created"]) == (first["upper"], first["created"]) and again["epsilon"] == 0.1


def test_parts_of_another_question_are_computed_again(folder: Path, copied: Audited) -> None:
    out, first = copied
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    asked = plan(folder, out=str(out), gamma=0.1)
    found = run(asked, None, work=open_work(out)).certificate
    assert found.computed == PARTS and found.upper > first["upper"]
    # Until that one is written the earlier audit stands as it was.
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_without_links_parts_are_copied(folder: Path, copied: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refused)
    assert audited(plan(folder, out=str(copied[0])))[1]["computed"] == 0


@pytest.mark.some(2)
@pytest.mark.parametrize("stop", ["replace_directory", "_write_individuals", "to_markdown", "to_junit"])
@pytest.mark.parametrize("trouble", [KeyboardInterrupt, OSError])
def test_stopped_anywhere_while_writing_it_goes_on(
    folder: Path, quick: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: str, trouble: type[Exception]
) -> None:
    asked, out = plan(folder, out=str(tmp_path / "out")), tmp_path / "out"
    with monkeypatch.context() as patch:

        def stopped(*_: object) -> None:
            raise trouble

        patch.setattr(output, stop, stopped)
        with pytest.raises((KeyboardInterrupt, FileError)):
            write(run(asked, None, work=open_work(out)), out, work=work_of(out))
    assert [each.name for each in tmp_path.iterdir()] == ["out.work"]
    _, facts = audited(asked)
    assert facts["computed"] == 0 and not work_of(out).exists()
    one, other = (same(json.dumps(predicate_of(each))) for each in (out, quick[0]))
    assert one == other


def test_redacted(folder: Path, tmp_path: Path) -> None:
    out, facts = audited(plan(folder, out=str(tmp_path / "out"), redact=True))
    assert [each.name for each in tmp_path.iterdir()] == ["out"], "nothing is kept on the way"
    assert {each.name for each in out.iterdir()} == AUDIT_FILES - {*RESUMABLE, "certificate.dsse.json", "question"}
    assert facts["redacted"]
    assert list(pd.read_parquet(out / "individuals.parquet").columns) == [
        "row",
        "upper",
        "lower",
        "decision",
        "verdict",
    ]
    kept = {each.name for each in (out / "evidence").iterdir()}
    assert "model.0.width.bin" in kept and not kept & {f"{name}.bin" for name in WITHHELD}


def test_a_redacted_audit_takes_the_place_of_one_that_was_not(folder: Path, copied: Audited) -> None:
    out, _ = copied
    assert list(out.rglob("people.x.bin")) and list(out.glob("parts/*"))
    audited(plan(folder, out=str(out), redact=True))
    assert not list(out.rglob("people.x.bin")) and not list(out.glob("parts/*"))
    assert (out / "evidence" / "model.0.width.bin").exists()


def test_a_dataset_that_changes_before_it_is_read(folder: Path, tmp_path: Path) -> None:
    data = shutil.copytree(folder / "data", tmp_path / "data")
    asked = plan(folder, data=str(data), out=str(tmp_path / "out"))
    inputs = read_inputs(asked)
    people = inputs.open_source(asked, None)
    table(ROWS, seed=5).to_parquet(data / "1.parquet")
    with pytest.raises(FileError, match="was changed during the run"):
        certify(inputs.model, people, inputs.metric, 0.1, 0.05, domain="unbounded", tier="interval", progress=None)


def test_a_csv_file_leaves_no_copy_of_people(folder: Path, tmp_path: Path) -> None:
    table(30).to_csv(tmp_path / "people.csv", index=False)
    out, facts = audited(plan(folder, data=str(tmp_path / "people.csv"), out=str(tmp_path / "out"), epsilon=None))
    assert facts["individuals"] == 30 and "people.csv" in facts["sources"] and facts["verdict"] is None
    assert not list(out.rglob("people-*")) and not list(out.rglob("columns"))


def test_another_population_is_measured_and_a_key_signs(folder: Path, tmp_path: Path) -> None:
    """What audits in memory have, these have."""
    from isonomy.records import new_key

    new_key(tmp_path / "key")
    table(ROWS, seed=7).to_csv(tmp_path / "other.csv", index=False)
    asked = plan(folder, out=str(tmp_path / "out"), against=(str(tmp_path / "other.csv"),), key=str(tmp_path / "key"))
    out, facts = audited(asked)
    assert [shift["name"] for shift in facts["shifts"]] == ["other"] and facts["shifts"][0]["estimate"] >= 0
    assert read(out).signer


# -- before it begins --------------------------------------------------------------------------------------------


def test_the_estimate_counts_all_rows(folder: Path) -> None:
    asked = plan(folder)
    cost = estimate(asked, read_inputs(asked))
    assert cost.individuals == FILES * ROWS and cost.sampled == ROWS and cost.seconds >= cost.sampled_seconds
    assert "60 individuals of 4 coordinates: about" in str(cost) and cost.megabytes > 0
    asked = plan(folder, data=str(folder / "nowhere"))
    with pytest.raises(FileError, match="no such file"):
        estimate(asked, read_inputs(asked))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"data": "german"}, "'schema' must be left out for 'german'"),
        ({"schema": None}, "'schema' must be given"),
        ({"model": None}, "'model' must be given"),
    ],
)
def test_refusals(folder: Path, tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        audited(plan(folder, out=str(tmp_path / "out"), **options))
    assert not list(tmp_path.iterdir())


def test_a_table_of_the_catalogue_by_the_engine(tmp_path: Path) -> None:
    """It is in memory anyway, and has its own schema and model."""
    asked = Plan(
        data="moons", gamma=0.0, tier="interval", engine="local", chunk=200, no_search=True, out=str(tmp_path / "out")
    )
    out, facts = audited(asked)
    assert len(stamps(out)) == facts["computed"] == math.ceil(facts["individuals"] / 200) > 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"engine": "spark"}, "'engine' must be one of local, dask"),
        ({"engine": "local", "scheduler": "tcp://a:1"}, "'scheduler' must be left out unless 'engine' is dask"),
        ({"engine": "local", "limit": 3}, "'limit' must be left out when 'engine' is given"),
        ({"engine": "local", "held_out": True}, "'held_out' must be left out when 'engine' is given"),
        ({"engine": "local", "chunk": 0}, "'chunk' must be a whole number >= 1"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ParameterError, match=says):
        Plan(**options)


def test_the_work_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    work = open_work(tmp_path / "out")
    assert work == work_of(tmp_path / "out") and stat.S_IMODE(work.stat().st_mode) == 0o700, "rows of people are in it"
    (work / "thesis.txt").write_text("mine")
    with pytest.raises(FileError, match=r"holds 'thesis\.txt', which no audit writes"):
        open_work(tmp_path / "out")
    assert (work / "thesis.txt").read_text() == "mine"
