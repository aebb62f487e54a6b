"""Local bounds with a centre that moves: how unequally can anybody within reach of this individual be treated?

What is proved is the tier's (for networks :mod:`isonomy_verify.reach`); here are the individuals of a question, in
chunks, and guides to good radii.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.certificates.protocol import ReachBounds, Tier, tier_for
from isonomy.certificates.question import Question
from isonomy.parallel import in_parallel
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import Similarity, refused
from isonomy_verify.arithmetic import norm_up
from isonomy_verify.reach import WIDE

__all__ = ["WIDE", "Moving"]

PIECES = 2
"""Batches of regions that are bounded before the next few individuals have their turn."""


@dataclass(frozen=True, eq=False)
class Moving:
    """A question with a ground cost, ready to bound violations over balls around individuals."""

    question: Question
    ground: Metric
    float32_run: bool = False

    def bound(
        self,
        rows: NDArray[np.int64],
        radii: Sequence[float],
        tight: bool = True,
        tick: Callable[[int], None] = lambda rows: None,
    ) -> FloatArray:
        """Upper bounds (rows, radii) of the violation of anybody within each of the ascending ``radii`` of ``x[rows]``.

        The work is that of one pass at the largest radius. Without ``tight`` it is a forward pass only. ``tick`` is
        called with every few rows that are done.
        """
        kernel, x = self.kernel, self.question.x
        size = self.tier.moving_size
        step = max(1, min(size, int(PIECES * size / self.regions)))
        starts = range(0, len(rows), step)
        found = [np.zeros((0, len(radii)))]
        with refused():
            each = in_parallel(lambda k: kernel.bound(np.array(x[rows[k : k + step]]), radii, tight, size), starts)
            for some in each:
                found.append(some)
                tick(len(some))
        return np.concatenate(found)

    def everywhere(self) -> tuple[float, float]:
        """An upper bound of the violation of anybody at all, and up to which radius around individuals it holds."""
        with refused():
            return self.kernel.everywhere(self.question.x)

    @cached_property
    def regions(self) -> float:
        """Regions of similar people for each individual, counted on a few."""
        return self.question.similarity.count(self.question.x)

    @cached_property
    def tier(self) -> Tier:
        """What proves bounds of this kind of model."""
        return tier_for(self.question, "tight", self.float32_run)

    @cached_property
    def kernel(self) -> ReachBounds:
        """What proves them for people who move."""
        return self.tier.reach(self.ground)

    @cached_property
    def reach(self) -> Similarity:
        """Who is in reach, at radius 0, for those who search there; the kernel derives it by itself."""
        free = replace(self.question.domain, immutable=np.zeros(self.question.domain.width, dtype=bool))
        return Similarity(self.ground, 0.0, free, self.question.max_branches, keep=True)

    @cached_property
    def diameter(self) -> float:
        """The largest ground cost between two possible individuals."""
        domain = self.question.domain
        if domain.kind == "unbounded":
            return np.inf
        root, order = self.ground.gauge()
        across = float(norm_up(np.abs(root) @ (domain.high - domain.low), order))  # signs may cancel, here not
        return max(across, float(self.ground.distance_upper(domain.low[None], domain.high[None])[0]))

    @cached_property
    def first_flip(self) -> float:
        """About the smallest ground cost of changing a category; a guide to good radii, nothing more."""
        domain = self.question.domain
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
