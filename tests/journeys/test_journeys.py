"""A stranger's path, for three tables and every kind of model: each step is compared with the model's own predictions.

Audit, verify, explain, compare, shift, serve, in Python and on the command line; repair and training: test_repair.
The truth is made by hand: everybody similar to a person is listed, and the fitted model itself is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient
from tests.journeys import tables
from tests.journeys.models import KINDS, Fitted, fit

import isonomy
from isonomy.cli import main
from isonomy.population import Schema
from isonomy.report.facts import facts_of
from isonomy.report.text import to_json
from isonomy.service import Settings, create_app
from isonomy.service.served import Served

CLOSE = 3e-6
"""How far predictions of a library in float32 may be from the exact ones."""

YEARS = 2


@dataclass(frozen=True)
class Case:
    """A table as a stranger knows it: its label, who must not matter, what people hope for, what is no input."""

    make: Callable[[], pd.DataFrame]
    label: str
    hoped: str
    protected: tuple[str, ...]
    similar: str  # a column in which similar people may differ by YEARS
    id: str
    idle: tuple[str, ...]

    def inputs(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame.drop(columns=[*self.idle, self.label])

    @property
    def asked(self) -> dict[str, Any]:
        threshold = {"threshold": 60000.0} if self.label == "salary" else {}
        return {
            "label": self.label, "protected": list(self.protected), "similar": {self.similar: YEARS},
            "favourable": self.hoped, "id": self.id, **threshold,
        }  # fmt: skip

    @property
    def words(self) -> list[str]:
        """Return the same question as words of a command line."""
        words = ["--label", self.label, "--favourable", self.hoped, "--similar", f"{self.similar}={YEARS}"]
        words += ["--id", self.id, *(["--threshold", "60000"] if self.label == "salary" else [])]
        return words + [word for name in self.protected for word in ("--protected", name)]


LOANS = Case(
    tables.loans, "approved", "yes", ("sex",), "age", "application_id", ("application_id", "applied_on")
)  # fmt: skip
RECIDIVISM = Case(tables.recidivism, "two_year_recid", "0", ("sex", "race"), "age", "id", ("id", "screening_date"))
SALARIES = Case(
    tables.salaries, "salary", "high", ("gender",), "years_of_service", "employee_number", ("employee_number", "hired")
)
CASES = {"loans": LOANS, "recidivism": RECIDIVISM, "salaries": SALARIES}

FAST = [(("loans", "recidivism")[place % 2], kind) for place, kind in enumerate(KINDS)] + [("salaries", "regression")]
ALL = [("loans", kind) for kind in KINDS] + [("recidivism", kind) for kind in KINDS] + [("salaries", "regression")]
PATHS = [pytest.param(*each, marks=() if each in FAST else pytest.mark.slow, id="-".join(each)) for each in ALL]


@dataclass(frozen=True)
class Truth:
    """Of each audited person the largest change of the model's own prediction, and whether the decision can flip."""

    change: np.ndarray
    flips: np.ndarray
    prediction: np.ndarray


def truth_of(case: Case, fitted: Fitted, rows: pd.DataFrame, schema: Schema) -> Truth:
    """Ask the fitted model about everybody similar to each row."""
    cut = 60000.0 if case.label == "salary" else 0.5
    near = next(each for each in schema.features if each.name == case.similar)
    values = [next(each for each in schema.features if each.name == name).categories for name in case.protected]
    changes = list(product(range(-YEARS, YEARS + 1), *values))
    others = rows.loc[rows.index.repeat(len(changes))].reset_index(drop=True)
    others[case.similar] += np.tile([each[0] for each in changes], len(rows))
    for place, name in enumerate(case.protected, 1):
        others[name] = np.tile([each[place] for each in changes], len(rows))
    exist = others[case.similar].between(near.low, near.high).to_numpy().reshape(len(rows), -1)
    own, given = fitted.predict(rows), fitted.predict(others).reshape(len(rows), -1)
    flips = exist & ((given >= cut) != (own >= cut)[:, None])
    return Truth((np.abs(given - own[:, None]) * exist).max(axis=1), flips.any(axis=1), own)


@pytest.mark.parametrize(("table", "kind"), PATHS)
def test_in_python(table: str, kind: str) -> None:
    case = CASES[table]
    frame = tables.loans(gaps=False) if (table, kind) == ("loans", "torch") else case.make()
    fitted = fit(kind, case.inputs(frame), frame[case.label])
    audit = isonomy.audit(fitted.model, frame, **case.asked, limit=24, quiet=True, progress=None)

    local, people = audit.certificate.local, audit.people
    rows = frame.iloc[people["row"]]
    assert people[case.id].astype(str).tolist() == rows[case.id].astype(str).tolist()
    truth = truth_of(case, fitted, case.inputs(rows), audit.findings.people.schema)
    scale = max(1.0, np.abs(truth.prediction).max())
    assert (local.upper >= truth.change - CLOSE * scale).all() and (local.lower <= truth.change + CLOSE * scale).all()
    assert ((people["decision"] == "flippable") == truth.flips).all(), "every flip is known, and no other is said"
    flips, n = int(truth.flips.sum()), len(rows)
    assert f"for {flips} of {n} people somebody similar gets another decision; for {n - flips} it is" in repr(audit)
    assert audit.flips(by=case.protected[0])["people"].sum() == flips
    gains = sum(_good(case, fitted.predict(case.inputs(rows))[truth.flips]) == 0)
    assert audit.flips(by=case.protected[0]).query("direction == 'gain'")["people"].sum() == gains

    assert audit.verify().accepted
    row = int(people["row"][truth.flips.argmax() if flips else 0])
    name = frame[case.id].iloc[row]
    answer = audit.explain(str(name)).to_dict()
    assert answer["row"] == row and (answer["decision"] == "flippable") == bool(truth.flips[people["row"] == row][0])
    if answer["decision"] == "flippable":
        one, two = (predict_raw(case, fitted, frame, answer[each]) for each in ("individual", "counterpart"))
        assert abs(one - two) == pytest.approx(answer["lower"], abs=CLOSE * scale)
    quarter = audit.certificate.under(isonomy.Part(0.25))
    worst = np.sort(truth.change)[-n // 4 :].mean()
    assert quarter.lower - CLOSE * scale <= worst <= quarter.upper + CLOSE * scale
    wider = isonomy.audit(
        fitted.model, frame, **case.asked | {"similar": {case.similar: 2 * YEARS}}, limit=24, quiet=True, progress=None
    )
    assert "different questions" in repr(audit.compare(wider))
    assert (wider.certificate.local.upper >= local.lower - 1e-9).all(), "more people are similar, nobody is lost"


def _good(case: Case, given: np.ndarray) -> np.ndarray:
    """Return who is on the favourable side."""
    cut = 60000.0 if case.label == "salary" else 0.5
    return given >= cut if case.hoped in ("yes", "high") else given < cut


def predict_raw(case: Case, fitted: Fitted, frame: pd.DataFrame, raw: dict[str, Any]) -> float:
    """Return what the fitted model gives for a person as a page shows one."""
    like = case.inputs(frame).iloc[[0]].copy()
    for name, value in raw.items():
        like[name] = [np.nan if value in (None, "missing") else value]
    return float(fitted.predict(like.astype(case.inputs(frame).dtypes.to_dict()))[0])


@pytest.mark.parametrize(("table", "kind"), PATHS)
def test_on_the_command_line(
    table: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    case = CASES[table]
    frame = tables.loans(gaps=False) if (table, kind) == ("loans", "torch") else case.make()
    fitted = fit(kind, case.inputs(frame), frame[case.label])
    frame.to_csv("people.csv", index=False)
    asked_live = fitted.save is None  # a model that can only be asked is asked in Python; commands read what was saved
    model = "" if fitted.save is None else fitted.save(tmp_path).name

    def answered(*words: str) -> tuple[int, Any]:
        capsys.readouterr()
        status = main([*words, "--json"])
        return status, json.loads(capsys.readouterr().out)

    asked = ["audit", "people.csv", model, *case.words, "--limit", "16"]
    if asked_live:
        live = isonomy.audit(fitted.model, frame, **case.asked, limit=16, quiet=True, progress=None)
        live.save("out")
        live.save("o")
        status, facts = 0, to_json(facts_of(live.findings))
    else:
        status, facts = answered(*asked, "--out", "out")
    people = pd.read_parquet("out/individuals.parquet")
    rows = frame.iloc[people["row"]]
    truth = truth_of(case, fitted, case.inputs(rows), Schema.from_toml(Path("out/question/schema.toml")))
    scale = max(1.0, np.abs(truth.prediction).max())
    flips = int(truth.flips.sum())
    assert status == 0 and facts["decisions"].get("flippable", 0) == flips
    if "changed" in facts:
        assert facts["changed"]["alone"] + facts["changed"]["together"] == flips and facts["changed"]["open"] == 0
    else:
        assert "alone changes nothing" in facts["sentence"], "the model reads nothing protected"
    if flips:
        assert facts["sentence"].startswith(("For ", "The model "))
    low, high = truth.change.mean() - CLOSE * scale, truth.change.mean() + CLOSE * scale
    assert facts["lower"] <= high and facts["upper"] >= low
    for epsilon, right in ((truth.change.mean() / 2, 1), (min(1.0, 2 * truth.change.mean()), 0)):
        if not asked_live and (table != "salaries" or epsilon > 1):  # half of nothing is nothing
            assert answered("audit", "out/question/audit.toml", "--epsilon", str(epsilon), "--out", "o")[0] == right

    originals = () if asked_live else ("--model", model, "--data", "people.csv")
    status, checked = answered("verify", "out/certificate.json", *originals)
    assert status == 0 and checked["accepted"]
    place = int(truth.flips.argmax()) if flips else 0
    status, told = answered("explain", "out", "--id", str(people[case.id][place]))
    assert status == 0 and told["row"] == people["row"][place]
    one, two = (predict_raw(case, fitted, frame, told[each]) for each in ("individual", "counterpart"))
    assert abs(one - two) == pytest.approx(told["lower"], abs=CLOSE * scale)
    assert answered("compare", "out", "o")[0] == 0
    frame.sample(120, random_state=1).to_csv("newer.csv", index=False)
    status, moved = answered("shift", "people.csv", "newer.csv", "--schema", "out/question/schema.toml")
    assert status == 0 and moved["suggested_gamma"] is None, "the same people are no shift"

    monkeypatch.setattr("isonomy.service.app.LOOPBACK", ("testserver",))
    settings = Settings(database=f"sqlite:///{tmp_path / 'log.db'}")
    raw = json.loads(case.inputs(rows).iloc[[place]].to_json(orient="records"))[0]
    with TestClient(create_app(Served.from_directory(Path("out")), settings)) as client:
        answer = client.post("/v1/predictions", json={"individuals": [raw]})
    assert answer.status_code == 200, answer.text
    served = answer.json()["predictions"][0]
    assert served["outputs"][-1] == pytest.approx(truth.prediction[place], abs=CLOSE * scale)
