"""Any model with predictions, asked about everybody: an estimator or a function on raw rows, whose similar people are
finitely many.

Nothing is known of it but its answers, so that everything proved of it holds *given these predictions*: a record keeps
them, and its checker looks them up.
"""

from __future__ import annotations

import hashlib
import marshal
import pickle
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError, IsonomyError, NetworkError, ParameterError, first_line, template
from isonomy.given import choice, instance, whole
from isonomy.model import Arrays, HeadName, Model
from isonomy.population.encoding import text_of
from isonomy.population.schema import Schema
from isonomy_verify.enumeration import SUM, Predictions, distinct
from isonomy_verify.text import BadInput

ADVICE = "narrow the tolerances, name fewer features as protected or proxies, or make some immutable"

ROWS = 2**16
"""Rows that are asked about at a time."""


class Enumeration(Model):
    """A ``model`` of which only predictions are known: an estimator with ``predict_proba`` or ``predict`` (of numbers),
    or a function; it is asked about raw rows, a frame in the columns of the ``schema``.

    ``columns`` are those that it reads, in its own order; by default its ``feature_names_in_``, else all that a model
    sees by the schema. A function gives the probability of the second of two classes (n,), those of all classes (n, k)
    in the order of the schema's label, or with ``head="regression"`` numbers. A classifier that gives nothing but
    classes gives them the probability 1. ``name`` is shown in reports. Every person is asked about once, and answers
    are kept, at most ``limit``.
    """

    kind: ClassVar[str] = "enumeration"
    condition: ClassVar[str] = "given these predictions"

    def __init__(
        self,
        model: Any,
        schema: Schema,
        columns: Sequence[str] | None = None,
        *,
        head: Literal["auto", "probability", "regression"] = "auto",
        name: str | None = None,
        limit: int = 2**21,
    ) -> None:
        instance("schema", schema, Schema, "a Schema")
        choice("head", head, Literal["auto", "probability", "regression"])
        predicts = hasattr(model, "predict_proba") or hasattr(model, "predict")
        if not predicts and not callable(model):
            raise ParameterError(template("model", "an estimator with predict_proba or predict, or a function", model))
        self.model, self.schema = model, schema
        self.columns = _columns(model, schema, columns)
        self.name = type(model).__name__ if predicts else getattr(model, "__name__", type(model).__name__)
        self.name = self.name if name is None else name
        alone = predicts and not hasattr(model, "predict_proba")
        self._classes = tuple(text_of(each) for each in getattr(model, "classes_", ())) if alone else ()
        numbers = alone and not self._classes
        self.head = head if head != "auto" else "regression" if numbers else "probability"
        label = () if schema.label is None else schema.label.classes
        own = tuple(text_of(each) for each in getattr(model, "classes_", ())) if self.head == "probability" else ()
        self._order = _order(self.name, own, label)
        self.named = () if label or not own else own
        self._width, self._lock, self.limit = schema.width, threading.Lock(), whole("limit", limit)
        self._table: Predictions | None = None
        asked = f"{self.kind} {self.head} {self.columns!r} {self._order!r} {schema.hash()}".encode()
        self._identity = hashlib.sha256(asked + _function_bytes(model)).hexdigest()
        self._outputs = self._count()

    def _count(self) -> int:
        """Return the number of outputs, from one person whom the schema allows."""
        return int(self._asked(_placeholder(self.schema)).shape[1])

    @property
    def input_width(self) -> int:
        """Return the number of coordinates of the schema."""
        return self._width

    @property
    def classes(self) -> int:
        """Return the number of outputs: 1 for two classes, or one number."""
        return self._outputs

    @property
    def table(self) -> Predictions | None:
        """Return the predictions that are kept."""
        return self._table

    def __call__(self, x: Any, /) -> FloatArray:
        """Return probabilities (n, k), or numbers, for individuals (n, m)."""
        given = self.answers(np.atleast_2d(np.asarray(x, dtype=np.float64)))
        return np.hstack([1.0 - given, given]) if self.head == "probability" and self.classes == 1 else given

    def answers(self, x: FloatArray) -> FloatArray:
        """Return the outputs (n, classes) for individuals (n, m): those that are kept, the others asked for once."""
        if not len(x):
            return np.empty((0, self.classes))
        with self._lock:
            known = np.zeros(len(x), dtype=bool) if self._table is None else self._table.known(x)
            if not known.all():
                self._keep(distinct(x[~known])[0])
            assert self._table is not None
            return self._table.at(x)

    def _keep(self, people: FloatArray) -> None:
        """Ask about people, and keep the answers."""
        if self.model is None:
            raise DataError(
                f"'{self.name}' is known by {len(self._kept_people()):,} predictions of a certificate, and this person "
                "is not among them: predictions of others need the model itself."
            )
        count = len(self._kept_people()) + len(people)
        if count > self.limit:
            raise ParameterError(
                f"'{self.name}' would have to be asked about {count:,} people, and its limit is "
                f"{self.limit:,}: {ADVICE}; or give another limit."
            )
        parts = [self._asked(people[start : start + ROWS]) for start in range(0, len(people), ROWS)]
        values, table = np.concatenate(parts), self._table
        if table is not None:
            assert table.people is not None
            people, values = np.concatenate([table.people, people]), np.concatenate([table.at(table.people), values])
        self._table = Predictions(people, values)

    def _kept_people(self) -> FloatArray:
        kept = None if self._table is None else self._table.people
        return np.empty((0, self._width)) if kept is None else kept

    def _asked(self, x: FloatArray) -> FloatArray:
        """Ask the model about people (n, m); refuse what are no probabilities or numbers."""
        frame = raw_rows(self.schema, x)[list(self.columns)]
        own = "predict_proba" if self.head == "probability" and not self._classes else "predict"
        ask: Callable[[Any], Any] = getattr(self.model, own) if hasattr(self.model, own) else self.model
        try:
            answers = np.asarray(ask(frame))
        except IsonomyError:
            raise
        except Exception as error:  # whatever an estimator raises for rows that it does not take
            why = first_line(error)
            raise NetworkError(
                f"'{self.name}' fails for people whom the schema '{self.schema.name}' allows: {why}; fit it on such "
                "people, or leave them out of the table and what they have out of the schema."
            ) from error
        if self._classes and self.head == "probability":
            chosen = np.array([text_of(each) for each in answers.ravel().tolist()], dtype=object)
            answers = chosen[:, None] == np.array(self._classes, dtype=object)
        given = np.asarray(answers, dtype=np.float64)
        given = given.reshape(-1, 1) if given.ndim == 1 else given
        if given.ndim != 2 or len(given) != len(x) or not given.shape[1] or not np.isfinite(given).all():
            raise NetworkError(f"'{self.name}' must give finite numbers for {len(x)} rows. Got shape {given.shape}.")
        if self.head == "regression":
            return given
        if (given < 0).any() or (given > 1).any():
            raise NetworkError(
                f"'{self.name}' must give probabilities, from 0 to 1. Got {given.min()} to {given.max()}."
            )
        if given.shape[1] > 1:
            if (np.abs(given.sum(axis=1) - 1) > SUM).any():
                raise NetworkError(f"'{self.name}' must give probabilities that add up to 1 for every row.")
            given = given[:, list(self._order)] if self._order else given
        return given[:, 1:] if given.shape[1] == 2 else given

    def kept_for(self, people: FloatArray) -> Self:
        """Return the model of nothing but the predictions of these people (n, m), as a record has it."""
        unique, _ = distinct(people)
        return self.of_table(Predictions(unique, self.answers(unique)), self.head, self.name)

    @classmethod
    def of_table(cls, table: Predictions, head: HeadName, name: str) -> Self:
        """Return the model of the predictions of a ``table`` alone, with its ``head`` and ``name``."""
        made = cls.__new__(cls)
        made.model, made.schema, made.columns, made.name, made.head = None, None, (), name, head  # type: ignore[assignment]
        made._classes = ()
        made.named, made._order, made._width, made._outputs = (), (), table.width, table.outputs
        made._table, made._lock, made._identity, made.limit = table, threading.Lock(), "", 2**26
        return made

    def hash(self) -> str:
        """Return the SHA-256 of the estimator or function, or of the predictions where only these are known."""
        if self.model is None:
            assert self._table is not None
            text = f"{self.kind} {self.head}".encode() + self._kept_people().tobytes() + self._table.values.tobytes()
            return hashlib.sha256(text).hexdigest()
        return self._identity

    def section(self) -> dict[str, Any]:
        """Return nothing: all is in the arrays."""
        return {}

    def arrays(self) -> Arrays:
        """Return the people and their predictions."""
        people = self._kept_people()
        assert self._table is not None
        return {"people": people, "outputs": self._table.at(people)}

    @classmethod
    def read(cls, section: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], head: HeadName, name: str) -> Self:
        """Return the model of a record's ``arrays``, with its ``head`` and ``name``; its ``section`` says no more."""
        try:
            return cls.of_table(Predictions(arrays.get("people"), np.asarray(arrays["outputs"])), head, name)
        except BadInput as error:
            raise NetworkError(str(error)) from None

    def on(self, schema: Schema) -> Self:
        """Return the model as it is: it is asked about raw rows, and a redacted record has no width of them."""
        return self

    @property
    def words(self) -> str:
        """Return what a report says: that only predictions are known."""
        asked = "a model" if self.model is None else f"a {type(self.model).__name__}"
        return f"{super().words[:-1]}; {asked} of which only its predictions are known: all holds {self.condition}."

    def read_features(self, schema: Schema) -> tuple[str, ...]:
        """Return the features whose columns it is given."""
        return tuple(name for name in schema.slices if self.model is None or name in self.columns)

    def __getstate__(self) -> dict[str, Any]:
        kept = None if self.model is not None else self._table
        return {**self.__dict__, "_lock": None, "_table": kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"Enumeration('{self.name}', {self.input_width} -> {self.classes} {self.head})"


class FoundOnly(Enumeration):
    """A ``model`` as for :class:`Enumeration` whose similar people cannot all be listed: some are asked about.

    What is shown of them is true of its predictions, and nothing is proved of the others. ``schema``, ``columns``,
    ``head``, ``name`` and ``limit`` are as there; it gives probabilities.
    """

    kind: ClassVar[str] = "shown"
    condition: ClassVar[str] = "found only, and nothing is proved; given these predictions"

    def answers(self, x: FloatArray) -> FloatArray:
        """Return the outputs (n, classes) for individuals (n, m), each asked about once; none are kept."""
        if self.model is None or not len(x):
            return super().answers(x)
        people, back = distinct(x)
        parts = [self._asked(people[start : start + ROWS]) for start in range(0, len(people), ROWS)]
        return np.asarray(np.concatenate(parts)[back])

    def at(self, x: FloatArray) -> FloatArray:
        """Return the same: what a table of predictions says of people."""
        return self.answers(x)


def raw_rows(schema: Schema, x: FloatArray) -> pd.DataFrame:
    """Return individuals (n, m) as a table of raw values: texts, numbers, and NaN where a value is missing."""
    frame = schema.decode(x)
    for feature in schema.features:
        column = frame[feature.name]
        if column.dtype == "Int64":
            frame[feature.name] = column.astype("float64")
        elif feature.kind in ("categorical", "ordinal") and feature.missing == "category":
            frame[feature.name] = column.astype(object).where(column != feature.missing_label, np.nan)
    return frame


def _columns(model: Any, schema: Schema, columns: Sequence[str] | None) -> tuple[str, ...]:
    known = [feature.name for feature in schema.features]
    own = getattr(model, "feature_names_in_", None) if columns is None else columns
    if own is None:
        return tuple(feature.name for feature in schema.features if feature.seen)
    strange = next((name for name in own if name not in known), None)
    if strange is not None:
        raise ParameterError(
            f"'columns' must be features of the schema '{schema.name}', and {text_of(strange)!r} is none of them: a "
            "model is asked about raw rows of the table."
        )
    return tuple(str(name) for name in own)


def _order(name: str, own: tuple[str, ...], label: Sequence[str]) -> tuple[int, ...]:
    """Return the places of the label's classes among the model's own; none where either is not known."""
    if not own or not label:
        return ()
    if sorted(own) != sorted(label):
        raise NetworkError(
            f"'{name}' knows the classes {', '.join(own)}, but the schema's label has {', '.join(label)}."
        )
    return tuple(own.index(each) for each in label)


def _placeholder(schema: Schema) -> FloatArray:
    """Return one individual (1, m) whom the schema allows."""
    domain = schema.domain("realizable")
    x = np.where(np.isfinite(domain.low), domain.low, np.where(np.isfinite(domain.high), domain.high, 0.0))[None]
    for start, stop in domain.blocks:
        x[0, start:stop] = 0.0
        if stop - start > 1:
            x[0, start] = 1.0
    return np.asarray(domain.snap(x))


def _function_bytes(function: Any) -> bytes:
    """Return bytes that another function does not have: its code where it is one, else what pickle makes of it; a
    random text where neither is possible, so that no result is used again."""
    try:
        code = getattr(function, "__code__", None)
        cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
        if code is not None:
            return marshal.dumps(code) + pickle.dumps((function.__defaults__, cells))
        return pickle.dumps(function)
    except Exception:  # whatever an estimator's own state raises
        return secrets.token_bytes(32)
