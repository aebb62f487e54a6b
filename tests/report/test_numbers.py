"""Rounding in the direction in which a sentence stays true."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isonomy.report.numbers import cell, parameter, percent, quantiles, signed
from isonomy.report.sections import Rounded

sizes = st.floats(0, 1e12, allow_subnormal=True)


def number(text: str) -> Decimal:
    return Decimal(text.replace(",", "").replace("−", "-"))


@given(sizes, st.integers(0, 12))
def test_bounds_are_rounded_outward_and_not_far(value: float, decimals: int) -> None:
    numbers = Rounded(decimals)
    lower, upper = number(numbers.lower(value)), number(numbers.upper(value))
    written = Decimal(repr(value))
    assert lower <= written <= upper
    assert upper - lower in (0, Decimal(1).scaleb(-decimals))


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_rounded_bounds_are_on_the_side_of_epsilon_on_which_the_bounds_are(
    a: float, b: float, epsilon: float
) -> None:
    lower, upper = min(a, b), max(a, b)
    numbers = Rounded.of(lower, upper, epsilon, regression=False)
    assert numbers.decimals >= 4
    if numbers.decimals < 12:
        assert (number(numbers.upper(upper)) <= Decimal(repr(epsilon))) == (upper <= epsilon)
        assert (number(numbers.lower(lower)) > Decimal(repr(epsilon))) == (lower > epsilon)


def test_a_close_call_gets_more_decimals() -> None:
    assert Rounded.of(0.05, 0.0999996, 0.1, False).upper(0.0999996) == "0.1000"
    assert Rounded.of(0.10000201, 0.2, 0.1, False).lower(0.10000201) == "0.100002"
    assert Rounded.of(0.05, 0.1, 0.1, False).upper(0.1) == "0.1000"
    assert Rounded.of(1000.0, 12345.6, None, True).upper(12345.6) == "12,346"


def test_what_is_not_a_number_is_said() -> None:
    assert (Rounded(8).lower(0.0), Rounded(8).upper(5e-9)) == ("0.00000000", "0.00000001"), "no powers of ten"
    numbers = Rounded(3)
    assert [numbers.upper(x) for x in (math.inf, math.nan)] == ["∞", "undefined"]
    assert [cell(x) for x in (math.nan, None, 3.0, 2.5, -4, np.int64(7), "text", 123456789)] == [
        "missing", "missing", "3", "2.5", "−4", "7", "text", "123456789",
    ]  # fmt: skip
    assert [parameter(x) for x in (0.1, math.inf, 1.0, 1e-9)] == ["0.1", "∞", "1", "1e−9"]
    assert [signed(x, 2) for x in (0.001, -0.5, 1200.0)] == ["0", "−0.50", "+1,200.00"]


@given(st.floats(0, 1))
def test_a_share_of_some_is_neither_nobody_nor_everybody(share: float) -> None:
    text = percent(share)
    assert (text == "0%") == (share == 0)
    assert (text == "100%") == (share == 1)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.01, 5)), min_size=1, max_size=30))
def test_quantiles(rows: list[tuple[float, float]]) -> None:
    values, weights = (np.array(column) for column in zip(*rows, strict=True))
    (middle,) = quantiles(values, weights, (0.5,))
    below, upto = weights[values < middle].sum(), weights[values <= middle].sum()
    assert below <= weights.sum() / 2 * (1 + 1e-9) and upto >= weights.sum() / 2 * (1 - 1e-9)
