"""Gaps between groups: against counts made here, and from the networks of the other experiments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import isonomy
from isonomy.reproduce import Setting, Store, group, measures, uci, write
from isonomy.reproduce.models import ADULT, GERMAN, Case, Dataset, Size, Way
from isonomy.training import FairClassifier

TINY = Size(rows=300, epochs=1, hidden=(4, 4), people=40, ways=(Way("sgd"), Way("sensr"), Way("f-ibp", box=True)))


def test_gaps_are_differences_of_rates(tmp_path: Path) -> None:
    """Counted by hand, for the two sexes of Adult."""
    case = Case(ADULT, Size(rows=2000, epochs=3, hidden=(8, 8), people=40), tmp_path)
    found = group.gaps(case, Way("sgd"), 0)
    people = isonomy.load_population("adult", domain="unbounded").test
    network = isonomy.load_network(next(tmp_path.glob("*.onnx")))
    chosen = network(people.x)[:, 1] > network(people.x)[:, 0]
    woman, rich = people.frame["sex"].to_numpy() == "Female", np.asarray(people.y) == 1
    gap = {
        name: abs(chosen[of & woman].mean() - chosen[of & ~woman].mean())
        for name, of in (("all", rich | ~rich), ("rich", rich), ("poor", ~rich))
    }
    assert found["demographic_parity"] == pytest.approx(gap["all"])
    assert found["equal_opportunity"] == pytest.approx(gap["rich"])
    assert found["equalised_odds"] == pytest.approx(max(gap["rich"], gap["poor"]))
    assert found["demographic_parity_from"] <= found["demographic_parity"] <= found["demographic_parity_to"]
    some = people.sample(40)
    local = isonomy.certify_local(network, some, case.metric, ADULT.delta)
    woman = some.frame["sex"].to_numpy() == "Female"
    low = local.lower[woman].mean() - local.upper[~woman].mean(), local.lower[~woman].mean() - local.upper[woman].mean()
    high = (
        local.upper[woman].mean() - local.lower[~woman].mean(),
        local.upper[~woman].mean() - local.lower[woman].mean(),
    )
    assert found["if_parity_low"] == pytest.approx(max(*low, 0.0), abs=2e-3)  # the search here is another one
    assert found["if_parity_high"] == pytest.approx(max(high), abs=2e-3)


def test_the_networks_are_those_of_the_other_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "certificates", lambda case, way, seed: dict(case.network(way, seed).facts))
    first = Setting(True, tmp_path / "uci.work", None, 1)
    uci.run(first, Store(first.work / "lines.jsonl"), datasets=[GERMAN], size=TINY)
    monkeypatch.setattr(FairClassifier, "fit", lambda *_, **__: pytest.fail("trained again"))
    setting = Setting(True, tmp_path / "group.work", None, 1)
    result = group.run(setting, Store(setting.work / "lines.jsonl"), datasets=[GERMAN], size=TINY)
    assert len(result.data) == 3 and np.isfinite(result.data["equalised_odds"]).all()
    assert (result.data["if_parity_low"] <= result.data["if_parity_high"]).all()
    assert [path.suffix for path in write(result, tmp_path, "command")] == [".png", ".csv", ".md"]


def test_a_page_of_nothing(tmp_path: Path) -> None:
    setting = Setting(True, tmp_path / "group.work", None, 1)
    income = Dataset(**{**GERMAN.__dict__, "name": "income", "title": "Income"})
    store = Store(setting.work / "lines.jsonl", only_known=True)
    result = group.run(setting, store, datasets=[income], size=TINY)
    assert result.tables[0][1]["demographic parity"].isna().all()
    text = write(result, tmp_path, "command")[-1].read_text(encoding="utf-8")
    assert "not run" in text and "nan" not in text.lower().replace("finance", "")
