"""``[model.inputs]``, what a model without its pipeline reads; and the comparison with reference predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.errors import IsonomyError, NetworkError, ParameterError, SchemaError
from isonomy.networks import Network, check_predictions, schema_adapter
from isonomy.networks.inputs import input_columns
from isonomy.networks.preprocessing import imputed, scaled, schema_columns
from isonomy.population.population import Population
from isonomy.population.schema import Schema

from .people import rows, schema

INPUTS = """
[model.inputs]
columns = ["sex", "age", "job", "income", "grade", "union", "age"]
scale = "none"

[model.inputs.age]
scale = "standard"
mean = 38.7
std = 13.1

[model.inputs.income]
scale = "minmax"
min = 10
max = 250
to = [-1, 1]
missing = 42.5
indicator = true

[model.inputs.sex]
encode = "onehot"
categories = ["male", "female"]
drop = "first"

[model.inputs.job]
categories = ["nurse", "missing", "clerk", "judge", "cook"]
indicator = true

[model.inputs.grade]
encode = "values"
values = { low = -1.5, mid = 0, high = 1.5 }
"""


def table(frame: pd.DataFrame) -> np.ndarray:
    """What INPUTS says, by hand."""
    age = (frame["age"] - 38.7) / 13.1
    income = (frame["income"].fillna(42.5) - 10) / 120 - 1
    jobs = [frame["job"] == name for name in ("nurse", "?", "clerk", "judge", "cook")]
    jobs[1] = frame["job"].isna()
    grade = frame["grade"].map({"low": -1.5, "mid": 0.0, "high": 1.5})
    sex = frame["sex"] == "female"
    parts = [sex, age, *jobs, frame["job"].isna(), income, frame["income"].isna(), grade, frame["union"], age]
    return np.column_stack(parts).astype(float)


def applied(people: Any, frame: pd.DataFrame, **options: Any) -> np.ndarray:
    adapter = schema_adapter(people, **options)
    x = people.encode(frame).x
    return np.asarray(x @ adapter.weight.T + adapter.bias)


def test_the_whole_table() -> None:
    people, frame = schema(INPUTS), rows(100)
    np.testing.assert_allclose(applied(people, frame), table(frame), atol=1e-12)
    again = type(people).from_toml(people.to_toml())
    np.testing.assert_array_equal(applied(again, frame), applied(people, frame))


SMALL: dict[str, tuple[str, Any]] = {
    "raw": ('columns = ["age"]', lambda f: f["age"]),
    "coordinate": ('columns = ["age"]\nscale = "coordinate"', lambda f: (f["age"] - 40) / 12.5),
    "robust": (
        'columns = ["age"]\n[model.inputs.age]\nscale = "robust"\ncenter = 30\nscaling = 7',
        lambda f: (f["age"] - 30) / 7,
    ),
    "maxabs": ('columns = ["age"]\n[model.inputs.age]\nscale = "maxabs"\nmax = 90', lambda f: f["age"] / 90),
    "affine": (
        'columns = ["age"]\n[model.inputs.age]\nscale = "affine"\nfactor = 0.1\noffset = -3',
        lambda f: f["age"] * 0.1 - 3,
    ),
    "fill": ('columns = ["income"]', lambda f: f["income"].fillna(37.3)),
    "rank": ('columns = ["grade"]', lambda f: f["grade"].map({"low": 0, "mid": 1, "high": 2})),
    "rank_scaled": (
        'columns = ["grade"]\n[model.inputs.grade]\nscale = "standard"\nmean = 1\nstd = 2',
        lambda f: (f["grade"].map({"low": 0, "mid": 1, "high": 2}) - 1) / 2,
    ),
    "rank_reversed": (
        'columns = ["grade"]\n[model.inputs.grade]\nencode = "ordinal"\ncategories = ["high", "mid", "low"]',
        lambda f: f["grade"].map({"low": 2, "mid": 1, "high": 0}),
    ),
    "codes": (
        'columns = ["sex"]\n[model.inputs.sex]\nencode = "ordinal"',
        lambda f: f["sex"].map({"female": 0, "male": 1}),
    ),
    "if_binary": (
        'columns = ["sex"]\n[model.inputs.sex]\ndrop = "if_binary"',
        lambda f: f["sex"].map({"female": 0, "male": 1}),
    ),
    "drop_name": ('columns = ["sex"]\n[model.inputs.sex]\ndrop = "male"', lambda f: f["sex"] == "female"),
}


@pytest.mark.parametrize("kind", SMALL)
def test_scales_and_encodings(kind: str) -> None:
    text, expected = SMALL[kind]
    frame = rows(60)
    given = applied(schema(f"[model.inputs]\n{text}\n"), frame)
    np.testing.assert_allclose(given[:, 0], expected(frame).astype(float), atol=1e-12)
    assert given.shape[1] == 1


MISTAKES = {
    "columns = 3": "must be a list",
    'columns = ["aeg"]': "did you mean 'age'",
    'colums = ["age"]': "did you mean 'columns'",
    '[model.inputs.age]\nscale = "standart"': "did you mean 'standard'",
    '[model.inputs.age]\nscale = "standard"\nmean = 3': "needs 'std'",
    '[model.inputs.age]\nscale = "standard"\nmean = 3\nstd = 0': "must not be zero",
    '[model.inputs.age]\nscale = "minmax"\nmin = 3\nmax = 3': "must not be zero",
    '[model.inputs.age]\nscale = "minmax"\nmin = 3\nmax = 4\nto = 7': "two numbers",
    "[model.inputs.age]\nmean = 3": "'mean' is not a key",
    '[model.inputs.age]\nencode = "onehot"': "categorical",
    "[model.inputs.age]\nindicator = true": "has no indicator",
    '[model.inputs.age]\nscale = "standard"\nmean = nan\nstd = 1': "finite number",
    '[model.inputs.sex]\nencode = "onehot"\ncategories = ["male"]': "lacks 'female'",
    '[model.inputs.sex]\ndrop = "mail"': "'drop' must be",
    '[model.inputs.sex]\nencode = "values"\nvalues = { male = 1 }': "lacks 'female'",
    '[model.inputs.sex]\nencode = "values"': "needs 'values'",
    '[model.inputs.sex]\nencode = "number"': "holds categories",
    '[model.inputs.sex]\nscale = "coordinate"': "one-hot block",
    '[model.inputs.grade]\nencode = "onehot"': "categorical",
    'columns = ["age"]\n[model.inputs.sex]\nencode = "onehot"': "does not list",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named(text: str) -> None:
    with pytest.raises((SchemaError, NetworkError), match=MISTAKES[text]):
        schema_adapter(schema(f"[model.inputs]\n{text}\n"))


def test_without_a_table_the_number_decides() -> None:
    people, frame = schema(), rows(20)
    x = people.encode(frame).x
    np.testing.assert_array_equal(applied(people, frame, width=people.width), x)
    with pytest.raises(NetworkError, match=r"reads 7 numbers.*\[model.inputs\]"):
        schema_adapter(people, 7)
    with pytest.raises(NetworkError, match="gives 13 numbers, but the model reads 7"):
        schema_adapter(schema(INPUTS), 7)
    blind = type(people).from_toml(people.to_toml().replace("protected = true", "protected = true\nseen = false"))
    kept = [i for i, name in enumerate(people.coordinate_names) if not name.startswith("sex")]
    np.testing.assert_array_equal(applied(blind, frame, width=len(kept)), x[:, kept])


def test_reference_predictions() -> None:
    people, frame = schema(INPUTS), rows(80)
    draw = np.random.default_rng(0)
    weights = [draw.standard_normal((6, 13)), draw.standard_normal((1, 6))]
    biases = [draw.standard_normal(6), draw.standard_normal(1)]
    model = Network.from_layers(weights, biases, head="sigmoid")
    reference = model(table(frame))
    network = model.adapted(schema_adapter(people))
    for given in (reference, reference[:, 1]):
        assert check_predictions(network, frame, given, schema=people).largest < 1e-12
    assert check_predictions(network, Population.from_frame(frame, people), reference).rows == 80
    assert check_predictions(network, people.encode(frame).x, reference).rows == 80
    names = np.array(["no", "yes"])[reference.argmax(1)]
    assert check_predictions(network, frame, names, schema=people).rows == 80
    wrong = reference.copy()
    wrong[17:19] += 1e-3
    with pytest.raises(NetworkError, match=r"in row 17: .* \(2 of 80 rows"):
        check_predictions(network, frame, wrong, schema=people)
    names[23] = "no" if names[23] == "yes" else "yes"
    with pytest.raises(NetworkError, match="in row 23"):
        check_predictions(network, frame, names, schema=people)
    swapped = model.adapted(schema_adapter(schema(INPUTS.replace("mean = 38.7", "mean = 38.9"))))
    with pytest.raises(NetworkError, match="check the order, scaling and encoding"):
        check_predictions(swapped, frame, reference, schema=people)


@pytest.mark.parametrize(
    ("reference", "options"),
    [(np.zeros(3), {}), (np.zeros((80, 3)), {}), (["maybe"] * 80, {}), (np.zeros(80), {"tolerance": -1})],
)
def test_unusable_references(reference: Any, options: Any) -> None:
    network = Network.from_layers([np.ones((1, schema().width))], [np.zeros(1)], head="sigmoid")
    with pytest.raises(ParameterError):
        check_predictions(network, rows(80), reference, schema=schema(), **options)
    with pytest.raises(IsonomyError, match="schema"):
        check_predictions(network, rows(80), reference)


def test_the_documented_example_is_read() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    example = text.split("```toml\n")[1].split("```")[0]
    people = schema(example)
    columns = input_columns(people, schema_columns(people))
    assert [column.name for column in columns] == [
        "age",
        "income",
        "income",
        "sex",
        "job",
    ]


def test_a_missing_level() -> None:
    text = '[features.grade]\nkind = "ordinal"\ncategories = ["low", "mid", "high"]\nfill = "mid"\n'
    text += "origin = 0.3\nunit = 0.7\n"
    frame = pd.DataFrame({"grade": ["low", "mid", "high", None]})
    for extra, expected in (
        ("", [0, 1, 2, 1]),
        ("missing = -5\nindicator = true\n", [0, 1, 2, -5]),
        ('encode = "values"\nvalues = { low = 1, mid = 3, high = 5, missing = 9 }\n', [1, 3, 5, 9]),
    ):
        people = Schema.from_toml(f"{text}[model.inputs.grade]\n{extra}")
        given = applied(people, frame)
        np.testing.assert_allclose(given[:, 0], expected, atol=1e-12)
        if given.shape[1] > 1:
            np.testing.assert_array_equal(given[:, 1], [0, 0, 0, 1])


def test_a_category_called_none_is_kept() -> None:
    text = '[features.job]\nkind = "categorical"\ncategories = ["none", "cook"]\n'
    people = Schema.from_toml(text + '[model.inputs.job]\nencode = "onehot"\n')
    frame = pd.DataFrame({"job": ["none", "cook"]})
    np.testing.assert_array_equal(applied(people, frame), [[1, 0], [0, 1]])


def test_a_scale_for_some_of_the_columns_is_refused() -> None:
    columns = list(schema_columns(schema()).values())[:1] * 3
    assert len(scaled(columns, minus=[1.0], over=[1.0, 2.0, 3.0])) == 3
    with pytest.raises(NetworkError, match=r"one for each of 3 columns\. Got 2"):
        scaled(columns, minus=[1.0, 2.0])
    with pytest.raises(NetworkError, match="Got 0"):
        imputed(columns, [])


PLAIN = "low = 0\nhigh = 3\nunit = 1\norigin = 0\n"
AMBIGUOUS = {
    "ranks": f'[features.grade]\nkind = "ordinal"\ncategories = ["1", "2", "3"]\nunit = 1\n[features.a]\n{PLAIN}',
    "gaps": f"[features.a]\n{PLAIN}fill = 1\n[features.b]\n{PLAIN}seen = false\n",
    "marks": f'[features.a]\n{PLAIN}[features.sex]\ncategories = ["0", "1"]\n[features.b]\n{PLAIN}seen = false\n',
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_columns_that_may_be_coordinates_are_not_guessed(kind: str) -> None:
    """As many raw columns as coordinates, of unit 1, and other numbers all the same."""
    schema = Schema.from_toml(AMBIGUOUS[kind])
    with pytest.raises(NetworkError, match="say reads='raw' or reads='coordinates'"):
        schema_adapter(schema, len(schema.features))
    plain = Schema.from_toml(f"[features.a]\n{PLAIN}[features.b]\n{PLAIN}")
    assert np.array_equal(schema_adapter(plain, 2).weight, np.eye(2))
