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
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import DataError
from isonomy.population import BoolArray, Feature, Schema
from isonomy.population.encoding import ABSENT, UNKNOWN, Coding, text_of
from isonomy.service.settings import Settings

SHOWN = 20
"""Complaints listed in one answer."""

NUMBERS = frozenset({int, float})
IDS = frozenset({str, int, float, type(None)})
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


def parse(body: bytes) -> Any:
    """The JSON of a body. NaN and infinities pass here, so that the column can be named that holds them.

    No name may stand twice in an object. Every name is followed by a colon: where there are no more colons than names
    in the objects that were read, none was lost. Only where there are more (in a text, say) is every object looked at.
    """
    try:
        text = body.decode()
        document = json.loads(text)
        return document if body.count(b":") == _names(document) else json.loads(text, object_pairs_hook=_once)
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
        return json.loads(
            text, object_pairs_hook=_once, parse_int=lambda digits: int(digits) if len(digits) < 400 else float(digits)
        )


def _names(document: Any) -> int:
    """Names in the object of a request and in those of its individuals."""
    if not isinstance(document, dict):
        return 0
    rows = document.get("individuals", [document.get("individual")])
    inner = isinstance(rows, list) and set(map(type, rows)) == {dict}
    return len(document) + (sum(map(len, rows)) if inner else 0)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ: of two that are equal, readers differ in which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        (name, _), *_ = (Counter(name for name, _ in pairs)).most_common(1)
        raise BadRequestError.at(f"'{name[:60]}' stands twice in one object.", kind="json_invalid")
    return found


class _Unfit(Exception):  # noqa: N818  no error of anybody: the way to the slow path
    """Some cell of a column cannot be read."""


_REFUSED = (_Unfit, KeyError, TypeError, ValueError, OverflowError)


class Reader:
    """Reads the individuals of one schema."""

    def __init__(self, schema: Schema, settings: Settings) -> None:
        self.schema, self._settings = schema, settings
        columns = self._columns = [_Column(feature) for feature in schema.features]
        kinds = np.array([feature.kind == "categorical" for feature in schema.features])
        self._one_hot, self._scaled = np.flatnonzero(kinds), np.flatnonzero(~kinds)
        starts = np.cumsum([0, *(feature.width for feature in schema.features)])[:-1]
        self._starts, self._places = starts[kinds][:, None], starts[~kinds]
        self._flags = [start + 1 for start, feature in zip(starts, schema.features, strict=True) if feature.flagged]
        self._low, self._high = (np.array([each.ends[side] for each in columns])[:, None] for side in (0, 1))
        self._whole = np.array([each.whole for each in columns])[:, None]
        scaled = [feature for feature in schema.features if feature.kind != "categorical"]
        self._origin, self._unit = (
            np.array([getattr(feature, name) for feature in scaled], dtype=np.float64)[:, None]
            for name in ("origin", "unit")
        )
        self._names = dict.fromkeys(feature.name for feature in schema.features)
        # With one feature itemgetter gives the value itself.
        (*_, last) = self._names
        self._pick = itemgetter(*self._names) if len(columns) > 1 else lambda row: (row[last],)

    def request(self, document: Any) -> tuple[list[Any], float, bool]:
        """The individuals of a request as they stand there, milliseconds for the tight tier, and whether counterparts
        are asked for."""
        if not isinstance(document, dict):
            raise BadRequestError.at("The body must be an object with 'individual' or 'individuals'.", kind="type")
        known = {"individual", "individuals", "tier", "budget_ms", "counterpart"}
        unknown = islice((name for name in document if name not in known), SHOWN)
        complaints = [complaint(f"'{name[:60]}' is no field of a request.", name[:60]) for name in unknown]
        if complaints:
            raise BadRequestError(complaints)
        if ("individual" in document) == ("individuals" in document):
            raise BadRequestError.at("Give either 'individual' or 'individuals'.", kind="missing")
        rows = document["individuals"] if "individuals" in document else [document["individual"]]
        largest = self._settings.max_batch
        if not isinstance(rows, list) or not 1 <= len(rows) <= largest:
            size = f" Got {len(rows)}." if isinstance(rows, list) else ""
            raise BadRequestError.at(f"'individuals' must be a list of 1 to {largest}.{size}", "individuals")
        tier, counterpart = document.get("tier", "tight"), document.get("counterpart", False)
        if tier not in ("interval", "tight"):
            raise BadRequestError.at("'tier' must be 'interval' or 'tight'.", "tier")
        if not isinstance(counterpart, bool):
            raise BadRequestError.at("'counterpart' must be true or false.", "counterpart", kind="type")
        budget, most = document.get("budget_ms"), self._settings.max_budget_ms
        if budget is not None and not (type(budget) in NUMBERS and 0 <= budget <= most):
            raise BadRequestError.at(f"'budget_ms' must be a number from 0 to {most:g}.", "budget_ms")
        budget = self._settings.budget_ms if budget is None else budget
        return rows, budget if tier == "tight" else 0.0, counterpart

    def named(self, rows: list[Any], single: bool = False) -> tuple[list[Any], list[Any]]:
        """Part individuals from their ids, as they stand in the request; there are none where no row has one.

        An id is a text, a number or null, and no column: it changes nothing but the name of an answer.
        """
        name = self.schema.id
        if name is None or not any(isinstance(row, dict) and name in row for row in rows):
            return rows, []
        ids = [row.get(name) if isinstance(row, dict) else None for row in rows]
        for number, each in enumerate(ids):
            if type(each) not in IDS or (type(each) is float and not math.isfinite(each)):
                where = ("individual",) if single else ("individuals", number)
                right = f"Column '{name}' is an id: a text, a number or null. Got {_shown(each)}."
                raise BadRequestError.at(right, *where, name, kind="column")
        bare = [{key: row[key] for key in row if key != name} if isinstance(row, dict) else row for row in rows]
        return bare, ids

    def coordinates(self, rows: Sequence[Any], single: bool = False) -> FloatArray:
        """Fair coordinates (n, m) of individuals in raw units; a :class:`BadRequestError` names what does not fit.

        All columns become numbers first, (k, n), so that what follows is done once and not for each of them.
        """
        try:
            if set(map(len, rows)) != {len(self._names)}:
                raise _Unfit
            cells = zip(*map(self._pick, rows), strict=True)
            read = [column.read(some) for column, some in zip(self._columns, cells, strict=True)]
            values = np.array([numbers for numbers, _ in read], dtype=np.float64)
            if not self._within(values).all():
                raise _Unfit
        except _REFUSED:
            raise self._refusal(rows, single) from None
        x = np.zeros((len(rows), self.schema.width))
        for place, flags in zip(self._flags, [flags for _, flags in read if flags is not None], strict=True):
            x[:, place] = flags
        x[:, self._places] = ((values[self._scaled] - self._origin) / self._unit).T
        x[np.arange(len(rows)), self._starts + values[self._one_hot].astype(np.intp)] = 1.0
        return x

    def _within(self, values: FloatArray) -> BoolArray:
        inside: BoolArray = (values >= self._low) & (values <= self._high)
        inside &= ~self._whole | (values == np.rint(values))
        return inside

    def _refusal(self, rows: Sequence[Any], single: bool) -> BadRequestError:
        """All that is wrong, cell by cell, up to a limit; and how many are people outside the schema: objects with all
        its columns and no other, whose values do not fit. Whatever else is wrong is a mistake in writing, which tells
        nothing of anybody."""
        found: list[dict[str, Any]] = []
        people = 0
        for number, row in enumerate(rows):
            where: tuple[str | int, ...] = ("individual",) if single else ("individuals", number)
            if not isinstance(row, dict):
                found.append(complaint("An individual must be an object of columns.", *where, kind="type"))
                continue
            wrong = [(column.feature.name, why) for column in self._columns if (why := column.wrong(row)) is not None]
            people += bool(wrong) and row.keys() == self._names.keys()
            if len(found) < SHOWN:
                extra = islice((name[:60] for name in row if name not in self._names), SHOWN)
                found += [
                    complaint(f"The schema has no column '{name}'.", *where, name, kind="extra") for name in extra
                ]
                found += [complaint(why, *where, name, kind="column") for name, why in wrong]
        assert found, "a batch was refused that has nothing wrong with it"
        return BadRequestError(found[:SHOWN], people)


class _Column(Coding):
    """How the cells of one feature are read from JSON: its coding, and which types a cell may have.

    A category or level becomes its rank, which has no ``ends``.
    """

    def __init__(self, feature: Feature) -> None:
        super().__init__(feature)
        self.ends = (self.low, self.high) if self.numeric else (-math.inf, math.inf)

    def read(self, cells: Sequence[Any]) -> tuple[Sequence[float], Sequence[bool] | None]:
        """A number for each cell, and which of them are missing where the feature has a flag for it."""
        flagged = self.feature.flagged
        if not self.numeric:
            known: Sequence[float] = self._ranks(cells)
            missing = [rank == ABSENT for rank in known] if flagged else None
        elif NUMBERS.issuperset(map(type, cells)) and not self.ranks:
            return cells, [False] * len(cells) if flagged else None
        else:  # codes such as -9 stand for a missing value, also where they are written as numbers
            texts = NUMBERS | {str}
            known, missing = cells, [c is None or (type(c) in texts and text_of(c) in self.ranks) for c in cells]
            present = (type(c) for c, gone in zip(cells, missing, strict=True) if not gone)
            if not flagged or not NUMBERS.issuperset(present):
                raise _Unfit
        if missing is None:
            return known, None
        fill = self.feature.fill_value
        return [fill if gone else number for number, gone in zip(known, missing, strict=True)], missing

    def wrong(self, row: dict[str, Any]) -> str | None:
        """What is wrong with an individual's cell, or None."""
        name = self.feature.name
        if name not in row:
            return f"Column '{name}' is missing."
        try:
            number = float(self.read([row[name]])[0][0])
            if self.ends[0] <= number <= self.ends[1] and not (self.whole and number % 1):
                return None
        except _REFUSED:
            pass
        return f"Column '{name}': {_shown(row[name])} is not {self._right()}."

    def _ranks(self, cells: Sequence[Any]) -> list[int]:
        kinds = set(map(type, cells))
        if kinds == {str}:
            return [self.ranks[cell] for cell in cells]
        if kinds == {int}:  # a text for each cell would cost more than the rest
            return [self.codes[cell] for cell in cells]
        if kinds <= PLAIN and not (self.absent == UNKNOWN and type(None) in kinds):
            return [self.absent if cell is None else self.ranks[_text(cell)] for cell in cells]
        raise _Unfit

    def _right(self) -> str:
        null = " or null" if self.absent != UNKNOWN else ""
        if self.numeric:
            return self.number_words + null
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
