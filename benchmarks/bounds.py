"""Speed and tightness of the bounds, as ratios measured in one run.

    python benchmarks/bounds.py [--quick]

Speed: the interval tier on 101 → 256 → 256 → 2 over n individuals, unbounded Mahalanobis metric, float64, against
three plain torch matrix products with ReLU over the same chunks and threads; the median of 15 alternating runs.
Tightness: the mean upper bound on the plainly trained Adult network (see ``train_adult.py``), δ = 0.02, beside the box
form of the paper and the lower bound of an attack.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import isonomy
from isonomy.certify.local import CHUNK

NETWORK = Path(__file__).parent / "networks" / "adult_2x256.onnx"


def speed(n: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    sizes = [(256, 101), (256, 256), (2, 256)]
    weights = [rng.normal(size=size) / np.sqrt(size[1]) for size in sizes]
    biases = [0.05 * rng.normal(size=size[0]) for size in sizes]
    network = isonomy.Network.from_layers(weights, biases)
    spread = rng.normal(size=(101, 101)) / 10
    metric = isonomy.Mahalanobis(np.eye(101) + spread @ spread.T)
    x = 0.3 * rng.normal(size=(n, 101))

    layers = [(torch.tensor(w).T.contiguous(), torch.tensor(b)) for w, b in zip(weights, biases, strict=True)]
    chunks = torch.from_numpy(x).split(CHUNK)

    def plain() -> None:
        for rows in chunks:
            hidden = torch.relu(torch.addmm(layers[0][1], rows, layers[0][0]))
            hidden = torch.relu(torch.addmm(layers[1][1], hidden, layers[1][0]))
            torch.addmm(layers[2][1], hidden, layers[2][0])

    def interval() -> None:
        isonomy.certify_local(network, x, metric, 0.02, tier="interval", attack=False, predict=False)

    ratios = [_seconds(interval) / _seconds(plain) for _ in range(repeats + 1)][1:]
    print(f"interval tier, n = {n:,}: {np.median(ratios):.2f} times three plain products", end=" ")
    print(
        f"(quartiles {np.quantile(ratios, 0.25):.2f}, {np.quantile(ratios, 0.75):.2f}; {torch.get_num_threads()} threads)"
    )


def tightness(n: int) -> None:
    people = isonomy.load_population("adult")
    network = isonomy.load_network(NETWORK)
    accuracy = (network(people.test.x).argmax(axis=1) == people.test.y).mean()
    print(
        f"Adult, plain 2x256, test accuracy {accuracy:.4f}; delta 0.02, {n} test individuals; mean upper (90th percentile)"
    )
    metric = isonomy.SensitiveSubspace.fit(people.train, ridge=1.0)
    some = people.test[:n]
    for label, domain, tier in (
        ("box form of the paper, unbounded", "unbounded", "paper"),
        ("interval, unbounded", "unbounded", "interval"),
        ("interval, realizable", "realizable", "interval"),
    ):
        found = isonomy.certify_local(network, some, metric, 0.02, domain=domain, tier=tier)
        high = np.quantile(found.upper, 0.9)
        print(f"  {label:34} {found.mean_upper:.4f} ({high:.4f}); attack reaches {found.mean_lower:.4f}")


def _seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables, fewer repetitions")
    quick = parser.parse_args().quick
    torch.set_num_threads(min(2, torch.get_num_threads()))
    speed(10_000 if quick else 100_000, 3 if quick else 15)
    tightness(200 if quick else 1000)


if __name__ == "__main__":
    main()
