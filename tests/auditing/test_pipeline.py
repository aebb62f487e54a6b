"""The command as a function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import isonomy
from isonomy.errors import IsonomyError

OPTIONS: dict[str, Any] = {"data": "german", "limit": 12, "tier": "interval", "no_search": True, "against": []}


def test_an_audit_is_made_saved_and_shown(tmp_path: Path) -> None:
    found = isonomy.audit(OPTIONS, work=tmp_path / "work", progress=None)
    assert len(found.certificate) == 12 and found.certificate.upper > 0
    assert found.report().startswith("<!DOCTYPE html>") and "german" in str(found)
    written = found.save(tmp_path / "out")
    document = json.loads((written / "certificate.json").read_text())
    assert document["predicate"]["claims"]["upper"] == found.findings.claimed[1] >= found.certificate.upper
    (tmp_path / "audit.toml").write_text('data = "german"\nlimit = 12\ntier = "interval"\nno_search = true\n')
    again = isonomy.audit(tmp_path / "audit.toml", work=tmp_path / "work", progress=None)
    assert again.plan == found.plan and again.certificate.computed == 0


@pytest.mark.parametrize("plan", [5, {"tables": "german"}, "nowhere.toml", {"gamma": -1.0}])
def test_what_is_no_plan_is_refused(plan: Any) -> None:
    with pytest.raises(IsonomyError) as caught:
        isonomy.audit(plan)
    assert "\n" not in str(caught.value)
