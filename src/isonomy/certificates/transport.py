"""Transport: populations that individuals are carried to, at a limited mean cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

from isonomy.arithmetic import FloatArray
from isonomy.certificates.dual import Ball
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import FURTHEST, Profiles, Schedule, make_schedule, profiles
from isonomy.certificates.protocol import Shift
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy.population import Domain
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.ground import Ground, ground_metric
from isonomy.similarity.metric import Metric


@dataclass(frozen=True)
class Transport(Ball):
    """Every population within Wasserstein distance ``gamma`` of the individuals.

    ``gamma`` is any number from 0 to infinity, which is any population of possible individuals; ``order`` any from 1 to
    infinity, where nobody moves further than γ. ``ground`` is the cost of turning one person into another: ``"l1"``,
    ``"l2"``, ``"linf"`` in fair coordinates, or a metric (the fair metric itself gives the paper's ``δ + φ``).
    """

    ground: Ground = "l2"

    @property
    def metric(self) -> Metric:
        """The ground cost, once it is known on which coordinates (:meth:`on`)."""
        assert isinstance(self.ground, Metric)
        return self.ground

    def on(self, domain: Domain) -> Self:
        """With the ground cost as a metric."""
        return replace(self, ground=ground_metric(self.ground, domain.width, domain.names))

    def fingerprint(self) -> str:
        """γ, order and all numbers of the ground cost."""
        return f"{self.kind} {self.gamma!r} {self.order!r} {metric_to_text(self.metric)}"

    def schedule(self, moving: Moving, local: FloatArray, largest: float, tight: bool) -> Schedule:
        """Radii around γ, tried on a pilot group."""
        return make_schedule(moving, local, self.gamma, self.order, largest, tight=tight)

    def profiles(
        self, moving: Moving, local: FloatArray, largest: float, tight: bool, rounds: int, schedule: Schedule
    ) -> Profiles:
        """Tightest around γ."""
        asked = (self.gamma, self.order, largest)
        return profiles(moving, local, *asked, rounds=rounds, tight=tight, schedule=schedule)

    def search_radii(self, diameter: float) -> list[float]:
        """About γ and further: somebody may be worth a long way while the others stay where they are."""
        furthest = min(diameter, FURTHEST)
        if self.gamma == 0 or furthest == 0:
            return []
        if math.isinf(self.order):
            return [min(self.gamma, furthest)]
        if self.gamma > furthest:
            return [furthest * 2.0**k for k in (-3, -2, -1, 0)]
        return [radius for k in (-1, 0, 1, 2, 3, 4, 6, 8) if (radius := self.gamma * 2.0**k) <= furthest]


def checked_shift(shift: Any, gamma: float | None, order: float, ground: Ground) -> Shift:
    """The shift that a caller gave: as it is, or by the numbers of a :class:`Transport`."""
    if not isinstance(shift, Shift):
        if gamma is None:
            number("shift", shift, "a number >= 0, infinity, or a shift such as isonomy.Transport(0.1)")
        elif isinstance(shift, bool) or not isinstance(shift, int | float) or shift != 0:
            raise ParameterError(template("shift", "left out where 'gamma' is given", shift))
        return Transport(shift if gamma is None else gamma, order, ground)
    if gamma is not None or order != 1 or ground != "l2":
        given = template("shift", "a number where 'gamma', 'order' or 'ground' are given too", type(shift).__name__)
        raise ParameterError(given)
    return shift
