"""Majorants for networks of any width: what is tested is small."""

from __future__ import annotations

import pytest

from isonomy_verify import prepared as preparation


@pytest.fixture(autouse=True)
def majorants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "NARROW", 0)
