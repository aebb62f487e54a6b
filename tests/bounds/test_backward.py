"""Owners of backward passes and the passes themselves: no cycle that would keep a batch in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

from isonomy.bounds.backward import weakly
from isonomy.bounds.linear import Linear
from isonomy.networks.graph import Graph
from isonomy.networks.network import Network
from isonomy.sets import ConvexSets

ROWS, WIDTH = 3, 6


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def network(activation: str) -> Network:
    rng, sizes = np.random.default_rng(0), [WIDTH, 70, 70, 3]  # wide enough for moves in float32
    weights = [rng.normal(size=(b, a)) / a**0.5 for a, b in pairwise(sizes)]
    return Network.from_layers(weights, [rng.normal(size=b) * 0.1 for b in sizes[1:]], activation=activation)


def box(radius: float) -> ConvexSets:
    wide = torch.full((ROWS, WIDTH), radius, dtype=torch.float64)
    return ConvexSets.of_box(-wide, wide)


BOUNDS: dict[str, Callable[[Graph, Tensor], object]] = {
    "linear": lambda graph, centre: Linear(graph).enclose(centre, box(0.2)),
    "in float64 again": lambda graph, centre: Linear(graph).enclose(centre, box(1e38)),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("name", BOUNDS)
def test_a_batch_is_gone_with_its_bounds(no_collector: None, name: str, activation: str) -> None:
    graph, centre = network(activation).margins, torch.zeros(ROWS, WIDTH, dtype=torch.float64)
    BOUNDS[name](graph, centre)  # whatever is made once and kept
    before = tensors()
    BOUNDS[name](graph, centre)
    assert tensors() == before


def tensors() -> int:
    return sum(type(some) is torch.Tensor for some in gc.get_objects())


def test_a_weak_method_answers_as_long_as_its_object_is_there() -> None:
    class Owner:
        def twice(self, number: int) -> int:
            return 2 * number

    owner = Owner()
    twice = weakly(owner.twice)
    assert twice(4) == 8
    del owner
    with pytest.raises(AssertionError):
        twice(4)
