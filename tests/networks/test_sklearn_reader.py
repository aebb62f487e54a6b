"""Pipelines of scikit-learn: the network on fair coordinates gives what the pipeline gives on raw rows."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn import linear_model as lm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, MissingIndicator, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import FeatureUnion, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import LinearSVC

from isonomy import WeightedLp, certify_local
from isonomy.errors import NetworkError, ParameterError, UnsupportedOperationError
from isonomy.networks import Network, load_network
from isonomy.networks.graph import sizes
from isonomy.networks.limits import Allowance
from isonomy.networks.preprocessing import affine_of, required_values, schema_columns
from isonomy.population import Feature, Label, Population
from isonomy.population.schema import Schema
from isonomy_verify.arithmetic import U32, gamma

from .people import outcome, rows, schema

NUMBERS = ["age", "income"]


def encoder(**options: Any) -> OneHotEncoder:
    return OneHotEncoder(**({"handle_unknown": "ignore"} | options))


def numbers(scaler: Any) -> Any:
    return make_pipeline(SimpleImputer(), scaler)


def split(*parts: tuple[str, Any, Any], **options: Any) -> ColumnTransformer:
    return ColumnTransformer(list(parts), **options)


def bins(count: int, **options: Any) -> KBinsDiscretizer:
    return KBinsDiscretizer(count, quantile_method="linear", **options)


PREPROCESSING: dict[str, Any] = {
    "standard": split(("n", numbers(StandardScaler()), NUMBERS), ("c", encoder(), ["sex", "job"])),
    "minmax": split(("n", numbers(MinMaxScaler((-1, 2))), NUMBERS), ("c", encoder(drop="if_binary"), ["job", "sex"])),
    "robust": split(("n", numbers(RobustScaler()), NUMBERS), ("c", encoder(drop="first"), ["sex", "job"])),
    "maxabs": split(("n", numbers(MaxAbsScaler()), NUMBERS), ("c", encoder(sparse_output=False), ["sex"])),
    "centred": split(("n", numbers(StandardScaler(with_std=False)), NUMBERS)),
    "stretched": split(("n", numbers(RobustScaler(with_centering=False)), NUMBERS)),
    "divided": split(("n", numbers(StandardScaler(with_mean=False)), NUMBERS)),
    "spare": split(
        ("n", numbers(StandardScaler()), NUMBERS),
        ("c", OneHotEncoder(categories=[["another", "female", "male", "other"]], drop=["female"]), ["sex"]),
    ),
    "rare": split(
        ("n", numbers(StandardScaler()), NUMBERS),
        ("c", OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"), ["job", "sex"]),
    ),
    "indicator": split(("n", SimpleImputer(strategy="median", add_indicator=True), NUMBERS), ("c", encoder(), ["sex"])),
    "scaled_first": split(("n", make_pipeline(StandardScaler(), SimpleImputer(add_indicator=True)), NUMBERS)),
    "constant": split(("n", SimpleImputer(strategy="constant", fill_value=-7.5), NUMBERS)),
    "gap_alone": split(
        ("n", numbers(MinMaxScaler()), NUMBERS), ("g", MissingIndicator(features="all"), ["income", "job"])
    ),
    "frequent": split(
        ("n", numbers(StandardScaler()), NUMBERS),
        ("c", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["job", "sex"]),
    ),
    "ordinal": split(
        ("n", numbers(StandardScaler()), NUMBERS),
        ("o", OrdinalEncoder(categories=[["low", "mid", "high"]]), ["grade"]),
        ("j", OrdinalEncoder(encoded_missing_value=-3), ["job", "sex"]),
    ),
    "ordinal_gap": split(("j", make_pipeline(OrdinalEncoder(), SimpleImputer(strategy="median")), ["job", "sex"])),
    "target": split(("j", TargetEncoder(random_state=0, cv=2), ["job", "sex"])),
    "passthrough": split(
        ("n", numbers(StandardScaler()), NUMBERS), ("d", "drop", ["grade", "job", "sex"]), remainder="passthrough"
    ),
    "remainder": split(("d", "drop", ["grade"]), ("c", encoder(), ["sex", "job"]), remainder=numbers(StandardScaler())),
    "binary_number": split(("n", numbers(StandardScaler()), NUMBERS), ("u", OneHotEncoder(), ["union"])),
    "levels_apart": split(("g", OneHotEncoder(), ["grade"]), ("n", numbers(StandardScaler()), NUMBERS)),
    "levels_in_another_order": split(("g", OrdinalEncoder(), ["grade"])),
    "number_apart": split(("g", encoder(), ["age", "union"])),
    "bins": split(
        ("b", bins(5), ["age", "union"]),
        ("o", bins(3, encode="ordinal"), ["age"]),
        ("n", numbers(StandardScaler()), ["income"]),
    ),
    "logarithm": split(
        ("n", make_pipeline(FunctionTransformer(np.log1p), SimpleImputer(add_indicator=True), MinMaxScaler()), NUMBERS),
        ("m", make_pipeline(SimpleImputer(), MinMaxScaler(clip=True), FunctionTransformer(np.log1p)), NUMBERS),
    ),
    "threshold": split(("b", make_pipeline(Binarizer(threshold=40.5), StandardScaler()), ["age"])),
    "positions": split(("n", numbers(StandardScaler()), [1, 0]), ("c", encoder(), slice(2, 4))),
    "masked": split(("n", numbers(StandardScaler()), np.array([True, True, False, False, False, True]))),
    "weights": split(
        ("n", numbers(StandardScaler()), NUMBERS), ("c", encoder(), ["sex"]), transformer_weights={"c": 0.3}
    ),
    "union": split(("n", make_union(numbers(StandardScaler()), numbers(MinMaxScaler())), NUMBERS)),
    "identity_function": split(("n", make_pipeline(SimpleImputer(), FunctionTransformer()), NUMBERS)),
    "pca": make_pipeline(
        split(("n", numbers(StandardScaler()), NUMBERS), ("c", encoder(sparse_output=False), ["job"])),
        VarianceThreshold(1e-4),
        PCA(3),
    ),
}


def fitted(steps: Any, estimator: Any, frame: pd.DataFrame, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make_pipeline(clone(steps), estimator).fit(frame, y)


def own(model: Any, frame: pd.DataFrame) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.predict_proba(frame) if hasattr(model, "predict_proba") else model.predict(frame).reshape(-1, 1)


def agree(network: Network, people: Schema, frame: pd.DataFrame, expected: Any) -> None:
    given = network(people.encode(frame).x)
    np.testing.assert_allclose(given, expected, rtol=0, atol=1e-9 * (1 + np.abs(expected).max()))


@pytest.mark.some(24)
@pytest.mark.parametrize("kind", PREPROCESSING)
@pytest.mark.parametrize("last", ["logistic", "perceptron", "ridge"])
def test_pipelines(kind: str, last: str) -> None:
    frame, fresh = rows(200), rows(150, seed=9)
    y = outcome(frame) if last != "ridge" else outcome(frame, (0.0, 1.0, 2.5)).astype(float)
    estimator = {
        "logistic": lm.LogisticRegression(max_iter=50),
        "perceptron": MLPClassifier((7, 5), max_iter=15, random_state=0),
        "ridge": lm.Ridge(),
    }[last]
    model = fitted(PREPROCESSING[kind], estimator, frame, y)
    network = Network.from_sklearn(model, schema())
    assert network.head == ("regression" if last == "ridge" else "sigmoid")
    agree(network, schema(), fresh, own(model, fresh))


ESTIMATORS: dict[str, tuple[Any, int]] = {
    "perceptron_tanh": (MLPClassifier((6,), activation="tanh", max_iter=15), 3),
    "perceptron_logistic": (MLPClassifier((6,), activation="logistic", max_iter=15), 3),
    "perceptron_identity": (MLPClassifier((6,), activation="identity", max_iter=15), 2),
    "multinomial": (lm.LogisticRegression(max_iter=50), 3),
    "logistic_cv": (lm.LogisticRegressionCV(Cs=2, cv=2, max_iter=30), 2),
    "sgd": (lm.SGDClassifier(loss="log_loss", max_iter=20), 2),
    "discriminant": (LinearDiscriminantAnalysis(), 2),
    "discriminant3": (LinearDiscriminantAnalysis(), 3),
    "search": (GridSearchCV(lm.LogisticRegression(max_iter=50), {"C": [0.1, 1.0]}, cv=2), 2),
    "perceptron_number": (MLPRegressor(hidden_layer_sizes=(6,), max_iter=15), 0),
    "linear": (lm.LinearRegression(), 0),
    "lasso": (lm.Lasso(0.01), 0),
    "elastic": (lm.ElasticNet(0.01), 0),
    "no_intercept": (lm.Ridge(fit_intercept=False), 0),
    "sgd_number": (lm.SGDRegressor(max_iter=20), 0),
}


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_estimators(kind: str) -> None:
    estimator, classes = ESTIMATORS[kind]
    names = ("a", "b", "c")[:classes]
    frame, fresh = rows(200), rows(80, seed=9)
    y = outcome(frame, names) if classes else frame["age"] / 30 + (frame["sex"] == "male")
    model = fitted(PREPROCESSING["standard"], estimator, frame, y)
    label = f"classes = {list(names)}".replace("'", '"') if classes else ""
    people = Schema.from_toml(schema().to_toml().replace('classes = ["no", "yes"]', label))
    agree(Network.from_sklearn(model, people), people, fresh, own(model, fresh))


@pytest.mark.parametrize("classes", [("no", "yes"), ("b", "c", "a")])
def test_outputs_follow_the_classes_of_the_schema(classes: tuple[str, ...]) -> None:
    frame = rows(120)
    order = classes[::-1] if len(classes) == 2 else classes
    model = fitted(PREPROCESSING["standard"], lm.LogisticRegression(), frame, outcome(frame, classes))
    people = Schema.from_toml(
        schema().to_toml().replace('classes = ["no", "yes"]', f"classes = {list(order)}".replace("'", '"'))
    )
    expected = own(model, frame)[:, [list(model.classes_).index(each) for each in order]]
    agree(Network.from_sklearn(model, people), people, frame, expected)


def test_class_indices_and_foreign_classes() -> None:
    frame = rows(120)
    y = (outcome(frame) == "yes").astype(int)
    model = fitted(PREPROCESSING["standard"], lm.LogisticRegression(), frame, y)
    agree(Network.from_sklearn(model, schema()), schema(), frame, own(model, frame))
    strange = fitted(PREPROCESSING["standard"], lm.LogisticRegression(), frame, np.where(y, "good", "bad"))
    with pytest.raises(NetworkError, match=r"'bad', 'good'.*'no', 'yes'"):
        Network.from_sklearn(strange, schema())


def test_bare_estimators() -> None:
    people, frame = schema(), rows(150)
    x, y = people.encode(frame).x, (outcome(frame) == "yes").astype(int)
    on_coordinates = lm.LogisticRegression().fit(x, y)
    agree(Network.from_sklearn(on_coordinates, people), people, frame, on_coordinates.predict_proba(x))
    agree(Network.from_sklearn(on_coordinates), people, frame, on_coordinates.predict_proba(x))
    named = lm.LogisticRegression().fit(pd.DataFrame(x, columns=people.coordinate_names), y)
    agree(
        Network.from_sklearn(named, people),
        people,
        frame,
        named.predict_proba(pd.DataFrame(x, columns=named.feature_names_in_)),
    )

    plain = Schema.from_toml("[features.a]\nlow = 0\nhigh = 10\n[features.b]\nlow = -5\nhigh = 5\n")
    table = pd.DataFrame(np.random.default_rng(0).uniform([0, -5], [10, 5], (60, 2)), columns=["a", "b"])
    model = lm.LogisticRegression().fit(table.to_numpy(), table["a"] > table["b"])
    with pytest.raises(NetworkError, match="reads='raw'"):
        Network.from_sklearn(model, plain)
    raw = Network.from_sklearn(model, plain, reads="raw")
    agree(raw, plain, table, model.predict_proba(table.to_numpy()))
    scaled = Network.from_sklearn(model, plain, reads="coordinates")
    np.testing.assert_allclose(scaled(plain.encode(table).x), model.predict_proba(plain.encode(table).x), atol=1e-12)


def test_codes_that_are_numbers_are_read_as_numbers() -> None:
    people = Schema.from_toml('[features.code]\ncategories = ["1", "2", "7"]\n[features.z]\nlow = 0\nhigh = 1\n')
    table = pd.DataFrame({"code": np.repeat([1, 2, 7], 20), "z": np.linspace(0, 1, 60)})
    model = make_pipeline(StandardScaler(), lm.Ridge()).fit(table, table["code"] * table["z"])
    agree(Network.from_sklearn(model, people), people, table, own(model, table))


@pytest.mark.parametrize("classes", [["False", "True"], ["True", "False"], ["false", "true"]])
def test_booleans_are_read_as_numbers(classes: list[str]) -> None:
    table = pd.DataFrame({"owner": np.arange(60) % 3 == 0, "z": np.linspace(0, 1, 60)})
    model = make_pipeline(
        split(("z", StandardScaler(), ["z"]), remainder="passthrough"), lm.LogisticRegression(),
    ).fit(table, table["owner"] ^ (table["z"] > 0.6))  # fmt: skip
    people = Schema.from_toml(f"[features.owner]\ncategories = {classes}\n[features.z]\nlow = 0\nhigh = 1\n")
    spelt = table.assign(
        owner=table["owner"].map({True: "true", False: "false"}) if classes[0] == "false" else table["owner"]
    )
    agree(Network.from_sklearn(model, people), people, spelt, own(model, table))


def test_refusals_are_short_and_say_what_matters() -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.preprocessing import QuantileTransformer

    table = pd.DataFrame({"z": np.linspace(0, 1, 60)})
    answers = np.where(table["z"] > 0.4, "yes", "no")
    people = Schema.from_toml(
        '[label]\ncolumn = "ok"\nclasses = ["Yes", "no", "yes"]\n[features.z]\nlow = 0\nhigh = 1\n'
    )
    cases = {
        "the estimator RandomForestClassifier cannot be read": RandomForestClassifier(2),
        "the transformer QuantileTransformer cannot be read": make_pipeline(
            QuantileTransformer(n_quantiles=4), lm.LogisticRegression()
        ),
        r"its classes \['no', 'yes'\] are not those of the schema": lm.LogisticRegression(),
    }
    for sentence, model in cases.items():
        with pytest.raises(NetworkError, match=sentence) as told:
            Network.from_sklearn(model.fit(table, answers), people, head="softmax")
        assert len(str(told.value)) < 240


def test_decision_values_only_on_request() -> None:
    frame = rows(100)
    model = fitted(PREPROCESSING["standard"], LinearSVC(), frame, outcome(frame))
    with pytest.raises(UnsupportedOperationError, match="gives no probabilities"):
        Network.from_sklearn(model, schema())
    network = Network.from_sklearn(model, schema(), head="regression")
    agree(network, schema(), frame, model.decision_function(frame).reshape(-1, 1))


def test_columns_that_an_earlier_step_renamed() -> None:
    """A second ColumnTransformer knows the columns by the names that the first one gave."""
    frame = rows(100)
    first = split(("n", numbers(StandardScaler()), NUMBERS), ("c", encoder(sparse_output=False), ["sex"]))
    second = split(("s", MinMaxScaler(), ["n__income", "n__age"]), ("p", "passthrough", ["c__sex_male"]))
    steps = make_pipeline(first.set_output(transform="pandas"), second)
    model = fitted(steps, lm.LogisticRegression(), frame, outcome(frame))
    agree(Network.from_sklearn(model, schema()), schema(), frame, own(model, frame))


def test_slacks_cover_the_rounding_of_the_adapter() -> None:
    people = schema()
    lines = required_values(
        [
            column.scaled(Fraction(1, 3), Fraction(0.1)).imputed(Fraction(0.7))
            for column in list(schema_columns(people).values())[:2]
        ]  # type: ignore[union-attr]
    )
    affine = affine_of(lines, people.width, Allowance())
    for row, line in enumerate(lines):
        terms = {i: term for i, term in line.terms.items() if i is not None}
        lost = sum(abs(term - Fraction(float(affine.weight[row, i]))) for i, term in terms.items())
        gap = abs(line.terms[None] - Fraction(float(affine.bias[row])))
        assert 0 < lost <= Fraction(float(affine.weight_error[row])) < Fraction(2, 2**50)
        assert gap <= Fraction(float(affine.bias_error[row]))
        assert all(float(sizes(affine)[0][row, i]) >= abs(float(term)) for i, term in terms.items())
    assert affine.roundings >= 4


def number_pipeline(step: Any) -> Any:
    return make_pipeline(split(("n", make_pipeline(SimpleImputer(), step), NUMBERS)), lm.LogisticRegression())


REFUSED: dict[str, tuple[Any, str]] = {
    "logarithm": (
        number_pipeline(make_pipeline(MinMaxScaler((-0.5, 1)), FunctionTransformer(np.log1p))),
        "log1p of column 'age', which may be below 0",
    ),
    "root": (number_pipeline(FunctionTransformer(np.sqrt)), "sqrt is not affine"),
    "normalizer": (number_pipeline(Normalizer()), "own norm is not affine"),
    "whitened": (number_pipeline(PCA(1, whiten=True)), "whiten=True"),
    "forest": (
        make_pipeline(PREPROCESSING["standard"], RandomForestClassifier(3)),
        "RandomForestClassifier cannot be read",
    ),
    "neighbours": (make_pipeline(split(("n", KNNImputer(), NUMBERS)), lm.LogisticRegression()), "other individuals"),
    "number_apart": (make_pipeline(split(("g", encoder(), ["income"])), lm.LogisticRegression()), "categorical"),
    "bins": (number_pipeline(bins(3)), "bins of a number are steps"),
    "threshold": (number_pipeline(Binarizer()), "a threshold of a number is a step"),
    "hinge": (make_pipeline(PREPROCESSING["standard"], lm.SGDClassifier()), "no probabilities"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_say_why(kind: str) -> None:
    model, reason = REFUSED[kind]
    frame = rows(100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(frame, outcome(frame))
    with pytest.raises(NetworkError, match=reason):
        Network.from_sklearn(model, schema())


def test_one_against_the_rest_is_refused() -> None:
    frame = rows(100)
    model = fitted(PREPROCESSING["standard"], lm.SGDClassifier(loss="log_loss"), frame, outcome(frame, ("a", "b", "c")))
    with pytest.raises(UnsupportedOperationError, match="one against the rest"):
        Network.from_sklearn(model, schema())


DROPPED: dict[str, Any] = {
    "remainder": split(("n", numbers(StandardScaler()), NUMBERS), remainder="drop"),
    "explicit": split(
        ("n", numbers(StandardScaler()), NUMBERS), ("c", encoder(), ["sex"]), ("d", "drop", ["id", "note", "job"])
    ),
    "inside": make_pipeline(
        split(("all", "passthrough", [*NUMBERS, "id"])), split(("n", numbers(MinMaxScaler()), [1]))
    ),
}


@pytest.mark.parametrize("kind", DROPPED)
@pytest.mark.parametrize("door", ["live", "skops"])
def test_columns_that_are_dropped_are_not_read(kind: str, door: str, tmp_path: Path) -> None:
    """A model that was fitted on a table with an ID and drops it needs no ID in the schema."""
    frame = rows(120).assign(id=[f"A-{i}" for i in range(120)], note="…")
    model = fitted(DROPPED[kind], lm.LogisticRegression(), frame, outcome(frame))
    if door == "live":
        network = Network.from_sklearn(model, schema())
    else:
        skops.io.dump(model, tmp_path / "model.skops")
        network = load_network(tmp_path / "model.skops", schema())
    agree(network, schema(), frame, own(model, frame))


def test_columns_that_are_read_must_be_in_the_schema() -> None:
    frame = rows(60).assign(id=np.arange(60.0))
    for steps in (
        split(("n", numbers(StandardScaler()), [*NUMBERS, "id"])),
        split(("n", numbers(StandardScaler()), NUMBERS), ("i", "passthrough", ["id"])),
        split(("n", numbers(StandardScaler()), NUMBERS), ("i", MissingIndicator(features="all"), ["id"])),
        split(("n", numbers(StandardScaler()), NUMBERS), ("i", encoder(), ["id"])),
    ):
        model = fitted(steps, lm.LogisticRegression(), frame, outcome(frame))
        with pytest.raises(NetworkError, match="reads a column 'id' that the schema lacks; it has 'age'"):
            Network.from_sklearn(model, schema())


def test_disagreements_with_the_schema() -> None:
    frame = rows(100, gaps=False)
    known = fitted(split(("c", OneHotEncoder(), ["sex", "job"])), lm.LogisticRegression(), frame, outcome(frame))
    with pytest.raises(NetworkError, match=r"'missing' of column 'job'.*unknown to the encoder.*a missing cell"):
        Network.from_sklearn(known, schema())
    gapless = fitted(split(("n", StandardScaler(), NUMBERS)), lm.LogisticRegression(), frame, outcome(frame))
    with pytest.raises(NetworkError, match=r"column 'income' may be missing.*imputer.*\[features.income\]"):
        Network.from_sklearn(gapless, schema())
    renamed = fitted(
        StandardScaler(), lm.LogisticRegression(), frame[["age"]].rename(columns={"age": "Age"}), outcome(frame)
    )
    with pytest.raises(NetworkError, match="'Age' that the schema lacks; did you mean 'age'"):
        Network.from_sklearn(renamed, schema())
    with pytest.raises(NetworkError, match="not fitted"):
        Network.from_sklearn(make_pipeline(StandardScaler(), lm.LogisticRegression()), schema(), reads="raw")
    with pytest.raises(NetworkError, match="give the schema"):
        Network.from_sklearn(gapless)
    with pytest.raises(ParameterError, match="estimator"):
        Network.from_sklearn(object(), schema())


def test_a_feature_union_with_weights() -> None:
    frame = rows(80)
    union = FeatureUnion(
        [("a", numbers(StandardScaler())), ("b", numbers(MinMaxScaler()))], transformer_weights={"b": 2.5}
    )
    model = fitted(split(("n", union, NUMBERS)), lm.Ridge(), frame, frame["age"])
    agree(Network.from_sklearn(model, schema()), schema(), frame, own(model, frame))


def test_missing_levels_of_an_ordinal_feature() -> None:
    people = Schema.from_toml(
        '[features.grade]\nkind = "ordinal"\ncategories = ["low", "mid", "high"]\nfill = "mid"\n'
        "origin = 0.3\nunit = 0.7\n[features.z]\nlow = 0\nhigh = 1\n"
    )
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"grade": draw.choice(["low", "mid", "high"], 80).astype(object), "z": draw.random(80)})
    frame.loc[draw.random(80) < 0.3, "grade"] = np.nan
    levels = [["low", "mid", "high", np.nan]]
    for steps in (
        make_pipeline(OrdinalEncoder(categories=levels), SimpleImputer(add_indicator=True)),
        OrdinalEncoder(categories=levels, encoded_missing_value=-4),
        make_pipeline(
            SimpleImputer(strategy="constant", fill_value="high"), OrdinalEncoder(categories=[levels[0][:3]])
        ),
    ):
        model = fitted(split(("g", steps, ["grade"]), remainder="passthrough"), lm.Ridge(), frame, frame["z"])
        agree(Network.from_sklearn(model, people), people, frame, own(model, frame))


def test_a_run_in_single_precision_stays_within_its_bound() -> None:
    people, frame = schema(), rows(300, gaps=False)
    scaler = StandardScaler().fit(frame[NUMBERS])
    columns = schema_columns(people)
    lines = required_values(
        columns[name].scaled(1 / Fraction(spread), shift=-Fraction(mean)).imputed(Fraction(0))  # type: ignore[union-attr]
        for name, mean, spread in zip(NUMBERS, map(float, scaler.mean_), map(float, scaler.scale_), strict=True)
    )
    affine, x = affine_of(lines, people.width, Allowance()), people.encode(frame).x
    raw = frame[NUMBERS].to_numpy(np.float32)
    run = (raw - scaler.mean_.astype(np.float32)) / scaler.scale_.astype(np.float32)
    magnitude, offset = sizes(affine)
    # Two roundings more than the chain has: here the mean and the scale are rounded to single precision too.
    bound = gamma(affine.roundings + 2, U32) * (np.abs(x) @ magnitude.T + offset)
    apart = np.abs(run - (x @ affine.weight.T + affine.bias))
    assert (apart <= bound).all()
    assert apart.max() > 1e-3 * bound.max()


def test_a_gap_that_the_model_spells_in_two_ways() -> None:
    people = Schema.from_toml(
        '[features.job]\ncategories = ["cook", "nurse"]\nmissing = "category"\nmissing_label = "?"\n'
    )
    frame = pd.DataFrame({"job": ["cook", "nurse", "?", None] * 10})
    steps = make_pipeline(SimpleImputer(strategy="constant", fill_value="cook"), OneHotEncoder())
    model = fitted(split(("j", steps, ["job"])), lm.Ridge(), frame, np.arange(40.0))
    with pytest.raises(NetworkError, match="tells apart"):
        Network.from_sklearn(model, people)


@pytest.mark.parametrize("kind", ["one", "two", "before_scaler", "inside", "search"])
def test_steps_that_do_nothing_leave_the_columns_their_names(kind: str) -> None:
    frame = rows(120, gaps=False)[NUMBERS]
    search = make_pipeline(StandardScaler(), lm.LogisticRegression())
    model = {
        "one": make_pipeline("passthrough", lm.LogisticRegression()),
        "two": make_pipeline(None, "passthrough", lm.LogisticRegression()),
        "before_scaler": make_pipeline("passthrough", StandardScaler(), lm.LogisticRegression()),
        "inside": make_pipeline(make_pipeline("passthrough", MinMaxScaler()), lm.LogisticRegression()),
        "search": GridSearchCV(search, {"standardscaler": ["passthrough"]}, cv=2),
    }[kind]
    people = Schema.from_toml(
        'name = "two"\n[label]\ncolumn = "outcome"\nclasses = ["no", "yes"]\n'
        "[features.age]\nlow = 18\nhigh = 90\norigin = 40\nunit = 12.5\n[features.income]\nlow = 0\nhigh = 300\n"
    )
    y = np.where(frame["age"] + frame["income"] / 5 > 85, "yes", "no")
    model.fit(frame, y)
    agree(Network.from_sklearn(model, people), people, frame, own(model, frame))
    model.fit(frame.to_numpy(), y)  # without names the columns may be coordinates
    with pytest.raises(NetworkError, match="say reads='raw' or reads='coordinates'"):
        Network.from_sklearn(model, people)


class Turned(GridSearchCV):
    """A search that answers by a method of its own."""

    def predict_proba(self, X: Any) -> Any:
        return super().predict_proba(X)[:, ::-1]


def test_other_methods_are_other_models() -> None:
    frame, y = rows(80, gaps=False)[NUMBERS].to_numpy(), [0, 1] * 40
    with pytest.raises(UnsupportedOperationError, match="Turned predicts by a method of its own"):
        Network.from_sklearn(Turned(lm.LogisticRegression(), {"C": [1.0]}, cv=2).fit(frame, y))
    model = lm.LogisticRegression().fit(frame, y)
    model.predict_proba = lambda x: np.full((len(x), 2), 0.5)
    with pytest.raises(UnsupportedOperationError, match="'predict_proba' of LogisticRegression was replaced"):
        Network.from_sklearn(model)


def test_two_kinds_of_gaps_are_refused() -> None:
    """Which of the two a missing cell is, a schema cannot say."""
    frame = rows(200)
    frame["job"] = pd.Series([None, np.nan, *frame["job"][2:]], dtype=object)
    model = make_pipeline(split(("c", encoder(), ["job"])), lm.LogisticRegression()).fit(frame, outcome(frame))
    with pytest.raises(NetworkError, match="None and NaN are two categories"):
        Network.from_sklearn(model, schema())


@pytest.mark.parametrize("strategy", ["median", "mean", "constant"])
@pytest.mark.parametrize("origin", [0, 2.0**46], ids=["small", "large"])
def test_whole_numbers_and_levels_that_may_be_missing(strategy: str, origin: float) -> None:
    """A filled whole number stays one if its fill is; a fill between two whole numbers has no bin."""
    low, high = int(origin), int(origin) + 60
    people = Schema(
        "gaps",
        (
            Feature("age", "integer", low=low, high=high, origin=1 / 3, unit=7.7, fill=low + 11.0),
            Feature("grade", "ordinal", categories=("a", "b", "c", "d"), missing="category", fill="c"),
        ),
        label=Label("y", ("no", "yes")),
    )
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(low, high + 1, 400).astype(float), "grade": rng.choice(list("abcd"), 400)}
    )
    frame = frame.astype({"grade": object}).mask(rng.random(frame.shape) < 0.2)
    fill = make_pipeline(SimpleImputer(strategy=strategy, fill_value=low - 3.0), bins(5))
    model = make_pipeline(split(("b", fill, ["age"]), ("g", encoder(), ["grade"])), lm.LogisticRegression(C=1e3))
    model.fit(frame, np.where(rng.random(400) < (frame["age"].fillna(low) - low) / 60, "yes", "no"))
    if strategy == "mean":
        with pytest.raises(UnsupportedOperationError, match="bins of a number are steps"):
            Network.from_sklearn(model, people)
        return
    agree(Network.from_sklearn(model, people), people, frame, own(model, frame))


def test_gaps_in_front_of_bins_are_refused() -> None:
    people = Schema.from_toml(schema().to_toml().replace("[features.age]", "[features.age]\nfill = 40"))
    model = make_pipeline(split(("b", bins(3), ["age"])), lm.LogisticRegression()).fit(rows(100), outcome(rows(100)))
    with pytest.raises(NetworkError, match="column 'age' may be missing, but nothing in the model fills it"):
        Network.from_sklearn(model, people)


def test_logarithms_of_booleans_are_refused() -> None:
    """numpy computes them in float16."""
    frame = rows(100).assign(sex=rows(100)["sex"] == "male")
    people = Schema.from_toml(schema().to_toml().replace('["female", "male"]', '["False", "True"]'))
    model = make_pipeline(split(("n", FunctionTransformer(np.log1p), ["sex"])), lm.LogisticRegression())
    with pytest.raises(UnsupportedOperationError, match="log1p of column 'sex' is not read: of false and true"):
        Network.from_sklearn(model.fit(frame, outcome(rows(100))), people)


def test_logarithms_have_no_bounds_on_the_unbounded_domain() -> None:
    """There numbers are below 0, where the network has 0 in the place of a logarithm."""
    frame, people = rows(40), schema()
    model = make_pipeline(split(("n", FunctionTransformer(np.log1p), ["age"])), lm.LogisticRegression())
    network = Network.from_sklearn(model.fit(frame, outcome(frame)), people)
    some, metric = Population.from_frame(frame, people), WeightedLp(np.ones(people.width), 2)
    assert certify_local(network, some, metric, 0.1, progress=None).upper.max() > 0
    with pytest.raises(UnsupportedOperationError, match="takes log1p of columns that the schema keeps from falling"):
        certify_local(network, some.with_domain("unbounded"), metric, 0.1, progress=None)
