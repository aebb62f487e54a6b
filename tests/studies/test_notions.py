"""The study of notions: its index, its bounds for comparison, its estimate of density ratios."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from studies import notions


def test_the_index_of_the_same_people_is_0_and_their_bound_their_own_in_bins() -> None:
    high = np.random.default_rng(0).random(500)
    row = notions.index(high, 0.9 * high, high)
    assert row["stability radius"] == 0 and row["stability strangers"] == 0
    assert high.mean() <= row["stability upper"] <= high.mean() + 0.1
    assert row["stability lower"] <= row["stability upper"]


def test_empty_bins_are_merged_upward_and_people_above_are_strangers() -> None:
    high = np.arange(100) / 100
    other = np.append(np.full(30, 0.55), [0.0, 1.0])
    row = notions.index(high, high, other)
    assert math.isfinite(row["stability radius"]) and row["stability radius"] > 0.05
    assert row["stability strangers"] == pytest.approx(1 / 32)
    assert row["stability upper"] >= other.mean()


def test_bounds_for_comparison() -> None:
    high = np.repeat([0.0, 1.0], 50)
    assert notions.divergence_bound(high, 0.0) == pytest.approx(0.5, abs=1e-3)
    q = 0.8  # of two values the worst law has this share of the larger one
    kappa = q * math.log(2 * q) + (1 - q) * math.log(2 * (1 - q))
    assert q <= notions.divergence_bound(high, kappa) <= q + 1e-3
    assert notions.divergence_bound(high, 50.0) == 1.0


def test_density_ratios_average_to_one_and_see_a_shift() -> None:
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(1500, 2)), rng.normal((1.0, 0.0), size=(1500, 2))
    there, here = notions.estimated(x, np.ones(1500), new, 0)
    assert here.mean() == pytest.approx(1) and 0.3 < np.log(there).mean() < 0.6  # truly a half


def test_a_row_for_each_notion() -> None:
    data = pd.DataFrame({"actual": [0.2, 0.3], "seed": [0, 1], "area": ["A", "B"]})
    for name in notions.NOTIONS:
        data[f"{name} upper"], data[f"{name} radius"] = [0.3, 0.25], [0.1, 0.3]
    table = notions.table(data)
    assert len(table) == len(notions.NOTIONS) and set(table["holds"]) == {"1 of 2"}
    assert set(table["over what really happens"]) == {"1.10"}
