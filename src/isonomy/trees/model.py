"""A tree ensemble as a model: the kernel's trees on the coordinates of a schema, and the head that reads their sums."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, NetworkError
from isonomy.model import Arrays, HeadName, Model
from isonomy.population.domain import Domain
from isonomy.population.encoding import text_of
from isonomy.population.schema import Schema
from isonomy.trees.coordinates import Reads, on_coordinates, shared_number
from isonomy.trees.forest import Forest, Link
from isonomy_verify.activations import sigmoid
from isonomy_verify.heads import Head
from isonomy_verify.tree_cells import Cells
from isonomy_verify.trees import Trees

ROWS = 16_384
"""Individuals evaluated at a time."""

_HEADS: dict[Link, HeadName] = {
    "identity": "regression", "logistic": "sigmoid", "softmax": "softmax", "one-vs-rest": "sigmoid",
    "probability": "probability",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class TreeModel(Model):
    """What is judged: a tree ensemble on the coordinates of a domain, whose sums a head makes probabilities or numbers.

    ``run_error`` (outputs,) bounds how far the library's own sum, in its own precision, is from the exact one.
    ``forest`` is the ensemble as it was read, over raw columns; a model that a record holds has none.
    """

    kind: ClassVar[str] = "trees"
    noun: ClassVar[str] = "tree ensemble"
    trees: Trees
    head: HeadName
    width: int
    run_error: FloatArray = field(repr=False)
    domain: Domain | None = field(default=None, repr=False)
    name: str = "trees"
    named: tuple[str, ...] = field(default=(), repr=False)
    opened: Mapping[str, Any] | None = field(default=None, repr=False)
    forest: Forest | None = field(default=None, repr=False)
    reads: Reads = field(default="auto", repr=False)

    @classmethod
    def of(
        cls,
        forest: Forest,
        schema: Schema,
        *,
        reads: Reads = "auto",
        name: str | None = None,
        opened: Mapping[str, Any] | None = None,
    ) -> TreeModel:
        """Put an ensemble that was read from a file or library on the coordinates of a schema.

        Outputs follow the order of the schema's classes; ``reads`` is that of :func:`on_coordinates`.
        """
        if forest.link not in _HEADS:
            raise NetworkError(
                f"The trees predict through the link '{forest.link}', which has no bounds: predict its logarithm (the "
                "raw sum) with an objective such as squared error on log values."
            )
        forest = in_class_order(forest, schema)
        trees, named = on_coordinates(forest, schema, reads), tuple(text_of(each) for each in forest.classes)
        run_error = np.asarray(forest.run_error() * forest.link_scale, dtype=np.float64)
        title = forest.library if name is None else name
        domain = schema.domain("realizable")
        return cls(trees, _HEADS[forest.link], schema.width, run_error, domain, title, named, opened, forest, reads)

    @classmethod
    def read(
        cls, section: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], head: HeadName, name: str
    ) -> TreeModel:
        """Return the trees of a record, which :meth:`on` puts on its domain."""
        own = {key: np.asarray(array) for key, array in arrays.items() if key != "run_error"}
        run_error = np.asarray(arrays["run_error"], dtype=np.float64)
        return cls(Trees.from_arrays(own), head, int(section["width"]), run_error, name=name)

    def section(self) -> dict[str, Any]:
        """Return the number of coordinates."""
        return {"width": self.width}

    def arrays(self) -> Arrays:
        """Return the arrays of the trees, and how far the library's own sums may be from theirs."""
        return {**self.trees.arrays(), "run_error": self.run_error}

    def on(self, schema: Schema) -> TreeModel:
        """Return the trees on the domain of a schema."""
        if schema.width != self.width:
            raise NetworkError(f"'{self.name}' reads {self.width} coordinates, but the schema has {schema.width}.")
        return self if self.domain is not None else replace(self, domain=schema.domain("realizable"))

    def read_features(self, schema: Schema) -> tuple[str, ...]:
        """Return the features that a test looks at."""
        tested = np.zeros(self.width, dtype=bool)
        tested[self.trees.coordinate[self.trees.coordinate >= 0]] = True
        return tuple(name for name, place in schema.slices.items() if tested[place].any())

    def check_rows(self, schema: Schema, frame: Any, first: int = 0) -> None:
        """Refuse raw rows with a number that reaches other leaves than its coordinate does, and numbers of another type
        than that in which a pipeline's steps were run."""
        for each in () if self.forest is None else self.forest.columns:
            kind = frame[each.name].dtype if each.runs_in == "float64" and each.name in frame else None
            kind, bits = getattr(kind, "numpy_dtype", kind), {"f": 64, "i": each.bits, "u": each.bits}
            if isinstance(kind, np.dtype) and 8 * kind.itemsize < bits.get(kind.kind, 0):
                raise DataError(
                    f"Column '{each.name}' holds {kind.name} numbers, with which '{self.name}' computes other steps "
                    "than with float64: pass frame.astype({'" + each.name + "': 'float64'}), as the table that it "
                    "predicts has to be."
                )
        shared = None if self.forest is None else shared_number(self.forest, schema, self.reads, frame)
        if shared is not None:
            row, column, number, threshold = shared
            raise DataError(
                f"Row {first + row}: '{column}' is {number!r}, so close to the threshold {threshold!r} of "
                f"'{self.name}' that its coordinate cannot tell the sides apart: round the column to fewer digits, or "
                "give it another 'origin' and 'unit' in the schema."
            )

    @property
    def input_width(self) -> int:
        """Return the number of coordinates."""
        return self.width

    @property
    def classes(self) -> int:
        """Return the number of raw outputs: 1 for two classes that one output tells apart, and for a number."""
        return self.trees.outputs

    @property
    def remark(self) -> str:
        """Return what was assumed when the model was read; empty if nothing was."""
        return "" if self.forest is None else " ".join(self.forest.notes)

    @cached_property
    def _cells(self) -> Cells:
        if self.domain is None:
            raise NetworkError(f"'{self.name}' is asked before it is put on a schema.")
        return Cells(self.trees, self.domain, Head("regression", self.trees.outputs))

    def logits(self, x: npt.ArrayLike) -> FloatArray:
        """Return the sums (n, classes) at individuals (n, m), each rounded once."""
        table = np.asarray(x, dtype=np.float64)
        exponent = self.trees.sums.exponent
        parts = [self._cells.sum_at(table[at : at + ROWS]) for at in range(0, max(len(table), 1), ROWS)]
        return np.ldexp(np.concatenate(parts).astype(np.float64), -exponent)

    def __call__(self, x: npt.ArrayLike, /) -> FloatArray:
        """Return probabilities (n, k), or the numbers of a regression."""
        sums = self.logits(x)
        if self.head == "softmax":
            odds = np.exp(sums - sums.max(1, keepdims=True))
            return np.asarray(odds / odds.sum(1, keepdims=True))
        if self.head == "sigmoid":
            return sigmoid(np.hstack([-sums, sums]) if self.classes == 1 else sums)
        if self.head == "probability" and self.classes == 1:
            return np.clip(np.hstack([1 - sums, sums]), 0.0, 1.0)
        return np.clip(sums, 0.0, 1.0) if self.head == "probability" else sums

    def hash(self) -> str:
        """Return the SHA-256 of the record's arrays and the head, whatever the model is called."""
        digest = hashlib.sha256(f"trees {self.head}".encode())
        for name, array in self.arrays().items():
            digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def __repr__(self) -> str:
        return (
            f"TreeModel('{self.name}', {len(self.trees.roots)} trees, {self.input_width} -> {self.classes} {self.head})"
        )


def in_class_order(forest: Forest, schema: Schema) -> Forest:
    """Put outputs into the order of the schema's classes, which are matched by name or are the model's numbers.

    Of two probabilities only that of the second class is kept.
    """
    named, wanted = [text_of(each) for each in forest.classes], () if schema.label is None else schema.label.classes
    if forest.link != "identity" and schema.label is not None and not wanted:
        raise NetworkError(f"The trees classify, but the label '{schema.label.column}' has no classes in the schema.")
    numbered = ([str(i) for i in range(len(wanted))], ["False", "True"])
    if forest.link != "identity" and named and wanted:
        if set(wanted) == set(named):
            forest = _turned(forest, [named.index(each) for each in wanted])
        elif len(named) != len(wanted) or named not in numbered:
            raise NetworkError(f"The classes {named} of the trees are not those of the schema, {list(wanted)}.")
        forest = replace(forest, classes=tuple(wanted) if set(wanted) == set(named) else ())
    if forest.link == "probability" and len(forest.base) == 2:
        output = np.zeros_like(forest.output)
        return replace(forest, value=forest.value[:, 1:], base=forest.base[1:], output=output)
    return forest


def _turned(forest: Forest, order: list[int]) -> Forest:
    """Return the forest with its classes in another order."""
    if order == sorted(order):
        return forest
    if len(forest.base) == 1:  # the margin of the second class
        return replace(forest, value=-forest.value, base=-forest.base)
    if forest.value.shape[1] > 1:
        return replace(forest, value=forest.value[:, order], base=forest.base[order])
    return replace(forest, output=np.argsort(order).astype(np.int32)[forest.output], base=forest.base[order])
