"""Which features drive the violations that were found.

Every witness is a pair of similar people who are treated differently. For each feature in which they differ two
questions are answered by running the network again: how far apart are the two if **only** this feature changes, and how
much of the difference **goes away** if only this feature is put back? Both are averaged over everybody, pairs without a
change counting as 0. Neither has to add up to the whole: features act together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.report.findings import Findings

ROWS = 20_000
"""Pairs that are run again, evenly spaced over the table."""


@dataclass(frozen=True)
class Driver:
    """What one feature has to do with the violations."""

    feature: str
    role: str
    differs: float  # in this share of the pairs
    alone: float
    back: float


@dataclass(frozen=True)
class Drivers:
    """The features that differ in some pair, the largest loss first."""

    features: tuple[Driver, ...]
    mean: float  # the mean difference of the pairs that were run again
    pairs: int


def drivers(findings: Findings) -> Drivers:
    """Put back one feature at a time."""
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
    found = []
    for feature in findings.people.schema.features:
        where = findings.people.schema.slices[feature.name]
        differs = (x[:, where] != y[:, where]).any(axis=1)
        if not differs.any():
            continue
        alone, back = x.copy(), y.copy()
        alone[:, where], back[:, where] = y[:, where], x[:, where]
        role = "protected" if feature.protected else "proxy" if feature.proxy else ""
        share = 1.0 if differs.all() else float(weights @ differs)
        found.append(
            Driver(feature.name, role, share, float(weights @ gap(alone)), float(weights @ (whole - gap(back))))
        )
    found.sort(key=lambda driver: -driver.back)
    return Drivers(tuple(found), float(weights @ whole), len(rows))
