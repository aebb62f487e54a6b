"""The trade-off and the repair: their promises are those of certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy.errors import NetworkError, ParameterError
from isonomy.networks import Network
from isonomy.training import CollapsedModelWarning, FairClassifier, FineTuning, Frontier, frontier, repair
from isonomy.training.choice import MARGIN
from isonomy.training.onnx_file import affine_layers, write_onnx
from isonomy.training.repairing import _Judge

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
    epsilon = float(table["aside_upper"].iloc[1]) / MARGIN + 1e-12
    allowed = table[(table["aside_upper"] <= MARGIN * epsilon) & ~table["collapsed"]]
    assert found.place(epsilon) == allowed["aside_log_loss"].idxmin() and found.best(epsilon) in found.models
    with pytest.raises(ParameterError, match="larger 'alphas'"):
        found.best(0.0)
    with pytest.raises(ParameterError, match="'alphas'"):
        frontier(german, ())


def test_nobody_who_is_judged_names_a_model(german: isonomy.Population) -> None:
    """Other people judged: another table, the same model named."""
    model = FairClassifier(method="f-ibp", gamma=0.0, **QUICK)

    def measure(one: FairClassifier, people: isonomy.Population) -> float:
        seen.append(set(people.rows))
        return float(one.alpha)

    seen: list[set[int]] = []
    first, second = (
        frontier(german, (0.0, 0.1), model=model, judged_on=some, measure=measure)
        for some in (german.test[:30], german.test[30:60])
    )
    assert first.place(1.0) == second.place(1.0) and not first.table["accuracy"].equals(second.table["accuracy"])
    pd.testing.assert_series_equal(first.table["aside_log_loss"], second.table["aside_log_loss"])
    test = set(german.test.rows)
    judged, aside = seen[0], seen[1]
    assert judged <= test and not aside & test and aside <= set(german.train.rows)


@pytest.mark.slow
def test_scorecards_the_regression_and_a_given_network_stand_beside(german: isonomy.Population) -> None:
    some, quick = german.test[:4], QUICK | {"epochs": 2, "gamma": 0.0, "judged": 2}
    given = FairClassifier("sgd", **quick).fit(german).network_
    found = frontier(
        german, (0.3,), model=FairClassifier(**quick), methods=("scorecard", "residual"), seeds=2, given=given,
        judged_on=some,
    )  # fmt: skip
    table, curve = found.table, found.curve
    assert {"regression", "additive", "residual", "given"} <= set(table["method"]) and len(found.models) == len(table)
    assert found.models[-1].network_.hash() == given.on(german.schema).hash()
    mine = table[(table["method"] == "residual")]
    assert len(mine) == 2 and not mine["collapsed"].any()
    row = curve[curve["method"] == "residual"].iloc[0]
    assert row["seeds"] == 2 and row["log_loss"] == pytest.approx(mine["log_loss"].mean())
    assert row["upper_se"] == pytest.approx(mine["upper"].sem())
    assert len(found.plot().axes) == 4
    with pytest.raises(ParameterError, match="'methods' must be some of"):
        frontier(german, methods=("boosting",))


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


def repaired(german: isonomy.Population, **options: Any) -> isonomy.training.Repair:
    plain = FairClassifier("sgd", **QUICK).fit(german)
    return repair(plain.network_, german, judged_on=german.test[:20], shift=isonomy.Transport(0.0), progress=None,
                  **options)  # fmt: skip


def test_blindness_is_the_first_change_and_keeps_the_share_of_decisions(german: isonomy.Population) -> None:
    """Protected columns change nothing any more, most decisions are kept, as many receive each class as before."""
    found = repaired(german, epsilon=0.03)
    assert found.way == "blind" and found.reached and found.alpha == 0.0 and found.original is not None
    x = german.test.x.copy()
    x[:, german.schema.protected_coordinates] = np.random.default_rng(0).uniform(size=(len(x), 1))
    np.testing.assert_array_equal(found.network(x), found.network(german.test.x))
    assert found.reference and found.balanced_agreement > 0.8 and found.relative[1] < found.relative[0]
    plain, train = FairClassifier("sgd", **QUICK).fit(german), german.train
    shares = [
        np.average(each(train.x).argmax(1) == 1, weights=train.weights) for each in (plain.network_, found.network)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=2 / len(train))
    frame = found.frame()
    assert frame.loc["proved within γ", "after"] == found.certificate.upper <= 0.03
    assert frame.loc["decisions kept", "after"] == found.agreement and "log-loss" in frame.index
    assert "reached, blind" in str(found)


def test_a_repair_that_keeps_too_few_decisions_is_refused(german: isonomy.Population) -> None:
    hasty = FineTuning(trials=1, epochs=1, floor=1.0)
    with pytest.warns(UserWarning, match="below the floor 1"):
        found = repaired(german, epsilon=0.03, tuning=hasty)
    assert not found.reached and "below the floor" in found.reason


def test_scaling_scores_is_no_repair(german: isonomy.Population) -> None:
    """It is made on request alone, changes no ranking, and is refused; by its relative violation, too."""
    plain = FairClassifier("sgd", **QUICK).fit(german)
    how = {"shift": isonomy.Transport(0.0), "judged_on": german.test[:10], "progress": None}
    hasty = FineTuning(trials=3, epochs=1, alpha=0.0, scale=True)
    with pytest.warns(UserWarning, match="its scores are only scaled"):
        found = repair(plain.network_, german, 1e-3, tuning=hasty, **how)
    assert found.way == "scaled" and found.certified and not found.reached and "not reached" in str(found)
    without = repair(plain.network_, german, 1e-3, tuning=FineTuning(trials=3, epochs=1, alpha=0.0), **how)
    assert without.way == "blind" and not without.certified
    first, second = (np.argsort(each.network(german.test.x)[:, 1], kind="stable") for each in (without, found))
    assert (first == second).mean() > 0.99
    judge = _Judge(
        plain.network_, german.test[:10], german.train, 0.5, plain.metric_, 1.0, isonomy.Transport(0.0), "tight",
        FineTuning(),
    )  # fmt: skip
    layers = affine_layers(plain.network_)
    weights, biases = [weight for weight, _ in layers], [bias for _, bias in layers]
    weights[-1], biases[-1] = weights[-1] * 0.1, biases[-1] * 0.1
    scaled = judge.repair(Network.from_layers(weights, biases, head="softmax"), "fine-tuned")
    assert scaled.certificate.upper < judge.before.upper and scaled.agreement == 1.0
    assert "did not fall" in scaled.refused and not scaled.reached
    constant = Network.from_layers([np.zeros((2, german.schema.width))], [np.array([1.0, 0.0])], head="softmax")
    assert "gives 1 of the 2 classes" in judge.repair(constant, "constant").refused


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
def test_a_repair_far_beyond_reason_is_refused(german: isonomy.Population) -> None:
    plain, metric = FairClassifier("sgd", **QUICK).fit(german), isonomy.WeightedLp.fit(german.train, order=2.0)
    hasty = FineTuning(trials=1, alpha=3000.0, learning_rate=5e-3, batch_size=32)
    with pytest.warns(UserWarning, match=r"network is refused: its balanced agreement"):
        found = repair(
            plain.network_, german, 1e-4, metric=metric, delta=0.5, shift=isonomy.Transport(0.0),
            judged_on=german.test[:30], tuning=hasty, progress=None,
        )  # fmt: skip
    assert not found.reached and "below the floor" in found.reason
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
    sides = {"aside_log_loss": [0.7, 0.6], "aside_upper": [0.3, 0.0], "collapsed": [False, True]}
    table = pd.DataFrame({"alpha": [0.0, 1.0], **sides})
    models = (FairClassifier(), FairClassifier())
    found = Frontier(table, models)
    assert found.best(0.5) is models[0]
    with pytest.raises(
        ParameterError, match=r"people set aside, the smallest upper bound is 0.3; 1 that would be is no b"
    ):
        found.best(0.1)
    with pytest.raises(ParameterError, match=r"^No model is named, all have collapsed"):
        Frontier(table[1:], models[1:]).best(0.1)


def test_alternatives_are_no_worse_and_certified_lower() -> None:
    rows = [
        ("given", 0.5, 0.7, 0.3, False), ("u-dif", 0.5, 0.7, 0.1, False), ("u-dif", 0.4, 0.7, 0.3, False),
        ("u-dif", 0.6, 0.7, 0.1, False), ("u-dif", 0.5, 0.6, 0.1, False), ("u-dif", 0.4, 0.8, 0.05, True),
        ("capped", 0.4, 0.8, 0.02, False),
    ]  # fmt: skip
    names = ["method", "aside_log_loss", "aside_balanced_accuracy", "aside_upper", "collapsed"]
    table = pd.DataFrame(rows, columns=names)
    assert Frontier(table, ()).alternatives().index.tolist() == [0, 6, 1]
    assert Frontier(table[:3:2], ()).alternatives().index.tolist() == [0], "a model at the same bound is none"
    with pytest.raises(ParameterError, match="'given' must be"):
        Frontier(table[1:], ()).alternatives()


def test_of_equally_good_models_the_fairest_is_the_best() -> None:
    sides = {"aside_log_loss": [0.7, 0.7], "aside_upper": [0.3, 0.1], "collapsed": [False] * 2}
    table = pd.DataFrame({"alpha": [0.0, 1.0], **sides})
    models = (FairClassifier(), FairClassifier())
    assert Frontier(table, models).best(0.5) is models[1]


def test_a_frontier_of_a_regression_is_refused() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 60, 60), "limit": rng.uniform(0, 9, 60)})
    schema = isonomy.Schema.infer(frame, label="limit")
    with pytest.raises(ParameterError, match=r"the label 'limit' is a number: train a regressor for each alpha"):
        frontier(isonomy.Population.from_frame(frame, schema), (0.0, 1.0), model=FairClassifier(**QUICK))
