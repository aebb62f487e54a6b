"""Shifts in which no individual moves: the answer from everybody's own bounds, and the search for the kernel's hints.

The kernel (:mod:`isonomy_verify.reweighting`) bounds the mean violation, and the share of decisions that can change,
for any hints; here they are chosen. Every answer needs two numbers an individual, so that any number of shifts is
answered from one set of local bounds.

**Soundness.** Hints are not trusted: the kernel's bounds hold for all of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, share
from isonomy.certificates.indices import Audited, Index, NewPeople
from isonomy.certificates.protocol import Shift
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy.similarity.metric import Metric
from isonomy_verify import reweighting as kernel
from isonomy_verify.behind import behind, bound_behind, reached_behind
from isonomy_verify.claims import inflated
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE, Individuals
from isonomy_verify.reweighting import Hints, Sample, sample_of

HALVINGS = 36
"""Steps of a search for the largest size."""


@dataclass(frozen=True)
class Behind:
    """With a confidence no population of a shift, made of the population behind the individuals, has a mean above
    ``upper``, as the hints show; and one has at least ``lower``, if that was asked."""

    upper: float
    hints: tuple[float, ...]
    lower: float = 0.0


@dataclass(frozen=True)
class ShiftBounds:
    """No population of the ``shift`` has a mean above ``upper``, and one has at least ``lower``.

    The hints show it. ``changes`` is the same about the share of decisions that can change; None without decisions.
    ``behind`` is about the population behind the individuals; None where nothing is said of it.
    """

    shift: Shift
    upper: float
    lower: float
    hints: Hints
    changes: ShiftBounds | None = None
    behind: Behind | None = None

    @property
    def multipliers(self) -> tuple[float, ...]:
        """Return the multipliers with which one pass over everybody's own bounds gives ``upper`` again."""
        return self.hints.multipliers


class Reweighting(Shift):
    """A shift in which no individual moves: some count more than others, and a share may be strangers.

    A member defines :attr:`kernel`, :meth:`hints`, :meth:`masses`, :meth:`measured`, its section and the words, of
    which :meth:`terms` names its size.
    """

    uncomposed: ClassVar[str] = (
        "Nothing is proved of people who move after this shift: give both in a list, each with an answer of its own."
    )
    """Why people cannot move afterwards; "" where they can, which the kernel's ``Composable`` says, too."""

    moved_note: ClassVar[str] = ""
    """What is meant otherwise where people move afterwards."""

    strangers: float
    noun: ClassVar[str] = "population"
    span: ClassVar[tuple[float, float]] = (0.0, 2.0**10)
    """The size with the fewest populations, and one with nearly all that there are."""

    @property
    def apart(self) -> tuple[str, ...]:
        """Return the features by which groups, each by itself, are populations of this shift."""
        return ()

    @property
    @abstractmethod
    def kernel(self) -> kernel.Reweighting:
        """Return the shift as the kernel knows it."""

    @abstractmethod
    def hints(self, people: Sample) -> Hints:
        """Return hints for bounds that are about as tight as can be."""

    def hints_behind(self, people: Sample, most: float, risk: float, counts: bool) -> tuple[float, ...]:
        """Return hints for the bound of the same populations made of the one behind independent draws, whose values
        are at most ``most``; with ``counts`` they are 0 and 1."""
        return ()

    @abstractmethod
    def masses(self, people: Sample, hints: Hints) -> FloatArray:
        """Return about the mass (n,) of each individual in the population that reaches the lower bound, without
        strangers."""

    @property
    def densest(self) -> float:
        """Return how many times as much as before an individual counts at most; infinity where there is no limit."""
        return math.inf

    @abstractmethod
    def measured(self, audited: Audited, people: NewPeople, claim: Mapping[str, Any], risk: float) -> list[Index]:
        """Return the index of new people against the audited ones, by the claim of a record; its bounds hold with
        probability ``1 - risk``."""

    def answer(
        self,
        high: FloatArray,
        low: FloatArray,
        weights: FloatArray,
        groups: NDArray[np.intp] | None,
        largest: float,
        risk: float | None = None,
        counts: bool = False,
    ) -> ShiftBounds:
        """Return the bounds of the mean of a quantity that is at most ``high`` (n,) and at least ``low`` (n,) for
        individuals with ``weights`` (n,) in ``groups`` (n,), and at most ``largest`` for any others; with a ``risk``
        those for the population behind independent draws, too, where the quantity may be 0 or 1 (``counts``)."""
        people = sample_of(np.minimum(high, largest), low, weights, groups)
        hints = self.hints(people)
        answer = ShiftBounds(self, *kernel.bounds(self.kernel, people, hints, largest), hints)
        return answer if risk is None or not self.infers else self.behind(answer, people, largest, risk, counts)

    def behind(self, answer: ShiftBounds, people: Sample, largest: float, risk: float, counts: bool) -> ShiftBounds:
        """Return the answer with its bounds for the population behind ``people``; of a share of decisions (``counts``)
        on both sides, together."""
        risk = risk / 2 if counts else risk
        hints = self.hints_behind(people, largest, risk, counts)
        upper = bound_behind(self.kernel, people, hints, largest, risk, counts)
        lower = reached_behind(self.kernel, people, risk) if counts else 0.0
        return replace(answer, behind=Behind(upper, hints, lower))

    def claim(
        self, alone: Individuals, weights: FloatArray, groups: NDArray[np.intp] | None, risk: float | None = None
    ) -> dict[str, Any]:
        """Return the claim of a record, from the claims about everybody ``alone``, with their ``weights`` (n,) and
        ``groups`` (n,); with a ``risk`` about the population behind them, too."""
        violations, changes = alone.samples(weights, groups)
        claim = alone.reweighted(self.kernel, weights, groups, (self.hints(violations), self.hints(changes)))
        if risk is None or not self.infers:
            return claim
        hints = (
            self.hints_behind(violations, float(inflated(alone.largest)), risk, False),
            self.hints_behind(changes, 1.0, risk / 2, True),
        )
        mean, share_of = behind(alone, self.kernel, weights, groups, hints, risk)
        changed = claim["changes"] and claim["changes"] | {"behind": share_of}
        return claim | {"changes": changed, "behind": mean}

    def furthest(self, keeps: Callable[[float], bool]) -> float | None:
        """Return the furthest size of :attr:`span`, by bisection, that ``keeps`` to something, as all that are less far
        do, too; None where none does."""
        near, far = self.span
        least, most = 0.0, 1.0

        def size(way: float) -> float:
            return near + (far - near) * way**4  # finest where populations are few

        if not keeps(near):
            return None
        if keeps(far):
            return far
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            least, most = (middle, most) if keeps(size(middle)) else (least, middle)
        return size(least)

    # -- words

    @property
    def evenly(self) -> str:
        """Return the words about strangers, after a comma; "" without them."""
        return f", with at most {share(self.strangers)} of strangers (anybody at all)" if self.strangers else ""

    def before_moves(self, who: str) -> str:
        """Return one of its populations in words, where people move afterwards."""
        return self.words(who)

    def evidence(self) -> dict[str, Any]:
        """Return its section."""
        return self.section()

    def _with_strangers(self, section: dict[str, Any]) -> dict[str, Any]:
        return section | ({"strangers": self.strangers} if self.strangers else {})

    def _stranger_terms(self) -> list[tuple[str, str, Any, str | None]]:
        share_of = share(self.strangers)
        return [("strangers", "Strangers, at most", self.strangers, share_of)] if self.strangers else []

    @classmethod
    def read(cls, section: Mapping[str, Any], ground: Metric | None) -> Self:
        """Return the shift of a section of a record."""
        return cls(**{name: value for name, value in section.items() if name != "kind"})


def decision_sides(decision: NDArray[np.uint8]) -> tuple[FloatArray, FloatArray]:
    """Return 1 (n,) where a decision is not proved to stay, and where it was turned; else 0."""
    return (decision != CERTIFIED).astype(np.float64), (decision == FLIPPABLE).astype(np.float64)


def checked_strangers(value: Any) -> float:
    """Return a share of strangers as a float, or refuse it."""
    given = number("strangers", value, "a number from 0 to below 1", 0.0, 1.0)
    if given == 1:
        raise ParameterError(template("strangers", "a number from 0 to below 1", value))
    return given


def quantile(values: FloatArray, weights: FloatArray, at_least: float) -> float:
    """Return the largest value such that those not below it hold a share of the weights, up to rounding."""
    order = np.argsort(-values, kind="stable")
    held = np.cumsum(weights[order] / weights.max())
    return float(values[order[min(int(np.searchsorted(held, at_least * held[-1])), len(order) - 1)]])


def bin_edges(values: FloatArray, weights: FloatArray, bins: int) -> FloatArray:
    """Return the ends of at most ``bins`` bins of about the same weight, each the value of an individual; equal values
    are in one bin, and no bin is empty."""
    order = np.argsort(values, kind="stable")
    order = order[weights[order] > 0]
    held = np.cumsum(weights[order] / weights.max())
    at = np.searchsorted(held, held[-1] * np.arange(1, bins) / bins)
    return np.unique(values[order[np.append(at, len(order) - 1)]])  # the last one also where it weighs next to nothing
