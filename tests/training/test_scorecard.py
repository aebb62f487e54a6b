"""Scorecards: the convex problem is solved, the network and the table are that model, and the choice keeps its word."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.utils.estimator_checks import check_estimator

import isonomy
from isonomy.errors import ParameterError
from isonomy.training import FairClassifier, FairRegressor
from isonomy.training.additive import GAP, PIECES, Fits, Segments
from isonomy.training.choice import MARGIN

QUICK = {"judged": 8, "random_state": 0, "progress": None}
LOCAL = QUICK | {"gamma": 0.0}


@pytest.fixture(scope="module")
def german() -> isonomy.Population:
    return isonomy.load_population("german")


@pytest.fixture(scope="module")
def card(german: isonomy.Population) -> FairClassifier:
    return FairClassifier(epsilon=0.05, **LOCAL).fit(german)


def curved(n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=n), rng.exponential(size=n) * (rng.random(n) < 0.4), rng.integers(0, 2, n)])
    return x, np.abs(x[:, 0]) + 0.5 * x[:, 1] + 0.3 * x[:, 2] + 0.1 * rng.normal(size=n), rng.uniform(0.5, 1.5, n)


def segments(x: np.ndarray) -> Segments:
    return Segments.of(x, np.arange(3), np.array([True, True, False]), PIECES)


def test_pieces_are_few_and_apart() -> None:
    x = curved()[0]
    found = segments(x)
    counts = np.bincount(found.column)
    assert counts.max() <= PIECES and counts[2] == 1 and counts[0] > 3
    inner = found.stop - found.start
    assert (inner[~found.first] >= GAP - 1e-12).all() and np.allclose(np.bincount(found.column, found.even), 1)
    u = (x - found.low) / found.unit
    for j in range(3):  # with equal slopes the pieces add up to a straight line
        np.testing.assert_allclose(found.design(x)[:, found.column == j].sum(1), u[:, j], atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_the_objective_is_as_small_as_another_solver_makes_it(classes: int) -> None:
    x, score, weight = curved()
    y = (
        np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
        if classes
        else score - score.mean()
    )
    parts, c = segments(x), 0.3
    design, rows = parts.design(x), classes if classes > 2 else 1

    def objective(flat: np.ndarray) -> float:
        slopes, intercept = flat[:-rows].reshape(rows, -1), flat[-rows:]
        raw = design @ slopes.T + intercept
        if not classes:
            loss = 0.5 * (raw[:, 0] - y) ** 2
        else:
            raw = np.hstack([0 * raw, raw]) if rows == 1 else raw
            loss = np.logaddexp.reduce(raw, axis=1) - raw[np.arange(len(y)), y]
        return c * weight @ loss + 0.5 * (parts.even * slopes**2).sum()

    fits = Fits("additive", parts, design, y, weight, classes)
    fits.at(0.03)
    model = fits.at(c)
    ours = objective(np.r_[model.slopes.ravel(), model.intercept])
    theirs = minimize(objective, np.zeros(rows * (design.shape[1] + 1)), method="BFGS", options={"gtol": 1e-6}).fun
    assert ours == pytest.approx(theirs, rel=1e-5)
    capped = Fits("capped", parts, design, y, weight, classes).at(c)
    for j in (0, 1):
        mine = parts.column == j
        assert np.abs(capped.slopes[:, mine]).max() < np.abs(model.slopes[:, mine]).max()


def test_network_table_and_model_are_one(german: isonomy.Population, tmp_path: Path) -> None:
    model = FairClassifier(**LOCAL).fit(german)
    best = model.choice_.chosen
    assert model.frontier_["loss"].idxmin() == best and model.frontier_["upper"].notna().all()
    assert len(model.frontier_) == 15 and model.network_.name.startswith("additive")
    raw = np.log(model.predict_proba(german.test))
    frame, table = german.schema.decode(german.test.x, words=True), model.scorecard_.table
    points = np.full(len(frame), model.scorecard_.base[0])
    for feature, lines in table.groupby("feature"):
        for line in lines.itertuples():
            if line.value:
                points += line.points * (frame[feature].astype(str) == line.value)
                continue
            value = german.test.x[:, german.schema.slices[str(feature)].start]
            value = value * german.schema[str(feature)].unit + german.schema[str(feature)].origin
            lowest = line[0] == lines.index[0]
            inside = ((value >= line[3]) | lowest) & (value < line.to)
            points += inside * (line.points + line.per_unit * (value - line[3]))
    np.testing.assert_allclose(points * np.log(2) / 20, raw[:, 1] - raw[:, 0], atol=1e-9)
    model.to_onnx(tmp_path / "card.onnx")
    again = isonomy.load_network(tmp_path / "card.onnx")
    np.testing.assert_allclose(again(german.test.x), model.predict_proba(german.test), atol=1e-12)
    formula = dataclasses.replace(model.scorecard_, table=table.assign(feature="=1+1"))
    formula.to_csv(tmp_path / "card.csv")
    assert set(pd.read_csv(tmp_path / "card.csv")["feature"][1:]) == {"'=1+1"}
    model.scorecard_.to_csv(tmp_path / "card.csv")
    written = pd.read_csv(tmp_path / "card.csv")
    assert len(written) == len(table) + 1 and written["points"][0] == pytest.approx(model.scorecard_.base[0])


def test_the_choice_is_the_best_of_those_certified(german: isonomy.Population, card: FairClassifier) -> None:
    whole = FairClassifier(**LOCAL).fit(german)
    table, limit = whole.frontier_, float(whole.frontier_["upper"].median()) / MARGIN
    model = FairClassifier(epsilon=limit, **LOCAL).fit(german)
    allowed = table[table["upper"] <= MARGIN * limit]
    assert model.choice_.chosen == allowed["loss"].idxmin() and model.choice_.reached
    assert model.choice_.regression == allowed[allowed["family"] == "regression"]["loss"].idxmin()
    assert model.frontier_["upper"][model.choice_.chosen] == table["upper"][model.choice_.chosen] <= MARGIN * limit
    nothing = FairClassifier(epsilon=0.0, **LOCAL).fit(german)
    assert "None is certified" in str(nothing.choice_) and "None is certified" not in str(model.choice_)
    assert not nothing.choice_.reached and nothing.choice_.chosen == table["upper"].idxmin()
    assert "regression" in card.choice_.sentence and card.choice_.sentence in str(card.choice_)
    assert card.choice_.beats == (card.choice_.difference < -1.96 * card.choice_.error)


def test_nothing_protected_is_read(german: isonomy.Population, card: FairClassifier) -> None:
    changed = german.test.x.copy()
    changed[:, german.schema.protected_coordinates] += 0.7
    np.testing.assert_array_equal(card.predict_proba(changed), card.predict_proba(german.test))
    assert not set(card.scorecard_.table["feature"]) & set(german.schema.protected)


def test_classes_numbers_and_missing_values() -> None:
    x, score, weight = curved(200)
    y = np.digitize(score, [0.7, 1.4])
    three = FairClassifier(**LOCAL).fit(x, y, sample_weight=weight)
    assert three.predict_proba(x).shape == (200, 3) and three.score(x, y) > 0.8
    assert three.choice_.beats and three.choice_.sentence.startswith("It beats logistic regression")
    assert sum(name.startswith("points of") for name in three.scorecard_.table) == 3
    number = FairRegressor(**LOCAL).fit(x, score)
    assert number.score(x, score) > 0.95 and number.choice_.sentence.startswith("It beats linear regression")
    with pytest.raises(ParameterError, match="'gamma=0'"):
        FairRegressor(epsilon=1.0, **QUICK).fit(x, score)
    frame = pd.DataFrame({"pay": x[:, 0], "sex": np.where(x[:, 2] > 0, "f", "m"), "y": np.where(score > 1, "a", "b")})
    frame.loc[::7, "pay"] = np.nan
    schema = isonomy.Schema.infer(frame, label="y", protected=["sex"])
    model = FairClassifier(**LOCAL).fit(isonomy.Population.from_frame(frame, schema))
    assert set(model.scorecard_.table["feature"]) == {"pay"} and "missing" in set(model.scorecard_.table["value"])


def test_what_similar_people_may_differ_in_is_left_out_where_nothing_else_is_certified() -> None:
    x, score, _ = curved(240)
    frame = pd.DataFrame({"pay": x[:, 0], "town": np.where(score > 1, "n", np.where(x[:, 0] > 0, "e", "s"))})
    frame = frame.assign(sex=np.where(x[:, 2] > 0, "f", "m"), y=np.where(score > 1, "a", "b"))
    frame.loc[::7, "pay"] = np.nan
    schema = isonomy.Schema.infer(frame, label="y", protected=["sex"], proxies=["town"])
    people = isonomy.Population.from_frame(frame, schema)
    model = FairClassifier(epsilon=0.2, **QUICK | {"gamma": 0.01}).fit(people)
    choice, table = model.choice_, model.frontier_
    assert choice.reached and len(table) == 30 == len(model.candidates_)
    assert table["without"][choice.chosen] == "town" and "does not read town: no candidate" in choice.sentence
    assert set(model.scorecard_.table["feature"]) == {"pay"} and "without town" in str(choice)
    told = table[table["without"] == ""]
    assert told["upper"].isna().all() and (told["local_upper"] > MARGIN * 0.2).all(), "too much as they are"
    wide = FairClassifier(epsilon=3.0, **QUICK | {"gamma": 0.01}).fit(people)
    assert wide.choice_.reached and set(wide.frontier_["without"]) == {""} and "not read" not in wide.choice_.sentence


EQUAL = "people are drawn into parts row by row, and rows with weights are not several rows"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [FairClassifier, FairRegressor])
def test_scikit_learn_accepts_it(estimator: type) -> None:
    failing = {"check_sample_weight_equivalence_on_dense_data": EQUAL}
    check_estimator(estimator(**LOCAL | {"judged": 3}), expected_failed_checks=failing, on_skip=None)
