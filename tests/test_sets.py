"""Support functions from above: closed forms, linear programs, sampled members, all compared without tolerance where
the members are exact."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.bounds.support import ranges, support

from isonomy_verify.sets import ConvexSets

quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32 - 1)


def array(values: object) -> np.ndarray:
    return np.asarray(values, dtype=float)


def lowest(sets: ConvexSets, weight: np.ndarray) -> np.ndarray:
    """The smallest of all that the kernel says is no less than a support function."""
    return np.minimum.reduce([support(sets, weight), ranges(sets, weight)[0], -ranges(sets, -weight)[1]])


def make(
    root: np.ndarray,
    order: float,
    radius: object,
    low: object,
    high: object,
    offset: object = None,
    blocks: tuple[tuple[int, int], ...] = (),
    base: object = None,
    inverse: np.ndarray | None = None,
) -> ConvexSets:
    root = np.asarray(root, dtype=float)
    rank, width = root.shape
    return ConvexSets(
        root=root,
        order=order,
        radius=array(np.atleast_1d(radius)),
        offset=array(np.zeros((1, rank)) if offset is None else np.atleast_2d(offset)),
        low=array(np.atleast_2d(low)),
        high=array(np.atleast_2d(high)),
        blocks=blocks,
        base=array(np.zeros((1, width)) if base is None else np.atleast_2d(base)),
        inverse=array(np.linalg.pinv(root) if inverse is None else inverse),
    )


def exact_dot(w: np.ndarray, v: np.ndarray) -> Fraction:
    return sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(w, v, strict=True)), Fraction(0))


def exactly_inside(sets: ConvexSets, row: int, v: np.ndarray) -> bool:
    """Membership in rational arithmetic (simplices apart)."""

    def of(part: np.ndarray) -> np.ndarray:
        return part[row % len(part)]

    if not ((of(sets.low) <= v) & (v <= of(sets.high))).all():
        return False
    image = [Fraction(float(o)) + exact_dot(r, v) for o, r in zip(of(sets.offset), sets.root, strict=True)]
    radius = Fraction(float(of(sets.radius)))
    if sets.order == 2:
        return sum((z * z for z in image), Fraction(0)) <= radius * radius
    if sets.order == 1:
        return sum((abs(z) for z in image), Fraction(0)) <= radius
    return all(abs(z) <= radius for z in image)


def members(sets: ConvexSets, row: int, towards: np.ndarray, rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Vectors that are in the set beyond doubt, many of them at its edge, some in the direction ``towards``."""

    def of(part: np.ndarray) -> np.ndarray:
        return part[row % len(part)]

    low, high = np.maximum(of(sets.low), -1e3), np.minimum(of(sets.high), 1e3)
    inside = np.clip(-(of(sets.offset) @ sets.inverse.T), low, high)
    if not exactly_inside(sets, row, inside):
        inside = next((v for v in rng.uniform(low, high, size=(50, len(low))) if exactly_inside(sets, row, v)), None)
        if inside is None:
            return []
    found = [inside]
    inverse, root = sets.inverse, sets.root
    for k in range(count):
        push = towards if k % 2 else rng.normal(size=len(low))
        step = push if k % 3 == 0 or not len(root) else push @ inverse @ inverse.T
        size = np.abs(step).max()
        if not 0 < size < math.inf:
            continue
        share = 4.0 * max(1.0, float((high - low).max())) / size
        here = found[int(rng.integers(len(found)))]
        for _ in range(22):  # as far as possible along the clipped line
            there = np.clip(here + share * step, low, high)
            if exactly_inside(sets, row, there):
                found.append(there)
                here = there
            share *= 0.5
    return found


def assert_above(sets: ConvexSets, weight: np.ndarray, seed: int, count: int = 4) -> None:
    rng = np.random.default_rng(seed)
    bound = lowest(sets, weight)
    assert bound.shape in ((sets.rows, len(weight)), (1, len(weight)))
    assert not np.isnan(bound).any()
    for row in range(sets.rows):
        for w, h in zip(weight, bound[row % len(bound)], strict=True):
            if math.isinf(h):
                continue
            for v in members(sets, row, w, rng, count):
                assert exact_dot(w, v) <= Fraction(float(h)), (row, w, v)


def random_root(rng: np.random.Generator, width: int) -> np.ndarray:
    kind = rng.integers(5)
    root = rng.normal(size=(rng.integers(1, width + 2), width))
    if kind == 0:
        root[:, rng.integers(width)] = 0.0
    if kind == 1:  # nearly singular
        root[-1] = root[0] * (1 + 1e-9) if len(root) > 1 else root[0]
    if kind == 2:
        root *= 10.0 ** rng.integers(-6, 6)
    if kind == 3:
        root = np.diag(rng.choice([0.0, 0.1, 1.0, 7.0], width))[rng.permutation(width)]
    return root


@quick
@given(seed=seeds, order=st.sampled_from([1.0, 2.0, math.inf]), rows=st.integers(1, 3), shared=st.booleans())
def test_support_is_at_least_every_member(seed: int, order: float, rows: int, shared: bool) -> None:
    """Ball and box, per row or shared, off centre, coordinates that cannot move, free ones."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    root = random_root(rng, width)
    n = 1 if shared else rows
    low, high = -rng.exponential(size=(n, width)), rng.exponential(size=(n, width))
    still = rng.random((n, width)) < 0.2
    low[still] = high[still] = 0.0
    moved = rng.random(n) < 0.3  # the centre is not inside
    high[moved] += 1.0
    low[moved] += 1.0
    high = np.maximum(low, high)
    offset = np.where(rng.random((rows, 1)) < 0.6, rng.normal(size=(rows, len(root))) * 0.3, 0.0)
    radius = rng.choice([0.0, 1e-9, 0.1, 1.0, 5.0], rows) + np.linalg.norm(offset, 1, axis=1)
    weight = rng.normal(size=(4, width)) * rng.choice([0.0, 1.0, 1.0, 1e-9, 1e6], (4, width))
    assert_above(make(root, order, radius, low, high, offset), weight, seed)


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_ball_alone_is_its_closed_form(order: float) -> None:
    rng = np.random.default_rng(0)
    root, weight = rng.normal(size=(4, 4)), rng.normal(size=(6, 4))
    far = np.full(4, 1e6)
    bound = support(make(root, order, 0.7, -far, far), weight)[0]
    dual = {1.0: math.inf, 2.0: 2, math.inf: 1}[order]
    exact = 0.7 * np.linalg.norm(weight @ np.linalg.inv(root), dual, axis=1)
    assert (bound >= exact * (1 - 1e-12)).all()
    assert bound == pytest.approx(exact, rel=1e-6)  # the box of 1e6 multiplies the rounding of the residual
    near = np.full(4, 100.0)
    assert support(make(root, order, 0.7, -near, near), weight)[0] == pytest.approx(exact, rel=1e-10)


@quick
@given(
    seed=seeds, condition=st.sampled_from([1.0, 1e3, 1e6]), rows=st.integers(1, 2), noise=st.sampled_from([0.0, 1e-12])
)
def test_a_ball_is_never_below_its_rational_closed_form(seed: int, condition: float, rows: int, noise: float) -> None:
    """Nearly singular roots, and inverses that are a little wrong: the residual and its rounding must be paid for."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 2))
    root[1] = root[0] + root[1] / condition
    inverse = np.linalg.pinv(root) * (1 + noise * rng.normal(size=(2, 2)))
    far = np.abs(inverse).sum(axis=1) * 4
    sets = make(root, 2.0, np.ones(rows), -far, far, inverse=inverse)
    (a, b), (c, d) = [[Fraction(float(v)) for v in row] for row in root]
    determinant = a * d - b * c
    weight = np.concatenate([rng.normal(size=(3, 2)), rng.normal(size=(3, 2)) @ root])
    bound = lowest(sets, weight)[0]
    for w, h in zip(weight, bound, strict=True):
        w0, w1 = Fraction(float(w[0])), Fraction(float(w[1]))
        split = ((w0 * d - w1 * c) / determinant, (w1 * a - w0 * b) / determinant)
        assert split[0] ** 2 + split[1] ** 2 <= Fraction(float(h)) ** 2


@quick
@given(seed=seeds, rows=st.integers(1, 2))
def test_corners_of_boxes_are_never_above(seed: int, rows: int) -> None:
    """A box of many coordinates whose products nearly cancel: only rounding is left, and it is covered."""
    rng = np.random.default_rng(seed)
    high = rng.random((rows, 40)) * 10.0 ** rng.integers(-3, 4, (rows, 40))
    low = high - rng.random((rows, 40)) * 1e-9 * high  # far from the centre, so that a support may be near 0
    low = np.minimum(low, high)
    weight = rng.normal(size=(3, 40))
    weight[:, -1] = -(weight[:, :-1] @ high[0, :-1]) / high[0, -1]
    bound = lowest(ConvexSets.of_box(low, high), weight)
    for row in range(rows):
        for w, h in zip(weight, bound[row], strict=True):
            assert exact_dot(w, np.where(w > 0, high[row], low[row])) <= Fraction(float(h))


def test_box_alone_is_exact_but_for_rounding() -> None:
    rng = np.random.default_rng(1)
    low, high, weight = -rng.random((5, 3)), rng.random((5, 3)), rng.normal(size=(7, 3))
    exact = np.maximum(weight * low[:, None], weight * high[:, None]).sum(2)
    bound = support(ConvexSets.of_box(low, high), weight)
    assert (bound >= exact * (1 - 1e-15)).all()
    assert bound == pytest.approx(exact, rel=1e-12)


@quick
@given(seed=seeds)
def test_simplex_blocks_beat_the_box_and_allow_for_the_tolerance(seed: int) -> None:
    """Shares whose sum is off by the whole tolerance are members of the relaxed domain."""
    rng = np.random.default_rng(seed)
    base = rng.dirichlet(np.full(3, 0.5), size=2)
    if rng.random() < 0.5:
        base = np.eye(3)[rng.integers(3, size=2)]
    base = base * (1 + rng.choice([-1e-9, 0.0, 1e-9], (2, 1)))
    number = rng.uniform(-1, 1, size=(2, 1))
    whole = np.concatenate([number, base], axis=1)
    low, high = np.nextafter(-np.abs(whole) - 1, -np.inf), np.nextafter(1 - base.min() + 0 * whole + 1, np.inf)
    low[:, 1:], high[:, 1:] = np.nextafter(-base, -np.inf), np.nextafter(1 - base, np.inf)
    weight = rng.normal(size=(5, 4)) * rng.choice([1.0, 1.0, 1e-6], (5, 4))
    sets = ConvexSets.of_box(low, high, whole, ((1, 4),))
    bound = lowest(sets, weight)
    for row in range(2):
        for w, h in zip(weight, bound[row], strict=True):
            for end in (*np.eye(3), *rng.dirichlet(np.ones(3), size=5)):
                for scale in (1 - 1e-9, 1.0, 1 + 1e-9):
                    y = np.minimum(end * scale, 1.0)
                    assert abs(y.sum() - 1) <= 1.1e-9
                    edge = high[row, 0] if w[0] > 0 else low[row, 0]
                    move = [
                        Fraction(float(edge)),
                        *(Fraction(a) - Fraction(b) for a, b in zip(y, base[row], strict=True)),
                    ]
                    value = sum((Fraction(a) * b for a, b in zip(w, move, strict=True)), Fraction(0))
                    assert value <= Fraction(float(h))
    exact = np.maximum(weight[:, 0] * high[:, :1], weight[:, 0] * low[:, :1])
    exact = exact + weight[:, 1:].max(axis=1) - base @ weight[:, 1:].T
    assert support(sets, weight) == pytest.approx(exact, abs=2e-8)


def program(sets: ConvexSets, row: int, w: np.ndarray) -> float | None:
    """The exact maximum for the orders 1 and ∞ by linear programming; ``None`` for an empty or nearly empty set."""

    def of(part: np.ndarray) -> np.ndarray:
        return part[row % len(part)]

    root = sets.root
    rank, width = root.shape
    offset, radius = of(sets.offset), float(of(sets.radius))
    tall = rank if sets.order == 1 else 1
    spread = np.eye(rank) if sets.order == 1 else np.ones((rank, 1))
    rows = [
        np.hstack([root, -spread]),
        np.hstack([-root, -spread]),
        np.hstack([np.zeros((1, width)), np.ones((1, tall))]),
    ]
    right = np.concatenate([-offset, offset, [radius]])
    equal, sums = np.zeros((len(sets.blocks), width + tall)), np.zeros(len(sets.blocks))
    for k, (start, stop) in enumerate(sets.blocks):
        equal[k, start:stop], sums[k] = 1.0, 1 - of(sets.base)[start:stop].sum()
    limits = [*zip(of(sets.low), of(sets.high), strict=True), *[(0, None)] * tall]
    extra = {"A_eq": equal, "b_eq": sums} if len(equal) else {}
    found = linprog(-np.append(w, np.zeros(tall)), np.vstack(rows), right, bounds=limits, **extra)
    return -found.fun if found.status == 0 else None  # nearly empty sets leave HiGHS without an answer


@settings(quick, max_examples=40)
@given(seed=seeds, order=st.sampled_from([1.0, math.inf]), rows=st.integers(1, 3), simplex=st.booleans())
def test_support_is_at_least_the_linear_program(seed: int, order: float, rows: int, simplex: bool) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.integers(3, 7))
    root = random_root(rng, width) * (10.0 ** rng.uniform(-1, 1))
    base, blocks = np.zeros((rows, width)), ()
    low, high = -rng.exponential(size=(rows, width)), rng.exponential(size=(rows, width))
    if simplex:
        base[:, 1:3], blocks = rng.dirichlet([0.5, 0.5], size=rows), ((1, 3),)
        low[:, 1:3], high[:, 1:3] = -base[:, 1:3], 1 - base[:, 1:3]
    offset = rng.normal(size=(rows, len(root))) * rng.choice([0.0, 0.2])
    sets = make(root, order, rng.choice([0.05, 0.5, 3.0], rows), low, high, offset, blocks, base)
    weight = rng.normal(size=(3, width))
    bound = lowest(sets, weight)
    for row in range(rows):
        for k, w in enumerate(weight):
            best = program(sets, row, w)
            if best is not None:
                assert best <= bound[row % len(bound), k] + 1e-7 * (1 + abs(best))


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_one_coordinate_is_solved_exactly(order: float) -> None:
    """Ball ∩ box on a line is an interval, whose ends the support function finds, whichever side is shorter."""
    rng = np.random.default_rng(2)
    root = np.array([[2.0]])
    low, high = -rng.random((40, 1)) * 2, rng.random((40, 1)) * 2
    offset, radius = rng.normal(size=(40, 1)) * 0.2, rng.random(40) + 0.5
    sets = make(root, order, radius, low, high, offset)
    right = np.minimum(high[:, 0], (radius - offset[:, 0]) / 2)
    left = np.maximum(low[:, 0], (-radius - offset[:, 0]) / 2)
    bound = support(sets, array([[3.0], [-1.0]]))
    assert bound[:, 0] == pytest.approx(3 * right, rel=1e-12)
    assert bound[:, 1] == pytest.approx(-left, rel=1e-12)


def test_separable_sets_are_solved_exactly() -> None:
    """A diagonal root with one moving coordinate per side of the split."""
    sets = make(np.diag([1.0, 1.0]), 2.0, [0.1, 0.1], [[-1.0, -1e-3]] * 2, [[1.0, 1e-3]] * 2)
    assert support(sets, array([[1.0, 0.0], [0.0, 1.0]]))[0] == pytest.approx([0.1, 1e-3], rel=1e-12)


def test_free_coordinates_cost_nothing_when_they_have_no_weight() -> None:
    sets = ConvexSets.of_box(array([[-1.0, -math.inf]]), array([[1.0, math.inf]]))
    assert support(sets, array([[2.0, 0.0], [2.0, 1e-300]]))[0] == pytest.approx([2.0, math.inf])
    ball = make([[1.0, 0.0]], 2.0, 0.5, [-1.0, -math.inf], [1.0, math.inf])
    assert lowest(ball, array([[2.0, 0.0], [2.0, -1e-300]]))[0] == pytest.approx([1.0, math.inf])
    rows = make([[1.0, 0.0]], 2.0, [0.5, 0.25], [-1.0, -math.inf], [1.0, math.inf])
    assert lowest(rows, array([[2.0, 0.0]]))[:, 0] == pytest.approx([1.0, 0.5])


def nearly_singular(rows: int, far: float = math.inf) -> tuple[ConvexSets, np.ndarray]:
    """A large box and an inverse (any matrix may be one) for which ``w − sR``, ``(0, −2⁻⁵⁴)``, rounds to 0."""
    small = 2.0**-24
    root, inverse = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-30]]), np.array([[1.0 - small, small], [0.0, 0.0]])
    sets = make(root, 2.0, np.ones(rows), [-far] * 2, [far] * 2, inverse=inverse)
    member = np.array([2.0**30 + 1, -(2.0**30)])  # R v = (1, 0)
    assert exactly_inside(sets, 0, member)
    return sets, member


@pytest.mark.parametrize("rows", [1, 2])
def test_the_rounding_of_the_residual_is_paid_for(rows: int) -> None:
    sets, member = nearly_singular(rows, 2.0**31)
    bound = lowest(sets, array([[1.0, 1.0]]))[0, 0]
    assert float(member.sum()) <= bound <= 1.1


def test_a_residual_that_only_rounds_to_zero_is_not_zero_beside_an_unbounded_coordinate() -> None:
    sets, member = nearly_singular(1)
    assert float(member.sum()) <= float(lowest(sets, array([[1.0, 1.0]]))[0, 0])


def test_the_same_for_a_split_per_row() -> None:
    sets, member = nearly_singular(2)
    assert float(member.sum()) <= float(lowest(sets, array([[1.0, 1.0]]))[0, 0])


def test_an_infinite_support_stays_infinite_for_every_row() -> None:
    rows = make([[1.0, 0.0]], 2.0, [0.5, 0.25], [-1.0, -math.inf], [1.0, math.inf])
    assert np.isinf(support(rows, array([[0.0, 1.0]]))).all()


def test_weights_that_overflow_do_not_pass_as_small_bounds() -> None:
    sets = make(np.eye(2), 2.0, 1.0, [-1.0, -1.0], [1.0, 1.0])
    bound = support(sets, array([[1.7e308, 1.7e308], [1e200, 0.0]]))[0]
    assert np.isnan(bound[0]) or bound[0] >= 1.7e308
    assert bound[1] >= 1e200
