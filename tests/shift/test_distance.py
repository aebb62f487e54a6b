"""Distances with known answers: one dimension, two atoms, translations, assignments."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from scipy.stats import wasserstein_distance
from tests.datasets.data_folder import FOLDER, needs_data

from isonomy.datasets import load_population
from isonomy.errors import DataError, NotANumberError, ParameterError
from isonomy.population import Feature, Population, Schema
from isonomy.shift import wasserstein
from isonomy.similarity import Mahalanobis, WeightedLp
from studies.surveys import load_population as study_population

Array = np.ndarray[Any, np.dtype[np.float64]]
NORMS = {"l1": 1, "l2": 2, "linf": math.inf}


def weighted(x: Array, weights: Array) -> Population:
    """A population of two numbers with sampling weights."""
    schema = Schema("plane", (Feature("a"), Feature("b")), weight="w")
    return Population.from_frame(pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "w": weights}), schema, domain="unbounded")


@pytest.mark.parametrize("ground", ["l1", "l2", "linf"])
@given(seed=st.integers(0, 10_000), n=st.integers(1, 30), m=st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_one_dimension_has_a_closed_form(ground: Any, seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.exponential(size=m)
    found = wasserstein(x[:, None], y[:, None], ground=ground, repeats=1).estimate
    assert found == pytest.approx(wasserstein_distance(x, y), rel=1e-9)


@pytest.mark.parametrize("order", [1, 1.5, 2, 7, math.inf])
def test_one_dimension_matches_in_order(order: float) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=40), 2 * rng.normal(size=40)
    moved = np.abs(np.sort(x) - np.sort(y))
    truth = moved.max() if order == math.inf else (moved**order).mean() ** (1 / order)
    assert wasserstein(x[:, None], y[:, None], order=order, repeats=1).estimate == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("order", [1, 2, 3.5, math.inf])
def test_two_atoms(order: float) -> None:
    """Masses 0.7 and 0.3 against 0.4 and 0.6 at the same two places: 0.3 of the mass crosses a distance of 5."""
    places = np.array([[0.0, 0.0], [3.0, 4.0]])
    one, other = weighted(places, np.array([7.0, 3.0])), weighted(places, np.array([2.0, 3.0]))
    truth = 5.0 if order == math.inf else 5.0 * 0.3 ** (1 / order)
    assert wasserstein(one, other, order=order, repeats=1).estimate == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("order", [1, 2, 10, math.inf])
@pytest.mark.parametrize("ground", ["l1", "l2", "linf"])
def test_a_translation_by_a_vector_costs_its_norm(order: float, ground: Any) -> None:
    x, shift = np.random.default_rng(2).normal(size=(30, 3)), np.array([0.3, -2.0, 1.0])
    truth = np.linalg.norm(shift, ord=NORMS[ground])
    found = wasserstein(x, x + shift, order=order, ground=ground, repeats=1)
    assert found.estimate == pytest.approx(truth, rel=1e-9)
    assert found.lower <= truth


@pytest.mark.parametrize("ground", ["l1", "l2", "linf"])
@pytest.mark.parametrize("order", [1, 2, 3.3, math.inf])
def test_equal_samples_are_an_assignment(ground: Any, order: float) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)) + 0.5
    costs = np.array([[np.linalg.norm(a - b, ord=NORMS[ground]) for b in y] for a in x])
    if order == math.inf:
        truth = min(max(costs[i, j] for i, j in enumerate(p)) for p in itertools.permutations(range(6)))
    else:
        rows, columns = linear_sum_assignment(costs**order)
        truth = (costs[rows, columns] ** order).mean() ** (1 / order)
    found = wasserstein(x, y, order=order, ground=ground, repeats=1).estimate
    assert found == pytest.approx(truth, rel=1e-9)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_weights_against_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
    a, b = rng.integers(1, 9, 4).astype(float), rng.integers(1, 9, 5).astype(float)
    metric = Mahalanobis([[2.0, 0.5], [0.5, 1.0]])
    costs = np.array([[float(metric.distance(u, v)) for v in y] for u in x])
    margins = np.array(
        [np.kron(np.eye(4)[i], np.ones(5)) for i in range(4)] + [np.tile(np.eye(5)[j], 4) for j in range(5)]
    )
    program = linprog((costs**2).ravel(), A_eq=margins, b_eq=np.concatenate([a / a.sum(), b / b.sum()]))
    found = wasserstein(weighted(x, a), weighted(y, b), order=2, ground=metric, repeats=1).estimate
    assert found == pytest.approx(math.sqrt(program.fun), rel=1e-7)


@pytest.mark.parametrize("order", [1, 2, math.inf])
def test_weights_equal_repeated_rows(order: float) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(9, 2))
    a, b = rng.integers(0, 4, 12), rng.integers(1, 4, 9)
    found = wasserstein(weighted(x, a.astype(float)), weighted(y, b.astype(float)), order=order, repeats=1)
    repeated = wasserstein(np.repeat(x, a, axis=0), np.repeat(y, b, axis=0), order=order, repeats=1)
    assert found.estimate == pytest.approx(repeated.estimate, rel=1e-9)
    assert found.n_one == (a > 0).sum()


@pytest.mark.parametrize("order", [1, 2.5, math.inf])
def test_symmetric_and_zero_for_the_same_table(order: float) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(25, 3)), rng.normal(size=(20, 3))
    there, back = (wasserstein(*pair, order=order, repeats=1).estimate for pair in ((x, y), (y, x)))
    assert there == pytest.approx(back, rel=1e-9)
    assert wasserstein(x, x[::-1], order=order, repeats=1).estimate == pytest.approx(0.0, abs=1e-6)


def test_nothing_moves_where_everything_is_free() -> None:
    x = np.random.default_rng(6).normal(size=(30, 2))
    found = wasserstein(x, x + 1.0, ground=WeightedLp([0.0, 0.0]), repeats=1)
    assert (found.estimate, found.floor, found.lower) == (0.0, 0.0, 0.0)


def test_the_floor_is_near_the_estimate_for_one_population() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 1500, 4))
    found = wasserstein(x, y, sample=300)
    assert found.floor_of == "one and other" and found.individuals == (300, 300)
    assert abs(found.estimate - found.floor) < 0.05 < found.floor
    assert found.lower < 0.05
    small = wasserstein(x[:300], y[:300], sample=300)
    assert small.floor_of == "both pooled" and small.spread == 0.0
    assert abs(small.estimate - small.floor) < 0.05 < small.floor
    far = wasserstein(x, y + 2.0, sample=300)
    assert far.estimate > far.lower > 3.0
    assert far.floor == pytest.approx(found.floor, abs=0.05)  # not of the two together


def test_the_seed_decides() -> None:
    x, y = np.random.default_rng(8).normal(size=(2, 300, 2))
    assert wasserstein(x, y, sample=50) == wasserstein(x, y, sample=50)
    assert wasserstein(x, y, sample=50).estimate != wasserstein(x, y, sample=50, seed=1).estimate


def test_a_sentence_for_people() -> None:
    x = np.random.default_rng(10).normal(size=(60, 2))
    text = str(wasserstein(x, x + 1, order=math.inf, confidence=0.9, repeats=1))
    assert text.startswith("W_∞ distance under l2: 1.4") and "with confidence 0.9." in text
    assert "60 of 60 and 60 of 60 individuals" in text


def test_arrays_are_not_changed_and_pot_is_loaded_late() -> None:
    x = np.random.default_rng(11).normal(size=(20, 2))
    before = x.copy()
    wasserstein(x, x[:10], repeats=1)
    assert (x == before).all()
    code = "import sys, isonomy.shift; assert 'ot' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


GOOD = np.zeros((5, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": 0.5}, "'order' must be a number from 1 to 100, or infinity. Got 0.5"),
        ({"order": math.nan}, "'order' must be"),
        ({"order": "1"}, "'order' must be"),
        ({"sample": 1}, "'sample' must be a whole number >= 2"),
        ({"sample": 10.5}, "'sample' must be a whole number"),
        ({"repeats": 0}, "'repeats' must be a whole number >= 1"),
        ({"seed": -1}, "'seed' must be a whole number >= 0"),
        ({"confidence": 1.0}, "'confidence' must be a number between 0 and 1"),
        ({"ground": "l3"}, "'ground' must be 'l1', 'l2', 'linf' or a metric"),
        ({"other": np.zeros((5, 3))}, "'other' must be individuals of 2 coordinates, as 'one' has"),
        ({"other": np.zeros(5)}, "'other' must be a population or a matrix with a row per individual"),
        ({"one": np.zeros((0, 2))}, "'one' must be a population or a matrix with a row"),
        ({"one": [["a", "b"]]}, "'one' must be a population or a matrix of numbers"),
        ({"one": [[0.0, math.nan]]}, "'one' must be finite: row 0, coordinate 1 is nan"),
    ],
)
def test_errors(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"one": GOOD, "other": GOOD} | change
    one, other = arguments.pop("one"), arguments.pop("other")
    with pytest.raises((ParameterError, DataError), match=message.replace("(", r"\(")):
        wasserstein(one, other, **arguments)


def test_two_schemas_are_an_error() -> None:
    with pytest.raises(DataError, match=r"must share one schema.*'german' and 'moons', which differ"):
        wasserstein(load_population("german"), load_population("moons"))


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_a_distance_beyond_all_numbers_is_an_error(order: float) -> None:
    with pytest.raises(NotANumberError, match="beyond all numbers"):
        wasserstein(np.full((3, 2), 1e300), np.full((3, 2), -1e300), order=order)


def test_an_order_too_high_for_float64_is_an_error_and_others_increase() -> None:
    rng = np.random.default_rng(13)
    x, y = rng.normal(size=(2, 150, 3))
    found = [wasserstein(x, y, order=order, repeats=1).estimate for order in (1, 2, 4, 8, math.inf)]
    assert (np.diff(found) > 0).all()
    with pytest.raises(NotANumberError, match=r"at order 90 it is somewhere between .* a lower 'order'"):
        wasserstein(x, y, order=90, repeats=1)


def test_nobody_is_an_error() -> None:
    x = np.zeros((3, 2))
    people = weighted(x, np.array([0.0, 0.0, 1.0]))
    with pytest.raises(DataError, match="All sampling weights of 'other' are zero"):
        wasserstein(people, people[:2])


def test_german_women_and_men() -> None:
    """Everybody changes sex and marital status, which alone costs √2, and little of the rest is proved to differ."""
    german = load_population("german")
    women = (german.frame["personal_status"] == "A92").to_numpy()
    found = wasserstein(german[women], german[~women], repeats=1)
    assert math.sqrt(2) * 0.8 < found.lower < found.estimate
    assert found.floor < found.estimate


@pytest.mark.slow
@needs_data
def test_california_and_texas() -> None:
    """Samples of 2,000 are far apart, hardly further than two samples of one state; but the states do differ."""
    california, texas = (
        study_population("acs-income", states=[state], encoding="paper", folder=FOLDER, download=False)
        for state in ("CA", "TX")
    )
    found = wasserstein(california, texas)
    assert found.estimate > found.floor > 0.9 * found.estimate
    assert 0.1 < found.lower < found.estimate


def test_what_is_said_to_be_the_least_is_rounded_down() -> None:
    found = wasserstein(np.zeros((8, 1)), np.ones((8, 1)), repeats=1)
    assert "at least 0.1999 apart" in str(replace(found, lower=0.19999, evidence="a slope"))
    sure = replace(found, lower=0.2, evidence="a slope", confidence=1 - 1e-9)
    assert "apart with confidence 0.999999999" in str(sure)
