"""How commands talk: results on standard output, remarks on standard error, one JSON document for machines."""

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
    """Somebody pressed Ctrl-C; what was kept, in a sentence."""

    code = "stopped"
    exit_status = 130


@dataclass(frozen=True)
class Answer:
    """What a command found: a document for machines, the same for people, the exit status.

    For people it is lines, and texts and tables of rich, fitted to the terminal's width; with ``--json`` they are not
    looked at. A line is one line, whatever names it holds, and nothing in any of them can steer the terminal.
    """

    document: Any
    people: Iterable[str | RenderableType]
    status: int = 0


def answering(run: Callable[..., Answer]) -> Callable[..., None]:
    """The command of a function that answers, with the option ``--json``; it ends with the status of the answer."""

    @wraps(run)
    def command(*, json: bool, **values: Any) -> None:
        found = run(**values)
        if json:
            answer(found.document)
        for each in () if json else found.people:
            print(visible(each)) if isinstance(each, str) else console().print(Inert(each))
        raise typer.Exit(found.status)

    machine = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    return signed(command, [*inspect.signature(run, eval_str=True).parameters.values(), machine])


def console() -> Console:
    """A console that is plain text when nobody looks; text is never taken for markup or wrapped when piped."""
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
    """A line on standard error."""
    print(visible(text), file=sys.stderr)


def answer(document: Any) -> None:
    """The one JSON document on standard output."""
    print(in_json(json_text(document)))


def json_text(document: Any) -> str:
    """A document as JSON; numbers that JSON has no word for become texts."""
    return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def fail(message: str, *, code: str, status: int, machine: bool) -> int:
    """Say what went wrong in one line, and give the exit status; a stop is no error."""
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
