"""Populations by name."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd

from isonomy.datasets.catalogue import ENTRIES, TABLES, Description, schema_of
from isonomy.errors import ParameterError, template
from isonomy.population import DomainKind, Population
from isonomy.population.domain import check_kind


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
