"""Populations by name."""

from __future__ import annotations

import io
from importlib.resources import files

import pandas as pd

from isonomy.datasets.moons import make_moons
from isonomy.errors import ParameterError, template
from isonomy.population import DomainKind, Population, Schema

_BUNDLED = ("adult", "german")


def available() -> tuple[str, ...]:
    """The names that :func:`load_population` knows."""
    return (*_BUNDLED, "moons")


def load_population(name: str, *, domain: DomainKind = "realizable") -> Population:
    """A bundled or generated population with its schema.

    * ``adult``: 48,842 people of the US census, income above 50,000 dollars; sex and race protected;
    * ``german``: 1,000 loan applicants, good or bad risk; sex and marital status, age, foreign worker
      protected;
    * ``moons``: two interleaved half circles, the vertical coordinate protected; see :func:`make_moons`.
    """
    if name == "moons":
        return make_moons(domain=domain)
    if name not in _BUNDLED:
        raise ParameterError(template("name", f"one of {', '.join(map(repr, available()))}", name))
    tables = files("isonomy.datasets").joinpath("tables")
    schema = Schema.from_toml(tables.joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    frame = pd.read_parquet(io.BytesIO(tables.joinpath(f"{name}.parquet").read_bytes()))
    return Population.from_frame(frame, schema, domain=domain)
