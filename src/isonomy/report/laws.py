"""The laws that a dossier names, and the order of its skeleton: a file that users can replace."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from isonomy.errors import FileError
from isonomy.population.toml import read_text, read_toml, refuse_unknown

FILLS = (
    "purpose", "provider", "version", "software", "people", "model", "similar", "data", "tests", "flips", "groups",
    "proxies", "inputs", "measures", "limits", "after",
)  # fmt: skip
"""What an audit knows of an item of technical documentation."""


@dataclass(frozen=True)
class Law:
    """A law: its name, what of a dossier is about it, and where it can be read."""

    name: str
    about: str = ""
    link: str = ""


@dataclass(frozen=True)
class Item:
    """One thing that technical documentation asks for, and what an audit knows of it."""

    number: str
    asks: str
    fills: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chapter:
    """A chapter of technical documentation."""

    number: str
    title: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Laws:
    """The laws that are named, the day they were looked up, the share below which a category is not compared, the
    chapters of technical documentation, and the text of the file."""

    looked_up: date
    notice: str
    least_share: float
    laws: tuple[Law, ...]
    chapters: tuple[Chapter, ...]
    text: str

    @classmethod
    def read(cls, path: Path | None = None) -> Laws:
        """Read a file of laws, by default the one of this version."""
        if path is None:
            text = resources.files("isonomy.report").joinpath("templates", "laws.toml").read_text(encoding="utf-8")
        else:
            text = read_text(path, "Laws file")
        where = f"Laws file {path or 'laws.toml'}"
        content = read_toml(text, where)
        refuse_unknown(content, ("looked_up", "notice", "least_share", "law", "annex"), where, FileError)
        looked_up, share = content.get("looked_up"), content.get("least_share", 0.0)
        if type(looked_up) is not date:
            raise FileError(f"{where}: 'looked_up' must be a date without quotes, such as 2026-11-19.")
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise FileError(f"{where}: 'least_share' must be a number from 0 to below 1. Got {share!r}.")
        laws = tuple(_made(Law, each, f"{where}, [[law]]") for each in _tables(content, "law", where))
        chapters = []
        for each in _tables(content, "annex", where):
            place = f"{where}, [[annex]] {each.get('number', '')}"
            items = tuple(_made(Item, item, place) for item in _tables(each, "items", place))
            chapters.append(_made(Chapter, each | {"items": items}, place))
        return cls(looked_up, str(content.get("notice", "")), float(share), laws, tuple(chapters), text)


def _tables(content: dict[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    tables = content.get(name, [])
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        raise FileError(f"{where}: {name!r} must be a list of tables.")
    return tables


def _made(kind: Any, entries: dict[str, Any], where: str) -> Any:
    """Return an object of the entries of a table, or refuse what is missing, unknown or no text."""
    names = [each.name for each in fields(kind)]
    refuse_unknown(entries, names, where, FileError)
    for name in names:
        value = entries.get(name, () if name in ("fills", "items") else "" if name in ("about", "link") else None)
        if name == "fills":
            value = tuple(value) if isinstance(value, list | tuple) else (value,)
            refuse_unknown(map(str, value), FILLS, f"{where}: 'fills'", FileError)
        elif name != "items" and not isinstance(value, str):
            raise FileError(f"{where}: {name!r} must be a text in quotes.")
        entries = entries | {name: value}
    return kind(**entries)
