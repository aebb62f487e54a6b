"""Local bounds with a moving centre: the largest violation within a radius of each individual.

The bounds are the tier's (for networks :mod:`isonomy_verify.reach`); here are the individuals, in chunks,
and guides to good radii.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.protocol import ReachBounds, Tier, tier_for
from isonomy.parallel import in_parallel
from isonomy.problem import Problem
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import Similarity, refused
from isonomy_verify.arithmetic import norm_up
from isonomy_verify.reach import WIDE

__all__ = ["WIDE", "Moving"]

MARGIN = 1e-7
"""Decisions are claimed where they hold by more than this, the difference between machines."""

PIECES = 2
"""Batches of regions that are bounded for one group of individuals."""


@dataclass(frozen=True, eq=False)
class Moving:
    """A problem with individuals (n, m), their weights (n,) and a ground cost, whose balls around them are bounded.

    ``points`` is what searched points pay, where that is another cost.
    """

    problem: Problem
    x: FloatArray
    weights: FloatArray
    ground: Metric
    float32_run: bool = False
    points: Metric | None = None

    def bound(
        self,
        rows: NDArray[np.int64],
        radii: Sequence[float],
        tight: bool = True,
        tick: Callable[[int], None] = lambda rows: None,
    ) -> FloatArray:
        """Return upper bounds (rows, radii) of the violation within each of the ascending ``radii`` of ``x[rows]``.

        The work is that of one pass at the largest radius. Without ``tight`` it is a forward pass only. ``tick`` is
        called with every few rows that are done.
        """
        kernel, x = self.kernel, self.x
        size = self.tier.moving_size
        step = max(1, min(size, int(PIECES * size / self.regions)))
        starts = range(0, len(rows), step)
        bounds = [np.zeros((0, len(radii)))]
        with refused():
            each = in_parallel(lambda k: kernel.bound(np.array(x[rows[k : k + step]]), radii, tight, size), starts)
            for some in each:
                bounds.append(some)
                tick(len(some))
        return np.concatenate(bounds)

    def stands(self, rows: NDArray[np.int64], radius: float) -> NDArray[np.bool_]:
        """Return whether (rows,) no individual within the radius of ``x[rows]`` has a decision that a similar one has
        otherwise, by more than machines differ."""
        size = self.tier.moving_size
        step = max(1, min(size, int(PIECES * size / self.regions)))
        kernel, starts = self.kernel, range(0, len(rows), step)
        with refused():
            each = in_parallel(
                lambda k: kernel.stands(np.array(self.x[rows[k : k + step]]), radius, MARGIN, size), starts
            )
            return np.concatenate([np.zeros(0, dtype=bool), *each])

    def everywhere(self) -> tuple[float, float]:
        """Return an upper bound of every violation in the domain, and the radius around individuals up to which it
        holds."""
        with refused():
            return self.kernel.everywhere(self.x)

    @cached_property
    def regions(self) -> float:
        """Return the number of regions of an individual's similar set that have passes of their own, about."""
        return self.problem.similarity.passes(self.x)

    @cached_property
    def tier(self) -> Tier:
        """Return the tier of this kind of model."""
        return tier_for(self.problem, "tight", self.float32_run)

    @cached_property
    def kernel(self) -> ReachBounds:
        """Return the bounds over balls of the ground cost."""
        return self.tier.reach(self.ground)

    @cached_property
    def reach(self) -> Similarity:
        """Return the balls of the ground cost, of radius 0; the kernel derives its own."""
        return self._balls(self.ground)

    @property
    def spent(self) -> Metric:
        """Return what a searched point pays."""
        return self.ground if self.points is None else self.points

    @cached_property
    def around(self) -> Similarity:
        """Return the balls of what points pay, of radius 0, for searches."""
        return self.reach if self.points is None else self._balls(self.points)

    def _balls(self, cost: Metric) -> Similarity:
        free = replace(self.problem.domain, immutable=np.zeros(self.problem.domain.width, dtype=bool))
        return Similarity(cost, 0.0, free, self.problem.max_branches, keep=True)

    @cached_property
    def diameter(self) -> float:
        """Return about the largest finite ground cost between two possible individuals."""
        domain = self.problem.domain
        if domain.kind == "unbounded":
            return np.inf
        root, order = self.ground.gauge()
        across = float(norm_up(np.abs(root) @ (domain.high - domain.low), order))  # absolute values do not cancel
        high = np.where(self.ground.form.parts[0], domain.low, domain.high)  # where any move costs infinitely much
        return max(across, float(self.ground.distance_upper(domain.low[None], high[None])[0]))

    @cached_property
    def first_flip(self) -> float:
        """Return about the smallest ground cost of changing a category; only a guide to good radii."""
        domain = self.problem.domain
        costs = [np.inf]
        if domain.kind == "realizable":
            for start, stop in domain.blocks:
                flips = np.zeros((stop - start, domain.width))
                flips[:, start:stop] = np.eye(stop - start)
                if stop - start == 1:  # a flag is raised or not
                    flips = np.concatenate([flips, np.zeros_like(flips)])
                one, other = np.triu_indices(len(flips), 1)
                costs.append(float(self.ground.distance(flips[one], flips[other]).min()))
        return min(costs)
