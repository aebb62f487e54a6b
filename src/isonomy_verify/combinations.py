"""Similar sets of many combinations of categories: all by shared intervals, few by passes.

Problem: with a metric that looks at one coordinate at a time the people similar to ``x`` in the realizable domain are a
product: any allowed state of each free block, times one box of numbers. Each combination ``j`` is a region, hundreds
for a person, and only the worst one counts. Let ``c_j`` be cheap bounds of all, ``t_j`` expensive ones of some:

    upper  ≤  max( max over S of min(c_j, t_j),  max outside S of c_j ),

no more than with ``t_j`` for all of them once no ``c_j`` outside ``S`` is above the largest bound inside. Cheap bounds
share the first layer: it sees ``A_i + F_j``, ``A_i`` what a person's numbers and fixed categories give and ``F_j`` what
a combination adds, the same for everybody; how far the box moves it is the same for all ``j``. A table of people ×
combinations × coordinates is never formed.

**Soundness.** Every number that is kept bounds its own combination from above, and the largest of all combinations that
a person may take is returned, so that it is no matter which of them are given a pass. ``A_i + F_j`` is the sum of the
products of one row of weights with the person's coordinates, added up in another order: the charge of a layer's
rounding holds for every order. All further steps are those of :class:`isonomy_verify.enclosure.Enclosure`.

*Differences* (:class:`Gaps`): ``z`` is near a known ``x`` and has its categories, ``y`` is similar to ``z`` and has any
of the combinations. The run of ``z`` is enclosed once, the difference of the two runs starts at ``box + F_j − F_own``,
the run of ``y`` in what the domain leaves of both boxes; each is narrowed by the other two, as in
:mod:`isonomy_verify.differences`. ``F_j − F_own`` is off by ``γ`` times absolute products of both, which is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product as every
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import TINY, Array, U, gamma
from isonomy_verify.branches import states_of
from isonomy_verify.differences import Difference, Gap, Pairs, gap
from isonomy_verify.domain import Domain, Mask
from isonomy_verify.enclosure import BLOCK, Ends, Prepared, Run, Weighed, extent_of, linear_image_of
from isonomy_verify.network import Network
from isonomy_verify.regions import BallBox, Index, LinearImage
from isonomy_verify.sets import ConvexSets, Regions, region_of
from isonomy_verify.similar import MAX_BRANCHES, CentreBox, Similarity
from isonomy_verify.tiers import Enclosure

MANY = 16
"""Regions, or combinations, of one individual from which on intervals of all save more passes than they cost."""

TILE = 2**16
"""Activations of a layer, over people and combinations, that are worked on together: half a megabyte, which stays in
cache, and below what the system's allocator returns to it after every use (of twice as many a bound takes up to twice
the time)."""

PAIRS = 2**20
"""People times combinations whose bounds are held at a time."""


class Product(NamedTuple):
    """Similar sets (n of them) as products: boxes of numbers, and combinations of categories."""

    centre: Array  # (n, m): whose sets these are
    low: Array  # (n, m): the box of moves, 0 at categories
    high: Array
    columns: Index  # (k,): the coordinates of blocks that change
    states: Array  # (c, k): what each combination has there
    allowed: Mask  # (n, c): which combinations a person may take

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return len(self.states)

    @property
    def empty(self) -> Mask:
        """Whose box (n,) holds nothing."""
        return np.asarray((self.low > self.high).any(1))

    def of(self, rows: Index | slice) -> Product:
        """Those of some people."""
        return self._replace(
            centre=self.centre[rows], low=self.low[rows], high=self.high[rows], allowed=self.allowed[rows]
        )

    def at(self, row: Index, combination: Index) -> Array:
        """People (k, m) with the categories of combinations."""
        there = self.centre[row]
        there[:, self.columns] = self.states[combination]
        return there

    def regions(self, row: Index, combination: Index) -> Regions:
        """Combinations as regions, owned by the rows."""
        sets = ConvexSets.of_box(self.low[row], np.maximum(self.low[row], self.high[row]))
        return Regions(row, self.at(row, combination), sets)


def product_of(similarity: Similarity, x: Array, centre_box: CentreBox | None = None) -> Product | None:
    """Return the similar sets of the rows of ``x``, which lie in the domain, as products; None where they are none, or
    have more combinations than are to be listed, or than :data:`MAX_BRANCHES`, whatever a certificate asks for.

    With ``centre_box`` they hold differences, as those of :meth:`Similarity.regions`.
    """
    domain = similarity.domain
    if domain.kind != "realizable" or len(similarity.form.root):
        return None
    x = np.ascontiguousarray(x, dtype=np.float64)
    low, high = (np.array(np.broadcast_to(side, x.shape)) for side in similarity.ranges(x, centre_box))
    movable = sorted(block for block in domain.blocks if not domain.immutable[slice(*block)].all())
    states = [(block, states_of(block, x, low, high)[1]) for block in movable]
    listed = [
        (block, allowed, np.flatnonzero(allowed.any(0))) for block, allowed in states if (allowed.sum(1) > 1).any()
    ]
    if math.prod(len(some) for _, _, some in listed) > min(similarity.max_branches, MAX_BRANCHES):
        return None
    fixed = ~(domain.numeric & ~domain.immutable)
    low[:, fixed] = high[:, fixed] = 0.0
    similarity.narrow(x, low, high, still=centre_box is None)
    choice = np.array([*every(*(some for _, _, some in listed))], dtype=np.int64)
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(np.arange(*block) for block, _, _ in listed)])
    held, allowed = np.zeros((len(choice), len(columns))), np.ones((len(x), len(choice)), dtype=bool)
    place = 0
    for number, ((start, stop), mask, _) in enumerate(listed):
        width, mine = stop - start, choice[:, number]
        held[:, place : place + width] = mine[:, None] if width == 1 else np.eye(width)[mine]
        allowed &= mask[:, mine]
        place += width
    return Product(x, low, high, columns, held, allowed)


class Tile(NamedTuple):
    """Some people and some combinations, whose pairs stand one behind the other, person by person."""

    people: slice
    combinations: slice

    @property
    def owner(self) -> Index:
        """The person (pairs,) of every pair."""
        several = self.combinations.stop - self.combinations.start
        return np.repeat(np.arange(self.people.start, self.people.stop), several)

    @property
    def combination(self) -> Index:
        """The combination (pairs,) of every pair."""
        several = np.arange(self.combinations.start, self.combinations.stop)
        return np.tile(several, self.people.stop - self.people.start)

    def pairs(self, own: Array, more: Array) -> Array:
        """What people and combinations give together, (pairs, width); ``own`` may be one row for all."""
        mine = np.broadcast_to(own, (self.people.stop, own.shape[1])) if len(own) == 1 else own
        return np.asarray((mine[self.people, None, :] + more[self.combinations]).reshape(-1, own.shape[1]))

    def linear_image(self, linear_image: LinearImage) -> LinearImage:
        """How the boxes of people meet a layer, pair by pair."""
        low, high, reach = (
            a if len(a) == 1 else a[self.owner] for a in (linear_image.low, linear_image.high, linear_image.reach)
        )
        return linear_image._replace(low=low, high=high, reach=reach)


class Images:
    """What each layer that reads the input makes of a product's boxes and combinations."""

    @np.errstate(all="ignore")
    def __init__(self, prepared: Prepared, product: Product) -> None:
        self.prepared, self.product = prepared, product
        base = np.array(product.centre)
        base[:, product.columns] = 0.0
        self.box = BallBox(product.low, np.maximum(product.low, product.high))
        self.linear_images = [linear_image_of(layer, self.box) for layer in prepared.network.layers]
        self.weighed: tuple[Weighed, Weighed] | None = None
        if is_shared(prepared.network):  # ``eta`` is a norm: that of a sum is at most the sum of both
            states = np.zeros((product.size, base.shape[1]))
            states[:, product.columns] = np.abs(product.states)
            sizes = np.abs(base) + extent_of(prepared, self.box)
            self.weighed = Weighed.of(prepared, sizes, True), Weighed.of(prepared, states, False)
        self.own: list[Array] = []
        self.more: list[Array | None] = []
        for layer, linear_image in zip(prepared.network.layers, self.linear_images, strict=True):
            if linear_image is None:
                self.own.append(layer.bias[None])
                self.more.append(None)
            else:
                self.own.append(base @ layer.transposed[0] + layer.bias)
                self.more.append(product.states @ layer.transposed[0][product.columns])

    def tiles(self) -> Iterator[Tile]:
        """All pairs."""
        n, c = self.product.allowed.shape
        most = max(1, TILE // self.prepared.network.widest)
        several, step = min(c, most), max(1, most // max(1, c))
        for i in range(0, n, step):
            for j in range(0, c, several):
                yield Tile(slice(i, min(i + step, n)), slice(j, min(j + several, c)))

    def intervals(self) -> Iterator[tuple[Tile, Enclosure]]:
        """Yield the margins over every combination, tile by tile."""
        for tile in self.tiles():
            with np.errstate(all="ignore"):  # what overflows ends as an infinite bound
                run = self.run(tile).forward(passes=False, lines=False)
                lost, (low, high) = run.overflow[:, None], run.range[-1]
                yield tile, Enclosure(np.where(lost, -np.inf, low), np.where(lost, np.inf, high))

    def run(self, tile: Tile) -> Run:
        """A run over the pairs of a tile, which has yet to go forward; not for passes."""
        start = [own if more is None else tile.pairs(own, more) for own, more in zip(self.own, self.more, strict=True)]
        linear_images = [None if each is None else tile.linear_image(each) for each in self.linear_images]
        if self.weighed is None:
            x = self.product.at(tile.owner, tile.combination)
            return Run(self.prepared, x, self.box[tile.owner], start, linear_images)
        pairs = (tile.pairs(own[:, None], more[:, None])[:, 0] for own, more in zip(*self.weighed, strict=True))
        weighed = Weighed(*pairs)
        return Run(self.prepared, np.zeros((len(weighed.eta), 0)), self.box, start, linear_images, weighed)


def is_shared(network: Network) -> bool:
    """Is the input read by the first layer alone, which has an activation? Otherwise nothing here applies."""
    others = (block.source for layer in network.layers[1:] for block in layer.blocks)
    return network.depth > 0 and network.layers[0].reads_input_only and 0 not in others


class Near:
    """Ranges of the runs of people near known ones, layer by layer, the last of the outputs; a row for each person, or
    for each pair."""

    def __init__(self, ranges: list[Ends]) -> None:
        self.range = ranges

    @classmethod
    def of(cls, pairs: Pairs, near: Regions, tight: bool) -> Near:
        """Enclose the runs over the regions ``near``; ``tight``: by backward passes."""
        parts = []
        for k in range(0, len(near), BLOCK):
            some = near[k : k + BLOCK]
            run = Run(pairs.near, some.centre, region_of(some.sets)).forward(tight)
            parts.append([*run.range[:-1], *run.outputs(passes=tight)])
        joined = (zip(*each, strict=True) for each in zip(*parts, strict=True))
        return cls([(np.concatenate(low), np.concatenate(high)) for low, high in joined])

    def at(self, owner: Index) -> Near:
        """Those of some people."""
        return Near([(low[owner], high[owner]) for low, high in self.range])


class Gaps:
    """Bounds of differences over the combinations of people who are near known ones.

    ``product`` holds the differences of numbers and the other person's categories, seen from the known ones; ``near``
    the regions of the known ones, in which no category moves.
    """

    @np.errstate(all="ignore")  # what overflows ends as an infinite bound
    def __init__(self, pairs: Pairs, domain: Domain, near: Regions, product: Product, tight: bool = True) -> None:
        self.pairs, self.near, self.product = pairs, Near.of(pairs, near, tight), product
        low, high = domain.low - product.centre, domain.high - product.centre
        moves = (near.sets.low + product.low, near.sets.high + product.high)
        slack = (4 * U) * (np.abs(low) + np.abs(high) + np.abs(moves[0]) + np.abs(moves[1])) + TINY
        number = domain.numeric
        least = np.where(number, np.maximum(moves[0], low) - slack, 0.0)
        most = np.where(number, np.maximum(np.minimum(moves[1], high) + slack, least), 0.0)
        self.far = Images(pairs.far, product._replace(low=least, high=most))
        self.between = Images(pairs.between, product)
        # Of differences of categories nothing is known but that they are between −1 and 1.
        wide = np.zeros(product.low.shape)
        wide[:, product.columns] = 1.0
        self.box = BallBox(np.minimum(product.low, -wide), np.maximum(product.high, np.maximum(product.low, wide)))
        self.linear_image, sizes = self._linear_image(), extent_of(pairs.between, self.box)
        self.weighed = Weighed.of(pairs.between, sizes, False)

    def _linear_image(self) -> LinearImage:
        """How far the first layer moves without ``F_j``: the box, less the own categories."""
        layer, product, linear_image = self.pairs.network.layers[0], self.product, self.between.linear_images[0]
        assert linear_image is not None
        weight, size = layer.transposed[0][product.columns], layer.blocks[0].size[:, product.columns].T
        mine = product.centre[:, product.columns]
        own, sizes = mine @ weight, mine @ size + (product.states @ size).max(0, initial=0.0)
        slack = sizes * gamma(4 * len(product.columns) + 16)
        slack = slack + (16 * U) * (np.abs(linear_image.low) + np.abs(linear_image.high) + sizes) + TINY
        reach = (linear_image.reach + sizes) * (1 + gamma(2 * len(product.columns) + 8)) + TINY
        reach = np.broadcast_to(reach, own.shape)
        low, high = linear_image.low - own - slack, linear_image.high - own + slack
        return linear_image._replace(low=low, high=high, reach=reach)

    def intervals(self) -> Iterator[tuple[Tile, Gap]]:
        """Yield what intervals say of every combination, tile by tile."""
        for tile in self.far.tiles():
            yield tile, self._enclosed(tile)

    @np.errstate(all="ignore")
    def _enclosed(self, tile: Tile) -> Gap:
        last, far, owner = self.pairs.network.depth, self.far.run(tile), tile.owner
        near, more, linear_image = self.near.at(owner), self.between.more[0], self.linear_image
        assert more is not None
        low, high = tile.pairs(linear_image.low, more), tile.pairs(linear_image.high, more)
        first = linear_image._replace(low=low, high=high, reach=linear_image.reach[owner])
        linear_images = [first, *[None] * last]
        weighed = Weighed(*(each[owner] for each in self.weighed))
        between = Difference(self.between.prepared, near, far, self.box, None, linear_images, weighed)
        for k in range(last + 1):
            far.step(k, passes=False, lines=False)
            between.step(k, passes=False, lines=False)
            if k < last:
                far.range[k] = between.narrow[k][1]
                far.relax(k, wanted=False)
        return gap(near.range[last], far.range[last], between.range[last], between.overflow)
