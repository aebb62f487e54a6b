"""Run the monitor in the background: evaluate the window when due, log the evaluation, and alert on a change of state
by a webhook, tried a few times, that never blocks.

The body of an alert is signed where there is a secret: ``X-Isonomy-Signature: sha256=`` and the HMAC of the body.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib import import_module
from typing import Any

from isonomy.arithmetic import FloatArray
from isonomy.errors import SoundnessError
from isonomy.monitor import Evaluation, Monitor, by_group
from isonomy.service.certifier import Certifier
from isonomy.service.log import AuditLog
from isonomy.service.settings import Settings
from isonomy.service.web import LOGGER

HOUR = 3600.0
WAITS = (1.0, 5.0, 30.0)
"""Seconds before each further attempt."""
MONITORED = ("window", "every", "least", "confidence", "guarantee", "sample")
"""Settings that are arguments of the monitor."""


class Watch:
    """The monitor of a running service, and its housekeeping."""

    def __init__(
        self, certifier: Certifier, log: AuditLog, settings: Settings, noted: Callable[[Evaluation], None]
    ) -> None:
        served = certifier.served
        self._certifier, self._log, self._settings, self._noted = certifier, log, settings, noted
        self.monitor = Monitor(
            served.reference(certifier.head.largest),
            served.schema.width,
            **{name: getattr(settings, name) for name in MONITORED},
            tighten=certifier.tighten,
            seen=log.looks(served.identity),
        )
        import_module("ot")  # takes seconds and holds the interpreter: not during the first look
        past = log.evaluations(served.identity, 1)
        self._contradicted = False
        self._latest: dict[str, Any] | None = past[-1] if past else None
        self._webhook = None if settings.webhook is None else Webhook(settings.webhook, settings.webhook_secret)
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def add(self, x: FloatArray, upper: FloatArray, lower: FloatArray) -> None:
        """Add people who were served."""
        if self.monitor.add(x, upper, lower):
            self._wake.set()

    def refuse(self, people: int) -> None:
        """Count people who were refused, since they are outside the domain."""
        if self.monitor.refuse(people):
            self._wake.set()

    def report(self) -> dict[str, Any]:
        """Return the state, its reasons, and the groups of the window."""
        served, settings = self._certifier.served, self._settings
        few = f"Too few people have come by: the first look is after {max(self.monitor.least, self.monitor.every)}."
        latest = self._latest or {"state": "undecided", "reason": f"{few} {served.caution}".rstrip()}
        groups = []
        if self.monitor.arrived:
            x, upper = self.monitor.people()
            if len(x):
                groups = [asdict(group) for group in by_group(served.schema, x, upper, settings.smallest_group)]
        size = {served.shift.size_name: served.shift.size}
        claims = {"certificate": served.identity, **size, "epsilon": served.epsilon}
        terms = {"confidence": settings.confidence, "guarantee": settings.guarantee, "arrived": self.monitor.arrived}
        return {**latest, **claims, **terms, "window": settings.window, "groups": groups}

    def close(self) -> None:
        """End, after the evaluation in progress."""
        self._ending.set()
        self._wake.set()
        self._thread.join(timeout=60.0)
        if self._webhook is not None:
            self._webhook.close()

    def _work(self) -> None:
        tidied = -HOUR
        while not self._ending.is_set():
            if time.monotonic() - tidied > HOUR:
                tidied = time.monotonic()
                self._tidy()
            if self._wake.wait(timeout=60.0) and not self._ending.is_set():
                self._wake.clear()
                if self.monitor.due:
                    self._look()
                    self._ending.wait(self._settings.pause)
                    if self.monitor.due:
                        self._wake.set()

    def _look(self) -> None:
        if self._contradicted:
            return
        identity = self._certifier.served.identity
        try:
            look = self.monitor.look()
            # JSON has no infinities.
            document = json.loads(json.dumps(asdict(look)), parse_constant=lambda _: None)
            at = time.time_ns() // 1000
            # First on disk, then reported: looks must be counted, also across restarts.
            self._log.append_evaluation(identity, look.number, at, look.state, json.dumps(document)).result()
        except SoundnessError as error:  # the last report rests on bounds that are contradicted now
            LOGGER.error("monitor: contradiction", extra={"facts": {"error": str(error)}})
            self._latest = {"state": "undecided", "reason": f"Nothing is said any more: {error.contradiction}."}
            self._contradicted = True
            return
        except Exception as error:  # a look that fails must not end the watch
            LOGGER.error("monitor: no evaluation", extra={"facts": {"error": str(error)}})
            with suppress(Exception):  # others may write to the same log: their looks under this certificate count too
                self.monitor.number = max(self.monitor.number, self._log.looks(identity))
            return
        before = "undecided" if self._latest is None else self._latest["state"]
        self._latest = {"at": at, **document}
        self._noted(look)
        LOGGER.info("monitor", extra={"facts": {"state": look.state, "number": look.number, "reason": look.reason}})
        if self._webhook is not None and look.state != before:
            self._webhook.send({"event": "state", "before": before, "certificate": identity, "at": at, **document})

    def _tidy(self) -> None:
        with suppress(Exception):  # these lines, stored elsewhere, anchor the log
            records, head = self._log.head()
            LOGGER.info("log", extra={"facts": {"records": records, "head": head}})
        if self._settings.retention_days is None:
            return
        try:
            deleted = self._log.forget(int((time.time() - self._settings.retention_days * 86_400.0) * 1e6))
            LOGGER.info("retention", extra={"facts": {"requests": deleted}})
        except Exception as error:  # tried again in an hour
            LOGGER.error("retention failed", extra={"facts": {"error": str(error)}})


class Webhook:
    """Sends messages to one address, in order, from its own thread."""

    def __init__(self, address: str, secret: str | None = None, *, waits: Sequence[float] = WAITS) -> None:
        self.address, self._secret, self._waits = address, secret, tuple(waits)
        self._queue: queue.Queue[bytes | None] = queue.Queue(100)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Queue a message; it is dropped, and the drop is logged, when too many wait."""
        try:
            self._queue.put_nowait(json.dumps(message).encode())
        except queue.Full:
            LOGGER.error("webhook: too many messages wait; one was dropped")

    def close(self) -> None:
        """Try each waiting message once, and end."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(timeout=10.0)

    def _work(self) -> None:
        while (body := self._queue.get()) is not None:
            for wait in (*self._waits, None):
                try:
                    self._post(body)
                    break
                except Exception as error:
                    LOGGER.warning("webhook: not delivered", extra={"facts": {"error": str(error)}})
                if wait is None or self._closing.wait(wait):
                    LOGGER.error("webhook: given up")
                    break

    def _post(self, body: bytes) -> None:
        request = urllib.request.Request(self.address, data=body, method="POST")
        request.add_header("Content-Type", "application/json")
        if self._secret is not None:
            digest = hmac.new(self._secret.encode(), body, hashlib.sha256).hexdigest()
            request.add_header("X-Isonomy-Signature", f"sha256={digest}")
        with urllib.request.urlopen(request, timeout=5.0):
            pass
