"""Networks and the other populations that they meet: how far those are, what is observed there, what is proved.

For each network there is one certificate of a sample of people, and for each other state or year a sample of its
people. The Wasserstein distance of the two samples is computed exactly, beside what two samples of one population are
apart; so each of them is a population at a known distance, and what its people are shown to suffer must not exceed the
certificate's bound at that distance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from isonomy.attacks import AttackBudget
from isonomy.certificates import certify, certify_local
from isonomy.population import Population
from isonomy.shift import wasserstein
from isonomy.similarity.ground import ground_metric
from isonomy_verify.arithmetic import mean_down, mean_up
from studies import Setting, Store, paper
from studies.methods import Way
from studies.models import Case, Size, cases
from studies.shifts import constructed, costs_between
from studies.steps import Line, Step, known, taken
from studies.surveys import describe
from studies.tables import Dataset

WAYS = (Way("sgd"), Way("f-ibp"), Way("l-dif"), Way("u-dif"))
EFFORT = AttackBudget(steps=15, restarts=0)
RISK = 0.05
"""Of any of a table's "at least" being wrong."""
BUILT = 5
"""Places whose people are used to build shifts; there are five shifts for each."""
Draw = Callable[[], list[tuple[str, Population]]]
"""Gives samples of people of other places."""


@dataclass(frozen=True)
class Places:
    """Which other populations of a dataset are looked at, and how often each is sampled."""

    years: bool
    samples: int = 1

    def of(self, dataset: Dataset, size: Size) -> list[str]:
        """Names such as ``NY 2018``: other states of the same year, or other years of the same state."""
        (state,), (year,) = dataset.load["states"], dataset.load["years"]
        found = []
        for place in describe(dataset.source).here:
            here, when = place.split()
            if place != f"{state} {year}" and ((here == state) if self.years else (when == str(year))):
                found.append(place)
        return found[: size.others]


def sized(setting: Setting) -> Size:
    """Fewer people than elsewhere: everybody's distance to everybody is computed."""
    small = Size.of(setting)
    return replace(small, people=30, others=3) if setting.quick else replace(small, people=500)


def ways_of(setting: Setting) -> tuple[Way, ...]:
    """The ways of training that are compared."""
    return WAYS[::3] if setting.quick else WAYS


@dataclass(frozen=True)
class Shifted:
    """What was found: a line of distances for each dataset, and a line for each network."""

    datasets: list[Dataset]
    distances: dict[str, Line]
    networks: list[Line]
    words: list[str]

    def of(self, dataset: Dataset) -> list[Line]:
        """The networks of one dataset."""
        return [line for line in self.networks if line["dataset"] == dataset.name and line["load"] == dataset.load]

    def data(self) -> pd.DataFrame:
        """A row for each network and place, and for each constructed shift."""
        rows = []
        for dataset in self.datasets:
            for line in self.of(dataset):
                common = {"dataset": dataset.name, "trained_on": dataset.words, "method": line["method"],
                          "seed": line["seed"]}  # fmt: skip
                rows += [common | row for row in (*line["places"], *line["built"])]
        return pd.DataFrame(rows)


def measured(
    setting: Setting, store: Store, datasets: Sequence[Dataset], size: Size, places: Places, ways: Sequence[Way]
) -> Shifted:
    """Distances first, then the networks, seeds outermost."""
    tried = cases(datasets, size, setting)
    draws: list[Draw] = [cache(partial(samples, case, places)) for case in tried]  # read once, and only when needed
    first = taken(
        [
            Step(name_of(case.dataset), {"what": "distances", **_key(case, places)}, partial(distances, case, draw))
            for case, draw in zip(tried, draws, strict=True)
        ],
        replace(setting, progress=None),
        store,
    )
    there = {
        name_of(case.dataset): line for case, line in zip(tried, first.lines, strict=True) if known(line, "places")
    }
    steps = [
        Step(
            name_of(case.dataset),
            {"what": "network", **case.key(way, seed), **_key(case, places)},
            partial(judged, case, way, seed, draw, there[name_of(case.dataset)]),
        )
        for seed in range(setting.seeds)
        for case, draw in zip(tried, draws, strict=True)
        if name_of(case.dataset) in there
        for way in ways
    ]
    second = taken(steps, setting, store)
    return Shifted(
        [case.dataset for case in tried if name_of(case.dataset) in there],
        there,
        [line for line in second.lines if known(line, "places")],
        [*first.words(), *second.words()],
    )


def _key(case: Case, places: Places) -> dict[str, Any]:
    return {
        "dataset": case.dataset.name, "load": dict(case.dataset.load), "people": case.size.people,
        "others": case.size.others, "years": places.years, "samples": places.samples,
    }  # fmt: skip


def people_of(case: Case, place: str) -> Population:
    """Everybody of another place such as ``NY 2018``."""
    state, year = place.split()
    return replace(case.dataset, load={**case.dataset.load, "states": [state], "years": [int(year)]}).people()


def samples(case: Case, places: Places) -> list[tuple[str, Population]]:
    """Disjoint samples of people of the other places, by name; fewer where a place has too few people."""
    found: list[tuple[str, Population]] = []
    for place in places.of(case.dataset, case.size):
        people = people_of(case, place)
        count = min(places.samples, max(1, len(people) // case.size.people))
        # Tables are ordered (whole households, institutions first), so people are shuffled before they are dealt out.
        order = np.random.default_rng(0).permutation(len(people))[: count * case.size.people]
        found += [(place, people[np.sort(some)]) for some in np.array_split(order, count)]
    return found


def distances(case: Case, draw: Draw) -> dict[str, Any]:
    """How far the very samples are apart that are certified and attacked, beside the floor.

    What the populations themselves are apart at least is proved from everybody of both tables, with 95 % confidence
    for all places together: each has its share of the risk.
    """
    drawn, size = draw(), case.size.people
    places = dict.fromkeys(place for place, _ in drawn)
    share = 1 - RISK / max(1, len(places))
    least = {
        place: wasserstein(case.whole, people_of(case, place), sample=size, repeats=1, confidence=share).lower
        for place in places
    }
    found = []
    for place, some in drawn:
        apart = wasserstein(case.some, some, sample=size, repeats=2)
        found.append({"place": place, "distance": apart.estimate, "floor": apart.floor, "at_least": least[place]})
    return {"places": found}


def name_of(dataset: Dataset) -> str:
    """Whose people these are, in words."""
    return f"{dataset.title}, {dataset.words}"


def gamma_of(dataset: Dataset) -> float:
    """The gamma of the certificate: the paper's where it prints one."""
    return paper.GAMMAS.get(dataset.name, paper.GAMMA)


def judged(case: Case, way: Way, seed: int, draw: Draw, apart: Mapping[str, Any]) -> dict[str, Any]:
    """One network: its certificate, what is observed elsewhere, and constructed shifts."""
    network, metric, some = case.network(way, seed).network, case.metric, case.some
    delta, gamma = case.dataset.delta, gamma_of(case.dataset)
    found = certify(network, some, metric, delta, gamma, attack=EFFORT, progress=None)
    curve = found.curve([gamma, *(each["distance"] for each in apart["places"])])
    others, rows, built = draw(), [], []
    chosen = {round(k) for k in np.linspace(0, len(others) - 1, min(BUILT, len(others)))}
    for k, ((place, people), each) in enumerate(zip(others, apart["places"], strict=True)):
        local = certify_local(network, people, metric, delta, attack=EFFORT, predict=False, progress=None)
        bound = curve.iloc[k + 1]
        rows.append(each | {
            "observed": mean_down(local.lower), "lfc": mean_up(local.upper),
            "upper": float(bound["upper"]), "lower": float(bound["lower"]),
        })  # fmt: skip
        if k in chosen:
            costs = costs_between(np.array(some.x), np.array(people.x), ground_metric("l2", some.x.shape[1]))
            for shift in constructed(costs, found.local.lower, local.lower, gamma, seed=k):
                observed = shift.mean(found.local.lower, local.lower)
                built.append({"place": place, "shift": shift.words, "cost": shift.cost, "gamma": gamma,
                              "observed": observed, "upper": found.upper})  # fmt: skip
    return {
        "gamma": gamma, "upper": found.upper, "lower": found.lower, "here": found.local.mean_lower,
        "places": rows, "built": built,
    }  # fmt: skip
