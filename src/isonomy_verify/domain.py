"""Which vectors stand for a possible individual, in one of three kinds.

* ``unbounded``: every finite vector;
* ``relaxed``: every coordinate in its range, every one-hot block in the simplex;
* ``realizable``: exactly one category per block, flags 0 or 1, whole numbers on their lattice.

Each kind contains the next one, so a bound proved on an earlier kind holds on a later one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy_verify.arithmetic import Array, U
from isonomy_verify.regions import SIMPLEX_TOLERANCE

Mask = NDArray[np.bool_]
Kind = Literal["unbounded", "relaxed", "realizable"]


@dataclass(frozen=True, eq=False)
class Domain:
    """The set of vectors that stand for a possible individual.

    ``low`` and ``high`` are the ranges of the ``m`` coordinates (infinite where there is none). ``blocks``
    are half-open ranges of coordinates: width 2 or more is a one-hot block, width 1 a 0/1 flag. Where
    ``integer`` is set the coordinate is ``(k - origin) / unit`` for a whole number ``k``. ``fills`` holds
    ``(flag, value, fill)``: when the coordinate ``flag`` is 1 (the value is missing), the coordinate
    ``value`` is ``fill``. Similar individuals agree exactly on ``immutable`` coordinates, in every kind of
    domain.

    **Soundness.** Lattice points, ranges and fills are computed by the very expression of the encoder, so
    every encoded row is a member bit for bit. ``relaxed`` membership allows block sums within
    ``SIMPLEX_TOLERANCE`` of 1; a bound that is to cover every member must allow for it.
    """

    kind: Kind
    low: Array
    high: Array
    blocks: tuple[tuple[int, int], ...]
    integer: Mask
    origin: Array
    unit: Array
    immutable: Mask
    names: tuple[str, ...]
    fills: tuple[tuple[int, int, float], ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.origin, self.unit)
        if any(part.shape != (self.width,) for part in (*numbers, self.integer, self.immutable)):
            raise ValueError(f"A domain must have {self.width} numbers of each kind, one for each name.")
        if self.kind not in get_args(Kind) or self.integer.dtype != bool or self.immutable.dtype != bool:
            raise ValueError("A domain must be unbounded, relaxed or realizable, and say yes or no of each coordinate.")
        if not ((self.low <= self.high) & (self.unit > 0) & np.isfinite(self.unit) & np.isfinite(self.origin)).all():
            raise ValueError("The ranges of a domain must not be empty, and its units positive.")
        ends = [end for block in sorted(self.blocks) for end in block]
        if any(a > b for a, b in itertools.pairwise([0, *ends, self.width])) or any(a == b for a, b in self.blocks):
            raise ValueError("The blocks of a domain must be ranges of its coordinates that do not overlap.")
        if not ((self.low >= 0) & (self.high <= 1) | self.numeric).all():  # else shares that add up to 1 are no simplex
            raise ValueError("Shares and flags of a domain must lie between 0 and 1.")
        flags = {start for start, stop in self.blocks if stop - start == 1}
        if any(flag not in flags or not 0 <= value < self.width for flag, value, _ in self.fills):
            raise ValueError("A fill must name a flag and the coordinate that it fills.")

    @classmethod
    def of(cls, arrays: Mapping[str, Any], names: tuple[str, ...]) -> Self:
        """From the arrays of a certificate, which know no names."""
        blocks = tuple((int(start), int(stop)) for start, stop in arrays["blocks"])
        fills = tuple((int(flag), int(value), float(fill)) for flag, value, fill in arrays["fills"])
        parts = {part: arrays[part] for part in ("low", "high", "integer", "origin", "unit", "immutable")}
        return cls(kind=str(arrays["kind"]), blocks=blocks, fills=fills, names=names, **parts)  # type: ignore[arg-type]

    @property
    def width(self) -> int:
        """The number ``m`` of coordinates."""
        return len(self.names)

    @property
    def numeric(self) -> Mask:
        """``(m,)``: True where the coordinate is in no block."""
        mask = np.ones(self.width, dtype=bool)
        for start, stop in self.blocks:
            mask[start:stop] = False
        return mask

    @property
    def simplices(self) -> tuple[tuple[int, int], ...]:
        """The one-hot blocks, without flags."""
        return tuple(block for block in self.blocks if block[1] - block[0] > 1)

    def contains(self, x: ArrayLike) -> Mask:
        """``(n,)``: which rows of ``x`` stand for a possible individual. A NaN or infinity never does."""
        rows = self._rows(x)
        member = _all_of(np.isfinite(rows))
        if self.kind == "unbounded":
            return member
        rows = np.where(member[:, None], rows, 0.0)
        member &= _all_of((rows >= self.low) & (rows <= self.high))
        if self.kind == "relaxed":
            for start, stop in self.simplices:
                member &= np.abs(rows[:, start:stop].sum(axis=1) - 1.0) <= SIMPLEX_TOLERANCE
            return member
        for start, stop in self.blocks:
            block = rows[:, start:stop]
            member &= _all_of((block == 0.0) | (block == 1.0))
            if stop - start > 1:
                member &= block.sum(axis=1) == 1.0
        for flag, value, fill in self.fills:
            member &= (rows[:, flag] != 1.0) | (rows[:, value] == fill)
        return member & _all_of(rows == self.snap(rows))

    def allows(self, x: ArrayLike, y: ArrayLike) -> Mask:
        """``(n,)``: is ``y`` a possible individual that agrees with ``x`` on immutable coordinates?"""
        own, other = self._rows(x), self._rows(y)
        return self.contains(other) & _all_of((own == other)[:, self.immutable])

    def filled(self, x: Array) -> Array:
        """People (n, m), where whoever has no value for a feature is given its fill."""
        if self.kind != "realizable" or not self.fills:
            return x
        x = x.copy()
        for flag, value, fill in self.fills:
            x[:, value] = np.where(x[:, flag] == 1.0, fill, x[:, value])
        return x

    def snap(self, x: ArrayLike) -> Array:
        """A copy of ``x`` with integer coordinates at their nearest lattice value (realizable only)."""
        rows = self._rows(x).copy()
        if self.kind == "realizable" and self.integer.any():
            origin, unit = self.origin[self.integer], self.unit[self.integer]
            with np.errstate(over="ignore"):  # a finite x far outside every range; it snaps to infinity, no member
                rows[:, self.integer] = (np.rint(rows[:, self.integer] * unit + origin) - origin) / unit
        return rows if np.ndim(x) == 2 else rows[0]

    def filled_box(self, centre: Array, low: Array, high: Array) -> tuple[Array, Array]:
        """Boxes of moves (n, m) from the centres, narrowed to the fill where every move leaves a value missing.

        **Soundness.** Members of a realizable domain whose flag is 1 have the fill itself; ``fill − centre`` is
        computed within one rounding, and the box keeps several more. A box that is left empty holds no member.
        """
        low, high = (np.array(np.broadcast_to(side, centre.shape)) for side in (low, high))
        for flag, value, fill in self.fills:
            missing = (centre[:, flag] == 1.0) & (low[:, flag] == 0.0) & (high[:, flag] == 0.0)
            move = fill - centre[:, value]
            room = (4 * U) * (abs(fill) + np.abs(centre[:, value]))
            low[:, value] = np.where(missing, np.maximum(low[:, value], move - room), low[:, value])
            high[:, value] = np.where(missing, np.minimum(high[:, value], move + room), high[:, value])
        return low, high

    def _rows(self, x: ArrayLike) -> Array:
        rows: Array = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"People must be rows of {self.width} coordinates. Got shape {np.shape(x)}.")
        return rows


def _all_of(conditions: Mask) -> Mask:
    """The rows that meet every condition."""
    met: Mask = np.all(conditions, axis=1)
    return met
