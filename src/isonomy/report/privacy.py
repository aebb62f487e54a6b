"""The groups that are not shown when people's rows stay private.

A group of fewer than five people is hidden. A single hidden group could be had by subtraction from a total,
so groups are hidden until every total that the page shows lacks at least two of them, and at least five people: over
the whole table, and for an intersection also over each group of its single attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from isonomy.fairness.groups import Grouping

SMALLEST = 5
"""Groups of fewer people than this are not shown."""

NOT_SHOWN = "not shown"
"""What is printed instead of a number that is hidden."""

Hidden = frozenset[tuple[str, str]]


def hidden_groups(groupings: Sequence[Grouping]) -> Hidden:
    """Return title and name of every group that is not shown."""
    singles = {grouping.attributes[0]: grouping for grouping in groupings if len(grouping.attributes) == 1}
    hidden: set[tuple[str, str]] = set()
    for grouping in sorted(groupings, key=lambda grouping: len(grouping.attributes)):
        _, first, sizes = np.unique(grouping.code, return_index=True, return_counts=True)  # no group is empty
        totals, masked = [np.zeros(len(sizes), dtype=np.int64)], np.zeros(len(sizes), dtype=bool)
        if len(grouping.attributes) > 1:
            for single in (singles[name] for name in grouping.attributes if name in singles):
                totals.append(single.code[first])
                masked |= np.array([(single.title, single.names[code]) in hidden for code in totals[-1]])
        places = np.flatnonzero(protected_cells(sizes, totals, masked))
        hidden |= {(grouping.title, grouping.names[place]) for place in places}
    return frozenset(hidden)


def protected_cells(
    sizes: NDArray[np.int64], totals: Iterable[NDArray[np.int64]] = (), masked: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Return which cells (n,) to hide; each of ``totals`` (n,) names the total that a cell counts towards."""
    small = (sizes > 0) & (sizes < SMALLEST)
    hidden = small if masked is None else small | masked
    sums = [np.zeros(len(sizes), dtype=np.int64), *totals]
    again = True
    while again:
        again = False
        for total in sums:
            for value in np.unique(total):
                inside = total == value
                some, shown = inside & hidden, np.flatnonzero(inside & ~hidden)
                if some.any() and (some.sum() == 1 or sizes[some].sum() < SMALLEST) and len(shown):
                    hidden[shown[np.argmin(sizes[shown])]] = again = True
    return hidden


def left_out(hidden: int, more: int) -> tuple[str, ...]:
    """Return notes on groups that are hidden, and on those that are too many."""
    few = f"not shown, to protect groups of fewer than {SMALLEST} people."
    notes = [f"{hidden} {'group is' if hidden == 1 else 'groups are'} {few}"] if hidden else []
    return (*notes, *([f"{more} smaller groups are left out for length."] if more else []))
