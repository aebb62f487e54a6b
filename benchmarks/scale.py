"""Audits of large datasets: rows per second, peak memory, and what a second Dask worker brings.

    python benchmarks/scale.py [--sizes 1000 4000] [--tier interval] [--domain unbounded] [--attack]
                               [--workers-at 4000] [--out studies/results/scale.md] [--quick]

Rows are drawn with replacement from ACS Income (California 2018, the paper's encoding) where the data folder is there
(``ISONOMY_DATA``), from Adult otherwise, and written as a folder of Parquet files. Every measurement is a process of
its own, so that its peak memory is its own too; the local engine has one thread, and Dask workers have one each. With
the default sizes that takes some four minutes on two idle cores. The row for 10^8 is extrapolated from the largest size
measured, and says so. ``--quick`` takes a few hundred rows, to see that everything works; its numbers say little.
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

import isonomy
from isonomy.parallel import set_workers

sys.path.insert(0, str(Path(__file__).parent))
from distributional import DELTA, GAMMA, population, train

LINES: list[str] = []
FILE_ROWS = 2**17
WARM_ROWS = 100
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
    set_workers(1)
    source = folder / f"data-{options.rows}"
    work = Path(tempfile.mkdtemp(dir=folder))
    client: Any = None
    if options.workers:
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=None)
        client = Client(cluster)
        # Workers import numpy and friends before the clock starts.
        isonomy.certify(people=folder / "data-warm", work=work / "warm", engine="dask", chunk=50, **asked)
    start = time.perf_counter()
    engine = "dask" if options.workers else "local"
    found = isonomy.certify(people=source, work=work / "audit", engine=engine, chunk=options.chunk, **asked)
    took = time.perf_counter() - start
    peaks = client.run(_peak).values() if client else [_peak()]
    disk = sum(path.stat().st_size for path in (work / "audit").rglob("*") if path.is_file())
    names = ("upper", "lower", "multiplier", "grid_error", "computed")
    result = {"seconds": took, "peak": max(peaks), "disk": disk} | {name: getattr(found, name) for name in names}
    print(json.dumps(result))
    if client:
        client.close()
        cluster.close()


def _peak() -> float:
    """Megabytes that this process has needed; where the kernel tells, without what its parent had when it began."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(folder: Path, rows: int, workers: int, chunk: int) -> dict[str, Any]:
    return measured("--child", folder, "--rows", rows, "--workers", workers, "--chunk", chunk)


def measured(*words: object) -> dict[str, Any]:
    """What this program prints in a process of its own."""
    command = [sys.executable, __file__, *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--tier", choices=["interval", "tight"], default="interval")
    parser.add_argument("--domain", choices=["unbounded", "relaxed", "realizable"], default="unbounded")
    parser.add_argument("--attack", action="store_true", help="also search for a worst case")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=500)
    parser.add_argument("--workers-at", type=int, default=4000, help="rows for one and two workers; 0: leave out")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    parser.add_argument("--quick", action="store_true", help="100 and 200 rows, one epoch")
    for name in ("--child", "--rows", "--workers"):
        parser.add_argument(name, type=str if name.endswith("child") else int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.workers_at, options.epochs, options.chunk = [100, 200], 200, 1, 100
    return options


def main() -> None:
    options = parsed()
    if options.child:
        child(options)
    else:
        measure_audits(options)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        partial.rename(options.out)


def measure_audits(options: argparse.Namespace) -> None:
    people = population()
    asked: dict[str, Any] = {
        "schema": people.schema, "model": train(people, options.epochs),
        "metric": isonomy.SensitiveSubspace.fit(people.train, ridge=1.0), "delta": DELTA, "gamma": GAMMA,
        "domain": options.domain, "tier": options.tier, "attack": options.attack, "rounds": options.rounds,
        "progress": None,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "question.pkl").write_bytes(pickle.dumps(asked))
        for rows in {*options.sizes, options.workers_at} - {0}:
            write_dataset(people, rows, folder / f"data-{rows}")
        write_dataset(people, WARM_ROWS, folder / "data-warm")
        report(people, folder, options)


def report(people: isonomy.Population, folder: Path, options: argparse.Namespace) -> None:
    say("# Audits of large datasets")
    say()
    say(f"Written by `python benchmarks/scale.py`: rows drawn from {people.schema.name} ({people.schema.width}")
    say(
        f"coordinates), a plainly trained 2x256 network, δ = {DELTA}, γ = {GAMMA}, order 1, ℓ2, sensitive subspace with"
    )
    say(f"ridge 1, {options.domain} domain, {options.tier} tier, {options.rounds} rounds, chunks of {options.chunk:,}")
    say(f"rows, {'with' if options.attack else 'without'} search. numpy {np.__version__}, {platform.machine()}.")
    say()
    say("| rows | engine | rows/s | seconds | peak memory | work folder | upper | grid error |")
    say("|---|---|---|---|---|---|---|---|")
    found: dict[str, Any] = {}
    for rows in sorted(options.sizes):
        found = measure(folder, rows, 0, options.chunk)
        say(
            f"| {rows:,} | local, 1 thread | {rows / found['seconds']:,.0f} | {found['seconds']:,.1f} | "
            f"{found['peak']:,.0f} MB | {found['disk'] / 2**20:,.1f} MB | {found['upper']:.4f} | "
            f"{found['grid_error']:.4f} |"
        )
    times = CENSUS / max(options.sizes)
    say(
        f"| {CENSUS:,} *(extrapolated)* | local, 1 thread | {max(options.sizes) / found['seconds']:,.0f} | "
        f"{found['seconds'] * times:,.0f} | *not extrapolated* | {found['disk'] * times / 2**20:,.0f} MB | | |"
    )
    say()
    say(
        "Peak memory counts pages of mapped files too, which the system takes back when it needs them; the rest is that"
    )
    say("of a chunk, and a few numbers for each row.")
    if options.workers_at:
        rows = options.workers_at
        none = found if rows == max(options.sizes) else measure(folder, rows, 0, options.chunk)
        one, two = (measure(folder, rows, workers, options.chunk) for workers in (1, 2))
        same = all(none[name] == one[name] == two[name] for name in ("upper", "lower", "multiplier", "grid_error"))
        say()
        say(f"Dask at {rows:,} rows: one worker {rows / one['seconds']:,.0f} rows/s, two workers")
        say(f"{rows / two['seconds']:,.0f} rows/s, {none['seconds'] / two['seconds']:.2f} times as many as one process")
        say(f"without Dask ({rows / none['seconds']:,.0f} rows/s).")
        say(f"Peak memory of a worker {two['peak']:,.0f} MB. The certificates are {'equal' if same else 'NOT EQUAL'}.")


if __name__ == "__main__":
    main()
