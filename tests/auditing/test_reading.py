"""A model that is read the wrong way round is not audited in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy
from isonomy.errors import NetworkError
from isonomy.report.facts import facts_of

onnx = pytest.importorskip("onnx")

QUICK: dict[str, Any] = {"limit": 40, "gamma": 0.0, "tier": "interval", "no_search": True}


def sigmoid_of_income(path: Path) -> None:
    """A model that gives P(approved) from sex and income, in an ONNX file that names no class."""
    from onnx import TensorProto, helper, numpy_helper

    weight = np.array([[0.0], [0.0], [4.0]], dtype=np.float32)
    arrays = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([-2.0], dtype=np.float32), "b")]
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["z"]), helper.make_node("Sigmoid", ["z"], ["p"])]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in (("x", 3), ("p", 1))
    ]
    graph = helper.make_graph(nodes, "model", ends[:1], ends[1:], arrays)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    """Labels whose sorted order, approved before rejected, is not that of a sigmoid for P(approved)."""
    rng = np.random.default_rng(0)
    income = rng.random(400)
    good = rng.random(400) < 1 / (1 + np.exp(2 - 6 * income))
    table = {"sex": rng.choice(["f", "m"], 400), "income": income, "outcome": np.where(good, "approved", "rejected")}
    pd.DataFrame(table).to_csv(tmp_path / "people.csv", index=False)
    sigmoid_of_income(tmp_path / "model.onnx")
    (tmp_path / "schema.toml").write_text(
        '[label]\ncolumn = "outcome"\nclasses = ["approved", "rejected"]\n'
        '[features.sex]\nkind = "categorical"\ncategories = ["f", "m"]\nprotected = true\n'
        "[features.income]\nlow = 0\nhigh = 1\ntolerance = 0.1\n"
    )
    return {name: str(tmp_path / file) for name, file in
            (("data", "people.csv"), ("schema", "schema.toml"), ("model", "model.onnx"))}  # fmt: skip


def test_an_audit_stops_and_names_both_accuracies_and_both_ways_out(plan: dict[str, Any]) -> None:
    with pytest.raises(NetworkError) as caught:
        isonomy.audit(plan | {"gamma": 0.0}, progress=None)
    said = str(caught.value)
    assert (
        "wrong way round" in said and "'classes'" in said and "--as-read" in said and '"rejected", "approved"' in said
    )
    shares = [float(word) for word in said.replace("(balanced ", "").split() if word.replace(".", "").isdigit()]
    assert len(shares) == 4 and shares[0] + shares[2] == pytest.approx(100) and shares[0] < 35 < 65 < shares[2]


def test_a_guessed_order_has_a_way_out_that_exists(plan: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """From a table and a model alone there is no schema whose classes could be corrected."""
    from isonomy.cli import main

    words = ["--label", "outcome", "--protected", "sex", "--gamma", "0", "--limit", "40"]
    assert main(["audit", plan["data"], plan["model"], *words]) == 2
    assert "'isonomy init' with the same table, model and options writes one" in capsys.readouterr().err
    folder = Path(plan["data"]).parent / "asked"
    assert main(["init", plan["data"], plan["model"], *words[:4], "--out", str(folder)]) == 0
    schema = folder / "schema.toml"
    schema.write_text(schema.read_text().replace('["approved", "rejected"]', '["rejected", "approved"]'))
    assert main(["audit", str(folder / "audit.toml"), *words[4:], "--out", str(folder / "out")]) == 0


def test_both_ways_out(plan: dict[str, Any]) -> None:
    found = isonomy.audit(plan | QUICK | {"as_read": True}, progress=None)
    note = "As it is read, the model agrees with"
    assert any(note in each for each in facts_of(found.findings)["summary"].notes) and note in found.report()
    assert "--as-read" in found.findings.command
    schema = Path(plan["schema"])
    schema.write_text(schema.read_text().replace('["approved", "rejected"]', '["rejected", "approved"]'))
    right = isonomy.audit(plan | {**QUICK, "limit": 400}, progress=None)
    assert right.findings.other_reading is None and right.findings.scores["accuracy"] > 0.65
    assert note not in right.report()


@pytest.mark.parametrize("order", [("approved", "rejected"), ("rejected", "approved")])
def test_a_model_that_names_its_classes_is_not_turned_by_the_schema(
    plan: dict[str, Any], order: tuple[str, str]
) -> None:
    """Fitted on labels that are the other way round: to turn the classes of the schema would lead in a circle."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    skops = pytest.importorskip("skops.io")
    people, schema = pd.read_csv(plan["data"]), Path(plan["schema"])
    wrong = people["outcome"].map({"approved": "rejected", "rejected": "approved"})
    model = make_pipeline(make_column_transformer(("passthrough", ["income"])), LogisticRegression())
    skops.dump(model.fit(people[["income"]], wrong), schema.with_name("model.skops"))
    schema.write_text(schema.read_text().replace('["approved", "rejected"]', json.dumps(order)))
    with pytest.raises(NetworkError, match="wrong way round") as caught:
        isonomy.audit(plan | QUICK | {"limit": 400, "model": str(schema.with_name("model.skops"))}, progress=None)
    assert "names its classes" in str(caught.value) and "Correct the order" not in str(caught.value)
    assert "--as-read" in str(caught.value)


@pytest.mark.parametrize("options", [{}, {"engine": "local"}])
def test_a_table_that_is_sorted_by_its_labels_is_judged_too(plan: dict[str, Any], options: dict[str, Any]) -> None:
    """Two tables put one below the other, such as the approved and the rejected: the first rows have one class."""
    people = pd.read_csv(plan["data"])
    pd.concat([people] * 100).sort_values("outcome").to_csv(plan["data"], index=False)
    assert (pd.read_csv(plan["data"], nrows=20_000)["outcome"] == "approved").all()
    with pytest.raises(NetworkError, match="wrong way round"):
        isonomy.audit(plan | options | {"gamma": 0.0}, progress=None)


@pytest.mark.parametrize("engine", ["local", "dask"])
def test_a_streamed_table_is_judged_too(plan: dict[str, Any], engine: str) -> None:
    with pytest.raises(NetworkError, match="wrong way round"):
        isonomy.audit(plan | {"engine": engine, "chunk": 64, "gamma": 0.0}, progress=None)


def test_the_command_stops_with_one_sentence(plan: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    from isonomy.cli import main

    words = [part for name, value in plan.items() for part in (f"--{name}", value)]
    assert main(["audit", *words, "--gamma", "0", "--out", str(Path(plan["data"]).with_name("out"))]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "probably read the wrong way round" in said and "--as-read" in said and "Traceback" not in said
    assert not Path(plan["data"]).with_name("out").exists()


def test_init_warns(plan: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from isonomy.cli import main

    words = [
        "init",
        plan["data"],
        plan["model"],
        "--label",
        "outcome",
        "--protected",
        "sex",
        "--out",
        str(tmp_path / "a"),
    ]
    assert main([*words, "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any("probably read the wrong way round" in note and '"rejected", "approved"' in note for note in notes), (
        notes
    )
