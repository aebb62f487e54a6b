"""A curve from a few multipliers: never below what a linear program says, and near it where it was made for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from isonomy.engines.dual import StreamedDual
from isonomy.engines.parts import Part
from isonomy.engines.tallies import At, tallies
from isonomy.errors import DataError
from isonomy.records.envelope import Envelope
from isonomy_verify.arithmetic import exact_sum


def part_of(seed: int, people: int = 4, radii: int = 3) -> Part:
    rng = np.random.default_rng(seed)
    grid = np.append(0.0, np.sort(rng.uniform(0.05, 2.0, radii)))
    profile = np.sort(rng.uniform(0, 0.9, (radii + 1, people)), axis=0)
    weights = rng.choice([0.0, 0.25, 1.0, 3.7], people)
    weights[0] = 1.3
    point = np.zeros((1, people))
    return Part("", np.arange(people), weights, grid, profile, 1.0, point, point, 0)


def program(part: Part, order: float, gamma: float) -> float:
    """The most that mass, moved to the near ends of cells within the budget, can be worth."""
    share, n = part.weights / part.weights.sum(), len(part.weights)
    near = np.append(0.0, part.radii) ** order
    value = np.vstack([part.profile, np.full((1, n), part.largest)])
    cells = len(near)
    everybody = np.kron(np.eye(n), np.ones(cells))
    # The solver keeps constraints within 1e-7: as a share of the budget, or a small budget would mean nothing to it.
    spent = np.tile(near, n)[None] / gamma**order
    solved = linprog(-value.T.ravel(), A_ub=spent, b_ub=[1.0], A_eq=everybody, b_eq=share, bounds=(0, None))
    return -float(solved.fun)


def within(part: Part, gamma: float) -> float:
    """Everybody at the worst place not further than gamma: a cell's people are further than its near end."""
    reached = [k for k in range(len(part.radii)) if k == 0 or part.radii[k - 1] < gamma]
    worst = part.profile[reached].max(axis=0)
    worst = np.full_like(worst, part.largest) if part.radii[-1] < gamma else worst
    return float(np.average(worst, weights=part.weights))


def envelope(part: Part, order: float, multipliers: list[float], radii: list[float]) -> Envelope:
    places = [At("near", value) for value in multipliers] + [At("near", radius=value) for value in radii]
    known = tallies(part, order, [*places, At("far", 0.5), At("found", radius=0.0)])
    return Envelope.of(StreamedDual(lambda _: {}, order, exact_sum(part.weights), (), 0.0, known))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from([1.0, 1.5, 2.0]),
    st.lists(st.floats(0, 50), min_size=1, max_size=5),
    st.floats(1e-6, 5),
)
def test_it_is_above_the_linear_program_at_every_gamma(
    seed: int, order: float, multipliers: list[float], gamma: float
) -> None:
    part = part_of(seed)
    found = envelope(part, order, multipliers, [0.0])
    assert found.upper(gamma) >= program(part, order, gamma) - 1e-6
    assert found.upper(0.0) == pytest.approx(within(part, 0.0), rel=1e-12)


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_with_many_multipliers_it_is_the_linear_program(order: float) -> None:
    part = part_of(7)
    found = envelope(part, order, [0.0, *np.geomspace(1e-4, 1e3, 2000).tolist()], [0.0])
    gammas = np.linspace(0.01, 3.0, 25).tolist()
    curve = found.curve(gammas)
    assert curve == pytest.approx([program(part, order, gamma) for gamma in gammas], abs=5e-3)
    assert (np.diff(curve) >= 0).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.floats(0, 3))
def test_order_infinity_is_a_staircase(seed: int, gamma: float) -> None:
    part = part_of(seed)
    found = envelope(part, math.inf, [], [0.0, *part.radii.tolist(), math.inf])
    assert found.upper(gamma) == pytest.approx(within(part, gamma), rel=1e-12)
    few = envelope(part, math.inf, [], [0.0, float(part.radii[1])])
    assert few.upper(gamma) >= within(part, gamma) * (1 - 1e-12)
    assert math.isinf(few.upper(float(np.nextafter(part.radii[1], 9.0))))


def test_what_holds_within_a_radius_says_nothing_of_means_beyond_it() -> None:
    """With a finite order people may move further than gamma."""
    part = part_of(3)
    assert math.isinf(envelope(part, 1.0, [], [0.0, 0.5]).upper(0.4))


def test_the_same_after_writing() -> None:
    found = envelope(part_of(1), 2.0, [0.0, 0.3, 4.0], [0.0])
    again = Envelope.from_arrays(found.arrays())
    assert again.order == 2.0 and again.curve([0.0, 0.1, 9.0]) == found.curve([0.0, 0.1, 9.0])


def test_sums_that_no_pass_gave_are_refused() -> None:
    none = np.zeros(0)
    for multipliers, means in (([1.0], [-1.0]), ([2.0, 1.0], [0.1, 0.1]), ([math.inf], [0.1]), ([math.nan], [0.1])):
        with pytest.raises(DataError):
            Envelope(1.0, np.array(multipliers), np.array(means), none, none)
