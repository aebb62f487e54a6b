"""``train``, ``repair`` and ``frontier`` ask the audit's question: what they say of a network is what an audit says."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.cli.training import _REPORTED, _TRAINING_QUESTION
from isonomy.population import Population, Schema
from isonomy.training import FairClassifier

SCORES = ("accuracy", "balanced_accuracy", "auc", "log_loss")
SMALL = ("--method", "u-dif", "--hidden", "6", "--epochs", "3", "--learning-rate", "0.02", "--alpha", "1")
QUESTIONS = {
    "defaults": "limit = 5\ngamma = 0.1\n",
    "another": 'split = "train"\nlimit = 5\nseed = 3\ndelta = 1.5\ngamma = 0.05\norder = 2.0\nground = "l1"\n'
    'tier = "interval"\ndomain = "relaxed"\n',
}


@pytest.fixture
def asked(files: Path, run: Callable[..., Any]) -> Callable[[str], Path]:
    """An audit.toml about people.csv in the current folder, with further lines; the model is net.onnx."""

    def write(lines: str = "", *more: str) -> Path:
        words = ("init", files / "people.csv", files / "pipeline.onnx", "--label", "approved", "--protected", "sex")
        if not Path("schema.toml").exists():
            assert run(*words, "--favourable", "yes", *more)[0] == 0
        path = Path("audit.toml")
        data = f'data = "{files / "people.csv"}"\nschema = "schema.toml"\nmodel = "net.onnx"\nreads = "coordinates"\n'
        path.write_text(data + lines)
        return path

    return write


def plain() -> None:
    """Write net.onnx: a network that was learned without a thought of fairness."""
    people = Population.from_file(_table(), Schema.from_toml(Path("schema.toml")))
    model = FairClassifier("sgd", hidden=(6,), epochs=60, learning_rate=0.02, random_state=0, progress=None)
    model.fit(people).to_onnx("net.onnx")


def _table() -> str:
    return json.loads(Path("audit.toml").read_text().split("\n")[0].removeprefix("data = "))


def same(told: dict[str, Any], audited: dict[str, Any]) -> None:
    """What was said of a network is to the last digit what the audit says of it."""
    compared = [name for name in _REPORTED if name in audited]
    assert {"upper", "lower", "local", "decisions", "printed", "verdict", "metric", "delta", "gamma"} <= set(compared)
    assert {name: told[name] for name in compared} == {name: audited[name] for name in compared}
    for name in ("accuracy", "balanced_accuracy"):
        assert told["scores"][name] == audited[name]


@pytest.mark.parametrize("lines", QUESTIONS.values(), ids=QUESTIONS)
def test_a_repair_says_what_an_audit_of_the_same_file_says(
    lines: str, asked: Callable[[str], Path], answered: Callable[..., Any]
) -> None:
    file = asked(lines)
    plain()
    _, before = answered("audit", file, "--epsilon", "0.02")
    status, found = answered("repair", file, "--epsilon", "0.02", "--trials", "2", "--out", "fixed.onnx")
    same(found["before"], before)
    again, audited = answered("audit", file, "--epsilon", "0.02", "--model", "fixed.onnx", "--out", "after")
    same(found["after"], audited)
    assert status == again if status == 0 else again != 0, "certified by both or by none"
    assert before["upper"] > audited["upper"] and found["reached"] == (audited["verdict"] == "certified")
    _, printed = answered(*shlex.split(found["audit"])[1:], "--out", "printed")
    same(found["after"], printed)


@pytest.mark.parametrize("lines", QUESTIONS.values(), ids=QUESTIONS)
def test_a_training_says_what_an_audit_of_the_same_file_says(
    lines: str, asked: Callable[[str], Path], answered: Callable[..., Any]
) -> None:
    file = asked(lines)
    _, found = answered("train", file, *SMALL, "--epsilon", "0.02", "--out", "net.onnx")
    split = () if "split" in lines else ("--split", "test")  # of a table without a split column an audit takes all rows
    _, audited = answered("audit", file, *split, "--epsilon", "0.02")
    same(found, audited)
    _, printed = answered(*shlex.split(found["audit"])[1:], "--out", "printed")
    same(found, printed)


def test_a_scorecard_is_what_is_trained_unless_said(
    asked: Callable[[str], Path], answered: Callable[..., Any], run: Callable[..., Any]
) -> None:
    """Its choice, its points and an audit of the file; without torch."""
    file = asked("limit = 5\ngamma = 0.0\nno_search = true\n")
    _, found = answered("train", file, "--epsilon", "0.5", "--out", "card.onnx")
    assert found["choice_reached"] and found["chosen"]["upper"] <= 0.85 * 0.5 and "history" not in found
    _, audited = answered("audit", file, "--split", "test", "--epsilon", "0.5", "--model", "card.onnx")
    same(found, audited)
    _, shown, _ = run("train", file, "--epsilon", "0.5", "--out", "card.onnx")
    assert " ".join(shown.split()).count("logistic regression") and "relative violation" in shown
    points = pd.read_csv("card.onnx.csv")
    assert points["feature"][0] == "(everybody)" and "sex" not in set(points["feature"])


def test_decisions_are_by_the_cut_off_of_the_question(asked: Callable[..., Path], answered: Callable[..., Any]) -> None:
    """Whose decision a repair keeps, and how often a network is right, follow the schema's cut-off."""
    file = asked("limit = 40\ngamma = 0.0\n", "--threshold", "0.8")
    plain()
    _, found = answered("repair", file, "--epsilon", "0.01", "--trials", "1", "--out", "fixed.onnx")
    _, audited = answered("audit", file, "--epsilon", "0.01", "--model", "fixed.onnx", "--out", "after")
    same(found["after"], audited)
    import isonomy

    some = Population.from_file(_table(), Schema.from_toml(Path("schema.toml"))).sample(40, 0)
    old, new = (isonomy.load_network(name)(some.x)[:, 1] for name in ("net.onnx", "fixed.onnx"))
    assert found["agreement"] == pytest.approx(((old >= 0.8) == (new >= 0.8)).mean())
    assert found["agreement"] != pytest.approx(((old >= 0.5) == (new >= 0.5)).mean())
    assert found["after"]["scores"]["accuracy"] == pytest.approx(((new >= 0.8) == (some.y == 1)).mean())


def test_a_metric_file_is_what_is_learned_and_proved(
    asked: Callable[[str], Path], answered: Callable[..., Any]
) -> None:
    import isonomy

    asked("")
    people = Population.from_file(_table(), Schema.from_toml(Path("schema.toml")))
    isonomy.WeightedLp.fit(people.train, order=2.0).save("metric.toml")
    file = asked('metric = "metric.toml"\ndelta = 0.2\ngamma = 0.01\nlimit = 5\nsplit = "test"\n')
    _, found = answered("train", file, *SMALL, "--out", "net.onnx")
    _, audited = answered("audit", file)
    same(found, audited)
    assert found["history"][-1]["delta"] == found["delta"] == 0.2 and found["history"][-1]["gamma"] == 0.01


def test_a_frontier_says_of_its_models_what_audits_say(
    asked: Callable[[str], Path], answered: Callable[..., Any]
) -> None:
    file = asked('limit = 4\ngamma = 0.02\nsplit = "test"\n')
    plain()
    options = (*SMALL[2:-2], "--methods", "u-dif", "--alphas", "0,1", "--alternatives", "--out", "models")
    _, found = answered("frontier", file, *options)
    *own, given = found["models"]
    same(given, answered("audit", file)[1])
    for number, model in enumerate(own):
        _, audited = answered("audit", file, "--model", f"models/{model['model']}", "--out", f"audit-{number}")
        same(model, audited)
    table = pd.read_csv("models/frontier.csv", index_col="model")
    assert list(table.index) == ["u-dif-alpha-0.onnx", "u-dif-alpha-1.onnx", given["model"], "blind regression"]
    for name in SCORES:
        assert table[name].tolist() == [*(model["scores"][name] for model in found["models"]), found["blind"][name]]
    assert np.isnan(table["upper"].iloc[-1]), "nothing is proved of what was not audited"
    named = pd.read_csv("models/alternatives.csv", index_col="model")
    assert named.index.tolist() == [given["model"], *found["alternatives"]]
    assert (named["aside_upper"] <= named["aside_upper"].iloc[0]).all()
    assert "ess discriminatory alternative" in Path("models/frontier.html").read_text()


def test_scores_and_those_of_a_blind_regression_stand_beside_every_result(
    asked: Callable[[str], Path], answered: Callable[..., Any], run: Callable[..., Any]
) -> None:
    file = asked('limit = 8\ngamma = 0.0\ntier = "interval"\nno_search = true\n')
    _, trained = answered("train", file, *SMALL, "--out", "net.onnx")
    _, repaired = answered("repair", file, "--epsilon", "0.5", "--out", "fixed.onnx")
    for scores in (trained["scores"], repaired["before"]["scores"], repaired["after"]["scores"]):
        assert set(SCORES) <= set(scores)
    assert set(SCORES) <= set(trained["blind"]) and set(SCORES) <= set(repaired["blind"])
    for name, facts in (("net.onnx.json", trained), ("fixed.onnx.json", repaired)):
        assert json.loads(Path(name).read_text()) == facts, "the file beside the network says the same"
    words = ("accuracy", "balanced accuracy", "AUC", "log-loss", "blind regression")
    for command, rows in (
        ("train", ("net.onnx",)),
        ("repair", ("before", "after")),
        ("frontier", ("u-dif-alpha-0.onnx",)),
    ):
        options = {
            "train": SMALL,
            "repair": ("--epsilon", "0.5"),
            "frontier": (*SMALL[2:-2], "--methods", "u-dif", "--alphas", "0"),
        }[command]
        out = {"train": "net.onnx", "repair": "fixed.onnx", "frontier": "models"}[command]
        _, shown, _ = run(command, file, *options, "--out", out)
        assert all(word in shown for word in (*words, *rows)), shown


def test_the_blind_regression_is_judged_on_the_people_audited(
    asked: Callable[[str], Path], answered: Callable[..., Any]
) -> None:
    from isonomy.fairness import blind_scores

    file = asked('split = "test"\ngamma = 0.0\nno_search = true\n')
    _, found = answered("train", file, *SMALL, "--out", "net.onnx")
    people = Population.from_file(_table(), Schema.from_toml(Path("schema.toml")))
    assert found["blind"] == blind_scores(people.train, people.test)


def test_the_commands_take_the_audits_options() -> None:
    """Whatever a question may say is an option here too, but for what only a given model needs."""
    from dataclasses import fields

    from isonomy.auditing.plan import Plan

    elsewhere = {
        "model",
        "head",
        "output",
        "activation",
        "reads",
        "as_read",
        "name",
        "out",
        "redact",
        "key",
        "held_out",
    }
    elsewhere |= {"confidence", "against", "engine", "scheduler", "chunk", "part"}
    assert {each.name for each in _TRAINING_QUESTION} == {each.name for each in fields(Plan)} - elsewhere


@pytest.mark.parametrize("command", [("train", *SMALL), ("repair", "--epsilon", "0.1")], ids=lambda words: words[0])
def test_a_file_that_is_no_onnx_is_refused_before_the_work(
    command: tuple[str, ...], asked: Callable[..., Path], run: Callable[..., Any]
) -> None:
    """Not after a training, with the network in a file that no audit can read."""
    file = asked("limit = 4\n")
    plain()
    status, _, said = run(*command[:1], file, *command[1:], "--out", "mine")
    assert status == 2 and "'out' must be an ONNX file to write, such as model.onnx. Got 'mine'." in said
    assert not Path("mine").exists()


def test_a_repaired_regression_keeps_no_decisions(table: pd.DataFrame, run: Callable[..., Any]) -> None:
    """It decides nothing, so none is said to be kept."""
    from isonomy.training import FairRegressor

    frame = table.drop(columns="approved").assign(limit=table["income"] / 1000 + 5.5 * (table["sex"] == "male"))
    frame.to_csv("limits.csv", index=False)
    schema = Schema.infer(frame, label="limit", protected=["sex"])
    schema.save("schema.toml")
    model = FairRegressor("sgd", hidden=(6,), epochs=20, learning_rate=0.02, random_state=0, progress=None)
    model.fit(Population.from_frame(frame, schema)).to_onnx("net.onnx")
    words = ("--data", "limits.csv", "--schema", "schema.toml", "--model", "net.onnx", "--reads", "coordinates")
    asked = (*words, "--head", "regression", "--limit", "8", "--gamma", "0", "--epsilon", "1000")
    status, said, remarks = run("repair", *asked, "--shift", "part:10%", "--trials", "1", "--out", "fixed.onnx")
    assert "judged are populations within gamma 0; part:10% is not" in remarks
    assert status == 0 and "Outputs change by" in said and "Decisions kept" not in said
    assert json.loads(Path("fixed.onnx.json").read_text())["agreement"] is None


@pytest.mark.parametrize(
    "command", [("repair", "--epsilon", "0.1"), ("train",), ("frontier",)], ids=lambda words: words[0]
)
def test_no_input_is_written_over(command: tuple[str, ...], tmp_path: Path, run: Callable[..., Any]) -> None:
    """Neither the model that the question names, nor what else it reads, by whatever path it is named."""
    folder = tmp_path / "kept"
    folder.mkdir()
    shutil.copy(Path(__file__).parents[1] / "golden" / "german.onnx", folder / "mine.onnx")
    Path("audit.toml").write_text('data = "german"\nmodel = "kept/mine.onnx"\n', encoding="utf-8")
    kept = (folder / "mine.onnx").read_bytes()
    out = folder if command[0] == "frontier" else tmp_path / "kept" / ".." / "kept" / "mine.onnx"
    status, _, said = run(command[0], "audit.toml", *command[1:], "--out", out)
    assert (folder / "mine.onnx").read_bytes() == kept
    assert status == 2 and "'out' must name another file than 'model'" in " ".join(said.split())
