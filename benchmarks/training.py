"""Speed of the training methods, as ratios in one run.

    python benchmarks/training.py [--quick] [--out page.md]

An epoch of each method over a plain epoch of the same network, batch size and data, in float32 on one thread; the
median of alternating epochs. 42 features, batches of 256, networks 2x256 and 1x4096.
"""

from __future__ import annotations

import argparse
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

import isonomy
from isonomy.training import FairClassifier

TARGETS = {"f-ibp": 2.5, "u-dif": 5.0, "l-dif": 6.0}
METHODS = ("sgd", "f-ibp", "u-dif", "l-dif", "sensr")


def epoch_seconds(method: Any, hidden: tuple[int, ...], x: np.ndarray, y: np.ndarray, metric: isonomy.Metric) -> float:
    """The quicker of the second and third epoch, with the penalty on from the start."""
    model = FairClassifier(method, hidden=hidden, metric=metric, epochs=3, alpha_ramp=(0.0, 0.0), random_state=0)
    return min(record["seconds"] for record in model.set_params(progress=None).fit(x, y).history_[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer individuals and repetitions")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    options = parser.parse_args()
    torch.set_num_threads(1)
    n, repeats = (4_000, 2) if options.quick else (16_000, 5)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 42))
    y = (x[:, :5].sum(axis=1) + rng.normal(size=n) > 0).astype(int)
    spread = rng.normal(size=(42, 42)) / 10
    metric = isonomy.Mahalanobis(np.eye(42) + spread @ spread.T)
    lines = [
        "# Speed of training",
        "",
        f"Written by `python benchmarks/training.py{' --quick' if options.quick else ''}`: torch {torch.__version__},",
        f"one thread, {platform.machine()}, Python {platform.python_version()}; {n:,} individuals, batches of 256.",
        "",
        "| network | method | epochs of plain training | quartiles | target |",
        "|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for hidden in ((256, 256), (4096,)):
        ratios: dict[str, list[float]] = {method: [] for method in METHODS[1:]}
        for _ in range(repeats):
            plain = epoch_seconds("sgd", hidden, x, y, metric)
            for method in METHODS[1:]:
                ratios[method].append(epoch_seconds(method, hidden, x, y, metric) / plain)
        for method, found in ratios.items():
            low, middle, high = np.quantile(found, [0.25, 0.5, 0.75])
            name, target = "x".join(map(str, hidden)), TARGETS.get(method, "")
            lines.append(f"| {name} | {method} | {middle:.2f} | {low:.2f} to {high:.2f} | {target} |")
            print(lines[-1], flush=True)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
        partial.rename(options.out)


if __name__ == "__main__":
    main()
