"""Parts on which the network is affine: programs that cannot be asked leave a bound, never an error."""

from __future__ import annotations

import math

import numpy as np

from isonomy import WeightedLp, certify_local
from isonomy.networks.network import Network


def test_coefficients_that_overflow_make_no_program() -> None:
    """Behind the kink the slope is 1e400, which no float64 holds."""
    weights = [np.array([[1e200, 0.0], [1.0, 1.0]]), np.array([[1e200, 1.0]])]
    network = Network.from_layers(weights, [np.array([-1e200, 0.0]), np.zeros(1)], head="regression")
    x = np.array([[0.3, -0.2]])
    found = certify_local(
        network, x, WeightedLp([1.0, 1.0]), 0.75, tier="exact", time_limit=None, attack=False, progress=None
    )
    assert found.upper[0] == math.inf
