"""Exact sums against sums of fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isonomy.engines.exact import exact_sum, fraction, nearest, rounded_down

floats = st.floats(allow_nan=False, allow_infinity=False, min_value=0.0)
signed = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.one_of(signed, st.sampled_from([5e-324, -5e-324, 2.0**-1022, 1e308, 0.1])), max_size=40))
def test_no_rounding_at_all(values: list[float]) -> None:
    expected = sum((Fraction(value) for value in values), Fraction(0))
    assert fraction(exact_sum(np.array(values))) == expected


@given(st.lists(floats, max_size=40), st.randoms(use_true_random=False))
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
    assert fraction(exact_sum(values)) == 2**20 * Fraction(1 - 2.0**-53)


@given(st.fractions(min_value=0, max_value=1))
def test_down_is_down(number: Fraction) -> None:
    below = rounded_down(number)
    assert Fraction(below) <= number < Fraction(math.nextafter(math.nextafter(below, 2), 2))
