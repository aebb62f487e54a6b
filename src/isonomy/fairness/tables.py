"""From resampled totals to the two tables: what each group gets, and how far the groups are apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.fairness.decisions import BoolArray
from isonomy.fairness.groups import Grouping
from isonomy.fairness.resampling import Kinds, Rates, divided, largest_difference, make_rates, smallest_ratio
from isonomy_verify.arithmetic import down, gamma, up

FOUR_FIFTHS = 0.8

UNDERFLOW = 1e-200
"""More than all products of weights and violations can lose by underflow, as a part of a group's weight."""

_EMPTY = {
    "selection_rate": "nobody with a positive weight",
    "true_positive_rate": "nobody with a favourable outcome",
    "false_positive_rate": "nobody with an unfavourable outcome",
    "accuracy": "nobody with a positive weight",
    "violation": "nobody with a positive weight",
}
_COMPARED = {
    "demographic_parity": ("selection_rate",),
    "equalised_odds": ("true_positive_rate", "false_positive_rate"),
    "equal_opportunity": ("true_positive_rate",),
}


@dataclass(frozen=True, eq=False)
class Measured:
    """Every rate of the groups of one attribute set."""

    grouping: Grouping
    people: FloatArray
    share: FloatArray
    rates: dict[str, Rates]

    def small(self, smallest: int, rate: str = "selection_rate") -> BoolArray:
        """Which groups have a rate that is taken over too few people, but over somebody."""
        rates = self.rates[rate]
        return rates.defined & (rates.size < smallest * (1 - 1e-9))  # 30 equal weights are 30 people, rounded or not


def measure(
    kinds: Kinds, drawn: list[FloatArray], grouping: Grouping, outcomes: bool, rng: np.random.Generator
) -> Measured:
    """All rates of the groups of one attribute set, with their replicates."""
    seen = [kinds.gathered(total, grouping) for total in kinds.totals()]
    people, squares = (kinds.gathered(total, grouping) for total in kinds.counted())
    again = [kinds.gathered(total, grouping) for total in drawn]

    def rate(part: Callable[[FloatArray], FloatArray], base: Callable[[FloatArray], FloatArray]) -> Rates:
        replicates = part(again[0]), base(again[0])
        return make_rates(part(seen[0])[0], base(seen[0])[0], replicates, base(squares)[0], rng)

    rates = {"selection_rate": rate(lambda sums: sums[:, :, 0, 1] + sums[:, :, 1, 1], _all)}
    if outcomes:
        rates["true_positive_rate"] = rate(lambda sums: sums[:, :, 1, 1], lambda sums: sums[:, :, 1].sum(axis=2))
        rates["false_positive_rate"] = rate(lambda sums: sums[:, :, 0, 1], lambda sums: sums[:, :, 0].sum(axis=2))
        rates["accuracy"] = rate(lambda sums: sums[:, :, 0, 0] + sums[:, :, 1, 1], _all)
    if len(seen) > 1:
        rates["violation"] = _mean_violation(seen, again, rates["selection_rate"].size, int(people.sum()))
    weight = _all(seen[0])[0]
    return Measured(grouping, _all(people)[0], weight / weight.sum(), rates)


def group_rows(measured: Measured, confidence: float, smallest: int) -> list[dict[str, Any]]:
    """The rows of ``groups`` for one attribute set."""
    ends = {name: rates.interval(confidence) for name, rates in measured.rates.items()}
    rows = []
    for place, group in enumerate(measured.grouping.names):
        row: dict[str, Any] = {
            "attributes": measured.grouping.title,
            "group": group,
            "people": int(measured.people[place]),
            "share": float(measured.share[place]),
        }
        notes = []
        for name, rates in measured.rates.items():
            low, high = (float(end[place]) for end in ends[name])
            defined = bool(rates.defined[place])
            if name == "violation":
                row |= {"violation_lower": rates.value[place], "violation_upper": rates.value_high[place]}
            else:
                row[name] = float(rates.value[place])
            row |= {f"{name}_low": low if defined else math.nan, f"{name}_high": high if defined else math.nan}
            if not defined:
                notes.append(f"{_spoken(name)}: {_EMPTY[name]}")
            elif name in ("true_positive_rate", "false_positive_rate") and measured.small(smallest, name)[place]:
                notes.append(f"{_spoken(name)}: of {rates.size[place]:.4g} people only")
        row["small"] = bool(measured.small(smallest)[place] or not measured.rates["selection_rate"].defined[place])
        row["note"] = "; ".join((["small"] if row["small"] else []) + notes)
        rows.append(row)
    return rows


def summary_rows(measured: Measured, confidence: float, smallest: int) -> list[dict[str, Any]]:
    """The rows of ``summary`` for one attribute set."""
    rows = []
    for metric, names in _COMPARED.items():
        if all(name in measured.rates for name in names):
            rows += [
                _compared(measured, f"{metric}_{form}", names, form == "ratio", confidence, smallest)
                for form in ("difference", "ratio")
            ]
    if "violation" in measured.rates:
        rows.append(_compared(measured, "if_parity", ("violation",), False, confidence, smallest))
    verdict, why = _four_fifths(measured, confidence, smallest)
    for row in rows:
        row["four_fifths"] = verdict if row["metric"] == "demographic_parity_ratio" else ""
        row["note"] = row.pop("note") + (f"; {why}" if row["four_fifths"] and why else "")
        row["note"] = row["note"].removeprefix("; ")
    return rows


def _compared(
    measured: Measured, metric: str, names: tuple[str, ...], ratio: bool, confidence: float, smallest: int
) -> dict[str, Any]:
    """One metric: its value, its interval, and between which groups."""
    row: dict[str, Any] = {"attributes": measured.grouping.title, "metric": metric, "groups": 0}
    nothing = dict.fromkeys(("value", "low", "high", "bound_low", "bound_high"), math.nan)
    row |= nothing | {"lowest": "", "highest": ""}
    notes, families, found = [], [], []
    for name in names:
        rates = measured.rates[name]
        undefined = [measured.grouping.names[place] for place in np.flatnonzero(~rates.defined)]
        if undefined:
            notes.append(f"left out, as there is {_EMPTY[name]}: {_listed(undefined)}")
        some = rates.of(rates.defined)
        if len(some.value) < 2:
            return row | {"note": "; ".join([*notes, f"fewer than two groups have a {_spoken(name)}"])}
        if ratio and some.value.max() == 0:
            return row | {"note": "; ".join([*notes, f"the {_spoken(name)} is 0 in every group"])}
        families.append(some)
        found.append(some.value.min() / some.value.max() if ratio else some.value.max() - some.value.min())
    worst = int(np.argmin(found) if ratio else np.argmax(found))
    name, value = names[worst], float(found[worst])
    bounds = _parity_bounds(families[0]) if metric == "if_parity" else (value, value)
    low, high, resolved = (smallest_ratio if ratio else largest_difference)(families, confidence)
    rates = measured.rates[name]
    ends = int(np.nanargmin(rates.value_high)), int(np.nanargmax(rates.value_high))
    if len(names) > 1:
        notes.insert(0, f"by the {_spoken(name)}")
    if metric == "if_parity":
        notes.insert(0, "between bound_low and bound_high; lowest and highest by the upper bounds")
    small = [measured.grouping.names[end] for end in dict.fromkeys(ends) if measured.small(smallest, name)[end]]
    notes += [f"small: {_listed(small)}"] if small else []
    notes += [] if resolved else ["too few resamples for so many groups: the interval may be too short"]
    return row | {
        "groups": len(families[worst].value),
        "value": math.nan if metric == "if_parity" else value,
        "low": min(low, bounds[0]),
        "high": max(high, bounds[1]),
        "bound_low": bounds[0],
        "bound_high": bounds[1],
        "lowest": measured.grouping.names[ends[0]] if ends[0] != ends[1] else "",
        "highest": measured.grouping.names[ends[1]] if ends[0] != ends[1] else "",
        "note": "; ".join(notes),
    }


def _four_fifths(measured: Measured, confidence: float, smallest: int) -> tuple[str, str]:
    """The verdict on the selection-rate ratio, and what kept it from being clear."""
    rates, small = measured.rates["selection_rate"], measured.small(smallest)
    large = rates.of(rates.defined & ~small)
    if len(large.value) < 2:
        return "undecided", "fewer than two groups are large enough for the four-fifths rule"
    low, high, resolved = smallest_ratio([large], confidence)
    if not resolved or large.value.max() == 0:
        return "undecided", ""
    # A ratio over some of the groups is at least the ratio over all: failing there is failing.
    if high < FOUR_FIFTHS:
        return "fail", ""
    if low >= FOUR_FIFTHS and (small.any() or not rates.defined.all()):
        return "undecided", "the large groups pass the four-fifths rule, others are too small to tell"
    return ("pass" if low >= FOUR_FIFTHS else "undecided"), ""


def _mean_violation(seen: list[FloatArray], again: list[FloatArray], size: FloatArray, people: int) -> Rates:
    """Mean violations between their bounds, rounded outward for the people at hand.

    **Soundness.** Numerator and denominator are sums of non-negative products of at most two numbers with a common
    rounded factor, the weight: ``gamma`` of the number of terms covers each, and their quotient costs one more.
    """
    slack = 2 * gamma(2 * people + 16)
    lower, upper = (divided(_all(total)[0], _all(seen[0])[0], math.nan) for total in seen[1:])
    low, high = (divided(_all(total), _all(again[0]), math.nan) for total in again[1:])
    missing = np.isnan(low)  # a resample without the group says nothing about it: its mean could be anything
    return Rates(
        np.maximum(down(lower * (1 - slack)), 0.0),
        up(upper * (1 + slack) + UNDERFLOW),
        np.where(missing, 0.0, low),
        np.where(missing, math.inf, high),
        size,
    )


def _parity_bounds(rates: Rates) -> tuple[float, float]:
    """Between which two numbers the largest difference of two means lies, when each lies between its bounds."""
    lower, upper = rates.value, rates.value_high
    apart = ~np.eye(len(lower), dtype=bool)
    least = down(lower[:, None] - upper)[apart].max()
    return max(0.0, float(least)), float(up(upper[:, None] - lower)[apart].max())


def _all(sums: FloatArray) -> FloatArray:
    return np.asarray(sums.sum(axis=(2, 3)))


def _spoken(name: str) -> str:
    return "mean violation" if name == "violation" else name.replace("_", " ")


def _listed(names: list[str], shown: int = 3) -> str:
    more = len(names) - shown
    return ", ".join(repr(name) for name in names[:shown]) + (f" and {more} more" if more > 0 else "")
