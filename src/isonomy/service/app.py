"""Build and run the application: its routes, its queues, and how a request is answered."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn
from fastapi import FastAPI, HTTPException, Query, Security
from fastapi.exceptions import RequestValidationError
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from isonomy.errors import IsonomyError, ParameterError, template
from isonomy.options import Given, select, with_options
from isonomy.parallel import one_thread_in_blas, set_workers
from isonomy.population.outcome import rule
from isonomy.service import web
from isonomy.service.access import KeyBearer, Keyring
from isonomy.service.answering import Answered, Answering
from isonomy.service.certifier import PER_SECOND, Certifier
from isonomy.service.connections import limited_protocol
from isonomy.service.keys import ROLES
from isonomy.service.log import AuditLog
from isonomy.service.requests import Asked, BadRequestError, Predictions, Reader, Refusal
from isonomy.service.served import Served
from isonomy.service.settings import Settings
from isonomy.service.watch import Watch

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CHEAP = PER_SECOND / 10
"""Multiplications of a cheap request, at most."""
LATER = {"Retry-After": "1"}
REFUSALS = {
    422: "something that cannot be used",
    408: "a slow body",
    413: "a large body",
    415: "no JSON",
    503: "try again later",
}
DENIALS = {401: "no valid key", 403: "a key without the role", 429: "more requests than the key has"}
Limit = Annotated[int, Query(ge=1, le=1000, description="how many, at most")]


def create_app(served: Served, settings: Settings | None = None) -> FastAPI:
    """Build the service for one certificate."""
    settings = settings or Settings()
    service = Service(served, settings)
    app = FastAPI(
        title="Isonomy",
        version=version("isonomy"),
        description="Predictions with a proof of how differently a similar person could have been treated.",
        lifespan=service.lifespan,
        default_response_class=web.AsciiResponse,
        openapi_url=None,  # FastAPI's own is not in ASCII
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        middleware=[
            Middleware(web.RequestMiddleware, metrics=service.metrics, hosts=(*LOOPBACK, *settings.allow_host)),
            Middleware(ExceptionMiddleware, handlers={Exception: web.failed}),  # FastAPI would have it outermost
        ],
        exception_handlers={IsonomyError: web.refused, RequestValidationError: web.invalid, 405: web.not_allowed},
    )
    service.add_routes(app)

    async def describe(_: Request) -> Response:
        return web.AsciiResponse(app.openapi())

    app.add_route("/openapi.json", describe, include_in_schema=False)
    return app


class Service:
    """The state that the routes share."""

    def __init__(self, served: Served, settings: Settings) -> None:
        self.served, self.settings, self.address = served, settings, settings.address
        self.metrics = web.Metrics()
        # The file holds a person: it is written only where features may be.
        self.certifier = Certifier(served, Path(settings.log or ".") if settings.store_features else None)
        self.read = Reader(served.schema, settings)
        self.keyring = Keyring(settings.keys, self.metrics.keys.set) if settings.keys else None
        self.waiting = {"cheap": 0, "dear": 0}
        self.ready = False

    @asynccontextmanager
    async def lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Open the log, warm up and start the monitor; close them in reverse order at the end."""
        threads = self.settings.threads
        # Each kind has threads of its own, so that a cheap request never waits for dear ones to end.
        self.pools = {kind: ThreadPoolExecutor(threads, thread_name_prefix=kind) for kind in self.waiting}
        self.log = AuditLog(self.address, noted=self.metrics.committed)
        self.certifier.warm_up()
        self.answering = Answering(self.certifier, self.log, self.settings)
        self.watch = Watch(self.certifier, self.log, self.settings, self.metrics.looked)
        gc.freeze()  # what exists now stays: it need not be collected again and again
        self.ready = True
        yield
        self.ready = False
        for pool in self.pools.values():
            pool.shutdown(wait=True)
        self.watch.close()
        self.log.close()

    def add_routes(self, app: FastAPI) -> None:
        """Add all operations; FastAPI describes them at ``/openapi.json``."""
        bearer = None if self.keyring is None else KeyBearer(self.keyring, self.metrics)
        keyed = {role: [Security(bearer, scopes=[role])] if bearer else [] for role in ROLES}
        codes = REFUSALS | (DENIALS if bearer else {})

        def refusals(*some: int) -> dict[int | str, dict[str, Any]]:
            return {code: {"model": Refusal, "description": codes[code]} for code in some if code in codes}

        posted = {"requestBody": {"required": True, "content": {web.JSON: {"schema": self.read.json_schema()}}}}
        app.post(
            "/v1/predictions", summary="Predictions with their local certificates", dependencies=keyed["predict"],
            response_model=Predictions, responses=refusals(*codes), openapi_extra=posted,
        )(self.predict)  # fmt: skip
        shown = (
            ("/v1/predictions", self.recent, "The latest predictions"),
            ("/v1/monitor", self.monitored, "Is the certificate still about today's population?"),
            ("/v1/monitor/history", self.history, "States over time"),
            ("/v1/certificate", self.certificate, "What was proved"),
        )
        for path, handler, summary in shown:
            responses = refusals(*DENIALS, 422)
            app.get(path, summary=summary, dependencies=keyed["read"], response_model=dict, responses=responses)(
                handler
            )
        app.get("/metrics", dependencies=keyed["read"], include_in_schema=False)(self.numbers)
        if bearer:
            changes = partial(
                app.api_route, "/v1/keys", dependencies=keyed["admin"], response_model=dict,
                responses=refusals(*DENIALS),
            )  # fmt: skip
            changes(methods=["GET"], summary="The keys in use")(self.keys)
            changes(methods=["POST"], summary="Read the file of keys now")(self.keys_now)
        app.get("/health/live", summary="Is the process alive?", response_model=dict)(self.live)
        app.get("/health/ready", summary="Can requests be answered?", response_model=dict, responses=refusals(503))(
            self.is_ready
        )
        app.get("/", include_in_schema=False)(self.dashboard)

    async def predict(self, request: Request) -> Response:
        """Read a request within the limits, and answer once its entry is on disk."""
        arrived = time.monotonic()
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != web.JSON:
            raise HTTPException(415, "The body must be application/json.")
        caller, body = getattr(request.state, "caller", ""), None
        try:
            async with asyncio.timeout(self.settings.timeout):
                body = await web.read_body(request, self.settings.max_body)
                answered = await self._answered(body, caller, arrived)
        except TimeoutError:
            if body is None:
                raise HTTPException(408, "The body did not arrive in time.") from None
            raise HTTPException(503, "The answer took too long.", LATER) from None
        except BadRequestError as error:
            if error.people:  # refused people belong to today's population too
                self.metrics.refused.inc(error.people)
                self.watch.refuse(error.people)
                request.state.facts = {"caller": caller, "refused": error.people}
            raise
        answers = answered.answers
        self.metrics.answered(answers)
        self.watch.add(answers.x, answers.upper, answers.lower)
        request.state.facts = {"request": answered.request, "caller": caller, "people": len(answers)}
        return Response(answered.body, media_type=web.JSON)

    async def _answered(self, body: bytes, caller: str, arrived: float) -> Answered:
        """Answer in a worker thread, which also writes the log: the loop is woken once, when all is on disk.

        Threads for cheap requests read every body, and leave an answer of much counted work to the others.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answered] = loop.create_future()

        def work(kind: str, asked: Asked | None) -> None:
            try:
                if future.done():
                    raise TimeoutError  # the request was given up
                if asked is None:
                    asked = self.read(body)
                    if self.answering.work(asked) > CHEAP:
                        loop.call_soon_threadsafe(begin, "dear", asked)
                        return
                answered = self.answering(asked, caller, arrived)
            except Exception as error:
                loop.call_soon_threadsafe(leave, kind, error)
            else:  # nothing is acknowledged that is not on disk
                answered.logged.add_done_callback(
                    lambda logged: loop.call_soon_threadsafe(leave, kind, logged.exception() or answered)
                )

        def begin(kind: str, asked: Asked | None = None) -> None:
            most = self.settings.max_waiting
            half = (most + 1) // 2  # of the queue: dear requests leave the rest to cheap ones
            if kind == "dear":
                self._count("cheap", -1)
            if sum(self.waiting.values()) >= most or (kind == "dear" and self.waiting[kind] >= half):
                end(HTTPException(503, "Too many requests wait; try again later.", LATER))
                return
            self._count(kind, +1)
            self.pools[kind].submit(work, kind, asked)

        def leave(kind: str, answer: Answered | BaseException) -> None:
            self._count(kind, -1)  # a request that was given up is in the queue until here
            end(answer)

        def end(answer: Answered | BaseException) -> None:
            if not future.done():
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

        begin("cheap")
        return await future

    def _count(self, kind: str, change: int) -> None:
        self.waiting[kind] += change
        self.metrics.waiting.set(sum(self.waiting.values()))

    def recent(self, limit: Limit = 50) -> Response:
        """Return the latest predictions, and counts by verdict."""
        identity = self.served.identity
        verdicts, recent = self.log.verdicts(identity, 1000), self.log.recent(identity, limit)
        return web.AsciiResponse({"verdicts": verdicts, "recent": recent})

    def history(self, limit: Limit = 200) -> Response:
        """Return evaluations of the monitor, the latest last."""
        return web.AsciiResponse({"evaluations": self.log.evaluations(self.served.identity, limit)})

    def monitored(self) -> Response:
        """Return the state of the monitor, its reasons, and the groups of the window."""
        return web.AsciiResponse(self.watch.report())

    def numbers(self) -> Response:
        """Return the metrics for Prometheus."""
        return Response(self.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def keys(self) -> Response:
        """Return the keys in use: names, roles, rates and expiry, without hashes."""
        assert self.keyring is not None
        return web.AsciiResponse(self.keyring.shown())

    async def keys_now(self) -> Response:
        """Read the file of keys now, and return the keys in use."""
        assert self.keyring is not None
        self.keyring.read_again()
        return await self.keys()

    async def live(self) -> Response:
        """Return that the process is alive."""
        return web.AsciiResponse({"status": "alive"})

    async def is_ready(self) -> Response:
        """Return that requests can be answered, or 503 with the reason why not."""
        trouble = self.log.trouble if self.ready else "The service is starting or ending."
        if trouble is not None:
            raise HTTPException(503, trouble)
        return web.AsciiResponse({"status": "ready"})

    async def dashboard(self) -> Response:
        """Return the page at ``/``."""
        return HTMLResponse(web.PAGE, headers={"Content-Security-Policy": web.POLICY, "Cache-Control": "no-cache"})

    def certificate(self) -> Response:
        """Return the claims of the certificate and their terms."""
        served, outcome = self.served, self.certifier.problem.outcome
        sizes = served.shift.sizes()
        names = ("statement", "epsilon", "upper", "lower", "confidence", "behind", "verdict", "printed", "observed")
        return web.AsciiResponse(
            {
                "certificate": served.identity,
                **{name: getattr(served, name) for name in names},
                "delta": served.problem.delta,
                **served.numbers,
                "schema": served.schema.name,
                "outcome": {name: getattr(outcome, name) for name in ("classes", "favourable", "threshold")},
                "decided": rule(outcome),
                "people": None if served.people is None else len(served.people),
                "curve": {served.shift.size_name: sizes, "upper": [float(value) for value in served.curve(sizes)]},
            }
        )


def run(
    served: Served,
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    anonymous: bool = False,
    log_level: str = "info",
) -> None:
    """Serve until stopped. Without keys, other machines are served only with ``anonymous``.

    Threads and the like are set for the whole process, which should run nothing else.
    """
    settings = settings or Settings()
    if not settings.keys and not anonymous and not _is_loopback(host):
        raise ParameterError(
            f"Anybody who reaches '{host}' could ask without a key: give 'keys', or 'anonymous' if that is meant."
        )
    if not 0 <= port <= 65535:
        raise ParameterError(template("port", "a number from 0 to 65535", port))
    web.write_lines(log_level)
    facts = {"certificate": served.identity, "host": host, "port": port, **settings.shown()}
    web.LOGGER.info("starting", extra={"facts": facts})
    if served.caution:
        web.LOGGER.warning(served.caution, extra={"facts": {"verdict": served.verdict}})
    settings = replace(settings, allow_host=(*settings.allow_host, host))
    set_workers(1)  # requests run in parallel instead
    sys.setswitchinterval(0.001)
    gc.set_threshold(20_000)  # a batch makes thousands of objects, freed by reference counts
    config = uvicorn.Config(
        create_app(served, settings),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=30,
        limit_concurrency=16 * settings.max_waiting,
        http=limited_protocol(settings.headers_timeout),
        ws="none",
        proxy_headers=False,
    )
    with one_thread_in_blas():
        uvicorn.Server(config).run()


@with_options(given=select(Settings))
def serve(
    certificate: Annotated[Path, typer.Option(help="The directory of an audit, or its certificate.json.")],
    given: Given,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at.")] = 8000,
    keys: Annotated[Path | None, typer.Option(help="The file of API keys that 'isonomy key' makes.")] = None,
    anonymous: Annotated[bool, typer.Option(help="Let other machines ask without a key.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve predictions with their certificates, and watch whether the certificate is still about today's people."""
    settings = Settings(**given, keys=keys or ())
    run(Served.from_directory(certificate), settings, host=host, port=port, anonymous=anonymous, log_level=log_level)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
