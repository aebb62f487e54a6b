"""Which features drive the violations that were found.

Every witness is a pair of similar people who are treated differently. For each feature in which they differ two
questions are answered by running the network again: how far apart are the two if **only** this feature changes, and how
much of the difference **goes away** if only this feature is put back? Both are averaged over everybody, pairs without a
change counting as 0. Neither has to add up to the whole: features act together.
"""

from __future__ import annotations

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.report.findings import Findings, role_of
from isonomy.report.model import Cell, Fact, Rounded, Section, part, table
from isonomy.report.numbers import signed

ROWS = 20_000
"""Pairs that are run again, evenly spaced over the table."""


def drivers(findings: Findings, rounded: Rounded) -> Section:
    """Put back one feature at a time: the features that differ in some pair, the largest loss first."""
    question, witnesses = findings.certificate.question, findings.certificate.local.witnesses
    rows = np.arange(0, len(witnesses), -(-len(witnesses) // ROWS))
    rows = rows[findings.people.weights[rows] > 0]
    x, y = (np.array(people[rows]) for people in (witnesses.individual, witnesses.counterpart))
    weights = findings.people.weights[rows] / findings.people.weights[rows].sum()
    here, there = question.network(x), question.network(y)
    output = np.argmax(np.abs(here - there), axis=1)[:, None]

    def gap(people: FloatArray) -> FloatArray:
        """The difference from the individual, in the output in which the pair differs most."""
        return np.abs(np.take_along_axis(question.network(people) - here, output, axis=1))[:, 0]

    whole = gap(y)
    mean = rounded.observed("drivers.mean", "Mean difference of the pairs", float(weights @ whole))
    lines: list[tuple[float, tuple[Cell | Fact, ...]]] = []
    for feature in findings.people.schema.features:
        where = findings.people.schema.slices[feature.name]
        differs = (x[:, where] != y[:, where]).any(axis=1)
        if not differs.any():
            continue
        alone, back = x.copy(), y.copy()
        alone[:, where], back[:, where] = y[:, where], x[:, where]
        share, lost = 1.0 if differs.all() else float(weights @ differs), float(weights @ (whole - gap(back)))
        put_back = signed(lost, rounded.decimals).replace("+", "")
        lines.append((lost, (
            Cell(feature.name, role_of(feature)),
            part("driver.differs", "Differs for", share),
            Fact("driver.back", "Goes away when put back", lost, "nearest", False, put_back),
            Cell(drawn=("bar", lost, mean.value)),
            rounded.observed("driver.alone", "Apart by this alone", float(weights @ gap(alone))),
        )))  # fmt: skip
    lines.sort(key=lambda line: -line[0])
    note = f"Averages over {len(x):,} pairs; the bars are parts of {mean}."
    shown = table("drivers-table", "Features in which people and their counterparts differ", "Feature", "Differs for#",
                  "Goes away when put back#", "@drawn", "Apart by this alone#", rows=[row for _, row in lines],
                  notes=(note,))  # fmt: skip
    return Section("drivers", (mean,), tables=(shown,) if lines else ())
