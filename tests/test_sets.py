"""Support functions of :class:`ConvexSets` from above, where they are known exactly; those of the kernel's own sets are
tested in ``kernel/test_regions.py``."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds.support import ranges, support

from isonomy_verify.sets import ConvexSets


def array(values: object) -> np.ndarray:
    return np.asarray(values, dtype=float)


def lowest(sets: ConvexSets, weight: np.ndarray) -> np.ndarray:
    """The smallest of all that the kernel says is no less than a support function."""
    return np.minimum.reduce([support(sets, weight), ranges(sets, weight)[0], -ranges(sets, -weight)[1]])


def make(
    root: object, order: float, radius: object, low: object, high: object, offset: object = None, inverse: object = None
) -> ConvexSets:
    root = array(root)
    rank, width = root.shape
    return ConvexSets(
        root=root,
        order=order,
        radius=array(np.atleast_1d(radius)),
        offset=array(np.zeros((1, rank)) if offset is None else np.atleast_2d(offset)),
        low=array(np.atleast_2d(low)),
        high=array(np.atleast_2d(high)),
        blocks=(),
        base=np.zeros((1, width)),
        inverse=array(np.linalg.pinv(root) if inverse is None else inverse),
    )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
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


def test_a_ball_lies_in_its_box() -> None:
    scale = np.random.default_rng(0).uniform(0.1, 10.0, 200)
    for radius in (0.0, 1e-300, 0.3, 1e9):
        ball = ConvexSets.of_ball(scale, 2.0, radius)
        for s, low, high in zip(scale.tolist(), ball.low[0].tolist(), ball.high[0].tolist(), strict=True):
            assert Fraction(radius) / Fraction(s) <= Fraction(high) == -Fraction(low)


def nearly_singular(rows: int, far: float = math.inf) -> tuple[ConvexSets, np.ndarray]:
    """A large box and an inverse (any matrix may be one) for which ``w − sR``, ``(0, −2⁻⁵⁴)``, rounds to 0."""
    small = 2.0**-24
    root, inverse = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-30]]), np.array([[1.0 - small, small], [0.0, 0.0]])
    sets = make(root, 2.0, np.ones(rows), [-far] * 2, [far] * 2, inverse=inverse)
    member = np.array([2.0**30 + 1, -(2.0**30)])
    assert (root @ member == [1.0, 0.0]).all()
    return sets, member


@pytest.mark.parametrize("rows", [1, 2])
def test_the_rounding_of_the_residual_is_paid_for(rows: int) -> None:
    sets, member = nearly_singular(rows, 2.0**31)
    bound = lowest(sets, array([[1.0, 1.0]]))[0, 0]
    assert float(member.sum()) <= bound <= 1.1


@pytest.mark.parametrize("rows", [1, 2])
def test_a_residual_that_only_rounds_to_zero_is_not_zero_beside_an_unbounded_coordinate(rows: int) -> None:
    sets, member = nearly_singular(rows)
    assert float(member.sum()) <= float(lowest(sets, array([[1.0, 1.0]]))[0, 0])


def test_an_infinite_support_stays_infinite_for_every_row() -> None:
    rows = make([[1.0, 0.0]], 2.0, [0.5, 0.25], [-1.0, -math.inf], [1.0, math.inf])
    assert np.isinf(support(rows, array([[0.0, 1.0]]))).all()


def test_weights_that_overflow_do_not_pass_as_small_bounds() -> None:
    sets = make(np.eye(2), 2.0, 1.0, [-1.0, -1.0], [1.0, 1.0])
    bound = support(sets, array([[1.7e308, 1.7e308], [1e200, 0.0]]))[0]
    assert np.isnan(bound[0]) or bound[0] >= 1.7e308
    assert bound[1] >= 1e200
