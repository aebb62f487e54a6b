"""Directed arithmetic against exact rationals."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.ball_activations import sigma

from isonomy_verify.activations import erf, sigmoid
from isonomy_verify.arithmetic import (
    ELEMENTARY,
    SMALL,
    TINY,
    U32,
    Array,
    U,
    down,
    dual_order,
    gamma,
    norm_up,
    up,
)

from .truth import exact, norm_exceeds

ANY = st.floats(-1e300, 1e300, allow_nan=False, width=64)
ROWS = hnp.arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(0, 7)), elements=ANY)
SCALES = (1e-320, 1e-163, 1e-20, 1.0, 1e150, 1e300)


@given(ROWS, st.sampled_from([1.0, 2.0, math.inf]))
@settings(max_examples=60, deadline=None)
def test_a_norm_is_never_too_small(a: Array, order: float) -> None:
    with np.errstate(over="ignore"):
        claims = norm_up(a, order)
    for claim, row in zip(claims, exact(a), strict=True):
        assert not norm_exceeds(float(claim), row, order, Fraction(1))


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("scale", SCALES)
def test_a_norm_is_no_larger_than_rounding_asks(order: float, scale: float) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 30):
        a = rng.normal(size=(40, n)) * scale
        for claim, row in zip(norm_up(a, order).tolist(), exact(a), strict=True):
            assert not norm_exceeds(claim, row, order, Fraction(1))
            assert norm_exceeds(claim, row, order, Fraction(1 + 1e-13)) or claim <= 2 * TINY * n


def test_a_norm_of_other_axes_and_of_nothing() -> None:
    a = np.array([[3.0, 0.0], [4.0, 0.0]])
    assert norm_up(a, axis=0) == pytest.approx([5.0, 0.0], rel=1e-12)
    assert norm_up(np.zeros((2, 0))).tolist() == [TINY, TINY]
    assert norm_up(np.zeros((2, 0)), math.inf).tolist() == [0.0, 0.0]


def test_a_norm_of_what_is_not_a_number_claims_nothing() -> None:
    for bad in (math.nan, math.inf):
        for order in (1.0, 2.0, math.inf):
            with np.errstate(all="ignore"):
                assert not math.isfinite(float(norm_up(np.array([[1.0, bad]]), order)[0]))


@pytest.mark.parametrize("order", [0.0, 1.5, 3.0, math.nan])
def test_other_orders_are_refused(order: float) -> None:
    with pytest.raises(ValueError, match="order 1, 2 or infinity"):
        norm_up(np.ones((1, 2)), order)
    with pytest.raises(ValueError, match="order 1, 2 or infinity"):
        dual_order(order)


def test_dual_orders() -> None:
    assert [dual_order(p) for p in (1.0, 2.0, math.inf)] == [math.inf, 2.0, 1.0]


@pytest.mark.parametrize("unit", [U, U32])
def test_gamma_is_above_what_roundings_do(unit: float) -> None:
    u = Fraction(unit)
    for n in (0, 1, 2, 7, 100, 10**4, 10**6):
        claim = Fraction(gamma(n, unit))
        assert claim >= n * u / (1 - n * u)
        assert claim <= n * u / (1 - n * u) * (1 + Fraction(1, 10**8))
        if n <= 100:
            assert (1 + u) ** n <= 1 + claim and 1 / (1 - u) ** n <= 1 + claim


def test_gamma_refuses_too_many_roundings() -> None:
    with pytest.raises(ValueError, match="too many"):
        gamma(2**23, U32)
    assert gamma(2**22, U32) <= 0.5


def test_units_and_floors() -> None:
    """What 2^50 products lose to underflow is below ``TINY``, what roots of lost squares amount to below ``SMALL``."""
    assert Fraction(U) == Fraction(1, 2**53) and Fraction(U32) == Fraction(1, 2**24)
    assert Fraction(TINY) >= 2**50 * Fraction(1, 2**1074)
    assert Fraction(SMALL) ** 2 >= 2**50 * Fraction(1, 2**1074)


@given(ANY)
def test_next_floats(a: float) -> None:
    assert down(a) < a < up(a)


FUNCTIONS: list[tuple[Callable[[Array], Array], Callable[[Any], Any]]] = [
    (lambda t: np.exp(-np.abs(t)), lambda t: (-abs(t)).exp()),
    (np.tanh, lambda t: t.tanh()),
    (erf, lambda t: t.erf()),
    (sigmoid, sigma),
    (lambda t: np.expm1(np.minimum(t, 0.0)), lambda t: t.min(arb(0)).expm1()),
    (lambda t: np.logaddexp(t, 0.0), lambda t: t.max(arb(0)) + (-abs(t)).exp().log1p()),
]


@pytest.mark.parametrize(("computed", "true"), FUNCTIONS, ids=["exp", "tanh", "erf", "sigmoid", "expm1", "softplus"])
def test_elementary_functions_are_as_accurate_as_is_assumed(
    computed: Callable[[Array], Array], true: Callable[[Any], Any]
) -> None:
    """Half of ``ELEMENTARY`` at least is left for the short formulas around them."""
    rng = np.random.default_rng(2)
    t = rng.normal(size=400) * 10.0 ** rng.integers(-8, 4, size=400)
    with ctx.workprec(300):
        for at, value in zip(t.tolist(), computed(t).tolist(), strict=True):
            assert abs(true(arb(at)) - arb(value)) <= arb(ELEMENTARY / 2) * (1 + abs(at) + abs(value))
