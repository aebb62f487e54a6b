"""How a service is run. Everything has a default that is safe to leave as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from isonomy.errors import ParameterError, template
from isonomy.monitor import Guarantee
from isonomy.service.keys import Key

MINIMUM = {
    "max_body": 1024,
    "max_batch": 1,
    "max_counterparts": 0,
    "max_waiting": 1,
    "threads": 1,
    "window": 8,
    "every": 1,
    "least": 1,
    "sample": 8,
    "smallest_group": 1,
}


@dataclass(frozen=True)
class Settings:
    """The settings of one service.

    * ``database``: where the audit log is: an SQLAlchemy URL; SQLite or PostgreSQL. ``retention_days``: entries older
      than that are deleted (None: kept for ever). ``store_features``: raw features are written beside each decision.
    * ``keys``: who may ask; nobody needs a key when there are none.
    * ``max_body`` bytes, ``max_batch`` individuals, ``max_counterparts`` individuals with their worst counterpart in
      one request; ``max_waiting`` requests at a time; ``timeout`` seconds for a request, ``threads`` for arithmetic.
    * ``budget_ms``: how long the tight tier may go on after the interval tier, unless the request says otherwise;
      ``max_budget_ms`` is the most it may say.
    * ``window``, ``every``, ``least``, ``confidence``, ``guarantee``, ``sample``: the monitor's, see
      :class:`isonomy.monitor.Monitor`; ``pause``: seconds between two looks at least. ``smallest_group``: groups of
      fewer people are not shown.
    * ``webhook``: told of every change of state, signed with ``webhook_secret`` where there is one.
    """

    database: str = "sqlite:///isonomy.db"
    retention_days: float | None = None
    store_features: bool = False
    keys: tuple[Key, ...] = ()
    max_body: int = 4_000_000
    max_batch: int = 1000
    max_counterparts: int = 100
    max_waiting: int = 64
    timeout: float = 30.0
    threads: int = 2
    budget_ms: float = 50.0
    max_budget_ms: float = 10_000.0
    window: int = 1000
    every: int = 250
    least: int = 200
    confidence: float = 0.95
    guarantee: Guarantee = "all"
    sample: int = 500
    pause: float = 10.0
    smallest_group: int = 10
    webhook: str | None = None
    webhook_secret: str | None = None

    def __post_init__(self) -> None:
        for name, least in MINIMUM.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParameterError(template(name, f"a whole number >= {least}", value))
        for name in ("timeout", "max_budget_ms", "budget_ms", "pause"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ParameterError(template(name, "a finite number >= 0", value))
        if self.retention_days is not None and not (math.isfinite(self.retention_days) and self.retention_days > 0):
            raise ParameterError(template("retention_days", "a positive number of days, or None", self.retention_days))
        if self.webhook is not None and urlsplit(self.webhook).scheme not in ("http", "https"):
            raise ParameterError(template("webhook", "an address that begins with http:// or https://", self.webhook))

    def shown(self) -> dict[str, object]:
        """What may be written to a log: no keys, no secrets, no password of a database."""
        hidden = {"keys", "database", "webhook", "webhook_secret"}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in hidden}
