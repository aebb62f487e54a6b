"""Numbers for people: decimals that are rounded to the side on which a sentence stays true.

Bounds are rounded elsewhere, in :mod:`isonomy_verify.arithmetic`.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_EXACT = Context(prec=800)  # every float64 has fewer digits than this before and after the point


CLAIMED = 6
"""Decimals of what a certificate claims: nothing finer is printed of a bound, unless ε asks for it."""


def decimals_of_bound(value: float, regression: bool = False) -> int:
    """Return the decimals that every output gives a bound: three digits that count, at most as a claim has them."""
    digits = 2 - math.floor(math.log10(value)) if math.isfinite(value) and value > 0 else 4
    return min(max(0 if regression else 4, digits), CLAIMED)


def at_most(value: float, decimals: int | None = None) -> str:
    """Return a number in decimals, rounded up, so that "at most" stays true of it."""
    places = decimals_of_bound(value) if decimals is None else decimals
    return f"{rounded(value, places, ROUND_CEILING):f}" if math.isfinite(value) else str(value)


def at_least(value: float, decimals: int | None = None) -> str:
    """Return a number in decimals, rounded down, so that "at least" stays true of it."""
    places = decimals_of_bound(value) if decimals is None else decimals
    return f"{rounded(value, places, ROUND_FLOOR):f}" if math.isfinite(value) else str(value)


def reached(least: str) -> str:
    """Return a text of :func:`at_least`, or ``less than 0.0001`` where no digit above 0 is left of it."""
    return least if least.strip("0.") else f"less than {least[:-1]}1"


def rounded(value: float, decimals: int, rounding: str) -> Decimal:
    """Round a finite float, taken as the shortest decimal that reads back as it: 0.1 is 0.1 in either direction."""
    short = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-decimals), rounding, _EXACT)
    return _EXACT.plus(short)  # no minus before a zero


def parameter(value: float) -> str:
    """Return a parameter in the digits in which it was written: a bound holds for this very number."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    short = f"{value:.6g}"
    return (short if float(short) == value else repr(float(value))).replace("e-0", "e-").replace("-", "−")


def these(count: int) -> str:
    """Return ``these 1,000 individuals``."""
    return "this one individual" if count == 1 else f"these {count:,} individuals"


def weighted(weights: FloatArray) -> str:
    """Return what a sentence adds where people have unequal weights: " (weighted)", else ""."""
    return "" if weights.min() == weights.max() else " (weighted)"


def power(base: float, order: float) -> float:
    """Return about ``base^order``, infinite where that overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.power(np.float64(base), order))


def share(value: float) -> str:
    """Return a share from 0 to 1 in percent, every digit of it: a bound holds for this very number."""
    return f"{(Decimal(repr(float(value))) * 100).normalize():f} %"
