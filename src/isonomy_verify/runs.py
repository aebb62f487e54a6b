"""Runs of a network at points, in float64, and how far the exact outputs can be from what they give.

**Soundness.** Rounding is bounded by products of norms; see :func:`enclose_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import ELEMENTARY, SMALL, Array
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
    ``‖h − ĥ‖₂`` grows by the spectral norm of each block and the steepest slope of each activation.
    """
    n = len(run.h[0])
    errors: list[Array] = [np.zeros(n)]
    under: Array | float = SMALL
    for k, (layer, norms) in enumerate(zip(prepared.network.layers, prepared.norms, strict=True)):
        eta = layer.eta([run.h[b.source] for b in layer.blocks], prepared.buffers) if etas is None else etas[k]
        error: Array = np.zeros(n)
        for block, norm, scale in zip(layer.blocks, norms, layer.largest_scale, strict=True):
            if block.source:
                error = error + norm * errors[block.source]
                eta = eta + errors[block.source] * scale
        under = under + layer.underflow * (1 + eta)
        noise = eta * (layer.run_unit + (layer.unit32 if prepared.run_unit else 0.0))
        lost: Array | float = 0.0
        if prepared.run_unit:
            # A float32 run reads what it has itself, which may be as far from this run as errors are large.
            sizes = [np.abs(run.h[block.source]) + errors[block.source][:, None] for block in layer.blocks]
            noise = np.where(layer.bursts(sizes), np.inf, noise)
            lost = layer.lost32
        if layer.activation is None:
            room = (error[:, None] + noise[:, None] * layer.rho + lost) * (1 + 1e-9) + np.asarray(under)[:, None]
            return run.z[k] - room, run.z[k] + room
        shape, size = layer.activation.shape, layer.rho_norm
        error = shape.steepest * (error + noise * size + (layer.lost_norm if prepared.run_unit else 0.0))
        if layer.activation.kind == "relu":
            errors.append(error * (1 + 1e-9) + SMALL)
            continue
        largest = max([abs(p) for p in layer.activation.parameters if np.isfinite(p)], default=0.0)
        if layer.activation.kind != "clip":
            unit = ELEMENTARY + 32 * prepared.unit32
            error = error + unit * (eta * size * (1 + shape.steepest) + (2 + shape.at_zero + largest) * layer.width)
        else:
            error = error + prepared.unit32 * layer.width * largest
        errors.append(error * (1 + 1e-9) + SMALL)
    raise AssertionError("the last layer has no activation")
