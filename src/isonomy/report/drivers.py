"""Features that drive the violations of the witnesses.

Every witness is a pair of similar people who are treated differently. For each feature in which they differ the network
is run again with only this feature put back, and the part of the difference that **goes away** is averaged over all
pairs, those without a change counting as 0. The averages need not add up to the mean: features act together.

What a protected attribute or a proxy does **alone** is no matter of these pairs, since a pair that differs in several
features need not have the worst value of each: it is bounded over all values (:mod:`isonomy.certificates.alone`).
"""

from __future__ import annotations

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.report import words
from isonomy.report.findings import Findings, role_of
from isonomy.report.numbers import signed
from isonomy.report.sections import Cell, Fact, FactTable, Rounded, Section, percentage, table

ROWS = 20_000
"""Pairs that are run again, evenly spaced over the table."""


def drivers(findings: Findings, rounded: Rounded) -> Section:
    """Tabulate what goes away with each feature that differs in some pair, the largest loss first."""
    problem, witnesses = findings.certificate.problem, findings.certificate.local.witnesses
    rows = np.arange(0, len(witnesses), -(-len(witnesses) // ROWS))
    rows = rows[findings.people.weights[rows] > 0]
    x, y = (np.array(people[rows]) for people in (witnesses.individual, witnesses.counterpart))
    weights = findings.people.weights[rows] / findings.people.weights[rows].sum()
    here, there = problem.network(x), problem.network(y)
    output = np.argmax(np.abs(here - there), axis=1)[:, None]

    def gap(people: FloatArray) -> FloatArray:
        """Return the difference (n,) from the individual, in the output in which the pair differs most."""
        return np.abs(np.take_along_axis(problem.network(people) - here, output, axis=1))[:, 0]

    full = gap(y)
    mean = rounded.observed("drivers.mean", "Mean difference of the pairs", float(weights @ full))
    lines: list[tuple[float, tuple[Cell | Fact, ...]]] = []
    for feature in findings.people.schema.features:
        where = findings.people.schema.slices[feature.name]
        differs = (x[:, where] != y[:, where]).any(axis=1)
        if not differs.any():
            continue
        back = y.copy()
        back[:, where] = x[:, where]
        share, lost = 1.0 if differs.all() else float(weights @ differs), float(weights @ (full - gap(back)))
        put_back = signed(lost, rounded.decimals).replace("+", "")
        lines.append((lost, (
            Cell(feature.name, role_of(feature)),
            percentage("driver.differs", "Differs for", share),
            Fact("driver.back", "Goes away when put back", lost, "nearest", False, put_back),
            Cell(drawn=("bar", lost, mean.value)),
        )))  # fmt: skip
    lines.sort(key=lambda line: -line[0])
    note = f"Averages over {len(x):,} pairs; the bars are parts of {mean}."
    shown = table("drivers-table", "Features in which people and their counterparts differ", "Feature", "Differs for#",
                  "Goes away when put back#", "@drawn", rows=[row for _, row in lines], notes=(note,))  # fmt: skip
    own_changes = alone(findings, rounded)
    reason = "No pair of similar people was found that differ in anything, so there is no difference to explain."
    if not findings.certificate.searched:
        reason = "No pairs of similar people were searched for, so there is no difference to explain."
    tables = ((shown,) if lines else ()) + ((own_changes,) if own_changes else ())
    return Section("drivers", (mean,), () if lines else (reason,), tables=tables)


def alone(findings: Findings, rounded: Rounded) -> FactTable | None:
    """Tabulate the largest change by each protected attribute and proxy alone, over all its values."""
    if not findings.alone:
        return None
    rows, heads = [], ["Only this feature", "Mean found, at least#", "Mean proved, at most#"]
    heads += [] if findings.redacted else ["Largest proved, for one person#"]
    for change in findings.alone:
        bounds = change.certificate
        rows.append([
            Cell(change.feature, role_of(findings.people.schema[change.feature])),
            rounded.attained("alone.lower", "Mean found", bounds.mean_lower),
            rounded.proved("alone.upper", "Mean proved", bounds.mean_upper),
            *([] if findings.redacted else [rounded.proved("alone.most", "Largest", float(bounds.upper.max()))]),
            *words.flip_counts(bounds.decision.tolist()),
        ])  # fmt: skip
    heads += ["Decisions"] * (len(rows[0]) - len(heads))
    who = findings.alone[0].people.selection.words()
    note = f"Everything else equal, over all possible values of the feature. About {who}."
    return table("alone", "What a protected attribute or proxy changes by itself", *heads, rows=rows, notes=(note,))
