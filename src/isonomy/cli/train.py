"""``isonomy train``: a network that can be proved fair, from a table to an ONNX file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from isonomy.cli import learning
from isonomy.cli.console import Answer, StoppedError, bar
from isonomy.cli.learning import Training
from isonomy.options import Given, select, with_options
from isonomy.progress import Bar


@with_options(given=learning.PLAN, training=select(Training))
def train(
    given: Given,
    training: Given,
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("model.onnx"),
) -> Answer:
    """Train a network on the training rows of a table, with a bound on unfairness in its loss.

    Example:

    isonomy train --data people.csv --schema schema.toml --delta 0.05 --gamma 0.1 --out model.onnx

    The training rows are those that the schema's split column names, else about 70 % by a fixed hash of their place.
    Without --metric similarity is learned from them (sensitive subspace) and written beside the model, for the audit.
    Ctrl-C keeps the last epoch; the same command goes on from it. The exit status is 3 when the network has collapsed:
    it gives everybody one class, or is no better than that.
    """
    plan, people = learning.read_people(given)
    how = Training(**training)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    options = learning.estimator_options(plan, how)
    from isonomy.training import FairClassifier, FairRegressor

    regression = people.schema.label is not None and people.schema.label.regression
    model: Any = (FairRegressor if regression else FairClassifier)(**options, alpha=how.alpha, checkpoint=checkpoint)
    learning.check_writable(out)
    try:
        with bar() as shown, learning.quiet():
            shown.stage("Training")
            model.fit(people.train, on_epoch=lambda record: _epoch(shown, record))
    except KeyboardInterrupt:
        kept = f"; the last epoch is kept in {checkpoint}. The same command goes on from it"
        raise StoppedError(f"Stopped{kept if checkpoint.exists() else ''}.") from None
    metric = out.with_suffix(".metric.toml") if plan.metric is None else None
    if metric is not None:
        model.metric_.save(metric)
    model.to_onnx(out)
    checkpoint.unlink(missing_ok=True)
    lost = learning.collapse_of(model, people)
    asked = replace(plan, model=str(out), metric=plan.metric or str(metric), split="test", reads="coordinates")
    facts = {
        "model": str(out), "metric": metric and str(metric), "collapsed": bool(lost),
        "reason": lost and f"{out} {lost}", "history": model.history_,
        "scores": learning.test_scores(model.network_, people), "audit": asked.command(),
    }  # fmt: skip
    return Answer(facts, _words(facts), 3 if lost else 0)


def _words(facts: dict[str, Any]) -> str:
    last = facts["history"][-1]
    told = [f"epoch {last['epoch']:.0f}: error {last['error']:.4f}"]
    told += [f"accuracy {last['accuracy']:.3f}"] if "accuracy" in last else []
    told += [f"bound on the violation {last['penalty']:.4f}"] if "penalty" in last else []
    lines = [", ".join(told) + " (training rows)"]
    lines += [f"test {name.replace('_', ' ')}: {value:.3f}" for name, value in facts["scores"].items()]
    lines.append(f"Written: {facts['model']}" + (f", {facts['metric']}" if facts["metric"] else ""))
    advice = "It would be fair because it decides nothing: train with a smaller alpha, or more epochs."
    return "\n".join(
        [*lines, f"Failed: {facts['reason']}. {advice}" if facts["reason"] else f"Prove it: {facts['audit']}"]
    )


def _epoch(shown: Bar, record: dict[str, float]) -> None:
    shown(int(record["epoch"]), int(record.get("epochs", record["epoch"])))
    parts = [f"accuracy {record['accuracy']:.3f}" if "accuracy" in record else f"error {record['error']:.4f}"]
    parts += [f"violation ≤ {record['penalty']:.4f}"] if "penalty" in record else []
    shown.note(", ".join(parts))
