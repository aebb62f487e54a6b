"""Bounds of every neuron over a batch of parts, made from those of the regions that the parts are cut from.

A *part* is a region, a goal, the signs of some neurons, and a box that may be smaller than the region's. A region is
swept once; its parts inherit the bounds of their parent, and only neurons behind the latest cut are bounded again. Each
bound of a goal is a backward pass (:mod:`isonomy.bounds.backward`) with free variables: the slope below each unstable
ReLU, one multiplier ``β ≥ 0`` per fixed sign, and the split between the region's ball and its box
(:mod:`isonomy.search.steered`).

**Soundness.** A part lies in its parent, so bounds are inherited and intersected, and so is what a pass costs for
rounding. Where ``s z ≥ 0``, adding ``β s z`` to what is maximised only raises the bound; on such a part a ReLU is a
straight line, exactly. All variables are free within their ranges: nothing depends on how they were found.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from isonomy.arithmetic import TINY, UNIT, gamma
from isonomy.bounds.backward import PASS, Backward, numbers, weakly
from isonomy.bounds.interval import Interval
from isonomy.bounds.linear import Sweep
from isonomy.bounds.relaxations import MODES, Lines, Mode, bends, lean_by
from isonomy.bounds.relaxations import lines as chords
from isonomy.networks.graph import Activation, Affine
from isonomy.search.goals import Goals
from isonomy.search.steered import Steered
from isonomy.sets import ConvexSets
from isonomy.similarity.regions import take

KINKED = ("relu", "leaky_relu", "prelu")
"""Activations that are straight on either side of 0, so that fixing a sign helps."""

State = dict[str, Tensor]
"""Named tensors, one row per part (or per region)."""


@dataclass(frozen=True)
class Ready:
    """A network made ready for the search: its activations, and how the numbers of a part are laid out in one row."""

    interval: Interval
    goals: Goals
    activations: dict[int, Activation] = field(default_factory=dict)

    @classmethod
    def of(cls, interval: Interval, goals: Goals) -> Ready:
        """Find the activations of the graph."""
        nodes = enumerate(interval.graph.nodes)
        return cls(interval, goals, {k: node.op for k, node in nodes if isinstance(node.op, Activation)})

    @property
    def last(self) -> int:
        """The node of the margins."""
        return len(self.interval.graph.nodes) - 1

    @property
    def relus(self) -> list[int]:
        """Activations whose lower line may lean."""
        return [k for k, op in self.activations.items() if op.kind == "relu"]

    @property
    def kinks(self) -> list[int]:
        """Activations whose neurons may have fixed signs.

        Not those that read the input itself: backward passes end there, so that a multiplier would be left out. Cutting
        the box fixes their signs.
        """
        nodes = self.interval.graph.nodes
        return [k for k, op in self.activations.items() if op.kind in KINKED and nodes[k].inputs != (0,)]

    def base(self, sweep: Sweep) -> State:
        """What stays the same for all parts of a region."""
        state = {f"point {k}": seen.point for k, seen in sweep.seen.items()}
        state |= {f"value {k}": seen.value for k, seen in sweep.seen.items()}
        nodes = range(len(sweep.graph.nodes))
        rows = len(sweep.centre)
        nothing = torch.zeros(rows, dtype=torch.float64)
        state["cost"] = torch.stack([sweep.backward.cost.get(i, nothing) for i in nodes], 1)
        state["reach"] = torch.stack([sweep.backward.reach(i).expand(rows) for i in nodes], 1)
        state["end"] = sweep.moves[self.last].point
        return state

    def start(self, sweep: Sweep, sets: ConvexSets) -> State:
        """The first state of each region, as one part."""
        rows = len(sweep.centre)
        state: State = {}
        for k, seen in sweep.seen.items():
            state[f"low {k}"], state[f"high {k}"] = seen.low, seen.high
        for k in self.kinks:
            state[f"phase {k}"] = torch.zeros_like(sweep.seen[k].point)
            state[f"beta {k}"] = torch.zeros_like(sweep.seen[k].point)
        for k in self.relus:
            state[f"slope {k}"] = (sweep.lines(k, "chord").slope_above > 0.5).double()
        found = sweep.outputs(MODES)
        state["out low"], state["out high"] = found.low, found.high
        state["box low"], state["box high"] = sets.low.expand(rows, -1), sets.high.expand(rows, -1)
        state["turn"] = torch.zeros(rows, len(sets.root), dtype=torch.float64)
        each = self.goals.columns(torch.zeros(1, dtype=torch.long)).shape[1]
        state["lean"] = torch.zeros(rows, each, dtype=torch.float64)
        return state


class Frame:
    """A batch of parts, ready for backward passes."""

    def __init__(
        self, ready: Ready, goal: Tensor, centre: Tensor, sets: ConvexSets, folds: bool, base: State, state: State
    ) -> None:
        self.ready, self.goal, self.centre, self.base, self.state = ready, goal, centre, base, state
        self.graph, self.rows = ready.interval.graph, len(goal)
        self.sets = sets
        self.shape = Steered(sets, folds)
        self.empty = torch.zeros(self.rows, dtype=torch.bool)
        self.backward = self._passes(self.shape)
        self._known: dict[int, Lines] = {}

    def __getitem__(self, rows: Tensor) -> Frame:
        part = Frame(
            self.ready,
            self.goal[rows],
            self.centre[rows],
            take(self.sets, rows.numpy()),
            self.shape.folds,
            {name: value[rows] for name, value in self.base.items()},
            {name: value[rows] for name, value in self.state.items()},
        )
        part.empty = self.empty[rows]
        part.shape.keep = None if self.shape.keep is None else self.shape.keep[rows]
        return part

    def _passes(self, shape: Steered) -> Backward:
        reach = self.base["reach"]
        backward = Backward(self.graph, shape, weakly(self.lines), lambda i: reach[:, i])
        backward.cost = dict(enumerate(self.base["cost"].unbind(1)))
        return backward

    def lines(self, k: int, mode: Mode = "chord") -> Lines:
        """Parallel lines of an activation; exact where a sign is fixed."""
        if k not in self._known:
            op, point, value = self.ready.activations[k], self.base[f"point {k}"], self.base[f"value {k}"]
            unit = max(UNIT, self.ready.interval.run_unit or 0.0)
            known = chords(op, point, value, self.state[f"low {k}"], self.state[f"high {k}"], unit)
            if op.kind == "relu" and k in self.ready.kinks:
                phase = self.state[f"phase {k}"]
                slope = torch.where(phase == 0, known.slope_above, (phase > 0).double())
                exact = torch.where(phase > 0, point - value, -value)  # one of the two is 0
                above = torch.where(phase == 0, known.above, exact)
                known = Lines(slope, above, slope, torch.where(phase == 0, known.below, exact))
            self._known[k] = known
        return self._known[k]

    def leaning(self, k: int, slopes: State) -> Lines:
        """The lines of an activation with those below a ReLU at the given slopes."""
        known, name = self.lines(k), f"slope {k}"
        if name not in slopes:
            return known
        return lean_by(known, self.base[f"point {k}"], self.base[f"value {k}"], slopes[name])

    def loose(self, k: int) -> Tensor:
        """Where activation ``k`` is not yet a straight line."""
        point = self.base[f"point {k}"]
        bent = bends(self.ready.activations[k], point + self.state[f"low {k}"], point + self.state[f"high {k}"])
        return bent & (self.state[f"phase {k}"] == 0) if k in self.ready.kinks else bent

    def tighten(self, since: Tensor) -> None:
        """Bound again the neurons behind activation ``since`` (rows,), which has just been cut; −1 is the input."""
        self.state = dict(self.state)
        for k in self.ready.activations:
            if k in self.ready.kinks:
                self._restrict(k)
            again = self.loose(k) & (since < k)[:, None] & ~self.empty[:, None]
            before = self.graph.nodes[self.graph.nodes[k].inputs[0]]
            if isinstance(before.op, Affine) and before.inputs == (0,):  # nothing but the box can have changed
                again = again & (since < 0)[:, None]
            rows, columns = again.nonzero(as_tuple=True)
            if not len(rows):
                continue
            low, high = self.state[f"low {k}"].clone(), self.state[f"high {k}"].clone()
            for start in range(0, len(rows), PASS):
                row, column = rows[start : start + PASS], columns[start : start + PASS]
                bottom, top = numbers(*self.backward.neurons(self.graph.nodes[k].inputs[0], row, column)[0])
                low[row, column] = torch.maximum(low[row, column], bottom)
                high[row, column] = torch.minimum(high[row, column], top)
            self._set(k, low, high)
        if self.ready.goals.mixed:
            self._outputs()

    def _restrict(self, k: int) -> None:
        """Fixed signs leave one side of the bounds."""
        point, phase = self.base[f"point {k}"], self.state[f"phase {k}"]
        room = (8 * UNIT) * point.abs() + TINY
        low, high = self.state[f"low {k}"], self.state[f"high {k}"]
        low = torch.where(phase > 0, torch.maximum(low, -point - room), low)
        high = torch.where(phase < 0, torch.minimum(high, -point + room), high)
        self._set(k, low, high)

    def _set(self, k: int, low: Tensor, high: Tensor) -> None:
        self.empty = self.empty | (low > high).any(1)
        self.state[f"low {k}"], self.state[f"high {k}"] = low, torch.maximum(low, high)
        self._known.pop(k, None)

    def _outputs(self) -> None:
        """Bounds of the margins that the goals look at."""
        columns = self.ready.goals.columns(self.goal)
        rows = torch.arange(self.rows).repeat_interleave(columns.shape[1])
        one = torch.zeros(len(rows), self.graph.output_width, dtype=torch.float64)
        one[torch.arange(len(rows)), columns.reshape(-1)] = 1.0
        bottom = -self.backward.upper(self.ready.last, -one, rows, self.lines)
        bottom, top = numbers(bottom, self.backward.upper(self.ready.last, one, rows, self.lines))
        low, high = self.state["out low"], self.state["out high"]
        low = low.scatter(1, columns, torch.maximum(low.gather(1, columns), bottom.reshape(columns.shape)))
        high = high.scatter(1, columns, torch.minimum(high.gather(1, columns), top.reshape(columns.shape)))
        self.empty = self.empty | (low > high).any(1)
        self.state["out low"], self.state["out high"] = low, torch.maximum(low, high)

    def form(self, lean: Tensor) -> tuple[Tensor, Tensor]:
        """The goals as linear functions of the margins' *moves*, and constants."""
        end = self.base["end"]
        size = (4 * UNIT) * end.abs()
        low, high = end + self.state["out low"], end + self.state["out high"]
        low, high = low - size - (4 * UNIT) * low.abs(), high + size + (4 * UNIT) * high.abs()
        one, constant = self.ready.goals.form(self.goal, low, high, lean)
        at = (one * end).sum(1) + (one.abs() * end.abs()).sum(1) * (2 * gamma(one.shape[1] + 8))
        return one, outward(constant, at)

    def by_ranges(self) -> Tensor:
        """Bounds of the goals from those of the margins alone."""
        end, low, high = self.base["end"], self.state["out low"], self.state["out high"]
        room = (4 * UNIT) * (end.abs() + torch.maximum(low.abs(), high.abs()))
        return self.ready.goals.ranges(self.goal, end + low - room, end + high + room)

    def bound(self, free: State, met: dict[int, Tensor] | None = None) -> Tensor:
        """Upper bounds of the goals with these slopes in [0, 1], multipliers ≥ 0, splits and leanings."""
        one, constant = self.form(free["lean"])
        extra: dict[int, Tensor] = {}
        for k in self.ready.kinks:
            if f"beta {k}" not in free:
                continue
            source = self.graph.nodes[k].inputs[0]
            term = free[f"beta {k}"] * self.state[f"phase {k}"]
            extra[source] = extra[source] + term if source in extra else term
            point = self.base[f"point {k}"]
            # β s z = β s point + β s Δ; the product with the point is rounded.
            at = (term * point).sum(1) + (term.abs() * point.abs()).sum(1) * (2 * gamma(term.shape[1] + 16))
            constant = outward(constant, at)
        self.shape.turn = free.get("turn")
        moved = self.backward.upper(self.ready.last, one, slice(None), lambda k: self.leaning(k, free), extra, met)
        return outward(constant, moved)


def outward(one: Tensor, other: Tensor) -> Tensor:
    """The sum of two upper bounds, rounded up."""
    return one + other + (one.abs() + other.abs()) * gamma(4)
