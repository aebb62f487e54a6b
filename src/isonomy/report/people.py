"""The individuals behind the average: the distribution of violations and decisions, by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import IsonomyError
from isonomy.fairness.groups import Grouping, make_groupings
from isonomy.population import Population
from isonomy.report.findings import Findings
from isonomy.report.numbers import quantiles
from isonomy.report.privacy import Hidden, left_out
from isonomy_verify.arithmetic import mean_down, mean_up

SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The quantiles that a box shows."""

DECISIONS = ("certified", "flippable", "undecided")
BINS = 24
MOST_GROUPS, MOST_CROSSED_GROUPS, MOST_PAIRS = 48, 16, 10
"""Groups shown of one attribute, and of one pair of attributes, the largest first; pairs shown."""


@dataclass(frozen=True)
class Group:
    """Violations and decisions of some of the people."""

    name: str
    people: int
    mean: tuple[float, float]  # lower, upper
    lower: tuple[float, ...]  # quantiles
    upper: tuple[float, ...]
    decisions: tuple[float, ...]  # shares of the weight, in the order of DECISIONS


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


def all_people(findings: Findings) -> Group:
    """Return all of the people as one group."""
    return _group(findings, "everybody", np.ones(len(findings.people), dtype=bool))


def group_tables(
    findings: Findings, groupings: list[Grouping], hidden: Hidden
) -> list[tuple[str, list[Group], tuple[str, ...]]]:
    """Return the title, the groups and notes of each attribute set, without groups that are hidden or too many."""
    tables = []
    for grouping in groupings:
        sizes = np.bincount(grouping.code, minlength=len(grouping.names))
        shown = [place for place, name in enumerate(grouping.names) if (grouping.title, name) not in hidden]
        most = MOST_GROUPS if len(grouping.attributes) == 1 else MOST_CROSSED_GROUPS
        listed = sorted(sorted(shown, key=lambda place: -int(sizes[place]))[:most])
        groups = [_group(findings, grouping.names[place], grouping.code == place) for place in listed]
        tables.append((grouping.title, groups, left_out(len(sizes) - len(shown), len(shown) - len(listed))))
    return tables


def histogram(findings: Findings) -> list[tuple[float, float, int, int]]:
    """Return the bins up to the largest bound: from, to, people by their upper bounds, by their lower bounds."""
    local = findings.certificate.local
    upper, lower = (values[np.isfinite(values)] for values in (local.upper, local.lower))
    top = round_up(float(max(upper.max(initial=0.0), lower.max(initial=0.0))))
    edges = np.linspace(0.0, top, BINS + 1)
    counts = [np.histogram(values, edges)[0].tolist() for values in (upper, lower)]
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), *counts, strict=True))


def round_up(value: float) -> float:
    """Return a round number that is at least ``value``."""
    if not value > 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(step * power for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 20) if step * power >= value))


def shares_of(values: NDArray[Any], weights: FloatArray, kinds: Sequence[str]) -> tuple[float, ...]:
    """Return the share of the weight of each kind; exactly 0 or 1 where no value or every value is of it."""
    inside = [values == kind for kind in kinds]
    return tuple(
        float(some.all()) if some.all() or not some.any() else float(weights[some].sum() / weights.sum())
        for some in inside
    )


def _group(findings: Findings, name: str, inside: NDArray[np.bool_]) -> Group:
    local, weights = findings.certificate.local, findings.people.weights
    some: FloatArray = np.asarray(weights[inside], dtype=np.float64)
    if not some.sum() > 0:  # all weights are 0: all people count alike
        some = np.ones(len(some))
    lower, upper = local.lower[inside], local.upper[inside]
    return Group(
        name, int(inside.sum()), (mean_down(lower, some), mean_up(upper, some)),
        tuple(quantiles(lower, some, SHARES)), tuple(quantiles(upper, some, SHARES)),
        shares_of(local.decision[inside], some, DECISIONS),
    )  # fmt: skip
