"""The exact tier beside the other tiers: the order of all bounds, in every domain, and whenever it stops."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy import AttackBudget, Mahalanobis, WeightedLp, certify_local
from isonomy.bounds.kernel import head_of
from isonomy.errors import ParameterError
from isonomy.networks.network import Network
from isonomy.parallel import set_workers, workers
from isonomy.population import Domain
from isonomy_verify.heads import Head
from isonomy_verify.tiers import Enclosure

from .judge import WIDTH, is_similar, is_somebody, metrics, people, perceptron

steady = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)
QUICK = AttackBudget(steps=4, restarts=0, branches=2)
ROUNDING = 1e-12


def random_network(rng: np.random.Generator, width: int, outputs: int, activation: str, head: str) -> Network:
    sizes = [width, *rng.integers(2, 9, rng.integers(1, 3)), outputs]
    pairs = list(zip(sizes[1:], sizes[:-1], strict=True))
    weights = [rng.normal(size=pair) * 1.5 / pair[1] ** 0.5 for pair in pairs]
    return Network.from_layers(weights, [0.4 * rng.normal(size=pair[0]) for pair in pairs], activation, head)


@steady
@given(
    seed=seeds,
    activation=st.sampled_from(["relu", "relu", "tanh", "silu"]),
    head=st.sampled_from([("softmax", 2), ("softmax", 3), ("sigmoid", 2), ("regression", 1)]),
    kind=st.sampled_from(["l1", "l2", "linf", "mahalanobis"]),
    nodes=st.sampled_from([0, 1, 7, 100, 1000]),
)
def test_bounds_come_in_order_and_hold_for_anybody(
    seed: int, activation: str, head: tuple[str, int], kind: str, nodes: int
) -> None:
    rng = np.random.default_rng(seed)
    width, delta = int(rng.integers(1, 5)), float(rng.choice([0.1, 1.0]))
    network = random_network(rng, width, head[1], activation, head[0])
    metric = (
        Mahalanobis.from_root(rng.normal(size=(width, width)) + np.eye(width))
        if kind == "mahalanobis"
        else WeightedLp(rng.uniform(0.3, 2, width), {"l1": 1, "l2": 2, "linf": math.inf}[kind])
    )
    low, high = np.full(width, -1.5), np.full(width, 1.5)
    nothing = np.zeros(width, dtype=bool)
    names = tuple(f"x{i}" for i in range(width))
    relaxed = Domain("relaxed", low, high, (), nothing, np.zeros(width), np.ones(width), nothing, names)
    domain = relaxed if rng.random() < 0.5 else Domain.unbounded(width)
    x = rng.uniform(-1.5, 1.5, size=(3, width))
    options = {"domain": domain, "attack": QUICK, "progress": None}
    tight = certify_local(network, x, metric, delta, **options)
    exact = certify_local(network, x, metric, delta, tier="exact", time_limit=None, max_nodes=nodes, **options)
    assert (tight.lower <= exact.lower).all()
    assert (exact.lower <= exact.upper + ROUNDING).all()
    assert (exact.upper <= tight.upper).all()
    y = x[:, None] + rng.uniform(-1, 1, size=(3, 3000, width)) * (3 if kind == "mahalanobis" else 2) * delta
    y = np.clip(y, -1.5, 1.5) if domain is relaxed else y
    for row in range(3):
        near = y[row][metric.distance(np.broadcast_to(x[row], y[row].shape), y[row]) <= delta]
        if len(near):
            change = np.abs(network(near) - network(x[row : row + 1])).max()
            assert change <= exact.upper[row] + ROUNDING


@pytest.mark.slow
@settings(steady, max_examples=6)
@given(seed=seeds, which=st.integers(0, 5), domain=st.sampled_from(["relaxed", "realizable"]))
def test_mixed_people_in_every_domain(seed: int, which: int, domain: str) -> None:
    rng = np.random.default_rng(seed)
    network, population = perceptron(rng, WIDTH, 2), people(3, seed % 1000, domain)
    metric = metrics(rng)[which]
    delta = float(rng.choice([0.3, 1.0]))
    tight = certify_local(network, population, metric, delta, attack=QUICK, progress=None)
    limits = {"tier": "exact", "time_limit": None, "max_nodes": 500}
    exact = certify_local(network, population, metric, delta, **limits, attack=QUICK, progress=None)
    assert (tight.lower <= exact.lower).all()
    assert (exact.lower <= exact.upper + ROUNDING).all()
    assert (exact.upper <= tight.upper).all()
    for row in range(3):
        pair = population.x[row], exact.witnesses.counterpart[row]
        assert is_similar(metric, *pair, delta)
        assert is_somebody(domain, pair[1])


def test_whole_numbers_and_flips_meet_enumeration() -> None:
    """Two whole numbers and a flag: the exact tier proves the best of all people there are."""
    domain = Domain(
        "realizable",
        low=np.array([0.0, 0.0, 0.0]),
        high=np.array([2.0, 2.0, 1.0]),
        blocks=((2, 3),),
        integer=np.array([True, True, False]),
        origin=np.zeros(3),
        unit=np.array([5.0, 5.0, 1.0]),
        immutable=np.zeros(3, dtype=bool),
        names=("a", "b", "flag"),
    )
    rng = np.random.default_rng(4)
    network = random_network(rng, 3, 2, "relu", "softmax")
    everybody = np.array([[a / 5, b / 5, f] for a, b, f in itertools.product(range(11), range(11), (0.0, 1.0))])
    x = everybody[[3, 57, 160, 241]]
    for metric in (
        WeightedLp([1.0, 2.0, 0.0], 2),
        WeightedLp([1.0, 1.0, 0.1], 1),
        WeightedLp([1.0, 1.0, 0.0], math.inf),
    ):
        found = certify_local(
            network, x, metric, 0.61, domain=domain, tier="exact", time_limit=None, attack=QUICK, progress=None
        )
        for row in range(len(x)):
            here = np.broadcast_to(x[row], everybody.shape)
            near = everybody[metric.distance(here, everybody) <= 0.61]
            truth = np.abs(network(near) - network(x[row : row + 1])).max()
            assert found.upper[row] == pytest.approx(truth, abs=2e-6)
            assert found.lower[row] == pytest.approx(truth, abs=2e-6)


@pytest.mark.parametrize("activation", ["tanh", "leaky_relu"])
def test_other_activations_are_cut_until_bounds_meet(activation: str) -> None:
    from isonomy.networks.graph import Activation

    rng = np.random.default_rng(1)
    kind = Activation(activation, (0.1,) if activation == "leaky_relu" else ())
    weights = [rng.normal(size=(5, 2)), rng.normal(size=(5, 5)), rng.normal(size=(2, 5))]
    network = Network.from_layers(weights, [rng.normal(size=len(w)) for w in weights], kind)
    x = rng.normal(size=(2, 2))
    found = certify_local(
        network, x, WeightedLp([1.0, 1.0], math.inf), 0.5, tier="exact", time_limit=None, gap=1e-3, progress=None
    )
    assert (found.upper - found.lower <= 1e-3 + ROUNDING).all()


def test_three_classes_meet() -> None:
    rng = np.random.default_rng(2)
    weights = [rng.normal(size=(8, 2)), rng.normal(size=(3, 8))]
    network = Network.from_layers(weights, [rng.normal(size=len(w)) for w in weights])
    x = rng.normal(size=(2, 2))
    found = certify_local(
        network, x, WeightedLp([1.0, 1.0], math.inf), 0.4, tier="exact", time_limit=None, gap=1e-4, progress=None
    )
    assert (found.upper - found.lower <= 1e-4 + ROUNDING).all()
    steps = np.linspace(-0.4, 0.4, 81)
    around = np.array(list(itertools.product(steps, steps)))
    for row in range(2):
        change = np.abs(network(x[row] + around) - network(x[row : row + 1])).max()
        assert change <= found.upper[row] + ROUNDING
        assert found.lower[row] >= change - 1e-4


def test_it_stops_at_a_verdict() -> None:
    rng = np.random.default_rng(3)
    network = random_network(rng, 3, 2, "relu", "softmax")
    x, metric = rng.normal(size=(6, 3)), WeightedLp(np.ones(3), math.inf)
    exact = certify_local(network, x, metric, 0.3, tier="exact", time_limit=None, progress=None)
    assert (exact.upper - exact.lower <= 1e-6 + ROUNDING).all()
    epsilon = float(np.median(exact.upper)) + 1e-4
    found = certify_local(network, x, metric, 0.3, tier="exact", time_limit=None, epsilon=epsilon, progress=None)
    assert (found.verdict(epsilon) != "undecided").all()
    assert (found.verdict(epsilon) == exact.verdict(epsilon)).all()


def test_float32_runs_are_covered() -> None:
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(12, 3)).astype(np.float32), rng.normal(size=(2, 12)).astype(np.float32)]
    biases = [rng.normal(size=len(w)).astype(np.float32) for w in weights]
    network = Network.from_layers(weights, biases)
    x = rng.normal(size=(2, 3)).astype(np.float32).astype(np.float64)
    options = {"tier": "exact", "time_limit": None, "progress": None}
    plain = certify_local(network, x, WeightedLp(np.ones(3), math.inf), 0.3, **options)
    found = certify_local(network, x, WeightedLp(np.ones(3), math.inf), 0.3, arithmetic="float32", **options)
    assert (found.upper >= plain.lower).all() and (found.upper <= plain.upper + 1e-4).all()

    def run(rows: np.ndarray) -> np.ndarray:
        hidden = torch.tensor(rows, dtype=torch.float32)
        for step, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            hidden = (torch.relu(hidden) if step else hidden) @ torch.from_numpy(weight).T + torch.from_numpy(bias)
        return torch.softmax(hidden, 1).numpy().astype(np.float64)

    for row in range(2):
        y = np.clip(found.witnesses.counterpart[row] + rng.normal(size=(500, 3)) * 1e-3, x[row] - 0.3, x[row] + 0.3)
        y = y.astype(np.float32).astype(np.float64)
        y = y[(np.abs(y - x[row]) <= 0.3).all(1)]
        assert np.abs(run(y) - run(x[row : row + 1])).max() <= found.upper[row]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_limit", -1),
        ("time_limit", math.nan),
        ("gap", -0.1),
        ("gap", "x"),
        ("epsilon", math.inf),
        ("max_nodes", -1),
        ("max_nodes", 2.0),
        ("max_nodes", True),
        ("max_nodes", "many"),
    ],
)
def test_limits_that_make_no_sense_are_refused(name: str, value: object) -> None:
    network = Network.from_layers([np.eye(2)], [np.zeros(2)])
    with pytest.raises(ParameterError, match=f"'{name}' must be"):
        certify_local(network, np.zeros((1, 2)), WeightedLp([1.0, 1.0]), 0.1, tier="exact", **{name: value})


def test_progress_is_told() -> None:
    rng = np.random.default_rng(6)
    network = random_network(rng, WIDTH, 2, "relu", "softmax")
    seen: list[tuple[int, int]] = []
    certify_local(
        network,
        people(4),
        metrics(rng)[0],
        1.0,
        tier="exact",
        time_limit=None,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen[-1] == (4, 4) and all(total == 4 for _, total in seen)


def test_somebody_without_a_value_is_found() -> None:
    """The worst counterpart is the one whose value is missing, and so is its fill."""
    domain = Domain(
        "realizable",
        low=np.array([0.1, 0.0]),
        high=np.array([1.1, 1.0]),
        blocks=((1, 2),),
        integer=np.zeros(2, dtype=bool),
        origin=np.zeros(2),
        unit=np.ones(2),
        immutable=np.zeros(2, dtype=bool),
        names=("value", "missing"),
        fills=((1, 0, 0.3),),
    )
    network = Network.from_layers([np.array([[1.0, 3.0]])], [np.zeros(1)], head="sigmoid")
    x, metric = np.array([[0.71, 0.0]]), WeightedLp([0.0, 0.0])
    found = certify_local(
        network, x, metric, 0.1, domain=domain, tier="exact", time_limit=None, attack=False, progress=None
    )
    truth = np.abs(network([[0.3, 1.0]]) - network(x)).max()
    assert found.witnesses.counterpart[0].tolist() == [0.3, 1.0]
    assert found.lower[0] == pytest.approx(truth, abs=1e-9) == found.upper[0]


def test_the_same_parts_give_the_same_bits_and_more_parts_no_worse() -> None:
    """Whatever the clock says and however many threads there are: the parts alone decide."""
    rng = np.random.default_rng(8)
    network, x, metric = random_network(rng, 4, 2, "relu", "softmax"), rng.normal(size=(5, 4)), WeightedLp(np.ones(4))
    parts = {"tier": "exact", "time_limit": None, "progress": None, "gap": 0.0}

    def found(nodes: int, threads: int) -> list[bytes]:
        set_workers(threads)
        try:
            one = certify_local(network, x, metric, 1.0, max_nodes=nodes, **parts)
            assert workers() == threads
        finally:
            set_workers(None)
        return [array.tobytes() for array in (one.upper, one.lower, one.witnesses.counterpart, one.witnesses.flips)]

    uppers = []
    for nodes in (0, 3, 20):
        first = found(nodes, 1)
        assert first == found(nodes, 2)
        uppers.append(np.frombuffer(first[0]))
    assert (uppers[0] == certify_local(network, x, metric, 1.0, progress=None).upper).all()
    assert all((more <= fewer).all() for fewer, more in itertools.pairwise(uppers))
    assert (uppers[-1] < uppers[0]).any()


def test_no_time_leaves_the_tight_bound() -> None:
    rng = np.random.default_rng(7)
    network = random_network(rng, 3, 2, "relu", "softmax")
    x, metric = rng.normal(size=(4, 3)), WeightedLp(np.ones(3), 1)
    tight = certify_local(network, x, metric, 0.5, progress=None)
    found = certify_local(network, x, metric, 0.5, tier="exact", time_limit=0, progress=None)
    assert (found.upper == tight.upper).all() and (found.lower == tight.lower).all()


# -- decisions -----------------------------------------------------------------------------------------------------


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("head", "outputs", "threshold"),
    [("softmax", 2, None), ("softmax", 2, 0.4), ("softmax", 3, None), ("sigmoid", 1, None), ("sigmoid", 1, 0.3),
     ("sigmoid", 2, None), ("regression", 1, 0.1)],
)  # fmt: skip
def test_decisions_follow_from_the_bounds(head: str, outputs: int, threshold: float | None) -> None:
    """Nobody stays undecided whom the returned bound settles, and nobody similar decides otherwise."""
    rng = np.random.default_rng(outputs)
    network = perceptron(rng, WIDTH, outputs, hidden=4, head=head)
    population, metric = people(14), metrics(rng)[0]
    options = {"threshold": threshold, "progress": None, "attack": QUICK}
    tight = certify_local(network, population, metric, 1.0, **options)
    found = certify_local(network, population, metric, 1.0, tier="exact", time_limit=3.0, gap=1e-3, **options)
    p = found.prediction
    if p.shape[1] > 1 and threshold is None:
        ordered = np.sort(p, axis=1)
        room = (ordered[:, -1] - ordered[:, -2]) / 2
    else:
        room = np.abs(p[:, -1] - (0.5 if threshold is None else threshold))
    settled = found.upper < room - 1e-9
    assert (found.decision[settled] == "certified").all()
    assert not (found.decision[tight.decision == "certified"] == "undecided").any()
    flips = found.witnesses.flips
    assert (found.decision[flips] == "flippable").all()


def test_the_search_settles_decisions_that_the_tight_tier_leaves() -> None:
    rng = np.random.default_rng(6)
    network, x = perceptron(rng, 5, 2, hidden=12), rng.normal(size=(20, 5))[10:]
    options = {"gap": 1e-3, "time_limit": 60.0, "progress": None, "attack": QUICK}
    tight, found = (
        certify_local(network, x, WeightedLp(np.ones(5), 2), 0.5, tier=tier, **options) for tier in ("tight", "exact")
    )
    settled = (tight.decision == "undecided") & (found.decision == "certified")
    assert np.flatnonzero(settled).tolist() == [3] and tight.decision[5] == "certified"
    assert (found.upper[settled] < np.abs(found.prediction[settled, 1] - 0.5)).all()


@pytest.mark.parametrize("off", [0.0, 1e-17, 1e-3])
@pytest.mark.parametrize("threshold", [None, 0.5, 0.3])
def test_a_tie_is_not_settled(off: float, threshold: float | None) -> None:
    """Whoever stands at the cut-off, or could get there, is not certified."""
    head = Head("sigmoid", 1, threshold)
    cut = 0.5 if threshold is None else threshold
    for p in (cut + 0.1, cut - 0.1):
        t = np.array([[math.log(p / (1 - p))]])
        assert head.settled(Enclosure(t, t), np.array([0.1 + off])).tolist() == [-1]
        assert head.settled(Enclosure(t, t), np.array([0.1 - 1e-9])).tolist() == [int(p > cut)]


@settings(max_examples=60, deadline=None)
@given(
    seed=seeds,
    head=st.sampled_from([("softmax", 2), ("softmax", 4), ("sigmoid", 1), ("sigmoid", 3), ("regression", 1)]),
)
def test_whoever_is_within_the_change_decides_the_same(seed: int, head: tuple[str, int]) -> None:
    """Outputs anywhere within the change of a settled one decide as it does."""
    rng = np.random.default_rng(seed)
    network = Network.from_layers([np.eye(head[1])], [np.zeros(head[1])], head=head[0])
    threshold = float(rng.uniform(0.1, 0.9)) if head[1] == 1 or (head[1] == 2 and rng.random() < 0.5) else None
    if head[0] == "regression":
        threshold = float(rng.normal())
    read = head_of(network, threshold)
    z = rng.normal(size=(200, head[1])) * rng.choice([1e-3, 1.0, 5.0])
    found = z if read.rows is None else z @ read.rows.T
    margins, p = Enclosure(found, found), network.probabilities(z)
    change = float(rng.uniform(0, 0.5))
    same, decided = read.settled(margins, np.full(len(z), change)), read.decision(margins)
    for i in np.flatnonzero(same >= 0):
        near = np.abs(p - p[i]).max(axis=1) <= change
        assert (decided[near] == same[i]).all()


@pytest.mark.parametrize("options", [{"arithmetic": "float32"}, {"gap": 0.0}, {}])
def test_regions_in_which_nothing_moves(options: dict[str, object]) -> None:
    """Only categories can change, each choice of them a single point."""
    nothing, three = np.zeros(3, dtype=bool), np.ones(3)
    domain = Domain("realizable", 0 * three, three, ((0, 3),), nothing, 0 * three, three, nothing, ("a", "b", "c"))
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))]
    network = Network.from_layers(weights, [rng.normal(size=4), rng.normal(size=2)])
    found = certify_local(
        network, np.eye(3), WeightedLp(three), 2.0, domain=domain, tier="exact", progress=None, **options
    )
    p = network(np.eye(3))[:, 1]
    truth = np.abs(p[:, None] - p).max(1)
    assert (truth <= found.upper).all() and (found.upper <= truth + 1e-4).all()
