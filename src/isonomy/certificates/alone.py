"""Some features alone: what changes over all their values, everything else equal.

These are further questions about the same people: similar are those who agree in all but the features named, in the
realizable domain whatever the certificate's. A record claims their answers beside those of the whole question.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isonomy.brief import brief
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.claims import individual_claims
from isonomy.certificates.consistency import Counterexamples
from isonomy.certificates.local import LocalCertificate, certify_local
from isonomy.certificates.protocol import tier_for
from isonomy.population.schema import Schema
from isonomy.problem import Problem
from isonomy.similarity import Counterparts
from isonomy_verify.alone import largest_of
from isonomy_verify.individuals import Individuals

MOST = 2**27
"""Coordinates of individuals in all above which the questions are not asked: their witnesses are held in memory."""


@dataclass(frozen=True, eq=False)
class ChangeAlone:
    """The change by some ``features`` alone, bounded in ``certificate`` for the individuals of another one.

    ``claimed`` is what a record claims of it; None of a kind of model that the checker does not know.
    """

    features: tuple[str, ...]
    certificate: LocalCertificate = field(repr=False)
    claimed: Individuals | None = field(repr=False)

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


def changes_alone(certificate: Certificate, asked: list[tuple[str, ...]]) -> tuple[ChangeAlone, ...]:
    """Bound the change by the features of each question alone, for all individuals of a certificate.

    **Soundness.** ``upper`` and ``lower`` are those of :func:`isonomy.certify_local`; what it certifies of decisions
    holds for every possible value of the features together.
    """
    people = certificate.people
    if people is None or people.x.size > MOST:
        return ()
    changes = []
    for features in asked:
        options: Any = {"tier": certificate.tier, "arithmetic": certificate.arithmetic}
        options |= dict.fromkeys(("attack", "decide"), certificate.searched)
        saved = Counterexamples(certificate.local.counterexamples.folder)
        problem = alone_problem(certificate.problem, features)
        local = certify_local(problem, people, progress=None, counterexamples=saved, **options)
        changes.append(ChangeAlone(features, local, _claimed(local)))
    return tuple(changes)


def _claimed(local: LocalCertificate) -> Individuals | None:
    tier = tier_for(local.problem, local.tier, local.arithmetic == "float32")
    if not tier.checked:
        return None
    columns, upper = individual_claims(tier, local, None), np.array(local.upper)
    return Individuals(upper, columns["claimed_lower"], columns["claimed_decision"], largest_of(tier.head, upper))
