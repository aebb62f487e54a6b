"""What a certificate says of decisions of people who move, and of the population behind its sample, checked.

Claims follow from those about everybody alone: radii within which decisions stand, profiles, and bounds
(:mod:`isonomy_verify.sampling`). That the individuals are independent draws no file can show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import SHIFT, Array, exact_sum, mean_up, rounded_down, rounded_up
from isonomy_verify.claims import CLAIM_ROWS, POINTS, Profiles, claimed_heights, downward, inflated, outward
from isonomy_verify.composed import Composed
from isonomy_verify.individuals import CERTIFIED, Individuals
from isonomy_verify.models import ReachBounds
from isonomy_verify.reweighting import Groups, Hints, Reweighting, Sample, hidden, sample_of
from isonomy_verify.sampling import risk_of, share_down, stakes
from isonomy_verify.shifts import Movement
from isonomy_verify.text import need, number

Numbers = Sequence[float]
NO_HINTS = Hints()


STEPS = (0.0, *(2.0 ** (-k / 4) for k in range(56, -1, -1)))
"""Ways of hints to the largest value, where some claims may be false."""


class Turned(NamedTuple):
    """Those whose decision was shown to change after a move, at most one point of each individual ``owner`` (k,): at a
    ``cost`` (k,), with a ``mass`` (k,) in the population that is shown."""

    owner: NDArray[np.intp]
    cost: Array
    mass: Array


def bound_behind(
    shift: Reweighting, people: Sample, hints: Sequence[float], most: float, risk: float, counts: bool = False
) -> float:
    """No population of the shift, made of the one of which the individuals are independent draws, has a mean above
    this, but with probability ``risk``; ``most`` is a bound for any individual. With ``counts`` values are 0 and 1."""
    need(bool(np.ptp(people.weights) == 0) and len(people.weights) > 1, "draws of unequal weight, or a single one")
    need(float(people.high.max()) <= most, "a value above the largest")
    tau, bound = Fraction(shift.strangers), shift.behind(people, hints, most, risk, counts)
    return rounded_up((1 - tau) * min(bound, Fraction(most)) + tau * Fraction(most))


def reached_behind(shift: Reweighting, people: Sample, risk: float) -> float:
    """One population of the shift, made of that behind the individuals, has at least this share of the value 1, but
    with probability ``risk``; other values are 0."""
    return max(0.0, rounded_down((1 - Fraction(shift.strangers)) * shift.reached_behind(people, risk)))


def behind(
    alone: Individuals,
    shift: Reweighting,
    weights: Array,
    groups: NDArray[np.intp] | None,
    hints: Sequence[Numbers],
    risk: float,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """What is claimed of the same populations, made of the one of which these individuals are independent draws,
    but with probability ``risk`` each: of the mean violation, and, on both sides together, of the share of
    decisions that can change (None without decisions)."""
    largest, (violations, changes) = float(inflated(alone.largest)), alone.samples(weights, groups)
    upper = bound_behind(shift, violations, hints[0], largest, risk)
    said = {"upper": outward(min(upper + POINTS, largest)), "hints": list(hints[0])}
    if not alone.decision.any():
        return said, None
    share = bound_behind(shift, changes, hints[1], 1.0, risk / 2, counts=True)
    reached = max(0.0, reached_behind(shift, changes, risk / 2) - POINTS)
    sides = {"upper": outward(min(share + POINTS, 1.0)), "lower": downward(reached)}
    return said, {**sides, "hints": list(hints[1])}


def behind_drawn(
    alone: Individuals,
    shift: Reweighting,
    weights: Array,
    groups: NDArray[np.intp] | None,
    said: Mapping[str, Any],
    risk: float,
    missed: int,
) -> tuple[float, ...]:
    """What of the same populations still follows where up to ``missed`` of the claims about individuals are false: of
    the mean violation, and of the share of decisions that can change.

    **Soundness.** Bounds rise with every value, and bets lose the most where the least values are as large as any can
    be; of a group all the false claims may be. Any hints will do: larger means are refuted wherever smaller ones are.
    """
    mosts = (float(inflated(alone.largest)), 1.0)
    found = []
    for people, hints, most, counts in zip(
        alone.samples(weights, groups), behind_of(said), mosts, (False, True), strict=True
    ):
        if not counts or alone.decision.any():
            worst, own = _raised(people, missed, most), risk / 2 if counts else risk
            tried = ([hint + step * (most - hint) for hint in hints] for step in STEPS)
            found.append(min(bound_behind(shift, worst, each, most, own, counts) for each in tried))
    return tuple(outward(min(each + POINTS, most)) for each, most in zip(found, mosts, strict=False))


def _raised(people: Sample, missed: int, most: float) -> Sample:
    """The individuals with the least values of each group raised to the largest."""
    high, first = np.array(people.high), people.groups if people.groups.ndim == 1 else people.groups[:, 0] * 0
    for group in range(int(first.max()) + 1):
        some = np.flatnonzero(first == group)
        high[some[np.argsort(high[some], kind="stable")[:missed]]] = most
    return people._replace(high=high)


def made_of_it(
    alone: Individuals,
    shift: Reweighting,
    weights: Array,
    groups: NDArray[np.intp] | None,
    said: Mapping[str, Any],
    confidence: float | None,
) -> tuple[bool, str]:
    """Whether what is claimed of the populations of a shift, made of the one behind the individuals, follows, if
    anything is claimed; and words for it."""
    changes = said["changes"] or {}
    mean, share = said.get("behind"), changes.get("behind")
    if mean is None and share is None:
        return True, ""
    if mean is None or confidence is None or (share is None) != (not changes):
        return False, "; of the population behind the sample something else than was asked for"
    implied, shares = behind(alone, shift, weights, groups, behind_of(said), risk_of(confidence))
    holds, word = implied["upper"] <= number(mean["upper"]), f"; behind the sample at most {mean['upper']}"
    if share is not None and shares is not None:
        holds &= shares["upper"] <= number(share["upper"]) and 0 <= number(share["lower"]) <= shares["lower"]
        word += f", decisions from {share['lower']} to {share['upper']}"
    return holds, f"{word}, if these are independent draws"


def behind_of(said: Mapping[str, Any]) -> tuple[Numbers, Numbers]:
    """The hints that a claim names of what is behind the individuals: of the violation, and of decisions."""
    each = (said["behind"], (said["changes"] or {}).get("behind") or {"hints": ()})
    first, second = (tuple(map(number, one["hints"])) for one in each)
    return first, second


def nearby(
    shift: Movement,
    profiles: Profiles,
    weights: Array,
    said: Mapping[str, Any],
    confidence: float | None,
    largest: float,
) -> bool:
    """Whether what is claimed of the mean in populations around the one behind the sample follows by Hoeffding's
    inequality or bets, with a range and multipliers that were fixed in advance; ``largest`` is derived for any
    individual."""
    upper, slope, most = number(said["upper"]), multiplier_of(said), float(inflated(profiles.largest))
    if upper >= most:  # true of anybody, and so of every population
        return True
    tries = shift.tries(profiles.largest, slope)
    if confidence is None or not tries or np.ptp(weights) != 0 or profiles.largest > inflated(largest):
        return False
    high = claimed_heights(profiles, np.arange(len(weights)), shift, slope)
    return confident(upper, shift.bound(slope, 0.0), high, most, (1 - confidence) / tries)


def confident(upper: float, price: float, high: Array, largest: float, alpha: float) -> bool:
    """Is a mean above what ``upper`` leaves refuted by Hoeffding's bound, or by bets on the values fixed in advance?

    **Soundness.** Factors of bets are above 1/32, so that a logarithm, and a sum of them, is wrong by less than
    ``2^-40`` for each individual; both are asked for more than is needed by that and a billionth.
    """
    n, m, h = len(high), (upper - price) / largest - 1e-9, high / largest
    odds = -math.log(0.9 * alpha) + n * 2.0**-40 + 1e-9
    theta = stakes(n, odds)
    if not m < 1:
        return bool(m >= 1)  # not where it is no number
    wealth = sum(np.log1p(np.outer((m - h[k : k + 4096]) / (1 - m), theta)).sum(0) for k in range(0, n, 4096))
    simple = float(h.mean()) + math.sqrt(-math.log(0.1 * alpha) / (2 * n)) <= m
    return bool(simple or np.logaddexp.reduce(wealth) - math.log(len(theta)) >= odds)


def decision_profiles(decision: NDArray[np.uint8], steady: Array, is_norm: bool) -> Profiles:
    """Profiles of a number that is 1 where a decision can change: 0 up to the radius of everybody whose decision
    stands. Where a move may cost nothing, one that stands for the individual alone says nothing."""
    stands = (decision == CERTIFIED) & ((steady > 0) | is_norm)
    far = stands & (steady > 0)
    start = np.append(0, np.cumsum(1 + far.astype(np.int64)))
    radius, value = np.zeros(int(start[-1])), np.zeros(int(start[-1]))
    radius[start[1:][far] - 1] = steady[far]
    value[start[:-1][~stands]] = 1.0
    return Profiles(start, radius, value, 1.0)


def moved(
    shift: Movement | Composed,
    profiles: Profiles,
    weights: Array,
    turned: Turned,
    multiplier: float | None,
    hints: Hints = NO_HINTS,
    groups: Groups | None = None,
) -> dict[str, Any]:
    """What is claimed of the share of decisions that can change where individuals move: at most the dual of their
    profiles, at least the masses of those who were shown to have another decision after moves that the shift allows.

    Where they are reweighted first, by ``hints`` of the heights in the place of own bounds.
    """
    counted, rows = np.flatnonzero(weights > 0), np.arange(len(weights))
    own, least = np.array(weights[counted]), 0.0
    total, heaviest = exact_sum(own), float(own.max())
    most = rounded_up(Fraction(heaviest) * len(weights) / Fraction(total, 1 << SHIFT))
    said: dict[str, Any] = {}
    if shift.reweighting is not None:
        both = shift
        high = decision_heights(profiles, rows, both.then, multiplier)
        people = sample_of(high, np.zeros(len(high)), weights, groups)
        upper = both.bound(multiplier, people, hints, 1.0)
        most = hidden(both.first, people, hints, 1.0, most)
        if (weights[turned.owner] > 0).all():
            owner, ones = np.searchsorted(counted, turned.owner), np.ones(len(turned.owner))
            least = both.attained(people, hints, owner, turned.mass, turned.cost, ones) or 0.0
        said = {"hints": {name: list(numbers) for name, numbers in hints._asdict().items()}}
    else:
        mean = mean_up(decision_heights(profiles, counted, shift.movement, multiplier), own)
        upper = shift.movement.bound(multiplier, mean)
        if (turned.mass <= weights[turned.owner]).all() and shift.movement.keeps(turned.mass, turned.cost, total):
            least = rounded_down(Fraction(exact_sum(turned.mass), total))
    return {
        "upper": outward(min(1.0, upper + POINTS)),
        "lower": downward(least),
        "hidden": outward(most),
        "multiplier": multiplier,
        **said,
    }


def decision_heights(profiles: Profiles, rows: NDArray[np.intp], shift: Movement, multiplier: float | None) -> Array:
    """At most 1 (n,), what individuals add to the share of decisions that can change."""
    return np.minimum(1.0, shift.heights(profiles.cells(rows), multiplier))


def nearby_decisions(
    shift: Movement | Composed,
    profiles: Profiles,
    weights: Array,
    turned: Turned,
    groups: Groups | None,
    said: Mapping[str, Any],
    confidence: float | None,
) -> tuple[bool, str]:
    """Whether what is claimed of the share of decisions that can change in populations of the shift follows from the
    radii, and from those who were shown to have another one; and words for it."""
    slope, hints = multiplier_of(said), NO_HINTS
    shift.movement.check(slope)
    if shift.reweighting is not None:
        hints = Hints(*(tuple(map(number, said["hints"][name])) for name in Hints._fields))
    implied = moved(shift, profiles, weights, turned, slope, hints, groups)
    holds = implied["upper"] <= number(said["upper"]) and implied["hidden"] <= number(said["hidden"])
    holds &= 0 <= number(said["lower"]) <= implied["lower"]
    word, behind = f"from {said['lower']} to {said['upper']}", said.get("behind")
    if behind is None:
        return holds, word
    word += f"; behind the sample from {behind['lower']} to {behind['upper']}, if these are independent draws"
    if shift.reweighting is not None:
        return False, word
    return holds and _decisions_behind(shift.movement, profiles, weights, turned, behind, confidence), word


def _decisions_behind(
    shift: Movement,
    profiles: Profiles,
    weights: Array,
    turned: Turned,
    said: Mapping[str, Any],
    confidence: float | None,
) -> bool:
    """Whether bets and counts, at half the risk each, show what is claimed around the population behind the sample."""
    if confidence is None or np.ptp(weights) != 0 or len(weights) < 2:
        return False
    n, risk, upper, slope = len(weights), risk_of(confidence) / 2, number(said["upper"]), multiplier_of(said)
    if not 0 <= number(said["lower"]) <= turned_behind(shift, turned, n, risk):
        return False
    if upper >= 1:
        return True
    tries = shift.tries(1.0, slope)
    high = decision_heights(profiles, np.arange(n), shift, slope) if tries else np.ones(n)
    return bool(tries and confident(upper, shift.bound(slope, 0.0), high, 1.0, risk / tries))


def turned_behind(shift: Movement, turned: Turned, n: int, risk: float) -> float:
    """At most the share of decisions that change in one population around that behind ``n`` draws, with this risk: into
    it everybody moves who has another decision within the radius; those shown were drawn from them."""
    return share_down(int((turned.cost <= shift.radius).sum()), n, risk)


def stands_within(reach: ReachBounds, x: Array, rows: NDArray[np.intp], steady: Array) -> NDArray[np.bool_]:
    """Whether the decisions (k,) of some rows stand within the radii (n,) that are claimed of them, where any is."""
    stands, radii = np.ones(len(rows), dtype=bool), np.asarray(steady[rows])
    for radius in np.unique(radii[radii > 0]):
        some = np.flatnonzero(radii == radius)
        for start in range(0, len(some), CLAIM_ROWS):
            block = some[start : start + CLAIM_ROWS]
            stands[block] = reach.stands(np.ascontiguousarray(x[rows[block]]), float(radius))
    return stands


def multiplier_of(said: Mapping[str, Any]) -> float | None:
    """The multiplier of a claim; None where there is none."""
    return None if said["multiplier"] is None else number(said["multiplier"])
