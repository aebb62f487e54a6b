"""Whoever holds a place without asking, calls by another name, or asks for much: others are answered all the same."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from isonomy.service import Settings
from isonomy.service.answering import Answering
from isonomy.service.app import CHEAP
from isonomy.service.certifier import Certifier
from isonomy.service.connections import HEAD as HEADS
from isonomy.service.requests import SHOWN, Asked, BadRequestError, Reader

from .example import SCHEMA, Process, process, rows, served

Serve = Callable[..., TestClient]
GOOD = rows(1)[0]
BODY = b'{"individual": null}'
HEAD = b"POST /v1/predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def ends_within(connection: socket.socket, seconds: float, trickle: bytes = b"") -> float:
    """When the other side closes a connection on which at most a byte arrives now and then."""
    began = time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() - began < seconds:
        try:
            if trickle:
                connection.sendall(trickle)
            if connection.recv(4096) == b"":
                return time.monotonic() - began
        except TimeoutError:
            continue
        except OSError:
            return time.monotonic() - began
    raise AssertionError("The connection stays open.")


def test_connections_that_never_finish_their_headers(tmp_path: Path) -> None:
    """None of them stays: silent, slow, begun and left, or slow after an answer; and others are answered meanwhile."""
    with process(tmp_path / "audit.db", headers_timeout=2.0, timeout=4.0) as running:

        def connected() -> socket.socket:
            return socket.create_connection(("127.0.0.1", running.port))

        held = [connected() for _ in range(40)]
        for one in held[20:]:
            one.sendall(HEAD)  # no empty line: the headers go on
        assert len(running.post({"individual": GOOD})["predictions"]) == 1
        assert all(ends_within(one, 60) < 60 for one in held)
        assert ends_within(connected(), 60) > 1.0
        with connected() as slow:
            slow.sendall(HEAD)
            assert ends_within(slow, 60, trickle=b"X") < 60
        with connected() as again:
            again.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            again.settimeout(60)
            assert b"200 OK" in again.recv(4096)
            again.sendall(HEAD)
            assert ends_within(again, 60, trickle=b"X") < 60
        with connected() as body:  # headers are there, the body never is: told so, with a status
            body.sendall(HEAD + b"Content-Length: 20\r\n\r\n" + BODY[:3])
            body.settimeout(60)
            assert b" 408 " in body.recv(4096)
        assert len(running.post({"individual": GOOD})["predictions"]) == 1


def test_whoever_does_not_take_the_answers_is_closed(tmp_path: Path) -> None:
    """Many large answers asked for at once on one connection and never read: it goes, and its place is free."""
    body = json.dumps({"individuals": rows(1000), "tier": "interval"}).encode()
    with process(tmp_path / "audit.db", headers_timeout=1.0) as running:
        with socket.socket() as greedy:
            greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            greedy.connect(("127.0.0.1", running.port))
            greedy.settimeout(120)
            request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
            with pytest.raises(OSError, match=r"reset|Broken pipe"):
                while True:
                    greedy.sendall(request)
        assert len(running.post({"individual": GOOD})["predictions"]) == 1


def test_silent_connections_give_way_to_new_ones(tmp_path: Path) -> None:
    """There are 16 places: of a hundred connections that say nothing the oldest are closed, and nobody is kept out."""
    with process(tmp_path / "audit.db", max_waiting=1, headers_timeout=600.0) as running:
        held = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(100)]
        assert len(running.post({"individual": GOOD})["predictions"]) == 1
        assert all(ends_within(one, 60) < 60 for one in held[:80])
        for one in held:
            one.close()


def sent(port: int, request: bytes) -> bytes:
    """All that comes back until the other side closes."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(120)
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One service for those who leave it as it was."""
    with process(tmp_path_factory.mktemp("running") / "audit.db", headers_timeout=5.0) as found:
        yield found


def test_other_ways_to_speak_http(running: Process) -> None:
    body = json.dumps({"individual": GOOD}).encode()
    whole = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    chunked = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n"

    def statuses(request: bytes) -> list[bytes]:
        return re.findall(rb"HTTP/1\.1 (\d+)", sent(running.port, request))

    assert statuses(whole.replace(b"HTTP/1.1", b"HTTP/1.0")) == [b"200"]
    assert statuses(whole.replace(b"Connection: close\r\n", b"") * 4 + whole) == [b"200"] * 5  # one after another
    assert statuses(chunked + b"\r\n" + chunks) == [b"200"]
    assert statuses(chunked + b"Content-Length: 5\r\n\r\n" + chunks) == [b"400"]  # two readers, two requests
    for wrong in (b"Content-Length: 5\r\nContent-Length: 6", b"Content-Length: -5", b"Host: evil", b"X: \x00"):
        assert statuses(HEAD + wrong + b"\r\n\r\n{}") == [b"400"]
    assert statuses(chunked + b"\r\nZZ\r\n") == [b"400"]
    assert statuses(b"GET /health/live HTTP/1.1\r\n\r\n") == [b"400"]  # no host
    assert statuses(b"GET /health/live HTTP/1.0\r\n\r\n") == [b"421"]
    assert statuses(whole.replace(b"\r\nHost: localhost", b"\r\nHost: evil.example")) == [b"421"]
    upgrade = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket"
    assert statuses(upgrade + b"\r\n\r\n") == [b"200"]
    head = sent(running.port, b"HEAD /v1/certificate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n")


def test_headers_above_their_limit_get_431(running: Process) -> None:
    """In one piece, in many, in one header or in the address, complete or not; what is just below is answered."""
    start, end = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", b"\r\n\r\n"

    def padded(size: int) -> bytes:
        return start + b"X: " + b"a" * (size - len(start) - 3 - len(end)) + end

    many = b"".join(b"X%d: 1\r\n" % place for place in range(9000))
    assert sent(running.port, padded(HEADS)).startswith(b"HTTP/1.1 200")
    large = (
        padded(HEADS + 1), padded(100_000), padded(1_000_000), start + many + b"\r\n",
        start + b"X:" + b" " * 70_000 + end, b"GET /" + b"a" * 70_000 + start[16:] + b"\r\n", padded(90_000)[:-4],
    )  # fmt: skip
    for request in large:
        answer = sent(running.port, request)
        assert answer.startswith(b"HTTP/1.1 431 ") and b"at most 65536 bytes" in answer
    with socket.create_connection(("127.0.0.1", running.port)) as slow:  # piece by piece, after a good request
        slow.settimeout(60)
        slow.sendall(start.replace(b"Connection: close\r\n", b"") + b"\r\n")
        assert slow.recv(4096).startswith(b"HTTP/1.1 200")
        for at in range(0, 90_000, 9_000):
            slow.sendall(padded(90_000)[at : at + 9_000])
        assert slow.recv(4096).startswith(b"HTTP/1.1 431 ")
        assert ends_within(slow, 60) < 60
    assert len(running.post({"individual": GOOD})["predictions"]) == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig"])
def test_bodies_in_other_encodings_are_refused(serve: Serve, encoding: str) -> None:
    """They could hide from whoever looks at bytes what a request asks for."""
    body = json.dumps({"individual": GOOD, "counterpart": True}).encode(encoding)
    answer = serve().post("/v1/predictions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and answer.json()["detail"][0]["type"] == "json_invalid"


@pytest.mark.parametrize("text", ['{"individual": {%s}}', "{%s}"])
@pytest.mark.parametrize("names", [100, 100_000])
def test_a_hundred_thousand_names_that_nobody_knows(text: str, names: int) -> None:
    """Only as many complaints are written as are shown, and none at length."""
    unknown = ",".join(f'"{place}{"x" * 100}": 1' for place in range(names))
    with pytest.raises(BadRequestError) as caught:
        Reader(SCHEMA, Settings(max_batch=10))((text % unknown).encode())
    assert len(caught.value.details) <= SHOWN and not caught.value.people
    assert all(len(str(each)) < 400 for each in caught.value.details)


def test_nothing_large_is_imported_while_serving(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """The monitor's distance needs a package whose import takes seconds: it is there before the first request."""
    monkeypatch.delitem(sys.modules, "ot", raising=False)
    serve()
    assert "ot" in sys.modules


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8000", 200), ("127.0.0.1:9", 200), ("[::1]:8000", 200), ("bank.example", 200),
        ("evil.example", 421), ("evil.example:8000", 421), ("localhost.evil.example", 421), ("", 421),
        ("localhost@evil.example", 421), ("[::2]", 421),
    ],
)  # fmt: skip
def test_only_names_that_are_allowed(serve: Serve, host: str, status: int) -> None:
    client = serve(allow_host=("Bank.Example",))
    answer = client.get("/health/live", headers={"Host": host})
    assert answer.status_code == status
    assert status == 200 or "--allow-host" in answer.json()["detail"]
    assert client.post("/v1/predictions", json={"individual": GOOD}, headers={"Host": host}).status_code == status


def test_every_refusal_is_the_same(serve: Serve) -> None:
    client = serve()
    first, second = (client.get("/health/live", headers={"Host": "evil.example"}) for _ in range(2))
    assert first.headers == second.headers and first.headers["x-frame-options"] == "DENY"


def test_any_name_if_that_is_asked_for(serve: Serve) -> None:
    assert serve(allow_host=("*",)).get("/health/live", headers={"Host": "anything"}).status_code == 200


def test_a_cheap_request_does_not_wait_for_dear_ones(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight dear requests hold all threads for dear ones until the cheap one is answered."""
    client, gate, real = serve(threads=1, max_waiting=16), threading.Event(), Answering.__call__
    entered = threading.Event()

    def held(answering: Answering, asked: Asked, *more: Any) -> Any:
        if asked.counterpart:
            entered.set()
            assert gate.wait(60)
        return real(answering, asked, *more)

    monkeypatch.setattr(Answering, "__call__", held)
    codes: list[int] = []

    def dear() -> None:
        body = {"individuals": [GOOD] * 40, "counterpart": True}
        codes.append(client.post("/v1/predictions", json=body).status_code)

    threads = [threading.Thread(target=dear) for _ in range(9)]
    for thread in threads:
        thread.start()
    assert entered.wait(120)
    while not codes:  # dear requests have half of the places: one of nine is turned away
        time.sleep(0.01)
    assert client.post("/v1/predictions", json={"individual": GOOD}).status_code == 200
    assert codes == [503]
    gate.set()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [200] * 8 + [503]


def test_what_is_dear() -> None:
    """Work is counted: people, their regions, the tight tier within its time, and searches."""
    certifier = Certifier(served())
    certifier.warm_up()
    alone = certifier.work(1, 0.0, False)
    assert certifier.work(1000, 0.0, False) == pytest.approx(1000 * alone)
    assert alone < certifier.work(1, 1e-5, False) < certifier.work(1, 10.0, False) == certifier.work(1, 20.0, False)
    assert certifier.work(10, 0.05, False) < CHEAP < certifier.work(40, 0.0, True)
    assert certifier.work(1000, 0.0, False) > CHEAP


@pytest.mark.parametrize(
    ("single", "double"),
    [
        ('"age":', '"age": 30, "age":'), ('"age":', '"\\u0061ge": 30, "age":'), ('"age":', '"age": 18, "\\u0061ge":'),
        ('"individual":', '"individual": {}, "individual":'), ('"tier":', '"tier": "tight", "tier":'),
    ],
)  # fmt: skip
def test_names_that_stand_twice_are_refused(serve: Serve, single: str, double: str) -> None:
    client, kind = serve(), {"Content-Type": "application/json"}
    body = json.dumps({"individual": GOOD, "tier": "interval"})
    assert client.post("/v1/predictions", content=body, headers=kind).status_code == 200
    answer = client.post("/v1/predictions", content=body.replace(single, double), headers=kind)
    assert answer.status_code == 422 and "stands twice in one object" in answer.json()["detail"][0]["msg"]


def test_a_colon_in_a_text_is_no_name(serve: Serve) -> None:
    answer = serve().post("/v1/predictions", json={"individual": GOOD, "tier": "a:b"})
    assert answer.status_code == 422 and answer.json()["detail"][0]["loc"] == ["body", "tier"]
