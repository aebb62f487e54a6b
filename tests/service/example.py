"""A small certificate to serve, and a service of it in a process of its own."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import isonomy
from isonomy.networks.network import Network
from isonomy.population import Feature, Label, Population, Schema
from isonomy.problem import Problem
from isonomy.service import Served

SCHEMA = Schema(
    "loans",
    (
        Feature("age", "integer", low=18, high=90, origin=18, unit=72, protected=True, tolerance=2.0),
        Feature(
            "income", low=0.0, high=200.0, origin=0.0, unit=100.0, fill=30.0, missing_values=("-9", "?"), tolerance=1
        ),
        Feature("rate", low=0.5, high=9.5, tolerance=0.05),
        Feature("sex", "categorical", categories=("female", "male"), protected=True),
        Feature("job", "categorical", categories=("1", "2", "other"), missing="category", proxy=True),
        Feature("school", "ordinal", categories=("none", "some", "much"), fill="some", tolerance=0.0),
    ),
    Label("granted", classes=("no", "yes")),
)


def rows(n: int, seed: int = 0, richer: float = 0.0) -> list[dict[str, Any]]:
    """People in raw units, as a request has them."""
    rng = np.random.default_rng(seed)
    return [
        {
            "age": int(rng.integers(18, 91)),
            "income": None if rng.random() < 0.1 else round(float(np.clip(rng.normal(40 + richer, 10), 0, 200)), 2),
            "rate": round(float(rng.uniform(0.5, 9.5)), 3),
            "sex": str(rng.choice(["female", "male"])),
            "job": rng.choice(["1", "2", "other", "missing"]).item(),
            "school": None if rng.random() < 0.1 else str(rng.choice(["none", "some", "much"])),
        }
        for _ in range(n)
    ]


def population(people: list[dict[str, Any]]) -> Population:
    return Population.from_frame(pd.DataFrame(people), SCHEMA)


def network(seed: int = 0, scale: float = 0.25) -> Network:
    rng = np.random.default_rng(seed)
    sizes = [SCHEMA.width, 16, 16, 2]
    weights = [scale * rng.normal(size=(out, wide)) for wide, out in pairwise(sizes)]
    return Network.from_layers(weights, [0.1 * rng.normal(size=len(weight)) for weight in weights])


@cache
def served() -> Served:
    """A certificate with an epsilon between what most people have and what some have."""
    people = population(rows(80))
    metric = isonomy.Counterparts.of(SCHEMA)
    certificate = isonomy.certify(
        network(), people, metric, delta=1.0, gamma=0.3, ground="l2", epsilon=0.2, attack=False, rounds=1, progress=None
    )
    return Served.of_certificate(certificate, people, identity="ab" * 32)


def bare() -> Served:
    """The same network without the work of a certificate: for processes, which begin anew each time."""
    ground = isonomy.WeightedLp(np.ones(SCHEMA.width), 2.0)
    return Served(
        problem=Problem.of(network(), isonomy.Counterparts.of(SCHEMA), 1.0, "realizable", SCHEMA), schema=SCHEMA,
        shift=isonomy.Transport(0.3, 1.0, ground), epsilon=0.2, upper=0.2, curve=lambda gammas: [0.2] * len(gammas),
        people=None, statement="Nothing was proved.", identity="cd" * 32,
    )  # fmt: skip


def served_with(**parts: Any) -> Served:
    """The same with other parts of its problem."""
    schema = parts.get("schema", SCHEMA)
    return replace(served(), problem=replace(served().problem, **parts), schema=schema)


class Process:
    """A service in a process of its own, which can be killed."""

    def __init__(self, database: Path, **settings: Any) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "tests.service.serving", str(self.port), f"sqlite:///{database}"]
        self.process = subprocess.Popen(
            [*command, json.dumps(settings)], cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True
        )
        self.address = f"http://127.0.0.1:{self.port}"

    def wait(self, seconds: float = 600.0) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"{self.address}/health/ready", timeout=600).close()
                return
            if self.process.poll() is not None:
                raise AssertionError(f"The service ended: {self.process.communicate()[1][-2000:]}")
            time.sleep(0.05)
        raise AssertionError("The service did not become ready.")

    def post(self, body: Any) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}/v1/predictions", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()


@contextlib.contextmanager
def process(database: Path, **settings: Any) -> Iterator[Process]:
    running = Process(database, **settings)
    try:
        running.wait()
        yield running
    finally:
        running.kill()
