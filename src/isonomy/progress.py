"""How far a long run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from isonomy.errors import ParameterError, template

Progress = Callable[[int, int], None]
"""Called with the individuals done and in all; several threads may call it, one at a time."""

PATIENCE = 2.0
"""Seconds before a bar of the library appears."""

EVERY = 30.0
"""Seconds between two lines where there is no terminal."""


class Bar:
    """One bar on the terminal's error stream that disappears when it is done; without a terminal, a line every half
    minute.

    It appears at the first word of something when ``patience`` seconds of the ``clock`` have passed.
    """

    def __init__(self, what: str, patience: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.clock = what, clock
        self.began = self.printed = clock()
        self.due = self.began + patience
        self.shown: Any = None
        self.task: Any = None

    def __enter__(self) -> Bar:
        self._update()
        return self

    def __exit__(self, *_: object) -> None:
        if self.shown is not None:
            self.shown.stop()

    def __call__(self, done: float, total: float) -> None:
        """Take note of how much is done."""
        if not sys.stderr.isatty() and self.clock() >= self.printed + EVERY:
            self.printed = self.clock()
            print(f"{self.what}: {summary(done, total, self.printed - self.began)}", file=sys.stderr, flush=True)
        self._update(completed=done, total=total)

    def note(self, text: str) -> None:
        """Write words beside the bar."""
        self._update(note=text)

    def stage(self, words: str) -> None:
        """Begin another stage of the work, with its own bar."""
        self.what, self.began = words, self.clock()
        if self.shown is not None:
            self.shown.remove_task(self.task)
            self.task = self.shown.add_task(words, total=None, note="")

    def _update(self, **changes: Any) -> None:
        if self.shown is None and sys.stderr.isatty() and self.clock() >= self.due:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                Progress,
                TaskProgressColumn,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
            )
            self.shown = Progress(
                *columns, console=Console(stderr=True), transient=True, speed_estimate_period=600, get_time=self.clock
            )
            self.task = self.shown.add_task(self.what, total=None, note="")
            self.shown.start()
        if self.shown is not None:
            self.shown.update(self.task, **changes)


def summary(done: float, total: float, seconds: float) -> str:
    """Return the share that is done, in per cent rounded down, and the time left if the rest goes on like it."""
    share = done / total if total else 0.0
    minutes = round(seconds * (1 / share - 1) / 60) if 0 < share < 1 else None
    if minutes is None:
        return f"{int(100 * share)} %"
    words = f"about {minutes} minute{'s' if minutes > 1 else ''}" if minutes else "less than a minute"
    return f"{int(100 * share)} %, {words} left"


class Shares:
    """The sum of what several parts of a run, each on a thread of its own, have done so far, for one ``tick``.

    ``total`` individuals are in all; a part says which share of its own is done.
    """

    def __init__(self, tick: Progress, total: int) -> None:
        self.tick, self.total = tick, total
        self.done: dict[int, float] = {}
        self.lock, self.reported = threading.Lock(), 0

    def __call__(self, part: int, size: int, share: float) -> None:
        """Note the share of a part that is done; the sum never falls, and is passed on for each whole individual."""
        with self.lock:
            self.done[part] = max(self.done.get(part, 0.0), min(share, 1.0) * size)
            done = min(self.total, int(sum(self.done.values()) + 1e-6))
            if done > self.reported:
                self.reported = done
                self.tick(done, self.total)


@contextmanager
def shown(what: str, progress: Progress | Literal["auto"] | None) -> Iterator[Progress]:
    """Give the caller's own progress, none, or a bar that appears after some patience."""
    if callable(progress):
        yield progress
    elif progress is None:
        yield lambda done, total: None
    elif progress == "auto":
        with Bar(what, PATIENCE) as bar:
            yield bar
    else:
        raise ParameterError(template("progress", "'auto', None or a function of two numbers", progress))
