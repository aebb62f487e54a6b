"""How well one input alone tells a group from the other people: the area under the curve (AUC), with an interval.

The AUC of a number is the chance that of one person of the group and one other the former has the larger one, or the
smaller one, whichever is more: one direction, so that a group in the middle of a range is seen less. Of two categories
likewise. Of several, each is scored by the share of the group among the *other* fifths of the people who have it, so
that many categories do not flatter an input that says nothing; this errs towards one half, and the interval's upper end
is therefore that of the AUC by the shares of all, which errs away from it. People without a number are
left out, and that it is missing is an input of its own.

The interval is Newcombe's (2006, method 5): the AUCs whose own standard error, by Hanley and McNeil, reaches the
observed one. It has a width at 0 and 1 too. Weighted people count by Kish's effective number. All of this is an
estimate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import NormalDist

import numpy as np
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.fairness.decisions import BoolArray, auc
from isonomy.fairness.groups import Grouping, IntArray
from isonomy.population import Population
from isonomy.population.feature import Feature

FOLDS, DRAWS = 5, 4
"""Parts of the people of whom each is scored by the others, and how often they are drawn."""

FEW = 10
"""Effective people of a group, or of the others, below which nothing is estimated."""

ROWS = 20_000
"""People, evenly spaced over the table, who are scored."""

_STEPS = 60
"""Halvings of an interval in which an end is searched for."""


def proxies(
    people: Population, inputs: Collection[str], groupings: Sequence[Grouping], confidence: float = 0.95
) -> pd.DataFrame:
    """Return a row for each group of ``groupings`` (by one attribute each) and each of the ``inputs`` but itself.

    Columns: attribute, group, ``against`` whom, people, input, auc, low, high, note. Of two groups one has rows. Where
    too few people are counted auc is NaN, which the note says.
    """
    rows = np.arange(0, len(people), -(-len(people) // ROWS))
    rows = rows[people.weights[rows] > 0]
    x, weights = people.x[rows], people.weights[rows]
    values = [
        (feature.name, name, coded)
        for feature in people.schema.features
        if feature.name in inputs
        for name, coded in _values(feature, x[:, people.schema.slices[feature.name]])
    ]
    measured = []
    for grouping in groupings:
        (attribute,) = grouping.attributes
        names = grouping.names if len(grouping.names) > 2 else grouping.names[:1]
        for place, name in enumerate(names):
            about = {
                "attribute": attribute,
                "group": name,
                "against": grouping.names[1] if len(grouping.names) == 2 else "all others",
                "people": int((grouping.code == place).sum()),
            }
            inside = grouping.code[rows] == place
            measured += [
                about | {"input": shown} | _measured(coded, inside, weights, confidence)
                for feature, shown, coded in values
                if feature != attribute
            ]
    columns = ["attribute", "group", "against", "people", "input", "auc", "low", "high", "note"]
    return pd.DataFrame(measured, columns=columns)


def _values(feature: Feature, block: FloatArray) -> list[tuple[str, FloatArray | IntArray]]:
    """Return what an input says of people, by name: numbers (n,), NaN where missing, or codes of categories; and
    whether a number is missing."""
    if feature.kind == "categorical":
        codes = block.argmax(axis=1)
        return [(feature.name, codes if len(np.unique(codes)) > 2 else codes.astype(np.float64))]
    missing = block[:, 1] == 1 if feature.flagged else np.zeros(len(block), dtype=bool)
    numbers = [(feature.name, np.where(missing, math.nan, block[:, 0]))]
    return [*numbers, (f"{feature.name} is missing", missing.astype(np.float64))] if missing.any() else numbers


def _measured(
    values: FloatArray | IntArray, inside: BoolArray, weights: FloatArray, confidence: float
) -> dict[str, float | str]:
    """Return the AUC of one input for one group, its interval and a note."""
    known = np.isfinite(values)
    values, inside, weights = values[known], inside[known], weights[known]
    sizes = _effective(weights[inside]), _effective(weights[~inside])
    if min(sizes) < FEW:
        return {"auc": math.nan, "low": math.nan, "high": math.nan, "note": f"fewer than {FEW} people on one side"}
    if values.dtype.kind == "i":
        codes = values.astype(np.int64)
        value = cross_fitted_auc(codes, inside, weights)
        most = max(value, auc(_shares(codes, inside, weights)[codes], inside, weights))
    else:
        value = auc(values.astype(np.float64), inside, weights)
        value = most = max(value, 1 - value)
    low, high = (auc_interval(each, *sizes, confidence)[end] for end, each in enumerate((value, most)))
    return {"auc": value, "low": low, "high": high, "note": ""}


def cross_fitted_auc(codes: IntArray, inside: BoolArray, weights: FloatArray) -> float:
    """Return the AUC (0 to 1) of categories for a group, each fold of the people scored by the shares of the others."""
    rng, total, pairs = np.random.default_rng(0), 0.0, 0.0
    for _ in range(DRAWS):
        folds = _folds(inside, rng)
        for fold in range(FOLDS):
            mine = folds == fold
            score = _shares(codes, inside, np.where(mine, 0.0, weights))[codes]
            own, others = weights[mine & inside].sum(), weights[mine & ~inside].sum()
            total += own * others * auc(score[mine], inside[mine], weights[mine])
            pairs += own * others
    return float(total / pairs)


def auc_interval(value: float, group: float, others: float, confidence: float) -> tuple[float, float]:
    """Return Newcombe's interval of an observed AUC of ``group`` people against ``others``."""
    z, size = NormalDist().inv_cdf((1 + confidence) / 2), (group + others) / 2 - 1

    def reaches(true: float) -> bool:
        spread = 1 + size * (1 - true) / (2 - true) + size * true / (1 + true)
        return abs(value - true) <= z * math.sqrt(true * (1 - true) * spread / (group * others))

    ends = []
    for outer in (0.0, 1.0):
        near, far = value, outer
        for _ in range(_STEPS):
            middle = (near + far) / 2
            near, far = (middle, far) if reaches(middle) else (near, middle)
        ends.append(far)
    return ends[0], ends[1]


def _effective(weights: FloatArray) -> float:
    """Return Kish's effective number of people."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def _folds(inside: BoolArray, rng: np.random.Generator) -> IntArray:
    """Return everybody's fold (n,), as many of the group in each."""
    folds = np.zeros(len(inside), dtype=np.int64)
    for side in (inside, ~inside):
        where = rng.permutation(np.flatnonzero(side))
        folds[where] = np.arange(len(where)) % FOLDS
    return folds


def _shares(code: IntArray, inside: BoolArray, weights: FloatArray) -> FloatArray:
    """Return the share of the group for each code, drawn towards the share of all by one person."""
    count = int(code.max()) + 1
    hits, sums = (np.bincount(code, each, count) for each in (weights * inside, weights))
    one = weights.sum() / max((weights > 0).sum(), 1)
    return np.asarray((hits + one * hits.sum() / sums.sum()) / (sums + one))
