"""Shifts in which no individual moves against exact rationals, linear and convex programs, enumeration and random
populations; also where numbers are hostile."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from isonomy import Mix as MixShift
from isonomy import Part as PartShift
from isonomy import Stability as StabilityShift
from isonomy_verify.dual import HUGE
from isonomy_verify.reweighting import (
    ROWS,
    Hints,
    Mix,
    Part,
    Sample,
    Stability,
    bounds,
    conjugate_up,
    groups_of,
    hidden,
    index_up,
    numbered,
    sample_of,
)
from isonomy_verify.shifts import Transport, shift_of
from isonomy_verify.text import BadInput

quick = settings(max_examples=150, deadline=None)
VALUES = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 5e-324, 1e-200, 1e-310, 0.5, 1.0, 1e150, HUGE]))
WEIGHTS = st.one_of(st.floats(1e-3, 1), st.sampled_from([0.0, 1.0, 3.0, 1e-300, 1e-150, 1e150, 2.0**500]))
SHARES = st.one_of(st.floats(1e-6, 1), st.sampled_from([1.0, 0.5, 0.1, math.nextafter(1.0, 0.0), 1e-300]))
LEVELS = st.one_of(st.floats(0, 2), st.sampled_from([0.0, 5e-324, 1e-310, 1e150, 1e308]))


def worst_mean(values: list[float], weights: list[float], at_least: float) -> Fraction:
    """The mean of the worst share by weight, exactly: sorted, the last one in part."""
    total = sum(map(Fraction, weights))
    left = share = Fraction(at_least) * total
    reached = Fraction(0)
    for value, weight in sorted(zip(values, weights, strict=True), reverse=True):
        taken = min(left, Fraction(weight))
        reached, left = reached + taken * Fraction(value), left - taken
    return reached / share


@st.composite
def people(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    n = draw(st.integers(1, 7))
    values = draw(st.lists(VALUES, min_size=n, max_size=n))
    weights = draw(st.lists(WEIGHTS, min_size=n, max_size=n))
    assume(any(weights))
    return values, weights


def drawn(seed: int, n: int = 30, groups: int = 4) -> Sample:
    rng = np.random.default_rng(seed)
    high = rng.random(n) * rng.random(n)
    who = np.append(np.arange(groups), rng.integers(0, groups, n - groups))
    return sample_of(high, high * rng.uniform(0.9, 1, n), rng.uniform(0.1, 2, n), who)


# -- parts


@quick
@given(people(), SHARES, LEVELS)
def test_every_level_bounds_every_part(some: tuple[list[float], list[float]], at_least: float, level: float) -> None:
    values, weights = some
    sample, truth = sample_of(np.array(values), np.array(values), np.array(weights)), worst_mean(*some, at_least)
    for each in (level, *values):
        assert Part(at_least).upper(sample, Hints((each,))) >= truth
        assert Part(at_least).lower(sample, Hints((), (each,))) <= truth
    assert Part(at_least).upper(sample, Hints()) >= truth >= Part(at_least).lower(sample, Hints())


@quick
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 1))
def test_the_best_level_meets_the_worst_part(seed: int, at_least: float) -> None:
    sample, shift = drawn(seed), PartShift(at_least)
    upper, lower = bounds(shift.kernel, sample, shift.hints(sample), 1.0)
    for found, values in ((upper, sample.high), (lower, sample.low)):
        truth = worst_mean(values.tolist(), sample.weights.tolist(), at_least)
        assert found == pytest.approx(float(truth), rel=1e-12)
    share = sample.weights / sample.weights.sum()
    limits = [(0.0, each / at_least) for each in share]
    program = linprog(-sample.high, A_eq=np.ones((1, len(share))), b_eq=[1.0], bounds=limits, method="highs")
    assert upper == pytest.approx(-program.fun, abs=1e-8)


# -- mixtures


def limits_of(rng: np.random.Generator, groups: int) -> tuple[tuple[float, float], ...] | None:
    if rng.random() < 0.3:
        return None
    share = rng.dirichlet(np.ones(groups))
    return tuple((float(one * rng.random()), float(min(1.0, one + rng.random() * 0.3) if one < 1 else 1.0))
                 for one in share)  # fmt: skip


@quick
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(-1, 2))
def test_every_level_bounds_every_mix_and_the_best_is_that_of_a_program(seed: int, groups: int, level: float) -> None:
    rng, sample = np.random.default_rng(seed), drawn(seed, groups=groups)
    limits = limits_of(rng, groups)
    ends = limits or ((0.0, 1.0),) * groups
    kernel, shift = Mix(("sex",), limits), MixShift(["sex"], limits)
    means = [np.average(sample.high[sample.groups == g], weights=sample.weights[sample.groups == g])
             for g in range(groups)]  # fmt: skip
    program = linprog(-np.array(means), A_eq=np.ones((1, groups)), b_eq=[1.0], bounds=ends, method="highs")
    assert float(kernel.upper(sample, Hints((level,)))) >= -program.fun - 1e-9
    hints = shift.hints(sample)
    upper, lower = bounds(kernel, sample, hints, 1.0)
    assert upper == pytest.approx(-program.fun, abs=1e-8) and 0.9 * upper - 1e-9 <= lower <= upper
    if limits is None:  # by enumeration of the groups
        assert upper == pytest.approx(max(means), rel=1e-12)
    low, high = (np.array(side) for side in zip(*ends, strict=True))
    for _ in range(5):  # random mixtures within the limits
        share = low + (1 - low.sum()) * rng.dirichlet(np.ones(groups))
        if (share <= high).all():
            assert share @ means <= upper + 1e-12


def test_shares_outside_the_limits_are_refused() -> None:
    sample, kernel = drawn(0, groups=2), Mix(("sex",), ((0.2, 0.6), (0.1, 0.9)))
    assert kernel.lower(sample, Hints((), (0.3, 0.5))) > 0
    for wrong in ((0.1, 0.5), (0.7, 0.3), (0.6, 0.5), (0.5,), (), (math.nan, 0.5), (0.2, 0.05)):
        with pytest.raises(BadInput):
            kernel.lower(sample, Hints((), wrong))
    with pytest.raises(BadInput, match="limits of 2 groups"):
        kernel.upper(drawn(0, groups=3), Hints())
    for limits in (((0.6, 1.0), (0.6, 1.0)), ((0.0, 0.4), (0.0, 0.5)), ((0.5, 0.4), (0.5, 1.0)), ((-0.1, 1.0),)):
        with pytest.raises(ValueError, match="limits"):
            Mix(("sex",), limits)


def test_groups_are_those_with_the_same_coordinates() -> None:
    x = np.array([[1.0, 0, 7], [0, 1, 7], [1, 0, 8], [0, 1, 9]])
    places = {"sex": slice(0, 2), "age": slice(2, 3)}
    assert groups_of(x, places, ("sex",)).tolist() == [1, 0, 1, 0]
    assert groups_of(np.where(x == 0, [[-0.0], [0.0], [0.0], [0.0]], x), places, ("sex",)).tolist() == [1, 0, 1, 0]
    assert len(set(groups_of(x, places, ("sex", "age")).tolist())) == 4
    with pytest.raises(BadInput, match="race"):
        groups_of(x, places, ("race",))


def test_groups_are_formed_in_parts_and_numbered_by_their_rows() -> None:
    rng = np.random.default_rng(0)
    n, places = 12 * ROWS, {"race": slice(1, 6), "age": slice(6, 7)}
    x = np.zeros((n, 8))
    x[np.arange(n), 1 + rng.integers(0, 5, n)], x[:, 6] = 1.0, rng.integers(0, 3, n)
    tracemalloc.start()
    groups = groups_of(x, places, ("age", "race"))
    sample = sample_of(x[:, 1], x[:, 2], np.ones(n), groups)
    most = tracemalloc.get_traced_memory()[1] / n
    tracemalloc.stop()
    assert (groups == np.unique(x[:, [6, 1, 2, 3, 4, 5]], axis=0, return_inverse=True)[1].reshape(-1)).all()
    assert (sample.groups == groups).all()
    assert most < 48  # bytes a row: without copies of everybody


@given(st.lists(st.integers(0, 2**17), min_size=1, max_size=30))
def test_numbers_are_places_among_those_that_occur(values: list[int]) -> None:
    some = np.array(values)
    assert (numbered(some) == np.unique(some, return_inverse=True)[1]).all()


# -- the stability index


@quick
@given(st.floats(-500, 500))
def test_the_conjugate_is_rounded_up(s: float) -> None:
    """Against a root in multiple precision: never below, and close."""
    with mpmath.workdps(60):
        start = mpmath.mpf(s - 1 if s > 1 else s / 2 if s > -2 else -math.log(1 - s))
        x = mpmath.findroot(lambda x: x + 1 - mpmath.exp(-x) - s, start)
        truth = mpmath.exp(x) - 1 + x
        found = mpmath.mpf(conjugate_up(s))
        assert found >= truth and found - truth <= 1e-11 * (1 + abs(truth))


def test_the_conjugate_of_what_is_far_below_0() -> None:
    """It is about ``−1 − log |s|``, whatever ``s``: an index of 1,000 has such slopes."""
    for s in (-1e10, -1e100, -3.77e262, -1e300):
        with mpmath.workdps(60):
            x = mpmath.findroot(lambda x, s=s: (x + 1 - mpmath.exp(-x)) / s - 1, -mpmath.log(1 - mpmath.mpf(s)))  # type: ignore[misc]
            truth = mpmath.exp(x) - 1 + x
        assert truth <= conjugate_up(s) <= truth + 1e-9 * abs(truth)
    assert conjugate_up(-math.inf) == conjugate_up(-1.7e308) == conjugate_up(-1e300)


@quick
@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_the_index_is_rounded_up(seed: int, bins: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = ([Fraction(int(v)) for v in rng.integers(1, 10**6, bins)] for _ in range(2))
    q, p = ([v / sum(some) for v in some] for some in (one, other))
    with mpmath.workdps(60):
        truth = sum((mpmath.mpf(a.numerator) / a.denominator - mpmath.mpf(b.numerator) / b.denominator)
                    * mpmath.log(mpmath.mpf((a / b).numerator) / (a / b).denominator)
                    for a, b in zip(q, p, strict=True))  # fmt: skip
        found = index_up(q, p)
        assert mpmath.mpf(found.numerator) / found.denominator >= truth
        assert float(found) <= float(truth) * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize("steps", [2, 5, 1001, 2**40])
def test_shares_among_the_smallest_floats_have_no_index(steps: int) -> None:
    """Floats have few digits there: a quotient rounds by more than logarithms are charged for."""
    people = Sample(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([3.0, 1.0]), np.zeros(2, dtype=np.intp))
    hints = Hints(population=(steps * 5e-324, 1.0), edges=(0.0, 1.0))
    with pytest.raises(OverflowError):
        Stability(600.0, 2).lower(people, hints)


def binned(sample: Sample, edges: tuple[float, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    shares = np.bincount(np.searchsorted(np.array(edges), sample.high), sample.weights, minlength=len(edges))
    return shares / shares.sum()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.001, 2), st.integers(2, 8))
def test_the_index_bounds_a_numerical_optimum_and_meets_it(seed: int, kappa: float, bins: int) -> None:
    sample, shift = drawn(seed), StabilityShift(kappa, bins)
    hints = shift.hints(sample)
    upper, lower = bounds(shift.kernel, sample, hints, 1.0)
    edges, p = np.array(hints.edges), binned(sample, hints.edges)
    found = minimize(
        lambda q: -(q @ edges), p, bounds=[(1e-12, 1)] * len(p), method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
        constraints=[{"type": "eq", "fun": lambda q: q.sum() - 1},
                     {"type": "ineq", "fun": lambda q: kappa - ((q - p) * np.log(q / p)).sum()}],
    )  # fmt: skip
    kept = abs(found.x.sum() - 1) < 1e-12 and ((found.x - p) * np.log(found.x / p)).sum() <= kappa + 1e-12
    if kept:
        assert -found.fun <= upper + 1e-9
    if found.success and kept:
        assert upper == pytest.approx(-found.fun, abs=1e-6)
    # The multipliers meet the kernel's own primal: shares of bins at the ends of the bins.
    same = sample._replace(low=edges[np.searchsorted(edges, sample.high)])
    top = bounds(shift.kernel, same, shift.hints(same), 1.0)
    assert top[1] <= top[0] <= top[1] + 1e-8 and lower <= upper == top[0]


@quick
@given(st.integers(0, 2**32 - 1), st.floats(0.001, 2), st.floats(1e-6, 50), st.floats(-2, 3))
def test_no_population_of_the_index_is_above_any_bound(seed: int, kappa: float, slope: float, level: float) -> None:
    """Random shares of bins, drawn towards the individuals' until they keep to the index; any multipliers."""
    rng, sample = np.random.default_rng(seed), drawn(seed)
    shift = StabilityShift(kappa, 6)
    edges = shift.hints(sample).edges
    p, kernel = binned(sample, edges), shift.kernel
    uppers = [float(kernel.upper(sample, Hints(each, (), edges)))
              for each in ((slope, level), shift.hints(sample).multipliers)]  # fmt: skip
    for _ in range(5):
        q = rng.dirichlet(np.ones(len(p)) * rng.choice([0.3, 3.0]))
        while ((q - p) * np.log(np.maximum(q, 1e-300) / p)).sum() > kappa:
            q = (q + p) / 2
        assert all(q @ np.array(edges) <= upper + 1e-12 for upper in uppers)


def test_populations_beyond_the_index_and_wrong_bins_are_refused() -> None:
    sample, shift = drawn(3), StabilityShift(0.1, 5)
    hints, kernel = shift.hints(sample), shift.kernel
    worst = np.array(hints.population)
    with pytest.raises(BadInput, match="index is too large"):
        kernel.lower(sample, hints._replace(population=tuple((worst * np.linspace(0.9, 1.1, len(worst))).tolist())))
    with pytest.raises(BadInput, match="index is too large"):
        Stability(0.05, 5).lower(sample, hints)
    edges = np.array(hints.edges)
    for wrong in (edges[:-1], edges[::-1], np.append(edges, edges[-1] + 1), edges - 1e-9, np.append(-1.0, edges[1:]),
                  np.append(edges, math.inf), np.linspace(0, 1, 40)):  # fmt: skip
        with pytest.raises(BadInput, match="bin"):
            kernel.upper(sample, hints._replace(edges=tuple(wrong.tolist())))
    for multipliers in ((0.0, 0.1), (-1.0, 0.1), (math.nan, 0.1), (math.inf, 0.1), (1.0,), (1.0, 2.0, 3.0)):
        with pytest.raises(BadInput):
            kernel.upper(sample, hints._replace(multipliers=multipliers))
    for population in ((), tuple(worst[:-1]), (0.0, *worst[1:]), (-0.1, *worst[1:])):
        if population:
            with pytest.raises(BadInput):
                kernel.lower(sample, hints._replace(population=population))


def test_an_index_of_0_is_the_mean_in_bins() -> None:
    sample, shift = drawn(1), StabilityShift(0.0, 1000)
    upper, lower = bounds(shift.kernel, sample, shift.hints(sample), 1.0)
    assert upper == pytest.approx(np.average(sample.high, weights=sample.weights), rel=1e-12)
    assert lower == pytest.approx(np.average(sample.low, weights=sample.weights), rel=1e-12)


# -- strangers, what can hide, and sections


@pytest.mark.parametrize("make", [lambda t: PartShift(0.3, t), lambda t: StabilityShift(0.2, 5, t),
                                  lambda t: MixShift(["sex"], None, t)])  # fmt: skip
@pytest.mark.parametrize("tau", [0.01, 0.3, 0.9])
def test_strangers_are_anybody(make: Any, tau: float) -> None:
    sample, largest = drawn(2), 1.5
    without, with_ = (bounds(make(each).kernel, sample, make(each).hints(sample), largest) for each in (0.0, tau))
    assert with_[0] == pytest.approx((1 - tau) * without[0] + tau * largest, rel=1e-12)
    assert with_[1] == pytest.approx((1 - tau) * without[1] + tau * sample.low.max(), rel=1e-12)


@quick
@given(st.integers(0, 2**32 - 1))
def test_bounds_rise_no_faster_than_is_said(seed: int) -> None:
    """Values that are too small in the mean by some make a bound too small by at most what can hide."""
    rng, sample = np.random.default_rng(seed), drawn(seed)
    more = sample._replace(high=sample.high + rng.random(len(sample.high)) * rng.choice([0.0, 1.0], len(sample.high)))
    mean = float(np.average(more.high - sample.high, weights=sample.weights)) + 1e-12
    for shift in (PartShift(0.2), PartShift(0.5, 0.1), MixShift(["sex"]), MixShift(["sex"], ((0.1, 0.5),) * 4)):
        low, high = (bounds(shift.kernel, some, shift.hints(some), 10.0)[0] for some in (sample, more))
        assert low <= high <= low + hidden(shift.kernel, sample, shift.hints(sample), 10.0, mean) * (1 + 1e-9) + 1e-12


WRONG: list[dict[str, Any]] = [
    *({"kind": "part", "at_least": value} for value in (0.0, 1.5, "inf", True, "0.1", None)),
    *({"kind": "part", "at_least": 0.5, "strangers": value} for value in (1.0, -0.1, "inf", None, True)),
    *({"kind": "stability", "kappa": value, "bins": 5} for value in (-0.1, "inf", None, True)),
    *({"kind": "stability", "kappa": 0.1, "bins": value} for value in (0, 1001, 2.5, None, True)),
    *({"kind": "mix", "features": value, "limits": None} for value in ([], ["a", "a"], None)),
    *({"kind": "mix", "features": ["a"], "limits": value}
      for value in (5, [[0.5]], [[0.9, 1.0], [0.9, 1.0]], [[0.2, 0.1]], [["inf", 1.0]])),
    {"kind": "parts", "gamma": 0.1, "order": 1.0}, {"kind": "transport", "gamma": -0.1, "order": 1.0},
    {"kind": "transport", "gamma": 0.1, "order": 0.5},
]  # fmt: skip


@pytest.mark.parametrize("section", WRONG)
def test_a_section_that_means_no_shift_is_refused(section: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        shift_of(section)


def test_sections_mean_their_shifts() -> None:
    assert shift_of({"kind": "part", "at_least": 0.25}) == Part(0.25)
    assert shift_of({"kind": "part", "at_least": 1}) == Part(1.0)
    assert shift_of({"kind": "transport", "gamma": "inf", "order": 2}) == Transport(2.0, math.inf)
    assert shift_of({"kind": "stability", "kappa": 0.1, "bins": 7, "strangers": 0.2}) == Stability(0.1, 7, 0.2)
    assert shift_of({"kind": "mix", "features": ["a"], "limits": [[0, 1]]}) == Mix(("a",), ((0.0, 1.0),))


def test_all_hints_of_small_integers_are_safe() -> None:
    """Every part, by enumeration of all sets of equal people."""
    values = np.array([0.1, 0.5, 0.9, 0.2])
    for size in (1, 2, 3, 4):
        worst = max(np.mean(some) for some in itertools.combinations(values, size))
        shift, sample = PartShift(size / 4), sample_of(values, values, np.ones(4))
        assert bounds(shift.kernel, sample, shift.hints(sample), 1.0) == pytest.approx((worst, worst), rel=1e-12)
