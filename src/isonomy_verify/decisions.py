"""Whose decision does no similar individual have otherwise?

Problem, for each individual ``x`` with the decision ``c``: is every ``y in X`` with ``d(x, y) ≤ δ`` decided as ``c``?
What a tier leaves open is asked of parts: every region of the similar set in which a margin may cross its cut-off is
the root of a tree (:mod:`isonomy_verify.branching`), which is cut until each leaf excludes the crossing. Where to cut
and with which hints a leaf is bounded is no matter of soundness, so that a certificate need not say it: a search, which
the bounds are given, looks for both on every machine anew.

**Soundness.** A decision stands where it is certain at ``x`` and every leaf of every region excludes every contest that
would end it. An individual that is not settled after :data:`PARTS` parts is not said to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.branching import Leaves
from isonomy_verify.cutting import SMALLEST
from isonomy_verify.domain import Mask
from isonomy_verify.heads import Contests, Head
from isonomy_verify.models import PARTS as PARTS
from isonomy_verify.models import Known
from isonomy_verify.sets import Regions, region_of
from isonomy_verify.similar import filled
from isonomy_verify.tiers import Enclosure, enclose_at

if TYPE_CHECKING:
    from isonomy_verify.local import LocalBounds

PEOPLE, BATCH = 64, 512
"""Individuals, and parts, that are looked at together."""

FEW_MOVING = 6
"""Up to this number of coordinates that move, boxes are cut where activations are curved: of a curve no cut is the
end."""

Index = NDArray[np.int64]


class Goals(NamedTuple):
    """Rows of regions, with a goal each: an output, a sign, and what is known of it."""

    row: Index
    output: Index
    sign: Array
    bound: Array

    def of(self, some: Index | slice) -> Goals:
        """Some of them."""
        return Goals(self.row[some], self.output[some], self.sign[some], self.bound[some])

    @classmethod
    def joined(cls, several: list[Goals]) -> Goals:
        """Several as one."""
        none = np.zeros(0, dtype=np.int64)
        parts: list[Any] = [
            np.concatenate(each) for each in zip((none, none, none * 1.0, none * 1.0), *several, strict=True)
        ]
        return cls(*parts)


def proved_decisions(bounds: LocalBounds, x: Array, known: Known, wanted: Mask, parts: int = PARTS) -> Mask:
    """Which of the ``wanted`` (n,) decisions of individuals ``x`` stand: those that the tier has ``known`` as kept,
    those that differ too little to change, and, with a search, those that at most ``parts`` parts each settle."""
    found = known.kept & wanted
    rows = np.flatnonzero(wanted & ~known.kept)
    found[rows] = bounds.keeps(np.ascontiguousarray(x[rows]), known.upper[rows])
    rows = rows[~found[rows]] if bounds.improve is not None else rows[:0]
    for start in range(0, len(rows), PEOPLE):
        some = rows[start : start + PEOPLE]
        found[some] = _settled(bounds, np.ascontiguousarray(x[some]), parts)
    return found


def contested(head: Head, contests: Contests, people: int, piece: Regions, over: Enclosure) -> Goals:
    """Contests of ``people`` that may be lost in regions over which the margins are enclosed."""
    found = []
    for margin in np.unique(contests.margin):
        place = np.full(people, -1)
        mine = np.flatnonzero(contests.margin == margin)
        place[contests.row[mine]] = mine
        which = place[piece.owner]
        row = np.flatnonzero(which >= 0)
        sign = contests.sign[which[row]]
        bound = np.where(sign > 0, over.high[row, margin], -over.low[row, margin])
        goals = Goals(row, np.full(len(row), margin), sign, bound)
        found.append(goals.of(np.flatnonzero(~head.excluded(sign, bound))))
    return Goals.joined(found)


def _settled(bounds: LocalBounds, x: Array, parts: int) -> Mask:
    """Whose decisions parts settle."""
    head, domain = bounds.head, bounds.similarity.domain
    contests = head.contests(head.decision(enclose_at(bounds.alone, x)))
    stands, spent = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=np.int64)
    stands[contests.row], seen = True, np.zeros(len(x), dtype=bool)
    for regions in bounds.alike.each(x):
        for piece in filled(regions, domain).pieces(bounds.size):
            seen[piece.owner] = True
            piece = piece[np.flatnonzero(stands[piece.owner])]
            if not len(piece):
                continue
            goals = contested(head, contests, len(x), piece, bounds.over(piece, bounds.tier))
            for start in range(0, len(goals.row), BATCH):
                _cut(bounds, piece, goals.of(slice(start, start + BATCH)), stands, spent, parts)
    return np.asarray(stands & seen)  # everybody is similar to themselves: no region is no proof


def _cut(bounds: LocalBounds, piece: Regions, goals: Goals, stands: Mask, spent: Index, parts: int) -> None:
    """Cut regions with goals until all are excluded; whose parts are spent no longer ``stands``."""
    mine, head, improve = piece[goals.row], bounds.head, bounds.improve
    assert improve is not None
    prepared = bounds.network.single(None, bounds.float32_run)
    box = region_of(mine.sets)
    box = box.boxed(*(np.broadcast_to(end, mine.centre.shape) for end in (box.low, box.high)))
    leaves = Leaves(prepared, mine.centre, box, goals.output, goals.sign, goals.bound)
    influence = sum(
        np.abs(block.weight).sum(0) for layer in prepared.network.layers for block in layer.blocks if block.source == 0
    )
    while True:
        rows = np.flatnonzero(leaves.open)
        owner = mine.owner[leaves.root[rows]]
        np.logical_and.at(stands, owner, spent[owner] < parts)
        leaves.close(rows[~stands[owner]])
        rows = rows[stands[owner]]
        if not len(rows):
            break
        rows = np.sort(rows[np.argsort(leaves.bound[rows], kind="stable")[:BATCH]])  # the nearest to be done: few wait
        sign, owner = goals.sign[leaves.root[rows]], mine.owner[leaves.root[rows]]
        np.add.at(spent, owner, 1)
        cut = improve(leaves, rows, head.needed(sign))
        done = head.excluded(sign, leaves.bound[rows])
        leaves.close(rows[done])
        layer, column, value = cut.layer.copy(), cut.column.copy(), cut.value.copy()
        low, high = leaves.box(rows)
        side = np.where(np.isfinite(high - low) & (high - low > SMALLEST), high - low, 0.0) * influence
        boxes = (layer < 0) | (leaves.curved & ((side > 0).sum(1) <= FEW_MOVING))
        stuck = ~done & boxes & ~(side > 0).any(1) & (layer < 0)
        stands[owner[stuck]] = False
        boxes &= (side > 0).any(1)
        widest = side.argmax(1)
        at = np.arange(len(rows)), widest
        layer[boxes], column[boxes] = -1, widest[boxes]
        value[boxes] = (low[at] / 2 + high[at] / 2)[boxes]
        go = np.flatnonzero(~done & ~stuck)
        if len(go):
            leaves.split(rows[go], layer[go], column[go], value[go])
    lost = ~head.excluded(goals.sign, leaves.upper())
    stands[mine.owner[lost]] = False
