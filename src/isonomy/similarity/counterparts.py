"""Counterparts: equal up to protected attributes and proxies, and a tolerance for every other feature.

The relation a newcomer understands first: "the same person but for sex and race, two years of age, 5 % of
income". Protected features and declared proxies may take any value, each other feature must agree up to its
own tolerance, and ``delta = 1`` is the tolerances as written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from isonomy.arithmetic import FloatArray
from isonomy.errors import MetricError, template
from isonomy.similarity.metric import BoolArray, Metric, form_of, frozen, vector
from isonomy_verify.forms import Form

if TYPE_CHECKING:
    from isonomy.population.feature import Feature
    from isonomy.population.schema import Schema

ROUNDING = 2.0**-47
"""By how much of a coordinate's size ``Counterparts.of`` widens a tolerance."""

UNLIMITED = 1024.0
"""The size of coordinates that is reckoned with where a feature has no limits."""


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Counterparts(Metric):
    """The largest difference of any coordinate, each measured by its tolerance.

    * ``tolerance`` (in coordinates): ``|x_i − y_i| / tolerance_i``; 0 means that the two must be equal, any
      difference being infinite.
    * ``relative`` > 0, in place of the tolerance: ``|log v_i − log w_i| / log(1 + relative_i)`` of the raw
      values ``v = x · unit + origin`` and ``w = y · unit + origin``, which must be positive (else they must
      be equal: 0 is like 0 alone). The set of similar individuals then depends on its centre.
    * ``free``: any difference counts 0.

    **Soundness.** The box holds every counterpart of the real numbers that the coordinates stand for.
    """

    kind: ClassVar[str] = "counterparts"
    parts: ClassVar[tuple[str, ...]] = ("free", "tolerance", "relative", "origin", "unit")
    defined_by: ClassVar[tuple[str, ...]] = ("tolerance",)
    own_delta: ClassVar[float] = 1.0  # the tolerances as written
    tolerance: FloatArray
    ignored: BoolArray
    relative: FloatArray
    origin: FloatArray
    unit: FloatArray

    def __init__(
        self,
        tolerance: ArrayLike,
        free: ArrayLike | None = None,
        relative: ArrayLike | None = None,
        origin: ArrayLike | None = None,
        unit: ArrayLike | None = None,
        fitted_on: str = "",
        names: tuple[str, ...] = (),
    ) -> None:
        m = vector("tolerance", tolerance).size
        flags = np.zeros(m) if free is None else np.asarray(free)
        if not np.isin(flags, (0, 1)).all():
            raise MetricError(template("free", "a list of true and false", free))
        values: dict[str, FloatArray | BoolArray] = {
            "tolerance": vector("tolerance", tolerance),
            "free": frozen(flags.astype(np.bool_)),
            "relative": vector("relative", np.zeros(m) if relative is None else relative),
            "origin": vector("origin", np.zeros(m) if origin is None else origin, -math.inf),
            "unit": vector("unit", np.ones(m) if unit is None else unit),
        }
        for key, array in values.items():
            if array.shape != (m,):
                raise MetricError(template(key, f"a list of {m} entries, as 'tolerance' is", f"shape {array.shape}"))
        if not values["unit"].all():
            raise MetricError(template("unit", "a list of positive numbers", 0.0))
        self._set(m, fitted_on, names, ignored=values.pop("free"), **values)

    @classmethod
    def of(cls, schema: Schema) -> Self:
        """Return the counterparts that a schema declares.

        Immutable features must be equal, also when they are protected. Otherwise protected features and
        proxies are free, categories and missing-value flags must be equal, and numbers (and ranks of
        levels) agree up to ``tolerance`` or ``relative_tolerance``, or exactly when neither is given.

        **Soundness.** Coordinates are rounded, so two individuals that are exactly the tolerance apart in
        raw units might appear a rounding error further apart. Tolerances are therefore widened by ``ROUNDING``
        times the size of the coordinate: a similar pair may be included needlessly, but none is left out.
        The size is the largest between ``low`` and ``high``. A feature without one of these has none: its ``tolerance``
        is widened for coordinates up to ``UNLIMITED``, that is for raw values within as many units of ``origin``, and
        further out a pair at the very edge may be left out (declare limits where that matters). Its
        ``relative_tolerance`` holds however large values are, for roundings grow with them.
        """
        width = schema.width
        tolerance, relative, origin, unit = np.zeros(width), np.zeros(width), np.zeros(width), np.ones(width)
        free = np.zeros(width, dtype=bool)
        for feature in schema.features:
            place = schema.slices[feature.name]
            if feature.immutable:
                continue
            if feature.protected or feature.proxy:
                free[place] = True
            elif feature.kind != "categorical":
                i = place.start
                origin[i], unit[i] = feature.origin, feature.unit
                if feature.relative_tolerance:
                    relative[i] = _widened_relative(feature, feature.relative_tolerance)
                elif feature.tolerance:
                    tolerance[i] = _widened(feature, feature.tolerance)
            elif feature.tolerance or feature.relative_tolerance:
                raise MetricError(
                    f"The categorical feature '{feature.name}' has a tolerance, but categories have no "
                    "distance: declare it ordinal, or a proxy if it may take any value."
                )
        return cls(tolerance, free, relative, origin, unit, names=schema.coordinate_names)

    @cached_property
    def form(self) -> Form:
        """Return the form: a box, and no root."""
        arrays = {part: getattr(self, part) for part in ("tolerance", "relative", "origin", "unit")}
        return form_of(np.zeros((0, self.tolerance.size)), free=self.ignored, **arrays)

    def describe(self) -> str:
        """Return one sentence for people."""
        within = ~self.free & ((self.tolerance > 0) | (self.relative > 0))
        equal = self.width - within.sum() - self.free.sum()
        counts = f"{self.free.sum()} may take any value, {within.sum()} stay within a tolerance, {equal} must be equal"
        return f"counterparts on {self.width} coordinates: {counts}"

    def _box_distance(self, x: FloatArray, y: FloatArray) -> FloatArray:
        equal, within, ratio = self.form.parts
        size = np.abs(x - y)
        size = np.where(equal & (size != 0.0), np.inf, size)
        size[..., within] /= self.tolerance[within]
        smaller = np.minimum(x, y)[..., ratio] * self.unit[ratio] + self.origin[ratio]
        change = size[..., ratio] * self.unit[ratio]
        logs = np.where(smaller > 0.0, np.log1p(change / smaller), np.inf) / np.log1p(self.relative[ratio])
        size[..., ratio] = np.where(size[..., ratio] == 0.0, 0.0, logs)
        return np.asarray(size[..., ~self.free].max(axis=-1, initial=0.0))


def _widened(feature: Feature, tolerance: float) -> float:
    """Return ``tolerance / unit``, plus the rounding error of coordinates between low and high."""
    reach = tolerance / feature.unit
    ends = [abs(feature.coordinate(end)) for end in (feature.low, feature.high)]
    size = max(reach, *(end if math.isfinite(end) else UNLIMITED for end in ends))
    return reach + ROUNDING * size


def _widened_relative(feature: Feature, relative: float) -> float:
    """Return ``relative``, plus the relative rounding error of positive raw values up to high.

    **Soundness.** 0 is like 0 alone, which is exact: equal values have equal coordinates. The error of a coordinate is
    relative to ``max(value, |origin|)``. So values near 0 need ``origin = 0`` (the error is then relative to the value,
    down to 1e-300 units), or are whole numbers, of which the least positive one is 1.
    """
    if feature.kind == "ordinal" or not feature.low >= 0.0:
        values = "ordinal, and ranks have no ratio" if feature.kind == "ordinal" else f"at least {feature.low:g}"
        raise MetricError(
            f"The relative tolerance of feature '{feature.name}' needs amounts, which are never negative: say 'low', 0 "
            f"or above, or give a 'tolerance'. Its values are {values}."
        )
    if feature.low == feature.origin == 0.0 and feature.kind == "numeric":
        return relative + ROUNDING * (1.0 + relative)
    least = feature.low or (1.0 if feature.kind == "integer" else 0.0)
    if not least:
        raise MetricError(
            f"The relative tolerance of feature '{feature.name}' cannot be kept near 0, where coordinates around "
            f"'origin' = {feature.origin:g} are too coarse: say origin = 0, or a 'low' above 0."
        )
    high = feature.high if math.isfinite(feature.high) else max(least, abs(feature.origin))
    return relative + ROUNDING * (1.0 + relative) * max(high, abs(feature.origin)) / least
