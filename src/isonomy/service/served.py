"""What a service serves: a network with everything that its certificate says."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isonomy.arithmetic import at_least, at_most
from isonomy.certificates.distributional import DistributionalCertificate
from isonomy.certificates.dual import Dual
from isonomy.certificates.local import Arithmetic
from isonomy.certificates.question import Question
from isonomy.errors import DataError
from isonomy.monitor import Reference
from isonomy.networks.network import Network
from isonomy.population import Domain, DomainKind, Feature, Population, Schema
from isonomy.records import Record, read
from isonomy.similarity.metric import Metric

Curve = Callable[[Sequence[float]], Sequence[float]]


@dataclass(frozen=True, eq=False)
class Served:
    """A network, who counts as similar, and what was proved of whom.

    ``identity`` is the SHA-256 of the certificate, which every log entry names; ``statement`` says in words what was
    proved. ``curve`` gives the proved mean violation for other γ. ``people`` are the audited individuals, or None
    where the certificate does not carry them.
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

    @classmethod
    def from_directory(cls, path: Path) -> Served:
        """Read what an audit wrote: ``certificate.json``, or the directory that holds it."""
        return cls.of_record(read(Path(path)))

    @classmethod
    def of_certificate(cls, certificate: DistributionalCertificate, people: Population, identity: str = "") -> Served:
        """Serve a certificate that is at hand, for the people that it was made of.

        Without an epsilon of its own, a certificate promises what it proved: ``upper``.
        """
        question = certificate.question
        if question.schema is None:
            raise DataError("A service needs a schema, to read people in raw units: certify a Population.")
        return cls(
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
        )

    @classmethod
    def of_record(cls, record: Record) -> Served:
        """Serve a certificate that was read from its files; without an epsilon, it promises what it proved."""
        dual = Dual(record.profiles.cells(record.weights), record.order)
        arithmetic = record.document["remarks"]["arithmetic"]
        return cls(
            network=record.network,
            metric=record.metric,
            schema=record.schema,
            domain=record.domain,
            delta=record.delta,
            gamma=record.gamma,
            order=record.order,
            ground=record.ground,
            epsilon=record.upper if record.epsilon is None else record.epsilon,
            upper=record.upper,
            curve=lambda gammas: [bound.upper for bound in dual.curve([float(gamma) for gamma in gammas])],
            people=record.people,
            statement=f"No population within {record.gamma:g} of the {len(record.weights):,} audited individuals has a "
            f"mean violation above {at_most(record.upper)}"
            + (f"; an explicit one reaches {at_least(record.lower)}." if record.lower > 0 else "."),
            identity=hashlib.sha256(record.path.read_bytes()).hexdigest(),
            confidence=record.confidence,
            lower=record.lower,
            arithmetic="float32" if arithmetic == "float32" else "float64",
        )

    def question(self) -> Question:
        """What is asked of every individual, ready to be asked; the one in it stands in for all."""
        return Question.of(self.network, somebody(self.schema), self.metric, self.delta, self.domain)

    def reference(self, largest: float) -> Reference:
        """What a monitor needs to know."""
        return Reference(
            gamma=self.gamma,
            order=self.order,
            epsilon=self.epsilon,
            ground=self.ground,
            curve=self.curve,
            people=self.people,
            largest=largest,
        )


def somebody(schema: Schema) -> Population:
    """An individual that the schema makes possible, nobody in particular."""
    row: dict[str, Any] = {feature.name: typical(feature) for feature in schema.features}
    if schema.weight is not None:
        row[schema.weight] = 1.0
    return Population.from_frame(pd.DataFrame([row]), schema)


def typical(feature: Feature) -> float | int | str:
    """A raw value that a feature can have: the first category, or a number in the middle of its range."""
    if feature.kind in ("categorical", "ordinal"):
        return feature.categories[0]
    low, high = (end if np.isfinite(end) else 0.0 for end in (feature.low, feature.high))
    middle = min(max((low + high) / 2, feature.low), feature.high)
    return int(np.floor(middle)) if feature.kind == "integer" else middle
