"""``python -m studies`` from the outside, with an experiment that costs nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from isonomy.errors import FileError
from studies import Result, Setting, Store
from studies import __main__ as command
from studies.__main__ import main


class Experiment(ModuleType):
    """Counts what it computes; can be stopped or fail at a seed."""

    def __init__(self) -> None:
        super().__init__("experiment")
        self.computed: list[int] = []
        self.stop_at: int | None = None
        self.fault: BaseException = KeyboardInterrupt()

    def run(self, setting: Setting, store: Store) -> Result:
        def compute(seed: int) -> dict[str, float]:
            if seed == self.stop_at:
                raise self.fault
            self.computed.append(seed)
            return {"value": seed / 10}

        lines = [store.once({"seed": seed}, lambda seed=seed: compute(seed)) for seed in range(setting.seeds)]  # type: ignore[misc]
        values = [line.get("value") for line in lines]
        table = pd.DataFrame({"seed": range(setting.seeds), "value": values}, dtype=object)
        return Result("moons", f"Quick {setting.quick}", ("One.",), (("Values.", table),), table)


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    found = Experiment()
    monkeypatch.setitem(sys.modules, "studies.moons", found)
    return found


def test_a_run_and_its_resumption(tmp_path: Path, experiment: Experiment, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "results"
    assert main(["moons", "--out", str(out)]) == 0
    assert capsys.readouterr().out.split() == [str(out / "moons.csv"), str(out / "moons.md")]
    assert experiment.computed == [0, 1, 2]
    assert main(["moons", "--out", str(out)]) == 0
    assert experiment.computed == [0, 1, 2]
    assert "`python -m studies moons`" in (out / "moons.md").read_text(encoding="utf-8")
    assert main(["moons", "--out", str(out), "--seeds", "4"]) == 0
    assert experiment.computed == [0, 1, 2, 3]
    assert "`python -m studies moons --seeds 4`" in (out / "moons.md").read_text(encoding="utf-8")


def test_the_quick_form_leaves_the_whole_one_alone(tmp_path: Path, experiment: Experiment) -> None:
    assert main(["moons", "--quick", "--out", str(tmp_path)]) == 0
    assert experiment.computed == [0]
    text = (tmp_path / "quick/moons.md").read_text(encoding="utf-8")
    assert "# Quick True" in text and "`python -m studies moons --quick`" in text
    assert not (tmp_path / "moons.md").exists()


def test_stopped_it_leaves_a_page_of_what_was_found(tmp_path: Path, experiment: Experiment) -> None:
    experiment.stop_at = 1
    assert main(["moons", "--out", str(tmp_path)]) == 130
    text = (tmp_path / "moons.md").read_text(encoding="utf-8")
    assert "| 0 | 0.0 |\n| 1 | not run |\n| 2 | not run |" in text
    experiment.stop_at = None
    assert main(["moons", "--out", str(tmp_path)]) == 0
    assert experiment.computed == [0, 1, 2]
    assert "not run" not in (tmp_path / "moons.md").read_text(encoding="utf-8")


def test_pages_alone_compute_nothing(tmp_path: Path, experiment: Experiment) -> None:
    assert main(["moons", "--pages", "--out", str(tmp_path)]) == 0
    assert experiment.computed == []
    assert "| 0 | not run |" in (tmp_path / "moons.md").read_text(encoding="utf-8")
    assert not (tmp_path / "moons.work").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "'name' must be one of training, uci, group"),
        (["moons", "--seeds", "0"], "'seeds' must be a whole number >= 1"),
        (["moons", "--wrong"], "--wrong"),
    ],
)
def test_bad_words_are_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_missing_data_is_one_sentence(
    tmp_path: Path, experiment: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.stop_at, experiment.fault = 0, FileError("There is no such table.")
    assert main(["moons", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "Error: There is no such table.\n"
    assert not (tmp_path / "moons.md").exists()


def test_of_many_the_others_go_on(
    tmp_path: Path, experiment: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Experiment()
    other.stop_at, other.fault = 0, FileError("There is no such table.")
    monkeypatch.setitem(sys.modules, "studies.gamma", other)
    monkeypatch.setattr(command, "STUDIES", ("gamma", "moons"))
    assert main(["all", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "gamma: There is no such table.\n"
    assert experiment.computed == [0, 1, 2] and (tmp_path / "moons.md").exists()
