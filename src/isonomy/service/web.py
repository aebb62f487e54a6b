"""What FastAPI leaves to the service: the names it may be called by, headers, a line in the log and numbers for
Prometheus around every request; who a key belongs to; bodies and numbers within limits; how errors are told."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection
from typing import Any

from fastapi import HTTPException
from fastapi.exception_handlers import http_exception_handler
from fastapi.security.utils import get_authorization_scheme_param
from starlette.authentication import AuthCredentials, AuthenticationBackend, BaseUser, SimpleUser
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isonomy.errors import IsonomyError, SoundnessError
from isonomy.service.keys import Key, who
from isonomy.service.telemetry import LOGGER, Metrics

JSON = "application/json"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]


def json_response(document: Any, status: int = 200) -> Response:
    """In ASCII: Starlette's own fails at half a character, which a complaint may repeat."""
    return Response(json.dumps(document), status, media_type=JSON)


class RequestMiddleware:
    """Around every request. The library's check of hosts answers 400 and, in older versions, knows no IPv6."""

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: Collection[str]) -> None:
        """``hosts``: the names under which the service may be called (``*``: any). A page from elsewhere whose name was
        made to mean this machine (DNS rebinding) calls it by that name, and is refused."""
        self._app, self._metrics, self._hosts = app, metrics, {host.lower().strip("[]") for host in hosts}
        self._refused = JSONResponse({"detail": "The service is not called so; --allow-host adds a name."}, 421)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        allowed = "*" in self._hosts or _host(scope) in self._hosts
        try:
            await (self._app if allowed else self._refused)(scope, receive, sending)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if "endpoint" in scope else "other"  # never what the caller wrote: it has no end
        self._metrics.requests.labels(path, status).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        if LOGGER.isEnabledFor(logging.INFO):
            facts = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 3)}
            LOGGER.info("request", extra={"facts": facts | scope.get("state", {}).get("facts", {})})


def _host(scope: Scope) -> str | None:
    """The name that the one Host header has, without its port."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    if len(given) != 1:
        return None
    name: str = given[0].decode("latin-1").lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


class KeyBackend(AuthenticationBackend):
    """A user is the name of a key; everybody is nobody where there are no keys."""

    def __init__(self, keys: Collection[Key]) -> None:
        self._keys = keys

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        """Whose key was given."""
        if not self._keys:
            return None
        scheme, secret = get_authorization_scheme_param(conn.headers.get("authorization"))
        name = who(secret, self._keys) if scheme.lower() == "bearer" else None
        if name is None:
            raise HTTPException(401, "A valid API key is needed.", {"WWW-Authenticate": "Bearer"})
        return AuthCredentials(), SimpleUser(name)


async def read_body(request: Request, most: int) -> bytes:
    """The body, given up as soon as it is too large."""
    large = HTTPException(413, f"The body must have at most {most} bytes.", {"Connection": "close"})
    told = request.headers.get("content-length", "")
    if told and "transfer-encoding" in request.headers:  # a proxy may believe the other one
        raise HTTPException(400, "Give either Content-Length or Transfer-Encoding.", {"Connection": "close"})
    if told.isdecimal() and int(told[:20]) > most:
        raise large
    parts, size = [], 0
    try:
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > most:
                raise large
    except ClientDisconnect:
        raise HTTPException(400, "The body broke off.") from None  # nobody is left to hear it
    return b"".join(parts)


def whole_number(request: Request, name: str, usual: int, most: int) -> int:
    """A parameter of the address, from 1 on."""
    value = request.query_params.get(name, str(usual))
    if not (value.isascii() and value.isdecimal() and 1 <= int(value[:20]) <= most):
        why = f"'{name}' must be a whole number from 1 to {most}."
        raise HTTPException(422, [{"loc": ["query", name], "msg": why, "type": "value_error"}])
    return int(value)


async def refused(_: Request, error: IsonomyError) -> Response:
    """What the library says is told, but for where a file is: that concerns the operator alone."""
    detail = getattr(error, "details", str(error))
    if isinstance(error, SoundnessError):
        LOGGER.error("contradiction", extra={"facts": {"error": str(error)}})
        detail = f"{error.said}."
    return json_response({"detail": detail}, error.http_status)


async def not_allowed(request: Request, error: HTTPException) -> Response:
    """With all methods of the path, where the router names those of its first route."""
    routes = [route for route in request.app.routes if route.path == request.scope["path"]]
    error.headers = {"Allow": ", ".join(sorted(set().union(*(route.methods for route in routes))))}
    return await http_exception_handler(request, error)


async def failed(_: Request, error: Exception) -> Response:
    """What nobody thought of."""
    LOGGER.error("a request failed", exc_info=error)
    return json_response({"detail": "Something went wrong here; it was written to the log."}, 500)
