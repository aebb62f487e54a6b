"""Rows that are put together where they are read, so that a large table of counterparts is never in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray


@dataclass(frozen=True, eq=False)
class Assembled:
    """An array (n, m): the rows of ``x`` with ``value`` (len(x), k) in the coordinates ``places`` (k,).

    Of some rows only where they are ``chosen``, by numbers (n,). An index gives an ordinary array of these rows.
    """

    x: FloatArray
    places: NDArray[np.intp] | None = None
    value: FloatArray | None = None
    chosen: NDArray[np.intp] | None = None

    ndim = 2

    def __len__(self) -> int:
        return len(self.x) if self.chosen is None else len(self.chosen)

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape of the whole array."""
        return len(self), self.x.shape[1]

    def __getitem__(self, some: Any) -> FloatArray:
        at = some if self.chosen is None else self.chosen[some]
        rows = np.array(self.x[at])
        if self.value is not None:
            rows[..., self.places] = self.value[at]
        return rows

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype)

    def only(self, some: NDArray[Any]) -> Assembled:
        """Return some of the rows, by numbers or as a mask (n,)."""
        chosen = np.arange(len(self))[some]
        return replace(self, chosen=chosen if self.chosen is None else self.chosen[chosen])


def some_rows(x: FloatArray | Assembled, some: NDArray[Any]) -> Assembled:
    """Return some rows of an array, which are read when they are wanted."""
    return (x if isinstance(x, Assembled) else Assembled(x)).only(some)
