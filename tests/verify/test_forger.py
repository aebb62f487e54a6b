"""A forger edits every number, recomputes all hashes, and is refused."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isonomy_verify import BadInput, verify

Edit = Callable[[Any], Any]


def refused(path: Path) -> bool:
    try:
        return not verify(path).accepted
    except BadInput:
        return True


def test_the_honest_certificate_is_accepted(audit: Path) -> None:
    found = verify(audit)
    assert found.accepted, found.claims
    assert found.share_proved == 1.0
    assert found.proved_upper <= found.claimed_upper
    trusted = {name for name, status, _ in found.claims if status == "trusted"}
    assert trusted == {"network", "people", "metric", "ground", "domain", "selection", "remarks"}


# -- the document ---------------------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    else:
        yield path, value


def edits(path: tuple[str, ...], value: Any) -> list[Any]:
    """Other values for a leaf, among them those a forger would like."""
    if path == ("claims", "population"):
        return [{"upper": 0.1, "multiplier": 1.0}]
    if path == ("claims", "verdict"):
        return [other for other in ("certified", "violated", None) if other != value]
    if path == ("question", "epsilon"):
        return [0.0, 0.9, None]
    if path == ("question", "order"):
        return [1.5, 2.0, "inf"]
    if path == ("question", "delta"):
        return [0.5, 4.0, -1.0, "nan"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [0.9 * value, 0.9999 * value, 1.0001 * value, 1.1 * value, -value, "nan"]
    return ["forged", ""]


HARMLESS = {("question", "confidence")}  # nothing is claimed with it here


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_every_leaf_of_the_document(every: int, audit: Path, forger: Any) -> None:
    """The fast tests forge every fourth leaf."""
    original = copy.deepcopy(forger.document)
    seen = 0
    for path, value in list(leaves(original))[::every]:
        if path[0] == "remarks" or path in HARMLESS or path[-1] in ("sha256", "withheld"):
            continue
        for other in edits(path, value):
            forger.document = copy.deepcopy(original)
            part = forger.document
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] = other
            # Hashes are recomputed where files can be found; a lie about files is one of these edits.
            assert refused(forger.done()), (path, value, other)
            seen += 1
    assert seen > 50 / every


@pytest.mark.parametrize("name", ["people", "witnesses", "network", "profiles"])
def test_evidence_that_is_taken_away(name: str, forger: Any) -> None:
    (forger.directory / "evidence" / f"{name}.npz").unlink()
    assert refused(forger.done())
    forger.document["evidence"][name]["withheld"] = True
    assert refused(forger.done())


def test_a_wrong_hash_is_refused(forger: Any) -> None:
    directory = forger.done()
    text = (directory / "certificate.json").read_text()
    for part in forger.document["evidence"].values():
        (directory / "certificate.json").write_text(text.replace(part["sha256"], "0" * 64))
        assert refused(directory)


def test_remarks_are_said_to_be_trusted(forger: Any) -> None:
    forger.document["remarks"]["created"] = "1970-01-01"
    assert ("remarks", "trusted") in [claim[:2] for claim in verify(forger.done()).claims]


# -- the evidence ----------------------------------------------------------------------------------------------


def one(position: int, by: float) -> Edit:
    """Change one number."""

    def edit(array: Any) -> Any:
        array.flat[position] += by
        return array

    return edit


def setting(places: slice, value: Any) -> Edit:
    """The categories 28 to 33 are "personal status and sex", protected; 0 to 4 are the state of the account."""

    def edit(array: Any) -> Any:
        array[places] = value
        return array

    return edit


FORGERIES: dict[tuple[str, str], list[Edit]] = {
    ("profiles", "radii"): [lambda r: 3 * r, lambda r: r[::-1]],
    ("profiles", "values"): [lambda v: 0.9 * v, lambda v: v - 0.05, lambda v: 0 * v],
    ("profiles", "largest"): [lambda g: 0.5 * g, lambda g: 0.0 * g, lambda g: -1.0 + 0 * g],
    ("profiles", "weights"): [one(0, 1.0), lambda w: np.r_[np.zeros(3), 4.0], lambda w: -w],
    ("people", "weights"): [one(0, 1.0)],
    ("people", "x"): [one(4, 0.1), lambda x: x[::-1], lambda x: np.repeat(x[:1], len(x), 0), lambda x: x[:-1]],
    ("network", "1.weight"): [lambda w: 1.5 * w, lambda w: 0.5 * w, lambda w: w.T],
    ("network", "1.bias"): [lambda b: b + 1.0],
    ("network", "3.weight"): [lambda w: 2.0 * w, lambda w: 0.3 * w],
    ("network", "3.bias"): [lambda b: b - 1.0],
    ("network", "5.weight"): [lambda w: 1.5 * w, lambda w: 0.0 * w],
    ("network", "5.bias"): [one(0, 3.0)],
    ("network", "0.inputs"): [],
    ("network", "head"): [
        lambda h: "softmax" if h == "sigmoid" else "sigmoid",
        lambda h: "regression",
        lambda h: "other",
    ],
    ("network", "kinds"): [lambda k: np.where(k == "relu", "tanh", k), lambda k: np.where(k == "relu", "magic", k)],
    ("network", "1.inputs"): [lambda i: i + 1],
    ("metric", "free"): [setting(slice(28, 33), False), setting(slice(0, 4), True)],
    ("metric", "tolerance"): [lambda t: 0 * t, lambda t: 10 * t, lambda t: t + 0.5],
    ("metric", "relative"): [lambda r: 1000 * r],
    ("metric", "origin"): [lambda o: 0 * o],
    ("metric", "unit"): [lambda u: -u, lambda u: 100 * u],
    ("metric", "root"): [lambda r: np.eye(58) * 5.0],
    ("ground", "root"): [lambda r: 2.0 * r, lambda r: r[:, 1:]],
    ("ground", "order"): [lambda o: 1.0],
    ("ground", "free"): [lambda f: ~f],
    ("domain", "kind"): [lambda k: "unbounded"],
    ("domain", "low"): [lambda a: a + 0.1],
    ("domain", "high"): [lambda a: a - 0.1],
    ("domain", "blocks"): [lambda b: b[:-1] + 1],
    ("domain", "origin"): [lambda a: a + 0.5],
    ("domain", "unit"): [lambda a: 1.01 * a, lambda a: -a],
    ("domain", "immutable"): [setting(slice(28, 33), True), lambda f: ~f],
    ("witnesses", "owner"): [lambda o: o[::-1], lambda o: 0 * o],
    ("witnesses", "person"): [lambda z: z[::-1], one(4, 0.01)],
    ("witnesses", "counterpart"): [lambda y: y[::-1], one(4, 0.01), lambda y: 1 - y],
    ("witnesses", "cost"): [lambda c: 0.5 * c, lambda c: 0 * c],
    ("witnesses", "value"): [lambda v: 1.01 * v, lambda v: v + 1e-6, lambda v: 1 + 0 * v],
    ("witnesses", "mass"): [lambda m: m[::-1], lambda m: 2 * m, lambda m: -m, lambda m: np.r_[1, 0 * m[1:]]],
}
UNREAD = {  # by bounds: names for readers, slacks of merged layers, empty lists, and what this metric does not use
    ("network", "names"), ("network", "0.width"), ("domain", "fills"), ("domain", "integer"), ("people", "rows"),
    ("network", "2.parameters"), ("network", "4.parameters"), ("network", "2.inputs"), ("network", "3.inputs"),
    ("network", "4.inputs"), ("network", "5.inputs"), ("metric", "order"), ("ground", "tolerance"),
    ("ground", "relative"), ("ground", "origin"), ("ground", "unit"), ("network", "0.inputs"),
    *(("network", f"{i}.{part}") for i in (1, 3, 5) for part in ("weight_slack", "bias_slack", "roundings")),
}  # fmt: skip


def test_the_table_of_forgeries_is_complete(forger: Any) -> None:
    names = ("network", "people", "metric", "ground", "domain", "profiles", "witnesses")
    present = {(name, key) for name in names for key in forger.arrays(name)}
    assert present == set(FORGERIES) | UNREAD


SLOW = pytest.mark.slow
FORGED = [place for place in FORGERIES if FORGERIES[place]]
FIRST = dict(reversed(FORGED))
"""The fast tests forge all arrays that are proved or found, and the first of each other kind."""


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param(name, key, marks=() if name in ("profiles", "witnesses") or FIRST[name] == key else SLOW)
        for name, key in FORGED
    ],
)
def test_every_array_of_the_evidence(name: str, key: str, forger: Any) -> None:
    """With and without claims that follow from the forged arrays."""
    for edit in FORGERIES[name, key]:
        original, document = forger.arrays(name), copy.deepcopy(forger.document)
        forger.change(name, key, edit)
        for follows in (False, True):
            if follows:
                try:
                    forger.follow()
                except (ValueError, IndexError, KeyError):
                    continue  # not even the library makes claims of it
            # Other data has other weights in both places.
            if (name, key) == ("people", "weights") and follows:
                profiles = forger.arrays("profiles")
                forger.put("profiles", profiles | {"weights": forger.arrays("people")["weights"]})
            assert refused(forger.done()), (name, key, follows)
        forger.put(name, original)
        forger.document = document


def test_weaker_claims_that_are_true_do_no_harm(forger: Any) -> None:
    forger.change("profiles", "values", lambda v: 1.04 * v)
    forger.follow()
    found = verify(forger.done())
    assert found.accepted
    assert found.proved_upper < found.claimed_upper


# -- model and data in the hands of the reader -----------------------------------------------------------------


@pytest.mark.parametrize(("option", "name", "claim"), [("model", "network", "network"), ("data", "people", "people")])
def test_another_model_or_data_is_reported(option: str, name: str, claim: str, audit: Path, forger: Any) -> None:
    own = audit / "evidence" / f"{name}.npz"
    found = verify(audit, **{option: str(own)})
    assert found.accepted and (claim, "recomputed") in [each[:2] for each in found.claims]
    sha = forger.document["evidence"][name]["sha256"]
    assert verify(audit, **{option: sha.upper()}).accepted
    # The same network and people in other bytes: every claim is true, but it is not the file that was to be judged.
    forger.put(name, forger.arrays(name))
    forged = forger.done()
    assert verify(forged).accepted
    for given in (str(own), sha):
        found = verify(forged, **{option: given})
        assert not found.accepted
        assert (claim, "rejected") in [each[:2] for each in found.claims]
