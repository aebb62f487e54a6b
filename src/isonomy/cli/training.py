"""``isonomy train``, ``frontier`` and ``repair``: networks that can be proved fair, from a table to ONNX files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from isonomy.auditing.plan import Plan
from isonomy.cli.audit import TABLE
from isonomy.cli.console import Answer, StoppedError, remark
from isonomy.errors import ParameterError, template
from isonomy.options import Given, Panel, check_options, select, whole, with_options
from isonomy.progress import Bar

if TYPE_CHECKING:
    from isonomy.population import Population

_TRAINING = Panel("Training")
_PLAN = select(Plan, "data", "schema", "metric", "delta", "gamma", "order", "ground", *TABLE, data=None, delta=0.05)
_REPAIRED = ("data", "schema", "model", "metric", "delta", *TABLE, "head", "activation", "reads")


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    method: Literal["u-dif", "l-dif", "f-ibp", "sensr", "ftu", "sgd"] = _TRAINING(
        "u-dif", "u-dif: fair under every shift within gamma; l-dif: under searched shifts; f-ibp: no shift; sensr; "
        "ftu: protected columns are not read; sgd: plain.",
    )  # fmt: skip
    alpha: float = _TRAINING(1.0, "The weight of unfairness against error.")
    hidden: str = _TRAINING("256,256", "The widths of the hidden layers.")
    epochs: int | None = _TRAINING(None, "Passes over the table. Default: 10, more on a small one.", whole(1))
    learning_rate: float = _TRAINING(1e-3, "Of the steps of training.")

    def __post_init__(self) -> None:
        check_options(self)


@with_options(given=_PLAN, training=select(Training))
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
    from isonomy import fairness
    from isonomy.training import FairClassifier, FairRegressor

    plan, people = _read(given)
    how = Training(**training)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    kind: Any = FairRegressor if people.schema.label is not None and people.schema.label.regression else FairClassifier
    model = kind(**_estimator(plan, how), alpha=how.alpha, checkpoint=checkpoint)
    _check_writable(out)
    try:
        with _working("Training") as shown:
            model.fit(people.train, on_epoch=lambda record: _epoch(shown, record))
    except KeyboardInterrupt:
        kept = f"; the last epoch is kept in {checkpoint}. The same command goes on from it"
        raise StoppedError(f"Stopped{kept if checkpoint.exists() else ''}.") from None
    metric = out.with_suffix(".metric.toml") if plan.metric is None else None
    if metric is not None:
        model.metric_.save(metric)
    model.to_onnx(out)
    checkpoint.unlink(missing_ok=True)
    lost = _collapse(model, people)
    asked = replace(plan, model=str(out), metric=plan.metric or str(metric), split="test", reads="coordinates")
    scores = {name: value for name, value in fairness.scores(model.network_, people.test).items() if name != "classes"}
    facts = {
        "model": str(out), "metric": metric and str(metric), "collapsed": bool(lost),
        "reason": lost and f"{out} {lost}", "history": model.history_, "scores": scores, "audit": asked.command(),
    }  # fmt: skip
    advice = "It would be fair because it decides nothing: train with a smaller alpha, or more epochs."
    lines = [
        f"epoch {model.history_[-1]['epoch']:.0f}: {_reached(model.history_[-1])} (training rows)",
        *(f"test {name.replace('_', ' ')}: {value:.3f}" for name, value in scores.items()),
        f"Written: {out}" + (f", {metric}" if metric else ""),
        f"Failed: {facts['reason']}. {advice}" if lost else f"Prove it: {facts['audit']}",
    ]
    return Answer(facts, lines, 3 if lost else 0)


def _epoch(shown: Bar, record: dict[str, float]) -> None:
    shown(int(record["epoch"]), int(record.get("epochs", record["epoch"])))
    shown.note(_reached(record))


def _reached(record: dict[str, float]) -> str:
    """What an epoch came to."""
    names = {"error": "error {:.4f}", "accuracy": "accuracy {:.3f}", "penalty": "bound on the violation {:.4f}"}
    return ", ".join(words.format(record[name]) for name, words in names.items() if name in record)


@with_options(given=_PLAN, training=select(Training, "method", "hidden", "epochs", "learning_rate"))
def frontier(
    given: Given,
    training: Given,
    out: Annotated[Path, typer.Option(help="The folder to write the models and frontier.csv to.")] = Path("frontier"),
    alphas: Annotated[str, typer.Option(help="Weights of unfairness against error.")] = "0,0.1,0.3,1,3",
    epsilon: Annotated[float | None, typer.Option(help="Name the most accurate model certified at this.")] = None,
) -> Answer:
    """Train along alpha: what does fairness cost in accuracy?

    Example:

    isonomy frontier --data people.csv --schema schema.toml --alphas 0,0.3,1,3 --epsilon 0.02

    Every model is judged on the test rows by its accuracy and its certified mean violation (of individuals, no shift).
    Models that have collapsed (no better than giving everybody one class) are marked and never named. The exit status
    is 3 when all have, or, with --epsilon, no other model is certified.
    """
    from rich.table import Table

    from isonomy.arithmetic import at_most
    from isonomy.files import atomic
    from isonomy.training import FairClassifier
    from isonomy.training import frontier as trained
    from isonomy.training.frontier import mean_local

    plan, people = _read(given)
    weights = _numbers("alphas", alphas, float)
    model = FairClassifier(**_estimator(plan, Training(**training)))
    done = count(1)

    def measured(one: FairClassifier, judged: Any) -> float:
        shown(next(done), len(weights))
        return mean_local(one, judged)

    with _working("Training along alpha") as shown:
        found = trained(people, weights, model=model, measure=measured)
    table = found.table.assign(model=[f"alpha-{weight:g}.onnx" for weight in weights])
    with atomic(out / "frontier.csv") as part:
        table.to_csv(part, index=False)
    for name, each in zip(table["model"], found.models, strict=True):
        each.to_onnx(out / name)
    if plan.metric is None:
        found.models[0].metric_.save(out / "metric.toml")
    best, why = None, ""
    try:
        place = found.place(math.inf if epsilon is None else epsilon)
        best = None if epsilon is None else str(table["model"].iloc[place])
    except ParameterError as error:
        why = str(error)
    shown_table = Table("alpha", "accuracy", "balanced", "certified mean violation", "", "model")
    for row in table.to_dict("records"):
        mark = "undominated" if row["pareto"] else "collapsed" if row["collapsed"] else ""
        scores = f"{row['accuracy']:.3f}", f"{row['balanced_accuracy']:.3f}", at_most(row["upper"])
        shown_table.add_row(f"{row['alpha']:g}", *scores, mark, row["model"])
    lines = [f"Written: {out / 'frontier.csv'} and {len(table)} models."]
    lines += [f"Most accurate at epsilon {epsilon:g}: {best or 'none'}."] if epsilon is not None else []
    lines += [f"Failed: {why}"] if why else []
    facts = {"folder": str(out), "models": table.to_dict("records"), "best": best, "reason": why}
    return Answer(facts, [shown_table, *lines], 3 if why else 0)


@with_options(given=select(Plan, *_REPAIRED, data=None, delta=0.05))
def repair(
    given: Given,
    epsilon: Annotated[float, typer.Option(help="The mean violation to reach.")],
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("repaired.onnx"),
    rounds: Annotated[int, typer.Option(help="How often unfairness may be weighed more.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over the table in each round.")] = 3,
) -> Answer:
    """Change a network as little as possible until it is certified at epsilon.

    Example:

    isonomy repair --data people.csv --schema schema.toml --model model.onnx --epsilon 0.05

    No labels are needed. Certified is the mean violation of the test rows, without a shift. Exit status: 0 reached, 3
    not reached, also where only networks reach it that have collapsed: that give everybody one class, or are no better.
    """
    from isonomy.arithmetic import at_most
    from isonomy.auditing.inputs import read_network
    from isonomy.training import repair as repaired
    from isonomy.training.perceptron import write_onnx

    plan, people = _read(given)
    if plan.model is None:
        raise ParameterError("'model' must be given: the network file to repair, such as model.onnx.")
    network = read_network(plan, people.schema)
    if network.remark:
        remark(f"- {network.remark}")
    _check_writable(out)
    with _working("Repairing") as shown:
        found = repaired(
            network, people, epsilon, metric=_similar(plan)["metric"], delta=plan.delta, rounds=rounds, epochs=epochs,
            random_state=plan.seed, progress=shown,
        )  # fmt: skip
    write_onnx(found.network, out)
    facts = {
        "model": str(out), "reached": found.reached, "epsilon": epsilon, "upper": found.certificate.mean_upper,
        "agreement": found.agreement, "change": found.change, "collapsed": found.collapsed,
        "reason": found.reason,
    }  # fmt: skip
    fairest = "the fairest network found that decides" if found.lost else "the fairest network found"
    words = "reached" if found.reached else f"not reached; this is {fairest}"
    words = "no success, since the network decides nothing" if found.collapsed else words
    advice = "Give a network that decides." if found.collapsed else "Allow a larger epsilon."
    lines = [
        f"Certified mean violation: {at_most(found.certificate.mean_upper)} (epsilon {epsilon:g}: {words}).",
        f"Decisions kept: {found.agreement:.1%} of the test rows; outputs change by {found.change:.4f} on average.",
        *([] if found.reached else [f"Failed: {found.reason} {advice}"]),
        f"Written: {out}; it reads the schema's coordinates (--reads coordinates).",
    ]
    return Answer(facts, lines, 0 if found.reached else 3)


def _read(given: Given) -> tuple[Plan, Population]:
    """The table to learn from, and the plan that its options make."""
    from isonomy.auditing.inputs import read_table

    if "data" not in given:
        right = "the table to learn from, or a name of the catalogue such as german"
        raise ParameterError(f"'data' must be given: {right}.")
    plan = Plan.of(given)
    return plan, read_table(plan, plan.data)


def _similar(plan: Plan) -> dict[str, Any]:
    """The metric and the ground cost of a plan."""
    from isonomy.auditing.inputs import read_ground
    from isonomy.similarity import load_metric

    metric = None if plan.metric is None else load_metric(plan.metric)
    return {"metric": metric, "ground": read_ground(plan.ground, metric)}


def _estimator(plan: Plan, training: Training) -> dict[str, Any]:
    """The arguments of a fair estimator."""
    return {
        "method": training.method, "delta": plan.delta, "gamma": plan.gamma, "order": plan.order,
        "hidden": _numbers("hidden", training.hidden, int), "epochs": training.epochs,
        "learning_rate": training.learning_rate, "random_state": plan.seed, "progress": None, **_similar(plan),
    }  # fmt: skip


def _numbers(name: str, text: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """Numbers of a kind with commas between them."""
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip() or kind is float)
    except ValueError:
        right = "whole numbers" if kind is int else "numbers"
        raise ParameterError(template(name, f"{right} with commas between them", text)) from None


def _check_writable(out: Path) -> None:
    """Before a long training, not after it."""
    from isonomy.files import atomic

    with atomic(out.with_name(f".{out.name}.check")) as part:
        part.touch()
    out.with_name(f".{out.name}.check").unlink()


@contextmanager
def _working(what: str) -> Iterator[Bar]:
    """A bar, and no warnings of the libraries beside it; what matters is said afterwards."""
    with Bar("Reading") as shown, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        shown.stage(what)
        yield shown


def _collapse(model: Any, people: Population) -> str:
    """How a trained network has collapsed, on the training rows or the test rows; empty where it decides."""
    from isonomy.training.collapse import class_names, collapse

    names = class_names(people.schema.label)
    for side, some in (("training", people.train), ("test", people.test)):
        if some.y is not None and (why := collapse(model.network_, some.x, some.y, some.weights, names)):
            return f"{why}, on the {side} rows"
    return ""
