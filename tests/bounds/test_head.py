"""Violations and decisions read off enclosed margins, against direct evaluation in multiple precision."""

from __future__ import annotations

import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.bounds.kernel import head_of, prepared_for
from isonomy.errors import ParameterError
from isonomy.networks.network import Head, Network
from isonomy_verify.tiers import Enclosure, enclose_at

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
    return [z[j] - z[c] for c in range(len(z)) for j in range(c + 1, len(z))]


def enclose(values: list[list[Any]]) -> Enclosure:
    """The smallest float64 enclosure of some vectors of margins."""
    columns = list(zip(*values, strict=True))
    low = [math.nextafter(float(min(column)), -math.inf) for column in columns]
    high = [math.nextafter(float(max(column)), math.inf) for column in columns]
    return Enclosure(np.array([low]), np.array([high]))


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
    read = head_of(network(head, outputs))
    with mpmath.workprec(400):
        at_x = enclose([to_margins(head, x)])
        over = enclose([to_margins(head, y) for y in [x, *ys]])
        upper = read.violation(at_x, over).item()
        own = probabilities(head, [mpf(v) for v in x])
        for y in ys:
            there = probabilities(head, [mpf(v) for v in y])
            true = max(abs(a - b) for a, b in zip(own, there, strict=True))
            assert mpf(upper) >= true
            lower = read.attained(at_x, enclose([to_margins(head, y)])).item()
            assert mpf(lower) <= true
            if true < 10 and max(map(abs, [*x, *y])) < 100:
                assert lower == pytest.approx(float(true), abs=1e-11)
    assert 0 <= upper <= read.largest
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
    read = head_of(network(head, outputs), threshold)
    vector = st.lists(logits, min_size=outputs, max_size=outputs)
    ys = data.draw(st.lists(vector, min_size=1, max_size=3))
    with mpmath.workprec(400):
        certain = read.decision(enclose([to_margins(head, y) for y in ys])).item()
        for y in ys:
            p = probabilities(head, [mpf(v) for v in y])
            if head == "regression" and threshold is None:
                assert certain == -1 and not read.decides
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
    def decided(head: Head, outputs: int, threshold: float | None, low: list[float], high: list[float]) -> int:
        given = Enclosure(np.array([low]), np.array([high]))
        return int(head_of(network(head, outputs), threshold).decision(given).item())

    assert decided("softmax", 2, None, [0.1], [0.2]) == 1
    assert decided("softmax", 2, None, [-0.1], [0.2]) == -1
    assert decided("sigmoid", 1, 0.9, [0.1], [0.2]) == 0
    assert decided("regression", 1, 3.0, [3.1], [4.0]) == 1
    assert decided("sigmoid", 3, None, [1.0, 3.0, 2.0], [1.5, 3.5, 2.5]) == 1
    three = to_float(to_margins("softmax", [1.0, 3.0, 2.0]))
    assert decided("softmax", 3, None, three, three) == 1


def to_float(values: list[Any]) -> list[float]:
    return [float(v) for v in values]


@pytest.mark.parametrize("case", [("softmax", 2), ("softmax", 4), ("sigmoid", 1), ("sigmoid", 2), ("regression", 1)])
def test_nothing_known_is_the_trivial_bound(case: tuple[Head, int]) -> None:
    head, outputs = case
    read = head_of(network(head, outputs))
    rows = len(to_margins(head, [0.0] * outputs))
    line, zero = np.full((1, rows), math.inf), np.zeros((1, rows))
    nothing, some = Enclosure(-line, line), Enclosure(zero, zero)
    assert read.violation(nothing, nothing).item() == read.largest
    assert read.violation(some, nothing).item() == (
        read.largest if head == "regression" else pytest.approx(0.5, abs=0.3)
    )
    assert read.attained(nothing, nothing).item() == 0
    assert read.decision(nothing).item() == -1


def test_k_classes_are_read_in_the_documented_order() -> None:
    """Independent of the code: the margins of a network, not of this file."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(20, 4))
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
