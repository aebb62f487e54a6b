"""The tables of the audit log; which version has which is in :mod:`isonomy.service.database`.

A request is named by its time and chance (32 hexadecimal digits, milliseconds first), so that the primary key is in the
order of time and needs no other index. No raw features are kept unless the service is told to.
"""

from __future__ import annotations

import secrets
import time

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, PrimaryKeyConstraint, String, Table, Text

METADATA = MetaData()

REQUESTS = Table(
    "requests",
    METADATA,
    Column("request", String(32), primary_key=True),
    Column("at", BigInteger, nullable=False),  # microseconds since 1970, UTC
    Column("caller", String(64), nullable=False),  # the name of the key; empty where none was needed
    Column("certificate", String(64), nullable=False),
    Column("people", Integer, nullable=False),
    sqlite_with_rowid=False,
)

PREDICTIONS = Table(
    "predictions",
    METADATA,
    Column("request", String(32), nullable=False),
    Column("place", Integer, nullable=False),  # of the individual in the request, from 0
    Column("prediction", Text, nullable=False),
    Column("outputs", Text, nullable=False),  # JSON
    Column("upper", Float(53), nullable=False),
    Column("lower", Float(53), nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("decision", String(16), nullable=False),
    Column("tier", String(16), nullable=False),
    Column("features", Text),  # JSON, only where features are stored
    PrimaryKeyConstraint("request", "place"),
    sqlite_with_rowid=False,
)

EVALUATIONS = Table(
    "evaluations",
    METADATA,
    Column("certificate", String(64), nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("document", Text, nullable=False),  # JSON
    PrimaryKeyConstraint("certificate", "number"),
)

CHAIN = Table(
    "chain",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("name", String(80), nullable=False),
    Column("content", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    sqlite_with_rowid=False,
)


def new_request() -> tuple[str, int]:
    """A name for a request, and the time in it, in microseconds."""
    at = time.time_ns() // 1000
    return f"{first_of(at)}{secrets.token_hex(10)}", at


def first_of(at: int) -> str:
    """What the names of all requests since a time (microseconds) come after."""
    return f"{at // 1000:012x}"
