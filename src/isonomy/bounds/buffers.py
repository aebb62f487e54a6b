"""Memory that is used again.

A chunk of individuals passes through a network as a handful of arrays of a megabyte or two. Taken from the system and
given back for every chunk, they cost more in page faults than the arithmetic on them.
"""

from __future__ import annotations

import threading

import torch
from torch import Tensor

ROWS = 1024
"""Buffers hold a multiple of so many rows, so that chunks of any size share them."""

FEW = 32
"""So few rows are simply new: to find a buffer for them takes longer than to get memory."""


class Buffers(threading.local):
    """Matrices to be taken, filled and given back, each thread its own; outside ``with`` they are simply new."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, torch.dtype], list[Tensor]] = {}
        self._active = False

    def __enter__(self) -> Buffers:
        self._active = True
        return self

    def __exit__(self, *_: object) -> None:
        self._active = False

    def take(self, rows: int, width: int, dtype: torch.dtype) -> Tensor:
        """An uninitialised matrix."""
        if not self._active or rows <= FEW:
            return torch.empty(rows, width, dtype=dtype)
        free = self._free.setdefault((width, dtype), [])
        place = next((i for i, buffer in enumerate(free) if len(buffer) >= rows), None)
        buffer = torch.empty(-(-rows // ROWS) * ROWS, width, dtype=dtype) if place is None else free.pop(place)
        return _Lent.of(buffer, rows)

    def give(self, *matrices: Tensor) -> None:
        """Matrices that nobody reads any more; those that were not taken from here are left alone."""
        for matrix in matrices:
            if self._active and isinstance(matrix, _Lent):
                buffer = matrix.buffer
                self._free[buffer.shape[1], buffer.dtype].append(buffer)


class _Lent(Tensor):
    """The first rows of a buffer; anything computed from it is an ordinary tensor."""

    buffer: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def of(buffer: Tensor, rows: int) -> _Lent:
        lent = buffer[:rows].as_subclass(_Lent)
        lent.buffer = buffer
        return lent
