"""Bounds of the difference of two runs of a network: two people, both of whom move.

Problem: ``z`` is somebody near a known ``x``, ``y`` somebody similar to ``z``, so that ``d = y − z`` lies in the
similar set, however far ``z`` is from ``x``. How differently are the two treated? The ranges of both grow with the ball
around ``x``; the difference ``D`` of the two runs starts at ``d`` and scales with the similar set alone. A layer maps
it by its weights. Behind an activation ``D' = f(z + D) − f(z)`` is ``D`` times a slope of some chord of ``f`` within
the ranges of both, and of a ReLU, with ``z`` in ``[l, u]``,

    D' ≤ relu(u + D) − relu(u)  for D ≥ 0,      D' ≤ relu(l + D) − relu(l)  for D < 0:

it grows with ``z`` where ``D ≥ 0`` and falls where ``D < 0``. That is convex in ``D``, so that a line above both ends
is above all of it; by symmetry, with the range of ``y``, it has a concave lower side. Such lines take the place of
those around one activation in the passes of :mod:`isonomy_verify.sweep`. Where the sets lie in ellipsoids, all neurons
are judged together besides (:mod:`isonomy_verify.joint`).

**Soundness.** ``D`` is the difference of two *exact* runs, so neither biases nor the rounding of any run enter, only
twice the ``slack`` of a layer, by which a file's function may be off otherwise here than there: what a sweep charges
with ``eta``, from the sizes of values and biases, is charged here from the sizes of differences and nothing else. The
exact weights are within ``γ size`` of the float ones, a computed ``c W`` within ``γ|c||W|``, so that a pass over a
layer is off by at most ``γ |c| size |D'| ≤ γ |c|·ρ η``, ``η`` the scaled norm of the sizes of ``D'`` without that of
the bias. Sides at the ends are computed without cancellation: for ``D ≥ 0``, ``relu(a + D) − relu(a)`` is ``a + D``
clipped to ``[0, D]``, which is rounded only where ``|a| ≤ D``; for ``D < 0`` it is ``max(−relu(a), D)``, exactly.
Where float32 runs are covered, each is within its own noise of an exact one, and that noise is charged twice: the far
run is no larger than the near one plus the difference, ``η_far ≤ η_near + η``, and the near one no larger than at
``x`` plus what the ball around it adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.activations import Activation, Curve, slope_range
from isonomy_verify.arithmetic import TINY, U32, Array, U
from isonomy_verify.joint import Forms, Joint, Weights
from isonomy_verify.lines import Lines, Sides
from isonomy_verify.network import Network
from isonomy_verify.prepared import Prepared
from isonomy_verify.regions import Ball, BallBox, Index, Region, Sum
from isonomy_verify.steering import steer
from isonomy_verify.sweep import Sweep
from isonomy_verify.tiers import Enclosure, checked

BLOCK = 128
"""Pairs of regions that are bounded together."""

CROWDED = 0.07
"""With a larger share of open neurons in the first layer, passes for single ones cost most and say least."""


class Gap(NamedTuple):
    """Outputs of somebody near, of somebody similar to them, and the difference of the two: (n, outputs) each."""

    near: Enclosure
    far: Enclosure
    between: Enclosure


class Pairs:
    """A network made ready for pairs of people; for balls that everybody shares, or for sets of each pair's own."""

    def __init__(
        self,
        network: Network,
        run_unit: bool = False,
        near: Ball | None = None,
        between: Ball | None = None,
        like: Pairs | None = None,
    ) -> None:
        """``like``: others whose preparation is taken over as far as it is the same."""
        if (near is None) != (between is None):
            raise ValueError("Pairs share both balls or none.")
        self.network, self.run_unit, self.shared = network, run_unit, near is not None
        self._both = None if near is None or between is None else Sum(between, near)
        self.near = Prepared(network, near, run_unit, 0)
        known = like if like is not None and like.network is network else None
        self.weights: Weights = Weights(network) if known is None else known.weights
        if known is None or known.run_unit != run_unit or known.between.region is not between:
            self.between: Prepared = Prepared(network, between, run_unit, 0, runs=2)
        else:
            self.between = known.between

    @cached_property
    def far(self) -> Prepared:
        """For the sum of both balls."""
        return Prepared(self.network, self._both, self.run_unit, 0)


class Differences(Sweep):
    """Ranges and lines of the differences of two runs, over one batch of pairs of regions."""

    bare = False

    def __init__(
        self, prepared: Prepared, near: Sweep, far: Sweep, region: Region | None, joint: Joint | None = None
    ) -> None:
        self.near, self.far, self.joint = near, far, joint
        self.slopes: list[tuple[Array, Array]] = []
        self._runs: dict[int, tuple[tuple[Array, Array], tuple[Array, Array]]] = {}
        self.doubt: list[Array | float] = []
        super().__init__(prepared, np.zeros_like(near.x), region)

    def _start(self, k: int) -> Array:
        return np.zeros((1, self.network.layers[k].width))

    def _eta(self, k: int) -> Array:
        layer = self.network.layers[k]
        eta = layer.eta([self.top[block.source] for block in layer.blocks], self.prepared.buffers, bias=False)
        if self.prepared.run_unit:
            self.burst |= layer.bursts([self.sizes(b.source) + self.near.sizes(b.source) for b in layer.blocks])
            near = self.near.eta[k]
            if self.near.shared and self.near.landings[k] is not None:  # near.eta is that of x without the ball
                moved = [self.near.sizes(b.source) - self.near.top[b.source] for b in layer.blocks]
                near = near + layer.eta(moved, bias=False)
            eta = (2 * eta + 2 * near) * (1 + 8 * U)
        return eta

    # -- ranges ------------------------------------------------------------------------------------------------------

    def runs(self, k: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Ranges of the near and of the far run at a layer, each narrowed by the other and the difference."""
        if k in self._runs:
            return self._runs[k]
        zl, zu = self.near.certain(k)
        low, high = self.low[k], self.high[k]
        room = (4 * U) * (np.abs(zl) + np.abs(zu) + np.abs(low) + np.abs(high)) + TINY
        yl, yu = zl + low - room, zu + high + room
        first, last = self.far.certain(k)
        room = (4 * U) * (np.abs(first) + np.abs(last) + np.abs(low) + np.abs(high)) + TINY
        zl, zu = np.fmax(zl, first - high - room), np.fmin(zu, last - low + room)
        yl, yu = np.fmax(yl, first), np.fmin(yu, last)
        self._runs[k] = (zl, np.maximum(zl, zu)), (yl, np.maximum(yl, yu))
        return self._runs[k]

    def _size(self, k: int) -> None:
        """The range of a layer is known: narrow it by what else is known, and weigh its activation."""
        low, high = self.low[k], self.high[k]
        if self.joint is not None:
            first, last = self.joint.step(self, k)
            np.fmax(low, first, out=low)
            np.fmin(high, last, out=high)
        (zl, zu), (yl, yu) = self.near.certain(k), self.far.certain(k)
        room = (4 * U) * (np.abs(zl) + np.abs(zu) + np.abs(yl) + np.abs(yu)) + TINY
        np.fmax(low, yl - zu - room, out=low)
        np.fmin(high, yu - zl + room, out=high)
        np.maximum(low, high, out=high)
        self._weigh_activation(k)

    def _weigh_activation(self, k: int) -> None:
        activation = self.network.layers[k].activation
        if activation is None:
            return
        self._runs.pop(k, None)  # what was known before
        (zl, zu), (yl, yu) = self.runs(k)
        low, high = np.minimum(zl, yl), np.maximum(zu, yu)
        if len(self.slopes) == k:
            self.slopes.append((low, high))
            self.doubt.append(0.0)
        self.slopes[k] = slope_range(activation, low, high)
        if self.prepared.run_unit and activation.kind != "relu":
            error = Curve(activation, low, high, U32).error
            self.doubt[k] = (error if isinstance(error, float) else error.max(0)) * 2.02
        first, last = self.values(k + 1)
        self.top[k + 1] = np.maximum(np.abs(first), np.abs(last))

    def values(self, source: int) -> tuple[Array, Array]:
        """The range of the difference behind an activation: its sides are extreme at the ends, and the two runs' own
        values say something, too."""
        k = source - 1
        activation = self.network.layers[k].activation
        assert activation is not None
        tops, bottoms, wide = self._ends(k, activation)
        first, last = np.minimum(*bottoms) - wide, np.maximum(*tops) + wide
        (zl, zu), (yl, yu) = (_image(activation, *run, self.prepared.unit32) for run in self.runs(k))
        room = (4 * U) * (np.abs(zl) + np.abs(zu) + np.abs(yl) + np.abs(yu)) + TINY
        first, last = np.fmax(first, yl - zu - room), np.fmin(last, yu - zl + room)
        return first, np.maximum(first, last)

    # -- lines -------------------------------------------------------------------------------------------------------

    def _ends(self, k: int, activation: Activation) -> tuple[tuple[Array, Array], tuple[Array, Array], Array]:
        """The upper and the lower side of ``D'`` at both ends of the range of ``D``, and their rounding."""
        low, high = self.low[k], self.high[k]
        least, most = self.slopes[k]
        wide = (16 * U) * (1 + np.abs(least) + np.abs(most)) * (np.abs(low) + np.abs(high)) + TINY + self.doubt[k]
        if activation.kind == "relu":
            near, far = self.runs(k)
            return (
                (_relu_rise(low, *near), _relu_rise(high, *near)),
                (-_relu_rise(-low, *far), -_relu_rise(-high, *far)),
                wide,
            )
        return (
            (np.maximum(least * low, most * low), np.maximum(least * high, most * high)),
            (np.minimum(least * low, most * low), np.minimum(least * high, most * high)),
            wide,
        )

    def relax(self, k: int) -> None:
        """Parallel lines around the difference behind a layer's activation."""
        slope, above, _, _, ends = self._sided(k)
        low, high = self.low[k], self.high[k]
        bottoms, wide = ends
        below = np.minimum(bottoms[0] - slope * low, bottoms[1] - slope * high) - wide
        least, most = self.slopes[k]
        straight = least == most
        zero = np.where(straight, np.broadcast_to(self.doubt[k], straight.shape), 0.0)
        self.lines[k] = Lines(
            np.where(straight, most, slope), np.where(straight, zero, above), np.where(straight, -zero, below)
        )

    def _sided(self, k: int) -> tuple[Array, Array, Array, Array, tuple[tuple[Array, Array], Array]]:
        """Lines above and below with slopes of their own, and the lower side at the ends."""
        activation = self.network.layers[k].activation
        assert activation is not None
        tops, bottoms, wide = self._ends(k, activation)
        low, high, (least, most) = self.low[k], self.high[k], self.slopes[k]
        width = np.maximum(high - low, TINY)
        slope = np.clip(np.nan_to_num((tops[1] - tops[0]) / width), least, most)
        low_slope = np.clip(np.nan_to_num((bottoms[1] - bottoms[0]) / width), least, most)
        above = np.maximum(tops[0] - slope * low, tops[1] - slope * high) + wide
        below = np.minimum(bottoms[0] - low_slope * low, bottoms[1] - low_slope * high) - wide
        return slope, above, low_slope, below, (bottoms, wide)

    def _renew(self, k: int, row: Index, column: Index) -> None:
        self._weigh_activation(k)
        self.relax(k)

    def apart(self) -> list[Sides]:
        """Lines with slopes of their own around every activation; through the origin where a sign is known."""
        found = []
        for k, layer in enumerate(self.network.layers[:-1]):
            slope, above, low_slope, below, _ = self._sided(k)
            least, most = self.slopes[k]
            zero = np.broadcast_to(self.doubt[k], slope.shape)
            if layer.activation is not None and layer.activation.kind == "relu":
                (zl, zu), (yl, yu) = self.runs(k)
                for known, given in ((yl >= 0, 1.0), (yu <= 0, 0.0)):  # D' ≤ D, D' ≤ 0
                    slope, above = np.where(known, given, slope), np.where(known, 0.0, above)
                for known, given in ((zl >= 0, 1.0), (zu <= 0, 0.0)):  # D' ≥ D, D' ≥ 0
                    low_slope, below = np.where(known, given, low_slope), np.where(known, 0.0, below)
            straight = least == most
            slope, low_slope = np.where(straight, most, slope), np.where(straight, most, low_slope)
            found.append(Sides(slope, np.where(straight, zero, above), low_slope, np.where(straight, -zero, below)))
        return found

    def parallel(self) -> list[Sides]:
        """The parallel lines, as those of two sides."""
        return [Sides(lines.slope, lines.above, lines.slope, lines.below) for lines in self.lines[:-1]]


def _relu_rise(move: Array, low: Array, high: Array) -> Array:
    """The largest ``relu(t + move) − relu(t)`` for ``t`` in ``[low, high]``, up to two roundings of ``move``."""
    return np.where(move >= 0, np.minimum(np.maximum(high + move, 0.0), move), np.maximum(np.minimum(-low, 0.0), move))


def _image(activation: Activation, low: Array, high: Array, unit32: float) -> tuple[Array, Array]:
    if activation.kind == "relu":
        return np.maximum(low, 0.0), np.maximum(high, 0.0)
    return Curve(activation, low, high, unit32).image()


@np.errstate(all="ignore")  # what overflows ends as an infinite bound
def compare(
    pairs: Pairs,
    x: Array,
    near: Ball | BallBox,
    between: Ball | BallBox,
    limits: BallBox | None = None,
    within: Sequence[Ball | BallBox] = (),
    tight: bool = True,
) -> list[Gap]:
    """Enclose outputs at ``z`` in ``x + near``, at ``y`` in ``x + limits`` with ``y − z`` in ``between``, and the
    difference of the two; the same over every part of ``near`` in ``within``.

    Sets that the pairs share must be those that they were made ready with. Without ``tight`` there are no backward
    passes: ranges from ranges.
    """
    x = checked(x, pairs.network.width)
    if pairs.shared and (near is not pairs.near.region or between is not pairs.between.region or limits is not None):
        raise ValueError("These pairs were made ready for other balls.")
    if not pairs.shared and (isinstance(near, Ball) or isinstance(between, Ball)):
        raise ValueError("Pairs with sets of their own need boxes around them.")
    smaller = [near.within(part) for part in within]  # type: ignore[arg-type]
    found = []
    # Who is crowded is decided person by person, so that a bound does not hang on who else is asked about.
    crowd = _crowded(pairs, x, near) if tight else np.zeros(len(x), dtype=bool)
    order = np.argsort(crowd, kind="stable")
    halves = np.split(order, [int((~crowd).sum())])
    for part in (half[start : start + BLOCK] for half in halves for start in range(0, len(half), BLOCK)):
        own = near[part], between[part], None if limits is None else limits[part], [each[part] for each in smaller]
        found.append(_Block(pairs, x[part], *own, tight, bool(crowd[part[0]])).gaps())
    if not found:
        none = Enclosure(*[np.zeros((0, pairs.network.outputs.width))] * 2)
        return [Gap(none, none, none)] * (1 + len(within))
    joined, back = [_joined([gaps[i] for gaps in found]) for i in range(1 + len(within))], np.argsort(order)
    return joined if not crowd.any() else [Gap(*(part.of(back) for part in gap)) for gap in joined]


def _crowded(pairs: Pairs, x: Array, near: Ball | BallBox) -> NDArray[np.bool_]:
    """Of whom are many neurons of the first layer open?"""
    layer, found = pairs.network.layers[0], np.zeros(len(x), dtype=bool)
    if layer.activation is None:
        return found
    for start in range(0, len(x), BLOCK):
        part = slice(start, start + BLOCK)
        sweep = Sweep(pairs.near, x[part], None if pairs.shared else near[part])
        sweep.enclose(0)
        least, most = slope_range(layer.activation, sweep.low[0], sweep.high[0])
        found[part] = np.mean(least < most, axis=1) > CROWDED
    return found


class _Block:
    """One batch of pairs of regions."""

    def __init__(
        self,
        pairs: Pairs,
        x: Array,
        near: Ball | BallBox,
        between: Ball | BallBox,
        limits: BallBox | None,
        smaller: list[Ball | BallBox],
        tight: bool,
        crowded: bool,
    ) -> None:
        self.pairs, self.tight, self.smaller = pairs, tight, smaller
        self.last = pairs.network.depth
        own = not pairs.shared
        self.near = Sweep(pairs.near, x, near if own else None)
        joint = Joint.of(pairs.weights, between) if tight else None
        self.forms = Forms.of(pairs.weights, near) if joint is not None else None
        self.each = tight and (joint is None or self.forms is None or not crowded)
        self.far = Sweep(pairs.far, x, Sum(between, near, limits) if own else None)
        self.between = Differences(pairs.between, self.near, self.far, between if own else None, joint)
        for k in range(self.last + 1):
            self._layer(k)

    def _layer(self, k: int) -> None:
        for sweep in (self.near, self.far, self.between):
            sweep.enclose(k)
            if sweep is self.near and self.forms is not None:
                low, high = self.forms.step(sweep, k)
                np.fmax(sweep.low[k], low, out=sweep.low[k])
                np.maximum(np.fmin(sweep.high[k], high), sweep.low[k], out=sweep.high[k])
                sweep._size(k)
            if k < self.last and self.tight and (self.each or sweep is not self.far):
                sweep.relax(k)
                if self.each and k and (sweep is not self.near or self.forms is None):
                    sweep.tighten(k, 0.0)

    def gaps(self) -> list[Gap]:
        """Over the regions, and over the smaller ones."""
        count = 1 + len(self.smaller)
        near = _outputs(self.near, self.smaller, self.tight, self.each)
        burst = self.near.burst | self.between.burst | self.far.burst
        sums = [self.far.region.within(part) for part in self.smaller]  # type: ignore[attr-defined]
        far = _outputs(self.far, sums, self.each, self.each)
        low, high = np.array(self.between.low[self.last]), np.array(self.between.high[self.last])
        if self.tight and self.last:
            choices = [self.between.apart(), self.between.parallel()] if self.each else []
            for j in range(low.shape[1]):
                for sides in choices:
                    high[:, j] = np.fmin(high[:, j], self.between.side(j, 1.0, sides))
                    low[:, j] = np.fmax(low[:, j], -self.between.side(j, -1.0, sides))
                if self.between.joint is not None:
                    first, last = self.between.joint.output(self.between, j)
                    low[:, j], high[:, j] = np.fmax(low[:, j], first), np.fmin(high[:, j], last)
        high = np.maximum(low, high)
        found = []
        for i in range(count):
            (zl, zu) = near[i]
            room = (4 * U) * (np.abs(zl) + np.abs(zu) + np.abs(low) + np.abs(high)) + TINY
            yl, yu = zl + low - room, zu + high + room
            yl, yu = np.fmax(yl, far[i][0]), np.fmin(yu, far[i][1])
            enclosed = []
            for first, last in ((zl, zu), (yl, yu), (low, high)):
                lost = burst[:, None] | np.isnan(first) | np.isnan(last)
                enclosed.append(Enclosure(np.where(lost, -np.inf, first), np.where(lost, np.inf, last)))
            found.append(Gap(*enclosed))
        return found


def _outputs(sweep: Sweep, within: Sequence[Region], tight: bool, each: bool) -> list[tuple[Array, Array]]:
    """Outputs over the regions of a sweep, and over parts of them.

    Lines that touch where a pass is largest suffice where many ReLUs are open; others have two chances.
    """
    kinds = {layer.activation.kind for layer in sweep.network.layers if layer.activation is not None}
    both = each or kinds != {"relu"}
    last = sweep.network.depth
    found = [(np.array(sweep.low[last]), np.array(sweep.high[last])) for _ in range(1 + len(within))]
    if not tight:
        return found
    run = sweep.run()
    for j in range(sweep.network.outputs.width):
        moves = steer(sweep, j)
        for sign in (1.0, -1.0):
            for touch in (True, False) if both else (True,):
                sides = sweep.sides(run, moves, sign) if touch else sweep.sides()
                for (low, high), bound in zip(found, sweep.sides_within(j, sign, sides, within), strict=True):
                    if sign > 0:
                        high[:, j] = np.fmin(high[:, j], bound)
                    else:
                        low[:, j] = np.fmax(low[:, j], -bound)
    return found


def _joined(gaps: list[Gap]) -> Gap:
    return Gap(
        *(Enclosure(*(np.concatenate(side) for side in zip(*one, strict=True))) for one in zip(*gaps, strict=True))
    )
