"""The network that is trained: affine layers with ReLU between them, in float32; and its file, as ONNX."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

from isonomy.arithmetic import FloatArray
from isonomy.bounds.kernel import nodes_of
from isonomy.errors import NetworkError
from isonomy.files import atomic
from isonomy.networks import Network
from isonomy.networks.graph import Head as NetworkHead
from isonomy.training.gaps import IntArray, as_float32, run
from isonomy_verify.network import normal_form

_OPSET = 17
_HEADS = {
    "softmax": ("Softmax", "probabilities"),
    "sigmoid": ("Sigmoid", "probabilities"),
    "regression": ("Identity", "prediction"),
}


@dataclass(frozen=True, eq=False)
class Perceptron:
    """Weights and biases as leaf tensors, and the coordinates of an individual that the first layer reads."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    reads: IntArray
    width: int  # coordinates of an individual, read or not

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


def affine_layers(network: Network) -> list[tuple[FloatArray, FloatArray]]:
    """Return weights and biases of a network that is a chain of affine layers with ReLU between them, once what is
    affine is merged."""
    layers = normal_form(nodes_of(network.graph)).layers
    for number, layer in enumerate(layers):
        bends = layer.activation is not None and layer.activation.kind != "relu"
        if bends or [block.source for block in layer.blocks] != [number]:
            raise NetworkError(
                f"'{network.name}' is not a chain of affine layers with ReLU between them (layer {number + 1}): only "
                "such networks can be trained further."
            )
    return [(layer.blocks[0].weight, layer.bias) for layer in layers]


def write_onnx(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a chain of affine layers and ReLU with its head; the file appears whole or not at all.

    Reads ``x`` (n, width), gives ``probabilities`` (n, classes), or ``prediction`` (n, 1) of a regression. Numbers are
    float32 where that is exact, as it is for what was trained here, else float64.
    """
    layers = affine_layers(network)
    exact = all((part == part.astype(np.float32)).all() for layer in layers for part in layer)
    dtype, kind = (np.float32, TensorProto.FLOAT) if exact else (np.float64, TensorProto.DOUBLE)
    nodes, constants, value = [], [], "x"
    for index, (weight, bias) in zip(range(1, 2 * len(layers), 2), layers, strict=True):
        if index > 1:
            nodes.append(helper.make_node("Relu", [value], [f"value{index - 1}"]))
            value = f"value{index - 1}"
        for name, tensor in ((f"weight{index}", weight), (f"bias{index}", bias)):
            constants.append(numpy_helper.from_array(tensor.astype(dtype), name))
        nodes.append(helper.make_node("Gemm", [value, f"weight{index}", f"bias{index}"], [f"value{index}"], transB=1))
        value = f"value{index}"
    head, output = _HEADS[network.head]
    attributes: dict[str, Any] = {"axis": 1} if head == "Softmax" else {}
    nodes.append(helper.make_node(head, [value], [output], **attributes))
    table = helper.make_tensor_value_info("x", kind, ["n", network.input_width])
    result = helper.make_tensor_value_info(output, kind, ["n", network.classes])
    graph = helper.make_graph(nodes, network.name, [table], [result], constants)
    model = helper.make_model(graph, producer_name="isonomy", opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    with atomic(Path(path), folders=False) as partial:
        partial.write_bytes(model.SerializeToString())
