"""Confidence bounds of a mean from independent draws of bounded values, for certificates, distances and monitors.

From above, of values ``h`` in ``[0, G]``:

- **hoeffding**: ``mean + G sqrt(log(1/α) / 2n)``.
- **betting** (Waudby-Smith & Ramdas 2024, with bets fixed in advance): a mean ``m`` (with ``G = 1``) is refuted when
  the capital ``average over θ of Π_i (1 + θ (m − h_i) / (1 − m))`` reaches ``1/α``. By Markov's inequality the true
  mean is refuted with probability at most α. Far smaller where the variance is small, up to a quarter larger than
  Hoeffding where it is large (n = 10,000).

Both grow with every value, so that values may be rounded up.

From below (:func:`mean_lower`), of ``x_i`` in ``[0, 1]`` with weights ``w_i`` in ``[0, 1]``, sampling weights divided
by the largest that can *occur*. The mean of the population that the weights stand for is ``μ = E[w x] / E[w]``. The
weighted mean of a sample is a biased estimate of it, and is not used: ``E[w (x − μ)] = 0`` holds exactly, and
``w (x − m)`` lies in ``[−m, 1 − m]``. Bets on a mean above ``m``, a share ``λ_i`` of the wealth on individual ``i``
chosen before looking, give the wealth ``K_t(m) = Π_{i ≤ t} (1 + λ_i w_i (x_i − m))``: non-negative for ``λ_i ≤ 1``,
and of expectation 1 for ``m = μ``. By Ville's inequality it ever reaches ``1/α`` with probability at most ``α``.
``K_t(m)`` decreases in ``m``, so the largest ``m`` whose wealth reaches ``1/α`` is below ``μ`` with probability at
least ``1 − α`` (the weights are ours).

The limit of the weights cannot be had from the sample: if one in ten thousand weighs as much as all others together,
no sample of a thousand tells. Divided by the largest weight *seen*, bets may lose more than all there is, in cases that
the sample does not show, and the wealth no longer has an expectation of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy_verify.arithmetic import ROUNDINGS, U, down, gamma, mean_up, up
from isonomy_verify.sampling import refuted

BINS = 2**14
"""Larger samples are rounded up to this many values before betting."""

ROUNDING_FACTOR = 1 + 8 * ROUNDINGS * U
"""Covers a handful of rounded operations and elementary functions."""

_LARGEST_BET = 0.9
_HALVINGS = 60


def share_bounds(count: int, n: int, risk: float) -> tuple[float, float]:
    """Return bounds, by Clopper and Pearson, of a share of which ``count`` of ``n`` were seen; both hold with
    probability ``1 - risk``."""
    from scipy.stats import beta  # takes a while

    low = float(beta.ppf(risk / 2.0, count, n - count + 1)) if count else 0.0
    high = float(beta.isf(risk / 2.0, count + 1, n - count)) if count < n else 1.0
    # Quantiles are computed to far more digits than these.
    return max(0.0, low * (1 - 1e-9)), min(1.0, high * (1 + 1e-9))


def hoeffding(values: FloatArray, largest: float, alpha: float, weights: FloatArray | None = None) -> float:
    """Return Hoeffding's upper bound of the mean of independent values in ``[0, largest]``, with weights in ``(0, 1]``.

    ``sum v (mu - h) <= G sqrt(n log(1/alpha) / 2)`` with probability ``1 - alpha``, divided by the sum of the weights.
    """
    n = len(values)
    weights = np.ones(n) if weights is None else weights
    deviation = largest * math.sqrt(_log_inverse(alpha) * n / 2) / math.fsum(weights.tolist()) * ROUNDING_FACTOR
    return min(largest, float(up(mean_up(values, weights) + deviation)))


def betting(values: FloatArray, largest: float, alpha: float, weights: FloatArray | None = None) -> float:
    """Return the smallest mean that bets fixed in advance refute, and with it every larger mean; weights in ``(0, 1]``.

    **Soundness.** The capital grows with ``m`` and falls with every value, so values may be rounded up, and the end of
    a bisection holds whenever it was refuted itself. Bets depend on n and alpha only. They stay below 31/32, which
    keeps each factor above 1/32, so that the logarithms lose less than ``slack`` to rounding.
    """
    n = len(values)
    scaled = np.minimum(up(values / largest), 1.0) * (values > 0)
    if n > BINS:
        scaled = np.ceil(scaled * BINS) / BINS
    if weights is None or (weights == 1).all():
        points, counts = np.unique(scaled, return_counts=True)
        sizes = np.ones(len(points))
    else:
        (points, sizes), counts = np.unique(np.stack([scaled, weights]), axis=1, return_counts=True)
    # From all in, down to the best bet against the largest variance possible, which is Hoeffding's.
    halvings = max(0.0, math.log2(2 * n / _log_inverse(alpha)))
    theta = np.minimum(2.0 ** (-np.arange(math.ceil(halvings) + 1) / 2), 31 / 32)
    slack = n * (1024 * U + 8 * gamma(len(points) + 2)) + 1e-12
    goal = _log_inverse(alpha) + math.log(len(theta)) * ROUNDING_FACTOR + slack

    def refuted(m: float) -> bool:
        logs = counts @ np.log1p(np.outer(sizes * (m - points) / (1 - m), theta))
        highest = float(logs.max())
        return highest + math.log(float(np.exp(logs - highest).sum())) >= goal

    low, high = 0.0, 1.0  # a mean of 1 needs no refutation
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return min(largest, float(up(high * largest)))


def refuted_mean(values: FloatArray, largest: float, risk: float, share: float = 1.0) -> float:
    """Return about the least mean of a part that holds the ``share`` which bets refute
    (:func:`isonomy_verify.sampling.refuted`), with a margin for other machines; ``largest`` where they refute none."""
    low, high = 0.0, largest
    for _ in range(26):
        middle = (low + high) / 2.0
        low, high = (low, middle) if refuted(values, largest, middle, risk, share) else (middle, high)
    return min(largest, high + 1e-8 * largest)


METHODS: Mapping[str, Callable[[FloatArray, float, float, FloatArray | None], float]] = MappingProxyType(
    {"betting": betting, "hoeffding": hoeffding}
)
"""Upper confidence bounds of a mean: values in ``[0, largest]``, ``largest``, alpha, weights in ``(0, 1]``."""


def mean_lower(values: FloatArray, weights: FloatArray, low: float, high: float, alpha: float) -> float:
    """Return a number below the weighted mean of the population with probability at least ``1 − alpha``, by betting.

    ``values`` lie in ``[low, high]`` *by proof*; ``weights`` are at most 1, the largest weight that can occur.

    **Soundness.** Bets depend on earlier individuals only; the logarithm of the wealth is compared with its rounding
    error deducted; the bisection keeps a mean that has been refuted.
    """
    if len(values) == 0 or not high > low:
        return low
    # Each step rounds down: what is bounded is the mean of numbers that are not larger.
    unit = np.clip(down(down(values - low) / (high - low) * (1.0 - 2.0**-51)), 0.0, 1.0)
    bets = _bets(unit, weights, alpha) * weights
    if not _refuted(0.0, unit, bets, alpha):
        return low
    under, over = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (under + over) / 2.0
        if _refuted(middle, unit, bets, alpha):
            under = middle
        else:
            over = middle
    return float(down(low + down(down(under) * (high - low))))


def _refuted(m: float, unit: FloatArray, bets: FloatArray, alpha: float) -> bool:
    steps = np.log1p(bets * (unit - m))
    error = gamma(2 * len(steps) + 64) * float(np.abs(steps).sum() + bets.sum())
    return float(np.cumsum(steps).max()) - error >= -math.log(alpha) + 1e-12


def _bets(unit: FloatArray, weights: FloatArray, alpha: float) -> FloatArray:
    """Return ``λ_i = sqrt(2 log(1/α) / (n v))`` of the variance ``v`` of ``w (x − μ)`` so far, the best constant
    bet."""
    count = np.arange(1, len(unit) + 1)
    mean = (0.5 + np.cumsum(weights * unit)) / (1.0 + np.cumsum(weights))
    variance = (0.25 + np.cumsum((weights * (unit - mean)) ** 2)) / (1.0 + count)
    before = np.concatenate([[0.25], variance[:-1]])
    return np.asarray(np.minimum(_LARGEST_BET, np.sqrt(2.0 * -math.log(alpha) / (len(unit) * before))))


def _log_inverse(alpha: float) -> float:
    """Return an upper bound of ``log(1 / alpha)``."""
    return -math.log(alpha) * ROUNDING_FACTOR + U
