"""All neurons together: they share one move.

Where the moves of people lie in an ellipsoid, every neuron ``i`` of a layer sees the same ``u`` of the unit ball,

    D_i = m_i + N_i·u + η_i,

and with lines of slope ``s_i`` through an activation ``D'_i = s_i D_i + e_i`` this passes on exactly, ``N ← W diag(s)
N``; only what the lines leave open goes into ``η``. For one run (:class:`Forms`) that gives the ranges of all neurons
of a layer at once. For the difference of two runs (:class:`Joint`) the slopes of all chords lie in ``[s − t, s + t]``,
so that ``|e_i| ≤ t_i |D_i|``. Summed neuron by neuron, as if each saw the move that suits it best, ``Σ κ_i |N_i·u|``
would be ``Σ κ_i ‖N_i‖``; together, for any ``n_i > 0``, by Cauchy and Schwarz,

    Σ κ_i |N_i·u|  ≤  √(Σ κ_i n_i) · √λmax(Σ (κ_i / n_i) N_i N_iᵀ).

What was left open a layer before is shared in the same way: all rows of ``W e`` see one vector ``e``, of which ``‖e /
√d‖₂ ≤ ε`` is known, and for any ``τ > 0``

    Σ_j κ_j |W_j·e|  ≤  √(Σ κ_j τ_j) · ‖diag(√(κ/τ)) W diag(√d)‖₂ · ε,      e_i = 0 where t_i = 0:

the norm of those rows and columns alone whose neurons are open. Measured, this halves what is lost in the second layer.

**Soundness.** ``n``, ``d`` and ``τ`` are hints. Factors ``N`` are stored in float32 and are what is meant by ``N`` from
then on; how far ``N u`` is from the exact product is, row by row, at most ``γ Σ_i |W_ji||s_i|‖N_i‖`` and what
underflows, and is added to ``η`` with the same product that passes ``η`` on. Largest eigenvalues are bounded by
Frobenius norms of repeated squares, which needs no eigensolver. Weights and their rounding are charged as in
:mod:`isonomy_verify.sweep`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import SMALL, TINY, U32, Above, Array, Float32, U, gamma, norm_up
from isonomy_verify.network import Network
from isonomy_verify.regions import Ball, BallBox, Ellipsoid
from isonomy_verify.sweep import Sweep

if TYPE_CHECKING:
    from isonomy_verify.differences import Differences

Mask = NDArray[np.bool_]

SQUARES = 2
"""How often a matrix is squared to bound its largest eigenvalue."""

OUTER = 2**25
"""Numbers of which products of all pairs of columns are kept for everybody; larger ones are formed person by person."""

LEAST32, ROOT32, LARGEST32 = 2.0**-120, 2.0**-60, 2.0**40
"""More than a product loses in float32 by underflow, and the root of a sum of squares; sizes of usable weights."""


class Weights:
    """What is the same for everybody: weights in float32, scalings ``d`` and the squares that they weigh."""

    @np.errstate(all="ignore")  # what overflows ends as an infinite bound
    def __init__(self, network: Network) -> None:
        self.network = network
        self.usable = True
        self.single: list[list[Float32]] = []
        self.largest: list[list[float]] = []
        self.scale: list[list[Array]] = []  # √d of what each block reads
        self.scaled: list[list[tuple[Float32, float]]] = []  # W √d with entries of at most 1, and their unit
        self.squares: list[list[Above]] = []  # (in, out): at least W² d
        for layer in network.layers:
            blocks = [block.weight for block in layer.blocks]
            self.largest.append([float(np.abs(weight).max(initial=0.0)) for weight in blocks])
            self.usable &= all(most < LARGEST32 for most in self.largest[-1])
            self.single.append([np.ascontiguousarray(weight.astype(np.float32)) for weight in blocks])
            means = [np.abs(weight).mean(0) for weight in blocks]
            self.scale.append(
                [1 / np.sqrt(np.clip(mean / max(float(mean.mean()), 1e-300), 1e-3, 1e3)) for mean in means]
            )
            scaled = [weight * root for weight, root in zip(blocks, self.scale[-1], strict=True)]
            units = [2.0 ** np.ceil(np.log2(max(float(np.abs(each).max(initial=0.0)), 1e-300))) for each in scaled]
            self.scaled.append(
                [
                    (np.ascontiguousarray((each / unit).astype(np.float32)), unit)
                    for each, unit in zip(scaled, units, strict=True)
                ]
            )
            self.squares.append(
                [Above.of(np.ascontiguousarray(((np.abs(each) * (1 + 8 * U) + TINY) ** 2).T)) for each in scaled]
            )


class Forms:
    """``centre + radius · factor u``, up to ``open``, of every layer of one run over ellipsoids around its regions."""

    def __init__(self, weights: Weights, ellipsoids: list[Ellipsoid | None]) -> None:
        self.weights, self.ellipsoids = weights, ellipsoids
        self.radius = next(each.radius for each in ellipsoids if each is not None)
        self.centre: list[Array] = []
        self.factor: list[Float32] = []  # (n or 1, width, columns)
        self.norm: list[Array] = []  # (n, width): at least radius · ‖factor‖ by rows
        self.open: list[Array] = []

    @classmethod
    def of(cls, weights: Weights, region: Ball | BallBox) -> Any:
        """The forms over a region, or None where it lies in no ellipsoid that is of use."""
        found: list[Ellipsoid | None] = []
        for layer in weights.network.layers:
            block = layer.blocks[0] if layer.blocks else None
            if block is None or block.source:
                found.append(None)
                continue
            found.append(region.ellipsoid(block.weight, block.size))
            if found[-1] is None or not np.abs(found[-1].matrix).max(initial=0.0) < LARGEST32:
                return None
        return cls(weights, found) if weights.usable and any(each is not None for each in found) else None

    def step(self, sweep: Sweep, k: int) -> tuple[Array, Array]:
        """Go on to layer ``k``, whose sources have their lines; its ranges."""
        layer, centre = self.weights.network.layers[k], sweep.start[k]
        # The noise of a layer that reads the input alone is charged where its ranges are used.
        open_ = np.zeros((sweep.n, layer.width)) if layer.reads_input_only else sweep._left_open(k, "left")
        slopes = []
        for number, block in enumerate(layer.blocks):
            if not block.source:
                continue
            j = block.source - 1
            lines, before = sweep.lines[j], self.centre[j]
            below = 0.0 if lines.below is None else lines.below
            middle = lines.slope * before + 0.5 * (lines.above + below)
            half = 0.5 * (lines.above - below) + np.abs(lines.slope) * self.open[j] + np.abs(middle) * (4 * layer.unit)
            half = half + self._rounded(j, lines.slope, len(block.weight.T), len(layer.blocks))
            centre = centre + middle @ layer.transposed[number]
            open_ = open_ + sweep._product_up(half, layer.above[number], np.empty_like(open_))
            slopes.append(lines.slope)
        return self._store(k, centre, open_, slopes)

    def _rounded(self, j: int, slope: Array, terms: int, blocks: int) -> Array:
        """What float32 loses in ``W (s ∘ factor)`` for each number that is multiplied, before the weights."""
        return np.asarray(np.abs(slope) * self.norm[j] * (gamma(terms + blocks + 16, U32) * 1.01))

    def _store(self, k: int, centre: Array, open_: Array, slopes: list[Array]) -> tuple[Array, Array]:
        """Keep the form of a layer; the ranges that it gives."""
        layer, ellipsoid = self.weights.network.layers[k], self.ellipsoids[k]
        factor: Any = None
        lost = 0.0
        if ellipsoid is not None:
            factor = ellipsoid.matrix.astype(np.float32)[None]
            centre = centre + ellipsoid.middle
            rounding = norm_up(ellipsoid.matrix) * (self.radius[:, None] * (gamma(len(layer.blocks) + 8, U32)))
            open_ = open_ + ellipsoid.loss + rounding + np.abs(centre) * (4 * U)
        given = iter(slopes)
        for number, block in enumerate(layer.blocks):
            if block.source:
                before, largest = self.factor[block.source - 1], self.weights.largest[k][number]
                slope = next(given).astype(np.float32)
                product = np.matmul(self.weights.single[k][number], slope[:, :, None] * before)
                factor = product if factor is None else factor + product
                size = float(np.abs(before).max(initial=0.0))
                lost = lost + len(before[0]) * (1 + largest) * (2 + size) * (1 + float(np.abs(slope).max(initial=0.0)))
        if factor is None:
            factor = np.zeros((1, layer.width, self._columns), np.float32)
        columns = factor.shape[2]
        # A square of a number below 2^-63 may underflow, and with it all of a norm.
        norm = np.sqrt(np.vecdot(factor, factor).astype(np.float64)) * (1 + gamma(columns + 16, U32)) + ROOT32 * columns
        norm = norm * (self.radius[:, None] * (1 + 4 * U))
        open_ = open_ + self.radius[:, None] * (LEAST32 * (1 + columns) * (1 + lost)) + TINY
        open_ = open_ * (1 + 16 * U)
        self.centre.append(centre)
        self.factor.append(factor)
        self.norm.append(norm)
        self.open.append(open_)
        half = (norm + open_) * (1 + 8 * U) + np.abs(centre) * (4 * U)
        return centre - half, centre + half

    @property
    def _columns(self) -> int:
        return int(next(each.matrix.shape[1] for each in self.ellipsoids if each is not None))


class Joint(Forms):
    """The same of the difference of two runs, and what all its neurons can do together."""

    def __init__(self, weights: Weights, ellipsoids: list[Ellipsoid | None]) -> None:
        super().__init__(weights, ellipsoids)
        self.rest: list[Array] = []  # what is open but for what the next two share
        self.shared: list[list[tuple[int, Array, Mask]]] = []  # block, ε, which neurons of its source are open
        self.slope: list[Array] = []
        self.half: list[Array] = []
        self._kept: dict[int, Float32] = {}

    def _lines(self, sweep: Differences, j: int) -> None:
        """Slopes ``s`` and ``t`` of an activation whose ranges are known by now."""
        least, most = sweep.slopes[j]
        room = (16 * U) * (np.abs(least) + np.abs(most) + 1)
        self.slope.append((least + most) / 2)
        self.half.append(np.where(least == most, 0.0, (most - least) / 2 + room))

    def step(self, sweep: Differences, k: int) -> tuple[Array, Array]:  # type: ignore[override]
        """Go on to layer ``k``."""
        layer, prepared = self.weights.network.layers[k], sweep.prepared
        if len(self.slope) < k:
            self._lines(sweep, k - 1)
        noise = sweep.eta[k][:, None] * (layer.rho * (prepared.noise[k] * 1.01)) + prepared.loose[k] * 1.01
        centre: Array = np.zeros((1, layer.width))
        open_, rest, slopes, shared = noise, noise, [], []
        for number, block in enumerate(layer.blocks):
            if not block.source:
                continue
            j = block.source - 1
            slope, half, middle = self.slope[j], self.half[j], self.slope[j] * self.centre[j]
            above, room = layer.above[number], np.empty_like(noise)
            passed = np.abs(slope) * self.open[j] + np.abs(middle) * (4 * layer.unit) + sweep.doubt[j]
            passed = passed + self._rounded(j, slope, len(block.weight.T), len(layer.blocks))
            passed = np.array(sweep._product_up(passed, above, room))
            most = np.maximum(np.abs(sweep.low[j]), np.abs(sweep.high[j]))
            alone = np.array(sweep._product_up(half * most, above, room))
            least = np.array(sweep._product_up(half * (np.abs(self.centre[j]) + self.open[j]), above, room))
            together, bent = self._together(j, k, number), half > 0
            squares = np.array(sweep._product_up(bent.astype(np.float64), self.weights.squares[k][number], room))
            joint = np.sqrt(squares) * (together[:, None] * (1 + 8 * U)) + SMALL
            open_ = open_ + passed + np.fmin(alone, least + joint)
            rest = rest + passed + least
            centre = centre + middle @ layer.transposed[number]
            shared.append((number, together, bent))
            slopes.append(slope)
        self.shared.append(shared)
        found = self._store(k, centre, open_, slopes)
        # What the store added of its own is open to all alike.
        self.rest.append((rest + np.maximum(self.open[k] - open_, 0.0)) * (1 + 16 * U))
        return found

    def _together(self, j: int, k: int, number: int) -> Array:
        """``ε ≥ ‖t ∘ (N u) / √d‖₂`` of layer ``j`` for the block of layer ``k`` that reads it."""
        weight = (self.half[j] / self.weights.scale[k][number]) ** 2 * (1 + 16 * U) + SMALL
        return np.asarray(np.sqrt(self._largest(j, weight)) * (1 + 8 * U) + SMALL)

    def _largest(self, j: int, weight: Array) -> Array:
        """At least ``radius² λmax(Σ weight_i N_i N_iᵀ)`` (n,)."""
        factor = self.factor[j]
        trace = np.vecdot(weight, self.norm[j] * self.norm[j]) * (1 + gamma(weight.shape[1] + 16)) + SMALL
        top = weight.max(1, keepdims=True) + SMALL
        light = (weight / top).astype(np.float32)
        if len(factor) == 1 and factor.size * factor.shape[2] <= OUTER:
            gram = (light @ self._outer(j)).reshape(len(light), factor.shape[2], factor.shape[2])
        else:
            gram = np.matmul((factor * light[:, :, None]).transpose(0, 2, 1), factor)
        size = float(np.abs(factor).max(initial=0.0))
        doubt = 4 * gamma(weight.shape[1] + 16, U32)
        lost = LEAST32 * weight.shape[1] * factor.shape[2] * (1 + size) ** 2
        found = largest_up(gram) * (1 + 8 * U) + lost
        scale = self.radius * self.radius * (1 + 4 * U)
        return np.asarray(np.fmin(found * scale * top[:, 0] * (1 + 8 * U) + doubt * trace, trace))

    def _outer(self, j: int) -> Float32:
        """``N_i N_iᵀ`` of a factor that all share, flat."""
        factor = self.factor[j][0]
        if j not in self._kept:
            self._kept[j] = (factor[:, :, None] * factor[:, None, :]).reshape(len(factor), -1)
        return self._kept[j]

    def output(self, sweep: Differences, output: int) -> tuple[Array, Array]:
        """The least and the largest difference of an output, by one backward pass with the middle slopes."""
        layers, last, prepared = self.weights.network.layers, len(self.weights.network.layers) - 1, sweep.prepared
        if len(self.slope) < last:
            self._lines(sweep, last - 1)
        carried = {block.source: block.weight[output : output + 1] for block in layers[last].blocks if block.source}
        landing = sweep.landings[last]
        landed: Array | None = None if landing is None else landing.matrix[output : output + 1]
        cost = sweep.eta[last] * (layers[last].rho[output] * prepared.noise[last]) + prepared.loose[last][output]
        for k in range(last - 1, -1, -1):
            c = carried.pop(k + 1, None)
            if c is None:
                continue
            a = np.abs(c)
            charged = a @ prepared.charge[k].T
            cost = cost + charged[:, 0] * (sweep.eta[k] * prepared.rounding[k]) + charged[:, 1]
            cost = cost + self.slack(sweep, k, a * self.half[k]) + (a * sweep.doubt[k]).sum(1)
            g = c * self.slope[k]
            sweep._spread(k, g, None, carried)
            landing = sweep.landings[k]
            if landing is not None:
                product = g @ landing.matrix
                landed = product if landed is None else landed + product
        cost = cost * (1 + 1e-9) + sweep._slack()
        if landed is None:
            return -cost, cost
        landed = np.broadcast_to(landed, (sweep.n, landed.shape[1]))
        up, down = sweep.region.support(landed, slice(None)), sweep.region.support(-landed, slice(None))
        return -(down + cost) - (np.abs(down) + cost) * (4 * U), up + cost + (np.abs(up) + cost) * (4 * U)

    def slack(self, sweep: Differences, k: int, weight: Array) -> Array:
        """At least ``Σ weight_j |D_j|`` (n,) of layer ``k``: neuron by neuron, or together."""
        grow = 1 + gamma(2 * weight.shape[1] + 32)
        most = np.maximum(np.abs(sweep.low[k]), np.abs(sweep.high[k]))
        alone = np.vecdot(weight, most)
        size = np.maximum(self.norm[k], 1e-6 * self.norm[k].max(1, keepdims=True) + 1e-100)
        total = np.vecdot(weight, size)
        joint = np.sqrt(total * self._largest(k, weight / size)) * (1 + 8 * U)
        together = np.vecdot(weight, np.abs(self.centre[k])) + joint + self._open(sweep, k, weight)
        return np.asarray(np.fmin(alone, together) * grow + SMALL)

    def _open(self, sweep: Differences, k: int, weight: Array) -> Array:
        """At least ``Σ weight_j |η_j|``."""
        alone = np.vecdot(weight, self.open[k])
        together = np.vecdot(weight, self.rest[k])
        for number, size, bent in self.shared[k]:
            together = together + size * self._norm(k, number, weight, bent) * (1 + 8 * U)
        return np.asarray(np.fmin(alone, together))

    def _norm(self, k: int, number: int, weight: Array, bent: Mask) -> Array:
        """At least ``√(Σ weight) ‖diag(√weight) W diag(√d)‖₂`` over the open neurons, (n,).

        With ``P`` the part of the matrix that is open, ``‖P‖₂⁴ = ‖P Pᵀ‖₂² ≤ ‖(P Pᵀ)²‖_F``; in float32, with entries of
        at most 1. ``P Pᵀ`` is off by ``γ ‖P‖_F²`` in norm, three roundings of each entry of ``P`` included, and its
        square by ``γ ‖P Pᵀ‖_F²``.
        """
        table, unit = self.weights.scaled[k][number]
        top = weight.max(1) + SMALL
        roots = np.sqrt(weight / top[:, None]).astype(np.float32)
        (row, column), (_, source) = np.nonzero(weight), np.nonzero(bent)
        ends, stops = np.searchsorted(row, np.arange(1, len(weight))), np.cumsum(bent.sum(1))[:-1]
        sizes = np.empty((3, len(weight)))
        for i, (rows, columns) in enumerate(zip(np.split(column, ends), np.split(source, stops), strict=True)):
            part = table.take(rows, 0).take(columns, 1) * roots[i, rows, None]
            part = part if len(rows) <= len(columns) else part.T
            gram = part @ part.T
            square = gram @ gram.T
            sizes[:, i] = [_squares(each[None])[0] for each in (part, gram, square)]
        terms = sum(table.shape)
        whole, half, most = sizes + LEAST32 * table.size**2
        value = np.sqrt(np.sqrt(most) + half * (4 * gamma(terms + 16, U32))) + whole * (4 * gamma(terms + 16, U32))
        norm = np.sqrt(value * (1 + 16 * U)) * (unit * (1 + 8 * U))
        return np.asarray(norm * np.sqrt(weight.sum(1) * top) * (1 + gamma(weight.shape[1] + 32)))


def _squares(a: Any) -> Array:
    """At least the squared Frobenius norm (n,) of matrices (n, p, q), summed in float64."""
    flat = a.reshape(len(a), a.shape[1] * a.shape[2]).astype(np.float64)
    return np.asarray(np.vecdot(flat, flat) * (1 + gamma(flat.shape[1] + 16)))


def largest_up(gram: Any, squares: int = SQUARES) -> Array:
    """At least the spectral norm (n,) of matrices (n, q, q); of symmetric ones it is their largest eigenvalue.

    ``‖P‖₂ = ‖P Pᵀ‖₂^½ ≤ ‖P Pᵀ‖_F^½``. Each matrix is scaled to a Frobenius norm of at most 1 before it is multiplied,
    so that rounding moves the product by at most ``rounding`` in norm.
    """
    q, unit = gram.shape[-1], U32 if gram.dtype == np.float32 else U
    rounding, grow, least = 4 * gamma(q + 16, unit), 1 + 16 * unit, 2.0**-50
    most = np.abs(gram).max((1, 2), initial=0.0)
    gram = gram / np.where(most == 0, 1, most)[:, None, None]
    scales = []
    for _ in range(squares):
        scale = np.sqrt(_squares(gram)) * grow + least
        gram = gram / scale.astype(gram.dtype)[:, None, None]
        gram = np.matmul(gram, gram.transpose(0, 2, 1))
        scales.append(scale.astype(gram.dtype).astype(np.float64))
    value = np.sqrt(_squares(gram)) * grow + rounding + least
    for scale in reversed(scales):
        value = np.sqrt(value) * scale * (1 + 16 * unit) + rounding
    return np.asarray(np.where(most == 0, 0.0, value * most * (1 + 8 * unit) + TINY))
