"""Hints for the tight tier: where a pass is largest, and slopes that follow it.

**Soundness.** Nothing here proves anything: moves only choose slopes, and whatever slope is chosen
:meth:`isonomy_verify.sweep.Sweep.side` gives a bound.
"""

from __future__ import annotations

import numpy as np

from isonomy_verify.arithmetic import Array, Float32
from isonomy_verify.lines import Sides
from isonomy_verify.sweep import Sweep


def steer(sweep: Sweep, output: int) -> list[Float32]:
    """Moves of every layer (float32) at the place where the pass with parallel lines is largest.

    ``sweep.slack`` (n,) is how much of the pass the open neurons behind the
    first layer make up, at most over all outputs so far.
    """
    layers, last, single = sweep.network.layers, len(sweep.network.layers) - 1, sweep.prepared.single
    carried = {
        block.source: both[0][output : output + 1]
        for block, both in zip(layers[last].blocks, single.weights[last], strict=True) if block.source
    }  # fmt: skip
    landings = single.landings
    if not sweep.shared:
        landings = [None if each is None else (m := each.matrix.astype(np.float32), m.T) for each in sweep.landings]
    landing = landings[last]
    landed: Array | None = None if landing is None else landing[0][output : output + 1]
    slopes: list[Float32] = []
    slack, dense, room = np.zeros(sweep.n), np.zeros(sweep.n), sweep.prepared.buffers.single
    for k, layer in enumerate(layers[:-1]):
        slopes.append(room(f"slope{k}", sweep.n, layer.width))
        np.copyto(slopes[k], sweep.lines[k].slope, casting="same_kind")
    for k in range(last - 1, -1, -1):
        c = carried.pop(k + 1, None)
        if c is None:
            continue
        gap = lines.above if (lines := sweep.lines[k]).below is None else lines.above - lines.below
        if len(c) == 1:
            part = gap @ np.abs(c[0])
        else:
            width = layers[k].width
            np.copyto(open_ := room("gap", sweep.n, width), gap, casting="same_kind")
            part = np.vecdot(np.abs(c, out=room("size", sweep.n, width)), open_)
        slack += part
        if sweep.shared and sweep.prepared.dense[k] is not None:
            dense += part
        g = np.multiply(slopes[k], c, out=room(f"g{k % 2}", sweep.n, layers[k].width))
        for block, both in zip(layers[k].blocks, single.weights[k], strict=True):
            if block.source:
                c = np.matmul(g, both[0], out=room(f"back{k} {block.source}", sweep.n, both[0].shape[1]))
                carried[block.source] = carried[block.source] + c if block.source in carried else c
        landing = landings[k]
        if landing is not None:
            product = g @ landing[0]
            landed = product if landed is None else landed + product
    if landed is None:
        return [np.zeros_like(slope) for slope in slopes]
    if len(landed) < sweep.n:
        landed = np.broadcast_to(landed, (sweep.n, landed.shape[1]))
    sweep.pulls.append(landed)
    u = sweep.region.maximiser(landed, slice(None)).astype(np.float32)
    moved = 2 * np.maximum(np.vecdot(landed, u), 1e-30)
    sweep.slack, sweep.dense_slack = np.fmax(sweep.slack, slack / moved), np.fmax(sweep.dense_slack, dense / moved)
    moves: list[Float32] = []
    for k, layer in enumerate(layers[:-1]):
        landing = landings[k]
        move = room(f"move{k}", sweep.n, layer.width)
        if landing is not None:
            np.matmul(u, landing[1], out=move)
        elif not layer.blocks:
            move[:] = 0.0
        for number, (block, both) in enumerate(zip(layer.blocks, single.weights[k], strict=True)):
            if block.source:
                before, slope = moves[block.source - 1], slopes[block.source - 1]
                sloped = np.multiply(before, slope, out=room("sloped", *slope.shape))
                product = np.matmul(sloped, both[1], out=room("moved", sweep.n, layer.width) if number else move)
                if number:
                    move += product
        moves.append(move)
    return moves


def turned(sweep: Sweep, sides: list[Sides], trace: dict[int, Array], rate: float) -> list[Sides]:
    """The lines below open ReLUs turned against the bound that was traced, by ``rate``.

    The bound changes with the slope of such a line by its coefficient times the pre-activation where the region's
    support is attained, in the network in which all activations are the lines that the pass used.
    """
    u = sweep.region.maximiser(trace[-1], slice(None)) if -1 in trace else None
    found: list[Sides] = []
    values: list[Array] = [sweep.x]
    for k, layer in enumerate(sweep.network.layers[:-1]):
        z, landing, lines = sweep.start[k], sweep.landings[k], sides[k]
        if landing is not None and u is not None:
            z = z + u @ landing.matrix.T
        for block, weight in zip(layer.blocks, layer.transposed, strict=True):
            if block.source:
                z = z + values[block.source] @ weight
        z = np.broadcast_to(z, (sweep.n, layer.width))
        c = trace.get(k, np.zeros((1, layer.width)))
        low = lines.low_slope * z if lines.low is None else lines.low_slope * z + lines.low
        values.append(np.where(c > 0, lines.slope * z + lines.above, low))
        if lines.low is None:
            moved = np.clip(lines.low_slope + rate * np.sign(z), 0.0, 1.0)
            lines = lines._replace(low_slope=np.where(c < 0, moved, lines.low_slope))
        found.append(lines)
    return found
