"""The dual over parts against linear programs, and against the dual in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from isonomy.certificates.dual import Cells, Dual, evaluate
from isonomy.engines.dual import StreamedDual
from isonomy.engines.parts import Part
from isonomy.engines.tallies import At, Tally, tallies
from isonomy_verify.arithmetic import exact_sum

steady = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
orders = st.sampled_from([1.0, 1.5, 2.0])
gammas = st.sampled_from([0.0, 1e-3, 0.05, 0.3, 2.0])
LARGEST = 1.0


def parts(seed: int, count: int = 3, people: int = 4) -> list[Part]:
    """Chunks with profiles over different radii, weights that may be zero, and points below the profiles."""
    rng = np.random.default_rng(seed)
    made = []
    for index in range(count):
        n = int(rng.integers(1, people + 1))
        radii = np.concatenate([[0.0], np.sort(rng.uniform(0.01, 1.0, int(rng.integers(0, 5))))])
        profile = np.sort(rng.random((len(radii), n)) * rng.choice([0.2, 1.0]), axis=0)
        weights = rng.choice([0.0, 0.3, 1.0, 2.5], n) if index else np.full(n, 0.7)
        distance = np.concatenate([np.zeros((1, n)), rng.uniform(0, 1.2, (3, n))])
        cell = np.array([np.searchsorted(radii, some) for some in distance])
        bound = np.take_along_axis(np.concatenate([profile, np.full((1, n), LARGEST)]), cell, axis=0)
        value = bound * rng.random(bound.shape)
        value[1:][rng.random((3, n)) < 0.2] = -np.inf
        made.append(Part("", np.arange(n), weights, radii, profile, LARGEST, distance, value, 0))
    return made


def streamed(chunks: Sequence[Part], order: float, accuracy: float = 1e-9) -> tuple[StreamedDual, list[int]]:
    """The dual, and how many sums each pass asked for."""
    passes: list[int] = []

    def measure(places: Sequence[At]) -> dict[At, Tally]:
        passes.append(len(places))
        sums = dict.fromkeys(places, Tally(0, 0, 0.0))
        for chunk in reversed(chunks):  # the order does not matter
            for place, tally in tallies(chunk, order, places).items():
                sums[place] += tally
        return sums

    weight = sum(exact_sum(chunk.weights) for chunk in chunks)
    start = (0.0, 0.01, 0.1, 1.0, 10.0, 1e6, 1e12)
    return StreamedDual(measure, order, weight, () if math.isinf(order) else start, accuracy), passes


def in_memory(chunks: Sequence[Part]) -> Cells:
    """The cells of all chunks in one."""
    cells = [Cells.from_profiles(c.radii, c.profile.T, c.largest, c.weights + (c.weights.sum() == 0)) for c in chunks]
    first = np.cumsum([0, *(len(some.weights) for some in cells)])
    owner = np.concatenate([some.owner + start for some, start in zip(cells, first, strict=False)])
    names = ("near", "far", "value", "open_")
    rest = {name: np.concatenate([getattr(some, name) for some in cells]) for name in names}
    return Cells(owner=owner, weights=np.concatenate([chunk.weights for chunk in chunks]), **rest)


def best_plan(owner: np.ndarray, cost: np.ndarray, value: np.ndarray, weights: np.ndarray, budget: float) -> float:
    """The transport problem as a linear program: masses on points, nobody's mass lost, the budget kept."""
    shares = weights / weights.sum()
    keep = np.array([owner == i for i in range(len(weights))], dtype=float)
    found = linprog(-value, cost[None], [budget], keep, shares, method="highs")
    assert found.status == 0
    return float(-found.fun)


def points(chunks: Sequence[Part], order: float, cells: bool) -> tuple[np.ndarray, ...]:
    """Owner, cost and value of all points of all chunks, cells at their near ends."""
    rows, start = [], 0
    for chunk in chunks:
        for i in range(len(chunk)):
            if cells:
                radii, values = [0.0, *chunk.radii], [*chunk.profile[:, i], chunk.largest]
            else:
                radii, values = chunk.cost[:, i], chunk.value[:, i]
            rows += [
                (start + i, radius**order, value) for radius, value in zip(radii, values, strict=True) if value >= 0
            ]
        start += len(chunk)
    owner, cost, value = np.array(rows).T
    return owner, cost, value, np.concatenate([chunk.weights for chunk in chunks])


@steady
@given(seeds, orders, gammas)
def test_upper_is_the_linear_program(seed: int, order: float, gamma: float) -> None:
    chunks = parts(seed)
    if gamma == 0:
        exact = np.average(np.concatenate([c.profile[0] for c in chunks]), weights=points(chunks, 1.0, True)[3])
    else:
        exact = best_plan(*points(chunks, order, cells=True), gamma**order)
    dual, _ = streamed(chunks, order)
    (found,) = dual.uppers([gamma])
    assert exact - 1e-9 <= found.upper <= exact + found.tolerance + 1e-9
    assert found.tolerance <= 1e-8


@steady
@given(seeds, orders, gammas)
def test_lower_is_the_linear_program(seed: int, order: float, gamma: float) -> None:
    chunks = parts(seed)
    owner, cost, value, weights = points(chunks, order, cells=False)
    exact = best_plan(owner, cost, value, weights, gamma**order)
    dual, _ = streamed(chunks, order)
    (found,) = dual.lowers([gamma])
    assert exact - 1e-7 <= found <= exact + 1e-9


@steady
@given(seeds, st.sampled_from([1.0, 2.0, math.inf]), st.lists(gammas, min_size=1, max_size=4))
def test_one_pass_in_memory_gives_the_same_bits(seed: int, order: float, some: list[float]) -> None:
    """Anyone checks the bound with its multiplier by the formula for a table in memory."""
    chunks = parts(seed)
    cells = in_memory(chunks)
    dual, _ = streamed(chunks, order)
    for found in dual.uppers(some):
        assert found.upper == evaluate(cells, order, found.gamma, found.multiplier)
        best = Dual(cells, order).bound(found.gamma).upper
        assert found.upper <= best + found.tolerance + 1e-12
        assert abs(dual.grid_error(found.gamma) - Dual(cells, order).grid_error(found.gamma)) <= 1e-8


@steady
@given(seeds, st.sampled_from([1.0, 2.0, math.inf]), st.floats(0, 1))
def test_largest_gamma(seed: int, order: float, epsilon: float) -> None:
    chunks = parts(seed)
    cells = in_memory(chunks)
    dual, _ = streamed(chunks, order)
    radii = sorted({radius for chunk in chunks for radius in chunk.radii})
    found, expected = dual.largest_gamma(epsilon, radii), Dual(cells, order).largest_gamma(epsilon)
    if found is None or expected is None:
        assert found == expected
        return
    assert found == expected or found == pytest.approx(expected, rel=1e-5, abs=1e-9)
    if math.isfinite(found):
        assert dual.uppers([found])[0].upper <= epsilon


def test_infinity_and_nobody_with_weight_in_a_chunk() -> None:
    chunks = parts(5)
    dual, _ = streamed(chunks, 1.0)
    (found,) = dual.uppers([math.inf])
    assert found.upper == 1.0 and found.multiplier == 0.0
    empty = Part("", np.arange(0), np.zeros(0), np.zeros(1), np.zeros((1, 0)), 0.0, *[np.zeros((1, 0))] * 2, 3)
    with_empty, _ = streamed([empty, *chunks, empty], 1.0)
    assert with_empty.uppers([0.1]) == dual.uppers([0.1])


def test_few_passes_for_many_gammas() -> None:
    """All gammas and all kinds of sums share passes; a second question about the same needs none."""
    chunks = parts(7, count=6, people=50)
    dual, passes = streamed(chunks, 1.0, accuracy=1e-7)
    many = np.linspace(0, 1, 8).tolist()
    dual.prepare(many)
    assert len(passes) <= 10
    before = len(passes)
    assert [found.tolerance <= 1e-6 for found in dual.uppers(many)] == [True] * 8
    dual.lowers(many)
    assert len(passes) == before


def test_without_refinement_the_bound_is_loose_but_sound() -> None:
    chunks = parts(6, count=5)
    exact = best_plan(*points(chunks, 1.0, cells=True), 0.05)
    dual, _ = streamed(chunks, 1.0, accuracy=1.0)
    (found,) = dual.uppers([0.05])
    assert exact < found.upper <= exact + found.tolerance + 1e-9
    assert found.tolerance > 1e-6
