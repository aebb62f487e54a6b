"""Runs of a network at points, in float64, and how far the exact outputs can be from what they give.

**Soundness.** Rounding is bounded by products of norms; see :func:`enclose_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isonomy_verify.arithmetic import ELEMENTARY, SMALL, Array, norm_up
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
        if prepared.run_unit:
            tops = [np.abs(run.h[block.source]) + errors[block.source][:, None] for block in layer.blocks]
            noise = np.where(layer.bursts(tops), np.inf, noise)
        lost = prepared.lost[k]
        if layer.activation is None:
            room = (error[:, None] + noise[:, None] * layer.rho + lost) * (1 + 1e-9) + np.asarray(under)[:, None]
            return run.z[k] - room, run.z[k] + room
        shape, size = layer.activation.shape, layer.rho_norm
        error = shape.steepest * (error + noise * size + float(norm_up(lost)))
        if layer.activation.kind == "relu":
            errors.append(error * (1 + 1e-9) + SMALL)
            continue
        if layer.activation.kind != "clip":
            largest = max([abs(p) for p in layer.activation.parameters], default=0.0)
            unit = ELEMENTARY + 32 * prepared.unit32
            flat = max(2 + shape.at_zero, 1 + 2 * shape.at_zero) + largest
            error = error + unit * (eta * size * (1 + shape.steepest) + flat * layer.width)
        else:  # limits round, where they are reached
            error = error + prepared.unit32 * (norm_up(run.h[k + 1]) + error)
        errors.append(error * (1 + 1e-9) + SMALL)
    raise AssertionError("the last layer has no activation")
