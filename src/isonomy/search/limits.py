"""When to stop, as a caller says it."""

from __future__ import annotations

from dataclasses import dataclass

from isonomy.given import FINITE, number


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
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    seconds = number("time_limit", time_limit, "a number of seconds >= 0")
    return Limits(number("gap", gap, "a finite number >= 0", high=FINITE), epsilon, seconds)
