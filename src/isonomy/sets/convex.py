"""Convex sets of moves, as arrays.

The people similar to an individual, seen from that individual, are the moves

    V = { v : ‖o + R v‖_p ≤ ρ,  low ≤ v ≤ high,  each relaxed one-hot block stays in its simplex }.

What bounds ask of a set, its support function, is the kernel's to answer (:func:`isonomy.bounds.kernel.region_of`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy_verify.arithmetic import TINY, gamma


@dataclass(frozen=True, eq=False)
class ConvexSets:
    """A batch of sets of moves, one per row; parameters with one row are shared by all rows.

    ``root`` (r, m) and ``order`` give the seminorm, ``radius`` (rows,) and ``offset`` (rows, r) its ball; ``low``
    and ``high`` (rows, m) the box; ``blocks`` the coordinate ranges that besides move within a simplex whose present
    shares are ``base`` (rows, m), and for which the box must be finite. ``inverse`` (m, r) is any approximate inverse
    of the root. ``clipped`` says whether the box holds anything back that the ball would reach.
    """

    root: FloatArray
    order: float
    radius: FloatArray
    offset: FloatArray
    low: FloatArray
    high: FloatArray
    blocks: tuple[tuple[int, int], ...]
    base: FloatArray
    inverse: FloatArray
    clipped: bool = True

    @classmethod
    def of_box(
        cls, low: FloatArray, high: FloatArray, base: FloatArray | None = None, blocks: tuple[tuple[int, int], ...] = ()
    ) -> ConvexSets:
        """Boxes, with some blocks in their simplex; no seminorm."""
        width = low.shape[1]
        base = np.zeros((1, width)) if base is None else base
        nothing = np.zeros((0, width)), 2.0, np.zeros(1), np.zeros((1, 0))
        return cls(*nothing, low, high, blocks, base, np.zeros((width, 0)))

    @classmethod
    def of_ball(cls, scale: FloatArray, order: float, radius: float) -> ConvexSets:
        """One ball ``‖scale · v‖_order ≤ radius`` for everybody; ``scale`` (m,) is positive."""
        extent, nothing = (radius / scale * (1 + gamma(4)))[None] + TINY, np.zeros((1, len(scale)))
        ball = np.diag(scale), order, np.array([float(radius)]), nothing
        return cls(*ball, -extent, extent, (), nothing, np.diag(1 / scale), clipped=False)

    @property
    def rows(self) -> int:
        """How many sets the batch holds; 1 also stands for a set that all individuals share."""
        return max(len(part) for part in (self.radius, self.offset, self.low, self.high, self.base))

    @property
    def extent(self) -> FloatArray:
        """The largest possible ``|v|`` per coordinate, infinite where nothing bounds it."""
        return np.maximum(np.abs(self.low), np.abs(self.high))
