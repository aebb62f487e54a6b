"""A window over a stream of people, looked at again and again.

**What is guaranteed.** Whoever looks often enough at a single confidence level is fooled at last. With
``guarantee="all"`` the ``k``-th look gets the risk ``α / (k (k + 1))``; these add up to α, so with probability at
least ``1 − α`` *all* evaluations, ever, are right: windows may overlap, and the audited individuals may be used again
in each, since the union bound asks for no independence between looks. The price is a bound that widens with the
logarithm of ``k``. With ``guarantee="each"`` every single evaluation is right with probability at least ``1 − α``,
and nothing is said of many together. In both cases the people of a window must be independent draws from one
population, and the moments of looking must not be chosen by what was seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import ParameterError, template
from isonomy.fairness.groups import feature_groups
from isonomy.given import number, whole
from isonomy.monitor.evaluation import Evaluation, Reference, evaluate, mean_at_most
from isonomy.population import BoolArray, Schema
from isonomy_verify.arithmetic import down, mean_up

Guarantee = Literal["all", "each"]
Tighten = Callable[[FloatArray], FloatArray]
"""Gives smaller proved violations of people, at a price."""


class _Window(NamedTuple):
    """A row for each place of the window, or for each person as it was at one moment."""

    x: FloatArray
    upper: FloatArray
    lower: FloatArray
    tight: BoolArray  # bounded by the tighter tier, or refused: nothing is left to do
    refused: BoolArray


class Monitor:
    """The latest ``window`` people of a stream; every ``every`` arrivals, from ``least`` on, a look is due.

    ``seen`` is how many looks there were before, so that a guarantee for all of them survives a restart. Safe to use
    from several threads; looks are taken one at a time.
    """

    def __init__(
        self,
        reference: Reference,
        width: int,
        *,
        window: int = 1000,
        every: int = 250,
        least: int = 200,
        confidence: float = 0.95,
        guarantee: Guarantee = "all",
        sample: int = 500,
        tighten: Tighten | None = None,
        seen: int = 0,
    ) -> None:
        for name, value, smallest in (("window", window, 8), ("every", every, 1), ("least", least, 1)):
            whole(name, value, smallest)
        number("confidence", confidence, "a number between 0 and 1", 0.0, 1.0, strict=True)
        if guarantee not in get_args(Guarantee):
            raise ParameterError(template("guarantee", "'all' or 'each'", guarantee))
        self.reference, self.window, self.every, self.least = reference, window, every, min(least, window)
        self.confidence, self.guarantee, self.sample = confidence, guarantee, sample
        self.number = seen
        self._tighten = tighten
        no = np.zeros(window, dtype=bool)
        self._held = _Window(np.empty((window, width)), np.empty(window), np.empty(window), no, no.copy())
        self.arrived, self._looked = 0, 0  # people, the refused among them, since the start of this monitor
        self._lock, self._looking = threading.Lock(), threading.Lock()

    @property
    def due(self) -> bool:
        """Is it time to look?"""
        with self._lock:
            return min(self.arrived, self.window) >= self.least and self.arrived - self._looked >= self.every

    def add(self, x: FloatArray, upper: FloatArray, lower: FloatArray | None = None) -> bool:
        """Let people ``x`` (n, m) with proved violations ``upper`` (n,) into the window; is a look due?

        ``lower`` (n,) are attained violations, where somebody looked for them.
        """
        return self._add(x, upper, np.zeros(len(x)) if lower is None else lower, False)

    def refuse(self, count: int) -> bool:
        """Let so many into the window whom the schema refused; is a look due?"""
        count = min(count, self.window)  # nobody else would be left in any case
        return self._add(np.zeros((count, self._held.x.shape[1])), np.zeros(count), np.zeros(count), True)

    def _add(self, x: FloatArray, upper: FloatArray, lower: FloatArray, refused: bool) -> bool:
        with self._lock:
            last, skipped = slice(-self.window, None), max(0, len(x) - self.window)
            x, upper, lower = x[last], upper[last], lower[last]
            places = (self.arrived + skipped + np.arange(len(x))) % self.window
            values: tuple[Any, ...] = (x, upper, lower, refused, refused)
            for held, new in zip(self._held, values, strict=True):
                held[places] = new
            self.arrived += skipped + len(x)
        return self.due

    def people(self) -> tuple[FloatArray, FloatArray]:
        """The people of the window whom the schema admits and their proved violations, in the order of arrival."""
        seen, _ = self._snapshot()
        return seen.x[~seen.refused], seen.upper[~seen.refused]

    def risk(self, number: int) -> float:
        """The risk that the look of this number may take."""
        alpha = float(np.nextafter(1.0 - self.confidence, 0.0))
        return alpha if self.guarantee == "each" else float(down(alpha / (float(number) * (number + 1.0))))

    def look(self) -> Evaluation:
        """Judge the window as it is now.

        People are bounded again by the tighter tier, unless the bounds at hand already show that the mean is within
        epsilon: confidence bounds grow with every value, so that tighter ones would only show it again.
        """
        with self._looking:
            seen, first = self._snapshot()
            look = self.number + 1
            risk, largest = self.risk(look), self.reference.largest
            upper = np.where(seen.refused, largest, seen.upper)
            enough = mean_at_most(upper, largest, risk / 4.0) <= self.reference.epsilon
            if self._tighten is not None and not enough and not seen.tight.all():
                upper[~seen.tight] = np.minimum(upper[~seen.tight], self._tighten(seen.x[~seen.tight]))
                self._store(first, upper)
            found = evaluate(
                self.reference, seen.x, upper, seen.lower, seen.refused,
                risk=risk, number=look, seed=look, sample=self.sample,
            )  # fmt: skip
            self.number, self._looked = look, first + len(seen.x)
            return found

    def _snapshot(self) -> tuple[_Window, int]:
        """Copies in the order of arrival, and how many people came before the window."""
        with self._lock:
            if not self.arrived:
                raise ParameterError("The window is empty: nobody has come by yet.")
            first = max(0, self.arrived - self.window)
            places = np.arange(first, self.arrived) % self.window
            arrays: Any = [held[places] for held in self._held]
            return _Window(*arrays), first

    def _store(self, first: int, upper: FloatArray) -> None:
        """Keep tighter bounds of those who are still in the window."""
        with self._lock:
            still = np.arange(max(first, self.arrived - self.window), first + len(upper))
            self._held.upper[still % self.window], self._held.tight[still % self.window] = upper[still - first], True


@dataclass(frozen=True)
class GroupViolation:
    """The people of one protected group: how many, and the mean of their proved violations."""

    feature: str
    group: str
    people: int
    mean_upper: float


def by_group(schema: Schema, x: FloatArray, upper: FloatArray, smallest: int = 10) -> list[GroupViolation]:
    """Who bears the violations: protected groups of at least ``smallest`` people, by the rule of group fairness.

    Smaller ones would tell about persons, and say little. A number to which the schema gives no range is left out.
    """
    found = []
    for name in schema.protected:
        try:
            grouping = feature_groups(schema, name, x)[0]
        except ParameterError:  # no range that could be split
            continue
        for place, group in enumerate(grouping.names):
            members = grouping.code == place
            if members.sum() >= max(1, smallest):
                spoken = group.removeprefix(f"{name} ")  # the feature stands beside it
                found.append(GroupViolation(name, spoken, int(members.sum()), mean_up(upper[members])))
    return found
