"""Telling somebody that the state has changed: a webhook, tried a few times, that never holds anything up.

The body is signed where there is a secret: ``X-Isonomy-Signature: sha256=`` and the HMAC of the body.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from isonomy.service.telemetry import LOGGER

WAITS = (1.0, 5.0, 30.0)
"""Seconds before each further try."""


class Webhook:
    """Sends messages to one address, in order, from a thread of its own."""

    def __init__(self, address: str, secret: str | None = None, *, waits: Sequence[float] = WAITS) -> None:
        self.address, self._secret, self._waits = address, secret, tuple(waits)
        self._queue: queue.Queue[bytes | None] = queue.Queue(100)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Leave a message; it is dropped, and said so in the log, when too many wait."""
        try:
            self._queue.put_nowait(json.dumps(message).encode())
        except queue.Full:
            LOGGER.error("webhook: too many messages wait; one was dropped")

    def close(self) -> None:
        """Try what waits once, and end."""
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
