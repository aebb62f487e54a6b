"""Write a trained network as ONNX: Gemm and Relu, and the head behind them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from isonomy.files import atomic
from isonomy.networks import Affine, Network

_OPSET = 17


def write_onnx(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a chain of affine layers and ReLU with its head, in float32; the file appears whole or not at all.

    Reads ``x`` (n, width), gives ``probabilities`` (n, classes), or ``prediction`` (n, 1) of a regression.
    """
    nodes, constants, value = [], [], "x"
    for index, node in enumerate(network.graph.nodes[1:], 1):
        name = f"value{index}"
        if isinstance(node.op, Affine):
            parts = (("weight", node.op.weight), ("bias", node.op.bias))
            for kind, tensor in parts:
                constants.append(numpy_helper.from_array(tensor.astype(np.float32), f"{kind}{index}"))
            nodes.append(helper.make_node("Gemm", [value, f"weight{index}", f"bias{index}"], [name], transB=1))
        else:
            nodes.append(helper.make_node("Relu", [value], [name]))
        value = name
    output = "prediction"
    if network.head == "softmax":
        output = "probabilities"
        nodes.append(helper.make_node("Softmax", [value], [output], axis=1))
    else:
        nodes.append(helper.make_node("Identity", [value], [output]))
    table = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", network.input_width])
    result = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", network.classes])
    graph = helper.make_graph(nodes, network.name, [table], [result], constants)
    model = helper.make_model(graph, producer_name="isonomy", opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    with atomic(Path(path), folders=False) as partial:
        partial.write_bytes(model.SerializeToString())
