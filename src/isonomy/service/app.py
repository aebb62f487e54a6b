"""The application: its routes, who waits for whom, and how a request is answered."""

from __future__ import annotations

import asyncio
import gc
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from isonomy.service import openapi
from isonomy.service.answering import Answered, Answering
from isonomy.service.certifier import Certifier
from isonomy.service.dashboard import PAGE, POLICY
from isonomy.service.log import AuditLog
from isonomy.service.reading import BadRequestError
from isonomy.service.served import Served
from isonomy.service.settings import Settings
from isonomy.service.telemetry import Metrics
from isonomy.service.watch import Watch
from isonomy.service.web import Application, Asked, HttpError, Reply, Route, json_reply

LOOPBACK = ("localhost", "127.0.0.1", "::1")
CHEAP = 8192
"""Bytes of a body, at most, whose request has its turn beside the dear ones; about ten people."""
LATER = {"Retry-After": "1"}


def create_app(served: Served, settings: Settings | None = None) -> Application:
    """The service for one certificate, as an ASGI application."""
    settings = settings or Settings()
    service = Service(served, settings)
    routes = service.routes()
    description = json_reply(openapi.description(served.schema, settings, routes))
    routes.append(Route("GET", "/openapi.json", lambda _: description, key=False))
    hosts = (*LOOPBACK, *settings.allow_host)
    return Application(service.open, service.close, routes, service.metrics, hosts, settings.keys)


class Service:
    """What the routes share."""

    def __init__(self, served: Served, settings: Settings) -> None:
        self.served, self.settings, self.address = served, settings, settings.address
        self.metrics = Metrics()
        # The file holds a person: it is written only where features may be.
        self.certifier = Certifier(served, Path(settings.log or ".") if settings.store_features else None)
        self.waiting = {"cheap": 0, "dear": 0}
        self.ready = False

    def open(self) -> None:
        """Open the log, warm up, watch."""
        threads = self.settings.threads
        # Each kind has threads of its own, so that a cheap request never waits for dear ones to end.
        self.pools = {kind: ThreadPoolExecutor(threads, thread_name_prefix=kind) for kind in self.waiting}
        self.log = AuditLog(self.address, noted=self.metrics.committed)
        self.certifier.warm_up()
        self.answering = Answering(self.certifier, self.log, self.settings)
        self.watch = Watch(self.certifier, self.log, self.settings, self.metrics.looked)
        gc.freeze()  # what is there now stays: it need not be looked through again and again
        self.ready = True

    def close(self) -> None:
        """The other way round."""
        self.ready = False
        for pool in self.pools.values():
            pool.shutdown(wait=True)
        self.watch.close()
        self.log.close()

    def routes(self) -> list[Route]:
        """What can be asked."""
        monitored = "Is the certificate still about today's population?"
        return [
            Route("POST", "/v1/predictions", self.predict, "Predictions with their local certificates"),
            Route("GET", "/v1/predictions", self.recent, "The latest predictions", limited=True),
            Route("GET", "/v1/monitor", lambda _: json_reply(self.watch.report()), monitored),
            Route("GET", "/v1/monitor/history", self.history, "States over time", limited=True),
            Route("GET", "/v1/certificate", lambda _: json_reply(self.certificate()), "What was proved"),
            Route("GET", "/metrics", self.numbers),
            Route("GET", "/health/live", self.live, "Is the process alive?", key=False),
            Route("GET", "/health/ready", self.is_ready, "Can requests be answered?", key=False),
            Route("GET", "/", self.dashboard, key=False),
        ]

    async def predict(self, asked: Asked) -> Reply:
        """Read within the limits, answer, and acknowledge what is on disk."""
        arrived = time.monotonic()
        if asked.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
            raise HttpError(415, "The body must be application/json.")
        body: bytes | None = None
        try:
            async with asyncio.timeout(self.settings.timeout):
                body = await asked.body(self.settings.max_body)
                answered = await self._answered(body, asked.caller, arrived)
        except TimeoutError:
            if body is None:
                raise HttpError(408, "The body did not arrive in time.") from None
            raise HttpError(503, "The answer took too long.", LATER) from None
        except BadRequestError as error:
            if error.people:  # who was not admitted is of today's population all the same
                self.metrics.refused.inc(error.people)
                self.watch.refuse(error.people)
                asked.facts = {"caller": asked.caller, "refused": error.people}
            raise
        answers = answered.answers
        self.metrics.answered(answers)
        self.watch.add(answers.x, answers.upper, answers.lower)
        asked.facts = {"request": answered.request, "caller": asked.caller, "people": len(answers)}
        return Reply(answered.body)

    async def _answered(self, body: bytes, caller: str, arrived: float) -> Answered:
        """Through a thread of the arithmetic, which also writes the log: the loop is woken once, when all is on
        disk."""
        kind, most = _kind(body), self.settings.max_waiting
        half = (most + 1) // 2  # of the places: dear requests leave the rest to cheap ones
        if sum(self.waiting.values()) >= most or (kind == "dear" and self.waiting[kind] >= half):
            raise HttpError(503, "Too many requests wait; try again later.", LATER)
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
            if not told.done():
                if isinstance(answer, BaseException):
                    told.set_exception(answer)
                else:
                    told.set_result(answer)

        self._count(kind, +1)
        self.pools[kind].submit(work)
        return await told

    def _count(self, kind: str, change: int) -> None:
        self.waiting[kind] += change
        self.metrics.waiting.set(sum(self.waiting.values()))

    def recent(self, asked: Asked) -> Reply:
        """The latest predictions, and how many had which verdict."""
        limit, identity = asked.whole_number("limit", 50, openapi.MOST), self.served.identity
        return json_reply({"verdicts": self.log.verdicts(identity, 1000), "recent": self.log.recent(identity, limit)})

    def history(self, asked: Asked) -> Reply:
        """What the monitor saw, the latest last."""
        limit = asked.whole_number("limit", 200, openapi.MOST)
        return json_reply({"evaluations": self.log.evaluations(self.served.identity, limit)})

    def numbers(self, asked: Asked) -> Reply:
        """For Prometheus."""
        return Reply(self.metrics.page(), "text/plain; version=0.0.4; charset=utf-8")

    async def live(self, asked: Asked) -> Reply:
        """The process is alive."""
        return json_reply({"status": "alive"})

    async def is_ready(self, asked: Asked) -> Reply:
        """Requests can be answered, unless there is trouble."""
        trouble = self.log.trouble if self.ready else "The service is starting or ending."
        if trouble is not None:
            raise HttpError(503, trouble)
        return json_reply({"status": "ready"})

    async def dashboard(self, asked: Asked) -> Reply:
        """The page at ``/``."""
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
        return Reply(PAGE.encode(), "text/html; charset=utf-8", 200, headers)

    def certificate(self) -> dict[str, Any]:
        """What was proved, for whoever asks."""
        served = self.served
        widest = 2 * served.gamma if served.gamma > 0 else 1.0
        gammas = [widest * step / 20 for step in range(21)]
        names = ("statement", "delta", "gamma", "epsilon", "upper", "lower", "confidence")
        return {
            "certificate": served.identity,
            **{name: getattr(served, name) for name in names},
            "order": served.order if served.order < float("inf") else None,
            "schema": served.schema.name,
            "people": None if served.people is None else len(served.people),
            "curve": {"gamma": gammas, "upper": [float(value) for value in served.curve(gammas)]},
        }


def _kind(body: bytes) -> str:
    """Whether a request is cheap or dear, as far as its bytes tell: dear is whatever asks for much, or could (names can
    be written with escapes)."""
    dear = len(body) > CHEAP or any(word in body for word in (b"counterpart", b"budget_ms", b"\\"))
    return "dear" if dear else "cheap"
