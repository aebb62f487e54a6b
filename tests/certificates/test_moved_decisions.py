"""The share of decisions that can change where individuals move: against a grid of people, and by forgers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.verify.conftest import Forger, drawing, make, refused

from isonomy import Domain, Network, Transport, WeightedLp, certify
from isonomy.certificates.dual import cells_of
from isonomy.certificates.protocol import tier_for
from isonomy.problem import Problem
from isonomy_verify import verify
from isonomy_verify.behind import Turned, decision_profiles, moved
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE
from isonomy_verify.shifts import Transport as KernelTransport

QUIET: dict[str, Any] = {"progress": None, "attack": False}
STEP = 0.05
GRID = np.arange(-3, 3 + STEP / 2, STEP)
METRIC = WeightedLp(np.array([1.0, 0.5]), 2)


def network(seed: int, head: str = "softmax") -> Network:
    rng = np.random.default_rng(seed)
    last = 3 if seed % 3 == 2 and head == "softmax" else 2 if head == "softmax" else 1
    weights = [rng.normal(size=(5, 2)), rng.normal(size=(last, 5))]
    return Network.from_layers(weights, [rng.normal(size=5) / 2, rng.normal(size=last)], head=head)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_nobody_within_the_radius_has_a_decision_that_can_change(seed: int, order: float) -> None:
    """On a grid of people, each with everybody similar on it."""
    model, delta = network(seed), 0.2
    x = np.random.default_rng(seed).uniform(-2, 2, (12, 2))
    ground = WeightedLp(np.array([1.0, 1.0]), order)
    problem = Problem.of(model, METRIC, delta, Domain.unbounded(2))
    reach = tier_for(problem, "tight").reach(ground)
    people = np.stack(np.meshgrid(GRID, GRID), axis=-1).reshape(-1, 2)
    decided = np.asarray(model(people)).argmax(1)
    side, away = len(GRID), np.round(np.stack(np.meshgrid(np.arange(-9, 10), np.arange(-9, 10)), -1).reshape(-1, 2))
    offsets = away[METRIC.distance(np.zeros((len(away), 2)), away * STEP) <= delta].astype(int)
    flips = np.zeros((side, side), dtype=bool)
    table = decided.reshape(side, side)
    for dx, dy in offsets:
        other = np.roll(table, (dy, dx), (0, 1))
        differs = other != table
        (
            differs[: max(dy, 0)],
            differs[side + min(dy, 0) :],
            differs[:, : max(dx, 0)],
            differs[:, side + min(dx, 0) :],
        ) = (False,) * 4
        flips |= differs
    stood = 0
    for radius in (0.05, 0.3, 0.8):
        stands = reach.stands(x, radius)
        stood += int(stands.sum())
        for i in np.flatnonzero(stands):
            near = ground.distance(np.repeat(x[i : i + 1], len(people), 0), people) <= radius
            assert not flips.reshape(-1)[near].any()
        assert (reach.stands(x, radius, margin=0.05) <= stands).all()
    assert stood > 0


def as_they_are(decision: np.ndarray, weights: np.ndarray) -> Turned:
    rows = np.flatnonzero(decision == FLIPPABLE)
    return Turned(rows, np.zeros(len(rows)), weights[rows])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 2), st.sampled_from([1.0, 2.0]))
def test_the_bound_is_that_of_a_linear_program(seed: int, gamma: float, order: float) -> None:
    """Mass of those who stand is moved beyond their radius, at its price, within the budget."""
    rng = np.random.default_rng(seed)
    decision = rng.integers(1, 4, 9).astype(np.uint8)
    steady = np.where((decision == CERTIFIED) & (rng.random(9) < 0.7), rng.uniform(0.05, 2, 9), 0.0)
    weights = rng.uniform(0.1, 1, 9)
    profiles, shift = decision_profiles(decision, steady, True), Transport(gamma, order)
    stands = decision == CERTIFIED
    cost, gain = steady[stands] ** order * weights[stands] / weights.sum(), weights[stands] / weights.sum()
    program = linprog(-gain, A_ub=cost[None], b_ub=[gamma**order], bounds=[(0, 1)] * len(gain)) if len(gain) else None
    truth = weights[~stands].sum() / weights.sum() - (0 if program is None else program.fun)
    from isonomy.certificates.dual import Dual

    found = Dual([cells_of(profiles, np.arange(9), weights)], shift).bound(gamma)
    assert truth - 1e-9 <= found.upper <= truth + 1e-7
    for multiplier in (found.multiplier, 0.1, 3.0):
        claim = moved(KernelTransport(order, gamma), profiles, weights, as_they_are(decision, weights), multiplier)
        assert claim["upper"] >= min(1.0, truth) - 1e-12
        assert claim["lower"] <= weights[decision == FLIPPABLE].sum() / weights.sum() <= claim["upper"] + 1e-12
    free = decision_profiles(decision, steady, False)  # moves that cost nothing
    turned = as_they_are(decision, weights)
    claim = moved(KernelTransport(order, gamma), free, weights, turned, found.multiplier)
    assert claim["upper"] >= claim["lower"]


def test_more_shift_changes_more_decisions() -> None:
    model, x = network(1), np.random.default_rng(0).uniform(-2, 2, (40, 2))
    shares = []
    for gamma in (0.0, 0.01, 0.05, 0.2, 5.0):
        found = certify(model, x, METRIC, 0.05, Transport(gamma), confidence=0.9, **QUIET)
        assert found.changes is None or found.changes.lower <= found.changes.upper
        claim = found.change_claims
        assert claim is not None and claim["behind"]["lower"] <= claim["lower"]
        assert claim["upper"] <= claim["behind"]["upper"]
        shares.append(claim["upper"])
        assert claim["upper"] >= np.mean(found.individuals.decision != CERTIFIED) >= claim["lower"]
    assert shares == sorted(shares) and shares[0] < shares[2] < shares[-1] == 1.0
    numbers = certify(network(1, "regression"), x, METRIC, 0.05, Transport(0.1), output_range=(-9, 9), **QUIET)
    assert numbers.changes is None and numbers.change_claims is None


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("moved"), 12, 0.02, confidence=0.8, threshold=0.72)


def test_it_is_derived_again(written: Path, tmp_path: Path) -> None:
    found = verify(written)
    assert found.accepted and ("decisions that can change", "recomputed") in {
        (name, how) for name, how, _ in found.claims
    }
    honest = Forger(written, tmp_path)
    said = honest.claims["changes"]
    assert said["lower"] <= said["upper"] < 1 and honest.array("local.steady").any()
    cost, mass = (honest.array(f"turned.{name}") for name in ("cost", "mass"))
    away = (cost > 0) & (mass > 0)
    assert away.any() and len(honest.array("turned.person")) == (cost > 0).sum()
    as_they_are = np.mean(honest.array("local.decision") == FLIPPABLE)
    assert as_they_are < said["lower"] == pytest.approx(mass.sum() / 12, abs=2e-6)
    assert said["behind"]["lower"] <= said["lower"]


def changed(name: str, value: Any, behind: bool = False) -> Any:
    def edit(forger: Forger) -> None:
        said = forger.claims["changes"]["behind"] if behind else forger.claims["changes"]
        said[name] = value(said[name]) if callable(value) else value

    return edit


def further(forger: Forger) -> None:
    """Decisions stand further away, and the claims follow."""
    forger.change("local.steady", lambda radius: 8 * radius)


def closer(forger: Forger) -> None:
    """Moves are said to cost less, and more people to move."""
    forger.change("turned.cost", lambda cost: cost / 4)
    forger.change("turned.mass", lambda mass: np.ones(len(mass)))
    forger.claims["changes"]["lower"] = len(forger.array("turned.mass")) / 12 - 1e-6


def heavier(forger: Forger) -> None:
    """Masses that cost more than the budget, or of people who are not as many."""
    forger.change("turned.mass", lambda mass: 2 * mass + 0.1)
    forger.claims["changes"]["lower"] = float(forger.array("turned.mass").sum()) / 12 - 1e-6


def more_turned(forger: Forger) -> None:
    """Somebody whose decision stands is said to be turned as they are."""
    stands = np.flatnonzero(forger.array("local.decision") != FLIPPABLE)
    rows = np.union1d(forger.array("turned.owner")[forger.array("turned.cost") == 0], stands[:1])
    for name in ("person", "counterpart"):
        forger.put(f"turned.{name}", forger.array(f"turned.{name}")[:0])
    forger.put("turned.owner", rows)
    forger.put("turned.cost", np.zeros(len(rows)))
    forger.put("turned.mass", np.ones(len(rows)))
    forger.claims["changes"]["lower"] = len(rows) / 12 - 1e-6


def twice(forger: Forger) -> None:
    """One individual is named twice."""
    for name in ("owner", "cost", "mass", "person", "counterpart"):
        forger.change(f"turned.{name}", lambda rows: np.concatenate([rows, rows[-1:]]))


FORGERIES = [
    closer, heavier, more_turned, twice,
    lambda f: f.change("turned.person", lambda z: z[:-1]),
    lambda f: f.change("turned.person", lambda z: z + 1.0),  # nobody who is possible
    lambda f: f.put("turned.counterpart", f.array("turned.person")),  # who is decided as they are
    lambda f: f.change("turned.counterpart", lambda y: np.roll(y, 1, axis=1)),
    lambda f: f.change("turned.owner", lambda owner: owner[::-1]),
    lambda f: f.change("turned.owner", lambda owner: owner + 12),
    lambda f: f.change("turned.cost", lambda cost: -cost),
    lambda f: f.change("turned.mass", lambda mass: mass * math.nan),
    changed("upper", lambda v: v - 1e-4), changed("lower", lambda v: v + 1e-4), changed("hidden", 0.0),
    changed("multiplier", lambda v: 3 * v), changed("multiplier", None), changed("multiplier", -1.0),
    changed("upper", lambda v: v - 1e-4, True), changed("lower", lambda v: v + 1e-4, True),
    changed("multiplier", lambda v: 1.1 * v, True), changed("behind", {"upper": 1.0}), changed("more", 1),
    lambda f: f.question.update(confidence=0.99), lambda f: f.question.update(confidence=None),
    lambda f: f.change("people.weights", lambda w: w * np.linspace(1, 2, len(w))), further,
    lambda f: f.change("local.steady", lambda radius: radius[:-1]),
    lambda f: f.change("local.steady", lambda radius: radius + math.inf),
]  # fmt: skip


@pytest.mark.parametrize("at", range(len(FORGERIES)))
def test_forgeries_are_refused(at: int, written: Path, tmp_path: Path) -> None:
    forger = Forger(written, tmp_path)
    FORGERIES[at](forger)
    assert refused(forger.done())


def test_of_a_large_table_some_are_drawn(tmp_path: Path) -> None:
    path = make(tmp_path, 70, 0.02, tier="interval", attack=False, threshold=0.72)
    with drawing():
        found, known = verify(path), verify(path, seed=5)
    assert found.accepted and found.derived < 70 and "with probability" in str(found.claims)
    assert known.result == "looked at" and "with probability" not in str(known.claims)
