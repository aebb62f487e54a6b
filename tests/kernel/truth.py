"""Truth: activations, graphs and sets in ball arithmetic or exact rationals, written apart from the kernel.

A comparison of balls holds only where it is proved, so that a test which asks ``value > bound`` gives no false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat
from tests.ball_activations import apply as by_definition

from isonomy_verify.activations import Activation
from isonomy_verify.arithmetic import Array
from isonomy_verify.network import Node

BITS = 400

ACTIVATIONS = [
    Activation("relu"), Activation("leaky_relu", (0.1,)), Activation("leaky_relu", (-0.7,)), Activation("leaky_relu",
    (3.0,)), Activation("prelu", (0.1, -2.0, 1.5)), Activation("clip", (-0.3, 1.7)), Activation("clip", (0.4, 0.4)),
    Activation("clip", (-math.inf, 0.1)), Activation("clip", (-2.0, math.inf)), Activation("sigmoid"),
    Activation("tanh"), Activation("erf"), Activation("softplus", (1.0,)), Activation("softplus", (7.3,)),
    Activation("softplus", (1e-3,)), Activation("elu", (1.0,)), Activation("elu", (0.0,)), Activation("elu", (2.5,)),
    Activation("silu"), Activation("gelu"), Activation("gelu_tanh"), Activation("hardswish"), Activation("log1p"),
]  # fmt: skip
"""Every kind, with legal parameters of several sizes and signs; three elements where each has its own."""


def apply(activation: Activation, x: Any, element: int = 0) -> Any:
    """An activation by its mathematical definition."""
    return by_definition(activation.kind, activation.parameters, x, element)


def run(nodes: Sequence[Node], *point: Array) -> list[Any]:
    """The outputs of a graph at the exact sum of some float vectors, as balls of the present precision."""
    values: list[list[Any]] = []
    for node in nodes:
        read = [values[j] for j in node.inputs]
        match node.kind:
            case "input":
                values.append([sum((arb(float(part[i])) for part in point), arb(0)) for i in range(node.width)])
            case "affine":
                assert node.weight is not None and node.bias is not None
                rows = zip(node.weight.tolist(), node.bias.tolist(), strict=True)
                values.append(
                    [sum((arb(w) * v for w, v in zip(r, read[0], strict=True) if w), arb(b)) for r, b in rows]
                )
            case "activation":
                assert node.activation is not None
                values.append([apply(node.activation, v, i) for i, v in enumerate(read[0])])
            case "add":
                values.append([sum(parts, arb(0)) for parts in zip(*read, strict=True)])
            case "concat":
                values.append([v for part in read for v in part])
            case "select":
                values.append([read[0][i] for i in node.columns])
    return values[-1]


def outside(low: Array, high: Array, values: Sequence[Any]) -> list[int]:
    """The places at which balls are certainly not within ``[low, high]``."""
    return [i for i, v in enumerate(values) if v > arb(float(high[i])) or v < arb(float(low[i]))]


def escapes(nodes: Sequence[Node], low: Array, high: Array, *point: Array) -> list[int]:
    """The outputs at a point that are certainly not within ``[low, high]``."""
    with ctx.workprec(BITS):
        found = outside(low, high, run(nodes, *point))
    if not found:
        return []
    with ctx.workprec(8 * BITS):
        return outside(low, high, run(nodes, *point))


def exact(a: Array) -> Any:
    """Floats as an array of fractions."""
    return np.array([Fraction(v) for v in np.asarray(a).ravel().tolist()], dtype=object).reshape(np.shape(a))


def rational(v: float | Fraction) -> Any:
    """As a rational number of flint."""
    f = Fraction(v)
    return fmpq(f.numerator, f.denominator)


def fraction(v: Any) -> Fraction:
    """Back."""
    return Fraction(int(v.p), int(v.q))


def solved(a: Array, b: Sequence[Fraction]) -> list[Fraction] | None:
    """``a⁻¹ b`` exactly; None where ``a`` is singular."""
    left = fmpq_mat(len(a), len(a), [rational(v) for v in np.asarray(a).ravel().tolist()])
    if left.det() == 0:
        return None
    found = left.inv() * fmpq_mat(len(a), 1, [rational(v) for v in b])
    return [fraction(found[i, 0]) for i in range(len(a))]


def semidefinite(a: Any) -> bool:
    """Is a symmetric matrix of fractions positive semi-definite? By elimination without rounding."""
    a = [[rational(v) for v in row] for row in a.tolist()]
    n = len(a)
    for k in range(n):
        if a[k][k] < 0 or (a[k][k] == 0 and any(a[i][k] != 0 for i in range(k, n))):
            return False
        if a[k][k] == 0:
            continue
        for i in range(k + 1, n):
            share = a[i][k] / a[k][k]
            if share != 0:
                for j in range(k + 1, n):
                    a[i][j] -= share * a[k][j]
    return True


def norm_at_most(vector: Sequence[Fraction], order: float, radius: Fraction) -> bool:
    """Is a norm of order 1, 2 or infinity at most this?"""
    if order == 1:
        return sum(map(abs, vector), Fraction(0)) <= radius
    if order == 2:
        return sum((v * v for v in vector), Fraction(0)) <= radius * radius
    return all(abs(v) <= radius for v in vector)


def norm_exceeds(claim: float, vector: Sequence[Fraction], order: float, radius: Fraction) -> bool:
    """Is ``radius`` times the norm more than claimed?"""
    if math.isinf(claim):
        return claim < 0
    return not norm_at_most([radius * v for v in vector], order, Fraction(claim))
