"""TOML and JSON read within limits; TOML written so that floats come back bit for bit and tables stay readable."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from isonomy.errors import FileError, IsonomyError

TEXT = 2**22
"""Characters of a TOML or JSON text from a stranger: a list ``[],`` of three takes 64 bytes in Python."""


def read_text(path: Path, what: str, most: int = TEXT) -> str:
    """Return the text of a file of a reasonable size; ``what`` it is, such as "Schema file", is for errors."""
    try:
        if path.stat().st_size > 4 * most:  # characters have up to four bytes
            raise FileError(f"{what} {path} is longer than {most >> 20} MiB.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise FileError(f"{what} {path} cannot be read: {reason}.") from error


def read_toml(text: str, where: str, most: int = TEXT, error: type[IsonomyError] = FileError) -> dict[str, Any]:
    """Parse a text of a reasonable size and depth; an ``error`` that says ``where`` in case it is no TOML."""
    try:
        return _bounded(tomllib.loads, text, where, most)  # type: ignore[no-any-return]
    except tomllib.TOMLDecodeError as wrong:
        raise error(f"{where} is not valid TOML: {wrong}.") from wrong


def refuse_unknown(keys: Iterable[str], known: Collection[str], where: str, error: type[IsonomyError]) -> None:
    """Refuse the first key that is not known: ``where`` it stands, and the nearest that is."""
    for key in keys:
        if key not in known:
            raise error(f"{where} has an unknown key {key!r}; {nearest(key, known, 'known keys are')}")


def nearest(word: str, known: Collection[str], listed: str, cutoff: float = 0.5) -> str:
    """Return the advice for a word that is not known: the nearest one, else the words ``listed`` and all of them."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"did you mean {near[0]!r}?" if near else f"{listed} {', '.join(map(repr, known))}."


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
