"""What protected attributes alone change: claimed, derived again, and compared with listing everybody similar."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy import records
from isonomy.certificates import alone as alone_module
from isonomy.certificates.alone import change_held, changes_alone, questions
from isonomy.certificates.assembled import Assembled
from isonomy.certificates.local import certify_local
from isonomy.networks import Network
from isonomy.population import Feature, Label, Population, Schema
from isonomy_verify import verify
from isonomy_verify.text import BadInput

SCHEMA = Schema(
    "small",
    (
        Feature("sex", "categorical", categories=("f", "m"), protected=True),
        Feature("race", "categorical", categories=("a", "b", "c"), protected=True),
        Feature("age", "integer", low=20, high=24, protected=True),
        Feature("pay", low=0, high=1, tolerance=0.05),
    ),
    Label("y", ("no", "yes"), favourable=("yes",)),
)  # fmt: skip
ASKED = [("sex", "race", "age"), ("sex",), ("race",), ("age",)]


def certified(seed: int, head: str = "softmax") -> tuple[Any, Any]:
    rng, n = np.random.default_rng(seed), 25
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], n), "race": rng.choice(list("abc"), n),
                          "age": rng.integers(20, 25, n), "pay": rng.random(n).round(2)})  # fmt: skip
    outputs = 1 if head == "regression" else 2
    layers = [rng.normal(size=(6, SCHEMA.width)), rng.normal(size=(outputs, 6))]
    network = Network.from_layers(layers, [rng.normal(size=6), rng.normal(size=outputs)], head=head)
    schema = SCHEMA if head == "softmax" else replace(SCHEMA, label=Label("y"))
    people = Population.from_frame(frame, schema)
    metric = isonomy.Counterparts.of(schema)
    certificate = isonomy.certify(network, people, metric, 1.0, shift=isonomy.Part(1.0), progress=None)
    return certificate, changes_alone(certificate, questions(schema, set(schema.slices)))


def everybody(features: tuple[str, ...], x: Any) -> Any:
    """All possible people who differ from one in these features only."""
    blocks = []
    for name in features:
        feature = SCHEMA[name]
        values = (
            np.eye(feature.width)
            if feature.categories
            else (np.arange(20, 25)[:, None] - feature.origin) / feature.unit
        )
        blocks.append((SCHEMA.slices[name], values))
    for chosen in product(*(values for _, values in blocks)):
        y = x.copy()
        for (where, _), value in zip(blocks, chosen, strict=True):
            y[where] = value
        yield y


@pytest.mark.parametrize("seed", range(3))
def test_the_claims_are_those_of_listing_everybody(seed: int, tmp_path: Path) -> None:
    certificate, alone = certified(seed)
    assert [each.features for each in alone] == ASKED
    model, x = certificate.problem.model, certificate.x
    for change in alone:
        change_, flips = [], []
        for person in x:
            given = model(np.stack(list(everybody(change.features, person))))
            mine = model(person[None])
            change_.append(np.abs(given - mine).max())
            flips.append(((given[:, 1] >= given[:, 0]) != (mine[:, 1] >= mine[:, 0])).any())
        local, truth, turned = change.certificate, np.array(change_), np.array(flips)
        assert (local.lower <= truth + 1e-9).all() and (truth <= local.upper + 1e-12).all()
        assert not turned[local.decision == "certified"].any() and turned[local.decision == "flippable"].all()
    records.write(tmp_path, certificate, alone=alone)
    found = verify(tmp_path)
    assert found.accepted
    assert {f'only "{name}"' for name in ("sex", "race", "age")} < {name for name, _, _ in found.claims}
    said = json.loads((tmp_path / "certificate.json").read_text())["predicate"]["claims"]["alone"]
    assert [each["features"] for each in said] == [list(each) for each in ASKED]
    for each, change in zip(said, alone, strict=True):
        assert change.certificate.mean_upper <= each["upper"] and each["lower"] <= change.certificate.mean_lower


@pytest.mark.parametrize("seed", range(3))
def test_what_changes_while_attributes_are_held_is_claimed_and_derived(seed: int, tmp_path: Path) -> None:
    certificate, alone = certified(seed)
    change = change_held(certificate, ASKED[0])
    assert change is not None and change.held and change.claimed is not None
    model, x, place = certificate.problem.model, certificate.x, SCHEMA.slices["pay"].start
    local = change.certificate
    for person, lower, upper, decision in zip(x, local.lower, local.upper, local.decision, strict=True):
        others = np.repeat(person[None], 201, axis=0)
        others[:, place] = np.clip(person[place] + np.linspace(-0.05, 0.05, 201), 0, 1)
        given, mine = model(others), model(person[None])
        truth = np.abs(given - mine).max()
        turned = ((given[:, 1] >= given[:, 0]) != (mine[:, 1] >= mine[:, 0])).any()
        assert lower <= upper and truth <= upper + 1e-12 and truth - 1e-3 <= lower + 0.02
        assert not (turned and decision == "certified")
    own = local.witnesses.counterpart
    held = [place for name in ASKED[0] for place in range(SCHEMA.slices[name].start, SCHEMA.slices[name].stop)]
    assert (np.asarray(own)[:, held] == x[:, held]).all() and (np.asarray(own) != x).any()
    assert (local.upper <= certificate.local.upper + 1e-9).all()
    records.write(tmp_path, certificate, alone=[*alone, change])
    found = verify(tmp_path)
    name = 'all but "sex", "race", "age"'
    assert found.accepted and {name, f"witnesses, {name}", f"bounds, {name}"} < {each for each, _, _ in found.claims}
    said = json.loads((tmp_path / "certificate.json").read_text())["predicate"]["claims"]["alone"]
    assert [each.get("held", False) for each in said] == [False] * len(ASKED) + [True]

    def status_of(lie: Any) -> set[str]:
        records.write(tmp_path, certificate, alone=[*alone, change])
        lie()
        return {each for each, status, _ in verify(tmp_path).claims if status == "rejected"}

    def halve(array: Any) -> None:
        array *= 0.5

    last = f"alone.{len(ASKED)}"
    assert f"bounds, {name}" in status_of(lambda: forged(tmp_path, f"{last}.upper", halve))

    def other_sex(array: Any) -> None:
        array.reshape(-1, SCHEMA.width)[:, [0, 1]] = array.reshape(-1, SCHEMA.width)[:, [1, 0]]

    assert f"witnesses, {name}" in status_of(lambda: forged(tmp_path, f"{last}.counterpart", other_sex))

    def as_free(predicate: Any) -> None:
        del predicate["claims"]["alone"][-1]["held"]

    assert status_of(lambda: edit(tmp_path, as_free)), "bounds of a smaller question do not hold of another one"

    def not_true(predicate: Any) -> None:
        predicate["claims"]["alone"][-1]["held"] = False

    with pytest.raises(BadInput):
        status_of(lambda: edit(tmp_path, not_true))


def test_nothing_is_asked_of_what_is_held_where_nothing_else_differs() -> None:
    certificate, _ = certified(0)
    same = replace(SCHEMA, features=tuple(replace(each, tolerance=None) for each in SCHEMA.features))
    metric = isonomy.Counterparts.of(same)
    alike = isonomy.certify(certificate.problem.model, certificate.people, metric, 1.0, progress=None)
    assert change_held(alike, ASKED[0]) is None and change_held(certificate, ()) is None


def evidence(path: Path, certificate: Any, asked: Any) -> dict[str, bytes]:
    records.write(path, certificate, alone=asked)
    return {file.name: file.read_bytes() for file in sorted((path / "evidence").iterdir())}


@pytest.mark.parametrize("head", ["softmax", "regression"])
def test_in_files_they_are_the_same(head: str, tmp_path: Path) -> None:
    certificate, asked = certified(2, head)
    filed = changes_alone(certificate, [each.features for each in asked], tmp_path / "work")
    for each in filed:
        pairs = each.certificate.witnesses
        assert isinstance(each.certificate.upper, np.memmap) and isinstance(each.claimed.lower, np.memmap)
        assert isinstance(pairs.counterpart, Assembled) and isinstance(pairs.counterpart.value, np.memmap)
    assert evidence(tmp_path / "one", certificate, asked) == evidence(tmp_path / "other", certificate, filed)
    assert verify(tmp_path / "other").accepted


def test_block_by_block_they_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate, asked = certified(0)
    blocks: list[int] = []

    def counted(problem: Any, x: Any, **options: Any) -> Any:
        blocks.append(len(x))
        return certify_local(problem, x, **options)

    monkeypatch.setattr(alone_module, "ROWS", 9)
    monkeypatch.setattr(alone_module, "block_rows", lambda bounds, x: 4)
    monkeypatch.setattr(alone_module, "certify_local", counted)
    others = changes_alone(certificate, [each.features for each in asked])
    assert blocks == [8, 8, 8, 1] * len(asked)
    assert len({kind for each in asked for kind in each.certificate.decision}) > 1
    for one, other in zip(asked, others, strict=True):
        mine, theirs = one.certificate, other.certificate
        assert np.array_equal(mine.decision, theirs.decision)
        for name in ("upper", "lower"):
            assert getattr(mine, name) == pytest.approx(getattr(theirs, name), abs=1e-9)
        for name in ("counterpart", "flip_counterpart"):
            own, their = (np.asarray(getattr(each.witnesses, name)) for each in (mine, theirs))
            assert own == pytest.approx(their, abs=1e-9) and (own != certificate.x).any()
    records.write(tmp_path, certificate, alone=others)
    assert verify(tmp_path).accepted


def test_a_regression_has_them_without_decisions(tmp_path: Path) -> None:
    certificate, alone = certified(5, "regression")
    records.write(tmp_path, certificate, alone=alone)
    assert verify(tmp_path).accepted


def forged(path: Path, name: str, change: Any) -> None:
    """Change an array of the evidence, and its hash and the claims with it."""
    import hashlib

    file = path / "evidence" / f"{name}.bin"
    array = np.fromfile(file, np.uint8 if name.endswith("decision") else np.float64)
    change(array)
    file.write_bytes(array.tobytes())
    document = json.loads((path / "certificate.json").read_text())
    for each in document["subject"]:
        if each["name"] == f"evidence/{name}.bin":
            each["digest"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (path / "certificate.json").write_text(json.dumps(document))


def edit(path: Path, change: Any) -> None:
    document = json.loads((path / "certificate.json").read_text())
    change(document["predicate"])
    (path / "certificate.json").write_text(json.dumps(document))


def test_lies_are_rejected(tmp_path: Path) -> None:
    """A bound that is too low, a decision said to stay that does not, a witness of another feature, another mean."""
    certificate, alone = certified(0)
    flips = next(i for i, each in enumerate(alone) if (each.certificate.decision == "flippable").any())

    def rejected(lie: Any) -> set[str]:
        records.write(tmp_path, certificate, alone=alone)
        lie()
        return {name for name, status, _ in verify(tmp_path).claims if status == "rejected"}

    def halve(array: Any) -> None:
        array *= 0.5

    assert rejected(lambda: None) == set()
    assert any(name.startswith("bounds, only") for name in rejected(lambda: forged(tmp_path, "alone.1.upper", halve)))

    def certify_all(array: Any) -> None:
        array[:] = 1

    with pytest.raises(BadInput):  # the witnesses are then too many
        rejected(lambda: forged(tmp_path, f"alone.{flips}.decision", certify_all))

    def other_pay(array: Any) -> None:
        array[SCHEMA.slices["pay"].start :: SCHEMA.width] = 0.123

    assert any(
        name.startswith("witnesses, only")
        for name in rejected(lambda: forged(tmp_path, "alone.1.counterpart", other_pay))
    )

    def smaller(predicate: Any) -> None:
        predicate["claims"]["alone"][0]["upper"] = 0.0

    assert any(name.startswith('only "') for name in rejected(lambda: edit(tmp_path, smaller)))

    def unknown(predicate: Any) -> None:
        predicate["claims"]["alone"][0]["features"] = ["height"]

    with pytest.raises(BadInput, match="schema lacks"):
        rejected(lambda: edit(tmp_path, unknown))


def test_rows_are_withheld_with_their_witnesses(tmp_path: Path) -> None:
    certificate, alone = certified(1)
    records.write(tmp_path, certificate, alone=alone, redact=True)
    there = {file.name for file in (tmp_path / "evidence").iterdir()}
    assert "alone.0.upper.bin" in there and not any("counterpart" in name for name in there)
    assert verify(tmp_path).result == "not accepted"
    full = tmp_path / "full"
    records.write(full, certificate, alone=alone)
    assert verify(tmp_path, data=full / "evidence").accepted
