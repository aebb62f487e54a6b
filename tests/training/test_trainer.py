"""What happens on the way: schedules, early stopping, checkpoints, NaN, the search for a learning rate."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from isonomy.errors import FileError, NotANumberError, ParameterError
from isonomy.population import Domain
from isonomy.similarity import WeightedLp
from isonomy.training import FairClassifier
from isonomy.training import trainer as trainer_module
from isonomy.training.config import ResolvedConfig, default_epochs, ramp, validation_share
from isonomy.training.gaps import Head, run
from isonomy.training.penalties import Penalty, dual
from isonomy.training.trainer import TrainingSet, constant_error, rate_factor, save_state, split

QUICK = {"hidden": (16, 16), "epochs": 6, "batch_size": 32, "learning_rate": 3e-3, "random_state": 0, "progress": None}


def moons() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(200, noise=0.1, random_state=0)


class Killed(BaseException):
    """Nothing catches this, like a signal."""


@pytest.mark.some(2)
@pytest.mark.parametrize("method", ["sensr", "l-dif", "u-dif"])
@pytest.mark.parametrize("stop", [1, 4])
def test_a_killed_training_resumes_to_the_same_weights(method: str, stop: int, tmp_path: Path) -> None:
    parameters = QUICK | {"method": method, "validation": 0.2, "patience": 5}
    whole = FairClassifier(**parameters).fit(*moons())

    def kill(done: int, total: int) -> None:
        if done == stop:
            raise Killed

    path = tmp_path / "training.pt"
    with pytest.raises(Killed):
        FairClassifier(**parameters | {"checkpoint": path, "progress": kill}).fit(*moons())
    seen: list[int] = []
    resumed = FairClassifier(
        **parameters | {"checkpoint": path, "progress": lambda done, total: seen.append(done)}
    ).fit(*moons())
    assert seen == list(range(stop + 1, 7))
    assert resumed.network_.hash() == whole.network_.hash()
    keys = set(whole.history_[0]) - {"seconds"}
    assert [[a[key] for key in keys] for a in resumed.history_] == [[a[key] for key in keys] for a in whole.history_]
    assert [each.name for each in tmp_path.iterdir()] == ["training.pt"]


def test_a_write_that_fails_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, x, y = tmp_path / "training.pt", *moons()
    FairClassifier(**QUICK | {"method": "u-dif", "checkpoint": path}).fit(x, y)
    before = path.read_bytes()

    def half(content: object, file: object) -> None:
        file.write_bytes(b"half")  # type: ignore[attr-defined]
        raise Killed

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(Killed):
        save_state(path, "other", {})
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["training.pt"]


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    path, (x, y) = tmp_path / "training.pt", moons()
    FairClassifier(**QUICK | {"method": "u-dif", "checkpoint": path}).fit(x, y)
    for other in ({"delta": 0.1}, {"random_state": 1}, {"hidden": (16, 8)}):
        with pytest.raises(ParameterError, match="other data or parameters"):
            FairClassifier(**QUICK | {"method": "u-dif", "checkpoint": path} | other).fit(x, y)
    with pytest.raises(ParameterError, match="other data or parameters"):
        FairClassifier(**QUICK | {"method": "u-dif", "checkpoint": path}).fit(x + 0.1, y)
    by_metric = QUICK | {"method": "u-dif", "checkpoint": tmp_path / "metric.pt"}
    FairClassifier(**by_metric, metric=WeightedLp(np.ones(2), np.inf)).fit(x, y)
    with pytest.raises(ParameterError, match="other data or parameters"):
        FairClassifier(**by_metric, metric=WeightedLp(np.array([1.0, 2.0]), np.inf)).fit(x, y)
    path.write_bytes(b"no checkpoint")
    with pytest.raises(FileError, match="not a checkpoint"):
        FairClassifier(**QUICK | {"method": "u-dif", "checkpoint": path}).fit(x, y)


def test_a_nan_says_where() -> None:
    x, y = moons()
    with pytest.raises(NotANumberError, match=r"Epoch 1, batch \d+ of 5: the error is (nan|inf)"):
        FairClassifier("sgd", **QUICK | {"learning_rate": 1e30}).fit(x, y)


def test_training_stops_when_the_objective_no_longer_improves() -> None:
    x, _ = moons()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, len(x))  # nothing to learn: held-out rows get worse
    model = FairClassifier(
        "f-ibp", alpha=0.01, validation=0.3, patience=3, **QUICK | {"epochs": 60, "learning_rate": 2e-2}
    ).fit(x, labels)
    scores = [record["validation_objective"] for record in model.history_]
    counted = scores[18 - 1 :]  # the ramp of alpha ends at 0.3 * 60
    assert len(scores) < 60
    assert len(counted) - 1 - int(np.argmin(counted)) == 3
    last = model.history_[-1]
    assert last["validation_objective"] == pytest.approx(last["validation_error"] + 0.01 * last["validation_penalty"])


def test_patience_waits_for_no_ramp_that_changes_nothing() -> None:
    x, _ = moons()
    labels = np.random.default_rng(0).integers(0, 2, len(x))
    model = FairClassifier("sgd", patience=3, **QUICK | {"epochs": 60, "learning_rate": 2e-2}).fit(x, labels)
    assert model.n_iter_ == model.kept_["epoch"] + 3 < 18


def states(monkeypatch: pytest.MonkeyPatch) -> list[list[np.ndarray]]:
    """The weights at the end of each epoch, as trainings go on."""
    seen: list[list[np.ndarray]] = []
    original = trainer_module.Trainer._validation_record

    def judged(self: trainer_module.Trainer, held_out: TrainingSet) -> trainer_module.Record:
        seen.append([tensor.numpy().copy() for tensor in self.perceptron.copy_state()])
        return original(self, held_out)

    monkeypatch.setattr(trainer_module.Trainer, "_validation_record", judged)
    return seen


def kept_weights(model: FairClassifier) -> list[np.ndarray]:
    layers = [node for node in model.network_.graph.nodes if node.kind == "affine"]
    return [part for layer in layers for part in (layer.weight, layer.bias)]


@pytest.mark.parametrize("method", ["sgd", "u-dif"])
@pytest.mark.parametrize("rate", [3e-3, 0.5])
def test_the_weights_that_are_kept_are_the_best_on_those_set_aside(
    method: str, rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, from the first epoch on: also while the weight of the bound still grows."""
    seen, (x, y) = states(monkeypatch), moons()
    model = FairClassifier(method, **QUICK | {"epochs": 10, "learning_rate": rate, "random_state": 1}).fit(x, y)
    scores = [record["validation_objective"] for record in model.history_]
    best = int(np.argmin(scores))
    assert len(seen) == len(scores) == 10 and model.kept_ == model.history_[best]
    for kept, then in zip(kept_weights(model), seen[best], strict=True):
        np.testing.assert_array_equal(kept.astype(np.float32), then)


def test_the_first_epoch_is_kept_where_all_others_are_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large alpha is not felt before the last epochs: until then every step makes the objective worse."""
    seen, (x, y) = states(monkeypatch), moons()
    parameters = QUICK | {"epochs": 8, "learning_rate": 0.02, "alpha": 30.0, "alpha_ramp": (0.9, 1.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = FairClassifier("f-ibp", **parameters).fit(x, y)
    scores = [record["validation_objective"] for record in model.history_]
    assert np.argmin(scores) == 0 and model.kept_["epoch"] == 1
    for kept, first in zip(kept_weights(model), seen[0], strict=True):
        np.testing.assert_array_equal(kept.astype(np.float32), first)


def test_people_are_set_aside_unless_there_are_few() -> None:
    assert validation_share(1000, None) == 0.2 and validation_share(99, None) == 0.0
    assert validation_share(1000, 0.0) == 0.0 and validation_share(50, 0.3) == 0.3
    x, y = moons()
    few = FairClassifier("sgd", **QUICK).fit(x[:90], y[:90])
    assert "validation_objective" not in few.kept_ and few.kept_ == few.history_[-1]


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_those_set_aside_are_of_all_classes_and_count_as_much(share: float) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0] * 90 + [1] * 10)
    weight = torch.rand(100, generator=generator)
    table = TrainingSet(torch.arange(100.0)[:, None], y, weight / weight.mean())
    learned, aside = split(table, share, Head(2), generator)
    assert aside is not None and len(learned) + len(aside) == 100
    assert not set(learned.x[:, 0].tolist()) & set(aside.x[:, 0].tolist())
    assert int((aside.y == 1).sum()) == share * 10 and int((aside.y == 0).sum()) == share * 90
    for part in (learned, aside):
        assert float(part.weight.mean()) == pytest.approx(1)
    one = torch.zeros(100).index_fill_(0, torch.tensor([3]), 1.0)  # one part has no weight at all
    whole, none = split(TrainingSet(table.x, y, one), share, Head(2), generator)
    assert none is None and len(whole) == 100


def test_schedules() -> None:
    assert [ramp(epoch, 2, 4) for epoch in (0, 2, 3, 4, 9)] == [0, 0, 0.5, 1, 1]
    assert ramp(0, 0, 0) == 1
    assert [rate_factor(share) for share in (0, 0.4, 0.75)] == [1, 1, 0.5]
    with pytest.raises(ParameterError, match="'alpha_ramp' must be two shares"):
        FairClassifier(**QUICK | {"method": "u-dif", "alpha_ramp": (0.3, 0.2)}).fit(*moons())
    parameters = QUICK | {
        "method": "u-dif",
        "alpha": 2.0,
        "alpha_ramp": (0.5, 1.0),
    }
    history = FairClassifier(**parameters).fit(*moons()).history_
    assert [record["alpha"] for record in history] == pytest.approx([0, 0, 0, 2 / 3, 4 / 3, 2])
    assert all((record["delta"], record["gamma"]) == (0.05, 0.1) for record in history)


def test_the_learning_rate_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(trainer_module.RATES) == 20
    monkeypatch.setattr(trainer_module, "RATES", (1e-6, 1e-2, 1e20))
    x, y = moons()
    with pytest.raises(NotANumberError):
        FairClassifier("sgd", **QUICK | {"learning_rate": 1e20}).fit(x, y)
    model = FairClassifier("sgd", **QUICK | {"learning_rate": "search"}).fit(x, y)
    assert model.learning_rate_ == 1e-2
    assert model.score(x, y) > 0.8


def shifts(order: float) -> Penalty:
    config, metric = ResolvedConfig(order=order, ascent_steps=4), WeightedLp(np.ones(3), 2)
    return Penalty(config, metric, Domain.unbounded(3), Head(2), np.arange(3), np.zeros((1, 3)))


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, np.inf])
def test_shifts_keep_to_the_budget(order: float) -> None:
    generator = torch.Generator().manual_seed(0)
    penalty, x = shifts(order), torch.randn(40, 3, generator=generator)
    layers = [
        (torch.randn(units, inputs, generator=generator), torch.zeros(units)) for units, inputs in ((8, 3), (2, 8))
    ]
    moved = penalty.ascend(layers, x, 0.05, 0.1, generator)
    cost = (moved - x).norm(dim=1)
    spent = cost.max() if order == np.inf else cost.pow(order).mean().pow(1 / order)
    assert 0.04 < float(spent) <= 0.1 * (1 + 1e-5)
    before, after = (penalty.profile(layers, each, run(layers, each), 0.05, (0.0,))[0].mean() for each in (x, moved))
    assert after > before


def test_order_one_projects_on_the_simplex() -> None:
    """The nearest point within the budget, by brute force over a grid."""
    shift = torch.tensor([[3.0, 0, 0], [1.0, 0, 0], [0.2, 0, 0]])
    found = shifts(1.0).scale_to_budget(shift, 0.5)[:, 0].numpy()
    grid = np.linspace(0, 1.5, 61)
    points = np.array([(a, b, c) for a in grid for b in grid for c in grid if a + b + c <= 1.5 + 1e-9])
    nearest = points[((points - [3.0, 1.0, 0.2]) ** 2).sum(1).argmin()]
    np.testing.assert_allclose(found, nearest, atol=0.03)


@pytest.mark.parametrize("order", [1.0, 2.0])
def test_the_dual_is_above_every_allocation_and_touches_the_best(order: float) -> None:
    """All allocations by enumeration, all multipliers by a grid; one individual cannot be split, which is the gap."""
    rng = np.random.default_rng(0)
    n, radii, gamma = 5, (0.0, 0.3, 0.9), 0.35
    profile = np.sort(rng.uniform(size=(3, n)), axis=0)
    best = 0.0
    for choice in np.ndindex(*(3,) * n):
        if np.mean([radii[k] ** order for k in choice]) <= gamma**order:
            best = max(best, np.mean([profile[k, i] for i, k in enumerate(choice)]))
    found = float(dual([torch.tensor(row, dtype=torch.float32) for row in profile], radii, gamma, order, torch.ones(n)))
    costs, prices = np.array(radii) ** order, np.linspace(0, 10, 20_001)
    gains = (profile[None] - prices[:, None, None] * costs[:, None]).max(axis=1).mean(axis=1)
    assert found == pytest.approx((prices * gamma**order + gains).min(), abs=1e-3)
    assert best - 1e-6 <= found <= best + np.ptp(profile, axis=0).max() / n + 1e-6


def test_the_error_of_a_constant() -> None:
    rng = np.random.default_rng(0)
    y, weight = rng.integers(0, 3, 50), rng.uniform(size=50)
    weight /= weight.mean()
    x = torch.zeros(50, 1)
    shares = np.bincount(y, weights=weight) / weight.sum()
    table = TrainingSet(x, torch.tensor(y), torch.tensor(weight, dtype=torch.float32))
    assert constant_error(table, Head(3)) == pytest.approx(log_loss(y, np.tile(shares, (50, 1)), sample_weight=weight))
    numbers = rng.normal(size=50)
    table = TrainingSet(x, torch.tensor(numbers, dtype=torch.float32), torch.tensor(weight, dtype=torch.float32))
    spread = np.average((numbers - np.average(numbers, weights=weight)) ** 2, weights=weight)
    assert constant_error(table, Head(0)) == pytest.approx(spread, rel=1e-5)


def test_small_tables_get_more_epochs() -> None:
    assert default_epochs(100_000, 256) == 10
    assert default_epochs(718, 256) == 200
    assert default_epochs(1, 256) == 600


@pytest.mark.parametrize("radii", [(0.0,), (0.2,), (0.2, 0.2), (0.3, 0.0), (1e-30, 2e-30)])
@pytest.mark.parametrize("order", [1.0, 40.0, 1e4])
def test_any_radii_make_a_penalty(radii: tuple[float, ...], order: float) -> None:
    """One of them, none that stays, twice the same, any order, powers that are nothing or too much."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    for gamma in (0.1, 3.0):
        fair = FairClassifier(
            method="u-dif", delta=0.1, gamma=gamma, order=order, radii=radii, hidden=(4,), epochs=2, progress=None
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            fair.fit(x, x[:, 0] > 0)
        assert np.isfinite(fair.predict_proba(x)).all()
