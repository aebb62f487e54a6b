"""Progress for people: one bar on standard error that disappears, and nothing where nobody looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

WORDS = {
    "local": "Certifying each individual",
    "profiles": "Bounding what shifts can do",
    "points": "Searching for the worst population",
    "beside": "Comparing groups and populations",
    "write": "Writing",
}


class Bars:
    """Told of stages and of progress; without a terminal it does nothing."""

    def stage(self, name: str, kept: bool = False) -> None:
        """A stage begins."""

    def tick(self, done: int, total: int) -> None:
        """So much of it is done."""

    def note(self, text: str) -> None:
        """Words beside the bar."""


class _Shown(Bars):
    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[note]}")
        self.bars = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.bars.add_task("Reading", total=None, note="")

    def stage(self, name: str, kept: bool = False) -> None:
        words = WORDS.get(name.split("-")[0], name)
        if kept:
            words += " (kept from the earlier run)"
        same = any(task.description == words for task in self.bars.tasks)
        self.bars.update(self.task, description=words)
        if not same:
            self.bars.reset(self.task, description=words, total=None)

    def tick(self, done: int, total: int) -> None:
        self.bars.update(self.task, completed=done, total=total)

    def note(self, text: str) -> None:
        self.bars.update(self.task, note=text)


@contextmanager
def bars() -> Iterator[Bars]:
    """A bar while the block runs."""
    if not sys.stderr.isatty():
        yield Bars()
        return
    shown = _Shown()
    with shown.bars:
        yield shown
