"""Models of which only predictions are known: bounds equal to brute force over everybody whom a schema allows."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.certificates.test_enumerated import drawn, number

from isonomy import (
    Counterparts,
    Drift,
    Enumeration,
    Mahalanobis,
    Part,
    Transport,
    WeightedLp,
    certify,
    certify_everywhere,
    certify_local,
)
from isonomy.errors import IsonomyError, NetworkError, ParameterError, UnsupportedOperationError
from isonomy.population import Feature, Label, Population, Schema
from isonomy.similarity.metric import Metric

QUIET: dict[str, Any] = {"progress": None}
CLOSE = 1e-9

question = st.fixed_dictionaries(
    {
        "numbers": st.lists(number, min_size=1, max_size=2),
        "outputs": st.sampled_from([1, 3, 0]),
        "metric": st.sampled_from(["counterparts", 1.0, 2.0, np.inf, "mahalanobis"]),
        "delta": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
        "seed": st.integers(0, 2**16),
    }
)


class Town:
    """Everybody whom a schema allows, and a function that knows nothing of anybody: a table of random numbers."""

    def __init__(self, asked: dict[str, Any]) -> None:
        rng = np.random.default_rng(asked["seed"])
        features, values = drawn(asked["numbers"])
        outputs = asked["outputs"]
        label = Label("y", ("no", "yes") if outputs == 1 else ("a", "b", "c")) if outputs else Label("y", ())
        self.schema = Schema("town", features, label)
        self.rows = list(itertools.product(*values))
        frame = pd.DataFrame(self.rows, columns=[feature.name for feature in features])
        self.everybody = Population.from_frame(frame, Schema("town", features))
        drawn_numbers = rng.dirichlet(np.ones(max(2, outputs)), len(frame))
        self.truth = drawn_numbers if outputs else rng.normal(size=(len(frame), 1)) * 5
        self.asked: Counter[Any] = Counter()
        self.where = {key_of(row): place for place, row in enumerate(self.rows)}
        self.model = Enumeration(self.answer, self.schema, head="probability" if outputs else "regression")
        self.asked.clear()
        width, kind = self.schema.width, asked["metric"]
        self.metric: Metric = Counterparts.of(self.schema)
        if kind == "mahalanobis":
            root = rng.normal(size=(width, width))
            self.metric = Mahalanobis(root @ root.T + 0.1 * np.eye(width))
        elif kind != "counterparts":
            self.metric = WeightedLp(rng.uniform(0.2, 2.0, width), kind)
        self.delta = 1.0 if kind == "counterparts" else asked["delta"]
        self.people = self.everybody[np.sort(rng.choice(len(self.rows), min(6, len(self.rows)), replace=False))]

    def answer(self, frame: pd.DataFrame) -> np.ndarray:
        keys = [key_of(row) for row in frame.itertuples(index=False, name=None)]
        self.asked.update(keys)
        given = self.truth[[self.where[key] for key in keys]]
        return given[:, 1] if given.shape[1] == 2 else given

    def changes(self, x: np.ndarray, slack: float) -> tuple[float, bool]:
        """The largest change to anybody at most δ and the slack away, and whether somebody is decided otherwise."""
        domain = self.schema.domain("realizable")
        near = self.metric.distance(np.broadcast_to(x, self.everybody.x.shape), self.everybody.x)
        near = (near <= self.delta * (1 + slack) + slack) & domain.allows(
            np.broadcast_to(x, self.everybody.x.shape), self.everybody.x
        )
        mine = self.truth[int(np.flatnonzero((self.everybody.x == x).all(axis=1))[0])]
        decided = self.truth[near].argmax(axis=1) != mine.argmax()
        return float(np.abs(self.truth[near] - mine).max(initial=0.0)), bool(decided.any())


def key_of(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(None if value is None or value != value else value if isinstance(value, str) else float(value)
                 for value in row)  # fmt: skip


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(question)
def test_it_equals_brute_force(asked: dict[str, Any]) -> None:
    town = Town(asked)
    found = certify_local(town.model, town.people, town.metric, town.delta, **QUIET)
    assert max(town.asked.values()) == 1, "everybody is asked about once"
    for row, x in enumerate(town.people.x):
        (least, flips), (most, may_flip) = town.changes(x, -CLOSE), town.changes(x, CLOSE)
        assert least <= found.upper[row] <= most * (1 + 1e-12) + 1e-12
        assert found.lower[row] <= most and found.lower[row] >= least * (1 - 1e-12) - 1e-12
        if asked["outputs"]:
            assert found.decision[row] in (
                ["flippable"] if flips else ["certified"] if not may_flip else ["flippable", "certified", "undecided"]
            )
        else:
            assert found.decision[row] == "none"
    exact = certify_local(town.model, town.people, town.metric, town.delta, tier="exact", attack=False, **QUIET)
    assert (exact.upper == found.upper).all() and (exact.lower == found.lower).all()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(question, st.sampled_from(["l1", "l2"]), st.sampled_from([0.1, 0.6]))
def test_moved_populations_are_below_the_bound(asked: dict[str, Any], ground: Any, gamma: float) -> None:
    """Against a linear program over everybody."""
    town = Town(asked | {"outputs": 1, "metric": "counterparts"})
    found = certify(town.model, town.people, town.metric, town.delta, Transport(gamma, ground=ground), **QUIET)
    order = 1 if ground == "l1" else 2
    cost = np.linalg.norm(town.people.x[:, None] - town.everybody.x, ord=order, axis=2)
    n, k = cost.shape
    equal = np.kron(np.eye(n), np.ones(k))
    least, most = (
        -float(linprog(-np.tile([town.changes(z, slack)[0] for z in town.everybody.x], n), cost.reshape(1, -1), [gamma],
                       equal, np.full(n, 1 / n), method="highs").fun)
        for slack in (-CLOSE, CLOSE)
    )  # fmt: skip
    assert found.lower <= most * (1 + 1e-9) + 1e-9 and least <= found.upper * (1 + 1e-9) + 1e-9
    part = certify(town.model, town.people, town.metric, town.delta, Part(0.5), **QUIET)
    assert part.lower == pytest.approx(part.upper, abs=1e-9)


STEPS = Schema("steps", (Feature("sex", "categorical", categories=("f", "m"), protected=True),
                         Feature("n", "integer", low=0, high=19, unit=1.0)), Label("y", ("no", "yes")))  # fmt: skip
MOVES = {
    "average": (Transport(0.7), 1.0, 0.7), "everybody": (Transport(2.1, order=np.inf), np.inf, 2.1),
    "drift": (Drift({"n": 2}), 1.0, 2.0), "drift of everybody": (Drift({"n": 3}, average=False), np.inf, 3.0),
}  # fmt: skip


def steps(count: int = 14) -> Population:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], count), "n": rng.integers(0, 20, count)})
    return Population.from_frame(frame, STEPS)


def on_steps(frame: pd.DataFrame) -> np.ndarray:
    """Whose decision hangs on the sex are those of seven and of twelve: from there others are some steps away."""
    n, more = frame["n"].to_numpy(float), np.where(frame["sex"] == "m", 0.3, 0.0)
    return np.clip(0.4 + 0.05 * ((n >= 8) & (n <= 11)) + more * ((n == 7) | (n == 12)), 0, 1)


@pytest.mark.parametrize("part", [1.0, 0.4])
@pytest.mark.parametrize("name", MOVES)
def test_shares_of_decisions_after_moves_are_those_of_a_linear_program(name: str, part: float) -> None:
    """Over all people, each of whom counts so much more at most, and moves then."""
    (moves, order, budget), people = MOVES[name], steps()
    shift = moves if part == 1 else Part(part) & moves
    found = certify(Enumeration(on_steps, STEPS), people, Counterparts.of(STEPS), 1.0, shift, **QUIET)
    away = np.min(np.abs(people.frame["n"].to_numpy(float)[:, None] - [7, 12]), axis=1)
    n, most = len(people), np.full(len(people), 1 / len(people) / part)
    if order == np.inf:
        truth = min(1.0, most[away <= budget].sum())
    else:  # masses that stay, and masses that move
        spent, own = np.append(np.zeros(n), away), np.tile(np.eye(n), 2)
        truth = -linprog(-np.append(away == 0, np.ones(n)), np.vstack([spent, own]),
                         np.append(budget, most), np.ones((1, 2 * n)), [1.0], method="highs").fun  # fmt: skip
    share = found.changes
    assert share is not None and truth == pytest.approx(share.lower, abs=3e-6) and truth > np.mean(away == 0)
    assert truth - 1e-9 <= share.upper <= (1.3 * truth if order == 1 else truth + 3e-6)


def test_somebody_at_the_very_edge_is_counted_and_is_no_witness() -> None:
    """Whose distance is δ up to rounding is in the bound; a witness is one who is certainly within it."""
    schema = Schema("steps", (Feature("n", "integer", low=0, high=9, origin=0, unit=10),))
    people = Population.from_frame(pd.DataFrame({"n": range(10)}), schema)
    model = Enumeration(lambda frame: np.asarray(frame["n"]) ** 2 / 100, schema)
    edges = 0
    for steps in range(1, 9):
        metric, delta = WeightedLp([1.0], 2), steps / 10
        found = certify_local(model, people, metric, delta, **QUIET)
        n = np.arange(10)
        reached = np.maximum(np.minimum(9, n + steps) ** 2 - n**2, n**2 - np.maximum(0, n - steps) ** 2) / 100
        assert found.upper == pytest.approx(reached, abs=1e-12)
        assert (metric.distance_upper(people.x, found.witnesses.counterpart) <= delta).all()
        edges += int((found.lower < found.upper - 1e-6).sum())
    assert edges > 0


SCHEMA = Schema(
    "people",
    (
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("age", "integer", low=20, high=60, tolerance=2.0),
        Feature("income", "numeric", low=0.0, high=100.0),
    ),
    Label("y", ("no", "yes")),
)
FRAME = pd.DataFrame({"sex": ["f", "m", "f"], "age": [30, 41, 60], "income": [10.0, 20.5, 99.0]})
PEOPLE = Population.from_frame(FRAME, Schema("people", SCHEMA.features))


def score(frame: pd.DataFrame) -> np.ndarray:
    return ((frame["sex"] == "m") * 0.3 + frame["age"] / 100 + frame["income"] / 1000).to_numpy(dtype=float)


def test_numbers_that_agree_need_not_be_whole() -> None:
    found = certify_local(Enumeration(score, SCHEMA), PEOPLE, Counterparts.of(SCHEMA), **QUIET)
    assert found.upper == pytest.approx([0.32, 0.32, 0.30], abs=1e-9) and found.lower == pytest.approx(found.upper)
    assert str(found).startswith("Given these predictions: 3 individuals")


def test_numbers_that_may_differ_are_refused_by_name() -> None:
    loose = Schema("p", (*SCHEMA.features[:2], Feature("income", "numeric", low=0.0, high=100.0, tolerance=5.0)))
    with pytest.raises(ParameterError, match=r"infinitely many values of 'income': declare it an integer"):
        certify_local(Enumeration(score, loose), Population.from_frame(FRAME, loose), Counterparts.of(loose), **QUIET)


def test_too_many_people_are_refused_and_counted() -> None:
    with pytest.raises(ParameterError, match=r"asked about \d+ people, and its limit is 10: narrow the tolerances"):
        certify_local(Enumeration(score, SCHEMA, limit=10), PEOPLE, Counterparts.of(SCHEMA), **QUIET)
    wide = Schema("w", tuple(Feature(f"n{i}", "integer", low=0, high=999, proxy=True) for i in range(3)))
    frame = pd.DataFrame({f"n{i}": [5] for i in range(3)})
    model = Enumeration(lambda table: np.full(len(table), 0.5), wide)
    with pytest.raises(ParameterError, match=r"asked about 1,000,000,000 people for one individual: narrow"):
        certify_local(model, Population.from_frame(frame, wide), Counterparts.of(wide), **QUIET)


@pytest.mark.parametrize("domain", ["relaxed", "unbounded"])
def test_other_domains_are_refused(domain: Any) -> None:
    model = Enumeration(score, SCHEMA)
    with pytest.raises(UnsupportedOperationError, match=f"has no bounds on the {domain} domain"):
        certify_local(model, PEOPLE.with_domain(domain), Counterparts.of(SCHEMA), **QUIET)
    with pytest.raises(UnsupportedOperationError, match="certify_everywhere knows networks and tree ensembles"):
        certify_everywhere(model, Counterparts.of(SCHEMA), 1.0, SCHEMA, progress=None)


class Estimator:
    """Of scikit-learn's kind: columns of its own, in its own order, and classes the other way round."""

    feature_names_in_ = np.array(["income", "sex"])
    classes_ = np.array(["yes", "no"])

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        assert list(frame.columns) == ["income", "sex"]
        p = np.where(frame["sex"] == "f", 0.25, 0.75)
        return np.stack([p, 1 - p], axis=1)


def test_an_estimator_has_its_own_columns_and_classes() -> None:
    model = Enumeration(Estimator(), SCHEMA)
    assert (model(PEOPLE.x)[:, 1] == [0.25, 0.75, 0.25]).all() and model.read_features(SCHEMA) == ("sex", "income")
    assert model.name == "Estimator" and model.classes == 1 and model.head == "probability"
    again = pickle.loads(pickle.dumps(model))
    assert again.hash() == model.hash() and (again(PEOPLE.x) == model(PEOPLE.x)).all()
    other = Schema("o", SCHEMA.features, Label("y", ("no", "maybe")))
    with pytest.raises(NetworkError, match="knows the classes yes, no, but the schema's label has no, maybe"):
        Enumeration(Estimator(), other)
    with pytest.raises(ParameterError, match="'height' is none of them"):
        Enumeration(Estimator(), SCHEMA, columns=["height"])
    with pytest.raises(ParameterError, match="an estimator with predict_proba or predict, or a function"):
        Enumeration(3, SCHEMA)


@pytest.mark.parametrize(
    ("gives", "complaint"),
    [
        (lambda frame: np.full(len(frame), 1.5), "probabilities, from 0 to 1"),
        (lambda frame: np.full((len(frame), 3), 0.5), "add up to 1"),
        (lambda frame: np.full(len(frame), np.nan), "finite numbers for 1 rows"),
        (lambda frame: np.zeros(7), "finite numbers for 1 rows"),
    ],
)
def test_what_are_no_probabilities_are_refused(gives: Any, complaint: str) -> None:
    with pytest.raises(NetworkError, match=complaint):
        Enumeration(gives, SCHEMA)


def test_functions_that_differ_have_other_hashes() -> None:
    one, other = (lambda frame, p=p: np.full(len(frame), p) for p in (0.25, 0.5))
    assert Enumeration(one, SCHEMA).hash() == Enumeration(one, SCHEMA).hash() != Enumeration(other, SCHEMA).hash()
    assert issubclass(UnsupportedOperationError, IsonomyError)
