"""Rounding bounds against exact rational and multiple precision arithmetic, also where numbers under- or overflow."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from isonomy.arithmetic import CLAIMED, at_least, at_most, decimals_of_bound
from isonomy_verify.arithmetic import (
    ROUNDINGS,
    SHIFT,
    TINY,
    U,
    down,
    exact_sum,
    mean_down,
    mean_up,
    nearest,
    product_up,
    rounded_down,
    rounded_up,
    up,
)

OPERATIONS = {op.__name__: op for op in (operator.add, operator.sub, operator.mul, operator.truediv)}
quick = settings(max_examples=150, deadline=None)
anything = st.floats(allow_nan=False, allow_infinity=False)
mixed = st.one_of(
    anything,
    st.floats(-10, 10),
    st.sampled_from([0.0, 5e-324, -5e-324, 2.0**-1022, 2.0**-1023, 1e-160, 1e-154, 1e154, 1e160, 1.7e308]),
)


@quick
@given(x=anything, y=anything, operation=st.sampled_from(sorted(OPERATIONS)))
def test_one_step_outward_encloses_one_operation(x: float, y: float, operation: str) -> None:
    assume(operation != "truediv" or y != 0)
    a, b = Fraction(x), Fraction(y)
    exact = OPERATIONS[operation](a, b)
    with np.errstate(all="ignore"):
        rounded = OPERATIONS[operation](np.float64(x), np.float64(y))
        low, high = float(down(rounded)), float(up(rounded))
    assert math.isinf(low) or Fraction(low) < exact
    assert math.isinf(high) or Fraction(high) > exact
    assert low < high


@quick
@given(data=st.data(), n=st.integers(1, 5))
def test_product_upper_is_an_upper_bound(data: st.DataObject, n: int) -> None:
    row = st.lists(mixed.map(abs), min_size=n, max_size=n)
    left, right = np.array(data.draw(row)), np.array(data.draw(row))
    exact = sum((Fraction(a) * Fraction(b) for a, b in zip(left, right, strict=True)), Fraction(0))
    with np.errstate(over="ignore"):
        bound = float(product_up(left[None], right[:, None])[0, 0])
    assert math.isinf(bound) or exact <= Fraction(bound)
    if exact < Fraction(10) ** 300:
        assert bound <= float(exact) * (1 + 1e-12) + 10 * n * TINY


@settings(quick, max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 300))
def test_product_upper_on_full_mantissas(seed: int, n: int) -> None:
    left, right = np.random.default_rng(seed).random((2, n))
    exact = sum((Fraction(a) * Fraction(b) for a, b in zip(left, right, strict=True)), Fraction(0))
    assert exact <= Fraction(float(product_up(left[None], right[:, None])[0, 0]))


# -- the assumed accuracy of elementary functions -------------------------------------------------------------


def dense(low: float, high: float, count: int = 1500) -> np.ndarray:
    """A grid, random numbers of all sizes, and awkward places."""
    rng = np.random.default_rng(5)
    sizes = 10.0 ** rng.uniform(-20, math.log10(max(abs(low), abs(high))), count) * rng.choice([-1, 1], count)
    awkward = np.array([0.0, 5e-324, 2.0**-1022, 1e-300, 1e-17, 1e-9, 0.5, 1.0, math.log(2), 2**0.5, 8.0, 20.0, 37.0])
    found = np.concatenate([np.linspace(low, high, count), rng.uniform(low, high, count), sizes, awkward, -awkward])
    return found[(found >= low) & (found <= high)]


FUNCTIONS = {"exp": (-700, 700), "expm1": (-700, 700), "tanh": (-30, 30), "log1p": (-0.999999, 1e9)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementary_functions_are_as_accurate_as_assumed(name: str) -> None:
    """Relative to the result."""
    x = dense(*FUNCTIONS[name])
    with mpmath.workprec(200):
        for v, computed in zip(x.tolist(), getattr(np, name)(x).tolist(), strict=True):
            true = getattr(mpmath, name)(mpmath.mpf(v))
            assert abs(mpmath.mpf(computed) - true) <= ROUNDINGS * U * abs(true) + TINY, (name, v)


@quick
@given(st.one_of(mixed, st.floats(0, 1)), st.integers(0, 12))
def test_numbers_for_people_are_rounded_outward_and_not_far(value: float, decimals: int) -> None:
    low, high = at_least(value, decimals), at_most(value, decimals)
    assert "E" not in low + high and "-0" not in (low.rstrip("0."), high.rstrip("0."))
    assert Fraction(low) <= Fraction(repr(value)) <= Fraction(high)
    assert Fraction(high) - Fraction(low) in (0, Fraction(1, 10**decimals))


@pytest.mark.parametrize("value", [0.10005, 0.12345, 0.29999999999999993, 0.5])
def test_short_numbers_are_left_alone(value: float) -> None:
    assert Decimal(at_most(value, 17)) == Decimal(at_least(value, 17)) == Decimal(repr(value))
    assert at_most(math.inf) == "inf" and at_least(-0.0) == "0.0000"


SIZES = st.one_of(
    st.floats(0, 1), st.floats(0, 1.7e308), st.sampled_from([0.0, 5e-324, 1e-310, 2.0**-1022, 1e-200, 1e300])
)


@quick
@given(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=12))
def test_means_against_rational_numbers(rows: list[tuple[float, float]]) -> None:
    assume(any(weight > 0 for _, weight in rows))
    values, weights = (np.array(column) for column in zip(*rows, strict=True))
    exact = sum(Fraction(v) * Fraction(w) for v, w in rows) / sum(Fraction(w) for _, w in rows)
    assert Fraction(mean_down(values, weights)) <= exact <= Fraction(mean_up(values, weights))
    plain = sum(map(Fraction, values.tolist()), Fraction(0)) / len(values)
    assert Fraction(mean_down(values)) <= plain <= Fraction(mean_up(values))


def test_means_are_close_and_keep_to_the_values() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.random(1000), rng.random(1000)
    exact = sum(Fraction(v) * Fraction(w) for v, w in zip(values, weights, strict=True)) / sum(map(Fraction, weights))
    assert mean_up(values, weights) - mean_down(values, weights) <= 8 * U
    assert float(exact) == pytest.approx(mean_up(values, weights), rel=1e-14)
    assert mean_up(np.full(7, 0.1)) == mean_down(np.full(7, 0.1)) == 0.1  # nobody's value is beyond
    assert mean_up(np.array([math.inf, 1.0])) == math.inf
    assert mean_up(np.array([1.0, math.inf]), np.array([1.0, 0.0])) == 1.0  # a weight of 0 stands for nobody


def test_a_mean_hides_no_nan_and_needs_somebody() -> None:
    with_nan = np.array([0.5, math.nan])
    assert math.isnan(mean_up(with_nan)) and math.isnan(mean_down(with_nan))
    for nobody in (np.zeros(0), np.zeros(3)):
        with pytest.raises(ValueError, match="somebody who counts"):
            mean_up(np.ones(len(nobody)), nobody)


# -- exact sums --------------------------------------------------------------------------------------------------

positive = st.floats(allow_nan=False, allow_infinity=False, min_value=0.0)
signed = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.one_of(signed, st.sampled_from([5e-324, -5e-324, 2.0**-1022, 1e308, 0.1])), max_size=40))
def test_no_rounding_at_all(values: list[float]) -> None:
    expected = sum((Fraction(value) for value in values), Fraction(0))
    assert Fraction(exact_sum(np.array(values)), 2**SHIFT) == expected


@given(st.lists(positive, max_size=40), st.randoms(use_true_random=False))
def test_groups_and_order_do_not_matter(values: list[float], shuffler: object) -> None:
    mixed = list(values)
    shuffler.shuffle(mixed)  # type: ignore[attr-defined]
    cut = len(mixed) // 3
    assert exact_sum(np.array(mixed[:cut])) + exact_sum(np.array(mixed[cut:])) == exact_sum(np.array(values))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_one_rounding_at_the_end(values: list[float]) -> None:
    assert nearest(exact_sum(np.array(values))) == math.fsum(values)


def test_many_numbers_of_full_precision() -> None:
    """The sums of half mantissas stay below 2^53."""
    values = np.full(2**20, 1 - 2.0**-53)
    assert Fraction(exact_sum(values), 2**SHIFT) == 2**20 * Fraction(1 - 2.0**-53)


@given(st.fractions(min_value=0, max_value=1))
def test_down_is_down_and_up_is_up(number: Fraction) -> None:
    above, below = rounded_up(number), rounded_down(number)
    assert Fraction(math.nextafter(above, -1)) < number <= Fraction(above)
    assert Fraction(below) <= number < Fraction(math.nextafter(math.nextafter(below, 2), 2))


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("value", [1e-300, 1e-11, 1.1e-8, 1e-6, 3e-4, 0.02, 3.4, 4e7])
def test_no_bound_is_printed_finer_than_a_certificate_claims_it(value: float, regression: bool) -> None:
    """Otherwise a page says at most 0.00000001 of what its certificate claims to be at most 0.000001."""
    assert decimals_of_bound(value, regression) <= CLAIMED
    assert Decimal(at_most(value, decimals_of_bound(value, regression))) >= min(Decimal(10) ** -CLAIMED, Decimal(value))
