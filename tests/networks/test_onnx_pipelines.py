"""ONNX files that read raw columns: whole pipelines from skl2onnx, and embeddings from torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn import linear_model as lm
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from torch import nn

from isonomy.errors import IsonomyError, NetworkError, UnsupportedOperationError
from isonomy.networks import load_network
from isonomy.population.schema import Schema

from .people import outcome, rows

skl2onnx = pytest.importorskip("skl2onnx", reason="the package skl2onnx writes these files")

# No gaps among the categories: a text tensor of onnxruntime cannot be missing.
PEOPLE = """
[label]
column = "outcome"
classes = ["no", "yes"]
[features.age]
kind = "integer"
low = 18
high = 90
[features.income]
low = 0
high = 300
origin = 100
unit = 37
fill = 12
[features.sex]
categories = ["male", "female"]
[features.job]
categories = ["nurse", "clerk", "cook", "judge"]
[features.grade]
kind = "ordinal"
categories = ["low", "mid", "high"]
[features.union]
categories = ["0", "1"]
"""
KINDS = {
    **dict.fromkeys(("age", "income"), "FloatTensorType"),
    **dict.fromkeys(("sex", "job", "grade"), "StringTensorType"),
    "union": "Int64TensorType",
}


def people(classes: str = '["no", "yes"]') -> Schema:
    return Schema.from_toml(PEOPLE.replace('["no", "yes"]', classes))


def individuals(n: int, seed: int, *, gaps: bool) -> pd.DataFrame:
    frame = rows(n, seed, gaps=False)
    if gaps:
        frame.loc[np.random.default_rng(seed).random(n) < 0.2, "income"] = np.nan
    return frame


def numbers(scaler: Any) -> Any:
    return make_pipeline(SimpleImputer(), scaler)


PIPELINES: dict[str, Any] = {
    "one_hot": ColumnTransformer(
        [("n", numbers(StandardScaler()), ["age", "income"]), ("c", OneHotEncoder(), ["sex", "job"])]
    ),
    "dropped": ColumnTransformer(
        [("n", numbers(MinMaxScaler()), ["income", "age"]), ("c", OneHotEncoder(drop="first"), ["sex", "job"])]
    ),
    "ordinal": ColumnTransformer(
        [
            ("n", numbers(RobustScaler()), ["age", "income"]),
            (
                "o",
                OrdinalEncoder(categories=[["low", "mid", "high"], ["cook", "judge", "clerk", "nurse"]]),
                ["grade", "job"],
            ),
        ]
    ),
    "integers": ColumnTransformer(
        [("n", numbers(MaxAbsScaler()), ["age", "income"]), ("u", OneHotEncoder(handle_unknown="ignore"), ["union"])]
    ),
    "remainder": ColumnTransformer(
        [("c", OneHotEncoder(sparse_output=False), ["sex"]), ("d", "drop", ["job", "grade", "income"])],
        remainder="passthrough",
    ),
}
ENDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "logistic": (lm.LogisticRegression(max_iter=50), ("no", "yes")),
    "multinomial": (lm.LogisticRegression(max_iter=50), ("a", "b", "c")),
    "perceptron": (MLPClassifier((6,), max_iter=15, random_state=0), ("no", "yes")),
    "perceptron3": (MLPClassifier((6, 4), activation="tanh", max_iter=15, random_state=0), ("a", "b", "c")),
    "linear": (lm.LinearRegression(), ()),
    "perceptron_number": (MLPRegressor(hidden_layer_sizes=(6,), max_iter=15, random_state=0), ()),
}


def exported(model: Any, frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    types = [
        (name, getattr(skl2onnx.common.data_types, KINDS.get(str(name), "StringTensorType"))([None, 1]))
        for name in frame
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path.write_bytes(skl2onnx.to_onnx(model, initial_types=types, **options).SerializeToString())
    return path


def own(path: Path, feeds: dict[str, Any]) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(str(path), settings)
    needed = {each.name for each in session.get_inputs()}
    result = session.run(None, {name: each for name, each in feeds.items() if name in needed})[-1]
    return np.array([list(row.values()) for row in result]) if isinstance(result, list) else result


def cells(frame: pd.DataFrame) -> dict[str, Any]:
    kinds = {"FloatTensorType": np.float32, "StringTensorType": object, "Int64TensorType": np.int64}
    return {name: frame[[name]].to_numpy().astype(kinds[KINDS[str(name)]]) for name in frame}


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("end", ENDS)
def test_whole_pipelines(kind: str, end: str, tmp_path: Path) -> None:
    last, classes = ENDS[end]
    frame, fresh = (individuals(150, seed, gaps=kind != "remainder") for seed in (0, 5))
    y = outcome(frame, classes) if classes else frame["age"] / 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(PIPELINES[kind], last).fit(frame, y)
    path = exported(model, frame, tmp_path / "model.onnx")
    schema = people(str(list(classes)).replace("'", '"')) if classes else Schema.from_toml(PEOPLE.split("]\n", 2)[2])
    network = load_network(path, schema, head="regression" if end == "perceptron_number" else "auto")
    single = fresh.assign(income=fresh["income"].astype(np.float32).astype(np.float64))  # as onnxruntime reads it
    given, expected = network(schema.encode(single).x), own(path, cells(fresh))
    np.testing.assert_allclose(given, expected.reshape(given.shape), rtol=0, atol=2e-6 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("options", [{}, {"options": {"zipmap": False}}])
def test_classes_follow_the_schema(options: dict[str, Any], tmp_path: Path) -> None:
    frame, perceptron = individuals(100, 0, gaps=False), MLPClassifier((4,), max_iter=5)
    logistic, descent = lm.LogisticRegression(), lm.SGDClassifier(loss="log_loss")
    two, three = ["yes", "no"], ["c", "a", "b"]
    for names, last in ((two, logistic), (two, perceptron), (two, descent), (three, logistic), (three, perceptron)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make_pipeline(PIPELINES["one_hot"], last).fit(frame, outcome(frame, tuple(names)))
        path = exported(model, frame, tmp_path / "model.onnx", **options)
        schema = people(str(names).replace("'", '"'))
        order = [list(model.classes_).index(each) for each in names]
        given = load_network(path, schema)(schema.encode(frame).x)
        np.testing.assert_allclose(given, model.predict_proba(frame)[:, order], atol=1e-5)


@pytest.mark.parametrize("reads", ["raw", "coordinates"])
def test_one_table_of_numbers(reads: Any, tmp_path: Path) -> None:
    schema = Schema.from_toml("[features.a]\nlow = 0\nhigh = 10\n[features.b]\nlow = -5\nhigh = 5\n")
    table = pd.DataFrame(
        np.random.default_rng(0).uniform([0, -5], [10, 5], (60, 2)).astype(np.float32), columns=["a", "b"]
    )
    fed = table.to_numpy() if reads == "raw" else schema.encode(table).x.astype(np.float32)
    model = make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=10)).fit(fed, table["a"] > table["b"])
    path = tmp_path / "model.onnx"
    path.write_bytes(skl2onnx.to_onnx(model, fed[:1], options={"zipmap": False}).SerializeToString())
    with pytest.raises(NetworkError, match="reads='raw'"):
        load_network(path, schema)
    network = load_network(path, schema, reads=reads)
    np.testing.assert_allclose(network(schema.encode(table).x), own(path, {"X": fed}), atol=2e-6)
    alone = load_network(path)
    np.testing.assert_allclose(alone(fed), own(path, {"X": fed}), atol=2e-6)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Normalizer(), "Normalizer.*own norm"),
        (GradientBoostingClassifier(n_estimators=2), "trees are no network"),
    ],
)
def test_refusals_by_name(step: Any, reason: str, tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    steps = [step] if hasattr(step, "predict") else [step, lm.LogisticRegression()]
    model = make_pipeline(*steps).fit(table, table[:, 0] > 0)
    path = tmp_path / "model.onnx"
    path.write_bytes(skl2onnx.to_onnx(model, table[:1]).SerializeToString())
    with pytest.raises(UnsupportedOperationError, match=reason):
        load_network(path)


def test_inputs_that_nothing_reads_need_not_be_in_the_schema(tmp_path: Path) -> None:
    frame = individuals(100, 0, gaps=False).assign(id=[f"A-{i}" for i in range(100)])
    steps = ColumnTransformer([("n", StandardScaler(), ["age"]), ("d", "drop", ["id"])])
    model = make_pipeline(steps, lm.LogisticRegression()).fit(frame[["age", "id"]], outcome(frame))
    exported(model, frame[["age", "id"]], tmp_path / "model.onnx")
    stored = onnx.load(tmp_path / "model.onnx")
    if "id" not in [each.name for each in stored.graph.input]:
        stored.graph.input.append(onnx.helper.make_tensor_value_info("id", onnx.TensorProto.STRING, [None, 1]))
    onnx.save(stored, tmp_path / "model.onnx")
    people = Schema.from_toml(PEOPLE)
    network = load_network(tmp_path / "model.onnx", people)
    np.testing.assert_allclose(network(people.encode(frame).x), model.predict_proba(frame), atol=1e-5)


def test_unknown_columns_and_categories(tmp_path: Path) -> None:
    frame = individuals(100, 0, gaps=False)
    model = make_pipeline(PIPELINES["one_hot"], lm.LogisticRegression()).fit(frame, outcome(frame))
    path = exported(model, frame, tmp_path / "model.onnx")
    with pytest.raises(NetworkError, match="give the schema"):
        load_network(path)
    with pytest.raises(NetworkError, match="'sex' that the schema lacks"):
        load_network(path, Schema.from_toml(PEOPLE.replace("features.sex", "features.gender")))
    ordinal = make_pipeline(PIPELINES["ordinal"], lm.LogisticRegression()).fit(frame, outcome(frame))
    people, rows = Schema.from_toml(PEOPLE.replace('"mid"', '"middle"')), frame.replace("mid", "middle")
    network = load_network(exported(ordinal, frame, path), people)  # such a level has the file's default
    assert np.abs(network(people.encode(rows).x) - own(path, cells(rows))).max() < 1e-6


class Embedded(nn.Module):
    """Two embeddings beside numbers, all in one table."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.job, self.sex = nn.Embedding(4, 3), nn.Embedding(2, 2)
        self.net = nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        job, sex = self.job(x[:, 2].long()), self.sex(x[:, 3].long())
        return self.net(torch.cat([x[:, :2], job, sex], 1))


INPUTS = """
[model.inputs]
columns = ["age", "income", "job", "sex"]
[model.inputs.age]
scale = "standard"
mean = 45.5
std = 17.25
[model.inputs.income]
scale = "minmax"
min = 0
max = 320
to = [-1, 1]
[model.inputs.job]
encode = "index"
categories = ["clerk", "judge", "nurse", "cook"]
[model.inputs.sex]
encode = "index"
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("dynamo", [False, True])
def test_embeddings(dynamo: bool, tmp_path: Path) -> None:
    schema, module, path = Schema.from_toml(PEOPLE + INPUTS), Embedded().eval(), tmp_path / "model.onnx"
    example = torch.tensor([[0.1, 0.2, 1.0, 0.0], [0.3, 0.4, 2.0, 1.0]])
    axes: Any = {"dynamic_shapes": ({0: torch.export.Dim("n")},)} if dynamo else {"dynamic_axes": {"x": {0: "n"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (example,), str(path), input_names=["x"], dynamo=dynamo, verbose=False, **axes)
    frame = individuals(60, 3, gaps=False)
    fed = np.column_stack(
        [
            (frame["age"] - 45.5) / 17.25,
            frame["income"] / 160 - 1,
            frame["job"].map({"clerk": 0, "judge": 1, "nurse": 2, "cook": 3}),
            frame["sex"].map({"male": 0, "female": 1}),
        ]
    ).astype(np.float32)
    with torch.no_grad():
        expected = torch.softmax(module(torch.from_numpy(fed)), 1).numpy()
    given = load_network(path, schema)(schema.encode(frame).x)
    np.testing.assert_allclose(given, expected, atol=1e-6)
    with pytest.raises(NetworkError, match=r"write \[model.inputs\]|reads"):
        load_network(path, Schema.from_toml(PEOPLE))


def test_an_index_outside_the_lookup(tmp_path: Path) -> None:
    table = numpy_helper.from_array(np.eye(3, dtype=np.float32), "table")
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "job"], ["row"]), helper.make_node("Flatten", ["row"], ["out"])],
        "lookup",
        [helper.make_tensor_value_info("job", TensorProto.INT64, ["n", 1])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 3])],
        [table],
    )
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    with pytest.raises(NetworkError, match="index 3 is outside the 3 rows"):
        load_network(path, people())
    with pytest.raises(NetworkError, match="a schema must describe its cells"):
        load_network(path)
    smaller = Schema.from_toml(PEOPLE.replace(', "judge"', ""))
    logits = load_network(path, smaller).logits(smaller.encode(_three()).x)
    np.testing.assert_array_equal(logits, np.eye(3))


def _three() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 30, 40],
            "income": 1.0,
            "sex": "male",
            "job": ["nurse", "clerk", "cook"],
            "grade": "low",
            "union": 0,
        }
    )


def test_damaged_pipelines_say_one_sentence(tmp_path: Path) -> None:
    frame, path = individuals(60, 0, gaps=False), tmp_path / "model.onnx"
    whole = b""
    for kind in ("dropped", "ordinal"):
        model = make_pipeline(PIPELINES[kind], lm.LogisticRegression()).fit(frame, outcome(frame))
        whole = exported(model, frame, path).read_bytes()
        draw = np.random.default_rng(0)
        for _ in range(60):
            data = np.frombuffer(whole, dtype=np.uint8).copy()
            at = draw.integers(0, len(data), draw.integers(1, 6))
            data[at] = draw.integers(0, 256, len(at))
            path.write_bytes(data.tobytes())
            try:
                load_network(path, people())
            except IsonomyError as error:
                assert "\n" not in str(error)
    for part in (0.2, 0.5, 0.9):
        path.write_bytes(whole[: int(part * len(whole))])
        with pytest.raises(IsonomyError):
            load_network(path, people())


@pytest.mark.parametrize("kind", ["divided", "cut"])
def test_whole_numbers_that_a_runtime_rounds_are_refused(kind: str, tmp_path: Path) -> None:
    """A runtime divides 47 by 10 to 4 where both are whole, and makes 1 of a category "1.5" that becomes whole."""
    divided = kind == "divided"
    nodes = [helper.make_node("Cast", ["x"], ["whole"], "whole", to=TensorProto.INT64)]
    nodes += [helper.make_node("Div", ["whole", "ten"], ["part"], "part")] if divided else []
    nodes += [helper.make_node("Cast", [nodes[-1].output[0]], ["y"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(
        nodes,
        "rounding",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1])],
        [numpy_helper.from_array(np.array([10]), "ten")],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    feature = 'kind = "integer"\nlow = 0\nhigh = 90' if divided else 'categories = ["0.5", "1.5", "-1e1"]'
    people = Schema.from_toml(f'name = "one"\n[features.age]\n{feature}\n')
    sentence = "part.*a division of whole numbers rounds" if divided else "'age': a conversion that cuts a number"
    with pytest.raises(UnsupportedOperationError, match=sentence):
        load_network(path, people, head="regression", reads="raw")


def test_probabilities_of_an_unknown_kind_are_not_taken_for_raw_numbers(tmp_path: Path) -> None:
    frame = individuals(100, 0, gaps=False)
    model = make_pipeline(PIPELINES["one_hot"], lm.SGDClassifier(loss="modified_huber")).fit(frame, outcome(frame))
    path = exported(model, frame, tmp_path / "model.onnx", options={"zipmap": False})
    with pytest.raises(NetworkError, match="output 'probabilities' ends in no softmax or sigmoid that is known"):
        load_network(path, people())
    given = load_network(path, people(), head="regression")(people().encode(frame).x)
    np.testing.assert_allclose(given, model.predict_proba(frame), atol=1e-5)
