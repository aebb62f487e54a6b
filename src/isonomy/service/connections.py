"""Connections that never say what they want: they are closed, so that others find a place.

A connection must send the headers of a request within a time, from its beginning or from the first byte after an
answer. uvicorn itself closes one that says nothing after an answer, the application gives up on a body that is too
slow, and ``h11`` refuses headers of more than 64 KiB. Above uvicorn's ``limit_concurrency`` connections a new one is
closed at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


def patient(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, with patience for so many seconds."""

    class Patient(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _until: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if self.limit_concurrency is not None and len(self.connections) > self.limit_concurrency:
                transport.abort()
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Headers are awaited unless a request is being answered."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._until is None:
                self._until = self.loop.call_later(seconds, self.transport.abort)

        def _stop(self) -> None:
            if self._until is not None:
                self._until.cancel()
                self._until = None

    return Patient
