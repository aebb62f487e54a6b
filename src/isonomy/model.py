"""A model: what is judged. It owns its outputs, its section of the record and its words; a tier of its kind bounds it.

:class:`isonomy.Network` is one. The kinds that records know are listed in :mod:`isonomy.certificates.models`, the tiers
in :mod:`isonomy.certificates.protocol`. Nothing else asks which one it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.population.schema import Schema

HeadName = Literal["softmax", "sigmoid", "regression", "probability"]
"""How outputs are read: made probabilities by a softmax or by sigmoids, numbers, or probabilities as they are."""

Arrays = dict[str, NDArray[Any]]


class Model(ABC):
    """A function that can be evaluated; bounds of it are proved by a tier of its kind.

    A member has ``kind``, ``name``, ``head``, :attr:`input_width`, :attr:`classes`, its outputs and its hash. One with
    a record defines :meth:`section`, :meth:`arrays` and :meth:`read`.
    """

    kind: ClassVar[str]  # by which tiers are registered, and records read
    noun: ClassVar[str] = "model"  # the kind in a word
    condition: ClassVar[str] = ""  # what every statement rests on that no file can show; stands beside each of them
    name: str  # in errors and reports
    head: HeadName
    named: tuple[str, ...] = ()  # its own names of the classes; none where it has none
    assumed_head: bool = False  # whether the head was assumed, as nothing says it
    opened: Mapping[str, Any] | None = None  # with which options its file was read; None where there is no file

    @property
    @abstractmethod
    def input_width(self) -> int:
        """Return the number of coordinates that it reads."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """Return the number of raw outputs: k for several classes, 1 for one probability of two, or one number."""

    @abstractmethod
    def __call__(self, x: Any, /) -> FloatArray:
        """Return probabilities (n, k), or the numbers of a regression, for individuals (n, input_width)."""

    @abstractmethod
    def hash(self) -> str:
        """Return the SHA-256 of the function: results are used again for no other model."""

    @property
    def class_count(self) -> int:
        """Return the number of classes: 2 for one probability, 0 for a regression."""
        if self.head == "regression":
            return 0
        return 2 if self.head != "softmax" and self.classes == 1 else self.classes

    @property
    def exclusive(self) -> bool:
        """Return whether probabilities of the classes add up to 1; several sigmoids are each by itself."""
        return self.head in ("softmax", "probability") or self.classes == 1

    # -- its section of the record

    def section(self) -> dict[str, Any]:
        """Return what stands in a record beside its kind and its arrays."""
        raise self.unsupported("record: the checker does not know it")

    def arrays(self) -> Arrays:
        """Return its arrays by name, as a record has them."""
        raise self.unsupported("record: the checker does not know it")

    @classmethod
    def read(cls, section: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], head: HeadName, name: str) -> Self:
        """Return the model of a ``section`` and ``arrays`` of a record, with the ``head`` and ``name`` that it has."""
        raise UnsupportedOperationError(f"A model of kind '{cls.kind}' has no record: the checker does not know it.")

    # -- its words

    @property
    def remark(self) -> str:
        """Return in one sentence what was assumed when it was read; "" if nothing was."""
        return ""

    @property
    def words(self) -> str:
        """Return what a report says of it: its name, what it reads and what it gives."""
        if self.head == "regression":
            gives = "giving numbers (a regression)"
        else:
            count, assumed = max(2, self.classes), ""
            if self.assumed_head:
                assumed = ": a softmax of its raw outputs, which was assumed, as nothing in the file says it"
            gives = f"giving {'' if self.exclusive else 'independent '}probabilities of {count} classes{assumed}"
        return f"“{self.name}”, {self.input_width} inputs, {gives}."

    def conditional(self, sentence: str) -> str:
        """Return a sentence about it with what that rests on in front, if there is anything."""
        if not self.condition or not sentence:
            return sentence
        return f"{self.condition.capitalize()}: {sentence[0].lower()}{sentence[1:]}"

    @property
    def behind(self) -> str:
        """Return what a few words about it rest on, behind a comma; "" if nothing."""
        return f", {self.condition}" if self.condition else ""

    # -- the table

    def read_features(self, schema: Schema) -> tuple[str, ...]:
        """Return the features of the schema that may influence an output."""
        return tuple(schema.slices)

    def check_rows(self, schema: Schema, frame: Any, first: int = 0) -> None:  # noqa: B027 (few refuse any)
        """Refuse raw rows of a ``frame``, the first of which is row ``first`` of its table, that the model on the
        coordinates of a ``schema`` reads otherwise."""

    def on(self, schema: Schema) -> Self:
        """Return the model on all coordinates of the schema: those that it does not see are dropped in front of it."""
        if self.input_width == schema.width:
            return self
        seen = np.flatnonzero(schema.seen_coordinates)
        if self.input_width != len(seen):
            raise self.of_other_width(schema)
        return self.on_coordinates(seen, schema)

    def of_other_width(self, schema: Schema) -> NetworkError:
        """Return the error for a schema with another number of coordinates."""
        return NetworkError(
            f"'{self.name}' reads {self.input_width} numbers, but the schema '{schema.name}' has {schema.width} "
            f"coordinates of which the model sees {int(schema.seen_coordinates.sum())}."
        )

    def on_coordinates(self, seen: NDArray[np.int64], schema: Schema) -> Self:
        """Return the model that reads the ``seen`` coordinates of all of the ``schema``."""
        raise NetworkError(
            f"'{self.name}' reads {len(seen)} of the {schema.width} coordinates of the schema '{schema.name}': a "
            f"model of kind '{self.kind}' has to read all of them."
        )

    def unsupported(self, what: str) -> UnsupportedOperationError:
        """Return the error for what this kind of model does not have."""
        return UnsupportedOperationError(f"'{self.name}', a model of kind '{self.kind}', has no {what}.")
