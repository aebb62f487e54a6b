"""Profiles: how the largest violation in reach of an individual grows with the radius.

Problem: find few radii at which bounds with a moving centre are worth their price, such that the dual bound at the
given γ is as small as it would be with many. A pass at a radius serves smaller ones too, less and less well, so a
handful of passes is enough if they stand at the right places: a *ladder* of radii is tried on a small pilot group, the
best few rungs are taken for everybody, and then those individuals whose bound rests on a pass at a much larger radius
get one of their own.

**Soundness.** Every value bounds the violation of everybody within its radius, whichever radii were chosen; where
nothing was computed a profile says what is true of anybody at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certify.dual import Cells, Dual
from isonomy.certify.moving import WIDE, Moving

PILOT = 32
"""Individuals on whom the ladder is tried."""

FINE = 4
"""Radii of the grid between a rung of the ladder and the next, which is twice as far."""

RUNGS = 12
"""The longest ladder."""

CROWD = 64
"""With more choices of categories in reach than this, a rung is not worth its price."""

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Profiles:
    """``values[i, k]`` bounds the violation of anybody within ``radii[k]`` of individual ``i``."""

    radii: FloatArray
    values: FloatArray
    largest: float
    passes: int = field(default=0, compare=False)  # over individuals, in units of the whole table, rounded up

    def cells(self, weights: FloatArray) -> Cells:
        """The cover of all possible people that the dual works on."""
        return Cells.from_profiles(self.radii, self.values, self.largest, weights)


def profiles(
    moving: Moving,
    local: FloatArray,
    gamma: float,
    order: float,
    largest: float,
    *,
    passes: int = 2,
    rounds: int = 1,
    tight: bool = True,
    tick: Callable[[int, int], None] = lambda done, total: None,
) -> Profiles:
    """Profiles of everybody, made for shifts around ``gamma``; ``local`` are the bounds at radius 0."""
    anybody, reach = moving.everywhere()
    known = _Known(moving, local, order, gamma, largest, tight)
    if math.isinf(reach):
        known.largest = min(largest, anybody)
    else:
        known.put(np.arange(len(local)), reach, [reach], np.full((len(local), 1), anybody))
    if gamma == 0:
        return known.profiles()
    everybody = np.arange(len(local))
    pilot = everybody[:: max(1, len(local) // PILOT)][:PILOT] if len(local) > 2 * PILOT else everybody
    rungs = _try(known, pilot, anybody)
    chosen = _choose(known, pilot, rungs, passes)
    rest = np.setdiff1d(everybody, pilot)
    steps = len(chosen) + rounds
    for step, rung in enumerate(chosen):
        known.compute(rest, rung)
        tick(step + 1, steps)
    for step in range(rounds):
        for rung, rows in known.poor(rungs):
            known.compute(rows, rung)
        tick(len(chosen) + step + 1, steps)
    return known.profiles()


class _Known:
    """What is known so far: columns of bounds by radius, and from how far each came."""

    def __init__(
        self, moving: Moving, local: FloatArray, order: float, gamma: float, largest: float, tight: bool
    ) -> None:
        self.moving, self.order, self.gamma, self.largest, self.tight = moving, order, gamma, largest, tight
        self.local = local
        self.values: dict[float, FloatArray] = {0.0: local}
        self.source: dict[float, FloatArray] = {0.0: np.zeros(len(local))}

    def compute(self, rows: IntArray, rung: float) -> FloatArray:
        """A pass at a rung for some individuals, and what it says of smaller radii."""
        radii = self.radii(rung)
        found = self.moving.bound(rows, radii, tight=self.tight and not self.crowded(rung))
        self.put(rows, rung, radii, found)
        return found

    def radii(self, rung: float) -> list[float]:
        """Where a pass is read; sets that differ from person to person make each of them dearer."""
        if not self.tight:  # a forward pass says nothing of smaller radii
            return [rung]
        return subradii(rung, self.gamma, FINE if self.moving.question.domain.kind == "unbounded" else 2)

    def crowded(self, rung: float) -> bool:
        """Are there so many choices of categories that a forward pass must do?"""
        return rung >= self.moving.first_flip

    def put(self, rows: IntArray, rung: float, radii: Sequence[float], found: FloatArray) -> None:
        """Take note of bounds, the smaller of old and new."""
        for radius, column in zip(radii, found.T, strict=True):
            value = self.values.setdefault(radius, np.full(len(self.local), np.inf))
            source = self.source.setdefault(radius, np.full(len(self.local), np.inf))
            better = column < value[rows]
            value[rows[better]], source[rows[better]] = column[better], rung

    def profiles(self, rows: IntArray | None = None) -> Profiles:
        """Everybody's profile, or that of some."""
        radii = np.array(sorted(self.values))
        values = np.stack([self.values[radius] for radius in radii], axis=1)
        return Profiles(radii, values if rows is None else values[rows], self.largest)

    def upper(self, rows: IntArray, rungs: Sequence[float]) -> float:
        """The dual bound of some individuals if only these rungs had been computed."""
        allowed = [0.0, WIDE, *rungs]
        radii = np.array(sorted({0.0, WIDE, *(r for rung in rungs for r in self.radii(rung))} & set(self.values)))
        columns = [np.where(np.isin(self.source[r][rows], allowed), self.values[r][rows], np.inf) for r in radii]
        values = np.minimum(np.stack(columns, axis=1), self.largest)
        return Dual(Cells.from_profiles(radii, values, self.largest), self.order).bound(self.gamma).upper

    def poor(self, rungs: Sequence[float]) -> list[tuple[float, IntArray]]:
        """Rungs, and the individuals whose bound rests on a pass at twice that radius or more."""
        some = self.profiles()
        cells = some.cells(self.moving.question.weights)
        active = Dual(cells, self.order).active(self.gamma)
        active = active[np.isfinite(cells.far[active]) & (cells.far[active] > 0)]
        owner, radius = cells.owner[active], cells.far[active]
        # A value that was made monotone comes from the next larger radius at which it stands.
        column = np.searchsorted(some.radii, radius)
        order = np.argsort(some.radii)
        sources = np.stack([self.source[some.radii[k]] for k in order], axis=1)
        best = np.minimum.accumulate(some.values[:, ::-1], axis=1)[:, ::-1]
        at = np.array(
            [k + int(np.argmax(some.values[i, k:] <= best[i, k])) for i, k in zip(owner, column, strict=True)],
            dtype=np.int64,
        )
        came = sources[owner, at] if len(at) else np.zeros(0)
        jobs = []
        lower = 0.0
        for rung in sorted(rungs):
            wanted = (radius > lower) & (radius <= rung) & (came >= 1.9 * rung)
            if wanted.any():
                jobs.append((rung, np.unique(owner[wanted]).astype(np.int64)))
            lower = rung
        return jobs


def subradii(rung: float, gamma: float, fine: int) -> list[float]:
    """The radii of the grid that a pass at a rung is read at: fine ones below it, a few coarse ones further down.

    Always the same numbers for the same γ, so that passes meet on them.
    """
    last = math.floor(fine * math.log2(rung / gamma) + 1e-9)
    steps = [last - k for k in range(3 * fine)] + [last - fine * k for k in (4, 5, 6)]
    return sorted({radius for step in steps if (radius := gamma * 2.0 ** (step / fine)) < rung} | {rung})


def _try(known: _Known, pilot: IntArray, anybody: float) -> list[float]:
    """Climb the ladder with the pilot group until bounds say no more than what is true of anybody."""
    moving, tried = known.moving, []
    for rung in _ladder(known.gamma, moving.first_flip, moving.diameter):
        if known.crowded(rung) and moving.choices(pilot[:4], rung) > CROWD:
            break
        tried.append(rung)
        if known.compute(pilot, rung)[:, -1].mean() >= 0.97 * anybody:
            break
    return tried


def _ladder(gamma: float, flip: float, diameter: float) -> list[float]:
    """Radii by factors of two, and the last one before the first change of a category."""
    rungs = [gamma * 2.0**k for k in range(-1, RUNGS - 1)]
    if gamma / 2 < flip < rungs[-1]:
        rungs.append(flip * (1 - 1e-9))
    rungs = sorted(rung for rung in rungs if rung < diameter)
    return rungs if len(rungs) == RUNGS + 1 or math.isinf(diameter) else [*rungs, diameter]


def _choose(known: _Known, pilot: IntArray, rungs: Sequence[float], most: int) -> list[float]:
    """Greedily the rungs that lower the pilot group's bound most, as long as one lowers it by a hundredth."""
    chosen: list[float] = []
    best = known.upper(pilot, [])
    while len(chosen) < min(most, len(rungs)):
        upper, rung = min((known.upper(pilot, [*chosen, rung]), rung) for rung in rungs if rung not in chosen)
        if upper > 0.99 * best:
            break
        chosen, best = [*chosen, rung], upper
    return sorted(chosen)
