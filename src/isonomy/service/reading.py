"""From the body of a request to individuals in fair coordinates, column by column.

Cells are read as JSON writes them, more strictly than a table from a file: a number is a number and not a text that
looks like one, a missing value is ``null``. What is accepted becomes the same coordinates as
:meth:`isonomy.Schema.encode` gives, bit for bit, by the same :class:`~isonomy.population.encoding.Coding`. Whole
columns are checked at once; only when something is wrong is every cell looked at, to name the column.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError
from isonomy.population import Feature, Schema
from isonomy.population.encoding import UNKNOWN, Coding, text_of

SHOWN = 20
"""Complaints listed in one answer."""

NUMBERS = frozenset({int, float})
PLAIN = frozenset({str, int, float, bool, type(None)})


class BadRequestError(DataError):
    """A body that cannot be used; ``details`` names each place and says what would be right.

    ``people`` of it are people whom the schema refuses: described column by column, by a value that it does not know.
    """

    def __init__(self, details: Sequence[dict[str, Any]], people: int = 0) -> None:
        super().__init__(str(details[0]["msg"]))
        self.details, self.people = list(details), people

    @classmethod
    def at(cls, message: str, *where: str | int, kind: str = "value_error") -> BadRequestError:
        """One complaint."""
        return cls([complaint(message, *where, kind=kind)])


def complaint(message: str, *where: str | int, kind: str = "value_error") -> dict[str, Any]:
    """One entry of the answer 422."""
    return {"loc": ["body", *where], "msg": message, "type": kind}


@dataclass(frozen=True)
class Options:
    """What a request asks for, beside the individuals."""

    tier: str = "tight"
    budget_ms: float | None = None
    counterpart: bool = False


def parse(body: bytes) -> Any:
    """The JSON of a body. NaN and infinities pass here, so that the column can be named that holds them."""
    try:
        return json.loads(body, object_pairs_hook=_once)
    except BadRequestError:
        raise
    except RecursionError:
        raise BadRequestError.at("The body is nested too deeply.", kind="json_invalid") from None
    except UnicodeDecodeError:
        raise BadRequestError.at("The body is not UTF-8.", kind="json_invalid") from None
    except json.JSONDecodeError as error:
        message = f"The body is not JSON: {error.msg} at character {error.pos}."
        raise BadRequestError.at(message, kind="json_invalid") from None
    except ValueError:  # a whole number with thousands of digits: infinite for every purpose here
        return json.loads(body, object_pairs_hook=_once, parse_int=_infinite)


def _infinite(digits: str) -> int | float:
    return int(digits) if len(digits) < 400 else float(digits)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: of two that are equal, readers differ in which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        (name, _), *_ = (Counter(name for name, _ in pairs)).most_common(1)
        raise BadRequestError.at(f"'{name}' stands twice in one object.", kind="json_invalid")
    return found


class _Unfit(Exception):  # noqa: N818  no error of anybody: the way to the slow path
    """Some cell of a column cannot be read."""


_REFUSED = (_Unfit, KeyError, TypeError, ValueError, OverflowError)


class Reader:
    """Reads the individuals of one schema."""

    def __init__(self, schema: Schema, max_batch: int, max_budget_ms: float) -> None:
        self.schema, self.max_batch, self.max_budget_ms = schema, max_batch, max_budget_ms
        self._columns = [_Column(feature) for feature in schema.features]
        self._names = [feature.name for feature in schema.features]
        # With one feature itemgetter gives the value itself.
        self._pick = itemgetter(*self._names) if len(self._names) > 1 else lambda row: (row[self._names[0]],)

    def request(self, document: Any) -> tuple[list[Any], Options]:
        """The individuals of a request as they stand there, and what else it asks for."""
        if not isinstance(document, dict):
            raise BadRequestError.at("The body must be an object with 'individual' or 'individuals'.", kind="type")
        known = {"individual", "individuals", "tier", "budget_ms", "counterpart"}
        unknown = [complaint(f"'{name}' is no field of a request.", name) for name in document if name not in known]
        if unknown:
            raise BadRequestError(unknown[:SHOWN])
        if ("individual" in document) == ("individuals" in document):
            raise BadRequestError.at("Give either 'individual' or 'individuals'.", kind="missing")
        rows = document["individuals"] if "individuals" in document else [document["individual"]]
        if not isinstance(rows, list) or not 1 <= len(rows) <= self.max_batch:
            size = f" Got {len(rows)}." if isinstance(rows, list) else ""
            raise BadRequestError.at(f"'individuals' must be a list of 1 to {self.max_batch}.{size}", "individuals")
        return rows, self._options(document)

    def coordinates(self, rows: Sequence[Any], single: bool = False) -> FloatArray:
        """Fair coordinates (n, m) of individuals in raw units; a :class:`BadRequestError` names what does not fit."""
        try:
            if any(len(row) != len(self._names) for row in rows):
                raise _Unfit
            columns = zip(*map(self._pick, rows), strict=True)
            parts = [column.read(cells) for column, cells in zip(self._columns, columns, strict=True)]
        except _REFUSED:
            raise BadRequestError(self._complaints(rows, single), self._refused(rows)) from None
        return np.concatenate(parts, axis=1)

    def _options(self, document: dict[str, Any]) -> Options:
        tier, counterpart = document.get("tier", "tight"), document.get("counterpart", False)
        if not isinstance(tier, str) or tier not in ("interval", "tight"):
            raise BadRequestError.at("'tier' must be 'interval' or 'tight'.", "tier")
        if not isinstance(counterpart, bool):
            raise BadRequestError.at("'counterpart' must be true or false.", "counterpart", kind="type")
        budget = document.get("budget_ms")
        if budget is not None and not (type(budget) in NUMBERS and 0 <= budget <= self.max_budget_ms):
            right = f"'budget_ms' must be a number from 0 to {self.max_budget_ms:g}."
            raise BadRequestError.at(right, "budget_ms")
        return Options(tier, None if budget is None else float(budget), counterpart)

    def _refused(self, rows: Sequence[Any]) -> int:
        """How many are people outside the schema: objects with all its columns and no other, whose values do not fit.

        Whatever else is wrong is a mistake in writing, which tells nothing of anybody.
        """
        names = set(self._names)
        people = [row for row in rows if isinstance(row, dict) and set(row) == names]
        refused: set[int] = set()
        for column in self._columns:
            try:
                column.read([row[column.name] for row in people])
            except _REFUSED:
                refused.update(place for place, row in enumerate(people) if column.wrong(row) is not None)
        return len(refused)

    def _complaints(self, rows: Sequence[Any], single: bool) -> list[dict[str, Any]]:
        """All that is wrong, cell by cell, up to a limit."""
        found: list[dict[str, Any]] = []
        for number, row in enumerate(rows):
            where: tuple[str | int, ...] = ("individual",) if single else ("individuals", number)
            if not isinstance(row, dict):
                found.append(complaint("An individual must be an object of columns.", *where, kind="type"))
            else:
                unknown = (name for name in row if name not in self._names)
                found += [
                    complaint(f"The schema has no column '{name}'.", *where, name, kind="extra") for name in unknown
                ]
                for column in self._columns:
                    wrong = column.wrong(row)
                    if wrong is not None:
                        found.append(complaint(wrong, *where, column.name, kind="column"))
            if len(found) >= SHOWN:
                break
        assert found, "a batch was refused that has nothing wrong with it"
        return found[:SHOWN]


class _Column:
    """How the cells of one feature are read from JSON: its coding, and which types a cell may have."""

    def __init__(self, feature: Feature) -> None:
        self.feature, self.name, self.coding = feature, feature.name, Coding(feature)

    def read(self, cells: Sequence[Any]) -> FloatArray:
        """The coordinates (n, width) of a column."""
        return self._numbers(cells) if self.coding.numeric else self._ranks(cells)

    def wrong(self, row: dict[str, Any]) -> str | None:
        """What is wrong with an individual's cell, or None."""
        if self.name not in row:
            return f"Column '{self.name}' is missing."
        cell = row[self.name]
        try:
            self.read([cell])
        except _REFUSED:
            return f"Column '{self.name}': {_shown(cell)} is not {self._right()}."
        return None

    def _numbers(self, cells: Sequence[Any]) -> FloatArray:
        coding, fill = self.coding, self.feature.fill_value
        missing = np.zeros(len(cells), dtype=bool)
        if not NUMBERS.issuperset(map(type, cells)):
            if not self.feature.flagged:
                raise _Unfit
            missing = np.array([cell is None or (isinstance(cell, str) and cell in coding.ranks) for cell in cells])
            cells = [fill if gone else cell for cell, gone in zip(cells, missing, strict=True)]
            if not NUMBERS.issuperset(map(type, cells)):
                raise _Unfit
        values = np.array(cells, dtype=np.float64)
        if coding.ranks:  # codes such as -9, also where they are written as numbers
            coded = np.array([text_of(cell) in coding.ranks for cell in cells])
            values, missing = np.where(coded, fill, values), missing | coded
        if not coding.fits(values).all():
            raise _Unfit
        return coding.of_numbers(values, missing)

    def _ranks(self, cells: Sequence[Any]) -> FloatArray:
        coding, kinds = self.coding, set(map(type, cells))
        if kinds == {str}:
            ranks = [coding.ranks[cell] for cell in cells]
        elif kinds == {int}:  # a text for each cell would cost more than the rest
            ranks = [coding.codes[cell] for cell in cells]
        elif kinds <= PLAIN and not (coding.absent == UNKNOWN and type(None) in kinds):
            ranks = [coding.absent if cell is None else coding.ranks[_text(cell)] for cell in cells]
        else:
            raise _Unfit
        return coding.of_ranks(np.array(ranks))

    def _right(self) -> str:
        null = " or null" if self.coding.absent != UNKNOWN else ""
        if self.coding.numeric:
            return self.coding.number_words + null
        some = ", ".join(repr(level) for level in self.feature.levels[:12])
        return f"one of {some}{', …' * (len(self.feature.levels) > 12)}{null}"


def _text(cell: Any) -> str:
    """The category that a cell names; NaN and infinities name none."""
    return "" if isinstance(cell, float) and not math.isfinite(cell) else text_of(cell)


def _shown(cell: Any) -> str:
    """A cell in an answer: short, whatever was sent, and a number too large to be written as what it is."""
    if isinstance(cell, int) and abs(cell) > 10**30:
        return "a whole number with more than 30 digits"
    text = "null" if cell is None else repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."
