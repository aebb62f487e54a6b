"""``isonomy train``, ``frontier`` and ``repair``: models that can be proved fair, from a table to ONNX files.

The question is that of ``isonomy audit``: the same options and files, with the same defaults. Every number about a
network is that of an audit of its file, which is run here; a blind regression gives scores to compare with.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from isonomy.auditing.plan import USUAL, Plan
from isonomy.cli.audit import File
from isonomy.cli.console import Answer, StoppedError, json_text, remark
from isonomy.errors import ParameterError, template
from isonomy.options import Given, Panel, check_options, select, whole, with_options
from isonomy.progress import Bar

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from isonomy.auditing.inputs import Inputs
    from isonomy.population import Population
    from isonomy.report.findings import Findings

_TRAINING = Panel("Training")
_IGNORED = (
    "name", "out", "redact", "key", "held_out", "confidence", "against", "engine", "scheduler", "chunk",
)  # fmt: skip
"""Options of an audit that are not about the question; a file may have them, and they are ignored here."""
_MODEL = ("model", "head", "output", "activation", "reads")
_QUESTION = [each for each in select(Plan) if each.name not in (*_IGNORED, "part")]
_TRAINING_QUESTION = [each for each in _QUESTION if each.name not in (*_MODEL, "as_read")]
_BLIND = "blind regression"
_REPORTED = (
    "individuals", "selection", "metric", "delta", "gamma", "order", "ground", "verdict", "upper", "lower", "local",
    "decisions", "printed",
)  # fmt: skip
"""Names in the document of an audit that are reported about a network written here."""


@dataclass(frozen=True)
class Training:
    """Options of training a model; all but the first are of networks."""

    method: Literal["scorecard", "residual", "u-dif", "l-dif", "f-ibp", "sensr", "sensei", "ftu", "sgd"] = _TRAINING(
        "scorecard", "scorecard: points for each value, certified at --epsilon. Networks: residual: begins as a plain "
        "regression; u-dif: fair under every shift within gamma; l-dif: under searched shifts; f-ibp: no shift; sensr; "
        "sensei; ftu: protected columns are not read; sgd: plain.",
    )  # fmt: skip
    alpha: float | None = _TRAINING(
        None, "The weight of unfairness against error. Default: chosen from 0.05 to 3 as --epsilon allows."
    )
    blind: bool | None = _TRAINING(None, "Read nothing protected: scorecard, residual and ftu do unless told not to.")
    hidden: str = _TRAINING("256,256", "The widths of the hidden layers.")
    epochs: int | None = _TRAINING(None, "Passes over the table, at most. Default: 10, more on a small one.", whole(1))
    learning_rate: float = _TRAINING(1e-3, "Of the steps of training.")

    def __post_init__(self) -> None:
        check_options(self)


@with_options(given=_TRAINING_QUESTION, training=select(Training))
def train(
    given: Given,
    training: Given,
    file: File = None,
    out: Annotated[Path, typer.Option(help="The ONNX file to write.")] = Path("model.onnx"),
) -> Answer:
    """Fit a scorecard that is certified at epsilon, or train a network, on the training rows; prove what it is.

    Examples:

    isonomy train audit.toml --epsilon 0.05 --out model.onnx

    isonomy train --data people.csv --schema schema.toml --method u-dif --gamma 0.1 --out model.onnx

    A scorecard reads nothing protected. Of plain regressions and sums of piecewise linear functions of the columns the
    one of the lowest cross-validated loss is taken whose bound of training people is at most 0.85 epsilon; without
    --epsilon the one of the lowest loss. What was chosen and the plain regression are compared; its points are
    written to OUT.csv. A network is trained with a bound on unfairness in its loss, which needs isonomy[torch].

    The question is that of 'isonomy audit', with the same options, file and defaults. The training rows are those that
    the schema's split column names, else about 70 % by a fixed hash of their place; of a network's a fifth is set
    aside, and the weights that do best on it are kept. The other rows are audited, unless --split says otherwise:
    'isonomy audit' with --split test gives the same numbers. Similar are the counterparts of the schema, unless
    --metric names another metric. Beside the model's scores stand those of a logistic regression that reads nothing
    protected. All of this is written to OUT.json, too.

    Ctrl-C keeps the last epoch of a network; the same command goes on from it. The exit status is 3 when the model has
    collapsed (it gives everybody one class, or is no better than that), or is not certified at --epsilon.
    """
    from isonomy import fairness

    _check_network_file(out)
    asked = Plan.of(given, file)
    if not out.with_name(f"{out.name}.json").is_file():  # a model of an earlier training is replaced
        _keep_inputs(asked, out)
    plan, people = _read(asked)
    how = Training(**training)
    scorecard = how.method == "scorecard"
    model = _fitted(plan, people, how, out)
    _remark_shift(asked)
    collapsed = _collapse(model, people)
    with _working("Proving") as bar:
        findings = _audit_written(plan, out, model.network_.head, bar)
    blind = fairness.blind_scores(people.train, findings.people)
    failed = bool(collapsed) or findings.verdict not in (None, "certified")
    facts: dict[str, Any] = {
        "model": str(out), "collapsed": bool(collapsed), "reason": collapsed and f"{out} {collapsed}",
        **(_choice_facts(model) if scorecard else {"history": model.history_, "kept": model.kept_}),
        **_reported(findings), "blind": blind, "audit": findings.command,
    }  # fmt: skip
    advice = "a larger epsilon" if scorecard else "a smaller alpha, or more epochs"
    advice = f"It would be fair because it decides nothing: train with {advice}."
    lines: list[Any] = [
        *(_choice_lines(model, out) if scorecard else [_kept_words(model)]),
        _table([(out.name, findings)], blind),
        f"Audited: {findings.people.selection.words()}.",
        f"Written: {out} and {_write_facts(out, facts)}.",
        f"Failed: {facts['reason']}. {advice}" if collapsed else f"The whole audit: {facts['audit']}",
        *([f"Verdict at epsilon {plan.epsilon:g}: {findings.verdict}."] if plan.epsilon is not None else []),
    ]
    return Answer(facts, lines, 3 if failed else 0)


def _fitted(plan: Plan, people: Population, how: Training, out: Path) -> Any:
    """Fit an estimator on the training rows, from its last epoch where one is kept, and write its network."""
    from isonomy.training import FairClassifier, FairRegressor

    checkpoint = out.with_name(f"{out.name}.checkpoint")
    kind: Any = FairRegressor if people.schema.label is not None and people.schema.label.regression else FairClassifier
    model = kind(
        **_estimator(plan, people, how), alpha=how.alpha, blind=how.blind, checkpoint=checkpoint, epsilon=plan.epsilon
    )
    try:
        with _working("Training") as bar:
            model.fit(people.train, on_epoch=lambda record: _epoch(bar, record))
    except KeyboardInterrupt:
        words = f"; the last epoch is kept in {checkpoint}. The same command goes on from it"
        raise StoppedError(f"Stopped{words if checkpoint.exists() else ''}.") from None
    model.to_onnx(out)
    checkpoint.unlink(missing_ok=True)
    return model


def _choice_facts(model: Any) -> dict[str, Any]:
    """Return the choice of a scorecard: its row, the regression's and the comparison of both."""
    choice = model.choice_
    rows = {
        name: {key: None if value != value else value for key, value in choice.table.loc[row].items()}
        for name, row in (("chosen", choice.chosen), ("regression", choice.regression))
    }
    compared = {"difference": choice.difference, "error": choice.error, "beats": choice.beats}
    return {**rows, **compared, "sentence": choice.sentence, "choice_reached": choice.reached}


def _choice_lines(model: Any, out: Path) -> list[Any]:
    """Write the points of a scorecard beside its network; return its choice in a table and in words."""
    import pandas as pd

    from isonomy.files import atomic
    from isonomy.report.training_pages import scorecard_page

    card = out.with_name(f"{out.name}.csv")
    model.scorecard_.to_csv(card)
    page, points, choice = out.with_name(f"{out.name}.html"), model.scorecard_, model.choice_
    with atomic(page) as part:
        rows = pd.DataFrame(dict(choice.rows()))
        text = scorecard_page(f"Scorecard of {points.outcome}", points.base, points.table, rows, choice.sentence)
        part.write_text(text, encoding="utf-8")
    return [_choice_table(model), model.choice_.sentence, f"The points of every value: {card}, and as a page {page}."]


def _kept_words(model: Any) -> str:
    return f"Epoch {model.kept_['epoch']:.0f} of {len(model.history_)} is kept: {_epoch_words(model.kept_)}."


def _choice_table(model: Any) -> Table:
    """Return what was chosen and the plain regression side by side, of training people."""
    from rich.table import Table

    (title, chosen), (other, regression) = model.choice_.rows()
    table = Table("training people", title, other)
    for name in chosen:
        table.add_row(name, chosen[name], regression[name])
    return table


def _epoch(bar: Bar, record: dict[str, float]) -> None:
    bar(record["epoch"], record["epochs"])
    bar.note(_epoch_words(record))


def _epoch_words(record: dict[str, float]) -> str:
    """Return the numbers of an epoch in words."""
    names = {
        "error": "error of those learned from {:.4f}", "accuracy": "accuracy {:.3f}", "penalty": "trained bound {:.4f}",
        "validation_error": "error of those set aside {:.4f}",
    }  # fmt: skip
    return ", ".join(words.format(record[name]) for name, words in names.items() if name in record)


@with_options(given=_QUESTION, training=select(Training, "hidden", "epochs", "learning_rate"))
def frontier(
    given: Given,
    training: Given,
    file: File = None,
    out: Annotated[Path, typer.Option(help="The folder to write the models and frontier.csv to.")] = Path("frontier"),
    alphas: Annotated[str, typer.Option(help="Weights of unfairness against error.")] = "0,0.1,0.3,1,3",
    methods: Annotated[str, typer.Option(help="What is fitted: scorecard, u-dif and others.")] = "scorecard,u-dif",
    seeds: Annotated[int, typer.Option(help="How often each is fitted; two or more give standard errors.")] = 1,
    alternatives: Annotated[
        bool, typer.Option("--alternatives", help="Name models that are no worse than --model and certified lower.")
    ] = False,
) -> Answer:
    """Fit scorecards and networks at many levels of fairness: what does it cost?

    Example:

    isonomy frontier --data people.csv --schema schema.toml --alphas 0,0.3,1,3 --epsilon 0.02

    isonomy frontier audit.toml --methods scorecard,residual --seeds 3 --alternatives

    The question, its options, file and defaults are those of 'isonomy audit': every model is judged by what an audit of
    it proves, on the rows that are not learned from unless --split says otherwise. Beside the models, in the terminal
    and in frontier.csv, stand the scores of a logistic regression that reads nothing protected, and those of --model
    where one is named. OUT/frontier.html draws log-loss and balanced accuracy against what is proved. With --epsilon a
    model is named by a fifth of the training rows that nothing learns from: of those certified at 0.85 epsilon there
    the one of the lowest log-loss. Models that have collapsed (no better than giving everybody one class) are marked,
    not drawn and never named. With --alternatives the models that have a lower bound than --model there, at no higher
    log-loss and no lower balanced accuracy, are named and written to OUT/alternatives.csv, or it is said that there is
    none. The exit status is 3 when all have, or, with --epsilon, no other model is certified.
    """
    import pandas as pd

    from isonomy.auditing.inputs import read_inputs, select_people
    from isonomy.files import atomic
    from isonomy.report.training_pages import frontier_page
    from isonomy.training import FairClassifier
    from isonomy.training import frontier as train_frontier
    from isonomy.training.frontier import GIVEN

    asked = Plan.of(given, file)
    if alternatives and asked.model is None:
        raise ParameterError("'model' must be given: 'alternatives' are alternatives to it.")
    existing = None if asked.model is None else cast(Any, read_inputs(_in_memory(asked)).model)
    plan, people = _read(asked)
    weights, names = _numbers("alphas", alphas, float), [each.strip() for each in methods.split(",")]
    model = FairClassifier(**_estimator(plan, people, Training(**training, method="u-dif")))
    audits: list[Findings] = []
    selected = select_people(plan, people)

    def measure(one: FairClassifier, judged: Any) -> float:
        if judged is not selected:  # people set aside, by whom one is named
            return one.certify(judged, attack=False, progress=None).upper
        if one.named_ == GIVEN:
            audits.append(_run_audit(replace(_in_memory(asked), split=plan.split), None))
        else:
            one.to_onnx(out / f"{one.named_}.onnx")
            audits.append(_audit_written(plan, out / f"{one.named_}.onnx", "softmax"))
        bar.stage(f"Fitted and proved: {len(audits)}")
        return audits[-1].claimed[1]

    _keep_inputs(asked, *out.glob("*.onnx"))
    _check_writable(out / "frontier.csv")
    _remark_shift(asked)
    with _working("Fitting") as bar:
        result = train_frontier(
            people, weights, model=model, methods=cast(Any, names), seeds=seeds, given=existing, judged_on=selected,
            measure=measure,
        )  # fmt: skip
    result.table["local_upper"] = [each.certificate.local.mean_upper for each in audits]
    table = result.table.assign(
        mean_upper=result.table["local_upper"],
        model=[str(asked.model) if each.named_ == GIVEN else f"{each.named_}.onnx" for each in result.models],
    )
    with atomic(out / "frontier.csv") as part:
        known = {name: value for name, value in result.blind.items() if name in table}
        pd.concat([table, pd.DataFrame([known | {"model": _BLIND}])]).to_csv(part, index=False)
    best, why = _best(result, table, plan.epsilon)
    rows = table.to_dict("records")
    marks = [", undominated" if row["pareto"] else ", collapsed" if row["collapsed"] else "" for row in rows]
    shown = [(f"{row['model']}{mark}", audit) for row, mark, audit in zip(rows, marks, audits, strict=True)]
    lines = [f"Audited: {audits[0].people.selection.words()}."]
    lines += [f"Written: {out / 'frontier.csv'}, {out / 'frontier.html'} and {len(table)} models."]
    lines += [f"Named at epsilon {plan.epsilon:g}, by people set aside: {best or 'none'}."] if plan.epsilon else []
    others = result.alternatives() if alternatives else None
    lines += [] if others is None else _alternatives(others, table, out / "alternatives.csv")
    page = frontier_page(f"Frontier: {people.schema.name}", result.curve, table, [each for each in lines if each])
    with atomic(out / "frontier.html") as part:
        part.write_text(page, encoding="utf-8")
    lines += [f"Failed: {why}"] if why else []
    models = [row | _reported(audit) for row, audit in zip(rows, audits, strict=True)]
    facts: dict[str, Any] = {
        "folder": str(out), "models": models, "blind": result.blind, "best": best, "reason": why
    }  # fmt: skip
    facts |= {} if others is None else {"alternatives": [str(each) for each in table.loc[others.index[1:], "model"]]}
    return Answer(facts, [_table(shown, result.blind), *lines], 3 if why else 0)


def _alternatives(others: pd.DataFrame, table: pd.DataFrame, out: Path) -> list[str]:
    """Write the alternatives to a model that was given, which comes first; return them in words."""
    from isonomy.arithmetic import at_most
    from isonomy.files import atomic
    from isonomy.training.frontier import SIDES

    others = others.assign(model=table["model"])[["model", *SIDES]]
    with atomic(out) as part:
        others.to_csv(part, index=False)
    given, *rest = (
        f"{row['model']} (proved at most {at_most(row[SIDES[0]], 4)}, log-loss {row[SIDES[1]]:.4f}, balanced accuracy "
        f"{row[SIDES[2]]:.4f})" for row in others.to_dict("records")
    )  # fmt: skip
    who = "on people set aside, whom it may know"
    if not rest:
        return [f"No less discriminatory alternative to {given}: none is certified lower at no worse scores, {who}."]
    return [f"Less discriminatory alternatives to {given}, {who}: {'; '.join(rest)}. Written: {out}."]


def _best(result: Any, table: pd.DataFrame, epsilon: float | None) -> tuple[str | None, str]:
    """Return the file of the model that is named at epsilon, and why there is none."""
    try:
        place = result.place(math.inf if epsilon is None else epsilon)
    except ParameterError as error:
        return None, str(error)
    return None if epsilon is None else str(table["model"].iloc[place]), ""


@with_options(given=_QUESTION)
def repair(
    given: Given,
    file: File = None,
    out: Annotated[
        Path | None, typer.Option(help="The ONNX file to write, or JSON of trees. Default: repaired.onnx or .json.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Trainings to find the least change, if blindness is not enough.")] = 6,
    epochs: Annotated[int, typer.Option(help="Passes over the table in each training.")] = 6,
    floor: Annotated[float, typer.Option(help="The least share of decisions kept, mean over the decisions.")] = 0.75,
    scale: Annotated[bool, typer.Option("--scale", help="Scale scores where all else fails; never a success.")] = False,
) -> Answer:
    """Change a network as little as possible until it is certified at epsilon, or average a tree ensemble.

    Examples:

    isonomy repair audit.toml --epsilon 0.05

    isonomy repair --data people.csv --schema schema.toml --model model.onnx --epsilon 0.05

    The question, its options, file and defaults are those of 'isonomy audit', and so are the people who are audited,
    before and after: 'isonomy audit' of the file that is written gives the same numbers. Learned from are the training
    rows; no labels are needed. Where there are labels, scores before and after stand beside those of a logistic
    regression that reads nothing protected. All of this is written to OUT.json, too. Exit status: 0 certified, 3 not,
    also where only networks are certified that have collapsed (that give everybody one class, or are no better), give
    fewer classes than before, keep too few decisions, or are no fairer in units of their scores.

    A network is first made blind: protected columns are those of one reference person. Only if that is not enough it is
    trained, with the least weight on the bound that is certified. Its cut-off is moved so that as many people as before
    receive each class.

    A tree ensemble is averaged over what its protected features and proxies can be, and written as a model of its own
    that every command reads, and as a file of XGBoost or LightGBM where it comes from one; beside it stands what
    another cut-off would change. In Python isonomy.repair has it fitted again by its library, too.
    """
    from isonomy.auditing.inputs import part_of, read_inputs
    from isonomy.repairing import takes_trees

    asked = Plan.of(given, file)
    plan = _in_memory(asked)
    if plan.held_out:  # no longer, once they are learned from
        plan = replace(plan, held_out=False, split=part_of(plan, known=False))
    if plan.model is None:
        raise ParameterError("'model' must be given: the network file to repair, such as model.onnx.")
    if plan.epsilon is None:
        raise ParameterError(
            "'epsilon' must be given, by --epsilon or in the file: the average largest change to reach, such as 0.05."
        )
    inputs = read_inputs(plan)
    _remark_shift(asked)
    if inputs.model.remark:
        remark(f"- {inputs.model.remark}")
    if takes_trees(inputs.model):
        return _average(plan, inputs, Path("repaired.json") if out is None else out)
    return _change(plan, inputs, Path("repaired.onnx") if out is None else out, (trials, epochs, floor, scale))


def _change(plan: Plan, inputs: Inputs, out: Path, how: tuple[int, int, float, bool]) -> Answer:
    """Change a network until it is certified, audit what was written, and say what was lost."""
    from isonomy.auditing.inputs import read_table
    from isonomy.certificates import Transport
    from isonomy.training import FineTuning
    from isonomy.training import repair as repair_network
    from isonomy.training.onnx_file import write_onnx

    _check_network_file(out)
    _keep_inputs(plan, out)
    people, network = read_table(plan, plan.data), cast(Any, inputs.model)  # what is no network is refused
    with _working("Proving") as bar:
        before = _run_audit(plan, bar, inputs)
        bar.stage("Repairing")
        result = repair_network(
            network, people, cast(float, plan.epsilon), metric=inputs.metric, delta=plan.delta,
            shift=Transport(plan.gamma or 0.0, plan.order, inputs.ground), tier=plan.tier, judged_on=inputs.people,
            tuning=FineTuning(how[0], how[1], floor=how[2], scale=how[3], random_state=plan.seed), progress=bar,
        )  # fmt: skip
        write_onnx(result.network, out)
        bar.stage("Proving")
        after = _audit_written(plan, out, result.network.head, bar)
    reached = after.verdict == "certified" and not result.collapsed and not result.refused
    decided = "decisions" in _reported(after)
    facts: dict[str, Any] = {
        "model": str(out), "reached": reached, "epsilon": plan.epsilon, "before": _reported(before),
        "after": _reported(after), "blind": result.blind, "agreement": result.agreement if decided else None,
        "balanced_agreement": result.balanced_agreement if decided else None, "way": result.way,
        "alpha": result.alpha, "cut_off_moved": result.shift, "reference": dict(result.reference),
        "relative": list(result.relative), "change": result.change, "collapsed": result.collapsed,
        "reason": result.reason or ("" if reached else "The bound is below epsilon by less than a claim's margin."),
        "audit": after.command,
    }  # fmt: skip
    fairest = "the fairest network that decides" if result.lost else "the fairest network of these trials"
    words = f"reached, {result.way}" if reached else f"not reached; this is {fairest}"
    words = "no success, since the network decides nothing" if result.collapsed else words
    advice = "Give a network that decides." if result.collapsed else "Allow a larger epsilon."
    lines: list[Any] = [
        _table([("before", before), ("after", after)], result.blind),
        f"Audited: {after.people.selection.words()}.",
        f"Epsilon {plan.epsilon:g}: {words}.",
        *_before_and_after(result, decided),
        f"Outputs change by {result.change:.4f} on average.",
        *([] if reached else [f"Failed: {facts['reason']} {advice}"]),
        f"Written: {out}, which reads the schema's coordinates (--reads coordinates), and {_write_facts(out, facts)}.",
        f"The whole audit: {facts['audit']}",
    ]
    return Answer(facts, lines, 0 if reached else 3)


def _before_and_after(result: Any, decided: bool) -> list[str]:
    """Return what a repair changed, in lines."""
    lines = []
    if decided:
        both = f"{result.agreement:.1%} of these people, {result.balanced_agreement:.1%} on average over the decisions"
        lines.append(f"Decisions kept: {both}.")
    lines.append("Relative violation, the bound over the standard deviation of the scores: "
                 f"{result.relative[0]:.3f} before, {result.relative[1]:.3f} after.")  # fmt: skip
    if result.reference:
        person = ", ".join(f"{name} {value:g}" for name, value in result.reference.items())
        lines.append(f"Protected columns are those of one reference person: {person}.")
    if result.shift:
        lines.append(f"The cut-off was moved by {-result.shift:+.3f} log-odds, to the original's share of decisions.")
    return lines


def _average(plan: Plan, inputs: Inputs, out: Path) -> Answer:
    """Average a tree ensemble, audit what was written, and say what another cut-off would change."""
    from isonomy.auditing.inputs import read_table
    from isonomy.certificates import Transport
    from isonomy.errors import FileError
    from isonomy.repairing import repair as repair_trees

    if out.suffix.lower() != ".json":
        raise ParameterError(template("out", "a JSON file to write, such as repaired.json", str(out)))
    original = out.with_name(f"{out.stem}.original{Path(str(plan.model)).suffix}")
    _keep_inputs(plan, out, original)
    _check_writable(out)
    with _working("Proving") as bar:
        before = _run_audit(plan, bar, inputs)
        bar.stage("Repairing")
        result = repair_trees(
            str(plan.model) if plan.trees is None else inputs.model, read_table(plan, plan.data), plan.epsilon,
            metric=inputs.metric, delta=plan.delta, shift=Transport(plan.gamma or 0.0, plan.order, inputs.ground),
            judged_on=inputs.people, progress=bar,
        )  # fmt: skip
        way = next((each for each in result if each.name == "averaged"), None)
        if way is None:
            raise ParameterError(
                "There is nothing to average over: name a protected feature, or a proxy, in the schema."
            )
        way.save(out)
        written = [str(out)]
        with suppress(FileError):
            way.save_original(original)
            written.append(f"{original} for its own library")
        bar.stage("Proving")
        after = _run_audit(replace(plan, model=str(out), trees=None), bar)
    reached = after.verdict == "certified"
    table = result.frame()
    facts: dict[str, Any] = {
        "model": str(out), "reached": reached, "epsilon": plan.epsilon, "before": _reported(before),
        "after": _reported(after), "ways": table.astype(object).where(table.notna(), None).to_dict("index"),
        "audit": after.command,
    }  # fmt: skip
    lines: list[Any] = [
        *str(result).splitlines(),
        f"Epsilon {plan.epsilon:g}: {'reached' if reached else 'not reached'} by the average.",
        f"Written: {', '.join(written)}, and {_write_facts(out, facts)}.",
        f"The whole audit: {after.command}",
    ]
    return Answer(facts, lines, 0 if reached else 3)


# -- the audit's question -------------------------------------------------------------------------------------------


def _in_memory(plan: Plan) -> Plan:
    """Return the plan of an audit with all people in memory, which measures no distances."""
    if plan.part is not None:
        raise ParameterError(template("part", "left out: networks are trained for a shift, gamma", plan.part))
    gamma = USUAL if plan.gamma is None else plan.gamma
    return replace(plan, gamma=gamma, shift=(), engine=None, scheduler=None, chunk=None, against=())


def _remark_shift(plan: Plan) -> None:
    """Say that an audit of the same options asks of other populations than a training."""
    if plan.shift or plan.gamma is None:
        others = f"{', '.join(plan.shift)} {'are' if len(plan.shift) > 1 else 'is'} not" if plan.shift else "none else"
        remark(f"- judged are populations within gamma {_in_memory(plan).gamma:g}; {others}")


def _read(plan: Plan) -> tuple[Plan, Population]:
    """Return the plan of training and its table; the rows that are not learned from are audited."""
    from isonomy.auditing.inputs import read_table

    split = "test" if plan.split == "auto" else plan.split
    plan = replace(_in_memory(plan), model=None, split=split, held_out=False)
    return plan, read_table(plan, plan.data)


def _audit_written(plan: Plan, model: Path, head: str, bar: Bar | None = None) -> Findings:
    """Audit a network that was written here, whose classes are the schema's in their order."""
    head_option: Any = "regression" if head == "regression" else "auto"
    question = replace(plan, model=str(model), reads="coordinates", head=head_option, output=None, activation=None)
    findings = _run_audit(replace(question, as_read=True), bar)
    return replace(findings, command=replace(question, as_read=findings.other_reading is not None).command())


def _run_audit(plan: Plan, bar: Bar | None, inputs: Inputs | None = None) -> Findings:
    from isonomy.auditing import run

    return run(plan, bar, inputs=inputs)


def _reported(findings: Findings) -> dict[str, Any]:
    """Return bounds and verdicts under their names in the document of an audit, and the scores."""
    from isonomy.fairness import SCORES
    from isonomy.report.facts import facts_of
    from isonomy.report.text import to_json

    document = to_json(facts_of(findings))
    scores = {name: findings.scores[name] for name in SCORES if name in findings.scores}
    return {name: document[name] for name in _REPORTED if name in document} | {"scores": scores}


def _write_facts(out: Path, facts: Mapping[str, Any]) -> Path:
    """Write the facts about a network beside it; return the path of that file."""
    from isonomy.files import atomic

    path = out.with_name(f"{out.name}.json")
    with atomic(path) as part:
        part.write_text(json_text(facts) + "\n", encoding="utf-8")
    return path


def _table(audits: Sequence[tuple[str, Findings]], blind: Mapping[str, float]) -> Table:
    """Return a table of networks with their bounds and scores, and of the scores of a blind regression."""
    from rich.table import Table

    from isonomy.fairness import SCORES
    from isonomy.report.facts import facts_of

    bounds = {
        "upper": "proved within γ",
        "local.mean_upper": "proved of these",
        "decisions.certified": "decisions safe",
    }
    rows = [(title, facts_of(audit)["summary"].facts, audit.scores) for title, audit in audits] + [(_BLIND, (), blind)]
    names = [name for name in SCORES if any(name in scores for _, _, scores in rows)]
    table = Table("", *bounds.values(), *(SCORES[name] for name in names))
    for title, facts, scores in rows:
        known = {fact.code: fact.bounded for fact in facts}
        shown = (f"{scores[name]:.3f}" if name in scores else "–" for name in names)
        table.add_row(title, *(known.get(code, "–") for code in bounds), *shown)
    return table


# -- training -------------------------------------------------------------------------------------------------------


def _estimator(plan: Plan, people: Population, training: Training) -> dict[str, Any]:
    """Return the arguments of a fair estimator."""
    from isonomy.auditing.inputs import read_similarity

    metric, ground = read_similarity(plan, people.schema)
    if training.method in ("sensr", "sensei") and metric.boxed:
        remark(f"- {training.method} needs a metric with a root: it is trained by a sensitive subspace of the training "
               f"rows, and certified by the audit's {metric.kind}.")  # fmt: skip
    return {
        "method": training.method, "delta": plan.delta, "gamma": plan.gamma, "order": plan.order,
        "hidden": _numbers("hidden", training.hidden, int), "epochs": training.epochs, "metric": metric,
        "ground": ground, "learning_rate": training.learning_rate, "random_state": plan.seed, "progress": None,
    }  # fmt: skip


def _numbers(name: str, text: str, kind: type[int] | type[float]) -> tuple[Any, ...]:
    """Read numbers of a kind with commas between them."""
    try:
        return tuple(kind(part) for part in text.split(",") if part.strip() or kind is float)
    except ValueError:
        right = "whole numbers" if kind is int else "numbers"
        raise ParameterError(template(name, f"{right} with commas between them", text)) from None


def _keep_inputs(plan: Plan, *outs: Path) -> None:
    """Refuse to write over a file that the question reads, which would be lost."""
    written = [each for out in outs for each in (out, out.with_name(f"{out.name}.json")) if each.exists()]
    for name in ("model", "data", "schema", "metric"):
        path = Path(str(getattr(plan, name) or ""))
        if path.is_file() and any(path.samefile(each) for each in written):
            raise ParameterError(f"'out' must name another file than {name!r}, {path}, which would be lost.")


def _check_network_file(out: Path) -> None:
    """Check, before a long training, that the file is named as ONNX, as its audit expects, and can be written."""
    if out.suffix.lower() != ".onnx":
        raise ParameterError(template("out", "an ONNX file to write, such as model.onnx", str(out)))
    _check_writable(out)


def _check_writable(out: Path) -> None:
    """Check, before a long training, that a file can be written."""
    from isonomy.files import atomic

    with atomic(out.with_name(f".{out.name}.check")) as part:
        part.touch()
    out.with_name(f".{out.name}.check").unlink()


@contextmanager
def _working(what: str) -> Iterator[Bar]:
    """Show a bar, and suppress warnings of libraries; what matters is reported afterwards."""
    with Bar("Reading") as bar, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        bar.stage(what)
        yield bar


def _collapse(model: Any, people: Population) -> str:
    """Return how a trained network has collapsed, on training or test rows; empty where it decides."""
    from isonomy.training.collapse import class_names, collapse

    label = people.schema.label
    names = class_names(label)
    for side, some in (("training", people.train), ("test", people.test)):
        if some.y is not None and (why := collapse(model.network_, some.x, some.y, some.weights, names, label)):
            return f"{why}, on the {side} rows"
    return ""
