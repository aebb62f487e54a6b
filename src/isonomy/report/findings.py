"""The result of an audit: certificate, groups, shifts and scores; :func:`isonomy.report.facts.facts_of` renders it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from isonomy.certificates.alone import ChangeAlone
from isonomy.certificates.certificate import Certificate, Verdict, judge
from isonomy.certificates.gaps import FeatureGap
from isonomy.certificates.local import LocalCertificate
from isonomy.fairness import GroupFairness
from isonomy.fairness.reading import OtherReading
from isonomy.model import Model
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
    model: Model
    certificate: Certificate  # `.local` has the bounds and witnesses of each individual
    group: GroupFairness | None = None  # of the favourable outcome
    group_refusal: str = ""  # why there is none
    alone: tuple[ChangeAlone, ...] = ()  # of protected attributes and proxies that are read: together, and each
    held: ChangeAlone | None = None  # all that was asked, with the protected attributes of ``joint`` as they are
    gaps: tuple[FeatureGap, ...] = ()  # of all possible people: of protected attributes together, and of each
    shifts_asked: bool = True  # whether the populations besides the first were named, and not an audit's own choice
    shifts: tuple[ObservedShift, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)  # of predictions against labels, where these are known
    other_reading: OtherReading | None = None  # an order of the classes that agrees better with the labels
    sources: Mapping[str, str] = field(default_factory=dict)  # file name → SHA-256
    table: Mapping[str, Any] | None = None  # how the file of people was read
    command: str = ""  # repeats this audit
    created: str = ""  # ISO 8601, UTC
    redacted: bool = False  # people's rows must not appear in anything written
    question: Mapping[str, str] = field(default_factory=dict)  # files that ask it again: name → text
    identity: Mapping[str, str] = field(
        default_factory=dict
    )  # version, owner and purpose of the model, as they are named
    noun: str = "people"  # for the people in sentences; no claim has it

    @cached_property
    def claimed(self) -> tuple[float, float]:
        """Return lower and upper bound as the certificate claims them: what is shown is what others can check."""
        return self.certificate.claimed[:2]

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
    def joint(self) -> LocalCertificate | None:
        """Return the answer for the protected attributes alone, all together; None where that was not asked."""
        schema = self.people.schema
        own = [each for each in self.alone if all(schema[name].protected for name in each.features)]
        return max(own, key=lambda each: len(each.features)).certificate if own else None

    @property
    def questions(self) -> tuple[ChangeAlone, ...]:
        """Return the parts of the whole question in the order in which they are shown: protected attributes held
        after protected attributes that change together."""
        if self.held is None:
            return self.alone
        place = 1 + [each.features for each in self.alone].index(self.held.features)
        return (*self.alone[:place], self.held, *self.alone[place:])

    @property
    def together(self) -> tuple[str, ...]:
        """Return the protected attributes of :attr:`joint`."""
        joint = self.joint
        return next((each.features for each in self.alone if each.certificate is joint), ())

    @property
    def regression(self) -> bool:
        """Return whether the model gives numbers instead of probabilities."""
        return self.model.head == "regression"

    @cached_property
    def read(self) -> frozenset[str]:
        """Return the features that may influence a prediction."""
        return frozenset(self.model.read_features(self.people.schema))

    @property
    def favourable(self) -> str:
        """Return the favourable outcome in the words of the schema, quoted; "" where none is named."""
        outcome = self.certificate.problem.outcome
        names = [outcome.labels.get(name, name) for name in outcome.favourable]
        return " or ".join(f"“{name}”" for name in names)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Return a name for each number that ``model(x)`` gives."""
        return output_names(self.model, self.people.schema)


def output_names(model: Model, schema: Schema) -> tuple[str, ...]:
    """Return the classes in the words of the schema, the label of a regression, or numbers in their place."""
    label = schema.label
    count = model.class_count or model.classes
    if label is not None and len(label.classes) == count:
        return tuple(label.labels.get(name, name) for name in label.classes)
    if model.head == "regression":
        return (label.column,) if label is not None and count == 1 else tuple(f"output {i + 1}" for i in range(count))
    return tuple(f"class {i}" for i in range(count))


def role_of(feature: Feature) -> str:
    """Return ``"protected"``, ``"proxy"`` or ``""``."""
    return "protected" if feature.protected else "proxy" if feature.proxy else ""
