"""Two runs over regions so wide that many neurons are unstable.

Problem: as in :mod:`isonomy.bounds.relational`, for people far from where the network is straight. Bounds neuron by
neuron then cost most and say least. Here the moves of the near person and the difference of the two people are each
carried through the network as a whole (:mod:`isonomy.bounds.joint`), without a backward pass for any single neuron;
the far person is the near one plus the difference. Smaller regions around the same centres come almost for nothing:
everything about the near person's moves shrinks with the ellipsoid that holds them, neurons become stable again, and
what all unstable ones can do together is counted over the fewer that are left.

**Soundness.** Ranges are intersections of several that hold. Slopes over a smaller region are kept within those over
the larger one, so that what was bounded with these still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isonomy.arithmetic import TINY, UNIT, gamma
from isonomy.bounds.activations import chord_slopes, shape, slopes
from isonomy.bounds.backward import Backward, Owner, numbers
from isonomy.bounds.interval import Enclosure, Interval
from isonomy.bounds.joint import Cover, Joint
from isonomy.bounds.linear import Ranges
from isonomy.bounds.relaxations import Lines, Mode, bends
from isonomy.networks.graph import Activation, Affine
from isonomy.sets import Shape

Sides = tuple[Tensor, Tensor]

SHARE = 0.1
"""Many neurons: from this share on, looking at them one by one is dearer and not better."""


@dataclass(frozen=True)
class Gap:
    """Outputs of the near and of the far person, and the difference far − near, over a batch of regions."""

    near: Enclosure
    far: Enclosure
    low: Tensor
    high: Tensor


class Crowd:
    """One batch of regions: somebody ``near`` the centre, somebody ``far``, and the difference ``between`` them."""

    def __init__(
        self,
        interval: Interval,
        norms: dict[int, Tensor],
        centre: Tensor,
        near: tuple[Shape, Cover],
        far: Shape,
        between: tuple[Shape, Cover],
    ) -> None:
        self.interval, self.graph, self.centre = interval, interval.graph, centre
        self.last = len(self.graph.nodes) - 1
        self.joints = [Joint(self.graph, cover, len(centre), interval.working) for _, cover in (near, between)]
        self.near, self.far = Ranges(interval, centre, near[0]), Ranges(interval, centre, far)
        self.slopes: list[dict[int, Sides]] = [{}, {}]  # of chords from the centre, and of chords anywhere
        for i, node in enumerate(self.graph.nodes):
            if isinstance(node.op, Activation):
                (source,) = node.inputs
                sides = self._closer(source, self.near.extremes(source), self.far.extremes(source), 1.0)
                self.near.narrow(source, *sides[0])
                self.far.narrow(source, *sides[1])
                self._add_slopes(self.slopes, i, node.op, self.near.extremes(source), self.far.extremes(source))
            if i:
                self.near.step(i)
                self.far.step(i)
            if i < self.last:
                for joint, known in zip(self.joints, self.slopes, strict=True):
                    joint.step(i, norms.get(i), self._merged(joint, i), known.get(i))
        self.backward = [
            Backward(self.graph, sets, _no_lines, joint.reach)
            for (sets, _), joint in zip((near, between), self.joints, strict=True)
        ]
        for backward, joint in zip(self.backward, self.joints, strict=True):
            backward.cost = {i: self._cost(joint, i) for i in range(1, len(self.graph.nodes))}

    def gaps(self, within: Sequence[tuple[Shape, Shape]]) -> list[Gap]:
        """Over the regions, and over smaller ones around the same centres."""
        inside, outside = self.near.finish(), self.far.finish()
        room = (8 * UNIT) * (inside.low.abs() + inside.high.abs() + outside.low.abs() + outside.high.abs()) + TINY
        apart = outside.low - inside.high - room, outside.high - inside.low + room
        first = self._closer_gap(Gap(inside, outside, *apart), self.slopes, 1.0, None)
        return [first, *(self._smaller(first, near, far) for near, far in within)]

    def _smaller(self, gap: Gap, near: Shape, far: Shape) -> Gap:
        """Outputs over smaller regions; layers that only affine ones precede are looked at again, others shrink."""
        share = self._share(near)
        one, other = Ranges(self.interval, self.centre, near), Ranges(self.interval, self.centre, far)
        around: list[dict[int, Sides]] = [{}, {}]
        for i, node in enumerate(self.graph.nodes):
            if isinstance(node.op, Activation):
                (source,) = node.inputs
                old = [
                    (again if source in again.moves else known).extremes(source)
                    for again, known in ((one, self.near), (other, self.far))
                ]
                self._add_slopes(around, i, node.op, *self._closer(source, old[0], old[1], share))
                for run, large in enumerate(self.slopes):
                    (least, most), (lower, higher) = around[run][i], large[i]
                    around[run][i] = torch.maximum(least, lower), torch.minimum(most, higher)
            elif i and all(j in one.moves for j in node.inputs):
                one.step(i)
                other.step(i)
        return self._closer_gap(gap, around, share, near)

    def _closer_gap(self, gap: Gap, around: list[dict[int, Sides]], share: float, within: Shape | None) -> Gap:
        """A backward pass for the near person, one for the difference; the far person is the sum of both."""
        near, far = gap.near, gap.far
        error = near.error[:, None] * (1 + 4 * UNIT)  # moves are those from the computed run
        low, high = self._outputs(0, (near.low - error, near.high + error), around[0], share, within)
        low, high = torch.maximum(near.low, low - error), torch.minimum(near.high, high + error)
        near = replace(near, low=low, high=torch.maximum(low, high))
        bottom, top = self._outputs(1, (gap.low, gap.high), around[1], 1.0, None)
        room = (8 * UNIT) * (low.abs() + high.abs() + bottom.abs() + top.abs()) + TINY
        low, high = torch.maximum(far.low, low + bottom - room), torch.minimum(far.high, high + top + room)
        return Gap(near, replace(far, low=low, high=torch.maximum(low, high)), bottom, top)

    def _outputs(self, run: int, known: Sides, around: dict[int, Sides], share: float, within: Shape | None) -> Sides:
        """Differences of the outputs: near from the centre (``run`` 0), far from near (1)."""
        joint = self.joints[run]
        lines = {k: joint.lines(k, *sides) for k, sides in around.items()}

        def slack(k: int, c: Tensor, owner: Owner) -> Tensor:
            middle, half = joint.limits(self.graph.nodes[k].inputs[0])
            return joint.slack(k, c, owner, (middle.abs() + half * share) * (1 + 4 * UNIT), lines[k][1], share)

        return self.backward[run].outputs_jointly(numbers(*known), lambda k: lines[k][0], slack, within)

    def _closer(self, i: int, near: Sides, far: Sides, share: float) -> tuple[Sides, Sides]:
        """Better ranges of node ``i`` for both people, from what is known of all moves together."""
        middle, half = self.joints[0].limits(i)
        half = (half * share + self.near.moves[i].error[:, None]) * (1 + 4 * UNIT)
        low, high = torch.maximum(near[0], middle - half), torch.minimum(near[1], middle + half)
        high = torch.maximum(low, high)
        middle, half = self.joints[1].limits(i)
        half = half + (8 * UNIT) * (low.abs() + high.abs() + middle.abs() + half)
        bottom, top = torch.maximum(far[0], low + middle - half), torch.minimum(far[1], high + middle + half)
        return (low, high), (bottom, torch.maximum(bottom, top))

    def _add_slopes(self, known: list[dict[int, Sides]], k: int, op: Activation, near: Sides, far: Sides) -> None:
        moves = self.near.moves[self.graph.nodes[k].inputs[0]]
        low, high = torch.minimum(near[0], far[0]), torch.maximum(near[1], far[1])
        room = (4 * UNIT) * (moves.point.abs() + low.abs() + high.abs()) + TINY
        known[0][k] = chord_slopes(op, moves.point, moves.error[:, None], *near)
        known[1][k] = slopes(op, moves.point + low - room, moves.point + high + room)

    def _share(self, near: Shape) -> float:
        """How large the ellipsoid of a smaller region is, compared with that of the large one; 1 where unclear."""
        cover, large = Cover.of(near), self.joints[0].cover
        if cover is None or bool(large.middle.any()) or bool(cover.middle.any()):
            return 1.0
        if not torch.equal(cover.factor, large.factor):
            return 1.0
        share = float(torch.maximum((cover.size / large.size).amax(), (cover.error / large.error).amax()))
        return min(1.0, share * (1 + 8 * UNIT)) if share == share else 1.0

    def _merged(self, joint: Joint, i: int) -> Tensor:
        """What merged weights add to every difference of a node, in 2-norm."""
        node = self.graph.nodes[i]
        if not isinstance(node.op, Affine) or not self.interval.prepared[i].merged:
            return torch.zeros(len(self.centre), dtype=torch.float64)
        return self.interval.prepared[i].slack_norm * joint.reach(node.inputs[0]) * (1 + 4 * UNIT)

    def _cost(self, joint: Joint, i: int) -> Tensor:
        """What a node adds to a backward pass over differences, per unit of the coefficients' 2-norm."""
        node = self.graph.nodes[i]
        reach = torch.stack([joint.reach(j) for j in node.inputs]).sum(0)
        cost = self._merged(joint, i)
        if isinstance(node.op, Affine):
            grow = 4 * gamma(node.op.width_out + node.op.width_in + 16)
            cost = cost + grow * self.interval.prepared[i].frobenius * reach
        elif isinstance(node.op, Activation):
            cost = (reach * shape(node.op).steepest + joint.reach(i)) * (4 * gamma(self.graph.width(i) + 16))
        else:
            cost = reach * (8 * UNIT * len(node.inputs))
        return cost * (1 + gamma(16))


def crowded(interval: Interval, centre: Tensor, far: Shape) -> bool:
    """Are many neurons of the first activation unstable?"""
    ranges = Ranges(interval, centre, far)
    for i, node in enumerate(interval.graph.nodes):
        if isinstance(node.op, Activation):
            return bool(bends(node.op, *ranges.values(node.inputs[0])).double().mean() > SHARE)
        if i:
            ranges.step(i)
    return False


def _no_lines(k: int, mode: Mode) -> Lines:
    raise AssertionError("all neurons are judged together")
