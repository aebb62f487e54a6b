"""The audit log: what was decided and what was proved, appended, and never lost once acknowledged.

One thread writes at a time: whoever appends while nobody does, since to wake another thread takes longer than to write
a single request. Whatever waits then goes into one transaction (*group commit*), what others append meanwhile into the
next: a burst of requests pays for few synchronisations of the disk. A request's future is done only after the commit
that holds it. The same transaction links every record to the one before (:mod:`isonomy.service.chain`); several
processes that write to one log take turns at that.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain as joined
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, delete, func, select
from sqlalchemy.exc import OperationalError

from isonomy.errors import first_line
from isonomy.service import chain
from isonomy.service.chain import CHAIN, EVALUATIONS, PREDICTIONS, REQUESTS, first_of
from isonomy.service.database import APPENDING, LogError, open_database

AT_ONCE = 50_000
"""Predictions in one transaction, about."""

OLD = 500
"""Requests deleted in one transaction when their time is over, so that nobody waits long."""

TOGETHER = 50
"""Rows written by one statement; a database takes few parameters more than these have."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Entry:
    """One request with its predictions, in the order of the columns of :mod:`isonomy.service.chain`; the last may be
    left out where it is empty. ``text``: all of it as JSON, as the chain hashes it, where somebody has written it."""

    request: Row
    predictions: Sequence[Row]
    text: str | None = None


@dataclass(frozen=True)
class _Item:
    """What waits to be written: its record in the chain, its rows by table, and who waits for it."""

    record: chain.ChainRecord
    rows: dict[Table, Sequence[Row]]
    written: Future[None]


class AuditLog:
    """An open log. Appending is safe from any thread; ``close`` writes what still waits."""

    def __init__(self, address: str, *, waiting: int = 1024, noted: Callable[[float, int], None] | None = None) -> None:
        """``noted`` is told of every commit: its seconds and how many requests it held."""
        self.engine: Engine = open_database(address)
        self._mark = "?" if self.engine.dialect.name == "sqlite" else "%s"
        self._kept: Any = None  # SQLite's connection of whoever writes
        self._queue: queue.Queue[_Item] = queue.Queue(waiting)
        self._turn = threading.Lock()
        self._noted = noted or (lambda seconds, entries: None)
        self.trouble: str | None = None
        """Why the log cannot be written at the moment, or None."""

    def append(self, entry: Entry) -> Future[None]:
        """Write a request, or leave it to whoever writes now; the future is done when it is on disk, or tells why it
        is not."""
        rows = {REQUESTS: [entry.request], PREDICTIONS: entry.predictions}
        return self._put(chain.of_request(entry.request, entry.predictions, entry.text), rows)

    def append_evaluation(self, certificate: str, number: int, at: int, state: str, document: str) -> Future[None]:
        """Write what the monitor saw."""
        row = (certificate, number, at, state, document)
        return self._put(chain.of_evaluation(row), {EVALUATIONS: [row]})

    def forget(self, before: int) -> int:
        """Delete the oldest requests of the chain, up to the first that is not from before a time (microseconds), and
        say so in the chain; how many there were. Where a clock was set back, some wait for those before them."""
        gone, limit = 0, first_of(before)
        while True:
            with self.engine.begin() as connection:
                cursor = connection.connection.cursor()
                head = self._head(cursor)  # others that append have to wait
                links = connection.execute(_oldest(connection)).all()
                old = list(takewhile(lambda link: link.name < limit, links))
                if not old:
                    return gone
                names = [link.name for link in old]
                connection.execute(delete(PREDICTIONS).where(PREDICTIONS.c.request.in_(names)))
                connection.execute(delete(REQUESTS).where(REQUESTS.c.request.in_(names)))
                self._link(cursor, head, [chain.of_retention([(link.number, link.hash) for link in old])])
                gone += len(old)

    def head(self) -> tuple[int, str]:
        """How many records there are, and the hash of the last: what is to be anchored elsewhere."""
        query = select(CHAIN.c.number, CHAIN.c.hash).order_by(CHAIN.c.number.desc()).limit(1)
        rows = self._read(query)
        return (rows[0].number, rows[0].hash) if rows else (0, chain.START)

    def close(self) -> None:
        """Write what waits, and end."""
        with self._turn:
            while batch := self._waiting():
                self._write(batch)
            if self._kept is not None:
                self._kept.close()
                self._kept = None
            self.engine.dispose()

    # -- reading ---------------------------------------------------------------------------------------------

    def looks(self, certificate: str) -> int:
        """How many evaluations there were under a certificate."""
        query = select(func.max(EVALUATIONS.c.number)).where(EVALUATIONS.c.certificate == certificate)
        return int(self._read(query)[0][0] or 0)

    def evaluations(self, certificate: str, limit: int) -> list[dict[str, Any]]:
        """The latest evaluations, the latest last."""
        columns = EVALUATIONS.c
        query = select(columns.at, columns.document).where(columns.certificate == certificate)
        rows = self._read(query.order_by(columns.number.desc()).limit(limit))
        return [{"at": row.at, **json.loads(row.document)} for row in reversed(rows)]

    def recent(self, certificate: str, limit: int) -> list[dict[str, Any]]:
        """The latest predictions under a certificate, the latest first; features are left out."""
        columns = [column for column in PREDICTIONS.c if column.name not in ("features", "outputs")]
        query = _under(certificate, select(REQUESTS.c.at, REQUESTS.c.certificate, *columns))
        query = query.order_by(PREDICTIONS.c.request.desc(), PREDICTIONS.c.place).limit(limit)
        return [dict(row._mapping) for row in self._read(query)]

    def verdicts(self, certificate: str, limit: int) -> dict[str, int]:
        """How many of the latest predictions under a certificate had which verdict."""
        under = _under(certificate, select(PREDICTIONS.c.verdict))
        latest = under.order_by(PREDICTIONS.c.request.desc()).limit(limit).subquery()
        query = select(latest.c.verdict, func.count()).group_by(latest.c.verdict)
        return {str(verdict): int(count) for verdict, count in self._read(query)}

    def _read(self, query: Select[Any]) -> Sequence[Any]:
        with self.engine.execution_options(reading=True).connect() as connection:
            return connection.execute(query).all()

    # -- writing ---------------------------------------------------------------------------------------------

    def _put(self, record: chain.ChainRecord, rows: dict[Table, Sequence[Row]]) -> Future[None]:
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # whoever stops waiting does not stop the writing
        try:
            self._queue.put_nowait(_Item(record, rows, future))
        except queue.Full:
            future.set_exception(LogError("The audit log cannot keep up; try again later."))
        self._write_all()
        return future

    def _write_all(self) -> None:
        """Write what waits, unless somebody does; who leaves looks again, since more may have come meanwhile."""
        while not self._queue.empty() and self._turn.acquire(blocking=False):
            try:
                while batch := self._waiting():
                    self._write(batch)
            finally:
                self._turn.release()

    def _waiting(self) -> list[_Item]:
        batch: list[_Item] = []
        weight = 0
        while weight < AT_ONCE:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
            weight += sum(map(len, batch[-1].rows.values()))
        return batch

    def _write(self, batch: Sequence[_Item]) -> None:
        began = time.perf_counter()
        try:
            with self._transaction() as cursor:
                for item in batch:
                    for table, rows in item.rows.items():
                        self._insert(cursor, table, rows)
                self._link(cursor, self._head(cursor), [item.record for item in batch])
        except Exception as error:  # whatever it is, those who wait are told
            outage = isinstance(error, OperationalError | self.engine.dialect.loaded_dbapi.OperationalError)
            if len(batch) > 1 and not outage:
                for one in batch:  # one entry that cannot be written must not cost the others theirs
                    self._write([one])
                return
            self.trouble = f"The audit log cannot be written: {first_line(error)}"
            for item in batch:
                item.written.set_exception(LogError(self.trouble))
            return
        self.trouble = None
        self._noted(time.perf_counter() - began, sum(item.record.kind == "request" for item in batch))
        for item in batch:
            item.written.set_result(None)

    def _head(self, cursor: Any) -> tuple[int, str]:
        """The last record's number and hash, which stay the last until the transaction ends: SQLite has one writer at
        a time anyway."""
        if self.engine.dialect.name == "postgresql":
            cursor.execute(f"SELECT pg_advisory_xact_lock({APPENDING})")
        cursor.execute("SELECT number, hash FROM chain ORDER BY number DESC LIMIT 1")
        return cursor.fetchone() or (0, chain.START)

    def _link(self, cursor: Any, head: tuple[int, str], records: Sequence[chain.ChainRecord]) -> None:
        self._insert(cursor, CHAIN, list(chain.linked(*head, records)))

    def _insert(self, cursor: Any, table: Table, rows: Sequence[Row]) -> None:
        """Many rows with each statement: one for each of them, or a None bound to it, costs more than the row."""
        for start in range(0, len(rows), TOGETHER):
            some = rows[start : start + TOGETHER]
            statement = _insert_text(table, len(some[0]), len(some), self._mark)
            cursor.execute(statement, list(joined.from_iterable(some)))

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """A cursor of the driver, whose rows are on disk when the block ends.

        Statements of SQLAlchemy cost more than the rows. The writer of SQLite keeps its connection besides, since
        nobody closes it at the other end.
        """
        if self.engine.dialect.name != "sqlite":
            with self.engine.begin() as pooled:
                yield pooled.connection.cursor()
            return
        connection = self._kept = self._kept or self.engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            connection.commit()
        except BaseException:
            self._kept = None
            connection.rollback()
            connection.close()  # whatever is wrong with it, the next one may be better
            raise


def _oldest(connection: Connection) -> Select[Any]:
    """The next links of requests after those that retention took."""
    columns = CHAIN.c
    retention = select(columns.name).where(columns.kind == "retention").order_by(columns.number.desc()).limit(1)
    taken = chain.Deletion.named(connection.execute(retention).scalar() or "")
    query = select(columns.number, columns.name, columns.hash).where(columns.kind == "request")
    return query.where(columns.number > (0 if taken is None else taken.last)).order_by(columns.number).limit(OLD)


def _under(certificate: str, query: Select[Any]) -> Select[Any]:
    requests = query.join(REQUESTS, REQUESTS.c.request == PREDICTIONS.c.request)
    return requests.where(REQUESTS.c.certificate == certificate)


@cache
def _insert_text(table: Table, width: int, rows: int, mark: str) -> str:
    """A statement for so many rows of a table's first columns."""
    columns = ", ".join(f'"{name}"' for name in table.c.keys()[:width])
    values = ", ".join([f"({', '.join([mark] * width)})"] * rows)
    return f"INSERT INTO {table.name} ({columns}) VALUES {values}"
