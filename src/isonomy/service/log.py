"""Append decisions and their proofs to the audit log; an acknowledged entry is never lost.

One thread writes at a time: the first that appends while no other writes, since to wake another thread takes longer
than to write a single request. All waiting entries go into one transaction (*group commit*), later ones into the
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
from isonomy.service.chain import CHAIN, EVALUATIONS, PREDICTIONS, REQUESTS, first_name
from isonomy.service.database import APPENDING, LogError, open_database

BATCH = 50_000
"""Rows in one transaction, about."""

EXPIRED = 500
"""Expired requests deleted in one transaction, at most, so that writers wait briefly."""

ROWS_PER_STATEMENT = 50
"""Rows written by one statement, limited by the parameters that a database accepts."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Entry:
    """One request with its predictions, in the order of the columns of :mod:`isonomy.service.chain`; the last may be
    left out where it is empty. ``text``: all of it as JSON, as the chain hashes it, where it was encoded already."""

    request: Row
    predictions: Sequence[Row]
    text: str | None = None


@dataclass(frozen=True)
class _Item:
    """An entry to write: its record in the chain, its rows by table, and the future of its commit."""

    record: chain.ChainRecord
    rows: dict[Table, Sequence[Row]]
    written: Future[None]


class AuditLog:
    """An open log. Appending is safe from any thread; ``close`` writes all waiting entries."""

    def __init__(self, address: str, *, waiting: int = 1024, noted: Callable[[float, int], None] | None = None) -> None:
        """Open the log; ``noted`` is called after every commit with its seconds and number of requests."""
        self.engine: Engine = open_database(address)
        self._placeholder = "?" if self.engine.dialect.name == "sqlite" else "%s"
        self._connection: Any = None  # SQLite's connection for writing
        self._queue: queue.Queue[_Item] = queue.Queue(waiting)
        self._turn = threading.Lock()
        self._noted = noted or (lambda seconds, entries: None)
        self.trouble: str | None = None
        """Why the log cannot be written at present, or None."""

    def append(self, entry: Entry) -> Future[None]:
        """Write a request, or queue it for the thread that writes; the future is done when it is on disk, and holds the
        error when it is not."""
        rows = {REQUESTS: [entry.request], PREDICTIONS: entry.predictions}
        return self._enqueue(chain.request_record(entry.request, entry.predictions, entry.text), rows)

    def append_evaluation(self, certificate: str, number: int, at: int, state: str, document: str) -> Future[None]:
        """Write an evaluation of the monitor."""
        row = (certificate, number, at, state, document)
        return self._enqueue(chain.evaluation_record(row), {EVALUATIONS: [row]})

    def forget(self, before: int) -> int:
        """Delete the oldest requests of the chain, up to the first not from before a time (microseconds), record it in
        the chain, and return their number. Where a clock was set back, some wait for those before them."""
        deleted, limit = 0, first_name(before)
        while True:
            with self.engine.begin() as connection:
                cursor = connection.connection.cursor()
                head = self._head(cursor)  # others that append have to wait
                links = connection.execute(_oldest(connection)).all()
                old = list(takewhile(lambda link: link.name < limit, links))
                if not old:
                    return deleted
                names = [link.name for link in old]
                connection.execute(delete(PREDICTIONS).where(PREDICTIONS.c.request.in_(names)))
                connection.execute(delete(REQUESTS).where(REQUESTS.c.request.in_(names)))
                self._link(cursor, head, [chain.retention_record([(link.number, link.hash) for link in old])])
                deleted += len(old)

    def head(self) -> tuple[int, str]:
        """Return the number of records and the hash of the last, to be anchored elsewhere."""
        query = select(CHAIN.c.number, CHAIN.c.hash).order_by(CHAIN.c.number.desc()).limit(1)
        rows = self._read(query)
        return (rows[0].number, rows[0].hash) if rows else (0, chain.START)

    def close(self) -> None:
        """Write all waiting entries, and close the database."""
        with self._turn:
            while batch := self._next_batch():
                self._write(batch)
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            self.engine.dispose()

    # -- reading ---------------------------------------------------------------------------------------------

    def looks(self, certificate: str) -> int:
        """Return the number of evaluations under a certificate."""
        query = select(func.max(EVALUATIONS.c.number)).where(EVALUATIONS.c.certificate == certificate)
        return int(self._read(query)[0][0] or 0)

    def evaluations(self, certificate: str, limit: int) -> list[dict[str, Any]]:
        """Return at most ``limit`` of the latest evaluations, the latest last."""
        columns = EVALUATIONS.c
        query = select(columns.at, columns.document).where(columns.certificate == certificate)
        rows = self._read(query.order_by(columns.number.desc()).limit(limit))
        return [{"at": row.at, **json.loads(row.document)} for row in reversed(rows)]

    def recent(self, certificate: str, limit: int) -> list[dict[str, Any]]:
        """Return the latest predictions under a certificate, the latest first, without features."""
        columns = [column for column in PREDICTIONS.c if column.name not in ("features", "outputs")]
        query = _under(certificate, select(REQUESTS.c.at, REQUESTS.c.certificate, *columns))
        query = query.order_by(PREDICTIONS.c.request.desc(), PREDICTIONS.c.place).limit(limit)
        return [dict(row._mapping) for row in self._read(query)]

    def verdicts(self, certificate: str, limit: int) -> dict[str, int]:
        """Count the latest predictions under a certificate by verdict."""
        under = _under(certificate, select(PREDICTIONS.c.verdict))
        latest = under.order_by(PREDICTIONS.c.request.desc()).limit(limit).subquery()
        query = select(latest.c.verdict, func.count()).group_by(latest.c.verdict)
        return {str(verdict): int(count) for verdict, count in self._read(query)}

    def _read(self, query: Select[Any]) -> Sequence[Any]:
        with self.engine.execution_options(reading=True).connect() as connection:
            return connection.execute(query).all()

    # -- writing ---------------------------------------------------------------------------------------------

    def _enqueue(self, record: chain.ChainRecord, rows: dict[Table, Sequence[Row]]) -> Future[None]:
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # cancelling a request does not stop the writing
        try:
            self._queue.put_nowait(_Item(record, rows, future))
        except queue.Full:
            future.set_exception(LogError("The audit log cannot keep up; try again later."))
        self._write_all()
        return future

    def _write_all(self) -> None:
        """Write all waiting entries, unless another thread does; check again at the end, since more may wait then."""
        while not self._queue.empty() and self._turn.acquire(blocking=False):
            try:
                while batch := self._next_batch():
                    self._write(batch)
            finally:
                self._turn.release()

    def _next_batch(self) -> list[_Item]:
        batch: list[_Item] = []
        weight = 0
        while weight < BATCH:
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
        except Exception as error:  # whatever it is, the waiting futures get it
            outage = isinstance(error, OperationalError | self.engine.dialect.loaded_dbapi.OperationalError)
            if len(batch) > 1 and not outage:
                for one in batch:  # one entry that cannot be written must not fail the others
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
        """Return the last record's number and hash, locked until the transaction ends; SQLite has one writer at a time
        anyway."""
        if self.engine.dialect.name == "postgresql":
            cursor.execute(f"SELECT pg_advisory_xact_lock({APPENDING})")
        cursor.execute("SELECT number, hash FROM chain ORDER BY number DESC LIMIT 1")
        return cursor.fetchone() or (0, chain.START)

    def _link(self, cursor: Any, head: tuple[int, str], records: Sequence[chain.ChainRecord]) -> None:
        self._insert(cursor, CHAIN, list(chain.linked(*head, records)))

    def _insert(self, cursor: Any, table: Table, rows: Sequence[Row]) -> None:
        """Insert rows, many per statement: a statement for each, or a None bound to it, costs more than the row."""
        for start in range(0, len(rows), ROWS_PER_STATEMENT):
            batch = rows[start : start + ROWS_PER_STATEMENT]
            statement = _insert_text(table, len(batch[0]), len(batch), self._placeholder)
            cursor.execute(statement, list(joined.from_iterable(batch)))

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Yield a cursor of the driver, whose rows are on disk when the block ends.

        Statements of SQLAlchemy cost more than the rows. The writer of SQLite keeps its connection, since there is no
        server that closes it.
        """
        if self.engine.dialect.name != "sqlite":
            with self.engine.begin() as pooled:
                yield pooled.connection.cursor()
            return
        connection = self._connection = self._connection or self.engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            yield cursor
            connection.commit()
        except BaseException:
            self._connection = None
            connection.rollback()
            connection.close()  # the next transaction gets a new connection
            raise


def _oldest(connection: Connection) -> Select[Any]:
    """Return the query of the next links of requests after those that retention deleted."""
    columns = CHAIN.c
    retention = select(columns.name).where(columns.kind == "retention").order_by(columns.number.desc()).limit(1)
    latest = chain.Deletion.parse(connection.execute(retention).scalar() or "")
    query = select(columns.number, columns.name, columns.hash).where(columns.kind == "request")
    return query.where(columns.number > (0 if latest is None else latest.last)).order_by(columns.number).limit(EXPIRED)


def _under(certificate: str, query: Select[Any]) -> Select[Any]:
    requests = query.join(REQUESTS, REQUESTS.c.request == PREDICTIONS.c.request)
    return requests.where(REQUESTS.c.certificate == certificate)


@cache
def _insert_text(table: Table, width: int, rows: int, mark: str) -> str:
    """Return the statement that inserts ``rows`` rows into a table's first ``width`` columns."""
    columns = ", ".join(f'"{name}"' for name in table.c.keys()[:width])
    values = ", ".join([f"({', '.join([mark] * width)})"] * rows)
    return f"INSERT INTO {table.name} ({columns}) VALUES {values}"
