"""How unequally can individuals within reach of one be treated?

Problem, for individuals ``x`` and a radius ``r``: bound ``I(z, δ)`` over every possible individual ``z`` with ground
cost ``c(x, z) ≤ r``. The people in reach are regions of the ground cost just as similar people are regions of the
metric (one for each choice of categories in the realizable domain); the other person ``y`` of a pair is somewhere in
the sum of both, and ``y − z`` in the metric's own set.

**Soundness.** Regions cover everybody in reach, sums of sets hold every ``y``, and
:mod:`isonomy_verify.differences` bounds the difference of the two. A pass at a radius also bounds every smaller one:
its lines hold there as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from isonomy_verify.arithmetic import Array, down, stepped_up, up
from isonomy_verify.combinations import MANY, PAIRS, Gaps, Product, is_shared, product_of
from isonomy_verify.domain import Mask
from isonomy_verify.forms import Form
from isonomy_verify.heads import Head
from isonomy_verify.preparations import Preparations
from isonomy_verify.regions import Index
from isonomy_verify.sets import ConvexSets, Regions
from isonomy_verify.similar import DeltaError, Similarity, is_norm

WIDE = 1e6
"""On the unbounded domain "anybody" is any individual within this radius."""

TURNS = (1, 3, 8)
"""Combinations of a person that are bounded tightly, turn by turn."""

MEASURED_ROWS = 65_536
"""Rows looked at together when a whole table is measured."""


class Reach:
    """Margins of a network, who is similar and what moving an individual costs, ready to bound violations over
    balls."""

    def __init__(
        self, network: Preparations, head: Head, similarity: Similarity, ground: Form, float32_run: bool = False
    ) -> None:
        self.network, self.head, self.similarity, self.float32_run = network, head, similarity, float32_run
        self.domain, self.ground = similarity.domain, ground
        self.ball = similarity.reached_by(ground)
        self._balls: dict[float, Similarity] = {}
        self._counting: dict[float, Reach] = {}

    def bound(self, x: Array, radii: Sequence[float], tight: bool = True, size: int = 1024) -> Array:
        """Upper bounds (n, radii) of the violation of any individual within each of the ascending ``radii`` of the rows
        of ``x``, which lie in the domain.

        The work is that of one pass at the largest radius. Without ``tight`` it is a forward pass only. ``size``
        regions are bounded at a time.

        **Soundness.** The parts that a smaller radius leaves of a region cover everybody within it
        (:meth:`Similarity.parts`); a region of which nothing is left is empty. The largest of all regions counts.
        Everybody is in reach of, and similar to, themselves: where there is no region, nothing is known, and neither
        where the largest radius reaches beyond all numbers.
        """
        worst, seen = np.zeros((len(x), len(radii))), np.zeros(len(x), dtype=bool)
        balls = [self.within(radius) for radius in radii]
        try:
            balls[-1].regions(x[:1])
        except DeltaError:
            return np.full(worst.shape, np.inf)
        for regions in balls[-1].each(x):
            if self._combines(regions):
                seen[regions.owner] = True
                self._bound_combinations(x, regions, balls, tight, worst)
                continue
            held = self._apart(regions).at_once(regions.centre, (regions.sets.low, regions.sets.high))
            for near in regions.pieces(min(size, held)):
                smaller = [ball.parts(x, near) for ball in balls[:-1]]
                seen[near.owner], alone = True, np.ones(len(near), dtype=bool)
                for between in self._between(near):
                    alone[between.owner] = False
                    for some in between.pieces(size):
                        value = self._gaps(near, some, [sets for sets, _ in smaller], tight)
                        for j, (_, alive) in enumerate(smaller):
                            value[~alive[some.owner], j] = 0.0
                        np.maximum.at(worst, near.owner[some.owner], value)
                worst[near.owner[alone]] = np.inf
        worst[~seen] = np.inf
        return worst

    def stands(self, x: Array, radius: float, margin: float = 0.0, size: int = 1024) -> Mask:
        """Whether (n,) no individual within the radius of the rows of ``x`` has a decision that a similar individual
        has otherwise, by more than a ``margin`` of outputs.

        **Soundness.** The largest of the counts over all regions is 0 only where it is in each of them.
        """
        if not self.head.decides:
            return np.zeros(len(x), dtype=bool)
        if margin not in self._counting:
            head = replace(self.head, counts=True, margin=max(margin, self.head.margin))
            self._counting[margin] = Reach(self.network, head, self.similarity, self.ground, self.float32_run)
        return np.asarray(self._counting[margin].bound(x, [radius], size=size)[:, 0] == 0)

    def _combines(self, near: Regions) -> bool:
        """Are similar sets products of categories and numbers, of many combinations?"""
        if not self._listed or not self._whole(near):
            return False
        return product_of(self.similarity, near.centre, (near.sets.low, near.sets.high)) is not None

    @cached_property
    def _listed(self) -> bool:
        """Has an individual, who stands for all, many combinations of categories, and can they be bounded together?"""
        domain = self.domain
        if self.float32_run or domain.kind != "realizable" or not is_shared(self.network.network):
            return False
        one = np.where(domain.numeric, domain.low, 0.0)[None]
        for start, stop in domain.blocks:
            one[0, start] = float(stop - start > 1)
        product = product_of(self.similarity, one)
        return product is not None and product.size >= MANY

    def _bound_combinations(
        self, x: Array, near: Regions, balls: Sequence[Similarity], tight: bool, worst: Array
    ) -> None:
        """Raise ``worst`` (n, radii) to the bounds over regions, each radius by passes of its own: what a larger one
        leaves of combinations that are not its worst says little of smaller ones."""
        parts = [ball.parts(x, near) for ball in balls[:-1]] + [(near.sets, np.ones(len(near), dtype=bool))]
        for j, (sets, alive) in enumerate(parts):
            rows = np.flatnonzero(alive)
            around = Regions(near.owner[rows], near.centre[rows], sets[rows])
            product = product_of(self.similarity, around.centre, (around.sets.low, around.sets.high))
            assert product is not None
            step = max(1, PAIRS // product.size)
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                value = self._combined(around[part], product.of(part), tight)
                np.maximum.at(worst[:, j], around.owner[part], value)

    def _combined(self, near: Regions, product: Product, tight: bool) -> Array:
        """Bounds (regions,) of the violation over the regions ``near``: all combinations by intervals, then rung by
        rung those that may be the largest."""
        value = np.where(product.allowed, np.inf, 0.0)
        gaps = Gaps(self.network.pairs()[0], self.domain, near, product, tight)
        for tile, gap in gaps.intervals():
            some = tile.people, tile.combinations
            value[some] = np.where(product.allowed[some], self.head.gap(*gap).reshape(value[some].shape), 0.0)
        done, seen = ~product.allowed, ~product.allowed
        floor, row, j, turn = np.zeros(len(near)), np.arange(len(near) if tight else 0), value.argmax(1), 0
        while len(row):
            value[row, j] = np.minimum(value[row, j], self._passes(near, product, row, j, False))
            done[row, j] = True
            np.maximum.at(floor, row, value[row, j])
            row, j = np.nonzero((value > floor[:, None]) & ~done & ~seen)
            if len(row):
                value[row, j], seen[row, j] = np.minimum(value[row, j], self._passes(near, product, row, j, True)), True
            rank = np.where((value > floor[:, None]) & ~done, value, -1.0)
            top = np.argsort(-rank, axis=1, kind="stable")[:, : TURNS[min(turn, len(TURNS) - 1)]]
            row, place = np.nonzero(np.take_along_axis(rank, top, 1) >= 0)
            j, turn = top[row, place], turn + 1
        return np.where(product.empty, np.inf, stepped_up(value.max(1)))

    def _passes(self, near: Regions, product: Product, row: Index, combination: Index, quick: bool) -> Array:
        """Bounds of some combinations by backward passes."""
        between = product.regions(row, combination)
        centre = near.centre[row]
        apart = _moved(between.sets, between.centre - centre)
        gaps = self.network.compare(centre, near.sets[row], apart, self._limits(near, row, apart), quick=quick)
        return self.head.gap(*gaps[0])

    def everywhere(self, x: Array) -> tuple[float, float]:
        """An upper bound of the violation of any individual, and up to which radius around the rows of ``x`` it holds.

        **Soundness.** In a bounded domain one region is the whole of the relaxed domain, which holds everybody. Else
        an individual within ``WIDE`` of a row is within ``WIDE`` plus the row's cost of the centre, by the triangle
        inequality; a billionth more covers the rounding of that sum. Where that is beyond all numbers nothing is known.
        """
        domain = self.domain
        if domain.kind == "unbounded":
            if self.ground.of_own.any():  # a cost that is no distance
                return np.inf, WIDE
            with np.errstate(over="ignore"):
                centre = x.mean(axis=0, keepdims=True)
            starts = range(0, len(x), MEASURED_ROWS)
            furthest = max(float(self.ground.distance_upper(x[k : k + MEASURED_ROWS], centre).max()) for k in starts)
            try:
                (near,) = self.ball.resized((WIDE + furthest) * (1 + 1e-9), keep=False).regions(centre)
            except DeltaError:
                return np.inf, WIDE
        else:
            centre = (domain.low / 2 + domain.high / 2)[None]
            for start, stop in domain.simplices:
                centre[:, start:stop] = 1 / (stop - start)
            sets = ConvexSets.of_box(down(domain.low - centre), up(domain.high - centre), centre, domain.simplices)
            near = Regions(np.zeros(1, dtype=np.int64), centre, sets)
        values = [self._gaps(near, between, (), tight=True, keep=False) for between in self._between(near)]
        worst = float(np.concatenate(values).max())
        return worst, WIDE if domain.kind == "unbounded" else np.inf

    def within(self, radius: float) -> Similarity:
        """Who is in reach of a radius; kept, since chunks ask for the same radii."""
        if radius not in self._balls:
            self._balls[radius] = self.ball.resized(radius)
        return self._balls[radius]

    @cached_property
    def is_norm(self) -> bool:
        """Does every move cost something? Otherwise even a ball of radius 0 is more than a point."""
        return is_norm(self.ground)

    @cached_property
    def single_radius(self) -> bool:
        """May neurons be judged all together? Then a pass says little of smaller radii, which are worth their own; and
        where combinations of categories are bounded together, every radius has passes of its own.

        Neuron by neuron it says nearly as much of them as theirs would. A guide, nothing more.
        """
        root = self.similarity.form.root
        return self.own_passes or bool(len(root) >= root.shape[1])

    @property
    def own_passes(self) -> bool:
        """Does every radius cost passes of its own?"""
        return self._listed

    def _between(self, near: Regions) -> list[Regions]:
        """Differences between individuals in the regions and similar ones."""
        return self._apart(near).regions(near.centre, (near.sets.low, near.sets.high))

    def _apart(self, near: Regions) -> Similarity:
        """Who is similar to an individual in the regions."""
        return self.similarity if self.domain.kind != "realizable" or self._whole(near) else self._relaxed

    @cached_property
    def _relaxed(self) -> Similarity:
        return self.similarity.within(replace(self.domain, kind="relaxed"))

    def _whole(self, near: Regions) -> bool:
        """Is everyone in the regions of the realizable kind, with the categories and on the lattice of the centre?"""
        domain, centre = self.domain, near.centre
        wanders = bool((near.sets.extent[:, ~domain.numeric] > 0).any())
        return domain.kind == "realizable" and not wanders and bool((domain.snap(centre) == centre).all())

    def _gaps(
        self, near: Regions, between: Regions, smaller: Sequence[ConvexSets], tight: bool, keep: bool = True
    ) -> Array:
        """Bounds (pairs of regions, radii) for the regions ``near`` and smaller sets around the same centres."""
        owner = between.owner
        centre = near.centre[owner]
        apart = _moved(between.sets, between.centre - centre)
        limits = self._limits(near, owner, apart)
        nears = [sets[owner] for sets in (near.sets, *smaller)]

        def compared(sets: ConvexSets, parts: Sequence[ConvexSets]) -> list[Array]:
            gaps = self.network.compare(
                centre, sets, apart, limits, parts, float32_run=self.float32_run, tight=tight, keep=keep
            )
            return [self.head.gap(*gap) for gap in gaps]

        # Without backward passes one says nothing of smaller radii.
        values = compared(nears[0], nears[1:]) if tight else [compared(sets, ())[0] for sets in nears]
        return np.stack([*values[1:], values[0]], axis=1)

    def _limits(self, near: Regions, owner: Index, apart: ConvexSets) -> ConvexSets | None:
        """Where the other person can be at all, seen from the centres."""
        domain = self.domain
        if domain.kind == "unbounded":
            return None
        centre = near.centre[owner]
        low, high = down(domain.low - centre), up(domain.high - centre)
        if self._whole(near):  # categories do not move with the centre: where they go says the difference alone
            fixed = ~domain.numeric
            low[:, fixed] = np.maximum(low[:, fixed], apart.low[:, fixed])
            high[:, fixed] = np.minimum(high[:, fixed], apart.high[:, fixed])
            return ConvexSets.of_box(low, high)
        return ConvexSets.of_box(low, high, centre, domain.simplices)


def _moved(sets: ConvexSets, shift: Array) -> ConvexSets:
    """Sets around other centres: a change of categories, which no seminorm of numbers sees."""
    if not shift.any():
        return sets
    return replace(sets, low=sets.low + shift, high=sets.high + shift)
