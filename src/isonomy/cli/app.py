"""Collect all commands under one name, and map errors to exit statuses.

Exit status: 0 done (with ``--epsilon``: certified), 1 violated, 2 bad usage or input, 3 undecided, 4 an attained
violation contradicts a proved bound, 130 stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated

import typer

from isonomy.cli import audit, certificates, datasets, explain, init, keys, service, shift, training
from isonomy.cli.console import answering, fail
from isonomy.errors import IsonomyError

app = typer.Typer(
    name="isonomy",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS = (
    audit.audit, init.init, explain.explain, certificates.verify, certificates.compare, shift.shift, training.train,
    training.frontier, training.repair,
)  # fmt: skip
for command in _COMMANDS:
    app.command(command.__name__)(answering(command))
app.add_typer(datasets.app, name="datasets")
app.add_typer(service.log, name="log")
app.add_typer(keys.app, name="key")
forwarded = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
app.command("serve", context_settings=forwarded)(service.serve)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"isonomy {version('isonomy')}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which one.")
    ] = False,
) -> None:
    """Does this model treat similar people similarly, for the people seen and for every population close to them?

    Start with 'isonomy audit', a bundled example. For your own people and model:

    isonomy audit people.csv model.json --label approved --protected sex
    """


def main(arguments: Sequence[str] | None = None, commands: typer.Typer = app) -> int:
    """Run a command and return its exit status; every fault that a user can cause is one sentence."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):  # a terminal without these letters gets escapes, not a fault
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = commands(words, standalone_mode=False)
        return int(status or 0)
    except IsonomyError as error:
        return fail(str(error), code=error.code, status=error.exit_status, machine="--json" in words)
    except KeyboardInterrupt:
        return fail("Stopped.", code="stopped", status=130, machine=False)
    except BrokenPipeError:  # the reader has closed the pipe
        sys.stderr.close()
        return 0
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        return fail(f"{name}{error.strerror or error}.", code="file", status=2, machine="--json" in words)
    except Exception as error:
        message = getattr(error, "format_message", None)  # a fault in the arguments, in typer's words
        if message is None:
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message())
            return 0
        return fail(message(), code="usage", status=2, machine="--json" in words)
