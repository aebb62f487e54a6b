"""Pages, numbers and pictures are written whole, and say what was not run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from studies import Result, page, write
from studies.origin import Origin
from studies.style import COLOURS, DASHES, MARKERS, figure, line

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(drawn: Figure) -> None:
    axes = drawn.subplots()
    axes.plot([0, 1], [0, 1], **line(0))


RESULT = Result(
    name="example",
    title="An example",
    story=("It shows this.", "It does not show that."),
    tables=(("What was found.", pd.DataFrame({"method": ["sgd", "ftu"], "upper | lower": ["0.1", None]})),),
    data=pd.DataFrame({"method": ["sgd", "ftu"], "upper": [0.1, np.nan]}),
    draw=draw,
    size=(3.0, 2.0),
    alt="A rising line.",
)


def test_the_three_files(tmp_path: Path) -> None:
    written = write(RESULT, tmp_path / "results", "python -m studies example", [Origin.here()])
    assert sorted(path.name for path in written) == ["example.csv", "example.md", "example.png"]
    assert sorted((tmp_path / "results").iterdir()) == sorted(written)  # nothing half written is left
    text = (tmp_path / "results/example.md").read_text(encoding="utf-8")
    assert text.startswith("# An example\n\nIt shows this.\n\nIt does not show that.\n\n![A rising line.](example.png)")
    assert "| method | upper \\| lower |\n|---|---|\n| sgd | 0.1 |\n| ftu | not run |\n" in text
    assert "`python -m studies example`" in text
    assert "torch" in text.split("Written by")[1] and "core" in text.split("Written by")[1]
    table = pd.read_csv(io.BytesIO((tmp_path / "results/example.csv").read_bytes()))
    pd.testing.assert_frame_equal(table, RESULT.data)


def test_the_picture_is_the_same_every_time_and_of_the_size_asked(tmp_path: Path) -> None:
    from matplotlib.image import imread

    first = write(RESULT, tmp_path / "a", "c")[0].read_bytes()
    assert first == write(RESULT, tmp_path / "b", "c")[0].read_bytes()
    assert imread(io.BytesIO(first)).shape[:2] == (400, 600)


def test_a_fault_leaves_the_earlier_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(RESULT, tmp_path, "c")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(page.os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write(RESULT, tmp_path, "d")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_picture_changes_no_setting_of_the_caller() -> None:
    mpl.rcParams["font.size"] = 17
    try:
        with figure((2.0, 2.0)) as drawn:
            assert mpl.rcParams["font.size"] == 9
            draw(drawn)
        assert mpl.rcParams["font.size"] == 17
    finally:
        mpl.rcdefaults()


def test_lines_differ_without_colour() -> None:
    styles = [(line(k)["marker"], str(line(k)["linestyle"])) for k in range(len(COLOURS))]
    assert len(set(styles)) == len(COLOURS) == len(MARKERS) == len(DASHES)
