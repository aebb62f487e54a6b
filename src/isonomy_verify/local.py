"""How differently can an individual similar to this very individual be treated?

Problem, for each individual ``x``:  ``I(x, δ) = max { max_c |f_c(x) − f_c(y)| : y in X, d(x, y) ≤ δ }``.

**Soundness.** Regions cover the similar set, enclosures hold the margins of everybody in a region, and those at ``x``
its own run: the largest violation over all regions is at least ``I(x, δ)``, and a decision that is the same at ``x``
and all over every region is everybody's. Each region counts with its smallest bound of several, all of which hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array, stepped_up
from isonomy_verify.branching import Improve
from isonomy_verify.combinations import MANY, PAIRS, Images, Product, product_of
from isonomy_verify.decisions import proved_decisions
from isonomy_verify.domain import Mask
from isonomy_verify.enclosure import Prepared
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.models import PARTS
from isonomy_verify.models import Bounds as ModelBounds
from isonomy_verify.models import Known as Known
from isonomy_verify.preparations import Preparations
from isonomy_verify.reach import Reach
from isonomy_verify.regions import Index
from isonomy_verify.sets import ConvexSets, Regions
from isonomy_verify.similar import Similarity
from isonomy_verify.tiers import TIERS, Enclosure, Tier, enclose_at


class _Judged(NamedTuple):
    """For each region: the largest violation, whether no individual there is decided otherwise than its owner, and
    whether that can never be shown."""

    bound: Array
    keeps: Mask
    turns: Mask
    at: Enclosure  # the margins at its owner


class LocalBounds(ModelBounds):
    """Upper bounds and certain decisions of a network, over every region of a similar set; ``size`` regions at a time.

    ``by_box`` is the paper's way (Theorem 5.1), for comparison: the box around each region, and the whole width of
    the outputs over it. ``improve`` searches for hints of decisions that a tier leaves open: without it these stay so.
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
        improve: Improve | None = None,
    ) -> None:
        self.improve = improve
        self.network, self.head, self.similarity, self.size = network, head, similarity, size
        self.alike = similarity.in_common(network.network.reads == 0)  # all that bounds have to look at
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
        if branching and not self.by_box and (product := product_of(self.alike, x)) is not None:
            return self._combined(product)
        at_x = enclose_at(self.alone, x) if branching else None
        ats: list[Enclosure] = []
        directions: list[Array] = []
        for regions in self.alike.each(x):
            for piece in regions.pieces(self.size):
                judged = (
                    self.judged(piece, None, self.tier, directions=directions)
                    if at_x is None
                    else self._laddered(piece, at_x)
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
        direction = np.concatenate(directions) if sum(map(len, directions)) == len(x) else None
        return Known(upper, kept, at, direction)

    def over(self, piece: Regions, tier: Tier, directions: list[Array] | None = None) -> Enclosure:
        """Margins over regions; ``directions`` receives which way a tier looked for the extremes of a shared ball."""
        sets = piece.sets
        if self.by_box:
            shape = len(piece), sets.low.shape[1]
            sets = ConvexSets.of_box(np.broadcast_to(sets.low, shape), np.broadcast_to(sets.high, shape))
        return self.network.enclose(piece.centre, sets, tier, float32_run=self.float32_run, directions=directions)

    def enclose_run(self, x: Array) -> Enclosure:
        """The margins of individuals, those of float32 runs included where these are covered."""
        return enclose_at(self.alone, x)

    def enclose(self, x: Array) -> Enclosure:
        """The margins of individuals ``x`` (n, m) themselves, in real arithmetic."""
        return enclose_at(self.network.single(float32_run=False), x)

    def proved_decisions(self, x: Array, known: Known, wanted: Mask, parts: int = PARTS) -> Mask:
        """Which of the ``wanted`` (n,) decisions stand: :func:`isonomy_verify.decisions.proved_decisions`."""
        return proved_decisions(self, x, known, wanted, parts)

    def reach(self, ground: Form) -> Reach:
        """Bounds of two runs and their difference."""
        return Reach(self.network, self.head, self.alike, ground, self.float32_run)

    def rungs(self, many: bool) -> tuple[Tier, ...]:
        """Tiers for regions of which everybody has several or ``many``."""
        last = TIERS.index(self.tier)
        return TIERS[0 if many else min(last, 1) : last + 1]

    def _combined(self, product: Product) -> Known:
        """What is known where similar sets are products, those of some people at a time.

        Bounds end at a step, so that a person's is the same whichever others are asked about, however products of other
        sizes add up.
        """
        x = product.centre
        at = enclose_at(self.alone, x)
        upper, kept = np.full(len(x), np.inf), np.zeros(len(x), dtype=bool)
        step = max(1, PAIRS // product.size)
        for start in range(0, len(x), step):
            rows = start + np.flatnonzero(~product.empty[start : start + step])
            upper[rows], kept[rows] = _Ladder(self, product.of(rows), at.of(rows)).climb()
        return Known(np.minimum(stepped_up(upper), self.head.largest), kept, None if self.float32_run else at)

    def _laddered(self, piece: Regions, at_x: Enclosure) -> _Judged:
        """Bounds of regions of which everybody has several: only the worst one of each counts.

        All are bounded in the cheapest way that pays; then, rung by rung, the worst of each more tightly, and those
        that are still above it or that alone leave a decision open.
        """
        first, *others = self.rungs(len(piece) >= MANY * len(np.unique(piece.owner)))
        bound, keeps, turns, at = self.judged(piece, at_x, first)
        for tier in others:
            order = np.lexsort((bound, piece.owner))
            rows = order[np.append(piece.owner[order][1:] != piece.owner[order][:-1], True)]
            floor, done = np.zeros(len(at_x.low)), np.zeros(len(bound), dtype=bool)
            while len(rows):
                found = self.judged(piece[rows], at_x, tier)
                bound[rows], keeps[rows] = np.minimum(bound[rows], found.bound), keeps[rows] | found.keeps
                turns[rows] |= found.turns
                np.maximum.at(floor, piece.owner[rows], bound[rows])
                done[rows] = True
                lost = np.zeros(len(at_x.low), dtype=bool)
                lost[piece.owner[turns]] = True
                rows = np.flatnonzero(((bound > floor[piece.owner]) | ~(keeps | lost[piece.owner])) & ~done)
        return _Judged(bound, keeps, turns, at)

    def judged(
        self, piece: Regions, at_x: Enclosure | None, tier: Tier, directions: list[Array] | None = None
    ) -> _Judged:
        """What a tier says of regions; without branches, and ``at_x``, every region is centred at its owner."""
        at = enclose_at(self.alone, piece.centre) if at_x is None else at_x.of(piece.owner)
        return self.judge(at, self.over(piece, tier, directions))

    def judge(self, at: Enclosure, over: Enclosure) -> _Judged:
        """What margins at owners and over their regions say."""
        mine, theirs = self.head.decision(at), self.head.decision(over)
        keeps = (mine >= 0) & (mine == theirs)
        return _Judged(self._violation(at, over), keeps, (mine < 0) | ((theirs >= 0) & ~keeps), at)

    def _violation(self, at: Enclosure, over: Enclosure) -> Array:
        return self.head.violation(over if self.by_box else at, over)


class _Ladder:
    """Bounds of all combinations of some people: of everybody only the worst one counts.

    All are bounded by intervals; then, rung by rung, the worst of each more tightly, and those that are still above it
    or that alone leave a decision open.
    """

    def __init__(self, bounds: LocalBounds, product: Product, at: Enclosure) -> None:
        self.bounds, self.product, self.at = bounds, product, at
        self.bound, self.keeps = np.where(product.allowed, np.inf, 0.0), ~product.allowed
        self.lost = np.asarray(bounds.head.decision(at) < 0)  # whose decision is not certain, or certainly changes

    def climb(self) -> tuple[Array, Mask]:
        """Upper bounds (n,), and whose decision is kept."""
        first, *others = self.bounds.rungs(many=self.product.size >= MANY)
        if first == "interval":
            self._start()
        else:
            row, j = np.nonzero(self.product.allowed)
            self._improve(row, j, first)
        for rung in others:
            done = ~self.product.allowed
            row, j = np.arange(len(self.bound)), self.bound.argmax(1)
            floor = np.zeros(len(row))
            while len(row):
                self._improve(row, j, rung)
                done[row, j] = True
                np.maximum.at(floor, row, self.bound[row, j])
                open_ = (self.bound > floor[:, None]) | ~(self.keeps | self.lost[:, None])
                row, j = np.nonzero(open_ & ~done)
        return self.bound.max(1), self.keeps.all(1) & ~self.lost

    def _start(self) -> None:
        """Bound all combinations by intervals that share the first layer."""
        for tile, over in Images(self.bounds.alone, self.product).intervals():
            found = self.bounds.judge(self.at.of(tile.owner), over)
            part, shape = (tile.people, tile.combinations), self.bound[tile.people, tile.combinations].shape
            allowed = self.product.allowed[part]
            self.bound[part] = np.where(allowed, found.bound.reshape(shape), 0.0)
            self.keeps[part] |= found.keeps.reshape(shape)
            self.lost[tile.people] |= (found.turns.reshape(shape) & allowed).any(1)

    def _improve(self, row: Index, combination: Index, tier: Tier) -> None:
        """Bound some combinations by a tier's passes."""
        size = self.bounds.size
        for start in range(0, len(row), size):
            o, j = row[start : start + size], combination[start : start + size]
            found = self.bounds.judged(self.product.regions(o, j), self.at, tier)
            self.bound[o, j] = np.minimum(self.bound[o, j], found.bound)
            self.keeps[o, j] |= found.keeps
            self.lost[o[found.turns]] = True
