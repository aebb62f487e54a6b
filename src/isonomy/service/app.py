"""The application: routes, limits, keys, health."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from isonomy.errors import IsonomyError, SoundnessError
from isonomy.service import openapi
from isonomy.service.answering import Answered, Answering
from isonomy.service.certifier import Certifier
from isonomy.service.dashboard import PAGE, POLICY
from isonomy.service.frame import Frame
from isonomy.service.keys import who
from isonomy.service.log import AuditLog
from isonomy.service.metrics import Metrics
from isonomy.service.reading import BadRequestError
from isonomy.service.served import Served
from isonomy.service.settings import Settings
from isonomy.service.watch import Watch

LOGGER = logging.getLogger("isonomy.service")
BEARER = HTTPBearer(auto_error=False, description="an API key")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CHEAP = 8192
"""Bytes of a body, at most, whose request has its turn beside the dear ones; about ten people."""
LIMIT = Annotated[int, Query(ge=1, le=1000, description="how many, at most")]


def create_app(served: Served, settings: Settings | None = None) -> FastAPI:
    """The service for one certificate, as an ASGI application."""
    service = Service(served, settings or Settings())
    app = FastAPI(
        title="Isonomy",
        version=version("isonomy"),
        description="Predictions with a proof of how differently a similar person could have been treated.",
        lifespan=service.lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Frame, metrics=service.metrics, hosts=(*LOOPBACK, *service.settings.allow_host))
    app.add_exception_handler(IsonomyError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    _add_routes(app, service)
    return app


class Service:
    """What the routes share."""

    def __init__(self, served: Served, settings: Settings) -> None:
        self.served, self.settings = served, settings
        self.metrics = Metrics()
        # The file holds a person: it is written only where features may be.
        self.certifier = Certifier(served, Path(settings.log or ".") if settings.store_features else None)
        self.address = settings.address
        self.waiting = {"cheap": 0, "dear": 0}
        self.ready = False

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Open the log, warm up, watch; and the other way round at the end."""
        settings = self.settings
        # Each kind has threads of its own, so that a cheap request never waits for dear ones to end.
        self.pools = {kind: ThreadPoolExecutor(settings.threads, thread_name_prefix=kind) for kind in self.waiting}
        self.log = AuditLog(self.address, noted=self.metrics.committed)
        self.certifier.warm_up()
        self.answering = Answering(self.certifier, self.log, settings)
        self.watch = Watch(self.certifier, self.log, settings, self.metrics.looked)
        gc.freeze()  # what is there now stays: it need not be looked through again and again
        self.ready = True
        try:
            yield
        finally:
            self.ready = False
            for pool in self.pools.values():
                pool.shutdown(wait=True)
            self.watch.close()
            self.log.close()

    async def answer(self, request: Request, caller: str) -> Response:
        """Read within the limits, answer, and acknowledge what is on disk."""
        arrived = time.monotonic()
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            raise HTTPException(415, "The body must be application/json.")
        body: bytes | None = None
        try:
            async with asyncio.timeout(self.settings.timeout):
                body = await self._body(request)
                answered = await self._answered(body, caller, arrived)
        except TimeoutError:
            if body is None:
                raise HTTPException(408, "The body did not arrive in time.") from None
            raise HTTPException(503, "The answer took too long.", headers={"Retry-After": "1"}) from None
        except ClientDisconnect:
            raise HTTPException(400, "The body broke off.") from None  # nobody is left to hear it
        except BadRequestError as error:
            if error.people:  # who was not admitted is of today's population all the same
                self.metrics.refused.inc(error.people)
                self.watch.refuse(error.people)
                request.state.facts = {"caller": caller, "refused": error.people}
            raise
        self.metrics.answered(answered.answers)
        self.watch.add(answered.answers.x, answered.answers.upper, answered.answers.lower)
        request.state.facts = {"request": answered.request, "caller": caller, "people": len(answered.answers)}
        return Response(answered.body, media_type="application/json")

    async def _answered(self, body: bytes, caller: str, arrived: float) -> Answered:
        """Through a thread of the arithmetic and the log's own: the loop is woken once, when all is on disk."""
        kind, most = _kind(body), self.settings.max_waiting
        half = (most + 1) // 2  # of the places: dear requests leave the rest to cheap ones
        if sum(self.waiting.values()) >= most or (kind == "dear" and self.waiting[kind] >= half):
            raise HTTPException(503, "Too many requests wait; try again later.", headers={"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Answered] = loop.create_future()

        def work() -> None:
            try:
                if told.done():
                    raise TimeoutError  # nobody waits any more
                answered = self.answering(body, caller, arrived)
            except Exception as error:
                loop.call_soon_threadsafe(leave, error)
            else:  # nothing is acknowledged that is not on disk
                answered.logged.add_done_callback(
                    lambda logged: loop.call_soon_threadsafe(leave, logged.exception() or answered)
                )

        def leave(answer: Answered | BaseException) -> None:
            self._count(kind, -1)  # whoever has stopped waiting is still in the queue until here
            _settle(told, answer)

        self._count(kind, +1)
        self.pools[kind].submit(work)
        return await told

    def _count(self, kind: str, change: int) -> None:
        self.waiting[kind] += change
        self.metrics.waiting.set(sum(self.waiting.values()))

    async def _body(self, request: Request) -> bytes:
        """The body, given up as soon as it is too large."""
        most = self.settings.max_body
        large = HTTPException(413, f"The body must have at most {most} bytes.", headers={"Connection": "close"})
        told = request.headers.get("content-length", "")
        if told.isdecimal() and int(told[:20]) > most:
            raise large
        parts, size = [], 0
        async for part in request.stream():
            parts.append(part)
            size += len(part)
            if size > most:
                raise large
        return b"".join(parts)

    def certificate(self) -> dict[str, Any]:
        """What was proved, for whoever asks."""
        served = self.served
        widest = 2 * served.gamma if served.gamma > 0 else 1.0
        gammas = [widest * step / 20 for step in range(21)]
        return {
            "certificate": served.identity,
            "statement": served.statement,
            "delta": served.delta,
            "gamma": served.gamma,
            "order": served.order if served.order < float("inf") else None,
            "epsilon": served.epsilon,
            "upper": served.upper,
            "lower": served.lower,
            "confidence": served.confidence,
            "schema": served.schema.name,
            "people": None if served.people is None else len(served.people),
            "curve": {"gamma": gammas, "upper": [float(value) for value in served.curve(gammas)]},
        }


def _add_routes(app: FastAPI, service: Service) -> None:
    settings, identity = service.settings, service.served.identity
    authorised = _authorised(service)
    problem = {"content": {"application/json": {"schema": openapi.problem_schema()}}}
    refusals = {"401": "no valid key"} if settings.keys else {}

    def answers(schema: dict[str, Any] | None = None, **more: str) -> dict[int | str, dict[str, Any]]:
        good = {"content": {"application/json": {"schema": schema or {"type": "object"}}}, "description": "the answer"}
        said = {"422": "a parameter that cannot be used", **refusals, **{code[1:]: why for code, why in more.items()}}
        return {200: good, **{code: {**problem, "description": why} for code, why in said.items()}}

    body = {"application/json": {"schema": openapi.request_schema(service.served.schema, settings)}}

    @app.post(
        "/v1/predictions",
        summary="Predictions with their local certificates",
        response_class=Response,
        responses=answers(
            openapi.answer_schema(), _408="a slow body", _413="a large body", _415="no JSON", _503="try again later"
        ),
        openapi_extra={"requestBody": {"required": True, "content": body}},
    )
    async def predict(request: Request, caller: str = Depends(authorised)) -> Response:
        return await service.answer(request, caller)

    @app.get("/v1/predictions", summary="The latest predictions", responses=answers(), response_class=Response)
    def recent(caller: str = Depends(authorised), limit: LIMIT = 50) -> Response:
        return _json({"verdicts": service.log.verdicts(identity, 1000), "recent": service.log.recent(identity, limit)})

    @app.get(
        "/v1/monitor",
        summary="Is the certificate still about today's population?",
        responses=answers(),
        response_class=Response,
    )
    def monitor(caller: str = Depends(authorised)) -> Response:
        return _json(service.watch.report())

    @app.get("/v1/monitor/history", summary="States over time", responses=answers(), response_class=Response)
    def history(caller: str = Depends(authorised), limit: LIMIT = 200) -> Response:
        return _json({"evaluations": service.log.evaluations(service.served.identity, limit)})

    @app.get("/v1/certificate", summary="What was proved", responses=answers(), response_class=Response)
    def certificate(caller: str = Depends(authorised)) -> Response:
        return _json(service.certificate())

    @app.get("/metrics", include_in_schema=False)
    def metrics(caller: str = Depends(authorised)) -> Response:
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/health/live", summary="Is the process alive?", responses={200: {"description": "yes"}})
    async def live() -> dict[str, str]:
        return {"status": "alive"}

    @app.get(
        "/health/ready",
        summary="Can requests be answered?",
        responses={503: {**problem, "description": "not now"}},
    )
    async def ready() -> dict[str, str]:
        trouble = service.log.trouble if service.ready else "The service is starting or ending."
        if trouble is not None:
            raise HTTPException(503, trouble)
        return {"status": "ready"}

    @app.get("/", include_in_schema=False)
    async def dashboard() -> Response:
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
        return Response(PAGE, media_type="text/html; charset=utf-8", headers=headers)


def _kind(body: bytes) -> str:
    """Whether a request is cheap or dear, as far as its bytes tell: dear is whatever asks for much, or could (names can
    be written with escapes)."""
    dear = len(body) > CHEAP or any(word in body for word in (b"counterpart", b"budget_ms", b"\\"))
    return "dear" if dear else "cheap"


def _settle(told: asyncio.Future[Answered], answer: Answered | BaseException) -> None:
    """Let whoever waits go on, if anybody still does."""
    if told.done():
        return
    if isinstance(answer, BaseException):
        told.set_exception(answer)
    else:
        told.set_result(answer)


def _authorised(service: Service) -> Callable[..., Awaitable[str]]:
    """Who asks: the name of a key, or nobody in particular where no key is needed.

    Asynchronous, though nothing is waited for: other functions would be sent to another thread and back.
    """

    async def anybody() -> str:
        return ""

    if not service.settings.keys:
        return anybody

    async def authorised(given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> str:
        name = None if given is None else who(given.credentials, service.settings.keys)
        if name is None:
            raise HTTPException(401, "A valid API key is needed.", headers={"WWW-Authenticate": "Bearer"})
        return name

    return authorised


def _json(document: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(json.dumps(document), status, headers, "application/json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, IsonomyError)
    if isinstance(error, BadRequestError):
        return _json({"detail": error.details}, 422)
    if isinstance(error, SoundnessError):  # where the file is concerns the operator alone
        LOGGER.error("contradiction", extra={"facts": {"error": str(error)}})
        return _json({"detail": f"{error.said}."}, error.http_status)
    return _json({"detail": str(error)}, error.http_status)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    places = [
        {"loc": [part if isinstance(part, int) else str(part) for part in item["loc"]], "msg": item["msg"],
         "type": item["type"]}
        for item in error.errors()
    ]  # fmt: skip
    return _json({"detail": places}, 422)
