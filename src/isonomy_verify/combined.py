"""Differences of two runs over many combinations of categories: all by shared intervals, few by passes.

Problem: ``z`` is somebody near a known ``x`` with the categories of ``x``, ``y`` somebody similar to ``z``, whose
categories are any of many combinations ``j`` (:mod:`isonomy_verify.combinations`). How differently are the two
treated? The run of ``z`` is the same for all ``j``: it is enclosed once for each person. The difference of the two runs
starts at ``box + F_j − F_own``, the run of ``y`` in what the domain leaves of both boxes; behind activations both are
bounded by intervals as in :mod:`isonomy_verify.differences`, each narrowed by the other two. Those that may be the
largest are bounded by that module's own passes.

**Soundness.** As there: every number that is kept bounds its combination, and the largest of all is returned. ``F_j −
F_own`` is rounded by at most ``γ`` times the sums of absolute products of both, which is added to the ends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isonomy_verify.arithmetic import TINY, U, gamma
from isonomy_verify.combinations import Images, Product, Tile
from isonomy_verify.differences import Difference, Gap, Pairs, gap
from isonomy_verify.domain import Domain
from isonomy_verify.enclosure import BLOCK, Ends, Run
from isonomy_verify.network import Network
from isonomy_verify.regions import BallBox, Index, LinearImage
from isonomy_verify.sets import Regions, region_of


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
        self.linear_image = self._landing()

    def _landing(self) -> LinearImage:
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
        return LinearImage(
            linear_image.matrix,
            linear_image.loss,
            linear_image.low - own - slack,
            linear_image.high - own + slack,
            reach,
        )

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
        between = Difference(self.between.prepared, near, far, self.box[owner], None, linear_images)
        for k in range(last + 1):
            far.step(k, passes=False, lines=False)
            between.step(k, passes=False, lines=False)
            if k < last:
                far.range[k] = between.runs(k)[1]
                far.relax(k, wanted=False)
        return gap(near.range[last], far.range[last], between.range[last], between.overflow)
