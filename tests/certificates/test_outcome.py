"""What a decision and its flip mean, for every head, cut-off and favourable side: by enumeration of everybody."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy import Network, WeightedLp, certify_local
from isonomy.errors import ParameterError
from isonomy.population import Feature, Label, Population, Schema
from isonomy.population.outcome import decided, named, outcome_of, rule

from .test_decide import lattice, network

EVERYBODY = np.array([[a / 5, b / 5, f] for a, b, f in itertools.product(range(11), range(11), (0.0, 1.0))])
ASKED = [
    (("softmax", 2), None), (("softmax", 2), 0.3), (("softmax", 2), 0.5), (("softmax", 3), None),
    (("sigmoid", 1), None), (("sigmoid", 1), 0.3), (("sigmoid", 3), None), (("regression", 1), 0.5),
    (("regression", 1), -0.4),
]  # fmt: skip


@pytest.mark.parametrize(("head", "threshold"), ASKED)
@pytest.mark.parametrize("place", [None, 0, 1])
@pytest.mark.parametrize("how", [{"decide": True}, {"tier": "exact", "time_limit": None, "max_nodes": 3000}])
def test_decisions_are_those_of_the_rule(
    head: tuple[Any, int], threshold: float | None, place: int | None, how: dict[str, Any]
) -> None:
    """Certified: nobody similar is decided otherwise. Flippable: the counterpart is. Several classes: any other one."""
    kind, outputs = head
    raw = network(outputs, (3, 6, outputs), kind, gain=4.0)
    layers = [node for node in raw.graph.nodes if node.kind == "affine"]
    biases = [layers[0].bias, layers[1].bias - np.median(raw.logits(EVERYBODY), axis=0)]  # all classes are given
    judged = Network.from_layers([layer.weight for layer in layers], biases, head=kind)
    names = ("low", "high") if kind == "regression" else tuple(map(str, range(2 if outputs == 1 else outputs)))
    favourable = None if place is None else names[place]
    x, metric = EVERYBODY[::9], WeightedLp([1.0, 1.0, 0.2], 2)
    found = certify_local(
        judged, x, metric, 0.21, domain=lattice(), threshold=threshold, favourable=favourable, progress=None, **how
    )
    outcome = outcome_of(None, 0 if kind == "regression" else len(names), favourable, threshold)
    assert found.problem.outcome == outcome and f"Decided is {rule(outcome)}." in str(found)

    def given(people: Any) -> Any:
        return decided(judged(people), outcome, regression=kind == "regression")

    mine, other, everybody = given(x), given(found.witnesses.flip_counterpart), given(EVERYBODY)
    for row, said in enumerate(found.decision):
        near = metric.distance(np.broadcast_to(x[row], EVERYBODY.shape), EVERYBODY) <= 0.21
        if said == "certified":
            assert (everybody[near] == mine[row]).all()
        if said == "flippable":
            assert other[row] != mine[row]
    assert {"certified", "flippable"} <= set(found.decision.tolist())


def test_several_classes_flip_between_two_that_are_not_favourable() -> None:
    """From 'refused' to 'waiting' the decision is another one, whoever hopes for neither."""
    three = Network.from_layers([np.array([[8.0], [-8.0], [0.0]])], [np.array([0.0, 8.0, -9.0])])
    found = certify_local(three, [[0.45]], WeightedLp([1.0], 2), 0.1, favourable="2", progress=None)
    assert found.decision.tolist() == ["flippable"] and found.favourable == ("2",)
    assert decided(three(found.witnesses.flip_counterpart), found.problem.outcome).tolist() == [0]
    assert decided(found.prediction, found.problem.outcome).tolist() == [1]


def test_a_regression_without_a_cut_off_has_no_decision() -> None:
    line = Network.from_layers([[[1.0]]], [[0.0]], head="regression")
    found = certify_local(line, [[0.5]], WeightedLp([1.0], 2), 0.1, progress=None)
    assert found.decision.tolist() == ["none"] and "Decided" not in str(found)
    assert rule(found.problem.outcome) == "nothing: a number has no decision without a cut-off"
    high = certify_local(line, [[0.5]], WeightedLp([1.0], 2), 0.1, threshold=0.55, progress=None)
    assert high.decision.tolist() == ["flippable"]
    two = Network.from_layers([np.ones((2, 1))], [np.zeros(2)], head="regression")
    with pytest.raises(ParameterError, match="'threshold' needs two classes or one number"):
        certify_local(two, [[0.5]], WeightedLp([1.0], 2), 0.1, threshold=0.5, progress=None)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (Label("y", ("bad", "good")), "'good' where it is at least as probable as 'bad', else 'bad'; none is named"),
        (Label("y", ("bad", "good"), favourable=("bad",)), "'bad' where it is at least as probable as 'good', else"),
        (
            Label("y", ("bad", "good"), favourable=("bad",), threshold=0.3),
            "'bad' from a probability of 0.3 on, else 'good'; 'bad' is favourable",
        ),
        (Label("y", ("a", "b", "c")), "the most probable of 3 classes; of equally probable ones the first; none is"),
        (
            Label("y", ("a", "b", "c"), favourable=("b", "c")),
            "of equally probable ones a favourable one, else the first; 'b' and 'c' are favourable",
        ),
        (Label("y", favourable=("low",), threshold=2.0), "'low' up to 2, else 'high'; 'low' is favourable"),
        (Label("y", threshold=2.0), "'high' from 2 on, else 'low'; none is named as favourable"),
    ],
)
def test_the_rule_in_words(label: Label, words: str) -> None:
    assert words in rule(label)


def test_decisions_by_name() -> None:
    two, places = Label("y", ("bad", "good"), favourable=("bad",)), np.array([0, 1, -1])
    assert named(places, two) == [("bad", True), ("good", False), (None, None)]
    assert named(places[:2], Label("y", ("bad", "good"))) == [("bad", None), ("good", None)]
    assert named(places[:2], Label("y", favourable=("high",), threshold=1.0)) == [("low", False), ("high", True)]


def test_a_label_whose_outputs_are_each_a_probability_has_no_threshold() -> None:
    """Two sigmoids are no two classes: their label's cut-off would be of one of them, whatever the other is."""
    schema = Schema("s", (Feature("a", low=0.0, high=1.0),), Label("y", ("no", "yes"), threshold=0.4))
    people = Population.from_frame(pd.DataFrame({"a": [0.5], "y": ["no"]}), schema)
    both = Network.from_layers([np.ones((2, 1))], [np.zeros(2)], head="sigmoid", name="both")
    with pytest.raises(ParameterError, match="'both' has 2 outputs, each a probability by itself"):
        certify_local(both, people, WeightedLp([1.0], 2), 0.1, progress=None)
