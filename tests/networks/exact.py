"""Affine maps and graphs in exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from isonomy.networks.graph import Add, Affine, Concat, Graph, Input, Select

Vector = list[Fraction]
Matrix = list[Vector]


def vector(values: np.ndarray) -> Vector:
    return [Fraction(v) for v in values.tolist()]


def matrix(values: np.ndarray) -> Matrix:
    return [[Fraction(v) for v in row] for row in values.tolist()]


def apply(weight: Matrix, bias: Vector, x: Vector) -> Vector:
    return [sum((w * v for w, v in zip(row, x, strict=True)), b) for row, b in zip(weight, bias, strict=True)]


def product(left: Matrix, right: Matrix) -> Matrix:
    columns = list(zip(*right, strict=True))
    return [[sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in left]


def evaluate(graph: Graph, x: Vector) -> Vector:
    """The stored numbers of a graph without activations, evaluated exactly."""
    values: list[Vector] = []
    for node in graph.nodes:
        read = [values[j] for j in node.inputs]
        match node.op:
            case Input():
                values.append(x)
            case Affine(weight=weight, bias=bias):
                values.append(apply(matrix(weight), vector(bias), read[0]))
            case Add():
                values.append([sum(parts, Fraction(0)) for parts in zip(*read, strict=True)])
            case Concat():
                values.append([v for part in read for v in part])
            case Select(index=index):
                values.append([read[0][i] for i in index])
            case _:
                raise AssertionError(node.op)
    return values[-1]


def encloses(affine: Affine, weight: Matrix, bias: Vector) -> bool:
    """Whether the slacks of an affine map reach an exact one, and its magnitudes bound it."""
    rows = zip(weight, matrix(affine.weight), vector(affine.weight_slack), strict=True)
    near = all(sum(abs(a - b) for a, b in zip(w, v, strict=True)) <= slack for w, v, slack in rows)
    columns = zip(bias, vector(affine.bias), vector(affine.bias_slack), strict=True)
    near = near and all(abs(a - b) <= slack for a, b, slack in columns)
    magnitude, offset = affine.magnitudes()
    below = all(
        abs(w) <= m for rows_ in zip(weight, matrix(magnitude), strict=True) for w, m in zip(*rows_, strict=True)
    )
    return near and below and all(abs(b) <= m for b, m in zip(bias, vector(offset), strict=True))
