"""Bounds of the difference of two runs of a network: two people who both move.

Problem: ``z`` is an individual near a known ``x``, ``y`` one similar to ``z``, so that ``v = y − z`` lies in the
similar set, however far ``z`` is from ``x``. The ranges of both runs grow with the ball around ``x``; the difference
``D`` of the two starts at ``v`` and scales with the similar set alone. A layer maps it by its weights. Behind an
activation ``D' = f(z + D) − f(z)`` is ``D`` times a slope of some chord of ``f`` within the ranges of both, and of a
ReLU with ``z`` in ``[l, u]``

    D' ≤ relu(u + D) − relu(u)  for D ≥ 0,      D' ≤ relu(l + D) − relu(l)  for D < 0,

which is convex in ``D``, so that a line above both ends is above all of it; by symmetry, with the range of ``y``, it
has a concave lower side. Such lines take the place of those around an activation in the passes of
:mod:`isonomy_verify.enclosure`. Where the sets lie in ellipsoids all neurons are judged together besides
(:mod:`isonomy_verify.joint`).

**Soundness.** ``D`` is the difference of two exact runs: neither biases nor the rounding of a run enter, but the sizes
of differences alone; twice the ``slack`` of a layer, by which a file's function may be off otherwise here than there;
and, where float32 runs are covered, the noise of both. Sides at the ends are computed without cancellation: for ``D ≥
0``, ``relu(a + D) − relu(a)`` is ``a + D`` clipped to ``[0, D]``, rounded only where ``|a| ≤ D``; for ``D < 0`` it is
``max(−relu(a), D)``, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.activations import Curve, slope_range
from isonomy_verify.arithmetic import TINY, U32, Array, U
from isonomy_verify.enclosure import Enclosure, Ends, Prepared, Run, Weighed, both, hull, image, minus
from isonomy_verify.joint import Joint
from isonomy_verify.lines import Lines
from isonomy_verify.network import Network
from isonomy_verify.regions import Ball, BallBox, Index, LinearImage, Region, Sum
from isonomy_verify.tiers import Enclosure as Outputs
from isonomy_verify.tiers import checked

PAIR_BLOCK = 128
"""Pairs of regions that are bounded together."""


class Gap(NamedTuple):
    """Outputs of one individual, of one similar to it, and the difference of the two: (n, outputs) each."""

    near: Outputs
    far: Outputs
    between: Outputs


class Ranges(Protocol):
    """A run of which the ranges of all layers are known."""

    range: list[Ends]


class Difference(Enclosure):
    """The difference of two runs, ``far − near``, over one batch of pairs of regions."""

    biased = False

    def __init__(
        self,
        prepared: Prepared,
        near: Ranges,
        far: Run,
        region: Region | None = None,
        joint: Joint | None = None,
        linear_images: Sequence[LinearImage | None] | None = None,
        weighed: Weighed | None = None,
    ) -> None:
        self.near, self.far, self.joint = near, far, joint
        self.slopes: list[Ends] = []  # of chords of each activation
        self.sided: list[Lines] = []  # lines with slopes of their own
        self.value_error: list[Array | float] = []  # how far two computed values of an activation may be off
        self.narrow: list[tuple[Ends, Ends]] = []  # the ranges of both runs, as each was narrowed by the others
        super().__init__(prepared, far.x, region, None, linear_images, weighed)

    def off(self, k: int) -> Array:
        """Return how far a difference may be off by what its size does not weigh."""
        off = 2 * super().off(k)
        if self.prepared.float32_run:
            assert isinstance(self.near, Run)
            off = off + (self.near.sizes(k) + self.far.sizes(k)) * (self.layers[k].unit32 * 1.01)
        return off

    def _largest(self, k: int) -> list[Array]:
        assert isinstance(self.near, Run)
        return [self.top[b.source] + self.near.top[b.source] + self.far.top[b.source] for b in self.layers[k].blocks]

    def narrowed(self, k: int, ends: Ends) -> Ends:
        """Return the range of a difference, narrowed by those of both runs and by what all neurons can do together."""
        ends = both(ends, minus(self.far.range[k], self.near.range[k]))
        return ends if self.joint is None else both(ends, self.joint.step(self, k))

    def runs(self, k: int) -> tuple[Ends, Ends]:
        """Return the ranges of the near and of the far run, each narrowed by the other and the difference."""
        own, near, far = self.range[k], self.near.range[k], self.far.range[k]
        return both(near, minus(far, own)), both(far, minus(own, (-near[1], -near[0])))

    def open(self, k: int) -> NDArray[np.bool_]:
        """Return where (n, width) chords may have several slopes."""
        (least, most), (low, high) = self.slopes[k], self.range[k]
        return np.asarray((most > least) & (high > low))

    def relax(self, k: int, wanted: bool = True) -> None:
        """Make the range behind a layer's differences and, if ``wanted``, the lines around them."""
        self.slopes[k:], self.sided[k:], self.value_error[k:], self.narrow[k:] = [], [], [], []
        super().relax(k, wanted)

    def _renew(self, k: int, row: Index, column: Index) -> None:
        self.range[k] = self.narrowed(k, self.range[k])
        self.relax(k)

    def _lines(self, k: int, at: tuple[Index, Index] | None, wanted: bool = True) -> tuple[Lines | None, Ends]:
        f, (low, high), (near, far) = self.layers[k].activation, self.range[k], self.runs(k)
        assert f is not None
        if at is None:
            self.narrow.append((near, far))
        first, last = np.minimum(near[0], far[0]), np.maximum(near[1], far[1])
        least, most = slope_range(f, first, last)
        value_error: Array | float = 0.0
        if self.prepared.float32_run and f.kind != "relu":
            error = Curve(f, first, last, U32).error
            value_error = (error if isinstance(error, float) else error.max(0)) * 2.02
        wide = (16 * U) * (1 + np.abs(least) + np.abs(most)) * (np.abs(low) + np.abs(high)) + TINY + value_error
        if f.kind == "relu":
            tops = [relu_rise(end, *near) for end in (low, high)]
            bottoms = [-relu_rise(-end, *far) for end in (low, high)]
        else:
            tops = [np.maximum(least * end, most * end) for end in (low, high)]
            bottoms = [np.minimum(least * end, most * end) for end in (low, high)]
        self.slopes.append((least, most))
        self.value_error.append(value_error)
        ends = np.minimum(*bottoms) - wide, np.maximum(*tops) + wide
        ends = both(ends, minus(*(image(f, *run, self.prepared.unit32) for run in (far, near))))
        if not wanted:
            return None, ends
        straight, width = least == most, np.maximum(high - low, TINY)
        exact = np.where(straight, value_error, np.inf)

        def slope(ends: list[Array]) -> Array:
            return np.where(straight, most, np.clip(np.nan_to_num((ends[1] - ends[0]) / width), least, most))

        def lines(s: Array, t: Array) -> Lines:
            above = np.maximum(tops[0] - s * low, tops[1] - s * high) + wide
            below = np.minimum(bottoms[0] - t * low, bottoms[1] - t * high) - wide
            return Lines(s, np.fmin(above, exact), t, np.fmax(below, -exact))

        s, t = slope(tops), slope(bottoms)
        sided = lines(s, t)
        if f.kind == "relu":  # D' ≤ D and D' ≤ 0 where the other person is on one side, D' ≥ D and D' ≥ 0 likewise
            for known, given in ((far[0] >= 0, 1.0), (far[1] <= 0, 0.0)):
                sided = sided._replace(slope=np.where(known, given, sided.slope), above=np.where(known, 0, sided.above))
            for known, given in ((near[0] >= 0, 1.0), (near[1] <= 0, 0.0)):
                sided = sided._replace(
                    low_slope=np.where(known, given, sided.low_slope), below=np.where(known, 0, sided.below)
                )
        self.sided.append(self._widened(k, None, sided))
        return lines(s, s), ends

    def outputs(self, passes: bool = True) -> Ends:
        """Return the ranges of the differences of outputs: by intervals and, with ``passes``, by backward passes with
        both choices of lines, and by one for all neurons together."""
        last = len(self.layers) - 1
        low, high = (np.array(end) for end in self.range[last])
        if not passes or not last:
            return low, high
        for j in range(low.shape[1]):
            for lines in (self.sided, self.lines):
                high[:, j] = np.fmin(high[:, j], self.side(j, 1.0, lines)[1][0])
                low[:, j] = np.fmax(low[:, j], -self.side(j, -1.0, lines)[1][0])
            if self.joint is not None:
                ends = self.neurons(last, slice(None), j, self.joint.relaxation(self))
                low[:, j], high[:, j] = both((low[:, j], high[:, j]), ends)
        return hull(low, high)


def relu_rise(move: Array, low: Array, high: Array) -> Array:
    """Return the largest ``relu(t + move) − relu(t)`` for ``t`` in ``[low, high]``, up to two roundings of ``move``.

    For ``move ≥ 0`` that is ``high + move`` clipped to ``[0, move]``; for ``move < 0``, ``max(min(−low, 0), move)``.
    """
    rise = np.minimum(np.maximum(high + move, 0.0), move)
    return np.asarray(np.where(move >= 0, rise, np.maximum(np.minimum(-low, 0.0), move)))


class Pairs:
    """A network made ready for pairs of people; for balls that all share, or for sets of each pair's own."""

    def __init__(
        self, network: Network, float32_run: bool = False, near: Ball | None = None, between: Ball | None = None
    ) -> None:
        if (near is None) != (between is None):
            raise ValueError("Pairs share both balls or none.")
        self.network, self.shared = network, near is not None
        self.near = Prepared(network, near, float32_run)
        self.between = Prepared(network, between, float32_run)
        self.far = Prepared(network, None if near is None or between is None else Sum(between, near), float32_run)


@np.errstate(all="ignore")  # what overflows ends as an infinite bound
def compare(
    pairs: Pairs,
    x: Array,
    near: Ball | BallBox,
    between: Ball | BallBox,
    limits: BallBox | None = None,
    within: Sequence[Ball | BallBox] = (),
    tight: bool = True,
    quick: bool = False,
) -> list[Gap]:
    """Enclose outputs at ``z`` in ``x + near``, at ``y`` in ``x + limits`` with ``y − z`` in ``between``, and the
    difference of the two; the same over every part of ``near`` in ``within``.

    Sets that the pairs share must be those that they were made ready with. Without ``tight`` there are no backward
    passes: ranges from ranges. ``quick``: there are none but those from the outputs.
    """
    x = checked(x, pairs.network.width)
    if pairs.shared and (near is not pairs.near.region or between is not pairs.between.region or limits is not None):
        raise ValueError("These pairs were made ready for other balls.")
    if not pairs.shared and (isinstance(near, Ball) or isinstance(between, Ball)):
        raise ValueError("Pairs with sets of their own need boxes around them.")
    smaller = [near.within(part) for part in within]  # type: ignore[arg-type]
    found = []
    for start in range(0, len(x), PAIR_BLOCK):
        at = slice(start, start + PAIR_BLOCK)
        own, apart, parts = near[at], between[at], [part[at] for part in smaller]
        shared = pairs.far.region
        summed = shared if isinstance(shared, Sum) else Sum(apart, own, None if limits is None else limits[at])
        one = Run(pairs.near, x[at], None if pairs.shared else own).forward(tight and not quick)
        two = Run(pairs.far, x[at], None if pairs.shared else summed).forward(tight and not quick)
        joint = Joint.of(pairs.network, apart) if tight else None
        three = Difference(pairs.between, one, two, None if pairs.shared else apart, joint).forward(tight and not quick)
        apart_ends = three.outputs(tight)
        overflow = one.overflow | two.overflow | three.overflow
        nears, fars = one.outputs(parts, tight), two.outputs([summed.within(part) for part in parts], tight)
        found.append([gap(each, other, apart_ends, overflow) for each, other in zip(nears, fars, strict=True)])
    if not found:
        none = Outputs(*[np.zeros((0, pairs.network.outputs.width))] * 2)
        return [Gap(none, none, none)] * (1 + len(within))
    return [_joined([gaps[i] for gaps in found]) for i in range(1 + len(within))]


def gap(near: Ends, far: Ends, between: Ends, overflow: NDArray[np.bool_]) -> Gap:
    """Return enclosures of outputs from the ends of both runs and of their difference; nothing is known where runs
    burst."""
    far = both(far, minus(between, (-near[1], -near[0])))
    lost = overflow[:, None]
    return Gap(*(Outputs(np.where(lost, -np.inf, a), np.where(lost, np.inf, b)) for a, b in (near, far, between)))


def _joined(gaps: list[Gap]) -> Gap:
    return Gap(
        *(Outputs(*(np.concatenate(side) for side in zip(*one, strict=True))) for one in zip(*gaps, strict=True))
    )
