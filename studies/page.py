"""An experiment on paper: a page of Markdown, its numbers as CSV, its picture as PNG.

A page is made from results alone: every number on it was computed by the run that is named at its end, or stands in
:mod:`studies.paper` as printed elsewhere.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from studies.origin import Origin
from studies.style import figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_RUN = "not run"


@dataclass(frozen=True)
class Result:
    """What an experiment has to say.

    ``story`` are paragraphs of Markdown; ``tables`` have a caption and formatted cells, ``data`` the numbers; ``draw``
    fills an empty figure of ``size`` inches, and ``alt`` is the picture in words.
    """

    name: str
    title: str
    story: tuple[str, ...]
    tables: tuple[tuple[str, pd.DataFrame], ...]
    data: pd.DataFrame
    draw: Callable[[Figure], None] | None = None
    size: tuple[float, float] = (7.0, 4.0)
    alt: str = ""


def write(result: Result, directory: Path, command: str, origins: Sequence[Origin] = ()) -> list[Path]:
    """Write ``NAME.png``, ``NAME.csv`` and ``NAME.md``, each at once and the page last; what was written.

    ``origins`` are those of the numbers: where and with what they were computed, which may not be here and now.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    if result.draw is not None:
        with figure(result.size) as drawn:
            result.draw(drawn)
            picture = io.BytesIO()
            # Without the date and the version in the file, the same numbers give the same picture.
            drawn.savefig(picture, format="png", metadata={"Software": None})
        written.append(write_whole(directory / f"{result.name}.png", picture.getvalue()))
    table = result.data.to_csv(index=False, lineterminator="\n")
    written.append(write_whole(directory / f"{result.name}.csv", table.encode()))
    written.append(write_whole(directory / f"{result.name}.md", markdown(result, command, origins).encode()))
    return written


def markdown(result: Result, command: str, origins: Sequence[Origin] = ()) -> str:
    """The page."""
    parts = [f"# {result.title}", *result.story]
    if result.draw is not None:
        parts.append(f"![{result.alt}]({result.name}.png)")
    for caption, table in result.tables:
        parts += [caption, as_markdown(table)]
    parts.append(f"The numbers are in [{result.name}.csv]({result.name}.csv).")
    parts.append(f"Written by `{command}`; no number is typed by hand.")
    parts += [origin.words() for origin in origins]
    return "\n\n".join(parts) + "\n"


def as_markdown(table: pd.DataFrame) -> str:
    """A table of formatted cells; what is missing was not run."""

    def row(cells: list[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    def cell(value: object) -> str:
        return NOT_RUN if value is None or value != value else str(value).replace("|", "\\|")

    lines = [row([cell(name) for name in table.columns]), "|" + "---|" * len(table.columns)]
    lines += [row([cell(value) for value in values]) for values in table.itertuples(index=False, name=None)]
    return "\n".join(lines)


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file so that nobody ever sees a part of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path
