"""How far a first layer can move: support functions that a trainer can differentiate.

The first layer of a network is affine, so over ``{v : ‖R v‖_p ≤ δ}`` its pre-activations move by at most

    h(w) = δ ‖R⁺ᵀ w‖_q,        1/p + 1/q = 1,

for a row ``w`` in the range of ``Rᵀ``. Directions that the root leaves free are bounded by the domain alone: a part
``w₂ = T N w`` of the row, with ``N`` a basis of the free directions and ``N T = I``, goes to the box around the domain.
``T`` is chosen once, by linear programs, so that the box costs little. None of this depends on the individual, hence a
batch pays for it once.

**Soundness.** Up to float32 rounding, an upper bound for every pair of individuals of the domain: training needs no
more, certificates are made afterwards by :mod:`isonomy.certificates`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor

from isonomy.arithmetic import FloatArray
from isonomy.errors import MetricError
from isonomy.population import Domain
from isonomy.similarity.ground import Ground, ground_metric, ground_root
from isonomy.similarity.metric import Metric

IntArray = NDArray[np.int64]

_NOTHING = 1e-9
"""Relative size below which a direction counts as free, or as not read."""


@dataclass(frozen=True)
class Reach:
    """The largest ``|w·v|`` over moves ``v``, for the rows ``w`` of a first layer that reads some coordinates.

    ``ball`` (read, r) and its dual ``order`` are the part that grows with the radius, ``tolerance`` (read,) that of
    single coordinates. ``free`` (read, m) leads to the part that the domain alone bounds: by ``extent`` per coordinate,
    or by the largest minus the smallest entry of each one-hot block.
    """

    ball: Tensor
    order: float
    tolerance: Tensor | None = None
    free: Tensor | None = None
    extent: Tensor | None = None
    blocks: tuple[tuple[int, int], ...] = ()

    def growing(self, weight: Tensor) -> Tensor:
        """The part that is multiplied by the radius, one number for each row of ``weight`` (out, read)."""
        along: Tensor = torch.linalg.vector_norm(weight @ self.ball, self.order, dim=1)
        return along if self.tolerance is None else along + weight.abs() @ self.tolerance

    def fixed(self, weight: Tensor) -> Tensor:
        """The part that is there at any radius; 0 when nothing is free."""
        if self.free is None or self.extent is None:
            return torch.zeros(len(weight))
        turned = weight @ self.free
        total = turned.abs() @ self.extent
        for start, stop in self.blocks:
            block = turned[:, start:stop]
            total = total + block.amax(1) - block.amin(1)
        return total

    def unlimited(self) -> Tensor:
        """An orthonormal basis (read, k) of the directions in which the domain alone limits a move."""
        if self.free is None or self.extent is None:
            return torch.zeros(len(self.ball), 0)
        reached = self.extent > 0
        for start, stop in self.blocks:
            reached[start:stop] = True
        basis, sizes, _ = torch.linalg.svd(self.free[:, reached], full_matrices=False)
        kept: Tensor = basis[:, sizes > _NOTHING**0.5]
        return kept

    def over(self, weight: Tensor, radius: float) -> Tensor:
        """Both parts together."""
        return radius * self.growing(weight) + self.fixed(weight)


def similar_reach(metric: Metric, domain: Domain, reads: IntArray, x: FloatArray, delta: float) -> Reach:
    """The reach of the similar sets; tolerances of single coordinates are measured around individuals ``x``."""
    if len(metric.gauge()[0]):
        root, order = metric.gauge()
        return _of_root(root, order, domain, reads, _moving(root, domain, delta))
    radius = delta if delta > 0 else 1.0
    low, high = metric.box(x, radius)
    size = np.maximum(np.abs(low), np.abs(high)).max(axis=0) / radius
    size[domain.immutable] = 0.0
    loose = np.isinf(size)
    axes = np.eye(domain.width)
    free = np.where(loose[:, None], axes, 0.0)[reads] if loose[reads].any() else None
    return _assembled(np.zeros((len(reads), 0)), 2.0, domain, free, np.where(loose, 0.0, size)[reads])


def shift_reach(ground: Ground, domain: Domain, reads: IntArray) -> Reach:
    """The reach of a shift: the ball of the ground cost."""
    root, order = ground_root(ground_metric(ground, domain.width))
    return _of_root(root, order, domain, reads, np.ones(domain.width, dtype=bool))


def boxed(exact: Reach) -> Reach:
    """The box around the similar set, through which the paper's bounds go."""
    eye = torch.eye(len(exact.ball))
    free, fixed = (None, None) if exact.free is None else (eye, exact.fixed(eye))
    return Reach(torch.zeros(len(eye), 0), 2.0, exact.growing(eye), free, fixed)


def _moving(root: FloatArray, domain: Domain, delta: float) -> NDArray[np.bool_]:
    """The coordinates in which similar individuals may differ.

    Where a category is whole (realizable domain), a one-hot block or flag stays as it is unless some change of it is
    within ``delta``, given the best change of the numbers and of the blocks that can change already. Blocks that could
    change only several at a time are taken for still: good for training, where it keeps the bound from counting
    fractions of categories, but not a proof.
    """
    moving = domain.numeric & ~domain.immutable
    if domain.kind != "realizable":
        return ~domain.immutable
    still = [block for block in domain.blocks if not domain.immutable[slice(*block)].any()]
    for _ in range(len(still)):
        basis = np.linalg.svd(root[:, moving], full_matrices=False)
        within = basis[0][:, basis[1] > _NOTHING * basis[1].max(initial=0.0)]

        def least(block: tuple[int, int], within: FloatArray = within) -> float:
            columns = root[:, slice(*block)]
            changes = [columns[:, a] - columns[:, b] for a in range(columns.shape[1]) for b in range(a)]
            turned = np.stack(changes or [columns[:, 0]], axis=1)
            return float(np.linalg.norm(turned - within @ (within.T @ turned), axis=0).min())

        changing = [block for block in still if least(block) <= delta + _NOTHING]
        if not changing:
            break
        for block in changing:
            moving[slice(*block)] = True
            still.remove(block)
    return moving


def _of_root(root: FloatArray, order: float, domain: Domain, reads: IntArray, moving: NDArray[np.bool_]) -> Reach:
    width = domain.width
    left, values, right = np.linalg.svd(root[:, moving], full_matrices=True)
    rank = int((values > _NOTHING * values.max(initial=0.0)).sum())
    inverse = (right[:rank].T / values[:rank]) @ left[:, :rank].T  # (moving, r)
    basis = right[rank:]  # free directions, orthonormal rows
    read = np.eye(width)[reads][:, moving]
    free: FloatArray | None = None
    rest = read
    if np.abs(read @ basis.T).max(initial=0.0) > _NOTHING:
        carried = read @ basis.T @ _cheapest(basis, domain, moving).T
        rest = read - carried
        free = np.zeros((len(reads), width))
        free[:, moving] = carried
    dual = {1.0: math.inf, 2.0: 2.0, math.inf: 1.0}[order]
    return _assembled(rest @ inverse, dual, domain, free, None)


def _cheapest(basis: FloatArray, domain: Domain, moving: NDArray[np.bool_]) -> FloatArray:
    """``T`` (moving, k) with ``basis @ T = I`` and the least box around each of its columns."""
    extent = np.where(domain.numeric, domain.high - domain.low, 1.0)[moving]
    if domain.kind == "unbounded":
        extent = np.full(extent.shape, np.inf)
    usable = np.isfinite(extent)
    chosen = np.zeros((len(extent), len(basis)))
    for k in range(len(basis)):
        # t = plus - minus, both at least 0: the smallest sum of extent |t| with basis t = e_k.
        cost = np.concatenate([extent[usable], extent[usable]]) + _NOTHING
        equal = np.concatenate([basis[:, usable], -basis[:, usable]], axis=1)
        program = linprog(cost, A_eq=equal, b_eq=np.eye(len(basis))[k], method="highs") if usable.any() else None
        if program is None or program.x is None:
            raise MetricError(
                "The metric leaves directions free that nothing in the domain bounds, so similar individuals can be "
                "arbitrarily far apart: train with a bounded domain ('relaxed' or 'realizable'), or with ridge > 0."
            )
        chosen[usable, k] = program.x[: usable.sum()] - program.x[usable.sum() :]
    return chosen


def _assembled(
    ball: FloatArray, order: float, domain: Domain, free: FloatArray | None, tolerance: FloatArray | None
) -> Reach:
    extent: FloatArray | None = None
    blocks: tuple[tuple[int, int], ...] = ()
    if free is not None:
        wide = np.zeros(domain.width, dtype=bool)
        blocks = tuple(block for block in domain.blocks if block[1] - block[0] > 1)
        for start, stop in blocks:
            wide[start:stop] = True
        extent = np.where(wide, 0.0, np.where(domain.numeric, domain.high - domain.low, 1.0))
        extent[(free == 0).all(axis=0)] = 0.0
        if not np.isfinite(extent).all() or domain.kind == "unbounded":
            name = domain.names[int(np.flatnonzero((free != 0).any(axis=0))[0])]
            raise MetricError(
                f"The metric leaves '{name}' free, which the network reads and the domain does not bound: train with a "
                "bounded domain ('relaxed' or 'realizable'), or with method='ftu'."
            )
    parts = [None if part is None else single(part) for part in (tolerance, free, extent)]
    return Reach(single(ball), order, parts[0], parts[1], parts[2], blocks)


def single(array: FloatArray) -> Tensor:
    """A copy in float32, as everything is that is trained with."""
    return torch.from_numpy(np.array(array, dtype=np.float32))
