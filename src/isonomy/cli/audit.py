"""``isonomy audit``: one command from files to report and certificate."""

from __future__ import annotations

import shlex
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from isonomy.auditing.plan import RESULTS, Plan
from isonomy.cli.console import Answer, StoppedError, remark
from isonomy.options import Given, select, with_options
from isonomy.progress import Bar

File = Annotated[Path | None, typer.Argument(metavar="AUDIT.TOML", help="A file with these options as keys.")]
TABLE = ("seed", "unknown", "separator", "encoding", "decimal", "table_limit")
"""Options of every command that reads a table."""
_STATUS = {"certified": 0, "violated": 1, "undecided": 3, None: 0}
_MANY = 2000  # individuals from which on a remark says how to see the cost


@with_options(given=select(Plan))
def audit(
    given: Given,
    file: File = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say what the audit will cost, and do no more.", rich_help_panel=RESULTS)
    ] = False,
) -> Answer:
    """Prove how unequally a network can treat similar people; write a report and a certificate.

    Without anything else the bundled example is audited: a small network on German credit data.

    Examples:

    isonomy audit

    isonomy audit audit.toml --epsilon 0.1

    isonomy audit --data people.parquet --schema schema.toml --model model.onnx --gamma 0.1 --out results

    isonomy audit --engine dask --data census/ --schema schema.toml --model model.onnx --out census-audit

    Written are report.html, certificate.json with evidence/, individuals.parquet, summary.md and junit.xml. With
    --epsilon the exit status is 0 certified, 1 violated, 3 undecided. Ctrl-C leaves what is finished in OUT.work, and
    the same command goes on from there.

    With --engine the table never has to fit into memory; parts/ then lets a later audit with the same --out begin with
    what is known.
    """
    from isonomy.certificates.consistency import counterexamples_saved_in

    plan = Plan.of(given, file)
    with counterexamples_saved_in(None if plan.redact else ""):  # the file of a contradiction holds a person's row
        if estimate:
            return _estimate(plan)
        return _run(plan)


def output_directory(plan: Plan, schema: str) -> str:
    """Return the directory to write; by default named after the audit or the schema, valid on every file system."""
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in plan.name or schema).strip(".-")
    return plan.out or f"audit-{name or 'people'}"


def _estimate(plan: Plan) -> Answer:
    from dataclasses import asdict

    from isonomy.auditing.inputs import read_inputs
    from isonomy.auditing.pipeline import estimate

    with Bar("Reading") as bar:
        inputs = read_inputs(plan)
        bar.stage("Timing a sample")
        cost = estimate(plan, inputs)
    return Answer(asdict(cost), [str(cost)])


def _run(plan: Plan) -> Answer:
    import shutil
    from contextlib import ExitStack

    from isonomy.auditing import run, write
    from isonomy.auditing.inputs import read_inputs
    from isonomy.auditing.output import check_target, locked, open_work
    from isonomy.certificates.consistency import counterexamples_saved_in
    from isonomy.report.facts import facts_of
    from isonomy.report.terminal import to_terminal
    from isonomy.report.text import to_json

    work = None
    try:
        with ExitStack() as entered, Bar("Reading") as bar:
            inputs = read_inputs(plan)
            if inputs.network.remark:
                remark(f"- {inputs.network.remark}")
            target = check_target(output_directory(plan, inputs.schema.name), plan.key)
            if not plan.redact:  # a redacted audit keeps nothing on the way: finished chunks hold people's rows
                work = entered.enter_context(locked(open_work(target)))
            if inputs.people is not None and len(inputs.people) > _MANY:
                remark(f"{len(inputs.people):,} individuals: --estimate tells the cost, --limit audits a sample.")
            with counterexamples_saved_in(target.parent):
                findings = run(plan, bar, work=work, inputs=inputs, announce=bar.stage)
                bar.stage("Writing")
                target = write(findings, target, key=plan.key, work=work if plan.engine is not None else None)
            if work is not None:
                shutil.rmtree(work, ignore_errors=True)
    except KeyboardInterrupt:
        raise StoppedError(_resume(work, plan)) from None
    document = to_json(facts_of(findings)) | {"out": str(target), "computed": findings.certificate.computed}
    written = f"Written to {target}: report.html, certificate.json, individuals.parquet, summary.md, junit.xml."
    withheld = " --data FOLDER, the evidence of the same audit without --redact" if plan.redact else ""
    check = f"Derive every claim again: isonomy verify {shlex.quote(str(target / 'certificate.json'))}{withheld}"
    shown_facts = to_terminal(facts_of(findings), shlex.quote(str(target)))
    return Answer(document, chain(shown_facts, ("", written, check)), _STATUS[facts_of(findings).verdict])


def _resume(work: Path | None, plan: Plan) -> str:
    """Return the message after Ctrl-C."""
    if work is None or not work.exists():
        why = " (a redacted audit keeps nothing on the way)" if plan.redact else ""
        return f"Stopped; nothing was written{why}."
    parts = len(list(work.glob("parts/*.arrays")))
    return f"Stopped; {parts} finished part{'s' * (parts != 1)} kept in {work}. The same command goes on from there."
