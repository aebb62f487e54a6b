"""A model that says nothing about its columns: which reading of them makes it predict best?

A network file knows how many numbers it reads, not which. Every usual reading that gives this many numbers (order of
columns, one-hot or codes, scaled or not) is tried on the table, and the one under which the known outcomes are most
likely is proposed. It stays a guess: reference predictions of the original model are the proof
(:func:`isonomy.check_predictions`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import IsonomyError, NetworkError
from isonomy.networks import Network
from isonomy.networks.load import open_network
from isonomy.population import Feature, Population, Schema

ROWS = 2000
"""Individuals on whom readings are compared."""


@dataclass(frozen=True)
class Reading:
    """How a model is proposed to be read. ``known`` when the file itself says so."""

    inputs: Mapping[str, Any]
    options: Mapping[str, str]  # head, activation, reads: what load_network has to be told
    what: str
    known: bool = False
    score: float = -math.inf
    accuracy: float | None = None
    problem: str = ""  # why no reading fits


def guess_reading(model: Path, people: Population) -> tuple[Reading, list[Reading]]:
    """The reading under which the outcomes are most likely, and all that fit, best first."""
    schema = people.schema
    options, width, problem = _told(model, schema)
    if width is None:  # the file names its columns, or cannot be read at all
        try:
            network = open_network(model, schema, **options)
        except NetworkError as error:
            return Reading({}, options, "", problem=problem or str(error)), []
        reading = _scored(Reading({}, options, "as the model file itself says", known=True), network, people)
        return reading, [reading]
    fitting = []
    for reading in _readings(schema, people, width, options):
        try:
            network = open_network(model, replace(schema, inputs=reading.inputs), **reading.options)
        except IsonomyError:
            continue
        fitting.append(_scored(reading, network, people))
    fitting.sort(key=lambda reading: -reading.score)
    if fitting:
        return fitting[0], fitting
    raw, onehot = len(schema.features), schema.width
    problem = (
        f"the model reads {width} numbers; these features give {raw} columns, or {onehot} numbers with categories "
        "one-hot: write [model.inputs]"
    )
    return Reading({}, options, "", problem=problem), []


def _told(model: Path, schema: Schema) -> tuple[dict[str, str], int | None, str]:
    """What has to be said to read the file, the numbers it reads if it does not name them, and what went wrong."""
    two = schema.label is not None and len(schema.label.classes) == 2
    head = "sigmoid" if two else "softmax" if schema.label is not None and schema.label.classes else "regression"
    attempts: list[dict[str, str]] = [{}, {"head": head}, {"activation": "relu"}, {"activation": "relu", "head": head}]
    problem = ""
    for given, about in itertools.product(attempts, (None, schema)):
        try:
            network = open_network(model, about, **given)
        except NetworkError as error:
            problem = str(error)  # of the last attempt, which says most
            continue
        given = given | ({"head": network.head} if network.assumed_head else {})
        return given, network.input_width if about is None else None, ""
    return {}, None, problem


def _readings(schema: Schema, people: Population, width: int, options: dict[str, str]) -> Iterator[Reading]:
    """Every usual reading; whether its count is right is found out by trying."""
    yield Reading({}, options, "as its names or their number say")
    yield Reading({}, {**options, "reads": "coordinates"}, "the coordinates of the schema as they are")
    yield Reading({}, {**options, "reads": "raw"}, "raw columns in the order of the schema")
    orders = {}
    seen = tuple(each for each in schema.features if not each.protected)
    for left_out, some in (("", schema.features), (", without the protected columns", seen)):
        orders[f"in the order of the table{left_out}"] = some
        numbers_first = sorted(some, key=lambda each: each.kind in ("categorical", "ordinal"))
        orders[f"numbers first, then categories{left_out}"] = tuple(numbers_first)
    encodings: dict[str, dict[str, Any]] = {
        "one-hot": {},
        "one-hot without the first": {"drop": "first"},
        "one-hot, two categories as one column": {"drop": "if_binary"},
        "as codes": {"encode": "ordinal"},
    }
    for (order, features), (encoding, table) in itertools.product(orders.items(), encodings.items()):
        if not features or _count(features, table) != width:
            continue
        for scale in ("none", "standard", "minmax"):
            inputs: dict[str, Any] = {"columns": [each.name for each in features]}
            for each in features:
                if each.kind in ("categorical", "ordinal"):
                    inputs |= {each.name: dict(table)} if table and each.kind == "categorical" else {}
                elif scale != "none":
                    inputs[each.name] = _scale(scale, people.frame[each.name].to_numpy(dtype=float, na_value=np.nan))
            words = {"none": "numbers as they are", "standard": "numbers standardised", "minmax": "numbers from 0 to 1"}
            yield Reading(inputs, options, f"{order}, {words[scale]}, categories {encoding}")


def _count(features: tuple[Feature, ...], table: Mapping[str, Any]) -> int:
    def numbers(each: Feature) -> int:
        if each.kind != "categorical" or table.get("encode") == "ordinal":
            return 1
        binary = table.get("drop") == "if_binary" and len(each.levels) == 2
        return len(each.levels) - (table.get("drop") == "first" or binary)

    return sum(map(numbers, features))


def _scale(scale: str, values: FloatArray) -> dict[str, Any]:
    values = values[np.isfinite(values)]
    if scale == "standard":
        return {"scale": scale, "mean": float(f"{values.mean():.9g}"), "std": float(f"{values.std():.9g}") or 1.0}
    low, high = float(values.min()), float(values.max())
    return {"scale": scale, "min": low, "max": high if high > low else low + 1.0}


def _scored(reading: Reading, network: Network, people: Population) -> Reading:
    """How likely the outcomes are, and how often the largest output is right."""
    label = people.schema.label
    some = people if len(people) <= ROWS else people.sample(ROWS)
    if some.y is None or label is None or network.input_width != some.x.shape[1]:
        return reading
    with np.errstate(all="ignore"):
        given = network(some.x)
        if label.regression:
            return replace(reading, score=-float(np.mean((given[:, 0] - some.y) ** 2)))
        if given.shape[1] != len(label.classes):
            return reading
        y = np.asarray(some.y, dtype=np.int64)
        likely = float(np.mean(np.log(np.clip(given[np.arange(len(y)), y], 1e-6, 1))))
        score = likely if math.isfinite(likely) else -math.inf
        return replace(reading, score=score, accuracy=float(np.mean(given.argmax(axis=1) == y)))
