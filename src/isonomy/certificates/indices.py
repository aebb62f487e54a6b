"""How far new people are from the populations of a shift: the index of a notion, with its floor and its bounds.

An index is that of the population behind the new people, a sample of which is at hand, so that it has a lower and an
upper confidence bound. A certificate is *expired* where the lower one exceeds its radius, *holds* where the upper one
lies below it, and else nothing is *known*.

**Soundness.** Shares are bounded by Clopper and Pearson, the risk shared by the bins or groups of a shift. That needs
new people who are independent draws of equal weight.
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

    def __str__(self) -> str:
        above = "∞" if self.upper == math.inf else f"{self.upper:.4g}"
        return (
            f"{self.shift}: {self.quantity} {self.estimate:.4g} (floor {self.floor:.4g}, between {self.lower:.4g} and "
            f"{above} with confidence), certified for {self.radius:.4g}: {self.state}."
        )


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
