"""Sets of moves: support functions and linear images against members and maxima in exact rationals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from isonomy_verify.arithmetic import Array, dual_order
from isonomy_verify.enclosure import Prepared
from isonomy_verify.network import Node, normal_form
from isonomy_verify.regions import Ball, BallBox, LinearImage, Region
from isonomy_verify.tiers import Tier, enclose

from .truth import exact, norm_at_most, norm_exceeds, solved

ORDERS = pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
EVERYBODY = slice(None)


def dot(a: Any, b: Any) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def claims_of(region: Region, linear_image: LinearImage, c: Array) -> Array:
    """What a linear image says of ``c·(W v)`` for coefficients (p, width), for row 0."""
    with np.errstate(all="ignore"):
        reach = region.support(c @ linear_image.matrix, np.zeros(len(c), dtype=np.int64))
        return np.asarray(reach + np.abs(c) @ linear_image.loss)


# -- balls --------------------------------------------------------------------------------------------------------


def roots(rng: np.random.Generator, m: int) -> list[Array]:
    """Of full column rank, square: plain, turned, unequal in size, nearly singular."""
    turned = rng.normal(size=(m, m)) + 2 * np.eye(m)
    return [
        np.eye(m),
        turned,
        np.diag(10.0 ** rng.integers(-6, 6, m)),
        turned * 10.0 ** rng.integers(-4, 4, (m, 1)),
        np.ones((m, m)) + 1e-4 * rng.normal(size=(m, m)),
    ]


@ORDERS
@pytest.mark.parametrize("seed", range(3))
def test_a_ball_reaches_as_far_as_it_says(order: float, seed: int) -> None:
    """``max w·v = ρ‖R⁻ᵀ w‖_q``, in rationals."""
    rng = np.random.default_rng([seed, 20])
    m = int(rng.integers(1, 5))
    for root in roots(rng, m):
        radius = float(rng.choice([0.0, 1e-12, 0.3, 1e3]))
        ball = Ball(root, order, radius)
        weight = rng.normal(size=(3, m)) * 10.0 ** rng.integers(-8, 8, (3, m))
        linear_image = ball.linear_image(weight, np.abs(weight))
        for i, row in enumerate(np.eye(m)):
            self_reach = solved(root.T, exact(row))
            assert self_reach is not None
            assert not norm_exceeds(float(ball.extent[0, i]), self_reach, dual_order(order), Fraction(radius))
        for i, row in enumerate(weight):
            turned = solved(root.T, exact(row))
            assert turned is not None
            for claim in (linear_image.high[0, i], -linear_image.low[0, i]):
                assert not norm_exceeds(float(claim), turned, dual_order(order), Fraction(radius))
                if radius > 1e-9 and np.linalg.cond(root) < 1e3:
                    assert norm_exceeds(float(claim), turned, dual_order(order), Fraction(radius * (1 + 1e-9)))
        c = rng.normal(size=(6, 3))
        # |c| loss stands outside of the support; what c G loses to its own rounding is weighed with reach.
        room = np.abs(c) @ linear_image.reach * 1e-14
        for coefficients, claim in zip(exact(c), claims_of(ball, linear_image, c) + room, strict=True):
            turned = solved(root.T, coefficients @ exact(weight))
            assert turned is not None
            assert not norm_exceeds(float(claim), turned, dual_order(order), Fraction(radius))


@ORDERS
def test_a_plain_ball_is_tight_and_never_short(order: float) -> None:
    rng = np.random.default_rng(21)
    for m in (1, 2, 9):
        for radius in (0.0, 5e-324, 1e-163, 0.02, 7.0, 1e160):
            ball = Ball(np.eye(m), order, radius)
            t = rng.normal(size=(30, m)) * 10.0 ** rng.integers(-3, 3, (30, 1))
            for claim, row in zip(ball.support(t, EVERYBODY).tolist(), exact(t), strict=True):
                assert not norm_exceeds(claim, row, dual_order(order), Fraction(radius))
                if 1e-9 < radius < 1e9:
                    assert norm_exceeds(claim, row, dual_order(order), Fraction(radius) * (1 + Fraction(1, 10**12)))


@ORDERS
@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-163, 1e-150, 1e150])
@pytest.mark.parametrize("radius", [1e-300, 1.0, 1e160])
def test_squares_that_underflow_are_paid_for(order: float, scale: float, radius: float) -> None:
    rng = np.random.default_rng(22)
    ball = Ball(np.eye(3), order, radius)
    t = rng.normal(size=(20, 3)) * scale
    with np.errstate(over="ignore"):
        claims = ball.support(t, EVERYBODY)
    for claim, row in zip(claims.tolist(), exact(t), strict=True):
        assert not norm_exceeds(claim, row, dual_order(order), Fraction(radius))


@ORDERS
@pytest.mark.parametrize("seed", range(3))
def test_a_ball_with_a_hostile_inverse_says_less_or_is_refused(order: float, seed: int) -> None:
    rng = np.random.default_rng([seed, 23])
    m = 3
    root = rng.normal(size=(m, m)) + 2 * np.eye(m)
    right = np.linalg.inv(root)
    weight = rng.normal(size=(2, m))
    hostile = [right * (1 + s * rng.normal(size=(m, m))) for s in (1e-14, 1e-6, 0.05, 10.0)]
    hostile += [np.zeros((m, m)), -right, right * 1e300, np.eye(m), np.full((m, m), 1e-320)]
    accepted = 0
    for inverse in hostile:
        with np.errstate(all="ignore"):
            try:
                ball = Ball(root, order, 0.7, inverse)
            except ValueError:
                continue
            accepted += 1
            linear_image = ball.linear_image(weight, np.abs(weight))
            assert (linear_image.loss >= 0).all()
        for i, row in enumerate(weight):
            turned = solved(root.T, exact(row))
            assert turned is not None
            assert not norm_exceeds(float(linear_image.high[0, i]), turned, dual_order(order), Fraction(0.7))
            assert not norm_exceeds(float(-linear_image.low[0, i]), turned, dual_order(order), Fraction(0.7))
            claim = claims_of(ball, linear_image, np.eye(2)[i : i + 1])[0] + linear_image.reach[i] * 1e-14
            assert not norm_exceeds(float(claim), turned, dual_order(order), Fraction(0.7))
    assert accepted >= 2
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            Ball(root, order, 0.7, np.where(np.eye(m) > 0, bad, right))


def test_balls_that_are_none_are_refused() -> None:
    eye = np.eye(2)
    for radius in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="radius"):
            Ball(eye, 2.0, radius)
    with pytest.raises(ValueError, match="singular"):
        Ball(np.ones((2, 2)), 2.0, 1.0)
    with pytest.raises(ValueError, match="singular"):
        Ball(np.ones((1, 2)), 2.0, 1.0)
    with pytest.raises(ValueError, match="order"):
        Ball(eye, 3.0, 1.0)
    with pytest.raises(ValueError, match="finite"):
        Ball(eye * np.nan, 2.0, 1.0)
    with pytest.raises(ValueError, match="finite"):
        Ball(eye.astype(np.float32), 2.0, 1.0)
    with pytest.raises(ValueError, match="does not move"):
        Ball(eye, 2.0, 1.0, still=np.array([True, False]))


def test_what_nothing_bounds_may_not_be_read() -> None:
    root = np.array([[1.0, 0.0]])
    free = Ball(root, 2.0, 1.0)
    assert free.extent[0, 1] == math.inf and math.isfinite(free.extent[0, 0])
    with pytest.raises(ValueError, match="coordinate 1"):
        free.linear_image(np.array([[1.0, 1e-300]]), np.array([[1.0, 1e-300]]))
    with pytest.raises(ValueError, match="coordinate 1"):  # cancelled to 0, but only as far as is known
        free.linear_image(np.array([[1.0, 0.0]]), np.array([[1.0, 1e-300]]))
    free.linear_image(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]))
    still = Ball(root, 2.0, 1.0, still=np.array([False, True]))
    assert still.extent[0, 1] == 0.0
    high = still.linear_image(np.array([[1.0, 5.0]]), np.array([[1.0, 5.0]])).high
    assert 1.0 <= high[0, 0] <= 1 + 1e-12


@pytest.mark.parametrize("tier", ["interval", "quick", "tight"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_ball_counts_what_merging_lost(tier: Tier, shared: bool) -> None:
    """Affine maps that cancel: their float product is rounding alone, the exact one moves with ``v``."""
    rng = np.random.default_rng(24)
    for _ in range(40):
        first, last = rng.normal(size=(3, 1)), rng.normal(size=(1, 3))
        last[0, 2] = -(last[0, :2] @ first[:2, 0]) / first[2, 0]
        nodes = [
            Node("input", width=1),
            Node("affine", (0,), weight=first, bias=np.zeros(3)),
            Node("affine", (1,), weight=last, bias=np.zeros(1)),
        ]
        true = abs(dot(exact(last)[0], exact(first)[:, 0]))
        box = BallBox(np.full((1, 1), -1.0), np.ones((1, 1)))
        prepared = Prepared(normal_form(nodes), Ball(np.eye(1), 2.0, 1.0) if shared else None)
        found = enclose(prepared, np.zeros((1, 1)), tier, None if shared else box)
        assert Fraction(found.high[0, 0]) >= true and Fraction(found.low[0, 0]) <= -true


# -- balls within boxes -------------------------------------------------------------------------------------------


def drawn(rng: np.random.Generator, order: float, rows: int = 3) -> BallBox:
    """A region of any form: with or without a ball, singular roots, offsets, flips, coordinates that stand still."""
    m = int(rng.integers(1, 5))
    low, high = -rng.random((rows, m)), rng.random((rows, m))
    low[rng.random((rows, m)) < 0.2] = 0.0
    still = rng.random((rows, m)) < 0.2
    low[still] = high[still] = 0.0
    if rng.random() < 0.2:
        return BallBox(low, high)
    k = int(rng.integers(1, m + 1))
    root = rng.normal(size=(k, m)) * 10.0 ** rng.integers(-3, 3)
    if rng.random() < 0.3:
        root[:, -1] = 0.0
    offset = rng.normal(size=(rows, k)) * float(rng.choice([0.0, 0.1]))
    radius = np.abs(root).sum() * rng.random(rows) * float(rng.choice([0.0, 0.1, 1.0]))
    return BallBox(low, high, root, order, radius, offset)


def members(region: BallBox, row: int, w: Array, rng: np.random.Generator) -> list[Any]:
    """Moves in the set, exactly, as far out along ``w`` as they were found."""
    low, high = region.low[min(row, len(region.low) - 1)], region.high[min(row, len(region.high) - 1)]
    radius = Fraction(float(region.radius[min(row, len(region.radius) - 1)]))
    offset = exact(region.offset[min(row, len(region.offset) - 1)])
    root = exact(region.root)
    proposals = [np.where(w > 0, high, low), np.clip(0.0, low, high), rng.uniform(low, high)]
    if len(region.root):
        proposals += [np.clip(proposal, low, high) for proposal in _outermost(region, row, w, low, high)]
    middle = np.clip(-(np.linalg.pinv(region.root) @ region.offset[min(row, len(region.offset) - 1)]), low, high)
    found = []
    for proposal in proposals:
        for share in (0.0, 1e-15, 1e-12, 1e-9, 1e-3, 0.5, 1.0):
            v = exact(np.clip(proposal + share * (middle - proposal), low, high))
            if not len(root) or norm_at_most(list(root @ v + offset), region.order, radius):
                found.append(v)
                break
    return found


def _outermost(region: BallBox, row: int, w: Array, low: Array, high: Array) -> list[Array]:
    """By linear programming for orders 1 and infinity, by projection of the ball's own for order 2."""
    k, m = region.root.shape
    radius, offset = region.radius[min(row, len(region.radius) - 1)], region.offset[min(row, len(region.offset) - 1)]
    if region.order == 2:
        s = np.linalg.pinv(region.root).T @ w
        size = np.linalg.norm(s)
        v = np.linalg.pinv(region.root) @ (s * (radius / size if size else 0.0) - offset)
        return [v, np.where(np.abs(region.root).any(0), v, np.where(w > 0, high, low))]
    eye = np.eye(k)
    if region.order == math.inf:
        above, limits = np.vstack([region.root, -region.root]), np.concatenate([radius - offset, radius + offset])
        found = linprog(-w, above, limits, bounds=list(zip(low, high, strict=True)))
    else:
        above = np.block([[region.root, -eye], [-region.root, -eye], [np.zeros((1, m)), np.ones((1, k))]])
        limits = np.concatenate([-offset, offset, [radius]])
        bounds = [*zip(low, high, strict=True), *[(0, None)] * k]
        found = linprog(np.concatenate([-w, np.zeros(k)]), above, limits, bounds=bounds)
    return [found.x[:m]] if found.status == 0 else []


@ORDERS
@pytest.mark.parametrize("seed", range(4))
def test_no_member_exceeds_the_support(order: float, seed: int) -> None:
    rng = np.random.default_rng([seed, 25])
    region = drawn(rng, order)
    m = region.low.shape[1]
    for w in rng.normal(size=(4, m)) * 10.0 ** rng.integers(-6, 6, (4, m)):
        t = np.tile(w[region.columns], (region.rows, 1))
        claims = region.support(t, np.arange(region.rows))
        assert np.array_equal(region.support(t, EVERYBODY), claims)
        linear_image = region.linear_image(w[None], np.abs(w[None]))
        for row in range(region.rows):
            for v in members(region, row, w, rng):
                value = dot(exact(w), v)
                assert value <= Fraction(float(claims[row]))
                # Ranges of W v leave the rounding of the support's own weights to the layer's noise: none here.
                assert value <= Fraction(float(linear_image.high[row, 0])) and value >= Fraction(
                    float(linear_image.low[row, 0])
                )
                assert abs(value) <= Fraction(float(linear_image.reach[row, 0]))
            for v in members(region, row, -w, rng):
                assert dot(exact(w), v) >= Fraction(float(linear_image.low[row, 0]))


@pytest.mark.parametrize("seed", range(12))
def test_a_box_is_exact_up_to_rounding(seed: int) -> None:
    rng = np.random.default_rng([seed, 26])
    m = int(rng.integers(1, 30))
    low, high = (rng.random((2, m)) * 10.0 ** rng.integers(-5, 5, m) for _ in range(2))
    low = -low
    region = BallBox(low, high)
    t = rng.normal(size=(2, m)) * 10.0 ** rng.integers(-5, 5, m)
    for row, claim in enumerate(region.support(t, EVERYBODY).tolist()):
        corner = np.where(t[row] > 0, high[row], low[row])
        true = dot(exact(t[row]), exact(corner))
        size = dot(exact(np.abs(t[row])), exact(region.extent[row]))
        assert true <= Fraction(claim) <= true + Fraction(1, 10**12) * size


@pytest.mark.parametrize("order", [1.0, math.inf])
@pytest.mark.parametrize("seed", range(8))
def test_splits_are_not_far_from_the_best(order: float, seed: int) -> None:
    """Against linear programming: never below it; a cut-off that is met exactly for order 1 and a plain root."""
    rng = np.random.default_rng([seed, 27])
    m = 4
    low, high = -rng.random((1, m)), rng.random((1, m))
    region = BallBox(low, high, np.eye(m), order, np.array([0.6]))
    w = rng.normal(size=m)
    (best,) = _outermost(region, 0, w, low[0], high[0])
    claim = region.support(w[None], EVERYBODY)[0]
    assert claim >= w @ best - 1e-12
    if order == 1:
        assert claim <= w @ best + 1e-12


@ORDERS
@pytest.mark.parametrize("seed", range(2))
def test_any_inverse_keeps_a_support_valid(order: float, seed: int) -> None:
    """The split is a hint: random, huge and tiny inverses, and those of another metric."""
    rng = np.random.default_rng([seed, 28])
    while not len((region := drawn(rng, order)).root):
        pass
    k, m = region.root.shape
    for inverse in (
        rng.normal(size=(m, k)),
        rng.normal(size=(m, k)) * 1e200,
        rng.normal(size=(m, k)) * 1e-200,
        np.linalg.pinv(region.root) * (1 + 1e-9),
        -np.linalg.pinv(region.root),
        np.full((m, k), 1e308),
    ):
        hostile = BallBox(region.low, region.high, region.root, order, region.radius, region.offset, inverse)
        w = rng.normal(size=m)
        with np.errstate(all="ignore"):
            claims = hostile.support(np.tile(w[hostile.columns], (3, 1)), EVERYBODY)
        for row in range(3):
            for v in members(region, row, w, rng):
                assert claims[row] == math.inf or dot(exact(w), v) <= Fraction(float(claims[row]))
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            BallBox(region.low, region.high, region.root, order, region.radius, None, np.full((m, k), bad))


@ORDERS
@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1e-163, 1e-100, 1e100])
def test_tiny_and_huge_weights(order: float, scale: float) -> None:
    rng = np.random.default_rng(29)
    for extent in (1e-200, 1.0, 1e150):
        low, high = -rng.random((2, 3)) * extent, rng.random((2, 3)) * extent
        region = BallBox(low, high, np.eye(3) * 0.5, order, np.array([0.4, 0.01]) * extent)
        t = rng.normal(size=(2, 3)) * scale
        with np.errstate(all="ignore"):
            claims = region.support(t, EVERYBODY)
        for row in range(2):
            for v in members(region, row, t[row], rng):
                assert claims[row] == math.inf or dot(exact(t[row]), v) <= Fraction(float(claims[row]))


def test_only_an_exact_0_meets_no_bounds() -> None:
    low, high = np.array([[-math.inf, -1.0]]), np.array([[math.inf, 1.0]])
    box = BallBox(low, high)
    with np.errstate(all="ignore"):
        assert box.support(np.array([[0.0, 2.0]]), EVERYBODY)[0] == pytest.approx(2.0)
        assert box.support(np.array([[5e-324, 2.0]]), EVERYBODY)[0] == math.inf
        ball = BallBox(low, high, np.array([[1.0, 1.0]]), 2.0, np.array([1.0]))
        for w in ([[1.0, 0.0]], [[0.3, 0.1]]):
            claim = ball.support(np.array(w), EVERYBODY)[0]
            assert claim >= w[0][0] * 2 - w[0][1]  # v = (2, -1)
        linear_image = ball.linear_image(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert math.isfinite(linear_image.reach[0, 0]) and linear_image.reach[0, 1] == math.inf
    assert math.isfinite(linear_image.high[0, 0])


def test_what_underflows_to_0_meets_no_bounds_either() -> None:
    """Both columns of the split's product underflow to the weight itself; exactly, one of them does not."""
    root, free = 2.0**-100 * np.array([[1.0, 1 + 2.0**-30]]), np.full((1, 2), math.inf)
    box = BallBox(-free, free, root, 2.0, np.ones(1), inverse=np.array([[2.0**100], [0.0]]))
    for scale in (2.0**-1060, 1.0):  # along (1 + 2^-30, -1) the ball holds nothing back
        assert box.support(np.full((1, 2), scale), EVERYBODY)[0] == math.inf
    along = BallBox(-free, free, np.array([[1.0, 1.0]]), 2.0, np.ones(1), inverse=np.array([[1.0], [0.0]]))
    assert along.support(np.zeros((1, 2)), EVERYBODY)[0] == pytest.approx(0.0, abs=1e-200)


@pytest.mark.parametrize("seed", range(8))
def test_shares_move_within_their_simplex(seed: int) -> None:
    rng = np.random.default_rng([seed, 30])
    m, blocks = 6, ((0, 3), (4, 6))
    shares = np.zeros((2, m))
    if seed % 2:
        shares[:, [0, 5]] = 1.0
    else:
        shares[:, :3], shares[:, 4:] = [0.25, 0.5, 0.25], [0.75, 0.25]
    low, high = -np.ones((2, m)) * 0.3, np.ones((2, m)) * 0.3
    for start, stop in blocks:
        low[:, start:stop], high[:, start:stop] = -shares[:, start:stop], 1 - shares[:, start:stop]
    region = BallBox(low, high, blocks=blocks, shares=shares)
    box = BallBox(low, high)
    tight = False
    for w in rng.normal(size=(10, m)):
        claims, loose = (r.support(np.tile(w[r.columns], (2, 1)), EVERYBODY) for r in (region, box))
        assert (claims <= loose * (1 + 1e-12) + 1e-12).all()
        tight |= bool((claims < loose - 1e-6).any())
        for a in range(3):
            for b in range(4, 6):
                v = exact(np.zeros(m))
                v[:3], v[4:] = exact(np.eye(3)[a] - shares[0, :3]), exact(np.eye(2)[b - 4] - shares[0, 4:])
                v[3] = Fraction(0.3) * (1 if w[3] > 0 else -1)
                assert dot(exact(w), v) <= Fraction(float(claims[0]))
    assert tight
    for start, stop in blocks:  # a block alone: what its simplex allows, to the last bits
        w = np.zeros(m)
        w[start:stop] = rng.normal(size=stop - start)
        claim = region.support(np.tile(w[region.columns], (2, 1)), EVERYBODY)[0]
        assert claim == pytest.approx(w[start:stop].max() - w @ shares[0], abs=1e-7)
    with pytest.raises(ValueError, match="shares"):
        BallBox(low, high, blocks=blocks)
    for wide in ((low - math.inf, high), (low, high + math.inf)):
        with pytest.raises(ValueError, match="finite ranges"):
            BallBox(*wide, blocks=blocks, shares=shares)


def test_some_of_the_sets() -> None:
    rng = np.random.default_rng(31)
    region = drawn(rng, 2.0, rows=5)
    t = rng.normal(size=(5, len(region.columns)))
    whole, part = region.support(t, EVERYBODY), region[1:4]
    again = part.support(np.ascontiguousarray(t[1:4, np.isin(region.columns, part.columns)]), EVERYBODY)
    assert part.rows == 3 and np.allclose(again, whole[1:4], rtol=1e-9)


def test_boxes_that_are_none_are_refused() -> None:
    one = np.ones((1, 2))
    for low, high in ((one, -one), (one * np.nan, one), (-one, one * np.nan)):
        with pytest.raises(ValueError, match="box"):
            BallBox(low, high)
    with pytest.raises(ValueError, match="radius"):
        BallBox(-one, one, np.eye(2), 2.0, np.array([-1.0]))
    for name in ("root", "radius", "offset"):
        given: dict[str, Any] = {"root": np.eye(2), "radius": np.ones(1), "offset": np.zeros((1, 2))}
        for bad in (math.nan, math.inf):
            with pytest.raises(ValueError, match="finite"):
                BallBox(-one, one, **{**given, name: given[name] + bad})
    with pytest.raises(ValueError, match="order"):
        BallBox(-one, one, np.eye(2), 1.5, np.ones(1))


@ORDERS
def test_a_maximiser_is_about_where_the_support_is_reached(order: float) -> None:
    rng = np.random.default_rng(32)
    t = rng.normal(size=(5, 3))
    ball = Ball(np.eye(3), order, 0.5)
    assert np.allclose(np.vecdot(t, ball.maximiser(t, EVERYBODY)), ball.support(t, EVERYBODY), rtol=1e-9)
    assert ball.maximiser(np.zeros((2, 3)), EVERYBODY).shape == (2, 3)
    wide = np.full((5, 3), 9.0)
    box = BallBox(-wide, wide, np.eye(3), order, np.full(5, 0.5))
    inside = box.maximiser(t, EVERYBODY)
    assert (np.vecdot(t, inside) >= 0.4 * box.support(t, EVERYBODY)).all()


def test_a_free_coordinate_without_weight_costs_nothing() -> None:
    """Nothing bounds the second coordinate, and the metric does not see it: only an exact zero may meet it."""
    root, far = np.array([[1.0, 0.0]]), np.array([[1.0, np.inf]])
    region = BallBox(-far, far, root, 2.0, np.array([0.5]), np.zeros((1, 1)), root.T, (), np.zeros((1, 2)))
    for weight, expected in (([2.0, 0.0], 1.0), ([0.0, 1e-300], np.inf), ([1.0, -1.0], np.inf), ([0.0, 0.0], 0.0)):
        found = region.support(np.array([weight]), np.zeros(1, dtype=np.int64))
        assert expected <= found[0] <= expected + 1e-12


def test_shares_that_do_not_add_up_are_refused() -> None:
    """Bounds use that the moves of a block add up to nothing."""
    box = np.full((1, 3), 0.5)
    for shares in ([[0.5, 0.5, 0.5]], [[1.0, 0.0, 3e-9]], [[0.0, 0.0, 0.0]]):
        with pytest.raises(ValueError, match="must add up to 1"):
            BallBox(-box, box, blocks=[(0, 3)], shares=np.array(shares))
    BallBox(-box, box, blocks=[(0, 3)], shares=np.array([[1.0, 0.0, 1e-9]]))


def test_where_two_boxes_leave_nothing_a_point_is_left() -> None:
    one, other = (
        BallBox(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])),
        BallBox(np.full((1, 2), 2.0), np.full((1, 2), 3.0)),
    )
    left = one.within(other)
    assert (left.low == 2.0).all() and (left.high == 2.0).all()


def test_ranges_of_many_sets_are_those_of_each() -> None:
    """Sets with few columns choose splits of their own, so many at a time; all get the same as they would alone."""
    rng = np.random.default_rng(87)
    rows, weight = 600, rng.normal(size=(2048, 2))
    low, high = -rng.random((rows, 2)), rng.random((rows, 2))
    sets = BallBox(low, high, np.eye(2), 2.0, np.full(rows, 0.5), np.zeros((rows, 2)))
    found = sets.linear_image(weight, np.abs(weight))
    for row in (0, rows - 1):
        alone = sets[row : row + 1].linear_image(weight, np.abs(weight))
        assert np.allclose(found.low[row], alone.low[0], rtol=1e-12) and np.allclose(found.high[row], alone.high[0])


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
@pytest.mark.parametrize("seed", range(12))
def test_an_ellipsoid_holds_what_a_weight_makes_of_every_member(order: float, seed: int) -> None:
    """Also where a coordinate has one possible value, and that is not 0."""
    rng = np.random.default_rng([seed, 7])
    m = int(rng.integers(2, 5))
    root = np.eye(m) + 0.3 * rng.normal(size=(m, m))
    low, high = -rng.random((2, m)), rng.random((2, m))
    fixed = int(rng.integers(m))
    low[:, fixed] = high[:, fixed] = float(rng.choice([0.0, 1.0, -0.5]))
    offset, radius = 0.2 * rng.normal(size=(2, m)), np.array([1.0, 2.0])
    region = BallBox(low, high, root, order, radius, offset)
    weight = rng.normal(size=(3, m))
    found = region.ellipsoid(weight, np.abs(weight))
    assert found is not None
    tried = 0
    for row in range(2):
        for v in low[row] + rng.random((40, m)) * (high[row] - low[row]):
            away = [dot(exact(line), exact(v)) + Fraction(o) for line, o in zip(root, offset[row], strict=True)]
            if not norm_at_most(away, order, radius[row]):
                continue
            tried += 1
            assert sum(a * a for a in away) <= Fraction(float(found.radius[row])) ** 2
            for i, line in enumerate(weight):
                left = dot(exact(line), exact(v)) - Fraction(found.middle[row, i]) - dot(exact(found.matrix[i]), away)
                assert abs(left) <= Fraction(found.loss[row, i])
    assert tried


@ORDERS
@pytest.mark.parametrize("seed", range(8))
def test_shares_within_a_ball(order: float, seed: int) -> None:
    """A ball away from 0, a box and blocks of shares all at once: supports with any split and ranges hold members."""
    rng = np.random.default_rng([seed, 31])
    m, blocks = 5, ((0, 3),) if seed % 2 else ((0, 3), (3, 5))
    shares = np.zeros((2, m))
    for start, stop in blocks:
        shares[:, start:stop] = rng.dirichlet(np.ones(stop - start), 2)
    low, high = -rng.random((2, m)), rng.random((2, m))
    for start, stop in blocks:
        low[:, start:stop], high[:, start:stop] = -shares[:, start:stop], 1 - shares[:, start:stop]
    root, offset = rng.normal(size=(int(rng.integers(1, m + 1)), m)), None
    offset = 0.3 * rng.normal(size=(2, len(root)))
    radius = np.linalg.norm(offset, order, axis=1) * 1.01 + rng.random(2)  # so that nobody moving is a member
    region = BallBox(low, high, root, order, radius, offset, blocks=blocks, shares=shares)
    weight = rng.normal(size=(4, m))
    linear_image = region.linear_image(weight, np.abs(weight))
    for row, line in itertools.product(range(2), (*weight, *-weight)):
        split = rng.normal(size=(2, len(root))) * float(rng.choice([0.0, 0.1, 1.0]))
        claims = [region.support(np.tile(line[region.columns], (2, 1)), EVERYBODY, s)[row] for s in (None, split)]
        for v in _members_with_shares(region, row, line):
            assert all(dot(exact(line), v) <= Fraction(float(claim)) for claim in claims)
            for i, other in enumerate(weight):
                value = dot(exact(other), v)
                assert Fraction(float(linear_image.low[row, i])) <= value <= Fraction(float(linear_image.high[row, i]))


def _members_with_shares(region: BallBox, row: int, w: Array) -> list[Any]:
    """About the extreme member along ``w``, by a linear program, drawn towards 0 until it is one exactly."""
    (k, m), low, high = region.root.shape, region.low[row], region.high[row]
    eye, none = np.eye(k), np.zeros((len(region.blocks), k))
    sums = np.zeros((len(region.blocks), m))
    for line, (start, stop) in zip(sums, region.blocks, strict=True):
        line[start:stop] = 1.0
    # The ball of order 1 or infinity, for order 2 the former, which lies within it.
    paid = np.full((1, k), 1.0) if region.order <= 2 else eye
    above = np.block([[region.root, -eye], [-region.root, -eye], [np.zeros((len(paid), m)), paid]])
    limits = np.concatenate([-region.offset[row], region.offset[row], np.full(len(paid), region.radius[row])])
    bounds = [*zip(low, high, strict=True), *[(0, None)] * k]
    solution = linprog(
        np.append(-w, np.zeros(k)), above, limits, np.hstack([sums, none]), np.zeros(len(sums)), bounds=bounds
    )
    found, root = [], exact(region.root)
    for start in [solution.x[:m]] if solution.status == 0 else []:
        for share in (0.0, 1e-14, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0):
            v = exact(start * (1 - share))
            for a, b in region.blocks:  # exactly
                v[b - 1] = -sum(v[a : b - 1], Fraction(0))
            inside = all(Fraction(a) <= x <= Fraction(b) for a, x, b in zip(low, v, high, strict=True))
            away = list(root @ v + exact(region.offset[row]))
            if inside and norm_at_most(away, region.order, Fraction(float(region.radius[row]))):
                found.append(v)
                break
    return found
