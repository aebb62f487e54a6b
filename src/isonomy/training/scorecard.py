"""A scorecard: the points that each value of each feature gives, as a person reads them.

The points of an individual add up to the model's score: log-odds of the second of two classes, of several classes one
score for each, of a regression the outcome itself. Between the lines of a number points change in a straight line.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from isonomy.escapes import for_spreadsheet
from isonomy.files import atomic
from isonomy.population import Schema
from isonomy.training.additive import Additive

DOUBLE = 20.0
"""Points that double the odds, as credit departments have it."""


@dataclass(frozen=True, eq=False)
class Scorecard:
    """``table``: for every ``feature`` its values, ``from`` and ``to`` for numbers, and the ``points`` of each (at
    ``from``, and ``per_unit`` from there on), one column of points for each class where there are several. ``base``:
    the points everybody starts with. Twenty points double the odds; points of a regression are its outcome's units."""

    table: pd.DataFrame
    base: tuple[float, ...]
    outcome: str

    @classmethod
    def of(cls, model: Additive, names: Sequence[str], schema: Schema | None, outcomes: Sequence[str]) -> Scorecard:
        """Make the table of a model; ``outcomes`` are the names of the classes, or of what is predicted."""
        factor = DOUBLE / math.log(2) if model.classes else 1.0
        segments, slopes = model.segments, factor * model.slopes
        several = len(slopes) > 1
        rows: list[dict[str, object]] = []
        for j in np.unique(segments.column):
            mine = np.flatnonzero(segments.column == j)
            steps = np.diff(segments.start[mine], append=segments.start[mine[-1]])
            height = np.zeros(len(slopes))
            feature, low, unit, fixed = _meaning(names[j], int(j), schema)
            for s, step in zip(mine, steps, strict=True):
                ends = segments.low[j] + np.array([segments.start[s], segments.stop[s]]) * segments.unit[j]
                per = slopes[:, s] / segments.unit[j]
                if fixed is not None:  # a category: its coordinate is 0 or 1
                    line: dict[str, object] = {"feature": feature, "value": fixed, "from": np.nan, "to": np.nan}
                    points, rise = per, 0 * per
                else:
                    line = {"feature": feature, "value": "", "from": low + unit * ends[0], "to": low + unit * ends[1]}
                    points, rise = height, per / unit
                for o in range(len(slopes)):
                    suffix = f" of {outcomes[model.present[o]]}" if several else ""
                    line |= {f"points{suffix}": points[o], f"per_unit{suffix}": rise[o]}
                rows.append(line)
                height = height + slopes[:, s] * step
        base = model.intercept * factor
        first = segments.first
        lowest = np.zeros(segments.width)
        flags = np.array([_meaning(name, j, schema)[3] is not None for j, name in enumerate(names)])
        lowest[flags] = segments.low[flags] / segments.unit[flags]
        base = base - slopes[:, first] @ lowest[segments.column[first]]
        outcome = (
            f"the odds of {outcomes[-1]}" if model.classes == 2 else ("each class" if model.classes else outcomes[0])
        )
        return cls(pd.DataFrame(rows), tuple(float(each) for each in base), outcome)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table, with a first line for the points everybody starts with; no text in it is a formula."""
        points = [name for name in self.table if str(name).startswith("points")]
        base = {"feature": "(everybody)"} | dict(zip(points, self.base, strict=True))
        with atomic(Path(path)) as part:
            table = pd.concat([pd.DataFrame([base]), self.table]).reindex(columns=self.table.columns)
            table = table.map(lambda value: for_spreadsheet(value) if isinstance(value, str) else value)
            table.to_csv(part, index=False)

    def __repr__(self) -> str:
        base = ", ".join(f"{each:.1f}" for each in self.base)
        return (
            f"Scorecard of {self.outcome}: everybody starts with {base} points\n"
            f"{self.table.to_string(index=False, float_format='%.4g', na_rep='')}"
        )


def _meaning(name: str, coordinate: int, schema: Schema | None) -> tuple[str, float, float, str | None]:
    """Return a coordinate's feature, the origin and unit of its numbers, and of a category or flag its name."""
    if schema is None:
        return name, 0.0, 1.0, None
    for feature in schema.features:
        place = schema.slices[feature.name]
        if place.start <= coordinate < place.stop:
            if feature.kind == "categorical" or coordinate > place.start:
                level = name.removeprefix(f"{feature.name}=")
                return feature.name, 0.0, 1.0, feature.labels.get(level, level)
            return feature.name, feature.origin, feature.unit, None
    raise IndexError(coordinate)
