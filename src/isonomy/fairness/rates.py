"""Rates of groups and the gaps between them: resampled, and as the two tables of :class:`GroupFairness`.

**Bootstrap.** As many individuals as there are, drawn with replacement, each with its sampling weight. Individuals of
the same cell (groups, outcome, selection) and weight are interchangeable, so what is drawn is how often each such
*kind* occurs: multinomial counts, whose cost depends on the number of kinds and not on that of people. This
is right for independent individuals; strata and clusters of a survey are not known here.

**Intervals for the largest gap.** The plain percentile interval of ``max - min`` never holds 0 and so fails at parity.
Instead every pair of groups gets an interval for its *signed* gap, at a depth at which all pairs hold together
(simultaneous percentile intervals, Mandel & Betensky 2008); if they do, the largest gap lies between the largest lower
end and the largest upper end. Ratios likewise. Depths are ranks, so the scale on which gaps are measured is no matter.
The depth is computed on the resamples it is used on, and therefore taken one step further out.

**Caution.** Where a bootstrap cannot see what it does not know, the replicates err towards wide intervals: a rate that
a resample leaves undefined could be anything, and a rate of exactly 0 or 1 (which resampling never moves) is drawn from
``Beta(1, n)``, whose quantiles are the Clopper-Pearson limits. So is the share of people who are not like those of a
group that all have the same violation: they could have none, or the largest. A rate that rests on few people of unequal
weights (of the selected, or of the others, fewer than ``FEW`` effective) is drawn from the Beta distributions of the
Clopper-Pearson limits at the effective numbers: percentiles of a bootstrap hold such a rate in 75 to 90 of 100 samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError
from isonomy.fairness.decisions import BoolArray
from isonomy.fairness.groups import Grouping, IntArray
from isonomy_verify.arithmetic import down, gamma, up
from isonomy_verify.reweighting import numbered

NUMBERS = 2**20
"""Numbers held at a time while resampling."""

UNEQUAL = 1e-100
"""Positive weights below this fraction of the largest are refused: their squares could vanish."""

FOUR_FIFTHS = 0.8

FEW = 10
"""Effective people on the smaller side of a rate below which a bootstrap of unequal weights is not trusted."""

UNDERFLOW = 1e-200
"""More than all products of weights and violations can lose by underflow, as a part of a group's weight."""

_EMPTY = {
    "selection_rate": "nobody with a positive weight",
    "true_positive_rate": "nobody with a favourable outcome",
    "false_positive_rate": "nobody with an unfavourable outcome",
    "accuracy": "nobody with a positive weight",
    "violation": "nobody with a positive weight",
}
_COMPARED = {
    "demographic_parity": ("selection_rate",),
    "equalised_odds": ("true_positive_rate", "false_positive_rate"),
    "equal_opportunity": ("true_positive_rate",),
}


@dataclass(frozen=True, eq=False)
class Rates:
    """One rate of every group: its value, and replicates between which its resampled value lies.

    ``low`` and ``high`` are (resamples, groups), equal wherever a resample defines the rate; for a mean that is itself
    only known to lie between bounds, ``value`` is the lower and ``value_high`` the upper one. ``size`` is the effective
    number of people that a rate is taken over. A rate that the people leave undefined is NaN.
    """

    value: FloatArray
    value_high: FloatArray
    low: FloatArray
    high: FloatArray
    size: FloatArray

    @property
    def defined(self) -> BoolArray:
        """Return which groups (groups,) have this rate."""
        return ~np.isnan(self.value)

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Return the percentile interval of each group on its own, widened to hold the value: (groups,) each."""
        tail = (1 - confidence) / 2
        low = np.quantile(self.low, tail, axis=0, method="lower")
        high = np.quantile(self.high, 1 - tail, axis=0, method="higher")
        return np.minimum(low, self.value), np.maximum(high, self.value_high)

    def of(self, groups: BoolArray) -> Rates:
        """Return the rates of some groups."""
        return Rates(*(getattr(self, item.name)[..., groups] for item in fields(self)))


class Kinds:
    """Interchangeable individuals, counted; and what resampling makes of their totals in every cell."""

    def __init__(
        self,
        groupings: list[Grouping],
        outcome: IntArray,
        weights: FloatArray,
        violation: tuple[FloatArray, FloatArray] | None,
        largest: float,
    ) -> None:
        """Count the kinds of individuals.

        ``outcome`` is 0 to 3: twice whether the outcome was favourable, plus whether selected; ``largest`` is the
        largest possible violation.
        """
        used = np.flatnonzero(weights > 0)  # a weight of 0 counts for nothing
        cell = np.zeros(len(used), dtype=np.int64)
        for code in [*(grouping.code for grouping in groupings), outcome]:
            column = code[used]
            cell = numbered(cell * (int(column.max()) + 1) + column)  # at every step, so that no product overflows
        del column
        if violation is None:
            values, weight = np.unique(weights[used], return_inverse=True)
            first, self.count = np.unique(cell * len(values) + weight, return_index=True, return_counts=True)[1:]
        else:  # everybody is of a kind of their own
            first, self.count = np.arange(len(used)), np.ones(len(used), dtype=np.int64)
        order = np.argsort(cell[first], kind="stable")
        first, self.count = first[order], self.count[order]
        self.starts = np.unique(cell[first], return_index=True)[1]
        member = used[first]
        weight = weights[member] / weights[member].max()  # only ratios matter, and this way no sum overflows
        if weight.min() < UNEQUAL:
            right, least = f"within a factor of {1 / UNEQUAL:g} of each other", float(weights[used].min())
            raise DataError(f"Sampling weights must be {right}. Got {least!r}.")
        # Weight, then the weighted lower and upper violations.
        self.measures = [weight] + [weight * bound[member] for bound in violation or ()]
        self.largest = largest
        self.cells = member[self.starts]  # one individual of every cell, which has its groups and outcome
        self.outcome = outcome[self.cells]

    def totals(self) -> list[FloatArray]:
        """Return sums over every cell, (1, cells) each: people, their squared weights, then each measure."""
        return self._summed(self.count[None], [np.ones(len(self.count)), self.measures[0] ** 2, *self.measures])

    def resampled(self, resamples: int, rng: np.random.Generator) -> list[FloatArray]:
        """Return the totals of every resample: (resamples, cells) for each measure."""
        n, rows = int(self.count.sum()), max(1, NUMBERS // len(self.count))
        parts = [
            self._summed(rng.multinomial(n, self.count / n, size=min(rows, resamples - start)), self.measures)
            for start in range(0, resamples, rows)
        ]
        return [np.concatenate(measure) for measure in zip(*parts, strict=True)]

    def by_group(self, sums: FloatArray, grouping: Grouping) -> FloatArray:
        """Return sums over cells as (resamples, groups, outcome favourable, selected)."""
        place = grouping.code[self.cells] * 4 + self.outcome
        spread = np.zeros((len(place), 4 * len(grouping.names)))
        spread[np.arange(len(place)), place] = 1.0
        return np.asarray(sums @ spread).reshape(len(sums), len(grouping.names), 2, 2)

    def _summed(self, counts: IntArray, measures: list[FloatArray]) -> list[FloatArray]:
        return [np.add.reduceat(counts * measure, self.starts, axis=1) for measure in measures]


def make_rates(
    part: FloatArray,
    base: FloatArray,
    replicates: tuple[FloatArray, FloatArray],
    squares: FloatArray,
    rng: np.random.Generator,
) -> Rates:
    """Return rates ``part / base`` of groups, with replicates of both; ``squares`` are summed over the base."""
    value = divide(part, base, math.nan)
    size = divide(base * base, squares, 0.0)
    drawn = divide(*replicates, math.nan)
    low, high = np.where(np.isnan(drawn), 0.0, drawn), np.where(np.isnan(drawn), 1.0, drawn)
    fixed = (value == 0) | (value == 1)
    if fixed.any():
        distance = rng.beta(1.0, size[fixed], size=(len(drawn), int(fixed.sum())))
        low[:, fixed] = high[:, fixed] = np.where(value[fixed] == 1, 1.0 - distance, distance)
    few = ~fixed & (squares != base) & (np.minimum(value, 1 - value) * size < FEW)
    if few.any():
        place, hits, n = rng.random((len(drawn), int(few.sum()))), (value * size)[few], size[few]
        low[:, few], high[:, few] = betaincinv(hits, n - hits + 1, place), betaincinv(hits + 1, n - hits, place)
    return Rates(value, value, low, high, size)


def largest_difference(families: list[Rates], confidence: float) -> tuple[float, float, bool]:
    """Return an interval for the largest difference of two groups in any of several rates, and if it is resolved."""
    low_a, high_a, low_b, high_b = _pair_replicates(families)
    low, high, resolved = _simultaneous(low_a - high_b, high_a - low_b, confidence)
    return max(0.0, float(low.max()), float((-high).max())), max(float(high.max()), float((-low).max())), resolved


def smallest_ratio(families: list[Rates], confidence: float) -> tuple[float, float, bool]:
    """Return an interval for the smallest ratio of two groups in any of several rates, and if it is resolved."""
    low_a, high_a, low_b, high_b = _pair_replicates(families)
    low, high, resolved = _simultaneous(_ratio(low_a, high_b, 0.0), _ratio(high_a, low_b, math.inf), confidence)
    back_low, back_high = _ratio(np.ones_like(high), high, 0.0), _ratio(np.ones_like(low), low, math.inf)
    return min(float(low.min()), float(back_low.min())), min(1.0, float(high.min()), float(back_high.min())), resolved


def divide(part: FloatArray, base: FloatArray, otherwise: float) -> FloatArray:
    """Return ``part / base``, and ``otherwise`` where the base is 0."""
    quotient: FloatArray = np.divide(part, base, out=np.full(part.shape, otherwise), where=base != 0)
    return quotient


def _pair_replicates(families: list[Rates]) -> list[FloatArray]:
    """Return low and high replicates of the first group of every pair, then of the second: (resamples, pairs) each."""
    pairs = [(rates, np.triu_indices(len(rates.value), 1)) for rates in families]
    return [
        np.concatenate([getattr(rates, end)[:, pair[which]] for rates, pair in pairs], axis=1)
        for which in (0, 1)
        for end in ("low", "high")
    ]


def _ratio(part: FloatArray, base: FloatArray, of_nothing: float) -> FloatArray:
    """Return ``part / base``; ``of_nothing`` stands for 0 / 0, which could be any ratio."""
    return np.where((part == 0) & (base == 0), of_nothing, divide(part, base, math.inf))


def _simultaneous(low: FloatArray, high: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray, bool]:
    """Return intervals (pairs,) that hold for all pairs at once in a share ``confidence`` of the resamples."""
    resamples = len(low)
    depth = np.full(resamples, resamples)
    lows, highs = np.sort(low, axis=0), np.sort(-high, axis=0)
    for pair in range(low.shape[1]):
        np.minimum(depth, np.searchsorted(lows[:, pair], low[:, pair], side="right"), out=depth)
        np.minimum(depth, np.searchsorted(highs[:, pair], -high[:, pair], side="right"), out=depth)
    deepest = int(np.sort(depth)[resamples - math.ceil(confidence * resamples)])
    place = max(deepest - 2, 0)  # the first order statistic stands at place 0
    return lows[place], -highs[place], deepest > 1


@dataclass(frozen=True, eq=False)
class Measured:
    """Every rate of the groups of one attribute set."""

    grouping: Grouping
    people: FloatArray
    share: FloatArray
    rates: dict[str, Rates]

    def small(self, smallest: int, rate: str = "selection_rate") -> BoolArray:
        """Return which groups (groups,) have a rate that is taken over too few people, but over at least one."""
        rates = self.rates[rate]
        return rates.defined & (rates.size < smallest * (1 - 1e-9))  # 30 equal weights are 30 people, rounded or not


def measure(
    kinds: Kinds, drawn: list[FloatArray], grouping: Grouping, outcomes: bool, rng: np.random.Generator
) -> Measured:
    """Return all rates of the groups of one attribute set, with their replicates."""
    (people, squares, *observed), resampled = (
        [kinds.by_group(total, grouping) for total in totals] for totals in (kinds.totals(), drawn)
    )

    def rate(part: Callable[[FloatArray], FloatArray], base: Callable[[FloatArray], FloatArray]) -> Rates:
        replicates = part(resampled[0]), base(resampled[0])
        return make_rates(part(observed[0])[0], base(observed[0])[0], replicates, base(squares)[0], rng)

    rates = {"selection_rate": rate(lambda sums: sums[:, :, 0, 1] + sums[:, :, 1, 1], _group_totals)}
    if outcomes:
        rates["true_positive_rate"] = rate(lambda sums: sums[:, :, 1, 1], lambda sums: sums[:, :, 1].sum(axis=2))
        rates["false_positive_rate"] = rate(lambda sums: sums[:, :, 0, 1], lambda sums: sums[:, :, 0].sum(axis=2))
        rates["accuracy"] = rate(lambda sums: sums[:, :, 0, 0] + sums[:, :, 1, 1], _group_totals)
    if len(observed) > 1:
        rates["violation"] = _mean_violation(kinds, observed, resampled, rates["selection_rate"].size, rng)
    weight = _group_totals(observed[0])[0]
    return Measured(grouping, _group_totals(people)[0], weight / weight.sum(), rates)


def group_rows(measured: Measured, confidence: float, smallest: int) -> list[dict[str, Any]]:
    """Return the rows of ``groups`` for one attribute set."""
    ends = {name: rates.interval(confidence) for name, rates in measured.rates.items()}
    small = measured.small(smallest) | ~measured.rates["selection_rate"].defined
    rows = []
    for place, group in enumerate(measured.grouping.names):
        row: dict[str, Any] = {"attributes": measured.grouping.title, "group": group}
        row |= {"people": int(measured.people[place]), "share": float(measured.share[place])}
        notes = ["small"] if small[place] else []
        for name, rates in measured.rates.items():
            defined, value = bool(rates.defined[place]), float(rates.value[place])
            both = {"violation_lower": value, "violation_upper": float(rates.value_high[place])}
            row |= both if name == "violation" else {name: value}
            for end, values in zip(("low", "high"), ends[name], strict=True):
                row[f"{name}_{end}"] = float(values[place]) if defined else math.nan
            if not defined:
                notes.append(f"{_in_words(name)}: {_EMPTY[name]}")
            elif name in _COMPARED["equalised_odds"] and measured.small(smallest, name)[place]:
                notes.append(f"{_in_words(name)}: of {rates.size[place]:.4g} people only")
        rows.append(row | {"small": bool(small[place]), "note": "; ".join(notes)})
    return rows


def summary_rows(measured: Measured, confidence: float, smallest: int) -> list[dict[str, Any]]:
    """Return the rows of ``summary`` for one attribute set."""
    gaps = [(f"{metric}_{form}", rates) for metric, rates in _COMPARED.items() for form in ("difference", "ratio")]
    rows = []
    for metric, names in (*gaps, ("if_parity", ("violation",))):
        if all(name in measured.rates for name in names):
            row = _metric_row(measured, metric, names, confidence, smallest)
            verdict, reason, large = "", "", _Large()
            if metric == "demographic_parity_ratio":
                verdict, reason, large = _four_fifths(measured, confidence, smallest)
            notes = "; ".join(filter(None, (*row.pop("notes"), reason)))
            among = {f"large_{name}": value for name, value in large._asdict().items()}
            rows.append(row | among | {"four_fifths": verdict, "note": notes})
    return rows


def _metric_row(
    measured: Measured, metric: str, names: tuple[str, ...], confidence: float, smallest: int
) -> dict[str, Any]:
    """Return one metric: its value, its interval, and the groups with the lowest and the highest rate."""
    row: dict[str, Any] = {"attributes": measured.grouping.title, "metric": metric, "groups": 0}
    row |= dict.fromkeys(("value", "low", "high", "bound_low", "bound_high"), math.nan) | {"lowest": "", "highest": ""}
    ratio, groups = metric.endswith("ratio"), measured.grouping.names
    notes, families, gaps = [], [], []
    for name in names:
        rates = measured.rates[name]
        undefined = [groups[place] for place in np.flatnonzero(~rates.defined)]
        if undefined:
            notes.append(f"left out, as there is {_EMPTY[name]}: {_listed(undefined)}")
        defined = rates.of(rates.defined)
        if len(defined.value) < 2:
            return row | {"notes": [*notes, f"fewer than two groups have a {_in_words(name)}"]}
        if ratio and defined.value.max() == 0:
            return row | {"notes": [*notes, f"the {_in_words(name)} is 0 in every group"]}
        families.append(defined)
        gaps.append(defined.value.min() / defined.value.max() if ratio else defined.value.max() - defined.value.min())
    worst = int(np.argmin(gaps) if ratio else np.argmax(gaps))
    name, value = names[worst], float(gaps[worst])
    bounds = _parity_bounds(families[0]) if metric == "if_parity" else (value, value)
    low, high, resolved = (smallest_ratio if ratio else largest_difference)(families, confidence)
    upper = measured.rates[name].value_high
    ends = int(np.nanargmin(upper)), int(np.nanargmax(upper))
    if len(names) > 1:
        notes.insert(0, f"by the {_in_words(name)}")
    if metric == "if_parity":
        notes.insert(0, "between bound_low and bound_high; lowest and highest by the upper bounds")
        value = math.nan
    small = [groups[end] for end in dict.fromkeys(ends) if measured.small(smallest, name)[end]]
    notes += [f"small: {_listed(small)}"] if small else []
    notes += [] if resolved else ["too few resamples for so many groups: the interval may be too short"]
    row |= {"lowest": groups[ends[0]], "highest": groups[ends[1]]} if ends[0] != ends[1] else {}
    return row | {
        "groups": len(families[worst].value), "value": value, "low": min(low, bounds[0]), "high": max(high, bounds[1]),
        "bound_low": bounds[0], "bound_high": bounds[1], "notes": notes,
    }  # fmt: skip


class _Large(NamedTuple):
    """The ratio among groups that are large enough, its interval, and the groups that it compares."""

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    lowest: str = ""
    highest: str = ""


def _four_fifths(measured: Measured, confidence: float, smallest: int) -> tuple[str, str, _Large]:
    """Return the verdict on the selection-rate ratio, why it is not clear, and the ratio of the large groups."""
    rates, small = measured.rates["selection_rate"], measured.small(smallest)
    counted = np.flatnonzero(rates.defined & ~small)
    large = rates.of(rates.defined & ~small)
    if len(large.value) < 2:
        return "undecided", "fewer than two groups are large enough for the four-fifths rule", _Large()
    low, high, resolved = smallest_ratio([large], confidence)
    most = float(large.value.max())
    ends = (measured.grouping.names[counted[int(end)]] for end in (np.argmin(large.value), np.argmax(large.value)))
    among = _Large(float(large.value.min()) / most, low, high, *ends) if most > 0 else _Large()
    if not resolved or most == 0:
        return "undecided", "", among
    # A ratio over some of the groups is at least the ratio over all: failing there is failing.
    if high < FOUR_FIFTHS:
        return "fail", "", among
    if low >= FOUR_FIFTHS and (small.any() or not rates.defined.all()):
        return "undecided", "the large groups pass the four-fifths rule, others are too small to tell", among
    return ("pass" if low >= FOUR_FIFTHS else "undecided"), "", among


def _mean_violation(
    kinds: Kinds, observed: list[FloatArray], resampled: list[FloatArray], size: FloatArray, rng: np.random.Generator
) -> Rates:
    """Bound the mean violations of groups, rounded outward for the people at hand.

    **Soundness.** Numerator and denominator are sums of non-negative products of at most two numbers with a common
    rounded factor, the weight: ``gamma`` of the number of terms covers each, and their quotient costs one more.
    """
    slack = 2 * gamma(2 * int(kinds.count.sum()) + 16)
    lower, upper = (divide(_group_totals(total)[0], _group_totals(observed[0])[0], math.nan) for total in observed[1:])
    low, high = (divide(_group_totals(total), _group_totals(resampled[0]), math.nan) for total in resampled[1:])
    missing = np.isnan(low)  # a resample without the group says nothing about it: its mean could be anything
    others = rng.beta(1.0, np.maximum(size, 1e-9), size=low.shape)
    low = np.where(_constant(low, missing), low * (1 - others), low)
    high = np.where(_constant(high, missing), high + others * np.maximum(kinds.largest - high, 0.0), high)
    return Rates(
        np.maximum(down(lower * (1 - slack) - UNDERFLOW), 0.0),
        up(upper * (1 + slack) + UNDERFLOW),
        np.where(missing, 0.0, low),
        np.where(missing, math.inf, high),
        size,
    )


def _constant(drawn: FloatArray, missing: BoolArray) -> BoolArray:
    """Return of which groups (groups,) all resamples have the same mean, but for rounding."""
    highest, lowest = (np.where(missing, end, drawn) for end in (-math.inf, math.inf))
    return np.asarray(highest.max(axis=0) - lowest.min(axis=0) <= 1e-12 * np.abs(highest.max(axis=0)))


def _parity_bounds(rates: Rates) -> tuple[float, float]:
    """Bound the largest difference of two means from both sides, when each lies between its bounds."""
    lower, upper = rates.value, rates.value_high
    distinct = ~np.eye(len(lower), dtype=bool)
    least = down(lower[:, None] - upper)[distinct].max()
    return max(0.0, float(least)), float(up(upper[:, None] - lower)[distinct].max())


def _group_totals(sums: FloatArray) -> FloatArray:
    return np.asarray(sums.sum(axis=(2, 3)))


def _in_words(name: str) -> str:
    return "mean violation" if name == "violation" else name.replace("_", " ")


def _listed(names: list[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
