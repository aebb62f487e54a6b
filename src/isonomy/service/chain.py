"""The chain over the audit log: each record carries a hash of the one before, so that whoever changes the past shows.

A record is a request with its predictions, an evaluation of the monitor, or a retention: what was deleted because its
time was over. ``content`` is the SHA-256 of its rows as JSON, ``hash`` that of the hash before, number, kind, name and
content. The links of what retention deletes stay.

**What it shows.** :func:`verify` finds every record that was edited, removed, inserted or moved after it was linked, as
long as the links behind it stand. There is no secret: whoever may write to the database can cut the end off, or link
everything anew from a record on. Only a head that was *anchored elsewhere* shows that: everything up to it is then as
it was when the head was noted.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import Connection, String, Table, cast, select

from isonomy.service.tables import CHAIN, EVALUATIONS, PREDICTIONS, REQUESTS

START = "0" * 64
"""The hash before the first record."""

AT_ONCE = 100
"""Records that are read at a time: up to a thousand predictions hang on each."""


class ChainRecord(NamedTuple):
    """What one link is about."""

    kind: str  # request, evaluation or retention
    name: str  # of the request; certificate:number of the evaluation; the last request that retention deleted
    content: str


@dataclass(frozen=True)
class Verified:
    """What was found: the head to anchor elsewhere, and the first thing that is wrong, if anything is."""

    records: int
    head: str
    forgotten: int
    """Requests whose rows retention deleted; their links are there."""
    wrong: str | None
    after_anchor: int | None = None
    """Records after the anchored head; None where none was given or found."""


def of_request(request: Sequence[Any], predictions: Iterable[Sequence[Any]], text: str | None = None) -> ChainRecord:
    """The record of a request; ``text``: its rows as JSON, where they were written already."""
    text = _json([tuple(request), *map(tuple, predictions)]) if text is None else text
    return ChainRecord("request", request[0], _sha256(text))


def of_evaluation(row: Sequence[Any]) -> ChainRecord:
    """The record of what the monitor saw."""
    return ChainRecord("evaluation", f"{row[0]}:{row[1]}", _sha256(_json([tuple(row)])))


def of_retention(last: str) -> ChainRecord:
    """The record of a deletion: all requests up to ``last`` that stand before it in the chain."""
    return ChainRecord("retention", last, _sha256("[]"))


def linked(number: int, head: str, records: Iterable[ChainRecord]) -> Iterator[tuple[int, str, str, str, str]]:
    """Rows of the chain that continue after record ``number`` with hash ``head``."""
    for number, record in enumerate(records, start=number + 1):  # noqa: B020
        head = _sha256(_json([head, number, *record]))
        yield (number, *record, head)


def records_of(connection: Connection) -> Iterator[ChainRecord]:
    """All requests and evaluations that are in the tables: what was there before there was a chain."""
    names = connection.execute(select(REQUESTS.c.request).order_by(REQUESTS.c.request)).scalars().all()
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        found = _requests(connection, some)
        yield from (found[name] for name in some)
    for row in connection.execute(select(EVALUATIONS).order_by(EVALUATIONS.c.at, EVALUATIONS.c.number)):
        yield of_evaluation(row)


def verify(connection: Connection, anchor: str | None = None) -> Verified:
    """Follow the chain from its start; ``anchor`` is a head that was noted elsewhere and must be in it."""
    number, head, forgotten, anchored = 0, START, 0, 0 if anchor == START else None
    retained = _Retained(connection)

    def found(wrong: str | None) -> Verified:
        return Verified(number, head, forgotten, wrong, None if anchored is None else number - anchored)

    while True:
        query = select(CHAIN).where(CHAIN.c.number > number).order_by(CHAIN.c.number).limit(AT_ONCE)
        rows = connection.execute(query).all()
        if not rows:
            break
        present = _requests(connection, [row.name for row in rows if row.kind == "request"])
        for row in rows:
            said = f"Record {row.number} ({row.kind} {row.name})"
            if row.number != number + 1:
                return found(f"Record {number + 1} is missing: after record {number} comes {row.number}.")
            record = ChainRecord(row.kind, row.name, row.content)
            (link,) = linked(number, head, [record])
            if link[-1] != row.hash:
                return found(f"{said} was edited or moved: its hash is not that of what it says and of the one before.")
            now = present.get(row.name) if row.kind == "request" else _other(connection, record)
            if now is None and row.kind == "request" and retained.covers(row.number, row.name):
                forgotten += 1
            elif now is None:
                return found(f"{said} was removed: its link is there, its rows are not.")
            elif now != record:
                return found(f"{said} was edited: its rows are not those that were linked.")
            number, head = row.number, row.hash
            anchored = number if head == anchor else anchored
    if anchor is not None and anchored is None:
        return found(f"The anchored head {anchor} is not in the chain: its end was cut off, or it was linked anew.")
    return found(_stray(connection))


class _Retained:
    """Which requests retention may have deleted: those before a record of it that reaches as far."""

    def __init__(self, connection: Connection) -> None:
        query = select(CHAIN.c.number, CHAIN.c.name).where(CHAIN.c.kind == "retention").order_by(CHAIN.c.number)
        rows = connection.execute(query).all()
        self._numbers = [row.number for row in rows]
        self._reach = list(accumulate((row.name for row in reversed(rows)), max))[::-1]

    def covers(self, number: int, name: str) -> bool:
        later = bisect_right(self._numbers, number)
        return later < len(self._reach) and name <= self._reach[later]


def _requests(connection: Connection, names: Sequence[str]) -> dict[str, ChainRecord]:
    """The records of requests as their rows are now; a request with no row at all is left out."""
    heads = {row.request: row for row in connection.execute(select(REQUESTS).where(REQUESTS.c.request.in_(names)))}
    rows: dict[str, list[Any]] = {name: [] for name in heads}
    query = select(PREDICTIONS).where(PREDICTIONS.c.request.in_(names))
    for row in connection.execute(query.order_by(PREDICTIONS.c.request, PREDICTIONS.c.place)):
        rows.setdefault(row.request, []).append(row)
    return {name: of_request(heads.get(name, (name,)), some) for name, some in rows.items()}


def _other(connection: Connection, record: ChainRecord) -> ChainRecord | None:
    if record.kind == "retention":
        return of_retention(record.name)
    certificate, _, number = record.name.rpartition(":")
    if record.kind != "evaluation" or not number.isdecimal():
        return None
    columns = EVALUATIONS.c
    query = select(EVALUATIONS).where(columns.certificate == certificate, columns.number == int(number))
    row = connection.execute(query).first()
    return None if row is None else of_evaluation(row)


def _stray(connection: Connection) -> str | None:
    """A row that is in the tables and not in the chain."""
    evaluation = EVALUATIONS.c.certificate + ":" + cast(EVALUATIONS.c.number, String)
    places: tuple[tuple[str, Table, Any], ...] = (
        ("request", REQUESTS, REQUESTS.c.request),
        ("request", PREDICTIONS, PREDICTIONS.c.request),
        ("evaluation", EVALUATIONS, evaluation),
    )
    for kind, table, name in places:
        links = select(CHAIN.c.name).where(CHAIN.c.kind == kind)
        row = connection.execute(select(name).where(name.not_in(links)).limit(1)).scalar()
        if row is not None:
            return f"The {kind} {row} stands in '{table.name}', but in no record of the chain: it was inserted."
    return None


def _json(value: Any) -> str:
    """What JSON cannot say was never written by the service."""
    return json.dumps(value, default=repr)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
