"""Certificates at prediction time are the library's."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import isonomy
from isonomy.attacks import Known
from isonomy.certificates.local import Bounds
from isonomy.errors import DataError, SoundnessError
from isonomy.population import DomainKind
from isonomy.population.outcome import NO_OUTCOME
from isonomy.records import write
from isonomy.service import Served, Settings, create_app
from isonomy.service import certifier as certifier_module
from isonomy.service.certifier import PIECE, Certifier, _Pace
from isonomy.service.served import placeholder
from isonomy_verify.local import LocalBounds

from .example import SCHEMA, network, population, rows, served, served_with

N = 150


def library(here: Served, some: list[int], tier: str, attack: bool = False) -> isonomy.LocalCertificate:
    people = population(rows(N, seed=5))[some]
    return isonomy.certify_local(
        here.problem.model,
        people,
        here.problem.metric,
        here.problem.delta,
        domain=here.problem.domain,
        tier=tier,
        attack=attack,
        progress=None,
    )


def domains() -> dict[DomainKind, Served]:
    schema = served().schema
    fitted = isonomy.WeightedLp.fit(population(rows(80)))
    singular = isonomy.Mahalanobis(np.eye(schema.width))
    return {
        "realizable": served(),
        "relaxed": served_with(metric=fitted, delta=0.02, domain=schema.domain("relaxed")),
        "unbounded": served_with(metric=singular, delta=0.02, domain=schema.domain("unbounded")),
    }


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["realizable", "relaxed", "unbounded"])
def test_the_interval_tier_is_the_librarys_bit_for_bit(kind: DomainKind) -> None:
    here = domains()[kind]
    certifier, people = Certifier(here), population(rows(N, seed=5))
    for some in ([0], [7], list(range(N))):
        found, expected = certifier(np.array(people.x[some])), library(here, some, "interval")
        assert np.array_equal(found.upper, expected.upper)
        assert found.decision == expected.decision.tolist()
        assert found.verdict == expected.verdict(here.epsilon).tolist()
        assert np.array_equal(found.outputs, expected.prediction)
        assert set(found.tier) == {"interval"}


@pytest.mark.parametrize("kind", ["realizable", "relaxed", "unbounded"])
def test_the_tight_tier_is_the_librarys_bit_for_bit(kind: DomainKind) -> None:
    """Whoever the interval tier leaves undecided, in pieces, is bounded as the library bounds such a table."""
    people = population(rows(N, seed=5))
    epsilon = float(np.quantile(Certifier(domains()[kind])(np.array(people.x)).upper, 0.3))
    here = replace(domains()[kind], epsilon=epsilon)
    certifier = Certifier(here)
    first = certifier(np.array(people.x))
    undecided = [place for place, verdict in enumerate(first.verdict) if verdict == "undecided"]
    assert len(undecided) > PIECE
    found = certifier(np.array(people.x), seconds=600.0)
    for start in range(0, len(undecided), PIECE):
        piece = undecided[start : start + PIECE]
        expected = library(here, piece, "tight")
        assert np.array_equal(found.upper[piece], np.minimum(first.upper[piece], expected.upper))
        tiers = np.where(expected.upper < first.upper[piece], "tight", "interval")
        assert [found.tier[place] for place in piece] == tiers.tolist()
    assert "tight" in found.tier
    others = np.setdiff1d(np.arange(N), undecided)
    assert np.array_equal(found.upper[others], first.upper[others])
    assert (found.upper <= first.upper).all()


def test_one_by_one_or_together_is_the_same_to_rounding() -> None:
    certifier, people = Certifier(served()), population(rows(N, seed=5))
    together = certifier(np.array(people.x), seconds=600.0)
    for place in range(0, N, 10):
        alone = certifier(np.array(people.x[[place]]), seconds=600.0)
        assert alone.upper[0] == pytest.approx(together.upper[place], rel=1e-6)
        assert (alone.predictions[0], alone.verdict[0]) == (together.predictions[place], together.verdict[place])


def test_counterparts_are_the_librarys_and_in_raw_units() -> None:
    here = served()
    certifier, people = Certifier(here), population(rows(N, seed=5))
    some = list(range(20))
    found, expected = certifier(np.array(people.x[some]), counterparts=True), library(here, some, "interval", True)
    assert np.array_equal(found.lower, expected.lower)
    assert found.decision == expected.decision.tolist()
    assert found.counterpart is not None
    back = here.schema.encode(found.counterpart).x
    assert np.allclose(back, expected.witnesses.counterpart, rtol=0, atol=1e-12)
    assert (found.lower <= found.upper).all()


@pytest.mark.parametrize("kept", [False, True])
def test_a_contradiction_is_answered_by_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool) -> None:
    """The client is told who and by how much, the operator where to look; no file without leave to store features."""
    monkeypatch.chdir(tmp_path)
    settings = Settings(database=f"sqlite:///{tmp_path / 'audit.db'}", store_features=kept)
    with TestClient(create_app(served(), settings)) as client:
        body = {"individuals": rows(5, seed=5), "counterpart": True}
        assert client.post("/v1/predictions", json=body).status_code == 200
        honest = LocalBounds._violation
        monkeypatch.setattr(LocalBounds, "_violation", lambda *given: honest(*given) / 1e3)
        found = client.post("/v1/predictions", json=body)
        assert found.status_code == 500
        said = found.json()["detail"]
        assert "similar individual changes by" in said and "nothing is certified" in said and str(tmp_path) not in said
    files = list(tmp_path.glob("isonomy-soundness-*.json"))
    assert len(files) == kept


def test_a_decision_that_is_sure_and_flips(monkeypatch: pytest.MonkeyPatch) -> None:
    certifier, people = Certifier(served()), population(rows(N, seed=5))
    x = np.array(people.x)
    assert "flippable" in certifier(x, counterparts=True).decision
    monkeypatch.setattr(Bounds, "chunk", lambda self, x: Known(np.ones(len(x)), np.ones(len(x), dtype=bool)))
    with pytest.raises(SoundnessError, match=r"another decision.*no file was to be written"):
        certifier(x, counterparts=True)


def test_nobody_outside_a_domain_of_its_own_is_certified(tmp_path: Path) -> None:
    """A certificate may be about fewer people than its schema allows: of the others it says nothing."""
    domain = SCHEMA.domain("realizable")
    high = domain.high.copy()
    high[0] = 0.55
    here = served_with(domain=replace(domain, high=high))
    people = population(rows(N, seed=5))
    inside = people.x[:, 0] <= 0.55
    assert inside.any() and not inside.all()
    certifier = Certifier(here)
    assert len(certifier(np.array(people.x[inside]))) == inside.sum()
    with pytest.raises(DataError, match="'age' is"):
        certifier(np.array(people.x))
    with TestClient(create_app(here, Settings(database=f"sqlite:///{tmp_path / 'audit.db'}"))) as client:
        body = {"individuals": rows(N, seed=5)}
        assert client.post("/v1/predictions", json=body).status_code == 422
        assert client.get("/v1/monitor").json()["arrived"] == (~inside).sum()


def test_no_budget_no_tight_tier() -> None:
    here = replace(served(), epsilon=0.0)
    certifier, people = Certifier(here), population(rows(N, seed=5))
    assert set(certifier(np.array(people.x), seconds=0.0).tier) == {"interval"}
    assert set(certifier(np.array(people.x), seconds=-1.0).tier) == {"interval"}


def test_the_pace_is_known_after_the_first_individual(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tight tier takes is measured before anybody asks, so that it has its turn within the usual budget."""
    monkeypatch.setattr(Certifier, "_timed", lambda self, x: 0.003 + 0.002 * len(x))
    certifier = Certifier(replace(served(), epsilon=0.0))
    certifier.warm_up()
    assert certifier._pace.fits(Settings().budget_ms / 1000) == 23


def test_how_many_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three milliseconds for any piece and two for each individual: the budget says how many go on."""
    now = [0.0]
    monkeypatch.setattr(certifier_module.time, "monotonic", lambda: now[0])
    pace = _Pace()
    pace.learn(0.005, 0.003 + 0.002 * PIECE)
    assert [pace.fits(seconds) for seconds in (-1.0, 0.0, 0.0049, 0.0051, 0.0231, 9.0)] == [0, 0, 0, 1, 10, PIECE]
    for _ in range(20):
        pace.note(1, 0.05)  # ten times as slow
    assert pace.fits(0.045) == 0 and pace.fits(0.055) == 1
    now[0] = 1.5 * _Pace.PATIENCE
    assert [pace.fits(0.045) for _ in range(3)] == [1, 0, 0]  # a trial
    pace.note(1, 0.005)
    assert pace.fits(0.045) > 0


@pytest.mark.some(1)
@pytest.mark.parametrize("redact", [False, True])
def test_a_certificate_from_its_files_is_the_same(tmp_path: Path, redact: bool) -> None:
    people = population(rows(12))
    certificate = isonomy.certify(
        network(), people, isonomy.Counterparts.of(SCHEMA), delta=1.0, gamma=0.3, epsilon=0.25, rounds=1,
        attack=isonomy.AttackBudget(steps=2, restarts=0), progress=None,
    )  # fmt: skip
    path = write(tmp_path / "audit", certificate, redact=redact)
    here, there = Served.of_certificate(certificate, people), Served.from_directory(tmp_path / "audit")
    assert there.identity == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (there.people is None) == redact
    assert there.problem.hash == here.problem.hash
    for name in ("epsilon", "confidence", "arithmetic", "numbers"):
        assert getattr(there, name) == getattr(here, name)
    assert (
        here.upper <= there.upper <= here.upper * (1 + 2e-4) + 2e-6 and here.lower - 2e-6 <= there.lower <= here.lower
    )
    assert list(there.curve([0.0, 0.1, 0.7])) == list(here.curve([0.0, 0.1, 0.7]))
    x = np.array(population(rows(N, seed=5)).x)
    one, other = Certifier(here)(x, seconds=600.0), Certifier(there)(x, seconds=600.0)
    assert np.array_equal(one.upper, other.upper) and one.predictions == other.predictions
    assert np.array_equal(one.outputs, other.outputs) and one.decision == other.decision


def test_a_number_instead_of_a_class() -> None:
    """A regression has no decision, and no limit to its violations."""
    rng = np.random.default_rng(0)
    line = isonomy.Network.from_layers([rng.normal(size=(1, SCHEMA.width))], [[0.5]], head="regression")
    here = replace(served_with(model=line, outcome=NO_OUTCOME), epsilon=0.5)
    people = population(rows(20, seed=5))
    found = Certifier(here)(np.array(people.x), seconds=60.0)
    expected = isonomy.certify_local(here.problem, people, tier="interval", progress=None)
    assert found.predictions == line(people.x)[:, 0].tolist()
    assert set(found.decision) == {"none"}
    assert (found.upper <= expected.upper).all() and Certifier(here).head.largest == np.inf


def test_somebody_is_made_for_every_schema() -> None:
    for name in ("german", "adult"):
        schema = isonomy.load_population(name).schema
        assert schema.domain("realizable").contains(placeholder(schema).x).all()


def test_threads_do_not_disturb_each_other() -> None:
    here = replace(served(), epsilon=0.1)
    certifier, people = Certifier(here), population(rows(N, seed=5))
    tables = [np.array(people.x[start : start + 1 + start % 40]) for start in range(0, N, 10)]

    def ask(x: np.ndarray[Any, Any]) -> tuple[list[float], list[float]]:
        found = certifier(x, seconds=600.0, counterparts=len(x) < 4)
        return found.upper.tolist(), found.lower.tolist()

    alone = [ask(x) for x in tables]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, tables)) == alone


@pytest.mark.parametrize("kind", ["realizable", "relaxed", "unbounded"])
def test_bounds_and_searches_in_any_order_and_thread(kind: DomainKind) -> None:
    """Bounds run without gradients, the search needs them: what one keeps must not be in the way of the other."""
    here = domains()[kind]
    certifier, x = Certifier(here), population(rows(4, seed=5)).x
    alone = certifier(np.array(x))
    searched = certifier(np.array(x), counterparts=True)
    assert np.array_equal(searched.upper, alone.upper) and (searched.lower <= searched.upper).all()
    with ThreadPoolExecutor(1) as pool:
        assert np.array_equal(pool.submit(certifier, np.array(x), counterparts=True).result().lower, searched.lower)
        assert (pool.submit(certifier.tighten, np.array(x)).result() <= 1).all()
    assert np.array_equal(certifier(np.array(x), counterparts=True).lower, searched.lower)
