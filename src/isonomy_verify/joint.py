"""All neurons of a difference together: they share one move.

Where differences of people lie in an ellipsoid, every neuron ``i`` of a layer sees the same ``u`` of the unit ball,

    D_i = m_i + N_i·u + η_i,

and behind an activation whose chords have slopes in ``[s − t, s + t]`` it is ``D'_i = s_i D_i + e_i``, ``|e_i| ≤ t_i
|D_i|``: ``N ← W diag(s) N`` passes on exactly, and only what ``e`` adds goes into ``η``. Summed neuron by neuron, as if
each saw the move that suits it best, ``Σ κ_i |N_i·u|`` would be ``Σ κ_i ‖N_i‖``; together, for any ``n_i > 0``, by
Cauchy and Schwarz,

    Σ κ_i |N_i·u|  ≤  √(Σ κ_i n_i) · √λmax(Σ (κ_i / n_i) N_i N_iᵀ).

What was left open a layer before is shared in the same way: all rows of ``W e`` see one vector ``e``, of which ``‖e /
√d‖₂ ≤ ε`` is known, and for any ``τ > 0``

    Σ_j κ_j |W_j·e|  ≤  √(Σ κ_j τ_j) · ‖diag(√(κ/τ)) W diag(√d)‖₂ · ε,      e_i = 0 where t_i = 0:

the norm of those rows and columns alone whose neurons are open.

**Soundness.** ``n``, ``d`` and ``τ`` are hints. ``N`` is what floats make of it; how far ``N u`` is from the exact
product is, row by row, at most ``γ Σ_i |W_ji||s_i|‖N_i‖`` and what underflows, and is added to ``η`` with the product
that passes ``η`` on, as is ``γ|m|``. Largest eigenvalues are bounded by Frobenius norms of repeated squares, which
needs no eigensolver. The noise of layers is that of :mod:`isonomy_verify.enclosure`, from the sizes of differences.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import SMALL, TINY, Array, U, gamma, norm_up
from isonomy_verify.network import Network
from isonomy_verify.regions import Ball, BallBox, Ellipsoid

if TYPE_CHECKING:
    from isonomy_verify.differences import Difference
    from isonomy_verify.enclosure import Ends, Relax, Rows

SQUARES = 2
"""How often a matrix is squared to bound its largest eigenvalue."""

OUTER = 2**25
"""Numbers of which products of all pairs of columns are kept for all; larger ones are formed person by person."""


class Joint:
    """``centre + factor u``, up to ``open``, of every layer of a difference, ``‖u‖₂ ≤ radius``."""

    @classmethod
    def of(cls, network: Network, region: Ball | BallBox) -> Joint | None:
        """Return the forms over a region, or None where it lies in no ellipsoid that is of use."""
        found: list[Ellipsoid | None] = []
        for layer in network.layers:
            block = layer.blocks[0] if layer.blocks else None
            if block is None or block.source:
                found.append(None)
                continue
            found.append(region.ellipsoid(block.weight, block.size))
            if found[-1] is None:
                return None
        return cls(network, found) if any(each is not None for each in found) else None

    def __init__(self, network: Network, ellipsoids: list[Ellipsoid | None]) -> None:
        self.network, self.ellipsoids = network, ellipsoids
        first = next(each for each in ellipsoids if each is not None)
        self.radius, self.columns = first.radius[:, None], first.matrix.shape[1]
        self.centre: list[Array] = []
        self.factor: list[Array] = []  # (n or 1, width, columns)
        self.norm: list[Array] = []  # (n, width): at least radius ‖factor‖ by rows
        self.open: list[Array] = []
        self.rest: list[Array] = []  # what is open but for what ``shared`` says
        self.shared: list[list[tuple[Array, Array, NDArray[np.bool_]]]] = []  # W √d, ε, and which columns are open
        self._outer: dict[int, Array] = {}

    def step(self, difference: Difference, k: int) -> Ends:
        """Go on to layer ``k``, whose sources have their slopes, and return its range."""
        if len(self.centre) == k:
            self._step(difference, k)
        centre = self.centre[k]
        half = (self.norm[k] + self.open[k] + np.abs(centre) * (8 * U)) * (1 + 8 * U)
        return centre - half, centre + half

    def _step(self, difference: Difference, k: int) -> None:
        layer, ellipsoid, rest = self.network.layers[k], self.ellipsoids[k], difference.noise[k]
        centre, factor = np.zeros((1, layer.width)), np.zeros((1, layer.width, self.columns))
        own: Array | float = 0.0
        extra: Array | float = 0.0
        shared, heaviest = [], np.ones(layer.width)
        if ellipsoid is not None:
            centre, factor = centre + ellipsoid.middle, factor + ellipsoid.matrix
            rest = rest + ellipsoid.loss + norm_up(ellipsoid.matrix) * (self.radius * gamma(len(layer.blocks) + 16))
        for number, block in enumerate(layer.blocks):
            if not block.source:
                continue
            j, absolute = block.source - 1, layer.absolute[number]
            (slope, half), value_error = self._chords(difference, j), difference.value_error[j]
            root = _scale(absolute)
            known = np.abs(self.centre[j]) + self.norm[j]
            passed = np.abs(slope) * (self.open[j] + known * (4 * layer.unit)) + value_error
            least = (passed + half * (np.abs(self.centre[j]) + self.open[j])) @ absolute
            most = np.maximum(*map(np.abs, difference.range[j]))
            together = np.sqrt(self._largest(j, (half / root) ** 2 * (1 + 16 * U) + SMALL))
            spread = np.sqrt((half > 0) @ (absolute * root[:, None] + SMALL) ** 2) * together[:, None]
            heaviest = heaviest + absolute.sum(0)
            extra = extra + np.fmin((passed + half * most) @ absolute, least + spread)
            own = own + least
            centre = centre + (slope * self.centre[j]) @ layer.transposed[number]
            factor = factor + np.matmul(block.weight, slope[:, :, None] * self.factor[j])
            shared.append((block.weight * root, together, half > 0))
        grow = 1 + 4 * layer.unit
        lost = TINY * (1 + factor.shape[2]) * (1 + self.radius) * heaviest  # to underflow
        self.open.append((rest + extra + np.abs(centre) * (4 * layer.unit)) * grow + lost)
        self.rest.append((rest + own + np.abs(centre) * (4 * layer.unit)) * grow + lost)
        self.centre.append(centre)
        self.factor.append(factor)
        self.shared.append(shared)
        self.norm.append(norm_up(factor) * (self.radius * (1 + 8 * U)) + TINY)

    def _chords(self, difference: Difference, j: int) -> Ends:
        """Return the middle and half of the slopes that chords of an activation may have."""
        least, most = difference.slopes[j]
        slack = (16 * U) * (np.abs(least) + np.abs(most) + 1)
        return (least + most) / 2, np.where(least == most, 0.0, (most - least) / 2 + slack)

    def _largest(self, j: int, weight: Array) -> Array:
        """Return at least ``radius² λmax(Σ weight_i N_i N_iᵀ)`` (n,)."""
        factor = self.factor[j]
        trace = np.vecdot(weight, self.norm[j] * self.norm[j]) * (1 + gamma(weight.shape[1] + 16)) + SMALL
        top = weight.max(1, keepdims=True) + SMALL
        light = weight / top
        if len(factor) == 1 and factor.size * factor.shape[2] <= OUTER:
            if j not in self._outer:
                self._outer[j] = (factor[0][:, :, None] * factor[0][:, None, :]).reshape(factor.shape[1], -1)
            gram = (light @ self._outer[j]).reshape(len(light), factor.shape[2], factor.shape[2])
        else:
            gram = np.matmul((factor * light[:, :, None]).transpose(0, 2, 1), factor)
        scale = (self.radius * self.radius)[:, 0] * top[:, 0] * (1 + 16 * U)
        lost = SMALL + TINY * weight.shape[1] * factor.shape[2] * (1 + np.abs(factor).max(initial=0.0)) ** 2
        found = (largest_up(gram) * (1 + 8 * U) + lost) * scale + gamma(4 * weight.shape[1] + 64) * trace + SMALL
        return np.asarray(np.fmin(found, trace) * (1 + 16 * U))

    def relaxation(self, difference: Difference) -> Relax:
        """Return what carries coefficients through an activation by the middle slopes, all neurons together."""

        def relax(j: int, c: Array, rows: Rows) -> tuple[Array, Array, Array | float]:
            slope, half = self._chords(difference, j)
            size = np.abs(c) * (1 + 8 * U)
            steepest = max(1.0, difference._shape(j))
            charge = _dots(size, difference.noise[j] * steepest + difference.value_error[j])
            return c * slope, np.zeros(1), charge + self.slack(difference, j, np.abs(c) * half)

        return relax

    def slack(self, difference: Difference, k: int, weight: Array) -> Array:
        """Return at least ``Σ weight_j |D_j|`` (n,) of layer ``k``: neuron by neuron, or together."""
        grow = 1 + gamma(4 * weight.shape[1] + 64)
        alone = np.vecdot(weight, np.maximum(*map(np.abs, difference.range[k])))
        size = np.maximum(self.norm[k], 1e-6 * self.norm[k].max(1, keepdims=True) + 1e-100)
        joint = np.sqrt(np.vecdot(weight, size) * self._largest(k, weight / size * (1 + 4 * U)))
        open_ = np.vecdot(weight, self.rest[k])
        for scaled, together, bent in self.shared[k]:
            open_ = open_ + together * _spectral(scaled, weight, bent)
        together = np.vecdot(weight, np.abs(self.centre[k])) + joint * (1 + 8 * U)
        together = together + np.fmin(open_, np.vecdot(weight, self.open[k]))
        return np.asarray(np.fmin(alone, together) * grow + SMALL)


def _scale(absolute: Array) -> Array:
    """Return scalings ``√d`` of what a block reads (in,): any positive numbers will do."""
    mean = absolute.mean(1)
    return np.asarray(1 / np.sqrt(np.clip(mean / max(float(mean.mean()), 1e-300), 1e-3, 1e3)))


def _dots(a: Array, b: Array) -> Array:
    return b @ a[0] if len(a) == 1 else np.asarray((a * b).sum(1))


def _spectral(scaled: Array, weight: Array, bent: NDArray[np.bool_]) -> Array:
    """Return at least ``√(Σ weight) ‖diag(√weight) W diag(√d)‖₂`` (n,) over the open rows and columns.

    With ``P`` that part of the matrix, ``‖P‖₂⁴ = ‖P Pᵀ‖₂² ≤ ‖(P Pᵀ)²‖_F``. ``P Pᵀ`` is off by ``γ ‖P‖_F²`` in norm,
    the roundings of each entry of ``P`` included, and its square by ``γ ‖P Pᵀ‖_F²``.
    """
    found, unit = np.zeros(len(weight)), 4 * gamma(sum(scaled.shape) + 64)
    top = weight.max(1) + SMALL
    for i, (mine, open_) in enumerate(zip(weight, bent, strict=True)):
        rows = np.flatnonzero(mine)
        part = scaled.take(rows, 0).take(np.flatnonzero(open_), 1) * np.sqrt(mine[rows] / top[i])[:, None]
        part = part if len(part) <= part.shape[1] else part.T
        gram = part @ part.T
        half = float(np.vdot(gram, gram))
        value = np.sqrt(np.linalg.norm(gram @ gram) + half * unit) + float(np.vdot(part, part)) * unit
        found[i] = (np.sqrt(value) + SMALL) * np.sqrt(weight[i].sum() * top[i])
    return found * (1 + gamma(weight.shape[1] + 64)) + SMALL


def _squares(a: Array) -> Array:
    """At least the squared Frobenius norm (n,) of matrices (n, p, q)."""
    flat = a.reshape(len(a), a.shape[1] * a.shape[2])
    return np.asarray(np.vecdot(flat, flat) * (1 + gamma(flat.shape[1] + 16)))


def largest_up(gram: Array) -> Array:
    """At least the spectral norm (n,) of matrices (n, q, q); of symmetric ones it is their largest eigenvalue.

    ``‖P‖₂ = ‖P Pᵀ‖₂^½ ≤ ‖P Pᵀ‖_F^½``. Each matrix is scaled to a Frobenius norm of at most 1 before it is multiplied,
    so that rounding moves the product by at most ``rounding`` in norm.
    """
    rounding, grow, least = 4 * gamma(gram.shape[-1] + 16), 1 + 16 * U, 2.0**-50
    most = np.abs(gram).max((1, 2), initial=0.0)
    gram = gram / np.where(most == 0, 1, most)[:, None, None]
    scales = []
    for _ in range(SQUARES):
        scale = np.sqrt(_squares(gram)) * grow + least
        gram = gram / scale[:, None, None]
        gram = np.matmul(gram, gram.transpose(0, 2, 1))
        scales.append(scale)
    value = np.sqrt(_squares(gram)) * grow + rounding + least
    for scale in reversed(scales):
        value = np.sqrt(value) * scale * grow + rounding
    return np.asarray(np.where(most == 0, 0.0, value * most * (1 + 8 * U) + TINY))
