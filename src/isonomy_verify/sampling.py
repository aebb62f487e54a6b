"""The population behind a sample: what independent draws prove of it, each time but with probability ``risk``.

The individuals are independent draws from a population ``P``, with values ``v_i`` in ``[0, G]`` of which upper bounds
``u_i`` are known. Three facts, all of which only weaken where values are replaced by upper bounds:

* **Bets** (:func:`refuted`). Let ``h_t(v) = max(v − t, 0)``. If ``t + E h_t / q ≥ m`` for *every* level ``t``, then

      K_t,θ = Π_i (1 + θ (x − h_t(v_i)/(G − t)) / (1 − x)),        x = q (m − t) / (G − t),

  has no negative factor and an expectation of at most 1 for each ``t < m`` and each ``θ`` in ``(0, 1)``, and so has any
  average of them over levels and ``θ`` that were fixed in advance. By Markov's inequality it reaches ``1/risk`` with
  probability at most ``risk``. The mean of every part of ``P`` that holds the share ``q`` is at most the least
  ``t + E h_t / q``, and one reaches it: so a mean ``m`` of such a part is refuted. ``K`` grows with ``m``, so that all
  larger ones are refuted too, and it falls with every value. Levels near the best one win together: the average
  costs less than a union over them. With the level 0 and ``q = 1`` these are bets on a mean.
* **Shares** (:func:`share_up`), by Clopper and Pearson: of ``n`` draws at most ``k`` have a property. A share ``p`` of
  them in ``P`` is refuted where ``P(Bin(n, p) ≤ k) ≤ risk``, and so is every larger one.
* **Order statistics**. ``v_(r)`` the ``r``-th smallest value: if ``P(v > v_(r)) > p``, then at most ``n − r`` of ``n``
  draws are among the share ``p`` of the largest, so that the same bound holds with ``k = n − r``, whatever the law of
  ``v`` is, if only ``r`` was fixed in advance; and with ``u_(r) ≥ v_(r)`` in its place.

**Soundness.** Factors of bets are above 1/32, so that a logarithm, and a sum of them, is wrong by less than ``2^-40``
for each individual; both are asked for more than is needed by that and a billionth, and ``x`` is a billionth smaller.
Binomial sums are charged :func:`math.lgamma` and logarithms with 64 roundings of every term.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from isonomy_verify.arithmetic import Array, U, down, up

LEVELS = (0.0, *(2.0 ** (-k / 8) for k in range(1, 65)))
"""Of parts, as shares of the largest value: fixed in advance, whatever the individuals are."""

FEW_DRAWS = 2048
"""Values of more individuals are rounded up to nine binary digits before bets."""

SLACK = 1e-9


def risk_of(confidence: float) -> float:
    """At most the probability with which a statement of this confidence may fail."""
    return float(down(1.0 - confidence))


def stakes(n: int, odds: float) -> Array:
    """The shares of the capital that are bet: from nearly all, down to the best bet against the largest variance."""
    halvings = max(0.0, math.log2(2 * n / odds))
    return np.minimum(2.0 ** (-np.arange(math.ceil(halvings) + 1) / 2), 31 / 32)


def refuted(values: Array, largest: float, mean: float, risk: float, share: float = 1.0) -> bool:
    """Whether bets refute that a part of the population that holds at least the ``share`` has this ``mean``, or a
    larger one; ``values`` (n,) are at least those of independent draws, none of which is above ``largest``."""
    if not 0 < share <= 1 or not 0 < risk < 1 or not 0 < largest < math.inf or not len(values):
        raise ValueError("A share, a risk, a largest value or a sample that is none.")
    scaled = np.clip(np.asarray(up(values / largest)), 0.0, 1.0) * (values > 0)
    if len(scaled) > FEW_DRAWS:  # upwards, so that nothing is gained
        size = np.frexp(np.maximum(scaled, 2.0**-14))[1]
        scaled = np.minimum(np.ceil(np.ldexp(scaled, 9 - size)) * np.ldexp(1.0, size - 9), 1.0) * (scaled > 0)
    points, counts = np.unique(scaled, return_counts=True)
    n, m, levels = len(values), mean / largest, LEVELS if share < 1 else LEVELS[:1]
    odds = -math.log(risk) * (1 + 64 * U) + n * 2.0**-40 + SLACK
    theta = stakes(n, odds)
    capital = -math.inf
    for level in levels:
        x = share * (m - level) / (1 - level) - SLACK
        if not 0 <= x < 1:
            continue  # a capital of 0, which is no more than there is
        height = np.maximum(points - level, 0.0) / (1 - level)
        logs = counts @ np.log1p(np.outer((x - height) / (1 - x), theta))
        capital = float(np.logaddexp(capital, np.logaddexp.reduce(logs)))
    return capital - math.log(len(levels) * len(theta)) >= odds


def binomial_up(k: int, n: int, p: float) -> float:
    """At least the probability that of ``n`` draws, each with probability ``p``, at most ``k`` succeed.

    Terms ``t_j = C(n, j) p^j (1 − p)^(n − j)`` fall with ``j`` below ``n p``, and so do their ratios ``t_(j−1) / t_j =
    j (1 − p) / ((n − j + 1) p)``, so that what is left after some terms is at most a geometric series.
    """
    if k >= n or p <= 0:
        return 1.0
    if p >= 1:
        return 0.0
    ratio = k * (1 - p) / ((n - k + 1) * p)
    if ratio >= 1 - 1e-9:
        return 1.0
    parts = [math.lgamma(n + 1), -math.lgamma(k + 1), -math.lgamma(n - k + 1)]
    parts += [k * math.log(p), (n - k) * math.log1p(-p)]
    first = math.fsum(parts) + 64 * U * (math.fsum(map(abs, parts)) + 1)
    j = np.arange(k, max(0, k - 64 - int(16 * math.sqrt(k))), -1, dtype=np.float64)
    terms = np.cumprod(np.append(1.0, j * (1 - p) / ((n - j + 1) * p)))
    left = float(terms[-1]) * ratio / (1 - ratio) if len(j) < k else 0.0
    total = (math.fsum(terms.tolist()) + left) * (1 + 16 * (len(terms) + 8) * U)
    return min(1.0, total * math.exp(min(first, 1.0)) * (1 + 64 * U))


def share_up(k: int, n: int, risk: float) -> float:
    """A share that is refuted, as is every larger one, where at most ``k`` of ``n`` draws have a property."""
    low, high = min(1.0, max(0.0, k / n)), 1.0
    if k >= n:
        return 1.0
    for _ in range(48):
        middle = (low + high) / 2
        low, high = (low, middle) if binomial_up(k, n, middle) <= risk else (middle, high)
    return high


def share_down(k: int, n: int, risk: float) -> float:
    """The same from below where at least ``k`` of ``n`` have it: the others are at most ``n − k``."""
    return max(0.0, float(down(1.0 - share_up(n - k, n, risk))))


def tails_up(n: int, ranks: Sequence[int], risk: float) -> list[float]:
    """At least the shares of the population above the order statistics of these ``ranks`` (1 to n), all together."""
    return [share_up(n - rank, n, risk / len(ranks)) for rank in ranks]
