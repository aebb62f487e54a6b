"""Part: every part of the individuals that holds at least a share of them; the worst one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from isonomy.arithmetic import FloatArray, at_most, share
from isonomy.certificates.indices import Audited, Index, NewPeople, State
from isonomy.certificates.reweighting import Reweighting, bin_edges, checked_strangers, quantile
from isonomy.confidence import refuted_mean, share_bounds
from isonomy.errors import ParameterError, template
from isonomy_verify import reweighting as kernel
from isonomy_verify.reweighting import Hints, Sample


@dataclass(frozen=True)
class Part(Reweighting):
    """Every part of the individuals that holds at least the share ``at_least`` of them, by their weights.

    ``at_least`` is above 0 and at most 1, which is all of them. No individual moves; a share of at most ``strangers``
    may be other people. The worst mean violation is that of the worst share of people (CVaR), the last one of which
    may count in part.
    """

    kind: ClassVar[str] = "part"
    noun: ClassVar[str] = "part"
    covered: ClassVar[str] = "parts"
    size_name: ClassVar[str] = "at_least"
    uncomposed: ClassVar[str] = ""
    span: ClassVar[tuple[float, float]] = (1.0, 2.0**-20)
    curve_words: ClassVar[tuple[str, str, str]] = (
        "Parts of the population",
        "Share of a part, at least",
        "The certificate is about parts of these people, of several shares, all of them the largest; no "
        "distance to other people is measured.",
    )

    at_least: float
    strangers: float = 0.0

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
        object.__setattr__(self, "strangers", checked_strangers(self.strangers))

    @property
    def size(self) -> float:
        """Return the share."""
        return self.at_least

    @property
    def kernel(self) -> kernel.Part:
        """Return the share."""
        return kernel.Part(self.at_least, self.strangers)

    def hints(self, people: Sample) -> Hints:
        """Return the levels above which the worst share lies, of upper and of lower bounds."""
        if self.at_least == 1:
            return Hints()
        levels = (quantile(values, people.weights, self.at_least) for values in (people.high, people.low))
        upper, lower = levels
        return Hints((upper,), (lower,))

    def hints_behind(self, people: Sample, most: float, risk: float, counts: bool) -> tuple[float, ...]:
        """Return a mean of the worst part that bets refute; counts need none."""
        return () if counts else (refuted_mean(people.high, most, risk, self.at_least),)

    def masses(self, people: Sample, hints: Hints) -> FloatArray:
        """Return the weights of those above the level, and of those at it, the first first, what the share leaves."""
        if self.at_least == 1:
            return np.array(people.weights)
        (level,) = hints.population
        masses = np.where(people.low > level, people.weights, 0.0)
        left, at = self.at_least * math.fsum(people.weights.tolist()) - math.fsum(masses.tolist()), people.low == level
        before = np.cumsum(people.weights[at]) - people.weights[at]
        masses[at] = np.clip(left - before, 0.0, people.weights[at])
        return masses

    @property
    def densest(self) -> float:
        """Return one over the least share."""
        return 1 / self.at_least

    def measured(self, audited: Audited, people: NewPeople, claim: Mapping[str, Any], risk: float) -> list[Index]:
        """Return the largest share of the audited people that new ones can be: no bin of violations can hold more than
        its own share over it. Of all people nothing is measured.

        **Soundness.** Where no bin of those who are not above all audited ones certainly holds more than a part could,
        their mean is at most that of a part in which each violation is raised to the end of its bin: it *holds* in
        this sense, whatever else they are.
        """
        if self.at_least == 1:
            return []
        counted = np.flatnonzero(audited.weights > 0)
        high, weights = audited.alone.highs(counted), audited.weights[counted]
        edges = bin_edges(high, weights, 20)
        base, place = np.bincount(np.searchsorted(edges, high), weights), np.searchsorted(edges, people.upper)
        counts, index, upper = np.bincount(place, minlength=len(edges) + 1)[: len(edges)], 1.0, 1.0
        inside, lower = int(counts.sum()), 1.0
        for count, p in zip(counts, base / base.sum(), strict=True):
            low, _ = share_bounds(int(count), len(people), risk / len(edges) / 2)
            _, top = share_bounds(int(count), inside, risk / len(edges) / 2) if inside else (0.0, 1.0)
            lower = min(lower, p / top)
            least = max(0.0, (low - self.strangers) / (1 - self.strangers))
            index, upper = min(index, p * len(people) / max(1, count)), min(upper, p / max(p, least))
        state: State = "expired" if upper < self.at_least else "holds" if lower >= self.at_least else "not known"
        name, most = "largest share of the audited people that they can be", audited.alone.largest
        note = "That people are such a part in every respect is never shown."
        if state == "holds":
            raised = self.answer(edges, np.zeros(len(edges)), base.astype(float), None, most).upper
            note = f"In {len(edges)} bins of their bounds; so their mean violation is at most {at_most(raised)}. {note}"
        lower = min(lower, upper)
        return [Index(self.words("these people"), name, index, 0.0, lower, upper, self.at_least, state, note, True)]

    def resized(self, size: float) -> Self:
        """Return parts of another share."""
        return replace(self, at_least=size)

    def sizes(self) -> list[float]:
        """Return at most five shares, the largest first: all, larger parts, its own, half of that."""
        half = float(f"{self.at_least / 2:.6g}")
        return sorted({1.0, 0.5, 0.2, self.at_least, *([half] if half > 0 else [])}, reverse=True)

    def section(self) -> dict[str, Any]:
        """Return the share."""
        return self._with_strangers({"kind": self.kind, "at_least": self.at_least})

    @property
    def alone(self) -> bool:
        """Return whether the only part is all individuals, without strangers."""
        return self.at_least == 1 and not self.strangers

    def words(self, who: str) -> str:
        """Return "part of the individuals that holds at least a share of them"."""
        return f"part of {who} that holds at least {share(self.at_least)} of them{self.evenly}"

    @property
    def place(self) -> str:
        """Return "in a part of at least a share of the individuals the"."""
        return f"In a part with at least {share(self.at_least)} of the individuals the"

    @property
    def mean_words(self) -> str:
        """Return the mean of the worst part, which may be all of them."""
        return "Average largest change of these people" if self.alone else "Average largest change of the worst part"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return the share, and that of strangers."""
        return [("at_least", "Share of a part, at least", self.at_least, share(self.at_least)), *self._stranger_terms()]

    def assumption(self) -> tuple[str, str]:
        """Return which parts are meant."""
        if self.alone:
            return "Parts of the population", "None: only all of these people together."
        return "Parts of the population", (
            f"Every part of these people that holds at least {share(self.at_least)} of them, by their weights, however "
            f"it is chosen; a person may count in part. No person changes{self.evenly}."
        )

    def limit(self, outside: str) -> tuple[str, str]:
        """Return that smaller parts and other people are not covered."""
        if self.alone:
            return "Only these people", "This bound is of all of these people together, and of nobody else."
        others = "more strangers" if self.strangers else "other people"
        return "Only parts of these people", f"Smaller parts of them, and {others}, may be treated worse."
