"""Runs of a network at points, in float64, and how far the exact outputs can be from what they give.

**Soundness.** Rounding is bounded by products of norms (:attr:`isonomy_verify.prepared.Prepared.errors`). All weights
are positive: what computing and adding them up loses is far below the factors that every layer is enlarged by. Where an
eta is infinite nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.network import Network
from isonomy_verify.prepared import Prepared


class Run(NamedTuple):
    """Pre-activations of a float64 run at points, layer by layer; the last are the outputs."""

    z: list[Array]
    h: list[Array]  # h[0] is the input

    @classmethod
    def of(cls, network: Network, x: Array) -> Run:
        """Run the layers at the rows of ``x``."""
        run = cls([], [x])
        for layer in network.layers:
            z: Array = layer.bias[None]
            for block, weight in zip(layer.blocks, layer.transposed, strict=True):
                product = run.h[block.source] @ weight
                product += z
                z = product
            run.z.append(np.broadcast_to(z, (len(x), layer.width)))
            if layer.activation is not None:
                run.h.append(layer.activation.shape.value(run.z[-1]))
        return run


def enclose_run(prepared: Prepared, run: Run, etas: Sequence[Array] | None = None) -> tuple[Array, Array]:
    """Enclosures of the exact outputs at the points of a run, by its rounding errors as products of norms.

    ``etas``: those of layers over sets that hold the points, where they are known.
    """
    layers, (errors, outputs) = prepared.network.layers, prepared.errors
    if etas is None:
        etas = [layer.eta([run.h[b.source] for b in layer.blocks], prepared.buffers) for layer in layers]
    room = _weighed(outputs, etas)
    if prepared.run_unit:
        for layer in layers:
            tops = [np.abs(run.h[b.source]) + _weighed(errors[b.source][:, None], etas) for b in layer.blocks]
            room[layer.bursts(tops)] = np.inf
    return run.z[-1] - room, run.z[-1] + room


def _weighed(weights: Array, etas: Sequence[Array]) -> Array:
    """The sum (n, columns) of weights of 1 and of the etas, row by row the same whatever the other rows are."""
    total: Array = weights[0]
    for eta, weight in zip(etas, weights[1:], strict=True):
        total = total + eta[:, None] * weight
    return total
