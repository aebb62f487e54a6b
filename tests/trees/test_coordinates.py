"""Trees on coordinates give what trees on raw columns give: random ensembles over a schema of every kind of feature."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isonomy.errors import DataError, NetworkError
from isonomy.population import Schema
from isonomy.population.feature import Feature, Label
from isonomy.trees.coordinates import on_coordinates, sides_of
from isonomy.trees.forest import CATEGORY, NUMBER, NUMBER_NOT_ZERO, ZERO, Column, Forest
from isonomy.trees.model import TreeModel

FEATURES = (
    Feature("income", "numeric", low=-50.0, high=200.0, origin=12.5, unit=37.0, fill=20.0),
    Feature("age", "integer", low=18, high=90),
    Feature("grade", "ordinal", categories=("a", "b", "c", "d", "e")),
    Feature("sex", "categorical", categories=("f", "m")),
    Feature("job", "categorical", categories=("x", "y", "z"), missing="category"),
    Feature("zone", "categorical", categories=("1", "2", "3")),
)
SCHEMA = Schema("kinds", FEATURES, label=Label("good", ("no", "yes")))
COLUMNS = (
    Column("income"),
    Column("age"),
    Column("grade", ("a", "c", "e", "b", "d"), "label"),
    Column("job", ("y", "x"), "label", "side"),
    Column("sex_m"),
    Column("zone"),
    Column("grade_c"),
)


def random_forest(rng: np.random.Generator, trees: int = 4, depth: int = 4, outputs: int = 1) -> Forest:
    """Return an ensemble whose tests look at every kind of column, thresholds on and next to values."""
    parts: dict[str, list] = {name: [] for name in ("feature", "kind", "threshold", "subset", "mleft", "uleft")}
    left, right, masks = [], [], []

    def grow(level: int) -> int:
        node = len(left)
        for name, default in zip(parts, (-1, NUMBER, 0.0, -1, False, False), strict=True):
            parts[name].append(default)
        left.append(-1), right.append(-1)
        if level == 0 or rng.random() < 0.15:
            return node
        c = int(rng.integers(len(COLUMNS)))
        parts["feature"][node] = c
        parts["mleft"][node], parts["uleft"][node] = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
        if COLUMNS[c].categories:
            parts["kind"][node], parts["subset"][node] = CATEGORY, len(masks)
            masks.append(np.pad(rng.random(len(COLUMNS[c].categories)) < 0.5, (0, 5 - len(COLUMNS[c].categories))))
        elif COLUMNS[c].name == "income":
            parts["kind"][node] = int(rng.choice([NUMBER, NUMBER_NOT_ZERO]))
            parts["threshold"][node] = float(
                rng.choice([-20.0, -1e-36, 0.0, 1e-30, 13.7, 40.0, 500.0, -np.inf, np.inf])
            )
        else:
            parts["threshold"][node] = float(rng.choice([0.0, 0.5, 1.0, 2.5, 17.0, 30.5, 41.0, 90.0]))
        left[node], right[node] = grow(level - 1), grow(level - 1)
        return node

    roots = [grow(depth) for _ in range(trees)]
    n, output = len(left), rng.integers(0, outputs, trees).astype(np.int32)
    value = np.where(np.array(parts["feature"])[:, None] < 0, rng.normal(size=(n, 1)), 0.0)
    return Forest(
        COLUMNS, np.array(parts["feature"], np.int32), np.array(parts["kind"], np.int8), np.array(parts["threshold"]),
        np.array(parts["subset"], np.int32), np.array(masks or np.zeros((0, 5)), bool).reshape(-1, 5),
        np.array(parts["mleft"]), np.array(parts["uleft"]), np.array(left, np.int32), np.array(right, np.int32),
        np.arange(n, dtype=np.int32), value, np.array(roots, np.int32), output,
        rng.normal(size=outputs), "logistic" if outputs == 1 else "softmax", "random", "1",
        classes=("no", "yes") if outputs == 1 else (),
    )  # fmt: skip


def random_people(rng: np.random.Generator, n: int = 300) -> pd.DataFrame:
    """Return raw rows, numbers on thresholds and next to them."""
    income = rng.choice(
        [-20.0, 0.0, ZERO, -ZERO, 1e-30, 13.7, np.nextafter(13.7, 20), 40.0, 41.25, np.nan, -50.0, 200.0], n
    )
    return pd.DataFrame(
        {
            "income": income,
            "age": rng.integers(18, 91, n),
            "grade": rng.choice(list("abcde"), n),
            "sex": rng.choice(["f", "m"], n),
            "job": rng.choice(["x", "y", "z", None], n),
            "zone": rng.choice(["1", "2", "3"], n),
        }
    )


def as_read(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that the ensemble reads."""
    return frame.assign(
        sex_m=(frame["sex"] == "m").astype(float),
        grade_c=(frame["grade"] == "c").astype(float),
        zone=frame["zone"].astype(float),
    )


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=80)
def test_coordinates_reach_the_leaves_of_raw_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    forest, frame = random_forest(rng), random_people(rng)
    x, model = SCHEMA.encode(frame).x, TreeModel.of(forest, SCHEMA)
    raw = forest.margins(as_read(frame))
    # A coordinate cannot tell numbers apart that differ in their last bits: those rows are refused, not misread.
    income = frame["income"].to_numpy()
    close = (income == np.nextafter(13.7, 20)) | ((income != 0) & (np.abs(income) <= 1e-29))
    np.testing.assert_allclose(model.logits(x)[~close], raw[~close], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_trees_on_coordinates_are_read_as_they_are(seed: int) -> None:
    """One-hot coordinates, flags and numbers around zero, of people a coordinate of whom is zero."""
    rng = np.random.default_rng(seed)
    people, count = SCHEMA.encode(random_people(rng)).x, int(rng.integers(1, 5))
    columns = tuple(Column(name) for name in SCHEMA.coordinate_names)
    own = random_forest(rng, count)
    test = own.feature >= 0
    forest = dataclasses.replace(
        own, columns=columns, feature=np.where(test, rng.integers(0, SCHEMA.width, len(test)), -1).astype(np.int32),
        kind=np.where(test, rng.choice([NUMBER, NUMBER_NOT_ZERO], len(test)), NUMBER).astype(np.int8),
        threshold=rng.choice([-1.0, -0.3, -1e-36, 0.0, 1e-30, 0.25, 0.5, 1.0, np.inf], len(test)),
        subset=np.full(len(test), -1, np.int32),
    )  # fmt: skip
    people[::3, 0] = rng.choice([0.0, ZERO, -ZERO, 0.25, np.nextafter(0.25, 1)], len(people[::3]))
    people = people[people[:, 1] == 0]
    model = TreeModel.of(forest, SCHEMA, reads="coordinates")
    raw = forest.margins(pd.DataFrame(people, columns=list(SCHEMA.coordinate_names)))
    np.testing.assert_allclose(model.logits(people), raw, rtol=0, atol=1e-12)
    nodes, goes = sides_of(forest, SCHEMA, "coordinates", ("income", "sex"), people, pd.DataFrame())
    assert set(forest.feature[nodes]) <= {0, 1, *range(*SCHEMA.slices["sex"].indices(SCHEMA.width))}
    for node, own_sides in zip(nodes.tolist(), goes.T, strict=True):
        cell = people[:, forest.feature[node]]
        zero = (np.abs(cell) <= ZERO) & (forest.kind[node] == NUMBER_NOT_ZERO)
        assert np.array_equal(own_sides, np.where(zero, forest.missing_left[node], cell <= forest.threshold[node]))


def test_coordinates_as_categories_are_refused() -> None:
    columns = tuple(Column(name) for name in SCHEMA.coordinate_names)
    forest = dataclasses.replace(random_forest(np.random.default_rng(0)), columns=columns)
    with pytest.raises(NetworkError, match="as a category"):
        TreeModel.of(forest, SCHEMA, reads="coordinates")


def test_rows_that_share_a_coordinate_are_refused() -> None:
    rng = np.random.default_rng(0)
    schema = Schema("far", (Feature("income", "numeric", low=0.0, high=1e9, origin=1e8, unit=1.0),))
    forest = random_forest(rng, 1, 1)
    leaves = np.array([-1.0, 1.0])
    forest = dataclasses.replace(
        forest, columns=(Column("income"),), feature=np.array([0, -1, -1], np.int32), kind=np.zeros(3, np.int8),
        threshold=np.array([1e-9, 0, 0]), subset=np.full(3, -1, np.int32), masks=np.zeros((0, 2), bool),
        missing_left=np.zeros(3, bool), unseen_left=np.zeros(3, bool), left=np.array([1, -1, -1], np.int32),
        right=np.array([2, -1, -1], np.int32), leaf=np.arange(3, dtype=np.int32),
        value=np.array([0.0, *leaves])[:, None], root=np.zeros(1, np.int32), output=np.zeros(1, np.int32),
        base=np.zeros(1), classes=(),
    )  # fmt: skip
    model, frame = TreeModel.of(forest, schema), pd.DataFrame({"income": [0.0, 2e-9]})
    x = schema.encode(frame).x
    assert x[0] == x[1]
    model.check_rows(schema, frame[:1])
    with pytest.raises(DataError, match=r"Row 8: 'income' is 2e-09, so close to the threshold 1e-09 of 'random'"):
        model.check_rows(schema, frame, 7)


def test_classes_in_the_order_of_the_schema() -> None:
    rng = np.random.default_rng(1)
    forest, frame = random_forest(rng), random_people(rng)
    x = SCHEMA.encode(frame).x
    turned = dataclasses.replace(SCHEMA, label=Label("good", ("yes", "no")))
    straight, other = TreeModel.of(forest, SCHEMA), TreeModel.of(forest, turned)
    np.testing.assert_allclose(straight(x), other(x)[:, ::-1])
    assert other.named == ("yes", "no")
    with pytest.raises(NetworkError, match="are not those of the schema"):
        TreeModel.of(dataclasses.replace(forest, classes=("good", "bad")), SCHEMA)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (Column("wealth"), "a column 'wealth' that the schema 'kinds' lacks"),
        (Column("age", (1.0, 2.0), "label"), "declare it categorical"),
        (Column("sex"), "its category 'f', which is none"),
        (Column("income", missing=False), "lets 'income' be missing"),
        (Column("job", ("x", "y"), "label", "refused"), "The category 'z' of the schema cannot be read"),
    ],
)
def test_columns_that_do_not_fit(column: Column, message: str) -> None:
    forest = random_forest(np.random.default_rng(2), 3)
    at = {"wealth": 0, "age": 1, "sex": 5, "income": 0, "job": 3}[column.name]
    columns = tuple(column if i == at else each for i, each in enumerate(forest.columns))
    forest = dataclasses.replace(forest, columns=columns)
    if column.categories and at == 1:
        forest = dataclasses.replace(forest, feature=np.where(forest.feature >= 0, 1, -1).astype(np.int32))
    if at in (0, 3, 5):
        forest = dataclasses.replace(forest, feature=np.where(forest.feature >= 0, at, -1).astype(np.int32))
    if at == 3:
        forest = dataclasses.replace(
            forest, kind=np.full_like(forest.kind, CATEGORY), subset=np.zeros_like(forest.subset),
            masks=np.ones((1, 5), bool),
        )  # fmt: skip
    with pytest.raises(NetworkError, match=message):
        on_coordinates(forest, SCHEMA)


def test_links_without_bounds_are_refused() -> None:
    forest = dataclasses.replace(random_forest(np.random.default_rng(3)), link="exponential", classes=())
    with pytest.raises(NetworkError, match="link 'exponential', which has no bounds"):
        TreeModel.of(forest, SCHEMA)
