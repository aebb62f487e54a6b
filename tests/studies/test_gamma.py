"""Brackets by gamma: no explicit population gets out of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isonomy import SensitiveSubspace, certify, certify_local, load_population
from isonomy.attacks import AttackBudget
from isonomy.networks import Network
from studies import Setting, Store, gamma, write
from studies.methods import Way
from studies.models import Size
from studies.tables import GERMAN

pytestmark = pytest.mark.slow

TINY = Size(rows=150, epochs=2, hidden=(8, 8), people=6)
LITTLE = AttackBudget(steps=5, restarts=0)


def network(width: int) -> Network:
    """Steep enough that shifts matter."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(8, width)), rng.normal(size=(8, 8)), rng.normal(size=(2, 8))]
    return Network.from_layers(weights, [rng.normal(size=len(w)) for w in weights], head="softmax")


@pytest.mark.slow
def test_more_radii_and_points_only_tighten_and_populations_stay_inside() -> None:
    people = load_population("german", domain="unbounded")
    metric = SensitiveSubspace.fit(people.train, ridge=1.0)
    some, f = people.test[:8], network(people.x.shape[1])
    found = certify(f, some, metric, 0.05, 0.2, ground=metric, rounds=0, attack=LITTLE, progress=None)
    dual, points = gamma.refined(found, 12), gamma.searched(found, 0.05, LITTLE)
    assert dual.bound(0.2).upper <= found.upper
    assert (
        points.worst(found.problem, found.weights, found.shift.resized(0.05)).value
        >= found.points.worst(found.problem, found.weights, found.shift.resized(0.05)).value
    )
    rng = np.random.default_rng(1)
    for shift in (0.05, 0.1, 0.2):
        lower, upper = (
            points.worst(found.problem, found.weights, found.shift.resized(shift)).value,
            dual.bound(shift).upper,
        )
        assert lower <= upper
        for _ in range(5):  # everybody moves somewhere, by shares of the budget
            moves = rng.normal(size=some.x.shape) * rng.exponential(size=(8, 1))
            cost = metric.distance(np.zeros_like(moves), moves).mean()
            moved = some.x + moves * (shift / cost * (1 - 1e-9))
            reached = certify_local(f, moved, metric, 0.05, domain="unbounded", attack=LITTLE, progress=None).mean_lower
            assert reached <= upper


def test_a_run(tmp_path: Path) -> None:
    setting, store = Setting(True, tmp_path / "gamma.work", None, 1), Store(tmp_path / "lines.jsonl")
    result = gamma.run(setting, store, datasets=[GERMAN], size=TINY, senses=gamma.SENSES[:1], radii=6)
    data = result.data
    assert len(data) == 2 * len(gamma.GAMMAS)
    assert (data["lower"] <= data["upper"]).all() and (data["upper"] <= data["box"] + 1e-9).all()
    for _, group in data.groupby("method"):
        assert group["upper"].is_monotonic_increasing and group["lower"].is_monotonic_increasing
    page = write(result, tmp_path, "python -m studies gamma --quick")[-1].read_text(encoding="utf-8")
    assert "| German | SGD |" in page and "at gamma 0.2**" in page
    nothing = Store(tmp_path / "none.jsonl", only_known=True)
    write(gamma.run(setting, nothing, datasets=[GERMAN], size=TINY), tmp_path, "")


@pytest.mark.slow
def test_the_default_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(TINY, people=3)
    monkeypatch.setattr(gamma, "WAYS", (Way("sgd"),))
    monkeypatch.setattr(gamma, "GAMMAS", (0.01, 0.2))
    setting, store = Setting(True, tmp_path / "gamma.work", None, 1), Store(tmp_path / "lines.jsonl")
    result = gamma.run(setting, store, datasets=[GERMAN], size=few, senses=gamma.SENSES[1:], radii=6)
    data = result.data
    assert set(data["sense"]) == {"default"} and data["box"].isna().all()
    assert (data["lower"] > 0).all() and (data["lower"] <= data["upper"]).all()
    kept = int(data["upper"].iloc[-1] <= 1.5 * data["lower"].iloc[-1])
    page = write(result, tmp_path, "")[-1].read_text(encoding="utf-8")
    assert "a target of at most 1.5. Realizable domain" in page and f"; {kept} of 1 reach the target." in page
    assert "another one for German (0.02)" in page
