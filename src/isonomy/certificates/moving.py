"""Local bounds with a centre that moves: how unequally can anybody within reach of this individual be treated?

Problem, for individuals ``x`` and a radius ``r``: bound ``I(z, δ)`` over every possible individual ``z`` with ground
cost ``c(x, z) ≤ r``. The people in reach are regions of the ground cost just as similar people are regions of the
metric (one for each choice of categories in the realizable domain); the other person ``y`` of a pair is somewhere in
the sum of both, and ``y − z`` in the metric's own set.

**Soundness.** Regions cover everybody in reach, sums of sets hold every ``y``, and the kernel bounds the difference of
the two (:mod:`isonomy_verify.differences`). A pass at a radius also bounds every smaller one: its lines hold there as
well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.bounds.kernel import compare_sets, head_of
from isonomy.certificates.question import Question
from isonomy.parallel import in_parallel
from isonomy.sets import ConvexSets
from isonomy.similarity.metric import Metric
from isonomy.similarity.regions import Regions, Similarity, axis_reach, take
from isonomy_verify.arithmetic import down, norm_up, up
from isonomy_verify.heads import Head

NUMBERS = 2**17
"""Activations of the widest layer at a time, as in the local tiers."""

WIDE = 1e6
"""On the unbounded domain "anybody" is anybody within this radius."""

ROWS = 65_536
"""Rows looked at together when a whole table is measured."""


@dataclass(frozen=True, eq=False)
class Moving:
    """A question with a ground cost, ready to bound violations over balls around individuals."""

    question: Question
    ground: Metric
    float32_run: bool = False
    _balls: dict[float, Similarity] = field(default_factory=dict, repr=False)

    def bound(self, rows: NDArray[np.int64], radii: Sequence[float], tight: bool = True) -> FloatArray:
        """Upper bounds (rows, radii) of the violation of anybody within each of the ascending ``radii`` of ``x[rows]``.

        The work is that of one pass at the largest radius. Without ``tight`` it is a forward pass only.
        """
        graph = self.question.network.margins
        size = max(16, min(1024, NUMBERS // max(graph.widths)))
        starts = range(0, len(rows), size)
        found = in_parallel(lambda start: self._chunk(rows[start : start + size], radii, tight, size), starts)
        return np.concatenate([np.zeros((0, len(radii))), *found])

    def everywhere(self) -> tuple[float, float]:
        """An upper bound of the violation of anybody at all, and up to which radius around individuals it holds.

        In a bounded domain that is everybody: one region, the whole of the relaxed domain.
        """
        domain = self.question.domain
        if domain.kind == "unbounded":
            centre = self.question.x.mean(axis=0, keepdims=True)
            (near,) = self.reach.resized(self._across(centre), keep=False).regions(centre)
        else:
            centre = (domain.low + domain.high)[None] / 2
            wide = [block for block in domain.blocks if block[1] - block[0] > 1]
            for start, stop in wide:
                centre[:, start:stop] = 1 / (stop - start)
            sets = ConvexSets.of_box(down(domain.low - centre), up(domain.high - centre), centre, tuple(wide))
            near = Regions(np.zeros(1, dtype=np.int64), centre, sets)
        values = [self._gaps(near, between, (), tight=True, keep=False) for between in self._between(near)]
        worst = float(np.concatenate(values).max())
        return worst, WIDE if domain.kind == "unbounded" else np.inf

    @cached_property
    def head(self) -> Head:
        """How outputs are read."""
        return head_of(self.question.network, None, self.float32_run)

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
    def separates(self) -> bool:
        """Does every move cost something? Otherwise nobody stands still, not even at radius 0."""
        if self.ground.boxed and not any(np.isinf(side).any() for side in self.ground.box(self.question.x[:1], 0.0)):
            return True
        root, order = self.ground.gauge()
        return bool(len(root)) and bool(np.isfinite(axis_reach(root, order, 1.0)[1]).all())

    @cached_property
    def together(self) -> bool:
        """May neurons be judged all together? Then every radius is worth a pass of its own.

        Neuron by neuron a smaller one costs no more than a support function. A guide, nothing more.
        """
        root, _ = self.question.metric.gauge()
        return bool(len(root) >= root.shape[1])

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

    def _across(self, centre: FloatArray) -> float:
        """A radius around the centre that holds the wide balls around all individuals."""
        furthest = max(
            float(self.ground.distance_upper(self.question.x[start : start + ROWS], centre).max())
            for start in range(0, len(self.question.x), ROWS)
        )
        return (WIDE + furthest) * (1 + 1e-9)

    @cached_property
    def reach(self) -> Similarity:
        """Who is in reach, at radius 0; immutable features of a person do change from one population to another."""
        domain = self.question.domain
        free = replace(domain, immutable=np.zeros_like(domain.immutable))
        return Similarity(self.ground, 0.0, free, self.question.max_branches, keep=True)

    def _ball(self, radius: float) -> Similarity:
        """Who is in reach of a radius; kept, since chunks ask for the same radii."""
        if radius not in self._balls:
            self._balls[radius] = self.reach.resized(radius)
        return self._balls[radius]

    def _chunk(self, rows: NDArray[np.int64], radii: Sequence[float], tight: bool, size: int) -> FloatArray:
        x = np.array(self.question.x[rows])
        worst = np.zeros((len(x), len(radii)))
        balls = [self._ball(radius) for radius in radii]
        for regions in balls[-1].regions(x):
            for near in regions.pieces(size):
                smaller = [ball.parts(x, near) for ball in balls[:-1]]
                for between in self._between(near):
                    for some in between.pieces(size):
                        value = self._gaps(near, some, [sets for sets, _ in smaller], tight)
                        for j, (_, alive) in enumerate(smaller):
                            value[~alive[some.owner], j] = 0.0
                        np.maximum.at(worst, near.owner[some.owner], value)
        return worst

    def _between(self, near: Regions) -> list[Regions]:
        """Differences between somebody in the regions and somebody similar."""
        wander = near.sets.low, near.sets.high
        similarity = self.question.similarity
        if similarity.domain.kind == "realizable" and not self._whole(near):
            relaxed = similarity.domain.with_kind("relaxed")
            similarity = Similarity(similarity.metric, similarity.delta, relaxed, similarity.max_branches)
        return similarity.regions(near.centre, wander)

    def _whole(self, near: Regions) -> bool:
        """Is everybody in the regions of the realizable kind, with the categories and on the lattice of the centre?"""
        domain, centre = self.question.domain, near.centre
        wanders = bool((near.sets.extent[:, ~domain.numeric] > 0).any())
        return domain.kind == "realizable" and not wanders and bool((domain.snap(centre) == centre).all())

    def _gaps(
        self, near: Regions, between: Regions, smaller: Sequence[ConvexSets], tight: bool, keep: bool = True
    ) -> FloatArray:
        """Bounds (pairs of regions, radii) for the regions ``near`` and smaller sets around the same centres."""
        owner = between.owner
        centre = near.centre[owner]
        apart = _moved(between.sets, between.centre - centre)
        limits = self._limits(near, owner, apart)
        nears = [take(sets, owner) for sets in (near.sets, *smaller)]
        if self.together or not tight:  # a pass that says nothing of smaller radii
            values = [self._compare(centre, sets, apart, limits, (), tight, keep)[0] for sets in nears]
        else:
            values = self._compare(centre, nears[0], apart, limits, nears[1:], tight, keep)
        return np.stack([*values[1:], values[0]], axis=1)

    def _compare(
        self,
        centre: FloatArray,
        near: ConvexSets,
        apart: ConvexSets,
        limits: ConvexSets | None,
        smaller: Sequence[ConvexSets],
        tight: bool,
        keep: bool,
    ) -> list[FloatArray]:
        """Bounds for sets ``near`` and smaller ones, by one pass."""
        network = self.question.network
        gaps = compare_sets(
            network, centre, near, apart, limits, smaller, float32_run=self.float32_run, tight=tight, keep=keep
        )
        return [self.head.gap(*gap) for gap in gaps]

    def _limits(self, near: Regions, owner: NDArray[np.int64], apart: ConvexSets) -> ConvexSets | None:
        """Where the other person can be at all, seen from the centres."""
        domain = self.question.domain
        if domain.kind == "unbounded":
            return None
        centre = near.centre[owner]
        low, high = down(domain.low - centre), up(domain.high - centre)
        if self._whole(near):  # categories do not move with the centre: where they go says the difference alone
            fixed = ~domain.numeric
            low[:, fixed] = np.maximum(low[:, fixed], apart.low[:, fixed])
            high[:, fixed] = np.minimum(high[:, fixed], apart.high[:, fixed])
            return ConvexSets.of_box(low, high)
        wide = tuple(block for block in domain.blocks if block[1] - block[0] > 1)
        return ConvexSets.of_box(low, high, centre, wide)


def _moved(sets: ConvexSets, shift: FloatArray) -> ConvexSets:
    """Sets around other centres: a change of categories, which no seminorm of numbers sees."""
    if not shift.any():
        return sets
    return replace(sets, low=sets.low + shift, high=sets.high + shift)
