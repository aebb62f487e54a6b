"""Commands of parts that may not be installed: they are found when they are called."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import typer

from isonomy.errors import ParameterError


def serve(context: typer.Context) -> None:
    """Answer predictions with certificates over HTTP. Options are those of 'isonomy serve --help'."""
    _pass_on("isonomy.service", "serve", context)


def reproduce(context: typer.Context) -> None:
    """Repeat the experiments of the paper. Options are those of 'isonomy reproduce --help'."""
    _pass_on("isonomy.reproduce", "reproduce", context)


def _pass_on(module: str, extra: str, context: typer.Context) -> None:
    """Run the command of a part: a function of the same name as the command, in its module ``command``."""
    advice = f"This command needs a part that is not installed: pip install isonomy[{extra}]."
    if find_spec(module) is None:
        raise ParameterError(advice)
    try:
        command = getattr(import_module(f"{module}.command"), str(context.info_name))
    except ModuleNotFoundError as error:
        raise ParameterError(f"{advice[:-1]} ({error.name} is missing).") from error
    part = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    part.command()(command)
    status = part(list(context.args), standalone_mode=False, prog_name=f"isonomy {context.info_name}")
    raise typer.Exit(int(status or 0))
