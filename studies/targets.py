"""Accuracy and certificates of trained networks, with every choice made on people whom the figures do not see.

    python experiments/training_targets.py [--tables acs-income german] [--models f-ibp] [--seeds 3] [--out page.md]

For each table a tenth of the training split (200 people at least) is set aside. Networks are trained on the rest, and
these people choose the learning rate of the plain network and the alpha of each method: on ACS Income the smallest of a
grid whose certificate there is below the goal, on the other tables the largest that costs them at most a point of
accuracy (the smallest, if all cost more). Only then is each choice trained on the whole training split, once for each
seed, and measured on the test split. Two models stand for what a user does with the library: ``repair`` of a plain
network to given epsilons, and the ``frontier`` along alpha.

What is found is kept line by line beside the page (``.jsonl``), so that an interrupted run goes on where it was; remove
that file to begin anew. The page is written from these lines after each of them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from training_page import of, page
from training_tables import CERTIFIED, DELTA, GAMMA, RIDGE, TABLES, Line, Model, Table

import isonomy
from isonomy.population import Population
from isonomy.training import FairClassifier
from isonomy.training.frontier import scores

MARGIN = 0.95
"""A goal counts as reached on the people set aside when the certificate is this share of it: they are few."""
COST = 0.01
"""The accuracy that a choice without a goal may lose on the people set aside."""
CHOICE_SEED = 100


def main() -> None:
    """Choose, train, certify; a line for each training."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=[table.name for table in TABLES])
    parser.add_argument("--models", nargs="+", help="names, also 'repair' and 'frontier'; all unless given")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/results_training.md"))
    options = parser.parse_args()
    notes = Notes(options.out)
    for table in TABLES:
        if table.name in options.tables:
            people = isonomy.load_population(table.name, **table.load, domain="unbounded")
            for model in table.models:
                if options.models is None or model.name in options.models:
                    measured(table, model, people, options.seeds, notes)
            for name, use in (("repair", repaired), ("frontier", traded)):
                if options.models is None or name in options.models:
                    use(table, people, notes)
    notes.page()


class Notes:
    """The lines found so far, in a file that is appended to, and the page made of them."""

    def __init__(self, out: Path) -> None:
        self.out, self.path = out, out.with_suffix(".jsonl")
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        self.lines: list[Line] = [json.loads(line) for line in text.splitlines()]

    def known(self, **key: Any) -> Line | None:
        """The line of this training, if it was made already."""
        return next((line for line in self.lines if all(line[name] == value for name, value in key.items())), None)

    def add(self, line: Line) -> Line:
        """Keep a line, at once."""
        self.lines.append(line)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), flush=True)
        self.page()
        return line

    def page(self) -> None:
        """Write the page anew."""
        partial = self.out.with_suffix(".partial")
        partial.write_text(page(self.lines), encoding="utf-8")
        partial.rename(self.out)


def measured(table: Table, model: Model, people: Population, seeds: int, notes: Notes) -> None:
    """Choose on people set aside, then measure on the test split."""
    train, test = people.train, people.test
    learned, aside = parted(train)
    tried: list[Line] = []
    for option in model.options():
        if len(model.options()) == 1 or enough(model, tried):
            break
        key = {"table": table.name, "stage": "choice", "model": model.tried_as, "option": option, "seed": CHOICE_SEED}
        tried.append(notes.known(**key) or notes.add(key | trained(table, model, option, CHOICE_SEED, learned, aside)))
    plain = of([line for line in notes.lines if line["table"] == table.name], "choice", "plain")
    option = chosen(model, tried, plain)
    for seed in range(seeds):
        key = {"table": table.name, "stage": "test", "model": model.name, "option": option, "seed": seed}
        if notes.known(**key) is None:
            notes.add(key | trained(table, model, option, seed, train, test, model.name in table.realizable))


def parted(train: Population) -> tuple[Population, Population]:
    """The training split without, and with only, the people set aside for choices."""
    order = np.random.default_rng(0).permutation(len(train))
    cut = max(len(train) // 10, min(200, len(train) // 3))
    return train[np.sort(order[cut:])], train[np.sort(order[:cut])]


def enough(model: Model, tried: Sequence[Line]) -> bool:
    """Whether the goal is reached, so that larger alphas need not be tried."""
    return model.goal is not None and bool(tried) and tried[-1][model.goal[0]] <= MARGIN * model.goal[1]


def chosen(model: Model, tried: Sequence[Line], plain: Sequence[Line]) -> dict[str, float]:
    """The option that the people set aside prefer."""
    if not tried:
        return model.options()[0]
    best = max((line["accuracy"] for line in plain), default=0.0)
    if model.rates:
        return dict(max(tried, key=lambda line: line["accuracy"])["option"])
    if model.goal is not None:
        return dict(tried[-1]["option"])  # the first that reaches the goal, or the strongest
    allowed = [line for line in tried if line["accuracy"] >= best - COST and line["classes"] > 1]
    return dict((allowed or tried[:1])[-1]["option"])


def trained(
    table: Table,
    model: Model,
    option: dict[str, float],
    seed: int,
    train: Population,
    judged: Population,
    realizable: bool = False,
) -> Line:
    """Train once, and what is found on the people judged."""
    metric = isonomy.SensitiveSubspace.fit(train, ridge=RIDGE)
    fair = FairClassifier(
        delta=DELTA, gamma=GAMMA, metric=metric, epochs=table.epochs, random_state=seed, progress=None
    ).set_params(**model.parameters, **option)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a collapse is in the scores
        fair.fit(train)
    took = time.process_time() - began
    some = judged.sample(CERTIFIED, seed=0)
    shifted = fair.certify(some, attack=False)
    line: Line = scores(fair.network_, judged)
    line |= {"local": shifted.local.mean_upper, "shifted": shifted.upper, "seconds": took, "judged": len(judged)}
    if realizable:
        line["realizable"] = fair.certify(some, attack=False, domain="realizable").upper
    return line


def repaired(table: Table, people: Population, notes: Notes) -> None:
    """Repair the plain network of the first seed, on the training split, to each epsilon."""
    plain: FairClassifier | None = None
    some = people.test.sample(CERTIFIED, seed=0)
    for epsilon in table.repaired:
        key = {"table": table.name, "stage": "repair", "model": "repair", "option": {"epsilon": epsilon}, "seed": 0}
        if notes.known(**key) is not None:
            continue
        metric = isonomy.SensitiveSubspace.fit(people.train, ridge=RIDGE)
        if plain is None:
            plain = FairClassifier("sgd", epochs=table.epochs, metric=metric, random_state=0, progress=None).fit(people)
        began = time.process_time()
        found = isonomy.repair(
            plain.network_, people, epsilon, metric=metric, delta=DELTA, judged_on=some, progress=None
        )
        line: Line = scores(found.network, people.test) | {"seconds": time.process_time() - began}
        line |= {"before": scores(plain.network_, people.test)["accuracy"], "local": found.certificate.mean_upper}
        line["before_local"] = plain.certify_local(some, attack=False).mean_upper
        notes.add(key | line | {"agreement": found.agreement, "change": found.change, "reached": found.reached})


def traded(table: Table, people: Population, notes: Notes) -> None:
    """The frontier with the estimator's defaults: a metric that leaves the protected attributes free, realizable."""
    key = {"table": table.name, "stage": "frontier", "model": "frontier", "seed": 0}
    if not table.frontier or notes.known(**key) is not None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = people.with_domain("realizable")
        found = isonomy.frontier(whole, table.frontier, random_state=0, progress=None)
    for row in found.table.to_dict("records"):
        alpha, upper, pareto = row.pop("alpha"), row.pop("upper"), row.pop("pareto")
        notes.add(key | row | {"option": {"alpha": alpha}, "local": upper, "pareto": pareto})


if __name__ == "__main__":
    main()
