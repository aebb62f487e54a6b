"""Who gains and who loses: what everybody would get with each value of a protected attribute, and from which category
to which decisions change. Counted by running the model, so shown, and not part of a certificate."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from isonomy.population.feature import Feature
from isonomy.report.findings import Findings
from isonomy.report.numbers import spoken
from isonomy.report.privacy import SMALLEST
from isonomy.report.sections import Cell, Fact, FactTable, Rounded, Section, exact, table
from isonomy.report.turns import Everybody, Exchange, Turns, has_values

MOST = 10
"""Exchanges of an attribute that are shown, those of most decisions."""


def directions(
    findings: Findings, turns: Turns, rounded: Rounded, headline: str, groups: Collection[tuple[str, str]]
) -> Section:
    """Tabulate for each protected attribute that is read what everybody would get with each value of it, and which
    exchanges of categories change decisions; ``groups`` are those that may be spoken of, by attribute and name."""
    tables = list[FactTable]()
    for feature in findings.people.schema.features:
        if feature.protected and feature.name in findings.read and has_values(feature):
            everybody, exchanges = turns.everybody_as(feature)
            if findings.redacted:
                exchanges = [
                    each for each in exchanges if each.people >= SMALLEST and (feature.name, each.before) in groups
                ]
            tables.append(_everybody(findings, turns, rounded, feature, everybody))
            tables += _exchanges(findings, turns, rounded, feature, exchanges)
    on = "" if len(turns.rows) == len(findings.people) else f" on {len(turns.rows):,} people, evenly spaced"
    how = (
        f"Counted by running the model with another value{on}, everything else equal: shown, and not part of the "
        "certificate."
    )
    return Section("who", (), (headline,) if headline else (), tuple(tables), (how,) if tables else ())


def _everybody(
    findings: Findings, turns: Turns, rounded: Rounded, feature: Feature, everybody: list[Everybody]
) -> FactTable:
    """Tabulate what all people would get with each value, the most favourable one first."""
    title, named = spoken(feature.name), findings.favourable
    given: list[str] = []
    today: tuple[str, ...] = ()
    if turns.direction is not None:
        given = [f"Given {named}#"]
        today = (f"As they are {int(turns.direction[0].sum()):,} of {len(findings.people):,} are given {named}.",)
    everybody = sorted(everybody, key=lambda each: -each.change)
    rows = [
        (each.value, *(exact("as.given", "Given", each.favoured) for _ in given), rounded.signed(each.change))
        for each in everybody
    ]
    heads = f"If everybody’s {title} were@wide", *given, _unit(findings)
    return table(f"as-{feature.name}", f"{title[0].upper()}{title[1:]}", *heads, rows=rows, notes=today)


def _exchanges(
    findings: Findings, turns: Turns, rounded: Rounded, feature: Feature, exchanges: list[Exchange]
) -> list[FactTable]:
    """Tabulate which exchanges of categories change decisions, those of most decisions first."""
    if not exchanges:
        return []
    exchanges = sorted(exchanges, key=lambda each: (-(each.gain + each.lose), -abs(each.change)))
    most = max(max(each.gain, each.lose) for each in exchanges)
    named, rows = turns.direction is not None, []
    for each in exchanges[:MOST]:
        bar = () if findings.redacted else ("both", each.lose, each.gain, most)
        ways = (_count(findings, each.gain), _count(findings, each.lose), Cell(drawn=bar)) if named else ()
        people = exact("exchange.people", "People", each.people)
        rows.append((f"{each.before} → {each.after}", people, *ways, rounded.signed(each.change)))
    heads: list[Any] = ["From → to@wide", "People#", *(["▲ gain#", "▼ lose#", "▼ | ▲@drawn"] if named else [])]
    left = len(exchanges) - MOST
    notes = (f"{left} more, of fewer decisions, are left out.",) if left > 0 else ()
    title = spoken(feature.name)
    caption = f"{title[0].upper()}{title[1:]}: from whom to whom"
    return [table(f"from-{feature.name}", caption, *heads, _unit(findings), rows=rows, notes=notes)]


def _unit(findings: Findings) -> str:
    return "Changes by, on average#" if findings.regression else "Score changes by, on average#"


def _count(findings: Findings, count: int) -> Fact:
    masked = findings.redacted and 0 < count < SMALLEST
    return exact("exchange.count", "People", None if masked else count, f"<{SMALLEST}" if masked else None)
