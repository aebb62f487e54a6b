"""The commands of a part that may not be installed: it is found when it is called."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import typer

from isonomy.errors import ParameterError


def part(name: str) -> ModuleType:
    """A module of the service, or a sentence on how to have it."""
    advice = "This command needs a part that is not installed: pip install isonomy[serve]."
    if find_spec("isonomy.service") is None:
        raise ParameterError(advice)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ParameterError(f"{advice[:-1]} ({error.name} is missing).") from error


def serve(context: typer.Context) -> None:
    """Answer predictions with certificates over HTTP. Options are those of 'isonomy serve --help'."""
    command = part("isonomy.service.command").serve
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    status = app(list(context.args), standalone_mode=False, prog_name="isonomy serve")
    raise typer.Exit(int(status or 0))
