"""Times and bounds by size; no test says how long anything takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies import Setting, Store, scalability, write
from studies.methods import BOUNDED, Way
from studies.scalability import Sizes
from studies.tables import GERMAN

pytestmark = pytest.mark.slow

TINY = Sizes(widths=(8,), depths=(1, 2), deep=8, epochs=1, rows=60, people=4)


def run(tmp_path: Path, **options: bool) -> scalability.Result:
    setting = Setting(True, tmp_path / "scalability.work", None, 1)
    store = Store(setting.work / "lines.jsonl", **options)
    return scalability.run(setting, store, datasets=[GERMAN], judged=GERMAN, sizes=TINY)


@pytest.mark.slow
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalability, "JUDGED", (Way("sgd"), Way("u-dif")))
    result = run(tmp_path)
    data = result.data
    assert len(data[data["what"] == "training time"]) == 3  # methods
    assert len(data[data["what"] == "certificate"]) == 2 * 2  # 8 and 8x8 times ways
    assert np.isfinite(data["cpu_seconds"]).all() and (data["cpu_seconds"] > 0).all()
    bounds = data[data["what"] == "certificate"]
    assert (bounds["upper"] >= bounds["local"] - 1e-12).all()
    times, widths, depths = (table for _, table in result.tables)
    assert list(times["MILP, literature"]) == ["12"]
    slowest = data[data["what"] == "training time"].set_index("method")["cpu_seconds"]
    for way in BOUNDED:  # the paper has 50 epochs, and here were 20
        assert times[way.name].iloc[0] == f"{slowest[way.method] / 60 * 50 / 20:.2g}"
    assert list(widths["hidden layers"]) == ["1x8"] and list(depths["hidden layers"]) == ["1x8", "2x8"]
    assert not any(table.isna().to_numpy().any() for _, table in result.tables)
    longest = next(words for words in result.story if words.startswith("The longest"))
    assert "German, width 8; the paper at most 5)" in longest and "the paper less than 60" in longest
    assert [path.suffix for path in write(result, tmp_path, "command")] == [".png", ".csv", ".md"]
    again = run(tmp_path, only_known=True)
    assert again.data.equals(data)


def test_a_page_of_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, only_known=True)
    text = write(result, tmp_path, "command")[-1].read_text(encoding="utf-8")
    assert text.count("not run") == 3 + 3 * 4
    assert "nan" not in text.lower().replace("finance", "")


@pytest.mark.parametrize("name", ["adult", "credit", "german"])
def test_the_literature_has_a_time_for_each_width(name: str) -> None:
    assert len(scalability.paper.MILP_MINUTES[name]) == len(scalability.paper.MILP_WIDTHS) == 4
