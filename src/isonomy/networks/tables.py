"""Operations of model files on raw cells: scalers, encoders, lookups, before anything has become a vector of numbers.

With a schema the input of a file is a :class:`Table`, raw cells as functions of the fair coordinates. The rules here
keep it a table; whatever else reads it gets its numbers, as one exact affine map of the coordinates
(:func:`numeric`).

**Soundness.** All of it is exact until that one rounding. A lookup of an unknown category, where the file would fail or
guess, is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.adapter import Reads, input_columns, model_columns
from isonomy.networks.build import LARGEST, Builder, Constant, Value, numbers
from isonomy.networks.columns import (
    Cell,
    Choice,
    Column,
    Number,
    as_choice,
    as_number,
    cell_of,
    schema_columns,
    settled,
    shown,
)
from isonomy.networks.lines import affine_of, exact
from isonomy.population.schema import Schema


@dataclass(frozen=True, eq=False)
class Table:
    """Cells of one individual in the shape that the file sees, without the batch."""

    columns: tuple[Column, ...]
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many cells there are."""
        return len(self.columns)


def feed(schema: Schema, shapes: Mapping[str, tuple[int, ...]], reads: Reads = "auto") -> dict[str, Table]:
    """The cells that each input of a file reads; a size of 0 in a shape is unknown.

    An input called like a column reads this column, as ``[model.inputs]`` describes it if it does. A single input of
    another name reads what :func:`model_columns` finds.
    """
    raw: dict[str, Column] = dict(schema_columns(schema))
    described = input_columns(schema) if schema.inputs and reads == "auto" else []
    fed: dict[str, Table] = {}
    for name, shape in shapes.items():
        size = int(np.prod(shape, dtype=object))
        if name in raw and (len(shapes) > 1 or size == 1):
            own = isinstance(schema.inputs.get(name), Mapping)
            columns = [each for each in described if own and each.name == name] or [raw[name]]
        elif len(shapes) == 1:
            columns = model_columns(schema, width=size or None, reads=reads)
        else:
            listed = ", ".join(map(repr, raw))
            raise NetworkError(f"it reads an input '{name}' that the schema lacks; it has {listed}.")
        if size not in (0, len(columns)):
            raise NetworkError(f"its input '{name}' has {size} numbers where {len(columns)} arrive.")
        fed[name] = Table(tuple(columns), shape if size else (len(columns),))
    return fed


def numeric(builder: Builder, table: Table) -> Value:
    """The numbers of a table as an affine map of the coordinates."""
    if table.width * builder.input.width > LARGEST:
        raise NetworkError("the table is larger than the supported size.")
    return builder.affine(builder.input, affine_of(settled(table.columns), builder.input.width), table.shape)


def scaled(table: Table, offset: Sequence[float], scale: Sequence[float]) -> Table:
    """``(x - offset) * scale`` for each column."""
    made = []
    for i, column in enumerate(table.columns):
        shift, factor = (exact(each[i % len(each)], "a scale") for each in (offset, scale))
        made.append(as_number(column).scaled(factor, shift=-shift))
    return replace(table, columns=tuple(made))


def imputed(table: Table, fills: Sequence[Any]) -> Table:
    """Gaps filled, one value for each column or one for all."""
    made: list[Column] = []
    for i, column in enumerate(table.columns):
        fill = fills[i % len(fills)]
        if isinstance(fill, str) and isinstance(column, Choice):
            made.append(column.respelled(None, fill))
        else:
            made.append(as_number(column).imputed(exact(fill, "a fill")))
    return replace(table, columns=tuple(made))


def one_hot(table: Table, categories: Sequence[Any], *, lenient: bool) -> Table:
    """For each cell one number per category; a ``lenient`` file gives zeros to what it does not know."""
    names = [cell_of(each) for each in categories]
    made: list[Column] = []
    for column in table.columns:
        at = _places(column, {name: i for i, name in enumerate(names)}, None if lenient else ...)
        choice = as_choice(column)
        made += [Number(column.name, choice.lookup([Fraction(i == j) for j in at])) for i in range(len(names))]
    return Table(tuple(made), (*table.shape, len(names)))


def relabelled(table: Table, keys: Sequence[Any], values: Sequence[Any], default: Any) -> Table:
    """Each cell replaced by the value of its key."""
    known = {cell_of(key): value for key, value in zip(keys, values, strict=True)}
    made: list[Column] = []
    for column in table.columns:
        choice = as_choice(column)
        found = choice.found(known, lambda _: default)
        if any(isinstance(value, str) for value in found):
            made.append(replace(choice, spellings=tuple((str(value),) for value in found)))
        elif all(float(value).is_integer() for value in found):  # may still become the index of a lookup
            made.append(replace(choice, spellings=tuple((cell_of(value),) for value in found)))
        else:
            made.append(choice.numbers([None if np.isnan(v) else exact(v, "a value") for v in found]))
    return replace(table, columns=tuple(made))


def embedded(table: Table, matrix: Constant) -> Table:
    """Each cell replaced by a row of a matrix: an embedding.

    The row is the number that the cell holds; where categories are no numbers, it is their place in the schema.
    """
    rows = numbers(matrix)
    if rows.ndim != 2 or table.width * rows.shape[1] > 2**16:
        raise UnsupportedOperationError("only a lookup in a matrix is supported.")
    made: list[Column] = []
    for column in table.columns:
        choice = as_choice(column)
        at = _indices(choice)
        outside = next((i for i in at if not -len(rows) <= i < len(rows)), None)
        if outside is not None:
            raise NetworkError(
                f"column '{column.name}': index {outside} is outside the {len(rows)} rows of the lookup."
            )
        entries = rows[at].T.tolist()
        made += [choice.numbers([exact(each, "an entry of the lookup") for each in row]) for row in entries]
    return Table(tuple(made), (*table.shape, rows.shape[1]))


def converted(table: Table, kind: str) -> Table:
    """A conversion to ``float``, ``int`` or ``text``; what would cut a number is refused."""
    for column in table.columns:
        whole = isinstance(column, Choice) or column.whole is not None
        if kind != "float" and not whole:
            raise UnsupportedOperationError(
                f"column '{column.name}': a conversion that cuts a number is not supported."
            )
    return table


def joined(builder: Builder, parts: Sequence[Table], axis: int) -> Table:
    """Tables beside each other along an axis."""
    columns = tuple(column for part in parts for column in part.columns)
    starts = np.cumsum([0, *(part.width for part in parts)])
    base = np.arange(builder.batch).reshape(-1, 1) * len(columns)
    places = [
        (base + np.arange(start, start + part.width)).reshape(builder.batch, *part.shape)
        for start, part in zip(starts, parts, strict=False)
    ]
    try:
        together = np.concatenate(places, axis=axis)
    except ValueError as error:
        raise NetworkError(f"the shapes do not fit: {error}.") from None
    return moved(builder, Table(columns, (len(columns),)), together)


def moved(builder: Builder, table: Table, positions: Constant) -> Table:
    """The table that holds at each place the cell that stood at that position."""
    index, shape = builder.sources(table, positions)
    return Table(tuple(table.columns[i] for i in index), shape)


def _indices(choice: Choice) -> list[int]:
    """The index that each value of a column stands for."""
    found = []
    for place, cells in enumerate(choice.spellings):
        text = cells[0]
        found.append(int(text) if text is not None and text.lstrip("-").isdigit() and len(text) < 10 else None)
        if found[-1] is None and place and found[0] is not None:
            raise NetworkError(
                f"column '{choice.name}': {shown(text)} is no index; write [model.inputs.{choice.name}]."
            )
    named = None in found
    return list(range(len(found))) if named else [int(i or 0) for i in found]


def _places(column: Column, known: dict[Cell, int], unknown: Any) -> list[Any]:
    choice = as_choice(column)

    def otherwise(cells: tuple[Cell, ...]) -> Any:
        if unknown is ...:
            raise NetworkError(f"the category {shown(cells[0])} of column '{column.name}' is unknown to the encoder.")
        return unknown

    return choice.found(known, otherwise)
