"""Certificates about drifts: derived again, written without a ground cost, and not forged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import isonomy
from isonomy import Drift, records
from isonomy_verify import verify

from .conftest import Forger, make, refused, statuses
from .edits import Edit, array, ask, both, claim

AMOUNTS: dict[str, Any] = {"age": 3, "credit_amount": "10%"}


@pytest.fixture(scope="session", params=[True, False], ids=["average", "everybody"])
def drift(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    shift: Any = Drift(AMOUNTS, average=request.param)
    return make(tmp_path_factory.mktemp("drift"), 5, shift, confidence=0.8)


def test_it_is_accepted_and_read_back(drift: Path) -> None:
    found = verify(drift)
    assert found.accepted and 0 < found.proved_lower <= found.proved_upper <= found.claimed_upper
    assert found.claimed_upper <= 1.00001 * found.proved_upper + 2e-6
    told, document = statuses(found), json.loads((drift / "certificate.json").read_text())
    assert told["individuals"] == told["lower"] == "proved again" and "ground" not in told
    schema = Path(isonomy.__file__).parent / "records" / "certificate.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    assert not (drift / "evidence" / "ground.toml").exists() and "ground" not in document["predicate"]["remarks"]
    record = records.read(drift)
    assert record.shift == Drift(AMOUNTS, average=document["predicate"]["question"]["shift"]["average"])
    proved, attained = record.proved_and_attained()
    assert attained is not None and attained <= proved <= record.upper and record.lower <= attained + 1e-9
    curve = record.curve([0.0, 0.5, 1.0])
    assert list(curve.columns) == ["times", "upper", "lower"] and curve["upper"].is_monotonic_increasing
    assert '"age" by 3' in found.question["populations"] and '"credit_amount" by 0.1 of the own' in str(found.question)


def lowered(forger: Forger) -> None:
    """Bounds of all who move are lower, and every claim follows."""
    forger.change("profiles.value", lambda value: 0.9 * value)
    forger.follow()


def moved_less(forger: Forger) -> None:
    """What moving costs is said to be less, so that more can move."""
    forger.change("points.cost", lambda cost: 0.5 * cost)


FORGERIES: dict[str, list[Edit]] = {
    "upper lowered": [claim("upper", lambda value, f=f: value * f - 1e-5) for f in (0.5, 0.9999)],
    "lower raised": [claim("lower", lambda value, f=f: value * f + 1e-5) for f in (1.0, 1.1)],
    "what is hidden": [claim("hidden", lambda hidden: 0.9 * hidden)],
    "larger amounts": [ask("amounts", [6.0, 0.2]), ask("amounts", [3.0, 10.0]), ask("times", 3.0)],
    "raw units for shares": [ask("shares", [True, True])],
    "another feature": [ask("features", ["duration", "credit_amount"])],
    "no such feature": [ask("features", ["nothing", "credit_amount"]), ask("features", ["age", "age"]),
                        ask("features", ["foreign_worker", "credit_amount"]), ask("features", [])],
    "no amounts": [ask("amounts", value) for value in ([], [3.0], [3.0, 0.0], [3.0, -1.0], [3.0, True], "x")],
    "no shares": [ask("shares", value) for value in ([False], None, [0, 1], "x")],
    "for whom": [ask("average", value) for value in (None, 1, "yes")],
    "how often": [ask("times", value) for value in (-1, "inf", None, True)],
    "more keys": [lambda f: f.question["shift"].update(gamma=1.0), lambda f: f.question["shift"].pop("times"),
                  lambda f: f.predicate["remarks"].update(ground="l2")],
    "another kind": [lambda f, kind=kind: f.question["shift"].update(kind=kind) for kind in ("transport", "part", "x")],
    "bounds lowered": [lowered],
    "costs lowered": [both(moved_less, claim("lower", lambda value: value + 1e-4))],
    "somebody else": [array("points.person", lambda x: np.where(np.arange(x.shape[1]) == 0, x + 1e-9, x))],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, drift: Path, tmp_path: Path) -> None:
    for number, edit in enumerate(FORGERIES[name]):
        forger = Forger(drift, tmp_path / str(number))
        edit(forger)
        assert refused(forger.done()), number


def test_a_smaller_drift_is_a_weaker_question_with_the_same_bound(drift: Path, tmp_path: Path) -> None:
    forger = Forger(drift, tmp_path)
    forger.question["shift"]["times"], forger.claims["lower"], forger.claims["population"] = 0.9, 0.0, None
    if "changes" in forger.claims:
        forger.claims["changes"]["behind"] = None  # which tried other multipliers
    forger.judge()
    assert verify(forger.done()).accepted
