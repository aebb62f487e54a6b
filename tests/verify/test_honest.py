"""Honest people are never refused: not on another number of threads, and not by another BLAS kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isonomy import Part
from isonomy.bounds.kernel import head_of, preparations
from isonomy.problem import Problem
from isonomy.similarity.ground import ground_metric
from isonomy_verify.reach import Reach

from . import honest
from .test_enumeration import write as write_predictions

CHECK = """
import json, sys
import numpy, isonomy_verify
found = {}
for path in sys.argv[1:]:
    try:
        result = isonomy_verify.verify(path)
        worst = [claim for claim in result.claims if claim[1] == "rejected"]
        found[path] = [result.accepted, str(worst), result.proved_upper, result.claimed_upper]
    except isonomy_verify.BadInput as error:
        found[path] = [False, str(error), 0.0, 0.0]
assert "isonomy" not in sys.modules
print(json.dumps(found))
"""
MACHINES = ({"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "2"}, {"OPENBLAS_CORETYPE": "Sandybridge"})
"""Two machines without fused multiplication and addition, and with vectors of other lengths."""


def checked(paths: dict[str, str], machine: dict[str, str]) -> None:
    command = [sys.executable, "-c", CHECK, *paths]
    run = subprocess.run(command, env=os.environ | machine, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    refused = {paths[path]: why for path, why in found.items() if not why[0]}
    assert not refused, refused
    assert all(proved <= claimed for _, _, proved, claimed in found.values())


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(12, 212, 20))])
def test_honest_certificates_are_accepted(first: int, tmp_path: Path) -> None:
    """Twelve in the fast tests, and one of predictions alone; two hundred more in the slow ones."""
    paths, most = {}, 12 if first == 0 else 300
    if first == 0:
        paths[str(write_predictions(tmp_path / "predictions", Part(0.5)))] = "predictions"
    for seed in range(first, first + (12 if first == 0 else 20)):
        paths[str(tmp_path / str(seed))] = honest.write(seed, tmp_path / str(seed), most)
    checked(paths, MACHINES[first // 4 % 2])


@pytest.mark.parametrize(
    "first", [honest.TREES, *(pytest.param(honest.TREES + k, marks=pytest.mark.slow) for k in (10, 20, 30))]
)
def test_honest_certificates_of_trees_are_accepted(first: int, tmp_path: Path) -> None:
    """Six in the fast tests, thirty more in the slow ones."""
    paths, count = {}, 6 if first == honest.TREES else 10
    for seed in range(first, first + count):
        paths[str(tmp_path / str(seed))] = honest.write(seed, tmp_path / str(seed), 8)
    checked(paths, MACHINES[first // 10 % 2])


@pytest.mark.parametrize(
    "first", [honest.SHIFTS, *(pytest.param(honest.SHIFTS + k, marks=pytest.mark.slow) for k in range(12, 132, 30))]
)
def test_honest_certificates_of_every_shift_are_accepted(first: int, tmp_path: Path) -> None:
    """Twelve in the fast tests, a hundred and twenty more in the slow ones."""
    paths, count, most = {}, *((12, 12) if first == honest.SHIFTS else (30, 80))
    for seed in range(first, first + count):
        paths[str(tmp_path / str(seed))] = honest.write(seed, tmp_path / str(seed), most)
    checked(paths, MACHINES[first // 2 % 2])


def test_bounds_do_not_hang_on_who_else_is_asked_about(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A table is checked in other batches than those in which it was certified."""
    asked: list[Any] = []
    monkeypatch.setattr(honest.isonomy, "certify", lambda *of, **options: asked.append((of, options)))
    monkeypatch.setattr(honest.records, "write", lambda *of, **more: None)
    honest.write(48, tmp_path, 40)
    (network, people, metric, delta), options = asked[0]
    problem = Problem.of(network, metric, delta, people.domain, people.schema)
    ground = ground_metric(options["ground"], people.domain.width)
    reach = Reach(preparations(network), head_of(network), problem.similarity.kernel, ground.form)
    x = np.ascontiguousarray(people.x)
    together = reach.bound(x, [0.2])[:, 0]
    for i in (2, 7, 31):
        assert abs(reach.bound(x[i : i + 1], [0.2])[0, 0] / together[i] - 1) < 1e-6
