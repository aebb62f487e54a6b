"""A small dataset, a small network, and how to ask about them; also run as a program that is to be killed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.attacks import AttackBudget
from isonomy.certificates import Certificate, certify
from isonomy.networks.network import Network
from isonomy.population import Feature, Schema, Split
from isonomy.similarity import WeightedLp

SCHEMA = Schema(
    "loans",
    (
        Feature("pay", low=-2, high=2),
        Feature("debt", low=-2, high=2),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
    ),
    weight="w",
    max_weight=8.0,
    split=Split("part", "old", "new"),
)
METRIC = WeightedLp([1.0, 2.0, 1.0, 1.0], 2)
CHUNK = 40
QUICK = AttackBudget(steps=2, restarts=0, branches=2)


def table(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "pay": rng.uniform(-2, 2, n),
            "unused": rng.integers(0, 9, n),
            "debt": rng.uniform(-2, 2, n),
            "sex": rng.choice(["f", "m"], n),
            "w": rng.choice([0.0, 0.3, 1.0, 7.1], n),
            "part": rng.choice(["old", "new"], n),
        }
    )


def network(seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    sizes = [4, 5, 5, 2]
    weights = [rng.normal(size=(b, a)) for a, b in pairwise(sizes)]
    return Network.from_layers(weights, [rng.normal(size=b) * 0.3 for b in sizes[1:]])


def ask(people: Any, work: Path | None, **options: Any) -> Certificate:
    """The certificate of somebody's table; options replace the usual ones."""
    what = {"schema": SCHEMA, "model": network(), "metric": METRIC, "delta": 0.1, "gamma": 0.1}
    how = {"domain": "unbounded", "tier": "interval", "rounds": 1, "attack": False}
    asked = {**what, **how, "chunk": CHUNK, "progress": None, **options}
    asked["attack"] = QUICK if asked["attack"] is True else asked["attack"]
    return certify(people=people, work=work, **asked)


def numbers(found: Certificate) -> dict[str, Any]:
    """All that a certificate says; equal dictionaries are certificates that are equal bit for bit."""
    local, profiles, points = found.local, found.profiles, found.points
    arrays = {
        "x": found.x, "weights": found.weights, "upper": local.upper, "lower": local.lower,
        "counterpart": local.witnesses.counterpart, "start": profiles.start, "radius": profiles.radius,
        "value": profiles.value, "owner": points.owner, "person": points.person, "cost": points.cost,
        "points": points.value, "largest": np.array(profiles.largest),
    }  # fmt: skip
    hashes = {name: hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for name, array in arrays.items()}
    assert found.people is not None
    return {
        "bounds": [found.upper, found.lower, found.multiplier, found.grid_error],
        "curve": found.curve([0.0, 0.05, 0.2]).to_numpy().tolist(),
        "decision": local.decision.tolist(),
        "people": [len(found), found.people.rows.tolist(), found.people.selection.as_dict()],
    } | hashes


def stamps(work: Path) -> dict[str, tuple[int, int]]:
    """Which parts are there: written when, and to which place on the disk."""
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in sorted(work.glob("parts/*.arrays"))}


def main() -> None:
    """``people.py source work after``: ask, and be killed when ``after`` parts are finished."""
    source, work, after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

    def progress(done: int, total: int) -> None:
        if len(stamps(work)) >= after:
            os.kill(os.getpid(), signal.SIGKILL)

    print(json.dumps(numbers(ask(source, work, progress=progress))))


if __name__ == "__main__":
    main()
