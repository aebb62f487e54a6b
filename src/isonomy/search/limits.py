"""When to stop, as a caller says it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.errors import ParameterError, template


@dataclass(frozen=True)
class Limits:
    """When to stop: the accepted gap between bound and find, the ε that matters, seconds, gradient steps per part."""

    gap: float = 1e-6
    epsilon: float | None = None
    seconds: float = 60.0
    steps: int = 8
    first_steps: int = 24


def checked_limits(time_limit: float, gap: float, epsilon: float | None) -> Limits:
    """The limits that a caller gave, refused with a sentence if they make no sense."""
    for name, value, right in (
        ("time_limit", time_limit, "a number of seconds >= 0"),
        ("gap", gap, "a finite number >= 0"),
        ("epsilon", epsilon, "None or a finite number >= 0"),
    ):
        if name == "epsilon" and value is None:
            continue
        usable = isinstance(value, int | float | np.number) and not isinstance(value, bool) and float(value) >= 0
        if not usable or (name != "time_limit" and not np.isfinite(float(value or 0))):
            raise ParameterError(template(name, right, value))
    return Limits(float(gap), None if epsilon is None else float(epsilon), float(time_limit))
