"""A column of ids from ``init`` to ``explain``: it names people wherever rows are shown, and redaction removes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from .conftest import Run

QUICK = ("--gamma", "0", "--tier", "interval")


@pytest.fixture
def named(files: Path, table: pd.DataFrame, tmp_path: Path, run: Run) -> Path:
    """people.csv with customer_id, schema.toml and audit.toml as init writes them."""
    ids = [f"KND-{7919 * i % 100_003:05d}x" for i in range(len(table))]
    table.assign(customer_id=ids).to_csv("people.csv", index=False)
    answer = run("init", "people.csv", files / "pipeline.onnx", "--label", "approved", "--protected", "sex")
    assert answer[0] == 0
    assert "people are named by column 'customer_id', which is no feature (a guess" in answer[2]
    return tmp_path


def ids_of(folder: Path) -> list[str]:
    return list(map(str, pd.read_csv(folder / "people.csv")["customer_id"]))


def test_init_declares_the_id(named: Path, files: Path, run: Run) -> None:
    text = Path("schema.toml").read_text(encoding="utf-8")
    assert 'id = "customer_id"\n# names people; no feature (a guess' in text
    assert "[features.customer_id]" not in text
    asked = ("init", "people.csv", files / "pipeline.onnx", "--label", "approved", "--force")
    status, _, err = run(*asked, "--id", "customer_id", "--protected", "sex")
    assert status == 0 and "(a guess" not in err.partition("no feature")[2].partition("\n")[0]
    text = Path("schema.toml").read_text(encoding="utf-8")
    assert 'id = "customer_id"\n# names people; no feature.\n' in text
    status, _, err = run(*asked, "--id", "sex", "--protected", "sex")
    assert (status == 2 and "--protected and --id" in err) or "--id and --protected" in err
    assert run(*asked, "--id", "customer")[0] == 2


def test_people_are_named_in_what_an_audit_writes(named: Path, run: Run, answered: Callable[..., Any]) -> None:
    ids = ids_of(named)
    status, page, _ = run("audit", "audit.toml", *QUICK, "--out", "out")
    assert status == 0
    people = pd.read_parquet("out/individuals.parquet")
    assert list(people.columns[:2]) == ["row", "customer_id"]
    assert people["customer_id"].tolist() == [ids[row] for row in people["row"]]
    worst = people.sort_values("lower", ascending=False, kind="stable").head(10)
    report = Path("out/report.html").read_text(encoding="utf-8")
    assert all(f"<h3>{ids[row]}</h3>" in report for row in worst["row"]) and "people" in page
    assert run("verify", "out/certificate.json", "--data", "people.csv")[0] == 0
    for source in ("out", "audit.toml"):
        status, answer = answered("explain", source, "--id", ids[17])
        assert (status, answer["row"], answer["id"]) == (0, 17, ids[17])
        status, shown, _ = run("explain", source, "--row", "17")
        assert status == 0 and f"Row 17, customer_id {ids[17]}:" in shown


def test_an_id_that_names_not_one_person(named: Path, run: Run) -> None:
    table = pd.read_csv("people.csv")
    table.loc[[3, 5], "customer_id"] = "twice"
    table.loc[[7, 8, 9], "customer_id"] = None
    table.to_csv("people.csv", index=False)
    assert run("audit", "audit.toml", *QUICK, "--out", "out")[0] == 0
    for source in ("out", "audit.toml"):
        status, _, err = run("explain", source, "--id", "twice")
        assert status == 2 and "2 rows have customer_id 'twice' (3, 5); say --row" in err
        status, _, err = run("explain", source, "--id", "stranger")
        assert status == 2 and "in the column 'customer_id', such as 'KND-" in err and "3 rows have none" in err
        status, _, err = run("explain", source, "--id", ids_of(named)[0], "--row", "0")
        assert status == 2 and "give one of them" in err
        status, shown, _ = run("explain", source, "--row", "7")
        assert status == 0 and "Row 7: " in shown
    text = Path("schema.toml").read_text(encoding="utf-8")
    Path("schema.toml").write_text(text.replace('id = "customer_id"', ""), encoding="utf-8")
    status, _, err = run("explain", "audit.toml", "--id", "twice")
    assert status == 2 and "the schema declares no id column; say --row" in err
    Path("schema.toml").write_text(text.replace('id = "customer_id"', 'id = "custmer"'), encoding="utf-8")
    status, _, err = run("audit", "audit.toml", *QUICK)
    assert status == 2 and "no column 'custmer', by which the schema says people are named" in err


def test_other_individuals_beside_a_certificate_are_refused(named: Path, run: Run) -> None:
    assert run("audit", "audit.toml", *QUICK, "--out", "out")[0] == 0
    people = pd.read_parquet("out/individuals.parquet")
    people.assign(customer_id=people["customer_id"][::-1].to_numpy()).to_parquet("out/individuals.parquet")
    status, _, err = run("explain", "out", "--id", ids_of(named)[0])
    assert status == 2 and "is not the file that the certificate" in err


def everything(folder: Path) -> str:
    """All that the files of a folder hold, packed or not, as one text."""
    texts = []
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        texts.append(f"{file}\n{file.read_bytes().decode('latin-1')}")
        if file.suffix == ".parquet":
            texts.append(pd.read_parquet(file).to_csv())
    return "\n".join(texts)


@pytest.mark.parametrize("engine", [(), ("--engine", "local")])
def test_redaction_removes_ids_everywhere(named: Path, run: Run, engine: tuple[str, ...]) -> None:
    ids = ids_of(named)
    Path("people.csv").rename(named.parent / f"{named.name}.csv")  # what is written is all that is in the folder
    where = ("--data", named.parent / f"{named.name}.csv")
    for redact in ((), ("--redact",)):
        status, out, err = run("audit", "audit.toml", *where, *QUICK, *engine, "--out", "out", *redact)
        assert status == 0
        held = everything(named) + out + err
        assert any(each in held for each in ids) != bool(redact)
    status, _, err = run("explain", "out", "--id", ids[0])
    assert status == 2 and "is redacted" in err


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_a_stream_names_people_too(named: Path, run: Run, kind: str, answered: Callable[..., Any]) -> None:
    table = pd.read_csv("people.csv")
    Path("many").mkdir()
    for number in range(3):
        table[80 * number : 80 * number + 80].to_parquet(f"many/{number}.parquet", index=False)
    table.to_parquet("people.parquet", index=False)
    data = {"csv": "people.csv", "parquet": "people.parquet", "folder": "many"}[kind]
    asked = ("--data", data, *QUICK, "--engine", "local", "--chunk", "50", "--split", "test", "--out", "out")
    assert run("audit", "audit.toml", *asked)[0] == 0
    people = pd.read_parquet("out/individuals.parquet")
    assert 0 < len(people) < len(table)
    assert people["customer_id"].tolist() == table["customer_id"][people["row"]].tolist()
    row = int(people["row"].iloc[-1])
    status, answer = answered("explain", "out", "--id", table["customer_id"][row])
    assert (status, answer["row"]) == (0, row)


def test_the_name_of_an_id_may_be_that_of_a_result(named: Path, run: Run, answered: Callable[..., Any]) -> None:
    table = pd.read_csv("people.csv").rename(columns={"customer_id": "row"})
    table.to_csv("people.csv", index=False)
    text = Path("schema.toml").read_text(encoding="utf-8")
    Path("schema.toml").write_text(text.replace('id = "customer_id"', 'id = "row"'), encoding="utf-8")
    assert run("audit", "audit.toml", *QUICK, "--out", "out")[0] == 0
    people = pd.read_parquet("out/individuals.parquet")
    assert people["row (id)"].tolist() == table["row"].tolist()
    assert answered("explain", "out", "--id", table["row"][4])[1]["row"] == 4
    assert json.loads(Path("out/certificate.json").read_text(encoding="utf-8"))
