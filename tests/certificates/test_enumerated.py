"""Everybody counted out: whole numbers, levels, categories and missing values, and who is similar in rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isonomy import Network, certify, certify_everywhere, certify_local
from isonomy.attacks import AttackBudget
from isonomy.certificates.alone import changes_alone
from isonomy.population import Feature, Label, Population, Schema
from isonomy.population.outcome import decided
from isonomy.similarity import Counterparts

QUICK = AttackBudget(steps=2, restarts=0)
NEAR = Fraction(1, 10**9)  # by less than this tolerances are widened
CLOSE = 1e-11  # whose score is this near to a cut-off is a matter of rounding

number = st.fixed_dictionaries(
    {
        "low": st.integers(0, 2),
        "steps": st.integers(1, 4),
        "by": st.sampled_from([{}, {"tolerance": 1.0}, {"relative_tolerance": 1 / 3}, {"relative_tolerance": 0.5}]),
        "scale": st.sampled_from([{}, {"origin": 0.0, "unit": 7.0}, {"origin": 0.3, "unit": 0.1}]),
        "filled": st.booleans(),
        "role": st.sampled_from([{}, {}, {"proxy": True}, {"immutable": True}]),
    }
)
asked = st.fixed_dictionaries(
    {
        "numbers": st.lists(number, min_size=1, max_size=2),
        "head": st.sampled_from([("softmax", 2), ("softmax", 3), ("sigmoid", 1), ("sigmoid", 2), ("regression", 1)]),
        "favourable": st.sampled_from([None, 0, 1]),
        "cut": st.sampled_from(["none", "attained", "beside", 0.5, 1e-9, 1 - 1e-9]),
        "gain": st.sampled_from([1.0, 4.0, 30.0]),
        "seed": st.integers(0, 2**16),
    }
)


def drawn(numbers: list[dict[str, Any]]) -> tuple[tuple[Feature, ...], list[list[Any]]]:
    """Features, and the values of each; None is a missing one."""
    features = [Feature("sex", "categorical", categories=("f", "m"), protected=True, missing="category")]
    values: list[list[Any]] = [["f", "m", None]]
    for i, one in enumerate(numbers):
        low, high = one["low"], one["low"] + one["steps"]
        fill = {"fill": float(high)} if one["filled"] else {}
        features.append(
            Feature(f"n{i}", "integer", low=low, high=high, **one["by"], **one["scale"], **fill, **one["role"])
        )
        values.append([*map(float, range(low, high + 1)), *([None] if fill else [])])
    return tuple(features), values


def alike(feature: Feature, one: Any, other: Any, more: Fraction = Fraction(0)) -> bool:
    """Do the raw values agree as the schema asks, in rationals?"""
    if one == other or ((feature.protected or feature.proxy) and not feature.immutable):
        return True
    if feature.immutable or one is None or other is None:
        return False
    first, last = sorted((Fraction(one), Fraction(other)))
    if feature.relative_tolerance:
        return first > 0 and last <= first * (1 + Fraction(feature.relative_tolerance) + more)
    return last - first <= Fraction(feature.tolerance or 0)


class Town:
    """All people of a schema, a network, and what is true of them."""

    def __init__(self, question: dict[str, Any]) -> None:
        rng, (kind, outputs) = np.random.default_rng(question["seed"]), question["head"]
        self.features, values = drawn(question["numbers"])
        self.rows = list(itertools.product(*values))
        self.regression, count = kind == "regression", 2 if outputs == 1 else outputs
        classes = () if self.regression else tuple(map(str, range(count)))
        self.schema = Schema("town", self.features, Label("y", classes))
        frame = pd.DataFrame(self.rows, columns=[each.name for each in self.features])
        self.people = Population.from_frame(frame.assign(y=classes[0] if classes else 0.0), self.schema)
        width = self.people.x.shape[1]
        weights = [rng.normal(size=(5, width)) * question["gain"], rng.normal(size=(outputs, 5))]
        weights[0][:, rng.random(width) < 0.2] = 0.0
        biases = [rng.normal(size=5), np.zeros(outputs)]
        raw = Network.from_layers(weights, biases, head=kind).logits(self.people.x)
        self.network = Network.from_layers(weights, [biases[0], -np.median(raw, axis=0)], head=kind)
        names, place = classes or ("low", "high"), question["favourable"]
        self.favourable = None if place is None else names[place]
        given = self.network(self.people.x)
        score = given[:, 0 if self.regression else 1 if place is None else place]
        self.cut = self._cut(question["cut"], score, rng) if (kind, outputs) in TWO else None
        label = Label("y", classes, favourable=() if place is None else (names[place],), threshold=self.cut)
        self.decision = decided(given, label, regression=self.regression)
        ordered = np.sort(given, axis=1)
        apart = ordered[:, -1] - ordered[:, -2] if given.shape[1] > 1 else np.ones(len(given))
        self.clear = apart > CLOSE if self.cut is None else np.abs(score - self.cut) > CLOSE
        self.gap = np.abs(given[:, None] - given[None]).max(axis=2)
        self.options = {"threshold": self.cut, "favourable": self.favourable, "attack": QUICK, "progress": None}

    def _cut(self, cut: Any, score: np.ndarray, rng: np.random.Generator) -> float | None:
        one = float(rng.choice(score))
        found = {"none": None, "attained": one, "beside": float(np.nextafter(one, 2.0))}.get(cut, cut)
        return found if found is None or self.regression or 0 < found < 1 else 0.5

    def pairs(self, more: Fraction = Fraction(0), only: str = "") -> np.ndarray:
        """Who is similar to whom; or who differs in one feature ``only``."""
        each = [
            np.array([[a == b or f.name == only if only else alike(f, a, b, more) for b in column] for a in column])
            for f, column in zip(self.features, zip(*self.rows, strict=True), strict=True)
        ]
        return np.asarray(np.logical_and.reduce(each))

    def check(self, found: Any, near: np.ndarray, wide: np.ndarray) -> None:
        """Hold bounds and decisions against everybody in reach; finds may be in the ``wide`` one."""
        truth, most = (np.where(pairs, self.gap, 0.0).max(axis=1) for pairs in (near, wide))
        assert (found.upper >= truth - 1e-9 * (1 + truth)).all() and (found.lower <= most + 1e-9 * (1 + most)).all()
        for row, said in enumerate(found.decision):
            if said == "certified" and self.clear[near[row]].all():
                assert (self.decision[near[row]] == self.decision[row]).all()
            if said == "flippable":
                (other,) = np.flatnonzero((self.people.x == found.witnesses.flip_counterpart[row]).all(axis=1))
                assert wide[row, other]
                assert self.decision[other] != self.decision[row] or not self.clear[[row, other]].all()


TWO = (("softmax", 2), ("sigmoid", 1), ("regression", 1))
few = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@few
@given(asked)
def test_similar_people(question: dict[str, Any]) -> None:
    """0 is like 0 alone, a missing value like a missing one: no tier leaves anybody out, nor a cut of pairs."""
    town = Town(question)
    near, wide, metric = town.pairs(), town.pairs(NEAR), Counterparts.of(town.schema)
    for how in ({"decide": True}, {"tier": "exact", "time_limit": None, "max_nodes": 200}):
        town.check(certify_local(town.network, town.people, metric, **town.options, **how), near, wide)  # type: ignore[arg-type]
    found = certify_everywhere(town.network, metric, 1.0, town.schema, time_limit=None, max_nodes=60, progress=None)
    least, most = (float(np.where(pairs, town.gap, 0.0).max()) for pairs in (near, wide))
    assert found.upper >= least - 1e-9 * (1 + least) and found.lower <= most + 1e-9 * (1 + most)


@few
@given(asked)
def test_one_feature_alone(question: dict[str, Any]) -> None:
    """Its bounds hold over all its values, and one that is not read changes nothing."""
    town = Town(question)
    found = certify(town.network, town.people, Counterparts.of(town.schema), gamma=0.0, decide=True, **town.options)
    read = found.problem.model.read_features(town.schema)
    for change in changes_alone(found, [(each.name,) for each in town.features if not each.immutable]):
        (name,) = change.features
        pairs = town.pairs(only=name)
        town.check(change.certificate, pairs, pairs)
        assert name in read or not np.where(pairs, town.gap, 0.0).any()
