"""What a service serves: a network with everything that its certificate says.

**Soundness.** Of a certificate that was read from files, the upper bound is computed again from the profiles, and
claims that contradict it or one another are refused. That each profile bounds its individual is taken from the files:
``isonomy verify`` asks that.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most
from isonomy.certificates.certificate import Certificate, Verdict, judge
from isonomy.certificates.local import Arithmetic
from isonomy.certificates.question import Question
from isonomy.errors import DataError, FileError
from isonomy.monitor import Reference
from isonomy.networks.network import Network
from isonomy.population import Domain, DomainKind, Feature, Population, Schema
from isonomy.records import Record, read
from isonomy.records.reading import readable
from isonomy.similarity.metric import Metric

Curve = Callable[[Sequence[float]], Sequence[float]]

ROUNDING = 1e-9
"""By which share a bound may come out larger on another machine than on the one that wrote it."""


@dataclass(frozen=True, eq=False)
class Served:
    """A network, who counts as similar, and what was proved of whom.

    ``identity`` is the SHA-256 of the certificate, which every log entry names; ``statement`` says in words what was
    proved. ``curve`` gives the proved mean violation for other γ. ``people`` are the audited individuals, or some of
    them, drawn at random, where ``everybody`` is false, or None where the certificate does not carry them. ``largest``
    is the largest violation possible as far as the certificate knows: of a declared range of outputs, for one.
    """

    network: Network
    metric: Metric
    schema: Schema
    domain: Domain | DomainKind
    delta: float
    gamma: float
    order: float
    ground: Metric
    epsilon: float
    upper: float
    curve: Curve
    people: Population | None
    statement: str
    identity: str
    confidence: float | None = None
    lower: float = 0.0
    arithmetic: Arithmetic = "float64"
    largest: float = math.inf
    everybody: bool = True

    @classmethod
    def from_directory(cls, path: Path) -> Served:
        """Read what an audit wrote: ``certificate.json``, or the directory that holds it."""
        return cls.of_record(read(Path(path)))

    @classmethod
    def of_certificate(cls, certificate: Certificate, people: Population, identity: str = "") -> Served:
        """Serve a certificate that is at hand, for the people that it was made of.

        Without an epsilon of its own, a certificate promises what it proved: ``upper``.
        """
        question = certificate.question
        if question.schema is None:
            raise DataError("A service needs a schema, to read people in raw units: certify a Population.")
        served = cls(
            network=question.network,
            metric=question.metric,
            schema=question.schema,
            domain=question.domain,
            delta=certificate.delta,
            gamma=certificate.gamma,
            order=certificate.order,
            ground=certificate.ground,
            epsilon=certificate.upper if certificate.epsilon is None else certificate.epsilon,
            upper=certificate.upper,
            curve=lambda gammas: [bound.upper for bound in certificate.dual.curve([float(gamma) for gamma in gammas])],
            people=people,
            statement=str(certificate),
            identity=identity or question.network.hash(),
            confidence=certificate.confidence,
            lower=certificate.lower,
            arithmetic="float32" if certificate.arithmetic == "float32" else "float64",
            largest=certificate.profiles.largest,
        )
        return _stated(served)

    @classmethod
    def of_record(cls, record: Record) -> Served:
        """Serve a certificate that was read from its files; without an epsilon, it promises what it proved."""
        with readable(record.path):
            dual = record.dual
            upper = _checked(record, dual.bound(record.gamma).upper)
            served = cls(
                **_read_from(record, upper, len(record.weights)),
                curve=lambda gammas: [bound.upper for bound in dual.curve([float(gamma) for gamma in gammas])],
                confidence=record.confidence,
                arithmetic="float32" if record.document["question"]["arithmetic"] == "float32" else "float64",
                largest=record.profiles.largest,
            )
            return _stated(served)

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
        return Question.of(self.network, somebody(self.schema), self.metric, self.delta, self.domain)

    def reference(self, largest: float) -> Reference:
        """What a monitor needs to know; ``largest`` is the largest violation that the head allows.

        Whoever the schema refuses is outside the domain, and what the certificate knows of anybody in a bounded one
        does not hold there.
        """
        kind = self.domain.kind if isinstance(self.domain, Domain) else self.domain
        known = self.largest if kind == "unbounded" else math.inf
        return Reference(
            gamma=self.gamma,
            order=self.order,
            epsilon=self.epsilon,
            ground=self.ground,
            curve=self.curve,
            people=self.people,
            largest=min(largest, known),
            everybody=self.everybody,
            caution=self.caution,
        )


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


def _read_from(record: Record, upper: float, individuals: int) -> dict[str, Any]:
    """What a certificate has."""
    names = ("network", "metric", "schema", "domain", "delta", "gamma", "order", "ground", "lower", "people")
    found = f"; an explicit one reaches {at_least(record.lower)}." if record.lower > 0 else "."
    return {name: getattr(record, name) for name in names} | {
        "epsilon": upper if record.epsilon is None else record.epsilon,
        "upper": upper,
        "statement": f"No population within {record.gamma:g} of the {individuals:,} audited individuals has a mean "
        f"violation above {at_most(upper)}{found}",
        "identity": hashlib.sha256(record.path.read_bytes()).hexdigest(),
    }


def _stated(served: Served) -> Served:
    """The statement with what has to be said beside it."""
    return replace(served, statement=f"{served.statement} {served.caution}".rstrip())


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
