"""A problem: a model, the metric and δ that say who is similar, possible people, and what is decided.

It is checked once and carried whole; the individuals it is asked about are arrays or chunks beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.brief import brief
from isonomy.errors import DataError, NetworkError, ParameterError, template
from isonomy.given import instance, whole
from isonomy.model import Model
from isonomy.population import Domain, DomainKind, Schema
from isonomy.population.feature import Label
from isonomy.population.outcome import NO_OUTCOME, favourable_places, outcome_of
from isonomy.similarity.counterparts import Counterparts
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.metric import Metric, checked_delta
from isonomy.similarity.regions import MAX_BRANCHES, Similarity, cached_similarity

ROWS = 65_536
"""Rows checked at a time, so that checking needs no second table."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A model on the coordinates of a domain, the metric and δ of similar people, and the outcome that is decided."""

    model: Model
    metric: Metric
    delta: float
    domain: Domain
    schema: Schema | None = None
    outcome: Label = NO_OUTCOME  # what is decided: classes, the favourable ones, the cut-off
    max_branches: int = MAX_BRANCHES

    __repr__ = brief

    @classmethod
    def of(
        cls,
        model: Model,
        metric: Metric,
        delta: float | None = None,
        domain: Domain | DomainKind | None = None,
        schema: Schema | None = None,
        *,
        favourable: str | Sequence[str] | None = None,
        threshold: float | None = None,
        max_branches: int = MAX_BRANCHES,
    ) -> Problem:
        """Check all parts, and put the adapter of the ``schema`` in front of the ``model``.

        Similar is who is within ``delta`` in the ``metric``; ``delta`` may be left out for :class:`Counterparts`, whose
        tolerances mean 1. Without a ``domain`` possible people are the realizable ones of the schema, or all of
        ``R^m`` without one. ``favourable`` and ``threshold`` say what is decided, by default the schema's label:
        the favourable one of two classes is given from its threshold on, numbers of a regression are high from it on;
        without a threshold the most probable class is given (:mod:`isonomy.population.outcome`). Where more than
        ``max_branches`` choices of categories are similar, they are relaxed to shares.
        """
        check_model_and_metric(model, metric)
        delta, max_branches = checked_delta(own_delta(metric, delta)), whole("max_branches", max_branches)
        space = _domain(domain, schema, model.input_width)
        model = model if schema is None else model.on(schema)
        if model.input_width != space.width:
            raise NetworkError(
                f"'{model.name}' reads {model.input_width} numbers but individuals have {space.width} coordinates: "
                "put an adapter in front of it, or name the features that it sees in the schema."
            )
        outcome = resolve_outcome(model, schema, favourable, threshold)
        problem = cls(model, metric, delta, space, schema, outcome, max_branches)
        _ = problem.similarity  # checks metric and delta
        return problem

    @cached_property
    def similarity(self) -> Similarity:
        """Return the similar sets."""
        return cached_similarity(self.metric, self.delta, self.domain, self.max_branches)

    @cached_property
    def hash(self) -> str:
        """Return the SHA-256 of everything that bounds and decisions depend on."""
        texts = [
            self.model.hash(), metric_to_text(self.metric), repr(self.delta), repr(self.max_branches),
            f"decides {self.outcome.threshold!r} {favourable_places(self.outcome)!r}",
            *(repr(np.asarray(getattr(self.domain, part.name)).tolist()) for part in fields(self.domain)),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()

    def raw(self, x: FloatArray) -> pd.DataFrame:
        """Return individuals (n, m) in raw units, or in coordinates where there is no schema."""
        if self.schema is not None:
            return self.schema.decode(x, words=True)
        return pd.DataFrame(x, columns=list(self.domain.names))

    def check(self, x: FloatArray) -> None:
        """Refuse the first row of ``x`` (n, m) that is not a possible individual, with its reason."""
        if x.shape[1] != self.domain.width:
            raise DataError(f"The individuals have {x.shape[1]} coordinates but the domain has {self.domain.width}.")
        for start in range(0, len(x), ROWS):
            _check_members(x[start : start + ROWS], start, self.domain)


def check_model_and_metric(model: Any, metric: Any) -> None:
    """Refuse what is no model or no metric; the error says how to make one."""
    instance(
        "model", model, Model,
        "an isonomy.Network, as load_network(path), Network.from_torch(module) and Network.from_sklearn(model) give",
    )  # fmt: skip
    instance(
        "metric", metric, Metric, "a metric, such as isonomy.Counterparts.of(schema) or isonomy.WeightedLp(weights)"
    )


def own_delta(metric: Any, delta: Any) -> Any:
    """Return the given δ, else that of :class:`Counterparts`, whose tolerances are in units of 1."""
    return metric.own_delta if delta is None and isinstance(metric, Counterparts) else delta


def resolve_outcome(
    model: Model,
    schema: Schema | None,
    favourable: str | Sequence[str] | None = None,
    threshold: float | None = None,
) -> Label:
    """Return the outcome that a model decides: that of the schema's label, but for what is given.

    Without a label, classes have the names that the model gives them, or their numbers.
    """
    count = model.class_count
    label = None if schema is None else schema.label
    if label is None and count and len(set(model.named)) == count:
        label = Label("", model.named)
    outcome = outcome_of(label, count, favourable, threshold)
    if outcome.threshold is not None and model.classes > (2 if model.head == "softmax" else 1):
        raise ParameterError(
            f"'threshold' needs two classes or one number; '{model.name}' has {model.classes} outputs, "
            f"{'numbers' if model.head == 'regression' else 'each a probability by itself'}."
        )
    return outcome


def _domain(domain: Any, schema: Schema | None, width: int) -> Domain:
    if isinstance(domain, Domain):
        return domain
    if schema is not None:
        return schema.domain("realizable" if domain is None else domain)
    if domain in (None, "unbounded"):
        return unbounded(width)
    raise ParameterError(template("domain", "a Domain or 'unbounded' when individuals come without a schema", domain))


unbounded = lru_cache(Domain.unbounded)


def _check_members(x: FloatArray, start: int, space: Domain) -> None:
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
