"""The similar sets: every similar individual lies in one of its regions, and tiny sets are met exactly."""

from __future__ import annotations

import itertools
import math
from copy import copy
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.bounds.support import support
from tests.certificates.neighbours import possible
from tests.contracts.metric import steady

from isonomy.errors import MetricError
from isonomy.population import Domain, Feature, Schema
from isonomy.similarity import Counterparts, Mahalanobis, Metric, SensitiveSubspace, WeightedLp
from isonomy.similarity.regions import Regions, Similarity, cached_similarity

from .people import people as some_people

SCHEMA = Schema(
    "tiny",
    (
        Feature("income", low=1.0, high=9.0, origin=1.0, unit=4.0, relative_tolerance=0.5),
        Feature("age", "integer", low=0, high=6, origin=0.0, unit=3.0, tolerance=2.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("job", "categorical", categories=("a", "b", "c")),
    ),
)
WIDTH = SCHEMA.width


def everybody() -> np.ndarray:
    """A grid of possible individuals: fine in the numeric feature, all of the others."""
    income = np.concatenate([np.linspace(0, 2, 41)])
    age = np.array([(k - 0.0) / 3.0 for k in range(7)])
    combinations = itertools.product(income, age, np.eye(2), np.eye(3))
    return np.array([[i, a, *s, *j] for i, a, s, j in combinations])


def test_support_of_a_ball_is_its_closed_form() -> None:
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(4, 4))
    weights = rng.normal(size=(5, 4))
    metric = Mahalanobis(factor.T @ factor)
    (piece,) = Similarity(metric, 0.3, Domain.unbounded(4)).regions(rng.normal(size=(3, 4)))
    expected = 0.3 * np.linalg.norm(np.linalg.solve(factor.T, weights.T), axis=0)
    assert support(piece.sets, weights)[0] == pytest.approx(expected, rel=1e-9)
    for order, dual in ((1, math.inf), (2, 2), (math.inf, 1)):
        scale = np.array([1.0, 2.0, 0.5, 3.0])
        lp = WeightedLp(scale, order)
        (piece,) = Similarity(lp, 0.3, Domain.unbounded(4)).regions(rng.normal(size=(3, 4)))
        root = scale if order == math.inf else scale ** (1 / order)
        expected = 0.3 * np.linalg.norm(weights / root, dual, axis=1)
        assert support(piece.sets, weights)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("delta", [0.05, 0.5, 1.0, 1.5])
def test_realizable_counterparts_are_met_by_brute_force(delta: float) -> None:
    """A box for each choice of categories: the support is attained, on a grid up to its step."""
    metric, domain, people = Counterparts.of(SCHEMA), SCHEMA.domain("realizable"), everybody()
    rng = np.random.default_rng(4)
    weights = rng.normal(size=(8, WIDTH))
    for own in people[rng.choice(len(people), 5)]:
        similar = people[metric.distance_upper(own, people) <= delta]
        bound = np.full(8, -np.inf)
        for piece in Similarity(metric, delta, domain).regions(own[None]):
            bound = np.maximum(bound, (support(piece.sets, weights) + piece.centre @ weights.T).max(axis=0))
        attained = (similar @ weights.T).max(axis=0)
        assert (attained <= bound + 1e-12).all()
        assert (bound <= attained + 0.05 * np.abs(weights[:, 0]) + 1e-9).all()


def test_a_singular_metric_needs_a_domain() -> None:
    with pytest.raises(MetricError, match="singular"):
        Similarity(Mahalanobis([[1, 1], [1, 1]]), 0.1, Domain.unbounded(2)).regions(np.zeros((1, 2)))


# -- every similar individual of every domain, in rational arithmetic -------------------------------------------


def exact_moves(y: np.ndarray, centre: np.ndarray) -> list[Fraction]:
    return [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(y, centre, strict=True)]


def exact_image(root: np.ndarray, move: list[Fraction]) -> list[Fraction]:
    used = [j for j, v in enumerate(move) if v]
    return [sum((Fraction(float(row[j])) * move[j] for j in used), Fraction(0)) for row in root]


def ball(image: list[Fraction], order: float) -> Fraction:
    """The norm, squared for the order 2."""
    if order == 2:
        return sum((z * z for z in image), Fraction(0))
    return sum(map(abs, image), Fraction(0)) if order == 1 else max(map(abs, image), default=Fraction(0))


def exactly_similar(metric: Metric, x: np.ndarray, y: np.ndarray, delta: float) -> bool:
    """At most ``delta`` in real arithmetic; the box part by its own upper bound."""
    root, order = metric.gauge()
    if not len(root):
        return bool(metric.distance_upper(x, y) <= delta)
    if isinstance(metric, WeightedLp):  # its root is rounded: take the definition
        move = [
            abs(v) ** int(order) * Fraction(float(w)) for v, w in zip(exact_moves(y, x), metric.weights, strict=True)
        ]
        return sum(move, Fraction(0)) <= Fraction(delta) ** int(order)
    return ball(exact_image(root, exact_moves(y, x)), order) <= Fraction(delta) ** 2


def smallest_delta(metric: Metric, x: np.ndarray, y: np.ndarray) -> float:
    """The smallest float64 at which the two are similar."""
    delta = float(metric.distance_upper(x, y))
    for _ in range(200):
        if delta == 0 or not exactly_similar(metric, x, y, before := math.nextafter(delta, 0.0)):
            break
        delta = before
    return delta


def holds(regions: Regions, j: int, y: np.ndarray) -> bool:
    """Is ``y`` in region ``j``, in rational arithmetic? Simplices are boxes here, since members are members."""
    sets = regions.sets

    def of(part: np.ndarray) -> np.ndarray:
        return part[j % len(part)]

    move = exact_moves(y, regions.centre[j])
    limits = zip(move, of(sets.low), of(sets.high), strict=True)
    if not all(
        (math.isinf(a) or Fraction(float(a)) <= v) and (math.isinf(b) or v <= Fraction(float(b))) for v, a, b in limits
    ):
        return False
    if not sets.root.shape[0]:
        return True
    image = exact_image(sets.root, move)
    image = [Fraction(float(o)) + z for o, z in zip(of(sets.offset), image, strict=True)]
    radius = Fraction(float(of(sets.radius)))
    return ball(image, sets.order) <= (radius**2 if sets.order == 2 else radius)


def covered(pieces: list[Regions], owner: int, y: np.ndarray) -> bool:
    return any(holds(piece, int(j), y) for piece in pieces for j in np.flatnonzero(piece.owner == owner))


ODD = [
    Feature("rate", low=0.1, high=0.7, origin=0.3, unit=0.1),
    Feature("wide", low=-1e4, high=1e4, origin=17.0, unit=73.0, relative_tolerance=None, tolerance=500.0),
    Feature("income", low=0.5, high=20.0, origin=0.5, unit=7.0, relative_tolerance=0.3),
    Feature("kids", "integer", low=0, high=4, origin=17.0, unit=0.1, tolerance=1.0),
    Feature("age", "integer", low=18, high=22, origin=17.3, unit=73.0, tolerance=2.0),
    Feature("score", "integer", low=-2, high=2, origin=0.0, unit=3.0, tolerance=1.0),
    Feature("hours", "integer", low=0, high=3, fill=2, unit=3.0, origin=0.0, tolerance=1.0),
    Feature("level", "ordinal", categories=("low", "middle", "high"), tolerance=1.0),
    Feature("sex", "categorical", categories=("f", "m"), protected=True),
    Feature("race", "categorical", categories=("a", "b", "c"), proxy=True),
    Feature("job", "categorical", categories=("x", "y", "z")),
    Feature("born", "categorical", categories=("here", "there"), immutable=True),
    Feature("since", "integer", low=0, high=3, immutable=True),
    Feature("only", "categorical", categories=("one",)),
]


def cells(feature: Feature, rng: np.random.Generator, count: int) -> np.ndarray:
    """Coordinates (count, width) of one feature: all of its values where there are few."""
    if feature.kind == "categorical":
        return np.eye(feature.width)
    if feature.kind == "numeric":
        inner = rng.uniform(feature.low, feature.high, count)
        values = np.concatenate([[feature.low, feature.high], inner])
        return np.array([[feature.coordinate(float(v))] for v in values])
    rows = [[feature.coordinate(float(k))] for k in range(int(feature.low), int(feature.high) + 1)]
    if not feature.flagged:
        return np.array(rows)
    return np.array([[*row, 0.0] for row in rows] + [[feature.coordinate(feature.fill_value), 1.0]])


def inhabitants(schema: Schema, rng: np.random.Generator, most: int = 400, count: int = 3) -> np.ndarray:
    """Individuals of the realizable domain: everybody, or as many as asked for when there are too many."""
    parts = [cells(feature, rng, count) for feature in schema.features]
    total = math.prod(map(len, parts))
    picks = range(total) if total <= most else rng.choice(total, most, replace=False)
    shape = tuple(map(len, parts))
    rows = [np.concatenate([part[k] for part, k in zip(parts, np.unravel_index(p, shape), strict=True)]) for p in picks]
    return np.array(rows)


@st.composite
def odd_schemas(draw: st.DrawFn, most: int = 4) -> Schema:
    chosen = draw(st.lists(st.sampled_from(ODD), min_size=1, max_size=most, unique_by=lambda f: f.name))
    return Schema("odd", tuple(chosen))


def random_metric(schema: Schema, rng: np.random.Generator) -> Metric:
    width = schema.width
    kind = rng.integers(7)
    if kind == 0:
        return Counterparts.of(schema)
    if kind <= 3:
        order = [1, 2, math.inf][kind - 1]
        return WeightedLp(rng.choice([0.0, 1e-6, 0.3, 1.0, 2.0, 1e3], width), order)
    if kind == 4:
        root = rng.normal(size=(rng.integers(1, width + 3), width))
        return Mahalanobis.from_root(root * rng.choice([1e-3, 1.0, 10.0]))
    if kind == 5:  # nearly singular
        root = rng.normal(size=(width, width))
        root[-1] = root[0] + 1e-9 * root[-1]
        return Mahalanobis.from_root(root)
    directions = np.concatenate([rng.normal(size=(1, width)), np.eye(width)[schema.protected_coordinates]])
    return SensitiveSubspace(directions, float(rng.choice([0.0, 1e-6, 1.0])))


def compensated(metric: Metric, domain: Domain, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y`` with its continuous numbers moved to where they compensate best for everything else."""
    root, _ = metric.gauge()
    loose = domain.numeric & ~domain.integer & ~domain.immutable
    if not len(root) or not loose.any():
        return y
    rest = np.where(loose, 0.0, y - x)
    best = x.copy()
    best[~loose] = y[~loose]
    best[loose] = x[loose] - np.linalg.pinv(root[:, loose]) @ (root @ rest)
    return np.clip(best, domain.low, domain.high)


@settings(steady, max_examples=120)
@given(schema=odd_schemas(), seed=st.integers(0, 2**32 - 1), cap=st.sampled_from([1024, 1024, 3, 1, 0]))
def test_somebody_exactly_at_the_boundary_is_covered(schema: Schema, seed: int, cap: int) -> None:
    """δ is set to the very distance of one individual, so that the least rounding inward would lose it."""
    rng = np.random.default_rng(seed)
    metric, domain = random_metric(schema, rng), schema.domain("realizable")
    everyone = inhabitants(schema, rng)
    assert domain.contains(everyone).all()
    x, delta = everyone[rng.integers(len(everyone))], 0.0
    pieces = Similarity(metric, delta, domain, cap).regions(x[None])
    for y in everyone[rng.choice(len(everyone), min(4, len(everyone)), replace=False)]:
        for other in (y, compensated(metric, domain, x, y)):
            if not domain.allows(x, other)[0]:
                continue
            smallest = smallest_delta(metric, x, other)
            if not math.isfinite(smallest):
                continue
            delta = smallest
            pieces = Similarity(metric, delta, domain, cap).regions(x[None])
            assert covered(pieces, 0, other), (metric, delta, other)
            assert covered(pieces, 0, x)
            relaxed = Similarity(metric, delta, domain.with_kind("relaxed")).regions(x[None])
            assert covered(relaxed, 0, other)
    if cap == 1024:  # and all the others at the same δ
        near = domain.allows(np.broadcast_to(x, everyone.shape), everyone) & (metric.distance(x, everyone) <= delta)
        for y in everyone[near][:30]:
            if exactly_similar(metric, x, y, delta):
                assert covered(pieces, 0, y)


@settings(steady, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    delta=st.sampled_from([0.0, 1e-9, 0.05, 0.4, 1.0, 3.0]),
    cap=st.sampled_from([1024, 2]),
)
def test_a_whole_tiny_world_is_enumerated(seed: int, delta: float, cap: int) -> None:
    """All lattice and categorical individuals: every similar one is covered, and few others have regions at all."""
    rng = np.random.default_rng(seed)
    schema = Schema("tiny", (ODD[3], ODD[8], ODD[9], ODD[6]))
    metric, domain = random_metric(schema, rng), schema.domain("realizable")
    everyone = inhabitants(schema, rng, most=1000)
    assert len(everyone) == 5 * 2 * 3 * 5
    x = everyone[rng.choice(len(everyone), 2, replace=False)]
    pieces = Similarity(metric, delta, domain, cap).regions(x)
    for i, own in enumerate(x):
        near = np.flatnonzero(metric.distance(own, everyone) <= delta * (1 + 1e-9) + 1e-12)
        for y in everyone[near]:
            if exactly_similar(metric, own, y, delta):
                assert covered(pieces, i, y), y
        if cap == 1024:
            lists = [tuple(centre) for piece in pieces for centre in piece.centre[piece.owner == i]]
            assert len(lists) == len(set(lists)), "a branch is listed twice"


@settings(steady, max_examples=40)
@given(schema=odd_schemas(), seed=st.integers(0, 2**32 - 1))
def test_relaxed_members_off_the_simplex_by_its_tolerance_are_covered(schema: Schema, seed: int) -> None:
    rng = np.random.default_rng(seed)
    metric, domain = random_metric(schema, rng), schema.domain("relaxed")
    everyone = inhabitants(schema, rng, most=60)
    pair = []
    for _ in range(2):
        share = rng.dirichlet(np.full(len(everyone), 0.05))
        point = np.clip(share @ everyone, domain.low, domain.high)
        for start, stop in domain.blocks:
            if stop - start > 1:
                point[start:stop] = np.clip(point[start:stop] * (1 + rng.choice([-0.99e-9, 0, 0.99e-9])), 0, 1)
        pair.append(point)
    x, y = pair
    y[domain.immutable] = x[domain.immutable]
    if not (domain.contains(x)[0] and domain.allows(x, y)[0]):
        return
    delta = smallest_delta(metric, x, y)
    if not math.isfinite(delta):
        return
    pieces = Similarity(metric, delta, domain).regions(x[None])
    assert covered(pieces, 0, y)
    weights = rng.normal(size=(4, schema.width))
    for w, h in zip(weights, support(pieces[0].sets, weights)[0], strict=True):
        value = sum((Fraction(float(a)) * v for a, v in zip(w, exact_moves(y, x), strict=True)), Fraction(0))
        assert math.isinf(h) or value <= Fraction(float(h))


@settings(steady, max_examples=80)
@given(seed=st.integers(0, 2**32 - 1), condition=st.sampled_from([1.0, 1e3, 1e6]))
def test_the_unbounded_ball_is_never_below_its_rational_closed_form(seed: int, condition: float) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 2))
    root[1] = root[0] + root[1] / condition
    delta = float(rng.choice([1e-3, 0.7, 20.0]))
    (piece,) = Similarity(Mahalanobis.from_root(root), delta, Domain.unbounded(2)).regions(rng.normal(size=(1, 2)))
    (a, b), (c, d) = [[Fraction(float(v)) for v in row] for row in root]
    determinant = a * d - b * c
    for w in rng.normal(size=(3, 2)):
        w0, w1 = Fraction(float(w[0])), Fraction(float(w[1]))
        split = ((w0 * d - w1 * c) / determinant, (w1 * a - w0 * b) / determinant)
        exact = (split[0] ** 2 + split[1] ** 2) * Fraction(delta) ** 2
        bound = float(support(piece.sets, w[None])[0, 0])
        assert exact <= Fraction(bound) ** 2
        assert bound <= float(exact) ** 0.5 * (1 + 1e-12 * np.linalg.cond(root) ** 2)
    for i, reach in enumerate(piece.sets.high[0].tolist()):
        axis = (d * d + b * b, c * c + a * a)[i] / determinant**2 * Fraction(delta) ** 2
        assert axis <= Fraction(reach) ** 2


def test_fitted_metrics_on_real_features() -> None:
    """A population with every kind of feature: the sampled similar people of each individual are covered."""
    population = some_people(120)
    domain = population.domain
    rng = np.random.default_rng(3)
    for metric in (
        SensitiveSubspace.fit(population),
        SensitiveSubspace.fit(population, ridge=1.0),
        Mahalanobis.fit(population),
        WeightedLp.fit(population),
        Counterparts.of(population.schema),
    ):
        x = population.x[rng.choice(len(population.x), 6, replace=False)]
        pieces = Similarity(metric, 1.0, domain).regions(x)
        seen = 0
        for i, own in enumerate(x):
            flips = own + 0.3 * (population.x - own)
            flips[:, ~domain.numeric] = population.x[:, ~domain.numeric]
            flips = np.clip(domain.snap(flips), domain.low, domain.high)
            others = np.concatenate([population.x, flips, np.where(metric.free, population.x, own)])
            allowed = domain.allows(np.broadcast_to(own, others.shape), others) & (
                metric.distance_upper(own, others) <= 1.0
            )
            for y in others[allowed][:20]:
                seen += 1
                assert covered(pieces, i, y)
        assert seen >= 6


def test_edges_of_the_domain_and_zero_width() -> None:
    """Individuals at both ends of every range, δ = 0: the only similar individual is oneself."""
    schema = Schema("edges", (ODD[0], ODD[3], ODD[8]))
    domain = schema.domain("realizable")
    metric = WeightedLp(np.ones(schema.width))
    for own in inhabitants(schema, np.random.default_rng(0), count=0):
        (piece,) = Similarity(metric, 0.0, domain).regions(own[None])
        assert len(piece) == 1
        assert (piece.centre[0] == own).all()
        assert np.abs(support(piece.sets, np.eye(schema.width))).max() <= 1e-12 + 1e-15 * np.abs(own).max()


# -- once broken --------------------------------------------------------------------------------------------------


def test_a_nearly_free_direction_pays_for_a_category() -> None:
    """Singular value 1e-11, but a range of 1e9: moving that far lowers the price of the flip by 1 %."""
    root = np.array([[1.0, 0, 0, 0], [0, 1e-11, 0.5, -0.5]])
    domain = possible("realizable", [0, -1e9, 0, 0], [1, 1e9, 1, 1], ((2, 4),))
    x, y = np.array([0.5, 0, 1, 0]), np.array([0.5, 1e9, 0, 1])
    metric = Mahalanobis.from_root(root)
    assert metric.distance_upper(x, y) <= 0.995
    assert domain.allows(x, y)[0]
    assert covered(Similarity(metric, 0.995, domain).regions(x[None]), 0, y)


def test_whole_numbers_far_from_their_origin_keep_their_lattice() -> None:
    """Whole numbers 0 to 6 written as (k − 1e8) / 0.3: off by 1e-8 in raw units, ten times the margin."""
    origin, unit = 1e8, 0.3
    schema = Schema("far", (Feature("k", "integer", low=0, high=6, origin=origin, unit=unit, tolerance=2.0),))
    domain, metric = schema.domain(), Counterparts.of(schema)
    everyone = np.array([[(k - origin) / unit] for k in range(7)])
    assert domain.contains(everyone).all()
    pieces = Similarity(metric, 1.0, domain).regions(everyone)
    for i, own in enumerate(everyone):
        assert all(covered(pieces, i, y) for y in everyone if metric.distance_upper(own, y) <= 1.0)


def test_a_block_of_which_only_one_coordinate_is_immutable() -> None:
    """Nobody may take up or leave the first category, but the second and third may be exchanged."""
    domain = possible("realizable", np.zeros(3), np.ones(3), ((0, 3),), immutable=[True, False, False])
    x, y = np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    assert domain.allows(x, y)[0]
    assert covered(Similarity(WeightedLp(np.zeros(3)), 0.1, domain).regions(x[None]), 0, y)


def test_the_rotation_of_the_numbers_is_paid_for_when_nothing_has_a_price() -> None:
    """As many numbers as rows: every change can be compensated, and the ball is rotated by rounded vectors."""
    rng = np.random.default_rng(0)
    domain = possible("realizable", [-9.0, -9.0, 0, 0], [9.0, 9.0, 1, 1], ((2, 4),))
    for _ in range(60):
        metric = Mahalanobis.from_root(rng.normal(size=(2, 4)))
        x, y = np.array([*rng.normal(size=2), 1, 0]), np.array([*rng.normal(size=2), 0, 1])
        delta = smallest_delta(metric, x, y)
        assert covered(Similarity(metric, delta, domain).regions(x[None]), 0, y)


def test_lattices_are_met_to_the_last_bit() -> None:
    """All pairs of whole numbers within a tolerance, for origins and units that no float64 likes."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        origin, unit = float(rng.normal() * 10.0 ** rng.integers(0, 9)), float(10.0 ** rng.uniform(-2, 3))
        schema = Schema("far", (Feature("k", "integer", low=-3, high=4, origin=origin, unit=unit, tolerance=3.0),))
        domain, metric = schema.domain(), Counterparts.of(schema)
        everyone = np.array([[(k - origin) / unit] for k in range(-3, 5)])
        assert domain.contains(everyone).all()
        pieces = Similarity(metric, 1.0, domain).regions(everyone)
        for i, own in enumerate(everyone):
            assert all(covered(pieces, i, y) for y in everyone if metric.distance_upper(own, y) <= 1.0)
            reach = [piece.sets.high[j, 0].item() * unit for piece in pieces for j in np.flatnonzero(piece.owner == i)]
            assert max(reach) == pytest.approx(min(3, 4 - (i - 3)), rel=1e-5)


def test_large_moves_that_cancel_are_paid_for() -> None:
    """Two numbers that nearly compensate for each other move by up to 1e6 each: rounding of the rotation shows."""
    rng = np.random.default_rng(0)
    domain = possible("realizable", [-1e6, -1e6, 0, 0], [1e6, 1e6, 1, 1], ((2, 4),))
    for rows in (2, 3) * 20:
        root = rng.normal(size=(rows, 4))
        root[:, 1] = root[:, 0] * (1 + 1e-6 * rng.normal(size=rows))
        metric = Mahalanobis.from_root(root)
        far = rng.uniform(-9e5, 9e5)
        x, y = np.array([*rng.normal(size=2), 1, 0]), np.array([far, -far, 0, 1])
        delta = smallest_delta(metric, x, y)
        assert covered(Similarity(metric, delta, domain).regions(x[None]), 0, y)


@pytest.mark.parametrize(
    ("metric", "y"),
    [
        (Mahalanobis.from_root(np.diag([1e160, 1e160, 1.0])), [0, 1, 0]),
        (Mahalanobis.from_root([[1e160, -1e160, 1e160]]), [0, 1, 1]),
        (Mahalanobis.from_root([[6e307, -6e307, 3e307]]), [0, 1, 1]),
        (Mahalanobis.from_root([[1e308, 1e308, 1e300]] * 4), [0, 1, 1]),
        (Mahalanobis.from_root([[1.5e308, 1.4e308, 1.0], [1.5e308, 1.4e308, 0.0], [1.5e308, 1.5e308, 0.0]]), [0, 1, 1]),
        (WeightedLp([1.5e308, 1e308, 1.0]), [0, 1, 0.5]),
        (WeightedLp([1e308, 1e308, 1.0], 1), [1, 0, 1]),
        (WeightedLp([8e307, 8e307, 1.0], 1), [0, 1, 0.25]),
        (WeightedLp([1.0, 1.0, 1e-310], 1), [1, 0, 1]),
        (WeightedLp([1.0, 1.0, 1e-310], 1), [0, 1, 1]),
        (WeightedLp([5e-324, 5e-324, 5e-324], 1), [0, 1, 1]),
        (WeightedLp([5e-324, 5e-324, 1.5e-323]), [0, 1, 0.75]),
        (Mahalanobis.from_root(np.diag([1e-170, 1e-170, 1e-170])), [0, 1, 1]),
        (Mahalanobis.from_root(np.diag([0.0, 0.0, 1e-200])), [0, 1, 1]),
        (Mahalanobis.from_root([[1e-162, -2e-162, 1e-162]]), [0, 1, 1]),
        (Mahalanobis.from_root([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), [0, 1, 1e-170]),
    ],
)
@pytest.mark.parametrize("more", [1.0, 1.25, 10.0])
def test_roots_whose_squares_overflow_or_underflow(metric: Metric, y: list[float], more: float) -> None:
    """Nobody is left out since a price is not a number, or a radius the root of nothing."""
    domain = possible("realizable", [0, 0, 0], [1, 1, 1], [(0, 2)])
    x = np.array([1.0, 0.0, 0.0])
    delta = min(more * smallest_delta(metric, x, np.array(y)), 1.7e308)
    pieces = Similarity(metric, delta, domain).regions(x[None])
    assert covered(pieces, 0, np.array(y)) and covered(pieces, 0, x)


def test_a_range_whose_width_overflows_is_none() -> None:
    """Prices of branches were not a number there, and so nobody was similar to anybody."""
    domain = possible("realizable", [0, 0, -1.7e308], [1, 1, 1.7e308], [(0, 2)])
    for kind in ("relaxed", "realizable"):
        with pytest.raises(MetricError, match="'x2' has no finite range"):
            Similarity(WeightedLp(np.ones(3)), 2.0, domain.with_kind(kind))  # type: ignore[arg-type]
    metric = Mahalanobis.from_root(np.diag([1.0, 1.0, 1e30])[[0, 1, 2, 2]])  # weights times ranges overflow
    half = Similarity(metric, 2.0, possible("realizable", [0, 0, -8e307], [1, 1, 8.5e307], [(0, 2)]))
    x, y = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.9e-30])
    assert exactly_similar(metric, x, y, 2.0) and covered(half.regions(x[None]), 0, y)
    parts, alive = half.resized(1.99).kernel.parts(x[None], half.regions(x[None])[0])
    assert alive.all() and (parts.low <= 0).all()


def test_large_whole_numbers_that_must_be_equal_stay_so() -> None:
    """Beyond a billion the margin around whole numbers is wider than their steps, which is no reason to move."""
    numbers = np.array([1.7e9, 0.5])
    domain = Domain(
        "realizable", np.zeros(2), np.array([4e9, 1.0]), (), np.array([True, False]), np.zeros(2), np.ones(2),
        np.zeros(2, dtype=bool), ("seconds", "rate"),
    )  # fmt: skip
    for tolerance, immutable in ((0.0, False), (9.0, True), (2.0, False)):
        same = replace(domain, immutable=np.array([immutable, False]))
        (piece,) = Similarity(Counterparts([tolerance, 0.1]), 1.0, same).regions(numbers[None])
        most = 0.0 if immutable else tolerance
        assert piece.sets.low[0, 0] == pytest.approx(-most, abs=1e-6) and most <= piece.sets.high[0, 0] < most + 1e-6


def test_who_is_similar_is_made_ready_once_for_each_question() -> None:
    """Also for two metrics that share their arrays: each question knows its own metric."""
    domain = possible("realizable", [0, 0, 0], [1, 1, 1], [(0, 2)])
    metric = WeightedLp(np.ones(3))
    assert metric.form is copy(metric).form
    asked = [(metric, 0.5, domain, 8), (copy(metric), 0.5, domain, 8), (WeightedLp(np.ones(3)), 0.5, domain, 8)]
    asked += [(metric, 0.6, domain, 8), (metric, 0.5, domain.with_kind("relaxed"), 8), (metric, 0.5, domain, 9)]
    made = [cached_similarity(*each) for each in asked]
    assert len(set(map(id, made))) == len(made)
    for each, (mine, delta, space, branches) in zip(made, asked, strict=True):
        assert cached_similarity(mine, delta, space, branches) is each
        assert each.metric is mine and each.domain is space and (each.delta, each.max_branches) == (delta, branches)
