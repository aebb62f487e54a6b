"""The facts on a terminal: lines and tables of rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.table import Table as Grid
from rich.text import Text

from isonomy.escapes import visible
from isonomy.fairness import SCORES
from isonomy.report.sections import Cell, Facts, FactTable, rewritten

_COLOUR = {"certified": "bold green", "violated": "bold red", "undecided": "bold yellow", "none": "bold"}
_TERMS = ("Network", "Similar people")

Shown = str | Text | Grid


def to_terminal(facts: Facts, folder: str = "") -> Iterator[Shown]:
    """Yield an audit: people, bounds, the curve, the spread, decisions, similarity, one pair.

    ``folder`` of the audit, quoted for a shell, is part of the command that shows more of the pair.
    """
    facts = rewritten(facts, visible)
    summary, known = facts["summary"], {fact.code: fact for fact in facts["summary"].facts}
    threshold, meaning, behind = summary.sentences
    yield Text(f"{known['title']}", style="bold")
    yield Text(f"Audited: {known['selection']}.", style="bold")
    for fact in facts["proved"].facts:
        if fact.words in _TERMS:
            yield Text(f"{fact.words}: {fact}")
    yield Text(f"\n{facts.headline}", style="bold")
    for kind, mark in facts.marks:
        yield Text(f"{mark.upper()}.", style=_COLOUR[kind])
    yield Text(f"{threshold}\n{meaning}\n{behind}")
    for note in summary.notes:
        yield Text(f"Read this first. {note}", style="bold")
    curve, shifts = facts["shift"].tables
    step = max(1, (curve.marked or 0) // 2)  # half of γ, γ, and so on to twice γ
    yield from _titled(curve, curve.rows[: 4 * step + 1 : step])
    half = len(facts["people"].facts) // 2
    upper, lower = facts["people"].facts[:half], facts["people"].facts[half:]
    spread = Grid("violation", *(fact.words for fact in upper), title="Violations from person to person")
    spread.add_row("proved, at most", *map(str, upper))
    spread.add_row("found, at least", *map(str, lower))
    yield ""
    yield spread
    yield ""
    shown = [fact for fact in summary.facts if fact.code.startswith("decisions.") or fact.code in SCORES]
    yield from (Text(f"{fact.words}: {fact}") for fact in shown if fact.printed)
    yield from (shown for each in facts["drivers"].tables if each.code == "alone" for shown in _titled(each))
    yield from _titled(facts["proved"].tables[0])
    yield from _titled(shifts)
    for pair in facts["pairs"].drawn.get("pairs", [])[:1]:
        row, (differs, equal) = pair.fact("row"), pair["row"].tables
        yield Text(f"\nMost unequal pair found (row {row}{_named(pair)}, difference {pair.fact('lower')}):")
        yield _grid(differs)
        where = "" if folder else ", where OUT is the folder of this audit."
        more = f"isonomy explain {visible(folder) or 'OUT'} --row {row}{where}"
        rest = "feature" if len(equal.rows) == 1 else f"{len(equal.rows)} features"
        yield Text(f"In the other {rest} both agree: {more}")


def row_to_terminal(facts: Facts, whose: str) -> Iterator[Shown]:
    """Yield one person next to the worst counterpart; ``whose`` is the sentence on which person it is."""
    facts = rewritten(facts, visible)
    known, (differs, equal) = {fact.code: fact for fact in facts["row"].facts}, facts["row"].tables
    yield Text(f"Row {known['row']}{_named(facts)}: {known['prediction']}", style="bold")
    yield Text(f"{whose}: what is proved here is about this person alone.")
    yield Text(facts.headline)
    yield Text(str(known["decision"]))
    if known["lower"].value > 0:
        names = ", ".join(known["differs"].value)
        yield Text(f"{known['counterpart_prediction'].words}: {known['counterpart_prediction']}; differs in {names}.")
    grid = Grid("feature", "individual", "counterpart", "")
    for line in differs.rows:
        grid.add_row(*map(_cell, line), "differs", style="bold")
    for line in equal.rows:
        grid.add_row(*map(_cell, line), "")
    yield grid


def _named(facts: Facts) -> str:
    """Return the id of a person, behind a comma, if there is one."""
    return f", {facts.fact('id')}" if facts.fact("id").printed else ""


def _titled(table: FactTable, rows: Iterable[tuple[Cell, ...]] | None = None) -> Iterator[Shown]:
    if table.rows:
        yield ""
        yield _grid(table, rows, table.title)
        yield from map(Text, table.notes)


def _grid(table: FactTable, rows: Iterable[tuple[Cell, ...]] | None = None, title: str | None = None) -> Grid:
    grid = Grid(*(name.lower() for name, _ in table.heads), title=title, title_justify="left")
    for row in table.rows if rows is None else rows:
        grid.add_row(*map(_cell, row))
    return grid


def _cell(cell: Cell) -> str:
    return f"{cell.text} ({cell.role})" if cell.role else str(cell.text)
