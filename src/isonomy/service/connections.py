"""Close idle connections, so that they do not occupy the limit of concurrent ones.

Three waits have a time limit: for the headers of a request, from the beginning of a connection or from the first byte
after an answer; for the rest of a body that was answered already; for the client to take the answer. uvicorn itself
closes a connection that is silent after an answer, and the application gives up on a body that is too slow. A head
(the first line and all headers) of more than 64 KiB is answered with 431, whether it comes in one piece or in many.
At the limit of connections, a new one replaces the one that has been waiting longest for a first request, and is
closed at once where there is none.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD = 2**16
"""Bytes of the head of a request, at most."""


class _Heads(h11.Connection):
    """A connection whose heads have a limit: ``h11`` has one for heads that are not yet complete alone."""

    large = False

    def next_event(self) -> Any:
        """Refuse a head that is too large, with 431."""
        waiting = len(self.trailing_data[0]) if self.their_state is h11.IDLE else 0
        try:
            event = super().next_event()
            if isinstance(event, h11.Request) and waiting - len(self.trailing_data[0]) > HEAD:
                raise h11.RemoteProtocolError("The head is too large", error_status_hint=431)
        except h11.RemoteProtocolError as error:
            self.large = error.error_status_hint == 431
            raise
        return event


class _Joined:
    """A transport that sends the head of an answer with what follows it: one message, and one waking of the client."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Hold the head back until the body; uvicorn writes the head, which an empty line ends, then the body."""
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 100"):
            self._head = data
        else:
            self._transport.write(self._head + data)
            self._head = b""


class _LimitedProtocol(H11Protocol):
    """uvicorn's protocol with a time limit of ``seconds`` for each wait."""

    seconds = math.inf
    _since: float | None = None  # start of the present wait
    _timer: asyncio.TimerHandle | None = None
    _refused = False  # further bytes are ignored

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn: _Heads = _Heads(h11.SERVER, HEAD)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(_Joined(transport))  # type: ignore[arg-type]
        self._since = self.loop.time()
        self._check()
        if self.limit_concurrency is not None and len(self.connections) >= self.limit_concurrency:
            others = [one for one in self.connections if isinstance(one, _LimitedProtocol) and one is not self]
            silent = (one for one in others if one.cycle is None)
            oldest = min(silent, key=lambda one: one._since or 0.0, default=self)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        if not self.conn.large:
            super().send_400_response(msg)
            return
        text = f"The headers must have at most {HEAD} bytes.".encode()
        head = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        answer = h11.Response(status_code=431, headers=head, reason=b"Request Header Fields Too Large")
        for event in (answer, h11.Data(data=text), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        # To close while bytes still arrive would reset the connection, and the answer would be lost.
        self._refused = True
        self.transport.write_eof()

    def _check(self) -> None:
        """Abort a connection that has waited too long; polled, since timers for every request would cost more."""
        now = self.loop.time()
        if not self._is_waiting():
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= self.seconds:
            self.transport.abort()
            return
        self._timer = self.loop.call_later(self.seconds / 4, self._check)

    def _is_waiting(self) -> bool:
        if self._refused or self.cycle is None or self.transport.get_write_buffer_size():
            return True
        unfinished = self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0])
        return self.cycle.response_complete and unfinished


def limited_protocol(seconds: float) -> type[asyncio.Protocol]:
    """Return the protocol with a time limit of ``seconds`` for each wait."""
    return type("Limited", (_LimitedProtocol,), {"seconds": seconds})
