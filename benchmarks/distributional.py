"""Distributional certificates: what they prove, what they cost, and how far they are from what is attained.

    python benchmarks/distributional.py [--quick] [--million] [--out studies/results/distributional.md]

A plainly trained 2x256 network, δ = 0.05, γ = 0.1, order 1, ℓ2 ground cost, sensitive-subspace metric with ridge 1
fitted on the training split, 1000 test individuals. ACS Income (California 2018, the paper's encoding) where the data
folder is there (``ISONOMY_DATA``), Adult otherwise. Times are divided by that of one pass of the tight tier over the
same individuals in the same run; ``--million`` adds the interval tier at n = 1,000,000 and its peak memory.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import isonomy
from isonomy.parallel import set_workers, workers

LINES: list[str] = []
DELTA, GAMMA = 0.05, 0.1


def say(text: str = "") -> None:
    print(text, flush=True)
    LINES.append(text)


def seconds(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def population() -> isonomy.Population:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from studies.surveys import load_population

    try:
        return load_population("acs-income", encoding="paper", states=["CA"], years=[2018], download=False)
    except isonomy.IsonomyError as error:
        print(f"No ACS data ({error}); Adult instead.")
        return isonomy.load_population("adult")


def train(people: isonomy.Population, epochs: int) -> isonomy.Network:
    """Cross-entropy and Adam with a falling step, nothing else."""
    torch.manual_seed(0)
    width = people.x.shape[1]
    layers = [torch.nn.Linear(width, 256), torch.nn.Linear(256, 256), torch.nn.Linear(256, 2)]
    module = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    x = torch.tensor(people.train.x, dtype=torch.float32)
    y = torch.tensor(np.asarray(people.train.y))
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * (1 - epoch / epochs)
        for batch in torch.randperm(len(x)).split(512):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
    return isonomy.Network.from_torch(module.double())


def million(people: isonomy.Population, network: isonomy.Network, metric: isonomy.Metric) -> None:
    """The interval tier at n = 1,000,000: individuals from a file, chunk by chunk."""
    rows = 1_000_000
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "people.parquet"
        with pq.ParquetWriter(table, pa.Table.from_pandas(people.frame, preserve_index=False).schema) as writer:
            for start in range(0, rows, 2**16):
                chosen = np.arange(start, min(start + 2**16, rows)) % len(people)
                writer.write_table(pa.Table.from_pandas(people.frame.iloc[chosen], preserve_index=False))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        start_time = time.perf_counter()
        found = isonomy.certify(
            network, table, metric, DELTA, GAMMA, schema=people.schema, work=Path(name) / "work", domain="unbounded",
            tier="interval", attack=False, rounds=1, progress=None,
        )  # fmt: skip
        took, peak = time.perf_counter() - start_time, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    say(f"Interval tier, unbounded, n = {len(found):,}: upper {found.upper:.4f}, {took:.0f} s, process peak")
    say(f"{peak:.2f} GB (pages of mapped files are counted), of which {before:.2f} GB before; the table in")
    say(f"fair coordinates would be {rows * people.x.shape[1] * 8 / 2**30:.2f} GB.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer individuals, epochs and repetitions")
    parser.add_argument("--million", action="store_true", help="also the interval tier at n = 1,000,000")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    options = parser.parse_args()
    set_workers(min(2, workers()))
    people = population()
    network = train(people, 1 if options.quick else 8)
    metric = isonomy.SensitiveSubspace.fit(people.train, ridge=1.0)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.choice(len(people.test), 5 if options.quick else 1000, replace=False))
    some, repeats = people.test[chosen], 1 if options.quick else 3
    accuracy = (network(people.test.x).argmax(axis=1) == people.test.y).mean()
    say("# Distributional certificates")
    say()
    say(f"Written by `python benchmarks/distributional.py{' --quick' if options.quick else ''}`: {people.schema.name},")
    say(f"test accuracy {accuracy:.4f}, {len(some)} test individuals, numpy {np.__version__},")
    say(f"{workers()} workers. δ = {DELTA}, γ = {GAMMA}, order 1, ℓ2, ridge 1. Times are in passes of the")
    say("tight tier over the same individuals (median); 'all' includes the search for a worst case.")
    say()
    say("| domain | rounds | mean local upper | upper | grid error | lower | ratio | time, bounds | time, all |")
    say("|---|---|---|---|---|---|---|---|---|")
    for domain in ("unbounded", "realizable"):

        def local(domain: str = domain) -> object:
            return isonomy.certify_local(
                network, some, metric, DELTA, domain=domain, attack=False, predict=False, progress=None
            )

        for rounds in (1,) if options.quick else (0, 1, 4):

            def whole(attack: bool, domain: str = domain, rounds: int = rounds) -> isonomy.Certificate:
                found = isonomy.certify(
                    network, some, metric, DELTA, GAMMA, domain=domain, attack=attack, rounds=rounds, progress=None
                )
                found.curve([0.0, 0.05, 0.1, 0.2])
                return found

            unit = seconds(local, 2 * repeats - 1)
            bounds = seconds(lambda: whole(False), repeats)
            began = time.perf_counter()
            found = whole(True)
            everything = time.perf_counter() - began
            say(
                f"| {domain} | {rounds} | {found.local.mean_upper:.4f} | {found.upper:.4f} | {found.grid_error:.4f} | "
                f"{found.lower:.4f} | {found.upper / found.lower:.2f} | {bounds / unit:.1f} | {everything / unit:.1f} |"
            )
    if options.million:
        say()
        million(people.test, network, metric)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(LINES) + "\n", encoding="utf-8")
        partial.rename(options.out)


if __name__ == "__main__":
    main()
