"""Read CatBoost models: JSON, and live ones through their own dump.

A test is ``float32(x) > border`` or "has this category", whose text is known by its hash; both go right. An oblivious
tree asks one question a level, the first one for the lowest bit of the leaf's number.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.trees.assembly import Rounds, Tree, assemble, rounds_used
from isonomy.trees.forest import CATEGORY, NUMBER, Column, Forest, Link
from isonomy.trees.thresholds import at_most32

_LINKS: dict[str, Link] = {
    **dict.fromkeys(("Logloss", "CrossEntropy"), "logistic"),
    "MultiClass": "softmax",
    **dict.fromkeys(("MultiClassOneVsAll", "MultiLogloss", "MultiCrossEntropy"), "one-vs-rest"),
    **dict.fromkeys(("Poisson", "Tweedie"), "exponential"),
    **dict.fromkeys(("RMSE", "MAE", "Quantile", "MultiQuantile", "MAPE", "Huber", "Expectile", "Lq"), "identity"),
    **dict.fromkeys(("LogCosh", "MultiRMSE", "PairLogit", "YetiRank", "QueryRMSE", "QuerySoftMax"), "identity"),
}
_DEEPEST = 16  # of an oblivious tree, which has as many leaves as two to its depth


def read_catboost(content: Any, trees: Rounds = None) -> Forest:
    """Return the forest of a parsed model file."""
    places, columns = _columns(content["features_info"])
    info = content.get("model_info", {})
    loss = str(info.get("params", {}).get("loss_function", {}).get("type", ""))
    if loss not in _LINKS:
        raise UnsupportedOperationError(f"the loss '{loss}' has no reader; known are {', '.join(_LINKS)}.")
    scale, bias = content.get("scale_and_bias", [1, [0]])
    base = np.atleast_1d(np.asarray(bias, dtype=np.float64))
    oblivious = "oblivious_trees" in content
    stored = content["oblivious_trees"] if oblivious else content["trees"]
    used = rounds_used(trees, len(stored), None)
    reader = _Trees(places, columns, len(base), _gaps_right(content["features_info"]))
    read = [(reader.oblivious if oblivious else reader.nested)(each) for each in stored[:used]]
    for tree in read:
        tree.value = tree.value * float(scale)
    version = re.search(r"release (\d[\d.]*\d)|tags/v(\d[\d.]*\d)", str(info.get("catboost_version_info", "")))
    hashed = any(each.coding == "hash" for each in columns)
    return assemble(
        read,
        columns,
        base=base,
        link=_LINKS[loss],
        library="CatBoost",
        version=(version[1] or version[2]) if version else "unknown",
        classes=tuple(info.get("class_params", {}).get("class_names", ())),
        rounds_used=used,
        rounds_stored=len(stored),
        notes=("The file has hashes of categories in place of their names.",) if hashed else (),
    )


def _columns(info: Mapping[str, Any]) -> tuple[dict[tuple[str, int], int], tuple[Column, ...]]:
    """Return the place of each number and category feature among all columns, and the columns."""
    strange = next((name for name in ("text_features", "embedding_features") if info.get(name)), None)
    if strange:
        raise UnsupportedOperationError(f"'{strange}' cannot be read; numbers and categories can.")
    places: dict[tuple[str, int], int] = {}
    columns: dict[int, Column] = {}
    for each in info.get("float_features", []):
        place = int(each["flat_feature_index"])
        places["float", int(each["feature_index"])] = place
        columns[place] = Column(str(each.get("feature_id") or place))
    for each in info.get("categorical_features", []):
        place = int(each["flat_feature_index"])
        places["cat", int(each["feature_index"])] = place
        hashes = tuple(map(float, each.get("values", [])))
        columns[place] = Column(str(each.get("feature_id") or place), hashes, "hash", "side", missing=False)
    if sorted(columns) != list(range(len(columns))):
        raise NetworkError("its columns are not numbered one after the other.")
    return places, tuple(columns[i] for i in range(len(columns)))


def _gaps_right(info: Mapping[str, Any]) -> frozenset[int]:
    """Return the columns whose missing values count as larger than every border."""
    features = info.get("float_features", [])
    return frozenset(int(each["flat_feature_index"]) for each in features if each["nan_value_treatment"] == "AsTrue")


class _Trees:
    """What the trees of a model have in common."""

    def __init__(
        self, places: dict[tuple[str, int], int], columns: tuple[Column, ...], width: int, gaps_right: frozenset[int]
    ) -> None:
        self.places, self.columns, self.width, self.gaps_right = places, columns, width, gaps_right

    def oblivious(self, tree: Mapping[str, Any]) -> Tree:
        """Return a tree that asks the same question everywhere on a level."""
        splits = list(tree.get("splits") or [])[::-1]  # the last one decides the highest bit: it comes first
        depth, inner = len(splits), 2 ** min(len(splits), _DEEPEST) - 1
        if depth > _DEEPEST:
            raise NetworkError(f"a tree asks {depth} questions; at most {_DEEPEST} can be read.")
        values = np.asarray(tree["leaf_values"], dtype=np.float64).reshape(-1)
        if len(values) != (inner + 1) * self.width:
            raise NetworkError(
                f"a tree of {depth} questions has {len(values)} values in place of {(inner + 1) * self.width}."
            )
        nodes = np.arange(inner)
        asked = [self._question(each) for each in splits]
        level = np.log2(nodes + 1).astype(np.int64)
        sets = {int(node): asked[at][3] for node, at in enumerate(level) if asked[at][1] == CATEGORY}
        size = 2 * inner + 1
        made = _empty(size, self.width)
        for name, part in zip(("feature", "kind", "threshold"), range(3), strict=True):
            made[name][:inner] = [asked[at][part] for at in level]
        made["missing_left"][:inner] = [asked[at][4] for at in level]
        made["left"][:inner], made["right"][:inner] = 2 * nodes + 1, 2 * nodes + 2
        made["leaf"][inner:] = np.arange(inner + 1)
        made["value"][inner:] = values.reshape(-1, self.width)
        return Tree(**made, unseen_left=True, output=0 if self.width == 1 else -1, sets=sets)

    def nested(self, tree: Mapping[str, Any]) -> Tree:
        """Return a tree whose nodes hold each other; leaves are numbered from left to right."""
        nodes: list[Mapping[str, Any]] = []
        waiting: list[tuple[Mapping[str, Any], int, str]] = [(tree, -1, "left")]
        children: dict[tuple[int, str], int] = {}
        while waiting:
            node, parent, side = waiting.pop()
            if parent >= 0:
                children[parent, side] = len(nodes)
            if "split" in node:  # the left one is taken next
                waiting += [(node["right"], len(nodes), "right"), (node["left"], len(nodes), "left")]
            nodes.append(node)
        made = _empty(len(nodes), self.width)
        sets, leaves = {}, 0
        for i, node in enumerate(nodes):
            if "split" not in node:
                made["value"][i], made["leaf"][i] = np.asarray(node["value"], dtype=np.float64), leaves
                leaves += 1
                continue
            feature, kind, threshold, members, missing_left = self._question(node["split"])
            made["feature"][i], made["kind"][i], made["threshold"][i] = feature, kind, threshold
            made["missing_left"][i] = missing_left
            made["left"][i], made["right"][i] = children[i, "left"], children[i, "right"]
            if kind == CATEGORY:
                sets[i] = members
        return Tree(**made, unseen_left=True, output=0 if self.width == 1 else -1, sets=sets)

    def _question(self, split: Mapping[str, Any]) -> tuple[int, int, float, Any, bool]:
        """Return column, kind, threshold, the categories that go left, and whether a missing value does."""
        kind = split["split_type"]
        if kind == "FloatFeature":
            place = self.places["float", int(split["float_feature_index"])]
            return place, NUMBER, float(at_most32(split["border"])), None, place not in self.gaps_right
        if kind == "OneHotFeature":
            place = self.places["cat", int(split["cat_feature_index"])]
            hashes = self.columns[place].categories
            return place, CATEGORY, 0.0, [i for i, each in enumerate(hashes) if each != split["value"]], True
        raise UnsupportedOperationError(
            f"a split of type '{kind}' cannot be read: it compares statistics of categories, which the model keeps as "
            "sums; train with one_hot_max_size at least as large as the number of categories."
        )


def _empty(size: int, width: int) -> dict[str, Any]:
    """Return the arrays of a tree of leaves."""
    whole = {name: np.full(size, -1, dtype=np.int64) for name in ("feature", "left", "right", "leaf")}
    return whole | {
        "kind": np.zeros(size, dtype=np.int8),
        "threshold": np.zeros(size),
        "missing_left": np.zeros(size, dtype=np.bool_),
        "value": np.zeros((size, width)),
    }


def content_of_live(model: Any) -> Any:
    """Return the parsed dump of a fitted CatBoost model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return json.loads(path.read_text(encoding="utf-8"))
