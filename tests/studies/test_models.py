"""Networks are trained once, kept, and known by everything that they depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isonomy.training import FairClassifier
from studies.methods import WAYS, Way
from studies.models import Case, Size
from studies.tables import GERMAN, SURVEYS, UCI

pytestmark = pytest.mark.slow

TINY = Size(rows=150, epochs=2, hidden=(8, 8), people=10)


def test_a_network_is_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(GERMAN, TINY, tmp_path)
    first = case.network(Way("u-dif"), 0)
    monkeypatch.setattr(FairClassifier, "fit", lambda *_, **__: pytest.fail("trained again"))
    again = Case(GERMAN, TINY, tmp_path).network(Way("u-dif"), 0)
    x = case.some.x
    np.testing.assert_array_equal(first.network(x), again.network(x))
    assert first.facts == again.facts
    assert {path.suffix for path in tmp_path.iterdir()} == {".onnx", ".json"}


def test_training_is_deterministic(tmp_path: Path) -> None:
    for way in (Way("sgd"), Way("l-dif"), Way("f-ibp", box=True)):
        one, other = (Case(GERMAN, TINY, tmp_path / name).network(way, 1) for name in "ab")
        people = Case(GERMAN, TINY, tmp_path).some
        np.testing.assert_array_equal(one.network(people.x), other.network(people.x))


def test_a_network_without_its_facts_is_trained_again(tmp_path: Path) -> None:
    case = Case(GERMAN, TINY, tmp_path)
    case.network(Way("sgd"), 0)
    next(tmp_path.glob("*.json")).unlink()
    next(tmp_path.glob("*.onnx")).write_bytes(b"half of")
    assert case.network(Way("sgd"), 0).facts["classes"] >= 1


def test_whatever_matters_makes_another_network(tmp_path: Path) -> None:
    base = Case(GERMAN, TINY, tmp_path)
    keys = [base.key(way, seed) for way in WAYS for seed in (0, 1)]
    sizes = (replace(TINY, rows=100), replace(TINY, epochs=3), replace(TINY, hidden=(8,)))
    keys += [Case(GERMAN, size, tmp_path).key(Way("sgd"), 0) for size in sizes]
    others = (replace(GERMAN, delta=0.1), replace(GERMAN, gamma=0.2), replace(GERMAN, learning_rate=0.1))
    keys += [Case(other, TINY, tmp_path).key(Way("sgd"), 0) for other in others]
    assert len({str(key) for key in keys}) == len(keys)
    same = Case(GERMAN, replace(TINY, people=99, others=1), tmp_path).key(Way("sgd"), 0)
    assert same == base.key(Way("sgd"), 0)


def test_the_ways() -> None:
    assert len(set(WAYS)) == 9
    assert [way.name for way in WAYS[-2:]] == ["L-DIF, box form", "U-DIF, box form"]
    for dataset in (*SURVEYS, *UCI):
        assert all((dataset.alpha(way) is None) == (way.method in ("sgd", "ftu", "sensr")) for way in WAYS)


@pytest.mark.parametrize("dataset", [*SURVEYS, *UCI], ids=lambda dataset: dataset.name)
def test_blind_is_what_the_schema_says(dataset: object, tmp_path: Path) -> None:
    from studies.surveys import available

    assert isinstance(dataset, type(GERMAN))
    if dataset.source not in available():
        pytest.skip(f"{dataset.source} is not on this machine")
    people = dataset.people()
    sees = bool((people.schema.seen_coordinates & people.schema.protected_coordinates).any())
    assert dataset.blind == (not sees)
    assert people.schema.label is not None and dataset.favourable in map(str, people.schema.label.classes)
    assert dataset.sex in people.schema.protected
    case = Case(dataset, TINY, tmp_path)
    assert (case.key(Way("ftu"), 0) == case.key(Way("sgd"), 0)) == dataset.blind


def test_other_places_are_not_the_one_trained_on() -> None:
    from studies.surveys import available

    for dataset in SURVEYS:
        if dataset.source not in available():
            pytest.skip(f"{dataset.source} is not on this machine")
        places = [place for place, _ in dataset.others()]
        own = f"{dataset.load['states'][0]} {dataset.load['years'][0]}"
        assert len(places) >= 10 and own not in places
