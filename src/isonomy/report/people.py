"""Everybody alone: scores, the least change that was found to change the decision, and the worst counterpart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.report.findings import Findings, role_of
from isonomy.report.least import least_changes
from isonomy.report.numbers import cell, round_up, spoken
from isonomy.report.sections import NOTHING, Rounded, Section
from isonomy.report.turns import KINDS, Turns

MOST = 250
"""People on a page, those with the largest changes; all of them are in the table of individuals."""

BINS = 20

Changes = list[tuple[str, str, str, str]]
"""What changed: feature, before, after, role."""


def everyone(findings: Findings, turns: Turns, rounded: Rounded) -> Section:
    """Return people with their worst counterparts, the largest change first; no one of a redacted audit."""
    if findings.redacted:
        return Section("people", (), ("Left out: this report is redacted, and nobody’s row is on it.",))
    local, people, model = findings.certificate.local, findings.people, findings.certificate.problem.model
    order = np.argsort(-np.maximum(local.lower, 0), kind="stable")[:MOST]
    order = order[(local.lower[order] > 0) | (local.decision[order] != "none")]
    if not len(order):
        why = "a search found no similar person" if findings.certificate.searched else "no search was made"
        return Section("people", (), (f"Nobody is shown: {why} with another answer.",))
    own, worst = _raw(findings, local.x[order]), _raw(findings, local.witnesses.counterpart[order])
    least = least_changes([local, *(each.certificate for each in findings.alone)], order)
    enough = _raw(findings, least)
    today, there, turned = (
        np.asarray(model(np.ascontiguousarray(x))) for x in (local.x[order], local.witnesses.counterpart[order], least)
    )
    top = _top(findings, turns)
    good = None if turns.direction is None else turns.direction
    entries = []
    for place, row in enumerate(order.tolist()):
        kind = KINDS[turns.kind[row]] if turns.decides else "open"
        score, low, high = "", None, None
        if turns.output is not None and turns.shown is not None:
            score = rounded.plain(float(today[place, turns.output]))
            low, high = float(turns.shown[0][row]), float(turns.shown[1][row])
        entry: dict[str, Any] = {
            "name": _name(findings, row), "row": str(int(people.rows[row])), "kind": kind, "score": score,
            "today": "" if good is None else f"{'given' if good[0][row] else 'not given'} {findings.favourable}",
            "way": "" if good is None else "gain" if good[1][row] else "lose" if good[2][row] else "",
            "about": ", ".join(f"{spoken(name)} {cell(own[name].iloc[place])}" for name in people.schema.protected),
            "least": _changes(findings, own.iloc[place], enough.iloc[place]),
            "worst": _changes(findings, own.iloc[place], worst.iloc[place]),
            "lower": rounded.attained("person.lower", "Shown, at least", float(local.lower[row])),
            "upper": rounded.proved("person.upper", "Proved, at most", float(local.upper[row])),
            "bar": (), "range": "", "least_score": "", "worst_score": "",
        }  # fmt: skip
        entry["most"] = f"; {NOTHING}" if str(entry["upper"]) == NOTHING else f", at most {entry['upper']}"
        if low is not None and high is not None and turns.output is not None:
            entry["bar"] = (
                float(today[place, turns.output]) - top[0],
                low - top[0],
                high - top[0],
                top[1] - top[0],
                _cut(findings, turns, top),
                kind,
            )
            entry["range"] = f"; {rounded.plain(low)} to {rounded.plain(high)} shown" if low < high else ""
            entry["least_score"] = rounded.plain(float(turned[place, turns.output]))
            entry["worst_score"] = rounded.plain(float(there[place, turns.output]))
        entries.append(entry)
    rest = len(people) - len(entries)
    notes = (f"{rest:,} more people are in individuals.parquet.",) if rest else ()
    return Section("people", notes=notes, drawn={"people": entries, "named": findings.favourable})


def _raw(findings: Findings, x: FloatArray) -> pd.DataFrame:
    return findings.certificate.problem.raw(np.ascontiguousarray(x))


def _name(findings: Findings, row: int) -> str:
    people = findings.people
    return f"row {int(people.rows[row])}" if people.ids is None else str(people.ids[row])


def _changes(findings: Findings, one: Any, other: Any) -> Changes:
    """Return the features in which two people differ, protected ones first."""
    schema = findings.people.schema
    changed = [
        (spoken(str(name)), cell(one[name]), cell(other[name]), role_of(schema[str(name)]))
        for name in one.index if str(one[name]) != str(other[name])
    ]  # fmt: skip
    return sorted(changed, key=lambda change: change[3] != "protected")


def _top(findings: Findings, turns: Turns) -> tuple[float, float]:
    """Return the ends of the axis of scores: 0 and 1, or numbers that hold all that were shown."""
    if not findings.regression or turns.shown is None:
        return 0.0, 1.0
    low, high = float(turns.shown[0].min()), float(turns.shown[1].max())
    low = 0.0 if low >= 0 else -round_up(-low)
    return low, max(round_up(max(high, 0.0)), low + 1e-9)


def _cut(findings: Findings, turns: Turns, ends: tuple[float, float]) -> float | None:
    """Return the score from which on the decision changes, on an axis that begins at 0; None where there is none."""
    outcome = findings.certificate.problem.outcome
    if not turns.decides or (not findings.regression and len(outcome.classes) != 2):
        return None
    if not findings.regression and not findings.model.exclusive:
        return None
    return (0.5 if outcome.threshold is None else outcome.threshold) - ends[0]


def drawn(findings: Findings, turns: Turns, rounded: Rounded, few: int) -> dict[str, Any]:
    """Return the data of the two figures about everybody: one line each, sorted by score, if they are at most ``few``,
    and bins of the largest changes; only bins of a redacted audit."""
    local = findings.certificate.local
    kinds = KINDS if turns.decides and not findings.redacted else ("plain",)
    data: dict[str, Any] = {"kinds": kinds, "bins": _bins(findings, turns, rounded, kinds)}
    if findings.redacted or len(local) > few or turns.shown is None or turns.output is None:
        return data
    low, high = _top(findings, turns)
    score, (least, most) = turns.today[:, turns.output], turns.shown
    lines = [
        (*(float(each[i]) - low for each in (score, least, most)), KINDS[turns.kind[i]])
        for i in np.argsort(score, kind="stable").tolist()
    ]
    return data | {"lines": lines, "top": high - low, "cut": _cut(findings, turns, (low, high))}


def _bins(
    findings: Findings, turns: Turns, rounded: Rounded, kinds: Sequence[str]
) -> list[tuple[float, float, tuple[float, ...], float, str]]:
    """Return bins of the changes shown, people by kind, and as many of the changes proved; small numbers of people are
    masked where rows stay private, and kinds are then one."""
    local = findings.certificate.local
    upper, lower = (values[np.isfinite(values)] for values in (local.upper, local.lower))
    edges = np.linspace(0.0, round_up(float(max(upper.max(initial=0.0), lower.max(initial=0.0)))), BINS + 1)
    masks = [turns.kind == KINDS.index(kind) if kind in KINDS else np.ones(len(local), dtype=bool) for kind in kinds]
    counts = np.stack([np.histogram(local.lower[some], edges)[0] for some in masks])
    proved = np.histogram(upper, edges)[0]
    bins = []
    for place, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        some, outline = counts[:, place].tolist(), int(proved[place])
        words, heights = f"{sum(some):,} people", tuple(map(float, some))
        line, height = f"{outline:,}", float(outline)
        if findings.redacted:
            words = "1 to 4 people" if 0 < sum(some) < 5 else words
            heights = tuple(2.5 if 0 < each < 5 else float(each) for each in some)
            line, height = ("1 to 4", 2.5) if 0 < outline < 5 else (line, height)
        ends = f"{rounded.plain(low)} to {rounded.plain(high)}{rounded.unit}"
        words = f"{ends}: {words} by what was shown, {line} by what is proved"
        bins.append((low, high, heights, height, words))
    return bins
