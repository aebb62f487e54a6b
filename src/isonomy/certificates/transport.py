"""Transport: the populations within a Wasserstein distance of the individuals, by the kernel's dual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray, parameter, these
from isonomy.certificates.protocol import Items, Shift
from isonomy.errors import ParameterError, template
from isonomy.given import number
from isonomy.population import Domain
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.ground import Ground, ground_metric
from isonomy.similarity.metric import Metric
from isonomy_verify import dual as kernel
from isonomy_verify.arithmetic import power_down, power_up


@dataclass(frozen=True)
class Transport(Shift):
    """Every population within Wasserstein distance ``gamma`` of the individuals.

    ``gamma`` is any number from 0 to infinity, which is any population of possible individuals; ``order`` any from 1 to
    infinity, where no individual moves further than γ. ``ground`` is the cost of a move between individuals: ``"l1"``,
    ``"l2"``, ``"linf"`` in fair coordinates, or a metric (the fair metric itself gives the paper's ``δ + φ``).
    """

    kind: ClassVar[str] = "transport"

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

    def price_up(self, multiplier: float) -> float:
        """Return an upper bound of ``λ γ^p``."""
        return kernel.price(self.order, self.gamma, multiplier)

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

    def on(self, domain: Domain) -> Self:
        """Return the shift with its ground cost as a metric."""
        return replace(self, ground=ground_metric(self.ground, domain.width, domain.names))

    def fingerprint(self) -> str:
        """Return γ, order and all numbers of the ground cost."""
        return f"{self.kind} {self.gamma!r} {self.order!r} {metric_to_text(self.metric)}"

    def words(self, n: int) -> str:
        """Return "within γ of the individuals"."""
        return f"within {parameter(self.gamma)} of {these(n)}"


def checked_shift(shift: Any, gamma: float | None, order: float, ground: Ground) -> Shift:
    """Return the given shift, or the :class:`Transport` of the given numbers."""
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


def check_radius(order: float, gamma: float) -> None:
    """Refuse an order below 1 and a radius that is not a non-negative number."""
    number("order", order, "a number >= 1, or infinity", 1.0)
    number("gamma", gamma, "a number >= 0, or infinity")


def power(base: float, order: float) -> float:
    """Return about ``base^order``, infinite where that overflows."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.power(np.float64(base), order))
