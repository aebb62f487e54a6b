"""A lower confidence bound of a mean, by betting.

``(x_1, w_1), (x_2, w_2), …`` are independent draws, ``x_i`` in ``[0, 1]`` with weights ``w_i`` in ``[0, 1]``: sampling
weights divided by the largest that can *occur*. The mean of the population that the weights stand for is ``μ = E[w x] /
E[w]``. The weighted mean of a sample is a biased estimate of it, and is not used: ``E[w (x − μ)] = 0`` holds exactly,
and ``w (x − m)`` lies in ``[−m, 1 − m]``. Whoever bets that the mean is larger than ``m``, a share ``λ_i`` of the
wealth on individual ``i`` chosen before looking, has the wealth ``K_t(m) = Π_{i ≤ t} (1 + λ_i w_i (x_i − m))``:
non-negative as long as ``λ_i ≤ 1``, and of expectation 1 for ``m = μ``. By Ville's inequality it ever reaches ``1/α``
with probability at most ``α``. ``K_t(m)`` decreases in ``m``, so the largest ``m`` whose wealth reaches ``1/α`` is
below ``μ`` with probability at least ``1 − α`` (Waudby-Smith and Ramdas 2024; the weights are ours).

The limit of the weights cannot be had from the sample: if one in ten thousand weighs as much as all others together,
no sample of a thousand tells. Divided by the largest weight *seen*, bets may lose more than all there is, in cases that
the sample does not show, and the wealth no longer has an expectation of 1.
"""

from __future__ import annotations

import math

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy_verify.arithmetic import down, gamma

_LARGEST_BET = 0.9
_HALVINGS = 60


def mean_lower(values: FloatArray, weights: FloatArray, low: float, high: float, alpha: float) -> float:
    """A number below the weighted mean of the population with probability at least ``1 − alpha``.

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
    """``λ_i = sqrt(2 log(1/α) / (n v))`` with the variance ``v`` of ``w (x − μ)`` so far, the best constant bet."""
    count = np.arange(1, len(unit) + 1)
    mean = (0.5 + np.cumsum(weights * unit)) / (1.0 + np.cumsum(weights))
    variance = (0.25 + np.cumsum((weights * (unit - mean)) ** 2)) / (1.0 + count)
    before = np.concatenate([[0.25], variance[:-1]])
    return np.asarray(np.minimum(_LARGEST_BET, np.sqrt(2.0 * -math.log(alpha) / (len(unit) * before))))
