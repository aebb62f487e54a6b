"""The trade-off and the repair: their promises are those of certificates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy.errors import NetworkError, ParameterError
from isonomy.networks import Network
from isonomy.training import CollapsedModelWarning, FairClassifier, FineTuning, Frontier, frontier, repair
from isonomy.training.onnx_file import write_onnx

QUICK = {"hidden": (24, 24), "epochs": 8, "batch_size": 32, "learning_rate": 3e-3, "random_state": 0, "progress": None}


@pytest.fixture(scope="module")
def german() -> isonomy.Population:
    return isonomy.load_population("german")


def test_the_frontier_and_the_best_model_certified(german: isonomy.Population) -> None:
    some, model = german.test[:30], FairClassifier(method="f-ibp", gamma=0.0, **QUICK)
    found = frontier(german, (0.0, 0.1, 0.5), model=model, judged_on=some)
    table = found.table
    assert {"accuracy", "balanced_accuracy", "auc", "log_loss"} <= set(table) & set(found.blind)
    assert found.blind == isonomy.fairness.blind_scores(german.train, some)
    assert list(table["alpha"]) == [0.0, 0.1, 0.5]
    assert table["upper"].is_monotonic_decreasing
    for row, model in zip(table.itertuples(), found.models, strict=True):
        assert row.accuracy == pytest.approx((model.predict(some) == some.y).mean())
        beaten = (table["accuracy"] >= row.accuracy) & (table["upper"] <= row.upper) & ~table["collapsed"]
        beaten &= (table["accuracy"] > row.accuracy) | (table["upper"] < row.upper)
        assert row.pareto == (not beaten.any() and not row.collapsed)
    epsilon = float(table["upper"].iloc[1])
    best = found.best(epsilon)
    assert best.certify(some, attack=False).upper <= epsilon
    assert (best.predict(some) == some.y).mean() == table["accuracy"][table["upper"] <= epsilon].max()
    with pytest.raises(ParameterError, match="larger 'alphas'"):
        found.best(0.0)
    with pytest.raises(ParameterError, match="'alphas'"):
        frontier(german, ())


def test_repair_reaches_epsilon_and_keeps_most_decisions(german: isonomy.Population) -> None:
    plain = FairClassifier("sgd", **QUICK).fit(german)
    some = german.test[:12]
    before = plain.certify(some, attack=False).upper
    found = repair(plain.network_, german, before / 2, judged_on=some, tuning=FineTuning(batch_size=32), progress=None)
    assert found.reached
    again = isonomy.certify(found.network, some, plain.metric_, gamma=0.1, attack=False, progress=None)
    assert again.delta == 1.0 and again.upper == found.certificate.upper <= before / 2
    same = found.network(some.x).argmax(axis=1) == plain.network_(some.x).argmax(axis=1)
    assert found.agreement == pytest.approx(same.mean())
    assert found.agreement > 0.8
    assert found.network.hash() != plain.network_.hash()
    scored = [isonomy.fairness.scores(network, some) for network in (plain.network_, found.network)]
    assert [found.before, found.after] == scored and {"accuracy", "auc", "log_loss"} <= set(found.after)
    assert found.blind == isonomy.fairness.blind_scores(german.train, some)


def test_repair_of_a_network_that_reads_what_is_free(german: isonomy.Population) -> None:
    """A plain network learned to the end, whose bound is large: most decisions stay, and so does accuracy."""
    metric = isonomy.SensitiveSubspace.fit(german.train)
    plain = FairClassifier("sgd", metric=metric, validation=0.0, **QUICK | {"epochs": 40}).fit(german)
    some = german.test[:40]
    assert plain.certify_local(some, attack=False).mean_upper > 0.3
    found = repair(
        plain.network_, german, 0.05, metric=metric, shift=isonomy.Transport(0.0), judged_on=some, progress=None
    )
    assert found.reached
    assert found.agreement > 0.8
    before, after = (
        (network(german.test.x).argmax(axis=1) == german.test.y).mean() for network in (plain.network_, found.network)
    )
    assert after > before - 0.03


def test_a_network_that_is_fair_already_is_left_alone(german: isonomy.Population) -> None:
    plain = FairClassifier("sgd", **QUICK).fit(german)
    found = repair(plain.network_, german, 1.0, metric=plain.metric_, judged_on=german.test[:5], progress=None)
    assert found.reached
    assert found.change == 0
    assert found.network is plain.network_


def test_repair_of_a_sigmoid_leaves_a_sigmoid(german: isonomy.Population, tmp_path: Path) -> None:
    """The same function with one raw output in place of two is repaired to the same decisions."""
    plain, some = FairClassifier("sgd", **QUICK).fit(german), german.test[:12]
    layers = [node for node in plain.network_.graph.nodes if node.kind == "affine"]
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    weights[-1], biases[-1] = weights[-1][1:] - weights[-1][:1], biases[-1][1:] - biases[-1][:1]
    one = Network.from_layers(weights, biases, head="sigmoid")
    np.testing.assert_allclose(one(some.x), plain.network_(some.x), atol=1e-9)
    options = {
        "metric": plain.metric_, "shift": isonomy.Transport(0.0), "judged_on": some,
        "tuning": FineTuning(batch_size=32), "progress": None,
    }  # fmt: skip
    before = plain.certify(some, gamma=0.0, attack=False).upper
    found, other = (repair(network, german, before / 2, **options) for network in (one, plain.network_))
    assert found.reached and found.network.head == "sigmoid" and found.network.classes == 1
    again = isonomy.certify(found.network, some, plain.metric_, gamma=0.0, attack=False, progress=None)
    assert again.upper == found.certificate.upper <= before / 2
    assert found.agreement > 0.8
    np.testing.assert_allclose(found.network(some.x), other.network(some.x), atol=0.05)
    for network in (one, found.network):  # the first has numbers that no float32 holds
        write_onnx(network, tmp_path / "model.onnx")
        read = isonomy.load_network(tmp_path / "model.onnx")
        assert read.head == "sigmoid"
        np.testing.assert_array_equal(read(some.x), network(some.x))


def test_repair_refuses_what_it_cannot_train(german: isonomy.Population) -> None:
    width = german.schema.width
    several = Network.from_layers([np.ones((3, width))], [np.zeros(3)], head="sigmoid")
    with pytest.raises(NetworkError, match="ends in 3 sigmoids; repair takes one of them"):
        repair(several, german, 0.1)
    bent = Network.from_layers([np.ones((3, width)), np.ones((2, 3))], [np.zeros(3), np.zeros(2)], activation="tanh")
    with pytest.raises(NetworkError, match="chain of affine layers"):
        repair(bent, german, 0.1)
    with pytest.raises(ParameterError, match="'epsilon'"):
        repair(bent, german, 0.0)


@pytest.mark.slow
def test_a_repair_that_decides_nothing_is_called_that(german: isonomy.Population) -> None:
    plain, metric = FairClassifier("sgd", **QUICK).fit(german), isonomy.WeightedLp.fit(german.train, order=2.0)
    hasty = FineTuning(trials=1, alpha=3000.0, learning_rate=5e-3, batch_size=32)
    with pytest.warns(CollapsedModelWarning, match=r"at most epsilon gives everybody the class '\w+.*decides nothing"):
        found = repair(
            plain.network_, german, 1e-4, metric=metric, delta=0.5, shift=isonomy.Transport(0.0),
            judged_on=german.test[:30], tuning=hasty, progress=None,
        )  # fmt: skip
    assert not found.reached and "decides nothing" in found.reason
    assert not found.collapsed and len(np.unique(found.network(german.test.x).argmax(axis=1))) == 2


def test_a_network_that_decides_nothing_cannot_be_repaired(german: isonomy.Population) -> None:
    """It is certified at every epsilon, and still no success."""
    width = german.schema.width
    constant = Network.from_layers([np.ones((3, width)), np.zeros((2, 3))], [np.zeros(3), np.array([1.0, 0.0])])
    metric = isonomy.WeightedLp.fit(german.train, order=2.0)
    with pytest.warns(CollapsedModelWarning, match="gives everybody the class"):
        found = repair(constant, german, 0.05, metric=metric, judged_on=german.test[:5], progress=None)
    assert found.certified and found.collapsed and not found.reached
    assert found.certificate.upper < 1e-9


def test_a_collapsed_model_is_never_the_best() -> None:
    table = pd.DataFrame({"alpha": [0.0, 1.0], "accuracy": [0.7, 0.8], "upper": [0.3, 0.0], "collapsed": [False, True]})
    models = (FairClassifier(), FairClassifier())
    found = Frontier(table, models)
    assert found.best(0.5) is models[0]
    with pytest.raises(
        ParameterError, match=r"epsilon = 0.1, the smallest upper bound is 0.3; 1 that would be is no b"
    ):
        found.best(0.1)
    with pytest.raises(ParameterError, match=r"^No model is named, all have collapsed"):
        Frontier(table[1:], models[1:]).best(0.1)


def test_of_equally_accurate_models_the_fairest_is_the_best() -> None:
    """Otherwise the model that is named is one that the table says another dominates."""
    table = pd.DataFrame({"alpha": [0.0, 1.0], "accuracy": [0.7, 0.7], "upper": [0.3, 0.1], "collapsed": [False] * 2})
    models = (FairClassifier(), FairClassifier())
    assert Frontier(table, models).best(0.5) is models[1]


def test_a_frontier_of_a_regression_is_refused() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 60, 60), "limit": rng.uniform(0, 9, 60)})
    schema = isonomy.Schema.infer(frame, label="limit")
    with pytest.raises(ParameterError, match=r"the label 'limit' is a number: train a regressor for each alpha"):
        frontier(isonomy.Population.from_frame(frame, schema), (0.0, 1.0), model=FairClassifier(**QUICK))
