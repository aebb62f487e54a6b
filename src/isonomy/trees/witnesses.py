"""People who attain what trees have in a cell: values that a person could have, as near to the own ones as may be.

Nothing here is a bound: whether a person is possible, similar and treated as claimed is checked by the kernel.
"""

from __future__ import annotations

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.regions import Index
from isonomy_verify.similar import Similarity
from isonomy_verify.tree_bounds import Extremes, TreeBounds
from isonomy_verify.tree_cells import Axis, Cells


def attaining(bounds: TreeBounds, x: Array, extremes: Extremes, step: Array | None = None) -> Array:
    """Return people (n, margins, 2, m) who attain the extremes; not a number where none is known.

    ``step`` (m,): the precision of each number in raw units, 0 where any value is one that a person could have.
    """
    n, margins = extremes.low.shape
    first, last = (side.reshape(n * margins * 2, -1) for side in (extremes.first, extremes.last))
    own = np.repeat(np.ascontiguousarray(x, dtype=np.float64), margins * 2, axis=0)
    y = _people_in(bounds.cells, bounds.similarity, own, first, last, step)
    return np.asarray(y.reshape(n, margins, 2, x.shape[1]))


def _people_in(
    cells: Cells, similarity: Similarity, x: Array, first: Index, last: Index, step: Array | None = None
) -> Array:
    """Return a person (n, m) in each box of cells, from ``first`` to ``last`` (n, axes), near to ``x``.

    A number that the own value is not good for takes the nearest end of its cell, or the nearest multiple of ``step``
    (m,), in raw units, inside it. Rows of −1 stay unknown: not a number.
    """
    low, high = (np.broadcast_to(side, x.shape) for side in similarity.ranges(x))
    boxes, _ = cells.boxes(np.arange(len(x)), x, low, high)
    y = x.copy()
    for k, axis in enumerate(cells.axes):
        a, b = np.maximum(first[:, k], 0), np.maximum(last[:, k], 0)
        if axis.numeric:
            _number(axis, similarity, y, (a, b), (boxes.least[:, k], boxes.most[:, k]), step)
            continue
        states = np.arange(axis.cells)
        fits = (states >= a[:, None]) & (states <= b[:, None])
        if k in boxes.allowed:
            fits &= boxes.allowed[k]
        own = axis.cell(x)
        state = np.where(fits[np.arange(len(x)), own], own, fits.argmax(1))
        block = slice(axis.start, axis.stop)
        y[:, block] = state[:, None] if axis.stop - axis.start == 1 else state[:, None] == states
    y[(first < 0).any(1)] = np.nan
    return y


def _number(
    axis: Axis,
    similarity: Similarity,
    y: Array,
    cell: tuple[Index, Index],
    ends: tuple[Array, Array],
    step: Array | None,
) -> None:
    """Set a number and its flag, in place."""
    j, numbers = axis.start, axis.numbers - 1
    missing = np.zeros(len(y), dtype=bool)
    low = np.maximum(axis.first[np.minimum(cell[0], numbers)], ends[0])
    high = np.minimum(axis.last[np.minimum(cell[1], numbers)], ends[1])
    if axis.flag >= 0:
        last = axis.cells - 1
        missing = (cell[0] == last) | ((cell[1] == last) & ((y[:, axis.flag] == 1.0) | (low > high)))
        y[:, axis.flag] = missing
    own = y[:, j].copy()
    value = np.clip(own, low, np.maximum(low, high))
    if step is not None and step[j] > 0:
        unit, origin, stepped = similarity.domain.unit[j], similarity.domain.origin[j], value
        for end, to, side in ((low, np.ceil, 1.0), (high, np.floor, -1.0)):
            whole = to((end * unit + origin) / step[j])
            for more in (1.0, 0.0):  # the nearer one last, where it is inside
                near = ((whole + side * more) * step[j] - origin) / unit
                inside = (value != own) & (value == end) & (low <= near) & (near <= high)
                stepped = np.where(inside, near, stepped)
        value = stepped
    y[:, j] = np.where(missing, axis.fill, value)
