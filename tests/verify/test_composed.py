"""Certificates about people who are reweighted first and move then: derived again, and not forged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import isonomy
from isonomy import Drift, Mix, Part, Stability, Transport, records
from isonomy_verify import verify

from .conftest import Forger, drawing, make, refused, statuses
from .edits import Edit, array, ask, claim

SHIFTS: dict[str, Any] = {
    "stability": Stability(0.2, 4) & Drift({"age": 3}),
    "part": Part(0.5, 0.1) & Transport(0.1),
    "mix": Mix(["personal_status"]) & Drift({"age": 3}, average=False),
}


@pytest.fixture(scope="session", params=SHIFTS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("both"), 6, SHIFTS[request.param], threshold=0.72)


def test_it_is_accepted_and_read_back(both: Path) -> None:
    found = verify(both)
    assert found.accepted and 0 < found.proved_lower <= found.claimed_upper
    document = json.loads((both / "certificate.json").read_text())
    said = document["predicate"]["claims"]["changes"]
    assert ("decisions that can change", "recomputed") in {(name, how) for name, how, _ in found.claims}
    assert said["lower"] <= said["upper"] and (said["lower"] > 0 or said["upper"] < 1)
    schema = Path(isonomy.__file__).parent / "records" / "certificate.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    kind = document["predicate"]["question"]["shift"]["first"]["kind"]
    record = records.read(both)
    assert record.shift.section() == SHIFTS[kind].section()
    moved = (both / "evidence" / "ground.toml").exists()
    assert moved == (kind == "part") == ("ground" in statuses(found))
    proved, attained = record.proved_and_attained()
    assert attained is not None and attained <= proved <= record.upper <= proved * 1.001 + 1e-4
    assert record.lower <= found.proved_lower and found.question["populations"].startswith("first ")
    curve = record.curve([0.0, record.shift.size or 0.0])
    assert curve["upper"].is_monotonic_increasing


def lowered(forger: Forger) -> None:
    forger.change("profiles.value", lambda value: 0.9 * value)


def inside(part: str, **values: Any) -> Edit:
    return lambda forger: forger.question["shift"][part].update(values)


def hint(name: str, change: Any) -> Edit:
    def edit(forger: Forger) -> None:
        forger.claims["hints"][name] = change(forger.claims["hints"][name])

    return edit


def share(name: str, change: Any) -> Edit:
    def edit(forger: Forger) -> None:
        forger.claims["changes"][name] = change(forger.claims["changes"][name])

    return edit


FORGERIES: dict[str, list[Edit]] = {
    "another share of decisions": [
        share("lower", lambda value: value + 1e-4), share("upper", lambda value: min(value, 1.0) - 1e-4),
        share("hidden", lambda value: -1.0), share("hints", lambda hints: None), share("hints", lambda hints: {}),
        lambda f: f.claims["changes"].pop("hints"), share("multiplier", lambda value: -1.0),
        lambda f: f.claims["changes"].update(behind={"upper": 1.0, "lower": 0.0, "multiplier": None}),
    ],
    "upper lowered": [claim("upper", lambda value, f=f: value * f - 1e-5) for f in (0.5, 0.999)],
    "lower raised": [claim("lower", lambda value: value * 1.1 + 1e-4)],
    "more are meant": [inside("first", kappa=0.9), inside("first", at_least=0.1), inside("first", strangers=0.5)],
    "they move further": [inside("then", times=5.0), inside("then", gamma=2.0)],
    "the other order": [lambda f: f.question.update(shift={"kind": "composed", "first": f.question["shift"]["then"],
                                                         "then": f.question["shift"]["first"]})],
    "one of them alone": [lambda f: f.question.update(shift=f.question["shift"]["then"]),
                          lambda f: f.question.update(shift=f.question["shift"]["first"])],
    "three of them": [lambda f: f.question["shift"].update(first=dict(f.question["shift"])),
                      lambda f: f.question["shift"].update(then=dict(f.question["shift"]))],
    "more keys": [ask("kind", "compose"), lambda f: f.question["shift"].update(order=1), inside("first", x=1),
                  inside("then", x=1), lambda f: f.question["shift"].pop("then")],
    "no hints": [lambda f: f.claims.pop("hints"), lambda f: f.claims["hints"].pop("edges"),
                 lambda f: f.claims["hints"].update(more=[]), hint("multipliers", lambda some: ["x"])],
    "other hints": [hint("multipliers", lambda some: [9.0 * each for each in some] or [5.0]),
                    hint("edges", lambda some: [0.5 * each for each in some] or [0.1])],
    "what is hidden": [claim("hidden", lambda hidden: -1.0)],
    "a statement about the population": [claim("population", {"upper": 0.1, "multiplier": 0.1})],
    "costs lowered": [array("points.cost", lambda cost: 0.5 * cost - 1e-9)],
    "more mass": [array("points.mass", lambda mass: 3 * mass)],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, both: Path, tmp_path: Path) -> None:
    honest = json.loads((both / "certificate.json").read_text())["predicate"]["question"]["shift"]
    for number, edit in enumerate(FORGERIES[name]):
        forger = Forger(both, tmp_path / str(number))
        before = json.dumps(forger.predicate)
        edit(forger)
        one = forger.question["shift"]
        if name == "other hints" and number == 1 and honest["first"]["kind"] != "stability":
            continue  # only an index has bins
        if name in ("more are meant", "they move further") and set(one["first"]) | set(one["then"]) != (
            set(honest["first"]) | set(honest["then"])
        ) | ({"strangers"} if "strangers" in one["first"] else set()):
            assert refused(forger.done()), number  # a key that is none of this kind
            continue
        assert before != json.dumps(forger.predicate) or name in ("costs lowered", "more mass")
        assert refused(forger.done()), number


def test_of_a_large_table_some_are_drawn(tmp_path: Path) -> None:
    shift: Any = Part(0.2) & Drift({"age": 2}, average=False)
    path = make(tmp_path, 150, shift, tier="interval", attack=False)
    with drawing():
        found = verify(path)
    claims = json.loads((path / "certificate.json").read_text())["predicate"]["claims"]
    assert found.accepted and found.derived < 150
    assert found.proved_upper == pytest.approx(claims["upper"] + 0.05 * claims["hidden"], abs=1e-5)


def test_bounds_that_are_too_low_are_seen(both: Path, tmp_path: Path) -> None:
    forger = Forger(both, tmp_path)
    lowered(forger)
    assert refused(forger.done())
