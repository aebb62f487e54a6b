"""What every shift must keep: a test class inherits `ShiftContract` and gives ``shift()`` and ``truth(cells)``.

``truth`` is the largest mean violation of the shift's populations when the violation in every cell is its value and the
cost its nearest, by a program that knows nothing of multipliers.
"""

from __future__ import annotations

import math
import pickle
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from isonomy.certificates.dual import Dual, best_mixture, cells_of_table
from isonomy.certificates.protocol import Shift
from isonomy.certificates.shifts import KINDS, shift_of
from isonomy.certificates.transport import Transport
from isonomy.certificates.worst_case import Points
from isonomy.errors import IsonomyError, UnsupportedOperationError
from isonomy_verify import shifts as kernel
from isonomy_verify.arithmetic import exact_sum, mean_up, products_down
from isonomy_verify.dual import Cells
from isonomy_verify.layout import SHIFTS
from isonomy_verify.reweighting import Composable, sample_of
from isonomy_verify.reweighting import bounds as kernel_bounds

MULTIPLIERS = (0.0, 1e-9, 0.03, 0.2, 0.7, 1.0, 5.0, 1e9)


def cells(seed: int, n: int = 12, count: int = 4) -> Cells:
    """Profiles that rise with the radius, of people with weights."""
    rng = np.random.default_rng(seed)
    radii = np.append(0.0, np.sort(rng.uniform(0.01, 1.5, count - 1)))
    values = np.sort(rng.random((n, count)) * rng.random((n, 1)), axis=1)
    return cells_of_table(radii, values, 1.0, rng.uniform(0.1, 2.0, n))


class ShiftContract:
    """Every multiplier bounds the truth from above, the best one meets it, what is attained stays below, and record and
    checker mean the same shift."""

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
            bound = shift.bound_up(multiplier, mean_up(height, some.weights))
            assert bound >= truth * (1 - 1e-7)  # what HiGHS leaves open
            # What the checker derives is what is proved here.
            assert (shift.kernel.heights(some, multiplier) == height).all() and shift.kernel.plain == shift.free
            assert shift.kernel.bound(multiplier, mean_up(height, some.weights)) == bound

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

    @pytest.mark.parametrize("seed", range(2))
    def test_the_checker_takes_what_is_attained(self, seed: int) -> None:
        """Nobody has more mass than their weight, the masses keep to the shift, and reach what is claimed."""
        shift, some = self.shift(), cells(seed)
        owner, cost, value = some.owner, some.near + np.where(some.open_, 1e-6, 0.0), some.value
        first = np.lexsort((cost, owner))
        points = Points(owner[first], owner[first][:, None], owner[first][:, None], cost[first], value[first])
        masses, weight = points.masses(some.weights, shift), exact_sum(some.weights)
        held = np.bincount(points.owner, masses, minlength=len(some.weights))
        assert (masses >= 0).all() and (held <= some.weights * (1 + 1e-15)).all()
        used = masses > 0
        assert shift.kernel.keeps(masses[used], points.cost[used], weight)
        total = exact_sum(products_down(masses[used], points.value[used]))
        reached, claimed = Fraction(total, weight), points.mixture(some.weights, shift).value
        assert float(reached) == pytest.approx(claimed, rel=1e-12)

    def test_workers_and_files_know_it(self) -> None:
        shift = self.shift()
        copy = pickle.loads(pickle.dumps(shift))
        assert isinstance(shift, Shift) and shift.kind and shift.kind in shift.fingerprint()
        assert copy.fingerprint() == shift.fingerprint() and copy.bound_up(0.5, 0.5) == shift.bound_up(0.5, 0.5)

    def test_a_record_has_its_section(self) -> None:
        _check_section(self.shift())

    def test_its_words_name_the_individuals_and_its_size(self) -> None:
        _check_words(self.shift())


class ReweightingContract:
    """No individual moves: what is attained stays below what is proved, its population reaches it, and record and
    checker mean the same shift. ``shifts()`` gives members; groups are three."""

    @staticmethod
    def shifts() -> list[Any]:
        raise NotImplementedError

    @staticmethod
    def cells(groups: Any) -> Any:
        """What the shift tells individuals apart by, of the three groups."""
        return groups

    @staticmethod
    def tilted(shift: Any, cells: Any, weights: Any) -> Any:
        """The shift of individuals in such cells, where it hangs on them."""
        return shift

    @pytest.mark.parametrize("seed", range(4))
    def test_both_sides_and_the_population_between_them(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        high, groups = rng.random(40), np.append(np.arange(3), rng.integers(0, 3, 37))
        low, weights = high * rng.uniform(0.95, 1, 40), rng.uniform(0.1, 2, 40)
        for shift in self.shifts():
            own = self.cells(groups)
            if own.ndim == 2:
                shift = self.tilted(shift, own, weights)
            people = sample_of(high, low, weights, own)
            found = shift.answer(people.high, people.low, people.weights, people.groups, 1.0)
            assert 0 <= found.lower <= found.upper <= 1 and found.shift is shift
            assert kernel_bounds(shift.kernel, people, found.hints, 1.0) == (found.upper, found.lower)
            masses, tau = shift.masses(people, found.hints), shift.strangers
            mean = masses @ people.low / masses.sum()
            if shift.kernel.free_strangers:
                mean = (1 - tau) * mean + tau * people.low.max()
            assert (masses >= 0).all() and mean == pytest.approx(found.lower, rel=1e-9)
            wider = shift.answer(people.high + 0.01, people.low, people.weights, people.groups, 2.0)
            assert wider.upper >= found.upper  # bounds rise with values

    @pytest.mark.parametrize("seed", range(2))
    def test_a_mean_that_is_too_small_hides_no_more_than_the_kernel_says(self, seed: int) -> None:
        """With the same hints; but where bounds are about any people whose own are in the same bins."""
        rng = np.random.default_rng(seed)
        groups, weights = np.append(np.arange(3), rng.integers(0, 3, 37)), rng.uniform(0.1, 2, 40)
        for shift in self.shifts():
            own = self.cells(groups)
            if own.ndim == 2:
                shift = self.tilted(shift, own, weights)
            people = sample_of(rng.random(40), np.zeros(40), weights, own)
            hints = shift.hints(people)
            steepest = shift.kernel.steepest(people, hints, 1.0)
            for count in (1, 5, 40) if steepest else ():
                some = rng.choice(40, count, replace=False)
                more = people.high.copy()
                more[some] += rng.uniform(0, 1, count)
                gained = shift.kernel.upper(people._replace(high=more), hints) - shift.kernel.upper(people, hints)
                lost = Fraction(mean_up(more - people.high, weights))
                assert float(gained) <= float(steepest * lost) * (1 + 1e-9) + 1e-9

    def test_people_move_afterwards_or_that_is_refused(self) -> None:
        for shift in self.shifts():
            if shift.uncomposed:
                with pytest.raises(IsonomyError, match=re.escape(shift.uncomposed)):
                    shift & Transport(0.1)
            else:  # the checker has what it needs
                assert isinstance(shift.kernel, Composable) and (shift & Transport(0.1)).first == shift

    def test_workers_and_files_know_it(self) -> None:
        for shift in self.shifts():
            copy = pickle.loads(pickle.dumps(shift))
            assert isinstance(shift, Shift) and shift.kind in shift.fingerprint() and copy == shift
            assert copy.fingerprint() == shift.fingerprint() and copy.kernel == shift.kernel

    def test_a_record_has_its_section(self) -> None:
        for shift in self.shifts():
            _check_section(shift)

    def test_its_words_name_the_individuals_and_its_size(self) -> None:
        for shift in self.shifts():
            _check_words(shift)

    def test_what_needs_moves_is_refused(self) -> None:
        for shift in self.shifts():
            for name, given in (("bound_up", (0.1, 0.1)), ("heights_up", (cells(0), 0.1)), ("items", (cells(0),))):
                with pytest.raises(IsonomyError, match=f"kind '{shift.kind}' has no individuals who move"):
                    getattr(shift, name)(*given)


def _check_section(shift: Any) -> None:
    section = shift.section()
    assert KINDS[section["kind"]] is type(shift)
    again = shift_of({name: "inf" if value == math.inf else value for name, value in section.items()},
                     shift.ground_cost)  # fmt: skip
    assert again == shift and again.section() == section
    assert kernel.shift_of({name: "inf" if value == math.inf else value for name, value in section.items()}) == (
        shift.kernel
    )
    SHIFTS[section["kind"]].check(section, "question.shift")


def _check_words(shift: Any) -> None:
    assert "these 7 individuals" in shift.words("these 7 individuals") and shift.noun in shift.words("them")
    assert shift.resized(shift.size) == shift and shift.size == shift.number(shift.size_name)
    for text in (*shift.assumption(), *shift.limit(""), shift.mean_words, shift.place):
        assert text and "\n" not in text
    codes = [code for code, *_ in shift.terms()]
    assert shift.size_name in codes and len(set(codes)) == len(codes)
    foreign = {"transport": ("part", "at least")}.get(shift.kind, ("γ", "gamma", "Wasserstein"))
    said = " ".join([shift.words("them"), *shift.assumption(), *shift.limit(""), *map(str, shift.section())])
    assert not any(word in said for word in foreign)
    with pytest.raises(UnsupportedOperationError, match=f"kind '{shift.kind}' has no 'nothing'"):
        shift.number("nothing")


def _between(cells: Cells, first: int, end: int) -> Cells:
    """The cells of some individuals, numbered anew."""
    kept = (first <= cells.owner) & (cells.owner < end)
    near, far, value, open_ = cells.near[kept], cells.far[kept], cells.value[kept], cells.open_[kept]
    return Cells(cells.owner[kept] - first, near, far, value, open_, cells.weights[first:end])
