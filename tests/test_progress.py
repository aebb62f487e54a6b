"""A bar appears on a terminal after some patience, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from isonomy import progress
from isonomy.errors import ParameterError
from isonomy.progress import Bar, shown


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
