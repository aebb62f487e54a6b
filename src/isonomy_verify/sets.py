"""Similar sets as convex pieces: the parameters of sets of moves, and whose they are.

The people similar to an individual, seen from that individual, are moves

    V = { v : ‖o + R v‖_p ≤ ρ,  low ≤ v ≤ high,  each relaxed one-hot block stays in its simplex }.

What bounds ask of a set, its support function, is in :mod:`isonomy_verify.regions`, of which :func:`ball_of` and
:func:`region_of` give an object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from isonomy_verify.arithmetic import TINY, Array, gamma
from isonomy_verify.domain import Mask
from isonomy_verify.regions import Ball, BallBox, Index, SingularError


@dataclass(frozen=True, eq=False)
class ConvexSets:
    """A batch of sets of moves, one per row; parameters with one row are shared by all rows.

    ``root`` (r, m) and ``order`` give the seminorm, ``radius`` (rows,) and ``offset`` (rows, r) its ball; ``low``
    and ``high`` (rows, m) the box; ``blocks`` the coordinate ranges that besides move within a simplex whose present
    shares are ``base`` (rows, m), and for which the box must be finite. ``inverse`` (m, r) is any approximate inverse
    of the root. ``clipped`` says whether the box holds anything back that the ball would reach.
    """

    root: Array
    order: float
    radius: Array
    offset: Array
    low: Array
    high: Array
    blocks: tuple[tuple[int, int], ...]
    base: Array
    inverse: Array
    clipped: bool = True

    @classmethod
    def of_box(
        cls, low: Array, high: Array, base: Array | None = None, blocks: tuple[tuple[int, int], ...] = ()
    ) -> ConvexSets:
        """Boxes, with some blocks in their simplex; no seminorm."""
        width = low.shape[1]
        base = np.zeros((1, width)) if base is None else base
        nothing = np.zeros((0, width)), 2.0, np.zeros(1), np.zeros((1, 0))
        return cls(*nothing, low, high, blocks, base, np.zeros((width, 0)))

    @classmethod
    def of_ball(cls, scale: Array, order: float, radius: float) -> ConvexSets:
        """One ball ``‖scale · v‖_order ≤ radius`` for everybody; ``scale`` (m,) is positive."""
        extent, nothing = (radius / scale * (1 + gamma(4)))[None] + TINY, np.zeros((1, len(scale)))
        ball = np.diag(scale), order, np.array([float(radius)]), nothing
        return cls(*ball, -extent, extent, (), nothing, np.diag(1 / scale), clipped=False)

    @property
    def rows(self) -> int:
        """How many sets the batch holds; 1 also stands for a set that all individuals share."""
        return max(len(part) for part in (self.radius, self.offset, self.low, self.high, self.base))

    @property
    def extent(self) -> Array:
        """The largest possible ``|v|`` per coordinate, infinite where nothing bounds it."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def is_ball(self) -> bool:
        """Is this one ball around 0 for everybody, and nothing else?"""
        return self.rows == 1 and not self.clipped and len(self.root) > 0 and not self.offset.any()

    def __getitem__(self, rows: slice | Index | Mask) -> ConvexSets:
        """Some rows of a batch; what is shared stays shared."""
        if self.rows == 1:
            return self
        parts = ("radius", "offset", "low", "high", "base")
        return replace(self, **{part: value[rows] for part in parts if len(value := getattr(self, part)) > 1})


@dataclass(frozen=True)
class Regions:
    """Convex pieces of similar sets: ``owner`` says whose, ``y = centre + v`` with ``v`` in ``sets``."""

    owner: Index
    centre: Array
    sets: ConvexSets

    def __len__(self) -> int:
        return len(self.owner)

    def __getitem__(self, rows: slice | Index | Mask) -> Regions:
        return Regions(self.owner[rows], self.centre[rows], self.sets[rows])

    def pieces(self, size: int) -> Iterator[Regions]:
        """The regions in batches of at most ``size``."""
        if len(self) <= size:
            yield self
            return
        for start in range(0, len(self), size):
            yield self[start : start + size]


def ball_of(sets: ConvexSets) -> Ball | None:
    """The ball that everybody shares; None where there is none, or where its root is all but singular."""
    if not sets.is_ball:
        return None
    still = (sets.extent[0] == 0) & ~sets.root.any(0)
    try:
        return Ball(sets.root, sets.order, float(sets.radius[0]), sets.inverse, still)
    except SingularError:
        return None


def region_of(sets: ConvexSets) -> BallBox:
    """A set for each row, or one for all."""
    return BallBox(
        sets.low, sets.high, sets.root, sets.order, sets.radius, sets.offset, sets.inverse, sets.blocks, sets.base
    )
