"""Operators of ONNX one by one, in their opsets, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.networks.load import load_network

from .onnx_files import INTS, RANDOM, V3, V4, W34, W43, Array, build, check, individuals, node, own, saved

OPERATORS: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "gemm": ([node("Gemm", "x", "w", "b")], {"w": W43, "b": V3}),
    "gemm_options": ([node("Gemm", "x", "w", "b", transB=1, alpha=0.7, beta=-1.3)], {"w": W34, "b": V3[None]}),
    "gemm_no_bias": ([node("Gemm", "x", "w", transB=1, alpha=0.5)], {"w": W34}),
    "gemm_tensor_bias": ([node("Gemm", "x", "w", "b", out="h"), node("Gemm", "x", "w", "h", beta=0.3)], {"w": W43,
        "b": V3}),
    "matmul_vector": ([node("MatMul", "x", "w", out="h"), node("Unsqueeze", "h", "one")], {"w": V4, **INTS}),
    "matmul_left": ([node("Reshape", "x", "s", out="h"), node("MatMul", "w", "h", out="k"),
        node("Flatten", "k", axis=1)], {"w": RANDOM.standard_normal((3, 2)), "s": np.array([-1, 2, 2])}),
    "sub_left": ([node("Sub", "c", "x")], {"c": V4}),
    "sub_right": ([node("Sub", "x", "c")], {"c": V4}),
    "div": ([node("Div", "x", "c")], {"c": V4}),
    "mul_left": ([node("Mul", "c", "x")], {"c": V4[None]}),
    "broadcast_constant": ([node("Slice", "x", "zero", "one", "one", out="h"), node("Add", "h", "c")], {"c": V4,
        **INTS}),
    "broadcast_tensors": ([node("Slice", "x", "zero", "one", "one", out="h"), node("Add", "h", "x")], {**INTS}),
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
    "batch_norm": ([node("BatchNormalization", "x", "s", "b", "m", "v", epsilon=0.01)], {"s": V4, "b": V4 + 1,
        "m": V4 - 1, "v": V4**2}),
    "transposes": ([node("Reshape", "x", "s", out="h"), node("Transpose", "h", perm=[0, 2, 1], out="k"),
        node("Relu", "k", out="l"), node("Flatten", "l")], {"s": np.array([0, 2, 2])}),
    "squeezes": ([node("Unsqueeze", "x", "one", out="h"), node("Tanh", "h", out="k"), node("Squeeze", "k", "one")],
        {**INTS}),
    "gather": ([node("Gather", "x", "order", axis=1)], {**INTS}),
    "gather_one": ([node("Gather", "x", "i", axis=1, out="h"), node("Unsqueeze", "h", "one", out="k"),
        node("Concat", "x", "k", axis=1)], {"i": np.array(2), **INTS}),
    "slice_step": ([node("Slice", "x", "three", "stop", "one", "back")], {"stop": np.array([-9]),
        "back": np.array([-2]), **INTS}),
    "concat": ([node("Relu", "x", out="h"), node("Concat", "h", "x", "h", axis=-1)], {}),
    "identity_cast": ([node("Identity", "x", out="h"), node("Cast", "h", to=TensorProto.DOUBLE, out="k"),
        node("Cast", "k", to=TensorProto.FLOAT, out="l"), node("Dropout", "l")], {}),
    "constant_node": ([helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(V4.astype(np.float32))),
        node("Mul", "x", "c")], {}),
    "folded_constants": ([node("Sqrt", "v", out="d"), node("Transpose", "w", out="t"),
        node("MatMul", "x", "t", out="h"), node("Div", "h", "d")], {"v": V3**2 + 1, "w": W34}),
    "shape_arithmetic": ([node("Shape", "x", out="s"), node("Gather", "s", "zero", axis=0, out="n"),
        node("Concat", "n", "minus", "two", axis=0, out="t"), node("Reshape", "x", "t", out="h"),
        node("ReduceProd", "two", out="unused"), node("Sigmoid", "h", out="k"), node("Flatten", "k")],
        {"minus": np.array([-1]), "two": np.array([2]), **INTS}),
    "joined_constant": ([node("Shape", "x", out="s"), node("Gather", "s", "zero", axis=0, out="n"),
        node("Concat", "n", "three", axis=0, out="t"),
        helper.make_node("ConstantOfShape", ["t"], ["c"], value=numpy_helper.from_array(np.array([2.5], np.float32))),
        node("Concat", "x", "c", axis=1)], {**INTS}),
    "gelu_divided": ([node("Div", "x", "r", out="a"), node("Erf", "a", out="e"), node("Add", "one_", "e", out="f"),
        node("Mul", "x", "f", out="g"), node("Mul", "half", "g")], {"r": np.array(1.4142135), "one_": np.array(1.0),
        "half": np.array(0.5)}),
    "gelu_odd_constant": ([node("Mul", "x", "r", out="a"), node("Erf", "a", out="e"),
        node("Add", "e", "one_", out="f"), node("Mul", "half", "x", out="h"), node("Mul", "f", "h")],
        {"r": np.array(0.9), "one_": np.array(1.0), "half": V4}),
    "softplus_linear_beyond": ([node("Mul", "x", "beta", out="t"), node("Softplus", "t", out="s"),
        node("Div", "s", "beta", out="d"), node("Greater", "t", "limit", out="c"), node("Where", "c", "x", "d")],
        {"beta": np.array(1.3), "limit": np.array(20.0)}),
    "batch_axis_moves": ([node("Transpose", "x", perm=[1, 0], out="h"), node("GatherND", "h", "at", out="k"),
        node("Transpose", "k", perm=[1, 0])], {"at": np.array([[3], [0], [3]])}),
    "silu": ([node("Sigmoid", "x", out="s"), node("Mul", "s", "x")], {}),
    "silu_scaled": ([node("Mul", "x", "k", out="a"), node("Sigmoid", "a", out="s"), node("Mul", "x", "s")],
        {"k": np.array(1.702)}),
    "gelu_tanh": ([node("Pow", "x", "p", out="c"), node("Mul", "c", "kappa", out="d"), node("Add", "x", "d", out="e"),
        node("Mul", "e", "beta", out="f"), node("Tanh", "f", out="t"), node("Add", "t", "one_", out="u"),
        node("Mul", "x", "u", out="v"), node("Mul", "v", "half")], {"p": np.array(3.0), "kappa": np.array(0.044715),
        "beta": np.array(0.7978845608), "one_": np.array(1.0), "half": np.array(0.5)}),
}  # fmt: skip


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
