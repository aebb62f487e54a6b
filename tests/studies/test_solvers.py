"""The paper's solvers against enumeration, each other and problems that are solved by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies import solvers as paper

pytestmark = pytest.mark.slow

quick = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 2**32 - 1)


@quick
@given(seeds, st.sampled_from([1, 2]))
def test_knapsacks_are_solved_exactly(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 5)), int(rng.integers(2, 5))
    values = rng.random((n, count))
    radii = 0.25 * np.arange(count)
    gamma = float(rng.choice([0.0, 0.25, 0.3125, 0.5]))
    feasible = (
        pick
        for pick in itertools.product(range(count), repeat=n)
        if sum(radii[k] ** order for k in pick) <= n * gamma**order
    )
    best = max(np.mean([values[i, k] for i, k in enumerate(pick)]) for pick in feasible)
    found = paper.knapsack(radii**order, values, gamma**order)
    assert found.value == pytest.approx(best, abs=1e-12)
    assert (radii[found.choice] ** order).sum() <= n * gamma**order
    if order == 1:
        even = paper.knapsack_even(values, 0.25, gamma)
        assert even.value == pytest.approx(best, abs=1e-12)
        assert radii[even.choice].sum() <= n * gamma


def test_the_size_of_the_paper_is_no_trouble() -> None:
    """50 individuals and 500 radii between 0 and 2.4: enumerating 500^50 assignments is not needed."""
    rng = np.random.default_rng(0)
    spacing = 2.4 / 499
    values = np.sort(rng.random((50, 500)), axis=1)
    found = paper.knapsack_even(values, spacing, 0.05)
    assert spacing * found.choice.sum() <= 50 * 0.05 + 1e-12
    assert found.value == pytest.approx(values[np.arange(50), found.choice].mean())
    assert found.value > values[:, int(0.05 / spacing)].mean()


@pytest.mark.parametrize("solver", ["quasi_subgradient", "rescaled_gradient"])
@pytest.mark.parametrize("order", [1, 2])
def test_ascents_solve_a_concave_problem(solver: str, order: int) -> None:
    """``a_i (1 - exp(-phi))`` is concave: here ascent does converge, and the grid agrees."""
    heights = np.linspace(0.2, 1.0, 5)

    def profile(phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return heights * (1 - np.exp(-phi)), heights * np.exp(-phi)

    gamma = 0.4
    found = getattr(paper, solver)(profile, 5, gamma, order, steps=4000, step=0.05)
    radii = np.linspace(0, 2, 201)
    oracle = paper.knapsack(radii**order, heights[:, None] * (1 - np.exp(-radii)), gamma**order)
    assert np.mean(found.phi**order) <= gamma**order * (1 + 1e-12)
    assert found.value == found.history.max() == pytest.approx(profile(found.phi)[0].mean())
    # Rescaling by a factor is not the projection of order 1, and stops at another point.
    slack = 0.02 if (solver, order) == ("rescaled_gradient", 1) else 1e-3
    assert oracle.value - slack <= found.value <= oracle.value + 1e-3


@quick
@given(seeds, st.sampled_from([1, 2]))
def test_projection_is_the_nearest_point(seed: int, order: int) -> None:
    rng = np.random.default_rng(seed)
    point, gamma = rng.random(4) * 2, 0.3
    nearest = paper._project(point, gamma, order)
    assert np.mean(nearest**order) <= gamma**order * (1 + 1e-12)
    for _ in range(200):
        other = rng.random(4)
        other *= rng.random() * gamma / np.mean(other**order) ** (1 / order)
        # The angle at a projection is never acute.
        assert (point - nearest) @ (other - nearest) <= 1e-9


def test_interpolation_follows_the_grid() -> None:
    radii, values = np.array([0.0, 0.5, 1.0]), np.array([[0.0, 0.2, 0.8], [0.1, 0.1, 0.1]])
    value, slope = paper.interpolated(radii, values)(np.array([0.75, 2.0]))
    assert value.tolist() == pytest.approx([0.5, 0.1])
    assert slope.tolist() == pytest.approx([1.2, 0.0])


def test_other_orders_are_refused() -> None:
    with pytest.raises(ValueError, match="'order' must be 1 or 2"):
        paper.quasi_subgradient(lambda phi: (phi, phi), 3, 0.1, order=1.5)
