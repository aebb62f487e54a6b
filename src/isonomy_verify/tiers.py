"""Bounds of outputs over regions, in tiers: how much is spent on the ranges of hidden neurons.

- ``interval``: ranges from ranges, layer by layer; outputs from the last ranges.
- ``quick``: the same ranges, then one backward pass from each output to the input.
- ``tight``: ranges of hidden neurons by majorants or backward passes; slopes of the last pass touch where it is
largest.

Every tier is sound on its own. A higher one is nearly always tighter, not always: ranges by majorants replace those by
intervals, and lines that touch at one place those by the shape of a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array
from isonomy_verify.prepared import Prepared
from isonomy_verify.regions import BallBox, Index, Region
from isonomy_verify.runs import Run, enclose_run
from isonomy_verify.steering import steer, turned
from isonomy_verify.sweep import BLOCK, Sweep

Tier = Literal["interval", "quick", "tight"]

COARSE = 1e-10
"""Enclosures of outputs at a point wider than this, relative to 1 and the output, are worth a backward pass."""

BURIED = 1e-4
"""The same where float32 runs are covered, whose rounding alone is wider."""

DENSE, OPEN, OWN = 0.03, 0.15, 0.005
"""Where open neurons make up a larger share of a pass, a second one pays. Where it is neurons whose ranges are a
majorant's (``DENSE``), each open one gets a backward pass of its own; where it is all (``OPEN``, or ``OWN`` where sets
differ or layers are narrow and passes are short), lines below ReLUs are turned besides."""

RATES = (0.5, 0.4, 0.3, 0.22, 0.16, 0.12, 0.09, 0.06, 0.04, 0.03)
"""By how much such lines are turned at each step."""


class Enclosure(NamedTuple):
    """Outputs over regions, (n, outputs) each; infinite where nothing is known."""

    low: Array
    high: Array

    def of(self, rows: NDArray[np.int64]) -> Enclosure:
        """Some rows, in this order."""
        return Enclosure(self.low[rows], self.high[rows])


class Bounds(NamedTuple):
    """Outputs at the centres, and over the regions around them."""

    at: Enclosure
    over: Enclosure


AGAIN = 128
"""Regions of second passes together, which go both ways at once and stay in cache."""

NOBODY: Index = np.zeros(0, dtype=np.int64)

ROUNDED = 1e-8
"""Beside ranges that are wider than the rounding at their centre by more than this factor, rounding does not matter,"""

BURST = 2.0**20
"""unless they are so much wider than outputs are large: then they have grown from layer to layer as rounding does."""


@np.errstate(all="ignore")  # what overflows ends as an infinite bound
def enclose(
    prepared: Prepared,
    x: Array,
    tier: Tier = "tight",
    region: Region | None = None,
    rows: float | None = None,
    once: bool = False,
    pulls: list[Array] | None = None,
) -> Bounds:
    """Enclose the outputs over ``x + v``, ``v`` in the region of the same row, or in the prepared one that all share;
    and at ``x``.

    ``rows`` is the share of a person's weighted slack above which a hidden neuron gets a backward pass of its own;
    ``once`` leaves out second passes, for whoever wants to choose what is worth them. ``pulls`` receives, block by
    block, about the slope of the first output in the region's own coordinates, by which the tight tier was steered: a
    hint at where it is extreme, of which nothing says that it is right.
    """
    x = checked(x, prepared.network.width)
    found = []
    size = -(-len(x) // max(1, -(-len(x) // BLOCK)))  # equal blocks
    for start in range(0, len(x), max(1, size)):
        part = slice(start, start + size)
        sweep = Sweep(prepared, x[part], None if region is None else region[part])
        found.append(_block(sweep, tier, rows))
        if pulls is not None:
            pulls += sweep.pulls[:1]
    if len(found) == 1:
        joined: Sequence[Array] = found[0]
    else:
        none = np.zeros((0, prepared.network.outputs.width))
        joined = [np.concatenate(each) for each in zip(*found, strict=True)] if found else [none] * 4
    at_low, at_high, low, high = joined[:4]
    if tier == "tight" and not once and found:
        slack, dense_slack = joined[4:]
        open_ = slack > (OPEN if region is None and not prepared.narrow else OWN)
        again = np.flatnonzero(open_ | (dense_slack > DENSE))
        for some in np.array_split(again, -(-len(again) // AGAIN)) if len(again) else ():
            sweep = Sweep(prepared, x[some], None if region is None else region[some])
            more = _block(sweep, tier, 0.0, np.flatnonzero(open_[some]))
            low[some], high[some] = np.fmax(low[some], more.low), np.fmin(high[some], more.high)
    at = Enclosure(at_low, at_high)
    if not _rough(*at, COARSE).any():
        return Bounds(at, _known(low, high))
    width, large = high - low, 1.0 + np.abs(at_low + at_high) / 2
    matters = np.asarray(~((at_high - at_low < ROUNDED * width) & (width <= BURST * large)).all(1))
    rough = np.flatnonzero(_rough(*at, BURIED if prepared.run_unit else COARSE) & matters)
    if tier != "tight" and len(rough):  # what ranges from ranges give is rounding, or grows as rounding does
        for some in np.array_split(rough, -(-len(rough) // BLOCK)):
            sweep = Sweep(prepared, x[some], None if region is None else region[some])
            more = _block(sweep, "tight", rows)
            low[some], high[some] = np.fmax(low[some], more.low), np.fmin(high[some], more.high)
    return Bounds(refined(prepared, x, at, matters), _known(low, high))


@np.errstate(all="ignore")
def enclose_at(prepared: Prepared, x: Array) -> Enclosure:
    """Enclose the outputs at the rows of ``x`` themselves: by a run and its rounding, or a pass over a region of one
    point."""
    x = checked(x, prepared.network.width)
    return refined(prepared, x, Enclosure(*enclose_run(prepared, Run.of(prepared.network, x))))


def refined(prepared: Prepared, x: Array, at: Enclosure, where: NDArray[np.bool_] | None = None) -> Enclosure:
    """Enclosures at points, by backward passes where products of norms are too coarse and that matters."""
    low, high = at
    rough = _rough(low, high, COARSE)
    rough = rough if where is None else rough & where
    if rough.any() and prepared.network.depth:
        still = np.zeros((int(rough.sum()), x.shape[1]))
        more = _block(Sweep(prepared.alone, x[rough], BallBox(still, still)), "tight", 0.0)
        low[rough], high[rough] = np.fmax(low[rough], more.low), np.fmin(high[rough], more.high)
    return _known(low, high)


def _rough(low: Array, high: Array, most: float) -> NDArray[np.bool_]:
    return np.asarray(~(high - low <= most * (1 + np.abs(low))).all(1))


def _known(low: Array, high: Array) -> Enclosure:
    """What is not a number says nothing."""
    return Enclosure(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def checked(x: Array, width: int) -> Array:
    """Finite float64 people of the network's width, nothing else."""
    if x.dtype != np.float64 or x.ndim != 2 or x.shape[1] != width or not np.isfinite(x).all():
        raise ValueError(f"People must be a finite float64 table of {width} columns.")
    return x


class _Found(NamedTuple):
    """Outputs at the centres and over the regions of one batch; and how much of a pass open neurons make up, all of
    them or those with ranges by majorants."""

    at_low: Array
    at_high: Array
    low: Array
    high: Array
    slack: Array
    dense_slack: Array


def _block(sweep: Sweep, tier: Tier, rows: float | None, turn: Index = NOBODY) -> _Found:
    """Enclosures at the centres and over the regions of one batch; for ``turn`` lines below ReLUs are turned."""
    network, last = sweep.network, sweep.network.depth
    run = sweep.run()
    for k in range(last):
        dense = tier == "tight" and sweep.shared and sweep.prepared.dense[k] is not None
        if dense:
            sweep.enclose_densely(k)
        else:
            sweep.enclose(k)
        if tier != "interval":
            sweep.relax(k)
        if tier == "tight" and k and (not dense or k > 1 or rows is not None):
            sweep.tighten(k, rows if k == 1 else 0.0)
    sweep.enclose(last)
    low, high = np.array(sweep.low[last]), np.array(sweep.high[last])
    if tier != "interval" and last:
        kinds = {layer.activation.kind for layer in network.layers if layer.activation is not None}
        turn = turn if "relu" in kinds else NOBODY
        # Lines that touch at one place are nearly always better for ReLUs, and not so often for others.
        both = tier == "tight" and (sweep.prepared.narrow or kinds != {"relu"}) and len(turn) < sweep.n
        for j in range(network.outputs.width):
            moves = steer(sweep, j) if tier == "tight" else None
            for sign in (1.0, -1.0):
                bound = sweep.side(j, sign, sweep.sides(run, moves, sign))
                if both:
                    bound = np.fmin(bound, sweep.side(j, sign, sweep.sides()))
                _narrow(low, high, j, sign, slice(None), bound)
            if len(turn):  # which begins with the lines of ``both``
                for sign, bound in zip((1.0, -1.0), _turned(sweep, j, turn), strict=True):
                    _narrow(low, high, j, sign, turn, bound)
    # A ball around 0 holds its centre, and where ranges cannot have grown much sizes over it are nearly those there.
    known = sweep.shared and (last <= 2 or (tier == "tight" and any(sweep.prepared.dense)))
    at = enclose_run(sweep.prepared, run, sweep.eta if known else None)
    if sweep.prepared.run_unit:
        low[sweep.burst], high[sweep.burst] = -np.inf, np.inf
    return _Found(*at, low, high, sweep.slack, sweep.dense_slack)


def _narrow(low: Array, high: Array, j: int, sign: float, rows: slice | Index, bound: Array) -> None:
    """Take over bounds of ``sign`` times an output."""
    if sign > 0:
        high[rows, j] = np.fmin(high[rows, j], bound)
    else:
        low[rows, j] = np.fmax(low[rows, j], -bound)


def _turned(sweep: Sweep, output: int, rows: Index) -> list[Array]:
    """The least bounds of both sides over a few slopes of the lines below ReLUs: flat, steep, and turned step by step
    from those by the shape of the range."""
    twice, sign = sweep.of(np.tile(rows, 2)), np.repeat([1.0, -1.0], len(rows))
    outputs = np.full(len(sign), output)
    best = np.fmin(*(twice.side(outputs, sign, twice.sides(lean=lean)) for lean in (0.0, 1.0)))
    sides, trace = twice.sides(), dict[int, Array]()
    for rate in RATES:
        best = np.fmin(best, twice.side(outputs, sign, sides, trace))
        sides = turned(twice, sides, trace, rate)
    return np.split(np.fmin(best, twice.side(outputs, sign, sides)), 2)
