"""Parts of the individuals: the mean of the worst share, from above and below, and what is said of it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernel.test_shifts import worst_mean

from isonomy import (
    Counterparts,
    Mix,
    Network,
    Part,
    Population,
    Schema,
    Stability,
    Transport,
    WeightedLp,
    certify,
)
from isonomy.certificates.certificate import headline
from isonomy.errors import DataError, IsonomyError, ParameterError, SoundnessError
from isonomy.population import Feature
from isonomy_verify.reweighting import bounds, sample_of

QUIET: dict[str, Any] = {"progress": None}
RNG = np.random.default_rng(5)
X = RNG.normal(size=(30, 3))
METRIC = WeightedLp(np.ones(3), 2)
SHARES = (1.0, 0.9, 0.37, 0.1, 1 / 3, 0.01)


def network(head: str = "softmax") -> Network:
    rng, last = np.random.default_rng(3), 2 if head == "softmax" else 1
    weights = [rng.normal(size=(6, 3)), rng.normal(size=(last, 6))]
    return Network.from_layers(weights, [np.zeros(6), np.zeros(last)], head=head)  # type: ignore[arg-type]


def population(weights: list[float] | None = None) -> Population:
    schema = Schema(
        "p", tuple(Feature(name, low=-4, high=4, protected=name == "a") for name in "abc"),
        weight=None if weights is None else "w", max_weight=None if weights is None else max(weights),
    )  # fmt: skip
    frame = pd.DataFrame(np.clip(X, -4, 4), columns=list("abc"))
    return Population.from_frame(frame if weights is None else frame.assign(w=weights), schema)


@pytest.mark.parametrize("at_least", SHARES)
@pytest.mark.parametrize("weighted", [False, True])
def test_both_sides_are_the_means_of_the_worst_share(at_least: float, weighted: bool) -> None:
    """Of the local bounds, by sorting in exact arithmetic: never inside, and closer than a billionth."""
    weights = np.where(np.arange(30) % 4 == 0, 0.0, RNG.uniform(0.1, 3, 30)).tolist() if weighted else [1.0] * 30
    people = population(weights if weighted else None)
    found = certify(network(), people, Counterparts.of(people.schema), 1.0, Part(at_least), **QUIET)
    upper, lower = (worst_mean(each.tolist(), weights, at_least) for each in (found.local.upper, found.local.lower))
    assert upper <= Fraction(found.upper) <= upper * (1 + Fraction(1, 10**9))
    assert lower * (1 - Fraction(1, 10**9)) <= Fraction(found.lower) <= lower
    assert 0 < found.lower <= found.upper < 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.001, 1), st.integers(1, 40))
def test_any_values_and_weights(seed: int, at_least: float, n: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(n) < 0.4, 0.0, rng.random(n))
    weights = np.where(rng.random(n) < 0.2, 0.0, rng.lognormal(0, 4, n))
    weights[0] = 1.0
    truth, shift = worst_mean(values.tolist(), weights.tolist(), at_least), Part(at_least)
    found = shift.answer(values, values, weights, None, 1.0)
    upper, lower = found.upper, found.lower
    assert Fraction(lower) <= truth <= Fraction(upper)
    assert lower == pytest.approx(float(truth), rel=1e-9) and upper == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("at_least", [0.3, 0.5, 0.99])
def test_where_few_are_treated_otherwise_they_are_all_in_the_part(at_least: float) -> None:
    values, weights = np.array([0.5, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0]), np.ones(8)
    truth = worst_mean(values.tolist(), weights.tolist(), at_least)
    found = Part(at_least).answer(values, values, weights, None, 1.0)
    assert Fraction(found.lower) <= truth <= Fraction(found.upper)
    assert (found.lower, found.upper) == pytest.approx((float(truth), float(truth)), rel=1e-12)


@pytest.mark.parametrize("chunk", [7, 1000])
def test_the_curve_is_that_of_other_shares(chunk: int, tmp_path: Path) -> None:
    found = certify(network(), X, METRIC, 0.2, Part(0.3), chunk=chunk, work=tmp_path, **QUIET)
    curve = found.curve(SHARES)
    assert list(curve.columns) == ["at_least", "upper", "lower"]
    for at_least, upper, lower in curve.itertuples(index=False):
        alone = certify(network(), X, METRIC, 0.2, Part(at_least), **QUIET)
        assert upper == pytest.approx(alone.upper, rel=1e-12) and lower == pytest.approx(alone.lower, rel=1e-12)
    ordered = curve.sort_values("at_least")
    assert ordered["upper"].is_monotonic_decreasing and ordered["lower"].is_monotonic_decreasing
    whole = certify(network(), X, METRIC, 0.2, Part(1.0), **QUIET)
    assert whole.multiplier is None and whole.curve([0.3])["upper"][0] == pytest.approx(found.upper, rel=1e-12)
    assert found.grid_error <= 1e-12
    assert whole.upper == pytest.approx(found.local.mean_upper) and whole.lower == pytest.approx(found.local.mean_lower)
    again = certify(network(), X, METRIC, 0.2, Part(0.3), chunk=chunk, work=tmp_path, **QUIET)
    assert again.computed == 0 and again.upper == found.upper


@pytest.mark.parametrize("at_least", SHARES)
def test_the_worst_case_is_a_part(at_least: float) -> None:
    found = certify(network(), X, METRIC, 0.2, Part(at_least), **QUIET)
    worst = found.worst_case
    assert (worst.points.cost == 0).all() and (worst.points.person == X[worst.points.owner]).all()
    assert (worst.masses <= 1).all() and worst.total == pytest.approx(at_least * 30, rel=1e-9)
    assert worst.value == pytest.approx(found.lower, rel=1e-9)
    frame = worst.frame()
    assert frame["mass"].sum() == pytest.approx(1) and len(frame) == math.ceil(at_least * 30 - 1e-9)
    with pytest.raises(IsonomyError, match="kind 'part' has no 'order'"):
        _ = worst.transport


def test_a_part_of_people_who_are_all_treated_alike_is_whole() -> None:
    still = Network.from_layers([np.zeros((2, 3))], [np.array([0.3, 0.1])])
    found = certify(still, X, METRIC, 0.2, Part(0.5), **QUIET)
    assert found.lower == 0 <= found.upper < 1e-9 and found.worst_case.total == pytest.approx(15)


def test_the_sentence() -> None:
    found = certify(network(), X, METRIC, 0.2, Part(0.1), epsilon=0.9, **QUIET)
    said = str(found)
    assert said.startswith("No part of these 30 individuals that holds at least 10 % of them has an average")
    assert "an explicit part reaches" in said and found.verdict == "certified"
    assert str(certify(network(), X, METRIC, 0.2, Part(1), **QUIET)).startswith(
        "The average largest change over these 30"
    )
    assert "12.5 % of them" in headline(Part(0.125), "them", "0.1", None)
    heavy = population([float(1 + place % 2) for place in range(30)])
    weighted = certify(network(), heavy, Counterparts.of(heavy.schema), 1.0, Part(0.1), **QUIET)
    assert "these 30 individuals (weighted) that holds" in str(weighted)


def test_a_regression_has_parts_too() -> None:
    people = population()
    found = certify(network("regression"), people, Counterparts.of(people.schema), 1.0, Part(0.2), **QUIET)
    assert 0 < found.lower <= found.upper and math.isfinite(found.profiles.largest)
    assert found.profiles.largest >= found.local.upper.max()
    with pytest.raises(ParameterError, match="output_range"):
        certify(network("regression"), X, METRIC, 0.1, Part(0.2), **QUIET)


WRONG = [0, 0.0, -0.5, 1.0001, math.nan, math.inf, True, "0.1", None, [0.1], Fraction(1, 10**400)]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_share_is_above_0_and_at_most_1(wrong: Any) -> None:
    with pytest.raises(ParameterError, match="'at_least' must be a number above 0, at most 1"):
        Part(wrong)


def test_numbers_of_other_kinds_become_the_float_below() -> None:
    assert Part(1) == Part(1.0) and type(Part(1).at_least) is float
    for count in range(2, 30):  # a tenth is below the float that is written 0.1
        share = Part(Fraction(1, count)).at_least  # type: ignore[arg-type]
        assert Fraction(share) <= Fraction(1, count) < Fraction(math.nextafter(share, 1.0))
    assert Part(np.float32(0.1)).at_least == float(np.float32(0.1))


@pytest.mark.parametrize("shift", [Part(0.3), Stability(0.2, 5), Part(0.5, strangers=0.1), Mix(["d"])])
def test_decisions_that_can_change_are_bounded_beside_the_mean(shift: Any) -> None:
    """By the same shift, of ones where a decision is not proved to stay, and of ones where it was turned."""
    frame = pd.DataFrame(np.clip(X, -4, 4), columns=list("abc")).assign(d=["u", "v", "w"] * 10)
    numbers = tuple(Feature(name, low=-4, high=4, protected=name == "a") for name in "abc")
    schema = Schema("p", (*numbers, Feature("d", "categorical", categories=("u", "v", "w"))))
    people, model = Population.from_frame(frame, schema), wide()
    found = certify(model, people, Counterparts.of(schema), 1.0, [Part(1.0), shift], **QUIET)
    assert found.shifts == (shift,) and found.shift == Part(1.0)
    answer, decision = found.under(shift), found.local.decision
    assert answer.changes is not None and found.changes is not None
    assert found.changes.lower == pytest.approx(np.mean(decision == "flippable"), rel=1e-12)
    assert found.changes.upper == pytest.approx(np.mean(decision != "certified"), rel=1e-12)
    assert answer.changes.lower >= found.changes.lower - 1e-9 and answer.upper >= found.upper - 1e-9
    alone = certify(model, people, Counterparts.of(schema), 1.0, shift, **QUIET)
    assert (alone.upper, alone.lower) == (answer.upper, answer.lower)
    assert alone.worst_case.value == pytest.approx(alone.lower, rel=1e-9)
    if isinstance(shift, Mix):
        groups = [decision[k::3] for k in range(3)]
        assert answer.changes.upper == pytest.approx(max(np.mean(each != "certified") for each in groups), rel=1e-12)


@pytest.mark.parametrize("shift", [Part(0.3), Stability(0.2, 5), Stability(0.1, 5, strangers=0.01), Mix(["d"])])
def test_the_largest_size_that_keeps_to_epsilon(shift: Any) -> None:
    """It does, and a slightly larger one does not; None where none does."""
    frame = pd.DataFrame(np.clip(X, -4, 4), columns=list("abc")).assign(d=["u", "v", "w"] * 10)
    numbers = tuple(Feature(name, low=-4, high=4, protected=name == "a") for name in "abc")
    schema = Schema("p", (*numbers, Feature("d", "categorical", categories=("u", "v", "w"))))
    found = certify(wide(), Population.from_frame(frame, schema), Counterparts.of(schema), 1.0, shift, **QUIET)
    near, far = shift.span
    fewest, most = (found.under(shift.resized(size)).upper for size in (near, far))
    for share in (0.1, 0.5, 0.9):
        epsilon = fewest + share * (most - fewest)
        largest = found.largest_radius(epsilon)
        assert largest is not None and found.under(shift.resized(largest)).upper <= epsilon
        further = near + (largest - near) * (1 + 1e-6)
        assert found.under(shift.resized(further)).upper > epsilon
    assert found.largest_radius(np.nextafter(fewest, 0)) is None and found.largest_radius(most) == far


def wide() -> Network:
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(6, 6)), rng.normal(size=(2, 6))]
    return Network.from_layers(weights, [np.zeros(6), np.zeros(2)])


def test_limits_are_those_of_named_groups() -> None:
    schema = Schema(
        "p", (Feature("a", low=-4, high=4), Feature("d", "categorical", categories=("u", "v", "w"), protected=True))
    )
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 12), "d": ["w", "u", "v"] * 4})
    people = Population.from_frame(frame, schema)
    rng = np.random.default_rng(0)
    model = Network.from_layers([rng.normal(size=(5, 4)), rng.normal(size=(2, 5))], [np.zeros(5), np.zeros(2)])
    ask = lambda shift: certify(model, people, Counterparts.of(schema), 1.0, shift, **QUIET)  # noqa: E731
    free = ask(Mix("d"))
    means = {name: free.local.upper[frame["d"] == name].mean() for name in "uvw"}
    assert free.upper == pytest.approx(max(means.values()), rel=1e-12)
    first, second, third = sorted(means, key=means.__getitem__, reverse=True)
    held = ask(Mix(["d"], {first: (0.0, 0.3), third: (0.2, 1.0)}))
    assert held.upper == pytest.approx(0.3 * means[first] + 0.5 * means[second] + 0.2 * means[third], rel=1e-9)
    for wrong, says in (({"x": (0, 1)}, "among the individuals"), ({"u": (0.5, 0.4)}, "least and a largest share")):
        with pytest.raises(ParameterError, match=says):
            ask(Mix(["d"], wrong))
    with pytest.raises(ParameterError, match="features with categories"):
        ask(Mix(["a"]))
    with pytest.raises(ParameterError, match="add up to"):
        ask(Mix(["d"], dict.fromkeys("uvw", (0.5, 1.0))))
    with pytest.raises(ParameterError, match="with a schema"):
        certify(network(), X, METRIC, 0.2, Mix("d"), **QUIET)


def test_one_shift_with_moves_comes_first() -> None:
    found = certify(network(), X[:6], METRIC, 0.2, [Part(0.5), Transport(0.05)], rounds=0, attack=False, **QUIET)
    assert isinstance(found.shift, Transport) and found.shifts == (Part(0.5),) and found.changes is not None
    for wrong in ([Transport(0.1), Transport(0.2)], []):
        with pytest.raises(ParameterError, match="'shift' must be at"):
            certify(network(), X, METRIC, 0.2, wrong, **QUIET)
    for make in (lambda: Stability(-0.1), lambda: Stability(math.inf), lambda: Stability(0.1, 0), lambda: Mix([]),
                 lambda: Stability(0.1, 2000), lambda: Mix(["a", "a"]), lambda: Part(0.1, 1.0)):  # fmt: skip
        with pytest.raises(ParameterError):
            make()


def test_bins_hold_individuals_who_weigh_next_to_nothing() -> None:
    high, weights = np.array([0.1, 0.2, 0.9]), np.array([1.0, 1.0, 1e-30])
    people, shift = sample_of(high, high, weights), Stability(0.1, 2)
    hints = shift.hints(people)
    assert hints.edges[-1] == 0.9
    upper, lower = bounds(shift.kernel, people, hints, 1.0)
    assert 0.15 <= lower <= upper <= 0.9


def test_what_makes_no_sense_of_a_part_is_refused() -> None:
    people = population().held_out()
    found = certify(network(), people, Counterparts.of(people.schema), 1.0, Part(0.2), confidence=0.9, **QUIET)
    for ask in (lambda: found.gamma, lambda: found.order, lambda: found.largest_gamma(0.5), lambda: found.ground):
        with pytest.raises(IsonomyError, match=r"^A shift of kind 'part' has no '\w+'.*\.$"):
            ask()
    for wrong in ({"gamma": 0.1}, {"order": 2.0}, {"ground": "l1"}):
        with pytest.raises(ParameterError, match=r"'shift' must be.*Part"):
            certify(network(), X, METRIC, 0.1, Part(0.2), **wrong)


def test_the_population_behind_the_sample() -> None:
    """Where it may be spoken of: above the bound for the sample, more so for smaller parts; not where people come in
    clusters, of which only all have a statement."""
    people, shifts = population().held_out(), [Part(1.0), Part(0.5), Part(0.2), Stability(0.1, 5)]
    ask = Counterparts.of(people.schema), 1.0
    found = certify(network(), people, *ask, shifts, confidence=0.9, epsilon=2.0, **QUIET)
    answers = [found.under(shift) for shift in shifts]
    behind = [each.behind.upper for each in answers if each.behind is not None]
    assert all(each.upper < upper for each, upper in zip(answers, behind, strict=True)) and behind[:3] == sorted(
        behind[:3]
    )
    assert found.population_upper == behind[0] and found.population_verdict == "certified"
    for each in answers:
        share = each.changes
        assert share is not None and share.behind is not None
        assert share.behind.lower <= share.lower <= share.upper <= share.behind.upper
    assert certify(network(), people, *ask, Part(0.5), **QUIET).under(Part(0.5)).behind is None  # nothing was asked
    homes: dict[str, Any] = {"cluster": np.arange(30) // 2, "max_cluster": 4, "confidence": 0.9, **QUIET}
    assert certify(network(), X, METRIC, 0.2, Part(1.0), **homes).population_upper > 0
    torn = certify(network(), X, METRIC, 0.2, Part(0.5), **homes)
    assert torn.under(Part(0.5)).behind is None
    with pytest.raises(DataError, match="come in clusters"):
        _ = torn.population
    with pytest.raises(DataError, match="at least two"):
        _ = certify(network(), X[:1], METRIC, 0.2, Part(0.5), confidence=0.9, **QUIET).population


def test_sides_that_contradict_each_other_are_refused() -> None:
    found = certify(network(), X, METRIC, 0.2, Part(0.3), **QUIET)
    with pytest.raises(SoundnessError, match="In a part with at least 30 % of the individuals the mean output changes"):
        found._compare(0.3, found.upper + 0.1, found.upper)
    with pytest.raises(SoundnessError):
        replace(found, local=replace(found.local, upper=found.local.lower * 0.9))
