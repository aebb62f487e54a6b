"""The audit of a plan: inputs, certificate, groups and shifts; behind the call of Python and the command.

The cost of an audit is estimated from small samples, which are audited and timed; the rest is a straight line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from isonomy.auditing.inputs import Inputs, check_rows, read_inputs, read_model, with_ids
from isonomy.auditing.plan import Plan
from isonomy.certificates.alone import change_held, changes_alone, questions
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.certify import certify
from isonomy.certificates.features import whole_domain_gaps
from isonomy.certificates.gaps import FeatureGap
from isonomy.certificates.options import CHUNK
from isonomy.certificates.part import Part
from isonomy.certificates.protocol import Shift
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.shifts import parsed_shift, usual_shifts
from isonomy.certificates.transport import Transport
from isonomy.errors import DataError, IsonomyError, NetworkError, ParameterError, template
from isonomy.fairness import GroupFairness, group_fairness, scores
from isonomy.fairness.reading import OtherReading, better_reading
from isonomy.population import PeopleSource, Population
from isonomy.population.outcome import favourable_places
from isonomy.problem import Problem
from isonomy.progress import Progress
from isonomy.report.findings import Findings, ObservedShift
from isonomy.report.groups import unnamed_outcome
from isonomy.shift import wasserstein

JUDGED, PLACES = 20_000, 40
"""Rows from whose labels the order of the classes is judged, and in how many places of a table: it may be sorted."""

SAMPLES = (24, 64)
"""Individuals timed; two sizes separate the time that is spent once from that spent on each."""


def run(
    plan: Plan,
    progress: Progress | Literal["auto"] | None = "auto",
    *,
    work: Path | None = None,
    inputs: Inputs | None = None,
    announce: Callable[[str], None] = lambda stage: None,
    counterexamples: Path | Literal[True] = True,
) -> Findings:
    """Audit a plan: compute every number of the findings; nothing is written but to ``work``.

    That folder keeps finished chunks for a later run of the same plan. ``inputs`` are the plan's own, already read;
    ``announce`` is called with the name of each stage. ``counterexamples`` is as for :func:`isonomy.certify`; of a
    redacted audit none is saved, since the file holds a person's row.
    """
    inputs = inputs or read_inputs(plan)
    if plan.epsilon is not None and plan.epsilon > 1 and inputs.model.head != "regression":
        right = "at most 1, the largest change of a probability: 0.05 is 5 points of 100"
        raise ParameterError(template("epsilon", right, plan.epsilon))
    announce("Reading people")
    source = inputs.open_source(plan, work)
    check_rows(plan, inputs)
    other = _other_reading_of(plan, inputs, source)
    if plan.everywhere:
        announce("Bounding the whole domain")
    gaps = _gaps(plan, inputs) if plan.everywhere else ()
    announce("Bounding people and populations")
    certificate = certify(
        inputs.model, source, **_question(plan, inputs), domain=plan.domain, epsilon=plan.epsilon,
        confidence=plan.confidence, seed=plan.seed, engine=plan.engine or "local", scheduler=plan.scheduler, work=work,
        chunk=plan.chunk or CHUNK, progress=progress, counterexamples=not plan.redact and counterexamples,
    )  # fmt: skip
    announce("Groups and distances")
    people = certificate.people
    assert people is not None
    people = people if plan.redact else with_ids(people, plan)
    group, refusal = _groups(certificate, people)
    asked = questions(people.schema, certificate.problem.model.read_features(people.schema))
    own = (each for each in asked if all(people.schema[name].protected for name in each))
    return Findings(
        title=plan.name or people.schema.name,
        people=people,
        model=certificate.problem.model,
        certificate=certificate,
        group=group,
        group_refusal=refusal,
        alone=changes_alone(certificate, asked, work),
        held=change_held(certificate, max(own, key=len, default=()), work),
        gaps=gaps,
        shifts_asked=bool(plan.shift),
        shifts=tuple(
            ObservedShift(name, wasserstein(people, other, order=plan.order, ground=inputs.ground, seed=plan.seed))
            for name, other in inputs.others
        ),
        sources={**dict(certificate.sources), **inputs.sources},
        table=inputs.table,
        command=plan.command(),
        created=_started(work).isoformat(timespec="seconds"),
        redacted=plan.redact,
        identity={"Version": plan.model_version or "", "Owner": plan.owner or "", "Purpose": plan.purpose or ""},
        noun=plan.noun,
        other_reading=other,
        scores=scores(certificate.problem.model, people, certificate.problem.outcome),
    )


def _gaps(plan: Plan, inputs: Inputs) -> tuple[FeatureGap, ...]:
    """Return how far protected attributes alone move the score of any possible person."""
    good, cut, schema = plan.favourable or None, plan.threshold, inputs.schema
    problem = Problem.of(inputs.model, inputs.metric, plan.delta, schema=schema, favourable=good, threshold=cut)
    return whole_domain_gaps(problem)


def _other_reading_of(plan: Plan, inputs: Inputs, source: PeopleSource) -> OtherReading | None:
    """Return the order of classes under which the model agrees better; refuse it unless the plan says ``as_read``."""
    other = other_reading(inputs, source)
    if other is not None and not plan.as_read:
        raise NetworkError(
            f"'{inputs.model.name}' is probably read the wrong way round: {other}. {_remedy(plan, inputs, other)}, "
            "or say --as-read (as_read = true) to audit it as it is read."
        )
    return other


def other_reading(inputs: Inputs, source: PeopleSource) -> OtherReading | None:
    """Return the order of classes under which the model agrees better with the labels of at most ``JUDGED`` rows."""
    label, model = inputs.schema.label, inputs.model.on(inputs.schema)
    if label is None or label.regression or model.head == "regression":
        return None
    keys = source.keys(JUDGED // PLACES)
    chunks = [source.read(key) for key in keys[:: -(-len(keys) // PLACES)]]
    labels = [chunk.y for chunk in chunks if chunk.y is not None]
    if not labels or len(labels) < len(chunks):
        return None
    given, weights = model(np.concatenate([chunk.x for chunk in chunks])), [chunk.weights for chunk in chunks]
    return better_reading(given, np.concatenate(labels).astype(np.int64), label, np.concatenate(weights))


def _remedy(plan: Plan, inputs: Inputs, other: OtherReading) -> str:
    """Return how to correct the order of the classes; outputs of a file that names its classes follow them anyway."""
    label = inputs.schema.label
    if plan.model is not None and label is not None:
        turned = replace(inputs.schema, label=replace(label, classes=other.classes))
        if read_model(plan, turned).hash() != inputs.model.hash():
            return (
                "The model file names its classes, so that their order in the schema is no matter: give the labels "
                "that it was fitted on"
            )
    where = "Correct the order of 'classes' in [label] of the schema"
    if plan.schema is None:  # then there may be no file to correct
        where += " (where it was guessed, 'isonomy init' with the same table, model and options writes one)"
    return where


def _question(plan: Plan, inputs: Inputs) -> dict[str, Any]:
    """Return the arguments of :func:`isonomy.certify` that are the question."""
    return {
        "metric": inputs.metric, "delta": plan.delta, "shift": _shifts(plan, inputs),
        "tier": plan.tier, "attack": not plan.no_search, "decide": not plan.no_search,
        "favourable": plan.favourable or None, "threshold": plan.threshold,
    }  # fmt: skip


def _shifts(plan: Plan, inputs: Inputs) -> list[Shift]:
    """Return the shifts of a plan: by transport where a γ is named, else of parts where a share is, and others; where
    nothing is named these people, and what an audit usually asks."""
    others: list[Shift] = [parsed_shift(text, inputs.schema) for text in plan.shift]
    if plan.part is not None:
        return [Part(plan.part), *others]
    if plan.radius is not None:
        return [Transport(plan.radius, plan.order, inputs.ground), *(others or usual_shifts(inputs.schema))]
    return others or [Part(1.0), *usual_shifts(inputs.schema)]


def _started(work: Path | None) -> datetime:
    """Return when the first run of this question began: the date of the schedule in ``work``, else now."""
    if work is not None and (schedule := work / "schedule.json").is_file():
        return datetime.fromtimestamp(schedule.stat().st_mtime, UTC)
    return datetime.now(UTC)


def _groups(certificate: Certificate, people: Population) -> tuple[GroupFairness | None, str]:
    """Return rates of a named favourable outcome by protected group; or nothing, and why in one sentence."""
    model, outcome = certificate.problem.model, certificate.problem.outcome
    if not people.schema.protected:
        return None, "Groups were not compared: the schema names no protected attribute."
    if not favourable_places(outcome):
        return None, unnamed_outcome(outcome)
    try:
        compared = group_fairness(
            model, people, outcomes=people.y is not None, certificate=certificate.local,
            favourable=outcome.favourable, threshold=outcome.threshold,
        )  # fmt: skip
    except IsonomyError as error:  # such as a table with one group only: there is nothing to compare
        return None, f"Groups were not compared: {error}"
    return compared, ""


@dataclass(frozen=True)
class CostEstimate:
    """An estimate of time and memory, and the sample that it rests on."""

    individuals: int
    coordinates: int
    seconds: float
    megabytes: float
    sampled: int
    sampled_seconds: float

    def __str__(self) -> str:
        cost = f"about {duration(self.seconds)} and {self.megabytes:,.0f} MB of memory"
        judged = f"judged by {self.sampled} individuals that took {duration(self.sampled_seconds)}"
        return f"{self.individuals:,} individuals of {self.coordinates} coordinates: {cost}, {judged}."


def estimate(plan: Plan, inputs: Inputs) -> CostEstimate:
    """Audit two small samples and extrapolate their times to all individuals."""
    if inputs.people is None:
        source = inputs.open_source(plan, None)
        keys = source.keys(SAMPLES[-1])
        n, x = sum(map(len, keys)), next((chunk.x for key in keys if len(chunk := source.read(key))), np.zeros((0, 0)))
    else:
        n, x = len(inputs.people), inputs.people.sample(SAMPLES[-1], plan.seed).x
    if not len(x):
        raise DataError("There are no individuals: no row of the table is left.")
    model, domain = inputs.model.on(inputs.schema), inputs.schema.domain(plan.domain)
    sizes, times, asked = sorted({min(len(x), size) for size in SAMPLES}), [], _question(plan, inputs)
    moved = [each for each in asked["shift"] if not isinstance(each, Reweighting)]
    asked["shift"] = moved or Part(1.0)  # others, in which no one moves, take no time beside the local bounds
    for size in sizes:
        began = time.perf_counter()
        certified = certify(model, x[:size], **asked, domain=domain, progress=None, counterexamples=not plan.redact)
        times.append(time.perf_counter() - began)
    slope = times[-1] / sizes[-1]
    if len(sizes) == 2:
        slope = max((times[1] - times[0]) / (sizes[1] - sizes[0]), 0.2 * slope)
    seconds = max(times[-1] + slope * (n - sizes[-1]), 0.0)
    width, held = x.shape[1], n if inputs.people is not None else min(n, plan.chunk or CHUNK)
    points, values = certified.points.person.size / sizes[-1], len(certified.profiles.value) / sizes[-1]
    per_person = 8 * (2 * points + 2 * values + 6 * width)
    return CostEstimate(n, width, seconds, _peak() + held * per_person / 2**20, sizes[-1], times[-1])


def duration(seconds: float) -> str:
    """Return a duration as text."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} seconds"


def _peak() -> float:
    """Return the peak memory so far, in megabytes; kilobytes are counted on Linux, bytes on macOS, none on Windows."""
    if sys.platform == "win32":
        return 0.0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
