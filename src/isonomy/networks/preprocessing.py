"""A table of raw rows, column by column, as functions of the fair coordinates, and what preprocessing does to it:
scale, impute, encode, look up, rotate. ``[model.inputs]``, scikit-learn and the operators of model files translate to
these.

Pipelines read raw cells: numbers, texts, gaps. A :class:`Number` is a cell that holds a number, as an exact affine
function of the coordinates, possibly with a flag that says it is missing; a :class:`Choice` is a cell that holds one of
finitely many values. Whatever turns a choice into numbers (one-hot, codes, bins, an embedding) is a lookup: affine on a
one-hot block, and on the rank of an ordinal feature or whole number when the values grow in equal steps; else a sum of
clips, one between each rank and the next.

The coordinate ``c`` of a number stands for the raw value ``c * unit + origin``. What follows is a chain of steps (minus
a mean, over a scale, plus a gap filled) whose constants are floats, so the whole chain is rational.

**Soundness.** All of it is exact: columns are rational affine functions of the coordinates (:class:`ExactAffine`),
rounded once, at the end, by :func:`affine_of`, whose slacks are the exact differences, rounded up. A category that the
model does not know is refused, unless the format says what it becomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.given import FINITE
from isonomy.networks.graph import Activation, Constant, Node, activation, affine, numbers
from isonomy.networks.limits import Allowance
from isonomy.population.encoding import text_of
from isonomy.population.feature import Feature
from isonomy.population.schema import Schema
from isonomy_verify.arithmetic import rounded_up

ZERO, HALF = Fraction(0), Fraction(1, 2)
Cell = str | None  # the text of a cell; None is a missing one
_LARGEST_RANGE = 1024  # whole numbers that may be looked up one by one
_MOST_CELLS = 2**16  # of one individual
_MOST_RAMPS = 256  # of a column that is one coordinate
_TRUTH = {"false": ZERO, "true": Fraction(1)}
_T = TypeVar("_T")
Noted = dict[str, tuple[str, ...]]
"""Columns that models take for categories, also where the schema calls them numbers or lacks them, and the categories
that the models know. A model that is read with such a table is of no other use."""

Unknown = Callable[[tuple[Cell, ...]], Any]  # what a category becomes that the model does not know


@dataclass(frozen=True, eq=False)
class Bent:
    """What an activation makes of an affine function: one more coordinate to what reads it."""

    activation: Activation
    inner: ExactAffine


_Terms = Mapping[int | Bent | None, Fraction]


@dataclass(frozen=True)
class ExactAffine:
    """``terms[None] + sum_i terms[i] x_i`` exactly; ``reach`` is the same with absolute values, summed along the chain,
    for the bound of a floating-point run of the original steps. A term may stand for a bent function in the place of a
    coordinate."""

    terms: _Terms
    reach: _Terms
    roundings: int = 0

    @classmethod
    def coordinate(cls, index: int | Bent) -> ExactAffine:
        """Return the coordinate itself."""
        return cls({index: Fraction(1)}, {index: Fraction(1)})

    @classmethod
    def of(cls, constant: Fraction) -> ExactAffine:
        """Return a constant."""
        return cls({None: constant}, {None: abs(constant)}) if constant else cls({}, {})

    def times(self, factor: Fraction) -> ExactAffine:
        """Return the product with a number; a run rounds once."""
        if factor == 1:
            return self
        terms = {i: term * factor for i, term in self.terms.items() if factor}
        return ExactAffine(terms, {i: term * abs(factor) for i, term in self.reach.items()}, self.roundings + 1)

    def plus(self, other: ExactAffine | Fraction) -> ExactAffine:
        """Return the sum with a number or a function; a run rounds once."""
        if isinstance(other, Fraction):
            if not other:
                return self
            other = ExactAffine.of(other)
        terms = {i: term for i, term in _sum(self.terms, other.terms).items() if term}
        return ExactAffine(terms, _sum(self.reach, other.reach), max(self.roundings, other.roundings) + 1)

    @property
    def bends(self) -> list[Bent]:
        """Return the bent functions among its terms."""
        return [each for each in self.reach if isinstance(each, Bent)]

    def placed(self, places: Mapping[Bent, int]) -> ExactAffine:
        """Return the same function of coordinates among which bent functions have places."""
        terms: dict[int | Bent | None, Fraction] = {_place(i, places): term for i, term in self.terms.items()}
        reach: dict[int | Bent | None, Fraction] = {_place(i, places): term for i, term in self.reach.items()}
        return replace(self, terms=terms, reach=reach)


def _place(term: int | Bent | None, places: Mapping[Bent, int]) -> int | None:
    return places[term] if isinstance(term, Bent) else term


def _sum(first: _Terms, second: _Terms) -> _Terms:
    return {i: first.get(i, ZERO) + second.get(i, ZERO) for i in {**first, **second}}


def weighted(functions: Sequence[ExactAffine], factors: Sequence[Fraction]) -> ExactAffine:
    """Return ``sum_i factors[i] * functions[i]``."""
    total = ExactAffine.of(ZERO)
    for function, factor in zip(functions, factors, strict=True):
        if factor:
            total = total.plus(function.times(factor)) if total.reach else function.times(factor)
    return total


def exact(value: Any, what: str) -> Fraction:
    """Return a finite number as it is stored."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int | np.integer):
        return Fraction(int(value))
    try:  # Python would also take 1_0 for a number
        number = math.nan if isinstance(value, str) and "_" in value else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise NetworkError(f"{what} must be a finite number. Got {value!r}.")
    return Fraction(number)


def affine_of(functions: Sequence[ExactAffine], width: int, allowance: Allowance) -> Node:
    """Return the affine map of ``width`` coordinates to all functions, rounded once, with rigorous slacks."""
    if not functions:
        raise NetworkError("The model reads no feature at all.")
    allowance.reserve(2 * len(functions) * width, f"a map of {width} coordinates to {len(functions)} numbers")
    weight, size = np.zeros((2, len(functions), width))
    bias, weight_error, bias_error, bias_size = np.zeros((4, len(functions)))
    for row, function in enumerate(functions):
        lost = ZERO
        for i, reach in function.reach.items():
            term = function.terms.get(i, ZERO)
            if reach > FINITE:
                raise NetworkError("A scale of the model's inputs is too extreme: its weight overflows.")
            gap = abs(term - Fraction(float(term)))
            if isinstance(i, Bent):
                raise NetworkError(
                    "a column is bent on its way into the model, which no adapter can hold: one that gives each level "
                    'of an order a number of its own needs it declared as kind = "categorical".'
                )
            if i is None:
                bias[row], bias_error[row], bias_size[row] = float(term), rounded_up(gap), rounded_up(reach)
            else:
                weight[row, i], size[row, i], lost = float(term), rounded_up(reach), lost + gap
        weight_error[row] = rounded_up(lost)
    roundings = max(function.roundings for function in functions)
    return affine(
        weight, bias, weight_error=weight_error, bias_error=bias_error, size=size, bias_size=bias_size,
        roundings=roundings,
    )  # fmt: skip


@dataclass(frozen=True)
class Number:
    """A number; where ``flag`` is 1 the cell is missing and ``value`` reads ``filled``. ``integer_range``: if whole.
    ``least``: no number is smaller, if that is known."""

    name: str
    value: ExactAffine
    flag: ExactAffine | None = None
    filled: Fraction = ZERO
    integer_range: tuple[int, int] | None = None
    least: Fraction | None = None
    noted: Noted | None = field(default=None, repr=False, compare=False)

    def scaled(self, factor: Fraction, offset: Fraction = ZERO, *, shift: Fraction = ZERO) -> Number:
        """Return ``(value + shift) * factor + offset``; a missing cell stays missing."""
        if factor == 1 and not shift and not offset:
            return self
        value = self.value.plus(shift).times(factor).plus(offset)
        least = None if self.least is None or factor < 0 else (self.least + shift) * factor + offset
        filled = (self.filled + shift) * factor + offset
        return replace(self, value=value, filled=filled, integer_range=None, least=least)

    def imputed(self, fill: Fraction) -> Number:
        """Fill a missing cell by ``fill``: exact, since the value is ``filled`` where the flag is 1."""
        if self.flag is None:
            return self
        change = fill - self.filled
        value = self.value.plus(self.flag.times(change)) if change else self.value
        ends = None if self.integer_range is None or fill.denominator > 1 else (*self.integer_range, int(fill))
        few = ends is not None and max(ends) - min(ends) < _LARGEST_RANGE
        whole, least = (min(ends), max(ends)) if ends and few else None, self.least
        least = None if least is None else min(least, fill)
        return Number(self.name, value, integer_range=whole, least=least, noted=self.noted)

    def required_value(self) -> ExactAffine:
        """Return the value, once no cell can be missing."""
        if self.flag is not None:
            raise NetworkError(
                f"column '{self.name}' may be missing, but nothing in the model fills it: fit its pipeline with an "
                f"imputer, or say what a model without one reads ([model.inputs.{self.name}] missing = NUMBER), or "
                f"{_without_gaps(self.name)}."
            )
        return self.value


@dataclass(frozen=True)
class Choice:
    """One of finitely many values; ``spellings[i]`` are the cells that mean value ``i``.

    Either ``marks`` holds the 0/1 indicator of each value, or ``rank`` is the position of the value; then the last
    value may be the missing one, marked by ``flag``, where the rank reads ``filled``.
    """

    name: str
    spellings: tuple[tuple[Cell, ...], ...]
    marks: tuple[ExactAffine, ...] = ()
    rank: ExactAffine | None = None
    flag: ExactAffine | None = None
    filled: Fraction = ZERO
    noted: Noted | None = field(default=None, repr=False, compare=False)

    def lookup(self, values: Sequence[Fraction]) -> ExactAffine:
        """Return the function that is ``values[i]`` at value ``i``."""
        if self.rank is None:
            return weighted(self.marks, values)
        ranked = values[: len(values) - (self.flag is not None)]
        steps = [high - low for low, high in pairwise(ranked)]
        if len(set(steps)) < 2:
            step = steps[0] if steps else ZERO
            result = self.rank.times(step).plus(ranked[0]) if step else ExactAffine.of(ranked[0])
            held = ranked[0] + step * self.filled
        else:
            places = [i for i, step in enumerate(steps) if step]
            if len(places) > _MOST_RAMPS:
                raise NetworkError(
                    f"column '{self.name}' is one coordinate in the schema, but the model gives its {len(ranked)} "
                    'values numbers of their own, more than can be read: declare it as kind = "categorical".'
                )
            parts = [ExactAffine.of(ranked[0]), *(self.ramps[i] for i in places)]
            result = weighted(parts, [Fraction(1), *(steps[i] for i in places)])
            held = ranked[0] + sum(steps[i] * min(max(2 * (self.filled - i) - HALF, ZERO), Fraction(1)) for i in places)
        if self.flag is not None:
            result = result.plus(self.flag.times(values[-1] - held))
        return result

    @cached_property
    def ramps(self) -> list[ExactAffine]:
        """Return for each rank but the last a function that is 0 up to a quarter behind it, and 1 from a quarter before
        the next one on: so it is exact also where coordinates are rounded."""
        unit, rank = activation("clip", (0.0, 1.0)), self.rank or ExactAffine.of(ZERO)
        places = range(len(self.spellings) - 1 - (self.flag is not None))
        return [ExactAffine.coordinate(Bent(unit, rank.plus(-i - HALF / 2).times(Fraction(2)))) for i in places]

    def numbers(self, values: Sequence[Fraction | None]) -> Number:
        """Return the number that is ``values[i]`` at value ``i``, missing where that is None."""
        least = min((value for value in values if value is not None), default=None)
        number = Number(self.name, self.lookup([value or ZERO for value in values]), least=least)
        if None not in values:
            return number
        return replace(number, flag=self.lookup([Fraction(value is None) for value in values]))

    def entries(self, known: Mapping[Cell, _T], otherwise: Callable[[tuple[Cell, ...]], _T]) -> list[_T]:
        """Return for each value its entry in ``known``, by its cells, else ``otherwise`` of its spellings.

        Several spellings of the missing value (an empty cell, "?") count as far as the model knows them, and must then
        mean the same to it.
        """
        results = []
        for spellings in self.spellings:
            hits = [known[cell] for cell in spellings if cell in known]
            if any(hit != hits[0] for hit in hits[1:]):
                listed = ", ".join(map(shown, (cell for cell in spellings if cell in known)))
                raise NetworkError(f"column '{self.name}': the model tells apart {listed}, one value in the schema.")
            results.append(hits[0] if hits else otherwise(spellings))
        return results


@dataclass(frozen=True)
class Absent:
    """A column of the model that the schema lacks: it may be dropped, and ``reason`` says what is wrong otherwise."""

    name: str
    reason: str
    noted: Noted | None = field(default=None, repr=False, compare=False)


Column = Number | Choice | Absent


@dataclass(frozen=True, eq=False)
class Table:
    """Cells of one individual in the shape that a model file sees, without the batch."""

    columns: tuple[Column, ...]
    shape: tuple[int, ...]

    @property
    def width(self) -> int:
        """Return the number of cells."""
        return len(self.columns)

    def looked_up(self, matrix: Constant) -> Table:
        """Replace each cell by a row of a matrix, along a new axis."""
        return self.encoded(np.shape(matrix)[-1], lambda column: embedded(column, matrix))

    def encoded(self, size: int, encode: Callable[[Column], Sequence[Column]]) -> Table:
        """Replace each cell by ``size`` of them, along a new axis."""
        if self.width * size > _MOST_CELLS:
            raise UnsupportedOperationError("only a lookup in a small matrix is supported.")
        return Table(tuple(made for column in self.columns for made in encode(column)), (*self.shape, size))


def schema_columns(schema: Schema, noted: Noted | None = None) -> dict[str, Column]:
    """Return every column of a raw table that fits the schema, as a function of the coordinates; those that are read as
    categories are ``noted``."""
    raw = {feature.name: _column(feature, schema.slices[feature.name].start) for feature in schema.features}
    return raw if noted is None else {name: replace(column, noted=noted) for name, column in raw.items()}


def coordinate_columns(schema: Schema) -> dict[str, Column]:
    """Return the coordinates themselves, by their names."""
    return {name: Number(name, ExactAffine.coordinate(i)) for i, name in enumerate(schema.coordinate_names)}


def as_number(column: Column) -> Number:
    """Read a column as a number: categories only where their names are numbers, or false (0) and true (1)."""
    if isinstance(column, Number):
        return column
    if isinstance(column, Absent):
        raise NetworkError(column.reason)
    return column.numbers(numbers_held(column))


def numbers_held(column: Choice) -> list[Fraction | None]:
    """Return the number that each value of a column is written as; None for a missing one."""
    values: list[Fraction | None] = []
    for spellings in column.spellings:
        try:
            name = spellings[0]
            value = None if name is None or None in spellings else exact(_TRUTH.get(name.lower(), name), "")
        except NetworkError:
            raise NetworkError(
                f"column '{column.name}' holds categories such as {name!r}, but the model reads a number: encode it in "
                'the pipeline, or with encode = "values" in [model.inputs] for a model without one.'
            ) from None
        values.append(value)
    return values


def as_choice(column: Column, known: Iterable[Cell] = ()) -> Choice:
    """Read a column as one of finitely many values, of which the model has ``known`` some: numbers only where they are
    whole and few."""
    if column.noted is not None:  # the first who reads a column reads it as it is in the table
        column.noted.setdefault(column.name, tuple(cell for cell in known if cell is not None))
    if isinstance(column, Choice):
        return column
    if isinstance(column, Absent):
        raise NetworkError(column.reason)
    if column.integer_range is None:
        raise NetworkError(
            f"column '{column.name}' is a number, but the model treats each of its values apart: declare it as "
            'kind = "categorical" in the schema.'
        )
    low, high = column.integer_range
    spellings: list[tuple[Cell, ...]] = [(str(k),) for k in range(low, high + 1)]
    spellings += [(None,)] * (column.flag is not None)
    return Choice(
        column.name,
        tuple(spellings),
        rank=column.value.plus(Fraction(-low)),
        flag=column.flag,
        filled=column.filled - low,
        noted=column.noted,
    )


def required_values(columns: Iterable[Column]) -> list[ExactAffine]:
    """Return the functions of columns that are numbers by now."""
    return [as_number(column).required_value() for column in columns]


def cell_of(value: Any) -> Cell:
    """Return the text by which a cell is known; None for a gap."""
    return None if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)) else text_of(value)


def shown(cell: Cell) -> str:
    """Return a cell as errors show it."""
    return "a missing value" if cell is None else repr(cell)


def unknown_to(model: str, name: str, cells: tuple[Cell, ...]) -> NetworkError:
    """Return the error of a category of the schema that a model does not know."""
    advice = f"fit the model on people who have it, or take it out of [features.{name}]"
    if None in cells:
        advice = f"it means a missing cell: fit the model on such cells, or {_without_gaps(name)}"
    return NetworkError(
        f"the category {shown(cells[0])} of column '{name}' is in the schema but unknown to {model}; {advice}."
    )


def _without_gaps(name: str) -> str:
    """Return the advice how to certify only people whose cell is not missing."""
    return f"leave people without it out (take 'fill' and 'missing' out of [features.{name}], say unknown = 'exclude')"


def _column(feature: Feature, start: int) -> Column:
    """Return one column of the raw table; its coordinates begin at ``start``."""
    gap: tuple[Cell, ...] = (feature.missing_label, *feature.missing_values, None)
    if feature.kind == "categorical":
        open_ = feature.missing == "category"
        spellings = tuple(gap if open_ and level == feature.missing_label else (level,) for level in feature.levels)
        marks = tuple(ExactAffine.coordinate(start + i) for i in range(feature.width))
        return Choice(feature.name, spellings, marks)
    unit, origin = Fraction(feature.unit), Fraction(feature.origin)
    # A run computes the raw value from the coordinate (two roundings) and reads it in its own precision (one).
    raw = ExactAffine.coordinate(start).times(unit).plus(origin)
    raw = replace(raw, roundings=3)
    flag = ExactAffine.coordinate(start + 1) if feature.flagged else None
    filled = Fraction(feature.coordinate(feature.fill_value)) * unit + origin if feature.flagged else ZERO
    if feature.kind == "ordinal":
        levels: tuple[tuple[Cell, ...], ...] = tuple((level,) for level in feature.levels)
        return Choice(feature.name, (*levels, gap) if flag else levels, rank=raw, flag=flag, filled=filled)
    few = feature.kind == "integer" and feature.high - feature.low < _LARGEST_RANGE
    least = Fraction(feature.low) if math.isfinite(feature.low) else None
    return Number(feature.name, raw, flag, filled, (int(feature.low), int(feature.high)) if few else None, least)


# -- what preprocessing does to columns


def scaled(
    columns: Sequence[Column],
    *,
    minus: Sequence[Any] = (0,),
    times: Sequence[Any] = (1,),
    over: Sequence[Any] = (1,),
    plus: Sequence[Any] = (0,),
) -> list[Column]:
    """Return ``(x - minus) * times / over + plus`` for each column; one number may serve all."""
    made: list[Column] = []
    parts = (_for_each(each, columns) for each in (minus, times, over, plus))
    for column, *own in zip(columns, *parts, strict=True):
        shift, factor, divisor, offset = (exact(each, f"the scale of '{column.name}'") for each in own)
        if not divisor:
            raise NetworkError(f"the scale of '{column.name}' must not be zero.")
        made.append(as_number(column).scaled(factor / divisor, offset, shift=-shift))
    return made


def clipped(columns: Sequence[Column], low: Any, high: Any) -> list[Column]:
    """Return each column between two numbers; a missing cell stays missing."""
    least, most, what = exact(low, "a limit"), exact(high, "a limit"), activation("clip", (low, high))
    made: list[Column] = []
    for column in map(as_number, columns):
        value = ExactAffine.coordinate(Bent(what, column.value))
        filled = min(max(column.filled, least), most)
        made.append(replace(column, value=value, filled=filled, integer_range=None, least=least))
    return made


def logarithms(columns: Sequence[Column]) -> list[Column]:
    """Return ``log1p`` of each column, none of which may be below 0; a missing cell stays missing."""
    made: list[Column] = []
    for column in columns:
        if isinstance(column, Choice):
            raise UnsupportedOperationError(
                f"log1p of column '{column.name}' is not read: of false and true numpy gives half precision; declare "
                'numbers as kind = "numeric" or "integer".'
            )
        column = as_number(column)
        if column.least is None or column.least < 0:
            raise UnsupportedOperationError(
                f"log1p of column '{column.name}', which may be below 0 by the schema, has no bounds: say 'low', 0 or "
                f"above, in [features.{column.name}]."
            )
        value = ExactAffine.coordinate(Bent(activation("log1p"), column.imputed(ZERO).value))
        made.append(replace(column, value=value, filled=ZERO, integer_range=None, least=ZERO))
    return made


def _for_each(values: Sequence[Any], columns: Sequence[Column]) -> Sequence[Any]:
    """Return one value for each column, where one may serve all."""
    if len(values) not in (1, len(columns)):
        raise NetworkError(f"there must be one number, or one for each of {len(columns)} columns. Got {len(values)}.")
    return list(values) * len(columns) if len(values) == 1 else values


def imputed(columns: Sequence[Column], fills: Sequence[Any], gap: Cell = None) -> list[Column]:
    """Fill missing cells, or those that read ``gap``: by one value for each column or one for all."""
    made: list[Column] = []
    for column, fill in zip(columns, _for_each(fills, columns), strict=True):
        if isinstance(fill, str) and isinstance(column, Choice):
            spellings = (tuple(fill if cell == gap else cell for cell in cells) for cells in column.spellings)
            made.append(replace(column, spellings=tuple(spellings)))
        elif gap is None:
            made.append(as_number(column).imputed(exact(fill, f"the fill of '{column.name}'")))
        else:
            raise _not_nan(column, gap)
    return made


def indicator(column: Column, gap: Cell = None) -> ExactAffine | None:
    """Return 1 where a cell is missing, or reads ``gap``, else 0; None where it never is."""
    if isinstance(column, Choice) and (column.rank is None or gap is not None):
        marks = [Fraction(gap in cells) for cells in column.spellings]
        return column.lookup(marks) if any(marks) else None
    if gap is not None:
        raise _not_nan(column, gap)
    return column.flag if isinstance(column, Choice) else as_number(column).flag


def _not_nan(column: Column, gap: Cell) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"'{column.name}': a number ({gap}) that means missing is not affine; use NaN.")


def one_hot(column: Column, names: Sequence[Cell], unknown: Unknown, dropped: Any = ...) -> list[Column]:
    """Return one number for each category but the dropped one."""
    choice = as_choice(column, names)
    at = choice.entries({name: i for i, name in enumerate(names)}, unknown)
    kept = [i for i, name in enumerate(names) if name != dropped]
    return [Number(choice.name, choice.lookup([Fraction(i == place) for place in at])) for i in kept]


def relabelled(column: Column, known: Mapping[Cell, Any], unknown: Unknown) -> Column:
    """Replace each cell by a text, a number, or None for a missing one."""
    choice = as_choice(column, known)
    made = choice.entries(known, unknown)
    made = [None if isinstance(value, float) and np.isnan(value) else value for value in made]
    if all(value is None or isinstance(value, str) or float(value).is_integer() for value in made):
        # Whole numbers may still become the index of a lookup.
        return replace(choice, spellings=tuple((v if isinstance(v, str) else cell_of(v),) for v in made))
    return choice.numbers([None if value is None else exact(value, "a value") for value in made])


def embedded(column: Column, matrix: Constant) -> list[Column]:
    """Replace each cell by a row of a matrix.

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


def numbered(column: Column) -> Column:
    """Return a column with the row of an embedding in the place of a category."""
    return column.numbers([Fraction(i) for i in _indices(column)]) if isinstance(column, Choice) else column


def whole(table: Table) -> Table:
    """Return a table as whole numbers, as the rows of an embedding; refuse numbers that a conversion would cut."""
    cut = next((each for each in table.columns if isinstance(each, Number) and each.integer_range is None), None)
    if cut is not None:
        raise UnsupportedOperationError(f"column '{cut.name}': a conversion that cuts a number is not supported.")
    return table


def _indices(choice: Choice) -> list[int]:
    """Return the index that each value of a column stands for."""
    texts = [cells[0] for cells in choice.spellings]
    whole = [text is not None and text.lstrip("-").isdigit() and len(text) < 10 for text in texts]
    if whole[0] and not all(whole):
        text = shown(texts[whole.index(False)])
        raise NetworkError(f"column '{choice.name}': {text} is no index; write [model.inputs.{choice.name}].")
    return [int(text or 0) for text in texts] if all(whole) else list(range(len(texts)))


def rotated(columns: Sequence[Column], matrix: Any, means: Any, name: str) -> list[Column]:
    """Return ``matrix @ (x - means)``, in columns called ``name`` and a number."""
    values = required_values(columns)
    if means is not None:
        values = [value.plus(-exact(mean, "a mean")) for value, mean in zip(values, means, strict=True)]
    return [
        Number(f"{name}{i}", weighted(values, [exact(each, "a component") for each in row]))
        for i, row in enumerate(matrix)
    ]
