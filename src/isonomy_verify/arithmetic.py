"""Directed arithmetic: the few operations with which every bound is rounded to the safe side.

Model: IEEE float64, round to nearest, sums and products of matrices in any order and with or without fused
multiply-add. With ``u = 2^-53`` a computed sum of ``n`` products satisfies

    |fl(a·b) − a·b| ≤ γ_n |a|·|b| + n 2^-1074,        γ_n = n u / (1 − n u),

and a number that is reached through ``n`` roundings, each relative, is within ``γ_n`` of the exact one. Underflow is
not relative: whatever ``2^50`` products can lose to it is below ``TINY``, and what squares and their roots lose is
below ``SMALL``. Both are added wherever a product is formed. Overflow gives infinity or not-a-number; both are turned
into "nothing is known" (an infinite bound) where a bound is read off, never into a smaller bound.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Float32 = NDArray[np.float32]

U = 2.0**-53
"""Unit roundoff of float64."""

U32 = 2.0**-24
"""Unit roundoff of float32, in which many models run."""

LARGEST32 = 2.0**126
"""Half the largest power of 2 in float32: what is larger may overflow."""

LEAST32 = 2.0**-126
"""The smallest normal number of float32: a product, a sum or a weight that is smaller may become 0."""

LARGEST = sys.float_info.max
"""The largest finite float64."""

TINY = 2.0**-1000
SMALL = 2.0**-500

ELEMENTARY = 32 * U
"""An elementary function at ``t`` (exp, tanh, log1p, erf and short formulas of them) is computed within this times
``1 + |t| + |f(t)|``."""

ROUNDINGS = 8
"""``exp``, ``expm1``, ``log``, ``log1p`` and powers, taken alone, are assumed to be within this many ``U`` of the
result, relative to it; the tests compare them with a library of multiple precision."""

DIGITS = 34
"""Of bounds that are the same in whatever order their sums were added up."""

SHIFT = 1126
"""Every finite float is a whole multiple of ``2^-SHIFT``: the last place of 53 bits at the smallest exponent."""

SUMMANDS = 2**16
"""Numbers that are added up at a time. Their half mantissas have 27 bits, and float64 counts up to 2^53, so that 2^25
could be; fewer need less memory."""


def gamma(n: int, unit: float = U) -> float:
    """``γ_n`` from above: the relative error of what ``n`` roundings with this unit have touched; at most 1/2."""
    if n * unit > 0.25:
        raise ValueError(f"{n} roundings are too many for a unit of {unit}.")
    return n * unit / (1 - n * unit) * (1 + 1e-9)


def up(a: Any) -> Any:
    """The next float above."""
    return np.nextafter(a, np.inf)


def down(a: Any) -> Any:
    """The next float below."""
    return np.nextafter(a, -np.inf)


def finite(a: Array, name: str) -> Array:
    """The numbers, which must be such."""
    if a.dtype != np.float64 or not np.isfinite(a).all():
        raise ValueError(f"{name} must be float64 and finite.")
    return a


def outward(move: Array, step: Callable[[Array], Array]) -> Array:
    """A step :func:`up` or :func:`down`, except for no move at all, which is exact."""
    return np.where(move == 0.0, 0.0, step(move))


def stepped_up(a: Array) -> Array:
    """The least number of :data:`DIGITS` binary digits that is at least ``a ≥ 0``.

    Of two results of the same sum, added up in another order, it makes the same number, unless one of its steps lies
    between them. Infinity and what is no number stay what they are.
    """
    share, exponent = np.frexp(a)
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(a), np.maximum(a, np.ldexp(np.ceil(np.ldexp(share, DIGITS)), exponent - DIGITS)), a)


def norm_up(a: Array, order: float = 2.0, axis: int = -1) -> Array:
    """At least the norm along an axis, for order 1, 2 or infinity.

    Order 2 divides by the largest entry first, so that squares neither overflow nor (where they count) underflow.
    """
    size = np.abs(a)
    if order == math.inf:
        return np.asarray(size.max(axis, initial=0.0))
    if order == 1:
        return np.asarray(size.sum(axis) * (1 + gamma(a.shape[axis] + 4)) + TINY)
    if order != 2:
        raise ValueError(f"A norm must be of order 1, 2 or infinity. Got {order}.")
    top = size.max(axis, initial=0.0, keepdims=True)
    top = np.where(top > 0, top, 1.0)
    size = size / top
    return np.asarray(np.sqrt((size * size).sum(axis)) * np.squeeze(top, axis) * (1 + gamma(a.shape[axis] + 12)) + TINY)


def dual_order(order: float) -> float:
    """``q`` with ``1/p + 1/q = 1``; only 1, 2 and infinity are known here."""
    if order not in (1.0, 2.0, math.inf):
        raise ValueError(f"A ball must be of order 1, 2 or infinity. Got {order}.")
    return {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[order]


# -- products, sums and means of numbers >= 0 ---------------------------------------------------------------------


def product_up(a: Array, b: Array) -> Array:
    """At least the product of two matrices without negative entries: ``ab ≤ (1 + 2γ_k) fl(ab) + TINY``."""
    return np.asarray((a @ b) * (1 + 2 * gamma(a.shape[-1] + 4)) + TINY)


def products_up(a: Array, b: Array) -> Array:
    """At least ``a b``, entry by entry; 0 where ``b`` is. ``up(fl(ab)) > ab``, also where it underflows."""
    with np.errstate(all="ignore"):
        return np.where(b == 0, 0.0, up(a * b) + TINY)


def products_down(a: Array, b: Array) -> Array:
    """At most ``a b``, entry by entry: ``down(fl(ab)) < ab``, which is not negative."""
    with np.errstate(all="ignore"):
        return np.asarray(np.maximum(0.0, down(a * b)))


def power_up(base: Any, order: float) -> Array:
    """At least ``base^order`` for ``base ≥ 0``: ``fl(base^order)`` is within ``ROUNDINGS U`` of it, or underflows."""
    x = np.asarray(base, dtype=np.float64)
    if order == 1:
        return x
    with np.errstate(all="ignore"):
        return np.asarray(np.where(x == 0, 0.0, np.power(x, order) * (1 + 4 * ROUNDINGS * U) + TINY))


def power_down(base: Any, order: float) -> Array:
    """At most ``base^order`` for ``base ≥ 0``, and finite: a power beyond all floats is above the largest of them."""
    x = np.asarray(base, dtype=np.float64)
    if order == 1:
        return np.asarray(np.minimum(x, sys.float_info.max))
    with np.errstate(all="ignore"):
        raised = np.minimum(np.power(x, order), sys.float_info.max)
        return np.asarray(np.maximum(raised * (1 - 4 * ROUNDINGS * U) - TINY, 0.0))


def exact_sum(values: Array) -> int:
    """The sum without any rounding, in units of ``2^-SHIFT``: it matters not in which order. What divides one sum by
    another needs no units; all else divides by ``1 << SHIFT``."""
    if not np.isfinite(values).all():
        raise ValueError("Only finite numbers have a sum.")
    whole = 0
    for start in range(0, len(values), SUMMANDS):
        mantissa, exponent = np.frexp(values[start : start + SUMMANDS])
        digits = np.ldexp(mantissa, 53).astype(np.int64)
        lowest = int(exponent.min())
        high, low = (np.bincount(exponent - lowest, weights=half) for half in (digits >> 26, digits & (2**26 - 1)))
        for place, (first, last) in enumerate(zip(high.tolist(), low.tolist(), strict=True), lowest - 53 + SHIFT):
            if first or last:
                whole += ((int(first) << 26) + int(last)) << place
    return whole


def nearest(whole: int) -> float:
    """An exact sum as a float, rounded once."""
    return float(Fraction(whole, 1 << SHIFT))


def rounded_up(number: Fraction) -> float:
    """The smallest float that is at least the number."""
    if abs(number) > sys.float_info.max:
        return math.inf if number > 0 else -sys.float_info.max
    value = float(number)
    return value if Fraction(value) >= number else float(up(value))


def rounded_down(number: Fraction) -> float:
    """The largest float that is at most the number."""
    return 0.0 - rounded_up(-number)


def mean_of_sums(total: int, weight: int, largest: float) -> float:
    """At least ``total / weight`` for exact sums, rounded once; no mean is above the largest of its numbers."""
    try:
        mean = total / weight  # of whole numbers, whatever their size: the nearest float
    except OverflowError:
        return largest
    top, bottom = mean.as_integer_ratio()
    return min(mean if top * weight >= total * bottom else float(up(mean)), largest)


def mean_up(values: Array, weights: Array | None = None) -> float:
    """At least the weighted mean of numbers >= 0; without weights all count alike.

    Products round up, sums are exact, their quotient rounds up once. Where a product overflows the largest value
    answers, which is not a number if one of them is not.
    """
    value, weight = _counted(values, weights)
    products, largest = products_up(weight, value), float(value.max())
    if not np.isfinite(products).all():
        return largest
    return mean_of_sums(exact_sum(products), exact_sum(weight), largest)


def mean_down(values: Array, weights: Array | None = None) -> float:
    """At most the weighted mean of numbers >= 0: as :func:`mean_up`, the other way, and at least the smallest value."""
    value, weight = _counted(values, weights)
    products, smallest = products_down(weight, value), float(value.min())
    if not np.isfinite(products).all():
        return smallest
    return max(rounded_down(Fraction(exact_sum(products), exact_sum(weight))), smallest)


def _counted(values: Array, weights: Array | None) -> tuple[Array, Array]:
    """The values whose weight is positive, and these weights."""
    value = np.asarray(values, dtype=np.float64)
    weight = np.ones(len(value)) if weights is None else np.asarray(weights, dtype=np.float64)
    counts = weight > 0
    if not counts.any() or not (np.isfinite(weight) & (weight >= 0)).all():
        raise ValueError("A mean needs somebody who counts: weights are finite, not negative, and one is positive.")
    return value[counts], weight[counts]
