"""What every set of moves must keep: a test class inherits `SupportSetContract` and gives ``region()`` and ``moves``.

``moves(rng, row, count)`` are members of the set of a row, found without its support function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy_verify.regions import Region

WIDTH = 4


class SupportSetContract:
    """No member is beyond the extent, the ranges of a layer over the set, or the support function."""

    @staticmethod
    def region() -> Any:
        raise NotImplementedError

    @staticmethod
    def moves(rng: np.random.Generator, row: int, count: int) -> np.ndarray:
        raise NotImplementedError

    def looked_at(self, region: Region, owners: list[int]) -> None:
        """``owners`` are the rows of the contract's own region that stand in ``region``."""
        rng = np.random.default_rng(7)
        weight = rng.normal(size=(5, WIDTH))
        size, linear_image = np.abs(weight), region.linear_image(weight, np.abs(weight))
        assert linear_image.matrix.shape[0] == len(weight) and size.shape == weight.shape
        extent = np.broadcast_to(region.extent, (len(owners), WIDTH))
        for place, owner in enumerate(owners):
            v = self.moves(rng, owner, 200)
            assert len(v) and (np.abs(v) <= extent[place] * (1 + 1e-12)).all()
            lands = v @ weight.T
            low, high = (np.broadcast_to(end, (len(owners), 5))[place] for end in (linear_image.low, linear_image.high))
            assert (lands >= low - 1e-12).all() and (lands <= high + 1e-12).all()
            c = rng.normal(size=(6, 5))
            rows = np.full(len(c), place if region.rows > 1 else 0)
            support = region.support(c @ linear_image.matrix, rows)
            loss = np.abs(c) @ np.atleast_2d(linear_image.loss)[place if np.ndim(linear_image.loss) > 1 else 0]
            assert (lands @ c.T <= support + loss + 1e-10).all()
            assert region.maximiser(c @ linear_image.matrix, rows).shape == (len(c), linear_image.matrix.shape[1])

    def test_nobody_is_beyond(self) -> None:
        region = self.region()
        self.looked_at(region, list(range(region.rows)))

    def test_some_of_the_sets_are_the_same_sets(self) -> None:
        region = self.region()
        rows = np.array([region.rows - 1, 0])
        self.looked_at(region[rows], rows.tolist() if region.rows > 1 else [0])
