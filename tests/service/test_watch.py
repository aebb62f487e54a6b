"""The stream is watched: states over time, kept across restarts, and somebody is told."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.datasets.data_folder import needs_data
from tests.monitor.acs import californians

from isonomy.errors import SoundnessError
from isonomy.monitor import Evaluation, Monitor
from isonomy.population import Population
from isonomy.service import Served, Settings, create_app
from isonomy.service.log import AuditLog
from isonomy.service.watch import Webhook

from .example import rows, served
from .test_log import entry

Serve = Callable[..., TestClient]
SECRET = "not to be told"


@contextmanager
def listener(failures: int = 0) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Somebody who is told; the first few times the line is bad."""
    told: list[dict[str, Any]] = []
    left = [failures]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if left[0]:
                left[0] -= 1
                self.send_response(500)
            else:
                expected = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
                assert self.headers["X-Isonomy-Signature"] == expected
                told.append(json.loads(body))
                self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", told
    finally:
        server.shutdown()
        server.server_close()


def until(done: Callable[[], Any], seconds: float = 600.0) -> Any:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = done()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("It did not happen.")


def looks(client: TestClient, number: int) -> dict[str, Any]:
    def enough() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get("/v1/monitor").json()
        return found if found.get("number", 0) >= number else None

    return dict(until(enough))


def send(client: TestClient, people: list[dict[str, Any]]) -> None:
    answer = client.post("/v1/predictions", json={"individuals": people, "tier": "interval"})
    assert answer.status_code == 200


OPTIONS: dict[str, Any] = {"window": 100, "every": 100, "least": 100, "pause": 0.0, "sample": 100}


def test_states_over_time_and_who_is_told(serve: Serve) -> None:
    with listener() as (address, told):
        client = serve(webhook=address, webhook_secret=SECRET, **OPTIONS)
        report = client.get("/v1/monitor").json()
        assert (report["state"], report["arrived"], report["groups"]) == ("undecided", 0, [])
        assert "after 100." in report["reason"]
        send(client, rows(100, seed=50))
        first = looks(client, 1)
        assert first["state"] in ("valid", "undecided")
        assert first["distance"]["lower"] <= first["gamma"]
        send(client, rows(100, seed=51, richer=140.0))
        second = looks(client, 2)
        assert second["state"] == "expired" and "gamma" in second["reason"]
        assert second["distance"]["certified_at_lower"] >= served().upper
        groups = {(group["feature"], group["group"]) for group in second["groups"]}
        assert ("sex", "female") in groups and sum(feature == "age" for feature, _ in groups) == 4
        history = client.get("/v1/monitor/history").json()["evaluations"]
        assert [row["number"] for row in history] == [1, 2]
        until(lambda: told and told[-1]["state"] == "expired")
        states = ["undecided", first["state"], "expired"]
        assert [(row["before"], row["state"]) for row in told] == [
            (before, now) for before, now in pairwise(states) if before != now
        ]
        assert 'isonomy_monitor_state{state="expired"} 1.0' in client.get("/metrics").text


def test_looks_and_the_latest_state_survive_a_restart(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'audit.db'}", **OPTIONS)
    with TestClient(create_app(served(), settings)) as client:
        send(client, rows(100, seed=51, richer=140.0))
        assert looks(client, 1)["state"] == "expired"
    with TestClient(create_app(served(), settings)) as client:
        assert client.get("/v1/monitor").json()["state"] == "expired"
        send(client, rows(100, seed=52))
        found = looks(client, 2)
        assert found["risk"] == pytest.approx(0.05 / (2 * 3))
    with TestClient(create_app(replace(served(), identity="cd" * 32), settings)) as client:  # another certificate
        assert "number" not in client.get("/v1/monitor").json()


def test_without_the_audited_people_only_the_mean_tells(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'audit.db'}", **OPTIONS)
    here = replace(served(), people=None, epsilon=0.9)
    with TestClient(create_app(here, settings)) as client:
        send(client, rows(100, seed=51, richer=140.0))
        found = looks(client, 1)
        assert (found["state"], found["distance"]) == ("valid", None)


def test_people_whom_the_schema_refuses_are_seen_by_the_monitor(serve: Serve) -> None:
    """Out of range, an unknown category, a value that is missing: people of today. Bad JSON and bad columns: nobody."""
    known = served()
    assert known.largest < 1.0 == known.reference(1.0).largest  # of anybody in the domain, and of those outside
    client = serve(**OPTIONS)
    people = rows(100, seed=50)

    def refused(*individuals: Any) -> None:
        assert client.post("/v1/predictions", json={"individuals": list(individuals)}).status_code == 422

    refused({**people[0], "age": 130}, people[1], {**people[2], "sex": "x"})  # two of three
    for row in people[3:41]:
        refused({**row, "rate": None, "age": 3})  # one, however much is wrong
    refused(*people[:3], {"age": 1}, {**people[0], "more": 1}, 5)
    assert client.post("/v1/predictions", content=b"{", headers={"content-type": "application/json"}).status_code == 422
    assert client.get("/v1/monitor").json()["arrived"] == 40
    send(client, people[40:])
    found = looks(client, 1)
    assert (found["people"], found["refused"]["people"], found["state"]) == (100, 40, "expired")
    assert "refuses" in found["reason"] and found["mean"]["upper"] > 0.4
    assert "isonomy_refused_total 40.0" in client.get("/metrics").text
    assert client.get("/v1/monitor/history").json()["evaluations"][-1]["refused"] == found["refused"]


def test_a_bad_line_is_tried_again() -> None:
    with listener(failures=2) as (address, told):
        webhook = Webhook(address, SECRET, waits=(0.01, 0.01, 0.01))
        webhook.send({"event": "x"})
        until(lambda: told)
        webhook.close()
        assert told == [{"event": "x"}]


def test_nobody_listening_holds_nothing_up() -> None:
    webhook = Webhook("http://127.0.0.1:9/", None, waits=(0.01,))
    webhook.send({"event": "x"})
    webhook.close()


def test_the_old_is_forgotten_at_the_start(serve: Serve, tmp_path: Path) -> None:
    log = AuditLog(f"sqlite:///{tmp_path / 'audit.db'}")
    log.append(entry(2, time.time_ns() // 1000 - 10 * 86_400_000_000)).result()
    log.close()
    send(serve(), rows(2))
    serve(retention_days=5)

    def gone() -> bool:
        with sqlite3.connect(tmp_path / "audit.db") as connection:
            return bool(connection.execute("SELECT count(*) FROM requests").fetchone() == (1,))

    until(gone)


def raw(people: Population, some: slice) -> list[dict[str, Any]]:
    frame = people.frame[[feature.name for feature in people.schema.features]].iloc[some]
    return [dict(zip(frame.columns, row, strict=True)) for row in zip(*(frame[c].tolist() for c in frame), strict=True)]


@needs_data
@pytest.mark.slow
def test_californians_over_http(tmp_path: Path) -> None:
    """Valid on the original population, expired after the stream has switched to one that is built to be far."""
    here: Served
    here, others, far = californians()
    settings = Settings(
        database=f"sqlite:///{tmp_path / 'audit.db'}", window=400, every=400, least=400, pause=0.0, sample=300
    )
    with TestClient(create_app(here, settings)) as client:
        for look in range(3):
            send(client, raw(others, slice(400 * look, 400 * look + 400)))
            assert looks(client, look + 1)["state"] == "valid"
        send(client, raw(far, slice(0, 400)))
        assert looks(client, 4)["state"] == "expired"
        states = [row["state"] for row in client.get("/v1/monitor/history").json()["evaluations"]]
        assert states == ["valid"] * 3 + ["expired"]


def test_two_services_with_one_log_count_each_others_looks(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path / 'audit.db'}", **OPTIONS)
    with TestClient(create_app(served(), settings)) as one, TestClient(create_app(served(), settings)) as other:
        send(one, rows(100, seed=50))
        assert looks(one, 1)["number"] == 1
        send(other, rows(100, seed=51))  # its first look has a number that is taken, and is not shown
        seeds = count(52)

        def shown() -> Any:
            send(other, rows(100, seed=next(seeds)))
            return other.get("/v1/monitor").json().get("number")

        until(shown)
        assert looks(other, 2)["number"] >= 2
        numbers = [row["number"] for row in one.get("/v1/monitor/history").json()["evaluations"]]
        assert numbers == sorted(set(numbers))


def test_a_contradiction_withdraws_what_was_shown(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(**OPTIONS)
    send(client, rows(100, seed=51, richer=140.0))
    assert looks(client, 1)["state"] == "expired"

    def contradicted(self: Monitor) -> Evaluation:
        raise SoundnessError("Row 3: one of two numbers is wrong")

    monkeypatch.setattr(Monitor, "look", contradicted)
    send(client, rows(100, seed=52))

    def withdrawn() -> dict[str, Any] | None:
        said: dict[str, Any] = client.get("/v1/monitor").json()
        return said if said["state"] != "expired" else None

    found = dict(until(withdrawn))
    assert found["state"] == "undecided" and "Row 3: one of two numbers is wrong" in found["reason"]
