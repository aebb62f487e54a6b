"""Help that is immediate, errors that are one sentence, pages that are true."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isonomy.cli import main
from isonomy.cli.shift import rounded_up

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = ["audit", "compare", "datasets", "explain", "frontier", "init", "repair", "serve", "shift"]
COMMANDS += ["train", "verify"]
QUICK = ("--gamma", "0", "--tier", "interval", "--limit", "10")


def test_the_page_in_the_docs_is_that_of_the_commands() -> None:
    page = runpy.run_path(str(DOCS / "command_line.py"))["page"]()
    written = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    assert written == page, "python docs/command_line.py > docs/reference/cli.md"


def test_every_command_is_there_with_help(run: Callable[..., Any]) -> None:
    status, out, _ = run("--help")
    assert status == 0 and all(name in out for name in COMMANDS)
    for name in set(COMMANDS) - {"serve"}:
        status, out, _ = run(name, "--help")
        assert status == 0 and "Usage" in out
    assert run()[0] == 0 and run("--version")[1].startswith("isonomy ")


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from isonomy.cli import main; main(['audit', '--help']); "
        "heavy = {'torch', 'pandas', 'numpy', 'sklearn', 'scipy', 'onnx'} & set(sys.modules); assert not heavy, heavy"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def bad_inputs(files: Path) -> dict[str, tuple[list[Any], str]]:
    """Commands that cannot work, and a word of what they say."""
    data, model = ["--data", files / "people.csv"], ["--model", files / "pipeline.onnx"]
    schema = ["--schema", "schema.toml"]
    return {
        "no such command": (["auditt"], "No such command"),
        "no such option": (["audit", "--gama", "1"], "No such option"),
        "no number": (["audit", "--gamma", "much"], "--gamma"),
        "negative": (["audit", "--gamma", "-1"], "'gamma' must be"),
        "not a number": (["audit", "--epsilon", "nan"], "'epsilon' must be"),
        "order": (["audit", "--order", "0.5"], "'order' must be"),
        "ground": (["audit", "--ground", "l3", "--limit", "3"], "'ground' must be"),
        "split": (["audit", "--split", "half"], "--split"),
        "no plan": (["audit", "nowhere.toml"], "cannot be read"),
        "no table": (["audit", "--data", "nowhere.csv", *schema, *model], "no such file"),
        "no ending": (["audit", "--data", "people.xls", *schema, *model], "must end in"),
        "no schema": (["audit", *data, *model], "'schema' must be given"),
        "no schema file": (["audit", *data, *model, "--schema", "none.toml"], "cannot be read"),
        "bad schema": (["audit", *data, *model, "--schema", "bad.toml"], "unknown key 'feature'"),
        "no model": (["audit", *data, *schema], "'model' must be given"),
        "no data": (["audit", *model, *schema], "'data' must be given"),
        "no model file": (["audit", *data, *schema, "--model", "none.onnx"], "no file"),
        "pickle": (["audit", *data, *schema, "--model", "model.pkl"], "a pickle is a program"),
        "an option of others": (["audit", *data, *schema, *model, "--activation", "relu"], "must be left out"),
        "damaged model": (["audit", *data, *schema, "--model", "damaged.onnx"], "damaged"),
        "another width": (["audit", *data, *schema, "--model", "wide.onnx"], "the model reads 99 numbers"),
        "no metric": (["audit", *data, *schema, *model, "--metric", "none.toml"], "no metric file"),
        "missing column": (["audit", "--data", "narrow.csv", *schema, *model], "has no column 'town'"),
        "not a number in a cell": (["audit", "--data", "nan.csv", *schema, *model], "nan.csv: Column 'age', row 3"),
        "no other table": (["audit", *data, *schema, *model, "--against", "none.csv"], "no such file"),
        "out is a file": (["audit", *data, *schema, *model, "--out", "narrow.csv"], "which is a file"),
        "out holds others": (["audit", *data, *schema, *model, "--out", "."], "no audit writes"),
        "out below a file": (["audit", *data, *schema, *model, "--out", "narrow.csv/x"], "not a directory"),
        "no key": (["audit", *data, *schema, *model, "--key", "none.key"], "none.key"),
        "no row": (["explain", *data, *schema, *model, "--row", "100000"], "'row' must be"),
        "no certificate": (["verify", "none.json"], "no certificate"),
        "no certificate either": (["verify", "bad.json"], "cannot be checked"),
        "nothing to compare": (["compare", "none", "none"], "no certificate"),
        "damaged to compare": (["compare", "bad.json", "bad.json"], "bad.json"),
        "init without table": (["init", "none.csv", files / "pipeline.onnx"], "no such file"),
        "init without model": (["init", files / "people.csv", "none.onnx"], "no file"),
        "init of a column": (
            ["init", files / "people.csv", files / "pipeline.onnx", "--label", "no"],
            "no column 'no'",
        ),
        "init of a label that is protected": (
            ["init", files / "people.csv", files / "pipeline.onnx", "--label", "approved", "--protected", "approved"],
            "Column 'approved' has one role. Got --label and --protected",
        ),
        "init of two columns of a name": (
            ["init", "twice.csv", files / "pipeline.onnx", "--label", "approved"],
            "twice.csv has two columns called 'age'",
        ),
        "shift of others": (["shift", "german", "moons"], "share one schema"),
        "no dataset": (["datasets", "show", "none"], "'name' must be one of"),
        "no table to learn from": (["train", "--schema", "schema.toml"], "'data' must be given"),
        "no widths": (["train", "--data", "moons", "--hidden", "a,b"], "'hidden' must be"),
        "no such place": (["train", "--data", "moons", "--out", "narrow.csv/m.onnx"], "cannot be written"),
        "no alphas": (["frontier", "--data", "moons", "--alphas", "x"], "'alphas' must be"),
        "no epsilon": (["repair", "--data", "moons", *model], "--epsilon"),
        "nothing to repair": (["repair", "--data", "moons", "--epsilon", "0.1"], "'model' must be given"),
    }


@pytest.fixture(scope="module")
def bad(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files of which most are no good."""
    from isonomy.networks import Network
    from isonomy.training.onnx_file import write_onnx

    folder = tmp_path_factory.mktemp("bad")
    with contextlib.chdir(folder):
        words = ["init", files / "people.csv", files / "pipeline.onnx", "--label", "approved", "--protected", "sex"]
        assert main([str(word) for word in words]) == 0
        table = pd.read_csv(files / "people.csv")
        table.drop(columns="town").to_csv("narrow.csv", index=False)
        table["age"] = table["age"].astype(float)
        table.loc[3, "age"] = np.nan
        table.to_csv("nan.csv", index=False)
        table.to_csv("people.xls", index=False)
        Path("twice.csv").write_text("age,sex,age,approved\n1,m,2,yes\n2,f,3,no\n")
        Path("bad.toml").write_text("[feature.age]\nlow = 1\n")
        Path("bad.json").write_text("{}")
        Path("model.pkl").write_bytes(b"")
        Path("damaged.onnx").write_bytes(b"nonsense")
        write_onnx(Network.from_layers([np.ones((2, 99))], [np.zeros(2)]), Path("wide.onnx"))
    return folder


@pytest.mark.some(22)
@pytest.mark.parametrize("name", bad_inputs(Path()))
def test_bad_input_is_one_sentence_and_status_2(files: Path, bad: Path, run: Callable[..., Any], name: str) -> None:
    shutil.copytree(bad, ".", dirs_exist_ok=True)
    before = sorted(Path().rglob("*"))
    words, expected = bad_inputs(files)[name]
    status, out, err = run(*words)
    assert status == 2 and out == ""
    assert err.startswith("Error: ") and err.count("\n") == 1 and expected in err, err
    assert sorted(Path().rglob("*")) == before, "nothing is left behind"
    status, out, _ = run(*words, "--json")
    assert status == 2 and set(json.loads(out)["error"]) == {"code", "message"}


def test_a_terminal_without_the_letters_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["compare", "Köln", "Bonn", "--json"]) == 2
    screen.flush()
    assert rb"There is no certificate K\xf6ln" in screen.buffer.getvalue()  # type: ignore[attr-defined]


def test_parts_that_are_not_installed_are_named(run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(name="uvicorn")

    monkeypatch.setattr("isonomy.cli.service.import_module", missing)
    for command, extra in (("serve", "serve"),):
        status, _, err = run(command, "--anything", "1")
        assert status == 2 and f"pip install isonomy[{extra}] (uvicorn is missing)" in err


def test_datasets_as_files(run: Callable[..., Any], answered: Callable[..., Any]) -> None:
    from isonomy.datasets import load_population
    from isonomy.population import Population, Schema

    assert {each["name"] for each in answered("datasets", "list")[1]} >= {"german", "adult", "moons"}
    assert "CC BY" in run("datasets", "show", "german")[1]
    status, facts = answered("datasets", "fetch", "german", "--out", "tables")
    again = Population.from_file(facts["table"], Schema.from_toml(Path(facts["schema"])))
    assert status == 0 and np.array_equal(again.x, load_population("german").x)


@pytest.mark.parametrize(("value", "expected"), [(0.1234, 0.13), (0.12, 0.12), (12.01, 13.0), (0.0, 0.0), (9.99, 10.0)])
def test_a_suggested_gamma_is_never_too_small(value: float, expected: float) -> None:
    assert rounded_up(value) == pytest.approx(expected) and rounded_up(value) >= value - 1e-9


def test_train_repair_and_frontier(answered: Callable[..., Any], run: Callable[..., Any]) -> None:
    import shlex

    small = ("--data", "moons", "--hidden", "8", "--epochs", "2", *QUICK)
    status, facts = answered("train", *small, "--method", "sgd", "--learning-rate", "1e-9", "--out", "model.onnx")
    assert status == 3 and facts["collapsed"] and "model.onnx " in facts["reason"]
    assert facts["reason"].endswith(", on the training rows")
    small = (*small, "--learning-rate", "0.1", "--method", "sgd")
    status, facts = answered("train", *small, "--out", "model.onnx")
    assert not facts["collapsed"] and facts["reason"] == "" and facts["scores"]["balanced_accuracy"] > 0.6
    assert status == 0 and [record["epoch"] for record in facts["history"]] == [1, 2]
    assert sorted(each.name for each in Path().iterdir()) == ["model.onnx", "model.onnx.json"], "no checkpoint is left"
    again = shlex.split(facts["audit"])[1:]
    status, judged = answered(*again, "--limit", "8", "--out", "judged")
    assert status == 0 and judged["split"] == "test" and judged["delta"] == 1.0
    words = ("repair", "--data", "moons", "--model", "model.onnx", "--reads", "coordinates", *QUICK)
    status, found = answered(*words, "--epsilon", "0.9")
    assert status == 0 and found["reached"] and found["agreement"] == 1.0
    small = (*small[:-2], "--methods", "f-ibp", "--alphas", "0,2", "--seeds", "2")
    own = ("--model", "model.onnx", "--reads", "coordinates")
    status, found = answered("frontier", *small, *own, "--epsilon", "0.0001")
    assert status == 3 and found["best"] is None and len(found["models"]) == 5
    files = {f"f-ibp-alpha-{alpha}-seed-{seed}.onnx" for alpha in (0, 2) for seed in (0, 1)}
    assert {each.name for each in Path("frontier").iterdir()} == {"frontier.csv", "frontier.html", *files}
    page = Path("frontier/frontier.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 4 and "given" in page and "<script" not in page


def test_a_training_that_was_stopped_goes_on_to_the_same_network(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import isonomy.cli.training as command

    real = command._epoch
    words = ("train", "--data", "moons", "--hidden", "8", "--epochs", "4", "--learning-rate", "0.1", "--method", "sgd")
    words = (*words, *QUICK, "--out")

    def epoch(shown: Any, record: dict[str, float]) -> None:
        real(shown, record)
        if record["epoch"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "_epoch", epoch)
    status, _, err = run(*words, "one.onnx")
    assert status == 130 and "one.onnx.checkpoint" in err and not Path("one.onnx").exists()
    seen: list[float] = []
    monkeypatch.setattr(command, "_epoch", lambda shown, record: seen.append(record["epoch"]))
    assert run(*words, "one.onnx")[0] == 0 and run(*words, "two.onnx")[0] == 0
    assert seen == [3, 4, 1, 2, 3, 4]
    assert Path("one.onnx").read_bytes() == Path("two.onnx").read_bytes()
    assert not list(Path().glob("*.checkpoint"))
