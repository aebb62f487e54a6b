"""Files that are there whole or not at all, and arrays in files of their own.

A file of arrays has one line of JSON (their names, types, shapes, a SHA-256 and what the caller adds), and then their
numbers, little-endian, one array after the other.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import FileError

Arrays = dict[str, NDArray[Any]]

PARTIAL = ".partial"
"""How the name of a half-written file ends."""

HEADER_LIMIT = 2**20
"""Of the line in front of arrays, in bytes."""


@contextmanager
def atomic(path: Path, what: str = "file", folders: bool = True) -> Iterator[Path]:
    """Give another file to write, which takes the name ``path``, and is on the disk, when all went well.

    Without ``folders`` the folder must be there: a file that the caller names is not put into a new one.
    """
    # Two processes may write the same file when one was believed dead: each has one of its own until the last moment.
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        if folders:
            path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise FileError(f"The {what} {path} cannot be written: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):  # the error is raised already
            partial.unlink()


def remove_partial_files(folder: Path, before: float = math.inf) -> None:
    """Remove what killed runs left half written before a time: a newer one may be in use by another process."""
    for partial in folder.rglob(f"*{PARTIAL}"):
        with suppress(OSError):  # its writer was faster
            if partial.stat().st_mtime <= before:
                partial.unlink()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Put a file in its place at once. Floats are written with all their digits."""
    with atomic(path) as partial:
        partial.write_text(json.dumps(content, indent=1), encoding="utf-8")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the content, or None where there is no such file or no JSON object in it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def file_hash(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"The file {path} cannot be read: {error.strerror}.") from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], about: str) -> None:
    """Write arrays with a word about them, which :func:`read_arrays` asks for again."""
    stored = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    shapes = [[name, array.dtype.str, list(array.shape)] for name, array in stored.items()]
    digest = _digest(about, shapes)
    for array in stored.values():
        digest.update(array.data)
    header = json.dumps({"about": about, "arrays": shapes, "sha256": digest.hexdigest()})
    with atomic(path) as partial, partial.open("wb") as file:
        file.write(header.encode() + b"\n")
        for array in stored.values():
            file.write(array.data)


def read_arrays(path: Path, about: str) -> Arrays | None:
    """Return the arrays, bit for bit as they were written about the same, or None where there is no such file."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.readline(HEADER_LIMIT))
            begin = file.tell()
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[begin:]
        digest = _digest(about, header["arrays"])
        digest.update(content)
        if header["about"] != about or digest.hexdigest() != header["sha256"]:
            return None
        arrays, at = {}, 0
        for name, dtype, shape in header["arrays"]:
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(content, dtype, count, at).reshape(shape) if count else np.zeros(shape, dtype)
            at += arrays[name].nbytes
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    return arrays


class Store(Protocol):
    """Keeps finished parts by name. A part that is damaged, or was put about something else, is no part."""

    def get(self, name: str, about: str) -> Arrays | None:
        """Return the arrays, bit for bit as they were put about the same, or None."""

    def put(self, name: str, arrays: Arrays, about: str) -> None:
        """Keep arrays: whole or not at all, in place of what had the name."""


class FolderStore:
    """Parts as files of a folder, about an ``identity``: all that decides their bits, of whichever part."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity

    def path(self, name: str) -> Path:
        """Return the file of a part."""
        return self.folder / f"{name}.arrays"

    def get(self, name: str, about: str) -> Arrays | None:
        """Read the arrays of a part from its file."""
        return read_arrays(self.path(name), self._digest_of(about))

    def put(self, name: str, arrays: Arrays, about: str) -> None:
        """Write arrays into a file of their own."""
        write_arrays(self.path(name), arrays, self._digest_of(about))

    def _digest_of(self, about: str) -> str:
        return hashlib.sha256(f"{self.identity} {about}".encode()).hexdigest()


def _digest(about: str, shapes: list[Any]) -> Any:
    return hashlib.sha256(json.dumps([about, shapes]).encode())
