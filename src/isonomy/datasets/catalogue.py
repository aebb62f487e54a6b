"""What is known about each table, and its schema: the files beside the bundled tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from isonomy.population import Schema

Encoding = Literal["default", "paper"]
TABLES = files("isonomy.datasets").joinpath("tables")


@dataclass(frozen=True)
class CatalogueEntry:
    """What does not depend on this machine."""

    summary: str
    source: str
    licence: str
    size: str
    caveats: tuple[str, ...] = ()
    encodings: tuple[Encoding, ...] = ("default",)


@dataclass(frozen=True, kw_only=True)
class Description(CatalogueEntry):
    """A table of the catalogue; ``str`` gives it as a few lines of text.

    ``protected`` names the protected features of the default encoding. ``here`` says what can be loaded without the
    network: ``"bundled"``, a file, or for a survey its states and years (``"CA 2018"``); empty when nothing can.
    """

    name: str
    protected: tuple[str, ...]
    proxies: tuple[str, ...]
    here: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.summary}",
            f"  source     {self.source}",
            f"  licence    {self.licence}",
            f"  size       {self.size}",
            f"  protected  {', '.join(self.protected)}",
            f"  proxies    {', '.join(self.proxies) or 'none declared'}",
            f"  encodings  {', '.join(self.encodings)}",
            f"  here       {', '.join(self.here) or 'nothing on this machine'}",
        ]
        return "\n".join([*lines, *(f"  caveat     {caveat}" for caveat in self.caveats)])


@cache
def schema_of(name: str, encoding: Encoding = "default") -> Schema:
    """The schema of a table of the catalogue."""
    file = f"{name}.toml" if encoding == "default" else f"{name}-{encoding}.toml"
    return Schema.from_toml(TABLES.joinpath(file).read_text(encoding="utf-8"))


def _read_catalogue() -> dict[str, CatalogueEntry]:
    content: dict[str, dict[str, Any]] = tomllib.loads(TABLES.joinpath("catalogue.toml").read_text(encoding="utf-8"))
    survey = content.pop("survey")
    entries = {}
    for name, table in content.items():
        shared = survey if name.startswith("acs-") else {}
        lists = {"caveats": (*shared.get("caveats", ()), *table.get("caveats", ()))}
        lists["encodings"] = tuple(table.get("encodings", ("default",)))
        entries[name] = CatalogueEntry(**(shared | table | lists))
    return entries


ENTRIES: Mapping[str, CatalogueEntry] = _read_catalogue()
