"""Global certificates against closed forms, dense grids and enumeration, and whenever they stop."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier

from isonomy import Counterparts, Mahalanobis, SensitiveSubspace, WeightedLp, certify_local
from isonomy.attacks import attack
from isonomy.certificates import certify_everywhere
from isonomy.errors import MetricError, NetworkError, ParameterError
from isonomy.networks.network import Network
from isonomy.parallel import set_workers, workers
from isonomy.population import Domain, Feature, Schema

from .judge import SCHEMA, WIDTH, is_similar, is_somebody, metrics, people, perceptron

ROUNDING = 1e-12
SLOW = pytest.mark.slow
PARTS = {"time_limit": None, "max_nodes": 20_000}
"""Enough for every search below, whatever else the machine does; one that needs more has become worse."""
seeds = st.integers(0, 2**32 - 1)
steady = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TEAM = Schema(
    "team",
    (
        Feature("age", "integer", low=18, high=24, origin=18.0, unit=3.0, relative_tolerance=0.11),
        Feature("hours", "integer", low=0, high=4, unit=2.0, fill=2, tolerance=1.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("job", "categorical", categories=("a", "b", "c")),
    ),
)


@cache
def moons() -> tuple[Network, np.ndarray]:
    """A network trained on two half circles, and its people."""
    x, y = make_moons(400, noise=0.15, random_state=0)
    model = MLPClassifier((16, 16), learning_rate_init=0.01, max_iter=300, random_state=0).fit(x, y)
    return Network.from_layers([w.T for w in model.coefs_], list(model.intercepts_), head="sigmoid"), x


def box_domain(low: list[float], high: list[float]) -> Domain:
    width = len(low)
    nothing, names = np.zeros(width, dtype=bool), tuple(f"x{i}" for i in range(width))
    ends = np.array(low), np.array(high)
    return Domain("relaxed", *ends, (), nothing, np.zeros(width), np.ones(width), nothing, names)


@pytest.mark.some(2)
@pytest.mark.parametrize("order", [1, 2, math.inf])
@pytest.mark.parametrize("head", ["regression", "sigmoid"])
def test_affine_models_meet_their_closed_form(order: float, head: str) -> None:
    w = np.array([1.0, -2.0, 0.5])
    network = Network.from_layers([w[None]], [[0.1]], head=head)
    domain, metric = box_domain([0, -1, 0], [2, 1, 0.1]), WeightedLp(np.ones(3), order)
    found = certify_everywhere(network, metric, 0.3, domain, **PARTS, gap=1e-6, progress=None)
    # The third coordinate is shorter than δ; in order 2 the best move leaves its range and is clipped.
    if order == 2:
        rest = math.sqrt(0.09 - min(0.1, 0.3 * 0.5 / np.linalg.norm(w)) ** 2)
        move = rest * math.hypot(1, 2) + 0.5 * min(0.1, 0.3 * 0.5 / np.linalg.norm(w))
    else:
        move = 0.3 * 2 if order == 1 else 0.3 + 0.6 + 0.05
    truth = move if head == "regression" else 2 / (1 + math.exp(-move / 2)) - 1
    assert -1e-9 <= found.upper - truth <= 1e-5
    assert -1e-9 <= truth - found.lower <= 1e-5
    assert found.decided == 1.0


@pytest.mark.parametrize("order", [pytest.param(1, marks=SLOW), 2, pytest.param(math.inf, marks=SLOW)])
def test_no_pair_of_a_dense_grid_is_worse(order: float) -> None:
    network, x = moons()
    low, high = x.min(0), x.max(0)
    metric, delta = WeightedLp(np.ones(2), order), 0.06
    found = certify_everywhere(
        network, metric, delta, box_domain(low.tolist(), high.tolist()), **PARTS, gap=0.03, progress=None
    )
    axes = [np.linspace(low[i], high[i], 160) for i in range(2)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    value = network(grid.reshape(-1, 2))[:, 1].reshape(160, 160)
    worst = 0.0
    for i, j in itertools.product(range(5), range(-5, 6)):
        step = np.array([i * (axes[0][1] - axes[0][0]), j * (axes[1][1] - axes[1][0])])
        if np.linalg.norm(step, order) <= delta:
            other = np.roll(value, (-i, -j), (0, 1))[: 160 - i]
            kept = slice(0, 160 - j) if j >= 0 else slice(-j, 160)
            worst = max(worst, float(np.abs(other - value[: 160 - i])[:, kept].max()))
    assert worst <= found.upper + ROUNDING
    assert found.lower >= worst - 0.03
    assert found.upper - found.lower <= 0.03 + ROUNDING
    check_witness(found, network, metric, delta)


def check_witness(found, network, metric, delta) -> None:  # type: ignore[no-untyped-def]
    x, y = found.witness.individual, found.witness.counterpart
    assert metric.distance(x, y)[0] <= delta
    assert found.problem.domain.contains(np.concatenate([x, y])).all()
    assert np.abs(network(x) - network(y)).max() == pytest.approx(found.lower, abs=1e-9)


def everybody(schema: Schema) -> np.ndarray:
    """Every person of the team, also those without hours."""
    domain = schema.domain("realizable")
    rows = []
    for age, hours, sex, job in itertools.product(range(18, 25), [*range(5), None], range(2), range(3)):
        x = np.zeros(schema.width)
        x[schema.slices["age"]] = (age - 18) / 3
        where = schema.slices["hours"]
        x[where.start] = (2 if hours is None else hours) / 2
        if hours is None:
            x[where.start + 1] = 1.0
        x[schema.slices["sex"].start + sex] = 1.0
        x[schema.slices["job"].start + job] = 1.0
        rows.append(x)
    found = np.array(rows)
    assert domain.contains(found).all()
    return found


def team_metrics(rng: np.random.Generator) -> dict[str, object]:
    weights = rng.uniform(0.3, 1.5, TEAM.width)
    weights[TEAM.slices["sex"]] = 0.0
    axes = np.eye(TEAM.width)[TEAM.slices["sex"]]
    return {
        "counterparts": Counterparts.of(TEAM),
        "l1": WeightedLp(weights, 1),
        "l2": WeightedLp(weights, 2),
        "linf": WeightedLp(weights, math.inf),
        "subspace": SensitiveSubspace(np.concatenate([axes, rng.normal(size=(1, TEAM.width))])),
        "mahalanobis": Mahalanobis.from_root(rng.normal(size=(TEAM.width, TEAM.width)) / 2),
    }


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "name",
    ["counterparts", "l2", *(pytest.param(name, marks=SLOW) for name in ("subspace", "l1", "linf", "mahalanobis"))],
)
def test_people_with_categories_and_whole_numbers_meet_enumeration(name: str) -> None:
    rng = np.random.default_rng(3)
    metric, delta = team_metrics(rng)[name], 1.0
    network = perceptron(rng, TEAM.width, 2)
    found = certify_everywhere(network, metric, delta, TEAM, **PARTS, gap=1e-4, progress=None)
    team = everybody(TEAM)
    p = network(team)[:, 1]
    distance = np.stack([metric.distance(np.broadcast_to(x, team.shape), team) for x in team])
    truth = float(np.abs(p[:, None] - p[None])[distance <= delta].max())
    assert found.upper >= truth - ROUNDING
    assert found.upper <= truth + 1e-4 + 1e-9
    assert truth - 1e-4 - 1e-9 <= found.lower <= truth + ROUNDING
    assert found.decided == 1.0
    check_witness(found, network, metric, delta)
    assert "sex" in found.witness[0] and "shows the pair" in str(found)


@steady
@given(seed=seeds, which=st.integers(0, 5), kind=st.sampled_from(["relaxed", "realizable"]), classes=st.integers(2, 3))
def test_it_holds_for_anybody_at_any_time(seed: int, which: int, kind: str, classes: int) -> None:
    rng = np.random.default_rng(seed)
    network, population = perceptron(rng, WIDTH, classes), people(12, seed % 1000, kind)
    metric = metrics(rng)[which]
    delta = float(rng.choice([0.3, 1.0]))
    nodes = int(rng.choice([0, 1, 40]))
    found = certify_everywhere(network, metric, delta, population, time_limit=None, max_nodes=nodes, progress=None)
    local = certify_local(network, population, metric, delta, progress=None)
    assert local.lower.max() <= found.upper + ROUNDING
    assert 0.0 <= found.lower <= found.upper <= 1.0
    assert 0.0 <= found.decided <= 1.0
    x, y = found.witness.individual[0], found.witness.counterpart[0]
    assert is_somebody(kind, x) and is_somebody(kind, y) and is_similar(metric, x, y, delta)


@pytest.mark.slow
def test_bounds_close_in_with_parts() -> None:
    """Longer searches go on where shorter ones stop; the last one stops at its gap."""
    network, _ = moons()
    domain, metric = box_domain([-1.5, -1.0], [2.5, 1.5]), WeightedLp(np.ones(2), 2)
    found = [
        certify_everywhere(network, metric, 0.05, domain, time_limit=None, max_nodes=nodes, gap=0.03, progress=None)
        for nodes in (0, 40, 20_000)
    ]
    uppers, lowers = [one.upper for one in found], [one.lower for one in found]
    assert uppers == sorted(uppers, reverse=True) and lowers == sorted(lowers)
    assert uppers[-1] - lowers[-1] <= 0.03 + ROUNDING < uppers[0] - lowers[0]
    assert found[0].decided < found[-1].decided == 1.0


@pytest.mark.some(1)
@pytest.mark.parametrize("nodes", [1, 10, *(pytest.param(more, marks=SLOW) for more in (0, 41, 300))])
def test_the_same_parts_give_the_same_bits(nodes: int) -> None:
    """Whatever the clock says and however many threads there are: the parts alone decide."""
    network, x = moons()
    domain, metric = box_domain(x.min(0).tolist(), x.max(0).tolist()), WeightedLp(np.ones(2), 2)

    def found(threads: int) -> tuple[object, ...]:
        set_workers(threads)
        try:
            one = certify_everywhere(network, metric, 0.05, domain, time_limit=None, max_nodes=nodes, progress=None)
            assert workers() == threads
        finally:
            set_workers(None)
        pair = one.witness.individual.tobytes(), one.witness.counterpart.tobytes()
        return one.upper, one.lower, one.decided, one.parts, *pair

    first = found(1)
    assert first == found(2) and nodes <= first[3] <= max(1, nodes + 1)


@pytest.mark.slow
def test_epsilon_ends_in_a_verdict() -> None:
    network, _ = moons()
    domain, metric = box_domain([-1.5, -1.0], [2.5, 1.5]), WeightedLp(np.ones(2), math.inf)
    truth = certify_everywhere(network, metric, 0.02, domain, **PARTS, gap=0.02, progress=None)
    assert truth.upper - truth.lower <= 0.02 + ROUNDING and truth.verdict == "none"
    above = certify_everywhere(
        network, metric, 0.02, domain, epsilon=truth.upper + 0.02, **PARTS, gap=0.0, progress=None
    )
    below = certify_everywhere(network, metric, 0.02, domain, epsilon=truth.lower - 0.02, **PARTS, progress=None)
    assert above.verdict == "certified" and above.decided == 1.0
    assert below.verdict == "violated" and below.decided < 1.0


def test_the_sentence_rounds_no_claim() -> None:
    """Of an ε with many digits a shorter one would be another claim, and nearly all of a domain is not all of it."""
    domain = Domain.unbounded(1)
    domain = replace(domain, kind="relaxed", low=np.zeros(1), high=np.ones(1))
    network = Network.from_layers([np.array([[0.1234564]])], [np.zeros(1)], head="regression")
    found = certify_everywhere(network, WeightedLp(np.ones(1)), 1.0, domain, epsilon=0.12345641, progress=None)
    assert found.verdict == "certified" and "certified at epsilon 0.12345641;" in str(found)
    assert "99.9 % of the domain" in str(replace(found, decided=0.9999))


def test_what_cannot_be_certified_is_refused() -> None:
    network = Network.from_layers([np.eye(2)], [np.zeros(2)])
    metric = WeightedLp([1.0, 1.0])
    with pytest.raises(ParameterError, match="'domain' must have a finite range for every coordinate, and 'x0' has"):
        certify_everywhere(network, metric, 0.1, Domain.unbounded(2))
    with pytest.raises(ParameterError, match="'domain' must have a finite range"):
        # An unbounded domain with ranges: people beyond them are people too.
        certify_everywhere(network, metric, 0.1, replace(box_domain([0, 0], [1, 1]), kind="unbounded"))
    with pytest.raises(ParameterError, match="'domain' must be a Domain"):
        certify_everywhere(network, metric, 0.1, "relaxed")  # type: ignore[arg-type]
    with pytest.raises(NetworkError, match="reads 2 numbers but individuals have 3"):
        certify_everywhere(network, metric, 0.1, box_domain([0, 0, 0], [1, 1, 1]))
    with pytest.raises(MetricError, match="The metric has 2 coordinates"):
        wide = Network.from_layers([np.eye(3)], [np.zeros(3)])
        certify_everywhere(wide, metric, 0.1, box_domain([0, 0, 0], [1, 1, 1]))
    with pytest.raises(ParameterError, match="'time_limit' must be"):
        certify_everywhere(network, metric, 0.1, box_domain([0, 0], [1, 1]), time_limit=-1)
    with pytest.raises(ParameterError, match="'arithmetic' must be"):
        certify_everywhere(network, metric, 0.1, box_domain([0, 0], [1, 1]), arithmetic="float16")  # type: ignore[arg-type]


def test_a_schema_hides_what_the_model_does_not_see() -> None:
    """The schema of the judge has people with fills and immutable features; a constant network treats all the same."""
    network = Network.from_layers([np.zeros((2, WIDTH))], [np.zeros(2)])
    found = certify_everywhere(network, Counterparts.of(SCHEMA), 1.0, SCHEMA, **PARTS, progress=None)
    assert found.upper <= 1e-9 and found.lower == 0.0


@pytest.mark.parametrize(("low", "high", "whole"), [([0.2, 0.0], [0.8, 1.0], True), ([1.0, 0.0], [0.0, 1.0], False)])
def test_nothing_is_certified_of_a_domain_of_nobody(low: list[float], high: list[float], whole: bool) -> None:
    """There is no whole number between 0.2 and 0.8, and no number at all between 1 and 0."""
    with pytest.raises(ValueError, match="'high' of 'x0'"):
        replace(box_domain(low, high), kind="realizable", integer=[whole, False])


def test_flags_of_the_relaxed_domain_are_tried_at_all_shares() -> None:
    """Somebody whose share is half of the flag sees nothing of a kink at four fifths."""
    domain = replace(box_domain([0.0, 0.0], [1.0, 1.0]), blocks=((1, 2),))
    network = Network.from_layers([[[0.0, 1.0]], [[5.0]]], [[-0.8], [0.0]], head="sigmoid")
    found = certify_everywhere(network, WeightedLp([1.0, 1.0]), 0.05, domain, time_limit=0, progress=None)
    assert found.lower > 0.01


def test_no_time_attacks_some_people_only(monkeypatch: pytest.MonkeyPatch) -> None:
    attacked: list[int] = []

    def counted(*given):  # type: ignore[no-untyped-def]
        attacked.append(len(given[3]))
        return attack(*given)

    monkeypatch.setattr("isonomy.certificates.network_tier.attack", counted)
    network = Network.from_layers([np.eye(2)], [np.zeros(2)])
    found = certify_everywhere(
        network, WeightedLp([1.0, 1.0]), 0.1, box_domain([0, 0], [1, 1]), time_limit=0, progress=None
    )
    assert attacked == [64] and 0 < found.lower <= found.upper


@pytest.mark.parametrize("seed", [0, 21, pytest.param(35, marks=SLOW), pytest.param(36, marks=SLOW)])
def test_several_blocks_of_three_categories_against_enumeration(seed: int) -> None:
    """The middle of a block's box is no share: 1/2 three times. A bound that took it for one was too small."""
    blocks, size = 4, 3
    width, rng = blocks * size, np.random.default_rng(seed)
    nothing = np.zeros(width, dtype=bool)
    where = tuple((size * i, size * i + size) for i in range(blocks))
    domain = Domain(
        "realizable", np.zeros(width), np.ones(width), where, nothing, np.zeros(width), np.ones(width), nothing,
        tuple(f"c{i}" for i in range(width)),
    )  # fmt: skip
    weights = [rng.normal(size=(6, width)), rng.normal(size=(1, 6))]
    network = Network.from_layers(weights, [rng.normal(size=6) - 3, rng.normal(size=1)], head="regression")
    everybody = np.eye(size)[np.array(list(itertools.product(range(size), repeat=blocks)))].reshape(-1, width)
    given_ = network(everybody)[:, 0].reshape((size,) * blocks)
    truth = max(float(np.ptp(given_, axis=axis).max()) for axis in range(blocks))  # one category differs
    for kind in ("realizable", "relaxed"):
        for nodes in (1, 50, 20_000):
            found = certify_everywhere(
                network, WeightedLp(np.ones(width), 1), 2.0, replace(domain, kind=kind), max_nodes=nodes,
                time_limit=None, progress=None,
            )  # fmt: skip
            assert truth <= found.upper
            if kind == "realizable" and nodes == 20_000:
                assert found.upper <= truth + 1e-3 * (1 + truth)


def test_shares_may_miss_one_by_the_domains_tolerance() -> None:
    """Weights of a billion, all the same: the sum of the shares is all that matters, and it may differ by 2e-9."""
    nothing, three = np.zeros(3, dtype=bool), np.ones(3)
    domain = Domain("relaxed", 0 * three, three, ((0, 3),), nothing, 0 * three, three, nothing, ("a", "b", "c"))
    network = Network.from_layers([1e9 * three[None]], [[0.0]], head="regression")
    less, more = np.array([[1 - 9.9e-10, 0.0, 0.0]]), np.array([[1 + 9.9e-10, 0.0, 0.0]])
    more[0, 0], more[0, 1] = 1.0, 9.9e-10
    assert domain.contains(less).all() and domain.contains(more).all()
    found = certify_everywhere(network, WeightedLp(three, 2), 10.0, domain, max_nodes=1, time_limit=None, progress=None)
    assert float(np.abs(network(more) - network(less)).max()) <= found.upper


@pytest.mark.parametrize(
    ("low", "high", "unit", "weight", "truth"),
    [
        (0.0, 1.0, 1.0, 1e200, 1e-3),  # the square of the weight overflows
        (-1e8, 1e8, 1e300, 1.0, 1.0),  # whole numbers whose range is beyond all numbers
        (1.7e308, 1.75e308, 1.0, 1.0, 0.0),  # twice the middle is
    ],
)
def test_numbers_whose_sums_and_squares_overflow_have_a_bound(
    low: float, high: float, unit: float, weight: float, truth: float
) -> None:
    domain = Domain(
        kind="realizable",
        low=np.array([0.0, low]),
        high=np.array([1.0, high]),
        blocks=(),
        integer=np.array([False, unit > 1]),
        origin=np.zeros(2),
        unit=np.array([1.0, unit]),
        immutable=np.zeros(2, dtype=bool),
        names=("one", "two"),
    )
    model = Network.from_layers([np.array([[1.0, 1.0 if unit > 1 else 0.0]])], [np.zeros(1)], "relu", "regression")
    delta = 1e-3 if weight > 1 else 1.0
    found = certify_everywhere(model, WeightedLp([1.0, weight], 1), delta, domain, max_nodes=8, time_limit=None)
    assert found.upper >= max(truth, found.lower)
