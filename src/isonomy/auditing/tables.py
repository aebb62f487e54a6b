"""People of an audit: tables of the catalogue by name, Parquet and CSV files by their ending."""

from __future__ import annotations

from pathlib import Path

from isonomy.datasets import load_population
from isonomy.datasets.catalogue import ENTRIES
from isonomy.errors import FileError, ParameterError
from isonomy.population import Dialect, DomainKind, Population, Schema
from isonomy.population.schema import Unknown


def is_catalogue(source: str) -> bool:
    """Whether a source is a name of the catalogue rather than a file."""
    return source in ENTRIES


def read_people(
    source: str,
    schema: Schema | None,
    *,
    dialect: Dialect | None = None,
    domain: DomainKind = "realizable",
    unknown: Unknown = "error",
) -> Population:
    """The people of a file, by a schema, or of the catalogue."""
    if is_catalogue(source):
        return load_population(source, domain=domain, download=False)
    path = Path(source)
    if path.suffix == "" and not path.exists():
        raise FileError(
            f"There is no table {source!r}: name a .csv, .tsv or .parquet file, or one of the catalogue "
            f"({', '.join(sorted(ENTRIES))})."
        )
    if schema is None:
        raise ParameterError(f"'schema' must be given beside the table {source}; 'isonomy init' writes a first one.")
    return Population.from_file(path, schema, domain=domain, unknown=unknown, dialect=dialect or Dialect())
