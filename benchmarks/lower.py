"""How much of the violation that is there does the search find?

    python benchmarks/lower.py [--first 0] [--cases 96] [--people 12] [--keep FILE] [--known FILE] [--quick]

Random small networks, metrics and domains: the share of people whose ``lower`` reaches 99 % of the truth, the mean
ratio, and the processor time of the search. The truth of a case is the best of what the exact tier attains, what an
evolutionary search attains that knows nothing of regions and gradients, and, where nothing but few whole numbers and
categories move, of all similar individuals. *proved* is the share of people of whom the exact tier shows that there is
no more than 1 % above it. ``--keep`` stores what was found, ``--known`` prints it beside (and counts it towards the
truth, so that only the search itself is run again).
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"  # before numpy is imported

import argparse  # noqa: E402
import itertools  # noqa: E402
import math  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import NamedTuple  # noqa: E402

import numpy as np  # noqa: E402

import isonomy  # noqa: E402
from isonomy.networks.graph import Activation  # noqa: E402
from isonomy.population import Domain, Feature, Schema  # noqa: E402

ACTIVATIONS = ("relu", "relu", "tanh", "sigmoid", "leaky_relu", "silu")
HEADS = (("softmax", 2), ("softmax", 3), ("regression", 1), ("sigmoid", 1), ("sigmoid", 2))
METRICS = ("mahalanobis", "l1", "l2", "linf", "counterparts")
ATTAINED = 0.99


class Case(NamedTuple):
    """One question: a network, people, who is similar to whom, and what kind of case it is."""

    group: str
    network: isonomy.Network
    x: np.ndarray
    metric: isonomy.Metric
    delta: float
    domain: Domain


def schema() -> Schema:
    return Schema(
        "people",
        (
            Feature("a", low=0.0, high=1.0, origin=0.0, unit=1.0, tolerance=0.3),
            Feature("b", low=-1.0, high=1.0, origin=0.0, unit=1.0, tolerance=0.5),
            Feature("k", "integer", low=0, high=9, origin=0.0, unit=4.0, tolerance=3.0),
            Feature("j", "integer", low=-5, high=5, origin=0.0, unit=4.0, tolerance=2.0),
            Feature("sex", "categorical", categories=("f", "m"), protected=True),
            Feature("job", "categorical", categories=("x", "y", "z"), proxy=True),
        ),
    )


def people(rng: np.random.Generator, n: int) -> np.ndarray:
    """Rows of the schema: two numbers, two whole numbers, two categories."""
    numbers = [rng.random(n), rng.uniform(-1, 1, n), rng.integers(0, 10, n) / 4.0, rng.integers(-5, 6, n) / 4.0]
    return np.column_stack([*numbers, np.eye(2)[rng.integers(2, size=n)], np.eye(3)[rng.integers(3, size=n)]])


def network(rng: np.random.Generator, width: int, kind: str) -> isonomy.Network:
    """A perceptron; ``plateau`` has neurons that sleep, ``saturated`` outputs that are all but 0 or 1."""
    depth, hidden = int(rng.integers(1, 5)), int(rng.integers(4, 13))
    head, outputs = HEADS[rng.integers(len(HEADS))]
    activation = str(rng.choice(["relu", "clip"] if kind == "plateau" else ACTIVATIONS))
    pairs = list(itertools.pairwise([width, *[hidden] * depth, outputs]))
    gain = rng.uniform(1.0, 2.5)
    weights = [gain * rng.normal(size=(b, a)) / math.sqrt(a) for a, b in pairs]
    biases = [0.5 * rng.normal(size=b) for _, b in pairs]
    if kind == "plateau":
        biases = [*(bias - rng.uniform(0.5, 1.5) for bias in biases[:-1]), biases[-1]]
    if kind == "saturated":
        weights[-1], biases[-1] = 20 * weights[-1], 20 * biases[-1]
    parameters = {"leaky_relu": (0.1,), "clip": (0.0, 1.0)}.get(activation, ())
    return isonomy.Network.from_layers(weights, biases, Activation(activation, parameters), head)


def case(number: int, n: int) -> Case:
    """The question of this number."""
    rng = np.random.default_rng(number)
    kind = ("plain", "plain", "plateau", "saturated")[number % 4]
    space = ("unbounded", "relaxed", "realizable", "whole")[number // 4 % 4]
    table = schema()
    if space == "unbounded":
        width = int(rng.integers(2, 9))
        x, domain = rng.normal(size=(n, width)), Domain.unbounded(width)
    else:
        x, width = people(rng, n), table.width
        domain = table.domain("realizable" if space == "whole" else space)  # type: ignore[arg-type]
    name = METRICS[rng.integers(5 if space != "unbounded" else 4)]
    if space == "whole":
        tolerance = [0.0, 0.0, rng.uniform(0.3, 1.0), rng.uniform(0.3, 1.0)]
        metric: isonomy.Metric = isonomy.Counterparts([*tolerance, *[0.0] * 5], [0] * 4 + [1] * 5)
        delta, name = 1.0, "counterparts"
    elif name == "counterparts":
        metric, delta = isonomy.Counterparts.of(table), float(rng.uniform(0.5, 1.5))
    elif name == "mahalanobis":
        metric = isonomy.Mahalanobis.from_root(rng.normal(size=(width, width)) + 0.5 * np.eye(width))
        delta = float(rng.uniform(0.3, 2.0))
    else:
        weights = rng.uniform(0.3, 2.0, width)
        if space != "unbounded":
            weights[4:6] = 0.0
        metric = isonomy.WeightedLp(weights, {"l1": 1, "l2": 2, "linf": math.inf}[name])
        delta = float(rng.uniform(0.2, 1.0)) * (1 if space == "unbounded" or name == "linf" else 1.5)
    if name == "linf" and space == "realizable":
        metric, name = isonomy.WeightedLp(weights, 2), "l2"
    return Case(f"{space} {name}, {kind}", network(rng, width, kind), x, metric, delta, domain)


def evolved(case: Case, generations: int = 120, crowd: int = 96) -> np.ndarray:
    """The largest change that mutation and selection find, for each person."""
    rng = np.random.default_rng(0)
    x, domain, n = case.x, case.domain, len(case.x)
    at_x = case.network(x)
    best, top = x.copy(), np.zeros(n)
    reach = np.where(np.isfinite(domain.high - domain.low), domain.high - domain.low, 4.0)
    numeric = domain.numeric
    for generation in range(generations):
        wide = generation < generations // 3
        scale = 2.0 ** -rng.uniform(0, 2 if wide else 16, (crowd, n, 1))
        some = rng.random((crowd, n, x.shape[1])) < rng.choice([0.2, 0.5, 1.0], (crowd, n, 1))
        base = np.where((rng.random((crowd, n, 1)) < (0.7 if wide else 0.05)), x, best)
        y = base + np.where(some & numeric, scale * reach * rng.normal(size=(crowd, n, x.shape[1])), 0.0)
        for start, stop in domain.blocks:
            turn = rng.random((crowd, n)) < 0.3
            if domain.kind == "realizable":
                fresh = np.eye(stop - start)[rng.integers(stop - start, size=(crowd, n))]
            else:
                fresh = rng.dirichlet(np.full(stop - start, 0.3), (crowd, n))
                share = np.where(rng.random((crowd, n, 1)) < 0.5, 1.0, scale)
                fresh = base[..., start:stop] + share * (fresh - base[..., start:stop])
            y[turn, start:stop] = fresh[turn]
        y = np.clip(y, domain.low, domain.high).reshape(crowd * n, -1)
        everybody = np.tile(x, (crowd, 1))
        if domain.kind == "realizable":
            y = domain.snap(y)
        else:  # along the line to the person, which is in every convex set that holds them
            for _ in range(3):
                far = case.metric.distance(everybody, y)
                share = np.minimum(1.0, case.delta * (1 - 1e-12) / np.maximum(far, 1e-300))[:, None]
                y = everybody + share * (y - everybody)
        fits = domain.allows(everybody, y) & (case.metric.distance_upper(everybody, y) <= case.delta)
        value = np.where(fits, np.abs(case.network(y) - np.tile(at_x, (crowd, 1))).max(1), -1.0).reshape(crowd, n)
        pick = value.argmax(0)
        better = value[pick, np.arange(n)] > top
        best[better] = y.reshape(crowd, n, -1)[pick, np.arange(n)][better]
        top = np.where(better, value[pick, np.arange(n)], top)
    return top


def enumerated(case: Case) -> np.ndarray:
    """The largest change over all similar individuals, where only whole numbers and categories move."""
    lattice = [np.arange(0, 10) / 4.0, np.arange(-5, 6) / 4.0]
    options = [*itertools.product(*lattice, np.eye(2), np.eye(3))]
    rest = np.array([np.concatenate([[a, b], s, j]) for a, b, s, j in options])
    top = np.zeros(len(case.x))
    for row, person in enumerate(case.x):
        y = np.column_stack([np.tile(person[:2], (len(rest), 1)), rest])
        own = np.tile(person, (len(y), 1))
        fits = case.domain.allows(own, y) & (case.metric.distance_upper(own, y) <= case.delta)
        top[row] = np.abs(case.network(y[fits]) - case.network(person[None])).max()
    return top


def truth(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """What is attained for sure, and what nothing exceeds."""
    found = isonomy.certify_local(
        case.network, case.x, case.metric, case.delta, domain=case.domain, tier="exact", time_limit=6.0,
        gap=1e-5, progress=None, attack=isonomy.AttackBudget(steps=60, restarts=5, branches=100, seed=9),
    )  # fmt: skip
    best = np.maximum(found.lower, evolved(case))
    if case.group.startswith("whole"):
        best = np.maximum(best, enumerated(case))
        return best, best
    return best, found.upper


def searched(case: Case) -> tuple[np.ndarray, float]:
    """What the usual search finds, and its seconds."""
    began = time.process_time()
    found = isonomy.certify_local(
        case.network, case.x, case.metric, case.delta, domain=case.domain, predict=False, progress=None
    )
    middle = time.process_time()
    isonomy.certify_local(
        case.network, case.x, case.metric, case.delta, domain=case.domain, predict=False,
        attack=False, progress=None,
    )  # fmt: skip
    return found.lower, middle - began - (time.process_time() - middle)


def table(groups: list[str], lowers: dict[str, np.ndarray], best: np.ndarray, proved: np.ndarray) -> Iterator[str]:
    """Lines of the table: everybody, then each kind of case."""
    yield "| cases | people | proved | " + " | ".join(f"{name}: 99 % | {name}: mean" for name in lowers) + " |"
    yield "|---" * (3 + 2 * len(lowers)) + "|"
    names = np.array(groups)
    kinds = ["all", *sorted({part for group in groups for part in group.replace(",", "").split()})]
    for kind in kinds:
        rows = [i for i, name in enumerate(names) if kind == "all" or kind in name.replace(",", "").split()]
        cells = [f"{(proved[rows] <= 1.01 * best[rows] + 1e-9).mean():.0%}"]
        for lower in lowers.values():
            ratio = np.where(best[rows] > 1e-9, lower[rows] / np.maximum(best[rows], 1e-9), 1.0)
            cells += [f"{(ratio >= ATTAINED).mean():.1%}", f"{ratio.mean():.4f}"]
        yield f"| {kind} | {best[rows].size} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=96)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--people", type=int, default=12)
    parser.add_argument("--keep", type=Path, help="store what was found here")
    parser.add_argument("--known", type=Path, help="what was found before")
    parser.add_argument("--quick", action="store_true", help="in seconds, to see that it works")
    options = parser.parse_args()
    options.cases, options.people = (2, 2) if options.quick else (options.cases, options.people)
    cases = [case(number, options.people) for number in range(options.first, options.first + options.cases)]
    found = [searched(each) for each in cases]
    now, seconds = np.array([lower for lower, _ in found]), sum(took for _, took in found)
    groups, lowers = [each.group for each in cases], {"now": now}
    if options.known is None:
        both = [truth(each) for each in cases]
        best, proved = np.array([low for low, _ in both]), np.array([high for _, high in both])
    else:
        known = np.load(options.known)
        best, proved = known["best"], known["proved"]
        lowers = {"before": known["now"], **lowers}
    best = np.maximum(best, now)
    if options.keep is not None:
        np.savez(options.keep, best=best, proved=proved, now=now)
    for line in table(groups, lowers, best, proved):
        print(line)
    print(f"\nThe search took {1e3 * seconds / now.size:.2f} ms per person.")


if __name__ == "__main__":
    main()
