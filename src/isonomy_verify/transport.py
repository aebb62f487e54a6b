"""Transport: the populations within a Wasserstein radius of the individuals.

For every multiplier none has a mean violation above ``bound(multiplier, mean)``, ``mean`` that of the individuals'
``heights`` (:mod:`isonomy_verify.dual`).

**Soundness.** Everything holds for the floats given, in real arithmetic; each line rounds to its safe side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from isonomy_verify import dual
from isonomy_verify.arithmetic import Array, exact_sum, power_down, power_up, products_up
from isonomy_verify.domain import Domain
from isonomy_verify.forms import Form
from isonomy_verify.text import written

MULTIPLIERS = 32
"""Of a statement about the population behind a sample: a fixed grid, in steps of the square root of 2."""


@dataclass(frozen=True)
class Transport:
    """The populations within ``gamma`` in the Wasserstein distance of an order."""

    order: float
    gamma: float
    moves: ClassVar[bool] = True
    reweighting: ClassVar[None] = None

    def __post_init__(self) -> None:
        dual.check(self.order, self.gamma, None if self.plain else 0.0)

    @property
    def movement(self) -> Transport:
        """The shift itself."""
        return self

    @property
    def radius(self) -> float:
        """Within which everybody may move."""
        return self.gamma

    @property
    def plain(self) -> bool:
        """Whether no multiplier is needed."""
        return dual.plain(self.order, self.gamma)

    def costs(
        self, ground: Form | None, places: Mapping[str, slice], space: Domain, bounded: bool
    ) -> tuple[Transport, Form | None, Form | None]:
        """The shift in a domain, and the costs that bounds and that points keep to: the ground cost of the record."""
        return self, ground, ground

    def check(self, multiplier: float | None) -> None:
        """Refuse what is no multiplier, and none where one is needed."""
        dual.check(self.order, self.gamma, multiplier)

    def heights(self, cells: dual.Cells, multiplier: float | None) -> Array:
        """The kernel's heights (n,)."""
        return dual.heights(cells, self.order, self.gamma, multiplier)

    def bound(self, multiplier: float | None, mean: float) -> float:
        """At least ``λ γ^p`` plus the mean of the heights."""
        return dual.together(dual.price(self.order, self.gamma, multiplier), mean)

    def keeps(self, mass: Array, cost: Array, weight: int) -> bool:
        """Whether masses (k,) moved at a ``cost`` (k,) stay within the radius, ``weight`` the sum of all weights."""
        if self.plain:
            return bool((cost <= self.gamma).all())
        if self.gamma == math.inf:
            return True
        spent = exact_sum(products_up(mass, power_up(cost, self.order)))
        return Fraction(spent, weight) <= Fraction(float(power_down(self.gamma, self.order)))

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
