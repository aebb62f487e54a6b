"""What a certificate's files make of a service: audits of any size, and claims that are not believed."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from scipy.optimize import linprog
from starlette.testclient import TestClient
from tests.auditing.streamed import FILES, ROWS, plan, write_files
from tests.auditing.streamed import audited as audit
from tests.certificates.people import METRIC, SCHEMA, network, table
from typer.testing import CliRunner

import isonomy
from isonomy.certificates.profiles import table_of_profiles
from isonomy.errors import FileError
from isonomy.monitor import evaluate
from isonomy.networks.network import Network
from isonomy.population import Population
from isonomy.records import read, write
from isonomy.service import Served, Settings, create_app, run, serve

from . import example


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("streamed"))


def audited(files: Path, name: str, **options: Any) -> Path:
    return audit(plan(files, out=str(files / name), **options))[0]


@pytest.fixture(scope="module")
def large(files: Path) -> Path:
    return audited(files, "usual")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    people, folder = example.population(example.rows(12)), tmp_path_factory.mktemp("small")
    certificate = isonomy.certify(
        example.network(), people, isonomy.Counterparts.of(example.SCHEMA), delta=1.0, gamma=0.3, epsilon=0.01,
        rounds=1, attack=isonomy.AttackBudget(steps=2, restarts=0), progress=None,
    )  # fmt: skip
    write(folder, certificate)
    return folder


Edit = Callable[[dict[str, Any]], None]


def edited(source: Path, target: Path, edit: Edit) -> Path:
    shutil.copytree(source, target)
    path = target / "certificate.json"
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))
    return target


def set_claims(**values: Any) -> Edit:
    def edit(document: dict[str, Any]) -> None:
        for name, value in values.items():
            question = document["predicate"]["question"]
            tables = (question, question["shift"], document["predicate"]["claims"])
            where = next(table for table in tables if name in table)
            where[name] = value

    return edit


def everybody() -> Population:
    frame = pd.concat([table(ROWS, seed=number) for number in range(FILES)], ignore_index=True)
    return Population.from_frame(frame, SCHEMA, domain="unbounded")


def program(out: Path, gamma: float) -> float:
    """The linear program over the profiles that lie in the evidence."""
    found = read(out)
    (radii, values), largest = table_of_profiles(found.profiles), found.profiles.largest
    weights = found.weights
    cells = np.append(np.minimum(values, largest), np.full((len(values), 1), largest), axis=1)
    cells = np.minimum.accumulate(cells[:, ::-1], axis=1)[:, ::-1]
    people, count = cells.shape
    cost, owner = np.tile(np.append(0.0, radii), people), np.repeat(np.arange(people), count)
    each = (np.arange(people)[:, None] == owner).astype(float)
    solved = linprog(-cells.ravel(), A_ub=cost[None], b_ub=[gamma], A_eq=each, b_eq=weights / weights.sum())
    return -float(solved.fun)


def test_a_streamed_audit_is_served_with_its_network_and_its_curve(large: Path) -> None:
    served, people = Served.from_directory(large), everybody()
    told = json.loads((large / "certificate.json").read_text())["predicate"]
    assert np.array_equal(served.problem.model(people.x), network()(people.x))
    assert (served.problem.delta, served.epsilon) == (0.1, 0.4)
    assert served.numbers == {"shift": "transport", "gamma": 0.05, "order": 1.0}
    assert served.upper == told["claims"]["upper"] and served.verdict == "certified"
    assert served.upper * (1 - 2e-4) - 2e-6 <= served.curve([0.05])[0] <= served.upper
    x = np.random.default_rng(0).normal(size=(2, 5, 4))
    assert np.array_equal(served.problem.metric.distance(*x), METRIC.distance(*x))
    assert served.shift.ground_cost is not None
    assert np.allclose(served.shift.ground_cost.distance(*x), np.linalg.norm(x[0] - x[1], axis=-1))
    for gamma in (0.003, 0.03, 0.07, 0.2, 1.0, 20.0):
        (upper,), exact = served.curve([gamma]), program(large, gamma)
        assert upper == pytest.approx(exact, abs=1e-8)
    assert served.curve([0.0])[0] == pytest.approx(
        np.average(pd.read_parquet(large / "individuals.parquet")["upper"], weights=people.weights), rel=1e-12
    )
    assert "of the 60 audited individuals" in served.statement and served.caution == ""


def test_its_people_are_those_of_the_table(large: Path) -> None:
    served, people = Served.from_directory(large), everybody()
    assert served.people is not None and served.everybody
    assert np.array_equal(served.people.x, people.x) and np.array_equal(served.people.weights, people.weights)
    assert served.people.rows.tolist() == list(range(len(people)))
    for all_of_them in (True, False):  # a sample proves nothing of the people in a window
        reference = replace(served, everybody=all_of_them).reference(1.0)
        look = evaluate(reference, np.array(people.x), np.zeros(len(people)), risk=0.05)
        assert look.distance is not None and look.distance.whole == all_of_them


def test_a_streamed_audit_answers_and_watches(large: Path, tmp_path: Path) -> None:
    served = Served.from_directory(large)
    frame = table(20, seed=9)[["pay", "debt", "sex"]]
    settings = Settings(database=f"sqlite:///{tmp_path / 'audit.db'}", budget_ms=0.0)
    with TestClient(create_app(served, settings)) as client:
        answer = client.post("/v1/predictions", json={"individuals": frame.to_dict("records")})
        told = client.get("/v1/certificate").json()
    assert answer.status_code == 200, answer.text
    people = Population.from_frame(frame.assign(w=1.0, part="new"), SCHEMA, domain="unbounded")
    expected = isonomy.certify_local(network(), people, METRIC, 0.1, tier="interval", attack=False, progress=None)
    # The same function through a file: what rounding may change depends on how its layers are written down.
    assert [each["upper"] for each in answer.json()["predictions"]] == pytest.approx(expected.upper.tolist(), rel=1e-10)
    assert told["upper"] == served.upper and told["gamma"] == 0.05
    far = np.add(people.x, [3.0, 3.0, 0.0, 0.0])
    for x, expired in ((people.x, False), (far, True)):
        many = np.repeat(x, 20, axis=0)
        look = evaluate(served.reference(1.0), many, np.full(len(many), 0.1), risk=0.05)
        assert look.distance is not None and (look.state == "expired") == expired


def test_order_infinity_and_no_people(files: Path) -> None:
    served = Served.from_directory(audited(files, "infinite", order=math.inf, redact=True))
    assert served.people is None and served.numbers["order"] is None
    curve = served.curve([0.0, 0.02, 0.05, 0.3, 100.0])
    assert served.upper * (1 - 2e-4) - 2e-6 <= curve[1] == curve[2] <= served.upper
    assert (np.diff(curve) >= 0).all() and curve[-1] <= 1.0
    assert served.reference(1.0).people is None


@pytest.mark.parametrize("kind", ["small", "large"])
@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"upper": 0.2}, "'upper' is 0.2, but its evidence proves no less than 0."),
        ({"gamma": 0.9}, "of a population within 0.9 of the individuals."),
        ({"lower": 0.99}, "'lower' is 0.99, which must be a number from 0 to its 'upper'"),
        ({"lower": math.nan}, '"NaN", which is no number'),
        ({"epsilon": 1e-9}, "'verdict' is"),
        ({"epsilon": math.inf}, '"Infinity", which is no number'),
        ({"verdict": None}, "'verdict' is None, but its numbers make it"),
        ({"upper": "much"}, "damaged"),
    ],
)
def test_claims_that_the_evidence_does_not_bear_are_refused(
    kind: str, claims: dict[str, Any], says: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source = request.getfixturevalue(kind)
    if kind == "small" and claims == {"epsilon": 1e-9}:
        claims = {"epsilon": 0.9}
    with pytest.raises(FileError, match=r"certificate\.json") as caught:
        Served.from_directory(edited(source, tmp_path / "out", set_claims(**claims)))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "claims", "says"),
    [
        ("small", {"delta": 2.0}, "within delta = 2, but somebody similar changes by"),
        ("large", {"delta": 0.5}, "within delta = 0.5, but somebody similar changes by"),
        ("small", {"delta": 0.5}, "'delta' is 0.5, but counterparts in its evidence are 1 apart"),
        ("small", {"order": 2.0}, ", but the population in its evidence attains 0.13"),
    ],
)
def test_what_contradicts_the_evidence_is_refused(
    kind: str, claims: dict[str, Any], says: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Nothing but the document was edited: neither hashes nor the bound from the profiles tell."""
    with pytest.raises(FileError, match=r"certificate\.json") as caught:
        Served.from_directory(edited(request.getfixturevalue(kind), tmp_path / "out", set_claims(**claims)))
    assert says in str(caught.value)


def test_a_looser_claim_is_no_lie(small: Path, tmp_path: Path) -> None:
    assert Served.from_directory(edited(small, tmp_path / "out", set_claims(upper=0.99))).upper == 0.99


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (
            lambda document: document.update(predicateType="urn:isonomy:certificate:2"),
            "of format 2, and this program checks format 8",
        ),
        (lambda document: document.update(_type="isonomy large certificate"), "is not an isonomy certificate"),
        (lambda document: document["predicate"].pop("arrays"), "damaged"),
        (lambda document: document["subject"][0]["digest"].update(sha256="0" * 64), "another SHA-256"),
        (lambda document: document["predicate"]["arrays"].update({"../x": [1]}), "is no array that a certificate has"),
    ],
)
def test_certificates_that_cannot_be_used(large: Path, tmp_path: Path, edit: Edit, says: str) -> None:
    with pytest.raises(FileError) as caught:
        Served.from_directory(edited(large, tmp_path / "out", edit))
    assert says in str(caught.value)


def test_a_certificate_that_did_not_keep_epsilon_says_so(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = Served.from_directory(small)
    assert served.verdict == "violated" and "above epsilon = 0.01" in served.caution
    assert served.statement.endswith(served.caution)
    undecided = replace(served, epsilon=(served.lower + served.upper) / 2)
    assert undecided.verdict == "undecided" and "does not vouch for epsilon" in undecided.caution
    assert replace(served, epsilon=served.upper).caution == ""
    look = evaluate(replace(served, people=None).reference(1.0), np.zeros((9, 1)), np.zeros(9), risk=0.05)
    assert look.reason.endswith(served.caution) and look.state == "undecided"  # never valid over "vouches for nothing"
    kept = replace(served, people=None, epsilon=served.upper).reference(1.0)
    assert evaluate(kept, np.zeros((9, 1)), np.zeros(9), risk=0.05).state in ("valid", "undecided")
    many = np.zeros((4000, 1))
    states = [
        evaluate(replace(each, people=None).reference(1.0), many, np.zeros(4000), risk=0.05).state
        for each in (served, replace(served, epsilon=served.upper))
    ]
    assert states == ["undecided", "valid"]
    monkeypatch.setattr("isonomy.service.app.create_app", lambda *_: None)
    monkeypatch.setattr("isonomy.service.app.uvicorn.Server.run", lambda *_: None)
    for some, warned in ((served, True), (replace(served, epsilon=1.0), False)):
        run(some, Settings(database=f"sqlite:///{tmp_path / 'audit.db'}"))
        lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        assert any(line["level"] == "warning" and some.caution == line["message"] for line in lines) == warned


def test_the_command_finds_either_kind(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Served] = []
    monkeypatch.setattr("isonomy.service.app.run", lambda served, *_, **__: seen.append(served))
    app = typer.Typer()
    app.command()(serve)
    for path in (large, large / "certificate.json"):
        assert CliRunner().invoke(app, ["--certificate", str(path)], catch_exceptions=False).exit_code == 0
    assert [served.shift.size for served in seen] == [0.05, 0.05] and len({served.identity for served in seen}) == 1


def test_a_declared_range_of_outputs_reaches_the_monitor(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [example.SCHEMA.width, 6, 1]
    weights = [0.2 * rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    numbers = Network.from_layers(weights, [np.zeros(b) for b in sizes[1:]], head="regression")
    people = example.population(example.rows(12))
    certificate = isonomy.certify(
        numbers, people, isonomy.WeightedLp(np.ones(example.SCHEMA.width), 2.0), delta=0.1, gamma=0.1, attack=False,
        domain="unbounded", output_range=(-3.0, 3.0), rounds=1, progress=None,
    )  # fmt: skip
    write(tmp_path, certificate)
    for served in (Served.of_certificate(certificate, people), Served.from_directory(tmp_path)):
        reference = replace(served, people=None).reference(math.inf)
        assert 6.0 <= reference.largest <= 6.0 + 1e-9
        look = evaluate(
            reference, np.zeros((360, example.SCHEMA.width)), np.full(360, 0.2), np.full(360, 0.2), risk=0.05
        )
        assert 0 < look.mean.lower <= 0.2 <= look.mean.upper < 1.0
    assert example.served().reference(0.5).largest == 0.5
