"""Bounds are what they were, up to rounding; see :mod:`tests.kernel.numbers`."""

from __future__ import annotations

import json

import pytest

from .numbers import FILE, numbers, same


@pytest.fixture(autouse=True)
def majorants() -> None:
    """Where they pay, as for users: what was kept was computed so."""


def test_bounds_are_what_they_were() -> None:
    kept, found = json.loads(FILE.read_text(encoding="utf-8")), numbers()
    changed = [name for name, values in kept.items() if name not in found or not same(values, found[name])]
    assert not changed, f"{len(changed)} of {len(kept)} questions have other bounds: {changed[:5]}"


def test_a_change_is_seen() -> None:
    assert same([1.0, float("inf")], [1.0 + 1e-12, float("inf")])
    for other in ([1.0 + 1e-6], [float("nan")], [float("inf")], [], [1.0, 1.0]):
        assert not same([1.0], other)
