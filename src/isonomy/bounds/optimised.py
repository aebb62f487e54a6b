"""The optimised tier: the free slopes of the linear tier, improved by gradient steps.

Problem: the line below an unstable ReLU may lean anywhere between 0 and 1. The bound of an output is a smooth enough
function of these slopes, so they are moved along its gradient, separately for the upper and the lower side of every
output and region.

**Soundness.** Every step is a valid linear bound of its own, evaluated with all its rounding terms; the smallest one
seen is returned. Nothing depends on the steps having converged, nor on when the time runs out.
"""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from isonomy.bounds.interval import Enclosure
from isonomy.bounds.linear import Linear, Sweep
from isonomy.bounds.relaxations import MODES, Lines, Mode, lean_by
from isonomy.networks.graph import Activation, Graph
from isonomy.sets import Shape

RATE = 0.25
"""Step size in slopes, which lie between 0 and 1; it falls to a tenth of itself over the steps."""


class Optimised:
    """A graph made ready for the optimised tier."""

    def __init__(
        self,
        graph: Graph,
        *,
        float32_run: bool = False,
        original: Graph | None = None,
        steps: int = 20,
        deadline: float = math.inf,
    ) -> None:
        self.linear = Linear(graph, float32_run=float32_run, original=original)
        self.steps, self.deadline = steps, deadline  # of time.monotonic()

    def enclose(self, centre: Tensor, sets: Shape, modes: tuple[Mode, ...] = MODES) -> Enclosure:
        """Enclose the outputs over ``centre + sets``, never worse than the linear tier."""
        sweep = self.linear.sweep(centre, sets)
        found = sweep.outputs(modes)
        low, high = found.low.clone(), found.high.clone()
        for column in range(found.point.shape[1]):
            for sign, best in ((1.0, high), (-1.0, low)):
                if time.monotonic() < self.deadline:
                    reached = sign * self._descend(sweep, column, sign)
                    best[:, column] = (torch.minimum if sign > 0 else torch.maximum)(best[:, column], reached)
        return Enclosure(found.point, found.error, low, high)

    def _descend(self, sweep: Sweep, column: int, sign: float) -> Tensor:
        """The smallest upper bound of ``sign · output`` met on the way, per region."""
        last, rows = len(sweep.graph.nodes) - 1, len(sweep.centre)
        one = torch.zeros(rows, sweep.graph.output_width, dtype=torch.float64)
        one[:, column] = sign
        owner = torch.arange(rows)
        free = _Slopes(sweep)
        best = torch.full((rows,), math.inf, dtype=torch.float64)
        if not free.values:
            return best
        optimiser = torch.optim.Adam(free.values.values(), lr=RATE)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.1 ** (1 / max(1, self.steps)))
        for _ in range(self.steps + 1):
            upper = sweep.backward.upper(last, one, owner, free.lines)
            best = torch.minimum(best, torch.where(upper.detach().isnan(), math.inf, upper.detach()))
            if time.monotonic() > self.deadline:
                break
            optimiser.zero_grad()
            torch.where(torch.isfinite(upper), upper, 0.0).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                for value in free.values.values():
                    value.nan_to_num_(0.5).clamp_(0.0, 1.0)
        return best


class _Slopes:
    """One slope per unstable ReLU and region, starting from the adaptive choice."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.values: dict[int, Tensor] = {}
        for k, node in enumerate(sweep.graph.nodes):
            if isinstance(node.op, Activation) and node.op.kind == "relu":
                self.values[k] = (sweep.lines(k, "chord").slope_above > 0.5).double().requires_grad_()

    def lines(self, k: int) -> Lines:
        """The lines of an activation at the present slopes."""
        known = self.sweep.lines(k, "chord")
        if k not in self.values:
            return known
        return lean_by(known, self.sweep.seen[k].point, self.sweep.seen[k].value, self.values[k])
