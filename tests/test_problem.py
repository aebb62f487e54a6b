"""A problem is checked once, known by its hash, and asked about any people in the same words as its parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy import Counterparts, Network, Population, Problem, RunOptions, SearchOptions, WeightedLp
from isonomy.errors import DataError, NetworkError, ParameterError
from isonomy.population import Feature, Label, Schema

SCHEMA = Schema(
    "people",
    (
        Feature("income", low=0.0, high=1e4, unit=1e3, tolerance=1.0),
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
    ),
    Label("paid", ("no", "yes"), favourable=("yes",)),
)
RNG = np.random.default_rng(0)
NETWORK = Network.from_layers(
    [RNG.normal(size=(4, SCHEMA.width)), RNG.normal(size=(2, 4))], [np.zeros(4), np.zeros(2)], head="softmax"
)
METRIC = Counterparts.of(SCHEMA)
FRAME = pd.DataFrame(
    {"income": RNG.integers(1000, 9999, 12), "sex": RNG.choice(["f", "m"], 12), "paid": ["no", "yes"] * 6}
)
PEOPLE = Population.from_frame(FRAME, SCHEMA)
PROBLEM = Problem.of(NETWORK, METRIC, schema=SCHEMA)
QUIET: dict[str, Any] = {"attack": False, "progress": None}


def people(kind: str, tmp_path: Path) -> Any:
    if kind == "file":
        FRAME.to_csv(tmp_path / "people.csv", index=False)
        return tmp_path / "people.csv"
    return {"population": PEOPLE, "frame": FRAME, "array": PEOPLE.x}[kind]


@pytest.mark.parametrize("kind", ["population", "frame", "array", "file"])
def test_a_problem_and_its_parts_ask_the_same(kind: str, tmp_path: Path) -> None:
    who = people(kind, tmp_path)
    parts: dict[str, Any] = {"metric": METRIC, "delta": 1.0}
    parts |= {"schema": SCHEMA} if kind in ("frame", "file") else {}
    parts |= {"domain": SCHEMA.domain("realizable"), "favourable": "1"} if kind == "array" else {}
    one = isonomy.certify(PROBLEM, who, gamma=0.1, **QUIET)
    other = isonomy.certify(NETWORK, who, gamma=0.1, **parts, **QUIET)
    assert one.upper == other.upper and np.array_equal(one.local.upper, other.local.upper)
    assert one.problem is PROBLEM and one.problem.hash == other.problem.hash
    if kind != "file":
        local = isonomy.certify_local(PROBLEM, who, **QUIET)
        assert np.array_equal(local.upper, isonomy.certify_local(NETWORK, who, **parts, **QUIET).upper)


@pytest.mark.parametrize(
    "part",
    [{"metric": METRIC}, {"delta": 1.0}, {"schema": SCHEMA}, {"domain": "relaxed"}, {"favourable": "no"},
     {"threshold": 0.3}, {"max_branches": 7}],
)  # fmt: skip
def test_nothing_that_a_problem_has_is_given_beside_it(part: dict[str, Any]) -> None:
    for certify in (isonomy.certify, isonomy.certify_local):
        with pytest.raises(ParameterError, match=f"'{next(iter(part))}' must be left out beside a Problem"):
            certify(PROBLEM, FRAME, **part, **QUIET)


def test_people_of_another_schema_are_refused() -> None:
    other = replace(SCHEMA, features=(replace(SCHEMA.features[0], high=9999.0), SCHEMA.features[1]))
    some = Population.from_frame(FRAME, other)
    for certify in (isonomy.certify, isonomy.certify_local):
        with pytest.raises(ParameterError, match="schema of the Problem"):
            certify(PROBLEM, some, **QUIET)
        with pytest.raises(DataError, match="coordinates"):
            certify(PROBLEM, PEOPLE.x[:, :2], **QUIET)
        with pytest.raises(DataError, match="Row 3"):
            certify(PROBLEM, np.where(np.arange(12)[:, None] == 3, 0.5, PEOPLE.x), **QUIET)


def test_the_hash_is_that_of_every_part() -> None:
    others = [
        Problem.of(NETWORK, METRIC, 0.5, schema=SCHEMA),
        Problem.of(NETWORK, METRIC, schema=SCHEMA, domain="relaxed"),
        Problem.of(NETWORK, METRIC, schema=SCHEMA, favourable="no"),
        Problem.of(NETWORK, METRIC, schema=SCHEMA, threshold=0.3),
        Problem.of(NETWORK, METRIC, schema=SCHEMA, max_branches=7),
        Problem.of(NETWORK, WeightedLp(np.ones(SCHEMA.width)), 1.0, schema=SCHEMA),
        Problem.of(Network.from_layers([np.ones((2, SCHEMA.width))], [np.zeros(2)]), METRIC, schema=SCHEMA),
    ]
    hashes = {each.hash for each in [PROBLEM, *others]}
    assert len(hashes) == 1 + len(others)
    assert Problem.of(NETWORK, Counterparts.of(SCHEMA), 1.0, schema=SCHEMA).hash == PROBLEM.hash


def test_a_problem_is_checked_once_and_for_all() -> None:
    with pytest.raises(NetworkError, match="reads 3 numbers but individuals have 2"):
        Problem.of(NETWORK, WeightedLp(np.ones(2)), 0.1, domain=isonomy.Domain.unbounded(2))
    with pytest.raises(ParameterError, match="delta"):
        Problem.of(NETWORK, WeightedLp(np.ones(3)))
    with pytest.raises(ParameterError, match="metric"):
        Problem.of(NETWORK, None)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="domain"):
        Problem.of(NETWORK, METRIC, 1.0, "relaxed")


def test_options_are_given_together_or_one_by_one() -> None:
    search = SearchOptions(tier="interval", attack=False)
    one = isonomy.certify(PROBLEM, PEOPLE, gamma=0.1, search=search, run=RunOptions(progress=None, chunk=5))
    other = isonomy.certify(PROBLEM, PEOPLE, gamma=0.1, tier="interval", chunk=5, **QUIET)
    assert one.upper == other.upper and one.tier == other.tier == "interval"
    assert isonomy.certify(PROBLEM, PEOPLE, search=search, tier="tight", progress=None).tier == "tight"
    assert isonomy.certify_local(PROBLEM, PEOPLE, search=search, progress=None).tier == "interval"


@pytest.mark.parametrize(
    ("certify", "word"), [(isonomy.certify, "time_limit"), (isonomy.certify, "gama"), (isonomy.certify_local, "rounds")]
)
def test_an_unknown_keyword_is_named(certify: Any, word: str) -> None:
    with pytest.raises(TypeError, match=rf"{certify.__name__}\(\) got an unexpected keyword argument '{word}'"):
        certify(PROBLEM, PEOPLE, **{word: 1})
