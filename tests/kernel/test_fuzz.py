"""The fuzzer's networks and regions, the kernel's bounds, truth in ball arithmetic."""

from __future__ import annotations

import pytest

pytest.importorskip("tests.fuzz.cases", reason="the fuzzer (tests.fuzz) is not here")

from isonomy_verify import arithmetic, sweep

from .engine import outcome


def run(numbers: range) -> list[str]:
    found = [outcome(number) for number in numbers]
    bad = [said for said in found if said.startswith("case")]
    assert not bad, f"{len(bad)} cases, the first: {bad[0]}"
    return found


@pytest.mark.parametrize("start", range(0, 96, 32))
def test_every_bound_holds(start: int) -> None:
    found = run(range(start, start + 32))
    assert found.count("refused") <= found.count("held")


@pytest.mark.parametrize("start", range(96, 192, 48))
def test_every_bound_holds_in_float32_products(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which only wide networks have otherwise."""
    monkeypatch.setattr(arithmetic, "WIDE", 1)
    monkeypatch.setattr(sweep, "WIDE", 1)
    run(range(start, start + 48))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(96, 2496, 240))
def test_every_bound_holds_in_more_cases(start: int) -> None:
    run(range(start, start + 240))


@pytest.mark.long
@pytest.mark.parametrize("start", range(2496, 102_496, 1000))
def test_every_bound_holds_in_a_campaign(start: int) -> None:
    run(range(start, start + 1000))
