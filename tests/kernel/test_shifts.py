"""Parts of the individuals against exact rationals, by sorting, and against linear programs; also where numbers are
hostile."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from isonomy_verify.arithmetic import exact_sum, mean_up
from isonomy_verify.dual import HUGE, Cells
from isonomy_verify.shifts import Part, Transport, shift_of
from isonomy_verify.text import BadInput

quick = settings(max_examples=150, deadline=None)
VALUES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 5e-324, 1e-200, 1e-310, 0.5, 1.0, 1e150, HUGE]))
WEIGHTS = st.one_of(st.floats(1e-3, 1), st.sampled_from([0.0, 1.0, 3.0, 1e-300, 1e-150, 1e150, 2.0**500]))
SHARES = st.one_of(st.floats(1e-6, 1), st.sampled_from([1.0, 0.5, 0.1, math.nextafter(1.0, 0.0), 1e-300, 5e-324]))
LEVELS = st.one_of(st.floats(0, 2), st.sampled_from([0.0, 5e-324, 1e-310, 1e150, 1e308]))


def cells_of(values: list[float], weights: list[float], tail: float = HUGE) -> Cells:
    """Everybody's own violation, and a tail with a larger one, which no part has."""
    n = len(values)
    owner, near, far = np.tile(np.arange(n), 2), np.zeros(2 * n), np.repeat([0.0, math.inf], n)
    value, open_ = np.append(values, np.full(n, tail)), np.repeat([False, True], n)
    return Cells(owner, near, far, value, open_, np.array(weights))


def worst_mean(values: list[float], weights: list[float], at_least: float) -> Fraction:
    """The mean of the worst share by weight, exactly: sorted, the last one in part."""
    total = sum(map(Fraction, weights))
    left = share = Fraction(at_least) * total
    reached = Fraction(0)
    for value, weight in sorted(zip(values, weights, strict=True), reverse=True):
        taken = min(left, Fraction(weight))
        reached, left = reached + taken * Fraction(value), left - taken
    return reached / share


@st.composite
def people(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    n = draw(st.integers(1, 7))
    values = draw(st.lists(VALUES, min_size=n, max_size=n))
    weights = draw(st.lists(WEIGHTS, min_size=n, max_size=n))
    assume(any(weights))
    return values, weights


def bound(shift: Part, cells: Cells, level: float | None) -> float:
    return shift.bound(level, mean_up(shift.heights(cells, level), cells.weights))


@quick
@given(people(), SHARES, LEVELS)
def test_every_level_bounds_it(some: tuple[list[float], list[float]], at_least: float, level: float) -> None:
    shift, truth = Part(at_least), worst_mean(*some, at_least)
    for each in (level, *some[0]):
        found = bound(shift, cells_of(*some), each)
        assert found == math.inf or Fraction(found) >= truth
    if at_least == 1:
        assert Fraction(bound(shift, cells_of(*some), None)) >= truth


@quick
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1))
def test_the_best_level_meets_the_worst_part(seed: int, at_least: float) -> None:
    rng = np.random.default_rng(seed)
    values, weights = rng.random(9).tolist(), rng.uniform(0.1, 2, 9).tolist()
    found = min(bound(Part(at_least), cells_of(values, weights), level) for level in (0.0, *values))
    assert found == pytest.approx(float(worst_mean(values, weights, at_least)), rel=1e-12)
    share = np.array(weights) / sum(weights)
    limits = [(0.0, each / at_least) for each in share]
    program = linprog(-np.array(values), A_eq=np.ones((1, 9)), b_eq=[1.0], bounds=limits, method="highs")
    assert found == pytest.approx(-program.fun, rel=1e-7)


@quick
@given(people(), SHARES, st.lists(st.floats(0, 1), min_size=7, max_size=7))
def test_what_keeps_to_the_share_reaches_no_more(
    some: tuple[list[float], list[float]], at_least: float, shares: list[float]
) -> None:
    """Masses of at most the weights that keep to the share attain at most the worst mean; more is refused."""
    values, weights = some
    mass = np.array(shares[: len(values)]) * weights
    total, shift = exact_sum(np.array(weights)), Part(at_least)
    assume(np.isfinite(mass).all())
    kept = sum(map(Fraction, mass.tolist())) <= Fraction(at_least) * sum(map(Fraction, weights))
    assert shift.keeps(mass, np.zeros(len(mass)), total) == kept
    if kept:
        reached = sum(Fraction(m) * Fraction(v) for m, v in zip(mass.tolist(), values, strict=True))
        assert shift.attained(reached / sum(map(Fraction, weights))) <= worst_mean(values, weights, at_least)
    assert not shift.keeps(mass, np.full(len(mass), 1e-300), total)


def test_heights_are_above_what_each_adds() -> None:
    """Full mantissas, each by itself: a mean could hide a height that was rounded down."""
    rng = np.random.default_rng(0)
    values = rng.random(4000) * 2.0 ** rng.integers(-30, 1, 4000)
    for level in (0.0, 5e-324, 1e-17, 0.1, *rng.random(5).tolist()):
        found = Part(0.3).heights(cells_of(values.tolist(), [1.0] * 4000), level)
        exact = [max(Fraction(0), Fraction(value) - Fraction(level)) for value in values.tolist()]
        assert all(Fraction(height) >= each for height, each in zip(found.tolist(), exact, strict=True))
        assert found == pytest.approx(np.maximum(values - level, 0.0), abs=1e-15)


@quick
@given(st.floats(0, 1), SHARES)
def test_what_is_hidden_is_rounded_up(mean: float, at_least: float) -> None:
    found = Part(at_least).hidden(mean)
    assert found == math.inf or Fraction(found) >= Fraction(mean) / Fraction(at_least)
    assert found == 0 if mean == 0 else found >= mean


@pytest.mark.parametrize("level", [None, -1.0, math.nan, math.inf])
def test_a_level_that_is_none_is_refused(level: float | None) -> None:
    cells = cells_of([0.5, 0.1], [1.0, 1.0])
    with pytest.raises(ValueError, match="multiplier"):
        Part(0.5).heights(cells, level)
    with pytest.raises(ValueError, match="multiplier"):
        Part(0.5).bound(level, 0.1)
    with pytest.raises(ValueError, match="mean"):
        Part(0.5).bound(0.1, math.nan)


@pytest.mark.parametrize("at_least", [0.0, -0.1, 1.0000001, math.nan, math.inf])
def test_a_share_that_is_none_is_refused(at_least: float) -> None:
    with pytest.raises(ValueError, match="at_least"):
        Part(at_least)


def test_no_statement_about_a_population_rests_on_a_part() -> None:
    assert Part(0.5).tries(1.0, 0.3) == Part(1.0).tries(1.0, None) == 0
    assert Transport(1.0, 0.0).tries(1.0, None) == 1 and Transport(1.0, 0.5).tries(1.0, 2.0) == 32
    assert Transport(1.0, 0.5).tries(1.0, 1.9) == 0


@pytest.mark.parametrize(
    "section",
    [
        {"kind": "part", "at_least": 0.0}, {"kind": "part", "at_least": 1.5}, {"kind": "part", "at_least": "inf"},
        {"kind": "part", "at_least": True}, {"kind": "part", "at_least": "0.1"}, {"kind": "part", "at_least": None},
        {"kind": "parts", "gamma": 0.1, "order": 1.0}, {"kind": "transport", "gamma": -0.1, "order": 1.0},
        {"kind": "transport", "gamma": 0.1, "order": 0.5},
    ],
)  # fmt: skip
def test_a_section_that_means_no_shift_is_refused(section: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        shift_of(section)


def test_sections_mean_their_shifts() -> None:
    assert shift_of({"kind": "part", "at_least": 0.25}) == Part(0.25)
    assert shift_of({"kind": "part", "at_least": 1}) == Part(1.0)
    assert shift_of({"kind": "transport", "gamma": "inf", "order": 2}) == Transport(2.0, math.inf)
