"""Sums of floats without rounding, so that it does not matter who adds them up, where and in which order.

Every finite float64 is a whole multiple of ``2^-SHIFT``; a sum of them is kept as that whole number.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from isonomy.arithmetic import FloatArray, down

SHIFT = 1126
"""The unit is ``2^-1126``: the last place of a 53-bit mantissa at the smallest exponent."""

MOST = 2**25
"""Numbers that can be added up at a time: their half mantissas have 27 bits, and float64 counts up to 2^53."""


def exact_sum(values: FloatArray) -> int:
    """The sum of finite numbers, in units of ``2^-SHIFT``."""
    whole = 0
    for start in range(0, len(values), MOST):
        mantissa, exponent = np.frexp(values[start : start + MOST])
        digits = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = int(exponent.min())
        high, low = (np.bincount(exponent - lowest, weights=half) for half in (digits >> 26, digits & (2**26 - 1)))
        for place in np.flatnonzero((high != 0) | (low != 0)).tolist():
            whole += ((int(high[place]) << 26) + int(low[place])) << (lowest + place - 53 + SHIFT)
    return whole


def fraction(whole: int) -> Fraction:
    """The number that an exact sum stands for."""
    return Fraction(whole, 1 << SHIFT)


def nearest(whole: int) -> float:
    """The exact sum, rounded once."""
    return float(fraction(whole))


def rounded_down(number: Fraction) -> float:
    """A float that is at most the number."""
    value = float(number)
    return value if Fraction(value) <= number else float(down(value))
