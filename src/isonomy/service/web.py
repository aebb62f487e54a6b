"""Handle what FastAPI leaves to the service: allowed host names, headers, limits of bodies and numbers, answers to
errors, the page at ``/``; and metrics for Prometheus and log lines about every request, one JSON object each, on the
standard error stream. Never features, never keys."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections import Counter as Counts
from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import HTTPException
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic_core import to_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isonomy.errors import IsonomyError, SoundnessError
from isonomy.monitor import Evaluation
from isonomy.report.html import csp_hash
from isonomy.service.certifier import Answers

LOGGER = logging.getLogger("isonomy.service")
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
STATES = ("valid", "expired", "undecided")
JSON = "application/json"
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
PAGE = (Path(__file__).parent / "dashboard.html").read_text(encoding="utf-8")
_STYLE, _SCRIPT = (
    " ".join(map(csp_hash, re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL))) for tag in ("style", "script")
)
POLICY = (
    f"default-src 'none'; connect-src 'self'; img-src data:; script-src {_SCRIPT}; style-src {_STYLE}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page is one file and loads nothing from elsewhere."""


class AsciiResponse(JSONResponse):
    """JSON in which names of any alphabet are escaped: nothing in an answer can steer a terminal."""

    def render(self, content: Any) -> bytes:
        """Return the bytes; what is no finite number is null."""
        text = to_json(content, inf_nan_mode="null").decode()
        return re.sub(r"[^ -~]", lambda letter: json.dumps(letter[0])[1:-1], text).encode()


class Metrics:
    """The metrics of one service, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.requests = counter("isonomy_requests_total", "Requests", ["path", "status"])
        self.seconds = histogram("isonomy_request_seconds", "Time to answer", ["path"], buckets=SECONDS)
        self.predictions = counter("isonomy_predictions_total", "Certified predictions", ["verdict", "tier"])
        self.refused = counter("isonomy_refused_total", "People whom the schema refuses")
        self.denied = counter("isonomy_denied_total", "Requests that no key allows", ["reason"])
        self.keys = gauge("isonomy_keys_trouble", "1: the file of keys as it is now cannot be used")
        self.commits = histogram("isonomy_log_commit_seconds", "Time of a commit", buckets=SECONDS)
        self.logged = counter("isonomy_log_requests_total", "Requests in the audit log")
        self.waiting = gauge("isonomy_requests_waiting", "Requests being answered")
        self.looks = counter("isonomy_monitor_evaluations_total", "Looks at the window")
        self.state = gauge("isonomy_monitor_state", "1 for the present state", ["state"])
        self.distance = gauge("isonomy_monitor_distance_lower", "The populations are at least this far apart")
        self.mean = gauge("isonomy_monitor_mean_upper", "Mean of the proved violations of the window")
        self.share = gauge("isonomy_monitor_refused_share", "Of the window, refused by the schema")

    def answered(self, answers: Answers) -> None:
        """Count predictions by verdict and tier."""
        for pair, count in Counts(zip(answers.verdict, answers.tier, strict=True)).items():
            self.predictions.labels(*pair).inc(count)

    def committed(self, seconds: float, requests: int) -> None:
        """Count a transaction of the audit log."""
        self.commits.observe(seconds)
        self.logged.inc(requests)

    def looked(self, evaluation: Evaluation) -> None:
        """Set the metrics of an evaluation of the monitor."""
        self.looks.inc()
        for state in STATES:
            self.state.labels(state).set(state == evaluation.state)
        self.mean.set(evaluation.mean.observed)
        self.share.set(evaluation.refused.observed)
        if evaluation.distance is not None:
            self.distance.set(evaluation.distance.lower)

    def page(self) -> bytes:
        """Return the metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class Lines(logging.Formatter):
    """Formats a record as one line of JSON; ``extra={"facts": {...}}`` adds fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {"at": at, "level": record.levelname.lower(), "message": record.getMessage()}
        fields.update(getattr(record, "facts", {}))
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def write_lines(level: str = "INFO") -> None:
    """Send the service's own records, and the server's warnings, to the standard error stream."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name, least in (("isonomy.service", level.upper()), ("uvicorn", "WARNING"), ("uvicorn.error", level.upper())):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)


class RequestMiddleware:
    """Checks the host, adds headers and counts every request. Starlette's check of hosts answers 400 and, in older
    versions, knows no IPv6."""

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: Collection[str]) -> None:
        """Take ``hosts``, the allowed names (``*``: any). A page from elsewhere whose name leads to this machine (DNS
        rebinding) uses that name, and is refused."""
        self._app, self._metrics, self._hosts = app, metrics, {host.lower().strip("[]") for host in hosts}
        self._refused = AsciiResponse({"detail": "The service is not called so; --allow-host adds a name."}, 421)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass one request on, or refuse its host."""
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

        if scope["method"] == "HEAD":  # FastAPI has no such routes; the server leaves the body out
            scope = {**scope, "method": "GET"}
        allowed = "*" in self._hosts or _host(scope) in self._hosts
        try:
            await (self._app if allowed else self._refused)(scope, receive, sending)
        finally:
            self._note(scope, status, time.perf_counter() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if "endpoint" in scope else "other"  # never the caller's own: their number is unlimited
        self._metrics.requests.labels(path, status).inc()
        self._metrics.seconds.labels(path).observe(seconds)
        if LOGGER.isEnabledFor(logging.INFO):
            facts = {"method": scope["method"], "path": path, "status": status, "ms": round(1000 * seconds, 3)}
            LOGGER.info("request", extra={"facts": facts | scope.get("state", {}).get("facts", {})})


def _host(scope: Scope) -> str | None:
    """Return the name in the only Host header, without its port; None without exactly one header."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1:
        return None
    name: str = hosts[0].decode("latin-1").lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


async def read_body(request: Request, most: int) -> bytes:
    """Read the body; fail as soon as it is longer than ``most`` bytes."""
    large = HTTPException(413, f"The body must have at most {most} bytes.", {"Connection": "close"})
    length = request.headers.get("content-length", "")
    if length and "transfer-encoding" in request.headers:  # a proxy may use the other one
        raise HTTPException(400, "Give either Content-Length or Transfer-Encoding.", {"Connection": "close"})
    if length.isdecimal() and int(length[:20]) > most:
        raise large
    parts, size = [], 0
    try:
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > most:
                raise large
    except ClientDisconnect:
        raise HTTPException(400, "The body broke off.") from None  # the client is gone
    return b"".join(parts)


async def refused(_: Request, error: IsonomyError) -> Response:
    """Answer with the library's message, without the place of a file, which concerns the operator alone."""
    detail = getattr(error, "details", str(error))
    if isinstance(error, SoundnessError):
        LOGGER.error("contradiction", extra={"facts": {"error": str(error)}})
        detail = f"{error.contradiction}."
    return AsciiResponse({"detail": detail}, error.http_status)


async def invalid(_: Request, error: RequestValidationError) -> Response:
    """Answer a parameter that cannot be used, in the words of FastAPI and without repeating it."""
    return AsciiResponse(
        {"detail": [{name: each[name] for name in ("loc", "msg", "type")} for each in error.errors()]}, 422
    )


async def not_allowed(request: Request, error: HTTPException) -> Response:
    """Answer 405 with all methods of the path, where the router names those of its first route."""
    routes = [route for route in request.app.routes if route.path == request.scope["path"]]
    methods = set().union(*(route.methods for route in routes))
    error.headers = {"Allow": ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))}
    return await http_exception_handler(request, error)


async def failed(_: Request, error: Exception) -> Response:
    """Answer an unexpected error with 500, and log it."""
    LOGGER.error("a request failed", exc_info=error)
    return AsciiResponse({"detail": "Something went wrong here; it was written to the log."}, 500)
