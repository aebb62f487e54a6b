"""Forgers edit every number, recompute all hashes, and are refused, unless their claim is implied after all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isonomy_verify import decisions, verify

from .conftest import Forger, drawing, refused, statuses
from .forgeries import KINDS, LATER, Forgery, forgeries

FORGERIES = list(forgeries())
FIRST = {each.kind: each for each in reversed(FORGERIES)} | {"moves are free": None}
"""Of every kind the first, but for one that takes long."""


def test_there_are_enough() -> None:
    assert len(FORGERIES) >= 600 and len(KINDS) + len(LATER) >= 60
    for base in ("audit", "still", "large"):
        assert sum(each.base == base for each in FORGERIES) >= 100


CASES = [pytest.param(each, marks=() if FIRST[each.kind] is each else pytest.mark.slow) for each in FORGERIES]


@pytest.mark.parametrize("forgery", CASES, ids=str)
def test_forgeries_are_refused(
    forgery: Forgery, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forger = Forger(request.getfixturevalue(forgery.base), tmp_path)
    forgery.edit(forger)
    path = forger.done()
    forgery.after(forger)
    with drawing(secret=7):
        assert refused(path), forgery


# -- edits after which every claim is still implied -----------------------------------------------------------------


def weaker_profiles(forger: Forger) -> None:
    forger.change("profiles.value", lambda value: 1.04 * value)
    forger.follow()


def lighter_sizes(forger: Forger) -> None:
    """What merged layers are off by is said to be nothing: no less is derived than of the weights themselves."""
    for i in (1, 3, 5):
        forger.put(f"model.{i}.magnitude", 0 * forger.array(f"model.{i}.weight"))
        forger.put(f"model.{i}.magnitude_bias", 0 * forger.array(f"model.{i}.bias"))
        forger.put(f"model.{i}.roundings", np.array(0))


def other_weights(forger: Forger) -> None:
    forger.change("people.weights", lambda weights: weights * (1 + np.arange(len(weights)) % 3))
    forger.follow()


WEAKER = {
    "upper raised": lambda f: f.claims.update(upper=0.39, population=None),
    "lower lowered": lambda f: f.claims.update(lower=0.01),
    "no lower": lambda f: f.claims.update(lower=0.0),
    "gamma lowered": lambda f: (f.question["shift"].update(gamma=0.0), f.claims.update(hidden=0.5)),
    "profiles raised": weaker_profiles,
    "values of witnesses": lambda f: f.change("points.value", lambda value: 0 * value),
    "no statement about the population": lambda f: f.claims.update(population=None),
    "other weights, and claims of them": other_weights,
    "names": lambda f: f.predicate["model"].update(names=["x"] * 6),
    "own bounds raised": lambda f: f.change("local.upper", lambda upper: 1.1 * upper),
    "own lower bounds lowered": lambda f: f.change("local.lower", lambda lower: 0.9 * lower),
    "a decision left open": lambda f: (
        f.change("local.decision", lambda said: np.where(said == 1, 3, said)),
        f.claims.pop("changes"),  # of decisions that can change in other populations these would be too few
    ),
    "said to be withheld, and there": lambda f: f.predicate.update(withheld=["people.x"]),
    "sizes and roundings": lighter_sizes,
}


@pytest.mark.parametrize("name", WEAKER)
def test_weaker_claims_that_are_true_do_no_harm(name: str, audit: Path, still: Path, forger: Forger) -> None:
    WEAKER[name](forger)
    if name in ("gamma lowered", "other weights, and claims of them"):  # whoever moved would have moved too far
        forger.claims["lower"] = 0.0
    forger.judge()
    honest, found = verify(audit), verify(forger.done())
    assert found.accepted, found.claims
    derived = found.proved_upper if name.startswith("other weights") else honest.proved_upper
    assert found.claimed_upper >= (verify(still).proved_upper if name == "gamma lowered" else derived)


def test_sizes_and_roundings_cannot_take_what_weights_give(audit: Path, tmp_path: Path) -> None:
    """They say how the model runs, which nobody can check; below the weights' own sizes they are not believed."""
    derived = []
    for number, scale in enumerate((0.0, 1e-9, 1.0)):
        forger = Forger(audit, tmp_path / str(number))
        for i in (1, 3, 5):
            forger.put(f"model.{i}.magnitude", scale * np.abs(forger.array(f"model.{i}.weight")))
        derived.append(verify(forger.done()).proved_upper)
    assert derived[0] >= derived[2] - 1e-13 and derived[1] >= derived[2] - 1e-13
    assert any("roundings" in detail for name, _, detail in verify(audit).claims if name == "model")


def test_bounds_on_which_no_claim_rests_are_named(large: Path, forger: Forger, tmp_path: Path) -> None:
    """Lower bounds at radius 0 change nothing at this shift, but what the profiles say of none; where witnesses refute
    them they are refused."""
    radius, value = forger.array("profiles.radius"), forger.array("profiles.value")
    forger.put("profiles.value", np.where(radius == 0, 0.5 * value, value))
    assert statuses(verify(forger.done()))["lower"] == "rejected"
    forger = Forger(large, tmp_path / "large")  # in which no witness was searched for
    radius, value = forger.array("profiles.radius"), forger.array("profiles.value")
    forger.put("profiles.value", np.where(radius == 0, 0.5 * value, value))
    honest, found = verify(large), verify(forger.done())
    assert found.accepted and found.claimed_upper == honest.claimed_upper
    assert statuses(found)["other shifts"] == "not checked" and statuses(honest)["other shifts"] == "proved again"


def test_a_link_to_the_same_people_is_no_forgery(forger: Forger, tmp_path: Path) -> None:
    forger.file("people.x").rename(tmp_path / "elsewhere.bin")
    forger.file("people.x").symlink_to(tmp_path / "elsewhere.bin")
    assert verify(forger.done()).accepted


def test_a_folder_of_other_names_is_not_looked_into(forger: Forger, tmp_path: Path, monkeypatch: Any) -> None:
    """Not even in the working directory."""
    path = forger.done()
    forger.file("people.x").rename(tmp_path / "people.x.bin")
    monkeypatch.chdir(tmp_path)
    assert refused(path) and refused(path, data=tmp_path)  # it is not said to be withheld


def test_decisions_that_only_parts_settle_are_derived(decided: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of those that are claimed are settled by no tier: without parts they would be refused."""
    found = verify(decided)
    assert found.accepted and statuses(found)["decisions"] == "proved again", found.claims
    monkeypatch.setattr(decisions, "_settled", lambda bounds, x, parts: np.zeros(len(x), dtype=bool))
    assert statuses(verify(decided))["decisions"] == "rejected"


def test_decisions_are_claimed_as_they_are_known(decided: Path) -> None:
    predicate = json.loads((decided / "certificate.json").read_text())["predicate"]
    assert set(predicate["claims"]["local"]["decisions"]) == {"certified", "flippable", "undecided"}
