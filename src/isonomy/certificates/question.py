"""A question: a model, individuals, a metric and δ, brought to the same coordinates and checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from os import PathLike
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.brief import brief
from isonomy.certificates.protocol import Model
from isonomy.errors import DataError, NetworkError, ParameterError, UnsupportedOperationError, template
from isonomy.given import instance, numbers, whole
from isonomy.networks.graph import Affine
from isonomy.networks.network import Network
from isonomy.population import Domain, DomainKind, PeopleSource, Population, Schema, open_people
from isonomy.population.feature import Label
from isonomy.population.outcome import NO_OUTCOME, outcome_of
from isonomy.population.sources import InMemory
from isonomy.similarity.counterparts import Counterparts
from isonomy.similarity.metric import Metric, checked_delta
from isonomy.similarity.regions import MAX_BRANCHES, Similarity, cached_similarity

ROWS = 65_536
"""Rows checked at a time, so that checking needs no second table."""


@dataclass(frozen=True, eq=False)
class Question:
    """A model on the individuals' own coordinates, and the metric and δ that say who is similar."""

    model: Model
    metric: Metric
    delta: float
    x: FloatArray
    weights: FloatArray
    domain: Domain
    schema: Schema | None
    max_branches: int = MAX_BRANCHES
    outcome: Label = NO_OUTCOME  # what is decided: classes, the favourable ones, the cut-off

    __repr__ = brief

    @classmethod
    def of(
        cls,
        model: Model,
        people: Population | npt.ArrayLike,
        metric: Metric,
        delta: float,
        domain: Domain | DomainKind | None = None,
        max_branches: int = MAX_BRANCHES,
        *,
        favourable: str | Sequence[str] | None = None,
        threshold: float | None = None,
    ) -> Question:
        """Check everything that the caller gave, and put the adapter in front of the network.

        An array without a domain means the unbounded one. A population brings its own domain, unless another
        kind is named. ``favourable`` and ``threshold`` are those of the schema's label unless they are given.
        """
        check_model_and_metric(model, metric)
        delta, max_branches = checked_delta(delta), whole("max_branches", max_branches)
        schema: Schema | None = None
        if isinstance(people, Population):
            schema, x, weights = people.schema, people.x, people.weights
            space = people.domain if domain is None else _domain(domain, people.schema)
            model = on_all_coordinates(model, people.schema)
        else:
            check_people(people, None)
            x = numbers("people", people, "a Population or a table of numbers", DataError)
            if x.ndim != 2:
                raise ParameterError(template("people", "a Population or a table of numbers", f"shape {x.shape}"))
            x, weights = x.copy(), np.ones(len(x))  # callers may write to theirs later
            space = _domain("unbounded" if domain is None else domain, None, x.shape[1])
        if not len(x):
            raise DataError("There are no individuals: the table is empty.")
        if x.shape[1] != space.width:
            raise DataError(f"The individuals have {x.shape[1]} coordinates but the domain has {space.width}.")
        if model.input_width != x.shape[1]:
            raise NetworkError(
                f"'{model.name}' reads {model.input_width} numbers but the individuals have {x.shape[1]} "
                "coordinates: put an adapter in front of it, or name the features that it sees in the schema."
            )
        for start in range(0, len(x), ROWS):
            check_members(x[start : start + ROWS], start, space)
        outcome = resolve_outcome(model, schema, favourable, threshold)
        question = cls(model, metric, delta, x, weights, space, schema, max_branches, outcome)
        _ = question.similarity  # checks metric and delta
        return question

    @cached_property
    def similarity(self) -> Similarity:
        """Return the similar sets of the individuals."""
        return cached_similarity(self.metric, self.delta, self.domain, self.max_branches)

    @property
    def network(self) -> Network:
        """Return the model where it is a network; refuse others."""
        if not isinstance(self.model, Network):
            raise UnsupportedOperationError(
                f"'{self.model.name}' is a model of kind '{self.model.kind}': records and their checker, reports, the "
                "service and certify_everywhere know networks only."
            )
        return self.model

    def raw(self, x: FloatArray) -> pd.DataFrame:
        """Return individuals (n, m) in raw units, or in coordinates where there is no schema."""
        if self.schema is not None:
            return self.schema.decode(x, words=True)
        return pd.DataFrame(x, columns=list(self.domain.names))


def resolve_outcome(
    model: Model,
    schema: Schema | None,
    favourable: str | Sequence[str] | None = None,
    threshold: float | None = None,
) -> Label:
    """Return the outcome that a model decides: that of the schema's label, but for what is given.

    Without a label, classes have the names that the model gives them, or their numbers.
    """
    count = 2 if model.head == "sigmoid" and model.classes == 1 else model.classes
    label = None if schema is None else schema.label
    if label is None and len(set(model.named)) == count and model.head != "regression":
        label = Label("", model.named)
    outcome = outcome_of(label, 0 if model.head == "regression" else count, favourable, threshold)
    if outcome.threshold is not None and model.classes > (2 if model.head == "softmax" else 1):
        raise ParameterError(
            f"'threshold' needs two classes or one number; '{model.name}' has {model.classes} outputs, "
            f"{'numbers' if model.head == 'regression' else 'each a probability by itself'}."
        )
    return outcome


def people_of(people: Any, schema: Schema | None) -> Any:
    """Return the population of a table in memory, by its schema; a population or an array as it is."""
    check_people(people, schema)
    if schema is None and not isinstance(people, PeopleSource | str | PathLike):
        return people
    source = open_people(people, schema)
    if not isinstance(source, InMemory):
        raise ParameterError("'people' is read in parts, as isonomy.certify does: give a Population of all of them.")
    return source.people


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


def own_delta(metric: Any, delta: Any) -> Any:
    """Return the given δ, else that of :class:`Counterparts`, whose tolerances are in units of 1."""
    return metric.own_delta if delta is None and isinstance(metric, Counterparts) else delta


def check_members(x: FloatArray, start: int, space: Domain) -> None:
    """Refuse the first row that is not a possible individual, with its reason."""
    outside = ~space.contains(x)
    if not outside.any():
        return
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        where = f"Row {start + row}, coordinate '{space.names[column]}'"
        raise DataError(f"{where} is {x[row, column]}: it must be finite.")
    row = int(np.flatnonzero(outside)[0])
    raise DataError(f"Row {start + row} is not in the {space.kind} domain: {_why_outside(space, x[row])}.")


def check_model_and_metric(model: Any, metric: Any) -> None:
    """Refuse what is no model or no metric; the error says how to make one."""
    instance(
        "model", model, (Network, Model),  # a protocol takes its time
        "an isonomy.Network, as load_network(path), Network.from_torch(module) and Network.from_sklearn(model) give",
    )  # fmt: skip
    instance(
        "metric", metric, Metric, "a metric, such as isonomy.Counterparts.of(schema) or isonomy.WeightedLp(weights)"
    )


def _domain(domain: Any, schema: Schema | None, width: int = 0) -> Domain:
    if isinstance(domain, Domain):
        return domain
    if schema is not None:
        return schema.domain(domain)
    if domain == "unbounded":
        return _unbounded(width)
    raise ParameterError(template("domain", "a Domain or 'unbounded' when individuals come without a schema", domain))


_unbounded = lru_cache(Domain.unbounded)


AnyModel = TypeVar("AnyModel", bound=Model)


def on_all_coordinates(model: AnyModel, schema: Schema) -> AnyModel:
    """Return the model on all coordinates of the schema: those that it does not read are dropped in front of it."""
    if model.input_width == schema.width:
        return model
    seen = np.flatnonzero(schema.seen_coordinates)
    if len(seen) == schema.width:
        return model
    if model.input_width != len(seen):
        raise NetworkError(
            f"'{model.name}' reads {model.input_width} numbers, but the schema '{schema.name}' has {schema.width} "
            f"coordinates of which the model sees {len(seen)}."
        )
    if not isinstance(model, Network):
        raise NetworkError(
            f"'{model.name}' reads {len(seen)} of the {schema.width} coordinates of the schema '{schema.name}': a "
            f"model of kind '{model.kind}' has to read all of them."
        )
    return model.adapted(Affine.selection(seen.tolist(), schema.width))  # type: ignore[return-value]


def _why_outside(domain: Domain, x: FloatArray) -> str:
    for i, name in enumerate(domain.names):
        if not domain.low[i] <= x[i] <= domain.high[i]:
            return f"the coordinate '{name}' is {x[i]:.6g}, outside [{domain.low[i]:.6g}, {domain.high[i]:.6g}]"
    for start, stop in domain.blocks:
        names = ", ".join(f"'{name}'" for name in domain.names[start:stop][:3])
        block = x[start:stop]
        one_hot = np.isin(block, (0.0, 1.0)).all() and (stop - start == 1 or block.sum() == 1)
        if domain.kind == "realizable" and not one_hot:
            return f"the categories {names}, … must be one 1 and otherwise 0"
        if stop - start > 1 and abs(block.sum() - 1) > 1e-9:
            return f"the shares {names}, … must add up to 1"
    snapped = domain.snap(x)
    for name, value, nearest in zip(domain.names, x, snapped, strict=True):
        if value != nearest:
            return f"the coordinate '{name}' is {value:.6g} and does not stand for a whole number"
    return "a missing value has another number than its fill"
