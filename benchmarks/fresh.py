"""Forward passes that bounds take on networks nothing was tuned on, and on boxes beside the passes that CROWN needs.

    python -m benchmarks.fresh [--data FOLDER] [--quick] [--out studies/results/bounds.md]

Trained: four plain 2x256 networks, that of ``bounds.py`` and three with seeds and tables that no other benchmark has.
Boxes: a weighted metric of order infinity. Forwards are counted as in ``bounds.py``. CROWN is counted, not run: two
backward passes for each neuron behind the first layer, in multiplications over those of a forward pass; what it spends
on lines and on ends of regions is left out, so that its real time is above that. IBP is run: two products a layer.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
from itertools import pairwise
from pathlib import Path
from typing import Any

# One thread, which this module asks for, must be asked for before numpy is imported.
from benchmarks.bounds import FRESH_HEADING, LINES, NETWORK, Forward, forwards, random_network, say, seconds  # isort: skip

import numpy as np
import torch

import isonomy
from isonomy.parallel import set_workers
from studies.surveys.extracts import StudyFiles
from studies.surveys.load import load_population

TIERS = ("interval", "quick", "tight")
FRESH: tuple[tuple[str, str, dict[str, Any], int], ...] = (
    ("Credit", "credit", {}, 21),
    ("Employment, Vermont", "acs-employment", {"states": ["VT"]}, 22),
    ("Coverage, Wyoming", "acs-coverage", {"states": ["WY"]}, 23),
)
"""Tables and seeds of training."""

EPOCHS = 6


def trained(people: isonomy.Population, seed: int) -> isonomy.Network:
    """A plain 2x256 network: cross-entropy and Adam, as ``train_adult.py`` has it."""
    torch.manual_seed(seed)
    sizes = [people.schema.width, 256, 256, 2]
    layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    module = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    x, y = torch.tensor(people.x, dtype=torch.float32), torch.tensor(people.y)
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(x)).split(256):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(module(x[batch]), y[batch]).backward()
            optimiser.step()
    weights, biases = (
        [getattr(each, part).detach().double().numpy() for each in layers] for part in ("weight", "bias")
    )
    return isonomy.Network.from_layers(weights, biases)


def crown(sizes: list[int]) -> float:
    """Passes of CROWN: both ends of every neuron behind the first layer, carried back through the layers before."""
    products = [a * b for a, b in pairwise(sizes)]
    ends = [*sizes[2:-1], 1]  # of two outputs one margin
    carried = sum(2 * many * sum(products[: k + 1]) for k, many in enumerate(ends))
    return carried / sum(products)


class Intervals(Forward):
    """Interval bound propagation over boxes: the middle and half of every layer, into memory that is used again."""

    def __init__(self, network: isonomy.Network, rows: int, wide: float) -> None:
        super().__init__(network, rows)
        self.absolute, self.wide = [np.abs(weight) for weight, _ in self.layers], wide
        self.halves = [np.empty_like(room) for room in self.room]

    def __call__(self, x: np.ndarray) -> None:
        """Run all rows, which are as many as there is memory for."""
        middle, half = x, np.full(x.shape, self.wide)
        for (weight, bias), absolute, room, more in zip(
            self.layers, self.absolute, self.room, self.halves, strict=True
        ):
            middle, half = np.matmul(middle, weight, out=room), np.matmul(half, absolute, out=more)
            middle += bias
            if weight.shape[1] > 2:
                high = np.maximum(middle + half, 0.0)
                low = np.maximum(middle - half, 0.0, out=middle)
                np.subtract(high, low, out=half)
                half /= 2
                middle += half


def row(name: str, network: isonomy.Network, people: Any, metric: isonomy.Metric, delta: float, repeats: int) -> str:
    """The cells of one question."""
    cells = []
    for tier in TIERS:
        count, _, upper = forwards(network, people, metric, delta, repeats, tier=tier, domain="unbounded")
        cells.append(f"{count:.1f} ({upper:.5f})")
    return f"| {name} | {delta} | " + " | ".join(cells) + " |"


def on_trained(data: Path | None, tables: tuple[tuple[str, str, dict[str, Any], int], ...], repeats: int) -> None:
    say("| network | test accuracy | δ | interval | quick | tight |")
    say("|---|---|---|---|---|---|")
    adult = isonomy.load_population("adult")
    asked = [("Adult, seed 0", adult, isonomy.load_network(NETWORK, head="softmax"))]
    for name, source, load, seed in tables:
        people = load_population(source, folder=data, download=False, surveys=StudyFiles(), **load)
        asked.append((f"{name}, seed {seed}", people, trained(people.train, seed)))
    for name, people, network in asked:
        metric, some = isonomy.SensitiveSubspace.fit(people.train, ridge=1.0), people.test[:1000]
        right = float((network(people.test.x).argmax(axis=1) == people.test.y).mean())
        for delta in (0.02, 0.05):
            say(row(f"{name} | {right:.3f}", network, some, metric, delta, repeats))


def on_boxes(repeats: int) -> None:
    say("| network | δ | interval | quick | tight | IBP | CROWN, counted |")
    say("|---|---|---|---|---|---|---|")
    rng, m = np.random.default_rng(0), isonomy.load_population("adult").x.shape[1]
    x = 0.3 * rng.normal(size=(1000, m))
    for name, hidden in (("random 2x256", [256] * 2), ("random 3x256", [256] * 3), ("random 6x64", [64] * 6)):
        sizes, delta = [m, *hidden, 2], 0.002
        network = random_network(rng, sizes)
        forward, plain = Forward(network), Intervals(network, 1000, delta)
        unit = least = np.inf
        for _ in range(3 * repeats):
            unit = min(unit, seconds(functools.partial(forward, x)))
            least = min(least, seconds(functools.partial(plain, x)))
        cells = row(name, network, x, isonomy.WeightedLp(np.ones(m), np.inf), delta, repeats)
        say(f"{cells} {least / unit:.1f} | {crown(sizes):.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="the folder of survey files and of credit")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, and the bundled table without --data")
    parser.add_argument("--out", type=Path, help="write it as the last section of this page as well")
    given = parser.parse_args()
    set_workers(1)
    repeats = 1 if given.quick else 5
    say(FRESH_HEADING)
    say()
    busy = f"a load of {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores when it began"
    say(f"Written by `python -m benchmarks.fresh --out studies/results/bounds.md`, one thread, processor time, {busy}:")
    say(f"numpy {np.__version__}, {platform.machine()}, Python {platform.python_version()}.")
    say("Forward passes over the same 1,000 people, and the mean upper bound. Subspace metric with ridge 1, unbounded.")
    say()
    on_trained(given.data, () if given.quick and given.data is None else FRESH, repeats)
    say()
    say("Boxes, a metric of order infinity; CROWN is counted in multiplications, two passes for each neuron:")
    say()
    on_boxes(repeats)
    if given.out is not None:
        page = given.out.read_text(encoding="utf-8") if given.out.exists() else ""
        before, _, _ = page.partition(FRESH_HEADING)
        given.out.write_text(before.rstrip() + "\n\n" + "\n".join(LINES) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
