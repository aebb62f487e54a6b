"""A tree ensemble as flat arrays over raw columns, with every habit of the library that made it resolved at reading.

A test is ``value <= threshold`` in float64 or ``category in a set``; where a missing value and an unseen category go is
part of the node. So the arrays mean the same whatever library they came from.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isonomy.brief import brief
from isonomy.errors import DataError, needed
from isonomy.trees.thresholds import Numbers

Category = str | float
Coding = Literal["number", "label", "code", "whole", "single", "hash"]
Unseen = Literal["missing", "side", "successor", "refused"]
Link = Literal["identity", "logistic", "softmax", "one-vs-rest", "exponential", "probability"]

NUMBER, CATEGORY, NUMBER_NOT_ZERO = 0, 1, 2
"""Kinds of tests; of the last, numbers of size at most ``ZERO`` go where a missing value goes."""

ZERO = float(np.float32(1e-35))
"""LightGBM's zero: numbers of at most this size count as 0."""

MISSING, UNSEEN = -1.0, -2.0  # codes of cells
_AT_ONCE = 2**20  # pairs of row and tree


@dataclass(frozen=True)
class Column:
    """What one raw column holds, as the model reads it.

    * ``categories``: labels that the model knows, in the order of the columns of ``Forest.masks``; none for a number.
    * ``coding``: how a cell becomes one of them. ``number``: it is none. ``label``: the equal one (1 equals 1.0).
      ``code``: the whole part of the float32 number, a negative one is unseen (XGBoost). ``whole``: the whole part
      (LightGBM). ``single``: the number, rounded to float32. ``hash``: CatBoost's hash of the text; ``categories``
      are hashes, as signed 32-bit numbers.
    * ``unseen``: a cell that is no known category counts as ``missing``, has a ``side`` of its own at every node,
      counts as its ``successor`` among the sorted categories (XGBoost 3.1 and 3.2), or is ``refused`` by the library.
    * ``missing``: whether the library takes missing cells. ``least``: a pipeline gives no result for this number and
      smaller ones, which a schema must exclude. ``runs_in``: the type in which the pipeline's steps were run, if any;
      ``bits``: for tables of whole numbers with fewer they were not.
    """

    name: str
    categories: tuple[Category, ...] = ()
    coding: Coding = "number"
    unseen: Unseen = "missing"
    missing: bool = True
    least: float = -math.inf
    runs_in: str = ""
    bits: int = 0

    def encoded(self, cells: Any) -> Numbers:
        """Return numbers (NaN: missing), or positions in ``categories`` (-1: missing, -2: unseen)."""
        if self.coding == "number":
            values = self._refuse_gaps(_numbers(cells, self.name), np.nan)
            if (values <= self.least).any():
                row = int(np.argmax(values <= self.least))
                raise DataError(
                    f"Column {self.name!r}, row {row}: the pipeline gives no result for {float(values[row])!r}."
                )
            return values
        distinct, place = _distinct(cells)
        codes = np.array([self._code(cell) for cell in distinct], dtype=np.float64)
        return self._refuse_gaps(codes[place], MISSING)

    def code(self, cell: Any) -> int:
        """Return the position of one cell in ``categories``, -1 where it is missing and -2 where it is unseen."""
        return int(self.encoded(np.array([cell], dtype=object))[0])

    def _refuse_gaps(self, values: Numbers, gap: float) -> Numbers:
        missing = np.isnan(values) if np.isnan(gap) else values == gap
        if not self.missing and missing.any():
            row = int(np.argmax(missing))
            raise DataError(f"Column {self.name!r}, row {row}: the model takes no missing value here.")
        return values

    def _code(self, cell: Any) -> float:
        key = cell_key(cell)
        if key is None:
            return MISSING
        if self.coding == "hash":
            key = category_hash(cell)
        elif self.coding != "label":
            key = _whole(key, self.coding)
        position = self._positions.get(key) if key is not None else None
        if position is not None:
            return float(position)
        if self.unseen == "successor" and key is not None:
            ordered = self._ordered
            at = bisect_left([each for each, _ in ordered], _order(key))
            if at < len(ordered):
                return float(ordered[at][1])
        if self.unseen in ("successor", "refused"):
            raise DataError(f"Column {self.name!r}: the model does not know {cell!r}, and its library refuses it.")
        return MISSING if self.unseen == "missing" else UNSEEN

    @cached_property
    def _positions(self) -> dict[Any, int]:
        return {cell_key(each): i for i, each in enumerate(self.categories)}

    @cached_property
    def _ordered(self) -> list[tuple[Any, int]]:
        return sorted((_order(each), i) for i, each in enumerate(self.categories))


@dataclass(frozen=True, repr=False, eq=False)
class Forest:
    """A tree ensemble over raw columns, in ``N`` nodes of ``T`` trees, with ``K`` outputs.

    * ``columns``: what the model reads, by name.
    * ``feature`` (N) int32: the column that a node tests; -1: a leaf. ``kind`` (N) int8: ``NUMBER``: left where
      ``value <= threshold``; ``CATEGORY``: left where ``masks[subset, position of the category]``;
      ``NUMBER_NOT_ZERO``: as a number, but values of size at most ``ZERO`` go where a missing value goes.
    * ``threshold`` (N) float64, never NaN; ±inf where every number goes one way. ``subset`` (N) int32: row of
      ``masks`` (sets, most categories) bool, -1 for numbers.
    * ``missing_left``, ``unseen_left`` (N) bool: where a missing value and, in a column whose ``unseen`` is ``side``,
      an unseen category go.
    * ``left``, ``right`` (N) int32: children, as numbers of all nodes; -1 at leaves. ``leaf`` (N) int32: the number
      that the library gives to the leaf within its tree, -1 inside.
    * ``value`` (N, W) float64: a leaf's values; W = 1, and ``output`` (T) int32 says which output a tree adds to; or
      W = K, and ``output`` is -1. ``root`` (T) int32; the nodes of a tree follow each other from its root on.
    * ``base`` (K) float64, ``divisor``: margins are ``(base + sum of leaves) / divisor``.
    * ``link``, ``link_scale``: outputs are ``link(link_scale * margins)``; ``logistic`` of one margin is the
      probability of the second class, ``one-vs-rest`` a logistic of each margin that is not divided by the sum.
    * ``library``, ``version``: what wrote the model; semantics change with versions. ``classes``: names of classes in
      the order of outputs, () where the file has none or for numbers. ``rounds_used``, ``rounds_stored``: boosting
      rounds that count, and all.
    * ``unit``: rounding of the library's sum (2^-24 or 2^-53); ``base_error``: how far its own base may be from
      ``base``.
    * ``notes``: what the file does not say.
    """

    columns: tuple[Column, ...]
    feature: NDArray[np.int32]
    kind: NDArray[np.int8]
    threshold: Numbers
    subset: NDArray[np.int32]
    masks: NDArray[np.bool_]
    missing_left: NDArray[np.bool_]
    unseen_left: NDArray[np.bool_]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    leaf: NDArray[np.int32]
    value: Numbers
    root: NDArray[np.int32]
    output: NDArray[np.int32]
    base: Numbers
    link: Link
    library: str
    version: str
    divisor: float = 1.0
    link_scale: float = 1.0
    classes: tuple[Category, ...] = ()
    rounds_used: int = 0
    rounds_stored: int = 0
    unit: float = 2.0**-53
    base_error: float = 0.0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return brief(self)

    def table(self, frame: Any) -> Numbers:
        """Return the cells of a frame, a mapping from names to arrays, or a 2-D array, as the tests read them."""
        named = isinstance(frame, Mapping) or hasattr(frame, "columns")
        if not named:
            cells = np.asarray(frame)
            if cells.ndim != 2 or cells.shape[1] != len(self.columns):
                raise DataError(f"The model reads {len(self.columns)} columns. Got an array of shape {cells.shape}.")
            return np.column_stack([each.encoded(cells[:, i]) for i, each in enumerate(self.columns)])
        held = set(frame if isinstance(frame, Mapping) else frame.columns)
        absent = next((each.name for each in self.columns if each.name not in held), None)
        if absent is not None:
            raise DataError(f"The table lacks the column {absent!r}, which the model reads.")
        return np.column_stack([each.encoded(np.asarray(frame[each.name])) for each in self.columns])

    def nodes(self, frame: Any) -> NDArray[np.int32]:
        """Return the leaf that each row reaches in each tree, (rows, trees), as numbers of all nodes."""
        table = self.table(frame)
        size = max(1, _AT_ONCE // max(1, len(self.root)))
        parts = [self._reached(table[at : at + size]) for at in range(0, len(table), size)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.root)), dtype=np.int32)

    def leaves(self, frame: Any) -> NDArray[np.int32]:
        """Return the leaf that each row reaches in each tree, (rows, trees), as the library numbers them."""
        return self.leaf[self.nodes(frame)]

    def margins(self, frame: Any) -> Numbers:
        """Return raw outputs, (rows, outputs): exact sums of base and leaves, rounded once, over the divisor."""
        return self._sums(self.nodes(frame), self.value, self.base) / self.divisor

    def outputs(self, frame: Any) -> Numbers:
        """Return what the library predicts: numbers (rows, K), or probabilities of all classes."""
        return linked(self.margins(frame) * self.link_scale, self.link)

    def run_error(self, frame: Any = None) -> Numbers:
        """Return a bound of ``|the library's raw outputs - exact ones|``, (rows, outputs); (outputs) for any rows.

        **Soundness.** A sum of n numbers in floating point, in any order, differs from the exact one by at most
        ``gamma = n u / (1 - n u)`` times the sum of their sizes (no underflow occurs in a sum). A tree adds one number,
        the base and a rounded product of each leaf two roundings more, a division one.
        """
        size = np.abs(self.value)
        if frame is None:
            largest = np.maximum.reduceat(size, self.root, axis=0)
            total = self._sums(np.arange(len(self.root))[None], largest, np.abs(self.base))[0]
        else:
            total = self._sums(self.nodes(frame), size, np.abs(self.base))
        each = np.bincount(self.output, minlength=len(self.base)) if self.value.shape[1] == 1 else len(self.root)
        roundings = (np.asarray(each, dtype=np.float64) + 4) * self.unit
        if np.max(roundings) >= 0.5:
            return np.full(np.shape(total), np.inf)
        bound = (roundings / (1 - roundings) * total + self.base_error) / self.divisor
        return np.asarray(bound * (1 + 2.0**-40))

    def output_error(self, frame: Any) -> Numbers:
        """Return a bound of ``|the library's predictions - exact ones|``, as :meth:`run_error` after the link.

        **Soundness.** A logistic changes by at most a quarter of its argument's change, a softmax by at most half of
        the largest one; the library's own exponentials and divisions are taken to be right to 16 units in the last
        place.
        """
        error = self.run_error(frame) * self.link_scale
        if self.link in ("identity", "probability"):
            return error
        margins = self.margins(frame) * self.link_scale
        rounding = 16 * self.unit * (1 + np.abs(margins))
        if self.link == "softmax":
            return np.broadcast_to((error + rounding).max(axis=1, keepdims=True), margins.shape) + 16 * self.unit
        if self.link == "exponential":
            with np.errstate(over="ignore"):
                return np.exp(margins) * (np.expm1(error + rounding) + 32 * self.unit)
        bound = (error + rounding) / 4 + 16 * self.unit
        return np.repeat(bound, 2, axis=1) if self.link == "logistic" else bound

    def hash(self) -> str:
        """Return the SHA-256 of what the model computes; versions and notes do not count."""
        digest = hashlib.sha256()
        for part in fields(self):
            value = getattr(self, part.name)
            if isinstance(value, np.ndarray):
                stored = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
                digest.update(f"{part.name} {stored.dtype.str} {stored.shape}".encode() + stored.tobytes())
        described = [asdict(each) for each in self.columns]
        for each in described:
            del each["runs_in"], each["bits"]  # the thresholds hold what they change
            if each["least"] == -math.inf:
                del each["least"]
        words = [described, self.link, self.link_scale, self.divisor, self.classes]
        digest.update(json.dumps(words, sort_keys=True).encode())
        return digest.hexdigest()

    def describe(self) -> str:
        """Return what the model is, in a sentence or two."""
        some = "" if self.rounds_used == self.rounds_stored else f" (of {self.rounds_stored} rounds {self.rounds_used})"
        size = f"{len(self.root)} trees{some} on {len(self.columns)} columns"
        return " ".join((f"{self.library} {self.version}: {size}, link {self.link}.", *self.notes))

    def _sums(self, nodes: Any, value: Numbers, base: Numbers) -> Numbers:
        sums = np.empty((len(nodes), len(base)))
        for k in range(len(base)):
            own = value[:, k][nodes] if value.shape[1] > 1 else value[:, 0][nodes[:, self.output == k]]
            sums[:, k] = [math.fsum((base[k], *row)) for row in own.tolist()]
        return sums

    def _reached(self, table: Numbers) -> NDArray[np.int32]:
        count = len(self.root)
        state = np.tile(self.root, len(table))
        active = np.flatnonzero(self.feature[state] >= 0)
        while len(active):
            node = state[active]
            cell = table[active // count, self.feature[node]]
            state[active] = np.where(self._goes_left(node, cell), self.left[node], self.right[node])
            active = active[self.feature[state[active]] >= 0]
        return state.reshape(len(table), count)

    def _goes_left(self, node: NDArray[np.int32], cell: Numbers) -> NDArray[np.bool_]:
        missing = np.isnan(cell) | ((self.kind[node] == NUMBER_NOT_ZERO) & (np.abs(cell) <= ZERO))
        goes = cell <= self.threshold[node]
        chosen = np.flatnonzero(self.kind[node] == CATEGORY)
        if len(chosen):
            code = cell[chosen].astype(np.int64)
            goes[chosen] = self.masks[self.subset[node[chosen]], np.maximum(code, 0)]
            goes[chosen] = np.where(code == UNSEEN, self.unseen_left[node[chosen]], goes[chosen])
            missing[chosen] = code == MISSING
        return np.where(missing, self.missing_left[node], goes)


def linked(margins: Numbers, link: Link) -> Numbers:
    """Return predictions: numbers, or probabilities of all classes."""
    with np.errstate(over="ignore"):
        if link == "softmax":
            powers = np.exp(margins - margins.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True))
        if link == "exponential":
            return np.exp(margins)
        if link in ("logistic", "one-vs-rest"):
            second = np.where(margins < 0, np.exp(np.minimum(margins, 0)), 1.0) / (1 + np.exp(-np.abs(margins)))
            return np.column_stack([1 - second, second]) if link == "logistic" else second
    return margins


def category_hash(cell: Any) -> int:
    """Return CatBoost's number of a category: the low half of the 64-bit CityHash of its text, as a signed number.

    Its files hold these numbers and not the texts; 3.0 has the text of 3.
    """
    if not isinstance(cell, str):
        cell = str(int(cell)) if float(cell).is_integer() else str(cell)
    city = needed("clickhouse_cityhash.cityhash", "catboost", "A CatBoost model with categories")
    low = int(city.CityHash64(cell.encode())) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def cell_key(cell: Any) -> Category | None:
    """Return a cell in the form in which labels are compared: a text, a number, or None where it is missing."""
    if cell is None or isinstance(cell, str):
        return cell
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None if type(cell).__name__ in ("NAType", "NaTType") else str(cell)
    return None if number != number else number


def _whole(key: Category, coding: Coding) -> Category | None:
    """Return the category of a number by its coding; None where it has none."""
    try:
        number = float(key)
    except ValueError:
        return None
    if coding != "whole":
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    if coding == "single" or not np.isfinite(number):
        return number
    return None if number < 0 and coding == "code" else float(int(number))


def _order(key: Category) -> tuple[bool, Any]:
    """Return a key by which texts are sorted by their bytes and numbers by size."""
    return (True, key.encode()) if isinstance(key, str) else (False, float(key))


def _numbers(cells: Any, name: str) -> Numbers:
    try:
        numbers = np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError):
        try:
            numbers = np.array([np.nan if cell_key(each) is None else float(each) for each in cells])
        except (TypeError, ValueError):
            raise DataError(f"Column {name!r} must hold numbers: the model compares them.") from None
    return numbers


def _distinct(cells: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different cells of a column and the place of each row's among them."""
    table = np.asarray(cells)
    if table.dtype.kind in "iufb":
        values, place = np.unique(table, return_inverse=True)
        return list(values), place.reshape(-1)
    first: dict[Any, int] = {}
    keys = (None if cell_key(each) is None else (type(each), each) for each in table)
    place = np.array([first.setdefault(key, len(first)) for key in keys])
    return [None if each is None else each[1] for each in first], place.astype(np.int64)
