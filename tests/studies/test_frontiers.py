"""Frontiers: methods are chosen alike, on people that figures do not see; a run goes on; verdicts follow numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies import Setting, Store, frontiers, write
from studies.frontiers import DEFAULT, LEVELS, PLAIN, beaten_by, chosen, mean_and_error, verdicts, wins
from studies.tables import CREDIT, GERMAN


def model(method: str, seed: int, loss: float, upper: float, test: float, **more: Any) -> dict[str, Any]:
    scores = dict.fromkeys(frontiers.NAMES, 0.0) | {"log_loss": test}
    row = {"dataset": "german", "seed": seed, "method": method, "option": 1.0, "chosen_loss": loss}
    return row | {"chosen_upper": upper, "collapsed": False} | scores | more


def models() -> pd.DataFrame:
    rows = []
    for seed in (0, 1):
        rows += [
            model(DEFAULT, seed, 0.30, 0.009, 0.31 + seed / 100, family="additive"),
            model(DEFAULT, seed, 0.25, 0.084, 0.26 + seed / 100, family="additive"),
            model(PLAIN, seed, 0.32, 0.009, 0.32 + seed / 100),
            model("u-dif", seed, 0.20, 0.001, 0.20, collapsed=True),
            model("u-dif", seed, 0.24, 0.085, 0.25 + seed / 100),
            model("u-dif", seed, 0.10, 0.086, 0.10),
        ]
    return pd.DataFrame(rows)


def test_the_lowest_loss_among_those_certified_that_decide() -> None:
    table = chosen(models(), [GERMAN])
    at = table.set_index(["level", "method", "seed"])["log_loss"]
    assert at[0.05, DEFAULT, 0] == 0.31 and at[0.1, DEFAULT, 0] == 0.26
    assert at[0.1, "u-dif", 1] == 0.26 and (0.05, "u-dif", 0) not in at.index
    assert table["level"].isin(LEVELS).all() and not (table["level"] == 0.01).any()
    apart = table[(table["method"] == DEFAULT) & (table["level"] == 0.05)]["apart"]
    np.testing.assert_allclose(apart, -0.01)


def test_verdicts_follow_the_numbers() -> None:
    table = chosen(models(), [GERMAN])
    assert beaten_by(table, "german") == ["u-dif at 0.1"]
    line = {"dataset": "german", "pairs": [{"level": 0.05, "apart": -0.01, "error": 0.004}]}
    assert wins([line], "german")[0].startswith("0.05 by 0.0100")
    assert wins([line, line | {"pairs": [{"level": 0.05, "apart": 0.0, "error": 0.004}]}], "german") == []
    words = " ".join(verdicts(table, [line], [GERMAN, CREDIT]))
    assert "on 0 of 1 tables" in words and "German (behind u-dif at 0.1)" in words and "on 1 of 1 tables" in words
    assert mean_and_error(pd.Series([1.0, 3.0])) == (2.0, 1.0)


@pytest.mark.slow
def test_a_run_goes_on_and_learns_from_nobody_it_judges(tmp_path: Path) -> None:
    size = frontiers.Size(200, 2, 2, (4,), 100, {"ftu": (0.0,)})
    sample = frontiers.Sample(GERMAN, size, 0)
    assert not set(sample.people[0].rows) & set(sample.people[1].rows)
    for again in (False, True):
        setting = Setting(True, tmp_path / "frontiers.work", None, 1)
        store = Store(setting.work / "lines.jsonl")
        result = frontiers.run(setting, store, datasets=(GERMAN,), size=size)
        page = write(result, tmp_path, "command")[-1].read_text(encoding="utf-8")
        assert store.computed == (0 if again else 2)
    assert "| 0.1 | default | 1 |" in page and "| 0.1 | ftu | 1 |" in page
