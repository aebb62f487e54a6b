"""Features in which δ lets similar people differ, how far in raw units, and those in which it does not."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from isonomy.certificates.movement import sampled_rows
from isonomy.population.feature import Feature
from isonomy.problem import Problem
from isonomy.report.findings import Findings, role_of
from isonomy.report.numbers import cell, listed, parameter, percent
from isonomy.similarity import Counterparts


class Move(NamedTuple):
    """A feature in which similar people can differ."""

    feature: str
    role: str  # "protected", "proxy" or ""
    who: str  # the share of people for whom it can move
    reach: str  # how far
    read: bool  # by the network


class Similar(NamedTuple):
    """The features in which similar people can differ or not, and warnings for the reader."""

    moves: tuple[Move, ...]
    fixed: tuple[str, ...]  # features in which they were not seen to differ
    warnings: tuple[str, ...]


def similar(findings: Findings) -> Similar:
    """Return the table of moves; a redacted one holds nothing that is true of one person's values only."""
    local, problem, schema = findings.certificate.local, findings.certificate.problem, findings.people.schema
    table = local.movement()
    moves, fixed, complete = [], [], sampled_rows(len(findings.people)).step == 1
    for feature in schema.features:
        row: Any = table.loc[feature.name]
        if not row["moves"] > 0 and (complete or not _by_value(feature, problem)):
            fixed.append(feature.name)
            continue
        who = "everybody" if row["moves"] == 1 else "some" if findings.redacted else percent(float(row["moves"]))
        reach, read = _reach(feature, row, problem, findings.redacted), feature.name in findings.read
        moves.append(Move(feature.name, role_of(feature), who, reach, read))
    moves.sort(key=lambda move: ("protected", "proxy", "").index(move.role))
    return Similar(tuple(moves), tuple(fixed), tuple(_warnings(findings, moves)))


def _by_value(feature: Feature, problem: Problem) -> bool:
    """Return whether a feature's reach depends on a person's own value: a sample then shows nothing of the rest."""
    metric, place = problem.metric, (problem.schema.slices[feature.name] if problem.schema else slice(0))
    return isinstance(metric, Counterparts) and problem.delta > 0 and bool((metric.relative[place] > 0).any())


def sampled_people(people: int) -> str:
    """Return the phrase for the people on whom moves were sampled."""
    sampled = len(range(people)[sampled_rows(people)])
    return f"all {people:,} people" if sampled == people else f"{sampled:,} of {people:,} people, evenly spaced"


def caveat(people: int) -> str:
    """Return the caveat on a missing move: on which people, and from which size on, moves are seen."""
    return f"as far as was seen on {sampled_people(people)}, for differences above a billionth of a unit"


def _reach(feature: Feature, row: Any, problem: Problem, redacted: bool) -> str:
    """Return how far a feature can move; if redacted, not the largest move, which would disclose a person's value."""
    realizable = problem.domain.kind == "realizable"
    if feature.kind == "categorical":
        count, to = float(row["categories"]), "to" if realizable else "some of the way to"
        if redacted and count != round(count):
            return f"{to} other categories"
        others = f"{count:.0f}" if count == round(count) else f"on average {count:.1f}"
        return f"{to} {others} other {'category' if others == '1' else 'categories'}"
    rule = _rule(feature, problem)
    if rule or redacted:
        return rule or "to other values"
    least, most = (float(row[end]) for end in ("least", "most"))
    if not (math.isfinite(least) and math.isfinite(most)):
        return "to any value"
    if realizable and feature.kind in ("integer", "ordinal"):
        least, most = math.ceil(least - 1e-6), math.floor(most + 1e-6)
    return f"by −{cell(float(f'{-least:.4g}')) if least < 0 else 0} to +{cell(float(f'{most:.4g}'))}"


def _rule(feature: Feature, problem: Problem) -> str:
    """Return the metric's own rule for a feature; "" where it has none."""
    metric, delta = problem.metric, problem.delta
    if not isinstance(metric, Counterparts):
        return ""
    place = problem.schema.slices[feature.name].start if problem.schema is not None else 0
    if metric.free[place]:
        if feature.kind == "ordinal":
            return f"to any of its {len(feature.categories)} levels"
        bounded = math.isfinite(feature.low) and math.isfinite(feature.high)
        return f"to any value from {cell(feature.low)} to {cell(feature.high)}" if bounded else "to any value"
    if metric.relative[place] > 0:
        steps = delta * math.log1p(float(metric.relative[place]))
        if steps > 40:
            return "to any value"
        more, less = (float(f"{100 * abs(math.expm1(each)):.4g}") for each in (steps, -steps))
        nothing = "" if feature.low > 0 else "; 0 stays 0"
        return f"by up to {parameter(more)}% more, or {parameter(min(less, 99.99))}% less{nothing}"
    reach = delta * float(metric.tolerance[place]) * feature.unit
    if reach > 1e15:
        return "to any value"
    if feature.kind in ("integer", "ordinal"):
        reach = math.floor(reach + 1e-6)
    noun = "" if feature.kind != "ordinal" else " level" if reach == 1 else " levels"
    return f"by up to {cell(float(f'{reach:.6g}'))}{noun} more or less"


def _warnings(findings: Findings, moves: list[Move]) -> list[str]:
    """Return warnings where the bounds say less than a reader might think."""
    schema = findings.people.schema
    if not moves:
        return [
            f"With this metric and δ nobody is similar to anybody else, {caveat(len(findings.people))}: the bounds "
            "below are about people who are as good as equal in everything, and say nothing about fairness."
        ]
    if not schema.protected:
        return ["The schema names no protected attribute, so the bounds are about small differences of any kind."]
    protected_moves = [move for move in moves if move.role]
    if not protected_moves:
        return [
            "No protected attribute and no declared proxy can move: similar people agree on "
            f"{listed(list(schema.protected))}, {caveat(len(findings.people))}. The bounds below do not compare people "
            f"of different groups."
        ]
    if not any(move.read for move in protected_moves) and findings.read & set(schema.protected):
        names = listed([move.feature for move in protected_moves])
        return [
            f"The model reads none of the protected attributes and proxies that can move ({names}): changing "
            "them cannot change its answer, and what is bounded is the effect of the other moves."
        ]
    return []
