"""A campaign of mutants that was stopped goes on where it ended."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kernel import mutants

from isonomy_verify.arithmetic import up

WORKS = {0: lambda: up(np.ones(1)).tolist(), 1: lambda: up(np.zeros(1)).tolist()}


def campaign(file: Path, most: int = 0, fresh: bool = False) -> mutants.Campaign:
    """Six mutants of a small module."""
    given = argparse.Namespace(results=file, most=most, fresh=fresh, only="arithmetic", sample=6, seed=0)
    given.again, given.whole = "", True
    return mutants.Campaign(given)


def keys(file: Path) -> list[str]:
    return [line["key"] for line in mutants.kept_lines(file)]


def ask(mutant: mutants.Mutant, cases: mutants.Cases, known: Any) -> str:
    return "same"


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mutants.jsonl"
    campaign(file, most=2).run(WORKS, ask, 1.0)
    assert len(keys(file)) == 2
    with file.open("a", encoding="utf-8") as torn:  # killed while it wrote
        torn.write('{"key": "abc", "resu')

    def killed(self: mutants.Campaign, mutant: mutants.Mutant) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mutants.Campaign, "_line", killed)
        campaign(file).run(WORKS, ask, 1.0)
    assert len(keys(file)) == 3
    works, own = [], mutants.in_a_process

    def in_a_process(work: Any) -> Any:
        works.append(work.func)
        return own(work)

    monkeypatch.setattr(mutants, "in_a_process", in_a_process)
    campaign(file).run(WORKS, ask, 1.0)
    assert mutants.traced not in works, "the lines of cases are kept"
    assert sorted(keys(file)) == sorted(mutant.key for mutant in campaign(file).chosen)


def test_other_code_is_asked_again_where_that_is_wanted(tmp_path: Path) -> None:
    file = tmp_path / "mutants.jsonl"
    campaign(file).run(WORKS, ask, 1.0)
    kept = mutants.kept_lines(file)
    file.write_text("".join(json.dumps(line | {"code": "other"}) + "\n" for line in kept), encoding="utf-8")
    assert len(campaign(file).results) == campaign(file).others == 6
    assert not campaign(file, fresh=True).results
