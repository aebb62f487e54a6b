"""The individuals of a problem: from what a caller gave to coordinates and weights."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, ParameterError, template
from isonomy.given import instance, numbers
from isonomy.model import Model
from isonomy.population import PeopleSource, Population, Schema, open_people
from isonomy.population.sources import InMemory
from isonomy.problem import Problem, unbounded
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import MAX_BRANCHES

NOTHING = {"schema": None, "domain": None, "favourable": None, "threshold": None, "max_branches": MAX_BRANCHES}
"""Keywords that are parts of a problem, and their values where they are left out."""


def pose(
    model: Model | Problem, people: Any, metric: Metric | None, delta: float | None, keywords: Mapping[str, Any]
) -> Problem:
    """Return the problem about ``people``: the given one, or that of a model with the parts among the keywords.

    A population brings its own schema, and its domain unless a kind of domain is named. An array (n, m) without a
    domain means all of ``R^m``.
    """
    parts = {name: keywords[name] for name in NOTHING if keywords.get(name, NOTHING[name]) is not NOTHING[name]}
    if isinstance(model, Problem):
        given = {"metric": metric, "delta": delta} | parts
        extra = next((name for name, value in given.items() if value is not None or name in parts), None)
        if extra is not None:
            raise ParameterError(f"'{extra}' must be left out beside a Problem, which has its own.")
        own = getattr(people, "schema", None)
        if own is not None and own.features != getattr(model.schema, "features", None):
            raise ParameterError("'people' must have the schema of the Problem: their features differ.")
        return model
    if isinstance(people, Population):
        parts = {"domain": people.domain} | parts | {"schema": people.schema}
    elif isinstance(people, np.ndarray):
        parts = {"domain": unbounded(people.shape[1])} | parts
    return Problem.of(model, metric, delta, **parts)  # type: ignore[arg-type]


def in_memory(people: Any, schema: Schema | None) -> Population | FloatArray:
    """Return a population, of a table by its schema, or an array (n, m) that nothing else writes to."""
    check_people(people, schema)
    if isinstance(people, Population) and schema is None:
        return people
    if schema is not None or isinstance(people, PeopleSource | str | PathLike):
        source = open_people(people, schema)
        if not isinstance(source, InMemory):
            raise ParameterError(
                "'people' is read in parts, as isonomy.certify does: give a Population of all of them."
            )
        return source.people
    x = numbers("people", people, "a Population or a table of numbers", DataError)
    if x.ndim != 2:
        raise ParameterError(template("people", "a Population or a table of numbers", f"shape {x.shape}"))
    if not len(x):
        raise DataError("There are no individuals: the table is empty.")
    return x.copy()  # callers may write to theirs later


def check_people(people: Any, schema: Schema | None) -> None:
    """Refuse a table without a schema, which says what its columns mean, and a schema beside what has no columns."""
    if schema is not None:
        instance("schema", schema, Schema, "a Schema")
    if isinstance(people, Population | PeopleSource | str | PathLike):
        return
    if hasattr(people, "columns") and schema is None:
        raise ParameterError(
            f"'schema' must be given beside 'people', a {type(people).__name__}: it says what the columns mean, and "
            "Schema.infer(frame) makes a first one; coordinates are given as an array, such as frame.to_numpy()."
        )
    if schema is not None and not hasattr(people, "columns"):
        expected = "a Population, a table or the path of one, or a Dask data frame"
        raise ParameterError(template("people", expected, type(people).__name__))
