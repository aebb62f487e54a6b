"""The facts on a terminal: a few lines of text, the finding first; tables of rich for one person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.table import Table as Grid
from rich.text import Text

from isonomy.escapes import visible
from isonomy.fairness import SCORES
from isonomy.report.numbers import listed
from isonomy.report.sections import NOT_SEARCHED, NOTHING, UNSEARCHED, Cell, Fact, Facts, FactTable, rewritten

_COLOUR = {"certified": "bold green", "violated": "bold red", "undecided": "bold yellow", "none": "bold"}

MOST = 12
"""Lines of an audit; the command adds where it was written and how to check it."""

Shown = str | Text | Grid


class _Row(NamedTuple):
    """A row of the terminal: the smaller the rank, the longer it stays where there are too many; populations have no
    name."""

    rank: int
    name: str
    text: Text


def to_terminal(facts: Facts) -> Iterator[Shown]:
    """Yield an audit in at most :data:`MOST` lines: what was found, who gains and loses, how much, by each attribute
    alone, of tomorrow's people, and of groups."""
    facts = rewritten(facts, visible)
    summary, known = facts["summary"], {fact.code: fact for fact in facts["summary"].facts}
    head = [Text(f"{known['title']}. Audited: {known['selection']}.", style="bold")]
    head += [Text(f"Read this first. {note}", style="bold") for note in summary.notes]
    head += [Text(facts.headline, style=_COLOUR[facts.marks[0][0]])]
    head += [Text(sentence) for sentence in facts["finding"].sentences if sentence]
    head += [Text(f"{facts.marks[-1][1]}. {summary.sentences[0]}")]
    head += [Text(f"{fact.words}: {fact}") for fact in summary.facts if fact.code == "remarks" and fact.printed]
    last = "; ".join(f"{fact.words} {fact}" for code in SCORES if (fact := known[code]).printed)
    rows = [
        *_everywhere(facts["much"].tables[1:]),
        *_alone(facts["much"].tables[0]),
        *_tomorrow(facts["tomorrow"].tables[0]),
    ]
    yield from head
    yield from _fitting(rows, max(2, MOST - len(head) - 2))
    yield from map(Text, filter(None, (last, facts["groups"].drawn["short"])))


def _fitting(rows: Sequence[_Row], most: int) -> list[Text]:
    """Return the rows of the first ranks in their order, the last one naming those that are left out."""
    first = sorted(range(len(rows)), key=lambda i: rows[i].rank)
    kept, left = [rows[i].text for i in sorted(first[:most])], [rows[i].name for i in sorted(first[most:])]
    names, others = [name for name in left if name], left.count("")
    names += [f"{others} population{'s' * (others > 1)}"] if others else []
    if names:
        kept[-1].append(f" (not listed here: {listed(names)})")
    return kept


def _alone(table: FactTable) -> Iterator[_Row]:
    for row in table.rows[1:]:
        cells = {cell.text.code: cell.text for cell in row if isinstance(cell.text, Fact)}
        decisions = ""
        if "alone.flips" in cells:
            decisions = f"{cells['alone.flips']} decisions shown to change, {cells['alone.kept']} proved to stay; "
        name = str(row[0].text)
        rank = {"Protected attributes only": 2, "Other differences only": 4}.get(name, 1)
        text = f"- {name}: {decisions}{_between(cells['alone.lower'], cells['alone.upper'])}"
        yield _Row(rank, name, Text(text))


def _everywhere(tables: Sequence[FactTable]) -> Iterator[_Row]:
    for row in (table.rows[0] for table in tables):
        cells = {cell.text.code: cell.text for cell in row if isinstance(cell.text, Fact)}
        turned = "everywhere.decision" in cells and f"another decision: {cells['everywhere.decision']}; "
        sides = _between(cells["everywhere.lower"], cells["everywhere.upper"], "")
        text = f"- For anybody at all, {row[0].text} alone: {turned or ''}{sides}"
        yield _Row(0, "For anybody at all", Text(text))


def _tomorrow(table: FactTable) -> Iterator[_Row]:
    for place, row in enumerate(table.rows[1:]):
        decisions = f"; {row[4].text} of decisions can change" if str(row[4].text) else ""
        who = f"{row[0].text} ({row[0].note})" if "by itself" in str(row[0].text) else row[0].text
        where = " in one" * ("Any " in str(row[0].text))  # of several populations one is shown, and not each
        text = f"- {who}: {_between(row[2].text, row[3].text, where=where)}{decisions}"
        yield _Row(3 if place else 0, "", Text(text))


def _between(lower: object, upper: object, of: str = "on average ", where: str = "") -> str:
    """Return both sides of a mean, or of another number; ``where`` it was shown, if not everywhere."""
    most = str(upper) if str(upper) == NOTHING else f"at most {upper} (proved)"
    if str(lower) == NOT_SEARCHED:
        return f"{of}{most}; {UNSEARCHED}"
    return f"{of}at least {lower}{where} (shown), {most}"


def row_to_terminal(facts: Facts, whose: str) -> Iterator[Shown]:
    """Yield one person next to the worst counterpart; ``whose`` is the sentence on which person it is."""
    facts = rewritten(facts, visible)
    known, (differs, equal) = {fact.code: fact for fact in facts["row"].facts}, facts["row"].tables
    name = f", {facts.fact('id')}" if facts.fact("id").printed else ""
    yield Text(f"Row {known['row']}{name}: {known['prediction']}", style="bold")
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


def _cell(cell: Cell) -> str:
    return f"{cell.text} ({cell.role})" if cell.role else str(cell.text)
