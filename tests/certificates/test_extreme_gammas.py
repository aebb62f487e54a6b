"""Any γ from 0 to infinity and any order has its bound: radii only guide, and what overflows is no bound."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from isonomy import AttackBudget, Domain, Network, Transport, WeightedLp, certify
from isonomy.certificates.profiles import FURTHEST, NEAREST, subradii
from isonomy_verify.arithmetic import power_down, power_up

from .judge import WIDTH, people, perceptron

QUICK = AttackBudget(steps=2, restarts=0, branches=2)
GAMMAS = [5e-324, 1e-310, 1e-200, 1e200, 1.7e308, math.inf]


@pytest.mark.some(6)
@pytest.mark.parametrize("order", [1.0, 100.0, 1e6, math.inf])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_any_gamma_has_a_bound(gamma: float, order: float) -> None:
    rng = np.random.default_rng(3)
    network = Network.from_layers([rng.normal(size=(3, 2)), rng.normal(size=(2, 3))], [rng.normal(size=3), np.zeros(2)])
    x, metric = rng.normal(size=(2, 2)), WeightedLp(np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        options = {"order": order, "attack": QUICK, "progress": None, "tier": "interval"}
        found = certify(network, x, metric, 0.2, gamma, **options)
        still = found.curve([0.0])
        assert found.local.mean_lower <= found.lower + 1e-12
        assert found.lower <= found.upper <= 1.0 and still["upper"][0] <= found.upper
        assert found.worst_case.transport <= gamma * (1 + 1e-9) and str(found)
    if gamma <= 1e-200 and order in (1.0, math.inf):  # nobody gets anywhere; other powers of γ underflow
        assert found.upper == pytest.approx(found.local.mean_upper, abs=1e-6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("size", "weight"), [(1e308, 1.0), (1.0, 1e-302)])
@pytest.mark.parametrize("order", [1.0, math.inf])
def test_people_and_ground_costs_whose_balls_are_beyond_all_numbers(size: float, weight: float, order: float) -> None:
    """Nothing is known of people so far away, and that is no reason to refuse, nor has it to do with delta."""
    network = Network.from_layers([[[1.0, 2.0]], [[1.0]]], [[0.0], [0.0]], head="sigmoid")
    x = np.array([[1.0, -1.7], [1.0, -1.5]]) * size
    for p in (1, 2):
        ground = WeightedLp([weight, weight], p)
        found = certify(network, x, WeightedLp([1.0, 1.0]), 0.1, 1e5, order=order, ground=ground, progress=None)
        assert found.lower <= found.upper <= 1.0


@pytest.mark.parametrize("gamma", [1e30, 1e300])
def test_nobody_can_be_anybody_else(gamma: float) -> None:
    """A domain of one person is about 0 across, of which a large γ is no multiple."""
    network, one = Network.from_layers([[[1.0]]], [[0.0]], head="sigmoid"), np.ones(1)
    domain = replace(Domain.unbounded(1), kind="relaxed", low=one, high=one)
    for ground in ("l1", "l2", "linf"):
        found = certify(network, [one], WeightedLp([1.0]), 0.1, gamma, ground=ground, domain=domain, progress=None)
        assert found.lower <= found.upper < 1e-12


def test_any_population_of_a_bounded_domain() -> None:
    """Infinity: no possible individual, similar to whoever, is treated more unequally; some are as unequally."""
    network, population = perceptron(np.random.default_rng(1), WIDTH, 2), people(4)
    found = certify(network, population, WeightedLp(np.ones(WIDTH)), 0.3, math.inf, attack=QUICK, progress=None)
    wide = certify(network, population, WeightedLp(np.ones(WIDTH)), 0.3, 1e6, attack=QUICK, progress=None)
    assert found.lower <= found.upper == pytest.approx(wide.upper)
    assert found.lower >= found.local.mean_lower


@pytest.mark.parametrize("order", [1.0, 2.0, 100.0, 1e6])
def test_powers_are_bounded_wherever_they_overflow(order: float) -> None:
    from mpmath import mp, mpf

    with mp.workdps(60):
        for base in (5e-324, 1e-300, 0.5, 1.0, 1.0000001, 7.0, 1e8, 1e308):
            low, high = float(power_down(base, order)), float(power_up(base, order))
            assert mpf(low) <= mpf(base) ** mpf(order) <= mpf(high)
            assert math.isfinite(low)


def test_radii_stay_within_what_can_be_computed_with() -> None:
    for scale in (NEAREST, FURTHEST):
        radii = subradii(scale * 8, scale)
        assert radii == sorted(set(radii)) and all(0 < radius < math.inf for radius in radii)


@pytest.mark.parametrize("kind", [np.longdouble, np.float32, int])
def test_numbers_between_floats_mean_the_larger_ball(kind: type) -> None:
    gamma, order = kind(1) / kind(3) + kind(2) ** 53, kind(1) + kind(1) / kind(3)
    shift = Transport(gamma, order)
    assert type(shift.gamma) is type(shift.order) is float
    assert shift.gamma >= gamma and shift.order <= order
    assert Transport(2**53 + 1).gamma == 2.0**53 + 2
