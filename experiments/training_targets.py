"""Accuracy and certificates of trained networks on ACS Income, the numbers that the training is judged by.

    python experiments/training_targets.py [--seeds 3] [--only u-dif] [--out table.md]

California 2018 in the paper's columns, metric fitted on the training split (sensitive subspace, ridge 1), delta 0.05,
gamma 0.1 (order 1, l2), 2x256, certificates of 1000 test individuals on the unbounded domain. The box form of the paper
stands beside ours.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import isonomy
from isonomy.training import FairClassifier

DELTA, GAMMA = 0.05, 0.1
MODELS: dict[str, dict[str, Any]] = {
    "plain, rate 0.001": {"method": "sgd"},
    "plain, rate 0.002": {"method": "sgd", "learning_rate": 2e-3},
    "f-ibp": {"method": "f-ibp", "alpha": 1.8},
    "u-dif, alpha 0.3": {"method": "u-dif", "alpha": 0.3},
    "u-dif, alpha 0.8": {"method": "u-dif", "alpha": 0.8},
    "l-dif, alpha 1": {"method": "l-dif", "alpha": 1.0},
    "sensr": {"method": "sensr"},
    "box f-ibp, alpha 1": {"method": "f-ibp", "bound": "paper", "alpha": 1.0},
    "box f-ibp, alpha 5": {"method": "f-ibp", "bound": "paper", "alpha": 5.0},
}


def main() -> None:
    """Train, certify, print one line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--certified", type=int, default=1200, help="test individuals")
    parser.add_argument("--realizable", action="store_true", help="also on the realizable domain, which takes longer")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    people = isonomy.load_population("acs-income", states=["CA"], years=[2018], encoding="paper", domain="unbounded")
    train, test = people.train, people.test
    metric = isonomy.SensitiveSubspace.fit(train, ridge=1.0)
    some = test.sample(options.certified, seed=0)
    lines = [
        "| model | accuracy | balanced | mean local upper | distributional upper | realizable domain | seconds | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name, parameters in MODELS.items():
        if options.only not in name:
            continue
        rows, note = [], ""
        for seed in range(options.seeds):
            model = FairClassifier(
                delta=DELTA, gamma=GAMMA, metric=metric, epochs=options.epochs, random_state=seed, progress=None
            ).set_params(**parameters)
            began = time.perf_counter()
            model.fit(train)
            took = time.perf_counter() - began
            given = model.predict(test)
            right = given == test.y
            balanced = np.mean([right[test.y == c].mean() for c in np.unique(test.y)])
            if len(np.unique(given)) == 1:
                note = "predicts one class only"
            shifted = model.certify(some, attack=False)
            known = model.certify(some, attack=False, domain="realizable").upper if options.realizable else np.nan
            rows.append((right.mean(), balanced, shifted.local.mean_upper, shifted.upper, known, took))
        line = f"| {name} | {' | '.join(f'{mean:.4f}' for mean in np.mean(rows, axis=0))} | {note} |"
        print(line, flush=True)
        lines.append(line)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
        partial.rename(options.out)


if __name__ == "__main__":
    main()
