"""How differently can somebody similar to this very individual be treated?

Problem, for each individual ``x``:  ``I(x, δ) = max { max_c |f_c(x) − f_c(y)| : y in X, d(x, y) ≤ δ }``.

**Soundness.** Regions cover the similar set, enclosures hold the margins of everybody in a region, and those at ``x``
its own run: the largest violation over all regions is at least ``I(x, δ)``, and a decision that is the same at ``x``
and all over every region is everybody's. Each region counts with its smallest bound of several, all of which hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Mask
from isonomy_verify.heads import Head
from isonomy_verify.preparations import Preparations
from isonomy_verify.prepared import Prepared
from isonomy_verify.sets import ConvexSets, Regions
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import Bounds, Enclosure, Tier, enclose_at

MANY = 16
"""Regions of one individual from which on intervals, which are loose, save more of the other bounds than they cost."""


class Known(NamedTuple):
    """What bounds say of individuals: ``upper`` bounds of their violations, whose decision is ``kept``, the margins
    ``at`` them, and which way (n, coordinates of a ball that all share) the first margin is thought to grow."""

    upper: Array
    kept: Mask
    at: Enclosure | None = None
    pull: Array | None = None


class _Judged(NamedTuple):
    """For each region: the largest violation, whether nobody there is decided otherwise than its owner, and whether
    that can never be shown."""

    bound: Array
    keeps: Mask
    turns: Mask
    at: Enclosure  # the margins at its owner


class LocalBounds:
    """Upper bounds and certain decisions, over every region of a similar set; ``size`` regions at a time.

    ``by_box`` is the paper's way (Theorem 5.1), for comparison: the box around each region, and the whole width of
    the outputs over it.
    """

    def __init__(
        self,
        network: Preparations,
        head: Head,
        similarity: Similarity,
        tier: Tier = "tight",
        float32_run: bool = False,
        by_box: bool = False,
        size: int = 1024,
    ) -> None:
        self.network, self.head, self.similarity, self.size = network, head, similarity, size
        self.tier, self.float32_run, self.by_box = tier, float32_run, by_box

    @property
    def alone(self) -> Prepared:
        """The network made ready for no sets in particular."""
        return self.network.single(float32_run=self.float32_run)

    @property
    def ladder(self) -> tuple[Tier, ...]:
        """Tiers that are worth trying, one after the other, on regions of which there may be many."""
        return ("quick", "tight") if self.similarity.domain.kind == "realizable" else ("tight",)

    def chunk(self, x: Array) -> Known:
        """What is known of some individuals (n, m), who lie in the domain."""
        upper, kept, seen = np.zeros(len(x)), np.ones(len(x), dtype=bool), np.zeros(len(x), dtype=bool)
        branching = self.similarity.domain.kind == "realizable"
        at_x = enclose_at(self.alone, x) if branching else None
        ats: list[Enclosure] = []
        pulls: list[Array] = []
        for regions in self.similarity.each(x):
            for piece in regions.pieces(self.size):
                judged = (
                    self._judged(piece, None, self.tier, pulls=pulls) if at_x is None else self._laddered(piece, at_x)
                )
                np.maximum.at(upper, piece.owner, judged.bound)
                kept[piece.owner[~judged.keeps]] = False
                seen[piece.owner] = True
                if at_x is None:
                    ats.append(judged.at)
        # Everybody is similar to themselves: where there is no region, nothing is known.
        upper[~seen], kept[~seen] = np.inf, False
        if at_x is not None or self.float32_run:
            return Known(upper, kept, None if self.float32_run else at_x)
        at = Enclosure(*(np.concatenate(sides) for sides in zip(*ats, strict=True)))
        pull = np.concatenate(pulls) if sum(map(len, pulls)) == len(x) else None
        return Known(upper, kept, at, pull)

    def enclosed(self, piece: Regions, tier: Tier, once: bool = False, pulls: list[Array] | None = None) -> Bounds:
        """Margins at the centres of regions and over them; ``pulls`` receives which way a tier looked for the extremes
        of a shared ball."""
        sets = piece.sets
        if self.by_box:
            shape = len(piece), sets.low.shape[1]
            sets = ConvexSets.of_box(np.broadcast_to(sets.low, shape), np.broadcast_to(sets.high, shape))
        return self.network.enclose(piece.centre, sets, tier, float32_run=self.float32_run, once=once, pulls=pulls)

    def keeps(self, x: Array, upper: Array) -> Mask:
        """Whose decision cannot change because nobody similar is treated so differently as ``upper`` (n,) says."""
        at_x = enclose_at(self.alone, x)
        same = self.head.settled(at_x, upper)
        return np.asarray((same >= 0) & (same == self.head.decision(at_x)))

    def _laddered(self, piece: Regions, at_x: Enclosure) -> _Judged:
        """Bounds of regions of which everybody has several: only the worst one of each counts.

        All are bounded in the cheapest way that pays; then, rung by rung, the worst of each more tightly, and those
        that are still above it or that alone leave a decision open.
        """
        rungs: list[tuple[Tier, bool]] = [("interval", False), ("quick", False), ("tight", True), ("tight", False)]
        last = max(i for i, (tier, _) in enumerate(rungs) if tier == self.tier)
        first = min(last, 0 if len(piece) >= MANY * len(np.unique(piece.owner)) else 1)
        bound, keeps, turns, at = self._judged(piece, at_x, rungs[first][0])
        for tier, once in rungs[first + 1 : last + 1]:
            order = np.lexsort((bound, piece.owner))
            rows = order[np.append(piece.owner[order][1:] != piece.owner[order][:-1], True)]
            floor, done = np.zeros(len(at_x.low)), np.zeros(len(bound), dtype=bool)
            while len(rows):
                found = self._judged(piece[rows], at_x, tier, once)
                bound[rows], keeps[rows] = np.minimum(bound[rows], found.bound), keeps[rows] | found.keeps
                turns[rows] |= found.turns
                np.maximum.at(floor, piece.owner[rows], bound[rows])
                done[rows] = True
                lost = np.zeros(len(at_x.low), dtype=bool)
                lost[piece.owner[turns]] = True
                rows = np.flatnonzero(((bound > floor[piece.owner]) | ~(keeps | lost[piece.owner])) & ~done)
        return _Judged(bound, keeps, turns, at)

    def _judged(
        self,
        piece: Regions,
        at_x: Enclosure | None,
        tier: Tier,
        once: bool = False,
        pulls: list[Array] | None = None,
    ) -> _Judged:
        """What a tier says of regions."""
        at, over = self.enclosed(piece, tier, once, pulls)
        # Without branches every region is centred at its owner, whose run is then already there.
        at = at if at_x is None else at_x.of(piece.owner)
        mine, theirs = self.head.decision(at), self.head.decision(over)
        keeps = (mine >= 0) & (mine == theirs)
        return _Judged(self._violation(at, over), keeps, (mine < 0) | ((theirs >= 0) & ~keeps), at)

    def _violation(self, at: Enclosure, over: Enclosure) -> Array:
        return self.head.violation(over if self.by_box else at, over)
