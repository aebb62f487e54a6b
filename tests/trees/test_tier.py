"""Certificates of tree ensembles against everybody there is: a person of every cell of a small schema."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.contracts.model import ModelContract
from tests.contracts.tier import TierContract
from tests.kernel.forests import outputs_of
from tests.trees.people import METRICS, SCHEMA, everybody, metric
from tests.trees.test_coordinates import random_forest, random_people

import isonomy
from isonomy import records
from isonomy.attacks import AttackBudget
from isonomy.certificates.protocol import Tier, tier_for
from isonomy.errors import UnsupportedOperationError
from isonomy.population import Label, Schema
from isonomy.population.feature import Feature
from isonomy.problem import Problem
from isonomy.similarity import Counterparts
from isonomy.similarity.ground import ground_metric
from isonomy.similarity.regions import Similarity
from isonomy.trees.forest import Column, Forest, Link
from isonomy.trees.model import TreeModel
from isonomy_verify import verify

EXACT = ("counterparts", "lp")
"""Metrics that look at coordinates one by one: bounds are the truth, but for roundings."""

DOMAIN = SCHEMA.domain("realizable")
HEADS: dict[str, tuple[int, Link]] = {
    "sigmoid": (1, "logistic"), "regression": (1, "identity"), "several": (3, "one-vs-rest"),
    "softmax": (3, "softmax"), "probability": (1, "probability"),
}  # fmt: skip


def ensemble(rng: np.random.Generator, head: str) -> tuple[TreeModel, Schema]:
    """Random trees of a head, and the schema with a label for it."""
    outputs, link = HEADS[head]
    forest = dataclasses.replace(random_forest(rng, int(rng.integers(1, 6)), 4, outputs), link=link, classes=())
    if head == "probability":  # shares of a vote
        value = np.where((forest.feature < 0)[:, None], rng.random(forest.value.shape), 0.0)
        forest = dataclasses.replace(forest, value=value, base=np.zeros(1), divisor=float(len(forest.root)))
    label = Label("good", () if head == "regression" else tuple("abc"[: max(2, outputs)]))
    schema = dataclasses.replace(SCHEMA, label=label)
    return TreeModel.of(forest, schema), schema


def some_people(rng: np.random.Generator, n: int, schema: Schema = SCHEMA) -> isonomy.Population:
    frame = random_people(rng, n).assign(age=rng.integers(18, 43, n))
    return isonomy.Population.from_frame(frame, schema)


def received(head: str, sums: np.ndarray) -> np.ndarray:
    """What people receive, from sums."""
    if head in ("regression", "probability"):
        return sums
    if head == "softmax":
        odds = np.exp(sums - sums.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)
    return 1 / (1 + np.exp(-sums))


def cut(head: str, given: np.ndarray, threshold: float | None) -> np.ndarray:
    """Decisions; −1 on the cut-off."""
    if given.shape[1] > 1:
        order = np.sort(given, axis=1)
        return np.where(order[:, -1] - order[:, -2] < 1e-12, -1, given.argmax(1))
    beyond = given[:, 0] - (0.5 if threshold is None else threshold)
    return np.where(np.abs(beyond) < 1e-12, -1, beyond > 0)


@pytest.mark.parametrize("kind", METRICS)
@example(242, "sigmoid")  # whose counterpart has an ordinal that the precision of numbers must not move
@example(15659526, "regression")  # whose witness the precision of numbers leads out of the ball
@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(HEADS)))
@settings(deadline=None, max_examples=40)
def test_certificates_are_the_truth_over_everybody(kind: str, seed: int, head: str) -> None:
    rng = np.random.default_rng(seed)
    model, schema = ensemble(rng, head)
    similar, delta = metric(rng, kind)
    threshold = None
    if HEADS[head][0] == 1 and (head == "regression" or rng.random() < 0.5):
        threshold = float(rng.normal() if head == "regression" else rng.uniform(0.2, 0.8))
    side = {"favourable": "high" if head == "regression" else "b"} if threshold is not None else {}
    people = some_people(rng, 3, schema)
    x, options = people.x, {"threshold": threshold, "progress": None, "decide": True, **side}
    found = isonomy.certify_local(model, people, similar, delta, **options)
    assert DOMAIN.allows(x, found.witnesses.counterpart).all()
    assert similar.similar(x, found.witnesses.counterpart, delta).all()
    for row, own in enumerate(x):
        all_ = np.concatenate([own[None], everybody(model.trees, own, delta * 9.0 / 37.0 * (1 - 1e-12))])
        distance = similar.distance(own, all_)
        given_ = received(head, outputs_of(model.trees, DOMAIN, all_))
        change, decided = np.abs(given_ - given_[0]).max(1), cut(head, given_, threshold)
        inner, outer = distance <= delta * (1 - 1e-9), distance <= delta * (1 + 1e-9)
        inner[0] = True
        assert change[inner].max() - 1e-12 <= found.upper[row]
        # What is attained is attained by the witness.
        other = received(head, outputs_of(model.trees, DOMAIN, found.witnesses.counterpart[row][None]))
        assert found.lower[row] <= np.abs(other - given_[0]).max() + 1e-12
        if found.decision[row] == "certified":
            assert (decided[inner] == decided[0]).all()
        if found.decision[row] == "flippable":
            flip = found.witnesses.flip_counterpart[row][None]
            assert DOMAIN.allows(own[None], flip).all() and similar.similar(own[None], flip, delta).all()
            there = cut(head, received(head, outputs_of(model.trees, DOMAIN, flip)), threshold)
            assert there[0] >= 0 and there[0] != decided[0]
        if kind in EXACT and head != "softmax":
            assert found.upper[row] <= change[outer].max() + 1e-9
            assert found.lower[row] >= change[inner].max() - 1e-9
            if (decided[outer] >= 0).all() and head != "several":
                assert found.decision[row] == ("certified" if (decided[outer] == decided[0]).all() else "flippable")


class TestTreeModel(ModelContract):
    model = staticmethod(lambda: ensemble(np.random.default_rng(5), "sigmoid")[0])
    people = staticmethod(lambda: some_people(np.random.default_rng(6), 9).x)


class TestTreeNumbers(TestTreeModel):
    model = staticmethod(lambda: ensemble(np.random.default_rng(5), "regression")[0])


class TestTreeTier(TierContract):
    def tier(self) -> tuple[Tier, np.ndarray]:  # type: ignore[override]
        model, schema = ensemble(np.random.default_rng(5), "sigmoid")
        people = some_people(np.random.default_rng(6), 8)
        return tier_for(Problem.of(model, Counterparts.of(schema), 1.0, schema=schema)), people.x


class TestTreeTierOfABall(TierContract):
    def tier(self) -> tuple[Tier, np.ndarray]:  # type: ignore[override]
        rng = np.random.default_rng(7)
        (model, schema), (similar, delta) = ensemble(rng, "softmax"), metric(rng, "mahalanobis")
        return tier_for(Problem.of(model, similar, delta, schema=schema)), some_people(rng, 8).x


@pytest.mark.parametrize("seed", range(4))
def test_people_who_move_are_possible_and_within_reach(seed: int) -> None:
    rng = np.random.default_rng([3, seed])
    model, schema = ensemble(rng, "sigmoid")
    tier, people = tier_for(Problem.of(model, Counterparts.of(schema), 1.0, schema=schema)), some_people(rng, 30)
    ground, rows, raised = ground_metric(("l1", "l2")[seed % 2], schema.width), np.arange(30), 0
    for radius in (0.05, 0.3, 1.5):
        ball = Similarity(ground, radius, DOMAIN)
        near = tier.nearby(people.x)(rows, ball, AttackBudget(seed=seed))
        assert np.array_equal(near, tier.nearby(people.x)(rows, ball, AttackBudget(seed=seed)))
        each, own = near.reshape(-1, schema.width), np.repeat(people.x, near.shape[1], axis=0)
        assert DOMAIN.contains(each).all()
        assert (ground.distance_upper(own, each) <= radius).all()
        found = tier.chunk(each).upper.reshape(30, -1).max(1)
        raised += int((found > tier.chunk(people.x).upper).sum())
    assert raised >= 10


@pytest.mark.parametrize("head", sorted(HEADS))
def test_records_hold_the_same_trees(head: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    model, schema = ensemble(rng, head)
    people = some_people(rng, 6, schema)
    found = isonomy.certify(model, people, Counterparts.of(schema), 1.0, 0.05, progress=None, rounds=0)
    records.write(tmp_path, found)
    again = records.read(tmp_path)
    assert again.problem.model.hash() == model.hash()
    assert np.array_equal(again.problem.model(people.x), model(people.x))
    assert np.array_equal(again.problem.model.arrays()["run_error"], model.run_error)
    checked = verify(tmp_path)
    assert checked.accepted, checked.claims
    assert checked.proved_upper <= found.upper


def test_the_error_of_a_run_is_part_of_the_model() -> None:
    """Results that cover float32 runs of one library are not used again for another."""
    model, _ = ensemble(np.random.default_rng(5), "sigmoid")
    assert dataclasses.replace(model, run_error=2 * model.run_error + 1e-9).hash() != model.hash()


def on_the_cut(values: tuple[float, float]) -> tuple[TreeModel, Schema]:
    """One test of a protected category with two leaves."""
    sex = Feature("sex", "categorical", categories=("f", "m"), protected=True)
    schema = Schema("two", (sex,), label=Label("good", ("no", "yes")))
    forest = Forest(
        (Column("sex", ("f", "m"), "label"),), np.array([0, -1, -1], np.int32), np.array([2, 0, 0], np.int8),
        np.zeros(3), np.array([0, -1, -1], np.int32), np.array([[True, False]]), np.zeros(3, bool), np.zeros(3, bool),
        np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32), np.arange(3, dtype=np.int32),
        np.array([[0.0], [values[0]], [values[1]]]), np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1),
        "logistic", "xgboost", "3.2", classes=("no", "yes"), unit=2.0**-24,
    )  # fmt: skip
    return TreeModel.of(forest, schema), schema


@pytest.mark.parametrize("arithmetic", ["float64", "float32"])
def test_scores_within_the_run_error_of_the_cut_off_are_undecided(arithmetic: str) -> None:
    model, schema = on_the_cut((2e-9, 1.0))
    people = isonomy.Population.from_frame(pd.DataFrame({"sex": ["f", "m"]}), schema)
    model = dataclasses.replace(model, run_error=np.array([1e-8]))
    options = {"progress": None, "decide": True, "arithmetic": arithmetic}
    found = isonomy.certify_local(model, people, Counterparts.of(schema), 1.0, **options)
    assert (found.decision == ("certified" if arithmetic == "float64" else "undecided")).all()
    model, _ = on_the_cut((0.0, 1.0))  # on the cut-off itself nothing is decided in either
    found = isonomy.certify_local(model, people, Counterparts.of(schema), 1.0, **options)
    assert (found.decision == "undecided").all()
    model, _ = on_the_cut((-1.0, 1.0))
    found = isonomy.certify_local(model, people, Counterparts.of(schema), 1.0, **options)
    assert (found.decision == "flippable").all() and (found.lower <= found.upper).all()
    assert np.abs(found.upper - found.lower).max() < (1e-9 if arithmetic == "float64" else 1e-5)


@pytest.mark.parametrize("library", ["lightgbm", "catboost", "sklearn"])
def test_libraries_that_add_in_float64_have_no_float32_runs(library: str) -> None:
    model, schema = on_the_cut((-1.0, 1.0))
    assert model.forest is not None
    double = TreeModel.of(dataclasses.replace(model.forest, library=library, unit=2.0**-53), schema)
    people = isonomy.Population.from_frame(pd.DataFrame({"sex": ["f", "m"]}), schema)
    with pytest.raises(UnsupportedOperationError, match=f"'{library}' adds them in float64.*converted file"):
        isonomy.certify_local(double, people, Counterparts.of(schema), 1.0, arithmetic="float32", progress=None)
    found = isonomy.certify_local(double, people, Counterparts.of(schema), 1.0, progress=None)
    assert (found.lower <= found.upper).all()
