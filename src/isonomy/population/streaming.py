"""Tables larger than memory, as a sequence of populations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from isonomy.errors import DataError, ParameterError, template
from isonomy.population.cells import NoRowFitsError
from isonomy.population.domain import DomainKind
from isonomy.population.files import read_pieces
from isonomy.population.population import Population
from isonomy.population.schema import Schema, Unknown


def stream(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    chunk_rows: int = 100_000,
    domain: DomainKind = "realizable",
    unknown: Unknown = "error",
) -> Iterator[Population]:
    """The individuals of a Parquet or CSV file, ``chunk_rows`` rows of the file at a time.

    Memory is that of two pieces and the blocks that the reader holds (some 32 MB of a CSV file, one row group of a
    Parquet file), whatever the length of the file. Columns that the schema does not name are not read.
    Together the pieces hold what :meth:`Population.from_file` holds: the same coordinates, row numbers (0 is the first
    row after the header) and sides of the split; an error names the row of the file. With ``unknown="exclude"`` rows
    that do not fit are counted in the piece they stand in, and a piece of which nothing is left is counted with the
    next one that has individuals (with the last one, at the end of the file); a file of which nothing is left is an
    error.
    """
    if isinstance(chunk_rows, bool) or not isinstance(chunk_rows, int) or chunk_rows < 1:
        raise ParameterError(template("chunk_rows", "a whole number >= 1", chunk_rows))
    return _pieces(path, schema, chunk_rows, domain, unknown)


def _pieces(
    path: str | os.PathLike[str], schema: Schema, chunk_rows: int, domain: DomainKind, unknown: Unknown
) -> Iterator[Population]:
    """Hold one population back, so that rows excluded after it can still be counted with it."""
    held: Population | None = None
    excluded, reason = 0, ""
    weighed = False
    for first_row, frame in read_pieces(path, schema, chunk_rows):
        try:
            people = Population.from_piece(frame, schema, domain=domain, unknown=unknown, first_row=first_row)
        except NoRowFitsError as error:
            excluded, reason = excluded + len(frame), reason or str(error)
            continue
        weighed = weighed or bool(people.weights.sum() > 0)
        if held is not None:
            yield held
        held, excluded = _with_excluded(people, excluded), 0
    if held is None:
        raise DataError(reason)
    yield _with_excluded(held, excluded)
    if not weighed:
        raise DataError(f"Column {schema.weight!r}: all sampling weights are zero; at least one must be positive.")


def _with_excluded(people: Population, more: int) -> Population:
    return replace(people, selection=replace(people.selection, excluded=people.excluded + more))
