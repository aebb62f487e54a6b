"""Files of ONNX for tests, written operator by operator or exported, and what onnxruntime makes of them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from isonomy.networks.load import load_network
from isonomy.networks.network import Network

from .architectures import WIDTH

Array = npt.NDArray[Any]


def individuals(width: int, rows: int = 40, seed: int = 5) -> Array:
    return 2 * np.random.default_rng(seed).standard_normal((rows, width))


def own(path: Path | bytes, x: Array, output: str | None = None) -> Array:
    """The outputs of onnxruntime, row by row if the file is for one individual."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path if isinstance(path, bytes) else str(path), options)
    source = session.get_inputs()[0]
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64}
    table = x.astype(kinds[source.type])
    name = output or session.get_outputs()[0].name
    shape = [d if isinstance(d, int) else -1 for d in source.shape]
    chunks = [table] if shape[0] in (-1, len(table)) else np.split(table, len(table) // shape[0])
    parts = [session.run([name], {source.name: c.reshape(len(c), *shape[1:])})[0] for c in chunks]
    return np.concatenate(
        [np.asarray(p, dtype=np.float64).reshape(len(c), -1) for p, c in zip(parts, chunks, strict=True)]
    )


def probabilities(network: Network, outputs: Array, ending: str = "") -> Array:
    """What the network should give for the outputs of the original."""
    if ending == "log":
        return np.exp(outputs)
    if network.head == "softmax" and not ending:
        return torch.softmax(torch.from_numpy(outputs), 1).numpy()
    return outputs


def export(module: nn.Module, path: Path, *, dynamo: bool, **options: Any) -> None:
    kind = next(module.parameters()).dtype
    x = torch.randn(4, WIDTH, dtype=kind)
    axes: dict[str, Any] = (
        {"dynamic_shapes": ({0: torch.export.Dim("batch")},)} if dynamo else {"dynamic_axes": {"x": {0: "batch"}}}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, (x,), str(path), dynamo=dynamo, input_names=["x"], output_names=["y"], **axes, **options
        )


def check(path: Path, x: Array, ending: str = "", **options: Any) -> Network:
    network = load_network(path, **options)
    outputs = own(path, x, options.get("output"))
    ours = network.logits(x) if not ending else network(x)
    if ending == "log":
        ours = np.log(ours)
    assert np.allclose(ours[:, -outputs.shape[1] :], outputs, rtol=1e-6, atol=1e-6)
    return network


def build(
    nodes: Iterable[onnx.NodeProto],
    constants: dict[str, Array] | None = None,
    *,
    shape: tuple[Any, ...] = ("n", 4),
    outputs: tuple[str, ...] = ("y",),
    opset: int = 17,
    kind: int = TensorProto.FLOAT,
    kinds: dict[str, int] | None = None,
    domains: tuple[str, ...] = (),
) -> onnx.ModelProto:
    arrays = {
        key: value.astype(np.float32) if value.dtype == np.float64 and kind == TensorProto.FLOAT else value
        for key, value in (constants or {}).items()
    }
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, (kinds or {}).get(name, kind), None) for name in outputs],
        [numpy_helper.from_array(value, key) for key, value in arrays.items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def saved(model: onnx.ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def node(kind: str, *read: str, out: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, list(read), [out], name=f"my_{kind.lower()}_{out}", **attributes)


RANDOM = np.random.default_rng(0)
W43, W34, W44, V4, V3 = (RANDOM.standard_normal(s) for s in ((4, 3), (3, 4), (4, 4), (4,), (3,)))
INTS = {"zero": np.array([0]), "one": np.array([1]), "three": np.array([3]), "order": np.array([2, 0, 0, 1])}
