"""The findings on the terminal: a sentence, four small tables, one pair."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from isonomy.arithmetic import at_least, at_most
from isonomy.auditing.summary import sentence, verdict
from isonomy.report.findings import Findings
from isonomy.report.numbers import quantiles

_MEANING = {
    "certified": "no similar person can get another decision",
    "flippable": "a similar person with another decision was found",
    "undecided": "neither was proved",
    "none": "the network decides nothing, it gives a number",
}
_COLOUR = {"certified": "bold green", "violated": "bold red", "undecided": "bold yellow"}


def page(findings: Findings) -> Iterator[str | Text | Table]:
    """The audit as lines and tables."""
    found, people = findings.certificate, findings.people
    accuracy = "" if findings.accuracy is None else f" Accuracy {findings.accuracy:.3f}."
    yield Text(f"{findings.title}: {findings.network!r}", style="bold")
    yield Text(f"Audited: {people.selection.words()}.", style="bold")
    yield Text(f"Similar: {found.question.metric.describe()}; δ = {found.delta:g}.{accuracy}\n")
    yield Text(sentence(findings), style="bold")
    kind = verdict(findings)
    if kind is not None:
        yield Text(f"{kind.upper()} against ε = {found.epsilon:g}.", style=_COLOUR[kind])
        yield Text(f"Proved to stay within ε: {_reach(found.largest_gamma(found.epsilon or 0.0))}.")
    if found.refusal:
        yield Text(f"Nothing is said of the population behind the table. {found.refusal}")
    else:
        yield Text(
            f"With confidence {found.confidence:g}, the same holds for the population behind these individuals with "
            f"{at_most(found.population_upper)}."
        )
    for table in (_curve(findings), _violations(findings), _decisions(findings), _movement(findings)):
        yield ""
        yield table
    for shift in findings.shifts:
        yield Text(f"\n{shift.name}: {shift.distance}")
    if not findings.redacted:
        yield from _pair(findings)


def _reach(largest: float | None) -> str:
    if largest is None:
        return "not even for these individuals"
    return "whatever the shift" if math.isinf(largest) else f"up to a shift of {at_least(largest)}"


def _curve(findings: Findings) -> Table:
    found = findings.certificate
    gammas = sorted({0.0, found.gamma / 2, found.gamma, 2 * found.gamma})
    table = Table("shift γ", "proved, at most", "found, at least", title="Mean violation of populations within γ")
    for row in found.curve(gammas).itertuples():
        table.add_row(f"{row.gamma:g}", at_most(float(row.upper)), at_least(float(row.lower)))  # type: ignore[arg-type]
    return table


def _violations(findings: Findings) -> Table:
    local = findings.certificate.local
    table = Table("violation", "median", "90 %", "largest", title="Largest difference between somebody and the similar")
    for name, values, shown in (("proved, at most", local.upper, at_most), ("found, at least", local.lower, at_least)):
        middle, high = quantiles(values, np.ones(len(values)), (0.5, 0.9))
        table.add_row(name, *(shown(float(value)) for value in (middle, high, values.max())))
    return table


def _decisions(findings: Findings) -> Table:
    table = Table("decision", "individuals", "meaning", title="Can a similar person get another decision?")
    decision = findings.certificate.local.decision
    for kind, meaning in _MEANING.items():
        count = int((decision == kind).sum())
        if count or (kind != "none" and not (decision == "none").any()):
            table.add_row(kind, f"{count:,}", meaning)
    return table


def _movement(findings: Findings) -> Table:
    table = Table("feature", "role", "moves", "by", title="In what similar people may differ")
    for name, row in findings.certificate.local.movement().iterrows():
        if row["moves"] == 0:
            continue
        by = (
            f"{row['categories']:.1f} other categories"
            if np.isfinite(row["categories"])
            else f"{row['least']:+.4g} … {row['most']:+.4g}"
        )
        table.add_row(str(name), str(row["role"]), f"of {row['moves']:.0%}", by)
    if not table.row_count:
        table.add_row("nothing", "", "", "nobody but the individual counts as similar: the audit says little")
    return table


def _pair(findings: Findings) -> Iterator[Text | Table]:
    local = findings.certificate.local
    worst = int(np.argmax(local.lower))
    if not local.lower[worst] > 0:
        return
    row = findings.people.rows[worst]
    yield Text(f"\nMost unequal pair found (row {row}, difference {at_least(float(local.lower[worst]))}):")
    table = Table("feature", "individual", "counterpart")
    pair = local.witnesses.frame(worst)
    for name, cells in pair[pair["differs"] == "*"].iterrows():
        table.add_row(str(name), str(cells["individual"]), str(cells["counterpart"]))
    same = int((pair["differs"] != "*").sum())
    yield table
    yield Text(f"In the other {same} features both agree. 'isonomy explain' with --row {row} shows them all.")
