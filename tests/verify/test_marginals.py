"""Certificates about known margins: derived again, read back, and not forged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import isonomy
from isonomy import Marginals, Part, load_population, records
from isonomy_verify import verify

from .conftest import Forger, drawing, make, refused, statuses
from .edits import Edit
from .test_part import less, own


def margins(**options: Any) -> Marginals:
    """Margins of the German table that its people are far from, in the codes that it has."""
    housing = dict(zip(load_population("german").schema["housing"].levels, (0.3, 0.6, 0.1), strict=True))
    known: dict[str, Any] = {"age": {30: 0.45, float("inf"): 0.55}, "housing": housing}
    return Marginals(known, **options)


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shifts: Any = [margins(), margins(residual=0.0), margins(residual=0.1, strangers=0.05), Part(0.5)]
    return make(tmp_path_factory.mktemp("margins"), 40, shifts, threshold=0.72)


def test_it_is_accepted_and_read_back(known: Path) -> None:
    found = verify(known)
    assert found.accepted and 0 < found.proved_lower <= found.proved_upper <= found.claimed_upper
    assert found.question["populations"].startswith("these individuals, reweighted to the certificate's margins of")
    document = json.loads((known / "certificate.json").read_text())
    schema = Path(isonomy.__file__).parent / "records" / "certificate.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))
    record = records.read(known)
    claims = document["predicate"]["claims"]["shifts"]
    assert claims[1]["upper"] <= claims[0]["upper"] and all(each["lower"] > 0 for each in claims)
    for shift, said in zip((record.shift, *record.shifts), claims, strict=True):
        answer = record.under(shift)  # type: ignore[arg-type]
        assert answer.upper <= said["upper"] <= answer.upper + 1e-5 and said["lower"] <= answer.lower + 1e-9
        assert said["upper"] <= 1.03 * said["lower"] or shift == record.shifts[1]
    curve = record.curve([0.0, 0.1, 0.3])
    assert list(curve.columns) == ["residual", "upper", "lower"] and curve["upper"].is_monotonic_increasing


def shift(at: int, **change: Any) -> Edit:
    """Another shift in the question."""

    def edit(forger: Forger) -> None:
        asked = forger.question["shift"] if at == 0 else forger.question["shifts"][at - 1]
        asked.update(change)

    return edit


def margin(at: int, **change: Any) -> Edit:
    """Another first margin in the question."""

    def edit(forger: Forger) -> None:
        asked = forger.question["shift"] if at == 0 else forger.question["shifts"][at - 1]
        for name, value in change.items():
            asked["margins"][0][name] = value(asked["margins"][0][name]) if callable(value) else value

    return edit


def moved(at: int, by: float) -> Any:
    return lambda values: [value + by * (place == at) for place, value in enumerate(values)]


FORGERIES: dict[str, list[Edit]] = {
    "upper lowered": [own("upper", less(factor), at) for factor in (0.5, 0.999) for at in range(3)],
    "lower raised": [own("lower", lambda lower: lower * 1.001 + 1e-5, at) for at in range(3)],
    "share of decisions": [own("upper", less(0.99), 0, True), own("lower", lambda v: v * 1.01 + 1e-5, 0, True)],
    "what is hidden": [own("hidden", lambda hidden: 0.9 * hidden)],
    "a larger residual": [shift(0, residual=0.5), shift(1, residual=0.05), shift(2, residual=0.3)],
    "a smaller residual": [shift(0, residual=0.2), shift(2, residual=0.01)],  # the population is beyond it
    "more strangers": [shift(2, strangers=0.1), shift(0, strangers=0.01)],
    "a larger tolerance": [shift(0, tolerance=0.05)],
    "a smaller tolerance": [shift(0, tolerance=0.001)],
    "other margins": [margin(0, shares=moved(0, 0.01)), margin(0, shares=moved(1, -0.02)), margin(0, edges=[0.4]),
                      margin(0, feature="duration")],
    "other tilts": [margin(0, tilt=moved(0, 0.1)), margin(1, tilt=moved(1, -0.1)), margin(0, tilt=[0.0, 0.0])],
    "no such feature": [margin(0, feature="nothing"), margin(0, feature="purpose")],
    "what is none": [margin(0, tilt=["inf", 0.0]), margin(0, tilt=[0.0]), margin(0, shares=[0.5, None]),
                     margin(0, edges=[0.4, 0.3]), margin(0, edges="x"), margin(0, more=1), shift(0, margins=[]),
                     shift(0, margins={}), shift(0, margins=5), shift(0, residual=-1.0), shift(0, tolerance=0)],
    "other hints": [own("multipliers", value, 0) for value in ([], [0.1], ["inf"])],
    "a worse population": [own("population", lambda given: [given[0] / 9, *given[1:]], 0),
                           own("population", lambda given: [given[0], given[1] + 1.0, *given[2:]], 0)],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, known: Path, tmp_path: Path) -> None:
    for at, edit in enumerate(FORGERIES[name]):
        forger = Forger(known, tmp_path / str(at))
        edit(forger)
        assert refused(forger.done()), at


def test_of_a_large_table_some_are_drawn(tmp_path: Path) -> None:
    """What could be hidden is weighed by the tilt, and never more than everybody's bound."""
    path = make(tmp_path, 150, margins(residual=0.0), tier="interval", attack=False)  # type: ignore[arg-type]
    with drawing():
        found = verify(path)
    claims = json.loads((path / "certificate.json").read_text())["predicate"]["claims"]
    assert found.accepted and found.derived < 150 and statuses(found)["shift"] == "recomputed"
    largest = records.read(path).profiles.largest
    assert found.proved_upper == pytest.approx(min(claims["upper"] + 0.05 * claims["hidden"], largest), abs=1e-4)
