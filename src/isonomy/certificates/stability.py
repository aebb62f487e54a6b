"""Stability: the populations whose stability index (PSI) of the certified violation is at most a number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import wrightomega

from isonomy.arithmetic import FloatArray, parameter
from isonomy.certificates.indices import Audited, Index, NewPeople, State
from isonomy.certificates.reweighting import Reweighting, bin_edges, checked_strangers, decision_sides
from isonomy.confidence import share_bounds
from isonomy.given import FINITE, number, whole
from isonomy_verify import reweighting as kernel
from isonomy_verify.reweighting import Hints, Sample

ACCURACY = 1e-11
"""Of the multiplier of the index, relative to it."""

NEWTON = 200
"""Steps for the multiplier of the sum, at most."""

SPARE = 1e-9
"""The share of the index that the population of the lower bound leaves unused, for roundings."""


@dataclass(frozen=True)
class Stability(Reweighting):
    """Every population whose stability index is at most ``kappa``: the banks' formula, of the certified violation.

    The individuals' own upper bounds are cut into at most ``bins`` bins of about the same weight, with shares ``p_b``.
    Meant are any people, these or others, whose own bounds have shares ``q_b`` with ``Σ (q_b - p_b) ln(q_b / p_b)`` at
    most ``kappa``; of at most the share ``strangers`` nothing is asked. For the share of decisions that can change it
    is the index of the two shares, of decisions that are proved to stay and of others.
    """

    kind: ClassVar[str] = "stability"
    covered: ClassVar[str] = "populations of the index"
    size_name: ClassVar[str] = "kappa"
    uncomposed: ClassVar[str] = ""
    curve_words: ClassVar[tuple[str, str, str]] = (
        "Populations by stability index",
        "Stability index, at most",
        "The certificate is about people whose bounds, in its bins, are spread as those of these people up to a "
        "stability index; the index is that of the violation, not of the features.",
    )

    moved_note: ClassVar[str] = " The index is that of bounds after the moves, less their price."

    kappa: float
    bins: int = 20
    strangers: float = 0.0

    def __post_init__(self) -> None:
        kappa = number("kappa", self.kappa, "a finite number >= 0", high=FINITE)
        object.__setattr__(self, "kappa", kappa)
        object.__setattr__(self, "strangers", checked_strangers(self.strangers))
        whole("bins", self.bins, 1)
        number("bins", self.bins, f"a whole number from 1 to {kernel.BINS}", 1, kernel.BINS)

    @property
    def size(self) -> float:
        """Return κ."""
        return self.kappa

    @property
    def kernel(self) -> kernel.Stability:
        """Return index, bins and strangers."""
        return kernel.Stability(self.kappa, self.bins, self.strangers)

    def hints(self, people: Sample) -> Hints:
        """Return the ends of the bins, the multipliers and the shares of the worst population."""
        edges = bin_edges(people.high, people.weights, self.bins)
        if self.kappa == 0 or len(edges) == 1:
            return Hints((), (), tuple(edges.tolist()))
        place = np.searchsorted(edges, people.high)
        held = np.bincount(place, people.weights / people.weights.max(), minlength=len(edges)).astype(np.float64)
        shares = held / held.sum()
        tops = np.zeros(len(edges))
        np.maximum.at(tops, place, people.low)
        slope, level, _ = worst_shares(edges, shares, self.kappa)
        worst = worst_shares(tops, shares, self.kappa * (1 - SPARE))[2]
        return Hints((slope, level), tuple(worst.tolist()), tuple(edges.tolist()))

    def hints_behind(self, people: Sample, most: float, risk: float, counts: bool) -> tuple[float, ...]:
        """Return the multipliers of the population with the largest shares above the ends of the bins."""
        ends, shares = (np.array(side, dtype=float) for side in self.kernel.bins_behind(people, most, risk, counts))
        ends, shares = ends[shares > 0], shares[shares > 0]
        if self.kappa == 0 or len(ends) == 1:
            return ()
        return worst_shares(ends, shares / shares.sum(), self.kappa)[:2]

    def masses(self, people: Sample, hints: Hints) -> FloatArray:
        """Return the share of each bin on the individual of it with the largest attained violation."""
        edges = np.array(hints.edges)
        place, masses = np.searchsorted(edges, people.high), np.zeros(len(people.weights))
        given = np.array(hints.population) if hints.population else np.bincount(place, people.weights)
        order = np.lexsort((people.low, place))
        last = order[np.append(np.diff(place[order]) > 0, True)]
        masses[last] = given[place[last]] / given.sum() * math.fsum(people.weights.tolist())
        return masses

    def measured(self, audited: Audited, people: NewPeople, claim: Mapping[str, Any], risk: float) -> list[Index]:
        """Return the index of the violation, and that of decisions, where there are any."""
        sides = [("stability index of the violation", claim, audited.alone.highs(slice(None)), people.upper)]
        if claim["changes"] is not None:
            before, after = (decision_sides(each)[0] for each in (audited.alone.decision, people.decision))
            sides.append(("stability index of decisions", claim["changes"], before, after))
        return [
            self._binned(name, np.array(one["edges"]), (old, audited.weights), new, risk / len(sides))
            for name, one, old, new in sides
        ]

    def _binned(
        self, name: str, edges: FloatArray, old: tuple[FloatArray, FloatArray], new: FloatArray, risk: float
    ) -> Index:
        """Return the index of new values in the certificate's bins, without strangers, who are above the last end."""
        place, weights = np.searchsorted(edges, old[0]), old[1] / old[1].max()
        base = np.bincount(place, weights, minlength=len(edges))[: len(edges)]
        base = base / base.sum()
        place, each = np.searchsorted(edges, new), risk / len(edges)
        inside = int((place < len(edges)).sum())
        counts = np.bincount(place, minlength=len(edges) + 1)[: len(edges)]
        ends = [share_bounds(int(count), inside, each) if inside else (0.0, 1.0) for count in counts]
        terms = [(_term(low, p), _term(high, p), low <= p <= high) for (low, high), p in zip(ends, base, strict=True)]
        lower = sum(0.0 if within else min(one, other) for one, other, within in terms)
        upper = sum(max(one, other) for one, other, _ in terms)
        estimate = sum(_term(count / max(1, inside), p) for count, p in zip(counts, base, strict=True))
        state: State = "expired" if lower > self.kappa else "holds" if upper <= self.kappa else "not known"
        floor = (len(edges) - 1) / max(1, inside)
        return Index(self.words("these people"), name, estimate, floor, lower, upper, self.kappa, state, of_bounds=True)

    def resized(self, size: float) -> Self:
        """Return the populations of another index."""
        return replace(self, kappa=size)

    def sizes(self) -> list[float]:
        """Return at most five indices: 0, the banks' .1 and .25, its own, twice that."""
        return sorted({0.0, 0.1, 0.25, self.kappa, float(f"{2 * self.kappa:.6g}")})

    def section(self) -> dict[str, Any]:
        """Return index and bins."""
        return self._with_strangers({"kind": self.kind, "kappa": self.kappa, "bins": self.bins})

    def words(self, who: str) -> str:
        """Return "population with a stability index against the individuals of at most κ"."""
        return f"population with a stability index of at most {parameter(self.kappa)} against {who}{self.evenly}"

    def before_moves(self, who: str) -> str:
        """Return the same of bounds in which moves are counted, whose index is meant then."""
        index = f"a stability index of at most {parameter(self.kappa)}"
        return f"population whose bounds after the moves have {index} against those of {who}{self.evenly}"

    @property
    def place(self) -> str:
        """Return "within a stability index of κ a population's"."""
        return f"Within a stability index of {self.kappa:g} of the individuals a population's"

    @property
    def mean_words(self) -> str:
        """Return the mean within the index."""
        return "Average largest change within the stability index"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return index, bins and strangers."""
        return [
            ("kappa", "Stability index, at most", self.kappa, None), ("bins", "Bins of the index", self.bins, None),
            *self._stranger_terms(),
        ]  # fmt: skip

    def assumption(self) -> tuple[str, str]:
        """Return which populations the proof covers."""
        return "Populations by stability index", (
            "Any people whose own certified violations, in the certificate's bins, have a population stability index "
            f"of at most {parameter(self.kappa)} against these people's{self.evenly}."
        )

    def limit(self, outside: str) -> tuple[str, str]:
        """Return that it is the index of the violation, and what measuring it needs."""
        return "An index of the changes, not of the features", (
            "People whose features are as before can have another index, since it counts how large their changes can "
            "be: to measure it for new people these must be bounded."
        )


def _term(q: float, p: float) -> float:
    """Return ``(q - p) ln(q / p)``."""
    return math.inf if q == 0 < p else (q - p) * math.log(q / p)


def worst_shares(values: FloatArray, shares: FloatArray, kappa: float) -> tuple[float, float, FloatArray]:
    """Return multipliers and shares ``q`` (k,) that solve ``max q @ values`` with an index of at most ``kappa``.

    With multipliers ``λ`` of the index and ``η`` of the sum, ``ln w + 1 - 1/w = (value - η) / λ`` for ``w = q / p``.
    For a given ``λ`` the sum of ``q`` falls with ``η``, and the index falls with ``λ``: two roots.
    """
    least = float(values.min())
    values = values - least
    spread = float(values.max())
    if spread == 0:
        return 1.0, least, shares

    def excess(size: float) -> float:
        tilt = _level(values, shares, math.exp(size))[1]
        return float(shares @ (np.expm1(tilt) * tilt)) - kappa

    low, high = (math.log(spread * end) for end in (1e-2, 1e2))
    while excess(low) < 0 and low > -600:
        low -= 5
    while excess(high) > 0 and high < 600:
        high += 5
    slope = math.exp(brentq(excess, low, high, xtol=ACCURACY, rtol=ACCURACY) if excess(low) > 0 else low)
    level, tilt = _level(values, shares, slope * (1 + 4 * ACCURACY))
    worst = shares * np.exp(tilt)
    worst, kept = worst / worst.sum(), 1.0
    while float((worst - shares) @ np.log(worst / shares)) > kappa:  # of roundings: the index is convex
        worst, kept = shares + (worst - shares) * (1 - 1e-10 * kept), 2 * kept
    return slope, level + least, worst


def _level(values: FloatArray, shares: FloatArray, slope: float) -> tuple[float, FloatArray]:
    """Return ``η`` with ``Σ q = 1``, and ``ln(q / p)`` (k,).

    By Newton's steps for ``log Σ q``, about linear in ``η``, since ``w`` has the slope ``w / (1 + 1 / w)``; by halves
    where a step leads out.
    """
    low, high = float(values.min()), float(values.max())  # at which all w are at least 1, and at most 1
    level = float(shares @ values)  # the answer for a large slope
    for _ in range(NEWTON):
        tilt = _tilt((values - level) / slope)
        total, w = float(shares @ np.expm1(tilt)), np.exp(tilt)
        low, high = (level, high) if total > 0 else (low, level)
        step = math.log1p(total) * (1 + total) * slope / float(shares @ (w * (w / (1 + w))))
        before, level = level, level + step if low <= level + step <= high else (low + high) / 2
        if abs(level - before) <= 1e-8 * slope:  # the next step is the square of that
            break
    return level, _tilt((values - level) / slope)


def _tilt(s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``x`` with ``x - expm1(-x) = s``, at most 600: ``u = exp(-x)`` has ``u + ln u = 1 - s``, of which Wright's
    function is the solution, and one of Newton's steps makes small ``x`` as exact as large ones."""
    s = np.clip(s, -1e300, 600.0)
    x = -np.log(wrightomega(1 - s))
    return np.asarray(x - (x - np.expm1(-x) - s) / (1 + np.exp(-x)))
