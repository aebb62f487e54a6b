"""How fast the service is, with its durable log on; the load comes from a second process over loopback.

    python benchmarks/service.py [--seconds 60] [--metric counterparts] [--domain realizable] [--out FILE] [--quick]

A network of 2 x 256 neurons (random weights: the interval tier does not care) on Californians from the folder in
ISONOMY_DATA in the paper's encoding, or else on Adult. First one individual at a time, then batches of 1000 from
several clients, each held for ``--seconds``. Beside the clock stands the processor time of the service (with what its
monitor spends beside), which other work on the machine disturbs less, and what one synchronisation of the disk takes
here, which no durable log can beat. At the end every acknowledged prediction is counted in the log. ``--quick`` holds
each load for a second, to see that everything works; its numbers say little.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import isonomy
from isonomy.population import Population
from isonomy.problem import Problem
from isonomy.service import Served, Settings, run
from isonomy.service.chain import verify
from isonomy.service.database import read_only

LINES: list[str] = []
HEADS = (
    "load", "requests/s", "predictions/s", "p50 ms", "p99 ms", "CPU ms/request", "CPU µs/prediction", "cores used",
)  # fmt: skip


def say(text: str = "") -> None:
    print(text, flush=True)
    LINES.append(text)


def people() -> Population:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from studies.surveys import available, load_population

    if "acs-income" in available():
        whole = load_population("acs-income", states=["CA"], encoding="paper", years=[2018], download=False)
    else:
        whole = isonomy.load_population("adult")
    return whole.test[:2000]


def served(metric: str, domain: Any) -> Served:
    """Certified by nothing: the speed does not depend on it."""
    some = people()
    rng, width = np.random.default_rng(0), some.schema.width
    sizes = [width, 256, 256, 2]
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    network = isonomy.Network.from_layers(
        [rng.normal(size=pair) / np.sqrt(pair[1]) for pair in pairs], [0.05 * rng.normal(size=n) for n, _ in pairs]
    )
    spread = rng.normal(size=(width, width)) / 10
    metrics: dict[str, tuple[isonomy.Metric, float]] = {
        "counterparts": (isonomy.Counterparts.of(some.schema), 1.0),
        "sensr": (isonomy.SensitiveSubspace.fit(some, ridge=1.0 if domain == "unbounded" else 0.0), 0.05),
        "mahalanobis": (isonomy.Mahalanobis(np.eye(width) + spread @ spread.T), 0.02),
    }
    chosen, delta = metrics[metric]
    return Served(
        problem=Problem.of(network, chosen, delta, domain, some.schema), schema=some.schema,
        shift=isonomy.Transport(0.1, 1.0, isonomy.WeightedLp(np.ones(width), 2.0)), epsilon=0.1, upper=0.1,
        curve=lambda gammas: [min(1.0, 0.1 + gamma) for gamma in gammas], people=some,
        statement="A benchmark.", identity="0" * 64,
    )  # fmt: skip


def bodies(sizes: Sequence[int]) -> dict[int, bytes]:
    some = people()
    frame = some.frame[[feature.name for feature in some.schema.features]]
    columns = [frame[name].tolist() for name in frame.columns]
    rows = [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]
    return {n: json.dumps({"individuals": rows[:n], "tier": "interval"}).encode() for n in sizes}


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def received(connection: socket.socket) -> bytes:
    """One answer. A client of the standard library would take longer over it than most of the service does."""
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(1 << 20)
    head, _, rest = text.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
    parts, size = [head, rest], len(rest)
    while size < length:
        parts.append(connection.recv(1 << 20))
        size += len(parts[-1])
    return b"\r\n\r\n".join(parts[:2]) + b"".join(parts[2:])


def load(port: int, body: bytes, clients: int, seconds: float) -> list[float]:
    """The latencies of all answers, in seconds; the first answer that is none ends the program."""
    latencies: list[list[float]] = [[] for _ in range(clients)]
    refused: list[str] = []
    ends = time.monotonic() + seconds

    head = "POST /v1/predictions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    request = f"{head}{len(body)}\r\n\r\n".encode() + body

    def ask(own: list[float]) -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            while time.monotonic() < ends and not refused:
                began = time.perf_counter()
                connection.sendall(request)
                text = received(connection)
                if not text.startswith(b"HTTP/1.1 200"):
                    refused.append(f"{text[:12].decode()}: {text[-200:].decode()}")
                own.append(time.perf_counter() - began)

    threads = [threading.Thread(target=ask, args=(own,)) for own in latencies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if refused:
        raise SystemExit(f"The service did not keep up: {refused[0]}")
    return [latency for own in latencies for latency in own]


def measure(port: int, pid: int, name: str, body: bytes, size: int, clients: int, seconds: float) -> tuple[int, ...]:
    """A line of the table; predictions acknowledged, in all and in a second, and p50 in microseconds."""
    load(port, body, clients, min(2.0, seconds))  # warm
    began, before = time.perf_counter(), processor_seconds(pid)
    latencies = load(port, body, clients, seconds)
    took, work = time.perf_counter() - began, processor_seconds(pid) - before
    p50, p99 = (1000 * float(np.quantile(latencies, q)) for q in (0.5, 0.99))
    count = len(latencies) * size
    say(
        f"| {name} | {len(latencies) / took:,.1f} | {count / took:,.0f} | {p50:.2f} | {p99:.2f} | "
        f"{1e3 * work / len(latencies):.2f} | {1e6 * work / count:,.0f} | {work / took:.2f} |"
    )
    return count, round(count / took), round(1000 * p50)


def disk(folder: Path) -> float:
    """Milliseconds of one synchronisation, median."""
    times = []
    with (folder / "probe").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def wait(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(6000):  # a loaded machine takes its time; a service that ended is seen at once
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", "/health/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        assert process.poll() is None, "the service ended"
        time.sleep(0.1)
    raise AssertionError("the service did not become ready")


def kept(reached: bool) -> str:
    return "kept here" if reached else "not kept here"


def regions(served: Served) -> float:
    """Convex pieces of the similar set of one individual, on average: what an answer costs goes with them."""
    x = people().x[:50]
    return sum(len(some) for some in served.problem.similarity.regions(x)) / len(x)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--metric", choices=["counterparts", "sensr", "mahalanobis"], default="counterparts")
    parser.add_argument("--domain", choices=["realizable", "relaxed", "unbounded"], default="realizable")
    parser.add_argument("--quick", action="store_true", help="a second each")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", help="the database; for the second process")
    options = parser.parse_args()
    options.seconds = min(options.seconds, 1.0) if options.quick else options.seconds
    if options.serve:
        settings = Settings(database=options.serve, max_batch=1000, threads=2)
        run(served(options.metric, options.domain), settings, port=options.port, log_level="warning")
        return
    if not options.port:
        with socket.create_server(("127.0.0.1", 0)) as free:
            options.port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, __file__, "--serve", f"sqlite:///{folder / 'audit.db'}", "--port", str(options.port)]
        process = subprocess.Popen([*command, "--metric", options.metric, "--domain", options.domain])
        try:
            wait(options.port, process)
            pieces = regions(served(options.metric, options.domain))
            say("# The service under load")
            say()
            say(f"Written by `python benchmarks/service.py --metric {options.metric} --domain {options.domain}`:")
            say(
                f"{options.metric}, {options.domain} domain, {people().schema.name} ({pieces:.1f} regions for each "
                "individual), 2 x 256, interval tier, SQLite with synchronous=FULL, each load held for "
                f"{options.seconds:g} s; {os.cpu_count()} cores ({platform.machine()}), load average "
                f"{os.getloadavg()[0]:.1f}, numpy {np.__version__}; one synchronisation of this disk takes "
                f"{disk(folder):.2f} ms."
            )
            say()
            say(f"| {' | '.join(HEADS)} |")
            say("|---" * len(HEADS) + "|")
            found, many = {}, 20 if options.quick else 1000
            for label, size, clients in (("one at a time", 1, 1), (f"batches of {many}", many, options.clients)):
                body = bodies([size])[size]
                found[size] = measure(options.port, process.pid, label, body, size, clients, options.seconds)
            total = sum(count for count, _, _ in found.values())
            with sqlite3.connect(folder / "audit.db") as connection:
                logged = connection.execute("SELECT count(*) FROM predictions").fetchone()[0]
            assert logged >= total, f"{total} acknowledged, {logged} in the log"
            with read_only(str(folder / "audit.db")) as connection:
                assert verify(connection).wrong is None
            say()
            say(f"{total:,} predictions were acknowledged while measuring, and all are in the log, whose chain holds.")
            single, batches = kept(found[1][2] < 3000), kept(found[many][1] >= 30_000)
            say(f"Wanted, each load held for a minute: p50 of one at a time below 3 ms ({single}), and at least 30,000")
            say(f"predictions a second in batches of 1000 ({batches}).")
        finally:
            process.terminate()
            process.wait()
    if options.out is not None:
        options.out.write_text("\n".join(LINES) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
