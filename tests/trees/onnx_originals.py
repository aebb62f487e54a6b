"""ONNX files with trees, as onnxruntime runs them; leaves are read off a file whose values are the leaves' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from tests.trees.originals import Original

KINDS = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]


def tree_model(attributes: dict[str, Any], operator: str, width: int, double: bool = False, opset: int = 3) -> Any:
    kind = TensorProto.DOUBLE if double else TensorProto.FLOAT
    outputs = ["label", "scores"] if operator == "TreeEnsembleClassifier" else ["scores"]
    node = helper.make_node(operator, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    scores = TensorProto.DOUBLE if double and operator == "TreeEnsemble" else TensorProto.FLOAT
    results = [helper.make_tensor_value_info("scores", scores, None)]
    if len(outputs) > 1:
        results.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, None))
    graph = helper.make_graph([node], "trees", [helper.make_tensor_value_info("x", kind, [None, width])], results)
    domains = [helper.make_opsetid("ai.onnx.ml", opset), helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def run(model: Any, rows: np.ndarray, double: bool = False) -> Any:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    given = {session.get_inputs()[0].name: rows.astype(np.float64 if double else np.float32)}
    return session.run(None, given)[-1]


def random_attributes(double: bool, missing: bool, depth: int, trees: int = 6, width: int = 4) -> dict[str, Any]:
    """Full trees with tests of every mode on the table's numbers."""
    rng = np.random.default_rng(5)
    inner, size = 2**depth - 1, 2 ** (depth + 1) - 1
    scale = np.array([1, 20000, 1e-3, 40])
    found: dict[str, list[Any]] = {f"nodes_{name}": [] for name in ("treeids", "nodeids", "modes", "featureids")}
    found |= {"nodes_truenodeids": [], "nodes_falsenodeids": [], "nodes_missing_value_tracks_true": []}
    values = []
    for tree in range(trees):
        for node in range(size):
            feature = int(rng.integers(width))
            found["nodes_treeids"].append(tree)
            found["nodes_nodeids"].append(node)
            found["nodes_modes"].append(str(rng.choice(KINDS)) if node < inner else "LEAF")
            found["nodes_featureids"].append(feature)
            found["nodes_truenodeids"].append(2 * node + 1 if node < inner else 0)
            found["nodes_falsenodeids"].append(2 * node + 2 if node < inner else 0)
            found["nodes_missing_value_tracks_true"].append(int(rng.integers(2)) if missing else 0)
            values.append(rng.normal() * scale[feature] if node < inner else 0.0)
    leaves = [(t, n) for t in range(trees) for n in range(inner, size)]
    weights = rng.normal(size=len(leaves))
    if double:
        found["nodes_values_as_tensor"] = numpy_helper.from_array(np.array(values))  # type: ignore[assignment]
        found["target_weights_as_tensor"] = numpy_helper.from_array(weights)  # type: ignore[assignment]
    else:
        found["nodes_values"], found["target_weights"] = values, weights.tolist()
    found |= {"target_treeids": [t for t, _ in leaves], "target_nodeids": [n for _, n in leaves]}
    return found | {"target_ids": [0] * len(leaves), "n_targets": 1, "post_transform": "NONE"}


class Onnx(Original):
    def fit(self) -> None:
        self.double = self.asked.model == "doubles"
        if self.asked.model in ("modes", "doubles"):
            attributes = random_attributes(self.double, self.asked.missing == "nan", self.asked.depth or 5)
            self.model = tree_model(attributes, "TreeEnsembleRegressor", 4, self.double)
            return
        from skl2onnx import to_onnx
        from sklearn import ensemble

        kind = "Regressor" if self.asked.objective == "number" else "Classifier"
        model = getattr(ensemble, f"{self.asked.model}{kind}")(
            n_estimators=6, max_depth=self.asked.depth, random_state=0
        )
        model.fit(self.frame.to_numpy(np.float32), self.y)
        options = {"zipmap": False} if kind == "Classifier" else None
        self.model = to_onnx(model, self.frame.to_numpy(np.float32)[:1], options=options)

    def source(self) -> Any:
        import tempfile
        from pathlib import Path

        path = Path(tempfile.mkdtemp()) / "trees.onnx"
        onnx.save(self.model, path)
        return path

    def values(self, forest: Any) -> dict[str, np.ndarray]:
        names = dict(zip((each.name for each in forest.columns), self.frame.columns, strict=True))
        return {names[name]: each for name, each in super().values(forest).items()}

    def rows(self, forest: Any) -> Any:
        return super().rows(forest).to_numpy(np.float64)

    def leaves(self, rows: np.ndarray) -> Any:
        """Every tree an output of its own, and every leaf worth its number."""
        node = next(each for each in self.model.graph.node if "Tree" in each.op_type)
        given = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        kept = {name: value for name, value in given.items() if name.startswith("nodes_")}
        ends = [i for i, mode in enumerate(given["nodes_modes"]) if mode == b"LEAF"]
        trees = sorted(set(given["nodes_treeids"]))
        own = {
            "target_treeids": [given["nodes_treeids"][i] for i in ends],
            "target_nodeids": [given["nodes_nodeids"][i] for i in ends],
            "target_ids": [trees.index(given["nodes_treeids"][i]) for i in ends],
            "n_targets": len(trees),
        }
        numbers = [float(given["nodes_nodeids"][i]) for i in ends]
        if self.double:
            own["target_weights_as_tensor"] = numpy_helper.from_array(np.array(numbers))
        else:
            own["target_weights"] = numbers
        return run(tree_model(kept | own, "TreeEnsembleRegressor", rows.shape[1], self.double), rows, self.double)

    def margins(self, rows: np.ndarray) -> Any:
        return None

    def outputs(self, rows: np.ndarray) -> Any:
        return run(self.model, rows, self.double).reshape(len(rows), -1)
