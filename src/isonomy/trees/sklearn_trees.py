"""Read tree models of scikit-learn: trees, forests, gradient boosting, histogram gradient boosting; live or described.

Trees and forests compare ``float32(x) <= threshold`` with a float64 threshold; histogram boosting compares float64 and
puts its columns of categories first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.errors import NetworkError, UnsupportedOperationError
from isonomy.trees.assembly import Rounds, Tree, assemble, rounds_used
from isonomy.trees.described import kind_of, state_of
from isonomy.trees.forest import CATEGORY, NUMBER, Category, Column, Forest, Link, cell_key
from isonomy.trees.thresholds import at_most32

_FIRST = (1, 3)  # before, leaves held counts of people in place of shares


def is_sklearn_trees(kind: str) -> bool:
    """Say whether ``module.Class`` is a model that :func:`read_sklearn_trees` reads."""
    return kind.startswith("sklearn.") and kind.rpartition(".")[2] in _RULES


def read_sklearn_trees(model: Any, version: str, trees: Rounds = None) -> Forest:
    """Return the forest of a fitted model over its own columns."""
    name = kind_of(model).rpartition(".")[2]
    if version_tuple(version) < _FIRST:
        raise NetworkError(f"it was fitted with scikit-learn {version}; models of 1.3 and newer can be read.")
    forest: Forest = _RULES[name](model, version, trees)
    return forest


def version_tuple(version: str) -> tuple[int, ...]:
    """Return the first two parts of a version."""
    return tuple(int(each) if each.isdecimal() else 0 for each in version.split(".")[:2])


def column_names(model: Any) -> list[str]:
    """Return the names of the columns that a model was fitted on, or f0, f1, …"""
    names = getattr(model, "feature_names_in_", None)
    return [f"f{i}" for i in range(int(model.n_features_in_))] if names is None else list(map(str, names))


def _classes(model: Any) -> tuple[Category, ...]:
    keys = [cell_key(each) for each in getattr(model, "classes_", ())]
    return tuple("" if each is None else each for each in keys)


def _averaged(model: Any, version: str, trees: Rounds) -> Forest:
    """Read one tree, or a forest whose trees are averaged."""
    name = kind_of(model).rpartition(".")[2]
    members = [model] if name.startswith(("DecisionTree", "ExtraTreeC", "ExtraTreeR")) else list(model.estimators_)
    if int(model.n_outputs_) != 1:
        raise UnsupportedOperationError("a model of several outcomes cannot be read; fit one for each.")
    if trees not in (None, "all", len(members)):
        raise NetworkError(f"the average of all {len(members)} trees is the model; 'trees' cannot be {trees!r}.")
    classifies = name.endswith("Classifier")
    read = [_tree(each.tree_, 0 if not classifies else -1) for each in members]
    missing = _takes_missing(model, name, version)
    about: dict[str, Any] = {"classes": _classes(model)} if classifies else {}
    outputs = read[0].value.shape[1]
    return assemble(
        read,
        [Column(each, missing=missing) for each in column_names(model)],
        base=np.zeros(outputs),
        divisor=float(len(read)),
        link="probability" if classifies else "identity",
        library=f"scikit-learn {name}",
        version=version,
        **about,
    )


def _takes_missing(model: Any, name: str, version: str) -> bool:
    first = (1, 6) if name.startswith("Extra") else (1, 3) if name.startswith("Decision") else (1, 4)
    free = getattr(model, "monotonic_cst", None) is None and getattr(model, "criterion", "") != "absolute_error"
    return version_tuple(version) >= first and free


def _tree(tree: Any, output: int, factor: float = 1.0) -> Tree:
    state = state_of(tree)
    nodes, values = state["nodes"], np.asarray(state["values"], dtype=np.float64)
    size = int(state["node_count"])
    nodes, values = nodes[:size], values[:size, 0, :] * factor
    missing = nodes["missing_go_to_left"] if "missing_go_to_left" in nodes.dtype.names else np.zeros(size)
    return Tree(
        feature=nodes["feature"],
        threshold=at_most32(nodes["threshold"]),
        left=nodes["left_child"],
        right=nodes["right_child"],
        value=values,
        missing_left=missing != 0,
        output=output,
    )


def _boosted(model: Any, version: str, trees: Rounds) -> Forest:
    """Read gradient boosting on trees of float32 numbers."""
    stages = np.asarray(model.estimators_, dtype=object)
    used = rounds_used(trees, len(stages), None)
    rate = float(model.learning_rate)
    read = [_tree(each.tree_, k, rate) for row in stages[:used] for k, each in enumerate(row)]
    classifies = kind_of(model).endswith("Classifier")
    link: Link = "identity" if not classifies else "logistic" if stages.shape[1] == 1 else "softmax"
    exponential = classifies and model.loss == "exponential"
    base = _initial(model, stages.shape[1], exponential)
    return assemble(
        read,
        [Column(each, missing=False) for each in column_names(model)],
        base=base,
        base_error=float(np.abs(base).max() + 1) * 2.0**-48,
        link=link,
        link_scale=2.0 if exponential else 1.0,
        classes=_classes(model) if classifies else (),
        library=f"scikit-learn {kind_of(model).rpartition('.')[2]}",
        version=version,
        rounds_used=used,
        rounds_stored=len(stages),
    )


def _initial(model: Any, outputs: int, exponential: bool) -> Any:
    """Return the raw outputs before the first tree."""
    first = model.init_
    if isinstance(first, str) and first == "zero":
        return np.zeros(outputs)
    kind = kind_of(first).rpartition(".")[2]
    if kind == "DummyRegressor":
        return np.asarray(first.constant_, dtype=np.float64).reshape(-1)
    if kind != "DummyClassifier" or first.strategy != "prior":
        raise UnsupportedOperationError(f"init={kind} is another model in front; fit with init=None or init='zero'.")
    least = np.finfo(np.float64).eps
    prior = np.clip(np.asarray(first.class_prior_, dtype=np.float64), least, 1 - least)
    if outputs == 1:
        odds = np.log(prior[1] / (1 - prior[1]))
        return np.array([odds / 2 if exponential else odds])
    return np.log(prior) - np.log(prior).mean()


_HIST_LINKS: dict[str, Link] = {
    **dict.fromkeys(("squared_error", "absolute_error", "quantile"), "identity"),
    **dict.fromkeys(("poisson", "gamma"), "exponential"),
}


def _histogram(model: Any, version: str, trees: Rounds) -> Forest:
    """Read histogram gradient boosting, whose columns of categories come first."""
    stages = list(model._predictors)
    used = rounds_used(trees, len(stages), None)
    outputs = int(model.n_trees_per_iteration_)
    names = column_names(model)
    columns, order = [Column(name) for name in names], np.arange(len(names))
    chosen = getattr(model, "is_categorical_", None)
    if chosen is not None and np.any(chosen):
        places = np.flatnonzero(np.asarray(chosen))
        order = np.concatenate([places, np.setdiff1d(order, places)])
        for place, labels in zip(places, _encoder(model).categories_, strict=True):
            known = tuple(key for each in labels if (key := cell_key(each)) is not None)
            columns[place] = Column(names[place], known, "label", "missing")
    classifies = kind_of(model).endswith("Classifier")
    link = ("logistic" if outputs == 1 else "softmax") if classifies else _HIST_LINKS[model.loss]
    read = [_histogram_tree(each, k, order, columns) for row in stages[:used] for k, each in enumerate(row)]
    return assemble(
        read,
        columns,
        base=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1),
        link=link,
        classes=_classes(model) if classifies else (),
        library=f"scikit-learn {kind_of(model).rpartition('.')[2]}",
        version=version,
        rounds_used=used,
        rounds_stored=len(stages),
    )


def _encoder(model: Any) -> Any:
    """Return the encoder of categories in front of the trees."""
    return next(each for name, each, _ in model._preprocessor.transformers_ if name == "encoder")


def _histogram_tree(predictor: Any, output: int, order: Any, columns: list[Column]) -> Tree:
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    feature = np.where(inner, order[np.where(inner, nodes["feature_idx"], 0)], -1)
    chosen = inner & (nodes["is_categorical"] != 0)
    sets = {}
    for node in np.flatnonzero(chosen):
        words = np.asarray(predictor.raw_left_cat_bitsets[nodes["bitset_idx"][node]])
        members = np.flatnonzero(np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little"))
        sets[int(node)] = members[members < len(columns[feature[node]].categories)]
    return Tree(
        feature=feature,
        threshold=np.where(inner & ~chosen, nodes["num_threshold"], 0.0),
        left=np.where(inner, nodes["left"].astype(np.int64), -1),
        right=np.where(inner, nodes["right"].astype(np.int64), -1),
        value=np.where(inner, 0.0, nodes["value"]),
        missing_left=nodes["missing_go_to_left"] != 0,
        kind=np.where(chosen, CATEGORY, NUMBER),
        output=output,
        sets=sets,
    )


_BOTH = ("Classifier", "Regressor")
_RULES: dict[str, Any] = {
    **{f"{name}{each}": _averaged for name in ("DecisionTree", "ExtraTree") for each in _BOTH},
    **{f"{name}{each}": _averaged for name in ("RandomForest", "ExtraTrees") for each in _BOTH},
    **{f"GradientBoosting{each}": _boosted for each in _BOTH},
    **{f"HistGradientBoosting{each}": _histogram for each in _BOTH},
}
