"""The distributional bound against linear programs, rational arithmetic, closed answers and knapsacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from isonomy.certificates import dual as dual_module
from isonomy.certificates.dual import Dual, best_mixture, cells_of, cells_of_table
from isonomy.certificates.profiles import CellBlocks, profiles_of_table
from isonomy.certificates.transport import Transport
from isonomy.errors import ParameterError
from isonomy_verify.arithmetic import exact_sum, mean_up, power_down, power_up, products_up
from isonomy_verify.dual import Cells, heights, price
from isonomy_verify.dual import bound as evaluate
from studies import solvers

quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)
GAMMAS = [0.0, 1e-6, 0.01, 0.1, 0.3, 0.9, 2.0, 50.0, math.inf]


def random_weights(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(3)
    if kind == 0:
        return np.ones(n)
    weights = 10.0 ** rng.uniform(-12, 12, n) if kind == 1 else rng.random(n)
    weights[rng.random(n) < 0.3] = 0.0
    weights[rng.integers(n)] = 1.0
    return weights


def random_cells(rng: np.random.Generator, n: int | None = None, order_mixed: bool = True) -> Cells:
    """Different numbers of cells, not monotone, ties, category cells with closed ends, in any order."""
    n = int(rng.integers(1, 7)) if n is None else n
    rows = []
    for i in range(n):
        rows += [(i, 0.0, 0.0, rng.random() * 0.2, False), (i, float(rng.choice([0.5, 1.5])), math.inf, 1.0, True)]
        near = 0.0
        for _ in range(rng.integers(0, 8)):
            far = near + float(rng.choice([0.0625, 0.25, rng.random()]))
            rows.append((i, near, far, float(rng.choice([rng.random(), 0.5])), True))
            near = far
        for _ in range(rng.integers(0, 3)):
            price = float(rng.choice([0.25, 0.5, rng.random()]))
            rows.append((i, price, price + rng.random(), rng.random(), False))
    order = rng.permutation(len(rows)) if order_mixed else np.arange(len(rows))
    owner, near_, far_, value, open_ = (np.array([rows[j][k] for j in order]) for k in range(5))
    return Cells(owner, near_, far_, value, open_, random_weights(rng, n))


def linear_program(owner: np.ndarray, cost: np.ndarray, value: np.ndarray, weights: np.ndarray, budget: float) -> float:
    """The largest mean value: mass moves from each individual to its cells within the budget."""
    n, count = len(weights), len(owner)
    shares = weights / weights.sum()
    keep = sparse.csr_array((np.ones(count), (owner, np.arange(count))), shape=(n, count))
    scale = max(1.0, min(budget, 1e6))
    found = linprog(
        -value,
        A_ub=cost.reshape(1, -1) / scale,
        b_ub=[min(budget, 1e6) / scale],
        A_eq=keep,
        b_eq=shares,
        method="highs",
    )
    assert found.success, found.message
    return -float(found.fun)


def exact(cells: Cells, order: int, gamma: float, multiplier: float) -> Fraction:
    heights = [Fraction(-1)] * len(cells.weights)
    for i, near, value in zip(cells.owner, cells.near, cells.value, strict=True):
        gain = Fraction(float(value)) - Fraction(multiplier) * Fraction(float(near)) ** order
        heights[i] = max(heights[i], gain)
    weights = [Fraction(float(w)) for w in cells.weights]
    mean = sum((w * h for w, h in zip(weights, heights, strict=True)), Fraction(0)) / sum(weights, Fraction(0))
    return Fraction(multiplier) * Fraction(gamma) ** order + mean


@quick
@given(seeds, st.sampled_from([1.0, 1.5, 2.0]))
def test_the_best_multiplier_attains_the_linear_program(seed: int, order: float) -> None:
    cells = random_cells(np.random.default_rng(seed))
    dual = Dual([cells], Transport(order=order))
    for gamma in [1e-3, 0.05, 0.2, 0.6, 3.0]:
        truth = linear_program(cells.owner, cells.near**order, cells.value, cells.weights, gamma**order)
        bound = dual.bound(gamma)
        assert bound.upper == pytest.approx(truth, abs=1e-8)
        assert bound.upper == evaluate(cells, order, gamma, bound.multiplier)


@quick
@given(seeds, st.sampled_from([1, 2]), st.floats(0, 3), st.one_of(st.floats(0, 10), st.floats(0, 1e300)))
def test_no_rounding_makes_the_bound_too_small(seed: int, order: int, gamma: float, multiplier: float) -> None:
    rng = np.random.default_rng(seed)
    cells = random_cells(rng)
    scale = 10.0 ** rng.choice([0, -150, -170, 100])
    far = cells.far * (scale if scale > 1 else 1.0)
    cells = Cells(cells.owner, cells.near * scale, far, cells.value, cells.open_, cells.weights)
    if gamma == 0:
        return
    upper = evaluate(cells, order, gamma, multiplier)
    truth = exact(cells, order, gamma, multiplier)
    assert upper == math.inf or Fraction(upper) >= truth
    if multiplier < 100 and scale == 1:
        assert upper <= float(truth) * (1 + 1e-13) + 1e-300


def test_each_part_of_the_bound_is_rounded_up() -> None:
    """Where numbers nearly cancel, and one by one, so that the slack of one part does not hide another."""
    rng = np.random.default_rng(2)
    for _ in range(3000):
        near, multiplier = rng.random() + 0.5, rng.random() + 0.5
        value = float(near * multiplier * (1 + 10.0 ** rng.uniform(-16, -1)))
        cells = Cells(*(np.array(a) for a in ([0, 0], [0, near], [0, math.inf], [0, value], [False, False], [1.0])))
        for factor in (multiplier, multiplier * 1e-9):
            height = heights(cells, 1, 0.1, factor)[0]
            assert Fraction(float(height)) >= Fraction(value) - Fraction(near) * Fraction(factor)
        assert Fraction(price(1, near, multiplier)) >= Fraction(near) * Fraction(multiplier)
        values, weights = rng.random(3), rng.random(3)
        total = sum(
            (Fraction(float(v)) * Fraction(float(w)) for v, w in zip(values, weights, strict=True)), Fraction(0)
        )
        mean = total / sum((Fraction(float(w)) for w in weights), Fraction(0))
        assert mean <= Fraction(mean_up(values, weights)) <= mean * (1 + Fraction(1, 10**14))


def test_the_largest_value_is_never_exceeded() -> None:
    cells = cells_of_table([0, 0.1, 0.2, 0.5], [[0.1, 0.2, 0.3, 0.6], [0, 0, 0.1, 0.2]], 1.0)
    for bound in Dual([cells], Transport(order=1)).curve([0.499999999, 0.5, 0.5000001]):
        assert bound.upper <= 1.0
        assert bound.upper == evaluate(cells, 1, bound.gamma, bound.multiplier)


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 3.7])
def test_powers_are_rounded_outward(order: float) -> None:
    rng = np.random.default_rng(0)
    base = np.concatenate([rng.random(300), 10.0 ** rng.uniform(-300, 300, 300), [0.0, 5e-324, 1.7e308]])
    with mpmath.workprec(400):
        for x, low, high in zip(base, power_down(base, order), power_up(base, order), strict=True):
            truth = mpmath.mpf(float(x)) ** mpmath.mpf(order)
            assert 0 <= low <= truth <= high
            assert low < math.inf
    assert power_up(1.0, order) - power_down(1.0, order) < 1e-14


def test_affine_profiles() -> None:
    """``g = a + b r`` with order 1 gives ``a + b gamma``, up to the width of the grid."""
    radii = np.linspace(0, 4, 4001)
    cells = cells_of_table(radii, 0.1 + 0.2 * radii[None] * np.ones((3, 1)), 0.9)
    dual = Dual([cells], Transport(order=1))
    assert dual.bound(0.0).upper == pytest.approx(0.1)
    for gamma in (0.1, 1.0, 3.0):
        assert dual.bound(gamma).upper == pytest.approx(0.1 + 0.2 * gamma + 0.2 * 0.001, abs=1e-9)
        assert dual.grid_error(gamma) == pytest.approx(0.2 * 0.001, abs=1e-9)


def test_one_individual_takes_the_whole_budget() -> None:
    """Concave ``sqrt(r)``: mass splitting does not help, and order 2 spends ``gamma`` on everybody."""
    radii = np.concatenate([[0.0], np.geomspace(1e-8, 1, 4001)])
    cells = cells_of_table(radii, np.sqrt(radii)[None], 1.0)
    assert Dual([cells], Transport(order=1)).bound(0.25).upper == pytest.approx(0.5, abs=3e-3)
    assert Dual([cells], Transport(order=2)).bound(0.25).upper == pytest.approx(0.5, abs=3e-3)


def test_two_atoms() -> None:
    """Each jumps from 0 to its own height at its own price: the cheaper first, then part of the mass of the other."""
    near, value = np.array([0, 2, 4, 0, 1, 4.0]), np.array([0, 0.5, 0.5, 0, 0.6, 0.6])
    far = np.array([2, 4, math.inf, 1, 4, math.inf])
    cells = Cells(np.array([0, 0, 0, 1, 1, 1]), near, far, value, np.array([False] * 6), np.array([1.0, 3.0]))
    dual = Dual([cells], Transport(order=1))
    # Weight 3/4 at price 1 for 0.6, then weight 1/4 at price 2 for 0.5.
    assert dual.bound(0.5).upper == pytest.approx(0.3)
    assert dual.bound(0.5).multiplier == pytest.approx(0.6)
    assert dual.bound(0.75 + 0.25).upper == pytest.approx(0.45 + 0.125 / 2)
    assert dual.bound(0.75 + 0.25).multiplier == pytest.approx(0.25)
    assert dual.bound(10.0).upper == pytest.approx(0.45 + 0.125)
    assert dual.largest_gamma(0.3) == pytest.approx(0.5)
    assert dual.largest_gamma(0.0) == 0.0
    assert dual.largest_gamma(0.6) == math.inf
    infinite = Dual([cells], Transport(order=math.inf))
    assert [b.upper for b in infinite.curve([0.9, 1.0, 2.0])] == pytest.approx([0.0, 0.45, 0.575])
    assert infinite.largest_gamma(0.5) == math.nextafter(2.0, 0)
    assert infinite.largest_gamma(0.4) == math.nextafter(1.0, 0)


@pytest.mark.parametrize("radius", [0.4995, 0.50025, 0.5005, 0.501, 0.502])
def test_powers_too_small_for_any_multiplier_have_a_bound(radius: float) -> None:
    """No multiplier keeps somebody from a cost of 1e-301: the slopes at all of them are the same."""
    for beyond in (0.1, 0.5):
        dual = Dual([cells_of_table([0.0, radius], [[0.1, beyond]], 1.0)], Transport(order=1000.0))
        assert [b.upper for b in dual.curve([0.0, math.inf])] == [0.1, 1.0]
        assert 0.1 <= dual.bound(0.1).upper <= 1.0


def test_half_open_cells_do_not_count_at_their_near_end() -> None:
    cells = cells_of_table([0.0, 0.5, 1.0], [[0.1, 0.2, 0.4]], 1.0)
    dual = Dual([cells], Transport(order=math.inf))
    assert [b.upper for b in dual.curve([0, 0.25, 0.5, 0.75, 1.0, 1.5])] == [0.1, 0.2, 0.2, 0.4, 0.4, 1.0]
    assert all(b.multiplier is None for b in dual.curve([0, 0.5]))
    assert [dual.largest_gamma(e) for e in (0.05, 0.1, 0.2, 0.3, 0.4, 0.9, 1.0)] == [None, 0, 0.5, 0.5, 1, 1, math.inf]
    assert Dual([cells], Transport(order=1)).bound(0).upper == 0.1


@quick
@given(seeds, st.sampled_from([1.0, 1.5, 2.0, math.inf]))
def test_curves_rise_and_invert(seed: int, order: float) -> None:
    rng = np.random.default_rng(seed)
    cells = random_cells(rng)
    dual = Dual([cells], Transport(order=order))
    curve = [b.upper for b in dual.curve(GAMMAS)]
    assert np.all(np.diff(curve) >= -1e-12)
    means = np.array(
        [cells.value[(cells.owner == i) & (cells.near == 0) & ~cells.open_].max() for i in range(len(cells.weights))]
    )
    assert curve[0] == pytest.approx(means @ cells.weights / cells.weights.sum())
    for epsilon in [*rng.random(4), *curve]:
        gamma = dual.largest_gamma(epsilon)
        if gamma is None:
            assert curve[0] > epsilon
            continue
        assert dual.bound(gamma).upper <= epsilon
        if gamma < math.inf:
            assert dual.bound(gamma * (1 + 1e-6) + 1e-9).upper > epsilon - 1e-9


@quick
@given(seeds)
def test_order_infinity_is_the_largest_value_within_reach(seed: int) -> None:
    cells = random_cells(np.random.default_rng(seed))
    for gamma in (0.0, 0.0625, 0.25, 0.3, 0.5, 1.0):
        total = 0.0
        for i, weight in enumerate(cells.weights):
            reach = [
                v
                for o, near, v, open_ in zip(cells.owner, cells.near, cells.value, cells.open_, strict=True)
                if o == i and (near < gamma or (near == gamma and not open_))
            ]
            total += weight * max(reach)
        assert Dual([cells], Transport(order=math.inf)).bound(gamma).upper == pytest.approx(total / cells.weights.sum())


@settings(max_examples=25, deadline=None)
@given(seeds, st.sampled_from([1.0, 2.0]))
def test_knapsack_inequality(seed: int, order: float) -> None:
    """``oracle <= U <= oracle + (largest jump of one hull) / n + grid error``, with the tail as an item."""
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(1, 6)), int(rng.integers(2, 7))
    radii = np.concatenate([[0.0], np.cumsum(rng.random(count - 1))])
    values = np.sort(rng.random((n, count)) ** 2, axis=1)
    gamma = float(rng.choice([0.05, 0.3, 0.8]))
    costs = np.append(radii, radii[-1]) ** order
    items = np.hstack([values, np.ones((n, 1))])
    oracle = solvers.knapsack(costs, items, gamma**order).value
    dual = Dual([cells_of_table(radii, values, 1.0)], Transport(order=order))
    upper = dual.bound(gamma).upper
    jump = max(_largest_jump(costs, row) for row in items)
    assert oracle <= upper + 1e-12
    assert upper <= oracle + jump / n + dual.grid_error(gamma) + 1e-9


def _largest_jump(cost: np.ndarray, value: np.ndarray) -> float:
    """Between consecutive vertices of the upper hull, by walking to the steepest point again and again."""
    at, jump = int(np.flatnonzero(cost == 0)[value[cost == 0].argmax()]), 0.0
    while True:
        ahead = [j for j in range(len(cost)) if cost[j] > cost[at] and value[j] > value[at]]
        if not ahead:
            return jump
        nxt = max(ahead, key=lambda j: ((value[j] - value[at]) / (cost[j] - cost[at]), value[j]))
        jump, at = max(jump, value[nxt] - value[at]), nxt


@quick
@given(seeds, st.sampled_from([1.0, 2.0]))
def test_grid_error_against_the_linear_program_at_the_far_ends(seed: int, order: float) -> None:
    cells = random_cells(np.random.default_rng(seed))
    cost = np.where(np.isinf(cells.far), cells.near, cells.far) ** order
    for gamma in (0.05, 0.4):
        truth = linear_program(cells.owner, cells.near**order, cells.value, cells.weights, gamma**order)
        least = linear_program(cells.owner, cost, cells.value, cells.weights, gamma**order)
        dual = Dual([cells], Transport(order=order))
        assert dual.grid_error(gamma) == pytest.approx(truth - least, abs=1e-8)


@quick
@given(seeds, st.one_of(st.floats(0, 2), st.just(0.0), st.floats(0, 1e-6)), st.booleans())
def test_allocation_is_feasible_and_optimal(seed: int, budget: float, tiny: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    owner = np.concatenate([np.arange(n), rng.integers(0, n, int(rng.integers(0, 25)))])
    cost = np.where(np.arange(len(owner)) < n, 0.0, rng.choice([0.0, 0.5, 1e-2, rng.random()], len(owner)))
    cost *= 1e-9 if tiny else 1.0
    by_owner = np.argsort(owner, kind="stable")
    owner, cost = owner[by_owner], cost[by_owner]
    value, weights = rng.random(len(owner)), random_weights(rng, n)
    found = best_mixture(Transport(budget), owner, cost, value, weights)
    masses = found.masses(weights, len(owner))
    assert (masses >= 0).all()
    held, spent = [Fraction(0)] * n, Fraction(0)
    for i, mass, paid in zip(owner, masses, cost, strict=True):
        held[i] += Fraction(float(mass))
        spent += Fraction(float(mass)) * Fraction(float(paid))
    assert held == [Fraction(float(w)) for w in weights]
    assert spent <= Fraction(budget) * sum(held)
    reached = sum((Fraction(float(m)) * Fraction(float(v)) for m, v in zip(masses, value, strict=True)), Fraction(0))
    assert found.value == pytest.approx(float(reached / sum(held)), abs=1e-12)
    if not tiny and (budget == 0 or budget > 1e-3):  # otherwise below the tolerances of the linear program
        truth = linear_program(owner, cost, value, weights, budget)
        assert masses @ value / weights.sum() == pytest.approx(truth, abs=1e-8)


def test_the_upper_bound_meets_what_an_allocation_attains() -> None:
    """Points attained at their near ends: primal and dual agree, so neither can be improved."""
    rng = np.random.default_rng(3)
    n, count = 400, 12
    radii = np.linspace(0, 1, count)
    values = np.sort(rng.random((n, count)), axis=1) * 0.5
    owner, near = np.repeat(np.arange(n), count), np.tile(radii, n)
    cells = Cells(
        np.append(owner, np.arange(n)),
        np.append(near, np.full(n, 1.0)),
        np.append(near, np.full(n, math.inf)),
        np.append(values.ravel(), values[:, -1]),
        np.zeros(n * (count + 1), dtype=bool),
        rng.random(n),
    )
    for order, gamma in ((1, 0.07), (2, 0.3)):
        attained = best_mixture(Transport(gamma, order), owner, near, values.ravel(), cells.weights).value
        upper = Dual([cells], Transport(order=order)).bound(gamma).upper
        assert attained <= upper <= attained + 1e-12


def test_an_explicit_assignment_above_the_ascent_is_not_above_the_bound() -> None:
    """Flat, then a jump: the gradient vanishes, so both ascents of the paper stay where they began."""
    radii = np.array([0.0, 0.4, 0.5, 1.0])
    values = np.array([0.1, 0.1, 0.9, 0.9]) * np.ones((50, 1))
    gamma, n = 0.1, 50
    profile = solvers.interpolated(radii, values)
    phi = np.where(np.arange(n) < 10, 0.5, 0.0)
    assert phi.mean() <= gamma
    explicit = profile(phi)[0].mean()
    upper = Dual([cells_of_table(radii, values, 1.0)], Transport(order=1)).bound(gamma).upper
    for found in (solvers.quasi_subgradient(profile, n, gamma), solvers.rescaled_gradient(profile, n, gamma)):
        assert found.phi.mean() <= gamma * (1 + 1e-12)
        assert found.value < explicit - 0.1
    assert upper >= explicit


def test_profiles_are_made_monotone_and_capped() -> None:
    cells = cells_of_table([[0.0, 0.1, 0.2], [0.0, 0.5, 0.6]], [[0.3, 0.2, 0.4], [0.5, 7.0, 7.0]], 1.0)
    assert cells.value.tolist() == [0.2, 0.2, 0.4, 1.0, 0.5, 1.0, 1.0, 1.0]
    assert cells.near.tolist() == [0, 0, 0.1, 0.2, 0, 0, 0.5, 0.6]
    assert cells.far.tolist() == [0, 0.1, 0.2, math.inf, 0, 0.5, 0.6, math.inf]
    assert cells.open_.tolist() == [False, True, True, True] * 2


def test_the_caller_keeps_its_arrays() -> None:
    cells = random_cells(np.random.default_rng(1))
    before = [a.copy() for a in (cells.owner, cells.near, cells.far, cells.value, cells.open_, cells.weights)]
    dual = Dual([cells], Transport(order=1.5))
    dual.bound(0.1), dual.grid_error(0.1), dual.largest_gamma(0.5)
    after = (cells.owner, cells.near, cells.far, cells.value, cells.open_, cells.weights)
    assert all((a == b).all() for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"far": [0.0, 1.0]}, "individual 0 do not cover everybody: an unbounded tail"),
        ({"near": [0.5, 1.0], "far": [0.5, math.inf]}, "a cell at cost 0 is missing"),
        ({"open_": [True, True]}, "a cell at cost 0 is missing"),
        ({"value": [0.1, math.nan]}, "'cells.value' must be finite"),
        ({"value": [-0.1, 1.0]}, "'cells.value' must be finite"),
        ({"near": [0.0, math.nan]}, "'cells.near' must be finite"),
        ({"near": [0.2, 1.0]}, "'cells.far' must be at least 'near'"),
        ({"weights": [0.0]}, "'cells.weights' must be numbers >= 0 with"),
        ({"weights": [math.nan]}, "'cells.weights' must be"),
        ({"weights": [1.0, 1.0]}, "individual 1 do not cover everybody"),
        ({"owner": [0, 1]}, "'cells.owner' must be"),
        ({"value": [0.1]}, "'cells.value' must be a vector with one entry for each cell"),
    ],
)
def test_covers_that_cannot_be_right_are_refused(change: dict[str, list[float]], message: str) -> None:
    good = {"owner": [0, 0], "near": [0.0, 0.0], "far": [0.0, math.inf], "value": [0.1, 1.0], "open_": [False, True]}
    arrays = {name: np.array(array) for name, array in ({**good, "weights": [1.0]} | change).items()}
    with pytest.raises(ValueError, match=message):
        Cells(**arrays)


def test_bad_parameters_are_named() -> None:
    cells = cells_of_table([0.0, 1.0], [[0.1, 0.2]], 1.0)
    with pytest.raises(ParameterError, match="'order' must be a number >= 1"):
        Dual([cells], Transport(order=0.5))
    with pytest.raises(ParameterError, match="'gamma' must be a number >= 0"):
        Dual([cells], Transport(order=1)).bound(-0.1)
    with pytest.raises(ValueError, match="'gamma' must be a number >= 0"):
        evaluate(cells, 1, math.nan, 0.0)
    for multiplier in (None, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="'multiplier' must be a finite number >= 0"):
            evaluate(cells, 1, 0.1, multiplier)
    with pytest.raises(ParameterError, match="'epsilon' must be"):
        Dual([cells], Transport(order=1)).largest_gamma(math.nan)
    with pytest.raises(ParameterError, match="'radii' must be increasing"):
        cells_of_table([0.1, 1.0], [[0.1, 0.2]], 1.0)
    with pytest.raises(ParameterError, match="Individual 1 has no point of cost 0"):
        best_mixture(Transport(1.0), np.array([0, 1]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.ones(2))
    with pytest.raises(ParameterError, match="'gamma' must be"):
        best_mixture(Transport(-1.0), np.array([0]), np.zeros(1), np.zeros(1), np.ones(1))


# -- blocks of individuals ---------------------------------------------------------------------------------------


class Counted(list[Cells]):
    """Blocks, and how often one was taken into memory."""

    taken = 0

    def __getitem__(self, at: Any) -> Any:
        self.taken += 1
        return super().__getitem__(at)


def random_blocks(seed: int, count: int = 3) -> list[Cells]:
    rng = np.random.default_rng(seed)
    return [random_cells(rng) for _ in range(count)]


def together(blocks: Sequence[Cells]) -> Cells:
    """The cells of all blocks in one."""
    first = np.cumsum([0, *(len(some.weights) for some in blocks)])
    owner = np.concatenate([some.owner + start for some, start in zip(blocks, first, strict=False)])
    names = ("near", "far", "value", "open_", "weights")
    return Cells(owner, *(np.concatenate([getattr(some, name) for some in blocks]) for name in names))


@quick
@given(seeds, st.sampled_from([1.0, 1.5, 2.0, math.inf]), st.sampled_from(GAMMAS))
def test_several_blocks_are_one(seed: int, order: float, gamma: float) -> None:
    """At the same multiplier bit for bit, in any order of the blocks; and no worse a multiplier is found."""
    blocks = random_blocks(seed)
    cells = together(blocks)
    found = Dual(blocks, Transport(order=order)).bound(gamma)
    assert found.upper == evaluate(cells, order, gamma, found.multiplier)
    assert Dual(blocks[::-1], Transport(order=order)).bound(gamma).upper == pytest.approx(found.upper, rel=1e-12)
    one = Dual([cells], Transport(order=order))
    alone = one.bound(gamma)
    assert found.upper == pytest.approx(alone.upper, rel=1e-12, abs=1e-300)
    assert Dual(blocks, Transport(order=order))._mean(None, 0.7) == one._mean(None, 0.7)
    assert found.tolerance <= 1e-12 * max(found.upper, 1e-6)
    assert abs(Dual(blocks, Transport(order=order)).grid_error(gamma) - one.grid_error(gamma)) <= 1e-11


@quick
@given(seeds, st.sampled_from([1.0, 1.5, 2.0]), st.sampled_from([1e-3, 0.05, 0.3, 2.0]))
def test_several_blocks_attain_the_linear_program(seed: int, order: float, gamma: float) -> None:
    blocks = random_blocks(seed)
    cells = together(blocks)
    truth = linear_program(cells.owner, cells.near**order, cells.value, cells.weights, gamma**order)
    assert Dual(blocks, Transport(order=order)).bound(gamma).upper == pytest.approx(truth, abs=1e-8)


@quick
@given(seeds, st.sampled_from([1.0, 2.0, math.inf]), st.floats(0, 1))
def test_the_largest_gamma_of_several_blocks(seed: int, order: float, epsilon: float) -> None:
    blocks = random_blocks(seed)
    found, expected = (
        Dual(blocks, Transport(order=order)).largest_gamma(epsilon),
        Dual([together(blocks)], Transport(order=order)).largest_gamma(epsilon),
    )
    if found is None or expected is None or math.isinf(expected):
        assert found == expected
        return
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)
    multiplier = Dual(blocks, Transport(order=order)).bound(found).multiplier
    assert evaluate(together(blocks), order, found, multiplier) <= epsilon


@quick
@given(seeds, st.integers(1, 30), st.sampled_from([0.05, 0.4]))
def test_profiles_by_blocks(seed: int, rows: int, gamma: float) -> None:
    """People without weight count for nothing, nor does a block that has only such."""
    rng = np.random.default_rng(seed)
    radii = np.append(0.0, np.cumsum(rng.random(4) + 1e-3))
    profiles = profiles_of_table(radii, np.where(rng.random((25, 5)) < 0.3, np.inf, rng.random((25, 5))), 1.0)
    weights = random_weights(rng, 25)
    weights[rng.integers(25) :][:10] = 0.0
    weights[-1] = 1.0
    blocks = CellBlocks(profiles, weights, rows)
    assert len(blocks) == sum(weights[at : at + rows].any() for at in range(0, 25, rows))
    assert sum(len(block.weights) for block in blocks) == (weights > 0).sum()
    cells = cells_of(profiles, np.arange(25), weights)
    whole = Dual([cells], Transport(order=1.0))
    found = Dual(blocks, Transport(order=1.0)).bound(gamma)
    assert found.upper == evaluate(cells, 1.0, gamma, found.multiplier)
    assert found.upper == pytest.approx(whole.bound(gamma).upper, rel=1e-12)


def test_a_block_of_people_who_weigh_next_to_nothing_is_no_reason_to_refuse_the_table() -> None:
    profiles = profiles_of_table(np.array([0.0, 1.0]), np.array([[0.2, 0.5], [0.1, 0.4]]), 1.0)
    weights = np.array([1e-200, 1.0])
    found = Dual(CellBlocks(profiles, weights, 1), Transport()).bound(0.1)
    assert found.upper == Dual(CellBlocks(profiles, weights), Transport()).bound(0.1).upper
    small = Dual(CellBlocks(profiles, weights * 1e-120), Transport()).bound(0.1)  # also where there is nothing else
    assert found.upper <= small.upper <= 1.0
    with pytest.raises(ParameterError, match=r"'weights' must be at most 3e\+150\. Got"):
        cells_of(profiles, np.arange(2), weights * 1e160)


@quick
@given(seeds, st.integers(1, 6), st.sampled_from([0.0, 0.05, 0.5, math.inf]))
def test_points_of_several_blocks_are_mixed_as_one(seed: int, rows: int, gamma: float) -> None:
    """The lower side of blocks that were found apart: what each holds alone is a part of what all hold together."""
    rng = np.random.default_rng(seed)
    n, count = 6, 4
    owner, cost = np.repeat(np.arange(n), count), np.sort(rng.random((n, count)), axis=1)
    cost[:, 0] = 0.0
    value, weights = rng.random((n, count)), random_weights(rng, n)
    whole = best_mixture(Transport(gamma), owner, cost.ravel(), value.ravel(), weights)
    blocks = [slice(at, at + rows) for at in range(0, n, rows) if weights[at : at + rows].any()]
    alone = []
    for block in blocks:
        size = len(weights[block])
        some = cost[block].ravel(), value[block].ravel(), weights[block]
        mixture = best_mixture(Transport(gamma), np.repeat(np.arange(size), count), *some)
        alone.append(mixture.value * weights[block].sum())
    # The same budget for each block is one way to spend that of all.
    assert sum(alone) / weights.sum() <= whole.value * (1 + 1e-12) + 1e-300
    if gamma in (0.0, math.inf):
        assert sum(alone) / weights.sum() == pytest.approx(whole.value, rel=1e-12)


def test_infinity_over_blocks() -> None:
    found = Dual(random_blocks(5), Transport(order=1.0)).bound(math.inf)
    assert found.upper == evaluate(together(random_blocks(5)), 1.0, math.inf, 0.0) == 1.0


def test_few_passes_for_many_gammas() -> None:
    """All gammas share the passes of the search; a second question about the same needs none."""
    rng = np.random.default_rng(7)
    blocks = Counted(random_cells(rng, n=50) for _ in range(6))
    dual, many = Dual(blocks, Transport(order=1.0)), np.linspace(0, 1, 8).tolist()
    first = dual.curve(many)
    assert blocks.taken / len(blocks) <= 40
    before = blocks.taken
    assert dual.curve(many) == first and blocks.taken == before
    assert [found.tolerance <= 1e-6 for found in first] == [True] * 8


def test_without_refinement_the_bound_is_loose_but_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = random_blocks(6, count=5)
    cells = together(blocks)
    truth = linear_program(cells.owner, cells.near, cells.value, cells.weights, 0.05)
    monkeypatch.setattr(dual_module, "STEPS", 1)
    found = Dual(blocks, Transport(order=1.0)).bound(0.05)
    assert truth < found.upper <= truth + found.tolerance + 1e-9
    assert found.tolerance > 1e-6


@quick
@given(seeds, st.sampled_from([1.0, 2.0, math.inf]))
def test_a_bound_that_was_told_stays(seed: int, order: float) -> None:
    """Whatever else is asked before, beside or in between, the same bits for the same gamma."""
    dual, other = Dual(random_blocks(seed), Transport(order=order)), Dual(random_blocks(seed), Transport(order=order))
    first = dual.bound(0.1)
    curve = other.curve([0.3, 0.1, 0.0, 0.7])
    dual.curve(np.linspace(0, 1, 9)), dual.largest_gamma(0.4), dual.grid_error(0.1)
    assert dual.bound(0.1) == first == curve[1] and dual.curve([0.3, 0.1, 0.0, 0.7]) == curve


@pytest.mark.parametrize("seed", range(6))
def test_atoms_of_a_mixture_cost_no_more_than_the_budget(seed: int) -> None:
    """Also for somebody who rounds the cost of every atom up, as the checker does."""
    rng = np.random.default_rng([seed, 48])
    for _ in range(300):
        n, order, gamma = int(rng.integers(1, 5)), float(rng.choice([1, 2])), float(rng.random() / 2)
        cost, value = np.sort(rng.random((2, n, 3)), axis=2)
        cost[:, 0], weights = 0.0, rng.random(n) + 0.1
        owner, costs = np.repeat(np.arange(n), 3), cost.ravel()
        mixture = best_mixture(Transport(gamma, order), owner, costs, value.ravel(), weights)
        masses = mixture.masses(weights, 3 * n)
        spent = exact_sum(products_up(masses, power_up(costs, order)))
        assert Fraction(spent, exact_sum(weights)) <= Fraction(float(power_down(gamma, order)))
