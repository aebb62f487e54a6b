"""The relational tier: bound the difference of two runs instead of the range of each.

Problem: two people, ``z`` (near: within a ball around the centre) and ``y`` (far: similar to ``z``), with ``d = y − z``
in the metric's own set. How far apart can their outputs be? Their ranges grow with the ball *and* the similar set; the
difference ``Δ`` of the two runs starts at ``d`` and scales with the similar set alone. An affine layer maps it by
``W``. A ReLU passes it (active in both runs), stops it (inactive in both), or makes it ``Δ' = relu(p + Δ) − relu(p)``,
which grows with the pre-activation ``p`` of ``z`` for ``Δ ≥ 0`` and falls for ``Δ < 0``. With ``p`` in ``[l, u]``

    Δ' ≤ relu(u + Δ) − relu(u)  for Δ ≥ 0,      Δ' ≤ relu(l + Δ) − relu(l)  for Δ < 0,

which together are convex in ``Δ``, so a chord lies above. Below, ``Δ' ≥ Δ`` if ``l ≥ 0``, ``Δ' ≥ 0`` if ``u ≤ 0``, and
else ``Δ' ≥ min(Δ, 0)``, which is concave, so a chord lies below. For other activations ``Δ'`` is ``Δ`` times a slope of
the activation over both ranges, with a convex upper and a concave lower side again. What such lines leave open is
judged neuron by neuron, and for all neurons of a layer together (:mod:`isonomy.bounds.joint`).

**Soundness.** ``Δ`` is the difference of two *exact* runs, so neither biases nor the rounding of any run enter; what is
rounded is only the arithmetic on coefficients, as in :mod:`isonomy.bounds.backward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from isonomy.arithmetic import TINY, UNIT, gamma
from isonomy.bounds.activations import doubt, shape, slopes
from isonomy.bounds.backward import PASS, Backward, Owner, numbers, weakly
from isonomy.bounds.crowd import Crowd, Gap, crowded
from isonomy.bounds.joint import Cover, Joint, spectral_norm
from isonomy.bounds.linear import Linear, Ranges, Sweep
from isonomy.bounds.relaxations import Lines, Mode
from isonomy.networks.graph import Activation, Add, Affine, Concat, Graph, Input, Select
from isonomy.sets import Shape, SumOfSets, norm_upper

LEAN: tuple[Mode, ...] = ("adaptive",)
"""With a centre that moves, other lower slopes add nothing that could be measured."""

WIDE = 1024
"""Rows and columns of a matrix whose spectral norm is not sought."""

CROWDED = 0.2
"""With more unstable neurons than this share of a layer, only all of them together give bounds that matter."""


class Relational:
    """A graph made ready for the relational tier."""

    def __init__(self, graph: Graph, *, float32_run: bool = False, original: Graph | None = None) -> None:
        self.graph = graph
        self.linear = Linear(graph, float32_run=float32_run, original=original)

    @cached_property
    def norms(self) -> dict[int, Tensor]:
        """Upper bounds of the spectral norms of all weights; cheaper ones where squaring a matrix takes long."""
        prepared, found = self.linear.interval.prepared, {}
        for i, node in enumerate(self.graph.nodes):
            if isinstance(node.op, Affine):
                small = min(node.op.weight.shape) <= WIDE
                found[i] = spectral_norm(node.op.weight) if small else prepared[i].norm
        return found

    def compare(self, centre: Tensor, near: Shape, far: Shape, between: Shape) -> Gap:
        """Bound outputs at ``z`` in ``centre + near`` and ``y`` in ``centre + far``, and between the two.

        ``between`` holds every ``y − z``.
        """
        return self.compare_within(centre, near, far, between, ())[0]

    def compare_within(
        self,
        centre: Tensor,
        near: Shape,
        far: Shape,
        between: Shape,
        within: Sequence[tuple[Shape, Shape]],
        *,
        tight: bool = True,
        nested: bool = False,
    ) -> list[Gap]:
        """The same, and besides for every pair of smaller sets ``near`` and ``far`` at little cost.

        Without ``tight`` no backward pass is made: intervals and differences, forward only. ``nested`` says that
        ``far`` certainly holds ``near`` (somebody similar may be the person itself): one sweep then serves both.
        """
        interval = self.linear.interval
        if tight and interval.run_unit is None and isinstance(self.graph.nodes[-1].op, Affine):
            known = Cover.of(near), Cover.of(between)
            if known[0] is not None and known[1] is not None and crowded(interval, centre, far):
                crowd = Crowd(interval, self.norms, centre, (near, known[0]), far, (between, known[1]))
                return crowd.gaps(within)
        nears, fars = [pair[0] for pair in within], [pair[1] for pair in within]
        if nested:
            nears = [
                sets.still if isinstance(sets, SumOfSets) else same for same, sets in zip(nears, fars, strict=True)
            ]
            inside = far.still if isinstance(far, SumOfSets) else near
            sweep = self.linear.sweep(centre, far, tight, inner=inside)
            assert sweep.inner is not None
            low, high = _Pairs(sweep.inner, sweep, between, tight, self.norms).outputs()
            before = [sweep.finish()] * (1 + len(fars)) + [sweep.inner.finish()] * (1 + len(nears))
            found = sweep.improved(before, [*fars, inside, *nears], LEAN)
            outer, inner = found[: 1 + len(fars)], found[1 + len(fars) :]
        else:
            one, other = (self.linear.sweep(centre, sets, tight) for sets in (near, far))
            low, high = _Pairs(one, other, between, tight, self.norms).outputs()
            inner, outer = one.outputs_within(nears, LEAN), other.outputs_within(fars, LEAN)
        return [Gap(*pair, low, high) for pair in zip(inner, outer, strict=True)]


class _Pairs:
    """Differences of two runs over one batch of regions."""

    def __init__(self, near: Ranges, far: Sweep, between: Shape, tight: bool, norms: dict[int, Tensor]) -> None:
        self.tight, self.norms = tight, norms
        self.near, self.far, self.between, self.graph = near, far, between, near.graph
        self.rows = len(near.centre)
        self.run_unit = near.interval.run_unit
        self.backward = Backward(self.graph, between, weakly(self._lines), weakly(self._reach), far.backward.single)
        self.range: dict[int, tuple[Tensor, Tensor]] = {}
        self._known: dict[tuple[int, Mode], Lines] = {}
        ends_straight = isinstance(self.graph.nodes[-1].op, Affine)
        cover = Cover.of(between) if tight and ends_straight else None
        self.joint = None if cover is None else Joint(self.graph, cover, self.rows, near.interval.working)
        self.crowded = False
        for i, node in enumerate(self.graph.nodes):
            if tight and isinstance(node.op, Activation) and i and self._known_any:
                self._tighten(node.inputs[0])
            self.range[i] = self._forward(i)
            if tight:
                self.backward.cost[i] = self._cost(i)
            if self.joint is not None and i < len(self.graph.nodes) - 1:
                self.joint.step(i, self.norms.get(i), self._direct(i), self._slopes(i))

    @property
    def _known_any(self) -> bool:
        return bool(self.backward.cost) and any(isinstance(self.graph.nodes[k].op, Activation) for k in self.range)

    def outputs(self) -> tuple[Tensor, Tensor]:
        """The smallest and largest difference of each output."""
        last = len(self.graph.nodes) - 1
        if not self.tight:
            return numbers(*self.range[last])
        modes: tuple[Mode, ...] = ("adaptive", "chord") if self._known_any else ("chord",)
        (known,) = [self.range[last]] if self.crowded else self.backward.outputs([self.range[last]], modes)
        if self.joint is None or not self._known_any:
            return known
        return self.backward.outputs_jointly(known, self.joint.slope.__getitem__, self._slack)

    # -- forward ---------------------------------------------------------------------------------------------

    def _forward(self, i: int) -> tuple[Tensor, Tensor]:
        """The range of the difference at node ``i`` from those that it reads, and from the two runs' own ranges."""
        node = self.graph.nodes[i]
        match node.op:
            case Input():
                interval = self.near.interval
                low, high = -self.between.support(interval.negative_eye), self.between.support(interval.eye)
            case Affine() if node.inputs == (0,):
                layer = self.near.interval.prepared[i]
                low, high = -self.between.support(layer.negative), self.between.support(node.op.weight)
            case Affine(weight=weight):
                low, high = self.range[node.inputs[0]]
                half, middle = (high - low) / 2, (high + low) / 2
                grow = 2 * gamma(weight.shape[1] + 16)
                half = half * (1 + grow) + middle.abs() * grow + TINY
                middle, half = middle @ weight.T, half @ weight.abs().T
                low, high = middle - half, middle + half
            case Activation():
                low, high = self._post(i, node.op)
            case Add():
                low = torch.stack([self.range[j][0] for j in node.inputs]).sum(0)
                high = torch.stack([self.range[j][1] for j in node.inputs]).sum(0)
            case Concat():
                low = torch.cat([self.range[j][0] for j in node.inputs], 1)
                high = torch.cat([self.range[j][1] for j in node.inputs], 1)
            case Select(index=index):
                low, high = (side[:, list(index)] for side in self.range[node.inputs[0]])
        extra = (16 * UNIT * len(node.inputs)) * (low.abs() + high.abs()) + TINY
        extra = extra + self._direct(i)[:, None]
        low, high = low - extra, high + extra
        if i:
            # The two ranges say something too: y's lowest against z's highest.
            (z_low, z_high), (y_low, y_high) = self.near.extremes(i), self.far.extremes(i)
            point = self.near.moves[i].point.abs()
            room = (8 * UNIT) * (point + y_low.abs() + y_high.abs() + z_low.abs() + z_high.abs())
            low, high = torch.maximum(low, y_low - z_high - room), torch.minimum(high, y_high - z_low + room)
        return low.expand(self.rows, -1), torch.maximum(high, low).expand(self.rows, -1)

    def _direct(self, i: int) -> Tensor:
        """What merged weights and coarser runs add to every difference of a node, per region."""
        node = self.graph.nodes[i]
        total = torch.zeros(self.rows, dtype=torch.float64)
        if isinstance(node.op, Affine):
            layer = self.near.interval.prepared[i]
            if layer.merged:
                total = total + layer.slack_norm * self._reach(node.inputs[0])
        return total + self._run_cost(i)

    def _run_cost(self, i: int) -> Tensor:
        """Rounding of two runs with the coarser unit, as a 2-norm per region; nothing in exact arithmetic."""
        node, total = self.graph.nodes[i], torch.zeros(self.rows, dtype=torch.float64)
        if self.run_unit is None:
            return total
        for run in (self.near, self.far):
            if isinstance(node.op, Input):
                total = total + norm_upper(_most(run, 0), 2) * (2 * self.run_unit)
            elif isinstance(node.op, Affine):
                total = total + norm_upper(run.interval.run_error(i, node.op, _most(run, node.inputs[0])), 2)
            elif isinstance(node.op, Activation):
                reach = _most(run, node.inputs[0])
                total = total + norm_upper(doubt(node.op, reach, _most(run, i), self.run_unit), 2)
            elif isinstance(node.op, Add):
                size = torch.stack([norm_upper(_most(run, j), 2) for j in node.inputs]).sum(0)
                total = total + size * (8 * self.run_unit * len(node.inputs))
        return total

    def _tighten(self, i: int) -> None:
        """Backward bounds for the differences that the activation behind node ``i`` does not simply pass or stop."""
        node = self.graph.nodes[i]
        if i == 0 or (isinstance(node.op, Affine) and node.inputs == (0,)):
            return
        consumer = next(k for k in self.graph.consumers[i] if isinstance(self.graph.nodes[k].op, Activation))
        op = self.graph.nodes[consumer].op
        assert isinstance(op, Activation)
        low, high = (side.clone() for side in self.range[i])
        least, most = slopes(op, *self._both(i))
        loose = torch.isfinite(low) & torch.isfinite(high) & (most > least)
        if self.joint is not None:
            middle, half = self.joint.limits(i)
            low, high = torch.maximum(low, middle - half), torch.minimum(high, middle + half)
            if bool(loose.double().mean() > CROWDED):
                self.crowded = True
                self.range[i] = low, torch.maximum(high, low)
                return
        rows, columns = loose.nonzero(as_tuple=True)
        for start in range(0, len(rows), PASS):
            row, column = rows[start : start + PASS], columns[start : start + PASS]
            ((bottom, top),) = self.backward.neurons(i, row, column)
            bottom, top = numbers(bottom, top)
            low[row, column] = torch.maximum(low[row, column], bottom)
            high[row, column] = torch.minimum(high[row, column], top)
        self.range[i] = low, torch.maximum(high, low)

    def _both(self, i: int) -> tuple[Tensor, Tensor]:
        """The pre-activations of either run."""
        (z_low, z_high), (y_low, y_high) = self._near(i), self._far(i)
        return torch.minimum(z_low, y_low), torch.maximum(z_high, y_high)

    def _near(self, i: int) -> tuple[Tensor, Tensor]:
        return self.near.values(i)

    def _far(self, i: int) -> tuple[Tensor, Tensor]:
        return self.far.values(i)

    def _sides(self, op: Activation, source: int, move: Tensor) -> tuple[Tensor, Tensor]:
        """The highest and lowest difference behind an activation when the one before it is ``move``."""
        least, most = slopes(op, *self._both(source))
        one, other = least * move, most * move
        above, below = torch.maximum(one, other), torch.minimum(one, other)
        if op.kind == "relu":
            low, high = self._near(source)
            up, down = (high + move).relu() - high.relu(), (low + move).relu() - low.relu()
            above = torch.where(move >= 0, up, down) + (4 * UNIT) * (low.abs() + high.abs() + move.abs())
            below = torch.where(low >= 0, move, torch.where(high <= 0, 0.0, below))
        return above, below

    def _post(self, i: int, op: Activation) -> tuple[Tensor, Tensor]:
        (source,) = self.graph.nodes[i].inputs
        low, high = self.range[source]
        # Both sides grow with the difference where slopes are not negative; otherwise look at both ends.
        tops, bottoms = zip(*(self._sides(op, source, end) for end in (low, high)), strict=True)
        zero = torch.zeros_like(low).clamp(low, high)
        above, below = self._sides(op, source, zero)
        return torch.stack([*bottoms, below]).amin(0), torch.stack([*tops, above]).amax(0)

    # -- all neurons together ---------------------------------------------------------------------------------

    def _slopes(self, i: int) -> tuple[Tensor, Tensor] | None:
        node = self.graph.nodes[i]
        return slopes(node.op, *self._both(node.inputs[0])) if isinstance(node.op, Activation) else None

    def _slack(self, k: int, c: Tensor, owner: Owner) -> Tensor:
        assert self.joint is not None
        low, high = self.range[self.graph.nodes[k].inputs[0]]
        return self.joint.slack(k, c, owner, torch.maximum(low.abs(), high.abs()))

    # -- lines -----------------------------------------------------------------------------------------------

    def _lines(self, k: int, mode: Mode) -> Lines:
        if (k, mode) not in self._known:
            node = self.graph.nodes[k]
            assert isinstance(node.op, Activation)
            self._known[k, mode] = self._make_lines(node.op, node.inputs[0], mode)
        return self._known[k, mode]

    def _make_lines(self, op: Activation, source: int, mode: Mode) -> Lines:
        low, high = self.range[source]
        wide = high - low
        (top_low, bottom_low), (top_high, bottom_high) = self._sides(op, source, low), self._sides(op, source, high)
        least, most = slopes(op, *self._both(source))
        straight = least == most
        flat = wide <= TINY
        slope_above = torch.where(flat, most, (top_high - top_low) / wide.clamp(min=TINY)).clamp(least, most)
        slope_below = torch.where(flat, least, (bottom_high - bottom_low) / wide.clamp(min=TINY)).clamp(least, most)
        if mode == "chord":
            slope_below = slope_above
        error = (16 * UNIT) * (most.abs() + least.abs() + 1) * (low.abs() + high.abs())
        # The upper side is convex and the lower one concave: differences from a line are extreme at the ends.
        above = torch.maximum(top_low - slope_above * low, top_high - slope_above * high) + error
        below = torch.minimum(bottom_low - slope_below * low, bottom_high - slope_below * high) - error
        none = torch.zeros_like(above)
        return Lines(slope_above, torch.where(straight, none, above), slope_below, torch.where(straight, none, below))

    def _reach(self, i: int) -> Tensor:
        low, high = self.range[i]
        most = torch.maximum(low.abs(), high.abs())
        return norm_upper(torch.where(torch.isfinite(most), most, 0.0) if i == 0 else most, 2)

    def _cost(self, i: int) -> Tensor:
        node = self.graph.nodes[i]
        cost = self._direct(i)
        if isinstance(node.op, Affine):
            layer = self.near.interval.prepared[i]
            grow = 4 * gamma(node.op.width_out + node.op.width_in + 16)
            cost = cost + grow * layer.frobenius * self._reach(node.inputs[0])
        elif isinstance(node.op, Activation):
            size = self._reach(node.inputs[0]) * shape(node.op).steepest + self._reach(i)
            cost = cost + size * (4 * gamma(self.graph.width(i) + 16))
        elif isinstance(node.op, Add):
            sizes = torch.stack([self._reach(j) for j in node.inputs]).sum(0)
            cost = cost + sizes * (8 * UNIT * len(node.inputs))
        return cost * (1 + gamma(16))


def _most(run: Ranges, i: int) -> Tensor:
    """The largest size of a node's values; nothing for coordinates that nobody reads."""
    low, high = run.extremes(i)
    most = run.moves[i].point.abs() + torch.maximum(low.abs(), high.abs())
    return torch.where(torch.isfinite(most), most, 0.0)
