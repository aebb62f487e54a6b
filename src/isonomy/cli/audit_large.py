"""``isonomy audit --engine``: the same command for a dataset larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from isonomy.cli.console import Answer, StoppedError, bar, remark

if TYPE_CHECKING:
    from pathlib import Path

    from isonomy.audit import Plan
    from isonomy.audit.large import LargeFindings


def run_engine(plan: Plan) -> Answer:
    """Audit, write, tell; the exit status is the verdict's."""
    from isonomy.audit.large import open_work, parts_in, read_asked, run_large, work_of
    from isonomy.audit.large_output import write_large
    from isonomy.audit.output import check_target
    from isonomy.audit.summary import STATUS
    from isonomy.certificates.consistency import told
    from isonomy.cli.audit import out_of

    asked = read_asked(plan)
    if asked.network.remark:
        remark(f"- {asked.network.remark}")
    out = check_target(out_of(plan, asked.schema.name))
    try:
        with bar() as shown, told(out.parent):
            before = parts_in(open_work(out))
            findings = run_large(plan, out, shown, asked=asked, announce=shown.stage)
            shown.stage("write")
            facts = write_large(findings, out)
    except KeyboardInterrupt:
        raise StoppedError(_resume(work_of(out))) from None
    found = findings.certificate
    more: dict[str, Any] = {"parts": len(found.parts), "computed": found.computed, "out": str(out)}
    return Answer(facts | more, _page(findings, facts, out, before), STATUS[facts["verdict"]])


def _page(findings: LargeFindings, facts: dict[str, Any], out: Path, before: int) -> Iterator[Any]:
    from rich.table import Table
    from rich.text import Text

    from isonomy.arithmetic import at_least, at_most
    from isonomy.audit.large_summary import rows

    yield Text(f"{facts['title']}: {facts['selection']['words']}.", style="bold")
    yield ""
    yield Text(facts["sentence"], style="bold")
    if facts["verdict"] is not None:
        yield f"{facts['verdict'].upper()} against ε = {facts['epsilon']:g}."
    curve = Table("shift γ", "proved, at most", "found, at least", title="Mean violation of populations within γ")
    for gamma, upper, lower in findings.curve:
        curve.add_row(f"{gamma:g}", at_most(upper), at_least(lower))
    numbers = Table("", "", title="What it rests on", show_header=False)
    for name, value in rows(findings, facts):
        numbers.add_row(name, value)
    for table in (curve, numbers):
        yield ""
        yield table
    parts, computed = len(findings.certificate.parts), findings.certificate.computed
    yield f"\n{parts:,} parts, {parts - computed:,} of them kept from an earlier run." if before else ""
    names = "report.html, certificate.json, evidence/, individuals/, summary.md, junit.xml"
    yield f"Written to {out}: {names}{'' if findings.redacted else ', parts/'}."


def _resume(work: Path) -> str:
    """What to say after Ctrl-C."""
    from isonomy.audit.large import parts_in

    count = parts_in(work)
    if not count:
        return "Stopped; no part was finished."
    return f"Stopped; {count} finished part{'s' * (count != 1)} kept in {work}. The same command goes on from there."
