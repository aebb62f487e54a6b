"""What a tree ensemble is: flat arrays of tests and leaves, and the exact sums of these.

    F(x) = base + Σ over trees of the value of the leaf that x reaches.

A test looks at one coordinate of a domain: ``x[j] <= threshold``, or whether the category of a block, or the state of
a flag, is in a set. Leaves become whole multiples of one power of two with at most :data:`BITS` bits in any sum, so
that sums have no rounding and no order; what rounding the leaves costs is charged to every output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isonomy_verify.arithmetic import Array, down, exact_sum, nearest, up
from isonomy_verify.domain import Domain, Mask
from isonomy_verify.heads import Head
from isonomy_verify.regions import Index

BITS = 58
"""Of the largest possible sum of an output; a difference of two outputs has one more."""

NODES, TREE_DEPTH = 2**24, 4096
"""The most nodes of an ensemble and tests on one path."""

AS_FILL, LEFT, RIGHT = 0, 1, 2
"""Where a test of a number sends a missing value: where its fill goes, left, right."""

_WHOLE = ("coordinate", "category", "missing", "left", "right", "roots", "output")


class TreeError(ValueError):
    """Arrays are no tree ensemble."""


@dataclass(frozen=True, eq=False)
class Trees:
    """A tree ensemble on the coordinates of a domain.

    For each node: ``coordinate``, the number that it tests or the first coordinate of the block or flag, −1 at leaves;
    ``threshold``: ``x[j] <= threshold`` goes left; ``category``: of blocks and flags, the row of ``masks`` (sets,
    states) with the states that go left, −1 at tests of numbers; ``missing``: where those send a missing value;
    ``left`` and ``right``; ``values`` (nodes, 1 or outputs), of leaves. For each tree ``roots`` and ``output``, the one
    that its leaves add to, or −1 where they have a value for each. ``base`` (outputs,) is added; ``error`` (outputs,)
    is what values and base may be off by together.
    """

    coordinate: Index
    threshold: Array
    category: Index
    masks: Mask
    missing: Index
    left: Index
    right: Index
    roots: Index
    output: Index
    values: Array
    base: Array
    error: Array

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self)):
            kind: Any = np.int64 if name in _WHOLE else bool if name == "masks" else np.float64
            given = np.asarray(getattr(self, name))
            if given.dtype.kind not in "iufb" or (name in _WHOLE and given.dtype.kind not in "iu"):
                raise TreeError(f"'{name}' of trees must be an array of {'whole ' if name in _WHOLE else ''}numbers.")
            array = np.array(given, dtype=kind, order="C")
            if array.ndim != (2 if name in ("masks", "values") else 1):
                raise TreeError(f"'{name}' of trees has {array.ndim} axes.")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        self._check_shapes()
        self._check_numbers()
        self._check_shape_of_trees()

    def _check_shapes(self) -> None:
        """Refuse arrays that do not fit together."""
        n = len(self.coordinate)
        if not 0 < n <= NODES or not len(self.roots) or not len(self.base):
            raise TreeError(f"An ensemble has 1 to {NODES} nodes, a tree and an output. Got {n} nodes.")
        for name in ("threshold", "category", "missing", "left", "right", "values"):
            if len(getattr(self, name)) != n:
                raise TreeError(f"'{name}' of trees must have {n} rows, one per node. Got {len(getattr(self, name))}.")
        if len(self.output) != len(self.roots) or len(self.error) != len(self.base):
            raise TreeError("Each tree has an entry of 'output', each output one of 'error'.")
        if self.values.shape[1] not in (1, len(self.base)):
            raise TreeError(f"Leaves have 1 or {len(self.base)} values. Got {self.values.shape[1]}.")
        least = -1 if self.values.shape[1] == len(self.base) else 0
        for t in np.flatnonzero((self.output < least) | (self.output >= len(self.base)))[:1]:
            raise TreeError(f"Tree {t} adds to output {self.output[t]}, and there are {len(self.base)}.")
        if self.values.shape[1] > 1 and (self.output >= 0).any():
            raise TreeError("Leaves with a value for each output belong to trees of output -1.")

    def _check_numbers(self) -> None:
        """Refuse numbers that no test or leaf can have."""
        n, test = len(self.coordinate), self.coordinate >= 0
        wrong = {
            "a coordinate below -1": self.coordinate < -1,
            "a threshold that is no number": np.isnan(self.threshold),
            "a set of categories that is not there": (self.category < -1) | (self.category >= len(self.masks)),
            "no side for missing values": (self.missing < AS_FILL) | (self.missing > RIGHT),
            "a value that is not finite": ~np.isfinite(self.values).all(1),
            "a child that is not there": test & ((self.left < 0) | (self.left >= n)),
            "a right child that is not there": test & ((self.right < 0) | (self.right >= n)),
        }
        for what, mask in wrong.items():
            for i in np.flatnonzero(mask)[:1]:
                raise TreeError(f"Node {i} has {what}.")
        if not (np.isfinite(self.base).all() and ((self.error >= 0) & (self.error < np.inf)).all()):
            raise TreeError("'base' must be finite, and 'error' finite and not negative.")
        if (self.roots < 0).any() or (self.roots >= n).any():
            raise TreeError(f"'roots' must be nodes from 0 to {n - 1}.")

    def _check_shape_of_trees(self) -> None:
        """Refuse nodes with two parents or none, and so cycles, and paths that are too long."""
        seen = np.zeros(len(self.coordinate), dtype=np.int64)
        level, depth = self.roots, 0
        while len(level):
            np.add.at(seen, level, 1)
            if (seen[level] > 1).any():
                raise TreeError(f"Node {level[seen[level] > 1][0]} has two parents.")
            level = level[self.coordinate[level] >= 0]
            level, depth = np.concatenate([self.left[level], self.right[level]]), depth + 1
            if depth > TREE_DEPTH and len(level):
                raise TreeError(f"A tree has paths of more than {TREE_DEPTH} tests.")
        for i in np.flatnonzero(seen == 0)[:1]:
            raise TreeError(f"Node {i} belongs to no tree.")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a record."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """Return the trees of a record's arrays, checked."""
        names = [field.name for field in fields(cls)]
        for name in names:
            if name not in arrays:
                raise TreeError(f"Trees need the array '{name}'.")
        return cls(**{name: arrays[name] for name in names})

    @property
    def outputs(self) -> int:
        """Return the number of outputs."""
        return len(self.base)

    @cached_property
    def tree_of(self) -> Index:
        """Return the tree (nodes,) of each node."""
        tree = np.zeros(len(self.coordinate), dtype=np.int64)
        tree[self.roots], level = np.arange(len(self.roots)), self.roots
        while len(level):
            level = level[self.coordinate[level] >= 0]
            for child in (self.left, self.right):
                tree[child[level]] = tree[level]
            level = np.concatenate([self.left[level], self.right[level]])
        return tree

    @cached_property
    def sums(self) -> Sums:
        """Return the leaves as whole numbers.

        **Soundness.** No sum of an output exceeds ``Σ_t max |v| + |base|``, which is scaled below ``2^BITS``; ``v 2^s``
        is exact, and so is what rounding it to a whole number leaves, a part of its last bits. Per tree the worst leaf
        counts, and the sum of these is rounded up.
        """
        values = np.where((self.coordinate < 0)[:, None], self.values, 0.0)
        most = np.zeros((len(self.roots), values.shape[1]))
        np.maximum.at(most, self.tree_of, np.abs(values))
        total = math.fsum(most.max(1)) + float(np.abs(self.base).max())
        if not total < 2.0**900:
            raise TreeError("The leaves' values are too large.")
        exponent = min(1000, BITS - 1 - math.frexp(total)[1]) if total else 0
        scaled, base = np.ldexp(values, exponent), np.ldexp(self.base, exponent)
        whole, own = np.rint(scaled), np.rint(base)
        lost = np.zeros_like(most)
        np.maximum.at(lost, self.tree_of, np.abs(np.ldexp(scaled - whole, -exponent)))
        # Half of the least float for what scaling loses below all floats, of which 2^24 nodes lose nothing to speak of.
        tiny = 0.0 if exponent < 1000 else 2.0**-900
        error = np.empty(self.outputs)
        for o in range(self.outputs):
            column = lost[self.output < 0, o] if values.shape[1] > 1 else lost[self.output == o, 0]
            parts = np.append(column, [abs(float(np.ldexp(base - own, -exponent)[o])), self.error[o], tiny])
            error[o] = up(nearest(exact_sum(parts))) if parts.any() else 0.0
        return Sums(whole.astype(np.int64), own.astype(np.int64), exponent, error)

    def check(self, domain: Domain, head: Head) -> None:
        """Refuse trees that test what a domain has not, or whose outputs a head does not take."""
        if self.outputs != head.outputs:
            raise TreeError(f"The trees have {self.outputs} outputs, and the head takes {head.outputs}.")
        if domain.kind == "relaxed":
            raise TreeError(
                "Trees have no bounds on the relaxed domain, in which shares of categories are no category: use "
                "'realizable', or 'unbounded' where all tests are of numbers."
            )
        widths = np.zeros(domain.width, dtype=np.int64)
        for start, stop in domain.blocks:
            widths[start] = max(2, stop - start)
        test = self.coordinate >= 0
        for i in np.flatnonzero(test & (self.coordinate >= domain.width))[:1]:
            raise TreeError(f"Node {i} tests coordinate {self.coordinate[i]}, and there are {domain.width}.")
        where, numbers = np.where(test, self.coordinate, 0), self.category < 0
        for i in np.flatnonzero(test & numbers & ~domain.numeric[where])[:1]:
            raise TreeError(f"Node {i} tests '{domain.names[where[i]]}' as a number, which is in a block.")
        for i in np.flatnonzero(test & ~numbers & ((widths[where] == 0) | (widths[where] > self.masks.shape[1])))[:1]:
            raise TreeError(
                f"Node {i} tests the category of '{domain.names[where[i]]}', where no block of at most "
                f"{self.masks.shape[1]} states begins."
            )


def margin_errors(head: Head, error: Array) -> Array:
    """Return errors of the margins of a head from those of outputs: of a difference those of both."""
    return np.array([up(error[c] + error[j]) for c, j in head.pairs]) if head.pairs else error


class Sums(NamedTuple):
    """Leaves (nodes, columns) and base (outputs,) in units of ``2^-exponent``, and what the units lose, per output."""

    leaves: Index
    base: Index
    exponent: int
    error: Array

    def margins(self, trees: Trees, head: Head) -> tuple[Index, Index]:
        """Return the leaves (nodes, margins) and the base (margins,) of a head's margins: differences of outputs."""
        leaves = self.leaves
        if leaves.shape[1] < trees.outputs:
            own = trees.output[trees.tree_of]
            leaves = np.where(own[:, None] == np.arange(trees.outputs), leaves, 0)
        if not head.pairs:
            return leaves, self.base
        first, last = (np.array(side) for side in zip(*head.pairs, strict=True))
        return leaves[:, last] - leaves[:, first], self.base[last] - self.base[first]

    def real(self, low: Index, high: Index, error: Array) -> tuple[Array, Array]:
        """Return floats below and above whole sums (n, margins), with an error of each margin.

        **Soundness.** A whole number of up to 60 bits becomes a float with one rounding, and ``ldexp`` is exact or
        loses less than the smallest float; each step is one float outward.
        """
        exact = self.exponent <= 1000 and not error.any()
        ends = []
        for whole, step in ((low, down), (high, up)):
            value = np.ldexp(whole.astype(np.float64), -self.exponent)
            if not (exact and (np.abs(whole) < 2**53).all()):
                value = step(step(value) + (error if step is up else -error))
            ends.append(np.asarray(value, dtype=np.float64))
        return ends[0], ends[1]
