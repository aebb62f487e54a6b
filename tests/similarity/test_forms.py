"""A stranger who reads the texts of a certificate derives the regions that the library has, bit for bit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.population.strategies import Case, cases

from isonomy.errors import IsonomyError
from isonomy.population import Feature, Population, Schema
from isonomy.similarity import Counterparts, Explore, Mahalanobis, Metric, SensitiveSubspace, WeightedLp
from isonomy.similarity.files import metric_to_text
from isonomy.similarity.regions import Similarity
from isonomy_verify import similar
from isonomy_verify.definitions import domain_of, form_of
from isonomy_verify.domain import Domain
from isonomy_verify.sets import ConvexSets, Regions
from isonomy_verify.similar import filled

KINDS = ("counterparts", "explore", "mahalanobis", "sensitive", "l1", "l2", "linf")
steady = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def metric_of(rng: np.random.Generator, kind: str, case: Case) -> Metric:
    width = case.schema.width
    root = rng.normal(size=(int(rng.integers(1, width + 2)), width)) * (rng.random(width) < 0.8)
    if rng.random() < 0.3:
        root[int(rng.integers(len(root)))] = 0.0  # a row that says nothing
    match kind:
        case "counterparts":
            return Counterparts.of(case.schema)
        case "explore":
            return Explore.fit(rng.normal(size=(8, width)), rng.normal(size=(8, width)), np.arange(8) % 2, steps=5)
        case "mahalanobis":
            return Mahalanobis.from_root(np.asfortranarray(root))
        case "sensitive":
            return SensitiveSubspace(root, ridge=float(rng.choice([0.0, 1.0])))
    weights = rng.choice([0.0, 0.3, 1.0, 7.0], width)
    return WeightedLp(weights, {"l1": 1, "l2": 2, "linf": math.inf}[kind])


def bits(regions: Regions | tuple[ConvexSets, np.ndarray]) -> list[Any]:
    sets, *more = (regions.sets, regions.owner, regions.centre) if isinstance(regions, Regions) else regions
    parts = ("root", "radius", "offset", "low", "high", "base", "inverse")
    arrays = [*more, *(getattr(sets, part) for part in parts)]
    return [sets.order, sets.blocks, sets.clipped, *((array.shape, array.tobytes()) for array in arrays)]


def derived(who: similar.Similarity, x: np.ndarray, wide: np.ndarray) -> list[Any]:
    """Everything that bounds ask for, or why there is none."""
    try:
        every = who.regions(x)
        smaller = who.resized(who.delta / 3)
        parts = [smaller.parts(x, regions) for regions in every]
        narrow = [filled(regions, who.domain) for regions in every]
        centre_box = who.regions(x, (-wide, wide))
        return [bits(each) for each in (*every, *smaller.regions(x), *parts, *narrow, *centre_box)]
    except ValueError as error:
        return [str(error)]


@steady
@given(
    case=cases(),
    kind=st.sampled_from(KINDS),
    space=st.sampled_from(["unbounded", "relaxed", "realizable", "realizable"]),
    delta=st.sampled_from([0.0, 0.1, 1.0, 3.0]),
    cap=st.sampled_from([1024, 2]),
    seed=st.integers(0, 2**32 - 1),
)
def test_regions_from_texts_are_those_of_the_library(
    case: Case, kind: str, space: Any, delta: float, cap: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    try:
        metric, people = metric_of(rng, kind, case), Population.from_frame(case.frame, case.schema)
        domain = case.schema.domain(space)
        own = Similarity(metric, delta, domain, cap).kernel
    except IsonomyError:
        assume(False)
    form, theirs = form_of(metric_to_text(metric), "metric.toml"), domain_of(case.schema.to_toml(), space)
    stranger = similar.Similarity(form, delta, replace(theirs, names=domain.names), cap)
    assert type(stranger.domain) is Domain
    wide = rng.random((1, domain.width)) * (domain.numeric if space == "realizable" else 1.0)
    with np.errstate(all="ignore"):
        assert derived(own, people.x, wide) == derived(stranger, people.x, wide)
        box, again = metric.box(people.x, delta), form.box(people.x, delta)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(box, again, strict=True))
    assert (form.distance_upper(people.x, people.x[:1]) <= metric.distance_upper(people.x, people.x[:1])).all()
    assert (stranger.domain.contains(people.x) == domain.contains(people.x)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"root": np.full((1, 2), np.nan)},
        {"root": np.zeros(2)},
        {"order": 3.0},
        {"free": np.ones(3, dtype=bool)},
        {"tolerance": np.array([0.0, -1.0])},
        {"relative": np.array([0.0, np.inf])},
        {"unit": np.array([1.0, 0.0])},
        {"origin": np.array([np.nan, 0.0])},
    ],
)
def test_arrays_that_are_no_metric_are_refused(wrong: dict[str, Any]) -> None:
    form = WeightedLp([1.0, 2.0], 2).form
    with pytest.raises(ValueError, match="metric must be"):
        replace(form, **wrong)


@pytest.mark.parametrize(
    "wrong", [{"kind": np.array("somewhere")}, {"low": np.zeros(3)}, {"blocks": np.array([[0, 2], [1, 3]])}]
)
def test_arrays_that_are_no_domain_are_refused(wrong: dict[str, Any]) -> None:
    names, no = tuple("abcde"), np.zeros(5, dtype=bool)
    arrays = {"kind": np.array("realizable"), "low": np.zeros(5), "high": np.ones(5), "integer": no, "immutable": no}
    arrays |= {"origin": np.zeros(5), "unit": np.ones(5), "blocks": np.array([[0, 1], [1, 4]])}
    arrays |= {"fills": np.array([[0.0, 4.0, 0.5]])}
    assert Domain.of(arrays, names).contains([[0, 1, 0, 0, 0.3], [1, 1, 0, 0, 0.3]]).tolist() == [True, False]
    with pytest.raises(ValueError):
        Domain.of(arrays | wrong, names)


@pytest.mark.parametrize("name", ["'''", "a''''b", "'" * 7, '"""', '\\"', "a\nb", "\x7f'''"])
def test_names_with_quotes_are_read_by_the_checker(name: str) -> None:
    """Three quotes in a row are no text of several lines: certificates about such people were refused."""
    schema = Schema("odd", (Feature("group", "categorical", categories=(name, "other"), protected=True),))
    assert domain_of(schema.to_toml(), "relaxed").width == 2
    assert Schema.from_toml(schema.to_toml()).features[0].categories == (name, "other")
