"""How objects that hold tables show themselves: what is in them, in at most three lines."""

from __future__ import annotations

import textwrap
from dataclasses import fields, is_dataclass
from typing import Any

LINES, WIDTH = 3, 110


def brief(thing: Any) -> str:
    """Return the fields of a dataclass in a few lines: numbers and words, of arrays type and shape, else the type."""
    parts = ", ".join(f"{part.name}={_short(getattr(thing, part.name))}" for part in fields(thing) if part.repr)
    text = f"{type(thing).__name__}({parts})"
    return "\n".join(textwrap.wrap(text, WIDTH, max_lines=LINES, placeholder=" …)", break_long_words=False))


def _short(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, list | tuple | set | dict) and len(value) > 4:
        return f"{type(value).__name__}[{len(value)}]"
    if is_dataclass(value) or (hasattr(value, "shape") and hasattr(value, "columns")):
        return f"{type(value).__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:59]}…"
