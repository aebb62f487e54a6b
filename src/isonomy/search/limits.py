"""When to stop, as a caller says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from isonomy.errors import ParameterError, template


@dataclass(frozen=True)
class Limits:
    """When to stop: the gap between bound and find, the ε that matters, seconds, parts, gradient steps per part."""

    gap: float = 1e-6
    epsilon: float | None = None
    seconds: float = 60.0
    nodes: float = math.inf
    steps: int = 8
    first_steps: int = 24


def checked_limits(time_limit: float | None, gap: float, epsilon: float | None, max_nodes: int | None = None) -> Limits:
    """The limits that a caller gave, refused with a sentence if they make no sense."""
    for name, value, right in (
        ("time_limit", time_limit, "None or a number of seconds >= 0"),
        ("gap", gap, "a finite number >= 0"),
        ("epsilon", epsilon, "None or a finite number >= 0"),
        ("max_nodes", max_nodes, "None or a whole number >= 0"),
    ):
        if value is None and name != "gap":
            continue
        usable = isinstance(value, int | float | np.number) and not isinstance(value, bool) and float(value) >= 0
        whole = isinstance(value, int | np.integer) or name != "max_nodes"
        if not usable or not whole or (name != "time_limit" and not np.isfinite(float(value or 0))):
            raise ParameterError(template(name, right, value))
    return Limits(
        float(gap),
        None if epsilon is None else float(epsilon),
        math.inf if time_limit is None else float(time_limit),
        math.inf if max_nodes is None else int(max_nodes),
    )
