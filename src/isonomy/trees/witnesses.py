"""People who attain what trees have in a cell: values that a person could have, as near to the own ones as may be.

Nothing here is a bound: whether a person is possible, similar and treated as claimed is checked by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isonomy_verify.arithmetic import Array
from isonomy_verify.domain import Mask
from isonomy_verify.regions import Index
from isonomy_verify.similar import Similarity
from isonomy_verify.tree_bounds import Extremes, TreeBounds
from isonomy_verify.tree_cells import Axis, Cells
from isonomy_verify.tree_reach import Around, Planned, Reached, TreeReach


def attaining(bounds: TreeBounds, x: Array, extremes: Extremes, step: Array | None = None) -> Array:
    """Return people (n, margins, 2, m) who attain the extremes; not a number where none is known.

    ``step`` (m,): the precision of each number in raw units, 0 where any value is one that a person could have.
    """
    n, margins = extremes.low.shape
    first, last = (side.reshape(n * margins * 2, -1) for side in (extremes.first, extremes.last))
    own = np.repeat(np.ascontiguousarray(x, dtype=np.float64), margins * 2, axis=0)
    y = _people_in(bounds.cells, bounds.similarity, own, first, last, step)
    return np.asarray(y.reshape(n, margins, 2, x.shape[1]))


def most_unequal(
    reach: TreeReach,
    x: Array,
    radii: Sequence[float],
    step: Array | None = None,
    within: tuple[Array, Array] | None = None,
    still: bool = False,
) -> tuple[Array, Array, Mask]:
    """Return people (n, radii, m) within each of the ascending ``radii`` of the rows of ``x`` who are treated most
    differently from similar ones, as far as grids say, the bounds (n, radii) of these, and where grids say all.

    ``within`` are the moves (n, m) to which numbers keep; if they are ``still`` categories keep theirs.
    """
    x, domain = np.ascontiguousarray(x, dtype=np.float64), reach.domain
    people, known = np.repeat(x[:, None], len(radii), axis=1), np.full((len(x), len(radii)), -1.0)

    def keep(around: Around, planned: Planned, reached: Reached) -> None:
        """Keep, for each radius, of those treated most differently the cheapest."""
        value, kept = known[around.owner], people[around.owner]
        for k in range(len(reached.worst)):
            best = reached.worst[: k + 1].max()
            if k and value[k] < best == value[k - 1]:
                value[k], kept[k] = best, kept[k - 1]
            inside = np.flatnonzero((reached.rank <= k) & (reached.value == best) & (best > value[k]))
            if len(inside):
                value[k], at = best, int(reached.place[inside[reached.norm[inside].argmin()]])
                person = _at_place(reach, around.centre, planned, at, step)
                if step is not None and reach.ground.distance_upper(around.x, person)[0] > radii[k]:
                    person = _at_place(reach, around.centre, planned, at, None)
                kept[k] = person[0]

    ball = reach.ball
    if still:
        same = replace(domain, immutable=~domain.numeric)
        ball = Similarity(reach.ground, 0.0, same, reach.similarity.max_branches, keep=True)
    whole = reach.over(x, radii, True, 1024, keep, within, ball)[1]
    return people, known, whole


def _at_place(reach: TreeReach, centre: Array, planned: Planned, at: int, step: Array | None) -> Array:
    """Return a person (1, m) at a place, as near to the centre as may be."""
    first, last, moving = planned.mine.low.copy(), planned.mine.high.copy(), planned.pieces.moving.tolist()
    index = np.unravel_index(at, [len(place.group) for place in planned.places]) if moving else ()
    for d, (k, place, i) in enumerate(zip(moving, planned.places, index, strict=True)):
        first[0, k] = max(int(first[0, k]), int(planned.grid.first[d][0, place.group[i]]))
        last[0, k] = min(int(last[0, k]), int(planned.grid.last[d][0, place.group[i]]))
    axes, integer = [reach.cells.axes[k] for k in moving], reach.domain.integer
    plain = [(axis.flag < 0 and integer[axis.start]) or not axis.numeric for axis in axes]
    z = centre.copy() if all(plain) else _people_in(reach.cells, reach.ball, centre, first, last, step)
    for axis, place, i in zip(axes, planned.places, index, strict=True):
        if integer[axis.start] and place.least[i] > -np.inf:  # one of several places in a cell
            z[0, axis.start] = np.clip(centre[0, axis.start], place.least[i], place.most[i])
    return z


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
