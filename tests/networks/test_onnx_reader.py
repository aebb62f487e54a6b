from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from isonomy.errors import FileError, IsonomyError, NetworkError, UnsupportedOperationError
from isonomy.networks.load import load_network
from isonomy.networks.network import Network

from .architectures import WIDTH, modules

MODULES = modules()
DYNAMO = (
    "mlp_gelu",
    "mlp_gelu_tanh",
    "mlp_silu",
    "mlp_softplus",
    "reshaped",
    "sliced",
    "batch_norm",
    "constants",
)

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


ENDINGS = {"softmax": "same", "log_softmax": "log", "sigmoid": "same"}


@pytest.mark.parametrize("name", MODULES)
def test_torchscript_exporter(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export(MODULES[name], path, dynamo=False, opset_version=17)
    check(path, individuals(WIDTH), ENDINGS.get(name, ""))


FIRST = ("mlp_gelu", "reshaped")


@pytest.mark.slow
@pytest.mark.some(1)
@pytest.mark.parametrize(
    "name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in DYNAMO]
)
def test_dynamo_exporter(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.onnx"
    export(MODULES[name], path, dynamo=True)
    check(path, individuals(WIDTH), ENDINGS.get(name, ""))


@pytest.mark.parametrize("opset", [9, 11, 13, 15, 18, 20])
def test_opset_versions(opset: int, tmp_path: Path) -> None:
    names = ["gated_chunks", "reshaped", "mlp_hardtanh", "batch_norm", "softmax", "concatenated"]
    for name in names if opset < 10 else [*names, "sliced"]:
        path = tmp_path / f"{name}.onnx"
        export(MODULES[name], path, dynamo=False, opset_version=opset)
        check(path, individuals(WIDTH), ENDINGS.get(name, ""))


def test_a_fixed_batch_of_one(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(MODULES["reshaped"], (torch.randn(1, WIDTH),), str(path), dynamo=False)
    check(path, individuals(WIDTH))


def test_weights_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export(MODULES["mlp_relu"], path, dynamo=False)
    onnx.save_model(onnx.load(path), path, save_as_external_data=True, location="model.data", size_threshold=0)
    check(path, individuals(WIDTH))
    (tmp_path / "model.data").unlink()
    with pytest.raises(FileError, match="another file"):
        load_network(path)


# -- operators one by one


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

OPERATORS: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "gemm": ([node("Gemm", "x", "w", "b")], {"w": W43, "b": V3}),
    "gemm_options": (
        [node("Gemm", "x", "w", "b", transB=1, alpha=0.7, beta=-1.3)],
        {"w": W34, "b": V3[None]},
    ),
    "gemm_no_bias": ([node("Gemm", "x", "w", transB=1, alpha=0.5)], {"w": W34}),
    "gemm_tensor_bias": (
        [node("Gemm", "x", "w", "b", out="h"), node("Gemm", "x", "w", "h", beta=0.3)],
        {"w": W43, "b": V3},
    ),
    "matmul_vector": ([node("MatMul", "x", "w", out="h"), node("Unsqueeze", "h", "one")], {"w": V4, **INTS}),
    "matmul_left": (
        [
            node("Reshape", "x", "s", out="h"),
            node("MatMul", "w", "h", out="k"),
            node("Flatten", "k", axis=1),
        ],
        {"w": RANDOM.standard_normal((3, 2)), "s": np.array([-1, 2, 2])},
    ),
    "sub_left": ([node("Sub", "c", "x")], {"c": V4}),
    "sub_right": ([node("Sub", "x", "c")], {"c": V4}),
    "div": ([node("Div", "x", "c")], {"c": V4}),
    "mul_left": ([node("Mul", "c", "x")], {"c": V4[None]}),
    "broadcast_constant": (
        [node("Slice", "x", "zero", "one", "one", out="h"), node("Add", "h", "c")],
        {"c": V4, **INTS},
    ),
    "broadcast_tensors": (
        [node("Slice", "x", "zero", "one", "one", out="h"), node("Add", "h", "x")],
        {**INTS},
    ),
    "neg_sum": ([node("Neg", "x", out="h"), node("Relu", "x", out="k"), node("Sum", "x", "h", "k", "c")], {"c": V4}),
    "max_min": ([node("Max", "x", "a", out="h"), node("Min", "b", "h")], {"a": np.array(-0.5), "b": np.array(0.8)}),
    "max_zero": ([node("Max", "zero_", "x")], {"zero_": np.array(0.0)}),
    "clip": ([node("Clip", "x", "a", "b")], {"a": np.array(-0.5), "b": np.array(0.8)}),
    "clip_low": ([node("Clip", "x", "a")], {"a": np.array(-0.5)}),
    "clip_high": ([node("Clip", "x", "", "a")], {"a": np.array(0.5)}),
    "prelu": ([node("PRelu", "x", "a")], {"a": V4}),
    "prelu_one": ([node("PRelu", "x", "a")], {"a": np.array([0.3])}),
    "selu": ([node("Selu", "x")], {}),
    "elu": ([node("Elu", "x", alpha=0.4)], {}),
    "leaky_default": ([node("LeakyRelu", "x")], {}),
    "erf": ([node("Erf", "x")], {}),
    "softplus": ([node("Softplus", "x")], {}),
    "batch_norm": (
        [node("BatchNormalization", "x", "s", "b", "m", "v", epsilon=0.01)],
        {"s": V4, "b": V4 + 1, "m": V4 - 1, "v": V4**2},
    ),
    "transposes": (
        [
            node("Reshape", "x", "s", out="h"),
            node("Transpose", "h", perm=[0, 2, 1], out="k"),
            node("Relu", "k", out="l"),
            node("Flatten", "l"),
        ],
        {"s": np.array([0, 2, 2])},
    ),
    "squeezes": (
        [node("Unsqueeze", "x", "one", out="h"), node("Tanh", "h", out="k"), node("Squeeze", "k", "one")],
        {**INTS},
    ),
    "gather": ([node("Gather", "x", "order", axis=1)], {**INTS}),
    "gather_one": (
        [
            node("Gather", "x", "i", axis=1, out="h"),
            node("Unsqueeze", "h", "one", out="k"),
            node("Concat", "x", "k", axis=1),
        ],
        {"i": np.array(2), **INTS},
    ),
    "slice_step": (
        [node("Slice", "x", "three", "stop", "one", "back")],
        {"stop": np.array([-9]), "back": np.array([-2]), **INTS},
    ),
    "concat": ([node("Relu", "x", out="h"), node("Concat", "h", "x", "h", axis=-1)], {}),
    "identity_cast": (
        [
            node("Identity", "x", out="h"),
            node("Cast", "h", to=TensorProto.DOUBLE, out="k"),
            node("Cast", "k", to=TensorProto.FLOAT, out="l"),
            node("Dropout", "l"),
        ],
        {},
    ),
    "constant_node": (
        [
            helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(V4.astype(np.float32))),
            node("Mul", "x", "c"),
        ],
        {},
    ),
    "folded_constants": (
        [
            node("Sqrt", "v", out="d"),
            node("Transpose", "w", out="t"),
            node("MatMul", "x", "t", out="h"),
            node("Div", "h", "d"),
        ],
        {"v": V3**2 + 1, "w": W34},
    ),
    "shape_arithmetic": (
        [
            node("Shape", "x", out="s"),
            node("Gather", "s", "zero", axis=0, out="n"),
            node("Concat", "n", "minus", "two", axis=0, out="t"),
            node("Reshape", "x", "t", out="h"),
            node("ReduceProd", "two", out="unused"),
            node("Sigmoid", "h", out="k"),
            node("Flatten", "k"),
        ],
        {"minus": np.array([-1]), "two": np.array([2]), **INTS},
    ),
    "joined_constant": (
        [
            node("Shape", "x", out="s"),
            node("Gather", "s", "zero", axis=0, out="n"),
            node("Concat", "n", "three", axis=0, out="t"),
            helper.make_node(
                "ConstantOfShape", ["t"], ["c"], value=numpy_helper.from_array(np.array([2.5], np.float32))
            ),
            node("Concat", "x", "c", axis=1),
        ],
        {**INTS},
    ),
    "gelu_divided": (
        [
            node("Div", "x", "r", out="a"),
            node("Erf", "a", out="e"),
            node("Add", "one_", "e", out="f"),
            node("Mul", "x", "f", out="g"),
            node("Mul", "half", "g"),
        ],
        {"r": np.array(1.4142135), "one_": np.array(1.0), "half": np.array(0.5)},
    ),
    "gelu_odd_constant": (
        [
            node("Mul", "x", "r", out="a"),
            node("Erf", "a", out="e"),
            node("Add", "e", "one_", out="f"),
            node("Mul", "half", "x", out="h"),
            node("Mul", "f", "h"),
        ],
        {"r": np.array(0.9), "one_": np.array(1.0), "half": V4},
    ),
    "softplus_linear_beyond": (
        [
            node("Mul", "x", "beta", out="t"),
            node("Softplus", "t", out="s"),
            node("Div", "s", "beta", out="d"),
            node("Greater", "t", "limit", out="c"),
            node("Where", "c", "x", "d"),
        ],
        {"beta": np.array(1.3), "limit": np.array(20.0)},
    ),
    "batch_axis_moves": (
        [
            node("Transpose", "x", perm=[1, 0], out="h"),
            node("GatherND", "h", "at", out="k"),
            node("Transpose", "k", perm=[1, 0]),
        ],
        {"at": np.array([[3], [0], [3]])},
    ),
    "silu": ([node("Sigmoid", "x", out="s"), node("Mul", "s", "x")], {}),
    "silu_scaled": (
        [node("Mul", "x", "k", out="a"), node("Sigmoid", "a", out="s"), node("Mul", "x", "s")],
        {"k": np.array(1.702)},
    ),
    "gelu_tanh": (
        [
            node("Pow", "x", "p", out="c"),
            node("Mul", "c", "kappa", out="d"),
            node("Add", "x", "d", out="e"),
            node("Mul", "e", "beta", out="f"),
            node("Tanh", "f", out="t"),
            node("Add", "t", "one_", out="u"),
            node("Mul", "x", "u", out="v"),
            node("Mul", "v", "half"),
        ],
        {
            "p": np.array(3.0),
            "kappa": np.array(0.044715),
            "beta": np.array(0.7978845608),
            "one_": np.array(1.0),
            "half": np.array(0.5),
        },
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str, tmp_path: Path) -> None:
    nodes, constants = OPERATORS[name]
    check(saved(build(nodes, constants), tmp_path), individuals(4), head="regression")


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_operator(approximate: str, tmp_path: Path) -> None:
    check(saved(build([node("Gelu", "x", approximate=approximate)], opset=20), tmp_path), individuals(4))


@pytest.mark.parametrize(("opset", "axis"), [(11, 1), (13, 1), (13, -1)])
def test_softmax_axis(opset: int, axis: int, tmp_path: Path) -> None:
    network = check(saved(build([node("Softmax", "x", axis=axis)], opset=opset), tmp_path), individuals(4), "same")
    assert network.head == "softmax"
    wrong = build([node("Softmax", "x", axis=0)], opset=opset)
    with pytest.raises(UnsupportedOperationError, match="all features"):
        load_network(saved(wrong, tmp_path))


def test_softmax_took_all_axes_together_before_opset_13(tmp_path: Path) -> None:
    nodes = [node("Reshape", "x", "s", out="h"), node("Softmax", "h", axis=1)]
    together = saved(build(nodes, {"s": np.array([-1, 2, 2])}, opset=11), tmp_path)
    assert check(together, individuals(4), "same").head == "softmax"
    with pytest.raises(UnsupportedOperationError, match="all features"):
        load_network(saved(build(nodes, {"s": np.array([-1, 2, 2])}, opset=13), tmp_path))


def test_images_are_flattened(tmp_path: Path) -> None:
    nodes = [node("Flatten", "x", out="h"), node("Gemm", "h", "w", transB=1)]
    path = saved(build(nodes, {"w": RANDOM.standard_normal((2, 12))}, shape=("n", 1, 3, 4)), tmp_path)
    assert check(path, individuals(12)).input_width == 12


@pytest.mark.parametrize("kind", [TensorProto.DOUBLE, TensorProto.FLOAT])
def test_precision_and_open_width(kind: int, tmp_path: Path) -> None:
    model = build([node("Gemm", "x", "w", "b")], {"w": W43, "b": V3}, shape=("n", None), kind=kind)
    assert check(saved(model, tmp_path), individuals(4)).input_width == 4


def test_an_integer_input_must_be_cast_first(tmp_path: Path) -> None:
    nodes = [node("Cast", "x", to=TensorProto.FLOAT, out="h"), node("Gemm", "h", "w", "b")]
    model = build(nodes, {"w": W43.astype(np.float32), "b": V3.astype(np.float32)}, kind=TensorProto.INT64)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    check(saved(model, tmp_path), np.round(individuals(4)))
    divided = build([node("Div", "x", "c")], {"c": np.array([2, 2, 2, 2])}, kind=TensorProto.INT64)
    with pytest.raises(NetworkError, match="'x' must hold floating-point"):
        load_network(saved(divided, tmp_path))


def test_which_output(tmp_path: Path) -> None:
    nodes = [
        node("Gemm", "x", "w", out="scores"),
        node("Softmax", "scores", out="probabilities"),
        node("ArgMax", "scores", axis=1, keepdims=0, out="label"),
    ]
    kinds = {"label": TensorProto.INT64}
    path = saved(build(nodes, {"w": W43}, outputs=("label", "probabilities"), kinds=kinds), tmp_path)
    assert check(path, individuals(4), "same", output="probabilities").head == "softmax"
    assert load_network(path).classes == 3
    path = saved(build(nodes, {"w": W43}, outputs=("scores", "probabilities")), tmp_path)
    assert load_network(path).head == "softmax"
    with pytest.raises(NetworkError, match="no output 'nothing'; there are: 'scores', 'probabilities'"):
        load_network(path, output="nothing")
    nodes = [node("Relu", "x", out="first"), node("Tanh", "x", out="second")]
    with pytest.raises(NetworkError, match="several outputs; say output="):
        load_network(saved(build(nodes, outputs=("first", "second")), tmp_path))


def test_two_columns_of_one_sigmoid(tmp_path: Path) -> None:
    nodes = [
        node("MatMul", "x", "w", out="z"),
        node("Sigmoid", "z", out="p"),
        node("Sub", "one_", "p", out="q"),
        node("Concat", "q", "p", axis=1),
    ]
    path = saved(build(nodes, {"w": V4[:, None], "one_": np.array([1.0])}), tmp_path)
    network = load_network(path)
    assert (network.head, network.classes) == ("sigmoid", 1)
    assert np.allclose(network(individuals(4)), own(path, individuals(4)), atol=1e-6)


def test_local_functions_are_written_out(tmp_path: Path) -> None:
    model = build([helper.make_node("Twice", ["x"], ["y"], domain="local")], domains=("local",))
    body = [helper.make_node("Add", ["a", "a"], ["b"])]
    model.functions.append(helper.make_function("local", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    check(saved(model, tmp_path), individuals(4))


# -- refusals


REFUSED: dict[str, tuple[onnx.ModelProto, type[IsonomyError], str]] = {
    "operator": (build([node("Sin", "x")]), UnsupportedOperationError, r"'my_sin_y' \(Sin\).*supported: Add, .*Gemm"),
    "domain": (
        build([helper.make_node("TreeEnsembleClassifier", ["x"], ["y"], domain="ai.onnx.ml", name="trees")]),
        UnsupportedOperationError,
        "'trees'.*ai.onnx.ml.TreeEnsembleClassifier",
    ),
    "product": (
        build([node("Relu", "x", out="h"), node("Mul", "x", "h")]),
        UnsupportedOperationError,
        "'my_mul_y'.*product of two tensors",
    ),
    "divisor": (build([node("Div", "c", "x")], {"c": V4}), UnsupportedOperationError, "my_div.*divisor"),
    "zero": (build([node("Div", "x", "c")], {"c": 0 * V4}), NetworkError, "my_div.*division by zero"),
    "embedding": (
        build([node("Gather", "w", "x")], {"w": W43}, kind=TensorProto.FLOAT),
        UnsupportedOperationError,
        "my_gather.*only its data",
    ),
    "random": (
        build([helper.make_node("RandomNormal", [], ["r"], shape=[4], name="noise"), node("Add", "x", "r")]),
        UnsupportedOperationError,
        "'noise'",
    ),
    "batch": (build([node("Transpose", "x", perm=[1, 0])]), NetworkError, "my_transpose.*batch axis must stay first"),
    "batch_used": (
        build([node("Transpose", "x", perm=[1, 0], out="h"), node("Relu", "h")]),
        NetworkError,
        "my_transpose.*batch axis must stay first",
    ),
    "unknown_attribute": (
        build([node("Gemm", "x", "w", transC=1)], {"w": W43}),
        NetworkError,
        "my_gemm.*transC",
    ),
    "mixing": (
        build(
            [node("Reshape", "x", "s", out="h"), node("Reshape", "h", "t")],
            {"s": np.array([-1]), "t": np.array([2, -1])},
        ),
        NetworkError,
        "my_reshape",
    ),
    "softmax_inside": (
        build([node("Softmax", "x", out="h"), node("Relu", "h")]),
        UnsupportedOperationError,
        "'my_softmax_h'.*only as the last",
    ),
    "half": (build([node("Cast", "x", to=TensorProto.FLOAT16)]), UnsupportedOperationError, "my_cast.*FLOAT16"),
    "cut": (
        build([node("CastLike", "x", "c")], {"c": np.array([1])}),
        UnsupportedOperationError,
        "my_castlike.*int64 rounds",
    ),
    "training": (
        build([node("BatchNormalization", "x", *"sbmv", training_mode=1)], dict.fromkeys("sbmv", V4**2)),
        UnsupportedOperationError,
        "stored statistics",
    ),
    "nan": (build([node("Mul", "x", "c")], {"c": V4 * np.nan}), NetworkError, "my_mul.*NaN"),
    "shapes": (build([node("MatMul", "x", "w")], {"w": W34}), NetworkError, "my_matmul.*agree in width"),
    "missing": (build([node("Add", "x", "nowhere")]), NetworkError, "my_add.*'nowhere', which nothing"),
    "one_axis": (build([node("Relu", "x")], shape=(4,)), NetworkError, "two axes"),
    "unknown_width": (build([node("Relu", "x")], shape=("n", "m")), NetworkError, "how many features"),
    "constant_output": (build([node("Relu", "c")], {"c": V4}), NetworkError, "does not depend on the input"),
    "huge": (
        build(
            [helper.make_node("ConstantOfShape", ["s"], ["c"], name="huge"), node("Add", "x", "c")],
            {"s": np.array([10**6, 10**6])},
        ),
        NetworkError,
        "'huge'.*larger than",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_node(name: str, tmp_path: Path) -> None:
    model, error, words = REFUSED[name]
    with pytest.raises(error, match=words) as caught:
        load_network(saved(model, tmp_path), head="regression" if name not in ("softmax_inside",) else "auto")
    assert "\n" not in str(caught.value)
    assert "model.onnx" in str(caught.value)


def test_several_inputs(tmp_path: Path) -> None:
    model = build([node("Add", "x", "z")])
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ("n", 4)))
    with pytest.raises(NetworkError, match="there are: 'x', 'z'"):
        load_network(saved(model, tmp_path))


def test_files_that_are_no_networks(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"There is no file '.*missing\.onnx'"):
        load_network(tmp_path / "missing.onnx")
    with pytest.raises(FileError, match=r"these are: .*\.onnx"):
        load_network(tmp_path / "model.docx")
    for content in (b"", b"hello", b"\x80\x04K\x01.", bytes(range(256))):
        path = tmp_path / "model.onnx"
        path.write_bytes(content)
        with pytest.raises(FileError, match="damaged or not an ONNX network"):
            load_network(path)
    (tmp_path / "folder.onnx").mkdir()
    with pytest.raises(FileError):
        load_network(tmp_path / "folder.onnx")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "model.onnx"
    export(MODULES["reshaped"], path, dynamo=False)
    return path.read_bytes()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_truncated_and_fuzzed_files(whole: bytes, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(whole)
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    if content:
        for _ in range(data.draw(st.integers(0, 6))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "fuzzed.onnx"
    path.write_bytes(bytes(content))
    try:
        load_network(path)
    except IsonomyError as error:
        assert "\n" not in str(error)
        assert "fuzzed" in str(error)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.sampled_from(["Relu", "Tanh", "Sigmoid", "Elu", "Softplus", "LeakyRelu", "Erf"]),
    st.booleans(),
    st.integers(0, 2**20),
)
def test_random_perceptrons(widths: list[int], activation: str, gemm: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    sizes, nodes, constants, last = [4, *widths, 2], [], {}, "x"
    for layer, (read, given_) in enumerate(pairwise(sizes)):
        weight, bias = random.standard_normal((read, given_)) / read**0.5, random.standard_normal(given_)
        constants |= {f"w{layer}": weight.T.copy() if gemm else weight, f"b{layer}": bias}
        if gemm:
            nodes.append(node("Gemm", last, f"w{layer}", f"b{layer}", out=f"z{layer}", transB=1))
        else:
            nodes.append(node("MatMul", last, f"w{layer}", out=f"m{layer}"))
            nodes.append(node("Add", f"b{layer}", f"m{layer}", out=f"z{layer}"))
        nodes.append(node(activation, f"z{layer}", out=f"a{layer}"))
        last = f"a{layer}"
    model = build(nodes, constants, outputs=(f"z{len(sizes) - 2}",))
    content = model.SerializeToString()
    x = individuals(4, 16)
    with tempfile.TemporaryDirectory() as folder:
        network = load_network(saved(model, Path(folder)))
    assert np.allclose(network.logits(x), own(content, x), rtol=1e-6, atol=1e-6)


def test_attributes_mean_what_they_mean_in_their_opset(tmp_path: Path) -> None:
    """Before opset 7 an operand could be laid along a middle axis; a Selu of opset 1 has shorter constants."""
    x = -np.ones((1, 4))
    shapes = {"s": np.array([-1, 2, 2]), "t": np.array([-1, 4]), "b": np.array([1.0, 2.0])}
    there, back = node("Reshape", "x", "s", out="r"), node("Reshape", "a", "t")
    along = build([there, node("Add", "r", "b", out="a", broadcast=1, axis=1), back], shapes, opset=6)
    with pytest.raises(UnsupportedOperationError, match="its option 'axis' is not supported"):
        load_network(saved(along, tmp_path))
    last = build([there, node("Add", "r", "b", out="a", broadcast=1), back], shapes, opset=6)
    assert load_network(saved(last, tmp_path), head="regression").logits(x).tolist() == [[0.0, 1.0, 0.0, 1.0]]
    slopes = [there, node("PRelu", "r", "b", out="a"), back]
    with pytest.raises(UnsupportedOperationError, match="before opset 7"):
        load_network(saved(build(slopes, shapes, opset=6), tmp_path))
    network = load_network(saved(build(slopes, shapes, opset=7), tmp_path), head="regression")
    assert network.logits(x).tolist() == [[-1.0, -2.0, -1.0, -2.0]]
    old, new = (
        load_network(saved(build([node("Selu", "x")], opset=opset), tmp_path), head="regression").logits(-x)[0, 0]
        for opset in (1, 6)
    )
    assert (old, new) == (float(np.float32(1.0507)), float(np.float32(1.05070102214813232421875)))


ROWS = [helper.make_node("Shape", ["x"], ["rows"], start=0, end=1), node("Cast", "rows", out="n", to=TensorProto.FLOAT)]
STATISTICS = {"s": V4, "b": V4, "m": V4, "v": np.abs(V4)}
BLOCK = {"block": RANDOM.standard_normal((2, 2, 3)), "flat": np.array([-1]), **INTS}
BLOCK_FLAT = [node("Reshape", "soft", "flat", out="row"), node("Slice", "row", "zero", "four", out="k")]

# What another model of the same operators would be, and how a runtime tells: found by comparing with onnxruntime.
OTHERS: dict[str, tuple[onnx.ModelProto, str]] = {
    "times_rows": (build([*ROWS, node("Mul", "x", "n")]), "depends on the number of individuals"),
    "column_by_rows": (
        build([ROWS[0], node("Mod", "rows", "two", out="i"), node("Gather", "x", "i", axis=1)], {"two": np.array([2])}),
        "depends on the number of individuals",
    ),
    "size": (
        build([node("Size", "x", out="s"), node("Cast", "s", out="n", to=1), node("Div", "x", "n")]),
        "depends on the number of individuals",
    ),
    "learning_norm": (
        build([helper.make_node("BatchNormalization", [*"xsbmv"], ["y", *"pqrt"], "norm")], STATISTICS, opset=9),
        "norm.*only batch normalisation by stored statistics",
    ),
    **{
        f"{kind}_{axis}": (
            build(
                [helper.make_node(kind, ["block"], ["soft"], axis=axis), *BLOCK_FLAT, node("Mul", "x", "k")],
                BLOCK | {"four": np.array([4])},
                opset=11,
            ),
            f"{kind}.*before opset 13 it is supported along the last axis",
        )
        for kind, axis in (("Softmax", 1), ("Softmax", 0), ("LogSoftmax", 1), ("Hardmax", 1))
    },
    "dropped_weights": (
        build(
            [node("Dropout", "w", "half", "yes", out="k"), node("MatMul", "x", "k")],
            {"w": W43, "half": np.array(0.5), "yes": np.array(True)},
        ),
        "dropout is active",
    ),
    "whole_division": (
        build(
            [node("Cast", "x", out="f", to=1), node("Div", "f", "ten")], {"ten": np.array([10])}, kind=TensorProto.INT64
        ),
        "Div.*division of whole numbers rounds",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_runtimes_compute_otherwise_is_refused(kind: str, tmp_path: Path) -> None:
    model, sentence = OTHERS[kind]
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises((NetworkError, UnsupportedOperationError), match=sentence):
        load_network(tmp_path / "m.onnx", head="regression")


def test_rows_that_only_shape_tensors_are_no_matter(tmp_path: Path) -> None:
    shape = [node("Concat", "rows", "four", out="shape", axis=0), node("Reshape", "x", "shape")]
    (tmp_path / "m.onnx").write_bytes(build([ROWS[0], *shape], {"four": np.array([4])}).SerializeToString())
    x = individuals(4)
    assert np.array_equal(load_network(tmp_path / "m.onnx", head="regression")(x), x)


def _leaky(domain: str, name: str) -> onnx.FunctionProto:
    """A function with an attribute that calls may leave out."""
    inner = helper.make_node("LeakyRelu", ["a"], ["b"])
    inner.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    return helper.make_function(
        domain,
        name,
        ["a"],
        ["b"],
        [inner],
        [helper.make_opsetid("", 17)],
        attribute_protos=[helper.make_attribute("slope", 0.4)],
    )


@pytest.mark.parametrize("said", [{}, {"slope": 0.7}])
def test_attributes_that_calls_of_functions_leave_out(said: dict[str, float], tmp_path: Path) -> None:
    model = build([helper.make_node("Leaky", ["x"], ["y"], domain="local", **said)], domains=("local",))
    model.functions.append(_leaky("local", "Leaky"))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = individuals(4)
    assert np.allclose(load_network(tmp_path / "m.onnx", head="regression")(x), own(tmp_path / "m.onnx", x), atol=1e-6)


def test_functions_that_hide_operators_are_refused(tmp_path: Path) -> None:
    model = build([node("Relu", "x")])
    model.functions.append(_leaky("", "Relu"))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UnsupportedOperationError, match="its function 'Relu' hides an operator"):
        load_network(tmp_path / "m.onnx", head="regression")
