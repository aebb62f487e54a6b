"""Group fairness as tables of words: rates with their intervals, and how far the groups are apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from isonomy.report.findings import Findings
from isonomy.report.numbers import Numbers, percent
from isonomy.report.people import MOST_CROSSED_GROUPS, MOST_GROUPS, MOST_PAIRS
from isonomy.report.privacy import Hidden, protected_cells

RATES = ("selection_rate", "true_positive_rate", "false_positive_rate", "accuracy")
METRICS = {
    "demographic_parity_difference": "Demographic parity, difference",
    "demographic_parity_ratio": "Demographic parity, ratio (four-fifths rule)",
    "equalised_odds_difference": "Equalised odds, difference",
    "equalised_odds_ratio": "Equalised odds, ratio",
    "equal_opportunity_difference": "Equal opportunity, difference",
    "equal_opportunity_ratio": "Equal opportunity, ratio",
    "if_parity": "Individual unfairness, difference of means",
}
NOT_SHOWN = "not shown"

Cell = tuple[str, str]  # a value and its interval


@dataclass(frozen=True)
class Compared:
    """One attribute set: its groups and its metrics, as text."""

    title: str
    four_fifths: str
    heads: list[str]  # after name, people and share
    groups: tuple[tuple[Cell, ...], ...]
    metrics: tuple[tuple[str, ...], ...]  # name, value, interval, lowest, highest
    notes: tuple[str, ...]
    hidden: int
    more: int


def compared(findings: Findings, hidden: Hidden, numbers: Numbers) -> list[Compared]:
    """The tables of ``findings.group``, without what redaction hides."""
    group = findings.group
    if group is None:
        return []
    found = []
    titles = list(dict.fromkeys(group.groups["attributes"]))
    crossed = [title for title in titles if " × " in title]
    for title in [title for title in titles if title not in crossed[MOST_PAIRS:]]:
        rows = group.groups[group.groups["attributes"] == title]
        masked = _masked(title, rows, hidden) if findings.redacted else np.zeros(len(rows), dtype=bool)
        unseen, few = set(rows["group"][masked]), set[str]()
        if findings.redacted:
            few = unseen | set(rows["group"][rows["note"].str.contains("positive rate")])
        shown = rows[~masked]
        most = MOST_CROSSED_GROUPS if title in crossed else MOST_GROUPS
        kept = shown.loc[shown["people"].nlargest(most).index.sort_values()]
        rates = [rate for rate in RATES if rate in rows]
        columns = [_spoken(rate) for rate in rates] + (["mean unfairness"] if "violation_lower" in rows else [])
        summary = group.summary[group.summary["attributes"] == title].to_dict("records")
        found.append(
            Compared(
                title=title,
                four_fifths=group.four_fifths.get(title, ""),
                heads=[column.capitalize() for column in columns],
                groups=tuple(_group(row, rates, numbers, findings.redacted) for row in kept.to_dict("records")),
                metrics=tuple(
                    _metric(row, few if row["metric"].startswith("equal") else unseen, numbers) for row in summary
                ),
                notes=() if findings.redacted else _notes(summary),
                hidden=int(masked.sum()),
                more=len(shown) - len(kept),
            )
        )
    return found


def _masked(title: str, rows: pd.DataFrame, hidden: Hidden) -> Any:
    known = np.array([(title, str(name)) in hidden for name in rows["group"]])
    return known | protected_cells(rows["people"].to_numpy(), masked=known)


def _group(row: dict[Any, Any], rates: list[str], numbers: Numbers, redacted: bool) -> tuple[Cell, ...]:
    cells = [
        (str(row["group"]), "small" if row["small"] else ""),
        (f"{row['people']:,}", ""),
        (percent(row["share"]), ""),
    ]
    for rate in rates:
        # The note names a rate that rests on a few people of the group only.
        few = redacted and rate != "accuracy" and _spoken(rate) in row["note"]
        if few or math.isnan(row[rate]):
            cells.append((NOT_SHOWN if few else "undefined", ""))
        else:
            cells.append((f"{row[rate]:.3f}", f"{row[f'{rate}_low']:.3f} to {row[f'{rate}_high']:.3f}"))
    if "violation_lower" in row:
        lower, upper = row["violation_lower"], row["violation_upper"]
        cells.append(("undefined" if math.isnan(upper) else f"{numbers.lower(lower)} to {numbers.upper(upper)}", ""))
    return tuple(cells)


def _metric(row: dict[Any, Any], unseen: set[Any], numbers: Numbers) -> tuple[str, ...]:
    name = METRICS.get(row["metric"], _spoken(row["metric"]))
    if {row["lowest"], row["highest"]} & unseen:
        return (name, NOT_SHOWN, "", "", "")
    if math.isnan(row["bound_low"]):
        return (name, "undefined", "", row["lowest"], row["highest"])
    if row["metric"] == "if_parity":
        value = f"{numbers.lower(row['bound_low'])} to {numbers.upper(row['bound_high'])}"
        ends = f"{numbers.lower(row['low'])} to {numbers.upper(row['high'])}"
    else:
        value, ends = f"{row['value']:.3f}", f"{row['low']:.3f} to {row['high']:.3f}"
    return (name, value, ends, row["lowest"], row["highest"])


def _notes(summary: list[dict[Any, Any]]) -> tuple[str, ...]:
    """Each note once, however many metrics it is about."""
    notes = (note.strip() for row in summary for note in str(row["note"]).split("; ") if note.strip())
    skipped = ("by the ", "between bound_low", "lowest and highest by", "small: ")  # which the tables show already
    return tuple(dict.fromkeys(note for note in notes if not note.startswith(skipped)))


def _spoken(name: str) -> str:
    return name.replace("_", " ")
