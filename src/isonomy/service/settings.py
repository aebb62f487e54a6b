"""Settings of a service; every default is safe."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from isonomy.errors import FileError, ParameterError
from isonomy.options import SHARE, SIZE, Panel, Rule, check_options, number, whole
from isonomy.service.database import FILE
from isonomy.service.keys import Key

_LOG, _LIMITS, _MONITOR = map(Panel, ("Audit log", "Requests", "Monitor"))
_DAYS = number(lambda value: 0 < value < math.inf, "a positive number of days, or None")
_ADDRESS = Rule(
    lambda value: isinstance(value, str) and urlsplit(value).scheme in ("http", "https"),
    "an address that begins with http:// or https://",
)


@dataclass(frozen=True)
class Settings:
    """The settings of one service; all but ``keys`` are options of ``isonomy serve``.

    ``keys`` says who may ask: keys, or the file of them, which is read again when it changes; without any, access is
    anonymous. For the monitor's settings see :class:`isonomy.monitor.Monitor`.
    """

    keys: tuple[Key, ...] | Path = ()
    log: str | None = _LOG(None, "The folder of the audit log, made if it is not there.", path=True, env="ISONOMY_LOG")
    database: str | None = _LOG(
        None, "Where the audit log is instead: sqlite:///FILE or postgresql://...", env="ISONOMY_DATABASE"
    )
    retention_days: float | None = _LOG(None, "Delete log entries older than this.", _DAYS)
    store_features: bool = _LOG(False, "Write raw features into the audit log too.")
    max_batch: int = _LIMITS(1000, "Individuals in one request, at most.", whole(1))
    max_counterparts: int = _LIMITS(100, "Individuals with their worst counterpart in one request, at most.", whole(0))
    max_body: int = _LIMITS(4_000_000, "Bytes of one request, at most.", whole(1024))
    max_waiting: int = _LIMITS(64, "Requests at a time, at most.", whole(1))
    timeout: float = _LIMITS(30.0, "Seconds for one request, at most.", SIZE)
    headers_timeout: float = _LIMITS(
        10.0, "Seconds until the headers of a request must be there, on a new connection or an old one.", SIZE
    )
    allow_host: tuple[str, ...] = _LIMITS(
        (), "A name under which the service may be called, besides those of loopback and --host; * for any."
    )
    threads: int = _LIMITS(
        2, "Threads for dear requests, and as many for cheap ones: a few people without counterparts.", whole(1)
    )
    budget_ms: float = _LIMITS(
        50.0, "Milliseconds in which the tight tier may go on after the interval tier; a request may say otherwise.",
        SIZE,
    )  # fmt: skip
    max_budget_ms: float = _LIMITS(10_000.0, "The most that a request may say.", SIZE)
    window: int = _MONITOR(1000, "The monitor looks at the latest so many people.", whole(8))
    every: int = _MONITOR(250, "It looks again after so many arrivals.", whole(1))
    least: int = _MONITOR(200, "It says nothing of fewer people.", whole(1))
    confidence: float = _MONITOR(0.95, "The confidence of what it says.", SHARE)
    guarantee: Literal["all", "each"] = _MONITOR("all", "all: of everything it ever says; each: of each look.")
    sample: int = _MONITOR(500, "People of each side whose distance it measures, at most.", whole(8))
    pause: float = _MONITOR(10.0, "Seconds between two looks, at least.", SIZE)
    smallest_group: int = _MONITOR(10, "Groups of fewer people are not shown.", whole(1))
    webhook: str | None = _MONITOR(None, "An address told of every change of state.", _ADDRESS, env="ISONOMY_WEBHOOK")
    webhook_secret: str | None = _MONITOR(None, "Signs what the webhook is told.", env="ISONOMY_WEBHOOK_SECRET")

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def address(self) -> str:
        """Return the address of the audit log's database; a new folder is readable by its owner alone, and there is no
        default place."""
        if (self.log is None) == (self.database is None):
            raise ParameterError("Say where the audit log is to be: either 'log', a folder, or 'database', an address.")
        if self.log is None:
            return str(self.database)
        try:
            Path(self.log).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"The folder '{self.log}' of the audit log cannot be made: {error.strerror}.") from None
        return f"sqlite:///{Path(self.log) / FILE}"

    def shown(self) -> dict[str, object]:
        """Return the settings that may be logged: no keys, no secrets, no password of a database."""
        hidden = {"keys", "database", "webhook", "webhook_secret"}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in hidden}
