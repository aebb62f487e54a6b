"""Stages that are kept: taken up again by the same question, and by no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isonomy.audit import Stages
from isonomy.certificates.chunks import Arrays
from isonomy.errors import FileError


def counted(value: float) -> tuple[Callable[[], Arrays], list[float]]:
    calls: list[float] = []

    def compute() -> Arrays:
        calls.append(value)
        return {"a": np.array([value, np.nan]), "words": np.array(["certified", "none"]), "one": np.array(value)}

    return compute, calls


def test_a_stage_is_computed_once_and_comes_back_bit_for_bit(tmp_path: Path) -> None:
    compute, calls = counted(0.1)
    first, second = Stages(tmp_path / "w.partial"), Stages(tmp_path / "w.partial")
    first.open("question")
    made = first.keep("local-0", compute)
    second.open("question")
    kept = second.keep("local-0", compute)
    assert len(calls) == 1 and second.found == ["local-0"] and second.started == first.started
    assert made.keys() == kept.keys()
    assert all(made[name].tobytes() == kept[name].tobytes() and made[name].dtype == kept[name].dtype for name in made)


def test_another_question_starts_afresh(tmp_path: Path) -> None:
    compute, calls = counted(0.1)
    for question in ("one", "other"):
        stages = Stages(tmp_path / "w.partial")
        stages.open(question)
        stages.keep("local-0", compute)
    assert len(calls) == 2


def test_a_damaged_stage_is_computed_again(tmp_path: Path) -> None:
    compute, calls = counted(0.1)
    stages = Stages(tmp_path / "w.partial")
    stages.open("question")
    stages.keep("local-0", compute)
    file = tmp_path / "w.partial" / "local-0.npz"
    file.write_bytes(file.read_bytes()[:100])
    assert stages.keep("local-0", compute)["a"][0] == 0.1
    assert len(calls) == 2


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stages = Stages()
    stages.open("question")
    stages.keep("local-0", counted(1.0)[0])
    stages.close()
    assert not list(tmp_path.iterdir())


def test_somebody_elses_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "w.partial").mkdir()
    (tmp_path / "w.partial" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match=r"thesis\.txt"):
        Stages(tmp_path / "w.partial").open("question")
    assert (tmp_path / "w.partial" / "thesis.txt").exists()


def test_closing_takes_the_directory_away(tmp_path: Path) -> None:
    stages = Stages(tmp_path / "w.partial")
    stages.open("question")
    stages.close()
    assert not (tmp_path / "w.partial").exists()
