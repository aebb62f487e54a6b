"""Compositions: the individuals are reweighted first, and then they move, whatever the order in which both were named.

``Q'`` is a population of the reweighting (:mod:`isonomy_verify.reweighting`), and from there people move within the
radius ``γ`` of the movement. Weak duality with ``Q'`` in the place of the individuals gives, for **any** multiplier
``λ ≥ 0`` and heights ``h(λ)`` of people as for the movement alone (:mod:`isonomy_verify.dual`),

    E_Q[I]  ≤  λ γ^p + E_Q'[h(λ)],

and the reweighting bounds ``E_Q'[h(λ)]``, with the heights in the place of own bounds, for **any** hints of its own.
With strangers this is ``τ G + (1 − τ) min(that, G)``. An index is that of the heights with the certificate's own
multiplier: it is a function of the person, and the population it is asked of is not yet moved.

From below: masses ``m`` on checked points. They are a population of the composition, with others who are not counted,
if the masses of the individuals are at most those of a population of the reweighting (``holds``), and
their cost keeps to the budget.

**Soundness.** Sums are exact, or rounded to the safe side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array, U, exact_sum, mean_up, products_down, rounded_down, rounded_up, up
from isonomy_verify.domain import Domain
from isonomy_verify.drift import Drift
from isonomy_verify.forms import Form
from isonomy_verify.reweighting import Composable, Groups, Hints, Sample, hidden
from isonomy_verify.transport import Transport


@dataclass(frozen=True)
class Composed:
    """The populations of a reweighting, ``first``, that ``then`` move."""

    first: Composable
    then: Transport | Drift
    moves: ClassVar[bool] = True

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The features that tell groups apart."""
        return self.first.grouped_by

    def groups(self, x: Array, places: Mapping[str, slice]) -> Groups | None:
        """Groups of individuals; None without groups."""
        return self.first.groups(x, places)

    @property
    def reweighting(self) -> Composable:
        """What comes first."""
        return self.first

    @property
    def movement(self) -> Transport | Drift:
        """What comes then."""
        return self.then

    def hidden(self, people: Sample, hints: Hints, largest: float) -> float:
        """How much the bound is too small at most where claims about everybody are: by all that they could hide."""
        lost = mean_up(np.maximum(0.0, up(largest - people.high)), people.weights)
        return hidden(self.first, people, hints, largest, lost)

    def costs(
        self, ground: Form | None, places: Mapping[str, slice], space: Domain, bounded: bool
    ) -> tuple[Composed, Form | None, Form | None]:
        """The shift in a domain, and the costs that bounds and that points keep to."""
        then, bounds, points = self.then.costs(ground, places, space, bounded)
        return replace(self, then=then), bounds, points

    def bound(self, multiplier: float | None, people: Sample, hints: Hints, largest: float) -> float:
        """No population has a mean above this: ``people.high`` are heights with the multiplier, and ``largest`` is a
        bound for any individual."""
        tau, most = Fraction(self.first.strangers), Fraction(largest)
        paid = self.then.bound(multiplier, 0.0)
        if not paid < float(up(largest)):
            return rounded_up(most)
        return rounded_up((1 - tau) * min(Fraction(paid) + self.first.upper(people, hints), most) + tau * most)

    def attained(
        self, people: Sample, hints: Hints, owner: NDArray[np.intp], mass: Array, cost: Array, value: Array
    ) -> float | None:
        """The mean of a population, at least, that has masses (k,) on points of individuals ``owner`` (k,), which count
        and cost so much and violate by at least ``value`` (k,); None where no population of the shift has them."""
        n, weight = len(people.weights), exact_sum(people.weights)
        held: Array = np.bincount(owner, mass, minlength=n).astype(np.float64)
        several = np.bincount(owner, minlength=n)
        held = np.where(several > 1, up(held * (1 + 4 * U * several)), held)
        total = exact_sum(mass)
        if not (mass >= 0).all() or total > weight or not self.first.holds(people, hints, held):
            return None
        if not self.then.keeps(mass, cost, weight):
            return None
        tau, reached = Fraction(self.first.strangers), Fraction(exact_sum(products_down(mass, value)), weight)
        top = Fraction(float(value.max(initial=0.0)))
        return max(0.0, rounded_down((1 - tau) * reached + tau * top))

    def words(self, cost: str) -> str:
        """Which populations these are."""
        first = self.first.words("").replace("; no one moves", "")
        own = "own bounds are those after the moves, less the multiplier times what these cost"
        return f"first {first}, where {own}; and then, in place of these individuals, {self.then.words(cost)}"
