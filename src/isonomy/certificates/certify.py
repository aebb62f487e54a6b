"""From people and a model to a certificate: the same way for any table, wherever its chunks are worked on.

People come from a source (a population, a table, files of any size), cut into chunks. A schedule (which radii are worth
their price) is made once, on a pilot group; then every chunk is worked on by itself, here or on a cluster, and its
columns are concatenated. With a folder for ``work`` chunks are saved there: a run that was killed at any moment is
continued by giving the same call again, and the certificate is the same bit for bit.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from isonomy.arithmetic import FloatArray
from isonomy.attacks import attack_budget
from isonomy.certificates.certificate import Certificate
from isonomy.certificates.chunks import POINT, PROFILE, Finished, Job, Work, finish, joined
from isonomy.certificates.consistency import Counterexamples
from isonomy.certificates.finite_sample import Clusters
from isonomy.certificates.local import LocalCertificate, Witnesses
from isonomy.certificates.options import (
    RUN,
    SEARCH,
    Arithmetic,
    CertifyKeywords,
    RunOptions,
    SearchOptions,
    check_keywords,
    options_of,
)
from isonomy.certificates.people import check_people, in_memory, pose
from isonomy.certificates.profiles import Schedule
from isonomy.certificates.protocol import Shift
from isonomy.certificates.reweighting import Reweighting
from isonomy.certificates.transport import checked_shifts
from isonomy.certificates.worst_case import Points
from isonomy.engine import check_engine, open_engine
from isonomy.errors import DataError, ParameterError, template
from isonomy.files import Arrays, FolderStore, read_json, remove_partial_files, write_json
from isonomy.given import FINITE, choice, instance, number, whole
from isonomy.model import Model
from isonomy.parallel import one_thread_in_blas
from isonomy.population import Domain, Population
from isonomy.population.encoding import find_column
from isonomy.population.population import in_train
from isonomy.population.schema import Unknown
from isonomy.population.selection import Selection, SplitName
from isonomy.population.sources import Chunk, ChunkKey, InMemory, PeopleSource, chunk_keys, open_people
from isonomy.problem import Problem
from isonomy.progress import Shares, shown
from isonomy.similarity.metric import Metric, overlaps
from isonomy_verify.claims import Profiles
from isonomy_verify.dual import HUGE
from isonomy_verify.individuals import FLIPPABLE, Individuals

ShiftKind = TypeVar("ShiftKind", bound=Shift)
DistributionalTier = Literal["interval", "tight"]

LARGEST_CHUNK = 2**22
"""The largest ``chunk`` allowed: with more rows memory would not be bounded."""


def certify(
    model: Model | Problem,
    people: Population | npt.ArrayLike | str | PathLike[str] | Any,
    metric: Metric | None = None,
    delta: float | None = None,
    shift: float | Shift | Sequence[Shift] = 0.0,
    *,
    gamma: float | None = None,
    epsilon: float | None = None,
    confidence: float | None = None,
    search: SearchOptions = SEARCH,
    run: RunOptions = RUN,
    **keywords: Unpack[CertifyKeywords],
) -> Certificate:
    """Bound the mean violation of every population of a shift: those close to the individuals.

    ``model`` is a :class:`Network`, or any model with a tier. ``people``: a :class:`Population`; a table of numbers,
    which without a ``domain`` means all of ``R^m``; or, with a ``schema``, a pandas, Polars or Arrow table, the path of
    a Parquet file, of a folder of them or of a CSV file, or a Dask data frame. Similar is who is within ``delta`` in
    the ``metric``. ``delta``, ``schema``, ``domain``, ``favourable``, ``threshold`` and ``max_branches`` are as for
    :meth:`Problem.of`; a :class:`Problem` in the place of the model has them all.

    ``shift`` is a :class:`Transport`, a :class:`Drift`, a :class:`Part`, a :class:`Stability`, a :class:`Mix`, a list
    of these with at most one in which individuals move, which then comes first, or a number, the γ of a
    :class:`Transport`; ``gamma``, ``order`` and ``ground`` are those of it too. The certificate is about the first one,
    and has the bounds of the others beside it (``under``). ``epsilon`` asks for a verdict, ``confidence`` for a
    statement about the population behind the sample. That takes individuals for independent draws; where they come in
    clusters that are drawn as wholes, such as households, name the column of the table that tells them apart, or give
    an array, as ``cluster``, and the most people that a cluster can have, known beforehand, as ``max_cluster``.

    How hard to search, ``tier``, ``attack``, ``decide``, ``arithmetic``, ``rounds``, ``seed`` and ``output_range``, are
    fields of :class:`SearchOptions`; how to read and where to work, ``unknown``, ``split``, ``engine``, ``scheduler``,
    ``work``, ``chunk``, ``progress`` and ``counterexamples``, of :class:`RunOptions`; they may be given as ``search``
    and ``run`` together.
    """
    check_keywords("certify", keywords, CertifyKeywords)
    search, run = options_of(search, keywords), options_of(run, keywords)
    populations, others = checked_shifts(shift, gamma, keywords.get("order", 1.0), keywords.get("ground", "l2"))
    _check_options(search, run)
    if epsilon is not None:
        epsilon = number("epsilon", epsilon, "None or a finite number >= 0", high=FINITE)
    if confidence is not None:
        confidence = number("confidence", confidence, "None or a number between 0 and 1", 0.0, 1.0, strict=True)
    budget, rounds = attack_budget(search.attack, whole("seed", search.seed)), whole("rounds", search.rounds)
    output_range, chunk, progress = checked_range(search.output_range), run.chunk, run.progress
    folder = None if run.work is None else Path(run.work).resolve()
    problem, source = _open(model, people, metric, delta, keywords, run, folder)
    populations, others = _settled(populations, source), tuple(_settled(each, source) for each in others)
    job = Job(
        problem, populations.on(problem.domain, problem.schema), search.tier, budget, bool(search.decide), rounds,
        search.arithmetic, output_range, evidence=_evidence_folder(run, folder), shifts=others,
    )  # fmt: skip
    keys = source.keys(chunk)
    with shown("Certifying", progress) as tick:
        job = replace(job, schedule=_schedule(job, source, keys, folder, lambda rows: tick(0, sum(map(len, keys)))))
    keys = source.keys(min(chunk, job.rows(source, keys)))
    store = None if folder is None else FolderStore(folder, f"{job.identity} {source.fingerprint()}")
    columns, computed = _columns(Work(job, source, store), keys, run)
    clusters = keywords.get("cluster"), keywords.get("max_cluster")
    return _certificate(job, source, columns, computed, epsilon, confidence, clusters)


def _evidence_folder(run: RunOptions, work: Path | None) -> Path | None:
    """Return where contradictions are saved; None: nowhere."""
    given = run.counterexamples
    if isinstance(given, bool):
        return (work or Path()) if given else None
    return Path(given)


def _check_options(search: SearchOptions, run: RunOptions) -> None:
    choice("tier", search.tier, DistributionalTier)
    choice("unknown", run.unknown, Unknown)
    choice("split", run.split, SplitName)
    choice("arithmetic", search.arithmetic, Arithmetic)
    if type(run.chunk) is not int or not 1 <= run.chunk <= LARGEST_CHUNK:
        raise ParameterError(template("chunk", f"a whole number from 1 to {LARGEST_CHUNK}", run.chunk))
    if run.work is not None:
        instance("work", run.work, str | PathLike, "a path")
    instance("counterexamples", run.counterexamples, str | PathLike | bool, "a path, True or False")
    check_engine(run.engine, run.scheduler)


@dataclass(frozen=True, eq=False)
class _Array:
    """A source of individuals given as an array (n, m)."""

    x: FloatArray
    schema: None = None
    files: tuple[tuple[str, str], ...] = ()

    def keys(self, rows: int) -> list[ChunkKey]:
        """Cut the array into slices of at most ``rows`` rows."""
        return chunk_keys([("", len(self.x))], rows)

    def read(self, key: ChunkKey) -> Chunk:
        """Return the rows of a slice, all of weight 1."""
        x = self.x[key.start : key.stop]
        return Chunk(key, x, None, np.ones(len(x)), np.arange(key.start, key.stop), 0)

    def selection(self, people: int, excluded: int) -> Selection:
        """Return an unknown selection."""
        return Selection(people, how="unknown")

    def fingerprint(self) -> str:
        """Return the SHA-256 of shape and numbers."""
        return hashlib.sha256(repr(self.x.shape).encode() + self.x.tobytes()).hexdigest()


def _open(
    model: Model | Problem,
    people: Any,
    metric: Metric | None,
    delta: float | None,
    keywords: Mapping[str, Any],
    run: RunOptions,
    work: Path | None,
) -> tuple[Problem, PeopleSource]:
    """Return the problem, and the source of its individuals; rows that are read later are checked then."""
    schema = keywords.get("schema")
    own = model.schema if isinstance(model, Problem) else schema
    opened = isinstance(people, Population | PeopleSource)
    table = hasattr(people, "columns")
    check_people(people, own if table and not opened else schema)
    if not opened and not table and not isinstance(people, str | PathLike):
        x: Any = in_memory(people, None)
        problem = pose(model, x, metric, delta, keywords)
        problem.check(x)
        return problem, _Array(x)  # type: ignore[return-value]
    if own is None and not opened:
        raise ParameterError(f"'schema' must be given beside {people}: it says what the columns mean.")
    asked = people.people if isinstance(people, InMemory) else people
    known = {"schema": people.schema} if opened and not isinstance(model, Problem) else {}
    problem = pose(model, asked, metric, delta, {**keywords, **known})
    if isinstance(asked, Population):
        problem.check(asked.x)
    rows: Any = {"unknown": run.unknown, "split": run.split, "work": work}
    return problem, open_people(people, schema if opened else own, **rows)


def _settled(shift: ShiftKind, source: PeopleSource) -> ShiftKind:
    """Return the shift of people who are in memory, so that one they cannot have is refused before the work."""
    if not isinstance(source, InMemory):
        return shift
    return shift.resolved(source.people.x, source.people.schema, source.people.weights)


def _schedule(
    job: Job, source: PeopleSource, keys: Sequence[ChunkKey], folder: Path | None, tick: Callable[[int], None]
) -> Schedule:
    """Read the schedule that an earlier run of the same job saved, else make one."""
    if folder is None:
        return job.pilot_schedule(source, keys, tick)
    identity = f"{job.identity} {source.fingerprint()} {len(keys)}"
    path = folder / "schedule.json"
    known = read_json(path)
    if known is not None and known.get("identity") == identity and (schedule := Schedule.read(known)) is not None:
        return schedule
    with one_thread_in_blas():
        schedule = job.pilot_schedule(source, keys, tick)
    write_json(path, {"identity": identity, **asdict(schedule)})
    return schedule


def _columns(work: Work, keys: Sequence[ChunkKey], run: RunOptions) -> tuple[Arrays, int]:
    """Return the columns of all individuals, and the number of chunks that were computed."""
    finished, began = list[Finished](), time.time()
    with shown("Certifying", run.progress) as tick, open_engine(run.engine, run.scheduler) as where:
        parts = Shares(tick, sum(map(len, keys)))

        def finish_with_progress(work: Work, key: ChunkKey) -> Finished:
            return finish(work, key, partial(parts, key.index, len(key)))

        alone = len(keys) == 1 and run.engine == "local"  # then its stages have all threads
        # Progress inside a chunk is not seen from workers elsewhere.
        work_on = finish if run.engine == "dask" else finish_with_progress
        for each in [finish_with_progress(work, keys[0])] if alone else where.map(work_on, work, keys):
            finished.append(each)
            parts(each.key.index, len(each.key), 1.0)
    computed = sum(each.computed for each in finished)
    if work.store is not None:
        columns = joined(work.parts(keys), work.store.folder / "columns")
        remove_partial_files(work.store.folder, began)
        return columns, computed
    finished.sort(key=lambda each: each.key.index)
    return joined((each.columns or {} for each in finished), None), computed


def _certificate(
    job: Job,
    source: PeopleSource,
    columns: Arrays,
    computed: int,
    epsilon: float | None,
    confidence: float | None,
    cluster: tuple[str | npt.ArrayLike | None, int | None],
) -> Certificate:
    """Check the weights and make the certificate from the columns of all individuals."""
    x, weights, schema = columns["x"], columns["weights"], source.schema
    n = len(x)
    if not n:
        raise DataError("There are no individuals: no row of the table is left.")
    name = None if schema is None else schema.weight
    if not weights.any():
        raise DataError(f"Column {name!r}: all sampling weights are zero; at least one must be positive.")
    if not 1 / HUGE <= (total := math.fsum(weights.tolist())) <= HUGE:
        raise DataError(
            f"Column {name!r}: the sampling weights add up to {total:.3g}; scale them so that their sum lies between "
            f"{1 / HUGE:.0e} and {HUGE:.0e}."
        )
    problem, people = job.problem, _people(source, columns, job.problem.domain)
    clusters = _clusters(people, n, *cluster)
    other, flip = columns["counterpart"], columns["flip_counterpart"]
    witnesses = Witnesses(x, other, columns["lower"], columns["decision"] == FLIPPABLE, flip, problem)
    local = LocalCertificate(
        columns["upper"], columns["lower"], witnesses, columns["decision"], np.empty((n, 0)), weights, job.tier,
        job.arithmetic, problem, Counterexamples(job.evidence, columns["rows"]),
    )  # fmt: skip
    start = np.append(0, np.cumsum(columns["profile_count"]))
    radius, value, passes = (columns[f"profile_{name}"] for name in PROFILE)
    profiles = Profiles(start, radius, value, float(columns["largest"].max()), passes)
    alone = None
    if "claimed_lower" in columns:
        alone = Individuals(columns["upper"], columns["claimed_lower"], columns["claimed_decision"], profiles.largest)
    owner = np.repeat(np.arange(n), columns["point_count"])
    points = Points(owner, *(columns[f"point_{name}"] for name in POINT))
    owner = np.repeat(np.arange(n), columns["turned_count"])
    turned = Points(owner, *(columns[f"turned_{name}"] for name in POINT))
    assert job.schedule is not None
    shift = job.shift.resolved(x, schema, weights)
    others = tuple(each.resolved(x, schema, weights) for each in job.shifts)
    return Certificate(
        shift, epsilon, confidence, local, profiles, points,
        _refusal(people, problem.metric, job.shift, confidence, clusters), people, job.schedule,
        clusters, source.files, computed, job.output_range if problem.model.head == "regression" else None,
        searched=job.attack is not None, shifts=others, steady=columns["steady"], alone=alone, turned=turned,
    )  # fmt: skip


def _people(source: PeopleSource, columns: Arrays, domain: Domain) -> Population | None:
    """Return the individuals as a population: the source's own, or one whose table has the protected features."""
    if isinstance(source, InMemory):
        return source.people if source.people.domain is domain else replace(source.people, domain=domain)
    if source.schema is None:
        return None
    x, rows = columns["x"], columns["rows"]
    y = columns.get("y")
    frame = source.schema.decode(x, only=source.schema.protected)
    selection = source.selection(len(x), int(columns["excluded"].sum()))
    return Population(frame, source.schema, domain, x, y, columns["weights"], rows, selection)


def checked_range(output_range: Any) -> tuple[float, float] | None:
    """Check a declared range of outputs: two finite numbers, the lower first."""
    if output_range is None:
        return None
    right = "None or two finite numbers, the lower first"
    if not isinstance(output_range, tuple | list | np.ndarray) or len(output_range) != 2:
        raise ParameterError(template("output_range", right, output_range))
    low, high = (number("output_range", end, right, -FINITE, FINITE) for end in output_range)
    if not low < high:
        raise ParameterError(template("output_range", right, output_range))
    return low, high


def _clusters(
    people: Population | None, n: int, cluster: str | npt.ArrayLike | None, max_cluster: int | None
) -> Clusters | None:
    """Check and number the clusters of the ``n`` individuals."""
    if cluster is None:
        if max_cluster is not None:
            raise ParameterError("'max_cluster' is the size of the largest 'cluster': give that too.")
        return None
    if isinstance(cluster, str):
        if people is None:
            raise ParameterError(template("cluster", "an array where the individuals are one", cluster))
        labels: Any = find_column(people.frame, cluster).to_numpy()
    else:
        labels = np.asarray(cluster)
        if labels.shape != (n,):
            raise ParameterError(template("cluster", f"a label for each of {n} individuals", f"shape {labels.shape}"))
    member, _ = pd.factorize(labels)
    if (member < 0).any():
        raise DataError(f"'cluster' has no label for individual {int(np.argmax(member < 0))}: give everybody one.")
    seen = int(np.bincount(member).max())
    expected = f"the most people that a cluster can have, known beforehand and at least {seen}, the most here"
    return Clusters(member.astype(np.int64), whole("max_cluster", max_cluster, seen, expected))


def _refusal(
    people: Population | None,
    metric: Metric,
    shift: Shift,
    confidence: float | None,
    clusters: Clusters | None,
) -> str:
    """Return why a statement about the population behind the sample cannot be made, "" where it can."""
    if confidence is None:
        return "No confidence was asked for: give 'confidence', for example 0.95."
    if not shift.infers:
        return (
            f"A certificate about {shift.covered} has no statement about the population behind these individuals: ask "
            "for all of them first, or for a shift with a gamma."
        )
    if clusters is not None and isinstance(shift, Reweighting) and not shift.alone:
        return (
            f"Individuals come in clusters, of which {shift.covered} of the population behind them say nothing: ask "
            "for all of them, or for a shift with a gamma."
        )
    if people is None:
        return ""
    if why := _dependence(people, clusters is not None):
        return why
    for name, each in (("metric", metric), ("ground metric", shift.ground_cost)):
        if each is not None and overlaps(each, people):
            return f"The {name} was fitted on {each.fitted_on}: fit it on the training part to judge the test part."
    return ""


def _dependence(people: Population, clustered: bool) -> str:
    """Return why individuals are no independent draws from a population that nothing was fitted on, "" where they
    are."""
    if not (people.split == "test" or people.selection.held_out):
        train = people.split == "train"
        return (
            f"These individuals are of the {'training part of the table' if train else 'table as given'}, on which "
            "models, metrics or schemas are fitted: a statement about the population behind them needs "
            "people that nothing was fitted on, the test part or rows that are said to be held out."
        )
    if len(people) < 2:
        return "A bound for the population needs at least two individuals."
    if people.repeated:
        return (
            "Rows of the table occur more than once among these individuals, so they are no independent draws: "
            "take each row once."
        )
    if len(np.unique(people.weights)) > 1:
        return "Individuals with unequal sampling weights are not independent draws from one population."
    # With E[w (h − μ)] = 0 bets on w / max_weight = 1 are fair for every possible draw: see isonomy.confidence.
    if people.schema.weight is not None and people.weights[0] != people.schema.max_weight:
        return (
            f"These individuals weigh alike (column {people.schema.weight!r}), but somebody who was not drawn may "
            "weigh more than all of them: only where they have the schema's 'max_weight' do they speak for others."
        )
    if clustered and people.schema.split is None and not in_train(people.rows).any():
        return (
            "These individuals were set apart row by row, so that others of their clusters may have been fitted "
            "on: name a [split] column in the schema that keeps clusters together."
        )
    if clustered and people.selection.how == "random":
        return (
            "These individuals were drawn one by one, so that their clusters are no independent draws as wholes: "
            "give the whole test part."
        )
    if not people.selection.independent:
        how = "were chosen by hand" if people.selection.how == "chosen" else "were selected in a way not known"
        return (
            f"These individuals {how}, so that they need not be independent draws from one population: give the "
            "whole test part, or a random sample of it."
        )
    return ""
