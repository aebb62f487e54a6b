"""Shifts that reweight: no individual moves, but some count more than others; and strangers, a share of any people at
all.

The individuals ``i`` have shares ``π_i = w_i / Σ w``, violations at most ``u_i`` and at least ``l_i``. A population of
such a shift is ``Q = (1 − τ) Q' + τ R``, with ``R`` any population, whose mean is at most ``G``, and ``Q'`` one of

* :class:`Part`: density at most ``1/q`` against the individuals. For **any** ``t ≥ 0`` a mean is at most
  ``t + (1/q) Σ π_i max(u_i − t, 0)``; from below the mean of the largest ``l_i`` that hold the share ``q``.
* :class:`Mix`: groups of the individuals in other shares ``a_g``, ``low_g ≤ a_g ≤ high_g``, ``Σ a_g = 1``, each as it
  is. With means ``m_g`` of the groups and **any** ``η``, ``Σ a_g m_g = η + Σ a_g (m_g − η)`` is at most
  ``η + Σ max(high_g (m_g − η), low_g (m_g − η))``. Shares ``a`` within the limits with ``Σ a_g ≤ 1 ≤ Σ high_g`` can be
  completed, and no mean is negative, so that one reaches ``Σ a_g m_g`` at least.
* :class:`Stability`: **any** people whose own bounds, in bins that end at ``e_1 < … < e_B``, have shares ``q_b`` with
  ``Σ (q_b − p_b) ln(q_b / p_b) ≤ κ``, ``p_b > 0`` the shares of the individuals' own. With ``φ(w) = (w − 1) ln w``,
  which is convex with slope ``g(w) = ln w + 1 − 1/w``, ``φ(q/p) ≥ φ(w) + g(w) (q/p − w)`` for every ``w > 0``. So for
  **any** ``λ > 0``, ``η`` and ``w_b`` with ``e_b ≤ η + λ g(w_b)``

      Σ q_b e_b  ≤  η + λ Σ q_b g(w_b)  ≤  η + λ κ + λ Σ p_b (w_b − 1 + ln w_b).

  From below: shares ``q`` of that index, each on the individual of the bin with the largest ``l_i``.

The same bounds hold with 1 for ``u_i`` where a decision is not proved to stay and 1 for ``l_i`` where it was turned:
they are those of the share of decisions that can change. The index is that of the quantity that is bounded.

**The population behind the individuals**, where these are independent draws from it: the same bounds hold for the
populations made of *it*, each with probability ``1 − risk``, by what :mod:`isonomy_verify.sampling` proves of

* :class:`Part`: the mean of the worst part, by bets on all levels at once;
* :class:`Mix`: the mean of each group, the risk shared by the groups that are there. Given which individual is in
  which group, their values are independent draws from the groups;
* :class:`Stability`: the shares ``P(u > e_b)`` of the population above order statistics of fixed ranks, the ends of the
  bins, the last of which is ``G``. The bound above rises with ``e``, so that it is the largest where each share
  above an end is as large as it can be.

**Soundness.** Every bound holds for any hints (multipliers, populations, edges) and for the floats given: sums of
products are exact, other sums rational; logarithms and exponentials are charged ``ROUNDINGS`` roundings. Bounds rise
with ``u`` and ``l``. By how much a bound is too small at most where a mean of ``u`` is too small is :meth:`steepest`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import (
    ROUNDINGS,
    TINY,
    Array,
    U,
    down,
    exact_sum,
    mean_up,
    products_down,
    rounded_down,
    rounded_up,
    up,
)
from isonomy_verify.sampling import refuted, share_down, share_up, tails_up
from isonomy_verify.text import listed, need, number, written

Groups = NDArray[np.intp]
ROWS = 2**14
"""Individuals looked at together."""

BINS, GROUPS = 1000, 2**16
"""The most bins of an index, and the most groups of a mix."""

EDGE = 4 * ROUNDINGS * U
"""A relative charge above that of an elementary function and a few roundings."""


class Hints(NamedTuple):
    """Numbers that a search chose: multipliers of the upper bound, the population of the lower one, ends of bins."""

    multipliers: tuple[float, ...] = ()
    population: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()


class Sample(NamedTuple):
    """Individuals that count: bounds ``high`` and ``low`` (n,), positive weights (n,), and groups (n,) from 0 on;
    of known margins cells (n, f), one of each feature."""

    high: Array
    low: Array
    weights: Array
    groups: Groups


def sample_of(high: Array, low: Array, weights: Array, groups: Groups | None = None) -> Sample:
    """The individuals of positive weight; without groups all are in one, and empty groups have no number;
    cells keep theirs."""
    counts = np.asarray(weights) > 0
    some = slice(None) if counts.all() else counts  # of all people nothing is copied
    above, below, own = (np.asarray(each, dtype=np.float64)[some] for each in (high, low, weights))
    if groups is None:
        every = np.broadcast_to(np.intp(0), len(own))
    else:
        every = groups[some] if groups.ndim == 2 else numbered(groups[some])
    return Sample(above, below, own, every)


def numbered(values: Groups) -> Groups:
    """The places (n,) of whole numbers from 0 on among those that occur, in ascending order."""
    if values.max(initial=0) >= max(len(values), ROWS):  # too many to count
        return np.unique(values, return_inverse=True)[1]
    there = np.bincount(values) > 0
    return values if there.all() else (np.cumsum(there) - 1)[values]


class Reweighting(Protocol):
    """What the checker asks of such a shift: :class:`Part`, :class:`Mix`, :class:`Stability`, and
    :class:`isonomy_verify.marginals.Marginals`."""

    moves: ClassVar[bool] = False
    free_strangers: ClassVar[bool] = True  # whether strangers are anybody, also in the population that is shown

    @property
    def strangers(self) -> float:
        """The share of people, at most, who may be any people at all."""

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The features that tell groups apart: none, and all individuals are one group."""
        return ()

    def groups(self, x: Array, places: Mapping[str, slice]) -> Groups | None:
        """Groups of individuals, whose coordinates of features stand at these places; None without groups."""
        return None

    def upper(self, people: Sample, hints: Hints) -> Fraction:
        """At least the mean of every population."""

    def lower(self, people: Sample, hints: Hints) -> Fraction:
        """At most the mean of one."""

    def behind(self, people: Sample, hints: Sequence[float], most: float, risk: float, counts: bool) -> Fraction:
        """At least the mean of every such population of the one behind independent draws, but with this risk."""

    def reached_behind(self, people: Sample, risk: float) -> Fraction:
        """At most the mean of one of these, of values 0 and 1."""

    def steepest(self, people: Sample, hints: Hints, largest: float) -> Fraction:
        """By how much :meth:`upper` with these hints is too small at most, over a mean of ``high`` that is too small,
        none of them by more than ``largest``."""

    def words(self, cost: str) -> str:
        """Which populations these are."""


@dataclass(frozen=True)
class Part(Reweighting):
    """The parts of the individuals that hold at least the share ``at_least`` of them."""

    at_least: float
    strangers: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.at_least <= 1:
            raise ValueError(f"'at_least' must be a number above 0, at most 1. Got {self.at_least}.")
        check_strangers(self.strangers)

    def upper(self, people: Sample, hints: Hints) -> Fraction:
        """At least the mean of every part, by the level ``t``."""
        level = 0.0 if not hints.multipliers else hints.multipliers[0]
        need(0 <= level < math.inf, "a level of a part that is no number >= 0")
        above = np.where(people.high > level, up(people.high - level), 0.0) if level else people.high
        return Fraction(level) + Fraction(mean_up(above, people.weights)) / Fraction(self.at_least)

    def lower(self, people: Sample, hints: Hints) -> Fraction:
        """At most the mean of the part of everybody above a level, and as many at the level as the share leaves."""
        level = 0.0 if not hints.population else hints.population[0]
        need(0 <= level < math.inf, "a level of a part that is no number >= 0")
        share = Fraction(self.at_least) * exact_sum(people.weights)
        above, at = people.low > level, people.low == level
        left = share - exact_sum(people.weights[above])
        if left < 0:  # too many are above: their mean is above the level
            return Fraction(level)
        reached = exact_sum(products_down(people.weights[above], people.low[above]))
        return (reached + min(left, Fraction(exact_sum(people.weights[at]))) * Fraction(level)) / share

    def behind(self, people: Sample, hints: Sequence[float], most: float, risk: float, counts: bool) -> Fraction:
        """At least the mean of every such part of the population behind: a mean that bets refute."""
        if counts:
            return min(Fraction(1), Fraction(_share_up(people.high, risk)) / Fraction(self.at_least))
        (mean,) = hints or (most,)
        return _refuted_or(most, people.high, mean, risk, self.at_least)

    def reached_behind(self, people: Sample, risk: float) -> Fraction:
        """At most the largest share of a part of the population behind."""
        return min(Fraction(1), Fraction(_share_down(people.low, risk)) / Fraction(self.at_least))

    def holds(self, people: Sample, hints: Hints, masses: Array) -> bool:
        """Whether one of the parts, scaled to all individuals, has at least these masses (n,), which are no more than
        all together."""
        return bool((up(masses * self.at_least) <= people.weights).all())

    def steepest(self, people: Sample, hints: Hints, largest: float) -> Fraction:
        """``1 / q``."""
        return 1 / Fraction(self.at_least)

    def words(self, cost: str) -> str:
        """Which populations these are."""
        share = f"parts of these individuals that hold at least the share {written(self.at_least)} of them"
        text = "these individuals, and no other population" if self.at_least == 1 else f"{share}; no one moves"
        return text + strangers_in_words(self.strangers)


@dataclass(frozen=True)
class Mix(Reweighting):
    """The mixtures of groups of the individuals, as they are; ``limits`` has the least and largest share of each."""

    features: tuple[str, ...]
    limits: tuple[tuple[float, float], ...] | None = None
    strangers: float = 0.0

    def __post_init__(self) -> None:
        if not self.features or len(set(self.features)) < len(self.features):
            raise ValueError(f"'features' must be names of features, each once. Got {self.features}.")
        low, high = (sum(map(Fraction, side)) for side in zip(*(self.limits or ((0.0, 1.0),)), strict=True))
        if not all(0 <= one <= other <= 1 for one, other in self.limits or ()) or not low <= 1 <= high:
            raise ValueError("'limits' must be shares, the least first, that add up to at most 1 and at least 1.")
        check_strangers(self.strangers)

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The features that tell groups apart."""
        return self.features

    def groups(self, x: Array, places: Mapping[str, slice]) -> Groups:
        """Numbers (n,) of the groups of individuals."""
        return groups_of(x, places, self.features)

    def upper(self, people: Sample, hints: Hints) -> Fraction:
        """At least the mean of every mixture, by the level ``η``, or the largest mean of a group."""
        means, limits = self._means(people)
        return _mixed(max(means) if not hints.multipliers else Fraction(finite(hints.multipliers[0])), means, limits)

    def lower(self, people: Sample, hints: Hints) -> Fraction:
        """At most the mean of the mixture with these shares, completed where they are below 1 together."""
        total = Fraction(0)
        for group, share in enumerate(self._shares(people, hints)):
            if share:
                some = people.groups == group
                reached = exact_sum(products_down(people.weights[some], people.low[some]))
                total += share * Fraction(reached, exact_sum(people.weights[some]))
        return total

    def behind(self, people: Sample, hints: Sequence[float], most: float, risk: float, counts: bool) -> Fraction:
        """At least the mean of every such mixture of the population behind: by a level, and means that bets refute."""
        limits, groups = self._limits(people), self._each(people.high, people)
        level, *means = hints or (most,) * (len(limits) + 1)
        need(len(means) == len(limits), "means of other groups")
        risk /= len(limits)
        sure = [
            Fraction(_share_up(some, risk)) if counts else _refuted_or(most, some, mean, risk)
            for some, mean in zip(groups, means, strict=True)
        ]
        return _mixed(Fraction(finite(level)), sure, limits)

    def reached_behind(self, people: Sample, risk: float) -> Fraction:
        """At most the largest share of a group of the population behind; 0 where shares of groups have limits."""
        groups = [] if self.limits is not None else self._each(people.low, people)
        return Fraction(max((_share_down(some, risk / len(groups)) for some in groups), default=0.0))

    def _each(self, values: Array, people: Sample) -> list[Array]:
        return [values[people.groups == group] for group in range(int(people.groups.max()) + 1)]

    def holds(self, people: Sample, hints: Hints, masses: Array) -> bool:
        """Whether one of the mixtures has at least these masses (n,) in units of the weights: that of the hints."""
        total, most = exact_sum(people.weights), np.zeros(len(masses))
        for group, share in enumerate(self._shares(people, hints)):
            some = people.groups == group
            ratio = rounded_down(share * Fraction(total, exact_sum(people.weights[some])))
            most[some] = np.maximum(0.0, down(people.weights[some] * ratio))
        return bool((masses <= most).all())

    def _shares(self, people: Sample, hints: Hints) -> list[Fraction]:
        """The shares of the groups that the hints name, which the mixtures can have."""
        limits = self._limits(people)
        need(len(hints.population) == len(limits), "a mix of other groups")
        shares = [Fraction(finite(share)) for share in hints.population]
        within = all(low <= share <= high for share, (low, high) in zip(shares, limits, strict=True))
        need(within and sum(shares) <= 1, "a mix with shares that it cannot have")
        return shares

    def steepest(self, people: Sample, hints: Hints, largest: float) -> Fraction:
        """The largest share that a group can have over the one that it has."""
        total = exact_sum(people.weights)
        parts = (exact_sum(people.weights[people.groups == group]) for group in range(int(people.groups.max()) + 1))
        return max(high * Fraction(total, part) for part, (_, high) in zip(parts, self._limits(people), strict=True))

    def _limits(self, people: Sample) -> list[tuple[Fraction, Fraction]]:
        count = int(people.groups.max()) + 1
        need(count <= GROUPS, "a mix of too many groups")
        given = ((0.0, 1.0),) * count if self.limits is None else self.limits
        need(len(given) == count, f"limits of {len(given)} groups, where there are {count}")
        return [(Fraction(low), Fraction(high)) for low, high in given]

    def _means(self, people: Sample) -> tuple[list[Fraction], list[tuple[Fraction, Fraction]]]:
        """Upper bounds of the groups' means, and their limits."""
        limits = self._limits(people)
        each = (people.groups == group for group in range(len(limits)))
        return [Fraction(mean_up(people.high[some], people.weights[some])) for some in each], limits

    def words(self, cost: str) -> str:
        """Which populations these are."""
        shares = "in any shares" if self.limits is None else "in shares within limits"
        text = f"mixtures {shares} of the groups of these individuals by {listed(self.features)}, each as it is"
        return f"{text}; no one moves{strangers_in_words(self.strangers)}"


@dataclass(frozen=True)
class Stability(Reweighting):
    """The populations whose index against the individuals, in at most ``bins`` bins, is at most ``kappa``."""

    kappa: float
    bins: int = 20
    strangers: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.kappa < math.inf:
            raise ValueError(f"'kappa' must be a finite number >= 0. Got {self.kappa}.")
        if not 1 <= self.bins <= BINS:
            raise ValueError(f"'bins' must be a whole number from 1 to {BINS}. Got {self.bins}.")
        check_strangers(self.strangers)

    def upper(self, people: Sample, hints: Hints) -> Fraction:
        """At least the mean of every population of the index, by ``λ`` and ``η``; the mean in bins for an index of 0.

        It is at most the last end in any case.
        """
        edges, shares, _ = self._binned(people, hints)
        return self._dual([Fraction(edge) for edge in edges], shares, hints.multipliers)

    def _dual(self, ends: list[Fraction], shares: list[Fraction], multipliers: Sequence[float]) -> Fraction:
        if self.kappa == 0:
            return sum((share * end for share, end in zip(shares, ends, strict=True)), Fraction(0))
        if not multipliers:
            return ends[-1]
        need(len(multipliers) == 2, "an index has two multipliers")
        slope, level = (Fraction(finite(each)) for each in multipliers)
        need(slope > 0, "a multiplier of an index must be above 0")
        total = level + slope * Fraction(self.kappa)
        for share, end in zip(shares, ends, strict=True):
            top = conjugate_up(rounded_up((end - level) / slope))
            if top == math.inf:
                return ends[-1]
            total += share * slope * Fraction(top)
        return min(total, ends[-1])

    def behind(self, people: Sample, hints: Sequence[float], most: float, risk: float, counts: bool) -> Fraction:
        """At least the mean of every population of the index against the one behind, in these individuals' bins."""
        return self._dual(*self.bins_behind(people, most, risk, counts), hints)

    def bins_behind(
        self, people: Sample, most: float, risk: float, counts: bool
    ) -> tuple[list[Fraction], list[Fraction]]:
        """Ends of bins at order statistics of fixed ranks, the last one ``most``, or 0 and 1; and shares of them of the
        population behind where it has as many as can be above every end."""
        n, tails = len(people.high), dict[float, float]()
        if counts:
            tails[0.0] = _share_up(people.high, risk)
        else:
            ranks = sorted({-(-n * each // self.bins) for each in range(1, self.bins + 1)})
            ends = np.sort(people.high)[np.array(ranks) - 1].tolist()
            tails = dict(zip(ends, tails_up(n, ranks, risk), strict=True))  # of ties the last, which is the least
        below = [edge for edge in tails if edge < most]
        steps = [Fraction(1), *(Fraction(tails[edge]) for edge in below), Fraction(0)]
        return [Fraction(edge) for edge in (*below, most)], [one - other for one, other in pairwise(steps)]

    def reached_behind(self, people: Sample, risk: float) -> Fraction:
        """At most the share in the population behind, which is one of them."""
        return Fraction(_share_down(people.low, risk))

    def lower(self, people: Sample, hints: Hints) -> Fraction:
        """At most the mean of the population with these shares of the bins, whose index is checked."""
        given, place = self._population(people, hints)
        best = np.zeros(len(given))
        np.maximum.at(best, place, people.low)
        return sum((share * Fraction(top) for share, top in zip(given, best.tolist(), strict=True)), Fraction(0))

    def holds(self, people: Sample, hints: Hints, masses: Array) -> bool:
        """Whether a population of the index has at least these masses (n,) in units of the weights: that of the
        hints."""
        given, place = self._population(people, hints)
        total = exact_sum(people.weights)
        each = (Fraction(exact_sum(masses[place == b]), total) for b in range(len(given)))
        return all(mass <= share for mass, share in zip(each, given, strict=True))

    def _population(self, people: Sample, hints: Hints) -> tuple[list[Fraction], Groups]:
        """Shares of the bins that the hints name, whose index is checked, and the bin of each individual (n,)."""
        edges, shares, place = self._binned(people, hints)
        given = [Fraction(finite(share)) for share in hints.population] or shares
        need(len(given) == len(edges) and all(share > 0 for share in given), "shares of other bins")
        total = sum(given)
        given = [share / total for share in given]
        need(index_up(given, shares) <= Fraction(self.kappa), "a population whose index is too large")
        return given, place

    def steepest(self, people: Sample, hints: Hints, largest: float) -> Fraction:
        """0: the bound is about any people whose own bounds keep to the index."""
        return Fraction(0)

    def _binned(self, people: Sample, hints: Hints) -> tuple[list[float], list[Fraction], Groups]:
        """Ends of the bins, the individuals' shares of them, and the bin of each (n,)."""
        edges = np.array(hints.edges or (float(people.high.max()),))
        need(len(edges) <= self.bins and np.isfinite(edges).all() and (edges >= 0).all(), "the ends of bins")
        need((np.diff(edges) > 0).all() and float(people.high.max()) <= edges[-1], "the ends of bins")
        place = np.searchsorted(edges, people.high)  # the first end that is not below
        total = exact_sum(people.weights)
        shares = [Fraction(exact_sum(people.weights[place == b]), total) for b in range(len(edges))]
        need(all(share > 0 for share in shares), "a bin without anybody")
        return edges.tolist(), shares, place

    def words(self, cost: str) -> str:
        """Which populations these are."""
        what = "any people whose own bounds, in the certificate's bins, have a stability index"
        return f"{what} of at most {written(self.kappa)} against these individuals'{strangers_in_words(self.strangers)}"


Composable = Part | Mix | Stability
"""Those after which individuals may move."""


def conjugate_up(s: float) -> float:
    """At least ``φ*(s) = w − 1 + ln w`` where ``ln w + 1 − 1/w = s``; with ``x = ln w`` where ``x − expm1(−x) = s``.

    Newton's steps say where; the float ``x`` counts once ``x − expm1(−x) ≥ s`` is certain, as ``φ*`` rises with ``x``,
    and so with ``s``, of which some are below all whose exponentials are floats.
    """
    if s > 600:
        return math.inf
    s = max(s, -1e300)
    x = s - 1 if s > 1 else s / 2 if s > -2 else -math.log(1 - s)
    for _ in range(60):
        x -= (x - math.expm1(-x) - s) / (1 + math.exp(-x))
    step = EDGE * (1 + abs(x))
    for _ in range(60):
        least = math.expm1(-x)
        if float(down(down(x - (least + EDGE * abs(least))))) >= s:
            top = math.expm1(x)
            return float(up(up(top + EDGE * abs(top)) + x)) + TINY
        x, step = x + step, 2 * step
    return math.inf


def index_up(shares: list[Fraction], base: list[Fraction]) -> Fraction:
    """At least ``Σ (q − p) ln(q / p)`` of positive shares; no term is negative.

    ``ln r ≤ fl(ln fl(r)) (1 + EDGE) + 4U`` for ``r ≥ 1``, as the quotient is rounded once; one below 1 might be so
    small that floats there have few digits. One that is beyond all floats is an error.
    """
    total = Fraction(0)
    for q, p in zip(shares, base, strict=True):
        size = math.log(float(max(q / p, p / q)))
        total += abs(q - p) * Fraction(float(up(size * (1 + EDGE) + 4 * U)))
    return total


def bounds(shift: Reweighting, people: Sample, hints: Hints, largest: float) -> tuple[float, float]:
    """No population of the shift has a mean above the first number, and one has at least the second; ``largest`` is a
    bound for any individual."""
    tau, most = Fraction(shift.strangers), Fraction(largest)
    bound, reached = shift.upper(people, hints), shift.lower(people, hints)
    top = Fraction(float(people.low.max())) if shift.free_strangers else reached
    upper = (1 - tau) * min(bound, most) + tau * most
    return rounded_up(upper), max(0.0, rounded_down((1 - tau) * reached + tau * top))


def hidden(shift: Reweighting, people: Sample, hints: Hints, largest: float, mean: float) -> float:
    """By how much the bound is too small at most where the mean of ``high`` is too small by ``mean``."""
    return rounded_up((1 - Fraction(shift.strangers)) * shift.steepest(people, hints, largest) * Fraction(mean))


def _mixed(level: Fraction, means: list[Fraction], limits: list[tuple[Fraction, Fraction]]) -> Fraction:
    """At least the mean of every mixture of groups with these means."""
    gains = [mean - level for mean in means]
    return level + sum(max(high * gain, low * gain) for gain, (low, high) in zip(gains, limits, strict=True))


def _refuted_or(most: float, values: Array, mean: float, risk: float, share: float = 1.0) -> Fraction:
    """A mean that bets refute, else the most."""
    need(finite(mean) >= 0, "a mean below 0")
    return Fraction(mean if mean < most and refuted(values, most, mean, risk, share) else most)


def _share_up(values: Array, risk: float) -> float:
    return share_up(int((values > 0).sum()), len(values), risk)


def _share_down(values: Array, risk: float) -> float:
    return share_down(int((values > 0).sum()), len(values), risk)


def groups_of(x: Array, places: Mapping[str, slice], features: tuple[str, ...]) -> Groups:
    """Numbers (n,) of the groups of individuals who have the same coordinates in all of these features."""
    for name in features:
        need(name in places, f"a mix by a feature that the schema lacks, {listed([name])}")
    columns = np.concatenate([np.arange(places[name].start, places[name].stop) for name in features])
    x, groups, known = np.asarray(x), np.zeros(len(x), dtype=np.intp), np.zeros((0, len(columns)))
    blocks = [slice(start, start + ROWS) for start in range(0, len(x), ROWS)]
    for block in blocks:  # the different rows of each block, so that everybody is never copied
        own, place = np.unique(x[block, columns] + 0.0, axis=0, return_inverse=True)  # 0 and -0 are one group
        groups[block], known = len(known) + place.reshape(-1), np.concatenate([known, own])
    renumbered = np.unique(known, axis=0, return_inverse=True)[1].reshape(-1)
    for block in blocks:
        groups[block] = renumbered[groups[block]]
    return groups


def reweighting_of(section: Mapping[str, Any]) -> Part | Stability | Mix | None:
    """The shift that the section of a certificate means; None where it is of another kind."""
    kind, strangers = section["kind"], number(section.get("strangers", 0.0))
    try:
        if kind == "part":
            return Part(number(section["at_least"]), strangers)
        if kind == "stability":
            need(type(section["bins"]) is int, "the bins of an index")
            return Stability(number(section["kappa"]), section["bins"], strangers)
        if kind == "mix":
            limits = section["limits"]
            ends = None if limits is None else tuple((number(low), number(high)) for low, high in limits)
            return Mix(tuple(section["features"]), ends, strangers)
    except (ValueError, TypeError, OverflowError):
        need(False, "the question is no question")
    return None


def check_strangers(share: float) -> None:
    """Refuse what is no share of strangers."""
    if not 0 <= share < 1:
        raise ValueError(f"'strangers' must be a number from 0 to below 1. Got {share}.")


def strangers_in_words(share: float) -> str:
    """What is said of strangers, after a semicolon; "" without them."""
    return f"; a share of at most {written(share)} may be anybody at all" if share else ""


def finite(value: float) -> float:
    """A hint, which must be a number."""
    need(math.isfinite(value), "a hint that is no number")
    return value
