from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.metric import MetricContract, mpf

from isonomy.errors import MetricError
from isonomy.population import Feature, Schema
from isonomy.similarity import Counterparts

from .people import people, schema


@st.composite
def counterparts(draw: st.DrawFn) -> Counterparts:
    m = draw(st.integers(1, 5))
    sizes = st.one_of(st.just(0.0), st.floats(0.01, 5), st.sampled_from([0.05, 1.0]), st.floats(1e-200, 1e200))

    def each(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=m, max_size=m))

    relative = st.one_of(st.just(0.0), st.floats(1e-6, 3), st.just(0.05))
    origin, unit = st.one_of(st.floats(-20, 50), st.just(20.0)), st.floats(0.1, 30)
    return Counterparts(each(sizes), each(st.booleans()), each(relative), each(origin), each(unit))


class TestCounterparts(MetricContract):
    @staticmethod
    def metrics() -> st.SearchStrategy[Counterparts]:
        return counterparts()

    @staticmethod
    def exact(metric: Counterparts, x: np.ndarray, y: np.ndarray) -> Any:
        worst = mpf(0)
        for i in np.flatnonzero(~metric.free & (x != y)):
            a, b = mpf(x[i]), mpf(y[i])
            if metric.relative[i] > 0:
                v, w = (c * mpf(metric.unit[i]) + mpf(metric.origin[i]) for c in (a, b))
                positive = v > 0 and w > 0
                with mpmath.workprec(min(2500, mpmath.mp.prec)):
                    ratio = mpmath.log1p(mpf(metric.relative[i]))
                    part = abs(mpmath.log(v) - mpmath.log(w)) / ratio if positive else mpmath.inf
            else:
                part = abs(a - b) / mpf(metric.tolerance[i]) if metric.tolerance[i] else mpmath.inf
            worst = max(worst, part)
        return worst

    @staticmethod
    def exact_box(metric: Counterparts, x: np.ndarray, y: np.ndarray) -> Any:
        return TestCounterparts.exact(metric, x, y)


def index(of: Schema, name: str) -> int:
    return of.coordinate_names.index(name)


def test_of_schema_reads_every_role() -> None:
    own = schema()
    metric = Counterparts.of(own)
    assert (metric.free == own.protected_coordinates).all()
    hours, income = index(own, "hours"), index(own, "income")
    assert metric.tolerance[hours] == pytest.approx(0.03, rel=1e-9)
    assert metric.relative[income] == pytest.approx(0.05, rel=1e-9)
    must_be_equal = ("hours=missing", "job=clerk", "job=nurse", "constant")
    low, high = metric.box(people(n=1).x, 1.0)
    for name in must_be_equal:
        assert low[0, index(own, name)] == high[0, index(own, name)] == 0.0
    assert np.isinf(high[0, own.slices["sex"]]).all()
    assert metric.names == own.coordinate_names


def test_proxies_are_free_and_immutable_features_equal_even_when_protected() -> None:
    roles = {"job": {"proxy": True}, "age": {"immutable": True}, "hours": {"immutable": True}}
    own = schema()
    own = replace(own, features=tuple(replace(f, **roles.get(f.name, {})) for f in own.features))
    metric = Counterparts.of(own)
    x = people(n=1).x[0]
    for name, expected in (("job=clerk", 0.0), ("sex=male", 0.0), ("age", np.inf), ("hours", np.inf)):
        y = x.copy()
        y[index(own, name)] += 0.25
        assert metric.distance(x, y) == metric.distance_upper(x, y) == expected


@settings(deadline=None)
@given(
    low=st.integers(-50, 50),
    span=st.integers(1, 97),
    tolerance=st.integers(1, 5),
    share=st.sampled_from([1.0, 2.0, 0.5]),
    data=st.data(),
)
def test_individuals_exactly_the_tolerance_apart_are_similar(
    low: int, span: int, tolerance: int, share: float, data: st.DataObject
) -> None:
    """Coordinates are rounded; what a person reads in raw units must count nevertheless."""
    feature = Feature("age", "integer", low=low, high=low + 10 * span, tolerance=float(2 * tolerance))
    metric = Counterparts.of(Schema("one", (feature,)))
    gap = round(2 * tolerance * share)
    k = data.draw(st.integers(low, max(low, low + 10 * span - gap - 1)))
    x, y, beyond = (np.array([feature.coordinate(v)]) for v in (k, k + gap, k + gap + 1))
    assert metric.distance_upper(x, y) <= share
    assert metric.distance(x, beyond) > share
    offset = Fraction(float(y[0])) - Fraction(float(x[0]))
    assert metric.box(x, share)[0][0] <= offset <= metric.box(x, share)[1][0]


@settings(deadline=None)
@given(
    origin=st.sampled_from([0.0, 0.1, -7.3, 1e6]),
    unit=st.sampled_from([1.0, 0.3, 12.7]),
    place=st.floats(-1023, 1023),
    ratio=st.booleans(),
    low=st.sampled_from([-np.inf, 0.125]),
)
def test_a_feature_without_limits_keeps_pairs_within_a_thousand_units(
    origin: float, unit: float, place: float, ratio: bool, low: float
) -> None:
    """What the docstring promises, and no more: pairs that are exactly the tolerance apart in rationals."""
    from isonomy.population import Feature

    low = 0.125 if ratio else low
    how = {"relative_tolerance": 0.25} if ratio else {"tolerance": 0.25}
    feature = Feature("income", low=low, origin=origin, unit=unit, **how)
    metric = Counterparts.of(Schema("one", (feature,)))
    # Raw values with so few digits that a quarter more is exact.
    v = max(round((origin + place * unit) * 8) * (2.0**40 if ratio else 0.125), low)
    w = v * 1.25 if ratio else v + 0.25
    assert Fraction(w) == (Fraction(v) * Fraction(5, 4) if ratio else Fraction(v) + Fraction(1, 4))
    x, y = (np.array([feature.coordinate(value)]) for value in (v, w))
    assert metric.distance_upper(x, y) <= 1.0 and metric.distance_upper(y, x) <= 1.0
    assert metric.distance(x, np.array([feature.coordinate(w + max(abs(w), 1.0) * 1e-3)])) > 1.0


def test_beyond_a_thousand_units_a_pair_at_the_edge_may_be_left_out() -> None:
    """The limit of the promise: ten thousand million units out, where the docstring says nothing."""
    from isonomy.population import Feature

    feature = Feature("income", origin=0.1, unit=0.3, tolerance=0.25)
    metric = Counterparts.of(Schema("one", (feature,)))
    v = np.arange(3e9, 3e9 + 64)
    x, y = feature.coordinate(v)[:, None], feature.coordinate(v + 0.25)[:, None]
    assert (metric.distance_upper(x, y) > 1.0).any()


def test_relative_tolerance_is_a_ratio_of_raw_values() -> None:
    metric = Counterparts([0.0], relative=[0.05], origin=[20.0], unit=[10.0])
    centre, above = np.array([8.0]), np.array([8.5])  # 100 and 105
    assert metric.distance(centre, above) == pytest.approx(1.0, rel=1e-12)
    low, high = metric.box(centre, 2.0)
    assert centre + high == pytest.approx((100 * 1.05**2 - 20) / 10, rel=1e-12)
    assert centre + low == pytest.approx((100 / 1.05**2 - 20) / 10, rel=1e-12)
    for other in ([-2.0], [-3.0]):  # raw 0 and below have no logarithm
        assert metric.distance(centre, other) == metric.distance_upper(centre, other) == np.inf
        assert metric.distance(other, other) == 0


@pytest.mark.parametrize("delta", [0.01, 1.0, 7.3])
def test_relative_bounds_are_rounded_outward(delta: float) -> None:
    """Full mantissas: any step rounded the wrong way shows in some of the rows."""
    rng = np.random.default_rng(11)
    n = 400
    x, y = rng.uniform(0, 1, (2, n))
    relative, origin, unit = rng.uniform(1e-3, 0.5, n), rng.uniform(1, 1.01, n), rng.uniform(0.5, 50, n)
    metric = Counterparts(np.zeros(n), relative=relative, origin=origin, unit=unit)
    low, high = metric.box(x, delta)
    with mpmath.workprec(300):
        for i in range(n):
            one = np.where(np.arange(n) == i, y, x)
            v, w = (mpf(c[i]) * mpf(unit[i]) + mpf(origin[i]) for c in (x, y))
            log = mpmath.log1p(mpf(relative[i]))
            assert abs(mpmath.log(v) - mpmath.log(w)) / log <= mpf(float(metric.distance_upper(x, one)))
            assert v * mpmath.expm1(delta * log) / mpf(unit[i]) <= mpf(high[i])
            assert v * mpmath.expm1(-delta * log) / mpf(unit[i]) >= mpf(low[i])


@settings(deadline=None)
@given(
    whole=st.booleans(),
    origin=st.sampled_from([0.0, 7.0, -1e6, 0.1]),
    unit=st.sampled_from([1.0, 3.0, 0.07, 1e5]),
    percent=st.integers(1, 60),
    value=st.one_of(st.integers(1, 10**6), st.floats(1e-12, 1e6)),
    share=st.floats(0, 1),
)
def test_a_relative_tolerance_may_begin_at_nothing(
    whole: bool, origin: float, unit: float, percent: int, value: float, share: float
) -> None:
    """Amounts from 0 on: every pair within the ratio is similar, however small, and 0 is like 0 alone."""
    value, origin = (float(round(value) or 1), origin) if whole else (float(value), 0.0)
    feature = Feature(
        "income", "integer" if whole else "numeric", low=0, high=2e6, origin=origin, unit=unit,
        relative_tolerance=percent / 100,
    )  # fmt: skip
    metric = Counterparts.of(Schema("one", (feature,)))
    assert metric.relative[0] == pytest.approx(percent / 100, rel=1e-2)
    most = Fraction(value) * (1 + Fraction(percent, 100) * Fraction(share))
    other = float(most) if not whole else float(math.floor(most))
    other = math.nextafter(other, 0) if Fraction(other) > most else other
    x, y, nothing = (np.array([feature.coordinate(each)]) for each in (value, max(other, value), 0.0))
    for one, two in ((x, y), (y, x)):
        assert metric.distance_upper(one, two) <= 1.0
        low, high = metric.box(one, 1.0)
        assert low[0] <= Fraction(float(two[0])) - Fraction(float(one[0])) <= high[0]
    assert metric.distance_upper(nothing, nothing) == 0.0
    assert metric.distance(nothing, x) > 1.0 and metric.distance(x, nothing) > 1.0
    assert np.abs(metric.box(nothing, 1.0)).max() < min(1e-9, abs(float((x - nothing)[0])))


def test_the_schema_that_the_guide_shows_can_be_used() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "choosing.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(\[features.*?)```", guide, re.DOTALL)
    own = Schema.from_toml(text)
    assert own["income"].low == 0 and own["income"].relative_tolerance == 0.05
    assert Counterparts.of(own).relative[index(own, "income")] == pytest.approx(0.05)


def test_a_guessed_schema_takes_a_relative_tolerance() -> None:
    table = pd.DataFrame({"income": [0, 1200.5, 90_000.25], "debt": [0, 3, 1000]})
    guessed = Schema.infer(table)
    features = tuple(replace(each, relative_tolerance=0.05) for each in guessed.features)
    assert (Counterparts.of(replace(guessed, features=features)).relative > 0).all()


def test_bad_schemas_and_arrays_are_named() -> None:
    own = schema()
    income, *rest = own.features
    for change, reason in (
        ({"low": -1.0}, "feature 'income' needs amounts, which are never negative.*at least -1"),
        ({"low": -math.inf}, "needs amounts, which are never negative"),
        ({"low": 0.0, "origin": 7.0}, "cannot be kept near 0.*'origin' = 7.*say origin = 0"),
    ):
        with pytest.raises(MetricError, match=reason):
            Counterparts.of(replace(own, features=(replace(income, **change), *rest)))
    grade = Feature("grade", "ordinal", categories=("a", "b"), relative_tolerance=0.1)
    with pytest.raises(MetricError, match=r"feature 'grade' needs amounts.*ranks have no ratio"):
        Counterparts.of(Schema("one", (grade,)))
    job = replace(own.features[5], tolerance=1.0)
    with pytest.raises(MetricError, match="categorical feature 'job' has a tolerance"):
        Counterparts.of(Schema("one", (job,)))
    with pytest.raises(MetricError, match="'unit' must be a list of positive numbers"):
        Counterparts([1.0], unit=[0.0])
    with pytest.raises(MetricError, match="'relative' must be a list of 2 entries"):
        Counterparts([1.0, 1.0], relative=[1.0])
    with pytest.raises(MetricError, match="'tolerance'"):
        Counterparts([-1.0])
