"""What preprocessing does to columns of raw cells, once for all formats: scale, impute, encode, look up, rotate.

``[model.inputs]``, scikit-learn and the operators of model files translate to these.

**Soundness.** All of it is exact: columns are rational affine functions of the coordinates, rounded once at the end. A
category that the model does not know is refused, unless the format says what it becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.builder import Constant, numbers
from isonomy.networks.columns import Cell, Choice, Column, Number, as_choice, as_number, cell_of, settled, shown
from isonomy.networks.exact_affine import ExactAffine, exact, weighted

Unknown = Callable[[tuple[Cell, ...]], Any]  # what a category becomes that the model does not know


def scaled(
    columns: Sequence[Column],
    *,
    minus: Sequence[Any] = (0,),
    times: Sequence[Any] = (1,),
    over: Sequence[Any] = (1,),
    plus: Sequence[Any] = (0,),
) -> list[Column]:
    """``(x - minus) * times / over + plus`` for each column; one number may serve all."""
    made: list[Column] = []
    for i, column in enumerate(columns):
        shift, factor, divisor, offset = (
            exact(each[i % len(each)], f"the scale of '{column.name}'") for each in (minus, times, over, plus)
        )
        if not divisor:
            raise NetworkError(f"the scale of '{column.name}' must not be zero.")
        made.append(as_number(column).scaled(factor / divisor, offset, shift=-shift))
    return made


def imputed(columns: Sequence[Column], fills: Sequence[Any], gap: Cell = None) -> list[Column]:
    """Missing cells, or those that read ``gap``, filled: one value for each column or one for all."""
    made: list[Column] = []
    for i, column in enumerate(columns):
        fill = fills[i % len(fills)]
        if isinstance(fill, str) and isinstance(column, Choice):
            made.append(column.respelled(gap, fill))
        elif gap is None:
            made.append(as_number(column).imputed(exact(fill, f"the fill of '{column.name}'")))
        else:
            raise _not_nan(column, gap)
    return made


def indicator(column: Column, gap: Cell = None) -> ExactAffine | None:
    """1 where a cell is missing, or reads ``gap``, else 0; None where it never is."""
    if isinstance(column, Choice) and (column.rank is None or gap is not None):
        marks = [Fraction(gap in cells) for cells in column.spellings]
        return column.lookup(marks) if any(marks) else None
    if gap is not None:
        raise _not_nan(column, gap)
    return column.flag


def _not_nan(column: Column, gap: Cell) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"'{column.name}': a number ({gap}) that means missing is not affine; use NaN.")


def one_hot(column: Column, names: Sequence[Cell], unknown: Unknown, dropped: Any = ...) -> list[Column]:
    """One number for each category but the dropped one."""
    choice = as_choice(column)
    at = choice.found({name: i for i, name in enumerate(names)}, unknown)
    kept = [i for i, name in enumerate(names) if name != dropped]
    return [Number(choice.name, choice.lookup([Fraction(i == place) for place in at])) for i in kept]


def relabelled(column: Column, known: Mapping[Cell, Any], unknown: Unknown) -> Column:
    """Each cell replaced by a text, a number, or None for a missing one."""
    choice = as_choice(column)
    made = choice.found(known, unknown)
    made = [None if isinstance(value, float) and np.isnan(value) else value for value in made]
    if all(value is None or isinstance(value, str) or float(value).is_integer() for value in made):
        # Whole numbers may still become the index of a lookup.
        return replace(choice, spellings=tuple((v if isinstance(v, str) else cell_of(v),) for v in made))
    return choice.numbers([None if value is None else exact(value, "a value") for value in made])


def embedded(column: Column, matrix: Constant) -> list[Column]:
    """Each cell replaced by a row of a matrix.

    The row is the number that the cell holds; where categories are no numbers, it is their place in the schema.
    """
    rows, choice = numbers(matrix), as_choice(column)
    if rows.ndim != 2:
        raise UnsupportedOperationError("only a lookup in a matrix is supported.")
    at = _indices(choice)
    outside = next((i for i in at if not -len(rows) <= i < len(rows)), None)
    if outside is not None:
        raise NetworkError(f"column '{column.name}': index {outside} is outside the {len(rows)} rows of the lookup.")
    entries = rows[at].T.tolist()
    return [choice.numbers([exact(each, "an entry of the lookup") for each in row]) for row in entries]


def _indices(choice: Choice) -> list[int]:
    """The index that each value of a column stands for."""
    texts = [cells[0] for cells in choice.spellings]
    whole = [text is not None and text.lstrip("-").isdigit() and len(text) < 10 for text in texts]
    if whole[0] and not all(whole):
        text = shown(texts[whole.index(False)])
        raise NetworkError(f"column '{choice.name}': {text} is no index; write [model.inputs.{choice.name}].")
    return [int(text or 0) for text in texts] if all(whole) else list(range(len(texts)))


def rotated(columns: Sequence[Column], matrix: Any, means: Any, name: str) -> list[Column]:
    """``matrix @ (x - means)``, in columns called ``name`` and a number."""
    values = settled(columns)
    if means is not None:
        values = [value.plus(-exact(mean, "a mean")) for value, mean in zip(values, means, strict=True)]
    return [
        Number(f"{name}{i}", weighted(values, [exact(each, "a component") for each in row]))
        for i, row in enumerate(matrix)
    ]
