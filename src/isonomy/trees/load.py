"""Open a tree ensemble: a file by its content, or a live model by its own dump, into one :class:`Forest`.

**Safety.** No pickle is opened, and of a skops archive nothing is constructed but numbers and texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isonomy.errors import FileError, IsonomyError, ParameterError, UnsupportedOperationError, template
from isonomy.given import choice
from isonomy.networks.limits import FILE, Allowance, one_line, reading, reading_file
from isonomy.trees import catboost_reader, lightgbm_reader, xgboost_reader
from isonomy.trees.assembly import Rounds
from isonomy.trees.averaged import read_forest
from isonomy.trees.calibrated import calibrated_member, with_platt
from isonomy.trees.described import Described, kind_of, read_skops
from isonomy.trees.forest import Forest, cell_key
from isonomy.trees.pipelines import folded, raw_names, split_pipeline, transformed
from isonomy.trees.sklearn_trees import is_sklearn_trees, read_sklearn_trees
from isonomy.trees.source import Source
from isonomy.trees.stepwise import is_linear, is_stepwise, read_stepwise
from isonomy.trees.ubjson import read_ubjson

Dtype = Literal["float64", "float32"]

_HEAD = 4096
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".p", ".sav")


def read_trees(source: Any, *, trees: Rounds = None, dtype: Dtype = "float64") -> Forest:
    """Return the tree ensemble of a file (XGBoost JSON or UBJ, LightGBM text, CatBoost JSON, skops, ONNX) or of a live
    model (Booster, estimator, whole pipeline) over raw columns.

    ``trees`` says which boosting rounds count: ``"all"``, ``"best"`` (up to the best round of early stopping), or a
    number; it has to be given where the two differ. ``dtype`` is the type in which a pipeline in front gets the table's
    numbers; a model alone reads either. A file is judged by its content, not by its name.
    """
    choice("dtype", dtype, Dtype)
    if not isinstance(source, str | Path):
        with reading(type(source).__name__, absent="is not fitted, or not as expected"):
            return _live(source, trees, dtype)
    path = Path(source)
    if not path.is_file():
        raise FileError(f"There is no file '{path}'.")
    with reading_file(path, "a tree ensemble") as allowance:
        if path.stat().st_size > FILE:
            raise FileError(f"'{path}' is larger than {FILE >> 30} GiB.")
        return _file(path, trees, dtype, allowance)


def is_tree_model(model: Any) -> bool:
    """Return whether a live object is a tree ensemble, or a pipeline that ends in one."""
    try:
        steps, last = split_pipeline(model)
        if steps and is_linear(last):
            return is_stepwise(_columns(steps, "float64")[1])
        last = kind_of(_judged(model))
    except (AttributeError, TypeError, ValueError, LookupError, IsonomyError):
        return False
    return is_sklearn_trees(last) or last.partition(".")[0] in ("xgboost", "lightgbm", "catboost")


def _judged(model: Any) -> Any:
    """Return the model at the end of a pipeline, within a calibration that is read."""
    last = split_pipeline(model)[1]
    member = calibrated_member(last)
    return last if member is None else split_pipeline(member.estimator)[1]


def _file(path: Path, trees: Rounds, dtype: Dtype, allowance: Allowance) -> Forest:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head[:2] == b"PK":
        return _live(read_skops(path, allowance), trees, dtype)
    if path.suffix.lower() in _PICKLES or head[:1] == b"\x80":
        raise FileError(
            f"'{path}' is not read: a pickle is a program, and opening it would run it; save the model in its "
            "library's own format (save_model), a scikit-learn model with skops.io.dump; or, where you trust the file, "
            "load it yourself and pass the model: isonomy.audit(joblib.load(path), frame)."
        )
    if head[:4] == b"CBM1":
        raise FileError(f"'{path}' is CatBoost's binary format; save it with save_model(path, format='json').")
    if head[:4] in (b"binf", b"bs64"):
        raise FileError(f"'{path}' is XGBoost's old binary format; save it as .json or .ubj.")
    if re.match(rb"tree\r?\n", head):
        return lightgbm_reader.read_lightgbm(path.read_text(encoding="utf-8"), trees)
    if re.match(rb"\{[iUIlL$#]", head):
        return xgboost_reader.read_xgboost(read_ubjson(path.read_bytes()), trees)
    if re.match(rb"\s*\{", head):
        return _json(json.loads(path.read_text(encoding="utf-8")), path, trees)
    if path.suffix.lower() == ".onnx":
        forest: Forest = import_module("isonomy.trees.onnx_trees").read_onnx_trees(path)
        return forest
    raise FileError(f"'{path}' is none of: XGBoost JSON or UBJ, LightGBM text, CatBoost JSON, skops, ONNX.")


def _json(content: dict[str, Any], path: Path, trees: Rounds) -> Forest:
    if "learner" in content:
        return xgboost_reader.read_xgboost(content, trees)
    if "features_info" in content:
        return catboost_reader.read_catboost(content, trees)
    if "forest" in content:
        return read_forest(content)
    if content.get("name") == "tree":
        raise FileError(f"'{path}' is LightGBM's JSON dump, which does not say all; save it with save_model, as text.")
    raise FileError(f"'{path}' is JSON, but neither of XGBoost nor of CatBoost.")


def _live(estimator: Any, trees: Rounds, dtype: Dtype) -> Forest:
    steps, model = split_pipeline(estimator)
    member = calibrated_member(model)
    names, columns = _columns(steps, dtype)
    if member is not None:
        forest = with_platt(_live(member.estimator, trees, dtype), member)
    elif is_linear(model):
        if not is_stepwise(columns):
            raise UnsupportedOperationError("it reads numbers that are no bins: it is no sum of steps.")
        forest = read_stepwise(model, columns, import_module("sklearn").__version__)
    else:
        forest = _model(model, trees)
    return folded(forest, columns, names) if steps else forest


def _columns(steps: Sequence[Any], dtype: Dtype) -> tuple[list[str], list[Source]]:
    """Return the names of the raw columns, and the columns that steps make of them."""
    names = raw_names(steps) if steps else []
    columns = [Source(i, dtype=getattr(np, dtype)) for i in range(len(names))]
    for step in steps:
        columns = transformed(step, columns)
    return names, columns


def _model(model: Any, trees: Rounds) -> Forest:
    kind = kind_of(model)
    package = kind.partition(".")[0]
    if is_sklearn_trees(kind):
        described = isinstance(model, Described)
        version = str(model.state.get("_sklearn_version", "0")) if described else import_module("sklearn").__version__
        return read_sklearn_trees(model, version, trees)
    if isinstance(model, Described):
        raise UnsupportedOperationError(f"{kind} in a skops archive has no reader for trees.")
    if package == "xgboost":
        content, _ = xgboost_reader.content_of_live(model)
        return xgboost_reader.read_xgboost(content, trees)
    if package == "lightgbm":
        text, best, classes = lightgbm_reader.text_of_live(model)
        names = tuple(key for each in classes if (key := cell_key(each)) is not None)
        return replace(lightgbm_reader.read_lightgbm(text, trees, best), classes=names)
    if package == "catboost":
        return catboost_reader.read_catboost(catboost_reader.content_of_live(model), trees)
    expected = "a path, or a fitted tree model of XGBoost, LightGBM, CatBoost or scikit-learn"
    raise ParameterError(template("source", expected, one_line(kind)))
