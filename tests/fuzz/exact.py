"""Truth: what a network gives at a point, in ball arithmetic of as many bits as the question needs.

Points are exact sums of float64 vectors, so that a centre and a move need not be representable together. A comparison
counts as proved only when the whole ball lies on one side: there are no false alarms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from flint import arb, arb_mat, ctx
from tests.ball_activations import apply, sigma

from .networks import Array, Net, Step

BITS = (128, 512, 2048, 8192)
"""The precisions tried until a comparison is decided."""

MEMBERSHIP = 2400
"""Bits in which membership is judged: sums and products of float64 numbers of any size up to a few factors."""

Point = Sequence[Array]
"""Vectors whose exact sum is meant."""

_WEIGHTS: WeakKeyDictionary[Step, tuple[Any, Any]] = WeakKeyDictionary()


def proved(value: Callable[[], Any], bound: float) -> bool:
    """Is ``value() > bound`` certain? Precision is raised until one side or the other is."""
    if math.isinf(bound):
        return bound < 0
    for bits in BITS:
        with ctx.workprec(bits):
            found = value()
            if found > bound:
                return True
            if found <= bound:
                return False
    return False


class Truth:
    """One network at one point; runs are kept by precision."""

    made = 0
    """How many there were, for those who count."""

    def __init__(self, net: Net, *point: Array) -> None:
        Truth.made += 1
        self.net, self.point = net, point
        self._outputs: dict[int, list[Any]] = {}

    def outputs(self) -> list[Any]:
        if ctx.prec not in self._outputs:
            self._outputs[ctx.prec] = run(self.net, self.point)
        return self._outputs[ctx.prec]

    def margins(self) -> list[Any]:
        z = self.outputs()
        return [z[j] - z[c] for c, j in self.net.pairs] if self.net.pairs else z

    def received(self) -> list[Any]:
        """What each class receives; the probability of class 1 where there are two."""
        z = self.outputs()
        if self.net.head == "regression":
            return z
        if self.net.head == "softmax" and len(z) > 2:
            return [sigma(-log_sum_exp([zj - zc for j, zj in enumerate(z) if j != c])) for c, zc in enumerate(z)]
        return [sigma(t) for t in self.margins()]


def violation(one: Truth, other: Truth) -> Any:
    """The largest change of what any class receives."""
    changes = [abs(a - b) for a, b in zip(one.received(), other.received(), strict=True)]
    total = changes[0]
    for change in changes[1:]:
        total = total.max(change)
    return total


def run(net: Net, point: Point) -> list[Any]:
    values: list[list[Any]] = []
    for step in net.steps:
        read = [values[j] for j in step.inputs]
        match step.op:
            case "input":
                values.append([sum((arb(float(part[i])) for part in point), arb(0)) for i in range(step.width)])
            case "affine":
                weight, bias = _exact(step)
                product = weight * arb_mat(len(read[0]), 1, read[0])
                values.append([product[i, 0] + b for i, b in enumerate(bias)])
            case "activation":
                slopes = step.parameters
                each = [(slopes[i],) for i in range(len(read[0]))] if step.kind == "prelu" else [slopes] * len(read[0])
                values.append([apply(step.kind, own, v) for own, v in zip(each, read[0], strict=True)])
            case "add":
                values.append([sum(parts, arb(0)) for parts in zip(*read, strict=True)])
            case "concat":
                values.append([v for part in read for v in part])
            case "select":
                values.append([read[0][i] for i in step.index])
    return values[-1]


def _exact(step: Step) -> tuple[Any, Any]:
    if step not in _WEIGHTS:
        numbers = [arb(v) for v in step.weight.ravel().tolist()]
        _WEIGHTS[step] = arb_mat(*step.weight.shape, numbers), [arb(v) for v in step.bias.tolist()]
    return _WEIGHTS[step]


def log_sum_exp(values: list[Any]) -> Any:
    top = values[0]
    for value in values[1:]:
        top = top.max(value)
    return top + sum(((value - top).exp() for value in values), arb(0)).log()


def norm_at_most(vector: list[Any], order: float, radius: Any) -> bool:
    """Is the norm of a vector certainly at most the radius?"""
    if order == 2:
        return bool(sum((v * v for v in vector), arb(0)) <= radius * radius)
    if order == 1:
        return bool(sum((abs(v) for v in vector), arb(0)) <= radius)
    return all(abs(v) <= radius for v in vector)


def product(matrix: Array, vector: list[Any]) -> list[Any]:
    return [sum((arb(w) * v for w, v in zip(row, vector, strict=True) if w), arb(0)) for row in matrix.tolist()]
