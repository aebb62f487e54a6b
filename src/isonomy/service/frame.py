"""What surrounds every request: a line in the log, numbers for Prometheus, headers, and an answer whatever happens."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection
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

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: Collection[str]) -> None:
        """``hosts``: the names under which the service may be called (``*``: any). A page from elsewhere whose name was
        made to mean this machine (DNS rebinding) calls it by that name, and is refused."""
        self.app, self.metrics, self.hosts = app, metrics, {host.lower().strip("[]") for host in hosts}

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
            if "*" in self.hosts or _host(scope) in self.hosts:
                await self.app(scope, receive, sending)
            else:
                await _said(sending, 421, "The service is not called so; --allow-host adds a name.")
        except Exception:
            LOGGER.exception("a request failed")
            if status == 0:
                await _said(sending, 500, "Something went wrong here; it was written to the log.")
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


def _host(scope: Scope) -> str | None:
    """The name that the one Host header has, without its port."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    if len(given) != 1:
        return None
    name: str = given[0].decode("latin-1").lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


async def _said(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
