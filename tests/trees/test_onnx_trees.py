"""Tree operators of ONNX: modes, doubles, sets, and what the runtime does with scores of one class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.trees.onnx_originals import random_attributes, run, tree_model
from tests.trees.originals import neighbours

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.trees import Forest, read_trees


def read(model: Any, folder: Path) -> Forest:
    onnx.save(model, folder / "m.onnx")
    return read_trees(folder / "m.onnx")


def agree(model: Any, rows: np.ndarray, folder: Path, double: bool = False) -> Forest:
    forest = read(model, folder)
    own = run(model, rows, double).reshape(len(rows), -1)
    assert (np.abs(forest.outputs(rows) - own) <= forest.output_error(rows)).all()
    return forest


def stump(mode: str, split: float, tracks: int = 0, operator: str = "Regressor", **more: Any) -> Any:
    kind = "target" if operator == "Regressor" else "class"
    given = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_modes": [mode, "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [split, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "nodes_missing_value_tracks_true": [tracks, 0, 0],
        f"{kind}_treeids": [0, 0],
        f"{kind}_nodeids": [1, 2],
        f"{kind}_ids": [0, 0],
        f"{kind}_weights": [1.0, 3.0],
    }
    if operator == "Regressor":
        given["n_targets"] = 1
    return tree_model(given | more, f"TreeEnsemble{operator}", 1)


@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("mode", ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"])
def test_branch_modes(mode: str, tracks: int, tmp_path: Path) -> None:
    model = stump(f"BRANCH_{mode}", 0.1, tracks)
    rows = np.array([*neighbours(np.array([0.1])), 0.0, 5.0, np.nan])[:, None]
    forest = agree(model, rows, tmp_path)
    assert len(np.unique(forest.outputs(rows))) == 2


def test_doubles_are_read_from_the_tensor(tmp_path: Path) -> None:
    attributes = random_attributes(double=True, missing=False, depth=3)
    split = numpy_helper.to_array(attributes["nodes_values_as_tensor"])
    forest = read(tree_model(attributes, "TreeEnsembleRegressor", 4, double=True), tmp_path)
    exact = {*split, *np.nextafter(split, -np.inf)}
    assert set(forest.threshold[forest.feature >= 0]) <= exact
    assert (split.astype(np.float32) != split).any()


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("weights", [[0.2, 0.9], [-0.2, 0.9]])
def test_scores_of_one_of_two_classes(weights: list[float], transform: str, tmp_path: Path) -> None:
    """Where all weights are positive the runtime takes the sum as a probability, else mirrors it; a logistic is one."""
    more = {"class_weights": weights, "classlabels_int64s": [0, 1], "post_transform": transform}
    model = stump("BRANCH_LEQ", 0.5, operator="Classifier", **more)
    forest = agree(model, np.array([[0.0], [1.0]]), tmp_path)
    assert forest.classes == (0.0, 1.0)
    expected = "logistic" if transform == "LOGISTIC" else "probability" if min(weights) >= 0 else "identity"
    assert forest.link == expected


def test_several_classes_in_one_leaf(tmp_path: Path) -> None:
    more = {
        "class_treeids": [0] * 6,
        "class_nodeids": [1, 1, 1, 2, 2, 2],
        "class_ids": [0, 1, 2, 0, 1, 2],
        "class_weights": [0.2, 0.3, 0.5, 0.7, -0.1, 0.2],
        "classlabels_int64s": [4, 5, 6],
        "post_transform": "SOFTMAX",
    }
    model = stump("BRANCH_LEQ", 0.5, operator="Classifier", **more)
    assert agree(model, np.array([[0.0], [1.0]]), tmp_path).classes == (4.0, 5.0, 6.0)


def opset_five(double: bool = False, roots: tuple[int, ...] = (0,), leaf: int = 0) -> Any:
    """A set of values, then a comparison; leaves in a list of their own."""
    kind = np.float64 if double else np.float32
    tensor = lambda values, dtype=kind: numpy_helper.from_array(np.array(values, dtype=dtype))  # noqa: E731
    attributes = {
        "n_targets": 1,
        "post_transform": 0,
        "aggregate_function": 1,
        "tree_roots": list(roots),
        "nodes_featureids": [0, 1],
        "nodes_modes": tensor([6, 0], np.uint8),
        "nodes_splits": tensor([0.0, 0.1]),
        "membership_values": tensor([1.0, 3.0, np.nan]),
        "nodes_truenodeids": [1, 0],
        "nodes_trueleafs": [0, 1],
        "nodes_falsenodeids": [2, 1],
        "nodes_falseleafs": [1, 1],
        "leaf_targetids": [0, 0, 0],
        "leaf_weights": tensor([1.0, 2.0, 4.0]),
    }
    return tree_model(attributes, "TreeEnsemble", 2, double, opset=5)


@pytest.mark.parametrize("double", [False, True])
def test_trees_of_opset_5(double: bool, tmp_path: Path) -> None:
    rows = np.array([[a, b] for a in (0, 1, 2, 3, 4, 2.5) for b in (*neighbours(np.array([0.1])), 0.0, 1.0)])
    forest = agree(opset_five(double), rows, tmp_path, double)
    assert forest.columns[0].categories == (1.0, 3.0)
    assert len(np.unique(forest.outputs(rows))) == 3


def test_circles_and_other_operators_are_refused(tmp_path: Path) -> None:
    model = opset_five()
    circle = next(each for each in model.graph.node[0].attribute if each.name == "nodes_trueleafs")
    circle.ints[1] = 0  # the second node leads back to the first
    with pytest.raises(NetworkError, match=r"circle|two nodes lead to it"):
        read(model, tmp_path)
    model = stump("BRANCH_LEQ", 0.5)
    model.graph.node[0].input[0] = "y"
    model.graph.node.insert(0, helper.make_node("Abs", ["x"], ["y"]))
    with pytest.raises(UnsupportedOperationError, match="the operator Abs stands in front of the trees"):
        read(model, tmp_path)
    with pytest.raises(NetworkError, match="outputs; from 1 to"):
        read(stump("BRANCH_LEQ", 0.5, n_targets=10**9), tmp_path)
    for transform in ("PROBIT", "SOFTMAX_ZERO"):
        with pytest.raises(UnsupportedOperationError, match=transform):
            read(stump("BRANCH_LEQ", 0.5, post_transform=transform), tmp_path)


def test_inputs_by_column_have_names(tmp_path: Path) -> None:
    model = stump("BRANCH_LEQ", 0.5)
    del model.graph.input[:]
    for name in ("age", "income"):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 1]))
    model.graph.node.insert(0, helper.make_node("Concat", ["age", "income"], ["x"], axis=1))
    assert [each.name for each in read(model, tmp_path).columns] == ["age", "income"]
