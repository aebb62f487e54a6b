"""Claims are on the safe side of what was derived, and near it."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy_verify.claims import MARGIN, SHARE, Profiles, claimed_heights, claimed_upper, inflated, inward, outward
from isonomy_verify.shifts import Transport

positive = st.floats(0, 1e300)


@given(positive)
def test_claims_are_rounded_outward_and_not_far(value: float) -> None:
    assert value <= outward(value) <= value * (1 + 1e-15) + 2e-6
    assert 0 <= inward(value) <= value and inward(value) >= value * (1 - 1e-8) - 2e-6
    high = float(inflated(value))
    assert Decimal(high) >= Decimal(value) * (1 + Decimal(SHARE)) + Decimal(MARGIN)
    assert high <= value * (1 + 1.01 * SHARE) + 1.01 * MARGIN


@given(st.floats(0, 1e9))
def test_six_decimals_are_written(value: float) -> None:
    assert len(repr(outward(value)).partition(".")[2]) <= 6 or outward(value) < 1e-4


def test_infinity_stays() -> None:
    assert outward(math.inf) == math.inf


@pytest.mark.parametrize(("order", "gamma", "multiplier"), [(1.0, 0.3, 0.5), (2.0, 0.3, 0.5), (math.inf, 1.0, None)])
def test_what_is_claimed_follows_from_the_definition(order: float, gamma: float, multiplier: float | None) -> None:
    rng = np.random.default_rng(0)
    value, weights = np.sort(rng.random((9, 3)), axis=1), rng.random(9) * (np.arange(9) % 3 > 0)
    radii = np.array([0.0, 0.5, 1.0])
    profiles = Profiles(np.arange(0, 28, 3), np.tile(radii, 9), value.ravel(), 1.0)
    tops = np.append(np.asarray(inflated(value)), np.full((9, 1), float(inflated(1.0))), axis=1)
    near = np.array([0.0, 0.0, 0.5, 1.0])
    if multiplier is None:
        expected, paid = tops[:, :3].max(1), 0.0
    else:
        expected, paid = (tops - multiplier * near**order).max(1), multiplier * gamma**order
    found = claimed_heights(profiles, np.arange(9), Transport(order, gamma), multiplier)
    assert (found >= expected - 1e-15).all() and np.allclose(found, expected, rtol=1e-12)
    upper, hidden = claimed_upper(profiles, weights, Transport(order, gamma), multiplier)
    assert math.isclose(upper, paid + weights @ expected / weights.sum(), rel_tol=1e-12)
    assert math.isclose(hidden, weights @ (float(inflated(1.0)) - expected) / weights.sum(), rel_tol=1e-9)
