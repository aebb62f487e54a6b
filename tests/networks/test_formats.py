"""Every kind of file: what it predicts, what it must not do, and what a damaged one says."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from isonomy.errors import FileError, IsonomyError
from isonomy.networks import load_network
from isonomy.population.schema import Schema

from .stored import EMBEDDED, FILES, X, mlp

# -- skops


@pytest.mark.slow
def test_skops_files(tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io", reason="skops files are read with skops")
    schema = Schema.from_toml("[features.a]\nlow = 0\nhigh = 10\n[features.b]\nlow = -5\nhigh = 5\n")
    table = pd.DataFrame(np.random.default_rng(0).uniform([0, -5], [10, 5], (60, 2)), columns=["a", "b"])
    for last in (LogisticRegression(), MLPClassifier((4,), max_iter=5), MLPClassifier((4,), solver="sgd", max_iter=5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make_pipeline(StandardScaler(), last).fit(table, table["a"] > table["b"])
        skops.dump(model, tmp_path / "m.skops")
        network = load_network(tmp_path / "m.skops", schema)
        np.testing.assert_allclose(network(schema.encode(table).x), model.predict_proba(table), atol=1e-9)
    strange = make_pipeline(FunctionTransformer(os.getcwd), LogisticRegression())
    skops.dump(strange, tmp_path / "m.skops")
    with pytest.raises(FileError, match=r"asks for .*getcwd"):
        load_network(tmp_path / "m.skops", schema)


# -- nothing in a file is ever executed


class Malicious:
    """A pickle that leaves a trace when it is opened."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return (Path.touch, (self.trace,))


ENDINGS = (
    *(".onnx", ".h5", ".hdf5", ".keras", ".pt", ".pth", ".pt2", ".skops"),
    *(".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".sav", ".p"),
)


def disguises(trace: Path) -> dict[str, bytes]:
    """One program in many wrappings."""
    program = pickle.dumps(Malicious(trace))
    with_torch, legacy = io.BytesIO(), io.BytesIO()
    torch.save({"a.weight": Malicious(trace)}, with_torch)
    torch.save({"a.weight": Malicious(trace)}, legacy, _use_new_zipfile_serialization=False)
    wrapped = {"plain": program, "torch": with_torch.getvalue(), "legacy": legacy.getvalue()}
    array = io.BytesIO()
    np.save(array, np.array([Malicious(trace)], dtype=object), allow_pickle=True)
    entry = {"path_name": "weight_0", "is_param": True, "use_pickle": True, "tensor_meta": None}
    members = {
        "model.weights.h5": program,
        "config.json": b'{"class_name": "Sequential", "config": {"layers": []}}',
        "schema.json": json.dumps(
            {
                "__class__": "ndarray",
                "__module__": "numpy",
                "__loader__": "NdArrayNode",
                "type": "numpy",
                "file": "a.npy",
                "protocol": 1,
                "_skops_version": "0.16.0",
            }
        ).encode(),
        "a.npy": array.getvalue(),
        "m/models/model.json": b'{"graph_module": {"graph": {}, "signature": {"input_specs": []}}}',
        "m/data/weights/model_weights_config.json": json.dumps({"config": {"a": entry}}).encode(),
        "m/data/weights/weight_0": with_torch.getvalue(),
        "m/data/constants/model_constants_config.json": b'{"config": {}}',
        "m/data/sample_inputs/model.pt": with_torch.getvalue(),
        "data.pkl": program,
    }
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return wrapped | {"archive": archive.getvalue()}


@pytest.mark.some(5)
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_program_in_a_file_is_not_executed(ending: str, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        for name, content in disguises(trace).items():
            path = tmp_path / f"{name}{ending}"
            path.write_bytes(content)
            for schema in (None, Schema.from_toml(EMBEDDED)):
                with pytest.raises(IsonomyError) as caught:
                    load_network(path, schema, activation="relu")
                assert "\n" not in str(caught.value)
    assert not trace.exists()
    pickle.loads(disguises(trace)["plain"])  # the trap works
    assert trace.exists()


def test_pickles_are_refused_with_advice(tmp_path: Path) -> None:
    for ending in (".pkl", ".joblib"):
        with pytest.raises(FileError, match=r"a pickle is a program.*skops"):
            load_network(tmp_path / f"m{ending}")
    torch.save(mlp(5, 3, 2), tmp_path / "m.pt")
    with pytest.raises(FileError, match=r"more than parameters, or is damaged; .*state_dict"):
        load_network(tmp_path / "m.pt", activation="relu")
    torch.jit.script(mlp(5, 3, 2)).save(str(tmp_path / "m.pt"))
    with pytest.raises(FileError, match=r"m\.pt"):
        load_network(tmp_path / "m.pt", activation="relu")


# -- damaged files


def sound(ending: str, folder: Path) -> Path:
    path = folder / f"sound{ending}"
    if ending in (".h5", ".keras"):
        pytest.importorskip("h5py", reason="Keras files are read with h5py")
        path.write_bytes((FILES / f"sequential{ending}").read_bytes())
    elif ending == ".pt":
        torch.save(mlp(5, 4, 2).state_dict(), path)
    elif ending == ".pt2":
        torch.export.save(torch.export.export(mlp(5, 4, 2), (torch.randn(3, 5),)), path)
    elif ending == ".skops":
        skops = pytest.importorskip("skops.io", reason="skops files are read with skops")
        skops.dump(LogisticRegression().fit(X, X[:, 0] > 0), path)
    return path


@pytest.mark.some(4)
@pytest.mark.parametrize("ending", [".keras", ".pt", ".pt2", ".skops", pytest.param(".h5", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_say_one_sentence(ending: str, tmp_path: Path) -> None:
    whole = sound(ending, tmp_path).read_bytes()
    load_network(tmp_path / f"sound{ending}", activation="relu")
    draw, path = np.random.default_rng(0), tmp_path / f"broken{ending}"
    cuts = [whole[: int(part * len(whole))] for part in (0, 0.01, 0.1, 0.5, 0.9, 0.99)]
    spoilt = []
    own_process = ending in (".h5", ".keras")  # slower, one process per file
    for _ in range(8 if own_process else 60):
        data = np.frombuffer(whole, dtype=np.uint8).copy()
        at = draw.integers(0, len(data), draw.integers(1, 30))
        data[at] = draw.integers(0, 256, len(at))
        spoilt.append(data.tobytes())
    if zipfile.is_zipfile(tmp_path / f"sound{ending}"):
        spoilt += rezipped(tmp_path / f"sound{ending}", draw)[:: 2 if own_process else 1]
    for content in (*cuts, *spoilt, b"", b"\0" * 64, b"{}", whole[::-1]):
        path.write_bytes(content)
        try:
            load_network(path, activation="relu")
        except IsonomyError as error:
            assert "\n" not in str(error)
            assert "broken" in str(error)


def rezipped(path: Path, draw: np.random.Generator) -> list[bytes]:
    """Archives whose checksums are right, but whose members are not."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    results = []
    for target in list(members) * 3:
        data = np.frombuffer(members[target], dtype=np.uint8).copy()
        if not data.size:
            continue
        at = draw.integers(0, len(data), max(1, min(8, len(data) // 20)))
        data[at] = draw.integers(32, 127, len(at))
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, data.tobytes() if name == target else content)
        results.append(buffer.getvalue())
    return results


def test_unknown_endings_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"these are: \.h5, .*\.onnx"):
        load_network(tmp_path / "model.txt")
    with pytest.raises(FileError, match="There is no file"):
        load_network(tmp_path / "model.keras")
    with pytest.raises(FileError, match="boosted trees"):
        load_network(tmp_path / "model.ubj")
