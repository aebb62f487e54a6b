"""The outcome that a model predicts, and the rows it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isonomy.errors import SchemaError
from isonomy.population.feature import Feature, FeatureKind


@dataclass(frozen=True)
class Label:
    """The outcome's column, and its classes in the order of the model's outputs (none: a regression)."""

    column: str
    classes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", tuple(self.classes))
        if len(self.classes) == 1 or len(set(self.classes)) != len(self.classes):
            raise SchemaError(
                f"Label {self.column!r}: 'classes' must be two or more names, or none for a regression. "
                f"Got {list(self.classes)!r}."
            )

    @property
    def regression(self) -> bool:
        """The outcome is a number."""
        return not self.classes

    def as_feature(self) -> Feature:
        """A feature whose coordinate is the class index, or the number itself."""
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
