"""The bundled audit, printed for people."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from isonomy.audit.bundled import BundledAudit, quantiles, run_bundled_audit
from isonomy.errors import IsonomyError


def main() -> int:
    """Run and print the audit; the exit status is that of the error, if there is one."""
    console = Console()
    try:
        with Progress(console=console, transient=True) as bar:
            task = bar.add_task("Certifying", total=None)
            audit = run_bundled_audit(progress=lambda done, of: bar.update(task, completed=done, total=of))
    except IsonomyError as error:
        console.print(f"[bold red]Error:[/] {error}")
        return error.exit_status
    show(audit, console)
    return 0


def show(audit: BundledAudit, console: Console) -> None:
    """The audit as a page of text and tables."""
    certificate, people = audit.certificate, audit.people.test
    console.print(f"\n[bold]German credit[/]: {len(people)} test applicants, network {audit.network!r}")
    console.print(f"Test accuracy {audit.accuracy:.3f}. {certificate.question.metric.describe()}")
    console.print(
        f"\nOn average a counterpart's probability can differ by at most [bold]{certificate.mean_upper:.3f}[/] "
        f"(proved); explicit counterparts reach [bold]{certificate.mean_lower:.3f}[/] (found).\n"
    )
    console.print(_violations(audit))
    console.print(_decisions(audit))
    console.print(_movement(audit))
    worst = int(np.argmax(certificate.lower))
    console.print(
        f"Most unequal pair found (row {people.rows[worst]} of the table, difference {certificate.lower[worst]:.3f}):"
    )
    pair = certificate.witnesses.frame(worst)
    table = Table("feature", "applicant", "counterpart")
    for name, row in pair.iterrows():
        style = "bold" if row["differs"] else "dim"
        table.add_row(str(name), str(row["individual"]), str(row["counterpart"]), style=style)
    console.print(table)


def _violations(audit: BundledAudit) -> Table:
    table = Table("violation", "median", "90 %", "largest", title="Largest difference between similar applicants")
    for name, values in (("proved, at most", audit.certificate.upper), ("found, at least", audit.certificate.lower)):
        table.add_row(name, *(f"{value:.3f}" for value in quantiles(values)))
    return table


def _decisions(audit: BundledAudit) -> Table:
    words = {
        "certified": "no counterpart can get another decision",
        "flippable": "a counterpart with another decision was found",
        "undecided": "neither was proved",
    }
    table = Table("decision", "applicants", "meaning", title="Can a counterpart get another decision?")
    for kind, meaning in words.items():
        table.add_row(kind, str(int((audit.certificate.decision == kind).sum())), meaning)
    return table


def _movement(audit: BundledAudit) -> Table:
    table = Table("feature", "role", "moves", "by", title="What the similar set can move")
    for name, row in audit.certificate.movement().iterrows():
        if row["moves"] == 0:
            continue
        by = (
            f"{row['categories']:.1f} other categories"
            if np.isfinite(row["categories"])
            else f"{row['least']:+.4g} … {row['most']:+.4g}"
        )
        table.add_row(str(name), str(row["role"]), f"{row['moves']:.0%} of applicants", by)
    return table
