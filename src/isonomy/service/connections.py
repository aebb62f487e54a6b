"""Connections that hold a place and do nothing with it: they are closed, so that others find one.

Nobody is waited for longer than a time: for the headers of a request, from the beginning of a connection or from the
first byte after an answer; for the rest of a body that was answered already; for the answer to be taken. uvicorn itself
closes a connection that says nothing after an answer, the application gives up on a body that is too slow, and ``h11``
refuses headers of more than 64 KiB. When there is no place left, a new connection takes that of the one that has been
waiting longest for a first request, and is closed at once where there is none.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class _Joined:
    """A transport that sends the head of an answer with what follows it: one message, and one waking of the client."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Uvicorn writes the head, which an empty line ends, then the body."""
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100"):
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""


def patient(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, with patience for so many seconds."""

    class Patient(H11Protocol):
        _since: float | None = None  # when it was first found to be waited for
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(_Joined(transport))  # type: ignore[arg-type]
            self._since = self.loop.time()
            self._check()
            if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
                others = [one for one in self.connections if isinstance(one, Patient) and one is not self]
                silent = (one for one in others if one.cycle is None)
                oldest = min(silent, key=lambda one: one._since or 0.0, default=self)
                self.connections.discard(oldest)
                oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _check(self) -> None:
            """Looked at now and then, since timers for every request would cost more."""
            now = self.loop.time()
            if not self._waited_for():
                self._since = None
            elif self._since is None:
                self._since = now
            elif now - self._since >= seconds:
                self.transport.abort()
                return
            self._timer = self.loop.call_later(seconds / 4, self._check)

        def _waited_for(self) -> bool:
            if self.cycle is None or self.transport.get_write_buffer_size():
                return True
            unfinished = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
            return self.cycle.response_complete and unfinished

    return Patient
