"""Tests of a rounded number as tests of the number itself: ``float32(x) < t`` becomes ``x <= T`` in float64.

**Soundness.** Rounding is monotone, so the numbers that pass a test are all those up to a largest one, T, which is
computed exactly: halfway between two float32 numbers ties go to the even one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
_SIGN = np.uint64(1 << 63)


def at_most32(threshold: Any) -> Numbers:
    """Return the largest float64 ``T`` with ``float32(T) <= threshold``, for float64 thresholds."""
    given = np.asarray(threshold, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        kept = given.astype(np.float32)
        kept = np.where(kept.astype(np.float64) > given, np.nextafter(kept, np.float32(-np.inf)), kept)
        after = np.nextafter(kept, np.float32(np.inf))
        ends = [np.clip(each.astype(np.float64), -(2.0**128), 2.0**128) for each in (kept, after)]
    middle = ends[0] / 2 + ends[1] / 2  # exact: float32 numbers have 29 bits to spare
    even = kept.view(np.uint32) % 2 == 0
    result = np.where(even, middle, np.nextafter(middle, -np.inf))
    return np.where(np.isposinf(kept), np.inf, result)


def below32(threshold: Any) -> Numbers:
    """Return the largest float64 ``T`` with ``float32(T) < threshold``, for thresholds that are float32 numbers."""
    return at_most32(np.nextafter(np.asarray(threshold, dtype=np.float32), np.float32(-np.inf)).astype(np.float64))


def largest_at_most(function: Callable[[Numbers], Numbers], limit: Numbers) -> Numbers:
    """Return for each limit the largest finite ``x`` with ``function(x) <= limit``, or -inf where there is none.

    ``function`` is nondecreasing on float64, as composed of roundings, differences, and products with positive
    numbers; found by bisection over the order of floating-point numbers.
    """
    most = np.finfo(np.float64).max
    low = np.full(limit.shape, _rank(np.array(-most)))
    high = np.full(limit.shape, _rank(np.array(most)))
    with np.errstate(all="ignore"):
        none = ~(function(_number(low)) <= limit)
        while (low < high).any():
            middle = high - (high - low) // np.uint64(2)  # above low, so that every step ends
            passed = function(_number(middle)) <= limit
            low, high = np.where(passed, middle, low), np.where(passed, high, middle - np.uint64(1))
    return np.where(none, -np.inf, np.where(low == _rank(np.array(most)), np.inf, _number(low)))


def _rank(number: Numbers) -> NDArray[np.uint64]:
    """Return whole numbers in the order of floating-point numbers."""
    bits = number.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _number(rank: NDArray[np.uint64]) -> Numbers:
    """Return the floating-point numbers of given ranks."""
    return np.where(rank & _SIGN, rank ^ _SIGN, ~rank).view(np.float64)
