"""What surrounds every reader: an error inside names the part and the file that was being read, in one sentence."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from isonomy.errors import FileError, IsonomyError, NetworkError
from isonomy.networks.limits import room_for, unpacked


@contextmanager
def reading(part: str, absent: str = "cannot be read") -> Iterator[None]:
    """Errors name the node, layer or model; whatever else breaks while it is read becomes an error about it.

    ``absent`` is what it means that an attribute is missing.
    """
    try:
        yield
    except NetworkError as error:
        raise type(error)(one_line(f"{part}: {error}")) from None
    except IsonomyError:
        raise
    except Exception as error:  # rules run frameworks' own code on what a file says
        verb, reason = (
            absent if isinstance(error, AttributeError) else "cannot be read",
            f"{type(error).__name__}: {error}",
        )
        raise NetworkError(f"{part} {verb}: {one_line(reason).rstrip('.')}.") from error


@contextmanager
def reading_file(path: Path, kind: str) -> Iterator[None]:
    """Errors name the file; whatever a damaged file breaks becomes one sentence, and it gets the room of its size."""
    try:
        with room_for(path.stat().st_size):
            yield
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


def member(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """One member of an archive, if it is there and of a reasonable size."""
    try:
        size = archive.getinfo(name).file_size
    except KeyError:
        raise FileError(f"The archive lacks '{name}'.") from None
    if size > min(largest, unpacked()):
        raise FileError(f"The archive's '{name}' is larger than the supported size.")
    return archive.read(name)


def one_line(message: str) -> str:
    """A message whose parts come from a file, in one printable line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    return text if len(text) <= 2000 else f"{text[:2000]}..."
