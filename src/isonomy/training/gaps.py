"""How differently two similar individuals can be treated, as a loss: the relational interval form.

A person ``z`` within radius ``r`` (ground cost) of the individual ``x``, and ``y`` similar to ``z``. Each neuron
carries its value ``c`` at ``x``, a bound ``s`` of how far ``z``'s value is from ``c``, and a bound ``b`` of the
difference ``Δ`` between the values of ``y`` and ``z``. The first layer is exact (:mod:`isonomy.training.reach`), an
affine layer maps ``s`` and ``b`` by ``|W|``, and a ReLU by

    s ← min(relu(c + s), s),        b ← min(relu(c + s + b), b),

since ``relu(v + b) − relu(v) = min(relu(v + b), b)`` for ``v ≥ 0`` and is no more below, and grows with ``v ≤ c + s``.
Of each bound one product per layer is left; ``b`` scales with δ and not with δ + r. At the end the probability
``σ(t)`` changes most when ``t + Δ/2`` is as near to 0 as ``t`` in ``[c − s, c + s]`` allows.

**Soundness.** Upper bounds of the violation in real arithmetic; computed in float32 without rounding terms, because
nothing is certified from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from isonomy.training.reach import Reach

_MOST = 0.8
"""The share of rows from which on picking them costs more than it saves."""

_NARROW = 16
"""Products with so few columns are cheap anyhow."""

Layers = Sequence[tuple[Tensor, Tensor]]
"""Weights (out, in) and biases (out,) of an MLP with ReLU between its layers."""


def run(layers: Layers, x: Tensor) -> list[Tensor]:
    """The pre-activations of every layer at individuals (n, read); the last are the raw outputs."""
    values: list[Tensor] = []
    for weight, bias in layers:
        values.append(functional.linear(values[-1].relu() if values else x, weight, bias))
    return values


@dataclass(frozen=True)
class Head:
    """How raw outputs become what people receive: class probabilities (``classes`` ≥ 2), or numbers (0)."""

    classes: int

    def margin_rows(self) -> Tensor | None:
        """The matrix that turns raw outputs into the differences ``z_j − z_c`` that decide; None for numbers."""
        k = self.classes
        if k == 0:
            return None
        pairs = [(0, 1)] if k == 2 else [(c, j) for c in range(k) for j in range(k) if j != c]
        rows = torch.zeros(len(pairs), k)
        for row, (c, j) in enumerate(pairs):
            rows[row, j], rows[row, c] = 1.0, -1.0
        return rows

    def gap(self, margin: Tensor, spread: Tensor, apart: Tensor) -> Tensor:
        """The largest change (n,) when margins are within ``spread`` of ``margin`` and differ by at most ``apart``."""
        if self.classes == 0:
            return apart.amax(1)
        if self.classes > 2:
            shape = (len(margin), self.classes, self.classes - 1)
            margin = torch.logsumexp(margin.reshape(shape), 2)  # -t of each class
            spread, apart = spread.reshape(shape).amax(2), apart.reshape(shape).amax(2)
        half = apart / 2
        away = ((margin.abs() - half).abs() - spread).relu()
        return (torch.sigmoid(away + half) - torch.sigmoid(away - half)).amax(1)

    def width(self, middle: Tensor, radius: Tensor) -> Tensor:
        """The width (n,) of the range of each probability, as the paper has it."""
        if self.classes == 0:
            return (2 * radius).amax(1)
        low, high = middle - radius, middle + radius
        if self.classes > 2:
            shape = (len(middle), self.classes, self.classes - 1)
            low, high = -torch.logsumexp(high.reshape(shape), 2), -torch.logsumexp(low.reshape(shape), 2)
        return (torch.sigmoid(high) - torch.sigmoid(low)).amax(1)


class DifferenceBounds:
    """Violation bounds around a batch of individuals, for one radius of the centre after the other."""

    def __init__(
        self,
        layers: Layers,
        values: Sequence[Tensor],
        head: Head,
        moves: Reach,
        shifts: Reach,
        one_of_several: bool = False,
    ) -> None:
        """``one_of_several``: each individual will count at one radius only, so that most rows have no gradient."""
        self.values, self.head, self.one_of_several = values, head, one_of_several
        weights, self.margin = [weight for weight, _ in layers], values[-1]
        if (rows := head.margin_rows()) is not None:  # merged with the last layer
            weights[-1], self.margin = rows @ weights[-1], values[-1] @ rows.T
        self.growing, self.fixed = moves.growing(weights[0]), moves.fixed(weights[0])
        self.shift = shifts.over(weights[0], 1.0)
        self.sizes = [weight.abs().T for weight in weights[1:]]  # shared by all radii

    def at(self, delta: float, radius: float = 0.0) -> Tensor:
        """The bound (n,) with the centre anywhere within ``radius``."""
        apart: Tensor = delta * self.growing + self.fixed
        spread: Tensor | None = radius * self.shift if radius > 0 else None
        for value, size in zip(self.values[:-1], self.sizes, strict=True):
            reached = _passed(value, apart if spread is None else spread + apart, apart)
            multiply = _product if self.one_of_several and size.shape[1] > _NARROW else torch.matmul
            spread = None if spread is None else multiply(_passed(value, spread, spread), size)
            apart = multiply(reached, size)
        apart = apart.expand_as(self.margin)
        spread = torch.zeros_like(apart) if spread is None else spread.expand_as(apart)
        return self.head.gap(self.margin, spread, apart)


def paper_gap(layers: Layers, x: Tensor, head: Head, box: Reach, radius: float) -> Tensor:
    """The paper's bound (n,): intervals from the box around the similar set on, and the whole width at the end."""
    rows = head.margin_rows()
    middle, spread = x, box.over(torch.eye(x.shape[1]), radius).expand_as(x)
    for index, (weight, bias) in enumerate(layers):
        if index:
            low, high = (middle - spread).relu(), (middle + spread).relu()
            middle, spread = (high + low) / 2, (high - low) / 2
        if index == len(layers) - 1 and rows is not None:
            weight, bias = rows @ weight, rows @ bias
        middle, spread = functional.linear(middle, weight, bias), spread @ weight.abs().T
    return head.width(middle, spread)


class _Passed(torch.autograd.Function):
    """``min(relu(c + s), b)``, with one stored tensor and few passes over memory in either direction."""

    @staticmethod
    def forward(context: Any, value: Tensor, reach: Tensor, most: Tensor) -> Tensor:
        out = torch.add(value, reach).clamp_(min=0.0)
        out = torch.minimum(out, most, out=out)
        context.save_for_backward(out, most)
        context.shapes = reach.shape, most.shape
        return out

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        (gradient,) = gradients
        out, most = context.saved_tensors
        reach_shape, most_shape = context.shapes
        # No masks: turning them into numbers, or filling by them, costs more than all the rest.
        alive = torch.ops.aten.threshold_backward(gradient, out, 0.0)
        to_value = torch.ops.aten.threshold_backward(alive, most - out, 0.0)
        to_reach = _summed(to_value, reach_shape)
        if most_shape == reach_shape != out.shape:
            return to_value, to_reach, alive.sum(0) - to_reach
        return to_value, to_reach, _summed(alive.sub_(to_value), most_shape)


class _Product(torch.autograd.Function):
    """``a @ b``, backward through the rows that matter: the dual counts each individual at one radius only."""

    @staticmethod
    def forward(context: Any, a: Tensor, b: Tensor) -> Tensor:
        context.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        a, b = context.saved_tensors
        rows = gradient.any(1).nonzero()[:, 0]
        if len(rows) > _MOST * len(gradient):
            return gradient @ b.T, a.T @ gradient
        gradient = gradient[rows]
        return torch.zeros_like(a).index_copy_(0, rows, gradient @ b.T), a[rows].T @ gradient


def _product(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = _Product.apply(a, b)  # type: ignore[no-untyped-call]
    return product


def _passed(value: Tensor, reach: Tensor, most: Tensor) -> Tensor:
    passed: Tensor = _Passed.apply(value, reach, most)  # type: ignore[no-untyped-call]
    return passed


def _summed(gradient: Tensor, shape: torch.Size) -> Tensor:
    return gradient if gradient.shape == shape else gradient.sum(0)
