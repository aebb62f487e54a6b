"""An audit as an evaluator of MLflow: ``mlflow.models.evaluate(..., evaluators="isonomy", evaluator_config={...})``.

MLflow finds :class:`MlflowEvaluator` by the entry point ``isonomy`` of the group ``mlflow.model_evaluator``. It has the
methods of ``mlflow.models.ModelEvaluator`` and does not inherit from it, so that nothing here needs MLflow when it is
imported.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isonomy.auditing.call import AuditKeywords, audit
from isonomy.auditing.result import Audit
from isonomy.errors import ParameterError, needed, template

FOLDER = "isonomy"
"""The folder of a run's artefacts, and what stands in front of its metrics and tags."""

ASKED = frozenset({"label", "protected", "similar", "favourable", "threshold", "plan", *AuditKeywords.__annotations__})
"""Keys of the configuration: the keywords of :func:`isonomy.audit`."""

QUESTIONS = frozenset({"protected", "similar", "schema", "metric", "plan"})
"""Keys of which a configuration has one, when it is meant for an audit."""


class MlflowEvaluator:
    """Audits a model of MLflow on the evaluation data; metrics, tags, report and certificate become part of the run.

    The ``evaluator_config`` has the keywords of :func:`isonomy.audit`; the label is the column of the targets.
    """

    @classmethod
    def can_evaluate(
        cls, *, model_type: str | None = None, evaluator_config: Mapping[str, Any] | None = None, **_others: Any
    ) -> bool:
        """Return whether the configuration asks a question: MLflow runs every evaluator where none is named."""
        return bool(QUESTIONS & set(evaluator_config or ()))

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any] | None = None,
        model: Any = None,
        **_others: Any,
    ) -> Any:
        """Audit the model on the people of a dataset, log what was measured to the run ``run_id``, and return it as an
        ``EvaluationResult``."""
        mlflow = needed("mlflow", "mlflow", "An evaluator of MLflow")
        config = dict(evaluator_config or {})
        unknown = next((key for key in config if key not in ASKED), None)
        if unknown is not None:
            raise ParameterError(template("evaluator_config", "made of the keywords of isonomy.audit", unknown))
        frame, label = _people(dataset, config)
        done = audit(_live(model, mlflow), frame, label=label, **({"progress": None, "quiet": True} | config))
        measured, client = metrics(done), mlflow.MlflowClient()
        for name, value in measured.items():
            client.log_metric(run_id, name, value)
        for name, words in tags(done).items():
            client.set_tag(run_id, name, words)
        with tempfile.TemporaryDirectory() as folder:
            saved = done.save(Path(folder) / "audit")
            client.log_artifacts(run_id, str(saved), FOLDER)
        from mlflow.models import EvaluationResult
        from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact, TextEvaluationArtifact

        root = client.get_run(run_id).info.artifact_uri.rstrip("/")
        artefacts = {
            f"{FOLDER}/report": TextEvaluationArtifact(f"{root}/{FOLDER}/report.html"),
            f"{FOLDER}/certificate": JsonEvaluationArtifact(f"{root}/{FOLDER}/certificate.json"),
        }
        return EvaluationResult(metrics=measured, artifacts=artefacts, run_id=run_id)


def metrics(done: Audit) -> dict[str, float]:
    """Return the numbers of an audit by the names that they have in a run; bounds that are infinite are left out."""
    certificate, kinds = done.certificate, Counter(done.certificate.local.decision.tolist())
    lower, upper = done.findings.claimed
    measured: dict[str, float] = {
        "people": len(done.findings.people),
        "upper": upper,
        "lower": lower,
        "people_upper": certificate.local.mean_upper,
        "people_lower": certificate.local.mean_lower,
    }
    if "none" not in kinds:
        names = {"flippable": "flips_shown", "certified": "flips_excluded", "undecided": "flips_open"}
        measured |= {name: kinds[kind] for kind, name in names.items()}
    return {f"{FOLDER}/{name}": float(value) for name, value in measured.items() if math.isfinite(value)}


def tags(done: Audit) -> dict[str, str]:
    """Return the words of an audit by the names that they have in a run; ``condition`` is what all of it rests on."""
    verdict, condition = done.findings.verdict or "none", done.findings.model.condition
    words = {"verdict": verdict, "finding": repr(done).splitlines()[0]} | (
        {"condition": condition} if condition else {}
    )
    return {f"{FOLDER}.{name}": each for name, each in words.items()}


def _people(dataset: Any, config: dict[str, Any]) -> tuple[Any, str | None]:
    """Return the table of features and targets, and the label's name; a label in the configuration wins."""
    label, frame = config.pop("label", None), dataset.features_data
    if not hasattr(frame, "columns"):
        raise ParameterError(template("data", "a table with named columns", type(frame).__name__))
    if not dataset.has_targets:
        return frame, label
    name = label or dataset.targets_name or "label"
    return frame.assign(**{name: dataset.labels_data}), name


def _live(model: Any, mlflow: Any) -> Any:
    """Return the object that a model of MLflow wraps, which can be read; else the function of raw rows that it is."""
    if model is None:
        raise ParameterError(template("model", "given: an audit asks it about people who are not in the data", None))
    try:
        own = model.get_raw_model()
    except (AttributeError, NotImplementedError):
        return model.predict
    return model.predict if isinstance(own, mlflow.pyfunc.PythonModel) else own
