"""Sums of sets: somebody similar to somebody near.

When the centre itself moves within a ball ``B`` (a shift of the population), the other person ranges over ``E ⊕ B``,
the similar set added to the ball, as far as the domain allows. Support functions add: for any split ``w = u + w₂``

    h(w) ≤ h_E(u) + h_B(u) + h_X(w₂).

**Soundness.** Any split will do. The similar set inside is the *unclipped* one: clipping it at the old centre first and
adding the ball afterwards would leave people out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from isonomy.arithmetic import UNIT, gamma
from isonomy.sets.convex import ConvexSets


class Shape(Protocol):
    """What bounds ask of a batch of sets."""

    @property
    def rows(self) -> int:
        """How many sets; 1 also stands for one that everybody shares."""
        ...

    @property
    def extent(self) -> Tensor:
        """The largest ``|v|`` per coordinate, (rows, m)."""
        ...

    @property
    def folds(self) -> bool:
        """Can products be folded with the shape beforehand?"""
        ...

    def support(self, weight: Tensor) -> Tensor:
        """Upper bounds (rows, k) of the support function at shared weights (k, m)."""
        ...

    def support_of(self, weight: Tensor, doubt: Tensor, owner: Tensor | slice, moving: Tensor) -> Tensor:
        """Upper bounds (p,) at one weight per row and set."""
        ...

    def fold(self, weight: Tensor, unit: float = UNIT) -> tuple[Tensor, Tensor]:
        """The folded weight, and what that leaves over per unit of the coefficients."""
        ...

    def folded_support(self, total: Tensor) -> Tensor:
        """Upper bounds at coefficients times a folded weight."""
        ...


@dataclass(frozen=True)
class SumOfSets:
    """``(similar ⊕ ball) ∩ domain``; ``domain=None`` is all of ``R^m``."""

    similar: ConvexSets
    ball: ConvexSets
    domain: ConvexSets | None = None

    @property
    def rows(self) -> int:
        """How many sets the batch holds; 1 also stands for one that all individuals share."""
        parts = (self.similar, self.ball) if self.domain is None else (self.similar, self.ball, self.domain)
        return max(part.rows for part in parts)

    @property
    def extent(self) -> Tensor:
        """The largest possible ``|v|`` per coordinate."""
        extent = (self.similar.extent + self.ball.extent) * (1 + gamma(4))
        return extent if self.domain is None else torch.minimum(extent, self.domain.extent)

    @property
    def folds(self) -> bool:
        """Both parts are one ball for everybody, and nothing clips their sum."""
        return self.domain is None and self.similar.folds and self.ball.folds

    def support(self, weight: Tensor) -> Tensor:
        """Upper bounds (rows, k) for a shared ``weight`` (k, m)."""
        total = self.similar.support(weight) + self.ball.support(weight)
        total = total + total.abs() * gamma(4)
        return total if self.domain is None else torch.minimum(total, self.domain.support(weight))

    def support_of(self, weight: Tensor, doubt: Tensor, owner: Tensor | slice, moving: Tensor) -> Tensor:
        """Upper bounds (p,) for one weight per row; see :meth:`ConvexSets.support_of`."""
        if not bool(moving.all()):
            # A coordinate that the domain pins may still move in the parts, one against the other.
            raise ValueError("a sum of sets needs the weights of all coordinates")
        total = self.similar.support_of(weight, doubt, owner, moving)
        total = total + self.ball.support_of(weight, doubt, owner, moving)
        total = total + total.abs() * gamma(4)
        if self.domain is None:
            return total
        return torch.minimum(total, self.domain.support_of(weight, doubt, owner, moving))

    @property
    def still(self) -> Shape:
        """The ball alone, in the same folded coordinates if there are any: somebody near, compared with nobody."""
        if not self.folds:
            return self.ball
        none, still = torch.zeros_like(self.similar.radius), torch.zeros_like(self.similar.low)
        return SumOfSets(replace(self.similar, radius=none, low=still, high=still, _memo={}), self.ball)

    def fold(self, weight: Tensor, unit: float = UNIT) -> tuple[Tensor, Tensor]:
        """Both folded weights side by side; what they leave over adds up."""
        (one, cost), (other, more) = self.similar.fold(weight, unit), self.ball.fold(weight, unit)
        return torch.cat([one, other], dim=1), (cost + more) * (1 + gamma(4))

    def folded_support(self, total: Tensor) -> Tensor:
        """The sum of both balls' support functions."""
        split = self.similar.root.shape[0]
        return (self.similar.folded_support(total[:, :split]) + self.ball.folded_support(total[:, split:])) * (
            1 + gamma(4)
        )
