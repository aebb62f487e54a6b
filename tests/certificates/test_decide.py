"""Deciding: everybody is settled one way or the other, and rightly."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from isonomy import AttackBudget, Mahalanobis, Network, WeightedLp, certify_local
from isonomy.certificates.local import LocalCertificate, Tier
from isonomy.errors import ParameterError
from isonomy.parallel import set_workers
from isonomy.population import Domain
from isonomy_verify.similar import Similarity

from .judge import WIDTH, is_similar, is_somebody, metrics, people, perceptron

WEAK = AttackBudget(steps=0, restarts=0, branches=1)


def lattice(kind: str = "realizable") -> Domain:
    """Two whole numbers from 0 to 10 and a flag."""
    return Domain(
        kind, low=np.zeros(3), high=np.array([2.0, 2.0, 1.0]), blocks=((2, 3),),
        integer=np.array([True, True, False]), origin=np.zeros(3), unit=np.array([5.0, 5.0, 1.0]),
        immutable=np.zeros(3, dtype=bool), names=("a", "b", "flag"),
    )  # fmt: skip


def network(seed: int, widths: tuple[int, ...], head: str = "softmax", gain: float = 2.0) -> Network:
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=pair) * gain / pair[1] ** 0.5 for pair in itertools.pairwise(widths[::-1])][::-1]
    return Network.from_layers(weights, [0.5 * rng.normal(size=len(w)) for w in weights], head=head)


@pytest.mark.parametrize(("head", "outputs"), [("softmax", 2), ("softmax", 3), ("sigmoid", 1)])
@pytest.mark.parametrize("order", [1, 2, math.inf])
def test_whole_numbers_are_decided_as_enumeration_does(head: str, outputs: int, order: float) -> None:
    everybody = np.array([[a / 5, b / 5, f] for a, b, f in itertools.product(range(11), range(11), (0.0, 1.0))])
    x, metric = everybody[::11], WeightedLp([1.0, 1.0, 0.2], order)
    judged = network({1: 3, 2: 3, 3: 2}[outputs], (3, 8, 8, outputs), head, gain=4.0)
    found = certify_local(
        judged, x, metric, 0.45, domain=lattice(), attack=False, decide=True, max_nodes=100_000, progress=None
    )
    choice = judged(everybody).argmax(1)
    mine = choice[::11]
    for row in range(len(x)):
        near = metric.distance(np.broadcast_to(x[row], everybody.shape), everybody) <= 0.45
        differs = bool((choice[near] != mine[row]).any())
        assert found.decision[row] == ("flippable" if differs else "certified")
    assert {"flippable", "certified"} <= set(found.decision.tolist())


def test_a_whole_number_of_two_values_is_no_harder_than_a_category() -> None:
    domain = Domain(
        "realizable", low=np.zeros(1), high=np.ones(1), blocks=(), integer=np.array([True]), origin=np.zeros(1),
        unit=np.ones(1), immutable=np.zeros(1, dtype=bool), names=("n",),
    )  # fmt: skip
    # Between the two values the margin would cross 0, at the values it does not.
    weights = [np.array([[1.0], [-1.0]]), np.array([[-1.0, -1.0]])]
    judged = Network.from_layers(weights, [np.array([-0.5, 0.5]), np.array([0.4])], head="sigmoid")
    x = np.array([[0.0], [1.0]])
    assert (judged(x)[:, 1] < 0.5).all() and judged([[0.5]])[0, 1] > 0.5
    options = {"domain": domain, "progress": None}
    assert (certify_local(judged, x, WeightedLp([0.0]), 0.1, **options).decision == "undecided").all()
    found = certify_local(judged, x, WeightedLp([0.0]), 0.1, decide=True, **options)
    assert (found.decision == "certified").all()


@pytest.mark.parametrize("domain", ["unbounded", "relaxed", "realizable"])
@pytest.mark.parametrize("which", [0, 2, 4])
def test_what_is_found_is_there_and_what_is_certified_is_not(which: int, domain: str) -> None:
    rng = np.random.default_rng(which)
    judged, population = perceptron(rng, WIDTH, 2), people(12, 3, domain)
    metric = Mahalanobis(np.eye(WIDTH)) if domain == "unbounded" else metrics(rng)[which]
    options = {"attack": WEAK, "progress": None}
    plain = certify_local(judged, population, metric, 0.8, **options)
    found = certify_local(judged, population, metric, 0.8, decide=True, **options)
    assert (found.upper == plain.upper).all() and (found.lower >= plain.lower).all()
    assert (found.decision != "undecided").all()
    assert (found.decision[plain.decision != "undecided"] == plain.decision[plain.decision != "undecided"]).all()
    strong = certify_local(judged, population, metric, 0.8, attack=AttackBudget(steps=60, restarts=4), progress=None)
    assert not (strong.witnesses.flips & (found.decision == "certified")).any()
    witnesses = found.witnesses
    for row in np.flatnonzero(witnesses.flips):
        other = witnesses.flip_counterpart[row]
        assert is_similar(metric, population.x[row], other, 0.8)
        assert domain == "unbounded" or is_somebody(domain, other)
        assert (judged(other[None]).argmax(1) != judged(population.x[row : row + 1]).argmax(1)).all()


def ask(x: np.ndarray, **options: object) -> LocalCertificate:
    judged = network(7, (6, 24, 24, 2), gain=2.5)
    return certify_local(judged, x, WeightedLp(np.ones(6), 2), 0.5, attack=WEAK, progress=None, **options)


def test_the_same_question_has_the_same_answer() -> None:
    x = np.random.default_rng(8).normal(size=(40, 6))
    plain, first = ask(x), ask(x, decide=True, max_nodes=60)
    assert (plain.decision == "undecided").sum() > (first.decision == "undecided").sum() > 0
    try:
        set_workers(2)
        again = ask(x, decide=True, max_nodes=60)
    finally:
        set_workers(None)
    assert (first.decision == again.decision).all()
    assert first.witnesses.flip_counterpart.tobytes() == again.witnesses.flip_counterpart.tobytes()
    assert (ask(x, decide=True, max_nodes=0).decision == plain.decision).all()
    assert (ask(x, decide=True).decision != "undecided").all()


def test_nobody_is_decided_where_nothing_decides() -> None:
    x = np.random.default_rng(9).normal(size=(4, 6))
    numbers = network(1, (6, 8, 1), "regression")
    found = certify_local(numbers, x, WeightedLp(np.ones(6)), 0.5, decide=True, progress=None)
    assert (found.decision == "none").all()
    several = network(1, (6, 8, 3), "sigmoid")
    options = {"attack": WEAK, "progress": None}
    plain = certify_local(several, x, WeightedLp(np.ones(6)), 0.5, **options)
    assert (
        certify_local(several, x, WeightedLp(np.ones(6)), 0.5, decide=True, **options).decision == plain.decision
    ).all()


@pytest.mark.parametrize("threshold", [0.2, 0.7])
@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
def test_thresholds_and_float32_runs(threshold: float, arithmetic: str) -> None:
    x = np.random.default_rng(10).normal(size=(30, 6))
    judged = network(3, (6, 16, 16, 1), "sigmoid", gain=2.5)
    found = certify_local(
        judged, x, WeightedLp(np.ones(6), 2), 0.4, threshold=threshold, arithmetic=arithmetic, decide=True,
        attack=WEAK, progress=None,
    )  # fmt: skip
    assert (found.decision != "undecided").mean() > 0.95
    rng = np.random.default_rng(0)
    for row in np.flatnonzero(found.decision == "certified"):
        v = rng.normal(size=(400, 6))
        y = x[row] + 0.4 * v / np.linalg.norm(v, axis=1, keepdims=True) * rng.random((400, 1))
        assert ((judged(y)[:, 1] > threshold) == (judged(x[row : row + 1])[0, 1] > threshold)).all()


def test_yes_or_no() -> None:
    with pytest.raises(ParameterError, match="'decide' must be True or False"):
        ask(np.zeros((1, 6)), decide="no")


@pytest.mark.parametrize("tier", ["interval", "exact"])
def test_no_region_is_no_proof(monkeypatch: pytest.MonkeyPatch, tier: Tier) -> None:
    """Searches over the regions of somebody who has none settle nothing."""
    x, judged = np.array([[2.0, 1.0, 0.0]]), Network.from_layers([[[1.0, 0.2, 0.3]]], [[0.0]], head="sigmoid")

    def asked() -> LocalCertificate:
        metric = WeightedLp(np.ones(3))
        return certify_local(judged, x, metric, 0.5, domain=lattice(), tier=tier, attack=False, decide=True)

    assert asked().decision[0] == "certified"
    monkeypatch.setattr(Similarity, "regions", lambda self, x, centre_box=None: [])
    lost = asked()
    assert lost.decision[0] != "certified" and lost.upper[0] >= 1
