"""People from files: tables of the catalogue by name, Parquet and CSV by their ending, CSV of other customs.

A CSV file with another separator, encoding or decimal mark is first copied, row by row, to the customs that
:meth:`Population.from_file` reads, so that a cell means the same however its file was written.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from isonomy.datasets import load_population
from isonomy.datasets.catalogue import ENTRIES
from isonomy.errors import FileError, IsonomyError, ParameterError
from isonomy.population import DomainKind, Population, Schema
from isonomy.population.schema import Unknown

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt")


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."

    @property
    def plain(self) -> bool:
        """Whether the file can be read as it is; tabs are told by the name of the file."""
        return self.encoding.lower().replace("_", "-") in ("utf-8", "utf8") and self.decimal == "."


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
    path, dialect = Path(source), dialect or Dialect()
    if path.suffix == "" and not path.exists():
        raise FileError(
            f"There is no table {source!r}: name a .csv, .tsv or .parquet file, or one of the catalogue "
            f"({', '.join(sorted(ENTRIES))})."
        )
    if schema is None:
        raise ParameterError(f"'schema' must be given beside the table {source}; 'isonomy init' writes a first one.")
    name = path.name.lower()
    tabs = name.removesuffix(".gz").endswith(".tsv")
    usual = dialect.separator in ((",", "\t") if tabs else (",",))
    if not name.endswith(CSV) or (usual and dialect.plain) or not path.is_file():
        return Population.from_file(path, schema, domain=domain, unknown=unknown)
    with tempfile.TemporaryDirectory(prefix="isonomy-") as folder:
        copy = Path(folder) / "table.csv"
        _copy(path, copy, dialect, schema)
        try:
            return Population.from_file(copy, schema, domain=domain, unknown=unknown)
        except IsonomyError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from None


def opened(path: Path, encoding: str) -> TextIO:
    """A CSV file as text, unpacked where it is packed."""
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def _copy(path: Path, target: Path, dialect: Dialect, schema: Schema) -> None:
    numbers = {feature.name for feature in schema.features if feature.kind in ("numeric", "integer")}
    numbers |= {schema.weight} if schema.weight else set()
    numbers |= {schema.label.column} if schema.label and schema.label.regression else set()
    try:
        with opened(path, dialect.encoding) as source, target.open("w", encoding="utf-8", newline="") as copy:
            rows, out = csv.reader(source, delimiter=dialect.separator), csv.writer(copy)
            header = next(rows, [])
            header[:1] = [header[0].removeprefix("\ufeff")] if header else []
            out.writerow(header)
            commas = [i for i, name in enumerate(header) if name in numbers] if dialect.decimal == "," else []
            for row in rows:
                for i in commas:
                    row[i : i + 1] = [cell.replace(",", ".") for cell in row[i : i + 1]]
                if row:
                    out.writerow(row)
    except LookupError:
        raise ParameterError(
            f"'encoding' must be one that Python knows, such as latin-1. Got {dialect.encoding!r}."
        ) from None
    except (OSError, UnicodeError, csv.Error) as error:
        raise FileError(f"Table {path} cannot be read as CSV in {dialect.encoding}: {error}.") from error


def file_hash(path: str | Path) -> str:
    """SHA-256 of a file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"'{path}' cannot be read: {error.strerror}.") from error


def people_hash(people: Population) -> str:
    """SHA-256 of a table of the catalogue, as coordinates."""
    digest = hashlib.sha256(people.schema.hash().encode())
    for array in (people.x, people.weights) if people.y is None else (people.x, people.weights, people.y):
        digest.update(array.tobytes())
    return digest.hexdigest()
