"""Read individuals in fair coordinates from the body of a request, column by column.

Cells are read as JSON writes them, more strictly than a table from a file: a number is a number and not a text that
looks like one, a missing value is ``null``. What is accepted becomes the same coordinates as
:meth:`isonomy.Schema.encode` gives, bit for bit, by the same :class:`~isonomy.population.encoding.Coding`. Whole
columns are checked at once; only after a failure is every cell checked, to name the column.
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
"""Complaints listed in one answer, at most."""

NUMBERS = frozenset({int, float})
IDS = frozenset({str, int, float, type(None)})
PLAIN = frozenset({str, int, float, bool, type(None)})


class BadRequestError(DataError):
    """A body that cannot be used; ``details`` names each place and says what would be right.

    ``people`` counts individuals whom the schema refuses: all columns are there, with a value that it does not know.
    """

    def __init__(self, details: Sequence[dict[str, Any]], people: int = 0) -> None:
        super().__init__(str(details[0]["msg"]))
        self.details, self.people = list(details), people

    @classmethod
    def at(cls, message: str, *where: str | int, kind: str = "value_error") -> BadRequestError:
        """Return the error of one complaint."""
        return cls([complaint(message, *where, kind=kind)])


def complaint(message: str, *where: str | int, kind: str = "value_error") -> dict[str, Any]:
    """Return one entry of the answer 422."""
    return {"loc": ["body", *where], "msg": message, "type": kind}


def parse(body: bytes) -> Any:
    """Parse a body as JSON. NaN and infinities pass here, so that their column can be named later.

    No name may stand twice in an object. Every name is followed by a colon: where there are no more colons than names
    in the parsed objects, none was lost. Only where there are more (in a text, say) is every object checked.
    """
    try:
        text = body.decode()
        document = json.loads(text)
        if body.count(b":") == _count_names(document):
            return document
        return json.loads(text, object_pairs_hook=_unique_names)
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
        return json.loads(text, object_pairs_hook=_unique_names, parse_int=_parse_int)


def _parse_int(digits: str) -> float:
    return int(digits) if len(digits) < 400 else float(digits)


def _count_names(document: Any) -> int:
    """Count the names in the object of a request and in those of its individuals."""
    if not isinstance(document, dict):
        return 0
    rows = document.get("individuals", [document.get("individual")])
    inner = isinstance(rows, list) and set(map(type, rows)) == {dict}
    return len(document) + (sum(map(len, rows)) if inner else 0)


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, and refuse equal names, since parsers differ in which one counts."""
    document = dict(pairs)
    if len(document) != len(pairs):
        (name, _), *_ = (Counter(name for name, _ in pairs)).most_common(1)
        raise BadRequestError.at(f"'{name[:60]}' stands twice in one object.", kind="json_invalid")
    return document


class _Unfit(Exception):  # noqa: N818  no error for a caller: the way to the slow path
    """Signals that some cell of a column cannot be read."""


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
        self._integral = np.array([each.whole for each in columns])[:, None]
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
        """Return a request's individuals as given, the milliseconds for the tight tier, and whether it asks for
        counterparts."""
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

    def split_ids(self, rows: list[Any], single: bool = False) -> tuple[list[Any], list[Any]]:
        """Split individuals from their ids; the ids are empty where no row has one.

        An id is a text, a number or null, and no column: it only names an answer.
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
        """Encode individuals in raw units as coordinates (n, m); a :class:`BadRequestError` names what does not fit.

        All columns become numbers (k, n) first, so that the rest is done once and not for each column.
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
        inside &= ~self._integral | (values == np.rint(values))
        return inside

    def _refusal(self, rows: Sequence[Any], single: bool) -> BadRequestError:
        """List complaints cell by cell, up to a limit, and count people outside the schema: objects with exactly its
        columns, whose values do not fit. Any other fault is one of the request, not of a person."""
        complaints: list[dict[str, Any]] = []
        people = 0
        for number, row in enumerate(rows):
            where: tuple[str | int, ...] = ("individual",) if single else ("individuals", number)
            if not isinstance(row, dict):
                complaints.append(complaint("An individual must be an object of columns.", *where, kind="type"))
                continue
            wrong = [(column.feature.name, why) for column in self._columns if (why := column.wrong(row)) is not None]
            people += bool(wrong) and row.keys() == self._names.keys()
            if len(complaints) < SHOWN:
                extra = islice((name[:60] for name in row if name not in self._names), SHOWN)
                complaints += [
                    complaint(f"The schema has no column '{name}'.", *where, name, kind="extra") for name in extra
                ]
                complaints += [complaint(why, *where, name, kind="column") for name, why in wrong]
        assert complaints, "a batch was refused that has nothing wrong with it"
        return BadRequestError(complaints[:SHOWN], people)


class _Column(Coding):
    """Reads the cells of one feature from JSON: its coding, and which types a cell may have.

    A category or level becomes its rank, which has no ``ends``.
    """

    def __init__(self, feature: Feature) -> None:
        super().__init__(feature)
        self.ends = (self.low, self.high) if self.numeric else (-math.inf, math.inf)

    def read(self, cells: Sequence[Any]) -> tuple[Sequence[float], Sequence[bool] | None]:
        """Return a number for each cell (n,), and which are missing (n,) where the feature has a flag for it."""
        flagged = self.feature.flagged
        if not self.numeric:
            known: Sequence[float] = self._ranks(cells)
            missing = [rank == ABSENT for rank in known] if flagged else None
        elif NUMBERS.issuperset(map(type, cells)) and not self.ranks:
            return cells, [False] * len(cells) if flagged else None
        else:  # codes such as -9 stand for a missing value, also where they are written as numbers
            texts = NUMBERS | {str}
            known, missing = cells, [c is None or (type(c) in texts and text_of(c) in self.ranks) for c in cells]
            present = (type(c) for c, absent in zip(cells, missing, strict=True) if not absent)
            if not flagged or not NUMBERS.issuperset(present):
                raise _Unfit
        if missing is None:
            return known, None
        fill = self.feature.fill_value
        return [fill if absent else number for number, absent in zip(known, missing, strict=True)], missing

    def wrong(self, row: dict[str, Any]) -> str | None:
        """Return the complaint about an individual's cell, or None."""
        name = self.feature.name
        if name not in row:
            return f"Column '{name}' is missing."
        try:
            number = float(self.read([row[name]])[0][0])
            if self.ends[0] <= number <= self.ends[1] and not (self.whole and number % 1):
                return None
        except _REFUSED:
            pass
        return f"Column '{name}': {_shown(row[name])} is not {self._expected()}."

    def _ranks(self, cells: Sequence[Any]) -> list[int]:
        kinds = set(map(type, cells))
        if kinds == {str}:
            return [self.ranks[cell] for cell in cells]
        if kinds == {int}:  # a text for each cell would cost more than the rest
            return [self.codes[cell] for cell in cells]
        if kinds <= PLAIN and not (self.absent == UNKNOWN and type(None) in kinds):
            return [self.absent if cell is None else self.ranks[_text(cell)] for cell in cells]
        raise _Unfit

    def _expected(self) -> str:
        null = " or null" if self.absent != UNKNOWN else ""
        if self.numeric:
            return self.number_words + null
        levels = ", ".join(repr(level) for level in self.feature.levels[:12])
        return f"one of {levels}{', …' * (len(self.feature.levels) > 12)}{null}"


def _text(cell: Any) -> str:
    """Return the category that a cell names; NaN and infinities name none."""
    return "" if isinstance(cell, float) and not math.isfinite(cell) else text_of(cell)


def _shown(cell: Any) -> str:
    """Shorten a cell for an answer; a huge number is described, since writing its digits may fail."""
    if isinstance(cell, int) and abs(cell) > 10**30:
        return "a whole number with more than 30 digits"
    text = "null" if cell is None else repr(cell)
    return text if len(text) <= 60 else f"{text[:57]}..."
