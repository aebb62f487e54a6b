"""Branch and bound for what tiers leave open: decisions, and the gap between upper and lower bounds.

Regions of similar sets are bounded by the kernel's tiers first; every region and goal that these leave open becomes the
root of a tree of parts (:mod:`isonomy.search.branch`).

**Soundness.** A violation is the largest over all regions and goals, whichever way each was bounded; a decision is
certified only where it is in every region.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import Finds, Judge
from isonomy.bounds.kernel import prepared_for
from isonomy.parallel import one_thread
from isonomy.search.branch import CURVED, FEW, LEAVES, Budget, Limits, Trees
from isonomy_verify.branching import Leaves
from isonomy_verify.decisions import Goals, contested
from isonomy_verify.enclosure import Prepared
from isonomy_verify.sets import Regions, region_of
from isonomy_verify.similar import filled
from isonomy_verify.tiers import Enclosure, enclose_at

if TYPE_CHECKING:
    from isonomy.certificates.network_tier import Bounds

PEOPLE = 1024
"""Individuals searched together, whose parts share one budget."""

Index = NDArray[np.int64]


class GoalSearch(ABC):
    """Branch and bound for the open goals of individuals, ``rows`` of the table."""

    scores = False

    def __init__(self, bounds: Bounds, x: FloatArray, rows: Index, finds: Finds) -> None:
        self.bounds, self.rows, self.problem, self.head = bounds, rows, bounds.problem, bounds.head
        self.judge = Judge(bounds.network, self.head, self.problem.similarity, x[rows])
        self.finds = finds
        for part in _FIND_ARRAYS:
            getattr(self.judge, part)[:] = getattr(finds, part)[rows]
        self.at = enclose_at(bounds.kernel.alone, self.judge.x)
        self.influence = bounds.layers.reads

    def run(self, budget: Budget) -> None:
        """Bound all regions by tiers, then open goals by parts; better counterparts go to ``finds``."""
        seen = np.zeros(len(self.rows), dtype=bool)
        for regions in self.problem.similarity.each(self.judge.x):
            regions = filled(regions, self.problem.domain)
            seen[regions.owner] = True
            goals = self._goals_left_by_tiers(regions)
            prepared = self._prepared(regions)
            numbers = 4 * sum(layer.width for layer in prepared.network.layers) + 2 * prepared.network.width
            step = max(1, LEAVES // 4 // numbers)
            for start in range(0, len(goals.row), step):
                some = goals.of(slice(start, start + step))
                mine = regions[some.row]
                own = None
                if prepared.region is None:
                    own = region_of(mine.sets)
                    own = own.boxed(*(np.broadcast_to(end, mine.centre.shape) for end in (own.low, own.high)))
                leaves = Leaves(prepared, mine.centre, own, some.output, some.sign, some.bound)
                trees = Trees(leaves, mine, self.judge, self.influence)
                target = partial(self.target, some, mine.owner)
                self.record(some, mine.owner, trees.search(target, budget))
        self.mark_unbounded(np.flatnonzero(~seen))
        for part in _FIND_ARRAYS:
            getattr(self.finds, part)[self.rows] = getattr(self.judge, part)

    def _goals_left_by_tiers(self, regions: Regions) -> Goals:
        """Return the goals that the tiers, one after the other, leave open."""
        left = []
        for start in range(0, len(regions), self.bounds.size):
            rows = np.arange(start, min(start + self.bounds.size, len(regions)))
            for tier in self.bounds.kernel.ladder:
                piece = regions[rows]
                goals = self.open_goals(piece, self.bounds.kernel.over(piece, tier))
                goals, rows = goals._replace(row=rows[goals.row]), rows[np.unique(goals.row)]
            left.append(goals)
        return Goals.joined(left)

    def _prepared(self, regions: Regions) -> Prepared:
        """Return the prepared network: for a ball that all regions share, where that has many dimensions."""
        network = self.bounds.network
        # Of balls in few dimensions boxes are cut, and then every region differs.
        kinds = [node.activation.kind for node in network.graph.nodes if node.activation is not None]
        straight = all(kind in ("relu", "leaky_relu", "prelu", "clip") for kind in kinds)
        many = int((regions.sets.extent > 0).any(0).sum()) > (FEW if straight else CURVED)
        return prepared_for(network, regions.sets if many else None, self.bounds.float32_run, self.scores)

    @abstractmethod
    def open_goals(self, piece: Regions, over: Enclosure) -> Goals:
        """Return the goals that enclosures of the margins over regions leave open."""

    @abstractmethod
    def target(self, goals: Goals, owner: Index) -> FloatArray:
        """Return the bounds (goals,) at which a goal is closed, given the finds so far; infinity where it is
        already."""

    @abstractmethod
    def mark_unbounded(self, rows: NDArray[np.intp]) -> None:
        """Take nothing as proved of rows without a region: an individual is similar to itself, so none is no proof."""

    @abstractmethod
    def record(self, goals: Goals, owner: Index, bound: FloatArray) -> None:
        """Record proved bounds (goals,)."""


class GapSearch(GoalSearch):
    """Branch and bound for the largest violation, until ``upper`` and ``lower`` meet or a verdict is reached."""

    scores = True

    def __init__(self, bounds: Bounds, x: FloatArray, rows: Index, finds: Finds, limits: Limits) -> None:
        super().__init__(bounds, x, rows, finds)
        self.limits, self.upper = limits, np.zeros(len(rows))
        self.received = self.head.received(self.at)

    def open_goals(self, piece: Regions, over: Enclosure) -> Goals:
        """Return the outputs that may rise or fall by more than the target."""
        logits, goal = self.head.logits(over), target_upper(self.judge.lower, self.limits)[piece.owner]
        left = []
        for output in range(self.head.goals):
            for sign, bound in ((1.0, logits.high[:, output]), (-1.0, -logits.low[:, output])):
                goals = Goals(np.arange(len(bound)), np.full(len(bound), output), np.full(len(bound), sign), bound)
                value = self._value(goals, piece.owner, bound)
                small = value <= goal
                np.maximum.at(self.upper, piece.owner[small], value[small])
                left.append(goals.of(np.flatnonzero(~small)))
        return Goals.joined(left)

    def target(self, goals: Goals, owner: Index) -> FloatArray:
        """Return the bounds (goals,) of outputs at which violations reach their target."""
        most = target_upper(self.judge.lower, self.limits)[owner]
        goal = self.head.aim(self.received.of(owner), goals.output, goals.sign, most)
        return np.where(np.isinf(most), np.inf, goal)

    def record(self, goals: Goals, owner: Index, bound: FloatArray) -> None:
        """Raise ``upper`` to the largest violation of all goals."""
        np.maximum.at(self.upper, owner, self._value(goals, owner, bound))

    def mark_unbounded(self, rows: NDArray[np.intp]) -> None:
        """Set ``upper`` to infinity."""
        self.upper[rows] = np.inf

    def _value(self, goals: Goals, owner: Index, bound: FloatArray) -> FloatArray:
        return self.head.change(self.received.of(owner), goals.output, goals.sign, bound)


class DecisionSearch(GoalSearch):
    """Branch and bound for a change of decision."""

    def __init__(self, bounds: Bounds, x: FloatArray, rows: Index, finds: Finds) -> None:
        super().__init__(bounds, x, rows, finds)
        self.contests = self.head.contests(self.head.decision(self.at))
        self.stands = np.zeros(len(rows), dtype=bool)
        self.stands[self.contests.row] = True

    def open_goals(self, piece: Regions, over: Enclosure) -> Goals:
        """Return the contests that may be lost."""
        return contested(self.head, self.contests, len(self.rows), piece, over)

    def target(self, goals: Goals, owner: Index) -> FloatArray:
        """Return the bounds (goals,) that exclude a loss; infinity for individuals who lose a contest already."""
        lost = self.judge.flips | ~self.stands
        return np.where(lost[owner], np.inf, self.head.needed(goals.sign))

    def mark_unbounded(self, rows: NDArray[np.intp]) -> None:
        """Certify no decision of these rows."""
        self.stands[rows] = False

    def record(self, goals: Goals, owner: Index, bound: FloatArray) -> None:
        """Certify no decision of owners for whom a loss is not excluded."""
        self.stands[owner[~self.head.excluded(goals.sign, bound)]] = False


_FIND_ARRAYS = tuple(part.name for part in fields(Finds))


def target_upper(lower: FloatArray, limits: Limits) -> FloatArray:
    """Return the upper bounds (n,) at which a search stops; infinity once ε is decided."""
    if limits.epsilon is None:
        return lower + limits.gap
    return np.where(lower > limits.epsilon, np.inf, np.maximum(lower + limits.gap, limits.epsilon))


def budgets(rows: Index, limits: Limits, began: float) -> Iterator[tuple[Index, Budget]]:
    """Yield groups of rows, each with its budget: a share of what the groups before left."""
    nodes, deadline = limits.nodes, began + limits.seconds
    for start in range(0, len(rows), PEOPLE):
        some, now = rows[start : start + PEOPLE], time.monotonic()
        share = len(some) / (len(rows) - start)
        mine = nodes if math.isinf(nodes) else math.ceil(nodes * share)
        budget = Budget(mine, now + (deadline - now) * share)
        if budget.left:
            with one_thread():
                yield some, budget
        nodes -= mine - budget.nodes
