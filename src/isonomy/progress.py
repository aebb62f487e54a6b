"""A progress bar for whatever takes long, and nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from isonomy.errors import ParameterError, template

Progress = Callable[[int, int], None]
"""Called with the individuals done and in all."""

PATIENCE = 2.0
"""Seconds before a bar of the library appears."""


class Bar:
    """One bar on the terminal's error stream that disappears when it is done; without a terminal it does nothing.

    It appears when it is told of something and ``patience`` seconds have passed.
    """

    def __init__(self, what: str, patience: float = 0.0) -> None:
        self.what, self.due = what, time.monotonic() + patience
        self.shown: Any = None
        self.task: Any = None

    def __enter__(self) -> Bar:
        self._update()
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown is not None:
            self.shown.stop()

    def __call__(self, done: int, total: int) -> None:
        """So much of it is done."""
        self._update(completed=done, total=total)

    def note(self, text: str) -> None:
        """Words beside the bar."""
        self._update(note=text)

    def stage(self, words: str) -> None:
        """Something else begins."""
        self.what = words
        if self.shown is not None:
            self.shown.remove_task(self.task)
            self.task = self.shown.add_task(words, total=None, note="")

    def _update(self, **changes: Any) -> None:
        if self.shown is None and sys.stderr.isatty() and time.monotonic() >= self.due:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self.shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self.task = self.shown.add_task(self.what, total=None, note="")
            self.shown.start()
        if self.shown is not None:
            self.shown.update(self.task, **changes)


@contextmanager
def shown(what: str, progress: Progress | Literal["auto"] | None) -> Iterator[Progress]:
    """The caller's own progress, none, or a bar on the terminal that appears after some patience."""
    if callable(progress):
        yield progress
    elif progress is None:
        yield lambda done, total: None
    elif progress == "auto":
        with Bar(what, PATIENCE) as bar:
            yield bar
    else:
        raise ParameterError(template("progress", "'auto', None or a function of two numbers", progress))
