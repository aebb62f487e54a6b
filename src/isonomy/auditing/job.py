"""Running an audit: read, certify, look at groups and shifts beside."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from isonomy.auditing.inputs import Inputs, read_inputs
from isonomy.auditing.plan import Plan
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.certify import CHUNK, certify
from isonomy.errors import IsonomyError
from isonomy.fairness import GroupFairness, group_fairness, scores
from isonomy.population import Population
from isonomy.progress import Progress
from isonomy.report.findings import Findings, ObservedShift
from isonomy.shift import wasserstein


def run(
    plan: Plan,
    progress: Progress | Literal["auto"] | None = "auto",
    *,
    work: Path | None = None,
    inputs: Inputs | None = None,
    announce: Callable[[str], None] = lambda stage: None,
) -> Findings:
    """Audit: every number of the findings is proved, found or estimated here, nothing is written but to ``work``.

    That folder keeps finished chunks for a later run of the same plan. ``inputs`` are the plan's own, already read;
    ``announce`` is told what begins.
    """
    inputs = inputs or read_inputs(plan)
    announce("Reading people")
    source = inputs.opened(plan, work)
    announce("Bounding people and populations")
    certificate = certify(
        inputs.network, source, inputs.metric, plan.delta, plan.gamma, order=plan.order, ground=inputs.ground,
        epsilon=plan.epsilon, confidence=plan.confidence, domain=plan.domain, tier=plan.tier,
        attack=not plan.no_search, decide=not plan.no_search, seed=plan.seed, engine=plan.engine or "local",
        scheduler=plan.scheduler, work=work, chunk=plan.chunk or CHUNK, progress=progress,
    )  # fmt: skip
    announce("Groups and distances")
    people = certificate.people
    assert people is not None
    return Findings(
        title=plan.name or people.schema.name,
        people=people,
        network=certificate.question.network,
        certificate=certificate,
        group=_groups(certificate, people),
        shifts=tuple(
            ObservedShift(name, wasserstein(people, other, order=plan.order, ground=inputs.ground, seed=plan.seed))
            for name, other in inputs.others
        ),
        sources={**dict(certificate.sources), **inputs.sources},
        command=plan.command(),
        created=begun(work).isoformat(timespec="seconds"),
        redacted=plan.redact,
        **{name: value for name, value in scores(certificate.question.network, people).items() if name != "classes"},
    )


def begun(work: Path | None) -> datetime:
    """When the first run of this question began: that of the plan that the folder keeps."""
    kept = None if work is None else work / "schedule.json"
    return datetime.fromtimestamp(kept.stat().st_mtime, UTC) if kept and kept.is_file() else datetime.now(UTC)


def _groups(certificate: Certificate, people: Population) -> GroupFairness | None:
    """Group fairness where it means something: decisions between classes, people with protected attributes."""
    network = certificate.question.network
    if network.head == "regression" or not people.schema.protected:
        return None
    try:
        return group_fairness(network, people, outcomes=people.y is not None, certificate=certificate.local)
    except IsonomyError:  # such as a table in which everybody is of one group: there is nothing to compare
        return None
