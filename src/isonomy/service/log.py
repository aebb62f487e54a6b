"""The audit log: what was decided and what was proved, appended, and never lost once acknowledged.

One thread writes at a time: whoever appends while nobody does, since to wake another thread takes longer than to write
a single request. Whatever waits then goes into one transaction (*group commit*), what others append meanwhile into the
next: a burst of requests pays for few synchronisations of the disk. A request's future is done only after the commit
that holds it.
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
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, delete, func, select
from sqlalchemy.exc import OperationalError

from isonomy.service.database import LogError, open_database
from isonomy.service.tables import EVALUATIONS, PREDICTIONS, REQUESTS, first_of

AT_ONCE = 50_000
"""Predictions in one transaction, about."""

OLD = 500
"""Requests deleted in one transaction when their time is over, so that nobody waits long."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Entry:
    """One request with its predictions, in the order of the columns of :mod:`isonomy.service.tables`."""

    request: Row
    predictions: Sequence[Row]


class AuditLog:
    """An open log. Appending is safe from any thread; ``close`` writes what still waits."""

    def __init__(self, address: str, *, waiting: int = 1024, noted: Callable[[float, int], None] | None = None) -> None:
        """``noted`` is told of every commit: its seconds and how many requests it held."""
        self.engine: Engine = open_database(address)
        mark = "?" if self.engine.dialect.name == "sqlite" else "%s"
        self._inserts = {table.name: _insert_text(table, mark) for table in (REQUESTS, PREDICTIONS, EVALUATIONS)}
        self._kept: Any = None  # SQLite's connection of whoever writes
        self._queue: queue.Queue[tuple[Any, Future[None]]] = queue.Queue(waiting)
        self._turn = threading.Lock()
        self._noted = noted or (lambda seconds, entries: None)
        self.trouble: str | None = None
        """Why the log cannot be written at the moment, or None."""

    def append(self, entry: Entry) -> Future[None]:
        """Write a request, or leave it to whoever writes now; the future is done when it is on disk, or tells why it
        is not."""
        return self._put(entry)

    def append_evaluation(self, certificate: str, number: int, at: int, state: str, document: str) -> Future[None]:
        """Write what the monitor saw."""
        return self._put((certificate, number, at, state, document))

    def forget(self, before: int) -> int:
        """Delete requests from before a time (microseconds); how many there were."""
        return self._each_turn(first_of(before))

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
        with self._reading() as connection:
            return int(connection.execute(query).scalar() or 0)

    def evaluations(self, certificate: str, limit: int) -> list[dict[str, Any]]:
        """The latest evaluations, the latest last."""
        columns = EVALUATIONS.c
        query = select(columns.at, columns.document).where(columns.certificate == certificate)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(columns.number.desc()).limit(limit)).all()
        return [{"at": row.at, **json.loads(row.document)} for row in reversed(rows)]

    def recent(self, certificate: str, limit: int) -> list[dict[str, Any]]:
        """The latest predictions under a certificate, the latest first; features are left out."""
        columns = [column for column in PREDICTIONS.c if column.name not in ("features", "outputs")]
        query = _under(certificate, select(REQUESTS.c.at, REQUESTS.c.certificate, *columns))
        query = query.order_by(PREDICTIONS.c.request.desc(), PREDICTIONS.c.place).limit(limit)
        with self._reading() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def verdicts(self, certificate: str, limit: int) -> dict[str, int]:
        """How many of the latest predictions under a certificate had which verdict."""
        under = _under(certificate, select(PREDICTIONS.c.verdict))
        latest = under.order_by(PREDICTIONS.c.request.desc()).limit(limit).subquery()
        query = select(latest.c.verdict, func.count()).group_by(latest.c.verdict)
        with self._reading() as connection:
            return {str(verdict): int(count) for verdict, count in connection.execute(query).all()}

    def _reading(self) -> Connection:
        return self.engine.execution_options(reading=True).connect()

    # -- writing ---------------------------------------------------------------------------------------------

    def _put(self, item: Any) -> Future[None]:
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # whoever stops waiting does not stop the writing
        try:
            self._queue.put_nowait((item, future))
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

    def _waiting(self) -> list[tuple[Any, Future[None]]]:
        batch: list[tuple[Any, Future[None]]] = []
        weight = 0
        while weight < AT_ONCE:
            try:
                batch.append(self._queue.get_nowait())
            except queue.Empty:
                break
            item = batch[-1][0]
            weight += len(item.predictions) if isinstance(item, Entry) else 1
        return batch

    def _write(self, batch: Sequence[tuple[Any, Future[None]]]) -> None:
        began = time.perf_counter()
        entries = [item for item, _ in batch if isinstance(item, Entry)]
        looks = [item for item, _ in batch if not isinstance(item, Entry)]
        try:
            with self._transaction() as cursor:
                for table, rows in (
                    (REQUESTS, [entry.request for entry in entries]),
                    (PREDICTIONS, [row for entry in entries for row in entry.predictions]),
                    (EVALUATIONS, looks),
                ):
                    if rows:
                        cursor.executemany(self._inserts[table.name], rows)
        except Exception as error:  # whatever it is, those who wait are told
            outage = isinstance(error, OperationalError | self.engine.dialect.loaded_dbapi.OperationalError)
            if len(batch) > 1 and not outage:
                for one in batch:  # one entry that cannot be written must not cost the others theirs
                    self._write([one])
                return
            self.trouble = f"The audit log cannot be written: {str(error).splitlines()[0]}"
            for _, future in batch:
                future.set_exception(LogError(self.trouble))
            return
        self.trouble = None
        self._noted(time.perf_counter() - began, len(entries))
        for _, future in batch:
            future.set_result(None)

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

    def _each_turn(self, name: str) -> int:
        gone = 0
        while True:
            with self.engine.begin() as connection:
                old = select(REQUESTS.c.request).where(REQUESTS.c.request < name).order_by(REQUESTS.c.request)
                last = connection.execute(old.offset(OLD - 1).limit(1)).scalar()
                here = name if last is None else last
                before = REQUESTS.c.request < here if last is None else REQUESTS.c.request <= here
                also = PREDICTIONS.c.request < here if last is None else PREDICTIONS.c.request <= here
                connection.execute(delete(PREDICTIONS).where(also))
                gone += connection.execute(delete(REQUESTS).where(before)).rowcount
            if last is None:
                return gone


def _under(certificate: str, query: Select[Any]) -> Select[Any]:
    requests = query.join(REQUESTS, REQUESTS.c.request == PREDICTIONS.c.request)
    return requests.where(REQUESTS.c.certificate == certificate)


def _insert_text(table: Table, mark: str) -> str:
    columns = ", ".join(f'"{column.name}"' for column in table.c)
    return f"INSERT INTO {table.name} ({columns}) VALUES ({', '.join([mark] * len(table.c))})"
