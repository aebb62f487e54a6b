"""Networks and heads as the kernel takes them: what a layer may be off, the order of classes, cut-offs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.truth import escapes

from isonomy.bounds.kernel import head_of, prepared_for
from isonomy.errors import ParameterError
from isonomy.networks.graph import Activation, Graph, Node, affine
from isonomy.networks.network import Head, Network
from isonomy_verify.regions import BallBox
from isonomy_verify.tiers import enclose, enclose_at


def network(head: Head, outputs: int) -> Network:
    return Network.from_layers([np.eye(outputs)], [np.zeros(outputs)], head=head)


@given(seed=st.integers(0, 2**32 - 1))
def test_slack_covers_the_exact_weights(seed: int) -> None:
    """Layers known up to their slack (a batch norm, say): the exact layer is anywhere within it."""
    rng = np.random.default_rng(seed)
    size = float(rng.choice([1e-16, 1e-9, 1e-3]))

    def pair(width: int, out: int) -> tuple[Node, Node]:
        weight, bias = rng.normal(size=(out, width)), rng.normal(size=out)
        slack = rng.random(out) * size
        shares = rng.dirichlet(np.full(width, 0.3), size=out) * rng.choice([-1, 1], (out, width))
        true = affine(weight + 0.999 * slack[:, None] * shares, bias - 0.999 * slack)
        off = np.abs(true.weight - weight).sum(1), np.abs(true.bias - bias)  # rounded weights may be further off
        both = [np.maximum(slack, part * (1 + 1e-12)) for part in off]
        return affine(weight, bias, weight_error=both[0], bias_error=both[1]), true

    layers = [pair(3, 4), pair(4, 2)]
    known, true = (
        Graph.chain([first, Node("activation", activation=Activation("tanh")), last])
        for first, last in zip(*layers, strict=True)
    )
    centre, radius = rng.normal(size=(2, 3)) * float(rng.choice([1.0, 1e3])), float(rng.choice([0.0, 0.2]))
    sides = np.full((2, 3), radius)
    for tier in ("interval", "tight"):
        prepared = prepared_for(Network(known, "regression"))
        at, over = enclose_at(prepared, centre), enclose(prepared, centre, tier, BallBox(-sides, sides))
        for row in range(2):
            assert not escapes(true.nodes, at.low[row], at.high[row], centre[row])
            for move in rng.choice([-radius, radius], (3, 3)):
                assert not escapes(true.nodes, over.low[row], over.high[row], centre[row], move)


def test_k_classes_are_read_in_the_documented_order() -> None:
    """Independent of the code: the margins of a network, not of this file."""
    z = np.random.default_rng(0).normal(size=(20, 4))
    four = network("softmax", 4)
    low, high = head_of(four).received(enclose_at(prepared_for(four), z))
    softmax = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert low == pytest.approx(softmax, abs=1e-13) and (low <= softmax + 1e-16).all()
    assert high == pytest.approx(softmax, abs=1e-13)


@pytest.mark.parametrize(
    ("case", "threshold"),
    [
        *itertools.product([("softmax", 2), ("sigmoid", 1)], [0.0, 1.0, -1.0, math.nan]),
        (("regression", 1), math.inf),
        (("softmax", 3), 0.5),
        (("sigmoid", 2), 0.5),
    ],
)
def test_bad_thresholds_are_named(case: tuple[Head, int], threshold: float) -> None:
    with pytest.raises(ParameterError, match="'threshold'"):
        head_of(network(*case), threshold)
