"""What bounds ask of a batch of sets."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from isonomy.arithmetic import UNIT


class Shape(Protocol):
    """What bounds ask of a batch of sets."""

    @property
    def rows(self) -> int:
        """How many sets; 1 also stands for one that everybody shares."""
        ...

    @property
    def extent(self) -> Tensor:
        """The largest ``|v|`` per coordinate, (rows, m)."""
        ...

    @property
    def folds(self) -> bool:
        """Can products be folded with the shape beforehand?"""
        ...

    def support(self, weight: Tensor) -> Tensor:
        """Upper bounds (rows, k) of the support function at shared weights (k, m)."""
        ...

    def support_of(self, weight: Tensor, doubt: Tensor, owner: Tensor | slice, moving: Tensor) -> Tensor:
        """Upper bounds (p,) at one weight per row and set."""
        ...

    def fold(self, weight: Tensor, unit: float = UNIT) -> tuple[Tensor, Tensor]:
        """The folded weight, and what that leaves over per unit of the coefficients."""
        ...

    def folded_support(self, total: Tensor) -> Tensor:
        """Upper bounds at coefficients times a folded weight."""
        ...
