"""What a forger edits: claims, questions, arrays, texts, links, signatures; each gives a function of the forger."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from isonomy.records.writing import _signed
from isonomy_verify.individuals import DECISIONS, FLIPPABLE

from .conftest import Forger

Edit = Callable[[Forger], None]


def nothing(_: Forger) -> None:
    """Nothing more."""


def claim(name: str, value: Any) -> Edit:
    """Another claim, and the verdict that it gives."""

    def edit(forger: Forger) -> None:
        forger.claims[name] = value(forger.claims[name]) if callable(value) else value
        if name in ("upper", "lower") and isinstance(forger.claims[name], int | float):
            forger.judge()

    return edit


def ask(name: str, value: Any) -> Edit:
    def edit(forger: Forger) -> None:
        asked = forger.question["shift"] if name in forger.question["shift"] else forger.question
        asked[name] = value(asked[name]) if callable(value) else value

    return edit


def array(name: str, change: Callable[[Any], Any], follows: bool = False) -> Edit:
    def edit(forger: Forger) -> None:
        forger.change(name, change)
        if follows:
            forger.follow()

    return edit


def both(*edits: Edit) -> Edit:
    def edit(forger: Forger) -> None:
        for each in edits:
            each(forger)

    return edit


def follow(forger: Forger) -> None:
    forger.follow()


def at(place: Any, value: Any) -> Callable[[Any], Any]:
    """One entry, row or part of an array is another."""

    def change(found: Any) -> Any:
        found[place] = value(found[place]) if callable(value) else value
        return found

    return change


def times(factor: float) -> Callable[[Any], Any]:
    return lambda found: factor * found


def plus(step: float) -> Callable[[Any], Any]:
    return lambda found: found + step


def bad(name: str) -> list[Edit]:
    """Numbers that are none, too large or of the wrong sign, and arrays of another shape."""
    first = lambda value: lambda found: np.r_[value, found.ravel()[1:]].reshape(found.shape)  # noqa: E731
    return [
        array(name, first(np.nan)), array(name, first(-1.0)), array(name, lambda found: found[:-1]),
        array(name, lambda found: found[..., None]),
    ]  # fmt: skip


def in_profiles(which: str, change: Callable[[Any], Any]) -> Edit:
    """Bounds at radius 0, beyond, of the first or of every other individual; the claims follow."""

    def edit(forger: Forger) -> None:
        radius, count, value = (forger.array(f"profiles.{name}") for name in ("radius", "count", "value"))
        owner = np.repeat(np.arange(len(count)), count)
        some = {"own": radius == 0, "far": radius > 0, "first": owner == 0, "even": owner % 2 == 0}[which]
        value[some] = np.maximum(0.0, change(value[some]))
        forger.put("profiles.value", value)
        forger.follow()

    return edit


def exchanged(forger: Forger) -> None:
    """The individuals with the lowest and the highest claim exchange their profiles."""
    count, start = forger.array("profiles.count"), np.append(0, np.cumsum(forger.array("profiles.count")))
    own = forger.array("profiles.value")[start[:-1]]
    order = np.arange(len(count))
    low, high = int(own.argmin()), int(own.argmax())
    order[[low, high]] = high, low
    places = np.concatenate([np.arange(start[i], start[i + 1]) for i in order])
    for name in ("radius", "value", "pass"):
        forger.put(f"profiles.{name}", forger.array(f"profiles.{name}")[places])
    forger.put("profiles.count", count[order])
    forger.follow()


def sources(value: Any) -> Edit:
    """Hostile hints, and bounds that would need better ones."""

    def edit(forger: Forger) -> None:
        found = forger.array("profiles.passes")
        forger.put("profiles.passes", value(found) if callable(value) else np.full_like(found, value))
        forger.change("profiles.value", times(0.97))
        forger.follow()

    return edit


def passes(value: Any) -> Edit:
    """Hostile numbers of passes, and bounds that would need better ones."""

    def edit(forger: Forger) -> None:
        forger.put("profiles.pass", value(forger.array("profiles.pass")))
        forger.change("profiles.value", times(0.97))
        forger.follow()

    return edit


def weight_on(highest: bool) -> Edit:
    """More weight for whom the most (or, followed by lower profiles, the least) is claimed."""

    def edit(forger: Forger) -> None:
        start = np.append(0, np.cumsum(forger.array("profiles.count")))[:-1]
        own = forger.array("profiles.value")[start]
        place = int(own.argmax() if highest else own.argmin())
        forger.change("people.weights", at(place, lambda weight: 50 * weight))

    return edit


def all_as(which: str) -> Edit:
    """Everybody is the individual of whom the most is claimed."""

    def edit(forger: Forger) -> None:
        start = np.append(0, np.cumsum(forger.array("profiles.count")))[:-1]
        place = int(forger.array("profiles.value")[start].argmax())
        forger.change("people.x", lambda x: np.repeat(x[place : place + 1], len(x), 0) if which == "all" else x[::-1])

    return edit


def used(name: str, change: Callable[[Any], Any]) -> Edit:
    """Witnesses that the lower bound stands on."""

    def edit(forger: Forger) -> None:
        some = forger.array("points.mass") > 0
        forger.change(f"points.{name}", at(some, change))

    return edit


def heavier(forger: Forger) -> None:
    """All mass of everybody on their worst witness, and that of others besides."""
    mass, value = forger.array("points.mass"), forger.array("points.value")
    best = int((value * (mass > 0)).argmax())
    mass[best] += 0.5 * mass.sum()
    forger.put("points.mass", mass)
    forger.claims["lower"] = round(forger.claims["lower"] * 1.02, 6)
    forger.judge()


def hidden_budget(forger: Forger) -> None:
    """The costs of what has moved are said to be 0."""
    forger.change("points.cost", lambda cost: 0 * cost)


def node(kind: str) -> int:
    return {"first": 1, "second": 3, "last": 5}[kind]


def spoiled(name: str, change: Callable[[bytes], bytes]) -> Edit:
    """Bytes of a file, the shape as it was."""

    def edit(forger: Forger) -> None:
        file = forger.file(name)
        before = file.read_bytes()
        file.write_bytes(change(before))
        assert file.read_bytes() != before

    return edit


def shaped(name: str, shape: Callable[[list[int]], Any]) -> Edit:
    def edit(forger: Forger) -> None:
        forger.predicate["arrays"][name] = shape(forger.predicate["arrays"][name])

    return edit


def withheld(*names: str, gone: bool = True) -> Edit:
    def edit(forger: Forger) -> None:
        forger.predicate["withheld"] = list(names)
        for name in names if gone else ():
            forger.file(name).unlink()

    return edit


def said(where: str, **more: Any) -> Edit:
    def edit(forger: Forger) -> None:
        part = forger.predicate if where == "predicate" else forger.predicate[where]
        part |= more

    return edit


def dropped(where: str, key: str) -> Edit:
    def edit(forger: Forger) -> None:
        del (forger.predicate if where == "predicate" else forger.predicate[where])[key]

    return edit


def selection(**more: Any) -> Edit:
    def edit(forger: Forger) -> None:
        forger.predicate["selection"] |= more

    return edit


def population(**more: Any) -> Edit:
    def edit(forger: Forger) -> None:
        forger.claims["population"] = {"upper": 0.01, "multiplier": forger.claims["multiplier"]} | more
        forger.question["confidence"] = forger.question["confidence"] or 0.8

    return edit


def text(old: str, new: str) -> Edit:
    """After all hashes: the letters of the document."""

    def edit(forger: Forger) -> None:
        path = forger.directory / "certificate.json"
        content = path.read_text()
        assert old in content
        path.write_text(content.replace(old, new, 1))

    return edit


def linked(forger: Forger) -> None:
    """The people are a link to a file outside, of other people."""
    outside = forger.directory.parent / "outside.bin"
    all_as("all")(forger)
    forger.array("people.x").tofile(outside)
    forger.file("people.x").unlink()
    forger.file("people.x").symlink_to(outside)


def named_like_a_hash(forger: Forger) -> None:
    """The document names the hash of a file in the working directory, which is called by that hash."""
    entry = next(each for each in forger.document["subject"] if each["name"] == "evidence/people.x.bin")
    other = np.zeros_like(forger.array("people.x")).tobytes()
    digest = hashlib.sha256(other).hexdigest()
    for place in (forger.directory, forger.directory / "evidence", Path.cwd()):
        (place / digest).write_bytes(other)
    entry["digest"]["sha256"] = digest
    (forger.directory / "certificate.json").write_text(json.dumps(forger.document))


def wrong_hash(name: str) -> Edit:
    def edit(forger: Forger) -> None:
        entry = next(each for each in forger.document["subject"] if each["name"] == f"evidence/{name}.bin")
        entry["digest"]["sha256"] = "0" * 64
        (forger.directory / "certificate.json").write_text(json.dumps(forger.document))

    return edit


def unnamed(name: str) -> Edit:
    def edit(forger: Forger) -> None:
        forger.document["subject"] = [
            each for each in forger.document["subject"] if each["name"] != f"evidence/{name}.bin"
        ]
        (forger.directory / "certificate.json").write_text(json.dumps(forger.document))

    return edit


def stale(payload: bool) -> Edit:
    """An envelope that signs another document, or nothing."""

    def edit(forger: Forger) -> None:
        key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        content = (forger.directory / "certificate.json").read_bytes()
        envelope = json.loads(_signed(b"{}" if payload else content + b" ", key))
        if not payload:
            envelope["payload"] = base64.b64encode(content).decode()
        (forger.directory / "certificate.dsse.json").write_text(json.dumps(envelope))

    return edit


def extra_network(name: str, value: Callable[[Forger], Any]) -> Edit:
    def edit(forger: Forger) -> None:
        forger.put(f"model.{name}", value(forger))

    return edit


def kinds(old: str, new: str) -> Edit:
    def edit(forger: Forger) -> None:
        found = forger.predicate["model"]["kinds"]
        forger.predicate["model"]["kinds"] = [new if kind == old else kind for kind in found]

    return edit


def decisions(of: str, to: str, one: bool = False) -> Edit:
    """Decisions of one kind are said to be of another, with somebody for a witness: they themselves."""

    def edit(forger: Forger) -> None:
        said, flips = forger.array("local.decision"), FLIPPABLE
        some = np.flatnonzero(said == DECISIONS.index(of))
        assert len(some)
        rows = np.zeros((len(said), forger.array("people.x").shape[1]))
        rows[said == flips] = forger.array("local.flip_counterpart")
        some = some[:1] if one else some
        rows[some], said[some] = forger.array("people.x")[some], DECISIONS.index(to)
        forger.put("local.decision", said)
        forger.put("local.flip_counterpart", rows[said == flips])

    return edit


def local(**more: Any) -> Edit:
    """Other means and counts than the arrays give."""

    def edit(forger: Forger) -> None:
        for name, change in more.items():
            part, _, key = name.partition("_")
            if key:
                forger.claims["local"][part][key] = change(forger.claims["local"][part].get(key, 0))
            else:
                forger.claims["local"][part] = change(forger.claims["local"][part])

    return edit


def exchanged_witnesses(name: str) -> Edit:
    """Everybody has somebody else's witness."""
    return array(f"local.{name}", lambda rows: np.roll(rows, 1, axis=0))


def toml(name: str, **parts: Any) -> Edit:
    """Other numbers of a metric; None: it has none."""

    def edit(forger: Forger) -> None:
        def change(table: dict[str, Any]) -> None:
            for part, value in parts.items():
                table[part] = value(table[part]) if callable(value) else value

        forger.table(f"{name}.toml", change)

    return edit


def bad_list(name: str, part: str) -> list[Edit]:
    """Numbers that are none or of the wrong sign, too few or too many, or no list of numbers."""
    changes: list[Callable[[list[Any]], Any]] = [
        lambda found: [math.nan, *found[1:]], lambda found: [-1.0, *found[1:]], lambda found: found[:-1],
        lambda found: [*found, 1.0], lambda found: [found], lambda found: [str(found[0]), *found[1:]],
        lambda found: [True, *found[1:]], lambda found: 1.0,
    ]  # fmt: skip
    return [toml(name, **{part: change}) for change in changes]


def as_root(name: str, root: Callable[[int], Any]) -> Edit:
    """The metric is one of another root."""
    return lambda f: f.text(
        f"{name}.toml", f'kind = "mahalanobis"\nwidth = 58\nroot = {str(root(58)).replace(chr(39), chr(34))}\n'
    )


def feature(name: str, **parts: Any) -> Edit:
    """A feature of the schema is another one."""

    def edit(forger: Forger) -> None:
        def change(table: dict[str, Any]) -> None:
            for part, value in parts.items():
                own = table["features"][name]
                own[part] = value(own[part]) if callable(value) else value

        forger.table("schema.toml", change)

    return edit


def largest_leaf(factor: float) -> Callable[[Any], Any]:
    """One leaf, the largest, has another value."""

    def change(values: Any) -> Any:
        values.ravel()[np.abs(values).argmax()] *= factor
        return values

    return change


def dropped_tree(hidden: bool) -> Edit:
    """The first tree is not counted; hidden, its leaves are all 0."""

    def edit(forger: Forger) -> None:
        stop = int(forger.array("model.roots")[1])
        if hidden:
            forger.change("model.values", at(slice(0, stop), 0.0))
            return
        for name in ("roots", "output"):
            forger.change(f"model.{name}", lambda array: array[1:])

    return edit


def without_array(name: str) -> Edit:
    def edit(forger: Forger) -> None:
        del forger.predicate["arrays"][name]
        forger.file(name).unlink()
        forger.document["subject"] = [
            each for each in forger.document["subject"] if each["name"] != f"evidence/{name}.bin"
        ]

    return edit
