"""The search for a worst-case population asks for no more than it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy import WeightedLp, certify
from isonomy.attacks import Finds, attack
from isonomy.certificates import network_tier
from isonomy.networks.network import Network
from isonomy_verify.local import Known


def test_what_bounds_say_reaches_the_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of individuals and of those around them alike: a bound for each of them, that what was attained stays below."""
    asked: list[int] = []

    def watched(network: Any, head: Any, similarity: Any, x: np.ndarray, effort: Any, known: Known | None) -> Finds:
        assert known is not None and np.isfinite(known.upper).all() and len(known.upper) == len(x)
        finds = attack(network, head, similarity, x, effort, known)
        assert (finds.lower <= known.upper).all()
        asked.append(len(x))
        return finds

    monkeypatch.setattr(network_tier, "attack", watched)
    rng = np.random.default_rng(0)
    net = Network.from_layers([rng.normal(size=(5, 3)), rng.normal(size=(2, 5))], [np.zeros(5), np.zeros(2)])
    found = certify(net, rng.normal(size=(6, 3)), WeightedLp(np.ones(3), 2), 0.1, gamma=0.1, progress=None)
    assert 0 < found.lower <= found.upper and len(asked) > 2
