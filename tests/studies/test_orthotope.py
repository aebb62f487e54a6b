"""Ellipsoids and boxes: volumes against sampling, boxes against points, bounds in their order."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.similarity import Mahalanobis
from studies import Setting, Store, orthotope, write
from studies.models import Size
from studies.orthotope import box_metric, half_widths, log10_filled, volumes
from studies.tables import GERMAN

pytestmark = pytest.mark.slow

TINY = Size(rows=150, epochs=2, hidden=(8, 8), people=8)
seeds = st.integers(0, 2**32 - 1)


def random_precision(rng: np.random.Generator, d: int) -> np.ndarray:
    a = rng.normal(size=(2 * d, d))
    return np.asarray(a.T @ a)


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_shares_of_the_box_are_what_sampling_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = random_precision(rng, int(rng.integers(2, 5)))
    half = half_widths(m)
    points = rng.uniform(-half, half, (40_000, len(m)))
    inside = float((np.einsum("ni,ij,nj->n", points, m, points) <= 1).mean())
    share = 10 ** log10_filled(m)
    assert inside == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / 40_000) + 1e-4)


def test_a_disc_fills_a_quarter_of_pi_of_its_square_and_balls_ever_less() -> None:
    assert 10 ** log10_filled(np.eye(2)) == pytest.approx(math.pi / 4)
    assert 10 ** log10_filled(9 * np.eye(3)) == pytest.approx(math.pi / 6)  # whatever the radius
    falls = np.diff([line["ball"] for line in volumes(range(2, 15), 3)])
    assert (falls < 0).all() and (np.diff(falls) < 0).all()  # faster than exponentially


@settings(max_examples=20, deadline=None)
@given(seeds)
def test_the_box_holds_the_ellipsoid_and_touches_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 6))
    metric = Mahalanobis(random_precision(rng, d))
    box = box_metric(metric)
    moves = rng.normal(size=(300, d))
    moves /= metric.distance(np.zeros((1, d)), moves)[:, None]
    assert (box.distance(np.zeros((1, d)), moves) <= 1 + 1e-9).all()
    inverse = np.linalg.inv(orthotope.precision(metric))
    touching = inverse / np.sqrt(np.diag(inverse))  # the column i reaches furthest along axis i
    assert np.allclose(metric.distance(np.zeros((1, d)), touching.T), 1)
    assert np.allclose(box.distance(np.zeros((1, d)), touching.T), 1)


def test_a_run(tmp_path: Path) -> None:
    setting, store = Setting(True, tmp_path / "orthotope.work", None, 1), Store(tmp_path / "lines.jsonl")
    result = orthotope.run(setting, store, datasets=[GERMAN], size=TINY)
    found = result.data[result.data["paper"].notna()]
    assert len(found) == 4
    order = found[["lower", "tight", "interval", "box_change", "paper"]].to_numpy(dtype=float)
    assert (np.diff(order, axis=1) >= -1e-9).all()
    page = write(result, tmp_path, "python -m studies orthotope --quick")[-1].read_text(encoding="utf-8")
    assert "| German | U-DIF | 0.05 |" in page and "58 coordinates" in page
    nothing = orthotope.run(setting, Store(tmp_path / "none", only_known=True), datasets=[GERMAN], size=TINY)
    page = write(nothing, tmp_path, "")[-1].read_text(encoding="utf-8")
    assert "| German | SGD | 0.05 | not run | not run | not run | not run | not run |" in page
