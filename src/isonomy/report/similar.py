"""What δ allows: which features a similar person can differ in, how far in raw units, and what that leaves out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from isonomy.certificates.movement import sampled_rows
from isonomy.certificates.question import Question
from isonomy.population.feature import Feature
from isonomy.report.findings import Findings, role_of
from isonomy.report.numbers import cell, listed, parameter, percent
from isonomy.similarity import Counterparts

ROWS = 20_000
"""Individuals from whom correlations are taken."""


class Move(NamedTuple):
    """A feature in which similar people can differ."""

    feature: str
    role: str  # "protected", "proxy" or ""
    who: str  # for whom it can move
    reach: str  # how far
    correlation: float  # the strongest with a protected attribute, in size; NaN for protected ones
    read: bool  # by the network


class Similar(NamedTuple):
    """Who counts as similar, and what the reader must know about it before anything else."""

    moves: tuple[Move, ...]
    still: tuple[str, ...]
    warnings: tuple[str, ...]


def similar(findings: Findings) -> Similar:
    """The table of moves; with redaction it says nothing that only holds for one person's values."""
    local, question, schema = findings.certificate.local, findings.certificate.question, findings.people.schema
    table = local.movement()
    close = _correlations(findings)
    moves, still, whole = [], [], sampled_rows(len(findings.people)).step == 1
    for feature in schema.features:
        row: Any = table.loc[feature.name]
        if not row["moves"] > 0 and (whole or not _by_value(feature, question)):
            still.append(feature.name)
            continue
        who = "everybody" if row["moves"] == 1 else "some" if findings.redacted else percent(float(row["moves"]))
        reach, read = _reach(feature, row, question, findings.redacted), feature.name in findings.read
        moves.append(Move(feature.name, role_of(feature), who, reach, close.get(feature.name, math.nan), read))
    moves.sort(key=lambda move: ("protected", "proxy", "").index(move.role))
    return Similar(tuple(moves), tuple(still), tuple(_warnings(findings, moves)))


def _by_value(feature: Feature, question: Question) -> bool:
    """Whether it hangs on a person's own value how far the feature can move: then some show nothing of the others."""
    metric, place = question.metric, (question.schema.slices[feature.name] if question.schema else slice(0))
    return isinstance(metric, Counterparts) and question.delta > 0 and bool((metric.relative[place] > 0).any())


def whom(people: int) -> str:
    """Return on whom of all the people moves were seen."""
    looked = len(range(people)[sampled_rows(people)])
    return f"all {people:,} people" if looked == people else f"{looked:,} of {people:,} people, evenly spaced"


def seen(people: int) -> str:
    """Return on whom moves were seen, and from which size on: nothing is known beyond that."""
    return f"as far as was seen on {whom(people)}, for differences above a billionth of a unit"


def _reach(feature: Feature, row: Any, question: Question, redacted: bool) -> str:
    """How far a feature can move; the largest move over all people would tell somebody's value, if redacted."""
    whole = question.domain.kind == "realizable"
    if feature.kind == "categorical":
        count, to = float(row["categories"]), "to" if whole else "some of the way to"
        if redacted and count != round(count):
            return f"{to} other categories"
        others = f"{count:.0f}" if count == round(count) else f"on average {count:.1f}"
        return f"{to} {others} other {'category' if others == '1' else 'categories'}"
    rule = _rule(feature, question)
    if rule or redacted:
        return rule or "to other values"
    least, most = (float(row[end]) for end in ("least", "most"))
    if not (math.isfinite(least) and math.isfinite(most)):
        return "to any value"
    if whole and feature.kind in ("integer", "ordinal"):
        least, most = math.ceil(least - 1e-6), math.floor(most + 1e-6)
    return f"by −{cell(float(f'{-least:.4g}')) if least < 0 else 0} to +{cell(float(f'{most:.4g}'))}"


def _rule(feature: Feature, question: Question) -> str:
    """The metric's own rule where it has one for each feature."""
    metric, delta = question.metric, question.delta
    if not isinstance(metric, Counterparts):
        return ""
    place = question.schema.slices[feature.name].start if question.schema is not None else 0
    if metric.free[place]:
        if feature.kind == "ordinal":
            return f"to any of its {len(feature.categories)} levels"
        bounded = math.isfinite(feature.low) and math.isfinite(feature.high)
        return f"to any value from {cell(feature.low)} to {cell(feature.high)}" if bounded else "to any value"
    if metric.relative[place] > 0:
        steps = delta * math.log1p(float(metric.relative[place]))
        if steps > 40:
            return "to any value"
        more = math.expm1(steps)
        nothing = "" if feature.low > 0 else "; 0 stays 0"
        return f"by up to {parameter(float(f'{100 * more:.4g}'))}% more, or as much less{nothing}"
    reach = delta * float(metric.tolerance[place]) * feature.unit
    if reach > 1e15:
        return "to any value"
    if feature.kind in ("integer", "ordinal"):
        reach = math.floor(reach + 1e-6)
    noun = "" if feature.kind != "ordinal" else " level" if reach == 1 else " levels"
    return f"by up to {cell(float(f'{reach:.6g}'))}{noun} more or less"


def _correlations(findings: Findings) -> dict[str, float]:
    """For each feature that is not protected, its strongest correlation with a protected one, in size."""
    people, schema = findings.people, findings.people.schema
    protected = np.flatnonzero(schema.protected_coordinates)
    if not len(protected) or len(people) < 2:
        return {}
    step = -(-len(people) // ROWS)
    centred = people.x[::step] - people.x[::step].mean(axis=0)
    size = np.sqrt((centred**2).sum(axis=0))
    scaled = centred / np.where(size > 0, size, 1.0)
    strength = np.abs(scaled.T @ scaled[:, protected]).max(axis=1)
    return {f.name: float(strength[schema.slices[f.name]].max()) for f in schema.features if not f.protected}


def _warnings(findings: Findings, moves: list[Move]) -> list[str]:
    """What makes the bounds say less than a reader might think."""
    schema = findings.people.schema
    if not moves:
        return [
            f"With this metric and δ nobody is similar to anybody else, {seen(len(findings.people))}: the bounds below "
            "are about people who are as good as equal in everything, and say nothing about fairness."
        ]
    if not schema.protected:
        return ["The schema names no protected attribute, so the bounds are about small differences of any kind."]
    said = [move for move in moves if move.role]
    if not said:
        close = max((move for move in moves if move.correlation > 0), key=lambda m: m.correlation, default=None)
        rest = (
            f"Of the features that can move, {close.feature} is the one most correlated with a protected attribute "
            f"({close.correlation:.2f} of 1)."
            if close is not None
            else "No feature that can move is correlated with a protected attribute."
        )
        return [
            "No protected attribute and no declared proxy can move: similar people agree on "
            f"{listed(list(schema.protected))}, {seen(len(findings.people))}. The bounds below do not compare people "
            f"of different groups. {rest}"
        ]
    if not any(move.read for move in said) and findings.read & set(schema.protected):
        names = listed([move.feature for move in said])
        return [
            f"The network reads none of the protected attributes and proxies that can move ({names}): changing "
            "them cannot change its answer, and what is bounded is the effect of the other moves."
        ]
    return []
