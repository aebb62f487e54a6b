"""Bounds of outputs over regions, in tiers: how much is spent on the ranges of hidden neurons.

- ``interval``: ranges from ranges, layer by layer.
- ``quick``: the same ranges, then one backward pass for each end of an output.
- ``tight``: a backward pass for each open neuron first.

Every tier is sound on its own.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.enclosure import BLOCK, Ends, Prepared, Run
from isonomy_verify.regions import BallBox, Region

Tier = Literal["interval", "quick", "tight"]

TIERS: tuple[Tier, ...] = ("interval", "quick", "tight")

COARSE = 4e-10
"""Enclosures of outputs at a point wider than this, relative to 1 and the output, are worth a higher tier."""

BURIED = 1e-4
"""The same where float32 runs are covered, whose rounding alone is wider."""


class Enclosure(NamedTuple):
    """Outputs over regions, (n, outputs) each; infinite where nothing is known."""

    low: Array
    high: Array

    def of(self, rows: NDArray[np.int64]) -> Enclosure:
        """Some rows, in this order."""
        return Enclosure(self.low[rows], self.high[rows])


@np.errstate(all="ignore")
def enclose(
    prepared: Prepared,
    x: Array,
    tier: Tier = "tight",
    region: Region | None = None,
    directions: list[Array] | None = None,
) -> Enclosure:
    """Enclose the outputs over ``x + v``, ``v`` in the region of the same row, or in the prepared one that all share.

    ``directions`` receives, block by block, about the slope of the first output in the region's own coordinates: a hint
    at where it is extreme.
    """
    x = checked(x, prepared.network.width)
    none = np.zeros((0, prepared.network.outputs.width))
    parts: list[Ends] = [(none, none)]
    count = -(-len(x) // BLOCK)
    for part in np.array_split(np.arange(len(x)), count) if count else ():
        here = slice(int(part[0]), int(part[-1]) + 1)
        run = Run(prepared, x[here], None if region is None else region[here]).forward(
            tier == "tight", tier != "interval"
        )
        (low, high), *_ = run.outputs(passes=tier != "interval")
        lost = run.overflow[:, None]
        parts.append((np.where(lost, -np.inf, low), np.where(lost, np.inf, high)))
        if directions is not None and run.directions:
            directions.append(run.directions[0])
    return Enclosure(*(np.concatenate(side) for side in zip(*parts, strict=True)))


def enclose_at(prepared: Prepared, x: Array) -> Enclosure:
    """Enclose the outputs at the rows of ``x`` themselves, by a region of one point; by higher tiers where rounding
    grows from layer to layer."""
    x, point = checked(x, prepared.network.width), Prepared(prepared.network, None, prepared.float32_run)
    still = np.zeros((1, x.shape[1]))
    low, high = enclose(point, x, "interval", BallBox(still, still))
    for tier in TIERS[1:]:
        most = BURIED if prepared.float32_run else COARSE
        rough = np.flatnonzero(~(high - low <= most * (1 + np.abs(low))).all(1))
        if len(rough) and prepared.network.depth:
            more = enclose(point, x[rough], tier, BallBox(still, still))
            low[rough], high[rough] = np.fmax(low[rough], more.low), np.fmin(high[rough], more.high)
    return Enclosure(low, high)


def checked(x: Array, width: int) -> Array:
    """Finite float64 people of the network's width, nothing else."""
    if x.dtype != np.float64 or x.ndim != 2 or x.shape[1] != width or not np.isfinite(x).all():
        raise ValueError(f"People must be a finite float64 table of {width} columns.")
    return x
