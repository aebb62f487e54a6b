"""Peak memory and the longest part of an audit whose people have hundreds of similar regions each, as ratios.

    python benchmarks/memory.py [--people 200 1600] [--hidden 64] [--gamma 0.1] [--no-search] [--local] [--quick]

Adult, with sex, race, marital status and relationship free: 420 combinations of categories are similar to everybody.
Every measurement is a process of its own. Memory is counted above that of a process that has read table and network,
and printed as a multiple of the smallest table's: where it does not grow with the table, the ratio stays near one. The
longest time between two finished parts is a share of the whole run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import isonomy
from isonomy.auditing.inputs import train_small
from isonomy.parallel import set_workers

FREE = ("sex", "race", "marital-status", "relationship")


def megabytes() -> float:
    """The most memory that this process has needed."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def everybody() -> isonomy.Population:
    """Adult's test part, with 420 combinations of free categories."""
    table = isonomy.load_population("adult")
    features = tuple(replace(each, proxy=True) if each.name in FREE else each for each in table.schema.features)
    schema = replace(table.schema, features=features)
    return isonomy.Population.from_frame(table.frame, schema)


def child(options: argparse.Namespace) -> None:
    """One measurement: prints seconds, megabytes, and the longest time between two parts and two ticks."""
    set_workers(1)
    table = everybody()
    network = train_small(table.train.sample(2000, 0), (options.hidden, options.hidden))
    people = table.test.sample(options.people[0], 0)
    metric = isonomy.Counterparts.of(table.schema)
    before, began = megabytes(), time.perf_counter()
    ticks: list[float] = []

    def tick(done: int, total: int) -> None:
        ticks.append(time.perf_counter() - began)

    if options.local:
        isonomy.certify_local(network, people, metric, 1.0, attack=not options.no_search, progress=tick)
        written: list[float] = []
    else:
        with tempfile.TemporaryDirectory() as work:
            isonomy.certify(
                network, people, metric, gamma=options.gamma, attack=not options.no_search, work=work, progress=tick,
                decide=not options.no_search,
            )  # fmt: skip
            parts = sorted(Path(work).glob("parts/*.arrays"))
            written = sorted(part.stat().st_mtime for part in parts)
    took = time.perf_counter() - began
    said = {
        "seconds": took, "before": before, "peak": megabytes(), "parts": len(written),
        "longest_part": _longest([time.time() - took, *written]), "longest_tick": _longest([0.0, *ticks]),
    }  # fmt: skip
    print(json.dumps(said))


def _longest(times: list[float]) -> float:
    return max((after - before for before, after in itertools.pairwise(times)), default=0.0)


def measured(options: argparse.Namespace, people: int) -> dict[str, Any]:
    """What this program prints in a process of its own."""
    flags = [f"--{name.replace('_', '-')}" for name in ("no_search", "local") if getattr(options, name)]
    words = ["--child", "--people", people, "--hidden", options.hidden, "--gamma", options.gamma, *flags]
    command = [sys.executable, __file__, *map(str, words)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    result: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, nargs="+", default=[200, 1600])
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--gamma", type=float, default=0.1)
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--local", action="store_true", help="certify_local, without a shift")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    options = parser.parse_args()
    if options.quick:
        options.people, options.hidden, options.gamma = [2, 4], 8, 0.01
    if options.child:
        child(options)
        return
    print("| people | parts | memory, of the smallest | longest part, of the run | longest silence, of the run |")
    print("|---|---|---|---|---|")
    first = 0.0
    for people in options.people:
        found = measured(options, people)
        used = found["peak"] - found["before"]
        first = first or used or math.nan  # of very few people nothing is seen
        part, silence = (found[name] / found["seconds"] for name in ("longest_part", "longest_tick"))
        print(f"| {people:,} | {found['parts']} | {used / first:.2f} | {part:.3f} | {silence:.3f} |", flush=True)
        print(f"{people} people: {found}", file=sys.stderr)


if __name__ == "__main__":
    main()
