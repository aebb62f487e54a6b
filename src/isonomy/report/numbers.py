"""Numbers as texts: upper bounds are rounded up, attained values down.

**Soundness.** A bound that is rounded to the nearest number on its way to a page may say more than was proved. Here it
is rounded in the direction in which the sentence stays true, and there are as many decimals as it takes for the rounded
bounds to be on the same side of ε as the bounds themselves. A float stands for the shortest decimal that reads back as
the same float: 0.1 is written 0.1 in either direction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np

from isonomy.arithmetic import FloatArray, rounded
from isonomy.arithmetic import parameter as parameter


def quantiles(values: FloatArray, weights: FloatArray, shares: tuple[float, ...]) -> list[float]:
    """Return weighted quantiles that are values themselves: monotone in each value, so that bounds give bounds."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    places = np.searchsorted(reached, np.asarray(shares) * reached[-1] * (1 - 1e-12))
    return [float(value) for value in values[order][np.minimum(places, len(values) - 1)]]


def round_up(value: float) -> float:
    """Return a round number that is at least ``value``."""
    if not value > 0:
        return 1.0
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(step * power for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 20) if step * power >= value))


def percent(share: float) -> str:
    """Return ``12.3%``; a nonzero share is never rounded to 0 %, nor a partial one to 100 %."""
    if not math.isfinite(share):
        return "undefined"
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{f'{100 * share:.1f}'.removesuffix('.0')}%"


def whole_percent(count: int, total: int) -> str:
    """Return ``43 %``, to the nearest whole one; some are never 0 %, and some of them never all."""
    if 0 < count < total:
        share = 100 * count / total
        return "<1 %" if share < 1 else ">99 %" if share > 99 else f"{share:.0f} %"
    return "100 %" if count else "0 %"


def signed(value: float, decimals: int) -> str:
    """Return a number with its sign, or ``0`` where all its digits are."""
    text = written(abs(value), decimals, ROUND_HALF_EVEN)
    if not any(digit in text for digit in "123456789"):
        return "0"
    return f"{'+' if value > 0 else '−'}{text}"


def decimals_of(*values: float) -> int:
    """Return the decimals that give numbers of about this size four digits."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 2 if largest == 0 else min(6, max(0, 3 - math.floor(math.log10(largest))))


def cell(value: object) -> str:
    """Return a raw value as it is shown in a table."""
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isnan(number):
            return "missing"
        text = f"{number:.0f}" if abs(number) < 1e15 and number == round(number) else f"{number:.6g}"
        return text.replace("-", "−")
    if isinstance(value, int | np.integer):
        return str(value).replace("-", "−")
    return "missing" if value is None or str(value) == "<NA>" else str(value)


def listed(names: list[str]) -> str:
    """Return ``a, b and c``, or the first five and the number of the others where there are more than six."""
    if len(names) > 6:
        return f"{', '.join(names[:5])} and {len(names) - 5} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else "nothing"


def spoken(name: str) -> str:
    """Return the name of a column as a word of a sentence: ``foreign_worker`` is foreign worker."""
    return name.replace("_", " ").strip() or name


def either(names: Sequence[str]) -> str:
    """Return ``a, b or c``, names as words of a sentence; of more than six the first five, and how many more."""
    some = [spoken(name) for name in names]
    some = some if len(some) <= 6 else [*some[:5], f"{len(some) - 5} others"]
    return " or ".join(filter(None, [", ".join(some[:-1]), some[-1]])) if some else "nothing"


def date_of(moment: str) -> str:
    """Return the day of an ISO 8601 moment as people write it: 18 November 2026."""
    try:
        day = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    return f"{day.day} {day:%B} {day.year}"


def agrees(value: float, rounding: str, decimals: int, epsilon: float | None) -> bool:
    """Return whether a bound is rounded to the side of ε on which it is."""
    if epsilon is None or not math.isfinite(value):
        return True
    return (rounded(value, decimals, rounding) > Decimal(repr(epsilon))) == (value > epsilon)


def written(value: float, decimals: int, rounding: str) -> str:
    """Return a number with ``decimals`` decimals, in a ``rounding`` of :mod:`decimal`."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{rounded(value, decimals, rounding):,f}".replace("-", "−")
