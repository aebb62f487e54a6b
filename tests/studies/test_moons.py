"""Three notions on the two moons, on a small scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isonomy.datasets import make_moons
from studies import Setting, Store, moons, write
from studies.moons import DELTA, GAMMA, METRIC, Scale, places, shares

pytestmark = pytest.mark.slow

SMALL = Scale(people=12, epochs=20, map_width=16, map_height=12, seconds=0.0, radii=8)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("moons") / "lines.jsonl")


def run(store: Store, work: Path) -> moons.Result:
    return moons.run(Setting(True, work, None, 1), store, scale=SMALL)


@pytest.mark.slow
def test_each_notion_holds_the_one_before(store: Store, tmp_path: Path) -> None:
    data = run(store, tmp_path).data
    assert (data["lower"] <= data["upper"]).all()
    for _, group in data.groupby("method"):
        bounds = group.set_index("notion")
        assert bounds.loc["local", "lower"] <= bounds.loc["distributional", "upper"]
        assert bounds.loc["distributional", "lower"] <= bounds.loc["global", "upper"]
        assert bounds.loc["distributional", "lower"] >= bounds.loc["local", "lower"] - 1e-2
        assert bounds.loc["global", "upper"] >= bounds.loc["local", "lower"]


@pytest.mark.slow
def test_the_map_covers_pairs_of_people(store: Store, tmp_path: Path) -> None:
    """No two similar places of the map differ by more than the map says."""
    run(store, tmp_path)
    x, y = places(make_moons(2), SMALL)
    at = np.stack([side.ravel() for side in np.meshgrid(x, y)], axis=1)
    for line in store.known.values():
        probability, bound = np.array(line["decision"]).ravel(), np.array(line["map"]).ravel()
        for i in range(len(at)):
            similar = METRIC.distance(at[i : i + 1], at) <= DELTA
            assert np.abs(probability[similar] - probability[i]).max() <= bound[i] + 2e-4  # both are rounded


def test_shares_of_people_who_can_be_there() -> None:
    people = np.array([[0.0, 0.0], [1.0, 1.0]])
    x, y = np.array([0.0, 0.05, 0.4]), np.array([0.0, 0.3])
    similar, reach = shares(x, y, people)
    assert similar.tolist() == [[1, 1, 0], [1, 0, 0]]  # half-widths 0.1 and 0.316
    assert reach[0] == pytest.approx([1.0, 1.0, GAMMA / 0.4])
    assert reach[1, 2] == pytest.approx(GAMMA / 0.5)


def test_a_page_and_a_page_of_nothing(store: Store, tmp_path: Path) -> None:
    before = len(store.known)
    page = write(run(store, tmp_path), tmp_path, "python -m studies moons --quick")[-1].read_text(encoding="utf-8")
    assert "| U-DIF |" in page and "distributional" in page
    assert "counts 0.32 of one along" in page and "the 24 people whom the network was trained on" in page
    assert before in (0, 2)
    write(run(Store(tmp_path / "none", only_known=True), tmp_path), tmp_path / "none", "")
