"""Raw cells as a tensor of a model file: the input of a file that is read with a schema.

Operators that move or preprocess cells keep a :class:`Table`; whatever else reads it gets its numbers, as one exact
affine map of the coordinates (:func:`numeric`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.builder import BATCH, Builder, Constant, Value
from isonomy.networks.columns import Column, schema_columns, settled
from isonomy.networks.exact_affine import affine_of
from isonomy.networks.inputs import Reads, input_columns, model_columns
from isonomy.population.schema import Schema

_MOST = 2**16  # cells of one individual


@dataclass(frozen=True, eq=False)
class Table:
    """Cells of one individual in the shape that the file sees, without the batch."""

    columns: tuple[Column, ...]
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many cells there are."""
        return len(self.columns)

    def encoded(self, size: int, encode: Callable[[Column], Sequence[Column]]) -> Table:
        """Each cell replaced by ``size`` of them, along a new axis."""
        if self.width * size > _MOST:
            raise UnsupportedOperationError("only a lookup in a small matrix is supported.")
        return Table(tuple(made for column in self.columns for made in encode(column)), (*self.shape, size))


def feed(
    shapes: Mapping[str, tuple[int, ...]], schema: Schema | None, reads: Reads = "auto", batch: int = BATCH
) -> tuple[Builder, dict[str, Table | Value]]:
    """What each input of a file reads; a size of 0 in a shape is unknown.

    With a schema an input called like a column reads this column, as ``[model.inputs]`` describes it if it does; a
    single input of another name reads what :func:`model_columns` finds.
    """
    if schema is None:
        if len(shapes) != 1:
            names = ", ".join(map(repr, shapes)) or "none"
            advice = "; where several inputs read raw columns, give the schema" if shapes else ""
            raise NetworkError(f"one input, a table of individuals, is expected; there are: {names}{advice}.")
        ((name, shape),) = shapes.items()
        builder = Builder(shape, batch, name)
        return builder, {name: builder.input}
    raw: dict[str, Column] = dict(schema_columns(schema))
    described = input_columns(schema) if schema.inputs and reads == "auto" else []
    fed: dict[str, Table | Value] = {}
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
    return Builder((schema.width,), batch, "individual"), fed


def numeric(builder: Builder, operand: Any) -> Any:
    """The numbers of a table as an affine map of the coordinates; other operands as they are."""
    if not isinstance(operand, Table):
        return operand
    return builder.affine(builder.input, affine_of(settled(operand.columns), builder.input.width), operand.shape)


def joined(builder: Builder, parts: Sequence[Any], axis: int) -> Table | Value:
    """Operands beside each other along an axis: cells if all of them are, else numbers."""
    if not all(isinstance(part, Table) for part in parts):
        return builder.concat([numeric(builder, part) for part in parts], axis)
    columns = tuple(column for part in parts for column in part.columns)
    return moved(builder, Table(columns, (len(columns),)), builder.side_by_side(parts, axis))


def moved(builder: Builder, operand: Table | Value, positions: Constant) -> Table | Value:
    """The cells or numbers that stood at these positions."""
    if isinstance(operand, Value):
        return builder.placed(operand, positions)
    index, shape = builder.sources(operand, positions)
    return Table(tuple(operand.columns[i] for i in index), shape)
