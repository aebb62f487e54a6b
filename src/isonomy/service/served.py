"""A network to serve, with the claims of its certificate.

**Soundness.** The upper bound of a certificate read from files is computed again from the profiles, and claims that
contradict it or one another are refused. That each profile bounds its individual is taken from the files, unless a
short search refutes it: ``isonomy verify`` proves it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most, decimals_of_bound, weighted
from isonomy.attacks import AttackBudget
from isonomy.auditing.indices import window_indices
from isonomy.certificates.certificate import Certificate, Verdict, headline, judge
from isonomy.certificates.local import Arithmetic
from isonomy.certificates.protocol import tier_for
from isonomy.errors import DataError, FileError
from isonomy.fairness import scores
from isonomy.files import file_hash
from isonomy.monitor import Reference
from isonomy.population import Feature, Population, Schema
from isonomy.problem import Problem
from isonomy.records import Record, read
from isonomy.records.reading import readable

ROUNDING = 1e-9
"""Relative difference allowed between a bound computed here and on the machine that wrote it."""

SEARCHED = 64
"""Audited individuals, at most, for whom a search tries to refute the evidence."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Served(Reference):
    """A network, its metric, and what was proved about which people.

    ``identity`` is the SHA-256 of the certificate, which every log entry names; ``statement`` says in words what was
    proved. ``people`` are the audited individuals, or some of them, drawn at random, where ``everybody`` is false.
    ``largest`` is the largest possible violation known to the certificate, from a declared range of outputs for one.
    """

    problem: Problem
    schema: Schema
    upper: float
    people: Population | None
    statement: str
    identity: str
    confidence: float | None = None
    lower: float = 0.0
    arithmetic: Arithmetic = "float64"
    largest: float = math.inf
    behind: Mapping[str, Any] | None = None  # what the record says of the population behind its sample

    @classmethod
    def from_directory(cls, path: Path) -> Served:
        """Read the certificate that an audit wrote: ``certificate.json``, or the directory that holds it."""
        return cls.of_record(read(Path(path)))

    @classmethod
    def of_certificate(cls, certificate: Certificate, people: Population, identity: str = "") -> Served:
        """Serve a certificate in memory, with the people that it was computed for."""
        problem = certificate.problem
        if problem.schema is None:
            raise DataError("A service needs a schema, to read people in raw units: certify a Population.")
        identity = identity or problem.model.hash()
        return cls._of(certificate, problem.schema, certificate.upper, people, str(certificate), identity)

    @classmethod
    def of_record(cls, record: Record) -> Served:
        """Serve a certificate read from its files, unless these contradict one another."""
        with readable(record.path):
            upper = _checked(record, record.proved_and_attained()[0])
            _refute(record)
            who = f"the {len(record.weights):,} audited individuals{weighted(record.weights)}"
            lower = record.lower
            decimals = decimals_of_bound(upper, record.problem.model.head == "regression")
            statement = record.problem.model.conditional(
                headline(record.shift, who, at_most(upper, decimals), at_least(lower, decimals) if lower > 0 else None)
            )
            served = cls._of(record, record.schema, upper, record.people, statement, file_hash(record.path))
            behind, notions = _behind(record.document["claims"]), partial(window_indices, record)
            return replace(served, behind=behind, notions=notions)

    @classmethod
    def _of(
        cls,
        result: Certificate | Record,
        schema: Schema,
        upper: float,
        people: Population | None,
        statement: str,
        identity: str,
    ) -> Served:
        """Serve a result; without an epsilon of its own, a certificate promises what it proved."""
        names = ("problem", "shift", "lower", "confidence", "arithmetic")
        served = cls(
            **{name: getattr(result, name) for name in names},
            schema=schema, epsilon=upper if result.epsilon is None else result.epsilon, upper=upper, people=people,
            curve=lambda gammas: result.curve([float(gamma) for gamma in gammas])["upper"].tolist(),
            identity=identity, statement=statement, largest=result.profiles.largest,
        )  # fmt: skip
        return replace(served, statement=f"{statement} {served.caution}".rstrip())

    @property
    def verdict(self) -> Verdict:
        """Return the verdict of the audit against epsilon."""
        return judge(self.lower, self.upper, self.epsilon)

    @cached_property
    def observed(self) -> dict[str, float]:
        """Score predictions against the outcomes of the audited individuals; empty where these are unknown."""
        return {} if self.people is None else scores(self.problem.model, self.people)

    @property
    def numbers(self) -> dict[str, Any]:
        """Return the kind of the shift and its numbers by name; None where one is infinite, for which JSON has no
        word."""
        given = {"shift" if name == "kind" else name: value for name, value in self.shift.section().items()}
        return {name: None if value == math.inf else value for name, value in given.items()}

    @property
    def printed(self) -> dict[str, str]:
        """Return upper and lower bound with the decimals of every other output."""
        decimals = decimals_of_bound(self.upper, self.problem.model.head == "regression")
        return {"upper": at_most(self.upper, decimals), "lower": at_least(self.lower, decimals)}

    @property
    def caution(self) -> str:
        """Return the warning for a certificate that did not keep its own epsilon; "" for one that did."""
        if self.verdict == "violated":
            return (
                f"The audit itself found a {self.shift.noun} with an average largest change of "
                f"{self.printed['lower']}, above epsilon = {self.epsilon:g}: the certificate is "
                "violated, and vouches for nothing."
            )
        if self.verdict == "undecided":
            return (
                f"The audit itself proved {self.printed['upper']}, not epsilon = {self.epsilon:g}: the certificate is "
                "undecided, and does not vouch for epsilon."
            )
        return ""

    def reference(self, largest: float) -> Reference:
        """Return the reference of a monitor; ``largest`` is the largest violation that the head allows.

        A person whom the schema refuses is outside the domain, where the certificate's ``largest`` of a bounded domain
        does not hold.
        """
        unbounded = self.problem.domain.kind == "unbounded"
        return replace(self, largest=min(largest, self.largest if unbounded else math.inf))


def _behind(claims: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the claim about the population behind the sample: of the mean, and of the share of decisions that can
    change; None where there is none."""
    if claims["population"] is None:
        return None
    changes = claims.get("changes") or (claims.get("shifts") or [{}])[0].get("changes") or {}
    share = changes.get("behind")
    sides = None if share is None else {side: share[side] for side in ("lower", "upper")}
    return {"upper": claims["population"]["upper"], "changes": sides}


def _checked(record: Record, proved: float) -> float:
    """Return the upper bound to promise, at least the proved one; refuse claims that contradict one another."""
    upper, lower, epsilon = record.upper, record.lower, record.epsilon
    if not 0 <= lower <= upper:
        raise FileError(f"its 'lower' is {lower}, which must be a number from 0 to its 'upper', {upper}.")
    if not upper >= proved * (1 - ROUNDING):
        raise FileError(
            f"its 'upper' is {upper}, but its evidence proves no less than {proved} of a "
            f"{record.shift.words('the individuals')}."
        )
    verdict = None
    if epsilon is not None:
        if not 0 <= epsilon < math.inf:
            raise FileError(f"its 'epsilon' is {epsilon}, which must be a finite number >= 0.")
        verdict = judge(lower, upper, epsilon)
    if verdict != record.verdict:
        raise FileError(f"its 'verdict' is {record.verdict}, but its numbers make it {verdict}.")
    return max(upper, proved)


def _refute(record: Record) -> None:
    """Refuse claims that the evidence itself contradicts: an edited delta or order, more often than not.

    The people behind ``lower`` must have counterparts within delta, and attain it in the shift. A short search among
    some of the audited individuals, by the delta that is claimed, must not go beyond what the evidence says of them.
    """
    if record.people is None or record.points is None:  # redacted: there are no rows to search
        return
    points, metric, delta = record.points, record.problem.metric, record.problem.delta
    distance = float(metric.distance(points.person, points.counterpart).max(initial=0.0))
    if not distance <= delta * (1 + ROUNDING):
        raise FileError(f"its 'delta' is {delta:g}, but counterparts in its evidence are {distance:g} apart.")
    attained = record.proved_and_attained()[1]
    assert attained is not None
    if not record.lower <= attained * (1 + 1e-6):
        raise FileError(f"its 'lower' is {record.lower}, but the population in its evidence attains {attained}.")
    rows = np.unique(np.linspace(0, len(record.weights) - 1, SEARCHED).astype(np.int64))
    bounds = tier_for(record.problem, "tight", record.arithmetic == "float32")
    attack = bounds.attack(np.array(record.people.x[rows]), AttackBudget())
    claimed = record.profiles.value[record.profiles.start[rows]]
    worst = int(np.argmax(attack.lower - claimed))
    if attack.lower[worst] > claimed[worst]:
        raise FileError(
            f"its evidence says that individual {rows[worst]} changes by at most {claimed[worst]:.6g} within delta = "
            f"{delta:g}, but somebody similar changes by {attack.lower[worst]:.6g}."
        )


def placeholder(schema: Schema) -> Population:
    """Return a population of one individual that the schema allows."""
    row: dict[str, Any] = {feature.name: typical(feature) for feature in schema.features}
    if schema.weight is not None:
        row[schema.weight] = min(1.0, schema.max_weight or 1.0)
    return Population.from_frame(pd.DataFrame([row]), schema)


def typical(feature: Feature) -> float | int | str:
    """Return a raw value that a feature can have: the first category, or a number in the middle of its range."""
    if feature.kind in ("categorical", "ordinal"):
        return feature.categories[0]
    low, high = (end if np.isfinite(end) else 0.0 for end in (feature.low, feature.high))
    middle = min(max((low + high) / 2, feature.low), feature.high)
    return int(np.floor(middle)) if feature.kind == "integer" else middle
