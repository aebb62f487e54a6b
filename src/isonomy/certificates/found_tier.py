"""The tier of models of whose similar people only some are asked about: flips are shown, and nothing is proved.

Of each person up to ``REGIONS`` pieces of the similar set (choices of categories) are taken, and in each of them the
centre, both corners and random points between; the worst of these is the counterpart.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import Finds
from isonomy.certificates.enumeration_tier import EnumerationReach, EnumerationTier
from isonomy.certificates.protocol import Nearby, Tier, register
from isonomy.enumeration import FoundOnly
from isonomy.similarity.metric import Metric
from isonomy_verify.enumeration import SampleBounds
from isonomy_verify.models import Known
from isonomy_verify.similar import filled

if TYPE_CHECKING:
    from isonomy.certificates.certificate import Certificate
    from isonomy.certificates.local import LocalCertificate

REGIONS, ENDS, BETWEEN = 32, 6, 4
"""Pieces of a similar set that are looked into; random corners and random points in each."""

INSIDE = 1 - 1e-9
"""A corner is taken that much nearer, so that its distance, rounded up, is within δ."""


class FoundOnlyTier(EnumerationTier):
    """A search by some similar people, beside the bounds that hold of any probabilities."""

    size = 256

    def chunk(self, x: FloatArray) -> Known:
        """Return the largest violation there can be of the rows of ``x``, and no decision."""
        return self.kernel_bounds().chunk(x)

    def kernel_bounds(self) -> SampleBounds:
        """Return the kernel's bounds, of a model that is asked where a record has its predictions."""
        assert isinstance(self.model, FoundOnly)
        return SampleBounds(self.model, self.head, self.problem.similarity.kernel)  # type: ignore[arg-type]

    def kernel_bounds_of(self, people: FloatArray) -> SampleBounds:
        """Return the same for any ``people``."""
        return self.kernel_bounds()

    def recorded(self, certificate: Certificate, others: Sequence[LocalCertificate] = ()) -> FoundOnly:
        """Return the model of nothing but the predictions that the certificate, and answers to others, rest on."""
        pairs, points = [each.witnesses for each in (certificate.local, *others)], certificate.points
        people = [certificate.x, points.person, points.counterpart]
        people += [np.asarray(some) for each in pairs for some in (each.counterpart, each.flip_counterpart)]
        kept = self.model.kept_for(np.concatenate(people))
        assert isinstance(kept, FoundOnly)
        return kept

    def reach(self, ground: Metric) -> EnumerationReach:
        """Refuse bounds for people who move."""
        raise self.unsupported("bounds for people who move: ask for a shift without transport")

    def nearby(self, x: FloatArray) -> Nearby:
        """Return the rows themselves."""
        return Tier.nearby(self, x)

    def decide(self, x: FloatArray, certified: NDArray[np.bool_], finds: Finds, nodes: float | None) -> None:
        """Leave decisions open that no search changed."""
        if not finds.lower.any():
            super().decide(x, certified, finds, nodes)

    def everybody(self, x: FloatArray) -> FloatArray:
        """Return the rows of ``x`` alone: nothing is listed beforehand."""
        return np.array(x)

    def candidates(self, x: FloatArray) -> Iterator[tuple[NDArray[np.int64], FloatArray]]:
        """Yield owners and some people who may be similar, the same for the same ``x``."""
        domain = self.problem.domain
        rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(x).tobytes()))
        moving = domain.numeric
        for pieces in self.problem.similarity.kernel.each(x):
            regions = filled(pieces, domain)
            order = np.lexsort((rng.random(len(regions)), regions.owner))
            place = np.arange(len(order)) - np.searchsorted(regions.owner[order], regions.owner[order])
            regions = regions[np.sort(order[place < REGIONS])]
            centre = np.array(regions.centre)
            low, high = (np.where(moving, np.broadcast_to(side, centre.shape), 0.0) for side in
                         (regions.sets.low, regions.sets.high))  # fmt: skip
            low, high = (INSIDE * np.nan_to_num(side, posinf=0.0, neginf=0.0) for side in (low, high))
            for draw in range(3 + ENDS + BETWEEN):
                share = (0.5, 0.0, 1.0)[draw] if draw < 3 else rng.random(centre.shape)
                if 3 <= draw < 3 + ENDS:
                    share = np.round(share)
                ends = low + share * (high - low)
                y = np.asarray(domain.snap(centre + (0.0 if draw == 0 else ends)))
                kept = np.flatnonzero(domain.allows(x[regions.owner], y))
                yield regions.owner[kept], y[kept]


register(FoundOnly.kind, FoundOnlyTier)
