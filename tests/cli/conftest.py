"""A table and models that the project has never seen, as files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from isonomy.cli import main

NUMBERS = ["age", "income"]


@pytest.fixture(scope="session")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 240
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 75, n),
            "sex": rng.choice(["female", "male"], n),
            "income": np.round(rng.gamma(4, 9000, n), 2),
            "town": rng.choice(["Köln", "Bonn", "Aachen"], n),
        }
    )
    score = (frame["age"] - 40) / 20 + (frame["income"] - 36000) / 20000 + 0.7 * (frame["sex"] == "male")
    frame["approved"] = np.where(score + rng.normal(0, 0.5, n) > 0.3, "yes", "no")
    return frame


@pytest.fixture(scope="session")
def pipeline(table: pd.DataFrame) -> Any:
    columns = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), ["sex", "town"]))
    model = make_pipeline(columns, MLPClassifier((6,), max_iter=150, learning_rate_init=0.02, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(table.drop(columns="approved"), table["approved"])


@pytest.fixture(scope="session")
def perceptron(table: pd.DataFrame) -> tuple[torch.nn.Module, np.ndarray]:
    """A torch network on encoded columns: numbers standardised and first, then dummies; it ends in one logit."""
    encoded = pd.get_dummies(table.drop(columns="approved"), columns=["sex", "town"], dtype=float)
    encoded[NUMBERS] = (encoded[NUMBERS] - encoded[NUMBERS].mean()) / encoded[NUMBERS].std(ddof=0)
    x = torch.tensor(encoded.to_numpy(), dtype=torch.float32)
    y = torch.tensor((table["approved"] == "yes").to_numpy(dtype=float), dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(x.shape[1], 6), torch.nn.ReLU(), torch.nn.Linear(6, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(200):
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y).backward()
        optimiser.step()
    return model, x.numpy()


@pytest.fixture(scope="session")
def files(
    tmp_path_factory: pytest.TempPathFactory, table: pd.DataFrame, pipeline: Any, perceptron: tuple[Any, Any]
) -> Path:
    """people.csv, european.csv, pipeline.onnx, pipeline.skops, encoded.onnx."""
    import skops.io
    from skl2onnx import to_onnx

    folder = tmp_path_factory.mktemp("files")
    table.to_csv(folder / "people.csv", index=False)
    mess = table.assign(
        number=np.arange(len(table)),
        note=[f"note {i}" for i in range(len(table))],
        income=[f"{value:.2f}".replace(".", ",") for value in table["income"]],
    )
    mess.to_csv(folder / "european.csv", index=False, sep=";", encoding="latin-1")
    raw = table.drop(columns="approved")
    onnx = to_onnx(pipeline, raw[:1], options={"zipmap": False})
    (folder / "pipeline.onnx").write_bytes(onnx.SerializeToString())
    skops.io.dump(pipeline, folder / "pipeline.skops")
    model, x = perceptron
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (torch.from_numpy(x[:1]),), folder / "encoded.onnx", dynamo=False)
    return folder


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in a folder of its own: status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([str(word) for word in words])
        found = capsys.readouterr()
        return status, found.out, found.err

    return call


@pytest.fixture
def answered(run: Run) -> Callable[..., Any]:
    """Run with --json: the exit status and the document, which is all that stands on standard output."""

    def call(*words: str | Path) -> tuple[int, Any]:
        status, out, _ = run(*words, "--json")
        return status, json.loads(out)

    return call
