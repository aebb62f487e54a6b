"""Sets whose ball is steered: the split between ball and box is a variable of the search.

The support function of ``{ ‖o + R v‖_p ≤ ρ } ∩ box`` is at most ``ρ‖s‖_q − s·o + h_box(w − Rᵀs)`` for any ``s``. The
tiers try a few splits ``s``. The search writes ``s = K(w·keep) + t`` with the root's inverse ``K``, chooses which
coordinates to ``keep`` for the ball, and moves ``t`` along the gradient together with slopes and multipliers; that
matters once parts of a region have boxes that cut the ball. In order 1 the best split cuts all prices ``K w`` off at
one of them, so it is looked up instead.

**Soundness.** As in :mod:`isonomy.sets.convex`: any ``s`` will do, and what is rounded is added.
"""

from __future__ import annotations

import torch
from torch import Tensor

from isonomy.arithmetic import SIMPLEX_TOLERANCE, TINY, UNIT, dual_order, gamma
from isonomy.bounds.backward import Owner
from isonomy.sets import ConvexSets, norm_upper

CUTS = 32
"""With more coordinates than this, order-1 splits are left to the sets."""


class Steered:
    """A batch of sets as bounds see it.

    ``folds`` says that the box adds nothing to one ball that everybody shares. ``last`` are the coefficients of the
    linear function that was bounded last: where it is largest is a good place to look for people.
    """

    def __init__(self, sets: ConvexSets, folds: bool) -> None:
        self.sets, self.folds = sets, folds and sets.folds
        self.keep: Tensor | None = None
        self.turn: Tensor | None = None
        self.levels: Tensor | None = None  # (rows, blocks), taken off the coefficients of each block
        self.last: Tensor | None = None

    @property
    def rows(self) -> int:
        """How many sets the batch holds."""
        return self.sets.rows

    @property
    def extent(self) -> Tensor:
        """The largest possible ``|v|`` per coordinate."""
        return self.sets.extent

    @property
    def steers(self) -> bool:
        """Is there a split to choose?"""
        finite = bool(torch.isfinite(self.sets.extent).all())
        return not self.folds and len(self.sets.root) > 0 and self.sets.order == 2 and finite

    def support(self, weight: Tensor) -> Tensor:
        """See :meth:`ConvexSets.support`."""
        return self.sets.support(weight)

    def fold(self, weight: Tensor, unit: float = UNIT) -> tuple[Tensor, Tensor]:
        """See :meth:`ConvexSets.fold`."""
        return self.sets.fold(weight, unit)

    def folded_support(self, total: Tensor) -> Tensor:
        """See :meth:`ConvexSets.folded_support`."""
        self.last = total.detach()
        return self.sets.folded_support(total)

    def support_of(self, weight: Tensor, doubt: Tensor, owner: Owner, moving: Tensor) -> Tensor:
        """The steered bound, or without a choice what the sets find by themselves."""
        self.last, sets = weight.detach(), self.sets
        if self.keep is not None:
            split = (weight * self.keep[owner]) @ sets.inverse
            return self._dual(weight, doubt, owner, split if self.turn is None else split + self.turn[owner])
        finite = bool(torch.isfinite(sets.extent).all())
        if sets.order == 1 and 0 < len(sets.root) <= CUTS and finite:
            return self._cut(weight, doubt, owner)
        if not sets.blocks:  # what cannot move need not be looked at
            moving = (sets.extent > 0).any(0)
            return sets.support_of(weight[:, moving], doubt[:, moving], owner, moving)
        return sets.support_of(weight, doubt, owner, moving)

    def choose(self, weight: Tensor) -> None:
        """Which coordinates to hand to the ball: all, none, or those where it reaches less far than the box."""
        sets, owner = self.sets, slice(None)
        reach = torch.linalg.vector_norm(sets.inverse, 2, dim=1) * sets.radius[:, None]
        middle = -(sets.offset @ sets.inverse.T)
        boxed = torch.where(weight > 0, sets.high < middle + 0.5 * reach, sets.low > middle - 0.5 * reach)
        one = torch.ones_like(weight)
        choices = torch.stack([one, torch.zeros_like(weight), torch.where(boxed, 0.0, 1.0)])
        doubt = torch.zeros_like(weight)
        values = torch.stack([self._dual(weight, doubt, owner, (weight * keep) @ sets.inverse) for keep in choices])
        self.keep = choices[values.argmin(0), torch.arange(len(weight))]

    def _cut(self, weight: Tensor, doubt: Tensor, owner: Owner) -> Tensor:
        """Order 1: the best of all cuts is found without, and then taken with gradients."""
        sets = self.sets
        prices = weight @ sets.inverse
        with torch.no_grad():
            cuts = torch.cat([torch.zeros_like(prices[:, :1]), prices.abs()], 1)
            rows, count = cuts.shape
            split = prices[:, None].clamp(-cuts[:, :, None], cuts[:, :, None]).reshape(rows * count, -1)
            whose = torch.arange(sets.rows)[owner] if isinstance(owner, slice) and sets.rows > 1 else owner
            whose = whose if isinstance(whose, Tensor) else torch.zeros(rows, dtype=torch.long)
            many, doubts, whose = (part.repeat_interleave(count, 0) for part in (weight, doubt, whose))
            best = self._dual(many, doubts, whose, split).reshape(rows, count).argmin(1)
        cut = torch.cat([torch.zeros_like(prices[:, :1]), prices.abs()], 1).gather(1, best[:, None])
        return self._dual(weight, doubt, owner, torch.minimum(torch.maximum(prices, -cut), cut))

    def _dual(self, weight: Tensor, doubt: Tensor, owner: Owner, split: Tensor) -> Tensor:
        sets = self.sets
        at = [part if len(part) == 1 else part[owner] for part in (sets.radius, sets.offset, sets.low, sets.high)]
        radius, offset, low, high = at
        terms = sum(sets.root.shape) + 8
        norms = norm_upper(split, 2)
        residual = weight - split @ sets.root
        if self.levels is not None:
            residual = residual - self._level(owner)
        columns = norm_upper(sets.root.T, 2)
        size = weight.abs() if self.levels is None else weight.abs() + self._level(owner).abs()
        error = doubt + (size + norms[:, None] * columns + residual.abs()) * (2 * gamma(2 * terms))
        value = torch.maximum(residual * high, residual * low)
        cost = error * torch.maximum(low.abs(), high.abs())
        total = value.sum(1) if not sets.blocks else sets.with_simplices(residual, error, value, owner)
        total = total + cost.sum(1) * (1 + gamma(terms))
        if sets.order != 2:
            norms = norm_upper(split, dual_order(sets.order))
        slack = norms * norm_upper(offset, sets.order) * (2 * gamma(terms))
        if self.levels is not None:  # blocks add up to nothing, nearly
            slack = slack + self._level(owner).abs().sum(1) * (4 * SIMPLEX_TOLERANCE)
        total = total + norms * radius * (1 + gamma(8)) - (split * offset).sum(1) + slack + TINY
        return total + total.abs() * gamma(8)

    def _level(self, owner: Owner) -> Tensor:
        """The levels of all coordinates: ``Σ v = 0`` over a block, so a constant may be taken off its coefficients."""
        assert self.levels is not None
        whole = torch.zeros(len(self.levels), self.sets.low.shape[1], dtype=torch.float64)
        for line, (start, stop) in enumerate(self.sets.blocks):
            whole[:, start:stop] = self.levels[:, line : line + 1]
        return whole[owner]
