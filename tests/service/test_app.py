"""The service over HTTP: answers, refusals, limits, keys, health."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

import isonomy
from isonomy.service import Key, new_key
from isonomy.service.answering import Answering
from isonomy.service.log import AuditLog, Entry

from .example import SCHEMA, population, rows, served
from .test_watch import until

Serve = Callable[..., TestClient]
GOOD: dict[str, Any] = rows(1, seed=3)[0]


def entries(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT * FROM predictions ORDER BY request, place").fetchall()


def test_a_batch_gets_what_the_library_proves(client: TestClient) -> None:
    people = rows(60, seed=9)
    answer = client.post("/v1/predictions", json={"individuals": people, "tier": "interval"})
    assert answer.status_code == 200
    document = answer.json()
    here = served()
    expected = isonomy.certify_local(here.problem, population(people), tier="interval", attack=False, progress=None)
    found = document["predictions"]
    assert [row["upper"] for row in found] == expected.upper.tolist()
    assert [row["outputs"] for row in found] == expected.prediction.tolist()
    assert [row["decision"] for row in found] == expected.decision.tolist()
    assert [row["verdict"] for row in found] == expected.verdict(here.epsilon).tolist()
    classes = [("no", "yes")[place] for place in expected.prediction.argmax(1)]
    assert [row["prediction"] for row in found] == classes
    assert (document["certificate"], document["epsilon"], document["delta"]) == ("ab" * 32, 0.2, 1.0)


def test_one_individual_with_the_worst_counterpart(client: TestClient) -> None:
    answer = client.post("/v1/predictions", json={"individual": GOOD, "counterpart": True, "budget_ms": 5000})
    row = answer.json()["predictions"][0]
    here = served()
    expected = isonomy.certify_local(here.problem, population([GOOD]), progress=None)
    assert row["lower"] == expected.lower[0] <= row["upper"]
    other = row["counterpart"]
    assert set(other) == set(GOOD)
    # The counterpart can be sent again, and what it gets differs by just what was said.
    again = client.post("/v1/predictions", json={"individual": other}).json()["predictions"][0]
    change = np.abs(np.array(again["outputs"]) - np.array(row["outputs"])).max()
    assert change == pytest.approx(row["lower"], abs=1e-9)


def test_the_log_has_what_was_answered_and_no_features(client: TestClient, tmp_path: Path) -> None:
    first = client.post("/v1/predictions", json={"individuals": rows(3, seed=1)}).json()
    second = client.post("/v1/predictions", json={"individual": GOOD}).json()
    found = entries(tmp_path / "audit.db")
    assert [row[:2] for row in found] == [(first["request"], place) for place in range(3)] + [(second["request"], 0)]
    for row, told in zip(found, [*first["predictions"], *second["predictions"]], strict=True):
        keys = ("prediction", "upper", "lower", "verdict", "decision", "tier")
        assert (row[2], *row[4:9]) == tuple(told[key] for key in keys)
        assert json.loads(row[3]) == told["outputs"]
        assert row[9] is None
    text = (tmp_path / "audit.db").read_bytes() + (tmp_path / "audit.db-wal").read_bytes()
    assert b"female" not in text and str(GOOD["rate"]).encode() not in text


def test_features_are_stored_when_asked(serve: Serve, tmp_path: Path) -> None:
    serve(store_features=True).post("/v1/predictions", json={"individual": GOOD})
    assert json.loads(entries(tmp_path / "audit.db")[0][9]) == GOOD


@pytest.mark.parametrize(
    ("cell", "column"),
    [("NaN", "rate"), ("Infinity", "rate"), ("1e999", "rate"), ('"3"', "rate"), ("true", "age"), ("9" * 4000, "age")],
)
def test_numbers_that_are_none_get_422_with_the_column(client: TestClient, cell: str, column: str) -> None:
    text = json.dumps({**GOOD, column: "HERE"}).replace('"HERE"', cell)
    body = f'{{"individuals": [{json.dumps(GOOD)}, {text}]}}'
    answer = client.post("/v1/predictions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == ["body", "individuals", 1, column]
    assert column in answer.json()["detail"][0]["msg"]


def test_refusals(client: TestClient) -> None:
    unknown = client.post("/v1/predictions", json={"individual": {**GOOD, "shoe": 1}})
    assert unknown.status_code == 422 and "'shoe'" in unknown.json()["detail"][0]["msg"]
    plain = {"Content-Type": "application/json; charset=utf-8"}
    assert client.post("/v1/predictions", content=b"{", headers=plain).status_code == 422
    lone = json.dumps({"individual": {**GOOD, "sex": "\ud800"}})
    assert client.post("/v1/predictions", content=lone, headers=plain).status_code == 422
    assert client.post("/v1/predictions", content=json.dumps({"individual": GOOD})).status_code == 415
    odd = client.post("/v1/predictions", content=b"a=1", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert odd.status_code == 415
    wrong = client.put("/v1/predictions")
    assert wrong.status_code == 405 and wrong.headers["allow"] == "GET, HEAD, POST"
    assert client.get("/v1/monitor/").status_code == 404
    assert client.get("/nowhere").status_code == 404
    assert client.get("/v1/predictions?limit=0").status_code == 422
    assert client.post("/v1/predictions", json={"individuals": [GOOD] * 101, "counterpart": True}).status_code == 422


def test_limits(serve: Serve) -> None:
    client = serve(max_body=2000, max_batch=3)
    assert client.post("/v1/predictions", json={"individuals": [GOOD] * 3}).status_code == 200
    assert client.post("/v1/predictions", json={"individuals": [GOOD] * 4}).status_code == 422
    assert client.post("/v1/predictions", json={"individuals": [GOOD] * 30}).status_code == 413

    def parts() -> Iterator[bytes]:  # without a length known beforehand
        for _ in range(100):
            yield b" " * 1000

    kind = {"Content-Type": "application/json"}
    assert client.post("/v1/predictions", content=parts(), headers=kind).status_code == 413
    huge = {**kind, "Content-Length": "9" * 30}
    assert client.post("/v1/predictions", content=b"{}", headers=huge).status_code == 413


def timeouts(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Time is over for the latest request when what is given back is called, and never by the clock."""
    real, limits = asyncio.timeout, []

    def timeout(_: float | None) -> asyncio.Timeout:
        limits.append((asyncio.get_running_loop(), real(None)))
        return limits[-1][1]

    def over() -> None:
        loop, limit = limits[-1]
        loop.call_soon_threadsafe(limit.reschedule, loop.time())

    monkeypatch.setattr(asyncio, "timeout", timeout)
    return over


def test_requests_that_wait_too_long_are_told_so(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client, over, told = serve(), timeouts(monkeypatch), threading.Event()
    kept: list[Entry] = []
    real = AuditLog.append

    def late(log: AuditLog, entry: Entry) -> Any:
        kept.append(entry)
        over()
        told.wait()
        return real(log, entry)

    monkeypatch.setattr(AuditLog, "append", late)
    answer = client.post("/v1/predictions", json={"individual": GOOD})
    told.set()
    assert answer.status_code == 503 and "Retry-After" in answer.headers
    assert len(kept) == 1


def test_nobody_waiting_any_more_does_not_end_the_log(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer comes too late while its entry is being written."""
    client, over, told = serve(), timeouts(monkeypatch), threading.Event()
    real = AuditLog._write

    def late(log: AuditLog, batch: Any) -> None:
        over()
        told.wait()
        real(log, batch)

    monkeypatch.setattr(AuditLog, "_write", late)
    assert client.post("/v1/predictions", json={"individual": GOOD}).status_code == 503
    monkeypatch.setattr(AuditLog, "_write", real)
    told.set()
    until(lambda: sum(client.get("/v1/predictions").json()["verdicts"].values()) == 1)
    assert client.post("/v1/predictions", json={"individual": GOOD}).status_code == 200
    assert sum(client.get("/v1/predictions").json()["verdicts"].values()) == 2


def test_too_many_at_once_are_turned_away(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(max_waiting=1, threads=1)
    gate, entered, real = threading.Event(), threading.Event(), AuditLog.append

    def held(log: AuditLog, entry: Entry) -> Any:
        entered.set()
        gate.wait()
        return real(log, entry)

    monkeypatch.setattr(AuditLog, "append", held)
    codes: list[int] = []
    first = threading.Thread(
        target=lambda: codes.append(client.post("/v1/predictions", json={"individual": GOOD}).status_code)
    )
    first.start()
    entered.wait()
    assert client.post("/v1/predictions", json={"individual": GOOD}).status_code == 503
    gate.set()
    first.join()
    assert codes == [200]


def test_whoever_gave_up_waiting_is_counted_until_the_queue_is_rid_of_him(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, over = serve(max_waiting=3, threads=1), timeouts(monkeypatch)
    gate, real, answered = threading.Event(), Answering.__call__, []

    def held(*request: Any) -> Any:
        answered.append(request)
        gate.wait()
        return real(*request)

    monkeypatch.setattr(Answering, "__call__", held)
    for waiting in (1, 2, 3):
        with ThreadPoolExecutor(1) as elsewhere:
            asked = elsewhere.submit(client.post, "/v1/predictions", json={"individual": GOOD})
            until(lambda: f"isonomy_requests_waiting {waiting}.0" in client.get("/metrics").text)  # noqa: B023
            over()
            late = asked.result()
        assert (late.status_code, late.json()["detail"]) == (503, "The answer took too long.")
    full = client.post("/v1/predictions", json={"individual": GOOD})
    assert (full.status_code, full.json()["detail"]) == (503, "Too many requests wait; try again later.")
    gate.set()
    until(lambda: "isonomy_requests_waiting 0.0" in client.get("/metrics").text)
    assert len(answered) == 1  # the others were dropped when their turn came: nobody was there to hear
    assert client.post("/v1/predictions", json={"individual": GOOD}).status_code == 200


def test_nothing_is_acknowledged_that_cannot_be_logged(serve: Serve, tmp_path: Path) -> None:
    client = serve()
    with sqlite3.connect(tmp_path / "audit.db") as connection:
        connection.execute("DROP TABLE predictions")
    answer = client.post("/v1/predictions", json={"individual": GOOD})
    assert answer.status_code == 503
    assert client.get("/health/ready").status_code == 503
    assert client.get("/health/live").status_code == 200


def test_keys(serve: Serve, tmp_path: Path) -> None:
    secret, key = new_key("bank-1")
    other, _ = new_key("nobody")
    client = serve(keys=(Key("first", "0" * 64), key, Key("last", "f" * 64)))
    paths = ("/v1/monitor", "/v1/monitor/history", "/v1/certificate", "/v1/predictions", "/metrics")
    for wrong in ({}, {"Authorization": f"Bearer {other}"}, {"Authorization": secret}, {"Authorization": "Bearer é"}):
        raw = {name: value.encode("latin-1") for name, value in wrong.items()}
        assert client.post("/v1/predictions", json={"individual": GOOD}, headers=raw).status_code == 401
        assert all(client.get(path, headers=raw).status_code == 401 for path in paths)
    right = {"Authorization": f"Bearer {secret}"}
    assert client.post("/v1/predictions", json={"individual": GOOD}, headers=right).status_code == 200
    assert all(client.get(path, headers=right).status_code == 200 for path in paths)
    with sqlite3.connect(tmp_path / "audit.db") as connection:
        assert connection.execute("SELECT caller FROM requests").fetchall() == [("bank-1",)]
    assert secret.encode() not in (tmp_path / "audit.db").read_bytes()
    assert client.get("/").status_code == client.get("/health/ready").status_code == 200


def test_health_metrics_and_headers(client: TestClient) -> None:
    assert client.get("/health/live").json() == {"status": "alive"}
    assert client.get("/health/ready").json() == {"status": "ready"}
    client.post("/v1/predictions", json={"individuals": rows(5)})
    client.get("/what/ever")
    text = client.get("/metrics").text
    assert 'isonomy_requests_total{path="/v1/predictions",status="200"} 1.0' in text
    assert 'path="other",status="404"' in text and "/what/ever" not in text
    counted = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("isonomy_predictions_total{")]
    assert sum(counted) == 5
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"


def test_what_nobody_thought_of_is_answered_counted_and_logged(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Answering, "__call__", broken)
    monkeypatch.setattr(AuditLog, "recent", broken)
    for answer in (client.post("/v1/predictions", json={"individual": GOOD}), client.get("/v1/predictions")):
        assert answer.status_code == 500 and "written to the log" in answer.json()["detail"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert caplog.text.count("ZeroDivisionError: secret") == 2
    assert 'isonomy_requests_total{path="/v1/predictions",status="500"} 2.0' in client.get("/metrics").text


def test_recent_predictions_and_the_certificate(client: TestClient) -> None:
    told = client.post("/v1/predictions", json={"individuals": rows(7, seed=2)}).json()
    found = client.get("/v1/predictions?limit=4").json()
    assert [row["request"] for row in found["recent"]] == [told["request"]] * 4
    assert [row["place"] for row in found["recent"]] == [0, 1, 2, 3]
    assert sum(found["verdicts"].values()) == 7
    assert "features" not in found["recent"][0]
    certificate = client.get("/v1/certificate").json()
    assert certificate["statement"] == served().statement
    assert certificate["curve"]["upper"] == sorted(certificate["curve"]["upper"])


def test_a_number_of_the_description_is_valid(client: TestClient) -> None:
    """The example in the description of the service is answered."""
    document = client.get("/openapi.json").json()
    body = document["paths"]["/v1/predictions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    example = body["anyOf"][1]["properties"]["individual"]["example"]
    assert set(example) == {feature.name for feature in SCHEMA.features}
    assert client.post("/v1/predictions", json={"individual": example}).status_code == 200
