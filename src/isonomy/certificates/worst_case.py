"""The lower side of a distributional certificate: a close population with a large mean violation.

Problem: find a distribution within Wasserstein distance γ of the individuals whose mean violation is as large as can
be. For a few radii, the ball around each individual is searched for a candidate ``z`` with a large violation
(:meth:`Tier.nearby`); the violation of each ``z`` is then attacked as that of any individual. That gives a list of
points (cost, value) for every individual, and the budget γ^p is allocated to them by the dual's own greedy rule.

**Soundness.** The search is not trusted. A point counts only if ``z`` is in the domain, with its ground cost rounded
*up* and its violation rounded *down*, from a pair that was checked afresh. The result is a distribution, and its mean
violation is summed up again from its atoms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, power
from isonomy.attacks import AttackBudget
from isonomy.brief import brief
from isonomy.certificates.dual import Mixture, best_mixture
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import FURTHEST, NEAREST
from isonomy.certificates.protocol import Nearby, Shift
from isonomy.parallel import in_parallel
from isonomy.problem import Problem
from isonomy_verify.arithmetic import mean_down
from isonomy_verify.claims import Profiles

if TYPE_CHECKING:
    from isonomy.certificates.displacement import Displacement

IntArray = NDArray[np.int64]

ROWS = 512
"""Pairs searched at once."""

MANY = 16.0
"""Regions per individual from which on fewer pairs are searched at once."""

TURNS = 14
"""The most radii searched around an individual."""

NEAR = 5
"""Radii searched around every individual; larger ones where the profile allows a gain."""

AROUND = (-1, 0, 1)
"""Half octaves, from where the best populations have individuals travel, at which they are searched once more."""


@dataclass(frozen=True, eq=False)
class Points:
    """Attained points of every individual: a person at a cost (rounded up) with a violation (rounded down)."""

    owner: IntArray
    person: FloatArray
    counterpart: FloatArray
    cost: FloatArray
    value: FloatArray

    __repr__ = brief

    def mixture(self, weights: FloatArray, shift: Shift) -> Mixture:
        """Return the best use of the budget: a population of the shift."""
        return best_mixture(shift, self.owner, self.cost, self.value, weights)

    def worst(self, problem: Problem, weights: FloatArray, shift: Shift) -> WorstCase:
        """Return the worst distribution: its atoms and their masses."""
        return self.population(self.masses(weights, shift), shift, problem)

    def population(self, masses: FloatArray, shift: Shift, problem: Problem) -> WorstCase:
        """Return the distribution with these masses (k,) on the points."""
        some = masses > 0
        return WorstCase(self[some], masses[some], math.fsum(masses.tolist()), shift, problem)

    def masses(self, weights: FloatArray, shift: Shift) -> FloatArray:
        """Return the mass on each point (k,) in the best use of the budget."""
        return self.mixture(weights, shift).masses(weights, len(self.owner))

    def __getitem__(self, some: NDArray[Any] | slice) -> Points:
        return Points(*(getattr(self, part.name)[some] for part in fields(self)))

    def best(self) -> Points:
        """Return, by individual and cost, the points above the violation of all cheaper ones of their owner."""
        ordered = np.lexsort((-self.value, self.cost, self.owner))
        owner = self.owner[ordered]
        values, rank = np.unique(self.value[ordered], return_inverse=True)
        apart = owner * (len(values) + 1) + rank  # the largest so far never reaches into the next individual
        rises = np.append(True, apart[1:] > np.maximum.accumulate(apart)[:-1]) | (np.diff(owner, prepend=-1) > 0)
        return self[ordered[rises]]


NO_POINTS = Points(np.zeros(0, dtype=np.int64), *(np.empty((0, 0)),) * 2, *(np.zeros(0),) * 2)


@dataclass(frozen=True, eq=False)
class WorstCase:
    """A distribution: atoms with their owners, masses, and the transport cost."""

    points: Points
    masses: FloatArray  # in units of the individuals' weights; their sum is ``total``
    total: float
    shift: Shift
    problem: Problem = field(repr=False)

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.masses)

    @property
    def value(self) -> float:
        """Return its mean violation, rounded down."""
        return max(0.0, mean_down(self.points.value, self.masses))

    @property
    def transport(self) -> float:
        """Return the Wasserstein cost of its plan, in plain arithmetic; its distance is at most that."""
        order = self.shift.number("order")
        if math.isinf(order):
            return float(self.points.cost.max(initial=0.0))
        furthest = float(self.points.cost.max(initial=0.0)) or 1.0  # divided by it no power overflows
        spent = float((self.masses / self.total) @ (self.points.cost / furthest) ** order)
        return float(furthest * spent ** (1 / order))

    def frame(self) -> pd.DataFrame:
        """Return the atoms in raw units, with the individual each comes from, its mass, cost and violation."""
        table = self.problem.raw(self.points.person)
        extra = {
            "individual": self.points.owner,
            "mass": self.masses / self.total,
            "cost": self.points.cost,
            "violation": self.points.value,
        }
        return pd.concat([pd.DataFrame(extra), table.reset_index(drop=True)], axis=1)


def gathered(several: Iterable[Points]) -> Points:
    """Return all points together."""
    some = list(several)
    return Points(*(np.concatenate([getattr(each, part.name) for each in some]) for part in fields(Points)))


def zero_cost_points(x: FloatArray, lower: FloatArray, counterpart: FloatArray) -> Points:
    """Return one point of cost 0 for every individual, with its attained violation."""
    return Points(np.arange(len(x)), np.array(x), counterpart, np.zeros(len(x)), lower)


def search(
    moving: Moving,
    known: Points,
    shift: Displacement,
    profile: Profiles,
    budget: AttackBudget,
    tick: Callable[[int], None] = lambda rows: None,
) -> tuple[Points, Points]:
    """Add points around the individuals to those that are known, and return them with those of value 1 where a decision
    was turned; ``tick`` is called with the number of individuals searched at one radius, all of them for each of at
    most ``TURNS`` radii.

    First a few radii are searched around every individual. The best populations of these points say how far each
    individual would travel, and there they are searched once more, a little nearer and a little further.
    """
    tier, x, every_row = moving.tier, moving.x, np.arange(len(moving.x))
    nearby = tier.nearby(x)
    # Candidates are many, and most of them do not matter in the end: one restart for each of them is enough.
    budget = replace(budget, restarts=min(budget.restarts, 1))

    def around(job: tuple[float, IntArray, int], nearby: Nearby = nearby) -> tuple[Points, Points] | None:
        radius, rows, turn = job
        person = nearby(rows, moving.around.resized(radius), replace(budget, seed=budget.seed + turn))
        return _attacked(moving, rows, person, budget)

    turned = known[:0]

    def searched(points: Points, jobs: Iterable[tuple[float, IntArray, int]]) -> Points:
        step = max(1, min(ROWS, int(ROWS * MANY / moving.regions)))
        cut = [(r, rows[k : k + step], turn) for r, rows, turn in jobs for k in range(0, len(rows), step)]
        nonlocal turned
        several = [(points, turned)]
        for (_, rows, _), some in zip(cut, in_parallel(around, cut), strict=True):
            several += [] if some is None else [some]
            tick(len(rows))
        points, turned = (gathered(each).best() for each in zip(*several, strict=True))
        return points

    def nearest(turned: Points) -> Points:
        """Add those whose decision can change, searched for where they are not as near as a radius already."""
        turning = tier.turning(x)
        for radius in radii if turning is not None else ():
            rows = np.setdiff1d(every_row, turned.owner[turned.cost <= radius / 2])
            assert turning is not None
            some = around((radius, rows, 0), turning) if len(rows) else None
            turned = turned if some is None else gathered([turned, some[1]]).best()
        return turned

    radii = search_radii(shift, moving.diameter)
    if not radii or math.isinf(shift.exponent):
        return searched(known, [(radius, every_row, turn) for radius in radii for turn in (0, 1)]), nearest(turned)
    first = radii[NEAR - 1 : NEAR] or radii[-1:] if tier.nested else radii[:NEAR]
    points = searched(known, [(radius, every_row, 0) for radius in first])
    weights = moving.weights if moving.weights.any() else np.ones(len(x))
    now, ahead = (points.mixture(weights, shift.resized(size)) for size in (shift.radius, 2 * shift.radius))
    rise = ahead.value - now.value
    jobs = [(radius, _candidates_at(points, profile, shift, radius, rise), 1) for radius in radii[NEAR:]]
    if tier.nested:
        return searched(points, jobs), nearest(turned)
    way, unit = points.cost[np.stack([now.dear, ahead.dear])], radii[-1]
    steps = np.rint(2 * np.log2(np.maximum(way / unit, NEAREST)))
    for step in np.unique(steps[way > 0]):
        rows = np.flatnonzero(((steps == step) & (way > 0)).any(axis=0))
        jobs += [(min(unit * 2.0 ** ((step + k) / 2), moving.diameter, FURTHEST), rows, 1) for k in AROUND]
    return searched(points, jobs), nearest(turned)


def _attacked(moving: Moving, rows: IntArray, person: FloatArray, budget: AttackBudget) -> tuple[Points, Points] | None:
    """Return what people (n, m), or several (n, k, m), around some rows attain, and those whose decision was turned
    after a move; nothing where all stay."""
    tier, x = moving.tier, moving.x
    if person.ndim == 3:  # each once
        rows, several = np.repeat(rows, person.shape[1]), person
        new = np.append(np.ones((len(person), 1), dtype=bool), (person[:, 1:] != person[:, :-1]).any(2), axis=1)
        person = np.where(new[..., None], several, x[rows].reshape(several.shape)).reshape(len(rows), -1)
    moved = np.flatnonzero((person != x[rows]).any(axis=1) & moving.problem.domain.contains(person))
    if not len(moved):
        return None
    rows, person = rows[moved], person[moved]
    finds = tier.attack(person, budget, tier.chunk(person))  # a find near its bound ends the search
    cost = moving.spent.distance_upper(x[rows], person)
    points = Points(rows, person, finds.counterpart, cost, finds.lower)
    turns = Points(rows, person, finds.flip_counterpart, cost, np.ones(len(rows)))
    return points, turns[finds.flips & (cost > 0)]


def _candidates_at(points: Points, profile: Profiles, shift: Displacement, radius: float, rise: float) -> IntArray:
    """Return the individuals whose bound within a radius allows a gain above the price of a quarter of the way to it,
    where ``rise`` is the gain of the best population when γ is doubled."""
    within = np.where(profile.radius >= radius, profile.value, profile.largest)
    promise = np.minimum.reduceat(within, profile.start[:-1]) - points.value[points.cost == 0]
    return np.flatnonzero(promise > rise * power(radius / (4 * shift.radius), shift.exponent))


def search_radii(shift: Displacement, diameter: float) -> list[float]:
    """Return radii about γ and larger ones: one individual may travel far while the others stay."""
    furthest = min(diameter, FURTHEST)
    if shift.radius == 0 or furthest == 0:
        return []
    if math.isinf(shift.exponent):
        return [min(shift.radius, furthest)]
    if shift.radius > furthest:
        return [furthest * 2.0**k for k in (-3, -2, -1, 0)]
    return [radius for k in (-1, 0, 1, 2, 3, 4, 6, 8) if (radius := shift.radius * 2.0**k) <= furthest]
