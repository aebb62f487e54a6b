"""What is decided belongs to the question: another class or cut-off is another question, and is checked as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isonomy import records
from isonomy_verify import BadInput, verify
from isonomy_verify.definitions import head_of
from isonomy_verify.individuals import CERTIFIED

from .conftest import Forger, statuses


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
    score = float(honest.network(honest.people.x[sure[:1]])[0, ["2", "1"].index(favourable)])
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
