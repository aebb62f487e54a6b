"""Methods by name: what each one starts from, adds to the loss and leaves behind; alpha chosen from a grid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.training.test_estimators import moons

import isonomy
from isonomy.errors import ParameterError
from isonomy.report.training_pages import frontier_page, scorecard_page
from isonomy.training import FairClassifier, FairRegressor
from isonomy.training.additive import Fits, Segments
from isonomy.training.choice import MARGIN, _words
from isonomy.training.config import ALPHAS
from isonomy.training.gaps import Head, attacked_gap, run, similar_reach
from isonomy.training.perceptron import Perceptron

pytestmark = pytest.mark.filterwarnings("ignore:The network")
QUICK: dict[str, Any] = {"hidden": (6,), "epochs": 2, "batch_size": 64, "random_state": 0, "progress": None}


@pytest.mark.parametrize("classes", [2, 3, 0])
@pytest.mark.parametrize("hidden", [(5,), (5, 4)])
def test_a_residual_network_begins_as_the_regression(classes: int, hidden: tuple[int, ...]) -> None:
    """At first it is the regression; after steps the carried part is still there, and the whole has changed."""
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(80, 4))
    y = rng.integers(0, classes, 80) if classes else rng.normal(size=80)
    reads, segments = np.array([0, 2, 3]), Segments.of(x, np.array([0, 2, 3]), np.zeros(4, dtype=bool), 1)
    domain = isonomy.Domain.unbounded(4)
    start = Fits("regression", segments, segments.design(x), y, np.ones(80), classes).at(1.0).network(domain, "start")
    rows = torch.from_numpy(x[:, reads].astype(np.float32))
    made = Perceptron.beside(start, reads, hidden, rows, torch.Generator().manual_seed(0))
    raw = made(rows).detach().numpy()
    given = torch.from_numpy(raw).softmax(1).numpy() if classes else raw
    np.testing.assert_allclose(given, start(x), atol=1e-4)
    carried = 1 if classes in (0, 2) else classes
    before = made.copy_state()
    made(rows).square().mean().backward()
    made.hold()
    with torch.no_grad():
        for parameter in made.parameters:
            assert parameter.grad is not None
            parameter -= 0.01 * parameter.grad
    after = made.copy_state()
    assert not torch.equal(before[0], after[0]) or not torch.equal(before[-2], after[-2])
    assert torch.equal(before[1][-carried:], after[1][-carried:]), "the lift stays"
    assert torch.equal(before[-2][:, -carried:], after[-2][:, -carried:]), "and so does what outputs read of it"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["residual", "sensei"])
def test_it_learns_is_reproducible_and_reads_what_it_may(method: Any) -> None:
    german = isonomy.load_population("german", domain="unbounded")
    metric = isonomy.SensitiveSubspace.fit(german.train, ridge=1.0)
    one, again = (FairClassifier(method, metric=metric, alpha=0.1, **QUICK).fit(german) for _ in range(2))
    assert one.network_.hash() == again.network_.hash() and np.isfinite(one.history_[-1]["penalty"])
    changed = german.test.x.copy()
    changed[:, german.schema.protected_coordinates] += 0.7
    same = np.array_equal(one.network_(changed), one.network_(german.test.x))
    assert same == (method == "residual")
    told = FairClassifier(method, metric=metric, alpha=0.1, blind=method == "sensei", **QUICK).fit(german)
    same = np.array_equal(told.network_(changed), told.network_(german.test.x))
    assert same == (method == "sensei")


def test_a_residual_network_is_no_worse_than_its_regression() -> None:
    german = isonomy.load_population("german")
    model = FairClassifier("residual", alpha=0.05, **QUICK).fit(german)
    found = model.scores(german.test)
    assert found["network"]["log_loss"] < found["blind"]["log_loss"] + 0.03 and not model.collapsed_
    x = np.random.default_rng(0).normal(size=(120, 3))
    number = FairRegressor("residual", delta=0.1, gamma=0.0, alpha=0.01, **QUICK).fit(x, 100 + 7 * x[:, 0])
    assert number.score(x, 100 + 7 * x[:, 0]) > 0.9


def test_the_attacked_violation_is_attained_by_somebody_similar() -> None:
    """It is no more than the truth, which sampling bounds from below, and much of it."""
    rng = np.random.default_rng(1)
    layers = [(torch.from_numpy(rng.normal(size=shape).astype(np.float32)), torch.zeros(shape[0]))
              for shape in ((6, 3), (2, 6))]  # fmt: skip
    x, head = torch.from_numpy(rng.normal(size=(20, 3)).astype(np.float32)), Head(2)
    for order in (1.0, 2.0):
        metric = isonomy.WeightedLp(np.array([1.0, 2.0, 0.5]), order)
        reach = similar_reach(metric, isonomy.Domain.unbounded(3), np.arange(3), x.numpy().astype(float), 0.2)
        found = attacked_gap(layers, x, head, reach, 0.2).detach().numpy()
        root, p = metric.gauge()
        moves = rng.normal(size=(300, 3))
        moves *= 0.2 / np.linalg.norm(moves @ root.T, p, axis=1)[:, None]
        base = run(layers, x)[-1].softmax(1)
        here = [(run(layers, x + torch.from_numpy(move.astype(np.float32)))[-1].softmax(1) - base).abs().amax(1).numpy()
                for move in moves]  # fmt: skip
        sampled = np.max(here, axis=0)
        assert found.mean() > 0.9 * sampled.mean() and (found >= 0.4 * sampled).all()
        furthest = reach.furthest(torch.from_numpy(rng.normal(size=(50, 3)).astype(np.float32))).numpy() * 0.2
        assert (np.linalg.norm(furthest @ root.T, p, axis=1) <= 0.2 + 1e-5).all()
    model = FairClassifier("l-dif", delta=0.1, gamma=0.05, alpha=0.3, bound="attacked", **QUICK).fit(*moons())
    assert model.history_[-1]["penalty"] > 0
    with pytest.raises(ParameterError, match="for all methods but 'l-dif'"):
        FairClassifier("u-dif", bound="attacked", **QUICK).fit(*moons())


@pytest.mark.slow
def test_alpha_is_chosen_among_those_certified() -> None:
    german = isonomy.load_population("german")
    asked = QUICK | {"gamma": 0.0, "alpha": None, "judged": 5}
    free = FairClassifier("f-ibp", **asked).fit(german)
    table = free.frontier_
    assert tuple(table["alpha"]) == ALPHAS and free.alpha_ == table["alpha"][table["loss"].idxmin()]
    limit = float(table["upper"].min()) / MARGIN + 1e-9
    strict = FairClassifier("f-ibp", epsilon=limit, **asked).fit(german)
    assert strict.alpha_ == table["alpha"][table["upper"].idxmin()]
    alone = FairClassifier("f-ibp", **asked | {"alpha": strict.alpha_}).fit(german)
    assert strict.network_.hash() == alone.network_.hash(), "each alpha from scratch"


def test_the_page_of_a_scorecard_has_its_points() -> None:
    german = isonomy.load_population("german")
    model = FairClassifier(gamma=0.0, judged=2, random_state=0, progress=None, epsilon=0.5).fit(german)
    card = model.scorecard_
    rows = pd.DataFrame(dict(model.choice_.rows()))
    page = scorecard_page("Points <b>", card.base, card.table, rows, model.choice_.sentence)
    assert "Points &lt;b&gt;" in page and model.choice_.sentence in page and "<script" not in page
    assert all(f"<h2>{name}</h2>" in page for name in card.table["feature"].unique())


def test_bounds_are_rounded_up_where_models_are_compared() -> None:
    """What is proved to be at most 1e-13 is not proved to be 0."""
    row = pd.Series({"family": "regression", "without": "", "C": 1.0, "loss": 0.3, "se": 0.1, "local_upper": 1e-13,
                     "upper": 0.12341, "relative": 1e-9, "open": 0.0})  # fmt: skip
    words = _words(row)
    assert (words["proved of training people"], words["proved within γ"]) == ("0.0001", "0.1235")
    assert (words["relative violation"], words["decisions that may change"]) == ("0.0001", "0.0000")
    curve = pd.DataFrame({"method": ["m"], "option": [1.0], "log_loss": [0.5], "log_loss_se": [math.nan],
                          "balanced_accuracy": [0.5], "balanced_accuracy_se": [math.nan], "upper": [0.12341],
                          "upper_se": [math.nan], "local_upper": [1e-13], "local_upper_se": [math.nan]})  # fmt: skip
    page = frontier_page("Frontier", curve, curve[["method", "upper", "local_upper"]], [])
    assert "proved within γ 0.1235," in page and "<td>0.1235</td><td>0.000001</td>" in page
