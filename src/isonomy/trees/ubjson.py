"""Read UBJSON, the binary form of JSON that XGBoost writes: objects, lists, typed arrays, texts, numbers.

**Safety.** Lengths are compared with the bytes that are left before anything is made, and depth is limited.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from isonomy.errors import FileError

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_FORMATS = {"i": ">b", "U": ">B", "I": ">h", "l": ">i", "L": ">q", "d": ">f", "D": ">d"}
_WORDS = {"T": True, "F": False, "Z": None}
_DEEPEST = 32


def read_ubjson(data: bytes) -> Any:
    """Return the value that bytes hold; FileError where they are damaged."""
    reader = _Reader(data)
    try:
        value = reader.value(reader.mark(), 0)
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise FileError(f"The UBJSON is damaged near byte {reader.at:,} ({type(error).__name__}).") from None
    if reader.at != len(data):
        raise FileError(f"The UBJSON ends at byte {reader.at:,}, but {len(data):,} are there.")
    return value


class _Reader:
    """A place in bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def mark(self) -> str:
        """Take one byte, which says what follows."""
        self.at += 1
        return self.take(1, -1).decode("latin-1")

    def take(self, size: int, back: int = 0) -> bytes:
        """Take bytes, if there are as many."""
        begin = self.at + back
        if size < 0 or begin + size > len(self.data):
            raise FileError(f"The UBJSON asks at byte {begin:,} for more than it holds.")
        self.at = begin + size
        return self.data[begin : self.at]

    def number(self, mark: str) -> Any:
        """Take one number."""
        pattern = _FORMATS[mark]
        return struct.unpack(pattern, self.take(struct.calcsize(pattern)))[0]

    def length(self) -> int:
        """Take a length; the bytes that are left are the most."""
        mark = self.mark()
        if mark not in "iUIlL":
            raise FileError(f"The UBJSON has no length at byte {self.at:,}.")
        size = int(self.number(mark))
        if not 0 <= size <= len(self.data) - self.at:
            raise FileError(f"The UBJSON asks at byte {self.at:,} for more than it holds.")
        return size

    def value(self, mark: str, depth: int) -> Any:
        """Take one value."""
        if depth > _DEEPEST:
            raise FileError("The UBJSON is nested too deeply.")
        if mark in _FORMATS:
            return self.number(mark)
        if mark == "S":
            return self.take(self.length()).decode()
        if mark in _WORDS:
            return _WORDS[mark]
        if mark == "[":
            return self.array(depth)
        if mark == "{":
            return self.table(depth)
        raise FileError(f"The UBJSON has an unknown mark at byte {self.at:,}.")

    def array(self, depth: int) -> Any:
        """Take a list, or an array of numbers of one type."""
        kind, size = self.header()
        if kind in _NUMBERS and size is not None:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self.take(size * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if size is not None:
            return [self.value(kind or self.mark(), depth + 1) for _ in range(size)]
        values = []
        while (mark := self.mark()) != "]":
            values.append(self.value(mark, depth + 1))
        return values

    def table(self, depth: int) -> dict[str, Any]:
        """Take an object, whose keys must differ."""
        kind, size = self.header()
        table: dict[str, Any] = {}
        while size is None or len(table) < size:
            if size is None and self.data[self.at : self.at + 1] == b"}":
                self.at += 1
                break
            key = self.take(self.length()).decode()
            if key in table:
                raise FileError(f"The UBJSON has the key {key!r} twice.")
            table[key] = self.value(kind or self.mark(), depth + 1)
        return table

    def header(self) -> tuple[str, int | None]:
        """Take the type ("": each its own) and number of what follows, where they are given."""
        kind = ""
        if self.data[self.at : self.at + 1] == b"$":
            self.at += 1
            kind = self.mark()
        if self.data[self.at : self.at + 1] == b"#":
            self.at += 1
            return kind, self.length()
        if kind:
            raise FileError(f"The UBJSON gives a type without a number at byte {self.at:,}.")
        return kind, None
