"""The network that is trained: affine layers with ReLU between them, in float32."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from isonomy.networks import Network
from isonomy.networks.graph import Head as NetworkHead
from isonomy.training.gaps import IntArray, as_float32, run
from isonomy.training.onnx_file import affine_layers


@dataclass(frozen=True, eq=False)
class Perceptron:
    """Weights and biases as leaf tensors, and the coordinates of an individual that the first layer reads."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    reads: IntArray
    width: int  # coordinates of an individual, read or not
    trained: tuple[Tensor, ...] = ()  # of each parameter 1 where it is trained, 0 where it stays; empty: everywhere

    @classmethod
    def random(
        cls, reads: IntArray, width: int, hidden: Sequence[int], outputs: int, generator: torch.Generator
    ) -> Perceptron:
        """Draw uniform weights within ``1/sqrt(inputs)``, as ``torch.nn.Linear`` does."""
        sizes = [len(reads), *hidden, outputs]
        layers = []
        for inputs, units in pairwise(sizes):
            limit = 1 / math.sqrt(max(inputs, 1))
            weight = torch.empty(units, inputs).uniform_(-limit, limit, generator=generator)
            bias = torch.empty(units).uniform_(-limit, limit, generator=generator)
            layers.append((weight.requires_grad_(), bias.requires_grad_()))
        return cls(tuple(layers), reads, width)

    @classmethod
    def beside(
        cls, start: Network, reads: IntArray, hidden: Sequence[int], x: Tensor, generator: torch.Generator
    ) -> Perceptron:
        """Return a network that begins as ``start``, with hidden neurons beside it that outputs weigh by 0 at first.

        ``start`` has one hidden layer whose neurons are never cut off; they are carried through all layers, by weights
        that stay. The other neurons are drawn for rows ``x`` (n, read) as if these were standardised.
        """
        (first, lift), (last, bias) = [(as_float32(w), as_float32(b)) for w, b in affine_layers(start)]
        first, carried = first[:, torch.from_numpy(reads)], len(lift)
        free = cls.random(reads, start.input_width, hidden, len(bias), generator).copy_state()
        spread = x.std(0, correction=0)
        free[0] /= torch.where(spread > 1e-6, spread, torch.ones(()))
        free[1] -= free[0] @ x.mean(0)
        layers, trained = [], []
        for number in range(len(hidden)):
            weight, offset = free[2 * number : 2 * number + 2]
            if number == 0:
                weight, offset = torch.cat([weight, first]), torch.cat([offset, lift])
                mask = torch.ones_like(weight)
            else:
                mask = _diagonal(torch.ones_like(weight), torch.zeros(carried, carried))
                weight, offset = _diagonal(weight, torch.eye(carried)), torch.cat([offset, torch.zeros(carried)])
            layers.append((weight, offset))
            trained += [mask, torch.cat([torch.ones(len(offset) - carried), torch.zeros(carried)])]
        units = hidden[-1] if hidden else 0
        layers.append((torch.cat([torch.zeros(len(bias), units), last], 1), bias))
        trained += [torch.cat([torch.ones(len(bias), units), torch.zeros_like(last)], 1), torch.ones_like(bias)]
        leaves = tuple((w.requires_grad_(), b.requires_grad_()) for w, b in layers)
        return cls(leaves, reads, start.input_width, tuple(trained))

    def hold(self) -> None:
        """Take from the gradients what is not trained."""
        for parameter, mask in zip(self.parameters, self.trained, strict=False):
            if parameter.grad is not None:
                parameter.grad *= mask

    @classmethod
    def from_network(cls, network: Network) -> Perceptron:
        """Return the layers of a network that is a chain of affine layers with ReLU between them.

        It reads the coordinates that have a weight at all, so that it never begins to read another. A single sigmoid
        becomes the softmax of 0 and its raw output, which is the same.
        """
        layers = [(as_float32(weight), as_float32(bias)) for weight, bias in affine_layers(network)]
        if network.head == "sigmoid":
            weight, bias = layers[-1]
            layers[-1] = torch.cat([torch.zeros_like(weight), weight]), torch.cat([torch.zeros_like(bias), bias])
        reads = np.flatnonzero((layers[0][0] != 0).any(0).numpy()).astype(np.int64)
        layers[0] = layers[0][0][:, torch.from_numpy(reads)], layers[0][1]
        return cls(tuple((w.requires_grad_(), b.requires_grad_()) for w, b in layers), reads, network.input_width)

    @property
    def parameters(self) -> list[Tensor]:
        """Return all tensors that are trained, in a fixed order."""
        return [tensor for layer in self.layers for tensor in layer]

    def __call__(self, x: Tensor) -> Tensor:
        """Return raw outputs at individuals (n, read)."""
        return run(self.layers, x)[-1]

    def remove_directions(self, directions: Tensor, at: Tensor | None = None, share: float = 1.0) -> None:
        """Take orthonormal directions (read, k) out of the first layer, so that moves along them change nothing.

        Every individual is then replaced by one at the place of ``at`` (read,) along these directions, or with a
        ``share`` below 1 by one that much nearer to it.
        """
        weight, bias = self.layers[0]
        with torch.no_grad():
            along = share * (weight @ directions @ directions.T)
            weight -= along
            if at is not None:
                bias += along @ at

    def copy_state(self) -> list[Tensor]:
        """Return the present values of all parameters."""
        return [tensor.detach().clone() for tensor in self.parameters]

    def load_state(self, state: Sequence[Tensor]) -> None:
        """Put values back."""
        with torch.no_grad():
            for tensor, value in zip(self.parameters, state, strict=True):
                tensor.copy_(value)

    def network(self, head: NetworkHead, name: str, origin: float = 0.0, unit: float = 1.0) -> Network:
        """Return the network, which reads all coordinates, with zero weights for those not trained on.

        Raw outputs are ``origin + unit`` times those of the layers. Weights are float32 numbers, so that a float32
        file holds exactly this network.
        """
        weights = [weight.detach().clone() for weight, _ in self.layers]
        biases = [bias.detach().clone() for _, bias in self.layers]
        full = torch.zeros(len(weights[0]), self.width)
        full[:, torch.from_numpy(self.reads)] = weights[0]
        weights[0] = full
        if head == "sigmoid":
            weights[-1], biases[-1] = weights[-1][1:] - weights[-1][:1], biases[-1][1:] - biases[-1][:1]
        weights[-1], biases[-1] = weights[-1] * unit, biases[-1] * unit + origin
        return Network.from_layers(weights, biases, head=head, name=name)


def _diagonal(one: Tensor, other: Tensor) -> Tensor:
    """Return a matrix with two blocks and zeros beside them."""
    matrix = torch.zeros(len(one) + len(other), one.shape[1] + other.shape[1])
    matrix[: len(one), : one.shape[1]], matrix[len(one) :, one.shape[1] :] = one, other
    return matrix
