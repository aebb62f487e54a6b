"""Who may ask: roles, expiry, rates and files that change, by clocks that the test sets, and over HTTP."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from isonomy.errors import FileError
from isonomy.service import Key, new_key
from isonomy.service.access import CHECKED, DeniedError, Keyring
from isonomy.service.keys import Rate, parsed_moment

from .example import rows

Serve = Callable[..., TestClient]
GOOD = rows(1, seed=3)[0]
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC).timestamp()


@dataclass
class Clocks:
    """A clock that runs and one that is set, both by hand."""

    monotonic: float = 1000.0
    wall: float = NOON

    def ring(self, keys: tuple[Key, ...] | Path, **more: Any) -> Keyring:
        return Keyring(keys, clock=lambda: self.monotonic, wall=lambda: self.wall, **more)

    def pass_by(self, seconds: float) -> None:
        self.monotonic += seconds
        self.wall += seconds


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


def reason(ring: Keyring, secret: str, role: Any = "predict") -> str:
    """Why a request is denied; "" where it is not."""
    try:
        ring.admit(secret, role)
    except DeniedError as error:
        return error.reason
    return ""


def test_roles(clocks: Clocks) -> None:
    pairs = {role: new_key(role, roles=(role,)) for role in ("predict", "read", "admin")}
    usual, key = new_key("usual")
    ring = clocks.ring((*(key for _, key in pairs.values()), key))
    for role, (secret, _) in pairs.items():
        assert [each for each in pairs if not reason(ring, secret, each)] == [role]
    assert [each for each in pairs if not reason(ring, usual, each)] == ["predict", "read"]


def test_a_key_expires_at_its_moment_and_stays_so(clocks: Clocks) -> None:
    secret, key = new_key("a", parsed_moment("2027-01-15"))
    ring = clocks.ring((key,))
    clocks.pass_by(12 * 3600 - 0.001)
    assert reason(ring, secret) == ""
    clocks.pass_by(0.001)
    assert reason(ring, secret) == "expired"
    clocks.wall = NOON - 1e6  # the clock is set back
    assert reason(ring, secret) == "expired" and not ring.shown()["keys"][0]["valid"]


def test_a_clock_that_was_ahead_is_forgotten_with_a_new_file(clocks: Clocks, tmp_path: Path) -> None:
    secret, key = new_key("a", parsed_moment("2027-01-15"))
    path = tmp_path / "keys"
    path.write_text(key.line() + "\n", encoding="utf-8")
    ring = clocks.ring(path)
    clocks.wall += 1e7
    assert reason(ring, secret) == "expired"
    clocks.wall = NOON
    path.write_text(f"# the clock was wrong\n{key.line()}\n", encoding="utf-8")
    clocks.pass_by(CHECKED)
    assert reason(ring, secret) == ""


def test_rotation_has_two_keys_of_one_name(clocks: Clocks) -> None:
    old, first = new_key("a", parsed_moment("2027-01-15T13:00:00Z"), rate=Rate(3, "h"))
    new, second = new_key("a", rate=Rate(3, "h"))
    ring = clocks.ring((first, second))
    assert [reason(ring, secret) for secret in (old, new, old, new, old)] == ["", "", "", "rate", "rate"]  # one bucket
    clocks.pass_by(3600)
    assert (reason(ring, old), reason(ring, new)) == ("expired", "")


@given(
    st.integers(1, 20), st.sampled_from(["s", "min", "h", "d"]),
    st.lists(st.floats(0, 1e5) | st.floats(0, 0.2) | st.just(0.0), min_size=1, max_size=80),
)  # fmt: skip
@example(1, "min", [0.0, 0.1])
@example(7, "s", [0.0] * 20)
def test_a_rate_is_kept_over_every_time(requests: int, unit: str, waits: list[float]) -> None:
    """Against every window: never more than the bucket and what came back meanwhile; and Retry-After is right."""
    clocks, (secret, key) = Clocks(), new_key("a", rate=Rate(requests, unit))
    ring, each, taken = clocks.ring((key,)), Rate(requests, unit).per_second, list[float]()
    for wait in waits:
        clocks.pass_by(wait)
        try:
            ring.admit(secret, "read")
            taken.append(clocks.monotonic)
        except DeniedError as error:
            assert error.status_code == 429 and error.headers is not None
            after = int(error.headers["Retry-After"])
            assert 1 <= after <= 1 / each + 1.001
            later = Clocks(clocks.monotonic + after)
            copy = later.ring((key,))
            copy._left = dict(ring._left)
            assert reason(copy, secret) == ""
    for start, first in enumerate(taken):
        for count, last in enumerate(taken[start:], start=1):
            assert count <= requests + (last - first) * each + 1e-6


def test_a_bucket_is_full_at_first_and_fills_again(clocks: Clocks) -> None:
    secret, key = new_key("a", rate=Rate(10, "s"))
    ring = clocks.ring((key,))
    assert [reason(ring, secret) for _ in range(11)] == [*[""] * 10, "rate"]
    clocks.pass_by(0.1)
    assert [reason(ring, secret) for _ in range(2)] == ["", "rate"]
    clocks.pass_by(1e6)
    assert [reason(ring, secret) for _ in range(11)] == [*[""] * 10, "rate"]


def test_strangers_take_nothing_and_leave_nothing(clocks: Clocks) -> None:
    """Neither the rate of a key nor memory: unknown, expired and without the role."""
    secret, key = new_key("a", roles=("read",), rate=Rate(1, "d"))
    gone, old = new_key("b", parsed_moment("2027-01-01"), rate=Rate(1, "d"))
    ring = clocks.ring((key, old))
    for place in range(2000):
        assert reason(ring, f"iso_{place:043}") == "unknown"
        assert reason(ring, key.name) == reason(ring, key.digest) == "unknown"
        assert (reason(ring, gone), reason(ring, secret, "predict")) == ("expired", "role")
    assert ring._left == {}
    assert reason(ring, secret, "read") == "" and list(ring._left) == ["a"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_a_changed_file_is_used_within_a_second(clocks: Clocks, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, one), (second, two) = new_key("a"), new_key("a")
    path.write_text(one.line() + "\n", encoding="utf-8")
    ring = clocks.ring(path)
    reads: list[Path] = []
    real = Path.open

    def opened(each: Path, *given: Any, **named: Any) -> Any:
        reads.append(each)
        return real(each, *given, **named)

    monkeypatch.setattr(Path, "open", opened)
    stamp = path.stat()
    path.write_text(two.line() + "\n", encoding="utf-8")  # as long, and with the same times
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    reads.clear()
    clocks.pass_by(CHECKED / 2)
    assert [reason(ring, first) for _ in range(100)] == [""] * 100 and not reads  # not at every request
    clocks.pass_by(CHECKED / 2)
    assert (reason(ring, first), reason(ring, second)) == ("unknown", "") and len(reads) == 1


def test_what_is_left_of_a_rate_stays_when_the_file_changes(clocks: Clocks, path: Path) -> None:
    (secret, key), (_, other) = new_key("a", rate=Rate(1, "d")), new_key("b", rate=Rate(1, "d"))
    path.write_text(f"{key.line()}\n{other.line()}\n", encoding="utf-8")
    ring = clocks.ring(path)
    assert [reason(ring, secret) for _ in range(2)] == ["", "rate"]
    for place in range(50):  # names come and go
        some, new = new_key(f"key-{place}", rate=Rate(1, "d"))
        path.write_text(f"{key.line()}\n{new.line()}\n", encoding="utf-8")
        clocks.pass_by(CHECKED)
        assert (reason(ring, some), reason(ring, secret)) == ("", "rate")
    assert set(ring._left) == {"a", "key-49"}
    generous = key.line().replace("1/d", "5/s")
    path.write_text(f"{generous}\n", encoding="utf-8")
    clocks.pass_by(CHECKED)
    assert reason(ring, secret) == ""  # no debt of a day


def spoil(path: Path, line: str, how: str) -> None:
    """Make a file of keys one that cannot be used."""
    if how == "gone":
        path.unlink()
    elif how == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif how == "folder":
        path.unlink()
        path.mkdir()
    else:
        texts = {
            "empty": "", "half": line[:40], "without its end": line.partition(" expires")[0],
            "wrong": f"{line}\noops\n", "nobody": "# nobody\n", "not text": "\udcff",
        }  # fmt: skip
        path.write_text(texts[how], encoding="utf-8", errors="surrogateescape")


@pytest.mark.parametrize(
    "how", ["gone", "folder", "empty", "half", "without its end", "wrong", "nobody", "not text",
            pytest.param("pipe", marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes"))],
)  # fmt: skip
def test_a_file_that_cannot_be_used_changes_nothing(
    clocks: Clocks, path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Half written it could make a key that never expires; what has expired still does."""
    secret, key = new_key("a", parsed_moment("2027-01-15"), roles=("read",))
    good = key.line() + "\n"
    path.write_text(good, encoding="utf-8")
    states: list[bool] = []
    ring = clocks.ring(path, noted=states.append)
    spoil(path, key.line(), how)
    for _ in range(3):
        clocks.pass_by(CHECKED)
        assert (reason(ring, secret, "read"), reason(ring, secret)) == ("", "role")
    assert states == [True] * 3 and ring.trouble is not None and str(path) in ring.trouble
    lines = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 1  # once, and not every second
    assert key.digest not in caplog.text and key.digest not in str(lines[0].__dict__)
    clocks.pass_by(86_400)
    assert reason(ring, secret, "read") == "expired"
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    path.write_text(good, encoding="utf-8")
    clocks.pass_by(CHECKED)
    assert reason(ring, secret, "read") == "expired" and ring.trouble is None and states[-1] is False


def test_a_file_cut_anywhere_makes_no_other_key(clocks: Clocks, path: Path) -> None:
    """Each byte of a file on its way: whole lines, or the keys before."""
    before = new_key("before")[1]
    (_, one), (_, two) = new_key("a", parsed_moment("2027-01-15T13:00:00Z"), ("read",), Rate(10, "min")), new_key("b")
    path.write_text(before.line() + "\n", encoding="utf-8")
    ring, text = clocks.ring(path), f"# new\n{one.line()}\n{two.line()}\n"
    states = set()
    for cut in range(len(text) + 1):
        path.write_text(text[:cut], encoding="utf-8")
        ring.read_again()
        states.add(ring._keys)
    assert states == {(before,), (one,), (one, two)}


def test_a_file_that_cannot_be_used_at_the_start(path: Path) -> None:
    path.write_text("oops\n", encoding="utf-8")
    with pytest.raises(FileError, match="line 1"):
        Keyring(path)


def test_readers_at_once_have_the_old_keys_or_the_new_ones(path: Path) -> None:
    """Sixteen threads ask while the file changes; a clock that leaps makes each of them read it."""
    (kept, always), (_, other) = new_key("kept"), new_key("other")
    texts = [f"{always.line()}\n", f"{other.line()}\n{always.line()}\n"]
    path.write_text(texts[0], encoding="utf-8")
    beats = iter(range(10**9))
    ring = Keyring(path, clock=lambda: CHECKED * next(beats), wall=lambda: NOON)
    wrong: list[str] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            wrong.extend(filter(None, [reason(ring, kept)]))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for place in range(100):
        partial_file = path.with_name("next")
        partial_file.write_text(texts[place % 2], encoding="utf-8")
        partial_file.replace(path)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong and ring.trouble is None


# -- over HTTP ---------------------------------------------------------------------------------------------------


@pytest.fixture
def timed(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocks]:
    """The service with clocks of the test."""
    ring = partial(Keyring, clock=lambda: clocks.monotonic, wall=lambda: clocks.wall)
    monkeypatch.setattr("isonomy.service.app.Keyring", ring)
    yield clocks


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def denied(client: TestClient, secret: str) -> dict[str, float]:
    """How many requests were denied by reason, as the metrics have it."""
    text = client.get("/metrics", headers=bearer(secret)).text
    lines = [line for line in text.splitlines() if line.startswith("isonomy_denied_total{")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


READ = ("/v1/predictions", "/v1/monitor", "/v1/monitor/history", "/v1/certificate", "/metrics")


def test_roles_over_http(serve: Serve, timed: Clocks) -> None:
    (predict, one), (read, two), (admin, three) = (
        new_key(role, roles=(role,)) for role in ("predict", "read", "admin")
    )  # fmt: skip
    client = serve(keys=(one, two, three))

    def statuses(secret: str) -> tuple[int, ...]:
        sent = client.post("/v1/predictions", json={"individual": GOOD}, headers=bearer(secret)).status_code
        seen = {client.get(path, headers=bearer(secret)).status_code for path in READ}
        kept = {
            client.request(verb, "/v1/keys", headers=bearer(secret)).status_code for verb in ("GET", "POST", "HEAD")
        }
        assert len(seen) == len(kept) == 1
        return sent, *seen, *kept

    assert statuses(predict) == (200, 403, 403)
    assert statuses(read) == (403, 200, 403)
    assert statuses(admin) == (403, 403, 200)
    answer = client.get("/metrics", headers=bearer(predict))
    assert answer.json() == {"detail": "This API key has not the role 'read'."}
    assert denied(client, read) == {"role": 19.0}
    shown = client.get("/v1/keys", headers=bearer(admin))
    assert shown.json()["keys"][0] == {
        "name": "predict",
        "roles": ["predict"],
        "rate": None,
        "expires": None,
        "valid": True,
    }
    assert one.digest not in shown.text and one.digest[:8] not in shown.text


def test_every_operation_but_health_and_the_page_has_a_role(serve: Serve) -> None:
    """One that is added without is found here."""
    client = serve(keys=(new_key("a")[1],))
    routes = [route for route in client.app.routes if hasattr(route, "dependant")]  # type: ignore[attr-defined]
    open_ = {route.path for route in routes if not route.dependencies}
    assert open_ == {"/", "/health/live", "/health/ready"}
    paths = client.get("/openapi.json").json()["paths"]
    needed = {(path, verb): each.get("security") for path, verbs in paths.items() for verb, each in verbs.items()}
    assert needed["/v1/predictions", "post"] == [{"bearer": ["predict"]}]
    assert needed["/v1/predictions", "get"] == [{"bearer": ["read"]}]
    assert needed["/v1/keys", "post"] == needed["/v1/keys", "get"] == [{"bearer": ["admin"]}]
    assert needed["/health/live", "get"] is None
    assert {"401", "403", "429"} <= set(paths["/v1/predictions"]["post"]["responses"])


def test_without_keys_there_is_nothing_to_administer(client: TestClient) -> None:
    assert client.get("/v1/keys").status_code == client.post("/v1/keys").status_code == 404
    assert "401" not in client.get("/openapi.json").json()["paths"]["/v1/predictions"]["post"]["responses"]


def test_a_rate_over_http(serve: Serve, timed: Clocks, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "isonomy.service")
    (secret, key), (other, free) = new_key("bank-1", rate=Rate(2, "min")), new_key("bank-2")
    client = serve(keys=(key, free))

    def sent(secret: str = secret) -> Any:
        return client.post("/v1/predictions", json={"individual": GOOD}, headers=bearer(secret))

    assert [sent().status_code for _ in range(3)] == [200, 200, 429]
    for _ in range(50):  # neither strangers nor others take of it, or are held up by it
        assert sent(secret[:-1]).status_code == 401
    assert sent(other).status_code == 200
    late = sent()
    assert (late.headers["retry-after"], late.json()["detail"]) == (
        "30",
        "This API key may ask 2/min: try again in 30 s.",
    )
    timed.pass_by(30)
    assert [sent().status_code for _ in range(2)] == [200, 429]
    assert denied(client, other) == {"rate": 3.0, "unknown": 50.0}
    text = client.get("/metrics", headers=bearer(other)).text
    assert 'isonomy_requests_total{path="/v1/predictions",status="429"} 3.0' in text
    facts = [record.facts for record in caplog.records if record.message == "request"]  # type: ignore[attr-defined]
    assert sum(each["status"] == 429 and each["caller"] == "bank-1" for each in facts) == 3
    assert all("caller" not in each for each in facts if each["status"] == 401)
    assert all(each["caller"] == "bank-2" for each in facts if each["path"] == "/metrics")
    assert secret not in str(facts) and key.digest not in str(facts)


def test_a_refused_request_is_neither_read_nor_answered(
    serve: Serve, timed: Clocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, key = new_key("a", rate=Rate(1, "d"), roles=("predict", "read"))
    client = serve(keys=(key,))
    assert client.get("/v1/monitor", headers=bearer(secret)).status_code == 200

    async def read(*_: Any) -> bytes:
        raise AssertionError("the body was read")

    monkeypatch.setattr("isonomy.service.web.read_body", read)
    for sent, status in ((secret, 429), ("x", 401)):
        answer = client.post("/v1/predictions", json={"individual": GOOD}, headers=bearer(sent))
        assert answer.status_code == status


def test_a_file_of_keys_over_http(serve: Serve, timed: Clocks, tmp_path: Path) -> None:
    """Rotated without a restart: at the next look, or when an administrator says so."""
    path = tmp_path / "keys.txt"
    (admin, boss), (old, first), (new, second) = new_key("boss", roles=("admin", "read")), new_key("a"), new_key("a")
    path.write_text(f"{boss.line()}\n{first.line()}\n", encoding="utf-8")
    client = serve(keys=path)

    def statuses() -> list[int]:
        return [client.get("/v1/monitor", headers=bearer(secret)).status_code for secret in (old, new)]

    assert statuses() == [200, 401]
    ending = first.line() + " expires=2027-01-15T13:00:00Z"
    path.write_text(f"{boss.line()}\n{ending}\n{second.line()}\n", encoding="utf-8")
    assert statuses() == [200, 401]
    timed.pass_by(CHECKED)
    assert statuses() == [200, 200]
    timed.pass_by(3600)
    assert statuses() == [401, 200]
    assert client.get("/v1/monitor", headers=bearer(old)).json()["detail"].startswith("This API key has expired")
    path.write_text(f"{boss.line()}\noops\n", encoding="utf-8")
    shown = client.post("/v1/keys", headers=bearer(admin)).json()
    assert "line 2" in shown["trouble"] and [each["valid"] for each in shown["keys"]] == [True, False, True]
    assert "isonomy_keys_trouble 1.0" in client.get("/metrics", headers=bearer(admin)).text
    path.write_text(f"{boss.line()}\n", encoding="utf-8")
    assert (
        client.get("/v1/keys", headers=bearer(admin)).json()["trouble"] == shown["trouble"]
    )  # to look changes nothing
    shown = client.post("/v1/keys", headers=bearer(admin)).json()
    assert shown["trouble"] is None and [each["name"] for each in shown["keys"]] == ["boss"]
    assert statuses() == [401, 401]


def test_headers_of_two_minds(serve: Serve) -> None:
    """A proxy may judge by one header and the service by another: only one is taken."""
    secret, key = new_key("a")
    client = serve(keys=(key,))
    good, bad = f"Bearer {secret}", "Bearer x"

    def status(*values: str) -> int:
        headers = [("Authorization", value) for value in values]
        return int(client.get("/v1/monitor", headers=headers).status_code)

    assert status(good) == status(f"bearer {secret}") == 200
    for values in ([good, bad], [bad, good], [good, good], [good, "Basic eDp5"], [f"{bad}, {good}"], [f"{good}, {bad}"],
                   [f"Basic {secret}"], [f"Bearer\t{secret}"], [good[:-1]], [""]):  # fmt: skip
        assert status(*values) == 401, values
    for other in ("X-Authorization", "Proxy-Authorization", "X-Forwarded-User", "Cookie"):
        assert client.get("/v1/monitor", headers={other: good}).status_code == 401
    assert client.get(f"/v1/monitor?authorization={secret}").status_code == 401
    assert client.get("/v1/monitor", headers={"X-HTTP-Method-Override": "HEAD"}).status_code == 401
    assert client.get("//v1/monitor").status_code == 404


def test_nothing_grows_with_keys_that_are_unknown(serve: Serve) -> None:
    """Metrics, the middleware and the keyring are the same after a thousand of them."""
    secret, key = new_key("a")
    client = serve(keys=(key,))
    client.get("/v1/monitor", headers=bearer("x"))

    def lines() -> int:
        return int(client.get("/metrics", headers=bearer(secret)).text.count("\n"))

    lines()
    before = lines()
    for place in range(300):
        assert client.get("/v1/monitor", headers=bearer(f"iso_{place}")).status_code == 401
    assert lines() == before
