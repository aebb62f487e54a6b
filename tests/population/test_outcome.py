"""The decision rule, and the label that says which outcome is favourable."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.errors import SchemaError
from isonomy.population.feature import Label
from isonomy.population.outcome import decided, favourable_places
from isonomy.population.schema import Schema

TEXT = """
[label]
column = "granted"
classes = ["no", "yes"]
favourable = {favourable}
threshold = 0.4

[features.pay]
low = 0
high = 1
"""


def test_a_score_equal_to_the_cut_off_is_on_the_favourable_side() -> None:
    half = np.array([[0.5, 0.5]])
    assert decided(half, Label("y", ("no", "yes"), favourable=("no",))).tolist() == [0]
    assert decided(half, Label("y", ("no", "yes"), favourable=("yes",))).tolist() == [1]
    assert decided(half, None).tolist() == [1]
    number = np.array([[3.0]])
    for favourable, given in (("low", 0), ("high", 1)):
        label = Label("y", favourable=(favourable,), threshold=3.0)
        assert decided(number, label, regression=True).tolist() == [given]


def test_the_threshold_is_that_of_the_favourable_class() -> None:
    scores = np.array([[0.3, 0.7], [0.29, 0.71]])
    assert decided(scores, Label("y", ("no", "yes"), favourable=("no",), threshold=0.3)).tolist() == [0, 1]
    assert decided(scores, Label("y", ("no", "yes"), threshold=0.705)).tolist() == [0, 1]


def test_ties_of_several_classes_go_to_a_favourable_one() -> None:
    tie = np.array([[0.4, 0.2, 0.4], [0.2, 0.4, 0.4]])
    assert decided(tie, Label("y", ("a", "b", "c"))).tolist() == [0, 1]
    assert decided(tie, Label("y", ("a", "b", "c"), favourable=("c",))).tolist() == [2, 2]


def test_a_regression_without_a_threshold_decides_nothing() -> None:
    assert decided(np.array([[3.0]]), Label("y"), regression=True).tolist() == [-1]


@pytest.mark.parametrize("favourable", ['"yes"', '["yes"]'])
def test_a_file_names_one_class_with_or_without_brackets(favourable: str) -> None:
    schema = Schema.from_toml(TEXT.format(favourable=favourable))
    assert schema.label is not None and schema.label.favourable == ("yes",) and schema.label.threshold == 0.4
    assert favourable_places(schema.label) == (1,)
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        ({"classes": ("no", "yes"), "favourable": ("perhaps",)}, "one or more, not all, of 'no', 'yes'"),
        ({"classes": ("no", "yes"), "favourable": ("yes", "no")}, "not all"),
        ({"favourable": ("yes",)}, "'high', 'low'"),
        ({"classes": ("no", "yes"), "threshold": 1.0}, "strictly between 0 and 1"),
        ({"classes": ("a", "b", "c"), "threshold": 0.5}, "more than two classes"),
        ({"threshold": float("inf")}, "a finite number"),
    ],
)
def test_a_label_that_makes_no_sense_is_refused(entries: dict[str, object], sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        Label("y", **entries)  # type: ignore[arg-type]
