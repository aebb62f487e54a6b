"""Known margins from tables and mappings: what is meant, what is refused, and whether new people keep to it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy import Counterparts, Marginals, certify, load_population
from isonomy.certificates.indices import Audited, NewPeople
from isonomy.certificates.reweighting import Reweighting
from isonomy.errors import DataError, ParameterError
from isonomy.networks import Network
from isonomy.population import Feature, Schema
from isonomy_verify.individuals import Individuals

GERMAN = load_population("german")
PEOPLE, SCHEMA = GERMAN.test.sample(200), GERMAN.schema


def resolved(known: Any, **options: Any) -> Marginals:
    return Marginals(known, **options).resolved(PEOPLE.x, SCHEMA, PEOPLE.weights)


def shares_of(shift: Marginals, x: Any) -> Any:
    cells = shift.groups(x, SCHEMA)
    assert cells is not None
    counts = np.bincount(cells.ravel(), minlength=sum(len(each.shares) for each in shift.known) + 1)
    return counts[:-1] / len(x)


def test_a_table_and_a_mapping_mean_the_same_margins() -> None:
    other = GERMAN.train.sample(300)
    table = resolved(other.frame, tolerance=0.02)
    assert [each.feature for each in table.known] == [each.name for each in SCHEMA.features]
    own = np.concatenate([each.shares for each in table.known])
    assert shares_of(table, other.x) == pytest.approx(own, abs=1e-12)
    housing = other.frame["housing"].value_counts(normalize=True).to_dict()
    ages = (other.frame["age"].astype(float) <= 30).mean()
    named = resolved({"housing": housing, "age": {math.inf: 1 - ages, 30: ages}})
    again = resolved(other.frame[["housing"]])
    assert dict(zip(("age", "housing"), named.known, strict=False)).keys() == {"age", "housing"}
    by_name = {each.feature: each for each in named.known}
    assert by_name["housing"].shares == pytest.approx(again.known[0].shares)
    assert by_name["age"].shares == pytest.approx((ages, 1 - ages))
    assert named == resolved({"age": {30: ages, math.inf: 1 - ages}, "housing": housing}) != again


def test_the_tilted_people_have_the_margins_and_are_the_closest() -> None:
    shift = resolved({"housing": dict(zip(SCHEMA["housing"].levels, (0.3, 0.3, 0.4), strict=True))}, residual=0.0)
    cells = shift.groups(PEOPLE.x, SCHEMA)
    assert cells is not None
    found = shift.answer(np.ones(200), np.ones(200), PEOPLE.weights, cells, 1.0)
    assert found.upper == pytest.approx(1) and found.lower == pytest.approx(1)
    # With one margin the closest reweighting counts each group alike: its mean is the mix of the groups' means.
    value = np.random.default_rng(0).random(200)
    means = np.array([value[cells[:, 0] == group].mean() for group in range(3)])
    found = shift.answer(value, value, PEOPLE.weights, cells, 1.0)
    assert found.upper == pytest.approx(means @ [0.3, 0.3, 0.4], abs=0.02) and found.lower == pytest.approx(found.upper)


def network() -> Network:
    rng = np.random.default_rng(0)
    return Network.from_layers([rng.normal(size=(2, SCHEMA.width)) / 9], [np.zeros(2)])


def test_margins_that_no_reweighting_has_are_refused_before_the_work() -> None:
    women = PEOPLE.x[:, SCHEMA.slices["housing"]][:, 0] == 0  # nobody of the first kind
    few = PEOPLE.sample(40)
    level = SCHEMA["housing"].levels[0]
    known = {"housing": {level: 0.5, SCHEMA["housing"].levels[1]: 0.5}}
    with pytest.raises(DataError, match=f"column 'housing' .*'{level}', to be 0.5"):
        Marginals(known).resolved(PEOPLE.x[women], SCHEMA, PEOPLE.weights[women])
    Marginals(known, strangers=0.6).resolved(PEOPLE.x[women], SCHEMA, PEOPLE.weights[women])
    exotic = {name: {SCHEMA[name].levels[-1]: 1.0} for name in ("purpose", "housing", "personal_status", "job")}
    with pytest.raises(DataError, match="No reweighting of these individuals has the margins"):
        certify(network(), few, Counterparts.of(SCHEMA), 1.0, Marginals(exotic), progress=None)
    for wrong in ({}, {"housing": {level: 0.5}}, {"housing": {level: -1.0}}, {"housing": {}}, {"housing": 3}):
        with pytest.raises(ParameterError):
            Marginals(wrong)
    for wrong in ({"nothing": {"a": 1.0}}, {"housing": {"castle": 1.0}}, {"age": {"x": 1.0}}, {"age": {30: 1.0}}):
        with pytest.raises(ParameterError):
            resolved(wrong)
    for options in ({"tolerance": 0.0}, {"tolerance": 1.0}, {"residual": -1.0}, {"strangers": 1.0}, {"bins": 1}):
        with pytest.raises(ParameterError):
            Marginals(known, **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="castle"):
        resolved(pd.DataFrame({"housing": ["castle"]}))
    with pytest.raises(ParameterError, match="schema"):
        Marginals(known).kernel  # noqa: B018
    assert isinstance(Marginals(known), Reweighting)


def test_ordinal_levels_are_bins() -> None:
    schema = Schema("s", (Feature("size", "ordinal", categories=("s", "m", "l"), origin=0.0, unit=1.0),))
    x = np.array([[0.0], [1.0], [2.0], [2.0]])
    shift = Marginals({"size": {"l": 0.2, "s": 0.5, "m": 0.3}}).resolved(x, schema, np.ones(4))
    assert shift.known[0].edges == (0.0, 1.0) and shift.known[0].shares == pytest.approx((0.5, 0.3, 0.2))
    cells = shift.groups(x, schema)
    assert cells is not None and cells.ravel().tolist() == [0, 1, 2, 2]


def test_weights_of_the_table_count() -> None:
    schema = Schema("s", (Feature("c", "categorical", categories=("u", "v")),), weight="w")
    table = pd.DataFrame({"c": ["u", "v"], "w": [3.0, 1.0]})
    shift = Marginals(table).resolved(np.eye(2), schema, np.ones(2))
    assert shift.known[0].shares == pytest.approx((0.75, 0.25))


def test_new_people_keep_to_it_or_do_not() -> None:
    value = np.linspace(0.01, 0.9, len(PEOPLE))
    alone = Individuals(value, value, np.zeros(len(PEOPLE), np.uint8), 1.0)
    housing = PEOPLE.frame["housing"].value_counts(normalize=True).to_dict()
    shift = resolved({"housing": housing}, residual=0.3, tolerance=0.03)
    audited = Audited(alone, PEOPLE.weights, PEOPLE.x, SCHEMA)
    claim: dict[str, Any] = {}

    def states(rows: Any) -> list[str]:
        new = NewPeople(PEOPLE.x[rows], value[rows], np.zeros(len(rows), np.uint8))
        margin, left = shift.measured(audited, new, claim, 0.05)
        assert left.upper == math.inf and left.lower <= left.estimate + 1e-12 and left.floor > 0
        return [margin.state, left.state]

    assert states(np.tile(np.arange(200), 40)) == ["holds", "not known"]
    worst = np.tile(np.argsort(-value)[:6], 200)
    assert states(worst)[1] == "expired"
    one = np.flatnonzero(PEOPLE.x[:, SCHEMA.slices["housing"]][:, 0] == 1)
    assert states(np.tile(one, 50))[0] == "expired"
    assert shift.measured(Audited(alone, PEOPLE.weights, None, SCHEMA), NewPeople(PEOPLE.x, value, alone.decision),
                          claim, 0.05) == []  # fmt: skip
