"""What rounding costs: at a radius of 1e-12 bounds are at most 1e-9 (1 + largest margin) wide on hard networks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from isonomy_verify.arithmetic import Array
from isonomy_verify.network import Network, Node, normal_form
from isonomy_verify.prepared import Prepared
from isonomy_verify.regions import Ball, BallBox
from isonomy_verify.tiers import Tier, enclose, enclose_at

from .graphs import chain

RADIUS, TARGET = 1e-12, 1e-9
Drawn = tuple[list[Node], Array]


def deep(rng: np.random.Generator) -> Drawn:
    """50 layers of 50 neurons, as He initialises them."""
    return chain(rng, [50] * 51 + [1], bias=0.0), rng.normal(size=(2, 50))


def deep_with_biases(rng: np.random.Generator) -> Drawn:
    """The same with small biases."""
    return chain(rng, [50] * 51 + [1], bias=0.1), rng.normal(size=(2, 50))


def large_inputs(rng: np.random.Generator) -> Drawn:
    """Inputs of size 1e5."""
    return chain(rng, [20, 50, 50, 1]), rng.normal(size=(2, 20)) * 1e5


def many_scales(rng: np.random.Generator) -> Drawn:
    """Weights over ten orders of magnitude."""
    nodes = chain(rng, [20, 50, 50, 1])
    spread = [n if n.weight is None else _spread(n, n.weight, rng) for n in nodes]
    return spread, rng.normal(size=(2, 20))


def _spread(node: Node, weight: Array, rng: np.random.Generator) -> Node:
    return node._replace(weight=weight * 10.0 ** rng.uniform(-5, 5, weight.shape))


@cache
def network(draw: Callable[[np.random.Generator], Drawn], seed: int) -> tuple[Network, Array]:
    nodes, x = draw(np.random.default_rng(seed))
    return normal_form(nodes), x


def questions() -> Iterator[Any]:
    for draw in (deep, deep_with_biases, large_inputs, many_scales):
        for tier in ("interval", "quick", "tight", "at"):
            for shared in (True, False):
                slow = draw is deep_with_biases or (draw is deep and not (shared and tier == "tight"))
                name = f"{draw.__name__}-{tier}-{'ball' if shared else 'box'}"
                yield pytest.param(draw, tier, shared, id=name, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("draw", "tier", "shared"), list(questions()))
def test_bounds_of_nearly_nothing_are_nearly_points(
    draw: Callable[[np.random.Generator], Drawn], tier: Tier, shared: bool
) -> None:
    layers, x = network(draw, 0)
    m = x.shape[1]
    prepared = Prepared(layers, Ball(np.eye(m), 2.0, RADIUS) if shared else None)
    box = BallBox(np.full(x.shape, -RADIUS), np.full(x.shape, RADIUS))
    low, high = enclose_at(prepared, x) if tier == "at" else enclose(prepared, x, tier, None if shared else box).over
    assert ((high - low) <= TARGET * (1 + np.maximum(np.abs(low), np.abs(high)))).all()
