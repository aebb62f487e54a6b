"""What is measured of every trained network: accuracy, local and distributional bounds, and those of other places."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most
from isonomy.attacks import AttackBudget
from isonomy.certificates import certify, certify_local
from isonomy.networks import Network
from isonomy.population import Population
from isonomy_verify.arithmetic import mean_up
from studies import Setting, Store
from studies.methods import Way
from studies.models import Case
from studies.paper import Trained, printed
from studies.steps import Found, Step, taken

EFFORT = AttackBudget(steps=20, restarts=0)
"""The search for a worst population: half of the default, which finds nearly as much."""
MEASURES = ("accuracy", "balanced_accuracy", "lfc", "lfc_lower", "lfc_by_box", "e_dfc", "a_dfc_upper", "a_dfc_lower")
SPREAD = ("accuracy", "a_dfc_upper")
"""Measures whose spread over the seeds stands in the tables."""
PLACE = "lfc in "
"""Columns with the mean local bound of another place begin like this; its name follows."""


def measured(tried: Sequence[Case], setting: Setting, store: Store) -> tuple[pd.DataFrame, Found]:
    """A row for each network, seeds outermost."""
    networks = [(seed, case, way) for seed in range(setting.seeds) for case in tried for way in case.size.ways]
    found = taken([step for network in networks for step in _steps(*network)], setting, store)
    lines, rows = iter(found.lines), []
    for seed, case, way in networks:
        row = row_key(case, way, seed) | _without_key(next(lines))
        if case.dataset.shifted:
            row |= _worst(next(lines).get("others"))
        rows.append(row)
    data = pd.DataFrame(rows)
    missing = [name for name in (*MEASURES, "classes", "e_dfc_place") if name not in data]
    return data.assign(**dict.fromkeys(missing, np.nan)), found


def row_key(case: Case, way: Way, seed: int) -> dict[str, Any]:
    """Where a row of numbers belongs."""
    dataset = case.dataset
    return {
        "dataset": dataset.name, "method": way.method, "form": form(way), "seed": seed,
        "alpha": dataset.alpha(way), "delta": dataset.delta, "gamma": dataset.gamma,
    }  # fmt: skip


def form(way: Way) -> str:
    """Which bound is in the loss."""
    return ("box" if way.box else "relational") if way.bounded else ""


def ours(way: Way) -> bool:
    """Whether our bound is in the loss, so that the paper has no such network."""
    return form(way) == "relational"


def _steps(seed: int, case: Case, way: Way) -> Iterator[Step]:
    yield case.step("certificates", way, seed, lambda: certificates(case, way, seed))
    if case.dataset.shifted:
        yield case.step("others", way, seed, lambda: elsewhere(case, way, seed), places=case.size.others)


def certificates(case: Case, way: Way, seed: int) -> dict[str, Any]:
    """What is proved of one network and found in it."""
    trained = case.network(way, seed)
    started = time.process_time()
    judged = trained.network, case.some, case.metric, case.dataset.delta
    found = certify(*judged, case.dataset.gamma, attack=EFFORT, progress=None)
    upper, lower = found.upper, found.lower
    seconds = time.process_time() - started
    box = certify_local(*judged, tier="paper", attack=False, predict=False, progress=None)
    return {name: trained.facts[name] for name in ("accuracy", "balanced_accuracy", "classes")} | {
        "lfc": found.local.mean_upper,
        "lfc_lower": found.local.mean_lower,
        "lfc_by_box": box.mean_upper,
        "a_dfc_upper": upper,
        "a_dfc_lower": lower,
        "grid_error": found.grid_error,
        "training_cpu_seconds": trained.facts["cpu_seconds"],
        "certificate_cpu_seconds": seconds,
    }


def elsewhere(case: Case, way: Way, seed: int) -> dict[str, Any]:
    """The mean local bound in every other state and year."""
    network = case.network(way, seed).network
    return {"others": {place: _mean_local(network, people, case) for place, people in case.others.items()}}


def _mean_local(network: Network, people: Population, case: Case) -> float:
    """Everybody counts the same, as in the paper."""
    judged = network, people, case.metric, case.dataset.delta
    return mean_up(certify_local(*judged, attack=False, predict=False, progress=None).upper)


def _worst(others: Mapping[str, float] | None) -> dict[str, Any]:
    if not others:
        return {}
    place = max(others, key=others.__getitem__)
    worst = {"e_dfc": others[place], "e_dfc_place": place, "places": len(others)}
    return worst | {f"{PLACE}{name}": value for name, value in others.items()}


def _without_key(line: Mapping[str, Any]) -> dict[str, Any]:
    wanted = (*MEASURES, "classes", "grid_error", "training_cpu_seconds", "certificate_cpu_seconds")
    return {name: line[name] for name in wanted if name in line}


def averaged(data: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds that were run, by dataset, method and form; fewest classes, and how far seeds are from them.

    E-DFC is the largest mean of a place, and that place is named: seeds are averaged first.
    """
    grouped = data.groupby(["dataset", "method", "form"], sort=False)
    means = grouped[list(MEASURES)].mean()
    means["seeds"] = grouped["accuracy"].count()
    means["classes"] = grouped["classes"].min()
    for name in SPREAD:
        means[f"{name}_spread"] = grouped[name].agg(lambda values: (values - values.mean()).abs().max())
    places = grouped[places_of(data)].mean().rename(columns=lambda name: name.removeprefix(PLACE))
    worst = [of.idxmax() if of.notna().any() else None for _, of in places.iterrows()]
    return means.assign(e_dfc=places.max(axis=1), e_dfc_place=pd.Series(worst, means.index, dtype=object))


def places_of(data: pd.DataFrame) -> list[str]:
    """The columns of other places that have any value."""
    return [str(name) for name in data if str(name).startswith(PLACE) and data[name].notna().any()]


def row_of(means: pd.DataFrame, case: Case, way: Way) -> pd.Series[Any]:
    """The means of one way; NaN where it was not tried."""
    rows: dict[Any, pd.Series[Any]] = dict(means.iterrows())
    return rows.get((case.dataset.name, way.method, form(way)), pd.Series(np.nan, means.columns))


def table(means: pd.DataFrame, case: Case, figures: Mapping[str, Trained]) -> pd.DataFrame:
    """Formatted cells: bounds are rounded to the safe side, the paper's figures follow in brackets.

    The paper's LFC is a width by the box, so it stands beside that where the network was trained as in the paper.
    """
    rows = []
    for way in case.size.ways:
        found = row_of(means, case, way)
        told = asdict(figures[way.method]) if way.method in figures else {}
        alpha = case.dataset.alpha(way)
        collapsed = " (gives one class only)" if found["classes"] == 1 else ""
        cells = {
            "trained with": way.name + collapsed,
            "alpha": "" if alpha is None else f"{alpha:g}{'*' * (way in case.dataset.alphas)}",
            "accuracy": _cell(f"{found['accuracy']:.4f}", told.get("accuracy"), _spread(found, "accuracy")),
            "balanced accuracy": _cell(f"{found['balanced_accuracy']:.4f}"),
            "LFC": _cell(at_most(found["lfc"]), told.get("lfc") if ours(way) else None),
            "LFC by the box": _cell(at_most(found["lfc_by_box"]), None if ours(way) else told.get("lfc")),
        }
        if case.dataset.shifted:
            cells["E-DFC"] = _cell(at_most(found["e_dfc"]), told.get("e_dfc"), f" {found['e_dfc_place']}")
        upper = at_most(found["a_dfc_upper"])
        cells["A-DFC upper"] = _cell(upper, told.get("a_dfc"), _spread(found, "a_dfc_upper"))
        cells["A-DFC lower"] = _cell(at_least(found["a_dfc_lower"]))
        rows.append(cells | {"seeds": str(int(found["seeds"]))})
    return pd.DataFrame(rows)


def _spread(found: pd.Series[Any], name: str) -> str:
    """How far a seed is from the mean at most."""
    return f" ± {at_most(found[f'{name}_spread'])}" if found["seeds"] > 1 else ""


def _cell(words: str, told: float | None = None, more: str = "") -> str | None:
    if words == "nan":
        return None
    return f"{words}{more}" + ("" if told is None else f" ({printed(told)})")
