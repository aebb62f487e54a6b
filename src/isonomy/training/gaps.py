"""How differently two similar individuals can be treated, as a loss: the relational interval form.

A person ``z`` within radius ``r`` (ground cost) of the individual ``x``, and ``y`` similar to ``z``. Each neuron
carries its value ``c`` at ``x``, a bound ``s`` of how far ``z``'s value is from ``c``, and a bound ``b`` of the
difference ``Δ`` between the values of ``y`` and ``z``. The first layer is exact (:class:`Reach`), an affine
layer maps ``s`` and ``b`` by ``|W|``, and a ReLU by

    s ← min(relu(c + s), s),        b ← min(relu(c + s + b), b),

since ``relu(v + b) − relu(v) = min(relu(v + b), b)`` for ``v ≥ 0`` and is no more below, and grows with ``v ≤ c + s``.
Of each bound one product per layer is left; ``b`` scales with δ and not with δ + r. At the end the probability
``σ(t)`` changes most when ``t + Δ/2`` is as near to 0 as ``t`` in ``[c − s, c + s]`` allows.

How far can a first layer move? It is affine, so over ``{v : ‖R v‖_p ≤ δ}`` its pre-activations move by at most

    h(w) = δ ‖R⁺ᵀ w‖_q,        1/p + 1/q = 1,

for a row ``w`` in the range of ``Rᵀ``. Directions that the root leaves free are bounded by the domain alone: a part
``w₂ = T N w`` of the row, with ``N`` a basis of the free directions and ``N T = I``, goes to the box around the domain.
``T`` is chosen once, by linear programs, so that the box costs little. None of this depends on the individual, hence a
batch pays for it once.

**Soundness.** Upper bounds of the violation of every pair of individuals of the domain, in real arithmetic; computed
in float32 without rounding terms, because nothing is certified from them: :mod:`isonomy.certificates` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from torch import Tensor
from torch.nn import functional

from isonomy.arithmetic import FloatArray
from isonomy.errors import MetricError
from isonomy.population import Domain
from isonomy.similarity.ground import Ground, ground_metric, ground_root
from isonomy.similarity.metric import Metric
from isonomy_verify.arithmetic import dual_order

IntArray = NDArray[np.int64]

_RELATIVE_ZERO = 1e-9
"""Relative size below which a direction counts as free, or as not read."""

_DENSE_SHARE = 0.8
"""The share of rows from which on picking them costs more than it saves."""

_NARROW = 16
"""Products with so few columns are cheap anyhow."""

Layers = Sequence[tuple[Tensor, Tensor]]
"""Weights (out, in) and biases (out,) of an MLP with ReLU between its layers."""


def run(layers: Layers, x: Tensor) -> list[Tensor]:
    """Return the pre-activations of every layer at individuals (n, read); the last are the raw outputs."""
    values: list[Tensor] = []
    for weight, bias in layers:
        values.append(functional.linear(values[-1].relu() if values else x, weight, bias))
    return values


@dataclass(frozen=True)
class Head:
    """How raw outputs become what people receive: class probabilities (``classes`` ≥ 2), or numbers (0)."""

    classes: int

    def margin_rows(self) -> Tensor | None:
        """Return the matrix that turns raw outputs into the differences ``z_j − z_c`` that decide; None for numbers."""
        k = self.classes
        if k == 0:
            return None
        ones = torch.eye(k)
        return torch.stack([ones[j] - ones[c] for c in range(1 if k == 2 else k) for j in range(k) if j != c])

    def gap(self, margin: Tensor, spread: Tensor, apart: Tensor) -> Tensor:
        """Bound the change (n,) when margins are within ``spread`` of ``margin`` and differ by at most ``apart``."""
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
        """Return the width (n,) of the range of each probability, as the paper has it."""
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
        """Prepare bounds; ``one_of_several``: individuals count at one radius only, most rows have no gradient."""
        self.values, self.head, self.one_of_several = values, head, one_of_several
        weights, self.margin = [weight for weight, _ in layers], values[-1]
        if (rows := head.margin_rows()) is not None:  # merged with the last layer
            weights[-1], self.margin = rows @ weights[-1], values[-1] @ rows.T
        self.growing, self.fixed = moves.growing(weights[0]), moves.fixed(weights[0])
        self.shift = shifts.over(weights[0], 1.0)
        self.sizes = [weight.abs().T for weight in weights[1:]]  # shared by all radii

    def at(self, delta: float, radius: float = 0.0) -> Tensor:
        """Return the bound (n,) with the centre anywhere within ``radius``."""
        apart: Tensor = delta * self.growing + self.fixed
        spread: Tensor | None = radius * self.shift if radius > 0 else None
        for value, size in zip(self.values[:-1], self.sizes, strict=True):
            reached = relu_bound(value, apart if spread is None else spread + apart, apart)
            multiply = sparse_product if self.one_of_several and size.shape[1] > _NARROW else torch.matmul
            spread = None if spread is None else multiply(relu_bound(value, spread, spread), size)
            apart = multiply(reached, size)
        apart = apart.expand_as(self.margin)
        spread = torch.zeros_like(apart) if spread is None else spread.expand_as(apart)
        return self.head.gap(self.margin, spread, apart)


def paper_gap(layers: Layers, x: Tensor, head: Head, box: Reach, radius: float) -> Tensor:
    """Return the paper's bound (n,): intervals from the box around the similar set on, the whole width at the end."""
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


def attacked_gap(layers: Layers, x: Tensor, head: Head, moves: Reach, delta: float, steps: int = 2) -> Tensor:
    """Return the change (n,) towards similar individuals that a search has reached, as the paper's lower bound has it.

    Each step goes along the slope of an outcome as far as the growing part of ``moves`` allows, both ways.
    """
    base, width = _received(layers, x, head), max(1, head.classes) - (head.classes == 2)
    frozen = [(weight.detach(), bias.detach()) for weight, bias in layers]
    changes = []
    for outcome in range(width):
        for sign in (1.0, -1.0):
            move = torch.zeros_like(x)
            for _ in range(steps):
                at = (x + move).detach().requires_grad_()
                (slope,) = torch.autograd.grad(sign * _received(frozen, at, head)[:, -1 - outcome].sum(), at)
                move = delta * moves.furthest(slope)
            change = _received(layers, x + move, head) - base
            changes.append(change.abs().amax(1))
    return torch.stack(changes).amax(0)


def _received(layers: Layers, x: Tensor, head: Head) -> Tensor:
    """Return probabilities (n, classes), or numbers (n, 1)."""
    raw = run(layers, x)[-1]
    return raw.softmax(1) if head.classes else raw


class _ReluBound(torch.autograd.Function):
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


class _SparseProduct(torch.autograd.Function):
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
        if len(rows) > _DENSE_SHARE * len(gradient):
            return gradient @ b.T, a.T @ gradient
        gradient = gradient[rows]
        return torch.zeros_like(a).index_copy_(0, rows, gradient @ b.T), a[rows].T @ gradient


relu_bound: Callable[[Tensor, Tensor, Tensor], Tensor] = _ReluBound.apply
sparse_product: Callable[[Tensor, Tensor], Tensor] = _SparseProduct.apply


def _summed(gradient: Tensor, shape: torch.Size) -> Tensor:
    return gradient if gradient.shape == shape else gradient.sum(0)


# -- the first layer


@dataclass(frozen=True)
class Reach:
    """The largest ``|w·v|`` over moves ``v``, for the rows ``w`` of a first layer that reads some coordinates.

    ``ball`` (read, r) and its dual ``order`` are the part that grows with the radius, ``tolerance`` (read,) that of
    single coordinates. ``free`` (read, m) leads to the part that the domain alone bounds: by ``extent`` per coordinate,
    or by the largest minus the smallest entry of each one-hot block.
    """

    ball: Tensor
    order: float
    tolerance: Tensor
    free: Tensor
    extent: Tensor
    blocks: tuple[tuple[int, int], ...] = ()

    def growing(self, weight: Tensor) -> Tensor:
        """Return the part that is multiplied by the radius, one number for each row of ``weight`` (out, read)."""
        along: Tensor = torch.linalg.vector_norm(weight @ self.ball, self.order, dim=1)
        return along + weight.abs() @ self.tolerance

    def furthest(self, slope: Tensor) -> Tensor:
        """Return the move (n, read) of the growing part at radius 1 that goes furthest along slopes (n, read)."""
        along = slope @ self.ball
        if not along.shape[1]:
            step = along
        elif self.order == 1:  # the ball is that of the largest entry
            step = along.sign()
        elif self.order == 2:
            step = along / torch.linalg.vector_norm(along, dim=1, keepdim=True).clamp(min=1e-12)
        elif self.order == np.inf:
            step = functional.one_hot(along.abs().argmax(1), along.shape[1]) * along.sign()
        else:
            size = along.abs() ** (self.order - 1)
            power = self.order / (self.order - 1)
            step = along.sign() * size / torch.linalg.vector_norm(size, power, dim=1, keepdim=True).clamp(min=1e-12)
        return step @ self.ball.T + slope.sign() * self.tolerance

    def fixed(self, weight: Tensor) -> Tensor:
        """Return the part that is there at any radius; 0 when nothing is free."""
        turned = weight @ self.free
        total = turned.abs() @ self.extent
        for start, stop in self.blocks:
            block = turned[:, start:stop]
            total = total + block.amax(1) - block.amin(1)
        return total

    def unlimited(self) -> Tensor:
        """Return an orthonormal basis (read, k) of the directions in which the domain alone limits a move."""
        reached = self.extent > 0
        for start, stop in self.blocks:
            reached[start:stop] = True
        basis, sizes, _ = torch.linalg.svd(self.free[:, reached], full_matrices=False)
        directions: Tensor = basis[:, sizes > _RELATIVE_ZERO**0.5]
        return directions

    def over(self, weight: Tensor, radius: float) -> Tensor:
        """Return the sum of both parts at a radius."""
        return radius * self.growing(weight) + self.fixed(weight)


def similar_reach(metric: Metric, domain: Domain, reads: IntArray, x: FloatArray, delta: float) -> Reach:
    """Return the reach of the similar sets; tolerances of single coordinates are measured around individuals ``x``."""
    if len(metric.gauge()[0]):
        root, order = metric.gauge()
        return _of_root(root, order, domain, reads, _moving(root, domain, delta))
    radius = delta if delta > 0 else 1.0
    low, high = metric.box(x, radius)
    size = np.maximum(np.abs(low), np.abs(high)).max(axis=0) / radius
    size[domain.immutable] = 0.0
    loose = np.isinf(size)
    free = np.diag(np.where(loose, 1.0, 0.0))[reads]
    return _assembled(np.zeros((len(reads), 0)), 2.0, domain, free, np.where(loose, 0.0, size)[reads])


def shift_reach(ground: Ground, domain: Domain, reads: IntArray) -> Reach:
    """Return the reach of a shift: the ball of the ground cost."""
    root, order = ground_root(ground_metric(ground, domain.width))
    return _of_root(root, order, domain, reads, np.ones(domain.width, dtype=bool))


def boxed(exact: Reach) -> Reach:
    """Return the box around the similar set, through which the paper's bounds go."""
    eye = torch.eye(len(exact.ball))
    return Reach(torch.zeros(len(eye), 0), 2.0, exact.growing(eye), eye, exact.fixed(eye))


def _moving(root: FloatArray, domain: Domain, delta: float) -> NDArray[np.bool_]:
    """Return the coordinates in which similar individuals may differ.

    Where a category is whole (realizable domain), a one-hot block or flag stays as it is unless some change of it is
    within ``delta``, given the best change of the numbers and of the blocks that can change already. Blocks that could
    change only several at a time are taken for still: good for training, where it keeps the bound from counting
    fractions of categories, but not a proof.
    """
    moving = domain.numeric & ~domain.immutable
    if domain.kind != "realizable":
        return ~domain.immutable
    unchanged = [block for block in domain.blocks if not domain.immutable[slice(*block)].any()]
    for _ in range(len(unchanged)):
        basis = np.linalg.svd(root[:, moving], full_matrices=False)
        within = basis[0][:, basis[1] > _RELATIVE_ZERO * basis[1].max(initial=0.0)]

        def least(block: tuple[int, int], within: FloatArray = within) -> float:
            columns = root[:, slice(*block)]
            changes = [columns[:, a] - columns[:, b] for a in range(columns.shape[1]) for b in range(a)]
            turned = np.stack(changes or [columns[:, 0]], axis=1)
            return float(np.linalg.norm(turned - within @ (within.T @ turned), axis=0).min())

        changing = [block for block in unchanged if least(block) <= delta + _RELATIVE_ZERO]
        if not changing:
            break
        for block in changing:
            moving[slice(*block)] = True
            unchanged.remove(block)
    return moving


def _of_root(root: FloatArray, order: float, domain: Domain, reads: IntArray, moving: NDArray[np.bool_]) -> Reach:
    left, values, right = np.linalg.svd(root[:, moving], full_matrices=True)
    rank = int((values > _RELATIVE_ZERO * values.max(initial=0.0)).sum())
    inverse = (right[:rank].T / values[:rank]) @ left[:, :rank].T  # (moving, r)
    basis = right[rank:]  # free directions, orthonormal rows
    read = np.eye(domain.width)[reads][:, moving]
    free = np.zeros((len(reads), domain.width))
    if np.abs(read @ basis.T).max(initial=0.0) > _RELATIVE_ZERO:
        free[:, moving] = read @ basis.T @ _cheapest(basis, domain, moving).T
    ball = (read - free[:, moving]) @ inverse
    return _assembled(ball, dual_order(order), domain, free, np.zeros(len(reads)))


def _cheapest(basis: FloatArray, domain: Domain, moving: NDArray[np.bool_]) -> FloatArray:
    """Return ``T`` (moving, k) with ``basis @ T = I`` and the least box around each of its columns."""
    extent = np.where(domain.numeric, domain.high - domain.low, 1.0)[moving]
    if domain.kind == "unbounded":
        extent = np.full(extent.shape, np.inf)
    usable = np.isfinite(extent)
    chosen = np.zeros((len(extent), len(basis)))
    for k in range(len(basis)):
        # t = plus - minus, both at least 0: the smallest sum of extent |t| with basis t = e_k.
        cost = np.concatenate([extent[usable], extent[usable]]) + _RELATIVE_ZERO
        equal = np.concatenate([basis[:, usable], -basis[:, usable]], axis=1)
        program = linprog(cost, A_eq=equal, b_eq=np.eye(len(basis))[k], method="highs") if usable.any() else None
        if program is None or program.x is None:
            raise MetricError(
                "The metric leaves directions free that nothing in the domain bounds, so similar individuals can be "
                "arbitrarily far apart: train with a bounded domain ('relaxed' or 'realizable'), or with ridge > 0."
            )
        chosen[usable, k] = program.x[: usable.sum()] - program.x[usable.sum() :]
    return chosen


def _assembled(ball: FloatArray, order: float, domain: Domain, free: FloatArray, tolerance: FloatArray) -> Reach:
    used = free.any(axis=0)
    blocks = tuple(block for block in domain.blocks if block[1] - block[0] > 1 and used.any())
    extent = np.where(domain.numeric, domain.high - domain.low, 1.0)
    for start, stop in blocks:
        extent[start:stop] = 0.0
    extent[~used] = 0.0
    if not np.isfinite(extent).all() or (used.any() and domain.kind == "unbounded"):
        name = domain.names[int(np.flatnonzero(used)[0])]
        raise MetricError(
            f"The metric leaves '{name}' free, which the network reads and the domain does not bound: train with a "
            "bounded domain ('relaxed' or 'realizable'), or with method='ftu'."
        )
    most = domain.width if used.any() else 0  # what is not there costs nothing
    return Reach(
        as_float32(ball), order, as_float32(tolerance), as_float32(free[:, :most]), as_float32(extent[:most]), blocks
    )


def as_float32(array: FloatArray) -> Tensor:
    """Copy an array to a tensor in float32, the precision of all training."""
    return torch.from_numpy(np.array(array, dtype=np.float32))
