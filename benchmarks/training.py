"""Speed of the training methods, as ratios in one run.

    python benchmarks/training.py [--quick] [--wide] [--out page.md]

An epoch of each method over a plain epoch of the same network, batch size and data, in float32 on one thread: CPU time,
so that other work on the machine disturbs little; each repeat trains plainly and then with every method, and the median
of the repeats counts. 42 features, batches of 256, networks 2x256 and 1x4096. ``--wide`` also trains a network of width
4096 on Adult to the end, once with ``f-ibp`` and once with ``l-dif``.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

import isonomy
from isonomy.training import FairClassifier

TARGETS = {"f-ibp": 2.4, "u-dif": 3.9, "l-dif": 6.0}
METHODS = ("sgd", "f-ibp", "u-dif", "residual", "l-dif", "sensr", "sensei")
WIDE = {"f-ibp": 5, "l-dif": 60}
"""Minutes within which a network of width 4096 is to be trained on Adult."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer individuals and repetitions")
    parser.add_argument("--wide", action="store_true", help="also train width 4096 on Adult, which takes minutes")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    options = parser.parse_args()
    torch.set_num_threads(1)
    flags = "".join(f" --{name}" for name in ("quick", "wide") if getattr(options, name))
    lines = [
        "# Speed of training",
        "",
        f"Written by `python benchmarks/training.py{flags}`: torch {torch.__version__}, one thread,",
        f"{platform.machine()}, Python {platform.python_version()}; CPU time.",
        "",
    ]
    print("\n".join(lines), flush=True)
    for line in chain(ratios(options.quick), wide() if options.wide else []):
        print(line, flush=True)
        lines.append(line)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
        partial.rename(options.out)


def ratios(quick: bool) -> Iterator[str]:
    """Epochs of each method in epochs of plain training."""
    n, repeats = (512, 1) if quick else (16_000, 7)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 42))
    y = (x[:, :5].sum(axis=1) + rng.normal(size=n) > 0).astype(int)
    spread = rng.normal(size=(42, 42)) / 10
    metric = isonomy.Mahalanobis(np.eye(42) + spread @ spread.T)
    yield f"{n:,} individuals, batches of 256, {repeats} repeats."
    yield ""
    yield "| network | method | epochs of plain training | quartiles | target |"
    yield "|---|---|---|---|---|"
    for hidden in ((16, 16), (32,)) if quick else ((256, 256), (4096,)):
        found: dict[str, list[float]] = {method: [] for method in METHODS[1:]}
        for _ in range(repeats):
            plain = epoch_seconds("sgd", hidden, x, y, metric)
            for method in METHODS[1:]:
                found[method].append(epoch_seconds(method, hidden, x, y, metric) / plain)
        for method, each in found.items():
            low, middle, high = np.quantile(each, [0.25, 0.5, 0.75])
            name = f"{len(hidden)}x{hidden[0]}"
            yield f"| {name} | {method} | {middle:.2f} | {low:.2f} to {high:.2f} | {TARGETS.get(method, '')} |"


def epoch_seconds(method: Any, hidden: tuple[int, ...], x: np.ndarray, y: np.ndarray, metric: isonomy.Metric) -> float:
    """CPU seconds of the quicker of the second and third epoch, with the penalty on from the start."""
    ends: list[float] = []
    model = FairClassifier(method, hidden=hidden, metric=metric, epochs=3, alpha_ramp=(0.0, 0.0), random_state=0)
    model.set_params(validation=0.0, progress=None).fit(x, y, on_epoch=lambda record: ends.append(time.process_time()))
    return float(np.diff(ends).min())


def wide() -> Iterator[str]:
    """Width 4096 on Adult, with the defaults of the estimator."""
    people = isonomy.load_population("adult")
    yield ""
    yield f"Adult, one hidden layer of 4096, {len(people.train):,} individuals, the estimator's defaults:"
    yield ""
    yield "| method | epochs | CPU minutes | wanted | accuracy |"
    yield "|---|---|---|---|---|"
    for method, wanted in WIDE.items():
        began = time.process_time()
        model = FairClassifier(method, hidden=(4096,), random_state=0, progress=None).fit(people)
        took = (time.process_time() - began) / 60
        accuracy = model.score(people.test, people.test.y)
        yield f"| {method} | {model.n_iter_} | {took:.1f} | {wanted} | {accuracy:.4f} |"


if __name__ == "__main__":
    main()
