"""Known margins: no individual moves, they are reweighted until some shares of categories and of bins are given ones.

A cell ``j`` is a category of a feature, or a bin of its numbers; ``ψ_j(i)`` is 1 for the individuals ``i`` in it, else
0. The certificate names the margins ``m_j``, how far ``b`` they may be off, and one tilt ``t_j`` a cell. The tilted
individuals ``P_m``, with shares proportional to ``π_i exp(Σ_j t_j ψ_j(i))``, have these margins, which is checked. Of
all populations with the very margins of ``P_m`` it is the closest to the individuals: for every such ``Q'``
``KL(Q'‖P) = KL(Q'‖P_m) + KL(P_m‖P)``, since ``ln(dP_m/dP)`` hangs on the cells only. So ``KL(Q'‖P_m)`` is the
divergence that is left once the margins are matched, and meant are all ``Q'`` with

    lo_j ≤ Q'(ψ_j) ≤ hi_j    and    KL(Q'‖P_m) ≤ κ,

``[lo_j, hi_j] = [m_j − b, m_j + b]``. With a share ``τ`` of strangers the margins are those of ``Q``, who include them:
as ``0 ≤ R(ψ_j) ≤ 1``, ``Q'`` keeps to ``[(m_j − b − τ) / (1 − τ), (m_j + b) / (1 − τ)]``. For **any** ``θ`` and
``λ > 0``, ``θ·Q'(ψ) ≤ Σ_j max(θ_j hi_j, θ_j lo_j)``, and by the inequality of Donsker and Varadhan
``Q'(f) ≤ λκ + λ ln P_m(exp(f / λ))``; with ``f = u − θ·ψ``

    Q'(u)  ≤  Σ_j max(θ_j hi_j, θ_j lo_j) + λκ + λ ln P_m(exp((u − θ·ψ) / λ)).

From below: shares proportional to ``π_i exp((l_i − θ·ψ) / λ) exp(t·ψ)``, as floats, of which margins and divergence are
checked; strangers are such people, too, so that ``Q`` has their margins.

**Soundness.** Every bound holds for any hints, and for the floats given. Exponents are charged for their roundings,
exponentials and logarithms ``ROUNDINGS`` of them, sums are exact or charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from isonomy_verify.arithmetic import (
    TINY,
    Array,
    down,
    exact_sum,
    gamma,
    mean_down,
    mean_up,
    products_down,
    products_up,
    up,
)
from isonomy_verify.reweighting import (
    EDGE,
    Groups,
    Hints,
    Reweighting,
    Sample,
    check_strangers,
    finite,
    strangers_in_words,
)
from isonomy_verify.text import listed, need, number, written

MARGIN_CELLS = 2**16
"""The most cells of all margins."""

LEAST = -600.0
"""Exponents below this count as no share in a population that is shown."""

STEEPEST = Fraction(2) ** 800
"""In place of a slope that is beyond this."""


class Margin(NamedTuple):
    """The shares (k,) of the cells of a feature, and their tilts (k,): its categories, or, with the ends (k − 1,) of
    all but the last, bins of its first coordinate: above the end before, and at most their own."""

    feature: str
    edges: tuple[float, ...] | None
    shares: tuple[float, ...]
    tilt: tuple[float, ...]


class _Exponents(NamedTuple):
    """At least (n,) and at most (n,) what exponents are."""

    high: Array
    low: Array


@dataclass(frozen=True)
class Marginals(Reweighting):
    """The reweightings of the individuals with known ``margins``, up to ``tolerance``, and at most the divergence
    ``residual`` from the tilted ones, which have them."""

    margins: tuple[Margin, ...]
    residual: float
    tolerance: float
    strangers: float = 0.0
    free_strangers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        names, ends = self.grouped_by, [each.edges for each in self.margins if each.edges is not None]
        if not names or len(set(names)) < len(names):
            raise ValueError("'margins' must be of features, each once.")
        if not 0 <= self.residual < math.inf or not 0 < self.tolerance < 1:
            raise ValueError("'residual' must be a finite number >= 0, and 'tolerance' one between 0 and 1.")
        if not all(np.isfinite(each).all() and (np.diff(each) > 0).all() for each in ends):
            raise ValueError("'edges' must be finite numbers that rise.")
        right = all(
            each.shares
            and len(each.tilt) == len(each.shares) == (len(each.shares) if each.edges is None else len(each.edges) + 1)
            and all(0 <= share <= 1 for share in each.shares)
            and all(math.isfinite(tilt) for tilt in each.tilt)
            for each in self.margins
        )
        if not right or sum(len(each.shares) for each in self.margins) > MARGIN_CELLS:
            raise ValueError("'shares' and 'tilt' must have a number for each cell, shares from 0 to 1.")
        check_strangers(self.strangers)

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The features that tell cells apart."""
        return tuple(each.feature for each in self.margins)

    def groups(self, x: Array, places: Mapping[str, slice]) -> Groups:
        """The cells (n, f) of individuals, one of each feature, numbered through; beyond the last where in none."""
        found, start, count = [], 0, sum(len(each.shares) for each in self.margins)
        for each in self.margins:
            need(each.feature in places, f"margins of a feature that the schema lacks, {listed([each.feature])}")
            place, size = places[each.feature], len(each.shares)
            if each.edges is None:
                block = np.asarray(x)[:, place] > 0.5
                need(block.shape[1] == size, f"shares of other categories than those of {listed([each.feature])}")
                cell = np.where(block.any(axis=1), block.argmax(axis=1), -1)
            else:
                cell = np.searchsorted(np.array(each.edges), np.asarray(x)[:, place.start])
            found.append(np.where(cell < 0, count, cell + start))
            start += size
        return np.stack(found, axis=1)

    @cached_property
    def limits(self) -> list[tuple[Fraction, Fraction]]:
        """The least and the largest share of each cell, strangers left out."""
        b, tau = Fraction(self.tolerance), Fraction(self.strangers)
        shares = [Fraction(share) for each in self.margins for share in each.shares]
        return [(max((m - b - tau) / (1 - tau), Fraction(0)), min((m + b) / (1 - tau), Fraction(1))) for m in shares]

    @property
    def near(self) -> list[tuple[Fraction, Fraction]]:
        """The least and the largest share of each cell."""
        b = Fraction(self.tolerance)
        return [(Fraction(share) - b, Fraction(share) + b) for each in self.margins for share in each.shares]

    def _tilts(self, people: Sample) -> _Exponents:
        return _sums(np.array([tilt for each in self.margins for tilt in each.tilt]), people.groups)

    def _tilted(self, people: Sample) -> tuple[Array, Array]:
        """At least (n,) and at most (n,) multiples of the tilted individuals' shares; that these have the margins."""
        need(people.groups.ndim == 2 and people.groups.shape[1] == len(self.margins), "cells of other margins")
        tilts = self._tilts(people)
        top = float(tilts.low.max())
        high, low = _exp_up(up(tilts.high - top)), _exp_down(down(tilts.low - top))
        need(_within(people, high, low, self.limits), "tilts that do not give the margins")
        return high, low

    def upper(self, people: Sample, hints: Hints) -> Fraction:
        """At least the mean of every population, by ``λ`` and ``θ``; the tilted mean for a residual of 0."""
        above, below = self._tilted(people)
        if self.residual == 0:
            total = exact_sum(products_up(products_up(people.weights, above), people.high))
            return _ratio(total, exact_sum(products_down(people.weights, below)))
        slope, theta = _multipliers(hints.multipliers, len(self.limits))
        paid = sum(
            max(Fraction(t) * low, Fraction(t) * high) for t, (low, high) in zip(theta, self.limits, strict=True)
        )
        exponents = self._exponents(people, people.high, slope, theta)
        top, lowest = float(exponents.high.max()), float(self._tilts(people).low.max())
        most = mean_up(_exp_up(up(exponents.high - top)), people.weights)
        least = mean_down(below, people.weights)
        need(least > 0 and math.isfinite(most), "multipliers of margins beyond all floats")
        log = Fraction(log_up(most)) + Fraction(top) - Fraction(lowest) - Fraction(log_down(least))
        return paid + Fraction(slope) * (Fraction(self.residual) + log)

    def lower(self, people: Sample, hints: Hints) -> Fraction:
        """At most the mean of the population that the hints describe; without them of the tilted individuals."""
        above, below = self._tilted(people)
        if not hints.population:
            if not _within(people, above, below, self.near):
                return Fraction(0)
            total = exact_sum(products_down(products_down(people.weights, below), people.low))
            return _ratio(total, exact_sum(products_up(people.weights, above)))
        masses, log = self.masses(people, hints)
        even = people._replace(weights=masses)
        need(_within(even, np.ones(len(masses)), np.ones(len(masses)), self.near), "a population of other margins")
        # ln(q/p) of an individual is the logarithm of mass over weight, less the tilt, and what both shares add up to.
        tilts = self._tilts(people)
        top = float(tilts.low.max())
        each = up(up(log - down(tilts.low - top)) + 2 * EDGE)
        total = exact_sum(masses)
        more = Fraction(exact_sum(products_up(_scaled(people.weights), above)), total)
        each = np.where(masses > 0, each, 0.0)
        mean = Fraction(mean_up(np.maximum(each, 0.0), masses)) - Fraction(mean_down(np.maximum(-each, 0.0), masses))
        divergence = mean + Fraction(log_up(float(up(float(more)))))
        need(divergence <= Fraction(self.residual), "a population whose divergence is too large")
        return _ratio(exact_sum(products_down(masses, people.low)), total)

    def masses(self, people: Sample, hints: Hints) -> tuple[Array, Array]:
        """The masses (n,) of the population that the hints describe, and about the logarithms (n,) of their ratio to
        weights, up to two roundings and an exponential."""
        slope, theta = _multipliers(hints.population, len(self.limits))
        exponents = self._exponents(people, people.low, slope, theta).high
        log = exponents - exponents.max()
        masses = np.where(log >= LEAST, _scaled(people.weights) * np.exp(np.maximum(log, LEAST)), 0.0)
        masses = np.where(masses > 1e-280, masses, 0.0)
        need(masses.any(), "a population of no one")
        return masses, log

    def behind(self, people: Sample, hints: Sequence[float], most: float, risk: float, counts: bool) -> Fraction:
        """At least the mean of any population: tilts that are fitted to the individuals say nothing of those behind
        them."""
        return Fraction(most)

    def reached_behind(self, people: Sample, risk: float) -> Fraction:
        """At most the mean of any population."""
        return Fraction(0)

    def steepest(self, people: Sample, hints: Hints, largest: float) -> Fraction:
        """``λ ρ (exp(G / λ) − 1) / G``, ``ρ`` the largest density of the tilt by the multipliers; ``ρ`` for a residual
        of 0.

        Values ``δ`` in ``[0, G]`` more add at most ``λ ln Q(exp(δ / λ))``, and ``exp(δ/λ) ≤ 1 + (exp(G/λ) − 1) δ/G``.
        """
        if self.residual == 0:
            above, below = self._tilted(people)
            return _ratio_of(float(above.max()), mean_down(below, people.weights))
        slope, theta = _multipliers(hints.multipliers, len(self.limits))
        exponents = self._exponents(people, people.high, slope, theta)
        least = mean_down(_exp_down(down(exponents.low - float(exponents.high.max()))), people.weights)
        density, power = _ratio_of(1.0, least), float(up(largest / slope))
        if not largest or power > 500 or density >= STEEPEST:
            return STEEPEST
        growth = Fraction(float(up(math.expm1(power) * (1 + EDGE))))
        return min(density * Fraction(slope) * growth / Fraction(largest), STEEPEST)

    def _exponents(self, people: Sample, values: Array, slope: float, theta: tuple[float, ...]) -> _Exponents:
        """Of ``(value − θ·ψ) / λ + t·ψ``."""
        moved, tilts = _sums(np.array(theta), people.groups), self._tilts(people)
        high, low = up(up(values - moved.low) / slope), down(down(values - moved.high) / slope)
        return _Exponents(up(up(high) + tilts.high), down(down(low) + tilts.low))

    def words(self, cost: str) -> str:
        """Which populations these are."""
        text = (
            f"these individuals, reweighted to the certificate's margins of {listed(self.grouped_by)}, each share up "
            f"to {written(self.tolerance)}, with a divergence (KL) of at most {written(self.residual)} left"
        )
        return f"{text}; no one moves{strangers_in_words(self.strangers)}"


def log_up(value: float) -> float:
    """At least the logarithm of a number above 0."""
    log = math.log(value)
    return float(up(log + EDGE * abs(log)))


def log_down(value: float) -> float:
    """At most the logarithm of a number above 0."""
    log = math.log(value)
    return float(down(log - EDGE * abs(log)))


def _exp_up(exponent: Array) -> Array:
    return np.asarray(np.exp(exponent) * (1 + EDGE) + TINY)


def _exp_down(exponent: Array) -> Array:
    return np.asarray(np.maximum(np.exp(exponent) * (1 - EDGE) - TINY, 0.0))


def _sums(table: Array, groups: Groups) -> _Exponents:
    """The sums (n,) of an individual's cells' entries, none for the cell beyond the last."""
    each = np.append(table, 0.0)[groups]
    value, size = each.sum(axis=1), np.abs(each).sum(axis=1)
    off = up(size * (2 * gamma(each.shape[1] + 4))) + TINY
    return _Exponents(up(value + off), down(value - off))


def _scaled(weights: Array) -> Array:
    """Weights over the largest of them."""
    return np.asarray(weights / weights.max())


def _within(people: Sample, high: Array, low: Array, limits: list[tuple[Fraction, Fraction]]) -> bool:
    """Whether the shares of cells, weights times numbers between ``low`` and ``high`` (n,), certainly keep to limits.

    A computed sum of ``n`` products, each of three roundings, is within ``γ_(n + 4)`` of the sum, but for ``n TINY``.
    """
    n, cells = people.groups.shape[0], len(limits)
    off, lost = 2 * gamma(n + 8), n * TINY
    weights = _scaled(people.weights)
    parts = [np.zeros(cells + 1), np.zeros(cells + 1)]
    for feature in range(people.groups.shape[1]):
        for part, side in zip(parts, (high, low), strict=True):
            part += np.bincount(people.groups[:, feature], weights * side, cells + 1)
    most, least = float((weights * high).sum()) * (1 + off) + lost, float((weights * low).sum()) * (1 - off) - lost
    if not 0 < least <= most < math.inf:
        return False
    largest = up(up(parts[0][:cells] * (1 + off) + lost) / least)
    smallest = down(down(parts[1][:cells] * (1 - off) - lost) / most)
    ends = np.array([[float(down(float(limit[1]))), float(up(float(limit[0])))] for limit in limits])
    fits_low = (smallest >= ends[:, 1]) | np.array([limit[0] <= 0 for limit in limits])
    fits_high = (largest <= ends[:, 0]) | np.array([limit[1] >= 1 for limit in limits])
    return bool(fits_low.all() and fits_high.all())


def _multipliers(given: tuple[float, ...], cells: int) -> tuple[float, tuple[float, ...]]:
    """``λ`` and ``θ`` (k,)."""
    need(len(given) == cells + 1, "margins have a multiplier of the divergence, and one of each cell")
    slope, *theta = (finite(each) for each in given)
    need(slope > 0, "a multiplier of a divergence must be above 0")
    return slope, tuple(theta)


def _ratio(total: int, weight: int) -> Fraction:
    need(weight > 0, "a population of no one")
    return Fraction(total, weight)


def _ratio_of(top: float, bottom: float) -> Fraction:
    return min(Fraction(top) / Fraction(bottom), STEEPEST) if bottom > 0 else STEEPEST


def marginals_of(section: Mapping[str, Any]) -> Marginals:
    """The shift that the section of a certificate means."""
    try:
        margins = tuple(
            Margin(
                each["feature"],
                None if each["edges"] is None else tuple(map(number, each["edges"])),
                tuple(map(number, each["shares"])),
                tuple(map(number, each["tilt"])),
            )
            for each in section["margins"]
        )
        strangers = number(section.get("strangers", 0.0))
        return Marginals(margins, number(section["residual"]), number(section["tolerance"]), strangers)
    except (ValueError, TypeError, OverflowError, KeyError):
        need(False, "the question is no question")
        raise
