"""The similar set as a union of convex pieces that bounds and attacks can work on.

For every individual ``x`` the set ``{ y in X : d(x, y) ≤ δ }`` is covered by *regions* ``centre + V`` with ``V`` a
:class:`~isonomy_verify.sets.ConvexSets`:

* ``unbounded``: one region, the ball of the metric, the same for everybody;
* ``relaxed``: one region, the ball clipped by the ranges and simplices;
* ``realizable``: one region per *branch*, a choice of categories, in which only numbers still move. A branch
  counts when numbers can compensate for its change of categories: with ``R`` split into numeric and categorical
  columns and the rows rotated so that the numeric columns only meet the first ones,
  ``‖R v‖² = ‖T u + Q₁ᵀR f‖² + ‖Q₂ᵀR f‖²``. The second term is the price of the change ``f``; what remains of
  ``δ²`` is the ball of ``u``. Branches are found by a depth-first sum over blocks in which every partial sum is a
  lower bound of the price (:mod:`isonomy_verify.branches`).

**Soundness.** Regions cover the similar set; they may be larger. Branches are left out only when their price
exceeds δ by more than every rounding error on the way; with more branches than ``max_branches`` an individual
falls back to the relaxed region, which holds them all. Whole numbers narrow the box of a region to the lattice
points inside it, with a margin far above rounding.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np

from isonomy_verify.arithmetic import TINY, Array, U, down, dual_order, gamma, norm_up, outward, product_up, up
from isonomy_verify.branches import Branches, MetricError, enumerate_branches, pseudo_inverse
from isonomy_verify.domain import Domain, Mask
from isonomy_verify.forms import Form
from isonomy_verify.regions import Index
from isonomy_verify.sets import ConvexSets, Regions

CentreBox = tuple[Array, Array]
"""How far down and up a centre may itself move, coordinate by coordinate."""

MAX_BRANCHES = 2**15
"""Beyond this many choices of categories an individual's similar set is relaxed."""

LISTED = 1024
"""The same where choices are listed as regions: those of products are bounded together, tile by tile, without."""

REGION_NUMBERS = 2**22
"""Numbers of each kind that describe the regions held at a time; some five kinds of eight bytes each are held."""

SAMPLE = 8
"""Rows whose regions are counted to see how many of all rows are held."""

LATTICE_MARGIN = 1e-9
"""Whole numbers this close outside an interval still count as inside; far above any rounding error."""


BALLS_KEPT = 8
"""Balls of each metric that are kept, for later questions."""

_balls: WeakKeyDictionary[Form, OrderedDict[tuple[float, bytes], ConvexSets]] = WeakKeyDictionary()
_roots: WeakKeyDictionary[Form, dict[bytes, dict[str, Array]]] = WeakKeyDictionary()
_lock = threading.Lock()


class DeltaError(ValueError):
    """A δ is no number, or so large that similar individuals are beyond all numbers."""


class Similarity:
    """A metric, a δ and a domain, made ready to give the regions of any individuals."""

    def __init__(
        self, form: Form, delta: float, domain: Domain, max_branches: int = MAX_BRANCHES, keep: bool = False
    ) -> None:
        """``keep``: the ball is kept with the form, for the same question later."""
        if form.width != domain.width:
            raise MetricError(f"The metric has {form.width} coordinates but the individuals have {domain.width}.")
        self.form, self.delta, self.domain = form, _checked(delta), domain
        self.max_branches, self.keep = max_branches, keep and not form.boxed
        self._shared: ConvexSets | None = None
        # The same for every δ, and known to others by their identity.
        self._matrices: dict[str, Array] = {}
        if self.keep:
            with _lock:
                self._matrices = _roots.setdefault(form, {}).setdefault(domain.immutable.tobytes(), {})
        self._branches: Branches | None = None
        if domain.kind != "unbounded":
            with np.errstate(over="ignore"):  # nor is one whose width overflows
                unlimited = ~np.isfinite(domain.high - domain.low)
            if unlimited.any():
                name = domain.names[int(np.flatnonzero(unlimited)[0])]
                raise MetricError(f"The coordinate '{name}' has no finite range: a {domain.kind} domain needs one.")

    def regions(self, x: Array, centre_box: CentreBox | None = None) -> list[Regions]:
        """The pieces of the similar sets of the rows of ``x`` (n, m), which must lie in the domain.

        With ``centre_box`` (low, high), each (n, m) or one row, the pieces hold every ``y − z`` (added to ``x``) for
        ``z`` that keep the categories of ``x`` and lie between ``x + low`` and ``x + high``, ``y`` similar to ``z``.
        """
        x = np.ascontiguousarray(x, dtype=np.float64)
        everybody = np.arange(len(x))
        if self.domain.kind == "unbounded":
            return [Regions(everybody, x, self._unbounded(x, centre_box))]
        if self.domain.kind == "relaxed":
            # The difference of two shares is no share: of simplices only their boxes are left.
            return [self._relaxed(x, everybody, self._one_hot_blocks() if centre_box is None else (), centre_box)]
        return self._realizable(x, everybody, self._known_branches(), centre_box)

    def each(self, x: Array) -> Iterator[Regions]:
        """The regions of :meth:`regions`, those of some rows of ``x`` at a time, so that few are held in memory."""
        step = self.at_once(x)
        for start in range(0, len(x), step):
            for regions in self.regions(x[start : start + step]):
                yield replace(regions, owner=regions.owner + start) if start else regions

    def at_once(self, x: Array, centre_box: CentreBox | None = None) -> int:
        """How many rows of ``x`` have so few regions together that these may be held: counted, on a few of them."""
        if (
            self.domain.kind != "realizable"
            or len(x) * min(self.max_branches, LISTED) * self.domain.width <= REGION_NUMBERS
        ):
            return max(1, len(x))
        return max(1, min(len(x), int(REGION_NUMBERS / (self.domain.width * self.count(x, centre_box)))))

    def count(self, x: Array, centre_box: CentreBox | None = None) -> float:
        """Regions of a row of ``x``, on average over a few rows that stand evenly spread; at least 1."""
        if self.domain.kind != "realizable":
            return 1.0
        some = np.arange(min(len(x), SAMPLE)) * len(x) // max(1, min(len(x), SAMPLE))
        if centre_box is not None:
            centre_box = tuple(side if len(side) == 1 else side[some] for side in centre_box)  # type: ignore[assignment]
        return max(1.0, sum(map(len, self.regions(x[some], centre_box))) / max(1, len(some)))

    def resized(self, delta: float, keep: bool = True) -> Self:
        """The same metric and domain with another δ; ``keep`` as for this one, unless it is not worth it."""
        other = copy(self)
        other.delta, other.keep, other._shared = _checked(delta), keep and self.keep, None
        if self.domain.kind == "realizable":
            other._branches = replace(self._known_branches(), delta=other._within_domain())
        return other

    def reached_by(self, ground: Form) -> Similarity:
        """Who is within radius 0 of a ground cost, to be resized: immutable features of a person do change from one
        population to another."""
        free = replace(self.domain, immutable=np.zeros_like(self.domain.immutable))
        return Similarity(ground, 0.0, free, self.max_branches, keep=True)

    def within(self, domain: Domain) -> Similarity:
        """The same metric and δ in another domain."""
        return Similarity(self.form, self.delta, domain, self.max_branches)

    def in_common(self, unread: Mask) -> Similarity:
        """The same for what reads no ``unread`` coordinates (m,): similar people have such blocks in common.

        **Soundness.** Where the metric looks at coordinates one by one, beside everyone similar to ``x`` stands one who
        has such blocks of ``x``, is possible and similar as well, and is treated the same. Flags of values are left.
        """
        domain, held = self.domain, self.domain.immutable.copy()
        flags = {flag for flag, _, _ in domain.fills}
        for block in domain.blocks if domain.kind == "realizable" and not len(self.form.root) else ():
            held[slice(*block)] |= unread[slice(*block)].all() and flags.isdisjoint(range(*block))
        return self if (held == domain.immutable).all() else self.within(replace(domain, immutable=held))

    def parts(self, x: Array, regions: Regions) -> tuple[ConvexSets, Mask]:
        """For regions of a larger δ of the rows of ``x``: the sets (one per region) that this δ leaves of them, around
        the same centres, and which are not empty; where that is False a set is a placeholder, to be ignored.

        **Soundness.** An individual similar by the smaller δ is so by the larger one, hence in one of its regions;
        there the set of the smaller δ holds them, or the whole region stands for it.
        """
        x = np.ascontiguousarray(x, dtype=np.float64)
        everywhere = np.ones(len(regions), dtype=bool)
        if self.domain.kind == "unbounded":
            return self._unbounded(x[regions.owner], None), everywhere
        if self.domain.kind == "relaxed":
            return self._relaxed(x[regions.owner], regions.owner, self._one_hot_blocks(), None).sets, everywhere
        branches = self._known_branches()
        if not branches.priced or (regions.sets.extent[:, ~self.domain.numeric] > 0).any():
            # Categories that were not listed, flags included: the whole region stands for its part.
            return regions.sets, everywhere
        low, high = self.ranges(x)
        return self._sets(x, low, high, branches, regions.owner, regions.centre, (), still=True)

    def _known_branches(self) -> Branches:
        if self._branches is None:
            self._branches = Branches.of(self.form.root, self.form.order, self._within_domain(), self.domain)
        return self._branches

    @np.errstate(all="ignore")
    def _within_domain(self) -> float:
        """δ, or the largest distance of two individuals at all if that is less: squares of it must not overflow."""
        if not len(self.form.root):
            return self.delta
        across = np.abs(self.form.root) @ (self.domain.high - self.domain.low)
        return min(self.delta, float(norm_up(across, self.form.order)) * (1 + 1e-6))

    # -- the three domains --------------------------------------------------------------------------------

    def _unbounded(self, x: Array, centre_box: CentreBox | None) -> ConvexSets:
        """The ball around 0, the same for everybody; its box is what :func:`axis_reach` proves of the ball."""
        if self._shared is not None:
            return self._shared
        low, high = self._box(x, centre_box)
        low[:, self.domain.immutable] = high[:, self.domain.immutable] = 0.0
        if not len(self.form.root):
            return ConvexSets.of_box(low, high)
        ruled = self.form.root.any(axis=0) & ~self.domain.immutable
        root = np.where(ruled, self.form.root, 0.0)
        key = self.delta, self.domain.immutable.tobytes()
        with _lock:
            known = _balls.setdefault(self.form, OrderedDict()).get(key) if self.keep else None
        if known is not None and np.array_equal(known.root, root):
            self._shared = known  # the root stays the same object, by which others know the ball
            return self._shared
        inverse, axis = axis_reach(root[:, ruled], self.form.order, self.delta)
        if not np.isfinite(axis).all():
            if np.isfinite(axis_reach(root[:, ruled], self.form.order, 1.0)[1]).all():
                raise DeltaError(
                    f"'delta' must be small enough for similar individuals to be finite. Got {self.delta}."
                )
            raise MetricError(
                "The metric is singular, so on the unbounded domain similar individuals can be arbitrarily far apart: "
                "give individuals a schema (domain 'relaxed' or 'realizable'), or a metric with a ridge."
            )
        low[:, ruled], high[:, ruled] = np.maximum(low[:, ruled], -axis), np.minimum(high[:, ruled], axis)
        whole = np.zeros((len(ruled), len(root)))
        whole[ruled] = inverse
        root, inverse = (self._matrices.setdefault(*each) for each in (("root", root), ("inverse", whole)))
        sets = self._around(root, inverse, low, high, (), np.zeros((1, len(ruled))), clipped=self.form.boxed)
        if not self.form.boxed:
            self._shared = sets
        if self.keep:
            with _lock:
                kept = _balls[self.form]
                kept[key] = sets
                while len(kept) > BALLS_KEPT:
                    kept.popitem(last=False)
        return sets

    def _around(
        self,
        root: Array,
        inverse: Array,
        low: Array,
        high: Array,
        blocks: tuple[tuple[int, int], ...],
        base: Array,
        clipped: bool = True,
    ) -> ConvexSets:
        """The ball of δ around 0, in boxes and simplices."""
        ball = root, self.form.order, np.array([self.delta]), np.zeros((1, len(root)))
        return ConvexSets(*ball, low, high, blocks, base, inverse, clipped)

    def _relaxed(
        self, x: Array, owner: Index, blocks: tuple[tuple[int, int], ...], centre_box: CentreBox | None
    ) -> Regions:
        low, high = self.ranges(x, centre_box)
        root, inverse = self._relaxed_root
        return Regions(owner, x, self._around(root, inverse, low, high, blocks, x))

    def _realizable(self, x: Array, owner: Index, branches: Branches, centre_box: CentreBox | None) -> list[Regions]:
        if not branches.priced:
            return [self._relaxed(x, owner, self._one_hot_blocks() if centre_box is None else (), centre_box)]
        low, high = self.ranges(x, centre_box)
        found = enumerate_branches(branches, x, low, high, min(self.max_branches, LISTED))
        regions = []
        if len(found.row):
            still = centre_box is None
            sets, alive = self._sets(x, low, high, branches, found.row, found.centre, found.relaxed, still)
            sets = sets if still else replace(sets, blocks=())
            pieces = Regions(owner[found.row], found.centre, sets)
            regions.append(pieces if alive.all() else pieces[alive])
        if len(found.overflow):
            crowd, some = found.overflow, None
            if centre_box is not None:
                some = tuple(side if len(side) == 1 else side[crowd] for side in centre_box)
            blocks = self._one_hot_blocks() if centre_box is None else ()
            regions.append(self._relaxed(x[crowd], owner[crowd], blocks, some))  # type: ignore[arg-type]
        return [piece for piece in regions if len(piece)]

    def _sets(
        self,
        x: Array,
        low: Array,
        high: Array,
        branches: Branches,
        row: Index,
        centre: Array,
        relaxed: tuple[tuple[int, int], ...],
        still: bool,
    ) -> tuple[ConvexSets, Mask]:
        """One set per branch: numbers move in what the change of categories leaves of the ball, if it leaves any.

        ``still``: moves are those of the centre itself, and not of those who move around it. A set is only left out
        where a number says that it is empty, never for want of one.
        """
        fixed = ~branches.numeric
        for start, stop in relaxed:
            fixed[start:stop] = False
        low, high = (np.where(fixed, 0.0, side)[row] for side in (low, high))
        radius, offset = branches.remaining_radius(centre - x[row])
        reach = branches.reach(radius, offset)
        if reach is not None:
            low[:, branches.numeric] = np.maximum(low[:, branches.numeric], reach[0])
            high[:, branches.numeric] = np.minimum(high[:, branches.numeric], reach[1])
        self.narrow(centre, low, high, still)
        alive = ~((low > high).any(axis=1) | (radius < 0))
        ball = branches.root, self.form.order, np.maximum(radius, 0.0), offset
        return ConvexSets(*ball, low, np.maximum(low, high), relaxed, centre, branches.inverse), alive

    # -- boxes --------------------------------------------------------------------------------------------

    def _box(self, x: Array, centre_box: CentreBox | None) -> tuple[Array, Array]:
        """What the metric says of single coordinates; one shared row where it says nothing."""
        if not self.form.boxed:
            return np.full((1, x.shape[1]), -np.inf), np.full((1, x.shape[1]), np.inf)
        if centre_box is None:
            return self.form.box(x, self.delta)
        # Around a raw value v a box is a constant or, within a ratio, a constant times max(v, 0), which is 0 at 0 and
        # grows with v: coordinate by coordinate it is widest at an end.
        lowest, highest = down(x + centre_box[0]), up(x + centre_box[1])
        if self.domain.kind != "unbounded":  # which holds everybody, whatever ranges it was given
            lowest, highest = (np.clip(end, self.domain.low, self.domain.high) for end in (lowest, highest))
        ends = [self.form.box(end, self.delta) for end in (lowest, highest)]
        return np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])

    def ranges(self, x: Array, centre_box: CentreBox | None = None) -> tuple[Array, Array]:
        """The moves that metric box, domain ranges and immutability leave.

        **Soundness.** ``low − z ≤ y − z ≤ high − z`` for members, widest at the ends of where ``z`` wanders; sums and
        differences are rounded outward once each, and 0 always belongs: ``z`` is similar to itself.
        """
        low, high = self._box(x, centre_box)
        lowest, highest = (x, x) if centre_box is None else (down(x + centre_box[0]), up(x + centre_box[1]))
        low = np.maximum(low, np.minimum(down(self.domain.low - highest), 0.0))
        high = np.minimum(high, np.maximum(up(self.domain.high - lowest), 0.0))
        low[:, self.domain.immutable] = high[:, self.domain.immutable] = 0.0
        return low, high

    def narrow(self, centre: Array, low: Array, high: Array, still: bool) -> None:
        """Shrink boxes, in place, to the whole numbers that moves lead to: from the centre itself (``still``), or from
        any place that wanders around it."""
        if still:
            self._narrow_to_lattice(centre, low, high)
        else:
            self._narrow_to_steps(low, high)

    def _narrow_to_lattice(self, centre: Array, low: Array, high: Array) -> None:
        """Shrink, in place, the interval of each whole-number coordinate to the lattice points within it.

        **Soundness.** No lattice point is lost (:func:`lattice_ends`), and the way back is rounded outward.
        """
        which = self.domain.integer
        if not which.any():
            return
        origin, unit, here = self.domain.origin[which], self.domain.unit[which], centre[:, which]
        first, last, margin = lattice_ends(origin, unit, here, low[:, which], high[:, which])
        first, last = np.ceil(first - margin), np.floor(last + margin)
        # Where margins are wider than steps, or overflow, the box stays as it is.
        low[:, which] = np.fmax(low[:, which], outward((first - origin) / unit - here, down))
        high[:, which] = np.fmin(high[:, which], outward((last - origin) / unit - here, up))

    def _narrow_to_steps(self, low: Array, high: Array) -> None:
        """The same for differences of two whole numbers, wherever in their range these are.

        **Soundness.** ``fl(fl(k − origin) / unit)`` is within three roundings of ``(k − origin) / unit``, so a
        difference of two is within six of their size of ``n / unit``, ``n`` whole, and for ``n = 0`` it is 0. The size
        is that of the range: far from the centre coordinates have fewer digits than a step near it.
        """
        which = self.domain.integer
        if not which.any():
            return
        unit = self.domain.unit[which]
        size = np.maximum(np.abs(self.domain.low[which]), np.abs(self.domain.high[which]))
        margin, slack = LATTICE_MARGIN * np.maximum(1.0, size * unit), 8 * U * size + TINY
        first, last = np.ceil(low[:, which] * unit - margin), np.floor(high[:, which] * unit + margin)
        least = np.where(first == 0.0, 0.0, down(down(first / unit) - slack))
        most = np.where(last == 0.0, 0.0, up(up(last / unit) + slack))
        low[:, which] = np.fmax(low[:, which], least)
        high[:, which] = np.fmin(high[:, which], most)

    def _one_hot_blocks(self) -> tuple[tuple[int, int], ...]:
        """The blocks that move in a simplex: not flags, not immutable."""
        return tuple(block for block in self.domain.simplices if not self.domain.immutable[slice(*block)].all())

    @cached_property
    def _relaxed_root(self) -> tuple[Array, Array]:
        """The root on coordinates that may move, and its pseudo-inverse."""
        root = np.where(self.domain.immutable, 0.0, self.form.root)
        return root, pseudo_inverse(root)


def lattice_ends(
    origin: Array | float, unit: Array | float, here: Array, low: Array, high: Array
) -> tuple[Array, Array, Array]:
    """The ends of boxes of moves in whole numbers, and the margin within which points outside still count.

    **Soundness.** ``(here + v) unit + origin`` is computed within a few roundings of ``size``; the margin is millions
    of them.
    """
    first, last = (here + low) * unit + origin, (here + high) * unit + origin
    size = np.maximum(np.maximum(np.abs(first), np.abs(last)), np.abs(origin) + np.abs(here * unit))
    return first, last, LATTICE_MARGIN * np.maximum(1.0, size)


def filled(regions: Regions, domain: Domain) -> Regions:
    """Individuals without a value for a feature have its fill: where a region says so, its box is a point there."""
    if domain.kind != "realizable" or not domain.fills:
        return regions
    low, high = domain.filled_box(regions.centre, regions.sets.low, regions.sets.high)
    alive = ~np.asarray((low > high).any(1))
    return replace(regions, sets=replace(regions.sets, low=low, high=high))[alive]


def _checked(delta: float) -> float:
    if not (math.isfinite(delta) and delta >= 0):
        raise DeltaError(f"'delta' must be a finite number >= 0. Got {delta}.")
    return float(delta)


@np.errstate(all="ignore")  # what overflows is an infinite reach
def axis_reach(root: Array, order: float, radius: float) -> tuple[Array, Array]:
    """An approximate inverse ``K`` of a root, and the largest ``|v_i|`` with ``‖R v‖ ≤ radius``, rigorous.

    **Soundness.** ``v = K R v + E v`` with ``E = I − K R``; so ``|v_i| ≤ radius ‖K_i‖_q + ‖E_i‖₁ ‖v‖_∞`` and, when
    every ``‖E_i‖₁ ≤ ½``, ``‖v‖_∞ ≤ 2 radius max ‖K_i‖_q``. Otherwise the reach is infinite.
    """
    inverse = pseudo_inverse(root)
    size = root.shape[1]
    error = np.abs(np.eye(size) - inverse @ root)
    error = error + gamma(len(root) + 4) * (np.eye(size) + product_up(np.abs(inverse), np.abs(root))) + TINY
    residual = norm_up(error, 1)
    norms = norm_up(inverse, dual_order(order))
    if not (residual <= 0.5).all():
        return inverse, np.full(size, np.inf)
    furthest = 2 * radius * (norms.max() if size else 0.0)
    return inverse, (radius * norms + residual * furthest) * (1 + 8 * U) + TINY


def is_norm(form: Form) -> bool:
    """Does every move cost something? Otherwise a ball of radius 0 is more than a point."""
    free = np.isinf(form.box(np.zeros(form.width), 0.0)[1])
    if not free.any():
        return True
    return bool(len(form.root)) and bool(np.isfinite(axis_reach(form.root[:, free], form.order, 1.0)[1]).all())
