"""Rounding: how far a float64 result can be from the real number it stands for.

Everything that Isonomy calls an upper bound is an upper bound in *real* arithmetic. The tools are few: the
classical a-priori bound ``gamma`` of a chain of ``n`` operations, one step outward, and sums without any rounding.

**Soundness.** ``gamma(n)`` bounds the relative error of any expression with at most ``n`` rounded operations
on the path of each term, in whatever order a library adds them up and with or without fused multiply-add:
for a dot product of length ``n``, ``|fl(a·b) − a·b| <= gamma(n) |a|·|b| + n TINY``. The second term covers
underflow, also when subnormal numbers are flushed to zero. Elementary functions (``exp``, ``log``, ``tanh``,
``erf``) are assumed accurate to ``ELEMENTARY`` units roundoff; the tests compare them with a multiple
precision library.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from isonomy.errors import ParameterError

FloatArray = npt.NDArray[np.float64]

UNIT = 2.0**-53
"""Unit roundoff of float64, round to nearest."""

UNIT32 = 2.0**-24
"""Unit roundoff of float32."""

TINY = 2.0**-1022
"""Smallest normal float64: no product loses more than this by underflow."""

ELEMENTARY = 8
"""Assumed accuracy of elementary functions, in units roundoff of the result."""

SIMPLEX_TOLERANCE = 1e-9
"""A relaxed one-hot block may sum to ``1 ± SIMPLEX_TOLERANCE``: floats rarely sum to exactly 1."""

SHIFT = 1126
"""Every finite float64 is a whole multiple of ``2^-1126``: the last place of 53 bits at the smallest exponent."""

MOST = 2**25
"""Numbers that can be added up at a time: their half mantissas have 27 bits, and float64 counts up to 2^53."""

_EXACT = Context(prec=800)  # every float64 has fewer digits than this before and after the point


def at_most(value: float, decimals: int = 4) -> str:
    """A number for people, rounded up: a sentence that says "at most" of it stays true."""
    return f"{rounded(value, decimals, ROUND_CEILING):f}" if math.isfinite(value) else str(value)


def at_least(value: float, decimals: int = 4) -> str:
    """A number for people, rounded down: a sentence that says "at least" of it stays true."""
    return f"{rounded(value, decimals, ROUND_FLOOR):f}" if math.isfinite(value) else str(value)


def rounded(value: float, decimals: int, rounding: str) -> Decimal:
    """A finite float, taken as the shortest decimal that reads back as it: 0.1 is 0.1 in either direction."""
    short = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), rounding, _EXACT)
    return _EXACT.plus(short)  # no minus before a zero


def gamma(operations: int, unit: float = UNIT) -> float:
    """An upper bound of ``n u / (1 − n u)``; infinite when ``n u`` reaches one half."""
    total = operations * unit
    if total >= 0.5:
        return math.inf
    return total / (1.0 - total) * (1.0 + 8 * UNIT)


def up(x: Any) -> Any:
    """The next float64 above each entry: an upper bound of whatever rounded to it."""
    return np.nextafter(x, np.inf)


def down(x: Any) -> Any:
    """The next float64 below each entry."""
    return np.nextafter(x, -np.inf)


def exact_sum(values: FloatArray) -> int:
    """The sum of finite numbers without any rounding, in units of ``2^-SHIFT``: it matters not in which order."""
    whole = 0
    for start in range(0, len(values), MOST):
        mantissa, exponent = np.frexp(values[start : start + MOST])
        digits = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = int(exponent.min())
        high, low = (np.bincount(exponent - lowest, weights=half) for half in (digits >> 26, digits & (2**26 - 1)))
        for place in np.flatnonzero((high != 0) | (low != 0)).tolist():
            whole += ((int(high[place]) << 26) + int(low[place])) << (lowest + place - 53 + SHIFT)
    return whole


def nearest(whole: int) -> float:
    """An exact sum as a float, rounded once."""
    return float(Fraction(whole, 1 << SHIFT))


def rounded_up(number: Fraction) -> float:
    """The smallest float that is at least the number."""
    value = float(number)
    return value if Fraction(value) >= number else float(up(value))


def rounded_down(number: Fraction) -> float:
    """The largest float that is at most the number."""
    value = float(number)
    return value if Fraction(value) <= number else float(down(value))


def products_up(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Products of numbers >= 0, each rounded up; 0 where a value is 0."""
    with np.errstate(over="ignore", under="ignore"):
        return np.where(values == 0, 0.0, up(weights * values) + TINY)


def products_down(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Products of numbers >= 0, each rounded down."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.maximum(0.0, down(weights * values)))


def mean_up(values: FloatArray, weights: FloatArray | None = None) -> float:
    """A float that is at least the weighted mean of numbers >= 0; without weights all count alike.

    **Soundness.** Products round up, sums are exact, their quotient rounds up once. The mean of those who count is
    besides at most their largest value, which also answers where a product overflows.
    """
    value, weight = _counted(values, weights)
    products = products_up(weight, value)
    largest = float(value.max())
    if not np.isfinite(products).all():  # a NaN among the values is the largest one
        return largest
    return rounded_up(min(Fraction(exact_sum(products), exact_sum(weight)), Fraction(largest)))


def mean_down(values: FloatArray, weights: FloatArray | None = None) -> float:
    """A float that is at most the weighted mean of numbers >= 0; without weights all count alike.

    **Soundness.** As :func:`mean_up`, the other way: products round down, and the mean of those who count is at least
    their smallest value.
    """
    value, weight = _counted(values, weights)
    products = products_down(weight, value)
    smallest = float(value.min())
    if not np.isfinite(products).all():
        return smallest
    return rounded_down(max(Fraction(exact_sum(products), exact_sum(weight)), Fraction(smallest)))


def _counted(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """The values whose weight is positive, and these weights."""
    value = np.asarray(values, dtype=np.float64)
    weight = np.ones(len(value)) if weights is None else np.asarray(weights, dtype=np.float64)
    counts = weight > 0
    if not counts.any() or not np.isfinite(weight).all():
        raise ParameterError("A mean needs somebody who counts: weights must be finite and one of them positive.")
    return value[counts], weight[counts]


def product_upper(left: FloatArray, right: FloatArray) -> FloatArray:
    """An entrywise upper bound of the matrix product of two non-negative matrices."""
    terms = left.shape[-1]
    return np.asarray((left @ right) * (1.0 + 2 * gamma(terms + 2)) + (terms + 1) * TINY, dtype=np.float64)


def norm_upper(x: FloatArray, order: float, axis: int = -1) -> FloatArray:
    """Upper bounds of the order-1, order-2 or order-∞ norm along an axis.

    **Soundness.** Vectors are scaled by a power of two before squaring, so that neither overflow nor
    underflow of the squares matters beyond the added term; the sum and root are covered by ``gamma``.
    """
    magnitude = np.abs(x)
    if magnitude.shape[axis] == 0:
        return np.zeros(np.delete(magnitude.shape, axis), dtype=np.float64)
    if order == math.inf:
        return np.asarray(magnitude.max(axis=axis), dtype=np.float64)
    terms = magnitude.shape[axis]
    grow = 1.0 + 2 * gamma(terms + 4)
    if order == 1:
        return np.asarray(magnitude.sum(axis=axis) * grow, dtype=np.float64)
    largest = magnitude.max(axis=axis, keepdims=True)
    _, exponent = np.frexp(np.where(np.isfinite(largest), largest, 1.0))
    scaled = np.ldexp(magnitude, -exponent)
    root = np.sqrt(np.square(scaled).sum(axis=axis, keepdims=True)) * grow
    # Squares below TINY may vanish: together they hide at most sqrt(terms TINY) of the scaled norm.
    root = np.where(largest > 0, root + math.sqrt(terms) * 2.0**-510, 0.0)
    # Scaling back may round once more, among subnormal numbers.
    return np.asarray(up(np.squeeze(np.ldexp(root, exponent), axis=axis)), dtype=np.float64)


def dual_order(order: float) -> float:
    """The conjugate exponent: 1 ↔ ∞, 2 ↔ 2."""
    return {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[float(order)]
