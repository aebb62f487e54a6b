"""Bounds of one run of a network over regions around known centres.

Problem: for a batch of sets ``x + V`` enclose every output of the network over them. All is said of exact *values*
``z_k(y)``, ``h_k(y)`` for ``y = x + v``: each activation is replaced by a line above and a line below it over the
range of what it reads,

    t z + d  ≤  f(z)  ≤  s z + a,

and a linear function of the outputs is carried backward through the layers: ``c·h`` becomes ``c⁺·(s z + a) + c⁻·(t z
+ d)``, a linear function of ``z``, hence of earlier activations and of the input, where the region's support function
ends it. The ranges come from the same passes, layer by layer.

**Soundness.** Every slope is a hint; intercepts are the activation's own (:mod:`isonomy_verify.activations`). The
coefficients that are carried backward are floats that we chose; that a computed ``c W`` is not the exact one costs
``γ|c||W||h|``, and the exact layer itself is within ``γ(size |h| + |b|)`` of its float weights. Both are at most ``κ
|c|·ρ``, ``ρ`` a vector for each layer and ``κ`` a number for each individual
(:class:`~isonomy_verify.network.Layer`). So rounding is carried backward to the outputs by the very passes that carry
the moves, instead of being multiplied up layer by layer. Whatever overflows ends as an infinite bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from isonomy_verify.activations import Curve
from isonomy_verify.arithmetic import SMALL, TINY, Above, Array, Float32, U
from isonomy_verify.lines import Lines, Sides, parallel, touching
from isonomy_verify.prepared import Prepared, landing_of
from isonomy_verify.regions import BallBox, Index, Region
from isonomy_verify.runs import Run

BLOCK = 512
"""Regions that are bounded together: enough for full speed of products, few enough to stay in cache."""

PASS = 512
"""Single neurons that are bounded by backward passes together."""

LARGE = 1e20
"""Numbers up to here can be multiplied in float32, with weights of up to 1e10."""

DEEP = 8
"""Layers behind which rounding adds up to something, so that it is weighed neuron by neuron."""


class Sweep:
    """Ranges and lines of every layer over one batch of regions."""

    bare = True  # ranges of a layer that reads the input alone leave its own noise out

    def __init__(
        self, prepared: Prepared, x: Array, region: Region | None = None, start: list[Array] | None = None,
        ranges: bool = True,
    ) -> None:  # fmt: skip
        """``region`` holds one set for each row of ``x`` (n, m); without it all share the prepared one.

        ``start``: what each layer reads of ``x`` itself, where another sweep has it already. Without ``ranges``
        nothing is asked of the region but supports: the ranges of layers that read the input come from elsewhere.
        """
        self.prepared, self.network, self.n, self.x = prepared, prepared.network, len(x), x
        shared = prepared.region if region is None else region
        if shared is None:
            raise ValueError("A sweep needs a region.")
        self.region: Region = shared
        self.shared = region is None
        layers = self.network.layers
        self.landings = prepared.landings if region is None else [landing_of(layer, region, ranges) for layer in layers]
        empty: Array = np.empty((0, 0))
        self.low, self.high, self.eta = ([empty] * len(layers) for _ in range(3))
        self.lines: list[Lines] = [Lines(empty, empty, None)] * len(layers)
        self.top = [empty] * (len(layers) + 1)  # sizes of the sources; 0 is the input
        self.top[0] = np.abs(x, out=self._room("top0", x.shape[1]))
        if region is not None:
            self.top[0] += self._extent(region)
        self.under: Array | float = TINY
        self.slack, self.dense_slack = np.zeros(self.n), np.zeros(self.n)
        self.pulls: list[Array] = []  # by which steer led, output by output: coefficients of the region's coordinates
        self.burst = np.zeros(self.n, dtype=bool)  # where a float32 run may overflow
        self.start = [self._start(k) for k in range(len(layers))] if start is None else start
        self._run: Run | None = None  # at x, once it was made
        # Middles, open halves and directions of the last dense layer.
        self._linear: tuple[Array, Array, list[Any]] | None = None

    @property
    def columns(self) -> int:
        """How many coordinates the region has of its own."""
        return next((landing.matrix.shape[1] for landing in self.landings if landing is not None), 0)

    def _room(self, name: str, width: int) -> Array:
        return self.prepared.buffers(name, self.n, width)

    def _extent(self, region: Region) -> Array:
        """How far the input moves, coordinate by coordinate; one that nothing bounds adds nothing only where no path
        leads from it, not where the weights of its paths add up to 0 after rounding, nor where a float32 run multiplies
        it by 0."""
        extent = region.extent
        if np.isfinite(extent).all():
            return extent
        read = np.zeros(extent.shape[1], dtype=bool)
        for layer in self.network.layers:
            if layer.blocks and not layer.blocks[0].source:
                read |= layer.touched[0] if self.prepared.run_unit else (layer.blocks[0].size != 0).any(0)
        return np.where(np.isinf(extent) & ~read, 0.0, extent)

    def sizes(self, source: int) -> Array:
        """How large a source can be, all in all: ``top``, and for the input what a set that all share adds to it."""
        return self.top[source] if source or not self.shared else self.top[0] + self._extent(self.region)

    def _largest(self, source: int) -> Array:
        """The largest number (n, 1) of a source in a float32 run, with the noise that ranges leave out: where large
        numbers cancel it is all that is left, and may overflow behind the next weights."""
        largest = self.sizes(source).max(1, initial=0.0, keepdims=True)
        layer = self.network.layers[source - 1]
        if not source or layer.activation is None or not (layer.reads_input_only and self.bare):
            return np.asarray(largest)
        noise = float(layer.rho.max()) * (self.prepared.noise[source - 1] * 1.01)
        off = self.eta[source - 1][:, None] * noise + float(self.prepared.loose[source - 1].max()) * 1.01
        return np.asarray(largest + layer.activation.shape.steepest * off)

    def _start(self, k: int) -> Array:
        """The bias, and what the layer reads of ``x`` itself: (n, width), or (1, width) where it reads nothing of
        it."""
        layer = self.network.layers[k]
        if self.landings[k] is None:
            return layer.bias[None]
        start = np.matmul(self.x, layer.transposed[0], out=self._room(f"start{k}", layer.width))
        start += layer.bias
        return start

    def run(self) -> Run:
        """The float64 run at ``x``."""
        run = Run([], [self.x])
        for k, layer in enumerate(self.network.layers):
            z = self.start[k]
            for block, weight in zip(layer.blocks, layer.transposed, strict=True):
                if block.source:
                    room = self._room(f"run{k} {block.source}", layer.width)
                    product = np.matmul(run.h[block.source], weight, out=room)
                    product += z
                    z = product
            run.z.append(z)
            if layer.activation is None:
                continue
            if layer.activation.kind == "relu":
                run.h.append(np.maximum(z, 0.0, out=self._room(f"out{k}", layer.width)))
            else:
                run.h.append(layer.activation.shape.value(z))
        self._run = run
        return run

    def of(self, rows: Index) -> Sweep:
        """Some of the regions, or the same ones several times, for more passes from the outputs."""
        other = copy(self)
        other.n, other.x, other.eta = len(rows), self.x[rows], [eta[rows] for eta in self.eta]
        for name in ("start", "low", "high"):
            setattr(other, name, [a[rows] if len(a) == self.n else a for a in getattr(self, name)])
        other.lines = [
            Lines(slope[rows], above[rows], None if below is None else below[rows])
            for slope, above, below in self.lines[:-1]
        ]
        other.under = self.under[rows] if isinstance(self.under, np.ndarray) else self.under
        other.region = self.region if self.shared else self.region[rows]
        return other

    def _slack(self) -> Array:
        """What underflow can take from any pass over the layers."""
        return np.asarray(self.under + SMALL + np.zeros(self.n))

    # -- ranges ------------------------------------------------------------------------------------------------------

    def weigh(self, k: int) -> None:
        """``eta`` of a layer from the sizes of its sources."""
        layer, open_ = self.network.layers[k], self.prepared.open[k]
        eta = self._eta(k)
        for source, grow in zip(open_.sources, open_.grow, strict=True):
            eta = eta + self.eta[source] * grow
        self.eta[k] = (eta + open_.rest) * (1 + 8 * U)
        if self.prepared.run_unit:
            self.burst |= layer.bursts([self._largest(block.source) for block in layer.blocks])
        self.under = self.under + layer.underflow * (1 + self.eta[k])

    def _left_open(self, k: int, name: str) -> Array:
        """What rounding leaves open in a layer that was weighed."""
        open_, weights = self.prepared.open[k], np.empty((self.n, len(self.prepared.open[k].vectors)))
        weights[:, -1] = 1.0
        for i, source in enumerate((k, *open_.sources)):
            weights[:, i] = self.eta[source]
        return np.matmul(weights, open_.vectors, out=self._room(name, self.network.layers[k].width))

    def _eta(self, k: int) -> Array:
        layer = self.network.layers[k]
        return layer.eta([self.top[block.source] for block in layer.blocks], self.prepared.buffers)

    def certain(self, k: int) -> tuple[Array, Array]:
        """Ranges that hold the exact values of a layer, also where :meth:`enclose` leaves its noise out."""
        if not (self.network.layers[k].reads_input_only and self.bare):
            return self.low[k], self.high[k]
        noise = self.eta[k][:, None] * (self.network.layers[k].rho * (self.prepared.noise[k] * 1.01))
        noise = noise + self.prepared.loose[k] * 1.01
        size = (4 * U) * (np.abs(self.low[k]) + np.abs(self.high[k]))
        return self.low[k] - noise - size, self.high[k] + noise + size

    def enclose(self, k: int) -> None:
        """Ranges of a layer from those of its sources, by intervals.

        Ranges of a layer that reads the input alone leave its own noise out: they hold a value within the noise of the
        exact one, and whoever uses them pays for that. All other ranges hold the exact values.
        """
        layer, landing = self.network.layers[k], self.landings[k]
        self.weigh(k)
        if layer.reads_input_only and self.bare:
            assert landing is not None
            self.low[k] = np.add(self.start[k], landing.low, out=self._room(f"low{k}", layer.width))
            self.high[k] = np.add(self.start[k], landing.high, out=self._room(f"high{k}", layer.width))
            self._size(k)
            return
        half, run = self._left_open(k, "half"), self._run_at(k)
        middle: Array = self.start[k] if run is None else run.z[k]
        for number, block in enumerate(layer.blocks):
            if block.source:
                middle, more = self._image(k, number, *self.values(block.source), middle, run)
                half += more
        self._store(k, middle, half, landing is not None or not layer.plain)

    def enclose_densely(self, k: int) -> None:
        """Ranges of all neurons of layer ``k`` of a chain by majorants, with parallel lines around the activations
        before.

        ``z_k`` is ``middle + Σ_r u_r direction_r + …``: along the ball by the directions that were carried here and
        the diagonal of the rest, apart from it by what the lines leave open.
        """
        layer, dense, lines = self.network.layers[k], self.prepared.dense[k], self.lines[k - 1]
        assert dense is not None
        self.weigh(k)
        slope, width, run = lines.slope, layer.width, self._run_at(k)
        before, base, directions = (self.start[0], None, []) if k == 1 else self._linear  # type: ignore[misc]
        first = np.multiply(slope, before, out=self._room("first", slope.shape[1]))
        last = np.add(first, lines.above, out=self._room("last", slope.shape[1]))
        if lines.below is not None:
            first += lines.below
        if base is not None or lines.below is not None:
            doubt = (np.abs(first) + np.abs(last)) * (4 * layer.unit)
            if base is not None:
                doubt += np.abs(slope) * base
            first -= doubt
            last += doubt
        centre, more = self._image(k, 0, first, last, layer.bias if run is None else run.z[k], run)
        open_ = self._left_open(k, f"open{k % 2}")
        open_ += more
        open_ += dense.rest
        room: Any = self.prepared.buffers.single if dense.dtype is np.float32 else self.prepared.buffers
        rounded, scratch = (room(name, self.n, slope.shape[1]) for name in (f"slope{k - 1} rounded", "scratch"))
        np.copyto(rounded, slope, casting="same_kind")
        squares = room("squares", self.n, width)
        np.matmul(np.multiply(rounded, rounded, out=scratch), dense.squares, out=squares)
        fresh = np.matmul(rounded, dense.directions, out=room(f"fresh{k}", self.n, dense.columns * width))
        carried = [fresh[:, r * width : (r + 1) * width] for r in range(dense.columns)]
        for i, each in enumerate(directions):
            np.multiply(rounded, each, out=scratch, casting="same_kind")
            carried.append(np.matmul(scratch, dense.weight, out=room(f"carried{k} {i}", self.n, width)))
        for each in carried:
            squares += np.multiply(each, each, out=room("square", self.n, width))
        half = np.multiply(np.sqrt(squares, out=squares), dense.grow, out=self._room("half", width))
        self._linear = centre, open_, carried
        self._store(k, centre, np.add(half, open_, out=half))

    def _run_at(self, k: int) -> Run | None:
        """The run, if all that a layer reads of it may differ from it in float32."""
        blocks = zip(self.network.layers[k].blocks, self.network.layers[k].single, strict=True)
        usable = self.shared and all(single is not None for block, single in blocks if block.source)
        return self._run if usable else None

    def _image(
        self, k: int, number: int, first: Array, last: Array, middle: Array, run: Run | None
    ) -> tuple[Array, Array]:
        """What a block of a layer makes of numbers between ``first`` and ``last``: ``middle`` and more, and at least
        how far from that.

        With a run, ``middle`` holds its product ``W h`` already. What lies ``p`` below ``last`` and ``q`` above
        ``first`` is in the middle moved by ``(p − q) / 2``, and ``W`` times that is formed in float32: it is off by a
        share of ``|W| (|p| + |q|) / 2``, for which the product with the radius pays (:class:`Above`).
        """
        layer, (n, width) = self.network.layers[k], first.shape
        weight, above, single = layer.single[number], layer.above[number], self.prepared.buffers.single
        half = self._room("noise", layer.width)
        product = self._room(f"middle{k % 2}{number % 2}", layer.width)
        centre = self._room("centre", width)
        if run is not None and weight is not None:
            h = run.h[layer.blocks[number].source]
            p, q, off = single("p", n, width), single("q", n, width), single("off", n, width)
            np.subtract(last, h, out=p, casting="same_kind")
            np.subtract(h, first, out=q, casting="same_kind")
            np.subtract(p, q, out=off)
            radius = np.add(np.abs(p, out=p), np.abs(q, out=q), out=p)
            if float(radius.max(initial=0.0)) < LARGE:
                moved = np.matmul(off, weight, out=single("moved", n, layer.width))
                moved *= 0.5
                radius *= 0.5
                return np.add(middle, moved, out=product), self._product_up(radius, above, half)
        wide = np.subtract(last, first, out=self._room("radius", width))
        wide *= 0.5
        np.subtract(last, wide, out=centre)
        if run is not None:
            centre -= run.h[layer.blocks[number].source]
        np.matmul(centre, layer.transposed[number], out=product)
        product += middle
        return product, self._product_up(wide, above, half)

    def _product_up(self, a: Array | Float32, b: Above, out: Array) -> Array:
        """At least ``a B``, both non-negative."""
        single = self.prepared.buffers.single
        return b.product(a, out, (single("factor32", *a.shape), single("product32", len(a), out.shape[1])))

    def _store(self, k: int, middle: Array, half: Array, clip: bool = True) -> None:
        """Keep a layer's range, no wider than the sizes that rounding is weighed with (``clip``: where it might be),
        and the size of its activation."""
        layer, landing = self.network.layers[k], self.landings[k]
        low = np.subtract(middle, half, out=self._room(f"low{k}", layer.width))
        high = np.add(middle, half, out=self._room(f"high{k}", layer.width))
        # Of a ReLU nothing but the upper end is used for sizes.
        both = layer.activation is None or layer.activation.kind != "relu" or not self.bare
        if clip or both:
            per_eta, rest = self.prepared.most[k]
            most = np.multiply(self.eta[k][:, None], per_eta, out=self._room("noise", layer.width))
            most += rest
            if landing is not None:
                low += landing.low
                high += landing.high
                most += (landing.loss + landing.reach) * 1.01
            np.minimum(high, most, out=high)
            if both:
                np.maximum(low, np.negative(most, out=most), out=low)
        self.low[k], self.high[k] = low, high
        self._size(k)

    def take(self, k: int, low: Array, high: Array) -> None:
        """Ranges of a layer that were proved elsewhere, after :meth:`weigh`."""
        self.low[k], self.high[k] = low, high
        self._size(k)

    def _size(self, k: int) -> None:
        """The size of a layer's activation, from its range."""
        layer = self.network.layers[k]
        if layer.activation is None:
            return
        if layer.activation.kind == "relu":
            self.top[k + 1] = np.maximum(self.high[k], 0.0, out=self._room(f"top{k + 1}", layer.width))
        else:
            first, last = self.values(k + 1)
            self.top[k + 1] = np.maximum(np.abs(first), np.abs(last))

    def values(self, source: int) -> tuple[Array, Array]:
        """The range of an activation."""
        k = source - 1
        activation = self.network.layers[k].activation
        assert activation is not None
        if activation.kind == "relu":
            return np.maximum(self.low[k], 0.0, out=self._room("bottom", self.low[k].shape[1])), self.top[source]
        return Curve(activation, self.low[k], self.high[k], self.prepared.unit32).image()

    # -- lines -------------------------------------------------------------------------------------------------------

    def relax(self, k: int) -> None:
        """Parallel lines around a layer's activation."""
        activation = self.network.layers[k].activation
        assert activation is not None
        if activation.kind == "relu":
            width = self.low[k].shape[1]
            bottom = np.minimum(self.low[k], 0.0, out=self._room(f"above{k}", width))
            slope = np.subtract(self.top[k + 1], bottom, out=self._room(f"slope{k}", width))
            slope += TINY
            np.divide(self.top[k + 1], slope, out=slope)
            bottom *= slope
            self.lines[k] = Lines(slope, np.negative(bottom, out=bottom), None)
        else:
            self.lines[k] = parallel(activation, self.low[k], self.high[k], self.prepared.unit32)

    def bound_neurons(self, k: int, row: Index, column: Index) -> None:
        """Narrower ranges of some neurons of a layer, each by a backward pass with parallel lines, and their lines."""
        if not len(row):
            return
        low, high = np.empty(len(row)), np.empty(len(row))
        for start in range(0, len(row), PASS):
            part = slice(start, start + PASS)
            low[part], high[part] = self._both(k, row[part], column[part])
        low = np.fmax(low, self.low[k][row, column])
        high = np.maximum(np.fmin(high, self.high[k][row, column]), low)
        self.low[k][row, column], self.high[k][row, column] = low, high
        self._renew(k, row, column)

    def _renew(self, k: int, row: Index, column: Index) -> None:
        """Lines and sizes of neurons whose ranges have become narrower."""
        low, high = self.low[k][row, column], self.high[k][row, column]
        layer = self.network.layers[k]
        if layer.activation is None:
            return
        activation = layer.activation.taken(column)
        lines, mine = parallel(activation, low, high, self.prepared.unit32), self.lines[k]
        mine.slope[row, column], mine.above[row, column] = lines.slope, lines.above
        if mine.below is not None:
            mine.below[row, column] = 0.0 if lines.below is None else lines.below
        first, last = Curve(activation, low, high, self.prepared.unit32).image()
        self.top[k + 1][row, column] = np.maximum(np.abs(first), np.abs(last))

    def tighten(self, k: int, share: float | None) -> None:
        """Backward passes for the neurons of layer ``k`` that matter: those with more than ``share`` of the weighted
        slack."""
        lines, weight = self.lines[k], self.prepared.column_weights[k]
        gap = lines.above if lines.below is None else lines.above - lines.below
        score = gap * weight
        row, column = np.nonzero(score > (0.0 if share is None else share) * score.sum(1, keepdims=True))
        self.bound_neurons(k, row, column)

    def _both(self, k: int, row: Index, column: Index) -> tuple[Array, Array]:
        """Both ends of the range of neurons ``column`` of layer ``k`` for regions ``row``."""
        layers = self.network.layers
        carried: dict[int, Array] = {}
        landed: Array | float = 0.0
        noise, loose = layers[k].rho[column] * self.prepared.noise[k], self.prepared.loose[k][column]
        half: Array = (self.eta[k][row] * noise + loose) * 1.01
        middle: Array = self.start[k][row if len(self.start[k]) > 1 else np.zeros_like(row), column]
        size = np.abs(middle)
        self._spread(k, None, column, carried)
        landing = self.landings[k]
        if landing is not None:
            landed = landing.matrix[column]
        for j in range(k - 1, -1, -1):
            c = carried.pop(j + 1, None)
            if c is None:
                continue
            lines = self.lines[j]
            above = lines.above[row]
            a = np.abs(c)
            if lines.below is None:
                step = np.vecdot(c, above) * 0.5
                half += np.vecdot(a, above) * 0.5
            else:
                below = lines.below[row]
                step = np.vecdot(c, above + below) * 0.5
                half += np.vecdot(a, above - below) * 0.5
            g = c * lines.slope[row]
            rho, rest = self.prepared.charge[j]
            half += (a @ rho) * (self.eta[j][row] * self.prepared.rounding[j]) + a @ rest
            start = self.start[j]
            more = g @ start[0] if len(start) == 1 else np.vecdot(g, start[row])
            middle = middle + step + more
            size = size + np.abs(step) + np.abs(more)
            self._spread(j, g, None, carried)
            landing = self.landings[j]
            if landing is not None:
                landed = landed + g @ landing.matrix
        half = half * (1 + 1e-9) + size * ((4 * len(layers) + 16) * U) + self._slack()[row]
        if isinstance(landed, float):
            return middle - half, middle + half
        return middle - half - self.region.support(-landed, row), middle + half + self.region.support(landed, row)

    def _spread(self, k: int, g: Array | None, column: Index | None, carried: dict[int, Array]) -> None:
        """Carry coefficients ``g`` of a layer (or of single neurons of it) to the sources that it reads."""
        for block in self.network.layers[k].blocks:
            if not block.source:
                continue
            if g is None:
                c = block.weight[column]
            else:
                room = self.prepared.buffers(f"carried{k} {block.source}", len(g), block.weight.shape[1])
                c = np.matmul(g, block.weight, out=room)
            carried[block.source] = carried[block.source] + c if block.source in carried else c

    # -- outputs -----------------------------------------------------------------------------------------------------

    def side(
        self,
        output: int | Index,
        sign: float | Array,
        sides: list[Sides],
        trace: dict[int, Array] | None = None,
        multipliers: list[Array] | None = None,
        split: Array | None = None,
    ) -> Array:
        """At least ``sign`` times an output over the regions, by one backward pass with the given lines.

        ``output`` and ``sign`` may differ from row to row. ``multipliers`` (one array for each hidden layer) are hints
        of any sign: ``m (z − low) ≥ 0`` for ``m > 0`` and ``m (z − high) ≥ 0`` for ``m < 0`` are added to what is
        bounded; so is ``split``, for the region. ``trace`` receives the coefficients of each layer's activations, and
        at −1 those of the region.
        """
        return self.sides_within(output, sign, sides, (), trace, multipliers, split)[0]

    def sides_within(
        self,
        output: int | Index,
        sign: float | Array,
        sides: list[Sides],
        within: Sequence[Region],
        trace: dict[int, Array] | None = None,
        multipliers: list[Array] | None = None,
        split: Array | None = None,
    ) -> list[Array]:
        """The same, and over sets within the regions, which the lines hold for as well; all land alike."""
        layers, last, prepared = self.network.layers, len(self.network.layers) - 1, self.prepared
        one = [output] if isinstance(output, int) else output
        signs = np.asarray(sign, dtype=np.float64).reshape(-1, 1)
        carried = {block.source: signs * block.weight[one] for block in layers[last].blocks if block.source}
        landing = self.landings[last]
        landed: Array | None = None if landing is None else signs * landing.matrix[one]
        start = self.start[last]
        total = signs[:, 0] * (start[np.arange(len(start)) if len(start) > 1 else 0, output]) + np.zeros(self.n)
        size = np.abs(total)
        cost = self.eta[last] * (layers[last].rho[output] * prepared.noise[last]) + prepared.loose[last][output]
        for k in range(last - 1, -1, -1):
            c = carried.pop(k + 1, None)
            if c is None:
                if multipliers is None:
                    continue
                c = np.zeros((1, layers[k].width))
            lines, width, landing, start = sides[k], layers[k].width, self.landings[k], self.start[k]
            if trace is not None:
                trace[k] = np.array(c)
            cost += self._charge(k, c)
            if multipliers is not None:
                multiplier, edge = self._edge(k, multipliers[k])
                cost += self._charge(k, multiplier)
            negative = np.minimum(c, 0.0, out=prepared.buffers("negative", len(c), width))
            positive = np.subtract(c, negative, out=c)
            step = np.vecdot(lines.above, positive) if len(positive) > 1 else lines.above @ positive[0]
            if lines.low is not None:
                step = step + np.vecdot(negative, lines.low)
            own = len(c) == self.n  # what is not needed any more is written over
            g = np.multiply(lines.slope, positive, out=positive if own else self._room(f"g{k % 2}", width))
            g += np.multiply(lines.low_slope, negative, out=negative if own else self._room("product", width))
            if multipliers is not None:
                g += multiplier
                shift, most = np.vecdot(multiplier, edge), np.vecdot(np.abs(multiplier), np.abs(edge))
                step = step - shift
                cost += most * (2 * layers[k].unit)
                size += np.abs(shift)
            more = g @ start[0] if len(start) == 1 else np.vecdot(g, start)
            total += step
            total += more
            size += np.abs(step)
            size += np.abs(more)
            self._spread(k, g, None, carried)
            if landing is not None:
                product = g @ landing.matrix
                landed = product if landed is None else landed + product
        bound = total + cost * (1 + 1e-9) + size * ((4 * len(layers) + 32) * U) + self._slack()
        if landed is not None:
            if len(landed) < self.n:
                landed = np.broadcast_to(landed, (self.n, landed.shape[1]))
            if trace is not None:
                trace[-1] = landed
            here = slice(None)
            hinted = split is not None and isinstance(self.region, BallBox)
            reaches = [self.region.support(landed, here, split) if hinted else self.region.support(landed, here)]  # type: ignore[call-arg]
            reaches += [region.support(landed, here) for region in within]
        else:
            reaches = [np.zeros(self.n)] * (1 + len(within))
        bounds = [bound + reach + (np.abs(reach) + np.abs(bound)) * (4 * U) for reach in reaches]
        return [np.where(np.isnan(bound), np.inf, bound) for bound in bounds]

    def _charge(self, k: int, c: Array) -> Array:
        """What coefficients of a layer's activations cost in rounding: ``|c|·charge``, or, in float64 runs of few
        layers, ``‖c‖‖charge‖``, which is little anyway."""
        prepared = self.prepared
        weighed = self.eta[k] * prepared.rounding[k]
        if prepared.run_unit or self.network.depth > DEEP:
            (rho, rest), size = prepared.charge[k], np.abs(c)
            return np.asarray((size @ rho) * weighed + size @ rest)
        length, rest_length = prepared.charge_norms[k]
        return np.asarray((np.sqrt(np.vecdot(c, c)) + SMALL) * (weighed * length + rest_length))

    def _edge(self, k: int, multiplier: Array) -> tuple[Array, Array]:
        """Finite multipliers where the end of the range that they speak of is finite, and that end."""
        edge = np.where(multiplier > 0, self.low[k], self.high[k])
        usable = np.isfinite(edge) & np.isfinite(multiplier)
        return np.where(usable, multiplier, 0.0), np.where(usable, edge, 0.0)

    def sides(
        self, run: Run | None = None, moves: list[Float32] | None = None, sign: float = 1.0, lean: float | None = None
    ) -> list[Sides]:
        """Lines of different slopes, touching at the run plus or minus the moves; without these by the shape of the
        range, or below an open ReLU with the slope ``lean``."""
        found = []
        for k, layer in enumerate(self.network.layers[:-1]):
            assert layer.activation is not None
            width, lines, at = layer.width, self.lines[k], None
            if run is not None and moves is not None:
                at = self.prepared.buffers.single("at", self.n, width)
                np.copyto(at, run.z[k], casting="same_kind")
                (np.add if sign > 0 else np.subtract)(at, moves[k], out=at)
            if layer.activation.kind == "relu":
                below = self._room(f"lean{k}", width)
                if at is not None:
                    np.greater(at, 0.0, out=below)
                elif lean is None:
                    np.greater(lines.slope, 0.5, out=below)
                else:
                    np.copyto(below, np.where((lines.slope > 0) & (lines.slope < 1), lean, lines.slope))
                found.append(Sides(lines.slope, lines.above, below, None))
            else:
                found.append(touching(layer.activation, lines, self.low[k], self.high[k], at, self.prepared.unit32))
        return found
