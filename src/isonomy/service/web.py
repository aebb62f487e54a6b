"""HTTP as far as the service needs it, as an ASGI application: routes from a table, replies, refusals, and what
surrounds every request: the names it may be called by, keys, headers, a line in the log, numbers for Prometheus.

A framework would take longer over a request than the bounds of an individual do.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from isonomy.errors import IsonomyError, SoundnessError
from isonomy.service.keys import Key, who
from isonomy.service.reading import BadRequestError
from isonomy.service.telemetry import LOGGER, Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = "application/json"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]


class HttpError(Exception):
    """A request that is not answered as it was meant: a status, why, and headers that go with it."""

    def __init__(self, status: int, detail: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})


class Reply(NamedTuple):
    """What is sent back."""

    body: bytes
    kind: str = JSON
    status: int = 200
    headers: Mapping[str, str] = {}


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A document as JSON."""
    return Reply(json.dumps(document).encode(), JSON, status, headers or {})


@dataclass(slots=True)
class Asked:
    """A request, its body still to be received; ``facts`` of it go into the log line."""

    query: bytes
    headers: dict[bytes, bytes]
    receive: Receive
    caller: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    async def body(self, most: int) -> bytes:
        """The body, given up as soon as it is too large."""
        large = HttpError(413, f"The body must have at most {most} bytes.", {"Connection": "close"})
        told = self.headers.get(b"content-length", b"")
        if told and b"transfer-encoding" in self.headers:  # a proxy may believe the other one
            raise HttpError(400, "Give either Content-Length or Transfer-Encoding.", {"Connection": "close"})
        if told.isdigit() and int(told[:20]) > most:
            raise large
        parts, size, more = [], 0, True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise HttpError(400, "The body broke off.")  # nobody is left to hear it
            part, more = message.get("body", b""), message.get("more_body", False)
            parts.append(part)
            size += len(part)
            if size > most:
                raise large
        return b"".join(parts)

    def whole_number(self, name: str, usual: int, most: int) -> int:
        """A parameter of the address, from 1 on."""
        given = [value for key, value in parse_qsl(self.query.decode("latin-1"), True) if key == name]
        value = given[-1] if given else str(usual)
        if not (value.isascii() and value.isdecimal() and 1 <= int(value[:20]) <= most):
            why = f"'{name}' must be a whole number from 1 to {most}."
            raise HttpError(422, [{"loc": ["query", name], "msg": why, "type": "value_error"}])
        return int(value)


Handler = Callable[[Asked], "Reply | Awaitable[Reply]"]


class Route(NamedTuple):
    """A method and a path, and who answers (in a thread of its own unless it is a coroutine). Without a ``summary`` the
    description of the service has nothing of it; ``limited``: the address may say how many, at most."""

    method: str
    path: str
    handler: Handler
    summary: str = ""
    key: bool = True
    limited: bool = False


class Application:
    """An ASGI application."""

    def __init__(
        self,
        begin: Callable[[], None],
        end: Callable[[], None],
        routes: Collection[Route],
        metrics: Metrics,
        hosts: Collection[str],
        keys: Collection[Key] = (),
    ) -> None:
        """``hosts``: the names under which the service may be called (``*``: any). A page from elsewhere whose name was
        made to mean this machine (DNS rebinding) calls it by that name, and is refused."""
        self._begin, self._end, self._metrics, self._keys = begin, end, metrics, keys
        self._hosts = {host.lower().strip("[]") for host in hosts}
        self._routes: dict[str, dict[str, Route]] = {}
        for route in routes:
            self._routes.setdefault(route.path, {})[route.method] = route
        self._coroutines = {route.handler for route in routes if asyncio.iscoroutinefunction(route.handler)}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request, whatever happens; or begin and end."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            began = time.perf_counter()
            asked = Asked(scope["query_string"], dict(scope["headers"]), receive)
            reply = await self._reply(scope, asked)
            headers = [(b"content-type", reply.kind.encode()), (b"content-length", str(len(reply.body)).encode())]
            headers += [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers + HEADERS})
            await send({"type": "http.response.body", "body": reply.body})
            self._note(scope, asked, reply.status, time.perf_counter() - began)

    async def _reply(self, scope: Message, asked: Asked) -> Reply:
        try:
            if "*" not in self._hosts and _host(scope) not in self._hosts:
                raise HttpError(421, "The service is not called so; --allow-host adds a name.")
            methods = self._routes.get(scope["path"])
            if methods is None:
                raise HttpError(404, "Not Found")
            route = methods.get(scope["method"])
            if route is None:
                raise HttpError(405, "Method Not Allowed", {"Allow": ", ".join(methods)})
            if route.key and self._keys:
                asked.caller = self._caller(asked.headers)
            if route.handler in self._coroutines:
                return await route.handler(asked)  # type: ignore[no-any-return]
            return await asyncio.to_thread(route.handler, asked)  # type: ignore[arg-type]
        except HttpError as error:
            return json_reply({"detail": error.detail}, error.status, error.headers)
        except BadRequestError as error:
            return json_reply({"detail": error.details}, 422)
        except SoundnessError as error:  # where the file is concerns the operator alone
            LOGGER.error("contradiction", extra={"facts": {"error": str(error)}})
            return json_reply({"detail": f"{error.said}."}, error.http_status)
        except IsonomyError as error:
            return json_reply({"detail": str(error)}, error.http_status)
        except Exception:
            LOGGER.exception("a request failed")
            return json_reply({"detail": "Something went wrong here; it was written to the log."}, 500)

    def _caller(self, headers: dict[bytes, bytes]) -> str:
        """The name of the key that was given."""
        scheme, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        name = who(secret, self._keys) if scheme.lower() == "bearer" else None
        if name is None:
            raise HttpError(401, "A valid API key is needed.", {"WWW-Authenticate": "Bearer"})
        return name

    def _note(self, scope: Message, asked: Asked, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._routes else "other"  # never what the caller wrote: it has no end
        self._metrics.requests.labels(path, status).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        if LOGGER.isEnabledFor(logging.INFO):
            facts = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 3)}
            LOGGER.info("request", extra={"facts": facts | asked.facts})

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self._begin()
        except BaseException as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._end()
        await send({"type": "lifespan.shutdown.complete"})


def _host(scope: Message) -> str | None:
    """The name that the one Host header has, without its port."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    if len(given) != 1:
        return None
    name: str = given[0].decode("latin-1").lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
