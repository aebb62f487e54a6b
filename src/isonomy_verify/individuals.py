"""What a certificate claims of everybody alone: bounds of their violations, and what becomes of their decisions.

The claims are arrays, one entry for each individual; means and counts follow from them. Upper bounds are claimed with
the margin of :mod:`isonomy_verify.claims`, what witnesses attain with that of single runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import (
    Array,
    down,
    exact_sum,
    mean_of_sums,
    products_down,
    products_up,
    rounded_down,
    up,
)
from isonomy_verify.claims import POINTS, ROWS, downward, inflated, outward
from isonomy_verify.domain import Mask
from isonomy_verify.local import LocalBounds
from isonomy_verify.tiers import enclose_at

DECISIONS = ("none", "certified", "flippable", "undecided")
"""What is said of a decision, as numbers in an array; none: a regression without a cut-off."""

CERTIFIED, FLIPPABLE = DECISIONS.index("certified"), DECISIONS.index("flippable")


def deflated(value: Array | float) -> Array:
    """At most ``value (1 − POINTS) − POINTS``, not below 0: what is claimed of a violation that was attained."""
    return np.asarray(np.maximum(0.0, down(down(value * (1 - POINTS)) - POINTS)))


@dataclass(frozen=True, eq=False)
class Individuals:
    """What is said of everybody alone: nobody similar to individual ``i`` is treated more differently than ``upper``,
    a witness by at least ``lower``; ``decision`` is an index of :data:`DECISIONS`."""

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
        for start in range(0, len(weights), ROWS):
            rows = slice(start, start + ROWS)
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


def witnessed(bounds: LocalBounds, said: Individuals, rows: NDArray[np.intp], x: Array, y: Array, flip: bool) -> Mask:
    """Which counterparts ``y`` of individuals ``x``, of these rows, do what is said: are possible and similar, and
    treated so differently, or (``flip``) decided otherwise.

    **Soundness.** Enclosures hold both runs in real arithmetic; a decision is another one where both are certain.
    """
    similarity, head = bounds.similarity, replace(bounds.head, run_unit=False)
    alone = bounds.network.single(float32_run=False)
    at, other = enclose_at(alone, x), enclose_at(alone, y)
    fits = similarity.domain.allows(x, y) & (similarity.form.distance_upper(x, y) <= similarity.delta)
    if not flip:
        return np.asarray(fits & (head.attained(at, other) >= deflated(said.lower[rows])))
    mine, theirs = head.decision(at), head.decision(other)
    return np.asarray(fits & (mine >= 0) & (theirs >= 0) & (mine != theirs))
