"""The population behind a sample: closed forms, other libraries, and how often bounds fail in simulated samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from isonomy import Mix, Part, Stability
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.stability import worst_shares
from isonomy.confidence import refuted_mean
from isonomy_verify.behind import bound_behind
from isonomy_verify.reweighting import Stability as KernelStability
from isonomy_verify.reweighting import bounds, sample_of
from isonomy_verify.sampling import (
    FEW_DRAWS,
    LEVELS,
    binomial_up,
    refuted,
    risk_of,
    share_down,
    share_up,
    stakes,
    tails_up,
)
from isonomy_verify.text import BadInput

quick = settings(max_examples=80, deadline=None)
Array = np.ndarray[Any, np.dtype[Any]]


# -- shares


@quick
@given(st.integers(1, 3000), st.floats(0, 1), st.floats(1e-9, 0.5))
def test_shares_are_those_of_clopper_and_pearson(n: int, part: float, risk: float) -> None:
    k = round(part * n)
    truth = stats.beta.isf(risk, k + 1, n - k) if k < n else 1.0
    assert truth * (1 - 1e-12) <= share_up(k, n, risk) <= truth * (1 + 1e-6) + 1e-12
    least = stats.beta.ppf(risk, k, n - k + 1) if k else 0.0
    assert least - 1e-6 <= share_down(k, n, risk) <= least * (1 + 1e-12)


@quick
@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_binomial_sums_are_rounded_up(n: int, part: float, p: float) -> None:
    k = round(part * n)
    truth = float(stats.binom.cdf(k, n, p))
    assert binomial_up(k, n, p) >= truth * (1 - 1e-9)
    if k < n * p * 0.9 and truth > 1e-290:
        assert binomial_up(k, n, p) <= truth * (1 + 1e-5)


def test_shares_of_many_and_of_none() -> None:
    assert share_up(0, 100, 0.05) == pytest.approx(1 - 0.05**0.01) and share_up(7, 7, 0.05) == 1.0
    assert share_down(0, 9, 0.05) == 0.0 and share_down(9, 9, 0.05) == pytest.approx(0.05 ** (1 / 9))
    assert share_up(10**7, 10**8, 1e-3) == pytest.approx(stats.beta.isf(1e-3, 10**7 + 1, 9 * 10**7), rel=1e-6)
    assert 0 < 1 - Fraction(0.95) - Fraction(risk_of(0.95)) < 1e-16


# -- bets


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=25), st.floats(0.05, 1), st.floats(0.001, 0.5), st.floats(0, 1))
def test_bets_are_the_average_over_levels(values: list[float], share: float, risk: float, mean: float) -> None:
    """The capital by its definition, and what it does with larger means and larger values."""
    v = np.array(values)
    theta = stakes(len(v), -math.log(risk))
    capital = []
    for level in LEVELS if share < 1 else (0.0,):
        x = share * (mean - level) / (1 - level)
        height = np.maximum(v - level, 0) / (1 - level)
        capital += [np.prod(1 + t * (x - height) / (1 - x)) if 0 <= x < 1 else 0.0 for t in theta]
    if np.mean(capital) < (1 - 1e-6) / risk:
        assert not refuted(v, 1.0, mean, risk, share)
    if np.mean(capital) > 1.001 / risk:
        assert refuted(v, 1.0, mean, risk, share)
    found = refuted_mean(v, 1.0, risk, share)
    sample = sample_of(v, v, np.ones(len(v)))
    assert found >= bounds(Part(share).kernel, sample, Part(share).hints(sample), 1.0)[1] - 1e-7
    assert refuted_mean(np.maximum(v, mean), 1.0, risk, share) >= found - 1e-7  # values may be replaced by bounds
    assert refuted_mean(3 * v, 3.0, risk, share) == pytest.approx(3 * found, abs=1e-6)


def test_values_of_many_are_rounded_up() -> None:
    v = np.random.default_rng(0).beta(1, 9, 2 * FEW_DRAWS)
    exact = stats.norm.isf(0.05) * v.std() / math.sqrt(len(v))
    assert exact < refuted_mean(v, 1.0, 0.05) - v.mean() < 3 * exact
    for wrong in (
        (v, 0.0, 0.1, 0.1, 1.0),
        (v, 1.0, 0.1, 1.0, 1.0),
        (v, 1.0, 0.1, 0.1, 0.0),
        (v[:0], 1.0, 0.1, 0.1, 1.0),
    ):
        with pytest.raises(ValueError, match="none"):
            refuted(*wrong)


# -- the notions, on a law that is known


def law(kind: str) -> tuple[Array, Array, Array]:
    """Values (k,), their probabilities (k,), and the group of each (k,)."""
    rng = np.random.default_rng(len(kind))
    if kind == "counts":
        return np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.5, 0.1, 0.25, 0.15]), np.array([0, 0, 1, 1])
    value = np.round(rng.beta(1, 6, 40) if kind == "skew" else 0.3 + 0.1 * rng.random(40), 6)
    groups = np.arange(40) % 3
    return np.append(value, 1.0), np.append(rng.dirichlet(np.ones(40)) * 0.99, 0.01), np.append(groups, 0)


def truth(shift: Reweighting, values: Array, probability: Array, groups: Array, people: Any, counts: bool) -> float:
    """The largest mean of the shift around the law itself."""
    if isinstance(shift, Stability):
        ends, _ = shift.kernel.bins_behind(people, 1.0, 0.1, counts)
        edges = np.array([float(end) for end in ends])
        shares = np.bincount(np.searchsorted(edges, values), probability, minlength=len(edges))
        if shift.kappa == 0:
            return float(shares @ edges)
        some = shares > 0
        mean = float(worst_shares(edges[some], shares[some], shift.kappa)[2] @ edges[some])
    else:
        sample = sample_of(values, values, probability, groups)
        mean = bounds(shift.kernel, sample, shift.hints(sample), 1.0)[1]
        tau = shift.strangers
        mean = (mean - tau * float(values.max())) / (1 - tau)
    return (1 - shift.strangers) * mean + shift.strangers


SHIFTS = [
    Part(1.0), Part(0.3), Part(0.1, strangers=0.1), Mix(["g"]), Mix(["g"], limits=((0.0, 0.4), (0.1, 0.7), (0.2, 0.9))),
    Stability(0.0, 10), Stability(0.2, 8), Stability(0.25, 20, strangers=0.05),
]  # fmt: skip


def failures(kind: str, n: int, risk: float, runs: int) -> dict[str, tuple[float, float]]:
    """How often each bound is below the truth, and by how much it is above it."""
    rng, (values, probability, groups) = np.random.default_rng(n), law(kind)
    counts = kind == "counts"
    failed: dict[str, list[float]] = {}
    for _ in range(runs):
        drawn = rng.choice(len(values), n, p=probability)
        if len(np.unique(groups[drawn])) < len(np.unique(groups)):
            continue
        high = (
            values[drawn] if counts else np.minimum(1.0, values[drawn] * rng.uniform(1, 1.02, n))
        )  # bounds, not values
        people = sample_of(high, values[drawn], np.ones(n), groups[drawn])
        for shift in SHIFTS:
            if isinstance(shift, Mix) and shift.limits is not None and counts:
                continue  # there are two groups
            hints = shift.hints_behind(people, 1.0, risk, counts)
            bound = bound_behind(shift.kernel, people, hints, 1.0, risk, counts)
            above = bound - truth(shift, values, probability, groups, people, counts)
            failed.setdefault(repr(shift), []).append(above)
    return {name: (float(np.mean(np.array(each) < -1e-9)), float(np.mean(each))) for name, each in failed.items()}


def check(found: dict[str, tuple[float, float]], risk: float, runs: int) -> None:
    for name, (rate, above) in found.items():
        assert rate <= risk + 3 * math.sqrt(risk * (1 - risk) / runs), (name, rate)
        assert above > -0.05, name  # of counts, half of which are below at a risk of a half


@pytest.mark.parametrize("kind", ["skew", "counts"])
def test_bounds_fail_no_more_often_than_is_said(kind: str) -> None:
    check(failures(kind, 60, 0.4, 12), 0.4, 12)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["skew", "narrow", "counts"])
@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("risk", [0.05, 0.5])
def test_coverage(kind: str, n: int, risk: float) -> None:
    check(failures(kind, n, risk, 600), risk, 600)


def test_order_statistics_are_exact_and_simulation_can_see_it() -> None:
    """At one rank the share above is exceeded as often as is said, so that nothing is given away."""
    rng, n, risk = np.random.default_rng(0), 50, 0.2
    (most,) = tails_up(n, [40], risk)
    above = 1 - np.sort(rng.random((4000, n)), axis=1)[:, 39]
    assert abs((above > most).mean() - risk) < 3 * math.sqrt(risk * (1 - risk) / 4000)
    pair = tails_up(n, [25, 40], risk)
    assert pair[1] > most and pair[0] == pytest.approx(stats.beta.isf(risk / 2, 26, 25))


@quick
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_a_band_is_worst_where_most_are_above_every_end(seed: int, kappa: float) -> None:
    """The bound of an index grows with the shares above the ends."""
    rng = np.random.default_rng(seed)
    people = sample_of(rng.random(30), np.zeros(30), np.ones(30))
    shift = Stability(kappa, 6)
    hints = shift.hints_behind(people, 1.0, 0.1, False)
    most = bound_behind(shift.kernel, people, hints, 1.0, 0.1)
    ends, shares = (np.array(each, dtype=float) for each in shift.kernel.bins_behind(people, 1.0, 0.1, False))
    tails = 1 - np.cumsum(shares)[:-1]
    lower = np.minimum.accumulate(tails * rng.random(len(tails)))
    other = -np.diff(np.concatenate([[1.0], lower, [0.0]]))
    some = other > 1e-9
    mean = (
        float(other @ ends)
        if kappa == 0
        else float(worst_shares(ends[some], other[some] / other[some].sum(), kappa)[2] @ ends[some])
    )
    assert mean <= most + 1e-7
    assert float(sum(shift.kernel.bins_behind(people, 1.0, 0.1, False)[1])) == 1.0


def test_hints_that_show_nothing() -> None:
    people = sample_of(np.linspace(0, 0.5, 20), np.zeros(20), np.ones(20), np.arange(20) % 2)
    behind: Callable[..., float] = bound_behind
    for shift, hints in ((Part(0.5), (0.3,)), (Mix(["g"]), (0.3, 0.3, 0.3)), (Stability(0.1, 4), (1e-9, 0.0))):
        assert behind(shift.kernel, people, hints, 1.0, 0.01) == 1.0  # no part so unfair is refuted by so few
    for shift, wrong in (
        (Part(0.5), (math.nan,)), (Part(0.5), (-0.1,)), (Mix(["g"]), (0.5, 0.5)), (Mix(["g"]), (0.5, math.inf, 0.5)),
        (Stability(0.1, 4), (0.0, 0.5)), (Stability(0.1, 4), (1.0,)),
    ):  # fmt: skip
        with pytest.raises(BadInput):
            behind(shift.kernel, people, wrong, 1.0, 0.01)
    heavy = sample_of(people.high, people.low, np.arange(1.0, 21.0))
    with pytest.raises(BadInput, match="unequal weight"):
        behind(Part(0.5).kernel, heavy, (0.9,), 1.0, 0.01)
    with pytest.raises(BadInput, match="above the largest"):
        behind(Part(0.5).kernel, people, (0.9,), 0.4, 0.01)
    assert behind(KernelStability(0.1, 1), people, (), 1.0, 0.05) == 1.0
