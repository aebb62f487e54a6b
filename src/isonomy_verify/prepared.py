"""A network made ready: what is the same for all individuals, computed once.

That is the weights of rounding of every layer and, for a ball that all share, how layers meet it and the majorants that
bound all neurons of a layer at once.

**Soundness.** :class:`Prepared` says what its numbers mean; :mod:`isonomy_verify.sweep` says how they are charged.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from isonomy_verify.arithmetic import (
    ELEMENTARY,
    SMALL,
    TINY,
    U32,
    WIDE,
    Array,
    Float32,
    U,
    gamma,
    norm_up,
    single_up,
    spectral_up,
)  # fmt: skip
from isonomy_verify.majorant import majorant
from isonomy_verify.network import Layer, Network
from isonomy_verify.regions import Ball, Landing, Region, Sum

NARROW = 64
"""Networks of narrower layers have no majorants: a backward pass for each open neuron is tighter and costs little."""


READERS = 32
"""Layers that may read one source before the sums over them, in backward passes, need more than a layer's own unit,
which counts at least twice as many roundings more than the layer has."""


VIEWS = 4096
"""Arrays of which a buffer remembers the shape."""


class Buffers(threading.local):
    """Arrays that are used again under the same name; each thread has its own."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, type], Any] = {}
        self._views: dict[tuple[str, int, int, type], Any] = {}

    def __call__(self, name: str, rows: int, width: int) -> Array:
        """An array (rows, width) with any content."""
        view = self._views.get((name, rows, width, np.float64))
        return self._view(name, rows, width, np.float64) if view is None else view  # type: ignore[no-any-return]

    def single(self, name: str, rows: int, width: int) -> Float32:
        """The same in float32."""
        view = self._views.get((name, rows, width, np.float32))
        return self._view(name, rows, width, np.float32) if view is None else view  # type: ignore[no-any-return]

    def _view(self, name: str, rows: int, width: int, dtype: type) -> Any:
        kept = self._kept.get((name, dtype))
        if kept is None or kept.size < rows * width:
            kept = self._kept[name, dtype] = np.empty(max(rows * width, 1), dtype)
            self._views.clear()  # which may keep what was too small
        if len(self._views) >= VIEWS:
            self._views.clear()
        view = self._views[name, rows, width, dtype] = kept[: rows * width].reshape(rows, width)
        return view


class _Dense(NamedTuple):
    """The products that bound all neurons of a layer by a majorant."""

    dtype: type[Any]  # of the three matrices
    squares: Array | Float32  # (in, out): at least W² d
    directions: Array | Float32  # (in, columns · out): W ∘ F_r, side by side
    weight: Array | Float32  # (in, out): for directions that are carried on
    columns: int
    grow: float  # rounding of the root of a sum of squares
    rest: Array  # (out,): rounding of directions


class Prepared:
    """A network and what is the same for all individuals: weights of rounding and, for a ball that all share,
    landings and majorants.

    Exact values of layer ``k`` are within ``noise[k] eta rho + loose[k]`` of what its float weights give; ``lost[k]``
    is what of that no size weighs: the layer's slack and what underflows in a float32 run.
    ``rounding[k] eta rho`` and the second row of ``charge[k]`` are what a coefficient 1 of an activation costs in
    a backward pass: the rounding of its line (slope, intercept, sums over the layer), behind the slope that of the
    layer, and, where ranges leave the noise of a layer out (see :meth:`Sweep.enclose`), twice that noise for applying
    the line to a value that is so much off. No value is above ``eta most[k][0] + most[k][1]`` but for what the region
    adds to it.
    """

    @np.errstate(all="ignore")  # what overflows ends as an infinite bound
    def __init__(
        self,
        network: Network,
        region: Ball | Sum | None = None,
        run_unit: bool = False,
        columns: int = 3,
        runs: int = 1,
    ) -> None:
        """``run_unit``: bounds besides cover a float32 run of the original operations, or the difference of so many
        ``runs``."""
        self.network, self.region, self.run_unit = network, region, run_unit
        self.unit32 = U32 if run_unit else 0.0
        self.landings: list[Landing | None] = [None] * len(network.layers)
        if region is not None:
            self.landings = [landing_of(layer, region) for layer in network.layers]
        self.noise: list[float] = []
        self.rounding: list[float] = []
        self.lost: list[Array] = []
        self.loose: list[Array] = []
        self.charge: list[Array] = []
        readers = Counter(block.source for layer in network.layers for block in layer.blocks)
        for layer, landing in zip(network.layers, self.landings, strict=True):
            shape = None if layer.activation is None else layer.activation.shape
            steepest = 1.0 if shape is None else max(1.0, shape.steepest)
            apart = 2.0 if layer.reads_input_only else 0.0  # other ranges hold the exact values
            factor = 1.0 if shape is None else (2.0 + apart) * 1.01 * steepest
            # What layers carry back to a source that many of them read is rounded with each that joins.
            many = max((readers[block.source] for block in layer.blocks), default=0) - READERS
            unit = layer.unit + max(0, many) * (U * 1.01)
            coarse = layer.unit32 if run_unit else 0.0
            self.noise.append((unit + coarse) * 1.01)
            self.rounding.append((factor * unit + (1.0 + apart) * steepest * coarse) * 1.01)
            loose = (
                np.zeros(layer.width) if landing is None else (landing.loss + (unit + coarse) * landing.reach) * 1.01
            )
            self.lost.append(layer.slack + layer.lost32 if run_unit else layer.slack)
            loose = loose + runs * self.lost[-1]
            self.loose.append(loose + TINY)
            zero = 0.0 if shape is None else 2 * unit * shape.at_zero
            self.charge.append(np.stack([layer.rho, loose * factor * 1.01 + zero + TINY]))
        self.charge_norms = [(float(norm_up(rho)), float(norm_up(rest))) for rho, rest in self.charge]
        # Of a million numbers in float32 the sum may be off by more than a hundredth.
        grow = [max(1.01, (1 + noise) * (1 + 1e-6)) for noise in self.noise]
        self.most = [
            (layer.rho * by, loose * 1.01) for layer, by, loose in zip(network.layers, grow, self.loose, strict=True)
        ]
        self.open = [_Open.of(self, layer) for layer in network.layers]
        self.buffers = Buffers()
        self.dense: list[_Dense | None] = [None] * len(network.layers)
        self.narrow = max(layer.width for layer in network.layers) < NARROW  # a pass for each open neuron costs little
        if columns and isinstance(region, Ball) and region.order == 2 and region.radius > 0 and not self.narrow:
            self._majorants(region, columns)
        self._errors: tuple[list[Array], Array] | None = None
        self.column_weights = [_column_weights(network, k + 1) for k in range(network.depth)]
        self._single: _Single | None = None
        self._alone: Prepared | None = None

    @property
    def alone(self) -> Prepared:
        """The same without the region that all share."""
        if self.region is None:
            return self
        if self._alone is None:
            self._alone = Prepared(self.network, None, self.run_unit)
        return self._alone

    @property
    def errors(self) -> tuple[list[Array], Array]:
        """How far a float64 run at a point can be off, as weights of 1 and the etas of all layers: for each source in
        norm, (1 + layers,) each, and for the outputs one by one, (1 + layers, outputs)."""
        if self._errors is None:
            self._errors = self._growth()
        return self._errors

    @np.errstate(all="ignore")
    def _growth(self) -> tuple[list[Array], Array]:
        """``‖h − ĥ‖₂`` grows by the spectral norm of each block and the steepest slope of each activation.

        **Soundness.** It is linear in 1 and the etas, with no negative weight. What underflow can take is added to
        every weight: an eta may be large.
        """
        layers = self.network.layers
        one, *etas = np.eye(1 + len(layers))
        errors, under = [0 * one], SMALL + 0 * one
        for layer, eta, lost in zip(layers[:-1], etas, self.lost, strict=False):
            error, eta, noise = self._noise(layer, eta, errors)
            under = under + layer.underflow * (1 + eta)
            assert layer.activation is not None
            shape, size = layer.activation.shape, layer.rho_norm
            error = shape.steepest * (error + noise * size + float(norm_up(lost)) * one)
            if layer.activation.kind == "clip":  # limits round, where they are reached
                error = error + self.unit32 * (eta * size + shape.at_zero * layer.width * one + error)
            elif layer.activation.kind != "relu":
                largest = max([abs(p) for p in layer.activation.parameters], default=0.0)
                flat = (max(2 + shape.at_zero, 1 + 2 * shape.at_zero) + largest) * layer.width * one
                error = error + (ELEMENTARY + 32 * self.unit32) * (eta * size * (1 + shape.steepest) + flat)
            errors.append(error * (1 + 1e-9) + SMALL)
        last = layers[-1]
        error, eta, noise = self._noise(last, etas[-1], errors)
        outputs = (error[:, None] + np.outer(noise, last.rho) + np.outer(one, self.lost[-1])) * (1 + 1e-9)
        return errors, outputs + (under + last.underflow * (1 + eta))[:, None]

    def _noise(self, layer: Layer, eta: Array, errors: list[Array]) -> tuple[Array, Array, Array]:
        """What errors of its sources make of a layer's error and of its eta, and its own noise."""
        error = 0 * eta
        for block, scale in zip(layer.blocks, layer.largest_scale, strict=True):
            if block.source:
                norm = spectral_up(block.weight) + layer.unit * float(norm_up(block.size.ravel()))
                error, eta = error + norm * errors[block.source], eta + errors[block.source] * scale
        return error, eta, eta * (layer.run_unit + (layer.unit32 if self.run_unit else 0.0))

    @property
    def single(self) -> _Single:
        """The weights in float32, for hints."""
        if self._single is None:
            self._single = _Single.of(self)
        return self._single

    def _majorants(self, region: Ball, columns: int) -> None:
        """Layer by layer along the chain: directions are carried on, what is left of them is majorised anew."""
        layers, landing = self.network.layers, self.landings[0]
        if landing is None or not layers[0].reads_input_only:
            return
        tail, size, error = landing.matrix * region.radius * (1 + 2 * U), 0.0, 0.0
        for k in range(1, min(len(layers) - 1, 8)):
            layer, before = layers[k], layers[k - 1].activation
            found = majorant(tail, columns)
            if found is None or before is None or [block.source for block in layer.blocks] != [k]:
                return
            weight, grow, steepest = layer.blocks[0].weight, 1 + 2 * layer.unit, before.shape.steepest
            absolute, carried = np.abs(weight), steepest * (np.zeros(weight.shape[1]) + size)
            tail = weight * (np.sqrt(found.diagonal) * (1 + 4 * U))
            squares = (tail * grow) ** 2 + TINY
            tail = tail * (steepest * (1 + 2 * U))
            size = absolute @ (steepest * (size + np.abs(found.directions).sum(1))) * (1 + layer.unit)
            error = (absolute @ (np.zeros(absolute.shape[1]) + steepest * error) + 2 * layer.unit * size) * 1.01 + SMALL
            rest = error + SMALL * (1 + size + steepest * np.sqrt(squares.sum(1)) + absolute.sum(1))
            directions = np.concatenate([(weight * f).T for f in found.directions.T], axis=1) * grow
            dtype: type[Any] = np.float64
            terms, every, unit = len(directions), k * found.directions.shape[1], U
            largest = max(float(np.max(a, initial=0.0)) for a in (np.abs(directions), squares, absolute))
            if terms >= WIDE and float(np.abs(directions).max()) > 2.0**-30 and largest < 1e10 and size.max() < 1e10:
                # In float32: slopes and entries are rounded, and the sums of their products; squares may underflow.
                unit, dtype = U32, np.float32
                each = np.abs(directions).sum(0).reshape(-1, len(weight)) * (gamma(terms + 8, U32) * steepest * 1.01)
                lost = norm_up(each, axis=0) + absolute @ carried * (gamma(terms + 8, U32) * 1.01)
                lost += (terms + every) * 2.0**-70 * (1 + largest + float(size.max())) * (1 + steepest) ** 2
                error, rest = error + lost, rest + lost
            self.dense[k] = _Dense(
                dtype, single_up(squares.T) if dtype is np.float32 else np.ascontiguousarray(squares.T),
                directions.astype(dtype), np.ascontiguousarray(weight.T.astype(dtype)),
                found.directions.shape[1], 1 + 2 * gamma(terms + every + 16, unit), rest,
            )  # fmt: skip


class _Open(NamedTuple):
    """What is left open in a layer by its own rounding and by sources whose ranges leave their noise out.

    ``vectors`` (rows, width): rho, then for each such source what its noise makes of a layer per eta, then all that
    does not grow with eta. ``sources`` are these sources' layers; ``grow`` (one each) and ``rest`` enlarge eta.
    """

    vectors: Array
    sources: list[int]
    grow: list[float]
    rest: float

    @classmethod
    def of(cls, prepared: Prepared, layer: Layer) -> _Open:
        k = next(i for i, each in enumerate(prepared.network.layers) if each is layer)
        vectors, apart, sources, grow, rest = [layer.rho * prepared.noise[k]], np.array(prepared.loose[k]), [], [], 0.0
        for block, scale in zip(layer.blocks, layer.scale, strict=True):
            before = prepared.network.layers[block.source - 1]
            if block.source == 0 or not before.reads_input_only or before.activation is None:
                continue
            steepest, absolute = before.activation.shape.steepest * 1.01, np.abs(block.weight)
            noise, loose = before.rho * prepared.noise[block.source - 1], prepared.loose[block.source - 1]
            vectors.append(absolute @ noise * steepest + TINY)
            apart += absolute @ loose * steepest
            sources.append(block.source - 1)
            grow.append(float(norm_up(scale * noise)) * steepest)
            rest += float(norm_up(scale * loose)) * steepest
        return cls(np.stack([*vectors, apart * 1.01 + TINY]), sources, grow, rest * 1.01)


class _Single(NamedTuple):
    """Weights and landings in float32, as they are and transposed; nothing that uses them proves anything."""

    weights: list[list[tuple[Any, Any]]]
    landings: list[tuple[Any, Any] | None]

    @classmethod
    def of(cls, prepared: Prepared) -> _Single:
        def both(a: Array) -> tuple[Any, Any]:
            with np.errstate(all="ignore"):
                single = np.ascontiguousarray(a.astype(np.float32))
            return single, np.ascontiguousarray(single.T)

        weights = [[both(block.weight) for block in layer.blocks] for layer in prepared.network.layers]
        return cls(weights, [None if landing is None else both(landing.matrix) for landing in prepared.landings])


def _column_weights(network: Network, source: int) -> Array:
    """How much a source's elements weigh in the layers that read it; a hint to which neurons matter."""
    read = [block.weight for layer in network.layers for block in layer.blocks if block.source == source]
    width = network.layers[source - 1].width
    return np.asarray(np.sqrt(sum(((weight * weight).sum(0) for weight in read), np.zeros(width))))


def landing_of(layer: Layer, region: Region, ranges: bool = True) -> Landing | None:
    """How the layer meets the region, if it reads the input."""
    block = layer.blocks[0] if layer.blocks else None
    return region.landing(block.weight, block.size, ranges) if block is not None and block.source == 0 else None
