"""The help of every command as one page of Markdown: ``python docs/command_line.py > docs/reference/cli.md``.

The page is made from the commands themselves, so it says what they do; a test compares the two.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from isonomy.cli.app import app
from isonomy.service.app import serve

INTRO = """\
# Command line

<!-- Made by `python docs/command_line.py > docs/reference/cli.md`; do not edit. -->

Results go to standard output, remarks, progress and errors to standard error; with `--json` standard output is one JSON
document. A bad option, file, column or value gives one sentence and exit status 2.

| exit status | |
|---|---|
| 0 | done; with `--epsilon`: certified |
| 1 | violated (`audit`), rejected (`verify`) |
| 2 | bad usage or input |
| 3 | undecided; looked at (`verify --seed`); failed (`repair`); none certified (`frontier`), collapsed (`train` too) |
| 4 | what was found contradicts what was proved: a fault of the program, nothing is certified (see below) |
| 130 | stopped by Ctrl-C; the same command goes on where it stopped (`audit`, `train`) |

Everything that is found is compared with everything that is proved before it is shown or written. Should a find ever
lie above a bound, the command ends with status 4, names the person and both numbers, and leaves
`isonomy-soundness-….json` with all that is needed to reproduce it: beside OUT (`audit`), else in the current directory.
It holds that person's row, so only its owner can read it; an `audit --redact` writes none.

Which rows are audited: those that the schema's split column calls test; of a table of the catalogue its test part; of
any other table every row. `--split` says otherwise. A statement about the population *behind* the table needs rows on
which nothing was fitted: test rows, or any rows with `--held-out`.
`--limit` draws so many of these rows at random, without replacement, by `--seed`. Who was audited (how many of how
many, drawn how, from which part, and how many rows did not fit the schema) stands in everything that is written.

An audit in parts: finished chunks are kept in `OUT.work`, each with a hash of all that it depends on, and a run of the
same question takes them up again; the certificate is the same bit for bit. The folder is its owner's alone, and for one
audit at a time: a second one with the same `--out` is refused. A redacted audit keeps nothing, since chunks hold
people's rows.

`train`, `frontier` and `repair` ask the same question, with the same options, file and defaults, of the networks that
they write, and what they say of one is what `isonomy audit` says of its file. `train` and `frontier` audit the rows
that they do not learn from, as `--split test` does; `repair` audits whom `audit` does.

An `audit.toml` has the options of `isonomy audit` as keys, with `_` for `-`; its paths are relative to the file.
Options on the command line win over the file, also `--no-redact` over `redact = true`.
"""


def page() -> str:
    """The whole page; 'isonomy serve' hands its words on to a command of its own."""
    commands: Any = typer.main.get_command(app)
    service = typer.Typer(add_completion=False)
    service.command()(serve)
    commands.commands["serve"] = typer.main.get_command(service)
    return "\n".join([INTRO, *_sections(commands, "isonomy")])


def _sections(command: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is not None:
        for key in children:
            yield from _sections(children[key], f"{name} {key}")
        return
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    usage = " ".join([name, *(["[OPTIONS]"] if options else []), *(_argument(each) for each in arguments)])
    yield f"## {name}\n\n```\n{usage}\n```\n\n{_words(command.help or '', name)}"
    if arguments or options:
        rows = [(f"`{_argument(each)}`", each) for each in arguments]
        rows += [(", ".join(f"`{word}`" for word in (*each.opts, *each.secondary_opts)), each) for each in options]
        lines = [f"| {names} | {_cell(each)} |" for names, each in rows]
        yield "\n".join(["| | |", "|---|---|", *lines]) + "\n"


def _argument(param: Any) -> str:
    shown = str(param.metavar or param.name.upper())
    return shown if param.required or shown.startswith("[") else f"[{shown}]"


def _words(text: str, name: str) -> str:
    """Paragraphs, with examples as code."""
    parts = []
    for part in inspect.cleandoc(text).split("\n\n"):
        example = part.startswith("isonomy ")
        parts.append(f"```\n{part}\n```" if example else " ".join(part.split()))
    return "\n\n".join(parts) + "\n"


def _cell(param: Any) -> str:
    words = str(getattr(param, "help", None) or "").replace(r"\[", "[")
    default = param.default
    plain = isinstance(default, int | float | str) and not isinstance(default, bool) and "efault" not in words
    shown = getattr(param, "show_default", True) and plain and str(default) != ""
    value = getattr(default, "value", default)
    return (words + (f" Default: {value}." if shown else "")).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
