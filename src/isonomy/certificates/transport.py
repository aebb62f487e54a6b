"""Transport: the populations within a Wasserstein distance of the individuals, by the kernel's dual."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, parameter, power
from isonomy.attacks import AttackBudget
from isonomy.certificates.moving import Moving
from isonomy.certificates.profiles import Schedule, make_schedule, most_passes, profiles
from isonomy.certificates.protocol import Items, Shift
from isonomy.certificates.worst_case import Points, search
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy.population import Domain
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.ground import Ground, ground_metric
from isonomy.similarity.lp import WeightedLp
from isonomy.similarity.metric import Metric
from isonomy_verify import dual as kernel
from isonomy_verify import shifts
from isonomy_verify.arithmetic import power_down, power_up
from isonomy_verify.claims import Profiles


@dataclass(frozen=True)
class Transport(Shift):
    """Every population within Wasserstein distance ``gamma`` of the individuals.

    ``gamma`` is any number from 0 to infinity, which is any population of possible individuals; ``order`` any from 1 to
    infinity, where no individual moves further than γ. ``ground`` is the cost of a move between individuals: ``"l1"``,
    ``"l2"``, ``"linf"`` in fair coordinates, or a metric (the fair metric itself gives the paper's ``δ + φ``).
    """

    kind: ClassVar[str] = "transport"
    covered: ClassVar[str] = "nearby populations"
    size_name: ClassVar[str] = "gamma"

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
    def size(self) -> float:
        """Return γ."""
        return self.gamma

    @property
    def free(self) -> bool:
        """Return whether no individual moves, or none further than γ."""
        return kernel.plain(self.order, self.gamma)

    @property
    def budget(self) -> float:
        """Return ``γ^p``."""
        return power(self.gamma, self.order)

    def bound_up(self, multiplier: float | None, mean: float) -> float:
        """Return an upper bound of ``λ γ^p`` plus the mean."""
        return self.kernel.bound(multiplier, mean)

    def heights_up(self, cells: kernel.Cells, multiplier: float | None) -> FloatArray:
        """Return the kernel's heights (n,), which depend on γ only where there is no multiplier."""
        return kernel.heights(cells, self.order, self.gamma if multiplier is None else math.inf, multiplier)

    def items(self, cells: kernel.Cells) -> Items:
        """Return the cells with their least costs."""
        return cells.owner, power_down(cells.near, self.order), cells.value

    def attainable(self, owner: NDArray[np.intp], cost: FloatArray, value: FloatArray) -> tuple[Items, float]:
        """Return the points within γ, or with the budget ``γ^p``."""
        if self.free:
            return (owner, np.where(cost <= self.gamma, 0.0, math.inf), value), math.inf
        most = math.inf if self.gamma == math.inf else float(power_down(self.gamma, self.order))
        with np.errstate(over="ignore"):
            return (owner, power_up(cost, self.order), value), most

    def resized(self, size: float) -> Self:
        """Return the shift with another γ."""
        return replace(self, gamma=size)

    def sizes(self) -> list[float]:
        """Return twenty-one γ from 0 to twice its own, or to 1."""
        widest = 2 * self.gamma if 0 < self.gamma < math.inf else 1.0
        return [widest * step / 20 for step in range(21)]

    def on(self, domain: Domain) -> Self:
        """Return the shift with its ground cost as a metric."""
        return replace(self, ground=ground_metric(self.ground, domain.width, domain.names))

    @property
    def ground_cost(self) -> Metric | None:
        """Return the ground cost as a metric; None before :meth:`on`."""
        return self.ground if isinstance(self.ground, Metric) else None

    def schedule(
        self, moving: Moving, upper: FloatArray, largest: float, tight: bool, tick: Callable[[int], None]
    ) -> Schedule:
        """Return the ladder of radii around γ that a pilot group shows to be worth a pass."""
        return make_schedule(moving, upper, self, largest, tight, tick)

    def passes(self, moving: Moving, tight: bool, rounds: int, schedule: Schedule) -> int:
        """Return the most passes of an individual."""
        return most_passes(moving, self, tight, rounds, schedule)

    def profiles(
        self,
        moving: Moving,
        upper: FloatArray,
        largest: float,
        tight: bool,
        rounds: int,
        schedule: Schedule,
        tick: Callable[[int], None],
    ) -> Profiles:
        """Return profiles, tightest for radii around γ."""
        return profiles(moving, upper, self, largest, tight, rounds, schedule, tick)

    def search(
        self, moving: Moving, points: Points, profiles: Profiles, budget: AttackBudget, tick: Callable[[int], None]
    ) -> Points:
        """Return points at radii about γ and larger ones."""
        return search(moving, points, self, profiles, budget, tick)

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

    @property
    def alone(self) -> bool:
        """Return whether γ is 0."""
        return self.gamma == 0

    def words(self, who: str) -> str:
        """Return "population within γ of the individuals"."""
        return f"population within {parameter(self.gamma)} of {who}"

    @property
    def place(self) -> str:
        """Return "within γ of the individuals a population's"."""
        return f"Within {self.gamma:g} of the individuals a population's"

    @property
    def mean_words(self) -> str:
        """Return the mean within γ."""
        return "Mean violation within γ"

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
        beyond = f"Populations further away than γ, in the ground cost above, may be treated worse.{outside}"
        return "Only shifts within γ", (
            "Only these very people were judged, no other population." if self.alone else beyond
        )

    @classmethod
    def read(cls, section: Mapping[str, Any], ground: Metric | None) -> Self:
        """Return the shift of a section of a record."""
        assert ground is not None
        return cls(section["gamma"], section["order"], ground)


def checked_shift(shift: Any, gamma: float | None, order: float, ground: Ground) -> Shift:
    """Return the given shift, or the :class:`Transport` of the given numbers."""
    if not isinstance(shift, Shift):
        if gamma is None:
            number(
                "shift",
                shift,
                "a number >= 0, infinity, or a shift such as isonomy.Transport(0.1) or isonomy.Part(0.1)",
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
