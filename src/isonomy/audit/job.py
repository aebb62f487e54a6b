"""Running an audit: read, certify, look at groups and shifts beside."""

from __future__ import annotations

from typing import Literal

from isonomy.audit.inputs import Inputs, read_inputs
from isonomy.audit.plan import Plan
from isonomy.audit.stages import Stages
from isonomy.certificates.distributional import DistributionalCertificate, certify
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
    stages: Stages | None = None,
    inputs: Inputs | None = None,
) -> Findings:
    """Audit: every number of the findings is proved, found or estimated here, nothing is written.

    ``stages`` keeps what is finished for a later run of the same plan; ``inputs`` are the plan's own, already read.
    """
    stages = stages or Stages()
    inputs = inputs or read_inputs(plan)
    stages.open(inputs.fingerprint(plan))
    certificate = certify(
        inputs.network, inputs.people, inputs.metric, plan.delta, plan.gamma, order=plan.order, ground=inputs.ground,
        epsilon=plan.epsilon, confidence=plan.confidence, tier=plan.tier, seed=plan.seed,  # type: ignore[arg-type]
        decide=True, progress=progress, keep=stages.keep,
    )  # fmt: skip
    stages.announce("beside", False)
    people = inputs.people
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
        sources=inputs.sources,
        command=plan.command(),
        created=stages.started,
        redacted=plan.redact,
        **{name: value for name, value in scores(certificate.question.network, people).items() if name != "classes"},
    )


def _groups(certificate: DistributionalCertificate, people: Population) -> GroupFairness | None:
    """Group fairness where it means something: decisions between classes, people with protected attributes."""
    network = certificate.question.network
    if network.head == "regression" or not people.schema.protected:
        return None
    try:
        return group_fairness(network, people, outcomes=people.y is not None, certificate=certificate.local)
    except IsonomyError:  # such as a table in which everybody is of one group: there is nothing to compare
        return None
