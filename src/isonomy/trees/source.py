"""A column that a pipeline makes of one raw column in front of trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isonomy.errors import UnsupportedOperationError
from isonomy.trees.forest import Category
from isonomy.trees.thresholds import Numbers

Step = Callable[[Numbers], Numbers]


@dataclass(frozen=True)
class Source:
    """A column that a step of a pipeline makes of one raw column.

    Without ``labels`` it is ``steps`` applied to the number; with them a lookup of ``values`` by category. ``gap`` is
    what a missing cell becomes (NaN: it stays missing; a text before it is looked up; None: it is refused), ``unseen``
    what a category becomes that is not among the labels. ``sparse``: zeros are not stored. ``dtype``: of the numbers
    in the table, and so of the steps. ``place``: the steps end in the number of a bin, and this is ``sides[1]`` in the
    bin of that number and ``sides[0]`` in all others. ``levels``: all results of steps that have finitely many.
    ``least``: this raw number and smaller ones have no result. ``bits``: whole numbers of fewer are other ones there.
    """

    raw: int
    steps: tuple[Step, ...] = ()
    gap: Any = np.nan
    labels: tuple[Category, ...] = ()
    values: tuple[float, ...] = ()
    unseen: float | None = np.nan
    sparse: bool = False
    dtype: Any = np.float64
    place: int | None = None
    sides: tuple[float, float] = (0.0, 1.0)
    levels: tuple[float, ...] = ()
    least: float = -np.inf
    bits: int = 0

    def then(self, step: Step) -> Source:
        """Return the source after one more nondecreasing step."""
        if self.sparse:
            raise UnsupportedOperationError("scaling sparse rows is not read; use sparse_output=False in the encoder.")
        after = self._passed(step, self.gap)
        if self.place is not None:
            off, on = step(np.array(self.sides, dtype=self.dtype)).tolist()
            return replace(self, sides=(float(off), float(on)), gap=after)
        if not self.labels:
            levels = tuple(step(np.array(self.levels, dtype=self.dtype)).tolist()) if self.levels else ()
            return replace(self, steps=(*self.steps, step), gap=after, levels=levels)
        values = tuple(step(np.array(self.values)).tolist())
        return replace(self, values=values, unseen=self._passed(step, self.unseen), gap=after)

    @property
    def results(self) -> tuple[float, ...]:
        """Return all numbers that it can be, in their order; none where there is no end of them."""
        own = self.sides if self.place is not None else self.values if self.labels else self.levels
        more = [each for each in (self.unseen if self.labels else None, self.gap) if isinstance(each, float)]
        return tuple(sorted({*own, *(each for each in more if each == each)})) if own else ()

    def _passed(self, step: Step, value: Any) -> Any:
        if isinstance(value, str):
            raise UnsupportedOperationError("a text cannot be scaled.")
        return None if value is None else float(step(np.array([value], dtype=self.dtype))[0])

    def numbers(self, raw: Numbers) -> Numbers:
        """Run the steps on raw numbers."""
        raw = raw.astype(self.dtype)
        for step in self.steps:
            raw = step(raw)
        return raw.astype(np.float64)
