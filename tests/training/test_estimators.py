"""Both estimators, on people and on arrays: they learn, are reproducible, and leave what they promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from sklearn.datasets import make_moons, make_regression
from sklearn.utils.estimator_checks import check_estimator

import isonomy
from isonomy.errors import DataError, ParameterError
from isonomy.training import FairClassifier, FairRegressor, trainer
from isonomy.training.config import Method

METHODS: tuple[Method, ...] = ("sgd", "ftu", "sensr", "f-ibp", "l-dif", "u-dif")
pytestmark = pytest.mark.filterwarnings("ignore:The network (gives|is no)")  # one epoch does not decide much
SLOW = pytest.mark.slow
QUICK = {"hidden": (24, 24), "epochs": 12, "batch_size": 32, "learning_rate": 3e-3, "random_state": 0, "progress": None}


@pytest.fixture(scope="module")
def german() -> isonomy.Population:
    return isonomy.load_population("german")


@pytest.fixture(scope="module")
def plain(german: isonomy.Population) -> FairClassifier:
    return FairClassifier("sgd", **QUICK).fit(german)


def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(300, noise=0.1, random_state=0)


@pytest.mark.some(6)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bound", ["relational", "paper"])
def test_every_method_learns_moons(method: Method, bound: str) -> None:
    x, y = moons()
    model = FairClassifier(method, delta=0.05, gamma=0.05, alpha=0.2, bound=bound, **QUICK).fit(x, y)
    assert model.score(x, y) > 0.85
    assert len(model.history_) == 12
    assert all(np.isfinite(record["error"]) for record in model.history_)


@pytest.mark.some(1)
@pytest.mark.parametrize("method", ["f-ibp", "u-dif", *(pytest.param(name, marks=SLOW) for name in ("sensr", "l-dif"))])
def test_fair_methods_are_fairer_and_do_not_collapse(
    method: Method, german: isonomy.Population, plain: FairClassifier
) -> None:
    model = FairClassifier(method, alpha=0.2, **QUICK).fit(german)
    some, given = german.test[:30], model.predict(german.test)
    assert np.unique(given).size == 2
    assert (given == german.test.y).mean() > 0.67
    ours, theirs = (each.certify_local(some, attack=False).mean_upper for each in (model, plain))
    assert ours < (0.75 if method == "sensr" else 0.25) * theirs


@pytest.mark.slow
def test_the_dual_pays_off_when_the_population_shifts() -> None:
    """With the same alpha the u-dif network has the smaller distributional bound."""
    x, y = moons()
    f_ibp, u_dif = (
        FairClassifier(method, gamma=0.2, alpha=0.5, **QUICK).fit(x, y).certify(x[:15], attack=False)
        for method in ("f-ibp", "u-dif")
    )
    assert u_dif.upper < f_ibp.upper
    assert (u_dif.gamma, u_dif.delta, u_dif.order) == (0.2, 0.05, 1.0)


def test_a_collapse_is_called_that(german: isonomy.Population, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "KEPT", 1e-300)  # no guard
    lost = QUICK | {"epochs": 20, "batch_size": 64, "alpha": 300.0, "alpha_ramp": (0.0, 0.0)}
    with pytest.warns(UserWarning, match=r"the class 'good': it is fair because it decides nothing") as caught:
        model = FairClassifier("f-ibp", bound="paper", **lost).fit(german)
    assert caught[0].filename == __file__
    assert model.collapsed_
    assert model.history_[-1]["classes"] == 1
    x, y = moons()
    with pytest.warns(UserWarning, match=r"the class '[ab]'"):
        assert FairClassifier("f-ibp", **lost).fit(x, np.array(["a", "b"])[y]).collapsed_


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["relational", pytest.param("paper", marks=SLOW)])
def test_alpha_gives_way_before_a_collapse(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same training with the guard explains about as much as it is to keep."""
    monkeypatch.setattr(trainer, "KEPT", 0.2)
    x, y = moons()
    options = QUICK | {"epochs": 60}
    model = FairClassifier("f-ibp", bound=bound, alpha=300.0, alpha_ramp=(0.0, 0.0), **options).fit(x, y)
    assert not model.collapsed_
    last = model.history_[-1]
    assert 0 < last["withheld"] < 1
    assert last["error"] < np.log(2)
    assert model.score(x, y) > 0.7


@pytest.mark.slow
@pytest.mark.parametrize("method", ["u-dif", *(pytest.param(name, marks=SLOW) for name in ("f-ibp", "l-dif"))])
def test_defaults_serve_a_small_table(method: Method, german: isonomy.Population) -> None:
    """With a metric that leaves protected attributes free: no collapse, no bound that is stuck at 1."""
    model = FairClassifier(method, hidden=(32, 32), random_state=0, progress=None).fit(german)
    given, truth = model.predict(german.test), german.test.y
    assert not model.collapsed_
    assert len(model.history_) <= 200
    assert model.scores(german.test)["network"]["log_loss"] < 0.58, "a constant has 0.61; nothing is learned by heart"
    assert np.mean([(given == truth)[truth == c].mean() for c in (0, 1)]) > 0.57
    assert model.certify_local(german.test[:20], attack=False).mean_upper < 0.1


def test_scores_stand_beside_those_of_a_blind_regression(german: isonomy.Population, plain: FairClassifier) -> None:
    found = plain.scores(german.test)
    assert {"accuracy", "balanced_accuracy", "auc", "log_loss"} <= set(found["network"]) == set(found["blind"])
    assert found["network"] == isonomy.fairness.scores(plain.network_, german.test)
    assert found["blind"] == isonomy.fairness.blind_scores(german.train, german.test)
    x, y = moons()
    on_arrays = FairClassifier("sgd", **QUICK | {"epochs": 1}).fit(x, y)
    assert on_arrays.blind_ is None


def test_a_plain_network_does_not_know_its_table_by_heart(german: isonomy.Population) -> None:
    """Learned to the end it is right about every training row, and much too sure of the others."""
    wide = QUICK | {"hidden": (64, 64), "epochs": 60}
    kept, last = (FairClassifier("sgd", validation=share, **wide).fit(german) for share in (None, 0.0))
    ours, theirs = (model.scores(german.test)["network"]["log_loss"] for model in (kept, last))
    assert last.scores(german.train)["network"]["accuracy"] > 0.99 and theirs > 1.0
    assert ours < 0.6 and kept.n_iter_ < 60


def test_every_epoch_is_told(german: isonomy.Population) -> None:
    told: list[dict[str, float]] = []
    model = FairClassifier("u-dif", **QUICK | {"epochs": 3, "validation": 0.2}).fit(german, on_epoch=told.append)
    assert told == model.history_
    assert [(record["epoch"], record["epochs"]) for record in told] == [(1, 3), (2, 3), (3, 3)]
    assert {"accuracy", "error", "penalty", "validation_accuracy", "validation_penalty"} <= set(told[0])
    x, y = make_regression(60, 3, random_state=0)
    told.clear()
    FairRegressor("f-ibp", **QUICK | {"epochs": 2}).fit(x, y, on_epoch=told.append)
    assert len(told) == 2
    assert "accuracy" not in told[0]


def test_the_training_split_alone_is_used(german: isonomy.Population, plain: FairClassifier) -> None:
    again = FairClassifier("sgd", **QUICK).fit(german.train)
    assert again.network_.hash() == plain.network_.hash()
    fitted = FairClassifier("f-ibp", **QUICK | {"epochs": 1}).fit(german)
    assert fitted.metric_.kind == "counterparts" and fitted.delta_ == 1.0, "as in an audit"
    sensr = FairClassifier("sensr", **QUICK | {"epochs": 1})
    assert sensr.fit(german).metric_.kind == "counterparts"
    assert "(train)" in sensr._training_metric(german.train).fitted_on


def test_the_same_seed_gives_the_same_weights() -> None:
    x, y = moons()
    for method in ("sensr", "l-dif", "u-dif"):
        first, second, other = (
            FairClassifier(method, **QUICK | {"epochs": 2, "random_state": seed}).fit(x, y).network_.hash()
            for seed in (3, 3, 4)
        )
        assert first == second != other


def test_unawareness_reads_nothing_protected(german: isonomy.Population) -> None:
    model = FairClassifier("ftu", **QUICK | {"epochs": 2}).fit(german)
    changed = german.test.x.copy()
    changed[:, german.schema.protected_coordinates] += 0.7
    np.testing.assert_array_equal(model.predict_proba(changed), model.predict_proba(german.test))


@pytest.mark.parametrize("kind", ["classifier", "three classes", "regressor"])
def test_onnx_gives_the_same_predictions(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    y = x[:, 0] * 3 + 7 if kind == "regressor" else np.digitize(x[:, 0], [0.0] if kind == "classifier" else [-0.5, 0.5])
    estimator = FairRegressor if kind == "regressor" else FairClassifier
    model = estimator("f-ibp", **QUICK | {"epochs": 3}).fit(x, y)
    path = tmp_path / "model.onnx"
    model.to_onnx(path)
    expected = model.predict(x)[:, None] if kind == "regressor" else model.predict_proba(x)
    head = "regression" if kind == "regressor" else "auto"
    np.testing.assert_allclose(isonomy.load_network(path, head=head)(x), expected, atol=1e-6)
    (run,) = onnxruntime.InferenceSession(path).run(None, {"x": x.astype(np.float32)})
    np.testing.assert_allclose(run, expected, rtol=1e-5, atol=1e-5)
    assert [each.name for each in tmp_path.iterdir()] == ["model.onnx"]


def test_a_model_is_certified_for_its_own_shift_or_for_another() -> None:
    x, y = moons()
    model = FairClassifier("u-dif", gamma=0.2, order=2.0, ground="l1", **QUICK | {"epochs": 2}).fit(x, y)

    def upper(**asked: Any) -> float:
        return model.certify(x[:10], attack=False, **asked).upper

    own = isonomy.certify(
        model.network_, x[:10], model.metric_, 0.05, gamma=0.2, order=2.0, ground="l1", attack=False, progress=None
    )
    assert upper() == own.upper
    assert upper(shift=isonomy.Transport(0.1)) == upper(gamma=0.1, order=1.0, ground="l2") != own.upper
    with pytest.raises(ParameterError, match="'shift' must be a number where 'gamma', 'order' or 'ground' are given"):
        upper(shift=isonomy.Transport(0.1), gamma=0.1)
    with pytest.raises(ParameterError, match="'shift' must be None or a shift"):
        upper(shift=0.1)


def test_a_regression_is_fair_in_its_own_units() -> None:
    x, y = make_regression(300, 4, noise=1.0, random_state=0)
    plain, fair = (FairRegressor(method, alpha=1.0, **QUICK).fit(x, y) for method in ("sgd", "f-ibp"))
    assert plain.score(x, y) > 0.9
    assert fair.score(x, y) > 0.5
    assert fair.certify_local(x[:40], attack=False).mean_upper < plain.certify_local(x[:40], attack=False).mean_upper
    assert np.abs(plain.predict(x).mean() - y.mean()) < 0.3 * y.std()


def test_weights_count() -> None:
    """Individuals of weight 0 are not there; a heavy class is predicted more often."""
    x, y = moons()
    wrong = np.concatenate([y, 1 - y])
    weight = np.concatenate([np.ones(len(y)), np.zeros(len(y))])
    model = FairClassifier("f-ibp", alpha=0.1, **QUICK).fit(np.concatenate([x, x]), wrong, sample_weight=weight)
    assert model.score(x, y) > 0.85
    rare = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:12]]
    shares = [
        FairClassifier("sgd", class_weight=given, **QUICK | {"epochs": 4, "validation": 0.0})
        .fit(x[rare], y[rare])
        .predict(x)
        .mean()
        for given in (None, "balanced", {0: 1.0, 1: 30.0})
    ]
    assert shares[0] < shares[1] <= shares[2]


def test_other_metrics_and_domains(german: isonomy.Population) -> None:
    small = QUICK | {"epochs": 1}
    for metric in (isonomy.Counterparts.of(german.schema), isonomy.WeightedLp.fit(german.train)):
        for kind in ("relaxed", "realizable"):
            model = FairClassifier("f-ibp", metric=metric, domain=kind, delta=0.5, **small).fit(german)
            assert model.domain_.kind == kind
            assert model.certify_local(german.test[:5], attack=False).problem.domain.kind == kind
    model = FairClassifier("u-dif", ground="linf", order=np.inf, **small).fit(german)
    assert np.isfinite(model.history_[-1]["penalty"])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "magic"}, "'method' must be one of"),
        ({"delta": -1.0}, "'delta' must be a finite number >= 0"),
        ({"epochs": 0}, "'epochs' must be a whole number >= 1"),
        ({"learning_rate": 0.0}, "'learning_rate'"),
        ({"patience": 0}, "'patience'"),
        ({"validation": 1.0}, "'validation' must be a share"),
        ({"domain": "relaxed"}, "'domain' must be a Domain"),
        ({"metric": isonomy.WeightedLp(np.ones(3), 2)}, "'metric' must be a metric on 2 coordinates"),
        ({"order": 0.5}, "'order'"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        FairClassifier(**QUICK | parameters).fit(*moons())


def test_bad_data_is_named(german: isonomy.Population) -> None:
    x, y = moons()
    with pytest.raises(DataError, match="at least two classes"):
        FairClassifier(**QUICK).fit(x, np.zeros(len(x)))
    with pytest.raises(ParameterError, match="leave 'y' out"):
        FairClassifier(**QUICK).fit(german, y)


EXACT = "equal up to float32 rounding, the check asks for seven digits"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [FairClassifier, pytest.param(FairRegressor, marks=pytest.mark.slow)])
def test_scikit_learn_accepts_it(estimator: type) -> None:
    model = estimator(
        hidden=(12,), epochs=12, batch_size=64, learning_rate=3e-2, alpha=0.05, random_state=0, progress=None
    )
    check_estimator(
        model, expected_failed_checks={"check_sample_weight_equivalence_on_dense_data": EXACT}, on_skip=None
    )


def test_weights_are_repetitions() -> None:
    """The check that scikit-learn makes to seven digits, with a tolerance for float32."""
    x, y = moons()
    times = np.random.default_rng(0).integers(0, 3, len(x))
    small = QUICK | {"epochs": 5, "batch_size": 10_000, "validation": 0.0}  # rows are set aside whatever their weight
    weighted = FairClassifier("u-dif", **small).fit(x, y, sample_weight=times)
    repeated = FairClassifier("u-dif", **small).fit(np.repeat(x, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.predict_proba(x), repeated.predict_proba(x), atol=1e-4)
