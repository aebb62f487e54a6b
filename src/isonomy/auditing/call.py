"""The main job as one call of Python: what ``isonomy audit`` does, without its terminal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from isonomy.auditing.job import run
from isonomy.auditing.output import write
from isonomy.auditing.plan import Plan
from isonomy.brief import brief
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.consistency import told
from isonomy.errors import ParameterError, template
from isonomy.options import options_of
from isonomy.progress import Progress
from isonomy.report.findings import Findings
from isonomy.report.html import to_html
from isonomy.report.text import to_markdown


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found, and what can be made of it."""

    plan: Plan
    findings: Findings = field(repr=False)

    __repr__ = brief

    @property
    def certificate(self) -> Certificate:
        """What was proved of, and found in, the people and the populations close to them."""
        return self.findings.certificate

    def report(self) -> str:
        """The report, one self-contained HTML page."""
        return to_html(self.findings.facts)

    def save(self, directory: str | PathLike[str]) -> Path:
        """Write report, certificate with its evidence, individuals and summaries; signed where the plan has a key."""
        return write(self.findings, Path(directory), key=self.plan.key)

    def __str__(self) -> str:
        return to_markdown(self.findings.facts)


def audit(
    plan: Plan | Mapping[str, Any] | str | PathLike[str] | None = None,
    *,
    work: str | PathLike[str] | None = None,
    progress: Progress | Literal["auto"] | None = "auto",
) -> Audit:
    """Audit a table of people and a network: certificates, groups, distances, as ``isonomy audit`` does.

    ``plan`` is the path of an ``audit.toml``, or its keys and values as a dictionary, such as ``{"data": "people.csv",
    "schema": "schema.toml", "model": "model.onnx", "gamma": 0.1}``; without one the bundled example is audited. Nothing
    is written but finished chunks to the folder ``work``, from which a later call goes on; :meth:`Audit.save` writes.
    ``progress`` is called with the rows done and in all.
    """
    if isinstance(plan, str | PathLike):
        plan = Plan.of({}, Path(plan))
    elif isinstance(plan, Mapping):
        unknown = next((key for key in plan if key not in options_of(Plan)), None)
        if unknown is not None:
            raise ParameterError(template("plan", "made of the keys of an audit.toml", unknown))
        plan = Plan.of({key: tuple(value) if isinstance(value, list) else value for key, value in plan.items()})
    elif plan is None:
        plan = Plan()
    elif not isinstance(plan, Plan):
        raise ParameterError(template("plan", "None, the path of an audit.toml or a dictionary", type(plan).__name__))
    folder = None if work is None or plan.redact else Path(work)
    with told(None if plan.redact else ""):  # the file of a contradiction holds a person's row
        return Audit(plan, run(plan, progress, work=folder))
