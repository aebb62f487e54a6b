"""From the individuals at hand to the population they were drawn from.

For a multiplier that does not depend on the individuals, ``h(x) = sup over z of [I(z) - lambda c(x, z)^p]`` lies in
``[0, G]`` and every distribution within gamma of the true population has an expected violation of at most
``lambda gamma^p + E[h]``. What is left is an upper confidence bound of one mean, from independent individuals: those of
:mod:`isonomy.confidence`, of which *hoeffding* is the paper's lemma.

**Soundness.** Taking the smallest of several bounds needs all of them to hold: alpha is shared among methods and
multipliers (union bound). Cells give ``h_i' >= h(x_i)``. Where radii adapt to each individual only, the ``h_i'`` are
themselves independent draws. Where they adapt across the sample they are not, but *hoeffding* and *betting* grow with
every ``h_i'``, so they stay above their value for the true ``h(x_i)``; *bernstein* does not, and is refused. Then a
multiplier chosen on some individuals would depend on the others too: only a fixed grid of multipliers is left.

**Clusters.** Where people come in clusters (households) that are independent draws, of sizes ``n_c`` up to a known
``K``, the mean over people is ``mu = E[sum of h over the cluster] / E[n_c]``, a ratio of two expectations. With the
weight ``v = n_c / K`` in ``(0, 1]`` and the mean ``h_c`` of the cluster, ``E[v (h_c - mu)] = 0`` exactly, and ``v (h_c
- mu)`` lies in ``[-mu, G - mu]`` whatever the sizes and however alike the members. So Hoeffding's inequality applies to
it, and the factors ``1 + theta v (m - h_c) / (1 - m)`` of a bet are non-negative, of expectation 1 at ``m = mu``, and
grow with ``m``. Both bounds still grow with every ``h_i'``. ``K`` must be known beforehand: a cluster that was not
drawn might have more members than all that were.

The individuals (or clusters) must be independent draws that were not used to fit network, metric, ground cost or
schema: the caller's promise, refused by ``certify`` where it is known to be broken. Of a bare array nothing is known:
each row is taken for another person.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.certificates.dual import Cells, Dual
from isonomy.certificates.transport import check_radius
from isonomy.confidence import METHODS, SLOW
from isonomy.errors import DataError, ParameterError, template
from isonomy_verify.arithmetic import gamma as rounding
from isonomy_verify.arithmetic import mean_up, power_down, up
from isonomy_verify.dual import heights, plain, price

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
    """Who belongs together: ``member`` (n,) numbers the clusters from 0; ``largest`` is the most that one can have."""

    member: npt.NDArray[np.int64]
    largest: int

    def means(self, heights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means of clusters, rounded up, and weights in (0, 1]: sizes, as shares of the largest possible."""
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
    adapted_across: bool,
    seed: int,
    shares: Mapping[str, float] = SHARES,
    choosing: float = 0.2,
    clusters: Clusters | None = None,
) -> PopulationBound:
    """An upper confidence bound of the worst expected violation within gamma of the population behind the sample.

    ``largest`` is the largest violation possible. The multiplier is chosen on a random part of the individuals (the
    fraction ``choosing``) and the mean taken over the others; with ``adapted_across`` (radii, or anything else in the
    cells of one individual, depend on other individuals) a fixed grid of multipliers is used on everybody. Gamma 0 and
    order infinity need no multiplier. ``clusters`` are drawn, chosen on and bet on as wholes. Sampling weights are
    refused: a weighted mean is not a mean of independent draws with a common range, so only constant weights are
    handled.
    """
    check_radius(order, gamma)
    if not 0 < confidence < 1:
        raise ParameterError(template("confidence", "between 0 and 1, both excluded", confidence))
    alpha = float(np.nextafter(1.0 - confidence, 0.0))
    _check(cells, largest, choosing, shares, adapted_across, clusters)
    drawn = np.arange(len(cells.weights)) if clusters is None else clusters.member
    if plain(order, gamma) or gamma == math.inf:
        multipliers: list[float | None] = [0.0 if gamma == math.inf and order < math.inf else None]
    elif adapted_across:
        # A multiplier above largest / gamma^p charges more than the largest violation for the shift alone.
        steepest = min(largest / max(float(power_down(gamma, order)), 1e-300), 1e300)
        multipliers = [steepest * 2.0 ** (-k / 2) for k in range(MULTIPLIERS)]
    else:
        shuffled = np.random.default_rng(seed).permutation(drawn.max() + 1)
        chosen = np.isin(drawn, shuffled[: max(1, round(choosing * len(shuffled)))])
        multipliers = [Dual.of(cells.take(np.flatnonzero(chosen)), order).bound(gamma).multiplier]
        cells = cells.take(np.flatnonzero(~chosen))
        clusters = None if clusters is None else replace(clusters, member=drawn[~chosen])
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
                break  # a bound of the mean is above the mean: this one cannot win any more
            part = alpha * share / math.fsum(shares.values()) / len(multipliers) / SLOW
            upper = float(up(paid + METHODS[method](values, largest, part, weights)))
            if upper < best.upper:
                best = PopulationBound(upper, confidence, method, multiplier, n, count)
    return best


def _check(
    cells: Cells,
    largest: float,
    choosing: float,
    shares: Mapping[str, float],
    adapted_across: bool,
    clusters: Clusters | None,
) -> None:
    if not 0 < largest < math.inf:
        raise ParameterError(template("largest", "a positive number", largest))
    if not 0 < choosing < 1:
        raise ParameterError(template("choosing", "between 0 and 1, both excluded", choosing))
    if not shares or not set(shares) <= set(METHODS) or not all(share > 0 for share in shares.values()):
        raise ParameterError(template("shares", f"positive shares of some of {', '.join(METHODS)}", dict(shares)))
    if adapted_across and "bernstein" in shares:
        raise ParameterError("'bernstein' needs cells of each individual that do not depend on other individuals.")
    if (cells.weights != cells.weights[0]).any():
        raise DataError("A bound for the population needs individuals without sampling weights: make them all equal.")
    if len(cells.weights) < 2:
        raise DataError("A bound for the population needs at least two individuals.")
    if clusters is not None:
        if not clusters.member.any():
            raise DataError("A bound for the population needs at least two clusters.")
        if "bernstein" in shares:
            raise ParameterError("'bernstein' knows no clusters: take shares of betting and hoeffding.")
