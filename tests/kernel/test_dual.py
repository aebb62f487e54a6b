"""The distributional bound against exact rationals and against linear programs, also where numbers are hostile."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from isonomy_verify.arithmetic import (
    exact_sum,
    mean_down,
    mean_of_sums,
    mean_up,
    power_down,
    power_up,
    products_up,
    rounded_down,
    rounded_up,
)
from isonomy_verify.dual import HUGE, Cells, bound, check, gains, heights, plain, price, together

quick = settings(max_examples=80, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
LARGEST = sys.float_info.max
SIZES = st.one_of(st.floats(0, 3), st.floats(0, 1e150), st.sampled_from([0.0, 5e-324, 1e-310, 1e-160, 1e100, 1e154]))
MULTIPLIERS = st.one_of(st.floats(0, 5), st.sampled_from([0.0, 5e-324, 1e-310, 1e-200, 1e200, 1e308, LARGEST]))
WEIGHTS = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1e-300, 1e-150, 1e150, 1e300]))
VALUES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 5e-324, 1e-200, 1e150, HUGE]))


def cover(rows: list[tuple[int, float, float, bool]], weights: list[float], tail: float = 1.0) -> Cells:
    """Cells by (owner, near, value, open), with a cell at cost 0 and a tail for everybody."""
    everybody = range(len(weights))
    rows = [*rows, *((i, 0.0, 0.0, False) for i in everybody), *((i, 2.0, tail, True) for i in everybody)]
    owner, near, value, open_ = (np.array(column) for column in zip(*rows, strict=True))
    return Cells(owner, near, np.full(len(rows), math.inf), value, open_, np.array(weights))


@st.composite
def covers(draw: st.DrawFn, sizes: Any = SIZES, weights: Any = WEIGHTS, values: Any = VALUES) -> Cells:
    many = draw(st.lists(weights, min_size=1, max_size=4))
    assume(any(weight > 0 for weight in many))
    row = st.tuples(st.integers(0, len(many) - 1), sizes, values, st.booleans())
    return cover(draw(st.lists(row, max_size=10)), many, draw(values))


def tame() -> st.SearchStrategy[Cells]:
    """Numbers that a solver in floats can deal with."""
    some = st.floats(0, 1).map(lambda a: round(a, 3))
    return covers(some, st.sampled_from([0.0, 0.5, 1.0, 3.0]), some)


def highest(cells: Cells, order: int, multiplier: float) -> list[Fraction]:
    """Everybody's ``max (value - multiplier near^p)``, without rounding."""
    found = [Fraction(0)] * len(cells.weights)
    for i, near, value in zip(cells.owner.tolist(), cells.near.tolist(), cells.value.tolist(), strict=True):
        found[i] = max(found[i], Fraction(value) - Fraction(multiplier) * Fraction(near) ** order)
    return found


def reached(cells: Cells, gamma: float) -> list[Fraction]:
    """Everybody's largest value among cells with somebody within gamma."""
    found = [Fraction(0)] * len(cells.weights)
    for i, near, value, open_ in zip(*(a.tolist() for a in (cells.owner, cells.near, cells.value, cells.open_))):  # noqa: B905
        if near < gamma or (near == gamma and not open_):
            found[i] = max(found[i], Fraction(value))
    return found


def average(values: list[Fraction], weights: np.ndarray) -> Fraction:
    shares = [Fraction(weight) for weight in weights.tolist()]
    return sum((a * b for a, b in zip(values, shares, strict=True)), Fraction(0)) / sum(shares, Fraction(0))


def below(exact: Fraction, claim: float) -> bool:
    """Is the claim an upper bound?"""
    assert not math.isnan(claim)
    return claim == math.inf or exact <= Fraction(claim)


# -- the bound ------------------------------------------------------------------------------------------------------


@quick
@given(covers(), st.sampled_from([1, 2, 3]), SIZES.filter(bool), MULTIPLIERS)
def test_the_bound_is_never_below_the_formula(cells: Cells, order: int, gamma: float, multiplier: float) -> None:
    mean = average(highest(cells, order, multiplier), cells.weights)
    assert below(mean + Fraction(multiplier) * Fraction(gamma) ** order, bound(cells, order, gamma, multiplier))


@quick
@given(covers(), SIZES, st.sampled_from([1.0, 2.5, math.inf]), st.sampled_from([None, 0.0, 0.7]))
def test_without_a_price_it_is_the_largest_value_within_reach(
    cells: Cells, gamma: float, order: float, multiplier: float | None
) -> None:
    gamma = gamma if order == math.inf else 0.0
    exact = average(reached(cells, gamma), cells.weights)
    claim = bound(cells, order, gamma, multiplier)
    assert below(exact, claim) and heights(cells, order, gamma, multiplier).tolist() == reached(cells, gamma)
    if 1e-100 < cells.weights.max() < 1e100 and cells.value.max() < 1e100:
        assert claim <= float(exact) * (1 + 1e-14) + 1e-190


@quick
@given(tame(), st.sampled_from([1, 2]), st.sampled_from([0.01, 0.2, 0.7, 2.0]), st.floats(0, 5))
def test_no_multiplier_is_below_the_linear_program_and_the_best_attains_it(
    cells: Cells, order: int, gamma: float, multiplier: float
) -> None:
    """Masses on cells at their near ends, nobody's lost, within the budget: solved by HiGHS."""
    cost, shares = cells.near**order, cells.weights / cells.weights.sum()
    keep = (cells.owner == np.arange(len(shares))[:, None]).astype(float)
    found = linprog(-cells.value, cost[None], [gamma**order], keep, shares, method="highs")
    assert found.status == 0
    assert bound(cells, order, gamma, multiplier) >= -found.fun - 1e-9
    best = max(0.0, -float(found.ineqlin.marginals[0]))
    assert bound(cells, order, gamma, best) <= -found.fun + 1e-7


def test_a_bound_by_hand() -> None:
    """Weight 3/4 jumps for 5/8 at price 1, weight 1/4 for 1/2 at price 2."""
    cells = cover([(0, 2.0, 0.5, False), (1, 1.0, 0.625, False)], [1.0, 3.0], 0.0)
    assert bound(cells, 1, 0.5, 0.625) == pytest.approx(0.3125, rel=1e-14)
    assert bound(cells, 1, 0.5, 0.0) == bound(cells, 1, math.inf, 0.0) == pytest.approx(0.59375, rel=1e-14)
    assert bound(cells, 1, 0.5, 1e308) == pytest.approx(5e307)
    steps = [bound(cells, math.inf, gamma, None) for gamma in (0.0, 0.5, 1.0, 2.0)]
    assert steps == pytest.approx([0, 0, 0.46875, 0.59375], rel=1e-14)


@quick
@given(covers(), st.sampled_from([1.0, 2.0, 1.5]), MULTIPLIERS)
def test_exact_sums_of_parts_give_the_same_bits(cells: Cells, order: float, multiplier: float) -> None:
    height = heights(cells, order, 1.0, multiplier)
    products = products_up(cells.weights, height)
    assume(np.isfinite(products).all())
    parts = [np.flatnonzero(cells.weights > 0)[k::2] for k in range(2)]
    total, weight = (sum(exact_sum(a[part]) for part in parts) for a in (products, cells.weights))
    mean = mean_of_sums(total, weight, max(float(height[part].max(initial=0.0)) for part in parts))
    assert together(price(order, 1.0, multiplier), mean) == bound(cells, order, 1.0, multiplier)


# -- one rounding at a time, so that the slack of one does not hide another -------------------------------------------


def alone(near: float, value: float) -> Cells:
    return cover([(0, near, value, False)], [1.0], 0.0)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("small", [0, -9, -320])
def test_heights_where_numbers_nearly_cancel(order: int, small: int) -> None:
    """Also for multipliers below all normal numbers, which have few digits, and costs that make up for it."""
    rng = np.random.default_rng(small + 400)
    for _ in range(300):
        multiplier = float(rng.random() + 0.5) * 10.0**small
        near = float(rng.random() + 0.5) * (10.0 ** (300 // order) if small < -300 else 1.0)
        value = float(multiplier * near**order * (1 + 10.0 ** rng.uniform(-16.5, -1)))
        for at in (value, 1.0):
            (height,) = heights(alone(near, at), order, 0.1, multiplier).tolist()
            exact = Fraction(at) - Fraction(multiplier) * Fraction(near) ** order
            assert exact <= Fraction(height)
            assert small < -300 or Fraction(height) <= max(exact, Fraction(0)) + Fraction(at) / 2**40


@quick
@given(SIZES, MULTIPLIERS, st.sampled_from([1, 2, 3]), SEEDS)
def test_a_price_is_rounded_up(gamma: float, multiplier: float, order: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for a, b in [(gamma, multiplier), *(rng.random((20, 2)) + 0.5).tolist()]:
        exact, claim = Fraction(b) * Fraction(a) ** order, price(order, a, b)
        assert below(exact, claim)
        if float(power_up(a, order)) * max(b, 1.0) < math.inf:  # else a power may overflow that is worth little
            assert Fraction(claim) <= exact * (1 + Fraction(1e-13)) + Fraction(1 + b) * Fraction(1e-300)


@quick
@given(st.floats(0, LARGEST), st.floats(0, LARGEST), SEEDS)
def test_price_and_mean_are_added_upwards(a: float, b: float, seed: int) -> None:
    for x, y in [(a, b), (0.0, b), *np.random.default_rng(seed).random((20, 2)).tolist()]:
        with np.errstate(over="ignore"):
            assert below(Fraction(x) + Fraction(y), together(x, y))
    assert together(0.0, b) == b


@quick
@given(SEEDS)
def test_the_mean_of_heights_is_rounded_up(seed: int) -> None:
    """Without a price and for heights that are not rounded: what is left is the mean."""
    rng = np.random.default_rng(seed)
    values, weights = rng.random(3), rng.random(3)
    cells = cover([(i, 0.0, v, False) for i, v in enumerate(values.tolist())], weights.tolist())
    exact = average([Fraction(v) for v in values.tolist()], weights)
    assert exact <= Fraction(bound(cells, 1, 0.0, None)) <= exact * (1 + Fraction(1e-14))


@quick
@given(st.one_of(SIZES, st.floats(0, LARGEST)))
def test_powers_are_rounded_outward(base: float) -> None:
    """Of order 3/2 by their squares."""
    for order, root, cube in ((1.0, 1, 1), (1.5, 2, 3), (2.0, 1, 2), (3.0, 1, 3)):
        low, high, exact = float(power_down(base, order)), float(power_up(base, order)), Fraction(base) ** cube
        assert Fraction(low) ** root <= exact and low < math.inf
        assert high == math.inf or Fraction(high) ** root >= exact
        assert (base == 0) == (high == 0) and (order > 1 or low == high == base)


def test_powers_of_what_is_hostile() -> None:
    assert power_down([math.inf, LARGEST, 0.0], 1.0).tolist() == [LARGEST, LARGEST, 0.0]
    assert power_down([math.inf, 1e200], 2.0).max() < math.inf and power_down(1e200, 2.0) > 1e308
    assert power_up([math.inf, 1e200], 2.0).tolist() == [math.inf] * 2
    assert power_up(1e-200, 2.0) > 0 == power_down(1e-200, 2.0)
    for power in (power_up, power_down):
        assert math.isnan(power(math.nan, 1.0)) and math.isnan(power(math.nan, 2.0))


def test_quotients_beyond_all_floats() -> None:
    beyond, limit = Fraction(LARGEST) * 2, Fraction(LARGEST)
    assert (rounded_up(beyond), rounded_up(-beyond)) == (math.inf, -LARGEST)
    assert (rounded_down(beyond), rounded_down(-beyond)) == (LARGEST, -math.inf)
    assert rounded_up(limit) == rounded_down(limit) == LARGEST and rounded_up(limit + 1) == math.inf
    assert mean_of_sums(10**400, 1, 0.5) == 0.5


# -- hostile numbers --------------------------------------------------------------------------------------------------


def test_costs_that_overflow_are_above_every_value() -> None:
    cells = cover([(0, 1e200, 1.0, False), (0, LARGEST, HUGE, False)], [1.0], 0.25)
    assert heights(cells, 2, 1.0, 1.0)[0] < 1e-300
    assert heights(cells, 1, 1.0, 1e308)[0] < 1e-300
    assert heights(cells, 2, 1.0, 0.0)[0] == HUGE == heights(cells, math.inf, math.inf, None)[0]
    assert below(Fraction(HUGE) - Fraction(5e-324) * Fraction(LARGEST), bound(cells, 1, 1.0, 5e-324))


@pytest.mark.parametrize("gamma", [1e-320, 1e200, LARGEST, math.inf])
@pytest.mark.parametrize("order", [1, 1.5, 300.0, 1e308])
def test_extreme_orders_and_radii(order: float, gamma: float) -> None:
    cells = cover([(0, 1e-3, 0.5, True), (0, 1.5, 0.75, True)], [1.0])
    assert bound(cells, order, gamma, 0.0) == 1.0
    for multiplier in (5e-324, 1.0, 1e308):
        claim = bound(cells, order, gamma, multiplier)
        assert claim >= 0.5 if order > 1e5 or multiplier < 1 else claim > 0
        assert gamma < math.inf or claim == math.inf


@pytest.mark.parametrize("multiplier", [math.inf, math.nan, -1e-300, -1.0, -math.inf, None])
def test_a_multiplier_that_is_none_is_refused(multiplier: float | None) -> None:
    cells = alone(1.0, 0.5)
    for asked in (lambda: bound(cells, 1, 0.1, multiplier), lambda: price(1, 0.1, multiplier),
                  lambda: heights(cells, 1, 0.1, multiplier), lambda: gains(cells, 1, 0.1, multiplier)):  # fmt: skip
        with pytest.raises(ValueError, match="'multiplier' must be a finite number >= 0"):
            asked()
    if multiplier is not None:
        with pytest.raises(ValueError, match="'multiplier'"):
            bound(cells, math.inf, 0.1, multiplier)


@pytest.mark.parametrize("order", [0.0, 0.999, -1.0, -math.inf, math.nan])
def test_an_order_below_1_is_refused(order: float) -> None:
    for asked in (lambda: bound(alone(1.0, 0.5), order, 0.1, 1.0), lambda: price(order, 0.1, 1.0)):
        with pytest.raises(ValueError, match="'order' must be a number >= 1"):
            asked()


@pytest.mark.parametrize("gamma", [-5e-324, -1.0, -math.inf, math.nan])
def test_a_radius_below_0_is_refused(gamma: float) -> None:
    for order in (1.0, math.inf):
        with pytest.raises(ValueError, match="'gamma' must be a number >= 0"):
            bound(alone(1.0, 0.5), order, gamma, 1.0)
        with pytest.raises(ValueError, match="'gamma' must be a number >= 0"):
            check(order, gamma)


@pytest.mark.parametrize(("paid", "mean"), [(math.nan, 0.0), (0.0, math.nan), (-1.0, 2.0), (1.0, -0.5)])
def test_what_is_no_price_or_mean_is_refused(paid: float, mean: float) -> None:
    with pytest.raises(ValueError, match="A price and a mean"):
        together(paid, mean)


def test_where_no_multiplier_is_needed() -> None:
    assert plain(math.inf, 0.5) and plain(1.0, 0.0) and plain(2.0, 0)
    assert not plain(1.0, 5e-324) and not plain(1e308, math.inf)
    assert price(1.0, 0.0, None) == price(math.inf, 3.0, None) == price(2.0, math.inf, 0.0) == 0.0


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"far": [0.0, 1.0]}, "individual 0 do not cover everybody: an unbounded tail is missing"),
    ({"near": [0.5, 1.0], "far": [0.5, math.inf]}, "individual 0 do not cover everybody: a cell at cost 0"),
    ({"near": [5e-324, 1.0], "far": [0.5, math.inf]}, "a cell at cost 0 is missing"),
    ({"open_": [True, True]}, "a cell at cost 0 is missing"),
    ({"weights": [1.0, 1.0]}, "individual 1 do not cover everybody"),
    *(({"value": [0.1, bad]}, "'cells.value' must be finite") for bad in (math.nan, math.inf, -0.1, 2 * HUGE)),
    *(({"near": [0.0, bad]}, "'cells.near' must be finite") for bad in (math.nan, math.inf, -1.0)),
    ({"near": [0.2, 1.0]}, "'cells.far' must be at least 'near'"),
    ({"far": [0.0, math.nan]}, "'cells.far' must be at least 'near'"),
    *(({"weights": [bad]}, "'cells.weights' must be numbers") for bad in (0.0, math.nan, math.inf, -1.0)),
    ({"weights": np.zeros(0)}, "'cells.weights' must be numbers"),
    *(({"owner": [0, bad]}, "'cells.owner' must be numbers of individuals below 1") for bad in (1, -1)),
    ({"value": [0.1]}, "'cells.value' must be a vector"),
    ({"value": [[0.1, 1.0]]}, "'cells.value' must be a vector"),
    ({"weights": [[1.0]]}, "'cells.weights' must be a vector"),
    ({"owner": [0.0, 0.5]}, "'cells.owner' must be a vector"),
    ({"open_": [0.0, math.nan]}, "'cells.open_' must be a vector"),
    ({"near": np.zeros(2, np.longdouble)}, "'cells.near' must be a vector"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_covers_that_cannot_be_right_are_refused(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"owner": [0, 0], "near": [0.0, 0.0], "far": [0.0, math.inf], "value": [0.1, 1.0]}
    good |= {"open_": [False, True], "weights": [1.0]}
    assert bound(Cells(**{name: np.array(array) for name, array in good.items()}), 1, 0.0, None) == 0.1
    with pytest.raises(ValueError, match=message):
        Cells(**{name: np.array(array) for name, array in (good | change).items()})


def test_means_of_what_has_none_are_refused() -> None:
    for bad in ([-1.0, 2.0], [math.nan, 1.0], [math.inf, 1.0], [0.0, 0.0]):
        for mean in (mean_up, mean_down):
            with pytest.raises(ValueError, match="somebody who counts"):
                mean(np.ones(2), np.array(bad))


def test_sums_of_what_has_none_are_refused() -> None:
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="Only finite numbers"):
            exact_sum(np.array([1.0, bad]))
