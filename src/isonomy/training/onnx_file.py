"""Networks of affine layers with ReLU between them: their layers, and their file as ONNX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.arithmetic import FloatArray
from isonomy.errors import NetworkError
from isonomy.files import atomic
from isonomy.networks import Network
from isonomy_verify.network import normal_form

_OPSET = 17
_HEADS = {
    "softmax": ("Softmax", "probabilities"),
    "sigmoid": ("Sigmoid", "probabilities"),
    "regression": ("Identity", "prediction"),
}


def affine_layers(network: Network) -> list[tuple[FloatArray, FloatArray]]:
    """Return weights and biases of a network that is a chain of affine layers with ReLU between them, once what is
    affine is merged."""
    layers = normal_form(network.graph.nodes).layers
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
    import onnx
    from onnx import TensorProto, helper, numpy_helper

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
