"""Partitions of the individuals into groups: by one protected attribute, or by several crossed.

A category or level is a group. A number is cut into bins that the caller states, or, without any, into four equal parts
of the range that the schema writes down: never by the table at hand, so that a group means the same in every table. An
integer feature of at most four possible values is a code, and each value is a group. A missing number is a group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, ParameterError, template
from isonomy.given import instance
from isonomy.population import Population, Schema
from isonomy.population.feature import Feature
from isonomy_verify.reweighting import ROWS, numbered

IntArray = NDArray[np.int64]
Bins = Mapping[str, Sequence[float]]

PARTS = 4
"""Equal parts of a number's range where the caller states no bins."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """A partition of the individuals: ``code[i]`` is the place of individual ``i``'s group in ``names``."""

    attributes: tuple[str, ...]
    names: tuple[str, ...]
    code: IntArray

    @property
    def title(self) -> str:
        """Return ``sex``, or ``sex × race``."""
        return " × ".join(self.attributes)


def make_groupings(
    people: Population, by: Sequence[str | Sequence[str]] | None, bins: Bins | None
) -> tuple[list[Grouping], list[str]]:
    """Return the requested partitions, and notes on how numbers were cut.

    ``by`` holds names of features, and tuples of names for their intersections. Without it: every protected feature
    and every pair of them; one that has a single group here is then left out, with a note.
    """
    bins = {} if bins is None else bins
    instance("bins", bins, Mapping, "edges of numeric features by their names, such as {'age': [25, 40, 60]}")
    wanted = _requested(people, by)
    used = {name for attributes in wanted for name in attributes}
    for name in bins:
        if name not in used or people.schema[name].kind in ("categorical", "ordinal"):
            raise ParameterError(template("bins", "edges for numeric features that people are grouped by", name))
    singles = {name: feature_groups(people.schema, name, people.x, bins.get(name)) for name in sorted(used)}
    notes = [note for _, note in singles.values() if note]
    groupings = []
    for attributes in wanted:
        grouping = _cross([singles[name][0] for name in attributes])
        constant = next((name for name in attributes if len(singles[name][0].names) == 1), None)
        if constant is None:
            groupings.append(grouping)
            continue
        only = f"everybody is in one group of {constant!r}, {singles[constant][0].names[0]!r}"
        if by is not None:
            raise DataError(f"Nothing can be compared by {grouping.title!r}: {only}; at least two groups are needed.")
        notes += [] if len(attributes) > 1 else [f"{constant} was left out: {only}."]
    if not groupings:
        raise DataError("Nothing can be compared: every protected feature has one group only.")
    return groupings, notes


def _requested(people: Population, by: Sequence[str | Sequence[str]] | None) -> list[tuple[str, ...]]:
    schema = people.schema
    if by is None:
        if not schema.protected:
            raise DataError(f"Schema {schema.name!r} has no protected feature: name the features to group by in 'by'.")
        return [(name,) for name in schema.protected] + list(combinations(schema.protected, 2))
    if isinstance(by, str) or not isinstance(by, Sequence):
        raise ParameterError(template("by", "a list of feature names, or of tuples of them", by))
    wanted = [(item,) if isinstance(item, str) else tuple(item) for item in by]
    for attributes in wanted:
        for name in attributes:
            if name not in schema.slices:
                raise ParameterError(template("by", f"made of features: {', '.join(map(repr, schema.slices))}", name))
    if not wanted or any(not item or len(set(item)) < len(item) for item in wanted) or len(set(wanted)) < len(wanted):
        raise ParameterError(template("by", "a list of different feature names, or of tuples of them", by))
    return wanted


def _cross(parts: list[Grouping]) -> Grouping:
    """Return the groups of an intersection that are not empty."""
    shape = tuple(len(part.names) for part in parts)
    joint = np.ravel_multi_index(tuple(part.code for part in parts), shape)  # the last attribute varies fastest
    present, code = np.flatnonzero(np.bincount(joint)), numbered(joint)
    rows = zip(*np.unravel_index(present, shape), strict=True)
    names = (", ".join(part.names[place] for part, place in zip(parts, row, strict=True)) for row in rows)
    attributes = tuple(name for part in parts for name in part.attributes)
    return Grouping(attributes, tuple(names), code.astype(np.int64))


def feature_groups(
    schema: Schema, name: str, x: FloatArray, edges: Sequence[float] | None = None
) -> tuple[Grouping, str]:
    """Return the groups of one feature that are not empty in ``x``, and a note where a number was cut by default."""
    feature, block, note = schema[name], x[:, schema.slices[name]], ""
    if feature.kind == "categorical":
        names, starts = [feature.labels.get(level, level) for level in feature.levels], range(0, len(block), ROWS)
        # In parts: numpy copies what it looks at.
        code = np.concatenate(
            [np.zeros(0, dtype=np.int64), *(block[start : start + ROWS].argmax(axis=1) for start in starts)]
        )
    elif feature.kind == "ordinal":
        names = [feature.labels.get(level, level) for level in feature.categories]
        code = np.rint(block[:, 0] * feature.unit + feature.origin).astype(np.int64)
    elif edges is None and feature.kind == "integer" and feature.high - feature.low < PARTS:
        names = [f"{feature.name} {feature.low + step:g}" for step in range(int(feature.high - feature.low) + 1)]
        code = np.rint(block[:, 0] * feature.unit + feature.origin - feature.low).astype(np.int64)
    else:
        cuts, note = _edges(feature, edges)
        ends = [math.ceil(cut) for cut in cuts] if feature.kind == "integer" else cuts  # below 33.5 is below 34
        names = [f"{feature.name} below {ends[0]:g}"]
        names += [f"{feature.name} {low:g} to below {high:g}" for low, high in pairwise(ends)]
        names += [f"{feature.name} {ends[-1]:g} and above"]
        # Compared as coordinates, by the expression that encoded the table: an individual at an edge is not below it.
        code = np.searchsorted([feature.coordinate(cut) for cut in cuts], block[:, 0], side="right")
    if feature.flagged:
        names, code = [*names, f"{feature.name} {feature.missing_label}"], np.where(block[:, 1] == 1, len(names), code)
    return _cross([Grouping((feature.name,), tuple(names), code.astype(np.int64))]), note


def _edges(feature: Feature, given: Sequence[float] | None) -> tuple[list[float], str]:
    if given is not None:
        edges = [float(edge) for edge in given]
        finite = all(math.isfinite(edge) for edge in edges)
        if not edges or not finite or any(high <= low for low, high in pairwise(edges)):
            right = f"one or more finite, increasing edges for {feature.name!r}"
            raise ParameterError(template("bins", right, list(given)))
        return edges, ""
    if not (math.isfinite(feature.low) and math.isfinite(feature.high) and feature.low < feature.high):
        raise ParameterError(
            f"'bins' must state edges for {feature.name!r}, such as bins={{{feature.name!r}: [25, 40, 60]}}: the "
            "schema gives it no range that could be split."
        )
    width = (feature.high - feature.low) / PARTS
    note = (
        f"{feature.name} was cut into {PARTS} equal parts of the schema's range, {feature.low:g} to {feature.high:g}."
    )
    return [feature.low + step * width for step in range(1, PARTS)], note
