"""Which vectors stand for a possible individual.

A network is defined on all of ``R^m``, but ``0.02 of another occupation`` is nobody. A :class:`Domain` says
which vectors count, in one of three kinds:

* ``unbounded``: every finite vector;
* ``relaxed``: every coordinate in its range, every one-hot block in the simplex;
* ``realizable``: exactly one category per block, flags 0 or 1, whole numbers on their lattice.

Each kind contains the next one, so a bound proved on an earlier kind holds on a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.arithmetic import SIMPLEX_TOLERANCE
from isonomy.errors import ParameterError, template

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
DomainKind = Literal["unbounded", "relaxed", "realizable"]


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

    kind: DomainKind
    low: FloatArray
    high: FloatArray
    blocks: tuple[tuple[int, int], ...]
    integer: BoolArray
    origin: FloatArray
    unit: FloatArray
    immutable: BoolArray
    names: tuple[str, ...]
    fills: tuple[tuple[int, int, float], ...] = ()

    def __post_init__(self) -> None:
        check_kind(self.kind)
        width = len(self.names)
        for field, dtype in _ARRAYS.items():
            array: NDArray[Any] = np.array(getattr(self, field), dtype=dtype)
            if array.shape != (width,):
                raise ParameterError(template(field, f"an array of shape ({width},), one per name", array.shape))
            array.setflags(write=False)
            object.__setattr__(self, field, array)
        if not (self.unit > 0).all():
            raise ParameterError(template("unit", "positive", float(self.unit.min())))

    @classmethod
    def unbounded(cls, width: int, names: tuple[str, ...] | None = None) -> Domain:
        """All of ``R^width``."""
        return cls(
            kind="unbounded",
            low=np.full(width, -np.inf),
            high=np.full(width, np.inf),
            blocks=(),
            integer=np.zeros(width, dtype=bool),
            origin=np.zeros(width),
            unit=np.ones(width),
            immutable=np.zeros(width, dtype=bool),
            names=tuple(names) if names is not None else tuple(f"x{i}" for i in range(width)),
        )

    @property
    def width(self) -> int:
        """The number ``m`` of coordinates."""
        return len(self.names)

    @property
    def numeric(self) -> BoolArray:
        """``(m,)``: True where the coordinate is in no block."""
        mask = np.ones(self.width, dtype=bool)
        for start, stop in self.blocks:
            mask[start:stop] = False
        return mask

    def with_kind(self, kind: DomainKind) -> Domain:
        """The same coordinates in another kind of domain.

        The unbounded domain forgets ranges, blocks and lattices (so that no bound can use them by mistake),
        hence there is no way back from it; ask the schema, which knows them.
        """
        check_kind(kind)
        if kind == self.kind:
            return self
        if kind == "unbounded":
            return replace(Domain.unbounded(self.width, self.names), immutable=self.immutable)
        if self.kind == "unbounded":
            raise ParameterError(
                f"An unbounded domain has no ranges to make a {kind} one from: use schema.domain({kind!r})."
            )
        return replace(self, kind=kind)

    def contains(self, x: ArrayLike) -> BoolArray:
        """``(n,)``: which rows of ``x`` stand for a possible individual. A NaN or infinity never does."""
        rows = self._rows(x)
        member = _all_of(np.isfinite(rows))
        if self.kind == "unbounded":
            return member
        rows = np.where(member[:, None], rows, 0.0)
        member &= _all_of((rows >= self.low) & (rows <= self.high))
        if self.kind == "relaxed":
            for start, stop in self.blocks:
                if stop - start > 1:
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

    def allows(self, x: ArrayLike, y: ArrayLike) -> BoolArray:
        """``(n,)``: is ``y`` a possible individual that agrees with ``x`` on immutable coordinates?"""
        own, other = self._rows(x), self._rows(y)
        return self.contains(other) & _all_of((own == other)[:, self.immutable])

    def filled(self, x: FloatArray) -> FloatArray:
        """People (n, m), where whoever has no value for a feature is given its fill."""
        if self.kind != "realizable" or not self.fills:
            return x
        x = x.copy()
        for flag, value, fill in self.fills:
            x[:, value] = np.where(x[:, flag] == 1.0, fill, x[:, value])
        return x

    def snap(self, x: ArrayLike) -> FloatArray:
        """A copy of ``x`` with integer coordinates at their nearest lattice value (realizable only)."""
        rows = self._rows(x).copy()
        if self.kind == "realizable" and self.integer.any():
            origin, unit = self.origin[self.integer], self.unit[self.integer]
            with np.errstate(over="ignore"):  # a finite x far outside every range; it snaps to infinity, no member
                rows[:, self.integer] = (np.rint(rows[:, self.integer] * unit + origin) - origin) / unit
        return rows if np.ndim(x) == 2 else rows[0]

    def _rows(self, x: ArrayLike) -> FloatArray:
        rows: FloatArray = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ParameterError(template("x", f"rows of {self.width} coordinates", np.shape(x)))
        return rows


_ARRAYS = {
    "low": np.float64,
    "high": np.float64,
    "integer": np.bool_,
    "origin": np.float64,
    "unit": np.float64,
    "immutable": np.bool_,
}


def _all_of(conditions: BoolArray) -> BoolArray:
    """The rows that meet every condition."""
    met: BoolArray = np.all(conditions, axis=1)
    return met


def check_kind(kind: str) -> None:
    """Refuse a kind of domain that does not exist."""
    if kind not in get_args(DomainKind):
        raise ParameterError(template("domain", "'unbounded', 'relaxed' or 'realizable'", kind))
