"""Read LightGBM models: the text format, and live boosters through their own dump.

Before a comparison, numbers of size at most 1e-35 become 0, and so does NaN unless a node counts it as missing. In a
test of categories NaN, negative numbers and unseen categories go right.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import FileError, NetworkError, UnsupportedOperationError
from isonomy.trees.assembly import Rounds, Tree, assemble, rounds_used
from isonomy.trees.forest import CATEGORY, NUMBER, NUMBER_NOT_ZERO, ZERO, Column, Forest, Link

_LINKS: dict[str, Link] = {
    **dict.fromkeys(("binary", "cross_entropy"), "logistic"),
    "multiclass": "softmax",
    "multiclassova": "one-vs-rest",
    **dict.fromkeys(("poisson", "gamma", "tweedie"), "exponential"),
    **dict.fromkeys(("regression", "regression_l1", "huber", "fair", "quantile", "mape"), "identity"),
    **dict.fromkeys(("lambdarank", "rank_xendcg"), "identity"),
}
_FORMATS = ("v3", "v4")
_IN_SET, _DEFAULT_LEFT = 1, 2  # bits of decision_type; the two above are the type of missing values
_ZERO, _NAN = 1, 2


def read_lightgbm(text: str, trees: Rounds = None, best: int | None = None) -> Forest:
    """Return the forest of the text of a model; ``best`` is the number of rounds that a live booster's predict uses."""
    head, *blocks = re.split(r"^Tree=\d+$", text, flags=re.MULTILINE)
    about = _lines(head)
    if about.get("version") not in _FORMATS:
        raise FileError(f"its format is {about.get('version', 'unknown')}; {' and '.join(_FORMATS)} can be read.")
    if not blocks or "end of trees" not in blocks[-1]:
        raise FileError("its list of trees is cut off.")
    blocks[-1] = blocks[-1].split("end of trees")[0]
    outputs = int(about["num_tree_per_iteration"])
    link, scale = _link(about)
    if outputs < 1 or len(blocks) % outputs:
        raise NetworkError(f"its {len(blocks)} trees do not fill rounds of {outputs}.")
    used = rounds_used(trees, len(blocks) // outputs, best)
    parts = [_lines(block) for block in blocks[: used * outputs]]
    columns = _columns(about, parts, text)
    read = [_tree(part, number % outputs, columns) for number, part in enumerate(parts)]
    average = "average_output" in head.split()
    notes = [] if about.get("objective") else ["The file names no objective: raw outputs are taken as they are."]
    if any(each.coding == "whole" for each in columns):
        notes.append("The file has no names of categories: their codes are meant.")
    return assemble(
        read,
        columns,
        base=np.zeros(outputs),
        link=link,
        link_scale=scale,
        divisor=float(used) if average else 1.0,
        library="LightGBM",
        version=str(about["version"]),
        rounds_used=used,
        rounds_stored=len(blocks) // outputs,
        notes=tuple(notes),
    )


def _lines(block: str) -> dict[str, str]:
    return {key: value for key, sign, value in (line.partition("=") for line in block.splitlines()) if sign}


def _link(about: dict[str, str]) -> tuple[Link, float]:
    """Return what raw outputs mean, and the factor of a sigmoid."""
    name, *options = about.get("objective", "").split() or ["none"]
    given = dict(option.partition(":")[::2] for option in options)
    if name in ("none", "custom"):
        return "identity", 1.0
    if name not in _LINKS or "sqrt" in options:
        sqrt = " with reg_sqrt" if "sqrt" in options else ""
        raise UnsupportedOperationError(f"the objective '{name}'{sqrt} has no reader; known are {', '.join(_LINKS)}.")
    scaled = name in ("binary", "multiclassova")
    return _LINKS[name], float(given.get("sigmoid", 1.0)) if scaled else 1.0


def _columns(about: dict[str, str], trees: list[dict[str, str]], text: str) -> tuple[Column, ...]:
    names = about["feature_names"].split()
    if len(names) != int(about["max_feature_idx"]) + 1:
        raise NetworkError(f"it names {len(names)} columns, but reads {int(about['max_feature_idx']) + 1}.")
    listed = re.search(r"^pandas_categorical:(.*)$", text, flags=re.MULTILINE)
    labels = (json.loads(listed[1]) if listed else None) or []
    chosen = _categorical(about, text, len(names))
    if labels and len(labels) != len(chosen):
        raise NetworkError(f"it lists categories of {len(labels)} columns, but {len(chosen)} hold categories.")
    highest = _highest_codes(trees)
    columns = [Column(name) for name in names]
    for number, i in enumerate(sorted(chosen | set(highest))):
        if labels and i in chosen:
            known = tuple(each if isinstance(each, str) else float(each) for each in labels[number])
            columns[i] = Column(names[i], known, "label", "missing")
        else:
            columns[i] = Column(names[i], tuple(map(float, range(highest.get(i, 0) + 1))), "whole", "side")
    return tuple(columns)


def _categorical(about: dict[str, str], text: str, width: int) -> set[int]:
    """Return the columns of categories: those whose range is a list with colons, and those that a parameter names."""
    ranges = about.get("feature_infos", "").split()
    chosen = {i for i, each in enumerate(ranges) if each != "none" and not each.startswith("[")}
    named = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, flags=re.MULTILINE)
    return chosen | {int(each) for each in (named[1].split(",") if named else ()) if each and int(each) < width}


def _numbers(part: dict[str, str], key: str, kind: Any = np.float64) -> NDArray[Any]:
    return np.array(part.get(key, "").split(), dtype=kind)


def _sets(part: dict[str, str]) -> dict[int, NDArray[np.int64]]:
    """Return the categories that go left, by node."""
    ends, words = _numbers(part, "cat_boundaries", np.int64), _numbers(part, "cat_threshold", np.uint32)
    kinds, places = _numbers(part, "decision_type", np.int64), _numbers(part, "threshold")
    sets = {}
    for node in np.flatnonzero(kinds & _IN_SET):
        at = int(places[node])
        if not 0 <= at < len(ends) - 1 or not 0 <= ends[at] <= ends[at + 1] <= len(words):
            raise NetworkError(f"the set of categories of node {node} is not there.")
        bits = np.unpackbits(words[ends[at] : ends[at + 1]].astype("<u4").view(np.uint8), bitorder="little")
        sets[int(node)] = np.flatnonzero(bits).astype(np.int64)
    return sets


def _highest_codes(trees: list[dict[str, str]]) -> dict[int, int]:
    highest: dict[int, int] = {}
    for part in trees:
        feature = _numbers(part, "split_feature", np.int64)
        for node, members in _sets(part).items():
            column = int(feature[node])
            highest[column] = max(highest.get(column, 0), int(members.max(initial=0)))
    return highest


def _tree(part: dict[str, str], output: int, columns: tuple[Column, ...]) -> Tree:
    if part.get("is_linear", "0").strip() != "0":
        raise UnsupportedOperationError(
            "linear trees cannot be read: their leaves are not constant; use linear_tree=false."
        )
    leaves, splits = int(part["num_leaves"]), int(part["num_leaves"]) - 1
    values = _numbers(part, "leaf_value")
    feature, kinds = _numbers(part, "split_feature", np.int64), _numbers(part, "decision_type", np.int64)
    threshold = _numbers(part, "threshold")
    children = [_numbers(part, f"{side}_child", np.int64) for side in ("left", "right")]
    if (
        splits < 0
        or len(values) != leaves
        or any(len(each) < splits for each in (feature, kinds, threshold, *children))
    ):
        raise NetworkError(f"a tree of {leaves} leaves lacks some of its lines.")
    # inner nodes first, then leaves: child c >= 0 is a node, c < 0 the leaf -c - 1
    left, right = (np.where(each >= 0, each, splits - 1 - each)[:splits] for each in children)
    sets = {}
    for node, members in _sets(part).items():
        known = len(columns[int(feature[node])].categories)
        sets[node] = members[members < known]  # a set may name codes that no category has
    missing = kinds >> 2 & 3
    limit = _zero_rounded(threshold)
    default = (kinds & _DEFAULT_LEFT) != 0
    in_set = (kinds & _IN_SET) != 0
    missing_left = np.where(in_set, False, np.where(missing == 0, limit >= 0, default))
    kind = np.where(in_set, CATEGORY, np.where(missing == _ZERO, NUMBER_NOT_ZERO, NUMBER))
    return Tree(
        feature=np.concatenate([feature[:splits], np.full(leaves, -1)]),
        threshold=np.concatenate([np.where(in_set, 0.0, limit)[:splits], np.zeros(leaves)]),
        left=np.concatenate([left, np.full(leaves, -1)]),
        right=np.concatenate([right, np.full(leaves, -1)]),
        value=np.concatenate([np.zeros(splits), values]),
        missing_left=np.concatenate([missing_left[:splits], np.zeros(leaves, dtype=np.bool_)]),
        kind=np.concatenate([kind[:splits], np.zeros(leaves, dtype=np.int64)]),
        leaf=np.concatenate([np.full(splits, -1), np.arange(leaves)]),
        output=output,
        sets=sets,
    )


def _zero_rounded(threshold: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the threshold for a number as it is, where the library compares 0 instead of numbers up to ``ZERO``."""
    above = np.maximum(threshold, ZERO)  # 0 passes, and so does all that counts as 0
    below = np.minimum(threshold, np.nextafter(-ZERO, -np.inf))
    return np.where(np.isnan(threshold), np.nan, np.where(threshold >= 0, above, below))


def text_of_live(model: Any) -> tuple[str, int | None, tuple[Any, ...]]:
    """Return the text of a Booster or of a fitted LGBMClassifier or LGBMRegressor, its best round, and its classes."""
    booster = getattr(model, "booster_", model)
    best = int(getattr(booster, "best_iteration", -1) or -1)
    classes = tuple(getattr(model, "classes_", ()))
    return booster.model_to_string(num_iteration=-1), best if best > 0 else None, classes
