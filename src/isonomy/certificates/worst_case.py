"""The lower side of a distributional certificate: a population that is close and is treated unequally.

Problem: find a distribution within Wasserstein distance γ of the individuals whose mean violation is as large as can
be. For a few radii, everybody's surroundings are searched for a person ``z`` with a large violation (gradient ascent on
the pair ``z, y`` together); the violation of each such ``z`` is then attacked as that of any individual. What was found
is a list of points (cost, value) for every individual, and the budget γ^p is allocated to them by the dual's own greedy
rule.

**Soundness.** The search is trusted with nothing. A point counts only if ``z`` is in the domain, with its ground cost
rounded *up* and its violation rounded *down*, from a pair that was checked afresh. The result is a distribution, and
its mean violation is summed up again from its atoms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from isonomy.arithmetic import FloatArray, down
from isonomy.attacks import Effort, as_individuals, attack, find_anchors, led_back, search_precision, targets
from isonomy.bounds.ends import Ends
from isonomy.brief import brief
from isonomy.certificates.dual import allocate, power_lower, power_upper
from isonomy.certificates.moving import Moving
from isonomy.certificates.question import Question
from isonomy.parallel import in_parallel
from isonomy.similarity.regions import Regions

IntArray = NDArray[np.int64]

ROWS = 512
"""Pairs searched at once."""

BRANCHES = 3
"""Choices of categories looked at for each individual: those that stand nearest to a change of decision."""


@dataclass(frozen=True, eq=False)
class Points:
    """Attainable points of every individual: somebody at a cost (rounded up) with a violation (rounded down)."""

    owner: IntArray
    person: FloatArray
    counterpart: FloatArray
    cost: FloatArray
    value: FloatArray

    __repr__ = brief

    def worst(self, question: Question, gamma: float, order: float) -> WorstCase:
        """The best use of the budget: a distribution within γ."""
        weights = question.weights
        if math.isinf(order) or gamma in (0, math.inf):
            masses = self._furthest(weights, gamma)
        else:
            costs, masses = power_upper(self.cost, order), np.zeros(len(self.cost))
            some = np.isfinite(costs)  # who is further away than that costs more than any budget
            masses[some] = allocate(
                self.owner[some], costs[some], self.value[some], weights, float(power_lower(gamma, order))
            )
        some = masses > 0
        kept = Points(self.owner[some], self.person[some], self.counterpart[some], self.cost[some], self.value[some])
        return WorstCase(kept, masses[some], float(math.fsum(weights.tolist())), order, question)

    def _furthest(self, weights: FloatArray, gamma: float) -> FloatArray:
        """Without a common budget everybody takes their own worst point in reach."""
        value = np.where(self.cost <= gamma, self.value, -1.0)
        last = np.lexsort((value, self.owner))
        top = last[np.append(np.diff(self.owner[last]) > 0, True)]
        masses = np.zeros(len(value))
        masses[top] = weights[self.owner[top]]
        return masses


@dataclass(frozen=True, eq=False)
class WorstCase:
    """A distribution: atoms (people and where they come from), their masses, and what it costs to get there."""

    points: Points
    masses: FloatArray  # in units of the individuals' weights, whose sum is ``total``
    total: float
    order: float
    question: Question = field(repr=False)

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.masses)

    @property
    def value(self) -> float:
        """Its mean violation, rounded down."""
        products = down(self.masses * self.points.value)
        mean = math.fsum(products.tolist()) / (self.total * (1 + 2.0**-50))
        return max(0.0, float(down(mean)))

    @property
    def transport(self) -> float:
        """The Wasserstein cost of the plan that made it, in plain arithmetic; its distance is at most that."""
        if math.isinf(self.order):
            return float(self.points.cost.max(initial=0.0))
        furthest = float(self.points.cost.max(initial=0.0)) or 1.0  # beside it no power overflows
        spent = float((self.masses / self.total) @ (self.points.cost / furthest) ** self.order)
        return float(furthest * spent ** (1 / self.order))

    def frame(self) -> pd.DataFrame:
        """The atoms in raw units, with the individual each comes from, its mass, cost and violation."""
        table = self.question.raw(self.points.person)
        extra = {
            "individual": self.points.owner,
            "mass": self.masses / self.total,
            "cost": self.points.cost,
            "violation": self.points.value,
        }
        return pd.concat([pd.DataFrame(extra), table.reset_index(drop=True)], axis=1)


def search(
    moving: Moving, lower: FloatArray, counterpart: FloatArray, radii: Sequence[float], effort: Effort
) -> Points:
    """Attainable points of everybody: the individual itself with what is known of it, and people at the ``radii``."""
    question, ends = moving.question, moving.ends
    x, everybody = question.x, np.arange(len(question.x))

    def around(job: tuple[float, int]) -> Points | None:
        radius, start = job
        rows = everybody[start : start + ROWS]
        person = _surroundings(moving, rows, radius, effort)
        moved = np.flatnonzero((person != x[rows]).any(axis=1) & question.domain.contains(person))
        if not len(moved):
            return None
        rows, person = rows[moved], person[moved]
        finds = attack(question.network.margins, ends, question.similarity, person, effort)
        cost = moving.ground.distance_upper(x[rows], person)
        return Points(rows, person, finds.counterpart, cost, finds.lower)

    still = Points(everybody, np.array(x), counterpart, np.zeros(len(x)), lower)
    jobs = list(itertools.product(radii, range(0, len(x), ROWS)))
    found = [still, *(some for some in in_parallel(around, jobs) if some is not None)]
    parts = ("owner", "person", "counterpart", "cost", "value")
    return Points(*(np.concatenate([getattr(some, part) for some in found]) for part in parts))


def _surroundings(moving: Moving, rows: IntArray, radius: float, effort: Effort) -> FloatArray:
    """For each individual the person within the radius whom the search likes best."""
    question = moving.question
    x = np.array(question.x[rows])
    ball = moving.reach.resized(radius)
    best, person = np.full(len(x), -np.inf), x.copy()
    generator = torch.Generator().manual_seed(effort.seed)
    for regions in ball.regions(x):
        near = _promising(moving, regions)
        anchors, inside = find_anchors(near)
        near, anchors = near[inside], anchors[torch.from_numpy(inside)]
        base = np.clip((near.centre + anchors).numpy(), question.domain.low, question.domain.high)
        wander = near.sets.low.numpy(), near.sets.high.numpy()
        for between in question.similarity.regions(base, wander) if len(near) else []:
            between = _first_of_each(between)
            some, start = near[between.owner], anchors[torch.from_numpy(between.owner)]
            change = between.centre - torch.from_numpy(base[between.owner])
            for target, sign in itertools.product(range(targets(moving.ends)), (1.0, -1.0)):
                value, moves = _ascend(moving, some, start, between, change, target, sign, effort, generator)
                for z in as_individuals(ball, some, start, moves):
                    better = (value > best[some.owner]) & (ball.metric.distance_upper(x[some.owner], z) <= radius)
                    rising = np.flatnonzero(better)
                    rising = rising[np.argsort(value[rising], kind="stable")]  # the best of an individual comes last
                    best[some.owner[rising]], person[some.owner[rising]] = value[rising], z[rising]
    return person


def _promising(moving: Moving, regions: Regions) -> Regions:
    """A few regions of each individual: those whose centre stands nearest to a change of decision."""
    if len(np.unique(regions.owner)) == len(regions):
        return regions
    with torch.no_grad():
        margin = moving.question.network.margins.evaluate(regions.centre).abs().amin(1).numpy()
    order = np.lexsort((margin, regions.owner))
    owner = regions.owner[order]
    first = np.searchsorted(owner, owner)
    return regions[np.sort(order[np.arange(len(order)) - first < BRANCHES])]


def _first_of_each(between: Regions) -> Regions:
    """One choice of categories for the other person: the first, since the attack that follows looks at all."""
    _, first = np.unique(between.owner, return_index=True)
    return between[first]


def _ascend(
    moving: Moving,
    near: Regions,
    anchors: Tensor,
    between: Regions,
    change: Tensor,
    target: int,
    sign: float,
    effort: Effort,
    generator: torch.Generator,
) -> tuple[FloatArray, Tensor]:
    """Raise the difference between somebody near and somebody similar, both moving; the best seen, and its moves.

    ``change`` are the other person's categories, less those of the first.
    """
    graph, ends = moving.question.network.margins, moving.ends
    rest, inside = find_anchors(between)
    d = rest.clone()
    # A start away from the anchor: at the individual itself nothing pulls in any direction where runs are straight.
    noise = torch.randn(anchors.shape, generator=generator, dtype=torch.float64) * (
        near.sets.extent.clamp(max=1e6) * 0.1
    )
    v = led_back(near.sets, anchors, anchors + noise)
    best, top = v.clone(), torch.full((len(v),), -torch.inf, dtype=torch.float64)
    precision = search_precision(graph, near.centre + v)
    for step in range(effort.steps + 1):
        v.requires_grad_(), d.requires_grad_()
        z = near.centre + v
        places = z, z + change + d
        one, other = (_value(graph.evaluate(place, precision).double(), ends, target) for place in places)
        rise = sign * (other - one)
        by_v, by_d = torch.autograd.grad(rise.sum(), (v, d))
        v, d, rise = v.detach(), d.detach(), rise.detach()
        better = rise > top
        best[better], top[better] = v[better], rise[better]
        size = 1.0 - step / (effort.steps + 1)
        v = led_back(near.sets, anchors, v + _step(near, by_v) * (0.5 * size))
        d = led_back(between.sets, rest, d + _step(between, by_d) * size)
    return np.where(inside, top.numpy(), -np.inf), best


def _step(regions: Regions, gradient: Tensor) -> Tensor:
    """A step along the gradient, as long as the region is wide."""
    sets = regions.sets
    reach = sets.extent.clamp(max=1e6)
    wide = gradient * reach**2
    length = (gradient.abs() * wide.abs()).sum(1, keepdim=True).clamp(min=1e-300).sqrt()
    return wide / length


def _value(margins: Tensor, ends: Ends, target: int) -> Tensor:
    """What somebody receives, as a smooth function of the margins."""
    if ends.head == "regression":
        return margins[:, target]
    if ends.head == "softmax" and ends.classes > 2:
        return torch.sigmoid(-torch.logsumexp(margins.reshape(len(margins), ends.classes, -1)[:, target], 1))
    return torch.sigmoid(margins[:, target])
