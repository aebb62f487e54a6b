"""Read XGBoost models: JSON, UBJ, and live boosters through their own dump.

A test is ``float32(x) < t``; a category in the list of a node goes right; a missing value follows ``default_left``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.trees.assembly import OUTPUTS, Rounds, Tree, assemble, rounds_used
from isonomy.trees.forest import CATEGORY, NUMBER, Category, Column, Forest, Link
from isonomy.trees.thresholds import below32

_LINKS: dict[str, Link] = {
    **dict.fromkeys(("binary:logistic", "reg:logistic"), "logistic"),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), "softmax"),
    **dict.fromkeys(("reg:squarederror", "reg:squaredlogerror", "reg:absoluteerror"), "identity"),
    **dict.fromkeys(("reg:pseudohubererror", "reg:quantileerror", "reg:expectileerror"), "identity"),
    **dict.fromkeys(("binary:logitraw", "rank:pairwise", "rank:ndcg", "rank:map"), "identity"),
    **dict.fromkeys(("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox"), "exponential"),
}
_SUCCESSOR = ((3, 1), (3, 2))


def read_xgboost(content: Any, trees: Rounds = None) -> Forest:
    """Return the forest of a parsed model file."""
    learner = content["learner"]
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise UnsupportedOperationError(
            f"the booster '{booster['name']}' cannot be read: its predictions are not a plain sum of trees; train "
            "with booster='gbtree'."
        )
    version = tuple(int(each) for each in content["version"])
    model, objective = booster["model"], learner["objective"]["name"]
    link = _LINKS.get(objective)
    if link is None:
        raise UnsupportedOperationError(f"the objective '{objective}' has no reader; known are {', '.join(_LINKS)}.")
    columns = _columns(learner, model, version)
    param = learner["learner_model_param"]
    count = max(1, int(param.get("num_class", 0)), int(param.get("num_target", 1)))
    if count > OUTPUTS:
        raise NetworkError(f"it has {count:,} outputs, more than can be read.")
    stored = model["trees"]
    per_round = _per_round(model, count)
    best = learner.get("attributes", {}).get("best_iteration")
    used = rounds_used(trees, len(per_round) - 1, None if best is None else int(best) + 1)
    info = model["tree_info"]
    read = [_tree(stored[i], int(info[i]), columns) for i in range(per_round[used])]
    given = np.atleast_1d(np.asarray(json.loads(str(param["base_score"])), dtype=np.float32))
    base = np.broadcast_to(_margin(given, link), (count,)).astype(np.float64)
    notes = _notes(learner, columns, version)
    return assemble(
        read,
        columns,
        base=base,
        base_error=float(np.abs(base).max()) * 2.0**-20 + 2.0**-22 if link in ("logistic", "exponential") else 0.0,
        link=link,
        library="XGBoost",
        version=".".join(map(str, version)),
        rounds_used=used,
        rounds_stored=len(per_round) - 1,
        unit=2.0**-24,
        notes=notes,
    )


def _per_round(model: Mapping[str, Any], outputs: int) -> list[int]:
    """Return the number of trees before each round, and of all."""
    total = len(model["trees"])
    if "iteration_indptr" in model:
        ends = [int(each) for each in model["iteration_indptr"]]
        if ends[:1] == [0] and ends[-1] == total and all(a < b for a, b in pairwise(ends)):
            return ends
        raise NetworkError("its list of boosting rounds does not fit its trees.")
    step = outputs * int(model["gbtree_model_param"].get("num_parallel_tree", 1))
    return list(range(0, total + 1, max(1, step)))


def _margin(base: Any, link: Link) -> Any:
    """Return the raw output of a model without trees, in float32 as the library has it."""
    with np.errstate(all="ignore"):
        if link == "logistic":
            margin = -np.log(np.float32(1) / base - np.float32(1))
        else:
            margin = np.log(base) if link == "exponential" else base
    if not np.isfinite(margin).all():
        raise NetworkError(f"'base_score' {base.tolist()} gives no finite output.")
    return margin


def _tree(tree: Mapping[str, Any], output: int, columns: tuple[Column, ...]) -> Tree:
    if int(tree["tree_param"].get("size_leaf_vector", 1) or 1) > 1:
        raise UnsupportedOperationError(
            "trees with several outputs cannot be read; use multi_strategy='one_output_per_tree'."
        )
    conditions = np.asarray(tree["split_conditions"], dtype=np.float32)
    left = np.asarray(tree["left_children"], dtype=np.int64)
    feature = np.asarray(tree["split_indices"], dtype=np.int64)
    split_type = np.asarray(tree.get("split_type", np.zeros(len(left))), dtype=np.int64)
    kind = np.where((split_type == 1) & (left >= 0), CATEGORY, NUMBER)
    sets: dict[int, Any] = {}
    listed = np.asarray(tree.get("categories", []), dtype=np.int64)
    segments = zip(*(tree.get(f"categories_{name}", []) for name in ("nodes", "segments", "sizes")), strict=True)
    for node, start, size in segments:
        if 0 <= node < len(left) and 0 <= feature[node] < len(columns):
            right = listed[int(start) : int(start) + int(size)]
            known = len(columns[feature[node]].categories)
            sets[int(node)] = np.setdiff1d(np.arange(known), right)
    return Tree(
        feature=feature,
        threshold=np.where(np.isnan(conditions), np.nan, below32(conditions)),
        left=left,
        right=np.asarray(tree["right_children"], dtype=np.int64),
        value=conditions,
        missing_left=np.asarray(tree["default_left"], dtype=np.int64) != 0,
        kind=kind,
        unseen_left=True,
        output=output,
        sets=sets,
    )


def _columns(learner: Mapping[str, Any], model: Mapping[str, Any], version: tuple[int, ...]) -> tuple[Column, ...]:
    width = int(learner["learner_model_param"]["num_feature"])
    if width > 2**20:
        raise NetworkError(f"it has {width:,} columns, more than can be read.")
    names = list(map(str, learner.get("feature_names", []))) or [f"f{i}" for i in range(width)]
    types = list(learner.get("feature_types", [])) or ["float"] * width
    if len(names) != width or len(types) != width:
        raise NetworkError(f"it names {len(names)} columns, but reads {width}.")
    known = model.get("cats", {}).get("enc", [])
    highest = _highest_codes(model, width)
    columns = []
    for i, (name, kind) in enumerate(zip(names, types, strict=True)):
        labels = _labels(known[i]) if i < len(known) else ()
        if kind != "c" and i not in highest:
            columns.append(Column(name))
        elif labels:
            unseen = "successor" if version[:2] in _SUCCESSOR else "refused"
            columns.append(Column(name, labels, "label", unseen))  # type: ignore[arg-type]
        else:
            columns.append(Column(name, tuple(map(float, range(highest.get(i, 0) + 1))), "code", "side"))
    return tuple(columns)


def _labels(encoded: Mapping[str, Any]) -> tuple[Category, ...]:
    """Return the categories of one column: texts by their bytes and ends, or numbers."""
    if "offsets" not in encoded:
        return tuple(float(each) for each in encoded["values"])
    data = bytes(int(each) & 0xFF for each in encoded["values"])
    ends = [int(each) for each in encoded["offsets"]]
    return tuple(data[a:b].decode() for a, b in pairwise(ends))


def _highest_codes(model: Mapping[str, Any], width: int) -> dict[int, int]:
    """Return the largest category that any test of a column names: without a list of names these are all it knows."""
    highest: dict[int, int] = {}
    for tree in model["trees"]:
        listed = tree.get("categories", [])
        for node, start, size in zip(
            *(tree.get(f"categories_{name}", []) for name in ("nodes", "segments", "sizes")), strict=True
        ):
            column = int(tree["split_indices"][int(node)])
            codes = [int(each) for each in listed[int(start) : int(start) + int(size)]]
            if not 0 <= column < width or any(not 0 <= code < 2**16 for code in codes):
                raise NetworkError(f"a set of categories at node {int(node)} names what cannot be.")
            highest[column] = max(highest.get(column, 0), *codes, 0)
    return highest


def _notes(learner: Mapping[str, Any], columns: tuple[Column, ...], version: tuple[int, ...]) -> tuple[str, ...]:
    notes = ["The file does not say which number stands for a missing value; NaN is taken."]
    if not learner.get("feature_names"):
        notes.append("The file has no names of columns.")
    if any(each.coding == "code" for each in columns):
        notes.append("The file has no names of categories: their codes are meant.")
    if any(each.unseen == "successor" for each in columns):
        notes.append(f"XGBoost {version[0]}.{version[1]} scores an unseen category as its alphabetical successor.")
    return tuple(notes)


def content_of_live(model: Any) -> tuple[Any, dict[str, Any]]:
    """Return the parsed dump of a Booster or of a fitted XGBClassifier or XGBRegressor, and its classes."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    missing = getattr(model, "missing", None)
    if missing is not None and missing == missing:
        raise UnsupportedOperationError(
            f"missing={missing} makes a number count as missing: write NaN into the table, and fit with missing=nan."
        )
    return json.loads(bytes(booster.save_raw("json"))), {}
