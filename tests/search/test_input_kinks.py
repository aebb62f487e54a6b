"""Networks that begin with an activation: signs of the input are fixed by cutting the box, not by multipliers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from isonomy import Network, WeightedLp, certify_local


def network(seed: int, width: int = 2) -> tuple[Network, torch.nn.Module]:
    torch.manual_seed(seed)
    module = torch.nn.Sequential(
        torch.nn.ReLU(), torch.nn.Linear(width, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)
    ).double()
    with torch.no_grad():
        for part in module:
            if isinstance(part, torch.nn.Linear):
                part.weight.mul_(3.0)
    return Network.from_torch(module, width=width), module


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "seed", [*range(6), 11, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (6, 7, 8, 9, 10))]
)
def test_bounds_meet_what_a_fine_grid_finds(seed: int) -> None:
    judged, module = network(seed)
    x = np.random.default_rng(seed).normal(0, 0.2, (4, 2))
    metric, parts = WeightedLp(np.ones(2), math.inf), {"time_limit": None, "max_nodes": 20_000}
    found = certify_local(judged, x, metric, 0.5, tier="exact", gap=1e-6, progress=None, **parts)
    steps = np.linspace(-0.5, 0.5, 101)
    moves = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 2)
    for row, centre in enumerate(x):
        with torch.no_grad():
            here = torch.softmax(module(torch.tensor(centre)[None]), 1)
            there = torch.softmax(module(torch.tensor(centre + moves)), 1)
        largest = float((there - here).abs().max())
        assert largest <= found.upper[row] + 1e-12
        assert found.upper[row] - found.lower[row] <= 2e-6
