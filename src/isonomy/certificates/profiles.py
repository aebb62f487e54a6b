"""Profiles: how the largest violation in reach of an individual grows with the radius.

Problem: find few radii at which bounds with a moving centre are worth their price, such that the dual bound at the
given γ is as small as it would be with many. A pass at a radius serves smaller ones too, less and less well, so a
handful of passes is enough at the right radii: a *ladder* of radii is tried on a small pilot group, the best rung is
taken for all individuals, and then, round by round, the cell between two radii on which an individual's bound rests is
halved by a pass of its own. The multiplier that the pilot group has with the whole ladder says how far individuals
would travel.

**Soundness.** Every value bounds the violation of every possible individual within its radius, whichever radii were
chosen; where nothing was computed a profile has the bound of the whole domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, power
from isonomy.attacks.judge import last_of_each
from isonomy.certificates.dual import Dual, Each, cells_of, cells_of_table
from isonomy.certificates.moving import WIDE, Moving
from isonomy_verify.claims import Profiles
from isonomy_verify.dual import Cells, gains

if TYPE_CHECKING:
    from isonomy.certificates.displacement import Displacement

FINEST = 8
"""The same where radii are chosen one by one."""

HALVES = 2
"""How often a round halves cells, where passes say little of smaller radii, or nothing; else once."""

WORTH = 0.6
"""A single round of such passes halves more often, and only where more than this share of the mean height is left."""

READ = 0.24
"""A pass that halves a cell is read at radii down to this share of its own: further down others say more."""

SMALLEST = 2.0**-6
"""Cells that begin at 0 are halved down to this share of γ."""

RUNGS = 12
"""The longest ladder."""

WORSE = 1.1
"""The ladder ends where a rung alone gives this many times the best bound of one."""

NEAREST, FURTHEST = 1e-100, 1e100
"""The range of radii, whatever γ is: others are hard to compute with, and say nothing more."""

BLOCK = 16_384
"""Individuals whose cells are in memory at a time."""

IntArray = NDArray[np.int64]


def profiles_of_table(
    radii: FloatArray, values: FloatArray, largest: float, source: FloatArray | None = None
) -> Profiles:
    """Return the profiles of a table ``values[i, k]`` for ``radii[k]``, without bounds that a larger radius has too."""
    within = np.minimum.accumulate(np.minimum(values, largest)[:, ::-1], axis=1)[:, ::-1]
    beyond = np.append(within[:, 1:], np.full((len(within), 1), largest), axis=1)
    says = within < beyond
    says[:, 0] = True
    start, radius = np.append(0, np.cumsum(says.sum(axis=1))), np.broadcast_to(radii, within.shape)
    source = radius if source is None else source
    return Profiles(start, radius[says], within[says], largest, source[says])


def table_of_profiles(profiles: Profiles) -> tuple[FloatArray, FloatArray]:
    """Return all radii (k,) that occur, and the bounds (n, k) as a table, infinite where there is none."""
    radii = np.unique(profiles.radius)
    table, owner = np.full((len(profiles), len(radii)), np.inf), np.repeat(np.arange(len(profiles)), profiles.counts)
    table[owner, np.searchsorted(radii, profiles.radius)] = profiles.value
    return radii, table


class CellBlocks(Each[int, Cells]):
    """The cells of individuals that count (a positive weight), some of them at a time."""

    def __init__(self, profiles: Profiles, weights: FloatArray, rows: int = BLOCK) -> None:
        def cells(start: int) -> Cells:
            some = np.arange(start, min(start + rows, len(profiles)))
            return cells_of(profiles, some[weights[some] > 0], weights)

        super().__init__([at for at in range(0, len(profiles), rows) if weights[at : at + rows].any()], cells)


@dataclass(frozen=True)
class Schedule:
    """The result of a pilot group: the ladder, its best rung (None without any), and the multiplier of the shift.

    With one schedule, groups of individuals can be bounded one by one, wherever and in any order.
    """

    rungs: tuple[float, ...]
    first: float | None
    multiplier: float
    whole: bool = False  # the pilot group is the whole table: all rungs are worth a pass for all

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Schedule | None:
        """Read a schedule from a file's content, None where there is none in it."""
        try:
            rungs, first = tuple(map(float, content["rungs"])), content["first"]
            schedule = cls(
                rungs, None if first is None else float(first), float(content["multiplier"]), content["whole"]
            )
        except (KeyError, TypeError, ValueError):
            return None
        usable = all(0 < rung < math.inf for rung in rungs) and 0 <= schedule.multiplier < math.inf
        return schedule if usable and schedule.first in (rungs or (None,)) and type(schedule.whole) is bool else None


def make_schedule(
    moving: Moving,
    local: FloatArray,
    shift: Displacement,
    largest: float,
    tight: bool,
    tick: Callable[[int], None] = lambda rows: None,
) -> Schedule:
    """Make a schedule for shifts around γ, with all individuals of ``moving`` as the pilot group: the ladder ends
    where rungs are clearly worse than the best, or bounds say nothing. ``tick`` is called with the rows done now."""
    known, everywhere = _begin(moving, local, shift, largest, tight)
    known.tick = tick
    if shift.radius == 0 or math.isinf(shift.radius) or math.isinf(shift.exponent):
        return Schedule((), None, 0.0)
    rungs, uppers = list[float](), list[float]()
    ladder = _ladder(known.scale, moving.first_flip, moving.diameter, 3 if moving.tier.nested else 1)
    if max(ladder, default=0.0) < shift.furthest < FURTHEST:  # further away there is nobody
        ladder.append(shift.furthest)
    for rung in ladder:
        rungs.append(rung)
        reached = known.compute(np.arange(len(known.local)), rung)[:, -1].mean()
        uppers.append(known.upper(rung))
        if reached >= 0.97 * everywhere or uppers[-1] > WORSE * min(uppers):
            break
    first = min(rungs, key=known.upper) if rungs else None
    for radius in subradii(rungs[-1], known.scale, known.fine)[:-1] if rungs and known.separate else ():
        known.compute(np.arange(len(known.local)), radius)  # a finer grid, for a better multiplier
    dual = Dual(CellBlocks(known.profiles(), moving.weights), shift)
    return Schedule(tuple(rungs), first, dual.bound(shift.radius).multiplier or 0.0)


def profiles(
    moving: Moving,
    local: FloatArray,
    shift: Displacement,
    largest: float,
    tight: bool,
    rounds: int,
    schedule: Schedule,
    tick: Callable[[int], None] = lambda rows: None,
) -> Profiles:
    """Return profiles of all individuals, tightest for shifts around γ; ``local`` (n,) are the bounds at radius 0.

    ``tick`` is called with the number of individuals that a pass has bounded, each at most :func:`most_passes` times.
    """
    known, _ = _begin(moving, local, shift, largest, tight)
    known.tick = tick
    if shift.radius == 0 or math.isinf(shift.radius):  # no individual moves, or every one to any point
        return known.profiles()
    everybody = np.arange(len(local))
    if math.isinf(shift.exponent):  # every individual travels up to γ, and none further
        known.compute(everybody, known.scale)
        return known.profiles()
    known.make_room(schedule.rungs)
    for rung in schedule.rungs if schedule.whole and not moving.tier.nested else (schedule.first,):
        if rung is not None:
            known.compute(everybody, rung)
    turns = 0 if moving.tier.nested else _turns(rounds, known.alone, tight)
    share = WORTH if rounds == 1 and known.alone and tight else 0.0
    for _ in range(turns):
        if not (halves := known.halves(schedule, share)):
            break
        for rung, rows in halves:
            known.compute(rows, rung, READ * rung)
    return known.profiles()


def most_passes(moving: Moving, shift: Displacement, tight: bool, rounds: int, schedule: Schedule) -> int:
    """Return the most passes with a moving centre that an individual has."""
    if shift.radius == 0 or math.isinf(shift.radius):
        return 0
    if math.isinf(shift.exponent):
        return 1
    several = schedule.whole and not moving.tier.nested
    first = len(schedule.rungs) if several else int(schedule.first is not None)
    alone = moving.kernel.single_radius or not tight
    return first + (_turns(rounds, alone, tight) if schedule.first is not None else 0)


def _turns(rounds: int, alone: bool, tight: bool) -> int:
    """Return how often cells are halved."""
    return rounds * (1 if not alone else 2 * HALVES if rounds == 1 and tight else HALVES)


def _begin(moving: Moving, local: FloatArray, shift: Displacement, largest: float, tight: bool) -> tuple[_Known, float]:
    """Return the bounds known without a pass at a radius, and the bound of the whole domain."""
    everywhere, reach = moving.everywhere()
    if not moving.kernel.is_norm:  # moves that the ground cost ignores are free: a ball of radius 0 is no point
        local = moving.bound(np.arange(len(local)), [0.0], tight=tight)[:, 0]
    known = _Known(moving, local, shift, largest, tight)
    if math.isinf(reach):
        known.largest = min(largest, everywhere)
    else:
        known.put(np.arange(len(local)), reach, [reach], np.full((len(local), 1), everywhere))
    return known, everywhere


class _Known:
    """The bounds known so far: columns by radius, and the radius of the pass behind each."""

    def __init__(self, moving: Moving, local: FloatArray, shift: Displacement, largest: float, tight: bool) -> None:
        self.moving, self.shift, self.largest, self.tight = moving, shift, largest, tight
        self.local, self.scale, self.fine = local, min(max(shift.radius, NEAREST), FURTHEST), moving.tier.fine
        self.alone = moving.kernel.single_radius or not tight  # does a pass say little of smaller radii, or nothing?
        self.separate = moving.kernel.own_passes or not tight  # does every radius cost passes of its own?
        self.values: dict[float, FloatArray] = {0.0: local}
        self.source: dict[float, FloatArray] = {0.0: np.zeros(len(local))}
        self.tick: Callable[[int], None] = lambda rows: None

    def compute(self, rows: IntArray, rung: float, least: float = 0.0) -> FloatArray:
        """Bound some individuals by a pass at a rung; return its bounds (rows, radii) at radii from ``least`` on."""
        radii = [radius for radius in self.radii(rung) if radius >= least]
        bounds = self.moving.bound(rows, radii, self.tight, self.tick)
        self.put(rows, rung, radii, bounds)
        return bounds

    def radii(self, rung: float) -> list[float]:
        """Return the radii at which a pass is read."""
        return [rung] if self.separate else subradii(rung, self.scale, self.fine)

    def put(self, rows: IntArray, rung: float, radii: Sequence[float], bounds: FloatArray) -> None:
        """Record bounds (rows, radii), the smaller of old and new."""
        for radius, column in zip(radii, bounds.T, strict=True):
            value = self.values.setdefault(radius, np.full(len(self.local), np.inf))
            source = self.source.setdefault(radius, np.full(len(self.local), np.inf))
            better = column < value[rows]
            value[rows[better]], source[rows[better]] = column[better], rung

    def make_room(self, rungs: Sequence[float]) -> None:
        """Add the columns of passes at the rungs, still empty."""
        for rung in rungs:
            radii = self.radii(rung)
            self.put(np.arange(0), rung, radii, np.zeros((0, len(radii))))

    def table(self) -> tuple[FloatArray, FloatArray]:
        """Return all radii in ascending order, and the bounds (n, radii) within them."""
        radii = np.array(sorted(self.values))
        return radii, np.stack([self.values[radius] for radius in radii], axis=1)

    def profiles(self) -> Profiles:
        """Return the profiles of all individuals."""
        radii, values = self.table()
        return profiles_of_table(
            radii, values, self.largest, np.stack([self.source[radius] for radius in radii], axis=1)
        )

    def upper(self, rung: float) -> float:
        """Return the dual bound if only this rung had been computed."""
        radii = np.array(sorted({0.0, WIDE, *self.radii(rung)} & set(self.values)))
        allowed = [0.0, WIDE, rung]
        columns = [np.where(np.isin(self.source[r], allowed), self.values[r], np.inf) for r in radii]
        values = np.minimum(np.stack(columns, axis=1), self.largest)
        cells = cells_of_table(radii, values, self.largest, self.moving.weights)
        return Dual([cells], self.shift).bound(self.shift.radius).upper

    def halves(self, schedule: Schedule, share: float) -> list[tuple[float, IntArray]]:
        """Return radii, and the individuals whose bound rests on a cell that such a radius would halve; only those
        whose bound further passes could reduce by more than the ``share`` of the mean height."""
        if schedule.first is None:
            return []
        radii, values = self.table()
        owner, near, far, height = self._active(radii, values, schedule.multiplier)
        spare = height - self._least(schedule.multiplier)
        far = self._source_radius(radii, values, owner, far)  # all share the grid, but not the pass behind a value
        last = max(schedule.rungs)
        middle = np.where(near > 0, np.sqrt(near * np.minimum(far, 4 * near)), np.minimum(far, 2 * schedule.first) / 2)
        step = np.rint(FINEST * np.log2(np.maximum(np.minimum(middle, last) / self.scale, NEAREST)))
        chosen = np.minimum(self.scale * 2.0 ** (step / FINEST), last)
        wanted = (chosen > near * (1 + 1e-9)) & (chosen < far * (1 - 1e-9)) & (chosen >= SMALLEST * self.scale)
        wanted &= spare > share * height.mean()
        return [
            (float(radius), np.unique(owner[wanted & (chosen == radius)]).astype(np.int64))
            for radius in np.unique(chosen[wanted])
        ]

    def _active(
        self, radii: FloatArray, values: FloatArray, multiplier: float
    ) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return each individual's cell with the largest bound: owner, near and far radius, and the bound (n,)."""
        cells = cells_of_table(radii, values, self.largest)
        gain = gains(cells, self.shift.exponent, self.shift.radius, multiplier)
        active = last_of_each(cells.owner, gain)
        return cells.owner[active], cells.near[active], cells.far[active], gain[active]

    def _least(self, multiplier: float) -> FloatArray:
        """Return lower limits (n,) of the bounds, whatever else is computed: those of passes at their own radii."""
        least = np.full(len(self.local), -np.inf)
        for radius, value in self.values.items():
            if radius < WIDE:
                own = np.where(self.source[radius] == radius, value, -np.inf)
                least = np.maximum(least, own - multiplier * power(radius, self.shift.exponent))
        return least

    def _source_radius(self, radii: FloatArray, values: FloatArray, owner: IntArray, far: FloatArray) -> FloatArray:
        """Return the radii of the passes behind the values of monotone profiles at the radii ``far``.

        Beyond all passes the value is the bound of the whole domain, and the radius infinite.
        """
        column = np.minimum(np.searchsorted(radii, far), len(radii) - 1)
        sources = np.stack([self.source[radius] for radius in radii], axis=1)
        backwards = values[:, ::-1]
        best = np.minimum.accumulate(backwards, axis=1)
        # The last place, going backwards, at which the running minimum was lowered.
        lowered = np.append(np.ones((len(best), 1), dtype=bool), best[:, 1:] < best[:, :-1], axis=1)
        place = np.maximum.accumulate(np.where(lowered, np.arange(best.shape[1]), 0), axis=1)[:, ::-1]
        radius: FloatArray = sources[owner, best.shape[1] - 1 - place[owner, column]]
        radius[np.isinf(far)] = np.inf
        return radius


def subradii(rung: float, gamma: float, fine: int = 2) -> list[float]:
    """Return the radii of the grid at which a pass at a rung is read: fine ones below it, coarser ones further down;
    ``fine`` of them between a radius and twice that.

    They are the same numbers for the same γ, so that passes share them.
    """
    last = math.floor(fine * math.log2(rung / gamma) + 1e-9)
    steps = [*range(last - 3 * fine + 1, last + 1), last - 4 * fine, last - 5 * fine]
    return sorted({radius for step in steps if (radius := gamma * 2.0 ** (step / fine)) < rung} | {rung})


def _ladder(gamma: float, flip: float, diameter: float, step: int) -> list[float]:
    """Return radii by factors of two, or some such ``step``, up to the last one before the first change of a category.

    Beyond it choices of categories multiply, and the bound of the whole domain says nearly as much. Where categories
    change at once there is no such radius, and the ladder has all rungs.
    """
    rungs = [gamma * 2.0**k for k in range(step - 2 if step == 1 else step, RUNGS - 1, step)]
    if gamma / 2 < flip < rungs[-1]:
        return [*(rung for rung in rungs if rung < flip), flip * (1 - 1e-9)]
    return [rung for rung in rungs if rung < diameter] or [rung for rung in (diameter,) if rung > NEAREST]
