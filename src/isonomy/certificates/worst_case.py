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
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import Effort, Field, as_individuals, attack, find_anchors, led_back
from isonomy.bounds.kernel import prepared_for
from isonomy.brief import brief
from isonomy.certificates.dual import Mixture, best_mixture
from isonomy.certificates.moving import Moving
from isonomy.certificates.question import Question
from isonomy.parallel import in_parallel
from isonomy.similarity.regions import Regions
from isonomy_verify.arithmetic import down
from isonomy_verify.sets import ConvexSets

IntArray = NDArray[np.int64]

ROWS = 512
"""Pairs searched at once."""

EXAMPLES = 32
"""Individuals by whom the precision of the search is chosen."""

FAR = 1e6
"""How far the search goes where nothing holds it back."""

STARTS = 2
"""Searches around each individual, from different places; what each of them finds is a point."""

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

    def mixture(self, weights: FloatArray, gamma: float, order: float) -> Mixture:
        """The best use of the budget: a distribution within γ."""
        return best_mixture(self.owner, self.cost, self.value, weights, order, gamma)

    def worst(self, question: Question, gamma: float, order: float) -> WorstCase:
        """The distribution itself: its atoms and their masses."""
        masses = self.mixture(question.weights, gamma, order).masses(question.weights, len(self.owner))
        total = float(math.fsum(question.weights.tolist()))
        return WorstCase(self[masses > 0], masses[masses > 0], total, order, question)

    def __getitem__(self, some: NDArray[Any] | slice) -> Points:
        return Points(*(getattr(self, part.name)[some] for part in fields(self)))

    def best(self) -> Points:
        """By individual and cost, those of whom nobody cheaper has as large a violation: others are of no use."""
        ordered = np.lexsort((-self.value, self.cost, self.owner))
        owner = self.owner[ordered]
        values, rank = np.unique(self.value[ordered], return_inverse=True)
        apart = owner * (len(values) + 1) + rank  # the largest so far never reaches into the next individual
        rises = np.append(True, apart[1:] > np.maximum.accumulate(apart)[:-1]) | (np.diff(owner, prepend=-1) > 0)
        return self[ordered[rises]]


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
    question = moving.question
    head = moving.head
    x, everybody = question.x, np.arange(len(question.x))
    field = Field.of(prepared_for(question.model), head, x[:EXAMPLES])

    # People are many here, and most of them do not matter in the end: one restart for each of them is enough.
    effort = replace(effort, restarts=min(effort.restarts, 1))

    def around(job: tuple[float, int, int]) -> Points | None:
        radius, start, turn = job
        rows = everybody[start : start + ROWS]
        person = _surroundings(moving, field, rows, radius, replace(effort, seed=effort.seed + turn))
        moved = np.flatnonzero((person != x[rows]).any(axis=1) & question.domain.contains(person))
        if not len(moved):
            return None
        rows, person = rows[moved], person[moved]
        finds = attack(question.model, head, question.similarity, person, effort)
        cost = moving.ground.distance_upper(x[rows], person)
        return Points(rows, person, finds.counterpart, cost, finds.lower)

    still = Points(everybody, np.array(x), counterpart, np.zeros(len(x)), lower)
    jobs = list(itertools.product(radii, range(0, len(x), ROWS), range(STARTS)))
    return joined([still, *(some for some in in_parallel(around, jobs) if some is not None)]).best()


def joined(several: Sequence[Points]) -> Points:
    """Points of the same individuals in one."""
    return Points(*(np.concatenate([getattr(some, part.name) for some in several]) for part in fields(Points)))


@np.errstate(all="ignore")  # what overflows is no find
def _surroundings(moving: Moving, field: Field, rows: IntArray, radius: float, effort: Effort) -> FloatArray:
    """For each individual the person within the radius whom the search likes best."""
    question = moving.question
    x = np.array(question.x[rows])
    ball = moving.reach.resized(radius)
    best, person = np.full(len(x), -np.inf), x.copy()
    rng = np.random.default_rng(effort.seed)
    for regions in ball.regions(x):
        near = _promising(field, regions)
        anchors, inside = find_anchors(near.sets, len(near))
        near, anchors = near[inside], anchors[inside]
        base = np.clip(near.centre + anchors, question.domain.low, question.domain.high)
        wander = near.sets.low, near.sets.high
        for between in question.similarity.regions(base, wander) if len(near) else []:
            between = _first_of_each(between)
            some, start = near[between.owner], anchors[between.owner]
            change = between.centre - base[between.owner]
            for target, sign in itertools.product(range(field.targets), (1.0, -1.0)):
                value, moves = _ascend(field, some, start, between, change, target, sign, effort, rng)
                for z in as_individuals(ball, some.centre, start, moves):
                    better = (value > best[some.owner]) & (ball.metric.distance_upper(x[some.owner], z) <= radius)
                    rising = np.flatnonzero(better)
                    rising = rising[np.argsort(value[rising], kind="stable")]  # the best of an individual comes last
                    best[some.owner[rising]], person[some.owner[rising]] = value[rising], z[rising]
    return person


def _promising(field: Field, regions: Regions) -> Regions:
    """A few regions of each individual: those whose centre stands nearest to a change of decision."""
    if len(np.unique(regions.owner)) == len(regions):
        return regions
    margin = np.abs(field.margins(regions.centre)).min(1)
    order = np.lexsort((margin, regions.owner))
    owner = regions.owner[order]
    first = np.searchsorted(owner, owner)
    return regions[np.sort(order[np.arange(len(order)) - first < BRANCHES])]


def _first_of_each(between: Regions) -> Regions:
    """One choice of categories for the other person: the first, since the attack that follows looks at all."""
    _, first = np.unique(between.owner, return_index=True)
    return between[first]


def _ascend(
    field: Field,
    near: Regions,
    anchors: FloatArray,
    between: Regions,
    change: FloatArray,
    target: int,
    sign: float,
    effort: Effort,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Raise the difference between somebody near and somebody similar, both moving; the best seen, and its moves.

    ``change`` are the other person's categories, less those of the first.
    """
    nearby, apart = near.sets, between.sets
    rest, inside = find_anchors(apart, len(between))
    centre, d = near.centre, rest
    aim, signs = np.full(len(centre), target), np.full(len(centre), sign)
    # A start away from the anchor: at the individual itself nothing pulls in any direction where runs are straight.
    v = led_back(nearby, anchors, anchors + rng.normal(size=anchors.shape) * (np.minimum(nearby.extent, FAR) * 0.1))
    best, top = v, np.full(len(v), -np.inf)
    for step in range(effort.steps + 1):
        z = centre + v
        (one, by_one), (other, by_other) = (_value(field, place, aim, signs, target) for place in (z, z + change + d))
        rise = sign * (other - one)
        better = rise > top
        best, top = np.where(better[:, None], v, best), np.where(better, rise, top)
        size = 1.0 - step / (effort.steps + 1)
        v = led_back(nearby, anchors, v + _step(nearby, by_other - by_one) * (0.5 * size))
        d = led_back(apart, rest, d + _step(apart, by_other) * size)
    return np.where(inside, top, -np.inf), best


def _value(
    field: Field, place: FloatArray, aim: IntArray, signs: FloatArray, target: int
) -> tuple[FloatArray, FloatArray]:
    """What somebody receives, and its gradient times the sign."""
    scores, gradient = field.climbed(place, aim, signs)
    received = field.received(scores[:, target])
    if field.head.kind == "regression":
        return received, gradient
    return received, gradient * (received * (1 - received))[:, None]


def _step(sets: ConvexSets, gradient: FloatArray) -> FloatArray:
    """A step along the gradient, as long as the region is wide."""
    wide = gradient * np.minimum(sets.extent, FAR) ** 2
    length = np.sqrt((np.abs(gradient) * np.abs(wide)).sum(1, keepdims=True))
    return np.asarray(wide / np.maximum(length, 1e-300))
