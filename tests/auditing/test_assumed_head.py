"""An audit of a network whose head was assumed says so wherever it tells something."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.written import predicate_of

from isonomy import Network, load_population
from isonomy.auditing import Plan, run, write
from isonomy.auditing.inputs import read_inputs
from isonomy.cli import main
from isonomy.report.facts import facts_of
from isonomy.report.text import to_json, to_markdown

from .streamed import audited, plan, write_files


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two raw outputs for moons, as a state dict."""
    width = load_population("moons").x.shape[1]
    rng = np.random.default_rng(0)
    network = Network.from_layers(
        [rng.normal(size=(3, width)), rng.normal(size=(2, 3))], [rng.normal(size=3), np.zeros(2)]
    )
    layers = [node for node in network.graph.nodes if node.kind == "affine"]
    path = tmp_path_factory.mktemp("model") / "model.pt"
    parts = [(i, part, getattr(each, part)) for i, each in enumerate(layers) for part in ("weight", "bias")]
    torch.save({f"{i}.{part}": torch.from_numpy(array) for i, part, array in parts}, path)
    return path


def test_it_stands_in_report_summary_and_certificate(model: Path, tmp_path: Path) -> None:
    asked = Plan(data="moons", model=str(model), activation="relu", limit=3, gamma=0.0, tier="interval")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said in the audit, not besides
        found = run(asked, None, inputs=read_inputs(asked))
    assert to_json(facts_of(found))["remarks"] == [found.model.remark] and "raw numbers" in found.model.remark
    assert f"Note: {found.model.remark}" in to_markdown(facts_of(found))
    out = write(found, tmp_path / "out")
    assert predicate_of(out)["question"]["head_from"] == "declared"  # the file does not say it
    assert "which was assumed" in (out / "report.html").read_text()
    said = replace(asked, head="softmax")
    found = run(said, None, inputs=read_inputs(said))
    assert to_json(facts_of(found))["remarks"] == [] and "Note:" not in to_markdown(facts_of(found))
    out = write(found, tmp_path / "other")
    assert predicate_of(out)["reading"]["model"]["head"] == "softmax"
    assert "which was assumed" not in (out / "report.html").read_text()


def test_the_command_says_it_and_takes_a_head(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["audit", "--data", "moons", "--model", str(model), "--activation", "relu", "--limit", "3", "--gamma", "0"]
    words += ["--tier", "interval", "--json"]
    main([*words, "--out", "one"])
    assert "raw numbers" in capsys.readouterr().err
    main([*words, "--out", "two", "--head", "softmax"])
    assert "raw numbers" not in capsys.readouterr().err


def test_a_streamed_audit_says_it(tmp_path: Path) -> None:
    asked = plan(write_files(tmp_path), head="auto")
    assert "raw numbers" in read_inputs(asked).model.remark
    assert audited(asked)[1]["remarks"] == [read_inputs(asked).model.remark]
