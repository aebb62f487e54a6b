"""Toy members go through the one pipeline, and what it says of them is what brute force finds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from tests.contracts.toys import Stump

import isonomy
from isonomy import (
    Counterparts,
    Enumeration,
    Network,
    Part,
    Population,
    Schema,
    Transport,
    WeightedLp,
    certify,
    certify_local,
)
from isonomy.errors import IsonomyError, UnsupportedOperationError
from isonomy.population import Feature
from isonomy.records import write

DELTA, GAMMA = 0.3, 0.25
STUMP = Stump(1, 0.2, 0.35, 0.8, 2)
METRIC = WeightedLp(np.array([1.0, 2.0]), 2)
REACH = DELTA / METRIC.distance(np.zeros((1, 2)), np.array([[0.0, 1.0]]))[0]  # along the coordinate that is cut
X = np.random.default_rng(4).normal(size=(40, 2))
QUIET: dict[str, Any] = {"progress": None}

SCHEMA = Schema(
    "cards",
    (
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("race", "categorical", categories=("a", "b", "c"), protected=True),
        Feature("job", "categorical", categories=("x", "y", "z")),
        Feature("owns", "categorical", categories=("no", "yes")),
    ),
)
CARDS = list(itertools.product("fm", "abc", "xyz", ("no", "yes")))


def strange(x: np.ndarray) -> np.ndarray:
    """No network: steps, products, a remainder."""
    return (np.floor(7 * np.sin(x @ np.arange(1, x.shape[1] + 1) ** 1.7)) % 5 + x[:, 0] * x[:, 3]) / 6


def by_rows(frame: pd.DataFrame) -> np.ndarray:
    """The same for raw rows."""
    return strange(SCHEMA.encode(frame).x)


def black_box() -> Enumeration:
    return Enumeration(by_rows, SCHEMA)


def everybody() -> Population:
    return Population.from_frame(pd.DataFrame(CARDS, columns=["sex", "race", "job", "owns"]), SCHEMA)


def seen() -> Population:
    rng = np.random.default_rng(1)
    return Population.from_frame(everybody().frame.iloc[rng.integers(0, len(CARDS), 25)].reset_index(drop=True), SCHEMA)


def by_program(cost: np.ndarray, value: np.ndarray, gamma: float) -> float:
    """``max Σ q_ij value_ij`` with ``Σ_j q_ij = 1/n`` and ``Σ q_ij cost_ij <= gamma``, by HiGHS."""
    n, k = cost.shape
    equal = np.kron(np.eye(n), np.ones(k))
    found = linprog(-value.ravel(), cost.reshape(1, -1), [gamma], equal, np.full(n, 1 / n), method="highs")
    return -float(found.fun)


def worst_part(values: np.ndarray, share: float) -> float:
    """The largest mean of values under weights of at most ``1 / (n share)``, by HiGHS."""
    n = len(values)
    top = 1 / (n * share)
    return -float(linprog(-values, A_eq=np.ones((1, n)), b_eq=[1.0], bounds=(0, top), method="highs").fun)


def test_a_stump_is_certified_as_it_is() -> None:
    found = certify_local(STUMP, X, METRIC, DELTA, **QUIET)
    away = np.abs(X[:, 1] - STUMP.cut)
    truth = np.where(away <= REACH, 0.45, 0.0)
    assert 0 < (truth > 0).sum() < len(X)
    assert (found.upper >= truth).all() and found.upper == pytest.approx(truth, abs=1e-12)
    assert (found.lower <= truth).all() and found.lower == pytest.approx(truth, abs=1e-12)
    assert ((found.decision == "flippable") == (truth > 0)).all() and not (found.decision == "undecided").any()


@pytest.mark.parametrize("chunk", [7, 1000])
def test_a_stump_under_transport(chunk: int, tmp_path: Path) -> None:
    found = certify(STUMP, X, METRIC, DELTA, GAMMA, chunk=chunk, work=tmp_path, **QUIET)
    # What it costs to stand where somebody similar is treated otherwise.
    needs = np.maximum(0.0, np.abs(X[:, 1] - STUMP.cut) - REACH)
    cost, value = np.stack([np.zeros(len(X)), needs], axis=1), np.array([0.0, 0.45])
    truth = by_program(cost, np.where(needs[:, None] > 0, value, 0.45), GAMMA)
    assert truth <= found.upper <= 1.2 * truth and 0.9 * truth <= found.lower <= truth
    assert (
        found.worst_case.transport <= GAMMA * (1 + 1e-12) and found.curve([0.0, 0.1])["upper"].is_monotonic_increasing
    )
    again = certify(STUMP, X, METRIC, DELTA, GAMMA, chunk=chunk, work=tmp_path, **QUIET)
    assert again.computed == 0 and again.upper == found.upper


def test_a_black_box_is_counted_out() -> None:
    """Against all 36 people, with nothing but distances and the function itself."""
    people, all_, metric = seen(), everybody(), Counterparts.of(SCHEMA)
    box = black_box()
    found = certify(box, people, metric, None, Transport(0.4, ground="l1"), **QUIET)
    p = strange(all_.x)
    alike = np.stack([metric.distance(all_.x, y) <= 1 for y in all_.x])
    violation = (np.abs(p[:, None] - p) * alike).max(axis=1)
    where = np.array([int(np.flatnonzero((all_.x == x).all(axis=1))[0]) for x in people.x])
    assert found.local.upper == pytest.approx(violation[where], abs=1e-12) and found.local.upper.max() > 0.3
    assert found.local.lower == pytest.approx(violation[where], abs=1e-12)
    cost = np.abs(people.x[:, None] - all_.x).sum(axis=2)
    truth = by_program(cost, np.broadcast_to(violation, cost.shape), 0.4)
    assert found.local.mean_lower < found.lower <= truth <= found.upper <= 1.2 * truth
    still = certify(box, people, metric, shift=0, **QUIET)
    assert still.upper == pytest.approx(violation[where].mean(), abs=1e-12)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.13, 0.01])
@pytest.mark.parametrize("chunk", [9, 1000])
def test_the_worst_part_of_a_population(share: float, chunk: int) -> None:
    """Reweighting, with a network, a stump and a black box: the same as the linear program on the same local bounds."""
    rng = np.random.default_rng(2)
    net = Network.from_layers([rng.normal(size=(6, 2)), rng.normal(size=(2, 6))], [np.zeros(6), np.zeros(2)])
    asked: list[tuple[Any, ...]] = [(net, X, METRIC), (STUMP, X, METRIC)]
    asked += [(black_box(), seen(), Counterparts.of(SCHEMA))]
    for model, people, metric in asked:
        found = certify(model, people, metric, 1.0, Part(share), chunk=chunk, **QUIET)
        upper, lower = worst_part(found.local.upper, share), worst_part(found.local.lower, share)
        assert found.upper == pytest.approx(upper, rel=1e-9) and found.upper >= upper * (1 - 1e-9)
        assert found.lower == pytest.approx(lower, rel=1e-9) and found.lower <= lower * (1 + 1e-9)
        assert found.local.mean_upper <= found.upper * (1 + 1e-12) and found.lower <= found.upper
        assert ("part of these" in str(found)) == (share < 1)


def test_weights_count_in_the_worst_part() -> None:
    """Somebody of weight 3 is three people."""
    people = seen()
    weights = np.arange(len(people)) % 3 + 1.0
    heavy = Population(people.frame, SCHEMA, people.domain, people.x, None, weights, people.rows, people.selection)
    found = certify(black_box(), heavy, Counterparts.of(SCHEMA), 1, Part(0.3), **QUIET)
    assert found.upper == pytest.approx(worst_part(np.repeat(found.local.upper, weights.astype(int)), 0.3), rel=1e-9)


def refused(call: Any, kind: type[IsonomyError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text and text.endswith(".") and all(word in text for word in words), text


def test_what_a_member_lacks_is_said_by_its_name(tmp_path: Path) -> None:
    named = ("'a stump'", "kind 'stump'")
    refused(lambda: certify_local(STUMP, X, METRIC, DELTA, tier="exact", **QUIET), UnsupportedOperationError, *named)
    refused(lambda: certify_local(STUMP, X, METRIC, DELTA, decide=True, **QUIET), UnsupportedOperationError, *named)
    box = [(-1.0, 1.0), (-1.0, 1.0)]
    space = Schema("b", tuple(Feature(f"x{i}", low=low, high=high) for i, (low, high) in enumerate(box)))
    everywhere = isonomy.certify_everywhere
    refused(
        lambda: everywhere(STUMP, METRIC, DELTA, space, **QUIET),
        UnsupportedOperationError,
        *named,
        "networks and tree ensembles only",
    )

    people = Population.from_frame(pd.DataFrame({"x0": [0.1], "x1": [0.3]}), space)
    found, saved = certify(STUMP, people.with_domain("unbounded"), METRIC, DELTA, 0.0, **QUIET), tmp_path / "saved"
    refused(lambda: write(saved, found), UnsupportedOperationError, *named, "checker")
    shifted = certify(STUMP, X, METRIC, DELTA, Part(0.5), confidence=0.9, **QUIET)
    refused(lambda: shifted.gamma, UnsupportedOperationError, "kind 'part'")
    refused(lambda: shifted.ground, IsonomyError, "kind 'part'")
    refused(lambda: shifted.largest_gamma(0.1), UnsupportedOperationError, "kind 'part'", "'gamma'")
    refused(lambda: shifted.curve([0.0]), IsonomyError, "'at_least'")
    assert not saved.exists() or not list(saved.iterdir())


def test_an_unknown_kind_and_what_has_no_search() -> None:
    class Other(Stump):
        kind = "forest"

    refused(lambda: certify_local(Other(1, 0.2, 0.35, 0.8, 2), X, METRIC, 0.1, **QUIET), UnsupportedOperationError,
            "'a stump'", "kind 'forest'", "enumeration, network, shown, stump")  # fmt: skip
    shift = Transport(0.1)
    for wrong in ({"gamma": 0.1}, {"order": 2.0}, {"ground": "l1"}):
        refused(
            lambda wrong=wrong: certify(STUMP, X, METRIC, DELTA, shift, **wrong), IsonomyError, "'shift'", "Transport"
        )
    refused(lambda: certify(STUMP, X, METRIC, shift=0.1), IsonomyError, "'delta'")


def test_transport_by_its_name_by_its_numbers_and_by_gamma_is_one() -> None:
    rng = np.random.default_rng(2)
    net = Network.from_layers([rng.normal(size=(6, 2)), rng.normal(size=(2, 6))], [np.zeros(6), np.zeros(2)])
    asked = (net, X[:10], METRIC, DELTA)
    options: dict[str, Any] = {"attack": isonomy.AttackBudget(steps=2, restarts=0), "tier": "interval", **QUIET}
    found = [
        certify(*asked, Transport(0.2, 2.0, "l1"), **options),
        certify(*asked, 0.2, order=2.0, ground="l1", **options),
        certify(*asked, gamma=0.2, order=2.0, ground="l1", **options),
    ]
    assert len({(one.upper, one.lower, one.multiplier) for one in found}) == 1 and found[0].lower > 0
    assert [(one.gamma, one.order, one.ground.describe()) for one in found] == [
        (0.2, 2.0, found[0].ground.describe())
    ] * 3
