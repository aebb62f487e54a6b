"""Impact ratios against a count by hand; unknown and small groups are counted and not compared."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import DataError
from isonomy.fairness import Bootstrap, group_fairness
from isonomy.fairness.groups import make_groupings
from isonomy.fairness.impact import impact_ratios, rates_of_scores
from isonomy.networks import Network
from isonomy.population import Feature, Label, Population, Schema


def crowd() -> Population:
    sex = ["f"] * 60 + ["m"] * 38 + ["x"] + [None]
    age = [20] * 50 + [70] * 50
    frame = pd.DataFrame({"sex": sex, "age": age, "score": np.arange(100.0), "yes": ["no", "yes"] * 50})
    features = (
        Feature("sex", "categorical", categories=("f", "m", "x"), protected=True, missing="category"),
        Feature("age", "integer", low=18, high=82, protected=True),
        Feature("score", low=0, high=100),
    )
    return Population.from_frame(frame, Schema("crowd", features, Label("yes", ("no", "yes"), favourable=("yes",))))


def selected(people: Population) -> pd.DataFrame:
    chosen = np.r_[np.arange(60) < 30, np.arange(38) < 38, False, True]
    group = group_fairness(chosen, people, bootstrap=Bootstrap(200))
    groupings, _ = make_groupings(people, None, None)
    return impact_ratios(group, people, groupings, 0.02).set_index(["attributes", "group"])


def test_ratios_are_to_the_group_that_is_selected_most() -> None:
    table = selected(crowd())
    row = table.loc[("sex", "f")]
    assert (row["people"], row["share"], row["rate"], row["ratio"]) == (60, 0.6, 0.5, 0.5)
    assert table.loc[("sex", "m"), "ratio"] == 1.0 and row["low"] < 0.5 < row["high"]


def test_unknown_and_small_groups_are_counted_and_not_compared() -> None:
    table = selected(crowd())
    for name, why, rate in (("missing", "unknown", 1.0), ("x", "small", 0.0)):
        row = table.loc[("sex", name)]
        assert (row["people"], row["why"], row["rate"]) == (1, why, rate) and math.isnan(row["ratio"])
    crossed = table.loc["sex × age"]
    assert crossed["people"].sum() == 100 and set(crossed.loc[crossed["why"] == "unknown"].index) == {
        "missing, age 66 and above"
    }


def test_hidden_groups_are_no_yardstick() -> None:
    people = crowd()
    group = group_fairness(np.r_[np.arange(60) < 30, np.ones(40) > 0], people, bootstrap=Bootstrap(200))
    groupings, _ = make_groupings(people, ["sex"], None)
    table = impact_ratios(group, people, groupings, 0.02, {("sex", "m")})
    row = table.set_index("group").loc["f"]
    assert "m" not in set(table["group"]) and math.isnan(row["ratio"]) and row["why"] == "no other group"


@pytest.mark.parametrize(("weight", "chosen", "why"), [(1.0, 0.0, "none selected"), (0.0, 1.0, "no rate")])
def test_why_a_group_has_no_ratio_is_said(weight: float, chosen: float, why: str) -> None:
    people = crowd()
    people = replace(people, weights=np.where(np.arange(100) < 60, weight, 1.0))
    group = group_fairness(np.full(100, chosen) > 0, people, bootstrap=Bootstrap(200))
    table = impact_ratios(group, people, make_groupings(people, ["sex"], None)[0], 0.02).set_index("group")
    assert table.loc["f", "why"] == why and math.isnan(table.loc["f", "ratio"])
    assert table.loc["m", "why"] == (why if weight else "no other group")


@pytest.mark.parametrize(("favourable", "above"), [(("high",), 38 / 38), (("low",), 0.0)])
def test_scores_are_set_against_the_median_of_all(favourable: tuple[str, ...], above: float) -> None:
    people = numbers(favourable)
    weight = np.zeros((1, people.schema.width))
    weight[0, -1] = 100.0
    model = Network.from_layers([weight], [np.zeros(1)], head="regression", name="number")
    group, rate, median = rates_of_scores(model, people)
    rows = group.groups[group.groups["attributes"] == "sex"].set_index("group")
    assert rows.loc["m", "selection_rate"] == pytest.approx(above)
    assert rows.loc["f", "selection_rate"] == pytest.approx(10 / 60 if favourable == ("high",) else 49 / 60)
    assert f"{'above' if favourable == ('high',) else 'below'} the median of all" in rate
    assert median == pytest.approx(49, abs=1)


def test_a_model_that_gives_all_the_same_has_no_ratios() -> None:
    people = numbers(("high",))
    model = Network.from_layers([np.zeros((1, people.schema.width))], [np.ones(1)], head="regression", name="flat")
    with pytest.raises(DataError, match="better than the median"):
        rates_of_scores(model, people)


def numbers(favourable: tuple[str, ...]) -> Population:
    people = crowd()
    frame = people.frame.assign(yes=np.arange(100.0))
    return Population.from_frame(frame, Schema("crowd", people.schema.features, Label("yes", favourable=favourable)))
