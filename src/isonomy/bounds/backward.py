"""Backward passes: a linear function of a node's moves, carried down to the input and bounded there.

Coefficients ``c`` of a node become ``cW`` below an affine layer; an activation replaces its move by a line above it
where the coefficient is positive and a line below it where it is negative. At the input what is left is ``w·v``, whose
maximum over the region is the support function.

**Soundness.** Any lines that are valid will do. Each product ``cW`` is rounded; the exact function differs from the
stored one by at most ``γ|c||W|`` per coordinate, times how far the layer below can move. That, and whatever else a node
owes, is one number ``cost`` per node and region, to be multiplied with ``‖c‖₂`` (Cauchy and Schwarz).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar
from weakref import WeakMethod

import torch
from torch import Tensor

from isonomy.arithmetic import UNIT, UNIT32, gamma
from isonomy.bounds.relaxations import Lines, Mode
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Select
from isonomy.sets import ConvexSets, Shape, norm_upper

Owner = Tensor | slice
"""Whose regions rows of coefficients are about: one index per row, or the regions of a slice, one row each."""

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")

PASS = 2048
"""Rows of coefficients in one backward pass: small enough to stay in cache, large enough for fast products."""

FLOOR = 2.0**-120
"""More than all that a product in float32 can lose by underflow."""


class Backward:
    """Backward passes over one batch of regions.

    ``lines(k, mode)`` are the lines of activation ``k``, ``reach(k)`` (regions,) bounds the 2-norm of its moves (and of
    what a float run rounds there), ``cost`` is filled by the owner for affine layers and activations as they are met.
    ``single(i)``, where given, is the weight of an affine node in float32, for passes that may lose a few parts in 10⁴.
    Owners give methods of their own :func:`weakly`.
    """

    def __init__(
        self,
        graph: Graph,
        sets: Shape,
        lines: Callable[[int, Mode], Lines],
        reach: Callable[[int], Tensor],
        single: Callable[[int], Tensor] | None = None,
    ) -> None:
        self.graph, self.lines, self.reach, self.single = graph, lines, reach, single
        self.cost: dict[int, Tensor] = {}
        self.ground = _Ground(sets)
        self.fronts: dict[int, _Front] = {}

    def outputs(
        self, known: Sequence[tuple[Tensor, Tensor]], modes: tuple[Mode, ...], within: Sequence[Shape] = ()
    ) -> list[tuple[Tensor, Tensor]]:
        """Enclosures of the last node's moves, over the regions and over every batch of parts ``within`` them.

        ``known`` ones, one for each, are improved by a pass for every mode. A batch of parts costs no more than a
        support function: lines that hold over a region hold over its parts.
        """
        last, (rows, width) = len(self.graph.nodes) - 1, known[0][0].shape
        found = [numbers(*sides) for sides in known]
        for column, one in enumerate(torch.eye(width, dtype=torch.float64)):
            for start in range(0, rows, PASS):
                part = slice(start, min(start + PASS, rows))
                ones = one.expand(part.stop - part.start, width)
                for mode in modes:
                    for (bottom, top), sides in zip(
                        found, self.both_sides(last, ones, part, mode, within), strict=True
                    ):
                        lowest, highest = numbers(*sides)
                        bottom[part, column] = torch.maximum(bottom[part, column], lowest)
                        top[part, column] = torch.minimum(top[part, column], highest)
        return found

    def both_sides(
        self, i: int, rows: Tensor, owner: Owner, mode: Mode, within: Sequence[Shape] = ()
    ) -> list[tuple[Tensor, Tensor]]:
        """The smallest and largest value of ``rows · Δ_i`` over the regions ``owner``, and over parts of them."""
        if mode == "chord":
            none = rows.new_zeros(len(rows))
            return self._sides(*self._descend({i: rows}, owner, none, none), owner, within)
        shapes = (self.ground.sets, *within)
        passes = [self._down(i, sign * rows, owner, lambda k: self.lines(k, mode), {}, None) for sign in (-1.0, 1.0)]
        down, up = ([constant + ground.support(owner, sets) for sets in shapes] for constant, ground in passes)
        return [(-lowest, highest) for lowest, highest in zip(down, up, strict=True)]

    def neurons(self, i: int, row: Tensor, column: Tensor, within: Sequence[Shape] = ()) -> list[tuple[Tensor, Tensor]]:
        """Both sides of single neurons ``column`` of node ``i``, for the regions ``row`` and parts ``within`` them.

        The first layer that they meet needs no product: its coefficients are rows of the weight. Nor do the
        constants of the activation below it: they are entries of one product for all neurons of a region.
        """
        node = self.graph.nodes[i]
        if not isinstance(node.op, Affine):
            one = torch.zeros(len(row), self.graph.width(i), dtype=torch.float64)
            one[torch.arange(len(row)), column] = 1.0
            return self.both_sides(i, one, row, "chord", within)
        (below,) = node.inputs
        half = self.cost[i][row]
        if not isinstance(self.graph.nodes[below].op, Activation):
            landed = self._descend({below: node.op.weight[column]}, row, torch.zeros_like(half), half)
            return self._sides(*landed, row, within)
        if i not in self.fronts:
            self.fronts[i] = self._front(i, node.op, below)
        front, (source,) = self.fronts[i], self.graph.nodes[below].inputs
        half = half + front.half[row, column] + front.norms[column] * self.cost[below][row]
        middle = front.middle[row, column]
        c = torch.index_select(front.weight, 0, column).mul_(torch.index_select(front.slope, 0, row))
        if front.weight.dtype == torch.float64:
            return self._sides(*self._descend({source: c}, row, middle, half), row, within)
        first = self.graph.nodes[source].op
        assert isinstance(first, Affine)
        size, ground = front.norms[column] * front.steepest, _Landing(self.ground)
        ground.land_single(c, first, size)
        return self._sides(middle, half + size * self.cost[source][row], ground, row, within)

    def _front(self, i: int, op: Affine, below: int) -> _Front:
        """What single neurons of layer ``i``, behind activation ``below``, have in common."""
        known, weight, slope = self.lines(below, "chord"), op.weight, self.lines(below, "chord").slope_above
        middle = (known.above + known.below) @ weight.T / 2
        half, norms = (known.above - known.below) @ weight.abs().T / 2, norm_upper(weight, 2)
        steepest = slope.abs().amax() * (1 + 4 * UNIT)
        source = self.graph.nodes[self.graph.nodes[below].inputs[0]]
        if self.single is not None and isinstance(source.op, Affine) and source.inputs == (0,):
            weight, slope = self.single(i), slope.float()
        return _Front(weight, slope, middle, half, norms, steepest)

    def upper(
        self,
        i: int,
        rows: Tensor,
        owner: Owner,
        lines: Callable[[int], Lines],
        extra: dict[int, Tensor] | None = None,
        met: dict[int, Tensor] | None = None,
    ) -> Tensor:
        """The largest value of ``rows · Δ_i`` over the regions ``owner``, with these lines of each activation.

        ``extra`` adds coefficients at nodes on the way; ``met`` is filled with the coefficients met at activations.
        """
        constant, ground = self._down(i, rows, owner, lines, extra or {}, met)
        return constant + ground.support(owner, self.ground.sets)

    def form(self, i: int, rows: Tensor, owner: Owner, lines: Callable[[int], Lines]) -> tuple[Tensor, Tensor]:
        """Coefficients of the input's moves and a constant: the linear function itself, in plain arithmetic.

        Only where regions do not fold, so that coefficients are those of the coordinates that move.
        """
        constant, ground = self._down(i, rows, owner, lines, {}, None)
        assert ground.total is not None and not self.ground.folds
        return ground.total, constant

    def _down(
        self,
        i: int,
        rows: Tensor,
        owner: Owner,
        lines: Callable[[int], Lines],
        extra: dict[int, Tensor],
        met: dict[int, Tensor] | None,
    ) -> tuple[Tensor, _Landing]:
        pending, constant = {i: rows}, rows.new_zeros(len(rows))
        ground = _Landing(self.ground)
        for k in range(i, 0, -1):
            c = pending.pop(k, None)
            if k in extra:
                c = extra[k] if c is None else c + extra[k]
            if c is None:
                continue
            if met is not None:
                met[k] = c
            node = self.graph.nodes[k]
            if isinstance(node.op, Activation):
                known = lines(k)
                above = c > 0
                constant = constant + (c * torch.where(above, known.above[owner], known.below[owner])).sum(1)
                constant = constant + norm_upper(c, 2) * self.cost[k][owner]
                c = c * torch.where(above, known.slope_above[owner], known.slope_below[owner])
                _pass(pending, node.inputs[0], c, ground)
            else:
                constant = constant + self._through(k, c, owner, pending, ground)
        constant = constant + self._at_input(ground, owner)
        return constant + constant.abs() * gamma(len(self.graph.nodes) + 16), ground

    def _descend(
        self,
        pending: dict[int, Tensor],
        owner: Owner,
        middle: Tensor,
        half: Tensor,
    ) -> tuple[Tensor, Tensor, _Landing]:
        """Carry coefficients down to the input along parallel lines, from constants ``middle ± half``.

        With parallel lines the coefficients of both sides are the same, only the constants differ.
        """
        ground = _Landing(self.ground)
        if 0 in pending:
            ground.land(pending.pop(0), None)
        for k in range(max(pending, default=0), 0, -1):
            c = pending.pop(k, None)
            if c is None:
                continue
            node = self.graph.nodes[k]
            if isinstance(node.op, Activation):
                known = self.lines(k, "chord")
                above, below = known.above[owner], known.below[owner]
                middle = middle + (c * (above + below)).sum(1) / 2
                half = half + (c.abs() * (above - below)).sum(1) / 2 + norm_upper(c, 2) * self.cost[k][owner]
                _pass(pending, node.inputs[0], c * known.slope_above[owner], ground)
            else:
                half = half + self._through(k, c, owner, pending, ground)
        return middle, half + self._at_input(ground, owner), ground

    def _at_input(self, ground: _Landing, owner: Owner) -> Tensor | float:
        """What a coarser run rounds at the input itself, where no affine layer has paid for it."""
        return 0.0 if ground.bare is None or 0 not in self.cost else ground.bare * self.cost[0][owner]

    def _sides(
        self, middle: Tensor, half: Tensor, ground: _Landing, owner: Owner, within: Sequence[Shape]
    ) -> list[tuple[Tensor, Tensor]]:
        """Constants ``middle ± half`` and what has landed, together, over the regions and parts of them."""
        half = half + (middle.abs() + half) * gamma(len(self.graph.nodes) + 16)
        sides = []
        for sets in (self.ground.sets, *within):
            low = middle - half - ground.support(owner, sets, negative=True)
            sides.append((low, middle + half + ground.support(owner, sets)))
        return sides

    def _through(self, k: int, c: Tensor, owner: Owner, pending: dict[int, Tensor], ground: _Landing) -> Tensor:
        """Pass coefficients through a node without lines; what that costs."""
        node = self.graph.nodes[k]
        match node.op:
            case Affine() if node.inputs == (0,):
                ground.land(c, node.op)
                return norm_upper(c, 2) * self.cost[k][owner]
            case Affine(weight=weight):
                _pass(pending, node.inputs[0], c @ weight, ground)
                return norm_upper(c, 2) * self.cost[k][owner]
            case Add():
                for j in node.inputs:
                    _pass(pending, j, c, ground)
                return norm_upper(c, 2) * self.cost[k][owner]
            case Concat():
                start = 0
                for j in node.inputs:
                    width = self.graph.width(j)
                    _pass(pending, j, c[:, start : start + width], ground)
                    start += width
            case Select(index=index):
                source = node.inputs[0]
                gathered = c.new_zeros(len(c), self.graph.width(source))
                _pass(pending, source, gathered.index_add_(1, torch.tensor(index), c), ground)
                repeats = max(index.count(j) for j in set(index))
                if repeats > 1:
                    return norm_upper(c, 2) * (self.reach(source) * gamma(2 * repeats) * repeats)[owner]
        return c.new_zeros(len(c))


@dataclass(frozen=True)
class _Front:
    """A layer whose neurons are bounded one by one: coefficients in the precision of the pass, constants in float64."""

    weight: Tensor  # of the layer
    slope: Tensor  # (regions, width) of the parallel lines below it
    middle: Tensor  # (regions, neurons): constants of the lines, carried through the layer
    half: Tensor
    norms: Tensor  # (neurons,)
    steepest: Tensor


def _pass(pending: dict[int, Tensor], j: int, c: Tensor, ground: _Landing) -> None:
    if j == 0:
        ground.land(c, None)
    elif j in pending:
        # Adding up the coefficients of several readers rounds once more, which every cost has room for.
        pending[j] = pending[j] + c
    else:
        pending[j] = c


class _Ground:
    """Where backward passes end: the input, and the support function of the regions there."""

    def __init__(self, sets: Shape) -> None:
        self.sets = sets
        extent = sets.extent
        # In a sum of sets a coordinate that the domain pins may still move in the parts.
        whole = sets.rows == 1 or not isinstance(sets, ConvexSets) or bool(sets.blocks)
        self.moving = torch.ones(extent.shape[1], dtype=torch.bool) if whole else (extent > 0).any(0)
        self.folds = sets.folds
        self.known: dict[tuple[int, float], tuple[Tensor, Tensor]] = {}

    def columns(self, op: Affine | None, unit: float = UNIT) -> tuple[Tensor, Tensor]:
        """What ``c`` is multiplied with, and what that costs per unit of ‖c‖₂ (per coordinate, or in all if folded).

        ``unit`` is that of the product.
        """
        key = id(op), unit
        if key not in self.known:
            weight = torch.eye(len(self.moving), dtype=torch.float64) if op is None else op.weight
            if self.folds:
                weight, cost = self.sets.fold(weight, unit)
            else:
                weight = weight[:, self.moving].contiguous()
                cost = norm_upper(weight.T, 2) * (2 * gamma(len(weight) + 16, unit))
            self.known[key] = (weight if unit == UNIT else weight.float()), cost
        return self.known[key]


class _Landing:
    """What one backward pass has brought down to the input."""

    def __init__(self, ground: _Ground) -> None:
        self.ground = ground
        self.total: Tensor | None = None
        self.doubt: Tensor
        self.bare: Tensor | None = None  # at least the norm of what arrived without an affine layer

    def land(self, c: Tensor, op: Affine | None) -> None:
        """Add ``c W`` (``c`` itself when there is no layer)."""
        weight, cost = self.ground.columns(op)
        size = norm_upper(c, 2)
        if op is None:
            self.bare = size if self.bare is None else (self.bare + size) * (1 + 4 * UNIT)
        doubt = size * cost if self.ground.folds else size[:, None] * cost
        if self.total is None:
            self.total, self.doubt = c @ weight, doubt
            return
        before = self.total
        self.total = before + c @ weight
        # Sums of several landings round once more, relative to both parts.
        more = (before.abs() + self.total.abs()) * (4 * UNIT)
        self.doubt = self.doubt + doubt + (self.ground.sets.folded_support(more) if self.ground.folds else more)

    def land_single(self, c: Tensor, op: Affine, size: Tensor) -> None:
        """The one landing of a pass in float32, ``c`` being of norm at most ``size`` and off by a few units."""
        sets = self.ground.sets
        weight, cost = self.ground.columns(op, UNIT32)
        self.total = (c @ weight).double()
        # Columns of the layer may themselves be too small for float32, whatever the size of c.
        floor = torch.full((1, weight.shape[1]), FLOOR, dtype=torch.float64)
        if self.ground.folds:
            self.doubt = (size + FLOOR) * cost + (1 + size) * sets.folded_support(floor)
        else:
            self.doubt = (size + FLOOR)[:, None] * cost + (1 + size)[:, None] * floor

    def support(self, owner: Owner, sets: Shape, negative: bool = False) -> Tensor:
        """The largest value of the landed coefficients over ``sets``, the regions themselves or parts of them."""
        assert self.total is not None
        if self.ground.folds:  # symmetric, so the sign does not matter
            return (sets.folded_support(self.total) + self.doubt) * (1 + gamma(8))
        return sets.support_of(-self.total if negative else self.total, self.doubt, owner, self.ground.moving)


def numbers(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds that overflowed say nothing."""
    return low.where(~low.isnan(), -torch.inf), high.where(~high.isnan(), torch.inf)


def weakly(method: Callable[Asked, Answer]) -> Callable[Asked, Answer]:
    """A method that does not keep its object alive, for what that object holds itself.

    Object and method would otherwise be a cycle, and all tensors of a batch would stay until the garbage collector
    comes by, which counts objects and not their bytes: chunk after chunk, several hundred megabytes.
    """
    held: WeakMethod[Callable[Asked, Answer]] = WeakMethod(method)

    def call(*args: Asked.args, **options: Asked.kwargs) -> Answer:
        found = held()
        assert found is not None, "whoever makes backward passes holds their owner"
        return found(*args, **options)

    return call
