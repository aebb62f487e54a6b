"""The exact tier: branch and bound over the signs of ReLUs.

Problem: the largest value of an output over a region. A *part* of a region fixes the signs of some neurons. Its bound
is that of the linear tier with these neurons straight, improved by gradient steps on the free slopes and on one
multiplier ``β ≥ 0`` for each fixed sign ``s``: where ``s z ≥ 0``, adding ``β s z`` to what is maximised only raises the
bound. When all neurons of a part are straight the network is affine there, and on a polyhedral region a linear program
gives the best multipliers and the point that attains the bound, or multipliers that show the part to be empty.

**Soundness.** Whatever multipliers and slopes are tried, each bound is evaluated with all its rounding terms, and the
two parts of a split cover the whole. A part is given up when its bound is within tolerance of a value already found,
and its bound still counts; so the result is an upper bound whenever the search stops. The linear program is asked for
multipliers only; nothing that it claims is believed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from isonomy.arithmetic import FloatArray, gamma
from isonomy.bounds.interval import Interval
from isonomy.bounds.linear import Sweep
from isonomy.bounds.relaxations import Lines, lean_by
from isonomy.networks.graph import Activation, Graph
from isonomy.sets import ConvexSets
from isonomy.similarity.regions import Regions

BATCH = 128
"""Parts bounded at once."""


@dataclass(frozen=True)
class Limits:
    """When to stop: seconds, the accepted gap between bound and find (in the output), parts looked at per region."""

    seconds: float = 60.0
    gap: float = 1e-7
    parts: int = 100_000
    steps: int = 12


@dataclass(order=True)
class _Part:
    """A part of a region: signs that are fixed, and the best bound known so far (negated, for the heap)."""

    priority: float
    number: int
    region: int = field(compare=False)
    phases: dict[int, Tensor] = field(compare=False)


class Exact:
    """A graph made ready for branch and bound; activations other than ReLU are relaxed but not split."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.interval = Interval(graph, working=torch.float64)

    def maximise(
        self,
        regions: Regions,
        column: int,
        sign: float,
        reached: Tensor,
        limits: Limits,
        consider: Callable[[int, Tensor], float] | None = None,
    ) -> Tensor:
        """Upper bounds of ``sign · output`` over each region, beside values ``reached`` that were already found there.

        ``consider(region, y)`` is told of points that a linear program gives, and answers with the value there.
        """
        deadline = time.monotonic() + limits.seconds
        search = _Search(self, regions, column, sign, reached.clone(), limits, consider)
        search.start()
        while search.heap and time.monotonic() < deadline:
            search.round()
        return search.result()


class _Search:
    def __init__(
        self,
        exact: Exact,
        regions: Regions,
        column: int,
        sign: float,
        reached: Tensor,
        limits: Limits,
        consider: Callable[[int, Tensor], float] | None,
    ) -> None:
        self.exact, self.regions, self.limits, self.consider = exact, regions, limits, consider
        self.column, self.sign, self.reached = column, sign, reached
        self.closed = torch.full((len(regions),), -math.inf, dtype=torch.float64)
        self.looked = torch.zeros(len(regions), dtype=torch.long)
        self.heap: list[_Part] = []
        self.count = itertools.count()
        self.hinges = [
            k for k, node in enumerate(exact.graph.nodes) if isinstance(node.op, Activation) and node.op.kind == "relu"
        ]

    def start(self) -> None:
        """The whole regions are the first parts."""
        for region in range(len(self.regions)):
            heapq.heappush(self.heap, _Part(-math.inf, next(self.count), region, {}))

    def result(self) -> Tensor:
        """The largest bound of any part, closed or still open."""
        upper = self.closed.clone()
        for part in self.heap:
            upper[part.region] = max(upper[part.region].item(), -part.priority)
        return torch.maximum(upper, self.reached)

    def round(self) -> None:
        """Bound the most promising parts, close those that cannot matter, split the others."""
        batch = [heapq.heappop(self.heap) for _ in range(min(BATCH, len(self.heap)))]
        rows = np.array([part.region for part in batch])
        some = self.regions[rows]
        phases = {k: torch.stack([self._phase(part, k) for part in batch]) for k in self.hinges}
        sweep = Sweep(self.exact.interval, some.centre, some.sets, phases)
        offset = sweep.moves[len(sweep.graph.nodes) - 1].point[:, self.column] * self.sign
        bound, scores = self._descend(sweep, phases)
        bound = torch.where(sweep.empty, -math.inf, _outward(bound, offset))
        bound = torch.where(bound.isnan(), math.inf, bound)
        for j, part in enumerate(batch):
            value = min(bound[j].item(), -part.priority)
            self.looked[part.region] += 1
            choice = None if sweep.empty[j] else self._choice(scores, sweep, phases, j)
            if choice is None and not sweep.empty[j] and value > self._enough(part.region):
                value = min(value, self._by_program(sweep, phases, j, part.region, offset[j].item()))
            tired = int(self.looked[part.region]) >= self.limits.parts
            if choice is None or tired or value <= self._enough(part.region):
                self.closed[part.region] = max(self.closed[part.region].item(), value)
                continue
            k, column = choice
            for phase in (1, -1):
                child = {hinge: known.clone() for hinge, known in part.phases.items()}
                child.setdefault(k, torch.zeros(self.exact.graph.width(k), dtype=torch.int8))[column] = phase
                heapq.heappush(self.heap, _Part(-value, next(self.count), part.region, child))

    def _phase(self, part: _Part, k: int) -> Tensor:
        known = part.phases.get(k)
        return torch.zeros(self.exact.graph.width(k), dtype=torch.int8) if known is None else known

    def _enough(self, region: int) -> float:
        return self.reached[region].item() + self.limits.gap

    def _descend(self, sweep: Sweep, phases: dict[int, Tensor]) -> tuple[Tensor, dict[int, Tensor]]:
        """The best bound over gradient steps on slopes and multipliers, and how much each neuron's relaxation costs."""
        rows = len(sweep.centre)
        one = torch.zeros(rows, sweep.graph.output_width, dtype=torch.float64)
        one[:, self.column] = self.sign
        owner = torch.arange(rows)
        slopes = {k: (sweep.lines(k, "chord").slope_above > 0.5).double() for k in self.hinges}
        weights = {k: torch.zeros_like(slopes[k]) for k in self.hinges if bool(phases[k].any())}
        best = torch.full((rows,), math.inf, dtype=torch.float64)
        met: dict[int, Tensor] = {}
        steps = self.limits.steps if self.hinges else 0
        parameters = [value.requires_grad_() for value in (*slopes.values(), *weights.values())]
        optimiser = torch.optim.Adam(parameters, lr=0.2) if parameters else None
        for step in range(steps + 1):
            upper = self._evaluate(sweep, one, owner, slopes, weights, phases, met if step == 0 else None)
            best = torch.minimum(best, torch.where(upper.detach().isnan(), math.inf, upper.detach()))
            if step == steps or optimiser is None:
                break
            optimiser.zero_grad()
            torch.where(torch.isfinite(upper), upper, 0.0).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            with torch.no_grad():
                for value in slopes.values():
                    value.clamp_(0.0, 1.0)
                for value in weights.values():
                    value.clamp_(min=0.0)
        scores = {}
        for k in self.hinges:
            known = sweep.lines(k, "chord")
            scores[k] = (
                met[k].detach().abs() * (known.above - known.below) if k in met else torch.zeros_like(known.above)
            )
        return best, scores

    def _evaluate(
        self,
        sweep: Sweep,
        one: Tensor,
        owner: Tensor,
        slopes: dict[int, Tensor],
        weights: dict[int, Tensor],
        phases: dict[int, Tensor],
        met: dict[int, Tensor] | None,
    ) -> Tensor:
        """One bound: any slopes in [0, 1], any multipliers ≥ 0."""

        def lines(k: int) -> Lines:
            known, seen = sweep.lines(k, "chord"), sweep.seen[k]
            return lean_by(known, seen.point, seen.value, slopes[k]) if k in slopes else known

        extra: dict[int, Tensor] = {}
        constant = torch.zeros(len(one), dtype=torch.float64)
        for k, weight in weights.items():
            source = sweep.graph.nodes[k].inputs[0]
            term = weight * phases[k]
            extra[source] = extra[source] + term if source in extra else term
            point = sweep.seen[k].point
            # β s z = β s point + β s Δ; the product with the point is rounded.
            constant = (
                constant + (term * point).sum(1) + (term.abs() * point.abs()).sum(1) * (2 * gamma(term.shape[1] + 16))
            )
        return _outward(constant, sweep.backward.upper(len(sweep.graph.nodes) - 1, one, owner, lines, extra, met))

    def _choice(
        self, scores: dict[int, Tensor], sweep: Sweep, phases: dict[int, Tensor], j: int
    ) -> tuple[int, int] | None:
        """The undecided neuron whose relaxation costs most; ``None`` when there is none."""
        best: tuple[float, int, int] | None = None
        for k in self.hinges:
            known = sweep.lines(k, "chord")
            open_ = (phases[k][j] == 0) & (known.slope_above[j] > 0) & (known.slope_above[j] < 1)
            if bool(open_.any()):
                score = torch.where(open_, scores[k][j] + 1e-300, -1.0)
                column = int(score.argmax())
                if best is None or score[column].item() > best[0]:
                    best = (score[column].item(), k, column)
        return None if best is None else best[1:]

    def _by_program(self, sweep: Sweep, phases: dict[int, Tensor], j: int, region: int, offset: float) -> float:
        """On a part where the network is affine: the multipliers (and the point) of a linear program."""
        sets = sweep.sets
        if not isinstance(sets, ConvexSets) or sets.blocks or (len(sets.root) and sets.order != 1) or sets.folds:
            return math.inf
        owner = torch.tensor([j])

        def chords(k: int) -> Lines:
            return sweep.lines(k, "chord")

        def form(i: int, column: int, sign: float) -> tuple[FloatArray, float]:
            row = torch.zeros(1, sweep.graph.width(i), dtype=torch.float64)
            row[0, column] = sign
            with torch.no_grad():
                coefficients, constant = sweep.backward.form(i, row, owner, chords)
            return coefficients[0].numpy(), float(constant[0])

        aim, _ = form(len(sweep.graph.nodes) - 1, self.column, self.sign)
        rows, bounds, names = [], [], []
        for k in self.hinges:
            source = sweep.graph.nodes[k].inputs[0]
            for column in phases[k][j].nonzero().flatten().tolist():
                s = float(phases[k][j, column])
                coefficients, constant = form(source, column, s)
                rows.append(-coefficients)
                bounds.append(constant + s * float(sweep.seen[k].point[j, column]))
                names.append((k, column))
        moving = sweep.backward.ground.moving
        move, multipliers = _solve(sets, moving, j, aim, rows, bounds)
        if move is not None and self.consider is not None:
            y = sweep.centre[j].clone()
            y[moving] += torch.from_numpy(move)
            self.reached[region] = max(self.reached[region].item(), self.consider(region, y))
        weights = {k: torch.zeros(len(sweep.centre), sweep.graph.width(k), dtype=torch.float64) for k in self.hinges}
        for (k, column), multiplier in zip(names, multipliers, strict=True):
            weights[k][j, column] = max(0.0, multiplier)
        one = torch.zeros(len(sweep.centre), sweep.graph.output_width, dtype=torch.float64)
        one[:, self.column] = self.sign
        with torch.no_grad():
            upper = self._evaluate(sweep, one, torch.arange(len(one)), {}, weights, phases, None)
        value = _outward(upper[j], torch.tensor(offset, dtype=torch.float64)).item()
        return math.inf if math.isnan(value) else value


def _outward(one: Tensor, other: Tensor) -> Tensor:
    """The sum of two upper bounds, rounded up."""
    return one + other + (one.abs() + other.abs()) * gamma(4)


def _solve(
    sets: ConvexSets, moving: Tensor, j: int, aim: FloatArray, rows: list[FloatArray], bounds: list[float]
) -> tuple[FloatArray | None, FloatArray]:
    """Maximise ``aim · v`` over a box, an order-1 ball and half-spaces ``rows · v ≤ bounds``.

    The point, and the half-spaces' multipliers; without a point when there is none, and then multipliers large enough
    to show it.
    """

    def at(part: Tensor) -> Tensor:
        return part[0] if len(part) == 1 else part[j]

    low, high = at(sets.low)[moving].numpy(), at(sets.high)[moving].numpy()
    width, extra = len(low), len(sets.root)
    # Columns: the moves, the absolute values of the ball's rows, and by how much half-spaces may be missed.
    table = np.zeros((len(rows), width + extra + 1))
    if rows:
        table[:, :width], table[:, -1] = np.array(rows), -1.0
    right = np.array(bounds)
    if extra:
        root, offset = sets.root[:, moving].numpy(), at(sets.offset).numpy()
        none, eye = np.zeros((extra, 1)), np.eye(extra)
        total = np.concatenate([np.zeros(width), np.ones(extra), [0.0]])
        table = np.vstack([table, np.hstack([root, -eye, none]), np.hstack([-root, -eye, none]), total])
        right = np.concatenate([right, -offset, offset, [float(at(sets.radius))]])
    goal = np.concatenate([aim, np.zeros(extra + 1)])
    limits = [*zip(low, high, strict=True), *[(0.0, None)] * extra]
    shape = {"A_ub": table, "b_ub": right, "method": "highs"} if len(table) else {"method": "highs"}
    found: Any = linprog(-goal, bounds=[*limits, (0.0, 0.0)], **shape)
    if found.status == 0:
        multipliers = -found.ineqlin.marginals[: len(rows)] if len(table) else np.zeros(0)
        return np.asarray(found.x[:width], dtype=np.float64), np.asarray(multipliers, dtype=np.float64)
    missed: Any = linprog(np.append(np.zeros(width + extra), 1.0), bounds=[*limits, (0.0, None)], **shape)
    if missed.status != 0 or missed.fun <= 0:
        return None, np.zeros(len(rows))
    # Missing by at least `fun` times the sum of multipliers: scale until that outweighs the goal over the box.
    size = float(np.abs(aim) @ np.maximum(np.abs(low), np.abs(high))) + 1.0
    return None, np.asarray(-missed.ineqlin.marginals[: len(rows)] * (4 * size / missed.fun), dtype=np.float64)
