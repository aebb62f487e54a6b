from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isonomy.datasets import describe, load_population, make_moons
from isonomy.errors import ParameterError
from isonomy.population import Population, Schema


@pytest.fixture(scope="module", params=["adult", "german", "moons"])
def people(request: pytest.FixtureRequest) -> Population:
    return load_population(request.param)


def test_everybody_is_a_member_and_reads_back(people: Population) -> None:
    for kind in ("unbounded", "relaxed", "realizable"):
        assert people.with_domain(kind).domain.contains(people.x).all()  # type: ignore[arg-type]
    decoded = people.schema.decode(people.x)
    for feature in people.schema.features:
        raw = people.frame[feature.name].to_numpy()
        if feature.kind == "numeric":
            assert np.allclose(raw, decoded[feature.name], rtol=1e-15)
        else:
            assert (raw == decoded[feature.name].to_numpy()).all()


def test_schemas_survive_their_files_and_name_what_is_protected(people: Population) -> None:
    assert Schema.from_toml(people.schema.to_toml()) == people.schema
    assert people.schema.protected
    assert people.y is not None and set(np.unique(people.y)) == {0, 1}
    assert people.excluded == 0
    assert len(people.train) + len(people.test) == len(people)


def test_every_documented_category_occurs(people: Population) -> None:
    absent = [people.schema.coordinate_names[i] for i in np.flatnonzero(~people.x.any(axis=0))]
    assert absent == (["personal_status=A95"] if people.schema.name == "german" else [])


def test_adult() -> None:
    people = load_population("adult")
    assert (len(people.train), len(people.test), people.schema.width) == (32561, 16281, 91)
    assert people.train.y is not None and round(float(people.train.y.mean()), 4) == 0.2408
    assert people.schema.protected == ("race", "sex")
    assert people.schema.proxies == ("marital-status", "relationship")
    assert "fnlwgt" not in people.frame and "education" not in people.schema.slices
    missing = [i for i, name in enumerate(people.schema.coordinate_names) if name.endswith("=?")]
    assert int(people.x[:, missing].any(axis=1).sum()) == 3620
    shares = people.train.x[:, people.schema.slices["sex"]].sum(axis=0)
    assert shares.tolist() == [10771, 21790]


def test_german() -> None:
    people = load_population("german", domain="relaxed")
    assert people.domain.kind == "relaxed" and len(people) == 1000
    assert people.y is not None and people.y.sum() == 700
    assert people.schema.protected == ("personal_status", "age", "foreign_worker")
    words = people.schema.decode(people.x[:1], words=True)
    assert words["personal_status"][0] == "male, single"
    coded = [f for f in people.schema.features if f.categories]
    assert all(set(f.labels) == set(f.levels) for f in coded)


def test_moons() -> None:
    people = make_moons(50, noise=0.05, seed=3)
    assert np.array_equal(people.x, make_moons(50, noise=0.05, seed=3).x)
    assert not np.array_equal(people.x, make_moons(50, noise=0.05, seed=4).x)
    assert people.schema.width == 2 and people.schema.protected_coordinates.tolist() == [False, True]
    with pytest.raises(ParameterError, match="'n' must be"):
        make_moons(1)
    with pytest.raises(ParameterError, match="'noise' must be"):
        make_moons(noise=float("nan"))


def test_unknown_names_list_the_known_ones() -> None:
    for function in (load_population, describe):
        with pytest.raises(ParameterError, match=r"one of 'adult', 'german', 'moons'\. Got 'compas'\."):
            function("compas")  # type: ignore[operator]


@pytest.mark.parametrize("name", ["adult", "german", "moons"])
def test_descriptions_name_source_and_protected(name: str) -> None:
    about = describe(name)
    assert about.protected == load_population(name).schema.protected
    assert about.source in str(about) and about.licence in str(about)


def test_the_notice_names_the_sources() -> None:
    notice = (Path(__file__).parents[2] / "NOTICE").read_text(encoding="utf-8")
    for words in ("Becker, B. and Kohavi, R. (1996)", "Hofmann, H. (1994)", "CC BY 4.0"):
        assert words in notice
