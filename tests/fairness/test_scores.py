"""How well predictions agree with outcomes: beside scikit-learn's numbers, and by the one rule of decisions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from isonomy import Network
from isonomy.fairness import scores
from isonomy.population import Feature, Label, Population, Schema
from isonomy.population.outcome import decided

FEATURES = (
    Feature("a", low=-4.0, high=4.0, origin=0.0, unit=1.0),
    Feature("b", low=-4.0, high=4.0, origin=0.0, unit=1.0),
)


def _people(rng: np.random.Generator, label: Label, y: np.ndarray, n: int = 300) -> Population:
    x = np.round(rng.normal(size=(n, 2)).clip(-4, 4), 1)  # ties
    outcome = np.array(label.classes)[y] if label.classes else y
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": outcome, "w": rng.gamma(1.0, 1.0, n)})
    return Population.from_frame(frame, Schema(name="small", features=FEATURES, label=label, weight="w"))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [("no", "yes"), ("a", "b", "c")])
def test_they_are_those_of_scikit_learn(seed: int, classes: tuple[str, ...]) -> None:
    rng, k = np.random.default_rng(seed), len(classes)
    people = _people(rng, Label("y", classes), rng.integers(0, k, 300))
    network = Network.from_layers([rng.normal(size=(k, 2))], [rng.normal(size=k)])
    given, found, weights = network(people.x), scores(network, people), people.weights
    choice = given.argmax(1)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(people.y, choice, sample_weight=weights))
    balanced = metrics.balanced_accuracy_score(people.y, choice, sample_weight=weights)
    assert found["balanced_accuracy"] == pytest.approx(balanced)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(people.y, given, sample_weight=weights, labels=range(k)))
    assert found["classes"] == len(np.unique(choice))
    if k == 2:
        auc = metrics.roc_auc_score(people.y, given[:, 1], sample_weight=weights)
        assert found["auc"] == pytest.approx(auc)
    else:
        assert "auc" not in found


@pytest.mark.parametrize("favourable", ["no", "yes"])
def test_accuracy_is_that_of_the_decisions(favourable: str) -> None:
    """A cut-off of .8 for the favourable class is one of .2 for the other: accuracy follows the label."""
    rng = np.random.default_rng(4)
    label = Label("y", ("no", "yes"), favourable=(favourable,), threshold=0.8)
    people = _people(rng, label, rng.integers(0, 2, 300))
    network = Network.from_layers([np.array([[1.0, 1.0]])], [np.zeros(1)], head="sigmoid")
    p = network(people.x)[:, label.classes.index(favourable)]
    given = np.where(p >= 0.8, favourable == "yes", favourable != "yes").astype(int)
    found = scores(network, people)
    assert found["accuracy"] == pytest.approx(np.average(given == people.y, weights=people.weights))
    assert found["accuracy"] != pytest.approx(scores(network, people, Label("y", ("no", "yes")))["accuracy"])


@pytest.mark.parametrize("favourable", [(), ("low",), ("high",)])
def test_a_regression_has_errors_and_with_a_cut_off_sides(favourable: tuple[str, ...]) -> None:
    rng = np.random.default_rng(5)
    network = Network.from_layers([np.array([[1.0, 0.0]])], [np.zeros(1)], head="regression")
    label = Label("y", favourable=favourable)
    people = _people(rng, label, np.round(rng.normal(size=300), 1))
    given, weights = network(people.x)[:, 0], people.weights
    found = scores(network, people)
    error = metrics.mean_absolute_error(people.y, given, sample_weight=weights)
    assert found["mean_absolute_error"] == pytest.approx(error)
    assert found["r2"] == pytest.approx(metrics.r2_score(people.y, given, sample_weight=weights))
    assert set(found) == {"mean_absolute_error", "r2"}
    found, low = scores(network, people, replace(label, threshold=0.1)), favourable == ("low",)
    sides = [v > 0.1 if low else v >= 0.1 for v in (given, people.y)]
    assert found["accuracy"] == pytest.approx(np.average(sides[0] == sides[1], weights=weights))


def test_a_probability_of_zero_costs_a_finite_loss() -> None:
    rng = np.random.default_rng(6)
    people = _people(rng, Label("y", ("no", "yes")), np.ones(300, dtype=int))
    network = Network.from_layers([np.zeros((2, 2))], [np.array([2000.0, 0.0])])
    found = scores(network, people)
    assert found["log_loss"] == pytest.approx(-np.log(1e-15)) and "auc" not in found  # one class alone has no pairs


def test_two_independent_outputs_are_decided_by_the_larger() -> None:
    """.7 and .9, .1 and .3: without a cut-off the more probable one is given, as the kernel has it."""
    given = np.array([[0.7, 0.9], [0.3, 0.1], [0.5, 0.5]])
    assert decided(given, Label("y", ("no", "yes"))).tolist() == [1, 0, 1]
    assert decided(given, Label("y", ("no", "yes"), favourable=("no",))).tolist() == [1, 0, 0]
