"""Drift: declared numbers of the individuals move, in raw units, on average or for everybody."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from isonomy.arithmetic import FloatArray, parameter, share
from isonomy.certificates.displacement import Displacement
from isonomy.certificates.indices import DriftColumn, Gauge
from isonomy.errors import ParameterError, template
from isonomy.given import FINITE, number
from isonomy.population import Domain, Population, Schema
from isonomy.similarity.lp import WeightedLp
from isonomy.similarity.metric import Metric
from isonomy_verify import drift as kernel
from isonomy_verify.arithmetic import rounded_up
from isonomy_verify.forms import Form

AMOUNT = "a number above 0 in raw units, or a per cent of the own value such as '5%'"


class Amount(NamedTuple):
    """How far a feature moves: in raw units, or by a share ``of_own`` value."""

    feature: str
    amount: float
    of_own: bool

    def __str__(self) -> str:
        return share(self.amount) if self.of_own else parameter(self.amount)


class _Cost(Metric):
    """What the moves of a drift cost, by a form of the kernel."""

    parts = defined_by = ()

    def __init__(self, form: Form, names: tuple[str, ...]) -> None:
        self._form = form
        self._set(form.width, "", names)

    @property
    def form(self) -> Form:
        """Return the form."""
        return self._form

    def describe(self) -> str:
        """Return one sentence for people."""
        return f"the moves of {int((~self._form.parts[0]).sum())} numbers; nothing else can move"

    def _box_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        return self._form.box_upper(x, y)


@dataclass(frozen=True)
class _On:
    """A drift in the coordinates of a domain: as the checker knows it there, and the costs of bounds and of points."""

    kernel: kernel.Drift
    bounds: Metric
    points: Metric


@dataclass(frozen=True)
class Drift(Displacement):
    """Every population into which declared numbers of the individuals move by no more than declared ``amounts``.

    ``amounts`` has, by the name of a feature, how far it may move: a number in raw units, or a text such as ``"5%"``,
    a share of the raw value that the individual has. On ``average`` the mean of the moves of each feature, over the
    population, is at most that; otherwise every individual's moves are. Whole numbers move by whole steps, and nothing
    else changes. ``times`` enlarges all amounts.
    """

    kind: ClassVar[str] = "drift"
    covered: ClassVar[str] = "drifts"
    size_name: ClassVar[str] = "times"
    never: ClassVar[str] = (
        "That nothing else of people changed cannot be shown by samples, so that a drift is never shown to hold of new "
        "people."
    )
    curve_words: ClassVar[tuple[str, str, str]] = (
        "Larger and smaller drifts",
        "Times the declared amounts",
        "The certificate is about these people after their numbers moved by the declared amounts; nothing else of them "
        "changes, and no distance to other people is measured.",
    )

    largest_words: ClassVar[str] = "Proved within ε for so many times the amounts"
    up_to: ClassVar[str] = "up to a multiple of the amounts of"

    amounts: Any
    average: bool = True
    times: float = 1.0
    _on: _On | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "amounts", _checked(self.amounts))
        if type(self.average) is not bool:
            raise ParameterError(template("average", "True, on average, or False, for everybody", self.average))
        object.__setattr__(self, "times", number("times", self.times, "a number >= 0, or infinity"))

    @property
    def radius(self) -> float:
        """Return by how much all amounts are multiplied."""
        return self.times

    @property
    def exponent(self) -> float:
        """Return 1 on average, infinity for everybody."""
        return 1.0 if self.average else math.inf

    @property
    def gamma(self) -> float:
        """Return the same as a radius of transport."""
        return self.times

    @property
    def order(self) -> float:
        """Return the order of transport."""
        return self.exponent

    @property
    def furthest(self) -> float:
        """Return what no move within the ranges of the domain exceeds."""
        return self.kernel.furthest

    @property
    def kernel(self) -> kernel.Drift:
        """Return the drift as the checker knows it."""
        names, amounts, of_own = zip(*self.amounts, strict=True)
        plain = kernel.Drift(names, amounts, of_own, self.average, self.times)
        return plain if self._on is None else replace(plain, furthest=self._on.kernel.furthest)

    def on(self, domain: Domain, schema: Schema | None = None) -> Self:
        """Return the drift with its costs; refuse a column that there is none of, and one that is no number."""
        # The unbounded domain knows neither units nor kinds; any other may have other ranges than the schema's.
        space = schema.domain("realizable") if domain.kind == "unbounded" and schema is not None else domain
        places = {name: slice(at, at + 1) for at, name in enumerate(domain.names)} if schema is None else schema.slices
        numbers = [name for name, place in places.items() if space.numeric[place.start]]
        for name, _, _ in self.amounts:
            if name not in places:
                raise ParameterError(template("amounts", f"of columns that there are ({', '.join(numbers)})", name))
            if name not in numbers:
                raise ParameterError(template("amounts", f"of numbers ({', '.join(numbers)}), no categories", name))
        known, bounds, points = self.kernel.costs(None, places, space, domain.kind != "unbounded")
        costs = (_Cost(form, tuple(domain.names)) for form in (bounds, points))
        return replace(self, _on=_On(known, *costs))

    @property
    def ground_cost(self) -> Metric | None:
        """Return what bounds keep to; None before :meth:`on`."""
        return None if self._on is None else self._on.bounds

    @property
    def point_cost(self) -> Metric | None:
        """Return what points pay: the largest move of all."""
        return None if self._on is None else self._on.points

    def gauges(self, people: Population) -> list[Gauge]:
        """Return how far each column as a whole is away on average, in raw units, which no mean move can be below.

        **Soundness.** A mean move is that of one coupling of two columns, their distance the least of all. Moves of at
        most a share of every person's own value are, on average, at most that share of the mean value; a mean of shares
        says nothing of it.
        """
        schema, weights = people.schema, people.weights / people.weights.sum()
        space, gauges = schema.domain("realizable"), []
        for name, amount, of_own in self.amounts if self.average else ():
            column, radius = schema.slices[name].start, amount * self.times
            unit = np.zeros(space.width)
            unit[column] = space.unit[column]
            if of_own:
                raw = people.x[:, column] * space.unit[column] + space.origin[column]
                radius *= float(weights @ np.abs(raw)) * (1 + 1e-9)
            decisive = not (of_own and self.average)
            gauges.append(Gauge(f"distance of {name} in raw units", WeightedLp(unit, 1), 1.0, radius, decisive))
        return gauges

    def columns(self, people: Population, x: FloatArray) -> list[DriftColumn]:
        """Return what no one's numbers may exceed, where that is asked of all; of shares of the own value as far
        as these rise with the value."""
        space, ends = people.schema.domain("realizable"), []
        for name, amount, of_own in () if self.average else self.amounts:
            at, most = people.schema.slices[name].start, amount * self.times
            old, new = (rows[:, at] * space.unit[at] + space.origin[at] for rows in (people.x, x))
            if most < (1.0 if of_own else math.inf):
                move = most * np.abs(old) if of_own else most
                ends.append(DriftColumn(name, old, old - move, old + move, new))
        return ends

    def resized(self, size: float) -> Self:
        """Return the drift of other amounts."""
        return replace(self, times=size)

    def sizes(self) -> list[float]:
        """Return multiples of the amounts: 0, a quarter, a half, all and, on average, twice its own."""
        return [self.times * step for step in (0.0, 0.25, 0.5, 1.0, *([2.0] if self.average else []))]

    def section(self) -> dict[str, Any]:
        """Return features, amounts, which of them are shares, and for whom."""
        names, amounts, of_own = map(list, zip(*self.amounts, strict=True))
        return {"kind": self.kind, "features": names, "amounts": amounts, "shares": of_own,
                "average": self.average, "times": self.times}  # fmt: skip

    @classmethod
    def read(cls, section: Mapping[str, Any], ground: Metric | None) -> Self:
        """Return the shift of a section of a record."""
        given = zip(section["features"], section["amounts"], section["shares"], strict=True)
        return cls(tuple(Amount(*each) for each in given), section["average"], section["times"])

    def fingerprint(self) -> str:
        """Return amounts, for whom, and how much of them."""
        return f"{self.kind} {tuple(map(tuple, self.amounts))!r} {self.average!r} {self.times!r}"

    def evidence(self) -> dict[str, Any]:
        """Return its section."""
        return self.section()

    @property
    def moves(self) -> str:
        """Return the amounts in words."""
        each = [f"{name} by at most {_times(amount, of_own, self.times)}" for name, amount, of_own in self.amounts]
        return f"{', '.join(each[:-1])} and {each[-1]}" if len(each) > 1 else each[0]

    def words(self, who: str) -> str:
        """Return "population into which the individuals drift"."""
        how = "on average" if self.average else "for everybody"
        return f"population into which {who} drift ({self.moves} {how})"

    @property
    def place(self) -> str:
        """Return "after a drift of the individuals a population's"."""
        return "After the drift of the individuals a population's"

    @property
    def afterwards(self) -> str:
        """Return "then drifting", and how far."""
        return f"then drifting: {self.moves} {'on average' if self.average else 'for everybody'}"

    @property
    def behind_words(self) -> str:
        """Return the drifts of the population behind the individuals."""
        return "no population into which the one behind these people drifts by that"

    @property
    def mean_words(self) -> str:
        """Return the mean after the drift."""
        return "Average largest change after the drift"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return the amounts, for whom, and their multiple."""
        who = "on average" if self.average else "for everybody"
        return [
            (
                "drift",
                "Drift",
                {each.feature: str(each) for each in self.amounts},
                f"{self.moves}, {who}",
            ),
            ("times", "Times the declared amounts", self.times, None),
        ]

    def assumption(self) -> tuple[str, str]:
        """Return how far numbers may move."""
        if self.alone:
            return "Drift", "None: only these very people."
        if self.average:
            how = "each on average over all of these people, some far and some not at all"
        else:
            how = "of every person"
        own = " Per cents are of the value that the person has." if any(of_own for *_, of_own in self.amounts) else ""
        return "Drift", (
            f"Every population into which these people drift: {self.moves}, {how}; whole numbers by whole steps, "
            f"within the ranges of the schema. Nothing else of them changes.{own}"
        )

    def limit(self, outside: str) -> tuple[str, str]:
        """Return that other changes are not covered."""
        return "Only this drift", (
            "Only these very people were judged, no other population."
            if self.alone
            else "Numbers that move further, other columns that change, and other people are not covered."
        )


def _times(amount: float, of_own: bool, times: float) -> str:
    """Return an amount in words, enlarged, never less than it is."""
    if times == math.inf:
        return "any amount"
    most = rounded_up(Fraction(amount) * Fraction(times))
    return f"{share(most)} of its value" if of_own else parameter(most)


def _checked(given: Any) -> tuple[Amount, ...]:
    """Return the amounts of features, per cents as shares of the own value, rounded up."""
    if isinstance(given, tuple) and given and all(isinstance(each, Amount) for each in given):
        named = given
    elif isinstance(given, Mapping) and given and all(isinstance(name, str) for name in given):
        named = tuple(Amount(name, *_amount(name, value)) for name, value in given.items())
    else:
        raise ParameterError(template("amounts", "numbers or per cents by the names of features", given))
    for each in named:
        if not 0 < each.amount < math.inf:
            raise ParameterError(template("amounts", f"{AMOUNT}, for '{each.feature}'", each.amount))
    return named


def _amount(name: str, value: Any) -> tuple[float, bool]:
    right = f"{AMOUNT}, for '{name}'"
    if isinstance(value, str):
        text = value.strip()
        try:
            exact = Fraction(Decimal(text.removesuffix("%").strip()))
        except (InvalidOperation, ValueError, OverflowError):
            raise ParameterError(template("amounts", right, value)) from None
        of_own = text.endswith("%")
        return rounded_up(exact / 100 if of_own else exact), of_own
    return number("amounts", value, right, 0.0, FINITE), False
