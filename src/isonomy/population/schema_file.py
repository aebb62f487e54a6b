"""Schemas as TOML files that are pleasant to write by hand.

.. code-block:: toml

    name = "loans"
    weight = "sampling_weight"
    max_weight = 5000                # the largest that can occur, known beforehand; see isonomy.wasserstein

    [label]
    column = "repaid"
    classes = ["no", "yes"]          # in the order of the model's outputs; leave out for a regression

    [features.age]
    kind = "integer"                 # numeric (default), integer, ordinal, categorical
    low = 18
    high = 100                       # coordinate = (age - 18) / 82 unless origin and unit say otherwise
    protected = true

    [features.sex]                   # categorical, since it has categories
    categories = ["female", "male"]
    protected = true
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isonomy.errors import FileError, SchemaError
from isonomy.population.encoding import text_of
from isonomy.population.feature import Feature, Label, Split
from isonomy.population.toml import TEXT, read_toml, write_key, write_table

if TYPE_CHECKING:
    from isonomy.population.schema import Schema

CATEGORIES = 2**14
"""Categories and numbers of all features together: each is a coordinate, for which every matrix has a column."""

_HEADER = """\
# Who is judged, and in which coordinates: a number becomes (value - origin) / unit, a category one-hot.
# Kinds of features: numeric, integer, ordinal (categories in order), categorical.
"""


def read_schema(source: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of ``Schema`` from a TOML file or TOML text; every mistake names its table and key."""
    text, where = _text(source)
    try:
        content = read_toml(text, where)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"{where} is not valid TOML: {error}.") from error
    known = ("name", "description", "weight", "max_weight", "label", "split", "features", "model")
    _check_keys(content, known, "The top level")
    model = _table(content.get("model", {}), "model")
    _check_keys(model, ("inputs",), "[model]")
    features = _table(content.get("features", {}), "features")
    _check_size(features)
    return {
        "name": _as_text(content.get("name", "schema"), "'name'"),
        "description": _as_text(content.get("description", ""), "'description'"),
        "weight": None if "weight" not in content else _as_text(content["weight"], "'weight'"),
        "max_weight": None if "max_weight" not in content else _as_number(content["max_weight"], "'max_weight'"),
        "label": Label(**_read(content["label"], _LABEL, "[label]")) if "label" in content else None,
        "split": Split(**_read(content["split"], _SPLIT, "[split]")) if "split" in content else None,
        "features": tuple(_read_feature(name, table) for name, table in features.items()),
        "inputs": _table(model.get("inputs", {}), "model.inputs"),
    }


def write_schema(schema: Schema) -> str:
    """The text of a schema; entries at their defaults are left out, origin and unit never."""
    top: dict[str, Any] = {"name": schema.name, "description": schema.description or None, "weight": schema.weight}
    top["max_weight"] = schema.max_weight
    parts = [_HEADER + "\n" + write_table("", top)]
    if schema.label:
        parts.append(write_table("label", _entries(schema.label)))
    if schema.split:
        parts.append(write_table("split", _entries(schema.split)))
    parts += [write_table(f"features.{write_key(f.name)}", _entries(f)) for f in schema.features]
    if schema.inputs:
        parts.append(write_table("model.inputs", schema.inputs))
    return "\n".join(parts)


def _check_size(features: Mapping[str, Any]) -> None:
    """Not more coordinates than anything can be computed with."""
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


def _entries(part: Feature | Label | Split) -> dict[str, Any]:
    """What has to be written down so that reading gives the same again."""
    entries: dict[str, Any] = {}
    for item in fields(part):
        value = getattr(part, item.name)
        default = item.default_factory() if callable(item.default_factory) else item.default
        unlimited = isinstance(value, float) and math.isinf(value)
        if item.name != "name" and value != default and not unlimited:
            entries[item.name] = value
    if isinstance(part, Feature):
        if part.kind == "categorical":
            implied: tuple[str, ...] = ("kind", "origin", "unit", "low", "high")
        else:
            implied = ("low", "high") if part.kind == "ordinal" else ()
        entries = {key: value for key, value in entries.items() if key not in implied}
    return entries


def _text(source: str | os.PathLike[str]) -> tuple[str, str]:
    if isinstance(source, str) and ("\n" in source or "=" in source):
        return source, "The text"
    path = Path(source)
    try:
        if path.stat().st_size > 4 * TEXT:  # characters have up to four bytes
            raise FileError(f"Schema file {path} is longer than {TEXT >> 20} MiB.")
        return path.read_text(encoding="utf-8"), f"File {path}"
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise FileError(f"Schema file {path} cannot be read: {reason}.") from error


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(f"[{name}] must be a table. Got {value!r}.")
    return value


def _check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    known = tuple(known)
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            advice = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(map(repr, known))}."
            raise SchemaError(f"{where} has an unknown key {key!r}; {advice}")


def _read(table: Any, readers: Mapping[str, Callable[[Any, str], Any]], where: str) -> dict[str, Any]:
    entries = _table(table, where.strip("[]"))
    _check_keys(entries, readers, where)
    if "column" in readers and "column" not in entries:
        raise SchemaError(f"{where} needs a key 'column'.")
    return {key: readers[key](value, f"{where} key {key!r}") for key, value in entries.items()}


def _as_text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise SchemaError(f"{where} must be a text in quotes. Got {value!r}.")
    return value


def _as_number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise SchemaError(f"{where} must be a number. Got {value!r}.")
    return float(value)


def _as_switch(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise SchemaError(f"{where} must be true or false. Got {value!r}.")
    return value


def _as_name(value: Any, where: str) -> str:
    """A category, class or cell: numbers may be written without quotes."""
    if isinstance(value, (dict, list)):
        raise SchemaError(f"{where} must hold names. Got {value!r}.")
    return text_of(value)


def _as_names(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise SchemaError(f'{where} must be a list such as ["a", "b"]. Got {value!r}.')
    return tuple(_as_name(item, where) for item in value)


def _as_words(value: Any, where: str) -> dict[str, str]:
    return {key: _as_text(word, where) for key, word in _table(value, where).items()}


def _as_fill(value: Any, where: str) -> float | str:
    return value if isinstance(value, str) else _as_number(value, where)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "str": _as_text,
    "FeatureKind": _as_text,
    "Missing": _as_text,
    "float": _as_number,
    "float | None": _as_number,
    "bool": _as_switch,
    "tuple[str, ...]": _as_names,
    "Mapping[str, str]": _as_words,
    "float | str | None": _as_fill,
}
# Annotations are texts here, so each field finds its reader by its written type.
_FEATURE = {item.name: _READERS[str(item.type)] for item in fields(Feature) if item.name != "name"}
_LABEL = {item.name: _READERS[str(item.type)] for item in fields(Label)}
_SPLIT = {"column": _as_text, "train": _as_name, "test": _as_name}
