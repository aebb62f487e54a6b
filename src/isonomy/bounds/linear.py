"""The linear tier: backward linear bounds, concretised by the support function of the region.

Problem: bound ``c·Δ`` from above, where ``Δ`` is how far a node moves from the run at the centre and ``c`` a row of
coefficients. Going backward through the graph, an affine layer maps ``c`` to ``cW`` and an activation replaces ``Δ`` by a
line above it where the coefficient is positive and a line below it where it is negative
(:mod:`isonomy.bounds.relaxations`). At the input what is left is ``w·v``, whose maximum over the region is the support
function. Working with moves, biases drop out and stable neurons leave no constants.

The sweep goes forward: the interval tier bounds each layer first; of the neurons that it leaves unstable, and only of
these, the bounds are tightened by a backward pass (with parallel lines, so that one pass serves both sides) before the
next layer is looked at. The outputs get one pass for every choice of lower slopes, and the best counts.

**Soundness.** Any slopes will do. Each product ``cW`` is rounded; the exact linear function differs from the stored one by
at most ``γ|c||W|`` per coordinate, times how far the layer below can move. That, the rounding of the run and the slack of
merged weights are covered by one number per node and region, times ``‖c‖₂`` (Cauchy and Schwarz).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from isonomy.arithmetic import UNIT, gamma
from isonomy.bounds.activations import doubt, shape
from isonomy.bounds.interval import STEPS, Enclosure, Interval, Moves
from isonomy.bounds.relaxations import MODES, Lines, Mode, lean, lines
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Select
from isonomy.sets import ConvexSets, Shape, norm_upper

PASS = 2048
"""Rows of coefficients in one backward pass: small enough to stay in cache, large enough for fast products."""


class Linear:
    """A graph made ready for the linear tier."""

    def __init__(self, graph: Graph, *, float32_run: bool = False) -> None:
        self.graph = graph
        self.interval = Interval(graph, float32_run=float32_run)

    def enclose(self, centre: Tensor, sets: Shape, modes: tuple[Mode, ...] = MODES) -> Enclosure:
        """Enclose the outputs over ``centre + sets``, never worse than the interval tier."""
        sweep = _Sweep(self.interval, centre, sets)
        found = sweep.run()
        last = len(self.graph.nodes) - 1
        rows, width = found.point.shape
        owner = torch.arange(rows).repeat_interleave(width)
        identity = torch.eye(width, dtype=torch.float64).repeat(rows, 1)
        low, high = found.low.clone(), found.high.clone()
        for start in range(0, len(owner), PASS):
            part = slice(start, start + PASS)
            best_low, best_high = low.reshape(-1)[part], high.reshape(-1)[part]
            for mode in modes if sweep.lines else ("chord",):
                bottom, top = sweep.both_sides(last, identity[part], owner[part], mode)
                best_low, best_high = torch.maximum(best_low, bottom), torch.minimum(best_high, top)
            low.reshape(-1)[part], high.reshape(-1)[part] = best_low, best_high
        return Enclosure(found.point, found.error, low, high)


@dataclass(frozen=True)
class _Seen:
    """What the backward pass needs of an activation: its moves before, to make lines for any choice of slopes."""

    op: Activation
    point: Tensor
    value: Tensor
    low: Tensor
    high: Tensor


class _Sweep:
    """One batch of regions: forward with the interval tier, backward wherever a neuron is left unstable."""

    def __init__(self, interval: Interval, centre: Tensor, sets: Shape) -> None:
        self.interval, self.graph, self.centre, self.sets = interval, interval.graph, centre, sets
        self.unit = max(UNIT, interval.run_unit or 0.0)
        self.moves: dict[int, Moves] = {}
        self.seen: dict[int, _Seen] = {}
        self.lines: dict[int, dict[Mode, Lines]] = {}
        self.constants: dict[int, tuple[Tensor, Tensor]] = {}
        self.cost: dict[int, Tensor] = {}  # per node and region: what ‖c‖₂ is multiplied with
        self.ground = _Ground(sets)

    def run(self) -> Enclosure:
        nodes = self.graph.nodes
        for i, node in enumerate(nodes):
            if isinstance(node.op, Input):
                continue
            if isinstance(node.op, Activation):
                self._tighten(node.inputs[0], node.op)
            read: list[Moves | None] = [self.moves.get(j) for j in range(i)]
            self.moves[i] = self.interval._node(i, node, self.centre, self.sets, read)
            if isinstance(node.op, Activation):
                self._remember(i, node.op, node.inputs[0])
            elif isinstance(node.op, Affine):
                self.cost[i] = self._affine_cost(i, node.op, node.inputs[0])
        if len(nodes) == 1:
            return self.interval._run(self.centre, self.sets)
        return self.interval._finish(self.moves[len(nodes) - 1])

    # -- forward ---------------------------------------------------------------------------------------------

    def _extremes(self, i: int) -> tuple[Tensor, Tensor]:
        """The lowest and highest move of a node, in float64."""
        moves = self.interval._input(self.centre, self.sets) if i == 0 else self.moves[i]
        shift, spread = moves.shift.double(), moves.spread.double()
        spread = spread + (STEPS * self.interval.unit) * (spread + shift.abs())
        return shift - spread, shift + spread

    def _tighten(self, i: int, op: Activation) -> None:
        """Backward bounds for the neurons of node ``i`` that its activation does not leave on a straight piece."""
        node = self.graph.nodes[i]
        if not self.lines or i == 0 or (isinstance(node.op, Affine) and node.inputs == (0,)):
            return  # nothing has been relaxed yet: the bounds are exact
        point = self.moves[i].point
        low, high = (side.expand(point.shape).clone() for side in self._extremes(i))
        loose = torch.isfinite(low) & torch.isfinite(high) & _bends(op, point + low, point + high)
        rows, columns = loose.nonzero(as_tuple=True)
        for start in range(0, len(rows), PASS):
            row, column = rows[start : start + PASS], columns[start : start + PASS]
            bottom, top = self._neurons(i, row, column)
            low[row, column] = torch.maximum(low[row, column], bottom)
            high[row, column] = torch.minimum(high[row, column], top)
        moves = self.interval._in_working(point, self.moves[i].error, (low + high) / 2, (high - low) / 2)
        self.moves[i] = replace(moves, around=self.moves[i].around and bool(((low <= 0) & (high >= 0)).all()))

    def _remember(self, i: int, op: Activation, source: int) -> None:
        low, high = self._extremes(source)
        point = self.centre if source == 0 else self.moves[source].point
        self.seen[i] = _Seen(op, point, self.moves[i].point, low.expand(point.shape), high.expand(point.shape))
        self.lines[i] = {}
        most = torch.maximum(low.abs(), high.abs())
        steep = shape(op).steepest
        grow = 4 * gamma(point.shape[1] + 16) * steep
        size = norm_upper(most.expand(point.shape), 2) + norm_upper(self._extremes(i)[0].expand(point.shape), 2)
        size = size + norm_upper(self._extremes(i)[1].expand(point.shape), 2)
        extra = norm_upper(doubt(op, point, self.moves[i].point, self.unit), 2)
        self.cost[i] = (size * grow + extra * 2).expand(len(point))

    def _affine_cost(self, i: int, op: Affine, source: int) -> Tensor:
        layer = self.interval.prepared[i]
        point = self.centre if source == 0 else self.moves[source].point
        size = norm_upper(point, 2)
        if source == 0:
            reads = layer.magnitude.any(0)
            most = self.sets.extent[:, reads].expand(-1, int(reads.sum()))
        else:
            low, high = self._extremes(source)
            most = torch.maximum(low.abs(), high.abs())
        reach = norm_upper(most, 2)
        cost = layer.rounding_norm * size + layer.constant_norm + layer.slack_norm * (size + reach)
        frobenius = norm_upper(op.weight.reshape(1, -1), 2)[0]
        cost = cost + (4 * gamma(op.width_out + op.width_in + 16)) * frobenius * reach
        if self.interval.run_unit is not None:
            full = torch.nan_to_num(self.sets.extent, posinf=0.0) if source == 0 else most
            cost = cost + norm_upper(self.interval._run_error(i, op, point.abs() + full), 2)
        return (cost * (1 + gamma(16))).expand(len(point))

    # -- backward --------------------------------------------------------------------------------------------

    def both_sides(self, i: int, rows: Tensor, owner: Tensor, mode: Mode) -> tuple[Tensor, Tensor]:
        """The smallest and largest value of ``rows · Δ_i`` over the regions ``owner``."""
        if mode == "chord":
            return self._parallel(i, rows, owner)
        return -self._upper(i, -rows, owner, mode), self._upper(i, rows, owner, mode)

    def _upper(self, i: int, rows: Tensor, owner: Tensor, mode: Mode) -> Tensor:
        pending, constant = {i: rows}, rows.new_zeros(len(rows))
        ground = self.ground.start()
        for k in range(i, 0, -1):
            c = pending.pop(k, None)
            if c is None:
                continue
            node = self.graph.nodes[k]
            if isinstance(node.op, Activation):
                known = self._lines(k, mode)
                up, down = c.clamp(min=0), c.clamp(max=0)
                constant = constant + (up * known.above[owner] + down * known.below[owner]).sum(1)
                constant = constant + norm_upper(c, 2) * self.cost[k][owner]
                self._pass(
                    pending, node.inputs[0], up * known.slope_above[owner] + down * known.slope_below[owner], ground
                )
            else:
                constant = constant + self._linear_node(k, c, owner, pending, ground)
        constant = constant + constant.abs() * gamma(len(self.graph.nodes) + 16)
        return constant + ground.support(owner)

    def _parallel(self, i: int, rows: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
        """Both sides at once: with parallel lines the coefficients are the same, only the constants differ."""
        return self._descend({i: rows}, owner, rows.new_zeros(len(rows)), rows.new_zeros(len(rows)))

    def _neurons(self, i: int, row: Tensor, column: Tensor) -> tuple[Tensor, Tensor]:
        """Both sides of single neurons ``column`` of node ``i``.

        The first layer that they meet needs no product: its coefficients are rows of the weight. Nor do the
        constants of the activation below it: they are entries of one product for all neurons of a region.
        """
        node = self.graph.nodes[i]
        if not isinstance(node.op, Affine):
            one = torch.zeros(len(row), self.graph.width(i), dtype=torch.float64)
            one[torch.arange(len(row)), column] = 1.0
            return self._parallel(i, one, row)
        c, (below,) = node.op.weight[column], node.inputs
        size = norm_upper(node.op.weight, 2)[column]
        half = self.cost[i][row]
        if not isinstance(self.graph.nodes[below].op, Activation):
            return self._descend({below: c}, row, torch.zeros_like(half), half)
        if i not in self.constants:
            known, weight = self._lines(below, "chord"), node.op.weight
            middle = (known.above + known.below) @ weight.T / 2
            self.constants[i] = middle, (known.above - known.below) @ weight.abs().T / 2
        middles, halves = self.constants[i]
        half = half + halves[row, column] + size * self.cost[below][row]
        c = c * self._lines(below, "chord").slope_above[row]
        return self._descend({self.graph.nodes[below].inputs[0]: c}, row, middles[row, column], half)

    def _descend(
        self, pending: dict[int, Tensor], owner: Tensor, middle: Tensor, half: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Carry coefficients down to the input along parallel lines, from constants ``middle ± half``."""
        ground = self.ground.start()
        if 0 in pending:
            ground.land(pending.pop(0), None)
        for k in range(max(pending, default=0), 0, -1):
            c = pending.pop(k, None)
            if c is None:
                continue
            node = self.graph.nodes[k]
            if isinstance(node.op, Activation):
                known = self._lines(k, "chord")
                above, below = known.above[owner], known.below[owner]
                middle = middle + (c * (above + below)).sum(1) / 2
                half = half + (c.abs() * (above - below)).sum(1) / 2 + norm_upper(c, 2) * self.cost[k][owner]
                self._pass(pending, node.inputs[0], c * known.slope_above[owner], ground)
            else:
                half = half + self._linear_node(k, c, owner, pending, ground)
        half = half + (middle.abs() + half) * gamma(len(self.graph.nodes) + 16)
        return middle - half - ground.support(owner, negative=True), middle + half + ground.support(owner)

    def _linear_node(self, k: int, c: Tensor, owner: Tensor, pending: dict[int, Tensor], ground: _Landing) -> Tensor:
        """Pass coefficients through a node without lines; what that costs."""
        node = self.graph.nodes[k]
        match node.op:
            case Affine() if node.inputs == (0,):
                ground.land(c, node.op)
                return norm_upper(c, 2) * self.cost[k][owner]
            case Affine(weight=weight):
                self._pass(pending, node.inputs[0], c @ weight, ground)
                return norm_upper(c, 2) * self.cost[k][owner]
            case Add():
                for j in node.inputs:
                    self._pass(pending, j, c, ground)
                terms = [norm_upper(torch.maximum(*map(torch.abs, self._extremes(j))), 2) for j in node.inputs]
                points = [norm_upper(self.centre if j == 0 else self.moves[j].point, 2) for j in node.inputs]
                cost = torch.stack([term.expand(len(self.centre)) for term in (*terms, *points)]).sum(0)
                return norm_upper(c, 2) * (cost * (8 * self.unit * len(node.inputs)))[owner]
            case Concat():
                start = 0
                for j in node.inputs:
                    width = self.graph.width(j)
                    self._pass(pending, j, c[:, start : start + width], ground)
                    start += width
            case Select(index=index):
                source = node.inputs[0]
                spread_out = c.new_zeros(len(c), self.graph.width(source))
                self._pass(pending, source, spread_out.index_add_(1, torch.tensor(index), c), ground)
                repeats = max(index.count(j) for j in set(index))
                if repeats > 1:
                    most = norm_upper(torch.maximum(*map(torch.abs, self._extremes(source))), 2)
                    return norm_upper(c, 2) * (most * gamma(2 * repeats) * repeats).expand(len(self.centre))[owner]
        return c.new_zeros(len(c))

    def _pass(self, pending: dict[int, Tensor], j: int, c: Tensor, ground: _Landing) -> None:
        if j == 0:
            ground.land(c, None)
        elif j in pending:
            # Adding up coefficients of several readers rounds once more, which every cost has room for.
            pending[j] = pending[j] + c
        else:
            pending[j] = c

    def _lines(self, k: int, mode: Mode) -> Lines:
        known, seen = self.lines[k], self.seen[k]
        if "chord" not in known:
            known["chord"] = lines(seen.op, seen.point, seen.value, seen.low, seen.high, self.unit)
        if mode not in known:
            known[mode] = lean(known["chord"], seen.op, seen.point, seen.value, mode)
        return known[mode]


class _Ground:
    """Where backward passes end: the input, and the support function of the regions there."""

    def __init__(self, sets: Shape) -> None:
        self.sets = sets
        extent = sets.extent
        blocks = isinstance(sets, ConvexSets) and sets.blocks
        whole = sets.rows == 1 or bool(blocks)
        self.moving = torch.ones(extent.shape[1], dtype=torch.bool) if whole else (extent > 0).any(0)
        self.folds = sets.folds
        self.known: dict[int, tuple[Tensor, Tensor]] = {}

    def start(self) -> _Landing:
        """A new backward pass."""
        return _Landing(self)

    def columns(self, op: Affine | None) -> tuple[Tensor, Tensor]:
        """What ``c`` is multiplied with, and what that costs per unit of ‖c‖₂ (per coordinate, or in all if folded)."""
        key = id(op)
        if key not in self.known:
            weight = torch.eye(len(self.moving), dtype=torch.float64) if op is None else op.weight
            if self.folds:
                self.known[key] = self.sets.fold(weight)
            else:
                weight = weight[:, self.moving].contiguous()
                self.known[key] = weight, norm_upper(weight.T, 2) * (2 * gamma(len(weight) + 16))
        return self.known[key]


class _Landing:
    """What one backward pass has brought down to the input."""

    def __init__(self, ground: _Ground) -> None:
        self.ground = ground
        self.total: Tensor | None = None
        self.doubt: Tensor

    def land(self, c: Tensor, op: Affine | None) -> None:
        """Add ``c W`` (``c`` itself when there is no layer)."""
        weight, cost = self.ground.columns(op)
        size = norm_upper(c, 2)
        doubt = size * cost if self.ground.folds else size[:, None] * cost
        if self.total is None:
            self.total, self.doubt = c @ weight, doubt
            return
        before = self.total
        self.total = before + c @ weight
        # Sums of several landings round once more, relative to both parts.
        more = (before.abs() + self.total.abs()) * (4 * UNIT)
        self.doubt = self.doubt + doubt + (self.ground.sets.folded_support(more) if self.ground.folds else more)

    def support(self, owner: Tensor, negative: bool = False) -> Tensor:
        """The largest value of the landed coefficients over the regions of their owners."""
        assert self.total is not None
        sets = self.ground.sets
        if self.ground.folds:  # symmetric, so the sign does not matter
            return (sets.folded_support(self.total) + self.doubt) * (1 + gamma(8))
        return sets.support_of(-self.total if negative else self.total, self.doubt, owner, self.ground.moving)


def _bends(op: Activation, first: Tensor, last: Tensor) -> Tensor:
    """Where an activation is not a straight line between two pre-activations."""
    if op.kind in ("relu", "leaky_relu", "prelu"):
        return (first < 0) & (last > 0)
    if op.kind == "clip":
        low, high = op.parameters
        return ((first < low) & (last > low)) | ((first < high) & (last > high))
    return last > first
