"""What a source of people is: chunks that are known by keys and can be read in any order, anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol, runtime_checkable

from isonomy.given import whole
from isonomy.population.domain import FloatArray
from isonomy.population.population import IntArray
from isonomy.population.schema import Schema
from isonomy.population.selection import Selection

Named = tuple[tuple[str, str], ...]
"""Files by name, each with its SHA-256."""


@dataclass(frozen=True)
class ChunkKey:
    """Rows ``start`` to ``stop`` of one file or partition, the ``index``-th chunk: enough to read them again."""

    index: int
    file: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def place(self) -> str:
        """What an error says of where the rows stand."""
        name = PurePath(self.file)
        return f"File {name.name}" if name.suffix else self.file or "The table"


@dataclass(frozen=True, eq=False)
class Chunk:
    """The individuals of some rows in fair coordinates, where they stood, and how many rows were left out.

    ``y`` is None where there is no label column, or it was not asked for.
    """

    key: ChunkKey
    x: FloatArray
    y: IntArray | FloatArray | None
    weights: FloatArray
    rows: IntArray
    excluded: int

    def __len__(self) -> int:
        return len(self.x)


@runtime_checkable
class PeopleSource(Protocol):
    """Individuals by chunks; ``tests/contracts/source.py`` checks what is promised here.

    Chunks cut in any way hold the same people, and every row that does not fit the schema is counted in one of them.
    A source can be pickled, and the copy reads the same.
    """

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        ...

    @property
    def files(self) -> Named:
        """The files that the caller named."""
        ...

    def keys(self, rows: int) -> Sequence[ChunkKey]:
        """Chunks of at most ``rows`` rows, in order; none has rows of two files."""
        ...

    def read(self, key: ChunkKey) -> Chunk:
        """The same arrays for the same key."""
        ...

    def selection(self, people: int, excluded: int) -> Selection:
        """Who these are, once all chunks were read, and so many people and excluded rows were counted."""
        ...

    def fingerprint(self) -> str:
        """The SHA-256 of all that the arrays depend on."""
        ...


def cut(tables: Sequence[tuple[str, int]], rows: int) -> list[ChunkKey]:
    """Keys for tables by name and number of rows, each cut by itself."""
    rows = whole("rows", rows, 1)
    cuts = [(name, start, min(start + rows, n)) for name, n in tables for start in range(0, n, rows)]
    return [ChunkKey(i, *each) for i, each in enumerate(cuts)]
