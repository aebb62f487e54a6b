"""``isonomy audit``: one command from files to report and certificate."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from isonomy.cli import options as o
from isonomy.cli.bars import bars
from isonomy.cli.talk import answer, console, fail, remark

if TYPE_CHECKING:
    from isonomy.audit import Plan, Stages

_RESULT = "Verdict and results"
_LARGE = "Larger than memory"
_MANY = 2000  # individuals from which on a remark says how to see the cost


class Engine(StrEnum):
    """Where a dataset larger than memory is worked on."""

    local = "local"
    dask = "dask"


def audit(
    file: o.File = None,
    data: o.Data = None,
    schema: o.SchemaFile = None,
    model: o.Model = None,
    metric: o.MetricFile = None,
    delta: o.Delta = None,
    gamma: o.Gamma = None,
    order: o.Order = None,
    ground: o.Ground = None,
    domain: o.DomainName = None,
    tier: Annotated[
        o.Tier | None,
        typer.Option(
            help="tight (default), or interval: faster and looser.", rich_help_panel=_RESULT, show_default=False
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="The largest mean violation that is acceptable. Exit status: 0 certified, 1 violated, 3 undecided.",
            rich_help_panel=_RESULT,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(
            help="Of the statement about the population behind the table. Default: 0.95.",
            rich_help_panel=_RESULT,
            show_default=False,
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Another table, whose distance is measured; may be repeated.", rich_help_panel=_RESULT),
    ] = None,
    split: o.SplitName = None,
    held_out: o.HeldOut = None,
    limit: o.Limit = None,
    seed: o.Seed = None,
    unknown: o.UnknownRows = None,
    separator: o.Separator = None,
    encoding: o.Encoding = None,
    decimal: o.Decimal = None,
    head: o.HeadName = None,
    output: o.Output = None,
    activation: o.Activation = None,
    reads: o.ReadsName = None,
    name: Annotated[
        str | None, typer.Option(help="Of the audit. Default: the schema's.", rich_help_panel=_RESULT)
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(help="The directory to write. Default: audit-NAME.", rich_help_panel=_RESULT, show_default=False),
    ] = None,
    redact: Annotated[
        bool | None,
        typer.Option("--redact", help="Keep people's rows out of everything written.", rich_help_panel=_RESULT),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="A private key with which to sign the certificate.", rich_help_panel=_RESULT)
    ] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(
            help="For a dataset larger than memory (a Parquet file, a folder of them, or a CSV file). local: stream it "
            "through this process; dask: spread it over a cluster (pip install isonomy[dask]).",
            rich_help_panel=_LARGE,
            show_default=False,
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="The address of a Dask scheduler, such as tcp://10.0.0.1:8786. Default: a cluster on this machine.",
            rich_help_panel=_LARGE,
            show_default=False,
        ),
    ] = None,
    chunk: Annotated[
        int | None,
        typer.Option(
            help="Rows worked on at a time with --engine: memory grows with them. Default: 16384.",
            rich_help_panel=_LARGE,
            show_default=False,
        ),
    ] = None,
    no_search: Annotated[
        bool | None,
        typer.Option(
            "--no-search",
            help="With --engine: prove only, and search for no counterparts; several times faster.",
            rich_help_panel=_LARGE,
            show_default=False,
        ),
    ] = None,
    estimate: Annotated[
        bool, typer.Option("--estimate", help="Say what the audit will cost, and do no more.", rich_help_panel=_RESULT)
    ] = False,
    json: o.Json = False,
) -> None:
    """Prove how unequally a network can treat similar people; write a report and a certificate.

    Without anything else the bundled example is audited: a small network on German credit data.

    Examples:

    isonomy audit

    isonomy audit audit.toml --epsilon 0.1

    isonomy audit --data people.parquet --schema schema.toml --model model.onnx --gamma 0.1 --out results

    isonomy audit --engine dask --data census/ --schema schema.toml --model model.onnx --out census-audit

    Written are report.html, certificate.json with evidence/, individuals.parquet, summary.md and junit.xml. Ctrl-C
    leaves what is finished in OUT.partial, and the same command goes on from there.

    With --engine the table never has to fit into memory. Then parts/ and individuals/ take the place of evidence/ and
    individuals.parquet, the report has no single people, decisions or groups, and the work folder is OUT.work.
    """
    said = o.given(dict(locals()), "file", "estimate", "json")
    from isonomy.audit import Plan
    from isonomy.certificates.consistency import told

    plan = Plan.of(said, file)
    with told(None if plan.redact else ""):  # the file of a contradiction holds a person's row
        if estimate:
            _estimate(plan, json)
        elif plan.engine is not None:
            from isonomy.cli.audit_large import run_engine

            raise typer.Exit(run_engine(plan, json))
        else:
            raise typer.Exit(_run(plan, json))


def out_of(plan: Plan, schema: str) -> str:
    """The directory to write; without one, named after the audit or the schema, as every file system takes it."""
    name = "".join(c if c.isalnum() or c in "-_." else "-" for c in plan.name or schema).strip(".-")
    return plan.out or f"audit-{name or 'people'}"


def _estimate(plan: Plan, json: bool) -> None:
    from dataclasses import asdict

    from isonomy.audit.cost import Cost, estimate
    from isonomy.audit.inputs import read_inputs
    from isonomy.audit.large_cost import LargeCost, estimate_large

    cost: Cost | LargeCost
    with bars() as shown:
        if plan.engine is not None:
            shown.stage("Timing the first rows")
            cost = estimate_large(plan)
        else:
            inputs = read_inputs(plan)
            shown.stage("Timing a sample")
            cost = estimate(plan, inputs)
    answer(asdict(cost)) if json else print(cost)


def _run(plan: Plan, json: bool) -> int:
    from isonomy.audit import Stages, run, write
    from isonomy.audit.inputs import read_inputs
    from isonomy.audit.output import check_target
    from isonomy.audit.summary import STATUS, document, verdict
    from isonomy.certificates.consistency import told

    stages = Stages()
    try:
        with bars() as shown:
            inputs = read_inputs(plan)
            if inputs.network.remark:
                remark(f"- {inputs.network.remark}")
            target = check_target(out_of(plan, inputs.people.schema.name), plan.key)
            # A redacted audit keeps nothing on the way: stages hold people's rows.
            stages = Stages(None if plan.redact else target.with_name(f"{target.name}.partial"), shown.stage)
            if len(inputs.people) > _MANY:
                remark(f"{len(inputs.people):,} individuals: --estimate tells the cost, --limit audits a sample.")
            with told(target.parent):
                findings = run(plan, shown.tick, stages=stages, inputs=inputs)
                shown.stage("write")
                target = write(findings, target, key=plan.key)
            stages.close()
    except KeyboardInterrupt:
        return fail(_resume(stages, plan), code="stopped", status=130, machine=False)
    if json:
        answer(document(findings) | {"out": str(target), "resumed": stages.found})
    else:
        from isonomy.cli.page import show

        show(findings, console())
        print(f"\nWritten to {target}: report.html, certificate.json, individuals.parquet, summary.md, junit.xml.")
        print(f"Check it independently: isonomy verify {target / 'certificate.json'}")
    return STATUS[verdict(findings)]


def _resume(stages: Stages, plan: Plan) -> str:
    """What to say after Ctrl-C."""
    if stages.directory is None or not stages.directory.exists():
        why = " (a redacted audit keeps nothing on the way)" if plan.redact else ""
        return f"Stopped; nothing was written{why}."
    kept = len(stages.written) + len(stages.found)
    return (
        f"Stopped; {kept} finished stage{'s' * (kept != 1)} kept in {stages.directory}. The same command goes on from "
        "there."
    )
