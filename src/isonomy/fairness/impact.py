"""Impact ratios: the share of each group that is selected, over that of the group that is selected most.

For people who are scored and not selected, the share with a score above the median of all takes its place. Unknown
groups, and groups of a smaller share of the people than a limit, are counted but not compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from isonomy.errors import DataError
from isonomy.fairness.group import GroupFairness, group_fairness
from isonomy.fairness.groups import Grouping
from isonomy.model import Model
from isonomy.population import Population
from isonomy.population.feature import Label
from isonomy.population.outcome import favourable_places

UNKNOWN, SMALL = "unknown", "small"
"""Why a group is counted and not compared."""

UNRATED, NONE, ALONE = "no rate", "none selected", "no other group"
"""Why a group that could be compared has no ratio: it has no weight, no group has a rate above 0, no other is left."""


def impact_ratios(
    group: GroupFairness,
    people: Population,
    groupings: Sequence[Grouping],
    least: float,
    hidden: Collection[tuple[str, str]] = (),
) -> pd.DataFrame:
    """Return a row for each group of ``groupings``: attributes, group, people, share, rate, its interval low and high,
    ratio (NaN where not compared) and why.

    ``group`` has the rates; ``least`` is the share of the people below which a group is not compared; groups that
    are ``hidden``, by title and name, are left out, also as those that others are compared with.
    """
    known = {(row["attributes"], row["group"]): row for row in group.groups.to_dict("records")}
    rows = []
    for grouping in groupings:
        sizes, missing = np.bincount(grouping.code, minlength=len(grouping.names)), unknown_groups(people, grouping)
        own = []
        for name, size in zip(grouping.names, sizes.tolist(), strict=True):
            if (grouping.title, name) in hidden:
                continue
            share, row = size / len(people), known.get((grouping.title, name), {})
            rate, low, high = (row.get(f"selection_rate{end}", math.nan) for end in ("", "_low", "_high"))
            why = UNKNOWN if name in missing else SMALL if share < least else ""
            own.append({
                "attributes": grouping.title, "group": name, "people": size, "share": share, "rate": rate, "low": low,
                "high": high, "why": why,
            })  # fmt: skip
        rows += _compared(own)
    return pd.DataFrame(rows, columns=["attributes", "group", "people", "share", "rate", "low", "high", "ratio", "why"])


def _compared(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the groups of one grouping with their ratios, or with why they have none."""
    for each in groups:
        each["why"] = each["why"] or (UNRATED if math.isnan(each["rate"]) else "")
    rates = [each["rate"] for each in groups if not each["why"]]
    most = max(rates, default=0.0)
    why = ALONE if len(rates) < 2 else "" if most > 0 else NONE
    return [each | {"ratio": math.nan if each["why"] or why else each["rate"] / most, "why": each["why"] or why}
            for each in groups]  # fmt: skip


def unknown_groups(people: Population, grouping: Grouping) -> frozenset[str]:
    """Return the names of the groups in which a value of an attribute is missing."""
    missing = np.zeros(len(people), dtype=bool)
    for name in grouping.attributes:
        feature, block = people.schema[name], people.x[:, people.schema.slices[name]]
        if feature.flagged:
            missing |= block[:, 1] == 1
        elif feature.kind == "categorical" and feature.missing == "category":
            missing |= block[:, feature.levels.index(feature.missing_label)] == 1
    return frozenset(grouping.names[place] for place in np.unique(grouping.code[missing]))


def rates_of_scores(model: Model, people: Population) -> tuple[GroupFairness, str, float]:
    """Return the share of each group with a score on the better side of the median of all, the words for it, and the
    median, which is one person's score.

    Of a regression the score is its number, and low ones are better where the label says so; of two classes it is the
    probability of the favourable one, else of the second. Refused where there is no such score.
    """
    label, given = people.schema.label, model.on(people.schema)(people.x)
    good = favourable_places(label)
    if model.head == "regression" and given.shape[1] == 1:
        sign, score, what = -1.0 if good == (0,) else 1.0, given[:, 0], "the predicted number"
    elif model.head != "regression" and given.shape[1] == 2:
        place = good[0] if good else 1
        names = label.classes if label is not None else ()
        sign, score, what = 1.0, given[:, place], f"a probability of “{names[place] if names else place}”"
    else:
        raise DataError(f"The model gives {given.shape[1]} numbers, and none of them is the score.")
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(people.weights[order])
    median = float(score[order][np.searchsorted(reached, reached[-1] / 2)])
    better = sign * score > sign * median
    if not better.any():
        raise DataError("No score is better than the median of all.")
    scored = replace(people.schema, label=Label("", favourable=("high",), threshold=0.5))
    rates = group_fairness(better.astype(np.float64), replace(people, schema=scored, y=None), outcomes=False)
    return rates, f"share with {what} {'above' if sign > 0 else 'below'} the median of all", median
