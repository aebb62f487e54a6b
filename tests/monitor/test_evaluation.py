"""One look: right as often as it says, and the states as they are defined."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.certificates import Transport
from isonomy.errors import ParameterError, SoundnessError
from isonomy.monitor import Reference, evaluate, mean_at_least, refused_share
from isonomy.population import Feature, Population, Schema
from isonomy.similarity.ground import ground_metric

Array = np.ndarray[Any, np.dtype[np.float64]]


def reference(people: Array | None, gamma: float = 0.5, epsilon: float = 0.1, largest: float = 1.0) -> Reference:
    def curve(gammas: Sequence[float]) -> list[float]:
        return [0.05 + 0.1 * gamma for gamma in gammas]

    width = 2 if people is None else people.shape[1]
    return Reference(Transport(gamma, 1.0, ground_metric("l2", width)), epsilon, curve, people, largest)


def test_a_distance_above_gamma_expires_and_a_smaller_one_does_not() -> None:
    rng = np.random.default_rng(0)
    audited = rng.normal(size=(800, 2))
    for shift, state in ((0.0, "valid"), (0.3, "valid"), (1.0, "expired")):
        today = rng.normal(size=(800, 2)) + np.array([shift, 0.0])
        found = evaluate(reference(audited), today, np.full(800, 0.02), risk=0.05)
        assert found.state == state
        assert found.distance is not None and found.distance.lower <= shift  # which is the true distance
        assert found.distance.certified == pytest.approx(0.05 + 0.1 * found.distance.estimate, rel=1e-4)
        assert found.distance.certified_at_lower == pytest.approx(0.05 + 0.1 * found.distance.lower)


def test_the_distance_is_at_least_what_is_said_as_often_as_promised() -> None:
    """Two normal distributions, a known distance apart, again and again at a high risk."""
    rng = np.random.default_rng(1)
    wrong = 0
    for repeat in range(60):
        audited, today = rng.normal(size=(120, 2)), rng.normal(size=(120, 2)) + np.array([0.5, 0.0])
        found = evaluate(reference(audited), today, np.zeros(120), risk=0.4, seed=repeat, sample=60)
        assert found.distance is not None
        wrong += found.distance.lower > 0.5
    assert wrong <= 18  # 12 are allowed on average, half of the risk


def test_the_mean_lies_where_it_is_said_to_as_often_as_promised() -> None:
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(200):
        values = np.where(rng.random(60) < 0.3, rng.random(60), 0.0)  # mean 0.15
        found = evaluate(reference(None), np.zeros((60, 2)), values, values, risk=0.4)
        wrong += not found.mean.lower <= 0.15 <= found.mean.upper
    assert wrong <= 44  # 30 are allowed, three eighths of the risk


@given(
    mean=st.floats(0.0, 1.0),
    spread=st.floats(0.0, 0.5),
    epsilon=st.floats(0.0, 1.0),
    n=st.integers(1, 400),
    risk=st.floats(1e-9, 0.5),
)
@settings(max_examples=60, deadline=None)
def test_states_follow_from_the_numbers(mean: float, spread: float, epsilon: float, n: int, risk: float) -> None:
    values = np.clip(mean + spread * np.sin(np.arange(n)), 0.0, 1.0)
    found = evaluate(reference(None, epsilon=epsilon), np.zeros((n, 2)), values, values, risk=risk)
    expected = "expired" if found.mean.lower > epsilon else "valid" if found.mean.upper <= epsilon else "undecided"
    assert (found.state, found.distance, found.risk, found.people) == (expected, None, risk, n)
    assert 0.0 <= found.mean.lower <= values.max()
    assert found.mean.upper >= values.mean() - 1e-12


def test_clear_cases() -> None:
    people = np.zeros((1000, 2))
    for least, most, state in ((0.0, 0.01, "valid"), (0.4, 0.5, "expired"), (0.0, 0.5, "undecided")):
        found = evaluate(reference(None), people, np.full(1000, most), np.full(1000, least), risk=0.05)
        assert found.state == state


def test_a_loose_bound_is_no_violation() -> None:
    """Proved violations say nothing from below, of whichever tier they are: only attained ones do."""
    found = evaluate(reference(None), np.zeros((1000, 2)), np.full(1000, 0.5), risk=0.05)
    assert (found.state, found.mean.lower) == ("undecided", 0.0)


def test_whoever_is_refused_counts_with_the_largest_violation() -> None:
    rng = np.random.default_rng(5)
    audited, today = rng.normal(size=(400, 2)), rng.normal(size=(400, 2))
    for share, state in ((0.0, "valid"), (0.02, "valid"), (0.07, "undecided"), (0.41, "expired")):
        refused = np.arange(400) < 400 * share
        x, upper = np.where(refused[:, None], np.nan, today), np.where(refused, np.nan, 0.01)
        found = evaluate(reference(audited), x, upper, np.zeros(400), refused, risk=0.05)
        assert found.state == state and found.people == 400
        assert found.refused.people == refused.sum() and found.refused.lower <= share <= found.refused.upper
        assert found.mean.upper >= share + (1 - share) * 0.01 and found.mean.lower == 0.0
        assert found.distance is not None and found.distance.lower <= 0.1
        assert ("refuse" in found.reason) == (share > 0)
    nobody = evaluate(reference(audited), np.full((50, 2), np.nan), np.zeros(50), None, np.ones(50, bool), risk=0.05)
    assert (nobody.state, nobody.distance, nobody.mean.upper) == ("expired", None, 1.0)


@pytest.mark.some(1)
@pytest.mark.parametrize("share", [0.003, 0.1, 0.6])
def test_the_share_of_the_refused_lies_where_it_is_said_to(share: float) -> None:
    """An eighth of the risk is allowed, 25 of 500, and three standard errors more; the mean that they raise as well."""
    rng = np.random.default_rng(6)
    outside, above = 0, 0
    for _ in range(500):
        refused = rng.random(80) < share
        found = evaluate(reference(None), np.zeros((80, 2)), np.full(80, 0.1), None, refused, risk=0.4)
        outside += not found.refused.lower <= share <= found.refused.upper
        above += found.mean.upper < share + (1 - share) * 0.1
    assert outside <= 40 and above <= 70


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "wrong", "part"), [(0.2, "expired", 1 / 16), (0.1999, "valid", 1 / 4)])
def test_refused_people_bring_about_a_wrong_state_as_rarely_as_promised(
    epsilon: float, wrong: str, part: float
) -> None:
    """A fifth is refused: with a violation of 1 each the mean is at epsilon, or just above it."""
    rng = np.random.default_rng(7)
    count, n, risk = 0, 1000, 0.4
    for _ in range(n):
        refused = rng.random(200) < 0.2
        found = evaluate(reference(None, epsilon=epsilon), np.zeros((200, 2)), np.zeros(200), None, refused, risk=risk)
        count += found.state == wrong
    allowed = risk * part
    assert count <= n * (allowed + 3 * np.sqrt(allowed * (1 - allowed) / n))


def test_a_far_population_expires_even_where_its_mean_is_small() -> None:
    rng = np.random.default_rng(3)
    audited, today = rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + 3.0
    found = evaluate(reference(audited), today, np.zeros(400), risk=0.05)
    assert found.state == "expired" and "gamma" in found.reason and found.mean.upper < 0.1


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), level=st.floats(0.001, 0.6))
def test_the_words_round_to_the_safe_side(seed: int, level: float) -> None:
    values = np.random.default_rng(seed).uniform(0.0, 2 * level, 60).clip(0.0, 1.0)
    found = evaluate(reference(None), np.zeros((60, 2)), values, values, risk=0.05)
    said = [float(number.rstrip(".")) for number in re.findall(r"\d\.\d+", found.reason.split("epsilon")[0])]
    bounds = {
        "expired": [(-1, found.mean.lower)],
        "valid": [(1, found.mean.upper)],
        "undecided": [(-1, found.mean.lower), (1, found.mean.upper)],
    }[found.state]
    assert len(said) == len(bounds)
    for number, (direction, bound) in zip(said, bounds, strict=True):
        assert 0 <= direction * (number - bound) < 1e-4


def test_numbers_without_a_limit_bound_no_mean() -> None:
    found = evaluate(reference(None, largest=math.inf), np.zeros((50, 2)), np.full(50, 0.01), risk=0.05)
    assert (found.state, found.mean.lower, found.mean.upper) == ("undecided", 0.0, math.inf)


def test_a_smaller_risk_claims_less() -> None:
    rng = np.random.default_rng(4)
    audited, today = rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + 1.0
    values = rng.random(400)
    bold, shy = (evaluate(reference(audited), today, values, values, risk=risk) for risk in (0.1, 1e-8))
    assert shy.mean.lower < bold.mean.lower and shy.mean.upper > bold.mean.upper
    assert bold.distance is not None and shy.distance is not None
    assert shy.distance.lower <= bold.distance.lower


def test_hiding_violations_never_raises_the_mean_that_is_shown() -> None:
    """A search may miss somebody by whoever else is in the window: no bet may depend on what it finds."""
    shown, hidden = np.full((2, 10_000), 0.02)
    shown[:5] = 1.0
    found = [
        evaluate(reference(None), np.zeros((10_000, 2)), np.ones(10_000), lower, risk=0.4).mean.lower
        for lower in (shown, hidden)
    ]
    assert 0.0 < found[1] <= found[0] <= shown.mean()


@given(
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), st.floats(1e-9, 0.9), st.integers(0, 29), st.floats(0, 1)
)
@settings(max_examples=60, deadline=None)
def test_the_lower_mean_grows_with_every_value(values: list[float], risk: float, at: int, share: float) -> None:
    more = np.array(values)
    less = more.copy()
    less[at % len(less)] *= share
    assert mean_at_least(less, 1.0, risk) <= mean_at_least(more, 1.0, risk) + 1e-9
    assert 0.0 <= mean_at_least(more, 1.0, risk) <= more.mean() + 1e-12


@pytest.mark.some(2)
@pytest.mark.parametrize("risk", [1e-2, 1e-9, 1.7697606436346462e-16, 1e-20])
@pytest.mark.parametrize(("count", "n"), [(0, 5), (17, 200), (683, 1000)])
def test_the_share_of_the_refused_in_multiple_precision(count: int, n: int, risk: float) -> None:
    """Of many looks one has a risk that 1 − risk does not show."""
    found = refused_share(np.arange(n) < count, 2.0 * risk)
    with mpmath.workdps(60):
        above = mpmath.betainc(count + 1, n - count, found.upper, 1, regularized=True)
        assert above <= risk
        assert not count or mpmath.betainc(count, n - count + 1, 0, found.lower, regularized=True) <= risk


def test_a_risk_that_no_confidence_can_express_proves_no_distance() -> None:
    rng = np.random.default_rng(8)
    found = evaluate(reference(rng.normal(size=(50, 2))), rng.normal(size=(50, 2)) + 9.0, np.zeros(50), risk=1e-17)
    assert found.distance is not None and found.distance.lower == 0.0 and "too small" in found.distance.evidence
    assert found.distance.estimate > 5.0 and found.state == "undecided"


def test_a_mass_that_the_bottleneck_overlooks_is_paid_for() -> None:
    """One atom weighs a billionth less than in the window: that much would have to move by 10."""
    weights = pd.DataFrame({"a": [0.0, 10.0], "w": [1.0 + 1e-9, 1.0]})
    audited = Population.from_frame(weights, Schema("line", (Feature("a"),), weight="w"), domain="unbounded")
    share = 1.0 / (2.0 + 1e-9)  # who is at 10 has a violation of 1, the other one of 0

    def curve(gammas: Sequence[float]) -> list[float]:
        return [share if gamma < 10.0 else 1.0 for gamma in gammas]

    line = Reference(Transport(0.5, math.inf, ground_metric("l2", 1)), 0.6, curve, audited)
    found = evaluate(line, np.array([[0.0], [10.0]]), np.array([0.0, 1.0]), risk=0.05).distance
    assert found is not None and found.whole and found.certified >= 0.5


def test_what_cannot_be_used() -> None:
    for risk in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="'risk'"):
            evaluate(reference(None), np.zeros((5, 2)), np.zeros(5), risk=risk)
    with pytest.raises(ParameterError, match="'upper'"):
        evaluate(reference(None), np.zeros((5, 2)), np.zeros(4), risk=0.1)


def test_an_attained_violation_above_a_bound_that_came_later_is_a_contradiction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was refused has neither; the file holds nobody's row."""
    monkeypatch.chdir(tmp_path)
    upper, lower, refused = np.full(50, 0.1), np.full(50, 0.05), np.zeros(50, dtype=bool)
    lower[7] = math.nextafter(0.1, 1.0)
    refused[7] = True
    evaluate(reference(None), np.zeros((50, 2)), upper, lower, refused, risk=0.05)
    with pytest.raises(SoundnessError, match="Number 7 of the window"):
        evaluate(reference(None), np.zeros((50, 2)), upper, lower, risk=0.05)
    (file,) = tmp_path.iterdir()
    assert set(json.loads(file.read_text())) == {"format", "versions", "lower", "upper", "number"}
