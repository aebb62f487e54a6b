"""Open any model by what it is: a network, or a tree ensemble; a file is judged by its content."""

from __future__ import annotations

import re
import warnings
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from isonomy.errors import AssumedHeadWarning, FileError, IsonomyError, NetworkError, ParameterError, template
from isonomy.model import Model
from isonomy.networks.graph import HeadChoice
from isonomy.networks.inputs import ReaderContext
from isonomy.networks.load import load_model as load_network_model
from isonomy.networks.load import open_network
from isonomy.networks.network import Network
from isonomy.population.schema import Schema
from isonomy.trees.assembly import Rounds
from isonomy.trees.load import is_tree_model, read_trees
from isonomy.trees.model import TreeModel

_KEYS = ("forest", "learner", "version", "features_info", "model_info", "oblivious_trees", "trees", "name", "ctr_data",
         "scale_and_bias")  # fmt: skip
_JSON = rb'\s*\{\s*"(' + "|".join(_KEYS).encode() + rb')"'
_BEGINS = (rb"tree\r?\n", rb"\{[^\s\"]", _JSON, rb"CBM1", rb"binf", rb"bs64")
"""What files of boosted trees begin with, those that are refused included: their reader says what would be right."""

_NAMES = re.compile(rb"(_forest|_gb|_hist_gradient_boosting|DecisionTree\w+|ExtraTree\w+|xgboost|lightgbm|catboost)\b")

_NUMBERS = re.compile(rb'"(\w+Regressor|LinearRegression|Ridge|Lasso|ElasticNet|LinearSVR|SGDRegressor)"')


def load_model(source: Any, schema: Schema | None = None, *, head: HeadChoice = "auto", trees: Rounds = None) -> Model:
    """Return the model of a ``source``: a path, a torch module, a fitted estimator or pipeline of scikit-learn,
    XGBoost, LightGBM or CatBoost, or a model as it is.

    With a ``schema``, which tree ensembles need, it reads the schema's coordinates. ``head`` is as for
    :func:`load_network`; ``trees`` says which boosting rounds count where a file has more than the best one:
    ``"all"``, ``"best"`` or a number.
    """
    if isinstance(source, TreeModel):
        return source
    if isinstance(source, str | Path) and holds_trees(Path(source)):
        return open_trees(source, schema, head=head, trees=trees)
    if not isinstance(source, str | Path) and is_tree_model(source):
        forest = read_trees(source, trees=trees)
        return TreeModel.of(forest, _needed(schema), name=type(source).__name__)
    return load_network_model(source, schema, head=head)


def open_model(path: str | Path, schema: Schema | None = None, *, name: str | None = None, **options: Any) -> Model:
    """Read a model file as a record says it was read: a tree ensemble, or a network."""
    if Path(path).is_file() and holds_trees(Path(path)):
        return open_trees(path, schema, name=name, **options)
    rounds = options.pop("trees", None)
    if rounds is not None:
        raise ParameterError(template("trees", f"left out: '{Path(path).name}' holds no boosted trees", rounds))
    return open_network(path, schema, name=name, **options)


def open_source(source: Any, schema: Schema | None = None, **options: Any) -> Model:
    """Read a path, or a live object with the ``options`` of a file: ``head``, ``reads`` and ``trees``;
    categories that a model knows are ``noted``."""
    if isinstance(source, Model):
        return source
    if isinstance(source, str | Path):
        return open_model(source, schema, **options)
    head, reads, trees = options.get("head", "auto"), options.get("reads", "auto"), options.get("trees")
    context = ReaderContext(schema, reads, noted=options.get("noted"))
    if is_tree_model(source):
        return TreeModel.of(read_trees(source, trees=trees), _needed(schema), reads=reads, name=type(source).__name__)
    if callable(getattr(source, "state_dict", None)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AssumedHeadWarning)  # its remark is shown
            return Network.from_torch(source, schema, head=head, reads=reads)
    if callable(getattr(source, "predict", None)):
        read = import_module("isonomy.networks.sklearn_reader").read_sklearn(source, context, head)
        return Network.of(read, type(source).__name__)
    expected = "a path, a torch module, or a fitted estimator or pipeline"
    raise NetworkError(template("model", expected, type(source).__name__))


def is_trees(source: Any) -> bool:
    """Return whether a file or a live object is a tree ensemble."""
    return holds_trees(Path(source)) if isinstance(source, str | Path) else is_tree_model(source)


def gives_numbers(source: Any) -> bool:
    """Return whether a model is known to give numbers, no classes."""
    if isinstance(source, Model):
        return source.head == "regression"
    try:
        if is_trees(source):
            return read_trees(source, trees="all").link == "identity"
    except IsonomyError:  # which reading it says, too
        return False
    if isinstance(source, str | Path):
        return Path(source).suffix.lower() == ".skops" and bool(_NUMBERS.search(_skops_schema(Path(source))))
    if hasattr(source, "state_dict") or not hasattr(source, "predict"):
        return False
    return not hasattr(source, "predict_proba") and not hasattr(source, "classes_")


def open_trees(
    path: str | Path, schema: Schema | None, *, name: str | None = None, trees: Rounds = None, **options: Any
) -> TreeModel:
    """Read a tree ensemble from a file, on the coordinates of a schema; what a network's file needs is left out."""
    for option, usual in (("head", "auto"), ("output", None), ("activation", None)):
        if options.get(option, usual) != usual:
            raise ParameterError(template(option, "left out: a tree ensemble says it itself", options[option]))
    opened = {"head": "auto", "output": None, "activation": None, "reads": options.get("reads", "auto"), "trees": trees}
    forest, title = read_trees(path, trees=trees), Path(path).stem if name is None else name
    return TreeModel.of(forest, _needed(schema), reads=opened["reads"], name=title, opened=opened)


def holds_trees(path: Path) -> bool:
    """Return whether a file holds a tree ensemble, judged by its content."""
    try:
        with path.open("rb") as file:
            head = file.read(2**16)
    except OSError:  # the reader says what is wrong
        return False
    if head[:2] == b"PK":
        return path.suffix.lower() == ".skops" and bool(_NAMES.search(_skops_schema(path)))
    if path.suffix.lower() == ".onnx":
        return b"TreeEnsemble" in path.read_bytes()
    return any(re.match(pattern, head) for pattern in _BEGINS)


def _skops_schema(path: Path) -> bytes:
    """Return the text in which a skops archive names its types; empty where it has none."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("schema.json") as file:
            return file.read(2**24)
    except (OSError, KeyError, zipfile.BadZipFile):
        return b""


def _needed(schema: Schema | None) -> Schema:
    if schema is None:
        raise FileError(
            "A tree ensemble is read with a schema, which says what its columns mean: load_model(source, schema), "
            "Schema.infer(table) makes a first one."
        )
    return schema
