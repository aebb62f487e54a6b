"""The second table: the same measures, without the paper's brackets and without other places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies import Setting, Store, paper, uci, write
from studies.methods import Way
from studies.models import Size
from studies.tables import GERMAN, UCI

pytestmark = pytest.mark.slow

TINY = Size(rows=60, epochs=1, hidden=(4, 4), people=4, ways=(Way("sgd"), Way("l-dif", box=True)))


@pytest.mark.slow
def test_a_small_run(tmp_path: Path) -> None:
    setting = Setting(True, tmp_path / "uci.work", None, 1)
    result = uci.run(setting, Store(setting.work / "lines.jsonl"), datasets=[GERMAN], size=TINY)
    assert len(result.data) == 2
    assert np.isfinite(result.data[["accuracy", "lfc", "a_dfc_upper", "a_dfc_lower"]].to_numpy()).all()
    caption, table = result.tables[0]
    assert "delta 0.02, gamma 0.025, 1 epochs, learning rate 0.0025" in caption
    assert "E-DFC" not in table.columns and not table.isna().to_numpy().any()
    assert not any("(" in cell for cell in table["accuracy"])
    assert [path.suffix for path in write(result, tmp_path, "command")] == [".png", ".csv", ".md"]


@pytest.mark.parametrize("dataset", UCI, ids=lambda each: each.name)
def test_parameters_are_the_papers(dataset: object) -> None:
    assert isinstance(dataset, type(GERMAN))
    told = paper.PARAMETERS[dataset.name]
    assert (dataset.delta, dataset.gamma, dataset.epochs) == (told.delta, told.gamma, told.epochs) == (0.02, 0.025, 50)
    assert dataset.learning_rate == {"adult": 0.001, "credit": 0.01, "german": 0.0025}[dataset.name]
    assert Size().hidden == (told.width,) * told.depth
