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
from isonomy import Mix, Part, Stability, records
from isonomy_verify import BadInput, verify
from isonomy_verify.behind import behind_drawn, bound_behind
from isonomy_verify.claims import inflated
from isonomy_verify.individuals import Individuals
from isonomy_verify.reweighting import sample_of

from .conftest import Forger, drawing, make, refused, statuses
from .edits import Edit, array, ask, both, claim


@pytest.fixture(scope="session")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shifts: Any = [Part(0.3), Stability(0.2, 6), Mix(["personal_status"]), Stability(0.1, 4, strangers=0.1)]
    return make(tmp_path_factory.mktemp("part"), 12, shifts, confidence=0.8, threshold=0.72)


@pytest.fixture
def forger(part: Path, tmp_path: Path) -> Forger:
    return Forger(part, tmp_path)


def test_it_is_accepted_and_both_sides_are_proved(part: Path) -> None:
    found = verify(part)
    assert found.accepted and 0 < found.proved_lower <= found.proved_upper <= found.claimed_upper
    assert found.claimed_upper <= 1.00001 * found.proved_upper + 2e-6
    shares = [each["changes"] for each in records.read(part).answers]
    assert 0 < shares[0]["lower"] <= shares[0]["upper"] and shares[1]["upper"] < 1  # some can change, and some not
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
    assert record.shifts == (Stability(0.2, 6), Mix(["personal_status"]), Stability(0.1, 4, strangers=0.1))
    for shift, said in zip((record.shift, *record.shifts), record.answers, strict=True):
        answer = record.under(shift)  # type: ignore[arg-type]
        assert answer.upper <= said["upper"] <= answer.upper + 3e-6 and said["lower"] <= answer.lower + 1e-12
    curve = record.curve([1.0, 0.3, 0.1])
    assert list(curve.columns) == ["at_least", "upper", "lower"] and curve["upper"].is_monotonic_increasing
    assert curve["upper"][1] <= record.upper and record.lower <= curve["lower"][1] + 1e-6
    for name in ("gamma", "order"):
        with pytest.raises(isonomy.IsonomyError, match=f"kind 'part' has no '{name}'"):
            getattr(record, name)


def further_radii(forger: Forger) -> None:
    """Everybody has a bound within a radius, too, on which nothing rests."""
    n, largest = len(forger.array("people.weights")), float(forger.array("profiles.largest")[0])
    value = np.column_stack([forger.array("profiles.value"), np.full(n, largest)]).ravel()
    forger.put("profiles.count", np.full(n, 2))
    forger.put("profiles.radius", np.tile([0.0, 0.5], n))
    forger.put("profiles.value", value)
    forger.put("profiles.pass", np.zeros(2 * n))


def bounds_lowered(forger: Forger) -> None:
    """Everybody's own bounds are lower, and every claim follows."""
    for name in ("profiles.value", "local.upper", "local.lower"):
        forger.change(name, lambda value: 0.9 * value)
    forger.follow()


def violations_raised(forger: Forger) -> None:
    forger.change("local.lower", lambda lower: np.minimum(lower * 1.01 + 1e-4, forger.array("local.upper")))
    forger.follow()


def decisions_settled(forger: Forger) -> None:
    """Decisions that are open or turned are said to be proved to stay."""
    forger.change("local.decision", lambda decision: np.where(decision > 0, 1, 0))
    forger.change("local.flip_counterpart", lambda rows: rows[:0])
    forger.follow()


def own(name: str, change: Any, at: int = 0, changes: bool = False) -> Edit:
    """Another claim about a shift, which the certificate's own repeats where it is the first."""

    def edit(forger: Forger) -> None:
        said = forger.claims["shifts"][at]["changes"] if changes else forger.claims["shifts"][at]
        said[name] = change(said[name]) if callable(change) else change
        if at == 0 and not changes and name in ("upper", "lower", "hidden"):
            forger.claims[name] = said[name]
            if isinstance(said[name], int | float) and not isinstance(said[name], bool):
                forger.judge()

    return edit


def behind(name: str, change: Any, at: int = 0, changes: bool = False) -> Edit:
    """Another statement about the population behind the sample, which the certificate's own repeats."""

    def edit(forger: Forger) -> None:
        said = forger.claims["shifts"][at]["changes"] if changes else forger.claims["shifts"][at]
        said["behind"][name] = change(said["behind"][name]) if callable(change) else change
        if at == 0 and not changes and name == "upper":
            forger.claims["population"]["upper"] = said["behind"]["upper"]

    return edit


def less(factor: float) -> Any:
    return lambda value: value * factor - 1e-5


FORGERIES: dict[str, list[Edit]] = {
    "behind the sample": [behind("upper", less(f), at) for f in (0.5, 0.9999) for at in range(4)],
    "decisions behind the sample": [
        *(behind("upper", less(f), at, True) for f in (0.5, 0.9999) for at in range(1, 4)),
        *(behind("lower", lambda v: v + 1e-5, at, True) for at in range(4))],
    "hints behind the sample": [
        behind("hints", value, at) for at in (1, 2) for value in ([], [0.0], [-1.0, 0.5], [9e300] * 6, ["inf"], None)],
    "another confidence": [ask("confidence", value) for value in (0.81, 0.99, None)],
    "nothing behind the sample": [
        lambda f: f.claims["shifts"][0].update(behind=None), lambda f: f.claims["shifts"][1].pop("behind"),
        lambda f: f.claims["shifts"][1]["changes"].update(behind=None),
        lambda f: f.claims["shifts"][1]["behind"].update(lower=0.0),
        lambda f: f.claims["shifts"][1]["changes"]["behind"].pop("lower")],
    "unequal weights": [array("people.weights", lambda w: w * np.linspace(1, 2, len(w)), follows=False)],
    "upper lowered": [own("upper", less(f), at) for f in (0.5, 0.999) for at in range(4)],
    "the certificate's own": [claim("upper", less(0.9)), claim("lower", lambda v: v + 1e-5), claim("hidden", 0.0)],
    "lower raised": [own("lower", lambda lower, f=f: lower * f + 1e-5, at) for f in (1.0, 1.1) for at in range(4)],
    "share of decisions lowered": [own("upper", less(0.99), at, True) for at in range(4)],
    "share of decisions raised": [own("lower", lambda v: v * 1.01 + 1e-5, at, True) for at in range(4)],
    "no share of decisions": [own("changes", None, at) for at in range(4)],
    "a smaller part": [ask("at_least", value) for value in (0.2, 0.01, 5e-324)],
    "a larger index": [lambda f: f.question["shifts"][0].update(kappa=0.5)],
    "a smaller index": [both(lambda f: f.question["shifts"][0].update(kappa=0.01), own("upper", less(0.95), 1))],
    "other groups": [lambda f: f.question["shifts"][1].update(features=["housing"]),
                     lambda f: f.question["shifts"][1].update(features=["nothing"]),
                     lambda f: f.question["shifts"][1].update(limits=[[0.0, 1.0]])],
    "no strangers": [lambda f: f.question["shifts"][2].update(strangers=0.5)],
    "other hints": [own(name, value, at) for at in range(4) for name, value in (
        ("multipliers", ["inf"]), ("multipliers", [True]), ("population", "x"), ("edges", [None]))],
    "a level that is none": [own("multipliers", [value]) for value in (-0.1, 5.0, 1e300)],
    "multipliers of an index": [
        own("multipliers", value, 1) for value in ([0.0, 0.1], [-1.0, 0.1], [1.0], [1e-9, 0.0])],
    "a population beyond the index": [
        both(own("population", lambda q: [*q[:-1], 9 * q[-1]], 1), own("lower", lambda v: 1.01 * v, 1))],
    "bins": [own("edges", lambda e: e[:-1], 1), own("edges", lambda e: [*e, e[-1] + 1], 1),
             own("edges", lambda e: [0.9 * each for each in e], 1)],
    "shares of groups": [own("population", lambda a: [2 * each for each in a], 2),
                         own("population", lambda a: a[:-1], 2)],
    "what is hidden": [own("hidden", lambda hidden, f=f: f * hidden) for f in (0.0, 0.5, 0.99)],
    "a share that is none": [ask("at_least", value) for value in (0, 0.0, -0.3, 1.1, "inf", "0.3", None, True, [0.3])],
    "bounds lowered": [bounds_lowered],
    "violations raised": [violations_raised],
    "decisions settled": [decisions_settled],
    "somebody moves": [array("points.cost", lambda cost: cost + 1e-9), array("points.person", lambda x: x + 1e-9)],
    "a profile of people who move": [array("profiles.radius", lambda radius: radius + 1e-9), further_radii],
    "a statement about the population": [
        claim("population", {"upper": upper, "multiplier": level}) for upper in (0.3, 0.2) for level in (None, 0.1, 0.0)
    ],
    "a ground cost": [lambda f: f.predicate["remarks"].update(ground="l2")],
    "two kinds": [lambda f: f.question["shift"].update(gamma=0.0), lambda f: f.question.update(gamma=0.0)],
    "another kind": [lambda f, kind=kind: f.question["shift"].update(kind=kind)
                     for kind in ("transport", "stability", "mix", "parts", "", None, ["part"])],
    "no kind": [lambda f: f.question["shift"].pop("kind"), lambda f: f.question.update(shift="part"),
                lambda f: f.question.pop("shift")],
    "shifts and claims that do not fit": [
        lambda f: f.question.pop("shifts"), lambda f: f.claims.pop("shifts"), lambda f: f.claims["shifts"].pop(),
        lambda f: f.question["shifts"].append({"kind": "part", "at_least": 0.5}),
        lambda f: f.question["shifts"].reverse(), lambda f: f.claims["shifts"].reverse(),
        lambda f: f.question.update(shifts={}), lambda f: f.claims["shifts"][1].update(more=1),
        lambda f: f.claims["shifts"][1].pop("edges"),
        lambda f: f.question["shifts"].__setitem__(0, {"kind": "transport", "gamma": 0.1, "order": 1.0})],
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
    for said in (forger.claims, forger.claims["shifts"][0], forger.claims["shifts"][0]["changes"]):
        said["lower"] = 0.0
    forger.claims["shifts"][0]["changes"]["behind"]["lower"] = 0.0
    forger.claims["shifts"][0]["population"] = forger.claims["shifts"][0]["changes"]["population"] = []
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
    largest = records.read(path).profiles.largest
    assert claims["hidden"] == pytest.approx((largest - claims["local"]["upper"]) / 0.2, rel=1e-3)


def test_some_are_drawn_where_a_population_is_spoken_of(tmp_path: Path) -> None:
    """What is said of the population behind them holds but for as many false claims as drawing could miss."""
    shifts: Any = [Part(0.3), Stability(0.2, 6), Mix(["foreign_worker"])]
    path = make(tmp_path, 150, shifts, tier="interval", attack=False, confidence=0.8, threshold=0.72)
    with drawing():
        found = verify(path)
    told = {name: detail for name, _, detail in found.claims}
    assert found.accepted and found.derived < 150 and found.seed is not None
    assert all(
        "and so is a population behind the sample with more than" in d for n, _, d in found.claims if n == "shift"
    )
    above = float(told["population"].split("as people were drawn, more than ")[1].split()[0])
    document = json.loads((path / "certificate.json").read_text())["predicate"]["claims"]
    assert document["population"]["upper"] < above < records.read(path).profiles.largest
    with drawing():  # by a seed that the issuer could know: nothing is said of how likely a lie is accepted
        known = verify(path, seed=5)
    assert known.result == "looked at" and known.proved_upper == math.inf
    assert "with probability" not in str(known.claims)
    low = Forger(path, tmp_path / "low")
    low.change("local.upper", lambda upper: upper * np.where(np.arange(len(upper)) % 2, 0.5, 1.0))
    low.follow()
    with drawing():
        assert refused(low.done())  # half of the claims are false


@pytest.mark.parametrize(
    "shift", [Part(0.3), Part(1.0), Stability(0.2, 6), Mix(["g"]), Mix(["g"], ((0.2, 0.6), (0.4, 0.8)))]
)
def test_no_false_claims_of_so_many_exceed_what_is_said(shift: Any) -> None:
    """Whoever they are."""
    rng, n, missed, most = np.random.default_rng(5), 200, 8, float(inflated(1.0))
    decision = rng.choice(np.array([1, 2, 3], dtype=np.uint8), n, p=[0.9, 0.05, 0.05])
    alone, groups = Individuals(rng.uniform(0, 0.3, n), np.zeros(n), decision, 1.0), rng.integers(0, 2, n)
    weights, own = np.ones(n), groups if isinstance(shift, Mix) else None
    said = shift.claim(alone, weights, own, 0.1)
    tops = behind_drawn(alone, shift.kernel, weights, own, said, 0.1, missed)
    assert said["behind"]["upper"] < tops[0] < most and said["changes"]["behind"]["upper"] < tops[1] < 1
    for _ in range(12):
        false = rng.choice(n, missed, replace=False)
        high, may = alone.highs(slice(None)).copy(), (decision != 1).astype(float)
        high[false], may[false] = most, 1.0
        for values, largest, top, risk in ((high, most, tops[0], 0.1), (may, 1.0, tops[1], 0.05)):
            people = sample_of(values, np.zeros(n), weights, own)
            hints = shift.hints_behind(people, largest, risk, largest == 1.0)
            assert bound_behind(shift.kernel, people, hints, largest, risk, largest == 1.0) <= top + 1e-3


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
