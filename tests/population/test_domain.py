from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.population.strategies import Case, cases, patient

from isonomy.population import Domain, Feature, Schema

PEOPLE = Schema(
    "people",
    (
        Feature("age", "integer", low=18, high=98, immutable=True),
        Feature("pay", low=0, high=10, fill=5),
        Feature("sex", "categorical", categories=("f", "m", "x")),
    ),
)
SOMEBODY = np.array([1 / 80, 0.3, 0.0, 0.0, 1.0, 0.0])


def moved(**changes: float) -> np.ndarray:
    x = SOMEBODY.copy()
    for name, value in changes.items():
        x[int(name[1:])] = value
    return x


@pytest.mark.parametrize(
    ("x", "kinds"),
    [
        (SOMEBODY, "URE"),
        (moved(x0=0.013), "UR"),  # between two ages
        (moved(x0=1 + 1 / 80), "U"),  # 99 years
        (moved(x1=-1e-300), "U"),
        (moved(x2=1.0), "UR"),  # missing, but not the fill value
        (moved(x1=0.5, x2=1.0), "URE"),
        (moved(x2=0.5), "UR"),
        (moved(x3=0.25, x4=0.75), "UR"),
        (moved(x3=1.0), "U"),  # two categories at once
        (moved(x4=0.0), "U"),  # no category
        (moved(x3=-0.5, x4=1.5), "U"),
        (moved(x1=np.nan), ""),
        (moved(x1=np.inf), ""),
        (moved(x0=1e308), "U"),
    ],
)
def test_membership(x: np.ndarray, kinds: str) -> None:
    for kind, letter in (("unbounded", "U"), ("relaxed", "R"), ("realizable", "E")):
        domain = PEOPLE.domain(kind)  # type: ignore[arg-type]
        assert domain.contains(x).tolist() == [letter in kinds]
        assert domain.contains(np.stack([x, SOMEBODY])).tolist() == [letter in kinds, True]


def test_immutable_coordinates_must_agree() -> None:
    domain = PEOPLE.domain()
    other = moved(x1=0.9)
    assert domain.allows(SOMEBODY, other).tolist() == [True]
    assert domain.allows(SOMEBODY, moved(x0=2 / 80)).tolist() == [False]
    assert domain.allows(SOMEBODY, np.stack([other, moved(x1=1.1)])).tolist() == [True, False]
    assert domain.with_kind("unbounded").allows(SOMEBODY, moved(x0=2 / 80)).tolist() == [False]


@patient
@given(st.integers(-(2**48), 2**48), st.floats(-(2.0**48), 2.0**48), st.floats(1e-150, 1e150))
def test_the_lattice_knows_every_whole_number(k: int, origin: float, unit: float) -> None:
    domain = Schema("s", (Feature("k", "integer", origin=origin, unit=unit),)).domain()
    x = np.array([[(k - origin) / unit]])
    assert domain.contains(x).all()
    assert np.array_equal(domain.snap(x), x)


@patient
@given(cases(), st.floats(-0.49, 0.49))
def test_snapping_goes_to_the_nearest_lattice_value(case: Case, share: float) -> None:
    domain = case.schema.domain()
    x = case.schema.encode(case.frame).x
    room = np.abs(x * domain.unit) + np.abs(domain.origin)
    assume((room < 1e12).all())
    shifted = np.where(domain.integer, x + share / domain.unit, x)
    assert np.array_equal(domain.snap(shifted), x)
    assert np.array_equal(domain.with_kind("relaxed").snap(shifted), shifted)


@patient
@given(cases())
def test_kinds_are_nested(case: Case) -> None:
    x = case.schema.encode(case.frame).x
    middle = (x[:1] + x[-1:]) / 2
    inside = [case.schema.domain(kind).contains(middle)[0] for kind in ("unbounded", "relaxed", "realizable")]
    assert inside[:2] == [True, True]
    numeric = case.schema.domain().numeric
    assert numeric.sum() == sum(f.kind != "categorical" for f in case.schema.features)


def test_the_unbounded_domain_forgets_everything_but_immutability() -> None:
    free = PEOPLE.domain("unbounded")
    assert np.isneginf(free.low).all() and np.isposinf(free.high).all()
    assert free.blocks == () and free.fills == () and not free.integer.any()
    assert free.immutable.tolist() == [True] + [False] * 5
    with pytest.raises(ValueError, match=r"use schema\.domain\('relaxed'\)"):
        free.with_kind("relaxed")
    assert PEOPLE.domain("relaxed").with_kind("realizable").contains(SOMEBODY).all()


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"'unbounded', 'relaxed' or 'realizable'\. Got 'open'"):
        PEOPLE.domain("open")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows of 6 coordinates"):
        PEOPLE.domain().contains(np.zeros((2, 5)))
    with pytest.raises(ValueError, match="read-only"):
        PEOPLE.domain().low[0] = 1
    assert Domain.unbounded(2).names == ("x0", "x1")


@patient
@given(cases())
def test_every_domain_of_a_schema_is_accepted(case: Case) -> None:
    for kind in ("unbounded", "relaxed", "realizable"):
        domain = case.schema.domain(kind)  # type: ignore[arg-type]
        assert replace(domain).contains(case.schema.encode(case.frame).x).all()
        assert replace(domain, immutable=~domain.immutable).kind == kind


def boxed(**changes: Any) -> Domain:
    """Two numbers, a flag for the second, three categories."""
    parts: dict[str, Any] = {
        "kind": "realizable",
        "low": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        "high": [1.0, 2.0, 1.0, 1.0, 1.0, 1.0],
        "blocks": ((2, 3), (3, 6)),
        "integer": [True, False, False, False, False, False],
        "origin": np.zeros(6),
        "unit": np.ones(6),
        "immutable": np.zeros(6, dtype=bool),
        "names": ("age", "pay", "pay=missing", "job=a", "job=b", "job=c"),
        "fills": ((2, 1, 1.5),),
    }
    return Domain(**(parts | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"low": [0, 3, 0, 0, 0, 0]}, "'high' of 'pay' must be at least 'low'. Got 2.0."),
        ({"low": [math.nan, 0, 0, 0, 0, 0]}, "'low' of 'age' must be a number below infinity. Got nan."),
        ({"low": [math.inf, 0, 0, 0, 0, 0], "high": [math.inf, 2, 1, 1, 1, 1]}, "'low' of 'age' must be"),
        ({"high": [1, math.nan, 1, 1, 1, 1]}, "'high' of 'pay' must be a number above minus infinity. Got nan."),
        ({"high": [1, 2, 1, 1, 1.5, 1]}, "'high' of 'job=b' must be at most 1 in a block. Got 1.5."),
        ({"low": [0, 0, 0, 0, 0, -1]}, "'low' of 'job=c' must be at least 0 in a block. Got -1.0."),
        ({"high": [1, 2, 1, 0, 0, 0]}, "'job=a' to 'job=c' allows nobody"),
        ({"high": [1, 2, 1, 0.3, 0.3, 0.3], "kind": "relaxed"}, "no shares within the ranges add up to 1"),
        ({"low": [0, 0, 0, 0.5, 0.5, 0.5], "kind": "relaxed"}, "no shares within the ranges add up to 1"),
        ({"low": [0, 0, 0.2, 0, 0, 0], "high": [1, 2, 0.8, 1, 1, 1]}, "The block of 'pay=missing' allows nobody"),
        ({"low": [0.2, 0, 0, 0, 0, 0], "high": [0.8, 2, 1, 1, 1, 1]}, "'high' of 'age' must be above a whole number"),
        ({"blocks": ((2, 3), (3, 7))}, "0 <= start < stop <= 6. Got (3, 7)."),
        ({"blocks": ((3, 3),), "fills": ()}, "Got (3, 3)."),
        ({"blocks": ((2, 3), (3, 6), (5, 6))}, "overlaps another one: 'job=c' is in both."),
        ({"blocks": ((2, 3), (2.0, 6.0))}, "'blocks' must be entries of 2 numbers"),
        ({"integer": [True, False, True, False, False, False]}, "'integer' of 'pay=missing' must be false"),
        ({"integer": [2, 0, 0, 0, 0, 0]}, "'integer' of 'age' must be true or false. Got 2.0."),
        ({"immutable": [0, 1]}, "'immutable' must be an array of shape (6,)"),
        ({"immutable": "all"}, "'immutable' must be an array of numbers. Got 'all'."),
        ({"fills": ((2, 6, 1.0),)}, "coordinates from 0 to 5. Got (2, 6, 1.0)."),
        ({"fills": ((-1, 1, 1.0),)}, "coordinates from 0 to 5"),
        ({"fills": ((0, 1, 1.0),)}, "'fills' names 'age' as a flag"),
        ({"fills": ((2, 3, 1.0),)}, "'fills' fills 'job=a', which is in a block"),
        ({"fills": ((2, 1, 2.5),)}, "'fills' of 'pay' must be a number from 0 to 2. Got 2.5."),
        ({"fills": ((2, 1, math.nan),)}, "'fills' of 'pay' must be a number from 0 to 2. Got nan."),
        ({"fills": ((2, 1),)}, "'fills' must be entries of 3 numbers"),
        ({"unit": [1, 0, 1, 1, 1, 1]}, "'unit' of 'pay' must be positive and finite. Got 0.0."),
        ({"unit": [1, math.inf, 1, 1, 1, 1]}, "'unit' of 'pay' must be positive and finite. Got inf."),
        ({"origin": [1, math.nan, 1, 1, 1, 1]}, "'origin' of 'pay' must be finite. Got nan."),
        ({"names": ("age", "pay", "age", "a", "b", "c")}, "two coordinates are called 'age'"),
    ],
)
def test_a_domain_that_contradicts_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    assert boxed().contains([[1, 1.5, 1, 0, 1, 0]]).all()
    with pytest.raises(ValueError) as refused:
        boxed(**changes)
    assert words in str(refused.value)


def test_a_narrower_domain_is_a_domain() -> None:
    """One category left out, one left over; nobody missing, so the fill may be out of range; one whole number."""
    assert boxed(high=[1, 2, 1, 1, 0, 1]).contains([[1, 1, 0, 1, 0, 0]]).all()
    assert boxed(high=[1, 2, 1, 1, 0, 0], low=[0, 0, 0, 1, 0, 0]).contains([[1, 1, 0, 1, 0, 0]]).all()
    assert boxed(high=[1, 1.2, 0, 1, 1, 1]).contains([[1, 1, 0, 1, 0, 0]]).all()
    assert boxed(low=[1, 0, 0, 0, 0, 0]).contains([[1, 1, 0, 1, 0, 0]]).all()
