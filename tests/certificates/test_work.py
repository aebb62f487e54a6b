"""Chunks are sized by counted work, and few regions are held at a time, whatever the question."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.attacks import AttackBudget
from isonomy.certificates import certify, certify_local, chunks
from isonomy.parallel import set_workers
from isonomy.population import Feature, Population, Schema
from isonomy.similarity import Counterparts
from isonomy_verify import similar

from .judge import perceptron
from .people import numbers, stamps

QUICK = AttackBudget(steps=1, restarts=0, branches=2)
PROGRAM = """
import json, sys
from pathlib import Path
from isonomy.certificates import chunks
from tests.certificates.people import numbers
from tests.certificates.test_work import ask
chunks.WORK = 2.0**28
print(json.dumps(numbers(ask(70, work=Path(sys.argv[1]), tier="interval"))))
"""


def crowd(n: int, free: int = 2) -> Population:
    """People with some categories that are free: four, sixteen, … similar regions each."""
    rng = np.random.default_rng(0)
    kinds = [Feature(f"c{i}", "categorical", categories=tuple("abcd"), protected=i < free) for i in range(3)]
    schema = Schema("crowd", (Feature("pay", low=0, high=1, tolerance=0.1), *kinds))
    columns = {f"c{i}": rng.choice(list("abcd"), n) for i in range(3)}
    return Population.from_frame(pd.DataFrame({"pay": rng.uniform(0, 1, n), **columns}), schema)


def ask(n: int, free: int = 2, work: Path | None = None, **options: Any) -> Any:
    people = crowd(n, free)
    network = perceptron(np.random.default_rng(1), people.x.shape[1], 2)
    asked = {"gamma": 0.1, "attack": QUICK, "rounds": 1, "work": work, "progress": None, **options}
    return certify(network, people, Counterparts.of(people.schema), **asked)


class CountedError(Exception):
    """The run may end: rows are counted."""


def rows(free: int, **options: Any) -> float:
    """The rows of a chunk of a question."""

    def count(job: chunks.Job, *where: Any) -> int:
        raise CountedError(chunks.WORK / sum(job._work(job._pilot(*where)[0])))

    with pytest.MonkeyPatch.context() as patch, pytest.raises(CountedError) as counted:
        patch.setattr(chunks.Job, "rows", count)
        ask(70, free, **options)
    return float(counted.value.args[0])


def test_rows_of_a_chunk_follow_regions_and_radii() -> None:
    """Sixteen times the combinations, of which few have passes, are at least twice the work; a shift, rounds and a
    search cost, too."""
    assert rows(1, attack=False) > 2 * rows(3, attack=False)
    assert rows(3, gamma=0.0, attack=False) > rows(3, attack=False) > rows(3, attack=False, rounds=4)
    assert rows(3, attack=False) > rows(3) > rows(3, attack=AttackBudget())


def test_chunks_are_the_same_however_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so are the numbers, bit for bit: nothing is timed."""
    monkeypatch.setattr(chunks, "WORK", 2.0**28)
    found = []
    try:
        for threads in (1, 2):
            set_workers(threads)
            found.append(
                (numbers(ask(70, work=tmp_path / str(threads), tier="interval")), list(stamps(tmp_path / str(threads))))
            )
    finally:
        set_workers(None)
    assert found[0] == found[1] and len(found[0][1]) > 3


def test_work_of_a_chunk_changes_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the last bits of larger products, everybody has the same bounds and decisions in chunks of any size."""
    whole = ask(70, attack=False)
    monkeypatch.setattr(chunks, "WORK", 2.0**28)
    parts = ask(70, attack=False)
    assert parts.computed > 3 > whole.computed and parts.schedule == whole.schedule
    assert parts.local.upper == pytest.approx(whole.local.upper, rel=1e-12)
    assert parts.profiles.value == pytest.approx(whole.profiles.value, rel=1e-9)
    assert parts.local.decision.tolist() == whole.local.decision.tolist()
    assert parts.upper == pytest.approx(whole.upper, rel=1e-9)


def test_few_regions_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """With little memory regions come for few people at a time, all of them, and bounds and finds are the same."""
    people = crowd(24)
    network, metric = perceptron(np.random.default_rng(1), people.x.shape[1], 2), Counterparts.of(people.schema)
    options: dict[str, Any] = {"attack": QUICK, "decide": True, "progress": None}
    whole, shifted = certify_local(network, people, metric, **options), ask(24)
    similarity, most = whole.problem.similarity, [0]
    regions = similar.Similarity.regions

    def counted(self: similar.Similarity, x: Any, centre_box: Any = None) -> list[Any]:
        found = regions(self, x, centre_box)
        most[0] = max(most[0], sum(map(len, found)))
        return found

    monkeypatch.setattr(similar.Similarity, "regions", counted)
    expected = similarity.regions(people.x)
    assert most[0] == 16 * len(people)
    monkeypatch.setattr(similar, "REGION_NUMBERS", 2 * 16 * people.x.shape[1])
    most[0] = 0
    few = certify_local(network, people, metric, **options)
    again = ask(24)
    assert most[0] <= 16 * similar.SAMPLE  # those that are counted
    assert few.upper == pytest.approx(whole.upper, rel=1e-12) and few.lower == pytest.approx(whole.lower, rel=1e-9)
    assert few.decision.tolist() == whole.decision.tolist() and again.upper == pytest.approx(shifted.upper, rel=1e-9)
    pieces = list(similarity.each(people.x))
    assert len(pieces) == 12
    for part in ("owner", "centre"):
        one, other = (np.concatenate([getattr(each, part) for each in some]) for some in (expected, pieces))
        assert np.array_equal(one, other)


@pytest.mark.slow
def test_killed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``kill -9`` once a part is there: it is not computed again, and nothing of the result tells."""
    work, root = tmp_path / "work", Path(__file__).parents[2]
    command = [sys.executable, "-c", PROGRAM, str(work)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as run:
        while run.poll() is None and not stamps(work):
            time.sleep(0.001)
        run.kill()
    kept = stamps(work)
    assert kept and run.returncode == -signal.SIGKILL
    monkeypatch.setattr(chunks, "WORK", 2.0**28)
    whole = ask(70, work=tmp_path / "whole", tier="interval")
    again = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=root)
    assert kept.items() <= stamps(work).items() and len(stamps(work)) == whole.computed > len(kept)
    assert json.loads(again.stdout) == json.loads(json.dumps(numbers(whole)))
