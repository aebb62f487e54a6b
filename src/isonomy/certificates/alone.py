"""One feature alone: the largest change of a prediction over all values of that feature, everything else equal."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from isonomy.brief import brief
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.local import LocalCertificate, certify_local
from isonomy.population import Population
from isonomy.similarity import Counterparts

ALONE = 1000
"""The most individuals for whom changes by single features are bounded."""


@dataclass(frozen=True, eq=False)
class ChangeAlone:
    """The change by one ``feature``, bounded in ``certificate`` for each of ``people``."""

    feature: str
    people: Population = field(repr=False)
    certificate: LocalCertificate = field(repr=False)

    __repr__ = brief


def changes_alone(certificate: Certificate, features: list[str], seed: int = 0) -> tuple[ChangeAlone, ...]:
    """Bound the change by each of the features alone, for at most ``ALONE`` individuals drawn by ``seed``.

    Features must have limits, or categories. **Soundness.** Similar are those who agree in all but the feature, in the
    realizable domain whatever the certificate's: ``upper`` and ``lower`` are those of :func:`isonomy.certify_local`.
    """
    problem, people = certificate.problem, certificate.people
    if people is None or not features:
        return ()
    some, changes = people.sample(ALONE, seed) if len(people) > ALONE else people, []
    for feature in features:
        free = np.zeros(people.schema.width, dtype=bool)
        free[people.schema.slices[feature]] = True
        metric = Counterparts(np.zeros(len(free)), free, names=people.schema.coordinate_names)
        local = certify_local(
            problem.network, some, metric, 1.0, domain="realizable", attack=certificate.searched,
            decide=certificate.searched, threshold=problem.outcome.threshold,
            favourable=problem.outcome.favourable or None, progress=None,
        )  # fmt: skip
        changes.append(ChangeAlone(feature, some, local))
    return tuple(changes)
