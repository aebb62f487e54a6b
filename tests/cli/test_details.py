"""Details of a check are a stranger's words: nothing in them is markup."""

from __future__ import annotations

import io

from rich.console import Console

from isonomy.cli.records import _show


def test_details_are_shown_as_they_are() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=200)
    for part in _show("question", [("files", "not checked", "[bold]x[/bold] [link=http://a]b[/link] [/]")], False):
        console.print(part)
    assert "[bold]x[/bold] [link=http://a]b[/link] [/]" in screen.getvalue()
