"""An audit as an evaluator of MLflow, with a real MLflow and a store of its own; skipped where it is not installed."""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import isonomy
from isonomy.errors import MissingPackageError, ParameterError
from isonomy.evaluator import MlflowEvaluator, metrics, tags
from isonomy_verify import verify

ASKED: dict[str, Any] = {"protected": ["sex"], "similar": {"age": 2}, "epsilon": 0.3}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.integers(18, 75, 60), "sex": rng.choice(["female", "male"], 60), "approved": rng.integers(0, 2, 60)}
    )
    table["approved"] |= ((table["sex"] == "male") & (table["age"] > 40)).astype(int)
    return table


@pytest.fixture(scope="module")
def pipeline(people: pd.DataFrame) -> Any:
    columns = make_column_transformer((StandardScaler(), ["age"]), (OneHotEncoder(), ["sex"]))
    return make_pipeline(columns, LogisticRegression()).fit(people[["age", "sex"]], people["approved"])


def test_it_is_found_by_its_entry_point() -> None:
    """As the distribution declares it; with MLflow the tests below find it by its name."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["entry-points"]["mlflow.model_evaluator"]
    found = EntryPoint(name="isonomy", value=declared["isonomy"], group="mlflow.model_evaluator").load()
    assert found is MlflowEvaluator


def test_it_runs_only_where_it_is_asked() -> None:
    """MLflow runs every evaluator that it knows where none is named."""
    assert not MlflowEvaluator.can_evaluate(model_type="classifier", evaluator_config={"log_explainer": False})
    assert not MlflowEvaluator.can_evaluate(model_type="classifier", evaluator_config=None)
    assert MlflowEvaluator.can_evaluate(model_type="classifier", evaluator_config=ASKED)


def test_without_mlflow_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingPackageError, match=r"isonomy\[mlflow\]"):
        MlflowEvaluator().evaluate(dataset=None, run_id="", evaluator_config=ASKED)


def test_a_verdict_has_its_condition(people: pd.DataFrame, pipeline: Any) -> None:
    """Of a function all holds given its predictions; what is read needs no condition."""
    asked: dict[str, Any] = ASKED | {"label": "approved", "quiet": True, "progress": None}
    known = tags(isonomy.audit(pipeline, people, **asked))
    given = tags(isonomy.audit(lambda rows: pipeline.predict_proba(rows[["age", "sex"]])[:, 1], people, **asked))
    assert set(known) == {"isonomy.verdict", "isonomy.finding"}
    assert given["isonomy.condition"] == "given these predictions" and given["isonomy.verdict"] != "none"


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("mlflow", reason="pip install 'isonomy[mlflow]'")
    import mlflow as module
    import mlflow.models

    monkeypatch.chdir(tmp_path)
    module.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    module.create_experiment("fairness", artifact_location=(tmp_path / "artefacts").as_uri())
    module.set_experiment("fairness")
    yield module
    module.set_tracking_uri(None)


@pytest.mark.slow
def test_a_run_has_the_audit(mlflow: Any, people: pd.DataFrame, pipeline: Any, tmp_path: Path) -> None:
    """Metrics are those of the same audit from Python; the certificate among the artefacts is accepted."""
    with mlflow.start_run() as run:
        logged = mlflow.sklearn.log_model(
            pipeline, name="model", pip_requirements=[], serialization_format="cloudpickle"
        )
        result = mlflow.models.evaluate(
            logged.model_uri, people, targets="approved", model_type="classifier",
            evaluators="isonomy", evaluator_config=ASKED,
        )  # fmt: skip
    own = isonomy.audit(pipeline, people, label="approved", **ASKED, quiet=True, progress=None)
    kept = mlflow.get_run(run.info.run_id)
    assert metrics(own).items() <= result.metrics.items() and metrics(own).items() <= kept.data.metrics.items()
    assert kept.data.metrics["isonomy/upper"] == own.findings.claimed[1] > kept.data.metrics["isonomy/lower"] > 0
    shown = [kept.data.metrics[f"isonomy/flips_{kind}"] for kind in ("shown", "excluded", "open")]
    assert sum(shown) == len(people) and shown[0] > 0
    assert kept.data.tags["isonomy.verdict"] == own.findings.verdict
    assert kept.data.tags["isonomy.finding"] == repr(own).splitlines()[0]
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path="isonomy"))
    assert verify(folder / "certificate.json").accepted
    assert result.artifacts["isonomy/report"].content == (folder / "report.html").read_text(encoding="utf-8")
    assert result.artifacts["isonomy/certificate"].content == json.loads((folder / "certificate.json").read_text())
    threshold = mlflow.models.MetricThreshold(threshold=0.001, greater_is_better=False)
    with pytest.raises(mlflow.models.evaluation.validation.ModelValidationFailedException, match="isonomy/upper"):
        mlflow.validate_evaluation_results({"isonomy/upper": threshold}, result)


@pytest.mark.slow
def test_a_function_is_asked(mlflow: Any, people: pd.DataFrame, pipeline: Any) -> None:
    """It has no object inside that could be read; flips are those of the function, given its predictions."""
    result = mlflow.models.evaluate(
        lambda frame: pipeline.predict_proba(frame)[:, 1], people, targets="approved", model_type="classifier",
        evaluators=["isonomy"], evaluator_config={"isonomy": ASKED | {"redact": True}},
    )  # fmt: skip
    own = isonomy.audit(pipeline, people, label="approved", **ASKED, quiet=True, progress=None)
    flips = Counter(own.certificate.local.decision.tolist())
    assert result.metrics["isonomy/flips_shown"] == flips["flippable"] > 0
    assert result.metrics["isonomy/lower"] == pytest.approx(own.findings.claimed[0], abs=1e-3)
    assert mlflow.get_run(mlflow.last_active_run().info.run_id).data.tags["isonomy.finding"].startswith("Given")


@pytest.mark.parametrize(
    ("config", "dataset", "message"),
    [
        ({"epsilom": 1}, {}, "'evaluator_config' must be made of the keywords of isonomy.audit"),
        ({}, {"features_data": np.zeros((2, 2))}, "'data' must be a table with named columns"),
        ({}, {}, "'model' must be given"),
    ],
)
def test_what_cannot_be_audited(
    config: dict[str, Any], dataset: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace())
    given = {"features_data": pd.DataFrame({"age": [1]}), "has_targets": False, "targets_name": None} | dataset
    with pytest.raises(ParameterError, match=message):
        MlflowEvaluator().evaluate(
            dataset=SimpleNamespace(**given), run_id="", evaluator_config={"protected": ["sex"]} | config
        )
