"""Audits of large datasets: rows per second, peak memory, and what a second Dask worker brings.

    python benchmarks/scale.py [--sizes 10000 100000 1000000] [--tier interval] [--domain unbounded] [--attack]
                               [--workers-at 100000] [--out docs/results_scale.md] [--quick]
    python benchmarks/scale.py --dual 1000000 10000000 100000000 [--out docs/results_scale_dual.md]

Rows are drawn with replacement from ACS Income (California 2018, the paper's encoding) where the data folder is there
(``ISONOMY_DATA``), from Adult otherwise, and written as a folder of Parquet files. Every measurement is a process of
its own, so that its peak memory is its own too; the local engine has one thread, and Dask workers have one each. The
row for 10^8 is extrapolated from the largest size measured, and says so. ``--quick`` takes a few thousand rows, to see
that everything works; its numbers say little.

``--dual`` measures the sums alone, with so many profiles: a million invented ones, in parts of the engine's own form,
which are read from the disk, compared with their checksums and added up as often as it takes. Everything behind the
bounds of an audit is there (receipts of all parts, all passes of the dual, upper, lower and grid error); the bounds
themselves are not.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import isonomy
from isonomy.certificates.dual import Cells, evaluate
from isonomy.engines import certify_dataset
from isonomy.engines.dataset import ACCURACY, _known
from isonomy.engines.job import Job, finish
from isonomy.engines.parts import Part, write_part
from isonomy.engines.runners import Embedded
from isonomy.parallel import set_workers
from isonomy.population import ChunkKey

sys.path.insert(0, str(Path(__file__).parent))
from distributional import DELTA, GAMMA, population, train

LINES: list[str] = []
FILE_ROWS = 2**17
CENSUS = 10**8
PARTS, PART_ROWS = 64, 15_625  # a million profiles
RADII, FINDS = 4, 3  # radii of each profile; points found for each individual by a search


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
        certify_dataset(source=folder / "data-warm", work=work / "warm", engine="dask", chunk=500, **asked)
    start = time.perf_counter()
    engine = "dask" if options.workers else "local"
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
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--tier", choices=["interval", "tight"], default="interval")
    parser.add_argument("--domain", choices=["unbounded", "relaxed", "realizable"], default="unbounded")
    parser.add_argument("--attack", action="store_true", help="also search for a worst case")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=16_384)
    parser.add_argument("--workers-at", type=int, default=100_000, help="rows for one and two workers; 0: leave out")
    parser.add_argument("--dual", type=int, nargs="+", help="measure the sums alone, over so many profiles")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    parser.add_argument("--quick", action="store_true", help="1,000 and 4,000 rows, one epoch")
    for name in ("--child", "--dual-child", "--rows", "--workers"):
        parser.add_argument(name, type=str if name.endswith("child") else int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.workers_at, options.epochs, options.chunk = [1000, 4000], 4000, 1, 1000
    return options


def main() -> None:
    options = parsed()
    if options.child:
        child(options)
    elif options.dual_child:
        dual_child(Path(options.dual_child), options.rows)
    elif options.dual:
        report_dual(sorted(options.dual), FINDS if options.attack else 1)
    else:
        measure_audits(options)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        partial.rename(options.out)


def measure_audits(options: argparse.Namespace) -> None:
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
    say("| rows | engine | rows/s | seconds | peak memory | parts on disk | upper | tolerance | grid error |")
    say("|---|---|---|---|---|---|---|---|---|")
    found: dict[str, Any] = {}
    for rows in sorted(options.sizes):
        found = measure(folder, rows, 0, options.chunk)
        say(
            f"| {rows:,} | local, 1 thread | {rows / found['seconds']:,.0f} | {found['seconds']:,.1f} | "
            f"{found['peak']:,.0f} MB | {found['disk'] / 2**20:,.1f} MB | {found['upper']:.4f} | "
            f"{found['tolerance']:.1e} | {found['grid_error']:.4f} |"
        )
    times = CENSUS / max(options.sizes)
    say(
        f"| {CENSUS:,} *(extrapolated)* | local, 1 thread | {max(options.sizes) / found['seconds']:,.0f} | "
        f"{found['seconds'] * times:,.0f} | *not extrapolated* | {found['disk'] * times / 2**20:,.0f} MB | | | |"
    )
    say()
    say("Memory is that of one chunk; what could grow with the rows, the receipts and the sums over all profiles, is")
    say("measured for itself in [results_scale_dual.md](results_scale_dual.md).")
    if options.workers_at:
        rows = options.workers_at
        one, two = (measure(folder, rows, workers, options.chunk) for workers in (1, 2))
        same = all(one[name] == two[name] for name in ("upper", "lower", "multiplier", "tolerance", "grid_error"))
        say()
        say(f"Dask at {rows:,} rows: one worker {rows / one['seconds']:,.0f} rows/s, two workers")
        say(f"{rows / two['seconds']:,.0f} rows/s: efficiency {one['seconds'] / (2 * two['seconds']):.2f}.")
        say(f"Peak memory of a worker {two['peak']:,.0f} MB. The certificates are {'equal' if same else 'NOT EQUAL'}.")


# -- the sums alone ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repeated:
    """Stands for a job whose parts are all finished: block ``i`` finds the part ``i`` modulo their number."""

    folder: Path
    order: float = 1.0
    gamma: float = GAMMA
    plan: None = None

    def key(self, block: ChunkKey) -> str:
        """Of the part."""
        return str(block.index % PARTS)

    def path(self, block: ChunkKey) -> Path:
        """Where it is."""
        return self.folder / f"{block.index % PARTS:08d}.parquet"

    part = Job.part


class Counted(Embedded):
    """This process, and how often it went over the parts."""

    passes = 0

    def run(self, work: Callable[..., Any], shared: Any, items: Sequence[Any]) -> Iterator[Any]:
        """As in this process."""
        self.passes += 1
        return super().run(work, shared, items)


def invented(index: int, finds: int) -> Part:
    """Profiles that rise from the individual's own bound towards 1, and finds below them."""
    rng = np.random.default_rng(index)
    radii = np.concatenate([[0.0], np.geomspace(0.05, 0.8, RADII - 1)])
    own, room = rng.beta(1, 6, PART_ROWS), rng.uniform(0.3, 1.0, PART_ROWS)
    profile = own + (1 - own) * room * (1 - np.exp(-np.outer(radii, rng.uniform(0.2, 3, PART_ROWS))))
    cost = np.concatenate([np.zeros((1, PART_ROWS)), rng.uniform(0, 1, (finds - 1, PART_ROWS))])
    bound = profile[np.minimum(np.searchsorted(radii, cost), RADII - 1), np.arange(PART_ROWS)]
    value = own * rng.random(cost.shape) + (bound - own) * (cost > 0) * rng.random(cost.shape)
    rows, weights = np.arange(PART_ROWS) + index * PART_ROWS, rng.uniform(0.5, 200, PART_ROWS)
    return Part(str(index), rows, weights, radii, profile, 1.0, cost, value, 0)


def dual_child(folder: Path, rows: int) -> None:
    """The sums over so many profiles: prints seconds, megabytes and the bounds."""
    set_workers(1)
    begin, start = _peak(), time.process_time()
    job, where = Repeated(folder), Counted()
    cuts = enumerate(range(0, rows, PART_ROWS))
    blocks = [ChunkKey(i, "invented", first, first + PART_ROWS) for i, first in cuts]
    receipts = list(where.run(finish, job, blocks))
    weight = sum(receipt.weight for receipt in receipts)
    dual = _known(job, receipts[0].radii, receipts[0].largest, weight, receipts, where, ACCURACY)
    found, lower = dual.uppers([GAMMA])[0], dual.lowers([GAMMA])[0]
    result = {
        "profiles": sum(receipt.rows for receipt in receipts), "parts": len(receipts), "passes": where.passes,
        "upper": found.upper, "lower": lower, "multiplier": found.multiplier, "tolerance": found.tolerance,
        "grid_error": dual.grid_error(GAMMA), "seconds": time.process_time() - start, "begin": begin, "peak": _peak(),
    }  # fmt: skip
    print(json.dumps(result))


def report_dual(sizes: Sequence[int], finds: int) -> None:
    million = PARTS * PART_ROWS
    for size in sizes:
        if size < 1 or size % million:
            sys.exit(f"--dual takes multiples of {million:,}. Got {size:,}.")
    say("# The dual over many profiles")
    say()
    say("Written by `python benchmarks/scale.py --dual`: what a large audit does once its parts are finished, in one")
    say(f"process with one thread. {million:,} invented profiles ({RADII} radii, {finds} points found, all weights")
    say(f"different) are {PARTS} Parquet parts of the engine's own form. Each pass reads them as often as it takes to")
    say(
        "have so many profiles, compares every part with its key and checksum each time, and adds everything up without"
    )
    say("rounding. So reading, checking, adding, the receipts of all parts and the search for the multiplier are those")
    say(
        "of an audit with so many rows; but the files come from the page cache rather than from a disk, and no bound of"
    )
    say(f"an individual is computed. Order 1, γ = {GAMMA}. *Peak*: megabytes that the process has needed, of which it")
    say("had needed *before* when all modules were loaded. *Check*: the bound, less the formula at the same multiplier")
    say("over the million profiles in memory, by other code: more of the same people have the same mean.")
    say()
    say("| profiles | parts | passes | CPU seconds | before | peak | upper | lower | tolerance | grid error | check |")
    say("|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        made = [invented(index, finds) for index in range(PARTS)]
        for index, part in enumerate(made):
            write_part(part, Path(name) / f"{index:08d}.parquet")
        profile, weights = np.concatenate([part.profile.T for part in made]), np.concatenate([p.weights for p in made])
        cells = Cells.from_profiles(made[0].radii, profile, made[0].largest, weights)
        for size in sizes:
            found = measured("--dual-child", name, "--rows", size)
            check = found["upper"] - evaluate(cells, 1.0, GAMMA, found["multiplier"])
            say(
                f"| {found['profiles']:,} | {found['parts']:,} | {found['passes']} | {found['seconds']:,.0f} | "
                f"{found['begin']:,.0f} MB | {found['peak']:,.0f} MB | {found['upper']:.6f} | {found['lower']:.6f} | "
                f"{found['tolerance']:.1e} | {found['grid_error']:.4f} | {check:.1e} |"
            )


if __name__ == "__main__":
    main()
