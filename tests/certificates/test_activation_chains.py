"""Activation after activation: the slope of the first one still counts behind the second."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import isonomy


@pytest.fixture(scope="module")
def network() -> isonomy.Network:
    """ReLU, then a clip that does nothing: as two layers in a row, their slopes must be multiplied."""
    module = torch.nn.Sequential(
        torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Hardtanh(-1000, 1000), torch.nn.Linear(2, 1), torch.nn.ReLU(),
        torch.nn.Linear(1, 1), torch.nn.Sigmoid(),
    ).double()  # fmt: skip
    values = {"0.weight": [[1, 0], [1, 0]], "0.bias": [50, -50], "3.weight": [[1, -1]], "3.bias": [-50]}
    values |= {"5.weight": [[1]], "5.bias": [0]}
    module.load_state_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()})
    return isonomy.Network.from_torch(module)


@pytest.mark.parametrize(("order", "gamma"), [(1, 0.2), (math.inf, 2.0)])
def test_slopes_of_consecutive_activations_multiply(network: isonomy.Network, order: float, gamma: float) -> None:
    metric = isonomy.Mahalanobis(np.eye(2))
    found = isonomy.certify(network, np.zeros((1, 2)), metric, 0.3, gamma, order=order, epsilon=0.05)
    # Near z = 0 the network is sigmoid(z_1): a move of delta alone changes it by sigmoid(0.3) - 1/2.
    assert found.lower > 0.07
    assert found.upper >= 1 / (1 + math.exp(-0.3)) - 0.5
    assert found.verdict == "violated"
