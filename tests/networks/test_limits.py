"""Small files that ask for gigabytes: one sentence each, before 200 MB are allocated.

Every file is read by a process of its own, which counts: its address space is limited, so that nothing can be asked
for without being counted, and the highest use of memory is compared with that before reading. The processes are copies
of one that has imported everything.
"""

from __future__ import annotations

import atexit
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from isonomy.errors import FileError, NetworkError, SchemaError
from isonomy.networks import hdf5_dump, limits
from isonomy.networks.load import open_network
from isonomy.population import Schema
from isonomy.population.toml import TEXT

MOST = 200e6
PROGRAM = """
import json, os, resource, sys
import numpy, onnx, onnx.reference, sklearn.neural_network, skops.io, torch
from isonomy.errors import IsonomyError
from isonomy.networks import keras_reader, onnx_reader, sklearn_reader, state_reader
from isonomy.networks.load import open_network
from isonomy.population import Schema

def now(field):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])

def read(file, schema):
    before, room = now("VmRSS"), now("VmSize") + 2 * 10**9
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    said = "read"
    try:
        people = Schema.from_toml(schema) if schema else None
        if file:
            open_network(file, people, head="regression", activation="relu")
    except IsonomyError as error:
        said = f"{type(error).__name__}: {error}"
    except BaseException as error:
        said = f"not foreseen: {error!r}"
    print(json.dumps([now("VmHWM") - before, said]), flush=True)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        read(*json.loads(line))
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(json.dumps([0, "not foreseen: the process ended"]), flush=True)
"""


@cache
def reader() -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(started.kill)
    return started


def refused(path: Path | str, schema: Path | str = "") -> str:
    """What is said of a file; it must be one sentence, and cost little."""
    process = reader()
    assert process.stdin is not None and process.stdout is not None
    print(json.dumps([str(path), str(schema)]), file=process.stdin, flush=True)
    taken, said = json.loads(process.stdout.readline())
    assert said != "read" and "not foreseen" not in said and "\n" not in said and len(said) < 3000, said
    assert "MemoryError" not in said and "damaged" not in said, said  # foreseen, not run into
    assert int(taken) < MOST, f"{int(taken) / 1e6:.0f} MB: {said}"
    return said


# -- ONNX ------------------------------------------------------------------------------------------------------


def onnx_file(
    path: Path, nodes: list[Any], constants: dict[str, Any] | None = None, width: int = 4, functions: Any = ()
) -> Path:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in (constants or {}).items()],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8, functions=list(functions))
    onnx.save(model, path)
    assert path.stat().st_size < 20_000
    return path


def node(kind: str, *names: str, **attributes: Any) -> Any:
    *reads, gives = names
    return helper.make_node(kind, reads, [gives], **attributes)


def doubled(kind: str, times: int, first: str) -> list[Any]:
    names = [first, *(f"d{i}" for i in range(times))]
    axis = 1 if first == "x" else 0
    return [node("Concat", a, a, b, axis=axis) for a, b in pairwise(names)]


F, HUGE = np.ones(1, np.float32), np.array([60_000, 60_000])
END = node("Add", "x", "c", "y")
GREEDY: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "Concat of constants": (
        [*doubled("Concat", 30, "f"), node("ReduceMax", "d29", "c", keepdims=0), END], {"f": F}
    ),
    "Concat of the input": ([*doubled("Concat", 30, "x"), node("ReduceMax", "d29", "y")], {}),
    "Expand": ([node("Expand", "f", "s", "e"), node("ReduceMax", "e", "c", keepdims=0), END], {"f": F, "s": HUGE}),
    "Expand of the input": (
        [node("Unsqueeze", "x", "one", "u"), node("Expand", "u", "s", "y")],
        {"one": np.array([1]), "s": np.array([1, 50_000_000, 4])},
    ),
    "Tile": (
        [node("Tile", "f", "s", "e"), node("ReduceMax", "e", "c", keepdims=0), END],
        {"f": np.ones((1, 1), np.float32), "s": HUGE},
    ),
    "ConstantOfShape": (
        [node("ConstantOfShape", "s", "e"), node("ReduceMax", "e", "c", keepdims=0), END], {"s": HUGE}
    ),
    "Range": (
        [node("Range", "a", "b", "k", "e"), node("ReduceMax", "e", "c", keepdims=0), END],
        {"a": np.float32(0), "b": np.float32(4e9), "k": np.float32(1)},
    ),
    "Pad": (
        [node("Pad", "f", "s", "e"), node("ReduceMax", "e", "c", keepdims=0), END],
        {"f": F, "s": np.array([0, 4 * 10**9])},
    ),
    "OneHot": (
        [node("OneHot", "i", "d", "v", "e"), node("ReduceMax", "e", "c", keepdims=0), END],
        {"i": np.array([0]), "d": np.array(4 * 10**9), "v": np.array([0, 1], np.float32)},
    ),
    "an outer sum": (
        [node("ConstantOfShape", "s", "a"), node("ConstantOfShape", "t", "b"), node("Add", "a", "b", "e"),
         node("ReduceMax", "e", "c", keepdims=0), END],
        {"s": np.array([1, 60_000]), "t": np.array([60_000, 1])},
    ),
    "an outer product": (
        [node("ConstantOfShape", "s", "a"), node("ConstantOfShape", "t", "b"), node("MatMul", "b", "a", "e"),
         node("ReduceMax", "e", "c", keepdims=0), END],
        {"s": np.array([1, 60_000]), "t": np.array([60_000, 1])},
    ),
    "many that are allowed one by one": (
        [*(node("ConstantOfShape", "s", f"e{i}") for i in range(60)),
         *(node("Add", f"e{i}", f"e{i + 1}", f"f{i}") for i in range(59)),
         node("Sum", *(f"f{i}" for i in range(59)), "e"), node("ReduceMax", "e", "c", keepdims=0), END],
        {"s": np.array([1000, 1000])},
    ),
    "a text": (
        [*(helper.make_node("StringConcat", [a, a], [b])
           for a, b in zip(["t", *(f"t{i}" for i in range(32))], [f"t{i}" for i in range(33)], strict=True)),
         node("Shape", "t32", "s"), node("Cast", "s", "c", to=TensorProto.FLOAT), END],
        {"t": np.array(["x"], object)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", GREEDY)
def test_onnx_files_that_ask_for_gigabytes(tmp_path: Path, kind: str) -> None:
    nodes, constants = GREEDY[kind]
    said = refused(onnx_file(tmp_path / "model.onnx", nodes, constants))
    assert said.startswith(("NetworkError: model.onnx: node '", "UnsupportedOperationError: model.onnx: node '"))


def test_a_wide_input_that_is_scaled_again_and_again(tmp_path: Path) -> None:
    """Each scaling is a matrix of the input's width."""
    names = ["x", *(f"s{i}" for i in range(40)), "y"]
    nodes = [node("Mul", a, "c", b) for a, b in pairwise(names)]
    said = refused(onnx_file(tmp_path / "model.onnx", nodes, {"c": np.array([2], np.float32)}, width=1500))
    assert "1500 times 1500 weights is larger than the supported size" in said


def test_a_shape_that_nobody_can_have(tmp_path: Path) -> None:
    said = refused(onnx_file(tmp_path / "model.onnx", [node("Relu", "x", "y")], width=2**40))
    assert "larger than the supported size" in said


@pytest.mark.parametrize("depth", [24, 60])
def test_functions_that_call_functions_twice(tmp_path: Path, depth: int) -> None:
    def function(place: int) -> Any:
        inner = "Relu" if place == 0 else f"f{place - 1}"
        domain = "" if place == 0 else "own"
        twice = [node(inner, "a", "b", domain=domain), node(inner, "b", "c", domain=domain)]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        return helper.make_function("own", f"f{place}", ["a"], ["c"], twice, imports)

    last = node(f"f{depth - 1}", "x", "y", domain="own")
    path = onnx_file(tmp_path / "model.onnx", [last], functions=map(function, range(depth)))
    assert "nodes once its functions are written out" in refused(path)


def test_functions_that_call_themselves(tmp_path: Path) -> None:
    imports = [helper.make_opsetid("own", 1)]
    own = helper.make_function("own", "f", ["a"], ["c"], [node("f", "a", "c", domain="own")], imports)
    assert "'f' calls itself" in refused(
        onnx_file(tmp_path / "model.onnx", [node("f", "x", "y", domain="own")], functions=[own])
    )


def test_weights_beside_the_file_count_as_often_as_they_are_named(tmp_path: Path) -> None:
    with (tmp_path / "w").open("wb") as file:
        file.truncate(2**30)  # takes no place on the disk
    path = onnx_file(tmp_path / "model.onnx", [node("MatMul", "x", "w0", "y")], {"w0": np.ones((4, 2), np.float32)})
    model = onnx.load(path)
    for place in range(4):
        tensor = model.graph.initializer.add(name=f"w{place}", data_type=TensorProto.FLOAT, dims=[2**28])
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="w")
    path.write_bytes(model.SerializeToString())
    assert "GiB of weights in other files" in refused(path)


# -- skops -----------------------------------------------------------------------------------------------------


def skops_file(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> Path:
    """A fitted network whose schema and members are changed."""
    import skops.io
    from sklearn.linear_model import LinearRegression

    x = np.random.default_rng(0).normal(size=(20, 4))
    skops.io.dump(LinearRegression().fit(x, x[:, 0]), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members["schema.json"])
    change(schema, members)
    members["schema.json"] = json.dumps(schema).encode() if schema else members["schema.json"]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def npy(shape: tuple[int, ...], size: int) -> bytes:
    """An array that says its shape, and has so many bytes."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue() + bytes(size)


def arrays_of(part: Any) -> list[dict[str, Any]]:
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    own = [part] if isinstance(part, dict) and part.get("__loader__") == "NdArrayNode" and "file" in part else []
    return own + [found for each in inner for found in arrays_of(each)]


def unpacks(schema: dict[str, Any], members: dict[str, bytes]) -> None:
    members[arrays_of(schema)[0]["file"]] = npy((40_000_000,), 320_000_000)


def says_a_shape(schema: dict[str, Any], members: dict[str, bytes]) -> None:
    members[arrays_of(schema)[0]["file"]] = npy((4_000_000_000,), 64)


def is_mentioned_often(schema: dict[str, Any], members: dict[str, bytes]) -> None:
    found = arrays_of(schema)[0]
    members[found["file"]] = npy((2_000_000,), 16_000_000)
    schema["content"]["content"]["many_"] = {
        "__class__": "list", "__module__": "builtins", "__loader__": "ListNode", "__id__": 1,
        "content": [{**found, "__id__": 100 + i} for i in range(400)],
    }  # fmt: skip


def holds_an_archive(schema: dict[str, Any], members: dict[str, bytes]) -> None:
    found = arrays_of(schema)[0]
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", npy((20_000_000,), 160_000_000))
    members[found["file"]] = inner.getvalue()
    found |= {
        "__loader__": "SparseMatrixNode",
        "__class__": "csr_matrix",
        "__module__": "scipy.sparse",
        "type": "scipy",
    }


def has_a_long_description(schema: dict[str, Any], members: dict[str, bytes]) -> None:
    schema.clear()
    members["schema.json"] = b'{"content": [' + b"[]," * 20_000_000 + b"0]}"


def is_deep(schema: dict[str, Any], members: dict[str, bytes]) -> None:
    schema.clear()
    members["schema.json"] = b'{"content":' * 200_000 + b"0" + b"}" * 200_000


@pytest.mark.parametrize(
    "change", [unpacks, says_a_shape, is_mentioned_often, holds_an_archive, has_a_long_description, is_deep]
)
def test_skops_files_that_unpack_to_gigabytes(tmp_path: Path, change: Callable[..., None]) -> None:
    path = skops_file(tmp_path / "model.skops", change)
    assert path.stat().st_size < 1_000_000
    said = refused(path)
    words = {holds_an_archive: "sparse", is_deep: "nested too deeply", has_a_long_description: "unpacks to more"}
    assert said.startswith("FileError") and words.get(change, "unpacks to more") in said


# -- Keras, state dicts ---------------------------------------------------------------------------------


def keras_file(path: Path, shape: tuple[int, ...], *, attribute: Any = None, config: bytes | None = None) -> Path:
    """A Keras network of one layer whose kernel is declared, and never written."""
    h5py = pytest.importorskip("h5py")
    layers = [
        {"class_name": "InputLayer", "config": {"name": "in", "batch_shape": [None, 4]}},
        {"class_name": "Dense", "config": {"name": "d", "units": 2, "activation": "linear", "trainable": True}},
    ]
    text = config or json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": layers}}).encode()
    inner = io.BytesIO()
    with h5py.File(path if path.suffix == ".h5" else inner, "w") as file:
        if path.suffix == ".h5":
            file.attrs["model_config"] = text
            file.create_dataset("model_weights/d/kernel", shape, "f4", chunks=True)
            file["model_weights/d"].attrs["weight_names"] = np.array([b"kernel"])
        else:
            file.create_dataset("layers/dense/vars/0", shape, "f4", chunks=True)
        if attribute is not None:
            file.attrs.create("long", attribute, dtype=h5py.string_dtype())
    if path.suffix != ".h5":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("config.json", text)
            archive.writestr("model.weights.h5", inner.getvalue())
    return path


@pytest.mark.parametrize("suffix", ["h5", "keras"])
def test_keras_files_that_declare_gigabytes(tmp_path: Path, suffix: str) -> None:
    path = keras_file(tmp_path / f"model.{suffix}", (60_000, 60_000))
    assert "larger than the supported size" in refused(path)
    long = keras_file(path, (4, 2), attribute=["x" * 10_000] * 1000)
    assert "larger than the supported size" in refused(long)


def test_the_process_that_reads_hdf5_takes_little_too(tmp_path: Path) -> None:
    path = keras_file(tmp_path / "model.h5", (60_000, 60_000))
    dump = [sys.executable, "-P", hdf5_dump.__file__, str(path), str(limits.UNPACKED), str(TEXT)]
    program = f"import resource, subprocess; done = subprocess.run({dump!r}, stderr=subprocess.PIPE, text=True); " + (
        "print(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stderr.splitlines()[-1])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    taken, said = done.stdout.split(maxsplit=1)
    assert int(taken) < MOST and "larger than the supported size" in said


def test_keras_archives_that_unpack_to_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "model.keras"
    keras_file(path, (4, 2))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        config = archive.read("config.json")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", bytes(300_000_000))
    assert "larger than the supported size" in refused(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", b"[]," * 20_000_000)
    assert "'config.json' is larger than the supported size" in refused(path)


def test_keras_descriptions_that_are_deep(tmp_path: Path) -> None:
    deep = b"[" * 20_000 + b"]" * 20_000
    assert "nested too deeply" in refused(keras_file(tmp_path / "model.keras", (4, 2), config=deep))


def state_file(path: Path, content: Any) -> Path:
    torch = pytest.importorskip("torch")
    torch.save(content, path)
    assert path.stat().st_size < 100_000
    return path


def test_state_dicts_that_repeat_one_number(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    content = {"0.weight": torch.ones(1).expand(60_000, 60_000)}
    assert "larger than the supported size" in refused(state_file(tmp_path / "model.pt", content))
    many = {f"{i}.weight": torch.ones(1).expand(2000, 2000) for i in range(200)}
    assert "larger than the supported size" in refused(state_file(tmp_path / "many.pt", many))


def test_state_dicts_that_ask_for_bytes(tmp_path: Path) -> None:
    """An array of bytes is made in any length, by the few words that torch lets pass."""

    class Greedy:
        def __reduce__(self) -> Any:
            return bytearray, (4_000_000_000,)

    pytest.importorskip("torch")
    assert "an array of bytes" in refused(state_file(tmp_path / "model.pt", {"0.weight": Greedy()}))


def test_state_dicts_that_unpack_to_gigabytes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state_file(tmp_path / "plain.pt", {"0.weight": torch.ones(2, 4)})
    with zipfile.ZipFile(tmp_path / "plain.pt") as plain, zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        for name in plain.namelist():
            if not name.endswith("/data/0"):
                archive.writestr(name, plain.read(name))
        archive.writestr(f"{plain.namelist()[0].split('/')[0]}/data/0", bytes(300_000_000), zipfile.ZIP_DEFLATED)
    assert "unpacks to more" in refused(tmp_path / "model.pt")


# -- schemas ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[features.job]\ncategories = [" + ",".join(f'"{i}"' for i in range(200_000)) + "]\n", "16,384"),
        ("".join(f"[features.c{i}]\nlow=0\n" for i in range(20_000)), "16,384"),
        ("name = " + "[" * 100_000 + "]" * 100_000 + "\n", "nested too deeply"),
        ("name = 1\n[" + ".".join("a" * 50_000) + "]\nb = 1", "unknown key"),
        ("name = [" + "[]," * 6_000_000 + "]\n", "longer than"),
    ],
    ids=["categories", "features", "deep", "dotted", "long"],
)
def test_schemas(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "schema.toml").write_text(text, encoding="utf-8")
    assert said in refused("", tmp_path / "schema.toml")
    if len(text) < 2**22:
        with pytest.raises((SchemaError, FileError), match=said):
            Schema.from_toml(text)


# -- and what is honest passes ---------------------------------------------------------------------------------


def test_a_file_has_the_room_of_its_size(tmp_path: Path) -> None:
    """A layer that a small file could not ask for, in the file that holds it."""
    weight = np.random.default_rng(0).normal(size=(1200, 1200)).astype(np.float32)
    nodes = [
        x for i in range(6) for x in (node("MatMul", f"h{i}", f"w{i}", f"p{i}"), node("Relu", f"p{i}", f"h{i + 1}"))
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("h0", TensorProto.FLOAT, ["n", 1200])],
        [helper.make_tensor_value_info("h6", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, f"w{i}") for i in range(6)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    assert open_network(tmp_path / "model.onnx", head="regression").input_width == 1200


def test_the_budget_is_for_one_file(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(bytes(100))
    with limits.reading_file(tmp_path / "model.onnx", "an ONNX network") as allowance:
        allowance.reserve(limits.BUDGET + 100, "this")
        with pytest.raises(NetworkError, match="that is larger than the supported size"):
            allowance.reserve(1, "that")
    limits.Allowance().reserve(limits.BUDGET + 1000, "what is no file's")
    with pytest.raises(NetworkError, match="larger"):
        limits.Allowance().reserve(limits.MATRIX + 1, "anything")
