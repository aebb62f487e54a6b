"""A tree ensemble on the coordinates of a schema: the kernel's arrays, from those over raw columns.

A test of a raw column becomes one of the coordinates that hold the column: ``x[j] <= threshold`` for a number, a set of
states for a category. Where the values that go left are no such set (levels in the middle of an order, numbers around
zero that count as missing), a chain of tests takes the place of one, and subtrees stand in it more than once.

**Soundness.** Coordinates are monotone in raw values, so ``value <= T`` implies ``coordinate <= coordinate(T)``. Two
raw numbers on either side of ``T`` can share a coordinate only where they differ in their last bits;
:func:`shared_number` looks for these among the individuals themselves, and audits refuse them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, NetworkError
from isonomy.population.feature import LARGEST_NUMBER, Feature
from isonomy.population.schema import Schema
from isonomy.trees.forest import CATEGORY, NUMBER_NOT_ZERO, ZERO, Column, Forest
from isonomy_verify.trees import AS_FILL, LEFT, RIGHT, Trees

Reads = Literal["auto", "raw", "coordinates"]
Sides = NDArray[np.bool_]
IntArray = NDArray[np.int64]

ROWS = 1024
"""Individuals whose numbers are compared with all thresholds at a time."""

_TRUTH = {"false": 0.0, "true": 1.0}  # as libraries read them, and encoders keep them

SEPARATORS = ("_", "=", "__", ".")
"""Between a column and a category in the name of an indicator column, as pandas and others write it."""


@dataclass(frozen=True)
class Place:
    """Where a raw column is held: a feature, the coordinate it starts at, and of an indicator column its category."""

    column: Column
    feature: Feature
    start: int
    indicates: str | None = None


@dataclass(eq=False)
class _Nodes:
    """The kernel's arrays of nodes, in the making; ``pieces`` are the ends and sides of tests that become chains."""

    coordinate: IntArray
    threshold: FloatArray
    category: IntArray
    missing: IntArray
    masks: list[Sides]
    pieces: dict[int, list[tuple[float, bool]]]


def on_coordinates(forest: Forest, schema: Schema, reads: Reads = "auto") -> Trees:
    """Return the ensemble on the coordinates of a schema, its outputs in the order of the forest.

    ``reads`` says what the columns of the forest are: ``raw`` columns of the schema, by their names or, without names
    that the schema has, in its order; or the schema's ``coordinates``. Indicator columns such as ``sex_male`` read the
    category of their column.
    """
    nodes = _Nodes(
        np.full(len(forest.feature), -1), np.zeros(len(forest.feature)), np.full(len(forest.feature), -1),
        np.full(len(forest.feature), AS_FILL), [], {},
    )  # fmt: skip
    if _reads_coordinates(forest, schema, reads):
        _put_coordinates(forest, schema, nodes)
    else:
        for c, place in enumerate(places_of(forest, schema)):
            _refuse_least(place)
            _put_tests(forest, c, place, nodes)
    return _assembled(forest, nodes)


def shared_number(forest: Forest, schema: Schema, reads: Reads, frame: Any) -> tuple[int, str, float, float] | None:
    """Return row, column, number and threshold of the first number that has another side than its coordinate.

    ``frame`` has raw rows of the schema. Two numbers that differ in their last bits can have one coordinate; where a
    threshold lies between them, the trees on coordinates are others for one of them.
    """
    if _reads_coordinates(forest, schema, reads):
        return None
    for c, place in enumerate(places_of(forest, schema)):
        feature, at = place.feature, forest.feature == c
        if feature.kind not in ("numeric", "integer") or place.column.coding != "number" or not at.any():
            continue
        zero = (forest.kind[at] == NUMBER_NOT_ZERO).any()
        ends = np.unique(np.append(forest.threshold[at], [np.nextafter(-ZERO, -np.inf), ZERO] if zero else []))
        numbers = pd.to_numeric(frame[feature.name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
        known = np.flatnonzero((numbers >= feature.low) & (numbers <= feature.high))
        limits = _thresholds(feature, ends)
        for start in range(0, len(known), ROWS):
            rows = known[start : start + ROWS]
            left = numbers[rows, None] <= ends
            held = np.asarray(feature.coordinate(numbers[rows]))[:, None] <= limits
            if (left != held).any():
                row, end = np.argwhere(left != held)[0]
                return int(rows[row]), feature.name, float(numbers[rows[row]]), float(ends[end])
    return None


def sides_of(
    forest: Forest, schema: Schema, reads: Reads, features: Collection[str], x: FloatArray, frame: pd.DataFrame
) -> tuple[IntArray, Sides]:
    """Return the nodes (k,) that test some ``features``, and whether people (n, m), raw rows beside them, go left
    there (n, k)."""
    if _reads_coordinates(forest, schema, reads):
        own = [j for name in features for j in range(*schema.slices[name].indices(schema.width))]
        at = np.flatnonzero(np.isin(forest.feature, own))
        cells = x[:, forest.feature[at]].T
        zero = (forest.kind[at] == NUMBER_NOT_ZERO)[:, None] & (np.abs(cells) <= ZERO)
        goes = np.where(zero, forest.missing_left[at][:, None], cells <= forest.threshold[at][:, None])
        return at, goes.T
    nodes, sides = [np.zeros(0, dtype=np.int64)], [np.zeros((len(x), 0), dtype=np.bool_)]
    for c, place in enumerate(places_of(forest, schema)):
        at, feature = np.flatnonzero(forest.feature == c), place.feature
        if feature.name not in features or not len(at):
            continue
        if feature.kind in ("categorical", "ordinal"):
            level = _levels(feature, x[:, schema.slices[feature.name]])
            goes = _sides(forest, at, place)[:, level]
        else:
            cells = pd.to_numeric(frame[feature.name], errors="coerce").to_numpy(np.float64, na_value=np.nan)
            goes = _number_sides(forest, at, cells, np.isnan(cells))
        nodes.append(at)
        sides.append(goes.T)
    return np.concatenate(nodes), np.concatenate(sides, axis=1)


def _levels(feature: Feature, block: FloatArray) -> IntArray:
    """Return the places of the levels (n,) that coordinates (n, width) of a feature stand for."""
    if feature.kind == "ordinal":
        ends = np.asarray(feature.coordinate(np.arange(len(feature.levels), dtype=np.float64)))
        return np.asarray(np.abs(block[:, :1] - ends).argmin(1))
    return np.asarray(np.round(block[:, 0]).astype(np.int64) if block.shape[1] == 1 else block.argmax(1))


def _reads_coordinates(forest: Forest, schema: Schema, reads: Reads) -> bool:
    if reads == "raw":
        return False
    fits = len(forest.columns) == schema.width
    if reads == "coordinates":
        if not fits:
            raise NetworkError(
                f"The trees read {len(forest.columns)} columns, the schema has {schema.width} coordinates."
            )
        return True
    if any(column.name in schema.slices for column in forest.columns):
        return False
    raw = len(forest.columns) == sum(feature.seen for feature in schema.features)
    if fits and raw and any(feature.kind == "numeric" for feature in schema.features):
        raise NetworkError(
            f"The trees read {schema.width} columns without names of the schema, which may be its columns or its "
            "coordinates: say reads='raw' or reads='coordinates'."
        )
    named = [column.name for column in forest.columns] == list(schema.coordinate_names)
    return named or (fits and not raw)


def _refuse_least(place: Place) -> None:
    """Refuse a feature that may hold a number for which the pipeline has no result."""
    column, feature = place.column, place.feature
    if column.least == -math.inf:
        return
    numeric = feature.kind in ("numeric", "integer")
    least = feature.low if numeric else min((_number(place, each) for each in feature.levels), default=math.inf)
    if not least > column.least:
        raise NetworkError(
            f"column '{column.name}' may be {least:g} by the schema, for which the pipeline has no result: say 'low', "
            f"above {column.least:g}, in [features.{feature.name}]."
        )


def _put_coordinates(forest: Forest, schema: Schema, nodes: _Nodes) -> None:
    """Put tests of coordinates into the kernel's arrays: those of categories and flags become sets of states."""
    nodes.coordinate[:], nodes.threshold[:] = forest.feature, forest.threshold
    for node in np.flatnonzero((forest.feature >= 0) & (forest.kind == CATEGORY))[:1]:
        name = schema.coordinate_names[forest.feature[node]]
        raise NetworkError(
            f"The trees test the coordinate '{name}' as a category: train them on coordinates as numbers, or on the "
            "raw columns."
        )
    for node in np.flatnonzero((forest.feature >= 0) & (forest.kind == NUMBER_NOT_ZERO)).tolist():
        _put_pieces(nodes, node, _around_zero(np.asarray, forest.threshold[node], bool(forest.missing_left[node])))
    for start, stop in schema.domain("realizable").blocks:
        for j in range(start, stop):
            at = np.flatnonzero(forest.feature == j)
            marks = np.array([0.0, 1.0]) if stop - start == 1 else np.eye(stop - start)[j - start]
            sides = _number_sides(forest, at, marks, np.zeros(len(marks), dtype=bool))
            _put_sets(nodes, at, sides)
            nodes.coordinate[at] = start
            for node in at.tolist():
                nodes.pieces.pop(node, None)


def places_of(forest: Forest, schema: Schema) -> list[Place]:
    """Return where each column of the forest is held by the schema; an error names the first that is not."""
    if not any(_place(column, schema) for column in forest.columns):
        seen = [feature for feature in schema.features if feature.seen]
        if len(seen) == len(forest.columns):  # columns without names, in the schema's order
            pairs = zip(forest.columns, seen, strict=True)
            return [Place(column, feature, schema.slices[feature.name].start) for column, feature in pairs]
    places = []
    for column in forest.columns:
        place = _place(column, schema)
        if place is None:
            raise NetworkError(
                f"The trees read a column '{column.name}' that the schema '{schema.name}' lacks; it has "
                f"{', '.join(repr(feature.name) for feature in schema.features)}."
            )
        places.append(place)
    return places


def _place(column: Column, schema: Schema) -> Place | None:
    if column.name in schema.slices:
        return Place(column, schema[column.name], schema.slices[column.name].start)
    held = [
        Place(column, feature, schema.slices[feature.name].start, level)
        for feature in schema.features if feature.kind in ("categorical", "ordinal")
        for level in feature.levels for mark in SEPARATORS if column.name == f"{feature.name}{mark}{level}"
    ]  # fmt: skip
    if len(held) > 1:
        raise NetworkError(f"The column '{column.name}' of the trees may be {len(held)} different categories.")
    return held[0] if held else None


# -- tests of one column


def _put_tests(forest: Forest, c: int, place: Place, nodes: _Nodes) -> None:
    """Put the tests of column ``c`` into the kernel's arrays."""
    at, feature = np.flatnonzero(forest.feature == c), place.feature
    if not len(at):
        if place.column.unseen == "refused" and feature.kind in ("categorical", "ordinal"):
            _sides(forest, at, place)  # the library refuses such a row, whether a tree asks or not
        return
    nodes.coordinate[at] = place.start
    if feature.flagged and place.indicates is not None:  # a missing value has no category: its indicators are 0
        nodes.missing[at] = np.where(_number_sides(forest, at, np.zeros(1), np.zeros(1, dtype=bool))[:, 0], LEFT, RIGHT)
    elif feature.flagged:
        _refuse_gap(place)
        nodes.missing[at] = np.where(forest.missing_left[at], LEFT, RIGHT)
    if feature.kind in ("categorical", "ordinal"):
        sides = _sides(forest, at, place)
        if feature.kind == "categorical":
            _put_sets(nodes, at, sides)
            return
        ends = feature.coordinate(np.arange(len(feature.levels), dtype=np.float64))
        for node, own in zip(at.tolist(), sides, strict=True):
            _put_pieces(nodes, node, [(float(end), bool(side)) for end, side in zip(ends, own, strict=True)])
        return
    if place.column.coding != "number":
        raise NetworkError(
            f"The trees read '{place.column.name}' as a category, which the schema has as a number: declare it "
            "categorical, with the categories that the model knows."
        )
    nodes.threshold[at] = _thresholds(feature, forest.threshold[at])
    for node in at[forest.kind[at] == NUMBER_NOT_ZERO].tolist():
        limits = partial(_thresholds, feature)
        _put_pieces(nodes, node, _around_zero(limits, forest.threshold[node], bool(forest.missing_left[node])))


def _put_sets(nodes: _Nodes, at: IntArray, sides: Sides) -> None:
    """Put tests by the states (tests, states) that go left."""
    rows, place_of = np.unique(sides, axis=0, return_inverse=True)
    nodes.category[at] = len(nodes.masks) + place_of.reshape(-1)
    nodes.masks.extend(rows)


def _refuse_gap(place: Place) -> None:
    if not place.column.missing:
        right = "take the 'fill' out of the schema, or give the model an imputer"
        if place.feature.kind == "categorical":
            right = "say in the schema what the model calls it (missing_label), or that rows without it are none"
        raise NetworkError(f"The schema lets '{place.feature.name}' be missing, which the model refuses: {right}.")


def _thresholds(feature: Feature, raw: FloatArray) -> FloatArray:
    """Return the coordinates up to which numbers go left; of whole numbers those of the largest that do.

    Where the numbers on both sides of a threshold share its coordinate, the side of the one with the fewest decimals
    counts: the number that a table is likely to hold.
    """
    last = np.floor(raw) if feature.kind == "integer" else raw
    inside = np.clip(last, -LARGEST_NUMBER, LARGEST_NUMBER)
    ends = np.asarray(feature.coordinate(inside), dtype=np.float64)
    above = feature.coordinate(np.nextafter(inside, np.inf))
    open_ = (ends == above) & (feature.kind != "integer")
    for decimals in range(18):
        plain = np.round(inside, decimals)
        shared = open_ & (feature.coordinate(plain) == ends)
        ends = np.where(shared & (plain > inside), np.nextafter(ends, -np.inf), ends)
        open_ &= ~shared
    return np.where(last < feature.low, -np.inf, np.where(raw >= feature.high, np.inf, ends))


def _around_zero(
    limits: Callable[[FloatArray], FloatArray], threshold: float, missing_left: bool
) -> list[tuple[float, bool]]:
    """Return ends, as ``limits`` puts them on a coordinate, and sides of a test in which numbers next to zero go where
    a missing value goes."""
    below = float(np.nextafter(-ZERO, -np.inf))
    ends = [(min(threshold, below), True), (below, False), (ZERO, missing_left), (max(threshold, ZERO), True)]
    raw = np.array([end for end, _ in ends])
    return [*((float(end), side) for end, (_, side) in zip(limits(raw), ends, strict=True)), (math.inf, False)]


def _put_pieces(nodes: _Nodes, node: int, pieces: Sequence[tuple[float, bool]]) -> None:
    """Put a test by its pieces, each up to its end: as one threshold, or as a chain where that is not enough."""
    merged: list[tuple[float, bool]] = []
    last = -math.inf
    for end, side in pieces:
        if end == -math.inf or (end <= last and merged):
            continue  # no number ends there that has not ended before
        last = end
        if merged and merged[-1][1] == side:
            merged[-1] = (end, side)
        else:
            merged.append((end, side))
    if len(merged) == 1:
        nodes.threshold[node] = math.inf if merged[0][1] else -math.inf
    elif len(merged) == 2 and merged[0][1]:
        nodes.threshold[node] = merged[0][0]
    else:
        nodes.pieces[node] = merged


def _sides(forest: Forest, at: IntArray, place: Place) -> Sides:
    """Return which of the feature's levels (tests, levels) go left."""
    feature, column = place.feature, place.column
    if place.indicates is not None:
        marks = np.array([float(level == place.indicates) for level in feature.levels])
        return _number_sides(forest, at, marks, np.zeros(len(marks), dtype=bool))
    missing = np.array([_is_gap(place, level) for level in feature.levels])
    if missing.any():
        _refuse_gap(place)
    if column.coding == "number":
        pairs = zip(feature.levels, missing, strict=True)
        numbers = np.array([math.nan if gap else _number(place, level) for level, gap in pairs])
        return _number_sides(forest, at, numbers, missing)
    codes = np.array([-1 if gap else _code(place, level) for level, gap in zip(feature.levels, missing, strict=True)])
    known = forest.masks[forest.subset[at][:, None], np.maximum(codes, 0)[None, :]]
    unseen = np.where(codes == -1, forest.missing_left[at][:, None], forest.unseen_left[at][:, None])
    return np.where(codes >= 0, known, unseen)


def _number_sides(forest: Forest, at: IntArray, numbers: FloatArray, missing: Sides) -> Sides:
    goes = numbers[None, :] <= forest.threshold[at][:, None]
    gaps = missing[None, :] | ((forest.kind[at] == NUMBER_NOT_ZERO)[:, None] & (np.abs(numbers) <= ZERO)[None, :])
    return np.where(gaps, forest.missing_left[at][:, None], goes)


def _is_gap(place: Place, level: str) -> bool:
    """Return whether a level stands for a missing value; not where the model knows a category of that name."""
    feature, column = place.feature, place.column
    if feature.kind != "categorical" or feature.missing != "category" or level != feature.missing_label:
        return False
    if column.coding == "hash":
        return column.code(level) < 0
    return column.coding == "number" or level not in column.categories


def _number(place: Place, level: str) -> float:
    if level.casefold() in _TRUTH:
        if place.column.bits:
            raise NetworkError(
                f"Column '{place.column.name}' is false or true, of which a function in front of the trees gives "
                "numbers of half precision: write it as 0 and 1, also where the model is fitted."
            )
        return _TRUTH[level.casefold()]
    try:
        return float(level)
    except ValueError:
        raise NetworkError(
            f"The trees compare '{place.column.name}' with numbers, but the schema has its category {level!r}, which "
            "is none: declare the column as the model reads it."
        ) from None


def _code(place: Place, level: str) -> int:
    """Return the position of a level among the model's categories; a number that is written as a text is tried too."""
    cells: list[str | float] = [level]
    if level.casefold() in _TRUTH and place.column.coding != "hash":
        cells.append(_TRUTH[level.casefold()])
    with suppress(ValueError):
        cells.append(float(level))
    if place.column.coding == "label":  # an unseen number among texts would have a successor, too
        known = place.column.categories
        cells = [each for each in cells if each in known] or [e for e in cells if type(e) in map(type, known)] or cells
    codes, refusal = list[int](), ""
    for cell in cells:
        try:
            codes.append(place.column.code(cell))
        except DataError as error:
            refusal = str(error)
    if not codes:
        raise NetworkError(f"The category {level!r} of the schema cannot be read: {refusal}")
    return max(codes)


# -- assembling


def _assembled(forest: Forest, nodes: _Nodes) -> Trees:
    """Return the kernel's arrays: chains of tests put in, values scaled by the link and divided."""
    values, base, error = _scaled(forest)
    parts: list[NDArray[Any]] = [
        nodes.coordinate, nodes.threshold, nodes.category, nodes.missing, forest.left, forest.right,
    ]  # fmt: skip
    if nodes.pieces:
        lists = [part.tolist() for part in parts]
        source = _chained(forest, lists, nodes.pieces)
        values, parts = values[source], [np.array(part) for part in lists]
    coordinate, threshold, category, missing, left, right = parts
    widest = max((len(mask) for mask in nodes.masks), default=2)
    masks = np.zeros((len(nodes.masks), max(2, widest)), dtype=bool)
    for row, mask in zip(masks, nodes.masks, strict=True):
        row[: len(mask)] = mask
    return Trees(
        coordinate.astype(np.int64), threshold, category.astype(np.int64), masks, missing.astype(np.int64),
        left.astype(np.int64), right.astype(np.int64), forest.root.astype(np.int64), forest.output.astype(np.int64),
        values, base, error,
    )  # fmt: skip


def _scaled(forest: Forest) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return leaf values, base, and what scaling rounds of each output.

    **Soundness.** A product and a quotient are each right to half a unit in the last place: ``4 u`` of the result
    covers both. Of each tree the largest leaf counts; ``(n + 8) u`` more covers the sum of these.
    """
    factor, divisor = forest.link_scale, forest.divisor
    values, base = forest.value * factor / divisor, forest.base * factor / divisor
    error = np.zeros(len(base))
    if math.frexp(factor)[0] == 0.5 and math.frexp(divisor)[0] == 0.5:  # powers of two lose nothing
        return values, base, error
    leaves = np.where((forest.feature < 0)[:, None], np.abs(values), 0.0)
    largest = np.maximum.reduceat(leaves, forest.root, axis=0)
    for k in range(len(base)):
        own = largest[forest.output == k, 0] if forest.value.shape[1] == 1 else largest[:, k]
        total = math.fsum([abs(base[k]), *own.tolist()])
        error[k] = total * 2.0**-50 * (1 + (len(own) + 8) * 2.0**-52) + 2.0**-1000
    return values, base, error


def _chained(forest: Forest, lists: list[list[float]], pieces: dict[int, list[tuple[float, bool]]]) -> IntArray:
    """Put chains in the place of tests, the deepest first, and return the node (all,) that each was copied from."""
    source = list(range(len(lists[0])))
    depth, level = np.zeros(len(source), dtype=np.int64), forest.root
    while len(level):
        level = level[forest.feature[level] >= 0]
        for child in (forest.left[level], forest.right[level]):
            depth[child] = depth[level] + 1
        level = np.concatenate([forest.left[level], forest.right[level]])
    coordinate, threshold, _, missing, left, right = lists

    def copied(node: int) -> int:
        """Copy a subtree and return its root."""
        own = len(source)
        for part in lists:
            part.append(part[node])
        source.append(source[node])
        if coordinate[node] >= 0:
            left[own], right[own] = copied(int(left[node])), copied(int(right[node]))
        return own

    def new(node: int) -> int:
        for part in lists:
            part.append(part[node])
        source.append(source[node])
        return len(source) - 1

    for node in sorted(pieces, key=lambda node: -int(depth[node])):
        sides, used = {True: int(left[node]), False: int(right[node])}, set[bool]()
        gap = None if missing[node] == AS_FILL else missing[node] == LEFT

        def subtree(side: bool, sides: dict[bool, int] = sides, used: set[bool] = used) -> int:
            first = side not in used
            used.add(side)
            return sides[side] if first else copied(sides[side])

        at = node
        ends = pieces[node]
        for i, (end, side) in enumerate(ends[:-1]):
            threshold[at] = end
            missing[at] = AS_FILL if gap is None else LEFT if side == gap else RIGHT
            left[at] = subtree(side)
            if i == len(ends) - 2:
                right[at] = subtree(ends[-1][1])
            else:
                right[at] = new(at)
                at = int(right[at])
    return np.array(source)
