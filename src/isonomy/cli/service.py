"""``isonomy serve`` and ``log``: commands of an optional part, imported when a command runs."""

from __future__ import annotations

import time
from dataclasses import asdict
from importlib import import_module
from types import ModuleType
from typing import Annotated

import typer

from isonomy.cli.console import Answer, answering
from isonomy.errors import ParameterError

log = typer.Typer(help="The audit log of 'isonomy serve'.", no_args_is_help=True)


def part(name: str) -> ModuleType:
    """Import a module of the service, or raise an error that says how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        advice = "This command needs a part that is not installed: pip install isonomy[serve]"
        raise ParameterError(f"{advice} ({error.name} is missing).") from error


def serve(context: typer.Context) -> None:
    """Answer predictions with certificates over HTTP. Options are those of 'isonomy serve --help'."""
    command = part("isonomy.service.app").serve
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    status = app(list(context.args), standalone_mode=False, prog_name="isonomy serve")
    raise typer.Exit(int(status or 0))


@log.callback()
def _group() -> None:
    """Keep 'verify' a command of its own, though there is no other."""


@log.command()
@answering
def verify(
    place: Annotated[
        str, typer.Argument(metavar="LOG", help="Its folder, its database file, or postgresql://user@host/name.")
    ],
    head: Annotated[str | None, typer.Option(help="A head that was noted elsewhere: it must be in the chain.")] = None,
    retention_days: Annotated[
        float | None, typer.Option(help="How long requests are kept: nothing younger may have been deleted.", min=0.0)
    ] = None,
) -> Answer:
    """Follow the chain of hashes through an audit log, and find the first record that is not as it was written.

    Example:

    isonomy log verify log/ --head 5f1c0e... --retention-days 90

    Prints the head: note it where those who write the log cannot. Without --head it does not show that the end was cut
    off, or that everything was linked anew; without --retention-days not, that the oldest requests were deleted before
    their time was over. Exit status: 0 as it was written, 1 not.
    """
    database, chain = part("isonomy.service.database"), part("isonomy.service.chain")
    kept_since = None if retention_days is None else int((time.time() - 86_400.0 * retention_days) * 1e6)
    with database.read_only(place) as connection:
        result = chain.verify(connection, None if head is None else head.strip().lower(), kept_since)
    lines = [f"Records: {result.records}", f"Head:    {result.head}"]
    if result.forgotten:
        after = f", {result.forgotten_since} of them after this head was noted" if result.forgotten_since else ""
        lines.append(
            f"Deleted by retention, as records of the chain say: the oldest {result.forgotten} requests{after}."
        )
        if kept_since is None:
            lines.append("Whether their time was over, --retention-days tells.")
    if result.wrong is not None:
        lines = [result.wrong, f"Up to there: {result.records} records, the last one with hash {result.head}."]
    elif head is not None:
        lines.append(f"The anchored head is in the chain, {result.after_anchor} records before its end.")
    else:
        lines.append("No record was edited, removed or moved, unless the end was cut off or all was linked anew.")
        lines.append("Only a head that was noted elsewhere (--head) shows that.")
    return Answer(asdict(result), lines, 0 if result.wrong is None else 1)
