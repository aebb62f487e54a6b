"""Which vectors stand for a possible individual, in one of three kinds.

* ``unbounded``: every finite vector;
* ``relaxed``: every coordinate in its range, every one-hot block in the simplex;
* ``realizable``: exactly one category per block, flags 0 or 1, whole numbers on their lattice.

Each kind contains the next one, so a bound proved on an earlier kind holds on a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy_verify.arithmetic import Array, U
from isonomy_verify.regions import SIMPLEX_TOLERANCE

Mask = NDArray[np.bool_]
Kind = Literal["unbounded", "relaxed", "realizable"]
_FLAGS = ("integer", "immutable")


@dataclass(frozen=True, eq=False)
class Domain:
    """The set of vectors that stand for a possible individual.

    Its ``kind`` is ``"unbounded"``, ``"relaxed"`` or ``"realizable"``, and ``names`` are those of the coordinates.
    ``low`` and ``high`` are the ranges of the ``m`` coordinates (infinite where there is none). ``blocks``
    are half-open ranges of coordinates: width 2 or more is a one-hot block, width 1 a 0/1 flag. Where
    ``integer`` is set the coordinate is ``(k - origin) / unit`` for a whole number ``k``. ``fills`` holds
    ``(flag, value, fill)``: when the coordinate ``flag`` is 1 (the value is missing), the coordinate
    ``value`` is ``fill``. Similar individuals agree exactly on ``immutable`` coordinates, in every kind of
    domain.

    **Soundness.** Lattice points, ranges and fills are computed by the very expression of the encoder, so
    every encoded row is a member bit for bit. ``relaxed`` membership allows block sums within
    ``SIMPLEX_TOLERANCE`` of 1; a bound that is to cover every member must allow for it. What is true of everybody in
    a domain without members is worth nothing: one whose parts contradict each other is refused.
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
        check_kind(self.kind)
        width = len(self.names)
        for field in ("low", "high", "origin", "unit", *_FLAGS):
            try:
                array: NDArray[Any] = np.array(getattr(self, field), dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(wrong(field, "an array of numbers", getattr(self, field))) from None
            if array.shape != (width,):
                raise ValueError(wrong(field, f"an array of shape ({width},), one per name", array.shape))
            if field in _FLAGS:
                self._each(field, "true or false", (array == 0) | (array == 1), array)
            array = array.astype(bool) if field in _FLAGS else array
            array.setflags(write=False)
            object.__setattr__(self, field, array)
        if (twice := repeated(self.names)) is not None:
            raise ValueError(f"'names' must be different names, and two coordinates are called '{twice}'.")
        self._each("unit", "positive and finite", (self.unit > 0) & (self.unit < np.inf), self.unit)
        self._each("origin", "finite", np.isfinite(self.origin), self.origin)
        self._each("low", "a number below infinity", self.low < np.inf, self.low)
        self._each("high", "a number above minus infinity", self.high > -np.inf, self.high)
        self._each("high", "at least 'low'", self.low <= self.high, self.high)
        self._check_blocks()
        self._check_fills()
        if self.kind == "realizable":
            self._check_lattice()

    def _each(self, field: str, expected: str, holds: Mask, values: NDArray[Any]) -> None:
        """Refuse the first coordinate for which a condition does not hold, by its name."""
        if not holds.all():
            i = int(np.flatnonzero(~holds)[0])
            raise ValueError(wrong(f"{field}' of '{self.names[i]}", expected, float(values[i])))

    def _check_blocks(self) -> None:
        """Blocks are ranges of coordinates between 0 and 1, no two of them overlap, and each can be filled."""
        seen = np.zeros(self.width, dtype=bool)
        for block in self.blocks:
            start, stop = _whole_numbers("blocks", block, 2)
            if not 0 <= start < stop <= self.width:
                expected = f"ranges (start, stop) with 0 <= start < stop <= {self.width}"
                raise ValueError(wrong("blocks", expected, (start, stop)))
            names = self.names[start:stop]
            what = f"The block of '{names[0]}'" + (f" to '{names[-1]}'" if len(names) > 1 else "")
            if seen[start:stop].any():
                twice = names[int(np.flatnonzero(seen[start:stop])[0])]
                raise ValueError(f"{what} overlaps another one: '{twice}' is in both.")
            seen[start:stop] = True
            low, high = self.low[start:stop], self.high[start:stop]
            if not (low.min() >= 0 and high.max() <= 1):
                self._each("low", "at least 0 in a block", (self.low >= 0) | ~seen, self.low)
                self._each("high", "at most 1 in a block", (self.high <= 1) | ~seen, self.high)
            forced = low > 0  # of which a person may have one at most
            whole = bool(((high >= 1) & (forced.sum() == forced)).any()) or (len(low) == 1 and low[0] <= 0)
            if self.kind == "realizable" and not whole:
                raise ValueError(f"{what} allows nobody: no category can be 1 with the others at 0.")
            if (
                len(low) > 1
                and not float(low.sum()) <= 1 + SIMPLEX_TOLERANCE <= float(high.sum()) + 2 * SIMPLEX_TOLERANCE
            ):
                raise ValueError(f"{what} allows nobody: no shares within the ranges add up to 1.")
        both = seen & self.integer
        self._each("integer", "false for a coordinate in a block", ~both, self.integer)

    def _check_fills(self) -> None:
        """A fill is a number of its coordinate's range, said by the flag of a block of its own."""
        flags, numeric = {start for start, stop in self.blocks if stop - start == 1}, self.numeric
        for fill in self.fills:
            flag, value = _whole_numbers("fills", fill, 3)[:2]
            if not (0 <= flag < self.width and 0 <= value < self.width):
                expected = f"(flag, value, fill) with coordinates from 0 to {self.width - 1}"
                raise ValueError(wrong("fills", expected, tuple(fill)))
            if flag not in flags:
                raise ValueError(f"'fills' names '{self.names[flag]}' as a flag: it must be a block of its own.")
            if not numeric[value]:
                raise ValueError(f"'fills' fills '{self.names[value]}', which is in a block and no number.")
            if not self.low[value] <= fill[2] <= self.high[value] and self.high[flag] >= 1:
                expected = f"a number from {self.low[value]:.6g} to {self.high[value]:.6g}"
                raise ValueError(wrong(f"fills' of '{self.names[value]}", expected, fill[2]))

    def _check_lattice(self) -> None:
        """Every whole number has one in its range."""
        finite = self.integer & np.isfinite(self.low) & np.isfinite(self.high)
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.rint(np.where(finite, self.low, 0.0) * self.unit + self.origin)
            steps = [(near + step - self.origin) / self.unit for step in (-1.0, 0.0, 1.0, 2.0)]
        inside = np.any([(self.low <= step) & (step <= self.high) for step in steps], axis=0)
        self._each("high", "above a whole number of the range", inside | ~finite, self.high)

    @classmethod
    def unbounded(cls, width: int, names: tuple[str, ...] | None = None) -> Domain:
        """All of ``R^width``, with ``names`` of the coordinates."""
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

    def with_kind(self, kind: Kind) -> Domain:
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
            raise ValueError(
                f"An unbounded domain has no ranges to make a {kind} one from: use schema.domain({kind!r})."
            )
        return replace(self, kind=kind)

    @classmethod
    def of(cls, arrays: Mapping[str, Any], names: tuple[str, ...]) -> Self:
        """From the arrays of a certificate, which know no names."""
        blocks = tuple((int(start), int(stop)) for start, stop in arrays["blocks"])
        fills = tuple((int(flag), int(value), float(fill)) for flag, value, fill in arrays["fills"])
        parts = {part: arrays[part] for part in ("low", "high", "integer", "origin", "unit", "immutable")}
        return cls(kind=str(arrays["kind"]), blocks=blocks, fills=fills, names=names, **parts)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"Domain({self.kind}, {self.width} coordinates)"

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
        """People (n, m), where an individual without a value for a feature is given its fill."""
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
            slack = (4 * U) * (abs(fill) + np.abs(centre[:, value]))
            low[:, value] = np.where(missing, np.maximum(low[:, value], move - slack), low[:, value])
            high[:, value] = np.where(missing, np.minimum(high[:, value], move + slack), high[:, value])
        return low, high

    def _rows(self, x: ArrayLike) -> Array:
        rows: Array = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(wrong("x", f"rows of {self.width} coordinates", np.shape(x)))
        return rows


def _whole_numbers(field: str, entry: Any, length: int) -> tuple[int, int]:
    """The two coordinates that an entry of blocks or fills begins with."""
    whole = isinstance(entry, tuple | list) and len(entry) == length
    if not whole or not all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in entry[:2]):
        raise ValueError(wrong(field, f"entries of {length} numbers that begin with two coordinates", entry))
    return int(entry[0]), int(entry[1])


def repeated(names: Iterable[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def wrong(name: str, right: str, given: object) -> str:
    """The sentence about a value that cannot be used."""
    return f"'{name}' must be {right}. Got {given!r}."


def check_kind(kind: str) -> None:
    """Refuse a kind of domain that does not exist."""
    if kind not in get_args(Kind):
        raise ValueError(wrong("domain", "'unbounded', 'relaxed' or 'realizable'", kind))


def _all_of(conditions: Mask) -> Mask:
    """The rows that meet every condition."""
    met: Mask = np.all(conditions, axis=1)
    return met
