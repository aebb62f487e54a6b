"""What features alone change for anybody at all: a record holds it, strangers derive it, and lies are rejected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy import records
from isonomy.certificates.features import FeatureGap, gap_of_features, whole_domain_gaps
from isonomy.population import Feature, Label, Population, Schema
from isonomy_verify import BadInput, verify
from isonomy_verify.gaps import arrays_of, hint_of

from . import honest
from .conftest import Forger, statuses

SCHEMA = Schema(
    "small",
    (
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("race", "categorical", categories=("a", "b", "c"), protected=True),
        Feature("pay", low=0, high=1),
        Feature("years", "integer", low=0, high=40),
        Feature("town", "categorical", categories=("u", "v", "w")),
    ),
    Label("y", ("no", "yes"), favourable=("yes",), threshold=0.55),
)  # fmt: skip
ASKED = [("sex", "race"), ("sex",), ("race",)]
NAME = 'anybody, only "sex", "race"'


def certified(seed: int, head: Any = "sigmoid", arithmetic: Any = "float64", count: int = 12,
              threshold: float = 0.55) -> tuple[Any, Any]:  # fmt: skip
    """A certificate of a few people for random trees, and the gaps of sex and race."""
    rng, n = np.random.default_rng(seed), 6
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "race": rng.choice(list("abc"), n),
                          "pay": rng.random(n).round(2), "years": rng.integers(0, 41, n),
                          "town": rng.choice(list("uvw"), n)})  # fmt: skip
    schema = SCHEMA if head != "regression" else replace(SCHEMA, label=Label("y"))
    if schema.label.threshold is not None:
        schema = replace(schema, label=replace(schema.label, threshold=threshold))
    model = honest.trees(rng, schema, 2 if head == "softmax" else 1, head, count=count)
    some, metric = Population.from_frame(frame, schema), isonomy.Counterparts.of(schema)
    found = isonomy.certify(model, some, metric, shift=isonomy.Part(1.0), arithmetic=arithmetic, progress=None)
    return found, whole_domain_gaps(found.problem, arithmetic == "float32")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record whose first gap needed cuts, has both pairs, and numbers of ``h``."""
    directory = tmp_path_factory.mktemp("gaps")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("isonomy.search.trees", "isonomy_verify.tree_global"):
            patch.setattr(f"{module}.SMALL_GRID", 1)
        found, gaps = certified(3, count=40)
    assert len(gaps[0].hint.cuts) > 4 and gaps[0].hint.h and gaps[0].decision == "shown"
    records.write(directory, found, gaps=gaps)
    return directory


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("head", "arithmetic"), [("sigmoid", "float32"), ("softmax", "float64"), ("regression", "float64")]
)
def test_honest_ones_are_accepted(seed: int, head: str, arithmetic: str, tmp_path: Path) -> None:
    found, gaps = certified(seed, head, arithmetic)
    assert [gap.features for gap in gaps] == ASKED
    records.write(tmp_path, found, gaps=gaps, redact=seed == 0)
    checked = verify(tmp_path)
    assert checked.accepted or seed == 0
    names = [f"anybody, only {', '.join(f'{chr(34)}{name}{chr(34)}' for name in each)}" for each in ASKED]
    assert all(statuses(checked)[f"{front}{name}"] == "proved again" for name in names for front in ("", "pairs, "))
    said = json.loads((tmp_path / "certificate.json").read_text())["predicate"]["claims"]["gaps"]
    for each, gap in zip(said, gaps, strict=True):
        assert gap.score_upper <= each["score_upper"] <= gap.score_upper + 2e-6 and gap.upper <= each["upper"]
        assert each["score_lower"] <= gap.score_lower and each["lower"] <= gap.lower
        assert each["decision"] == gap.decision and (gap.decision is None) == (head == "regression")


def test_a_hint_becomes_arrays_and_again_a_hint() -> None:
    gap: FeatureGap = certified(0)[1][0]
    again = hint_of(arrays_of(gap.hint))
    assert (
        np.array_equal(again.cuts, gap.hint.cuts)
        and again.goals == gap.hint.goals
        and again.h.keys() == gap.hint.h.keys()
    )
    assert all(np.array_equal(*each) for k in again.h for each in zip(again.h[k], gap.hint.h[k], strict=True))


def claim(**more: Any) -> Any:
    def edit(forger: Forger) -> None:
        forger.claims["gaps"][0] |= {name: value(forger.claims["gaps"][0][name]) if callable(value) else value
                                     for name, value in more.items()}  # fmt: skip

    return edit


def array(name: str, change: Any) -> Any:
    return lambda forger: forger.change(f"gaps.0.{name}", change)


def at(place: Any, value: Any) -> Any:
    def change(found: Any) -> Any:
        found[place] = value(found[place]) if callable(value) else value
        return found

    return change


def without_a_box(cuts: Any) -> Any:
    """A half, or both halves, are missing; nobody looks at their people."""
    return cuts[:-1]


def smaller_leaf(forger: Forger) -> None:
    """The model that is named has other leaves than the one that was bounded."""
    forger.change("model.values", lambda values: 0.5 * values)
    for each in forger.claims["gaps"]:
        each |= {name: 0.45 * each[name] for name in ("score_upper", "score_lower", "upper", "lower")}


def grown_leaf(forger: Forger) -> None:
    """The leaf of a tree that tests what is protected is larger than the one that was bounded."""
    forger.change("model.values", lambda values: 1.5 * values)


def swapped(forger: Forger) -> None:
    """Another model of the same size, of which other gaps hold."""
    other = honest.trees(np.random.default_rng(77), SCHEMA, 1, "sigmoid", count=40)
    for name, each in other.arrays().items():
        forger.put(f"model.{name}", each)


def exchanged(forger: Forger) -> None:
    """What was derived of one feature is claimed of others."""
    one, other = forger.claims["gaps"][0], forger.claims["gaps"][1]
    one["features"], other["features"] = other["features"], one["features"]


LIES = {
    "the bound of the score": [claim(score_upper=lambda u, f=f: u * f) for f in (0.0, 0.9, 0.9999)],
    "the bound of the output": [claim(upper=lambda u, f=f: u * f) for f in (0.0, 0.9, 0.9999)],
    "no number": [claim(upper="nan"), claim(score_upper=None), claim(score_lower=True)],
    "more than is attained": [claim(**{name: lambda v: v * 1.01}) for name in ("score_lower", "lower")],
    "below nothing": [claim(lower=-1.0)],
    "no other decision": [claim(decision="impossible"), claim(decision=None), claim(decision="never")],
    "h that does not add to zero": [array("h", at(0, lambda h: h + 1)), array("h", at(-1, lambda h: h - 2**40))],
    "h of other trees": [array("trees", at(0, 10**6)), array("columns", at((0, 0), 99)), array("h", lambda h: h[:-1])],
    "h too large": [array("h", lambda h: h + 2**62)],
    "a missing box": [array("cuts", without_a_box), array("cuts", at((1, 2), lambda c: c + 1)),
                      array("cuts", at((slice(2, 4), 0), 0)), array("cuts", at((0, 3), 1))],
    "leaves": [grown_leaf, smaller_leaf],
    "thresholds": [lambda forger: forger.change("model.threshold", lambda t: t[::-1])],
    "another model": [swapped],
    "another protected feature": [exchanged, claim(features=["sex", "town"]), claim(features=["pay"]),
                                  claim(features=[]), claim(features=["sex", "sex"]), claim(features=["height"])],
    "a pair that differs otherwise": [
        array(name, at((0, SCHEMA.slices["pay"].start), 0.123)) for name in ("pair", "flip")
    ] + [array(name, lambda pair: pair[[0, 0]]) for name in ("pair", "flip")] + [array("pair", lambda p: p[::-1]),
        array("flip", lambda pair: pair[:1]), array("pair", at((slice(None), SCHEMA.slices["years"]), 1e6))],
    "other arrays": [lambda forger: forger.claims["gaps"].pop(0), lambda forger: forger.claims.pop("gaps"),
                     lambda forger: forger.claims["gaps"].reverse(), claim(everybody=0.0)],
}  # fmt: skip
CASES = [(kind, number) for kind, edits in LIES.items() for number in range(len(edits))]


@pytest.mark.parametrize(("kind", "number"), CASES, ids=str)
def test_lies_are_rejected(kind: str, number: int, written: Path, tmp_path: Path) -> None:
    """Each by the claim about anybody, or as a damaged file: nothing else of the record need look."""
    forger = Forger(written, tmp_path)
    LIES[kind][number](forger)
    try:
        checked = verify(forger.done())
    except BadInput as error:
        assert str(error).isprintable()
    else:
        assert any("anybody, only" in name and status == "rejected" for name, status, _ in checked.claims)
    assert verify(written).accepted


def uncovered(forger: Forger) -> None:
    for name in ("halves", "eighths"):
        del forger.predicate["arrays"][f"gaps.0.{name}"]
    forger.document["subject"] = [
        each for each in forger.document["subject"] if not each["name"].endswith(("s.0.halves.bin", "s.0.eighths.bin"))
    ]


def other_cut_off(forger: Forger) -> None:
    forger.table("schema.toml", lambda found: found["label"].update(threshold=0.5))
    forger.question["threshold"] = 0.5


COVERS = {
    "no cover": uncovered,
    "a box is missing": array("halves", lambda cuts: cuts[:-2]),
    "halves that are none": array("halves", at((1, 2), lambda cell: cell + 1)),
    "weights of other boxes": array("eighths", lambda weights: 8 - weights),
    "weights that are none": array("eighths", at(0, 9)),
    "another cut-off": other_cut_off,
    "larger leaves": lambda forger: forger.change("model.values", lambda values: 2 * values),
}  # fmt: skip


def test_that_no_decision_differs_is_derived_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Features move the score, and nobody's decision: a cover of the domain shows it, and without one it is a lie."""
    for module in ("isonomy.search.trees", "isonomy_verify.tree_crossing"):
        monkeypatch.setattr(f"{module}.SMALL_GRID", 1)
    found, gaps = certified(1, threshold=0.9)
    assert gaps[0].decision == "impossible" and gaps[0].score_lower > 1 and len(gaps[0].cover.cuts) > 0
    records.write(tmp_path / "honest", found, gaps=gaps)
    assert verify(tmp_path / "honest").accepted
    for kind, lie in COVERS.items():
        forger = Forger(tmp_path / "honest", tmp_path / kind)
        lie(forger)
        try:
            checked = verify(forger.done())
        except BadInput as error:
            assert str(error).isprintable()
        else:
            assert statuses(checked)[NAME] == "rejected", kind


def test_a_hint_may_be_anybodys(written: Path, tmp_path: Path) -> None:
    """A worse hint proves less, never more: with none the claim is rejected, and a larger one accepted."""
    forger = Forger(written, tmp_path)
    for name in ("cuts", "columns", "trees", "first", "h"):
        forger.change(f"gaps.0.{name}", lambda found: found[:0])
    path = forger.done()
    assert statuses(verify(path))[NAME] == "rejected"
    forger.claims["gaps"][0] |= {"score_upper": 1e6, "upper": 1.0}
    assert verify(forger.done()).accepted


def test_what_is_no_tree_ensemble_has_none(written: Path, still: Path, tmp_path: Path) -> None:
    forger, other = Forger(still, tmp_path / "network"), Forger(written, tmp_path / "trees")
    sex = next(name for name in isonomy.load_population("german").schema.protected)
    forger.claims["gaps"] = [other.claims["gaps"][0] | {"features": [sex]}]
    for name in ("cuts", "columns", "trees", "first", "h", "goals"):
        forger.put(f"gaps.0.{name}", other.array(f"gaps.0.{name}"))
    with pytest.raises(BadInput, match="trees only"):
        verify(forger.done())
    found, _ = certified(0)
    network = isonomy.Network.from_layers([np.ones((1, SCHEMA.width))], [[0.0]], head="sigmoid")
    with pytest.raises(isonomy.errors.UnsupportedOperationError, match="gap"):
        gap_of_features(replace(found.problem, model=network))
