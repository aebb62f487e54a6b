"""Certificates of datasets: against closed answers and tables in memory; killed runs; damaged parts; memory."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from isonomy.certificates import certify
from isonomy.certificates.dual import Cells, evaluate
from isonomy.engines.runners import Embedded
from isonomy.errors import DataError, FileError, ParameterError
from isonomy.networks.network import Network
from isonomy.parallel import set_workers, workers
from isonomy.population import Feature, Population, Schema
from isonomy.similarity import WeightedLp

from .people import METRIC, QUICK, SCHEMA, ask, network, stamps, table

N = 150
PROGRAM = Path(__file__).with_name("people.py")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four parts."""
    table(N).to_parquet(tmp_path / "t.parquet", row_group_size=64)
    return tmp_path / "t.parquet"


def as_program(source: Path, work: Path, after: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.engines.people", str(source), str(work), str(after)]
    root = PROGRAM.parents[2]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)


# -- what is proved ----------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_where_nothing_bends_no_shift_helps(tmp_path: Path, order: float) -> None:
    """An affine regression treats everybody equally unequally: δ‖w‖, wherever people move."""
    schema = Schema(
        "numbers", (Feature("a", low=-2, high=2, origin=0, unit=1), Feature("b", low=-2, high=2, origin=0, unit=1))
    )
    rng = np.random.default_rng(3)
    pd.DataFrame(rng.uniform(-1, 1, (9, 2)), columns=["a", "b"]).to_csv(tmp_path / "t.csv", index=False)
    model = Network.from_layers([[[0.6, -0.8]]], [[0.3]], head="regression")
    found = ask(
        tmp_path / "t.csv", tmp_path / "work", domain=None, attack=True, schema=schema, network=model,
        metric=WeightedLp([1, 1], 2), order=order,
        tier="tight", chunk=4,
    )  # fmt: skip
    assert 0.1 - 1e-12 <= found.upper <= 0.1 + 1e-9
    assert 0.1 * (1 - 1e-3) <= found.lower <= 0.1
    assert found.rows == 9 and len(found.parts) == 3


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("tier", "order", "gamma"),
    [("interval", 1.0, 0.1), ("tight", math.inf, 0.1), pytest.param("tight", 2.0, 0.05, marks=pytest.mark.slow)],
)
def test_as_tight_as_in_memory(source: Path, tmp_path: Path, tier: str, order: float, gamma: float) -> None:
    """Not the same radii, but nearly the same bounds; and never contradicting."""
    found = ask(source, tmp_path / "work", tier=tier, order=order, gamma=gamma, epsilon=0.5, attack=True, rounds=2)
    people = Population.from_file(source, SCHEMA)
    options = {"order": order, "tier": tier, "domain": "unbounded", "rounds": 2, "effort": QUICK, "progress": None}
    whole = certify(network(), people, METRIC, 0.1, gamma, **options)
    # Their pilot groups differ, and with them the radii.
    assert found.upper == pytest.approx(whole.upper, rel=0.1) and found.lower == pytest.approx(whole.lower, rel=0.05)
    assert max(found.lower, whole.lower) <= min(found.upper, whole.upper)
    assert found.rows == N and found.weight == math.fsum(people.weights.tolist())
    curve, other = found.curve([0.0, 0.05, 0.2]), whole.curve([0.0, 0.05, 0.2])
    assert np.allclose(curve["upper"], other["upper"], rtol=0.1) and np.allclose(
        curve["lower"], other["lower"], rtol=0.1
    )
    assert (curve["lower"] <= other["upper"]).all() and (other["lower"] <= curve["upper"]).all()
    assert found.verdict == ("certified" if found.upper <= 0.5 else "undecided")
    assert found.tolerance <= 1e-6 and found.grid_error >= found.tolerance


def test_the_parts_prove_it(source: Path, tmp_path: Path) -> None:
    """With plain Parquet tools: the dual's formula over all parts gives the bound bit for bit."""
    found = ask(source, tmp_path / "work")
    read = [pq.read_table(path) for path in found.parts]
    about = [json.loads(part.schema.metadata[b"isonomy"]) for part in read]
    radii = [np.array([float.fromhex(text) for text in some["radii"]]) for some in about]
    largest = {float.fromhex(some["largest"]) for some in about}
    everywhere = np.unique(np.concatenate(radii))
    values = []
    for part, own in zip(read, radii, strict=True):  # at a radius of others, what holds for the next larger one
        columns = [part[f"within_{k}"].to_numpy() for k in range(len(own))] + [np.full(part.num_rows, max(largest))]
        values.append(np.stack([columns[k] for k in np.searchsorted(own, everywhere)], axis=1))
    weights = np.concatenate([part["weight"].to_numpy() for part in read])
    cells = Cells.from_profiles(everywhere, np.concatenate(values), max(largest), weights)
    assert evaluate(cells, 1.0, 0.1, found.multiplier) == found.upper
    assert np.concatenate([part["row"].to_numpy() for part in read]).tolist() == list(range(N)) and len(largest) == 1


@pytest.mark.some(2)
@pytest.mark.parametrize("way", ["csv", "folder", "excluded", "test part"])
def test_other_sources(tmp_path: Path, way: str) -> None:
    frame = table(100)
    options: dict[str, object] = {}
    path = tmp_path / "data"
    path.mkdir()
    kept = frame
    if way == "csv":
        frame.to_csv(path / "t.csv", index=False)
        path = path / "t.csv"
    elif way == "folder":
        frame[:50].to_parquet(path / "a.parquet")
        frame[50:].to_parquet(path / "b.parquet")
    else:
        if way == "excluded":
            options["unknown"], kept = "exclude", frame.drop(index=[5, *range(40, 80)])
            frame.loc[[5, *range(40, 80)], "sex"] = "?"
        else:
            options["split"], kept = "test", frame[frame["part"] == "new"]
        frame.to_parquet(path / "t.parquet")
    found = ask(path, tmp_path / "work", **options)
    kept.to_parquet(tmp_path / "kept.parquet")
    other = ask(tmp_path / "kept.parquet", tmp_path / "other")
    assert found.rows == len(kept) == other.rows and found.weight == other.weight
    assert found.excluded == (41 if way == "excluded" else 0)
    assert found.upper == pytest.approx(other.upper, rel=0.3)  # other chunks, another pilot group
    assert found.curve([0.0])["upper"][0] == pytest.approx(other.curve([0.0])["upper"][0], abs=1e-12)


@pytest.mark.slow
def test_the_same_whatever_the_threads(source: Path, tmp_path: Path) -> None:
    found = []
    try:
        for threads in (1, 3):
            set_workers(threads)
            found.append(ask(source, tmp_path / f"work{threads}", tier="tight").summary())
            assert workers() == threads
    finally:
        set_workers(None)
    assert found[0] == found[1]


# -- going on after a death --------------------------------------------------------------------------------------


def test_a_killed_driver_goes_on(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    killed = as_program(source, work, after=2)
    assert killed.returncode == -signal.SIGKILL and not killed.stdout
    finished = stamps(work)
    assert 2 <= len(finished) < 4
    (work / "parts" / "00000009.0.partial").write_bytes(b"half a part")
    again = ask(source, work)
    assert {name: stamp for name, stamp in stamps(work).items() if name in finished} == finished
    whole = ask(source, tmp_path / "whole")
    assert again.summary() == whole.summary() and whole.computed == 4
    assert json.loads((work / "result.json").read_text()).items() >= whole.summary().items()
    assert not list(work.rglob("*.partial"))
    assert [path.read_bytes() for path in whole.parts] == [path.read_bytes() for path in sorted(work.glob("parts/*"))]


@pytest.mark.slow
def test_killed_at_any_moment(source: Path, tmp_path: Path) -> None:
    """Killed from outside, each time after some more parts or at once, until a run comes through."""
    rng, work = np.random.default_rng(0), tmp_path / "work"
    command = [sys.executable, "-m", "tests.engines.people", str(source), str(work), "1000000"]
    deaths = 0
    while deaths < 12:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROGRAM.parents[2]) as run:
            before = stamps(work)
            enough = len(before) + int(rng.integers(0, 2))
            while run.poll() is None and len(stamps(work)) < enough:
                time.sleep(0.001)
            for _ in range(int(rng.integers(0, 300))):  # somewhere between two parts
                stamps(work)
            run.kill()
            deaths += 1
        assert before.items() <= stamps(work).items()
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROGRAM.parents[2]).stdout
    assert deaths > 0 and json.loads(out) == ask(source, tmp_path / "whole").summary()


def test_a_finished_run_is_only_read(source: Path, tmp_path: Path) -> None:
    first = ask(source, tmp_path)
    before = stamps(tmp_path)
    second = ask(source, tmp_path)
    assert second.computed == 0 and stamps(tmp_path) == before and second.summary() == first.summary()


def test_a_damaged_part_is_computed_again(source: Path, tmp_path: Path) -> None:
    first = ask(source, tmp_path)
    damaged, lost, swapped = first.parts[1], first.parts[2], first.parts[3]
    right = damaged.read_bytes()
    middle = len(right) // 3
    damaged.write_bytes(right[:middle] + bytes([right[middle] ^ 1]) + right[middle + 1 :])
    lost.unlink()
    swapped.write_bytes(first.parts[0].read_bytes())  # a good part of other people
    second = ask(source, tmp_path)
    assert second.computed == 3 and second.summary() == first.summary()
    assert damaged.read_bytes() == right


def test_a_part_that_changes_under_the_certificate_is_an_error(source: Path, tmp_path: Path) -> None:
    found = ask(source, tmp_path)
    found.parts[2].write_bytes(found.parts[1].read_bytes())
    with pytest.raises(FileError, match="was changed after it was finished"):
        found.curve([0.77])


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "change",
    [
        {"network": network(1)},
        {"metric": WeightedLp([1.0, 2.0, 1.0, 1.001], 2)},
        {"delta": 0.1000001},
        {"gamma": 0.11},
        {"order": 1.5},
        {"ground": "l1"},
        {"domain": "relaxed"},
        {"tier": "tight"},
        {"rounds": 2},
        {"attack": True},
        {"effort": replace(QUICK, seed=1)},
        {"chunk": 41},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_questions_do_not_use_its_parts(source: Path, tmp_path: Path, change: dict[str, object]) -> None:
    table(6).to_parquet(source)
    ask(source, tmp_path, order=math.inf)
    found = ask(source, tmp_path, **{"order": math.inf, **change})
    assert found.computed == len(found.parts)


def test_other_data_do_not_use_its_parts(source: Path, tmp_path: Path) -> None:
    ask(source, tmp_path)
    table(N, seed=1).to_parquet(source, row_group_size=64)
    assert ask(source, tmp_path).computed == 4


# -- memory ------------------------------------------------------------------------------------------------------

_MEMORY = """
import re, sys
from pathlib import Path
from tests.engines.people import ask
found = ask(Path(sys.argv[1]), Path(sys.argv[2]), chunk=8192, rounds=0)
found.curve([0.05, 0.2]), found.largest_gamma(0.3)
print(found.rows, int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""
"""The peak of the process's own memory: the one of getrusage begins with that of whoever started it."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="peak memory is read from /proc")


def peak(folder: Path, n: int) -> float:
    """Megabytes that an audit of n rows needed, the dataset a folder of small files."""
    data = folder / f"data{n}"
    data.mkdir()
    for i in range(n // 16_384):
        table(16_384, seed=i).to_parquet(data / f"{i:04d}.parquet")
    command = [sys.executable, "-c", _MEMORY, str(data), str(folder / f"work{n}")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROGRAM.parents[2])
    assert run.returncode == 0, run.stderr
    rows, megabytes = run.stdout.split()
    assert int(rows) == n
    return float(megabytes)


@needs_proc
@pytest.mark.slow
def test_memory_does_not_grow_with_the_dataset(tmp_path: Path) -> None:
    assert peak(tmp_path, 8 * 16_384) < peak(tmp_path, 16_384) + 25


@needs_proc
@pytest.mark.slow
def test_a_million_rows_in_bounded_memory(tmp_path: Path) -> None:
    assert peak(tmp_path, 62 * 16_384) < peak(tmp_path, 16_384) + 60


# -- refusals ----------------------------------------------------------------------------------------------------


def test_errors(source: Path, tmp_path: Path) -> None:
    for options, message in [
        ({"engine": "spark"}, "'engine' must be one of local, dask"),
        ({"scheduler": "tcp://localhost:1"}, "'scheduler' must be None unless engine='dask'"),
        ({"tier": "paper"}, "'tier' must be one of interval, tight"),
        ({"chunk": 0}, "'chunk' must be a whole number from 1"),
        ({"gamma": -1.0}, "'gamma' must be"),
        ({"epsilon": -1.0}, "'epsilon' must be"),
        ({"accuracy": 1.5}, "'accuracy' must be"),
    ]:
        with pytest.raises(ParameterError, match=message):
            ask(source, tmp_path / "work", **options)
    assert not (tmp_path / "work").exists()
    with pytest.raises(ParameterError, match="given to certify_dataset"):
        _ = ask(source, tmp_path / "work").verdict


def test_no_weight_and_nobody(tmp_path: Path) -> None:
    table(50).assign(w=0.0).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="all sampling weights are zero"):
        ask(tmp_path / "t.parquet", tmp_path / "work")
    table(50).assign(sex="?").to_parquet(tmp_path / "u.parquet")
    with pytest.raises(DataError, match="no row of the dataset is left"):
        ask(tmp_path / "u.parquet", tmp_path / "work", unknown="exclude")


def test_a_bad_row_stops_the_run_and_is_named(tmp_path: Path) -> None:
    frame = table(N)
    frame.loc[133, "debt"] = 9.0
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"File t\.parquet: Column 'debt', row 133"):
        ask(tmp_path / "t.parquet", tmp_path / "work")


def test_the_local_engine_gives_threads_back() -> None:
    from threadpoolctl import threadpool_info

    before = [pool["num_threads"] for pool in threadpool_info()]
    assert sorted(Embedded().run(lambda a, b: a * b, 2, range(5))) == [0, 2, 4, 6, 8]
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_progress_counts_rows(source: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    ask(source, tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (N, N) and len(seen) == 4 and seen == sorted(seen)
