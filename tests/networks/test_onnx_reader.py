from __future__ import annotations

import tempfile
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from isonomy.errors import FileError, IsonomyError, NetworkError, UnsupportedOperationError
from isonomy.networks.load import load_network

from .architectures import WIDTH, modules
from .onnx_files import V4, W34, W43, build, check, export, individuals, node, own, saved

MODULES = modules()
DYNAMO = ("mlp_gelu", "mlp_gelu_tanh", "mlp_silu", "mlp_softplus", "reshaped", "sliced", "batch_norm", "constants")

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


# -- refusals


REFUSED: dict[str, tuple[onnx.ModelProto, type[IsonomyError], str]] = {
    "operator": (build([node("Sin", "x")]), UnsupportedOperationError, r"'my_sin_y' \(Sin\): Sin is not supported"),
    "domain": (build([helper.make_node("TreeEnsembleClassifier", ["x"], ["y"], domain="ai.onnx.ml", name="trees")]),
        UnsupportedOperationError, "'trees'.*ai.onnx.ml.TreeEnsembleClassifier"),
    "product": (build([node("Relu", "x", out="h"), node("Mul", "x", "h")]), UnsupportedOperationError,
        "'my_mul_y'.*product of two tensors"),
    "divisor": (build([node("Div", "c", "x")], {"c": V4}), UnsupportedOperationError, "my_div.*divisor"),
    "zero": (build([node("Div", "x", "c")], {"c": 0 * V4}), NetworkError, "my_div.*division by zero"),
    "embedding": (build([node("Gather", "w", "x")], {"w": W43}, kind=TensorProto.FLOAT), UnsupportedOperationError,
        "my_gather.*only its data"),
    "random": (build([helper.make_node("RandomNormal", [], ["r"], shape=[4], name="noise"), node("Add", "x", "r")]),
        UnsupportedOperationError, "'noise'"),
    "batch": (build([node("Transpose", "x", perm=[1, 0])]), NetworkError, "my_transpose.*batch axis must stay first"),
    "batch_used": (build([node("Transpose", "x", perm=[1, 0], out="h"), node("Relu", "h")]), NetworkError,
        "my_transpose.*batch axis must stay first"),
    "transposed_individuals": (build([node("Gemm", "x", "w", transA=1)], {"w": W43}), UnsupportedOperationError,
        "my_gemm.*its option 'transA' is not supported"),
    "unknown_attribute": (build([node("Gemm", "x", "w", transC=1)], {"w": W43}), NetworkError, "my_gemm.*transC"),
    "mixing": (build([node("Reshape", "x", "s", out="h"), node("Reshape", "h", "t")],
        {"s": np.array([-1]), "t": np.array([2, -1])}), NetworkError, "my_reshape"),
    "softmax_inside": (build([node("Softmax", "x", out="h"), node("Relu", "h")]), UnsupportedOperationError,
        "'my_softmax_h'.*only as the last"),
    "half": (build([node("Cast", "x", to=TensorProto.FLOAT16)]), UnsupportedOperationError, "my_cast.*FLOAT16"),
    "cut": (build([node("CastLike", "x", "c")], {"c": np.array([1])}), UnsupportedOperationError,
        "my_castlike.*int64 rounds"),
    "training": (build([node("BatchNormalization", "x", *"sbmv", training_mode=1)], dict.fromkeys("sbmv", V4**2)),
        UnsupportedOperationError, "stored statistics"),
    "nan": (build([node("Mul", "x", "c")], {"c": V4 * np.nan}), NetworkError, "my_mul.*NaN"),
    "shapes": (build([node("MatMul", "x", "w")], {"w": W34}), NetworkError, "my_matmul.*agree in width"),
    "missing": (build([node("Add", "x", "nowhere")]), NetworkError, "my_add.*'nowhere', which nothing"),
    "one_axis": (build([node("Relu", "x")], shape=(4,)), NetworkError, "two axes"),
    "unknown_width": (build([node("Relu", "x")], shape=("n", "m")), NetworkError, "how many features"),
    "constant_output": (build([node("Relu", "c")], {"c": V4}), NetworkError, "does not depend on the input"),
    "huge": (build([helper.make_node("ConstantOfShape", ["s"], ["c"], name="huge"), node("Add", "x", "c")],
        {"s": np.array([10**6, 10**6])}), NetworkError, "'huge'.*larger than"),
}  # fmt: skip


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
