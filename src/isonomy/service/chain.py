"""Define the tables of the audit log and the hash chain over them: each record carries the hash of the one before.

A request is named by its time and chance (32 hexadecimal digits, milliseconds first), so that the primary key is in the
order of time and needs no other index. Raw features are stored only with ``store_features``.

A record is a request with its predictions, an evaluation of the monitor, or a retention: a deletion of requests older
than the retention time. ``content`` is the SHA-256 of its rows as JSON, ``hash`` that of the hash before, number, kind,
name and content. The links of deleted requests stay. Retention begins at the first request of the chain and goes on
where it last ended; its link names the records that it took (the first, the last, how many requests) and has the hash
of the last of them as its content.

**What it shows.** :func:`verify` finds every record that was edited, removed, inserted or moved after it was linked, as
long as the links behind it stand. There is no secret: what may write to the database can cut the end off, link
everything anew from a record on, or append a link. Only a head that was *anchored elsewhere* shows that: everything up
to it is then as it was when the head was noted, but for the oldest requests, where a link after it says that their time
was over. How many these are is counted, and that their time was over is checked against the retention that the reader
of the log knows.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, select

METADATA = sa.MetaData()

REQUESTS = sa.Table(
    "requests",
    METADATA,
    sa.Column("request", sa.String(32), primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),  # microseconds since 1970, UTC
    sa.Column("caller", sa.String(64), nullable=False),  # the name of the key; empty where none was needed
    sa.Column("certificate", sa.String(64), nullable=False),
    sa.Column("people", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

PREDICTIONS = sa.Table(
    "predictions",
    METADATA,
    sa.Column("request", sa.String(32), nullable=False),
    sa.Column("place", sa.Integer, nullable=False),  # of the individual in the request, from 0
    sa.Column("prediction", sa.Text, nullable=False),
    sa.Column("outputs", sa.Text, nullable=False),  # JSON
    sa.Column("upper", sa.Float(53), nullable=False),
    sa.Column("lower", sa.Float(53), nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("decision", sa.String(16), nullable=False),
    sa.Column("tier", sa.String(16), nullable=False),
    sa.Column("features", sa.Text),  # JSON, only where features are stored
    sa.PrimaryKeyConstraint("request", "place"),
    sqlite_with_rowid=False,
)

EVALUATIONS = sa.Table(
    "evaluations",
    METADATA,
    sa.Column("certificate", sa.String(64), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("document", sa.Text, nullable=False),  # JSON
    sa.PrimaryKeyConstraint("certificate", "number"),
)

CHAIN = sa.Table(
    "chain",
    METADATA,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("name", sa.String(80), nullable=False),
    sa.Column("content", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sqlite_with_rowid=False,
)


def new_request() -> tuple[str, int]:
    """Return a new name for a request, and the time in it, in microseconds."""
    at = time.time_ns() // 1000
    return f"{first_name(at)}{secrets.token_hex(10)}", at


def first_name(at: int) -> str:
    """Return a lower bound of the names of all requests since a time (microseconds)."""
    return f"{at // 1000:012x}"


START = "0" * 64
"""The hash before the first record."""

BATCH = 100
"""Records that are read at a time; each may have a thousand predictions."""


class ChainRecord(NamedTuple):
    """The record of one link: its kind, name and the hash of its rows."""

    kind: str  # request, evaluation or retention
    name: str  # of the request; certificate:number of the evaluation; first-last:requests of the retention
    content: str


class Deletion(NamedTuple):
    """The records that one retention deleted: ``requests`` of them, with numbers from ``first`` to ``last``."""

    first: int
    last: int
    requests: int

    @property
    def name(self) -> str:
        """Return the name of its link."""
        return f"{self.first}-{self.last}:{self.requests}"

    @classmethod
    def parse(cls, name: str) -> Deletion | None:
        """Read the name of a link; None where it names no deletion."""
        match = re.fullmatch(r"([1-9]\d{0,18})-([1-9]\d{0,18}):([1-9]\d{0,18})", name, re.ASCII)
        return None if match is None else cls(*map(int, match.groups()))


@dataclass(frozen=True)
class Verified:
    """The result of a check: the head to anchor elsewhere, and the first fault, or None."""

    records: int
    head: str
    forgotten: int
    """Requests whose rows retention deleted; their links are there."""
    wrong: str | None
    after_anchor: int | None = None
    """Records after the anchored head; None where none was given or it is not in the chain."""
    forgotten_since: int | None = None
    """Requests up to the anchored head that retention deleted after it was noted."""


def request_record(request: Sequence[Any], rows: Iterable[Sequence[Any]], text: str | None = None) -> ChainRecord:
    """Return the record of a request and its predictions; ``text``: all of it as JSON, where encoded already."""
    text = _json([tuple(request), *map(tuple, rows)]) if text is None else text
    return ChainRecord("request", request[0], _sha256(text))


def evaluation_record(row: Sequence[Any]) -> ChainRecord:
    """Return the record of an evaluation of the monitor."""
    return ChainRecord("evaluation", f"{row[0]}:{row[1]}", _sha256(_json([tuple(row)])))


def retention_record(links: Sequence[tuple[int, str]]) -> ChainRecord:
    """Return the record of a deletion of consecutive requests, each by the number and hash of its link."""
    return ChainRecord("retention", Deletion(links[0][0], links[-1][0], len(links)).name, links[-1][1])


def linked(number: int, head: str, records: Iterable[ChainRecord]) -> Iterator[tuple[int, str, str, str, str]]:
    """Yield rows of the chain that continue after record ``number`` with hash ``head``."""
    for number, record in enumerate(records, start=number + 1):  # noqa: B020
        head = _sha256(_json([head, number, *record]))
        yield (number, *record, head)


def verify(connection: Connection, anchor: str | None = None, kept_since: int | None = None) -> Verified:
    """Check the chain from its start; ``anchor`` is a head noted elsewhere that must be in it. No request later than
    ``kept_since`` (microseconds) may have been deleted."""
    number, head, anchored, since = 0, START, 0 if anchor == START else None, 0
    deletions, limit = _Deletions.of(connection), None if kept_since is None else first_name(kept_since)

    def end(wrong: str | None) -> Verified:
        if anchored is None:
            return Verified(number, head, deletions.requests, wrong)
        return Verified(number, head, deletions.requests, wrong, number - anchored, since)

    while True:
        query = select(CHAIN).where(CHAIN.c.number > number).order_by(CHAIN.c.number).limit(BATCH)
        rows = connection.execute(query).all()
        if not rows:
            break
        present = _read_requests(connection, [row.name for row in rows if row.kind == "request"])
        for row in rows:
            title = f"Record {row.number} ({row.kind} {row.name})"
            if row.number != number + 1:
                return end(f"Record {number + 1} is missing: after record {number} comes {row.number}.")
            record = ChainRecord(row.kind, row.name, row.content)
            (link,) = linked(number, head, [record])
            if link[-1] != row.hash:
                return end(f"{title} was edited or moved: its hash is not that of what it says and of the one before.")
            now = present.get(row.name) if row.kind == "request" else _read_evaluation(connection, record)
            wrong = deletions.judge(row, record, now)
            if wrong is not None:
                return end(f"{title} {wrong}")
            if limit is not None and row.kind == "request" and now is None and row.name >= limit:
                return end(f"{title} was deleted by retention before its time was over.")
            number, head = row.number, row.hash
            if head == anchor:
                anchored, since = number, deletions.requests - deletions.linked
    if anchor is not None and anchored is None:
        return end(f"The anchored head {anchor} is not in the chain: its end was cut off, or it was linked anew.")
    return end(_unlinked_row(connection))


@dataclass
class _Deletions:
    """The deletions that links of retention name, compared with the requests as the chain is followed.

    **Soundness.** Deletions are taken in their order, and each takes requests one after the other from where the one
    before ended: while one is still to be filled, the next request of the chain is its next one or the links are
    wrong. So the requests that are gone are the first ones, no more and no fewer than the links name.
    """

    named: list[Deletion]
    filled: int = 0  # deletions whose requests were all met
    met: int = 0  # requests of the one that is being filled
    requests: int = 0  # of all
    linked: int = 0  # requests of deletions whose own links were met
    waiting: deque[tuple[Deletion, str]] = field(default_factory=deque)  # filled, with the hash of the last request

    @classmethod
    def of(cls, connection: Connection) -> _Deletions:
        """Read all deletions of the chain."""
        query = select(CHAIN.c.name).where(CHAIN.c.kind == "retention").order_by(CHAIN.c.number)
        every = map(Deletion.parse, connection.execute(query).scalars())
        return cls([each for each in every if each is not None])

    def judge(self, row: Any, record: ChainRecord, now: ChainRecord | None) -> str | None:
        """Return the fault of the next record, whose rows are ``now`` at present; None without one."""
        if row.kind == "retention":
            return self._check_retention(row)
        if row.kind == "request" and self.filled < len(self.named):
            return self._check_deleted(row, now)
        if now is None:
            return "was removed: its link is there, its rows are not."
        return None if now == record else "was edited: its rows are not those that were linked."

    def _check_deleted(self, row: Any, now: ChainRecord | None) -> str | None:
        one = self.named[self.filled]
        self.met, self.requests = self.met + 1, self.requests + 1
        if row.number > one.last or (self.met == 1 and row.number != one.first):
            return f"is not the next one where retention says that it deleted {one.name}: only the oldest may go."
        if now is not None:
            return f"is there, where retention says that it deleted {one.name}."
        if row.number == one.last:
            if self.met != one.requests:
                return f"is the last that retention deleted, with {self.met} requests where it says {one.name}."
            self.filled, self.met = self.filled + 1, 0
            self.waiting.append((one, row.hash))
        return None

    def _check_retention(self, row: Any) -> str | None:
        one = Deletion.parse(row.name)
        if one is None:
            return "does not name what it deleted."
        if not self.waiting or self.waiting[0][0] != one:
            return "names requests that do not all stand before it."
        if self.waiting.popleft()[1] != row.content:
            return "has not the hash of the last record that it names."
        self.linked += one.requests
        return None


def _read_requests(connection: Connection, names: Sequence[str]) -> dict[str, ChainRecord]:
    """Return the records of requests by name, as their rows are now; a request without any row is left out."""
    heads = {row.request: row for row in connection.execute(select(REQUESTS).where(REQUESTS.c.request.in_(names)))}
    rows: dict[str, list[Any]] = {name: [] for name in heads}
    query = select(PREDICTIONS).where(PREDICTIONS.c.request.in_(names))
    for row in connection.execute(query.order_by(PREDICTIONS.c.request, PREDICTIONS.c.place)):
        rows.setdefault(row.request, []).append(row)
    return {name: request_record(heads.get(name, (name,)), predictions) for name, predictions in rows.items()}


def _read_evaluation(connection: Connection, record: ChainRecord) -> ChainRecord | None:
    certificate, _, number = record.name.rpartition(":")
    if record.kind != "evaluation" or not number.isdecimal():
        return None
    columns = EVALUATIONS.c
    query = select(EVALUATIONS).where(columns.certificate == certificate, columns.number == int(number))
    row = connection.execute(query).first()
    return None if row is None else evaluation_record(row)


def _unlinked_row(connection: Connection) -> str | None:
    """Return a complaint about a row that is in the tables and not in the chain; None without one."""
    evaluation = EVALUATIONS.c.certificate + ":" + sa.cast(EVALUATIONS.c.number, sa.String)
    places: tuple[tuple[str, sa.Table, Any], ...] = (
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
    """Encode rows as JSON; values that JSON cannot hold were never written by the service."""
    return json.dumps(value, default=repr)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
