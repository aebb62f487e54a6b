"""What a service serves: a network with everything that its certificate says.

**Soundness.** Of a certificate that was read from files, the upper bound is computed again from the profiles, and
claims that contradict it or one another are refused. That each profile bounds its individual is taken from the files,
unless a short search refutes it: ``isonomy verify`` proves it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most, decimals_of_bound, parameter, weighted
from isonomy.attacks import AttackBudget
from isonomy.certificates.certificate import Certificate, Verdict, headline, judge
from isonomy.certificates.local import Arithmetic, Bounds
from isonomy.certificates.question import Question
from isonomy.certificates.transport import Transport
from isonomy.errors import DataError, FileError
from isonomy.files import file_hash
from isonomy.monitor import Reference
from isonomy.networks.network import Network
from isonomy.population import Domain, DomainKind, Feature, Population, Schema
from isonomy.population.feature import Label
from isonomy.records import Record, read
from isonomy.records.reading import readable
from isonomy.similarity.metric import Metric

ROUNDING = 1e-9
"""By which share a bound may come out larger on another machine than on the one that wrote it."""

ASKED = 64
"""Audited individuals, at most, around whom the evidence is searched for a contradiction."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Served(Reference):
    """A network, who counts as similar, and what was proved of whom.

    ``identity`` is the SHA-256 of the certificate, which every log entry names; ``statement`` says in words what was
    proved. ``people`` are the audited individuals, or some of them, drawn at random, where ``everybody`` is false.
    ``largest`` is the largest violation possible as far as the certificate knows: of a declared range of outputs, for
    one.
    """

    network: Network
    metric: Metric
    schema: Schema
    domain: Domain | DomainKind
    delta: float
    upper: float
    people: Population | None
    statement: str
    identity: str
    confidence: float | None = None
    lower: float = 0.0
    arithmetic: Arithmetic = "float64"
    largest: float = math.inf
    outcome: Label | None = None  # what is decided; None: as the schema's label has it

    @classmethod
    def from_directory(cls, path: Path) -> Served:
        """Read what an audit wrote: ``certificate.json``, or the directory that holds it."""
        return cls.of_record(read(Path(path)))

    @classmethod
    def of_certificate(cls, certificate: Certificate, people: Population, identity: str = "") -> Served:
        """Serve a certificate that is at hand, for the people that it was made of."""
        question = certificate.question
        if question.schema is None:
            raise DataError("A service needs a schema, to read people in raw units: certify a Population.")
        identity = identity or question.network.hash()
        return cls._of(question, certificate, certificate.upper, people, str(certificate), identity)

    @classmethod
    def of_record(cls, record: Record) -> Served:
        """Serve a certificate that was read from its files, unless these contradict one another."""
        with readable(record.path):
            upper = _checked(record, record.dual.bound(record.gamma).upper)
            _refute(record)
            who = f"the {len(record.weights):,} audited individuals{weighted(record.weights)}"
            lower = record.lower
            within = f"within {parameter(record.gamma)} of {who}" if record.gamma else ""
            decimals = decimals_of_bound(upper, record.network.head == "regression")
            statement = headline(
                within, who, at_most(upper, decimals), at_least(lower, decimals) if lower > 0 else None
            )
            return cls._of(record, record, upper, record.people, statement, file_hash(record.path))

    @classmethod
    def _of(
        cls, asked: Question | Record, found: Certificate | Record, upper: float, people: Population | None,
        statement: str, identity: str,
    ) -> Served:  # fmt: skip
        """What was asked and what was found; without an epsilon of its own, a certificate promises what it proved."""
        dual, names = found.dual, ("delta", "gamma", "order", "ground", "lower", "confidence", "arithmetic")
        served = cls(
            **{name: getattr(asked, name) for name in ("network", "metric", "schema", "domain")},
            **{name: getattr(found, name) for name in names},
            epsilon=upper if found.epsilon is None else found.epsilon, upper=upper, people=people, identity=identity,
            curve=lambda gammas: [bound.upper for bound in dual.curve([float(gamma) for gamma in gammas])],
            statement=statement, largest=found.profiles.largest, outcome=asked.outcome,
        )  # fmt: skip
        return replace(served, statement=f"{statement} {served.caution}".rstrip())

    @property
    def verdict(self) -> Verdict:
        """Of the audit, against epsilon."""
        return judge(self.lower, self.upper, self.epsilon)

    @property
    def caution(self) -> str:
        """What has to be said beside a certificate that did not keep its own epsilon; nothing of one that did."""
        if self.verdict == "violated":
            return (
                f"The audit itself found a population within gamma with a mean violation of {at_least(self.lower)}, "
                f"above epsilon = {self.epsilon:g}: the certificate is violated, and vouches for nothing."
            )
        if self.verdict == "undecided":
            return (
                f"The audit itself proved {at_most(self.upper)}, not epsilon = {self.epsilon:g}: the certificate is "
                "undecided, and does not vouch for epsilon."
            )
        return ""

    def question(self) -> Question:
        """What is asked of every individual, ready to be asked; the one in it stands in for all."""
        asked = Question.of(self.network, somebody(self.schema), self.metric, self.delta, self.domain)
        return asked if self.outcome is None else replace(asked, outcome=self.outcome)

    def reference(self, largest: float) -> Reference:
        """What a monitor needs to know; ``largest`` is the largest violation that the head allows.

        Whoever the schema refuses is outside the domain, and what the certificate knows of anybody in a bounded one
        does not hold there.
        """
        kind = self.domain.kind if isinstance(self.domain, Domain) else self.domain
        return replace(self, largest=min(largest, self.largest if kind == "unbounded" else math.inf))


def _checked(record: Record, proved: float) -> float:
    """The upper bound to promise, at least what the evidence gives; claims that contradict one another are refused."""
    upper, lower, epsilon = record.upper, record.lower, record.epsilon
    if not 0 <= lower <= upper:
        raise FileError(f"its 'lower' is {lower}, which must be a number from 0 to its 'upper', {upper}.")
    if not upper >= proved * (1 - ROUNDING):
        raise FileError(
            f"its 'upper' is {upper}, but its evidence proves no less than {proved} at gamma = {record.gamma:g}."
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
    """Refuse what the evidence itself contradicts: an edited delta or order, more often than not.

    The people behind ``lower`` must have counterparts within delta, and attain it within gamma. A short search among
    some of the audited individuals, by the delta that is claimed, must not go beyond what the evidence says of them.
    """
    if record.people is None or record.points is None:  # redacted: there is nobody to ask
        return
    points, metric, delta = record.points, record.metric, record.delta
    apart = float(metric.distance(points.person, points.counterpart).max(initial=0.0))
    if not apart <= delta * (1 + ROUNDING):
        raise FileError(f"its 'delta' is {delta:g}, but counterparts in its evidence are {apart:g} apart.")
    attained = points.mixture(record.weights, Transport(record.gamma, record.order)).value
    if not record.lower <= attained * (1 + 1e-6):
        raise FileError(f"its 'lower' is {record.lower}, but the population in its evidence attains {attained}.")
    rows = np.unique(np.linspace(0, len(record.weights) - 1, ASKED).astype(np.int64))
    bounds = Bounds(record.question, "tight", record.arithmetic == "float32")
    found = bounds.attack(np.array(record.people.x[rows]), AttackBudget())
    claimed = record.profiles.value[record.profiles.start[rows]]
    worst = int(np.argmax(found.lower - claimed))
    if found.lower[worst] > claimed[worst]:
        raise FileError(
            f"its evidence says that individual {rows[worst]} changes by at most {claimed[worst]:.6g} within delta = "
            f"{delta:g}, but somebody similar changes by {found.lower[worst]:.6g}."
        )


def somebody(schema: Schema) -> Population:
    """An individual that the schema makes possible, nobody in particular."""
    row: dict[str, Any] = {feature.name: typical(feature) for feature in schema.features}
    if schema.weight is not None:
        row[schema.weight] = min(1.0, schema.max_weight or 1.0)
    return Population.from_frame(pd.DataFrame([row]), schema)


def typical(feature: Feature) -> float | int | str:
    """A raw value that a feature can have: the first category, or a number in the middle of its range."""
    if feature.kind in ("categorical", "ordinal"):
        return feature.categories[0]
    low, high = (end if np.isfinite(end) else 0.0 for end in (feature.low, feature.high))
    middle = min(max((low + high) / 2, feature.low), feature.high)
    return int(np.floor(middle)) if feature.kind == "integer" else middle
