"""Repairs of trees against the original library: what is averaged, what is written, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.trees.test_journeys import TEXTS, Run, fitted, people, run, saved

import isonomy
from isonomy.errors import IsonomyError
from isonomy.repairing import Refit, TreeRepair
from isonomy.trees.averaged import averaged, write_forest, write_original
from isonomy.trees.lightgbm_reader import text_of_live
from isonomy.trees.load import read_trees
from isonomy.trees.model import TreeModel
from isonomy.trees.xgboost_reader import content_of_live

__all__ = ["run"]  # a fixture
KINDS = ["xgboost", "lightgbm", "catboost", "forest"]


def put(x: pd.DataFrame, protected: list[str]) -> isonomy.Population:
    table = x.assign(approved=people()["approved"])
    schema = isonomy.Schema.infer(table, label="approved", protected=protected)
    return isonomy.Population.from_frame(table, schema)


@pytest.mark.parametrize("protected", [["sex"], ["sex", "age"]], ids="+".join)
@pytest.mark.parametrize("kind", KINDS)
def test_an_average_is_the_mean_of_the_original_over_what_people_are(
    kind: str, protected: list[str], tmp_path: Path
) -> None:
    """Everybody gets the mean of the library's own raw outputs over the protected values of all people."""
    model, x = fitted(kind, people())
    who = put(x, protected)
    original = isonomy.load_model(model, who.schema)
    assert isinstance(original, TreeModel)
    forest, pieces = averaged(original, who, protected)
    write_forest(forest, tmp_path / "average.json")
    again = isonomy.load_model(tmp_path / "average.json", who.schema)
    assert isinstance(again, TreeModel) and again.forest is not None
    assert again.hash() == TreeModel.of(forest, who.schema).hash() and again.named == original.named
    read, some = read_trees(model), x.iloc[:20]
    outputs = np.zeros((len(some), len(read.base)))
    for _, row in x[protected].iterrows():
        outputs += read.margins(some.assign(**row)) / len(x)
    margin = outputs[:, 1:] if outputs.shape[1] == 2 else outputs
    assert again.forest.margins(some) == pytest.approx(margin, abs=1e-12)
    found = isonomy.certify_local(again, who, isonomy.Counterparts.of(who.schema), progress=None)
    assert found.upper.max() < 1e-12 and (found.decision == "certified").all()
    assert isonomy.certify_local(original, who[:20], isonomy.Counterparts.of(who.schema), progress=None).lower.max() > 0
    coded = x.astype(dict.fromkeys(TEXTS, "category"))
    if kind == "xgboost":
        library = pytest.importorskip("xgboost")
        write_original(content_of_live(model)[0], pieces, tmp_path / "own.json")
        own, table = library.Booster(model_file=tmp_path / "own.json"), library.DMatrix(coded, enable_categorical=True)
        theirs = isonomy.load_model(tmp_path / "own.json", who.schema)
        assert isinstance(theirs, TreeModel) and theirs.forest is not None
        assert (own.predict(table, pred_leaf=True) == theirs.forest.leaves(x)).all()
        assert own.predict(table) == pytest.approx(again(who.x)[:, 1], abs=1e-5)
    if kind == "lightgbm":
        library = pytest.importorskip("lightgbm")
        write_original(text_of_live(model)[0], pieces, tmp_path / "own.txt")
        own, theirs = (
            library.Booster(model_file=tmp_path / "own.txt"),
            isonomy.load_model(tmp_path / "own.txt", who.schema),
        )
        assert isinstance(theirs, TreeModel) and theirs.forest is not None
        assert (own.predict(coded, pred_leaf=True) == theirs.forest.leaves(x)).all()
        assert own.predict(coded) == pytest.approx(again(who.x)[:, 1], abs=1e-12)


@pytest.mark.parametrize("mode", ["gbdt", "rf"])
def test_an_average_of_several_classes_in_lightgbms_own_file(mode: str, tmp_path: Path) -> None:
    """Rounds of several trees are filled up, and the sums of a forest are divided by more rounds."""
    library = pytest.importorskip("lightgbm")
    x = people().drop(columns="approved")[["age", "sex", "income"]]
    coded, table = x.astype({"sex": "category"}), x.assign(kind=pd.cut(x["age"], 3, labels=["a", "b", "c"]).astype(str))
    model = library.LGBMClassifier(
        n_estimators=6, num_leaves=5, verbose=-1, n_jobs=1, boosting_type=mode, subsample=0.8, subsample_freq=1
    ).fit(coded, table["kind"])
    schema = isonomy.Schema.infer(table, label="kind", protected=["sex"])
    who = isonomy.Population.from_frame(table, schema)
    original = isonomy.load_model(model, schema)
    assert isinstance(original, TreeModel)
    forest, pieces = averaged(original, who, ["sex"])
    write_original(text_of_live(model)[0], pieces, tmp_path / "own.txt")
    own = library.Booster(model_file=tmp_path / "own.txt")
    assert own.predict(coded) == pytest.approx(TreeModel.of(forest, schema)(who.x), abs=1e-12)


def test_every_way_is_judged_on_the_same_people(tmp_path: Path) -> None:
    """The original is judged as certify judges it; refits are by the library, and a dropped column is gone."""
    model, x = fitted("lightgbm", people())
    who, coded = put(x, ["sex"]), x.astype(dict.fromkeys(TEXTS, "category"))
    refit = Refit(coded, people()["approved"] == "yes", depths=(2,), monotone={"income": 1})
    result = isonomy.repair(model, who, 0.01, tuning=refit, progress=None)
    assert isinstance(result, TreeRepair) and "averaged" in str(result) and "flippable" in str(result)
    before, after = result.before, result["averaged"]
    judged = before.certificate.people
    assert judged is not None and not set(judged.rows) & set(who.train.rows)
    expected = isonomy.certify(before.model, judged, isonomy.Counterparts.of(who.schema), progress=None)
    assert before.certificate.upper == expected.upper > 0.01 > after.certificate.upper
    assert before.flippable == (expected.local.decision == "flippable").mean() and after.flippable == 0
    assert result.best is not None and result.best.certificate.upper <= 0.01
    for each in result:
        assert each.certificate.people is not None
        assert (each.certificate.people.rows == judged.rows).all(), each.name
    dropped = result["without sex"]
    assert "sex" not in dropped.estimator.feature_name_ and dropped.certificate.upper < 1e-9
    rows = who.train.rows
    again = type(model)(**{**model.get_params(), "max_depth": 2, "num_leaves": 4}).fit(
        coded.iloc[rows], refit.labels[rows]
    )
    assert result["depth 2"].model.hash() == isonomy.load_model(again, who.schema).hash()
    assert result["monotone"].estimator.get_params()["monotone_constraints"] == [0, 0, 1, 0, 0]
    after.save(tmp_path / "a.json")
    assert isonomy.load_model(tmp_path / "a.json", who.schema).hash() == after.model.hash()


def test_a_cut_off_has_the_fewest_flips_of_those_that_cost_little() -> None:
    """By brute force over the categories of all people by whom it is chosen; all other columns are equal."""
    model, x = fitted("forest", people())
    who = put(x, ["sex"])
    result = isonomy.repair(model, who, progress=None)
    (moved,) = (each for each in result if each.name == "another cut-off")
    assert moved.certificate.problem.outcome.threshold == moved.threshold
    judged = moved.certificate.people
    assert judged is not None and moved.threshold is not None
    left = who.train  # too few others are left to choose by
    both = {}
    for name, some in (("chosen", left), ("judged", judged)):
        frame = some.frame.drop(columns="approved")
        every = [model.predict_proba(frame.assign(sex=sex))[:, 1] for sex in ("female", "male")]
        both[name] = np.min(every, axis=0), np.max(every, axis=0)

    def flips(name: str, cut: float) -> float:
        low, high = both[name]
        return float(((low < cut) & (cut <= high)).mean())

    assert flips("chosen", moved.threshold) < flips("chosen", 0.5)
    assert moved.flippable == pytest.approx(flips("judged", moved.threshold))
    assert result.before.flippable == pytest.approx(flips("judged", 0.5))


def test_pipelines_lose_their_columns_and_are_fitted_again() -> None:
    model, x = fitted("forest", people())
    refit = Refit(x, people()["approved"], depths=(2,))
    result = isonomy.repair(model, put(x, ["sex"]), tuning=refit, progress=None)
    assert "sex" not in result["without sex"].estimator.feature_names_in_
    assert result["without sex"].certificate.upper < 1e-9
    assert max(each.get_depth() for each in result["depth 2"].estimator[-1].estimators_) == 2


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    model, x = fitted("forest", people())
    who = put(x, ["sex"])
    refused: list[tuple[Any, str]] = [
        (lambda: Refit(x, [1]), "labels"),
        (lambda: Refit(x, people()["approved"], monotone={"nothing": 1}), "monotone"),
        (lambda: isonomy.repair(model, who, tuning=Refit(x, people()["approved"], monotone={"age": 1})), "pipeline"),
        (lambda: isonomy.repair(isonomy.load_model(model, who.schema), who, tuning=Refit(x, x["age"])), "estimator"),
        (
            lambda: isonomy.repair(model, who, progress=None)["averaged"].save_original(tmp_path / "x"),
            "not written for scikit-learn",
        ),
        (lambda: isonomy.repair(model, who, progress=None)["nothing"], "averaged"),
    ]
    for call, word in refused:
        with pytest.raises(IsonomyError, match=word):
            call()
    forest, _ = averaged(isonomy.load_model(model, who.schema), who, ["sex"])  # type: ignore[arg-type]
    write_forest(forest, tmp_path / "good.json")
    good = json.loads((tmp_path / "good.json").read_text())
    for change in (
        {"forest": 2}, {"divisor": 0.0}, {"base": [float("nan")]}, {"link": "cosine"}, {"trees": []}, {"columns": []},
        {"trees": [good["trees"][0] | {"left": [5] * len(good["trees"][0]["left"])}]}, {"unit": None}, {"base": None},
    ):  # fmt: skip
        (tmp_path / "bad.json").write_text(json.dumps(good | change))
        with pytest.raises(IsonomyError):
            isonomy.load_model(tmp_path / "bad.json", who.schema)


@pytest.mark.parametrize("kind", ["xgboost", "forest"])
def test_the_command(kind: str, run: Run, tmp_path: Path) -> None:
    """What is written is what the next audit finds fair, with the numbers that were printed."""
    model, table = fitted(kind, people())
    table.assign(approved=people()["approved"]).to_csv("people.csv", index=False)
    path = saved(kind, model, tmp_path)
    assert run("init", "people.csv", path, "--label", "approved", "--favourable", "yes", "--protected", "sex")[0] == 0
    status, text = run(
        "repair", "audit.toml", "--epsilon", "0.01", "--gamma", "0", "--limit", "30", "--out", "fair.json"
    )
    assert status == 0 and "averaged" in text and "reached by the average" in text, text
    facts = json.loads(Path("fair.json.json").read_text())
    assert facts["ways"]["averaged"]["upper"] < 1e-9 < facts["ways"]["as it is"]["upper"]
    assert facts["before"]["upper"] == pytest.approx(facts["ways"]["as it is"]["upper"], abs=3e-6)  # a claim
    status, text = run("audit", "audit.toml", "--model", "fair.json", "--gamma", "0", "--limit", "30", "--out", "after")
    assert status == 0, text
    status, text = run("verify", "after", "--model", "fair.json", "--data", "people.csv")
    assert status == 0 and "gives the certified tree ensemble" in text, text
    if kind == "xgboost":
        status, text = run("audit", "audit.toml", "--model", "fair.original.json", "--gamma", "0", "--limit", "30")
        assert status == 0, text
