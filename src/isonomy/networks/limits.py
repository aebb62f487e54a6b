"""How much a file may ask for: checked before anything is allocated.

A file is believed in proportion to its size. What it holds itself costs its sender as much as us; what it only *asks
for* (a constant of a given shape, a doubled tensor, a member that unpacks to a thousand times its size) costs nothing
to write, so all of that together gets ``ROOM`` and what the file weighs. A file that is small therefore cannot make a
reader take more than about 200 MB, whatever it says. Texts have the limit ``TEXT``, schemas ``CATEGORIES``
(:mod:`isonomy.population`).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from isonomy.errors import FileError, NetworkError
from isonomy.population.toml import TEXT

FILE = 2**31
"""Bytes of a file, with weights beside it: a network that can be certified is far smaller."""

MATRIX = 2**25
"""Numbers in one weight matrix."""

ROOM = 2**22
"""Numbers (32 MiB) that all matrices and constants of a network may have beyond the bytes of its file: an honest layer
takes a number for every two to eight bytes, and the largest layer of a small file, 2048 by 2048, fits once. While a
matrix is made there are up to four of its size."""

AT_ONCE = 2**21
"""Numbers in a table of positions (16 MiB), of which a layout has a few at a time."""

UNPACKED = 2**25
"""Bytes (32 MiB) to which an archive, or the arrays of an HDF5 file, may unpack beyond twice its size: weights hardly
shrink."""

NODES = 2**15
"""Nodes of an ONNX graph once its functions are written out, a kilobyte or two each."""


class _Room:
    """What is left for one file."""

    def __init__(self, size: int) -> None:
        self.size, self.left = size, ROOM + size


_OPEN: ContextVar[_Room | None] = ContextVar("room", default=None)  # of the file that is being read, if one is


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """While this lasts a file of so many bytes is read."""
    token = _OPEN.set(_Room(size))
    try:
        yield
    finally:
        _OPEN.reset(token)


def give(size: int) -> None:
    """So many bytes of what is being read lie in other files."""
    room = _OPEN.get()
    if room is not None:
        room.left += size


def take(numbers: int, what: str) -> None:
    """Make sure of so many numbers, which stay, before they are allocated."""
    room = _OPEN.get()
    if room is not None:
        room.left -= numbers
    if numbers > MATRIX or (room is not None and room.left < 0):
        raise NetworkError(f"{what} is larger than the supported size.")


def check_positions(numbers: int) -> None:
    """A table of positions, which does not stay."""
    if numbers > AT_ONCE:
        raise NetworkError("the nominal table that its shapes ask for is larger than the supported size.")


def unpacked() -> int:
    """Bytes to which the file that is being read may unpack."""
    room = _OPEN.get()
    return UNPACKED + (0 if room is None else 2 * room.size)


def check_archive(archive: zipfile.ZipFile) -> None:
    """All members together; ``zipfile`` gives no more of a member than its entry says."""
    if sum(each.file_size for each in archive.infolist()) > unpacked():
        raise FileError("The archive unpacks to more than the supported size.")


def read_json(text: bytes | str, what: str) -> Any:
    """A JSON text of bounded size and depth."""
    if len(text) > TEXT:
        raise FileError(f"Its {what} is larger than the supported size of {TEXT >> 20} MiB.")
    try:
        return json.loads(text)
    except RecursionError:
        raise FileError(f"Its {what} is nested too deeply.") from None
