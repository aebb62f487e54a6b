"""A window over a stream: who is in it, when it is looked at, and how often it may be wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.datasets.data_folder import needs_data

from isonomy.errors import ParameterError
from isonomy.fairness import group_fairness
from isonomy.monitor import Monitor, by_group
from isonomy.population import Feature, Label, Population, Schema

from .acs import californians
from .test_evaluation import reference


@given(st.lists(st.integers(0, 25), max_size=12), st.integers(8, 20))
@settings(max_examples=80, deadline=None)
def test_the_window_holds_the_latest_in_order(sizes: list[int], window: int) -> None:
    monitor, stream = Monitor(reference(None), 2, window=window, every=5, least=3), np.zeros((0, 2))
    for size in sizes:
        new = np.arange(len(stream), len(stream) + size, dtype=np.float64)[:, None] * [1.0, -1.0]
        due = monitor.add(new, new[:, 0] / 1000)
        stream = np.concatenate([stream, new])
        assert due == (len(stream) >= 5)
    assert monitor.arrived == len(stream)
    if len(stream):
        x, upper = monitor.people()
        assert np.array_equal(x, stream[-window:])
        assert np.array_equal(upper, stream[-window:, 0] / 1000)


def test_a_look_is_due_after_every_so_many_from_the_first_few_on() -> None:
    monitor = Monitor(reference(None), 2, window=20, every=10, least=15)
    looked = []
    for count in range(1, 61):
        if monitor.add(np.zeros((1, 2)), np.zeros(1)):
            found = monitor.look()
            looked.append((count, found.number, found.people))
    assert looked == [(15, 1, 15), (25, 2, 20), (35, 3, 20), (45, 4, 20), (55, 5, 20)]


def test_all_risks_together_are_no_more_than_allowed() -> None:
    monitor = Monitor(reference(None), 2, confidence=0.9, guarantee="all")
    risks = [monitor.risk(number) for number in range(1, 5000)]
    assert math.fsum(risks) <= 0.1 and math.fsum(risks) > 0.0999
    assert risks == sorted(risks, reverse=True)
    assert Monitor(reference(None), 2, confidence=0.9, guarantee="each").risk(77) == pytest.approx(0.1)


def test_looks_are_counted_on_across_restarts() -> None:
    monitor = Monitor(reference(None), 2, window=8, every=1, least=1, seen=41)
    monitor.add(np.zeros((4, 2)), np.zeros(4))
    found = monitor.look()
    assert found.number == 42 and found.risk == pytest.approx(0.05 / (42 * 43))


def test_looking_again_and_again_cries_wolf_no_more_often_than_allowed() -> None:
    """A stream whose mean is just epsilon: expired is wrong, and may be said in one run of five at the most."""
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(25):
        monitor = Monitor(reference(None, epsilon=0.5), 2, window=40, every=20, least=20, confidence=0.8)
        for _ in range(10):
            values = (rng.random(20) < 0.5).astype(float)
            monitor.add(np.zeros((20, 2)), values, values)
            if monitor.look().state == "expired":
                wrong += 1
                break
    assert wrong <= 5


def test_bounds_are_tightened_where_they_decide_nothing_and_only_once() -> None:
    asked: list[int] = []

    def tighten(x: Any) -> Any:
        asked.append(len(x))
        return np.full(len(x), 0.02)

    monitor = Monitor(reference(None, epsilon=0.1), 2, window=200, every=50, least=100, tighten=tighten)
    monitor.add(np.zeros((150, 2)), np.full(150, 0.5))
    assert monitor.look().state == "valid"
    monitor.add(np.zeros((50, 2)), np.full(50, 0.5))
    assert monitor.look().state == "valid"
    monitor.add(np.zeros((50, 2)), np.full(50, 0.01))
    assert monitor.look().state == "valid"
    assert asked == [150, 50]  # the third time the bounds at hand were enough
    assert monitor.people()[1].max() == 0.02


def test_tightening_never_loosens() -> None:
    monitor = Monitor(reference(None, epsilon=0.1), 2, window=50, least=1, tighten=lambda x: np.full(len(x), 0.9))
    monitor.add(np.zeros((50, 2)), np.full(50, 0.3))
    assert monitor.look().mean.observed == pytest.approx(0.3)


def test_the_refused_take_their_place_in_the_window() -> None:
    asked: list[int] = []

    def tighten(x: Any) -> Any:
        asked.append(len(x))
        return np.full(len(x), 0.02)

    monitor = Monitor(reference(None), 2, window=100, every=50, least=50, tighten=tighten)
    monitor.add(np.ones((59, 2)), np.full(59, 0.5))
    assert not monitor.look().refused.people
    assert monitor.refuse(41) is False and monitor.arrived == 100
    x, upper = monitor.people()
    assert len(x) == 59 and (x == 1.0).all() and upper.max() == 0.02
    found = monitor.look()
    assert (found.state, found.people, found.refused.people, found.refused.observed) == ("expired", 100, 41, 0.41)
    assert asked == [59]  # of the refused there is nothing to bound
    monitor.add(np.ones((100, 2)), np.full(100, 0.01))
    assert monitor.look().state == "valid"  # they have left the window
    monitor.refuse(100_000)
    found = monitor.look()
    assert (found.refused.people, found.distance, len(monitor.people()[0])) == (100, None, 0)


def test_what_cannot_be_used() -> None:
    for name, value in (("window", 7), ("every", 0), ("least", 0), ("confidence", 1.0), ("guarantee", "none")):
        options: dict[str, Any] = {name: value}
        with pytest.raises(ParameterError, match=f"'{name}'"):
            Monitor(reference(None), 2, **options)
    with pytest.raises(ParameterError, match="empty"):
        Monitor(reference(None), 2).look()


def test_groups() -> None:
    schema = Schema(
        "people",
        (
            Feature("age", "integer", low=0, high=80, origin=0, unit=80, protected=True, fill=40),
            Feature("sex", "categorical", categories=("f", "m"), protected=True, labels={"f": "female"}),
            Feature("pay", low=0, high=1),
        ),
    )
    rng = np.random.default_rng(0)
    age, gone, sex = rng.integers(0, 81, 400), rng.random(400) < 0.1, rng.random(400) < 0.3
    x = np.column_stack([np.where(gone, 0.5, age / 80), gone, sex, ~sex, rng.random(400)])
    upper = rng.random(400)
    found = {(group.feature, group.group): group for group in by_group(schema, x, upper)}
    assert set(found) == {
        ("age", "below 20"), ("age", "20 to below 40"), ("age", "40 to below 60"), ("age", "60 and above"),
        ("age", "missing"),
        ("sex", "female"), ("sex", "m"),
    }  # fmt: skip
    young = (age < 20) & ~gone
    assert found["age", "below 20"].people == young.sum()
    assert found["sex", "female"].mean_upper == pytest.approx(upper[sex].mean())
    assert found["age", "missing"].people == gone.sum()
    assert sum(group.people for (feature, _), group in found.items() if feature == "age") == 400
    few = by_group(schema, x[:20], upper[:20], smallest=8)
    assert all(group.people >= 8 for group in few)


def test_groups_are_those_of_group_fairness() -> None:
    """One rule for both: codes of few values, levels, and no cut of a number without a range."""
    schema = Schema(
        "people",
        (
            Feature("code", "integer", low=1, high=3, protected=True),
            Feature("rank", "ordinal", categories=("low", "high"), protected=True),
            Feature("height", protected=True),
        ),
        label=Label("y", ("no", "yes"), favourable=("yes",)),
    )
    rng = np.random.default_rng(0)
    frame = {"code": rng.integers(1, 4, 90), "rank": rng.choice(["low", "high"], 90), "height": rng.normal(size=90)}
    people = Population.from_frame(pd.DataFrame(frame | {"y": rng.choice(["no", "yes"], 90)}), schema)
    found = by_group(schema, people.x, rng.random(90), smallest=1)
    table = group_fairness(rng.integers(0, 2, 90), people, by=["code", "rank"]).groups
    spoken = [name.removeprefix("code ") for name in table["group"]]
    assert [(g.feature, g.group, g.people) for g in found] == list(
        zip(table["attributes"], spoken, table["people"], strict=True)
    )
    assert {group.group for group in found} == {"1", "2", "3", "low", "high"}


@pytest.mark.slow
@needs_data
def test_californians_stay_valid_and_a_population_built_to_be_far_expires() -> None:
    served, others, far = californians()
    monitor = Monitor(served.reference(1.0), others.x.shape[1], window=600, every=300, least=600)
    from isonomy.service.certifier import Certifier

    certifier = Certifier(served)
    states = []
    for start in range(0, 2400, 300):
        x = np.array(others.x[start : start + 300])
        if monitor.add(x, certifier(x).upper):
            states.append(monitor.look().state)
    assert states == ["valid"] * 7
    states = []
    for start in range(0, 900, 300):
        x = np.array(far.x[start : start + 300])
        monitor.add(x, certifier(x).upper)
        states.append(monitor.look().state)
    assert states[1:] == ["expired"] * 2
