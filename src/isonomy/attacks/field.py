"""The scores of a network at points, and their gradients, which a search climbs.

A score is the logit ``t`` of a class (``p = σ(t)``, of two classes that of the second) or a number of a regression.
Probabilities rise and fall with it, and unlike them it is not flat where they are all but 0 or 1.

Gradients come from one backward pass over the layers of the kernel's normal form. Where an activation is flat (an
inactive ReLU) its slope says nothing of the region; given the extent of every coordinate, the slope of a chord takes
its place, as far to both sides as these moves are likely to move the activation's input.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.arithmetic import FloatArray
from isonomy_verify.activations import Activation, sigmoid
from isonomy_verify.combinations import Product, is_shared
from isonomy_verify.enclosure import Prepared
from isonomy_verify.heads import Head
from isonomy_verify.hints.ascent import weights_of

Floats = NDArray[Any]
"""float32 or float64: nothing here proves anything."""

IntArray = NDArray[np.int64]

COARSE = 1e-4
"""The largest error of a float32 run, relative to its outputs, with which a search uses it."""


class Field:
    """The scores of a network at points, in one precision."""

    def __init__(self, prepared: Prepared, head: Head, single: bool = False) -> None:
        self.network, self.head, self.dtype = prepared.network, head, np.float32 if single else np.float64
        self.weights: list[list[tuple[Floats, Floats]]] = (
            weights_of(prepared)
            if single
            else [
                [(block.weight, transposed) for block, transposed in zip(layer.blocks, layer.transposed, strict=True)]
                for layer in self.network.layers
            ]
        )
        with np.errstate(over="ignore"):
            self.biases: list[Floats] = [layer.bias.astype(self.dtype) for layer in self.network.layers]
        self._class_differences = _class_differences(head)

    @classmethod
    def of(cls, prepared: Prepared, head: Head, x: FloatArray, margins: FloatArray | None = None) -> Field:
        """Make a field in float32, or in float64 where float32 misses the network's ``margins`` at the examples
        ``x``."""
        coarse = cls(prepared, head, single=True)
        with np.errstate(all="ignore"):
            fine = prepared.network.run(x)[-1] if margins is None else margins
            fits = np.linalg.norm(coarse.margins(x) - fine) <= COARSE * np.linalg.norm(fine)
        return coarse if fits else cls(prepared, head)

    @property
    def targets(self) -> int:
        """Return the number of scores: 1 for two probabilities."""
        return 1 if self.head.kind == "softmax" and self.head.outputs == 2 else self.head.outputs

    def margins(self, y: FloatArray) -> FloatArray:
        """Return the network's margins (n, p) at points (n, m)."""
        return self._run(y)[-1].astype(np.float64)

    def margins_of(self, product: Product, rows: IntArray) -> FloatArray:
        """Return the margins (rows · combinations, p) of people with the categories of each combination in turn."""
        count = product.size
        if not is_shared(self.network):
            there = product.at(np.repeat(rows, count), np.tile(np.arange(count), len(rows)))
            return self.margins(there)
        base, ((_, weight),) = product.centre[rows], self.weights[0]
        base[:, product.columns] = 0.0
        own, more = base.astype(self.dtype) @ weight, product.states.astype(self.dtype) @ weight[product.columns]
        first = np.add(own[:, None], more + self.biases[0]).reshape(-1, own.shape[1])  # of all at once
        return self._run(first, 1)[-1].astype(np.float64)

    def scores(self, margins: FloatArray) -> FloatArray:
        """Return all scores (n, targets)."""
        if self._class_differences is None:
            return margins
        differences = np.einsum("np,cjp->ncj", margins, self._class_differences)
        top = differences.max(2, keepdims=True)
        return np.asarray(-(np.log(np.exp(differences - top).sum(2)) + top[..., 0]))

    def received(self, scores: FloatArray) -> FloatArray:
        """Return the outputs of these scores: probabilities, or the numbers themselves."""
        if self.head.kind in ("regression", "probability"):
            return np.clip(scores, 0.0, 1.0) if self.head.kind == "probability" else scores
        return sigmoid(scores)

    def scores_and_gradient(
        self, y: FloatArray, target: IntArray, sign: FloatArray, extent: FloatArray | None = None, share: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return scores (n, targets), and the gradient (n, m) of each row's own score times its sign.

        With the ``extent`` (n or 1, m) of moves slopes are those of chords, over this ``share`` of the likely change of
        an activation's input; with a share of 1, of its largest change.
        """
        run = self._run(y)
        margins = run[-1].astype(np.float64)
        spread = None if extent is None else self._spread(run, share * extent, 1 if share >= 1 else 2)
        gradients: dict[int, Floats] = {}  # of the sources of layers, 0 the input
        back = (self._score_gradient(margins, target) * sign[:, None]).astype(self.dtype)
        for k in range(len(run) - 1, -1, -1):
            if k < len(run) - 1:
                if k + 1 not in gradients:
                    continue
                activation = self.network.layers[k].activation
                assert activation is not None
                slope = _slope(activation, run[k]) if spread is None else _chord(activation, run[k], spread[k])
                back = np.multiply(gradients.pop(k + 1), slope, dtype=self.dtype)
            for block, (weight, _) in zip(self.network.layers[k].blocks, self.weights[k], strict=True):
                part = back @ weight
                gradients[block.source] = gradients[block.source] + part if block.source in gradients else part
        gradient = gradients.get(0, np.zeros((1, 1))) + np.zeros(y.shape)
        return self.scores(margins), np.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)

    def _run(self, y: FloatArray | Floats, done: int = 0) -> list[Floats]:
        """Return the inputs of every layer's activation; the last are the margins. If one layer is ``done``, ``y`` is
        the input of its activation, and no other layer reads the network's."""
        inputs: list[Floats] = []
        sources: list[Floats] = [y.astype(self.dtype, copy=False)]
        for k, (layer, weights, bias) in enumerate(zip(self.network.layers, self.weights, self.biases, strict=True)):
            z: Floats = sources[0] if k < done else np.broadcast_to(bias, (len(y), layer.width))
            for block, (_, transposed) in zip(layer.blocks, weights, strict=True) if k >= done else ():
                product = sources[block.source] @ transposed
                product += z
                z = product
            inputs.append(z)
            if layer.activation is None:
                break
            value = np.maximum(z, 0) if layer.activation.kind == "relu" else layer.activation.shape.value(z)
            sources.append(value.astype(self.dtype, copy=False))
        return inputs

    def _spread(self, run: list[Floats], extent: FloatArray, order: int) -> list[Floats]:
        """Return how far moves of the coordinates, each up to its extent, change the inputs of activations: in the
        worst case (order 1), or as if they were independent (order 2)."""
        sources: list[Floats] = [(np.minimum(extent, 1e6) ** order).astype(self.dtype)]
        spread: list[Floats] = []
        for layer, z, weights in zip(self.network.layers, run, self.weights, strict=True):
            if layer.activation is None:
                break
            total: Floats = np.zeros((1, layer.width), self.dtype)
            for block, (_, transposed) in zip(layer.blocks, weights, strict=True):
                total = total + sources[block.source] @ np.abs(transposed) ** order
            spread.append(total ** (1 / order))
            sources.append((np.abs(_chord(layer.activation, z, spread[-1])) * spread[-1]) ** order)
        return spread

    def _score_gradient(self, margins: FloatArray, target: IntArray) -> FloatArray:
        """Return the gradient (n, p) of each row's own score by the margins."""
        if self._class_differences is None:
            return np.eye(margins.shape[1])[target]
        matrix = self._class_differences[target]
        differences = np.einsum("np,njp->nj", margins, matrix)
        share = np.exp(differences - differences.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        return np.asarray(-np.einsum("nj,njp->np", share, matrix))


def _class_differences(head: Head) -> FloatArray | None:
    """Return the matrix (classes, others, margins) of the differences ``z_j − z_c`` of each class in terms of the
    margins; None: the scores are the margins."""
    if head.kind != "softmax" or head.outputs == 2:
        return None
    k = head.outputs
    matrix = np.zeros((k, k - 1, len(head.pairs)))
    for i, (c, j) in enumerate(head.pairs):
        matrix[c, j - 1, i], matrix[j, c, i] = 1.0, -1.0
    return matrix


def _slope(activation: Activation, z: Floats) -> Floats:
    """Return the derivative; at a kink that of the piece to its left."""
    shape = activation.shape
    if not shape.slopes:
        assert shape.slope is not None
        return shape.slope(z)
    slope: Any = shape.slopes[0]
    if activation.kind == "relu":
        return np.greater(z, 0)
    for kink, after in zip(shape.kinks, shape.slopes[1:], strict=True):
        slope = np.where(z > kink, after, slope)
    return np.asarray(np.broadcast_to(slope, z.shape))


def _chord(activation: Activation, z: Floats, spread: Floats) -> Floats:
    """Return the slope from ``z − spread`` to ``z + spread``, or at ``z`` where that is one point."""
    value = activation.shape.value
    rise = value(z + spread) - value(z - spread)
    narrow = spread <= 1e-5 * (1 + np.abs(z))
    return np.asarray(np.where(narrow, _slope(activation, z), rise / np.where(narrow, 1.0, 2 * spread)))
