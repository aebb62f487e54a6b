"""``isonomy train``: a network that can be proved fair, from a table to an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isonomy.cli import learning
from isonomy.cli import options as o
from isonomy.cli.bars import Bars, bars
from isonomy.cli.talk import answer, fail

if TYPE_CHECKING:
    from isonomy.audit import Plan


def train(
    data: o.Data = None,
    schema: o.SchemaFile = None,
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("model.onnx"),
    method: learning.MethodName = learning.Method.udif,
    metric: o.MetricFile = None,
    delta: learning.TrainDelta = 0.05,
    gamma: learning.TrainGamma = 0.1,
    alpha: learning.Alpha = 1.0,
    hidden: learning.Hidden = "256,256",
    epochs: learning.Epochs = None,
    learning_rate: learning.Rate = 1e-3,
    order: o.Order = None,
    ground: o.Ground = None,
    seed: o.Seed = None,
    unknown: o.UnknownRows = None,
    separator: o.Separator = None,
    encoding: o.Encoding = None,
    decimal: o.Decimal = None,
    json: o.Json = False,
) -> None:
    """Train a network on the training rows of a table, with a bound on unfairness in its loss.

    Example:

    isonomy train --data people.csv --schema schema.toml --delta 0.05 --gamma 0.1 --out model.onnx

    The training rows are those that the schema's split column names, else about 70 % by a fixed hash of their place.
    Without --metric similarity is learned from them (sensitive subspace) and written beside the model, for the audit.
    Ctrl-C keeps the last epoch; the same command goes on from it. The exit status is 3 when the network has collapsed:
    it gives everybody one class, or is no better than that.
    """
    said = o.given(dict(locals()), *learning.APART)
    plan, people = learning.read_people(said)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    options = {
        "method": method.value, "delta": delta, "gamma": gamma, "alpha": alpha, "hidden": learning.widths(hidden),
        "epochs": epochs, "learning_rate": learning_rate, "order": plan.order, "random_state": plan.seed,
        "checkpoint": checkpoint, "progress": None, **learning.similar(plan),
    }  # fmt: skip
    from isonomy.training import FairClassifier, FairRegressor

    regression = people.schema.label is not None and people.schema.label.regression
    model: Any = (FairRegressor if regression else FairClassifier)(**options)
    learning.check_writable(out)
    try:
        with bars() as shown, learning.quiet():
            shown.stage("Training")
            model.fit(people.train, on_epoch=lambda record: _epoch(shown, record))
    except KeyboardInterrupt:
        kept = (
            f"; the last epoch is kept in {checkpoint}. The same command goes on from it" if checkpoint.exists() else ""
        )
        raise typer.Exit(fail(f"Stopped{kept}.", code="stopped", status=130, machine=False)) from None
    metric_file = None if plan.metric else out.with_suffix(".metric.toml")
    if metric_file is not None:
        model.metric_.save(metric_file)
    model.to_onnx(out)
    checkpoint.unlink(missing_ok=True)
    lost = learning.collapse_of(model, people)
    last = model.history_[-1]
    again = _audit_command(plan, out, plan.metric or metric_file, delta, gamma)
    if json:
        facts: dict[str, Any] = {"model": str(out), "metric": None if metric_file is None else str(metric_file)}
        facts |= {"collapsed": bool(lost), "reason": lost and f"{out} {lost}"}
        answer(
            facts | {"history": model.history_, "scores": learning.test_scores(model.network_, people), "audit": again}
        )
        raise typer.Exit(3 if lost else 0)
    told = [f"epoch {last['epoch']:.0f}: error {last['error']:.4f}"]
    told += [f"accuracy {last['accuracy']:.3f}"] if "accuracy" in last else []
    told += [f"bound on the violation {last['penalty']:.4f}"] if "penalty" in last else []
    print(", ".join(told) + " (training rows)")
    for name, value in learning.test_scores(model.network_, people).items():
        print(f"test {name.replace('_', ' ')}: {value:.3f}")
    print(f"Written: {out}" + ("" if metric_file is None else f", {metric_file}"))
    if lost:
        print(
            f"Failed: {out} {lost}. It would be fair because it decides nothing: train with a smaller alpha, or more "
            "epochs."
        )
        raise typer.Exit(3)
    print(f"Prove it: {again}")


def _epoch(shown: Bars, record: dict[str, float]) -> None:
    shown.tick(int(record["epoch"]), int(record.get("epochs", record["epoch"])))
    parts = [f"accuracy {record['accuracy']:.3f}" if "accuracy" in record else f"error {record['error']:.4f}"]
    parts += [f"violation ≤ {record['penalty']:.4f}"] if "penalty" in record else []
    shown.note(", ".join(parts))


def _audit_command(plan: Plan, model: Path, metric: Any, delta: float, gamma: float) -> str:
    from dataclasses import replace

    asked = replace(
        plan, model=str(model), metric=str(metric), delta=delta, gamma=gamma, split="test", reads="coordinates"
    )
    return asked.command()
