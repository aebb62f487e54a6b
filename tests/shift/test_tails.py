"""Of a drift of everybody: shares of people who must have moved further, never above the truth but with the risk."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.certificates.indices import DriftColumn, tails


def column(old: np.ndarray, new: np.ndarray, own: bool) -> DriftColumn:
    move = 0.1 * np.abs(old) if own else np.full(len(old), 0.5)
    return DriftColumn("age", old, old - move, old + move, new)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("ratio", "strangers"), [(1.0, 0.0), (4.0, 0.0), (2.0, 0.1)])
def test_populations_of_the_shift_are_expired_with_the_risk_at_most(own: bool, ratio: float, strangers: float) -> None:
    """The worst of them: the largest part, all as high as they may be, and the strangers higher than anybody."""
    expired = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        old, drawn = rng.normal(size=200), rng.normal(size=4000)
        part = np.sort(drawn)[-int(len(drawn) / ratio) :]
        moved = part + (0.1 * np.abs(part) if own else 0.5)
        new = np.where(rng.random(200) < strangers, 99.0, rng.choice(moved, 200))
        sign = 1 if seed % 2 else -1
        found = tails(column(sign * old, sign * new, own), "", ratio, strangers, 0.1)
        expired += found.state == "expired"
        assert found.lower <= max(found.estimate, 0) + 1e-12 and found.upper == 1.0
    assert expired <= 0.1 * 300


def test_people_who_moved_further_are_seen() -> None:
    rng = np.random.default_rng(0)
    old, other = rng.normal(size=2000), rng.normal(size=2000)
    for own, by in ((False, 1.5), (True, 2.0)):
        for sign in (1, -1):
            found = tails(column(old, other + sign * by, own), "", 1.0, 0.0, 0.05)
            assert found.state == "expired" and 0 < found.lower < found.estimate <= 1
    assert tails(column(old, other + 1.5, False), "", 100.0, 0.0, 0.05).state == "not known"  # a hundredth may be that
