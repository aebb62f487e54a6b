"""One bound for all rows of a matrix product at once: ``G Gᵀ ⪯ F Fᵀ + diag(d)``.

The range of neuron ``j`` of the second layer over an order-2 ball is the norm of row ``j`` of ``W diag(s) G``, with
slopes ``s`` of each individual's own: one product for each neuron and individual. With two columns ``F`` and a
diagonal ``d``, found once for each network and metric,

    ‖(W_j ∘ s) G‖²  ≤  Σ_r (s · (W_j ∘ F_r))²  +  s² · (W_j² ∘ d)

for every real ``s``: three plain products for all neurons of everybody.

**Soundness.** The search for ``F`` and ``d`` proves nothing. What is proved is the inequality: for any matrix ``L`` the
difference ``F Fᵀ + diag(d) − G Gᵀ − L Lᵀ`` is entrywise at most ``E``, computed with the rounding of each product,
and a symmetric matrix with ``|entries| ≤ E`` is at most ``diag((E x)_i / x_i)`` for any ``x > 0``; so adding that to
``d`` makes the difference positive semi-definite.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import SMALL, TINY, Array, gamma


class Majorant(NamedTuple):
    """``G Gᵀ ⪯ directions directionsᵀ + diag(diagonal)``."""

    directions: Array
    diagonal: Array


def majorant(matrix: Array, columns: int = 2, steps: int = 6) -> Majorant | None:
    """A proved majorant of ``matrix matrixᵀ``, or None where none could be found."""
    n, top = len(matrix), float(np.abs(matrix).max(initial=0.0))
    if not 1e-140 < top < 1e140:
        return None
    unit = 2.0 ** math.floor(math.log2(top))
    matrix = matrix / unit  # a power of two: exact
    try:
        directions, diagonal, factor, size = _search(matrix, columns, steps)
    except np.linalg.LinAlgError:
        return None
    if not (size > 0).all():
        return None
    terms = 2 * (max(part.shape[1] for part in (matrix, directions, factor)) + n + 8)
    gap = directions @ directions.T + np.diag(diagonal) - matrix @ matrix.T - factor @ factor.T
    sizes = [np.abs(part) @ np.abs(part).T for part in (directions, matrix, factor)]
    error = np.abs(gap) + gamma(terms) * (sum(sizes) + np.diag(np.abs(diagonal))) + TINY
    error = np.maximum(error, error.T)
    diagonal = (diagonal + (error @ size) / size) * (1 + gamma(2 * n + 16)) + TINY
    if not np.isfinite(diagonal).all() or not (diagonal >= 0).all():
        return None
    return Majorant(directions * unit, diagonal * unit * unit + SMALL)


def _search(matrix: Array, columns: int, steps: int) -> tuple[Array, Array, Array, Array]:
    """Top singular directions, and a diagonal over the rest by Jacobi scaling; nothing here needs to be right."""
    left, singular, _ = np.linalg.svd(matrix, full_matrices=False)
    directions = left[:, :columns] * singular[:columns]
    rest = matrix @ matrix.T - directions @ directions.T
    squares = (matrix * matrix).sum(1)
    size = np.sqrt(np.maximum(squares, 1e-14 * squares.max()))
    d = np.maximum(np.diag(rest), 1e-9 * size**2)
    best, best_sum = d, math.inf
    for _ in range(steps):
        scale = 1 / np.sqrt(d)
        values, vectors = np.linalg.eigh(rest * scale[:, None] * scale)
        most = max(values[-1], 1e-12)
        if (d * most).sum() < best_sum:
            best, best_sum = d * most, float((d * most).sum())
        share = (vectors[:, -5:] ** 2 * np.exp((values[-5:] - values[-1]) * 8)).sum(1)
        d = np.maximum(d * (share / share.mean()) ** 0.15, 1e-12 * size**2)
    d = best * (1 + 1e-9) + 1e-13 * size**2
    values, vectors = np.linalg.eigh(directions @ directions.T + np.diag(d) - matrix @ matrix.T)
    return directions, d, vectors * np.sqrt(np.maximum(values, 0.0)), size
