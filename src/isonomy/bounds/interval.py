"""The interval tier: how far each neuron can move, layer by layer, after an exact first layer.

Problem: given regions ``c + V`` and a network, enclose its outputs over every region. Interval bound propagation
does it with two matrix products per layer. Here it is written as *moves from the run at the centre*: each node
carries the run itself (``point``) and, for every ``y`` of the region,

    node(y) ∈ point + shift ± spread.

The first layer is exact: its moves are the support function of ``V`` at the rows of ``W``, never those of a box
around ``V``. A ReLU with pre-activation ``z`` turns a move ``d`` into ``max(d, −z) − max(0, −z)``, so moves stay
small numbers however large the activations are. That is why they can be carried in float32, at half the price,
without the result losing a thousandth of itself, while the run stays in float64.

**Soundness.** ``spread`` holds, beside the moves, every rounding error. For an affine layer of ``n`` inputs: the
run errs by ``γ_n ‖W_i‖‖point‖`` (Cauchy and Schwarz, so one extra column of the product), ``W shift`` by
``γ_n |W||shift|`` in the working precision, the merged weights by their slack. Elementwise steps of a few units
roundoff of ``|shift| + spread`` are paid in advance by the layer before them, or by :func:`settled`. In
``arithmetic="float32"`` the enclosures besides hold every float32 run of the original layers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

from isonomy.arithmetic import TINY, UNIT, UNIT32, gamma
from isonomy.bounds.activations import doubt, image, shape
from isonomy.bounds.buffers import Buffers
from isonomy.errors import NotANumberError
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Node, Select
from isonomy.sets import Shape, norm_upper

WIDE = 64
"""From this width on, moves are carried in float32; narrower layers cost nothing and stay in float64."""

STEPS = 64
"""Units roundoff of ``|shift| + spread`` that elementwise steps may use up between two products."""


@dataclass(frozen=True)
class Moves:
    """One node over a batch of regions. Rows: regions; ``shift`` and ``spread`` may have one row for all."""

    point: Tensor  # (rows, width) float64: the computed run at the centre
    error: Tensor  # (rows,) at least the 2-norm of its distance from the exact run (or any float32 run)
    shift: Tensor  # in the working precision
    spread: Tensor
    around: bool = False  # do the moves certainly include standing still?


@dataclass(frozen=True)
class Enclosure:
    """The outputs over a batch of regions: the run at the centre ± ``error``, and the moves from it."""

    point: Tensor
    error: Tensor
    low: Tensor
    high: Tensor


class Interval:
    """A graph made ready for the interval tier."""

    def __init__(
        self,
        graph: Graph,
        *,
        float32_run: bool = False,
        working: torch.dtype | None = None,
        original: Graph | None = None,
    ) -> None:
        """``original`` is the graph before layers were merged, for what float32 runs of it lose by underflow."""
        self.graph = graph
        self.run_unit = UNIT32 if float32_run else None
        self.amplification = _amplification(original or graph) if float32_run else 0.0
        self.buffers = Buffers()
        self.eye = torch.eye(graph.input_width, dtype=torch.float64)
        self.negative_eye = -self.eye
        layers = [node.op for node in graph.nodes if isinstance(node.op, Affine)]
        if working is None:
            wide = max((layer.width_in for layer in layers), default=0) >= WIDE
            # Products of reduced precision, if somebody has switched them on, are no products of float32.
            usual = torch.get_float32_matmul_precision() == "highest"
            fits = wide and usual and all(map(_fits_float32, layers))
            working = torch.float32 if fits else torch.float64
        self.working = working
        self.unit = UNIT32 if working == torch.float32 else UNIT
        self.prepared = {i: self._prepare(node) for i, node in enumerate(graph.nodes) if isinstance(node.op, Affine)}
        self.plain = bool(layers) and all(
            node.inputs == (i - 1,) and (isinstance(node.op, Affine) if i == 1 else _plain(node))
            for i, node in enumerate(graph.nodes)
            if i
        )

    def enclose(self, centre: Tensor, sets: Shape | None) -> Enclosure:
        """Enclose the outputs over ``centre + sets``; ``None`` means the centres themselves.

        Moves too large for float32 are computed again in float64; moves too large for that are infinite.
        """
        found = self._run(centre, sets)
        if self.working == torch.float32 and not bool(torch.isfinite(found.low + found.high).all()):
            return self.wider()._run(centre, sets)
        return found

    def at(self, centre: Tensor) -> tuple[Tensor, Tensor]:
        """The run at the centres and its error, as ``enclose(centre, None)`` has them, without moves where possible."""
        if not self.plain:
            found = self.enclose(centre, None)
            return found.point, found.error
        point, error = centre, None
        for i, node in enumerate(self.graph.nodes[1:], start=1):
            if isinstance(node.op, Affine):
                before, point = point, torch.addmm(node.op.bias, point, node.op.weight.T)
                error = self._error(i, node.op, before, norm_upper(before, 2), error)
            else:
                point = point.clamp(min=0.0)
        assert error is not None
        if not bool(torch.isfinite(point).all()):
            self.finish(Moves(point, error, point, point))  # says which row
        return point, error

    def wider(self) -> Interval:
        """The same with moves in float64."""
        other = Interval(self.graph, float32_run=self.run_unit is not None, working=torch.float64)
        other.amplification = self.amplification
        return other

    def _run(self, centre: Tensor, sets: Shape | None) -> Enclosure:
        moves: dict[int, Moves] = {}
        last_use = {j: i for i, node in enumerate(self.graph.nodes) for j in node.inputs}
        if len(self.graph.nodes) == 1 or not all(map(_first, (self.graph.nodes[i] for i in self.graph.consumers[0]))):
            moves[0] = self.input(centre, sets)
        with self.buffers as buffers:
            for i, node in enumerate(self.graph.nodes[1:], start=1):
                spent = {j for j in node.inputs if last_use[j] == i and j in moves}
                moves[i] = self.node(i, node, centre, sets, moves, spent=bool(spent - {0}))
                for read in map(moves.pop, spent):
                    buffers.give(
                        *(part for part in (read.point, read.shift, read.spread) if part is not moves[i].point)
                    )
            final = moves[len(self.graph.nodes) - 1]
            found = self.finish(final)
            found = replace(found, point=found.point.clone())
            buffers.give(final.point, final.shift, final.spread)
            return found

    def finish(self, final: Moves) -> Enclosure:
        """The outputs from the moves of the last node."""
        if not bool(torch.isfinite(final.point).all()):
            row = int((~torch.isfinite(final.point)).any(1).nonzero()[0])
            raise NotANumberError(f"The network's output at row {row} of the batch overflows float64.")
        shift, spread = final.shift.double(), final.spread.double()
        spread = spread + (STEPS * self.unit) * (spread + shift.abs())
        low, high = shift - spread, shift + spread
        low, high = low.where(~low.isnan(), -torch.inf), high.where(~high.isnan(), torch.inf)
        rows = final.point.shape
        return Enclosure(final.point, final.error, low.expand(rows), high.expand(rows))

    # -- one rule per operation ------------------------------------------------------------------------------

    def node(
        self, i: int, node: Node, centre: Tensor, sets: Shape | None, moves: dict[int, Moves], spent: bool = False
    ) -> Moves:
        """The moves of a node from those that it reads; a first layer looks at the regions themselves.

        When what it reads is ``spent``, nobody else will read it, and its memory may be written on.
        """
        match node.op:
            case Affine() if node.inputs == (0,):
                return self._first_layer(i, node.op, centre, sets)
            case Affine():
                return self._affine(i, node.op, moves[node.inputs[0]])
            case Activation(kind="relu"):
                return self._relu(moves[node.inputs[0]], self._pays(node), spent)
            case Activation():
                return self._activation(node.op, moves[node.inputs[0]])
            case Add():
                return self._add([moves[j] for j in node.inputs])
            case Concat():
                return self._concat([moves[j] for j in node.inputs])
            case Select(index=index):
                return self._select(list(index), moves[node.inputs[0]])
        raise AssertionError(f"no interval rule for {node.op}")

    def input(self, centre: Tensor, sets: Shape | None) -> Moves:
        """The coordinates themselves, for a network that reads them past its first layer."""
        error = centre.new_zeros(len(centre))
        if sets is None:
            zero = centre.new_zeros(1, centre.shape[1], dtype=self.working)
            spread = zero
            if self.run_unit is not None:
                spread = (centre.abs() * (2 * self.run_unit)).to(self.working)
                error = norm_upper(centre, 2) * (2 * self.run_unit)
            return settled(Moves(centre, error, zero, spread), self.unit)
        high, low = sets.support(self.eye), -sets.support(self.negative_eye)
        spread = (high - low) / 2
        if self.run_unit is not None:
            spread = spread + (centre.abs() + sets.extent) * (2 * self.run_unit)
            error = norm_upper(centre, 2) * (2 * self.run_unit)
        return self.in_working(centre, error, (high + low) / 2, spread)

    def _first_layer(self, i: int, op: Affine, centre: Tensor, sets: Shape | None) -> Moves:
        layer = self.prepared[i]
        point = self.buffers.take(len(centre), op.width_out, torch.float64)
        torch.addmm(op.bias, centre, op.weight.T, out=point)
        size = norm_upper(centre, 2)
        # Whoever is largest speaks for all rows that share one set, so that they go on sharing it. But one outlier
        # must not speak for the others.
        shared = (sets is None or sets.rows == 1) and _even(size)
        far = farthest = size.amax() if shared else size[:, None]
        if sets is None:
            shift, spread = point.new_zeros(1, point.shape[1]), point.new_zeros(1, point.shape[1])
        else:
            above, below = sets.support(op.weight), sets.support(layer.negative)
            shift, spread = (above - below) / 2, (above + below) / 2
            if layer.merged:  # coordinates that the layer does not read may be unbounded
                extent = torch.where(layer.magnitude.any(0), sets.extent, 0.0)
                farthest = farthest + extent.amax(1, keepdim=True)
        spread = spread + layer.rounding * far + layer.constant + op.weight_slack * (farthest * (1 + 8 * UNIT))
        error = self._error(i, op, centre, size, None)
        if self.run_unit is not None:
            reach = centre.abs() if sets is None else centre.abs() + torch.nan_to_num(sets.extent, posinf=0.0)
            spread = spread + self.run_error(i, op, reach)
        moves = self.in_working(point, error, shift, spread)
        return replace(moves, around=bool((moves.shift.abs() <= moves.spread).all()))

    def _affine(self, i: int, op: Affine, x: Moves) -> Moves:
        layer = self.prepared[i]
        rows, width = len(x.point), op.width_in
        point = self.buffers.take(rows, op.width_out, torch.float64)
        torch.addmm(op.bias, x.point, op.weight.T, out=point)
        size = norm_upper(x.point, 2)
        shift = self.buffers.take(len(x.shift), op.width_out, self.working)
        torch.mm(x.shift, layer.working.T, out=shift)
        spread = self.buffers.take(rows, op.width_out, self.working)
        if x.around and len(x.spread) == rows and _even(size):
            # Then |shift| ≤ spread, and the largest run may speak for all: one row of rounding, and one product.
            rounding = layer.radius[:, width].double() * size.amax() + layer.radius[:, width + 1]
            torch.addmm((rounding * (1 + 4 * self.unit)).to(self.working), x.spread, layer.scaled.T, out=spread)
        else:
            radius = self.buffers.take(rows, layer.radius.shape[1], self.working)
            radius[:, :width] = x.spread * (1 + layer.pay) + x.shift.abs() * layer.pay
            radius[:, width:] = 0.0
            radius[:, width] = size
            radius[:, width + 1] = 1.0
            torch.mm(radius, layer.radius.T, out=spread)
            self.buffers.give(radius)
        if self.run_unit is not None:
            reach = x.point.abs() + x.shift.double().abs() + x.spread.double()
            spread = spread + self.run_error(i, op, reach).to(self.working) * (1 + STEPS * self.unit)
        return Moves(point, self._error(i, op, x.point, size, x.error), shift, spread, x.around)

    def _error(self, i: int, op: Affine, read: Tensor, size: Tensor, error: Tensor | None) -> Tensor:
        """The error of a layer's run, from what it reads, its norm, and its error (None: none, a centre)."""
        layer = self.prepared[i]
        lost = (layer.rounding_norm + layer.slack_norm) * size
        found = (lost if error is None else layer.norm * error + lost) + layer.constant_norm
        if self.run_unit is not None:
            reach = read.abs() if error is None else read.abs() + error[:, None]
            found = found + norm_upper(self.run_error(i, op, reach), 2)
        return found * (1 + gamma(16))

    def _relu(self, x: Moves, paid: bool, spent: bool) -> Moves:
        """Moves now reach from ``max(shift − spread, h)`` to ``max(shift + spread, h)``, both less ``max(0, h)``.

        Here ``h = −z`` is the hinge. All numbers are halved on the way, so that half-sums come out by themselves. With
        the hinge clamped between the two ends, ``b``, the new spread is ``top − b``, and the new shift ``top − |b|``
        when the moves include standing still. Moves that all rows share are a single row, broadcast here.
        """
        x = x if paid else settled(x, self.unit)
        rows, width = x.point.shape
        hinge, shift, spread = (self.buffers.take(rows, width, self.working) for _ in range(3))
        hinge.copy_(x.point).mul_(-0.5)
        if len(x.spread) < rows or len(x.shift) < rows:
            top, bottom = (x.shift + x.spread) * 0.5, (x.shift - x.spread) * 0.5
        else:
            top = torch.lerp(x.shift, x.spread, 0.5, out=shift)
            bottom = torch.sub(top, x.spread, out=spread)
        if x.around:
            torch.clamp(hinge, bottom, top, out=hinge)
            torch.sub(top, hinge, out=spread)
            torch.sub(top, hinge.abs_(), out=shift)
        else:  # where no move passes the hinge, all three are the same number and give 0
            high, low = torch.maximum(top, hinge), torch.maximum(bottom, hinge)
            torch.sub(high, low, out=spread)
            # One by one: their sum would round in proportion to the hinge, however short the moves are.
            torch.sub(high, hinge.relu_(), out=shift).add_(low.sub_(hinge))
        self.buffers.give(hinge)
        point = x.point if spent else self.buffers.take(rows, width, torch.float64)
        torch.clamp(x.point, min=0.0, out=point)
        return Moves(point, x.error, shift, spread, x.around)

    def _activation(self, op: Activation, x: Moves) -> Moves:
        shift, spread = x.shift.double(), x.spread.double()
        spread = spread + (STEPS * self.unit) * (spread + shift.abs()) + (8 * UNIT) * x.point.abs() + TINY
        unit = max(UNIT, self.run_unit or 0.0)
        low, high = image(op, x.point + shift - spread, x.point + shift + spread, unit)
        point = op(x.point)
        size = x.point.abs() + x.error[:, None]
        error = x.error * shape(op).steepest + norm_upper(doubt(op, size, point, unit) * 2, 2)
        low, high = low - point, high - point
        spread = (high - low) / 2 + (8 * UNIT) * (point.abs() + high.abs() + low.abs())
        return self.in_working(point, error * (1 + gamma(8)), (high + low) / 2, spread)

    def _add(self, terms: list[Moves]) -> Moves:
        terms = [settled(term, self.unit) for term in terms]
        unit = max(UNIT, self.run_unit or 0.0) * 4 * len(terms)
        size = _total(term.point.abs() for term in terms)
        # A float32 run rounds the sum of the moved values, at most as large as run and moves together.
        moved = _total(term.shift.abs() + term.spread for term in terms)
        spread = _total(term.spread for term in terms) + (size * unit + 2.0**-120).to(self.working) + moved * unit
        error = _total(term.error for term in terms) + norm_upper(size, 2) * unit
        point, shift = _total(term.point for term in terms), _total(term.shift for term in terms)
        return Moves(point, error * (1 + gamma(8)), shift, spread + moved * (STEPS * self.unit))

    def _concat(self, parts: list[Moves]) -> Moves:
        parts = [settled(part, self.unit) for part in parts]
        rows = len(parts[0].point)
        return Moves(
            torch.cat([part.point for part in parts], 1),
            torch.stack([part.error for part in parts]).sum(0) * (1 + gamma(len(parts) + 4)),
            torch.cat([part.shift.expand(rows, -1) for part in parts], 1),
            torch.cat([part.spread.expand(rows, -1) for part in parts], 1),
        )

    def _select(self, index: list[int], x: Moves) -> Moves:
        x = settled(x, self.unit)
        repeats = max(index.count(j) for j in set(index))
        error = x.error * (repeats**0.5 * (1 + gamma(4)))
        return Moves(x.point[:, index], error, x.shift[:, index], x.spread[:, index])

    # -- helpers ---------------------------------------------------------------------------------------------

    def in_working(self, point: Tensor, error: Tensor, shift: Tensor, spread: Tensor) -> Moves:
        """Moves computed in float64, brought to the working precision and paid in advance."""
        tiny = TINY if self.working == torch.float64 else 2.0**-120
        spread = (spread + tiny).to(self.working)
        return settled(Moves(point, error, shift.to(self.working), spread), self.unit)

    def _pays(self, node: Node) -> bool:
        """Did the node that is read pay for elementwise steps in advance?"""
        return isinstance(self.graph.nodes[node.inputs[0]].op, Affine | Add | Concat | Select)

    def run_error(self, i: int, op: Affine, reach: Tensor) -> Tensor:
        """By how much a run with the coarser unit can miss the exact layer at inputs up to ``reach``."""
        assert self.run_unit is not None
        # Half as many again: weights that are not float32 numbers are rounded too, once in each merged layer.
        grow = gamma(op.roundings * 3 // 2 + 4, self.run_unit)
        magnitude, magnitude_bias = self.prepared[i].magnitude, self.prepared[i].magnitude_bias
        floor = (op.roundings + 4) * 2.0**-126 * (1 + self.amplification)
        total = torch.addmm(magnitude_bias, reach, magnitude.T) * (1 + gamma(op.width_in + 8))
        return total * grow + floor * (1 + reach.amax(1, keepdim=True))

    def _prepare(self, node: Node) -> _Layer:
        op = node.op
        assert isinstance(op, Affine)
        n = op.width_in
        tiny = (n + 8) * (TINY if self.working == torch.float64 else 2.0**-120)
        rounding = norm_upper(op.weight, 2) * gamma(n + 8)
        constant = op.bias.abs() * gamma(n + 8) + op.bias_slack + tiny
        size = op.weight.abs()
        slack = op.weight_slack[:, None]  # of a whole row, so certainly of each weight
        # The last two columns meet the norm of the run, and one.
        extra = torch.stack([rounding + op.weight_slack, constant], dim=1) * (1 + 2 * gamma(n + STEPS, self.unit))
        spare = -(n + 2) % 16  # rows of the product start at multiples of a cache line
        radius = torch.cat([size + slack, extra, size.new_zeros(len(size), spare)], dim=1).to(self.working)
        if self.working == torch.float32:
            radius = torch.where(radius > 0, torch.nextafter(radius, torch.full_like(radius, torch.inf)), radius)
        frobenius = norm_upper(norm_upper(op.weight, 2)[None], 2)[0]
        mixed = (size.sum(0).amax() * size.sum(1).amax()).sqrt() if size.numel() else frobenius
        # The exact layer also multiplies the error by its slack, row by row at most weight_slack · ‖error‖.
        slack_norm = norm_upper(op.weight_slack[None], 2)[0]
        magnitude, magnitude_bias = op.magnitudes()
        return _Layer(
            working=op.weight.to(self.working),
            negative=-op.weight,
            radius=radius,
            scaled=(radius[:, :n] * (1 + 4 * gamma(n + 8 * STEPS, self.unit))).contiguous(),
            pay=2 * gamma(n + 8 * STEPS, self.unit),
            rounding=rounding,
            constant=constant,
            frobenius=frobenius,
            norm=(torch.minimum(frobenius, mixed * (1 + gamma(n + op.width_out + 8))) + slack_norm) * (1 + gamma(8)),
            rounding_norm=norm_upper(rounding[None], 2)[0],
            constant_norm=norm_upper(constant[None], 2)[0],
            slack_norm=slack_norm,
            merged=bool(slack_norm > 0),
            magnitude=magnitude,
            magnitude_bias=magnitude_bias,
        )


@dataclass(frozen=True)
class _Layer:
    """What an affine layer needs ready: its working copy, the radius matrix with its three extra columns, norms."""

    working: Tensor
    negative: Tensor
    radius: Tensor
    scaled: Tensor  # |W|, with what products and elementwise steps may lose
    pay: float
    rounding: Tensor
    constant: Tensor
    frobenius: Tensor
    norm: Tensor
    rounding_norm: Tensor
    constant_norm: Tensor
    slack_norm: Tensor
    merged: bool  # were weights rounded when layers were merged?
    magnitude: Tensor
    magnitude_bias: Tensor


def settled(x: Moves, unit: float) -> Moves:
    """Widen the spread by the elementwise steps that it may owe and that the next rule may take."""
    spread = x.spread * (1 + STEPS * unit) + x.shift.abs() * (STEPS * unit)
    return replace(x, spread=spread)


def _even(size: Tensor) -> bool:
    """Are the rows of about the same size, so that what the largest costs is no burden to the others?"""
    return len(size) == 1 or bool(size.amax() <= 64 * size.amin())


def _total(parts: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, parts)


def _amplification(graph: Graph) -> float:
    """By how much layers between two activations can magnify what is lost at their beginning (largest row sums)."""
    found: list[float] = []
    for node in graph.nodes:
        below = [found[j] for j in node.inputs]
        match node.op:
            case Affine():
                found.append(float(node.op.magnitudes()[0].sum(1).max()) * max(1.0, below[0]) * (1 + 1e-9))
            case Add():
                found.append(sum(below))
            case Concat() | Select():
                found.append(max(below))
            case _:
                found.append(1.0)
    return max(found)


def _plain(node: Node) -> bool:
    return isinstance(node.op, Affine) or (isinstance(node.op, Activation) and node.op.kind == "relu")


def _first(node: Node) -> bool:
    return isinstance(node.op, Affine) and node.inputs == (0,)


def _fits_float32(layer: Affine) -> bool:
    """Are the weights well inside the range of float32, so that only relative errors matter?"""
    size = layer.weight.abs()
    return bool(((size == 0) | ((size > 1e-30) & (size < 1e30))).all()) and float(layer.bias.abs().max()) < 1e30
