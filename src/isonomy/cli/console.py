"""Print results on standard output, remarks on standard error, and one JSON document for machines."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isonomy.errors import IsonomyError
from isonomy.escapes import in_json, visible
from isonomy.options import signed

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output, nothing else there.")]


class StoppedError(IsonomyError):
    """Raised after Ctrl-C; the message says which results are saved."""

    code = "stopped"
    exit_status = 130


@dataclass(frozen=True)
class Answer:
    """The result of a command: a document for machines, the same for people, the exit status.

    For people it is lines, and texts and tables of rich, fitted to the terminal's width; with ``--json`` they are not
    read. A line is one line, whatever names it holds, and nothing in any of them can steer the terminal.
    """

    document: Any
    people: Iterable[str | RenderableType]
    status: int = 0


def answering(run: Callable[..., Answer]) -> Callable[..., None]:
    """Wrap a function that answers as a command with the option ``--json``, which ends with the answer's status."""

    @wraps(run)
    def command(*, json: bool, **values: Any) -> None:
        result = run(**values)
        if json:
            answer(result.document)
        for each in () if json else result.people:
            print(visible(each)) if isinstance(each, str) else console().print(Inert(each))
        raise typer.Exit(result.status)

    machine = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    return signed(command, [*inspect.signature(run, eval_str=True).parameters.values(), machine])


def console() -> Console:
    """Return a console, plain text when piped; text is never taken for markup, nor wrapped when piped."""
    from rich.console import Console

    piped = not sys.stdout.isatty()
    return Console(highlight=False, markup=False, emoji=False, width=160 if piped else None, soft_wrap=piped)


@dataclass(frozen=True)
class Inert:
    """A text or table whose words cannot steer the terminal: it gets no sequence but the console's own."""

    shown: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for part in console.render(self.shown, options):
            lines = part.text.split("\n")
            yield part if part.control else part._replace(text="\n".join(map(visible, lines)))


def remark(text: str) -> None:
    """Print a line on standard error."""
    print(visible(text), file=sys.stderr)


def answer(document: Any) -> None:
    """Print the one JSON document on standard output."""
    print(in_json(json_text(document)))


def json_text(document: Any) -> str:
    """Encode a document as JSON; infinities become texts, NaN becomes null."""
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def fail(message: str, *, code: str, status: int, machine: bool) -> int:
    """Print an error in one line, and return the exit status; a stop is no error."""
    sentence = " ".join(message.split())
    sentence = sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
    if machine and status != 130:
        answer({"error": {"code": code, "message": sentence}})
    remark(f"Error: {sentence}" if status != 130 else sentence)
    return status


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
