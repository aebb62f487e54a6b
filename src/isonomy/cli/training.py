"""``isonomy train``, ``frontier`` and ``repair``: networks that can be proved fair, from a table to ONNX files.

They ask what ``isonomy audit`` asks: the same options and files, with the same defaults. Every number that they give of
a network is that of an audit of its file, which is run here; beside the scores stand those of a blind regression.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from isonomy.auditing.plan import Plan
from isonomy.cli.audit import File
from isonomy.cli.console import Answer, StoppedError, json_text, remark
from isonomy.errors import ParameterError, template
from isonomy.options import Given, Panel, check_options, select, whole, with_options
from isonomy.progress import Bar

if TYPE_CHECKING:
    from rich.table import Table

    from isonomy.auditing.inputs import Inputs
    from isonomy.population import Population
    from isonomy.report.findings import Findings

_TRAINING = Panel("Training")
_OTHERS = (
    "name", "out", "redact", "key", "held_out", "confidence", "against", "engine", "scheduler", "chunk",
)  # fmt: skip
"""Options of an audit that are not about the question; a file may say them, and nothing is made of them here."""
_MODEL = ("model", "head", "output", "activation", "reads")
_ASKED = [each for each in select(Plan) if each.name not in _OTHERS]
_LEARNED = [each for each in _ASKED if each.name not in (*_MODEL, "as_read")]
_BLIND = "blind regression"
_TOLD = (
    "individuals", "selection", "metric", "delta", "gamma", "order", "ground", "verdict", "upper", "lower", "local",
    "decisions", "printed",
)  # fmt: skip
"""What an audit's document has under these names is said of a network that is written here."""
_SCORES = {
    "accuracy": "accuracy", "balanced_accuracy": "balanced accuracy", "auc": "AUC", "log_loss": "log-loss",
    "mean_absolute_error": "mean absolute error", "r2": "R²",
}  # fmt: skip


@dataclass(frozen=True)
class Training:
    """How a network is trained."""

    method: Literal["u-dif", "l-dif", "f-ibp", "sensr", "ftu", "sgd"] = _TRAINING(
        "u-dif", "u-dif: fair under every shift within gamma; l-dif: under searched shifts; f-ibp: no shift; sensr; "
        "ftu: protected columns are not read; sgd: plain.",
    )  # fmt: skip
    alpha: float = _TRAINING(1.0, "The weight of unfairness against error.")
    hidden: str = _TRAINING("256,256", "The widths of the hidden layers.")
    epochs: int | None = _TRAINING(None, "Passes over the table, at most. Default: 10, more on a small one.", whole(1))
    learning_rate: float = _TRAINING(1e-3, "Of the steps of training.")

    def __post_init__(self) -> None:
        check_options(self)


@with_options(given=_LEARNED, training=select(Training))
def train(
    given: Given,
    training: Given,
    file: File = None,
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("model.onnx"),
) -> Answer:
    """Train a network on the training rows of a table, with a bound on unfairness in its loss, and prove what it is.

    Examples:

    isonomy train audit.toml --out model.onnx

    isonomy train --data people.csv --schema schema.toml --gamma 0.1 --out model.onnx

    The question is that of 'isonomy audit', with the same options, file and defaults. The training rows are those that
    the schema's split column names, else about 70 % by a fixed hash of their place; a fifth of them is set aside, and
    the weights that do best on it are kept. The other rows are audited, unless --split says otherwise: 'isonomy audit'
    with --split test gives the same numbers. Similar are the counterparts of the schema, unless --metric names another
    metric. Beside the network's scores stand those of a logistic regression that reads nothing protected. All of this
    is written to OUT.json, too.

    Ctrl-C keeps the last epoch; the same command goes on from it. The exit status is 3 when the network has collapsed
    (it gives everybody one class, or is no better than that), or is not certified at --epsilon.
    """
    from isonomy import fairness
    from isonomy.training import FairClassifier, FairRegressor

    _check_network_file(out)
    plan, people = _read(Plan.of(given, file))
    how = Training(**training)
    checkpoint = out.with_name(f"{out.name}.checkpoint")
    kind: Any = FairRegressor if people.schema.label is not None and people.schema.label.regression else FairClassifier
    model = kind(**_estimator(plan, people, how), alpha=how.alpha, checkpoint=checkpoint)
    try:
        with _working("Training") as shown:
            model.fit(people.train, on_epoch=lambda record: _epoch(shown, record))
    except KeyboardInterrupt:
        words = f"; the last epoch is kept in {checkpoint}. The same command goes on from it"
        raise StoppedError(f"Stopped{words if checkpoint.exists() else ''}.") from None
    model.to_onnx(out)
    checkpoint.unlink(missing_ok=True)
    lost = _collapse(model, people)
    with _working("Proving") as shown:
        findings = _audited(plan, out, model.network_.head, shown)
    blind = fairness.blind_scores(people.train, findings.people)
    failed = bool(lost) or findings.verdict not in (None, "certified")
    facts: dict[str, Any] = {
        "model": str(out), "collapsed": bool(lost), "reason": lost and f"{out} {lost}", "history": model.history_,
        "kept": model.kept_, **_told(findings), "blind": blind, "audit": findings.command,
    }  # fmt: skip
    advice = "It would be fair because it decides nothing: train with a smaller alpha, or more epochs."
    lines: list[Any] = [
        f"Epoch {model.kept_['epoch']:.0f} of {len(model.history_)} is kept: {_reached(model.kept_)}.",
        _table([(out.name, findings, facts["scores"]), (_BLIND, None, blind)]),
        f"Audited: {findings.people.selection.words()}.",
        f"Written: {out} and {_keep(out, facts)}.",
        f"Failed: {facts['reason']}. {advice}" if lost else f"The whole audit: {facts['audit']}",
        *([f"Verdict at epsilon {plan.epsilon:g}: {findings.verdict}."] if plan.epsilon is not None else []),
    ]
    return Answer(facts, lines, 3 if failed else 0)


def _epoch(shown: Bar, record: dict[str, float]) -> None:
    shown(int(record["epoch"]), int(record.get("epochs", record["epoch"])))
    shown.note(_reached(record))


def _reached(record: dict[str, float]) -> str:
    """What an epoch came to."""
    names = {
        "error": "error of those learned from {:.4f}", "accuracy": "accuracy {:.3f}", "penalty": "trained bound {:.4f}",
        "validation_error": "error of those set aside {:.4f}",
    }  # fmt: skip
    return ", ".join(words.format(record[name]) for name, words in names.items() if name in record)


@with_options(given=_LEARNED, training=select(Training, "method", "hidden", "epochs", "learning_rate"))
def frontier(
    given: Given,
    training: Given,
    file: File = None,
    out: Annotated[Path, typer.Option(help="The folder to write the models and frontier.csv to.")] = Path("frontier"),
    alphas: Annotated[str, typer.Option(help="Weights of unfairness against error.")] = "0,0.1,0.3,1,3",
) -> Answer:
    """Train along alpha: what does fairness cost in accuracy?

    Example:

    isonomy frontier --data people.csv --schema schema.toml --alphas 0,0.3,1,3 --epsilon 0.02

    The question, its options, file and defaults are those of 'isonomy audit': every model is judged by what an audit of
    it proves, on the rows that are not learned from unless --split says otherwise. Beside the models, in the terminal
    and in frontier.csv, stand the scores of a logistic regression that reads nothing protected. With --epsilon the most
    accurate model that is certified at it is named. Models that have collapsed (no better than giving everybody one
    class) are marked and never named. The exit status is 3 when all have, or, with --epsilon, no other model is
    certified.
    """
    import pandas as pd

    from isonomy.auditing.inputs import chosen
    from isonomy.files import atomic
    from isonomy.training import FairClassifier
    from isonomy.training import frontier as trained

    plan, people = _read(Plan.of(given, file))
    weights = _numbers("alphas", alphas, float)
    model = FairClassifier(**_estimator(plan, people, Training(**training)))
    audits: list[Findings] = []

    def measured(one: FairClassifier, judged: Any) -> float:
        one.to_onnx(out / f"alpha-{one.alpha:g}.onnx")
        audits.append(_audited(plan, out / f"alpha-{one.alpha:g}.onnx", "softmax"))
        shown(len(audits), len(weights))
        return audits[-1].claimed[1]

    _check_writable(out / "frontier.csv")
    with _working("Training along alpha") as shown:
        found = trained(people, weights, model=model, judged_on=chosen(plan, people), measure=measured)
    table = found.table.assign(
        mean_upper=[each.certificate.local.mean_upper for each in audits],
        model=[f"alpha-{weight:g}.onnx" for weight in weights],
    )
    with atomic(out / "frontier.csv") as part:
        known = {name: value for name, value in found.blind.items() if name in table}
        pd.concat([table, pd.DataFrame([known | {"model": _BLIND}])]).to_csv(part, index=False)
    best, why = None, ""
    try:
        place = found.place(math.inf if plan.epsilon is None else plan.epsilon)
        best = None if plan.epsilon is None else str(table["model"].iloc[place])
    except ParameterError as error:
        why = str(error)
    rows: list[tuple[str, Findings | None, Mapping[str, float]]] = []
    for row, audit in zip(table.to_dict("records"), audits, strict=True):
        mark = ", undominated" if row["pareto"] else ", collapsed" if row["collapsed"] else ""
        rows.append((f"{row['model']}{mark}", audit, _told(audit)["scores"]))
    lines = [f"Audited: {audits[0].people.selection.words()}."]
    lines += [f"Written: {out / 'frontier.csv'} and {len(table)} models."]
    lines += [f"Most accurate at epsilon {plan.epsilon:g}: {best or 'none'}."] if plan.epsilon is not None else []
    lines += [f"Failed: {why}"] if why else []
    models = [row | _told(audit) for row, audit in zip(table.to_dict("records"), audits, strict=True)]
    facts = {"folder": str(out), "models": models, "blind": found.blind, "best": best, "reason": why}
    return Answer(facts, [_table([*rows, (_BLIND, None, found.blind)]), *lines], 3 if why else 0)


@with_options(given=_ASKED)
def repair(
    given: Given,
    file: File = None,
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("repaired.onnx"),
    rounds: Annotated[int, typer.Option(help="How often unfairness may be weighed more.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over the table in each round.")] = 3,
) -> Answer:
    """Change a network as little as possible until it is certified at epsilon.

    Examples:

    isonomy repair audit.toml --epsilon 0.05

    isonomy repair --data people.csv --schema schema.toml --model model.onnx --epsilon 0.05

    The question, its options, file and defaults are those of 'isonomy audit', and so are the people who are audited,
    before and after: 'isonomy audit' of the file that is written gives the same numbers. Learned from are the training
    rows; no labels are needed. Where there are labels, scores before and after stand beside those of a logistic
    regression that reads nothing protected. All of this is written to OUT.json, too. Exit status: 0 certified, 3 not,
    also where only networks are certified that have collapsed: that give everybody one class, or are no better.
    """
    from isonomy.auditing.inputs import part_of, read_inputs, read_table
    from isonomy.training import repair as repaired
    from isonomy.training.perceptron import write_onnx

    plan = _in_memory(Plan.of(given, file))
    if plan.held_out:  # no longer, once they are learned from
        plan = replace(plan, held_out=False, split=part_of(plan, known=False))
    if plan.model is None:
        raise ParameterError("'model' must be given: the network file to repair, such as model.onnx.")
    if plan.epsilon is None:
        raise ParameterError(
            "'epsilon' must be given, by --epsilon or in the file: the mean violation to reach, such as 0.05."
        )
    _check_network_file(out)
    inputs, people = read_inputs(plan), read_table(plan, plan.data)
    if inputs.network.remark:
        remark(f"- {inputs.network.remark}")
    with _working("Proving") as shown:
        before = _proved(plan, shown, inputs)
        shown.stage("Repairing")
        found = repaired(
            inputs.network, people, plan.epsilon, metric=inputs.metric, delta=plan.delta, gamma=plan.gamma,
            order=plan.order, ground=inputs.ground, tier=plan.tier, judged_on=inputs.people, rounds=rounds,
            epochs=epochs, random_state=plan.seed, progress=shown,
        )  # fmt: skip
        write_onnx(found.network, out)
        shown.stage("Proving")
        after = _audited(plan, out, found.network.head, shown)
    reached = after.verdict == "certified" and not found.collapsed
    decided = "decisions" in _told(after)
    facts: dict[str, Any] = {
        "model": str(out), "reached": reached, "epsilon": plan.epsilon, "before": _told(before), "after": _told(after),
        "blind": found.blind, "agreement": found.agreement if decided else None, "change": found.change,
        "collapsed": found.collapsed,
        "reason": found.reason or ("" if reached else "The bound is below epsilon by less than a claim's margin."),
        "audit": after.command,
    }  # fmt: skip
    fairest = "the fairest network that decides" if found.lost else "the fairest network of these rounds"
    words = "reached" if reached else f"not reached; this is {fairest}"
    words = "no success, since the network decides nothing" if found.collapsed else words
    advice = "Give a network that decides." if found.collapsed else "Allow a larger epsilon."
    scored = [("before", before, facts["before"]["scores"]), ("after", after, facts["after"]["scores"])]
    lines: list[Any] = [
        _table([*scored, (_BLIND, None, found.blind)]),
        f"Audited: {after.people.selection.words()}.",
        f"Epsilon {plan.epsilon:g}: {words}.",
        *([f"Decisions kept: {found.agreement:.1%} of these people."] if decided else []),
        f"Outputs change by {found.change:.4f} on average.",
        *([] if reached else [f"Failed: {facts['reason']} {advice}"]),
        f"Written: {out}, which reads the schema's coordinates (--reads coordinates), and {_keep(out, facts)}.",
        f"The whole audit: {facts['audit']}",
    ]
    return Answer(facts, lines, 0 if reached else 3)


# -- the audit's question -------------------------------------------------------------------------------------------


def _in_memory(plan: Plan) -> Plan:
    """The plan of an audit whose people are all in memory, and which measures no distances."""
    return replace(plan, engine=None, scheduler=None, chunk=None, against=())


def _read(plan: Plan) -> tuple[Plan, Population]:
    """The plan by which a network is trained, and its table; audited are the rows that nothing is learned from."""
    from isonomy.auditing.inputs import read_table

    split = "test" if plan.split == "auto" else plan.split
    plan = replace(_in_memory(plan), model=None, split=split, held_out=False)
    return plan, read_table(plan, plan.data)


def _audited(plan: Plan, model: Path, head: str, shown: Bar | None = None) -> Findings:
    """The audit of a network that was written here, whose classes are the schema's in their order."""
    said: Any = "regression" if head == "regression" else "auto"
    asked = replace(plan, model=str(model), reads="coordinates", head=said, output=None, activation=None)
    findings = _proved(replace(asked, as_read=True), shown)
    return replace(findings, command=replace(asked, as_read=findings.other_reading is not None).command())


def _proved(plan: Plan, shown: Bar | None, inputs: Inputs | None = None) -> Findings:
    """Run an audit."""
    from isonomy.auditing import run
    from isonomy.certificates.consistency import counterexamples_saved_in

    with counterexamples_saved_in(None if plan.redact else ""):  # the file of a contradiction holds a person's row
        return run(plan, shown, inputs=inputs)


def _told(findings: Findings) -> dict[str, Any]:
    """What was proved and found, under the names that the document of an audit has for it, and the scores."""
    from isonomy.report.text import to_json

    document = to_json(findings.facts)
    known = {name: getattr(findings, name) for name in _SCORES}
    scores = {name: value for name, value in known.items() if value is not None}
    return {name: document[name] for name in _TOLD if name in document} | {"scores": scores}


def _keep(out: Path, facts: Mapping[str, Any]) -> Path:
    """Write what is said of a network beside it, and give the name of that file."""
    from isonomy.files import atomic

    path = out.with_name(f"{out.name}.json")
    with atomic(path) as part:
        part.write_text(json_text(facts) + "\n", encoding="utf-8")
    return path


def _table(rows: Sequence[tuple[str, Findings | None, Mapping[str, float]]]) -> Table:
    """Networks with what is proved of them (nothing of one that was not audited) and their scores."""
    from rich.table import Table

    names = [name for name in _SCORES if any(name in scores for _, _, scores in rows)]
    bounds = {
        "upper": "proved within γ",
        "local.mean_upper": "proved of these",
        "decisions.certified": "decisions safe",
    }
    table = Table("", *bounds.values(), *(_SCORES[name] for name in names))
    for title, findings, scores in rows:
        known = {} if findings is None else {fact.code: fact.bounded for fact in findings.facts["summary"].facts}
        shown = (f"{scores[name]:.3f}" if name in scores else "–" for name in names)
        table.add_row(title, *(known.get(code, "–") for code in bounds), *shown)
    return table


# -- training -------------------------------------------------------------------------------------------------------


def _estimator(plan: Plan, people: Population, training: Training) -> dict[str, Any]:
    """The arguments of a fair estimator."""
    from isonomy.auditing.inputs import read_similarity

    metric, ground = read_similarity(plan, people.schema)
    if training.method == "sensr" and metric.boxed:
        remark("- sensr needs a metric with a root: it is trained by a sensitive subspace of the training rows, and "
               f"certified by the audit's {metric.kind}.")  # fmt: skip
    return {
        "method": training.method, "delta": plan.delta, "gamma": plan.gamma, "order": plan.order,
        "hidden": _numbers("hidden", training.hidden, int), "epochs": training.epochs, "metric": metric,
        "ground": ground, "learning_rate": training.learning_rate, "random_state": plan.seed, "progress": None,
    }  # fmt: skip


def _numbers(name: str, text: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """Numbers of a kind with commas between them."""
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip() or kind is float)
    except ValueError:
        right = "whole numbers" if kind is int else "numbers"
        raise ParameterError(template(name, f"{right} with commas between them", text)) from None


def _check_network_file(out: Path) -> None:
    """Before a long training, not after it: a network is written as ONNX, and its audit reads it by that name."""
    if out.suffix.lower() != ".onnx":
        raise ParameterError(template("out", "an ONNX file to write, such as model.onnx", str(out)))
    _check_writable(out)


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

    label = people.schema.label
    names = class_names(label)
    for side, some in (("training", people.train), ("test", people.test)):
        if some.y is not None and (why := collapse(model.network_, some.x, some.y, some.weights, names, label)):
            return f"{why}, on the {side} rows"
    return ""
