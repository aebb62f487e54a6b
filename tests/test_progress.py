"""A bar appears on a terminal after some patience; elsewhere there is a line every half minute."""

from __future__ import annotations

import io
import sys

import pytest

from isonomy import progress
from isonomy.errors import ParameterError
from isonomy.progress import Bar, Shares, shown, summary


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_callers_own_progress_is_called() -> None:
    calls: list[tuple[int, int]] = []
    with shown("Working", lambda done, total: calls.append((done, total))) as tick:
        tick(1, 2)
        tick(2, 2)
    assert calls == [(1, 2), (2, 2)]


@pytest.mark.parametrize("patience, appears", [(0.0, True), (60.0, False)])
def test_a_bar_only_for_what_takes_long(monkeypatch: pytest.MonkeyPatch, patience: float, appears: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", patience - 1e-9)
    with shown("Certifying", "auto") as tick:
        for done in range(3):
            tick(done + 1, 3)
    assert ("Certifying" in terminal.getvalue()) == appears


@pytest.mark.parametrize("choice", ["auto", None])
def test_nothing_where_nobody_looks(monkeypatch: pytest.MonkeyPatch, choice: str | None) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    with shown("Certifying", choice) as tick:
        tick(1, 1)
    assert pipe.getvalue() == ""


def test_a_bar_tells_its_stages_and_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Bar("Reading") as bar:
        bar.stage("Certifying")
        bar(1, 2)
        bar.note("half of it")
        bar.shown.refresh()
    for words in ("Reading", "Certifying", "half of it"):
        assert words in terminal.getvalue()


def test_what_is_no_progress_is_refused() -> None:
    with pytest.raises(ParameterError, match="'progress' must be"), shown("Certifying", "always"):  # type: ignore[arg-type]
        pass


class Clock:
    """A clock that goes when it is asked to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_a_line_every_half_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, clock = io.StringIO(), Clock()
    monkeypatch.setattr(sys, "stderr", pipe)
    with Bar("Certifying", clock=clock) as bar:
        for second in range(1, 101):
            clock.now = float(second)
            bar(second, 400)
    assert pipe.getvalue().splitlines() == [
        "Certifying: 7 %, about 6 minutes left",
        "Certifying: 15 %, about 6 minutes left",
        "Certifying: 22 %, about 5 minutes left",
    ]


def test_a_bar_says_per_cent_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Bar("Certifying", clock=clock) as bar:
        for second in range(0, 101, 10):
            clock.now = float(second)
            bar(second, 400)
        bar.shown.refresh()
    assert "25%" in terminal.getvalue() and "0:05:00" in terminal.getvalue()


def test_parts_add_up_and_never_fall() -> None:
    seen: list[tuple[int, int]] = []
    parts = Shares(lambda done, total: seen.append((done, total)), 10)
    for part, size, share in ((0, 6, 0.5), (1, 4, 0.3), (0, 6, 0.4), (1, 4, 1.0), (0, 6, 1.0), (0, 6, 1.0)):
        parts(part, size, share)
    assert seen == [(3, 10), (4, 10), (7, 10), (10, 10)]


@pytest.mark.parametrize(
    ("done", "seconds", "words"),
    [
        (0, 5, "0 %"), (100, 60, "100 %"), (90, 90, "90 %, less than a minute left"),
        (50, 60, "50 %, about 1 minute left"), (10, 60, "10 %, about 9 minutes left"),
    ],
)  # fmt: skip
def test_the_time_left_is_never_zero_minutes(done: float, seconds: float, words: str) -> None:
    assert summary(done, 100, seconds) == words
