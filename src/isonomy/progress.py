"""A progress bar for whatever takes longer than two seconds, and nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from isonomy.errors import ParameterError, template

Progress = Callable[[int, int], None]
"""Called with the individuals done and in all."""

PATIENCE = 2.0
"""Seconds before a bar appears."""


@contextmanager
def shown(what: str, progress: Progress | Literal["auto"] | None) -> Iterator[Progress]:
    """The caller's own progress, none, or a bar on the terminal's error stream that disappears when it is done."""
    if not (callable(progress) or progress is None or progress == "auto"):
        raise ParameterError(template("progress", "'auto', None or a function of two numbers", progress))
    if callable(progress):
        yield progress
    elif progress is None or not sys.stderr.isatty():
        yield lambda done, total: None
    else:
        bar = _Bar(what)
        try:
            yield bar
        finally:
            bar.close()


class _Bar:
    def __init__(self, what: str) -> None:
        self.what, self.started = what, time.monotonic()
        self.close: Callable[[], None] = lambda: None
        self.update: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if self.update is None and time.monotonic() - self.started > PATIENCE:
            from rich.console import Console
            from rich.progress import Progress as Bars

            bars = Bars(console=Console(stderr=True), transient=True)
            task = bars.add_task(self.what, total=total)
            bars.start()
            self.close, self.update = bars.stop, lambda done, total: bars.update(task, completed=done, total=total)
        if self.update is not None:
            self.update(done, total)
