"""Cuts: a box in two halves, and pairs of people, who may be compared with whom, in parts that are bounded and cut.

A *part* is a box for one person ``x``, a box for the other person ``y``, and perhaps the categories of either. With the
metric's own set ``E`` around ``x``, the difference ``y − x`` lies in ``E ∩ (box of y − box of x)``, and the kernel
bounds how differently the two can be treated. Parts are cut where ``width · influence`` is largest: the box of
``x`` as long as it is wider than the differences, else the box of ``y``. A category is fixed by trying each; whole
numbers are cut between lattice points.

**Soundness.** The two halves of a box share the cut, or leave only numbers between them that no individual has.
Boxes hold every pair of their part: they are narrowed only by what the metric, the domain, whole numbers
and missing values rule out, with a margin above rounding, and the parts of a cut cover the whole. A part is only
called empty where a number says so, never for want of one. ``E`` is the unclipped similar set; where its box depends
on ``x``, the larger of those at the two ends of each range counts (tolerances grow or fall with each coordinate alone).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import TINY, Array, down, norm_up, outward, up
from isonomy_verify.branches import pseudo_inverse
from isonomy_verify.differences import compare
from isonomy_verify.domain import Domain, Mask
from isonomy_verify.heads import Head
from isonomy_verify.preparations import Preparations
from isonomy_verify.regions import SIMPLEX_TOLERANCE, BallBox, Index
from isonomy_verify.similar import LATTICE_MARGIN, Similarity, axis_reach

SMALLEST = 1e-9
"""Sides of a box shorter than this are not cut."""

EMPTY_MARGIN = 1e-9
"""Relative margin before a part is called empty; far above any rounding error."""


class Cut(NamedTuple):
    """A coordinate; where the lower half of a box ends and where the upper half begins."""

    coordinate: int
    end: float
    begin: float


@np.errstate(all="ignore")
def cut_box(domain: Domain, centre: Array, low: Array, high: Array, influence: Array, whole_only: bool) -> Cut | None:
    """Cut where ``width · influence`` is largest; with ``whole_only`` only between lattice points."""
    whole = domain.integer if domain.kind == "realizable" else np.zeros(domain.width, dtype=bool)
    width = high - low
    score = np.where(np.isfinite(width) & (width > SMALLEST), width, 0.0) * influence
    for coordinate in np.argsort(-score):
        i = int(coordinate)
        if score[i] <= 0:
            return None
        if not whole[i]:
            if not whole_only:
                middle = float(low[i] / 2 + high[i] / 2)
                return Cut(i, middle, middle)
            continue
        here, unit, origin = float(centre[i]), domain.unit[i], domain.origin[i]
        first, last = ((here + float(side[i])) * unit + origin for side in (low, high))
        below = math.floor((first + last) / 2 + 1e-6)
        if below < first - 1e-6 or below + 1 > last + 1e-6:
            continue  # one lattice point at most
        # Members of the domain are these very floats, so that one step outward covers the subtraction.
        return Cut(i, float(up((below - origin) / unit - here)), float(down((below + 1 - origin) / unit - here)))
    return None


@dataclass(frozen=True)
class Parts:
    """A batch: boxes of either person (rows, m), and the share of the domain in which ``x`` lies."""

    x_low: Array
    x_high: Array
    y_low: Array
    y_high: Array
    share: Array

    def __len__(self) -> int:
        return len(self.share)

    def __getitem__(self, rows: Index | Mask | slice) -> Parts:
        return Parts(self.x_low[rows], self.x_high[rows], self.y_low[rows], self.y_high[rows], self.share[rows])

    @classmethod
    def join(cls, parts: list[Parts]) -> Parts:
        """Several batches as one."""
        return cls(*(np.concatenate(sides) for sides in zip(*(vars(part).values() for part in parts), strict=True)))


class Cutting:
    """A network, a metric, a δ and a domain, made ready to bound and cut parts; ``influence`` (m,) says which
    coordinates matter."""

    def __init__(
        self, similarity: Similarity, network: Preparations, head: Head, influence: Array, float32_run: bool = False
    ) -> None:
        self.similarity, self.head = similarity, head
        self.network, _, _ = network.pairs(float32_run=float32_run)
        # What the network does not read may still decide who is similar: cut it last.
        self.influence = influence + 1e-6 * influence.max(initial=1.0)
        self.domain = similarity.domain
        root = np.where(self.domain.immutable, 0.0, similarity.form.root)
        self.root, self.order = root, similarity.form.order
        ruled = root.any(axis=0)
        self.reach = np.full(self.domain.width, np.inf)
        self.reach[self.domain.immutable] = 0.0
        if len(root) and ruled.any():
            self.reach[ruled] = axis_reach(root[:, ruled], self.order, similarity.delta)[1]
        self.inverse = pseudo_inverse(root) if len(root) else np.zeros((self.domain.width, 0))
        self.whole = self.domain.integer & (self.domain.kind == "realizable")
        self.blocks = self.domain.blocks if self.domain.kind == "realizable" else ()

    def everybody(self) -> Parts:
        """All pairs, as one part."""
        low, high = self.domain.low[None], self.domain.high[None]
        return Parts(low.copy(), high.copy(), low.copy(), high.copy(), np.ones(1))

    # -- narrowing ---------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def narrowed(self, parts: Parts) -> tuple[Parts, Mask]:
        """Smaller boxes that hold the same pairs, and which parts may hold any."""
        x, y = [parts.x_low.copy(), parts.x_high.copy()], [parts.y_low.copy(), parts.y_high.copy()]
        alive = np.ones(len(parts), dtype=bool)
        for _ in range(2):
            low, high = self._around(x)
            for one, other, first, last in ((y, x, low, high), (x, y, -high, -low)):
                slack = EMPTY_MARGIN * (np.abs(other[0]) + np.abs(other[1]))
                one[0] = np.maximum(one[0], np.where(first == 0, other[0], other[0] + first - slack))
                one[1] = np.minimum(one[1], np.where(last == 0, other[1], other[1] + last + slack))
            for box in (x, y):
                self._fill(box)
                self._to_lattice(box)
                alive &= ~(box[0] > box[1]).any(axis=1) & self._adds_up(box)
        found = Parts(x[0], np.maximum(*x), y[0], np.maximum(*y), parts.share)
        low, high = self.differences(found)
        alive &= ~(low > high).any(axis=1)
        return found, alive & ~self._too_far(low, np.maximum(low, high))

    def differences(self, parts: Parts) -> tuple[Array, Array]:
        """The box of ``y − x``."""
        low, high = self._around([parts.x_low, parts.x_high])
        apart = outward(parts.y_low - parts.x_high, down), outward(parts.y_high - parts.x_low, up)
        return np.maximum(low, apart[0]), np.minimum(high, apart[1])

    def _around(self, x: list[Array]) -> tuple[Array, Array]:
        """How far ``y`` can be from any individual in a box, coordinate by coordinate."""
        low, high = np.broadcast_to(-self.reach, x[0].shape), np.broadcast_to(self.reach, x[0].shape)
        if self.similarity.form.boxed:
            delta = self.similarity.delta
            (one_low, one_high), (two_low, two_high) = (self.similarity.form.box(end, delta) for end in x)
            still = self.domain.immutable
            low = np.where(still, 0.0, np.maximum(low, np.minimum(one_low, two_low)))
            high = np.where(still, 0.0, np.minimum(high, np.maximum(one_high, two_high)))
        return low, high

    def _fill(self, box: list[Array]) -> None:
        """Individuals without a value for a feature have its fill."""
        if self.domain.kind != "realizable":
            return
        for flag, value, fill in self.domain.fills:
            missing = box[0][:, flag] == 1.0
            box[0][missing, value] = np.maximum(box[0][missing, value], fill)
            box[1][missing, value] = np.minimum(box[1][missing, value], fill)

    def _to_lattice(self, box: list[Array]) -> None:
        """Whole numbers, flags and categories: the boxes end at values that some individual has."""
        which = self.whole
        if which.any():
            origin, unit = self.domain.origin[which], self.domain.unit[which]
            first, last = (side[:, which] * unit + origin for side in box)
            margin = LATTICE_MARGIN * np.maximum(1.0, np.abs(first) + np.abs(last) + np.abs(origin))
            # Where margins are wider than steps, or overflow, the box stays as it is.
            box[0][:, which] = np.fmax(box[0][:, which], (np.ceil(first - margin) - origin) / unit)
            box[1][:, which] = np.fmin(box[1][:, which], (np.floor(last + margin) - origin) / unit)
        for start, stop in self.blocks:
            box[0][:, start:stop] = np.where(box[0][:, start:stop] > EMPTY_MARGIN, 1.0, 0.0)
            box[1][:, start:stop] = np.where(box[1][:, start:stop] < 1 - EMPTY_MARGIN, 0.0, 1.0)

    def _adds_up(self, box: list[Array]) -> Mask:
        """Can the shares of every one-hot block still add up to 1?"""
        fits = np.ones(len(box[0]), dtype=bool)
        for start, stop in self.domain.simplices:
            fits &= ~((box[0][:, start:stop].sum(1) > 1 + 1e-8) | (box[1][:, start:stop].sum(1) < 1 - 1e-8))
        return fits

    def _too_far(self, low: Array, high: Array) -> Mask:
        """Is every difference certainly longer than δ? ``‖R v‖ ≥ g·R v`` for any ``g`` of dual norm at most 1."""
        if not len(self.root):
            return np.zeros(len(low), dtype=bool)
        ruled = self.root.any(axis=0)
        low, high, root = low[:, ruled], high[:, ruled], self.root[:, ruled]
        step = 1.0 / np.maximum(np.square(np.linalg.norm(root, 2)), 1e-300)
        move = np.clip(0.0, low, high)
        for _ in range(30 if self.order == 2 else 0):  # towards the shortest difference
            move = np.clip(move - step * (move @ root.T) @ root, low, high)
        image = move @ root.T
        # Never below the true length: squares of short images underflow, some of them and not others.
        normal = image / norm_up(image)[:, None] * (1 - EMPTY_MARGIN) if self.order == 2 else np.sign(image)
        if self.order == math.inf:
            normal *= np.abs(image).argmax(1)[:, None] == np.arange(len(root))
        price, most = normal @ root, np.abs(normal) @ np.abs(root)
        least = np.minimum(price * low, price * high).sum(1)
        slack = EMPTY_MARGIN * (most * np.maximum(np.abs(low), np.abs(high))).sum(1)
        far: Mask = least - slack > self.similarity.delta * (1 + EMPTY_MARGIN) + TINY
        return far

    # -- bounding ----------------------------------------------------------------------------------------------

    @np.errstate(all="ignore")
    def bound(self, parts: Parts) -> Array:
        """The largest change between two similar people of each part, from above."""
        middle = parts.x_low / 2 + parts.x_high / 2
        blocks = []
        for block in self.domain.simplices:  # shares that add up to 1, in the same proportion of every range
            where = slice(*block)
            low, range_ = parts.x_low[:, where], parts.x_high[:, where] - parts.x_low[:, where]
            total = np.maximum(range_.sum(1, keepdims=True), 1e-300)
            middle[:, where] = low + np.clip((1 - low.sum(1, keepdims=True)) / total, 0.0, 1.0) * range_
            if (np.abs(middle[:, where].sum(1) - 1) <= SIMPLEX_TOLERANCE).all():
                blocks.append(block)

        def box(low: Array, high: Array) -> BallBox:
            sides = outward(low - middle, down), outward(high - middle, up)
            return BallBox(*sides, blocks=blocks, shares=middle)

        near, whole = box(parts.x_low, parts.x_high), box(parts.y_low, parts.y_high)
        low, high = (np.array(side, dtype=np.float64) for side in self.differences(parts))
        between = self._ball(low, np.maximum(low, high))
        return self.head.gap(*compare(self.network, middle, near, between, whole)[0])

    def _ball(self, low: Array, high: Array) -> BallBox:
        """The metric's ball and a box."""
        if not len(self.root):
            return BallBox(low, high)
        return BallBox(low, high, self.root, self.order, np.full(len(low), self.similarity.delta), inverse=self.inverse)

    # -- cutting -----------------------------------------------------------------------------------------------

    def cut(self, part: Parts) -> Parts | None:
        """One part in two or more; ``None`` where nothing is left to cut."""
        low, high = self.differences(part)
        wide_x, wide_y = (part.x_high - part.x_low)[0], (part.y_high - part.y_low)[0]
        apart = np.minimum(wide_y, np.where(np.isfinite(high - low), high - low, np.inf)[0])
        score_x, score_y = wide_x * self.influence, apart * self.influence
        for start, stop in self.blocks:
            for score in (score_x, score_y):
                score[start:stop] = score[start:stop].max()
        for place in np.argsort(-np.concatenate([score_x, score_y]), kind="stable"):
            person, i = divmod(int(place), len(wide_x))
            if (score_x, score_y)[person][i] <= 0:
                return None
            if (wide_x, wide_y)[person][i] > 1e-7:
                return self._cut_at(part, person, i)
        return None

    def _cut_at(self, part: Parts, person: int, i: int) -> Parts:
        low, high = ((part.x_low, part.x_high), (part.y_low, part.y_high))[person]
        block = next((block for block in self.blocks if block[0] <= i < block[1]), None)
        if block is not None:
            width = block[1] - block[0]
            choices = np.eye(width) if width > 1 else np.array([[0.0], [1.0]])
            where = slice(*block)
            fits = (choices >= low[0, where]).all(1) & (choices <= high[0, where]).all(1)
            sides = [_with(low, high, where, choice, choice) for choice in choices[fits]]
            shares = np.full(len(sides), 1 / len(sides))
        else:
            end = begin = low[0, i] / 2 + high[0, i] / 2
            shares = np.array([0.5, 0.5])
            if self.whole[i]:
                origin, unit = self.domain.origin[i], self.domain.unit[i]
                first, last = np.rint(low[0, i] * unit + origin), np.rint(high[0, i] * unit + origin)
                below = np.floor(first / 2 + last / 2)
                end, begin = (below - origin) / unit, (below + 1 - origin) / unit
                shares = np.array([below - first + 1, last - below]) / (last - first + 1)
            sides = [_with(low, high, slice(i, i + 1), low[0, i], end)]
            sides.append(_with(low, high, slice(i, i + 1), begin, high[0, i]))
        lows, highs = np.concatenate([side[0] for side in sides]), np.concatenate([side[1] for side in sides])
        other = ((part.y_low, part.y_high), (part.x_low, part.x_high))[person]
        first, last = (np.repeat(side, len(sides), 0) for side in other)
        share = part.share * shares if person == 0 else np.repeat(part.share, len(sides))
        return Parts(lows, highs, first, last, share) if person == 0 else Parts(first, last, lows, highs, share)


def _with(low: Array, high: Array, where: slice, first: Array | float, last: Array | float) -> tuple[Array, Array]:
    """A copy of a box with some sides changed."""
    low, high = low.copy(), high.copy()
    low[:, where], high[:, where] = first, last
    return low, high
