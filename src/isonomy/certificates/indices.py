"""How far new people are from the populations of a shift: the index of a notion, with its floor and its bounds.

An index is that of the population behind the new people, a sample of which is at hand, so that it has a lower and an
upper confidence bound. A certificate is *expired* where the lower one exceeds its radius, *holds* where the upper one
lies below it, and else nothing is *known*.

**Soundness.** Shares are bounded by Clopper and Pearson, the risk shared by the bins or groups of a shift, tails of a
column by the inequality of Dvoretzky, Kiefer and Wolfowitz. That needs new people who are independent draws of equal
weight, and for tails audited ones, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy.population import Schema
from isonomy_verify.individuals import Individuals

if TYPE_CHECKING:
    from isonomy.similarity.metric import Metric

State = Literal["expired", "holds", "not known"]

UNMEASURED = "nothing that can be measured"
"""The quantity of an index without numbers."""


@dataclass(frozen=True)
class Index:
    """The index of a notion: about ``estimate``, of which sampling alone explains ``floor``; with confidence between
    ``lower`` and ``upper``. ``radius`` is the certificate's."""

    shift: str
    quantity: str
    estimate: float
    floor: float
    lower: float
    upper: float
    radius: float
    state: State
    note: str = ""  # a sentence on what can be shown
    of_bounds: bool = False  # whether it compares bounds of the violation, which must be of one kind

    def __str__(self) -> str:
        above = "∞" if self.upper == math.inf else f"{self.upper:.4g}"
        numbers = (
            f"{self.quantity} {self.estimate:.4g} (floor {self.floor:.4g}, between {self.lower:.4g} and "
            f"{above} with confidence), certified for {self.radius:.4g}"
        )
        measured = self.quantity != UNMEASURED
        return f"{self.shift}: {numbers if measured else UNMEASURED}: {self.state}.{self.note and ' ' + self.note}"


class DriftColumn(NamedTuple):
    """A column whose values ``old`` (n,) may become ``high`` (n,) at most and ``low`` (n,) at least; both rise with the
    value. ``new`` (k,) are those of new people."""

    name: str
    old: FloatArray
    low: FloatArray
    high: FloatArray
    new: FloatArray


def tails(column: DriftColumn, words: str, ratio: float, strangers: float, risk: float) -> Index:
    """Return the share of people, at least, whose value must have moved further than it may, where audited people first
    count ``ratio`` times as much at most, and a share of ``strangers`` has any value.

    **Soundness.** For every value ``t`` those above ``high(t)`` were above ``t`` before, and those below ``low(t)``
    below it. With probability ``1 − risk`` no share of a tail is further from that of its sample than ``off``.
    """
    n, k, highest, estimate = len(column.old), len(column.new), 0.0, 0.0
    off = [math.sqrt(math.log(4 / risk) / (2 * count)) for count in (k, n)]
    for sign, ends in ((1.0, column.high), (-1.0, column.low)):
        old, ends, new = np.sort(sign * column.old), np.sort(sign * ends), np.sort(sign * column.new)
        before = (n - np.searchsorted(old, old, side="right")) / n
        after = (k - np.searchsorted(new, ends + 1e-9 * (1 + np.abs(ends)), side="right")) / k
        kept = 1 - strangers
        highest = max(
            highest, float((after - off[0] - strangers - kept * np.minimum(1.0, ratio * (before + off[1]))).max())
        )
        estimate = max(estimate, float((after - strangers - kept * np.minimum(1.0, ratio * before)).max()))
    floor = off[0] + (1 - strangers) * ratio * off[1]
    state: State = "expired" if highest > 0 else "not known"
    name = f"share of people whose {column.name} must have moved further"
    return Index(words, name, estimate, min(1.0, floor), highest, 1.0, 0.0, state)


class Gauge(NamedTuple):
    """A distance from the audited people that a shift allows up to ``radius``: of an ``order``, in a ``ground`` cost.

    Above the radius a population is none of the shift; where it is not ``decisive``, it may be one all the same.
    """

    quantity: str
    ground: Metric
    order: float
    radius: float
    decisive: bool = True


@dataclass(frozen=True, eq=False)
class NewPeople:
    """New people: coordinates (n, m), upper bounds of their violations (n,) and kinds of decisions (n,)."""

    x: FloatArray
    upper: FloatArray
    decision: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.upper)


@dataclass(frozen=True, eq=False)
class Audited:
    """The audited people, as a record has them: claims about everybody alone, weights (n,), and, unless it is redacted,
    coordinates (n, m)."""

    alone: Individuals
    weights: FloatArray
    x: FloatArray | None
    schema: Schema
