"""Part: every part of the individuals that holds at least a share of them; the worst one, by the kernel's dual."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, share
from isonomy.certificates.protocol import Items, Shift
from isonomy.errors import ParameterError, template
from isonomy.similarity.metric import Metric
from isonomy_verify import dual, shifts

if TYPE_CHECKING:
    from isonomy.certificates.dual import Mixture


@dataclass(frozen=True)
class Part(Shift):
    """Every part of the individuals that holds at least the share ``at_least`` of them, by their weights.

    ``at_least`` is above 0 and at most 1, which is all of them. No individual moves. The worst mean violation is that
    of the worst share of people (CVaR), the last one of which may count in part.

    A part takes the share ``a_i`` from 0 to 1 of individual ``i``: with ``π_i`` their shares of the weight and ``q =
    at_least`` the largest mean is ``max Σ π_i a_i v_i / q`` with ``Σ π_i a_i <= q``. So each has two choices, in
    it at a cost of 1 with the value ``v_i``, or out of it for nothing, and ``q`` is the budget.
    """

    kind: ClassVar[str] = "part"
    noun: ClassVar[str] = "part"
    covered: ClassVar[str] = "parts"
    size_name: ClassVar[str] = "at_least"
    curve_words: ClassVar[tuple[str, str, str]] = (
        "Parts of the population",
        "Share of a part, at least",
        "The certificate is about parts of these people, from all of them down to the share that was asked for; no "
        "distance to other people is measured.",
    )
    sample_refusal: ClassVar[str] = (
        "A certificate about parts of these individuals has no statement about the population behind them: ask for a "
        "shift with a gamma."
    )

    at_least: float

    def __post_init__(self) -> None:
        right, given = "a number above 0, at most 1", self.at_least
        known = isinstance(given, int | float | np.number | Fraction) and not isinstance(given, bool | np.bool_)
        if not known or not 0 < given <= 1:
            raise ParameterError(template("at_least", right, given))
        # A number of another kind that lies between two floats becomes the float of more parts.
        below = float(given)
        below = below if below <= given else math.nextafter(below, 0.0)
        if below == 0:
            raise ParameterError(template("at_least", right, given))
        object.__setattr__(self, "at_least", below)

    @property
    def size(self) -> float:
        """Return the share."""
        return self.at_least

    @property
    def free(self) -> bool:
        """Return whether the only part is all individuals."""
        return self.kernel.plain

    @property
    def budget(self) -> float:
        """Return the share."""
        return self.at_least

    @property
    def scale(self) -> float:
        """Return ``1 / q``: costs and values are shares of all, the bound is a mean of the part."""
        return min(1 / self.at_least, dual.HUGE)

    def bound_up(self, multiplier: float | None, mean: float) -> float:
        """Return an upper bound of ``t + mean / q``."""
        return self.kernel.bound(multiplier, mean)

    def heights_up(self, cells: dual.Cells, multiplier: float | None) -> FloatArray:
        """Return the kernel's heights (n,), ``max(v - t, 0)`` rounded up."""
        return self.kernel.heights(cells, multiplier)

    def items(self, cells: dual.Cells) -> Items:
        """Return two choices of each individual, in the part and out of it."""
        return _in_and_out(np.arange(len(cells.weights)), dual.heights(cells, 1.0, 0.0, None))

    def attainable(self, owner: NDArray[np.intp], cost: FloatArray, value: FloatArray) -> tuple[Items, float]:
        """Return the points of cost 0 in the part, and a choice of each individual out of it; a share of 1 holds all
        of them."""
        out = np.unique(owner)
        inside = np.where(cost == 0, 0.0 if self.free else 1.0, math.inf)
        items = np.append(owner, out), np.append(inside, np.zeros(len(out))), np.append(value, np.zeros(len(out)))
        return items, math.inf if self.free else self.at_least

    def attained(self, mean: Fraction) -> Fraction:
        """Return ``mean / q``."""
        return self.kernel.attained(mean)

    def masses(self, mixture: Mixture, weights: FloatArray, points: int) -> FloatArray:
        """Return how much of each individual's weight is in the part, at their points (k,)."""
        return mixture.masses(weights, points + len(weights))[:points]

    def completed(self, masses: FloatArray, owner: NDArray[np.int64], weights: FloatArray) -> tuple[FloatArray, float]:
        """Return the masses of a whole part, which holds the share up to rounding: where masses hold less, those who
        are in it in part are taken whole, and then others join them, the first first."""
        masses = np.array(masses)
        share = self.at_least * math.fsum(weights.tolist())
        missing = max(0.0, share * (1 - 1e-12) - math.fsum(masses.tolist()))  # none joins for a rounding error
        held = np.bincount(owner, masses, minlength=len(weights))
        first = np.unique(owner, return_index=True)[1]
        first = first[np.argsort(held[owner[first]] == 0, kind="stable")]
        spare = np.maximum(0.0, weights[owner[first]] - held[owner[first]])
        before = np.cumsum(spare) - spare
        masses[first] += np.clip(missing - before, 0.0, spare)
        return masses, math.fsum(masses.tolist())

    def resized(self, size: float) -> Self:
        """Return parts of another share."""
        return type(self)(size)

    def sizes(self) -> list[float]:
        """Return at most five shares, the largest first: all, larger parts, its own, half of that."""
        half = float(f"{self.at_least / 2:.6g}")
        return sorted({1.0, 0.5, 0.2, self.at_least, *([half] if half > 0 else [])}, reverse=True)

    @property
    def kernel(self) -> shifts.Part:
        """Return the share."""
        return shifts.Part(self.at_least)

    def section(self) -> dict[str, Any]:
        """Return the share."""
        return {"kind": self.kind, "at_least": self.at_least}

    def evidence(self) -> dict[str, Any]:
        """Return the share."""
        return {"at_least": self.at_least}

    @property
    def alone(self) -> bool:
        """Return whether the only part is all individuals."""
        return self.free

    def words(self, who: str) -> str:
        """Return "part of the individuals that holds at least a share of them"."""
        return f"part of {who} that holds at least {share(self.at_least)} of them"

    @property
    def place(self) -> str:
        """Return "in a part of at least a share of the individuals the"."""
        return f"In a part with at least {share(self.at_least)} of the individuals the"

    @property
    def mean_words(self) -> str:
        """Return the mean of the worst part."""
        return "Mean violation of the worst part"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return the share."""
        return [("at_least", "Share of a part, at least", self.at_least, share(self.at_least))]

    def assumption(self) -> tuple[str, str]:
        """Return which parts are meant."""
        if self.alone:
            return "Parts of the population", "None: only all of these people together."
        return "Parts of the population", (
            f"Every part of these people that holds at least {share(self.at_least)} of them, by their weights, however "
            "it is chosen; a person may count in part. No person changes."
        )

    def limit(self, outside: str) -> tuple[str, str]:
        """Return that smaller parts and other people are not covered."""
        smaller = "Smaller parts of them may be treated worse, and other people were not looked at."
        return "Only parts of these people", "Only all of these people together were judged." if self.alone else smaller

    @classmethod
    def read(cls, section: Mapping[str, Any], ground: Metric | None) -> Self:
        """Return the shift of a section of a record."""
        return cls(section["at_least"])


def _in_and_out(owner: NDArray[np.intp], value: FloatArray) -> Items:
    """Return two choices of each individual: the value at a cost of 1, and nothing for nothing."""
    none = np.zeros(len(owner))
    return np.tile(owner, 2), np.append(none + 1.0, none), np.append(value, none)
