"""The command of a part that may not be installed: it is found when it is called."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import typer

from isonomy.errors import ParameterError


def serve(context: typer.Context) -> None:
    """Answer predictions with certificates over HTTP. Options are those of 'isonomy serve --help'."""
    advice = "This command needs a part that is not installed: pip install isonomy[serve]."
    if find_spec("isonomy.service") is None:
        raise ParameterError(advice)
    try:
        command = import_module("isonomy.service.command").serve
    except ModuleNotFoundError as error:
        raise ParameterError(f"{advice[:-1]} ({error.name} is missing).") from error
    part = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    part.command()(command)
    status = part(list(context.args), standalone_mode=False, prog_name="isonomy serve")
    raise typer.Exit(int(status or 0))
