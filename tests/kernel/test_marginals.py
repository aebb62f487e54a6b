"""Known margins against a convex program, random populations that have them, and hostile numbers."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from isonomy import Marginals as Shift
from isonomy.certificates.tilting import Tilting
from isonomy_verify.marginals import Margin, Marginals, log_down, log_up
from isonomy_verify.reweighting import Hints, Sample, bounds, hidden
from isonomy_verify.shifts import shift_of
from isonomy_verify.text import BadInput

seeds = st.integers(0, 2**32 - 1)


def drawn(seed: int, n: int = 24, residual: float = 0.2, tolerance: float = 0.02, strangers: float = 0.0) -> Any:
    """People in three and two cells, and a shift towards the margins of another reweighting of them."""
    rng = np.random.default_rng(seed)
    cells = np.stack([np.append(np.arange(3), rng.integers(0, 3, n - 3)),
                      3 + np.append([0, 1], rng.integers(0, 2, n - 2))], axis=1)  # fmt: skip
    high, weights = rng.random(n) * rng.random(n), rng.uniform(0.2, 2, n)
    sample = Sample(high, high * rng.uniform(0.9, 1, n), weights, cells)
    target = weights * rng.uniform(0.5, 1.5, n)
    shares = [np.bincount(cells[:, f] - base, target / target.sum()).tolist() for f, base in ((0, 0), (1, 3))]
    known = (Margin("a", None, tuple(shares[0]), (0.0,) * 3), Margin("b", (0.5,), tuple(shares[1]), (0.0,) * 2))
    return sample, Shift(known, residual, strangers, tolerance).tilted(cells, weights)


def tilted(sample: Sample, shift: Shift) -> Any:
    each = np.array([t for margin in shift.known for t in margin.tilt])
    p = sample.weights * np.exp(each[sample.groups].sum(1))
    return p / p.sum()


def indicators(sample: Sample) -> Any:
    return np.stack([(sample.groups == cell).any(axis=1) for cell in range(5)]).astype(float)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strangers", [0.0, 0.05])
def test_upper_is_the_optimum_of_a_convex_program(seed: int, strangers: float) -> None:
    sample, shift = drawn(seed, residual=[0.05, 0.3][seed % 2], strangers=strangers)
    upper, lower = bounds(shift.kernel, sample, shift.hints(sample), 1.0)
    p, psi = tilted(sample, shift), indicators(sample)
    # All of the strangers, or none, may be in a cell.
    shares = np.array([share for margin in shift.known for share in margin.shares])
    low, high = ((shares + sign * 0.02 - (sign < 0) * strangers) / (1 - strangers) for sign in (-1, 1))

    def left(q: Any) -> float:
        return float((q * np.log(np.maximum(q, 1e-300) / p)).sum())

    found = minimize(
        lambda q: -(q @ sample.high), p, jac=lambda q: -sample.high, method="SLSQP", bounds=[(1e-12, 1)] * len(p),
        options={"ftol": 1e-16, "maxiter": 2000},
        constraints=[{"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: np.ones(len(q))},
                     {"type": "ineq", "fun": lambda q: np.append(high - psi @ q, psi @ q - low),
                      "jac": lambda q: np.append(-psi, psi, axis=0)},
                     {"type": "ineq", "fun": lambda q: shift.residual - left(q),
                      "jac": lambda q: -(np.log(np.maximum(q, 1e-300) / p) + 1)}],
    )  # fmt: skip
    q = found.x
    short = max(abs(q.sum() - 1), left(q) - shift.residual, (psi @ q - high).max(), (low - psi @ q).max())
    assert short < 1e-9  # of the program's constraints
    truth = (1 - strangers) * -found.fun + strangers
    assert upper >= truth - 1e-8 and upper == pytest.approx(truth, abs=1e-8 if found.success else 1e-6)
    assert lower <= upper and shift.hints(sample).population
    same = sample._replace(low=sample.high)
    if not strangers:
        assert bounds(shift.kernel, same, shift.hints(same), 1.0)[1] == pytest.approx(upper, abs=1e-5)


@settings(max_examples=60, deadline=None)
@given(seeds, st.floats(1e-3, 3), st.floats(1e-4, 20), st.sampled_from([0.0, 0.1]))
def test_no_population_with_the_margins_is_above_any_bound(
    seed: int, residual: float, slope: float, tau: float
) -> None:
    """Random reweightings drawn towards the tilted people until they keep to the shift, strangers among them."""
    sample, shift = drawn(seed, residual=residual, strangers=tau)
    rng, kernel, p, psi = np.random.default_rng(seed), shift.kernel, tilted(sample, shift), indicators(sample)
    theta = tuple(rng.normal(size=5) * rng.choice([0.0, 0.1, 3.0]))
    uppers = [bounds(kernel, sample, each, 1.0)[0] for each in (Hints((slope, *theta)), shift.hints(sample))]
    shares = np.array([share for margin in shift.known for share in margin.shares])
    top = np.argmax(sample.high)
    for _ in range(6):
        q, r = rng.dirichlet(np.full(len(p), rng.choice([0.1, 1.0]))), rng.dirichlet(np.full(len(p), 0.1))
        r[top] += 3  # the worst, often
        r /= r.sum()
        for _ in range(60):
            whole = (1 - tau) * q + tau * r
            fits = (np.abs(psi @ whole - shares) <= shift.tolerance).all()
            if fits and (q * np.log(np.maximum(q, 1e-300) / p)).sum() <= residual:
                assert all(whole @ sample.high <= upper + 1e-12 for upper in uppers)
                break
            q, r = 0.8 * q + 0.2 * p, 0.8 * r + 0.2 * p


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([0.0, 0.02, 0.5, 4.0]), st.sampled_from([0.0, 0.2]))
def test_the_population_of_the_lower_bound_is_one(seed: int, residual: float, tau: float) -> None:
    sample, shift = drawn(seed, residual=residual, strangers=tau)
    hints, p, psi = shift.hints(sample), tilted(sample, shift), indicators(sample)
    upper, lower = bounds(shift.kernel, sample, hints, 1.0)
    q = shift.masses(sample, hints)
    q = q / q.sum()
    shares = np.array([share for margin in shift.known for share in margin.shares])
    if lower > 0:
        assert (np.abs(psi @ q - shares) <= shift.tolerance + 1e-12).all()
        assert (q * np.log(np.maximum(q, 1e-300) / p)).sum() <= residual + 1e-9
        assert lower == pytest.approx(q @ sample.low, abs=1e-9) and lower <= upper


@settings(max_examples=40, deadline=None)
@given(seeds, st.sampled_from([0.0, 0.05, 0.5]))
def test_bounds_rise_no_faster_than_is_said(seed: int, residual: float) -> None:
    sample, shift = drawn(seed, residual=residual)
    rng, hints = np.random.default_rng(seed), shift.hints(sample)
    more = sample._replace(high=np.minimum(1.0, sample.high + rng.random(24) * rng.choice([0.0, 1.0], 24)))
    mean = float(np.average(more.high - sample.high, weights=sample.weights)) + 1e-12
    low, high = (bounds(shift.kernel, some, hints, 1.0)[0] for some in (sample, more))
    assert low <= high <= low + hidden(shift.kernel, sample, hints, 1.0, mean) * (1 + 1e-9) + 1e-12


def test_the_divergence_is_what_the_margins_leave() -> None:
    """For populations with the very margins of the tilted people the divergence from the people adds up."""
    sample, shift = drawn(5)
    p, psi = tilted(sample, shift), indicators(sample)
    base = sample.weights / sample.weights.sum()
    free = np.linalg.svd(np.append(psi, np.ones((1, 24)), axis=0))[2][5:]  # moves that keep every margin
    q = p + 0.3 * p.min() * free[0] / np.abs(free[0]).max()
    assert (q > 0).all() and psi @ q == pytest.approx(psi @ p, abs=1e-12)
    kl = [float((a * np.log(a / b)).sum()) for a, b in ((q, base), (q, p), (p, base))]
    assert kl[0] == pytest.approx(kl[1] + kl[2], abs=1e-12)


def test_what_is_no_hint_is_refused() -> None:
    sample, shift = drawn(1)
    hints, kernel = shift.hints(sample), shift.kernel
    for multipliers in ((), (0.0, *hints.multipliers[1:]), (-1.0, *hints.multipliers[1:]), hints.multipliers[:-1],
                        (math.nan, *hints.multipliers[1:]), (*hints.multipliers[:-1], math.inf)):  # fmt: skip
        with pytest.raises(BadInput):
            kernel.upper(sample, hints._replace(multipliers=multipliers))
    slope, *theta = hints.population
    with pytest.raises(BadInput, match="divergence is too large"):
        Marginals(shift.known, 0.19, 0.02).lower(sample, hints)
    with pytest.raises(BadInput, match="margins"):
        kernel.lower(sample, hints._replace(population=(slope, theta[0] + 3 * slope, *theta[1:])))
    for wrong in ((slope,), (0.0, *theta), (slope, *theta, 0.0), (slope, math.nan, *theta[1:])):
        with pytest.raises(BadInput):
            kernel.lower(sample, hints._replace(population=wrong))
    off = shift.known[0]._replace(tilt=(shift.known[0].tilt[0] + 0.5, *shift.known[0].tilt[1:]))
    with pytest.raises(BadInput, match="tilts that do not give"):
        Marginals((off, shift.known[1]), 0.2, 0.02).upper(sample, hints)


@pytest.mark.parametrize("change", [
    {"residual": -0.1}, {"residual": "inf"}, {"residual": None}, {"tolerance": 0.0}, {"tolerance": 1.0},
    {"tolerance": True}, {"margins": []}, {"margins": None}, {"strangers": 1.0},
    *({"margins": [{"feature": "a", "edges": edges, "shares": shares, "tilt": tilt}]} for edges, shares, tilt in (
        (None, [0.5, 0.5], [0.0]), ([0.5], [1.0], [0.0]), ([0.5, 0.5], [0.2, 0.3, 0.5], [0.0] * 3), (None, [], []),
        (None, [-0.1, 1.1], [0, 0]), (None, [0.5, 0.5], [0, "inf"]), (["inf"], [0.5, 0.5], [0, 0]),
        ([None], [0.5, 0.5], [0, 0]))),
    {"margins": 2 * [{"feature": "a", "edges": None, "shares": [0.5, 0.5], "tilt": [0.0, 0.0]}]},
])  # fmt: skip
def test_a_section_that_means_no_margins_is_refused(change: dict[str, Any]) -> None:
    section = drawn(0)[1].section()
    assert shift_of(section) == drawn(0)[1].kernel
    with pytest.raises(BadInput):
        shift_of(section | change)


def test_cells_are_those_of_categories_and_bins() -> None:
    kernel = drawn(0)[1].kernel
    places = {"a": slice(1, 4), "b": slice(0, 1)}
    x = np.array([[0.5, 0, 1, 0], [0.5000001, 1, 0, 0], [0.2, 0, 0, 0], [9.0, 0, 0, 1.0]])
    assert kernel.groups(x, places).tolist() == [[1, 3], [0, 4], [5, 3], [2, 4]]
    for wrong in ({"a": slice(1, 3), "b": slice(0, 1)}, {"b": slice(0, 1)}):
        with pytest.raises(BadInput):
            kernel.groups(x, wrong)


@settings(max_examples=60, deadline=None)
@given(seeds, st.sampled_from([1e-145, 1e-8, 1.0, 1e150]), st.sampled_from([1e-9, 1e-3, 1.0, 1e6]))
def test_hostile_numbers_stay_below_the_truth(seed: int, scale: float, slope: float) -> None:
    """The value of the dual in many digits is never above the kernel's."""
    rng = np.random.default_rng(seed)
    sample, shift = drawn(seed % 7, residual=0.3)
    sample = sample._replace(weights=sample.weights * scale)
    theta = rng.normal(size=5) * rng.choice([0.0, 1e-6, 1.0, 50.0])
    found = shift.kernel.upper(sample, Hints((slope, *theta.tolist())))
    with mpmath.workdps(60):
        tilts = [mpmath.mpf(t) for margin in shift.known for t in margin.tilt]
        total, base = mpmath.mpf(0), mpmath.mpf(0)
        for u, w, cells in zip(sample.high, sample.weights, sample.groups, strict=True):
            tilt = sum(tilts[cell] for cell in cells)
            moved = (mpmath.mpf(u) - sum(mpmath.mpf(theta[cell]) for cell in cells)) / slope
            total, base = total + mpmath.mpf(w) * mpmath.exp(moved + tilt), base + mpmath.mpf(w) * mpmath.exp(tilt)
        paid = sum(max(mpmath.mpf(t) * mpmath.mpf(a.numerator) / a.denominator,
                       mpmath.mpf(t) * mpmath.mpf(b.numerator) / b.denominator)
                   for t, (a, b) in zip(theta, shift.kernel.limits, strict=True))  # fmt: skip
        truth = paid + slope * (mpmath.mpf(0.3) + mpmath.log(total / base))
        exact = mpmath.mpf(found.numerator) / found.denominator
        assert truth <= exact <= truth + 1e-9 * (1 + slope + abs(truth))


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-300, 1e300))
def test_logarithms_enclose(value: float) -> None:
    with mpmath.workdps(40):
        assert log_down(value) <= mpmath.log(mpmath.mpf(value)) <= log_up(value)


def test_the_column_that_keeps_margins_from_people_is_named() -> None:
    cells = np.array([[0, 3], [1, 4], [0, 4]])
    tilting = Tilting(cells, np.array([0.1, 0.1, 0.3, 0.0, 0.0]), np.array([0.5, 0.5, 0.5, 1.0, 1.0]))
    assert tilting.missing()[2] == pytest.approx(0.3) and tilting.missing()[3:].sum() == pytest.approx(0)
