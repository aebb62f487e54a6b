"""The linear tier: backward linear bounds, concretised by the support function of the region.

Problem: enclose the outputs over regions ``c + V`` by linear functions of the move ``v``, in terms of how far each node
moves from the run at the centre. With moves, biases drop out and stable neurons leave no constants.

The sweep goes forward: the interval tier bounds each layer first; of the neurons that it leaves unstable, and only of
these, the bounds are tightened by a backward pass (with parallel lines, so that one pass serves both sides) before the
next layer is looked at. The outputs get one pass for every choice of lower slopes, and the best counts.

**Soundness.** See :mod:`isonomy.bounds.backward` and :mod:`isonomy.bounds.relaxations`. The moves are those from the
*computed* run; its own rounding is part of the cost of each layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isonomy.arithmetic import TINY, UNIT, gamma
from isonomy.bounds.activations import doubt, shape
from isonomy.bounds.backward import PASS, Backward, numbers, weakly
from isonomy.bounds.interval import STEPS, Enclosure, Interval, Moves
from isonomy.bounds.relaxations import MODES, Lines, Mode, bends, lean
from isonomy.bounds.relaxations import lines as chords
from isonomy.networks.graph import Activation, Add, Affine, Graph, Input
from isonomy.sets import Shape, norm_upper


class Linear:
    """A graph made ready for the linear tier."""

    def __init__(self, graph: Graph, *, float32_run: bool = False, original: Graph | None = None) -> None:
        self.graph = graph
        self.interval = Interval(graph, float32_run=float32_run, original=original)

    def enclose(self, centre: Tensor, sets: Shape, modes: tuple[Mode, ...] = MODES) -> Enclosure:
        """Enclose the outputs over ``centre + sets``, never worse than the interval tier."""
        found = self.sweep(centre, sets).outputs(modes)
        if self.interval.working == torch.float32 and not bool(torch.isfinite(found.low + found.high).all()):
            return Sweep(self.interval.wider(), centre, sets).outputs(modes)
        return found

    def sweep(self, centre: Tensor, sets: Shape, tight: bool = True, inner: Shape | None = None) -> Sweep:
        """Bounds of every node over ``centre + sets``, and over smaller sets ``inner``."""
        return Sweep(self.interval, centre, sets, tight=tight, inner=inner)


@dataclass(frozen=True)
class Seen:
    """What lines need to know of an activation: its run and its moves before."""

    op: Activation
    point: Tensor
    value: Tensor
    low: Tensor
    high: Tensor


class Ranges:
    """The moves of every node over one batch of regions, as far as they are known."""

    def __init__(self, interval: Interval, centre: Tensor, sets: Shape) -> None:
        self.interval, self.graph, self.centre, self.sets = interval, interval.graph, centre, sets
        self.moves: dict[int, Moves] = {0: interval.input(centre, sets)}

    def extremes(self, i: int) -> tuple[Tensor, Tensor]:
        """The lowest and highest move of a node, (regions, width) in float64."""
        moves = self.moves[i]
        shift, spread = moves.shift.double(), moves.spread.double()
        spread = spread + (STEPS * self.interval.unit) * (spread + shift.abs())
        return (shift - spread).expand(moves.point.shape), (shift + spread).expand(moves.point.shape)

    def values(self, i: int) -> tuple[Tensor, Tensor]:
        """Enclosures of a node's values, outward."""
        low, high = self.extremes(i)
        point = self.moves[i].point
        room = (4 * UNIT) * (point.abs() + low.abs() + high.abs()) + TINY
        return point + low - room, point + high + room

    def step(self, i: int) -> None:
        """The next node, by the interval tier."""
        self.moves[i] = self.interval.node(i, self.graph.nodes[i], self.centre, self.sets, self.moves)

    def narrow(self, i: int, low: Tensor, high: Tensor) -> None:
        """Put better bounds of a node's moves in the place of those known."""
        before = self.moves[i]
        moves = self.interval.in_working(before.point, before.error, (low + high) / 2, (high - low) / 2)
        self.moves[i] = replace(moves, around=before.around and bool(((low <= 0) & (high >= 0)).all()))

    def finish(self) -> Enclosure:
        """The outputs as the ranges leave them."""
        return self.interval.finish(self.moves[len(self.graph.nodes) - 1])


class Sweep(Ranges):
    """One batch of regions: forward with the interval tier, backward wherever a neuron is left unstable.

    With ``phases`` (activation → signs (regions, width)) everything is said of those points only at which the neurons
    have these signs; ``empty`` marks regions that certainly hold no such point. Without ``tight`` nothing looks back.
    ``inner`` are smaller regions within, whose ranges come along at little cost.
    """

    def __init__(
        self,
        interval: Interval,
        centre: Tensor,
        sets: Shape,
        phases: dict[int, Tensor] | None = None,
        tight: bool = True,
        inner: Shape | None = None,
    ) -> None:
        self.tight = tight
        self.inner = None if inner is None else Ranges(interval, centre, inner)
        super().__init__(interval, centre, sets)
        self.phases = phases or {}
        self.empty = torch.zeros(len(centre), dtype=torch.bool)
        self.unit = max(UNIT, interval.run_unit or 0.0)
        single = (lambda i: interval.prepared[i].working) if interval.working == torch.float32 else None
        self.backward = Backward(self.graph, sets, weakly(self.lines), weakly(self._reach), single)
        self.seen: dict[int, Seen] = {}
        self._known: dict[tuple[int, Mode], Lines] = {}
        if interval.run_unit is not None:
            size = (norm_upper(centre, 2) + self._reach(0)) * (2 * interval.run_unit * (1 + gamma(8)))
            self.backward.cost[0] = size.expand(len(centre))
        for i, node in enumerate(self.graph.nodes):
            if isinstance(node.op, Input):
                continue
            if isinstance(node.op, Activation):
                if tight:
                    self._tighten(node.inputs[0], node.op)
                if i in self.phases:
                    self._restrict(node.inputs[0], self.phases[i])
            self.step(i)
            if self.inner is not None:
                self.inner.step(i)
            if isinstance(node.op, Activation):
                source = node.inputs[0]
                self.seen[i] = Seen(node.op, self.moves[source].point, self.moves[i].point, *self.extremes(source))
            if tight:
                self.backward.cost[i] = self._cost(i)

    def outputs(self, modes: tuple[Mode, ...] = MODES) -> Enclosure:
        """The outputs, each bounded by a backward pass for every mode and by the sweep itself."""
        return self.outputs_within((), modes)[0]

    def outputs_within(self, within: Sequence[Shape], modes: tuple[Mode, ...] = MODES) -> list[Enclosure]:
        """The outputs over the regions, and over every batch of smaller regions within them."""
        found = self.finish()
        return self.improved([found for _ in (None, *within)], within, modes)

    def improved(
        self, found: list[Enclosure], within: Sequence[Shape], modes: tuple[Mode, ...] = MODES
    ) -> list[Enclosure]:
        """Enclosures of the outputs over the regions and over smaller ones, each improved by backward passes."""
        if not self.tight:
            return found
        known = [(each.low, each.high) for each in found]
        sides = self.backward.outputs(known, modes if self.seen else ("chord",), within)
        return [replace(each, low=low, high=high) for each, (low, high) in zip(found, sides, strict=True)]

    def _tighten(self, i: int, op: Activation) -> None:
        """Backward bounds for the neurons of node ``i`` that its activation does not leave on a straight piece."""
        node = self.graph.nodes[i]
        if not self.seen or i == 0 or (isinstance(node.op, Affine) and node.inputs == (0,)):
            return  # nothing has been relaxed yet: the bounds are exact
        before = self.moves[i]
        low, high = (side.clone() for side in self.extremes(i))
        loose = torch.isfinite(low) & torch.isfinite(high) & bends(op, before.point + low, before.point + high)
        rows, columns = loose.nonzero(as_tuple=True)
        ranges = [(low, high)]
        if self.inner is not None:
            ranges.append(tuple(side.clone() for side in self.inner.extremes(i)))  # type: ignore[arg-type]
        within = [] if self.inner is None else [self.inner.sets]
        for start in range(0, len(rows), PASS):
            row, column = rows[start : start + PASS], columns[start : start + PASS]
            for (below, above), sides in zip(ranges, self.backward.neurons(i, row, column, within), strict=True):
                bottom, top = numbers(*sides)
                below[row, column] = torch.maximum(below[row, column], bottom)
                above[row, column] = torch.minimum(above[row, column], top)
        for sweep, (below, above) in zip((self, self.inner), ranges, strict=False):
            assert sweep is not None
            sweep.narrow(i, below, above)

    def _restrict(self, i: int, phase: Tensor) -> None:
        """Look only at the part of each region where neurons of node ``i`` have the given signs (0: any)."""
        before = self.moves[i]
        low, high = self.extremes(i)
        room = (8 * UNIT) * before.point.abs() + TINY
        low = torch.where(phase > 0, torch.maximum(low, -before.point - room), low)
        high = torch.where(phase < 0, torch.minimum(high, -before.point + room), high)
        self.empty |= (low > high).any(1)
        high = torch.maximum(low, high)
        self.narrow(i, low, high)
        self.moves[i] = replace(self.moves[i], around=False)

    def _reach(self, i: int) -> Tensor:
        """At least the 2-norm of the moves of a node, per region."""
        low, high = self.extremes(i)
        most = torch.maximum(low.abs(), high.abs())
        return norm_upper(torch.where(torch.isfinite(most), most, 0.0) if i == 0 else most, 2)

    def _cost(self, i: int) -> Tensor:
        """What a node adds to a backward pass, per unit of the coefficients' 2-norm."""
        node = self.graph.nodes[i]
        rows = len(self.centre)
        match node.op:
            case Affine():
                layer, (source,) = self.interval.prepared[i], node.inputs
                point, reach = self.moves[source].point, self._reach(source)
                size = norm_upper(point, 2)
                cost = layer.rounding_norm * size + layer.constant_norm + layer.slack_norm * (size + reach)
                cost = cost + (4 * gamma(node.op.width_out + node.op.width_in + 16)) * layer.frobenius * reach
                if self.interval.run_unit is not None:
                    most = torch.maximum(*map(torch.abs, self.extremes(source)))
                    most = torch.where(torch.isfinite(most), most, 0.0)
                    cost = cost + norm_upper(self.interval.run_error(i, node.op, point.abs() + most), 2)
            case Activation():
                point, value = self.seen[i].point, self.seen[i].value
                size = self._reach(node.inputs[0]) * shape(node.op).steepest + self._reach(i)
                cost = size * (4 * gamma(point.shape[1] + 16)) + norm_upper(doubt(node.op, point, value, self.unit), 2)
            case Add():
                sizes = [self._reach(j) + norm_upper(self.moves[j].point, 2) for j in node.inputs]
                cost = torch.stack([size.expand(rows) for size in sizes]).sum(0) * (8 * self.unit * len(sizes))
            case _:
                return torch.zeros(rows, dtype=torch.float64)
        return (cost * (1 + gamma(16))).expand(rows)

    def lines(self, k: int, mode: Mode) -> Lines:
        """The lines of activation ``k`` for a choice of lower slopes."""
        if (k, "chord") not in self._known:
            seen = self.seen[k]
            self._known[k, "chord"] = chords(seen.op, seen.point, seen.value, seen.low, seen.high, self.unit)
        if (k, mode) not in self._known:
            seen = self.seen[k]
            self._known[k, mode] = lean(self._known[k, "chord"], seen.op, seen.point, seen.value, mode)
        return self._known[k, mode]
