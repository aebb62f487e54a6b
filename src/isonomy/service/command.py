"""Running the service: what ``isonomy serve`` calls."""

from __future__ import annotations

import ipaddress
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from isonomy.errors import ParameterError, template
from isonomy.monitor import Guarantee
from isonomy.parallel import one_thread_in_blas, set_workers
from isonomy.service import logs
from isonomy.service.app import create_app
from isonomy.service.keys import read_keys
from isonomy.service.served import Served
from isonomy.service.settings import Settings

LOGGER = logging.getLogger("isonomy.service")


def run(
    served: Served,
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    anonymous: bool = False,
    log_level: str = "info",
) -> None:
    """Serve until stopped. Without keys, other machines are let in only when ``anonymous`` says so.

    Threads and the like are set for the whole process, which the service is taken to have for itself.
    """
    settings = settings or Settings()
    if not settings.keys and not anonymous and not _is_loopback(host):
        raise ParameterError(
            f"Anybody who reaches '{host}' could ask without a key: give 'keys', or 'anonymous' if that is meant."
        )
    if not 0 <= port <= 65535:
        raise ParameterError(template("port", "a number from 0 to 65535", port))
    logs.configure(log_level)
    facts = {"certificate": served.identity, "host": host, "port": port, **settings.shown()}
    LOGGER.info("starting", extra={"facts": facts})
    if served.caution:
        LOGGER.warning(served.caution, extra={"facts": {"verdict": served.verdict}})
    set_workers(1)  # requests are what runs in parallel
    sys.setswitchinterval(0.001)
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
    )
    with one_thread_in_blas():
        uvicorn.Server(config).run()


def serve(
    certificate: Annotated[Path, typer.Option(help="The directory of an audit, or its certificate.json.")],
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at.")] = 8000,
    database: Annotated[
        str, typer.Option(help="Where the audit log is: sqlite:///FILE or postgresql://...", envvar="ISONOMY_DATABASE")
    ] = "sqlite:///isonomy.db",
    retention_days: Annotated[float | None, typer.Option(help="Delete log entries older than this.")] = None,
    store_features: Annotated[bool, typer.Option(help="Write raw features into the audit log too.")] = False,
    keys: Annotated[Path | None, typer.Option(help="A file with a line 'name sha256' for each API key.")] = None,
    anonymous: Annotated[bool, typer.Option(help="Let other machines ask without a key.")] = False,
    max_batch: Annotated[int, typer.Option(help="Individuals in one request, at most.")] = 1000,
    max_body: Annotated[int, typer.Option(help="Bytes of one request, at most.")] = 4_000_000,
    timeout: Annotated[float, typer.Option(help="Seconds for one request, at most.")] = 30.0,
    threads: Annotated[int, typer.Option(help="Threads for the arithmetic.")] = 2,
    budget_ms: Annotated[float, typer.Option(help="Milliseconds in which the tight tier may go on.")] = 50.0,
    window: Annotated[int, typer.Option(help="The monitor looks at the latest so many people.")] = 1000,
    every: Annotated[int, typer.Option(help="It looks again after so many arrivals.")] = 250,
    confidence: Annotated[float, typer.Option(help="The confidence of what it says.")] = 0.95,
    guarantee: Annotated[str, typer.Option(help="'all': of everything it ever says; 'each': of each look.")] = "all",
    webhook: Annotated[
        str | None, typer.Option(help="An address told of every change of state.", envvar="ISONOMY_WEBHOOK")
    ] = None,
    webhook_secret: Annotated[
        str | None, typer.Option(help="Signs what the webhook is told.", envvar="ISONOMY_WEBHOOK_SECRET")
    ] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve predictions with their certificates, and watch whether the certificate is still about today's people."""
    chosen: Guarantee
    if guarantee == "all":
        chosen = "all"
    elif guarantee == "each":
        chosen = "each"
    else:
        raise ParameterError(template("guarantee", "'all' or 'each'", guarantee))
    settings = Settings(
        database=database,
        retention_days=retention_days,
        store_features=store_features,
        keys=() if keys is None else read_keys(keys),
        max_batch=max_batch,
        max_body=max_body,
        timeout=timeout,
        threads=threads,
        budget_ms=budget_ms,
        window=window,
        every=every,
        confidence=confidence,
        guarantee=chosen,
        webhook=webhook,
        webhook_secret=webhook_secret,
    )
    run(Served.from_directory(certificate), settings, host=host, port=port, anonymous=anonymous, log_level=log_level)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
