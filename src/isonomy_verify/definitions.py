"""Domain and metrics as the files ``schema.toml``, ``metric.toml`` and ``ground.toml`` define them: the only place
where a certificate says who is a possible individual and who counts as alike.

**Soundness.** Texts are a stranger's: their size, the depth of their brackets and the length of their dotted keys are
limited before they are read. A key that is not known where it would change the meaning is refused. The square root of
a weight is rounded down, its inverse up, so that regions cover; these floats are what the metric is.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Domain
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.layout import check_schema
from isonomy_verify.text import BadInput, quoted

TEXT, MATRICES = 2**22, 2**27
"""Characters of a schema, and of a metric, which may hold a matrix."""

TOML_DEPTH, DOTS = 4, 5
"""Brackets within brackets, and dots of a key."""

COORDINATES = 2**14
"""Of an individual."""

_METRICS = {
    "weighted-lp": {"order", "weights"},
    "mahalanobis": {"root"},
    "sensitive-subspace": {"root", "ridge"},
    "explore": {"root"},
    "counterparts": {"free", "tolerance", "relative", "origin", "unit"},
}


def tame_toml(text: str, name: str, most: int = TEXT) -> dict[str, Any]:
    """What a text says, if it is of a reasonable size and depth."""
    if len(text) > most:
        raise BadInput(f"{name} is longer than the {most} characters that are read of it.")
    if '"""' in text or "'''" in text:
        raise BadInput(f"{name} has texts of several lines.")
    unquoted = re.sub(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|\'[^\'\n]*+\'', "s", re.sub(r"(?m)^#.*$", "", text))
    depth = most_deep = 0
    for bracket in re.sub(r"[^][}{]", "", unquoted):
        depth += 1 if bracket in "[{" else -1
        most_deep = max(most_deep, depth)
    if most_deep > TOML_DEPTH or re.search(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{DOTS}}}", unquoted):
        raise BadInput(f"{name} is nested too deeply.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name} is not valid TOML: {quoted(error)}.") from None


def schema_of(text: str) -> dict[str, Any]:
    """The tables of a schema, none of which has a key that is not known."""
    table = tame_toml(text, "schema.toml")
    check_schema(table)
    return table


def domain_of(text: str, kind: str) -> Domain:
    """The possible individuals that a schema describes: the coordinates of its features one after the other.

    A number is ``(value − origin) / unit``, followed by a flag where it has a ``fill``; a category is a one-hot block.
    """
    name, table = "schema.toml", schema_of(text)
    features = table["features"]
    if kind not in ("unbounded", "relaxed", "realizable") or not features:
        raise BadInput(f"{name} has no features, or the certificate no domain.")
    kinds = ("low", "high", "integer", "origin", "unit", "immutable", "names")
    parts: dict[str, list[Any]] = {part: [] for part in kinds}
    blocks: list[tuple[int, int]] = []
    fills: list[tuple[int, int, float]] = []
    for title, feature in features.items():
        start = len(parts["low"])
        columns = _columns(feature, f"{name}, the feature {quoted(title)},")
        columns["names"] = _names(title, feature, len(columns["low"]))
        width, fill = len(columns["low"]), columns.pop("fill")
        if start + width > COORDINATES:
            raise BadInput(f"{name} has more than {COORDINATES} coordinates.")
        if columns.pop("one_hot") and width > 1:
            blocks.append((start, start + width))
        if fill is not None:
            blocks.append((start + 1, start + 2))
            fills.append((start + 1, start, fill))
        for part, values in columns.items():
            parts[part] += values
    names, width = tuple(parts.pop("names")), len(parts["low"])
    arrays = {p: np.array(v, dtype=bool if p in ("integer", "immutable") else float) for p, v in parts.items()}
    if kind == "unbounded":
        nothing = {"low": np.full(width, -np.inf), "high": np.full(width, np.inf), "integer": np.zeros(width, bool)}
        arrays |= nothing | {"origin": np.zeros(width), "unit": np.ones(width)}
        blocks, fills = [], []
    return Domain(kind=kind, blocks=tuple(blocks), fills=tuple(fills), names=names, **arrays)  # type: ignore[arg-type]


def slices_of(features: Mapping[str, Any]) -> dict[str, slice]:
    """Where the coordinates of the features stand; of features that :func:`domain_of` has read."""
    found, start = dict[str, slice](), 0
    for title, feature in features.items():
        width = len(_columns(feature, f"schema.toml, the feature {quoted(title)},")["low"])
        found[title], start = slice(start, start + width), start + width
    return found


def head_of(schema: Mapping[str, Any], asked: Mapping[str, Any], outputs: int) -> Head:
    """The head that a question names: with a cut-off of decisions or none, and the favourable one of two.

    Classes are those of the schema's label where it has as many as the network gives, else "0", "1" and so on; without
    a label the model may name them, which is the issuer's word unless the model file is there. A label with the classes
    says the same of the favourable ones and the cut-off: of two answers one would be the issuer's.
    """
    table = schema.get("label")
    classes, favourable, threshold = (asked[name] for name in ("classes", "favourable", "threshold"))
    count = 2 if asked["head"] in ("sigmoid", "probability") and outputs == 1 else outputs
    count = 0 if asked["head"] == "regression" else count
    own = table.get("classes", []) if isinstance(table, dict) else []
    fits = isinstance(own, list) and len(own) == count
    named = table is None and all(isinstance(name, str) and name for name in classes)
    right = named and len(set(classes)) == len(classes) == count
    if not right and classes != (own if fits else [str(place) for place in range(count)]):
        raise BadInput("The question's 'classes' must be those of the label in schema.toml, or their numbers.")
    known = classes or ["low", "high"]
    texts = isinstance(favourable, list) and all(isinstance(name, str) for name in favourable)
    if not texts or not set(favourable) < set(known) or len(set(favourable)) < len(favourable):
        raise BadInput("The question's 'favourable' must be a list of some, not all, of its classes, or high or low.")
    if isinstance(table, dict) and fits:
        said = table.get("favourable", [])
        if ([said] if isinstance(said, str) else said) != favourable or table.get("threshold") != threshold:
            raise BadInput("The question's 'favourable' and 'threshold' must be those of the label in schema.toml.")
    place = known.index(favourable[0]) if favourable and len(known) == 2 else 1
    if threshold is not None:
        right = type(threshold) in (int, float) and math.isfinite(threshold)
        several = outputs > (2 if asked["head"] == "softmax" else 1)
        if not right or several or (classes and not 0 < threshold < 1):
            raise BadInput("The question's 'threshold' must be null, a probability of two classes, or a finite number.")
        threshold = float(threshold)
    return Head(asked["head"], outputs, threshold, asked["arithmetic"] == "float32", place)


def _columns(feature: Any, where: str) -> dict[str, Any]:
    """The coordinates of one feature, whether they are a one-hot block, and the coordinate of its fill."""
    levels, immutable = feature.get("categories", []), feature.get("immutable", False)
    kind = feature.get("kind", "categorical" if levels else "numeric")
    if len(set(levels)) < len(levels):
        raise BadInput(f"{where} must have 'categories' that are different texts.")
    if kind not in ("numeric", "integer", "ordinal", "categorical") or bool(levels) != (
        kind in ("ordinal", "categorical")
    ):
        raise BadInput(f"{where} must be numeric or integer, or have categories.")
    missing, fill = feature.get("missing", "error") == "category", feature.get("fill")
    filled = fill is None if kind == "categorical" else not missing or (kind == "ordinal" and fill is not None)
    if feature.get("missing", "error") not in ("error", "category") or not filled:
        raise BadInput(f"{where} must have categories and no 'fill' for 'missing' to be one of them, or a 'fill'.")
    if kind == "categorical":
        width = len(levels) + (missing and feature.get("missing_label", "missing") not in levels)
        return {
            "low": [0.0 if width > 1 else 1.0] * width, "high": [1.0] * width, "integer": [False] * width,
            "origin": [0.0] * width, "unit": [1.0] * width, "immutable": [immutable] * width, "one_hot": True,
            "fill": None,
        }  # fmt: skip
    numbers = {"low": -math.inf, "high": math.inf} | feature
    if kind == "ordinal":
        numbers |= {"low": 0.0, "high": len(levels) - 1.0}
    low, high, origin, unit = (_number(numbers.get(key), where) for key in ("low", "high", "origin", "unit"))
    if not (math.isfinite(origin) and 0 < unit < math.inf):
        raise BadInput(f"{where} must have a finite 'origin' and a positive 'unit'.")
    if fill is not None:
        if kind == "ordinal" and fill not in levels:
            raise BadInput(f"{where} must have a 'fill' that is one of its levels.")
        fill = (_number(float(levels.index(fill)) if kind == "ordinal" else fill, where) - origin) / unit
    flag = fill is not None
    whole = kind in ("integer", "ordinal")
    return {
        "low": [(low - origin) / unit, 0.0][: 1 + flag], "high": [(high - origin) / unit, 1.0][: 1 + flag],
        "integer": [whole, False][: 1 + flag], "origin": [origin] * (1 + flag), "unit": [unit] * (1 + flag),
        "immutable": [immutable] * (1 + flag), "one_hot": False, "fill": fill,
    }  # fmt: skip


def _names(title: str, feature: dict[str, Any], width: int) -> list[str]:
    """What the coordinates of a feature are called."""
    missing = feature.get("missing_label", "missing")
    if feature.get("kind", "categorical" if feature.get("categories") else "numeric") != "categorical":
        return [title, f"{title}={missing}"][:width]
    return [f"{title}={level}" for level in (*feature["categories"], missing)][:width]


def _check_coordinates(table: dict[str, Any], name: str, schema: Domain) -> None:
    """Refuse a metric whose names, origins or units are not those of the coordinates of the schema.

    A metric may leave names out. Origin 0 and unit 1 are those of a coordinate of which no ratio is looked at.
    """
    if not isinstance(table.get("fitted_on", ""), str):
        raise BadInput(f"{name} must have a 'fitted_on' that is a text.")
    if "names" in table and table["names"] != list(schema.names):
        raise BadInput(f"{name} must have the names of the schema's coordinates, in their order, or none.")
    if table["kind"] == "counterparts":
        relative, origin, unit = (np.array(table[part]) for part in ("relative", "origin", "unit"))
        plain = (relative == 0) & (origin == 0) & (unit == 1)
        wrong = np.flatnonzero(~plain & ((origin != schema.origin) | (unit != schema.unit)))
        if len(wrong):
            raise BadInput(f"{name}: {quoted(schema.names[wrong[0]])} has another origin or unit than in schema.toml.")


def form_of(text: str, name: str, schema: Domain | None = None) -> Form:
    """The metric that a text describes, on the coordinates of a schema (a bounded domain of it, which has units)."""
    table = tame_toml(text, name, MATRICES)
    parts = _METRICS.get(str(table.get("kind")), set())
    if not parts or not parts <= table.keys() <= parts | {"kind", "width", "fitted_on", "names"}:
        raise BadInput(f"{name} must have a 'kind' of {', '.join(_METRICS)}, and what such a metric has.")
    width = table.get("width")
    if type(width) is not int or not 1 <= width <= COORDINATES:
        raise BadInput(f"{name} must have a 'width': how many coordinates an individual has.")
    single: dict[str, NDArray[Any]] = {
        "free": np.ones(width, dtype=bool), "tolerance": np.zeros(width), "relative": np.zeros(width),
        "origin": np.zeros(width), "unit": np.ones(width),
    }  # fmt: skip
    root, order = np.zeros((0, width)), 2.0
    kind = table["kind"]
    if kind == "counterparts":
        single |= {key: _array(table[key], (width,), name, key == "free") for key in parts}
    elif kind == "weighted-lp":
        weights, order = _array(table["weights"], (width,), name), _number(table["order"], name)
        if order not in (1.0, 2.0, math.inf) or not ((weights >= 0) & (weights < math.inf)).all():
            raise BadInput(
                f"{name} must have an order of 1, 2 or infinity, and weights that are finite and not negative."
            )
        if order == math.inf:
            inverse = np.array([inverse_up(float(w)) if w else 0.0 for w in weights])
            single |= {"free": weights == 0, "tolerance": inverse}
            order = 2.0
        else:
            scale = weights if order == 1 else np.array([root_down(float(w)) for w in weights])
            root = np.diag(scale)[weights > 0]
    else:
        _number(table.get("ridge", 0.0), name)
        rows = table["root"]
        root = root if rows == [] else _array(rows, (len(rows), width), name)
    if schema is not None:
        if width != schema.width:
            raise BadInput(f"{name} is a metric of {width} coordinates, and the schema has {schema.width}.")
        _check_coordinates(table, name, schema)
    return Form(root, order, **single)


def root_down(weight: float) -> float:
    """The largest float whose square is at most ``weight``, or the one below it."""
    root = math.sqrt(weight)
    return root if Fraction(root) ** 2 <= Fraction(weight) else math.nextafter(root, 0.0)


def inverse_up(weight: float) -> float:
    """The smallest float that is at least ``1 / weight``, or the one above it."""
    inverse = 1.0 / weight
    exact = math.isinf(inverse) or Fraction(inverse) * Fraction(weight) >= 1
    return inverse if exact else math.nextafter(inverse, math.inf)


def _array(value: Any, shape: tuple[int, ...], name: str, flags: bool = False) -> Array:
    """Numbers, or true and false, of a shape."""
    rows = value if len(shape) == 2 else [value]
    wanted = (bool,) if flags else (int, float)
    fits = isinstance(rows, list) and len(rows) == (shape[0] if len(shape) == 2 else 1)
    if not fits or any(not isinstance(row, list) or len(row) != shape[-1] for row in rows):
        raise BadInput(f"{name} must have arrays of {shape[-1]} numbers.")
    if any(type(each) not in wanted for row in rows for each in row):
        raise BadInput(f"{name} has entries that are no numbers.")
    found = np.array(value, dtype=bool if flags else np.float64)
    if np.isnan(found).any():
        raise BadInput(f"{name} has entries that are no numbers.")
    return found


def _number(value: Any, where: str) -> float:
    if type(value) not in (int, float) or math.isnan(value):
        raise BadInput(f"{where} has a number missing, or one that is none.")
    return float(value)
