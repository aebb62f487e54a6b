"""Audits of large datasets: rows per second, peak memory, and what a second Dask worker brings.

    python benchmarks/scale.py [--sizes 10000 100000 1000000] [--tier interval] [--domain unbounded] [--attack]
                               [--workers-at 100000] [--out docs/results_scale.md] [--quick]

Rows are drawn with replacement from ACS Income (California 2018, the paper's encoding) where the data folder is there
(``ISONOMY_DATA``), from Adult otherwise, and written as a folder of Parquet files. Every measurement is a process of
its own, so that its peak memory is its own too; the embedded engine has one thread, and Dask workers have one each. The
row for 10^8 is extrapolated from the largest size measured, and says so. ``--quick`` takes a few thousand rows, to see
that everything works; its numbers say little.
"""

from __future__ import annotations

import argparse
import json
import pickle
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import isonomy
from isonomy.engines import certify_dataset

sys.path.insert(0, str(Path(__file__).parent))
from distributional import DELTA, GAMMA, population, train

LINES: list[str] = []
FILE_ROWS = 2**17
CENSUS = 10**8


def say(text: str = "") -> None:
    print(text, flush=True)
    LINES.append(text)


def write_dataset(people: isonomy.Population, rows: int, folder: Path) -> Path:
    """A folder of Parquet files with rows drawn from the table."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for index, start in enumerate(range(0, rows, FILE_ROWS)):
        chosen = rng.integers(0, len(people), min(FILE_ROWS, rows - start))
        some = people.frame.iloc[chosen].reset_index(drop=True)
        some.to_parquet(folder / f"{index:05d}.parquet", row_group_size=2**16)
    return folder


def child(options: argparse.Namespace) -> None:
    """One measurement: prints seconds, peak megabytes and the certificate's numbers."""
    folder = Path(options.child)
    with (folder / "question.pkl").open("rb") as file:  # written by this very program
        asked: dict[str, Any] = pickle.load(file)
    torch.set_num_threads(1)
    source = folder / f"data-{options.rows}"
    work = Path(tempfile.mkdtemp(dir=folder))
    client: Any = None
    if options.workers:
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None)
        client = Client(cluster)
        # Workers import torch and friends before the clock starts.
        certify_dataset(source=folder / "data-warm", work=work / "warm", engine="dask", chunk=500, **asked)
    start = time.perf_counter()
    engine = "dask" if options.workers else "embedded"
    found = certify_dataset(source=source, work=work / "parts", engine=engine, chunk=options.chunk, **asked)
    took = time.perf_counter() - start
    peaks = client.run(_peak).values() if client else [_peak()]
    disk = sum(path.stat().st_size for path in found.parts)
    result = {"seconds": took, "peak": max(peaks), "disk": disk, "computed": found.computed, **found.summary()}
    print(json.dumps(result))
    if client:
        client.close()
        cluster.close()


def _peak() -> float:
    """Megabytes that this process has needed."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path, rows: int, workers: int, chunk: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", str(folder), "--rows", str(rows)]
    command += ["--workers", str(workers), "--chunk", str(chunk)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--tier", choices=["interval", "tight"], default="interval")
    parser.add_argument("--domain", choices=["unbounded", "relaxed", "realizable"], default="unbounded")
    parser.add_argument("--attack", action="store_true", help="also search for a worst case")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=16_384)
    parser.add_argument("--workers-at", type=int, default=100_000, help="rows for one and two workers; 0: leave out")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    parser.add_argument("--quick", action="store_true", help="1,000 and 4,000 rows, one epoch")
    for name in ("--child", "--rows", "--workers"):
        parser.add_argument(name, type=str if name == "--child" else int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.workers_at, options.epochs, options.chunk = [1000, 4000], 4000, 1, 1000
    return options


def main() -> None:
    options = parsed()
    if options.child:
        child(options)
        return
    people = population()
    asked: dict[str, Any] = {
        "schema": people.schema, "network": train(people, options.epochs),
        "metric": isonomy.SensitiveSubspace.fit(people.train, ridge=1.0), "delta": DELTA, "gamma": GAMMA,
        "domain": options.domain, "tier": options.tier, "attack": options.attack, "rounds": options.rounds,
        "progress": None,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "question.pkl").write_bytes(pickle.dumps(asked))
        for rows in {*options.sizes, options.workers_at} - {0}:
            write_dataset(people, rows, folder / f"data-{rows}")
        write_dataset(people, 2000, folder / "data-warm")
        report(people, folder, options)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        partial.rename(options.out)


def report(people: isonomy.Population, folder: Path, options: argparse.Namespace) -> None:
    say("# Audits of large datasets")
    say()
    say(f"Written by `python benchmarks/scale.py`: rows drawn from {people.schema.name} ({people.schema.width}")
    say(
        f"coordinates), a plainly trained 2x256 network, δ = {DELTA}, γ = {GAMMA}, order 1, ℓ2, sensitive subspace with"
    )
    say(f"ridge 1, {options.domain} domain, {options.tier} tier, {options.rounds} rounds, chunks of {options.chunk:,}")
    say(f"rows, {'with' if options.attack else 'without'} search. torch {torch.__version__}, {platform.machine()}.")
    say()
    say("| rows | engine | rows/s | seconds | peak memory | parts on disk | upper | tolerance | grid error |")
    say("|---|---|---|---|---|---|---|---|---|")
    found: dict[str, Any] = {}
    for rows in sorted(options.sizes):
        found = measure(folder, rows, 0, options.chunk)
        say(
            f"| {rows:,} | embedded, 1 thread | {rows / found['seconds']:,.0f} | {found['seconds']:,.1f} | "
            f"{found['peak']:,.0f} MB | {found['disk'] / 2**20:,.1f} MB | {found['upper']:.4f} | "
            f"{found['tolerance']:.1e} | {found['grid_error']:.4f} |"
        )
    times = CENSUS / max(options.sizes)
    say(
        f"| {CENSUS:,} *(extrapolated)* | embedded, 1 thread | {max(options.sizes) / found['seconds']:,.0f} | "
        f"{found['seconds'] * times:,.0f} | {found['peak']:,.0f} MB | {found['disk'] * times / 2**20:,.0f} MB | | | |"
    )
    if options.workers_at:
        rows = options.workers_at
        one, two = (measure(folder, rows, workers, options.chunk) for workers in (1, 2))
        same = all(one[name] == two[name] for name in ("upper", "lower", "multiplier", "tolerance", "grid_error"))
        say()
        say(f"Dask at {rows:,} rows: one worker {rows / one['seconds']:,.0f} rows/s, two workers")
        say(f"{rows / two['seconds']:,.0f} rows/s: efficiency {one['seconds'] / (2 * two['seconds']):.2f}.")
        say(f"Peak memory of a worker {two['peak']:,.0f} MB. The certificates are {'equal' if same else 'NOT EQUAL'}.")


if __name__ == "__main__":
    main()
