"""What is decided belongs to the question: another class or cut-off is another question, and is checked as one."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy import Network, records
from isonomy.population import Feature, Label, Population, Schema
from isonomy.population.outcome import decided as rule
from isonomy_verify import BadInput, verify
from isonomy_verify.definitions import head_of
from isonomy_verify.individuals import CERTIFIED, FLIPPABLE

from .conftest import SMALL, Forger, statuses


def ask(forger: Forger, **changes: Any) -> None:
    """Another outcome, in the question and in the schema."""
    forger.question |= changes
    forger.table("schema.toml", lambda table: table["label"].update(changes))


@pytest.mark.parametrize(
    "change",
    [
        {"favourable": ["2"]}, {"favourable": []}, {"threshold": 0.5}, {"threshold": 0.9},
        {"favourable": ["2"], "threshold": 0.5}, {"classes": ["1", "2"]}, {"classes": []}, {"classes": ["a", "b"]},
        {"favourable": ["2", "1"]}, {"favourable": ["0"]}, {"favourable": "1"}, {"threshold": 0.0}, {"threshold": "1"},
    ],
)  # fmt: skip
def test_a_question_that_was_changed_by_hand_is_refused(change: dict[str, Any], decided: Path, tmp_path: Path) -> None:
    forger = Forger(decided, tmp_path)
    assert forger.question["classes"] == ["2", "1"] and forger.question["favourable"] == ["1"]
    forger.question |= change
    with pytest.raises(BadInput, match=r"certificate\.json|question"):
        verify(forger.done())


@pytest.mark.parametrize("favourable", ["2", "1"])
def test_decisions_are_derived_by_the_cut_off_that_is_printed(favourable: str, decided: Path, tmp_path: Path) -> None:
    """With somebody's own score as the cut-off, their decision is no longer certain: the claim is rejected."""
    honest = records.read(decided)
    assert honest.people is not None
    forger = Forger(decided, tmp_path)
    sure = np.flatnonzero(forger.array("local.decision") == CERTIFIED)
    score = float(honest.problem.model(honest.people.x[sure[:1]])[0, ["2", "1"].index(favourable)])
    ask(forger, favourable=[favourable], threshold=score)
    found = verify(forger.done())
    assert not found.accepted and statuses(found)["decisions"] == "rejected"
    assert f'favourable "{favourable}"' in found.question["outcome"]


def test_another_favourable_class_alone_is_printed(decided: Path, tmp_path: Path) -> None:
    """Of two classes without a cut-off the same people have the same decision, but for ties: it is another question."""
    forger = Forger(decided, tmp_path)
    ask(forger, favourable=["2"])
    found = verify(forger.done())
    assert found.accepted and 'favourable "2"' in found.question["outcome"]
    assert 'favourable "1"' in verify(decided / "certificate.json").question["outcome"]


def test_two_sigmoids_have_no_cut_off() -> None:
    asked = {"head": "sigmoid", "classes": ["0", "1"], "favourable": [], "threshold": 0.5, "arithmetic": "float64"}
    with pytest.raises(BadInput, match="'threshold'"):
        head_of({}, asked, 2)
    assert head_of({}, asked, 1).threshold == 0.5


@pytest.mark.parametrize("head", ["softmax", "sigmoid", "regression"])
@pytest.mark.parametrize(("place", "cut"), [(0, "own"), (1, "own"), (0, 1e-9), (1, 1 - 2.0**-53), (0, 0.1 + 0.2)])
def test_cut_offs_survive_writing_and_false_decisions_do_not(head: Any, place: int, cut: Any, tmp_path: Path) -> None:
    """A record is accepted and read with the very cut-off; somebody whom a similar person flips cannot be certified,
    nor somebody flippable by a person who is decided the same."""
    rng, outputs = np.random.default_rng(3), 2 if head == "softmax" else 1
    classes = () if head == "regression" else ("no", "yes")
    favourable = (classes or ("low", "high"))[place]
    either = Feature("b", "categorical", categories=("u", "v"), protected=True)
    schema = Schema("s", (Feature("a", "integer", low=0, high=6, relative_tolerance=0.5), either), Label("y", classes))
    rows = pd.DataFrame(list(itertools.product(range(7), "uv")), columns=["a", "b"])
    people = Population.from_frame(rows.assign(y=classes[0] if classes else 0.0), schema)
    network = Network.from_layers(
        [4 * rng.normal(size=(4, 3)), rng.normal(size=(outputs, 4))], [rng.normal(size=4), np.zeros(outputs)], head=head
    )
    given = network(people.x)
    threshold = float(np.median(given[:, place if classes else 0])) if cut == "own" else cut
    found = isonomy.certify(
        network, people, isonomy.Counterparts.of(people.schema), gamma=0.0, favourable=favourable, threshold=threshold,
        decide=True, attack=SMALL, progress=None,
    )  # fmt: skip
    records.write(tmp_path / "honest", found)
    assert verify(tmp_path / "honest").accepted
    outcome = records.read(tmp_path / "honest").problem.outcome
    assert outcome.threshold == threshold and outcome.favourable == (favourable,)
    label = Label("y", classes, favourable=(favourable,), threshold=threshold)
    mine = rule(given, label, regression=not classes)
    a = people.frame["a"].to_numpy()
    alike = np.maximum.outer(a, a) <= 1.5 * np.minimum.outer(a, a)
    turned = (alike & (mine[:, None] != mine)).any(axis=1)
    for row in np.flatnonzero(turned)[:2]:
        forger = Forger(tmp_path / "honest", tmp_path / f"certified {row}")
        others = np.flatnonzero(forger.array("local.decision") == FLIPPABLE) != row
        forger.put("local.flip_counterpart", forger.array("local.flip_counterpart")[others])
        forger.change("local.decision", lambda said, row=row: np.where(np.arange(len(said)) == row, CERTIFIED, said))
        others = forger.array("turned.owner") != row
        for name in ("owner", "cost", "mass"):
            forger.change(f"turned.{name}", lambda array, others=others: array[others])
        assert statuses(verify(forger.done()))["decisions"] == "rejected"
    sure = Forger(tmp_path / "honest", tmp_path).array("local.decision") == CERTIFIED
    for row in np.flatnonzero(~turned & sure)[:2]:
        forger = Forger(tmp_path / "honest", tmp_path / f"flippable {row}")
        at = int((forger.array("local.decision")[:row] == FLIPPABLE).sum())
        same = people.x[np.flatnonzero(alike[row])[-1]]
        forger.put("local.flip_counterpart", np.insert(forger.array("local.flip_counterpart"), at, same, axis=0))
        forger.change("local.decision", lambda said, row=row: np.where(np.arange(len(said)) == row, FLIPPABLE, said))
        assert statuses(verify(forger.done()))["witnesses"] == "rejected"
