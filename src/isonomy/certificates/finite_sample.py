"""From the individuals at hand to the population they were drawn from.

For a multiplier that does not depend on the individuals, ``h(x) = sup over z of [I(z) - lambda c(x, z)^p]`` lies in
``[0, G]`` and every distribution within gamma of the true population has an expected violation of at most
``lambda gamma^p + E[h]``. What remains is an upper confidence bound of one mean, from independent individuals: those of
:mod:`isonomy.confidence`, of which *hoeffding* is the paper's lemma.

**Soundness.** Taking the smallest of several bounds needs all of them to hold: alpha is shared among methods and
multipliers (union bound). Cells give ``h_i' >= h(x_i)``. Radii adapt across the sample, so that the ``h_i'`` are no
independent draws, but *hoeffding* and *betting* grow with every ``h_i'``, so they stay above their value for the true
``h(x_i)``. A multiplier chosen on some individuals would depend on the others too: there is a fixed grid of them.

**Clusters.** Where people come in clusters (households) that are independent draws, of sizes ``n_c`` up to a known
``K``, the mean over people is ``mu = E[sum of h over the cluster] / E[n_c]``, a ratio of two expectations. With the
weight ``v = n_c / K`` in ``(0, 1]`` and the mean ``h_c`` of the cluster, ``E[v (h_c - mu)] = 0`` exactly, and ``v (h_c
- mu)`` lies in ``[-mu, G - mu]`` whatever the sizes and however alike the members. So Hoeffding's inequality applies to
it, and the factors ``1 + theta v (m - h_c) / (1 - m)`` of a bet are non-negative, of expectation 1 at ``m = mu``, and
grow with ``m``. Both bounds still grow with every ``h_i'``. ``K`` must be known beforehand: a cluster that was not
drawn might have more members than all that were.

The individuals (or clusters) must be independent draws that were not used to fit network, metric, ground cost or
schema: the caller's promise, refused by ``certify`` where it is known to be broken. Each row of a bare array is taken
for another person.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.certificates.transport import check_radius
from isonomy.confidence import METHODS, ROUNDING_FACTOR
from isonomy.errors import DataError, ParameterError, template
from isonomy_verify.arithmetic import gamma as rounding
from isonomy_verify.arithmetic import mean_up, power_down, up
from isonomy_verify.dual import Cells, heights, plain, price

SHARES: Mapping[str, float] = MappingProxyType({"betting": 0.9, "hoeffding": 0.1})
"""Default shares of alpha: betting wins nearly always, so it gets most."""

MULTIPLIERS = 32
"""Size of the fixed grid of multipliers: from the largest useful one downwards, in steps of the square root of 2."""


@dataclass(frozen=True)
class PopulationBound:
    """With the stated confidence no distribution within gamma of the true population exceeds ``upper``.

    ``method`` is the bound of the mean that gave the smallest number, ``individuals`` how many entered that mean, in
    how many ``clusters`` if they came in such.
    """

    upper: float
    confidence: float
    method: str
    multiplier: float | None
    individuals: int
    clusters: int | None = None


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of individuals, numbered from 0 by ``member`` (n,); ``largest`` is the largest possible size."""

    member: npt.NDArray[np.int64]
    largest: int

    def means(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return means of clusters, rounded up, and weights in (0, 1]: sizes, as shares of the largest possible."""
        sizes = np.bincount(self.member)
        sizes, totals = sizes[sizes > 0], np.bincount(self.member, heights)[sizes > 0]
        means = up(up(totals * (1 + 2 * rounding(int(sizes.max()) + 2))) / sizes)
        return np.where(totals > 0, means, 0.0), sizes / self.largest


def population_upper(
    cells: Cells,
    order: float,
    gamma: float,
    largest: float,
    confidence: float,
    *,
    shares: Mapping[str, float] = SHARES,
    clusters: Clusters | None = None,
) -> PopulationBound:
    """Return an upper confidence bound of the worst expected violation within gamma of the population behind the
    sample.

    ``largest`` is the largest violation possible. Gamma 0 and order infinity need no multiplier, else a fixed grid of
    them is tried. ``clusters`` are bet on as wholes. Sampling weights are refused: a weighted mean is not a mean of
    independent draws with a common range, so only constant weights are handled.
    """
    check_radius(order, gamma)
    if not 0 < confidence < 1:
        raise ParameterError(template("confidence", "between 0 and 1, both excluded", confidence))
    alpha = float(np.nextafter(1.0 - confidence, 0.0))
    _check(cells, largest, shares, clusters)
    if plain(order, gamma) or gamma == math.inf:
        multipliers: list[float | None] = [0.0 if gamma == math.inf and order < math.inf else None]
    else:
        # A multiplier above largest / gamma^p charges more than the largest violation for the shift alone.
        steepest = min(largest / max(float(power_down(gamma, order)), 1e-300), 1e300)
        multipliers = [steepest * 2.0 ** (-k / 2) for k in range(MULTIPLIERS)]
    n = len(cells.weights)
    candidates = []
    for multiplier in multipliers:
        highest = np.minimum(heights(cells, order, gamma, multiplier), largest)
        paid = price(order, gamma, multiplier)
        values, weights = (highest, np.ones(n)) if clusters is None else clusters.means(highest)
        values = np.minimum(values, largest)
        candidates.append((paid + mean_up(values, weights), paid, multiplier, values, weights))
    count = None if clusters is None else len(candidates[0][-1])
    best = PopulationBound(largest, confidence, "largest", None, n, count)
    for least, paid, multiplier, values, weights in sorted(candidates, key=lambda candidate: candidate[0]):
        for method, share in shares.items():
            if least >= best.upper:
                break  # a bound of the mean is above the mean: this one cannot be smaller
            part = alpha * share / math.fsum(shares.values()) / len(multipliers) / ROUNDING_FACTOR
            upper = float(up(paid + METHODS[method](values, largest, part, weights)))
            if upper < best.upper:
                best = PopulationBound(upper, confidence, method, multiplier, n, count)
    return best


def _check(cells: Cells, largest: float, shares: Mapping[str, float], clusters: Clusters | None) -> None:
    if not 0 < largest < math.inf:
        raise ParameterError(template("largest", "a positive number", largest))
    if not shares or not set(shares) <= set(METHODS) or not all(share > 0 for share in shares.values()):
        raise ParameterError(template("shares", f"positive shares of some of {', '.join(METHODS)}", dict(shares)))
    if (cells.weights != cells.weights[0]).any():
        raise DataError("A bound for the population needs individuals without sampling weights: make them all equal.")
    if len(cells.weights) < 2:
        raise DataError("A bound for the population needs at least two individuals.")
    if clusters is not None and not clusters.member.any():
        raise DataError("A bound for the population needs at least two clusters.")
