"""Differences between somebody who wanders and somebody similar, and regions read at a smaller radius."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy.population import Domain, Feature, Schema
from isonomy.similarity import Counterparts, Mahalanobis, Metric, SensitiveSubspace, WeightedLp
from isonomy.similarity.regions import Regions, Similarity

steady = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
SLACK = 1e-11
SCHEMA = Schema(
    "wanderers",
    (
        Feature("income", low=1.0, high=9.0, origin=1.0, unit=4.0, relative_tolerance=0.5),
        Feature("rate", low=0.0, high=1.0, tolerance=0.2),
        Feature("age", "integer", low=0, high=6, origin=0.5, unit=3.0, fill=2, tolerance=2.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("job", "categorical", categories=("a", "b", "c"), proxy=True),
        Feature("born", "categorical", categories=("here", "there"), immutable=True),
    ),
)
WIDTH = SCHEMA.width
NUMBERS = SCHEMA.domain("realizable").numeric


def metric_of(rng: np.random.Generator, kind: str) -> Metric:
    weights = rng.choice([0.0, 0.3, 1.0, 2.0], WIDTH)
    if kind == "counterparts":
        return Counterparts.of(SCHEMA)
    if kind == "mahalanobis":
        return Mahalanobis.from_root(rng.normal(size=(int(rng.integers(1, WIDTH + 1)), WIDTH)) / 2)
    if kind == "proxy":  # the job is free, and numbers make up for the other categories
        root = rng.normal(size=(int(rng.integers(1, 4)), WIDTH))
        root[:, SCHEMA.slices["job"]] = 0.0
        return Mahalanobis.from_root(root)
    if kind == "sensitive":
        return SensitiveSubspace(rng.normal(size=(2, WIDTH)), ridge=float(rng.choice([0.0, 1.0])))
    return WeightedLp(weights, {"l1": 1, "l2": 2, "linf": math.inf}[kind])


KINDS = ("counterparts", "proxy", "mahalanobis", "sensitive", "l1", "l2", "linf")


def members(rng: np.random.Generator, domain: Domain, n: int) -> np.ndarray:
    """Possible people; in the relaxed domain most of them between categories."""
    if domain.kind == "unbounded":
        return rng.normal(size=(n, WIDTH))
    x = rng.uniform(domain.low, domain.high, (n, WIDTH))
    edge = rng.random(x.shape) < 0.2
    x = np.where(edge, np.where(rng.random(x.shape) < 0.5, domain.low, domain.high), x)
    for start, stop in domain.blocks:
        size = stop - start
        whole = rng.integers(0, 2, (n, 1)) if size == 1 else np.eye(size)[rng.integers(size, size=n)]
        shares = rng.random((n, 1)) if size == 1 else rng.dirichlet(np.ones(size), n)
        x[:, start:stop] = whole if domain.kind == "realizable" else shares
    return filled(domain, domain.snap(x))


def filled(domain: Domain, x: np.ndarray) -> np.ndarray:
    for flag, value, fill in domain.fills if domain.kind == "realizable" else ():
        x[x[:, flag] == 1.0, value] = fill
    return x


def similar(
    rng: np.random.Generator, domain: Domain, metric: Metric, radius: float, x: np.ndarray, n: int, frozen: bool = True
) -> np.ndarray:
    """People allowed beside ``x`` and within the radius: strangers, drawn in until they are."""
    strangers = members(rng, domain, n)
    few = rng.random((n, 1)) < 0.5
    kept = (rng.random((n, WIDTH)) < 0.7) & few
    strangers = np.where(kept, x, strangers)
    for start, stop in domain.blocks:  # a category is kept as a whole
        strangers[:, start:stop] = np.where(kept[:, start : start + 1], x[start:stop], strangers[:, start:stop])
    root, _ = metric.gauge()
    inverse = np.linalg.pinv(root[:, NUMBERS]) if len(root) else np.zeros((int(NUMBERS.sum()), 0))
    found = [x[None]]
    for share in (1.0, 0.5, 0.2, 0.05, 0.01, 0.0):
        y = strangers.copy()
        y[:, NUMBERS] = x[NUMBERS] + share * (strangers - x)[:, NUMBERS]
        if domain.kind != "realizable":
            y[:, ~NUMBERS] = x[~NUMBERS] + share * (strangers - x)[:, ~NUMBERS]
        elif rng.random() < 0.7:  # numbers make up for categories
            flip = np.where(NUMBERS, 0.0, y - x)
            y[:, NUMBERS] -= (flip @ root.T) @ inverse.T
        y = filled(domain, domain.snap(np.clip(y, domain.low, domain.high)))
        if frozen:
            y[:, domain.immutable] = x[domain.immutable]
        found.append(y)
    y = np.concatenate(found)
    allowed = domain.allows(np.tile(x, (len(y), 1)), y) if frozen else domain.contains(y)
    return y[allowed & (metric.distance_upper(x, y) <= radius)]


def inside(regions: Regions, k: int, v: np.ndarray) -> np.ndarray:
    """Which moves (n, m) from the centre lie in region ``k``, by the definition of a set."""
    sets = regions.sets
    at = [part[k if len(part) > 1 else 0] for part in (sets.radius, sets.offset, sets.low, sets.high)]
    radius, offset, low, high = at
    good = ((v >= low - SLACK) & (v <= high + SLACK)).all(axis=1)
    if len(sets.root):
        size = np.linalg.norm(offset + v @ sets.root.T, sets.order, axis=1)
        good &= size <= radius * (1 + 1e-9) + SLACK
    for start, stop in sets.blocks:
        base = sets.base[k if len(sets.base) > 1 else 0]
        place = base[start:stop] + v[:, start:stop]
        good &= (place >= -1e-8).all(axis=1) & (np.abs(place.sum(axis=1) - 1) <= 1e-8)
    return good


def singular_there(metric: Metric, domain: Domain) -> bool:
    return (
        domain.kind == "unbounded"
        and (metric.free.any() or np.linalg.matrix_rank(metric.gauge()[0]) < WIDTH)
        and not metric.boxed
    )


@steady
@given(
    seed=seeds,
    kind=st.sampled_from(KINDS),
    space=st.sampled_from(["realizable", "realizable", "relaxed", "unbounded"]),
    delta=st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.5]),
    cap=st.sampled_from([1024, 1024, 4, 1]),
)
def test_every_difference_lies_in_a_region(seed: int, kind: str, space: str, delta: float, cap: int) -> None:
    """``y − z``, added to ``x``, for ``z`` with the categories of ``x`` inside the box in which it wanders."""
    rng = np.random.default_rng(seed)
    domain, metric = SCHEMA.domain(space), metric_of(rng, kind)
    if singular_there(metric, domain):
        return
    x = members(rng, domain, 2)
    span = rng.uniform(0, 1.5, (2, 2, WIDTH)) * rng.choice([0.0, 1.0], (2, 2, WIDTH))
    low, high = -span[0], span[1]
    if space == "realizable":
        low[:, ~NUMBERS] = high[:, ~NUMBERS] = 0.0
    regions = Similarity(metric, delta, domain, cap).regions(x, (low, high))
    for i in range(2):
        z = x[i] + rng.uniform(low[i], high[i], (60, WIDTH))
        z[:20] = x[i] + rng.choice([0.0, 1.0], (20, WIDTH)) * np.where(rng.random(WIDTH) < 0.5, low[i], high[i])
        if space != "unbounded":
            z = filled(domain, domain.snap(np.clip(z, domain.low, domain.high)))
            z[:, ~NUMBERS] = np.where(space == "realizable", x[i, ~NUMBERS], z[:, ~NUMBERS])
            for start, stop in domain.blocks:
                if space == "relaxed" and stop - start > 1:
                    z[:, start:stop] = x[i, start:stop]
        z = np.concatenate([x[i][None], z])
        z = z[domain.contains(z) & ((z >= x[i] + low[i]) & (z <= x[i] + high[i])).all(axis=1)]
        for person in z[:12]:
            y = similar(rng, domain, metric, delta, person, 10)
            held = np.zeros(len(y), dtype=bool)
            for some in regions:
                for k in np.flatnonzero(some.owner == i):
                    held |= inside(some, k, (x[i] - some.centre[k]) + (y - person))
            assert held.all(), (i, person, y[~held][0])


@steady
@given(
    seed=seeds,
    kind=st.sampled_from(KINDS),
    space=st.sampled_from(["realizable", "realizable", "relaxed"]),
    radii=st.sampled_from([(0.1, 0.5), (0.5, 1.0), (1.0, 1.5), (1.2, 3.0), (0.0, 2.0)]),
    cap=st.sampled_from([1024, 8, 4, 2, 1]),
)
def test_parts_hold_whoever_a_smaller_radius_leaves(
    seed: int, kind: str, space: str, radii: tuple[float, float], cap: int
) -> None:
    """Whoever is within the smaller radius is in the part of every region that holds them."""
    rng = np.random.default_rng(seed)
    metric, domain = metric_of(rng, kind), SCHEMA.domain(space)
    x = members(rng, domain, 2)
    larger = Similarity(metric, radii[1], domain, cap)
    smaller = larger.resized(radii[0])
    for some in larger.regions(x):
        sets, alive = smaller.kernel.parts(x, some)
        parts = Regions(some.owner, some.centre, sets)
        for k, i in enumerate(some.owner[:40]):
            z = similar(rng, domain, metric, radii[0], x[i], 20)
            v = z - some.centre[k]
            there = inside(some, k, v)
            assert alive[k] or not there.any()
            assert not alive[k] or inside(parts, k, v[there]).all(), (x[i], z[there])


def test_parts_of_flags_that_are_too_many_to_list() -> None:
    """No one-hot block marks these regions as relaxed."""
    flags = Schema("flags", tuple(Feature(name, low=0.0, high=3.0, fill=1.0) for name in ("one", "two", "three")))
    domain, metric = flags.domain("realizable"), WeightedLp(np.full(flags.width, 0.5), 2)
    x = np.zeros((1, flags.width))
    larger = Similarity(metric, 2.5, domain, 2)
    (some,) = larger.regions(x)
    sets, alive = larger.resized(2.0).kernel.parts(x, some)
    (z,) = x.copy()[:, None]
    for flag, value, fill in domain.fills:
        z[0, flag], z[0, value] = 1.0, fill
    assert domain.contains(z).all() and metric.distance_upper(x, z) <= 2.0
    assert inside(some, 0, z - x).all()
    assert alive.all() and inside(Regions(some.owner, some.centre, sets), 0, z - x).all()


def test_resized_is_as_if_made_so() -> None:
    rng = np.random.default_rng(4)
    domain = SCHEMA.domain("realizable")
    x = members(rng, domain, 5)
    for kind in KINDS:
        metric = metric_of(rng, kind)
        again, fresh = (
            Similarity(metric, 3.0, domain).resized(0.7).regions(x),
            Similarity(metric, 0.7, domain).regions(x),
        )
        for one, other in zip(again, fresh, strict=True):
            assert (one.owner == other.owner).all() and bool((one.centre == other.centre).all())
            for part in ("radius", "offset", "low", "high"):
                assert getattr(one.sets, part) == pytest.approx(getattr(other.sets, part))


def test_a_step_of_whole_numbers_far_from_the_centre() -> None:
    """Three hundred trillion away coordinates have four bits behind the point: a third is 0.3125 or 0.375."""
    one, no = np.ones(1), np.zeros(1, dtype=bool)
    domain = Domain("realizable", 0 * one, 3.4e14 * one, (), ~no, 0 * one, 3 * one, no, ("count",))
    steps = (1e15 - np.arange(9.0)) / 3
    assert domain.contains(steps[:, None]).all() and (np.diff(steps) == -0.375).any()
    for metric in (Counterparts([0.4]), WeightedLp([2.5], 1), WeightedLp([6.25])):
        (pieces,) = Similarity(metric, 1.0, domain).regions(np.zeros((1, 1)), (0 * one[None], domain.high[None]))
        pairs = [(z, y) for z in steps for y in steps if metric.distance_upper([z], [y]) <= 1]
        assert len(pairs) > len(steps)
        for z, y in pairs:
            assert pieces.sets.low[0, 0] <= y - z <= pieces.sets.high[0, 0]
        # Near the origin a step is as good as exact, and nothing else is in between.
        narrow = replace(domain, high=3 * one)
        (pieces,) = Similarity(metric, 1.0, narrow).regions(np.zeros((1, 1)), (0 * one[None], narrow.high[None]))
        assert pieces.sets.high[0, 0] == pytest.approx(1 / 3, abs=1e-14) and pieces.sets.high[0, 0] > 1 / 3
