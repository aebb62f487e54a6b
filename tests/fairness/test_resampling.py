"""Intervals: the same for the same seed, right in distribution, and right as often as they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import isonomy
from isonomy.fairness import Bootstrap, group_fairness
from isonomy.fairness.rates import make_rates
from isonomy.networks.network import Network
from isonomy.similarity import WeightedLp

from .people import PAY, RACE, SEX, population, random_people


def test_the_seed_decides() -> None:
    people, predicted = random_people(0)
    first, again, other = (group_fairness(predicted, people, bootstrap=Bootstrap(200, seed=seed)) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.summary, again.summary)
    pd.testing.assert_frame_equal(first.groups, again.groups)
    assert not first.summary["low"].equals(other.summary["low"])
    pd.testing.assert_series_equal(first.summary["value"], other.summary["value"])


@pytest.mark.parametrize("weight", [False, True])
def test_a_naive_bootstrap_finds_the_same_intervals(weight: bool) -> None:
    people, predicted = random_people(5, weight=weight)
    found = group_fairness(predicted, people, by=["sex"], bootstrap=Bootstrap(4000))
    rng, w = np.random.default_rng(9), people.weights
    male, y = (people.frame["sex"] == "m").to_numpy(), np.asarray(people.y) == 1
    replicates = []
    for _ in range(4000):
        i = rng.integers(0, len(people), len(people))
        part = [
            np.average(predicted[i][who], weights=w[i][who])
            for who in (~male[i], male[i], ~male[i] & y[i], male[i] & y[i], ~male[i] & ~y[i], male[i] & ~y[i])
        ]
        replicates.append(part)
    drawn = np.array(replicates)
    rows = found.groups.set_index("group")
    for column, (group, name) in enumerate(
        (group, name) for name in ("selection_rate", "true_positive_rate", "false_positive_rate") for group in "fm"
    ):
        ends = rows.loc[group, [f"{name}_low", f"{name}_high"]].to_numpy(dtype=float)
        np.testing.assert_allclose(ends, np.quantile(drawn[:, column], [0.025, 0.975]), atol=0.012)
    summary = found.summary.set_index("metric")
    low, high = np.quantile(drawn[:, 1] - drawn[:, 0], [0.025, 0.975])
    ends = summary.loc["demographic_parity_difference", ["low", "high"]].to_numpy(dtype=float)
    np.testing.assert_allclose(ends, [max(low, -high, 0.0), max(high, -low)], atol=0.012)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975])
    ends = summary.loc["demographic_parity_ratio", ["low", "high"]].to_numpy(dtype=float)
    np.testing.assert_allclose(ends, [min(low, 1 / high), min(1.0, high, 1 / low)], atol=0.03)


def test_rates_of_none_and_all_are_not_certain() -> None:
    n = 40
    frame = {"sex": ["f"] * n + ["m"] * n, "y": ["yes", "no"] * n}
    people = population(frame)
    rows = group_fairness(np.repeat([0, 1], n), people, bootstrap=Bootstrap(4000)).groups.set_index("group")
    exact = stats.beta.ppf(0.975, 1, n)  # Clopper and Pearson's upper limit at none of n
    assert rows.loc["f", "selection_rate_low"] == 0.0
    assert rows.loc["f", "selection_rate_high"] == pytest.approx(exact, rel=0.1)
    assert rows.loc["m", "selection_rate_low"] == pytest.approx(1 - exact, rel=0.02)
    assert rows.loc["m", "selection_rate_high"] == 1.0


def test_a_violation_that_nobody_has_is_not_certain_either() -> None:
    """Nobody of 40 has a violation, or everybody of 40 the same one: others may have another."""
    people = population({"sex": ["f"] * 40 + ["m"] * 40, "y": ["yes", "no"] * 40})
    network = Network.from_layers([np.zeros((2, people.schema.width))], [np.zeros(2)])
    certificate = isonomy.certify_local(network, people, WeightedLp(np.ones(people.schema.width), 2), 0.2)
    same = np.repeat([0.0, 0.3], 40)
    told = replace(certificate, lower=same, upper=same)
    found = group_fairness(network, people, certificate=told, bootstrap=Bootstrap(4000))
    exact = stats.beta.ppf(0.975, 1, 40)
    ends = found.groups.set_index("group")[["violation_low", "violation_high"]]
    assert ends.loc["f"].tolist() == [0.0, pytest.approx(exact, rel=0.1)]
    assert ends.loc["m"].tolist() == pytest.approx([0.3 * (1 - exact), 0.3 + 0.7 * exact], rel=0.05)
    low, high = found.summary.set_index("metric").loc["if_parity", ["low", "high"]]
    assert low < 0.25 and 0.33 < high < 0.5


def test_few_people_of_unequal_weights_are_not_certain() -> None:
    """Three selected of 150, who weigh little: a bootstrap sees no more than what they weigh."""
    rng = np.random.default_rng(0)
    weights, chosen = np.exp(rng.normal(size=300)), np.zeros(300, dtype=int)
    chosen[np.argsort(weights[:150])[30:33]] = 1
    chosen[150:250] = 1
    people = population({"sex": ["f"] * 150 + ["m"] * 150, "y": ["yes", "no"] * 150, "w": weights}, weight=True)
    row = group_fairness(chosen, people, bootstrap=Bootstrap(4000)).groups.set_index("group").loc["f"]
    own = weights[:150]
    size = own.sum() ** 2 / (own**2).sum()
    hits = row["selection_rate"] * size
    exact = stats.beta.ppf(0.025, hits, size - hits + 1), stats.beta.ppf(0.975, hits + 1, size - hits)
    assert row["selection_rate_low"] == pytest.approx(exact[0], abs=1e-3)
    assert row["selection_rate_high"] == pytest.approx(exact[1], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate", "spread"), [(150, 0.02, 1.0), (50, 0.1, 1.5), (300, 0.1, 1.0)])
def test_rates_of_few_with_unequal_weights_are_held_as_often_as_they_say(n: int, rate: float, spread: float) -> None:
    """200 samples: 0.95 has a standard error of 0.0154, none may fall below 0.904; a bootstrap has 0.75 to 0.89."""
    rng, held = np.random.default_rng(1), 0
    for seed in range(200):
        weights = np.exp(spread * rng.normal(size=2 * n))
        people = population({"sex": ["f", "m"] * n, "y": ["yes", "no"] * n, "w": weights}, weight=True)
        found = group_fairness(
            (rng.random(2 * n) < rate).astype(int), people, outcomes=False, bootstrap=Bootstrap(400, seed=seed)
        )
        row = found.groups.set_index("group").loc["f"]
        held += row["selection_rate_low"] <= rate <= row["selection_rate_high"]
    assert held >= 0.904 * 200


def test_a_lone_person_could_be_anything() -> None:
    frame = {"sex": ["f"] * 60 + ["m"], "y": ["yes", "no"] * 30 + ["yes"]}
    found = group_fairness(np.array([1, 0, 1] * 20 + [1]), population(frame))
    row = found.groups.set_index("group").loc["m"]
    assert (row["selection_rate_low"], row["selection_rate_high"]) == (pytest.approx(0.025, abs=0.03), 1.0)
    assert row["small"]
    assert found.four_fifths == {"sex": "undecided"}


def test_four_fifths_by_the_interval() -> None:
    def verdict(n: int, first: float, second: float, few: int = 0, taken: int = 5) -> str:
        chosen = [i < first * n for i in range(n)] + [i < second * n for i in range(n)]
        chosen += [i < taken for i in range(few)]
        frame = {"race": ["a"] * n + ["b"] * n + ["c"] * few, "y": ["yes", "no"] * n + ["yes"] * few}
        return group_fairness(np.array(chosen), population(frame, RACE, PAY)).four_fifths["race"]

    assert verdict(4000, 0.5, 0.5) == "pass"
    assert verdict(4000, 0.3, 0.5) == "fail"
    assert verdict(4000, 0.4, 0.5) == "undecided"
    assert verdict(40, 0.5, 0.5) == "undecided"
    assert verdict(4000, 0.5, 0.5, few=5) == "undecided"  # nobody can tell about five people
    assert verdict(4000, 0.3, 0.5, few=5) == "fail"
    assert verdict(4000, 0.5, 0.5, few=12, taken=1) == "undecided"  # nor condemn anybody by a dozen


def test_the_largest_gap_is_between_the_right_groups() -> None:
    """Gaps of 0.3 between c and the others, in either order of the groups, and none between the others."""
    n = 2000
    frame = {"race": ["a"] * n + ["b"] * n + ["c"] * n, "y": ["yes", "no"] * (3 * n // 2)}
    people = population(frame, RACE, PAY)
    for rates in ((0.5, 0.5, 0.2), (0.2, 0.5, 0.5), (0.2, 0.2, 0.5)):
        chosen = np.concatenate([np.arange(n) < rate * n for rate in rates])
        rows = group_fairness(chosen, people).summary.set_index("metric")
        low, high = rows.loc["demographic_parity_difference", ["low", "high"]]
        assert 0.24 < low < 0.3 < high < 0.36
        low, high = rows.loc["demographic_parity_ratio", ["low", "high"]]
        assert 0.34 < low < 0.4 < high < 0.46


def test_a_resample_without_the_group_says_nothing_about_it() -> None:
    rng = np.random.default_rng(0)
    part, base = np.array([[1.0, 1.0], [0.0, 2.0]]), np.array([[2.0, 2.0], [0.0, 4.0]])
    rates = make_rates(np.array([1.0, 1.0]), np.array([2.0, 2.0]), (part, base), np.array([2.0, 2.0]), rng)
    assert rates.low.tolist() == [[0.5, 0.5], [0.0, 0.5]]
    assert rates.high.tolist() == [[0.5, 0.5], [1.0, 0.5]]


def test_more_groups_widen_the_interval_and_too_few_resamples_are_said() -> None:
    people, predicted = random_people(0)
    found = group_fairness(predicted, people, by=[("sex", "race")], bootstrap=Bootstrap(200))
    assert "too few resamples" in " ".join(found.summary["note"])
    assert "too few resamples" not in " ".join(group_fairness(predicted, people, by=["sex"]).summary["note"])


@pytest.mark.slow
@pytest.mark.parametrize("rates", [(0.5, 0.5), (0.3, 0.5), (0.4, 0.4, 0.4), (0.2, 0.4, 0.4)])
@pytest.mark.parametrize("weight", [False, True])
def test_intervals_hold_the_truth_as_often_as_they_say(rates: tuple[float, ...], weight: bool) -> None:
    """300 samples of 500 people; a coverage of 0.95 has a standard error of 0.0126: none may fall below 0.91."""
    rng, samples, n = np.random.default_rng(0), 300, 500
    feature, names = (SEX, "fm") if len(rates) == 2 else (RACE, "abc")
    truth = {
        "demographic_parity_difference": max(rates) - min(rates),
        "demographic_parity_ratio": min(rates) / max(rates),
        "equal_opportunity_difference": max(rates) - min(rates),
        "equalised_odds_difference": max(rates) - min(rates),
    }
    held, singles = dict.fromkeys(truth, 0), 0
    for sample in range(samples):
        group = rng.integers(0, len(rates), n)
        frame = {
            feature.name: np.array(list(names))[group],
            "y": np.array(["no", "yes"])[rng.integers(0, 2, n)],
            "w": rng.integers(1, 4, n).astype(float),
        }
        people = population(frame, feature, PAY, weight=weight)
        selected = rng.random(n) < np.array(rates)[group]
        found = group_fairness(selected, people, bootstrap=Bootstrap(seed=sample))
        rows = found.summary.set_index("metric")
        for metric, true in truth.items():
            # The ends are rounded: a truth of 0.2 may be 0.5 - 0.3.
            held[metric] += rows.loc[metric, "low"] <= true + 1e-12 and true - 1e-12 <= rows.loc[metric, "high"]
        row = found.groups.iloc[0]
        singles += row["selection_rate_low"] <= rates[0] <= row["selection_rate_high"]
    assert min(held.values()) >= 0.91 * samples, held
    assert 0.91 * samples <= singles <= 0.985 * samples
