"""The form of facts: a value with its words and its rounding, tables and sections of them.

**Soundness.** Of a fact that is rounded ``"up"`` the printed number is at least its value, of one that is rounded
``"down"`` at most; one that is rounded ``"outward"`` is a pair of bounds, the first rounded down, the second up. Bounds
have as many decimals as it takes to be on their own side of ε, as :mod:`isonomy.report.numbers` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN
from itertools import chain
from typing import Any, Literal, TypeVar

from isonomy.arithmetic import decimals_of_bound
from isonomy.arithmetic import rounded as quantized
from isonomy.certificates.certificate import Verdict
from isonomy.report.numbers import agrees, decimals_of, parameter, percent, written

T = TypeVar("T")
Rounding = Literal["up", "down", "outward", "nearest", "exact"]

NOT_SEARCHED = "not searched for"

UNSEARCHED = "no population was searched for, so there is no lower bound"
"""What is said in a sentence instead of a lower bound, of other people and of these."""

NOTHING = "nothing was proved here"
"""What is printed instead of a bound of a probability that says next to nothing."""

TRIVIAL = 0.95
"""Bounds of a probability above this say next to nothing."""

_MOST = 12
"""Decimals of anything, at most."""


@dataclass(frozen=True)
class Fact:
    """One value with its stable ``code``, its name in ``words``, and its printed form.

    ``proved``: nothing that was searched or estimated enters the value.
    """

    code: str
    words: str
    value: Any
    rounding: Rounding = "exact"
    proved: bool = False
    printed: str = ""  # empty: not shown

    def __str__(self) -> str:
        return self.printed

    @property
    def bounded(self) -> str:
        """Return the printed value with its side."""
        if self.printed in (NOTHING, NOT_SEARCHED):
            return self.printed
        attained = self.rounding == "down" and not self.proved
        return ("≤ " if self.rounding == "up" else "≥ " if attained else "") + self.printed


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a text or fact, a small ``note`` below it, a ``role`` next to it; or a figure and its data.

    ``kind`` is a class of the page's style.
    """

    text: str | Fact = ""
    role: str = ""
    note: str | Fact = ""
    drawn: tuple[Any, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class FactTable:
    """Rows under heads, each head with the kind of its column: ``"n"`` for numbers, ``"drawn"`` for figures.

    ``total`` is a row above the others; ``marked`` is the row that the audit itself asks for.
    """

    code: str
    title: str
    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: tuple[Cell, ...] = ()
    marked: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """Facts, sentences, tables and notes of one subject, and the data of its figures."""

    code: str
    facts: tuple[Fact, ...] = ()
    sentences: tuple[str, ...] = ()
    tables: tuple[FactTable, ...] = ()
    notes: tuple[str, ...] = ()
    drawn: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """All sections, with the headline and the verdict."""

    headline: str
    verdict: Verdict | None
    sections: tuple[Section, ...]
    redacted: bool = False
    marks: tuple[tuple[str, str], ...] = ()  # verdicts in a few words, each with its kind: of the mean, of decisions

    def __getitem__(self, code: str) -> Section:
        return next(section for section in self.sections if section.code == code)

    def __iter__(self) -> Iterator[Fact]:
        """Yield all facts, those in tables included."""
        for section in self.sections:
            rows = chain.from_iterable((*table.rows, table.total) for table in section.tables)
            yield from section.facts
            shown = chain.from_iterable((each.text, each.note) for each in chain.from_iterable(rows))
            yield from (each for each in shown if isinstance(each, Fact))

    def fact(self, code: str) -> Fact:
        """Return the fact of a code."""
        return next(fact for fact in self if fact.code == code)


def rewritten(thing: T, how: Callable[[str], str]) -> T:
    """Return facts, or a part of them, with every text as ``how`` rewrites it for a rendering."""
    result: Any = thing
    if isinstance(thing, str):
        result = how(thing)
    elif isinstance(thing, Fact | Cell | FactTable | Section | Facts):
        result = replace(thing, **{each.name: rewritten(getattr(thing, each.name), how) for each in fields(thing)})
    elif isinstance(thing, Mapping):
        result = {rewritten(key, how): rewritten(value, how) for key, value in thing.items()}
    elif isinstance(thing, list | tuple):
        result = type(thing)(rewritten(each, how) for each in thing)
    return result  # type: ignore[no-any-return]


def exact(code: str, what: str, value: Any, printed: str | None = None) -> Fact:
    """Return the fact of a choice or count: printed as it is, and not at all where it is None."""
    if printed is None:
        counted = isinstance(value, int) and not isinstance(value, bool)
        text = "" if value is None else f"{value:,}" if counted else str(value)
        printed = parameter(value) if isinstance(value, float) else text
    return Fact(code, what, value, "exact", False, printed)


@dataclass(frozen=True)
class Rounded:
    """Writes numbers, and makes facts of them, that all have the same decimals.

    Without a search all attained values are 0, and NOT_SEARCHED is printed instead of the number. With ``points``
    probabilities are written from 0 to 100, and bounds above :data:`TRIVIAL` are called :data:`NOTHING`.
    """

    decimals: int
    searched: bool = True
    points: bool = False

    @classmethod
    def of(
        cls, lower: float, upper: float, epsilon: float | None, regression: bool, searched: bool = True,
        points: bool = False,
    ) -> Rounded:  # fmt: skip
        """Choose the decimals of :func:`isonomy.arithmetic.decimals_of_bound`, more where a bound would cross ε; of
        points one less, as three digits count there too."""
        least = decimals_of_bound(upper, regression) - points
        sides = ((upper, ROUND_CEILING), (lower, ROUND_FLOOR))
        fitting = (n for n in range(least, _MOST) if all(agrees(*side, n, epsilon) for side in sides))
        return cls(next(fitting, _MOST) - 2 * points, searched, points)

    def upper(self, value: float) -> str:
        """Write an upper bound, rounded up."""
        return self._written(value, ROUND_CEILING)

    def lower(self, value: float) -> str:
        """Write an attained value, rounded down."""
        return self._written(value, ROUND_FLOOR)

    def plain(self, value: float) -> str:
        """Write an observed value, rounded to the nearest."""
        return self._written(value, ROUND_HALF_EVEN)

    def signed(self, value: float) -> str:
        """Write an observed change with its sign."""
        text = self.plain(abs(value))
        return text if not text.strip("0.,") else f"{'+' if value > 0 else '−'}{text}"

    def _written(self, value: float, rounding: str) -> str:
        if not self.points or not math.isfinite(value):
            return written(value, self.decimals, rounding)
        return f"{quantized(value, self.decimals + 2, rounding).scaleb(2):,f}".replace("-", "−")

    @property
    def unit(self) -> str:
        """Return the word behind a number that is written so: `` points``, or nothing."""
        return " points" if self.points else ""

    def proved(self, code: str, what: str, value: float) -> Fact:
        """Return the fact of an upper bound."""
        printed = NOTHING if self.points and value > TRIVIAL else self.upper(value)
        return Fact(code, what, value, "up", True, printed)

    def attained(self, code: str, what: str, value: float) -> Fact:
        """Return the fact of an attained value, a lower bound."""
        if not self.searched:
            return Fact(code, what, value, "exact", False, NOT_SEARCHED)
        return Fact(code, what, value, "down", False, self.lower(value))

    def observed(self, code: str, what: str, value: float) -> Fact:
        """Return the fact of an estimate, or of an output of the network."""
        return Fact(code, what, value, "nearest", False, self.plain(value))

    def between(self, code: str, what: str, lower: float, upper: float) -> Fact:
        """Return the fact of two bounds of one number."""
        return Fact(code, what, (lower, upper), "outward", False, f"{self.lower(lower)} to {self.upper(upper)}")


def percentage(code: str, what: str, share: float) -> Fact:
    """Return the fact of a share of people, in percent."""
    return Fact(code, what, share, "nearest", False, percent(share))


def table(code: str, title: str, *heads: str, rows: Iterable[Iterable[Any]], total: Iterable[Any] = (),
           marked: int | None = None, notes: tuple[str, ...] = ()) -> FactTable:  # fmt: skip
    """Return a table; a head that ends in ``#`` has numbers below it, ``@`` is in front of another kind of column."""
    parts = (head.replace("#", "@n").partition("@") for head in heads)
    kinds = tuple((name, kind) for name, _, kind in parts)

    def cells(row: Iterable[Any]) -> tuple[Cell, ...]:
        return tuple(each if isinstance(each, Cell) else Cell(each) for each in row)

    return FactTable(code, title, kinds, tuple(map(cells, rows)), cells(total), marked, notes)


def round_down(value: float) -> str:
    """Write a number of any size, rounded down to about four digits."""
    printed = Rounded(decimals_of(value)).lower(value)
    return printed if printed.strip("0.") else "0"
