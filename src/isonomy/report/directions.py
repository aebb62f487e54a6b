"""Who gains and who loses: what everybody would get with each value of a protected attribute, and from which category
to which decisions change. Counted by running the model, so shown, and not part of a certificate."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from typing import Any

import numpy as np

from isonomy.population.feature import Feature
from isonomy.report.findings import Findings
from isonomy.report.numbers import spoken
from isonomy.report.privacy import NOT_SHOWN, SMALLEST, protected_cells
from isonomy.report.sections import Cell, Fact, FactTable, Rounded, Section, exact, table
from isonomy.report.turns import Everybody, Exchange, Turns, has_values

MATRIX = 8
"""Categories of an attribute up to which its exchanges are a matrix; beyond it they are a list."""

MOST = 10
"""Exchanges of an attribute that a list has, those of most decisions."""

TINTS = 3
"""Tints of a matrix, the strongest that of the exchange of most decisions."""

Hidden = frozenset[tuple[str, str]]
"""Exchanges, from and to, whose counts are not shown."""


def directions(
    findings: Findings, turns: Turns, rounded: Rounded, headline: str, groups: Collection[tuple[str, str]]
) -> Section:
    """Tabulate for each protected attribute that is read what everybody would get with each value of it, and which
    exchanges of categories change decisions; ``groups`` are those that may be spoken of, by attribute and name."""
    tables = list[FactTable]()
    for feature in findings.people.schema.features:
        if feature.protected and feature.name in findings.read and has_values(feature):
            everybody, exchanges = turns.everybody_as(feature)
            hidden: Hidden = frozenset()
            secret: Collection[str] = ()
            if findings.redacted:
                spoken_of = [
                    each for each in exchanges if each.people >= SMALLEST and (feature.name, each.before) in groups
                ]
                hidden = _hidden(exchanges, spoken_of)
                secret, exchanges = _telling(exchanges, hidden), spoken_of
            tables.append(_everybody(findings, turns, rounded, feature, everybody, secret))
            if exchanges:
                form = _matrix if _fits(everybody, exchanges) else _list
                tables.append(form(findings, turns, rounded, feature, everybody, exchanges, hidden))
    on = "" if len(turns.rows) == len(findings.people) else f" on {len(turns.rows):,} people, evenly spaced"
    how = (
        f"Counted by running the model with another value{on}, everything else equal: shown, and not part of the "
        "certificate."
    )
    return Section("who", (), (headline,) if headline else (), tuple(tables), (how,) if tables else ())


def _everybody(
    findings: Findings, turns: Turns, rounded: Rounded, feature: Feature, everybody: list[Everybody],
    secret: Collection[str],
) -> FactTable:  # fmt: skip
    """Tabulate what all people would get with each value, the most favourable one first; not the counts of values
    that are ``secret``."""
    title, named = spoken(feature.name), findings.favourable
    given: list[str] = []
    today: tuple[str, ...] = ()
    if turns.direction is not None:
        given = [f"Given {named}#"]
        today = (f"As they are {int(turns.direction[0].sum()):,} of {len(findings.people):,} are given {named}.",)
    everybody = sorted(everybody, key=lambda each: -each.change)
    rows = [
        (
            each.value,
            *(NOT_SHOWN if each.value in secret else exact("as.given", "Given", each.favoured) for _ in given),
            rounded.signed(each.change),
        )
        for each in everybody
    ]
    heads = f"If everybody’s {title} were@wide", *given, _unit(findings)
    return table(f"as-{feature.name}", f"{title[0].upper()}{title[1:]}", *heads, rows=rows, notes=today)


def _hidden(exchanges: list[Exchange], shown: Collection[Exchange]) -> Hidden:
    """Return the exchanges of which a count is small, or could be had by subtraction: what everybody would get with a
    value is a total of all who gain it and all who lose it."""
    hidden = set[tuple[str, str]]()
    for after, some in groupby(sorted(exchanges, key=lambda each: each.after), key=lambda each: each.after):
        column = list(some)
        sizes = np.array([count for each in column for count in (each.gain, each.lose)])
        masked = np.array([each not in shown for each in column for _ in range(2)])
        counted = (sizes > 0) | masked  # nobody is no small group
        cells = masked.copy()
        cells[counted] = protected_cells(sizes[counted], (), masked[counted])
        if cells.any() and (cells.sum() == 1 or sizes[cells].sum() < SMALLEST):
            cells[:] = True
        pairs = zip(column, cells.reshape(-1, 2).tolist(), strict=True)
        hidden |= {(each.before, after) for each, ways in pairs if any(ways)}
    return frozenset(hidden)


def _telling(exchanges: list[Exchange], hidden: Hidden) -> set[str]:
    """Return the values of which what everybody would get tells a hidden count: few decisions are in it, or one."""
    sizes: dict[str, list[int]] = {}
    for each in exchanges:
        if (each.before, each.after) in hidden:
            sizes.setdefault(each.after, []).extend(size for size in (each.gain, each.lose) if size)
    return {after for after, some in sizes.items() if len(some) < 2 or sum(some) < SMALLEST}


def _fits(everybody: list[Everybody], exchanges: list[Exchange]) -> bool:
    """Return whether exchanges are few enough for a matrix."""
    return max(len(everybody), len({each.before for each in exchanges})) <= MATRIX


def _matrix(
    findings: Findings, turns: Turns, rounded: Rounded, feature: Feature, everybody: list[Everybody],
    exchanges: list[Exchange], hidden: Hidden,
) -> FactTable:  # fmt: skip
    """Tabulate exchanges, a row for each category people have and a column for each that they would get; categories by
    favour, the least favoured first, so that gain and loss are on two sides of the diagonal."""
    if feature.categories:
        everybody = sorted(everybody, key=lambda each: each.change)
    known = {(each.before, each.after): each for each in exchanges}
    people = {each.before: each.people for each in exchanges}
    befores = [each.value for each in everybody if each.value in people] or list(people)
    counts = [each.gain + each.lose for each in exchanges if (each.before, each.after) not in hidden]
    named, rows = turns.direction is not None, []
    for before in befores:
        row = (known.get((before, each.value)) for each in everybody)
        cells = (_cell(each, named, rounded, hidden, max(counts, default=0)) for each in row)
        rows.append((Cell(before), Cell(exact("exchange.people", "People", people[before])), *cells))
    heads = ("From ↓ to →", "wide"), ("People", "n"), *((f"→ {each.value}", "n") for each in everybody)
    what = "how much the prediction changes" if findings.regression else "how much the score changes"
    ways = f"▲ would gain {findings.favourable}, ▼ would lose it; below, {what}" if named else what
    notes = (f"{ways[0].upper()}{ways[1:]} on average.",)
    return FactTable(f"from-{feature.name}", _caption(feature), heads, tuple(rows), notes=notes)


def _cell(exchange: Exchange | None, named: bool, rounded: Rounded, hidden: Hidden, most: int) -> Cell:
    """Return who gains and loses by one exchange, and the mean change below; nothing of a category itself."""
    if exchange is None:
        return Cell()
    change, gain, lose = rounded.signed(exchange.change), exchange.gain, exchange.lose
    if not named:
        return Cell(change)
    if (exchange.before, exchange.after) in hidden:
        return Cell(NOT_SHOWN, note=change)
    printed = " ".join(f"{sign} {count:,}" for sign, count in (("▲", gain), ("▼", lose)) if count) or "0"
    tint = -(-TINTS * (gain + lose) // max(1, most))
    fact = Fact("exchange.ways", "Gain and lose", (gain, lose), "exact", False, printed)
    return Cell(fact, note=change, kind=f"tint-{tint}" if tint else "")


def _list(
    findings: Findings, turns: Turns, rounded: Rounded, feature: Feature, _: list[Everybody],
    exchanges: list[Exchange], hidden: Hidden,
) -> FactTable:  # fmt: skip
    """Tabulate which exchanges of categories change decisions, those of most decisions first."""
    exchanges = sorted(exchanges, key=lambda each: (-(each.gain + each.lose), -abs(each.change)))
    most = max(max(each.gain, each.lose) for each in exchanges)
    named, rows = turns.direction is not None, []
    for each in exchanges[:MOST]:
        bar = () if findings.redacted else ("both", each.lose, each.gain, most)
        masked = (each.before, each.after) in hidden
        counts = (
            exact("exchange.count", "People", None if masked else count, NOT_SHOWN if masked else None)
            for count in (each.gain, each.lose)
        )
        ways = (*counts, Cell(drawn=bar)) if named else ()
        people = exact("exchange.people", "People", each.people)
        rows.append((f"{each.before} → {each.after}", people, *ways, rounded.signed(each.change)))
    heads: list[Any] = ["From → to@wide", "People#", *(["▲ gain#", "▼ lose#", "▼ | ▲@drawn"] if named else [])]
    left = len(exchanges) - MOST
    notes = (f"{left} more, of fewer decisions, are left out.",) if left > 0 else ()
    return table(f"from-{feature.name}", _caption(feature), *heads, _unit(findings), rows=rows, notes=notes)


def _caption(feature: Feature) -> str:
    title = spoken(feature.name)
    return f"{title[0].upper()}{title[1:]}: from whom to whom"


def _unit(findings: Findings) -> str:
    return "Changes by, on average#" if findings.regression else "Score changes by, on average#"
