"""Nothing that was acknowledged is lost when the process is killed."""

from __future__ import annotations

import contextlib
import http.client
import random
import sqlite3
import threading
import urllib.error
from pathlib import Path

import pytest

from isonomy.service.chain import verify
from isonomy.service.database import read_only

from .example import Process, rows
from .test_watch import until


def kill_repeatedly(database: Path, times: int, clients: int, seed: int) -> dict[str, list[float]]:
    """Requests from several clients at once until the process is killed; what was acknowledged: uppers by request."""
    acknowledged: dict[str, list[float]] = {}
    chance, people = random.Random(seed), rows(30, seed=seed)

    def ask(running: Process, size: int) -> None:
        broken = (urllib.error.URLError, OSError, http.client.HTTPException, ValueError)
        with contextlib.suppress(*broken):
            while True:
                answer = running.post({"individuals": people[:size], "tier": "interval"})
                acknowledged[answer["request"]] = [row["upper"] for row in answer["predictions"]]

    for _ in range(times):
        running = Process(database)
        running.wait()
        threads = [threading.Thread(target=ask, args=(running, size)) for size in (1, 30, 7, 3)[:clients]]
        for thread in threads:
            thread.start()
        enough = len(acknowledged) + chance.randint(12, 60)
        until(lambda: len(acknowledged) >= enough)  # noqa: B023
        running.kill()
        for thread in threads:
            thread.join()
    return acknowledged


def check(database: Path, acknowledged: dict[str, list[float]]) -> None:
    with sqlite3.connect(database) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found: dict[str, list[float]] = {}
        for request, upper in connection.execute("SELECT request, upper FROM predictions ORDER BY request, place"):
            found.setdefault(request, []).append(upper)
        counts = dict(connection.execute("SELECT request, people FROM requests").fetchall())
    lost = [request for request, upper in acknowledged.items() if found.get(request) != upper]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged requests are not in the log"
    # And no half of a request either: what is there is whole.
    assert counts == {request: len(upper) for request, upper in found.items()}
    with read_only(str(database)) as log:
        chain = verify(log)
    assert chain.wrong is None and chain.records >= len(acknowledged)


def test_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    acknowledged = kill_repeatedly(tmp_path / "audit.db", times=1, clients=4, seed=0)
    assert len(acknowledged) > 10
    check(tmp_path / "audit.db", acknowledged)


@pytest.mark.slow
def test_killed_many_times_and_nothing_is_lost(tmp_path: Path) -> None:
    acknowledged = kill_repeatedly(tmp_path / "audit.db", times=20, clients=4, seed=1)
    assert len(acknowledged) > 200
    check(tmp_path / "audit.db", acknowledged)
