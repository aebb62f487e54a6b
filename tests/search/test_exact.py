"""The exact tier against an independent mixed integer program, on networks that were trained."""

from __future__ import annotations

import math

import numpy as np
import pytest

from isonomy import Network, WeightedLp, certify_local
from isonomy.search import Limits, checked_limits

from .milp import violation
from .trained import table, trained

NETWORKS = [(16, 16), (32, 32), (64,)]


def check(name: str, hidden: tuple[int, ...], kind: str, delta: float, rows: slice, regression: bool) -> None:
    network, layers = trained(name, hidden, regression)
    x = table(name)[0][rows]
    metric = WeightedLp(np.ones(x.shape[1]), 1 if kind == "l1" else math.inf)
    limits = {"tier": "exact", "gap": 5e-7, "time_limit": None, "max_nodes": 200_000}
    found = certify_local(network, x, metric, delta, **limits, progress=None)
    for row, centre in enumerate(x):
        proved, attained = violation(layers, centre, delta, delta if kind == "l1" else None, regression)
        rounding = 1e-9 * max(1.0, proved)
        assert attained - 1e-12 * max(1.0, proved) <= found.upper[row] <= proved + 1e-6
        assert attained - 1e-6 <= found.lower[row] <= found.upper[row]
        assert proved - attained <= 1e-6 and found.lower[row] <= proved + 10 * rounding


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["box", "l1"])
@pytest.mark.parametrize("hidden", [(16, 16), (64,), pytest.param((32, 32), marks=pytest.mark.slow)])
def test_it_meets_a_mixed_integer_program(hidden: tuple[int, ...], kind: str) -> None:
    check("german", hidden, kind, 0.1 if kind == "box" else 0.3, slice(0, 1), regression=False)


@pytest.mark.parametrize("kind", ["box", "l1"])
def test_it_meets_a_mixed_integer_program_for_numbers(kind: str) -> None:
    check("moons", (16, 16), kind, 0.3, slice(0, 1), regression=True)


@pytest.mark.slow
@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("kind", ["box", "l1"])
@pytest.mark.parametrize("hidden", NETWORKS)
@pytest.mark.parametrize("name", ["moons", "german"])
def test_it_meets_a_mixed_integer_program_for_many(
    name: str, hidden: tuple[int, ...], kind: str, regression: bool
) -> None:
    delta = {"moons": 0.3, "german": 0.15}[name] * (2 if kind == "l1" else 1)
    check(name, hidden, kind, delta, slice(5, 10), regression)


def test_limits_are_checked() -> None:
    assert checked_limits(3, 0, None) == Limits(0.0, None, 3.0)
    assert checked_limits(None, 0, None, 7) == Limits(0.0, None, math.inf, 7)


@pytest.mark.parametrize("scale", [1.0, 1e9, 1e-3])
def test_balls_are_closed_whatever_the_size_of_the_output(scale: float) -> None:
    """Where nothing bends any more the best multipliers over a ball are found, and the place that attains them."""
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(8, 6)), rng.normal(size=(1, 8)) * scale]
    network = Network.from_layers(weights, [rng.normal(size=8) * 0.3, np.zeros(1)], "relu", "regression")
    x, limits = rng.normal(size=(50, 6))[:12], {"tier": "exact", "time_limit": None, "max_nodes": 4000}
    found = certify_local(network, x, WeightedLp(np.ones(6), 2), 0.5, gap=1e-6 * scale, progress=None, **limits)
    assert ((found.upper - found.lower) / scale <= 1.1e-6).all()


@pytest.mark.parametrize("kind", ["tanh", "silu", "sigmoid", "gelu"])
def test_curves_are_cut_until_bounds_meet(kind: str) -> None:
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=(6, 2)), rng.normal(size=(6, 6)), rng.normal(size=(1, 6))]
    network = Network.from_layers(weights, [rng.normal(size=len(w)) for w in weights], kind, "regression")
    x, limits = rng.normal(size=(2, 2)), {"tier": "exact", "time_limit": None, "max_nodes": 20_000}
    found = certify_local(network, x, WeightedLp(np.ones(2), 2), 0.3, gap=1e-3, progress=None, **limits)
    assert (found.upper - found.lower <= 1e-3 + 1e-12).all()
