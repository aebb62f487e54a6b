"""Whole pipelines with trees at their end, as ONNX with one input for each column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn import ensemble
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, PowerTransformer, RobustScaler, StandardScaler
from tests.trees.originals import neighbours
from tests.trees.test_pipelines import people

import isonomy
from isonomy.errors import NetworkError
from isonomy.trees import read_trees

SCALERS = [StandardScaler(), RobustScaler(), MinMaxScaler((-1, 2)), MinMaxScaler(clip=True), "passthrough"]
TYPES = [
    ("age", FloatTensorType([None, 1])), ("income", FloatTensorType([None, 1])), ("job", StringTensorType([None, 1])),
    ("grade", Int64TensorType([None, 1])),
]  # fmt: skip


def exported(step: Any, model: Any, path: Path, **options: Any) -> tuple[Any, pd.DataFrame]:
    frame, y = people()
    encoder = OneHotEncoder(**options)
    steps = ColumnTransformer(
        [("n", step, ["age", "income"]), ("c", encoder, ["job"]), ("g", "passthrough", ["grade"])]
    )
    pipeline = make_pipeline(steps, model).fit(frame, y)
    file = to_onnx(pipeline, initial_types=TYPES, options={id(model): {"zipmap": False}}, target_opset=18)
    path.write_bytes(file.SerializeToString())
    return pipeline, frame


def run(path: Path, frame: pd.DataFrame) -> Any:
    session = onnxruntime.InferenceSession(path)
    kinds = {"age": np.float32, "income": np.float32, "job": object, "grade": np.int64}
    return session.run(None, {name: frame[[name]].to_numpy(kind) for name, kind in kinds.items()})[1]


@pytest.mark.parametrize("step", SCALERS, ids=str)
@pytest.mark.parametrize("kind", ["forest", "boosted"])
def test_every_row_is_predicted_as_the_runtime_does(kind: str, step: Any, tmp_path: Path) -> None:
    """Also at single-precision numbers around every raw threshold."""
    some = ensemble.RandomForestClassifier if kind == "forest" else ensemble.GradientBoostingClassifier
    path = tmp_path / "model.onnx"
    exported(step, some(n_estimators=5, random_state=0), path)
    forest = read_trees(path)
    assert [each.name for each in forest.columns] == ["age", "income", "job", "grade"]
    rows, rng = people(1500, seed=1)[0], np.random.default_rng(0)
    for j, name in enumerate(("age", "income")):
        limits = forest.threshold[forest.feature == j]
        near = neighbours(limits[np.isfinite(limits)]).astype(np.float32)
        chosen = rng.choice(len(rows), min(len(near), len(rows)), replace=False)
        rows.loc[chosen, name] = rng.permutation(near)[: len(chosen)]
    rows = rows.assign(age=rows["age"].astype(np.float32), income=rows["income"].astype(np.float32))
    assert np.abs(forest.outputs(rows) - run(path, rows)).max() < 1e-6


def test_an_audit_of_the_file(tmp_path: Path) -> None:
    model = ensemble.RandomForestClassifier(5, max_depth=4, random_state=0)
    pipeline, frame = exported(StandardScaler(), model, tmp_path / "model.onnx", drop=None)
    table = frame.round({"income": 1}).assign(y=pipeline.predict(frame))[:30]
    asked: dict[str, Any] = {"label": "y", "protected": "job", "similar": {"age": 2, "income": "5%"}, "quiet": True}
    local = isonomy.audit(str(tmp_path / "model.onnx"), table, progress=None, **asked).certificate.local
    live = isonomy.audit(pipeline, table, progress=None, **asked).certificate.local
    assert (local.upper - local.lower).max() < 1e-6 and np.abs(local.upper - live.upper).max() < 1e-6


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    model = ensemble.RandomForestClassifier(2, random_state=0)
    exported(PowerTransformer(), model, tmp_path / "model.onnx")
    with pytest.raises(NetworkError, match=r"stands? in front of the trees.*save the pipeline with skops"):
        read_trees(tmp_path / "model.onnx")
    exported(StandardScaler(), model, tmp_path / "turned.onnx")
    file = onnx.load(tmp_path / "turned.onnx")
    scaler = next(node for node in file.graph.node if node.op_type == "Scaler")
    scale = next(each for each in scaler.attribute if each.name == "scale")
    scale.floats[0] = -1.0
    onnx.save(file, tmp_path / "turned.onnx")
    with pytest.raises(NetworkError, match="turns numbers around"):
        read_trees(tmp_path / "turned.onnx")


def small(path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, int]], **constants: Any) -> Any:
    """Save a tree of two tests behind some nodes, of columns 0 and 1 of the tensor 'cells'; return its session."""
    lists: dict[str, Any] = {
        "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0, 1, 0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"], "nodes_values": [0.5, 0.5, 0.0, 0.0, 0.0],
        "nodes_truenodeids": [2, 3, 0, 0, 0], "nodes_falsenodeids": [1, 4, 0, 0, 0], "nodes_treeids": [0] * 5,
        "target_treeids": [0] * 3, "target_nodeids": [2, 3, 4], "target_ids": [0] * 3,
        "target_weights": [1.0, 2.0, 3.0],
    }  # fmt: skip
    tree = onnx.helper.make_node("TreeEnsembleRegressor", ["cells"], ["out"], domain="ai.onnx.ml", n_targets=1, **lists)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [*nodes, tree], "g", [info(name, kind, [None, width]) for name, (kind, width) in inputs.items()],
        [info("out", onnx.TensorProto.FLOAT, [None, 1])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    versions = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=versions, ir_version=8), path)
    return onnxruntime.InferenceSession(path)


@pytest.mark.parametrize("scaled", [False, True])
def test_columns_without_names_are_in_the_order_of_the_inputs(scaled: bool, tmp_path: Path) -> None:
    """Also where the file joins them in another one."""
    number, node = (onnx.TensorProto.FLOAT, 1), onnx.helper.make_node
    scale = node("Scaler", ["b"], ["c"], domain="ai.onnx.ml", offset=[0.25], scale=[2.0])
    join = node("Concat", ["c" if scaled else "b", "a"], ["cells"], axis=1)
    for width in (1, 2):
        inputs = {"a": (number[0], width), "b": (number[0], 1)}
        session = small(tmp_path / "m.onnx", [scale, join] if scaled else [join], inputs)
        cells = np.random.default_rng(0).normal(0.5, 1, (60, width + 1)).astype(np.float32)
        forest = read_trees(tmp_path / "m.onnx")
        frame = pd.DataFrame(cells, columns=[each.name for each in forest.columns])
        assert list(frame.columns) == (["a", "b"] if width == 1 else ["f0", "f1", "b"])
        own = session.run(None, {"a": cells[:, :width], "b": cells[:, width:]})[0]
        assert np.array_equal(own, forest.outputs(frame))


def test_whole_numbers_and_cuts_are_refused(tmp_path: Path) -> None:
    """Quotients of whole numbers are cut, and so are floats that are encoded; some constants differ by row."""
    node, path = onnx.helper.make_node, tmp_path / "m.onnx"
    whole, number = (onnx.TensorProto.INT64, 2), (onnx.TensorProto.FLOAT, 2)
    cast = node("Cast", ["q"], ["cells"], to=onnx.TensorProto.FLOAT)
    small(path, [node("Div", ["x", "by"], ["q"]), cast], {"x": whole}, by=np.array([7]))
    with pytest.raises(NetworkError, match="Div of int64"):
        read_trees(path)
    small(path, [node("Clip", ["x", "low"], ["q"]), cast], {"x": whole}, low=np.array(2**24 + 1))
    with pytest.raises(NetworkError, match="Clip of int64"):
        read_trees(path)
    small(path, [node("Mul", ["x", "by"], ["cells"])], {"x": number}, by=np.array([[1], [2]], dtype=np.float32))
    with pytest.raises(NetworkError, match="differs from row to row"):
        read_trees(path)
    encoded = node("OneHotEncoder", ["x"], ["e"], domain="ai.onnx.ml", cats_int64s=[1, 2], zeros=1)
    shape = node("Reshape", ["e", "shape"], ["cells"])
    small(path, [encoded, shape], {"x": (number[0], 1)}, shape=np.array([-1, 2]))
    with pytest.raises(NetworkError, match="cuts numbers to whole ones"):
        read_trees(path)
