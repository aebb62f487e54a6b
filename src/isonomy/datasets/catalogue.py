"""The bundled tables: where each comes from, its schema, and its people."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

from isonomy.errors import ParameterError, template
from isonomy.population import DomainKind, Population, Schema
from isonomy.population.domain import check_kind

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


def describe(name: str) -> Description:
    """Return source, licence, size, protected attributes and caveats of a table."""
    if not isinstance(name, str) or name not in ENTRIES:
        raise ParameterError(template("name", f"one of {', '.join(map(repr, ENTRIES))}", name))
    return ENTRIES[name]


def load_population(name: str, *, domain: DomainKind = "realizable") -> Population:
    """Read a bundled population by ``name``, with its schema, in a ``domain``; :func:`describe` tells more.

    * ``adult``: 48,842 people of the US census, income above 50,000 dollars; sex and race protected;
    * ``german``: 1,000 loan applicants, good or bad risk; sex and marital status, age, foreign worker
      protected;
    * ``moons``: two interleaved half circles, the vertical coordinate protected; see :func:`make_moons`.
    """
    describe(name)
    check_kind(domain)
    if name == "moons":
        return make_moons(domain=domain)
    frame = pd.read_parquet(io.BytesIO(TABLES.joinpath(f"{name}.parquet").read_bytes()))
    return Population.from_frame(frame, schema_of(name), domain=domain)


def make_moons(n: int = 1000, *, noise: float = 0.1, seed: int = 0, domain: DomainKind = "realizable") -> Population:
    """Draw ``n`` individuals on two interleaved half circles, with Gaussian noise, within the schema's range."""
    if n < 2:
        raise ParameterError(template("n", "a whole number >= 2", n))
    if not 0 <= noise < np.inf:
        raise ParameterError(template("noise", "a finite number >= 0", noise))
    schema, generator = schema_of("moons"), np.random.default_rng(seed)
    lower = np.arange(n) % 2 == 1
    angle = generator.uniform(0.0, np.pi, n)
    horizontal = np.where(lower, 1.0 - np.cos(angle), np.cos(angle))
    vertical = np.where(lower, 0.5 - np.sin(angle), np.sin(angle))
    frame = pd.DataFrame({"moon": np.where(lower, "lower", "upper")})
    for feature, exact in zip(schema.features, (horizontal, vertical), strict=True):
        frame[feature.name] = np.clip(exact + generator.normal(0.0, noise, n), feature.low, feature.high)
    return Population.from_frame(frame, schema, domain=domain)
