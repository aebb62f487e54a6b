"""No engine is worse than the one whose results are kept; see ``freeze.py`` and, for the rules, ``results.py``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isonomy import WeightedLp

from . import results
from .audits import AUDITS, FAST, ask
from .questions import perceptron, table, weighted
from .results import FOLDER, Loss, Results, as_table, compare
from .witnesses import Asked

EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "adult_float32",
        "upper local, mean",
    ): "1.0023: roundings of a float32 run are weighed layer by layer, not neuron by "
    "neuron, and every merged layer counts the rounding of its weights",
    (
        "moons_deep",
        "upper local 39",
    ): "1.035 for one person, while the mean falls by 1 %: what is kept are the slopes of a search by gradients",
}
"""Losses that are accepted: audit and quantity as the table of a failure names them, and the reason."""


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in AUDITS]
)
def test_nothing_is_worse_than_it_was(name: str) -> None:
    if name.endswith("_dask"):
        pytest.importorskip("distributed")
    found = ask(name)
    assert not found.check(), "a witness is none"
    losses = [loss for loss in compare(name, Results.read(name), found) if not accepted(loss)]
    assert not losses, "\n" + as_table(losses)


def accepted(loss: Loss) -> bool:
    """A contradiction never is."""
    return not loss.contradiction and (loss.audit, loss.quantity) in EXCEPTIONS


def test_every_audit_is_kept_and_nothing_else() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(AUDITS)
    assert all(name in AUDITS and reason for (name, _), reason in EXCEPTIONS.items())
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000


@pytest.mark.parametrize("name", AUDITS)
def test_what_is_kept_makes_sense(name: str) -> None:
    """Bounds in order, and the kept results no worse than themselves."""
    kept = Results.read(name)
    assert not compare(name, kept, kept)
    for key, lower in kept.lower.items():
        assert all(low <= high for low, high in zip(lower, kept.upper[key], strict=True)), key
    assert len(set(kept.same["prediction"])) > len(kept.same["prediction"]) // 2, "the network is all but constant"


OLD = Results(
    same={"prediction": [0.5, 0.7]},
    upper={"local": [0.2, 0.4], "distribution": [0.3]},
    lower={"local": [0.1, 0.3], "distribution": [0.25]},
    reach={"largest gamma": [0.1, -1.0]},
    words={"decision": ["certified", "undecided"], "verdict": ["violated"]},
)


@pytest.mark.parametrize(
    "better",
    [
        OLD,
        replace(OLD, upper={"local": [0.203, 0.39], "distribution": [0.3 * (1 + 1e-10)]}),  # 1.5 % for one, less in all
        replace(OLD, lower={"local": [0.0999, 0.3], "distribution": [0.2499]}),
        replace(OLD, reach={"largest gamma": [0.1, 0.0]}),
        replace(OLD, words={"decision": ["certified", "flippable"], "verdict": ["violated"]}),
        replace(OLD, same={"prediction": [0.5 + 1e-12, 0.7]}),
    ],
)
def test_what_is_as_good_passes(better: Results) -> None:
    assert not compare("audit", OLD, better)


@pytest.mark.parametrize(
    ("worse", "quantity", "contradiction"),
    [
        (replace(OLD, upper={"local": [0.2, 0.4 * (1 + 1e-8)], "distribution": [0.3]}), "upper local, mean", False),
        (replace(OLD, upper={"local": [0.2, 0.4], "distribution": [0.3001]}), "upper distribution, mean", False),
        (replace(OLD, upper={"local": [0.205, 0.35], "distribution": [0.3]}), "upper local 0", False),
        (replace(OLD, upper={"local": [0.2, 0.4], "distribution": [float("nan")]}), "upper distribution, mean", False),
        (replace(OLD, upper={"local": [0.2, 0.29], "distribution": [0.3]}), "upper local 1 below attained", True),
        (replace(OLD, lower={"local": [0.1, 0.299], "distribution": [0.25]}), "lower local, mean", False),
        (replace(OLD, lower={"local": [0.21, 0.3], "distribution": [0.25]}), "lower local 0 above proved", True),
        (replace(OLD, reach={"largest gamma": [0.0999, -1.0]}), "reach largest gamma, mean", False),
        (replace(OLD, reach={"largest gamma": [-1.0, 2.0]}), "reach largest gamma 0", False),
        (replace(OLD, words={"decision": ["undecided", "undecided"], "verdict": ["violated"]}), "decision 0", False),
        (replace(OLD, words={"decision": ["flippable", "certified"], "verdict": ["violated"]}), "decision 0", True),
        (replace(OLD, words={"decision": ["certified", "undecided"], "verdict": ["certified"]}), "verdict 0", True),
        (replace(OLD, same={"prediction": [0.5, 0.7001]}), "same prediction 1", True),
        (replace(OLD, lower={"local": [0.1], "distribution": [0.25]}), "lower", True),
    ],
)
def test_what_is_worse_is_named(worse: Results, quantity: str, contradiction: bool) -> None:
    losses = compare("audit", OLD, worse)
    assert (quantity, contradiction) in {(loss.quantity, loss.contradiction) for loss in losses}
    assert quantity in as_table(losses)


def test_within_the_gap_of_a_search_bounds_are_as_good() -> None:
    worse = replace(OLD, upper={"local": [0.2, 0.40001], "distribution": [0.3]})
    assert not compare("audit", replace(OLD, gap=1e-4), worse)


def test_what_is_written_is_read_as_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    precise = replace(OLD, upper={"local": [0.1 + 0.2, 1 / 3], "distribution": [float("inf")]})
    precise.write("precise")
    assert Results.read("precise").equals(precise)


def test_a_weaker_tier_is_seen_to_be_worse_and_a_stronger_one_passes() -> None:
    """Two of the audits ask the same question of two tiers."""
    tight, interval = (Results.read(f"german_subspace_{tier}") for tier in ("realizable", "interval"))
    losses = compare("german", tight, interval)
    assert {"upper local, mean", "upper local 0"} <= {loss.quantity for loss in losses}
    assert not any(loss.contradiction for loss in losses)
    assert not compare("german", interval, tight)


def test_a_dataset_gives_the_same_bits_here_and_on_dask() -> None:
    assert Results.read("survey_dataset_local").equals(Results.read("survey_dataset_dask"))


def test_a_witness_that_is_none_is_named() -> None:
    people = table("moons").test[:3]
    asked = Asked(perceptron("moons", (8, 6)), np.ones(2, dtype=bool), weighted("moons", 2.0, 1.0), people.domain, 0.1)
    x, y = np.array(people.x), people.x + np.array([0.05, 0.0])
    assert not asked.pairs(x, y, np.zeros(3))
    assert asked.pairs(x, x, np.array([0.0, 0.1, 0.0])) == ["violation not attained: row 1"]
    assert asked.pairs(x, x + 0.3, np.zeros(3))[0] == "counterpart not similar: row 0"
    assert "counterpart outside the domain: row 2" in asked.pairs(x, x + 10 * np.eye(3)[:, 1:], np.zeros(3))
    assert asked.flips(x, y, None)[0].startswith("decision does not flip")
    weights = np.ones(3)
    atoms = {"owner": np.arange(3), "person": y, "counterpart": y, "cost": np.full(3, 0.05), "value": np.zeros(3)}

    def wrong(gamma: float, claimed: float = 0.0, **change: np.ndarray) -> list[str]:
        ground = WeightedLp([1.0, 1.0])
        return asked.population(x, weights, ground, gamma, 1.0, {**atoms, "mass": weights, **change}, claimed)

    assert not wrong(0.05)
    assert wrong(0.04) == ["population too far away: row 0"]
    assert wrong(0.05, 0.1) == ["mean violation not attained: row 0"]
    assert wrong(0.05, cost=np.full(3, 0.01))[0] == "atom further than its cost: row 0"
    assert wrong(0.05, mass=np.array([2.0, 0.0, 1.0]))[0] == "mass is not that of the individual: row 0"
