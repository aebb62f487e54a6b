"""Certificates about parts of the individuals: derived again, written without a word of transport, and not forged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import isonomy
from isonomy import Part, records
from isonomy_verify import BadInput, verify

from .conftest import Forger, drawing, make, refused, statuses
from .edits import Edit, array, ask, both, claim


@pytest.fixture(scope="session")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("part"), 12, Part(0.3), confidence=0.8)  # type: ignore[arg-type]


@pytest.fixture
def forger(part: Path, tmp_path: Path) -> Forger:
    return Forger(part, tmp_path)


def test_it_is_accepted_and_both_sides_are_proved(part: Path) -> None:
    found = verify(part)
    assert found.accepted and 0 < found.proved_lower <= found.proved_upper <= found.claimed_upper
    assert found.claimed_upper <= 1.00001 * found.proved_upper + 2e-6
    told = statuses(found)
    assert told["individuals"] == told["lower"] == told["anybody"] == "proved again" and "ground" not in told
    assert found.question["populations"] == (
        "parts of these individuals that hold at least the share 0.3 of them; no one moves"
    )


def test_nothing_is_said_of_transport(part: Path) -> None:
    document = json.loads((part / "certificate.json").read_text())
    assert document["predicate"]["question"]["shift"] == {"kind": "part", "at_least": 0.3}
    assert not (part / "evidence" / "ground.toml").exists()
    found = verify(part)
    said = json.dumps([document["predicate"]["question"], document["predicate"]["remarks"], found.question])
    assert not any(word in said.lower() for word in ("gamma,", '"gamma', "order", "ground", "wasserstein"))
    schema = Path(isonomy.__file__).parent / "records" / "certificate.schema.json"
    jsonschema.validate(document, json.loads(schema.read_text()))


def test_it_is_read_back(part: Path) -> None:
    record = records.read(part)
    assert record.shift == Part(0.3) and record.ground is None
    curve = record.curve([1.0, 0.3, 0.1])
    assert list(curve.columns) == ["at_least", "upper", "lower"] and curve["upper"].is_monotonic_increasing
    assert curve["upper"][1] <= record.upper and record.lower <= curve["lower"][1] + 1e-6
    for name in ("gamma", "order"):
        with pytest.raises(isonomy.IsonomyError, match=f"kind 'part' has no '{name}'"):
            getattr(record, name)


def used(change: Any) -> Edit:
    return array("points.mass", change)


def someone_treated_better(forger: Forger) -> None:
    """The witness of somebody without mass is somebody else, who is treated less unequally than they may be."""
    value, mass = forger.array("points.value"), forger.array("points.mass")
    least, other = int(np.argmin(value)), int(np.argmax(np.where(mass == 0, value, -1.0)))
    assert least != other
    for name in ("person", "counterpart", "value"):
        rows = forger.array(f"points.{name}")
        rows[other] = rows[least]
        forger.put(f"points.{name}", rows)


def further_radii(forger: Forger) -> None:
    """Everybody has a bound within a radius, too, on which nothing rests."""
    n, largest = len(forger.array("people.weights")), float(forger.array("profiles.largest")[0])
    value = np.column_stack([forger.array("profiles.value"), np.full(n, largest)]).ravel()
    forger.put("profiles.count", np.full(n, 2))
    forger.put("profiles.radius", np.tile([0.0, 0.5], n))
    forger.put("profiles.value", value)
    forger.put("profiles.pass", np.zeros(2 * n))


def everybody_weighs_less(forger: Forger) -> None:
    forger.change("profiles.value", lambda value: 0.9 * value)
    forger.follow()


def someone_else(forger: Forger) -> None:
    """The witnesses of everybody are those of the worst treated one, who stands somewhere else."""
    worst = int(np.argmax(forger.array("points.value")))
    for name in ("person", "counterpart", "value"):
        forger.change(f"points.{name}", lambda rows: np.repeat(rows[worst : worst + 1], len(rows), axis=0))
    forger.claims["lower"] = float(np.floor(1e6 * forger.array("points.value")[0]) / 1e6) - 1e-6


FORGERIES: dict[str, list[Edit]] = {
    "upper lowered": [claim("upper", lambda upper, f=f: f * upper) for f in (0.0, 0.5, 0.999)],
    "lower raised": [claim("lower", lambda lower, f=f: lower * f + 1e-5) for f in (1.0, 1.1)],
    "a smaller part": [ask("at_least", value) for value in (0.2, 0.01, 5e-324)],
    "another level": [claim("multiplier", value) for value in (0.0, None, 5.0, 1e300)],
    "a level that is none": [claim("multiplier", value) for value in (-0.1, "inf", "nan", True)],
    "what is hidden": [claim("hidden", lambda hidden, f=f: f * hidden) for f in (0.0, 0.5, 0.99)],
    "a share that is none": [ask("at_least", value) for value in (0, 0.0, -0.3, 1.1, "inf", "0.3", None, True, [0.3])],
    "bounds lowered": [everybody_weighs_less],
    "more mass than weight": [used(lambda mass: np.where(mass > 0, 1.001 * mass + 0.01, 0.0))],
    "more mass than the share": [both(used(lambda mass: np.ones(len(mass))), claim("lower", lambda lower: lower))],
    "somebody moves": [array("points.cost", lambda cost: cost + 1e-9), array("points.person", lambda x: x + 1e-9)],
    "somebody else": [someone_else, someone_treated_better],
    "a profile of people who move": [array("profiles.radius", lambda radius: radius + 1e-9), further_radii],
    "a statement about the population": [
        claim("population", {"upper": upper, "multiplier": level}) for upper in (0.9, 0.5) for level in (None, 0.1, 0.0)
    ],
    "a ground cost": [lambda f: f.predicate["remarks"].update(ground="l2")],
    "two kinds": [lambda f: f.question["shift"].update(gamma=0.0), lambda f: f.question.update(gamma=0.0)],
    "another kind": [lambda f, kind=kind: f.question["shift"].update(kind=kind)
                     for kind in ("transport", "parts", "", None, ["part"])],
    "no kind": [lambda f: f.question["shift"].pop("kind"), lambda f: f.question.update(shift="part"),
                lambda f: f.question.pop("shift")],
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, part: Path, tmp_path: Path) -> None:
    for number, edit in enumerate(FORGERIES[name]):
        forger = Forger(part, tmp_path / str(number))
        edit(forger)
        assert refused(forger.done()), number


def test_a_larger_part_is_a_weaker_question_with_the_same_claims(forger: Forger) -> None:
    """What no part of 30 % exceeds, no part of 50 % does; but the lower bound is that of a smaller one."""
    forger.question["shift"]["at_least"] = 0.5
    forger.claims |= {"lower": 0.0}
    forger.judge()
    assert verify(forger.done()).accepted


def test_a_ground_cost_among_the_files_is_refused(forger: Forger) -> None:
    (forger.directory / "evidence" / "ground.toml").write_text("kind = 'weighted-lp'\n")
    forger.document["subject"].append({"name": "evidence/ground.toml", "digest": {"sha256": "0" * 64}})
    with pytest.raises(BadInput, match="no file of its evidence"):
        verify(forger.done())


def test_of_a_large_table_some_are_drawn(tmp_path: Path) -> None:
    """A mean that is too small by θT is a bound that is too small by θT / q."""
    path = make(tmp_path, 150, Part(0.2), tier="interval", attack=False)  # type: ignore[arg-type]
    with drawing():
        found = verify(path)
    claims = json.loads((path / "certificate.json").read_text())["predicate"]["claims"]
    assert found.accepted and found.derived < 150
    assert found.proved_upper == pytest.approx(claims["upper"] + 0.05 * claims["hidden"], abs=1e-5)
    heights = claims["upper"] - claims["multiplier"]
    assert claims["hidden"] == pytest.approx((1 - 0.2 * heights) / 0.2, rel=1e-3)


@pytest.mark.parametrize("head", ["softmax", "regression"])
@pytest.mark.parametrize("domain", ["realizable", "relaxed", "unbounded"])
def test_every_head_and_domain(head: str, domain: Any, tmp_path: Path) -> None:
    people = isonomy.load_population("german").test.sample(5)
    rng, width, outputs = np.random.default_rng(1), people.schema.width, 2 if head == "softmax" else 1
    weights = [rng.normal(size=(4, width)) / 9, rng.normal(size=(outputs, 4))]
    network = isonomy.Network.from_layers(weights, [np.zeros(4), np.zeros(outputs)], head=head)  # type: ignore[arg-type]
    metric = isonomy.WeightedLp(np.ones(width), 2)
    found = isonomy.certify(
        network, people.with_domain(domain), metric, 0.2, Part(0.4), progress=None, attack=isonomy.AttackBudget(2, 1),
        output_range=(-1e3, 1e3) if head == "regression" and domain == "unbounded" else None,
    )  # fmt: skip
    records.write(tmp_path, found)
    checked = verify(tmp_path)
    assert checked.accepted and 0 < checked.proved_lower <= checked.proved_upper < math.inf


def test_a_redacted_one_is_recomputed(tmp_path: Path) -> None:
    people = isonomy.load_population("german").test.sample(5)
    network = isonomy.Network.from_layers([np.ones((2, people.schema.width)) / 9], [np.zeros(2)])
    metric = isonomy.Counterparts.of(people.schema)
    found = isonomy.certify(network, people, metric, 1.0, Part(1.0), progress=None)
    records.write(tmp_path, found, redact=True)
    record = records.read(tmp_path)
    assert record.shift == Part(1.0) and np.isnan(record.curve([0.5])["lower"][0])
    assert verify(tmp_path).question["populations"] == "these individuals, and no other population"
