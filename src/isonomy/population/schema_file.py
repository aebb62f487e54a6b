"""Schemas as TOML files that are pleasant to write by hand; ``docs/tutorials/python.md`` has an example.

The keys of the top level, of ``[label]``, ``[split]`` and ``[features.<column>]`` are the fields of ``Schema``,
``Label``, ``Split`` and ``Feature``. A kind that is left out is categorical where there are categories, else numeric.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isonomy.errors import SchemaError
from isonomy.population.encoding import text_of
from isonomy.population.feature import Feature, Label, Split
from isonomy.population.toml import read_text, read_toml, refuse_unknown, write_key, write_table

if TYPE_CHECKING:
    from isonomy.population.schema import Schema

CATEGORIES = 2**14
"""Categories and numbers of all features together: each is a coordinate, for which every matrix has a column."""

_HEADER = """\
# Who is judged, and in which coordinates: a number becomes (value - origin) / unit, a category one-hot.
# Kinds of features: numeric, integer, ordinal (categories in order), categorical.
"""


def read_schema(source: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments of ``Schema`` from a TOML file or TOML text; every mistake names its table and key."""
    written = isinstance(source, str) and ("\n" in source or "=" in source)
    text = str(source) if written else read_text(Path(source), "Schema file")
    content = read_toml(text, "The text" if written else f"File {source}", error=SchemaError)
    refuse_unknown(content, (*_TOP, "label", "split", "features", "model"), "The top level", SchemaError)
    model = _table(content.get("model", {}), "model")
    refuse_unknown(model, ("inputs",), "[model]", SchemaError)
    features = _table(content.get("features", {}), "features")
    _check_size(features)
    top = {key: _value(kind, content[key], repr(key)) for key, kind in _TOP.items() if key in content}
    tables = {
        "label": Label(**_read(content["label"], _LABEL, "[label]")) if "label" in content else None,
        "split": Split(**_read(content["split"], _SPLIT, "[split]")) if "split" in content else None,
        "features": tuple(_read_feature(name, table) for name, table in features.items()),
        "inputs": _table(model.get("inputs", {}), "model.inputs"),
    }
    return {"name": "schema"} | top | tables


def write_schema(schema: Schema) -> str:
    """Return the text of a schema; entries at their defaults are left out, origin and unit never."""
    top = {key: getattr(schema, key) for key in _TOP} | {"description": schema.description or None}
    tables: dict[str, Any] = {"label": schema.label, "split": schema.split}
    tables |= {f"features.{write_key(feature.name)}": feature for feature in schema.features}
    parts = [write_table(header, _entries(part)) for header, part in tables.items() if part is not None]
    inputs = [write_table("model.inputs", schema.inputs)] if schema.inputs else []
    return "\n".join([_HEADER + "\n" + write_table("", top), *parts, *inputs])


def _check_size(features: Mapping[str, Any]) -> None:
    """Refuse more coordinates than can be computed with."""
    total = 0
    for name, table in features.items():
        levels = table.get("categories") if isinstance(table, dict) else None
        total += max(len(levels), 1) if isinstance(levels, list) else 1
        if total > CATEGORIES:
            raise SchemaError(
                f"[features.{write_key(name)}] brings the number of categories and features above {CATEGORIES:,}; "
                "group rare categories together."
            )


def _read_feature(name: str, table: Any) -> Feature:
    entries = _read(table, _FEATURE, f"[features.{write_key(name)}]")
    entries.setdefault("kind", "categorical" if "categories" in entries else "numeric")
    return Feature(name, **entries)


def _entries(part: Any) -> dict[str, Any]:
    """Return the entries of a feature, label or split that must be written so that reading gives the same again."""
    implied = {"categorical": ("kind", "origin", "unit", "low", "high"), "ordinal": ("low", "high")}
    unwritten = ("name", *implied.get(getattr(part, "kind", ""), ()))
    entries: dict[str, Any] = {}
    for item in fields(part):
        value = getattr(part, item.name)
        default = item.default_factory() if callable(item.default_factory) else item.default
        unlimited = isinstance(value, float) and math.isinf(value)
        if item.name not in unwritten and value != default and not unlimited:
            entries[item.name] = value
    return entries


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(f"[{name}] must be a table. Got {value!r}.")
    return value


def _read(table: Any, kinds: Mapping[str, str], where: str) -> dict[str, Any]:
    entries = _table(table, where.strip("[]"))
    refuse_unknown(entries, kinds, where, SchemaError)
    if "column" in kinds and "column" not in entries:
        raise SchemaError(f"{where} needs a key 'column'.")
    return {key: _value(kinds[key], value, f"{where} key {key!r}") for key, value in entries.items()}


def _value(kind: str, value: Any, where: str) -> Any:
    """Return what stands under a key, read by the written type of its field."""
    if kind == "Mapping[str, str]":
        return {key: _value("str", word, where) for key, word in _table(value, where).items()}
    if kind == "float | str | None":
        kind = "str" if isinstance(value, str) else "float"
    if kind == "tuple[str, ...]" and where.endswith("'favourable'") and not isinstance(value, list | dict):
        value = [value]  # one class needs no brackets
    right, expected, convert = _READERS.get(kind, _READERS["str"])
    if not right(value):
        raise SchemaError(f"{where} must {expected}. Got {value!r}.")
    if kind == "tuple[str, ...]":
        return tuple(_value(_NAME, item, where) for item in value)
    return convert(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


_NAME = "a category, class or cell"  # which may be a number without quotes
_READERS: dict[str, tuple[Callable[[Any], bool], str, Callable[[Any], Any]]] = {
    "str": (lambda value: isinstance(value, str), "be a text in quotes", str),
    "float": (_is_number, "be a number", float),
    "float | None": (_is_number, "be a number", float),
    "bool": (lambda value: isinstance(value, bool), "be true or false", bool),
    "tuple[str, ...]": (lambda value: isinstance(value, list), 'be a list such as ["a", "b"]', tuple),
    _NAME: (lambda value: not isinstance(value, dict | list), "hold names", text_of),
}
_TOP = {"name": "str", "description": "str", "weight": "str", "max_weight": "float", "id": "str"}
# Annotations are texts here, so each field is read by its written type.
_FEATURE = {item.name: str(item.type) for item in fields(Feature) if item.name != "name"}
_LABEL = {item.name: str(item.type) for item in fields(Label)}
_SPLIT = {"column": "str", "train": _NAME, "test": _NAME}
