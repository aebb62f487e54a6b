"""What every shift must keep: a test class inherits `ShiftContract` and gives ``shift()`` and ``truth(cells)``.

``truth`` is the largest mean violation of the shift's populations when the violation in every cell is its value and the
cost its nearest, by a program that knows nothing of multipliers.
"""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from isonomy.certificates.dual import Dual, best_mixture, cells_of_table
from isonomy.certificates.protocol import Shift
from isonomy_verify.dual import Cells

MULTIPLIERS = (0.0, 1e-9, 0.03, 0.2, 0.7, 1.0, 5.0, 1e9)


def cells(seed: int, n: int = 12, count: int = 4) -> Cells:
    """Profiles that rise with the radius, of people with weights."""
    rng = np.random.default_rng(seed)
    radii = np.append(0.0, np.sort(rng.uniform(0.01, 1.5, count - 1)))
    values = np.sort(rng.random((n, count)) * rng.random((n, 1)), axis=1)
    return cells_of_table(radii, values, 1.0, rng.uniform(0.1, 2.0, n))


class ShiftContract:
    """Every multiplier bounds the truth from above, the best one meets it, and what is attained stays below."""

    @staticmethod
    def shift() -> Any:
        raise NotImplementedError

    @staticmethod
    def truth(some: Cells) -> float:
        raise NotImplementedError

    @pytest.mark.parametrize("seed", range(4))
    def test_every_multiplier_is_a_bound(self, seed: int) -> None:
        shift, some = self.shift(), cells(seed)
        truth = self.truth(some)
        for multiplier in (None,) if shift.free else MULTIPLIERS:
            height = shift.heights_up(some, multiplier)
            assert height.shape == some.weights.shape and (height >= 0).all()
            price = 0.0 if multiplier is None else shift.price_up(multiplier)
            weights = [Fraction(weight) for weight in some.weights.tolist()]
            mean = sum(w * Fraction(h) for w, h in zip(weights, height.tolist(), strict=True)) / sum(weights)
            assert price >= 0 and float(price + mean) >= truth * (1 - 1e-7)  # what HiGHS leaves open

    @pytest.mark.parametrize("seed", range(4))
    def test_the_best_multiplier_meets_the_truth(self, seed: int) -> None:
        shift, some = self.shift(), cells(seed)
        found = Dual([some], shift).bound(shift.size)
        assert found.upper == pytest.approx(self.truth(some), rel=1e-6)
        parts = Dual([_between(some, 0, 5), _between(some, 5, 12)], shift).bound(shift.size)
        assert parts.upper == pytest.approx(found.upper, rel=1e-12)

    @pytest.mark.parametrize("seed", range(4))
    def test_what_is_attained_stays_below(self, seed: int) -> None:
        shift, some = self.shift(), cells(seed)
        first = np.lexsort((some.near, some.owner))
        near = some.near + np.where(some.open_, 1e-6, 0.0)
        owner, cost, value = some.owner[first], near[first], some.value[first]
        found = best_mixture(shift, owner, cost, value, some.weights)
        assert 0 <= found.value <= Dual([some], shift).bound(shift.size).upper
        assert found.value == pytest.approx(self.truth(some), rel=1e-5)

    def test_workers_and_files_know_it(self) -> None:
        shift = self.shift()
        copy = pickle.loads(pickle.dumps(shift))
        assert isinstance(shift, Shift) and shift.kind and shift.kind in shift.fingerprint()
        assert copy.fingerprint() == shift.fingerprint() and copy.price_up(0.5) == shift.price_up(0.5)
        assert "7 individuals" in shift.words(7)


def _between(cells: Cells, first: int, end: int) -> Cells:
    """The cells of some individuals, numbered anew."""
    kept = (first <= cells.owner) & (cells.owner < end)
    near, far, value, open_ = cells.near[kept], cells.far[kept], cells.value[kept], cells.open_[kept]
    return Cells(cells.owner[kept] - first, near, far, value, open_, cells.weights[first:end])
