"""The bundled tables: where each comes from, and its schema."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from isonomy.population import Schema

TABLES = files("isonomy.datasets").joinpath("tables")


@dataclass(frozen=True)
class Description:
    """A table of the catalogue; ``str`` gives it as a few lines of text."""

    name: str
    summary: str
    source: str
    licence: str
    size: str
    caveats: tuple[str, ...] = ()

    @property
    def protected(self) -> tuple[str, ...]:
        """Return the names of the protected features."""
        return schema_of(self.name).protected

    @property
    def proxies(self) -> tuple[str, ...]:
        """Return the names of the declared proxies."""
        return schema_of(self.name).proxies

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.summary}",
            f"  source     {self.source}",
            f"  licence    {self.licence}",
            f"  size       {self.size}",
            f"  protected  {', '.join(self.protected)}",
            f"  proxies    {', '.join(self.proxies) or 'none declared'}",
        ]
        return "\n".join([*lines, *(f"  caveat     {caveat}" for caveat in self.caveats)])


@cache
def schema_of(name: str) -> Schema:
    """Read the schema of a table of the catalogue."""
    return Schema.from_toml(TABLES.joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _read_catalogue() -> dict[str, Description]:
    content = tomllib.loads(TABLES.joinpath("catalogue.toml").read_text(encoding="utf-8"))
    return {
        name: Description(name, **(table | {"caveats": tuple(table.get("caveats", ()))}))
        for name, table in content.items()
    }


ENTRIES: Mapping[str, Description] = _read_catalogue()
