"""Group fairness as tables: rates of groups with their intervals, and the gaps between groups."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from isonomy.population.feature import Label
from isonomy.report.findings import Findings
from isonomy.report.numbers import parameter, percent
from isonomy.report.people import MOST_CROSSED_GROUPS, MOST_GROUPS, MOST_PAIRS
from isonomy.report.privacy import Hidden, left_out, protected_cells
from isonomy.report.sections import Cell, Fact, Rounded, Section, exact, percentage, table

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
ESTIMATES = Rounded(3)


def groups(findings: Findings, hidden: Hidden, rounded: Rounded) -> Section:
    """Tabulate rates and gaps between groups, two tables for each attribute set, without what redaction hides."""
    group, redacted, tables = findings.group, findings.redacted, []
    if group is None:
        return Section("groups", (), (findings.group_refusal or "Groups were not compared in this audit.",))
    named = findings.favourable or f"“{findings.outputs[-1]}”"
    titles = list(dict.fromkeys(group.groups["attributes"]))
    crossed = [title for title in titles if " × " in title]
    titles = [title for title in titles if title not in crossed[MOST_PAIRS:]]
    for number, title in enumerate(titles, 1):
        rows = group.groups[group.groups["attributes"] == title]
        masked, unrated = np.array([(title, name) in hidden for name in rows["group"]]), set[str]()
        if redacted:
            masked |= protected_cells(rows["people"].to_numpy(), masked=masked)
            unrated = set(rows["group"][masked | rows["note"].str.contains("positive rate")])
        hidden_names = set(rows["group"][masked])
        shown = rows[~masked]
        most = MOST_CROSSED_GROUPS if title in crossed else MOST_GROUPS
        largest = shown.loc[shown["people"].nlargest(most).index.sort_values()]
        rates = [rate for rate in RATES if rate in rows]
        columns = [_headed(rate, named) for rate in rates]
        columns += ["Mean unfairness"] if "violation_lower" in rows else []
        summary = group.summary[group.summary["attributes"] == title].to_dict("records")
        notes = () if redacted else _notes(summary)
        tables += [
            table(
                f"rates-{number}", f"Rates of {named} by {title}", "Group", "People#", "Share#",
                *(f"{column}#" for column in columns),
                notes=left_out(int(masked.sum()), len(shown) - len(largest)),
                rows=(_group(row, rates, rounded, redacted) for row in largest.to_dict("records")),
            ),
            table(
                f"parity-{number}", f"How far the groups of {title} are apart, for {named}", "Measure", "Value#",
                "Interval#", "Lowest", "Highest", notes=(f"{'; '.join(notes)}.",) if notes else (),
                rows=(
                    _metric(row, unrated if row["metric"].startswith("equal") else hidden_names, rounded)
                    for row in summary
                ),
            ),
        ]  # fmt: skip
    how = (
        f"every rate is about {named}. Selected is who is given {named}{_cut(findings)}; the true positive rate is of "
        f"those whose outcome is {named}, the false positive rate of the others. Intervals are "
        f"{percent(group.confidence).replace('.0%', '%')} bootstrap intervals from {group.resamples:,} resamples, and "
        "are printed beneath. Only the mean unfairness of a group lies between proved bounds, for these people. Groups "
        f"of fewer than {group.smallest} people (effective) are called small."
        f"{' What rests on few people is not shown.' if redacted else ''}"
    )
    kinds = {title: group.four_fifths.get(title, "") for title in titles}
    return Section("groups", (), (how,), tuple(tables), tuple(group.notes), {"four_fifths": kinds, "favourable": named})


def _group(row: dict[Any, Any], rates: list[str], rounded: Rounded, redacted: bool) -> list[Any]:
    cells: list[Any] = [Cell(str(row["group"]), "small" if row["small"] else "")]
    cells += [exact("group.people", "People", row["people"]), percentage("group.share", "Share", row["share"])]
    for rate in rates:
        # The note names a rate that rests on a few people of the group only.
        few = redacted and rate != "accuracy" and _spoken(rate) in row["note"]
        if few or math.isnan(row[rate]):
            cells.append(NOT_SHOWN if few else "undefined")
        else:
            value = ESTIMATES.observed(f"group.{rate}", _spoken(rate), row[rate])
            cells.append(Cell(value, note=_interval(row[f"{rate}_low"], row[f"{rate}_high"])))
    if "violation_lower" in row:
        ends = row["violation_lower"], row["violation_upper"]
        bounds = rounded.between("group.violation", "Mean unfairness", *ends)
        cells.append("undefined" if math.isnan(ends[1]) else bounds)
    return cells


def _metric(row: dict[Any, Any], hidden_names: set[Any], rounded: Rounded) -> tuple[str | Fact, ...]:
    name = METRICS.get(row["metric"], _spoken(row["metric"]))
    if {row["lowest"], row["highest"]} & hidden_names:
        return (name, NOT_SHOWN, "", "", "")
    if math.isnan(row["bound_low"]):
        return (name, "undefined", "", row["lowest"], row["highest"])
    value = ESTIMATES.observed("parity.value", name, row["value"])
    ends = _interval(row["low"], row["high"])
    if row["metric"] == "if_parity":
        value = rounded.between("parity.bounds", name, row["bound_low"], row["bound_high"])
        ends = rounded.between("parity.interval", "Interval", row["low"], row["high"])
    return (name, value, ends, row["lowest"], row["highest"])


def _interval(low: float, high: float) -> Fact:
    ends = map(ESTIMATES.plain, (low, high))
    return Fact("group.interval", "Interval", (low, high), "nearest", False, " to ".join(ends))


def _notes(summary: list[dict[Any, Any]]) -> tuple[str, ...]:
    """Return each note once, also where several metrics have it."""
    notes = (note.strip() for row in summary for note in str(row["note"]).split("; ") if note.strip())
    skipped = ("by the ", "between bound_low", "lowest and highest by", "small: ")  # which the tables show already
    return tuple(dict.fromkeys(note for note in notes if not note.startswith(skipped)))


def unnamed_outcome(outcome: Label) -> str:
    """Return why rates are left out where no favourable outcome is named, and how to name one."""
    if not outcome.column:
        return (
            "Groups were not compared: the schema has no [label] that would name a favourable outcome. Describe one, "
            "with its column, classes and favourable."
        )
    names = outcome.classes or ("high", "low")
    cut = "" if outcome.classes or outcome.threshold is not None else " and threshold = NUMBER, the cut-off,"
    one = " or ".join(f'"{name}"' for name in names[:6])
    return (
        f"Groups were not compared, since no favourable outcome is named: write favourable = {one}{cut} in [label] of "
        "the schema, or say --favourable."
    )


def _cut(findings: Findings) -> str:
    """Return the phrase for the probability or number from which on the favourable outcome is given."""
    outcome = findings.certificate.problem.outcome
    if outcome.favourable == ("low",) and not outcome.classes and outcome.threshold is not None:
        return f", up to a cut-off of {parameter(outcome.threshold)}, a number equal to it included"
    if outcome.threshold is not None:
        return f", from a cut-off of {parameter(outcome.threshold)} on, a score equal to it included"
    if len(outcome.classes) == 2:  # of independent sigmoids both may be below one half, or above it
        (other,) = set(outcome.classes) - set(outcome.favourable)
        return f", where it is at least as probable as “{outcome.labels.get(other, other)}”"
    return ", the most probable class"


def _headed(rate: str, named: str) -> str:
    """Return the head of a column: ``Selection rate of “good”``, ``Accuracy, “good” or not``."""
    spoken = _spoken(rate).capitalize()
    return f"{spoken}, {named} or not" if rate == "accuracy" else f"{spoken} of {named}"


def _spoken(name: str) -> str:
    return name.replace("_", " ")
