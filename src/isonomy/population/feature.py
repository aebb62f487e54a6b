"""What one column means: a feature of an individual and the coordinates it becomes, the outcome, the split.

A numeric value becomes ``(value - origin) / unit``; an integer the same, on a lattice; an ordinal value is
first replaced by the rank of its level; a category becomes a one-hot block. A feature whose value may be
missing gets a category of its own, or, beside a stated fill value, one 0/1 *flag*. Origin, unit, low and high
are written down here and never taken from the table at hand, so that a distance means the same in every
table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from isonomy.errors import SchemaError

FeatureKind = Literal["numeric", "integer", "ordinal", "categorical"]
Missing = Literal["error", "category"]

LARGEST_WHOLE = 2.0**48
"""Whole numbers up to here survive the way to their coordinate and back, ``round(x * unit + origin)``."""
LARGEST_NUMBER = 1e150
"""Raw values and units beyond this size could overflow on the way to a coordinate."""

_ONE_HOT = {"low": 0.0, "high": 1.0, "origin": 0.0, "unit": 1.0}
_DEFAULT = math.nan  # stands for "derive it from low and high"


@dataclass(frozen=True)
class Feature:
    """What one column means.

    * ``origin``, ``unit``: the coordinate is ``(value - origin) / unit``. Default: ``low`` and ``high - low``
      when both are given (coordinates from 0 to 1), else 0 and 1. An ordinal feature's value is its rank ``0
      .. L-1``.
    * ``low``, ``high``: the values an individual can have; no limit when left out.
    * ``categories``: the categories, or the levels of an ordinal feature in order.
    * ``protected``: must not matter. ``proxy``: stands in for a protected feature. ``immutable``: similar
      individuals agree on it. ``seen``: the model reads it.
    * ``tolerance``, ``relative_tolerance``: how far counterparts may differ, in raw units or as a fraction;
      when both are None they must be equal.
    * ``missing="category"``: a missing category is a category of its own, called ``missing_label``. ``fill``:
      a missing number (or level) is this value plus a flag. ``missing_values``: cells that also count as
      missing, such as "?".
    * ``labels``: words for category codes, for display.
    """

    name: str
    kind: FeatureKind = "numeric"
    origin: float = _DEFAULT
    unit: float = _DEFAULT
    low: float = -math.inf
    high: float = math.inf
    categories: tuple[str, ...] = ()
    protected: bool = False
    proxy: bool = False
    immutable: bool = False
    seen: bool = True
    tolerance: float | None = None
    relative_tolerance: float | None = None
    missing: Missing = "error"
    missing_label: str = "missing"
    missing_values: tuple[str, ...] = ()
    fill: float | str | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""

    def __post_init__(self) -> None:
        for key, known in (("kind", get_args(FeatureKind)), ("missing", get_args(Missing))):
            self._require(getattr(self, key) in known, f"{key!r} must be one of {', '.join(map(repr, known))}")
        self._require(bool(self.name), "a feature needs a name")
        object.__setattr__(self, "categories", tuple(self.categories))
        object.__setattr__(self, "missing_values", tuple(self.missing_values))
        if self.kind in ("categorical", "ordinal"):
            self._settle_categories()
        else:
            sentence = f"'categories' belong to categorical or ordinal features, not {self.kind}"
            self._require(not self.categories, sentence)
        self._settle_scale()
        self._settle_missing()
        for key in ("tolerance", "relative_tolerance"):
            value = getattr(self, key)
            self._require(value is None or 0 <= value < math.inf, f"{key!r} must be a finite number >= 0", value)
        both = self.tolerance is not None and self.relative_tolerance is not None
        self._require(not both, "give 'tolerance' or 'relative_tolerance', not both")

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the categories, and after them the missing one where it is a category of its own."""
        if self.kind == "categorical" and self.missing == "category" and self.missing_label not in self.categories:
            return (*self.categories, self.missing_label)
        return self.categories

    @property
    def flagged(self) -> bool:
        """Say whether a 0/1 coordinate follows the value and marks it as missing."""
        return self.kind != "categorical" and self.fill is not None

    @property
    def width(self) -> int:
        """Return the number of coordinates."""
        return len(self.levels) if self.kind == "categorical" else 1 + self.flagged

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """Return ``age``, or ``sex=female``, ``sex=male``; a flag is called ``income=missing``."""
        if self.kind == "categorical":
            return tuple(f"{self.name}={level}" for level in self.levels)
        return (self.name, f"{self.name}={self.missing_label}")[: self.width]

    @property
    def fill_value(self) -> float:
        """Return the raw number (or rank) that stands in for a missing value."""
        if isinstance(self.fill, str):
            return float(self.categories.index(self.fill))
        return math.nan if self.fill is None else float(self.fill)

    def coordinate(self, value: Any) -> Any:
        """Return the coordinate of a raw number (or rank), or of a whole column of them."""
        return (value - self.origin) / self.unit

    def _settle_categories(self) -> None:
        names = self.categories
        self._require(len(names) > 0, f"a feature of kind {self.kind} needs 'categories'")
        self._require(len(set(names)) == len(names), "'categories' must differ from each other", list(names))
        unknown = next((key for key in self.labels if key not in self.levels), None)
        self._require(unknown is None, "'labels' must be keyed by categories", unknown)
        fixed = {"low": 0.0, "high": len(names) - 1.0} if self.kind == "ordinal" else _ONE_HOT
        for key, value in fixed.items():
            given = getattr(self, key)
            self._require(not math.isfinite(given) or given == value, f"{self.kind} features have no {key!r}", given)
            object.__setattr__(self, key, value)

    def _settle_scale(self) -> None:
        """Set origin and unit, and check that encoding is finite and monotone."""
        bounded = math.isfinite(self.low) and math.isfinite(self.high)
        span = self.high - self.low if bounded and self.high > self.low else 1.0
        origin = (self.low if bounded else 0.0) if math.isnan(self.origin) else self.origin
        unit = span if math.isnan(self.unit) else self.unit
        for key, value in (("origin", origin), ("unit", unit), ("low", self.low), ("high", self.high)):
            object.__setattr__(self, key, float(value))
        ordered = self.low <= self.high and self.low < math.inf and self.high > -math.inf
        self._require(ordered, "'low' must be at most 'high'", (self.low, self.high))
        self._require(1 / LARGEST_NUMBER <= unit <= LARGEST_NUMBER, "'unit' must be a positive number", unit)
        largest = LARGEST_WHOLE if self.kind in ("integer", "ordinal") else LARGEST_NUMBER
        for key, value in (("origin", origin), ("low", self.low), ("high", self.high)):
            ordinary = abs(value) <= largest or (key != "origin" and math.isinf(value))
            self._require(ordinary, f"{key!r} must be a number of size at most {largest:g}", value)
            whole = self.kind != "integer" or key == "origin" or math.isinf(value) or value == round(value)
            self._require(whole, f"{key!r} of an integer feature must be a whole number", value)

    def _settle_missing(self) -> None:
        if self.kind == "ordinal" and self.missing == "category" and self.fill is None:
            object.__setattr__(self, "fill", self.categories[0])
        if self.kind == "categorical":
            self._require(self.fill is None, "a category has no 'fill': write missing = \"category\"")
            handled = self.missing == "category"
            self._require(handled or not self.missing_values, "'missing_values' need missing = \"category\"")
        else:
            plain = self.kind == "ordinal" or self.missing == "error"
            self._require(plain, "a number has no missing category: give a 'fill' value instead")
            self._require(self.flagged or not self.missing_values, "'missing_values' need a 'fill' value")
        if self.kind == "ordinal":
            self._require(self.fill in (None, *self.categories), "'fill' must be one of the levels", self.fill)
        elif self.fill is not None:
            self._require(not isinstance(self.fill, str), "'fill' must be a number", self.fill)
            object.__setattr__(self, "fill", float(self.fill))
            inside = self.low <= self.fill_value <= self.high and math.isfinite(self.fill_value)
            self._require(inside, f"'fill' must lie between low and high, {self.low:g} to {self.high:g}", self.fill)
            whole = self.kind != "integer" or self.fill_value == round(self.fill_value)
            self._require(whole, "'fill' of an integer feature must be a whole number", self.fill)
        clash = next((value for value in self.missing_values if value in self.categories), self.missing_label)
        ambiguous = clash in self.categories and (self.flagged or clash != self.missing_label)
        self._require(not ambiguous, "a missing value cannot also be one of the categories", clash)

    def _require(self, condition: bool, sentence: str, got: Any = None) -> None:
        if not condition:
            raise SchemaError(f"Feature {self.name!r}: {sentence}{'.' if got is None else f'. Got {got!r}.'}")


@dataclass(frozen=True)
class Label:
    """The outcome's column, its classes in the order of the model's outputs (none: a regression), and the decision.

    ``favourable`` names the classes that people hope for, or ``("high",)`` or ``("low",)`` numbers of a regression.
    ``threshold`` is the cut-off of the decision: the probability of the favourable one of two classes (of the second
    where none is named), or a number of a regression. :func:`isonomy.population.outcome.decided` is the rule.
    """

    column: str
    classes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""
    favourable: tuple[str, ...] = ()
    threshold: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        named = (self.favourable,) if isinstance(self.favourable, str) else tuple(self.favourable)
        object.__setattr__(self, "favourable", named)
        if len(self.classes) == 1 or len(set(self.classes)) != len(self.classes):
            raise SchemaError(
                f"Label {self.column!r}: 'classes' must be two or more names, or none for a regression. "
                f"Got {list(self.classes)!r}."
            )
        known = self.classes or ("high", "low")
        if not set(named) <= set(known) or len(set(named)) != len(named) or len(named) == len(known):
            raise SchemaError(
                f"Label {self.column!r}: 'favourable' must be one or more, not all, of "
                f"{', '.join(map(repr, known))}. Got {list(named)!r}."
            )
        if self.threshold is not None:
            self._check_threshold(self.threshold)

    def _check_threshold(self, threshold: float) -> None:
        if len(self.classes) > 2:
            right = "left out with more than two classes: the most probable one is given"
        elif self.classes:
            right = "" if 0 < threshold < 1 else "a probability strictly between 0 and 1"
        else:
            right = "" if math.isfinite(threshold) else "a finite number"
        if right:
            raise SchemaError(f"Label {self.column!r}: 'threshold' must be {right}. Got {threshold}.")

    @property
    def regression(self) -> bool:
        """Say whether the outcome is a number."""
        return not self.classes

    def as_feature(self) -> Feature:
        """Return a feature whose coordinate is the class index, or the number itself."""
        kind: FeatureKind = "numeric" if self.regression else "ordinal"
        return Feature(self.column, kind, origin=0.0, unit=1.0, categories=self.classes)


@dataclass(frozen=True)
class Split:
    """The column that tells training rows from test rows, and its two values."""

    column: str
    train: str = "train"
    test: str = "test"

    def __post_init__(self) -> None:
        if self.train == self.test:
            raise SchemaError(f"Split {self.column!r}: 'train' and 'test' must differ. Got {self.train!r} for both.")
