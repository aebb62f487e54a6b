"""The experiment chooses on people whom its figures do not see, says what it finds, and survives an interruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isonomy
from studies import Setting, Store, targets, write
from studies.methods import Way
from studies.models import Size
from studies.tables import GERMAN
from studies.targets import PLAIN


def line(**found: Any) -> dict[str, Any]:
    return {"accuracy": 0.8, "balanced_accuracy": 0.7, "classes": 2, "local": 0.02, "shifted": 0.05} | found


def test_the_people_who_choose_are_training_people_and_not_learned_from() -> None:
    people = isonomy.load_population("german")
    learned, aside = targets.parted(people.train)
    assert set(learned.rows) | set(aside.rows) == set(people.train.rows)
    assert not set(learned.rows) & set(aside.rows)
    assert not set(aside.rows) & set(people.test.rows)
    assert len(aside) == 200


def test_a_goal_takes_the_first_alpha_that_reaches_it() -> None:
    model = targets.Model(Way("f-ibp"), (1.0, 2.0, 4.0), ("local", 0.01))
    weak, strong = line(option={"alpha": 1.0}, local=0.0099), line(option={"alpha": 2.0}, local=0.009)
    assert not targets.enough(model, [])
    assert not targets.enough(model, [weak])  # below the goal, but not by the margin
    assert targets.enough(model, [weak, strong])
    assert targets.chosen(model, [weak, strong], []) == {"alpha": 2.0}


def test_without_a_goal_the_strongest_alpha_that_costs_little_is_taken() -> None:
    model = targets.Model(Way("f-ibp"), (0.5, 1.0, 2.0, 4.0))
    plain = [line(option={"learning_rate": 1e-3}, accuracy=0.79), line(option={"learning_rate": 2e-3}, accuracy=0.80)]
    tried = [
        line(option={"alpha": alpha}, accuracy=accuracy, classes=classes)
        for alpha, accuracy, classes in ((0.5, 0.80, 2), (1.0, 0.795, 2), (2.0, 0.795, 1), (4.0, 0.78, 2))
    ]
    assert targets.chosen(model, tried, plain) == {"alpha": 1.0}
    assert targets.chosen(PLAIN, plain, plain) == {"learning_rate": 2e-3}


@pytest.mark.slow
def test_a_run_goes_on_where_it_was_and_calls_a_collapse_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    people = isonomy.load_population("german", domain="unbounded")
    plan = targets.Plan(GERMAN, (PLAIN, targets.Model(Way("f-ibp"), (0.1, 0.2))))
    seen: list[tuple[str, float, int]] = []
    original = targets.judged

    def spied(case: targets.Case, parameters: Any, way: Way, seed: int, *rest: Any) -> dict[str, Any]:
        seen.append((way.method, *parameters.get("alphas", parameters).values(), seed))
        judged = case.split[1]
        assert seed != targets.CHOICE_SEED or not set(judged.rows) & set(people.test.rows)
        assert seed == targets.CHOICE_SEED or set(judged.rows) == set(people.test.rows)
        found: dict[str, Any] = original(case, parameters, way, seed, *rest)
        return found | {"classes": 1}

    monkeypatch.setattr(targets, "judged", spied)
    for seeds in (1, 2):
        setting = Setting(False, tmp_path / "targets.work", None, seeds)
        size = Size(epochs=1, hidden=(4,), people=3)
        result = targets.run(setting, Store(setting.work / "lines.jsonl"), plans=[plan], size=size)
        page = write(result, tmp_path, "command")[-1]
    assert len(seen) == len(set(seen)) == 2 * (2 + 2)
    text = page.read_text(encoding="utf-8")
    assert text.count("predicts one class only") == 2 * (2 + 3)
    tested = [row for row in text.splitlines() if row.startswith("| f-ibp") and row.count("|") == 12]
    accuracies = [float(row.split("|")[4]) for row in tested]
    assert accuracies[0] == pytest.approx(np.mean(accuracies[1:]), abs=1e-4)
    names = ["networks", "targets.csv", "targets.md", "targets.work"]
    assert [each.name for each in sorted(tmp_path.iterdir())] == names
