"""What surrounds every request: a line in the log, numbers for Prometheus, headers, and an answer whatever happens."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isonomy.service.metrics import Metrics

LOGGER = logging.getLogger("isonomy.service")
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]


class Frame:
    """An ASGI layer around the application."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app, self.metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception:
            LOGGER.exception("a request failed")
            if status == 0:
                await _sorry(sending)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = getattr(scope.get("route"), "path", "other")  # never what the caller wrote: it has no end of values
        self.metrics.requests.labels(path, status).inc()
        self.metrics.seconds.labels(path).observe(seconds)
        if LOGGER.isEnabledFor(logging.INFO):
            facts: dict[str, Any] = {"method": scope["method"], "path": path, "status": status}
            facts["ms"] = round(1000 * seconds, 3)
            facts.update(scope.get("state", {}).get("facts", {}))
            LOGGER.info("request", extra={"facts": facts})


async def _sorry(send: Send) -> None:
    body = json.dumps({"detail": "Something went wrong here; it was written to the log."}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 500, "headers": headers})
    await send({"type": "http.response.body", "body": body})
