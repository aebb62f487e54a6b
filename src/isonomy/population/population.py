"""The individuals under audit: raw table, schema and fair coordinates, side by side.

A file that is larger than memory is read from its beginning as a sequence of populations (:func:`stream`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.errors import DataError, ParameterError, template
from isonomy.given import whole
from isonomy.population.domain import BoolArray, Domain, DomainKind, FloatArray
from isonomy.population.encoding import encode_table, find_column, text_of
from isonomy.population.schema import Schema, Unknown
from isonomy.population.selection import Selection, SplitName
from isonomy.population.tables import CELLS, USUAL, Dialect, read_file, read_frame, read_pieces

IntArray = NDArray[np.int64]

TRAIN_SHARE = 0.7


@dataclass(frozen=True, eq=False)
class Population:
    """A table of individuals in fair coordinates.

    ``x`` is ``(n, m)`` and read-only. ``y`` holds class indices (numbers for a regression), or is None when
    the table has no label column. ``protected`` are the raw protected columns, ``weights`` the sampling
    weights (ones when the schema names no column), ``rows`` where each individual stood in the table, and
    ``selection`` which of the table's people these are: all, a part, drawn at random, or chosen by the caller.
    """

    frame: pd.DataFrame
    schema: Schema
    domain: Domain
    x: FloatArray
    y: IntArray | FloatArray | None
    weights: FloatArray
    rows: IntArray
    selection: Selection

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        schema: Schema,
        *,
        domain: DomainKind = "realizable",
        unknown: Unknown = "error",
    ) -> Population:
        """Read a pandas, Polars or Arrow table ``frame`` by a ``schema``, in a ``domain`` of it.

        ``unknown="exclude"`` leaves out rows that do not fit, which are an error otherwise.
        """
        people = cls.from_piece(frame, schema, domain=domain, unknown=unknown, first_row=0, allow_empty=False)
        _refuse_zero_weights(schema, people.weights.sum())
        n, excluded = len(people), people.excluded
        return replace(people, selection=Selection(n, n, n + excluded, excluded))

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        schema: Schema,
        *,
        domain: DomainKind = "realizable",
        unknown: Unknown = "error",
        dialect: Dialect = USUAL,
        table_limit: int = CELLS,
    ) -> Population:
        """Read the columns of a ``schema`` of a Parquet or CSV file ``path`` at once.

        ``domain`` and ``unknown`` are as for :meth:`from_frame`, a ``dialect`` is how a CSV file is written. A file
        that declares, or holds, more cells than ``table_limit`` is refused; :func:`stream` reads it piece by piece.
        """
        frame = read_file(path, schema, dialect, whole("table_limit", table_limit, 1))
        return cls.from_frame(frame, schema, domain=domain, unknown=unknown)

    @classmethod
    def from_piece(
        cls,
        frame: Any,
        schema: Schema,
        *,
        domain: DomainKind,
        unknown: Unknown,
        first_row: int,
        allow_empty: bool = True,
    ) -> Population:
        """Read a piece of a table as :meth:`from_frame` does, but all its weights may be zero.

        ``frame``, ``schema``, ``domain`` and ``unknown`` as there. ``first_row`` is where its first row stands in the
        table, by which a row has its number and its side of the split; ``allow_empty``: no row need fit.
        """
        table = read_frame(frame)
        singles = [each for each in schema.singles if each.name in table.columns or each.name == schema.weight]
        x, values, kept = encode_table(table, schema.features, singles, unknown, allow_empty)
        weights = np.ones(len(x)) if schema.weight is None else values.pop()
        if schema.max_weight is not None and (weights > schema.max_weight).any():
            place = int(np.argmax(weights > schema.max_weight))
            row = first_row + np.flatnonzero(kept)[place]
            raise DataError(
                f"Column {schema.weight!r}, row {row}: the weight {weights[place]:g} is above the schema's max_weight "
                f"= {schema.max_weight:g}, the largest that can occur; correct either."
            )
        y: IntArray | FloatArray | None = values[0] if values else None
        if y is not None and schema.label is not None and not schema.label.regression:
            y = y.astype(np.int64)
        return cls(
            frame=table if kept.all() else table[kept],
            schema=schema,
            domain=schema.domain(domain),
            x=x,
            y=y,
            weights=weights,
            rows=first_row + np.flatnonzero(kept).astype(np.int64),
            selection=Selection(len(x), excluded=int((~kept).sum()), how="unknown"),
        )

    def __post_init__(self) -> None:
        if self.selection.people != len(self.x):
            raise ParameterError(template("selection", f"about {len(self.x)} individuals", self.selection.people))
        for name in ("x", "y", "weights", "rows"):
            array = getattr(self, name)
            if array is not None:
                array = array.view()
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    @property
    def split(self) -> SplitName:
        """Return the part of the table that these individuals belong to."""
        return self.selection.part

    @property
    def excluded(self) -> int:
        """Return the number of rows of the table that did not fit the schema."""
        return self.selection.excluded

    @property
    def protected(self) -> pd.DataFrame:
        """Return the raw protected columns."""
        return self.frame[list(self.schema.protected)]

    @cached_property
    def ids(self) -> NDArray[np.object_] | None:
        """Return the id ``(n,)`` of each person as a text, None in an empty cell; None without such a column."""
        name = self.schema.id
        if name is None or name not in self.frame.columns:
            return None
        texts = self.frame[name].astype("object").map(lambda cell: text_of(cell).strip(), na_action="ignore")
        return np.array([None if pd.isna(text) or not text else text for text in texts], dtype=object)

    @property
    def repeated(self) -> bool:
        """Say whether a row of the table occurs more than once, so that these are not draws of different people.

        Rows are identified by their place in the table, not by their values: two people may be alike in everything.
        A table that was itself drawn with replacement gives itself away by its index, as far as it kept it: labels
        that occur again, each with the same row.
        """
        if len(np.unique(self.rows)) < len(self.rows):
            return True
        again = self.frame.index.duplicated(keep=False)
        if not again.any():
            return False
        twice = self.frame[again]
        labels = twice.index.map(str)
        return len(set(zip(labels, *(twice[name].astype(str) for name in twice), strict=True))) == len(set(labels))

    @property
    def train(self) -> Population:
        """Return the training rows: those that the schema's split column names, else about 70 % of the rows.

        Without a split column a row is a training row when a fixed hash of its place in the table
        (splitmix64) falls below 0.7, so that neither a subset nor another library version changes which side
        a row is on.
        """
        return self._part("train")

    @property
    def test(self) -> Population:
        """Return the rows held out from training; see ``train``."""
        return self._part("test")

    def side(self, name: SplitName) -> BoolArray:
        """Return a mask ``(n,)`` of one side of the split; see ``train``."""
        if name in ("all", self.split):
            return np.ones(len(self), dtype=bool)
        split = self.schema.split
        if split is None:
            mask: BoolArray = in_train(self.rows) == (name == "train")
            return mask
        column = find_column(self.frame, split.column)
        return column.map(text_of, na_action="ignore").eq(getattr(split, name)).to_numpy(dtype=bool)

    def with_domain(self, kind: DomainKind) -> Population:
        """Return the same individuals in another domain."""
        return replace(self, domain=self.schema.domain(kind))

    def sample(self, n: int, seed: int = 0) -> Population:
        """Draw ``n`` individuals without replacement by ``seed``, in table order; all of them when there are fewer."""
        n, seed = whole("n", n, 1), whole("seed", seed)
        sample = self[drawn(len(self), n, seed)]
        return replace(sample, selection=self.selection.drawn(len(sample), seed))

    def held_out(self) -> Population:
        """Return the same people, on the caller's word independent draws on which nothing was fitted.

        A statement about the population behind them rests on it where they are not the test part of their table.
        """
        if self.split == "train":
            raise ParameterError("These individuals are the train part of the table: they are not held out from it.")
        return replace(self, selection=replace(self.selection, held_out=True))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: slice | BoolArray | IntArray | list[int] | list[bool]) -> Population:
        """Return some of the individuals, by slice, mask or positions."""
        try:
            chosen = np.arange(len(self))[rows if isinstance(rows, slice) else np.asarray(rows)]
        except IndexError as error:
            raise ParameterError(f"These rows are not rows of {len(self)} individuals: {error}.") from error
        if chosen.ndim != 1 or len(chosen) == 0:
            raise ParameterError(
                template("rows", "a slice, mask or list of positions of at least one individual", rows)
            )
        all_chosen = len(chosen) == len(self) == len(np.unique(chosen))
        return replace(
            self,
            frame=self.frame.iloc[chosen],
            x=self.x[chosen],
            y=None if self.y is None else self.y[chosen],
            weights=self.weights[chosen],
            rows=self.rows[chosen],
            selection=self.selection if all_chosen else self.selection.picked(len(chosen)),
        )

    def __repr__(self) -> str:
        size = f"{self.schema.width} coordinates, {self.domain.kind} domain"
        return f"Population({self.schema.name!r}, {self.selection.words()}: {size})"

    def _part(self, name: Literal["train", "test"]) -> Population:
        if self.split == name:
            return self
        if self.split != "all":
            raise ParameterError(f"This population is the {self.split} part and has no {name} part: ask the whole one.")
        mask = self.side(name)
        if not mask.any():
            raise DataError(f"The {name} part of {self.schema.name!r} is empty: no row of the table belongs to it.")
        part = self[mask]
        return replace(part, selection=self.selection.split(name, len(part)))


def stream(
    path: str | os.PathLike[str],
    schema: Schema,
    *,
    chunk_rows: int = 100_000,
    domain: DomainKind = "realizable",
    unknown: Unknown = "error",
    dialect: Dialect = USUAL,
    table_limit: int = CELLS,
) -> Iterator[Population]:
    """Yield the individuals of a Parquet or CSV file, ``chunk_rows`` rows of the file at a time.

    Memory is that of two pieces and the blocks that the reader holds (some 32 MB of a CSV file, one row group of a
    Parquet file), whatever the length of the file; a piece of more cells than ``table_limit`` is refused. Columns that
    the schema does not name are not read.
    Together the pieces hold what :meth:`Population.from_file` holds: the same coordinates, row numbers (0 is the first
    row after the header) and sides of the split; an error names the row of the file. With ``unknown="exclude"`` rows
    that do not fit are counted in the piece they stand in, and a piece of which nothing is left is counted with the
    next one that has individuals (with the last one, at the end of the file); a file of which nothing is left is an
    error.
    """
    pieces = read_pieces(
        path, schema, whole("chunk_rows", chunk_rows, 1), dialect, whole("table_limit", table_limit, 1)
    )
    return _stream(pieces, schema, domain, unknown)


def _stream(
    pieces: Iterator[tuple[int, pd.DataFrame]], schema: Schema, domain: DomainKind, unknown: Unknown
) -> Iterator[Population]:
    """Hold one population back, so that rows excluded after it can still be counted with it."""
    held: Population | None = None
    without: pd.DataFrame | None = None  # the first piece of which no individual is left
    excluded, weight = 0, 0.0
    for first_row, frame in pieces:
        people = Population.from_piece(frame, schema, domain=domain, unknown=unknown, first_row=first_row)
        if not len(people):
            excluded, without = excluded + len(frame), frame if without is None else without
            continue
        weight += people.weights.sum()
        if held is not None:
            yield held
        held, excluded = _with_excluded(people, excluded), 0
    if held is None:
        held = Population.from_frame(without, schema, unknown=unknown)  # an error, which says why
    yield _with_excluded(held, excluded)
    _refuse_zero_weights(schema, weight)


def _refuse_zero_weights(schema: Schema, total: float) -> None:
    if not total > 0:
        raise DataError(f"Column {schema.weight!r}: all sampling weights are zero; at least one must be positive.")


def _with_excluded(people: Population, more: int) -> Population:
    return replace(people, selection=replace(people.selection, excluded=people.excluded + more))


def drawn(pool: int, n: int, seed: int) -> IntArray:
    """Return the places (n,), ascending, that a seed draws from a pool of people without replacement."""
    return np.sort(np.random.default_rng(seed).permutation(pool)[:n])


def in_train(numbers: IntArray) -> BoolArray:
    """Return the mask of training rows by number: their fixed hash in [0, 1] falls below ``TRAIN_SHARE``.

    The hash is splitmix64 (Steele et al. 2014).
    """
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    train: BoolArray = (z ^ (z >> np.uint64(31))).astype(np.float64) / 2.0**64 < TRAIN_SHARE
    return train
