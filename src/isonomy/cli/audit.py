"""``isonomy audit``: one command from files to report and certificate."""

from __future__ import annotations

import shlex
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isonomy.auditing.plan import RESULTS, Plan, Roles
from isonomy.cli.console import Answer, StoppedError, remark
from isonomy.errors import ParameterError, template
from isonomy.options import Given, select, with_options
from isonomy.progress import Bar

if TYPE_CHECKING:
    from isonomy.auditing.asking import Question
    from isonomy.auditing.inputs import Inputs

File = Annotated[Path | None, typer.Argument(metavar="AUDIT.TOML", help="A file with these options as keys.")]
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[AUDIT.TOML | TABLE MODEL]", help="A file with these options as keys; or a table and a model."
    ),
]
_ROLES = ("label", "protected", "similar", "proxy", "weight", "id", "split_column", "ignore")
"""Roles of columns, for a table and a model alone; a schema has them otherwise."""
TABLE = ("seed", "unknown", "separator", "encoding", "decimal", "table_limit")
"""Options of every command that reads a table."""
_STATUS = {"violated": 1, "undecided": 3}
TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq", ".txt")
"""What tables end in; kept apart from their reader, which imports pandas."""
_MANY = 2000  # individuals from which on a remark says how to see the cost


@with_options(given=select(Plan), roles=select(Roles, *_ROLES))
def audit(
    given: Given,
    roles: Given,
    files: Files = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say what the audit will cost, and do no more.", rich_help_panel=RESULTS)
    ] = False,
    dossier: Annotated[
        Path | None,
        typer.Option("--dossier", help="A folder for the file a compliance officer keeps.", rich_help_panel=RESULTS),
    ] = None,
    laws: Annotated[
        Path | None,
        typer.Option("--laws", help="The laws that a dossier names, as a TOML file.", rich_help_panel=RESULTS),
    ] = None,
) -> Answer:
    """Prove how unequally a model can treat similar people; write a report and a certificate.

    Without anything else the bundled example is audited: a small network on German credit data.

    Examples:

    isonomy audit

    isonomy audit people.csv model.json --label approved --protected sex --similar age=2

    isonomy audit audit.toml --epsilon 0.1

    isonomy audit --data people.parquet --schema schema.toml --model model.onnx --gamma 0.1 --out results

    isonomy audit --engine dask --data census/ --schema schema.toml --model model.onnx --out census-audit

    From a table and a model a schema is guessed, each guess is noted, and the question that was asked is written to
    OUT/question, to be corrected and asked again; 'isonomy init' writes it before an audit.

    Written are report.html, certificate.json with evidence/, individuals.parquet, summary.md and junit.xml. With
    --epsilon the exit status is 0 certified, 1 violated, 3 undecided, of several shifts that of the worst. Ctrl-C
    leaves what is finished in OUT.work, and the same command goes on from there.

    With --engine the table never has to fit into memory; parts/ then lets a later audit with the same --out begin with
    what is known.
    """
    if laws is not None and dossier is None:
        raise ParameterError(template("laws", "left out without --dossier", laws))
    kept = None if dossier is None else (dossier, laws)
    if files is not None and len(files) > 1:
        asked = _ask(given, roles, files)
        return _estimate(asked.plan, asked.inputs) if estimate else _run(asked.plan, asked, kept)
    if files and files[0].name.lower().endswith(TABLES):
        raise ParameterError(f"A model must be given with the table {files[0]}: isonomy audit {files[0]} model.onnx.")
    for name, value in roles.items():
        right = "given with a table and a model: isonomy audit people.csv model.json; a schema has it otherwise"
        raise ParameterError(template(name, right, value))
    plan = Plan.of(given, files[0] if files else None)
    return _estimate(plan) if estimate else _run(plan, None, kept)


def _ask(given: Given, roles: Given, files: list[Path]) -> Question:
    """Return the question about a table and a model, and print what was guessed."""
    from isonomy.auditing.asking import ask
    from isonomy.auditing.output import QUESTION, edited, output_directory
    from isonomy.population import Schema
    from isonomy.similarity import load_metric

    if len(files) > 2:
        raise ParameterError(template("files", "an audit.toml, or a table and a model", [str(each) for each in files]))
    for name in ("data", "model", "engine"):
        if name in given:
            raise ParameterError(template(name, "left out beside a table and a model", given[name]))
    objects = {name: given[name] for name in ("schema", "metric") if name in given}
    plan = Plan(**{name: value for name, value in given.items() if name not in objects})
    schema = Schema.from_toml(objects["schema"]) if "schema" in objects else None
    metric = load_metric(objects["metric"]) if "metric" in objects else None
    folder = Path(output_directory(plan.out, plan.name or files[0].name.split(".")[0])) / QUESTION
    if edited(folder):
        raise ParameterError(
            f"The question in {folder} was edited: 'isonomy audit {folder / 'audit.toml'}' asks it; or name another "
            "--out."
        )
    asked = ask(files[1], files[0], Roles(**roles), plan, schema=schema, metric=metric, folder=folder)
    for note in asked.notes:
        remark(f"- {note}")
    return asked


def _estimate(plan: Plan, inputs: Inputs | None = None) -> Answer:
    from dataclasses import asdict

    from isonomy.auditing.inputs import read_inputs
    from isonomy.auditing.pipeline import estimate

    with Bar("Reading") as bar:
        inputs = inputs or read_inputs(plan)
        bar.stage("Timing a sample")
        cost = estimate(plan, inputs)
    return Answer(asdict(cost), [str(cost)])


def _run(plan: Plan, asked: Question | None = None, kept: tuple[Path, Path | None] | None = None) -> Answer:
    import shutil
    from contextlib import ExitStack
    from dataclasses import replace

    from isonomy.auditing import run, write
    from isonomy.auditing.dossier import check_dossier, write_dossier
    from isonomy.auditing.inputs import read_inputs
    from isonomy.auditing.output import check_target, locked, open_work, output_directory
    from isonomy.report.facts import facts_of, further_verdicts
    from isonomy.report.laws import Laws
    from isonomy.report.terminal import to_terminal
    from isonomy.report.text import to_json

    work, done = None, None
    try:
        with ExitStack() as entered, Bar("Reading") as bar:
            inputs = read_inputs(plan) if asked is None else asked.inputs
            if inputs.model.remark:
                remark(f"- {inputs.model.remark}")
            target = check_target(output_directory(plan.out, plan.name or inputs.schema.name), plan.key)
            if kept is not None:
                check_dossier(kept[0], target)
                laws = Laws.read(kept[1])
            if not plan.redact:  # a redacted audit keeps nothing on the way: finished chunks hold people's rows
                work = entered.enter_context(locked(open_work(target)))
            if inputs.people is not None and len(inputs.people) > _MANY:
                remark(f"{len(inputs.people):,} individuals: --estimate tells the cost, --limit audits a sample.")
            findings = run(plan, bar, work=work, inputs=inputs, announce=bar.stage, counterexamples=target.parent)
            if asked is not None:
                findings = replace(findings, question=asked.texts, command=asked.command())
            bar.stage("Writing")
            done = target = write(findings, target, key=plan.key, work=work if plan.engine is not None else None)
            if kept is not None:
                write_dossier(findings, kept[0], laws=laws, audit=target)
            if work is not None:
                shutil.rmtree(work, ignore_errors=True)
    except KeyboardInterrupt:
        raise StoppedError(_resume(work, plan, done)) from None
    document = to_json(facts_of(findings)) | {"out": str(target), "computed": findings.certificate.computed}
    document |= {} if kept is None else {"dossier": str(kept[0])}
    written = f"Written to {target}: report.html, certificate.json, individuals.parquet, summary.md, junit.xml."
    withheld = " --data FOLDER, the evidence of the same audit without --redact" if plan.redact else ""
    check = f"Derive every claim again: isonomy verify {shlex.quote(str(target / 'certificate.json'))}{withheld}"
    where = () if kept is None else (f"Dossier: {kept[0] / 'dossier.md'}, with its tables and the audit.",)
    others = further_verdicts(findings)
    where = (*(f"{kind}: {sentence}" for kind, sentence in others if kind != "certified"), *where)
    given = {facts_of(findings).verdict, *(kind for kind, _ in others)}
    status = next((_STATUS[each] for each in _STATUS if each in given), 0)
    return Answer(document, chain(to_terminal(facts_of(findings)), ("", written, *where, check)), status)


def _resume(work: Path | None, plan: Plan, done: Path | None) -> str:
    """Return the message after Ctrl-C, with the audit in the folder ``done`` if it was written before."""
    if done is not None:
        return f"Stopped after the audit was written to {done}; the dossier was not."
    if work is None or not work.exists():
        why = " (a redacted audit keeps nothing on the way)" if plan.redact else ""
        return f"Stopped; nothing was written{why}."
    parts = len(list(work.glob("parts/*.arrays")))
    return f"Stopped; {parts} finished part{'s' * (parts != 1)} kept in {work}. The same command goes on from there."
