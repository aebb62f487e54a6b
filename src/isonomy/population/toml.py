"""TOML and JSON read within limits; TOML written so that floats come back bit for bit and tables stay readable."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from isonomy.errors import FileError

TEXT = 2**22
"""Characters of a TOML or JSON text from a stranger: a list ``[],`` of three takes 64 bytes in Python."""


def read_toml(text: str, where: str, most: int = TEXT) -> dict[str, Any]:
    """Parse a text of a reasonable size and depth; ``tomllib.TOMLDecodeError`` where it is no TOML."""
    return _bounded(tomllib.loads, text, where, most)  # type: ignore[no-any-return]


def read_json(text: bytes | str, where: str) -> Any:
    """Parse a JSON text of a reasonable size and depth; ``ValueError`` where it is none."""
    return _bounded(json.loads, text, where, TEXT)


def _bounded(parse: Callable[[Any], Any], text: bytes | str, where: str, most: int) -> Any:
    if len(text) > most:
        raise FileError(f"{where} is longer than {most >> 20} MiB.")
    try:
        return parse(text)
    except RecursionError:
        raise FileError(f"{where} is nested too deeply.") from None


def write_table(header: str, entries: Mapping[str, Any]) -> str:
    """Write ``[header]`` and one ``key = value`` line per entry; entries that are None are left out."""
    lines = [f"{write_key(key)} = {write_value(value)}" for key, value in entries.items() if value is not None]
    return "\n".join([f"[{header}]", *lines] if header else lines) + "\n"


def write_key(key: str) -> str:
    """Write a bare key where TOML allows it, else a quoted one."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else write_value(key)


def write_value(value: Any) -> str:
    """Write one value; nested tables are written inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        quoted = "".join(map(_escaped, json.dumps(value, ensure_ascii=False)))
        return quoted.replace("'''", r"\u0027" * 3)  # which checkers take for texts of several lines
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0"
        return str(int(value)) if whole else repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{write_key(str(k))} = {write_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(write_value, value)) + "]"
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return repr(value)


def _escaped(character: str) -> str:
    """Escape a character that cannot be seen, or may not stand in TOML as it is, by its number."""
    return character if character.isprintable() else f"\\U{ord(character):08x}"
