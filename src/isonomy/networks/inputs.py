"""How a model reads the individuals of a schema: from fair coordinates to the numbers that it was trained on.

A model file without its preprocessing says nothing about columns, scales and encodings. The table ``[model.inputs]``
of the schema says it, column by column, in the order in which the model reads them;
``docs/reference/formats.md`` has its keys and an example.
Scales are rows of ``_SCALES``, encodings of ``_ENCODINGS``; an encoding can be followed by a scale.

A file that is read with a schema gets raw cells as its input, a :class:`~isonomy.networks.preprocessing.Table`.
Operators that move or preprocess cells keep it one; whatever else reads it gets its numbers.

**Soundness.** Everything here is affine and exact until one final rounding, which the slacks of the adapter cover.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import compress
from typing import Any, Literal

import numpy as np

from isonomy.errors import NetworkError, SchemaError
from isonomy.given import choice
from isonomy.networks import preprocessing
from isonomy.networks.builder import BATCH, Builder, ReadModel, Value
from isonomy.networks.graph import Node, affine
from isonomy.networks.limits import Allowance, reading
from isonomy.networks.preprocessing import (
    Absent,
    Choice,
    Column,
    Noted,
    Number,
    Table,
    as_choice,
    as_number,
    cell_of,
    exact,
)
from isonomy.population.schema import Schema
from isonomy.population.toml import nearest

Reads = Literal["auto", "raw", "coordinates"]
_Entries = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class ReaderContext:
    """What a reader is given beside the model: the schema whose individuals it reads (None: the model's own numbers)
    and how, how much it may allocate, and where it notes categories (None: nowhere)."""

    schema: Schema | None = None
    reads: Reads = "auto"
    allowance: Allowance = field(default_factory=Allowance)
    noted: Noted | None = None

    @property
    def columns(self) -> dict[str, Column]:
        """Return every column of a raw table."""
        return {} if self.schema is None else preprocessing.schema_columns(self.schema, self.noted)


def schema_adapter(schema: Schema, width: int | None = None, *, reads: Reads = "auto") -> Node:
    """Return the affine map from the fair coordinates of ``schema`` to the ``width`` numbers that a model reads.

    It follows ``[model.inputs]`` when the schema has it. Otherwise the model reads coordinates as they are (all of
    them, or those of the seen features), or raw columns of numbers, whichever ``width`` or ``reads`` tells.
    """
    choice("reads", reads, Reads)
    return adapter(ReaderContext(schema, reads), width)


def adapter(given: ReaderContext, width: int | None = None) -> Node:
    """Return the affine map from the coordinates of the schema that is given to ``width`` numbers of a model."""
    assert given.schema is not None
    columns = model_columns(given, width=width)
    return preprocessing.affine_of(preprocessing.required_values(columns), given.schema.width, given.allowance)


def model_columns(
    given: ReaderContext, *, names: Sequence[str] | None = None, width: int | None = None
) -> list[Column]:
    """Return the columns that a model reads, by their names, by ``[model.inputs]``, or by their number.

    A name that the schema lacks is an :class:`~isonomy.networks.preprocessing.Absent` column: an error once it is read.
    """
    schema, reads, raw = given.schema, given.reads, given.columns
    assert schema is not None
    readings = {"raw": raw, "coordinates": preprocessing.coordinate_columns(schema)}
    if reads != "auto":
        readings = {reads: readings[reads]}
    if names is not None:
        table = max(readings.values(), key=lambda table: sum(name in table for name in names))
        return [table.get(name) or _absent(f"the model reads a column '{name}'", name, raw) for name in names]
    if schema.inputs and reads == "auto":
        columns = input_columns(schema, raw)
        if width not in (None, len(columns)):
            raise NetworkError(f"[model.inputs] gives {len(columns)} numbers, but the model reads {width}.")
        return columns
    # Columns without names: their number must leave one reading only.
    seen = {"raw": [each.seen for each in schema.features], "coordinates": schema.seen_coordinates.tolist()}
    counted = [
        (kind, columns)
        for kind, table in readings.items()
        for columns in (list(table.values()), list(compress(table.values(), seen[kind])))
    ]
    fitting = [(kind, columns) for kind, columns in counted if width in (None, len(columns))]
    if not fitting:
        counts = " or ".join(map(str, sorted({len(columns) for _, columns in counted})))
        raise NetworkError(
            f"the model reads {width} numbers, where the schema would give {counts}: write [model.inputs] in the "
            "schema to say which columns it reads, how scaled and encoded."
        )
    several = len({kind for kind, _ in fitting}) > 1
    if several and width is not None and not all(_same(fitting[0][1], columns) for _, columns in fitting):
        raise NetworkError(
            f"the model reads {width} numbers, which may be the raw columns or the schema's coordinates: say "
            "reads='raw' or reads='coordinates'."
        )
    return fitting[-1 if several else 0][1]


def _same(some: Sequence[Column], others: Sequence[Column]) -> bool:
    """Say whether columns are the same numbers: raw ones are coordinates where unit and origin change nothing."""
    return all(
        isinstance(one, Number) and isinstance(other, Number) and not one.flag and one.value.terms == other.value.terms
        for one, other in zip(some, others, strict=True)
    )


def _absent(reader: str, name: str, raw: Mapping[str, Column]) -> Absent:
    noted = next((column.noted for column in raw.values()), None)
    return Absent(name, f"{reader} that the schema lacks; {nearest(name, raw, 'it has', 0.6)}", noted)


def in_class_order(read: ReadModel, schema: Schema | None, own: Sequence[str]) -> ReadModel:
    """Put the raw outputs of a model with named classes into the order of the schema's classes.

    Classes are matched by name; a model that was trained on class indices 0, 1, ... (or False, True) has the schema's
    order.
    """
    if read.head == "regression" or not own:
        return read
    read = replace(read, named=tuple(own))
    if schema is None or schema.label is None:
        return read
    wanted = schema.label.classes
    if not wanted:
        raise NetworkError(f"it is a classifier, but the label '{schema.label.column}' has no classes in the schema.")
    if set(wanted) != set(own):
        if list(own) in ([str(i) for i in range(len(wanted))], ["False", "True"]) and len(own) == len(wanted):
            return read
        raise NetworkError(f"its classes {list(own)} are not those of the schema, {list(wanted)}.")
    if list(wanted) == list(own):
        return read
    order = Node("select", columns=tuple(list(own).index(each) for each in wanted))
    turned = {"sigmoid": affine([[-1.0]], roundings=0), "probability": affine([[-1.0]], [1.0])}
    node = turned[read.head] if read.graph.widths[-1] == 1 else order
    return replace(read, graph=read.graph.appended(node, "classes"), named=tuple(wanted))


# -- what the inputs of a model file read


def feed(
    shapes: Mapping[str, tuple[int, ...]], given: ReaderContext, batch: int = BATCH
) -> tuple[Builder, dict[str, Table | Value]]:
    """Return the columns or tensor that each input of a file reads; a size of 0 in a shape is unknown.

    With a schema an input called like a column reads this column, as ``[model.inputs]`` describes it if it does; a
    single input of another name reads what :func:`model_columns` finds.
    """
    schema, reads = given.schema, given.reads
    if schema is None:
        if len(shapes) != 1:
            names = ", ".join(map(repr, shapes)) or "none"
            advice = "; where several inputs read raw columns, give the schema" if shapes else ""
            raise NetworkError(f"one input, a table of individuals, is expected; there are: {names}{advice}.")
        ((name, shape),) = shapes.items()
        builder = Builder(shape, batch, name, given.allowance)
        return builder, {name: builder.input}
    raw = given.columns
    described = input_columns(schema, raw) if schema.inputs and reads == "auto" else []
    fed: dict[str, Table | Value] = {}
    for name, shape in shapes.items():
        size = int(np.prod(shape, dtype=object))
        if name in raw and (len(shapes) > 1 or size == 1):
            own = isinstance(schema.inputs.get(name), Mapping)
            columns = [each for each in described if own and each.name == name] or [raw[name]]
        elif len(shapes) == 1:
            columns = model_columns(given, width=size or None)
        else:
            raise NetworkError(_absent(f"it reads an input '{name}'", name, raw).reason)
        if size not in (0, len(columns)):
            raise NetworkError(f"its input '{name}' has {size} numbers where {len(columns)} arrive.")
        fed[name] = Table(tuple(columns), shape if size else (len(columns),))
    return Builder((schema.width,), batch, "individual", given.allowance), fed


# -- [model.inputs]


def input_columns(schema: Schema, raw: Mapping[str, Column]) -> list[Column]:
    """Return the columns that ``[model.inputs]`` makes of ``raw`` ones, one for each number that the model reads."""
    tables = {key: value for key, value in schema.inputs.items() if isinstance(value, Mapping)}
    with reading("[model.inputs]", kind=SchemaError):
        _known_keys({key: 0 for key in schema.inputs if key not in tables}, ("columns", "scale"))
        order = schema.inputs.get("columns", [feature.name for feature in schema.features if feature.seen])
        if not isinstance(order, list) or not order or not all(isinstance(each, str) for each in order):
            raise NetworkError(f"key 'columns' must be a list of column names. Got {order!r}.")
        for key in (*tables, *order):
            _one_of(key, raw, "column of the schema")
        unused = next((key for key in tables if key not in order), None)
        if unused is not None:
            raise NetworkError(f"it has a table for {unused!r}, a column that 'columns' does not list.")
    made: list[Column] = []
    for name in order:
        with reading(f"[model.inputs.{name}]", kind=SchemaError):
            start, usual = schema.slices[name].start, schema.inputs.get("scale", "none")
            made += _inputs(raw[name], start, tables.get(name, {}), usual)
    return made


def _inputs(column: Column, start: int, table: _Entries, usual: Any) -> list[Column]:
    """Return the model's columns of a raw one: encoded, then filled, then scaled, then the indicator of a gap."""
    encode = "number"
    if isinstance(column, Choice):
        encode = "onehot" if column.marks else "ordinal"
    encode = table.get("encode", encode)
    if "scale" in table and "encode" not in table:
        encode = "number" if _numeric(column) else "ordinal"
    own, encoding = _one_of(encode, _ENCODINGS, "encoding")
    scale = table.get("scale", "none" if isinstance(column, Choice) or encode != "number" else usual)
    keys = _one_of(scale, _SCALES, "scale")
    _known_keys(table, ("scale", "encode", "missing", "indicator", *own, *keys))
    read = encoding(column, table)
    if scale == "coordinate":
        if isinstance(column, Choice) and column.rank is None:
            raise NetworkError('the coordinates of a category are its one-hot block: write encode = "onehot".')
        read = [Number(column.name, preprocessing.ExactAffine.coordinate(start))]
    elif scale != "none" or encode != "index":
        parts = {part: _number(table, key) for key, part in keys.items() if key != "to"}
        if scale == "minmax":
            ends = table.get("to", [0, 1])
            if not isinstance(ends, list) or len(ends) != 2:
                raise NetworkError(f"key 'to' must be two numbers such as [-1, 1]. Got {ends!r}.")
            low, high = (exact(end, "key 'to'") for end in ends)
            parts |= {"over": parts["over"] - parts["minus"], "times": high - low, "plus": low}
        filled = [_filled(as_number(each), column, table) for each in read]
        read = preprocessing.scaled(filled, **{part: [value] for part, value in parts.items()})
    wanted = table.get("indicator", False)
    if not isinstance(wanted, bool):
        raise NetworkError(f"key 'indicator' must be true or false. Got {wanted!r}.")
    flag = preprocessing.indicator(column)
    if wanted and flag is None:
        raise NetworkError(
            "the schema does not let this column be missing, so it has no indicator: give the feature a 'fill', or "
            'missing = "category".'
        )
    return [*read, Number(column.name, flag)] if wanted and flag is not None else read


def _numeric(column: Column) -> bool:
    """Say whether a column can be read as a number without an encoding."""
    try:
        as_number(column)
    except NetworkError:
        return False
    return True


def _filled(number: Number, column: Column, table: _Entries) -> Number:
    """Fill missing cells by the table's number, else by the schema's."""
    if "missing" in table:
        return number.imputed(_number(table, "missing"))
    if isinstance(column, Choice) and column.rank is None:
        return number  # no fill in the schema: refused where it would be read
    return number if isinstance(column, Absent) else number.imputed(column.filled)


def _onehot(column: Column, table: _Entries) -> list[Column]:
    choice = as_choice(column)
    names = _categories(choice, table)
    drop = table.get("drop", "none")
    dropped = ... if drop in ("none", "if_binary") else cell_of(drop)
    if drop == "first" or (drop == "if_binary" and len(names) == 2):
        dropped = names[0]
    elif dropped is not ... and dropped not in names:
        raise NetworkError(f"key 'drop' must be first, if_binary or one of the categories. Got {drop!r}.")
    return preprocessing.one_hot(choice, names, _unknown(choice, "categories"), dropped)


def _position(column: Column, table: _Entries) -> list[Column]:
    choice = as_choice(column)
    gap = choice.flag is None or table.get("encode") == "index"  # else a missing cell has no position, but a fill
    places = {name: place for place, name in enumerate(_categories(choice, table, gap))}
    refuse = _unknown(choice, "categories")

    def unknown(cells: tuple[str | None, ...]) -> Any:
        return None if not gap and None in cells else refuse(cells)

    return [preprocessing.relabelled(choice, places, unknown)]


def _values(column: Column, table: _Entries) -> list[Column]:
    choice, given = as_choice(column), table.get("values")
    if not isinstance(given, Mapping):
        raise NetworkError(f"it needs 'values', such as {{ female = 0, male = 1 }}. Got {given!r}.")
    known = {cell_of(name): exact(value, f"the value of {name!r}") for name, value in given.items()}
    return [choice.numbers(choice.entries(known, _unknown(choice, "values")))]


def _categories(choice: Choice, table: _Entries, gap: bool = True) -> list[Any]:
    """Return the categories in the model's order."""
    listed = table.get("categories")
    if listed is None:
        return [cells[0] for cells in choice.spellings][: len(choice.spellings) - (not gap)]
    names = [cell_of(each) for each in listed] if isinstance(listed, list) else []
    if not names or len(set(names)) != len(names):
        raise NetworkError(f"key 'categories' must be a list of different names. Got {listed!r}.")
    return names


def _unknown(choice: Choice, key: str) -> preprocessing.Unknown:
    def refuse(cells: tuple[str | None, ...]) -> Any:
        raise preprocessing.unknown_to(f"key {key!r}, which lacks {preprocessing.shown(cells[0])}", choice.name, cells)

    return refuse


# scale -> its keys, and which part of (value - minus) * times / over + plus each of them is
_SCALES: dict[str, dict[str, str]] = {
    "none": {},
    "coordinate": {},
    "standard": {"mean": "minus", "std": "over"},
    "robust": {"center": "minus", "scaling": "over"},
    "maxabs": {"max": "over"},
    "affine": {"factor": "times", "offset": "plus"},
    "minmax": {"min": "minus", "max": "over", "to": "plus"},
}
# encoding -> its keys, and the columns that it makes
_ENCODINGS: dict[str, tuple[tuple[str, ...], Callable[[Column, _Entries], list[Column]]]] = {
    "number": ((), lambda column, table: [as_number(column)]),
    "onehot": (("categories", "drop"), _onehot),
    **dict.fromkeys(("ordinal", "index"), (("categories",), _position)),
    "values": (("values",), _values),
}


def _number(table: _Entries, key: str) -> Fraction:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NetworkError(f"it needs {key!r}, a number. Got {value!r}.")
    return exact(value, f"key {key!r}")


def _one_of(key: Any, known: Mapping[str, Any], what: str) -> Any:
    if not isinstance(key, str) or key not in known:
        raise NetworkError(f"{key!r} is not a {what}; {nearest(str(key), known, 'these are:')}")
    return known[key]


def _known_keys(table: _Entries, known: Sequence[str]) -> None:
    for key in table:
        _one_of(key, dict.fromkeys(known), "key that belongs here")
