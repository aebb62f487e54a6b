"""Shifts that lie within gamma by construction: that they do, and that certificates hold for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.datasets.data_folder import FOLDER, needs_data

from isonomy import FairClassifier, SensitiveSubspace, certify, certify_local, load_population
from isonomy.attacks import Effort
from isonomy.reproduce import Setting, Store, states, write, years
from isonomy.reproduce.models import EMPLOY, INCOME, Case, Size, Way
from isonomy.reproduce.shifted import PRINTED, Places, samples
from isonomy.reproduce.shifts import Shift, constructed, costs_between
from isonomy.similarity.ground import ground_metric

LITTLE = Effort(steps=8, restarts=0)
TINY = Size(rows=300, epochs=2, hidden=(8, 8), people=12, others=2)


def distance(x: np.ndarray, others: np.ndarray, shift: Shift) -> float:
    """W_1 between the individuals and a shift of them, as a linear program over all couplings."""
    everybody = np.concatenate([x, others])
    cost = np.linalg.norm(x[:, None] - everybody[None], axis=2)
    n, m = cost.shape
    leave, arrive = np.kron(np.eye(n), np.ones((1, m))), np.kron(np.ones((1, n)), np.eye(m))
    weights = np.concatenate([shift.stays, shift.comes])
    found = linprog(
        cost.ravel(), A_eq=np.concatenate([leave, arrive]), b_eq=np.concatenate([np.full(n, 1 / n), weights])
    )
    assert found.success
    return float(found.fun)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_constructed_shifts_lie_within_gamma(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m, gamma = int(rng.integers(1, 6)), int(rng.integers(1, 6)), float(rng.choice([0.0, 0.1, 0.5, 3.0]))
    x, others = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + 1
    here, there = rng.random(n), rng.random(m)
    costs = costs_between(x, others, ground_metric("l2", 2))
    assert np.allclose(costs, np.linalg.norm(x[:, None] - others[None], axis=2))
    shifts = list(constructed(costs, here, there, gamma, seed=seed % 100))
    assert len(shifts) == 5
    for shift in shifts:
        assert shift.stays.sum() + shift.comes.sum() == pytest.approx(1)
        assert min(shift.stays.min(), shift.comes.min()) >= 0
        assert shift.cost <= gamma
        assert distance(x, others, shift) <= shift.cost + 1e-9
        assert shift.mean(here, there) == pytest.approx(shift.stays @ here + shift.comes @ there)


def test_certificates_hold_for_shifts_within_gamma() -> None:
    """Older applicants stand for another state; two networks, three gammas, five shifts each."""
    people = load_population("german", domain="unbounded")
    age = people.frame["age"].to_numpy()
    metric = SensitiveSubspace.fit(people.train, ridge=1.0)
    some, others = people.test[:30], people[age >= 50][:30]
    costs = costs_between(np.array(some.x), np.array(others.x), ground_metric("l2", some.x.shape[1]))
    checked = 0
    for method in ("sgd", "u-dif"):
        model = FairClassifier(
            method, delta=0.05, gamma=0.1, metric=metric, domain="unbounded", hidden=(16, 16), epochs=60,
            learning_rate=1e-2, random_state=0, progress=None,
        ).fit(people)  # fmt: skip
        assert not model.collapsed_
        f = model.network_
        found = certify(f, some, metric, 0.05, 0.4, effort=LITTLE, rounds=1, progress=None)
        there = certify_local(f, others, metric, 0.05, effort=LITTLE, progress=None).lower
        here = found.local.lower
        for gamma, upper in found.curve([0.1, 0.4, 1.5])[["gamma", "upper"]].to_numpy().tolist():
            for shift in constructed(costs, here, there, gamma):
                assert shift.cost <= gamma
                observed = shift.mean(here, there)
                assert observed <= upper
                checked += 1
        greedy = max(shift.mean(here, there) for shift in constructed(costs, here, there, 1.5))
        assert greedy > here.mean()  # the unkind ones are unkind
    assert checked >= 20


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(("module", "dataset"), [(states, INCOME), (years, EMPLOY)])
def test_a_run_on_the_survey(
    module: type[states], dataset: states.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))
    setting, store = Setting(True, tmp_path / "work", None, 1), Store(tmp_path / "lines.jsonl")
    result = module.run(setting, store, datasets=[dataset], size=TINY, ways=(Way("sgd"),))
    built = result.data[result.data["shift"].notna()]
    assert len(built) >= 10
    assert (built["cost"] <= built["gamma"]).all() and (built["observed"] <= built["upper"]).all()
    places = result.data[result.data["shift"].isna()]
    assert (places["observed"] <= places["upper"]).all() and (places["observed"] <= places["lfc"]).all()
    page = write(result, tmp_path, "isonomy reproduce")[-1].read_text(encoding="utf-8")
    assert "within gamma by construction" in page
    again = Store(tmp_path / "lines.jsonl", only_known=True)
    assert len(module.run(setting, again, datasets=[dataset], size=TINY, ways=(Way("sgd"),)).data) == len(result.data)


@needs_data
def test_samples_are_dealt_out_at_random_and_nobody_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))
    case = Case(years.HAWAII[1], Size(people=500, others=1), Path())
    found = samples(case, Places(years=True, samples=5))
    whole = load_population("acs-income", encoding="paper", states=["HI"], years=[2015], domain="unbounded")
    assert [place for place, _ in found] == ["HI 2015"] * 5
    rows = [index for _, some in found for index in some.frame.index]
    assert len(set(rows)) == len(rows) == 2500
    for _, some in found:  # each of them comes from all over the table
        assert abs(whole.frame.index.get_indexer(some.frame.index).mean() / len(whole) - 0.5) < 0.06


@needs_data
def test_places_are_other_states_or_other_years(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))
    elsewhere = Places(years=False).of(INCOME, Size())
    assert "NY 2018" in elsewhere and "CA 2018" not in elsewhere and "HI 2015" not in elsewhere
    assert Places(years=True).of(EMPLOY, Size()) == ["MA 2015", "MA 2016", "MA 2017"]
    assert Places(years=True).of(years.HAWAII[0], Size()) == ["HI 2015"]


def test_a_page_of_nothing(tmp_path: Path) -> None:
    for module in (states, years):
        nothing = module.run(Setting(True, tmp_path, None, 1), Store(tmp_path / "none", only_known=True))
        write(nothing, tmp_path, "")
    assert (tmp_path / "years.md").exists()
    assert PRINTED == {"employ": 0.15, "coverage": 0.4}
