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

from isonomy import Counterparts, Network, Part, Population, Schema, WeightedLp, certify
from isonomy.certificates.certificate import headline
from isonomy.certificates.dual import Dual, best_mixture, cells_of_table
from isonomy.errors import DataError, IsonomyError, ParameterError, SoundnessError
from isonomy.population import Feature

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
    upper = Dual([cells_of_table([0.0], values[:, None], 1.0, weights)], shift).bound(at_least).upper
    lower = best_mixture(shift, np.arange(n), np.zeros(n), values, weights).value
    assert Fraction(lower) <= truth <= Fraction(upper)
    assert lower == pytest.approx(float(truth), rel=1e-9) and upper == pytest.approx(float(truth), rel=1e-9)


@pytest.mark.parametrize("at_least", [0.3, 0.5, 0.99])
def test_where_few_are_treated_otherwise_they_are_all_in_the_part(at_least: float) -> None:
    values, weights = np.array([0.5, 0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0]), np.ones(8)
    truth = worst_mean(values.tolist(), weights.tolist(), at_least)
    lower = best_mixture(Part(at_least), np.arange(8), np.zeros(8), values, weights).value
    upper = Dual([cells_of_table([0.0], values[:, None], 1.0, weights)], Part(at_least)).bound(at_least)
    assert Fraction(lower) <= truth <= Fraction(upper.upper)
    assert lower == pytest.approx(float(truth), rel=1e-12) and upper.upper == pytest.approx(float(truth), rel=1e-12)
    assert upper.tolerance <= 1e-9


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
    assert said.startswith("No part of these 30 individuals that holds at least 10 % of them has a mean")
    assert "an explicit part reaches" in said and found.verdict == "certified"
    assert str(certify(network(), X, METRIC, 0.2, Part(1), **QUIET)).startswith("The mean violation over these 30")
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


def test_what_makes_no_sense_of_a_part_is_refused() -> None:
    people = population().held_out()
    found = certify(network(), people, Counterparts.of(people.schema), 1.0, Part(0.2), confidence=0.9, **QUIET)
    for ask in (lambda: found.gamma, lambda: found.order, lambda: found.largest_gamma(0.5), lambda: found.ground):
        with pytest.raises(IsonomyError, match=r"^A shift of kind 'part' has no '\w+'.*\.$"):
            ask()
    with pytest.raises(DataError, match="about parts of these individuals"):
        _ = found.population
    for wrong in ({"gamma": 0.1}, {"order": 2.0}, {"ground": "l1"}):
        with pytest.raises(ParameterError, match=r"'shift' must be.*Part"):
            certify(network(), X, METRIC, 0.1, Part(0.2), **wrong)


def test_sides_that_contradict_each_other_are_refused() -> None:
    found = certify(network(), X, METRIC, 0.2, Part(0.3), **QUIET)
    with pytest.raises(SoundnessError, match="In a part with at least 30 % of the individuals the mean output changes"):
        found._compare(0.3, found.upper + 0.1, found.upper)
    with pytest.raises(SoundnessError):
        replace(found, points=replace(found.points, value=found.points.value + 0.5))
