"""Read tree ensembles of ONNX-ML: ``TreeEnsembleClassifier`` and ``-Regressor``, and ``TreeEnsemble`` of opset 5.

For models that are deployed as ONNX: a converter changes thresholds, so the file is not the model that it was made of.
A tensor of float32 is compared as float32; one of float64 as float64, with thresholds of ``_as_tensor`` where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.trees.assembly import NODES, OUTPUTS, Tree, assemble
from isonomy.trees.forest import CATEGORY, NUMBER, Category, Column, Forest, Link
from isonomy.trees.onnx_columns import Front
from isonomy.trees.pipelines import folded
from isonomy.trees.source import Source
from isonomy.trees.thresholds import at_most32, below32

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_LEAF = "LEAF"
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_OPERATORS = ("TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble")


def read_onnx_trees(path: Path) -> Forest:
    """Return the forest of the one tree operator of an ONNX file, over the columns of the file's inputs."""
    model = onnx.load_model_from_string(path.read_bytes())
    nodes = (node for node in model.graph.node if node.domain == "ai.onnx.ml")
    operators = [node for node in nodes if node.op_type in _OPERATORS]
    if len(operators) != 1:
        raise UnsupportedOperationError(f"it holds {len(operators)} tree operators; files with one can be read.")
    front = _front(model.graph, operators[0].input[0])
    names, double = _inputs(model.graph, operators[0].input[0]) if front is None else (front[0], False)
    given = {each.name: _plain(helper.get_attribute_value(each)) for each in operators[0].attribute}
    ensemble = _Ensemble(given, len(names), double)
    plain = operators[0].op_type != "TreeEnsemble"
    trees = (
        ensemble.listed("class" if "Classifier" in operators[0].op_type else "target") if plain else ensemble.indexed()
    )
    trees, about = ensemble.outputs(trees, operators[0].op_type)
    version = next((each.version for each in model.opset_import if each.domain == "ai.onnx.ml"), 1)
    forest = assemble(
        trees,
        ensemble.columns(names),
        library=f"ONNX {operators[0].op_type}",
        version=f"ai.onnx.ml {version}, {model.producer_name} {model.producer_version}".rstrip(),
        unit=2.0**-24,
        **about,
    )
    return forest if front is None else folded(forest, front[1], front[2])


def _front(graph: onnx.GraphProto, name: str) -> tuple[list[str], list[Source], list[str]] | None:
    """Return names of the columns at a tensor, these as made of raw ones, and names of those; None where it is one of
    the file's inputs, or some of them side by side, in their order."""
    made = {output: node for node in graph.node for output in node.output}
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    parts = made[name].input if name in made and made[name].op_type == "Concat" else [name]
    if list(parts) == [each.name for each in graph.input if each.name in parts]:
        return None
    names, columns = Front(graph).raw(name)
    return [f"f{i}" for i in range(len(columns))], columns, names


def _plain(value: Any) -> Any:
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return [each.decode() for each in value]
    return value


def _inputs(graph: onnx.GraphProto, name: str) -> tuple[list[str], bool]:
    """Return the names of the columns that arrive at a tensor, and whether they are float64."""
    made = {output: node for node in graph.node for output in node.output}
    sources = {each.name: each.type.tensor_type for each in graph.input}
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    parts = [name]
    if name in made:
        if made[name].op_type != "Concat":
            raise UnsupportedOperationError(
                f"the operator {made[name].op_type} stands in front of the trees; only a Concat of inputs is read."
            )
        parts = list(made[name].input)
    names: list[str] = []
    kinds = set()
    for part in parts:
        if part not in sources:
            raise UnsupportedOperationError(f"'{part}' in front of the trees is not an input of the file.")
        shape = sources[part].shape.dim
        width = int(shape[1].dim_value) if len(shape) == 2 else 0
        if not 0 < width < 2**20:
            raise NetworkError(f"the input '{part}' does not say how many columns it has.")
        names += [part] if width == 1 and len(parts) > 1 else [f"f{len(names) + i}" for i in range(width)]
        kinds.add(sources[part].elem_type)
    if kinds not in ({TensorProto.FLOAT}, {TensorProto.DOUBLE}):
        raise UnsupportedOperationError("the trees read a tensor that is neither of float32 nor of float64.")
    return names, kinds == {TensorProto.DOUBLE}


class _Ensemble:
    """The attributes of a tree operator, as trees."""

    def __init__(self, given: Mapping[str, Any], width: int, double: bool) -> None:
        self.given, self.width, self.double = given, width, double
        self.members: dict[int, set[float]] = {}  # values that a column is compared with for equality

    def numbers(self, name: str, kind: Any = np.float64) -> Any:
        """Return an attribute as an array; the tensor of doubles counts where there is one."""
        tensor = self.given.get(f"{name}_as_tensor")
        return np.asarray(self.given.get(name, []) if tensor is None else tensor).astype(kind).reshape(-1)

    def columns(self, names: list[str]) -> list[Column]:
        """Return the columns, of which those that are compared for equality hold categories."""
        coding = "label" if self.double else "single"
        return [
            Column(name, tuple(sorted(self.members[i])), coding, "side") if i in self.members else Column(name)  # type: ignore[arg-type]
            for i, name in enumerate(names)
        ]

    def listed(self, kind: str) -> list[Tree]:
        """Return the trees of nodes that have numbers, with leaves of several outputs in a list of their own."""
        tree_ids, node_ids = self.numbers("nodes_treeids", np.int64), self.numbers("nodes_nodeids", np.int64)
        size = len(tree_ids)
        if not 0 < size <= NODES or len(node_ids) != size:
            raise NetworkError("its list of nodes is empty, too long, or not of one length.")
        place = {pair: i for i, pair in enumerate(zip(tree_ids.tolist(), node_ids.tolist(), strict=True))}
        if len(place) < size:
            raise NetworkError("two nodes of a tree have the same number.")
        modes = list(self.given["nodes_modes"])
        leaf = np.array([mode == _LEAF for mode in modes])
        true, false = (self.numbers(f"nodes_{side}nodeids", np.int64) for side in ("true", "false"))
        feature, values = self.numbers("nodes_featureids", np.int64), self.numbers("nodes_values")
        tracks = self.numbers("nodes_missing_value_tracks_true", np.int64)
        tracks = tracks if len(tracks) else np.zeros(size, dtype=np.int64)
        if any(len(each) != size for each in (modes, true, false, feature, values, tracks)):
            raise NetworkError("its lists of nodes are not of one length.")
        ends = self.weights(kind, place, size)
        starts = np.flatnonzero(np.concatenate([[True], tree_ids[1:] != tree_ids[:-1]]))
        if len(starts) != len(set(tree_ids.tolist())):
            raise NetworkError("the nodes of a tree do not follow each other.")
        trees = []
        for start, stop in zip(starts, [*starts[1:], size], strict=True):
            rows = range(start, stop)
            tree = int(tree_ids[start])
            children = [
                [-1 if leaf[i] else place.get((tree, int(side[i])), 2**31 + start) - start for i in rows]
                for side in (true, false)
            ]
            own = slice(start, stop)
            made = self.tests([modes[i] for i in rows], feature[own], values[own], tracks[own] != 0, children)
            trees.append(Tree(**made, value=ends[own], leaf=node_ids[own]))
        return self.settled(trees)

    def weights(self, kind: str, place: dict[tuple[int, int], int], size: int) -> Any:
        """Return the values of every node for every output."""
        names = (f"{kind}_treeids", f"{kind}_nodeids", f"{kind}_ids")
        trees, nodes, outputs = (self.numbers(each, np.int64) for each in names)
        weights = self.numbers(f"{kind}_weights")
        count = self.count(kind)
        if not len(trees) == len(nodes) == len(outputs) == len(weights) or ((outputs < 0) | (outputs >= count)).any():
            raise NetworkError("its list of leaves is not of one length, or names an output that is not there.")
        table = np.zeros((size, count))
        for tree, node, output, weight in zip(trees, nodes, outputs, weights, strict=True):
            row = place.get((int(tree), int(node)))
            if row is None:
                raise NetworkError(f"tree {tree}, node {node}: a leaf's value belongs to no node.")
            table[row, output] += weight
        return table

    def count(self, kind: str) -> int:
        """Return the number of outputs."""
        count = int(self.given.get("n_targets", 1)) if kind == "target" else max(1, len(self.classes()))
        if not 0 < count <= OUTPUTS:
            raise NetworkError(f"it has {count:,} outputs; from 1 to {OUTPUTS:,} can be read.")
        return count

    def classes(self) -> tuple[Category, ...]:
        """Return the names of classes."""
        numbers = self.given.get("classlabels_int64s")
        return tuple(map(float, numbers)) if numbers else tuple(self.given.get("classlabels_strings", ()))

    def indexed(self) -> list[Tree]:
        """Return the trees of opset 5: inner nodes and leaves in two lists, children by their place."""
        modes = [_MODES[int(each)] for each in self.numbers("nodes_modes", np.int64)]
        feature, splits = self.numbers("nodes_featureids", np.int64), self.numbers("nodes_splits")
        tracks = self.numbers("nodes_missing_value_tracks_true", np.int64)
        tracks = tracks if len(tracks) else np.zeros(len(modes), dtype=np.int64)
        sides = [(self.numbers(f"nodes_{side}nodeids", np.int64), self.numbers(f"nodes_{side}leafs", np.int64) != 0)
                 for side in ("true", "false")]  # fmt: skip
        weights, targets = self.numbers("leaf_weights"), self.numbers("leaf_targetids", np.int64)
        count = self.count("target")
        if (
            any(len(each) != len(modes) for pair in sides for each in pair)
            or ((targets < 0) | (targets >= count)).any()
        ):
            raise NetworkError("its lists of nodes are not of one length, or a leaf names an output that is not there.")
        members = self.memberships(modes)
        trees: list[Tree] = []
        seen = 0
        for root in self.numbers("tree_roots", np.int64).tolist():
            nodes: list[tuple[int, bool]] = []
            children: list[list[int]] = [[], []]
            waiting: list[tuple[int, bool, int, int]] = [(root, False, -1, 0)]
            while waiting:
                at, ends, parent, side = waiting.pop(0)
                limit = len(weights) if ends else len(modes)
                seen += 1
                if not 0 <= at < limit or seen > 4 * (len(modes) + len(weights)) + 4:
                    raise NetworkError(
                        f"tree {len(trees)}, node {at}: a child is not there, or nodes lead in a circle."
                    )
                if parent >= 0:
                    children[side][parent] = len(nodes)
                if not ends:
                    waiting += [
                        (int(ids[at]), bool(is_leaf[at]), len(nodes), k) for k, (ids, is_leaf) in enumerate(sides)
                    ]
                nodes.append((at, ends))
                for each in children:
                    each.append(-1)
            value = np.zeros((len(nodes), count))
            for row, (at, ends) in enumerate(nodes):
                if ends:
                    value[row, targets[at]] = weights[at]
            own = [0 if ends else at for at, ends in nodes]
            asked = [_LEAF if ends else modes[at] for at, ends in nodes]
            sets = {row: members.get(at, ()) for row, at in enumerate(own)}
            made = self.tests(asked, feature[own], splits[own], tracks[own] != 0, children, sets)
            trees.append(Tree(**made, value=value, leaf=np.array([at for at, _ in nodes])))
        return self.settled(trees)

    def memberships(self, modes: list[str]) -> dict[int, Any]:
        """Return the values of each set, by node: lists that NaN separates."""
        values = self.numbers("membership_values")
        sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1) if len(values) else []
        nodes = [i for i, mode in enumerate(modes) if mode == "BRANCH_MEMBER"]
        if len(sets) < len(nodes):
            raise NetworkError("a set of values is not there.")
        return {node: each[~np.isnan(each)] for node, each in zip(nodes, sets, strict=False)}

    def tests(
        self,
        modes: list[str],
        feature: Any,
        split: Any,
        tracks: Any,
        children: Any,
        members: Mapping[int, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the tests of one tree in the form of :class:`Tree`; sets hold values until all columns are known."""
        strange = next((mode for mode in modes if mode not in (*_MODES, _LEAF)), None)
        if strange is not None:
            raise UnsupportedOperationError(f"the mode '{strange}' has no reader.")
        mode = np.array(modes)
        exact = split if self.double else split.astype(np.float32).astype(np.float64)
        up_to, below = (at_most32(exact), below32(exact)) if not self.double else (exact, np.nextafter(exact, -np.inf))
        strict = np.isin(mode, ("BRANCH_LT", "BRANCH_GTE"))
        swapped = np.isin(mode, ("BRANCH_GTE", "BRANCH_GT"))
        chosen = np.isin(mode, ("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER"))
        sets = {}
        for node in np.flatnonzero(chosen):
            own = (members or {}).get(int(node), ()) if modes[node] == "BRANCH_MEMBER" else (exact[node],)
            sets[int(node)] = tuple(map(float, own))
            if 0 <= feature[node] < self.width:
                self.members.setdefault(int(feature[node]), set()).update(sets[int(node)])
        true, false = (np.array(side, dtype=np.int64) for side in children)
        differs = mode == "BRANCH_NEQ"  # NaN differs from every number
        return {
            "feature": feature,
            "threshold": np.where(chosen, 0.0, np.where(strict, below, up_to)),
            "left": np.where(swapped, false, true),
            "right": np.where(swapped, true, false),
            "missing_left": np.where(swapped, ~tracks, tracks | differs),
            "unseen_left": differs,
            "kind": np.where(chosen, CATEGORY, NUMBER),
            "sets": sets | {int(node): (*sets[int(node)], None) for node in np.flatnonzero(differs)},
        }

    def settled(self, trees: list[Tree]) -> list[Tree]:
        """Return the trees with sets as positions among the values that a column is compared with."""
        order = {column: {value: i for i, value in enumerate(sorted(each))} for column, each in self.members.items()}
        for tree in trees:
            for node, own in tree.sets.items():
                places = order.get(int(tree.feature[node]), {})
                inside = {places[value] for value in own if value in places}
                tree.sets[node] = sorted(set(places.values()) - inside if None in own else inside)
        return trees

    def outputs(self, trees: list[Tree], operator: str) -> tuple[list[Tree], dict[str, Any]]:
        """Return the trees and what their sums mean."""
        transform, aggregate = self.given.get("post_transform", "NONE"), self.given.get("aggregate_function", "SUM")
        transform = transform if isinstance(transform, str) else _TRANSFORMS[transform]
        aggregate = aggregate if isinstance(aggregate, str) else _AGGREGATES[aggregate]
        if transform not in _TRANSFORMS[:3] or aggregate not in ("SUM", "AVERAGE"):
            raise UnsupportedOperationError(f"'{transform}' of a sum of kind '{aggregate}' has no reader.")
        width = trees[0].value.shape[1]
        base = self.numbers("base_values")
        classifier = operator == "TreeEnsembleClassifier"
        classes = self.classes() if classifier else ()
        positive = all((tree.value >= 0).all() for tree in trees)
        link: Link = {"NONE": "identity", "SOFTMAX": "softmax", "LOGISTIC": "one-vs-rest"}[transform]  # type: ignore[assignment]
        single = classifier and width == 2 and len(set(self.numbers("class_ids").tolist())) == 1
        if single and transform == "SOFTMAX":
            raise UnsupportedOperationError("a softmax of the scores of one of two classes has no reader.")
        if single:  # two classes, one of which has scores: they are those of the second
            first = float(base[0]) if len(base) else 0.0
            scores = [tree.value.sum(axis=1, keepdims=True) for tree in trees]
            mirrored = transform == "NONE"
            for tree, score in zip(trees, scores, strict=True):
                tree.value = np.column_stack([-score, score]) if mirrored else score
            base = np.array([float(positive) - first, first] if mirrored else [first])
            link = ("probability" if positive else "identity") if mirrored else "logistic"
            width = len(base)
        elif classifier and transform == "NONE" and positive:
            link = "probability"
        base = np.broadcast_to(base if len(base) else np.zeros(1), (width,)).astype(np.float64)
        for tree in trees:
            tree.output = 0 if width == 1 else -1
        count = float(len(trees)) if aggregate == "AVERAGE" else 1.0
        about = {"base": base * count, "divisor": count, "link": link, "classes": classes}
        return trees, about | {"base_error": float(np.abs(base).max()) * count * 2.0**-22 if count > 1 else 0.0}
