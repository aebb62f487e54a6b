"""The lower side of a distributional certificate: a population that is close and is treated unequally.

Problem: find a distribution within Wasserstein distance γ of the individuals whose mean violation is as large as can
be. For a few radii, everybody's surroundings are searched for a person ``z`` with a large violation
(:meth:`Tier.nearby`); the violation of each such ``z`` is then attacked as that of any individual. What was found
is a list of points (cost, value) for every individual, and the budget γ^p is allocated to them by the dual's own greedy
rule.

**Soundness.** The search is trusted with nothing. A point counts only if ``z`` is in the domain, with its ground cost
rounded *up* and its violation rounded *down*, from a pair that was checked afresh. The result is a distribution, and
its mean violation is summed up again from its atoms.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import AttackBudget
from isonomy.attacks.judge import last_of_each
from isonomy.brief import brief
from isonomy.certificates.dual import Mixture, best_mixture
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import FURTHEST, Profiles
from isonomy.certificates.protocol import Shift
from isonomy.certificates.question import Question
from isonomy.certificates.transport import Transport
from isonomy.parallel import in_parallel
from isonomy_verify.arithmetic import mean_down

IntArray = NDArray[np.int64]

ROWS = 512
"""Pairs searched at once."""

AHEAD = 4.0
"""Shifts up to so many times as large are asked about, too: their populations go further."""

BISECTIONS = 30

MOST = 100.0
"""The largest order for which it is asked whether a way is worth it."""

STARTS = 2
"""Searches around each individual, from different places; what each of them finds is a point."""


@dataclass(frozen=True, eq=False)
class Points:
    """Attainable points of every individual: somebody at a cost (rounded up) with a violation (rounded down)."""

    owner: IntArray
    person: FloatArray
    counterpart: FloatArray
    cost: FloatArray
    value: FloatArray

    __repr__ = brief

    def mixture(self, weights: FloatArray, shift: Shift) -> Mixture:
        """The best use of the budget: a population of the shift."""
        return best_mixture(shift, self.owner, self.cost, self.value, weights)

    def worst(self, question: Question, shift: Shift) -> WorstCase:
        """The distribution itself: its atoms and their masses."""
        if not isinstance(shift, Transport):
            raise shift.lacks("no form for the atoms of its worst case")
        masses = self.mixture(question.weights, shift).masses(question.weights, len(self.owner))
        total = float(math.fsum(question.weights.tolist()))
        return WorstCase(self[masses > 0], masses[masses > 0], total, shift.order, question)

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
        return max(0.0, mean_down(self.points.value, self.masses))

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


def still(x: FloatArray, lower: FloatArray, counterpart: FloatArray) -> Points:
    """Everybody as they are, with what was found of them."""
    return Points(np.arange(len(x)), np.array(x), counterpart, np.zeros(len(x)), lower)


def search(moving: Moving, known: Points, shift: Transport, profile: Profiles, budget: AttackBudget) -> Points:
    """Attainable points of everybody: those that are known, and people within the radii of the shift that might be
    worth the way to somebody."""
    tier, question = moving.tier, moving.question
    x, points, everybody = question.x, known, np.arange(len(question.x))
    # People are many here, and most of them do not matter in the end: one restart for each of them is enough.
    budget = replace(budget, restarts=min(budget.restarts, 1))

    def around(job: tuple[IntArray, float, int]) -> Points | None:
        rows, radius, turn = job
        person = tier.nearby(rows, moving.reach.resized(radius), replace(budget, seed=budget.seed + turn))
        moved = np.flatnonzero((person != x[rows]).any(axis=1) & question.domain.contains(person))
        if not len(moved):
            return None
        rows, person = rows[moved], person[moved]
        finds = tier.attack(person, budget)
        cost = moving.ground.distance_upper(x[rows], person)
        return Points(rows, person, finds.counterpart, cost, finds.lower)

    for turn, radius in itertools.product(range(STARTS), search_radii(shift, moving.diameter)):
        if not _hopeful(points, profile, question.weights, shift, radius):
            continue
        jobs = [(everybody[start : start + ROWS], radius, turn) for start in range(0, len(x), ROWS)]
        several = [points, *(some for some in in_parallel(around, jobs) if some is not None)]
        parts = ([getattr(some, part.name) for some in several] for part in fields(Points))
        points = Points(*map(np.concatenate, parts)).best()
    return points


def _hopeful(points: Points, profile: Profiles, weights: FloatArray, shift: Transport, radius: float) -> bool:
    """Might anybody be worth a way of the radius, going by what is proved of everybody within it: is somebody's best
    point, with what ways cost the best population of ``AHEAD`` times the shift, not as good already?"""
    if shift.order > MOST:  # prices of ways are then beyond any number
        return True
    within = np.where(profile.radius >= radius, profile.value, profile.largest)
    promise = np.minimum.reduceat(np.minimum(within, profile.largest), profile.start[:-1])
    with np.errstate(over="ignore"):
        cost, way = (np.minimum((a / shift.gamma) ** shift.order, 1e300) for a in (points.cost, np.float64(radius)))
    total, budget = weights.sum() or 1.0, AHEAD**shift.order
    low, price = 0.0, profile.largest / budget
    for _ in range(BISECTIONS):
        middle = (low + price) / 2
        chosen = last_of_each(points.owner, points.value - middle * cost)
        low, price = (low, middle) if weights @ cost[chosen] <= budget * total else (middle, price)
    best = np.maximum.reduceat(points.value - low * cost, np.flatnonzero(np.diff(points.owner, prepend=-1)))
    return bool((promise - low * way > best).any())


def search_radii(shift: Transport, diameter: float) -> list[float]:
    """About γ and further, the likeliest first: somebody may be worth a long way while the others stay where they
    are."""
    furthest = min(diameter, FURTHEST)
    if shift.gamma == 0 or furthest == 0:
        return []
    if math.isinf(shift.order):
        return [min(shift.gamma, furthest)]
    if shift.gamma > furthest:
        return [furthest * 2.0**k for k in (-2, -1, -3, 0)]
    return [radius for k in (1, 0, 2, -1, 3, 4, 6, 8) if (radius := shift.gamma * 2.0**k) <= furthest]
