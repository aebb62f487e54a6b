"""What surrounds every reader: how much a file may ask for, checked before anything is allocated, and errors that name
the part and the file that was being read, in one sentence.

A file is believed in proportion to its size. What it holds itself costs its sender as much as us; what it only *asks
for* (a constant of a given shape, a doubled tensor, a member that unpacks to a thousand times its size) costs nothing
to write, so all of that together gets ``BUDGET`` and the size of the file. A file that is small therefore cannot make a
reader take more than about 200 MB, whatever it says. Texts have the limit ``TEXT``, schemas ``CATEGORIES``
(:mod:`isonomy.population`).
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from isonomy.errors import FileError, IsonomyError, NetworkError

FILE = 2**31
"""Bytes of a file, with weights beside it: a network that can be certified is far smaller."""

MATRIX = 2**25
"""Numbers in one weight matrix."""

BUDGET = 2**22
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


@dataclass
class Allowance:
    """The bytes of a file, and the numbers that it may still allocate; what is no file's may take all it wants."""

    size: int = 0
    left: float = math.inf

    def reserve(self, numbers: int, what: str) -> None:
        """Reserve ``numbers`` float64 before they are allocated, or raise NetworkError above the allowance."""
        self.left -= numbers
        if numbers > MATRIX or self.left < 0:
            raise NetworkError(f"{what} is larger than the supported size.")

    @property
    def unpacked(self) -> int:
        """Return the bytes to which the file may unpack."""
        return UNPACKED + 2 * self.size


@contextmanager
def open_archive(path: Path, allowance: Allowance) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive of limited size in all; ``zipfile`` gives no more of a member than its entry says."""
    with zipfile.ZipFile(path) as archive:
        if sum(each.file_size for each in archive.infolist()) > allowance.unpacked:
            raise FileError("The archive unpacks to more than the supported size.")
        yield archive


def read_member(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """Return one member of an archive, if it is there and of a reasonable size."""
    try:
        size = archive.getinfo(name).file_size
    except KeyError:
        raise FileError(f"The archive lacks '{name}'.") from None
    if size > largest:
        raise FileError(f"The archive's '{name}' is larger than the supported size.")
    return archive.read(name)


@contextmanager
def reading(part: str, absent: str = "cannot be read", kind: type[IsonomyError] | None = None) -> Iterator[None]:
    """Name the node, layer or model in errors; any other exception while it is read becomes an error about it.

    ``absent`` is what it means that an attribute is missing, ``kind`` what an error becomes where it is not the file's.
    """
    try:
        yield
    except NetworkError as error:
        raise (kind or type(error))(one_line(f"{part}: {error}")) from None
    except IsonomyError:
        raise
    except Exception as error:  # rules run frameworks' own code on what a file says
        verb = absent if isinstance(error, AttributeError) else "cannot be read"
        reason = one_line(f"{type(error).__name__}: {error}").rstrip(".")
        raise NetworkError(f"{part} {verb}: {reason}.") from error


@contextmanager
def reading_file(path: Path, kind: str) -> Iterator[Allowance]:
    """Yield the allowance of the file's size; name the file in errors, and turn any other exception into one."""
    size = path.stat().st_size
    try:
        yield Allowance(size, BUDGET + size)
    except (NetworkError, FileError) as error:
        text = str(error) if path.name in str(error) else f"{path.name}: {error}"
        raise type(error)(one_line(text)) from error.__cause__
    except IsonomyError:
        raise
    except RecursionError:
        raise FileError(f"'{path}' is nested too deeply.") from None
    except Exception as error:  # a damaged file can break a parser anywhere
        reason = one_line(f"{type(error).__name__}: {error}")
        raise FileError(f"'{path}' is damaged or not {kind} ({reason}).") from error


def one_line(message: str) -> str:
    """Return a message whose parts come from a file, in one printable line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    return text if len(text) <= 2000 else f"{text[:2000]}..."
