"""The kinds of shift that a certificate can be about: what bounds their populations, and which population is one.

A shift is a set of populations around the individuals ``i`` with shares ``π_i = w_i / Σ w``. For every multiplier no
population of it has a mean violation above ``bound(multiplier, mean)``, ``mean`` that of the individuals' ``heights``.

* :class:`Transport`: within a Wasserstein radius of the individuals (:mod:`isonomy_verify.dual`).
* :class:`Part`: drawn from a part of the individuals that holds at least the share ``q`` of them. Such a
  population is ``Q = Σ π_i s_i δ_i`` with ``0 ≤ s_i ≤ 1/q`` and ``Σ π_i s_i = 1``, so for **any** ``t ≥ 0``

      E_Q[v] = t + Σ π_i s_i (v_i − t)  ≤  t + (1/q) Σ π_i max(v_i − t, 0),

  and the best ``t`` gives the mean of the worst share ``q`` of the violations (CVaR). From below: masses
  ``0 ≤ m_i ≤ w_i`` with ``Σ m_i ≤ q W``, ``W = Σ w_i``, can be completed to a part that holds ``q W``, whose mean
  violation is at least ``Σ m_i v_i / (q W)``, as no violation is negative.

**Soundness.** Everything holds for the floats given, in real arithmetic; each line rounds to its safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from isonomy_verify import dual
from isonomy_verify.arithmetic import Array, exact_sum, power_down, power_up, products_up, up
from isonomy_verify.text import need, number, written

MULTIPLIERS = 32
"""Of a statement about the population behind a sample: a fixed grid, in steps of the square root of 2."""


@dataclass(frozen=True)
class Transport:
    """The populations within ``gamma`` in the Wasserstein distance of an order."""

    order: float
    gamma: float
    moves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        dual.check(self.order, self.gamma, None if self.plain else 0.0)

    @property
    def plain(self) -> bool:
        """Whether no multiplier is needed."""
        return dual.plain(self.order, self.gamma)

    def heights(self, cells: dual.Cells, multiplier: float | None) -> Array:
        """The kernel's heights (n,)."""
        return dual.heights(cells, self.order, self.gamma, multiplier)

    def bound(self, multiplier: float | None, mean: float) -> float:
        """At least ``λ γ^p`` plus the mean of the heights."""
        return dual.together(dual.price(self.order, self.gamma, multiplier), mean)

    def hidden(self, mean: float) -> float:
        """By how much the bound is too small at most where the mean of the heights is too small by ``mean``."""
        return mean

    def keeps(self, mass: Array, cost: Array, weight: int) -> bool:
        """Whether masses (k,) moved at a ``cost`` (k,) stay within the radius, ``weight`` the sum of all weights."""
        if self.plain:
            return bool((cost <= self.gamma).all())
        if self.gamma == math.inf:
            return True
        spent = exact_sum(products_up(mass, power_up(cost, self.order)))
        return Fraction(spent, weight) <= Fraction(float(power_down(self.gamma, self.order)))

    def attained(self, mean: Fraction) -> Fraction:
        """The mean violation of a population whose masses times violations are ``mean`` times the sum of weights."""
        return mean

    def tries(self, largest: float, multiplier: float | None) -> int:
        """How many multipliers, fixed in advance, a statement about the population may have tried; 0 where this is
        none of them."""
        if self.plain or self.gamma == math.inf:
            return 1
        steepest = min(largest / max(float(power_down(self.gamma, self.order)), 1e-300), 1e300)
        step = 2 * math.log2(steepest / multiplier) if multiplier else -1.0
        return MULTIPLIERS if -1e-6 < step < MULTIPLIERS - 0.5 and abs(step - round(step)) < 1e-6 else 0

    def words(self, cost: str) -> str:
        """Which populations these are, where moving costs what ``cost`` says."""
        gamma, order = written(self.gamma), written(self.order)
        return f"within {gamma} in the Wasserstein distance of order {order}, where moving costs {cost}"


@dataclass(frozen=True)
class Part:
    """The populations that are parts of the individuals, each with at least the share ``at_least`` of them."""

    at_least: float
    moves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.at_least <= 1:
            raise ValueError(f"'at_least' must be a number above 0, at most 1. Got {self.at_least}.")

    @property
    def plain(self) -> bool:
        """Whether the part is all individuals, so that no multiplier is needed."""
        return self.at_least == 1

    def heights(self, cells: dual.Cells, multiplier: float | None) -> Array:
        """At least ``max(v_i − t, 0)`` (n,): ``up(fl(v − t)) > v − t``, and nothing is rounded for ``t = 0``."""
        own, level = dual.heights(cells, 1.0, 0.0, None), self._level(multiplier)  # as they are
        return np.where(own > level, up(own - level), 0.0) if level else own

    def bound(self, multiplier: float | None, mean: float) -> float:
        """At least ``t + mean / q``: each step is rounded up, and none where nothing is added."""
        above, level = self.hidden(mean), self._level(multiplier)
        return dual.together(level, above) if above else level

    def _level(self, multiplier: float | None) -> float:
        """``t``, 0 where none is needed; what is no number >= 0 is refused."""
        if not (self.plain if multiplier is None else 0 <= multiplier < math.inf):
            raise ValueError(f"'multiplier' must be a finite number >= 0. Got {multiplier}.")
        return multiplier or 0.0

    def hidden(self, mean: float) -> float:
        """At least ``mean / q``: ``up(fl(a / q)) >= a / q``, also where it underflows, infinite where it overflows."""
        if not mean >= 0:
            raise ValueError(f"A mean must be a number >= 0. Got {mean}.")
        with np.errstate(all="ignore"):
            return mean if self.plain or mean == 0 else float(up(np.float64(mean) / self.at_least))

    def keeps(self, mass: Array, cost: Array, weight: int) -> bool:
        """Whether masses (k,) are at most the share of all ``weight``, and none moves."""
        return bool((cost == 0).all()) and exact_sum(mass) <= Fraction(self.at_least) * weight

    def attained(self, mean: Fraction) -> Fraction:
        """``mean / q``: of a part that holds the share ``q``."""
        return mean / Fraction(self.at_least)

    def tries(self, largest: float, multiplier: float | None) -> int:
        """0: there is no statement about the population behind a sample."""
        return 0

    def words(self, cost: str) -> str:
        """Which populations these are."""
        if self.plain:
            return "these individuals, and no other population"
        return f"parts of these individuals that hold at least the share {written(self.at_least)} of them; no one moves"


Shift = Transport | Part


def shift_of(section: Mapping[str, Any]) -> Shift:
    """The shift that the section of a certificate means; its layout was checked (:mod:`isonomy_verify.layout`)."""
    if section["kind"] == "part":
        share = number(section["at_least"])
        need(0 < share <= 1, "the question is no question")
        return Part(share)
    gamma, order = number(section["gamma"]), number(section["order"])
    need(section["kind"] == "transport" and gamma >= 0 and order >= 1, "the question is no question")
    return Transport(order, gamma)
