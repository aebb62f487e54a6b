"""The tier of networks: the kernel's bounds as :class:`Tier`, and the ascent on pairs.

To find a point within reach with a large violation, the difference between a person ``z`` nearby and ``y`` similar to
``z`` is raised by gradient steps of both together. Its results are not trusted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.attacks import AttackBudget, Field, Finds, as_individuals, attack, find_anchors, project_to_region
from isonomy.attacks.places import FAR
from isonomy.attacks.search import first_of_each
from isonomy.bounds.kernel import head_of, preparations, prepared_for
from isonomy.certificates.protocol import Nearby, Tier, register
from isonomy.certificates.settling import DecisionSearch, GapSearch, budgets, target_upper
from isonomy.errors import MetricError, ParameterError, UnsupportedOperationError
from isonomy.networks.network import Network
from isonomy.parallel import one_thread
from isonomy.population import Domain
from isonomy.population.outcome import favourable_places
from isonomy.problem import Problem
from isonomy.progress import Progress
from isonomy.search.branch import Budget, Limits
from isonomy.search.pairs import cutting_of
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import Regions, Similarity, refused
from isonomy_verify import tiers
from isonomy_verify.combinations import product_of
from isonomy_verify.cutting import Cutting
from isonomy_verify.hints.ascent import improve
from isonomy_verify.local import Known, LocalBounds
from isonomy_verify.network import Network as Layers
from isonomy_verify.reach import Reach
from isonomy_verify.sets import ConvexSets
from isonomy_verify.similar import CentreBox

IntArray = NDArray[np.int64]

_KERNEL: dict[str, tiers.Tier] = {
    "interval": "interval", "quick": "quick", "tight": "tight", "exact": "tight", "paper": "interval",
}  # fmt: skip

NUMBERS = {"interval": 2**19, "paper": 2**19}
"""Activations of the widest layer at a time, so that they stay in cache and memory does not grow with the table; the
tiers that look back at earlier layers keep more of them, and take half."""

HELD = 4096
"""Individuals with many combinations of categories that are searched at a time."""

PARTS = 4096
"""By default a decision may cost this over the width of the widest layer parts on average: parts of wide networks cost
more."""

PAIR_NUMBERS = 2**13
"""The same for pairs of people, of which everything is kept."""

EXAMPLES = 32
"""Individuals on which the precision of the search is chosen."""

BRANCHES = 3
"""Choices of categories searched for each individual: those nearest to a change of decision."""


def chunk_rows(network: Layers, tier: str) -> int:
    """Return the number of individuals bounded at a time."""
    return max(64, min(4096, NUMBERS.get(tier, 2**18) // network.widest))


class Bounds(Tier):
    """The kernel's tiers, ``kernel``, for a problem about a network."""

    def __init__(self, problem: Problem, tier: str, float32_run: bool) -> None:
        assert isinstance(problem.model, Network)
        outcome, self.network = problem.outcome, problem.model
        network = preparations(self.network)
        head = head_of(self.network, outcome.threshold, float32_run, favourable_places(outcome))
        self.problem, self.layers = problem, network.network
        if problem.domain.kind == "unbounded":
            if any(layer.activation is not None and layer.activation.kind == "log1p" for layer in self.layers.layers):
                raise UnsupportedOperationError(
                    f"'{self.network.name}' takes log1p of columns that the schema keeps from falling below 0, and on "
                    "the unbounded domain they do: use domain 'realizable' or 'relaxed'."
                )
            free = problem.metric.free & ~problem.domain.immutable
            refuse_free_reading(problem.domain, self.layers, free, "metric", "similar individuals")
        self.head, self.size, self.float32_run = head, chunk_rows(self.layers, tier), float32_run
        self.kernel = LocalBounds(
            network, head, problem.similarity.kernel, _KERNEL[tier], float32_run, tier == "paper", self.size, improve
        )
        self.moving_size = max(16, min(1024, 2**17 // self.layers.widest))
        self.pair_size = max(16, min(512, PAIR_NUMBERS // self.layers.widest))
        below = np.cumsum([sum(block.weight.size for block in layer.blocks) for layer in self.layers.layers])
        looking_back = sum(int(size) * layer.width for size, layer in zip(below, self.layers.layers, strict=True))
        self.price = float(below[-1]) if tier in ("interval", "paper") else float(looking_back)

    def chunk(self, x: FloatArray) -> Known:
        """Return the kernel's bounds for the rows of ``x``."""
        with refused():
            return self.kernel.chunk(x)

    def kernel_bounds(self) -> LocalBounds:
        """Return the kernel's bounds of this tier."""
        return self.kernel

    def reach(self, ground: Metric) -> Reach:
        """Return the kernel's bounds of two runs and their difference."""
        domain = self.problem.domain
        if domain.kind == "unbounded":
            refuse_free_reading(domain, self.layers, ground.free, "ground cost", "people within reach")
        with refused():
            return self.kernel.reach(ground.form)

    def attack(self, x: FloatArray, budget: AttackBudget, known: Known | None = None) -> Finds:
        """Search by gradients and check by enclosures, as many individuals at a time as memory allows."""
        network, similarity = self.network, self.problem.similarity
        step = similarity.at_once(x) if product_of(similarity.kernel, x[:1]) is None else HELD
        if step >= len(x):
            return attack(network, self.head, similarity, x, budget, known)
        several = []
        for start in range(0, len(x), step):
            some = np.arange(start, min(start + step, len(x)))
            at = None if known is None or known.at is None else known.at.of(some)
            mine = None if known is None else Known(known.upper[some], known.kept[some], at)
            several.append(attack(network, self.head, similarity, x[some], budget, mine))
        return Finds(*(np.concatenate([getattr(each, part.name) for each in several]) for part in fields(Finds)))

    def nearby(self, x: FloatArray) -> Nearby:
        """Return the ascent on pairs, which gives the best candidate for each individual."""
        field = Field.of(prepared_for(self.network), self.head, x[:EXAMPLES])
        return lambda rows, ball, budget: _surroundings(self.problem, field, np.array(x[rows]), ball, budget)

    def pairs(self) -> Cutting:
        """Return the kernel's bounds over parts of all pairs."""
        return cutting_of(self.problem.similarity, self.network, self.layers.reads, self.float32_run)

    def close_gaps(
        self, x: FloatArray, upper: FloatArray, finds: Finds, limits: Limits, began: float, tick: Progress
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Reduce upper bounds by branch and bound, until they meet finds or the limits are reached."""
        upper = upper.copy()
        rows = np.flatnonzero(upper > target_upper(finds.lower, limits))
        for some, budget in budgets(rows, limits, began):
            gaps = GapSearch(self, x, some, finds, limits)
            gaps.run(budget)
            upper[some] = np.minimum(upper[some], gaps.upper)
            tick(len(upper) - int((upper > target_upper(finds.lower, limits)).sum()), len(upper))
        chunks = [slice(at, at + self.size) for at in range(0, len(upper), self.size)]
        return upper, np.concatenate([self.kernel.keeps(np.array(x[rows]), upper[rows]) for rows in chunks])

    def decide(self, x: FloatArray, certified: NDArray[np.bool_], finds: Finds, nodes: float | None) -> None:
        """Decide by branch and bound whether open decisions can change.

        Individuals are taken in the chunks in which they were bounded, and share the budget of a chunk: a table that is
        certified block by block, of whole chunks, has the same answer.
        """
        each = max(8, PARTS // self.layers.widest)
        for start in range(0, len(certified), self.size):
            chunk = slice(start, start + self.size)
            some = start + np.flatnonzero(~certified[chunk] & ~finds.flips[chunk])
            count = min(self.size, len(certified) - start)
            budget = Budget(each * count if nodes is None else math.ceil(nodes * count / len(certified)), math.inf)
            if len(some) and budget.left:
                with one_thread():
                    decisions = DecisionSearch(self, x, some, finds)
                    decisions.run(budget)
                certified[some] |= decisions.stands


register("network", Bounds)


def refuse_free_reading(domain: Domain, network: Layers, free: NDArray[np.bool_], what: str, who: str) -> None:
    """Refuse, on the unbounded domain, a coordinate that a metric or ground cost ignores and the network reads."""
    if not free.any():
        return
    read = free & (network.reads != 0)
    if read.any():
        name = domain.names[int(np.flatnonzero(read)[0])]
        raise MetricError(
            f"The {what} leaves '{name}' free, which the network reads: on the unbounded domain {who} can be "
            "arbitrarily far apart. Give individuals a schema (domain 'relaxed' or 'realizable')."
        )


@np.errstate(all="ignore")  # what overflows is no find
def _surroundings(problem: Problem, field: Field, x: FloatArray, ball: Similarity, effort: AttackBudget) -> FloatArray:
    """Return the best candidate (n, m) within the ball around each individual."""
    best, person = np.full(len(x), -np.inf), x.copy()
    rng = np.random.default_rng(effort.seed)
    try:
        ball.regions(x[:1])
    except ParameterError:  # the ball overflows float64: no candidate
        return person
    for near, anchors in _places(problem, field, ball.each(x)):
        base = np.clip(near.centre + anchors, problem.domain.low, problem.domain.high)
        for between in _first_choices(problem.similarity, base, (near.sets.low, near.sets.high)):
            some, start = near[between.owner], anchors[between.owner]
            change = between.centre - base[between.owner]
            for target, sign in itertools.product(range(field.targets), (1.0, -1.0)):
                value, moves = _ascend(field, some, start, between, change, target, sign, effort, rng)
                for z in as_individuals(ball, some, start, moves):
                    better = (value > best[some.owner]) & (ball.metric.distance_upper(x[some.owner], z) <= ball.delta)
                    rising = np.flatnonzero(better)
                    rising = rising[np.argsort(value[rising], kind="stable")]  # the best of an individual comes last
                    best[some.owner[rising]], person[some.owner[rising]] = value[rising], z[rising]
    return person


def _first_choices(similarity: Similarity, base: FloatArray, centre_box: CentreBox) -> list[Regions]:
    """Return one region of differences for each of the rows: the first choice of categories for the counterpart, since
    the attack that follows tries all."""
    product = product_of(similarity.kernel, base, centre_box)
    if product is not None:
        rows = np.flatnonzero(~product.empty)
        return [product.regions(rows, product.allowed[rows].argmax(1))]
    return [each[np.unique(each.owner, return_index=True)[1]] for each in similarity.regions(base, centre_box)]


def _places(problem: Problem, field: Field, batches: Iterable[Regions]) -> Iterator[tuple[Regions, FloatArray]]:
    """Yield promising regions with their anchors, as many at a time as memory allows with all similar regions."""
    for regions in batches:
        near = _promising(field, regions)
        anchors, inside = find_anchors(near.sets, len(near))
        near, anchors = near[inside], anchors[inside]
        listed, wander = product_of(problem.similarity.kernel, near.centre[:1]) is None, (near.sets.low, near.sets.high)
        step = problem.similarity.at_once(near.centre, wander) if listed else HELD
        for start in range(0, len(near), step):
            yield near[start : start + step], anchors[start : start + step]


def _promising(field: Field, regions: Regions) -> Regions:
    """Return a few regions of each individual: those whose centre is nearest to a change of decision."""
    if len(np.unique(regions.owner)) == len(regions):
        return regions
    margin = np.abs(field.margins(regions.centre)).min(1)
    return regions[first_of_each(regions.owner, -margin, BRANCHES)]


def _ascend(
    field: Field,
    near: Regions,
    anchors: FloatArray,
    between: Regions,
    change: FloatArray,
    target: int,
    sign: float,
    effort: AttackBudget,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Raise the difference between a person near and a counterpart, both moving; return the best values (n,) and moves.

    ``change`` are the counterpart's categories, less those of the person.
    """
    nearby, apart = near.sets, between.sets
    rest, inside = find_anchors(apart, len(between))
    centre, d = near.centre, rest
    aim, signs = np.full(len(centre), target), np.full(len(centre), sign)
    # Start away from the anchor: at the individual itself the gradient vanishes where both runs are affine.
    v = anchors + rng.normal(size=anchors.shape) * (np.minimum(nearby.extent, FAR) * 0.1)
    v = project_to_region(nearby, anchors, v)
    best, top = v, np.full(len(v), -np.inf)
    for step in range(effort.steps + 1):
        z = centre + v
        (one, by_one), (other, by_other) = (_value(field, point, aim, signs, target) for point in (z, z + change + d))
        rise = sign * (other - one)
        better = rise > top
        best, top = np.where(better[:, None], v, best), np.where(better, rise, top)
        size = 1.0 - step / (effort.steps + 1)
        v = project_to_region(nearby, anchors, v + _step(nearby, by_other - by_one) * (0.5 * size))
        d = project_to_region(apart, rest, d + _step(apart, by_other) * size)
    return np.where(inside, top, -np.inf), best


def _value(
    field: Field, point: FloatArray, aim: IntArray, signs: FloatArray, target: int
) -> tuple[FloatArray, FloatArray]:
    """Return the outputs (n,) at points, and their gradients (n, m) times the sign."""
    scores, gradient = field.scores_and_gradient(point, aim, signs)
    received = field.received(scores[:, target])
    if field.head.kind in ("regression", "probability"):
        return received, gradient
    return received, gradient * (received * (1 - received))[:, None]


def _step(sets: ConvexSets, gradient: FloatArray) -> FloatArray:
    """Return steps (n, m) along the gradient, scaled to the extent of the regions."""
    scaled = gradient * np.minimum(sets.extent, FAR) ** 2
    length = np.sqrt((np.abs(gradient) * np.abs(scaled)).sum(1, keepdims=True))
    return np.asarray(scaled / np.maximum(length, 1e-300))
