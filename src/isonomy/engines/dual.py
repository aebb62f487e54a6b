"""The dual over more profiles than fit into memory.

Problem, as in :mod:`isonomy.certificates.dual`: minimise ``F(lambda) = lambda gamma^p + D(lambda)``, where ``D`` is the
weighted mean of everybody's largest ``value - lambda cost``: convex, piecewise linear, and a sum over chunks. A pass
over the chunks gives ``D`` and its slope at some multipliers, so ``F`` lies above the tangents there; where the two
tangents around the minimum meet is the next multiplier to ask for. A few passes are enough, and what is left between
the best value and the meeting point is the *tolerance*.

The lower side is the same problem with the points that were found: the meeting point of the two tangents is attained by
a mixture of the two plans, which together cost no more than ``gamma^p``.

**Soundness.** The upper bound is ``F`` at one multiplier, right for every multiplier. The lower bound is the mean of
attained violations over a plan whose cost was compared with the budget in exact arithmetic. The tolerance is a report,
not a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from isonomy.engines.tallies import At, Kind, Tally
from isonomy_verify.arithmetic import down, power_down, rounded_down
from isonomy_verify.dual import plain, price, together

PASSES = 24
"""The most passes for one request; each leaves an eighth of the interval of multipliers, on a logarithmic scale."""

Measure = Callable[[Sequence[At]], dict[At, Tally]]
"""One pass over all chunks."""


@dataclass(frozen=True)
class Upper:
    """No population within gamma exceeds ``upper``; the best multiplier would give ``tolerance`` less at most."""

    gamma: float
    upper: float
    multiplier: float | None
    tolerance: float


@dataclass(frozen=True, eq=False)
class StreamedDual:
    """The dual of all chunks for one order. ``known`` are the sums asked for so far."""

    measure: Measure
    order: float
    weight: int  # of everybody, an exact sum
    start: tuple[float, ...]  # multipliers to begin with, 0 and one at which nobody travels among them
    accuracy: float  # the tolerance aimed at
    known: dict[At, Tally] = field(default_factory=dict, repr=False)

    def prepare(self, gammas: Sequence[float], kinds: Sequence[Kind] = ("near", "far", "found")) -> None:
        """The sums behind all answers for some gammas, by the same few passes."""
        plain = [At(kind, radius=gamma) for kind in kinds for gamma in gammas if self._plain(gamma)]
        others = [(kind, gamma) for kind in kinds for gamma in gammas if not self._plain(gamma)]
        first = [At(kind, multiplier) for kind, _ in others for multiplier in self.start]
        self._learn([*plain, *first, *([_NOBODY_MOVES] if "found" in kinds else [])])
        for _ in range(PASSES):
            brackets = [(kind, self._bracket(kind, gamma)) for kind, gamma in others]
            wide = [(kind, bracket) for kind, bracket in brackets if bracket.gap > self.accuracy]
            if not self._learn([At(kind, value) for kind, bracket in wide for value in bracket.inside()]):
                return

    def uppers(self, gammas: Iterable[float]) -> list[Upper]:
        """Upper bounds, for all gammas by the same passes."""
        gammas = list(gammas)
        self.prepare(gammas, ["near"])
        return [self._upper(gamma) for gamma in gammas]

    def lowers(self, gammas: Iterable[float]) -> list[float]:
        """What populations within each gamma attain."""
        gammas = list(gammas)
        self.prepare(gammas, ["found"])
        return [max(0.0, rounded_down(self._attained(gamma))) for gamma in gammas]

    def grid_error(self, gamma: float) -> float:
        """What the grid of radii may have cost, and the tolerance: upper, less the bound with people at the far end."""
        self.prepare([gamma], ["near", "far"])
        upper = self._upper(gamma).upper
        if self._plain(gamma):
            return max(0.0, upper - self._mean(At("far", radius=gamma)))
        return max(0.0, upper - float(self._bracket("far", gamma).meeting))

    def largest_gamma(self, epsilon: float, radii: Sequence[float]) -> float | None:
        """The largest gamma, up to the tolerance, whose upper bound was evaluated to be at most epsilon.

        None when not even gamma 0 is; infinity when every gamma is. For every multiplier epsilon is reached no earlier
        than at ``gamma^p = (epsilon - D) / multiplier``. ``radii`` are those of the profiles, for order infinity.
        """
        if self.uppers([0.0])[0].upper > epsilon:
            return None
        if self.uppers([math.inf])[0].upper <= epsilon:
            return math.inf
        if self.order == math.inf:
            return self._largest_step(epsilon, radii)
        gamma = 0.0
        for _ in range(PASSES):
            budgets = [(epsilon - self._mean(at)) / at.multiplier for at in self._places("near") if at.multiplier]
            further = float(max(0.0, *budgets)) ** (1 / self.order) if budgets else 0.0
            if not further > gamma * (1 + 1e-9):
                break
            gamma = further
            self.prepare([gamma], ["near"])
        for attempt in range(53):
            if self._upper(gamma).upper <= epsilon:
                return gamma
            gamma *= 1.0 - 2.0 ** (attempt - 52)
        return 0.0

    def _largest_step(self, epsilon: float, radii: Sequence[float]) -> float:
        """Order infinity: a staircase whose steps are right after the radii."""
        near = np.unique(np.asarray([0.0, *radii]))
        steps = np.unique(np.concatenate([near, np.maximum(0.0, down(near))])).tolist()
        low, high = 0, len(steps)  # steps[0] = 0 is fine, and the bound never falls
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.uppers([steps[middle]])[0].upper <= epsilon else (low, middle)
        return float(steps[low])

    def _upper(self, gamma: float) -> Upper:
        if self._plain(gamma):
            return Upper(gamma, self._mean(At("near", radius=gamma)), None, 0.0)
        bracket, bounds = self._bracket("near", gamma), []
        for multiplier in {0.0, bracket.left, bracket.right} - {math.inf}:  # F is convex
            mean = self._mean(At("near", multiplier))
            bounds.append((together(price(self.order, gamma, multiplier), mean), multiplier))
        upper, multiplier = min(bounds)
        return Upper(gamma, upper, multiplier, max(0.0, upper - float(bracket.meeting)))

    def _mean(self, place: At) -> float:
        return self.known[place].mean_up(self.weight)

    def _attained(self, gamma: float) -> Fraction:
        if self._plain(gamma):
            return Fraction(self.known[At("found", radius=gamma)].total, self.weight)
        return self._bracket("found", gamma).meeting

    def _plain(self, gamma: float) -> bool:
        return plain(self.order, gamma)

    def _learn(self, places: Iterable[At]) -> bool:
        """One pass for what is not known yet, if anything."""
        new = [place for place in dict.fromkeys(places) if place not in self.known]
        if new:
            self.known.update(self.measure(new))
        return bool(new)

    def _places(self, kind: Kind) -> list[At]:
        places = [place for place in self.known if place.kind == kind and place.multiplier is not None]
        return sorted(places, key=lambda place: place.multiplier or 0.0)

    def _bracket(self, kind: Kind, gamma: float) -> _Bracket:
        """The multipliers around the minimum, in exact arithmetic."""
        budget = Fraction(float(power_down(gamma, self.order)))
        spendable = math.floor(budget * self.weight)  # costs are whole numbers too
        places = self._places(kind)
        affordable = [self.known[place].cost <= spendable for place in places]
        at = len(places) - affordable[::-1].index(False) if False in affordable else 0
        right = self._line(places[at], budget) if at < len(places) else self._standing(kind, budget)
        left = self._line(places[at - 1], budget) if at else right
        return _Bracket.of(left, right)

    def _line(self, place: At, budget: Fraction) -> _Line:
        """The tangent of F at a multiplier."""
        tally, multiplier = self.known[place], Fraction(place.multiplier or 0.0)
        cost, total = Fraction(tally.cost, self.weight), Fraction(tally.total, self.weight)
        intercept = total if place.kind == "found" else total + multiplier * cost
        return _Line(float(multiplier), intercept, budget - cost)

    def _standing(self, kind: Kind, budget: Fraction) -> _Line:
        """Nobody travels, whatever the multiplier: for what was found the people themselves, else no violation."""
        total = self.known[_NOBODY_MOVES].total if kind == "found" else 0
        return _Line(math.inf, Fraction(total, self.weight), budget)


_NOBODY_MOVES = At("found", radius=0.0)


@dataclass(frozen=True)
class _Line:
    """``intercept + slope lambda`` touches F at the multiplier; a slope of at least 0 is an affordable plan."""

    multiplier: float
    intercept: Fraction
    slope: Fraction


@dataclass(frozen=True)
class _Bracket:
    """The minimum is between two multipliers; the tangents meet at ``crossing`` with the value ``meeting``.

    ``gap`` is how far the smaller of the two values of F is above the meeting point.
    """

    left: float
    right: float
    crossing: float
    meeting: Fraction
    gap: float

    @classmethod
    def of(cls, left: _Line, right: _Line) -> _Bracket:
        if left is right or left.slope == right.slope:  # affordable without a price: nothing is left to gain
            return cls(right.multiplier, right.multiplier, right.multiplier, right.intercept, 0.0)
        crossing = (left.intercept - right.intercept) / (right.slope - left.slope)
        meeting = left.intercept + left.slope * crossing
        values = [line.intercept + line.slope * Fraction(line.multiplier) for line in (left, right)
                  if math.isfinite(line.multiplier)]  # fmt: skip
        return cls(left.multiplier, right.multiplier, float(crossing), meeting, float(min(values) - meeting))

    def inside(self) -> list[float]:
        """Multipliers to ask for next: the crossing, and some that shrink the bracket in any case."""
        left, right = self.left, self.right
        if math.isinf(right):
            some = [4 * left, 64 * left] if left else [1.0, 64.0]
        elif left == 0:
            some = [right / 4**k for k in range(1, 8)]
        else:
            some = [left * (right / left) ** (share / 8) for share in range(1, 8)]
        return [value for value in (self.crossing, *some) if left < value < right]
