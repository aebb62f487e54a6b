"""Shifts that lie within gamma by construction: that they do, and that certificates hold for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from tests.datasets.data_folder import FOLDER, needs_data

from isonomy import FairClassifier, SensitiveSubspace, certify, certify_local, load_population
from isonomy.attacks import AttackBudget
from isonomy.datasets import make_moons
from isonomy.networks import Network
from isonomy.population import DomainKind, Population
from isonomy.similarity import WeightedLp
from isonomy.similarity.ground import ground_metric
from studies import Result, Setting, Store, paper, shifted, states, tables, write, years
from studies.methods import Way
from studies.models import Case, Size
from studies.shifted import Places, Shifted, gamma_of, samples
from studies.shifts import Shift, constructed, costs_between
from studies.tables import COVERAGE, EMPLOY, INCOME, Dataset

pytestmark = pytest.mark.slow

LITTLE = AttackBudget(steps=8, restarts=0)
TINY = Size(rows=300, epochs=2, hidden=(8, 8), people=12, others=2)


def distance(x: np.ndarray, others: np.ndarray, shift: Shift, weights: np.ndarray | None = None) -> float:
    """W_1 between the individuals, with their weights, and a shift of them, as a linear program over all couplings."""
    everybody = np.concatenate([x, others])
    cost = np.linalg.norm(x[:, None] - everybody[None], axis=2)
    n, m = cost.shape
    leave, arrive = np.kron(np.eye(n), np.ones((1, m))), np.kron(np.ones((1, n)), np.eye(m))
    before = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    after = np.concatenate([shift.stays, shift.comes])
    found = linprog(cost.ravel(), A_eq=np.concatenate([leave, arrive]), b_eq=np.concatenate([before, after]))
    assert found.success
    return float(found.fun)


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """A survey of three states: German applicants by age, with sampling weights that are far from equal."""
    ages = {"YO": (0, 30), "MI": (30, 45), "OL": (45, 200)}

    def load(source: str, *, states: list[str], years: list[int], domain: DomainKind) -> Population:
        assert source == "acs-coverage" and years == [2018]
        people = load_population("german", domain=domain)
        low, high = ages[states[0]]
        some = people[people.frame["age"].between(low, high, inclusive="left").to_numpy()]
        return replace(some, weights=np.random.default_rng(0).exponential(size=len(some)) ** 3 + 0.01)

    monkeypatch.setattr(tables, "load_population", load)
    monkeypatch.setattr(shifted, "describe", lambda _: SimpleNamespace(here=[f"{state} 2018" for state in ages]))
    return replace(COVERAGE, load={"states": ["MI"], "years": [2018]}, words="the middle-aged")


@pytest.mark.slow
def test_a_run_on_a_survey_with_weights(survey: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is computed and drawn; the constructed shifts are within gamma of what was certified."""
    certified, built = [], []

    def certify_and_tell(network: Network, people: Population, *rest: Any, **options: Any) -> Any:
        certified.append(people)
        return certify(network, people, *rest, **options)

    def construct_and_tell(*given: Any, **options: Any) -> list[Shift]:
        built.append(list(constructed(*given, **options)))
        return built[-1]

    monkeypatch.setattr(shifted, "certify", certify_and_tell)
    monkeypatch.setattr(shifted, "constructed", construct_and_tell)
    setting, store = Setting(True, tmp_path / "work", None, 1), Store(tmp_path / "lines.jsonl")

    def run(store: Store) -> Result:
        return states.run(setting, store, datasets=[survey], size=TINY, ways=(Way("sgd"),))

    result = run(store)
    (home,), gamma = certified, gamma_of(survey)
    elsewhere = samples(Case(survey, TINY, Path()), Places(years=False))
    assert [place for place, _ in elsewhere] == ["YO 2018", "OL 2018"]
    for (_, people), shifts in zip(elsewhere, built, strict=True):
        assert sum(shift.comes.sum() > 0 for shift in shifts) == 5
        for shift in shifts:
            assert distance(np.array(home.x), np.array(people.x), shift, home.weights) <= gamma + 1e-9
    data = result.data
    places, made = data[data["shift"].isna()], data[data["shift"].notna()]
    assert len(places) == 2 and len(made) == 2 * 5
    for (_, people), told in zip(elsewhere, places["distance"], strict=True):
        cost = np.linalg.norm(home.x[:, None] - people.x[None], axis=2)
        rows, columns = linear_sum_assignment(cost)  # as many here as there: an optimal coupling is a matching
        assert told == pytest.approx(cost[rows, columns].mean())
    for some in (places, made):
        assert (some["observed"] <= some["upper"]).all() and (some["observed"] > 0).all()
    page = write(result, tmp_path, "python -m studies")[-1].read_text(encoding="utf-8")
    assert "2 of 2 cases" in page and "10 of 10 shifts" in page and "not run" not in page
    assert run(Store(store.path, only_known=True)).data.equals(data)


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


@pytest.mark.slow
def test_certificates_hold_for_shifts_within_gamma() -> None:
    """Older applicants stand for another state; two networks, two gammas, five shifts each."""
    people = load_population("german", domain="unbounded")
    metric = SensitiveSubspace.fit(people.train, ridge=1.0)
    older = people.train[(people.train.frame["age"] >= 50).to_numpy()]
    some, others = people.test[:30], older[:60]
    costs = costs_between(np.array(some.x), np.array(others.x), ground_metric("l2", some.x.shape[1]))
    assert costs.min() > 0  # nobody is on both sides
    checked = 0
    for method in ("sgd", "u-dif"):
        model = FairClassifier(
            method, delta=0.05, gamma=0.1, metric=metric, domain="unbounded", hidden=(16, 16), epochs=60,
            learning_rate=1e-2, random_state=0, validation=0.0, progress=None,
        ).fit(people)  # fmt: skip
        assert not model.collapsed_
        f = model.network_
        found = certify(f, some, metric, 0.05, 0.4, attack=LITTLE, rounds=1, progress=None)
        there = certify_local(f, others, metric, 0.05, attack=LITTLE, progress=None).lower
        here = found.local.lower
        for gamma, upper in found.curve([0.4, 1.5])[["gamma", "upper"]].to_numpy().tolist():
            for shift in constructed(costs, here, there, gamma):
                assert shift.cost <= gamma
                assert shift.comes.sum() > 2 / 30  # several people move
                assert shift.mean(here, there) <= upper
                checked += 1
        greedy = max(shift.mean(here, there) for shift in constructed(costs, here, there, 1.5))
        assert greedy > here.mean()  # the unkind ones are unkind
    assert checked == 20


@pytest.mark.slow
def test_a_bound_a_fifth_smaller_would_not_hold() -> None:
    """In two dimensions there is somebody to become everywhere, and the unkind shifts come close to the bound."""
    people = make_moons(40)
    some, metric = people[:20], WeightedLp([1.0, 0.1], 2)
    sides = [np.linspace(low, high, 20) for low, high in zip(some.domain.low, some.domain.high, strict=True)]
    others = np.stack([side.ravel() for side in np.meshgrid(*sides)], axis=1)
    model = FairClassifier(
        "u-dif", delta=0.1, gamma=0.1, metric=metric, hidden=(8,), epochs=60, learning_rate=5e-3,
        random_state=0, progress=None,
    ).fit(np.array(people.x), np.asarray(people.y))  # fmt: skip
    found = certify(model.network_, some, metric, 0.1, 0.1, attack=LITTLE, progress=None)
    local = certify_local(model.network_, others, metric, 0.1, domain=some.domain, attack=LITTLE, progress=None)
    costs = costs_between(np.array(some.x), others, ground_metric("l2", 2))
    here, there = found.local.lower, local.lower
    for gamma, upper in found.curve([0.02, 0.1, 0.3])[["gamma", "upper"]].to_numpy().tolist():
        means = [shift.mean(here, there) for shift in constructed(costs, here, there, gamma)]
        assert here.mean() < max(means)
        assert 0.8 * upper < max(means) <= upper


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
    page = write(result, tmp_path, "python -m studies")[-1].read_text(encoding="utf-8")
    assert "within gamma by construction" in page
    again = Store(tmp_path / "lines.jsonl", only_known=True)
    assert len(module.run(setting, again, datasets=[dataset], size=TINY, ways=(Way("sgd"),)).data) == len(result.data)


@needs_data
def test_samples_are_dealt_out_at_random_and_nobody_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))
    case = Case(years.HAWAII[1], Size(people=500, others=1), Path())
    found = samples(case, Places(years=True, samples=5))
    whole = tables.load_population("acs-income", encoding="paper", states=["HI"], years=[2015], domain="unbounded")
    assert [place for place, _ in found] == ["HI 2015"] * 5
    rows = [index for _, some in found for index in some.frame.index]
    assert len(set(rows)) == len(rows) == 2500
    for _, some in found:  # each of them comes from all over the table
        assert abs(whole.frame.index.get_indexer(some.frame.index).mean() / len(whole) - 0.5) < 0.06


def test_all_places_share_the_risk(survey: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least so far apart, with 95 % confidence for all together, proved from everybody."""
    asked = []

    def wasserstein(one: Population, other: Population, *, confidence: float = 0.95, **_: Any) -> SimpleNamespace:
        asked.append((len(one), len(other), confidence))
        return SimpleNamespace(estimate=2.0, floor=1.0, lower=0.5 if len(one) > 12 else 0.0)

    monkeypatch.setattr(shifted, "wasserstein", wasserstein)
    case = Case(survey, TINY, Path())
    drawn = samples(case, Places(years=False, samples=3))
    assert [place for place, _ in drawn] == ["YO 2018"] * 3 + ["OL 2018"] * 3
    found = shifted.distances(case, lambda: drawn)["places"]
    assert found[4] == {"place": "OL 2018", "distance": 2.0, "floor": 1.0, "at_least": 0.5}
    proved = [each for each in asked if each[0] == len(case.whole)]
    assert [count for _, count, _ in proved] == [len(shifted.people_of(case, name)) for name in ("YO 2018", "OL 2018")]
    assert sum(1 - confidence for *_, confidence in proved) == pytest.approx(0.05)


@needs_data
def test_only_delaware_s_ancestry_is_suppressed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says of the largest distance."""
    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))
    case = Case(COVERAGE, Size(), Path())
    shares = {place: (shifted.people_of(case, place).frame["ANC"] == 8).mean() for place in ("DE 2018", "HI 2018")}
    assert shares["DE 2018"] > 0.5 and shares["HI 2018"] == 0 and (case.whole.frame["ANC"] < 8).all()


@needs_data
def test_places_are_other_states_or_other_years(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISONOMY_DATA", str(FOLDER))
    elsewhere = Places(years=False).of(INCOME, Size())
    assert "NY 2018" in elsewhere and "CA 2018" not in elsewhere and "HI 2015" not in elsewhere
    assert Places(years=True).of(EMPLOY, Size()) == ["MA 2015", "MA 2016", "MA 2017"]
    assert Places(years=True).of(years.HAWAII[0], Size()) == ["HI 2015"]


def test_what_is_said_of_distances() -> None:
    """Which populations are proved to be out of reach, counted once each, and why one state is the furthest."""
    apart = [("AK 2018", 2.5, 0.41), ("DE 2018", 4.3, 2.4), ("NY 2018", 2.1, 0.4), ("NY 2018", 2.2, 0.4)]
    places = [{"place": name, "distance": far, "floor": 2.0, "at_least": least} for name, far, least in apart]
    found = Shifted([COVERAGE], {"Coverage, California 2018": {"places": places}}, [], [])
    told = "\n".join(states.story(found, Size(), "states", "", "") + tuple(states._suppressed(found)))
    assert "2 of 3 for Coverage, California 2018 (0.4)." in told
    assert "The next is AK 2018 (2.500)." in told
    row = states.tables(found)[0][1].iloc[0]
    assert row["samples"] == "4" and row["largest"] == "4.300 (DE 2018)"
    assert row["at least, median"] == "0.410" and row["at least, largest"] == "2.400 (DE 2018)"
    assert not states._suppressed(replace(found, datasets=[]))


def test_a_page_of_nothing(tmp_path: Path) -> None:
    for module in (states, years):
        nothing = module.run(Setting(True, tmp_path, None, 1), Store(tmp_path / "none", only_known=True))
        write(nothing, tmp_path, "")
    assert (tmp_path / "years.md").exists()
    assert paper.GAMMAS == {"employ": 0.15, "coverage": 0.4}
