"""Convex sets by their support functions.

The people similar to an individual, seen from that individual, are the moves

    V = { v : ‖o + R v‖_p ≤ ρ,  low ≤ v ≤ high,  each relaxed one-hot block stays in its simplex }.

The one thing that bounds need from a set is its support function ``h(w) = max over v in V of w·v``. Weak
duality gives it from above, for **any** vector ``s``,

    h(w) ≤ ρ‖s‖_q − s·o + h_box(w − Rᵀs),        1/p + 1/q = 1,

because ``w·v = s·(o + R v) − s·o + (w − Rᵀs)·v``. Directions that the metric leaves free are carried by the
box alone; coordinates at which the individual stands at the edge of the domain cost nothing in the box.
:meth:`ConvexSets.support` evaluates a few good choices of ``s`` and keeps the smallest value.

**Soundness.** Any ``s`` will do, so no choice of ``s`` has to be optimal or even sensible. The residual
``w − Rᵀs`` is formed in floating point; its error, times the extent of the box, is added, and so is the error
of every product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from isonomy_verify.arithmetic import TINY, dual_order, gamma
from isonomy_verify.regions import SIMPLEX_TOLERANCE

SMALL_ROOT = 16
"""With at most this many moving coordinates, splits are also chosen per individual (the work is their square)."""


@dataclass(frozen=True)
class ConvexSets:
    """A batch of sets of moves, one per row; parameters with one row are shared by all rows.

    ``root`` (r, m) and ``order`` give the seminorm, ``radius`` (rows,) and ``offset`` (rows, r) its ball; ``low``
    and ``high`` (rows, m) the box; ``blocks`` the coordinate ranges that besides move within a simplex whose present
    shares are ``base`` (rows, m), and for which the box must be finite. ``inverse`` (m, r) is any approximate inverse
    of the root. ``clipped`` says whether the box holds anything back that the ball would reach.
    """

    root: Tensor
    order: float
    radius: Tensor
    offset: Tensor
    low: Tensor
    high: Tensor
    blocks: tuple[tuple[int, int], ...]
    base: Tensor
    inverse: Tensor
    clipped: bool = True
    _memo: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_box(
        cls, low: Tensor, high: Tensor, base: Tensor | None = None, blocks: tuple[tuple[int, int], ...] = ()
    ) -> ConvexSets:
        """Boxes, with some blocks in their simplex; no seminorm."""
        width = low.shape[1]
        return cls(
            root=low.new_zeros(0, width),
            order=2.0,
            radius=low.new_zeros(1),
            offset=low.new_zeros(1, 0),
            low=low,
            high=high,
            blocks=blocks,
            base=low.new_zeros(1, width) if base is None else base,
            inverse=low.new_zeros(width, 0),
        )

    @classmethod
    def of_ball(cls, scale: Tensor, order: float, radius: float) -> ConvexSets:
        """One ball ``‖scale · v‖_order ≤ radius`` for everybody; ``scale`` (m,) is positive."""
        extent = (radius / scale * (1 + gamma(4)))[None] + TINY
        return cls(
            root=torch.diag(scale),
            order=order,
            radius=scale.new_full((1,), radius),
            offset=scale.new_zeros(1, len(scale)),
            low=-extent,
            high=extent,
            blocks=(),
            base=scale.new_zeros(1, len(scale)),
            inverse=torch.diag(1 / scale),
            clipped=False,
        )

    @property
    def rows(self) -> int:
        """How many sets the batch holds; 1 also stands for a set that all individuals share."""
        sizes = (self.radius, self.offset, self.low, self.high, self.base)
        return max(part.shape[0] for part in sizes)

    @property
    def extent(self) -> Tensor:
        """The largest possible ``|v|`` per coordinate, infinite where nothing bounds it."""
        return torch.maximum(self.low.abs(), self.high.abs())

    def support(self, weight: Tensor) -> Tensor:
        """Upper bounds (rows, k) of ``max over v of weight_k · v`` for a shared ``weight`` (k, m)."""
        known = self._memo.get(id(weight))
        if known is not None:
            return known[1]
        split = None
        for candidate in self._candidates(weight):
            split = candidate if split is None else torch.minimum(split, candidate)
        assert split is not None
        if self.rows == 1:
            self._memo[id(weight)] = (weight, split)  # the weight is kept so that its id stays its own
        return split

    @property
    def folds(self) -> bool:
        """Is this one ball for everybody, with which products can be folded beforehand?"""
        return self.rows == 1 and not self.clipped and not bool(self.offset.any())

    def _candidates(self, weight: Tensor) -> Iterator[Tensor]:
        nothing = weight.new_zeros(weight.shape[0], self.root.shape[0])
        yield self._bound(weight, nothing)
        if self.root.shape[0] == 0:
            return
        yield self._bound(weight, weight @ self.inverse)
        if self.clipped and max(self.root.shape[0], int((self.extent > 0).any(0).sum())) <= SMALL_ROOT:
            yield self._bound_per_row(weight)

    def _bound(self, weight: Tensor, split: Tensor) -> Tensor:
        """The dual value for one ``split`` (k, r) that all rows share."""
        terms = sum(self.root.shape) + 8
        residual = weight - split @ self.root
        doubt = (weight.abs() + split.abs() @ self.root.abs() + residual.abs()) * (2 * gamma(2 * terms)) + TINY
        ball = self._ball(norm_upper(split, dual_order(self.order)), split @ self.offset.T, split)
        total = ball + self._box(residual, doubt, (weight != 0) | (self.root != 0).any(0))
        return total + total.abs() * gamma(8)

    def _ball(self, norms: Tensor, along: Tensor, split: Tensor) -> Tensor:
        """``ρ‖s‖ − s·o`` from above, as (rows, k)."""
        if self.offset.shape[1] == 0:
            return norms.new_zeros(1, norms.shape[0])
        slack = split.abs() @ self.offset.abs().T * (2 * gamma(self.root.shape[0] + 8))
        return norms * self.radius[:, None] * (1 + gamma(8)) + (slack - along).T + TINY

    def _box(self, residual: Tensor, doubt: Tensor, touched: Tensor) -> Tensor:
        """``h_box(residual)`` for every vector within ``doubt`` of a shared residual (k, m), as (rows, k).

        Where ``touched`` is false the residual is exactly zero.
        """
        extent = self.extent
        infinite = torch.isinf(extent).any(0)
        inside = ~infinite & (extent > 0).any(0)  # what cannot move costs nothing
        for start, stop in self.blocks:
            inside[start:stop] = False
        high, low = self.high[:, inside], self.low[:, inside]
        turned = residual[:, inside]
        # Adding doubt × extent also pays for the rounding of the two products that follow.
        value = high @ turned.clamp(min=0).T + low @ turned.clamp(max=0).T
        value = value + torch.maximum(high.abs(), low.abs()) @ doubt[:, inside].T * (1 + gamma(turned.shape[1] + 8))
        for start, stop in self.blocks:
            value = value + self._block(residual[:, start:stop], doubt[:, start:stop], slice(start, stop))
        # A coordinate that nothing bounds may only meet a weight that is exactly zero (0 · ∞ = 0).
        unbounded = touched[:, infinite].any(1)
        value = value + value.abs() * gamma(len(self.blocks) + 8)
        return torch.where(unbounded, torch.inf, value)

    def _block(self, residual: Tensor, doubt: Tensor, where: slice) -> Tensor:
        """The smaller of what the simplex and what the box allow a block, as (rows, k)."""
        base, high, low = self.base[:, where], self.high[:, where], self.low[:, where]
        slack = (doubt.sum(1) + residual.abs().amax(1) * (gamma(residual.shape[1] + 8) + SIMPLEX_TOLERANCE)) * 2
        simplex = residual.amax(1) - base @ residual.T + slack
        box = high @ residual.clamp(min=0).T + low @ residual.clamp(max=0).T
        return torch.minimum(
            simplex, box + torch.maximum(high.abs(), low.abs()) @ doubt.T * (1 + gamma(residual.shape[1] + 8))
        )

    def _bound_per_row(self, weight: Tensor) -> Tensor:
        """Hand to the box, row by row, the coordinates where it reaches less far than the ball.

        The rest of ``w`` goes to the ball through the inverse. Rows that hand over the same coordinates share a split,
        and few coordinates make few kinds of rows: each kind is bounded at once, unless every row is its own kind.
        """
        moving = (self.extent > 0).any(0)
        inverse, high, low = self.inverse[moving], self.high[:, moving], self.low[:, moving]
        reach = torch.linalg.vector_norm(inverse, dual_order(self.order), dim=1) * self.radius[:, None]
        middle = -(self.offset @ inverse.T)
        to_box = torch.cat([high < middle + 0.5 * reach, low > middle - 0.5 * reach], dim=1)
        kinds, kind = torch.unique(to_box.long() @ (1 << torch.arange(to_box.shape[1])), return_inverse=True)
        if len(kinds) > max(2, len(kind) // 16):
            return self._split_per_row(weight, moving, *to_box.chunk(2, dim=1))
        total = weight.new_empty(len(kind), len(weight))
        for number in range(len(kinds)):
            rows = (kind == number).nonzero()[:, 0]
            upwards, downwards = to_box[rows[0]].chunk(2)
            boxed = torch.where(weight[:, moving] > 0, upwards, downwards)
            split = torch.where(boxed, 0.0, weight[:, moving]) @ inverse
            total[rows] = self._taken(rows)._bound(weight, split)
        return total

    def _taken(self, rows: Tensor) -> ConvexSets:
        parts = ("radius", "offset", "low", "high", "base")
        picked = {part: value[rows] for part in parts if len(value := getattr(self, part)) > 1}
        return replace(self, **picked, _memo={})

    def _split_per_row(self, weight: Tensor, moving: Tensor, to_box_up: Tensor, to_box_down: Tensor) -> Tensor:
        """Coordinates that cannot move at all drop out."""
        weight, root, inverse = weight[:, moving], self.root[:, moving], self.inverse[moving]
        high, low = self.high[:, moving], self.low[:, moving]
        boxed = torch.where(weight[None] > 0, to_box_up[:, None], to_box_down[:, None])
        split = torch.where(boxed, 0.0, weight[None]) @ inverse  # (rows, k, r)
        residual = weight - split @ root
        terms = sum(root.shape) + 8
        doubt = (weight.abs() + split.abs() @ root.abs() + residual.abs()) * (2 * gamma(2 * terms)) + TINY
        value = torch.maximum(residual * high[:, None], residual * low[:, None])
        value = value + doubt * torch.maximum(high.abs(), low.abs())[:, None]
        idle = (weight == 0) & (root == 0).all(0)  # exactly nothing, whatever the box
        value = torch.where(idle, 0.0, value)
        total = value.sum(2) + value.abs().sum(2) * gamma(terms)
        along = (split * self.offset[:, None]).sum(2)
        slack = (split.abs() * self.offset.abs()[:, None]).sum(2) * (2 * gamma(terms))
        norms = norm_upper(split, dual_order(self.order))
        total = total + norms * self.radius[:, None] * (1 + gamma(8)) - along + slack + TINY
        return torch.nan_to_num(total + total.abs() * gamma(8), nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)


def norm_upper(x: Tensor, order: float) -> Tensor:
    """Upper bounds of the norm along the last axis; the same reasoning as ``arithmetic.norm_upper``."""
    terms = x.shape[-1]
    if terms == 0:
        return x.new_zeros(x.shape[:-1])
    norm = torch.linalg.vector_norm(x, order, dim=-1)
    # Squares under- and overflow outside about 1e±150: there, the order-1 norm is an upper bound that does not.
    if order == 2 and not bool(((norm > 1e-140) & (norm < torch.inf)).all()):
        norm = torch.where((norm > 1e-140) & torch.isfinite(norm), norm, x.abs().sum(-1))
    upper: Tensor = norm * (1 + 2 * gamma(terms + 4))
    return upper
