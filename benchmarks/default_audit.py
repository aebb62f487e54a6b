"""Processor time and memory of a default audit, and of what a person costs in it.

    python -m benchmarks.default_audit [--people 5000] [--only "2x64"] [--moving 40] [--profile]
    python -m benchmarks.default_audit --streamed 10000 40000
    python -m benchmarks.default_audit --quick

An audit as ``isonomy audit`` asks it: all notions without transport, witnesses, decisions, groups, report and record,
of people of the bundled Adult table, whose counterparts have 420 combinations of categories, for plain networks 2x64
and 2x256; every audit is a process of its own, and its peak of memory is that process's. ``--moving`` people are
certified for all populations within 0.1 with the curve. ``german`` is the bundled audit, with transport 0.1 and its
curve as well. ``--streamed`` are rows drawn from Adult with replacement, written as Parquet and audited from there in
this process and a folder for its work, without a search unless ``--search`` is said: two sizes show what a row more
needs in memory. One thread; seconds are those of a processor, since a clock says what else the machine did.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.combinations import trained

from isonomy import Counterparts, Transport, certify, certify_local, load_population
from isonomy.auditing.inputs import read_inputs
from isonomy.auditing.output import write
from isonomy.auditing.pipeline import run
from isonomy.auditing.plan import Plan
from isonomy.networks import Network
from isonomy.parallel import one_thread
from isonomy.population import Population

SIZES = {"2x64": (64, 64), "2x256": (256, 256)}
FILE_ROWS = 2**14


def plain(size: str, people: Population, learned: int | None) -> Network:
    """Train a plain network on the training part, or on some of it."""
    return trained(people.train if learned is None else people.train.sample(learned), SIZES[size], 0)


class Own:
    """The most memory of this process that is not mapped from files, in MiB, looked at a hundred times a second."""

    def __enter__(self) -> Own:
        self.before = self.peak = own_memory()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.01):
            self.peak = max(self.peak, own_memory())


def own_memory() -> float:
    """Memory of this process that is not mapped from files, in MiB; not a number where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 2**10 for line in lines if line.startswith("RssAnon")), float("nan"))


def audited(plan: Plan, model: object, announce: Callable[[str], None]) -> None:
    """One audit, written."""
    inputs = read_inputs(plan, model)  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work" if plan.engine else None  # as the command line has it
        findings = run(plan, None, work=work, inputs=inputs, announce=announce)
        announce("Report and record")
        write(findings, Path(folder) / "out", work=work)


def streamed(rows: int, search: bool, learned: int | None) -> None:
    """Audit a dataset that is read by chunks; print as :func:`measured` does."""
    adult, rng = load_population("adult"), np.random.default_rng(0)
    network = plain("2x64", adult, learned)
    with tempfile.TemporaryDirectory() as name:
        data, schema = Path(name) / "data", Path(name) / "schema.toml"
        data.mkdir()
        schema.write_text(adult.schema.to_toml(), encoding="utf-8")
        for start in range(0, rows, FILE_ROWS):
            some = rng.integers(0, len(adult), min(FILE_ROWS, rows - start))
            adult.frame.iloc[some].reset_index(drop=True).to_parquet(data / f"{start:09d}.parquet")
        plan = Plan(
            data=str(data), schema=str(schema), split="all", engine="local", no_search=not search, out=f"{name}/out"
        )
        measured(f"adult 2x64, streamed, {rows:,} rows", plan, network, False)


def measured(name: str, plan: Plan, model: object, profile: bool) -> None:
    """Print seconds of each stage and in all, and the peak of memory."""
    stages: list[tuple[str, float]] = []
    profiler = cProfile.Profile()
    began, clock = time.process_time(), time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if profile:
        profiler.enable()
    with Own() as own:
        audited(plan, model, lambda stage: stages.append((stage, time.process_time())))
    ended = time.process_time()
    ends = [*(at for _, at in stages[1:]), ended]
    parts = ", ".join(f"{stage.lower()} {end - at:.1f}" for (stage, at), end in zip(stages, ends, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name}: {ended - began:.1f} s of a processor ({time.perf_counter() - clock:.0f} on the clock): {parts}; peak "
        f"{peak:.3f} GiB ({before:.3f} before), of its own {own.peak:.1f} MiB ({own.before:.1f} before)",
        flush=True,
    )
    if profile:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)


def each(name: str, people: int, moving: int, learned: int | None) -> None:
    """Print milliseconds a person of a local bound with witnesses, and of all populations within 0.1 with a curve."""
    adult = load_population("adult")
    network, metric = plain(name, adult, learned), Counterparts.of(adult.schema)
    some = adult.test.sample(people)
    certify_local(network, some[:8], metric, 1.0, progress=None)
    began = time.process_time()
    certify_local(network, some, metric, 1.0, progress=None)
    print(
        f"{name}: local bound with witnesses {(time.process_time() - began) / people * 1e3:.2f} ms a person", flush=True
    )
    if moving:
        began = time.process_time()
        found = certify(network, adult.test.sample(moving), metric, 1.0, Transport(0.1), progress=None, decide=True)
        found.curve(found.shift.sizes())
        spent = (time.process_time() - began) / moving * 1e3
        ratio = found.upper / found.lower
        print(f"{name}: within 0.1 with curve {spent:.1f} ms a person, upper / lower {ratio:.3f}", flush=True)


def main() -> None:
    """Print a line for each audit, and for each size the cost of a person."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=5000)
    parser.add_argument("--moving", type=int, default=0)
    parser.add_argument("--local", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--streamed", type=int, nargs="*", default=[], help="nothing but audits of so many rows")
    parser.add_argument("--search", action="store_true", help="look for witnesses in these too")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    given = parser.parse_args()
    if given.quick:
        given.people, given.local, given.moving = 50, 10, 2
    learned = 500 if given.quick else None
    if given.one:
        with one_thread():
            if given.one.isdecimal():
                streamed(int(given.one), given.search, learned)
            elif given.one == "german":
                measured("german with transport", Plan(gamma=0.1), None, given.profile)
            else:
                network = plain(given.one, load_population("adult"), learned)
                plan = Plan(data="adult", limit=given.people)
                measured(f"adult {given.one}, {given.people:,} people", plan, network, given.profile)
        return
    names = (100, "2x64") if given.quick else given.streamed or (*SIZES, "german")
    for name in names:
        if given.only in str(name):
            command = [sys.executable, "-m", "benchmarks.default_audit", "--one", str(name)]
            command += ["--people", str(given.people)]
            command += [f"--{flag}" for flag in ("profile", "search", "quick") if getattr(given, flag)]
            subprocess.run(command, check=True)
            if name in SIZES and given.local:
                with one_thread():
                    each(name, given.local, given.moving, learned)


if __name__ == "__main__":
    main()
