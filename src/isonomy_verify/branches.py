"""Which changes of categories are within reach, and what they leave for the numbers.

A branch changes the categories of an individual by ``f`` (−1 at the old category, +1 at the new one, block by
block). It is within reach when some move ``u`` of the numbers makes ``‖R (f + u)‖_p ≤ δ``.

* order 2: the singular vectors of the numeric columns rotate the rows so that the numbers meet the first ones only;
  the others are the *price* ``‖P f‖`` of the change. An orthogonal factorisation makes ``P`` upper triangular in the
  order of the blocks, so that the price is a sum over blocks in which each partial sum is a lower bound: blocks are
  decided one after the other, and a choice whose partial sum exceeds δ² is given up with everything below it.
* order 1: the seminorm is a sum over coordinates; prices add up.
* no seminorm: nothing has a price; only the metric's box decides.

**Soundness.** The tree is cut with a margin well above the backward error of the factorisation; the final test and
what remains of the radius (:meth:`Branches.remaining_radius`) bound every rounding error, including that the computed
rotation is not exactly orthogonal. Prices are squared in units of their largest entry, so that no square of a large
root overflows and none of a small δ is lost; where errors are beyond all numbers nothing is ``priced``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy_verify.arithmetic import LARGEST, TINY, Array, U, gamma, norm_up, product_up
from isonomy_verify.domain import Domain, Mask
from isonomy_verify.regions import Index

Block = tuple[int, int]


class MetricError(ValueError):
    """A metric does not say who is similar in the chosen domain, or not within any bounds."""


@dataclass(frozen=True, eq=False)
class Branches:
    """A seminorm split into numbers and categories, the same for all individuals."""

    order: float
    delta: float
    numeric: Mask  # coordinates that move continuously
    blocks: tuple[Block, ...]  # blocks that may change, in the order of the triangle
    free: tuple[bool, ...]  # which of them have no price
    root: Array  # (rank, m): the numbers' own part of the seminorm
    inverse: Array  # (m, rank)
    along: Array  # (rank, m): how a change of categories shifts the numbers' ball
    price: Array  # (rows, m): price of a change, order 2: norm of price @ f; order 1: price @ |f|
    triangle: Array  # (rows, m): the same norm, for the tree
    stretch: float  # at least the norm of the rotation
    price_error: float
    radius_error: float
    furthest: Array  # (numbers,): the widest possible move

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, root: Array, order: float, delta: float, domain: Domain) -> Branches:
        """Split a seminorm for a domain whose ranges are finite.

        **Soundness.** With any matrix ``Q`` near a rotation ``‖Qᵀ R v‖ ≤ ‖Q‖ ‖R v‖``, and ``‖Q‖ ≤ 1 + ‖QᵀQ − I‖_F``
        is ``stretch``. What the rounding of ``Qᵀ R`` and the numbers' spill into rows that are only to price categories
        can change, over the widest possible moves, is ``price_error`` and ``radius_error``.
        """
        if len(root) and (order == np.inf or (order == 1 and (np.count_nonzero(root, axis=1) > 1).any())):
            raise MetricError("In the realizable domain a metric of order 1 or ∞ must weigh coordinates one by one.")
        numeric = domain.numeric & ~domain.immutable
        width, furthest = root.shape[1], (domain.high - domain.low)[numeric] * (1 + 2 * U)
        movable = [block for block in domain.blocks if not domain.immutable[slice(*block)].all()]
        # Blocks without a price cut nothing: they come last in the tree, that is first here.
        blocks = tuple(sorted(movable, key=lambda block: bool(root[:, block[0] : block[1]].any())))
        free = tuple(not root[:, start:stop].any() for start, stop in blocks)
        paid = [np.arange(*block) for block, nothing in zip(blocks, free, strict=True) if not nothing]
        columns = np.concatenate([*paid, np.zeros(0, dtype=np.int64)])
        empty = np.zeros((0, width))
        shared: dict[str, Any] = {"delta": delta, "order": order, "numeric": numeric, "blocks": blocks}
        shared["furthest"] = furthest
        if order == 1 or not len(root):
            diagonal = np.abs(root).sum(axis=0)[None, :] if len(root) else empty
            keep = root[:, numeric].any(axis=1)
            own = np.where(numeric, root, 0.0)[keep]
            return cls(
                **shared, free=free, root=own, inverse=pseudo_inverse(own), along=np.zeros_like(own), price=diagonal,
                triangle=empty, stretch=1.0, price_error=0.0, radius_error=0.0,
            )  # fmt: skip
        left, values, _ = np.linalg.svd(root[:, numeric], full_matrices=True)
        rank = int((values > values.max(initial=0.0) * 1e-10).sum())
        rotated = left.T @ root
        doubt = gamma(len(root) + 4) * product_up(np.abs(left.T), np.abs(root)) + TINY
        gram = np.abs(left.T @ left - np.eye(len(left)))
        gram = gram + gamma(len(left) + 4) * (product_up(np.abs(left.T), np.abs(left)) + 1) + TINY
        own, inverse = np.zeros((rank, width)), np.zeros((width, rank))
        own[:, numeric] = rotated[:rank, numeric]
        inverse[numeric] = pseudo_inverse(own[:, numeric])
        categories = np.zeros(width, dtype=bool)
        categories[columns] = True
        # A change of categories meets rotated columns that are off by `doubt`, and its own product rounds.
        loss = doubt[:, categories].sum(axis=1) + gamma(width + 8) * np.abs(rotated[:, categories]).sum(axis=1)
        change = norm_up(loss, 2) * (1 + gamma(width))
        spill = (np.abs(rotated[rank:, numeric]) + doubt[rank:, numeric]) @ furthest
        drift = doubt[:rank, numeric] @ furthest
        triangle = np.zeros((min(len(root) - rank, len(columns)), width))
        if triangle.size:
            triangle[:, columns] = np.linalg.qr(rotated[rank:, columns], mode="r")
        return cls(
            **shared,
            free=free,
            root=own,
            inverse=inverse,
            along=np.where(categories, rotated[:rank], 0.0),
            price=np.where(categories, rotated[rank:], 0.0),
            triangle=triangle,
            stretch=1.0 + float(norm_up(gram.ravel(), 2)),
            price_error=float(change + norm_up(spill, 2) * (1 + gamma(width))) * (1 + 8 * U),
            radius_error=float(change + norm_up(drift, 2) * (1 + gamma(width))) * (1 + 8 * U),
        )

    @property
    def priced(self) -> bool:
        """Is anything known of prices? Not where weights times ranges overflow: then no branch can be left out."""
        errors = np.array([self.stretch, self.price_error, self.radius_error])
        return all(bool(np.isfinite(part).all()) for part in (errors, self.along, self.price, self.triangle))

    @property
    def exponent(self) -> int:
        """That of the power of two above every price, by which squares are scaled."""
        return int(np.frexp(np.abs(self.price).max(initial=0.0))[1])

    @np.errstate(all="ignore")
    def remaining_radius(self, change: Array) -> tuple[Array, Array]:
        """Radius (−1 when out of reach) and offset of the numbers' ball after a change of categories (rows, m).

        **Soundness.** ``‖T u + o‖² ≤ (stretch δ)² − paid²`` with ``paid`` from below (order 1: ``δ − paid``); the
        difference of squares is formed as a product, and each step is raised by its roundings.
        """
        offset = change @ self.along.T
        if not len(self.price) and not len(self.root):
            return np.full(len(change), self.delta), offset
        if self.order == 1:
            paid = np.minimum(np.abs(change) @ self.price[0], LARGEST) * (1 - gamma(change.shape[1] + 4))
            left = (self.delta - paid) * (1 + 2 * U) + 4 * U * self.delta
            return np.where(left >= 0, left, -1.0), offset
        size = np.linalg.norm(change @ np.ldexp(self.price, -self.exponent).T, axis=1)
        paid = np.minimum(np.ldexp(size, self.exponent), LARGEST) * (1 - gamma(self.price.size + 8)) - self.price_error
        paid = np.maximum(paid, 0.0)
        budget = self.stretch * self.delta * (1 + 2 * U)
        # The root of the product as a product of roots: the square of a small δ underflows, that of a large one is ∞.
        radius = np.sqrt(np.maximum(budget - paid, 0.0)) * np.sqrt(budget + paid)
        radius = radius * (1 + 16 * U) + self.radius_error + TINY
        return np.where(paid <= budget, radius, -1.0), offset

    @np.errstate(all="ignore")
    def reach(self, radius: Array, offset: Array) -> tuple[Array, Array] | None:
        """Intervals that hold every number's move, from the ball alone; ``None`` when there is no ball.

        ``u = K (T u + o) − K o + (I − K T) u`` with ``K`` the inverse, ``T`` the root and ``o`` the offset.
        """
        if not len(self.root):
            return None
        root, inverse = self.root[:, self.numeric], self.inverse[self.numeric]
        size = root.shape[1]
        error = np.abs(np.eye(size) - inverse @ root)
        error = error + gamma(len(root) + 4) * (np.eye(size) + product_up(np.abs(inverse), np.abs(root))) + TINY
        norms = norm_up(inverse, {1.0: np.inf, 2.0: 2.0}[self.order])
        middle = -(offset @ inverse.T)
        slack = np.abs(offset) @ np.abs(inverse.T) * (2 * gamma(len(root) + 4))
        half = np.maximum(radius, 0.0)[:, None] * norms + slack + product_up(error, self.furthest)
        half = half * (1 + 8 * U) + np.abs(middle) * (4 * U) + TINY
        low, high = middle - half, middle + half
        return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


@dataclass(frozen=True, eq=False)
class BranchList:
    """Branches of a batch of individuals: whose, and the individual with its categories changed."""

    row: Index
    centre: Array
    relaxed: tuple[Block, ...]  # blocks that were not enumerated and stay in their simplex
    overflow: Index  # individuals with too many branches to list


@np.errstate(all="ignore")
def enumerate_branches(branches: Branches, x: Array, low: Array, high: Array, cap: int) -> BranchList:
    """Every change of categories that box and price allow, for all individuals (n, m) at once.

    ``low`` and ``high`` (n, m) bound the moves of single coordinates.
    """
    pairs = [states_of(block, x, low, high) for block in branches.blocks]
    states, allowed = [state for state, _ in pairs], [mask for _, mask in pairs]
    listed = _affordable(branches, allowed, cap)
    row = np.arange(len(x))
    choice = np.zeros((len(x), len(branches.blocks)), dtype=np.int64)
    for k, state in enumerate(states):
        choice[:, k] = state
    # Rows of the triangle that a block settles: as many as it has columns, below those of the blocks before it.
    sizes = [
        0 if nothing else stop - start for (start, stop), nothing in zip(branches.blocks, branches.free, strict=True)
    ]
    heights = np.cumsum([0, *sizes])
    sums, spent = np.zeros((len(x), len(branches.triangle))), np.zeros(len(x))
    limit = branches.stretch * branches.delta * (1 + 1e-9) + branches.price_error
    triangle = branches.triangle
    if branches.order == 2:
        unit = -branches.exponent
        triangle, limit = np.ldexp(triangle, unit), np.ldexp(limit, unit)
        limit = limit * limit + 1e-11 * float(np.square(np.ldexp(branches.price, unit)).sum())
    overflow = np.zeros(len(x), dtype=bool)
    for k in reversed(range(len(branches.blocks))):
        if k not in listed:
            continue
        vectors = _vectors(triangle, branches.blocks[k])
        rows = slice(heights[k], heights[k + 1])
        start = sums - vectors[states[k][row]]
        if branches.order == 1:
            price = _sum_prices(branches.price, branches.blocks[k])[states[k][row]]
        else:
            part, own = start[:, rows], vectors[:, rows]
            price = np.square(part).sum(1)[:, None] + 2 * part @ own.T + np.square(own).sum(1)
        total = spent[:, None] + np.maximum(price, 0.0)
        parent, state = np.nonzero(allowed[k][row] & ~(total > limit))
        row, sums, spent, choice = row[parent], start[parent] + vectors[state], total[parent, state], choice[parent]
        choice[:, k] = state
        overflow |= np.bincount(row, minlength=len(x)) > cap
        keep = ~overflow[row]
        row, sums, spent, choice = row[keep], sums[keep], spent[keep], choice[keep]
    centre = x[row].copy()
    for k in listed:
        first, last = branches.blocks[k]
        if last - first == 1:
            centre[:, first] = choice[:, k]
        else:
            centre[:, first:last] = 0.0
            centre[np.arange(len(row)), first + choice[:, k]] = 1.0
    relaxed = tuple(block for k, block in enumerate(branches.blocks) if k not in listed)
    return BranchList(row, centre, relaxed, np.flatnonzero(overflow))


def pseudo_inverse(matrix: Array) -> Array:
    """Moore and Penrose's inverse, as float64; also of a matrix without rows. Inverses are hints: 0 for what overflows
    would be worth nothing, but is a number."""
    if not matrix.size:
        return np.zeros(matrix.T.shape)
    with np.errstate(all="ignore"):
        inverse = np.asarray(np.linalg.pinv(matrix), dtype=np.float64)
    return np.where(np.isfinite(inverse), inverse, 0.0)


def states_of(block: Block, x: Array, low: Array, high: Array) -> tuple[Index, Mask]:
    """The category of each individual in a block, and (n, states) which others the box lets it take."""
    start, stop = block
    if stop - start == 1:
        now = x[:, start].astype(np.int64)
        can = np.where(now == 0, high[:, start] >= 1, low[:, start] <= -1)
        return now, np.stack([(now == 0) | can, (now == 1) | can], axis=1)
    now = x[:, start:stop].argmax(axis=1)
    leave = low[np.arange(len(x)), start + now] <= -1
    allowed = (high[:, start:stop] >= 1) & leave[:, None]
    allowed[np.arange(len(x)), now] = True
    return now, allowed


def _vectors(triangle: Array, block: Block) -> Array:
    """What each state of a block adds to the sums, (states, rows)."""
    start, stop = block
    if stop - start == 1:
        return np.stack([np.zeros(len(triangle)), triangle[:, start]])
    return triangle[:, start:stop].T


def _sum_prices(price: Array, block: Block) -> Array:
    """Order 1: what a change from one state of a block to another costs, (states, states)."""
    start, stop = block
    if not len(price):
        return np.zeros((max(2, stop - start),) * 2)
    each = np.array([0.0, price[0, start]]) if stop - start == 1 else price[0, start:stop]
    with np.errstate(over="ignore"):  # ∞ is above every δ
        return np.where(np.eye(len(each), dtype=bool), 0.0, each[:, None] + each[None, :])


def _affordable(branches: Branches, allowed: list[Mask], cap: int) -> set[int]:
    """The blocks to enumerate: of those without a price, the largest are relaxed until the rest fit the cap.

    Flags are always listed: they have no simplex.
    """
    counts = [int(mask.sum(axis=1).max(initial=1)) for mask in allowed]
    listed = set(range(len(counts)))
    unpriced = [k for k in listed if branches.free[k] and branches.blocks[k][1] - branches.blocks[k][0] > 1]
    for k in sorted(unpriced, key=lambda k: -counts[k]):
        if np.prod([float(counts[j]) for j in listed if branches.free[j]]) <= cap:
            break
        if counts[k] > 1:
            listed.discard(k)
    return listed
