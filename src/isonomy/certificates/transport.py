"""Transport: the populations within a Wasserstein distance of the individuals, by the kernel's dual."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from isonomy.arithmetic import parameter
from isonomy.certificates.displacement import Displacement
from isonomy.certificates.indices import Gauge
from isonomy.certificates.protocol import Shift
from isonomy.certificates.reweighting import Reweighting
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy.population import Domain, Population, Schema
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.ground import Ground, ground_metric
from isonomy.similarity.lp import WeightedLp
from isonomy.similarity.metric import Metric
from isonomy_verify import shifts


@dataclass(frozen=True)
class Transport(Displacement):
    """Every population within Wasserstein distance ``gamma`` of the individuals.

    ``gamma`` is any number from 0 to infinity, which is any population of possible individuals; ``order`` any from 1 to
    infinity, where no individual moves further than γ. ``ground`` is the cost of a move between individuals: ``"l1"``,
    ``"l2"``, ``"linf"`` in fair coordinates, or a metric (the fair metric itself gives the paper's ``δ + φ``).
    """

    kind: ClassVar[str] = "transport"
    covered: ClassVar[str] = "nearby populations"
    size_name: ClassVar[str] = "gamma"
    never: ClassVar[str] = (
        "No upper confidence bound of a distance is known, so that it is never shown to hold of new people."
    )

    gamma: float = 0.0
    order: float = 1.0
    ground: Ground = "l2"

    def __post_init__(self) -> None:
        check_radius(self.order, self.gamma)
        # Numbers of another kind that lie between two floats become the float of the larger ball.
        gamma, order = float(self.gamma), float(self.order)
        object.__setattr__(self, "gamma", gamma if gamma >= self.gamma else math.nextafter(gamma, math.inf))
        object.__setattr__(self, "order", order if order <= self.order else math.nextafter(order, 1.0))

    @property
    def metric(self) -> Metric:
        """Return the ground cost as a metric, after :meth:`on`."""
        assert isinstance(self.ground, Metric)
        return self.ground

    @property
    def radius(self) -> float:
        """Return γ."""
        return self.gamma

    @property
    def exponent(self) -> float:
        """Return the order."""
        return self.order

    def resized(self, size: float) -> Self:
        """Return the shift with another γ."""
        return replace(self, gamma=size)

    def on(self, domain: Domain, schema: Schema | None = None) -> Self:
        """Return the shift with its ground cost as a metric."""
        return replace(self, ground=ground_metric(self.ground, domain.width, domain.names))

    @property
    def ground_cost(self) -> Metric | None:
        """Return the ground cost as a metric; None before :meth:`on`."""
        return self.ground if isinstance(self.ground, Metric) else None

    @property
    def distance_cost(self) -> Metric | None:
        """Return the ground cost."""
        return self.ground_cost

    def gauges(self, people: Population) -> list[Gauge]:
        """Return the Wasserstein distance."""
        return [Gauge("Wasserstein distance", self.metric, self.order, self.gamma)]

    @property
    def kernel(self) -> shifts.Transport:
        """Return γ and order."""
        return shifts.Transport(self.order, self.gamma)

    def section(self) -> dict[str, Any]:
        """Return γ and order; the ground cost is a file of its own."""
        return {"kind": self.kind, "gamma": self.gamma, "order": self.order}

    def fingerprint(self) -> str:
        """Return γ, order and all numbers of the ground cost."""
        return f"{self.kind} {self.gamma!r} {self.order!r} {metric_to_text(self.metric)}"

    def evidence(self) -> dict[str, Any]:
        """Return γ, order and ground cost."""
        return {"gamma": self.gamma, "order": self.order, "ground": metric_to_text(self.metric)}

    def words(self, who: str) -> str:
        """Return "population within γ of the individuals"."""
        return f"population within {parameter(self.gamma)} of {who}"

    @property
    def place(self) -> str:
        """Return "within γ of the individuals a population's"."""
        return f"Within {self.gamma:g} of the individuals a population's"

    @property
    def afterwards(self) -> str:
        """Return "then moving by at most γ"."""
        how = "each" if math.isinf(self.order) else "on average" if self.order == 1 else "in the mean of that order"
        far = f"{parameter(self.gamma)} in the Wasserstein distance of order {parameter(self.order)}"
        return f"then moving: {how} by at most {far}"

    @property
    def behind_words(self) -> str:
        """Return the populations within γ of the one behind the individuals."""
        return "no population within γ of the one behind these people"

    @property
    def mean_words(self) -> str:
        """Return the mean within γ."""
        return "Average largest change within γ"

    def terms(self) -> list[tuple[str, str, Any, str | None]]:
        """Return γ, order and ground cost."""
        return [
            ("gamma", "γ, shift", self.gamma, None),
            ("order", "Order of the Wasserstein distance", self.order, None),
            ("ground", "Ground cost", self.metric.describe(), cost_name(self.metric)),
        ]

    def assumption(self) -> tuple[str, str]:
        """Return how far people may move."""
        name, order = "Nearby populations", parameter(self.order)
        if self.alone:
            return name, "None: γ = 0, only these very people."
        how = (
            "everybody may change by at most γ"
            if math.isinf(self.order)
            else "on average people change by at most γ, some far and some not at all"
            if self.order == 1
            else f"the mean of the changes to the power {order} is at most γ to the power {order}"
        )
        return name, (
            f"Every population within γ = {parameter(self.gamma)} in the Wasserstein distance of order {order}: {how}, "
            f"where a change is measured by {cost_name(self.metric)}."
        )

    @property
    def elsewhere(self) -> str:
        """Return that rows count as populations alone."""
        return "of them only what is said of nearby populations as a whole holds"

    def limit(self, outside: str) -> tuple[str, str]:
        """Return that populations beyond γ are not covered."""
        beyond = f"Populations further away than γ may be treated worse.{outside}"
        return "Only shifts within γ", (
            "Only these very people were judged, no other population." if self.alone else beyond
        )

    @classmethod
    def read(cls, section: Mapping[str, Any], ground: Metric | None) -> Self:
        """Return the shift of a section of a record."""
        assert ground is not None
        return cls(section["gamma"], section["order"], ground)


def checked_shifts(
    shift: Any, gamma: float | None, order: float, ground: Ground
) -> tuple[Shift, tuple[Reweighting, ...]]:
    """Return the first of the given shifts, or the :class:`Transport` of the given numbers, and the others, in which no
    individual moves; the one in which individuals move comes first."""
    several = list(shift) if isinstance(shift, list | tuple) else [shift]
    if not several:
        raise ParameterError(template("shift", "at least one shift", shift))
    moved = [each for each in several if not isinstance(each, Reweighting)]
    if len(moved) > 1:
        raise ParameterError(template("shift", "at most one shift in which individuals move", len(moved)))
    first, *others = moved + [each for each in several if isinstance(each, Reweighting)]
    return checked_shift(first, gamma, order, ground), tuple(others)


def checked_shift(shift: Any, gamma: float | None, order: float, ground: Ground) -> Shift:
    """Return the given shift, or the :class:`Transport` of the given numbers."""
    if not isinstance(shift, Shift):
        if gamma is None:
            number(
                "shift",
                shift,
                "a number >= 0, infinity, or shifts such as isonomy.Transport(0.1), isonomy.Part(0.1)",
            )
        elif isinstance(shift, bool) or not isinstance(shift, int | float) or shift != 0:
            raise ParameterError(template("shift", "left out where 'gamma' is given", shift))
        return Transport(shift if gamma is None else gamma, order, ground)
    if gamma is not None or order != 1 or ground != "l2":
        given = template("shift", "a number where 'gamma', 'order' or 'ground' are given too", type(shift).__name__)
        raise ParameterError(given)
    return shift


def check_radius(order: float, gamma: float) -> None:
    """Refuse an order below 1 and a radius that is not a non-negative number."""
    number("order", order, "a number >= 1, or infinity", 1.0)
    number("gamma", gamma, "a number >= 0, or infinity")


def plain_order(ground: Metric) -> float | None:
    """Return the order of a plain ℓp distance in the schema's coordinates; None for every other cost."""
    return ground.order if isinstance(ground, WeightedLp) and bool((ground.weights == 1).all()) else None


def cost_name(ground: Metric) -> str:
    """Return a ground cost in words."""
    order = plain_order(ground)
    return ground.describe() if order is None else f"the ℓ{parameter(order)} distance in the schema’s coordinates"
