"""What a certificate claims of everybody alone: bounds of their violations, and what becomes of their decisions.

The claims are arrays, one entry for each individual; means and counts follow from them. Upper bounds are claimed with
the margin of :mod:`isonomy_verify.claims`, what witnesses attain with that of single runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import (
    SHIFT,
    Array,
    down,
    exact_sum,
    mean_of_sums,
    mean_up,
    products_down,
    products_up,
    rounded_down,
    rounded_up,
    up,
)
from isonomy_verify.claims import CLAIM_ROWS, POINTS, downward, inflated, outward
from isonomy_verify.domain import Mask
from isonomy_verify.models import Bounds
from isonomy_verify.reweighting import Hints, Reweighting, Sample, bounds, hidden, sample_of
from isonomy_verify.text import number

DECISIONS = ("none", "certified", "flippable", "undecided")
"""What is said of a decision, as numbers in an array; none: a regression without a cut-off."""

CERTIFIED, FLIPPABLE = DECISIONS.index("certified"), DECISIONS.index("flippable")


def deflated(value: Array | float) -> Array:
    """At most ``value (1 − POINTS) − POINTS``, not below 0: what is claimed of a violation that was attained."""
    return np.asarray(np.maximum(0.0, down(down(value * (1 - POINTS)) - POINTS)))


@dataclass(frozen=True, eq=False)
class Individuals:
    """What is said of everybody alone: no individual similar to individual ``i`` is treated more differently than
    ``upper``, a witness by at least ``lower``; ``decision`` is an index of :data:`DECISIONS`."""

    upper: Array
    lower: Array
    decision: NDArray[np.uint8]
    largest: float

    def highs(self, rows: NDArray[np.intp] | slice) -> Array:
        """Claimed upper bounds of some individuals."""
        return np.minimum(inflated(self.upper[rows]), inflated(self.largest))

    def claims(self, weights: Array, epsilon: float | None) -> dict[str, Any]:
        """Means and counts, as a certificate says them: sums without rounding, means outward."""
        total = least = hidden = weight = 0
        highest, largest = 0.0, float(inflated(self.largest))
        verdicts, counts = np.zeros(2, dtype=np.int64), np.zeros(len(DECISIONS), dtype=np.int64)
        for start in range(0, len(weights), CLAIM_ROWS):
            rows = slice(start, start + CLAIM_ROWS)
            own, high, low = np.array(weights[rows]), self.highs(rows), deflated(self.lower[rows])
            total += exact_sum(products_up(own, high))
            hidden += exact_sum(products_up(own, up(largest - high)))
            least += exact_sum(products_down(own, low))
            weight += exact_sum(own)
            highest = max(highest, float(high.max()))
            counts += np.bincount(self.decision[rows], minlength=len(DECISIONS))
            if epsilon is not None:
                verdicts += (int((high <= epsilon).sum()), int((low > epsilon).sum()))
        rest = len(weights) - int(verdicts.sum())
        names = ("certified", "violated", "undecided")
        return {
            "upper": outward(mean_of_sums(total, weight, highest)),
            "lower": downward(rounded_down(Fraction(least, weight))),
            "hidden": outward(mean_of_sums(hidden, weight, largest)),
            "verdicts": None if epsilon is None else dict(zip(names, (*verdicts.tolist(), rest), strict=True)),
            "decisions": {kind: count for kind, count in zip(DECISIONS, counts.tolist(), strict=True) if count},
        }

    def samples(self, weights: Array, groups: NDArray[np.intp] | None) -> tuple[Sample, Sample]:
        """Claimed bounds of the violation, and of a number that is 1 where a decision can change, of those who
        count."""
        sides = (self.decision != CERTIFIED).astype(float), (self.decision == FLIPPABLE).astype(float)
        own = self.highs(slice(None)), deflated(self.lower)
        return sample_of(*own, weights, groups), sample_of(*sides, weights, groups)

    def reweighted(
        self, shift: Reweighting, weights: Array, groups: NDArray[np.intp] | None, hints: Sequence[Hints]
    ) -> dict[str, Any]:
        """What is claimed of a shift in which no individual moves: of the mean violation, and of the share of decisions
        that can change (null without decisions), each by its own hints."""
        largest, (violations, changes) = float(inflated(self.largest)), self.samples(weights, groups)
        lost = mean_up(np.maximum(0.0, up(largest - violations.high)), violations.weights)
        said = _said(shift, violations, hints[0], largest, lost) | {"changes": None}
        if self.decision.any():
            # Decisions are drawn each with the same probability, whatever their weights are.
            heaviest = rounded_up(Fraction(float(changes.weights.max())) * len(weights) / _total(changes))
            said["changes"] = _said(shift, changes, hints[1], 1.0, heaviest)
        return said


def _total(people: Sample) -> Fraction:
    return Fraction(exact_sum(people.weights), 1 << SHIFT)


def _said(shift: Reweighting, people: Sample, hints: Hints, largest: float, lost: float) -> dict[str, Any]:
    """Bounds with the margin of claims, outward, what can hide, and the hints."""
    upper, lower = bounds(shift, people, hints, largest)
    # Other machines compute other logarithms and exponentials; of a population in closed form only the bound has them.
    margin = POINTS if len(hints.multipliers) > 1 or not shift.free_strangers else 0.0
    return {
        "upper": outward(upper + margin),
        "lower": downward(lower if shift.free_strangers else lower - margin),
        "hidden": outward(hidden(shift, people, hints, largest, lost)),
        **{name: list(numbers) for name, numbers in hints._asdict().items()},
    }


def hints_of(said: Mapping[str, Any]) -> tuple[Hints, Hints]:
    """The hints that a claim names: of the violation, and of decisions."""
    each = (said, said["changes"] or dict.fromkeys(Hints._fields, ()))
    first, second = (Hints(*(tuple(map(number, one[name])) for name in Hints._fields)) for one in each)
    return first, second


def witnessed(local: Bounds, said: Individuals, rows: NDArray[np.intp], x: Array, y: Array, flip: bool) -> Mask:
    """Which counterparts ``y`` of individuals ``x``, of these rows, do what is said: are possible and similar, and
    treated so differently, or (``flip``) decided otherwise.

    **Soundness.** Enclosures hold both runs in real arithmetic; a decision is another one where both are certain.
    """
    similarity, head = local.similarity, replace(local.head, run_unit=False)
    at, other = local.enclose(x), local.enclose(y)
    fits = similarity.domain.allows(x, y) & (similarity.form.distance_upper(x, y) <= similarity.delta)
    if not flip:
        return np.asarray(fits & (head.attained(at, other) >= deflated(said.lower[rows])))
    mine, theirs = head.decision(at), head.decision(other)
    return np.asarray(fits & (mine >= 0) & (theirs >= 0) & (mine != theirs))
