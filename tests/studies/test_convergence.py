"""Ascent, optimum and dual on the same profiles: against enumeration, and on a real table."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies import Setting, Store, convergence, write
from studies.convergence import GAMMA, LAST, Grid, answers, iterations
from studies.methods import Way
from studies.models import Size
from studies.tables import GERMAN

pytestmark = pytest.mark.slow

TINY = Size(rows=150, epochs=2, hidden=(8, 8))
GRID = Grid(people=6, radii=20, iterations=30)
WAYS = (Way("sgd"), Way("u-dif", box=True))


def profiles(rng: np.random.Generator, n: int) -> Callable[[float], np.ndarray]:
    """Smooth steps at places and of heights of their own: not concave, so that ascents may miss the best."""
    place, steep, height, base = (
        rng.uniform(0, 1, n),
        rng.uniform(1, 60, n),
        rng.uniform(0, 0.8, n),
        rng.random(n) * 0.2,
    )

    def bound(radius: float) -> np.ndarray:
        return np.asarray(base + height / (1 + np.exp(-steep * (radius - place))))

    return bound


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_dual_is_never_below_optimum_and_ascents(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = answers(profiles(rng, 5), Grid(5, int(rng.integers(3, 40)), 20))
    assert found["dual"] >= found["optimum"]
    assert found["dual"] >= max(found["ascents"].values()) - 1e-12
    assert found["optimum"] >= found["local"] - 1e-12


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_optimum_is_that_of_enumeration_and_populations_in_between_stay_below_the_dual(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound, grid = profiles(rng, 3), Grid(3, 33, 5)
    found = answers(bound, grid)
    capacity = 3 * GAMMA / grid.spacing
    picks = [pick for pick in itertools.product(range(4), repeat=3) if sum(pick) <= capacity]
    values = np.stack([bound(grid.spacing * k) for k in range(4)], axis=1)
    assert found["optimum"] == pytest.approx(max(np.mean(values[np.arange(3), pick]) for pick in picks), abs=1e-12)
    for _ in range(50):  # any radii, on the grid or not, that keep to the budget
        phi = rng.dirichlet(np.ones(3)) * 3 * GAMMA * rng.random()
        assert np.mean([bound(radius)[i] for i, radius in enumerate(phi)]) <= found["dual"] + 1e-12


def test_an_ascent_that_sees_no_slope_is_below_the_optimum_and_the_dual_is_not() -> None:
    """Everybody stands before a step too far for an even share of the budget."""

    def bound(radius: float) -> np.ndarray:
        return np.full(10, 0.1 + 0.8 * (radius > 0.3))

    found = answers(bound, Grid(10, 100, 50))
    assert max(found["ascents"].values()) == pytest.approx(0.1)
    assert found["optimum"] == pytest.approx(0.1 + 0.8 * 0.1)  # one in ten crosses the step
    assert found["optimum"] <= found["dual"] <= 0.1 + 0.8 * 0.5 / 0.3 / 10 + 0.01


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    """A whole run on German, made once."""
    setting = Setting(True, tmp_path_factory.mktemp("results") / "convergence.work", None, 1)
    run(setting, Store(setting.work / "lines.jsonl"))
    return setting


def run(setting: Setting, store: Store) -> convergence.Result:
    return convergence.run(setting, store, datasets=[GERMAN], size=TINY, grid=GRID, ways=WAYS)


@pytest.mark.slow
def test_our_error_is_never_negative(setting: Setting) -> None:
    data = run(setting, Store(setting.work / "lines.jsonl", only_known=True)).data
    assert list(data["method"]) == ["sgd", "u-dif"]
    assert (data["dual"] - data["optimum"] >= 0).all()
    for name in data.columns[data.columns.str.startswith("ascent")]:
        assert (data["dual"] >= data[name] - 1e-12).all()
    assert (data["our_upper"] <= data["dual"] + 1e-9).all()  # our profiles are the tighter ones
    assert (data["our_lower"] <= data["our_upper"]).all()


@pytest.mark.slow
def test_the_page_is_written_again_from_what_was_found(setting: Setting, tmp_path: Path) -> None:
    store = Store(setting.work / "lines.jsonl")
    written = write(run(setting, store), tmp_path, "python -m studies convergence --quick")
    assert store.computed == 0
    page = written[-1].read_text(encoding="utf-8")
    assert "| German | U-DIF, box form |" in page and "| German | SGD |" in page and "+0.0" in page
    assert "errors 6 are negative" in page  # those that the paper prints


def test_a_page_of_nothing(tmp_path: Path) -> None:
    nothing = run(Setting(True, tmp_path, None, 1), Store(tmp_path / "lines.jsonl", only_known=True))
    write(nothing, tmp_path, "python -m studies convergence")
    assert (tmp_path / "convergence.md").exists()


def line(seed: int, dual: float, ascents: dict[str, float], method: str = "sensr") -> dict[str, object]:
    """What a network of Income could have left behind; the optimum is 0.5."""
    told = {"local": 0.25, "optimum": 0.5, "dual": dual, "our_upper": 0.3, "our_lower": 0.2}
    return {"dataset": "income", "method": method, "box": False, "seed": seed, "ascents": ascents, **told}


def test_errors_of_several_seeds() -> None:
    """The best ascent is the best in the mean, of the dual the smallest counts, and printed figures stay as printed."""
    lines = [line(0, 0.52, {"a": 0.5, "b": 0.4}), line(1, 0.51, {"a": 0.48, "b": 0.5})]
    assert convergence.errors(lines).to_dict("records") == [
        {
            "people": "Income", "trained with": "SenSR", "the paper's error": "(+0.06885)",
            "ascent, best of six": "-0.0100", "ascent, worst of six": "-0.0500", "dual": "+0.0100",
        }
    ]  # fmt: skip
    (words,) = convergence._verdict([*lines, line(0, 0.5, {"a": 0.45, "b": 0.3}, "sgd")])
    assert "For 1 of 3 networks even the best" in words and "by 0.0500 in the worst case" in words
    assert "so do 4 of all 6 ascents" in words
    (values,) = convergence.values([line(0, 0.52, {}) | {"local": 0.99996, "optimum": 0.99997}]).to_dict("records")
    assert values["no shift, box"] == values["optimum, box"] == "1.0000"


def test_thinned_histories_keep_their_iterations() -> None:
    history = np.arange(301.0)
    thin = convergence._thinned(history)
    assert iterations(len(thin)) == [int(value) for value in thin]


def test_the_grid_is_the_paper_s() -> None:
    grid = Grid()
    assert (grid.people, grid.radii, convergence.DELTA, GAMMA, LAST) == (50, 500, 0.1, 0.05, 2.4)
    assert grid.spacing * (grid.radii - 1) == pytest.approx(LAST)
    assert Way("sgd") in convergence.WAYS
