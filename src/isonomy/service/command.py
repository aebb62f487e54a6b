"""Running the service: what ``isonomy serve`` calls."""

from __future__ import annotations

import gc
import ipaddress
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from isonomy.errors import ParameterError, template
from isonomy.options import Given, select, with_options
from isonomy.parallel import one_thread_in_blas, set_workers
from isonomy.service.app import create_app
from isonomy.service.connections import patient
from isonomy.service.keys import read_keys
from isonomy.service.served import Served
from isonomy.service.settings import Settings
from isonomy.service.telemetry import LOGGER, write_lines


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
    write_lines(log_level)
    facts = {"certificate": served.identity, "host": host, "port": port, **settings.shown()}
    LOGGER.info("starting", extra={"facts": facts})
    if served.caution:
        LOGGER.warning(served.caution, extra={"facts": {"verdict": served.verdict}})
    settings = replace(settings, allow_host=(*settings.allow_host, host))
    set_workers(1)  # requests are what runs in parallel
    sys.setswitchinterval(0.001)
    gc.set_threshold(20_000)  # a batch makes thousands of objects, which go by themselves
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
        http=patient(settings.headers_timeout),
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
    keys: Annotated[Path | None, typer.Option(help="A file with a line 'name sha256' for each API key.")] = None,
    anonymous: Annotated[bool, typer.Option(help="Let other machines ask without a key.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve predictions with their certificates, and watch whether the certificate is still about today's people."""
    settings = Settings(**given, keys=() if keys is None else read_keys(keys))
    run(Served.from_directory(certificate), settings, host=host, port=port, anonymous=anonymous, log_level=log_level)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
