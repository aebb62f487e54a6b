"""Details of a check are a stranger's words: nothing in them is markup."""

from __future__ import annotations

import io
from types import SimpleNamespace

from rich.console import Console

from isonomy.cli.certificates import _show


def test_details_are_shown_as_they_are() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    hostile = "[bold]x[/bold] [link=http://a]b[/link] [/]"
    found = SimpleNamespace(
        question={"head": hostile}, claims=[("files", "not checked", hostile)], result="accepted", answer="accepted"
    )
    for part in _show(found):
        console.print(part)
    assert screen.getvalue().count(hostile) == 2
