"""The flat form: thresholds exactly, hostile trees refused, evaluation, error of the library's own sum."""

from __future__ import annotations

import json
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isonomy.errors import DataError, FileError, NetworkError, ParameterError
from isonomy.trees import Column, read_trees
from isonomy.trees.assembly import Tree, assemble
from isonomy.trees.forest import CATEGORY, category_hash
from isonomy.trees.thresholds import at_most32, below32, largest_at_most
from isonomy.trees.ubjson import read_ubjson
from isonomy.trees.xgboost_reader import read_xgboost

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e38, max_value=1e38)


@given(SINGLES.filter(lambda t: abs(t) < 3e38))
def test_float32_less_than(t: float) -> None:
    limit = float(below32(t))
    assert np.float32(limit) < np.float32(t) <= np.float32(np.nextafter(limit, np.inf))


@given(DOUBLES)
def test_float32_at_most_a_double(t: float) -> None:
    limit = float(at_most32(t))
    assert float(np.float32(limit)) <= t < float(np.float32(np.nextafter(limit, np.inf)))


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-6, 1e6),
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5),
    st.sampled_from([np.float32, np.float64]),
)
def test_bisection_finds_the_last_number_that_passes(mean: float, scale: float, limits: list[float], kind: Any) -> None:
    def step(x: Any) -> Any:
        return ((x.astype(kind) - kind(mean)) / kind(scale)).astype(np.float64)

    limit = np.array(limits)
    last = largest_at_most(step, limit)
    finite = np.isfinite(last)
    assert (step(last[finite]) <= limit[finite]).all()
    with np.errstate(over="ignore"):
        assert not (step(np.nextafter(last[finite], np.inf)) <= limit[finite]).any()


def small(**changes: Any) -> Tree:
    """Two tests and three leaves."""
    parts: dict[str, Any] = {
        "feature": [0, 1, -1, -1, -1],
        "threshold": [0.5, 2.0, 0, 0, 0],
        "left": [1, 2, -1, -1, -1],
        "right": [4, 3, -1, -1, -1],
        "value": [0.0, 0.0, 1.0, 2.0, 3.0],
        "missing_left": [True, False, False, False, False],
        "output": 0,
    }
    return Tree(**(parts | changes))


ABOUT: dict[str, Any] = {"base": np.zeros(1), "link": "identity", "library": "test", "version": "1"}
COLUMNS = [Column("a"), Column("b")]


def test_evaluation() -> None:
    forest = assemble([small()], COLUMNS, **ABOUT)
    rows = {"a": [0.5, 0.6, np.nan, 0.0], "b": [2.0, 0.0, 3.0, np.nan]}
    assert forest.leaves(rows)[:, 0].tolist() == [2, 4, 3, 3]
    assert forest.margins(rows)[:, 0].tolist() == [1.0, 3.0, 2.0, 2.0]
    assert forest.hash() != assemble([small(threshold=[0.5, 2.5, 0, 0, 0])], COLUMNS, **ABOUT).hash()
    with pytest.raises(DataError, match="lacks the column 'b'"):
        forest.leaves({"a": [1.0]})
    with pytest.raises(DataError, match="Column 'b' must hold numbers"):
        forest.leaves({"a": [1.0], "b": ["x"]})


WRONG = [
    ({"left": [1, 9, -1, -1, -1]}, "tree 1, node 1: a child lies beyond the 5 nodes"),
    ({"left": [1, 0, -1, -1, -1]}, "tree 1, node 0: two nodes lead to it"),
    ({"right": [4, 2, -1, -1, -1]}, "tree 1, node 2: two nodes lead to it"),
    ({"right": [4, -1, -1, -1, -1]}, "tree 1, node 1: it has one child"),
    ({"threshold": [np.nan, 2.0, 0, 0, 0]}, "tree 1, node 0: its threshold is not a number"),
    ({"value": [0, 0, np.inf, 2.0, 3.0]}, "tree 1, node 2: its value is not a finite number"),
    ({"feature": [0, 7, -1, -1, -1]}, "tree 1, node 1: it tests a column that is none of the 2"),
    ({"kind": [CATEGORY, 0, 0, 0, 0]}, "tree 1, node 0: it compares a category with a number"),
    ({"left": [], "right": []}, "tree 1, node 0: the tree has no node"),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG, ids=[sentence[:40] for _, sentence in WRONG])
def test_what_is_no_tree_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NetworkError, match=sentence):
        assemble([small(), small(**changes)], COLUMNS, **ABOUT)


def test_outputs_that_are_not_there_are_refused() -> None:
    with pytest.raises(NetworkError, match="tree 1: it adds to an output that is none of the 1"):
        assemble([small(), small(output=3)], COLUMNS, **ABOUT)
    content = json.loads(json.dumps(XGBOOST))
    content["learner"]["learner_model_param"]["num_class"] = "1000000000"
    with pytest.raises(NetworkError, match="1,000,000,000 outputs, more than can be read"):
        read_xgboost(content)


def test_endless_depth_is_refused() -> None:
    size = 5001
    left = [i + 1 if i % 2 == 0 and i + 2 < size else -1 for i in range(size)]
    right = [i + 2 if i % 2 == 0 and i + 2 < size else -1 for i in range(size)]
    chain = Tree(0, 0.0, left, right, np.zeros(size), False, output=0)
    with pytest.raises(NetworkError, match=r"tree 0, node .*: it is more than 1024 tests deep"):
        assemble([chain], COLUMNS, **ABOUT)


@given(st.lists(st.lists(st.floats(-10, 10, width=32), min_size=3, max_size=3), min_size=1, max_size=60), SINGLES)
def test_the_error_of_a_float32_sum_is_bounded(leaves: list[list[float]], base: float) -> None:
    """For sums in three orders, against rational arithmetic."""
    base = float(np.clip(base, -1e3, 1e3).astype(np.float32))
    trees = [small(value=[0, 0, *values]) for values in leaves]
    forest = assemble(trees, COLUMNS, **(ABOUT | {"base": np.array([base]), "unit": 2.0**-24}))
    rows = {"a": [0.0, 1.0], "b": [0.0, 0.0]}
    for row, place in enumerate((2, 4)):
        parts = np.array([base, *(values[place - 2] for values in leaves)], dtype=np.float32)
        exact = sum(map(Fraction, parts.tolist()), Fraction(0))
        for order in (parts, parts[::-1], np.sort(parts)):
            total = np.float32(0)
            for part in order:
                total += part
            error = abs(Fraction(float(total)) - exact)
            assert error <= Fraction(float(forest.run_error(rows)[row, 0])) <= Fraction(float(forest.run_error()[0]))


def test_hashes_of_every_length() -> None:
    """Against CatBoost itself: a one-hot split for each of many texts."""
    catboost = pytest.importorskip("catboost", reason="CatBoost is not installed")
    names = ["".join(chr(97 + (i * 7 + j) % 26) for j in range(i)) for i in (*range(1, 70), 127, 128, 129, 200)]
    rows = [[name] for name in names for _ in range(3)]
    y = np.repeat(np.random.default_rng(0).normal(size=len(names)), 3)
    model = catboost.CatBoostRegressor(
        iterations=300, depth=2, one_hot_max_size=255, verbose=0, allow_writing_files=False, thread_count=1
    ).fit(rows, y, cat_features=[0])  # fmt: skip
    forest = read_trees(model)
    known = set(forest.columns[0].categories)
    assert known <= {float(category_hash(name)) for name in names}
    lengths = [len(name) for name in names if float(category_hash(name)) in known]
    for low, high in ((1, 3), (4, 8), (9, 16), (17, 32), (33, 64), (65, 200)):
        assert any(low <= length <= high for length in lengths)
    assert np.array_equal(forest.leaves(np.array(rows)), model.calc_leaf_indexes(rows))
    assert category_hash(3.0) == category_hash(3) == category_hash("3")


def test_ubjson() -> None:
    assert read_ubjson(b"{i\x01aSi\x02hii\x01b[i\x01U\xff]i\x01cZ}") == {"a": "hi", "b": [1, 255], "c": None}
    array = read_ubjson(b"[$d#i\x02\x3f\x80\x00\x00\x40\x00\x00\x00")
    assert array.tolist() == [1.0, 2.0]
    for data in (b"", b"{", b"[$d#l\x7f\xff\xff\xff", b"Si\x7f", b"[" * 200, b"{i\x01aTi\x01aT}", b"TT", b"q", b"[$d"):
        with pytest.raises(FileError):
            read_ubjson(data)


@given(st.binary(max_size=60))
def test_damaged_ubjson_is_refused_or_read(data: bytes) -> None:
    with suppress(FileError):
        read_ubjson(data)


@given(st.data())
def test_edited_files_are_refused_in_one_sentence_or_read(data: st.DataObject) -> None:
    """Numbers of a small model are replaced; whatever comes out is an error of ours, or a forest that evaluates."""
    from isonomy.errors import IsonomyError

    content = json.loads(json.dumps(XGBOOST))
    tree = content["learner"]["gradient_booster"]["model"]["trees"][0]
    name = data.draw(
        st.sampled_from(["left_children", "right_children", "split_indices", "split_conditions", "split_type"])
    )
    values = st.sampled_from([-5, -1, 0, 1, 2, 3, 7, 2**31, float("nan"), float("inf")])
    tree[name][data.draw(st.integers(0, 2))] = data.draw(values)
    try:
        forest = read_xgboost(content)
    except (IsonomyError, ValueError, OverflowError):
        return
    assert forest.leaves(np.zeros((2, 1))).shape == (2, 1)


XGBOOST = {
    "version": [3, 2, 0],
    "learner": {
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "learner_model_param": {"base_score": "[5E-1]", "num_class": "0", "num_feature": "1", "num_target": "1"},
        "objective": {"name": "binary:logistic"},
        "gradient_booster": {
            "name": "gbtree",
            "model": {
                "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "1"},
                "iteration_indptr": [0, 1],
                "tree_info": [0],
                "trees": [
                    {
                        "left_children": [1, -1, -1],
                        "right_children": [2, -1, -1],
                        "split_indices": [0, 0, 0],
                        "split_conditions": [0.5, -1.0, 1.0],
                        "split_type": [0, 0, 0],
                        "default_left": [1, 0, 0],
                        "tree_param": {"size_leaf_vector": "1"},
                    }
                ],
            },
        },
    },
}


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    for text, sentence in (
        ("{}", "neither of XGBoost nor of CatBoost"),
        ('{"name": "tree"}', "LightGBM's JSON dump"),
        ("hello", "is none of: XGBoost JSON"),
        ("tree\nversion=v2\n", "its format is v2; v3 and v4 can be read"),
        ("tree\nversion=v4\n", "cut off"),
        ('{"learner": {}}', "damaged or not a tree ensemble"),
        ("{" + '"a":[' * 100000, "damaged|nested"),
    ):
        path.write_text(text)
        with pytest.raises(FileError, match=sentence):
            read_trees(path)
    with pytest.raises(FileError, match="There is no file"):
        read_trees(tmp_path / "nothing.json")
    with pytest.raises(ParameterError, match="'source' must be a path, or a fitted tree model"):
        read_trees(3)
    path.write_text(json.dumps(XGBOOST))
    assert read_trees(path).outputs([[0.0]]).shape == (1, 2)
    with pytest.raises(ParameterError, match="'trees' must be 'all', 'best' or a number"):
        read_trees(path, trees="some")  # type: ignore[arg-type]
