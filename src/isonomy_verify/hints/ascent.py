"""Hints for the pass over a part of a region: slopes, places, multipliers, splits; improved step by step.

The bound of a pass changes with the slope of a line below an activation by coefficient times pre-activation, and with
the multiplier of a neuron that was cut by the distance of its pre-activation from the cut, both at the place where the
pass is largest in the network of lines. So each step is one pass backward and one run forward, in float32.

**Soundness.** Nothing here proves anything: what is found goes to :meth:`isonomy_verify.branching.Leaves.derive`, which
makes lines of slopes and places by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.branching import Found, Hints, Leaves
from isonomy_verify.enclosure import BLOCK, Prepared, Run, moves
from isonomy_verify.hints.splitting import Splitting
from isonomy_verify.lines import Lines
from isonomy_verify.regions import BallBox, Index

Bools = NDArray[np.bool_]
Rows = list[Any]
"""One array for each hidden layer, in float32."""

DAMPING, RATE = 0.3, 0.25
"""How fast slopes follow the place where a pass is largest, and multipliers the gradient."""

FIRST, STEPS = 16, 8
"""Steps on the hints of a root, and of a part that begins with those of its parent."""

COLD, WARM = 12, 3
"""Steps on the split of a region before the first pass, and between passes."""

ELSEWHERE = 1e-3
"""What a line could cost at worst counts this much beside what it costs where the pass is largest."""


@np.errstate(all="ignore")
def improve(leaves: Leaves, rows: Index, target: Array, steps: int | None = None) -> Found:
    """Bound open leaves again with better hints; ``target`` (rows,) is a bound that would do, so that steps may end
    early."""
    found = Found(
        np.zeros((len(rows), leaves.x.shape[1])), np.full(len(rows), -1), np.zeros(len(rows), dtype=np.int64),
        np.zeros(len(rows)),
    )  # fmt: skip
    fresh = leaves.fresh(rows)
    for which in (fresh, ~fresh):
        places = np.flatnonzero(which)
        for first in range(0, len(places), 2 * BLOCK):
            part = places[first : first + 2 * BLOCK]
            for mine, theirs in zip(found, _improve(leaves, rows[part], target[part], steps), strict=True):
                mine[part] = theirs
    return found


def _improve(leaves: Leaves, rows: Index, target: Array, steps: int | None) -> Found:
    parts, root = leaves.enclose(rows), leaves.root[rows]
    ascent = Ascent(parts.run, leaves.output[root], leaves.sign[root], State(*leaves.hints(rows)))
    uncut = not any(cut is not None for cut in ascent.cut)
    ascent.climb((FIRST if uncut else STEPS) if steps is None else steps, target)
    best = ascent.best
    multipliers = None if uncut else [m.astype(np.float64) for m in best.multipliers]
    leaves.derive(parts, Hints(best.slopes, best.touched, multipliers, best.split))
    leaves.keep(rows, best.slopes, best.multipliers)
    return Found(moves(parts.run.region, best.place, leaves.x.shape[1]), *ascent.cuts())


@dataclass
class State:
    """Hints of a batch of parts, and what a pass with them says."""

    slopes: Rows  # of lines below ReLUs
    multipliers: Rows
    cut: list[Bools]  # which neurons may have multipliers
    touched: list[Any] = field(default_factory=list)  # where lines of activations other than ReLU touch
    lines: list[Lines | None] = field(default_factory=list)  # these lines
    place: Any = None  # (n, columns of the region): where the pass is largest
    split: Any = None  # of the region's support
    z: Rows = field(default_factory=list)  # pre-activations there
    scores: Rows = field(default_factory=list)  # what each neuron's line costs


class Ascent:
    """Steps on the hints of a batch of parts; ``best`` is the best state that was met."""

    def __init__(self, run: Run, output: Index, sign: Array, state: State) -> None:
        self.run, self.output, self.sign, self.best = run, output, sign.astype(np.float32)[:, None], state
        self.n, self.layers, self.depth = run.n, run.layers, run.network.depth
        self.weights = weights_of(run.prepared)
        self.linear_images = [None if each is None else _both(each.matrix) for each in run.linear_images]
        self.start = [_single(start) for start in run.start]
        self.lines = [[_single(part) for part in line] for line in run.lines]
        self.ranges = [(_single(low), _single(high)) for low, high in run.range[: self.depth]]
        self.relu = [layer.activation is not None and layer.activation.kind == "relu" for layer in self.layers[:-1]]
        self.bends = [self._bends(k) for k in range(self.depth)]
        self.cut: list[Any] = [cut if cut.any() else None for cut in state.cut]
        region = run.region
        self.splitting = Splitting(region) if isinstance(region, BallBox) and len(region.root) else None
        for k, (slope, *_) in enumerate(self.lines):
            state.slopes[k] = np.where(self.bends[k], state.slopes[k], slope)
        state.touched = [None if relu else np.full_like(state.slopes[k], np.nan) for k, relu in enumerate(self.relu)]
        state.lines = [None if relu else run.touched(k, None) for k, relu in enumerate(self.relu)]

    def climb(self, steps: int, target: Array) -> None:
        """Take steps until every bound is below its target, as far as float32 can tell."""
        best, now = np.full(self.n, np.inf), _copied(self.best)
        mean: Rows = [0.0] * self.depth
        square: Rows = [0.0] * self.depth
        for step in range(steps + 1):
            value, c = self._backward(now, WARM if step else COLD)
            self._forward(now, c)
            if step:
                self._keep(value < best, now)
            else:
                self.best = _copied(now)
            best = np.fmin(best, value)
            if step == steps or bool((best < target).all()):
                break
            rate = np.float32(1.0 if step == 0 else DAMPING / (1 + DAMPING * step))
            for k in range(self.depth):
                if self.relu[k]:
                    turned = now.slopes[k] + rate * ((now.z[k] > 0) - now.slopes[k])
                    now.slopes[k] = np.where(self.bends[k], turned, now.slopes[k])
                elif step & (step + 1) == 0:  # 0, 1, 3, 7: lines of curves cost more than the step itself
                    now.touched[k], now.lines[k] = now.z[k], self.run.touched(k, now.z[k])
                if self.cut[k] is not None:
                    scale = np.abs(c[k]).max(1, keepdims=True) * np.float32(RATE * 0.9**step)
                    m = now.multipliers[k]
                    gradient = self._violation(k, now.z[k], m)
                    mean[k], square[k] = 0.7 * mean[k] + 0.3 * gradient, 0.9 * square[k] + 0.1 * gradient * gradient
                    along = mean[k] / (1 - 0.7 ** (step + 1))
                    moved = m - scale * along / (np.sqrt(square[k] / (1 - 0.9 ** (step + 1))) + 1e-12)
                    # A multiplier of one end must not become one of the other in a single step.
                    moved = np.where(m > 0, np.maximum(moved, 0), np.where(m < 0, np.minimum(moved, 0), moved))
                    now.multipliers[k] = _single(np.where(self.cut[k], moved, m))

    def cuts(self) -> tuple[Index, Index, Array]:
        """Of each part the layer and the neuron whose line costs most, and where to cut it; layer −1: none does."""
        layer, column = np.full(self.n, -1), np.zeros(self.n, dtype=np.int64)
        most, value, rows = np.zeros(self.n), np.zeros(self.n), np.arange(self.n)
        for k, score in enumerate(self.best.scores):
            best = np.nan_to_num(score).argmax(1)
            top = np.nan_to_num(score[rows, best].astype(np.float64))
            low, high = (end[rows, best] for end in self.run.range[k])
            place = self._place(k, low, high, self.best.z[k][rows, best])
            better = (top > most) & np.isfinite(place)
            layer, column = np.where(better, k, layer), np.where(better, best, column)
            most, value = np.where(better, top, most), np.where(better, place, value)
        return layer, column, value

    def _place(self, k: int, low: Array, high: Array, at: Any) -> Array:
        """At a kink inside the range; else where the pass is largest, not too near to an end."""
        activation = self.layers[k].activation
        assert activation is not None
        place = np.clip(at.astype(np.float64), low + 0.2 * (high - low), high - 0.2 * (high - low))
        for kink in activation.shape.kinks:
            place = np.where((low < kink) & (kink < high), kink, place)
        return np.asarray(place)

    def _bends(self, k: int) -> Bools:
        activation = self.layers[k].activation
        assert activation is not None
        return activation.bends(*self.run.range[k])

    def _violation(self, k: int, z: Any, m: Any) -> Any:
        """How far pre-activations are from the ends that multipliers speak of; without one, from the range."""
        low, high = self.ranges[k]
        return np.where(self.cut[k], z - np.where(m > 0, low, np.where(m < 0, high, np.clip(z, low, high))), 0.0)

    def _keep(self, better: Bools, now: State) -> None:
        """Take over the rows that are better."""
        if not better.any():
            return
        best, which = self.best, better[:, None]

        def taken(new: Any, old: Any) -> Any:
            return old if new is None else np.where(which, new, old)

        for name in ("slopes", "multipliers", "touched", "z", "scores"):
            setattr(best, name, [taken(*pair) for pair in zip(getattr(now, name), getattr(best, name), strict=True)])
        best.place, best.split = taken(now.place, best.place), taken(now.split, best.split)

    def _line(self, k: int, now: State) -> tuple[Any, Any, Any, Any]:
        """Slopes and intercepts above and below; the last is 0 for a ReLU."""
        mine = now.lines[k]
        if mine is None:
            slope, above, *_ = self.lines[k]
            return slope, above, now.slopes[k], np.float32(0)
        return mine.slope, mine.above, mine.low_slope, mine.below

    def _backward(self, now: State, turns: int) -> tuple[Array, Rows]:
        """The pass: its value, and the coefficients of each layer's activations."""
        last = self.depth
        carried: dict[int, Any] = {
            block.source: self.sign * both[0][self.output]
            for block, both in zip(self.layers[last].blocks, self.weights[last], strict=True) if block.source
        }  # fmt: skip
        linear_image, start = self.linear_images[last], self.start[last]
        input_coefficients: Any = np.float32(0) if linear_image is None else self.sign * linear_image[0][self.output]
        total = np.zeros(self.n) + self.sign[:, 0] * start[np.arange(len(start)) if len(start) > 1 else 0, self.output]
        c: Rows = [None] * last
        for k in range(last - 1, -1, -1):
            c[k] = carried.pop(k + 1, np.zeros((self.n, self.layers[k].width), np.float32))
            slope, above, low_slope, low = self._line(k, now)
            negative = np.minimum(c[k], 0)
            positive = c[k] - negative
            g = slope * positive + low_slope * negative
            total += np.vecdot(above, positive)
            if np.ndim(low):
                total += np.vecdot(low, negative)
            if self.cut[k] is not None:
                m, (first, final) = now.multipliers[k], self.ranges[k]
                g = g + m
                total -= (m * np.where(m > 0, first, np.where(m < 0, final, 0))).sum(1)
            start, linear_image = self.start[k], self.linear_images[k]
            total += g @ start[0] if len(start) == 1 else np.vecdot(g, start)
            for block, both in zip(self.layers[k].blocks, self.weights[k], strict=True):
                if block.source:
                    more = g @ both[0]
                    carried[block.source] = carried[block.source] + more if block.source in carried else more
            if linear_image is not None:
                input_coefficients = input_coefficients + g @ linear_image[0]
        input_coefficients = np.broadcast_to(input_coefficients, (self.n, self.run.columns)).astype(np.float64)
        if self.splitting is not None:
            now.place, now.split = self.splitting.step(input_coefficients, turns)
            return total + self.splitting.region.split_support(input_coefficients, now.split), c
        now.place = self.run.region.maximiser(input_coefficients, slice(None))
        return total + np.vecdot(input_coefficients, now.place), c

    def _forward(self, now: State, c: Rows) -> None:
        """Pre-activations at the place in the network of lines, and what each line costs there."""
        now.z, now.scores = [], []
        h: Rows = [None]
        place = _single(now.place)
        for k, layer in enumerate(self.layers[:-1]):
            z: Any = self.start[k]
            linear_image = self.linear_images[k]
            if linear_image is not None:
                z = z + place @ linear_image[1]
            for block, both in zip(layer.blocks, self.weights[k], strict=True):
                if block.source:
                    z = z + h[block.source] @ both[1]
            z = _single(np.broadcast_to(z, (self.n, layer.width)))
            slope, above, low_slope, low = self._line(k, now)
            line = _single(np.where(c[k] > 0, slope * z + above, low_slope * z + low))
            assert layer.activation is not None
            # A place that multipliers have not yet led into the range says nothing about lines over it.
            at = np.clip(z, *self.ranges[k])
            cost = c[k] * (
                np.where(c[k] > 0, slope * at + above, low_slope * at + low) - layer.activation.shape.value(at)
            )
            # Where lines cost nothing at this place, those that could cost most elsewhere.
            cost = np.maximum(cost, 0) + ELSEWHERE * np.abs(c[k]) * (above - low)
            now.scores.append(_single(np.where(self.bends[k], cost, 0)))
            now.z.append(z)
            h.append(line)


_weights: WeakKeyDictionary[Prepared, list[list[tuple[Any, Any]]]] = WeakKeyDictionary()


def weights_of(prepared: Prepared) -> list[list[tuple[Any, Any]]]:
    """The weights of the blocks of all layers in float32, as they are and transposed; kept as long as the network."""
    if prepared not in _weights:
        _weights[prepared] = [[_both(block.weight) for block in layer.blocks] for layer in prepared.network.layers]
    return _weights[prepared]


def _both(matrix: Array) -> tuple[Any, Any]:
    with np.errstate(all="ignore"):
        rounded = np.ascontiguousarray(matrix.astype(np.float32))
    return rounded, np.ascontiguousarray(rounded.T)


def _single(a: Any) -> Any:
    return a.astype(np.float32)


def _copied(state: State) -> State:
    """Return a state whose lists are its own."""
    return State(*(list(each) if isinstance(each, list) else each for each in vars(state).values()))
