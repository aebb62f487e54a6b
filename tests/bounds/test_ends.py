"""Violations and decisions read off enclosed margins, against direct evaluation in multiple precision."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.bounds.ends import Ends
from isonomy.errors import ParameterError
from isonomy.networks.network import Head, Network

from .reference import mpf

quick = settings(max_examples=80, deadline=None)
logits = st.floats(-5, 5) | st.floats(-800, 800) | st.sampled_from([0.0, 1e-12, -1e-9, 36.8, 1e300, -1e300])


def network(head: Head, outputs: int) -> Network:
    return Network.from_layers([np.eye(outputs)], [np.zeros(outputs)], head=head)


def probabilities(head: str, z: list[Any]) -> list[Any]:
    with mpmath.workprec(400):
        if head == "regression":
            return z
        if head == "sigmoid":
            return [1 / (1 + mpmath.exp(-v)) for v in z]
        return [1 / sum((mpmath.exp(other - own) for other in z), mpf(0)) for own in z]


def to_margins(head: str, z: list[float]) -> list[Any]:
    z = [mpf(v) for v in z]
    if head != "softmax":
        return z
    if len(z) == 2:
        return [z[1] - z[0]]
    return [z[j] - z[c] for c in range(len(z)) for j in range(len(z)) if j != c]


def enclose(values: list[list[Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    """The smallest float64 enclosure of some vectors of margins."""
    columns = list(zip(*values, strict=True))
    low = [math.nextafter(float(min(column)), -math.inf) for column in columns]
    high = [math.nextafter(float(max(column)), math.inf) for column in columns]
    return torch.tensor([low], dtype=torch.float64), torch.tensor([high], dtype=torch.float64)


heads = st.sampled_from(
    [
        ("softmax", 2),
        ("softmax", 3),
        ("softmax", 5),
        ("sigmoid", 1),
        ("sigmoid", 3),
        ("regression", 1),
        ("regression", 2),
    ]
)


@quick
@given(data=st.data(), case=heads)
def test_violation_from_above_and_attained_from_below(data: st.DataObject, case: tuple[Head, int]) -> None:
    head, outputs = case
    vector = st.lists(logits, min_size=outputs, max_size=outputs)
    x, ys = data.draw(vector), data.draw(st.lists(vector, min_size=1, max_size=3))
    ends = Ends(network(head, outputs))
    with mpmath.workprec(400):
        at_x = enclose([to_margins(head, x)])
        over = enclose([to_margins(head, y) for y in [x, *ys]])
        upper = ends.violation(at_x, over).item()
        own = probabilities(head, [mpf(v) for v in x])
        for y in ys:
            there = probabilities(head, [mpf(v) for v in y])
            true = max(abs(a - b) for a, b in zip(own, there, strict=True))
            assert mpf(upper) >= true
            lower = ends.attained(at_x, enclose([to_margins(head, y)])).item()
            assert mpf(lower) <= true
            if true < 10 and max(map(abs, [*x, *y])) < 100:
                assert lower == pytest.approx(float(true), abs=1e-11)
    assert 0 <= upper <= ends.largest
    if len(ys) == 1 and outputs == 1 and max(map(abs, [*x, *ys[0]])) < 100:
        assert upper == pytest.approx(float(true), abs=1e-11)  # one number: the enclosure is tight


@quick
@given(data=st.data(), case=heads, threshold=st.none() | st.floats(0.01, 0.99))
def test_a_certain_decision_is_everybodys_decision(
    data: st.DataObject, case: tuple[Head, int], threshold: float | None
) -> None:
    head, outputs = case
    if outputs > (2 if head == "softmax" else 1):
        threshold = None
    ends = Ends(network(head, outputs), threshold)
    vector = st.lists(logits, min_size=outputs, max_size=outputs)
    ys = data.draw(st.lists(vector, min_size=1, max_size=3))
    with mpmath.workprec(400):
        certain = ends.decision(*enclose([to_margins(head, y) for y in ys])).item()
        for y in ys:
            p = probabilities(head, [mpf(v) for v in y])
            if head == "regression" and threshold is None:
                assert certain == -1 and not ends.decides
                continue
            if outputs == 1 or (outputs == 2 and head == "softmax"):
                cut = mpf(threshold) if threshold is not None else mpf(1) / 2
                one = p[-1]
                decisions = {1} if one > cut else {0} if one < cut else {0, 1}
            else:
                z = [mpf(v) for v in y]
                decisions = {c for c in range(outputs) if z[c] == max(z)}
            assert certain == -1 or decisions == {certain}


def test_clear_decisions_are_made() -> None:
    assert Ends(network("softmax", 2)).decision(torch.tensor([[0.1]]), torch.tensor([[0.2]])).item() == 1
    assert Ends(network("softmax", 2)).decision(torch.tensor([[-0.1]]), torch.tensor([[0.2]])).item() == -1
    assert Ends(network("sigmoid", 1), 0.9).decision(torch.tensor([[0.1]]), torch.tensor([[0.2]])).item() == 0
    assert Ends(network("regression", 1), 3.0).decision(torch.tensor([[3.1]]), torch.tensor([[4.0]])).item() == 1
    values = torch.tensor([[1.0, 3.0, 2.0]])
    assert Ends(network("sigmoid", 3)).decision(values, values + 0.5).item() == 1
    three = torch.tensor([to_float(to_margins("softmax", [1.0, 3.0, 2.0]))])
    assert Ends(network("softmax", 3)).decision(three, three).item() == 1


def to_float(values: list[Any]) -> list[float]:
    return [float(v) for v in values]


@pytest.mark.parametrize("case", [("softmax", 2), ("softmax", 4), ("sigmoid", 1), ("sigmoid", 2), ("regression", 1)])
def test_nothing_known_is_the_trivial_bound(case: tuple[Head, int]) -> None:
    head, outputs = case
    ends = Ends(network(head, outputs))
    rows = len(to_margins(head, [0.0] * outputs))
    line = torch.full((1, rows), math.inf, dtype=torch.float64)
    some = torch.zeros(1, rows, dtype=torch.float64)
    assert ends.violation((-line, line), (-line, line)).item() == ends.largest
    assert ends.violation((some, some), (-line, line)).item() == (
        ends.largest if head == "regression" else pytest.approx(0.5, abs=0.3)
    )
    assert ends.attained((-line, line), (-line, line)).item() == 0
    assert ends.decision(-line, line).item() == -1


def test_k_classes_are_read_in_the_documented_order() -> None:
    """Independent of the code: the margins of a network, not of this file."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20, 4))
    margins = network("softmax", 4).margins.evaluate(torch.from_numpy(z))
    low, high = Ends(network("softmax", 4)).values(margins, margins)
    softmax = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert low.numpy() == pytest.approx(softmax, abs=1e-13) and (low.numpy() <= softmax + 1e-16).all()
    assert high.numpy() == pytest.approx(softmax, abs=1e-13)


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
        Ends(network(*case), threshold)
