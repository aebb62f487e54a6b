"""Group fairness as tables: rates of groups with their intervals, and the gaps between groups."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import IsonomyError
from isonomy.fairness import GroupFairness
from isonomy.fairness.groups import Grouping, make_groupings
from isonomy.population import Population
from isonomy.population.feature import Label
from isonomy.report.findings import Findings
from isonomy.report.numbers import parameter, percent, spoken
from isonomy.report.privacy import NOT_SHOWN, Hidden, left_out
from isonomy.report.sections import Cell, Fact, FactTable, Rounded, Section, exact, percentage, table
from isonomy.report.tomorrow import share_between
from isonomy_verify.arithmetic import mean_down, mean_up

if TYPE_CHECKING:
    import pandas as pd

BoolArray = NDArray[np.bool_]

MOST_GROUPS, MOST_CROSSED_GROUPS, MOST_PAIRS = 48, 16, 10
"""Groups shown of one attribute, and of one pair of attributes, the largest first; pairs shown."""

RATES = ("true_positive_rate", "false_positive_rate", "accuracy")
METRICS = {
    "demographic_parity_difference": "Demographic parity, difference",
    "demographic_parity_ratio": "Demographic parity, ratio (four-fifths rule)",
    "equalised_odds_difference": "Equalised odds, difference",
    "equalised_odds_ratio": "Equalised odds, ratio",
    "equal_opportunity_difference": "Equal opportunity, difference",
    "equal_opportunity_ratio": "Equal opportunity, ratio",
    "if_parity": "Average largest change, difference",
}
ESTIMATES = Rounded(3)


def find_groupings(people: Population) -> tuple[list[Grouping], list[str]]:
    """Return the groupings by each protected attribute and each pair of them, and notes on those left out."""
    usable, notes = [], []
    for name in people.schema.protected:
        try:
            notes += make_groupings(people, [name], None)[1]
            usable.append(name)
        except IsonomyError as error:
            notes.append(str(error))
    pairs = list(combinations(usable, 2))
    if len(pairs) > MOST_PAIRS:
        notes.append(f"Of the {len(pairs)} pairs of protected attributes the first {MOST_PAIRS} are shown.")
    by = [*usable, *pairs[:MOST_PAIRS]]
    return (make_groupings(people, by, None)[0] if by else []), notes


def groups(findings: Findings, groupings: list[Grouping], hidden: Hidden, rounded: Rounded) -> Section:
    """Tabulate for each attribute set how its groups fare, their other rates, and how far these are apart; without what
    redaction hides."""
    group, tables, kinds = findings.group, [], {}
    named = findings.favourable or f"“{findings.outputs[-1]}”"
    rated = set() if group is None else set(group.groups["attributes"])
    for number, grouping in enumerate(groupings, 1):
        title = grouping.title
        rates = group.groups[group.groups["attributes"] == title] if group is not None and title in rated else None
        sizes = np.bincount(grouping.code, minlength=len(grouping.names))
        masked = np.array([(title, name) in hidden for name in grouping.names])
        shown = np.flatnonzero(~masked)
        most = MOST_CROSSED_GROUPS if len(grouping.attributes) > 1 else MOST_GROUPS
        largest = sorted(sorted(shown.tolist(), key=lambda place: -int(sizes[place]))[:most])
        notes = left_out(int(masked.sum()), len(shown) - len(largest))
        known = {} if rates is None else {row["group"]: row for row in rates.to_dict("records")}
        heads = ["Group@wide", "People#", *([f"Given {named}#", "0 to 100 %@drawn"] if known else []), *_HEADS]
        rows = [
            _group(findings, grouping.names[place], grouping.code == place, known, rounded) for place in largest
        ]  # fmt: skip
        fifths = "" if group is None or not known else _four_fifths(group, title, named, hidden)
        kinds[f"groups-{number}"] = fifths
        shown_title = spoken(title)
        tables.append(
            table(f"groups-{number}", f"{shown_title[0].upper()}{shown_title[1:]}", *heads, rows=rows, notes=notes)
        )
        if rates is not None and group is not None:
            tables += _further(findings, rates, {grouping.names[place] for place in largest}, hidden, number, rounded)
    how = findings.group_refusal
    if group is not None:
        how = (
            f"Given {named} is who the model gives {named}{_cut(findings)}. These shares are observed, not proved; "
            f"with {percent(group.confidence)} intervals from {group.resamples:,} resamples of these people. The "
            "four-fifths rule asks that no group’s share is below 0.80 times another’s; ratios are formed only between "
            f"groups of {group.smallest} people or more."
            f"{' What rests on few people is not shown.' if findings.redacted else ''}"
        )
    notes = () if group is None else group.notes
    rules = (
        []
        if group is None
        else [f"{spoken(name)} {kind}" for name, kind in group.four_fifths.items() if "×" not in name]
    )
    short = f"Four-fifths rule for {named}: {', '.join(rules)}." if rules else findings.group_refusal
    drawn = {"four_fifths": kinds, "short": short}
    return Section("groups", (), (how,) if how else (), tuple(tables), tuple(notes), drawn)


_HEADS = ("Average change shown, at least#", "Proved, at most#", "Decisions that can change#")


def _group(
    findings: Findings, name: str, inside: BoolArray, known: dict[Any, Any], rounded: Rounded
) -> list[Any]:  # fmt: skip
    """Return one group: its size, the share that gets the favourable outcome, bounds of its mean and its decisions."""
    local, weights = findings.certificate.local, np.asarray(findings.people.weights[inside], dtype=np.float64)
    weights = weights if weights.sum() > 0 else np.ones(len(weights))  # all weights are 0: all people count alike
    row, cells = known.get(name), list[Any]()
    small = row is not None and bool(row["small"])
    if known:
        cells = ["undefined", ""]
        if row is not None and not math.isnan(row["selection_rate"]):
            ends = row["selection_rate_low"], row["selection_rate_high"]
            value = percentage("group.rate", "Share", row["selection_rate"])
            note = Fact(
                "group.interval", "Interval", ends, "nearest", False, f"{percent(ends[0])} to {percent(ends[1])}"
            )
            cells = [Cell(value, note=note), Cell(drawn=("rate", row["selection_rate"], *ends, small))]
    low, high = mean_down(local.lower[inside], weights), mean_up(local.upper[inside], weights)
    share: Any = "–"
    if (local.decision != "none").any():
        kinds = local.decision[inside]
        sides = (kinds == "flippable").astype(float), (kinds != "certified").astype(float)
        share = share_between(mean_down(sides[0], weights), mean_up(sides[1], weights))
    return [
        Cell(name, "too few" if small else "", kind="few" if small else ""),
        exact("group.people", "People", int(inside.sum())), *cells,
        rounded.attained("group.lower", "Shown, at least", low), rounded.proved("group.upper", "Proved, at most", high),
        share,
    ]  # fmt: skip


def _four_fifths(group: GroupFairness, title: str, named: str, hidden: Hidden) -> str:
    """Return what the four-fifths rule says of the groups that are large enough, with its ratio and interval."""
    rows = group.summary[
        (group.summary["attributes"] == title) & (group.summary["metric"] == "demographic_parity_ratio")
    ]
    row = rows.to_dict("records")[0]
    verdict, few = row["four_fifths"], f"groups of {group.smallest} people or more"
    if math.isnan(row["large_value"]):
        return f"Four-fifths rule for {named}: not applied, as fewer than two groups have {group.smallest} people."
    between = (row["large_lowest"], row["large_highest"])
    if {(title, name) for name in between} & hidden:
        return f"Four-fifths rule for {named}: {verdict}, among {few}."
    who = f" ({between[0]} against {between[1]})" if between[0] != between[1] else ""
    value, low, high = (ESTIMATES.plain(row[f"large_{name}"]) for name in ("value", "low", "high"))
    return f"Four-fifths rule for {named}: {verdict}. Ratio {value} among {few}{who}, interval {low} to {high}."


def _further(
    findings: Findings, rates: pd.DataFrame, shown: set[str], hidden: Hidden, number: int, rounded: Rounded
) -> list[FactTable]:
    """Return the other rates of the groups, and how far they are apart in every measure; folded on a page."""
    group, title, redacted = findings.group, str(rates["attributes"].iloc[0]), findings.redacted
    assert group is not None
    named, names = findings.favourable or f"“{findings.outputs[-1]}”", [rate for rate in RATES if rate in rates]
    hidden_names = {name for name in rates["group"] if (title, name) in hidden}
    unrated = hidden_names | (set(rates["group"][rates["note"].str.contains("positive rate")]) if redacted else set())
    summary = group.summary[group.summary["attributes"] == title].to_dict("records")
    notes = () if redacted else _notes(summary)
    rows = [row for row in rates.to_dict("records") if row["group"] in shown]
    heads = (f"{_headed(rate, named)}#" for rate in names)
    cells = (_rates(row, names, redacted) for row in rows)
    more = table(f"rates-{number}", f"Error rates of {named} by {spoken(title)}", "Group@wide", *heads, rows=cells)
    measures = (
        _metric(row, unrated if row["metric"].startswith("equal") else hidden_names, rounded) for row in summary
    )
    caption = f"How far the groups of {spoken(title)} are apart, for {named}"
    remarks = (f"{'; '.join(notes)}.",) if notes else ()
    ends = "Value#", "Interval#", "Lowest", "Highest"
    parity = table(f"parity-{number}", caption, "Measure@wide", *ends, rows=measures, notes=remarks)
    return [more, parity] if names else [parity]


def _rates(row: dict[Any, Any], rates: list[str], redacted: bool) -> list[Any]:
    cells: list[Any] = [Cell(str(row["group"]), "too few" if row["small"] else "")]
    for rate in rates:
        # The note names a rate that rests on a few people of the group only.
        few = redacted and rate != "accuracy" and _spoken(rate) in row["note"]
        if few or math.isnan(row[rate]):
            cells.append(NOT_SHOWN if few else "undefined")
        else:
            value = ESTIMATES.observed(f"group.{rate}", _spoken(rate), row[rate])
            cells.append(Cell(value, note=_interval(row[f"{rate}_low"], row[f"{rate}_high"])))
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
