"""Bounds with a moving centre: nobody within the radius is treated more unequally than they say."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy.bounds.kernel import head_of, preparations
from isonomy.certificates.moving import Moving
from isonomy.certificates.people import in_memory, pose
from isonomy.networks.graph import Activation
from isonomy.networks.network import Network
from isonomy.population import Domain, Feature, Population, Schema
from isonomy.problem import Problem
from isonomy.similarity import Counterparts, Mahalanobis, Metric, SensitiveSubspace, WeightedLp
from isonomy.similarity.ground import Ground, ground_metric
from isonomy_verify.local import LocalBounds
from isonomy_verify.reach import Reach
from isonomy_verify.sets import Regions
from isonomy_verify.similar import CentreBox, Similarity

from .judge import SCHEMA, WIDTH, metrics, people
from .neighbours import mlp, neighbours, possible, slope, worst_pair

steady = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
ROUNDING = 1e-9
RADII = [[0.0, 0.02], [0.01, 0.1, 0.3], [0.4, 0.9, 1.1], [0.3, 1.0, 1.45], [1.2, 2.1]]


def moving(
    network: Network,
    x: object,
    metric: Metric,
    delta: float,
    ground: Ground,
    domain: Domain | str | None = None,
    max_branches: int = 1024,
) -> Moving:
    people = in_memory(x, None)
    problem = pose(network, people, metric, delta, {"domain": domain, "max_branches": max_branches})
    x, weights = (people.x, people.weights) if isinstance(people, Population) else (people, np.ones(len(people)))
    return Moving(problem, x, weights, ground_metric(ground, problem.domain.width))


def grounds(rng: np.random.Generator, width: int, metric: Metric) -> list[Ground]:
    weights = rng.uniform(0.3, 2, width)
    skew = np.eye(width) + rng.normal(size=(width, width)) / 3
    some: list[Ground] = [
        "l1",
        "l2",
        "linf",
        WeightedLp(weights, 1),
        WeightedLp(weights, math.inf),
        Mahalanobis.from_root(skew),
    ]
    return [*some, metric] if not isinstance(metric, Counterparts) else some


def nobody_exceeds(
    rng: np.random.Generator, what: Moving, radii: list[float], tight: bool, count: int = 12, others: int = 40
) -> float:
    """Look at people within every radius and at pairs of theirs; the largest share of a bound that was found."""
    problem = what.problem
    domain, free = problem.domain, what.reach.domain
    bound = what.bound(np.arange(len(what.x)), radii, tight=tight)
    assert not np.isnan(bound).any() and (bound >= 0).all()
    share = 0.0
    for i, x in enumerate(what.x):
        for k, radius in enumerate(radii):
            near = neighbours(rng, free, what.ground, radius, x, count, slope(problem.model, x))
            # The last proposals stand still: keep some from everywhere.
            near = near[rng.permutation(len(near))[:count]]
            value, z, y = worst_pair(rng, problem.model, domain, problem.metric, problem.delta, near, others)
            assert value <= bound[i, k] + ROUNDING, (i, radius, value, bound[i], z, y)
            share = max(share, value / max(bound[i, k], 1e-12))
    return share


@steady
@given(
    seed=seeds,
    kind=st.sampled_from(["realizable", "realizable", "relaxed"]),
    which=st.tuples(st.integers(0, 5), st.integers(0, 6)),
    delta=st.sampled_from([0.02, 0.3, 1.0]),
    radii=st.sampled_from(RADII),
    tight=st.booleans(),
    max_branches=st.sampled_from([1024, 1024, 8, 3, 1]),
)
def test_people_with_a_schema(
    seed: int, kind: str, which: tuple[int, int], delta: float, radii: list[float], tight: bool, max_branches: int
) -> None:
    """Relative tolerances, whole numbers, missing values, flips of every kind, immutable features."""
    rng = np.random.default_rng(seed)
    metric = metrics(rng)[which[0]]
    options = grounds(rng, WIDTH, metric)
    population = people(2, seed % 1000, kind)
    network = mlp(rng, WIDTH)
    what = moving(network, population, metric, delta, options[which[1] % len(options)], None, max_branches)
    nobody_exceeds(rng, what, radii, tight)


@steady
@given(
    seed=seeds,
    which=st.tuples(st.integers(0, 5), st.integers(0, 6)),
    delta=st.sampled_from([0.0, 0.02, 0.5]),
    radii=st.sampled_from(RADII),
    tight=st.booleans(),
)
def test_people_without_a_schema(
    seed: int, which: tuple[int, int], delta: float, radii: list[float], tight: bool
) -> None:
    """All of R^m, with and without immutable features."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(1, 5))
    weights = rng.uniform(0.3, 3, width)
    root = rng.normal(size=(width, width)) + 2 * np.eye(width)
    metric = [
        WeightedLp(weights, 1),
        WeightedLp(weights, 2),
        WeightedLp(weights, math.inf),
        Mahalanobis.from_root(root),
        SensitiveSubspace(rng.normal(size=(1, width)), ridge=0.5),
        Counterparts(0.3 * weights, free=np.zeros(width, dtype=bool)),
    ][which[0]]
    domain = replace(Domain.unbounded(width), immutable=rng.random(width) < 0.2)
    options = grounds(rng, width, metric)
    x = rng.normal(size=(2, width))
    nobody_exceeds(
        rng, moving(mlp(rng, width), x, metric, delta, options[which[1] % len(options)], domain), radii, tight
    )


@settings(steady, max_examples=10)
@given(seed=seeds, kind=st.sampled_from(["realizable", "relaxed"]), which=st.integers(0, 5), schema=st.booleans())
def test_anybody_at_all(seed: int, kind: str, which: int, schema: bool) -> None:
    """``everywhere`` holds for every pair; also in domains without categories, or with flags alone."""
    rng = np.random.default_rng(seed)
    if schema:
        population = people(30, seed % 1000, kind)
        domain, x, metric = population.domain, population.x, metrics(rng)[which]
    else:
        domain = small_domain(rng, kind)
        x, metric = (
            members(rng, domain, 30),
            WeightedLp(rng.choice([0.0, 0.5, 1.0, 2.0], domain.width), [1, 2, math.inf][which % 3]),
        )
    network = mlp(rng, domain.width)
    delta = float(rng.choice([0.05, 0.5, 1.0]))
    what = moving(network, x, metric, delta, "l2", domain)
    bound, reach = what.everywhere()
    value, z, y = worst_pair(rng, network, domain, metric, delta, x)
    assert reach == math.inf and value <= bound + ROUNDING, (z, y)


def small_domain(rng: np.random.Generator, kind: str = "realizable") -> Domain:
    """Numbers, whole numbers and flags, no one-hot block."""
    numbers, flags = int(rng.integers(1, 4)), int(rng.integers(0, 4))
    width = numbers + flags
    high = np.concatenate([rng.integers(1, 5, numbers), np.ones(flags)]).astype(float)
    integer = np.concatenate([rng.random(numbers) < 0.6, np.zeros(flags, dtype=bool)])
    return possible(kind, np.zeros(width), high, [(k, k + 1) for k in range(numbers, width)], integer)


def members(rng: np.random.Generator, domain: Domain, n: int) -> np.ndarray:
    x = rng.uniform(domain.low, domain.high, (n, domain.width))
    for start, stop in domain.blocks:
        if domain.kind == "realizable":
            x[:, start:stop] = (
                rng.integers(0, 2, (n, 1))
                if stop - start == 1
                else np.eye(stop - start)[rng.integers(stop - start, size=n)]
            )
        elif stop - start > 1:
            x[:, start:stop] = rng.dirichlet(np.ones(stop - start), n)
    return domain.snap(x)


@steady
@given(
    seed=seeds,
    radii=st.sampled_from(RADII),
    ground=st.sampled_from(["l1", "l2", "linf"]),
    tight=st.booleans(),
    max_branches=st.sampled_from([1024, 3, 1]),
)
def test_numbers_and_flags_alone(seed: int, radii: list[float], ground: str, tight: bool, max_branches: int) -> None:
    """Without one-hot blocks nothing marks a region as relaxed but what moves in it."""
    rng = np.random.default_rng(seed)
    domain = small_domain(rng)
    metric = WeightedLp(rng.choice([0.0, 0.5, 1.0], domain.width), [1, 2, math.inf][seed % 3])
    what = moving(mlp(rng, domain.width), members(rng, domain, 3), metric, 0.3, ground, domain, max_branches)
    nobody_exceeds(rng, what, radii, tight)


# -- what once went wrong ------------------------------------------------------------------------------------------


def line(*weight: float) -> Network:
    return Network.from_layers([[list(weight)]], [[0.0]], head="regression")


def test_whole_numbers_around_a_middle_that_is_none() -> None:
    """The middle of 0 … 3 is no whole number, so differences of whole numbers do not lead from it to whole numbers."""
    domain = possible("realizable", [0], [3], integer=[True])
    what = moving(line(1.0), [[1.0]], WeightedLp([1.0], 2), 1.0, "l2", domain)
    assert what.everywhere()[0] >= 1.0


def test_a_flag_around_half_raised() -> None:
    domain = possible("realizable", [0, 0], [1, 1], [(1, 2)])
    what = moving(line(0.0, 1.0), [[0.5, 1.0]], WeightedLp([1.0, 0.0], 2), 0.1, "l2", domain)
    assert what.everywhere()[0] >= 1.0


def test_more_flags_than_branches() -> None:
    """Regions that are relaxed for their number have flags in between too, at every radius that is read."""
    domain = possible("realizable", [0] * 4, [1] * 4, [(1, 2), (2, 3), (3, 4)])
    metric = WeightedLp([1.0, 0.0, 0.0, 0.0], 2)
    # Nothing happens before a second flag is up: relu(a + b + c − 1).
    network = Network.from_layers([[[0.0, 1.0, 1.0, 1.0]], [[1.0]]], [[-1.0], [0.0]], "relu", "regression")
    for cap in (1024, 2):
        what = moving(network, [[0.5, 0.0, 0.0, 0.0]], metric, 0.1, "l2", domain, cap)
        assert (what.bound(np.arange(1), [0.1, 1.1, 2.0]) >= 2.0).all()
    # Only whoever has the first flag up is treated unequally: relu(10u + 10a − 10), at z = (0, 1, 0, 0), at cost 1.
    frozen = possible("realizable", domain.low, [0.2, 1, 1, 1], domain.blocks, immutable=[False, True, True, True])
    steep = Network.from_layers([[[10.0, 10.0, 0.0, 0.0]], [[1.0]]], [[-10.0], [0.0]], "relu", "regression")
    for cap in (1024, 2):
        what = moving(steep, [[0.0, 0.0, 0.0, 0.0]], metric, 0.1, "l2", frozen, cap)
        assert what.bound(np.arange(1), [0.1, 1.1, 2.0])[0, 1] >= 1.0 - 1e-9


def test_categories_that_are_relaxed_beside_categories_that_changed() -> None:
    """A shift that numbers make up for, read at a smaller radius than the pass: seen from the changed centre."""
    domain = possible("realizable", [-3, 0, 0, 0, 0, 0], [3, 1, 1, 1, 1, 1], [(1, 3), (3, 6)])
    ground = Mahalanobis.from_root([[1.0, -1.0, 1.0, 0.0, 0.0, 0.0]])  # the third block is free
    metric = WeightedLp([1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 2)
    row = [0.4, 0.0, 1.0, 0.0, 0.0, 0.0]
    network = Network.from_layers([[row, row], [[1.0, -1.0]]], [[0.4, -0.6], [0.0]], "relu", "regression")
    x, z, y = (np.array([row], dtype=float) for row in ([1, 1, 0, 1, 0, 0], [-1, 0, 1, 1, 0, 0], [-1, 1, 0, 1, 0, 0]))
    assert ground.distance_upper(x, z) <= 0.05 and metric.distance_upper(z, y) == 0
    truth = abs((network(z) - network(y)).item())
    for cap in (1024, 2):
        assert moving(network, x, metric, 0.01, ground, domain, cap).bound(np.arange(1), [0.05, 0.06])[0, 0] >= truth


def test_a_larger_batch_of_people_is_the_same_as_one_by_one() -> None:
    population = people(40, 3)
    metric = metrics(np.random.default_rng(0))[0]
    what = moving(mlp(np.random.default_rng(1), WIDTH), population, metric, 1.0, "l2")
    together = what.bound(np.arange(40), [0.1, 0.5])
    for i in (0, 17, 39):
        alone = what.bound(np.array([i]), [0.1, 0.5])
        assert alone == pytest.approx(together[i : i + 1], rel=1e-6, abs=1e-9)
    assert SCHEMA.width == what.problem.domain.width


@pytest.mark.parametrize("kind", ["relu", "tanh", "softplus", "gelu"])
def test_a_tight_pass_is_never_looser_than_a_forward_one(kind: str) -> None:
    """Where many neurons are open the other person was known by the first one and the difference alone."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        m, hidden, depth = (int(rng.integers(*between)) for between in ((3, 8), (4, 30), (1, 4)))
        sizes = [m, *[hidden] * depth, 2]
        weights = [rng.normal(size=(b, a)) * 1.5 / a**0.5 for a, b in itertools.pairwise(sizes)]
        biases = [rng.normal(size=len(weight)) * 0.3 for weight in weights]
        network = Network.from_layers(weights, biases, Activation(kind, (1.0,) if kind == "softplus" else ()))
        x, metric = rng.normal(size=(5, m)), Mahalanobis.from_root(rng.normal(size=(m, m)) + 2 * np.eye(m))
        problem = Problem.of(network, metric, 0.2)
        ground = ground_metric("l2", m).form
        reach = Reach(preparations(network), head_of(network), problem.similarity.kernel, ground)
        for radius in (0.05, 0.3, 1.0):
            assert (reach.bound(x, [radius]) <= reach.bound(x, [radius], tight=False) * (1 + 1e-9)).all()


def test_whole_numbers_a_step_apart_far_from_the_centre() -> None:
    """A third is 0.375 where coordinates have four bits behind the point."""
    one, no = np.ones(1), np.zeros(1, dtype=bool)
    domain = Domain("realizable", 0 * one, 3.4e14 * one, (), ~no, 0 * one, 3 * one, no, ("count",))
    z, y = next(
        (np.array([[k / 3]]), np.array([[(k + 1) / 3]])) for k in 1e15 - np.arange(9.0) if (k + 1) / 3 - k / 3 > 1 / 3
    )
    metric = Counterparts([0.4])
    assert domain.contains([z[0], y[0]]).all() and metric.distance_upper(z, y) <= 1
    reach = moving(line(8.0), np.zeros((1, 1)), metric, 1.0, "l1", domain)
    assert reach.bound(np.arange(1), [3.4e14])[0, 0] >= 8 * (y - z).item() == 3.0


def test_an_unbounded_domain_holds_whoever_is_beyond_its_ranges() -> None:
    """Tolerances that grow with a number go on growing where ranges, which mean nothing there, end."""
    domain = replace(Domain.unbounded(1), low=np.zeros(1), high=np.ones(1))
    z, y, metric = np.array([[10.5]]), np.array([[11.5]]), Counterparts([0.0], relative=[0.1])
    assert domain.contains(z).all() and metric.distance_upper(z, y) <= 1
    for ground in ("l1", "l2", "linf"):
        reach = moving(line(1.0), np.array([[0.5]]), metric, 1.0, ground, domain)
        assert 1.0 <= reach.bound(np.arange(1), [10.0])[0, 0] < 1.06


@steady
@given(seed=seeds, whole=st.booleans(), ground=st.sampled_from(["l1", "l2", "linf"]))
def test_centres_that_move_from_nothing_to_something(seed: int, whole: bool, ground: Ground) -> None:
    """0 is like 0 alone, but a centre that can leave 0 has a ratio around it: the bound holds every pair of a grid."""
    rng = np.random.default_rng(seed)
    feature = Feature("income", "integer" if whole else "numeric", low=0, high=40, unit=10.0, relative_tolerance=0.3)
    own, slope = Schema("one", (feature,)), rng.normal()
    network = Network.from_layers(
        [rng.normal(size=(4, 1)), rng.normal(size=(1, 4))], [rng.normal(size=4), [slope]], head="regression"
    )
    values = np.arange(41.0) if whole else np.append(np.linspace(0, 40, 401), [1e-9, 1e-3])
    grid = feature.coordinate(values)[:, None]
    answer = network(grid)[:, 0]
    metric, centres = Counterparts.of(own), grid[rng.permutation(len(grid))[:3]] * [[0], [0], [1]]
    like = metric.distance_upper(np.repeat(grid, len(grid), 0), np.tile(grid, (len(grid), 1))).reshape(len(grid), -1)
    change = np.where(like <= 1, np.abs(answer[:, None] - answer), 0.0).max(axis=1)
    reach = moving(network, centres, metric, 1.0, ground, own.domain())
    for radius in (0.0, 0.05, 0.5, 4.0):
        bound = reach.bound(np.arange(3), [radius])[:, 0]
        near = np.abs(centres - grid.T) <= radius
        assert (bound >= np.where(near, change, 0.0).max(axis=1) * (1 - 1e-12)).all()
    assert (reach.bound(np.arange(3), [0.0])[:2, 0] <= 1e-6).all()


def test_people_further_apart_than_any_number() -> None:
    """Nothing is known of anybody at all, and no error says that a delta is infinite."""
    x = np.array([[1e308], [1.2e308], [-1e308]])
    reach = moving(line(1.0), x, WeightedLp([1.0]), 0.1, "l2")
    assert reach.everywhere()[0] == math.inf
    assert reach.bound(np.arange(3), [0.5])[:, 0] == pytest.approx([0.1] * 3)


def test_nothing_is_known_of_whoever_has_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody is similar to themselves: no region is no proof that nobody is treated differently."""
    domain = possible("realizable", [-3, 0, 0], [3, 1, 1], [(1, 3)])
    x, network = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]), line(1.0, 2.0, 3.0)
    problem = Problem.of(network, WeightedLp(np.ones(3)), 0.5, domain)
    ground = ground_metric("l2", 3).form
    whole = Similarity.regions

    def lost(self: Similarity, x: np.ndarray, centre_box: CentreBox | None = None) -> list[Regions]:
        return [piece[piece.owner != 1] for piece in whole(self, x, centre_box)]

    reach = Reach(preparations(network), head_of(network), problem.similarity.kernel, ground)
    local = LocalBounds(preparations(network), head_of(network), problem.similarity.kernel)
    assert np.isfinite(reach.bound(x, [0.1, 0.2])).all() and np.isfinite(local.chunk(x).upper).all()
    monkeypatch.setattr(Similarity, "regions", lost)
    assert np.isinf(reach.bound(x, [0.1, 0.2])).tolist() == [[False, False], [True, True]]
    known = local.chunk(x)
    assert np.isinf(known.upper).tolist() == [False, True] and not known.kept[1]
    monkeypatch.setattr(
        Similarity, "regions", lambda self, x, centre_box=None: whole(self, x, centre_box) if centre_box is None else []
    )
    assert np.isinf(reach.bound(x, [0.1])).all()
