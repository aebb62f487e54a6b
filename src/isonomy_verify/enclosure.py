"""Ranges and lines of every layer of a network over a batch of regions, and the one backward pass.

A network is layers ``z_k = b_k + Σ W_ks h_s``, ``h_0 = x + v``, ``h_k = f_k(z_k)`` (:mod:`isonomy_verify.network`).
An *enclosure* has for every layer ranges ``low ≤ z ≤ high`` and lines around what is behind the activation,

    t z + below  ≤  h  ≤  s z + above.

Two rules make lines: of an activation over its range (:class:`Run`), and of the difference of an activation at two
places (:mod:`isonomy_verify.differences`). All else is shared: ranges from ranges, and backward passes. A *pass*
carries a linear function ``c·h`` of a layer's activations to the input: ``c⁺·(s z + above) + c⁻·(t z + below)`` is
above it and linear in ``z``, hence in earlier activations and in ``v``, where the support function of the region ends
it.

**Premises.** ``top ≥ |h|`` for every source; ``S ≥ size·top + |b|`` row by row, so that every sum of products in a
layer is at most ``S``; the layer's unit ``γ``, which counts three roundings for every number that it reads or gives
(``γ_in`` one for each that it reads, ``γ_w`` one for each of the widest of its sides) and those of merging (``γ_r``).

**Conclusion.** With ``noise = γ S + γ reach + loss + slack``, ``|f'|`` the activation's steepest slope and lines
widened outward by ``noise max(1, |f'|) + 2γ |above|``, a pass with the float coefficients that it computes bounds the
exact function, up to the sum of its own terms.

**Argument.** Coefficients ``c`` of a layer's activations are floats, chosen by us. (1) ``g = fl(c s)`` moves the bound
by ``u |c s z|``; (2) the exact weights are within ``γ_r size`` of the float ones, ``γ_r |g| S``; (3) the computed
``fl(g W)``, summed over readers, is within ``γ_w |g||W|`` of the exact one, ``γ_w |g| S``; (4) ``fl(x W + b)`` and its
product with ``g`` are off by ``(γ_in + γ_w) |g| S``; (5) so is the product with the linear image's matrix, ``γ_w |g|
reach``, which leaves out ``|g| loss``. As ``|g| ≤ |c| max(1, |f'|)`` and ``γ ≥ 3γ_in + 3γ_w + γ_r``, the first widening
pays for all of it. (6) Products of ``c`` with the intercepts are off by ``γ_w |c||above|``, for which the second one
pays. Ranges from ranges are sums of the same products. **Side condition**: no slope exceeds ``max(1, |f'|)``.

Where float32 runs are covered, ``h`` and ``z`` may be those of such a run as well: their own noise is added to that of
each layer, and images and lines hold for activations computed in float32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.activations import Activation, Curve
from isonomy_verify.arithmetic import TINY, U32, Array, Float32, U
from isonomy_verify.lines import Lines, parallel, touching
from isonomy_verify.network import Layer, Network
from isonomy_verify.regions import Ball, BallBox, Index, LinearImage, Region, Sum

Ends = tuple[Array, Array]

BLOCK = 256
"""Regions that are bounded together: few enough for their layers to stay in cache."""

PASS = 512
"""Single neurons that are bounded by a pass together."""

NARROW = 64
"""Numbers of which a layer has fewer where passes and runs cost little."""

AVERAGES = 5
"""Passes for each end of an output of such networks of ReLUs, each with lines that the ones before chose."""

READERS = 32
"""Layers that may read one source before the sums over them need more than a layer's own unit."""


Relax = Callable[[int, Array, "Rows"], tuple[Array, Array, Array | float]]
"""Carry coefficients of a layer's activations through their lines: coefficients of its values, what is added, and how
far the result may be off to both sides."""

Rows = slice | Index


def hull(low: Array, high: Array) -> Ends:
    """Return ends of which what is no number says nothing; an empty range becomes a point."""
    low = np.fmax(low, -np.inf)
    return low, np.maximum(low, np.fmin(high, np.inf))


def minus(a: Ends, b: Ends) -> Ends:
    """Return the range of a difference of numbers in two ranges, outward."""
    low, high = a[0] - b[1], a[1] - b[0]
    slack = (4 * U) * (np.abs(a[0]) + np.abs(a[1]) + np.abs(b[0]) + np.abs(b[1])) + TINY
    return low - slack, high + slack


def both(a: Ends, b: Ends) -> Ends:
    """Return what two ranges of the same number have in common."""
    return hull(np.fmax(a[0], b[0]), np.fmin(a[1], b[1]))


class Prepared:
    """A network, whether float32 runs of it are covered, and how it meets a region that all rows share."""

    @np.errstate(all="ignore")
    def __init__(self, network: Network, region: Ball | Sum | None = None, float32_run: bool = False) -> None:
        self.network, self.region, self.float32_run = network, region, float32_run
        self.unit32 = U32 if float32_run else 0.0
        self.linear_images = [None if region is None else linear_image_of(layer, region) for layer in network.layers]
        readers = Counter(block.source for layer in network.layers for block in layer.blocks)
        more = [max((readers[block.source] for block in layer.blocks), default=0) for layer in network.layers]
        self.units = [
            layer.unit + max(0, many - READERS) * (2 * U) for layer, many in zip(network.layers, more, strict=True)
        ]

    @property
    def narrow(self) -> bool:
        """Return whether all layers are narrow, so that passes and runs cost little."""
        return max(layer.width for layer in self.network.layers) < NARROW

    @property
    def straight(self) -> bool:
        """Return whether all activations are ReLUs."""
        return {layer.activation.kind for layer in self.network.layers if layer.activation is not None} == {"relu"}


def linear_image_of(layer: Layer, region: Region, ranges: bool = True) -> LinearImage | None:
    """Return how a layer that reads the input meets the region; None where it does not."""
    block = layer.blocks[0] if layer.blocks else None
    return None if block is None or block.source else region.linear_image(block.weight, block.size, ranges)


class Weighed(NamedTuple):
    """At least the ``eta`` (n,) of the first layer for the sizes of its input, their sums (n,) and the largest (n,)."""

    eta: Array
    sums: Array
    most: Array

    @classmethod
    def of(cls, prepared: Prepared, sizes: Array, biased: bool) -> Weighed:
        """Weigh sizes (n, m)."""
        eta = prepared.network.layers[0].eta([sizes], biased)
        return cls(np.broadcast_to(eta, len(sizes)), sizes.sum(1), sizes.max(1, initial=0.0))


def extent_of(prepared: Prepared, region: Region) -> Array:
    """Return how far the input moves (rows, m); a coordinate that nothing bounds counts unless no run multiplies it by
    anything."""
    extent = region.extent
    if np.isfinite(extent).all():
        return extent
    read = np.zeros(extent.shape[1], dtype=bool)
    for layer in prepared.network.layers:
        if layer.blocks and not layer.blocks[0].source:
            read |= layer.touched[0] if prepared.float32_run else (layer.blocks[0].size != 0).any(0)
    return np.where(np.isinf(extent) & ~read, 0.0, extent)


class Enclosure:
    """Ranges and lines of every layer over the regions ``x + v``, a row each; subclasses make the lines."""

    biased = True  # whether layers have their bias; differences have none

    def __init__(
        self,
        prepared: Prepared,
        x: Array,
        region: Region | None = None,
        start: Sequence[Array] | None = None,
        linear_images: Sequence[LinearImage | None] | None = None,
        weighed: Weighed | None = None,
    ) -> None:
        """``region`` holds one set for each row of ``x`` (n, m), or one for all; without it all share the prepared one.

        ``start`` is what each layer reads of ``x`` itself, ``linear_images`` how it meets the region, if that is known.
        Where the first layer alone reads the input, its sizes may be given as ``weighed``; then neither ``x``, which
        may be (n, 0), nor the region is looked at, and there are no passes.
        """
        self.prepared, self.network, self.layers = prepared, prepared.network, prepared.network.layers
        self.x, self.n = x, len(x)
        own = prepared.region if region is None else region
        if own is None:
            raise ValueError("An enclosure needs a region.")
        self.region: Region = own
        shared = prepared.linear_images if region is None else None
        known = shared if linear_images is None else linear_images
        self.linear_images = [linear_image_of(layer, own) for layer in self.layers] if known is None else list(known)
        self.start = list(start) if start is not None else [self._start(k) for k in range(len(self.layers))]
        self.weighed = weighed
        sizes = x if weighed is not None else (np.abs(x) if self.biased else 0.0) + extent_of(prepared, own)
        self.top = [np.broadcast_to(sizes, x.shape)]
        self.noise: list[Array] = []
        self.range: list[Ends] = []
        self.lines: list[Lines] = []
        self.values: list[Ends] = [(x, x)]  # ranges of the sources; that of the input is never asked for
        self.under = np.full(self.n, TINY)  # what underflow can take from a pass
        self.overflow = np.zeros(self.n, dtype=bool)  # where a float32 run may overflow
        self.directions: list[Array] = []  # output by output, about its slope in the region's own coordinates: hints
        self._kept: dict[int, tuple[Lines, Ends]] = {}

    def _start(self, k: int) -> Array:
        """Return the bias, and what the layer reads of ``x`` itself: (n, width), or (1, width) where that is
        nothing."""
        layer = self.layers[k]
        bias = layer.bias[None] if self.biased else np.zeros((1, layer.width))
        return bias if self.linear_images[k] is None or not self.biased else self.x @ layer.transposed[0] + bias

    # -- rounding ----------------------------------------------------------------------------------------------------

    def sizes(self, k: int) -> Array:
        """Return at least ``size·top + |b|`` of a layer (n, width), to which all its roundings are relative."""
        layer = self.layers[k]
        first = None if k else self.weighed
        eta = layer.eta([self.top[block.source] for block in layer.blocks], self.biased) if first is None else first.eta
        return np.broadcast_to(eta, self.n)[:, None] * layer.rho

    def weigh(self, k: int) -> None:
        """Bound how far the exact values of a layer are from what its float weights make of exact sources."""
        layer, linear_image, unit = self.layers[k], self.linear_images[k], self.prepared.units[k]
        if self.prepared.float32_run:
            unit = unit + layer.unit32
            self.overflow |= layer.overflows(self._largest(k))
        size = self.sizes(k)
        noise = size * unit + self.off(k)
        if linear_image is not None:
            noise = noise + linear_image.loss + unit * linear_image.reach
        self.noise.append(noise * 1.01 + TINY)
        tops = sum((self.top[block.source].sum(1) for block in layer.blocks), np.zeros(1))
        tops = tops if k or self.weighed is None else self.weighed.sums
        self.under = self.under + TINY * (1 + tops + size.sum(1))

    def _largest(self, k: int) -> list[Array]:
        """Return the sizes of a layer's sources in a float32 run."""
        if self.weighed is not None and not k:
            return [self.weighed.most[:, None]]
        return [self.top[block.source] for block in self.layers[k].blocks]

    def off(self, k: int) -> Array:
        """Return how far a layer (width,) may be off by what no size weighs."""
        layer = self.layers[k]
        return layer.slack + layer.lost32 if self.prepared.float32_run else layer.slack

    def _widened(self, k: int, at: tuple[Index, Index] | None, lines: Lines) -> Lines:
        """Return lines that hold for what floats make of them as well."""
        shape, unit, noise = self._shape(k), 2 * self.prepared.units[k], self.noise[k]
        if at is not None:
            noise = noise[at] if len(noise) > 1 else noise[0, at[1]]
        charge = noise * max(1.0, shape) if shape > 1 else noise
        above = lines.above + (charge + unit * np.abs(lines.above))
        return lines._replace(above=above, below=lines.below - (charge + unit * np.abs(lines.below)))

    def _shape(self, k: int) -> float:
        activation = self.layers[k].activation
        assert activation is not None
        return activation.shape.steepest

    # -- ranges ------------------------------------------------------------------------------------------------------

    def forward(self, passes: bool = True, lines: bool = True) -> Self:
        """Make ranges and, on request, ``lines``, layer by layer: from ranges, then by ``passes`` for each open
        neuron."""
        for k in range(len(self.layers)):
            self.step(k, passes, lines)
        return self

    def step(self, k: int, passes: bool = True, lines: bool = True) -> None:
        """Go on to layer ``k``."""
        self.weigh(k)
        low, high = self.narrowed(k, self.interval(k))
        shape = self.n, self.layers[k].width
        self.range.append((np.broadcast_to(low, shape), np.broadcast_to(high, shape)))
        if k < len(self.layers) - 1:
            self.relax(k, lines)
            if passes and k:
                self.tighten(k)

    def narrowed(self, k: int, ends: Ends) -> Ends:
        """Return the range of a layer, narrowed by what else is known of it."""
        return ends

    def interval(self, k: int) -> Ends:
        """Return the range of a layer from those of its sources."""
        layer, linear_image, middle, half = self.layers[k], self.linear_images[k], self.start[k], self.noise[k]
        for number, block in enumerate(layer.blocks):
            if block.source:
                low, high = self.values[block.source]
                wide = high / 2 - low / 2
                middle = middle + (high - wide) @ layer.transposed[number]
                half = half + wide @ layer.absolute[number]
        half = half * (1 + 2 * layer.unit)
        low, high = middle - half, middle + half
        return hull(low, high) if linear_image is None else hull(low + linear_image.low, high + linear_image.high)

    def relax(self, k: int, wanted: bool = True) -> None:
        """Make the range behind a layer's activation and, if ``wanted``, the lines around it."""
        lines, ends = self._lines(k, None, wanted)
        if lines is not None:
            self.lines[k:] = [self._widened(k, None, lines)]
        self.values[k + 1 :] = [ends]
        self.top[k + 1 :] = [np.maximum(np.abs(ends[0]), np.abs(ends[1]))]

    def tighten(self, k: int) -> None:
        """Bound every open neuron of a layer by a pass, and make their lines again."""
        row, column = np.nonzero(self.open(k))
        if not len(row):
            return
        low, high = (np.array(np.broadcast_to(end, (self.n, self.layers[k].width))) for end in self.range[k])
        for first in range(0, len(row), PASS):
            at = row[first : first + PASS], column[first : first + PASS]
            low[at], high[at] = both((low[at], high[at]), self.neurons(k, *at))
        self.range[k] = low, high
        self._renew(k, row, column)

    def _renew(self, k: int, row: Index, column: Index) -> None:
        """Make lines and ranges behind some neurons again."""
        at = row, column
        lines, ends = self._lines(k, at)
        assert lines is not None
        for mine, new in zip(self.lines[k], self._widened(k, at, lines), strict=True):
            mine[at] = new
        self._kept.pop(k, None)
        for end, new in zip(self.values[k + 1], ends, strict=True):
            end[at] = new
        self.top[k + 1][at] = np.maximum(np.abs(ends[0]), np.abs(ends[1]))

    def open(self, k: int) -> NDArray[np.bool_]:
        """Return where (n, width) a layer's activation leaves something open."""
        raise NotImplementedError

    def _lines(self, k: int, at: tuple[Index, Index] | None, wanted: bool = True) -> tuple[Lines | None, Ends]:
        """Return lines around a layer's activation, if they are ``wanted``, and the range behind it; of single neurons,
        (k,), if ``at`` says so."""
        raise NotImplementedError

    # -- the backward pass -------------------------------------------------------------------------------------------

    def neurons(self, k: int, row: Rows, column: Index | int, relax: Relax | None = None) -> Ends:
        """Return both ends of neurons ``column`` of layer ``k`` over regions ``row``, by parallel lines, or by what
        ``relax`` makes of coefficients."""
        input_coefficients, total, cost = self._pass(k, row, column, 1.0, self._parallel if relax is None else relax)
        return self._ends(input_coefficients, total, cost, row, self.region)

    def _ends(self, input_coefficients: Array, total: Array, cost: Array, rows: Rows, region: Region) -> Ends:
        """Return both ends of what a pass gave, over a region or a part of it."""
        up, down = self._reach(input_coefficients, rows, region), self._reach(-input_coefficients, rows, region)
        return hull(total - cost - down, total + cost + up)

    def side(
        self,
        output: Index | int,
        sign: float | Array,
        lines: Sequence[Lines],
        within: Sequence[Region] = (),
        multipliers: Sequence[Array] | None = None,
        split: Array | None = None,
    ) -> tuple[Array, list[Array]]:
        """Return the coefficients of the region's coordinates of one pass with the given lines, and at least ``sign``
        times an output over the regions (n,), and over each part ``within`` them.

        ``output`` and ``sign`` may differ from row to row. ``multipliers`` (one array for each hidden layer) are hints
        of any sign: ``m (z − low) ≥ 0`` for ``m > 0`` and ``m (z − high) ≥ 0`` for ``m < 0`` are added to what is
        bounded; ``split`` is one for the region's support.
        """

        def relax(j: int, c: Array, rows: Rows) -> tuple[Array, Array, Array | float]:
            g, step = _along(lines[j], c)
            if multipliers is None:
                return g, step, 0.0
            multiplier, edge = self._edge(j, multipliers[j])
            moved = _dot(multiplier, edge)
            cost = _dot(np.abs(multiplier), self.noise[j] * 2 + np.abs(edge) * (2 * self.prepared.units[j]))
            return g + multiplier, step - moved, cost

        last = len(self.layers) - 1
        input_coefficients, total, cost = self._pass(last, slice(None), output, sign, relax, multipliers is not None)
        bound = total + cost
        if split is not None and isinstance(self.region, BallBox):
            first = self.region.support(input_coefficients, slice(None), split)
            reaches = [first + (4 * U) * np.abs(first)]
        else:
            reaches = [self._reach(input_coefficients, slice(None), self.region)]
        reaches += [self._reach(input_coefficients, slice(None), region) for region in within]
        return input_coefficients, [_above(bound, reach) for reach in reaches]

    def _edge(self, k: int, multiplier: Array) -> tuple[Array, Array]:
        """Return finite multipliers where the end of the range that they speak of is finite, and that end."""
        low, high = self.range[k]
        edge = np.where(multiplier > 0, low, high)
        usable = np.isfinite(edge) & np.isfinite(multiplier)
        return np.where(usable, multiplier, 0.0), np.where(usable, edge, 0.0)

    def _parallel(self, j: int, c: Array, rows: Rows) -> tuple[Array, Array, Array | float]:
        middle, wide = self._middle(j)
        return self.lines[j].slope[rows] * c, _dot(c, middle[rows]), _dot(np.abs(c), wide[rows])

    def _middle(self, j: int) -> Ends:
        """Return the middle of a layer's parallel lines, and how far they are from it."""
        lines = self.lines[j]
        if self._kept.get(j, (None,))[0] is not lines:
            self._kept[j] = lines, ((lines.above + lines.below) / 2, (lines.above - lines.below) / 2)
        return self._kept[j][1]

    def _pass(
        self, k: int, rows: Rows, column: Index | int, sign: float | Array, relax: Relax, everywhere: bool = False
    ) -> tuple[Array, Array, Array]:
        """Carry ``sign`` times neurons of layer ``k`` to the input: coefficients of the region's coordinates, a number,
        and how far the result may be off. ``everywhere``: also through layers that nothing reads."""
        layers, n = self.layers, len(self.under[rows])
        columns, signs = np.atleast_1d(column), np.asarray(sign, dtype=np.float64).reshape(-1, 1)
        total = signs[:, 0] * _entries(self.start[k], rows, column) + np.zeros(n)
        cost = _entries(self.noise[k], rows, column) + np.zeros(n)
        size = np.abs(total)
        carried = {block.source: block.weight[columns] for block in layers[k].blocks if block.source}
        if (signs != 1).any():
            carried = {source: signs * c for source, c in carried.items()}
        read = self.linear_images[k]
        input_coefficients: Array = np.zeros((1, 1)) if read is None else signs * read.matrix[columns]
        for j in range(k - 1, -1, -1):
            c = carried.pop(j + 1, None)
            if c is None:
                if not everywhere:
                    continue
                c = np.zeros((1, layers[j].width))
            g, step, more = relax(j, c, rows)
            along = _dot(g, self.start[j] if len(self.start[j]) == 1 else self.start[j][rows])
            total, cost = total + step + along, cost + more
            size = size + np.abs(step) + np.abs(along)
            for block in layers[j].blocks:
                if block.source:
                    back = g @ block.weight
                    carried[block.source] = carried[block.source] + back if block.source in carried else back
            linear_image = self.linear_images[j]
            if linear_image is not None:
                input_coefficients = input_coefficients + g @ linear_image.matrix
        cost = cost * (1 + 1e-9) + (size + cost) * ((4 * len(layers) + 32) * U) + self.under[rows]
        return np.broadcast_to(input_coefficients, (n, self.columns)), total, cost

    def _reach(self, input_coefficients: Array, rows: Rows, region: Region) -> Array:
        if not input_coefficients.shape[1]:
            return np.zeros(len(input_coefficients))
        most = region.support(input_coefficients, rows)
        return most + (4 * U) * np.abs(most)

    @property
    def columns(self) -> int:
        """Return how many coordinates the region has of its own."""
        return next((image.matrix.shape[1] for image in self.linear_images if image is not None), 0)


def _above(bound: Array, reach: Array) -> Array:
    """Return at least the sum of what a pass adds and of what the region does; infinity for what is no number."""
    return np.asarray(np.fmin(bound + reach + (4 * U) * (np.abs(bound) + np.abs(reach)), np.inf))


def _along(lines: Lines, c: Array) -> Ends:
    """Return coefficients of a layer's values that are above those ``c`` of its activations, and what is added."""
    negative = np.minimum(c, 0.0)
    positive = c - negative
    g = lines.slope * positive + lines.low_slope * negative
    return g, _dot(positive, lines.above) + _dot(negative, lines.below)


def _entries(a: Array, rows: Rows, column: Index | int) -> Array:
    """Return the entries of some rows in a column, or in one of its own for each; ``a`` may be one row for all."""
    if len(a) == 1:
        return np.asarray(a[0, column])
    if isinstance(rows, slice) and np.ndim(column):
        rows = np.arange(len(a))[rows]
    return np.asarray(a[rows, column])


def _dot(a: Array, b: Array) -> Array:
    """Return the sums of products, row by row; either may be one row for all."""
    if len(a) == 1:
        return np.asarray(b @ a[0])
    return np.asarray(a @ b[0] if len(b) == 1 else np.vecdot(a, b))


class Run(Enclosure):
    """One run of the network."""

    def open(self, k: int) -> NDArray[np.bool_]:
        """Return where (n, width) the activation is not straight."""
        return self._activation(k).bends(*self.range[k])

    def _activation(self, k: int) -> Activation:
        activation = self.layers[k].activation
        assert activation is not None
        return activation

    def _lines(self, k: int, at: tuple[Index, Index] | None, wanted: bool = True) -> tuple[Lines | None, Ends]:
        low, high = self.range[k] if at is None else (end[at] for end in self.range[k])
        activation = self._activation(k) if at is None else self._activation(k).taken(at[1])
        unit32 = self.prepared.unit32
        ends = image(activation, low, high, unit32)
        return Lines(*parallel(activation, low, high, unit32)) if wanted else None, ends

    def neurons(self, k: int, row: Rows, column: Index | int, relax: Relax | None = None) -> Ends:
        """Return both ends of neurons by parallel lines and, in narrow networks of ReLUs, by lines that touch where the
        pass with these is largest."""
        if relax is not None or not (self.prepared.narrow and self.prepared.straight):
            return super().neurons(k, row, column, relax)
        direction, total, cost = self._pass(k, row, column, 1.0, self._parallel)
        ends = self._ends(direction, total, cost, row, self.region)
        if not direction.shape[1]:
            return ends
        move, sides = moves(self.region, self.region.maximiser(direction, row), self.x.shape[1]), []
        for sign in (-1.0, 1.0):
            steep = [z > 0 for z in self.network.run(self.x[row] + sign * move)[:k]]

            def relax_by(
                j: int, c: Array, rows: Rows, steep: list[NDArray[np.bool_]] = steep
            ) -> tuple[Array, Array, Array | float]:
                slope, above, _, below = (side[rows] for side in self.lines[j])
                return *_along(Lines(slope, above, steep[j].astype(np.float64), below), c), 0.0

            coefficients, total, cost = self._pass(k, row, column, sign, relax_by)
            sides.append(_above(total + cost, self._reach(coefficients, row, self.region)))
        return both(ends, (-sides[0], sides[1]))

    # -- the outputs -------------------------------------------------------------------------------------------------

    def outputs(self, within: Sequence[Region] = (), passes: bool = True) -> list[Ends]:
        """Return the ranges of the outputs over the regions, and over each part ``within`` them: by intervals and, with
        ``passes``, by one pass with parallel lines and one for each end with lines that touch where it is largest."""
        last = len(self.layers) - 1
        found = [(np.array(self.range[last][0]), np.array(self.range[last][1])) for _ in (0, *within)]
        if not passes or not last:
            return found
        for j in range(self.layers[last].width):
            direction, total, cost = self._pass(last, slice(None), j, 1.0, self._parallel)
            self.directions.append(direction)
            for (low, high), region in zip(found, (self.region, *within), strict=True):
                ends = self._ends(direction, total, cost, slice(None), region)
                low[:, j], high[:, j] = both((low[:, j], high[:, j]), ends)
            move = self._move(direction)
            for sign, lines in self._choices(move) if direction.shape[1] else ():
                self._meet(found, j, sign, self.side(j, sign, lines, within)[1])
            if direction.shape[1] and self.prepared.narrow and self.prepared.straight:
                self._average(found, j, move, within)
        return [hull(*ends) for ends in found]

    @staticmethod
    def _meet(found: list[Ends], output: int, sign: float, bounds: list[Array]) -> None:
        """Narrow the ranges of an output by bounds of ``sign`` times it, in place."""
        for (low, high), bound in zip(found, bounds, strict=True):
            if sign > 0:
                high[:, output] = np.fmin(high[:, output], bound)
            else:
                low[:, output] = np.fmax(low[:, output], -bound)

    def _choices(self, move: Array) -> Iterator[tuple[float, list[Lines]]]:
        """Yield signs and lines for an output: those that touch the network at this ``move`` (n, m), where a pass was
        largest, and at its opposite, and those by the shape of the ranges."""
        # Lines that touch at one place are nearly always better for ReLUs, and not so often for others; in narrow
        # networks, where passes cost little, those below open ReLUs are all flat and all steep, too.
        narrow, straight = self.prepared.narrow, self.prepared.straight
        least = (0.5, 1.0, 5e-324) if narrow else () if straight else (0.5,)
        others = [[self._low_slopes(k, lines.slope >= most) for k, lines in enumerate(self.lines)] for most in least]
        for sign in (1.0, -1.0):
            if not (narrow and straight):
                yield sign, self.touching(self.x + sign * move)
            for lines in others:
                yield sign, lines

    def _move(self, direction: Array) -> Array:
        """Return about the move (n, m) at which these coefficients of the region's coordinates are largest."""
        return moves(self.region, self.region.maximiser(direction, slice(None)), self.x.shape[1])

    def _average(self, found: list[Ends], output: int, move: Array, within: Sequence[Region]) -> None:
        """Narrow the ranges of an output, in place, by lines below ReLUs with the mean slope of all that touched where
        the pass before was largest: the first at this ``move`` (n, m), or its opposite.

        The bound is convex in these slopes, and what touches is the best answer to one place: their averages approach
        the best slopes (fictitious play).
        """
        for sign in (1.0, -1.0):
            lines, place = self.lines, sign * move
            for count in range(1, AVERAGES + 1):
                new = self.touching(self.x + place)
                slopes = (a.low_slope + (b.low_slope - a.low_slope) / count for a, b in zip(lines, new, strict=True))
                lines = [mine._replace(low_slope=slope) for mine, slope in zip(new, slopes, strict=True)]
                direction, bounds = self.side(output, sign, lines, within)
                self._meet(found, output, sign, bounds)
                place = self._move(direction)

    def touching(self, y: Array) -> list[Lines]:
        """Return lines that touch the network at points ``y`` (n, m), as far as lines over the whole ranges can."""
        return [self.touched(k, z) for k, z in enumerate(self.network.run(y)[:-1])]

    def touched(self, k: int, z: Array | Float32 | None) -> Lines:
        """Return lines of a layer that touch its activation near ``z``; without one, parallel lines."""
        activation, unit32 = self._activation(k), self.prepared.unit32
        if activation.kind == "relu":
            return self.lines[k] if z is None else self._low_slopes(k, z > 0)
        return self._widened(k, None, Lines(*touching(activation, *self.range[k], z, unit32)))

    def _low_slopes(self, k: int, steep: NDArray[np.bool_]) -> Lines:
        """Return the lines of a layer, those below open ReLUs steep or flat."""
        relu = self._activation(k).kind == "relu"
        return self.lines[k]._replace(low_slope=steep.astype(np.float64)) if relu else self.lines[k]


def image(activation: Activation, low: Array, high: Array, unit32: float) -> Ends:
    """Return ends of what an activation makes of ranges."""
    if activation.kind == "relu":
        return np.maximum(low, 0.0), np.maximum(high, 0.0)
    return Curve(activation, low, high, unit32).image()


def moves(region: Region, place: Array, width: int) -> Array:
    """Return about the move (n, width) of the input at a place in a region's own coordinates: a hint."""
    if isinstance(region, Ball):
        return np.asarray(place @ region.inverse.T)
    if isinstance(region, Sum):
        first, second, _ = region.parted(place)
        return moves(region.first, first, width) + moves(region.second, second, width)
    assert isinstance(region, BallBox)
    move = np.zeros((len(place), width))
    move[:, region.columns] = place
    return move
