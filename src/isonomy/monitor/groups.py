"""Who bears the violations: the mean of the proved ones for each protected group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.population import Feature, Schema
from isonomy_verify.arithmetic import mean_up

PARTS = 4
"""Ranges into which a protected number is divided."""


@dataclass(frozen=True)
class GroupViolation:
    """The people of one protected group: how many, and the mean of their proved violations."""

    feature: str
    group: str
    people: int
    mean_upper: float


def by_group(schema: Schema, x: FloatArray, upper: FloatArray, smallest: int = 10) -> list[GroupViolation]:
    """Protected groups of at least ``smallest`` people; smaller ones would tell about persons, and say little."""
    found = []
    for feature in schema.features:
        if not feature.protected:
            continue
        for group, members in _groups(feature, x[:, schema.slices[feature.name]]):
            people = int(members.sum())
            if people >= max(1, smallest):
                found.append(GroupViolation(feature.name, group, people, mean_up(upper[members])))
    return found


def _groups(feature: Feature, block: FloatArray) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """The groups of one feature and who belongs to them."""
    if feature.kind == "categorical":
        member = block.argmax(axis=1)
        for place, level in enumerate(feature.levels):
            yield feature.labels.get(level, level), member == place
        return
    missing = block[:, 1] == 1.0 if feature.flagged else np.zeros(len(block), dtype=bool)
    values = block[:, 0] * feature.unit + feature.origin
    if feature.kind == "ordinal":
        for rank, level in enumerate(feature.categories):
            yield feature.labels.get(level, level), (np.rint(values) == rank) & ~missing
    else:
        low = feature.low if np.isfinite(feature.low) else float(values.min(initial=0.0))
        high = feature.high if np.isfinite(feature.high) else float(values.max(initial=0.0))
        ends = np.linspace(low, high, PARTS + 1)
        among = np.clip(np.searchsorted(ends, values, side="right") - 1, 0, PARTS - 1)
        for part in range(PARTS):
            yield f"{ends[part]:.4g} to {ends[part + 1]:.4g}", (among == part) & ~missing
    if feature.flagged:
        yield feature.missing_label, missing
