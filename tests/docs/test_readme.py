"""What the README says is true: its links, its picture, its command, its call, and the sentence of the example."""

from __future__ import annotations

import re
import shlex
import struct
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import isonomy
from isonomy.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_links_lead_somewhere_and_the_picture_is_small() -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", README):
        assert (ROOT / target).exists(), target
    picture = (ROOT / "docs" / "report.png").read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert len(picture) < 200_000 and width >= height >= 600


def test_it_is_one_screen() -> None:
    assert len(README.splitlines()) <= 60


def test_the_command_and_the_call(reader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, with a model of the reader's own, and every attribute that is named after the call."""
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.chdir(tmp_path)
    frame = pd.read_csv(reader / "people.csv")
    frame.to_csv("people.csv", index=False)
    columns = frame.drop(columns="approved").astype({"sex": "category", "town": "category"})
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, enable_categorical=True, n_jobs=1)
    model.fit(columns, frame["approved"] == "yes").save_model("model.json")
    (command,) = re.findall(r"^isonomy (audit [^#\n]*)", README, re.MULTILINE)
    assert main(shlex.split(command)) in (0, 1, 3)
    for check in re.findall(r"`isonomy ((?:verify|explain)[^`]*)`", README):
        assert main(shlex.split(check)) == 0
    assert {path.name for path in Path("audit/question").iterdir()} == {"schema.toml", "audit.toml"}

    (call,) = re.findall(r"^audit = (.*)$", README, re.MULTILINE)
    forest = RandomForestClassifier(4, max_depth=3, random_state=0)
    numbers = frame.assign(race=[0, 1] * (len(frame) // 2), sex=(frame["sex"] == "male").astype(int))
    forest.fit(numbers[["age", "sex", "income", "race"]], numbers["approved"])
    names: dict[str, Any] = {"isonomy": isonomy, "model": forest, "frame": numbers.drop(columns="town")}
    audit = names["audit"] = eval(call, names)
    for word in re.findall(r"`(audit\.[^`]*)`", README):
        eval(word, names)
    assert len(repr(audit).splitlines()) == 3 and audit.verify().accepted


@pytest.mark.slow
def test_the_sentence_of_the_bundled_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture's words are those of the audit that `make audit` runs."""
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "--gamma", "0", "--out", "audit-german"]) == 0
    sentence = Path("audit-german/summary.md").read_text(encoding="utf-8").splitlines()[2]
    (shown,) = re.findall(r"example begins: for (.*?)\]", README)
    assert sentence.startswith(f"For {shown}")
