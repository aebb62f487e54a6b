"""Some features alone: what changes over all their values, everything else equal; and what changes while they are held.

These are further questions about the same people: similar are those who agree in all but the features named, or those
of the certificate who agree in the features named, in the realizable domain whatever the certificate's. A record claims
their answers beside those of the whole question.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.brief import brief
from isonomy.certificates.assembled import Assembled
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.chunks import joined
from isonomy.certificates.claims import individual_claims
from isonomy.certificates.local import LocalCertificate, Witnesses, block_rows, certify_local
from isonomy.certificates.protocol import tier_for
from isonomy.files import Arrays
from isonomy.population.schema import Schema
from isonomy.problem import Problem
from isonomy.similarity import Counterparts
from isonomy_verify.alone import largest_of
from isonomy_verify.individuals import FLIPPABLE, Individuals

ROWS = 2**13
"""Individuals, about, asked about at a time."""


@dataclass(frozen=True, eq=False)
class ChangeAlone:
    """The change by some ``features`` alone, bounded in ``certificate`` for the individuals of another one; where they
    are ``held``, by everything else within the other one's metric and δ.

    ``claimed`` is what a record claims of it; None of a kind of model that the checker does not know.
    """

    features: tuple[str, ...]
    certificate: LocalCertificate = field(repr=False)
    claimed: Individuals | None = field(repr=False)
    held: bool = False

    __repr__ = brief


def questions(schema: Schema, read: Collection[str]) -> list[tuple[str, ...]]:
    """Return which features are asked about: all protected ones together, then each of them and each proxy.

    Left out is what the model does not read, what similar people share, and numbers without limits.
    """
    asked = [
        each for each in schema.features
        if (each.protected or each.proxy) and not each.immutable and each.name in read
        and (each.categories or (math.isfinite(each.low) and math.isfinite(each.high)))
    ]  # fmt: skip
    protected = tuple(each.name for each in asked if each.protected)
    return [*([protected] if len(protected) > 1 else []), *((each.name,) for each in asked)]


def alone_problem(problem: Problem, features: tuple[str, ...]) -> Problem:
    """Return the problem in which similar people differ in these features only, by any possible value."""
    schema = problem.schema
    assert schema is not None
    free = np.zeros(schema.width, dtype=bool)
    for name in features:
        free[schema.slices[name]] = True
    metric = Counterparts(np.zeros(len(free)), free, names=schema.coordinate_names)
    return Problem(
        problem.model, metric, 1.0, schema.domain("realizable"), schema, problem.outcome, problem.max_branches
    )


def held_problem(problem: Problem, features: tuple[str, ...]) -> Problem | None:
    """Return the problem of the same metric and δ in which similar people agree in these features; None where they
    then agree in all that is read, and of metrics that do not ask one coordinate at a time."""
    schema, metric = problem.schema, problem.metric
    if schema is None or not isinstance(metric, Counterparts) or not problem.delta > 0:
        return None
    held = alone_problem(problem, features).metric.free
    free, tolerance, relative = (
        metric.free & ~held,
        *(np.where(held, 0.0, x) for x in (metric.tolerance, metric.relative)),
    )
    moves = free | (tolerance > 0) | (relative > 0)
    if not any(moves[schema.slices[name]].any() for name in problem.model.read_features(schema)):
        return None
    same = Counterparts(tolerance, free, relative, metric.origin, metric.unit, names=metric.names)
    return replace(problem, metric=same, domain=schema.domain("realizable"))


def changes_alone(
    certificate: Certificate, asked: list[tuple[str, ...]], work: Path | None = None
) -> tuple[ChangeAlone, ...]:
    """Bound the change by the features of each question alone, for all individuals of a certificate.

    They are asked about block by block, and of their counterparts the features named are kept: in memory, or in files
    of the folder ``work``.

    **Soundness.** ``upper`` and ``lower`` are those of :func:`isonomy.certify_local`; what it certifies of decisions
    holds for every possible value of the features together.
    """
    if certificate.people is None:
        return ()
    folders = [None if work is None else work / "columns" / f"alone-{number}" for number in range(len(asked))]
    return tuple(
        _change(certificate, alone_problem(certificate.problem, features), features, folder)
        for features, folder in zip(asked, folders, strict=True)
    )


def change_held(certificate: Certificate, features: tuple[str, ...], work: Path | None = None) -> ChangeAlone | None:
    """Bound the change by everything that was asked about but these features, as :func:`changes_alone` does; None
    without features, where nothing is left, or where that cannot be asked."""
    problem = held_problem(certificate.problem, features) if features else None
    if certificate.people is None or problem is None:
        return None
    folder = None if work is None else work / "columns" / "held"
    return replace(_change(certificate, problem, features, folder), held=True)


def _change(certificate: Certificate, problem: Problem, features: tuple[str, ...], folder: Path | None) -> ChangeAlone:
    x, metric = certificate.x, problem.metric
    assert isinstance(metric, Counterparts)
    tier = tier_for(problem, certificate.tier, certificate.arithmetic == "float32")
    size = block_rows(tier, x)
    places = np.flatnonzero(metric.free | (metric.tolerance > 0) | (metric.relative > 0))
    size *= max(1, ROWS // size)  # whole blocks, so that bounds do not depend on how many are asked about at a time
    blocks = (slice(start, start + size) for start in range(0, len(x), size))
    columns = joined((_columns(problem, certificate, rows, places) for rows in blocks), folder)
    flips, other, turned = columns["decided"] == FLIPPABLE, Assembled(x), Assembled(x)
    if certificate.searched:
        other, turned = (Assembled(x, places, columns[name]) for name in ("counterpart", "flip_counterpart"))
    local = LocalCertificate(
        columns["upper"], columns["lower"], Witnesses(x, other, columns["lower"], flips, turned, problem),
        columns["decided"], np.empty((len(x), 0)), certificate.weights, certificate.tier, certificate.arithmetic,
        problem, certificate.local.counterexamples,
    )  # fmt: skip
    if not tier.checked:
        return ChangeAlone(features, local, None)
    claimed = joined([individual_claims(tier, local, None)], folder)
    own = Individuals(
        local.upper, claimed["claimed_lower"], claimed["claimed_decision"], largest_of(tier.head, local.upper)
    )
    return ChangeAlone(features, local, own)


def _columns(problem: Problem, certificate: Certificate, rows: slice, places: NDArray[np.intp]) -> Arrays:
    """Return the columns of some individuals: bounds, decisions and, where they were searched for, counterparts."""
    options: Any = {"tier": certificate.tier, "arithmetic": certificate.arithmetic}
    options |= dict.fromkeys(("attack", "decide"), certificate.searched)
    saved = certificate.local.counterexamples
    saved = replace(saved, rows=np.arange(len(certificate.x))[rows] if saved.rows is None else saved.rows[rows])
    x = np.array(certificate.x[rows])
    local = certify_local(problem, x, predict=False, progress=None, counterexamples=saved, **options)
    columns: Arrays = {"upper": local.upper, "lower": local.lower, "decided": local.decided}
    if certificate.searched:
        pairs = local.witnesses
        columns |= {"counterpart": pairs.counterpart[:, places], "flip_counterpart": pairs.flip_counterpart[:, places]}
    return columns
