"""A certificate about parts of the audited people, served and watched: no distance is measured, and none is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

import isonomy
from isonomy.errors import FileError
from isonomy.monitor import evaluate
from isonomy.records import write
from isonomy.service import Served, Settings, create_app

from .example import SCHEMA, network, population, rows


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, people = tmp_path_factory.mktemp("part"), population(rows(20)).held_out()
    found = isonomy.certify(
        network(), people, isonomy.Counterparts.of(SCHEMA), 1.0, isonomy.Part(0.25), epsilon=0.2, progress=None,
        confidence=0.9, attack=isonomy.AttackBudget(steps=2, restarts=0),
    )  # fmt: skip
    write(folder, found)
    return folder


def test_the_statement_is_about_parts(audit: Path) -> None:
    served = Served.from_directory(audit)
    assert served.statement.startswith("No part of the 20 audited individuals that holds at least 25 % of them has")
    assert served.numbers == {"shift": "part", "at_least": 0.25}
    (upper,) = served.curve([0.25])
    assert upper <= served.upper <= upper * (1 + 2e-4) + 2e-6


def test_what_the_service_tells(audit: Path, tmp_path: Path) -> None:
    served = Served.from_directory(audit)
    settings = Settings(database=f"sqlite:///{tmp_path / 'log.db'}", window=16, every=8, least=8)
    with TestClient(create_app(served, settings)) as client:
        told = client.get("/v1/certificate").json()
        assert told["shift"] == "part" and told["at_least"] == 0.25 and not {"gamma", "order"} & set(told)
        assert told["behind"] == served.behind and told["behind"]["upper"] >= told["upper"]
        assert set(told["curve"]) == {"at_least", "upper"} and told["curve"]["at_least"][0] == 1.0
        assert told["curve"]["upper"] == sorted(told["curve"]["upper"])
        answer = client.post("/v1/predictions", json={"individuals": rows(3, seed=4)})
        assert answer.status_code == 200 and len(answer.json()["predictions"]) == 3
        watched = client.get("/v1/monitor").json()
        assert watched["at_least"] == 0.25 and "gamma" not in watched
        assert "gamma" not in json.dumps(client.get("/openapi.json").json())


@pytest.mark.parametrize(("upper", "state"), [(0.01, "valid"), (0.9, "undecided")])
def test_a_look_measures_no_distance(audit: Path, upper: float, state: str) -> None:
    served = Served.from_directory(audit)
    x = np.array(population(rows(400, seed=3)).x)
    kept = served.verdict == "certified"
    look = evaluate(served.reference(1.0), x, np.full(400, upper), risk=0.05)
    assert look.distance is None and "gamma" not in look.reason and "distance" not in look.reason
    assert look.state == (state if kept else "undecided")
    if upper < 0.1:
        assert "about each part of the audited people" in look.reason


REFUSED = [(0.1, "of a part of the individuals that holds at least 10 % of them."), (0.6, "attains")]


@pytest.mark.parametrize(("at_least", "says"), REFUSED)
def test_claims_that_the_evidence_does_not_bear_are_refused(
    audit: Path, tmp_path: Path, at_least: float, says: str
) -> None:
    shutil.copytree(audit, tmp_path / "out")
    file = tmp_path / "out" / "certificate.json"
    document = json.loads(file.read_text())
    document["predicate"]["question"]["shift"]["at_least"] = at_least
    file.write_text(json.dumps(document))
    with pytest.raises(FileError, match=r"certificate\.json") as caught:
        Served.from_directory(tmp_path / "out")
    assert says in str(caught.value)


def test_a_look_tells_of_every_shift(tmp_path: Path) -> None:
    """Each with a state of its own; a redacted certificate says what it cannot measure, and the refused leave nothing
    that holds."""
    people = population(rows(60)).held_out()
    shift = [isonomy.Drift({"age": 3}, average=False), isonomy.Part(0.05), isonomy.Mix(["sex"])]
    found = isonomy.certify(
        network(), people, isonomy.Counterparts.of(SCHEMA), 1.0, shift, epsilon=0.9, progress=None, attack=False,
        rounds=0, tier="interval",
    )  # fmt: skip
    write(tmp_path / "open", found)
    write(tmp_path / "redacted", found, redact=True)
    served = Served.from_directory(tmp_path / "open")
    window = population(rows(400, seed=3))
    upper = np.resize(np.asarray(found.local.upper), 400)
    look = evaluate(served, np.array(window.x), upper, risk=0.1)
    states = {each.quantity: each.state for each in look.shifts}
    assert states["largest share of the audited people that they can be"] == "holds"
    assert states["share of people of groups that were not audited"] == "holds"
    assert states["share of people whose age must have moved further"] == "not known"
    assert any("never shown to hold" in each.note for each in look.shifts)
    assert all("is never shown" in each.note for each in look.shifts if "mix" in each.shift or "part" in each.shift)
    refused = np.arange(400) < 4
    some = evaluate(served, np.array(window.x), upper, refused=refused, risk=0.1)
    assert {each.state for each in some.shifts} == {"not known"}
    old = np.array(window.x)
    old[:, SCHEMA.slices["age"]] = 1.0  # everybody is ninety now
    aged = {each.quantity: each.state for each in evaluate(served, old, upper, risk=0.1).shifts}
    assert aged["share of people whose age must have moved further"] == "expired"
    worst = evaluate(served, np.array(window.x), np.full(400, upper.max()), risk=0.1)
    assert "expired" not in {each.state for each in worst.shifts if each.of_bounds}, "of looser bounds nothing follows"
    hidden = evaluate(Served.from_directory(tmp_path / "redacted"), np.array(window.x), upper, risk=0.1)
    assert any("withheld" in each.note and each.state == "not known" for each in hidden.shifts)
    assert not any("certified for" in str(each) for each in hidden.shifts if "withheld" in each.note)
