"""Everything that an audit found, in one place, for whoever tells it: the page, the terminal, the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isonomy.certificates.certificate import Certificate
from isonomy.fairness import GroupFairness
from isonomy.networks.network import Network
from isonomy.population import Population
from isonomy.shift import Distance


@dataclass(frozen=True, eq=False)
class ObservedShift:
    """Another population that was measured against the audited one, such as last year's applicants."""

    name: str
    distance: Distance


@dataclass(frozen=True, eq=False)
class Findings:
    """One audit: who was audited, what was proved, what was found, and from which files."""

    title: str
    people: Population  # the audited individuals, in the order of the certificate
    network: Network
    certificate: Certificate  # `.local` has the bounds and witnesses of each individual
    group: GroupFairness | None = None
    shifts: tuple[ObservedShift, ...] = ()
    accuracy: float | None = None  # weighted, where labels are known
    balanced_accuracy: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict)  # file name → SHA-256
    command: str = ""  # gives this audit again
    created: str = ""  # ISO 8601, UTC
    redacted: bool = False  # people's rows must not appear in anything written
