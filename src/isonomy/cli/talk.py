"""How commands talk: results on standard output, remarks on standard error, one JSON document for machines."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def console(*, error: bool = False) -> Console:
    """A console that is plain text when nobody looks; text is never taken for markup or wrapped when piped."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else 160
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width, soft_wrap=not stream.isatty())


def remark(text: str) -> None:
    """A line on standard error."""
    print(text, file=sys.stderr)


def answer(document: Any) -> None:
    """The one JSON document on standard output; numbers that JSON has no word for become texts."""
    print(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def fail(message: str, *, code: str, status: int, machine: bool) -> int:
    """Say what went wrong in one line, and give the exit status."""
    sentence = " ".join(message.split())
    sentence = sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."
    if machine:
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
