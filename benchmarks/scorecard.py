"""The default of ``FairClassifier`` against the plain regression, on people who were not learned from.

    python benchmarks/scorecard.py [--quick] [--out page.md]

Adult (three samples of 8,000 training rows) and German (ten splits, 718 rows to learn from); the metric is SenSR with
ridge 1, delta .02, gamma .025 on the unbounded domain. Both models are chosen by the same rule, as their estimator does
it: the lowest cross-validated log-loss among those certified at 0.85 epsilon on training people. Judged are test rows:
log-loss and AUC on all of them, bounds on 200. At last the default on all of Adult's training rows, with the seconds of
CPU that it takes.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import isonomy
from isonomy.training.choice import Candidate

LEVELS = {"adult": (0.02, 0.03, 0.05), "german": (0.006, 0.01, 0.015)}
SEEDS = {"adult": 3, "german": 10}
HEAD = ("data", "epsilon", "log-loss of the regression", "of the default", "difference ± SE", "AUC", "", "local", "",
        "within γ", "", "not a regression")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one sample of Adult, few people")
    parser.add_argument("--out", type=Path, help="write the page here as well")
    options = parser.parse_args()
    flag = " --quick" if options.quick else ""
    lines = ["# The certified scorecard and the plain regression", "",
             f"Written by `python benchmarks/scorecard.py{flag}`: {platform.machine()},",
             f"Python {platform.python_version()}. Pairs of columns: regression, default. "
             + " ".join(__doc__.split("\n\n")[2].split()), ""]  # fmt: skip
    print("\n".join(lines), flush=True)
    for line in (*table(options.quick), *speed(options.quick)):
        print(line, flush=True)
        lines.append(line)
    if options.out is not None:
        partial = options.out.with_suffix(".partial")
        partial.write_text("\n".join(lines) + "\n", encoding="utf-8")
        partial.rename(options.out)


def table(quick: bool) -> Iterator[str]:
    """A row for each table and level: means over its samples."""
    yield "| " + " | ".join(HEAD) + " |"
    yield "|---" * len(HEAD) + "|"
    for data, levels in list(LEVELS.items())[: 1 if quick else None]:
        runs = [judged(data, seed, levels, quick) for seed in range(1 if quick else SEEDS[data])]
        for epsilon in levels:
            rows = np.array([run[epsilon] for run in runs])  # (seeds, 2, log-loss AUC local upper bent)
            mean, apart = rows.mean(0), rows[:, 1, 0] - rows[:, 0, 0]
            error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
            cells = [f"{mean[side, k]:.4f}" for k in (1, 2, 3) for side in (0, 1)]
            yield (
                f"| {data} | {epsilon:g} | {mean[0, 0]:.4f} | {mean[1, 0]:.4f} | {apart.mean():+.4f} ± {error:.4f} | "
                f"{' | '.join(cells)} | {rows[:, 1, 4].sum():.0f} of {len(rows)} |"
            )


def judged(data: str, seed: int, levels: tuple[float, ...], quick: bool) -> dict[float, list[list[float]]]:
    """For every level the regression and the default: log-loss, AUC, both bounds, and whether it is no regression."""
    whole = isonomy.load_population(data, domain="unbounded")
    if data == "adult":
        learned, others = whole.train.sample(200 if quick else 8000, seed=seed), whole.test
    else:
        order = np.random.default_rng(seed).permutation(len(whole))
        learned, others = whole[np.sort(order[:718])], whole[np.sort(order[718:])]
    metric = isonomy.SensitiveSubspace.fit(learned, ridge=1.0)
    model = isonomy.FairClassifier(
        delta=0.02, gamma=0.025, metric=metric, random_state=seed, progress=None, judged=5 if quick else 100
    ).fit(learned)
    some, bounds = others.sample(5 if quick else 200, seed=seed), dict[int, list[float]]()

    def of(row: int) -> list[float]:
        if row not in bounds:
            candidate: Candidate = model.candidates_[row]
            model.network_ = candidate.network(model.domain_)
            scored = isonomy.fairness.scores(model.network_, others)
            proved = model.certify(some, attack=False, progress=None)
            bent = float(candidate.family != "regression")
            bounds[row] = [scored["log_loss"], scored["auc"], proved.local.mean_upper, proved.upper, bent]
        return bounds[row]

    found = {}
    for epsilon in levels:
        chosen = model.choice_.at(epsilon)
        found[epsilon] = [of(chosen.regression), of(chosen.chosen)]
    return found


def speed(quick: bool) -> Iterator[str]:
    """The default on all rows of Adult."""
    people = isonomy.load_population("adult").train
    people = people.sample(200) if quick else people
    started = time.process_time()
    model = isonomy.FairClassifier(epsilon=0.05, random_state=0, progress=None).fit(people)
    seconds = time.process_time() - started
    yield ""
    yield f"The default on {len(people):,} rows of Adult, epsilon .05, counterparts: {seconds:.0f} s of CPU with its"
    yield "choice and certificates."
    yield ""
    yield f"```\n{model.choice_}\n```"


if __name__ == "__main__":
    main()
