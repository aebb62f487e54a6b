"""The result of an audit: certificate, groups, shifts and scores; :func:`isonomy.report.facts.facts_of` renders it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from isonomy.certificates.alone import ChangeAlone
from isonomy.certificates.certificate import Certificate, Verdict, judge
from isonomy.fairness import GroupFairness
from isonomy.fairness.reading import OtherReading
from isonomy.networks.influence import read_features
from isonomy.networks.network import Network
from isonomy.population import Population
from isonomy.population.feature import Feature
from isonomy.population.schema import Schema
from isonomy.shift import Distance


@dataclass(frozen=True, eq=False)
class ObservedShift:
    """Another population that was measured against the audited one, such as last year's applicants."""

    name: str
    distance: Distance


@dataclass(frozen=True, eq=False)
class Findings:
    """One audit: the people, the certificate, groups and shifts, and the files that were read."""

    title: str
    people: Population  # the audited individuals, in the order of the certificate
    network: Network
    certificate: Certificate  # `.local` has the bounds and witnesses of each individual
    group: GroupFairness | None = None  # of the favourable outcome
    group_refusal: str = ""  # why there is none
    alone: tuple[ChangeAlone, ...] = ()  # of each protected attribute and proxy that is read
    shifts: tuple[ObservedShift, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)  # of predictions against labels, where these are known
    other_reading: OtherReading | None = None  # an order of the classes that agrees better with the labels
    sources: Mapping[str, str] = field(default_factory=dict)  # file name → SHA-256
    table: Mapping[str, Any] | None = None  # how the file of people was read
    command: str = ""  # repeats this audit
    created: str = ""  # ISO 8601, UTC
    redacted: bool = False  # people's rows must not appear in anything written

    @cached_property
    def claimed(self) -> tuple[float, float]:
        """Return lower and upper bound as the certificate claims them: what is shown is what others can check."""
        from isonomy.records.writing import claimed_bounds

        return claimed_bounds(self.certificate)[:2]

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict of the claims on ε, if there is one."""
        epsilon = self.certificate.epsilon
        return None if epsilon is None else judge(*self.claimed, epsilon)

    @cached_property
    def largest_gamma(self) -> float | None:
        """Return the largest shift for which ε is proved: at least γ where the claims prove it at γ, else below γ."""
        certificate, epsilon = self.certificate, self.certificate.epsilon
        if epsilon is None:
            return None
        largest = certificate.largest_gamma(epsilon)
        if self.verdict == "certified":
            return max(certificate.gamma, largest or 0.0)
        if largest is None or largest < certificate.gamma:
            return largest
        least = epsilon - 2 * (self.claimed[1] - certificate.upper)  # the claim at γ is above ε by less than its margin
        return certificate.largest_gamma(least) if least >= 0 else None

    @property
    def regression(self) -> bool:
        """Return whether the network gives numbers instead of probabilities."""
        return self.network.head == "regression"

    @cached_property
    def read(self) -> frozenset[str]:
        """Return the features that may influence a prediction."""
        return frozenset(read_features(self.certificate.problem.network, self.people.schema))

    @property
    def favourable(self) -> str:
        """Return the favourable outcome in the words of the schema, quoted; "" where none is named."""
        outcome = self.certificate.problem.outcome
        names = [outcome.labels.get(name, name) for name in outcome.favourable]
        return " or ".join(f"“{name}”" for name in names)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return a name for each number that ``network(x)`` gives."""
        return output_names(self.network, self.people.schema)


def output_names(network: Network, schema: Schema) -> tuple[str, ...]:
    """Return the classes in the words of the schema, the label of a regression, or numbers in their place."""
    label = schema.label
    count = 2 if network.head == "sigmoid" and network.classes == 1 else network.classes
    if label is not None and len(label.classes) == count:
        return tuple(label.labels.get(name, name) for name in label.classes)
    if network.head == "regression":
        return (label.column,) if label is not None and count == 1 else tuple(f"output {i + 1}" for i in range(count))
    return tuple(f"class {i}" for i in range(count))


def role_of(feature: Feature) -> str:
    """Return ``"protected"``, ``"proxy"`` or ``""``."""
    return "protected" if feature.protected else "proxy" if feature.proxy else ""
