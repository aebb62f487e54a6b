"""People cut into chunks, in memory or in files: closed answers, both doors, killed runs, damaged parts, memory."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy import files
from isonomy.certificates import Transport, chunks
from isonomy.certificates.certify import LARGEST_CHUNK, certify
from isonomy.certificates.dual import Dual
from isonomy.certificates.moving import Moving
from isonomy.engine import LocalEngine
from isonomy.errors import DataError, FileError, MetricError, ParameterError, SoundnessError
from isonomy.files import read_arrays, remove_partial_files
from isonomy.networks.network import Network
from isonomy.parallel import set_workers, workers
from isonomy.population import Feature, Label, Population, Schema, open_people
from isonomy.similarity import WeightedLp
from isonomy_verify.dual import Cells
from isonomy_verify.dual import bound as evaluate
from isonomy_verify.local import LocalBounds

from .people import METRIC, QUICK, SCHEMA, ask, network, numbers, stamps, table

N = 150
PROGRAM = Path(__file__).with_name("people.py")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four parts."""
    table(N).to_parquet(tmp_path / "t.parquet", row_group_size=64)
    return tmp_path / "t.parquet"


def as_program(source: Path, work: Path, after: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.certificates.people", str(source), str(work), str(after)]
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
        tmp_path / "t.csv", tmp_path / "work", domain=None, attack=True, schema=schema, model=model,
        metric=WeightedLp([1, 1], 2), order=order,
        tier="tight", chunk=4,
    )  # fmt: skip
    assert 0.1 - 1e-12 <= found.upper <= 0.1 + 1e-9
    assert 0.1 * (1 - 1e-3) <= found.lower <= 0.1
    assert len(found) == 9 and found.computed == 3


@pytest.mark.some(4)
@pytest.mark.parametrize("chunk", [12, 24, 5, 1000, 23, 1])
@pytest.mark.parametrize(("tier", "order"), [("interval", 1.0), ("tight", math.inf), ("tight", 2.0)])
def test_both_doors_are_one(source: Path, tmp_path: Path, tier: str, order: float, chunk: int) -> None:
    """People in memory and their files, with and without a folder for work: the same bounds."""
    table(24).to_parquet(source, row_group_size=11)
    options = {"tier": tier, "order": order, "attack": True, "chunk": chunk}
    people = Population.from_file(source, SCHEMA, domain="unbounded")
    whole = ask(people, None, **options)
    for other in (
        ask(source, tmp_path / "work", **options),
        ask(source, None, **options),
        ask(people, tmp_path / "other", **options),
        ask(pd.read_parquet(source), None, **options),
        ask(open_people(source, SCHEMA), None, **options),
    ):
        assert other.upper == pytest.approx(whole.upper, rel=0, abs=1e-12)
        assert other.lower == pytest.approx(whole.lower, rel=0, abs=1e-12)
        assert numbers(other) == numbers(whole)
    assert 0 < whole.lower <= whole.upper


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("tier", "order", "gamma"),
    [("interval", 1.0, 0.1), ("tight", math.inf, 0.1), pytest.param("tight", 2.0, 0.05, marks=pytest.mark.slow)],
)
def test_many_chunks_are_as_tight_as_one(source: Path, tmp_path: Path, tier: str, order: float, gamma: float) -> None:
    """Not the same pilot group, and so not the same radii, but nearly the same bounds; and never contradicting."""
    found = ask(source, tmp_path / "work", tier=tier, order=order, gamma=gamma, epsilon=0.5, attack=True, rounds=2)
    people = Population.from_file(source, SCHEMA)
    options = {"order": order, "tier": tier, "domain": "unbounded", "rounds": 2, "attack": QUICK, "progress": None}
    whole = certify(network(), people, METRIC, 0.1, gamma, **options)
    assert found.computed == 4 and whole.computed == 1
    assert found.upper == pytest.approx(whole.upper, rel=0.1) and found.lower == pytest.approx(whole.lower, rel=0.05)
    assert max(found.lower, whole.lower) <= min(found.upper, whole.upper)
    assert len(found) == N and np.array_equal(found.weights, people.weights)
    curve, other = found.curve([0.0, 0.05, 0.2]), whole.curve([0.0, 0.05, 0.2])
    assert np.allclose(curve["upper"], other["upper"], rtol=0.1) and np.allclose(
        curve["lower"], other["lower"], rtol=0.1
    )
    assert (curve["lower"] <= other["upper"]).all() and (other["lower"] <= curve["upper"]).all()
    assert found.verdict == ("certified" if found.upper <= 0.5 else "undecided")
    tolerance = found.dual.bound(gamma).tolerance
    assert tolerance <= 1e-6 and found.grid_error >= tolerance


def test_the_parts_prove_it(source: Path, tmp_path: Path) -> None:
    """With no more than the files: the dual's formula over all parts gives the bound bit for bit."""
    found = ask(source, tmp_path / "work")
    names = ("profile_value", "profile_radius", "profile_count", "weights", "rows")
    parts = []
    for path in sorted((tmp_path / "work" / "parts").iterdir()):
        with path.open("rb") as file:
            part = read_arrays(path, json.loads(file.readline())["about"])
        assert part is not None and part["largest"].tolist() == [1.0]
        parts.append([part[name] for name in names])
    bound, radius, counts, weights, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    near, far, value, owner, open_ = [], [], [], [], []
    at = 0
    for i, count in enumerate(counts.tolist()):
        own, said = radius[at : at + count].tolist(), bound[at : at + count].tolist()
        assert own[0] == 0 and own == sorted(own)
        near += [0.0, *own]
        far += [*own, math.inf]
        value += [*said, 1.0]
        owner += [i] * (count + 1)
        open_ += [False] + [True] * count
        at += count
    cells = Cells(*(np.array(column) for column in (owner, near, far, value, open_)), weights)
    assert evaluate(cells, 1.0, 0.1, found.multiplier) == found.upper
    assert found.upper == pytest.approx(Dual([cells], Transport(order=1.0)).bound(0.1).upper, rel=1e-13)
    assert rows.tolist() == list(range(N))


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
    assert len(found) == len(kept) == len(other) and found.weights.sum() == other.weights.sum()
    assert found.people is not None and found.people.excluded == (41 if way == "excluded" else 0)
    assert found.upper == pytest.approx(other.upper, rel=0.3)  # other chunks, another pilot group
    assert found.curve([0.0])["upper"][0] == pytest.approx(other.curve([0.0])["upper"][0], abs=1e-12)


@pytest.mark.slow
def test_the_same_whatever_the_threads(source: Path, tmp_path: Path) -> None:
    found = []
    try:
        for threads in (1, 3):
            set_workers(threads)
            found.append(numbers(ask(source, tmp_path / f"work{threads}", tier="tight")))
            assert workers() == threads
    finally:
        set_workers(None)
    assert found[0] == found[1]


def contents(work: Path) -> dict[str, bytes]:
    """All files of a work folder."""
    return {str(path.relative_to(work)): path.read_bytes() for path in work.rglob("*") if path.is_file()}


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
    assert again.computed == 4 - len(finished) and whole.computed == 4 and numbers(again) == numbers(whole)
    assert not list(work.rglob("*.partial"))
    assert contents(work) == contents(tmp_path / "whole")


@pytest.mark.slow
def test_killed_at_any_moment(source: Path, tmp_path: Path) -> None:
    """Killed from outside, each time after some more parts or at once, until a run comes through."""
    rng, work = np.random.default_rng(0), tmp_path / "work"
    command = [sys.executable, "-m", "tests.certificates.people", str(source), str(work), "1000000"]
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
    assert deaths > 0 and json.loads(out) == json.loads(json.dumps(numbers(ask(source, tmp_path / "whole"))))


def test_a_finished_run_is_only_read(source: Path, tmp_path: Path) -> None:
    first = ask(source, tmp_path)
    before = stamps(tmp_path)
    second = ask(source, tmp_path)
    assert second.computed == 0 and stamps(tmp_path) == before and numbers(second) == numbers(first)


def test_a_damaged_part_is_computed_again(source: Path, tmp_path: Path) -> None:
    first = numbers(ask(source, tmp_path))
    good, damaged, lost, swapped = sorted(tmp_path.glob("parts/*"))
    right = damaged.read_bytes()
    middle = len(right) // 3
    damaged.write_bytes(right[:middle] + bytes([right[middle] ^ 1]) + right[middle + 1 :])
    lost.unlink()
    swapped.write_bytes(good.read_bytes())  # a good part of other people
    second = ask(source, tmp_path)
    assert second.computed == 3 and numbers(second) == first
    assert damaged.read_bytes() == right


def test_a_part_that_changes_while_it_is_worked_on_is_an_error(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(source, tmp_path)
    _, one, other, _ = sorted(tmp_path.glob("parts/*"))

    def damage(done: int, total: int) -> None:
        if done == total:
            other.write_bytes(one.read_bytes())

    with pytest.raises(FileError, match="was changed after it was finished"):
        ask(source, tmp_path, progress=damage)


def test_a_certificate_does_not_change_with_the_folder(source: Path, tmp_path: Path) -> None:
    """Whatever the next run does with the folder, the first certificate says what it said."""
    first = ask(source, tmp_path)
    said = numbers(first)
    table(N, seed=1).to_parquet(source, row_group_size=64)
    assert numbers(ask(source, tmp_path)) != said
    assert numbers(first) == said


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "change",
    [
        {"model": network(1)},
        {"metric": WeightedLp([1.0, 2.0, 1.0, 1.001], 2)},
        {"delta": 0.1000001},
        {"gamma": 0.11},
        {"order": 1.5},
        {"ground": "l1"},
        {"domain": "relaxed"},
        {"tier": "tight"},
        {"rounds": 2},
        {"attack": True},
        {"attack": replace(QUICK, seed=1)},
        {"chunk": 1},
        {"decide": True},
        {"output_range": (0.0, 1.0)},
        {"arithmetic": "float32"},
        {"unknown": "exclude"},
        {"split": "test"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_questions_do_not_use_its_parts(source: Path, tmp_path: Path, change: dict[str, object]) -> None:
    table(6).to_parquet(source)
    ask(source, tmp_path, order=math.inf)
    found = ask(source, tmp_path, **{"order": math.inf, **change})
    assert found.computed == (6 if change == {"chunk": 1} else 1)


def test_other_data_do_not_use_its_parts(source: Path, tmp_path: Path) -> None:
    """Not even where the plan is the same for all."""
    assert ask(source, tmp_path, order=math.inf).computed == 4
    table(N, seed=1).to_parquet(source, row_group_size=64)
    assert ask(source, tmp_path, order=math.inf).computed == 4


# -- memory ------------------------------------------------------------------------------------------------------

_MEMORY = """
import re, sys, threading, time
from pathlib import Path
from tests.certificates.people import ask
peak = 0
def watch():
    global peak
    while True:
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]))
        time.sleep(0.001)
threading.Thread(target=watch, daemon=True).start()
found = ask(Path(sys.argv[1]), Path(sys.argv[2]), chunk=8192, rounds=0)
found.curve([0.05, 0.2]), found.largest_gamma(0.3)
print(len(found), peak / 1024)
"""
"""The peak of the process's own memory, without files that are only mapped: their pages are given back when needed."""

ROW = 250
"""Bytes of memory for each individual, beside those of a chunk: bounds, and where the worst case stands."""

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="peak memory is read from /proc")


def peak(folder: Path, n: int) -> float:
    """Megabytes that the certificate of n rows needed, the dataset a folder of small files."""
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
@pytest.mark.parametrize("files", [8, pytest.param(62, marks=pytest.mark.long)])
def test_a_row_costs_a_few_numbers(tmp_path: Path, files: int) -> None:
    """A hundred thousand rows, and a million."""
    assert peak(tmp_path, files * 16_384) < peak(tmp_path, 16_384) + ROW * files * 16_384 / 2**20 + 5


# -- refusals ----------------------------------------------------------------------------------------------------


def test_errors(source: Path, tmp_path: Path) -> None:
    for options, message in [
        ({"engine": "spark"}, "'engine' must be one of local, dask"),
        ({"scheduler": "tcp://localhost:1"}, "'scheduler' must be None unless engine='dask'"),
        ({"tier": "paper"}, "'tier' must be one of interval, tight"),
        ({"chunk": 0}, "'chunk' must be a whole number from 1"),
        ({"chunk": LARGEST_CHUNK + 1}, "'chunk' must be a whole number from 1 to 4194304"),
        ({"gamma": -1.0}, "'gamma' must be"),
        ({"epsilon": -1.0}, "'epsilon' must be"),
        ({"work": 5}, "'work' must be a path"),
    ]:
        with pytest.raises(ParameterError, match=message):
            ask(source, **{"work": tmp_path / "work", **options})
    assert not (tmp_path / "work").exists()
    with pytest.raises(ParameterError, match="given to certify"):
        _ = ask(source, tmp_path / "work").verdict


def test_no_weight_and_nobody(tmp_path: Path) -> None:
    table(50).assign(w=0.0).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="all sampling weights are zero"):
        ask(tmp_path / "t.parquet", tmp_path / "work")
    table(50).assign(w=1e-160).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(DataError, match=r"'w': the sampling weights add up to 5e-159; scale them .* 3e-151 and"):
        ask(tmp_path / "v.parquet", tmp_path / "work")
    table(50).assign(sex="?").to_parquet(tmp_path / "u.parquet")
    with pytest.raises(DataError, match="no row of the table is left"):
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
    assert sorted(LocalEngine().map(lambda a, b: a * b, 2, range(5))) == [0, 2, 4, 6, 8]
    assert [pool["num_threads"] for pool in threadpool_info()] == before


def test_progress_counts_rows(source: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    ask(source, tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (N, N) and len(seen) >= 4 and seen == sorted(seen)


@pytest.mark.some(1)
@pytest.mark.parametrize("attack", [True, False])
def test_progress_moves_within_a_chunk(source: Path, attack: bool) -> None:
    """In every stage, and only up to the last individual before the chunk is finished."""
    seen: list[tuple[int, int]] = []
    ask(source, None, chunk=1000, tier="tight", attack=attack, progress=lambda *both: seen.append(both))
    assert seen[0] == (0, N) and seen[-1] == (N, N) and seen == sorted(seen)  # nobody is done with the pilot group
    assert len(set(seen)) >= (6 if attack else 4) and any(N / 3 < done < N for done, _ in seen[:-1])


# -- contradictions ----------------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("place", ["local", "profile", "dual", "read"])
def test_a_bound_that_is_too_small_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """In a chunk, in a part that is computed or read, and in the whole: an error with a file in the work folder.

    Of the test part, so that rows are not where they stand in a chunk.
    """
    source, work = tmp_path / "people.csv", tmp_path / "work"
    table(60).to_csv(source, index=False)
    if place == "read":
        assert ask(source, work, attack=True, split="test").lower > 0
        read = files.read_arrays

        def lie(path: Path, about: str) -> dict[str, np.ndarray] | None:
            found = read(path, about)
            return None if found is None else found | {"profile_value": found["profile_value"] / 1e3}

        monkeypatch.setattr(files, "read_arrays", lie)
    elif place == "dual":
        mean = Dual._mean
        monkeypatch.setattr(Dual, "_mean", lambda *given: mean(*given) / 1e3)
    else:
        owner, name = (LocalBounds, "_violation") if place == "local" else (Moving, "bound")
        honest = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, **named: honest(*given, **named) / 1e3)
    with pytest.raises(SoundnessError) as error:
        ask(source, work, attack=True, split="test")
    assert error.value.file is not None and error.value.file.parent == work
    document = json.loads(error.value.file.read_text())
    assert document["lower"] > document["upper"]
    if place != "dual":
        assert SCHEMA.encode(table(60)).x[document["row"]] == pytest.approx(document["individual"], abs=1e-9)
    if place == "local":
        assert table(60)["part"][document["row"]] == "new" and not list(work.glob("parts/*"))


# -- one call ----------------------------------------------------------------------------------------------------


def test_one_call_for_people_in_memory_and_in_files(tmp_path: Path) -> None:
    people = isonomy.load_population("german")
    rng = np.random.default_rng(0)
    net = isonomy.Network.from_layers(
        [rng.normal(size=(4, people.x.shape[1])) / 8, rng.normal(size=(2, 4))], [np.zeros(4), np.zeros(2)]
    )
    metric, path = isonomy.Counterparts.of(people.schema), tmp_path / "people.parquet"
    people.frame.head(40).to_parquet(path)
    options = {"tier": "interval", "attack": False, "progress": None}
    large = isonomy.certify(net, path, metric, 1.0, 0.1, schema=people.schema, work=tmp_path / "work", **options)
    small = isonomy.certify(net, people[:40], metric, 1.0, 0.1, **options)
    assert isinstance(large, isonomy.Certificate) and isinstance(small, isonomy.Certificate)
    assert len(large) == len(small.local) and large.upper == small.upper and 0 < large.upper <= 1
    assert large.sources == (("people.parquet", hashlib.sha256(path.read_bytes()).hexdigest()),)
    with pytest.raises(ParameterError, match="'schema' must be given beside"):
        isonomy.certify(net, path, metric, 1.0, 0.1)


# -- folders that are shared or damaged --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [{"rungs": None}, {"rungs": ["a"]}, {"rungs": [math.nan]}, {"rungs": []}, {"multiplier": None}, {"first": -1}],
)
def test_a_damaged_schedule_is_made_again(source: Path, tmp_path: Path, damage: dict[str, object]) -> None:
    work = tmp_path / "work"
    whole = ask(source, work)
    known = json.loads((work / "schedule.json").read_text())
    for content in (known | damage, {name: known[name] for name in known if name not in damage}):
        (work / "schedule.json").write_text(json.dumps(content))
        again = ask(source, work)
        assert numbers(again) == numbers(whole) and again.computed == 0
        assert json.loads((work / "schedule.json").read_text()) == known


def test_columns_stay_ones_own_when_another_run_writes_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = chunks.atomic

    @contextmanager
    def overtaken(path: Path) -> Iterator[Path]:
        with usual(path) as partial:
            yield partial
        with usual(path) as partial:
            partial.write_bytes(np.full(5, 7.0).tobytes())

    monkeypatch.setattr(chunks, "atomic", overtaken)
    columns = chunks.joined(iter([{"upper": np.arange(3.0)}, {"upper": np.arange(2.0)}]), tmp_path / "columns")
    assert columns["upper"].tolist() == [0, 1, 2, 0, 1]


def test_only_what_is_older_than_the_run_is_swept(tmp_path: Path) -> None:
    for name, age in (("old", 10.0), ("new", -10.0)):
        (tmp_path / f"{name}.partial").touch()
        os.utime(tmp_path / f"{name}.partial", (time.time() - age,) * 2)
    remove_partial_files(tmp_path, time.time())
    assert [path.name for path in tmp_path.iterdir()] == ["new.partial"]


@pytest.mark.parametrize("with_folder", [True, False])
@pytest.mark.parametrize("labelled", [0, 1])
def test_labels_in_some_files_only_are_refused(tmp_path: Path, with_folder: bool, labelled: int) -> None:
    schema = Schema("labels", (Feature("a", low=-2, high=2, origin=0, unit=1),), label=Label("y", ("no", "yes")))
    frame = pd.DataFrame({"a": [0.0, 1.0, -1.0], "y": ["no", "yes", "no"]})
    (tmp_path / "t").mkdir()
    for i in range(2):
        (frame if i == labelled else frame[["a"]]).to_parquet(tmp_path / "t" / f"{i}.parquet")
    work = tmp_path / "work" if with_folder else None
    with pytest.raises(DataError, match="Some files of the table have the label column and others have none"):
        certify(
            Network.from_layers([[[1.0]]], [[0.0]], head="sigmoid"), tmp_path / "t", WeightedLp([1.0]), 0.1, 0.1,
            schema=schema, work=work, progress=None,
        )  # fmt: skip


def test_an_opened_file_is_named_as_a_source(tmp_path: Path) -> None:
    schema = Schema("file", (Feature("a", low=-2, high=2, origin=0, unit=1),))
    pd.DataFrame({"a": [0.0, 1.0]}).to_csv(tmp_path / "t.csv", index=False)
    net = Network.from_layers([[[1.0]]], [[0.0]], head="sigmoid")
    found = certify(net, open_people(tmp_path / "t.csv", schema), WeightedLp([1.0]), 0.1, 0.1, progress=None)
    assert [name for name, _ in found.sources] == ["t.csv"]


def test_a_pilot_group_of_tiny_weights(tmp_path: Path) -> None:
    schema = Schema("weights", (Feature("a", low=-2, high=2, origin=0, unit=1),), weight="w")
    frame = pd.DataFrame({"a": np.linspace(-2, 2, 100), "w": 1e-300})
    frame.loc[7, "w"] = 1.0
    net = Network.from_layers([[[1.0]]], [[0.0]], head="sigmoid")
    found = certify(net, frame, WeightedLp([1.0]), 0.1, 0.1, schema=schema, progress=None)
    assert 0 < found.lower <= found.upper < 0.1


def test_a_ground_cost_that_leaves_free_what_is_read() -> None:
    net = Network.from_layers([[[1.0, 1.0]]], [[0.0]], head="sigmoid")
    with pytest.raises(MetricError, match="The ground cost leaves 'x1' free, which the network reads"):
        certify(net, np.zeros((2, 2)), WeightedLp([1.0, 1.0]), 0.1, 0.1, ground=WeightedLp([1.0, 0.0]), progress=None)


def test_one_person_says_nothing_of_a_population() -> None:
    schema = Schema("one", (Feature("a", low=-2, high=2, origin=0, unit=1),))
    people = Population.from_frame(pd.DataFrame({"a": [0.0]}), schema).held_out()
    net = Network.from_layers([[[1.0]]], [[0.0]], head="sigmoid")
    found = certify(net, people, WeightedLp([1.0]), 0.1, 0.1, confidence=0.9, progress=None)
    assert found.refusal == "A bound for the population needs at least two individuals."
