"""When to stop, as a caller says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isonomy.given import FINITE, number, whole


@dataclass(frozen=True)
class Limits:
    """When to stop: the gap between bound and find, the ε that matters, seconds, parts."""

    gap: float = 1e-6
    epsilon: float | None = None
    seconds: float = 60.0
    nodes: float = math.inf


def checked_limits(time_limit: float | None, gap: float, epsilon: float | None, max_nodes: int | None = None) -> Limits:
    """The limits that a caller gave, refused with a sentence if they make no sense."""
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    seconds = math.inf if time_limit is None else number("time_limit", time_limit, "None or a number of seconds >= 0")
    nodes = math.inf if max_nodes is None else whole("max_nodes", max_nodes)
    return Limits(number("gap", gap, "a finite number >= 0", high=FINITE), epsilon, seconds, nodes)
