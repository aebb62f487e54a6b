"""A study as a list of steps: each is found in the store or computed, and tables that are absent are told of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isonomy.errors import FileError
from isonomy.progress import Progress
from studies.store import Store

Line = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """What every study is given.

    ``quick`` goes through the same code with few individuals, epochs and widths. ``work`` is a directory for what can
    be used again (the lines found, trained networks); it is never removed by a study. ``seeds`` are counted from
    0; ``full`` asks for more than an evening's work of the studies that have such a form.
    """

    quick: bool
    work: Path
    progress: Progress | None = None
    seeds: int = 3
    full: bool = False


@dataclass(frozen=True)
class Step:
    """Something to compute about the people of a table, known by its key; ``table`` is what they are called."""

    table: str
    key: Mapping[str, Any]
    compute: Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Found:
    """A line for each step, only its key where nothing was computed; why tables could not be read; and how many steps
    of the others are still to be taken."""

    lines: list[Line]
    absent: dict[str, str]
    left: int = 0

    def words(self) -> list[str]:
        """A paragraph for each table that could not be read, and one for what is left."""
        told = [f"**Not run:** {table}. {why}" for table, why in self.absent.items()]
        if self.left:
            told.append(f"**Not yet run:** {self.left} of {len(self.lines)} parts; the same command goes on with them.")
        return told


def taken(steps: Sequence[Step], setting: Setting, store: Store) -> Found:
    """All steps in their order. Where no table at all can be read, the reason is raised."""
    lines: list[Line] = []
    absent: dict[str, str] = {}
    left = 0
    for done, step in enumerate(steps, 1):
        line = dict(step.key)
        if step.table not in absent:
            try:
                line = store.once(step.key, step.compute)
                left += line == dict(step.key)
            except FileError as error:
                absent[step.table] = str(error)
                if absent.keys() >= {each.table for each in steps}:
                    raise
        lines.append(line)
        if setting.progress is not None:
            setting.progress(done, len(steps))
    return Found(lines, absent, left)


def known(line: Mapping[str, Any], name: str) -> bool:
    """Whether this was computed."""
    return line.get(name) is not None
